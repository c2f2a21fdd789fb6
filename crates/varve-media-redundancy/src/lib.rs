//! Redundancy over the drives of a pool, below the contracts of `varve-media`: segments as stripes, journals and roots
//! in several copies. What is here does no I/O: stored tables, what they say of the pool, and what should be done next.
//!
//! ```text
//!  format ──▶ LayoutView ─┬─▶ DriveSpaces ──▶ plan: where strips go
//!  (tables)   (a moment)  ├─▶ RepairQueue: which zone is next
//!                         └─▶ health: what is proven
//! ```
//!
//! Section numbers in comments are those of RFC 0026.

mod class;
mod exposure;
pub mod format;
mod health;
mod ids;
mod plan;
mod shares;
mod space;
mod view;

pub use class::{
    Class, ClassId, LABEL_BYTES, MediumKind, MediumKinds, STRIPS_MAX, StripCode, StripGeometry,
    StripeShape,
};
pub use exposure::{ExposedZones, Exposure, RepairItem, RepairQueue, RepairWork, ZoneHoldings};
pub use health::{
    DriveCondition, HealthFacts, HealthReason, HealthReport, HealthState, ShardFacts,
};
pub use ids::{DriveId, DriveNumber, Epoch, HistoryId, Tenancy, UNIT_BYTES, UnitNumber, ZoneIndex};
pub use plan::{
    JournalPlace, Occupancy, PlaceRequest, choose, choose_journal, usable, zones_that_fit,
};
pub use shares::SharedZones;
pub use space::{DriveSpaces, FreeUnits, SpaceFault, UnitRange, ranges_of_row};
pub use view::{LayoutView, StripLocation, ViewFault, ZoneSlot};

#[cfg(test)]
mod test_pool;
