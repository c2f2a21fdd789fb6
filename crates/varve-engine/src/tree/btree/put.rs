//! Insertion and replacement, and the splits they cause.

use crate::tree::page::{Fault, Page};
use crate::tree::{PageCache, PageNames, PagePtr, pointer};

use super::page::TreePage;
use super::tree::{BTree, tree_page, tree_page_mut};
use super::value::Value;

impl BTree {
    /// Sets the value of `key`; returns the old one. A value that stays the same dirties nothing.
    ///
    /// # Errors
    /// The first absent page of the path; nothing was changed.
    ///
    /// # Panics
    /// When [`Self::check_entry`] refuses the entry.
    pub fn put(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Value>, Fault> {
        assert_eq!(self.check_entry(key, value), Ok(()));
        if self.root == PagePtr::Null {
            let mut leaf = TreePage::new(self.layout, 0);
            leaf.push(key, value);
            self.root = names.fresh();
            self.height = 1;
            cache.create(self.root, Page::Tree(leaf));
            return Ok(None);
        }
        let leaf_frame = self.find_leaf(cache, key)?;
        let leaf = tree_page(cache, leaf_frame);
        let (index, old) = match leaf.search(key) {
            Err(index) => (index, None),
            Ok(index) if leaf.value(index) == value => return Ok(Some(Value::from(value))),
            Ok(index) => (index, Some(Value::from(leaf.value(index)))),
        };
        if !cache.is_dirty(leaf_frame) {
            let path = self.descend(cache, key, 0)?;
            self.make_dirty(cache, names, &path);
        }
        let leaf = tree_page_mut(cache, leaf_frame);
        match &old {
            Some(old) if old.len() == value.len() => {
                leaf.value_mut(index).copy_from_slice(value);
                return Ok(Some(old.clone()));
            }
            Some(_) => leaf.remove(index),
            None => {}
        }
        if leaf.fits(key.len(), value.len()) {
            leaf.insert(index, key, value);
        } else {
            self.split_path(cache, names, index, key, value);
        }
        assert!(self.root != PagePtr::Null && self.height > 0, "a tree with an entry has a page"); // BT2
        Ok(old)
    }

    /// Inserts at `index` of a full leaf whose path is dirty; splits pages upwards as long as there is no room.
    fn split_path(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        index: usize,
        key: &[u8],
        value: &[u8],
    ) {
        let path = self.descend(cache, key, 0).expect("the path is cached");
        assert_eq!(path.len(), usize::from(self.height), "it leads to a leaf");
        let (mut index, mut key, mut value) = (index, key.to_vec(), value.to_vec());
        for depth in (0..path.len()).rev() {
            let at_edge =
                path[..depth].iter().all(|s| s.child + 1 == tree_page(cache, s.frame).len());
            let page = tree_page_mut(cache, path[depth].frame);
            if page.fits(key.len(), value.len()) {
                page.insert(index, &key, &value);
                return;
            }
            let (separator, right) = page.split_insert(index, &key, &value, at_edge);
            let name = names.fresh();
            cache.create(name, Page::Tree(right));
            let parent = depth.checked_sub(1).map(|above| path[above]);
            self.rename(cache, names, path[depth].frame, parent); // BT4
            key = separator;
            value = pointer::encode(name).to_vec();
            index = parent.map_or(0, |above| above.child + 1);
        }
        self.grow(cache, names, &key, &value);
    }

    /// A new root over the old one and its new right neighbour.
    fn grow(
        &mut self,
        cache: &mut PageCache,
        names: &mut impl PageNames,
        separator: &[u8],
        right: &[u8],
    ) {
        let mut root = TreePage::new(self.layout, self.height);
        root.push(&self.lowest_key(), &pointer::encode(self.root));
        root.push(separator, right);
        self.root = names.fresh();
        self.height += 1;
        assert!(usize::from(self.height) <= super::tree::TREE_HEIGHT_MAX);
        cache.create(self.root, Page::Tree(root));
    }
}
