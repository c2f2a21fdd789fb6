//! What the map holds ([`MapSlot`]: which chunk) and what the chunk table holds ([`ChunkEntry`]: where it is). Used by
//! the engine's trees.
//!
//! CHUNK-1. A map slot names a chunk by id only, so moving a chunk changes its table entry and nothing else.
//! CHUNK-2. Id 0 names no chunk.

use varve_media::SegmentId;
use varve_stdx::{DecodeError, Reader, Writer};
use varve_types::{ChunkId, Generation, SegmentNumber, ShardId};

use super::checks::{head, room};
use super::pointer::Location;
use super::summary::Codec;
use crate::error::Result;

/// Largest stored length of a chunk in bytes, by the width of its field.
pub const CHUNK_STORED_MAX: u32 = (1 << 24) - 1;

const FLAG_SHARED: u8 = 1;

const _: () = assert!(CHUNK_STORED_MAX >> 24 == 0);
const _: () = assert!(ChunkId::MAX.get() >> (8 * ChunkEntry::KEY_LEN) == 0);
const _: () = assert!(ChunkId::MAX.get() >> MapSlot::SHARD_SHIFT == 0);
const _: () =
    assert!(ShardId::COUNT_MAX as u64 == 1 << (MapSlot::KIND_SHIFT - MapSlot::SHARD_SHIFT));

/// Where a chunk is and how it is stored: the value in the chunk table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChunkEntry {
    /// Slot and generation.
    pub segment: SegmentId,
    /// First byte in the segment, in units of 512 B.
    pub offset_512: u16,
    /// Stored bytes, padding excluded; at most [`CHUNK_STORED_MAX`].
    pub stored_len: u32,
    /// How it is compressed.
    pub codec: Codec,
    /// Whether there may be a second reference to it; once set, it stays, and the chunk is freed by mark alone.
    pub shared: bool,
    /// Plain length, in units of 512 B.
    pub logical_512: u16,
    /// Low half of [`payload_checksum`](super::record::payload_checksum) of the stored bytes.
    pub checksum: u32,
}

impl ChunkEntry {
    /// Encoded length in bytes.
    pub const LEN: usize = 23;
    /// Length of its key in bytes.
    pub const KEY_LEN: usize = 6;

    /// The key of a chunk in the table: big-endian, so that keys sort like ids.
    #[must_use]
    #[inline]
    pub const fn key(chunk: ChunkId) -> [u8; Self::KEY_LEN] {
        let [_, _, a, b, c, d, e, f] = chunk.get().to_be_bytes();
        [a, b, c, d, e, f]
    }

    /// The chunk whose key this is.
    ///
    /// # Errors
    /// `DecodeError::Truncated` or `DecodeError::BadField` when it has another length.
    #[inline]
    pub fn chunk_of_key(key: &[u8]) -> Result<ChunkId> {
        const WHAT: &str = "chunk key";
        let [a, b, c, d, e, f] = *head(WHAT, key)?;
        if key.len() != Self::KEY_LEN {
            return Err(DecodeError::BadField {
                what: WHAT,
                field: "length",
                value: key.len() as u64,
            }
            .into());
        }
        Ok(ChunkId::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f])))
    }

    /// The place alone.
    #[must_use]
    #[inline]
    pub const fn location(&self) -> Location {
        Location {
            segment: self.segment,
            offset_512: self.offset_512,
            stored_len: self.stored_len,
            checksum: self.checksum,
        }
    }

    /// Writes the entry to the first [`Self::LEN`] bytes of `out`.
    ///
    /// # Panics
    /// When `out` is shorter, or `stored_len` 0 or over [`CHUNK_STORED_MAX`] (FORMAT-4).
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        assert!(self.stored_len > 0, "a chunk has bytes"); // FORMAT-4
        let mut out = Writer::new(room::<{ Self::LEN }>(out));
        out.u32(self.segment.number.0);
        out.u48(self.segment.generation.get());
        out.u16(self.offset_512);
        out.u24(self.stored_len);
        out.u8(self.codec as u8);
        out.u8(if self.shared { FLAG_SHARED } else { 0 });
        out.u16(self.logical_512);
        out.u32(self.checksum);
        assert_eq!(out.position(), Self::LEN); // FORMAT-1
    }

    /// Reads an entry. Its bytes have no checksum of their own.
    ///
    /// # Errors
    /// Whatever no writer of this version leaves in an entry.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "chunk entry";
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        let segment = SegmentId {
            number: SegmentNumber(fields.u32()?),
            generation: Generation::new(fields.u48()?),
        };
        let offset_512 = fields.u16()?;
        let stored_len = fields.u24()?;
        if stored_len == 0 {
            return Err(fields.bad("stored_len", 0).into());
        }
        let codec = Codec::read(&mut fields)?;
        let flags = fields.u8()?;
        if flags & !FLAG_SHARED != 0 {
            return Err(DecodeError::ReservedNotZero { what: WHAT }.into());
        }
        Ok(Self {
            segment,
            offset_512,
            stored_len,
            codec,
            shared: flags & FLAG_SHARED != 0,
            logical_512: fields.u16()?,
            checksum: fields.u32()?,
        })
    }
}

