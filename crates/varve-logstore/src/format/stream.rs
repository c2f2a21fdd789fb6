//! The record of a stream on one shard: where its map is. The value of a key in the shard's key tree.

use std::ops::RangeInclusive;

use varve_stdx::{Reader, Writer};
use varve_types::ChunkId;

use super::checks::{head, room};
use super::chunk::MapSlot;
use super::pointer::PagePtr;
use crate::{Error, error::Result};

const WHAT: &str = "stream record";

const _: () = assert!(StreamRecord::SLOT_WIDTH as usize == MapSlot::LEN);
const _: () = assert!(1u32 << *StreamRecord::BLOCK_SHIFTS.start() == super::UNIT_BYTES);

/// What a shard knows of one stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamRecord {
    /// Root page of the map; null while nothing was ever stored.
    pub root: PagePtr,
    /// Levels of the map: 0 for an empty one, 1 when the root is a leaf.
    pub height: u8,
    /// Binary logarithm of the block size in bytes: 9 to 16.
    pub block_shift: u8,
    /// Bytes of a map slot.
    pub slot_width: u8,
    /// Pages of the map below this id were born before the stream's last cut: other streams may have them too.
    pub page_ceiling: ChunkId,
    /// Chunks below this id were born before the stream's last cut: other streams may hold them too.
    pub chunk_ceiling: ChunkId,
}

impl StreamRecord {
    /// Encoded length in bytes.
    pub const LEN: usize = 48;
    /// Version of the structure.
    pub const VERSION: u16 = 1;
    /// The one width of map slots this version knows.
    pub const SLOT_WIDTH: u8 = 8;

    const BLOCK_SHIFTS: RangeInclusive<u8> = 9..=16;

    /// Writes the record to the first [`Self::LEN`] bytes of `out`.
    ///
    /// # Panics
    /// When `out` is shorter, the root is in memory only, or a value is one that [`Self::decode`] refuses (FORMAT-4).
    pub fn encode(&self, out: &mut [u8]) {
        assert!(Self::BLOCK_SHIFTS.contains(&self.block_shift), "block size out of range");
        assert_eq!(self.slot_width, Self::SLOT_WIDTH, "unknown slot width");
        assert_eq!(self.root == PagePtr::Null, self.height == 0, "an empty map has no levels");
        let mut out = Writer::new(room::<{ Self::LEN }>(out));
        out.u16(Self::VERSION);
        out.u8(self.height);
        out.u8(self.block_shift);
        out.u8(self.slot_width);
        out.zeros(3); // flags
        out.u64(self.page_ceiling.get());
        out.u64(self.chunk_ceiling.get());
        let mut root = [0; PagePtr::LEN];
        self.root.encode(&mut root);
        out.array(root);
        assert_eq!(out.position(), Self::LEN); // FORMAT-1
    }

    /// Reads a record. Its bytes have no checksum of their own.
    ///
    /// # Errors
    /// Whatever no writer of this version leaves in a record.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut fields = Reader::new(WHAT, head::<{ Self::LEN }>(WHAT, bytes)?);
        fields.version(Self::VERSION)?;
        let height = fields.u8()?;
        let block_shift = fields.u8()?;
        if !Self::BLOCK_SHIFTS.contains(&block_shift) {
            return Err(fields.bad("block_shift", u64::from(block_shift)).into());
        }
        let slot_width = fields.u8()?;
        if slot_width != Self::SLOT_WIDTH {
            return Err(Error::Unsupported { what: WHAT, flags: u64::from(slot_width) });
        }
        fields.zeros(3)?;
        let page_ceiling = fields.id("page_ceiling", ChunkId::from_untrusted)?;
        let chunk_ceiling = fields.id("chunk_ceiling", ChunkId::from_untrusted)?;
        let root = PagePtr::decode(fields.bytes(PagePtr::LEN)?)?;
        if (root == PagePtr::Null) != (height == 0) {
            return Err(fields.bad("height", u64::from(height)).into());
        }
        Ok(Self { root, height, block_shift, slot_width, page_ceiling, chunk_ceiling })
    }
}
