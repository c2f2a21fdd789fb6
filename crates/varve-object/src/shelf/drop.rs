//! Deletes versions of a bucket that nobody changes any more, some at a time.

use varve_dataset_content::{TRIMMED_AT_ONCE_MAX, TransactionPlan};

use super::record::ObjectRecord;
use super::{BucketShard, keys};
use crate::Result;

/// Changes of a transaction that a version may take: its key, its body and its attributes.
const CHANGES_OF_ONE: usize = 3;

impl BucketShard {
    /// Deletes versions until at least `most` are gone, or all. Returns how many are left; durable on return.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn drop_versions(&self, most: usize) -> Result<u64> {
        let mut dropped = 0;
        while dropped < most {
            match self.drop_some().await? {
                0 => break,
                some => dropped += some,
            }
        }
        Ok(self.versions())
    }

    async fn drop_some(&self) -> Result<usize> {
        let range = keys::versions_from(self.bucket, "");
        let at_once = (self.shard().transaction_changes_max() - 1) / CHANGES_OF_ONE;
        let found = self.shard().key_range(&range.start, Some(&range.end), at_once).await?;
        let mut names: Vec<String> = Vec::new();
        for (key, _) in &found {
            let (name, _) = keys::decode_version(key)
                .ok_or_else(|| super::record::damaged("the key of a version"))?;
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        let mut locks = Vec::with_capacity(names.len()); // SHELF-1
        for name in &names {
            locks.push(self.locks.lock(name).await);
        }
        let (mut plan, mut blocks, mut dropped) = (TransactionPlan::default(), 0, 0);
        for (key, _) in found {
            let Some(value) = self.shard().key_get(&key).await? else { continue };
            let record = ObjectRecord::decode(&value)?;
            blocks += record.body.blocks().min(TRIMMED_AT_ONCE_MAX);
            plan.free_record(&record.content());
            plan.count(record.tally(-1));
            plan.delete(key);
            dropped += 1;
            if blocks >= TRIMMED_AT_ONCE_MAX {
                break;
            }
        }
        if dropped > 0 {
            let committed = self.content.commit(plan).await?;
            self.content.settle(committed).await?;
        }
        Ok(dropped)
    }
}
