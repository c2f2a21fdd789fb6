//! MD5, of one message or of several at a time. Entity tags of S3 are MD5s, and most of what a large upload costs is
//! theirs.
//!
//! Each step of MD5 waits for the one before it, so one message goes at 0.5 GB/s a core and no vector instruction
//! helps. Eight messages go through the same steps side by side, one in each 32-bit element of an AVX2 register, at 3
//! GB/s in all.
//!
//! 1. What a message comes to does not depend on what it was hashed together with: `update_together` and `update`
//!    agree.
//! 2. Processors without AVX2 use the md-5 crate alone; the tests compare the kernel with it.

#[cfg(target_arch = "x86_64")]
mod avx2;

use md5::block_api::compress;

/// Messages that the processor hashes at the price of one.
const SIDE_BY_SIDE: usize = 8;

type Block = [u8; 64];
type State = [u32; 4];

/// A message that is being hashed.
#[derive(Clone)]
pub struct Md5 {
    state: State,
    len_bytes: u64,
    /// The bytes after the last whole block, and then whatever there was before.
    tail: Block,
}

/// Whole blocks that a message is to take in.
struct BlockRun<'a> {
    state: &'a mut State,
    blocks: &'a [Block],
}

impl Default for Md5 {
    fn default() -> Self {
        let state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
        Self { state, len_bytes: 0, tail: [0; 64] }
    }
}

impl std::fmt::Debug for Md5 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Md5").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

impl Md5 {
    /// Takes in the next bytes of the message.
    pub fn update(&mut self, data: &[u8]) {
        let run = self.begin(data);
        compress(run.state, run.blocks);
    }

    /// Takes in the next bytes of several messages. The more of them and the more alike in length, up to eight, the
    /// less each costs.
    pub fn update_together(messages: &mut [(&mut Self, &[u8])]) {
        let mut runs: Vec<_> =
            messages.iter_mut().map(|(message, data)| message.begin(data)).collect();
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.blocks.len()));
        runs.chunks_mut(SIDE_BY_SIDE).for_each(finish_runs);
    }

    /// The MD5 of all bytes taken in.
    #[must_use]
    pub fn finish(mut self) -> [u8; 16] {
        let len_bits = self.len_bytes.wrapping_mul(8);
        let used = self.tail_len();
        // A one bit, zeros up to where 8 bytes are left of a block, the length.
        let zeros = (64 + 56 - 1 - used) % 64;
        let mut padding = [0; 72];
        padding[0] = 0x80;
        padding[1 + zeros..1 + zeros + 8].copy_from_slice(&len_bits.to_le_bytes());
        self.update(&padding[..1 + zeros + 8]);
        assert_eq!(self.tail_len(), 0, "the padding ends a block");
        let mut digest = [0; 16];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    /// Takes in all of `data` but its whole blocks, which are to follow at once.
    fn begin<'a>(&'a mut self, data: &'a [u8]) -> BlockRun<'a> {
        let used = self.tail_len();
        self.len_bytes = self.len_bytes.wrapping_add(data.len() as u64);
        let (head, data) = data.split_at(if used == 0 { 0 } else { data.len().min(64 - used) });
        self.tail[used..used + head.len()].copy_from_slice(head);
        if used + head.len() == 64 {
            compress(&mut self.state, &[self.tail]);
        }
        let (blocks, rest) = data.as_chunks();
        if !data.is_empty() {
            self.tail[..rest.len()].copy_from_slice(rest);
        }
        BlockRun { state: &mut self.state, blocks }
    }

    fn tail_len(&self) -> usize {
        usize::from(self.len_bytes.to_le_bytes()[0] % 64)
    }
}

