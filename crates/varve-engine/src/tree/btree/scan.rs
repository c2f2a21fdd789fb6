//! Scans in key order, and both ends.
//!
//! Pages have no links to their neighbours (they are copy-on-write), so a scan descends anew for each leaf, to the
//! lower bound it met on the way to the one before.

use std::ops::ControlFlow;

use crate::tree::PageCache;
use crate::tree::page::Fault;

use super::page::TreePage;
use super::tree::{BTree, tree_page};

/// Where a scan or walk stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scan {
    /// At the end of the tree.
    Done,
    /// Go on from this key, which may or may not exist.
    More(Vec<u8>),
}

/// A borrowed key and its value.
pub type Entry<'c> = (&'c [u8], &'c [u8]);

/// A leaf and the lower bound of the leaf after it.
type LeafAndBound<'c> = (&'c TreePage, Option<&'c [u8]>);

impl BTree {
    /// Visits entries with keys from `from` on, in order: at most `max`, and until the visitor breaks (the entry at
    /// which it breaks counts as visited). Stops early, with `More`, at an absent page once something was visited.
    ///
    /// # Errors
    /// The absent page, when nothing was visited.
    pub fn scan(
        &self,
        cache: &PageCache,
        from: &[u8],
        max: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<Scan, Fault> {
        assert!(max > 0);
        let mut from = from.to_vec();
        let mut visited = 0;
        loop {
            let (leaf, after) = match self.leaf_from(cache, &from) {
                Ok(Some(found)) => found,
                Ok(None) => return Ok(Scan::Done),
                Err(fault) if visited == 0 => return Err(fault),
                Err(_) => return Ok(Scan::More(from)),
            };
            let start = leaf.search(&from).unwrap_or_else(|index| index);
            debug_assert!(start == leaf.len() || leaf.key(start) >= from.as_slice());
            for index in start..leaf.len() {
                let flow = visit(leaf.key(index), leaf.value(index));
                visited += 1;
                if visited == max || flow.is_break() {
                    return Ok(if index + 1 < leaf.len() {
                        Scan::More(leaf.key(index + 1).to_vec())
                    } else {
                        after.map_or(Scan::Done, |key| Scan::More(key.to_vec()))
                    });
                }
            }
            match after {
                None => return Ok(Scan::Done),
                Some(key) => {
                    debug_assert!(key > from.as_slice(), "a scan goes on");
                    from = key.to_vec();
                }
            }
        }
    }

    /// The entry with the lowest key.
    ///
    /// # Errors
    /// The first absent page of the path.
    pub fn first<'c>(&self, cache: &'c PageCache) -> Result<Option<Entry<'c>>, Fault> {
        let leaf = self.edge_leaf(cache, |_| 0)?;
        Ok(leaf.map(|leaf| (leaf.key(0), leaf.value(0))))
    }

    /// The entry with the highest key.
    ///
    /// # Errors
    /// The first absent page of the path.
    pub fn last<'c>(&self, cache: &'c PageCache) -> Result<Option<Entry<'c>>, Fault> {
        let leaf = self.edge_leaf(cache, |page| page.len() - 1)?;
        Ok(leaf.map(|leaf| (leaf.key(leaf.len() - 1), leaf.value(leaf.len() - 1))))
    }

    fn edge_leaf<'c>(
        &self,
        cache: &'c PageCache,
        child: impl Fn(&TreePage) -> usize,
    ) -> Result<Option<&'c TreePage>, Fault> {
        let mut ptr = self.root;
        for level in (0..self.height).rev() {
            let page = tree_page(cache, self.find(cache, ptr, level)?);
            debug_assert!(!page.is_empty(), "no page is empty"); // BT2
            if level == 0 {
                return Ok(Some(page));
            }
            ptr = page.child(child(page));
        }
        Ok(None)
    }

    /// The leaf `key` belongs to, and the lower bound of the leaf after it.
    fn leaf_from<'c>(
        &self,
        cache: &'c PageCache,
        key: &[u8],
    ) -> Result<Option<LeafAndBound<'c>>, Fault> {
        let mut ptr = self.root;
        let mut after = None;
        for level in (0..self.height).rev() {
            let page = tree_page(cache, self.find(cache, ptr, level)?);
            debug_assert!(!page.is_empty(), "no page is empty"); // BT2
            if level == 0 {
                return Ok(Some((page, after)));
            }
            let child = page.child_index(key);
            if child + 1 < page.len() {
                after = Some(page.key(child + 1));
            }
            ptr = page.child(child);
        }
        Ok(None)
    }
}
