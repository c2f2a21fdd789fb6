//! Checks every page of a tree: order, bounds, fill, parents, and that exactly the pages reachable are kept.

use hashbrown::HashSet;
use varve_logstore::format::chunk::MapSlot as StoredSlot;
use varve_types::BlockIndex;

use crate::tree::{
    BTree, Fault, Map, MapSlot, Page, PageCache, PagePtr, PageShape, PageState, SlotKind,
    TreeLayout,
};

use super::store::Store;

pub(super) struct Checker<'a> {
    pub(super) cache: &'a PageCache,
    pub(super) store: &'a Store,
    pub(super) dirty: HashSet<PagePtr>,
    pub(super) stored: HashSet<PagePtr>,
    pub(super) sparse: usize,
}

impl<'a> Checker<'a> {
    pub(super) fn new(cache: &'a PageCache, store: &'a Store) -> Self {
        let (dirty, stored) = (HashSet::new(), HashSet::new());
        Self { cache, store, dirty, stored, sparse: 0 }
    }

    fn page(&mut self, ptr: PagePtr, shape: PageShape, parent_dirty: bool) -> (Page, bool) {
        let dirty = self.cache.state(ptr) == Some(PageState::Dirty);
        assert!(parent_dirty || !dirty, "{ptr:?} is dirty below a parent that is not");
        let fresh = if dirty { &mut self.dirty } else { &mut self.stored };
        assert!(fresh.insert(ptr), "{ptr:?} has two parents");
        assert_eq!(matches!(ptr, PagePtr::Memory(_)), dirty && self.dirty_is_memory(shape));
        let page = match self.cache.peek(ptr) {
            Some(page) => page.clone(),
            None => self.store.load(Fault { ptr, shape }),
        };
        assert_eq!(page.shape(), shape);
        (page, dirty)
    }

    fn dirty_is_memory(&self, shape: PageShape) -> bool {
        matches!(shape, PageShape::Tree { layout: TreeLayout::Fixed { .. }, .. })
    }

    /// All entries, in order.
    pub(super) fn check_tree(
        &mut self,
        tree: &BTree,
        layout: TreeLayout,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut entries = Vec::new();
        assert_eq!(tree.root() == PagePtr::Null, tree.height() == 0);
        if tree.height() > 0 {
            self.check_tree_page(
                tree.root(),
                layout,
                tree.height() - 1,
                true,
                None,
                None,
                &mut entries,
            );
        }
        assert!(entries.windows(2).all(|pair| pair[0].0 < pair[1].0));
        entries
    }

    #[expect(clippy::too_many_arguments, reason = "a recursion with its bounds")]
    fn check_tree_page(
        &mut self,
        ptr: PagePtr,
        layout: TreeLayout,
        level: u8,
        parent_dirty: bool,
        low: Option<&[u8]>,
        high: Option<&[u8]>,
        entries: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) {
        let (page, dirty) = self.page(ptr, PageShape::Tree { layout, level }, parent_dirty);
        let Page::Tree(page) = page else { panic!("a map page in a tree") };
        assert!(!page.is_empty());
        self.sparse += usize::from(page.used_bytes() < crate::tree::BODY_BYTES / 4);
        for index in 0..page.len() {
            if level == 0 || index > 0 {
                let key = page.key(index);
                assert!(low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high));
            }
            if level == 0 {
                entries.push((page.key(index).to_vec(), page.value(index).to_vec()));
                continue;
            }
            let low = if index == 0 { low } else { Some(page.key(index)) };
            let high = if index + 1 < page.len() { Some(page.key(index + 1)) } else { high };
            self.check_tree_page(page.child(index), layout, level - 1, dirty, low, high, entries);
        }
    }

    /// All blocks that are not holes, in order.
    pub(super) fn check_map(&mut self, map: &Map) -> Vec<(BlockIndex, MapSlot)> {
        let mut blocks = Vec::new();
        assert_eq!(map.root() == PagePtr::Null, map.height() == 0);
        if map.height() > 0 {
            self.check_map_page(map.root(), map.height() - 1, map.first_block(), true, &mut blocks);
        }
        blocks
    }

    fn check_map_page(
        &mut self,
        ptr: PagePtr,
        level: u8,
        first_block: BlockIndex,
        parent_dirty: bool,
        blocks: &mut Vec<(BlockIndex, MapSlot)>,
    ) {
        let (page, dirty) = self.page(ptr, PageShape::Map { level, first_block }, parent_dirty);
        let Page::Map(page) = page else { panic!("a tree page in a map") };
        let used = page.slots().iter().filter(|slot| **slot != MapSlot::HOLE).count();
        assert!(used > 0 && used == page.used());
        let span = 512_u64.pow(u32::from(level));
        for (block, slot) in (0..).map(|i| first_block + i * span).zip(page.slots()) {
            match slot.kind() {
                SlotKind::Hole => {}
                SlotKind::Zero => {
                    blocks.extend(block.until(block + span).map(|b| (b, MapSlot::ZERO)))
                }
                SlotKind::Data => {
                    assert_eq!(level, 0);
                    blocks.push((block, *slot));
                }
                SlotKind::Page => {
                    assert!(level > 0);
                    let ptr = PagePtr::Chunk(slot.id());
                    self.check_map_page(ptr, level - 1, block, dirty, blocks);
                }
            }
            assert!(StoredSlot::from_bits(slot.bits()).is_ok());
        }
    }

    /// Nothing is kept that is not reachable, and nothing reachable is lost.
    pub(super) fn finish(self) {
        let kept: HashSet<PagePtr> = self.store.pages.keys().copied().collect();
        assert_eq!(self.stored, kept);
        let dirty: HashSet<PagePtr> = self.cache.dirty_names().into_iter().collect();
        assert_eq!(self.dirty, dirty);
        assert_eq!(self.cache.stats().dirty_bytes, dirty.len() * PageCache::BYTES_PER_PAGE);
    }
}