/// Runs of as many messages as go side by side at most, the longest first.
fn finish_runs(mut runs: &mut [BlockRun<'_>]) {
    loop {
        let left = runs.iter().take_while(|run| !run.blocks.is_empty()).count();
        runs = &mut runs[..left];
        if left < 2 || !side_by_side(runs) {
            return runs.iter_mut().for_each(|run| compress(run.state, run.blocks));
        }
    }
}

/// Takes as many blocks of each as the last has. Returns false, having done nothing, where the processor cannot.
#[cfg(target_arch = "x86_64")]
fn side_by_side(runs: &mut [BlockRun<'_>]) -> bool {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return false;
    }
    let count = runs.last().map_or(0, |run| run.blocks.len());
    let mut states = [State::default(); SIDE_BY_SIDE];
    // Where there are fewer than eight, the others hash what the first does, and nobody looks.
    let mut blocks = [&runs[0].blocks[..count]; SIDE_BY_SIDE];
    for (at, run) in runs.iter_mut().enumerate() {
        let now;
        (now, run.blocks) = run.blocks.split_at(count);
        (states[at], blocks[at]) = (*run.state, now);
    }
    // SAFETY: the processor has AVX2, as was found above.
    #[expect(unsafe_code, reason = "instructions that not every processor has")]
    unsafe {
        avx2::compress(&mut states, &blocks)
    };
    runs.iter_mut().zip(states).for_each(|(run, state)| *run.state = state);
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn side_by_side(_: &mut [BlockRun<'_>]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rng, hex};
    use md5::Digest;

    /// Those of RFC 1321, appendix A.5.
    const KNOWN: [(&str, &str); 7] = [
        ("", "d41d8cd98f00b204e9800998ecf8427e"),
        ("a", "0cc175b9c0f1b6a831c399e269772661"),
        ("abc", "900150983cd24fb0d6963f7d28e17f72"),
        ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
        ("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"),
        (
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
            "d174ab98d277d9f5a5611c2c9f419d9f",
        ),
        (
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
            "57edf4a22be3c955ac49da2e2107b67a",
        ),
    ];

    #[test]
    fn known_answers() {
        for (text, known) in KNOWN {
            let mut alone = Md5::default();
            alone.update(text.as_bytes());
            assert_eq!(hex(&alone.finish()), known);
        }
        let mut together: Vec<_> = KNOWN.iter().map(|_| Md5::default()).collect();
        let mut messages: Vec<_> =
            together.iter_mut().zip(KNOWN).map(|(md5, (text, _))| (md5, text.as_bytes())).collect();
        Md5::update_together(&mut messages);
        for (md5, (_, known)) in together.into_iter().zip(KNOWN) {
            assert_eq!(hex(&md5.finish()), known);
        }
    }

    /// Every padding, and every place of a piece's end in a block.
    #[test]
    fn two_pieces_of_any_length_agree_with_the_reference() {
        let bytes: Vec<u8> = (0..200u8).collect();
        for cut in 0..=bytes.len() {
            for end in cut..=bytes.len() {
                let mut md5 = Md5::default();
                md5.update(&bytes[..cut]);
                md5.update(&bytes[cut..end]);
                let reference: [u8; 16] = md5::Md5::digest(&bytes[..end]).into();
                assert_eq!(md5.finish(), reference, "{cut} {end}");
            }
        }
    }

    #[test]
    fn messages_hashed_together_agree_with_the_reference() {
        let mut rng = Rng::new(0x1321);
        let mut bytes = vec![0; 1 << 16];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&rng.next_u64().to_le_bytes());
        }
        for round in 0..300 {
            let count = 1 + usize::try_from(rng.below(20)).unwrap();
            let mut hashed: Vec<_> = (0..count).map(|_| (Md5::default(), Vec::new())).collect();
            for _ in 0..1 + rng.below(4) {
                // Lengths that are mostly alike, as pieces of large bodies are, and some that are not.
                let common = rng.below(20_000);
                let mut pieces = Vec::new();
                for (md5, all) in &mut hashed {
                    let len = if rng.below(3) == 0 { rng.below(20_000) } else { common };
                    let len = usize::try_from(len).unwrap();
                    let start = usize::try_from(rng.below(40_000)).unwrap();
                    let piece = &bytes[start..start + len];
                    all.extend_from_slice(piece);
                    pieces.push((md5, piece));
                }
                Md5::update_together(&mut pieces);
            }
            for (md5, all) in hashed {
                let reference: [u8; 16] = md5::Md5::digest(&all).into();
                assert_eq!(md5.finish(), reference, "round {round}, {} bytes", all.len());
            }
        }
    }
}
