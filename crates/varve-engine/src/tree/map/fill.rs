//! Making a range of blocks holes or zeros: trim, write-zeroes, truncation, deletion of a stream.

use std::ops::Range;

use varve_types::BlockIndex;

use crate::tree::page::Fault;
use crate::tree::{MapSlot, PageCache, PageNames, PagePtr, SlotKind};

use super::page::{MAP_SLOTS, blocks_of_page, blocks_of_slot, slot_index};
use super::tree::{Map, MapStep, Path, map_page, map_page_mut};

/// What a range becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Not allocated; reads as zeros.
    Hole,
    /// Allocated; reads as zeros.
    Zero,
}

/// What a detached range held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DetachedContent {
    /// A data slot at the edge of the range.
    Data(BlockIndex, MapSlot),
    /// A whole subtree, not looked into. Clear it in steps as a map of its own, or leave it to the mark pass; its
    /// dirty pages stay pinned until the next checkpoint.
    Subtree(Map),
}

impl Fill {
    fn slot(self) -> MapSlot {
        match self {
            Self::Hole => MapSlot::HOLE,
            Self::Zero => MapSlot::ZERO,
        }
    }
}

impl Map {
    /// Fills blocks `range`, looking at about `budget` slots; reports each data slot that was replaced with its block,
    /// and drops pages that the fill covers. Returns where to go on; `range.end` when done.
    ///
    /// # Errors
    /// The first absent page, when nothing was done; absent pages later end the step early instead.
    pub fn fill_range(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        range: Range<BlockIndex>,
        fill: Fill,
        budget: usize,
        mut on_dead: impl FnMut(BlockIndex, MapSlot),
    ) -> Result<BlockIndex, Fault> {
        assert!(range.start <= range.end && range.start >= self.base && budget > 0);
        let mut block = range.start;
        let mut seen = 0;
        while block < range.end && seen < budget {
            if !self.covers(block) {
                if fill == Fill::Hole {
                    return Ok(range.end);
                }
                self.grow(cache, names, block);
            }
            let path = match self.descend(cache, block) {
                Ok(path) => path,
                Err(fault) if block == range.start => return Err(fault),
                Err(_) => break,
            };
            let next = if path.level == 0 {
                self.fill_leaf(cache, names, &path, block..range.end, fill, &mut on_dead)
            } else {
                self.fill_absent(cache, names, &path, block..range.end, fill)
            };
            assert!(next > block && next <= range.end);
            seen +=
                if path.level == 0 { usize::try_from(next - block).unwrap_or(budget) } else { 1 };
            block = next;
        }
        Ok(block)
    }

    /// Makes blocks `range` holes without looking into subtrees that the range covers: bounded by two paths of pages
    /// whatever its length.
    ///
    /// # Errors
    /// The first absent page of the paths to both ends; nothing was changed.
    pub fn detach_range(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        range: Range<BlockIndex>,
        mut on_dropped: impl FnMut(DetachedContent),
    ) -> Result<(), Fault> {
        assert!(range.start <= range.end && range.start >= self.base);
        let range = range.start..range.end.min(self.end_block());
        if range.is_empty() {
            return Ok(());
        }
        if range.start <= self.base && range.end >= self.end_block() {
            let empty = Self::new(self.stream, self.shard).with_ceiling(self.ceiling);
            let all = std::mem::replace(self, empty);
            on_dropped(DetachedContent::Subtree(all));
            return Ok(());
        }
        self.descend_to_covered(cache, range.start, &range)?;
        let last = BlockIndex(range.end.0 - 1);
        self.descend_to_covered(cache, last, &range)?;
        let mut block = range.start;
        while block < range.end && !self.is_empty() {
            let path =
                self.descend_to_covered(cache, block, &range).expect("both edges are cached");
            let slot_end = block.group_end(blocks_of_slot(path.level));
            assert!(slot_end > block, "a step goes on");
            if path.slot == MapSlot::HOLE {
                block = slot_end;
            } else if is_covered(block, path.level, &range) {
                match path.slot.kind() {
                    SlotKind::Data => on_dropped(DetachedContent::Data(block, path.slot)),
                    SlotKind::Page => {
                        on_dropped(DetachedContent::Subtree(self.subtree(&path, block)))
                    }
                    SlotKind::Hole | SlotKind::Zero => {}
                }
                self.fill_slot(cache, names, &path, Fill::Hole, slot_end);
                block = slot_end;
            } else {
                self.make_leaf(cache, names, block, &path); // Part of a subtree of zeros.
            }
        }
        Ok(())
    }

