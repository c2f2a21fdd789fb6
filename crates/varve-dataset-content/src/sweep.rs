//! Frees what orphans name, once nobody holds it and no reference names it. References go back to their homes
//! ([`crate::give_back`]).

use std::rc::{Rc, Weak};
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use varve_engine::planted::{Bug, planted};
use varve_types::Reduction;

use crate::content::{ContentPlace, Reference, SeriesId};
use crate::plan::TransactionPlan;
use crate::shard::{BATCH, ContentOptions, ContentShard};
use crate::{Error, Result, keys, record};

/// Blocks that one trim takes away precisely.
const TRIM_BLOCKS_MAX: u64 = 1 << 18;

/// Pause after a failure that may pass, in ns.
pub(crate) const FAILED_PAUSE_NS: u64 = 1_000_000_000;

/// Gives a reference of a shard back to its home, which is another one. Fails with `Gone` where there is nothing any
/// more to give it back to.
pub type GiveBack = Rc<dyn Fn(Reference) -> LocalBoxFuture<'static, Result<()>>>;

/// Sweeps until the content is gone.
async fn run(content: Weak<ContentShard>, give_back: GiveBack) {
    let Some(released) = content.upgrade().map(|content| Arc::clone(&content.released)) else {
        return;
    };
    released.wake(); // What was found on opening.
    while released.woken().await {
        let Some(content) = content.upgrade() else { return };
        if let Err(error) = content.sweep(&give_back).await {
            if content.shard.has_failed() {
                return; // Another opening goes on (CONTENT-5).
            }
            tracing::warn!(stream = content.stream.get(), %error, "could not free what orphans name");
            content.reactor.sleep(FAILED_PAUSE_NS).await;
            released.wake();
        }
    }
}

impl ContentShard {
    /// Opens the content of a stream on a shard. What orphans name is freed from now on; `give_back` gives references
    /// back to other shards.
    ///
    /// # Errors
    /// `Corrupt` when keys cannot be read, `Unavailable` when the shard closed.
    pub async fn open(
        options: ContentOptions,
        reduction: Reduction,
        give_back: GiveBack,
    ) -> Result<Rc<Self>> {
        let content = Self::open_to_read(options).await?;
        content.set_reduction(reduction);
        content.find_orphans().await?; // CONTENT-5
        content.find_references().await?;
        if content.shard.is_read_only() {
            return Ok(content); // Nothing is freed.
        }
        content.reactor.spawn(run(Rc::downgrade(&content), give_back));
        Ok(content)
    }

    /// Learns of the orphans that were left (CONTENT-5).
    async fn find_orphans(&self) -> Result<()> {
        let range = keys::orphans(self.stream);
        let mut from = range.start;
        loop {
            let found = self.shard.key_range(&from, Some(&range.end), BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &found {
                let place =
                    keys::decode_orphan(key).ok_or_else(|| Error::damaged("key of an orphan"))?;
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
                    let lock = self.lock_place(target).await; // CONTENT-REFERENCE-3
                    if self.is_referenced(target).await? {
                        self.wait_for_references(place);
                        continue;
                    }
                    Some(lock)
                }
            };
            match place {
                ContentPlace::Extent(first) => self.sweep_blocks(first, blocks).await?,
                ContentPlace::Series(series) => self.sweep_series(series).await?,
                ContentPlace::Reference(_) if planted(Bug::ReferenceKept) => {}
                ContentPlace::Reference(reference) if reference.home == self.shard.id() => {
                    self.give_back(self.shard.id(), reference).await?;
                }
                ContentPlace::Reference(reference) => {
                    self.give_away(reference, give_back);
                    continue;
                }
            }
            let mut plan = TransactionPlan::default();
            plan.delete(keys::orphan(self.stream, place));
            // Nobody waits for it: what is undone is done again.
            drop(self.commit(plan).await?);
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
            self.shard.trim(self.stream, range).await?;
            from = until;
        }
        Ok(())
    }

    async fn sweep_series(&self, series: SeriesId) -> Result<()> {
        let at_once = self.members_at_once();
        loop {
            let range = keys::members(self.stream, series);
            let found = self.shard.key_range(&range.start, Some(&range.end), at_once).await?;
            if found.is_empty() {
                return Ok(());
            }
            let mut plan = TransactionPlan::default();
            for (key, value) in found {
                plan.free_record(&(self.read_record)(&value)?);
                plan.delete(key);
            }
            drop(self.commit(plan).await?);
        }
    }

    /// Members of a series that one transaction removes: a key each, and both contents that it may name, beside the
    /// account.
    #[must_use]
    pub fn members_at_once(&self) -> usize {
        (self.shard.transaction_changes_max() - 1) / 3
    }
}
