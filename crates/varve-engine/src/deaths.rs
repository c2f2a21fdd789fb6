//! Deaths that wait: chunks that were overwritten and are still in the chunk table.
//!
//! Overwritten blocks held chunks from all over the table, and taking each out at once costs a visit to a leaf a block. Applying only
//! notes them here; a **fold** takes all of them out in the order of their ids, those of one leaf in one visit.
//!
//! ```text
//!  block overwritten ──note──▶ set of ids ──fold──▶ out of the table and the accounts, or kept, if shared
//! ```
//!
//! D1. A chunk enters the set when no reference to it is on its way (G2), and is granted no more while it is in it, unless the table
//!     calls it shared. So an unshared chunk in the set is dead; of a shared one the set says nothing: only mark frees it (G3).
//! D2. A chunk leaves the set in the step in which it leaves the table, or in which the table calls it shared.
//! D3. The set changes under the tree gate, or in recovery, and is empty while a checkpoint stores the trees: nothing durable depends on
//!     it, and replay makes it anew.
//! D4. Until they are folded, the dead count as live. Nobody is refused for that, and no zone is leased: whoever is short folds first.
//! D5. Its memory is bounded, and so is the work of one fold.

use std::collections::BTreeMap;

use varve_types::ChunkId;

use crate::pages::PLACES_AT_ONCE;
use crate::tree::PageCache;
use crate::trees::{Folded, Stop, Trees};
use crate::{Result, Shard};

/// Ids of one piece of the set.
const PIECE_IDS: u64 = 4096;
const WORD_IDS: u64 = u64::BITS as u64;
const WORDS: usize = (PIECE_IDS / WORD_IDS) as usize;

/// Ids that stand in one leaf of the table before any of them dies, and a little more: as many words are looked at together.
const LEAF_WORDS: usize = 2;

/// Memory of a piece: its bits and its place among the others.
const PIECE_BYTES: usize = WORDS * 8 + 48;

/// Deaths that wait at most: a fold of them takes some 30 ms.
const WAITING_MAX: usize = 1 << 19;

/// Chunks in a leaf of the table: leaves that hold fewer are joined.
const LEAF_CHUNKS_MIN: u64 = 32;

/// Ids that are looked up in the set at once.
const BATCH: usize = 1024;

/// Leaves visited before other tasks get a turn: some 50 µs of work.
const LEAVES_PER_TURN: usize = 64;

/// Reclaim has deaths folded that share their leaves with so many others, once there are [`CHEAP_MIN`] of them.
const CHEAP_PER_LEAF: usize = 8;
const CHEAP_MIN: usize = 4096;

/// It has any folded that are one chunk of data in so many: each would mislead it, and half a leaf dies in one visit then.
const MISLEADING_PART: u64 = 32;

/// Ids of chunks that were overwritten, in order.
pub(crate) struct Deaths {
    pieces: BTreeMap<u64, Box<Piece>>,
    count: usize,
    /// Leaves that hold them, about; more rather than fewer.
    leaves: usize,
    pieces_max: usize,
}

struct Piece {
    count: usize,
    words: [u64; WORDS],
}

impl Piece {
    const EMPTY: Self = Self { count: 0, words: [0; WORDS] };

    /// Whether no id of the leaf at `word` is in it.
    fn is_leaf_empty(&self, word: usize) -> bool {
        let first = word / LEAF_WORDS * LEAF_WORDS;
        self.words[first..first + LEAF_WORDS].iter().all(|word| *word == 0)
    }
}

const _: () = assert!(WORDS.is_multiple_of(LEAF_WORDS));

/// Piece, word in it and bit in that.
fn place(chunk: ChunkId) -> (u64, usize, u64) {
    let id = chunk.get();
    let word = usize::try_from(id % PIECE_IDS / WORD_IDS).expect("words of a piece are few");
    (id / PIECE_IDS, word, 1 << (id % WORD_IDS))
}

