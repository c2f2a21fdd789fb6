//! Long bodies on their way into buckets that arrive, piece by piece, until a version takes them.
//!
//! STAGED-1. A body belongs to one key of one bucket and to one run: nothing else takes it.
//! STAGED-2. Numbers are random, so that one from before a start of the daemon names nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use varve_object::{BodyWriter, BucketId, Move, ObjectStore, StagedBody};

use crate::answers::error::{Error, Result};
use crate::body::cipher::sealed_len;
use crate::body::receive::BODY_BYTES_MAX;
use crate::body::seal::random;

/// Most bodies of a bucket at a time.
const OF_BUCKET_MAX: usize = 64;

/// Longest body: of an object of 10,000 parts of the largest size, each sealed by itself.
const BYTES_MAX: u64 = 10_000 * sealed_len(BODY_BYTES_MAX);

/// How long one is kept that nobody asks for.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Bytes handed over to the store at a time.
const WRITE_BYTES: usize = 1 << 20;

/// The next piece of a body.
#[derive(Debug, Clone)]
pub struct NextPiece {
    /// Where the bucket has to be.
    pub expects: Move,
    /// Key of the version that the body is for.
    pub key: String,
    /// Length of the whole body in bytes.
    pub total_bytes: u64,
    /// Which body; none: a new one.
    pub id: Option<u64>,
    /// Where it begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// How far a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedSoFar {
    /// What it is called.
    pub id: u64,
    /// Bytes that were received.
    pub received_bytes: u64,
}

/// All of them.
#[derive(Default)]
pub(crate) struct StagedBodies {
    /// Guards the table, for moments.
    all: Mutex<HashMap<u64, StagingSlot>>,
}

#[derive(Clone)]
pub(super) struct StagingSlot {
    bucket: BucketId,
    expects: Move,
    key: Arc<str>,
    total_bytes: u64,
    touched: Instant,
    /// Guards what is written, one piece at a time.
    written: Arc<tokio::sync::Mutex<StagedWrite>>,
}

struct StagedWrite {
    bytes: u64,
    body: StagedContent,
}

enum StagedContent {
    Writing(Box<dyn BodyWriter>),
    Whole(StagedBody),
    /// It was taken, or could not be written.
    Gone,
}

impl StagingSlot {
    fn is_of(&self, bucket: BucketId, expects: &Move, key: &str) -> bool {
        self.bucket == bucket && self.expects == *expects && *self.key == *key // STAGED-1
    }
}

impl StagedBodies {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, StagingSlot>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A whole body for a version of this key.
    pub(super) fn take(
        &self,
        id: u64,
        bucket: BucketId,
        expects: &Move,
        key: &str,
    ) -> Result<StagedBody> {
        let absent = || Error::Conflict { what: format!("no body {id} of `{key}` was staged") };
        let mut all = self.all();
        let slot =
            all.get(&id).filter(|slot| slot.is_of(bucket, expects, key)).ok_or_else(absent)?;
        let written = Arc::clone(&slot.written);
        let Ok(mut written) = written.try_lock() else { return Err(absent()) };
        match std::mem::replace(&mut written.body, StagedContent::Gone) {
            StagedContent::Whole(body) => {
                all.remove(&id);
                Ok(body)
            }
            other => {
                written.body = other;
                Err(absent())
            }
        }
    }

    /// Drops those of a bucket: it is elsewhere on its way.
    pub(super) fn drop_of(&self, bucket: BucketId) {
        self.all().retain(|_, slot| slot.bucket != bucket);
    }

    /// Drops those that nobody asks for.
    pub(super) fn drop_idle(&self) {
        self.all().retain(|_, slot| slot.touched.elapsed() < IDLE_MAX);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all().len()
    }

    fn find(&self, id: u64, bucket: BucketId, piece: &NextPiece) -> Result<StagingSlot> {
        let mut all = self.all();
        let is_wanted = |slot: &&mut StagingSlot| {
            slot.is_of(bucket, &piece.expects, &piece.key) && slot.total_bytes == piece.total_bytes
        };
        let slot = all.get_mut(&id).filter(is_wanted);
        let absent =
            || Error::Conflict { what: format!("no body {id} of `{}` is being staged", piece.key) };
        let slot = slot.ok_or_else(absent)?;
        slot.touched = Instant::now();
        Ok(slot.clone())
    }

