//! Look-up and setting of consecutive blocks: one descent a leaf instead of one a block.

use varve_types::BlockIndex;

use crate::tree::page::Fault;
use crate::tree::{MapSlot, PageCache, PageNames, SlotKind};

use super::page::{MAP_SLOTS, blocks_of_slot, slot_index};
use super::tree::{Map, map_page, map_page_mut};

impl Map {
    /// What `out.len()` blocks from `first` on hold.
    ///
    /// # Errors
    /// The first absent page; `out` is then partly filled.
    pub fn lookup_run(
        &self,
        cache: &PageCache,
        first: BlockIndex,
        out: &mut [MapSlot],
    ) -> Result<(), Fault> {
        let mut block = first;
        let mut rest = out;
        while !rest.is_empty() {
            if !self.covers(block) {
                assert!(block >= self.end_block(), "blocks before a detached subtree");
                rest.fill(MapSlot::HOLE);
                return Ok(());
            }
            let path = self.descend(cache, block)?;
            let span_end = block.group_end(blocks_of_slot(path.level));
            let filled = if path.level == 0 {
                let start = slot_index(0, block);
                let len = rest.len().min(MAP_SLOTS - start);
                let slots = map_page(cache, path[path.len() - 1].frame).slots();
                rest[..len].copy_from_slice(&slots[start..start + len]);
                len
            } else {
                let len = usize::try_from(span_end - block).unwrap_or(usize::MAX).min(rest.len());
                rest[..len].fill(path.slot);
                len
            };
            assert!(filled > 0, "a look-up goes on");
            block += filled as u64;
            rest = &mut rest[filled..];
        }
        Ok(())
    }

    /// Sets `slots.len()` consecutive blocks, and reports each old slot that differed with its block.
    ///
    /// # Errors
    /// The first absent page; nothing was changed.
    pub fn set_run(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        first: BlockIndex,
        slots: &[MapSlot],
        mut on_old: impl FnMut(BlockIndex, MapSlot),
    ) -> Result<(), Fault> {
        assert!(slots.iter().all(|slot| slot.kind() != SlotKind::Page), "blocks hold no pages");
        let Some(last) = slots.len().checked_sub(1) else { return Ok(()) };
        let end = first + last as u64 + 1;
        let mut block = first;
        if leaf_end(first) < end {
            while block < end {
                if self.covers(block) {
                    self.descend(cache, block)?;
                }
                block = leaf_end(block);
            }
        } else if self.covers(first) {
            self.descend(cache, first)?;
        }
        let mut block = first;
        let mut rest = slots;
        while !rest.is_empty() {
            let len = (leaf_end(block) - block).min(rest.len() as u64);
            let (now, later) = rest.split_at(usize::try_from(len).expect("at most a leaf"));
            self.set_in_leaf(cache, names, block, now, &mut on_old);
            block += len;
            rest = later;
        }
        Ok(())
    }

    /// Sets blocks of one leaf, whose pages are cached as far as they exist.
    fn set_in_leaf(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        first: BlockIndex,
        slots: &[MapSlot],
        on_old: &mut impl FnMut(BlockIndex, MapSlot),
    ) {
        if !self.covers(first) {
            if slots.iter().all(|slot| *slot == MapSlot::HOLE) {
                return;
            }
            self.grow(cache, names, first);
        }
        let path = self.descend(cache, first).expect("the path was found before");
        let start = slot_index(0, first);
        assert!(start + slots.len() <= MAP_SLOTS, "the blocks belong to one leaf");
        let same = if path.level == 0 {
            map_page(cache, path[path.len() - 1].frame).slots()[start..start + slots.len()]
                == *slots
        } else {
            slots.iter().all(|slot| *slot == path.slot)
        };
        if same {
            return;
        }
        let leaf = self.make_leaf(cache, names, first, &path);
        debug_assert!(map_page(cache, leaf).first_block() <= first, "the leaf has the blocks");
        let page = map_page_mut(cache, leaf);
        for ((index, block), slot) in (start..).zip(first.until(BlockIndex::MAX)).zip(slots) {
            let old = page.slot(index);
            if old != *slot {
                page.set(index, *slot);
                on_old(block, old);
            }
        }
        if page.used() == 0 {
            // MAP-2. Only a leaf that existed, or stood for zeros and was made for this run, can become empty.
            let path = self.descend(cache, first).expect("the path was made");
            self.prune(cache, names, &path, MapSlot::HOLE);
        }
    }
}

fn leaf_end(block: BlockIndex) -> BlockIndex {
    block.group_end(MAP_SLOTS as u64)
}
