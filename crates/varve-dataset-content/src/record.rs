//! Values of keys of orphans and references. Described in `docs/format.md`.

use varve_stdx::{DecodeError, Reader, Writer};

use crate::content::BLOCKS_MAX;

const VERSION: u16 = 1;

/// An orphan of blocks: how many they are. Of anything else: nothing.
pub(crate) fn encode_orphan(blocks: u64) -> Vec<u8> {
    let mut out = vec![0; 16];
    let mut fields = Writer::new(&mut out);
    fields.u16(VERSION);
    fields.zeros(6);
    fields.u64(blocks);
    out
}

/// Blocks of an orphan.
pub(crate) fn decode_orphan(bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut fields = Reader::new("record of an orphan", bytes);
    fields.version(VERSION)?;
    fields.zeros(6)?;
    let blocks = fields.u64()?;
    if blocks > BLOCKS_MAX {
        return Err(fields.bad("blocks", blocks));
    }
    fields.end()?;
    Ok(blocks)
}

/// The value of a reference's key.
pub(crate) fn encode_reference() -> Vec<u8> {
    let mut out = vec![0; 8];
    Writer::new(&mut out).u16(VERSION);
    out
}

/// Refuses values that no reference has.
pub(crate) fn decode_reference(bytes: &[u8]) -> Result<(), DecodeError> {
    let mut fields = Reader::new("record of a reference", bytes);
    fields.version(VERSION)?;
    fields.zeros(6)?;
    fields.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_others_are_refused() {
        let orphan = encode_orphan(513);
        assert_eq!(orphan, [1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_orphan(&orphan), Ok(513));
        assert!(decode_orphan(&encode_orphan(BLOCKS_MAX + 1)).is_err());
        let reference = encode_reference();
        assert_eq!(reference, [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(decode_reference(&reference), Ok(()));
        for len in 0..orphan.len() {
            assert!(decode_orphan(&orphan[..len]).is_err(), "{len} bytes");
            assert_eq!(decode_reference(&orphan[..len]).is_ok(), len == 8, "{len} bytes");
        }
        for bit in 0..64 {
            let (mut orphan, mut reference) = (orphan.clone(), reference.clone());
            orphan[bit / 8] ^= 1 << (bit % 8);
            reference[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_orphan(&orphan).is_err() && decode_reference(&reference).is_err());
        }
    }
}
