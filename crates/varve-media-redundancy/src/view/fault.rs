//! Why tables are no view, or none that can follow another one.

use varve_types::PoolId;

use crate::ids::{DriveNumber, ZoneIndex};

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
    /// The tenancy of a zone fell.
    #[error("the tenancy of zone {zone} falls to {found}")]
    Tenancy {
        /// Whose row.
        zone: ZoneIndex,
        /// The new one.
        found: u32,
    },
}
