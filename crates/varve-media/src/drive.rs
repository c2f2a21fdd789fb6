//! The contracts over disks: superblocks, lanes, slots and roots of a pool on one or more drives.
//!
//! The layout is drawn in `format/mod.rs`.

use std::cell::RefCell;
use std::rc::Rc;

use varve_reactor::Notify;
use varve_stdx::BufSlice;
use varve_types::limits::{MEDIA_ALIGN, SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX};
use varve_types::{PoolId, SegmentNumber, ShardId};

use crate::contract::{
    Fence, IoFuture, JournalStore, Media, RootKey, SegmentGeometry, SegmentId, SegmentStore,
};
use crate::disk::{Disk, Persist, Section};
use crate::format::{
    LANE_BYTES_MAX, ROOT_BYTES_MAX, RootSlot, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES,
    SUPERBLOCK_STRIDE, Shape, Superblock, SuperblockFault, decode_superblock, encode_root,
    encode_superblock, has_superblock_magic,
};
use crate::stats::DiskStats;
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
        }
    }
}

/// The disks that make up one drive.
#[derive(Clone)]
pub enum DriveDisks {
    /// Everything on one disk: a block device or a file.
    One(Rc<dyn Disk>),
    /// A disk for each purpose: the files of a directory.
    Directory {
        /// Superblocks and roots.
        meta: Rc<dyn Disk>,
        /// Lanes, in order.
        lanes: Vec<Rc<dyn Disk>>,
        /// Segment slots.
        slots: Rc<dyn Disk>,
    },
}

impl DriveDisks {
    /// Everything on `disk`.
    pub fn one(disk: impl Disk + 'static) -> Self {
        Self::One(Rc::new(disk))
    }

    fn shape(&self) -> Shape {
        match self {
            Self::One(_) => Shape::OneDisk,
            Self::Directory { .. } => Shape::Directory,
        }
    }

    fn meta(&self) -> &dyn Disk {
        match self {
            Self::One(disk) => &**disk,
            Self::Directory { meta, .. } => &**meta,
        }
    }

    /// Slots that fit beside what `superblock` describes.
    fn slots_that_fit(&self, superblock: &Superblock) -> Result<u32> {
        let (disk, start) = match self {
            Self::One(disk) => (disk, superblock.slots_offset()),
            Self::Directory { slots, .. } => (slots, 0),
        };
        let count = disk.size().saturating_sub(start) / u64::from(superblock.segment_bytes);
        if count == 0 {
            let need = start + u64::from(superblock.segment_bytes);
            return Err(Error::TooSmall { path: disk.path().into(), have: disk.size(), need });
        }
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn split(self, superblock: &Superblock) -> Result<Parts> {
        let lane_count = usize::from(superblock.lane_count());
        let slots_bytes = u64::from(superblock.segment_count) * u64::from(superblock.segment_bytes);
        match self {
            Self::One(disk) => {
                let section = |start, size| -> Result<Rc<dyn Disk>> {
                    Ok(Rc::new(Section::new(Rc::clone(&disk), start, size)?))
                };
                let lane = |lane| section(superblock.lane_offset(lane), superblock.lane_bytes);
                Ok(Parts {
                    meta: section(0, superblock.meta_bytes())?,
                    lanes: (0..superblock.lane_count()).map(lane).collect::<Result<_>>()?,
                    slots: section(superblock.slots_offset(), slots_bytes)?,
                })
            }
            Self::Directory { meta, lanes, slots } => {
                need(&*meta, superblock.meta_bytes())?;
                need(&*slots, slots_bytes)?;
                for lane in &lanes {
                    need(&**lane, superblock.lane_bytes)?;
                }
                if lanes.len() != lane_count {
                    return Err(Error::Corrupt {
                        what: "directory",
                        path: meta.path().into(),
                        reason: format!("{} lane files, expected {lane_count}", lanes.len()),
                    });
                }
                Ok(Parts { meta, lanes, slots })
            }
        }
    }
}

fn need(disk: &dyn Disk, bytes: u64) -> Result<()> {
    if disk.size() >= bytes {
        return Ok(());
    }
    Err(Error::TooSmall { path: disk.path().into(), have: disk.size(), need: bytes })
}

pub(crate) struct Parts {
    pub(crate) meta: Rc<dyn Disk>,
    lanes: Vec<Rc<dyn Disk>>,
    slots: Rc<dyn Disk>,
}

pub(crate) struct Inner {
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

impl Inner {
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
    /// Hand the space of deleted segments back to the medium. Off by default: taking it again costs more than keeping it.
    pub discard: bool,
}

/// The drives of an open pool, on one thread. Clones share them.
#[derive(Clone)]
pub struct Drive {
    pub(crate) inner: Rc<Inner>,
    pub(crate) stats: Option<Rc<DiskStats>>,
}

impl Drive {
    /// Makes a pool on `drives`: empty roots first, superblocks last. Durable on return; cut off, there is no pool.
    ///
    /// Lanes must read as zeros or hold another pool's frames.
    ///
    /// # Errors
    /// [`Error::PoolExists`] when a drive carries a superblock, [`Error::Spec`], [`Error::TooSmall`], or a disk's error.
    ///
    /// # Panics
    /// When `drives` is empty.
    pub async fn format(drives: &[DriveDisks], spec: &DriveSpec) -> Result<()> {
        assert!(!drives.is_empty(), "a pool has a drive");
        spec.validate()?;
        let mut superblocks = Vec::new();
        for (index, drive) in drives.iter().enumerate() {
            for copy in 0..SUPERBLOCK_COPIES {
                let read = drive.meta().read(copy * SUPERBLOCK_STRIDE, SUPERBLOCK_BYTES);
                if has_superblock_magic(&read.await?) {
                    return Err(Error::PoolExists { path: drive.meta().path().into() });
                }
            }
            let mut superblock = spec.superblock(index, drives.len(), drive.shape());
            superblock.segment_count = drive.slots_that_fit(&superblock)?;
            drive.clone().split(&superblock)?;
            superblocks.push(superblock);
        }
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
        found.sort_by_key(|(superblock, _)| superblock.drive_index);
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
        let inner = Inner { superblocks, parts, first_slots, options, busy_roots, root_freed };
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
            journal: Rc::new(Lane { disk, capacity }),
            roots: Rc::new(self.clone()),
            fence: Rc::new(self.clone()),
        })
    }

