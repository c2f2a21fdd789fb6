//! A bijection that tears neighbours apart: hot ranks, groups of blocks and runs of overwrites are laid out by it.

use crate::mix::{key, mix};

const ROUNDS: usize = 4;

/// Maps `0 .. count` onto itself, each number to one of its own, in an order that looks random and follows from a seed.
///
/// Each round is an odd factor, a shift by an offset and an exclusive or of the upper half onto the lower one, all of
/// them bijections of a power of two; a number that lands beyond `count` goes on until it lands within, on average less
/// than twice.
#[derive(Clone, Debug)]
pub struct Scatter {
    count: u64,
    mask: u64,
    shift: u32,
    rounds: [(u64, u64); ROUNDS],
}

impl Scatter {
    /// The bijection of `0 .. count` that `seed` names.
    ///
    /// # Panics
    /// When `count` is 0.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Self {
        assert!(count > 0, "an empty range has no order");
        let bits = (u64::BITS - (count - 1).leading_zeros()).max(1);
        let rounds = std::array::from_fn(|round| {
            let key = key([seed, round as u64]);
            (key | 1, mix(key))
        });
        Self { count, mask: u64::MAX >> (u64::BITS - bits), shift: bits.div_ceil(2), rounds }
    }

    /// Where `rank` goes.
    ///
    /// # Panics
    /// When `rank` is not in `0 .. count`.
    #[must_use]
    pub fn of(&self, rank: u64) -> u64 {
        assert!(rank < self.count, "{rank} is not below {}", self.count);
        let mut place = self.step(rank);
        while place >= self.count {
            place = self.step(place);
        }
        place
    }

    fn step(&self, number: u64) -> u64 {
        self.rounds.iter().fold(number, |number, (factor, offset)| {
            let moved = number.wrapping_mul(*factor).wrapping_add(*offset) & self.mask;
            moved ^ (moved >> self.shift)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        for count in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            for seed in 0..20 {
                let scatter = Scatter::new(count, seed);
                let mut places: Vec<u64> = (0..count).map(|rank| scatter.of(rank)).collect();
                places.sort_unstable();
                assert!(places.into_iter().eq(0..count), "{count} by {seed}");
            }
        }
    }

    #[test]
    fn large_ranges_work() {
        for count in [1 << 44, (1 << 44) + 1, u64::MAX] {
            let scatter = Scatter::new(count, 1);
            assert!((0..1000).all(|rank| scatter.of(rank) < count));
            assert!(scatter.of(count - 1) < count);
        }
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let scatter = Scatter::new(1_000_000, 7);
        let near =
            (0..10_000).filter(|rank| scatter.of(*rank).abs_diff(scatter.of(rank + 1)) < 1000);
        let near = near.count();
        assert!(
            near < 60,
            "{near} of 10,000 neighbours stay within 1000 places; 20 would by chance"
        );
    }

    #[test]
    fn places_of_a_small_range_are_even() {
        let mut counts = [0u32; 100];
        for seed in 0..20_000 {
            counts[usize::try_from(Scatter::new(100, seed).of(37)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (130..280).contains(count)), "{counts:?}");
    }
}
