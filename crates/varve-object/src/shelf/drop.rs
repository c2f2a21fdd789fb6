//! Deletes versions of a bucket that nobody changes any more, some at a time.

use super::record::{ObjectRecord, StoredBody};
use super::{BucketShard, TRIMMED_AT_ONCE_MAX, TransactionPlan, keys};
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
        let at_once = (self.shard.transaction_changes_max() - 1) / CHANGES_OF_ONE;
        let found = self.shard.key_range(&range.start, Some(&range.end), at_once).await?;
        let mut names: Vec<String> = Vec::new();
        for (key, _) in &found {
            let (name, _) = keys::decode_version(key)
                .ok_or_else(|| super::record::damaged("the key of a version"))?;
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        let mut locks = Vec::with_capacity(names.len()); // SHELF-3
        for name in &names {
            locks.push(self.locks.lock(name).await);
        }
        let (mut plan, mut blocks) = (TransactionPlan::default(), 0);
        for (key, _) in found {
            let Some(value) = self.shard.key_get(&key).await? else { continue };
            let record = ObjectRecord::decode(&value)?;
            if let StoredBody::Extent(extent) = &record.body {
                blocks += extent.blocks().min(TRIMMED_AT_ONCE_MAX);
            }
            plan.free(&record);
            plan.count(&record, -1);
            plan.deletes.push(key);
            if blocks >= TRIMMED_AT_ONCE_MAX {
                break;
            }
        }
        let dropped = plan.deletes.len();
        if dropped > 0 {
            let committed = self.carry_out(plan).await?;
            self.shard.settle_transaction(committed).await?;
        }
        Ok(dropped)
    }
}
