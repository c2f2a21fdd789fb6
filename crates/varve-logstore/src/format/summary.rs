//! The summary of a segment: one fixed-width entry for each unit or fact in it. Written when a segment is closed, read
//! by recovery and reclaim.
//!
//! ```text
//! 0      1       2       3       4         10         16        22       28    32
//! | kind | codec | flags | class | chunk 6 | stream 6 | block 6 | wseq 6 | cut |
//! 32           34            36           40         44       48               64
//! | offset_512 | logical_512 | stored_len | checksum | key id | fingerprint 16 |
//! ```
//!
//! SUMMARY-1. Summaries alone rebuild everything since a checkpoint; the strip header's checksum covers them.
//! SUMMARY-2. Per block and key the entry with the highest `wseq` wins, whatever the order of segments; a
//!     [`SummaryEntry::Move`] counts only while the chunk table still holds the full old place.
//! SUMMARY-3. Entries stand in ascending order of `wseq` per block and per key, and among those that came from the
//!     lane. Those that did not carry a flag.

use varve_media::SegmentId;
use varve_stdx::{DecodeError, Reader, Writer};
use varve_types::{ChunkId, CutNumber, Generation, SegmentNumber, ShardId, StreamId, WriteSeq};

use super::checks::{check_unencrypted, head, room};
use super::pointer::Location;
use crate::error::Result;

const WHAT: &str = "summary entry";

/// Bytes of an entry as a count in segments.
pub const ENTRY_BYTES: u32 = 64;

const _: () = assert!(SummaryEntry::LEN == ENTRY_BYTES as usize);

/// How the stored bytes of a unit are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Codec {
    /// Not at all.
    #[default]
    Raw = 0,
    /// LZ4 block format.
    Lz4 = 1,
    /// Zstandard frame.
    Zstd = 2,
}

impl Codec {
    pub(super) fn read(fields: &mut Reader<'_>) -> Result<Self> {
        match fields.u8()? {
            0 => Ok(Self::Raw),
            1 => Ok(Self::Lz4),
            2 => Ok(Self::Zstd),
            codec => Err(fields.unknown(codec).into()),
        }
    }
}

/// First half of the keyed hash (BLAKE3) of a block's plain bytes: equal for equal blocks, and for no others that
/// anybody has found; 2^64 tries by somebody who knows the key would find two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Encoded length in bytes.
    pub const LEN: usize = 16;

    /// The fingerprint with these bytes; `None` for zeros, which stand for no fingerprint.
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Option<Self> {
        if u128::from_le_bytes(bytes) == 0 { None } else { Some(Self(bytes)) }
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        self.0
    }
}

/// A piece of a segment: stored bytes of one chunk, page, key record or blob.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unit {
    /// First byte in the segment, in units of 512 B.
    pub offset_512: u16,
    /// Stored bytes, padding excluded; never 0.
    pub stored_len: u32,
    /// Plain length in units of 512 B, for chunks; 0 for everything else.
    pub logical_512: u16,
    /// How it is compressed.
    pub codec: Codec,
    /// Low half of [`payload_checksum`](super::record::payload_checksum) of the stored bytes.
    pub checksum: u32,
}

impl Unit {
    /// Where the unit is, given its segment.
    #[must_use]
    #[inline]
    pub const fn location(&self, segment: SegmentId) -> Location {
        Location {
            segment,
            offset_512: self.offset_512,
            stored_len: self.stored_len,
            checksum: self.checksum,
        }
    }

    /// First byte in the segment.
    #[must_use]
    #[inline]
    pub const fn offset(&self) -> u32 {
        self.offset_512 as u32 * super::UNIT_BYTES
    }
}

