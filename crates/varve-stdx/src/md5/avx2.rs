//! The steps of MD5 (RFC 1321, section 3.4) for eight messages, one in each 32-bit element of AVX2 registers.
//!
//! 1. Element `i` of every register belongs to message `i`; elements never mix but where blocks are transposed.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_loadu_si256,
    _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set1_epi32, _mm256_setr_epi32,
    _mm256_setzero_si256, _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_si256,
    _mm256_unpackhi_epi32, _mm256_unpackhi_epi64, _mm256_unpacklo_epi32, _mm256_unpacklo_epi64,
    _mm256_xor_si256,
};

use super::{Block, SIDE_BY_SIDE, State};

/// What is added in each step: the integer part of 2³² × |sin(step + 1)|.
#[rustfmt::skip]
const ADDED: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// Takes the blocks of eight messages into their states; each has as many.
#[target_feature(enable = "avx2")]
pub(super) fn compress(states: &mut [State; SIDE_BY_SIDE], blocks: &[&[Block]; SIDE_BY_SIDE]) {
    let count = blocks[0].len();
    assert!(blocks.iter().all(|blocks| blocks.len() == count), "all take as many blocks");
    let mut now = [_mm256_setzero_si256(); 4];
    for (word, register) in now.iter_mut().enumerate() {
        let [a, b, c, d, e, f, g, h] = states.each_ref().map(|state| state[word].cast_signed());
        *register = _mm256_setr_epi32(a, b, c, d, e, f, g, h);
    }
    for at in 0..count {
        let mut words = [_mm256_setzero_si256(); 16];
        for (half, words) in words.chunks_exact_mut(8).enumerate() {
            for (word, blocks) in words.iter_mut().zip(blocks) {
                *word = load(&blocks[at], 32 * half);
            }
            transpose(words);
        }
        let next = rounds(now, &words);
        for (register, next) in now.iter_mut().zip(next) {
            *register = _mm256_add_epi32(*register, next);
        }
    }
    for (word, register) in now.into_iter().enumerate() {
        for (state, element) in states.iter_mut().zip(elements(register)) {
            state[word] = element;
        }
    }
}

/// The four rounds of sixteen steps over one block of each message.
#[target_feature(enable = "avx2")]
#[inline]
fn rounds([mut a, mut b, mut c, mut d]: [__m256i; 4], words: &[__m256i; 16]) -> [__m256i; 4] {
    for i in (0..16).step_by(4) {
        a = choose::<7, 25>(a, b, [b, c, d], words[i], ADDED[i]);
        d = choose::<12, 20>(d, a, [a, b, c], words[i + 1], ADDED[i + 1]);
        c = choose::<17, 15>(c, d, [d, a, b], words[i + 2], ADDED[i + 2]);
        b = choose::<22, 10>(b, c, [c, d, a], words[i + 3], ADDED[i + 3]);
    }
    for i in (16..32).step_by(4) {
        a = choose::<5, 27>(a, b, [d, b, c], words[(5 * i + 1) % 16], ADDED[i]);
        d = choose::<9, 23>(d, a, [c, a, b], words[(5 * i + 6) % 16], ADDED[i + 1]);
        c = choose::<14, 18>(c, d, [b, d, a], words[(5 * i + 11) % 16], ADDED[i + 2]);
        b = choose::<20, 12>(b, c, [a, c, d], words[5 * i % 16], ADDED[i + 3]);
    }
    for i in (32..48).step_by(4) {
        a = step::<4, 28>(a, b, parity(b, c, d), words[(3 * i + 5) % 16], ADDED[i]);
        d = step::<11, 21>(d, a, parity(a, b, c), words[(3 * i + 8) % 16], ADDED[i + 1]);
        c = step::<16, 16>(c, d, parity(d, a, b), words[(3 * i + 11) % 16], ADDED[i + 2]);
        b = step::<23, 9>(b, c, parity(c, d, a), words[(3 * i + 14) % 16], ADDED[i + 3]);
    }
    for i in (48..64).step_by(4) {
        a = step::<6, 26>(a, b, last(b, c, d), words[7 * i % 16], ADDED[i]);
        d = step::<10, 22>(d, a, last(a, b, c), words[(7 * i + 7) % 16], ADDED[i + 1]);
        c = step::<15, 17>(c, d, last(d, a, b), words[(7 * i + 14) % 16], ADDED[i + 2]);
        b = step::<21, 11>(b, c, last(c, d, a), words[(7 * i + 5) % 16], ADDED[i + 3]);
    }
    [a, b, c, d]
}

