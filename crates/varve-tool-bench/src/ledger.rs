//! What a load knows of its objects, so that every answer can be told right or wrong.
//!
//! LEDGER-1. Nothing else is done to an object while it is written or removed; reads go on side by side.
//! LEDGER-2. An object is read only while it is there, and what it holds is known.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What an object holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeldContent {
    /// It is not there.
    Nothing,
    /// The body of a write.
    Body {
        /// Number of the write.
        write: u64,
        /// Length of the body.
        size_bytes: u64,
    },
    /// Nobody knows: a write or a removal had no answer.
    Unknown,
}

#[derive(Clone, Copy, Debug)]
struct LedgerEntry {
    held: HeldContent,
    readers: u32,
    is_changing: bool,
}

/// The objects of a load, shared by all who work on them.
#[derive(Default, Debug)]
pub struct Ledger {
    known: Mutex<LedgerState>,
}

#[derive(Default, Debug)]
struct LedgerState {
    objects: HashMap<String, LedgerEntry>,
    /// Those that were removed, the next to be written first.
    removed: Vec<String>,
}

impl Ledger {
    /// Begins a read of an object; what it must find, or nothing when the object is not there, not known or being
    /// changed (LEDGER-1, LEDGER-2).
    pub fn begin_read(&self, object: &str) -> Option<(u64, u64)> {
        let mut known = self.known();
        let entry = known.objects.get_mut(object).filter(|entry| !entry.is_changing)?;
        let HeldContent::Body { write, size_bytes } = entry.held else { return None };
        entry.readers += 1;
        Some((write, size_bytes))
    }

    /// Ends it.
    ///
    /// # Panics
    /// When nobody reads the object.
    pub fn end_read(&self, object: &str) {
        let mut known = self.known();
        let entry = known.objects.get_mut(object).expect("an object that is read is known");
        assert!(entry.readers > 0, "a read ends that was begun");
        entry.readers -= 1;
    }

    /// Begins a write; false when something else is done to the object (LEDGER-1).
    pub fn begin_write(&self, object: &str) -> bool {
        let mut known = self.known();
        let entry = LedgerEntry { held: HeldContent::Nothing, readers: 0, is_changing: false };
        let entry = known.objects.entry(object.to_owned()).or_insert(entry);
        let is_free = entry.readers == 0 && !entry.is_changing;
        entry.is_changing |= is_free;
        is_free
    }

    /// Begins a write of an object that was removed; none when all are there. So what loads remove they write again.
    pub fn begin_write_of_removed(&self) -> Option<String> {
        let mut known = self.known();
        while let Some(object) = known.removed.pop() {
            let entry = known.objects.get_mut(&object).expect("what was removed is known");
            // Somebody may have written it by name since.
            if entry.held == HeldContent::Nothing && !entry.is_changing {
                entry.is_changing = true;
                return Some(object);
            }
        }
        None
    }

    /// Begins a removal; false when the object is not there, or something else is done to it.
    pub fn begin_delete(&self, object: &str) -> bool {
        let mut known = self.known();
        let Some(entry) = known.objects.get_mut(object) else { return false };
        let is_free = entry.readers == 0 && !entry.is_changing;
        let is_there = matches!(entry.held, HeldContent::Body { .. });
        entry.is_changing |= is_free && is_there;
        is_free && is_there
    }

    /// Ends a write or a removal, after which the object holds this.
    ///
    /// # Panics
    /// When nobody changes the object.
    pub fn end_change(&self, object: &str, held: HeldContent) {
        let mut known = self.known();
        let entry = known.objects.get_mut(object).expect("an object that is changed is known");
        assert!(entry.is_changing && entry.readers == 0, "a change ends that was begun"); // LEDGER-1
        *entry = LedgerEntry { held, readers: 0, is_changing: false };
        if held == HeldContent::Nothing {
            known.removed.push(object.to_owned());
        }
    }

    /// Every object that was ever begun, in order of names, and what it holds.
    #[must_use]
    pub fn objects(&self) -> Vec<(String, HeldContent)> {
        let known = self.known();
        let of = |(object, entry): (&String, &LedgerEntry)| (object.clone(), entry.held);
        let mut all: Vec<(String, HeldContent)> = known.objects.iter().map(of).collect();
        drop(known);
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        all
    }

    fn known(&self) -> MutexGuard<'_, LedgerState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: HeldContent = HeldContent::Body { write: 4, size_bytes: 10 };

    #[test]
    fn only_what_is_there_is_read_and_nothing_while_it_is_changed() {
        let ledger = Ledger::default();
        assert_eq!(ledger.begin_read("a"), None, "never written");
        assert!(!ledger.begin_delete("a"));
        assert!(ledger.begin_write("a"));
        assert!(!ledger.begin_write("a") && ledger.begin_read("a").is_none());
        ledger.end_change("a", BODY);
        assert_eq!(ledger.begin_read("a"), Some((4, 10)));
        assert_eq!(ledger.begin_read("a"), Some((4, 10)), "side by side");
        assert!(!ledger.begin_write("a") && !ledger.begin_delete("a"));
        ledger.end_read("a");
        assert!(!ledger.begin_delete("a"), "one of two is left");
        ledger.end_read("a");
        assert!(ledger.begin_delete("a") && ledger.begin_read("a").is_none());
        ledger.end_change("a", HeldContent::Unknown);
        assert_eq!(ledger.begin_read("a"), None, "nobody knows what it would find");
        assert_eq!(ledger.objects(), [("a".to_owned(), HeldContent::Unknown)]);
    }

    #[test]
    fn what_was_removed_is_written_first() {
        let ledger = Ledger::default();
        for object in ["a", "b"] {
            assert!(ledger.begin_write(object));
            ledger.end_change(object, BODY);
        }
        assert_eq!(ledger.begin_write_of_removed(), None);
        for object in ["a", "b"] {
            assert!(ledger.begin_delete(object));
            ledger.end_change(object, HeldContent::Nothing);
        }
        assert!(ledger.begin_write("b"), "by name");
        assert_eq!(ledger.begin_write_of_removed(), Some("a".to_owned()));
        assert_eq!(ledger.begin_write_of_removed(), None);
    }
}