/// What a segment says about one unit or fact in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SummaryEntry {
    /// A chunk of data of a stream.
    Data {
        /// The chunk's new id.
        chunk: ChunkId,
        /// The stream.
        stream: StreamId,
        /// First block of the stream that it holds.
        block: u64,
        /// The write it came from.
        wseq: WriteSeq,
        /// Cut interval of that write.
        cut: CutNumber,
        /// I/O class of that write.
        class: u8,
        /// Whether the write never was in the lane.
        bypassed: bool,
        /// The stored bytes.
        unit: Unit,
        /// Of the plain bytes, where the stream is deduplicated.
        fingerprint: Option<Fingerprint>,
    },
    /// A block that holds the same bytes as a chunk that is stored already.
    Reference {
        /// The chunk; of this shard.
        chunk: ChunkId,
        /// The stream.
        stream: StreamId,
        /// The block.
        block: u64,
        /// The write it came from.
        wseq: WriteSeq,
        /// Cut interval of that write.
        cut: CutNumber,
        /// I/O class of that write.
        class: u8,
        /// Whether the write never was in the lane.
        bypassed: bool,
    },
    /// A block that holds the same bytes as a chunk of another shard.
    ForeignReference {
        /// The other shard.
        home: ShardId,
        /// The chunk there.
        chunk: ChunkId,
        /// The stream.
        stream: StreamId,
        /// The block.
        block: u64,
        /// The write it came from.
        wseq: WriteSeq,
        /// I/O class of that write.
        class: u8,
        /// Whether the write never was in the lane.
        bypassed: bool,
    },
    /// Chunks that another shard may name from here on: they are shared.
    Grant {
        /// The first.
        first: ChunkId,
        /// How many ids follow each other, the first included.
        count: u64,
        /// The record it came from.
        wseq: WriteSeq,
    },
    /// Blocks that became holes.
    Trim {
        /// The stream.
        stream: StreamId,
        /// First block.
        block: u64,
        /// Number of blocks.
        block_count: u64,
        /// The record it came from.
        wseq: WriteSeq,
        /// Cut interval of that record.
        cut: CutNumber,
        /// Whether it is a block of zeros of a write that never was in the lane.
        bypassed: bool,
    },
    /// Blocks that became zeros.
    Zero {
        /// The stream.
        stream: StreamId,
        /// First block.
        block: u64,
        /// Number of blocks.
        block_count: u64,
        /// The record it came from.
        wseq: WriteSeq,
        /// Cut interval of that record.
        cut: CutNumber,
    },
    /// A key set; the unit is a [`KeyPayload`](super::record::KeyPayload).
    KeyPut {
        /// The record it came from.
        wseq: WriteSeq,
        /// Key and value.
        unit: Unit,
    },
    /// A key removed; the unit is a [`KeyPayload`](super::record::KeyPayload).
    KeyDelete {
        /// The record it came from.
        wseq: WriteSeq,
        /// The key.
        unit: Unit,
    },
    /// A stream ended.
    StreamDrop {
        /// The stream.
        stream: StreamId,
        /// The record it came from.
        wseq: WriteSeq,
    },
    /// A stream that holds from here on what another one holds here.
    Cut {
        /// The other one.
        source: StreamId,
        /// The stream.
        copy: StreamId,
        /// The record it came from.
        wseq: WriteSeq,
        /// Chunks of the source are below this id.
        chunk_ceiling: ChunkId,
    },
    /// A chunk or page copied here by reclaim, byte for byte: stored length and checksum are those of the old place.
    Move {
        /// The chunk.
        chunk: ChunkId,
        /// Slot and generation it came from.
        from: SegmentId,
        /// Offset there, in units of 512 B.
        from_offset_512: u16,
        /// The stored bytes.
        unit: Unit,
        /// As the entry had it that the chunk was moved from.
        fingerprint: Option<Fingerprint>,
    },
    /// A page of a map or of the key tree.
    Page {
        /// The page's name.
        chunk: ChunkId,
        /// The stored bytes, page header included.
        unit: Unit,
    },
    /// A page of the chunk table.
    TablePage {
        /// Height above the leaves.
        level: u8,
        /// The stored bytes, page header included.
        unit: Unit,
    },
    /// Chunks that died, logged before their space is used again.
    FreedIds {
        /// The first.
        first: ChunkId,
        /// How many ids follow each other, the first included.
        count: u64,
    },
    /// Ids of which those that were overwritten left the chunk table.
    Folded {
        /// The first.
        first: ChunkId,
        /// How many ids follow each other, the first included.
        count: u64,
    },
    /// Live bytes of segments, as of a checkpoint.
    UsageBlob {
        /// The stored bytes, page header included.
        unit: Unit,
    },
    /// Chunks that were overwritten and stand in the chunk table, as of a checkpoint.
    DeathBlob {
        /// The stored bytes, page header included.
        unit: Unit,
    },
    /// Map updates that wait, as of a checkpoint.
    DeltaBlob {
        /// The stored bytes, page header included.
        unit: Unit,
    },
}

