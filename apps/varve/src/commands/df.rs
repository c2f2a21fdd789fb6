//! `varve df`: what is stored, for which volumes and buckets, and what reduction gave.

use std::fmt::Write;

use clap::Args;
use varve_access_admin::v1;
use varve_client::table::{self, Align};
use varve_client::{Client, Result};
use varve_types::ByteCount;

use crate::cells;
use crate::cli::Format;
use crate::commands::status::fullness;

/// Show space used, and space saved by dedup and compression
#[derive(Args, Debug)]
pub(crate) struct Df {
    #[command(flatten)]
    format: Format,
}

impl Df {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let answer = client.counted::<v1::Space>("/v1/space")?;
        Ok(answer.print(self.format.json, |space| describe(&space)))
    }
}

fn describe(space: &v1::Space) -> String {
    let percent = space.used_bytes.saturating_mul(100) / space.capacity_bytes.max(1);
    let (logical, unique, stored) = (space.logical_bytes, space.unique_bytes, space.stored_bytes);
    let mut amounts = vec![
        ("size", ByteCount(space.size_bytes).to_string()),
        ("capacity", ByteCount(space.capacity_bytes).to_string()),
        ("used", format!("{} ({percent} %)", ByteCount(space.used_bytes))),
        ("free", ByteCount(space.free_bytes).to_string()),
        ("logical", ByteCount(logical).to_string()),
        ("unique", ByteCount(unique).to_string()),
        ("stored", ByteCount(stored).to_string()),
        ("waiting", ByteCount(space.waiting_bytes).to_string()),
        ("metadata", ByteCount(space.metadata_bytes).to_string()),
        ("dedup ratio", ratio(logical, unique)),
        ("compression ratio", ratio(unique, stored)),
        ("reduction ratio", ratio(logical, stored)),
    ];
    if space.reserved_bytes > 0 {
        let (reserved, outstanding) = (space.reserved_bytes, space.outstanding_bytes);
        let reserved = format!("{} ({} not held yet)", ByteCount(reserved), ByteCount(outstanding));
        amounts.insert(4, ("reserved", reserved));
    }
    let mut text = table::labelled(&amounts);
    text.push_str(&fullness(&space.fill));
    text.push_str(&cells::without(&space.missing_cells));
    text.push_str(&cells::table(&space.cells));
    if !space.volumes.is_empty() {
        let _ = write!(text, "\n{}", volumes(&space.volumes));
    }
    if !space.buckets.is_empty() {
        let _ = write!(text, "\n{}", buckets(&space.buckets));
    }
    text
}

/// What each volume holds, and what deleting it frees.
pub(crate) fn volumes(volumes: &[v1::VolumeSpace]) -> String {
    let rows: Vec<Vec<String>> = volumes.iter().map(row).collect();
    let titles = ["SIZE", "LOGICAL", "REFERENCED", "FREED", "SNAPSHOTS", "SNAPS FREE", "BOTH FREE"];
    let mut header = vec![("VOLUME", Align::Left)];
    header.extend(titles.map(|title| (title, Align::Right)));
    table::columns(&header, &rows)
}

fn buckets(buckets: &[v1::BucketSpace]) -> String {
    let rows: Vec<Vec<String>> = buckets.iter().map(bucket_row).collect();
    let titles = ["LOGICAL", "DISTINCT", "REFERENCED", "FREED", "DEDUP", "COMPRESSION"];
    let mut header = vec![("BUCKET", Align::Left)];
    header.extend(titles.map(|title| (title, Align::Right)));
    table::columns(&header, &rows)
}

fn bucket_row(bucket: &v1::BucketSpace) -> Vec<String> {
    let v1::BucketSpace { logical_bytes, distinct_bytes, referenced_bytes, freed_bytes, .. } =
        *bucket;
    let is_all_elsewhere = logical_bytes > 0 && distinct_bytes == 0;
    let dedup = match is_all_elsewhere {
        true => "-".to_owned(),
        false => ratio(logical_bytes, distinct_bytes),
    };
    vec![
        bucket.name.clone(),
        ByteCount(logical_bytes).to_string(),
        ByteCount(distinct_bytes).to_string(),
        ByteCount(referenced_bytes).to_string(),
        ByteCount(freed_bytes).to_string(),
        dedup,
        ratio(logical_bytes, referenced_bytes),
    ]
}

fn row(volume: &v1::VolumeSpace) -> Vec<String> {
    vec![
        volume.name.clone(),
        ByteCount(volume.size_bytes).to_string(),
        ByteCount(volume.logical_bytes).to_string(),
        ByteCount(volume.referenced_bytes).to_string(),
        ByteCount(volume.freed_bytes).to_string(),
        volume.snapshots.to_string(),
        ByteCount(volume.snapshots_freed_bytes).to_string(),
        ByteCount(volume.whole_freed_bytes).to_string(),
    ]
}

/// `before` ÷ `after`, rounded to hundredths; nothing was left of nothing, which is neither gain nor loss.
fn ratio(before: u64, after: u64) -> String {
    if after == 0 {
        return "1.00x".to_owned();
    }
    let (before, after) = (u128::from(before), u128::from(after));
    let hundredths = (before * 100 + after / 2) / after;
    format!("{}.{:02}x", hundredths / 100, hundredths % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_rounded_to_hundredths() {
        assert_eq!(ratio(0, 0), "1.00x");
        assert_eq!(ratio(0, 4096), "0.00x");
        assert_eq!(ratio(4096, 4160), "0.98x");
        assert_eq!(ratio(11, 6), "1.83x");
        assert_eq!(ratio(1999, 1000), "2.00x");
        assert_eq!(ratio(u64::MAX, 1), format!("{}.00x", u64::MAX));
    }
}
