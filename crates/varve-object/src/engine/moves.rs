//! Steps of buckets on their way between two pools (OBJECT-ENGINE-4), and the deletion of those that left.

use std::sync::Arc;

use varve_dataset::Move;

use super::EngineStore;
use super::bucket_record::BucketRecord;
use super::buckets::{BucketEntry, bucket_key, decode, replaced};
use super::gate::ChangeBarrier;
use crate::moving::check_left;
use crate::{Bucket, ChangeKey, Error, MoveStep, Patience, Result};

impl EngineStore {
    /// The same, where it is on its way as far as its gate knows: nobody is told of a state that does not hold yet.
    pub(super) async fn stored_and_held(&self, name: &str) -> Result<Arc<Bucket>> {
        let stored = self.stored(name).await?;
        let moves = self.buckets.get(stored.id)?.gate.moves();
        match moves == stored.moves {
            true => Ok(stored),
            false => Ok(Arc::new(Bucket { moves, ..Bucket::clone(&stored) })),
        }
    }

    /// A bucket as its record says it is.
    pub(super) async fn stored(&self, name: &str) -> Result<Arc<Bucket>> {
        self.named(name)?;
        let gone = || Error::NoBucket { name: name.to_owned() };
        let version = self.own(&bucket_key(name)).await?.ok_or_else(gone)?;
        let bucket = Arc::new(decode(name, &version)?);
        let BucketEntry { gate, .. } = self.buckets.get(bucket.id)?;
        if gate.moves() == bucket.moves {
            self.buckets.renew(&bucket);
        }
        Ok(bucket)
    }

    pub(super) async fn step(
        &self,
        name: &str,
        step: MoveStep,
        mut patience: Patience,
    ) -> Result<Arc<Bucket>> {
        step.check(name)?;
        let (BucketEntry { gate, .. }, _one) = self.held(name).await?;
        let stored = self.stored(name).await?;
        let is_known = stored.moves == gate.moves();
        let checked = step.check_at(&stored);
        if is_known && checked.is_err() {
            return checked.map(|()| stored);
        }
        // What the record says and the gate does not know was lost with an answer: the gate is closed before it is
        // taken for true.
        let _closed = match step.waits() || !is_known {
            true => Some(gate.close(name, &mut patience).await?),
            false => None,
        };
        if !is_known {
            self.learn(&gate, &stored);
            checked?;
        }
        let stepped = self.step_held(name, step).await;
        let now = match &stepped {
            Ok(bucket) => Some(Arc::clone(bucket)),
            // It may have been taken all the same. When that cannot be told, the gate stays as it was, and the next
            // step tells.
            Err(_) => self.stored(name).await.ok(),
        };
        if let Some(now) = now {
            self.learn(&gate, &now);
        }
        stepped
    }

    fn learn(&self, gate: &ChangeBarrier, bucket: &Arc<Bucket>) {
        self.buckets.renew(bucket);
        gate.set(bucket.moves.clone());
    }

    async fn step_held(&self, name: &str, step: MoveStep) -> Result<Arc<Bucket>> {
        let of = name.to_owned();
        let change: ChangeKey = Box::new(move |view| {
            let Some(version) = &view.newest else { return Err(Error::NoBucket { name: of }) };
            let bucket = decode(&of, version)?;
            step.check_at(&bucket)?;
            Ok(replaced(
                view,
                Some(BucketRecord { moves: step.after, ..BucketRecord::of(bucket) }.encode()),
            ))
        });
        let changed = self.change_own(bucket_key(name), change).await?;
        let version = changed.put.ok_or(Error::State { reason: "a bucket has a record" })?;
        Ok(Arc::new(decode(name, &version)?))
    }

    /// Deletes some versions of a bucket that left, and the bucket when none is left.
    pub(super) async fn drop_left(
        &self,
        name: &str,
        expects: &Move,
        versions_max: usize,
    ) -> Result<u64> {
        check_left(name, expects)?;
        let (BucketEntry { bucket, gate, .. }, _one) = self.held(name).await?;
        let stored = self.stored(name).await?;
        if stored.id != bucket.id || stored.moves.as_ref() != Some(expects) {
            return Err(Error::MovesOtherwise {
                name: name.to_owned(),
                moves: stored.moves.clone(),
            });
        }
        self.learn(&gate, &stored); // Nobody reads it from now on, also where the answer of the step was lost.
        let dropped = self.on_all(bucket.id, move |shelf| {
            Box::pin(async move { shelf.drop_versions(versions_max).await })
        });
        let left = dropped.await?.into_iter().sum();
        if left == 0 {
            self.remove_empty(&bucket, Some(expects)).await?;
        }
        Ok(left)
    }
}