/// Kinds as stored.
mod kind {
    pub(super) const DATA: u8 = 1;
    pub(super) const TRIM: u8 = 2;
    pub(super) const ZERO: u8 = 3;
    pub(super) const KEY_PUT: u8 = 4;
    pub(super) const KEY_DELETE: u8 = 5;
    pub(super) const STREAM_DROP: u8 = 6;
    pub(super) const MOVE: u8 = 7;
    pub(super) const PAGE: u8 = 8;
    pub(super) const TABLE_PAGE: u8 = 9;
    pub(super) const FREED_IDS: u8 = 10;
    pub(super) const USAGE_BLOB: u8 = 11;
    pub(super) const CUT: u8 = 12;
    pub(super) const REFERENCE: u8 = 13;
    pub(super) const DEATH_BLOB: u8 = 14;
    pub(super) const FOLDED: u8 = 15;
    pub(super) const FOREIGN_REFERENCE: u8 = 16;
    pub(super) const GRANT: u8 = 17;
    pub(super) const DELTA_BLOB: u8 = 18;
}

/// Flag of entries of writes that never were in the lane.
const BYPASSED: u8 = 1;

/// An entry as fields at fixed places; what a kind does not use is zero.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Raw {
    kind: u8,
    flags: u8,
    class: u8,
    chunk: u64,
    stream: u64,
    block: u64,
    wseq: u64,
    cut: u32,
    unit: Option<Unit>,
    fingerprint: Option<Fingerprint>,
}

impl SummaryEntry {
    /// Encoded length in bytes, of every kind.
    pub const LEN: usize = 64;

    /// The stored bytes the entry speaks of, if any.
    #[must_use]
    pub const fn unit(&self) -> Option<&Unit> {
        match self {
            Self::Data { unit, .. }
            | Self::KeyPut { unit, .. }
            | Self::KeyDelete { unit, .. }
            | Self::Move { unit, .. }
            | Self::Page { unit, .. }
            | Self::TablePage { unit, .. }
            | Self::UsageBlob { unit }
            | Self::DeathBlob { unit }
            | Self::DeltaBlob { unit } => Some(unit),
            Self::Reference { .. }
            | Self::ForeignReference { .. }
            | Self::Grant { .. }
            | Self::Trim { .. }
            | Self::Zero { .. }
            | Self::StreamDrop { .. }
            | Self::Cut { .. }
            | Self::FreedIds { .. }
            | Self::Folded { .. } => None,
        }
    }

    /// Its unit lies `bytes` further on in the segment than was said.
    ///
    /// # Panics
    /// When it has none, or that is outside of any segment or not where a unit may begin.
    pub fn move_unit(&mut self, bytes: u32) {
        assert!(bytes.is_multiple_of(super::UNIT_BYTES), "units are aligned");
        let unit = match self {
            Self::Data { unit, .. }
            | Self::KeyPut { unit, .. }
            | Self::KeyDelete { unit, .. }
            | Self::Move { unit, .. }
            | Self::Page { unit, .. }
            | Self::TablePage { unit, .. }
            | Self::UsageBlob { unit }
            | Self::DeathBlob { unit }
            | Self::DeltaBlob { unit } => unit,
            Self::Reference { .. }
            | Self::ForeignReference { .. }
            | Self::Grant { .. }
            | Self::Trim { .. }
            | Self::Zero { .. }
            | Self::StreamDrop { .. }
            | Self::Cut { .. }
            | Self::FreedIds { .. }
            | Self::Folded { .. } => panic!("{self:?} has no unit"),
        };
        let units = (unit.offset() + bytes) / super::UNIT_BYTES;
        unit.offset_512 = u16::try_from(units).expect("inside a segment");
    }

