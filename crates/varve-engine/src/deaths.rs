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

use std::cell::Cell;
use std::ops::Range;

use roaring::RoaringTreemap;
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::planted::{Bug, planted};
use varve_reactor::Notify;
use varve_types::ChunkId;

use crate::hash::HashMap;
use crate::pages::PLACES_AT_ONCE;
use crate::reserves::RECLAIM_RESERVE;
use crate::tree::PageCache;
use crate::trees::{PAGE_ID_FIRST, PurgeOutcome, Stop, Trees};
use crate::{Error, Result, Shard};

/// Memory of an id: two bytes, and what growing leaves empty.
const ID_BYTES: usize = 3;

/// Ids that stand in one leaf of the table before any of them dies, about.
const WINDOW_IDS: u64 = 128;

/// Memory of a window's count.
const WINDOW_BYTES: usize = 24;

/// Fresh deaths that make a window dense: one visit to a leaf or two for as many.
const DENSE: u32 = 32;

/// Reclaim has deaths folded that are one chunk of data in so many, as each misleads it: about eight die in one visit
/// to a leaf then.
const MISLEADING_PART: u64 = 16;

/// So few mislead nobody.
const MISLEADING_MIN: usize = 256;

/// Ids that are looked up in the set at once.
const BATCH: usize = 1024;

/// Leaves visited before other tasks get a turn: some 50 µs of work.
const LEAVES_PER_TURN: usize = 64;

/// Chunks that were overwritten.
pub(crate) struct DeadChunks {
    /// Those that the last root names.
    saved: RoaringTreemap,
    /// Those that were noted since.
    fresh: RoaringTreemap,
    /// Those of the saved ones that the coming root is the first to name (DELTAS-3).
    swept: RoaringTreemap,
    count: usize,
    /// How many chunks were overwritten since the last root, by window.
    windows: HashMap<u64, u32>,
    /// Windows that became dense.
    dense: Vec<u64>,
    /// Where ranges and checkpoints go on.
    cursor: u64,
    bytes_max: usize,
    /// How many have left the set.
    left: u64,
}

/// What becomes of what a fold empties (DEATHS-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReuseRule {
    /// It may be reused at once: recovery does the same fold.
    Again,
    /// It waits until the range of this number is told.
    Range(u64),
    /// It waits for the root of the checkpoint that folds.
    Checkpoint,
}

/// How much of the set is folded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PurgeExtent {
    All,
    /// So much that the rest misleads nobody for a while.
    Enough,
}

/// Who waits for a fold.
#[derive(Default)]
pub(crate) struct PurgeRounds {
    asked: Cell<u64>,
    served: Cell<u64>,
    pub(crate) changed: Notify,
    /// Ranges that were folded so far.
    pub(crate) ranges: Cell<u64>,
}