impl Deaths {
    /// An empty set that takes about `bytes` of memory.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { pieces: BTreeMap::new(), count: 0, leaves: 0, pieces_max: bytes / PIECE_BYTES }
    }

    pub(crate) fn insert(&mut self, chunk: ChunkId) {
        let (piece, word, bit) = place(chunk);
        let piece = self.pieces.entry(piece).or_insert_with(|| Box::new(Piece::EMPTY));
        if piece.words[word] & bit != 0 {
            return;
        }
        self.leaves += usize::from(piece.is_leaf_empty(word));
        piece.words[word] |= bit;
        piece.count += 1;
        self.count += 1;
    }

    pub(crate) fn contains(&self, chunk: ChunkId) -> bool {
        let (piece, word, bit) = place(chunk);
        self.count > 0 && self.pieces.get(&piece).is_some_and(|piece| piece.words[word] & bit != 0)
    }

    pub(crate) fn remove(&mut self, chunk: ChunkId) {
        let (index, word, bit) = place(chunk);
        let Some(piece) = self.pieces.get_mut(&index) else { return };
        if piece.words[word] & bit == 0 {
            return;
        }
        piece.words[word] &= !bit;
        piece.count -= 1;
        self.count -= 1;
        self.leaves -= usize::from(piece.is_leaf_empty(word));
        if piece.count == 0 {
            self.pieces.remove(&index);
        }
    }

    /// The first ids, in order, at most `max` of them.
    pub(crate) fn first(&self, max: usize) -> Vec<ChunkId> {
        let mut ids = Vec::with_capacity(max.min(self.count));
        for (index, piece) in &self.pieces {
            for (word, bits) in (0..).zip(piece.words) {
                let mut bits = bits;
                while bits != 0 {
                    if ids.len() == max {
                        return ids;
                    }
                    let bit = u64::from(bits.trailing_zeros());
                    ids.push(ChunkId::new(index * PIECE_IDS + word * WORD_IDS + bit));
                    bits &= bits - 1;
                }
            }
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
        self.pieces.len() * PIECE_BYTES
    }

    fn is_full(&self) -> bool {
        self.pieces.len() > self.pieces_max || self.count >= WAITING_MAX // D5
    }

    /// Whether reclaim should have them folded before it picks a victim among `data_chunks`.
    fn would_mislead(&self, data_chunks: u64) -> bool {
        let cheap = self.count >= CHEAP_MIN && self.count >= self.leaves * CHEAP_PER_LEAF;
        cheap || self.count as u64 > data_chunks / MISLEADING_PART
    }
}

impl Shard {
    /// Notes a chunk that a block no longer holds. The caller holds the tree gate, or is recovery, and folds when the set is full.
    pub(crate) async fn note_death(&self, chunk: ChunkId) -> Result<()> {
        if self.dedup.borrow().is_granted(chunk) {
            return Ok(()); // G2: the reference will mark it as shared.
        }
        let is_full = {
            let deaths = &mut self.trees.borrow_mut().deaths;
            deaths.insert(chunk);
            deaths.is_full()
        };
        if is_full { self.fold_held().await } else { Ok(()) }
    }

    /// Takes all chunks that were overwritten out of the table.
    pub(crate) async fn fold_deaths(&self) -> Result<()> {
        if self.trees.borrow().deaths.is_empty() {
            return Ok(()); // Without the gate: a checkpoint may hold it that waits for what the caller does next.
        }
        let outcome = {
            let _gate = self.tree_gate.take(1).await;
            self.fold_held().await
        };
        if let Err(error) = &outcome {
            self.fail("fold", error);
        }
        outcome
    }

    /// As [`Self::fold_deaths`], for a caller who holds the tree gate, or is recovery.
    pub(crate) async fn fold_held(&self) -> Result<()> {
        loop {
            let ids = self.trees.borrow().deaths.first(BATCH);
            if ids.is_empty() {
                break;
            }
            self.fold(&ids).await?;
        }
        self.settle_freed();
        Ok(())
    }

    /// Takes these chunks, in the order of their ids, out of the table. The caller holds the tree gate, or is recovery.
    pub(crate) async fn fold(&self, ids: &[ChunkId]) -> Result<()> {
        let mut rest = ids;
        let mut leaves = 0;
        while !rest.is_empty() {
            let folded = self.fold_leaf(rest).await?;
            if folded.kept_bytes > 0 {
                self.note_kept(folded.kept_bytes);
            }
            rest = &rest[folded.count..];
            leaves += 1;
            if leaves % LEAVES_PER_TURN == 0 {
                self.reactor.yield_now().await;
            }
        }
        self.reactor.yield_now().await;
        Ok(())
    }

