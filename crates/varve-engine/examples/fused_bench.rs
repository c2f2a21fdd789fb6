//! What it is worth to reduce a block in one pass: test for zeros, fingerprint, entropy test, LZ4 and the copy into the
//! open segment while it is in the processor's cache, as the drain does for a batch at a time, against each step over
//! all data before the next.
//!
//! `cargo run --release -p varve-engine --example fused_bench -- [MiB of data] [rounds]`
//!
//! Both ways are taken in turn; the medians of their CPU times are told.

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use rustix::time::{ClockId, clock_gettime};
use varve_stdx::{FINGERPRINT_BATCH, Fingerprinter, Rng, is_zero, looks_random};

const BLOCK: usize = 4096;

/// Blocks of a batch of the drain.
const DRAIN_BATCH: usize = 64;

/// The steps, with what they need.
struct Steps {
    fingerprinter: Fingerprinter,
    table: CompressTable,
    scratch: Vec<u8>,
    /// What is stored of all blocks, one after the other, between two separate steps.
    staged: Vec<u8>,
    lengths: Vec<usize>,
    random: Vec<bool>,
    segment: Vec<u8>,
    segment_used: usize,
    /// Something of each result, so that none is left out.
    seen: u64,
}

impl Steps {
    fn zeros(&mut self, blocks: &[&[u8]]) {
        self.seen += blocks.iter().filter(|block| is_zero(block)).count() as u64;
    }

    fn fingerprints(&mut self, blocks: &[&[u8]]) {
        for group in blocks.chunks(FINGERPRINT_BATCH) {
            let found = self.fingerprinter.fingerprints(group);
            self.seen += u64::from(found[group.len() - 1][0]);
        }
    }

    /// Compresses a block to the scratch; the length, or 0 for what is stored from where it is.
    fn compress(&mut self, block: &[u8], looks_random: bool) -> usize {
        if looks_random {
            return 0;
        }
        let len = compress_into_with_table(block, &mut self.scratch, &mut self.table);
        let len = len.expect("the scratch takes the longest");
        if len <= BLOCK * 7 / 8 { len } else { 0 }
    }

    fn test_all(&mut self, blocks: &[&[u8]]) {
        self.random.clear();
        self.random.extend(blocks.iter().map(|block| looks_random(block)));
    }

    /// Compresses all blocks, and keeps what comes of them for the step that appends.
    fn compress_all(&mut self, blocks: &[&[u8]]) {
        self.staged.clear();
        self.lengths.clear();
        for (index, block) in blocks.iter().enumerate() {
            let len = self.compress(block, self.random[index]);
            self.staged.extend_from_slice(&self.scratch[..len]);
            self.lengths.push(len);
        }
    }

    fn append_all(&mut self, blocks: &[&[u8]]) {
        let mut from = 0;
        for (block, len) in blocks.iter().zip(&self.lengths) {
            let staged = &self.staged[from..from + len];
            from += len;
            let stored = if staged.is_empty() { block } else { staged };
            append(&mut self.segment, &mut self.segment_used, stored);
        }
        self.seen += u64::from(self.segment[0]);
    }

    /// Tests each block, compresses it and appends what comes of it at once.
    fn compress_and_append(&mut self, blocks: &[&[u8]]) {
        for block in blocks {
            let len = self.compress(block, looks_random(block));
            let stored = if len == 0 { block } else { &self.scratch[..len] };
            append(&mut self.segment, &mut self.segment_used, stored);
        }
        self.seen += u64::from(self.segment[0]);
    }
}

fn append(segment: &mut [u8], used: &mut usize, stored: &[u8]) {
    if *used + stored.len() > segment.len() {
        *used = 0;
    }
    segment[*used..*used + stored.len()].copy_from_slice(stored);
    *used += stored.len();
}

fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn timed(run: impl FnOnce()) -> f64 {
    let begin = cpu_ns();
    run();
    cpu_ns() - begin
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<usize>().ok());
    let mib = numbers.next().unwrap_or(256).max(1);
    let rounds = numbers.next().unwrap_or(9).max(1);
    let mut data = vec![0; mib << 20];
    let mut steps = Steps {
        fingerprinter: Fingerprinter::new(&[7; 32]),
        table: CompressTable::small(),
        scratch: vec![0; get_maximum_output_size(BLOCK)],
        staged: Vec::with_capacity(mib << 20),
        lengths: Vec::new(),
        random: Vec::new(),
        segment: vec![0; 2 << 20],
        segment_used: 0,
        seen: 0,
    };
    println!("{:<22} {:>9} {:>12} {:>7}", "data", "fused ns", "separate ns", "ratio");
    for (name, is_compressible) in [("random", false), ("2:1 compressible", true)] {
        Rng::new(1).fill(&mut data);
        if is_compressible {
            data.chunks_mut(64).step_by(2).for_each(|piece| piece.fill(b'v'));
        }
        let blocks: Vec<&[u8]> = data.chunks(BLOCK).collect();
        let (mut fused, mut separate) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            fused.push(timed(|| {
                for batch in blocks.chunks(DRAIN_BATCH) {
                    steps.zeros(batch);
                    steps.fingerprints(batch);
                    steps.compress_and_append(batch);
                }
            }));
            separate.push(timed(|| {
                steps.zeros(&blocks);
                steps.fingerprints(&blocks);
                steps.test_all(&blocks);
                steps.compress_all(&blocks);
                steps.append_all(&blocks);
            }));
        }
        let per_block = |values: Vec<f64>| median(values) / blocks.len() as f64;
        let (fused, separate) = (per_block(fused), per_block(separate));
        println!("{name:<22} {fused:>9.0} {separate:>12.0} {:>7.2}", separate / fused);
    }
    std::hint::black_box(steps.seen);
}
