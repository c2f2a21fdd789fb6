//! Recently read data by chunk id: clean, bounded, evicted by a clock with one bit a block.

use varve_stdx::BufSlice;
use varve_types::ChunkId;

use crate::hash::HashMap;

struct Entry {
    chunk: ChunkId,
    data: BufSlice,
    referenced: bool,
}

/// Data blocks in memory. Chunk ids are never reused, so an entry is never stale.
pub(crate) struct BlockCache {
    capacity_bytes: usize,
    bytes: usize,
    index: HashMap<ChunkId, usize>,
    entries: Vec<Entry>,
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
            entries: Vec::new(),
            hand: 0,
            hits: 0,
            misses: 0,
        }
    }

    pub(crate) fn get(&mut self, chunk: ChunkId) -> Option<BufSlice> {
        let Some(&slot) = self.index.get(&chunk) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        let entry = &mut self.entries[slot];
        entry.referenced = true;
        Some(entry.data.clone())
    }

    /// Keeps `data`, evicting what was not used since the hand last passed.
    pub(crate) fn insert(&mut self, chunk: ChunkId, data: BufSlice) {
        let size = data.pinned_bytes();
        if size > self.capacity_bytes || self.index.contains_key(&chunk) {
            return;
        }
        while self.bytes + size > self.capacity_bytes {
            self.evict_one();
        }
        self.bytes += size;
        self.index.insert(chunk, self.entries.len());
        self.entries.push(Entry { chunk, data, referenced: false });
    }

    fn evict_one(&mut self) {
        loop {
            assert!(!self.entries.is_empty(), "bytes are counted only for entries");
            self.hand %= self.entries.len();
            let entry = &mut self.entries[self.hand];
            if entry.referenced {
                entry.referenced = false;
                self.hand += 1;
                continue;
            }
            self.remove_at(self.hand);
            return;
        }
    }

    fn remove_at(&mut self, slot: usize) {
        let entry = self.entries.swap_remove(slot);
        self.bytes -= entry.data.pinned_bytes();
        self.index.remove(&entry.chunk);
        if let Some(moved) = self.entries.get(slot) {
            self.index.insert(moved.chunk, slot);
        }
    }

    /// Forgets a chunk that died.
    pub(crate) fn remove(&mut self, chunk: ChunkId) {
        if let Some(&slot) = self.index.get(&chunk) {
            self.remove_at(slot);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_stays_within_its_bytes_and_keeps_what_is_used() {
        let mut cache = BlockCache::new(4 * 4096);
        for id in 0..4 {
            cache.insert(ChunkId::new(id), BufSlice::copy_from(&[1; 4096]));
        }
        assert!(cache.get(ChunkId::new(0)).is_some());
        cache.insert(ChunkId::new(9), BufSlice::copy_from(&[2; 4096]));
        assert_eq!(cache.bytes(), 4 * 4096);
        assert!(cache.get(ChunkId::new(0)).is_some(), "used since the hand passed");
        assert!(cache.get(ChunkId::new(1)).is_none(), "first unused one went");
    }

    #[test]
    fn removal_keeps_the_index_right() {
        let mut cache = BlockCache::new(1 << 20);
        for id in 0..10 {
            cache.insert(ChunkId::new(id), BufSlice::copy_from(&[u8::try_from(id).unwrap(); 16]));
        }
        cache.remove(ChunkId::new(3));
        for id in (0..10).filter(|id| *id != 3) {
            assert_eq!(cache.get(ChunkId::new(id)).unwrap()[0], u8::try_from(id).unwrap());
        }
        assert!(cache.get(ChunkId::new(3)).is_none());
    }
}