    /// The record the entry came from, if it came from one (SUMMARY-2).
    #[must_use]
    pub const fn wseq(&self) -> Option<WriteSeq> {
        match self {
            Self::Data { wseq, .. }
            | Self::Reference { wseq, .. }
            | Self::ForeignReference { wseq, .. }
            | Self::Grant { wseq, .. }
            | Self::Trim { wseq, .. }
            | Self::Zero { wseq, .. }
            | Self::KeyPut { wseq, .. }
            | Self::KeyDelete { wseq, .. }
            | Self::StreamDrop { wseq, .. }
            | Self::Cut { wseq, .. } => Some(*wseq),
            Self::Move { .. }
            | Self::Page { .. }
            | Self::TablePage { .. }
            | Self::FreedIds { .. }
            | Self::Folded { .. }
            | Self::UsageBlob { .. }
            | Self::DeathBlob { .. }
            | Self::DeltaBlob { .. } => None,
        }
    }

    /// The lane record the entry came from, if it came from one (SUMMARY-3).
    #[must_use]
    pub const fn lane_wseq(&self) -> Option<WriteSeq> {
        match self {
            Self::Data { bypassed: true, .. }
            | Self::Reference { bypassed: true, .. }
            | Self::ForeignReference { bypassed: true, .. }
            | Self::Trim { bypassed: true, .. } => None,
            _ => self.wseq(),
        }
    }

