//! What a load is: everything that decides which operations are sent, and when.

use varve_types::limits::{BLOCK_SIZE_DEFAULT, MEDIA_ALIGN};

use crate::access::{AccessPattern, AccessSpec};
use crate::data::DataSpec;
use crate::error::{Error, Result, check_percent};
use crate::load::job::JobPart;
use crate::load::mixture::{Mixture, MixturePart};
use crate::mix::key;

/// A load on a target. Each job works on its own equal part of the target with a queue of its own, and repeats itself
/// exactly given the same seed, apart from the order in which answers come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LoadSpec {
    /// Everything follows from it.
    pub seed: u64,
    /// Bytes of an operation: a multiple of 4 KiB, at most [`LoadSpec::BLOCK_BYTES_MAX`].
    pub block_bytes: usize,
    /// Share of operations that read; the others write.
    pub read_percent: u8,
    /// How blocks are chosen; frequent ones are scattered.
    pub pattern: AccessPattern,
    /// Jobs at a time, each with a thread and a connection.
    pub jobs: u32,
    /// Operations under way at most, of each job.
    pub depth: u32,
    /// Operations a second of all jobs together; without it each answer is followed by the next operation.
    pub rate: Option<f64>,
    /// Whether a write is answered only when it survives power loss.
    pub durable: bool,
    /// Whether reads are compared with what was written. It takes 4 bytes of memory for each block of the target.
    pub verify: bool,
    /// What is written, in blocks of 4 KiB: shares of zeros and duplicates, compressibility.
    pub data: DataSpec,
    /// Operations of several sorts, instead of what block, reads, pattern, durability and compressibility say;
    /// [`LoadSpec::mixed`] makes such a load.
    pub mixture: Option<Mixture>,
}

impl Default for LoadSpec {
    /// Random reads of 4 KiB, 32 under way.
    fn default() -> Self {
        Self {
            seed: 1,
            block_bytes: BLOCK_SIZE_DEFAULT as usize,
            read_percent: 100,
            pattern: AccessPattern::Uniform,
            jobs: 1,
            depth: 32,
            rate: None,
            durable: false,
            verify: false,
            data: DataSpec::default(),
            mixture: None,
        }
    }
}

impl LoadSpec {
    /// Largest operation: what NBD servers take at most.
    pub const BLOCK_BYTES_MAX: usize = 32 << 20;
    /// Most jobs.
    pub const JOBS_MAX: u32 = 1024;
    /// Most operations under way of a job.
    pub const DEPTH_MAX: u32 = 4096;
    /// Most operations a second.
    pub const RATE_MAX: f64 = 1e9;

    /// The load with operations of these sorts.
    #[must_use]
    pub fn mixed(self, mixture: Mixture) -> Self {
        Self {
            block_bytes: mixture.block_bytes(),
            read_percent: mixture.read_percent(),
            mixture: Some(mixture),
            ..self
        }
    }

