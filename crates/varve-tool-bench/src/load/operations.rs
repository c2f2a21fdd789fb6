//! Which operation comes next, and what it writes or should read.
//!
//! O1. In verify mode no two operations under way touch the same block, so that what a read must find is known.

use std::collections::HashSet;

use varve_stdx::{AlignedBuf, BufSlice, Rng};

use crate::access::Access;
use crate::data::DataSpec;
use crate::error::{Error, Result};
use crate::load::spec::LoadSpec;
use crate::mix::key;

/// Draws in search of a block that nothing is done to, before the next block in order is taken.
const DRAWS_MAX: u32 = 64;

/// What draws of kinds are for, beside those of blocks.
const KINDS: u64 = 0x6b69_6e64;

/// An operation to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation {
    pub(crate) is_read: bool,
    /// Block of the job.
    pub(crate) block: u64,
    /// Of a write: the version that it makes. Of a read in verify mode: the one it must find, 0 when that is not known.
    pub(crate) version: u64,
}

/// The operations of a job on its blocks.
pub(crate) struct Operations {
    access: Access,
    kinds: Rng,
    read_percent: u64,
    data: DataSpec,
    block_bytes: usize,
    blocks: u64,
    /// First block of the job on the target.
    first_block: u64,
    writes: u64,
    verified: Option<Verified>,
}

/// What verify mode knows.
struct Verified {
    /// Of each block what was written last; 0 when nothing was.
    versions: Vec<u32>,
    under_way: HashSet<u64>,
}