    /// Writes the entry to the first [`Self::LEN`] bytes of `out`. Allocates nothing.
    ///
    /// # Panics
    /// When `out` is shorter, a unit is empty, a home needs more than 12 bits, or a block or count more than 48.
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        if let Self::ForeignReference { home, .. } = self {
            assert!(home.0 < ShardId::COUNT_MAX, "a home fits 12 bits");
        }
        let raw = self.to_raw();
        let mut out = Writer::new(room::<{ Self::LEN }>(out));
        out.u8(raw.kind);
        out.u8(raw.unit.map_or(0, |unit| unit.codec as u8));
        out.u8(raw.flags);
        out.u8(raw.class);
        out.u48(raw.chunk);
        out.u48(raw.stream);
        out.u48(raw.block);
        out.u48(raw.wseq);
        out.u32(raw.cut);
        match raw.unit {
            Some(unit) => {
                assert!(unit.stored_len > 0, "a unit has bytes");
                out.u16(unit.offset_512);
                out.u16(unit.logical_512);
                out.u32(unit.stored_len);
                out.u32(unit.checksum);
            }
            None => out.zeros(12),
        }
        out.u32(0); // key id
        out.bytes(&raw.fingerprint.map_or([0; Fingerprint::LEN], |fingerprint| fingerprint.0));
        assert_eq!(out.position(), Self::LEN); // FORMAT-1
    }

    #[inline]
    fn to_raw(self) -> Raw {
        let zero = Raw::default();
        match self {
            Self::Data { chunk, stream, block, wseq, cut, class, bypassed, unit, fingerprint } => {
                let unit = Some(unit);
                let flags = flags(bypassed);
                let raw = Raw { flags, class, cut: cut.0, unit, fingerprint, ..zero };
                raw.names(kind::DATA, chunk, stream, block, wseq)
            }
            Self::Reference { chunk, stream, block, wseq, cut, class, bypassed } => {
                let raw = Raw { flags: flags(bypassed), class, cut: cut.0, ..zero };
                raw.names(kind::REFERENCE, chunk, stream, block, wseq)
            }
            Self::ForeignReference { home, chunk, stream, block, wseq, class, bypassed } => {
                let raw = Raw { flags: flags(bypassed), class, cut: u32::from(home.0), ..zero };
                raw.names(kind::FOREIGN_REFERENCE, chunk, stream, block, wseq)
            }
            Self::Grant { first, count, wseq } => {
                Raw { wseq: wseq.get(), ..Raw::ids(kind::GRANT, first, count) }
            }
            Self::Trim { stream, block, block_count, wseq, cut, bypassed } => Raw {
                flags: flags(bypassed),
                ..Raw::range(kind::TRIM, stream, block, block_count, wseq, cut)
            },
            Self::Zero { stream, block, block_count, wseq, cut } => {
                Raw::range(kind::ZERO, stream, block, block_count, wseq, cut)
            }
            Self::KeyPut { wseq, unit } => {
                Raw { kind: kind::KEY_PUT, wseq: wseq.get(), unit: Some(unit), ..zero }
            }
            Self::KeyDelete { wseq, unit } => {
                Raw { kind: kind::KEY_DELETE, wseq: wseq.get(), unit: Some(unit), ..zero }
            }
            Self::StreamDrop { stream, wseq } => {
                Raw { kind: kind::STREAM_DROP, stream: stream.get(), wseq: wseq.get(), ..zero }
            }
            Self::Cut { source, copy, wseq, chunk_ceiling: ceiling } => {
                Raw::range(kind::CUT, source, copy.get(), ceiling.get(), wseq, CutNumber(0))
            }
            Self::Move { chunk, from, from_offset_512, unit, fingerprint } => Raw {
                kind: kind::MOVE,
                chunk: chunk.get(),
                stream: from.generation.get(),
                block: u64::from(from_offset_512),
                cut: from.number.0,
                unit: Some(unit),
                fingerprint,
                ..zero
            },
            Self::Page { chunk, unit } => {
                Raw { kind: kind::PAGE, chunk: chunk.get(), unit: Some(unit), ..zero }
            }
            Self::TablePage { level, unit } => {
                Raw { kind: kind::TABLE_PAGE, block: u64::from(level), unit: Some(unit), ..zero }
            }
            Self::FreedIds { first, count } => Raw::ids(kind::FREED_IDS, first, count),
            Self::Folded { first, count } => Raw::ids(kind::FOLDED, first, count),
            Self::UsageBlob { unit } => Raw { kind: kind::USAGE_BLOB, unit: Some(unit), ..zero },
            Self::DeathBlob { unit } => Raw { kind: kind::DEATH_BLOB, unit: Some(unit), ..zero },
            Self::DeltaBlob { unit } => Raw { kind: kind::DELTA_BLOB, unit: Some(unit), ..zero },
        }
    }

    /// Reads an entry. The summary's checksum in the strip header covers it; nothing in it proves it whole.
    ///
    /// # Errors
    /// Whatever no writer of this version leaves in an entry.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        let kind = fields.u8()?;
        let has_unit = match kind {
            kind::DATA
            | kind::KEY_PUT
            | kind::KEY_DELETE
            | kind::MOVE
            | kind::PAGE
            | kind::TABLE_PAGE
            | kind::USAGE_BLOB
            | kind::DEATH_BLOB
            | kind::DELTA_BLOB => true,
            kind::REFERENCE
            | kind::FOREIGN_REFERENCE
            | kind::GRANT
            | kind::TRIM
            | kind::ZERO
            | kind::STREAM_DROP
            | kind::CUT
            | kind::FREED_IDS
            | kind::FOLDED => false,
            _ => return Err(fields.unknown(kind).into()),
        };
        let codec = Codec::read(&mut fields)?;
        let mut raw = Raw {
            kind,
            flags: fields.u8()?,
            class: fields.u8()?,
            chunk: fields.u48()?,
            stream: fields.u48()?,
            block: fields.u48()?,
            wseq: fields.u48()?,
            cut: fields.u32()?,
            unit: None,
            fingerprint: None,
        };
        if has_unit {
            let unit = Unit {
                offset_512: fields.u16()?,
                logical_512: fields.u16()?,
                stored_len: fields.u32()?,
                codec,
                checksum: fields.u32()?,
            };
            if unit.stored_len == 0 {
                return Err(fields.bad("stored_len", 0).into());
            }
            raw.unit = Some(unit);
        } else {
            fields.zeros(12)?;
            if codec != Codec::Raw {
                return Err(DecodeError::ReservedNotZero { what: WHAT }.into());
            }
        }
        let key_id = fields.u32()?;
        check_unencrypted(WHAT, key_id)?;
        if kind == kind::FOREIGN_REFERENCE && raw.cut >= u32::from(ShardId::COUNT_MAX) {
            return Err(fields.bad("home", u64::from(raw.cut)).into());
        }
        raw.fingerprint = Fingerprint::new(*head(WHAT, fields.bytes(Fingerprint::LEN)?)?);

        let entry = Self::from_raw(raw).ok_or_else(|| fields.unknown(kind))?;
        if entry.to_raw() != raw {
            // FORMAT-3: a field or flag that the kind does not use.
            return Err(DecodeError::ReservedNotZero { what: WHAT }.into());
        }
        Ok(entry)
    }

    /// The entry that these fields spell, if the kind and its unit go together. Fields that the kind does not use are
    /// dropped.
    fn from_raw(raw: Raw) -> Option<Self> {
        let chunk = ChunkId::from_untrusted(raw.chunk)?;
        let stream = StreamId::from_untrusted(raw.stream)?;
        let wseq = WriteSeq::from_untrusted(raw.wseq)?;
        let cut = CutNumber(raw.cut);
        let Raw { block, class, .. } = raw;
        let bypassed = raw.flags == BYPASSED;
        let fingerprint = raw.fingerprint;
        Some(match (raw.kind, raw.unit) {
            (kind::DATA, Some(unit)) => {
                Self::Data { chunk, stream, block, wseq, cut, class, bypassed, unit, fingerprint }
            }
            (kind::REFERENCE, None) => {
                Self::Reference { chunk, stream, block, wseq, cut, class, bypassed }
            }
            (kind::FOREIGN_REFERENCE, None) => Self::ForeignReference {
                home: ShardId(low_16(u64::from(raw.cut))),
                chunk,
                stream,
                block,
                wseq,
                class,
                bypassed,
            },
            (kind::GRANT, None) => Self::Grant { first: chunk, count: block, wseq },
            (kind::TRIM, None) => {
                Self::Trim { stream, block, block_count: raw.chunk, wseq, cut, bypassed }
            }
            (kind::ZERO, None) => Self::Zero { stream, block, block_count: raw.chunk, wseq, cut },
            (kind::KEY_PUT, Some(unit)) => Self::KeyPut { wseq, unit },
            (kind::KEY_DELETE, Some(unit)) => Self::KeyDelete { wseq, unit },
            (kind::STREAM_DROP, None) => Self::StreamDrop { stream, wseq },
            (kind::CUT, None) => Self::Cut {
                source: stream,
                copy: StreamId::from_untrusted(block)?,
                wseq,
                chunk_ceiling: chunk,
            },
            (kind::MOVE, Some(unit)) => Self::Move {
                chunk,
                from: SegmentId {
                    number: SegmentNumber(raw.cut),
                    generation: Generation::from_untrusted(raw.stream)?,
                },
                from_offset_512: low_16(block),
                unit,
                fingerprint,
            },
            (kind::PAGE, Some(unit)) => Self::Page { chunk, unit },
            (kind::TABLE_PAGE, Some(unit)) => Self::TablePage { level: low_8(block), unit },
            (kind::FREED_IDS, None) => Self::FreedIds { first: chunk, count: block },
            (kind::FOLDED, None) => Self::Folded { first: chunk, count: block },
            (kind::USAGE_BLOB, Some(unit)) => Self::UsageBlob { unit },
            (kind::DEATH_BLOB, Some(unit)) => Self::DeathBlob { unit },
            (kind::DELTA_BLOB, Some(unit)) => Self::DeltaBlob { unit },
            _ => return None,
        })
    }
}

