//! Recently read or written data by chunk id: clean, bounded, evicted by a clock with one bit a run.
//!
//! A **run** is what came together and may share a buffer: one block, or those of a large read or write. It goes as a
//! whole, so that what is counted is what is in memory (CHECKPOINT-1), and a large read finds all of it or nothing,
//! mostly.

use varve_stdx::BufSlice;
use varve_types::ChunkId;

use crate::config::BLOCK_BYTES;
use crate::hash::HashMap;

/// Reads of up to so many bytes are always kept.
pub(crate) const SMALL_READ_BYTES: usize = 64 << 10;

/// Larger ones only where they are at most one part in so many of the cache: elsewhere a scan would empty it. Writes,
/// where such reads are.
const LARGE_PART: usize = 512;

const _: () = assert!(SMALL_READ_BYTES.is_multiple_of(BLOCK_BYTES), "runs are of whole blocks");

/// Memory of a block beside its data, and of a run beside its blocks, about: the index while it doubles, the list of
/// runs, reference counts.
const BLOCK_OVERHEAD: usize = 96;
const RUN_OVERHEAD: usize = 128;

struct CachedRun {
    /// In the order of their arrival; those that died stay until the run goes.
    blocks: Box<[(ChunkId, BufSlice)]>,
    /// How many live.
    live: usize,
    /// Memory that goes with it.
    bytes: usize,
    referenced: bool,
}

/// Where a block is.
#[derive(Clone, Copy)]
struct CachedPlace {
    run: usize,
    block: usize,
}

/// Data blocks in memory. Chunk ids are never reused, so a block is never stale.
pub(crate) struct BlockCache {
    capacity_bytes: usize,
    bytes: usize,
    index: HashMap<ChunkId, CachedPlace>,
    runs: Vec<CachedRun>,
    hand: usize,
    hits: u64,
    misses: u64,
}

