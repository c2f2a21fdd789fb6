//! Which operation comes next, and what it writes or should read.
//!
//! LOAD-OPERATIONS-1. In verify mode no two operations under way touch the same block, so that what a read must find is
//!     known.

use std::collections::HashSet;

use varve_media::Persist;
use varve_stdx::{AlignedBuf, BufSlice, Rng};

use crate::access::Access;
use crate::data::DataSpec;
use crate::error::{Error, Result};
use crate::load::job::JobPart;
use crate::load::spec::LoadSpec;
use crate::mix::key;

/// Draws in search of blocks that nothing is done to, before the next ones in order are taken.
const DRAWS_MAX: u32 = 64;

/// What draws of kinds are for, beside those of blocks.
const KINDS: u64 = 0x6b69_6e64;

/// An operation to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoadOperation {
    pub(crate) is_read: bool,
    /// First block of it, of the job's part.
    pub(crate) block: u64,
    /// Blocks of it.
    blocks: u64,
    /// Which sort of the load's it is.
    sort: u8,
    /// Of a write outside verify mode: which one it is.
    write: u64,
}

/// The operations of a job on its blocks.
pub(crate) struct Operations {
    sorts: Vec<OperationSort>,
    kinds: Rng,
    /// Without a mixture: the share of reads.
    read_percent: Option<u64>,
    block_bytes: usize,
    blocks: u64,
    /// Where the job's part begins on the disk.
    begin_bytes: u64,
    writes: u64,
    verified: Option<VerifyState>,
}

/// Operations of one sort.
struct OperationSort {
    percent: u64,
    is_read: bool,
    /// Blocks of one (MIXTURE-1).
    blocks: u64,
    /// Places where one may begin.
    access: Access,
    places: u64,
    persist: Persist,
    data: DataSpec,
}

/// What verify mode knows.
struct VerifyState {
    /// Of each block how often it was written; 0 when it was not.
    versions: Vec<u32>,
    /// Of each block the sort that wrote it last.
    sorts: Vec<u8>,
    under_way: HashSet<u64>,
}

