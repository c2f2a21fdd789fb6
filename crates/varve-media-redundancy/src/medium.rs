//! What a drive is made of and called, as the system says. Asked once, when it becomes part of a pool.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::class::MediumKind;

/// Where the system lists block devices by their numbers.
const DEVICES: &str = "/sys/dev/block";

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
    /// That of a block device, or of the one under a file system. What the system does not say is unknown, and named by
    /// its path.
    pub(crate) fn of(path: &Path) -> Self {
        let there = path.ancestors().find_map(|path| fs::metadata(path).ok());
        let number =
            there.map(
                |found| {
                    if found.file_type().is_block_device() { found.rdev() } else { found.dev() }
                },
            );
        let device = number.and_then(device_of);
        let is_device = fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
        let named = device.as_deref().filter(|_| is_device).and_then(model_of);
        let name = named.unwrap_or_else(|| path.display().to_string());
        Self { kind: device.as_deref().map_or(MediumKind::Unknown, kind_of), name: plain(&name) }
    }
}

/// The directory of a device: that of the whole one, of a partition.
fn device_of(number: u64) -> Option<PathBuf> {
    // As the C library takes the two parts of a number apart.
    let major = ((number >> 8) & 0xfff) | ((number >> 32) & !0xfff);
    let minor = (number & 0xff) | ((number >> 12) & 0xffff_ff00);
    let found = fs::canonicalize(format!("{DEVICES}/{major}:{minor}")).ok()?;
    let is_part = found.join("partition").exists();
    if is_part { found.parent().map(Path::to_owned) } else { Some(found) }
}

fn kind_of(device: &Path) -> MediumKind {
    let is_nvme = device.file_name().is_some_and(|it| it.to_string_lossy().starts_with("nvme"));
    match (read(&device.join("queue/rotational")).as_deref(), is_nvme) {
        (Some("1"), _) => MediumKind::Hdd,
        (_, true) => MediumKind::Nvme,
        (Some("0"), false) => MediumKind::Ssd,
        (_, false) => MediumKind::Unknown,
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

    #[test]
    fn kinds_are_those_that_the_system_says() {
        let dir = tempfile::tempdir().unwrap();
        let device = |name: &str, rotational: Option<&str>| {
            let device = dir.path().join(name);
            fs::create_dir_all(device.join("queue")).unwrap();
            if let Some(text) = rotational {
                fs::write(device.join("queue/rotational"), text).unwrap();
            }
            kind_of(&device)
        };
        assert_eq!(device("sda", Some("1\n")), MediumKind::Hdd);
        assert_eq!(device("sdb", Some("0\n")), MediumKind::Ssd);
        assert_eq!(device("nvme0n1", Some("0\n")), MediumKind::Nvme);
        assert_eq!(device("sdc", None), MediumKind::Unknown);
    }
}
