//! Figures of a pool to be made.

use std::ops::Range;

use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX};
use varve_types::{PoolId, ShardId};

use crate::format::{
    LANE_BYTES_MAX, ROOT_BYTES_MAX, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SUPERBLOCK_STRIDE, Shape,
    Superblock,
};
use crate::{Error, Result};

/// Figures of a new pool. They stay for its life.
#[derive(Clone, Debug)]
pub struct DriveSpec {
    /// Identity; random, never used before.
    pub pool: PoolId,
    /// Wall clock of its making, in ms since 1970.
    pub created_unix_ms: u64,
    /// Bytes of a segment slot; a multiple of 4 KiB, at most 32 MiB.
    pub segment_bytes: u32,
    /// Bytes of each lane; a multiple of 4 KiB.
    pub lane_bytes: u64,
    /// Lanes of the whole pool: one for each shard it can have.
    pub lane_count: u16,
    /// Most bytes of a root.
    pub root_bytes_max: u32,
}

impl DriveSpec {
    /// Default bytes of a lane: a second of small writes at several hundred MiB/s.
    pub const LANE_BYTES_DEFAULT: u64 = 256 << 20;

    /// Default most bytes of a root: thousands of usage records or zones.
    pub const ROOT_BYTES_MAX_DEFAULT: u32 = 256 << 10;

    /// Defaults for a pool with `lane_count` lanes.
    #[must_use]
    pub fn new(pool: PoolId, lane_count: u16) -> Self {
        Self {
            pool,
            created_unix_ms: 0,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            lane_bytes: Self::LANE_BYTES_DEFAULT,
            lane_count,
            root_bytes_max: Self::ROOT_BYTES_MAX_DEFAULT,
        }
    }

    /// Checks every figure.
    ///
    /// # Errors
    /// [`Error::Spec`] names the first that makes no sense.
    pub fn validate(&self) -> Result<()> {
        let align = MEDIA_ALIGN as u64;
        let segment_bytes = u64::from(self.segment_bytes);
        let within =
            |value: u64, max: u64| value > 0 && value <= max && value.is_multiple_of(align);
        if !within(segment_bytes, u64::from(SEGMENT_BYTES_MAX)) {
            return Err(Error::Spec { field: "segment_bytes", value: segment_bytes });
        }
        if !within(self.lane_bytes, LANE_BYTES_MAX) {
            return Err(Error::Spec { field: "lane_bytes", value: self.lane_bytes });
        }
        if self.lane_count == 0 || self.lane_count > ShardId::COUNT_MAX {
            return Err(Error::Spec { field: "lane_count", value: u64::from(self.lane_count) });
        }
        if self.root_bytes_max == 0 || self.root_bytes_max > ROOT_BYTES_MAX {
            let value = u64::from(self.root_bytes_max);
            return Err(Error::Spec { field: "root_bytes_max", value });
        }
        Ok(())
    }

    /// Where both sides of each root lie on the first drive: on its disk, or in its file for superblocks and roots.
    #[must_use]
    pub fn root_sides(&self) -> Vec<[Range<u64>; 2]> {
        let superblock = self.superblock(0, 1, Shape::Directory);
        let side = |root, side| {
            let start = superblock.root_offset(root, side);
            start..start + superblock.root_slot_bytes()
        };
        (0..superblock.root_count()).map(|root| [side(root, 0), side(root, 1)]).collect()
    }

    /// Where the copies of the superblock lie there, and on every other drive.
    #[must_use]
    pub fn superblock_copies() -> Vec<Range<u64>> {
        let copy = |copy| {
            let start = copy * SUPERBLOCK_STRIDE;
            start..start + SUPERBLOCK_BYTES as u64
        };
        (0..SUPERBLOCK_COPIES).map(copy).collect()
    }

    /// Where each lane begins, and where the segments do, on a drive that is one disk: number `index` of `count`.
    #[must_use]
    pub fn starts_on_disk(&self, index: usize, count: usize) -> (Vec<u64>, u64) {
        let superblock = self.superblock(index, count, Shape::OneDisk);
        let lanes = (0..superblock.lane_count()).map(|lane| superblock.lane_offset(lane));
        (lanes.collect(), superblock.slots_offset())
    }

    /// The superblock of one drive; its `segment_count` is still 0.
    pub(crate) fn superblock(&self, index: usize, count: usize, shape: Shape) -> Superblock {
        Superblock {
            compat: 0,
            ro_compat: 0,
            incompat: 0,
            revision: 1,
            pool: self.pool,
            created_unix_ms: self.created_unix_ms,
            drive_index: u16::try_from(index).expect("fewer than 65,536 drives"),
            drive_count: u16::try_from(count).expect("fewer than 65,536 drives"),
            lanes_of_pool: self.lane_count,
            lane_bytes: self.lane_bytes,
            segment_bytes: self.segment_bytes,
            segment_count: 0,
            root_bytes_max: self.root_bytes_max,
            shape,
            redundant: None,
        }
    }
}
