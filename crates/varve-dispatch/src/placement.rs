//! Which shard holds which part of a stream: a pure function of the stream's seed and placement generation.
//!
//! PLACEMENT-1. Regions of 64 MiB go round the shards in groups of as many regions as there are shards; each group
//!     begins at a shard drawn by the seed, so every shard gets the same share of a volume, and volumes begin on
//!     different shards.
//! PLACEMENT-2. Snapshots and clones keep seed and generation, so what shares pages stays on one shard.

use varve_types::ShardId;
use varve_types::limits::REGION_BYTES;

/// What of a stream decides where its bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamPlacement {
    /// Drawn when the stream was made (PLACEMENT-2).
    pub seed: u64,
    /// Index into the pool's placement generations.
    pub generation: u8,
}

/// The pool's placement generations.
#[derive(Clone, Debug)]
pub struct Placement {
    shard_counts: Vec<u16>,
}

impl Placement {
    /// Generations by their shard counts, oldest first.
    ///
    /// # Panics
    /// When there is none, or one without shards.
    #[must_use]
    pub fn new(shard_counts: Vec<u16>) -> Self {
        assert!(!shard_counts.is_empty(), "a pool has a placement");
        assert!(shard_counts.iter().all(|count| *count > 0), "a placement has shards");
        Self { shard_counts }
    }

    /// The generation that new streams get.
    #[must_use]
    pub fn newest(&self) -> u8 {
        u8::try_from(self.shard_counts.len() - 1).unwrap_or(u8::MAX)
    }

    /// All shards of the pool.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shard_counts.iter().copied().max().unwrap_or(1)).map(ShardId)
    }

    /// Shards that hold streams of a generation; the first generation for one that is not known.
    fn count(&self, generation: u8) -> u64 {
        let count = self.shard_counts.get(usize::from(generation));
        u64::from(*count.unwrap_or(&self.shard_counts[0]))
    }

    /// The shard that holds the byte at `offset` (PLACEMENT-1).
    #[must_use]
    pub fn shard_of(&self, stream: StreamPlacement, offset: u64) -> ShardId {
        let count = self.count(stream.generation);
        let region = offset / REGION_BYTES;
        let (group, within) = (region / count, region % count);
        let first = mix(stream.seed ^ group.wrapping_mul(0x9E37_79B9_7F4A_7C15)) % count;
        ShardId(u16::try_from((first + within) % count).expect("below the shard count"))
    }

    /// Shards that may hold bytes of a stream.
    pub fn shards_of(&self, stream: StreamPlacement) -> impl Iterator<Item = ShardId> + use<> {
        let count = u16::try_from(self.count(stream.generation)).expect("counts are 16 bits");
        (0..count).map(ShardId)
    }

    /// The home of a name: where its key is.
    #[must_use]
    pub fn home_of(&self, name: &[u8]) -> ShardId {
        let hash = varve_stdx::checksum64(name);
        ShardId(u16::try_from(hash % self.count(0)).expect("below the shard count"))
    }
}

/// A bijection that spreads neighbouring numbers (the finaliser of SplitMix64).
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_gets_the_same_share() {
        let placement = Placement::new(vec![3]);
        for seed in 0..50 {
            let stream = StreamPlacement { seed, generation: 0 };
            let mut regions = [0; 3];
            for region in 0..300 {
                let shard = placement.shard_of(stream, region * REGION_BYTES);
                regions[usize::from(shard.0)] += 1;
            }
            assert_eq!(regions, [100, 100, 100]);
        }
    }

    #[test]
    fn placement_is_part_of_the_format() {
        let placement = Placement::new(vec![4]);
        let stream = StreamPlacement { seed: 42, generation: 0 };
        let shards: Vec<u16> =
            (0..12).map(|region| placement.shard_of(stream, region * REGION_BYTES).0).collect();
        assert_eq!(shards, FIRST_REGIONS_OF_SEED_42);
        assert_eq!(placement.home_of(b"default/vm1"), ShardId(HOME_OF_VM1));
    }

    const FIRST_REGIONS_OF_SEED_42: [u16; 12] = [2, 3, 0, 1, 1, 2, 3, 0, 0, 1, 2, 3];
    const HOME_OF_VM1: u16 = 3;
}
