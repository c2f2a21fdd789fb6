//! The loop that all vector kernels have, over their own registers.
//!
//! A chunk of each source is loaded once and added to all outputs of a group, whose sums stay in registers until all
//! sources are in.

/// Outputs that are computed at a time: with more, their sums would not stay in registers.
pub(super) const ROWS_MAX: usize = 4;

/// Defines `compute` from what a module has: `CHUNK` bytes a turn, a `Vector` of `VECTOR` bytes, `Table` with the
/// function `table` for a factor, `split`, and `load`, `store`, `zero`, `xor` and `multiply`. A shortcut may compute
/// some factors in another way; it says whether it did.
macro_rules! vector_kernel {
    ($features:tt $(, $shortcut:ident)?) => {
        type Chunk = [u8; CHUNK];

        /// Vectors of a chunk.
        const VECTORS: usize = CHUNK / VECTOR;

        const _: () = assert!(CHUNK.is_multiple_of(VECTOR));

        /// Computes sums over sources of the same length, on a processor that has the instructions.
        pub(super) fn compute(sources: &[&[u8]], sums: &mut [Sum<'_>]) {
            for group in sums.chunks_mut(ROWS_MAX) {
                compute_group(sources, group);
            }
        }

        fn compute_group(sources: &[&[u8]], sums: &mut [Sum<'_>]) {
            let mut chunks: Vec<&[Chunk]> = Vec::with_capacity(sources.len());
            let mut tails: Vec<Chunk> = Vec::with_capacity(sources.len());
            for source in sources {
                let (whole, tail) = source.as_chunks();
                chunks.push(whole);
                if !tail.is_empty() {
                    tails.push([0; CHUNK]);
                    tails.last_mut().expect("just pushed")[..tail.len()].copy_from_slice(tail);
                }
            }
            let mut outputs: Vec<&mut [Chunk]> = Vec::with_capacity(sums.len());
            let mut output_tails: Vec<&mut [u8]> = Vec::with_capacity(sums.len());
            let mut factors: Vec<&[u8]> = Vec::with_capacity(sums.len());
            for sum in sums {
                let (whole, tail) = sum.output.as_chunks_mut();
                outputs.push(whole);
                output_tails.push(tail);
                factors.push(&sum.factors);
            }
            // SAFETY: the processor has the instructions (KERNEL-2).
            #[expect(unsafe_code, reason = "instructions that not every processor has")]
            unsafe {
                add_up(&chunks, &factors, &mut outputs)
            };
            if output_tails.iter().all(|tail| tail.is_empty()) {
                return;
            }
            let tails: Vec<&[Chunk]> = tails.iter().map(std::slice::from_ref).collect();
            let mut whole = vec![[0; CHUNK]; output_tails.len()];
            let mut outputs: Vec<&mut [Chunk]> =
                whole.iter_mut().map(std::slice::from_mut).collect();
            // SAFETY: as above.
            #[expect(unsafe_code, reason = "instructions that not every processor has")]
            unsafe {
                add_up(&tails, &factors, &mut outputs)
            };
            for (tail, whole) in output_tails.iter_mut().zip(&whole) {
                tail.copy_from_slice(&whole[..tail.len()]);
            }
        }

        /// Chooses the loop for a number of outputs, and whether the first is a plain sum.
        #[target_feature(enable = $features)]
        fn add_up(sources: &[&[Chunk]], factors: &[&[u8]], outputs: &mut [&mut [Chunk]]) {
            $(
                if $shortcut(sources, factors, outputs) {
                    return;
                }
            )?
            let has_plain_sum = factors.first().is_some_and(|row| row.iter().all(|f| *f == 1));
            match (outputs.len(), has_plain_sum) {
                (1, true) => add_rows::<1, true>(sources, factors, outputs),
                (1, false) => add_rows::<1, false>(sources, factors, outputs),
                (2, true) => add_rows::<2, true>(sources, factors, outputs),
                (2, false) => add_rows::<2, false>(sources, factors, outputs),
                (3, true) => add_rows::<3, true>(sources, factors, outputs),
                (3, false) => add_rows::<3, false>(sources, factors, outputs),
                (4, true) => add_rows::<4, true>(sources, factors, outputs),
                (4, false) => add_rows::<4, false>(sources, factors, outputs),
                (outputs, _) => unreachable!("a group of {outputs} outputs"),
            }
        }

        #[target_feature(enable = $features)]
        fn add_rows<const ROWS: usize, const PLAIN: bool>(
            sources: &[&[Chunk]],
            factors: &[&[u8]],
            outputs: &mut [&mut [Chunk]],
        ) {
            let outputs: &mut [&mut [Chunk]; ROWS] =
                outputs.try_into().expect("as many outputs as rows");
            let mut tables = [[EMPTY; ROWS]; STRIPS_MAX];
            for (row, factors) in factors.iter().enumerate() {
                for (tables, factor) in tables.iter_mut().zip(*factors) {
                    tables[row] = table(&FACTORS[usize::from(*factor)]);
                }
            }
            let tables = &tables[..sources.len()];
            for chunk in 0..outputs[0].len() {
                let mut sums = [[zero(); VECTORS]; ROWS];
                for (source, tables) in sources.iter().zip(tables) {
                    let bytes = source[chunk].as_chunks::<VECTOR>().0;
                    for (vector, bytes) in bytes.iter().enumerate() {
                        let loaded = load(bytes);
                        let halves = split(loaded);
                        for row in 0..ROWS {
                            let term = if PLAIN && row == 0 {
                                loaded
                            } else {
                                multiply(halves, &tables[row])
                            };
                            sums[row][vector] = xor(sums[row][vector], term);
                        }
                    }
                }
                for (output, sums) in outputs.iter_mut().zip(sums) {
                    let bytes = output[chunk].as_chunks_mut::<VECTOR>().0;
                    for (bytes, sum) in bytes.iter_mut().zip(sums) {
                        store(bytes, sum);
                    }
                }
            }
        }
    };
}

pub(super) use vector_kernel;
