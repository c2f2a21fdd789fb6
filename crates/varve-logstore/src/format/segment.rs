//! The header of a strip: the first 4096 bytes of a segment slot. Written with the segment, read by recovery, reclaim
//! and scrub.
//!
//! ```text
//! 0               4096                         summary_offset            used_bytes        segment size
//! | strip header  | unit | unit | ..           | summary entries | 0..   | never read      |
//! ```
//!
//! SEGMENT-1. A header says where it belongs (pool, shard, slot, generation), so that stale and misdirected writes
//!     show.
//! SEGMENT-2. Segments of a kind form a chain: each names its predecessor's header checksum and its successor's slot.
//!     Recovery follows it from the root; it ends where the next slot does not hold the next link.
//! SEGMENT-3. A valid header does not prove the units: a segment above the lane's witness is verified unit by unit, or
//!     discarded.

use varve_media::SegmentId;
use varve_stdx::{DecodeError, Reader, Writer, checksum64};
use varve_types::limits::SEGMENT_BYTES_MAX;
use varve_types::{Generation, PoolId, SegmentNumber, ShardId, WriteSeq};

use super::UNIT_BYTES;
use super::checks::{check_pool, check_unencrypted, head, room, verify};
use super::frame::LogPosition;
use super::summary::ENTRY_BYTES;
use crate::{Error, error::Result};

const WHAT: &str = "strip header";

/// Bytes of a strip header: where units begin.
pub const STRIP_HEADER_BYTES: u32 = 4096;

/// [`ENTRY_BYTES`] as stored.
const ENTRY_BYTES_STORED: u16 = 64;

const _: () = assert!(ENTRY_BYTES_STORED as u32 == ENTRY_BYTES);

/// What a segment holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum SegmentKind {
    /// Pages and usage, written by a checkpoint.
    Metadata = 1,
    /// Drained records.
    Data = 2,
    /// What reclaim moved.
    Reclaimed = 3,
}

impl SegmentKind {
    const fn from_u8(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => Self::Metadata,
            2 => Self::Data,
            3 => Self::Reclaimed,
            _ => return None,
        })
    }
}

/// What a segment says about itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripHeader {
    /// What it holds.
    pub kind: SegmentKind,
    /// Data strips of the stripe; 1 on one drive.
    pub data_strips: u8,
    /// Parity strips of the stripe.
    pub parity_strips: u8,
    /// Which of them this is.
    pub strip_index: u8,
    /// The shard that wrote it.
    pub shard: ShardId,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// The slot it was written to.
    pub slot: SegmentNumber,
    /// Which contents of the slot these are.
    pub generation: Generation,
    /// Slot that the next segment of the chain takes.
    pub next_slot: SegmentNumber,
    /// Open counter of the shard.
    pub mount: u64,
    /// Position in the chain of its kind, from 1.
    pub chain_seq: u64,
    /// Header checksum of the predecessor in the chain; 0 for the first (SEGMENT-2).
    pub previous_checksum: u64,
    /// Bytes of the slot in use, a multiple of 4 KiB; what follows was not written.
    pub used_bytes: u32,
    /// Where the summary begins, in bytes; a multiple of 512.
    pub summary_offset: u32,
    /// Number of summary entries.
    pub summary_entries: u32,
    /// Lowest `wseq` of the records in it; 0 when there are none.
    pub wseq_first: WriteSeq,
    /// Highest `wseq` of the records in it; 0 when there are none.
    pub wseq_last: WriteSeq,
    /// Where the lane continues: every record before it is in this segment, an earlier one of the chain, or a
    /// checkpoint.
    pub lane: LogPosition,
    /// Mount whose frames stand at that point.
    pub lane_mount: u64,
    /// Segments of this chain whose `chain_seq` is at most this are durable in full.
    pub witness: u64,
    /// [`checksum64`] of the summary entries.
    pub summary_checksum: u64,
}

impl StripHeader {
    /// Encoded length in bytes: the first block of a slot.
    pub const LEN: usize = 4096;
    /// First bytes of every strip.
    pub const MAGIC: [u8; 8] = *b"VARVSTRP";
    /// Version of the structure.
    pub const VERSION: u16 = 1;

    const FIELDS_LEN: usize = 168;
    const CHECKSUM_OFFSET: usize = Self::LEN - 8;

    /// Slot and generation.
    #[must_use]
    pub const fn segment(&self) -> SegmentId {
        SegmentId { number: self.slot, generation: self.generation }
    }

