//! Blocks of data by a specification: shares of zeros and duplicates, compressibility, and unique data for the rest.

use std::ops::Range;

use varve_stdx::Rng;
use varve_types::limits::{ADDRESS_UNIT, BLOCK_SIZE_DEFAULT};

use crate::content::{DataContent, STAMP_BYTES};
use crate::error::{Error, Result, check_percent};
use crate::expected::ExpectedReduction;
use crate::mix::key;
use crate::pieces;
use crate::scatter::Scatter;
use crate::zipf::Zipf;

/// Blocks of a group, in each of which the shares are met exactly: then a percent is a block.
const GROUP_BLOCKS: u64 = 100;

/// What draws are for, so that they are independent.
const CLASSES: u64 = 1;
const ENTRY: u64 = 2;

/// What the blocks of a volume hold. A block is a pure function of this, its index and its version.
///
/// Shares are exact for every hundred blocks of one version from a multiple of 100 on. Two specifications of the same
/// seed that differ in `volume` have the same stock, so that they share duplicates, and no unique block.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DataSpec {
    /// Everything follows from it.
    pub seed: u64,
    /// Tells volumes of one seed apart.
    pub volume: u32,
    /// Bytes of a block, a multiple of 512.
    pub block_bytes: usize,
    /// Share of blocks that are zeros.
    pub zero_percent: u8,
    /// Share of blocks that come from the stock.
    pub duplicate_percent: u8,
    /// Distinct blocks that duplicates come from. The first one drawn of each is new to whoever deduplicates.
    pub stock_blocks: u64,
    /// How they are drawn.
    pub stock_pick: StockPick,
    /// Bytes of a block that is not zero ÷ bytes that LZ4 makes of it. 1.0 is incompressible; the highest is 1/128 of a
    /// block's bytes.
    pub compression_ratio: f64,
}

/// How a duplicate is drawn from the stock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StockPick {
    /// Each one as often.
    Uniform,
    /// By a Zipf law.
    Zipf {
        /// Its exponent.
        theta: f64,
    },
}

impl Default for DataSpec {
    /// Unique, incompressible blocks of 4 KiB.
    fn default() -> Self {
        Self {
            seed: 0,
            volume: 0,
            block_bytes: BLOCK_SIZE_DEFAULT as usize,
            zero_percent: 0,
            duplicate_percent: 0,
            stock_blocks: 1000,
            stock_pick: StockPick::Uniform,
            compression_ratio: 1.0,
        }
    }
}

impl DataSpec {
    /// Whether data can be made from this.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<()> {
        let Self { block_bytes, zero_percent, duplicate_percent, .. } = *self;
        if block_bytes == 0 || !(block_bytes as u64).is_multiple_of(ADDRESS_UNIT) {
            return Err(Error::BlockBytes { block_bytes });
        }
        check_percent("zero blocks", zero_percent)?;
        check_percent("duplicate blocks", duplicate_percent)?;
        if zero_percent + duplicate_percent > 100 {
            return Err(Error::Shares { zero_percent, duplicate_percent });
        }
        if duplicate_percent > 0 && self.stock_blocks == 0 {
            return Err(Error::EmptyStock { duplicate_percent });
        }
        let (ratio, ratio_max) = (self.compression_ratio, pieces::ratio_max(block_bytes));
        if !(ratio >= 1.0 && ratio <= ratio_max) {
            return Err(Error::CompressionRatio { ratio, ratio_max });
        }
        match self.stock_pick {
            StockPick::Zipf { theta } if duplicate_percent > 0 => {
                Zipf::check(self.stock_blocks, theta)
            }
            StockPick::Zipf { .. } | StockPick::Uniform => Ok(()),
        }
    }

    /// Fills `out` with version `version` of block `index`.
    ///
    /// # Panics
    /// When `out` is not one block long, or [`Self::check`] fails.
    pub fn block(&self, index: u64, version: u64, out: &mut [u8]) {
        self.fill(self.content(index, version), out);
    }

    /// What version `version` of block `index` holds.
    ///
    /// # Panics
    /// When [`Self::check`] fails.
    #[must_use]
    pub fn content(&self, index: u64, version: u64) -> DataContent {
        self.assert_valid();
        let zeros = u64::from(self.zero_percent);
        let zeros_and_duplicates = zeros + u64::from(self.duplicate_percent);
        if zeros_and_duplicates > 0 {
            let (group, place) = (index / GROUP_BLOCKS, index % GROUP_BLOCKS);
            let group = key([self.seed, CLASSES, u64::from(self.volume), group, version]);
            let class = Scatter::new(GROUP_BLOCKS, group).of(place);
            if class < zeros {
                return DataContent::Zero;
            }
            if class < zeros_and_duplicates {
                return DataContent::Stock { entry: self.entry(index, version) };
            }
        }
        DataContent::Unique { volume: self.volume, index, version }
    }

    /// Fills `out` with `content`.
    ///
    /// # Panics
    /// When `out` is not one block long, or [`Self::check`] fails.
    pub fn fill(&self, content: DataContent, out: &mut [u8]) {
        self.assert_valid();
        assert_eq!(out.len(), self.block_bytes, "not one block");
        let Some(stamp) = content.stamp(self.seed) else {
            out.fill(0);
            return;
        };
        let mut rng = Rng::new(key(stamp));
        let (words, _) = out.as_chunks_mut::<8>();
        for word in &mut *words {
            *word = rng.next_u64().to_le_bytes();
        }
        for (word, stamped) in words.iter_mut().zip(stamp) {
            *word = stamped.to_le_bytes();
        }
        if self.compression_ratio > 1.0 {
            pieces::repeat(out, self.compression_ratio, &mut rng);
        }
    }

    /// What exact deduplication makes of `blocks`, each of version `version`. Costs about 0.2 µs and 40 bytes of memory
    /// a block.
    ///
    /// # Panics
    /// When [`Self::check`] fails.
    #[must_use]
    pub fn expected(&self, blocks: Range<u64>, version: u64) -> ExpectedReduction {
        ExpectedReduction::of(blocks.map(|index| self.content(index, version)))
    }

    fn entry(&self, index: u64, version: u64) -> u64 {
        let mut rng = Rng::new(key([self.seed, ENTRY, u64::from(self.volume), index, version]));
        match self.stock_pick {
            StockPick::Uniform => rng.below(self.stock_blocks),
            StockPick::Zipf { theta } => {
                let law = Zipf::new(self.stock_blocks, theta).expect("the specification is valid");
                law.draw(&mut rng)
            }
        }
    }

    fn assert_valid(&self) {
        if let Err(error) = self.check() {
            panic!("no data can be made: {error}");
        }
    }
}

const _: () = assert!((STAMP_BYTES as u64) < ADDRESS_UNIT);

#[cfg(test)]
mod tests;
