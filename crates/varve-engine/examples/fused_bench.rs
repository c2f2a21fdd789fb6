//! What it is worth to reduce a block in one pass: test for zeros, fingerprint, entropy test, LZ4 and the copy into the open segment while it is
//! in the processor's cache, as the drain does for a batch at a time, against each step over all data before the next.
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
    /// What is stored of each block, one after the other: of the batch, or of all.
    staged: Vec<u8>,
    lengths: Vec<usize>,
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

    fn compress(&mut self, blocks: &[&[u8]]) {
        self.staged.clear();
        self.lengths.clear();
        for block in blocks {
            let stored = if looks_random(block) {
                None // It is appended from where it is.
            } else {
                let len = compress_into_with_table(block, &mut self.scratch, &mut self.table);
                Some(len.expect("the scratch takes the longest"))
                    .filter(|len| *len <= BLOCK * 7 / 8)
            };
            self.staged.extend_from_slice(&self.scratch[..stored.unwrap_or(0)]);
            self.lengths.push(stored.unwrap_or(0));
        }
    }

    fn append(&mut self, blocks: &[&[u8]]) {
        let mut from = 0;
        for (block, len) in blocks.iter().zip(&self.lengths) {
            let staged = &self.staged[from..from + len];
            from += len;
            let stored = if staged.is_empty() { block } else { staged };
            if self.segment_used + stored.len() > self.segment.len() {
                self.segment_used = 0;
            }
            let end = self.segment_used + stored.len();
            self.segment[self.segment_used..end].copy_from_slice(stored);
            self.segment_used = end;
        }
        self.seen += u64::from(self.segment[0]);
    }
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
                    steps.compress(batch);
                    steps.append(batch);
                }
            }));
            separate.push(timed(|| {
                steps.zeros(&blocks);
                steps.fingerprints(&blocks);
                steps.compress(&blocks);
                steps.append(&blocks);
            }));
        }
        let per_block = |values: Vec<f64>| median(values) / blocks.len() as f64;
        let (fused, separate) = (per_block(fused), per_block(separate));
        println!("{name:<22} {fused:>9.0} {separate:>12.0} {:>7.2}", separate / fused);
    }
    std::hint::black_box(steps.seen);
}
