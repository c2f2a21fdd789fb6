//! `varve volume list`: every volume, by name.

use std::collections::BTreeSet;

use clap::Args;
use serde_json::json;
use varve_access_admin::percent_encoded;
use varve_access_admin::v1::{self, VolumePage};
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};
use varve_types::ByteCount;

use crate::cells;
use crate::cli::Format;
use crate::commands::df;

const NO_VOLUMES: &str = "no volumes; create one with `varve volume create NAME --size 20GiB`\n";

/// List the volumes
#[derive(Args, Debug)]
pub(crate) struct VolumeList {
    /// Show how much each volume holds, and what deleting it frees; scans the whole pool
    #[arg(long)]
    space: bool,

    #[command(flatten)]
    format: Format,
}

impl VolumeList {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        if self.space {
            return self.list_space(client);
        }
        let (mut volumes, mut missing) = (Vec::new(), BTreeSet::new());
        let mut path = "/v1/volumes".to_owned();
        loop {
            let page = client.get::<VolumePage>(&path)?.value;
            volumes.extend(page.volumes);
            missing.extend(page.missing_cells);
            match page.next {
                Some(after) => path = format!("/v1/volumes?after={}", percent_encoded(&after)),
                None => break,
            }
        }
        if self.format.json {
            return Ok(cells::listed("volumes", json!(volumes), &missing));
        }
        if volumes.is_empty() && missing.is_empty() {
            return Ok(NO_VOLUMES.to_owned());
        }
        let mut rows: Vec<Vec<String>> = volumes.iter().map(row).collect();
        let mut header = vec![
            ("NAME", Align::Left),
            ("SIZE", Align::Right),
            ("BLOCK", Align::Right),
            ("CLIENTS", Align::Right),
            ("CREATED", Align::Right),
        ];
        if volumes.iter().any(|volume| volume.reserved_bytes.is_some()) {
            header.push(("RESERVED", Align::Right));
            header.push(("UNBACKED", Align::Right));
            let shown = |bytes: Option<u64>| {
                bytes.map_or_else(|| "-".to_owned(), |it| ByteCount(it).to_string())
            };
            for (row, volume) in rows.iter_mut().zip(&volumes) {
                row.push(shown(volume.reserved_bytes));
                row.push(shown(volume.outstanding_bytes));
            }
        }
        if volumes.iter().any(|volume| volume.cell.is_some()) {
            header.push(("CELL", Align::Right));
            for (row, volume) in rows.iter_mut().zip(&volumes) {
                row.push(volume.cell.map_or_else(|| "-".to_owned(), |cell| cell.to_string()));
            }
        }
        Ok(table::columns(&header, &rows) + &cells::without(&missing))
    }

    fn list_space(self, client: &Client) -> Result<String> {
        let space = client.counted::<v1::Space>("/v1/space")?.value;
        let missing = &space.missing_cells;
        if self.format.json {
            return Ok(cells::listed("volumes", json!(space.volumes), missing));
        }
        if space.volumes.is_empty() && missing.is_empty() {
            return Ok(NO_VOLUMES.to_owned());
        }
        Ok(df::volumes(&space.volumes) + &cells::without(missing))
    }
}

fn row(volume: &v1::Volume) -> Vec<String> {
    vec![
        volume.name.clone(),
        ByteCount(volume.size_bytes).to_string(),
        ByteCount(u64::from(volume.block_size_bytes)).to_string(),
        volume.openers.to_string(),
        age::since(volume.created_unix_ms),
    ]
}
