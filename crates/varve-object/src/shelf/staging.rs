//! Bodies that are written before a record names them: an orphan first, then their blocks (SHELF-1).

use std::sync::Arc;

use varve_engine::BLOCK_BYTES;
use varve_engine::planted::{Bug, planted};
use varve_stdx::{AlignedBuf, BufSlice};

use super::held::Hold;
use super::record::{BodyExtent, StoredBody};
use super::reference::{SharedBytes, StagedReference};
use super::{BucketShard, TransactionPlan, keys, record};
use crate::{Error, Result};

/// A body that is being written. Dropped everywhere, its space comes back: who writes to it keeps it until that has
/// ended.
#[derive(Debug)]
pub struct BodyStaging {
    hold: Hold,
    extent: BodyExtent,
}

/// A body that was written. Dropped, its space comes back.
#[derive(Debug)]
pub struct WrittenBody {
    kept: StagedHold,
    body: StoredBody,
}

/// What a body that was written is kept by.
#[derive(Debug)]
enum StagedHold {
    Blocks(Arc<BodyStaging>),
    Reference(Arc<StagedReference>),
}

impl StagedHold {
    fn hold(&self) -> &Hold {
        match self {
            Self::Blocks(staging) => &staging.hold,
            Self::Reference(staged) => &staged.hold,
        }
    }
}

impl StagedReference {
    /// The reference was added, `depth` deep, and is a body with these bytes.
    #[must_use]
    pub fn finish(self: Arc<Self>, bytes: &SharedBytes, depth: u8) -> WrittenBody {
        let body = self.body(bytes, depth);
        WrittenBody { kept: StagedHold::Reference(self), body }
    }
}

impl BodyStaging {
    /// Most bytes that it takes.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.extent.len
    }

    /// The body is as long as that, and written.
    ///
    /// # Panics
    /// When it is longer than there is room.
    #[must_use]
    pub fn finish(self: Arc<Self>, len: u64) -> WrittenBody {
        assert!(len <= self.extent.len, "written within its room");
        let body = match len {
            0 => StoredBody::None,
            len => StoredBody::Extent(BodyExtent { len, ..self.extent }),
        };
        WrittenBody { kept: StagedHold::Blocks(self), body }
    }
}

impl WrittenBody {
    /// Where it is.
    pub(super) fn body(&self) -> StoredBody {
        self.body.clone()
    }

    /// Its blocks; none if it is empty.
    pub(super) fn extent(&self) -> Option<BodyExtent> {
        match self.body {
            StoredBody::Extent(extent) => Some(extent),
            StoredBody::None
            | StoredBody::Inline(_)
            | StoredBody::Parts { .. }
            | StoredBody::Reference { .. } => None,
        }
    }

    /// It belongs to something now.
    pub(super) fn taken(self) {
        self.kept.hold().taken();
    }
}

impl BucketShard {
    /// Begins a body of at most `room` bytes. Durable on return: whatever happens, its blocks are found.
    ///
    /// # Errors
    /// `NoSpace`, `NoBucket`, `Unavailable`.
    pub async fn stage(&self, room: u64) -> Result<Arc<BodyStaging>> {
        self.check_open()?;
        let extent = self.allocate(room.max(1))?;
        let place = keys::BodyPlace::Extent(extent.first);
        let orphan = (keys::orphan(self.bucket, place), record::encode_orphan(extent.blocks()));
        let puts = if planted(Bug::StagedWithoutOrphan) { Vec::new() } else { vec![orphan] }; // SHELF-1
        let plan = TransactionPlan { puts, takes_space: true, ..TransactionPlan::default() };
        let hold = self.hold_staged(extent.first, extent.blocks());
        let committed = self.carry_out(plan).await?;
        self.shard.settle_transaction(committed).await?;
        Ok(Arc::new(BodyStaging { hold, extent }))
    }

    /// Writes whole blocks of a body that was begun, at `block` of it. Durable on return.
    ///
    /// # Errors
    /// `NoSpace`; `Unavailable`, also when the shard was reopened since it was begun (SHELF-6).
    ///
    /// # Panics
    /// When they are not within its room.
    pub async fn write_staged(
        &self,
        staging: &BodyStaging,
        block: u64,
        data: BufSlice,
    ) -> Result<()> {
        self.check_known(&staging.hold)?;
        let blocks = (data.len() / BLOCK_BYTES) as u64;
        assert!(block + blocks <= staging.extent.blocks(), "within the room of a body");
        let at = (staging.extent.first + block) * BLOCK_BYTES as u64;
        self.shard.set_reduction(self.stream(), self.reduction.get());
        Ok(self.shard.write(self.stream(), at, data).await?)
    }

    /// Stages bytes that are at hand.
    pub(super) async fn stage_bytes(&self, bytes: &[u8]) -> Result<WrittenBody> {
        let staging = self.stage(bytes.len() as u64).await?;
        self.write_staged(&staging, 0, padded(bytes)).await?;
        Ok(staging.finish(bytes.len() as u64))
    }

    /// Refuses what was staged before the shard was reopened.
    pub(super) fn check_staged(&self, staged: &WrittenBody) -> Result<()> {
        self.check_known(staged.kept.hold())
    }

    /// Refuses holds of a shelf before this one (SHELF-6).
    pub(super) fn check_known(&self, hold: &Hold) -> Result<()> {
        if self.knows(hold) {
            return Ok(());
        }
        Err(Error::Unavailable { what: "a body whose shard was reopened".to_owned() })
    }
}

/// Bytes as whole blocks.
pub(super) fn padded(bytes: &[u8]) -> BufSlice {
    let len = bytes.len().next_multiple_of(BLOCK_BYTES);
    let mut blocks = AlignedBuf::scratch(len);
    blocks.set_len(len);
    let (body, rest) = blocks.split_at_mut(bytes.len());
    body.copy_from_slice(bytes);
    rest.fill(0);
    blocks.freeze()
}
