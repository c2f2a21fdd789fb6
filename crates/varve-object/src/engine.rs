//! The store of objects on the engine: buckets spread over shards by their keys, a shelf on each; listings are merged.
//!
//! ```text
//!  any executor ──job──▶ thread of the key's home shard: shelf ──▶ shard
//! ```
//!
//! Buckets, and the records of the gateway, are objects of a bucket of its own, which has no name; all of them are in
//! memory.
//!
//! OBJECT-ENGINE-1. A bucket exists from the moment its object in the gateway's bucket is durable until that is gone. A
//!     stream of a bucket that has no such object is cleared by the next opening, unless it holds versions
//!     (OBJECT-ENGINE-2).
//! OBJECT-ENGINE-2. A bucket is deleted only while its shelves take no changes and hold no version.
//! OBJECT-ENGINE-3. What a caller began goes on to its end when the caller leaves.
//! OBJECT-ENGINE-4. A bucket on its way between two pools takes no changes but those that its [`gate`] lets through;
//!     its record is changed by one step at a time, which compares it.
//! OBJECT-ENGINE-5. A shard that cannot be read does not keep the others from being served (UNREAD-1, UNREAD-2 of
//!     [`unread`]).

mod body;
mod bucket_record;
mod buckets;
mod caller;
mod copies;
mod gate;
mod moves;
mod objects;
mod unread;

use std::sync::Arc;

use varve_dispatch::{Placement, PoolLinks};
use varve_types::Reduction;

use crate::{BucketId, Result};
pub use bucket_record::BucketRecord;
use buckets::BucketTable;
use caller::ShardClient;
pub use caller::oldest_request;
use unread::UnreadShards;

/// Buckets and objects on a pool. Called from tasks of any executor.
pub struct EngineStore {
    caller: Arc<ShardClient>,
    buckets: Arc<BucketTable>,
    /// The gateway's own bucket.
    gateway: BucketId,
    unread: UnreadShards,
}

/// What a store is told.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions {
    /// How objects of a bucket are reduced, by the bucket's record; those of private buckets share no chunks.
    pub reduction: fn(&[u8]) -> Reduction,
    /// Most bytes of large pieces of bodies in memory on their way to and from shards. Who finds no room goes on in
    /// small pieces, 64 KiB each: nobody waits for it, so a client that is slow, or that writes what it reads, stops no
    /// other.
    pub bodies_bytes_max: usize,
    /// Whether the pool is only read: what a crash left undone stays so.
    pub is_read_only: bool,
}

impl EngineStore {
    /// The store on the pool that these links lead to, whose shards are open or will be. Finishes what a crash left
    /// undone. Where a shard cannot be read, what it keeps is unread
    /// ([`ObjectStore::check_all_read`](crate::ObjectStore::check_all_read)), and the rest is served.
    ///
    /// # Errors
    /// `Unread` when the shards that can be read do not know whether there are users or buckets; `NoSpace`, `Internal`.
    pub async fn open(
        links: PoolLinks,
        placement: Placement,
        options: EngineOptions,
    ) -> Result<Self> {
        let buckets = Arc::new(BucketTable::new(options.reduction));
        let is_read_only = options.is_read_only;
        let caller = Arc::new(ShardClient::new(links, placement, options, Arc::clone(&buckets)));
        let (gateway, unread) = buckets::gateway(&caller).await?;
        let mut store = Self { caller, buckets, gateway, unread };
        store.load_buckets(is_read_only).await?;
        Ok(store)
    }
}
