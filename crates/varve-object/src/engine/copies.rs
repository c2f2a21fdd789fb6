//! Copies within a bucket: the new body shares the bytes of the old one (RFC 0024). Each step is a job for one shelf.

use std::ops::Range;
use std::sync::Arc;

use super::EngineStore;
use super::body::EngineBody;
use super::bucket_record::BucketRecord;
use super::buckets::{BucketEntry, bucket_key, decode, replaced};
use super::caller::Address;
use super::gate::ChangeScope;
use crate::moving::Changer;
use crate::shelf::SharedBytes;
use crate::{Body, BucketId, ChangeKey, Error, Result, StagedBody};

impl EngineStore {
    /// A body for `key` that shares the bytes of part of another; none where they have to be copied: those of another
    /// bucket or store, of a small body, where they are less than half of what would be kept for them
    /// (CONTENT-REFERENCE-6), and where bodies would lie too deep in each other.
    pub(super) async fn share(
        &self,
        bucket: BucketId,
        key: &str,
        source: &dyn Body,
        range: &Range<u64>,
    ) -> Result<Option<StagedBody>> {
        let Some(body) = source.as_any().downcast_ref::<EngineBody>() else { return Ok(None) };
        let is_of_bucket = Arc::ptr_eq(&body.caller, &self.caller) && body.at.bucket == bucket;
        if !is_of_bucket || range.is_empty() || range.end > body.len() {
            return Ok(None);
        }
        let (at, changing) = self.changing(bucket, key, Changer::Client, ChangeScope::Nothing)?;
        let (held, wanted) = (Arc::clone(&body.body), range.clone());
        let located = self.caller.on_shelf(body.at, move |shelf| {
            Box::pin(async move { Ok(shelf.content().locate(&held, wanted).await?) })
        });
        let Some(bytes) = located.await? else { return Ok(None) };
        self.mark_sharing(bucket).await?;
        let staged = self.caller.on_shelf(at, move |shelf| {
            Box::pin(async move {
                let staged = shelf.content().stage_reference(&bytes).await;
                drop(changing);
                Ok(staged.map(Arc::new)?)
            })
        });
        let staged = staged.await?;
        let depth = self.refer(body, at, &staged, bytes).await?;
        Ok(depth.map(|depth| StagedBody {
            len: range.end - range.start,
            handle: Box::new(staged.finish(&bytes, depth)),
        }))
    }

    /// Adds the reference where the bytes are. The job keeps what it is for: what was given up is not given back before
    /// it.
    async fn refer(
        &self,
        body: &EngineBody,
        at: Address,
        staged: &Arc<crate::shelf::StagedReference>,
        bytes: SharedBytes,
    ) -> Result<Option<u8>> {
        let home = Address { shard: bytes.home(), ..at };
        let (held, staged) = (Arc::clone(&body.body), Arc::clone(staged));
        let refer = self.caller.on_shelf(home, move |shelf| {
            Box::pin(
                async move { Ok(shelf.content().refer(at.shard, &staged, &bytes, &held).await?) },
            )
        });
        refer.await
    }

    /// Sees to it that the record of a bucket says that bodies in it share bytes, before the first does: versions that
    /// do not know of it would free what copies name.
    async fn mark_sharing(&self, bucket: BucketId) -> Result<()> {
        let BucketEntry { bucket, .. } = self.buckets.get(bucket)?;
        if bucket.shares_bodies {
            return Ok(());
        }
        let (name, id) = (bucket.name.clone(), bucket.id);
        let change: ChangeKey = Box::new(move |view| {
            let gone = || Error::NoBucket { name: name.clone() };
            let stored = decode(&name, view.newest.as_ref().ok_or_else(gone)?)?;
            if stored.id != id {
                return Err(gone());
            }
            let marked = BucketRecord { shares_bodies: true, ..BucketRecord::of(stored) };
            Ok(replaced(view, Some(marked.encode())))
        });
        let changed = self.change_own(bucket_key(&bucket.name), change).await?;
        let version = changed.put.ok_or(Error::State { reason: "a bucket has a record" })?;
        self.buckets.renew(&Arc::new(decode(&bucket.name, &version)?));
        Ok(())
    }
}
