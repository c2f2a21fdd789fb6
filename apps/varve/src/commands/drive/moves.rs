//! `varve drive moves`: what is moved between drives.

use clap::Args;
use varve_access_admin::v1::{DriveMoves, ZoneMove};
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};
use varve_types::ByteCount;

use crate::cli::Format;

/// Zones that a listing shows for people: the others follow them.
const SHOWN_MAX: usize = 20;

/// Show what is moved between drives: how far, how fast, and what waits
#[derive(Args, Debug)]
pub(crate) struct DriveMovesCommand {
    #[command(flatten)]
    format: Format,
}

impl DriveMovesCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.get::<DriveMoves>("/v1/moves")?;
        Ok(answer.print(self.format.json, |moves| describe(&moves)))
    }
}

fn describe(moves: &DriveMoves) -> String {
    let facts = [
        ("to move", zones(moves.zones)),
        ("moved", format!("{} since the start", zones(moves.zones_moved))),
        ("read", ByteCount(moves.bytes_read).to_string()),
        ("written", ByteCount(moves.bytes_written).to_string()),
        ("read back", ByteCount(moves.bytes_verified).to_string()),
        ("drives that go", numbers(&moves.removing)),
    ];
    let text = table::labelled(&facts);
    if moves.moves.is_empty() {
        return text;
    }
    let header = [
        ("ZONE", Align::Right),
        ("WHY", Align::Left),
        ("DONE", Align::Right),
        ("OF", Align::Right),
        ("A SECOND", Align::Right),
        ("SINCE", Align::Left),
        ("WAITS FOR", Align::Left),
    ];
    let row = |zone: &ZoneMove| {
        vec![
            zone.zone.to_string(),
            zone.why.replace('_', " "),
            ByteCount(zone.bytes_done).to_string(),
            ByteCount(zone.bytes_total).to_string(),
            ByteCount(zone.bytes_per_s).to_string(),
            age::since(zone.since_unix_ms),
            zone.waits_for.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let rows: Vec<Vec<String>> = moves.moves.iter().take(SHOWN_MAX).map(row).collect();
    let more = match moves.moves.len().saturating_sub(SHOWN_MAX) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    };
    format!("{text}\n{}{more}", table::columns(&header, &rows))
}

fn zones(count: u64) -> String {
    if count == 1 { "1 zone".to_owned() } else { format!("{count} zones") }
}

/// Numbers of drives for people.
pub(super) fn numbers(drives: &[u8]) -> String {
    if drives.is_empty() {
        return "none".to_owned();
    }
    let numbers: Vec<String> = drives.iter().map(ToString::to_string).collect();
    numbers.join(", ")
}
