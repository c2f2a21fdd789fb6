//! The light at the bay of a drive: by the enclosure that the kernel knows, or by `ledctl`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use varve_access_admin::v1::DriveLight;
use varve_access_admin::{Error, Result};
use varve_media::{BlockDevice, BlockDevices};
use varve_types::ErrorKind;

use super::program::{self, ProgramFailure};

/// How long `ledctl` may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How long all of it may take.
const ALL_MAX: Duration = Duration::from_secs(15);
/// What to do where there is no light.
const HINT: &str =
    "look for the serial number, which `varve drive show` has, on the labels of drives";

/// Lights the light of the drive at a path, or puts it out.
pub(crate) async fn change(path: String, on: bool) -> Result<DriveLight> {
    let (sender, outcome) = oneshot::channel();
    // CONDITION-2
    let work = move || drop(sender.send(change_now(Path::new(&path), on)));
    let spawned = thread::Builder::new().name("light".to_owned()).spawn(work);
    spawned.map_err(|error| refusal(ErrorKind::Unavailable, format!("start a thread: {error}")))?;
    match tokio::time::timeout(ALL_MAX, outcome).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) | Err(_) => {
            Err(refusal(ErrorKind::Unavailable, "the drive's device does not answer".to_owned()))
        }
    }
}

fn change_now(path: &Path, on: bool) -> Result<DriveLight> {
    let device = BlockDevices::of_this_machine().below(path);
    let device = device.map_err(|reason| refusal(ErrorKind::Unsupported, reason))?;
    let by = match enclosure_light(Path::new("/sys/class/enclosure"), &device.name) {
        Some(light) => write(&light, on)?,
        None => ledctl(&device, on)?,
    };
    Ok(DriveLight { device: device.path().display().to_string(), on, by })
}

/// The file by which the light of a device's slot is changed.
fn enclosure_light(enclosures: &Path, device: &str) -> Option<PathBuf> {
    let entries = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let slots = entries(enclosures).into_iter().flat_map(|enclosure| entries(&enclosure));
    let of_device = slots.filter(|slot| slot.join("device/block").join(device).exists());
    let mut lights = of_device.map(|slot| slot.join("locate"));
    lights.find(|light| light.exists())
}

fn write(light: &Path, on: bool) -> Result<String> {
    fs::write(light, if on { "1" } else { "0" }).map_err(|error| {
        refusal(ErrorKind::Unsupported, format!("write to {}: {error}", light.display()))
    })?;
    Ok(light.display().to_string())
}

fn ledctl(device: &BlockDevice, on: bool) -> Result<String> {
    let device = device.path();
    let Some(program) = program::find("ledctl") else {
        let what = format!(
            "no light of {} is known: no enclosure of the kernel has it, and ledctl is not installed (package ledmon)",
            device.display()
        );
        return Err(refusal(ErrorKind::Unsupported, what));
    };
    let what = format!("{}={}", if on { "locate" } else { "locate_off" }, device.display());
    match program::run(&program, &[&what], LIMIT) {
        Ok(output) if output.has_succeeded => Ok(format!("ledctl {what}")),
        Ok(_) => {
            let what = format!("`ledctl {what}` failed: it knows no light of the drive");
            Err(refusal(ErrorKind::Unsupported, what))
        }
        Err(ProgramFailure::Io(error)) => {
            Err(refusal(ErrorKind::Unsupported, format!("{}: {error}", program.display())))
        }
        Err(ProgramFailure::Late(_)) => {
            Err(refusal(ErrorKind::Unavailable, "ledctl did not end in time".to_owned()))
        }
    }
}

fn refusal(kind: ErrorKind, message: String) -> Error {
    Error::Backend { kind, message, hint: Some(HINT.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_light_is_that_of_the_slot_with_the_device() {
        let dir = tempfile::tempdir().unwrap();
        for (slot, device) in [("Slot 00", "sda"), ("Slot 01", "sdb")] {
            let slot = dir.path().join("0:0:8:0").join(slot);
            fs::create_dir_all(slot.join("device/block").join(device)).unwrap();
            fs::write(slot.join("locate"), "0\n").unwrap();
        }
        let light = |name| enclosure_light(dir.path(), name);
        let second = light("sdb").unwrap();
        assert!(second.ends_with("Slot 01/locate"), "{second:?}");
        assert_eq!(light("sdc"), None);
        assert_eq!(enclosure_light(Path::new("/nowhere"), "sda"), None);
        write(&second, true).unwrap();
        assert_eq!(fs::read_to_string(&second).unwrap(), "1");
    }
}
