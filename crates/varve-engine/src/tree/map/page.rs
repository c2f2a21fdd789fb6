//! A page of the map: 512 slots, and how many of them are not holes.

use varve_types::{BlockIndex, StreamId};

use crate::tree::{MapSlot, PAGE_BYTES};

/// Slots of a page.
pub const MAP_SLOTS: usize = 512;

/// Bits of a block index that one level resolves.
pub(crate) const LEVEL_BITS: u32 = 9;

const _: () =
    assert!(1 << LEVEL_BITS == MAP_SLOTS && MAP_SLOTS * size_of::<MapSlot>() == PAGE_BYTES);

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapPage {
    stream: StreamId,
    first_block: BlockIndex,
    level: u8,
    /// Slots that are not holes.
    used: usize,
    slots: Box<[MapSlot; MAP_SLOTS]>,
}

impl MapPage {
    /// A page whose slots are all `fill`, a hole or zero.
    pub(crate) fn filled(
        stream: StreamId,
        level: u8,
        first_block: BlockIndex,
        fill: MapSlot,
    ) -> Self {
        assert!(fill == MapSlot::HOLE || fill == MapSlot::ZERO);
        assert!(first_block.begins_group(blocks_of_page(level)), "a page has its place");
        let slots = vec![fill; MAP_SLOTS].into_boxed_slice();
        let slots = slots.try_into().expect("the length is MAP_SLOTS");
        let used = if fill == MapSlot::HOLE { 0 } else { MAP_SLOTS };
        Self { stream, first_block, level, used, slots }
    }

    /// Stream that first wrote the page; clones share it.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// First block it covers.
    #[must_use]
    pub fn first_block(&self) -> BlockIndex {
        self.first_block
    }

    /// Levels above the leaves.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The slots.
    #[must_use]
    pub fn slots(&self) -> &[MapSlot; MAP_SLOTS] {
        &self.slots
    }

    /// Slots that are not holes.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn slot(&self, index: usize) -> MapSlot {
        self.slots[index]
    }

    pub(crate) fn set(&mut self, index: usize, slot: MapSlot) {
        let old = std::mem::replace(&mut self.slots[index], slot);
        self.used -= usize::from(old != MapSlot::HOLE);
        self.used += usize::from(slot != MapSlot::HOLE);
        debug_assert!(self.used <= MAP_SLOTS, "a slot counts once");
    }
}

/// Blocks a page of that level covers.
pub(crate) const fn blocks_of_page(level: u8) -> u64 {
    debug_assert!(LEVEL_BITS * (level as u32 + 1) < u64::BITS);
    1 << (LEVEL_BITS * (level as u32 + 1))
}

/// Blocks a slot of a page of that level covers.
pub(crate) const fn blocks_of_slot(level: u8) -> u64 {
    debug_assert!(LEVEL_BITS * (level as u32) < u64::BITS);
    1 << (LEVEL_BITS * level as u32)
}

/// Slot of a page of that level that `block` belongs to.
#[inline]
pub(crate) const fn slot_index(level: u8, block: BlockIndex) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "nine bits")]
    let index = (block.0 >> (LEVEL_BITS * level as u32) & (MAP_SLOTS as u64 - 1)) as usize;
    index
}
