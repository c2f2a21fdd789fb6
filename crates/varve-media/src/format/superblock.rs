//! The superblock: what a drive is, and what rarely changes. Four copies, of which two must agree.
//!
//! ```text
//!   0 magic "VARVESUP"      8 version u16      10 header bytes u16 (4096)  12 reserved u32
//!  16 compat u64           24 ro_compat u64    32 incompat u64
//!  40 revision u64         48 pool 16 bytes    64 created_unix_ms u64
//!  72 drive_index u16      74 drive_count u16  76 lanes_of_pool u16        78 reserved u16
//!  80 lane_bytes u64       88 segment_bytes u32                            92 segment_count u32 (of this drive)
//!  96 root_bytes_max u32  100 shape u8 (1 one disk, 2 directory)          101 reserved to 4088
//! 4088 checksum u64 of bytes 0 .. 4088
//! ```

use varve_stdx::{AlignedBuf, BufSlice, DecodeError, Reader, Writer, checksum64};
use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_MAX};
use varve_types::{PoolId, ShardId};

use super::SUPERBLOCK_BYTES;

const MAGIC: u64 = u64::from_le_bytes(*b"VARVESUP");
const VERSION: u16 = 1;
const CHECKSUM_OFFSET: usize = SUPERBLOCK_BYTES - 8;
const FIELDS_BYTES: usize = 101;
const POOL_OFFSET: usize = 48;

/// Incompatible features this version knows: none yet exist.
const INCOMPAT_KNOWN: u64 = 0;

/// Features that allow reading only to who does not know them.
const RO_COMPAT_KNOWN: u64 = 0;

/// Largest lane in bytes: all lanes and slots of a drive then end below 2^63.
pub(crate) const LANE_BYTES_MAX: u64 = 1 << 48;

/// Largest bound of a root, in bytes: it is read and written in one go.
pub(crate) const ROOT_BYTES_MAX: u32 = 16 << 20;

/// How a drive keeps its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    OneDisk,
    Directory,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub(crate) compat: u64,
    pub(crate) ro_compat: u64,
    pub(crate) incompat: u64,
    /// Grows when the superblock is rewritten: of two agreeing pairs the higher counts.
    pub(crate) revision: u64,
    pub(crate) pool: PoolId,
    pub(crate) created_unix_ms: u64,
    pub(crate) drive_index: u16,
    pub(crate) drive_count: u16,
    pub(crate) lanes_of_pool: u16,
    pub(crate) lane_bytes: u64,
    pub(crate) segment_bytes: u32,
    pub(crate) segment_count: u32,
    pub(crate) root_bytes_max: u32,
    pub(crate) shape: Shape,
}

