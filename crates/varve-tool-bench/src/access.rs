//! Streams of accesses: which block comes next.

use varve_stdx::Rng;

use crate::error::{Error, Result, check_percent};
use crate::mix::key;
use crate::scatter::Scatter;
use crate::zipf::Zipf;

/// Accesses to the blocks `0 .. blocks`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AccessSpec {
    /// Everything follows from it.
    pub seed: u64,
    /// Blocks to choose from.
    pub blocks: u64,
    /// How they are chosen.
    pub pattern: AccessPattern,
    /// Whether frequent blocks of [`AccessPattern::Zipf`] and [`AccessPattern::HotCold`] are spread over all blocks by
    /// a bijection; otherwise they are the first ones. Which ones they are follows from the seed.
    pub scatter: bool,
}

/// How blocks are chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AccessPattern {
    /// One after another, from the first, and again from the first behind the last.
    Sequential,
    /// Each one as often.
    Uniform,
    /// By a Zipf law.
    Zipf {
        /// Its exponent.
        theta: f64,
    },
    /// Some blocks take most of the accesses; within both kinds each one as often.
    HotCold {
        /// Share of accesses that go to hot blocks.
        access_percent: u8,
        /// Share of blocks that are hot, one block at least.
        block_percent: u8,
    },
}

impl AccessSpec {
    /// The stream; it has no end.
    ///
    /// # Errors
    /// `Blocks`, `Theta` or `Percent`, when there is no such stream.
    pub fn stream(&self) -> Result<Access> {
        if self.blocks == 0 || self.blocks > Zipf::COUNT_MAX {
            return Err(Error::Blocks { blocks: self.blocks, blocks_max: Zipf::COUNT_MAX });
        }
        let (choice, skewed) = match self.pattern {
            AccessPattern::Sequential => (Choice::Sequential { next: 0 }, false),
            AccessPattern::Uniform => (Choice::Uniform, false),
            AccessPattern::Zipf { theta } => (Choice::Zipf(Zipf::new(self.blocks, theta)?), true),
            AccessPattern::HotCold { access_percent, block_percent } => {
                check_percent("accesses to hot blocks", access_percent)?;
                check_percent("hot blocks", block_percent)?;
                let hot_blocks = (self.blocks * u64::from(block_percent) / 100).max(1);
                (Choice::HotCold { hot_blocks, access_percent: access_percent.into() }, true)
            }
        };
        let scatter = (skewed && self.scatter).then(|| Scatter::new(self.blocks, key([self.seed])));
        Ok(Access { rng: Rng::new(self.seed), blocks: self.blocks, choice, scatter })
    }
}

/// An endless stream of block indexes.
#[derive(Clone, Debug)]
pub struct Access {
    rng: Rng,
    blocks: u64,
    choice: Choice,
    scatter: Option<Scatter>,
}

#[derive(Clone, Debug)]
enum Choice {
    Sequential { next: u64 },
    Uniform,
    Zipf(Zipf),
    HotCold { hot_blocks: u64, access_percent: u64 },
}

impl Access {
    /// The next block. Takes the same time whatever the number of blocks.
    pub fn next_index(&mut self) -> u64 {
        let Self { rng, blocks, choice, scatter } = self;
        let rank = match choice {
            Choice::Sequential { next } => {
                let index = *next;
                *next = (index + 1) % *blocks;
                index
            }
            Choice::Uniform => rng.below(*blocks),
            Choice::Zipf(law) => law.draw(rng),
            Choice::HotCold { hot_blocks, access_percent } => {
                let cold_blocks = *blocks - *hot_blocks;
                if rng.chance(*access_percent, 100) || cold_blocks == 0 {
                    rng.below(*hot_blocks)
                } else {
                    *hot_blocks + rng.below(cold_blocks)
                }
            }
        };
        scatter.as_ref().map_or(rank, |scatter| scatter.of(rank))
    }
}

impl Iterator for Access {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(self.next_index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u64 = 1000;
    const ACCESSES: usize = 200_000;

    fn spec(pattern: AccessPattern) -> AccessSpec {
        AccessSpec { seed: 3, blocks: BLOCKS, pattern, scatter: false }
    }

    fn counts(spec: &AccessSpec) -> Vec<u64> {
        let mut counts = vec![0; usize::try_from(spec.blocks).unwrap()];
        for index in spec.stream().unwrap().take(ACCESSES) {
            counts[usize::try_from(index).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn sequential_accesses_begin_again() {
        let stream = spec(AccessPattern::Sequential).stream().unwrap();
        assert!(stream.take(2500).eq((0..1000).chain(0..1000).chain(0..500)));
    }

    #[test]
    fn uniform_accesses_reach_every_block_as_often() {
        let counts = counts(&spec(AccessPattern::Uniform));
        assert!(counts.iter().all(|count| (130..280).contains(count)), "{counts:?}");
    }

    #[test]
    fn zipf_accesses_follow_the_law() {
        let theta = 0.8;
        let counts = counts(&spec(AccessPattern::Zipf { theta }));
        let sum: f64 = (1..=BLOCKS).map(|k| (k as f64).powf(-theta)).sum();
        for (rank, count) in counts.into_iter().take(4).enumerate() {
            let law = ACCESSES as f64 * (rank as f64 + 1.0).powf(-theta) / sum;
            assert!((count as f64 / law - 1.0).abs() < 0.05, "rank {rank}: {count} of {law}");
        }
    }

    #[test]
    fn hot_blocks_take_their_share() {
        for scatter in [false, true] {
            let pattern = AccessPattern::HotCold { access_percent: 90, block_percent: 5 };
            let spec = AccessSpec { scatter, ..spec(pattern) };
            let mut counts = counts(&spec);
            let first: u64 = counts[..50].iter().sum();
            assert_eq!(first > ACCESSES as u64 / 2, !scatter, "{first}");
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let hot: u64 = counts[..50].iter().sum();
            let percent = hot as f64 / ACCESSES as f64 * 100.0;
            assert!((percent - 90.0).abs() < 0.5, "{percent} %");
            assert!(counts[49] > 2000 && counts[50] < 100, "{} {}", counts[49], counts[50]);
        }
    }

    #[test]
    fn streams_are_fixed_by_the_seed() {
        for pattern in [
            AccessPattern::Uniform,
            AccessPattern::Zipf { theta: 0.99 },
            AccessPattern::HotCold { access_percent: 80, block_percent: 20 },
        ] {
            let first = |seed, scatter| {
                let spec = AccessSpec { seed, scatter, ..spec(pattern) };
                spec.stream().unwrap().take(500).collect::<Vec<_>>()
            };
            assert_eq!(first(1, true), first(1, true));
            assert_ne!(first(1, true), first(2, true));
            assert_eq!(first(1, true) == first(1, false), pattern == AccessPattern::Uniform);
        }
    }

    #[test]
    fn streams_of_nothing_are_refused() {
        let none = AccessSpec { blocks: 0, ..spec(AccessPattern::Sequential) };
        assert!(matches!(none.stream(), Err(Error::Blocks { .. })));
        assert!(matches!(
            spec(AccessPattern::Zipf { theta: 0.0 }).stream(),
            Err(Error::Theta { .. })
        ));
        let pattern = AccessPattern::HotCold { access_percent: 101, block_percent: 1 };
        assert!(matches!(spec(pattern).stream(), Err(Error::Percent { .. })));
        let pattern = AccessPattern::HotCold { access_percent: 10, block_percent: 100 };
        assert!(spec(pattern).stream().unwrap().take(1000).all(|index| index < BLOCKS));
    }
}
