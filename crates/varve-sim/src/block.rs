//! The model of one block: as a whole, or sector by sector.
//!
//! SIM-BLOCK-1. A block that is modelled sector by sector may be covered in part by several requests at once, as long
//!     as each covers whole sectors: to every sector of it they are writes of all that the sector holds, so one
//!     [`Register`] a sector is exact.
//! SIM-BLOCK-2. What is lost by that is the atomicity of the block: it is checked on the blocks that are modelled as a
//!     whole.

use std::ops::Range;

use varve_engine::BLOCK_BYTES;

use crate::content::BlockContent;
use crate::register::Register;

/// Bytes of a sector.
pub(crate) const SECTOR_BYTES: usize = 512;

/// Sectors of a block.
const SECTORS: usize = BLOCK_BYTES / SECTOR_BYTES;

/// What a reader may see of one block.
#[derive(Clone, Debug)]
pub(crate) enum BlockModel {
    /// One value for the block.
    Whole(Register<BlockContent>),
    /// One value for each sector (SIM-BLOCK-1).
    Sectors(Vec<Register<BlockContent>>),
}

/// Whether a part of a block consists of whole sectors (SIM-BLOCK-2).
pub(crate) fn is_of_sectors(part: &Range<usize>) -> bool {
    part.start.is_multiple_of(SECTOR_BYTES) && part.end.is_multiple_of(SECTOR_BYTES)
}

/// The bytes of sector `index` inside the block.
fn sector_range(index: usize) -> Range<usize> {
    index * SECTOR_BYTES..(index + 1) * SECTOR_BYTES
}

impl BlockModel {
    /// A block of zeros.
    pub(crate) fn new(by_sectors: bool) -> Self {
        let zero = || Register::new(BlockContent::Zero);
        if by_sectors {
            Self::Sectors((0..SECTORS).map(|_| zero()).collect())
        } else {
            Self::Whole(zero())
        }
    }

    /// A copy that was made between `since` and `now`.
    pub(crate) fn copied(&self, since: u64, now: u64) -> Self {
        match self {
            Self::Whole(register) => Self::Whole(register.copied(since, now)),
            Self::Sectors(sectors) => {
                Self::Sectors(sectors.iter().map(|sector| sector.copied(since, now)).collect())
            }
        }
    }

    /// A writer asks for the whole block to be `content`.
    pub(crate) fn issue(&mut self, operation: u64, content: &BlockContent, now: u64) {
        match self {
            Self::Whole(register) => register.issue(operation, content.clone(), now),
            Self::Sectors(sectors) => {
                for (index, sector) in sectors.iter_mut().enumerate() {
                    sector.issue(operation, content.slice(sector_range(index)), now);
                }
            }
        }
    }

    /// A writer asks for `data` at `part`. Only whole sectors of a block by sectors may be covered while the contents
    /// are not settled.
    pub(crate) fn issue_part(
        &mut self,
        operation: u64,
        part: &Range<usize>,
        data: &[u8],
        now: u64,
    ) {
        match self {
            Self::Whole(register) => {
                let before = register.settled().expect("parts are written over settled blocks");
                let content = before.with(part.start, data);
                register.issue(operation, content, now);
            }
            Self::Sectors(sectors) => {
                for (index, sector) in sectors.iter_mut().enumerate() {
                    let range = sector_range(index);
                    let (start, end) = (range.start.max(part.start), range.end.min(part.end));
                    if start >= end {
                        continue;
                    }
                    let piece = &data[start - part.start..end - part.start];
                    let content = if end - start == SECTOR_BYTES {
                        BlockContent::Data(piece.into())
                    } else {
                        let before = sector.settled().expect("the sector is settled");
                        before.with_sized(SECTOR_BYTES, start - range.start, piece)
                    };
                    sector.issue(operation, content, now);
                }
            }
        }
    }

    /// The writer was told that it happened.
    pub(crate) fn acknowledge(&mut self, operation: u64, now: u64) {
        self.each(|register| register.acknowledge(operation, now));
    }

    /// The writer will never learn whether it happened.
    pub(crate) fn give_up(&mut self, operation: u64, now: u64) {
        self.each(|register| register.give_up(operation, now));
    }

    /// The same block after a power cut now.
    pub(crate) fn after_cut(&self, now: u64) -> Self {
        match self {
            Self::Whole(register) => Self::Whole(register.after_cut(now)),
            Self::Sectors(sectors) => {
                Self::Sectors(sectors.iter().map(|sector| sector.after_cut(now)).collect())
            }
        }
    }

    /// Power was cut.
    pub(crate) fn cut(&mut self, now: u64) {
        self.each(|register| register.cut(now));
    }

    fn each(&mut self, mut act: impl FnMut(&mut Register<BlockContent>)) {
        match self {
            Self::Whole(register) => act(register),
            Self::Sectors(sectors) => sectors.iter_mut().for_each(act),
        }
    }

