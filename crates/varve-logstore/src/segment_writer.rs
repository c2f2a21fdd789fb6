//! Fills segments of one kind, seals them and links them into that kind's chain.
//!
//! ```text
//!  slot: | strip header 4 KiB | unit | unit | … | summary |      header names: predecessor's checksum, successor's slot
//! ```
//!
//! W1. A header names the slot its successor takes, so recovery follows the chain without a search; a sealed segment is
//!     therefore only made once that slot is reserved.
//! W2. A header carries the checksum of its predecessor's header and the mount, so a successor written before a crash by
//!     another incarnation of the predecessor is never believed.
//! W3. The header of a data segment tells where the lane continues once the segment is applied: every record before that
//!     point lies in this segment or an earlier one.

use std::ops::Range;

use varve_media::SegmentId;
use varve_stdx::{AlignedBuf, BufSlice, checksum64};
use varve_types::{Generation, PoolId, SegmentNumber, ShardId, WriteSeq};

use crate::format::frame::LanePoint;
use crate::format::root::ChainHead;
use crate::format::segment::{STRIP_HEADER_BYTES, SegmentKind, StripHeader};
use crate::format::summary::{ENTRY_BYTES, SummaryEntry};

/// Alignment of units that are read without their neighbours' bytes: raw blocks.
pub const BLOCK_ALIGN: u32 = 4096;

/// Alignment of other units: the unit of addresses.
pub const UNIT_ALIGN: u32 = 512;

/// Gaps remembered: more are only found when units of both alignments alternate.
const GAPS_MAX: usize = 16;

/// Whose segments these are.
#[derive(Clone, Copy, Debug)]
pub struct SegmentOwner {
    /// The pool.
    pub pool: PoolId,
    /// The shard.
    pub shard: ShardId,
    /// The mount that writes.
    pub mount: u64,
}

/// A segment ready to be put.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Slot and generation.
    pub id: SegmentId,
    /// Position in its chain, and what follows it.
    pub link: ChainHead,
    /// Header, units and summary.
    pub bytes: BufSlice,
    /// The summary.
    pub entries: Vec<SummaryEntry>,
    /// Highest write sequence number in it; zero when it holds none.
    pub wseq_last: WriteSeq,
}

/// What the owner of the writer adds to a header when a segment is sealed.
#[derive(Clone, Copy, Debug)]
pub struct SealSpec {
    /// Generation of the segment, never used before by this shard.
    pub generation: Generation,
    /// Slot reserved for the successor (W1).
    pub next_slot: SegmentNumber,
    /// Where the lane continues (W3).
    pub lane: LanePoint,
    /// Mount whose frames stand at that point.
    pub lane_mount: u64,
    /// Highest sequence number of the chain below which all segments are durable.
    pub witness: u64,
}

/// Open segment of one kind, and its place in the chain.
pub struct SegmentWriter {
    owner: SegmentOwner,
    kind: SegmentKind,
    segment_bytes: u32,
    chain: ChainHead,
    buf: AlignedBuf,
    used: u32,
    /// Room before aligned units, for smaller ones.
    gaps: Vec<Range<u32>>,
    entries: Vec<SummaryEntry>,
    wseq_first: WriteSeq,
    wseq_last: WriteSeq,
    spare: Vec<AlignedBuf>,
}

impl SegmentWriter {
    /// A writer whose next segment follows `chain`.
    #[must_use]
    pub fn new(
        owner: SegmentOwner,
        kind: SegmentKind,
        segment_bytes: u32,
        chain: ChainHead,
    ) -> Self {
        assert!(segment_bytes > 2 * STRIP_HEADER_BYTES, "a segment holds more than its header");
        Self {
            owner,
            kind,
            segment_bytes,
            chain,
            buf: AlignedBuf::zeroed(0),
            used: 0,
            gaps: Vec::new(),
            entries: Vec::new(),
            wseq_first: WriteSeq::ZERO,
            wseq_last: WriteSeq::ZERO,
            spare: Vec::new(),
        }
    }

