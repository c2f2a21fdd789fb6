//! What a census counts: amounts of streams and of families of them.

/// Chunks and pages, and what they take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoredAmount {
    /// Chunks of data.
    pub chunks: u64,
    /// Bytes that these take in segments, their entries in summaries included.
    pub data_bytes: u64,
    /// Pages of maps and of the key tree.
    pub pages: u64,
    /// Bytes that these take.
    pub page_bytes: u64,
}

impl StoredAmount {
    /// What they take of segments, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.data_bytes + self.page_bytes
    }

    pub(super) fn add(&mut self, other: Self) {
        self.chunks += other.chunks;
        self.data_bytes += other.data_bytes;
        self.pages += other.pages;
        self.page_bytes += other.page_bytes;
    }
}

/// What a stream holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamUsage {
    /// Blocks with data.
    pub blocks: u64,
    /// Chunks of the shards that its blocks are on, each once; below pages that it shares with earlier streams none. A
    /// chunk of another shard was stored there for another block, and counts with that.
    pub chunks: u64,
    /// Bytes that what these blocks name takes, once for every block.
    pub referenced_bytes: u64,
    /// What no other stream names.
    pub unique: StoredAmount,
}

impl StreamUsage {
    fn add(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.chunks += other.chunks;
        self.referenced_bytes += other.referenced_bytes;
        self.unique.add(other.unique);
    }
}

/// What the streams of a family hold: a volume's, and its snapshots' behind it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FamilyUsage {
    /// Each of them.
    pub streams: Vec<StreamUsage>,
    /// What the family alone names, and the first of its streams does not.
    pub behind_first: StoredAmount,
    /// What the family alone names.
    pub whole: StoredAmount,
}

/// What families hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpaceUsage {
    /// Each of them, as they were asked for.
    pub families: Vec<FamilyUsage>,
    /// What any of them names.
    pub named: StoredAmount,
}

impl SpaceUsage {
    /// Adds what another shard found of the same families.
    ///
    /// # Panics
    /// When these are others.
    pub fn add(&mut self, other: Self) {
        self.named.add(other.named);
        if self.families.is_empty() {
            self.families = other.families;
            return;
        }
        assert_eq!(self.families.len(), other.families.len(), "all shards count the same");
        for (family, other) in self.families.iter_mut().zip(&other.families) {
            assert_eq!(family.streams.len(), other.streams.len(), "all shards count the same");
            family.behind_first.add(other.behind_first);
            family.whole.add(other.whole);
            for (stream, other) in family.streams.iter_mut().zip(&other.streams) {
                stream.add(other);
            }
        }
    }
}