impl BlockCache {
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        Self {
            capacity_bytes,
            bytes: 0,
            index: HashMap::default(),
            runs: Vec::new(),
            hand: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Reads of at most that many bytes are kept.
    pub(crate) fn read_bytes_max(&self) -> usize {
        SMALL_READ_BYTES.max(self.capacity_bytes / LARGE_PART)
    }

    /// Whether writes of so many bytes are kept.
    pub(crate) fn keeps_write(&self, bytes: usize) -> bool {
        let large_bytes = self.capacity_bytes / LARGE_PART;
        large_bytes > SMALL_READ_BYTES && bytes <= large_bytes
    }

    pub(crate) fn get(&mut self, chunk: ChunkId) -> Option<BufSlice> {
        let Some(place) = self.index.get(&chunk) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        let run = &mut self.runs[place.run];
        assert_eq!(run.blocks[place.block].0, chunk, "the index names its place");
        run.referenced = true;
        Some(run.blocks[place.block].1.clone())
    }

    /// Keeps a block in memory of its own.
    pub(crate) fn insert(&mut self, chunk: ChunkId, data: BufSlice) {
        self.insert_run(vec![(chunk, data)]);
    }

    /// Keeps blocks that may share buffers, in the order in which they lie there, evicting what was not used since the
    /// hand last passed.
    pub(crate) fn insert_run(&mut self, mut blocks: Vec<(ChunkId, BufSlice)>) {
        debug_assert!(blocks.iter().all(|(_, data)| data.len() == BLOCK_BYTES), "whole blocks");
        if blocks.is_empty() {
            return;
        }
        blocks.retain(|(chunk, _)| !self.index.contains_key(chunk));
        if pinned_bytes(&blocks) > 2 * blocks.len() * BLOCK_BYTES {
            // A few of a long buffer would keep all of it.
            blocks.iter_mut().for_each(|(_, data)| *data = BufSlice::copy_from(data));
        }
        let bytes = pinned_bytes(&blocks) + blocks.len() * BLOCK_OVERHEAD + RUN_OVERHEAD;
        if blocks.is_empty() || bytes > self.capacity_bytes {
            return;
        }
        while self.bytes + bytes > self.capacity_bytes {
            self.evict_one();
        }
        self.bytes += bytes;
        assert!(self.bytes <= self.capacity_bytes, "what is kept fits");
        let run = self.runs.len();
        for (block, (chunk, _)) in blocks.iter().enumerate() {
            self.index.insert(*chunk, CachedPlace { run, block });
        }
        let live = blocks.len();
        self.runs.push(CachedRun {
            blocks: blocks.into_boxed_slice(),
            live,
            bytes,
            referenced: false,
        });
    }

    fn evict_one(&mut self) {
        loop {
            assert!(!self.runs.is_empty(), "bytes are counted only for runs");
            self.hand %= self.runs.len();
            let run = &mut self.runs[self.hand];
            if run.referenced {
                run.referenced = false;
                self.hand += 1;
                continue;
            }
            self.remove_run(self.hand);
            self.hand += 1; // What came last has moved there: its turn is later.
            return;
        }
    }

    fn remove_run(&mut self, slot: usize) {
        let run = self.runs.swap_remove(slot);
        self.bytes -= run.bytes;
        assert!(self.bytes > 0 || self.runs.is_empty(), "each run takes memory");
        for (chunk, _) in &run.blocks {
            if self.index.get(chunk).is_some_and(|place| place.run == slot) {
                self.index.remove(chunk);
            }
        }
        if let Some(moved) = self.runs.get(slot) {
            let last = self.runs.len();
            for (chunk, _) in &moved.blocks {
                if let Some(place) = self.index.get_mut(chunk).filter(|place| place.run == last) {
                    place.run = slot;
                }
            }
        }
    }

    /// Forgets a chunk that died.
    pub(crate) fn remove(&mut self, chunk: ChunkId) {
        let Some(CachedPlace { run: slot, .. }) = self.index.remove(&chunk) else { return };
        let run = &mut self.runs[slot];
        assert!(run.live > 0, "a block that is found lives");
        run.live -= 1;
        if run.live == 0 {
            self.remove_run(slot);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Hits and misses so far.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }
}

/// Memory that blocks keep, each buffer counted once.
fn pinned_bytes(blocks: &[(ChunkId, BufSlice)]) -> usize {
    let mut bytes = 0;
    let mut before: Option<&BufSlice> = None;
    for (_, data) in blocks {
        if before.is_none_or(|before| !before.shares_buffer(data)) {
            bytes += data.pinned_bytes();
        }
        before = Some(data);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use varve_stdx::Rng;

    use super::*;

    const ONE: usize = BLOCK_BYTES + BLOCK_OVERHEAD + RUN_OVERHEAD;
    /// A run of sixteen blocks.
    const SIXTEEN: usize = 16 * (BLOCK_BYTES + BLOCK_OVERHEAD) + RUN_OVERHEAD;

    fn block(id: u64) -> BufSlice {
        BufSlice::copy_from(&[u8::try_from(id % 251).unwrap(); BLOCK_BYTES])
    }

    /// Blocks `first .. first + count` in one buffer.
    fn run(first: u64, count: u64) -> Vec<(ChunkId, BufSlice)> {
        let bytes: Vec<u8> = (first..first + count).flat_map(|id| block(id).to_vec()).collect();
        let buffer = BufSlice::copy_from(&bytes);
        let slices = (0..bytes.len()).step_by(BLOCK_BYTES);
        let slices = slices.map(|start| buffer.slice(start..start + BLOCK_BYTES));
        (first..).map(ChunkId::new).zip(slices).collect()
    }

    #[test]
    fn the_cache_stays_within_its_bytes_and_keeps_what_is_used() {
        let mut cache = BlockCache::new(4 * ONE);
        for id in 0..4 {
            cache.insert(ChunkId::new(id), block(id));
        }
        assert!(cache.get(ChunkId::new(0)).is_some());
        cache.insert(ChunkId::new(9), block(9));
        assert_eq!(cache.bytes(), 4 * ONE);
        assert!(cache.get(ChunkId::new(0)).is_some(), "used since the hand passed");
        assert!(cache.get(ChunkId::new(1)).is_none(), "first unused one went");
    }

    #[test]
    fn a_run_comes_and_goes_as_a_whole() {
        let mut cache = BlockCache::new(20 * ONE);
        cache.insert_run(run(0, 16));
        assert_eq!(cache.bytes(), SIXTEEN, "its buffer is counted once");
        let (first, second) =
            (cache.get(ChunkId::new(3)).unwrap(), cache.get(ChunkId::new(4)).unwrap());
        assert_eq!(
            first.joined(&second).unwrap()[..],
            [block(3), block(4)].map(|b| b.to_vec()).concat()
        );
        for id in 0..15 {
            cache.remove(ChunkId::new(id));
        }
        assert_eq!(cache.bytes(), SIXTEEN, "the buffer is there as long as one block of it");
        cache.remove(ChunkId::new(15));
        assert_eq!(cache.bytes(), 0);

        cache.insert_run(run(100, 16));
        cache.insert_run(run(200, 16));
        assert!((100..116).all(|id| cache.get(ChunkId::new(id)).is_none()), "evicted");
        assert_eq!(cache.bytes(), SIXTEEN);
    }

    #[test]
    fn a_few_blocks_of_a_long_buffer_are_copied_out_of_it() {
        let mut cache = BlockCache::new(1 << 20);
        cache.insert_run(run(0, 16).split_off(12));
        assert_eq!(cache.bytes(), 4 * (BLOCK_BYTES + BLOCK_OVERHEAD) + RUN_OVERHEAD);
        assert_eq!(cache.get(ChunkId::new(13)).unwrap()[..], block(13)[..]);
        cache.insert_run(run(100, 16).split_off(4));
        let kept = 16 * BLOCK_BYTES + 12 * BLOCK_OVERHEAD + RUN_OVERHEAD;
        assert_eq!(cache.bytes(), kept + 4 * (BLOCK_BYTES + BLOCK_OVERHEAD) + RUN_OVERHEAD);
    }

    #[test]
    fn what_was_used_once_makes_room_for_what_is_used_now() {
        let mut cache = BlockCache::new(40 * ONE);
        (0..40).for_each(|id| cache.insert(ChunkId::new(id), block(id)));
        let mut hits = 0;
        for id in (100..120).cycle().take(20 * 5) {
            match cache.get(ChunkId::new(id)) {
                Some(_) => hits += 1,
                None => cache.insert(ChunkId::new(id), block(id)),
            }
        }
        assert_eq!(hits, 20 * 4, "each is read from the disk once");
    }

    #[test]
    fn whatever_comes_and_goes_is_found_as_it_is() {
        let mut rng = Rng::new(7);
        let mut cache = BlockCache::new(40 * ONE);
        for _ in 0..20_000 {
            let id = rng.below(100);
            match rng.below(4) {
                0 => cache.insert(ChunkId::new(id), block(id)),
                1 => cache.insert_run(run(id, 1 + rng.below(16))),
                2 => cache.remove(ChunkId::new(id)),
                _ => {
                    if let Some(found) = cache.get(ChunkId::new(id)) {
                        assert_eq!(found[..], block(id)[..]);
                    }
                }
            }
            let live: usize = cache.runs.iter().map(|run| run.live).sum();
            assert_eq!(live, cache.index.len());
            let bytes: usize = cache.runs.iter().map(|run| run.bytes).sum();
            assert!(bytes == cache.bytes && bytes <= 40 * ONE);
        }
    }
}
