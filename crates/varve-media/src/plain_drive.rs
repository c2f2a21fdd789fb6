//! A drive of a pool without redundancy, as its upgrade sees it: where its parts lie, and the superblock that it gets.
//! Called by the crate of redundant pools.

use std::ops::Range;

use varve_types::limits::MEDIA_ALIGN;
use varve_types::{PoolId, ShardId};

use crate::contract::RootKey;
use crate::disk::Disk;
use crate::drive::root_number;
use crate::format::{SLOTS_ALIGN, Shape, Superblock, UNIT_BYTES, check_figures};
use crate::redundant_superblock::{RedundantSpec, RedundantSuperblock};
use crate::sided_root::SidedRoot;
use crate::superblock_copies::read_superblock;
use crate::{Error, Result};

/// The drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlainDrive {
    superblock: Superblock,
}

/// What an upgraded drive says of itself beside what it said before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UpgradedDrive {
    /// Random; never used before.
    pub drive_id: [u8; 16],
    /// Where the tables begin, and roots behind them; a multiple of 64 KiB.
    pub tables_offset: u64,
    /// Units of 64 KiB.
    pub units: u32,
    /// Pages of the pool's layout table.
    pub layout_pages: u32,
    /// Most bytes of a root.
    pub root_bytes_max: u32,
}

impl PlainDrive {
    /// The drive with these superblocks.
    ///
    /// # Errors
    /// [`Error::RedundantDrive`] for one that was upgraded; those of an opening.
    pub async fn read(meta: &dyn Disk) -> Result<Self> {
        Ok(Self { superblock: read_superblock(meta).await? })
    }

    /// Its pool.
    #[must_use]
    pub const fn pool(&self) -> PoolId {
        self.superblock.pool
    }

    /// Which of the pool's drives it is.
    #[must_use]
    pub const fn index(&self) -> u16 {
        self.superblock.drive_index
    }

    /// Drives of the pool.
    #[must_use]
    pub const fn count(&self) -> u16 {
        self.superblock.drive_count
    }

    /// Bytes of a segment slot.
    #[must_use]
    pub const fn segment_bytes(&self) -> u32 {
        self.superblock.segment_bytes
    }

    /// Slots on it.
    #[must_use]
    pub const fn segment_count(&self) -> u32 {
        self.superblock.segment_count
    }

    /// Whether it is a directory of files, or all on one disk.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.superblock.shape == Shape::Directory
    }

    /// Figures of its pool once that is redundant, with tables for 16 times the zones that it has.
    #[must_use]
    pub fn spec(&self, zones: u32) -> RedundantSpec {
        let Superblock { pool, lanes_of_pool, lane_bytes, segment_bytes, .. } = self.superblock;
        let defaults = RedundantSpec::new(pool, lanes_of_pool, zones);
        RedundantSpec {
            created_unix_ms: self.superblock.created_unix_ms,
            lane_bytes,
            segment_bytes,
            root_bytes_max: defaults.root_bytes_max.max(self.superblock.root_bytes_max),
            ..defaults
        }
    }

    /// Shards whose journals are on it, in the order of their lanes.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        let Superblock { drive_index, drive_count, .. } = self.superblock;
        let lanes = 0..self.superblock.lane_count();
        lanes.map(move |lane| ShardId(drive_index + lane * drive_count))
    }

    /// Where a lane lies, in bytes of the drive's units once it is upgraded: they begin with the lanes of a drive that
    /// is one disk. In a directory, where each lane is a file, it comes behind the slots.
    #[must_use]
    pub fn lane_in_units(&self, lane: u16) -> Range<u64> {
        let lane_bytes = self.superblock.lane_bytes;
        let first = if self.is_directory() { self.slots_in_units().end } else { 0 };
        let start = first.next_multiple_of(UNIT_BYTES) + u64::from(lane) * lane_bytes;
        start..start + lane_bytes
    }

    /// Where its slots lie, in the same way.
    #[must_use]
    pub fn slots_in_units(&self) -> Range<u64> {
        let start = if self.is_directory() {
            0
        } else {
            self.superblock.slots_offset() - self.superblock.meta_bytes()
        };
        let slots = u64::from(self.segment_count()) * u64::from(self.segment_bytes());
        start..start + slots
    }

    /// Where its units end, without tables.
    #[must_use]
    pub fn units_end(&self) -> u64 {
        let last = self.superblock.lane_count().checked_sub(1);
        let lanes_end = last.map_or(0, |lane| self.lane_in_units(lane).end);
        lanes_end.max(self.slots_in_units().end)
    }

    /// Where its units begin on a drive that is one disk.
    #[must_use]
    pub fn space_offset(&self) -> u64 {
        self.superblock.meta_bytes()
    }

    /// A root, of the first drive.
    ///
    /// # Errors
    /// [`Error::NoLane`] when the pool cannot have the shard.
    ///
    /// # Panics
    /// On any other drive.
    pub fn root(&self, key: RootKey) -> Result<SidedRoot> {
        assert_eq!(self.index(), 0, "roots are on the first drive");
        let number = root_number(key, self.superblock.lanes_of_pool)?;
        Ok(SidedRoot::of_drive(&self.superblock, number))
    }

    /// Bytes that tables and roots take on a drive of a pool.
    #[must_use]
    pub fn tables_bytes(&self, spec: &RedundantSpec) -> u64 {
        let any = UpgradedDrive {
            drive_id: [0; 16],
            tables_offset: 0,
            units: 1,
            layout_pages: spec.layout_pages,
            root_bytes_max: spec.root_bytes_max,
        };
        let (tables, roots) = self.laid_out(&any);
        tables + roots
    }

    /// Its superblock once it is upgraded. In a directory its units begin behind tables and roots, which are in the
    /// file of superblocks.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where its parts would not lie beside each other.
    pub fn upgraded(&self, drive: &UpgradedDrive) -> Result<RedundantSuperblock> {
        let (tables, roots) = self.laid_out(drive);
        let roots_offset = drive.tables_offset + tables;
        let space_offset = if self.is_directory() {
            (roots_offset + roots).next_multiple_of(SLOTS_ALIGN)
        } else {
            self.space_offset()
        };
        let before = &self.superblock;
        let superblock = RedundantSuperblock {
            pool: before.pool,
            created_unix_ms: before.created_unix_ms,
            number: before.drive_index,
            lanes_of_pool: before.lanes_of_pool,
            lane_bytes: before.lane_bytes,
            segment_bytes: before.segment_bytes,
            root_bytes_max: drive.root_bytes_max,
            is_directory: self.is_directory(),
            drive_id: drive.drive_id,
            tables_offset: drive.tables_offset,
            roots_offset,
            space_offset,
            units: drive.units,
            layout_pages: drive.layout_pages,
            revision: before.revision + 1,
            compat: before.compat,
        };
        check_figures(&superblock.stored()).map_err(|fault| Error::Corrupt {
            what: "superblock",
            path: format!("drive {} after its upgrade", before.drive_index),
            reason: fault.to_string(),
        })?;
        Ok(superblock)
    }

    /// Bytes of tables and of roots.
    fn laid_out(&self, drive: &UpgradedDrive) -> (u64, u64) {
        let sides = u64::from(self.superblock.lanes_of_pool) + u64::from(drive.layout_pages);
        let tables = 2 * UNIT_BYTES + 2 * MEDIA_ALIGN as u64 * sides;
        let stored = Superblock { root_bytes_max: drive.root_bytes_max, ..self.superblock.clone() };
        let roots = u64::from(stored.lanes_of_pool) + 1;
        (tables, 2 * roots * stored.root_slot_bytes())
    }
}
