//! Tells blocks of zeros, which take no space, from others.

/// Whether all bytes are zero.
#[must_use]
pub fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    rest.iter().all(|byte| *byte == 0)
        && words.iter().all(|word| word.iter().fold(0, |all, byte| all | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::is_zero;

    #[test]
    fn one_bit_anywhere_is_not_zero() {
        let mut bytes = vec![0; 4096 + 7];
        assert!(is_zero(&bytes));
        for at in [0, 63, 64, 4095, 4096, 4102] {
            bytes[at] = 1;
            assert!(!is_zero(&bytes));
            bytes[at] = 0;
        }
    }
}
