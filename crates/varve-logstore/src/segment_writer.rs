//! Fills segments of one kind, seals them and links them into that kind's chain.
//!
//! ```text
//!  slot: | strip header 4 KiB | block | block | … | unit | unit | … | summary |
//!          └ names: predecessor's checksum, successor's slot
//! ```
//!
//! SEGMENT-WRITER-1. A header names the slot its successor takes, so recovery follows the chain without a search; a
//!     sealed segment is therefore only made once that slot is reserved.
//! SEGMENT-WRITER-2. A header carries the checksum of its predecessor's header and the mount, so a successor written
//!     before a crash by another incarnation of the predecessor is never believed.
//! SEGMENT-WRITER-3. The header of a data segment tells where the lane continues once the segment is applied: every
//!     record before that point lies in this segment or an earlier one.
//! SEGMENT-WRITER-4. Raw blocks stand before all other units, so that nothing is lost to their alignment. Where the
//!     others begin is known when the segment is sealed: offsets before that are theirs among themselves.
//! SEGMENT-WRITER-5. A segment has a bounded number of entries, however small their units are: applying one changes a
//!     bounded number of pages.

use varve_media::SegmentId;
use varve_stdx::{AlignedBuf, BufSlice, checksum64};
use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_MAX};
use varve_types::{Generation, PoolId, SegmentNumber, ShardId, WriteSeq};

use crate::format::UNIT_BYTES;
use crate::format::frame::LogPosition;
use crate::format::root::ChainHead;
use crate::format::segment::{STRIP_HEADER_BYTES, SegmentKind, StripHeader};
use crate::format::summary::{ENTRY_BYTES, SummaryEntry};
use crate::space::unit_space;

/// Alignment of units that are read without their neighbours' bytes: raw blocks.
pub const BLOCK_ALIGN: u32 = 4096;

/// Space that an entry is counted for at least, in bytes: the smallest unit and the entry itself. So many of them fill
/// a segment (SEGMENT-WRITER-5), be they with units or without.
pub const UNIT_SPACE_MIN: u32 = UNIT_ALIGN + ENTRY_BYTES;

/// Alignment of other units: the unit of addresses.
pub const UNIT_ALIGN: u32 = 512;

const _: () = assert!(BLOCK_ALIGN as usize == MEDIA_ALIGN);
const _: () = assert!(BLOCK_ALIGN.is_multiple_of(UNIT_ALIGN)); // SEGMENT-WRITER-4
const _: () = assert!(UNIT_ALIGN == UNIT_BYTES);
const _: () = assert!(STRIP_HEADER_BYTES.is_multiple_of(BLOCK_ALIGN)); // SEGMENT-WRITER-4
const _: () = assert!(UNIT_SPACE_MIN == unit_space(1)); // SEGMENT-WRITER-5
const _: () = assert!(ENTRY_BYTES <= BLOCK_ALIGN, "the largest unit leaves room for its entry");

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
pub struct SealedSegment {
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
    /// Slot reserved for the successor (SEGMENT-WRITER-1).
    pub next_slot: SegmentNumber,
    /// Where the lane continues (SEGMENT-WRITER-3).
    pub lane: LogPosition,
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
    /// Header, and the units that keep their offsets.
    buf: AlignedBuf,
    used: u32,
    /// Units that move behind those of `buf` when the segment is sealed (SEGMENT-WRITER-4).
    small: AlignedBuf,
    small_used: u32,
    /// The unit that was pushed last is one of them, and its entry is not there yet.
    small_pushed: bool,
    /// Bytes of the unit that was pushed last, whose entry is not there yet.
    unit_pushed: u32,
    /// What units and entries are counted for.
    counted: u32,
    /// Their entries.
    small_entries: Vec<usize>,
    entries: Vec<SummaryEntry>,
    wseq_first: WriteSeq,
    wseq_last: WriteSeq,
    spare: Vec<AlignedBuf>,
}

