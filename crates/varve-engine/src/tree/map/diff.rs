//! What differs between two maps, without looking below pages that both have.

use std::ops::Range;

use varve_types::BlockIndex;

use crate::tree::page::Fault;
use crate::tree::{MapSlot, PageCache, PagePtr, SlotKind};

use super::page::{blocks_of_page, blocks_of_slot, slot_index};
use super::tree::{MAP_HEIGHT_MAX, Map, map_page};

/// Consecutive blocks that differ, or do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiffRun {
    /// Number of blocks.
    pub blocks: u64,
    /// Whether they may hold different bytes.
    pub differs: bool,
}

impl DiffRun {
    /// Adds blocks to the last run or as a new one; false if that would be one too many.
    pub(crate) fn add(runs: &mut Vec<Self>, max_runs: usize, differs: bool, blocks: u64) -> bool {
        assert!(blocks > 0, "a run holds a block");
        let full = runs.len() >= max_runs;
        match runs.last_mut() {
            Some(last) if last.differs == differs => last.blocks += blocks,
            _ if full => return false,
            _ => runs.push(Self { blocks, differs }),
        }
        true
    }
}

/// Where a comparison stops.
#[derive(Clone, Copy, Debug)]
pub struct DiffLimits {
    /// Blocks or subtrees looked at.
    pub steps: usize,
    /// Runs in all.
    pub runs: usize,
}

/// A slot that stands for all blocks of a page of `level` would have around the one looked at; of level 0, for the
/// block alone.
#[derive(Clone, Copy)]
struct DiffNode {
    slot: MapSlot,
    level: u8,
}

impl Map {
    /// Appends runs of blocks that hold different chunks here and in `other`, and of those that do not, joining the
    /// first with the last one there, as far as `limits` allow. Costs a step for each block in leaves that differ, and
    /// one for each subtree that does not. Returns where to go on; the end of `blocks` when done.
    ///
    /// # Errors
    /// The first absent page, when nothing was found out; absent pages later end the scan early instead.
    pub fn diff(
        &self,
        other: &Self,
        cache: &PageCache,
        blocks: Range<BlockIndex>,
        limits: DiffLimits,
        runs: &mut Vec<DiffRun>,
    ) -> Result<BlockIndex, Fault> {
        let (first, end) = (blocks.start, blocks.end);
        assert!(first <= end, "a range does not end before it begins");
        assert!([self.base, other.base] == [BlockIndex::ZERO; 2], "whole maps are compared");
        let mut block = first;
        for _ in 0..limits.steps {
            if block >= end {
                break;
            }
            let (differs, level) = match self.compare(other, cache, block) {
                Ok(compared) => compared,
                Err(fault) if block == first => return Err(fault),
                Err(_) => return Ok(block),
            };
            let next = level.map_or(end, |level| block.group_end(blocks_of_slot(level)).min(end));
            if !DiffRun::add(runs, limits.runs, differs, next - block) {
                return Ok(block);
            }
            block = next;
        }
        Ok(block)
    }

    /// Whether a block differs, and the level of the slot for all of which that holds; `None` for all blocks from it
    /// on.
    fn compare(
        &self,
        other: &Self,
        cache: &PageCache,
        block: BlockIndex,
    ) -> Result<(bool, Option<u8>), Fault> {
        if !self.covers(block) && !other.covers(block) {
            return Ok((false, None));
        }
        let (mut mine, mut theirs) = (self.top(block), other.top(block));
        loop {
            let level = mine.level.min(theirs.level);
            if mine.slot == theirs.slot {
                return Ok((false, Some(level)));
            }
            let (mine_is_page, theirs_is_page) =
                (mine.slot.kind() == SlotKind::Page, theirs.slot.kind() == SlotKind::Page);
            if !mine_is_page && !theirs_is_page {
                return Ok((
                    !(reads_as_zeros(mine.slot) && reads_as_zeros(theirs.slot)),
                    Some(level),
                ));
            }
            if mine_is_page && (mine.level >= theirs.level || !theirs_is_page) {
                mine = self.below(cache, mine, block)?;
            } else {
                theirs = other.below(cache, theirs, block)?;
            }
        }
    }

    /// The whole map as one slot.
    fn top(&self, block: BlockIndex) -> DiffNode {
        if self.covers(block) {
            DiffNode { slot: self.page_slot(self.root), level: self.height }
        } else {
            DiffNode { slot: MapSlot::HOLE, level: MAP_HEIGHT_MAX }
        }
    }

    /// The slot of a page that stands for the block.
    fn below(
        &self,
        cache: &PageCache,
        node: DiffNode,
        block: BlockIndex,
    ) -> Result<DiffNode, Fault> {
        assert!(node.level > 0, "nothing is below a leaf's slot");
        assert_eq!(node.slot.kind(), SlotKind::Page, "only pages are looked into");
        let level = node.level - 1;
        assert!(level < self.height, "pages stand below the root or are it");
        let page = map_page(cache, self.find(cache, PagePtr::Chunk(node.slot.id()), level, block)?);
        debug_assert_eq!(blocks_of_page(level), blocks_of_slot(node.level));
        Ok(DiffNode { slot: page.slot(slot_index(level, block)), level })
    }
}

fn reads_as_zeros(slot: MapSlot) -> bool {
    matches!(slot.kind(), SlotKind::Hole | SlotKind::Zero)
}
