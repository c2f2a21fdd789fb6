//! The strips of one put: data as slices of the caller's bytes, parity, the checksum of each, and their labels. No I/O.
//! Called by puts, by the mover, and by scrub.

use std::cell::RefCell;
use std::rc::Rc;

use varve_media::SegmentId;
use varve_parity::ErasureCode;
use varve_stdx::BufSlice;

use crate::class::{StripGeometry, StripeShape};
use crate::format::StripLabel;
use crate::view::{LayoutView, StripLocation};

/// Codes of the shapes that a thread has met. Clones share them.
#[derive(Clone, Default)]
pub struct StripCodes {
    known: Rc<RefCell<Vec<(StripeShape, Rc<ErasureCode>)>>>,
}

impl StripCodes {
    /// The code of a shape; `None` where strips are copies.
    #[must_use]
    pub fn of(&self, shape: StripeShape) -> Option<Rc<ErasureCode>> {
        todo!()
    }
}

/// The strips of a segment.
#[derive(Clone, Debug)]
pub struct Stripe {
    geometry: StripGeometry,
    used_bytes: u32,
    strips: Vec<BufSlice>,
    sums: Box<[u64]>,
}

impl Stripe {
    /// The strips of `contents`, 1 B to a whole slot, a multiple of 4 KiB. Copies nothing; costs parity and a pass over
    /// all strips.
    ///
    /// # Panics
    /// When `contents` are of another length.
    #[must_use]
    pub fn new(codes: &StripCodes, geometry: StripGeometry, contents: &BufSlice) -> Self {
        todo!()
    }

    /// Bytes of the segment.
    #[must_use]
    pub fn used_bytes(&self) -> u32 {
        self.used_bytes
    }

    /// What stands behind the label of a strip; may be empty.
    #[must_use]
    pub fn strip(&self, strip: u8) -> &BufSlice {
        todo!()
    }

    /// Payload checksums of all strips.
    #[must_use]
    pub fn sums(&self) -> &[u64] {
        &self.sums
    }

    /// The label of the strip that goes to `location`, which is one of `view`.
    #[must_use]
    pub fn label(&self, view: &LayoutView, id: SegmentId, location: &StripLocation) -> StripLabel {
        todo!()
    }

    /// What is written at `location.offset`, in one gathered write: the label, and the strip if it has bytes.
    #[must_use]
    pub fn parts(
        &self,
        view: &LayoutView,
        id: SegmentId,
        location: &StripLocation,
    ) -> Vec<BufSlice> {
        todo!()
    }
}
