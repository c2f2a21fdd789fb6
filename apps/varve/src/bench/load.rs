//! The load of a report, for programs and in words.

use serde::{Deserialize, Serialize};
use varve_tool_bench::{AccessPattern, LoadSpec};
use varve_types::ByteCount;

/// What was done to the target. Loads that differ in nothing can be compared.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub(crate) struct Load {
    block_bytes: usize,
    pub(crate) read_percent: u8,
    pattern: String,
    jobs: u32,
    depth: u32,
    pub(crate) rate_per_second: Option<f64>,
    durable: bool,
    verify: bool,
    zero_percent: u8,
    duplicate_percent: u8,
    compression_ratio: f64,
    seed: u64,
}

impl Load {
    pub(crate) fn of(spec: &LoadSpec) -> Self {
        Self {
            block_bytes: spec.block_bytes,
            read_percent: spec.read_percent,
            pattern: pattern(spec.pattern),
            jobs: spec.jobs,
            depth: spec.depth,
            rate_per_second: spec.rate,
            durable: spec.durable,
            verify: spec.verify,
            zero_percent: spec.data.zero_percent,
            duplicate_percent: spec.data.duplicate_percent,
            compression_ratio: spec.data.compression_ratio,
            seed: spec.seed,
        }
    }

    /// One line.
    pub(crate) fn text(&self) -> String {
        let pace = match self.rate_per_second {
            None => "as fast as answered".to_owned(),
            Some(rate) => format!("{rate} operations/s"),
        };
        let jobs = if self.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", self.jobs) };
        format!(
            "{} {}, {} % reads, {jobs} × {} under way, {pace}",
            ByteCount(self.block_bytes as u64),
            self.pattern,
            self.read_percent,
            self.depth
        )
    }

    /// What is written, in one line.
    pub(crate) fn data(&self) -> String {
        let durable = if self.durable { "durable, " } else { "" };
        format!(
            "{durable}{} % zeros, {} % duplicates, compressible {}:1",
            self.zero_percent, self.duplicate_percent, self.compression_ratio
        )
    }
}

/// A load in words.
pub(super) fn load_text(spec: &LoadSpec) -> String {
    Load::of(spec).text()
}

/// A pattern as it is asked for.
pub(super) fn pattern(pattern: AccessPattern) -> String {
    match pattern {
        AccessPattern::Sequential => "sequential".to_owned(),
        AccessPattern::Uniform => "random".to_owned(),
        AccessPattern::Zipf { theta } => format!("zipf:{theta}"),
        AccessPattern::HotCold { access_percent, block_percent } => {
            format!("hot:{access_percent}/{block_percent}")
        }
    }
}