    /// Bytes of the summary.
    #[must_use]
    pub const fn summary_bytes(&self) -> u32 {
        self.summary_entries * ENTRY_BYTES
    }

    /// Fills the first [`Self::LEN`] bytes of `segment` and returns the header checksum, which the successor names.
    ///
    /// # Panics
    /// When `segment` is shorter, or sizes contradict each other (FORMAT-4).
    pub fn encode(&self, segment: &mut [u8]) -> u64 {
        if let Some((field, value)) = self.misfit() {
            panic!("{field} of a strip header cannot be {value}");
        }
        let out = room::<{ Self::LEN }>(segment);
        let mut fields = Writer::new(out);
        fields.array(Self::MAGIC);
        fields.u16(Self::VERSION);
        fields.u8(self.kind as u8);
        fields.u8(self.data_strips);
        fields.u8(self.parity_strips);
        fields.u8(self.strip_index);
        fields.u16(self.shard.0);
        fields.bytes(&self.pool.0);
        fields.u32(self.slot.0);
        fields.u32(self.next_slot.0);
        fields.u64(self.generation.get());
        fields.u64(self.mount);
        fields.u64(self.chain_seq);
        fields.u64(self.previous_checksum);
        fields.u32(self.used_bytes);
        fields.u32(self.summary_offset);
        fields.u32(self.summary_entries);
        fields.u16(ENTRY_BYTES_STORED);
        fields.u8(0); // flags
        fields.u8(0); // AEAD codec
        fields.u32(0); // key id
        fields.u32(0);
        fields.u64(self.wseq_first.get());
        fields.u64(self.wseq_last.get());
        fields.u64(self.lane.position);
        fields.u64(self.lane.frame_seq);
        fields.u64(self.lane.chain);
        fields.u64(self.lane_mount);
        fields.u64(self.witness);
        fields.u64(0); // strip checksum
        fields.u64(self.summary_checksum);
        assert_eq!(fields.position(), Self::FIELDS_LEN); // FORMAT-1
        fields.zeros(Self::CHECKSUM_OFFSET - Self::FIELDS_LEN);
        let (covered, last) = out.split_last_chunk_mut::<8>().expect("a header has eight bytes");
        let checksum = checksum64(covered);
        *last = checksum.to_le_bytes();
        checksum
    }

    /// Verifies and reads a header; returns its checksum beside it. Says nothing about units and summary (SEGMENT-3).
    ///
    /// # Errors
    /// Whatever keeps `bytes` from being the header of a strip of this version.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64)> {
        let (mut fields, header_checksum) = Self::verified(bytes)?;
        let kind = fields.u8()?;
        let kind = SegmentKind::from_u8(kind).ok_or_else(|| fields.unknown(kind))?;
        let data_strips = fields.u8()?;
        let parity_strips = fields.u8()?;
        let strip_index = fields.u8()?;
        let shard = ShardId(fields.u16()?);
        let pool = PoolId(fields.array()?);
        let slot = SegmentNumber(fields.u32()?);
        let next_slot = SegmentNumber(fields.u32()?);
        let generation = fields.id("generation", Generation::from_untrusted)?;
        let mount = fields.u64()?;
        let chain_seq = fields.u64()?;
        let previous_checksum = fields.u64()?;
        let used_bytes = fields.u32()?;
        let summary_offset = fields.u32()?;
        let summary_entries = fields.u32()?;
        let entry_bytes = fields.u16()?;
        if entry_bytes != ENTRY_BYTES_STORED {
            return Err(Error::Unsupported { what: WHAT, flags: u64::from(entry_bytes) });
        }
        let flags = fields.u8()?;
        if flags != 0 {
            return Err(Error::Unsupported { what: WHAT, flags: u64::from(flags) });
        }
        let aead = fields.u8()?;
        let key_id = fields.u32()?;
        check_unencrypted(WHAT, u32::from(aead) | key_id)?;
        fields.zeros(4)?;
        let wseq_first = fields.id("wseq_first", WriteSeq::from_untrusted)?;
        let wseq_last = fields.id("wseq_last", WriteSeq::from_untrusted)?;
        let lane =
            LogPosition { position: fields.u64()?, frame_seq: fields.u64()?, chain: fields.u64()? };
        let lane_mount = fields.u64()?;
        let witness = fields.u64()?;
        fields.zeros(8)?; // strip checksum
        let summary_checksum = fields.u64()?;
        fields.zeros(Self::CHECKSUM_OFFSET - Self::FIELDS_LEN)?;

