//! Walking the pages of a tree for the mark pass, and dirtying one to move it elsewhere.

use crate::tree::page::Fault;
use crate::tree::{PageCache, PageNames, PagePtr};

use super::scan::Scan;
use super::tree::{BTree, tree_page};

impl BTree {
    /// Reports the name and level (0: leaf) of pages that hold keys from `from` on, parents before children, at least
    /// once each; about `max_pages` of them a call. Leaves are reported without being loaded. Start with
    /// [`Self::lowest_key`], go on with the key of `More`.
    ///
    /// The tree may change between calls: a page that is in the tree under one name from begin to end is reported
    /// (BT4).
    ///
    /// # Errors
    /// The absent page, when nothing was reported.
    pub fn walk_pages(
        &self,
        cache: &PageCache,
        from: &[u8],
        max_pages: usize,
        mut visit: impl FnMut(PagePtr, u8),
    ) -> Result<Scan, Fault> {
        let mut from = from.to_vec();
        let mut reported = 0;
        if self.height <= 1 {
            if self.root != PagePtr::Null {
                visit(self.root, 0);
            }
            return Ok(Scan::Done);
        }
        loop {
            let path = match self.descend(cache, &from, 1) {
                Ok(path) => path,
                Err(fault) if reported == 0 => return Err(fault),
                Err(_) => return Ok(Scan::More(from)),
            };
            let mut ptr = self.root;
            let mut level = self.height;
            let mut after = None;
            for step in path.iter() {
                level -= 1;
                visit(ptr, level);
                let page = tree_page(cache, step.frame);
                ptr = page.child(step.child);
                if level > 1 && step.child + 1 < page.len() {
                    after = Some(page.key(step.child + 1));
                }
            }
            let lowest = path[path.len() - 1];
            assert_eq!(level, 1, "the parents of leaves come last");
            let page = tree_page(cache, lowest.frame);
            for index in lowest.child..page.len() {
                visit(page.child(index), 0);
                reported += 1;
                if reported >= max_pages && index + 1 < page.len() {
                    return Ok(Scan::More(page.key(index + 1).to_vec()));
                }
            }
            match after {
                None => return Ok(Scan::Done),
                Some(key) => {
                    debug_assert!(key > from.as_slice(), "a walk goes on"); // BT4
                    from = key.to_vec();
                }
            }
            if reported >= max_pages {
                return Ok(Scan::More(from));
            }
        }
    }

    /// Dirties the page of `level` that `key` belongs to if its parent still points to `expected`, so that the next
    /// checkpoint writes it elsewhere. Returns whether it did.
    ///
    /// # Errors
    /// The first absent page of the path, the page itself included; nothing was changed.
    pub fn touch_page(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        key: &[u8],
        level: u8,
        expected: PagePtr,
    ) -> Result<bool, Fault> {
        if level >= self.height {
            return Ok(false);
        }
        let mut ptr = self.root;
        if level + 1 < self.height {
            let above = self.descend(cache, key, level + 1)?;
            let parent = above[above.len() - 1];
            ptr = tree_page(cache, parent.frame).child(parent.child);
        }
        if ptr != expected {
            return Ok(false);
        }
        let path = self.descend(cache, key, level)?;
        assert_eq!(cache.name(path[path.len() - 1].frame), expected, "its parent points to it");
        self.make_dirty(cache, names, &path);
        Ok(true)
    }
}
