//! What a drive of a redundant pool says of itself, and where its parts lie. Called by the crate of redundant pools;
//! the layout is that of RFC 0026, section 2.1.
//!
//! ```text
//! 0               4 MiB               tables_offset                                             space_offset
//! | superblocks x 4 | roots A | roots B | drive table A | B | journals A | B | pages A | pages B | .. | unit 0 | …
//! ```
//!
//! In a directory the part before `space_offset` is the file `meta`, and the units are the file `segments`.

use std::rc::Rc;

use varve_types::limits::MEDIA_ALIGN;
use varve_types::{PoolId, ShardId};

use crate::contract::RootKey;
use crate::disk::{Disk, Persist, Section};
use crate::drive::root_number;
use crate::format::{
    DRIVE_TABLE_NUMBER, JOURNAL_RECORD_NUMBER, LAYOUT_PAGE_NUMBER, LAYOUT_PAGES_MAX, PAGE_ROWS,
    POOL_ROOT_REST, REDUNDANT, RedundantDrive, SLOTS_ALIGN, SUPERBLOCK_COPIES, SUPERBLOCK_STRIDE,
    Shape, Superblock, UNIT_BYTES, ZONE_OWNER_BYTES, check_figures, encode_superblock,
};
use crate::sided_root::SidedRoot;
use crate::spec::DriveSpec;
use crate::superblock_copies::{heal_superblock, read_any_superblock};
use crate::{Error, Result};

/// Zones for which tables have room, as a multiple of those that a pool is made with.
const GROWTH: u64 = 16;

/// Layout pages of a pool at least.
const LAYOUT_PAGES_MIN: u64 = 1024;

/// Bytes of a side of a journal record or layout page.
const TABLE_SIDE_BYTES: u64 = MEDIA_ALIGN as u64;

/// Figures that all drives of a redundant pool share. They stay for its life.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedundantSpec {
    /// Identity; random, never used before.
    pub pool: PoolId,
    /// Wall clock of its making, in ms since 1970.
    pub created_unix_ms: u64,
    /// Journals of the pool: one for each shard that it can have.
    pub lane_count: u16,
    /// Bytes of each copy of a journal; a multiple of 4 KiB.
    pub lane_bytes: u64,
    /// Bytes of a segment slot; a multiple of 4 KiB, at most 32 MiB.
    pub segment_bytes: u32,
    /// Pages of its layout table, each of 14 zones.
    pub layout_pages: u32,
    /// Most bytes of a root.
    pub root_bytes_max: u32,
}

impl RedundantSpec {
    /// Defaults for a pool with `lane_count` lanes that begins with `zones` zones, and may grow to 16 times as many.
    #[must_use]
    pub fn new(pool: PoolId, lane_count: u16, zones: u32) -> Self {
        let defaults = DriveSpec::new(pool, lane_count);
        let pages = (u64::from(zones) * GROWTH).div_ceil(PAGE_ROWS).max(LAYOUT_PAGES_MIN);
        let layout_pages = u32::try_from(pages).unwrap_or(LAYOUT_PAGES_MAX).min(LAYOUT_PAGES_MAX);
        let owners = u64::from(layout_pages) * PAGE_ROWS * ZONE_OWNER_BYTES;
        let root_bytes = u32::try_from(owners + POOL_ROOT_REST).expect("below the largest root");
        Self {
            pool,
            created_unix_ms: 0,
            lane_count,
            lane_bytes: defaults.lane_bytes,
            segment_bytes: defaults.segment_bytes,
            layout_pages,
            root_bytes_max: defaults.root_bytes_max.max(root_bytes),
        }
    }

