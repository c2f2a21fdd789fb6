//! Follows a chain of segments from a root: what was written since the checkpoint.
//!
//! CHAIN-READER-1. The chain ends at the first slot that does not hold the next link: same pool, shard and kind, next
//!     number, and the predecessor's checksum.
//! CHAIN-READER-2. Segments at or below the witness are known to be whole and are read by their summaries; later ones
//!     are verified unit by unit, and the chain ends before the first that is not whole.
//! CHAIN-READER-3. What is verified is durable: a later power cut takes nothing from a segment that was found whole.
//! CHAIN-READER-4. The slot behind a chain is erased before anything is written behind what was found. A torn segment
//!     there would be found whole later with equal contents behind its header, as when reclaim moves the same chunks
//!     once more, and promise a next slot that is long in use. Where other processes may have puts under way, one that
//!     comes late would be the next link by every sign.
//! CHAIN-READER-5. What its checksums call whole and this version cannot read was written by another version: an error,
//!     and never torn.

use std::rc::Rc;

use futures_util::stream::{FuturesUnordered, TryStreamExt};
use varve_media::{SegmentId, SegmentStore};
use varve_stdx::AlignedBuf;
use varve_types::{Generation, SegmentNumber};

use crate::format::record::payload_checksum;
use crate::format::root::ChainHead;
use crate::format::segment::{STRIP_HEADER_BYTES, SegmentKind, StripHeader};
use crate::format::summary::{ENTRY_BYTES, SummaryEntry, Unit};
use crate::planted::{Bug, planted};
use crate::segment_writer::SegmentOwner;
use crate::{Error, Result};

/// A segment of a chain.
#[derive(Clone, Debug)]
pub struct ChainLink {
    /// Its header.
    pub header: StripHeader,
    /// The chain as it ends with it.
    pub head: ChainHead,
    /// Its summary.
    pub entries: Vec<SummaryEntry>,
}

/// What was read of a chain.
#[derive(Debug, Default)]
pub struct Chain {
    /// Its segments, in order.
    pub links: Vec<ChainLink>,
}

/// Segments of `kind` after `head`, in order, as far as the chain holds (CHAIN-READER-1, CHAIN-READER-2).
///
/// # Errors
/// When media fail, and when a segment below `witness` (what a lane said) or below a later header's witness is damaged.
pub async fn read_chain(
    segments: &Rc<dyn SegmentStore>,
    owner: &SegmentOwner,
    kind: SegmentKind,
    head: ChainHead,
    witness: u64,
) -> Result<Chain> {
    let headers = read_headers(segments, owner, kind, head).await?;
    let witness = headers.iter().map(|(header, _)| header.witness).fold(witness, u64::max);
    let reached = headers.last().map_or(head.seq, |(header, _)| header.chain_seq);
    if reached < witness {
        return Err(Error::ChainBroken { kind: kind_name(kind), seq: reached + 1, witness });
    }
    if reached > witness && !planted(Bug::UnsettledBelieved) {
        segments.settle().await?; // CHAIN-READER-3
    }
    let mut chain = Chain::default();
    for (header, head) in headers {
        let trusted = header.chain_seq <= witness;
        let entries = match read_summary(segments, &header).await {
            Ok(entries) => entries,
            Err(Error::BadChecksum { .. }) if !trusted => break, // CHAIN-READER-2
            Err(error) => return Err(error),                     // CHAIN-READER-5
        };
        let unverified = !trusted && !planted(Bug::SegmentUnverified);
        if unverified && !units_are_whole(segments, &header, &entries).await? {
            break; // CHAIN-READER-2
        }
        chain.links.push(ChainLink { header, head, entries });
    }
    Ok(chain)
}

/// Takes the header from a slot, so that no chain goes through it. Durable on return.
///
/// # Errors
/// When the media fail.
pub async fn erase(segments: &Rc<dyn SegmentStore>, number: SegmentNumber) -> Result<()> {
    let id = SegmentId { number, generation: Generation::ZERO };
    let empty = AlignedBuf::zeroed(STRIP_HEADER_BYTES as usize).freeze();
    Ok(segments.put(id, empty).await?)
}

