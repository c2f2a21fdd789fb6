//! Many clones of one golden volume that drift apart, as desktops do: updates that all of them get, and data of their
//! own.

use crate::content::DataContent;
use crate::data::DataSpec;
use crate::error::{Error, Result, check_percent};
use crate::expected::ExpectedReduction;
use crate::mix::key;
use crate::scatter::Scatter;

/// What draws are for, so that they are independent.
const COMMON_RUNS: u64 = 1;
const PRIVATE_RUNS: u64 = 2;
const ORDER: u64 = 3;

/// A golden volume and its clones. Shares are exact, rounded to whole runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FleetSpec {
    /// Contents of the golden volume. What clones write is as compressible, and neither zeros nor of its stock.
    pub data: DataSpec,
    /// Blocks of the golden volume, and so of each clone.
    pub golden_blocks: u64,
    /// Clones.
    pub clones: u32,
    /// Share of its blocks that each clone overwrites.
    pub overwrite_percent: u8,
    /// Share of what a clone overwrites that every clone overwrites, with the same data at the same place; the rest is
    /// private.
    pub common_percent: u8,
    /// Overwrites come in runs of this many blocks, as files do.
    pub run_blocks: u64,
}

/// One write of a clone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FleetWrite {
    /// Which clone writes.
    pub clone: u32,
    /// Block of the clone.
    pub index: u64,
    /// What it writes; [`DataSpec::fill`] makes bytes of it.
    pub content: DataContent,
}

/// A fleet that can be asked for its contents and its writes. Memory: about 300 bytes a clone.
#[derive(Clone, Debug)]
pub struct CloneFleet {
    spec: FleetSpec,
    /// Whole runs of a volume; blocks behind the last are never overwritten.
    runs: u64,
    common_runs: u64,
    private_runs: u64,
    common: Scatter,
    clones: Vec<CloneRuns>,
}

/// Which runs a clone overwrites, and in which order.
#[derive(Clone, Debug)]
struct CloneRuns {
    /// Orders the runs that are not common; the first ones are private. None when all runs are common.
    private: Option<Scatter>,
    order: Scatter,
}

impl CloneFleet {
    /// The fleet that `spec` names.
    ///
    /// # Errors
    /// What is wrong with `spec`.
    pub fn new(spec: FleetSpec) -> Result<Self> {
        let FleetSpec { golden_blocks, run_blocks, overwrite_percent, common_percent, .. } = spec;
        spec.data.check()?;
        check_percent("overwritten blocks", overwrite_percent)?;
        check_percent("common overwrites", common_percent)?;
        if run_blocks == 0 || run_blocks > golden_blocks {
            return Err(Error::RunBlocks { run_blocks, golden_blocks });
        }
        let runs = golden_blocks / run_blocks;
        let overwritten = share(runs, overwrite_percent);
        let common_runs = share(overwritten, common_percent);
        let own =
            |of: u64, clone: u64| key([spec.data.seed, u64::from(spec.data.volume), of, clone]);
        let clone_runs = |clone: u32| CloneRuns {
            private: (runs > common_runs)
                .then(|| Scatter::new(runs - common_runs, own(PRIVATE_RUNS, clone.into()))),
            order: Scatter::new(runs, own(ORDER, clone.into())),
        };
        Ok(Self {
            spec,
            runs,
            common_runs,
            private_runs: overwritten - common_runs,
            common: Scatter::new(runs, own(COMMON_RUNS, 0)),
            clones: (0..spec.clones).map(clone_runs).collect(),
        })
    }

    /// What it was made from.
    #[must_use]
    pub fn spec(&self) -> &FleetSpec {
        &self.spec
    }

    /// The golden volume's blocks in order: index and content.
    pub fn golden(&self) -> impl Iterator<Item = (u64, DataContent)> {
        (0..self.spec.golden_blocks).map(|index| (index, self.spec.data.content(index, 0)))
    }

    /// What block `index` of `clone` holds once the clone has written everything.
    ///
    /// # Panics
    /// When there is no such clone or block.
    #[must_use]
    pub fn content(&self, clone: u32, index: u64) -> DataContent {
        assert!(index < self.spec.golden_blocks, "a clone has no block {index}");
        let written = self.overwrite(clone, index / self.spec.run_blocks, index);
        written.unwrap_or_else(|| self.spec.data.content(index, 0))
    }

