//! The mark of a drive on which a pool is being made, or which has left one. It stands where copies of the superblock
//! will, until these replace it, or did.
//!
//! ```text
//!   0 magic "VARVENEW"    8 version u16   10 kind u8       11 reserved 5 bytes
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
const BEING_MADE: u8 = 0;
const FORMER: u8 = 1;

/// The mark of a drive on which a pool is being made.
pub(crate) fn encode_making(pool: PoolId) -> BufSlice {
    encode(pool, BEING_MADE)
}

/// The mark of a drive that has left a pool.
pub(crate) fn encode_former(pool: PoolId) -> BufSlice {
    encode(pool, FORMER)
}

fn encode(pool: PoolId, kind: u8) -> BufSlice {
    let mut out = AlignedBuf::zeroed(SUPERBLOCK_BYTES);
    let mut w = Writer::new(&mut out);
    w.u64(MAGIC);
    w.u16(VERSION);
    w.u8(kind);
    w.zeros(5);
    w.array(pool.0);
    assert_eq!(w.position(), COVERED_BYTES);
    let checksum = checksum64(&out[..COVERED_BYTES]);
    out[COVERED_BYTES..COVERED_BYTES + 8].copy_from_slice(&checksum.to_le_bytes());
    out.freeze()
}

/// Which pool is being made, if these bytes begin with a mark; what stands behind it may be left of what it replaced.
pub(crate) fn decode_making(bytes: &[u8]) -> Option<PoolId> {
    decode(bytes, BEING_MADE)
}

/// Which pool the drive has left, if these bytes begin with the mark of one that has.
pub(crate) fn decode_former(bytes: &[u8]) -> Option<PoolId> {
    decode(bytes, FORMER)
}

fn decode(bytes: &[u8], kind: u8) -> Option<PoolId> {
    let mut r = Reader::new("mark of a new pool", bytes);
    let covered = r.bytes(COVERED_BYTES).ok()?;
    if r.u64().ok()? != checksum64(covered) {
        return None;
    }
    let mut r = Reader::new("mark of a new pool", covered);
    let is_mark = r.u64().ok()? == MAGIC && r.u16().ok()? == VERSION;
    let is_kind = r.u8().ok()? == kind;
    let reserved = r.bytes(5).ok()?;
    let pool = PoolId(r.array().ok()?);
    (is_mark && is_kind && reserved.iter().all(|byte| *byte == 0)).then_some(pool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_in_one_sector() {
        let bytes = encode_making(PoolId([7; 16]));
        assert_eq!(decode_making(&bytes), Some(PoolId([7; 16])));
        assert_eq!(decode_making(&bytes[..512]), Some(PoolId([7; 16])));
        assert_eq!(decode_former(&bytes), None);
        let former = encode_former(PoolId([7; 16]));
        assert_eq!((decode_former(&former), decode_making(&former)), (Some(PoolId([7; 16])), None));
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
