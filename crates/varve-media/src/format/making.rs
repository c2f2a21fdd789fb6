//! The mark of a drive on which a pool is being made. It stands where copies of the superblock will, until these
//! replace it.
//!
//! ```text
//!   0 magic "VARVENEW"    8 version u16                    10 reserved 6 bytes
//!  16 pool 16 bytes      32 checksum u64 of bytes 0 .. 32  40 zeros to 4096
//! ```
//!
//! All that is not zero lies in the first sector, so a mark that power loss cuts off is there or is not.

use varve_stdx::{AlignedBuf, BufSlice, Reader, Writer, checksum64};
use varve_types::PoolId;

use super::SUPERBLOCK_BYTES;

const MAGIC: u64 = u64::from_le_bytes(*b"VARVENEW");
const VERSION: u16 = 1;
const COVERED_BYTES: usize = 32;

pub(crate) fn encode_making(pool: PoolId) -> BufSlice {
    let mut out = AlignedBuf::zeroed(SUPERBLOCK_BYTES);
    let mut w = Writer::new(&mut out);
    w.u64(MAGIC);
    w.u16(VERSION);
    w.zeros(6);
    w.array(pool.0);
    assert_eq!(w.position(), COVERED_BYTES);
    let checksum = checksum64(&out[..COVERED_BYTES]);
    out[COVERED_BYTES..COVERED_BYTES + 8].copy_from_slice(&checksum.to_le_bytes());
    out.freeze()
}

/// Which pool is being made, if these bytes begin with a mark; what stands behind it may be left of what it replaced.
pub(crate) fn decode_making(bytes: &[u8]) -> Option<PoolId> {
    let mut r = Reader::new("mark of a new pool", bytes);
    let covered = r.bytes(COVERED_BYTES).ok()?;
    if r.u64().ok()? != checksum64(covered) {
        return None;
    }
    let mut r = Reader::new("mark of a new pool", covered);
    let is_mark = r.u64().ok()? == MAGIC && r.u16().ok()? == VERSION;
    let reserved = r.bytes(6).ok()?;
    let pool = PoolId(r.array().ok()?);
    (is_mark && reserved.iter().all(|byte| *byte == 0)).then_some(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_in_one_sector() {
        let bytes = encode_making(PoolId([7; 16]));
        assert_eq!(decode_making(&bytes), Some(PoolId([7; 16])));
        assert_eq!(decode_making(&bytes[..512]), Some(PoolId([7; 16])));
        assert!(bytes[512..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn truncations_and_bit_flips_are_refused() {
        let mut bytes = encode_making(PoolId([7; 16])).to_vec();
        for len in 0..COVERED_BYTES + 8 {
            assert_eq!(decode_making(&bytes[..len]), None, "{len} bytes");
        }
        for bit in 0..(COVERED_BYTES + 8) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode_making(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