        let header = Self {
            kind,
            data_strips,
            parity_strips,
            strip_index,
            shard,
            pool,
            slot,
            generation,
            next_slot,
            mount,
            chain_seq,
            previous_checksum,
            used_bytes,
            summary_offset,
            summary_entries,
            wseq_first,
            wseq_last,
            lane,
            lane_mount,
            witness,
            summary_checksum,
        };
        match header.misfit() {
            Some((field, value)) => Err(fields.bad(field, value).into()),
            None => Ok((header, header_checksum)),
        }
    }

    /// The fields after the version, and the header checksum, once that is right.
    fn verified(bytes: &[u8]) -> Result<(Reader<'_>, u64)> {
        let bytes = head::<{ Self::LEN }>(WHAT, bytes)?;
        let mut fields = Reader::new(WHAT, bytes);
        fields.magic(Self::MAGIC)?;
        fields.version(Self::VERSION)?;
        let (covered, stored) = bytes.split_last_chunk::<8>().unwrap_or((&[], &[0; 8]));
        let header_checksum = u64::from_le_bytes(*stored);
        verify(WHAT, header_checksum, checksum64(covered))?;
        Ok((fields, header_checksum))
    }

    /// The first field that contradicts the others.
    fn misfit(&self) -> Option<(&'static str, u64)> {
        let strips = u16::from(self.data_strips) + u16::from(self.parity_strips);
        if self.data_strips == 0 {
            return Some(("data_strips", 0));
        }
        if u16::from(self.strip_index) >= strips {
            return Some(("strip_index", u64::from(self.strip_index)));
        }
        if self.chain_seq == 0 {
            return Some(("chain_seq", 0));
        }
        if self.used_bytes > SEGMENT_BYTES_MAX
            || self.used_bytes < STRIP_HEADER_BYTES
            || !self.used_bytes.is_multiple_of(STRIP_HEADER_BYTES)
        {
            return Some(("used_bytes", u64::from(self.used_bytes)));
        }
        if self.summary_offset < STRIP_HEADER_BYTES
            || self.summary_offset > self.used_bytes
            || !self.summary_offset.is_multiple_of(UNIT_BYTES)
        {
            return Some(("summary_offset", u64::from(self.summary_offset)));
        }
        let summary_bytes = u64::from(self.summary_entries) * u64::from(ENTRY_BYTES);
        if summary_bytes > u64::from(self.used_bytes - self.summary_offset) {
            return Some(("summary_entries", u64::from(self.summary_entries)));
        }
        if self.wseq_first > self.wseq_last {
            return Some(("wseq_first", self.wseq_first.get()));
        }
        None
    }

    /// Says whether the strip belongs where it was read (SEGMENT-1).
    ///
    /// # Errors
    /// `DecodeError::BadField` for the first field that names another place.
    pub fn check_place(&self, pool: PoolId, slot: SegmentNumber) -> Result<()> {
        let bad = |field, value| Err(DecodeError::BadField { what: WHAT, field, value }.into());
        check_pool(WHAT, self.pool, pool)?;
        if self.slot != slot {
            return bad("slot", u64::from(self.slot.0));
        }
        Ok(())
    }

    /// Verifies the summary against this header (SUMMARY-1).
    ///
    /// # Errors
    /// [`Error::BadChecksum`], or `DecodeError::BadField` when `summary` is not [`Self::summary_bytes`] long.
    pub fn check_summary(&self, summary: &[u8]) -> Result<()> {
        const WHAT: &str = "segment summary";
        if summary.len() != self.summary_bytes() as usize {
            let value = summary.len() as u64;
            return Err(DecodeError::BadField { what: WHAT, field: "length", value }.into());
        }
        verify(WHAT, self.summary_checksum, checksum64(summary))
    }
}

const _: () = assert!(StripHeader::LEN == STRIP_HEADER_BYTES as usize);
const _: () = assert!(StripHeader::FIELDS_LEN <= StripHeader::CHECKSUM_OFFSET);
const _: () = assert!(STRIP_HEADER_BYTES.is_multiple_of(UNIT_BYTES));
const _: () = assert!(SEGMENT_BYTES_MAX.is_multiple_of(STRIP_HEADER_BYTES));
