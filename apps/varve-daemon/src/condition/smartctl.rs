//! Asks a drive by `smartctl`, within limits.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use super::intel::{self, IntelLog};
use super::program::{self, ProgramFailure};
use super::smart::SmartReport;

/// How long smartctl may take: a drive under load may answer late.
const LIMIT: Duration = Duration::from_secs(20);
/// All that drives say, as compact JSON; `ssd` adds how worn they are.
const ARGUMENTS: [&str; 4] = ["--json=c", "-a", "-l", "ssd"];

/// What asks one drive.
#[derive(Debug, Default)]
pub(super) struct Smartctl {
    /// One that was killed and has not ended.
    unended: Option<Child>,
}

impl Smartctl {
    /// What a device says of itself.
    ///
    /// # Errors
    /// Why it says nothing, for people.
    pub(super) fn ask(&mut self, device: &Path) -> Result<SmartReport, String> {
        let Some(program) = program::find("smartctl") else {
            return Err("smartctl is not installed: install smartmontools".to_owned());
        };
        let mut report = SmartReport::parse(&self.run(&program, device, &ARGUMENTS)?)?;
        if IntelLog::is_of(report.vendor) {
            // Not all drives of the vendor have it.
            let log = self.run(&program, device, &intel::ARGUMENTS).unwrap_or_default();
            let log = IntelLog::parse(&log);
            report.flash_written_bytes = log.flash_written_bytes;
            report.reallocated_sectors = log.failed_blocks;
            report.media_errors = match (report.media_errors, log.end_to_end_errors) {
                (Some(media), Some(more)) => Some(media.saturating_add(more)),
                (media, more) => media.or(more),
            };
        }
        Ok(report)
    }

    /// CONDITION-2
    fn run(&mut self, program: &Path, device: &Path, how: &[&str]) -> Result<Vec<u8>, String> {
        if let Some(child) = &mut self.unended {
            match child.try_wait() {
                Ok(Some(_)) => self.unended = None,
                Ok(None) | Err(_) => {
                    return Err("smartctl was killed and has not ended: the drive hangs".to_owned());
                }
            }
        }
        let Some(device) = device.to_str() else {
            return Err("the name of its device is not text".to_owned());
        };
        let arguments = [how, &[device]].concat();
        match program::run(program, &arguments, LIMIT) {
            Ok(output) => Ok(output.bytes), // Its exit code is in the output.
            Err(ProgramFailure::Io(error)) => Err(format!("{}: {error}", program.display())),
            Err(ProgramFailure::Late(child)) => {
                self.unended = child;
                let limit = LIMIT.as_secs();
                Err(format!("smartctl did not end within {limit} s: the drive hangs, or is busy"))
            }
        }
    }
}
