//! Exact accounts of what blocks hold: what the deduplication under test is compared with.

use std::collections::BTreeSet;

use crate::content::DataContent;

/// What exact deduplication makes of some blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExpectedReduction {
    /// Blocks looked at.
    pub blocks: u64,
    /// Those of them that are zeros.
    pub zero_blocks: u64,
    /// Different ones among the others: what must be stored.
    pub distinct_blocks: u64,
}

impl ExpectedReduction {
    /// Counts `contents` of one [`DataSpec`](crate::DataSpec), or of several that differ in their volume only. Memory
    /// and time grow with them.
    #[must_use]
    pub fn of(contents: impl IntoIterator<Item = DataContent>) -> Self {
        let mut distinct = BTreeSet::new();
        let mut found = Self::default();
        for content in contents {
            found.blocks += 1;
            if content == DataContent::Zero {
                found.zero_blocks += 1;
            } else {
                distinct.insert(content);
            }
        }
        found.distinct_blocks = distinct.len() as u64;
        found
    }

    /// Blocks that need not be stored because an equal one is.
    #[must_use]
    pub fn duplicate_blocks(&self) -> u64 {
        self.blocks - self.zero_blocks - self.distinct_blocks
    }

    /// Blocks that are not zeros ÷ different ones among them; 1.0 without any.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        if self.distinct_blocks == 0 {
            return 1.0;
        }
        (self.blocks - self.zero_blocks) as f64 / self.distinct_blocks as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_counted_once() {
        let unique = |index| DataContent::Unique { volume: 0, index, version: 0 };
        let stock = DataContent::Stock { entry: 1 };
        let found = ExpectedReduction::of([
            stock,
            DataContent::Zero,
            unique(1),
            stock,
            unique(2),
            unique(1),
            stock,
        ]);
        assert_eq!(found, ExpectedReduction { blocks: 7, zero_blocks: 1, distinct_blocks: 3 });
        assert_eq!(found.duplicate_blocks(), 3);
        assert_eq!(found.dedup_ratio(), 2.0);
        assert_eq!(ExpectedReduction::of([DataContent::Zero]).dedup_ratio(), 1.0);
    }
}
