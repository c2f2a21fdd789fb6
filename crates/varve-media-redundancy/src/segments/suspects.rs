//! Segments of which a read met something that is not right. It was answered from other strips; the mover of the zone
//! is to look at all of them (POOL-HEALTH-5).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use varve_media::SegmentId;
use varve_reactor::{Notified, Notify};
use varve_types::{Generation, SegmentNumber};

use crate::handles::DriveHandles;
use crate::repair::SuspectMark;

/// Suspects that are remembered; what is found of these leads to a walk, which finds the others.
const SUSPECTS_MAX: usize = 4096;

/// The suspects of a thread.
pub(crate) struct SuspectSegments {
    handles: Rc<DriveHandles>,
    /// Which contents of a slot; and a mark, of those that were noted since the pool is being repaired: before that no
    /// shard serves.
    slots: RefCell<BTreeMap<SegmentNumber, (Generation, Option<SuspectMark>)>>,
    noted: Notify,
}

impl SuspectSegments {
    pub(super) fn new(handles: Rc<DriveHandles>) -> Self {
        Self { handles, slots: RefCell::default(), noted: Notify::new() }
    }

    /// Takes in a segment. Costs a look where it is known.
    pub(super) fn note(&self, id: SegmentId) {
        let mut slots = self.slots.borrow_mut();
        let is_known = slots.get(&id.number).is_some_and(|known| known.0 >= id.generation);
        if id.generation == Generation::ZERO || is_known || slots.len() >= SUSPECTS_MAX {
            return;
        }
        let mark = self.handles.control().map(SuspectMark::new);
        slots.insert(id.number, (id.generation, mark));
        drop(slots);
        self.noted.notify_all();
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<SegmentId> {
        let slots = self.slots.borrow();
        let ids = slots
            .iter()
            .map(|(number, suspect)| SegmentId { number: *number, generation: suspect.0 });
        ids.collect()
    }

    /// Lets go of one that was looked at.
    pub(crate) fn forget(&self, id: SegmentId) {
        let mut slots = self.slots.borrow_mut();
        if slots.get(&id.number).is_some_and(|known| known.0 == id.generation) {
            slots.remove(&id.number);
        }
    }

    /// Waits for a further one.
    pub(crate) fn noted(&self) -> Notified<'_> {
        self.noted.notified()
    }
}
