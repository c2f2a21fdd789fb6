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
//!
//! With bit 0 of `incompat` (a drive of a redundant pool) `drive_index` is the drive's number, `drive_count` and
//! `segment_count` are 0, and these bytes have a meaning:
//!
//! ```text
//! 104 drive_id 16 bytes   120 tables_offset u64   128 roots_offset u64   136 space_offset u64
//! 144 units u32           148 layout_pages u32    152 reserved to 4088
//! ```

use varve_stdx::{AlignedBuf, BufSlice, DecodeError, Reader, Writer, checksum64};
use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_MAX};
use varve_types::{PoolId, ShardId};

use super::{SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SUPERBLOCK_STRIDE};

const MAGIC: u64 = u64::from_le_bytes(*b"VARVESUP");
const VERSION: u16 = 1;
const CHECKSUM_OFFSET: usize = SUPERBLOCK_BYTES - 8;
const FIELDS_BYTES: usize = 101;
const POOL_OFFSET: usize = 48;

/// Incompatible: a drive of a redundant pool, see [`RedundantDrive`].
pub(crate) const REDUNDANT: u64 = 1;

/// Incompatible features this version knows.
const INCOMPAT_KNOWN: u64 = REDUNDANT;

/// Zones of which a layout page has rows, and most layout pages: the owners of all their zones fit the pool's root.
pub(crate) const PAGE_ROWS: u64 = 14;
pub(crate) const LAYOUT_PAGES_MAX: u32 = 1 << 19;

/// Bytes of an owner of a zone in the pool's root, and room for all else in it.
pub(crate) const ZONE_OWNER_BYTES: u64 = 2;
pub(crate) const POOL_ROOT_REST: u64 = 4096;

/// Bytes of a unit, in which space of a redundant drive is counted.
pub(crate) const UNIT_BYTES: u64 = 64 << 10;

/// Highest number of a redundant drive.
const DRIVE_NUMBER_MAX: u16 = 254;

const _: () = assert!(
    LAYOUT_PAGES_MAX as u64 * PAGE_ROWS * ZONE_OWNER_BYTES + POOL_ROOT_REST
        <= ROOT_BYTES_MAX as u64
);

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
    /// There where `incompat` has [`REDUNDANT`].
    pub(crate) redundant: Option<RedundantDrive>,
}

/// What the superblock of a drive of a redundant pool says beside the rest. Positions are bytes of the drive; of one in
/// a directory those below `space_offset` are in the file `meta`, the others in `segments`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RedundantDrive {
    /// Random; never used again.
    pub(crate) drive_id: [u8; 16],
    pub(crate) tables_offset: u64,
    pub(crate) roots_offset: u64,
    /// Where unit 0 begins.
    pub(crate) space_offset: u64,
    pub(crate) units: u32,
    pub(crate) layout_pages: u32,
}

impl RedundantDrive {
    /// Bytes of the drive table, of journal records and of layout pages, two sides each.
    pub(crate) fn tables_bytes(&self, lanes_of_pool: u16) -> u64 {
        let sides = u64::from(lanes_of_pool) + u64::from(self.layout_pages);
        2 * UNIT_BYTES + 2 * MEDIA_ALIGN as u64 * sides
    }
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
    if let Some(redundant) = &superblock.redundant {
        w.zeros(3);
        w.array(redundant.drive_id);
        w.u64(redundant.tables_offset);
        w.u64(redundant.roots_offset);
        w.u64(redundant.space_offset);
        w.u32(redundant.units);
        w.u32(redundant.layout_pages);
    }
    w.zeros(CHECKSUM_OFFSET - w.position());
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
    let redundant = if incompat & REDUNDANT == 0 { None } else { Some(decode_redundant(r)?) };
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
        redundant,
    })
}

fn decode_redundant(r: &mut Reader<'_>) -> Result<RedundantDrive, SuperblockFault> {
    if r.array()? != [0; 3] {
        return Err(SuperblockFault::Field("reserved"));
    }
    Ok(RedundantDrive {
        drive_id: r.array()?,
        tables_offset: r.u64()?,
        roots_offset: r.u64()?,
        space_offset: r.u64()?,
        units: r.u32()?,
        layout_pages: r.u32()?,
    })
}

/// Whether positions can be computed from the figures without overflow.
pub(crate) fn check_figures(superblock: &Superblock) -> Result<(), SuperblockFault> {
    let aligned = |bytes: u64| bytes != 0 && bytes.is_multiple_of(MEDIA_ALIGN as u64);
    let Superblock { drive_index, drive_count, lanes_of_pool, .. } = *superblock;
    let Superblock { lane_bytes, segment_bytes, root_bytes_max, .. } = *superblock;
    let is_index = match superblock.redundant {
        None => drive_index < drive_count,
        Some(_) => drive_index <= DRIVE_NUMBER_MAX,
    };
    let checks = [
        ("drive_index", is_index),
        ("lanes_of_pool", (1..=ShardId::COUNT_MAX).contains(&lanes_of_pool)),
        ("lane_bytes", aligned(lane_bytes) && lane_bytes <= LANE_BYTES_MAX),
        ("segment_bytes", aligned(segment_bytes.into()) && segment_bytes <= SEGMENT_BYTES_MAX),
        ("root_bytes_max", (1..=ROOT_BYTES_MAX).contains(&root_bytes_max)),
    ];
    find_fault(&checks)?;
    superblock.redundant.as_ref().map_or(Ok(()), |redundant| check_redundant(superblock, redundant))
}

