//! Frees what orphans name, once nobody holds it and no reference names it. References go back to their homes
//! ([`super::giving`]).

use std::rc::{Rc, Weak};
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use varve_engine::planted::{Bug, planted};

use super::keys::BodyPlace;
use super::record::{ObjectRecord, damaged};
use super::reference::Reference;
use super::{BucketShard, TransactionPlan, keys, record};
use crate::{Result, UploadId};

/// Blocks that one trim takes away precisely.
const TRIM_BLOCKS_MAX: u64 = 1 << 18;

/// Pause after a failure that may pass, in ns.
pub(super) const FAILED_PAUSE_NS: u64 = 1_000_000_000;

/// Gives a reference of a shelf back to the shelf of its home, which is another one.
pub type GiveBack = Rc<dyn Fn(Reference) -> LocalBoxFuture<'static, Result<()>>>;

/// Sweeps until the shelf is gone.
pub(super) async fn run(shelf: Weak<BucketShard>, give_back: GiveBack) {
    let Some(released) = shelf.upgrade().map(|shelf| Arc::clone(&shelf.released)) else { return };
    released.wake(); // What was found on opening.
    while released.woken().await {
        let Some(shelf) = shelf.upgrade() else { return };
        if let Err(error) = shelf.sweep(&give_back).await {
            if shelf.shard.has_failed() {
                return; // Another shelf goes on (SHELF-6).
            }
            tracing::warn!(bucket = shelf.bucket.0, %error, "could not free what orphans name");
            shelf.reactor.sleep(FAILED_PAUSE_NS).await;
            released.wake();
        }
    }
}

impl BucketShard {
    /// Learns of the orphans that were left (SHELF-6).
    pub(super) async fn find_orphans(&self) -> Result<()> {
        let range = keys::orphans(self.bucket);
        let mut from = range.start;
        loop {
            let found = self.shard.key_range(&from, Some(&range.end), super::BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &found {
                let place = keys::decode_orphan(key).ok_or_else(|| damaged("key of an orphan"))?;
                self.orphans.borrow_mut().insert(place, record::decode_orphan(value)?);
            }
        }
    }

    /// Frees what nobody holds, and no reference names.
    async fn sweep(self: &Rc<Self>, give_back: &GiveBack) -> Result<()> {
        loop {
            self.settle_released();
            let next = {
                let (holds, orphans) = (self.holds.borrow(), self.orphans.borrow());
                let free = orphans.iter().find(|(place, _)| !holds.contains_key(*place));
                free.map(|(place, blocks)| (*place, *blocks))
            };
            let Some((place, blocks)) = next else { return Ok(()) };
            let _lock = match place.target() {
                None => None,
                Some(target) => {
                    let lock = self.lock_place(target).await; // SHELF-REFERENCE-3
                    if self.is_referenced(target).await? {
                        self.wait_for_references(place);
                        continue;
                    }
                    Some(lock)
                }
            };
            match place {
                BodyPlace::Extent(first) => self.sweep_blocks(first, blocks).await?,
                BodyPlace::Parts(upload) => self.sweep_parts(upload).await?,
                BodyPlace::Reference(_) if planted(Bug::ReferenceKept) => {}
                BodyPlace::Reference(reference) if reference.home == self.shard.id() => {
                    self.give_back(self.shard.id(), reference).await?;
                }
                BodyPlace::Reference(reference) => {
                    self.give_away(reference, give_back);
                    continue;
                }
            }
            let plan = TransactionPlan {
                deletes: vec![keys::orphan(self.bucket, place)],
                ..TransactionPlan::default()
            };
            // Nobody waits for it: what is undone is done again.
            drop(self.carry_out(plan).await?);
            self.orphans.borrow_mut().remove(&place);
        }
    }

    async fn sweep_blocks(&self, first: u64, blocks: u64) -> Result<()> {
        let end = first + blocks;
        let mut from = first;
        while from < end {
            let until = end.min(from + TRIM_BLOCKS_MAX);
            let range = varve_types::ByteRange {
                start: from * varve_engine::BLOCK_BYTES as u64,
                end: until * varve_engine::BLOCK_BYTES as u64,
            };
            self.shard.trim(self.stream(), range).await?;
            from = until;
        }
        Ok(())
    }

    async fn sweep_parts(&self, upload: UploadId) -> Result<()> {
        let at_once = self.parts_at_once();
        loop {
            let range = keys::parts(self.bucket, upload);
            let found = self.shard.key_range(&range.start, Some(&range.end), at_once).await?;
            if found.is_empty() {
                return Ok(());
            }
            let mut plan = TransactionPlan::default();
            for (key, value) in found {
                plan.free(&ObjectRecord::decode(&value)?);
                plan.deletes.push(key);
            }
            drop(self.carry_out(plan).await?);
        }
    }

    /// Parts that one transaction removes: a key each, a body and attributes, beside the account.
    pub(super) fn parts_at_once(&self) -> usize {
        (self.shard.transaction_changes_max() - 1) / 3
    }
}
