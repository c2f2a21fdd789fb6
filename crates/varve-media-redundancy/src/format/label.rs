//! The label before each strip: of which segment it is, by which tenancy of its place, and what all strips of that put
//! are.
//!
//! Each label has the checksums of all strips, so any *k* of them prove what the others must be, and two puts that
//! crossed show.

use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_MAX};
use varve_types::{Generation, PoolId, SegmentNumber};

use super::fault::{FormatFault, check, check_counter};
use super::fields::{FieldReader, seal};
use crate::class::{LABEL_BYTES, STRIPS_MAX, StripCode, StripeShape};
use crate::ids::{DriveNumber, Epoch, Tenancy, UnitNumber};

const MAGIC: [u8; 8] = *b"VARVLABL";
const VERSION: u16 = 1;
const RESERVED_BYTES: usize = 3888;

/// A label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StripLabel {
    /// Strips of the segment.
    pub shape: StripeShape,
    /// Which of them it is.
    pub strip: u8,
    /// The drive that it was written to, by the number that it had then.
    pub drive: DriveNumber,
    /// Which pool it is of.
    pub pool: PoolId,
    /// The segment's slot.
    pub slot: SegmentNumber,
    /// The place that it was written to.
    pub place: UnitNumber,
    /// Which contents of the slot.
    pub generation: Generation,
    /// That of the drive table when it was written.
    pub epoch: Epoch,
    /// That of the place in its row.
    pub tenancy: Tenancy,
    /// Bytes of the segment.
    pub used_bytes: u32,
    /// Bytes of this strip behind the label.
    pub data_bytes: u32,
    /// Payload checksum of each strip, by its index.
    pub strip_checksums: Box<[u64]>,
}

impl StripLabel {
    /// Bytes.
    pub const LEN: usize = LABEL_BYTES as usize;

    /// Writes what is stored into `out`.
    ///
    /// # Panics
    /// When it is not sound, or `out` is not as long as a label.
    pub fn encode(&self, out: &mut [u8]) {
        self.check().expect("a label is sound when it is stored");
        assert_eq!(out.len(), Self::LEN, "a label fills its room");
        seal(out, MAGIC, VERSION, |w| {
            w.u8(self.shape.data());
            w.u8(self.shape.parity());
            w.u8(self.strip);
            w.u8(code_number(self.shape.code()));
            w.u8(self.drive.get());
            w.u8(0);
            w.array(self.pool.0);
            w.u32(self.slot.0);
            w.u32(self.place.0);
            w.u64(self.generation.get());
            w.u64(self.epoch.0);
            w.u32(self.tenancy.get());
            w.u32(self.used_bytes);
            w.u32(self.data_bytes);
            w.u32(0);
            self.strip_checksums.iter().for_each(|sum| w.u64(*sum));
            w.zeros((STRIPS_MAX - self.strip_checksums.len()) * 8 + RESERVED_BYTES);
        });
    }

    /// The label that bytes hold, of whatever pool.
    ///
    /// # Errors
    /// [`FormatFault`].
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatFault> {
        let mut fields = FieldReader::open(bytes, MAGIC, VERSION)?;
        let (data, parity, strip, code) = (fields.u8()?, fields.u8()?, fields.u8()?, fields.u8()?);
        let bad = |field, value: u64| FormatFault::Field { field, value };
        let shape = StripeShape::new(data, parity).ok_or(bad("data_strips", data.into()))?;
        check("code", code, code == code_number(shape.code()))?;
        let (drive, aead) = (fields.drive()?, fields.u8()?);
        let pool = PoolId(fields.array()?);
        let (slot, place) = (SegmentNumber(fields.u32()?), UnitNumber(fields.u32()?));
        let generation = fields.u64()?;
        let generation =
            Generation::from_untrusted(generation).ok_or(bad("generation", generation))?;
        let (epoch, tenancy) = (Epoch(fields.u64()?), fields.tenancy()?);
        let (used_bytes, data_bytes, key_id) = (fields.u32()?, fields.u32()?, fields.u32()?);
        // Nothing is encrypted yet, and nobody must take ciphertext for data.
        let encryption = u64::from(aead) | u64::from(key_id);
        if encryption != 0 {
            return Err(FormatFault::Features { flags: encryption });
        }
        let sums = (0..shape.strips()).map(|_| fields.u64());
        let strip_checksums = sums.collect::<Result<_, _>>()?;
        fields.zeros((STRIPS_MAX - shape.strips()) * 8 + RESERVED_BYTES)?;
        fields.end()?;
        let label = Self {
            shape,
            strip,
            drive,
            pool,
            slot,
            place,
            generation,
            epoch,
            tenancy,
            used_bytes,
            data_bytes,
            strip_checksums,
        };
        label.check()?;
        Ok(label)
    }

    /// Relations between the fields.
    fn check(&self) -> Result<(), FormatFault> {
        let is_aligned =
            |bytes: u32| usize::try_from(bytes).is_ok_and(|it| it.is_multiple_of(MEDIA_ALIGN));
        let Self { strip, used_bytes, data_bytes, .. } = *self;
        check("strip", strip, usize::from(strip) < self.shape.strips())?;
        let are_all = self.strip_checksums.len() == self.shape.strips();
        check("strip_checksums", self.strip_checksums.len() as u64, are_all)?;
        check_counter("epoch", self.epoch.0)?;
        check("tenancy", self.tenancy.get(), self.tenancy > Tenancy::ZERO)?;
        let is_segment = (1..=SEGMENT_BYTES_MAX).contains(&used_bytes);
        check("used_bytes", used_bytes, is_segment && is_aligned(used_bytes))?;
        // Strips of a short segment may hold nothing, but neither the first one nor parity.
        let may_be_empty = strip > 0 && strip < self.shape.data();
        let is_part = data_bytes <= used_bytes && (data_bytes > 0 || may_be_empty);
        let is_copy = self.shape.data() > 1 || data_bytes == used_bytes;
        check("data_bytes", data_bytes, is_part && is_copy && is_aligned(data_bytes))?;
        let own = self.strip_checksums.get(usize::from(strip)).copied().unwrap_or_default();
        check("strip_checksums", own, data_bytes > 0 || own == 0)
    }
}

const fn code_number(code: StripCode) -> u8 {
    match code {
        StripCode::Copies => 0,
        StripCode::Xor => 1,
        StripCode::DoubleParity => 2,
        StripCode::Cauchy => 3,
    }
}
