//! The strips of one put: data as slices of the caller's bytes, parity, the checksum of each, and their labels. No I/O.
//! Called by puts, by the mover, and by scrub.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use varve_media::SegmentId;
use varve_parity::{CodeShape, ErasureCode};
use varve_stdx::{AlignedBuf, BufSlice, payload_checksum};

use crate::class::{LABEL_BYTES, StripCode, StripGeometry, StripeShape};
use crate::decode::PutIdentity;
use crate::format::StripLabel;
use crate::view::{LayoutView, StripLocation};

/// Codes of the shapes that a thread has met, at most one for each class. Clones share them.
#[derive(Clone, Default)]
pub struct StripCodes {
    known: Rc<RefCell<BTreeMap<StripeShape, Rc<ErasureCode>>>>,
}

impl StripCodes {
    /// The code of a shape; `None` where strips are copies.
    #[must_use]
    pub fn of(&self, shape: StripeShape) -> Option<Rc<ErasureCode>> {
        if shape.code() == StripCode::Copies {
            return None;
        }
        let mut known = self.known.borrow_mut();
        let code = known.entry(shape).or_insert_with(|| {
            let (data, parity) = (usize::from(shape.data()), usize::from(shape.parity()));
            let shape = CodeShape::new(data, parity).expect("several strips of data have parity");
            Rc::new(ErasureCode::new(shape))
        });
        Some(Rc::clone(code))
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
        let used_bytes = u32::try_from(contents.len()).expect("a segment has at most 32 MiB");
        assert!((1..=geometry.segment_bytes).contains(&used_bytes), "{used_bytes} B of a segment");
        assert!(used_bytes.is_multiple_of(LABEL_BYTES), "{used_bytes} B of a segment");
        let shape = geometry.shape;
        let mut strips: Vec<BufSlice> = (0..shape.data())
            .map(|strip| {
                let begins = u32::from(strip) * geometry.strip_bytes();
                let from = begins.min(used_bytes) as usize;
                contents.slice(from..from + geometry.data_bytes(strip, used_bytes) as usize)
            })
            .collect();
        let sums = match codes.of(shape) {
            None => {
                strips.resize(shape.strips(), contents.clone());
                vec![payload_checksum(contents); shape.strips()]
            }
            Some(code) => {
                let len = geometry.data_bytes(shape.data(), used_bytes) as usize;
                strips.extend(parity_of(&code, &strips, len));
                strips.iter().map(|strip| payload_checksum(strip)).collect()
            }
        };
        Self { geometry, used_bytes, strips, sums: sums.into() }
    }

    /// How many strips of data and parity it has.
    #[must_use]
    pub fn shape(&self) -> StripeShape {
        self.geometry.shape
    }

    /// Bytes of the segment.
    #[must_use]
    pub fn used_bytes(&self) -> u32 {
        self.used_bytes
    }

    /// What stands behind the label of a strip; may be empty.
    ///
    /// # Panics
    /// When the shape has no such strip.
    #[must_use]
    pub fn strip(&self, strip: u8) -> &BufSlice {
        self.strips.get(usize::from(strip)).expect("a strip of the shape")
    }

    /// Payload checksums of all strips.
    #[must_use]
    pub fn sums(&self) -> &[u64] {
        &self.sums
    }

    /// What its labels have in common (STRIPE-3).
    #[must_use]
    pub fn identity(&self, id: SegmentId) -> PutIdentity {
        PutIdentity {
            shape: self.geometry.shape,
            generation: id.generation,
            used_bytes: self.used_bytes,
            strip_checksums: self.sums.clone(),
        }
    }

    /// The label of the strip that goes to `location`, which is one of `view`.
    ///
    /// # Panics
    /// When `location` is one of another class.
    #[must_use]
    pub fn label(&self, view: &LayoutView, id: SegmentId, location: &StripLocation) -> StripLabel {
        assert_eq!(location.geometry, self.geometry, "strips go to places of their class");
        StripLabel {
            shape: self.geometry.shape,
            strip: location.strip,
            drive: location.place.drive,
            pool: view.drives().pool,
            slot: id.number,
            place: location.place.place,
            generation: id.generation,
            epoch: view.drives().epoch,
            tenancy: location.place.tenancy,
            used_bytes: self.used_bytes,
            data_bytes: self.geometry.data_bytes(location.strip, self.used_bytes),
            strip_checksums: self.sums.clone(),
        }
    }

    /// What is written at `location.offset`, in one gathered write: the label, and the strip if it has bytes.
    #[must_use]
    pub fn parts(
        &self,
        view: &LayoutView,
        id: SegmentId,
        location: &StripLocation,
    ) -> Vec<BufSlice> {
        let mut label = AlignedBuf::zeroed(StripLabel::LEN);
        self.label(view, id, location).encode(&mut label);
        let strip = self.strip(location.strip);
        let mut parts = vec![label.freeze()];
        if !strip.is_empty() {
            parts.push(strip.clone());
        }
        parts
    }
}

/// Parity strips of `len` bytes, in one buffer.
fn parity_of(code: &ErasureCode, data: &[BufSlice], len: usize) -> Vec<BufSlice> {
    let count = code.shape().parity();
    let mut parity = AlignedBuf::scratch(count * len);
    let sources: Vec<&[u8]> = data.iter().map(|strip| &**strip).collect();
    let mut outputs: Vec<&mut [u8]> = parity.chunks_exact_mut(len).collect();
    code.encode(&sources, &mut outputs);
    let parity = parity.freeze();
    (0..count).map(|strip| parity.slice(strip * len..(strip + 1) * len)).collect()
}

#[cfg(test)]
mod tests {
    use varve_stdx::Rng;

    use super::*;

    fn geometry(data: u8, parity: u8) -> StripGeometry {
        let shape = StripeShape::new(data, parity).unwrap();
        StripGeometry { shape, segment_bytes: 256 << 10, zone_segments: 4 }
    }

    #[test]
    fn data_strips_are_parts_of_what_was_handed_in() {
        let mut bytes = vec![0; 200 << 10];
        Rng::new(1).fill(&mut bytes);
        let contents = BufSlice::copy_from(&bytes);
        let codes = StripCodes::default();
        for (data, parity) in [(1, 0), (1, 2), (2, 1), (3, 1), (4, 2), (10, 4)] {
            let stripe = Stripe::new(&codes, geometry(data, parity), &contents);
            let mut joined = Vec::new();
            for strip in 0..data {
                joined.extend_from_slice(stripe.strip(strip));
                let is_shared = stripe.strip(strip).shares_buffer(&contents);
                assert!(is_shared || stripe.strip(strip).is_empty(), "{data}+{parity}");
            }
            assert_eq!(joined, bytes, "{data}+{parity}");
            for (strip, sum) in (0..data + parity).zip(stripe.sums()) {
                assert_eq!(payload_checksum(stripe.strip(strip)), *sum);
            }
        }
    }
}
