//! What a shard knows of its zones and of those that others could give, apart from how they go from one to another.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use varve_reactor::{Nanos, Notify};
use varve_types::SegmentNumber;

use crate::admission::Semaphore;
use crate::pool::{Zone, ZoneSource};

/// What becomes of the zones that were chosen to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ZonePhase {
    /// There are none.
    Idle,
    /// They may stay (ZONE-MOVES-2).
    Emptying,
    /// The pool is being told.
    Giving,
}

/// What a shard knows of its zones and of those that others could give.
pub(crate) struct ZoneMoves {
    /// Where the shard gets more, and gives some back.
    pub(crate) source: Rc<dyn ZoneSource>,
    /// The shard's zones.
    pub(crate) owned: RefCell<Vec<Zone>>,
    pub(super) phase: Cell<ZonePhase>,
    pub(super) gate: Semaphore,
    /// Segments that reclaim is to empty now.
    pub(super) asked: RefCell<Vec<SegmentNumber>>,
    /// Rounds of emptying that were asked for, and that ended.
    pub(super) emptying: Cell<u64>,
    pub(super) emptied: Cell<u64>,
    /// Free segments that reclaim aims at, beyond its own target; 0 for none.
    pub(crate) aim: Cell<usize>,
    /// Writes that wait for zones.
    pub(super) awaiting: Cell<u64>,
    /// Rounds of the coordinator that began, and that ended.
    pub(super) begun: Cell<u64>,
    pub(super) ended: Cell<u64>,
    /// Writes waited when the round began.
    pub(super) asked_round: Cell<bool>,
    /// Garbage waits for mark on some shard, as the last round saw.
    pub(crate) others_may_mark: Cell<bool>,
    /// When others may be asked again.
    pub(super) ask_at: Cell<Nanos>,
    /// Write records admitted, and live bytes, when it was last looked whether the shard rests; and when there was no
    /// empty zone.
    pub(super) seen: Cell<(u64, u64)>,
    pub(super) seen_empty: Cell<(u64, u64)>,
    pub(crate) changed: Notify,
}

impl ZoneMoves {
    pub(crate) fn new(owned: Vec<Zone>, source: Rc<dyn ZoneSource>) -> Self {
        Self {
            source,
            owned: RefCell::new(owned),
            phase: Cell::new(ZonePhase::Idle),
            gate: Semaphore::new(1),
            asked: RefCell::default(),
            emptying: Cell::new(0),
            emptied: Cell::new(0),
            aim: Cell::new(0),
            awaiting: Cell::new(0),
            begun: Cell::new(0),
            ended: Cell::new(0),
            asked_round: Cell::new(false),
            others_may_mark: Cell::new(false),
            ask_at: Cell::new(Nanos(0)),
            seen: Cell::new((0, 0)),
            seen_empty: Cell::new((u64::MAX, 0)),
            changed: Notify::new(),
        }
    }

    /// Whether reclaim is to empty something now.
    pub(crate) fn emptying_is_asked(&self) -> bool {
        assert!(self.emptied.get() <= self.emptying.get(), "rounds end after they begin");
        self.emptied.get() < self.emptying.get()
    }

    /// What it is to empty.
    pub(crate) fn take_asked(&self) -> Vec<SegmentNumber> {
        self.asked.take()
    }

    /// It did what it could.
    pub(crate) fn note_emptied(&self) {
        assert!(self.emptied.get() <= self.emptying.get(), "rounds end after they begin");
        self.emptied.set(self.emptying.get());
        self.changed.notify_all();
    }

    /// Whether what was chosen is still to leave.
    pub(crate) fn is_emptying(&self) -> bool {
        self.phase.get() == ZonePhase::Emptying
    }
}
