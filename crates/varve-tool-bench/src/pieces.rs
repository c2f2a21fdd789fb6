//! Makes a block of random bytes compressible, in pieces spread over all of it.
//!
//! ```text
//!  ┌─────── cell ───────┬──────── cell ────────┬─── cell ───
//!  │ random  │ repeated │ random │  repeated   │ …
//!  └─────────┴──────────┴────────┴─────────────┴────────────
//! ```
//!
//! A repeated piece is a copy of an earlier cell's beginning, or zeros, as names, headers and padding are in real
//! blocks. How much of a cell is repeated follows from what LZ4 needs for all cells so far, so that what one cell
//! misses the next one makes up for. Zstandard, which codes LZ4's few bytes a piece shorter, gets some 6 % more out of
//! it.

use varve_stdx::Rng;

use crate::content::STAMP_BYTES;
use crate::powers::whole;

/// LZ4 must be left this many bytes of a block at least, for the stamp and a few pieces.
const STORED_BYTES_MIN: usize = 128;

/// Bytes of a cell, on average. LZ4 looks at every place for the first 32 places without a match, and at fewer behind
/// them: cells are short enough to be found. With high ratios they are longer, or nothing random would be left of them.
const CELL_BYTES_MIN: f64 = 64.0;
const CELL_STORED_BYTES: f64 = 16.0;

/// Random bytes of a cell at least, and repeated bytes of one that has any: less does not reliably pay for LZ4.
const RANDOM_BYTES_MIN: usize = 4;
const REPEATED_BYTES_MIN: usize = 8;

/// LZ4 leaves the end of a block as it is: 12 bytes, and one that says so.
const END_BYTES: usize = 12;
const END_COST: usize = END_BYTES + 1;

/// Bytes that LZ4 takes for a piece beside its random bytes; one more for long ones.
const PIECE_COST: usize = 3;
const LONG_RANDOM_BYTES: usize = 15;
const LONG_REPEATED_BYTES: usize = 19;

/// Bytes that a piece of zeros takes more on average: LZ4 repeats the zeros before, and goes on with a second piece
/// when they were fewer.
const ZEROS_COST: usize = 2;

/// Beginnings of cells that were not repeated yet. Each is repeated at most once: LZ4 finds the latest copy, and when
/// that is a shorter one it needs two pieces for what we count as one.
const BEGINNINGS: usize = 16;

/// The highest ratio that blocks of `block_bytes` can have.
pub(crate) fn ratio_max(block_bytes: usize) -> f64 {
    block_bytes as f64 / STORED_BYTES_MIN as f64
}

/// Replaces parts of `block`, which holds random bytes, until LZ4 stores 1 ÷ `ratio` of it. The stamp stays.
pub(crate) fn repeat(block: &mut [u8], ratio: f64, rng: &mut Rng) {
    assert!(ratio >= 1.0 && ratio <= ratio_max(block.len()), "ratio {ratio} is out of range");
    let goal = Goal::new(ratio);
    let mut beginnings = Beginnings { starts: [0; BEGINNINGS], count: 0 };
    let (mut stored, mut at, mut random_from) = (END_COST, 0, 0);
    let end = block.len() - END_BYTES;
    while at < end {
        let draw = rng.next_u64();
        let cell = goal.cell(draw).min(end - at);
        let random_min = if at == 0 { STAMP_BYTES } else { RANDOM_BYTES_MIN };
        let wanted = goal.stored(at + cell).saturating_sub(stored);
        let (random, repeated) = divide(cell, random_min, wanted);
        stored += cost(random, repeated);
        let to = at + random;
        at += cell;
        if repeated == 0 {
            continue;
        }
        // Every second repeated piece is zeros.
        let pick = usize::try_from((draw >> 32) & 0xFFFF).expect("16 bits");
        let beginning = if draw >> 63 == 0 { beginnings.take(pick) } else { None };
        beginnings.put(random_from, pick);
        random_from = at;
        match beginning.filter(|from| from + repeated <= to) {
            Some(from) => block.copy_within(from..from + repeated, to),
            None => {
                stored += ZEROS_COST;
                block[to..to + repeated].fill(0);
            }
        }
    }
}

/// What a ratio asks for, in whole numbers.
struct Goal {
    cell_mean: usize,
    /// Stored bytes of 2^32 bytes.
    stored_of_2_32: u64,
}

impl Goal {
    fn new(ratio: f64) -> Self {
        let cell_mean = whole((CELL_STORED_BYTES * ratio).max(CELL_BYTES_MIN));
        Self {
            cell_mean: usize::try_from(cell_mean).expect("a ratio is at most a size in memory"),
            stored_of_2_32: whole((1u64 << 32) as f64 / ratio),
        }
    }

