//! `varve drive show`: one drive of the pool.

use std::fmt::Write;

use clap::Args;
use serde_json::json;
use varve_access_admin::v1::{Drive, DriveCondition, DriveList, DriveWarning};
use varve_client::{Client, Result, age, table};
use varve_types::ByteCount;

use super::{condition, errors, find, number, since, size, state, used};
use crate::cli::Format;

/// Show one drive of the pool: state, errors, and what it says of itself
#[derive(Args, Debug)]
pub(crate) struct DriveShow {
    /// Its number, its path, or the beginning of its identity
    drive: String,

    #[command(flatten)]
    format: Format,
}

impl DriveShow {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let list = client.get::<DriveList>("/v1/drives")?.value;
        let drive = find(&list.drives, &self.drive)?;
        if self.format.json {
            return Ok(format!("{:#}\n", json!(drive)));
        }
        Ok(describe(drive))
    }
}

fn describe(drive: &Drive) -> String {
    let mut facts = vec![("drive", number(drive)), ("path", drive.path.clone())];
    let texts = [("identity", &drive.id), ("name", &drive.name), ("class", &drive.kind)];
    facts.extend(texts.into_iter().filter_map(|(what, it)| Some((what, it.clone()?))));
    facts.extend([
        ("state", state(drive)),
        ("since", since(drive)),
        ("size", size(drive)),
        ("used", used(drive)),
    ]);
    let growable = drive.growable_bytes.zip(drive.number);
    facts.extend(growable.map(|(bytes, number)| {
        let bytes = ByteCount(bytes);
        ("can grow", format!("by {bytes}: its file or device is larger; varve drive grow {number}"))
    }));
    facts.extend([("errors", errors(drive)), ("condition", condition(drive))]);
    let Some(condition) = &drive.condition else { return table::labelled(&facts) };
    facts.extend(of_condition(condition));
    let mut text = table::labelled(&facts);
    for DriveWarning { message, advice, .. } in &condition.warnings {
        let _ = writeln!(text, "{message}\n  {advice}");
    }
    text
}

/// What the drive says of itself.
fn of_condition(condition: &DriveCondition) -> Vec<(&'static str, String)> {
    let percent = |it: Option<u64>| it.map(|percent| format!("{percent} %"));
    let count = |it: Option<u64>| it.map(|count| count.to_string());
    let bytes = |it: Option<u64>| it.map(|bytes| ByteCount(bytes).to_string());
    let device = condition.device.as_ref().map(|device| match condition.below_file_system {
        true => format!("{device}, below the file system"),
        false => device.clone(),
    });
    let cache = condition.write_cache.as_ref().map(|cache| match cache.as_str() {
        "write back" => "write back: flushed where it has to be".to_owned(),
        other => other.to_owned(),
    });
    let spare = match (condition.spare_percent, condition.spare_threshold_percent) {
        (Some(spare), Some(least)) => Some(format!("{spare} %, and {least} % at least")),
        (spare, _) => percent(spare),
    };
    let years = match (condition.endurance_years, condition.endurance_years_now) {
        (Some(life), Some(now)) => {
            Some(format!("{life} years as written so far, {now} as written since the start"))
        }
        (Some(life), None) => Some(format!("{life} years as written so far")),
        (None, now) => now.map(|now| format!("{now} years as written since the start")),
    };
    let facts = [
        ("not known, as", condition.unknown_reason.clone()),
        ("device", device),
        ("write cache", cache),
        ("asked", condition.asked_unix_ms.map(age::since)),
        ("model", condition.model.clone()),
        ("serial", condition.serial.clone()),
        ("firmware", condition.firmware.clone()),
        ("temperature", condition.temperature_celsius.map(|it| format!("{it} °C"))),
        ("life used", percent(condition.wear_percent)),
        ("life left", years),
        ("spare", spare),
        ("media errors", count(condition.media_errors)),
        ("replaced", condition.reallocated_sectors.map(|it| format!("{it} sectors"))),
        ("unreadable", condition.pending_sectors.map(|it| format!("{it} sectors"))),
        ("written", bytes(condition.written_bytes)),
        ("to flash", bytes(condition.flash_written_bytes)),
        ("power", condition.power_on_hours.map(|it| format!("{it} hours"))),
        ("lost power", condition.unsafe_shutdowns.map(|it| format!("{it} times"))),
    ];
    facts.into_iter().filter_map(|(what, it)| Some((what, it?))).collect()
}