/// Why bytes are no superblock.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum SuperblockFault {
    #[error(transparent)]
    Fields(#[from] DecodeError),
    #[error("wrong magic")]
    Magic,
    #[error("checksum mismatch")]
    Checksum,
    #[error("unknown version {0}")]
    Version(u16),
    #[error("unknown features {0:#x}")]
    Features(u64),
    #[error("field {0} is out of range")]
    Field(&'static str),
}

/// The pool that the bytes name, if they were once meant to be a superblock, intact or not.
pub(crate) fn superblock_claim(bytes: &[u8]) -> Option<PoolId> {
    let mut r = Reader::new("superblock", bytes);
    if r.u64().ok()? != MAGIC {
        return None;
    }
    r.bytes(POOL_OFFSET - 8).ok()?;
    Some(PoolId(r.array().ok()?))
}

pub(crate) fn encode_superblock(superblock: &Superblock) -> BufSlice {
    let mut out = AlignedBuf::zeroed(SUPERBLOCK_BYTES);
    let mut w = Writer::new(&mut out);
    w.u64(MAGIC);
    w.u16(VERSION);
    w.u16(u16::try_from(SUPERBLOCK_BYTES).expect("4096"));
    w.u32(0);
    w.u64(superblock.compat);
    w.u64(superblock.ro_compat);
    w.u64(superblock.incompat);
    w.u64(superblock.revision);
    w.array(superblock.pool.0);
    w.u64(superblock.created_unix_ms);
    w.u16(superblock.drive_index);
    w.u16(superblock.drive_count);
    w.u16(superblock.lanes_of_pool);
    w.u16(0);
    w.u64(superblock.lane_bytes);
    w.u32(superblock.segment_bytes);
    w.u32(superblock.segment_count);
    w.u32(superblock.root_bytes_max);
    w.u8(match superblock.shape {
        Shape::OneDisk => 1,
        Shape::Directory => 2,
    });
    assert_eq!(w.position(), FIELDS_BYTES);
    w.zeros(CHECKSUM_OFFSET - FIELDS_BYTES);
    let checksum = checksum64(&out[..CHECKSUM_OFFSET]);
    out[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_le_bytes());
    out.freeze()
}

pub(crate) fn decode_superblock(bytes: &[u8]) -> Result<Superblock, SuperblockFault> {
    let fault = |field| Err(SuperblockFault::Field(field));
    let (covered, mut tail) = {
        let mut r = Reader::new("superblock", bytes);
        let covered = r.bytes(CHECKSUM_OFFSET)?;
        (covered, r)
    };
    let mut r = Reader::new("superblock", covered);
    if r.u64()? != MAGIC {
        return Err(SuperblockFault::Magic);
    }
    if tail.u64()? != checksum64(covered) {
        return Err(SuperblockFault::Checksum);
    }
    let version = r.u16()?;
    if version != VERSION {
        return Err(SuperblockFault::Version(version));
    }
    if usize::from(r.u16()?) != SUPERBLOCK_BYTES {
        return fault("header bytes");
    }
    if r.u32()? != 0 {
        return fault("reserved");
    }
    let (compat, ro_compat, incompat) = (r.u64()?, r.u64()?, r.u64()?);
    let unknown = incompat & !INCOMPAT_KNOWN | ro_compat & !RO_COMPAT_KNOWN;
    if unknown != 0 {
        return Err(SuperblockFault::Features(unknown));
    }
    let superblock = decode_figures(&mut r, [compat, ro_compat, incompat])?;
    if r.rest().iter().any(|byte| *byte != 0) {
        return fault("reserved");
    }
    check_figures(&superblock)?;
    Ok(superblock)
}

/// What stands behind the feature flags.
fn decode_figures(r: &mut Reader<'_>, flags: [u64; 3]) -> Result<Superblock, SuperblockFault> {
    let [compat, ro_compat, incompat] = flags;
    let revision = r.u64()?;
    let pool = PoolId(r.array()?);
    let created_unix_ms = r.u64()?;
    let (drive_index, drive_count, lanes_of_pool) = (r.u16()?, r.u16()?, r.u16()?);
    if r.u16()? != 0 {
        return Err(SuperblockFault::Field("reserved"));
    }
    let lane_bytes = r.u64()?;
    let (segment_bytes, segment_count, root_bytes_max) = (r.u32()?, r.u32()?, r.u32()?);
    let shape = match r.u8()? {
        1 => Shape::OneDisk,
        2 => Shape::Directory,
        _ => return Err(SuperblockFault::Field("shape")),
    };
    Ok(Superblock {
        compat,
        ro_compat,
        incompat,
        revision,
        pool,
        created_unix_ms,
        drive_index,
        drive_count,
        lanes_of_pool,
        lane_bytes,
        segment_bytes,
        segment_count,
        root_bytes_max,
        shape,
    })
}

/// Whether positions can be computed from the figures without overflow.
fn check_figures(superblock: &Superblock) -> Result<(), SuperblockFault> {
    let aligned = |bytes: u64| bytes != 0 && bytes.is_multiple_of(MEDIA_ALIGN as u64);
    let Superblock { drive_index, drive_count, lanes_of_pool, .. } = *superblock;
    let Superblock { lane_bytes, segment_bytes, root_bytes_max, .. } = *superblock;
    let checks = [
        ("drive_index", drive_index < drive_count),
        ("lanes_of_pool", (1..=ShardId::COUNT_MAX).contains(&lanes_of_pool)),
        ("lane_bytes", aligned(lane_bytes) && lane_bytes <= LANE_BYTES_MAX),
        ("segment_bytes", aligned(segment_bytes.into()) && segment_bytes <= SEGMENT_BYTES_MAX),
        ("root_bytes_max", (1..=ROOT_BYTES_MAX).contains(&root_bytes_max)),
    ];
    match checks.iter().find(|(_, holds)| !holds) {
        None => Ok(()),
        Some((field, _)) => Err(SuperblockFault::Field(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Superblock {
        Superblock {
            compat: 5,
            ro_compat: 0,
            incompat: 0,
            revision: 3,
            pool: PoolId([7; 16]),
            created_unix_ms: 1_700_000_000_000,
            drive_index: 1,
            drive_count: 2,
            lanes_of_pool: 3,
            lane_bytes: 64 << 20,
            segment_bytes: 4 << 20,
            segment_count: 1000,
            root_bytes_max: 65_536,
            shape: Shape::Directory,
        }
    }

    #[test]
    fn round_trip() {
        assert_eq!(decode_superblock(&encode_superblock(&example())), Ok(example()));
        let one = Superblock { shape: Shape::OneDisk, ..example() };
        assert_eq!(superblock_claim(&encode_superblock(&one)[..512]), Some(one.pool));
        assert_eq!(decode_superblock(&encode_superblock(&one)), Ok(one));
    }

    #[test]
    fn every_truncation_is_refused() {
        let bytes = encode_superblock(&example());
        for len in 0..bytes.len() {
            assert!(decode_superblock(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn every_bit_flip_is_refused() {
        let mut bytes = encode_superblock(&example()).to_vec();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_superblock(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn unknown_features_are_refused() {
        let newer = encode_superblock(&Superblock { incompat: 4, ..example() });
        assert_eq!(decode_superblock(&newer), Err(SuperblockFault::Features(4)));
        let newer = encode_superblock(&Superblock { ro_compat: 8, ..example() });
        assert_eq!(decode_superblock(&newer), Err(SuperblockFault::Features(8)));
    }

    #[test]
    fn parts_do_not_overlap() {
        let first = Superblock { drive_index: 0, shape: Shape::OneDisk, ..example() };
        assert_eq!(first.lane_count() + example().lane_count(), 3);
        assert_eq!(first.root_count(), 4);
        let last = first.root_offset(3, 1) + first.root_slot_bytes();
        assert!(last <= first.meta_bytes());
        assert_eq!(first.root_offset(0, 1), first.root_offset(3, 0) + first.root_slot_bytes());
        assert!(first.slots_offset() >= first.lane_offset(2));
    }
}