impl Operations {
    /// Those of a job on its part.
    ///
    /// # Errors
    /// `TargetSize` when the part is too small.
    pub(crate) fn new(spec: &LoadSpec, part: &JobPart) -> Result<Self> {
        let alone = LoadSpec { jobs: 1, ..*spec };
        let blocks = alone.blocks_a_job(part.size_bytes)?;
        let count = || usize::try_from(blocks).expect("memory for every block");
        let verified = spec.verify.then(|| VerifyState {
            versions: vec![0; count()],
            sorts: vec![0; count()],
            under_way: HashSet::new(),
        });
        let sorts = spec.parts().into_iter().enumerate().map(|(index, sort)| {
            let size = (sort.bytes / spec.block_bytes) as u64;
            assert!(size > 0 && size <= blocks, "sizes are multiples of the block"); // MIXTURE-1
            let places = blocks / size;
            let mut access = spec.access(part.job, places, sort.pattern);
            if index > 0 {
                access.seed = key([access.seed, index as u64]);
            }
            let data = DataSpec { seed: spec.seed, volume: part.job, ..spec.data };
            Ok(OperationSort {
                percent: sort.percent.into(),
                is_read: sort.is_read,
                blocks: size,
                access: access.stream()?,
                places,
                persist: sort.persist(),
                data: DataSpec { compression_ratio: sort.compression_ratio, ..data },
            })
        });
        Ok(Self {
            sorts: sorts.collect::<Result<_>>()?,
            kinds: Rng::new(key([spec.seed, u64::from(part.job), KINDS])),
            read_percent: spec.mixture.is_none().then(|| spec.read_percent.into()),
            block_bytes: spec.block_bytes,
            blocks,
            begin_bytes: part.begin_bytes,
            writes: 0,
            verified,
        })
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Where an operation begins on the disk, and its bytes.
    pub(crate) fn place(&self, operation: LoadOperation) -> (u64, usize) {
        let blocks = usize::try_from(operation.blocks).expect("bytes of one operation");
        (self.offset(operation.block), blocks * self.block_bytes)
    }

    /// Whether a write waits until it survives power loss.
    pub(crate) fn persist(&self, operation: LoadOperation) -> Persist {
        self.sorts[usize::from(operation.sort)].persist
    }

    /// Where a block begins on the disk, in bytes.
    fn offset(&self, block: u64) -> u64 {
        self.begin_bytes + block * self.block_bytes as u64
    }

    /// The next operation of the load.
    pub(crate) fn next(&mut self) -> LoadOperation {
        let (sort, is_read) = self.draw();
        let OperationSort { access, places, blocks, .. } = &mut self.sorts[sort];
        let mut place = access.next_index();
        if let Some(verified) = &mut self.verified {
            let mut draws = 1;
            while !verified.begin(place * *blocks, *blocks) {
                let next = (place + 1) % *places; // There is one: `blocks_a_job` sees to it.
                place = if draws < DRAWS_MAX { access.next_index() } else { next };
                draws += 1;
            }
        }
        let (block, blocks) = (place * *blocks, *blocks);
        self.operation(is_read, block, blocks, sort)
    }

    /// Whether the next operation reads, for one whose block does not matter.
    pub(crate) fn draw_kind(&mut self) -> bool {
        self.draw().1
    }

    /// Sort and kind of the next operation.
    fn draw(&mut self) -> (usize, bool) {
        if let Some(read_percent) = self.read_percent {
            return (0, self.kinds.chance(read_percent, 100));
        }
        let mut left = self.kinds.below(100);
        let found = self.sorts.iter().position(|sort| {
            let is_it = left < sort.percent;
            left = left.saturating_sub(sort.percent);
            is_it
        });
        let sort = found.expect("shares are 100 % together");
        (sort, self.sorts[sort].is_read)
    }

    /// Forgets an operation that was not begun.
    pub(crate) fn cancel(&mut self, operation: LoadOperation) {
        if let Some(verified) = &mut self.verified {
            verified.end(operation);
        }
    }

    /// A write of a block, as filling does it in order.
    pub(crate) fn fill(&mut self, block: u64) -> LoadOperation {
        self.begin(block);
        self.operation(false, block, 1, 0)
    }

    /// A read of a block whose content is known; `None` when it is not.
    pub(crate) fn read_back(&mut self, block: u64) -> Option<LoadOperation> {
        let is_known = self.verified.as_ref().is_some_and(|verified| verified.version(block) > 0);
        is_known.then(|| {
            self.begin(block);
            self.operation(true, block, 1, 0)
        })
    }

    fn begin(&mut self, block: u64) {
        if let Some(verified) = &mut self.verified {
            assert!(verified.begin(block, 1), "one operation a block"); // LOAD-OPERATIONS-1
        }
    }

    fn operation(&mut self, is_read: bool, block: u64, blocks: u64, sort: usize) -> LoadOperation {
        self.writes += u64::from(!is_read);
        let sort = u8::try_from(sort).expect("few sorts");
        LoadOperation { is_read, block, blocks, sort, write: self.writes }
    }

    /// What a write carries.
    pub(crate) fn payload(&self, operation: LoadOperation) -> BufSlice {
        let (_, len) = self.place(operation);
        let data = &self.sorts[usize::from(operation.sort)].data;
        let mut bytes = AlignedBuf::scratch(len);
        for block in operation.block..operation.block + operation.blocks {
            // LOAD-OPERATIONS-1: nobody else changes the block's version meanwhile.
            let of_block = |verified: &VerifyState| verified.version(block) + 1;
            let version = self.verified.as_ref().map_or(operation.write, of_block);
            for (unit, place) in self.pieces(operation, block, data) {
                data.block(unit, version, &mut bytes[place..place + data.block_bytes]);
            }
        }
        bytes.freeze()
    }

    /// Ends an operation: compares what a read found, remembers what a write left.
    pub(crate) fn end(&mut self, operation: LoadOperation, found: Option<&[u8]>) -> Result<()> {
        let Some(verified) = &mut self.verified else { return Ok(()) };
        verified.end(operation);
        let Some(found) = found else {
            verified.wrote(operation);
            return Ok(());
        };
        let blocks = operation.block..operation.block + operation.blocks;
        blocks.into_iter().try_for_each(|block| self.compare(operation, block, found))
    }

    /// Compares a block of what a read found with what was written to it last.
    fn compare(&self, operation: LoadOperation, block: u64, found: &[u8]) -> Result<()> {
        let Some(verified) = &self.verified else { return Ok(()) };
        let version = verified.version(block);
        if version == 0 {
            return Ok(());
        }
        let data = &self.sorts[verified.sort(block)].data;
        let mut expected = vec![0; data.block_bytes];
        for (unit, place) in self.pieces(operation, block, data) {
            data.block(unit, version, &mut expected);
            let differs = |(index, byte)| found.get(place + index) != Some(byte);
            if let Some(byte) = expected.iter().enumerate().position(differs) {
                let offset = self.offset(operation.block) + (place + byte) as u64;
                return Err(Error::Mismatch { offset, writes: version });
            }
        }
        Ok(())
    }

    /// The index of each 4 KiB of a block on the disk, and its place in the operation.
    fn pieces(
        &self,
        operation: LoadOperation,
        block: u64,
        data: &DataSpec,
    ) -> impl Iterator<Item = (u64, usize)> + use<> {
        let (unit_bytes, first) = (data.block_bytes, self.offset(block) / data.block_bytes as u64);
        let before = usize::try_from(block - operation.block).expect("bytes of one operation");
        let begin = before * self.block_bytes;
        (0..self.block_bytes / unit_bytes)
            .map(move |unit| (first + unit as u64, begin + unit * unit_bytes))
    }
}

impl VerifyState {
    /// Takes blocks for an operation; none when one of them is taken.
    fn begin(&mut self, block: u64, blocks: u64) -> bool {
        let mut all = block..block + blocks;
        let is_free = all.clone().all(|block| !self.under_way.contains(&block));
        if is_free {
            self.under_way.extend(all.by_ref());
        }
        is_free
    }