/// Whether tables, roots and units of a drive of a redundant pool lie beside each other.
fn check_redundant(
    superblock: &Superblock,
    redundant: &RedundantDrive,
) -> Result<(), SuperblockFault> {
    let RedundantDrive { tables_offset, roots_offset, space_offset, .. } = *redundant;
    let superblocks_end = SUPERBLOCK_COPIES * SUPERBLOCK_STRIDE;
    let space_bytes = u64::from(redundant.units) * UNIT_BYTES;
    let all_roots = 2 * (u64::from(superblock.lanes_of_pool) + 1) * superblock.root_slot_bytes();
    let owners = u64::from(redundant.layout_pages) * PAGE_ROWS * ZONE_OWNER_BYTES;
    let starts = |offset: u64, align: u64| {
        offset >= superblocks_end && offset <= LANE_BYTES_MAX && offset.is_multiple_of(align)
    };
    let tables = (tables_offset, redundant.tables_bytes(superblock.lanes_of_pool));
    let roots = (roots_offset, all_roots);
    let is_apart = |one: (u64, u64), other: (u64, u64)| {
        one.0.saturating_add(one.1) <= other.0 || other.0.saturating_add(other.1) <= one.0
    };
    // Those of a drive of an earlier format are where a zone was.
    let is_housed = |part: (u64, u64)| {
        let end = part.0.saturating_add(part.1);
        end <= space_offset
            || part.0 >= space_offset && end <= space_offset.saturating_add(space_bytes)
    };
    find_fault(&[
        ("drive_count", superblock.drive_count == 0),
        ("segment_count", superblock.segment_count == 0),
        ("layout_pages", (1..=LAYOUT_PAGES_MAX).contains(&redundant.layout_pages)),
        ("root_bytes_max", u64::from(superblock.root_bytes_max) >= owners + POOL_ROOT_REST),
        ("units", redundant.units > 0),
        ("space_offset", starts(space_offset, UNIT_BYTES)),
        ("tables_offset", starts(tables_offset, UNIT_BYTES) && is_housed(tables)),
        ("roots_offset", starts(roots_offset, MEDIA_ALIGN as u64) && is_housed(roots)),
        ("roots_offset", is_apart(tables, roots)),
    ])
}

fn find_fault(checks: &[(&'static str, bool)]) -> Result<(), SuperblockFault> {
    match checks.iter().find(|(_, holds)| !holds) {
        None => Ok(()),
        Some((field, _)) => Err(SuperblockFault::Field(field)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::finish;
    use crate::disk::{Disk, Persist};
    use crate::superblock_copies::read_superblock;
    use crate::{Error, MemDisk};

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
            redundant: None,
        }
    }

    fn redundant_example() -> Superblock {
        Superblock {
            incompat: REDUNDANT,
            drive_index: 9,
            drive_count: 0,
            segment_count: 0,
            redundant: Some(RedundantDrive {
                drive_id: [0xD1; 16],
                tables_offset: 5 << 20,
                roots_offset: 4 << 20,
                space_offset: 16 << 20,
                units: 100_000,
                layout_pages: 1024,
            }),
            ..example()
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
        for superblock in [example(), redundant_example()] {
            let mut bytes = encode_superblock(&superblock).to_vec();
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(decode_superblock(&bytes).is_err(), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn a_redundant_drive_says_where_its_parts_are() {
        let superblock = redundant_example();
        assert_eq!(decode_superblock(&encode_superblock(&superblock)), Ok(superblock.clone()));
        assert!(superblock.to_string().contains("layout_pages       1024"), "{superblock}");
        assert_eq!((superblock.root_count(), superblock.lane_count()), (4, 0));
        assert_eq!(superblock.root_offset(1, 0), (4 << 20) + superblock.root_slot_bytes());
        let zeroed = encode_superblock(&Superblock { redundant: None, ..superblock });
        assert_eq!(decode_superblock(&zeroed), Err(SuperblockFault::Field("layout_pages")));
    }

    #[test]
    fn a_drive_of_a_redundant_pool_is_not_opened_as_another_one() {
        let disk = MemDisk::new("mem0", 8 << 20);
        for copy in 0..SUPERBLOCK_COPIES {
            let bytes = encode_superblock(&redundant_example());
            finish(disk.write(copy * SUPERBLOCK_STRIDE, bytes, Persist::Durable)).unwrap();
        }
        let refused = finish(read_superblock(&disk));
        assert!(matches!(refused, Err(Error::RedundantDrive { number: 9, .. })), "{refused:?}");
    }

    #[test]
    fn parts_of_a_redundant_drive_that_overlap_are_refused() {
        let with = |change: fn(&mut RedundantDrive)| {
            let mut superblock = redundant_example();
            change(superblock.redundant.as_mut().unwrap());
            decode_superblock(&encode_superblock(&superblock)).err()
        };
        let refused = |field| Some(SuperblockFault::Field(field));
        assert_eq!(with(|it| it.tables_offset = 4 << 20), refused("roots_offset"));
        assert_eq!(with(|it| it.tables_offset = 3 << 20), refused("tables_offset"));
        assert_eq!(with(|it| it.tables_offset = (16 << 20) - 65_536), refused("tables_offset"));
        assert_eq!(with(|it| it.tables_offset = u64::MAX - 65_535), refused("tables_offset"));
        assert_eq!(with(|it| it.roots_offset += 512), refused("roots_offset"));
        assert_eq!(with(|it| it.space_offset += 4096), refused("space_offset"));
        assert_eq!(with(|it| it.units = 0), refused("units"));
        assert_eq!(with(|it| it.layout_pages = 1 << 18), refused("root_bytes_max"));
        // A drive of an earlier format has them where a zone was.
        assert_eq!(with(|it| it.tables_offset = 32 << 20), None);
        let mut with_segments = redundant_example();
        with_segments.segment_count = 1;
        let bytes = encode_superblock(&with_segments);
        assert_eq!(decode_superblock(&bytes).err(), refused("segment_count"));
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