impl DeadChunks {
    /// An empty set that takes about `bytes_max` of memory before it is full.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            saved: RoaringTreemap::new(),
            fresh: RoaringTreemap::new(),
            swept: RoaringTreemap::new(),
            count: 0,
            windows: HashMap::default(),
            dense: Vec::new(),
            cursor: 0,
            bytes_max,
            left: 0,
        }
    }

    /// A chunk was overwritten, whatever becomes of it: replay counts the same (DEATHS-6).
    fn count_overwritten(&mut self, chunk: ChunkId) {
        let window = chunk.get() / WINDOW_IDS;
        let count = self.windows.entry(window).or_default();
        *count += 1;
        if count.is_multiple_of(DENSE) {
            self.dense.push(window);
        }
    }

    fn insert(&mut self, chunk: ChunkId) {
        let is_new = !self.saved.contains(chunk.get()) && self.fresh.insert(chunk.get());
        self.count += usize::from(is_new);
    }

    /// Adds what a checkpoint found dead in the pages that it swept: its root is the first to name it.
    pub(crate) fn note_swept(&mut self, chunk: ChunkId) {
        if !self.fresh.contains(chunk.get()) && self.saved.insert(chunk.get()) {
            self.swept.insert(chunk.get());
            self.count += 1;
        }
    }

    /// Adds what a root names; false when it is there already.
    pub(crate) fn restore(&mut self, chunk: ChunkId) -> bool {
        let is_new = self.saved.insert(chunk.get());
        self.count += usize::from(is_new);
        is_new
    }

    /// A root that names all of them is durable.
    pub(crate) fn saved(&mut self) {
        self.saved |= std::mem::take(&mut self.fresh);
        self.swept.clear();
        self.windows.clear();
        self.dense.clear();
    }

    pub(crate) fn contains(&self, chunk: ChunkId) -> bool {
        let id = chunk.get();
        self.count > 0 && (self.fresh.contains(id) || self.saved.contains(id))
    }

    /// Whether a chunk is in the set for all that recovery would find, if the machine stopped now (DELTAS-3).
    pub(crate) fn contains_for_sure(&self, chunk: ChunkId) -> bool {
        let swept = self.swept.contains(chunk.get()) && !planted(Bug::SweptActedUponEarly);
        self.contains(chunk) && !swept
    }

    pub(crate) fn remove(&mut self, chunk: ChunkId) {
        let id = chunk.get();
        if self.count > 0 && (self.fresh.remove(id) || self.saved.remove(id)) {
            self.count -= 1;
            self.left += 1;
        }
    }

    /// Ids from `from` on, in order.
    pub(crate) fn ids_from(&self, from: u64) -> impl Iterator<Item = ChunkId> {
        let (mut saved, mut fresh) = (self.saved.iter(), self.fresh.iter());
        saved.advance_to(from);
        fresh.advance_to(from);
        let (mut saved, mut fresh) = (saved.peekable(), fresh.peekable());
        std::iter::from_fn(move || match (saved.peek(), fresh.peek()) {
            (Some(old), Some(new)) if new < old => fresh.next(),
            (None, _) => fresh.next(),
            _ => saved.next(),
        })
        .map(ChunkId::new)
    }

    /// The next ids to fold, in order; all of them have their turn before one comes again.
    fn next(&self) -> Vec<ChunkId> {
        let next: Vec<_> = self.ids_from(self.cursor).take(BATCH).collect();
        if next.is_empty() { self.ids_from(0).take(BATCH).collect() } else { next }
    }

    /// Fresh ids of dense windows, in order; those are dense no more.
    fn take_dense(&mut self) -> Vec<ChunkId> {
        let mut windows = std::mem::take(&mut self.dense);
        windows.sort_unstable();
        windows.dedup();
        let mut ids = Vec::new();
        for first in windows.into_iter().map(|window| window * WINDOW_IDS) {
            let mut fresh = self.fresh.iter();
            fresh.advance_to(first);
            ids.extend(fresh.take_while(|id| *id < first + WINDOW_IDS).map(ChunkId::new));
        }
        ids
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.count * ID_BYTES + self.windows.len() * WINDOW_BYTES
    }

    /// Bytes that saving it takes.
    fn stored_bytes(&self) -> usize {
        self.count * ID_BYTES
    }

    fn is_full(&self) -> bool {
        self.bytes() > self.bytes_max // DEATHS-5
    }

    /// Whether a checkpoint leaves it as it is.
    fn is_small(&self) -> bool {
        self.stored_bytes() <= self.bytes_max / 8 * 7
    }

    /// Whether reclaim should have them folded before it picks a victim among `data_chunks`.
    fn would_mislead(&self, data_chunks: u64) -> bool {
        self.count > misleading(data_chunks)
    }
}

/// As many deaths mislead reclaim.
fn misleading(data_chunks: u64) -> usize {
    let part = usize::try_from(data_chunks / MISLEADING_PART).unwrap_or(usize::MAX);
    part.max(MISLEADING_MIN)
}

