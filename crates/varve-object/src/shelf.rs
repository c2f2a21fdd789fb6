//! The part of a bucket that one shard holds: versions, uploads and parts as keys of the shard's key tree, beside the
//! bodies that they name, which are content ([`varve_dataset_content`]). One value a bucket, shard and opening of the
//! shard, on the shard's thread.
//!
//! A small body is written by the transaction of its record; a large one is staged before, as are copies that share
//! bytes. Parts of an upload are a series, which becomes the body of a version where it is.
//!
//! SHELF-1. A key is changed by one task at a time, and what a reader is told of a version is held before somebody else
//!     can change the key.

mod audit;
mod change;
mod drop;
#[cfg(test)]
mod examples;
mod find;
mod keys;
mod list;
mod record;
mod uploads;

use std::rc::Rc;

use varve_dataset_content::{ContentOptions, ContentShard, KeyLocks};
use varve_engine::Shard;
use varve_reactor::Reactor;
use varve_types::{Reduction, StreamId};

pub use audit::{BucketAudit, audit_bucket, buckets_of, compare_references};
pub use find::{ShelfBody, ShelfFound};
pub(crate) use varve_dataset_content::DEPTH_MAX;
pub use varve_dataset_content::{
    ContentPiece, ContentStaging, GiveBack, HeldContent, Reference, SharedBytes, StagedReference,
    WrittenContent,
};

use crate::{BucketId, BucketUsage, Result};
use record::ObjectRecord;

/// Keys fetched at once.
const BATCH: usize = 256;

/// A body, as it comes to a shelf.
pub enum IncomingBody {
    /// Its bytes.
    Small(bytes::Bytes),
    /// Bytes that were written before.
    Staged(WrittenContent),
    /// Parts of an upload of the key.
    Parts {
        /// The upload.
        upload: crate::UploadId,
        /// Its parts, in the order of their numbers.
        parts: Vec<crate::PartRef>,
    },
}

/// A bucket on one shard. See the module.
pub struct BucketShard {
    bucket: BucketId,
    content: Rc<ContentShard>,
    locks: KeyLocks,
}

impl BucketShard {
    /// Opens a bucket on a shard. What orphans name is freed from now on; `give_back` gives references back to other
    /// shelves of the bucket.
    ///
    /// # Errors
    /// `Corrupt` when keys cannot be read, `Unavailable` when the shard closed.
    pub async fn open(
        reactor: Reactor,
        shard: Rc<Shard>,
        bucket: BucketId,
        reduction: Reduction,
        give_back: GiveBack,
    ) -> Result<Rc<Self>> {
        let options = content_options(reactor, shard, bucket);
        let content = ContentShard::open(options, reduction, give_back).await?;
        Ok(Rc::new(Self { bucket, content, locks: KeyLocks::default() }))
    }

    /// Opens a bucket whose objects are only listed and read: nothing is freed, and the shard need not take changes.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_to_read(
        reactor: Reactor,
        shard: Rc<Shard>,
        bucket: BucketId,
    ) -> Result<Rc<Self>> {
        let content = ContentShard::open_to_read(content_options(reactor, shard, bucket)).await?;
        Ok(Rc::new(Self { bucket, content, locks: KeyLocks::default() }))
    }

    /// The bytes of its bodies.
    #[must_use]
    pub fn content(&self) -> &Rc<ContentShard> {
        &self.content
    }

    /// The shard it stands on.
    #[must_use]
    pub fn shard(&self) -> &Rc<Shard> {
        self.content.shard()
    }

    /// What it holds.
    #[must_use]
    pub fn usage(&self) -> BucketUsage {
        let account = self.content.account();
        BucketUsage { objects: account.items(), bytes: account.bytes() }
    }

    /// Versions and delete markers on it.
    #[must_use]
    pub fn versions(&self) -> u64 {
        self.content.account().records()
    }

    /// How blocks that are written from now on are reduced.
    pub fn set_reduction(&self, reduction: Reduction) {
        self.content.set_reduction(reduction);
    }

    /// Refuses changes from now on, or takes them again; the bucket is about to be deleted.
    pub fn set_closed(&self, is_closed: bool) {
        self.content.set_closed(is_closed);
    }

    /// Removes every key of the bucket; its blocks go with its stream. Nothing else is done with it any more.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed; it may be done again.
    pub async fn clear(&self) -> Result<()> {
        Ok(self.content.clear(keys::records(self.bucket)).await?)
    }
}

fn content_options(reactor: Reactor, shard: Rc<Shard>, bucket: BucketId) -> ContentOptions {
    let read_record = |record: &[u8]| Ok(ObjectRecord::decode(record)?.content());
    ContentOptions { reactor, shard, stream: StreamId::new(bucket.0), read_record }
}