async fn read_headers(
    segments: &Rc<dyn SegmentStore>,
    owner: &SegmentOwner,
    kind: SegmentKind,
    mut head: ChainHead,
) -> Result<Vec<(StripHeader, ChainHead)>> {
    let mut headers = Vec::new();
    let count = segments.geometry().segment_count;
    while head.next_slot.0 < count {
        let id = SegmentId { number: head.next_slot, generation: Generation::ZERO };
        let bytes = segments.get(id, 0, STRIP_HEADER_BYTES).await?;
        let Ok((header, checksum)) = StripHeader::decode(&bytes) else { break };
        let follows = header.check_place(owner.pool, head.next_slot).is_ok()
            && header.shard == owner.shard
            && header.kind == kind
            && header.mount <= owner.mount
            && header.chain_seq == head.seq + 1
            && header.previous_checksum == head.checksum;
        if !follows || header.used_bytes > segments.geometry().segment_bytes {
            break; // CHAIN-READER-1
        }
        head = ChainHead { seq: header.chain_seq, checksum, next_slot: header.next_slot };
        headers.push((header, head));
    }
    Ok(headers)
}

/// The summary of a segment.
///
/// # Errors
/// When it is damaged or the media fail.
pub async fn read_summary(
    segments: &Rc<dyn SegmentStore>,
    header: &StripHeader,
) -> Result<Vec<SummaryEntry>> {
    let bytes = header.summary_bytes();
    if bytes == 0 {
        return Ok(Vec::new());
    }
    let bytes = segments.get(header.segment(), header.summary_offset, bytes).await?;
    decode_summary(header, &bytes)
}

/// Verifies and reads the summary out of its bytes.
///
/// # Errors
/// When it is damaged.
pub fn decode_summary(header: &StripHeader, bytes: &[u8]) -> Result<Vec<SummaryEntry>> {
    header.check_summary(bytes)?;
    bytes.chunks_exact(ENTRY_BYTES as usize).map(SummaryEntry::decode).collect()
}

/// Whether every unit of a segment is what its summary says.
async fn units_are_whole(
    segments: &Rc<dyn SegmentStore>,
    header: &StripHeader,
    entries: &[SummaryEntry],
) -> Result<bool> {
    let bytes = segments.get(header.segment(), 0, header.summary_offset).await?;
    let whole = |unit: &Unit| {
        unit_bytes(&bytes, unit).is_some_and(|unit_bytes| unit_is_whole(unit, unit_bytes))
    };
    Ok(entries.iter().filter_map(SummaryEntry::unit).all(whole))
}

/// The bytes of a unit within a segment's bytes; `None` when it lies outside.
#[must_use]
pub fn unit_bytes<'a>(segment: &'a [u8], unit: &Unit) -> Option<&'a [u8]> {
    let start = unit.offset() as usize;
    segment.get(start..start.checked_add(unit.stored_len as usize)?)
}

/// Whether the bytes of a unit match its checksum.
#[must_use]
pub fn unit_is_whole(unit: &Unit, bytes: &[u8]) -> bool {
    unit_checksum(bytes) == unit.checksum
}

/// Checksum of a unit: the low half of the checksum a record's payload has, so that it is computed once.
#[must_use]
pub fn unit_checksum(bytes: &[u8]) -> u32 {
    fold_checksum(payload_checksum(bytes))
}

/// The 32 bits of a payload checksum that a unit keeps.
#[must_use]
pub const fn fold_checksum(checksum: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the low half is what is kept")]
    let low = checksum as u32;
    low
}

/// Bytes of several units of a segment, read at once.
///
/// # Errors
/// When the media fail or a unit is damaged.
pub async fn read_units(
    segments: &Rc<dyn SegmentStore>,
    id: SegmentId,
    units: &[Unit],
) -> Result<Vec<varve_stdx::BufSlice>> {
    let reads: FuturesUnordered<_> = units
        .iter()
        .enumerate()
        .map(|(index, unit)| async move {
            let bytes = segments.get(id, unit.offset(), unit.stored_len).await?;
            if unit_is_whole(unit, &bytes) {
                Ok((index, bytes))
            } else {
                Err(Error::BadChecksum {
                    what: "unit",
                    expected: u64::from(unit.checksum),
                    found: u64::from(unit_checksum(&bytes)),
                })
            }
        })
        .collect();
    let mut read: Vec<_> = reads.try_collect().await?;
    assert_eq!(read.len(), units.len(), "each unit is read once");
    read.sort_by_key(|(index, _)| *index);
    Ok(read.into_iter().map(|(_, bytes)| bytes).collect())
}

