//! What a shard waits for room for, apart from how it gets some.

use std::cell::{Cell, RefCell};

use varve_reactor::{Nanos, Notify};

use crate::admission::Semaphore;
use crate::pool::Zone;

/// What a shard waits for room for.
pub(crate) struct Growth {
    /// Segments of the shard's zones that are not free for want of room; before recovery has asked, all of its zones.
    pub(super) without_room: RefCell<Vec<Zone>>,
    /// The media had no room when they were asked last.
    pub(super) full: Cell<bool>,
    /// When media that were full may be asked again.
    pub(super) ask_at: Cell<Nanos>,
    pub(super) filled: Notify,
    /// Held by who gets a zone.
    pub(super) gate: Semaphore,
}

impl Growth {
    pub(crate) fn new(owned: Vec<Zone>) -> Self {
        let without_room = RefCell::new(owned);
        let (full, ask_at) = (Cell::new(false), Cell::new(Nanos(0)));
        Self { without_room, full, ask_at, filled: Notify::new(), gate: Semaphore::new(1) }
    }
}