const fn flags(bypassed: bool) -> u8 {
    if bypassed { BYPASSED } else { 0 }
}

#[expect(clippy::cast_possible_truncation, reason = "decode compares with what was stored")]
const fn low_16(value: u64) -> u16 {
    value as u16
}

#[expect(clippy::cast_possible_truncation, reason = "decode compares with what was stored")]
const fn low_8(value: u64) -> u8 {
    value as u8
}

impl Raw {
    /// An entry by which a block of a stream names a chunk.
    #[inline]
    fn names(self, kind: u8, chunk: ChunkId, stream: StreamId, block: u64, wseq: WriteSeq) -> Self {
        let (chunk, stream, wseq) = (chunk.get(), stream.get(), wseq.get());
        Self { kind, chunk, stream, block, wseq, ..self }
    }

    fn ids(kind: u8, first: ChunkId, count: u64) -> Self {
        Self { kind, chunk: first.get(), block: count, ..Self::default() }
    }

    #[inline]
    fn range(
        kind: u8,
        stream: StreamId,
        block: u64,
        block_count: u64,
        wseq: WriteSeq,
        cut: CutNumber,
    ) -> Self {
        Self {
            kind,
            flags: 0,
            class: 0,
            chunk: block_count,
            stream: stream.get(),
            block,
            wseq: wseq.get(),
            cut: cut.0,
            unit: None,
            fingerprint: None,
        }
    }
}
