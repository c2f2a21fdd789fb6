//! The B+tree handle: root and height, look-up, and how a path of pages becomes changeable.
//!
//! BT1. A dirty page's parent is dirty: naming it anew changed the parent, up to the root.
//! BT2. No page is empty; the empty tree has no page.
//! BT3. An operation that returns a [`Fault`] has changed nothing.
//! BT4. The upper bound of a page never moves down under one name: a page that gives up entries at its end is named
//! anew, dirty or not. So a walk in key order over a changing tree misses no page that keeps its name.

use crate::tree::cache::FrameId;
use crate::tree::page::{Fault, Page, PageShape};
use crate::tree::{PageCache, PageNames, PagePtr};

use super::page::{BODY_BYTES, TreeLayout, TreePage};
use super::slotted::ENTRY_OVERHEAD;

/// Most levels of a tree: even with the longest keys, of which pages above the leaves hold two or three, more pages
/// than a shard can hold.
pub const TREE_HEIGHT_MAX: usize = 32;

const _: () = assert!(PageCache::CLEAN_PAGES_MIN >= 2 * TREE_HEIGHT_MAX); // PAGE-CACHE-2

/// Longest entry in bytes, its slot included: a full page and one more entry always make two pages.
pub const TREE_ENTRY_BYTES_MAX: usize = BODY_BYTES / 2;

const _: () = assert!(2 * TREE_ENTRY_BYTES_MAX <= BODY_BYTES, "a page holds two entries");

/// Longest key in bytes: with a page pointer it fits a third of a page.
pub const TREE_KEY_BYTES_MAX: usize = BODY_BYTES / 3 - ENTRY_OVERHEAD - PagePtr::LEN;

// Pages above the leaves hold two children at least.
const _: () = assert!(2 * (TREE_KEY_BYTES_MAX + ENTRY_OVERHEAD + PagePtr::LEN) <= BODY_BYTES);

/// An entry is larger than half a page, or its key is longer than [`TREE_KEY_BYTES_MAX`], or of the wrong length for
/// a tree of fixed layout. Longer values are chunks, kept by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("entry of {key_len} B key and {value_len} B value does not fit the tree")]
pub struct EntryTooLarge {
    /// Bytes of the key.
    pub key_len: usize,
    /// Bytes of the value.
    pub value_len: usize,
}

/// A B+tree whose pages live in a [`PageCache`]. Operations are synchronous and return a [`Fault`] when a page is not
/// there. Nothing is durable until a checkpoint has stored the dirty pages and the root.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BTree {
    pub(super) layout: TreeLayout,
    pub(super) root: PagePtr,
    pub(super) height: u8,
}

#[derive(Clone, Copy)]
pub(super) struct BtreeStep {
    pub(super) frame: FrameId,
    /// Child taken in this page; in the leaf, 0.
    pub(super) child: usize,
}

/// Pages from the root to a leaf.
pub(super) struct Path {
    steps: [BtreeStep; TREE_HEIGHT_MAX],
    len: usize,
}

impl Path {
    pub(super) fn new() -> Self {
        Self { steps: [BtreeStep { frame: FrameId(u32::MAX), child: 0 }; TREE_HEIGHT_MAX], len: 0 }
    }

    pub(super) fn push(&mut self, step: BtreeStep) {
        assert!(self.len < TREE_HEIGHT_MAX, "a path is no longer than the tree is high");
        self.steps[self.len] = step;
        self.len += 1;
    }
}

impl std::ops::Deref for Path {
    type Target = [BtreeStep];

    fn deref(&self) -> &[BtreeStep] {
        &self.steps[..self.len]
    }
}

impl BTree {
    /// An empty tree.
    #[must_use]
    pub fn new(layout: TreeLayout) -> Self {
        Self { layout, root: PagePtr::Null, height: 0 }
    }

    /// A tree as a checkpoint left it; `None` when root and height do not go together.
    #[must_use]
    pub fn open(layout: TreeLayout, root: PagePtr, height: u8) -> Option<Self> {
        let empty = root == PagePtr::Null;
        let sane = empty == (height == 0) && usize::from(height) <= TREE_HEIGHT_MAX;
        sane.then_some(Self { layout, root, height })
    }

    /// The root page; what a checkpoint stores.
    #[must_use]
    pub fn root(&self) -> PagePtr {
        assert_eq!(self.root == PagePtr::Null, self.height == 0, "an empty tree has no page"); // BT2
        self.root
    }