    /// Bytes of the largest operation.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.mixture.map_or(self.block_bytes, |mixture| mixture.bytes_max())
    }

    /// Whether such a load can be made.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<()> {
        let Self { block_bytes, jobs, depth, .. } = *self;
        check_bytes(block_bytes)?;
        for part in self.mixture.iter().flat_map(|mixture| mixture.parts()) {
            check_bytes(part.bytes)?;
            DataSpec { compression_ratio: part.compression_ratio, ..self.data }.check()?;
            self.access(0, 1, part.pattern).stream()?;
        }
        check_percent("reads", self.read_percent)?;
        check_count("jobs", jobs, Self::JOBS_MAX)?;
        check_count("operations under way", depth, Self::DEPTH_MAX)?;
        if let Some(rate) = self.rate
            && !(rate > 0.0 && rate <= Self::RATE_MAX)
        {
            return Err(Error::Rate { rate, rate_max: Self::RATE_MAX });
        }
        assert_eq!(
            self.data.block_bytes, BLOCK_SIZE_DEFAULT as usize,
            "data come in blocks of 4 KiB"
        );
        self.data.check()?;
        self.access(0, 1, self.pattern).stream().map(|_| ())
    }

    /// Blocks of each job on a target of `size_bytes`.
    ///
    /// # Errors
    /// `TargetSize` when they are too few: one, or in verify mode two for each operation under way.
    pub fn blocks_a_job(&self, size_bytes: u64) -> Result<u64> {
        let blocks = size_bytes / self.block_bytes as u64 / u64::from(self.jobs);
        let operations_min = if self.verify { 2 * u64::from(self.depth) } else { 1 };
        let blocks_min = operations_min * (self.bytes_max() / self.block_bytes) as u64;
        if blocks < blocks_min {
            let needed_bytes = blocks_min * self.block_bytes as u64 * u64::from(self.jobs);
            return Err(Error::TargetSize { size_bytes, needed_bytes });
        }
        Ok(blocks)
    }

    /// The equal part of a job, of `size_bytes` of a target from `begin_bytes` on.
    ///
    /// # Errors
    /// As [`LoadSpec::blocks_a_job`].
    pub fn part_of_job(&self, job: u32, begin_bytes: u64, size_bytes: u64) -> Result<JobPart> {
        let size_bytes = self.blocks_a_job(size_bytes)? * self.block_bytes as u64;
        Ok(JobPart { job, begin_bytes: begin_bytes + u64::from(job) * size_bytes, size_bytes })
    }

    /// The sorts of operations: of a load without a mixture the one that its fields say, whose kind is drawn.
    pub(crate) fn parts(&self) -> Vec<MixturePart> {
        let own = || MixturePart {
            percent: 100,
            is_read: self.read_percent == 100,
            bytes: self.block_bytes,
            pattern: self.pattern,
            durable: self.durable,
            compression_ratio: self.data.compression_ratio,
        };
        self.mixture.map_or_else(|| vec![own()], |mixture| mixture.parts().to_vec())
    }

    /// Accesses of job `job` to `blocks` places.
    pub(crate) fn access(&self, job: u32, blocks: u64, pattern: AccessPattern) -> AccessSpec {
        let seed = key([self.seed, u64::from(job)]);
        AccessSpec { seed, blocks, pattern, scatter: true }
    }
}

fn check_bytes(block_bytes: usize) -> Result<()> {
    let bytes_max = LoadSpec::BLOCK_BYTES_MAX;
    if block_bytes == 0 || !block_bytes.is_multiple_of(MEDIA_ALIGN) || block_bytes > bytes_max {
        return Err(Error::OperationBytes { block_bytes, bytes_max });
    }
    Ok(())
}

fn check_count(what: &'static str, count: u32, count_max: u32) -> Result<()> {
    if count == 0 || count > count_max {
        return Err(Error::Count { what, count, count_max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_that_cannot_be_are_refused() {
        let good = LoadSpec::default();
        good.check().unwrap();
        for block_bytes in [0, 512, 4097, 64 << 20] {
            let bad = LoadSpec { block_bytes, ..good };
            assert!(matches!(bad.check(), Err(Error::OperationBytes { .. })), "{block_bytes}");
        }
        assert!(matches!(LoadSpec { jobs: 0, ..good }.check(), Err(Error::Count { .. })));
        assert!(matches!(LoadSpec { depth: 5000, ..good }.check(), Err(Error::Count { .. })));
        for rate in [0.0, -1.0, f64::NAN, 2e9] {
            let bad = LoadSpec { rate: Some(rate), ..good };
            assert!(matches!(bad.check(), Err(Error::Rate { .. })), "{rate}");
        }
        let bad = LoadSpec { read_percent: 101, ..good };
        assert!(matches!(bad.check(), Err(Error::Percent { .. })));
        let bad = LoadSpec { pattern: AccessPattern::Zipf { theta: 9.0 }, ..good };
        assert!(matches!(bad.check(), Err(Error::Theta { .. })));
    }

    #[test]
    fn targets_are_divided_by_the_jobs() {
        let spec = LoadSpec { jobs: 3, ..LoadSpec::default() };
        assert_eq!(spec.blocks_a_job(10 * 4096).unwrap(), 3);
        assert!(matches!(
            spec.blocks_a_job(2 * 4096),
            Err(Error::TargetSize { needed_bytes: 12288, .. })
        ));
        let verified = LoadSpec { verify: true, depth: 4, ..spec };
        assert!(verified.blocks_a_job(23 * 4096).is_err());
        assert_eq!(verified.blocks_a_job(24 * 4096).unwrap(), 8);
        let part = spec.part_of_job(2, 1 << 20, 10 * 4096).unwrap();
        assert_eq!((part.begin_bytes, part.size_bytes), ((1 << 20) + 6 * 4096, 3 * 4096));
    }
}