impl Shard {
    /// Notes a chunk that a block no longer holds. The caller holds the tree gate, or is recovery.
    pub(crate) fn note_death(&self, chunk: ChunkId) {
        let mean_bytes = {
            let trees = &mut *self.trees.borrow_mut();
            trees.deaths.count_overwritten(chunk);
            if !self.dedup.borrow().is_granted(chunk) {
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
        self.reclaim_wanted.notify_one();
        self.space_changed.notify_all(); // Reclaim may wait for a segment: then a checkpoint folds.
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
        self.reclaim.purge_rounds.asked.set(round);
        round
    }

    /// Whether somebody waits for folds.
    pub(crate) fn folds_are_asked(&self) -> bool {
        self.reclaim.purge_rounds.asked.get() > self.reclaim.purge_rounds.served.get()
    }

    async fn wait_for_folds(&self, round: u64) -> Result<()> {
        while self.reclaim.purge_rounds.served.get() < round {
            self.check_running()?;
            if self.stopped.get() {
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
        let ids = self.trees.borrow_mut().deaths.take_dense();
        self.fold_again(&ids).await?;
        self.settle_freed();
        Ok(())
    }

    /// Folds from the cursor on, once round the ids at most, and has the next segment of reclaim tell it (DEATHS-6).
    async fn fold_ranges(&self, extent: PurgeExtent) -> Result<()> {
        let number = self.reclaim.purge_rounds.ranges.get() + 1;
        let gate = self.tree_gate.take(1).await;
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
            at = ids[count - 1].get() + 1;
            self.trees.borrow_mut().deaths.cursor = at;
            if !self.has_room_to_fold() {
                return Ok(at);
            }
        }
    }

    /// Folds a range that a segment of reclaim tells. The caller is recovery.
    pub(crate) async fn fold_range(&self, range: Range<u64>) -> Result<()> {
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
        ids.sort_unstable();
        ids.dedup();
        ids.retain(|chunk| self.trees.borrow().deaths.contains(*chunk)); // A checkpoint may have been first.
        self.fold_again(&ids).await
    }

    /// What a checkpoint folds, whose pages of maps and keys are written: what reclaim left to it, what is cheap, and
    /// what is too much or was asked for, as far as the cache and free segments allow. Returns the rounds that it
    /// serves.
    pub(crate) async fn fold_at_checkpoint(&self) -> Result<u64> {
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
            self.trees.borrow_mut().deaths.cursor = ids[folded - 1].get() + 1;
            if folded < ids.len() {
                break;
            }
        }
        Ok(asked)
    }

    /// Rounds up to this one are served.
    pub(crate) fn note_purged(&self, round: u64) {
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
        let leaves = self.counters.folded_leaves.get() + 1;
        self.counters.folded_leaves.set(leaves);
        self.counters.folded_deaths.set(self.counters.folded_deaths.get() + count as u64);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use varve_stdx::Rng;

    use super::*;

    fn note(deaths: &mut DeadChunks, chunk: ChunkId) {
        deaths.count_overwritten(chunk);
        deaths.insert(chunk);
    }

    fn ids(deaths: &DeadChunks, from: u64) -> Vec<u64> {
        deaths.ids_from(from).map(ChunkId::get).collect()
    }

    #[test]
    fn what_a_sweep_found_is_sure_once_a_root_names_it() {
        let mut deaths = DeadChunks::new(1 << 20);
        let [swept, overwritten, both] = [1, 2, 3].map(ChunkId::new);
        note(&mut deaths, overwritten);
        note(&mut deaths, both);
        deaths.note_swept(swept);
        deaths.note_swept(both); // Replay sees it die as well.
        let sure = |deaths: &DeadChunks| {
            [swept, overwritten, both].map(|chunk| deaths.contains_for_sure(chunk))
        };
        assert_eq!(sure(&deaths), [false, true, true]);
        assert_eq!((deaths.len(), deaths.contains(swept)), (3, true));
        deaths.saved();
        assert_eq!(sure(&deaths), [true; 3]);
    }

    #[test]
    fn the_set_follows_a_plain_one() {
        let mut rng = Rng::new(7);
        let mut deaths = DeadChunks::new(1 << 20);
        let mut model = BTreeSet::new();
        for step in 0..60_000 {
            let id = if rng.below(2) == 0 { rng.below(40_000) } else { rng.below(1 << 47) };
            let known = *model.range(rng.below(1 << 40)..).next().unwrap_or(&id);
            match rng.below(10) {
                n if n < if step % 20_000 < 10_000 { 7 } else { 2 } => {
                    note(&mut deaths, ChunkId::new(id));
                    model.insert(id);
                }
                n if n < 9 => {
                    deaths.remove(ChunkId::new(known));
                    model.remove(&known);
                }
                _ => assert_eq!(deaths.contains(ChunkId::new(known)), model.contains(&known)),
            }
            assert_eq!((deaths.len(), deaths.is_empty()), (model.len(), model.is_empty()));
            if step % 1000 == 0 {
                assert!(ids(&deaths, 0).iter().eq(&model));
                let from = rng.below(80_000);
                assert!(ids(&deaths, from).iter().eq(model.range(from..)));
            }
            if rng.chance(1, 5000) {
                deaths.saved();
            }
        }
        assert!(!deaths.saved.is_empty() && !deaths.fresh.is_empty());
        let mut restored = DeadChunks::new(1 << 20);
        assert!(deaths.ids_from(0).all(|id| restored.restore(id)));
        assert!(!restored.restore(deaths.ids_from(0).next().unwrap()));
        assert_eq!(ids(&restored, 0), ids(&deaths, 0));
        model.iter().for_each(|id| deaths.remove(ChunkId::new(*id)));
        assert_eq!((deaths.len(), deaths.stored_bytes()), (0, 0));
    }

    #[test]
    fn checkpoints_fold_round_the_ids() {
        let mut deaths = DeadChunks::new(1 << 20);
        (1..=3000).for_each(|id| note(&mut deaths, ChunkId::new(id)));
        let mut seen = Vec::new();
        for _ in 0..4 {
            let next = deaths.next();
            deaths.cursor = next[next.len() - 1].get() + 1;
            seen.push((next[0].get(), next.len()));
        }
        assert_eq!(seen, [(1, 1024), (1025, 1024), (2049, 952), (1, 1024)]);
    }

    #[test]
    fn windows_are_dense_by_what_is_fresh() {
        let mut deaths = DeadChunks::new(1 << 20);
        let note = |deaths: &mut DeadChunks, ids: std::ops::Range<u64>| {
            ids.for_each(|id| note(deaths, ChunkId::new(id)));
        };
        note(&mut deaths, 128..159);
        assert!(deaths.dense.is_empty());
        note(&mut deaths, 200..201);
        note(&mut deaths, 256..280);
        assert_eq!(deaths.take_dense().len(), 32);
        assert!(deaths.dense.is_empty());
        // Replay, which notes them all, finds the window dense as well, and folds no less.
        note(&mut deaths, 201..232);
        assert!(deaths.dense.is_empty());
        deaths.saved();
        note(&mut deaths, 232..256);
        note(&mut deaths, 280..290);
        assert!(deaths.dense.is_empty(), "what is saved does not count");
        note(&mut deaths, 290..320);
        assert_eq!(deaths.take_dense().len(), 40, "nor is it folded");
    }

    #[test]
    fn the_set_is_full_by_its_memory() {
        let mut deaths = DeadChunks::new(1000);
        let mut last = 0;
        while !deaths.is_full() {
            last += 1;
            note(&mut deaths, ChunkId::new(last));
        }
        assert!((300..=334).contains(&last), "{last}");
        assert!(!deaths.is_small());
        (1..=50).for_each(|id| deaths.remove(ChunkId::new(id)));
        assert!(deaths.is_small());
    }

    #[test]
    fn reclaim_waits_for_folds_that_matter() {
        let mut deaths = DeadChunks::new(1 << 30);
        (1..=10_000).for_each(|id| note(&mut deaths, ChunkId::new(id * 1000)));
        assert!(!deaths.would_mislead(10_000 * MISLEADING_PART));
        assert!(deaths.would_mislead(9_000 * MISLEADING_PART), "many of all");
    }
}
