//! Sums by GFNI in registers of AVX2: a product is a matrix over the bits of each byte, of 32 bytes at a time.
//!
//! The instruction that multiplies in a field has another polynomial built in; the affine one has no opinion.

use std::arch::x86_64::{
    __m256i, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi64x,
    _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
};

use super::sum::Sum;
use super::vector::{ROWS_MAX, vector_kernel};
use crate::field::{FACTORS, Factor};
use crate::limits::STRIPS_MAX;

const VECTOR: usize = 32;

/// Two vectors: with four rows half of the sixteen registers are sums.
const CHUNK: usize = 64;

type Vector = __m256i;

type Table = i64;

const EMPTY: Table = 0;

fn table(factor: &Factor) -> Table {
    factor.affine.cast_signed()
}

#[inline]
fn split(bytes: Vector) -> Vector {
    bytes
}

#[target_feature(enable = "avx2,gfni")]
#[inline]
fn multiply(bytes: Vector, table: &Table) -> Vector {
    _mm256_gf2p8affine_epi64_epi8::<0>(bytes, _mm256_set1_epi64x(*table))
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

vector_kernel!("avx2,gfni");
