//! Giving changed chunk-table pages their locations at a checkpoint.

use crate::tree::cache::FrameId;
use crate::tree::{Location, Page, PageCache, PagePtr};

use super::tree::{BTree, tree_page, tree_page_mut};

impl BTree {
    /// Places every dirty page, children first: `place` encodes the page, whose child pointers are final, puts it into
    /// a segment and says where. The pages are then being written; [`PageCache::mark_clean`] when they are durable.
    /// Only for a tree named by locations. Costs a look at each child pointer of the dirty pages.
    ///
    /// # Errors
    /// That of `place`. What was placed before stays placed; call again to go on.
    pub fn flush<E>(
        &mut self,
        cache: &mut PageCache,
        mut place: impl FnMut(&Page) -> Result<Location, E>,
    ) -> Result<(), E> {
        if let PagePtr::Memory(_) = self.root {
            self.root = self.flush_page(cache, self.root, self.height - 1, &mut place)?;
        }
        assert!(matches!(self.root, PagePtr::Null | PagePtr::Location(_)));
        Ok(())
    }

    fn flush_page<E>(
        &self,
        cache: &mut PageCache,
        ptr: PagePtr,
        level: u8,
        place: &mut impl FnMut(&Page) -> Result<Location, E>,
    ) -> Result<PagePtr, E> {
        let frame = self.pinned(cache, ptr, level);
        assert!(cache.is_dirty(frame), "only changed pages have no place: {ptr:?}");
        let children = if level == 0 { 0 } else { tree_page(cache, frame).len() };
        for index in 0..children {
            let child = tree_page(cache, frame).child(index);
            if let PagePtr::Memory(_) = child {
                let placed = self.flush_page(cache, child, level - 1, place)?;
                tree_page_mut(cache, frame).set_child(index, placed);
            }
        }
        let placed = PagePtr::Location(place(cache.page(frame))?);
        cache.place(frame, placed);
        assert!(!cache.is_dirty(frame), "a page that has its place is being written");
        Ok(placed)
    }

    fn pinned(&self, cache: &PageCache, ptr: PagePtr, level: u8) -> FrameId {
        cache.find_resident(ptr, self.shape(level)).expect("dirty pages are pinned")
    }
}