    /// Takes those of `ids` that belong to the leaf of the first one out of the table.
    async fn fold_leaf(&self, ids: &[ChunkId]) -> Result<Folded> {
        let on_gone = |chunk| self.forget(chunk);
        let fold = |trees: &mut Trees| trees.fold_leaf(&mut self.space.borrow_mut(), ids, on_gone);
        let folded = fold(&mut self.trees.borrow_mut());
        match folded {
            Ok(folded) => return Ok(folded),
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Fault(_)) => {}
        }
        // The leaves of those that come next are most likely absent too.
        self.prefetch_places(ids.iter().copied().take(PLACES_AT_ONCE)).await;
        self.with_pages(fold).await
    }

    /// Bytes of pages that are changed, or will be by the next fold: what a checkpoint that begins now has to write of them.
    pub(crate) fn dirty_bytes(&self) -> usize {
        let trees = self.trees.borrow();
        // A leaf holds some chunks, however many of them died.
        let leaves = trees.deaths.leaves as u64;
        let leaves = leaves.min(trees.data.chunks.div_ceil(LEAF_CHUNKS_MIN) + 1);
        let leaves = usize::try_from(leaves).expect("no more than there are deaths");
        trees.cache.stats().dirty_bytes + leaves * PageCache::BYTES_PER_PAGE
    }

    /// Whether so many deaths wait that reclaim would not find the emptiest segments.
    pub(crate) fn deaths_mislead(&self) -> bool {
        let trees = self.trees.borrow();
        !trees.deaths.is_empty() && trees.deaths.would_mislead(trees.data.chunks)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use varve_stdx::Rng;

    use super::*;

    fn ids(deaths: &Deaths) -> Vec<u64> {
        deaths.first(usize::MAX).into_iter().map(ChunkId::get).collect()
    }

    #[test]
    fn the_set_follows_a_plain_one() {
        let mut rng = Rng::new(7);
        let mut deaths = Deaths::new(1 << 20);
        let mut model = BTreeSet::new();
        for step in 0..60_000 {
            let id = if rng.below(2) == 0 { rng.below(40_000) } else { rng.below(1 << 47) };
            let known = *model.range(rng.below(1 << 40)..).next().unwrap_or(&id);
            match rng.below(10) {
                n if n < if step % 20_000 < 10_000 { 7 } else { 2 } => {
                    deaths.insert(ChunkId::new(id));
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
                assert!(ids(&deaths).iter().eq(&model));
                let leaves: BTreeSet<u64> = model.iter().map(|id| id / 128).collect();
                let pieces: BTreeSet<u64> = model.iter().map(|id| id / PIECE_IDS).collect();
                assert_eq!(deaths.leaves, leaves.len());
                assert_eq!(deaths.bytes(), pieces.len() * PIECE_BYTES);
            }
        }
        let few = deaths.first(10);
        assert!(few.iter().map(|id| id.get()).eq(model.iter().copied().take(10)));
        model.iter().for_each(|id| deaths.remove(ChunkId::new(*id)));
        assert_eq!((deaths.len(), deaths.leaves, deaths.bytes()), (0, 0, 0));
    }

    #[test]
    fn the_set_is_full_by_memory_or_by_number() {
        let mut deaths = Deaths::new(10 * PIECE_BYTES);
        for piece in 0..10 {
            deaths.insert(ChunkId::new(piece * PIECE_IDS));
            assert!(!deaths.is_full());
        }
        deaths.insert(ChunkId::new(1 << 46));
        assert!(deaths.is_full());
        let mut deaths = Deaths::new(1 << 30);
        for id in 0..WAITING_MAX as u64 {
            assert!(!deaths.is_full());
            deaths.insert(ChunkId::new(id));
        }
        assert!(deaths.is_full());
        let mut none = Deaths::new(0);
        assert!(!none.is_full());
        none.insert(ChunkId::new(1));
        assert!(none.is_full(), "each is folded at once");
    }

    #[test]
    fn reclaim_waits_for_folds_that_are_cheap_or_matter() {
        let mut deaths = Deaths::new(1 << 30);
        for id in 0..CHEAP_MIN as u64 - 1 {
            deaths.insert(ChunkId::new(id));
        }
        assert!(!deaths.would_mislead(1 << 30));
        deaths.insert(ChunkId::new(CHEAP_MIN as u64));
        assert!(deaths.would_mislead(1 << 30), "many a leaf");
        let mut deaths = Deaths::new(1 << 30);
        for id in 0..10_000 {
            deaths.insert(ChunkId::new(id * 1000));
        }
        assert!(!deaths.would_mislead(10_000 * MISLEADING_PART));
        assert!(deaths.would_mislead(9_000 * MISLEADING_PART), "many of all");
    }
}
