//! Work under way on one thread, oldest first: what is asked when something hangs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

/// Entries for as long as their guards live. As many as are under way at a time, which the layer that begins them
/// bounds.
pub struct PendingEntries<T> {
    /// By number, so the oldest comes first.
    entries: RefCell<BTreeMap<u64, T>>,
    begun: Cell<u64>,
}

impl<T> Default for PendingEntries<T> {
    fn default() -> Self {
        Self { entries: RefCell::default(), begun: Cell::new(0) }
    }
}

impl<T> fmt::Debug for PendingEntries<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingEntries({} under way)", self.entries.borrow().len())
    }
}

impl<T> PendingEntries<T> {
    /// Enters work that begins now; it is under way until the guard is dropped.
    #[must_use]
    pub fn begin(&self, work: T) -> PendingGuard<'_, T> {
        let number = self.begun.get();
        self.begun.set(number + 1);
        self.entries.borrow_mut().insert(number, work);
        PendingGuard { pending: self, number }
    }

    /// The work that began first among what is under way, with its number, which no other work of this thread has.
    pub fn oldest(&self) -> Option<(u64, T)>
    where
        T: Clone,
    {
        self.entries.borrow().first_key_value().map(|(number, work)| (*number, work.clone()))
    }
}

/// Work that is under way until this is dropped.
#[derive(Debug)]
pub struct PendingGuard<'a, T> {
    pending: &'a PendingEntries<T>,
    number: u64,
}

impl<T> Drop for PendingGuard<'_, T> {
    fn drop(&mut self) {
        self.pending.entries.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_what_began_first_and_has_not_ended() {
        let pending = PendingEntries::default();
        assert_eq!(pending.oldest(), None);
        let first = pending.begin("read");
        let second = pending.begin("write");
        assert_eq!(pending.oldest(), Some((0, "read")));
        drop(first);
        assert_eq!(pending.oldest(), Some((1, "write")));
        let third = pending.begin("flush");
        drop(second);
        assert_eq!(pending.oldest(), Some((2, "flush")));
        drop(third);
        assert_eq!(pending.oldest(), None);
    }
}
