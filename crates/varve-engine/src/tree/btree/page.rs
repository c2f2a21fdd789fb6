//! A page of a B+tree: entries in key order, in one of two layouts, and how it is searched, split and joined.
//!
//! A leaf maps keys to values. Above, entry `i` is (lower bound, child); the bound of entry 0 stands for minus
//! infinity and is never looked at.

use crate::tree::{PagePtr, pointer};

use super::fixed::FixedEntries;
use super::slotted::{ENTRY_OVERHEAD, SlottedEntries};

/// Bytes of a page that hold entries: with its header and counts a stored page is at most 4 KiB.
pub const BODY_BYTES: usize = 4040;

/// How the pages of a tree lay out their entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TreeLayout {
    /// All keys and all values have one length: the chunk table.
    Fixed {
        /// Bytes of a key, a big-endian number; at most 6.
        key_len: u8,
        /// Bytes of a value.
        value_len: u8,
    },
    /// Keys and values of any length up to half a page together: the key tree.
    Slotted,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Entries {
    Fixed(FixedEntries),
    Slotted(SlottedEntries),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct TreePage {
    layout: TreeLayout,
    level: u8,
    entries: Entries,
    run: InsertRun,
}

/// How many insertions followed each other index by index, and where the next one would be. In memory only.
#[derive(Clone, Copy, Default, Debug)]
struct InsertRun {
    next: usize,
    len: usize,
}

/// Insertions in a row after which a split expects more of them: by chance, one in thousands of pages.
const SEQUENTIAL_MIN: usize = 8;

impl PartialEq for TreePage {
    fn eq(&self, other: &Self) -> bool {
        let contents = |page: &'_ Self| (page.layout, page.level);
        contents(self) == contents(other) && self.entries == other.entries
    }
}

impl Eq for TreePage {}

macro_rules! each {
    ($page:expr, $entries:ident => $body:expr) => {
        match $page {
            Entries::Fixed($entries) => $body,
            Entries::Slotted($entries) => $body,
        }
    };
}

impl TreePage {
    pub(crate) fn new(layout: TreeLayout, level: u8) -> Self {
        let entries = match layout {
            TreeLayout::Fixed { key_len, value_len } => {
                let value_len = if level == 0 { usize::from(value_len) } else { PagePtr::LEN };
                Entries::Fixed(FixedEntries::new(usize::from(key_len), value_len))
            }
            TreeLayout::Slotted => Entries::Slotted(SlottedEntries::new()),
        };
        Self { layout, level, entries, run: InsertRun::default() }
    }

    /// Fills a page of a fixed layout from its packed entries, unchecked but for their total length.
    pub(crate) fn from_packed(layout: TreeLayout, level: u8, packed: &[u8]) -> Option<Self> {
        let TreeLayout::Fixed { key_len, value_len } = layout else { return None };
        let value_len = if level == 0 { usize::from(value_len) } else { PagePtr::LEN };
        let entries = FixedEntries::from_packed(usize::from(key_len), value_len, packed)?;
        let run = InsertRun::default();
        Some(Self { layout, level, entries: Entries::Fixed(entries), run })
    }

    /// The packed entries of a page of a fixed layout.
    pub(crate) fn packed(&self) -> Option<&[u8]> {
        match &self.entries {
            Entries::Fixed(entries) => Some(entries.packed()),
            Entries::Slotted(_) => None,
        }
    }

    /// Layout of the tree it belongs to.
    #[must_use]
    pub fn tree_layout(&self) -> TreeLayout {
        self.layout
    }

    /// Levels above the leaves.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        each!(&self.entries, e => e.len())
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Key of an entry.
    #[must_use]
    pub fn key(&self, index: usize) -> &[u8] {
        each!(&self.entries, e => e.key(index))
    }

    /// Value of an entry; above leaves an encoded [`PagePtr`].
    #[must_use]
    pub fn value(&self, index: usize) -> &[u8] {
        each!(&self.entries, e => e.value(index))
    }

    /// Bytes that entries take, slots included.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        each!(&self.entries, e => e.used_bytes())
    }

    pub(crate) fn entry_bytes(&self, key_len: usize, value_len: usize) -> usize {
        match &self.entries {
            Entries::Fixed(entries) => entries.entry_bytes(),
            Entries::Slotted(_) => ENTRY_OVERHEAD + key_len + value_len,
        }
    }

    pub(crate) fn fits(&self, key_len: usize, value_len: usize) -> bool {
        self.used_bytes() + self.entry_bytes(key_len, value_len) <= BODY_BYTES
    }

    /// Where `key` is in a leaf, or where it belongs.
    #[inline]
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.search_from(0, key)
    }

    /// As [`Self::search`], for a key that is above those before entry `start`.
    #[inline]
    pub(super) fn search_from(&self, start: usize, key: &[u8]) -> Result<usize, usize> {
        debug_assert!(start <= self.len(), "a search begins in the page or behind it");
        debug_assert_eq!(self.level, 0);
        let (index, equal) = each!(&self.entries, e => e.lower_bound(start, key));
        if equal { Ok(index) } else { Err(index) }
    }

    /// Which child `key` belongs to.
    #[inline]
    pub(super) fn child_index(&self, key: &[u8]) -> usize {
        debug_assert!(self.level > 0 && !self.is_empty());
        let (index, equal) = each!(&self.entries, e => e.lower_bound(1, key));
        let child = if equal { index } else { index.max(1) - 1 };
        debug_assert!(child < self.len(), "every key belongs to a child");
        child
    }

    #[inline]
    pub(crate) fn child(&self, index: usize) -> PagePtr {
        assert!(self.level > 0, "a leaf has no children");
        pointer::decode(self.value(index))
    }

    pub(super) fn set_child(&mut self, index: usize, ptr: PagePtr) {
        assert!(self.level > 0 && ptr != PagePtr::Null);
        self.value_mut(index).copy_from_slice(&pointer::encode(ptr));
    }

    pub(super) fn value_mut(&mut self, index: usize) -> &mut [u8] {
        each!(&mut self.entries, e => e.value_mut(index))
    }

    pub(super) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        each!(&mut self.entries, e => e.insert(index, key, value));
        debug_assert!(self.level > 0 || self.is_in_order(index), "keys ascend");
        let len = if index == self.run.next { self.run.len + 1 } else { 0 };
        self.run = InsertRun { next: index + 1, len };
    }

    /// Whether an entry of a leaf stands between its neighbours.
    fn is_in_order(&self, index: usize) -> bool {
        let is_above = |at: usize| at == 0 || at >= self.len() || self.key(at - 1) < self.key(at);
        is_above(index) && is_above(index + 1)
    }

    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        each!(&mut self.entries, e => e.insert(e.len(), key, value));
    }

    pub(super) fn remove(&mut self, index: usize) {
        each!(&mut self.entries, e => e.remove(index));
        self.run.next -= usize::from(index < self.run.next);
    }

    /// Removes entries, whose indices ascend.
    pub(super) fn remove_sorted(&mut self, indices: &[usize]) {
        debug_assert!(indices.is_sorted_by(|a, b| a < b));
        match &mut self.entries {
            Entries::Fixed(entries) => entries.remove_sorted(indices),
            Entries::Slotted(entries) => {
                indices.iter().rev().for_each(|index| entries.remove(*index))
            }
        }
        self.run.next -= indices.partition_point(|index| *index < self.run.next);
    }

    /// Inserts an entry for which there is no room by moving entries to a new page, which is returned with the lower
    /// bound that tells it from this one. Where entries were inserted one after the other, or at the right edge of
    /// the tree, all before them stay on a full page: ids only grow. Else the page is halved, the entry included.
    pub(super) fn split_insert(
        &mut self,
        index: usize,
        key: &[u8],
        value: &[u8],
        at_edge: bool,
    ) -> (Vec<u8>, Self) {
        assert!(!self.fits(key.len(), value.len()));
        let mut right = Self::new(self.layout, self.level);
        let sequential = index == self.run.next && self.run.len >= SEQUENTIAL_MIN;
        let is_append = sequential || at_edge && index == self.len();
        let entry_bytes = self.entry_bytes(key.len(), value.len());
        let (at, is_left) =
            if is_append { (index, false) } else { self.middle(index, entry_bytes) };
        self.move_tail(at, &mut right);
        if is_left || is_append && self.fits(key.len(), value.len()) {
            self.insert(index, key, value);
        } else {
            right.run = InsertRun { next: 0, len: self.run.len };
            right.insert(index - at, key, value);
        }
        assert!(!self.is_empty() && !right.is_empty());
        assert_eq!(self.level, right.level, "neighbours stand on one level");
        assert!(self.used_bytes() <= BODY_BYTES && right.used_bytes() <= BODY_BYTES);
        let separator = self.separator(&mut right);
        (separator, right)
    }

    /// Whether the key of an entry can become one of `key_len` bytes.
    pub(super) fn fits_key(&self, index: usize, key_len: usize) -> bool {
        match &self.entries {
            Entries::Fixed(_) => true,
            Entries::Slotted(e) => e.used_bytes() - e.key(index).len() + key_len <= BODY_BYTES,
        }
    }

    /// Gives an entry another key, which must fit and keep the order.
    pub(super) fn set_key(&mut self, index: usize, key: &[u8]) {
        assert!(self.fits_key(index, key.len()), "the caller looked whether it fits");
        match &mut self.entries {
            Entries::Fixed(entries) => entries.set_key(index, key),
            Entries::Slotted(entries) => {
                let value = entries.value(index).to_vec();
                entries.remove(index);
                entries.insert(index, key, &value);
            }
        }
    }

    /// Moves entries from `index` on behind those of `to`.
    pub(super) fn move_tail(&mut self, index: usize, to: &mut Self) {
        assert!(index <= self.len(), "a tail begins in the page or behind it");
        assert_eq!((self.layout, self.level), (to.layout, to.level));
        match (&mut self.entries, &mut to.entries) {
            (Entries::Fixed(from), Entries::Fixed(to)) => from.move_tail(index, to),
            (Entries::Slotted(from), Entries::Slotted(to)) => from.move_tail(index, to),
            _ => unreachable!("pages of one tree have one layout"),
        }
    }

    /// The index that halves the bytes of a full page and of one more entry at `index`, and whether that entry belongs
    /// before it.
    fn middle(&self, index: usize, entry_bytes: usize) -> (usize, bool) {
        assert!(index <= self.len(), "an entry goes between others, or behind them");
        let total = self.used_bytes() + entry_bytes;
        let mut before = 0;
        let mut best = (usize::MAX, (0, false));
        for at in 0..=self.len() {
            for is_left in [false, true] {
                let left = before + if is_left { entry_bytes } else { 0 };
                let is_possible = if is_left { index <= at } else { index >= at };
                let larger = left.max(total - left);
                if is_possible && left > 0 && left < total && larger < best.0 {
                    best = (larger, (at, is_left));
                }
            }
            if at < self.len() {
                before += self.entry_bytes(self.key(at).len(), self.value(at).len());
            }
        }
        assert!(best.0 <= BODY_BYTES, "entries of half a page at most always make two pages");
        best.1
    }

    /// The lower bound by which a parent tells `right`, the following page, from this one. Above leaves it is taken
    /// out of `right`, where nobody looks at it.
    pub(super) fn separator(&self, right: &mut Self) -> Vec<u8> {
        assert!(!self.is_empty() && !right.is_empty(), "no page is empty"); // BT2
        let first = right.key(0);
        if matches!(self.layout, TreeLayout::Fixed { .. }) {
            return first.to_vec();
        }
        if self.level > 0 {
            let separator = first.to_vec();
            right.set_key(0, &[]);
            return separator;
        }
        let last = self.key(self.len() - 1);
        assert!(last < first, "keys are in order");
        let common = last.iter().zip(first).take_while(|(a, b)| a == b).count();
        first[..=common].to_vec()
    }
}