const fn kind_name(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Metadata => "metadata",
        SegmentKind::Data => "data",
        SegmentKind::Reclaimed => "reclaimed",
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::ready;

    use futures_util::FutureExt;
    use varve_media::{IoFuture, SegmentGeometry};
    use varve_stdx::{BufSlice, DecodeError, checksum64};
    use varve_types::{ChunkId, PoolId, SegmentNumber, ShardId, WriteSeq};

    use super::*;
    use crate::format::frame::LogPosition;
    use crate::segment_writer::{SealSpec, SealedSegment, SegmentWriter};

    const SEGMENT_BYTES: u32 = 32 << 10;
    const OWNER: SegmentOwner = SegmentOwner { pool: PoolId([1; 16]), shard: ShardId(0), mount: 3 };

    /// Four segments in memory.
    struct Slots(RefCell<Vec<Vec<u8>>>);

    impl SegmentStore for Slots {
        fn geometry(&self) -> SegmentGeometry {
            SegmentGeometry { segment_bytes: SEGMENT_BYTES, segment_count: 4 }
        }

        fn allocate(&self, _: SegmentNumber, _: u32) -> IoFuture<'_, ()> {
            Box::pin(ready(Ok(())))
        }

        fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
            self.0.borrow_mut()[id.number.0 as usize][..bytes.len()].copy_from_slice(&bytes);
            Box::pin(ready(Ok(())))
        }

        fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
            let slot = &self.0.borrow()[id.number.0 as usize];
            let bytes = BufSlice::copy_from(&slot[offset as usize..(offset + len) as usize]);
            Box::pin(ready(Ok(bytes)))
        }

        fn settle(&self) -> IoFuture<'_, ()> {
            Box::pin(ready(Ok(())))
        }

        fn delete(&self, _: SegmentId) -> IoFuture<'_, ()> {
            Box::pin(ready(Ok(())))
        }
    }

    /// A first segment of a chain that frees some chunks.
    fn sealed(generation: u64, next_slot: u32) -> SealedSegment {
        let mut writer =
            SegmentWriter::new(OWNER, SegmentKind::Data, SEGMENT_BYTES, ChainHead::default());
        let entry = SummaryEntry::FreedIds { first: ChunkId::new(7), count: 2 };
        writer.push_entry(entry, WriteSeq::ZERO);
        writer.seal(SealSpec {
            generation: Generation::new(generation),
            next_slot: SegmentNumber(next_slot),
            lane: LogPosition::default(),
            lane_mount: 3,
            witness: 0,
        })
    }

    fn read(segments: &Rc<dyn SegmentStore>) -> Chain {
        let head = ChainHead::default();
        let chain = read_chain(segments, &OWNER, SegmentKind::Data, head, 0);
        chain.now_or_never().expect("memory never waits").expect("the chain is read")
    }

    #[test]
    fn a_whole_segment_of_another_version_is_not_torn() {
        let mut bytes = sealed(1, 2).bytes.to_vec();
        let (mut header, _) = StripHeader::decode(&bytes).expect("a header");
        let (start, len) = (header.summary_offset as usize, header.summary_bytes() as usize);
        let slots = Rc::new(Slots(RefCell::new(vec![vec![0; SEGMENT_BYTES as usize]; 4])));
        let segments: Rc<dyn SegmentStore> = slots.clone();
        let read = |bytes: &[u8]| {
            slots.0.borrow_mut()[0][..bytes.len()].copy_from_slice(bytes);
            let head = ChainHead::default();
            let chain = read_chain(&segments, &OWNER, SegmentKind::Data, head, 0);
            chain.now_or_never().expect("memory never waits")
        };

        bytes[start] = 200; // The kind of its entry.
        assert!(read(&bytes).expect("the chain ends").links.is_empty(), "CHAIN-READER-2");
        header.summary_checksum = checksum64(&bytes[start..start + len]);
        header.encode(&mut bytes);
        assert!(
            matches!(read(&bytes), Err(Error::Decode(DecodeError::UnknownKind { kind: 200, .. }))),
            "CHAIN-READER-5"
        );
    }

    #[test]
    fn equal_contents_behind_the_header_of_a_torn_segment_do_not_revive_it() {
        let slots = Rc::new(Slots(RefCell::new(vec![vec![0; SEGMENT_BYTES as usize]; 4])));
        let segments: Rc<dyn SegmentStore> = slots.clone();
        let (first, again) = (sealed(1, 2), sealed(2, 3));
        let behind = STRIP_HEADER_BYTES as usize;
        assert_eq!(first.bytes[behind..], again.bytes[behind..]);

        // Only the header landed.
        slots.0.borrow_mut()[0][..behind].copy_from_slice(&first.bytes[..behind]);
        let chain = read(&segments);
        assert!(chain.links.is_empty());
        erase(&segments, first.id.number)
            .now_or_never()
            .expect("memory never waits")
            .expect("erased"); // CHAIN-READER-4

        // And of the next one, only what is behind the header.
        slots.0.borrow_mut()[0][behind..again.bytes.len()].copy_from_slice(&again.bytes[behind..]);
        assert!(read(&segments).links.is_empty());
    }
}
