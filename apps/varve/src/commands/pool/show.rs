//! `varve pool show`: the pool's drives and how full they are.

use std::fmt::Write;

use clap::Args;
use varve_access_admin::v1;
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};
use varve_types::ByteCount;

use crate::cells;
use crate::cli::Format;
use crate::commands::drive::{errors, size, state};

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
    let mut facts = vec![
        ("pool", pool.id.clone()),
        ("created", age::since(pool.created_unix_ms)),
        ("shards", pool.shards.to_string()),
        ("segment size", ByteCount(pool.segment_size_bytes).to_string()),
        ("size", ByteCount(pool.size_bytes).to_string()),
        ("capacity", ByteCount(pool.capacity_bytes).to_string()),
        ("used", format!("{} ({percent} %)", ByteCount(pool.used_bytes))),
        ("free", ByteCount(pool.free_bytes).to_string()),
    ];
    if let Some(protect) = pool.protect.as_ref().filter(|_| is_protected(pool)) {
        let raw = pool.raw_bytes.map(|bytes| format!(" of {} raw", ByteCount(bytes)));
        facts.push(("protect", format!("{protect}{}", raw.unwrap_or_default())));
        let survives = pool.survives.map_or_else(
            || "something cannot be read: see `varve health`".to_owned(),
            |drives| format!("the loss of {drives} more drives"),
        );
        facts.push(("survives", survives));
        facts.extend(pool.data_class.clone().map(|classes| ("data class", classes)));
        let met = if pool.journal_class_met == Some(false) {
            ", not met: see `varve health`"
        } else {
            ""
        };
        let journals = pool.journal_class.as_ref().map(|classes| format!("{classes}{met}"));
        facts.extend(journals.map(|classes| ("journal class", classes)));
        if let Some(zones) = pool.unconverted_zones {
            let how = format!("{zones} zones: `varve drive moves` shows how far that is");
            facts.push(("to convert", how));
        }
    }
    let mut text = table::labelled(&facts);
    text.push_str(&cells::without(&pool.missing_cells));
    let row = |drive: &v1::Drive| vec![drive.path.clone(), size(drive), errors(drive)];
    let mut rows: Vec<Vec<String>> = pool.drives.iter().map(row).collect();
    let mut header = vec![("DRIVE", Align::Left), ("SIZE", Align::Right), ("ERRORS", Align::Left)];
    if is_protected(pool) {
        header.push(("STATE", Align::Left));
        for (row, drive) in rows.iter_mut().zip(&pool.drives) {
            row.push(state(drive));
        }
    }
    let _ = write!(text, "\n{}", table::columns(&header, &rows));
    if is_joined(&pool.drives) && !is_protected(pool) {
        let _ = writeln!(text, "\nno redundancy: the loss of one drive loses the pool");
    }
    text
}

/// Whether it keeps data over its drives so that one may be lost, or is on its way from or to that.
fn is_protected(pool: &v1::Pool) -> bool {
    pool.protect.as_ref().is_some_and(|protect| protect != "none")
        || pool.unconverted_zones.is_some()
}

/// Whether each of several drives has a part of the pool. What is in RADOS has copies there.
fn is_joined(drives: &[v1::Drive]) -> bool {
    drives.iter().filter(|drive| !drive.path.starts_with("rados:")).count() > 1
}