    /// Levels of pages; 0 when empty.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.height
    }

    /// Whether an entry can be put.
    ///
    /// # Errors
    /// [`EntryTooLarge`].
    pub fn check_entry(&self, key: &[u8], value: &[u8]) -> Result<(), EntryTooLarge> {
        let fits = match self.layout {
            TreeLayout::Fixed { key_len, value_len } => {
                key.len() == usize::from(key_len) && value.len() == usize::from(value_len)
            }
            TreeLayout::Slotted => {
                let entry_bytes = key.len() + value.len() + ENTRY_OVERHEAD;
                key.len() <= TREE_KEY_BYTES_MAX && entry_bytes <= TREE_ENTRY_BYTES_MAX
            }
        };
        let error = EntryTooLarge { key_len: key.len(), value_len: value.len() };
        if fits { Ok(()) } else { Err(error) }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// The first absent page of the path.
    pub fn get<'c>(&self, cache: &'c PageCache, key: &[u8]) -> Result<Option<&'c [u8]>, Fault> {
        assert_eq!(self.root == PagePtr::Null, self.height == 0, "an empty tree has no page"); // BT2
        if self.root == PagePtr::Null {
            return Ok(None);
        }
        let leaf = tree_page(cache, self.find_leaf(cache, key)?);
        Ok(leaf.search(key).ok().map(|index| leaf.value(index)))
    }

    /// Absent pages at the deepest level reachable for each key, each once. Load them together, then ask again.
    pub fn missing<'k>(
        &self,
        cache: &PageCache,
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) -> Vec<Fault> {
        let mut missing = crate::hash::HashSet::default();
        if self.root != PagePtr::Null {
            missing.extend(keys.into_iter().filter_map(|key| self.find_leaf(cache, key).err()));
        }
        missing.into_iter().collect()
    }

    /// What no key is below.
    #[must_use]
    pub fn lowest_key(&self) -> Vec<u8> {
        match self.layout {
            TreeLayout::Fixed { key_len, .. } => vec![0; usize::from(key_len)],
            TreeLayout::Slotted => Vec::new(),
        }
    }

    pub(super) fn shape(&self, level: u8) -> PageShape {
        PageShape::Tree { layout: self.layout, level }
    }

    #[inline]
    pub(super) fn find(
        &self,
        cache: &PageCache,
        ptr: PagePtr,
        level: u8,
    ) -> Result<FrameId, Fault> {
        debug_assert!(level < self.height, "pages stand below the root or are it");
        let shape = self.shape(level);
        cache.find(ptr, shape).ok_or(Fault { ptr, shape })
    }

    /// The leaf that `key` belongs to. The tree must not be empty.
    #[inline]
    pub(super) fn find_leaf(&self, cache: &PageCache, key: &[u8]) -> Result<FrameId, Fault> {
        assert!(self.height > 0);
        let mut ptr = self.root;
        for level in (1..self.height).rev() {
            let page = tree_page(cache, self.find(cache, ptr, level)?);
            ptr = page.child(page.child_index(key));
        }
        self.find(cache, ptr, 0)
    }

    /// The pages from the root down to `level` that `key` belongs to.
    pub(super) fn descend(&self, cache: &PageCache, key: &[u8], level: u8) -> Result<Path, Fault> {
        assert!(level < self.height);
        let mut path = Path::new();
        let mut ptr = self.root;
        for level in (level..self.height).rev() {
            let frame = self.find(cache, ptr, level)?;
            let mut child = 0;
            if level > 0 {
                let page = tree_page(cache, frame);
                child = page.child_index(key);
                ptr = page.child(child);
            }
            path.push(BtreeStep { frame, child });
        }
        assert_eq!(path.len(), usize::from(self.height - level), "one page a level");
        Ok(path)
    }

    /// The pages from the root to the leaf that `key` belongs to, and what every key of the leaf is below; the tree
    /// must not be empty.
    pub(super) fn descend_bounded<'c>(
        &self,
        cache: &'c PageCache,
        key: &[u8],
    ) -> Result<(Path, Option<&'c [u8]>), Fault> {
        let path = self.descend(cache, key, 0)?;
        let above = path.iter().take(path.len() - 1).rev();
        let mut bounds = above.filter_map(|step| {
            let (page, after) = (tree_page(cache, step.frame), step.child + 1);
            (after < page.len()).then(|| page.key(after))
        });
        let bound = bounds.next(); // The lowest page has the tightest one.
        drop(bounds);
        debug_assert!(bound.is_none_or(|bound| key < bound), "the key belongs to the leaf");
        Ok((path, bound))
    }

    /// Makes every page of the path changeable, parents first.
    pub(super) fn make_dirty(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        path: &Path,
    ) {
        let last = path.last().expect("a path has a page");
        if cache.is_dirty(last.frame) {
            return; // BT1
        }
        for (depth, step) in path.iter().enumerate() {
            if cache.is_dirty(step.frame) {
                continue;
            }
            let name = names.fresh();
            names.dead(cache.make_dirty(step.frame, name));
            match depth.checked_sub(1) {
                None => self.root = name,
                Some(above) => {
                    tree_page_mut(cache, path[above].frame).set_child(path[above].child, name)
                }
            }
        }
        debug_assert!(path.iter().all(|step| cache.is_dirty(step.frame))); // BT1
    }

    /// Names a dirty page anew (BT4). `parent` is its dirty parent and its place there; the root has none.
    pub(super) fn rename(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        frame: FrameId,
        parent: Option<BtreeStep>,
    ) {
        assert_eq!(parent.is_none(), cache.name(frame) == self.root, "only the root has no parent");
        let name = names.fresh();
        names.unused(cache.rename_dirty(frame, name));
        match parent {
            None => self.root = name,
            Some(above) => tree_page_mut(cache, above.frame).set_child(above.child, name),
        }
    }

    /// Takes a page that no parent points to any more out of the cache.
    pub(super) fn drop_page(cache: &mut PageCache, names: &mut impl PageNames, frame: FrameId) {
        let never_stored = cache.is_dirty(frame);
        let (name, _) = cache.remove(frame);
        debug_assert!(!cache.contains(name), "nobody finds it any more");
        if never_stored {
            names.unused(name);
        } else {
            names.dead(name);
        }
    }
}

pub(super) fn tree_page(cache: &PageCache, frame: FrameId) -> &TreePage {
    match cache.page(frame) {
        Page::Tree(page) => page,
        Page::Map(_) => unreachable!("frames of a path have the tree's shape"),
    }
}

pub(super) fn tree_page_mut(cache: &mut PageCache, frame: FrameId) -> &mut TreePage {
    match cache.page_mut(frame) {
        Page::Tree(page) => page,
        Page::Map(_) => unreachable!("frames of a path have the tree's shape"),
    }
}