impl Operations {
    /// Those of job `job` on `blocks` blocks.
    pub(crate) fn new(spec: &LoadSpec, job: u32, blocks: u64) -> Result<Self> {
        let verified = spec.verify.then(|| Verified {
            versions: vec![0; usize::try_from(blocks).expect("memory for every block")],
            under_way: HashSet::new(),
        });
        Ok(Self {
            access: spec.access(job, blocks).stream()?,
            kinds: Rng::new(key([spec.seed, u64::from(job), KINDS])),
            read_percent: spec.read_percent.into(),
            data: DataSpec { seed: spec.seed, volume: job, ..spec.data },
            block_bytes: spec.block_bytes,
            blocks,
            first_block: blocks * u64::from(job),
            writes: 0,
            verified,
        })
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Where a block begins on the target, in bytes.
    pub(crate) fn offset(&self, block: u64) -> u64 {
        (self.first_block + block) * self.block_bytes as u64
    }

    /// The next operation of the load.
    pub(crate) fn next(&mut self) -> Operation {
        let is_read = self.draw_kind();
        let mut block = self.access.next_index();
        if let Some(verified) = &mut self.verified {
            let mut draws = 1;
            while !verified.under_way.insert(block) {
                let next = (block + 1) % self.blocks; // There is one: blocks are more than operations under way.
                block = if draws < DRAWS_MAX { self.access.next_index() } else { next };
                draws += 1;
            }
        }
        self.operation(is_read, block)
    }

    /// Whether the next operation reads, for one whose block does not matter.
    pub(crate) fn draw_kind(&mut self) -> bool {
        self.kinds.chance(self.read_percent, 100)
    }

    /// Forgets an operation that was not begun.
    pub(crate) fn cancel(&mut self, operation: Operation) {
        if let Some(verified) = &mut self.verified {
            verified.under_way.remove(&operation.block);
        }
    }

    /// A write of a block, as filling does it in order.
    pub(crate) fn fill(&mut self, block: u64) -> Operation {
        self.begin(block);
        self.operation(false, block)
    }

    /// A read of a block whose content is known; `None` when it is not.
    pub(crate) fn read_back(&mut self, block: u64) -> Option<Operation> {
        let is_known = self.version(block) > 0;
        is_known.then(|| {
            self.begin(block);
            self.operation(true, block)
        })
    }

    fn begin(&mut self, block: u64) {
        if let Some(verified) = &mut self.verified {
            assert!(verified.under_way.insert(block), "one operation a block"); // O1
        }
    }

    fn version(&self, block: u64) -> u64 {
        let index = usize::try_from(block).expect("a version for every block");
        self.verified.as_ref().map_or(0, |verified| u64::from(verified.versions[index]))
    }

    fn operation(&mut self, is_read: bool, block: u64) -> Operation {
        let version = match (is_read, &self.verified) {
            (true, _) => self.version(block),
            (false, Some(_)) => self.version(block) + 1,
            (false, None) => {
                self.writes += 1;
                self.writes
            }
        };
        Operation { is_read, block, version }
    }

    /// What a write carries.
    pub(crate) fn payload(&self, operation: Operation) -> BufSlice {
        let mut bytes = AlignedBuf::scratch(self.block_bytes);
        self.pieces(operation, |data, unit, place| {
            data.block(unit, operation.version, &mut bytes[place..place + data.block_bytes]);
        });
        bytes.freeze()
    }

    /// Ends an operation: compares what a read found, remembers what a write left.
    pub(crate) fn end(&mut self, operation: Operation, found: Option<&[u8]>) -> Result<()> {
        let Some(verified) = &mut self.verified else { return Ok(()) };
        verified.under_way.remove(&operation.block);
        let index = usize::try_from(operation.block).expect("a version for every block");
        let Some(found) = found else {
            verified.versions[index] = u32::try_from(operation.version).unwrap_or(1);
            return Ok(());
        };
        if operation.version == 0 {
            return Ok(());
        }
        let mut expected = vec![0; self.data.block_bytes];
        let mut wrong = None;
        self.pieces(operation, |data, unit, place| {
            data.block(unit, operation.version, &mut expected);
            let differs = |(index, byte)| found.get(place + index) != Some(byte);
            if let Some(byte) = expected.iter().enumerate().position(differs) {
                wrong = wrong.or(Some(place + byte));
            }
        });
        match wrong {
            None => Ok(()),
            Some(byte) => {
                let offset = self.offset(operation.block) + byte as u64;
                Err(Error::Mismatch { offset, writes: operation.version })
            }
        }
    }

    /// Calls `each` with the index of each 4 KiB of a block and its place in it.
    fn pieces(&self, operation: Operation, mut each: impl FnMut(&DataSpec, u64, usize)) {
        let units = self.block_bytes / self.data.block_bytes;
        let first = (self.first_block + operation.block) * units as u64;
        for unit in 0..units {
            each(&self.data, first + unit as u64, unit * self.data.block_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessPattern;

    const BLOCKS: u64 = 100;

    fn operations(spec: LoadSpec) -> Operations {
        Operations::new(&spec, 1, BLOCKS).unwrap()
    }

    #[test]
    fn the_mix_is_what_was_asked_for() {
        for percent in [0, 10, 50, 70, 100] {
            let mut operations =
                operations(LoadSpec { read_percent: percent, ..LoadSpec::default() });
            let reads = (0..20_000).filter(|_| operations.next().is_read).count();
            let share = reads as f64 / 200.0;
            assert!((share - f64::from(percent)).abs() < 1.0, "{share} of {percent} %");
        }
    }

    #[test]
    fn a_job_stays_in_its_part_and_two_jobs_differ() {
        let spec = LoadSpec { block_bytes: 8192, ..LoadSpec::default() };
        let mut first = Operations::new(&spec, 0, BLOCKS).unwrap();
        let mut second = operations(spec);
        let blocks = |of: &mut Operations| (0..50).map(|_| of.next().block).collect::<Vec<_>>();
        assert_ne!(blocks(&mut first), blocks(&mut second));
        assert_eq!((first.offset(99), second.offset(0)), (99 * 8192, 100 * 8192));
    }

    #[test]
    fn payloads_of_two_writes_differ_unless_duplicates_are_asked_for() {
        let mut unique = operations(LoadSpec { read_percent: 0, ..LoadSpec::default() });
        let payload = |of: &mut Operations| {
            let operation = of.fill(7);
            of.payload(operation)
        };
        assert_ne!(payload(&mut unique)[..], payload(&mut unique)[..]);
        let data = DataSpec { duplicate_percent: 100, stock_blocks: 1, ..DataSpec::default() };
        let mut alike = operations(LoadSpec { block_bytes: 8192, data, ..LoadSpec::default() });
        let bytes = payload(&mut alike);
        assert_eq!(bytes[..4096], bytes[4096..]);
    }

    #[test]
    fn verification_tells_a_wrong_byte_and_a_lost_write() {
        let spec = LoadSpec { verify: true, block_bytes: 8192, ..LoadSpec::default() };
        let mut operations = operations(spec);
        let first = operations.fill(3);
        let old = operations.payload(first);
        operations.end(first, None).unwrap();
        let read = operations.read_back(3).unwrap();
        operations.end(read, Some(&old)).unwrap();
        let read = operations.read_back(3).unwrap();
        let mut flipped = old.to_vec();
        flipped[5000] ^= 1;
        let error = operations.end(read, Some(&flipped)).unwrap_err();
        assert!(
            matches!(error, Error::Mismatch { offset, writes: 1 } if offset == 103 * 8192 + 5000)
        );
        let second = operations.fill(3);
        operations.end(second, None).unwrap();
        let read = operations.read_back(3).unwrap();
        assert!(operations.end(read, Some(&old)).is_err(), "an old version is no answer");
        assert_eq!(operations.read_back(4), None, "nobody knows what it holds");
    }

    #[test]
    fn verified_operations_under_way_never_meet() {
        let pattern = AccessPattern::Zipf { theta: 3.0 };
        let mut operations = operations(LoadSpec { verify: true, pattern, ..LoadSpec::default() });
        let blocks: HashSet<u64> = (0..BLOCKS).map(|_| operations.next().block).collect();
        assert_eq!(blocks.len() as u64, BLOCKS);
    }
}
