//! Sums by AVX2: a product is looked up by shuffles, for the lower and the upper four bits of 32 bytes at a time.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi8, _mm256_and_si256, _mm256_cmpgt_epi8, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64,
    _mm256_storeu_si256, _mm256_xor_si256,
};

use super::sum::Sum;
use super::vector::{ROWS_MAX, vector_kernel};
use crate::field::{FACTORS, Factor, REDUCED, double};
use crate::limits::STRIPS_MAX;

const VECTOR: usize = 32;

/// Two vectors, so that tables are loaded half as often; four rows of sums and both halves of each just fit.
const CHUNK: usize = 64;

type Vector = __m256i;

/// Products of the lower four bits, twice, and of the upper four, twice: a shuffle looks up in either half of a
/// register.
type Table = [[u8; VECTOR]; 2];

const EMPTY: Table = [[0; VECTOR]; 2];

fn table(factor: &Factor) -> Table {
    let mut table = EMPTY;
    let halves = factor.nibbles.as_chunks::<16>().0;
    for (twice, half) in table.iter_mut().zip(halves) {
        twice.as_chunks_mut().0.fill(*half);
    }
    table
}

/// The lower and the upper four bits of each byte.
#[target_feature(enable = "avx2")]
#[inline]
fn split(bytes: Vector) -> [Vector; 2] {
    let mask = _mm256_set1_epi8(15);
    let upper = _mm256_srli_epi64::<4>(bytes);
    [_mm256_and_si256(bytes, mask), _mm256_and_si256(upper, mask)]
}

#[target_feature(enable = "avx2")]
#[inline]
fn multiply(halves: [Vector; 2], table: &Table) -> Vector {
    let lower = _mm256_shuffle_epi8(load(&table[0]), halves[0]);
    let upper = _mm256_shuffle_epi8(load(&table[1]), halves[1]);
    _mm256_xor_si256(lower, upper)
}

#[target_feature(enable = "avx2")]
#[inline]
fn zero() -> Vector {
    _mm256_setzero_si256()
}

#[target_feature(enable = "avx2")]
#[inline]
fn xor(a: Vector, b: Vector) -> Vector {
    _mm256_xor_si256(a, b)
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(bytes: &[u8; VECTOR]) -> Vector {
    // SAFETY: as many bytes are read, unaligned, as the array has.
    #[expect(unsafe_code, reason = "a load of a whole register")]
    let loaded = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    loaded
}

#[target_feature(enable = "avx2")]
#[inline]
fn store(bytes: &mut [u8; VECTOR], vector: Vector) {
    // SAFETY: as many bytes are written, unaligned, as the array has.
    #[expect(unsafe_code, reason = "a store of a whole register")]
    unsafe {
        _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector)
    };
}

/// P and Q, where factors are those. Q goes by Horner's rule, which only doubles: fewer instructions than lookups.
#[target_feature(enable = "avx2")]
fn add_powers(sources: &[&[Chunk]], factors: &[&[u8]], outputs: &mut [&mut [Chunk]]) -> bool {
    let ([p_factors, q_factors], [p, q]) = (factors, outputs) else { return false };
    let powers = std::iter::successors(Some(1), |power| Some(double(*power)));
    let are_powers = q_factors.iter().copied().eq(powers.take(q_factors.len()));
    if !are_powers || p_factors.iter().any(|factor| *factor != 1) {
        return false;
    }
    for (chunk, (p, q)) in p.iter_mut().zip(q.iter_mut()).enumerate() {
        let mut sums = [[zero(); 2]; VECTORS];
        for source in sources.iter().rev() {
            let bytes = source[chunk].as_chunks().0;
            for ([p, q], bytes) in sums.iter_mut().zip(bytes) {
                let loaded = load(bytes);
                *p = xor(*p, loaded);
                *q = xor(double_bytes(*q), loaded);
            }
        }
        let (p, q) = (p.as_chunks_mut().0, q.as_chunks_mut().0);
        for ((p, q), sums) in p.iter_mut().zip(q).zip(sums) {
            store(p, sums[0]);
            store(q, sums[1]);
        }
    }
    true
}

/// Each byte times 2.
#[target_feature(enable = "avx2")]
#[inline]
fn double_bytes(bytes: Vector) -> Vector {
    let has_high_bit = _mm256_cmpgt_epi8(zero(), bytes);
    let reduced = _mm256_and_si256(has_high_bit, _mm256_set1_epi8(REDUCED.cast_signed()));
    xor(_mm256_add_epi8(bytes, bytes), reduced)
}

vector_kernel!("avx2", add_powers);
