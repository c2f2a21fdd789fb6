//! Sums by GFNI in registers of AVX-512: a product is a matrix over the bits of each byte, of 64 bytes at a time.

use std::arch::x86_64::{
    __m512i, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_set1_epi64,
    _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
};

use super::sum::Sum;
use super::vector::{ROWS_MAX, vector_kernel};
use crate::field::{FACTORS, Factor};
use crate::limits::STRIPS_MAX;

const VECTOR: usize = 64;

/// Four vectors: with four rows half of the thirty-two registers are sums.
const CHUNK: usize = 256;

type Vector = __m512i;

type Table = i64;

const EMPTY: Table = 0;

fn table(factor: &Factor) -> Table {
    factor.affine.cast_signed()
}

#[inline]
fn split(bytes: Vector) -> Vector {
    bytes
}

#[target_feature(enable = "avx512f,avx512bw,gfni")]
#[inline]
fn multiply(bytes: Vector, table: &Table) -> Vector {
    _mm512_gf2p8affine_epi64_epi8::<0>(bytes, _mm512_set1_epi64(*table))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn zero() -> Vector {
    _mm512_setzero_si512()
}

#[target_feature(enable = "avx512f")]
#[inline]
fn xor(a: Vector, b: Vector) -> Vector {
    _mm512_xor_si512(a, b)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load(bytes: &[u8; VECTOR]) -> Vector {
    // SAFETY: as many bytes are read, unaligned, as the array has.
    #[expect(unsafe_code, reason = "a load of a whole register")]
    let loaded = unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) };
    loaded
}

#[target_feature(enable = "avx512f")]
#[inline]
fn store(bytes: &mut [u8; VECTOR], vector: Vector) {
    // SAFETY: as many bytes are written, unaligned, as the array has.
    #[expect(unsafe_code, reason = "a store of a whole register")]
    unsafe {
        _mm512_storeu_si512(bytes.as_mut_ptr().cast(), vector)
    };
}

vector_kernel!("avx512f,avx512bw,gfni");