    /// Enters a body that is begun. Where there are too many, the one that nobody asked for the longest goes: its batch
    /// was given up.
    fn enter(&self, slot: StagingSlot) -> u64 {
        let mut all = self.all();
        let of_bucket = || all.iter().filter(|(_, other)| other.bucket == slot.bucket);
        if of_bucket().count() >= OF_BUCKET_MAX {
            let oldest = of_bucket().min_by_key(|(_, other)| other.touched).map(|(id, _)| *id);
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let id = u64::from_le_bytes(random()) >> 11; // STAGED-2; exact also where numbers are floating.
        all.insert(id, slot);
        id
    }

    /// A bucket that is where the run expects it to be.
    async fn arriving(store: &dyn ObjectStore, name: &str, expects: &Move) -> Result<BucketId> {
        let bucket = store.bucket(name).await?;
        if bucket.moves.as_ref() == Some(expects) {
            return Ok(bucket.id);
        }
        let (name, moves) = (name.to_owned(), bucket.moves.clone());
        Err(varve_object::Error::MovesOtherwise { name, moves }.into())
    }

    pub(super) async fn begin(
        &self,
        store: &dyn ObjectStore,
        bucket: BucketId,
        piece: &NextPiece,
    ) -> Result<StagingSlot> {
        self.drop_idle();
        let NextPiece { expects, key, total_bytes, .. } = piece;
        let writer = store.stage_arriving(bucket, expects, key, *total_bytes).await?;
        let written = StagedWrite { bytes: 0, body: StagedContent::Writing(writer) };
        Ok(StagingSlot {
            bucket,
            expects: expects.clone(),
            key: key.as_str().into(),
            total_bytes: *total_bytes,
            touched: Instant::now(),
            written: Arc::new(tokio::sync::Mutex::new(written)),
        })
    }

    /// Enters a body that is begun, unless the bucket's step since then dropped those that it found (STAGED-1).
    pub(super) async fn enter_for(
        &self,
        store: &dyn ObjectStore,
        name: &str,
        slot: StagingSlot,
    ) -> Result<u64> {
        let (bucket, expects) = (slot.bucket, slot.expects.clone());
        let id = self.enter(slot);
        match Self::arriving(store, name, &expects).await {
            Ok(now) if now == bucket => Ok(id),
            other => {
                self.all().remove(&id);
                let gone = || varve_object::Error::NoBucket { name: name.to_owned() };
                other.and_then(|_| Err(gone().into()))
            }
        }
    }

    /// Takes the next piece of a body for a bucket that arrives. Not durable before a version has taken the whole body.
    pub(super) async fn stage(
        &self,
        store: &dyn ObjectStore,
        name: &str,
        piece: NextPiece,
    ) -> Result<StagedSoFar> {
        if piece.total_bytes > BYTES_MAX {
            let what = format!("a body of {} bytes is too long", piece.total_bytes);
            return Err(Error::Invalid { what });
        }
        let bucket = Self::arriving(store, name, &piece.expects).await?;
        let (id, slot) = match piece.id {
            Some(id) => (id, self.find(id, bucket, &piece)?),
            None if piece.offset > 0 => {
                return Err(Error::Conflict { what: "a body begins at its first byte".to_owned() });
            }
            None => {
                let slot = self.begin(store, bucket, &piece).await?;
                (self.enter_for(store, name, slot.clone()).await?, slot)
            }
        };
        let mut written = slot.written.lock().await;
        if piece.offset != written.bytes {
            let what = format!("body {id} goes on at {} bytes", written.bytes);
            return Err(Error::Conflict { what });
        }
        if let Err(error) = written.append(&piece.bytes, piece.total_bytes).await {
            self.all().remove(&id);
            return Err(error);
        }
        Ok(StagedSoFar { id, received_bytes: written.bytes })
    }
}

impl StagedWrite {
    /// Writes what comes next. After an error nothing comes of the body.
    async fn append(&mut self, bytes: &Bytes, total_bytes: u64) -> Result<()> {
        let StagedContent::Writing(mut writer) =
            std::mem::replace(&mut self.body, StagedContent::Gone)
        else {
            return Err(Error::Conflict { what: "the body is whole already, or lost".to_owned() });
        };
        let mut rest = bytes.clone();
        while !rest.is_empty() {
            writer.write(rest.split_to(rest.len().min(WRITE_BYTES))).await?;
        }
        self.bytes += bytes.len() as u64;
        self.body = match self.bytes == total_bytes {
            true => StagedContent::Whole(writer.finish().await?),
            false => StagedContent::Writing(writer),
        };
        Ok(())
    }
}
