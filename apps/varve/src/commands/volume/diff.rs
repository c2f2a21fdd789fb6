//! `varve volume diff`: which parts of a volume changed since a snapshot.

use clap::Args;
use serde_json::json;
use varve_client::table::{self, Align};
use varve_client::{Client, Extents, Result};
use varve_types::ByteCount;

use crate::cli::Format;

/// Show which parts of a volume changed since a snapshot
#[derive(Args, Debug)]
#[command(
    after_help = "What is not shown is equal. Costs what changed, not what is there; parts are whole blocks of 4 KiB."
)]
pub(crate) struct Diff {
    /// Name of the volume
    volume: String,

    /// Snapshot to compare with; only its name, without the volume
    #[arg(long, value_name = "SNAPSHOT")]
    from: String,

    /// Snapshot to compare up to [default: the current contents]
    #[arg(long, value_name = "SNAPSHOT")]
    to: Option<String>,

    #[command(flatten)]
    format: Format,
}

impl Diff {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let Self { volume, from, to, format } = self;
        let name = to.map_or_else(|| volume.clone(), |to| format!("{volume}@{to}"));
        let mut all = Vec::new();
        for extent in Extents::new(client, &name, Some(&from), 0) {
            all.push(extent?);
        }
        let changed_bytes: u64 = all.iter().map(|extent| extent.len).sum();
        if format.json {
            let json = json!({ "extents": all, "changed_bytes": changed_bytes });
            return Ok(format!("{json:#}\n"));
        }
        if all.is_empty() {
            return Ok(format!("no differences between {volume}@{from} and {name}\n"));
        }
        let rows: Vec<Vec<String>> = all
            .iter()
            .map(|extent| vec![extent.offset.to_string(), extent.len.to_string()])
            .collect();
        let header = [("OFFSET", Align::Right), ("BYTES", Align::Right)];
        let total = ByteCount(changed_bytes);
        Ok(format!("{}{total} may differ\n", table::columns(&header, &rows)))
    }
}
