//! Redundant pools on block devices, files and directories: made once, opened by one process, and used by each of its
//! threads through descriptors of its own. Stands beside `PoolFiles` of `varve-media`.
//!
//! FILES-1. All drives that are there are locked before one is read, and as long as the pool is open: drives that are
//!     stale or left too, so that nobody makes something else of them meanwhile.
//! FILES-2. The keeper of the pool has a thread and a loop of its own, and ends before the locks do.

use std::path::PathBuf;
use std::sync::Arc;

use varve_media::{Error, NewDrive, Result, SegmentGeometry};
use varve_reactor::Reactor;
use varve_types::PoolId;

/// A redundant pool that this process has open. It may be shared between threads.
pub struct RedundantFiles {}

/// How a pool is opened.
#[derive(Clone, Debug)]
pub struct FilesOptions {
    /// Go on from the newest table that is there, although a newer one may exist.
    pub is_degraded: bool,
    /// Which of two histories that have split counts.
    pub history: Option<HistoryId>,
    /// How long a drive may not answer.
    pub drive_patience_ns: u64,
    /// How long a copy of a journal may not answer.
    pub journal_patience_ns: u64,
    /// By how much every operation begins later, in ns; for tests.
    pub delay_ns: u64,
}

impl RedundantFiles {
    /// Makes a pool on new drives. Blocks. Durable on return.
    pub fn create(drives: &[NewDrive], spec: &RedundantSpec) -> Result<()> {
        todo!()
    }

    /// Opens a pool by the drives at these paths, which may be some of its drives.
    pub fn open(paths: &[PathBuf], options: &FilesOptions) -> Result<Self> {
        todo!()
    }

    /// What the thread of a shard works with.
    pub fn thread(&self, reactor: &Reactor) -> Result<RedundantThread> {
        todo!()
    }

    /// The tables as they are now.
    pub fn view(&self) -> Arc<LayoutView> {
        todo!()
    }
}
