//! What operators are told of a bucket.

use varve_object::{BucketUsage, Move, Versioning};
use varve_types::Reduction;

/// A bucket and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its name.
    pub name: String,
    /// Number of the bucket in its pool, never reused.
    pub id: u64,
    /// Id of the user it belongs to.
    pub owner: String,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// Whether overwritten objects stay as versions.
    pub versioning: Versioning,
    /// Objects may be locked.
    pub object_lock: bool,
    /// What it may hold.
    pub quota: BucketQuota,
    /// Its requests are logged.
    pub access_log: bool,
    /// How objects written from now on are reduced.
    pub reduction: Reduction,
    /// What it holds; none while a shard that may hold some of it cannot be asked.
    pub usage: Option<BucketUsage>,
    /// Where it is on its way between two pools.
    pub moves: Option<Move>,
}

/// What a bucket may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BucketQuota {
    /// Most bytes, 0 for no limit.
    pub bytes: u64,
    /// Most objects, 0 for no limit.
    pub objects: u64,
}
