//! Which drives may be believed: O1 to O3.
use varve_media::{Error, RedundantSuperblock, Result};
use varve_reactor::Reactor;
use varve_types::PoolId;
use crate::handles::RedundantDisks;
use crate::ids::{DriveNumber, HistoryId};
use crate::view::LayoutView;

/// A place where a drive of the pool may be.
pub enum Candidate {
    /// A drive whose superblock was read.
    Found(FoundDrive),
    /// One that could not be looked at.
    Failed {
        /// Where.
        path: String,
        /// Why.
        error: Error,
    },
}
/// A drive whose superblock was read.
#[derive(Clone)]
pub struct FoundDrive {
    /// Where it is.
    pub path: String,
    /// What it says of itself.
    pub superblock: RedundantSuperblock,
    /// Its disks.
    pub disks: RedundantDisks,
}
/// How a pool is opened.
#[derive(Clone, Debug)]
pub struct OpeningOptions {
    /// Go on from the newest table that is there, although a newer one may exist.
    pub degraded: bool,
    /// Which of two histories that have split counts.
    pub history: Option<HistoryId>,
    /// Random: what a new history is called, if there must be one.
    pub new_history: HistoryId,
    /// The pool; that of the first drive where it is not known.
    pub pool: Option<PoolId>,
    /// How long a drive may not answer, in ns.
    pub patience_nanos: u64,
}
/// What drives say, and which of them counts.
pub struct Survey {}
impl Survey {
    /// Reads the tables of all candidates, and writes nothing.
    pub async fn take(reactor: &Reactor, candidates: Vec<Candidate>, options: &OpeningOptions) -> Result<Self> { todo!() }
    /// Drives that should be there.
    pub fn missing(&self) -> &[DriveNumber] { todo!() }
    /// Opens the pool by them.
    pub async fn open(self) -> Result<Opening> { todo!() }
}
/// A pool that was opened.
pub struct Opening {
    /// Its tables.
    pub view: LayoutView,
    /// Paths of drives that are not read.
    pub stale: Vec<String>,
    /// Drives that were missing.
    pub missing: Vec<DriveNumber>,
    /// Whether nothing may be written.
    pub is_read_only: bool,
    /// Drives that are used.
    pub drives: Vec<(DriveNumber, FoundDrive)>,
}
/// Opens a pool.
pub async fn open(reactor: &Reactor, candidates: Vec<Candidate>, options: &OpeningOptions) -> Result<Opening> { todo!() }
