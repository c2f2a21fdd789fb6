//! Where entries lie.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use varve_types::PoolId;

use crate::{Entry, Name, Result, Stamp};

/// An operation under way.
pub type NameFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// Keeps the entries of a pool, each by itself. What it answered is durable; an error leaves it open whether a change
/// happened, or will.
pub trait NameStore {
    /// The pool.
    fn pool(&self) -> PoolId;

    /// How many cells it has.
    fn cells(&self) -> u16;

    /// The entry of a name.
    fn read(&self, name: &Name) -> NameFuture<'_, Option<Entry>>;

    /// Puts an entry where there is none. Says whether it did.
    fn make(&self, name: &Name, entry: Entry) -> NameFuture<'_, bool>;

    /// Puts an entry in the place of the one with a stamp. Says whether it did.
    fn replace(&self, name: &Name, before: Stamp, entry: Entry) -> NameFuture<'_, bool>;

    /// Removes the entry with a stamp. Says whether it did.
    fn remove(&self, name: &Name, stamp: Stamp) -> NameFuture<'_, bool>;
}

/// Entries in memory. Clones share them.
#[derive(Clone)]
pub struct MemoryNames {
    pool: PoolId,
    cells: u16,
    /// As stored, so that encoding is used where everything else is tested too.
    entries: Rc<RefCell<BTreeMap<Name, Vec<u8>>>>,
}

impl MemoryNames {
    /// A register without names, of a pool of so many cells.
    #[must_use]
    pub fn new(pool: PoolId, cells: u16) -> Self {
        Self { pool, cells, entries: Rc::default() }
    }

    /// How many names there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts bytes in the place of an entry, whatever they say.
    pub fn put(&self, name: &Name, bytes: Vec<u8>) {
        self.entries.borrow_mut().insert(name.clone(), bytes);
    }

    /// The entry of a name now.
    ///
    /// # Errors
    /// Those of decoding.
    pub fn get(&self, name: &Name) -> Result<Option<Entry>> {
        let entries = self.entries.borrow();
        entries.get(name).map(|bytes| Entry::decode(self.pool, name, bytes)).transpose()
    }

    /// Changes an entry, if there is the one with the stamp, or none.
    fn change(&self, name: &Name, before: Option<Stamp>, after: Option<Entry>) -> Result<bool> {
        let is_as_expected = self.get(name)?.map(|entry| entry.stamp) == before;
        if is_as_expected {
            let mut entries = self.entries.borrow_mut();
            match after {
                Some(entry) => drop(entries.insert(name.clone(), entry.encode(name))),
                None => drop(entries.remove(name)),
            }
        }
        Ok(is_as_expected)
    }
}

impl NameStore for MemoryNames {
    fn pool(&self) -> PoolId {
        self.pool
    }

    fn cells(&self) -> u16 {
        self.cells
    }

    fn read(&self, name: &Name) -> NameFuture<'_, Option<Entry>> {
        Box::pin(std::future::ready(self.get(name)))
    }

    fn make(&self, name: &Name, entry: Entry) -> NameFuture<'_, bool> {
        Box::pin(std::future::ready(self.change(name, None, Some(entry))))
    }

    fn replace(&self, name: &Name, before: Stamp, entry: Entry) -> NameFuture<'_, bool> {
        Box::pin(std::future::ready(self.change(name, Some(before), Some(entry))))
    }

    fn remove(&self, name: &Name, stamp: Stamp) -> NameFuture<'_, bool> {
        Box::pin(std::future::ready(self.change(name, Some(stamp), None)))
    }
}
