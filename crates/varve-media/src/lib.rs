//! Where bytes are kept: four small contracts, and the drives, memory and simulated disks that fulfil them.

mod block_device;
mod blocking;
pub mod conformance;
mod contract;
mod disk;
mod drive;
mod drive_files;
mod empty_roots;
mod error;
mod fault;
mod format;
#[doc(hidden)]
pub mod fuzz;
mod identity;
mod in_place;
mod inspect;
mod making;
mod mem;
mod overlay;
mod overlay_media;
mod parts;
mod plain_drive;
pub mod planted;
mod pool_files;
mod private;
mod redundant_superblock;
mod roots;
mod segment_cache;
mod sided_root;
mod signature;
mod sim;
mod sim_host;
mod spec;
mod stats;
mod superblock_copies;
mod throttle;
mod uring;

pub use block_device::{BlockDevice, BlockDevices};
pub use contract::{
    Fence, HeldSegment, IoFuture, JournalStore, Media, RootKey, RootStore, RootVersion,
    SegmentGeometry, SegmentId, SegmentStore, ZoneContents,
};
pub use disk::{Disk, DiskOperation, Persist, Section};
pub use drive::{Drive, DriveOptions};
pub use drive_files::{DiskDelay, DiskLayers, DriveExtent, DriveFiles, DriveParts};
pub use empty_roots::write_empty_roots;
pub use error::{Error, Result};
pub use fault::{Fault, FaultDisk, FaultPlan, FaultRule};
pub use identity::{DriveIdentity, RedundantIdentity};
pub use inspect::{
    MediaPlace, PoolFigures, PoolInspection, RedundantDriveInspection, RootSide, SuperblockCopy,
};
pub use making::{mark_former_drive, mark_new_drives};
pub use mem::MemDisk;
pub use overlay::{OverlayDisk, OverlayMemory};
pub use overlay_media::overlay_media;
pub use parts::DriveDisks;
pub use plain_drive::{PlainDrive, UpgradedDrive};
pub use pool_files::{DriveKind, NewDrive, PoolFiles};
pub use redundant_superblock::{RedundantDriveSpec, RedundantSpec, RedundantSuperblock};
pub use roots::is_whole_side;
pub use segment_cache::{CacheStats, CachedSegments};
pub use sided_root::SidedRoot;
pub use sim::{SimDisk, SimLatency, SimMedium};
pub use sim_host::{RoomPolicy, SimHost};
pub use spec::DriveSpec;
pub use stats::{DiskErrors, DiskStats, OperationStats, PendingOperation, StatsDisk};
pub use throttle::{Throttle, ThrottleDisk, ThrottleLimits};
pub use uring::UringDisk;
