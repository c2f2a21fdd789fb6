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
//! CHAIN-READER-6. A segment above the witness may lack some of its strips, as its put was cut off. It has all of them
//!     before it counts.
//! DECODE-5. What the store reads in another way, or decodes, counts by the checksum that its parent holds, and by
//!     nothing else.

use std::rc::Rc;

use futures_util::stream::{FuturesUnordered, TryStreamExt};
use varve_media::{SegmentId, SegmentStore};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::{Generation, SegmentNumber};

use crate::format::record::payload_checksum;
use crate::format::root::ChainHead;
use crate::format::segment::{STRIP_HEADER_BYTES, SegmentKind, StripHeader};
use crate::format::summary::{ENTRY_BYTES, SummaryEntry, Unit};
use crate::planted::{Bug, planted};
use crate::segment_writer::SegmentOwner;
use crate::{Error, Result};

/// Other ways to the same bytes that are tried at most: more than a segment has strips, left out one by one.
const ATTEMPTS_MAX: u32 = 64;

/// A segment of a chain.
#[derive(Clone, Debug)]
pub struct ChainLink {
    /// Its header.
    pub header: StripHeader,
    /// The chain as it ends with it.
    pub head: ChainHead,
    /// Its summary.
    pub entries: Vec<SummaryEntry>,
    /// Some of it was read in another way, as it is damaged where it is read first.
    pub is_damaged: bool,
}

/// What was read of a segment.
#[derive(Clone, Debug)]
pub struct SegmentRead {
    /// The right bytes; those that were read first where no way gives right ones.
    pub bytes: BufSlice,
    /// Which they are.
    pub verdict: ReadVerdict,
}

/// Whether bytes are those that the caller's checksum says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadVerdict {
    /// They were at once.
    Right,
    /// They are when read in another way: where they are read first something is damaged.
    RightElsewhere,
    /// No way gives right ones.
    Wrong,
}

impl SegmentRead {
    /// Whether the bytes are right, and something is damaged where they are read first.
    #[must_use]
    pub fn is_from_elsewhere(&self) -> bool {
        self.verdict == ReadVerdict::RightElsewhere
    }
}

/// The summary of a segment.
#[derive(Clone, Debug, Default)]
pub struct SegmentSummary {
    /// Its entries.
    pub entries: Vec<SummaryEntry>,
    /// It was read in another way, as it is damaged where it is read first.
    pub is_damaged: bool,
}

/// Units of a segment.
#[derive(Clone, Debug, Default)]
pub struct UnitReads {
    /// The bytes of each.
    pub bytes: Vec<BufSlice>,
    /// Some were read in another way, as they are damaged where they are read first.
    pub is_damaged: bool,
}

/// What was read of a chain.
#[derive(Debug, Default)]
pub struct Chain {
    /// Its segments, in order.
    pub links: Vec<ChainLink>,
}

/// Reads a range of a segment in one way after the other, until `is_right` says that the bytes are those of the
/// checksum that the caller holds (DECODE-5). One read where the first bytes are right, or contents are kept once.
///
/// # Errors
/// That of the first read, when it failed and no other way gives right bytes.
pub async fn read_whole(
    segments: &Rc<dyn SegmentStore>,
    id: SegmentId,
    offset: u32,
    len: u32,
    mut is_right: impl FnMut(&BufSlice) -> bool,
) -> varve_media::Result<SegmentRead> {
    let first = segments.get(id, offset, len).await;
    if let Ok(bytes) = &first
        && is_right(bytes)
    {
        return Ok(SegmentRead { bytes: bytes.clone(), verdict: ReadVerdict::Right });
    }
    match read_again(segments, id, offset, len, is_right).await {
        Some(bytes) => Ok(SegmentRead { bytes, verdict: ReadVerdict::RightElsewhere }),
        None => Ok(SegmentRead { bytes: first?, verdict: ReadVerdict::Wrong }),
    }
}

/// As [`read_whole`] goes on after a first read whose bytes were wrong, or which failed; `None` when no other way gives
/// right bytes.
pub async fn read_again(
    segments: &Rc<dyn SegmentStore>,
    id: SegmentId,
    offset: u32,
    len: u32,
    mut is_right: impl FnMut(&BufSlice) -> bool,
) -> Option<BufSlice> {
    for attempt in 1..=ATTEMPTS_MAX {
        match segments.get_again(id, offset, len, attempt).await {
            Ok(Some(bytes)) if is_right(&bytes) || planted(Bug::DecodedUnchecked) => {
                return Some(bytes); // DECODE-5
            }
            // More than the first are of all strips that there are: what cannot be read then cannot be later.
            Err(_) if attempt > 1 => return None,
            Ok(Some(_)) | Err(_) => {}
            Ok(None) => return None,
        }
    }
    None
}