    fn end(&mut self, operation: LoadOperation) {
        for block in operation.block..operation.block + operation.blocks {
            self.under_way.remove(&block);
        }
    }

    fn wrote(&mut self, operation: LoadOperation) {
        for block in operation.block..operation.block + operation.blocks {
            let index = index(block);
            self.versions[index] = self.versions[index].checked_add(1).unwrap_or(1);
            self.sorts[index] = operation.sort;
        }
    }

    fn version(&self, block: u64) -> u64 {
        u64::from(self.versions[index(block)])
    }

    fn sort(&self, block: u64) -> usize {
        usize::from(self.sorts[index(block)])
    }
}

fn index(block: u64) -> usize {
    usize::try_from(block).expect("a version for every block")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessPattern;
    use crate::load::mixture::{Mixture, MixturePart};

    const BLOCKS: u64 = 100;

    fn operations(spec: LoadSpec) -> Operations {
        of_job(spec, 1)
    }

    fn of_job(spec: LoadSpec, job: u32) -> Operations {
        let size_bytes = BLOCKS * spec.block_bytes as u64;
        let part = JobPart { job, begin_bytes: u64::from(job) * size_bytes, size_bytes };
        Operations::new(&spec, &part).unwrap()
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
        let mut first = of_job(spec, 0);
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

    /// Random reads of two blocks beside sequential writes of four and random ones of one.
    fn mixed() -> LoadSpec {
        let part = |percent, is_read, blocks: usize, pattern| MixturePart {
            percent,
            is_read,
            bytes: blocks * 8192,
            pattern,
            ..MixturePart::BASE
        };
        let (random, sequential) = (AccessPattern::Uniform, AccessPattern::Sequential);
        let small = MixturePart { compression_ratio: 4.0, ..part(25, false, 1, random) };
        let parts = [part(25, true, 2, random), part(50, false, 4, sequential), small];
        LoadSpec { depth: 8, ..LoadSpec::default() }.mixed(Mixture::of(&parts).unwrap())
    }

    #[test]
    fn sorts_have_their_shares_sizes_and_patterns() {
        let mut operations = operations(mixed());
        let mut counts = [0; 3];
        let mut next_sequential = 0;
        for _ in 0..20_000 {
            let operation = operations.next();
            counts[usize::from(operation.sort)] += 1;
            assert_eq!(operation.block % operation.blocks, 0);
            assert!(operation.block + operation.blocks <= BLOCKS);
            if operation.sort == 1 {
                assert_eq!(operation.block, next_sequential);
                next_sequential = (next_sequential + 4) % BLOCKS;
            }
        }
        for (count, percent) in counts.into_iter().zip([25, 50, 25]) {
            let share = f64::from(count) / 200.0;
            assert!((share - f64::from(percent)).abs() < 1.5, "{share} of {percent} %");
        }
    }

    #[test]
    fn sizes_of_a_job_file_come_by_their_shares() {
        let text = "[a]\nruntime=1\nrw=randrw\nrwmixread=70\nbssplit=4k/60:16k/30:64k/10\n";
        let spec = crate::fio::FioFile::read(text).unwrap().jobs(true).unwrap()[0].load;
        let mut operations = operations(spec);
        let mut counts = [0.0_f64; 6];
        for _ in 0..50_000 {
            let operation = operations.next();
            let (_, len) = operations.place(operation);
            let size = [4, 16, 64].iter().position(|kib| *kib << 10 == len).unwrap();
            counts[size + if operation.is_read { 0 } else { 3 }] += 1.0;
        }
        let mut chi_squared = 0.0;
        for (count, percent) in counts.into_iter().zip([42.0, 21.0, 7.0, 18.0, 9.0, 3.0]) {
            assert!((count / 500.0 - percent).abs() < 1.0, "{count} for {percent} %");
            chi_squared += (count - percent * 500.0).powi(2) / (percent * 500.0);
        }
        // 99.9 % of 5 degrees of freedom.
        assert!(chi_squared < 20.5, "{chi_squared}");
    }

    #[test]
    fn what_several_sorts_wrote_is_known_block_by_block() {
        let mut operations = operations(LoadSpec { verify: true, ..mixed() });
        let mut disk = vec![0; 100 * 8192];
        let mut compared = 0;
        for _ in 0..2000 {
            let under_way: Vec<LoadOperation> = (0..8).map(|_| operations.next()).collect();
            for operation in under_way {
                let (offset, len) = operations.place(operation);
                let begin = usize::try_from(offset).unwrap() - disk.len();
                if operation.is_read {
                    operations.end(operation, Some(&disk[begin..begin + len])).unwrap();
                    compared += 1;
                } else {
                    disk[begin..begin + len].copy_from_slice(&operations.payload(operation));
                    operations.end(operation, None).unwrap();
                }
            }
        }
        assert!(compared > 1000, "{compared}");
        disk[5 * 8192] ^= 1;
        let read = operations.read_back(5).unwrap();
        let found = operations.end(read, Some(&disk[5 * 8192..6 * 8192]));
        assert!(matches!(found, Err(Error::Mismatch { .. })));
    }
}
