//! The other shards of the pool, for one that names blocks of theirs: they are read, and nothing else is asked of them.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use futures_util::future::{LocalBoxFuture, ready};
use varve_engine::{DedupReply, Error, Fingerprint, Peers, Result, Shard};
use varve_stdx::BufSlice;
use varve_types::{ChunkId, ShardId};

/// The shards of the pool that can be read.
pub(super) struct ReadablePeers {
    count: u16,
    /// Those that opened, once all were tried.
    shards: RefCell<Vec<Weak<Shard>>>,
}

impl ReadablePeers {
    /// Those of a pool of so many shards, none of which is open yet.
    pub(super) fn new(count: u16) -> Rc<Self> {
        Rc::new(Self { count, shards: RefCell::default() })
    }

    /// From here on these can be read.
    pub(super) fn enter(&self, shards: &[Option<Rc<Shard>>]) {
        let weak = shards.iter().map(|shard| shard.as_ref().map(Rc::downgrade).unwrap_or_default());
        *self.shards.borrow_mut() = weak.collect();
    }

    fn shard(&self, home: ShardId) -> Result<Rc<Shard>> {
        let shard = self.shards.borrow().get(usize::from(home.0)).and_then(Weak::upgrade);
        shard.ok_or_else(|| Error::HomeUnavailable { home, cause: "it is not open".to_owned() })
    }
}

impl Peers for ReadablePeers {
    fn count(&self) -> u16 {
        self.count
    }

    fn home(&self, _: Fingerprint) -> Option<ShardId> {
        None
    }

    fn ask(
        &self,
        _: ShardId,
        fingerprints: Vec<Fingerprint>,
    ) -> LocalBoxFuture<'_, Result<Vec<DedupReply>>> {
        Box::pin(ready(Ok(vec![DedupReply::Unknown; fingerprints.len()])))
    }

    fn tell_stored(&self, _: ShardId, _: Vec<Fingerprint>) {}

    fn tell_overwritten(&self, _: ShardId, _: u64) {}

    fn read(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<BufSlice>>>> {
        Box::pin(async move {
            let shard = self.shard(home)?;
            let mut read = Vec::with_capacity(chunks.len());
            for chunk in chunks {
                read.push(Some(shard.salvage_chunk(chunk).await?));
            }
            Ok(read)
        })
    }

    fn stored_bytes(
        &self,
        _: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<u32>>>> {
        Box::pin(ready(Ok(vec![None; chunks.len()])))
    }
}
