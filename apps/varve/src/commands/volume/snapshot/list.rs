//! `varve volume snapshot list`: snapshots of one volume, or of all.

use clap::Args;
use serde_json::json;
use varve_access_admin::v1::{self, SnapshotPage};
use varve_types::ByteCount;

use crate::age;
use crate::cli::{self, Format};
use crate::client::{Client, percent_encoded};
use crate::failure::Result;
use crate::table::{self, Align};

/// List snapshots, of one volume or of all
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only snapshots of this volume
    volume: Option<String>,

    #[command(flatten)]
    format: Format,
}

impl List {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let of = self.volume.as_deref().map(percent_encoded);
        let of = of.map_or_else(String::new, |volume| format!("&volume={volume}"));
        let mut snapshots = Vec::new();
        let mut after = String::new();
        loop {
            let page =
                client.get::<SnapshotPage>(&format!("/v1/snapshots?limit=1000{of}{after}"))?;
            snapshots.extend(page.value.snapshots);
            match page.value.next {
                Some(next) => after = format!("&after={}", percent_encoded(&next)),
                None => break,
            }
        }
        if self.format.json {
            return Ok(format!("{:#}\n", json!({ "snapshots": snapshots })));
        }
        if snapshots.is_empty() {
            return Ok("no snapshots; take one with `varve volume snapshot create VOLUME@NAME`\n"
                .to_owned());
        }
        let rows: Vec<Vec<String>> = snapshots.iter().map(row).collect();
        let header = [
            ("NAME", Align::Left),
            ("SIZE", Align::Right),
            ("PROTECTED", Align::Left),
            ("CREATED", Align::Right),
        ];
        Ok(table::columns(&header, &rows))
    }
}

fn row(snapshot: &v1::Snapshot) -> Vec<String> {
    vec![
        snapshot.name.clone(),
        ByteCount(snapshot.size_bytes).to_string(),
        cli::on_off(snapshot.protected).to_owned(),
        age::since(snapshot.created_unix_ms),
    ]
}
