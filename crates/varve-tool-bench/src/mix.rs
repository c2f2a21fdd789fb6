//! Mixing of 64-bit words: what every draw of this crate that is a pure function of its place begins with.

/// SplitMix64's step: a bijection, so that different words stay different.
pub(crate) const fn mix(word: u64) -> u64 {
    let z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// One word for a list of them. Lists that differ in one word only never meet; others do by chance.
pub(crate) fn key<const N: usize>(words: [u64; N]) -> u64 {
    words.into_iter().fold(N as u64, |key, word| mix(key ^ word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_length_count() {
        let keys = [key([1, 2]), key([2, 1]), key([1, 2, 0]), key([0, 1, 2]), key([1])];
        for (at, a) in keys.iter().enumerate() {
            assert!(keys[at + 1..].iter().all(|b| a != b), "{keys:?}");
        }
    }
}
