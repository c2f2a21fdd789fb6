//! Asks all drives, time and again, and says in the log what changes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use varve_access_admin::v1::{Drive, DriveCondition};
use varve_client::age::now_unix_ms;
use varve_media::BlockDevices;

use super::endurance::{DriveWear, WriteRate};
use super::smart::SmartReport;
use super::smartctl::Smartctl;
use super::table::{DriveConditions, unknown};
use super::warnings::warnings;
use crate::drive_changes;
use crate::redundancy::DriveRedundancy;

/// Pause between two looks whether the pool has other drives.
const PAUSE: Duration = Duration::from_secs(1);

/// The drives that are asked.
pub(crate) struct AskedDrives {
    pub(crate) conditions: DriveConditions,
    pub(crate) redundancy: DriveRedundancy,
    /// Those that the data directory remembers.
    pub(crate) remembered: Vec<Drive>,
}

/// Asks the drives for as long as the pool is served. Nothing here waits for one (CONDITION-2).
pub(crate) async fn watch(drives: AskedDrives) -> Infallible {
    let AskedDrives { conditions, redundancy, remembered } = drives;
    let started = conditions.interval().map(|interval| start(conditions.clone(), interval));
    let lists = match started {
        Some(Ok(lists)) => lists,
        Some(Err(error)) => {
            tracing::warn!(%error, "drives are not asked for their condition");
            return std::future::pending().await;
        }
        None => return std::future::pending().await,
    };
    let (mut asked, mut left) = (Vec::new(), BTreeMap::new());
    loop {
        let paths = redundancy.paths(&remembered);
        if paths != asked && lists.try_send(paths.clone()).is_ok() {
            conditions.begin(&paths);
            asked = paths;
            left.retain(|_, may_leave| *may_leave); // Where a drive could not leave, it may now.
        }
        if conditions.leaves_on_warning() {
            leave(&conditions, &redundancy, &mut left).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Has drives leave that warn of their end. Each does so once, as operators may decide otherwise; `left` says of those
/// that were asked to whether they could.
async fn leave(
    conditions: &DriveConditions,
    redundancy: &DriveRedundancy,
    left: &mut BTreeMap<u8, bool>,
) {
    let Ok(pool) = redundancy.pool() else { return };
    for (number, path) in redundancy.live_drives() {
        let warnings = conditions.of(&path).map(|it| it.warnings).unwrap_or_default();
        let Some(warning) = warnings.into_iter().find(|it| it.is_critical) else { continue };
        if left.contains_key(&number) {
            continue;
        }
        let drained = drive_changes::drain(pool, number.to_string(), None).await;
        left.insert(number, drained.is_ok());
        match drained {
            Ok(_) => tracing::warn!(drive = number, path, why = warning.message, "a drive leaves"),
            Err(error) => {
                tracing::warn!(drive = number, path, why = warning.message, %error, "a drive cannot leave");
            }
        }
    }
}

/// Starts the thread; it ends with the sender of lists of drives.
fn start(conditions: DriveConditions, interval: Duration) -> io::Result<SyncSender<Vec<String>>> {
    let (sender, lists) = mpsc::sync_channel(1);
    let ask = move || ask_all(&conditions, interval, &lists);
    thread::Builder::new().name("conditions".to_owned()).spawn(ask)?;
    Ok(sender)
}

fn ask_all(conditions: &DriveConditions, interval: Duration, lists: &Receiver<Vec<String>>) {
    let (mut paths, mut drives) = (Vec::new(), BTreeMap::<String, AskedDrive>::new());
    loop {
        match lists.recv_timeout(interval) {
            Ok(list) => paths = list,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        drives.retain(|path, _| paths.contains(path));
        for path in &paths {
            let now = drives.entry(path.clone()).or_default().look(Path::new(path));
            if let Some(before) = conditions.set(path, now.clone()) {
                log_changes(path, &before, &now);
            }
        }
    }
}

/// What is remembered of a drive between looks.
#[derive(Debug, Default)]
struct AskedDrive {
    smartctl: Smartctl,
    /// The first report of the same device.
    first: Option<SmartReport>,
    /// The device, when it was looked at first, and what was written to it by then.
    began: Option<(String, Instant, u64)>,
}

impl AskedDrive {
    fn look(&mut self, path: &Path) -> DriveCondition {
        let device = match BlockDevices::of_this_machine().below(path) {
            Ok(device) => device,
            Err(reason) => return unknown(reason),
        };
        let rate = device.written_bytes().and_then(|bytes| self.rate(&device.name, bytes));
        let about = DriveCondition {
            device: Some(device.path().display().to_string()),
            below_file_system: device.is_below_file_system,
            write_cache: device.write_cache(),
            asked_unix_ms: Some(now_unix_ms()),
            ..DriveCondition::default()
        };
        match self.smartctl.ask(&device.path()) {
            Ok(report) => self.judge(report, rate, about),
            Err(reason) => DriveCondition { unknown_reason: Some(reason), ..about },
        }
    }

    /// What was written to the device since the first look at it.
    fn rate(&mut self, device: &str, written_bytes: u64) -> Option<WriteRate> {
        match &self.began {
            Some((name, at, before)) if name == device && *before <= written_bytes => {
                let hours = at.elapsed().as_secs_f64() / 3600.0;
                Some(WriteRate { bytes: written_bytes - before, hours })
            }
            _ => {
                self.began = Some((device.to_owned(), Instant::now(), written_bytes));
                None
            }
        }
    }

    fn judge(
        &mut self,
        report: SmartReport,
        rate: Option<WriteRate>,
        about: DriveCondition,
    ) -> DriveCondition {
        if self.first.as_ref().is_some_and(|first| first.serial != report.serial) {
            self.first = None;
        }
        let first = self.first.get_or_insert_with(|| report.clone());
        let warnings = warnings(first, &report);
        let wear = report.wear_percent.zip(report.power_on_hours);
        let wear = wear.map(|(wear_percent, power_on_hours)| DriveWear {
            wear_percent,
            power_on_hours,
            written_bytes: report.written_bytes,
        });
        DriveCondition {
            known: true,
            model: report.model,
            serial: report.serial,
            firmware: report.firmware,
            temperature_celsius: report.temperature_celsius,
            wear_percent: report.wear_percent,
            spare_percent: report.spare_percent,
            spare_threshold_percent: report.spare_threshold_percent,
            media_errors: report.media_errors,
            reallocated_sectors: report.reallocated_sectors,
            pending_sectors: report.pending_sectors,
            unsafe_shutdowns: report.unsafe_shutdowns,
            power_on_hours: report.power_on_hours,
            written_bytes: report.written_bytes,
            flash_written_bytes: report.flash_written_bytes,
            endurance_years: wear.and_then(|wear| wear.years()),
            endurance_years_now: wear.zip(rate).and_then(|(wear, rate)| wear.years_at(rate)),
            warnings,
            ..about
        }
    }
}

fn log_changes(drive: &str, before: &DriveCondition, now: &DriveCondition) {
    if now.unknown_reason != before.unknown_reason {
        match &now.unknown_reason {
            Some(reason) => tracing::info!(drive, reason, "the condition of a drive is not known"),
            None => {
                let device = now.device.as_deref().unwrap_or_default();
                tracing::info!(drive, device, "the condition of a drive is known");
            }
        }
    }
    let is_in = |all: &DriveCondition, kind: &str| all.warnings.iter().any(|it| it.kind == kind);
    for warning in now.warnings.iter().filter(|it| !is_in(before, &it.kind)) {
        tracing::warn!(drive, advice = warning.advice, "a drive warns: {}", warning.message);
    }
    for warning in before.warnings.iter().filter(|it| now.known && !is_in(now, &it.kind)) {
        tracing::info!(drive, "a drive warns no more: {}", warning.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_from_the_first_report_of_a_device() {
        let mut asked = AskedDrive::default();
        let report = |serial: &str, media_errors| SmartReport {
            serial: Some(serial.to_owned()),
            media_errors: Some(media_errors),
            ..SmartReport::default()
        };
        let mut kinds = |report| {
            let judged = asked.judge(report, None, DriveCondition::default());
            assert!(judged.known);
            judged.warnings.into_iter().map(|it| it.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(report("a", 5)), [""; 0]);
        assert_eq!(kinds(report("a", 6)), ["media_errors"]);
        assert_eq!(kinds(report("a", 6)), ["media_errors"], "it goes on");
        assert_eq!(kinds(report("b", 9)), [""; 0], "another device at the same place");
    }

    #[test]
    fn what_is_written_counts_from_the_first_look_at_a_device() {
        let mut asked = AskedDrive::default();
        assert_eq!(asked.rate("sda", 1000), None);
        assert_eq!(asked.rate("sda", 5000).map(|it| it.bytes), Some(4000));
        assert_eq!(asked.rate("sdb", 9000), None, "another device");
        assert_eq!(asked.rate("sdb", 10), None, "it came back, and counts anew");
    }

    #[test]
    fn a_path_that_is_not_there_is_not_known() {
        let look = AskedDrive::default().look(Path::new("/nowhere/at/all"));
        assert!(!look.known && look.unknown_reason.unwrap().contains("/nowhere"));
    }
}
