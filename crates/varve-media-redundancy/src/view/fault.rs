//! Why tables are no view, or none that can follow another one.

use varve_types::PoolId;

use crate::class::StripeShape;
use crate::ids::{DriveNumber, Epoch, ZoneIndex};

/// Why tables are none of one pool at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ViewFault {
    /// A table is of another pool.
    #[error("a table is of pool {found}")]
    Pool {
        /// Which.
        found: PoolId,
    },
    /// The pool has no such zone.
    #[error("there is no zone {zone}")]
    Zone {
        /// Which.
        zone: ZoneIndex,
    },
    /// A row has a class that the pool does not have.
    #[error("the row of zone {zone} has the unknown class {class}")]
    Class {
        /// Whose row.
        zone: ZoneIndex,
        /// The class.
        class: u8,
    },
    /// A row names a drive that the pool does not have.
    #[error("the row of zone {zone} names the unknown drive {drive}")]
    Drive {
        /// Whose row.
        zone: ZoneIndex,
        /// The drive.
        drive: DriveNumber,
    },
    /// A journal record names a drive that the pool does not have.
    #[error("a copy of the journal of shard {shard} is on the unknown drive {drive}")]
    JournalDrive {
        /// Whose journal.
        shard: u16,
        /// The drive.
        drive: DriveNumber,
    },
    /// A row has too few or too many places.
    #[error("the row of zone {zone} has {found} places, not {expected}")]
    Strips {
        /// Whose row.
        zone: ZoneIndex,
        /// Places of its class.
        expected: usize,
        /// Those it has.
        found: usize,
    },
    /// A class has more parity than drives may be dropped.
    #[error("class {class} has more parity than the {drops_max} drives that may be dropped")]
    Parity {
        /// The class.
        class: u8,
        /// Drives that may be dropped.
        drops_max: u8,
    },
    /// A row has slots without labels, and a class that has several strips.
    #[error("the row of zone {zone} has slots, and class {class} has strips")]
    SlotClass {
        /// Whose row.
        zone: ZoneIndex,
        /// The class.
        class: u8,
    },
    /// A row has more slots in its first place than a zone has.
    #[error("the row of zone {zone} has {split} slots in its first place")]
    Split {
        /// Whose row.
        zone: ZoneIndex,
        /// Those slots.
        split: u16,
    },
    /// Both sets of a row have a place, with different shapes.
    #[error(
        "the row of zone {zone} moves strips of another shape to a place that it has on drive {drive}"
    )]
    Shared {
        /// Whose row.
        zone: ZoneIndex,
        /// The drive of the place.
        drive: DriveNumber,
    },
    /// A place comes into a row with a tenancy that the row had before.
    #[error("a place on drive {drive} comes into the row of zone {zone} with tenancy {found}")]
    PlaceTenancy {
        /// Whose row.
        zone: ZoneIndex,
        /// The drive of the place.
        drive: DriveNumber,
        /// The tenancy of the place.
        found: u32,
    },
    /// Two shards have the same lane of a drive.
    #[error("the journal of shard {shard} is in lane {lane} of drive {drive}, as another one is")]
    Lane {
        /// One of them.
        shard: u16,
        /// The drive.
        drive: DriveNumber,
        /// The lane.
        lane: u16,
    },
    /// The epoch of a journal record fell.
    #[error("the epoch of the journal of shard {shard} falls to {found}")]
    JournalEpoch {
        /// Whose journal.
        shard: u16,
        /// The new one.
        found: u64,
    },
    /// The epoch of the drive table fell.
    #[error("the epoch of the drive table falls to {found}")]
    Epoch {
        /// The new one.
        found: Epoch,
    },
    /// A drive that failed or left is there again.
    #[error("drive {drive} was given up, and is there again")]
    GivenUp {
        /// The drive.
        drive: DriveNumber,
    },
    /// A drive has fewer units than before.
    #[error("drive {drive} has fewer units than before")]
    Smaller {
        /// The drive.
        drive: DriveNumber,
    },
    /// The number that the next drive gets fell.
    #[error("the number of the next drive falls to {found}")]
    NextDrive {
        /// The new one.
        found: u8,
    },
    /// A class has another shape than before.
    #[error("class {class} changes from {before} to {found}")]
    Shape {
        /// The class.
        class: u8,
        /// What it was.
        before: StripeShape,
        /// What it would be.
        found: StripeShape,
    },
    /// Segments, zones or their number have other sizes than before.
    #[error("sizes of segments or zones change")]
    Geometry,
    /// The tenancy of a zone fell.
    #[error("the tenancy of zone {zone} falls to {found}")]
    Tenancy {
        /// Whose row.
        zone: ZoneIndex,
        /// The new one.
        found: u32,
    },
}