    /// Checks every figure.
    ///
    /// # Errors
    /// [`Error::Spec`] names the first that is out of range.
    pub fn validate(&self) -> Result<()> {
        let shared = DriveSpec {
            pool: self.pool,
            created_unix_ms: self.created_unix_ms,
            segment_bytes: self.segment_bytes,
            lane_bytes: self.lane_bytes,
            lane_count: self.lane_count,
            root_bytes_max: self.root_bytes_max,
        };
        shared.validate()?;
        if !(1..=LAYOUT_PAGES_MAX).contains(&self.layout_pages) {
            return Err(Error::Spec { field: "layout_pages", value: self.layout_pages.into() });
        }
        let owners = u64::from(self.layout_pages) * PAGE_ROWS * ZONE_OWNER_BYTES;
        if u64::from(self.root_bytes_max) < owners + POOL_ROOT_REST {
            return Err(Error::Spec { field: "root_bytes_max", value: self.root_bytes_max.into() });
        }
        Ok(())
    }

    /// Zones of which the tables have rows.
    #[must_use]
    pub fn zones_max(&self) -> u32 {
        self.layout_pages * u32::try_from(PAGE_ROWS).expect("14")
    }
}

/// A drive that is to get a superblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedundantDriveSpec {
    /// Its number, below 255.
    pub number: u16,
    /// Random; never used again.
    pub drive_id: [u8; 16],
    /// Whether it is a directory: then `bytes` are those of its file `segments`, else all of its one disk.
    pub is_directory: bool,
    /// Bytes that it has, of which those behind the last whole unit stay unused.
    pub bytes: u64,
}

/// The superblock of a drive of a redundant pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedundantSuperblock {
    /// Its pool.
    pub pool: PoolId,
    /// Wall clock of the pool's making, in ms since 1970.
    pub created_unix_ms: u64,
    /// Number of the drive, below 255.
    pub number: u16,
    /// Journals of the pool: shards that it can have.
    pub lanes_of_pool: u16,
    /// Bytes of each copy of a journal.
    pub lane_bytes: u64,
    /// Bytes of a segment slot.
    pub segment_bytes: u32,
    /// Most bytes of a root.
    pub root_bytes_max: u32,
    /// Whether the drive is a directory of files, or all on one disk.
    pub is_directory: bool,
    /// Identity of the drive.
    pub drive_id: [u8; 16],
    /// Where the tables begin.
    pub tables_offset: u64,
    /// Where roots begin.
    pub roots_offset: u64,
    /// Where unit 0 begins.
    pub space_offset: u64,
    /// Units of 64 KiB.
    pub units: u32,
    /// Pages of the pool's layout table.
    pub layout_pages: u32,
    /// Grows when the superblock is written again.
    pub revision: u64,
    /// Flags that a version may keep without knowing them.
    pub compat: u64,
}

impl RedundantSuperblock {
    /// That of a drive on which nothing is yet. The parts lie one behind the other.
    ///
    /// # Errors
    /// [`Error::Spec`] for figures out of range, and `size_bytes` when there is not one unit beside the rest.
    pub fn new(spec: &RedundantSpec, drive: &RedundantDriveSpec) -> Result<Self> {
        let mut superblock = Self {
            pool: spec.pool,
            created_unix_ms: spec.created_unix_ms,
            number: drive.number,
            lanes_of_pool: spec.lane_count,
            lane_bytes: spec.lane_bytes,
            segment_bytes: spec.segment_bytes,
            root_bytes_max: spec.root_bytes_max,
            is_directory: drive.is_directory,
            drive_id: drive.drive_id,
            tables_offset: 0,
            roots_offset: SUPERBLOCK_COPIES * SUPERBLOCK_STRIDE,
            space_offset: 0,
            units: 0,
            layout_pages: spec.layout_pages,
            revision: 1,
            compat: 0,
        };
        spec.validate()?;
        superblock.tables_offset = superblock.roots_end().next_multiple_of(UNIT_BYTES);
        superblock.space_offset = superblock.tables_end().next_multiple_of(SLOTS_ALIGN);
        let before = if drive.is_directory { 0 } else { superblock.space_offset };
        let units = drive.bytes.saturating_sub(before) / UNIT_BYTES;
        superblock.units = u32::try_from(units).unwrap_or(u32::MAX);
        if units == 0 {
            return Err(Error::Spec { field: "size_bytes", value: drive.bytes });
        }
        match check_figures(&superblock.stored()) {
            Ok(()) => Ok(superblock),
            Err(_) => Err(Error::Spec { field: "number", value: drive.number.into() }),
        }
    }

