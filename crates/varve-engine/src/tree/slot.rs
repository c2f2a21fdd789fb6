//! One entry of the map: what a block, or a whole subtree of blocks, holds; in the bits that are stored.

use varve_logstore::format::chunk;
use varve_types::{ChunkId, ShardId};

/// Kinds of a [`MapSlot`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotKind {
    /// Never written or trimmed: reads as zeros, not allocated.
    Hole,
    /// Reads as zeros, allocated.
    Zero,
    /// A chunk of data; only in leaves.
    Data,
    /// A child page; only above leaves.
    Page,
}

/// A [`chunk::MapSlot`] in one word: kind 4 bits | shard 12 | id 48. Above leaves a hole or zero stands for the whole
/// subtree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MapSlot(u64);

impl MapSlot {
    /// Nothing.
    pub const HOLE: Self = Self(0);
    /// Zeros that count as allocated.
    pub const ZERO: Self = Self(1 << 60);

    /// A chunk of `shard`.
    ///
    /// # Panics
    /// When the id is 0, which names no chunk.
    #[must_use]
    pub fn data(shard: ShardId, chunk: ChunkId) -> Self {
        let slot = Self(chunk::MapSlot::Data { shard, chunk }.to_bits());
        debug_assert_eq!((slot.kind(), slot.shard(), slot.id()), (SlotKind::Data, shard, chunk));
        slot
    }

    /// A child page of `shard`.
    ///
    /// # Panics
    /// When the id is 0, which names no chunk.
    #[must_use]
    pub fn page(shard: ShardId, chunk: ChunkId) -> Self {
        let slot = Self(chunk::MapSlot::Page { shard, chunk }.to_bits());
        debug_assert_eq!((slot.kind(), slot.shard(), slot.id()), (SlotKind::Page, shard, chunk));
        slot
    }

    /// Reads the bits; `None` when they are not those of a slot.
    #[must_use]
    pub fn from_untrusted(bits: u64) -> Option<Self> {
        chunk::MapSlot::from_bits(bits).is_ok().then_some(Self(bits))
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// What it holds.
    #[must_use]
    #[inline]
    pub const fn kind(self) -> SlotKind {
        match self.0 >> 60 {
            0 => SlotKind::Hole,
            1 => SlotKind::Zero,
            2 => SlotKind::Data,
            _ => SlotKind::Page,
        }
    }

    /// Home shard of the chunk; 0 for holes and zeros.
    #[must_use]
    #[inline]
    pub const fn shard(self) -> ShardId {
        ShardId((self.0 >> 48 & 0xFFF) as u16)
    }

    /// The chunk; 0 for holes and zeros.
    #[must_use]
    #[inline]
    pub const fn id(self) -> ChunkId {
        ChunkId::new(self.0 & ChunkId::MAX.get())
    }
}

impl std::fmt::Debug for MapSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind() {
            SlotKind::Hole => f.write_str("Hole"),
            SlotKind::Zero => f.write_str("Zero"),
            kind => write!(f, "{kind:?}({}/{})", self.shard(), self.id()),
        }
    }
}

const _: () = assert!(size_of::<MapSlot>() == chunk::MapSlot::LEN);
const _: () =
    assert!(matches!(MapSlot::HOLE.kind(), SlotKind::Hole), "a slot of zeros holds nothing");
const _: () = assert!(matches!(MapSlot::ZERO.kind(), SlotKind::Zero));
const _: () = assert!(ChunkId::MAX.get() == (1 << 48) - 1, "an id leaves room for shard and kind");
