//! What a drive is made of and called, as the system says. Asked once, when it becomes part of a pool.

use std::fs;
use std::path::Path;

use varve_media::{BlockDevice, BlockDevices};

use crate::class::MediumKind;

/// Bytes of a name at most.
const NAME_BYTES_MAX: usize = 64;

/// What is known of the medium of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MediumDescription {
    pub(crate) kind: MediumKind,
    /// Model and serial number of a device; the path of what lies on a file system.
    pub(crate) name: String,
}

impl MediumDescription {
    /// That of a block device, or of the one below a file system. What the system does not say is unknown, and named by
    /// its path.
    pub(crate) fn of(path: &Path) -> Self {
        let there = path.ancestors().find(|path| fs::metadata(path).is_ok());
        let device = there.and_then(|path| BlockDevices::of_this_machine().at(path).ok());
        let alone = device.as_ref().filter(|it| there == Some(path) && !it.is_below_file_system);
        let named = alone.and_then(|it| model_of(it.directory()));
        let name = named.unwrap_or_else(|| path.display().to_string());
        Self { kind: device.as_ref().map_or(MediumKind::Unknown, kind_of), name: plain(&name) }
    }
}

fn kind_of(device: &BlockDevice) -> MediumKind {
    match (device.is_rotational(), device.name.starts_with("nvme")) {
        (Some(true), _) => MediumKind::Hdd,
        (_, true) => MediumKind::Nvme,
        (Some(false), false) => MediumKind::Ssd,
        (None, false) => MediumKind::Unknown,
    }
}

fn model_of(device: &Path) -> Option<String> {
    let parts = ["device/model", "device/serial"].map(|file| read(&device.join(file)));
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn read(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// As a record may have it: without control characters, of a length; of a long path the end tells more.
fn plain(name: &str) -> String {
    let text: String = name.chars().filter(|letter| !letter.is_control()).collect();
    let begins =
        (0..text.len()).find(|at| text.is_char_boundary(*at) && text.len() - at <= NAME_BYTES_MAX);
    text.get(begins.unwrap_or(text.len())..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_a_record() {
        assert_eq!(plain("Model X\n 123"), "Model X 123");
        let long = plain(&format!("/{}ü", "a".repeat(80)));
        assert!(long.len() <= NAME_BYTES_MAX && long.ends_with("aü"), "{long}");
        assert_eq!(plain(&"ü".repeat(40)), "ü".repeat(32));
        assert_eq!(plain(""), "");
    }

    #[test]
    fn what_lies_on_a_file_system_is_named_by_its_path() {
        let found = MediumDescription::of(Path::new("/proc/varve-nowhere/drive"));
        assert_eq!(found.name, "/proc/varve-nowhere/drive");
        assert_eq!(found.kind, MediumKind::Unknown, "no device is under it");
    }
}
