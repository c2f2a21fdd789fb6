//! `varve pool show`: the pool's drives and how full they are.

use std::fmt::Write;

use clap::Args;
use varve_access_admin::v1;
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};
use varve_types::ByteCount;

use crate::cells;
use crate::cli::Format;

/// Show the pool, its drives and how full it is
#[derive(Args, Debug)]
pub(crate) struct PoolShow {
    #[command(flatten)]
    format: Format,
}

impl PoolShow {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.get::<v1::Pool>("/v1/pool")?;
        Ok(answer.print(self.format.json, |pool| describe(&pool)))
    }
}

fn describe(pool: &v1::Pool) -> String {
    let percent = pool.used_bytes.saturating_mul(100) / pool.capacity_bytes.max(1);
    let mut text = table::labelled(&[
        ("pool", pool.id.clone()),
        ("created", age::since(pool.created_unix_ms)),
        ("shards", pool.shards.to_string()),
        ("segment size", ByteCount(pool.segment_size_bytes).to_string()),
        ("size", ByteCount(pool.size_bytes).to_string()),
        ("capacity", ByteCount(pool.capacity_bytes).to_string()),
        ("used", format!("{} ({percent} %)", ByteCount(pool.used_bytes))),
        ("free", ByteCount(pool.free_bytes).to_string()),
    ]);
    text.push_str(&cells::without(&pool.missing_cells));
    let row = |drive: &v1::Drive| vec![drive.path.clone(), size(drive), errors(drive)];
    let rows: Vec<Vec<String>> = pool.drives.iter().map(row).collect();
    let header = [("DRIVE", Align::Left), ("SIZE", Align::Right), ("ERRORS", Align::Left)];
    let _ = write!(text, "\n{}", table::columns(&header, &rows));
    if is_joined(&pool.drives) {
        let _ = writeln!(text, "\nno redundancy: the loss of one drive loses the pool");
    }
    text
}

/// Whether each of several drives has a part of the pool. What is in RADOS has copies there.
fn is_joined(drives: &[v1::Drive]) -> bool {
    drives.iter().filter(|drive| !drive.path.starts_with("rados:")).count() > 1
}

fn errors(drive: &v1::Drive) -> String {
    match (drive.read_errors, drive.write_errors) {
        (0, 0) => "none".to_owned(),
        (reads, writes) => format!("{reads} reads, {writes} writes"),
    }
}

fn size(drive: &v1::Drive) -> String {
    drive.size_bytes.map_or_else(|| "all".to_owned(), |bytes| ByteCount(bytes).to_string())
}