/// Segments of `kind` after `head`, in order, as far as the chain holds (CHAIN-READER-1, CHAIN-READER-2). Those above
/// the witness get what they lack of their strips (CHAIN-READER-6).
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
    let witness = headers.iter().map(|link| link.header.witness).fold(witness, u64::max);
    let reached = headers.last().map_or(head.seq, |link| link.header.chain_seq);
    if reached < witness {
        return Err(Error::ChainBroken { kind: kind_name(kind), seq: reached + 1, witness });
    }
    if reached > witness && !planted(Bug::UnsettledBelieved) {
        segments.settle().await?; // CHAIN-READER-3
    }
    let mut chain = Chain::default();
    for HeaderLink { header, head, mut is_damaged } in headers {
        let trusted = header.chain_seq <= witness;
        let summary = match read_summary(segments, &header).await {
            Ok(summary) => summary,
            Err(Error::BadChecksum { .. }) if !trusted => break, // CHAIN-READER-2
            Err(error) => return Err(error),                     // CHAIN-READER-5
        };
        is_damaged |= summary.is_damaged;
        let entries = summary.entries;
        if !trusted && !planted(Bug::SegmentUnverified) {
            let read = read_segment(segments, &header, head.checksum, &entries).await?;
            if read.verdict == ReadVerdict::Wrong {
                break; // CHAIN-READER-2
            }
            is_damaged |= read.is_from_elsewhere();
            segments.complete(header.segment(), read.bytes).await?; // CHAIN-READER-6
        }
        chain.links.push(ChainLink { header, head, entries, is_damaged });
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

/// A header of a chain.
struct HeaderLink {
    header: StripHeader,
    /// The chain as it ends with it.
    head: ChainHead,
    is_damaged: bool,
}

async fn read_headers(
    segments: &Rc<dyn SegmentStore>,
    owner: &SegmentOwner,
    kind: SegmentKind,
    mut head: ChainHead,
) -> Result<Vec<HeaderLink>> {
    let mut headers = Vec::new();
    let geometry = segments.geometry();
    while head.next_slot.0 < geometry.segment_count {
        let id = SegmentId { number: head.next_slot, generation: Generation::ZERO };
        let next = |bytes: &[u8]| {
            let (header, checksum) = StripHeader::decode(bytes).ok()?;
            let follows = header.check_place(owner.pool, head.next_slot).is_ok()
                && header.shard == owner.shard
                && header.kind == kind
                && header.mount <= owner.mount
                && header.chain_seq == head.seq + 1
                && header.previous_checksum == head.checksum
                && header.used_bytes <= geometry.segment_bytes;
            follows.then_some((header, checksum))
        };
        let read =
            read_whole(segments, id, 0, STRIP_HEADER_BYTES, |bytes| next(bytes).is_some()).await?;
        let Some((header, checksum)) = next(&read.bytes) else { break }; // CHAIN-READER-1
        head = ChainHead { seq: header.chain_seq, checksum, next_slot: header.next_slot };
        headers.push(HeaderLink { header, head, is_damaged: read.is_from_elsewhere() });
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
) -> Result<SegmentSummary> {
    let (id, offset, len) = (header.segment(), header.summary_offset, header.summary_bytes());
    if len == 0 {
        return Ok(SegmentSummary::default());
    }
    let is_right = |bytes: &BufSlice| header.check_summary(bytes).is_ok();
    let read = read_whole(segments, id, offset, len, is_right).await?;
    let entries = decode_summary(header, &read.bytes)?;
    Ok(SegmentSummary { entries, is_damaged: read.is_from_elsewhere() })
}

/// Verifies and reads the summary out of its bytes.
///
/// # Errors
/// When it is damaged.
pub fn decode_summary(header: &StripHeader, bytes: &[u8]) -> Result<Vec<SummaryEntry>> {
    header.check_summary(bytes)?;
    bytes.chunks_exact(ENTRY_BYTES as usize).map(SummaryEntry::decode).collect()
}

/// A segment as it was put; right when header, summary and every unit are (CHAIN-READER-2).
async fn read_segment(
    segments: &Rc<dyn SegmentStore>,
    header: &StripHeader,
    checksum: u64,
    entries: &[SummaryEntry],
) -> Result<SegmentRead> {
    let is_right = |bytes: &BufSlice| {
        StripHeader::decode(bytes).is_ok_and(|(_, found)| found == checksum)
            && summary_within(header, bytes).is_some_and(|it| header.check_summary(it).is_ok())
            && units_are_whole(bytes, entries)
    };
    Ok(read_whole(segments, header.segment(), 0, header.used_bytes, is_right).await?)
}

/// The bytes of the summary within a segment's bytes; `None` when it lies outside.
#[must_use]
pub fn summary_within<'a>(header: &StripHeader, segment: &'a [u8]) -> Option<&'a [u8]> {
    let start = header.summary_offset as usize;
    segment.get(start..start.checked_add(header.summary_bytes() as usize)?)
}

/// Whether every unit within a segment's bytes is what the summary says.
#[must_use]
pub fn units_are_whole(segment: &[u8], entries: &[SummaryEntry]) -> bool {
    let is_whole = |unit: &Unit| {
        unit_bytes(segment, unit).is_some_and(|unit_bytes| unit_is_whole(unit, unit_bytes))
    };
    entries.iter().filter_map(SummaryEntry::unit).all(is_whole)
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
) -> Result<UnitReads> {
    let reads: FuturesUnordered<_> = units
        .iter()
        .enumerate()
        .map(|(index, unit)| async move {
            let is_right = |bytes: &BufSlice| unit_is_whole(unit, bytes);
            let read = read_whole(segments, id, unit.offset(), unit.stored_len, is_right).await?;
            if read.verdict == ReadVerdict::Wrong {
                return Err(Error::BadChecksum {
                    what: "unit",
                    expected: u64::from(unit.checksum),
                    found: u64::from(unit_checksum(&read.bytes)),
                });
            }
            Ok((index, read))
        })
        .collect();
    let mut read: Vec<_> = reads.try_collect().await?;
    assert_eq!(read.len(), units.len(), "each unit is read once");
    read.sort_by_key(|(index, _)| *index);
    let is_damaged = read.iter().any(|(_, read)| read.is_from_elsewhere());
    Ok(UnitReads { bytes: read.into_iter().map(|(_, read)| read.bytes).collect(), is_damaged })
}

const fn kind_name(kind: SegmentKind) -> &'static str {
    match kind {
        SegmentKind::Metadata => "metadata",
        SegmentKind::Data => "data",
        SegmentKind::Reclaimed => "reclaimed",
    }
}

#[cfg(test)]
mod tests;
