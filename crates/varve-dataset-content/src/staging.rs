//! Writes bytes: with the transaction of the record that names them, or before it, an orphan first and then their
//! blocks (CONTENT-1).

use std::sync::Arc;

use varve_engine::BLOCK_BYTES;
use varve_engine::planted::{Bug, planted};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::ByteOffset;

use crate::content::{ContentExtent, StoredContent};
use crate::plan::TransactionPlan;
use crate::shard::ContentShard;
use crate::written::{ContentStaging, WrittenContent};
use crate::{Error, Result, keys, record};

impl ContentShard {
    /// Begins a content of at most `room` bytes. Durable on return: whatever happens, its blocks are found.
    ///
    /// # Errors
    /// `NoSpace`, `Closed`, `Unavailable`.
    pub async fn stage(&self, room: u64) -> Result<Arc<ContentStaging>> {
        self.check_open()?;
        let extent = self.allocate(room.max(1))?;
        let mut plan = TransactionPlan::taking_space();
        if !planted(Bug::StagedWithoutOrphan) {
            let orphan = keys::orphan(self.stream, extent.place());
            plan.put(orphan, record::encode_orphan(extent.blocks())); // CONTENT-1
        }
        let hold = self.hold_staged(extent.first(), extent.blocks());
        let committed = self.commit(plan).await?;
        self.settle(committed).await?;
        Ok(Arc::new(ContentStaging { hold, extent }))
    }

    /// Writes whole blocks of a content that was begun, at `block` of it. Durable on return.
    ///
    /// # Errors
    /// `NoSpace`; `Unavailable`, also when the shard was reopened since it was begun (CONTENT-5).
    ///
    /// # Panics
    /// When they are not within its room.
    pub async fn write_staged(
        &self,
        staging: &ContentStaging,
        block: u64,
        data: BufSlice,
    ) -> Result<()> {
        self.check_known(&staging.hold)?;
        let blocks = (data.len() / BLOCK_BYTES) as u64;
        assert!(block + blocks <= staging.extent.blocks(), "within the room of a content");
        let at = ByteOffset((staging.extent.first() + block) * BLOCK_BYTES as u64);
        self.apply_reduction();
        Ok(self.shard.write(self.stream, at, data).await?)
    }

    /// Stages bytes that are at hand.
    async fn stage_bytes(&self, bytes: &[u8]) -> Result<WrittenContent> {
        let staging = self.stage(bytes.len() as u64).await?;
        self.write_staged(&staging, 0, padded(bytes)).await?;
        Ok(staging.finish(bytes.len() as u64))
    }

    /// Refuses what was staged before the shard was reopened.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn check_written(&self, written: &WrittenContent) -> Result<()> {
        self.check_known(written.hold())
    }

    /// Puts bytes into blocks: with the transaction as long as it has room for them, else before it.
    ///
    /// # Errors
    /// `NoSpace`, `Closed`, `Unavailable`.
    pub async fn store_bytes(
        &self,
        bytes: &[u8],
        plan: &mut TransactionPlan,
    ) -> Result<ContentExtent> {
        let data = padded(bytes);
        if plan.room().data_bytes + data.len() <= self.shard.transaction_bytes_max() {
            let extent = self.allocate(bytes.len() as u64)?;
            plan.writes.push((extent, data));
            return Ok(extent);
        }
        let written = self.stage_bytes(bytes).await?;
        let StoredContent::Extent(extent) = *written.content() else {
            return Err(Error::State { reason: "nothing is stored in blocks" });
        };
        plan.deletes.push(keys::orphan(self.stream, extent.place()));
        plan.taken.push(written);
        Ok(extent)
    }

    /// Lets the transaction take what was staged; returns it for the record that is going to name it.
    ///
    /// # Errors
    /// `Unavailable`.
    pub async fn take_written(
        &self,
        written: WrittenContent,
        plan: &mut TransactionPlan,
    ) -> Result<StoredContent> {
        let content = written.content().clone();
        let Some(place) = content.place() else {
            return Ok(StoredContent::None); // Its orphan is swept: nothing takes it.
        };
        if planted(Bug::OrphanTakenEarly) {
            let mut early = TransactionPlan::default();
            early.delete(keys::orphan(self.stream, place));
            drop(self.commit(early).await?);
        }
        plan.deletes.push(keys::orphan(self.stream, place));
        plan.taken.push(written);
        Ok(content)
    }
}

/// Bytes as whole blocks.
fn padded(bytes: &[u8]) -> BufSlice {
    let len = bytes.len().next_multiple_of(BLOCK_BYTES);
    let mut blocks = AlignedBuf::scratch(len);
    blocks.set_len(len);
    let (data, rest) = blocks.split_at_mut(bytes.len());
    data.copy_from_slice(bytes);
    rest.fill(0);
    blocks.freeze()
}
