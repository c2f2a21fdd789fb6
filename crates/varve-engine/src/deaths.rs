//! Deaths that wait: chunks that were overwritten and are still in the chunk table.
//!
//! Overwritten blocks held chunks from all over the table, and taking each out at once costs a visit to a leaf a block.
//! Applying only notes them here; a **fold** takes many of them out in the order of their ids, those of one leaf in one
//! visit. A checkpoint saves those that wait on, so that they may wait for many checkpoints.
//!
//! ```text
//!  block overwritten ──note──▶ fresh ──checkpoint──▶ saved
//!                                └───────fold──────────┴──▶ out of the table and the accounts, or kept, if shared
//! ```
//!
//! DEATHS-1. A chunk enters the set when no reference to it is on its way (DEDUP-2), and is granted no more while it is
//!     in it, unless the table calls it shared. So an unshared chunk in the set is dead; of a shared one the set says
//!     nothing: only mark frees it (DEDUP-3).
//! DEATHS-2. A chunk leaves the set in the step in which it leaves the table, or in which the table calls it shared. So
//!     every chunk of the set is in the table, and a root that says otherwise is damaged.
//! DEATHS-3. The set changes under the tree gate, or in recovery. A checkpoint saves it with the tables that it stores;
//!     replay notes what died since: that is what is fresh.
//! DEATHS-4. Until they are folded, the dead count as live. Nobody is refused for that, and no zone is leased: whoever
//!     is short has them folded first.
//! DEATHS-5. Its memory is bounded: a set that is full makes a checkpoint due, which folds.
//! DEATHS-6. Whatever is reused because of a fold, recovery finds dead: it does the same fold again, or the fold is
//!     durable. What is dead in its victims **reclaim** folds when the segment that says so is durable. All in
//!     a **range** of ids is folded at any time, and what that empties waits for the next segment of reclaim, which
//!     tells the range. What a **checkpoint** folds waits for its root. And where many are fresh side by side, in
//!     a **dense** window, they are folded at any time: replay notes them again, so that the window is as dense at its
//!     end.

mod state;

use std::ops::Range;

use varve_logstore::format::chunk::ChunkEntry;
use varve_types::ChunkId;

use crate::deaths::state::{BATCH, misleading};
use crate::pages::PLACES_AT_ONCE;
use crate::reserves::RECLAIM_RESERVE;
use crate::tree::PageCache;
use crate::trees::{PAGE_ID_FIRST, PurgeOutcome, Stop, Trees};
use crate::{Error, Result, Shard};

pub(crate) use state::{DeadChunks, PurgeRounds, ReuseRule};

/// Leaves visited before other tasks get a turn: some 50 µs of work.
const LEAVES_PER_TURN: usize = 64;

/// How much of the set is folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PurgeExtent {
    All,
    /// So much that the rest misleads nobody for a while.
    Enough,
}

impl Shard {
    /// Notes a chunk that a block no longer holds. The caller holds the tree gate, or is recovery.
    pub(crate) fn note_death(&self, chunk: ChunkId) {
        assert!(self.trees_are_held(), "the set changes under the gate"); // DEATHS-3
        let mean_bytes = {
            let trees = &mut *self.trees.borrow_mut();
            trees.deaths.count_overwritten(chunk);
            if !self.reduce.dedup.borrow().is_granted(chunk) {
                trees.deaths.insert(chunk);
                return;
            }
            trees.data.mean_bytes()
        };
        // DEDUP-2: the reference will mark it as shared, so that no fold counts it.
        self.note_kept(u64::from(mean_bytes));
    }

    /// Has folded what waits, as much as there is room for. Never called by who holds the tree gate, or by reclaim.
    pub(crate) async fn fold_deaths(&self) -> Result<()> {
        if !self.may_hide_dead() {
            return Ok(());
        }
        self.want_sweep();
        // Not in this task, which may end before its time.
        let round = self.ask_for_folds();
        self.reclaim.request();
        self.allocation.note_change(); // Reclaim may wait for a segment: then a checkpoint folds.
        self.wait_for_folds(round).await
    }

