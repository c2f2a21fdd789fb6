//! `varve bench ec`: how fast parity is computed.

use std::time::Duration;

use clap::Args;
use varve_bench::{EcReport, json, milliseconds};
use varve_client::{Failure, Result};
use varve_tool_bench::ParitySpec;
use varve_types::{ByteCount, parse_size};

use crate::output::print;

/// Bytes of the data strips together, where `--strip` does not say otherwise: a segment.
const SEGMENT_BYTES: u64 = 2 << 20;

/// What the default length of a strip is a multiple of, in bytes.
const STRIP_UNIT: u64 = 4096;

/// Measure how fast this machine computes erasure codes, by each kind of its instructions and by ISA-L
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 all strips were right, 1 else, 2 misused.")]
pub(crate) struct BenchEc {
    /// Data strips
    #[arg(short = 'k', long, default_value_t = 4, value_name = "COUNT")]
    data_strips: usize,

    /// Parity strips: as many may be lost
    #[arg(short = 'm', long, default_value_t = 2, value_name = "COUNT")]
    parity_strips: usize,

    /// Length of a strip [default: a segment of 2 MiB, divided by the data strips and rounded up to 4 KiB]
    #[arg(long, value_parser = parse_size, value_name = "SIZE")]
    strip: Option<ByteCount>,

    /// Strips to rebuild from the others, data strips first [default: as many as there are parity strips]
    #[arg(long, value_name = "COUNT")]
    lost: Option<usize>,

    /// CPU time for each kind of instructions, to encode and to rebuild, in nine rounds
    #[arg(long, default_value = "2s", value_parser = milliseconds, value_name = "TIME")]
    duration: u64,

    /// Print JSON; fields are added over time, never renamed
    #[arg(long)]
    json: bool,
}

impl BenchEc {
    pub(crate) fn run(self) -> Result<String> {
        let share = SEGMENT_BYTES.div_ceil(self.data_strips.max(1) as u64);
        let strip = self.strip.unwrap_or(ByteCount(share.next_multiple_of(STRIP_UNIT)));
        let spec = ParitySpec {
            data: self.data_strips,
            parity: self.parity_strips,
            strip_bytes: usize::try_from(strip.0).unwrap_or(usize::MAX),
            lost: self.lost.unwrap_or(self.parity_strips),
            time: Duration::from_millis(self.duration),
        };
        spec.check().map_err(|error| Failure::misuse(error.to_string()))?;
        let report = EcReport::measure(&spec)?;
        print(&if self.json { json(&report)? } else { report.text() })?;
        match report.wrong_rounds() {
            0 => Ok(String::new()),
            wrong => Err(Failure::new(format!("wrong strips in {wrong} rounds"))),
        }
    }
}
