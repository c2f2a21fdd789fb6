//! Buckets on their way between two pools, as who moves them asks for it: steps, what is stored, and how far a deletion
//! is.
//!
//! BUCKET-MOVING-1. Clients neither read nor change a bucket that arrives or left, and only read one that leaves; the
//!     store keeps the changes out.
//! BUCKET-MOVING-2. What comes from another pool is stored as it is there, once it has been seen to be what this
//!     version can read.
//! BUCKET-MOVING-3. Steps, and what changes a bucket that arrives, go on to their end when who asked for them leaves:
//!     the caller spawns them.

mod bodies;
mod noted;
mod presence;
mod staged;
mod users;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use varve_object::{Bucket, BucketId, BucketOptions, Move, MoveLast, MoveState, MoveStep};

use crate::answers::error::{Error, Result};
use crate::bucket::info::BucketInfo;
use crate::bucket::name::check_bucket_name;
use crate::bucket::view::BucketView;
use crate::gateway::{Gateway, GatewayInner};

pub use bodies::{ArrivingChange, ReceivedBody, StoredPart, VersionQuery};
pub use noted::ChangeLog;
pub(crate) use noted::ChangeTracker;
pub(crate) use presence::check_here;
pub(crate) use staged::StagedBodies;
pub use staged::{NextPiece, StagedSoFar};

/// How long changes that are under way are waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Longest record of a bucket, in bytes.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// Uploads counted.
const UPLOADS_MAX: usize = 1000;

/// How long one request deletes of a bucket that left.
const DELETION_MAX: Duration = Duration::from_secs(4);

/// Versions that it deletes a shard before it looks at the clock.
const DELETED_AT_ONCE: usize = 500;

/// What a bucket is beside what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSettings {
    /// Number of the bucket in its pool.
    pub number: u64,
    /// Its bodies share no chunks with anything else.
    pub private_copy: bool,
    /// Owner and settings.
    pub record: Bytes,
    /// Uploads in parts that are under way, counted up to 1000.
    pub uploads: u64,
}

/// A bucket that is to arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrivingBucket {
    /// Its name.
    pub name: String,
    /// Where it comes from, and the run that moves it.
    pub moves: Move,
    /// Owner and settings, as they are stored at the source.
    pub record: Bytes,
    /// Its bodies share no chunks with anything else.
    pub private_copy: bool,
}

impl Gateway {
    /// Makes a bucket that arrives. Durable on return.
    ///
    /// # Errors
    /// `Invalid` for name and record, those of the store.
    pub async fn create_arriving(&self, new: ArrivingBucket) -> Result<BucketInfo> {
        check_bucket_name(&new.name)?;
        check_record(&new.name, &new.record)?;
        let options = BucketOptions { private_copy: new.private_copy };
        let made = self.inner.store.create_arriving(&new.name, options, new.record, new.moves);
        self.info(made.await?).await
    }

    /// Takes a bucket a step further on its way. Durable on return, and what was let through before has ended where
    /// that matters.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn move_bucket(&self, name: &str, step: MoveStep) -> Result<BucketInfo> {
        let patience = Box::pin(tokio::time::sleep(WAIT_MAX));
        let moved = self.inner.store.move_bucket(name, step, patience).await?;
        self.inner.staged.drop_of(moved.id);
        self.info(moved).await
    }

    /// What changed in a bucket since a token was given. Notes what changes from then on.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn changes(&self, name: &str, since: Option<&str>) -> Result<ChangeLog> {
        self.inner.noting.changes(&*self.inner.store, name, since).await
    }

    /// Takes the next piece of a body for a bucket that arrives. Not durable before a version has taken the whole body.
    ///
    /// # Errors
    /// `Invalid` for a body that is too long; `Conflict` when the piece is not the next one, or the body is not known;
    /// those of the store.
    pub async fn stage(&self, name: &str, piece: NextPiece) -> Result<StagedSoFar> {
        self.inner.staged.stage(&*self.inner.store, name, piece).await
    }

    /// Takes a bucket that arrives to where clients use it; it says from then on that it was bucket `from` at its
    /// source. `bucket`: which one it has to be; none: any of the name. Durable on return.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn arrive(
        &self,
        name: &str,
        before: Move,
        bucket: Option<BucketId>,
        from: u64,
    ) -> Result<BucketInfo> {
        let last = Some(MoveLast::Bucket(from));
        let after = Some(Move { state: MoveState::Arrived, last, ..before.clone() });
        self.move_bucket(name, MoveStep { before: Some(before), after, bucket }).await
    }

    /// What a bucket is beside what is in it, as its durable record says.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn settings(&self, name: &str) -> Result<StoredSettings> {
        let bucket = self.inner.store.stored_bucket(name).await?;
        let uploads = self.inner.store.list_uploads(bucket.id, "", None, UPLOADS_MAX).await?.len();
        Ok(StoredSettings {
            number: bucket.id.0,
            private_copy: bucket.options.private_copy,
            record: bucket.record.clone(),
            uploads: uploads as u64,
        })
    }

    /// Replaces owner and settings of a bucket that arrives. Durable on return.
    ///
    /// # Errors
    /// `Invalid` for the record, those of the store.
    pub async fn replace_settings(
        &self,
        name: &str,
        expects: &Move,
        record: Bytes,
    ) -> Result<BucketInfo> {
        check_record(name, &record)?;
        let changed = self.inner.store.replace_record(name, expects, record).await?;
        self.info(changed).await
    }

    /// Deletes some of a bucket that left, and the bucket with the last of it. Returns how many versions are left.
    /// Takes some seconds at most.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn delete_left(&self, name: &str, expects: &Move) -> Result<u64> {
        let begun = Instant::now();
        loop {
            let left = self.inner.store.delete_left(name, expects, DELETED_AT_ONCE).await?;
            if left == 0 || begun.elapsed() >= DELETION_MAX {
                return Ok(left);
            }
        }
    }
}

/// Refuses records that this version cannot read (BUCKET-MOVING-2).
fn check_record(name: &str, record: &Bytes) -> Result<()> {
    if record.len() > RECORD_BYTES_MAX {
        let what = format!("the record of bucket `{name}` is longer than {RECORD_BYTES_MAX} bytes");
        return Err(Error::Invalid { what });
    }
    let bucket = Arc::new(Bucket {
        id: BucketId(0),
        name: name.to_owned(),
        options: BucketOptions::default(),
        revision: 0,
        record: record.clone(),
        moves: None,
        shares_bodies: false,
    });
    let what = |error| format!("the record of bucket `{name}`: {error}");
    BucketView::parse(bucket).map(drop).map_err(|error| Error::Invalid { what: what(error) })
}

/// Lets go of what nobody asked for in a long time.
pub(crate) async fn tidy(inner: &GatewayInner) {
    inner.staged.drop_idle();
    inner.noting.end_idle(&*inner.store).await;
}

#[cfg(test)]
mod tests;