    /// Goes on behind `chain`.
    ///
    /// # Panics
    /// When something is in the open segment.
    pub fn resume(&mut self, chain: ChainHead) {
        assert!(self.is_empty(), "a writer resumes before it writes");
        self.chain = chain;
    }

    /// Whether nothing was added since the last seal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Slot the open segment will take.
    #[must_use]
    pub fn slot(&self) -> SegmentNumber {
        self.chain.next_slot
    }

    /// Sequence number the open segment will have.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.chain.seq + 1
    }

    /// The chain as it ends with the last sealed segment.
    #[must_use]
    pub fn chain(&self) -> ChainHead {
        self.chain
    }

    /// Bytes of units and entries in the open segment.
    #[must_use]
    pub fn used_bytes(&self) -> u32 {
        self.used
    }

    /// Whether a unit of `unit_bytes` (0: none) with its entry still fits.
    #[must_use]
    pub fn fits(&self, unit_bytes: u32, align: u32) -> bool {
        let units_end = match self.gap_for(unit_bytes, align) {
            Some(_) => self.used,
            None => self.used.max(STRIP_HEADER_BYTES).next_multiple_of(align) + unit_bytes,
        };
        let entries = (self.entries.len() as u64 + 1) * u64::from(ENTRY_BYTES);
        u64::from(units_end.next_multiple_of(UNIT_ALIGN)) + entries <= u64::from(self.segment_bytes)
    }

    /// Bytes of blocks that an empty segment takes, each with its entry.
    #[must_use]
    pub const fn block_bytes_max(segment_bytes: u32) -> u32 {
        let room = segment_bytes - STRIP_HEADER_BYTES;
        room / (BLOCK_ALIGN + ENTRY_BYTES) * BLOCK_ALIGN
    }

    /// Largest unit that an empty segment takes.
    #[must_use]
    pub fn unit_bytes_max(segment_bytes: u32) -> u32 {
        segment_bytes - STRIP_HEADER_BYTES - 4096
    }

    /// Copies a unit into the open segment; returns its offset in the slot, in bytes.
    ///
    /// # Panics
    /// When it does not fit: ask [`Self::fits`] first.
    pub fn push_unit(&mut self, bytes: &[u8], align: u32) -> u32 {
        let len = u32::try_from(bytes.len()).expect("units are smaller than segments");
        assert!(self.fits(len, align), "unit fits the open segment");
        self.ensure_buffer();
        let start = match self.gap_for(len, align) {
            Some(index) => {
                let gap = &mut self.gaps[index];
                let start = gap.start;
                gap.start = (start + len).next_multiple_of(UNIT_ALIGN);
                start
            }
            None => self.extend(len, align),
        };
        self.buf[start as usize..(start + len) as usize].copy_from_slice(bytes);
        start
    }

    /// Room for `len` bytes at the end; what alignment leaves free is kept for smaller units.
    fn extend(&mut self, len: u32, align: u32) -> u32 {
        let used = self.used.max(STRIP_HEADER_BYTES);
        let start = used.next_multiple_of(align);
        self.buf[used as usize..start as usize].fill(0);
        let gap = used.next_multiple_of(UNIT_ALIGN)..start;
        if !gap.is_empty() && self.gaps.len() < GAPS_MAX {
            self.gaps.push(gap);
        }
        self.used = start + len;
        start
    }

    /// The first gap that takes a unit.
    fn gap_for(&self, len: u32, align: u32) -> Option<usize> {
        if align > UNIT_ALIGN || len == 0 {
            return None;
        }
        self.gaps.iter().position(|gap| gap.end.saturating_sub(gap.start) >= len)
    }

    /// Adds an entry to the summary.
    pub fn push_entry(&mut self, entry: SummaryEntry, wseq: WriteSeq) {
        assert!(self.fits(0, 1), "entry fits the open segment");
        self.ensure_buffer();
        self.used = self.used.max(STRIP_HEADER_BYTES);
        if wseq > WriteSeq::ZERO {
            if self.wseq_first == WriteSeq::ZERO || wseq < self.wseq_first {
                self.wseq_first = wseq;
            }
            self.wseq_last = self.wseq_last.max(wseq);
        }
        self.entries.push(entry);
    }

    /// Bytes of the open segment that a unit occupies, to read back what is not durable yet.
    #[must_use]
    pub fn open_bytes(&self, offset: u32, len: u32) -> &[u8] {
        &self.buf[offset as usize..(offset + len) as usize]
    }

    fn ensure_buffer(&mut self) {
        if self.buf.capacity() < self.segment_bytes as usize {
            self.buf = self
                .spare
                .pop()
                .unwrap_or_else(|| AlignedBuf::scratch(self.segment_bytes as usize));
            self.buf.set_len(self.segment_bytes as usize);
        }
    }

    /// Takes back the memory of a segment that was put, for a later one.
    pub fn recycle(&mut self, bytes: BufSlice) {
        if self.spare.len() < 2
            && let Ok(mut buf) = bytes.try_into_buf()
        {
            buf.set_len(buf.capacity());
            self.spare.push(buf);
        }
    }

    /// Writes the summary and the header of the open segment and starts the next one (W1, W2, W3).
    ///
    /// # Panics
    /// When the open segment is empty.
    pub fn seal(&mut self, spec: SealSpec) -> Sealed {
        assert!(!self.is_empty(), "an empty segment is never sealed");
        let entries = std::mem::take(&mut self.entries);
        let summary_offset = self.used.next_multiple_of(UNIT_ALIGN);
        let summary_bytes = u32::try_from(entries.len()).expect("bounded by fits") * ENTRY_BYTES;
        let used_bytes = (summary_offset + summary_bytes).next_multiple_of(BLOCK_ALIGN);
        assert!(used_bytes <= self.segment_bytes, "units and summary fit the slot");
        let mut buf = std::mem::replace(&mut self.buf, AlignedBuf::zeroed(0));
        buf.set_len(used_bytes as usize);
        buf[self.used as usize..summary_offset as usize].fill(0);
        let summary_end = (summary_offset + summary_bytes) as usize;
        for (entry, out) in entries
            .iter()
            .zip(buf[summary_offset as usize..summary_end].chunks_exact_mut(ENTRY_BYTES as usize))
        {
            entry.encode(out);
        }
        buf[summary_end..].fill(0);
        let number = self.chain.next_slot;
        let header = StripHeader {
            kind: self.kind,
            data_strips: 1,
            parity_strips: 0,
            strip_index: 0,
            shard: self.owner.shard,
            pool: self.owner.pool,
            slot: number,
            generation: spec.generation,
            mount: self.owner.mount,
            chain_seq: self.chain.seq + 1,
            previous_checksum: self.chain.checksum,
            next_slot: spec.next_slot,
            used_bytes,
            summary_offset,
            summary_entries: u32::try_from(entries.len()).expect("bounded by fits"),
            wseq_first: self.wseq_first,
            wseq_last: self.wseq_last,
            lane: spec.lane,
            lane_mount: spec.lane_mount,
            witness: spec.witness,
            summary_checksum: checksum64(&buf[summary_offset as usize..summary_end]),
        };
        let checksum = header.encode(&mut buf[..STRIP_HEADER_BYTES as usize]);
        let link = ChainHead { seq: header.chain_seq, checksum, next_slot: spec.next_slot };
        let sealed = Sealed {
            id: SegmentId { number, generation: spec.generation },
            link,
            bytes: buf.freeze(),
            entries,
            wseq_last: self.wseq_last,
        };
        self.chain = link;
        self.used = 0;
        self.gaps.clear();
        self.wseq_first = WriteSeq::ZERO;
        self.wseq_last = WriteSeq::ZERO;
        sealed
    }
}
