//! The map handle: root and height, look-up and setting of a block.
//!
//! MAP-1. The parent of a page that is dirty and the map's own is so too.
//! MAP-2. A page that holds only holes is not kept. Above leaves a hole or zero slot stands for its whole subtree.
//! MAP-3. An operation that returns a [`Fault`] has changed nothing.
//! MAP-4. Pages named below the ceiling belong to copies of the map as well: they are never changed in place, never
//!     dropped from the cache before they are stored, and never reported as dead.

use varve_logstore::planted::{Bug, planted};
use varve_types::limits::VOLUME_BYTES_MAX;
use varve_types::{BlockIndex, ByteOffset, ChunkId, ShardId, StreamId};

use crate::tree::cache::FrameId;
use crate::tree::page::{Fault, Page, PageShape};
use crate::tree::{MapSlot, PageCache, PageNames, PagePtr, SlotKind};

use super::page::{LEVEL_BITS, MapPage, blocks_of_page, slot_index};

/// Most levels of a map: 2^45 blocks.
pub const MAP_HEIGHT_MAX: u8 = 5;

const _: () = assert!(LEVEL_BITS * MAP_HEIGHT_MAX as u32 == 45);
const _: () =
    assert!(is_block_of_map(ByteOffset(VOLUME_BYTES_MAX - 1).block()), "a map has every block");

/// The map of a stream, or a subtree detached from one. Nothing is durable until a checkpoint has stored the dirty
/// pages and the root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Map {
    pub(super) stream: StreamId,
    pub(super) shard: ShardId,
    pub(super) root: PagePtr,
    pub(super) height: u8,
    /// First block covered; not 0 only for detached subtrees.
    pub(super) base: BlockIndex,
    /// Pages named below this id belong to copies as well (MAP-4).
    pub(super) ceiling: ChunkId,
}

#[derive(Clone, Copy)]
pub(super) struct MapStep {
    pub(super) frame: FrameId,
    /// Slot taken in this page.
    pub(super) slot: usize,
}

/// Pages from the root down, and what the last one's slot holds.
pub(super) struct Path {
    steps: [MapStep; MAP_HEIGHT_MAX as usize],
    len: usize,
    /// Level of the last page.
    pub(super) level: u8,
    /// Its slot: a page only where the descent was told to stop.
    pub(super) slot: MapSlot,
}

impl std::ops::Deref for Path {
    type Target = [MapStep];

    fn deref(&self) -> &[MapStep] {
        &self.steps[..self.len]
    }
}

impl Map {
    /// An empty map of a stream whose pages live on `shard`.
    #[must_use]
    pub fn new(stream: StreamId, shard: ShardId) -> Self {
        let ceiling = ChunkId::ZERO;
        Self { stream, shard, root: PagePtr::Null, height: 0, base: BlockIndex::ZERO, ceiling }
    }

    /// A map as a checkpoint left it; `None` when root and height do not go together.
    #[must_use]
    pub fn open(stream: StreamId, shard: ShardId, root: PagePtr, height: u8) -> Option<Self> {
        let sane = match root {
            PagePtr::Null => height == 0,
            PagePtr::Chunk(_) => (1..=MAP_HEIGHT_MAX).contains(&height),
            PagePtr::Location(_) | PagePtr::Memory(_) => false,
        };
        let (base, ceiling) = (BlockIndex::ZERO, ChunkId::ZERO);
        sane.then_some(Self { stream, shard, root, height, base, ceiling })
    }

    /// Another stream's map that holds what this one holds. From now on neither changes pages named below `ceiling`,
    /// which is to be above all names given so far (MAP-4). Costs O(1).
    #[must_use]
    pub fn copy_to(&mut self, stream: StreamId, ceiling: ChunkId) -> Self {
        assert_eq!(self.base, BlockIndex::ZERO, "only a whole map is copied");
        assert!(ceiling >= self.ceiling, "names only grow");
        self.ceiling = ceiling;
        Self { stream, ..self.clone() }
    }

