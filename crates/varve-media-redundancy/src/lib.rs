//! Redundancy over the drives of a pool, below the contracts of `varve-media`: segments as stripes, journals and roots
//! in several copies. What is here does no I/O: the stored tables.
//!
//! Section numbers in comments are those of RFC 0026.

mod class;
pub mod format;
mod ids;

pub use class::{
    Class, ClassId, LABEL_BYTES, MediumKind, MediumKinds, STRIPS_MAX, StripCode, StripGeometry,
    StripeShape, UNIT_BYTES,
};
pub use ids::{DriveId, DriveNumber, Epoch, HistoryId, Tenancy, UnitNumber, ZoneIndex};