/// What a block of a stream holds, in 64 bits: kind 4 (highest) | shard 12 | chunk id 48 (CHUNK-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MapSlot {
    /// Nothing: reads as zeros, takes no space.
    #[default]
    Hole,
    /// Zeros that were written as such: stay allocated in the eyes of the client.
    Zero,
    /// A chunk of data.
    Data {
        /// The chunk's home.
        shard: ShardId,
        /// The chunk.
        chunk: ChunkId,
    },
    /// A page of the map, one level down.
    Page {
        /// The page's home.
        shard: ShardId,
        /// The page.
        chunk: ChunkId,
    },
}

impl MapSlot {
    /// Encoded length in bytes.
    pub const LEN: usize = 8;

    const KIND_SHIFT: u32 = 60;
    const SHARD_SHIFT: u32 = 48;

    /// The slot as the number that is stored.
    ///
    /// # Panics
    /// When the shard needs more than 12 bits or the chunk id is 0 (CHUNK-2).
    #[must_use]
    #[inline]
    pub fn to_bits(self) -> u64 {
        let name = |kind: u64, shard: ShardId, chunk: ChunkId| {
            assert!(shard.0 < ShardId::COUNT_MAX, "shard does not fit 12 bits");
            assert!(chunk != ChunkId::ZERO, "id 0 names no chunk"); // CHUNK-2
            kind << Self::KIND_SHIFT | u64::from(shard.0) << Self::SHARD_SHIFT | chunk.get()
        };
        match self {
            Self::Hole => 0,
            Self::Zero => 1 << Self::KIND_SHIFT,
            Self::Data { shard, chunk } => name(2, shard, chunk),
            Self::Page { shard, chunk } => name(3, shard, chunk),
        }
    }

    /// Reads what [`Self::to_bits`] made.
    ///
    /// # Errors
    /// `DecodeError::UnknownKind`, `DecodeError::ReservedNotZero` for a hole or zero with bits, `DecodeError::BadField`
    /// for chunk 0.
    #[inline]
    pub fn from_bits(bits: u64) -> Result<Self> {
        const WHAT: &str = "map slot";
        let [kind_and_shard, ..] = bits.to_be_bytes();
        let kind = kind_and_shard >> 4;
        let name = bits & ((1 << Self::KIND_SHIFT) - 1);
        let chunk = ChunkId::new(name & ChunkId::MAX.get());
        let shard = ShardId((name >> Self::SHARD_SHIFT) as u16);
        match kind {
            0 | 1 if name != 0 => Err(DecodeError::ReservedNotZero { what: WHAT }.into()),
            0 => Ok(Self::Hole),
            1 => Ok(Self::Zero),
            2 | 3 if chunk == ChunkId::ZERO => {
                Err(DecodeError::BadField { what: WHAT, field: "chunk", value: 0 }.into())
            }
            2 => Ok(Self::Data { shard, chunk }),
            3 => Ok(Self::Page { shard, chunk }),
            _ => Err(DecodeError::UnknownKind { what: WHAT, kind }.into()),
        }
    }

    /// Writes the slot to the first [`Self::LEN`] bytes of `out`.
    ///
    /// # Panics
    /// As [`Self::to_bits`], and when `out` is shorter.
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        *room(out) = self.to_bits().to_le_bytes();
    }

    /// Reads a slot.
    ///
    /// # Errors
    /// As [`Self::from_bits`], and `DecodeError::Truncated`.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Self::from_bits(u64::from_le_bytes(*head("map slot", bytes)?))
    }
}
