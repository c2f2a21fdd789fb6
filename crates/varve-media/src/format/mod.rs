//! Bytes of a drive's own structures: encode and decode, no I/O.
//!
//! ```text
//! drive on one disk (a block device or a file)
//! 0        1 MiB    2 MiB    3 MiB    4 MiB               meta_bytes
//! | super  | super  | super  | super  | roots A | roots B |
//!   copy 0   copy 1   copy 2   copy 3
//! meta_bytes          + lane_bytes x lanes   rounded up to 4 MiB
//! | lane 0 | lane 1 … | (gap)                | slot 0 | slot 1 | …
//!
//! drive in a directory: file `meta` holds everything up to meta_bytes, each lane is a file, all slots are one file.
//!
//! root i, side A: 4 MiB + i x root_slot_bytes; side B: behind all sides A.
//! Root 0 is the pool's, root s + 1 is shard s's.
//! ```
//!
//! A pool of several drives numbers their slots one drive after the other; lane l is lane l / n of drive l % n; roots
//! are on drive 0.

#[cfg(test)]
mod examples;
mod making;
mod root_slot;
mod superblock;
mod text;

pub(crate) use making::{decode_former, decode_making, encode_former, encode_making};
pub(crate) use root_slot::{
    DRIVE_TABLE_NUMBER, JOURNAL_RECORD_NUMBER, LAYOUT_PAGE_NUMBER, ROOT_HEADER_BYTES, RootFault,
    RootSlot, decode_root, encode_root,
};
pub(crate) use superblock::{
    LANE_BYTES_MAX, LAYOUT_PAGES_MAX, PAGE_ROWS, POOL_ROOT_REST, REDUNDANT, ROOT_BYTES_MAX,
    RedundantDrive, Shape, Superblock, SuperblockFault, UNIT_BYTES, ZONE_OWNER_BYTES,
    check_figures, decode_superblock, encode_superblock, superblock_claim,
};

use varve_types::limits::MEDIA_ALIGN;

/// Copies of the superblock.
pub(crate) const SUPERBLOCK_COPIES: u64 = 4;

/// Distance of two copies, in bytes: more than an erase unit or a burst of bad sectors damages at once.
pub(crate) const SUPERBLOCK_STRIDE: u64 = 1 << 20;

/// Bytes of a superblock.
pub(crate) const SUPERBLOCK_BYTES: usize = MEDIA_ALIGN;

/// Slots of a drive on one disk begin at a multiple of this, in bytes: RAID stripes and flash pages divide it.
pub(crate) const SLOTS_ALIGN: u64 = 4 << 20;

/// Where things lie, by the figures of the superblock.
impl Superblock {
    /// Bytes of one side of one root.
    pub(crate) fn root_slot_bytes(&self) -> u64 {
        (u64::from(self.root_bytes_max) + ROOT_HEADER_BYTES as u64)
            .next_multiple_of(MEDIA_ALIGN as u64)
    }

    /// Number of roots on this drive.
    pub(crate) fn root_count(&self) -> u64 {
        let has_roots = self.redundant.is_some() || self.drive_index == 0;
        if has_roots { u64::from(self.lanes_of_pool) + 1 } else { 0 }
    }

    /// Position of one side of a root.
    pub(crate) fn root_offset(&self, root: u64, side: u64) -> u64 {
        assert!(root < self.root_count(), "root {root} exists");
        assert!(side < 2, "a root has two sides");
        let slot = side * self.root_count() + root;
        let behind_superblocks = SUPERBLOCK_COPIES * SUPERBLOCK_STRIDE;
        let first = self.redundant.as_ref().map_or(behind_superblocks, |it| it.roots_offset);
        first + slot * self.root_slot_bytes()
    }

    /// Bytes of superblocks and roots.
    pub(crate) fn meta_bytes(&self) -> u64 {
        let roots = 2 * self.root_count() * self.root_slot_bytes();
        SUPERBLOCK_COPIES * SUPERBLOCK_STRIDE + roots.next_multiple_of(SUPERBLOCK_STRIDE)
    }

    /// Number of lanes on this drive; one of a redundant pool has copies of journals among its units instead.
    pub(crate) fn lane_count(&self) -> u16 {
        if self.redundant.is_some() {
            return 0;
        }
        let (lanes, drives) = (self.lanes_of_pool, self.drive_count);
        lanes / drives + u16::from(self.drive_index < lanes % drives)
    }

    /// Position of a lane of a drive on one disk.
    pub(crate) fn lane_offset(&self, lane: u16) -> u64 {
        self.meta_bytes() + u64::from(lane) * self.lane_bytes
    }

    /// Position of the first slot of a drive on one disk.
    pub(crate) fn slots_offset(&self) -> u64 {
        self.lane_offset(self.lane_count()).next_multiple_of(SLOTS_ALIGN)
    }
}