    /// Fills the part of a leaf that lies in `range`; returns its end.
    fn fill_leaf(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        path: &Path,
        range: Range<BlockIndex>,
        fill: Fill,
        on_dead: &mut impl FnMut(BlockIndex, MapSlot),
    ) -> BlockIndex {
        assert_eq!(path.level, 0, "the path leads to a leaf");
        let leaf = path[path.len() - 1].frame;
        let start = slot_index(0, range.start);
        let len =
            usize::try_from(range.end - range.start).unwrap_or(MAP_SLOTS).min(MAP_SLOTS - start);
        let next = range.start + len as u64;
        let slots = &map_page(cache, leaf).slots()[start..start + len];
        for (block, slot) in range.start.until(range.end).zip(slots) {
            if slot.kind() == SlotKind::Data {
                on_dead(block, *slot);
            }
        }
        if len == MAP_SLOTS && (path.len() > 1 || fill == Fill::Hole) {
            let left = self.prune(cache, names, path, fill.slot());
            self.prune_uniform(cache, names, &path[..left], fill, next);
            return next;
        }
        if slots.iter().all(|slot| *slot == fill.slot()) {
            return next;
        }
        self.make_dirty(cache, names, path);
        let page = map_page_mut(cache, leaf);
        for index in start..start + len {
            page.set(index, fill.slot());
        }
        self.prune_uniform(cache, names, path, fill, next);
        next
    }

    /// Fills the part of an absent subtree that lies in `range`; returns where that ends, at the first leaf if the
    /// subtree has to come into being.
    fn fill_absent(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        path: &Path,
        range: Range<BlockIndex>,
        fill: Fill,
    ) -> BlockIndex {
        assert!(path.level > 0, "no leaf is there");
        let block = range.start;
        let slot_end = block.group_end(blocks_of_slot(path.level));
        assert!(slot_end > block, "a step goes on");
        if path.slot == fill.slot() {
            return slot_end.min(range.end);
        }
        if is_covered(block, path.level, &range) {
            self.fill_slot(cache, names, path, fill, slot_end);
            return slot_end;
        }
        self.make_leaf(cache, names, block, path);
        let path = self.descend(cache, block).expect("the path was made");
        self.fill_leaf(cache, names, &path, range, fill, &mut |_, _| {})
    }

    /// Fills the slot that a path ends at, which ends before block `next`.
    fn fill_slot(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        path: &Path,
        fill: Fill,
        next: BlockIndex,
    ) {
        assert_ne!(path.slot, fill.slot(), "it is filled once");
        self.make_dirty(cache, names, path);
        let last = path[path.len() - 1];
        map_page_mut(cache, last.frame).set(last.slot, fill.slot());
        self.prune_uniform(cache, names, path, fill, next);
    }

    /// Drops the last pages of a path that are all `fill`, looked at only when filled up to their end.
    fn prune_uniform(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        path: &[MapStep],
        fill: Fill,
        next: BlockIndex,
    ) {
        let mut path = path;
        while let Some((last, above)) = path.split_last() {
            let page = map_page(cache, last.frame);
            let uniform = match fill {
                Fill::Hole => page.used() == 0,
                Fill::Zero => {
                    let filled_up =
                        next.begins_group(blocks_of_page(page.level())) && !above.is_empty();
                    filled_up && page.slots().iter().all(|slot| *slot == MapSlot::ZERO)
                }
            };
            if !uniform {
                return;
            }
            let left = self.prune(cache, names, path, fill.slot());
            path = &path[..left];
        }
    }

    /// The map of the subtree below the slot that a path ends at.
    fn subtree(&self, path: &Path, block: BlockIndex) -> Self {
        assert_eq!(path.slot.kind(), SlotKind::Page, "a subtree begins with a page");
        assert!(
            block.begins_group(blocks_of_slot(path.level)),
            "a subtree begins with its first block"
        );
        let root = PagePtr::Chunk(path.slot.id());
        Self { root, height: path.level, base: block, ..self.clone() }
    }

    /// As `descend`, but ends at the topmost slot that begins with `block` and lies in `range`.
    fn descend_to_covered(
        &self,
        cache: &PageCache,
        block: BlockIndex,
        range: &Range<BlockIndex>,
    ) -> Result<Path, Fault> {
        self.descend_until(cache, block, |level| is_covered(block, level, range))
    }
}

/// Whether a slot of `level` begins with `block` and ends in `range`, which begins there or before.
fn is_covered(block: BlockIndex, level: u8, range: &Range<BlockIndex>) -> bool {
    debug_assert!(block < range.end, "a slot begins in the range");
    let blocks = blocks_of_slot(level);
    block.begins_group(blocks) && range.end - block >= blocks
}
