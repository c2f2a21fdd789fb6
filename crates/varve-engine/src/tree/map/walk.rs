//! Walking a map for the mark pass: every page name and every data slot.

use crate::tree::page::Fault;
use crate::tree::{MapSlot, PageCache, PagePtr, SlotKind};

use super::page::{blocks_of_page, blocks_of_slot};
use super::tree::{Map, map_page};

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

impl Map {
    /// Reports pages that begin at or after block `from`, parents before children, and data slots from it on; about
    /// `budget` slots and pages a call. Start with [`Self::first_block`]; returns where to go on, `None` when done.
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
        mut visit: impl FnMut(WalkItem),
    ) -> Result<Option<u64>, Fault> {
        assert!(from >= self.base && budget > 0);
        let mut block = from;
        let mut seen = 0;
        while self.covers(block) {
            if seen >= budget {
                return Ok(Some(block));
            }
            let path = match self.descend(cache, block) {
                Ok(path) => path,
                Err(fault) if block == from => return Err(fault),
                Err(_) => return Ok(Some(block)),
            };
            let mut name = self.root;
            for step in path.iter() {
                let page = map_page(cache, step.frame);
                if page.first_block() == block {
                    visit(WalkItem::Page { name, level: page.level() });
                    seen += 1;
                }
                name = PagePtr::Chunk(page.slot(step.slot).id());
            }
            let last = path[path.len() - 1];
            let page = map_page(cache, last.frame);
            let next = page.slots().iter().enumerate().skip(last.slot).find_map(|(index, slot)| {
                seen += 1;
                let block = page.first_block() + index as u64 * blocks_of_slot(page.level());
                match slot.kind() {
                    SlotKind::Page => return Some(block),
                    SlotKind::Data => visit(WalkItem::Data { block, slot: *slot }),
                    SlotKind::Hole | SlotKind::Zero => {}
                }
                None
            });
            block = next.unwrap_or(page.first_block() + blocks_of_page(page.level()));
        }
        Ok(None)
    }
}
