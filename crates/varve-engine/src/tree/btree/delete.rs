//! Removal, and the joining of pages that got less than a quarter full.
//!
//! A neighbour that is not cached is left alone: joining saves space later, a page read costs time now. Only a page
//! that becomes empty always goes (BT2), which needs no neighbour.

use crate::tree::cache::FrameId;
use crate::tree::page::Fault;
use crate::tree::{PageCache, PageNames, PagePtr};

use super::page::{BODY_BYTES, TreePage};
use super::tree::{BTree, Path, tree_page, tree_page_mut};
use super::value::Value;

const SPARSE_BYTES: usize = BODY_BYTES / 4;
/// Two pages become one only if that leaves room, or the next insertion would split it again.
const JOINED_BYTES_MAX: usize = BODY_BYTES * 3 / 4;

const _: () = assert!(2 * SPARSE_BYTES <= JOINED_BYTES_MAX, "two sparse pages become one");

#[derive(PartialEq, Eq)]
enum JoinOutcome {
    /// Two pages became one; the parent lost an entry.
    One,
    /// The entries were spread evenly.
    Even,
    /// Nothing was done.
    Not,
}

impl BTree {
    /// Removes `key`; returns its value.
    ///
    /// # Errors
    /// The first absent page of the path; nothing was changed.
    pub fn delete(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        key: &[u8],
    ) -> Result<Option<Value>, Fault> {
        if self.root == PagePtr::Null {
            return Ok(None);
        }
        let leaf_frame = self.find_leaf(cache, key)?;
        let leaf = tree_page(cache, leaf_frame);
        let Ok(index) = leaf.search(key) else { return Ok(None) };
        let old = Value::from(leaf.value(index));
        if !cache.is_dirty(leaf_frame) {
            let path = self.descend(cache, key, 0)?;
            self.make_dirty(cache, names, &path);
        }
        let leaf = tree_page_mut(cache, leaf_frame);
        leaf.remove(index);
        if leaf.used_bytes() < SPARSE_BYTES {
            let path = self.descend(cache, key, 0).expect("the path is cached");
            self.shrink(cache, names, &path);
        }
        Ok(Some(old))
    }

    /// Removes those of `keys`, which ascend, that belong to the leaf of the first one, in one visit. `is_removed` is
    /// asked once for each key that belongs there, with its value if it is there, and decides. Returns for how many it
    /// was asked: at least one, if there is a key.
    ///
    /// # Errors
    /// The first absent page of the path; nothing was asked or changed.
    pub fn delete_sorted<K: AsRef<[u8]>>(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        keys: impl IntoIterator<Item = K>,
        mut is_removed: impl FnMut(&[u8], Option<&[u8]>) -> bool,
    ) -> Result<usize, Fault> {
        let mut keys = keys.into_iter().peekable();
        let Some(first) = keys.peek() else { return Ok(0) };
        if self.root == PagePtr::Null {
            return Ok(keys.map(|key| is_removed(key.as_ref(), None)).count());
        }
        let (path, bound) = self.descend_bounded(cache, first.as_ref())?;
        let leaf_frame = path[path.len() - 1].frame;
        let leaf = tree_page(cache, leaf_frame);
        let mut removed = Vec::new();
        let (mut asked, mut from) = (0, 0);
        while let Some(key) =
            keys.next_if(|key| bound.is_none_or(|bound: &[u8]| key.as_ref() < bound))
        {
            let key = key.as_ref();
            debug_assert!(from == 0 || leaf.key(from - 1) < key, "keys ascend");
            asked += 1;
            match leaf.search_from(from, key) {
                Ok(index) => {
                    if is_removed(key, Some(leaf.value(index))) {
                        removed.push(index);
                    }
                    from = index + 1;
                }
                Err(index) => {
                    is_removed(key, None);
                    from = index;
                }
            }
        }
        if removed.is_empty() {
            return Ok(asked);
        }
        self.make_dirty(cache, names, &path);
        let leaf = tree_page_mut(cache, leaf_frame);
        leaf.remove_sorted(&removed);
        assert!(removed.len() <= asked, "what was not asked about stays");
        if leaf.used_bytes() < SPARSE_BYTES {
            self.shrink(cache, names, &path);
        }
        Ok(asked)
    }

    /// Drops empty pages and joins sparse ones along a dirty path, from the leaf up.
    fn shrink(&mut self, cache: &mut PageCache, names: &mut impl PageNames, path: &Path) {
        assert_eq!(path.len(), usize::from(self.height), "it leads from the root to a leaf");
        debug_assert!(path.iter().all(|step| cache.is_dirty(step.frame))); // BT1
        for depth in (1..path.len()).rev() {
            let (parent, child) = (path[depth - 1].frame, path[depth - 1].child);
            let page = tree_page(cache, path[depth].frame);
            if page.is_empty() {
                Self::drop_page(cache, names, path[depth].frame);
                tree_page_mut(cache, parent).remove(child);
            } else if page.used_bytes() >= SPARSE_BYTES
                || self.join_sparse(cache, names, parent, child) != JoinOutcome::One
            {
                break;
            }
        }
        let root = path[0].frame;
        if tree_page(cache, root).is_empty() {
            Self::drop_page(cache, names, root);
            *self = Self::new(self.layout);
            return;
        }
        while self.height > 1 {
            let shape = self.shape(self.height - 1);
            let Some(root) = cache.find_resident(self.root, shape) else { break };
            let page = tree_page(cache, root);
            if page.len() > 1 {
                break;
            }
            self.root = page.child(0);
            self.height -= 1;
            Self::drop_page(cache, names, root);
        }
    }

