//! Tells bytes that look random, which no compressor makes smaller, from others: cheaper than trying.

/// Places that are looked at, spread evenly, and bytes at each.
const PLACES: usize = 16;
const BYTES_AT_PLACE: usize = 32;
const SAMPLED: usize = PLACES * BYTES_AT_PLACE;

/// Tables that bytes are counted in.
const TABLES: usize = 4;
const _: () = assert!(BYTES_AT_PLACE.is_multiple_of(TABLES));

/// Pairs of equal bytes among those sampled, counted in both orders and each byte with itself: random bytes have
/// 512 + 512 × 511 / 256 = 1534, with a standard deviation of 45. Below this bound, five deviations above, bytes count
/// as random.
const PAIRS_RANDOM_MAX: u32 = 1760;

/// Whether a sample of `bytes` looks random. May be wrong about bytes that repeat far from where they stood before;
/// short ones never look random.
#[must_use]
pub fn looks_random(bytes: &[u8]) -> bool {
    if bytes.len() < SAMPLED {
        return false;
    }
    // Equal bytes side by side would wait for each other's count: each of four in turn has a table of its own.
    let mut counts = [[0u16; 256]; TABLES];
    for place in bytes.chunks_exact(bytes.len() / PLACES).take(PLACES) {
        for bytes in place[..BYTES_AT_PLACE].as_chunks::<TABLES>().0 {
            for (table, byte) in counts.iter_mut().zip(bytes) {
                table[usize::from(*byte)] += 1;
            }
        }
    }
    let [first, second, third, fourth] = &counts;
    let sums = first.iter().zip(second).zip(third.iter().zip(fourth));
    let pairs = sums.map(|((a, b), (c, d))| u32::from(a + b + c + d).pow(2));
    pairs.sum::<u32>() < PAIRS_RANDOM_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    /// The sum in one table.
    fn looks_random_reference(bytes: &[u8]) -> bool {
        let mut counts = [0u32; 256];
        for place in bytes.chunks_exact(bytes.len() / PLACES).take(PLACES) {
            place[..BYTES_AT_PLACE].iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        counts.iter().map(|count| count * count).sum::<u32>() < PAIRS_RANDOM_MAX
    }

    #[test]
    fn several_tables_count_as_one() {
        let mut rng = Rng::new(7);
        let mut judged = [0, 0];
        for _ in 0..4000 {
            // From bytes of few values to bytes of all: some of them near the bound.
            let values = 150 + rng.below(107);
            let len = SAMPLED + usize::try_from(rng.below(5000)).unwrap();
            let bytes: Vec<u8> = (0..len).map(|_| rng.below(values).to_le_bytes()[0]).collect();
            assert_eq!(looks_random(&bytes), looks_random_reference(&bytes), "{values} {len}");
            judged[usize::from(looks_random(&bytes))] += 1;
        }
        assert!(judged.iter().all(|count| *count > 100), "both answers were seen: {judged:?}");
        assert_eq!(looks_random(&[5; 4096]), looks_random_reference(&[5; 4096]));
    }

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
