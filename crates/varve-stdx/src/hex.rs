//! Bytes as hexadecimal text: digests, entity tags, signatures and random ids are written so.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Bytes in hexadecimal, two lower-case digits each.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The bytes that a text spells, in digits of either case; none where it is not whole bytes in hexadecimal.
#[must_use]
pub fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

fn digit(text: u8) -> Option<u8> {
    let value = char::from(text).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_digits() {
        let all: Vec<u8> = (0..=255).collect();
        let text = hex(&all);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"), "{text}");
        assert_eq!(parse_hex(&text), Some(all.clone()));
        assert_eq!(parse_hex(&text.to_uppercase()), Some(all));
        assert_eq!((hex(&[]), parse_hex("")), (String::new(), Some(Vec::new())));
    }

    #[test]
    fn what_is_not_hexadecimal_is_refused() {
        for text in ["a", "abc", "0g", "+f", " 1", "0é", "0x12"] {
            assert_eq!(parse_hex(text), None, "{text}");
        }
    }
}
