//! Where bytes are kept: four small contracts, and the drives, memory and simulated disks that fulfil them.

mod contract;
mod error;

pub use contract::{
    Fence, IoFuture, JournalStore, Media, RootKey, RootStore, RootVersion, SegmentGeometry,
    SegmentId, SegmentStore,
};
pub use error::{Error, Result};