/// What an entry with a unit of so many bytes, or none, is counted for.
const fn entry_space(unit_bytes: u32) -> u32 {
    if unit_bytes == 0 { UNIT_SPACE_MIN } else { unit_space(unit_bytes) }
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
        assert!(segment_bytes <= SEGMENT_BYTES_MAX);
        assert!(segment_bytes.is_multiple_of(BLOCK_ALIGN));
        Self {
            owner,
            kind,
            segment_bytes,
            chain,
            buf: AlignedBuf::zeroed(0),
            used: 0,
            small: AlignedBuf::zeroed(0),
            small_used: 0,
            small_pushed: false,
            unit_pushed: 0,
            counted: 0,
            small_entries: Vec::new(),
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
        assert_eq!(self.counted, 0, "what is empty takes no space");
        assert!(chain.seq >= self.chain.seq, "chains only grow");
        self.chain = chain;
    }

    /// Whether nothing was added since the last seal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries of the open segment.
    #[must_use]
    pub fn entry_count(&self) -> usize {
        self.entries.len()
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

    /// Whether a unit of `unit_bytes` (0: none) with its entry still fits.
    #[must_use]
    pub fn fits(&self, unit_bytes: u32) -> bool {
        self.counted + entry_space(unit_bytes) <= self.segment_bytes - STRIP_HEADER_BYTES
    }

    /// Entries of a segment at most (SEGMENT-WRITER-5).
    #[must_use]
    pub const fn entries_max(segment_bytes: u32) -> u32 {
        segment_bytes / UNIT_SPACE_MIN
    }

    /// Largest unit that an empty segment takes.
    #[must_use]
    pub fn unit_bytes_max(segment_bytes: u32) -> u32 {
        assert!(segment_bytes > 2 * STRIP_HEADER_BYTES, "a segment holds more than its header");
        segment_bytes - STRIP_HEADER_BYTES - 4096
    }

    /// Whether a unit moves when the segment is sealed (SEGMENT-WRITER-4). In metadata segments none does: pages are
    /// named by their place before.
    fn moves(&self, align: u32) -> bool {
        align == UNIT_ALIGN && self.kind != SegmentKind::Metadata
    }

    /// Copies a unit into the open segment; returns its offset in bytes, in the slot or among those that move
    /// (SEGMENT-WRITER-4). Its entry is to be pushed next.
    ///
    /// # Panics
    /// When it does not fit: ask [`Self::fits`] first. When it is empty, or the unit before has no entry yet.
    pub fn push_unit(&mut self, bytes: &[u8], align: u32) -> u32 {
        let len = u32::try_from(bytes.len()).expect("units are smaller than segments");
        assert!(self.fits(len), "unit fits the open segment");
        assert!(len > 0, "a unit has bytes");
        assert_eq!(self.unit_pushed, 0, "the entry of the unit before is pushed first");
        assert!(align == UNIT_ALIGN || align == BLOCK_ALIGN);
        assert!(align == UNIT_ALIGN || len.is_multiple_of(BLOCK_ALIGN)); // SEGMENT-WRITER-4
        self.unit_pushed = len;
        self.ensure_buffer();
        self.small_pushed = self.moves(align);
        if self.small_pushed && self.small.capacity() < self.segment_bytes as usize {
            self.small = self.fresh_buffer();
        }
        let (buf, used) = if self.small_pushed {
            (&mut self.small, &mut self.small_used)
        } else {
            self.used = self.used.max(STRIP_HEADER_BYTES);
            (&mut self.buf, &mut self.used)
        };
        let start = used.next_multiple_of(align);
        buf[*used as usize..start as usize].fill(0);
        *used = start + len;
        assert!(*used <= self.segment_bytes);
        buf[start as usize..*used as usize].copy_from_slice(bytes);
        start
    }

    /// Adds an entry to the summary: of the unit that was pushed last, or of none.
    ///
    /// # Panics
    /// When it does not fit, or names another unit.
    pub fn push_entry(&mut self, entry: SummaryEntry, wseq: WriteSeq) {
        let unit_bytes = std::mem::take(&mut self.unit_pushed);
        assert!(self.fits(unit_bytes), "entry fits the open segment");
        let stored_len = entry.unit().map_or(0, |unit| unit.stored_len);
        assert_eq!(stored_len, unit_bytes, "an entry names the unit that was pushed before it");
        self.counted += entry_space(unit_bytes);
        self.ensure_buffer();
        self.used = self.used.max(STRIP_HEADER_BYTES);
        if wseq > WriteSeq::ZERO {
            if self.wseq_first == WriteSeq::ZERO || wseq < self.wseq_first {
                self.wseq_first = wseq;
            }
            self.wseq_last = self.wseq_last.max(wseq);
        }
        if std::mem::take(&mut self.small_pushed) {
            self.small_entries.push(self.entries.len());
        }
        self.entries.push(entry);
        assert!(self.entries.len() <= Self::entries_max(self.segment_bytes) as usize); // SEGMENT-WRITER-5
    }

    fn ensure_buffer(&mut self) {
        if self.buf.capacity() < self.segment_bytes as usize {
            self.buf = self.fresh_buffer();
        }
    }

    fn fresh_buffer(&mut self) -> AlignedBuf {
        let len = self.segment_bytes as usize;
        let mut buf = self.spare.pop().unwrap_or_else(|| AlignedBuf::scratch(len));
        buf.set_len(len);
        buf
    }

    /// Moves the units that may move behind the others (SEGMENT-WRITER-4); returns where all of them end.
    fn place_small_units(&mut self) -> u32 {
        let keeps_all = self.kind == SegmentKind::Metadata;
        assert!(!keeps_all || self.small_used == 0, "pages stay where they were placed"); // SEGMENT-WRITER-4
        let start = self.used.next_multiple_of(UNIT_ALIGN);
        self.buf[self.used as usize..start as usize].fill(0);
        let small = self.small_used.next_multiple_of(UNIT_ALIGN);
        self.buf[start as usize..(start + self.small_used) as usize]
            .copy_from_slice(&self.small[..self.small_used as usize]);
        self.buf[(start + self.small_used) as usize..(start + small) as usize].fill(0);
        for index in self.small_entries.drain(..) {
            self.entries[index].move_unit(start);
        }
        self.small_used = 0;
        let end = start + small;
        let mut units = self.entries.iter().filter_map(SummaryEntry::unit);
        debug_assert!(units.clone().all(|unit| unit.offset() >= STRIP_HEADER_BYTES));
        debug_assert!(units.all(|unit| unit.offset() + unit.stored_len <= end)); // SEGMENT-3
        end
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

    /// Writes the summary and the header of the open segment and starts the next one (SEGMENT-WRITER-1,
    /// SEGMENT-WRITER-2, SEGMENT-WRITER-3).
    ///
    /// # Panics
    /// When the open segment is empty.
    pub fn seal(&mut self, spec: SealSpec) -> SealedSegment {
        assert!(!self.is_empty(), "an empty segment is never sealed");
        assert_eq!(self.unit_pushed, 0, "every unit has its entry");
        assert_ne!(spec.next_slot, self.chain.next_slot); // SEGMENT-WRITER-1
        assert!(spec.witness <= self.chain.seq, "what is durable was sealed before");
        let summary_offset = self.place_small_units();
        let entries = std::mem::take(&mut self.entries);
        let summary_bytes = u32::try_from(entries.len()).expect("bounded by fits") * ENTRY_BYTES;
        let used_bytes = (summary_offset + summary_bytes).next_multiple_of(BLOCK_ALIGN);
        assert!(used_bytes <= self.segment_bytes, "units and summary fit the slot");
        let mut buf = std::mem::replace(&mut self.buf, AlignedBuf::zeroed(0));
        buf.set_len(used_bytes as usize);
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
        let sealed = SealedSegment {
            id: SegmentId { number, generation: spec.generation },
            link,
            bytes: buf.freeze(),
            entries,
            wseq_last: self.wseq_last,
        };
        self.chain = link;
        self.used = 0;
        self.counted = 0;
        self.wseq_first = WriteSeq::ZERO;
        self.wseq_last = WriteSeq::ZERO;
        sealed
    }
}
