//! Where stored things are: by place ([`Location`]), or by what names them ([`PagePtr`]). Used by roots, trees and the
//! chunk table.
//!
//! POINTER-1. A location names slot, generation and checksum, so a reused slot or other bytes in it show when it is
//!     read.

use varve_media::SegmentId;
use varve_stdx::{Reader, Writer};
use varve_types::{ChunkId, Generation, SegmentNumber};

use super::checks::{head, room};
use crate::error::Result;

/// The place of a unit in a segment (POINTER-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Location {
    /// Slot and generation.
    pub segment: SegmentId,
    /// First byte in the segment, in units of 512 B.
    pub offset_512: u16,
    /// Stored bytes, padding excluded.
    pub stored_len: u32,
    /// Low half of [`payload_checksum`](super::record::payload_checksum) of the stored bytes.
    pub checksum: u32,
}

impl Location {
    /// Encoded length in bytes.
    pub const LEN: usize = 20;

    /// First byte in the segment.
    #[must_use]
    #[inline]
    pub const fn offset(&self) -> u32 {
        self.offset_512 as u32 * super::UNIT_BYTES
    }

    /// Writes the location to the first [`Self::LEN`] bytes of `out`.
    ///
    /// # Panics
    /// When `out` is shorter, or nothing is stored there (FORMAT-4).
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        assert!(self.stored_len > 0, "a unit has bytes"); // FORMAT-4
        let mut out = Writer::new(room::<{ Self::LEN }>(out));
        out.u32(self.segment.number.0);
        out.u48(self.segment.generation.get());
        out.u16(self.offset_512);
        out.u32(self.stored_len);
        out.u32(self.checksum);
        assert_eq!(out.position(), Self::LEN); // FORMAT-1
    }

    /// Reads a location. Its bytes have no checksum of their own.
    ///
    /// # Errors
    /// `DecodeError::Truncated`, or `DecodeError::BadField` when nothing is
    /// stored there.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "location";
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        let location = Self {
            segment: SegmentId {
                number: SegmentNumber(fields.u32()?),
                generation: Generation::new(fields.u48()?),
            },
            offset_512: fields.u16()?,
            stored_len: fields.u32()?,
            checksum: fields.u32()?,
        };
        if location.stored_len == 0 {
            return Err(fields.bad("stored_len", 0).into());
        }
        Ok(location)
    }
}

/// Names a page of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PagePtr {
    /// No page: the tree is empty.
    #[default]
    Null,
    /// A map or key page, named by its chunk on the same shard.
    Chunk(ChunkId),
    /// A page of the chunk table, named by its place in its single parent.
    Location(Location),
    /// A page that exists in memory only, under a number of its tree's choice. Never stored.
    Memory(u64),
}

impl PagePtr {
    /// Encoded length in bytes.
    pub const LEN: usize = 24;

    /// Writes the pointer to the first [`Self::LEN`] bytes of `out`.
    ///
    /// # Panics
    /// When `out` is shorter, or the page is in memory only.
    #[inline]
    pub fn encode(&self, out: &mut [u8]) {
        let out = room::<{ Self::LEN }>(out);
        out.fill(0);
        let (tag, rest) = out.split_first_chunk_mut::<4>().expect("a pointer is longer");
        match self {
            Self::Null => {}
            Self::Chunk(chunk) => {
                *tag = [1, 0, 0, 0];
                Writer::new(rest).u48(chunk.get());
            }
            Self::Location(location) => {
                *tag = [2, 0, 0, 0];
                location.encode(rest);
            }
            Self::Memory(page) => panic!("page {page} is stored before what points to it"),
        }
    }

    /// Reads a pointer; never one to memory.
    ///
    /// # Errors
    /// `DecodeError::UnknownKind` and whatever no writer of this version leaves in a pointer.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "page pointer";
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        let tag = fields.u8()?;
        fields.zeros(3)?;
        match tag {
            0 => {
                fields.zeros(20)?;
                Ok(Self::Null)
            }
            1 => {
                let chunk = ChunkId::new(fields.u48()?);
                fields.zeros(14)?;
                Ok(Self::Chunk(chunk))
            }
            2 => Location::decode(fields.bytes(Location::LEN)?).map(Self::Location),
            _ => Err(fields.unknown(tag).into()),
        }
    }
}

const _: () = assert!(4 + Location::LEN == PagePtr::LEN);
