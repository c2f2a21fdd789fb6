//! Names of chunks of other shards.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;
use varve_types::{ChunkId, ShardId};

/// A chunk of another shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ForeignChunk {
    /// The shard whose chunk table has it.
    pub home: ShardId,
    /// Its id there.
    pub chunk: ChunkId,
}

/// Chunks by home that shards name which are not their home.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ForeignNames(BTreeMap<ShardId, RoaringTreemap>);

impl ForeignNames {
    pub(crate) fn insert(&mut self, name: ForeignChunk) {
        self.0.entry(name.home).or_default().insert(name.chunk.get());
    }

    /// Adds what another shard names.
    pub fn merge(&mut self, other: &Self) {
        for (home, chunks) in &other.0 {
            *self.0.entry(*home).or_default() |= chunks;
        }
        assert!(self.0.len() >= other.0.len(), "no home is lost");
    }

    /// How many chunks there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.values().map(RoaringTreemap::len).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The homes, and how many chunks of each there are.
    pub(crate) fn homes(&self) -> impl Iterator<Item = (ShardId, u64)> {
        let is_named = |chunks: &RoaringTreemap| !chunks.is_empty();
        debug_assert!(self.0.values().all(is_named), "a home is there for its chunks");
        self.0.iter().map(|(home, chunks)| (*home, chunks.len()))
    }

    pub(crate) fn of(&self, home: ShardId) -> Option<&RoaringTreemap> {
        self.0.get(&home)
    }
}
