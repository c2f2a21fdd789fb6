//! One side of a root: a header and the caller's bytes under one checksum.
//!
//! ```text
//!  0 magic "VARVROOT"   8 format u16   10 reserved u16   12 root u32 (0 pool, s + 1 shard s; 0x80000000 and
//!                                                     above: tables of a redundant pool)
//! 16 version u64       24 pool 16 bytes
//! 40 length u32        44 reserved u32
//! 48 checksum u64 of bytes 0 .. 48 and of the payload
//! 56 reserved u64      64 payload, then zeros to a multiple of 4096
//! ```
//!
//! Formatting writes version 0 with an empty payload on both sides: a root whose sides are both unreadable was damaged.

use varve_stdx::{
    AlignedBuf, BufSlice, DecodeError, Reader, Writer, checksum64, checksum64_seeded,
};
use varve_types::PoolId;
use varve_types::limits::MEDIA_ALIGN;

const MAGIC: u64 = u64::from_le_bytes(*b"VARVROOT");
const FORMAT: u16 = 1;
const COVERED_BYTES: usize = 48;

/// Number of the drive table of a redundant pool in its slots.
pub(crate) const DRIVE_TABLE_NUMBER: u32 = 0x8000_0000;

/// Number of the first shard's journal record there.
pub(crate) const JOURNAL_RECORD_NUMBER: u32 = 0x8100_0000;

/// Number of the first layout page there.
pub(crate) const LAYOUT_PAGE_NUMBER: u32 = 0x8200_0000;

/// Bytes before the payload.
pub(crate) const ROOT_HEADER_BYTES: usize = 64;

/// Where a root belongs and which version it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RootSlot {
    pub(crate) pool: PoolId,
    pub(crate) root: u32,
    pub(crate) version: u64,
}

/// Why bytes are no side of this root.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RootFault {
    #[error(transparent)]
    Fields(#[from] DecodeError),
    #[error("wrong magic")]
    Magic,
    #[error("checksum mismatch")]
    Checksum,
    #[error("unknown format {0}")]
    Format(u16),
    #[error("it belongs to another root or pool")]
    Misplaced,
    #[error("reserved bytes are not zero")]
    Reserved,
}

fn checksum(covered: &[u8], payload: &[u8]) -> u64 {
    checksum64_seeded(payload, checksum64(covered))
}

pub(crate) fn encode_root(slot: RootSlot, payload: &[u8]) -> BufSlice {
    let len = ROOT_HEADER_BYTES + payload.len();
    let mut out = AlignedBuf::zeroed(len.next_multiple_of(MEDIA_ALIGN));
    let mut w = Writer::new(&mut out);
    w.u64(MAGIC);
    w.u16(FORMAT);
    w.u16(0);
    w.u32(slot.root);
    w.u64(slot.version);
    w.array(slot.pool.0);
    w.u32(u32::try_from(payload.len()).expect("the caller checked the length"));
    w.u32(0);
    assert_eq!(w.position(), COVERED_BYTES);
    let checksum = checksum(&out[..COVERED_BYTES], payload);
    let mut w = Writer::new(&mut out[COVERED_BYTES..]);
    w.u64(checksum);
    w.u64(0);
    w.bytes(payload);
    out.freeze()
}

/// The version and payload of one side of the root `root` of `pool`.
pub(crate) fn decode_root(
    pool: PoolId,
    root: u32,
    bytes: &[u8],
) -> Result<(u64, &[u8]), RootFault> {
    let mut whole = Reader::new("root slot", bytes);
    let covered = whole.bytes(COVERED_BYTES)?;
    let (stored, reserved_tail) = (whole.u64()?, whole.u64()?);
    let mut r = Reader::new("root slot", covered);
    if r.u64()? != MAGIC {
        return Err(RootFault::Magic);
    }
    let (format, reserved) = (r.u16()?, r.u16()?);
    let (found_root, version) = (r.u32()?, r.u64()?);
    let found_pool = PoolId(r.array()?);
    let (length, reserved_after) = (r.u32()?, r.u32()?);
    let payload = whole.bytes(usize::try_from(length).unwrap_or(usize::MAX))?;
    if stored != checksum(covered, payload) {
        return Err(RootFault::Checksum);
    }
    if format != FORMAT {
        return Err(RootFault::Format(format));
    }
    if found_root != root || found_pool != pool {
        return Err(RootFault::Misplaced);
    }
    if reserved != 0 || reserved_after != 0 || reserved_tail != 0 {
        return Err(RootFault::Reserved);
    }
    Ok((version, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: RootSlot = RootSlot { pool: PoolId([3; 16]), root: 2, version: 9 };

    #[test]
    fn round_trip() {
        for payload in [&b""[..], b"abc", &[0xA5; 5000]] {
            let bytes = encode_root(SLOT, payload);
            assert!(bytes.len().is_multiple_of(MEDIA_ALIGN));
            assert_eq!(decode_root(SLOT.pool, 2, &bytes), Ok((9, payload)));
        }
    }

    #[test]
    fn every_truncation_of_what_counts_is_refused() {
        let bytes = encode_root(SLOT, b"payload");
        for len in 0..ROOT_HEADER_BYTES + 7 {
            assert!(decode_root(SLOT.pool, 2, &bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn every_bit_flip_of_what_counts_is_refused() {
        let mut bytes = encode_root(SLOT, b"payload").to_vec();
        for bit in 0..(ROOT_HEADER_BYTES + 7) * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_root(SLOT.pool, 2, &bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_misdirected_root_is_refused() {
        let bytes = encode_root(SLOT, b"payload");
        assert_eq!(decode_root(SLOT.pool, 3, &bytes), Err(RootFault::Misplaced));
        assert_eq!(decode_root(PoolId([4; 16]), 2, &bytes), Err(RootFault::Misplaced));
    }
}
