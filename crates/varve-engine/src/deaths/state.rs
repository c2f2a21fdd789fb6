//! The set of chunks that were overwritten, and who waits for a fold, apart from the folds.

use std::cell::Cell;

use roaring::RoaringTreemap;
use varve_logstore::planted::{Bug, planted};
use varve_reactor::Notify;
use varve_types::ChunkId;

use crate::hash::HashMap;

/// Memory of an id: two bytes, and what growing leaves empty.
const ID_BYTES: usize = 3;

/// Ids that stand in one leaf of the table before any of them dies, about.
const WINDOW_IDS: u64 = 128;

/// Memory of a window's count.
const WINDOW_BYTES: usize = 24;

/// Fresh deaths that make a window dense: one visit to a leaf or two for as many.
const DENSE: u32 = 32;

const _: () = assert!(DENSE as u64 <= WINDOW_IDS, "a window may become dense");

/// Reclaim has deaths folded that are one chunk of data in so many, as each misleads it: about eight die in one visit
/// to a leaf then.
const MISLEADING_PART: u64 = 16;

/// So few mislead nobody.
const MISLEADING_MIN: usize = 256;

/// Ids that are looked up in the set at once.
pub(super) const BATCH: usize = 1024;

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
    pub(super) dense: Vec<u64>,
    /// Where ranges and checkpoints go on.
    pub(super) cursor: u64,
    bytes_max: usize,
    /// How many have left the set.
    pub(super) left: u64,
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

/// Who waits for a fold.
#[derive(Default)]
pub(crate) struct PurgeRounds {
    pub(super) asked: Cell<u64>,
    pub(super) served: Cell<u64>,
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
    pub(super) fn count_overwritten(&mut self, chunk: ChunkId) {
        let window = chunk.get() / WINDOW_IDS;
        let count = self.windows.entry(window).or_default();
        *count += 1;
        if count.is_multiple_of(DENSE) {
            self.dense.push(window);
        }
    }

    pub(super) fn insert(&mut self, chunk: ChunkId) {
        let is_new = !self.saved.contains(chunk.get()) && self.fresh.insert(chunk.get());
        self.count += usize::from(is_new);
        debug_assert!(self.contains(chunk));
    }

    /// Adds what a checkpoint found dead in the pages that it swept: its root is the first to name it.
    pub(crate) fn note_swept(&mut self, chunk: ChunkId) {
        if !self.fresh.contains(chunk.get()) && self.saved.insert(chunk.get()) {
            self.swept.insert(chunk.get());
            self.count += 1;
        }
        debug_assert!(self.contains(chunk), "the coming root names it"); // DELTAS-3
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
        debug_assert_eq!(self.count as u64, self.saved.len(), "each id is in one of both");
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
        debug_assert!(!self.contains(chunk), "it stands in one of both"); // DEATHS-2
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
    pub(super) fn next(&self) -> Vec<ChunkId> {
        let mut next: Vec<_> = self.ids_from(self.cursor).take(BATCH).collect();
        if next.is_empty() {
            next = self.ids_from(0).take(BATCH).collect();
        }
        assert_eq!(next.is_empty(), self.count == 0, "all have their turn");
        next
    }

    /// Fresh ids of dense windows, in order; those are dense no more.
    pub(super) fn take_dense(&mut self) -> Vec<ChunkId> {
        let mut windows = std::mem::take(&mut self.dense);
        windows.sort_unstable();
        windows.dedup();
        let mut ids = Vec::new();
        for first in windows.into_iter().map(|window| window * WINDOW_IDS) {
            let mut fresh = self.fresh.iter();
            fresh.advance_to(first);
            ids.extend(fresh.take_while(|id| *id < first + WINDOW_IDS).map(ChunkId::new));
        }
        debug_assert!(ids.is_sorted(), "windows do not overlap");
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
    pub(super) fn stored_bytes(&self) -> usize {
        self.count * ID_BYTES
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes() > self.bytes_max // DEATHS-5
    }

    /// Whether a checkpoint leaves it as it is.
    pub(super) fn is_small(&self) -> bool {
        self.stored_bytes() <= self.bytes_max / 8 * 7
    }

    /// Whether reclaim should have them folded before it picks a victim among `data_chunks`.
    pub(super) fn would_mislead(&self, data_chunks: u64) -> bool {
        self.count > misleading(data_chunks)
    }
}

/// As many deaths mislead reclaim.
pub(super) fn misleading(data_chunks: u64) -> usize {
    let part = usize::try_from(data_chunks / MISLEADING_PART).unwrap_or(usize::MAX);
    part.max(MISLEADING_MIN)
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