    /// The clones' writes, without their bytes. Clones take turns run by run, each in an order of its own.
    pub fn plan(&self) -> impl Iterator<Item = FleetWrite> {
        let clones = 0..self.spec.clones;
        (0..self.runs).flat_map(move |turn| {
            clones.clone().flat_map(move |clone| {
                let run = self.clones[clone as usize].order.of(turn);
                let first = run * self.spec.run_blocks;
                let blocks = first..first + self.spec.run_blocks;
                blocks.filter_map(move |index| {
                    let content = self.overwrite(clone, run, index)?;
                    Some(FleetWrite { clone, index, content })
                })
            })
        })
    }

    /// The clones' writes as clone, block index and bytes.
    pub fn writes(&self) -> impl Iterator<Item = (u32, u64, Vec<u8>)> {
        self.plan().map(|write| {
            let mut bytes = vec![0; self.spec.data.block_bytes];
            self.spec.data.fill(write.content, &mut bytes);
            (write.clone, write.index, bytes)
        })
    }

    /// What exact deduplication makes of the golden volume and all clones together, once they have written everything.
    /// Time grows with the blocks of all of them.
    #[must_use]
    pub fn expected(&self) -> ExpectedReduction {
        let golden = self.golden().map(|(_, content)| content);
        let clones = (0..self.spec.clones).flat_map(|clone| {
            (0..self.spec.golden_blocks).map(move |index| self.content(clone, index))
        });
        ExpectedReduction::of(golden.chain(clones))
    }

    /// What `clone` writes to block `index` of run `run`, if it does.
    fn overwrite(&self, clone: u32, run: u64, index: u64) -> Option<DataContent> {
        if run >= self.runs {
            return None;
        }
        let volume = self.spec.data.volume;
        let rank = self.common.of(run);
        let Some(rank) = rank.checked_sub(self.common_runs) else {
            return Some(DataContent::Common { volume, index });
        };
        let private = self.clones[clone as usize].private.as_ref()?;
        (private.of(rank) < self.private_runs).then_some(DataContent::Private {
            volume,
            clone,
            index,
        })
    }
}