    /// What the drive says of itself: that on which at least two copies agree. `None` for one of a pool without
    /// redundancy.
    ///
    /// # Errors
    /// [`Error::NoPool`], [`Error::Unfinished`], [`Error::Corrupt`] when fewer than two copies agree, or
    /// [`Error::Unsupported`].
    pub async fn read(meta: &dyn Disk) -> Result<Option<Self>> {
        Ok(Self::of_stored(&read_any_superblock(meta).await?))
    }

    /// Writes all copies, one after the other. Durable on return.
    ///
    /// # Errors
    /// The disk's: then some copies may have been written.
    pub async fn write(&self, meta: &dyn Disk) -> Result<()> {
        let bytes = encode_superblock(&self.stored());
        for copy in 0..SUPERBLOCK_COPIES {
            meta.write(copy * SUPERBLOCK_STRIDE, bytes.clone(), Persist::Durable).await?;
        }
        Ok(())
    }

    /// Writes those copies again that say something else. For the owner of a drive only, once two copies agreed on this
    /// superblock.
    pub async fn heal(&self, meta: &dyn Disk) {
        heal_superblock(meta, &self.stored()).await;
    }

    /// Whether the disks have all that the superblock says. The units begin at 0 of `space`, which is a part of `meta`
    /// where the drive is one disk.
    ///
    /// # Errors
    /// [`Error::TooSmall`].
    pub fn check_sizes(&self, meta: &dyn Disk, space: &dyn Disk) -> Result<()> {
        for (disk, need) in [(meta, self.space_offset), (space, self.space_bytes())] {
            if disk.size() < need {
                return Err(Error::TooSmall { path: disk.path().into(), have: disk.size(), need });
            }
        }
        Ok(())
    }

    /// The units of a drive that is one disk, those too that it gets when it grows.
    ///
    /// # Errors
    /// [`Error::TooSmall`].
    pub fn space_of(&self, disk: &Rc<dyn Disk>) -> Result<Section> {
        Section::to_the_end(Rc::clone(disk), self.space_offset, self.space_bytes())
    }

    /// The same drive with more units, as its next revision.
    #[must_use]
    pub fn grown(&self, units: u32) -> Self {
        let units = units.max(self.units);
        Self { units, revision: self.revision + 1, ..self.clone() }
    }

    /// Bytes of all units.
    #[must_use]
    pub fn space_bytes(&self) -> u64 {
        u64::from(self.units) * UNIT_BYTES
    }

    /// Figures that all drives of its pool share.
    #[must_use]
    pub fn spec(&self) -> RedundantSpec {
        RedundantSpec {
            pool: self.pool,
            created_unix_ms: self.created_unix_ms,
            lane_count: self.lanes_of_pool,
            lane_bytes: self.lane_bytes,
            segment_bytes: self.segment_bytes,
            layout_pages: self.layout_pages,
            root_bytes_max: self.root_bytes_max,
        }
    }

    /// The drive table.
    #[must_use]
    pub fn drive_table(&self) -> SidedRoot {
        let sides = [self.tables_offset, self.tables_offset + UNIT_BYTES];
        let slot_bytes = u32::try_from(UNIT_BYTES).expect("64 KiB");
        SidedRoot { number: DRIVE_TABLE_NUMBER, sides, slot_bytes }
    }

    /// The journal record of a shard.
    ///
    /// # Errors
    /// [`Error::NoLane`] when the pool cannot have the shard.
    pub fn journal_record(&self, shard: ShardId) -> Result<SidedRoot> {
        let lanes = self.lanes_of_pool;
        if shard.0 >= lanes {
            return Err(Error::NoLane { shard, lanes });
        }
        let place =
            TablePlace { first: 2 * UNIT_BYTES, count: lanes.into(), index: shard.0.into() };
        Ok(self.table(JOURNAL_RECORD_NUMBER, place))
    }