    /// Whether only one value is possible.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Whole(register) => register.settled().is_some(),
            Self::Sectors(sectors) => sectors.iter().all(|sector| sector.settled().is_some()),
        }
    }

    /// A read issued at `issued` returned `got` for `within`. False when it must not.
    #[must_use]
    pub(crate) fn observe(
        &mut self,
        within: &Range<usize>,
        got: &[u8],
        issued: u64,
        now: u64,
    ) -> bool {
        match self {
            Self::Whole(register) => {
                register.observe(|content| content.is_at(within.start, got), issued, now)
            }
            Self::Sectors(sectors) => sectors.iter_mut().enumerate().all(|(index, sector)| {
                let range = sector_range(index);
                let (start, end) = (range.start.max(within.start), range.end.min(within.end));
                if start >= end {
                    return true;
                }
                let piece = &got[start - within.start..end - within.start];
                sector.observe(|content| content.is_at(start - range.start, piece), issued, now)
            }),
        }
    }

    /// Whether a look at `issued` may have found zeros only.
    pub(crate) fn may_be_zero(&self, issued: u64) -> bool {
        match self {
            Self::Whole(register) => register.possible_since(issued).any(BlockContent::is_zero),
            Self::Sectors(sectors) => sectors
                .iter()
                .all(|sector| sector.possible_since(issued).any(BlockContent::is_zero)),
        }
    }

    /// Whether a comparison at `issued` may have found both equal.
    pub(crate) fn may_equal(&self, other: &Self, issued: u64) -> bool {
        if let (Self::Whole(a), Self::Whole(b)) = (self, other) {
            return a.possible_since(issued).any(|x| b.possible_since(issued).any(|y| x == y));
        }
        (0..SECTORS).all(|index| {
            let theirs = other.possible_of_sector(index, issued);
            self.possible_of_sector(index, issued).iter().any(|mine| theirs.contains(mine))
        })
    }

    fn possible_of_sector(&self, index: usize, issued: u64) -> Vec<BlockContent> {
        match self {
            Self::Whole(register) => {
                let slice = |content: &BlockContent| content.slice(sector_range(index));
                register.possible_since(issued).map(slice).collect()
            }
            Self::Sectors(sectors) => sectors[index].possible_since(issued).cloned().collect(),
        }
    }

    /// What is possible, for messages.
    pub(crate) fn describe(&self, issued: u64) -> String {
        let of_one = |register: &Register<BlockContent>| {
            register
                .possible_since(issued)
                .map(BlockContent::describe)
                .collect::<Vec<_>>()
                .join(", ")
        };
        match self {
            Self::Whole(register) => of_one(register),
            Self::Sectors(sectors) => {
                let described = sectors.iter().enumerate();
                let described =
                    described.map(|(index, sector)| format!("sector {index}: {}", of_one(sector)));
                described.collect::<Vec<_>>().join("; ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(model: &mut BlockModel, sector: usize, byte: u8, issued: u64) -> bool {
        model.observe(&sector_range(sector), &[byte; SECTOR_BYTES], issued, issued + 1)
    }

    #[test]
    fn parts_at_the_same_time_are_all_kept() {
        let mut model = BlockModel::new(true);
        model.issue_part(1, &(0..512), &[1; 512], 1);
        model.issue_part(2, &(512..1536), &[2; 1024], 2);
        model.acknowledge(1, 3);
        model.acknowledge(2, 4);
        assert!(sees(&mut model, 0, 1, 5));
        assert!(sees(&mut model, 1, 2, 7));
        assert!(sees(&mut model, 2, 2, 9));
        assert!(!sees(&mut model.clone(), 2, 0, 11), "an acknowledged part is lost");
        assert!(sees(&mut model, 3, 0, 11));
    }

    #[test]
    fn a_part_does_not_bring_back_what_a_whole_write_replaced() {
        let mut model = BlockModel::new(true);
        model.issue_part(1, &(0..512), &[1; 512], 1);
        model.issue(2, &BlockContent::Data(vec![9; BLOCK_BYTES].into()), 2);
        model.acknowledge(2, 3);
        model.acknowledge(1, 4);
        assert!(!sees(&mut model.clone(), 1, 0, 5), "the old contents are back");
        assert!(sees(&mut model.clone(), 0, 1, 5) && sees(&mut model, 0, 9, 5));
    }

    #[test]
    fn a_sector_that_is_written_in_part_keeps_the_rest() {
        let mut model = BlockModel::new(true);
        model.issue_part(1, &(100..600), &[3; 500], 1);
        model.acknowledge(1, 2);
        assert!(model.observe(&(96..104), &[0, 0, 0, 0, 3, 3, 3, 3], 3, 4));
        assert!(model.observe(&(596..604), &[3, 3, 3, 3, 0, 0, 0, 0], 5, 6));
        assert!(model.is_settled() && !model.may_be_zero(7));
    }
}
