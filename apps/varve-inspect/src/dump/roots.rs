//! Superblocks and roots, all copies and sides of them.

use varve_client::Result;
use varve_logstore::format::pool::PoolRoot;
use varve_logstore::format::root::ShardRoot;
use varve_media::{PoolFigures, RootKey, RootSide, SuperblockCopy};
use varve_types::ShardId;

use crate::offline::ProbedPool;

use super::output::Output;

/// Every copy of every drive's superblock.
pub fn superblocks(copies: &[&SuperblockCopy], out: &mut Output) {
    for copy in copies {
        let what = format!("copy {} in {} at {}", copy.copy, copy.path, copy.offset);
        match &copy.content {
            Ok(text) => {
                let agrees = if copy.agrees { "" } else { ", which differs from the others" };
                out.line(format_args!("{what}{agrees}"));
                out.line(text);
            }
            Err(fault) => out.unreadable(what, fault),
        }
    }
}

/// Both sides of every root.
pub async fn roots(looked: ProbedPool, figures: PoolFigures, mut out: Output) -> Result<Output> {
    let shards = (0..figures.lane_count).map(|shard| RootKey::Shard(ShardId(shard)));
    for key in std::iter::once(RootKey::Pool).chain(shards) {
        let sides = match looked.root_sides(key).await {
            Ok(sides) => sides,
            Err(error) => {
                out.unreadable(format!("root {key}"), error);
                continue;
            }
        };
        for side in sides {
            let what =
                format!("side {} of the root {key} in {} at {}", side.side, side.path, side.offset);
            match &side.content {
                Ok((version, bytes)) => {
                    out.line(format_args!("{what}, version {version}"));
                    contents(key, bytes, &mut out);
                }
                Err(fault) => out.unreadable(what, fault),
            }
        }
    }
    Ok(out)
}

fn contents(key: RootKey, bytes: &[u8], out: &mut Output) {
    if bytes.is_empty() {
        return out.line("never written");
    }
    let text = match key {
        RootKey::Pool => PoolRoot::decode(bytes).map(|root| root.to_string()),
        RootKey::Shard(_) => ShardRoot::decode(bytes).map(|root| root.to_string()),
    };
    match text {
        Ok(text) => out.line(text),
        Err(error) => out.unreadable(format!("root {key}"), error),
    }
}

/// The figures of the pool, and its root.
pub async fn pool(looked: ProbedPool, figures: PoolFigures, mut out: Output) -> Result<Output> {
    out.line(format_args!("pool {}", figures.pool));
    let fields = [
        ("lane_count", u64::from(figures.lane_count)),
        ("lane_bytes", figures.lane_bytes),
        ("segment_bytes", u64::from(figures.segment_bytes)),
        ("segment_count", figures.segment_count),
    ];
    for (name, value) in fields {
        out.line(format_args!("  {name:<18} {value}"));
    }
    match looked.root_sides(RootKey::Pool).await {
        Err(error) => out.unreadable("root of the pool", error),
        Ok(sides) => match newest(&sides) {
            Some(bytes) => contents(RootKey::Pool, bytes, &mut out),
            None => out.unreadable("root of the pool", "no side can be read"),
        },
    }
    Ok(out)
}

/// The newest contents of a root that can be read.
pub(crate) fn newest(sides: &[RootSide]) -> Option<&[u8]> {
    let held = sides.iter().filter_map(|side| side.content.as_ref().ok());
    held.max_by_key(|(version, _)| *version).map(|(_, bytes)| bytes.as_slice())
}