    /// A page of the layout table.
    ///
    /// # Panics
    /// When the pool has no such page.
    #[must_use]
    pub fn layout_page(&self, page: u32) -> SidedRoot {
        assert!(page < self.layout_pages, "page {page} of {}", self.layout_pages);
        let first = 2 * UNIT_BYTES + 2 * TABLE_SIDE_BYTES * u64::from(self.lanes_of_pool);
        self.table(LAYOUT_PAGE_NUMBER, TablePlace { first, count: self.layout_pages, index: page })
    }

    /// A root of the pool or of a shard.
    ///
    /// # Errors
    /// [`Error::NoLane`] when the pool cannot have the shard.
    pub fn root(&self, key: RootKey) -> Result<SidedRoot> {
        Ok(SidedRoot::of_drive(&self.stored(), root_number(key, self.lanes_of_pool)?))
    }

    fn table(&self, number: u32, place: TablePlace) -> SidedRoot {
        let TablePlace { first, count, index } = place;
        let slot_bytes = u32::try_from(TABLE_SIDE_BYTES).expect("4 KiB");
        let side = self.tables_offset + first + u64::from(index) * TABLE_SIDE_BYTES;
        let sides = [side, side + u64::from(count) * TABLE_SIDE_BYTES];
        SidedRoot { number: number + index, sides, slot_bytes }
    }

    fn roots_end(&self) -> u64 {
        let stored = self.stored();
        self.roots_offset + 2 * stored.root_count() * stored.root_slot_bytes()
    }

    fn tables_end(&self) -> u64 {
        self.tables_offset + self.redundant().tables_bytes(self.lanes_of_pool)
    }

    fn redundant(&self) -> RedundantDrive {
        RedundantDrive {
            drive_id: self.drive_id,
            tables_offset: self.tables_offset,
            roots_offset: self.roots_offset,
            space_offset: self.space_offset,
            units: self.units,
            layout_pages: self.layout_pages,
        }
    }

    pub(crate) fn stored(&self) -> Superblock {
        Superblock {
            compat: self.compat,
            ro_compat: 0,
            incompat: REDUNDANT,
            revision: self.revision,
            pool: self.pool,
            created_unix_ms: self.created_unix_ms,
            drive_index: self.number,
            drive_count: 0,
            lanes_of_pool: self.lanes_of_pool,
            lane_bytes: self.lane_bytes,
            segment_bytes: self.segment_bytes,
            segment_count: 0,
            root_bytes_max: self.root_bytes_max,
            shape: if self.is_directory { Shape::Directory } else { Shape::OneDisk },
            redundant: Some(self.redundant()),
        }
    }

    pub(crate) fn of_stored(stored: &Superblock) -> Option<Self> {
        let redundant = stored.redundant.as_ref()?;
        Some(Self {
            pool: stored.pool,
            created_unix_ms: stored.created_unix_ms,
            number: stored.drive_index,
            lanes_of_pool: stored.lanes_of_pool,
            lane_bytes: stored.lane_bytes,
            segment_bytes: stored.segment_bytes,
            root_bytes_max: stored.root_bytes_max,
            is_directory: stored.shape == Shape::Directory,
            drive_id: redundant.drive_id,
            tables_offset: redundant.tables_offset,
            roots_offset: redundant.roots_offset,
            space_offset: redundant.space_offset,
            units: redundant.units,
            layout_pages: redundant.layout_pages,
            revision: stored.revision,
            compat: stored.compat,
        })
    }
}

/// Where a table of two sides for each entry lies: all sides A, then all sides B.
struct TablePlace {
    /// Bytes from where the tables begin.
    first: u64,
    count: u32,
    index: u32,
}

#[cfg(test)]
mod tests;
