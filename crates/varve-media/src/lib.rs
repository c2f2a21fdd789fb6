//! Where bytes are kept: four small contracts, and the drives, memory and simulated disks that fulfil them.

mod blocking;
pub mod conformance;
mod contract;
mod disk;
mod drive;
mod error;
mod format;
mod grow;
mod mem;
mod pool_files;
mod roots;
mod sim;
mod stats;
mod uring;

pub use contract::{
    Fence, IoFuture, JournalStore, Media, RootKey, RootStore, RootVersion, SegmentGeometry,
    SegmentId, SegmentStore,
};
pub use disk::{Disk, Persist, Section};
pub use drive::{Drive, DriveDisks, DriveOptions, DriveSpec};
pub use error::{Error, Result};
pub use mem::MemDisk;
pub use pool_files::{DriveKind, NewDrive, PoolFiles};
pub use sim::{SimDisk, SimLatency, SimMedium};
pub use stats::{DiskOperation, DiskStats, OperationStats, StatsDisk};
pub use uring::UringDisk;