    /// As [`Self::fold_deaths`], for reclaim: at once, or by a checkpoint when too much is dirty for that.
    pub(crate) async fn fold_round(&self, extent: PurgeExtent) -> Result<()> {
        if self.has_room_to_fold() && !self.sweep_is_wanted() {
            let asked = self.reclaim.purge_rounds.asked.get();
            self.fold_ranges(extent).await?;
            self.note_purged(asked);
            return Ok(());
        }
        self.finish_reclaim().await?; // The checkpoint may wait for what this gives.
        let round = self.ask_for_folds();
        self.wake_checkpoint_now();
        self.wait_for_folds(round).await
    }

    fn ask_for_folds(&self) -> u64 {
        let round = self.reclaim.purge_rounds.asked.get() + 1;
        assert!(
            round > self.reclaim.purge_rounds.served.get(),
            "rounds are served after they are asked for"
        );
        self.reclaim.purge_rounds.asked.set(round);
        round
    }

    /// Whether somebody waits for folds.
    pub(crate) fn folds_are_asked(&self) -> bool {
        self.reclaim.purge_rounds.asked.get() > self.reclaim.purge_rounds.served.get()
    }

    async fn wait_for_folds(&self, round: u64) -> Result<()> {
        assert!(round <= self.reclaim.purge_rounds.asked.get(), "somebody asked for it");
        while self.reclaim.purge_rounds.served.get() < round {
            self.check_running()?;
            if self.lifecycle.is_stopped() {
                return Err(Error::Closed);
            }
            self.reclaim.purge_rounds.changed.notified().await;
        }
        Ok(())
    }

    /// Has everything folded that waits now.
    pub(crate) async fn fold_waiting(&self) -> Result<()> {
        self.sweep_waiting().await?;
        let left = |shard: &Self| shard.trees.borrow().deaths.left;
        let last = left(self) + self.trees.borrow().deaths.len() as u64;
        while left(self) < last && self.has_deaths() {
            self.fold_deaths().await?;
        }
        Ok(())
    }

    /// Folds dense windows (DEATHS-6). The caller holds the tree gate, or is recovery.
    pub(crate) async fn fold_dense(&self) -> Result<()> {
        assert!(self.trees_are_held(), "the set changes under the gate"); // DEATHS-3
        let ids = self.trees.borrow_mut().deaths.take_dense();
        self.fold_again(&ids).await?;
        self.settle_freed();
        Ok(())
    }

    /// Folds from the cursor on, once round the ids at most, and has the next segment of reclaim tell it (DEATHS-6).
    async fn fold_ranges(&self, extent: PurgeExtent) -> Result<()> {
        let number = self.reclaim.purge_rounds.ranges.get() + 1;
        let gate = self.apply.tree_gate.take(1).await;
        let begin = self.trees.borrow().deaths.cursor;
        let mut told = Vec::new();
        for range in [begin..PAGE_ID_FIRST, 0..begin] {
            let end = self.fold_in(range.clone(), extent, ReuseRule::Range(number)).await?;
            told.push(range.start..end);
            if end < range.end {
                break;
            }
        }
        // In one step with the last fold: what was folded is told by no segment that is sealed before.
        assert!(self.reclaim.purge_rounds.ranges.get() < number, "ranges are folded one by one"); // DEATHS-6
        self.reclaim.purge_rounds.ranges.set(number);
        drop(gate);
        self.tell_ranges(told).await
    }

