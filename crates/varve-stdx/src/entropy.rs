//! Tells bytes that look random, which no compressor makes smaller, from others: cheaper than trying.

/// Places that are looked at, spread evenly, and bytes at each.
const PLACES: usize = 16;
const BYTES_AT_PLACE: usize = 32;
const SAMPLED: usize = PLACES * BYTES_AT_PLACE;

/// Pairs of equal bytes among those sampled, counted in both orders and each byte with itself: random bytes have
/// 512 + 512 × 511 / 256 = 1534, with a standard deviation of 45. Below this bound, five deviations above, bytes count as random.
const PAIRS_RANDOM_MAX: u32 = 1760;

/// Whether a sample of `bytes` looks random. May be wrong about bytes that repeat far from where they stood before; short ones never
/// look random.
#[must_use]
pub fn looks_random(bytes: &[u8]) -> bool {
    if bytes.len() < SAMPLED {
        return false;
    }
    let mut counts = [0u32; 256];
    for place in bytes.chunks_exact(bytes.len() / PLACES).take(PLACES) {
        for byte in &place[..BYTES_AT_PLACE] {
            counts[usize::from(*byte)] += 1;
        }
    }
    counts.iter().map(|count| count * count).sum::<u32>() < PAIRS_RANDOM_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn random(len: usize, seed: u64) -> Vec<u8> {
        let mut rng = Rng::new(seed);
        (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect()
    }

    #[test]
    fn random_bytes_look_random() {
        let wrong = (0..1000).filter(|seed| !looks_random(&random(4096, *seed))).count();
        assert_eq!(wrong, 0);
    }

    #[test]
    fn text_numbers_and_half_empty_blocks_do_not() {
        let text: Vec<u8> = b"The quick brown fox jumps over the lazy dog. ".repeat(100);
        assert!(!looks_random(&text[..4096]));
        let numbers: Vec<u8> = (0..512u64).flat_map(|n| (n * 1_000_003).to_le_bytes()).collect();
        assert!(!looks_random(&numbers));
        let mut half = random(4096, 1);
        half[..2048].fill(0);
        assert!(!looks_random(&half));
        let mut hexadecimal = random(4096, 2);
        hexadecimal
            .iter_mut()
            .for_each(|byte| *byte = b"0123456789abcdef"[usize::from(*byte & 15)]);
        assert!(!looks_random(&hexadecimal));
        assert!(!looks_random(&random(1024, 3).repeat(4)), "four copies of 1 KiB");
        assert!(!looks_random(&random(511, 4)), "too short to tell");
    }
}
