//! The contracts over disks: superblocks, lanes, slots and roots of a pool on one or more drives.
//!
//! The layout is drawn in `format/mod.rs`.

use std::cell::RefCell;
use std::rc::Rc;

use varve_reactor::Notify;
use varve_stdx::BufSlice;
use varve_types::limits::MEDIA_ALIGN;
use varve_types::{PoolId, SegmentNumber, ShardId};

use crate::contract::{
    Fence, IoFuture, JournalStore, Media, RootKey, SegmentGeometry, SegmentId, SegmentStore,
    refused,
};
use crate::disk::{Disk, Persist};
use crate::format::{
    RootSlot, SUPERBLOCK_COPIES, SUPERBLOCK_STRIDE, Shape, Superblock, encode_root,
    encode_superblock,
};
use crate::making::{look_at_all, mark_all};
use crate::parts::{DriveDisks, Parts};
use crate::planted::{Bug, planted};
use crate::spec::DriveSpec;
use crate::stats::DiskStats;
use crate::superblock_copies::{heal_superblock, read_superblock};
use crate::{Error, Result};

pub(crate) struct DriveInner {
    /// In order of drive index; never empty.
    superblocks: Vec<Superblock>,
    pub(crate) parts: Vec<Parts>,
    /// First slot of each drive.
    first_slots: Vec<u32>,
    options: DriveOptions,
    /// Roots being replaced, so that two replacements of one root do not interleave.
    pub(crate) busy_roots: RefCell<Vec<u64>>,
    pub(crate) root_freed: Notify,
}

impl DriveInner {
    /// The first drive's: it holds the roots.
    pub(crate) fn superblock(&self) -> &Superblock {
        self.superblocks.first().expect("a pool has a drive")
    }

    pub(crate) fn check_fence(&self) -> Result<()> {
        self.parts.iter().try_for_each(|part| part.meta.check_fence())
    }
}

/// Choices of one opening; they leave no trace on the drives.
#[derive(Clone, Debug, Default)]
pub struct DriveOptions {
    /// Hand the space of deleted segments back to the medium. Off by default: taking it again costs more than keeping
    /// it.
    pub discard: bool,
}

/// The drives of an open pool, on one thread. Clones share them.
#[derive(Clone)]
pub struct Drive {
    pub(crate) inner: Rc<DriveInner>,
    pub(crate) stats: Option<Rc<DiskStats>>,
}

impl Drive {
    /// Makes a pool on `drives`: marks first, then empty roots, superblocks last. Durable on return; cut off, there is
    /// no pool, and it can be made again (MAKING-1, MAKING-2).
    ///
    /// Lanes must read as zeros or hold another pool's frames.
    ///
    /// # Errors
    /// [`Error::PoolExists`] when a drive carries a superblock, [`Error::Spec`], [`Error::TooSmall`], or a disk's
    /// error.
    ///
    /// # Panics
    /// When `drives` is empty.
    pub async fn format(drives: &[DriveDisks], spec: &DriveSpec) -> Result<()> {
        assert!(!drives.is_empty(), "a pool has a drive");
        spec.validate()?;
        let metas: Vec<_> = drives.iter().map(DriveDisks::meta).collect();
        let found = look_at_all(&metas).await?;
        let mut superblocks = Vec::new();
        for (index, drive) in drives.iter().enumerate() {
            let mut superblock = spec.superblock(index, drives.len(), drive.shape());
            superblock.segment_count = drive.slots_that_fit(&superblock)?;
            drive.clone().split(&superblock)?;
            superblocks.push(superblock);
        }
        mark_all(&metas, &found, spec.pool).await?;
        for (drive, superblock) in drives.iter().zip(&superblocks) {
            for root in 0..superblock.root_count() {
                let root_id = u32::try_from(root).expect("at most 4096 lanes");
                let empty = RootSlot { pool: spec.pool, root: root_id, version: 0 };
                for side in 0..2 {
                    let offset = superblock.root_offset(root, side);
                    drive.meta().write(offset, encode_root(empty, &[]), Persist::Cached).await?;
                }
            }
            drive.meta().flush().await?;
        }
        for (drive, superblock) in drives.iter().zip(&superblocks) {
            let bytes = encode_superblock(superblock);
            for copy in 0..SUPERBLOCK_COPIES {
                let offset = copy * SUPERBLOCK_STRIDE;
                drive.meta().write(offset, bytes.clone(), Persist::Durable).await?;
            }
        }
        Ok(())
    }

    /// Opens a pool from all of its drives, in any order.
    ///
    /// # Errors
    /// [`Error::NoPool`], [`Error::Corrupt`] when fewer than two copies of a superblock agree, [`Error::Unsupported`],
    /// [`Error::DriveSet`] when drives are missing or foreign, [`Error::TooSmall`], or a disk's error.
    pub async fn open(drives: Vec<DriveDisks>, options: DriveOptions) -> Result<Self> {
        let mut found = Vec::new();
        for drive in drives {
            let superblock = read_superblock(drive.meta()).await?;
            heal_superblock(drive.meta(), &superblock).await;
            found.push((superblock, drive));
        }
        Self::assemble(found, options)
    }