    /// Folds what is in a range of ids, as far as there is room and the extent demands; returns the end of what was
    /// folded.
    async fn fold_in(
        &self,
        range: Range<u64>,
        extent: PurgeExtent,
        folding: ReuseRule,
    ) -> Result<u64> {
        let mut at = range.start;
        loop {
            let ids: Vec<_> = {
                let trees = self.trees.borrow();
                let keep = match extent {
                    PurgeExtent::All => 0,
                    PurgeExtent::Enough => misleading(trees.data.chunks) / 8 * 7,
                };
                if trees.deaths.len() <= keep {
                    return Ok(at);
                }
                let ids = trees.deaths.ids_from(at).take_while(|id| id.get() < range.end);
                ids.take(BATCH).collect()
            };
            if ids.is_empty() {
                self.trees.borrow_mut().deaths.cursor = range.end % PAGE_ID_FIRST;
                return Ok(range.end);
            }
            let count = self.fold_some(&ids, folding).await?;
            assert!(count > 0 && count <= ids.len(), "a fold goes on");
            at = ids[count - 1].get() + 1;
            assert!(at <= range.end, "it stays in its range"); // DEATHS-6
            self.trees.borrow_mut().deaths.cursor = at;
            if !self.has_room_to_fold() {
                return Ok(at);
            }
        }
    }

    /// Folds a range that a segment of reclaim tells. The caller is recovery.
    pub(crate) async fn fold_range(&self, range: Range<u64>) -> Result<()> {
        assert!(self.admission.lane().is_none(), "recovery folds what was folded"); // RECOVERY-6
        let mut at = range.start;
        loop {
            let ids: Vec<_> = {
                let deaths = &self.trees.borrow().deaths;
                let ids = deaths.ids_from(at).take_while(|id| id.get() < range.end);
                ids.take(BATCH).collect()
            };
            let Some(last) = ids.last() else { return Ok(()) };
            at = last.get() + 1;
            self.fold_again(&ids).await?;
        }
    }

