//! What runs of blocks hold, for block status and for copying only what is there.

use varve_types::BlockIndex;

use crate::tree::page::Fault;
use crate::tree::{MapSlot, PageCache, SlotKind};

use super::page::{MAP_SLOTS, blocks_of_page, blocks_of_slot};
use super::tree::{Map, map_page};

/// Slots looked at in one call: some ten microseconds, so that other tasks get a turn. A page more may be looked at.
const SLOTS_MAX: usize = 1 << 14;

const _: () = assert!(SLOTS_MAX >= MAP_SLOTS, "a call gets past a page");

/// What a block holds, without saying which chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockMapping {
    /// Not allocated; reads as zeros.
    Hole,
    /// Allocated; reads as zeros.
    Zero,
    /// Data.
    Data,
}

/// Consecutive blocks of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusRun {
    /// Number of blocks.
    pub blocks: u64,
    /// What they hold.
    pub mapped: BlockMapping,
}

impl StatusRun {
    /// Adds blocks to the last run or as a new one; false if that would be one too many.
    pub(crate) fn add(
        runs: &mut Vec<Self>,
        max_runs: usize,
        mapped: BlockMapping,
        blocks: u64,
    ) -> bool {
        assert!(blocks > 0, "a run holds a block");
        let full = runs.len() >= max_runs;
        match runs.last_mut() {
            Some(last) if last.mapped == mapped => last.blocks += blocks,
            _ if full => return false,
            _ => runs.push(Self { blocks, mapped }),
        }
        true
    }
}

impl From<MapSlot> for BlockMapping {
    fn from(slot: MapSlot) -> Self {
        match slot.kind() {
            SlotKind::Hole => Self::Hole,
            SlotKind::Zero => Self::Zero,
            SlotKind::Data => Self::Data,
            SlotKind::Page => unreachable!("a page is descended into"),
        }
    }
}

impl Map {
    /// Appends the runs of blocks from `first` up to `end` to `runs`, joining the first with the last one there, until
    /// there are `max_runs` in all, or [`SLOTS_MAX`] slots were looked at. An absent subtree costs O(1). Returns where
    /// to go on; `end` when done.
    ///
    /// # Errors
    /// The first absent page, when nothing was found out; absent pages later end the scan early instead.
    pub fn status(
        &self,
        cache: &PageCache,
        first: BlockIndex,
        end: BlockIndex,
        max_runs: usize,
        runs: &mut Vec<StatusRun>,
    ) -> Result<BlockIndex, Fault> {
        assert!(first <= end && first >= self.base);
        let (mut block, mut seen) = (first, 0);
        while block < end && seen < SLOTS_MAX {
            if !self.covers(block) {
                let added = StatusRun::add(runs, max_runs, BlockMapping::Hole, end - block);
                return Ok(if added { end } else { block });
            }
            let path = match self.descend(cache, block) {
                Ok(path) => path,
                Err(fault) if block == first => return Err(fault),
                Err(_) => return Ok(block),
            };
            let last = path[path.len() - 1];
            let slots = &map_page(cache, last.frame).slots()[last.slot..];
            let page_end = block.group_end(blocks_of_page(path.level));
            for slot in slots {
                if slot.kind() == SlotKind::Page || block >= end {
                    break;
                }
                let slot_end = block.group_end(blocks_of_slot(path.level));
                let blocks = slot_end.min(end) - block;
                if !StatusRun::add(runs, max_runs, BlockMapping::from(*slot), blocks) {
                    return Ok(block);
                }
                block = slot_end.min(end);
                seen += 1;
            }
            assert!(block <= page_end && slots.len() <= MAP_SLOTS);
        }
        Ok(block)
    }
}