    /// Joins drives whose superblocks are known.
    pub(crate) fn assemble(
        mut found: Vec<(Superblock, DriveDisks)>,
        options: DriveOptions,
    ) -> Result<Self> {
        found.sort_by_key(|(superblock, _)| match superblock.drive_index {
            0 => 0,
            _ if planted(Bug::DrivesAsNamed) => 1,
            index => index,
        });
        check_set(&found)?;
        let (mut superblocks, mut parts, mut first_slots) = (Vec::new(), Vec::new(), Vec::new());
        let mut first_slot = 0u32;
        for (superblock, drive) in found {
            parts.push(drive.split(&superblock)?);
            first_slots.push(first_slot);
            first_slot = first_slot.saturating_add(superblock.segment_count);
            superblocks.push(superblock);
        }
        let busy_roots = RefCell::default();
        let root_freed = Notify::new();
        let inner = DriveInner { superblocks, parts, first_slots, options, busy_roots, root_freed };
        Ok(Self { inner: Rc::new(inner), stats: None })
    }

    /// Counts and latencies of this thread's operations; `None` unless the drive was opened from files.
    #[must_use]
    pub fn stats(&self) -> Option<&Rc<DiskStats>> {
        self.stats.as_ref()
    }

    /// Identity of the pool.
    #[must_use]
    pub fn pool(&self) -> PoolId {
        self.inner.superblock().pool
    }

    /// Wall clock of the pool's making, in ms since 1970.
    #[must_use]
    pub fn created_unix_ms(&self) -> u64 {
        self.inner.superblock().created_unix_ms
    }

    /// Lanes of the pool: shards it can have.
    #[must_use]
    pub fn lane_count(&self) -> u16 {
        self.inner.superblock().lanes_of_pool
    }

    /// What the thread of `shard` works with.
    ///
    /// # Errors
    /// [`Error::NoLane`] when the pool was made for fewer shards.
    pub fn media(&self, shard: ShardId) -> Result<Media> {
        let lanes = self.lane_count();
        if shard.0 >= lanes {
            return Err(Error::NoLane { shard, lanes });
        }
        let drives = self.inner.parts.len();
        let (drive, lane) = (usize::from(shard.0) % drives, usize::from(shard.0) / drives);
        let disk = Rc::clone(&self.inner.parts[drive].lanes[lane]);
        let capacity = self.inner.superblock().lane_bytes;
        Ok(Media {
            segments: Rc::new(self.clone()),
            journal: Rc::new(DriveJournal { disk, capacity }),
            roots: Rc::new(self.clone()),
            fence: Rc::new(self.clone()),
        })
    }

    /// Where the drive of a shard's lane keeps it.
    pub(crate) fn lane_start(&self, shard: ShardId) -> (&dyn Disk, u64) {
        let drives = self.inner.parts.len();
        let (drive, lane) = (usize::from(shard.0) % drives, usize::from(shard.0) / drives);
        let superblock = &self.inner.superblocks[drive];
        let start = match superblock.shape {
            Shape::OneDisk => superblock.lane_offset(u16::try_from(lane).expect("below a u16")),
            Shape::Directory => 0,
        };
        (&*self.inner.parts[drive].lanes[lane], start)
    }

    /// Where the slots of a slot's drive begin on its disk.
    pub(crate) fn slots_start(&self, number: SegmentNumber) -> u64 {
        let superblock = &self.inner.superblocks[self.drive_of(number)];
        match superblock.shape {
            Shape::OneDisk => superblock.slots_offset(),
            Shape::Directory => 0,
        }
    }

    fn drive_of(&self, number: SegmentNumber) -> usize {
        self.inner.first_slots.partition_point(|first| *first <= number.0) - 1
    }

    /// The disk of a slot and the slot's position on it.
    pub(crate) fn slot(
        &self,
        number: SegmentNumber,
        offset: u64,
        len: u64,
    ) -> Result<(&dyn Disk, u64)> {
        let segment_bytes = u64::from(self.inner.superblock().segment_bytes);
        let inside = number.0 < self.geometry().segment_count
            && offset.checked_add(len).is_some_and(|end| end <= segment_bytes);
        if !inside {
            return Err(Error::OutOfRange { segment: number, offset, len });
        }
        let drive = self.drive_of(number);
        let within = u64::from(number.0 - self.inner.first_slots[drive]);
        Ok((&*self.inner.parts[drive].slots, within * segment_bytes))
    }
}