    /// Bytes of the next cell: half to one and a half of the mean.
    fn cell(&self, draw: u64) -> usize {
        let sixteen_bits = usize::try_from(draw & 0xFFFF).expect("16 bits");
        self.cell_mean / 2 + ((self.cell_mean * sixteen_bits) >> 16)
    }

    /// Bytes that LZ4 should store for the first `bytes` of the block.
    fn stored(&self, bytes: usize) -> usize {
        let stored = (u128::from(self.stored_of_2_32) * (bytes as u128)) >> 32;
        usize::try_from(stored).expect("no more than the bytes themselves")
    }
}

/// Random and repeated bytes of a cell for which LZ4 should store `wanted` bytes.
fn divide(cell: usize, random_min: usize, wanted: usize) -> (usize, usize) {
    let random = wanted.saturating_sub(PIECE_COST + 1).max(random_min);
    match cell.checked_sub(random) {
        Some(repeated) if repeated >= REPEATED_BYTES_MIN => (random, repeated),
        _ => (cell, 0),
    }
}

/// Bytes that LZ4 stores for a cell.
fn cost(random: usize, repeated: usize) -> usize {
    if repeated == 0 {
        return random;
    }
    let more = |bytes: usize, long: usize| bytes.checked_sub(long).map_or(0, |more| 1 + more / 255);
    random + PIECE_COST + more(random, LONG_RANDOM_BYTES) + more(repeated, LONG_REPEATED_BYTES)
}

/// Beginnings of cells that were not repeated yet.
struct Beginnings {
    starts: [usize; BEGINNINGS],
    count: usize,
}

impl Beginnings {
    /// Takes one out, if there is any.
    fn take(&mut self, pick: usize) -> Option<usize> {
        let last = self.count.checked_sub(1)?;
        self.starts.swap(pick % self.count, last);
        self.count = last;
        Some(self.starts[last])
    }

    /// Puts one in; when there is no room, one goes for it.
    fn put(&mut self, start: usize, pick: usize) {
        if self.count == BEGINNINGS {
            self.take(pick);
        }
        self.starts[self.count] = start;
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(block_bytes: usize, ratio: f64, seed: u64) -> Vec<u8> {
        let mut block = vec![0; block_bytes];
        let mut rng = Rng::new(seed);
        rng.fill(&mut block);
        repeat(&mut block, ratio, &mut rng);
        block
    }

    /// Compressed together, as LZ4 stores each.
    fn measured(block_bytes: usize, ratio: f64) -> f64 {
        let blocks = 200;
        let stored = |seed| lz4_flex::block::compress(&block(block_bytes, ratio, seed)).len();
        let stored: usize = (0..blocks).map(stored).sum();
        (block_bytes * usize::try_from(blocks).unwrap()) as f64 / stored as f64
    }

    #[test]
    fn lz4_meets_the_ratio() {
        let mut found = String::new();
        let mut off_max = 0.0f64;
        for block_bytes in [512, 4096, 16_384, 65_536] {
            for ratio in [1.05, 1.1, 1.2, 1.33, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0, 64.0]
            {
                if ratio > ratio_max(block_bytes) {
                    continue;
                }
                let measured = measured(block_bytes, ratio);
                off_max = off_max.max((measured / ratio - 1.0).abs());
                found += &format!("{block_bytes} bytes: {measured:.3} of {ratio}\n");
            }
        }
        assert!(off_max < 0.06, "off by {:.1} %:\n{found}", off_max * 100.0);
    }

    #[test]
    fn every_part_of_a_block_is_as_compressible() {
        for ratio in [1.5, 2.0, 3.0] {
            // What LZ4 stores for the first quarter, the first half, and so on.
            let mut stored = [0usize; 4];
            for seed in 0..200 {
                let block = block(4096, ratio, seed);
                for (quarter, stored) in stored.iter_mut().enumerate() {
                    *stored += lz4_flex::block::compress(&block[..(quarter + 1) * 1024]).len();
                }
            }
            let quarters = [0, 1, 2, 3].map(|q| stored[q] - if q > 0 { stored[q - 1] } else { 0 });
            for quarter in quarters {
                let share = quarter as f64 / stored[3] as f64;
                assert!((0.21..0.29).contains(&share), "ratio {ratio}: {quarters:?}");
            }
        }
    }

    #[test]
    fn compressible_blocks_do_not_look_random() {
        for (ratio, wrong_max) in [(1.5, 5), (2.0, 1), (3.0, 0)] {
            let looks_random = |seed: &u64| varve_stdx::looks_random(&block(4096, ratio, *seed));
            let wrong = (0..1000).filter(looks_random).count();
            assert!(wrong <= wrong_max, "{wrong} of 1000 with ratio {ratio}");
        }
    }
}