    /// Joins a sparse page with a cached neighbour under the same parent.
    fn join_sparse(
        &self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        parent: FrameId,
        child: usize,
    ) -> JoinOutcome {
        let children = tree_page(cache, parent).len();
        assert!(child < children, "the page is one of its parent");
        if child > 0 {
            let joined = self.join(cache, names, parent, child - 1);
            if joined != JoinOutcome::Not {
                return joined;
            }
        }
        if child + 1 < children {
            return self.join(cache, names, parent, child);
        }
        JoinOutcome::Not
    }

    /// Joins or evens out children `left` and `left + 1` of a dirty parent.
    fn join(
        &self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        parent: FrameId,
        left: usize,
    ) -> JoinOutcome {
        let above = tree_page(cache, parent);
        assert!(left + 1 < above.len(), "both are children of the parent");
        let level = above.level() - 1;
        let separator = above.key(left + 1).to_vec();
        let find = |index| cache.find_resident(above.child(index), self.shape(level));
        let (Some(left_frame), Some(right_frame)) = (find(left), find(left + 1)) else {
            return JoinOutcome::Not;
        };
        let mut left_page = tree_page(cache, left_frame).clone();
        let mut right_page = tree_page(cache, right_frame).clone();
        if level > 0 {
            // Its place in the parent was the lower bound of the first child.
            if !right_page.fits_key(0, separator.len()) {
                return JoinOutcome::Not;
            }
            right_page.set_key(0, &separator);
        }
        if left_page.used_bytes() + right_page.used_bytes() <= JOINED_BYTES_MAX {
            right_page.move_tail(0, &mut left_page);
            Self::replace_child(cache, names, parent, left, left_frame, left_page);
            tree_page_mut(cache, parent).remove(left + 1);
            Self::drop_page(cache, names, right_frame);
            return JoinOutcome::One;
        }
        let (left_page, mut right_page) = even_out(left_page, right_page);
        let separator = left_page.separator(&mut right_page);
        if !above.fits_key(left + 1, separator.len()) {
            return JoinOutcome::Not;
        }
        Self::replace_child(cache, names, parent, left, left_frame, left_page);
        Self::replace_child(cache, names, parent, left + 1, right_frame, right_page);
        tree_page_mut(cache, parent).set_key(left + 1, &separator);
        JoinOutcome::Even
    }

    fn replace_child(
        cache: &mut PageCache,
        names: &mut impl PageNames,
        parent: FrameId,
        child: usize,
        frame: FrameId,
        page: TreePage,
    ) {
        assert!(!page.is_empty(), "no page is empty"); // BT2
        let name = names.fresh();
        if cache.is_dirty(frame) {
            names.unused(cache.rename_dirty(frame, name)); // BT4
        } else {
            names.dead(cache.make_dirty(frame, name));
        }
        tree_page_mut(cache, parent).set_child(child, name);
        *tree_page_mut(cache, frame) = page;
    }
}

/// Spreads the entries of two neighbours evenly by bytes. One of them is sparse, so entries move to it only.
fn even_out(mut left: TreePage, mut right: TreePage) -> (TreePage, TreePage) {
    let half = (left.used_bytes() + right.used_bytes()) / 2;
    if left.used_bytes() > right.used_bytes() {
        // The first ones up to half of the bytes stay, so what moves is never more than that.
        let mut moved = TreePage::new(left.tree_layout(), left.level());
        let mut keep = 0;
        let mut bytes = 0;
        while bytes < half {
            bytes += left.entry_bytes(left.key(keep).len(), left.value(keep).len());
            keep += 1;
        }
        left.move_tail(keep, &mut moved);
        right.move_tail(0, &mut moved);
        assert!(!left.is_empty() && !moved.is_empty(), "no page is empty"); // BT2
        return (left, moved);
    }
    let mut take = 0;
    let mut bytes = left.used_bytes();
    while bytes < half && take + 1 < right.len() {
        bytes += right.entry_bytes(right.key(take).len(), right.value(take).len());
        if bytes > BODY_BYTES {
            break; // A large entry stays.
        }
        take += 1;
    }
    let mut rest = TreePage::new(right.tree_layout(), right.level());
    right.move_tail(take, &mut rest);
    right.move_tail(0, &mut left);
    assert!(!left.is_empty() && !rest.is_empty(), "no page is empty"); // BT2
    (left, rest)
}
