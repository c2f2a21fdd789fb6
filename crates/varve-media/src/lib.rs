//! Where bytes are kept: four small contracts, and the drives, memory and simulated disks that fulfil them.

pub mod conformance;
mod contract;
mod disk;
mod drive;
mod error;
mod format;
mod mem;
mod roots;
mod sim;

pub use contract::{
    Fence, IoFuture, JournalStore, Media, RootKey, RootStore, RootVersion, SegmentGeometry,
    SegmentId, SegmentStore,
};
pub use disk::{Disk, Persist, Section};
pub use drive::{Drive, DriveDisks, DriveOptions, DriveSpec};
pub use error::{Error, Result};
pub use mem::MemDisk;
pub use sim::{SimDisk, SimLatency, SimMedium};
