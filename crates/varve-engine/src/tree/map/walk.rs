//! Walking a map for the mark pass: every page name and every data slot.

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
        name: PagePtr,
        /// Levels above the leaves.
        level: u8,
    },
    /// A data slot.
    Data {
        /// Block it belongs to.
        block: u64,
        /// The slot.
        slot: MapSlot,
    },
}

impl WalkItem {
    /// The id that names it, if it is a page.
    #[must_use]
    pub fn page(&self) -> Option<u64> {
        match self {
            Self::Page { name: PagePtr::Chunk(page), .. } => Some(page.get()),
            Self::Page { .. } | Self::Data { .. } => None,
        }
    }
}

impl Map {
    /// Reports pages that begin at or after block `from`, parents before children, and data slots from it on; about
    /// `budget` slots and pages a call. What is below a page that `is_known` is left out, and so is the page. Start
    /// with [`Self::first_block`]; returns where to go on, `None` when done.
    ///
    /// The map may change between calls: what is in it under its old name from begin to end was reported.
    ///
    /// # Errors
    /// The absent page, when nothing was reported.
    pub fn walk(
        &self,
        cache: &PageCache,
        from: u64,
        budget: usize,
        is_known: impl Fn(PagePtr) -> bool,
        mut visit: impl FnMut(WalkItem),
    ) -> Result<Option<u64>, Fault> {
        self.walk_all(cache, from, budget, is_known, |item, is_known| {
            if !is_known {
                visit(item);
            }
        })
    }

    /// The same, with pages that are known reported too, as such.
    ///
    /// # Errors
    /// The absent page, when nothing was reported.
    pub fn walk_all(
        &self,
        cache: &PageCache,
        from: u64,
        budget: usize,
        is_known: impl Fn(PagePtr) -> bool,
        mut visit: impl FnMut(WalkItem, bool),
    ) -> Result<Option<u64>, Fault> {
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
                    let is_begun = block.is_multiple_of(blocks_of_page(level));
                    if is_begun && is_known(name) {
                        break 'descent Err((name, level));
                    }
                    let page = match self.find(cache, name, level, block) {
                        Ok(frame) => map_page(cache, frame),
                        Err(fault) if block == from => return Err(fault),
                        Err(_) => return Ok(Some(block)),
                    };
                    begun[usize::from(self.height - 1 - level)] = is_begun.then_some((name, level));
                    let index = slot_index(level, block);
                    let slot = page.slot(index);
                    if slot.kind() != SlotKind::Page {
                        break 'descent Ok((page, index));
                    }
                    name = PagePtr::Chunk(slot.id());
                }
                unreachable!("leaves hold no pages");
            };
            for (name, level) in begun.into_iter().flatten() {
                visit(WalkItem::Page { name, level }, false);
                seen += 1;
            }
            let (page, slot) = match end {
                Ok(found) => found,
                Err((name, level)) => {
                    visit(WalkItem::Page { name, level }, true);
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
                    SlotKind::Data => visit(WalkItem::Data { block, slot: *slot }, false),
                    SlotKind::Hole | SlotKind::Zero => {}
                }
                None
            });
            block = next.unwrap_or(page.first_block() + blocks_of_page(page.level()));
        }
        Ok(None)
    }
}
