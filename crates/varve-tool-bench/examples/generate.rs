//! Writes the blocks of a specification to standard output; what they hold and how fast they were made goes to standard
//! error.
//!
//! `cargo run --release -p varve-tool-bench --example generate -- --blocks 262144 --duplicates 50 --ratio 2 > data`

use std::io::{self, Write};
use std::time::{Duration, Instant};

use clap::Parser;
use varve_tool_bench::{DataSpec, StockPick};

/// Blocks made before they are written.
const BATCH_BLOCKS: usize = 256;

/// Writes blocks of data that follow from a seed.
#[derive(Parser)]
struct Arguments {
    /// Blocks to write.
    #[arg(long)]
    blocks: u64,
    /// Index of the first one.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Version of all of them.
    #[arg(long, default_value_t = 0)]
    version: u64,
    /// Everything follows from it.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Tells volumes of one seed apart.
    #[arg(long, default_value_t = 0)]
    volume: u32,
    /// Bytes of a block.
    #[arg(long, default_value_t = 4096)]
    block_bytes: usize,
    /// Zero blocks, in percent.
    #[arg(long, default_value_t = 0)]
    zeros: u8,
    /// Blocks that come from the stock, in percent.
    #[arg(long, default_value_t = 0)]
    duplicates: u8,
    /// Distinct blocks of the stock.
    #[arg(long, default_value_t = 1000)]
    stock: u64,
    /// Draw from the stock by a Zipf law with this exponent.
    #[arg(long)]
    zipf: Option<f64>,
    /// Compression ratio by LZ4.
    #[arg(long, default_value_t = 1.0)]
    ratio: f64,
    /// Count what exact deduplication would keep, which takes memory for every block.
    #[arg(long)]
    count: bool,
    /// Make the blocks and write none.
    #[arg(long)]
    dry_run: bool,
}

impl Arguments {
    fn spec(&self) -> DataSpec {
        DataSpec {
            seed: self.seed,
            volume: self.volume,
            block_bytes: self.block_bytes,
            zero_percent: self.zeros,
            duplicate_percent: self.duplicates,
            stock_blocks: self.stock,
            stock_pick: self.zipf.map_or(StockPick::Uniform, |theta| StockPick::Zipf { theta }),
            compression_ratio: self.ratio,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let spec = arguments.spec();
    spec.check()?;
    let blocks = arguments.first..arguments.first.saturating_add(arguments.blocks);
    let mut batch = vec![0; BATCH_BLOCKS * spec.block_bytes];
    let mut out = io::stdout().lock();
    let mut making = Duration::ZERO;
    let mut next = blocks.start;
    while next < blocks.end {
        let begun = Instant::now();
        let mut filled = 0;
        for (block, index) in batch.chunks_exact_mut(spec.block_bytes).zip(next..blocks.end) {
            spec.block(index, arguments.version, block);
            filled += block.len();
            next += 1;
        }
        making += begun.elapsed();
        if !arguments.dry_run {
            out.write_all(&batch[..filled])?;
        }
    }
    out.flush()?;
    let mib = (arguments.blocks as f64 * spec.block_bytes as f64) / f64::from(1 << 20);
    let seconds = making.as_secs_f64();
    eprintln!(
        "{} blocks, {mib:.1} MiB, made in {seconds:.3} s: {:.0} MiB/s",
        arguments.blocks,
        mib / seconds
    );
    if arguments.count {
        let expected = spec.expected(blocks, arguments.version);
        eprintln!(
            "{} zero, {} distinct, {} duplicate: {:.3} to 1",
            expected.zero_blocks,
            expected.distinct_blocks,
            expected.duplicate_blocks(),
            expected.dedup_ratio()
        );
    }
    Ok(())
}
