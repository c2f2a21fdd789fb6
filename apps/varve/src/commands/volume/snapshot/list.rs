//! `varve volume snapshot list`: snapshots of one volume, or of all.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;
use varve_access_admin::v1::{self, SnapshotPage};
use varve_access_admin::{percent_encoded, volume_path};
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};
use varve_types::ByteCount;

use crate::cells;
use crate::cli::Format;

const NO_SNAPSHOTS: &str =
    "no snapshots; take one with `varve volume snapshot create VOLUME@NAME`\n";

/// List snapshots, of one volume or of all
#[derive(Args, Debug)]
pub(crate) struct SnapshotList {
    /// Only snapshots of this volume
    volume: Option<String>,

    /// Show how much each snapshot holds, and what deleting it frees; scans the whole pool
    #[arg(long, requires = "volume")]
    space: bool,

    #[command(flatten)]
    format: Format,
}

impl SnapshotList {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        if let Some(volume) = self.volume.as_deref().filter(|_| self.space) {
            let path = format!("{}/space", volume_path(volume));
            let answer = client.counted::<v1::VolumeFamily>(&path)?;
            return Ok(answer.print(self.format.json, |family| describe_space(&family.snapshots)));
        }
        let of = self.volume.as_deref().map(percent_encoded);
        let of = of.map_or_else(String::new, |volume| format!("&volume={volume}"));
        let (mut snapshots, mut missing) = (Vec::new(), BTreeSet::new());
        let mut after = String::new();
        loop {
            let page =
                client.get::<SnapshotPage>(&format!("/v1/snapshots?limit=1000{of}{after}"))?;
            snapshots.extend(page.value.snapshots);
            missing.extend(page.value.missing_cells);
            match page.value.next {
                Some(next) => after = format!("&after={}", percent_encoded(&next)),
                None => break,
            }
        }
        if self.format.json {
            return Ok(cells::listed("snapshots", json!(snapshots), &missing));
        }
        if snapshots.is_empty() && missing.is_empty() {
            return Ok(NO_SNAPSHOTS.to_owned());
        }
        let rows: Vec<Vec<String>> = snapshots.iter().map(row).collect();
        let header = [
            ("NAME", Align::Left),
            ("SIZE", Align::Right),
            ("PROTECTED", Align::Left),
            ("CREATED", Align::Right),
        ];
        Ok(table::columns(&header, &rows) + &cells::without(&missing))
    }
}

fn describe_space(snapshots: &[v1::SnapshotSpace]) -> String {
    if snapshots.is_empty() {
        return NO_SNAPSHOTS.to_owned();
    }
    let amounts = |snapshot: &v1::SnapshotSpace| {
        let v1::SnapshotSpace { size_bytes, logical_bytes, referenced_bytes, .. } = *snapshot;
        let (unique, freed) = (snapshot.unique_bytes, snapshot.freed_bytes);
        [size_bytes, logical_bytes, referenced_bytes, unique, freed]
    };
    let row = |snapshot: &v1::SnapshotSpace| {
        let amounts = amounts(snapshot).map(|bytes| ByteCount(bytes).to_string());
        std::iter::once(snapshot.name.clone()).chain(amounts).collect()
    };
    let rows: Vec<Vec<String>> = snapshots.iter().map(row).collect();
    let titles = ["SIZE", "LOGICAL", "REFERENCED", "UNIQUE", "FREED"];
    let mut header = vec![("NAME", Align::Left)];
    header.extend(titles.map(|title| (title, Align::Right)));
    table::columns(&header, &rows)
}

fn row(snapshot: &v1::Snapshot) -> Vec<String> {
    vec![
        snapshot.name.clone(),
        ByteCount(snapshot.size_bytes).to_string(),
        table::on_off(snapshot.protected).to_owned(),
        age::since(snapshot.created_unix_ms),
    ]
}
