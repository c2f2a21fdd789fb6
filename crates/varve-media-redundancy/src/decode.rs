//! Reads slots by their labels: which strips belong together, and what follows from any k of them. Called by segments
//! where a plain read is not enough, by the mover, and by scrub. Writes nothing.

use std::rc::Rc;

use varve_media::{Result, SegmentId};
use varve_stdx::BufSlice;
use varve_types::{Generation, SegmentNumber};

use crate::class::StripeShape;
use crate::format::{FormatFault, StripLabel, StripSet};
use crate::handles::DriveHandles;
use crate::ids::Epoch;
use crate::stripe::StripCodes;
use crate::view::{LayoutView, StripLocation};

/// Why a strip does not count.
#[derive(Clone, Debug)]
pub enum StripFault {
    /// Its drive is not read any more, or not there.
    NoDrive,
    /// Its drive answered with an error, or not at all.
    Unreadable(String),
    /// Zeros are where its label should be: nothing was written.
    Blank,
    /// Its label is none.
    Label(FormatFault),
    /// Its label is of something else: names what tells it.
    Misfit(&'static str),
    /// It is of another put than the one that was asked for, or than those that most agree on.
    OtherPut,
    /// Its bytes are not those that its label speaks of.
    Checksum,
}

/// What tells one put of a slot from another: all strips of one have it in common (DECODE-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutIdentity {
    /// Strips.
    pub shape: StripeShape,
    /// Which contents of the slot.
    pub generation: Generation,
    /// Bytes of the segment.
    pub used_bytes: u32,
    /// Payload checksum of each strip.
    pub strip_checksums: Box<[u64]>,
}

/// A strip's label, or why it does not count.
#[derive(Clone, Debug)]
pub struct LabelReading {
    /// Where the strip is.
    pub location: StripLocation,
    /// The label; it fits its place, and its strip was not looked at.
    pub label: std::result::Result<StripLabel, StripFault>,
}

/// What is wrong with a strip.
#[derive(Clone, Debug)]
pub struct StripDefect {
    /// Where it is.
    pub location: StripLocation,
    /// What.
    pub fault: StripFault,
}

/// Contents of a slot, decoded.
#[derive(Clone, Debug)]
pub struct SlotContents {
    /// All `used_bytes` of them. Right by the checksums of strips; whether they are what the owner stored, it says.
    pub bytes: BufSlice,
    /// Of which put; `None` in a slot without labels.
    pub put: Option<PutIdentity>,
    /// The newest epoch that its labels name.
    pub epoch: Epoch,
    /// Strips that were looked at and do not count.
    pub defects: Vec<StripDefect>,
}

/// Reads slots over the drives of this thread. Clones share them.
#[derive(Clone)]
pub struct SlotReader {
    handles: Rc<DriveHandles>,
    codes: StripCodes,
}

impl SlotReader {
    /// Over `handles`.
    #[must_use]
    pub fn new(handles: Rc<DriveHandles>, codes: StripCodes) -> Self {
        Self { handles, codes }
    }

    /// Reads the labels of a slot in one set of `view`, of all strips at once. None of a slot without labels.
    pub async fn read_labels(
        &self,
        view: &LayoutView,
        set: &StripSet,
        slot: SegmentNumber,
    ) -> Vec<LabelReading> {
        todo!()
    }

    /// Whether each readable place of `set` has a strip of one put of `id`, by labels: none is missing but those on
    /// drives that are not read any more.
    pub async fn is_filled(&self, view: &LayoutView, set: &StripSet, id: SegmentId) -> bool {
        todo!()
    }

    /// Reads contents of a slot by labels and sums, from strips of both sets of its row. With generation 0 those that
    /// count (3.2). `attempt` 0 reads no more strips than it needs; 1 reads all; each one from 2 on leaves out another
    /// one of those that are right. `None` when there is no such attempt, or nothing that was put in full.
    ///
    /// # Errors
    /// `TooFewDrives` when more strips than parity are on drives that cannot be read, so it may be there all the same.
    pub async fn read_contents(
        &self,
        view: &LayoutView,
        id: SegmentId,
        attempt: u32,
    ) -> Result<Option<SlotContents>> {
        todo!()
    }
}
