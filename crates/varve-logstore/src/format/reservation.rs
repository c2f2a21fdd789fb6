//! What one shard promises to a stream. The value of a key in the shard's key tree.

use varve_stdx::{Reader, Writer};
use varve_types::ChunkId;

use super::checks::{head, room};
use crate::error::Result;

const WHAT: &str = "reservation record";

/// What a shard promises to one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationRecord {
    /// Blocks that the stream may always have.
    pub blocks: u64,
    /// Pages of its map that name so many blocks, at most.
    pub pages: u64,
    /// Chunks of the stream from this id on are stored as they are, and are nobody else's but for cuts.
    pub floor: ChunkId,
}

impl ReservationRecord {
    /// Encoded length in bytes.
    pub const LEN: usize = 32;
    /// Version of the structure.
    pub const VERSION: u16 = 1;
    /// Blocks and pages at most: more than a volume has.
    pub const COUNT_MAX: u64 = 1 << 52;

    /// Writes the record to the first [`Self::LEN`] bytes of `out`.
    ///
    /// # Panics
    /// When `out` is shorter, or a value is one that [`Self::decode`] refuses (FORMAT-4).
    pub fn encode(&self, out: &mut [u8]) {
        assert!(self.blocks <= Self::COUNT_MAX, "more blocks than a volume has");
        assert!(self.pages <= Self::COUNT_MAX, "more pages than a volume has");
        let mut out = Writer::new(room::<{ Self::LEN }>(out));
        out.u16(Self::VERSION);
        out.zeros(6); // flags
        out.u64(self.blocks);
        out.u64(self.pages);
        out.u64(self.floor.get());
        assert_eq!(out.position(), Self::LEN); // FORMAT-1
    }

    /// Reads a record. Its bytes have no checksum of their own.
    ///
    /// # Errors
    /// Whatever no writer of this version leaves in a record.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        fields.version(Self::VERSION)?;
        fields.zeros(6)?;
        let blocks = fields.u64()?;
        if blocks > Self::COUNT_MAX {
            return Err(fields.bad("blocks", blocks).into());
        }
        let pages = fields.u64()?;
        if pages > Self::COUNT_MAX {
            return Err(fields.bad("pages", pages).into());
        }
        let floor = fields.id("floor", ChunkId::from_untrusted)?;
        Ok(Self { blocks, pages, floor })
    }
}