/// `percent` of `whole`, rounded to the nearest.
fn share(whole: u64, percent: u8) -> u64 {
    let hundredths = u128::from(whole) * u128::from(percent);
    u64::try_from((hundredths + 50) / 100).expect("at most the whole")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    const SPEC: FleetSpec = FleetSpec {
        data: DataSpec {
            seed: 5,
            volume: 2,
            block_bytes: 512,
            zero_percent: 10,
            duplicate_percent: 20,
            stock_blocks: 50,
            stock_pick: crate::StockPick::Uniform,
            compression_ratio: 1.5,
        },
        golden_blocks: 4004,
        clones: 6,
        overwrite_percent: 20,
        common_percent: 75,
        run_blocks: 8,
    };

    fn bytes(content: DataContent) -> Vec<u8> {
        let mut bytes = vec![0; SPEC.data.block_bytes];
        SPEC.data.fill(content, &mut bytes);
        bytes
    }

    #[test]
    fn shares_are_met() {
        let fleet = CloneFleet::new(SPEC).unwrap();
        let mut writers: BTreeMap<Vec<u8>, BTreeSet<u32>> = BTreeMap::new();
        let mut written = BTreeSet::new();
        for (clone, index, bytes) in fleet.writes() {
            assert!(index < SPEC.golden_blocks);
            assert!(written.insert((clone, index)), "clone {clone} writes {index} once");
            writers.entry(bytes).or_default().insert(clone);
        }
        // 500 runs: 100 are overwritten by each clone, 75 of them are common.
        for clone in 0..SPEC.clones {
            assert_eq!(written.iter().filter(|(writer, _)| *writer == clone).count(), 800);
        }
        let common = writers.values().filter(|clones| clones.len() == 6).count();
        let private = writers.values().filter(|clones| clones.len() == 1).count();
        assert_eq!((common, private, writers.len()), (600, 6 * 200, 600 + 6 * 200));
    }

    #[test]
    fn writes_end_in_the_contents_told() {
        let fleet = CloneFleet::new(SPEC).unwrap();
        let golden: Vec<_> = fleet.golden().map(|(_, content)| bytes(content)).collect();
        let mut volumes = vec![golden.clone(); SPEC.clones as usize];
        for (clone, index, bytes) in fleet.writes() {
            volumes[clone as usize][usize::try_from(index).unwrap()] = bytes;
        }
        for clone in 0..SPEC.clones {
            for index in 0..SPEC.golden_blocks {
                let told = bytes(fleet.content(clone, index));
                let found = &volumes[clone as usize][usize::try_from(index).unwrap()];
                assert_eq!(*found, told, "clone {clone}, block {index}");
            }
        }
        let zeros = vec![0; SPEC.data.block_bytes];
        let all = || golden.iter().chain(volumes.iter().flatten());
        let distinct: BTreeSet<_> = all().filter(|block| **block != zeros).collect();
        let measured = ExpectedReduction {
            blocks: all().count() as u64,
            zero_blocks: all().filter(|block| **block == zeros).count() as u64,
            distinct_blocks: distinct.len() as u64,
        };
        assert_eq!(fleet.expected(), measured);
        let golden = SPEC.data.expected(0..SPEC.golden_blocks, 0);
        assert_eq!(measured.distinct_blocks, golden.distinct_blocks + 600 + 6 * 200);
    }

    #[test]
    fn clones_take_turns_and_runs_stay_together() {
        let fleet = CloneFleet::new(SPEC).unwrap();
        let plan: Vec<_> = fleet.plan().collect();
        for run in plan.chunks(8) {
            let first = run[0];
            assert!(first.index.is_multiple_of(8));
            let in_order = run.iter().zip(first.index..);
            assert!(in_order.into_iter().all(|(w, at)| w.index == at && w.clone == first.clone));
        }
        let half = plan.len() / 2;
        for clone in 0..SPEC.clones {
            let early = plan[..half].iter().filter(|write| write.clone == clone).count();
            assert!((250..550).contains(&early), "clone {clone}: {early} of 800 in the first half");
        }
        let orders: BTreeSet<Vec<u64>> = (0..SPEC.clones)
            .map(|clone| {
                let own = plan.iter().filter(|write| write.clone == clone);
                own.map(|write| write.index).collect()
            })
            .collect();
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn fleets_are_fixed_by_the_seed() {
        let plan = |seed| {
            let data = DataSpec { seed, ..SPEC.data };
            CloneFleet::new(FleetSpec { data, ..SPEC }).unwrap().plan().collect::<Vec<_>>()
        };
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
    }

    #[test]
    fn extremes_work() {
        for (overwrite_percent, common_percent) in [(0, 0), (0, 100), (100, 0), (100, 100), (1, 50)]
        {
            let spec = FleetSpec { overwrite_percent, common_percent, run_blocks: 1, ..SPEC };
            let fleet = CloneFleet::new(spec).unwrap();
            let each = usize::try_from(share(spec.golden_blocks, overwrite_percent)).unwrap();
            assert_eq!(fleet.plan().count(), each * 6);
        }
        let none = CloneFleet::new(FleetSpec { clones: 0, ..SPEC }).unwrap();
        assert_eq!(none.plan().count(), 0);
        assert_eq!(none.expected(), SPEC.data.expected(0..SPEC.golden_blocks, 0));
    }

    #[test]
    fn fleets_that_make_no_sense_are_refused() {
        let refused = |spec| CloneFleet::new(spec).unwrap_err();
        for run_blocks in [0, 4005] {
            let spec = FleetSpec { run_blocks, ..SPEC };
            assert!(matches!(refused(spec), Error::RunBlocks { .. }));
        }
        for (overwrite_percent, common_percent) in [(101, 0), (0, 101)] {
            let spec = FleetSpec { overwrite_percent, common_percent, ..SPEC };
            assert!(matches!(refused(spec), Error::Percent { .. }));
        }
        let data = DataSpec { block_bytes: 1, ..SPEC.data };
        assert!(matches!(refused(FleetSpec { data, ..SPEC }), Error::BlockBytes { .. }));
    }
}
