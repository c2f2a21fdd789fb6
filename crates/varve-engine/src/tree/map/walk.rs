//! Walking a map: every page name and every data slot.

use varve_types::{BlockIndex, ChunkId};

use crate::tree::page::Fault;
use crate::tree::{MapSlot, PageCache, PagePtr, SlotKind};

use super::page::{blocks_of_page, blocks_of_slot, slot_index};
use super::tree::{MAP_HEIGHT_MAX, Map, map_page};

/// What a walk comes across.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkItem {
    /// A page.
    Page {
        /// Its name.
        page: ChunkId,
        /// Levels above the leaves.
        level: u8,
    },
    /// A page that is known already, in place of all that is below it.
    Known {
        /// Its name.
        page: ChunkId,
        /// Levels above the leaves.
        level: u8,
    },
    /// A data slot.
    Data {
        /// Block it belongs to.
        block: BlockIndex,
        /// The slot.
        slot: MapSlot,
    },
}

impl WalkItem {
    /// The id that names it, if it is a page that was not known.
    #[must_use]
    pub fn page(&self) -> Option<ChunkId> {
        match self {
            Self::Page { page, .. } => Some(*page),
            Self::Known { .. } | Self::Data { .. } => None,
        }
    }
}

impl Map {
    /// Reports pages that begin at or after block `from`, parents before children, and data slots from it on; about
    /// `budget` slots and pages a call. A page that `is_known` is reported as such, and nothing below it. Start with
    /// [`Self::first_block`]; returns where to go on, `None` when done.
    ///
    /// The map may change between calls: what is in it under its old name from begin to end was reported.
    ///
    /// # Errors
    /// The absent page, when nothing was reported.
    pub fn walk(
        &self,
        cache: &PageCache,
        from: BlockIndex,
        budget: usize,
        is_known: impl Fn(ChunkId) -> bool,
        mut visit: impl FnMut(WalkItem),
    ) -> Result<Option<BlockIndex>, Fault> {
        assert!(from >= self.base && budget > 0);
        let mut block = from;
        let mut seen = 0;
        while self.covers(block) {
            if seen >= budget {
                return Ok(Some(block));
            }
            // Pages that begin with the block, from the root down: one after the other, as nothing below a known one is
            // looked at.
            let mut begun = [None; MAP_HEIGHT_MAX as usize];
            let mut name = self.root;
            let end = 'descent: {
                for level in (0..self.height).rev() {
                    let PagePtr::Chunk(id) = name else { unreachable!("{name:?} is in a map") };
                    let is_begun = block.begins_group(blocks_of_page(level));
                    if is_begun && is_known(id) {
                        break 'descent Err((id, level));
                    }
                    let page = match self.find(cache, name, level, block) {
                        Ok(frame) => map_page(cache, frame),
                        Err(fault) if block == from => return Err(fault),
                        Err(_) => return Ok(Some(block)),
                    };
                    begun[usize::from(self.height - 1 - level)] = is_begun.then_some((id, level));
                    let index = slot_index(level, block);
                    let slot = page.slot(index);
                    if slot.kind() != SlotKind::Page {
                        break 'descent Ok((page, index));
                    }
                    name = PagePtr::Chunk(slot.id());
                }
                unreachable!("leaves hold no pages");
            };
            for (page, level) in begun.into_iter().flatten() {
                visit(WalkItem::Page { page, level });
                seen += 1;
            }
            let (page, slot) = match end {
                Ok(found) => found,
                Err((page, level)) => {
                    visit(WalkItem::Known { page, level });
                    block += blocks_of_page(level);
                    seen += 1;
                    continue;
                }
            };
            let next = page.slots().iter().enumerate().skip(slot).find_map(|(index, slot)| {
                seen += 1;
                let block = page.first_block() + index as u64 * blocks_of_slot(page.level());
                match slot.kind() {
                    SlotKind::Page => return Some(block),
                    SlotKind::Data => visit(WalkItem::Data { block, slot: *slot }),
                    SlotKind::Hole | SlotKind::Zero => {}
                }
                None
            });
            let next = next.unwrap_or(page.first_block() + blocks_of_page(page.level()));
            assert!(next > block && seen > 0, "a walk goes on");
            block = next;
        }
        Ok(None)
    }
}
