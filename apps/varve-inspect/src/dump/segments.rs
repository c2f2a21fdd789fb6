//! Segments: the headers of all, or one with its summary.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use futures_util::stream::{self, StreamExt};
use serde_json::json;
use varve_client::{Failure, Result};
use varve_logstore::chain_reader::{decode_summary, unit_bytes, unit_is_whole};
use varve_logstore::format::segment::{STRIP_HEADER_BYTES, StripHeader};
use varve_media::{PoolFigures, SegmentId, SegmentStore};
use varve_types::{Generation, PoolId, SegmentNumber, ShardId};

use crate::offline::ProbedPool;

use super::output::Output;

/// Headers read ahead.
const HEADERS_AHEAD: usize = 32;

fn slot(number: u32) -> SegmentId {
    SegmentId { number: SegmentNumber(number), generation: Generation::ZERO }
}

/// One line a segment. Slots that hold nothing, or a former pool's, are left out.
pub async fn segments(
    looked: ProbedPool,
    figures: PoolFigures,
    slots: Vec<(ShardId, u32)>,
    mut out: Output,
) -> Result<Output> {
    let stores = stores(&looked, &slots)?;
    let reads = stream::iter(slots).map(|(shard, number)| {
        let store = &stores[&shard];
        async move { (number, store.get(slot(number), 0, STRIP_HEADER_BYTES).await) }
    });
    let mut reads = std::pin::pin!(reads.buffered(HEADERS_AHEAD));
    while let Some((number, read)) = reads.next().await {
        if out.is_closed() {
            break;
        }
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                out.unreadable(format!("segment {number}"), error);
                continue;
            }
        };
        if !bytes.starts_with(&StripHeader::MAGIC) {
            continue;
        }
        let decoded = StripHeader::decode(&bytes).and_then(|(header, _)| {
            header.check_place(figures.pool, SegmentNumber(number))?;
            Ok(header)
        });
        match decoded {
            Ok(header) => row(&header, &mut out),
            Err(_) if is_copy(&bytes, figures.pool) => {}
            Err(error) => out.unreadable(format!("segment {number}"), error),
        }
    }
    Ok(out)
}

/// Whether a segment's second copy is in a slot, or what is left of one: the segment has a row itself.
fn is_copy(bytes: &[u8], pool: PoolId) -> bool {
    StripHeader::decode(bytes).is_ok_and(|(header, _)| header.pool == pool)
}

fn row(header: &StripHeader, out: &mut Output) {
    let StripHeader { kind, shard, slot, generation, mount, chain_seq, used_bytes, .. } = header;
    let (entries, first, last) = (header.summary_entries, header.wseq_first, header.wseq_last);
    out.row(
        || {
            json!({
                "segment": slot.0, "kind": kind.to_string(), "shard": shard.0,
                "generation": generation.get(), "mount": mount, "chain_seq": chain_seq,
                "used_bytes": used_bytes, "entries": entries,
                "wseq_first": first.get(), "wseq_last": last.get(),
            })
        },
        || {
            format!(
                "segment {slot} {kind} shard {shard} generation {generation} mount {mount} chain {chain_seq} \
                 used {used_bytes} B entries {entries} wseq {first} to {last}"
            )
        },
    );
}

/// What the shards of some slots are read with.
fn stores(
    looked: &ProbedPool,
    slots: &[(ShardId, u32)],
) -> Result<HashMap<ShardId, Rc<dyn SegmentStore>>> {
    let shards: HashSet<_> = slots.iter().map(|(shard, _)| *shard).collect();
    let store = |shard| {
        let media = looked.media(shard).map_err(|error| Failure::new(error.to_string()))?;
        Ok((shard, media.segments))
    };
    shards.into_iter().map(store).collect()
}

/// A segment with everything its summary lists.
pub async fn segment(
    looked: ProbedPool,
    figures: PoolFigures,
    shard: ShardId,
    number: u32,
    mut out: Output,
) -> Result<Output> {
    let store = stores(&looked, &[(shard, number)])?.remove(&shard).expect("it was asked for");
    let Some(place) = looked.segment_place(shard, SegmentNumber(number)) else {
        return Err(Failure::misuse(format!("the pool has no segment {number}"))
            .hint(format!("its segments are 0 to {}", figures.segment_count.saturating_sub(1))));
    };
    out.line(format_args!("slot {number} in {} at {}", place.path, place.offset));
    let header = match store.get(slot(number), 0, STRIP_HEADER_BYTES).await {
        Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => {
            out.line("never written");
            return Ok(out);
        }
        Ok(bytes) => StripHeader::decode(&bytes).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let header = match header {
        Ok((header, _)) => header,
        Err(error) => {
            out.unreadable("header", error);
            return Ok(out);
        }
    };
    out.line(header);
    if let Err(error) = header.check_place(figures.pool, SegmentNumber(number)) {
        out.unreadable("header", error);
    }
    let used = header.used_bytes.min(store.geometry().segment_bytes);
    let bytes = match store.get(slot(number), 0, used).await {
        Ok(bytes) => bytes,
        Err(error) => {
            out.unreadable("contents", error);
            return Ok(out);
        }
    };
    let start = header.summary_offset as usize;
    let end = start.saturating_add(header.summary_bytes() as usize);
    let entries = match decode_summary(&header, bytes.get(start..end).unwrap_or(&[])) {
        Ok(entries) => entries,
        Err(error) => {
            out.unreadable("summary", error);
            return Ok(out);
        }
    };
    for entry in entries {
        let whole = entry.unit().is_none_or(|unit| {
            unit_bytes(&bytes, unit).is_some_and(|found| unit_is_whole(unit, found))
        });
        if whole {
            out.line(format_args!("  {entry}"));
        } else {
            out.unreadable(format_args!("  {entry}"), "its bytes do not match the checksum");
        }
    }
    Ok(out)
}