    /// Folds what a durable segment of reclaim calls dead (DEATHS-6). The caller holds the tree gate, or is recovery.
    pub(crate) async fn fold_freed(&self, mut ids: Vec<ChunkId>) -> Result<()> {
        assert!(self.trees_are_held(), "the set changes under the gate"); // DEATHS-3
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|chunk| self.trees.borrow().deaths.contains(*chunk)); // A checkpoint may have been first.
        self.fold_again(&ids).await
    }

    /// What a checkpoint folds, whose pages of maps and keys are written: what reclaim left to it, what is cheap, and
    /// what is too much or was asked for, as far as the cache and free segments allow. Returns the rounds that it
    /// serves.
    pub(crate) async fn fold_at_checkpoint(&self) -> Result<u64> {
        assert!(self.apply.is_gated(), "nothing is applied meanwhile"); // CHECKPOINT-1
        let asked = self.reclaim.purge_rounds.asked.get();
        let all = asked > self.reclaim.purge_rounds.served.get();
        let mut first = self.reclaim.take_left();
        {
            let deaths = &mut self.trees.borrow_mut().deaths;
            first.extend(deaths.take_dense());
            first.retain(|chunk| deaths.contains(*chunk));
        }
        first.sort_unstable();
        first.dedup();
        self.fold_some(&first, ReuseRule::Checkpoint).await?;
        loop {
            let ids = {
                let deaths = &self.trees.borrow().deaths;
                if deaths.is_empty() || deaths.is_small() && !all {
                    break;
                }
                deaths.next()
            };
            let folded = self.fold_some(&ids, ReuseRule::Checkpoint).await?;
            assert!(folded > 0 && folded <= ids.len(), "a fold goes on");
            self.trees.borrow_mut().deaths.cursor = ids[folded - 1].get() + 1;
            if folded < ids.len() {
                break;
            }
        }
        Ok(asked)
    }

    /// Rounds up to this one are served.
    pub(crate) fn note_purged(&self, round: u64) {
        assert!(round <= self.reclaim.purge_rounds.asked.get(), "somebody asked for it");
        self.reclaim.purge_rounds.served.set(round);
        self.reclaim.purge_rounds.changed.notify_all();
    }

    /// Folds these, in the order of their ids, one leaf at least and then as many as there is room for; returns how
    /// many chunks.
    async fn fold_some(&self, ids: &[ChunkId], folding: ReuseRule) -> Result<usize> {
        let mut count = 0;
        while count < ids.len() && (count == 0 || self.has_room_to_fold()) {
            count += self.fold_leaf(&ids[count..], folding).await?;
        }
        assert!(count <= ids.len(), "no more are folded than were asked for");
        Ok(count)
    }

    /// Whether more pages of the table may be changed: they fit into the cache, and a checkpoint has segments for them.
    pub(crate) fn has_room_to_fold(&self) -> bool {
        let dirty = self.dirty_bytes();
        let dirty_max = self.dirty_limit();
        let dirty_max = dirty_max.max(PageCache::CLEAN_PAGES_MIN * PageCache::BYTES_PER_PAGE);
        let free = self.space.borrow().free_count();
        dirty < dirty_max && free > self.segments_for(self.checkpoint_bytes()) + RECLAIM_RESERVE
    }

    /// Takes these chunks, in the order of their ids, out of the table, as recovery would. The caller holds the tree
    /// gate, or is recovery.
    async fn fold_again(&self, ids: &[ChunkId]) -> Result<()> {
        let replay_freed_more = self.trees.borrow().deltas.replay_freed_more();
        let folding = if replay_freed_more { ReuseRule::Checkpoint } else { ReuseRule::Again };
        let mut rest = ids;
        while !rest.is_empty() {
            let folded = self.fold_leaf(rest, folding).await?;
            assert!(folded > 0, "a fold goes on");
            rest = &rest[folded..];
        }
        Ok(())
    }

    /// Takes those of `ids` that belong to the leaf of the first one out of the table; returns how many.
    async fn fold_leaf(&self, ids: &[ChunkId], folding: ReuseRule) -> Result<usize> {
        let on_gone = |chunk| self.forget(chunk);
        let fold = |trees: &mut Trees| {
            trees.fold_leaf(&mut self.space.borrow_mut(), ids, folding, on_gone)
        };
        let folded = fold(&mut self.trees.borrow_mut());
        let folded = match folded {
            Ok(folded) => folded,
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Fault(_)) => {
                // The leaves of those that come next are most likely absent too.
                self.prefetch_places(ids.iter().copied().take(PLACES_AT_ONCE)).await;
                self.with_pages(fold).await?
            }
        };
        let PurgeOutcome { count, kept_bytes } = folded;
        if kept_bytes > 0 {
            self.note_kept(u64::from(kept_bytes));
        }
        let leaves = self.counters.add_folded_leaf(count);
        if leaves.is_multiple_of(LEAVES_PER_TURN as u64) {
            self.reactor.yield_now().await;
        }
        Ok(count)
    }

    /// Whether a chunk with this entry in the table is dead (DEATHS-1).
    pub(crate) fn is_dead(&self, chunk: ChunkId, entry: &ChunkEntry) -> bool {
        !entry.shared && self.trees.borrow().deaths.contains(chunk)
    }

    /// Bytes of pages that are changed.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.trees.borrow().cache.stats().dirty_bytes
    }

    /// What a checkpoint that begins now has to write: pages that are changed, the set, and updates that wait.
    pub(crate) fn checkpoint_bytes(&self) -> usize {
        let trees = self.trees.borrow();
        let stored = trees.deaths.stored_bytes() + trees.deltas.stored_bytes();
        trees.cache.stats().dirty_bytes + stored
    }

    /// Whether a sweep or a fold may make room.
    pub(crate) fn may_hide_dead(&self) -> bool {
        self.has_deaths() || self.has_deltas()
    }

    /// Whether a fold may make room.
    pub(crate) fn has_deaths(&self) -> bool {
        !self.trees.borrow().deaths.is_empty()
    }

    /// Whether the set takes all memory that it may.
    pub(crate) fn deaths_are_full(&self) -> bool {
        self.trees.borrow().deaths.is_full()
    }

    /// Whether there are dense windows.
    pub(crate) fn has_dense_deaths(&self) -> bool {
        !self.trees.borrow().deaths.dense.is_empty()
    }

    /// Whether so many deaths wait that reclaim would not find the emptiest segments.
    pub(crate) fn deaths_mislead(&self) -> bool {
        let trees = self.trees.borrow();
        trees.deaths.would_mislead(trees.data.chunks)
    }
}
