//! Lets one task at a time change a key.

use std::cell::RefCell;

use hashbrown::HashSet;
use varve_reactor::Notify;

/// Keys that somebody changes, or looks up to hold what they name.
#[derive(Default)]
pub struct KeyLocks {
    held: RefCell<HashSet<Box<str>>>,
    left: Notify,
}

/// The right to a key; dropping it lets the next one in.
pub struct KeyLock<'a> {
    locks: &'a KeyLocks,
    key: Box<str>,
}

impl Drop for KeyLock<'_> {
    fn drop(&mut self) {
        self.locks.held.borrow_mut().remove(&self.key);
        self.locks.left.notify_all();
    }
}

impl KeyLocks {
    /// Waits until nobody has the key.
    pub async fn lock(&self, key: &str) -> KeyLock<'_> {
        while self.held.borrow().contains(key) {
            self.left.notified().await;
        }
        let key: Box<str> = key.into();
        self.held.borrow_mut().insert(key.clone());
        KeyLock { locks: self, key }
    }
}