/// One step; `LEFT` and `RIGHT` make 32.
#[target_feature(enable = "avx2")]
#[inline]
fn step<const LEFT: i32, const RIGHT: i32>(
    a: __m256i,
    b: __m256i,
    mixed: __m256i,
    word: __m256i,
    added: u32,
) -> __m256i {
    const { assert!(LEFT + RIGHT == 32) };
    let known = _mm256_add_epi32(_mm256_add_epi32(a, word), _mm256_set1_epi32(added.cast_signed()));
    let sum = _mm256_add_epi32(known, mixed);
    let turned = _mm256_or_si256(_mm256_slli_epi32::<LEFT>(sum), _mm256_srli_epi32::<RIGHT>(sum));
    _mm256_add_epi32(turned, b)
}

/// A step with F of the RFC, or with G and its arguments turned: where a bit of the first is set that of the second,
/// else of the third. They never overlap, so they are added one by one: of G, only the second is not known long before.
#[target_feature(enable = "avx2")]
#[inline]
fn choose<const LEFT: i32, const RIGHT: i32>(
    a: __m256i,
    b: __m256i,
    [which, one, other]: [__m256i; 3],
    word: __m256i,
    added: u32,
) -> __m256i {
    let known = _mm256_add_epi32(a, _mm256_andnot_si256(which, other));
    step::<LEFT, RIGHT>(known, b, _mm256_and_si256(which, one), word, added)
}

/// H of the RFC.
#[target_feature(enable = "avx2")]
#[inline]
fn parity(b: __m256i, c: __m256i, d: __m256i) -> __m256i {
    _mm256_xor_si256(b, _mm256_xor_si256(c, d))
}

/// I of the RFC.
#[target_feature(enable = "avx2")]
#[inline]
fn last(b: __m256i, c: __m256i, d: __m256i) -> __m256i {
    _mm256_xor_si256(c, _mm256_or_si256(b, _mm256_xor_si256(d, _mm256_set1_epi32(-1))))
}

/// Eight registers of eight words of one message become eight of one word of each message.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose(rows: &mut [__m256i]) {
    let (low, high) = (quarters(&rows[..4]), quarters(&rows[4..8]));
    for i in 0..4 {
        rows[i] = _mm256_permute2x128_si256::<0x20>(low[i], high[i]);
        rows[i + 4] = _mm256_permute2x128_si256::<0x31>(low[i], high[i]);
    }
}

/// The same for four by four words in either half of four registers.
#[target_feature(enable = "avx2")]
#[inline]
fn quarters(rows: &[__m256i]) -> [__m256i; 4] {
    let low = [_mm256_unpacklo_epi32(rows[0], rows[1]), _mm256_unpacklo_epi32(rows[2], rows[3])];
    let high = [_mm256_unpackhi_epi32(rows[0], rows[1]), _mm256_unpackhi_epi32(rows[2], rows[3])];
    [
        _mm256_unpacklo_epi64(low[0], low[1]),
        _mm256_unpackhi_epi64(low[0], low[1]),
        _mm256_unpacklo_epi64(high[0], high[1]),
        _mm256_unpackhi_epi64(high[0], high[1]),
    ]
}

/// 32 bytes of a block from `start`.
#[target_feature(enable = "avx2")]
#[inline]
fn load(block: &Block, start: usize) -> __m256i {
    let bytes: &[u8] = &block[start..start + 32];
    // SAFETY: 32 bytes are read, unaligned, and the slice has them.
    #[expect(unsafe_code, reason = "a load of a whole register")]
    let loaded = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    loaded
}

#[target_feature(enable = "avx2")]
#[inline]
fn elements(register: __m256i) -> [u32; 8] {
    let mut elements = [0; 8];
    // SAFETY: 32 bytes are written, unaligned, and the array has them.
    #[expect(unsafe_code, reason = "a store of a whole register")]
    unsafe {
        _mm256_storeu_si256(elements.as_mut_ptr().cast(), register)
    };
    elements
}