    /// As [`Self::copy_to`] left it: pages named below `ceiling` belong to copies as well.
    #[must_use]
    pub fn with_ceiling(self, ceiling: ChunkId) -> Self {
        Self { ceiling, ..self }
    }

    /// Pages named below this id belong to copies as well.
    #[must_use]
    pub fn ceiling(&self) -> ChunkId {
        self.ceiling
    }

    /// Whether the whole map is as a copy has it, and stays so under its root's name.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.is_shared(self.root)
    }

    fn is_shared(&self, name: PagePtr) -> bool {
        let shared = matches!(name, PagePtr::Chunk(id) if id < self.ceiling);
        shared && !planted(Bug::SharedPageChanged)
    }

    /// Whether a page may be changed in place.
    fn is_own(&self, cache: &PageCache, frame: FrameId) -> bool {
        cache.is_dirty(frame) && !self.is_shared(cache.name(frame))
    }

    /// The root page; what a checkpoint stores.
    #[must_use]
    pub fn root(&self) -> PagePtr {
        self.root
    }

    /// Levels of pages; 0 when empty.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.height
    }

    /// Whether no block holds anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root == PagePtr::Null
    }

    /// First block the pages cover.
    #[must_use]
    pub fn first_block(&self) -> BlockIndex {
        self.base
    }

    /// First block after those that the pages cover.
    #[must_use]
    pub fn end_block(&self) -> BlockIndex {
        assert_eq!(self.root == PagePtr::Null, self.height == 0, "an empty map has no page");
        self.base + self.height.checked_sub(1).map_or(0, blocks_of_page)
    }

    /// What a block holds.
    ///
    /// # Errors
    /// The first absent page of the path.
    pub fn lookup(&self, cache: &PageCache, block: BlockIndex) -> Result<MapSlot, Fault> {
        if !self.covers(block) {
            return Ok(MapSlot::HOLE);
        }
        let mut ptr = self.root;
        for level in (0..self.height).rev() {
            let page = map_page(cache, self.find(cache, ptr, level, block)?);
            let slot = page.slot(slot_index(level, block));
            if slot.kind() != SlotKind::Page {
                return Ok(slot);
            }
            ptr = PagePtr::Chunk(slot.id());
        }
        unreachable!("leaves hold no pages");
    }

    /// Whether the page of the lowest level that a block belongs to exists.
    ///
    /// # Errors
    /// The first absent page above it; the page itself need not be there.
    pub(crate) fn has_leaf(&self, cache: &PageCache, block: BlockIndex) -> Result<bool, Fault> {
        if !self.covers(block) || self.height < 2 {
            return Ok(self.covers(block));
        }
        let path = self.descend_until(cache, block, |level| level == 1)?;
        Ok(path.slot.kind() == SlotKind::Page)
    }

    /// Sets what a block holds; returns what it held. A slot that stays the same dirties nothing.
    ///
    /// # Errors
    /// The first absent page of the path; nothing was changed.
    pub fn set(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        block: BlockIndex,
        slot: MapSlot,
    ) -> Result<MapSlot, Fault> {
        assert!(slot.kind() != SlotKind::Page, "blocks hold no pages");
        if !self.covers(block) {
            if slot == MapSlot::HOLE {
                return Ok(MapSlot::HOLE);
            }
            self.grow(cache, names, block);
        }
        let path = self.descend(cache, block)?; // MAP-3
        let old = path.slot;
        if old == slot {
            return Ok(old);
        }
        let leaf = self.make_leaf(cache, names, block, &path);
        debug_assert!(map_page(cache, leaf).first_block() <= block, "the leaf has the block");
        let page = map_page_mut(cache, leaf);
        page.set(slot_index(0, block), slot);
        if page.used() == 0 {
            self.prune(cache, names, &path, MapSlot::HOLE); // MAP-2: only an existing leaf can become empty.
        }
        Ok(old)
    }

    /// Absent pages at the deepest level reachable for each block, each once. Load them together, then ask again.
    pub fn missing(
        &self,
        cache: &PageCache,
        blocks: impl IntoIterator<Item = BlockIndex>,
    ) -> Vec<Fault> {
        let mut missing = crate::hash::HashSet::default();
        missing.extend(blocks.into_iter().filter_map(|block| self.lookup(cache, block).err()));
        missing.into_iter().collect()
    }

    pub(super) fn covers(&self, block: BlockIndex) -> bool {
        self.height > 0 && block >= self.base && block < self.end_block()
    }

    pub(super) fn find(
        &self,
        cache: &PageCache,
        ptr: PagePtr,
        level: u8,
        block: BlockIndex,
    ) -> Result<FrameId, Fault> {
        let first_block = block.group_start(blocks_of_page(level));
        debug_assert!(self.covers(block), "only blocks of the map have pages");
        let shape = PageShape::Map { level, first_block };
        cache.find(ptr, shape).ok_or(Fault { ptr, shape })
    }

    /// The pages that exist for a covered block, from the root down.
    pub(super) fn descend(&self, cache: &PageCache, block: BlockIndex) -> Result<Path, Fault> {
        self.descend_until(cache, block, |_| false)
    }

    /// As `descend`, but ends at the first level at which `stop` holds, even if the slot there is a page.
    pub(super) fn descend_until(
        &self,
        cache: &PageCache,
        block: BlockIndex,
        stop: impl Fn(u8) -> bool,
    ) -> Result<Path, Fault> {
        assert!(self.covers(block));
        let none = MapStep { frame: FrameId(u32::MAX), slot: 0 };
        let steps = [none; MAP_HEIGHT_MAX as usize];
        let mut path = Path { steps, len: 0, level: 0, slot: MapSlot::HOLE };
        let mut ptr = self.root;
        for level in (0..self.height).rev() {
            let frame = self.find(cache, ptr, level, block)?;
            let index = slot_index(level, block);
            path.steps[path.len] = MapStep { frame, slot: index };
            path.len += 1;
            let slot = map_page(cache, frame).slot(index);
            if slot.kind() != SlotKind::Page || stop(level) {
                path.level = level;
                path.slot = slot;
                assert_eq!(path.len, usize::from(self.height - level), "one page a level");
                return Ok(path);
            }
            ptr = PagePtr::Chunk(slot.id());
        }
        unreachable!("leaves hold no pages");
    }

    /// New roots until the map covers `block`.
    pub(super) fn grow(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        block: BlockIndex,
    ) {
        assert_eq!(self.base, BlockIndex::ZERO, "a detached subtree does not grow");
        while !self.covers(block) {
            assert!(self.height < MAP_HEIGHT_MAX, "block {block} is beyond the largest map");
            if self.root == PagePtr::Null {
                while block.0 >= blocks_of_page(self.height) {
                    self.height += 1;
                    assert!(
                        self.height < MAP_HEIGHT_MAX,
                        "block {block} is beyond the largest map"
                    );
                }
            }
            let mut root =
                MapPage::filled(self.stream, self.height, BlockIndex::ZERO, MapSlot::HOLE);
            if self.root != PagePtr::Null {
                root.set(0, self.page_slot(self.root));
            }
            self.root = names.fresh();
            self.height += 1;
            cache.create(self.root, Page::Map(root));
        }
        assert!(self.height <= MAP_HEIGHT_MAX, "a map is no higher");
    }

    /// Makes the path changeable and its leaf exist; returns the leaf.
    pub(super) fn make_leaf(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        block: BlockIndex,
        path: &Path,
    ) -> FrameId {
        self.make_dirty(cache, names, path);
        let mut frame = path[path.len() - 1].frame;
        for level in (0..path.level).rev() {
            let first_block = block.group_start(blocks_of_page(level));
            let page = MapPage::filled(self.stream, level, first_block, path.slot);
            let name = names.fresh();
            let child = cache.create(name, Page::Map(page));
            let slot = self.page_slot(name);
            map_page_mut(cache, frame).set(slot_index(level + 1, block), slot);
            frame = child;
        }
        debug_assert_eq!(map_page(cache, frame).level(), 0, "it is a leaf");
        debug_assert!(self.is_own(cache, frame), "it may be changed in place"); // MAP-4
        frame
    }

    /// Makes every page of the path changeable, parents first.
    pub(super) fn make_dirty(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        path: &[MapStep],
    ) {
        let last = path.last().expect("a path has a page");
        if self.is_own(cache, last.frame) {
            return; // MAP-1
        }
        for (depth, step) in path.iter().enumerate() {
            if self.is_own(cache, step.frame) {
                continue;
            }
            let name = names.fresh();
            if self.is_shared(cache.name(step.frame)) {
                cache.make_own(step.frame, name); // MAP-4
            } else {
                names.dead(cache.make_dirty(step.frame, name));
            }
            match depth.checked_sub(1) {
                None => self.root = name,
                Some(above) => {
                    let slot = self.page_slot(name);
                    map_page_mut(cache, path[above].frame).set(path[above].slot, slot);
                }
            }
        }
        debug_assert!(path.iter().all(|step| self.is_own(cache, step.frame))); // MAP-1
    }

    /// Drops the last page of a path, whose slots are all `fill`, and the pages above that become mere holes. Returns
    /// how many pages of the path are left.
    pub(super) fn prune(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        path: &[MapStep],
        fill: MapSlot,
    ) -> usize {
        let mut path = path;
        while let Some((last, above)) = path.split_last() {
            let Some(parent) = above.last() else {
                assert_eq!(fill, MapSlot::HOLE, "a root cannot stand for zeros");
                self.drop_page(cache, names, last.frame);
                self.root = PagePtr::Null;
                self.height = 0;
                return 0;
            };
            assert_ne!(last.frame, parent.frame, "a page is not its own parent");
            self.make_dirty(cache, names, above);
            self.drop_page(cache, names, last.frame);
            let page = map_page_mut(cache, parent.frame);
            page.set(parent.slot, fill);
            if page.used() > 0 {
                return above.len();
            }
            path = above;
        }
        unreachable!("the root ends the loop");
    }

    pub(super) fn page_slot(&self, name: PagePtr) -> MapSlot {
        match name {
            PagePtr::Chunk(id) => MapSlot::page(self.shard, id),
            _ => panic!("map pages are named by chunk ids, not {name:?}"),
        }
    }

    /// Takes a page that no parent in this map points to any more out of the cache.
    fn drop_page(&self, cache: &mut PageCache, names: &mut impl PageNames, frame: FrameId) {
        if self.is_shared(cache.name(frame)) {
            return; // MAP-4
        }
        let never_stored = cache.is_dirty(frame);
        let (name, _) = cache.remove(frame);
        if never_stored {
            names.unused(name);
        } else {
            names.dead(name);
        }
    }
}

/// Whether a map can have a page of that level that begins with that block.
pub(crate) fn level_fits(level: u8, first_block: BlockIndex) -> bool {
    level < MAP_HEIGHT_MAX
        && first_block.begins_group(blocks_of_page(level))
        && is_block_of_map(first_block)
}

/// Whether the largest map has such a block.
pub(crate) const fn is_block_of_map(block: BlockIndex) -> bool {
    block.0 < blocks_of_page(MAP_HEIGHT_MAX - 1)
}

pub(super) fn map_page(cache: &PageCache, frame: FrameId) -> &MapPage {
    match cache.page(frame) {
        Page::Map(page) => page,
        Page::Tree(_) => unreachable!("frames of a path have the map's shape"),
    }
}

pub(super) fn map_page_mut(cache: &mut PageCache, frame: FrameId) -> &mut MapPage {
    match cache.page_mut(frame) {
        Page::Map(page) => page,
        Page::Tree(_) => unreachable!("frames of a path have the map's shape"),
    }
}
