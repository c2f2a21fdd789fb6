//! Segments as stripes over drives (3.1 to 3.3).

use std::rc::Rc;

use varve_media::{IoFuture, SegmentGeometry, SegmentId, SegmentStore};
use varve_stdx::BufSlice;
use varve_types::SegmentNumber;

use crate::decode::SlotReader;
use crate::format::StripPlace;
use crate::handles::DriveHandles;
use crate::ids::ZoneIndex;
use crate::keeper::TablesHandle;

/// A strip that a put left out, as its drive could not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOutStrip {
    /// The zone.
    pub zone: ZoneIndex,
    /// The place that lacks it.
    pub place: StripPlace,
}

/// Segments of one thread. Clones share them.
#[derive(Clone)]
pub struct StripedSegments {
    inner: Rc<()>,
}

impl StripedSegments {
    /// Over the drives and tables of this thread.
    #[must_use]
    pub fn new(handles: Rc<DriveHandles>, tables: Rc<TablesHandle>) -> Self {
        todo!()
    }

    /// Reads by labels, for the mover and scrub.
    #[must_use]
    pub fn reader(&self) -> &SlotReader {
        todo!()
    }

    /// Takes the strips that puts of this thread left out since the last call: zones for the repair list (STRIPE-2).
    #[must_use]
    pub fn take_left_out(&self) -> Vec<LeftOutStrip> {
        todo!()
    }

    /// Says that a slot of a zone that moves is filled in the set that its row names as `to` now: the mover calls it
    /// once all its strips were read back.
    pub fn mark_filled(&self, id: SegmentId) {
        todo!()
    }

    /// Whether the slot is known to be filled in `to`, by a put or by [`Self::mark_filled`].
    #[must_use]
    pub fn is_known_filled(&self, id: SegmentId) -> bool {
        todo!()
    }

    /// Returns once no put of this thread that began before the call is under way in `zone`. To be awaited between the
    /// row that names `to` and the last look at what is filled: such a put may have gone to `from` (MOVER-4).
    pub async fn puts_before_now(&self, zone: ZoneIndex) {
        todo!()
    }
}