    /// The disk of a slot and the slot's position on it.
    fn slot(&self, number: SegmentNumber, offset: u64, len: u64) -> Result<(&dyn Disk, u64)> {
        let segment_bytes = u64::from(self.inner.superblock().segment_bytes);
        let inside = number.0 < self.geometry().segment_count
            && offset.checked_add(len).is_some_and(|end| end <= segment_bytes);
        if !inside {
            return Err(Error::OutOfRange { segment: number, offset, len });
        }
        let drive = self.inner.first_slots.partition_point(|first| *first <= number.0) - 1;
        let within = u64::from(number.0 - self.inner.first_slots[drive]);
        Ok((&*self.inner.parts[drive].slots, within * segment_bytes))
    }
}

/// The superblock on which at least two copies agree; the highest revision of those.
pub(crate) async fn read_superblock(meta: &dyn Disk) -> Result<Superblock> {
    let path = || meta.path().to_owned();
    let (mut valid, mut reasons, mut marked) = (Vec::new(), Vec::new(), false);
    for copy in 0..SUPERBLOCK_COPIES {
        let offset = copy * SUPERBLOCK_STRIDE;
        if offset + SUPERBLOCK_BYTES as u64 > meta.size() {
            break;
        }
        let bytes = match meta.read(offset, SUPERBLOCK_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) => {
                marked = true;
                reasons.push(error.to_string());
                continue;
            }
        };
        marked |= has_superblock_magic(&bytes);
        match decode_superblock(&bytes) {
            Ok(superblock) => valid.push(superblock),
            Err(SuperblockFault::Features(flags)) => {
                return Err(Error::Unsupported { path: path(), flags });
            }
            Err(fault) => reasons.push(format!("copy {copy}: {fault}")),
        }
    }
    if !marked {
        return Err(Error::NoPool { path: path() });
    }
    let agreed = |one: &&Superblock| valid.iter().filter(|other| other == one).count() >= 2;
    let best = valid.iter().filter(agreed).max_by_key(|superblock| superblock.revision);
    if !reasons.is_empty() {
        tracing::warn!(path = meta.path(), reasons = reasons.join("; "), "superblock copies lost");
    }
    best.cloned().ok_or_else(|| Error::Corrupt {
        what: "superblock",
        path: path(),
        reason: format!("fewer than two of four copies agree: {}", reasons.join("; ")),
    })
}

/// Writes the copies again that differ from what was agreed on. For the owner only; at least two copies stay untouched.
pub(crate) async fn heal_superblock(meta: &dyn Disk, agreed: &Superblock) {
    let good = encode_superblock(agreed);
    for copy in 0..SUPERBLOCK_COPIES {
        let offset = copy * SUPERBLOCK_STRIDE;
        if meta.read(offset, SUPERBLOCK_BYTES).await.is_ok_and(|bytes| *bytes == *good) {
            continue;
        }
        let healed = meta.write(offset, good.clone(), Persist::Durable).await;
        tracing::warn!(
            path = meta.path(),
            copy,
            healed = healed.is_ok(),
            "superblock copy rewritten"
        );
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
        if own != *first || usize::from(superblock.drive_index) != index || !complete {
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

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        match self.slot(id.number, 0, bytes.len() as u64) {
            Ok((disk, start)) => disk.write(start, bytes, Persist::Durable), // M1
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        let (disk, start) = match self.slot(id.number, u64::from(offset), u64::from(len)) {
            Ok(slot) => slot,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
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

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        let segment_bytes = u64::from(self.inner.superblock().segment_bytes);
        match self.slot(id.number, 0, segment_bytes) {
            // Awaited, so that no discard is under way when the slot is written again.
            Ok((disk, start)) if self.inner.options.discard => disk.discard(start, segment_bytes),
            Ok(_) => Box::pin(std::future::ready(Ok(()))),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}

impl Fence for Drive {
    fn check(&self) -> Result<()> {
        self.inner.check_fence()
    }
}

/// One lane on its disk.
struct Lane {
    disk: Rc<dyn Disk>,
    capacity: u64,
}

impl Lane {
    fn offset(&self, position: u64, len: u64) -> u64 {
        let offset = position % self.capacity;
        assert!(len <= self.capacity - offset, "{len} bytes at {position} cross the lane's end");
        offset
    }
}

impl JournalStore for Lane {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()> {
        let offset = self.offset(position, bytes.len() as u64);
        self.disk.write(offset, bytes, Persist::Durable) // M1
    }

    fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice> {
        let offset = self.offset(position, u64::from(len));
        let read = self.disk.read(offset, len as usize);
        Box::pin(async move { Ok(read.await?.freeze()) })
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