fn check_set(found: &[(Superblock, DriveDisks)]) -> Result<()> {
    let Some((first, _)) = found.first() else {
        return Err(Error::NoPool { path: "an empty list of drives".into() });
    };
    for (index, (superblock, drive)) in found.iter().enumerate() {
        let own = Superblock {
            drive_index: first.drive_index,
            segment_count: first.segment_count,
            shape: first.shape,
            revision: first.revision,
            ..superblock.clone()
        };
        let complete = usize::from(superblock.drive_count) == found.len();
        let is_in_place =
            usize::from(superblock.drive_index) == index || planted(Bug::DrivesAsNamed);
        if own != *first || !is_in_place || !complete {
            return Err(Error::DriveSet {
                path: drive.meta().path().into(),
                index: superblock.drive_index,
                count: superblock.drive_count,
                pool: superblock.pool,
            });
        }
    }
    Ok(())
}

impl SegmentStore for Drive {
    fn geometry(&self) -> SegmentGeometry {
        let count = |superblock: &Superblock| superblock.segment_count;
        SegmentGeometry {
            segment_bytes: self.inner.superblock().segment_bytes,
            segment_count: self.inner.superblocks.iter().map(count).fold(0, u32::saturating_add),
        }
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let segment_bytes = u64::from(self.inner.superblock().segment_bytes);
            let (mut number, end) = (first.0, first.0.saturating_add(count));
            self.slot(SegmentNumber(end.saturating_sub(1)), 0, segment_bytes)?;
            while number < end {
                let next_drive = self.drive_of(SegmentNumber(number)) + 1;
                let drive_end =
                    self.inner.first_slots.get(next_drive).map_or(end, |slot| end.min(*slot));
                let (disk, start) = self.slot(SegmentNumber(number), 0, segment_bytes)?;
                disk.allocate(start, u64::from(drive_end - number) * segment_bytes).await?;
                number = drive_end;
            }
            Ok(())
        })
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        match self.slot(id.number, 0, bytes.len() as u64) {
            Ok((disk, start)) => disk.write(start, bytes, Persist::Durable), // MEDIA-1
            Err(error) => refused(error),
        }
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        let (disk, start) = match self.slot(id.number, u64::from(offset), u64::from(len)) {
            Ok(slot) => slot,
            Err(error) => return refused(error),
        };
        let (offset, len) = (offset as usize, len as usize);
        let first = offset / MEDIA_ALIGN * MEDIA_ALIGN;
        let end = (offset + len).next_multiple_of(MEDIA_ALIGN);
        if first == offset && end == offset + len {
            let read = disk.read(start + first as u64, len);
            return Box::pin(async move { Ok(read.await?.freeze()) });
        }
        let read = disk.read(start + first as u64, end - first);
        Box::pin(
            async move { Ok(read.await?.freeze().slice(offset - first..offset - first + len)) },
        )
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        let flushes: Vec<_> = self.inner.parts.iter().map(|part| part.slots.flush()).collect();
        Box::pin(async move {
            for flush in flushes {
                flush.await?;
            }
            Ok(())
        })
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        let segment_bytes = u64::from(self.inner.superblock().segment_bytes);
        match self.slot(id.number, 0, segment_bytes) {
            // Awaited, so that no discard is under way when the slot is written again.
            Ok((disk, start)) if self.inner.options.discard => disk.discard(start, segment_bytes),
            Ok(_) => Box::pin(std::future::ready(Ok(()))),
            Err(error) => refused(error),
        }
    }

    fn domain(&self, number: SegmentNumber) -> Option<u32> {
        u32::try_from(self.drive_of(number)).ok()
    }
}

impl Fence for Drive {
    fn check(&self) -> Result<()> {
        self.inner.check_fence()
    }
}

/// One lane on its disk.
struct DriveJournal {
    disk: Rc<dyn Disk>,
    capacity: u64,
}

impl DriveJournal {
    fn offset(&self, position: u64, len: u64) -> u64 {
        let offset = position % self.capacity;
        assert!(len <= self.capacity - offset, "{len} bytes at {position} cross the lane's end");
        offset
    }
}

impl JournalStore for DriveJournal {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()> {
        let offset = self.offset(position, bytes.len() as u64);
        self.disk.write(offset, bytes, Persist::Durable) // MEDIA-1
    }

    fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice> {
        let offset = self.offset(position, u64::from(len));
        let read = self.disk.read(offset, len as usize);
        Box::pin(async move { Ok(read.await?.freeze()) })
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.disk.flush()
    }
}

/// Which root of the drive a key means.
pub(crate) fn root_number(key: RootKey, lanes: u16) -> Result<u64> {
    match key {
        RootKey::Pool => Ok(0),
        RootKey::Shard(shard) if shard.0 < lanes => Ok(u64::from(shard.0) + 1),
        RootKey::Shard(shard) => Err(Error::NoLane { shard, lanes }),
    }
}
