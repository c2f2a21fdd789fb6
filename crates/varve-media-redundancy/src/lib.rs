//! Redundancy over the drives of a pool, below the contracts of `varve-media`: segments as stripes, journals and roots
//! in several copies.
//!
//! ```text
//!  format ──▶ LayoutView ─┬─▶ DriveSpaces ──▶ plan: where strips go
//!  (tables)   (a moment)  ├─▶ RepairQueue: which zone is next
//!                         └─▶ health: what is proven
//!
//!  drives ──▶ Survey ──▶ Opening ──▶ Keeper ──▶ Tables ──▶ TablesHandle, DriveHandles of each thread
//!              (rules)              (changes)  (views)
//! ```
//!
//! Section numbers in comments are those of RFC 0026.

mod budget;
mod change;
mod class;
mod conversion;
mod decode;
mod drive_changes;
mod exposure;
mod files;
mod fills;
pub mod format;
mod handles;
mod health;
mod hedge;
mod histories;
mod ids;
mod inspect;
mod joined_files;
mod journal;
mod keeper;
mod latency;
mod making;
mod medium;
mod mover;
mod new_files;
mod opening;
mod places;
mod plan;
mod pool;
mod pool_sizer;
mod protection;
mod rebalance;
mod recent;
mod repair;
mod roots;
mod scrub;
mod segments;
mod shares;
mod sizes;
mod slow;
mod space;
mod stripe;
mod survey;
mod table_store;
mod tables;
mod upgrade;
mod view;
mod watch;
mod written_drive;
mod zone_target;

pub use budget::{BudgetRequest, DEBT_SECONDS_MAX, RATE_MIN, RepairBudget, RepairUrgency};
pub use change::{Change, NewMember};
pub use class::{
    Class, ClassId, LABEL_BYTES, MediumKind, MediumKinds, STRIPS_MAX, StripCode, StripGeometry,
    StripeShape,
};
pub use conversion::{ClassOutlook, is_as_new, unconverted};
pub use decode::{LabelReading, PutIdentity, SlotContents, SlotReader, StripDefect, StripFault};
pub use exposure::{
    ExposedZones, Exposure, RepairItem, RepairQueue, RepairWork, ZoneHoldings, is_readable,
};
pub use files::{DriveLocks, FilesOptions, OpenedDrives, RedundantFiles, ThreadFiles};
pub use fills::DriveFills;
pub use handles::{DRIVE_PATIENCE_NANOS, DriveCounts, DriveHandle, DriveHandles, RedundantDisks};
pub use health::{HealthFacts, HealthReason, HealthReport, HealthState, ShardFacts};
pub use hedge::{HEDGE_PERCENT, ReadCounts};
pub use ids::{DriveId, DriveNumber, Epoch, HistoryId, Tenancy, UNIT_BYTES, UnitNumber, ZoneIndex};
pub use inspect::{
    DriveSide, RedundantInspection, RedundantLook, RedundantProbe, SegmentStrips, SurveyedPool,
    most_named,
};
pub use journal::{JournalPatience, MirroredJournal};
pub use keeper::{DriveOpener, Keeper};
pub use making::{MakingSpec, NewPoolDrive, make, superblock_of};
pub use mover::Mover;
pub use new_files::{NewRedundantDrive, NewRedundantPool};
pub use opening::{Opening, TableAge, open};
pub use plan::{
    JournalPlace, Occupancy, PlaceRequest, choose, choose_journal, journal_kinds, usable,
    zones_that_fit,
};
pub use pool::RedundantThread;
pub use pool_sizer::{PoolSizer, ZoneRoot};
pub use protection::Protection;
pub use repair::{
    DriveFaults, ERRORS_MAX, FailingDrive, MoveProgress, MoveWait, RecentErrors, RepairControl,
    RepairCounts, RepairMedia, ScrubEnd, ScrubProgress, ScrubRequest, UnownedZones,
};
pub use roots::MirroredRoots;
pub use segments::{LeftOutStrip, StripedSegments};
pub use shares::SharedZones;
pub use sizes::{JournalSizes, PoolSizes, SizesRequest};
pub use space::{DriveSpaces, FreeUnits, SpaceFault, UnitRange, ranges_of_row};
pub use stripe::{StripCodes, Stripe};
pub use survey::{Candidate, FoundDrive, OpeningOptions, Survey, UnusableDrive};
pub use table_store::StoredRoot;
pub use tables::{Tables, TablesHandle};
pub use upgrade::{UpgradeDisks, UpgradeDrive, UpgradePlan, UpgradeZones, resume_upgrade};
pub use view::{LayoutView, StripLocation, ViewFault, ZoneSlot};
pub use zone_target::{ZoneTarget, ZoneUse};

#[cfg(test)]
mod test_drives;
#[cfg(test)]
mod test_pool;
