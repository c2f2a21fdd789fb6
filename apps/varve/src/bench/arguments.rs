//! The load as flags.

use clap::Args;
use varve_tool_bench::{AccessPattern, DataSpec, LoadSpec, Target, processes_named};
use varve_types::ByteCount;

use crate::cli::size;
use crate::failure::{Failure, Result};

/// Exponent of a Zipf law where none is named: that of most benchmarks of key-value stores.
const THETA_DEFAULT: f64 = 0.99;

/// What is done to the target.
#[derive(Args, Debug)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadArgs {
    /// Size of an operation, a multiple of 4 KiB
    #[arg(long, value_parser = size, default_value = "4KiB", value_name = "SIZE")]
    block: ByteCount,

    /// Share of operations that read, in percent; the others write
    #[arg(long, value_parser = percent, default_value = "100", value_name = "PERCENT")]
    reads: u8,

    /// Which blocks: random, sequential, zipf(:THETA), or hot:PERCENT/PERCENT for accesses to hot blocks and how many those are
    #[arg(long, value_parser = pattern, default_value = "random", value_name = "PATTERN")]
    pattern: AccessPattern,

    /// Jobs at a time, each with a thread, a connection and an equal part of the target
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    jobs: u32,

    /// Operations under way of each job at most
    #[arg(long, default_value_t = 32, value_name = "COUNT")]
    depth: u32,

    /// Operations a second of all jobs together, due at even times whatever the target does; latency counts from then. Without it each
    /// answer is followed by the next operation
    #[arg(long, value_name = "OPS")]
    rate: Option<f64>,

    /// Wait for each write until it survives power loss
    #[arg(long)]
    durable: bool,

    /// Compare what is read with what was written, and at the end read everything back that was written
    #[arg(long)]
    verify: bool,

    /// Share of written blocks of 4 KiB that are zeros, in percent
    #[arg(long, value_parser = percent, default_value = "0", value_name = "PERCENT")]
    zeros: u8,

    /// Share of written blocks of 4 KiB that are copies of a thousand others, in percent
    #[arg(long, value_parser = percent, default_value = "0", value_name = "PERCENT")]
    duplicates: u8,

    /// Bytes of a written block ÷ bytes that LZ4 makes of it
    #[arg(long, default_value_t = 1.0, value_name = "RATIO")]
    compression: f64,

    /// Where blocks, kinds and data follow from
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
}

impl LoadArgs {
    /// The load that they describe.
    pub(crate) fn spec(&self) -> Result<LoadSpec> {
        let data = DataSpec {
            zero_percent: self.zeros,
            duplicate_percent: self.duplicates,
            compression_ratio: self.compression,
            ..DataSpec::default()
        };
        let spec = LoadSpec {
            seed: self.seed,
            block_bytes: usize::try_from(self.block.0).unwrap_or(usize::MAX),
            read_percent: self.reads,
            pattern: self.pattern,
            jobs: self.jobs,
            depth: self.depth,
            rate: self.rate,
            durable: self.durable,
            verify: self.verify,
            data,
        };
        spec.check().map_err(|error| Failure::misuse(error.to_string()))?;
        Ok(spec)
    }
}

/// Reads a target.
pub(crate) fn target(text: &str) -> std::result::Result<Target, String> {
    text.parse().map_err(|error: varve_tool_bench::Error| error.to_string())
}

/// Reads which processes to look at: an id, or all of a name.
pub(crate) fn processes(text: &str) -> std::result::Result<Vec<u32>, String> {
    let found = text.parse().map_or_else(|_| processes_named(text), |id| vec![id]);
    if found.is_empty() { Err(format!("no process is named `{text}`")) } else { Ok(found) }
}

fn percent(text: &str) -> std::result::Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let read = number.parse().ok().filter(|percent| *percent <= 100);
    read.ok_or_else(|| format!("`{text}` is no whole percentage from 0 to 100"))
}

fn pattern(text: &str) -> std::result::Result<AccessPattern, String> {
    let unknown =
        || format!("`{text}` is none of random, sequential, zipf(:THETA), hot:PERCENT/PERCENT");
    let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
    match (name, rest) {
        ("random", None) => Ok(AccessPattern::Uniform),
        ("sequential", None) => Ok(AccessPattern::Sequential),
        ("zipf", None) => Ok(AccessPattern::Zipf { theta: THETA_DEFAULT }),
        ("zipf", Some(theta)) => {
            let theta = theta.parse().map_err(|_| unknown())?;
            Ok(AccessPattern::Zipf { theta })
        }
        ("hot", Some(shares)) => {
            let (accesses, blocks) = shares.split_once('/').ok_or_else(unknown)?;
            let (access_percent, block_percent) = (percent(accesses)?, percent(blocks)?);
            Ok(AccessPattern::HotCold { access_percent, block_percent })
        }
        _ => Err(unknown()),
    }
}

/// Reads a time: `500ms`, `30s`, `5m`, `1h`.
pub(crate) fn milliseconds(text: &str) -> std::result::Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(format!("`{text}` is no time; write 500ms, 30s, 5m or 1h")),
    };
    let time_ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    // A year: what is added to it stays far from the end of 64 bits in ns.
    let time_ms = time_ms.filter(|time_ms| *time_ms <= 366 * 24 * 3_600_000);
    time_ms.ok_or_else(|| format!("`{text}` is no time of up to a year"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(milliseconds("500ms"), Ok(500));
        assert_eq!(milliseconds("5m"), Ok(300_000));
        for wrong in ["5", "s", "", "1d", "99999999999999999999s", "9000h", "1.5s"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_are_named() {
        assert_eq!(pattern("zipf:1.2"), Ok(AccessPattern::Zipf { theta: 1.2 }));
        let hot = AccessPattern::HotCold { access_percent: 90, block_percent: 5 };
        assert_eq!(pattern("hot:90/5%"), Ok(hot));
        for wrong in ["", "uniform", "random:1", "zipf:x", "hot:90", "hot:90/101"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }
}
