//! A pool as somebody finds it who only looks: nothing is healed, nothing is written, and what redundancy hides is
//! shown.
//!
//! INSPECT-1. Files are opened for reading only; whoever needs to write gets an overlay ([`OverlayDisk`]).
//! INSPECT-2. A pool that is served is refused; while it is looked at, it cannot be served. Several may look at once.

use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use varve_reactor::Reactor;
use varve_types::{PoolId, SegmentNumber, ShardId};

use crate::blocking::{BlockingDisk, finish};
use crate::contract::RootKey;
use crate::disk::Disk;
use crate::drive::{Drive, DriveOptions};
use crate::drive_files::DriveParts;
use crate::format::{
    SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SUPERBLOCK_STRIDE, Shape, Superblock, decode_superblock,
};
use crate::overlay::{OverlayDisk, OverlayMemory};
use crate::parts::DriveDisks;
use crate::pool_files::{META_FILE, Owner, SEGMENTS_FILE, lane_file, lock, missing_files};
use crate::redundant_superblock::RedundantSuperblock;
use crate::superblock_copies::{read_any_superblock, without_redundancy};
use crate::uring::{UringDisk, open_error};
use crate::{Error, Result};

/// One of the copies of a drive's superblock.
#[derive(Clone, Debug)]
pub struct SuperblockCopy {
    /// File or device.
    pub path: String,
    /// Which copy, from 0.
    pub copy: u64,
    /// Byte position in the file or device.
    pub offset: u64,
    /// The copy as text, or why it is none.
    pub content: std::result::Result<String, String>,
    /// Whether it says what the copies agreed on.
    pub agrees: bool,
}

/// One of the two sides of a root.
#[derive(Clone, Debug)]
pub struct RootSide {
    /// File or device.
    pub path: String,
    /// Which side, from 0.
    pub side: u8,
    /// Byte position in the file or device.
    pub offset: u64,
    /// Version and contents, or why it cannot be read.
    pub content: std::result::Result<(u64, Vec<u8>), String>,
}

/// Where bytes of a pool lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MediaPlace {
    /// File or device.
    pub path: String,
    /// Byte position in it.
    pub offset: u64,
}

/// What the superblocks say of the pool as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolFigures {
    /// Identity.
    pub pool: PoolId,
    /// Shards the pool can have.
    pub lane_count: u16,
    /// Bytes of a lane.
    pub lane_bytes: u64,
    /// Bytes of a segment's slot.
    pub segment_bytes: u32,
    /// Slots of all drives.
    pub segment_count: u64,
}

/// The drives of a pool, opened for reading (INSPECT-1) and locked against being served (INSPECT-2).
pub struct PoolInspection {
    drives: Vec<InspectedDrive>,
}

struct InspectedDrive {
    path: PathBuf,
    copies: Vec<SuperblockCopy>,
    superblock: Result<Superblock>,
    /// Holds the lock (INSPECT-2).
    _lock: File,
}

impl PoolInspection {
    /// Opens and locks drives, in any order, whatever state their superblocks are in. Blocks for a few reads.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NoPool`] when there is not even a file, or the system's.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let drives = paths.iter().map(|path| InspectedDrive::open(path));
        Ok(Self { drives: drives.collect::<Result<_>>()? })
    }

    /// Every copy of every drive's superblock.
    pub fn superblock_copies(&self) -> impl Iterator<Item = &SuperblockCopy> {
        self.drives.iter().flat_map(|drive| &drive.copies)
    }

    /// What the superblocks agree on.
    ///
    /// # Errors
    /// [`Error::NoPool`], [`Error::Corrupt`], [`Error::Unsupported`]: those of the first drive that has none.
    pub fn figures(&self) -> Result<PoolFigures> {
        let mut segment_count = 0;
        let mut first = None;
        for drive in &self.drives {
            let superblock = drive.superblock.as_ref().map_err(Clone::clone)?;
            segment_count += u64::from(superblock.segment_count);
            first.get_or_insert(superblock);
        }
        let Some(first) = first else {
            return Err(Error::NoPool { path: "an empty list of drives".into() });
        };
        Ok(PoolFigures {
            pool: first.pool,
            lane_count: first.lanes_of_pool,
            lane_bytes: first.lane_bytes,
            segment_bytes: first.segment_bytes,
            segment_count,
        })
    }

    /// An [`Error::FileMissing`] for each file that a drive lacks, as far as its superblock can be read.
    #[must_use]
    pub fn missing_files(&self) -> Vec<Error> {
        let of_drive = |drive: &InspectedDrive| {
            let superblock = drive.superblock.as_ref().ok();
            superblock.map_or_else(Vec::new, |superblock| missing_files(&drive.path, superblock))
        };
        self.drives.iter().flat_map(of_drive).collect()
    }

    /// The pool for the loop of this thread, over an overlay of its own: what is written to it is gone when it is
    /// dropped, and the drives never see it.
    ///
    /// # Errors
    /// Those of [`Self::figures`], [`Error::DriveSet`], [`Error::Open`], or [`Error::TooSmall`].
    ///
    /// # Panics
    /// In the simulator, which has no files.
    pub fn drive(&self, reactor: &Reactor, memory: &Rc<OverlayMemory>) -> Result<Drive> {
        let mut found = Vec::new();
        for drive in &self.drives {
            let superblock = drive.superblock.clone()?;
            let disks = drive.disks(&superblock, reactor, memory)?;
            found.push((superblock, disks));
        }
        Drive::assemble(found, DriveOptions::default())
    }
}

/// A drive of a redundant pool, opened for reading (INSPECT-1) and locked against being served (INSPECT-2).
pub struct RedundantDriveInspection {
    path: PathBuf,
    copies: Vec<SuperblockCopy>,
    superblock: Result<RedundantSuperblock>,
    /// Holds the lock (INSPECT-2).
    _lock: File,
}

impl RedundantDriveInspection {
    /// Opens and locks a drive, whatever state its superblocks are in. Blocks for a few reads.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::NoPool`] when there is not even a file, or the system's.
    pub fn open(path: &Path) -> Result<Self> {
        let DriveLook { copies, superblock, lock } = DriveLook::open(path)?;
        let superblock = superblock.and_then(|stored| {
            let none = || Error::NoPool { path: path.display().to_string() };
            RedundantSuperblock::of_stored(&stored).ok_or_else(none)
        });
        Ok(Self { path: path.to_owned(), copies, superblock, _lock: lock })
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has left a pool, and has the mark of that in place of superblocks.
    #[must_use]
    pub fn has_left(&self) -> bool {
        matches!(self.superblock, Err(Error::FormerDrive { .. }))
    }

    /// Every copy of its superblock.
    #[must_use]
    pub fn superblock_copies(&self) -> &[SuperblockCopy] {
        &self.copies
    }

    /// What the copies agree on.
    ///
    /// # Errors
    /// [`Error::NoPool`] of a drive of another kind of pool, [`Error::Corrupt`], [`Error::Unsupported`].
    pub fn superblock(&self) -> Result<RedundantSuperblock> {
        self.superblock.clone()
    }

    /// Its parts for the loop of this thread: with `memory` over overlays, where what is written stays, and else for
    /// reading only.
    ///
    /// # Errors
    /// Those of [`Self::superblock`], [`Error::Open`], or [`Error::TooSmall`].
    ///
    /// # Panics
    /// In the simulator, which has no files.
    pub fn disks(
        &self,
        reactor: &Reactor,
        memory: Option<&Rc<OverlayMemory>>,
    ) -> Result<DriveParts> {
        let superblock = self.superblock()?;
        let open = |path: &Path| -> Result<Rc<dyn Disk>> {
            let below: Rc<dyn Disk> = Rc::new(UringDisk::open_read_only(reactor, path)?);
            Ok(match memory {
                Some(memory) => Rc::new(OverlayDisk::new(below, Rc::clone(memory))), // INSPECT-1
                None => below,
            })
        };
        let parts = if superblock.is_directory {
            let meta = open(&self.path.join(META_FILE))?;
            DriveParts { meta, space: open(&self.path.join(SEGMENTS_FILE))? }
        } else {
            let meta = open(&self.path)?;
            let space = Rc::new(superblock.space_of(&meta)?);
            DriveParts { meta, space }
        };
        superblock.check_sizes(&*parts.meta, &*parts.space)?;
        Ok(parts)
    }
}

/// What a drive of either kind says of itself.
struct DriveLook {
    copies: Vec<SuperblockCopy>,
    superblock: Result<Superblock>,
    lock: File,
}

impl DriveLook {
    fn open(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| open_error(path, &error))?;
        let meta = if metadata.is_dir() { path.join(META_FILE) } else { path.to_owned() };
        if !meta.try_exists().map_err(|error| open_error(&meta, &error))? {
            return Err(Error::NoPool { path: path.display().to_string() });
        }
        let lock = lock(&meta, metadata.file_type().is_block_device(), Owner::Reader)?;
        let disk = BlockingDisk::open_read_only(&meta)?;
        let superblock = finish(read_any_superblock(&disk));
        let copies = finish(read_copies(&disk, superblock.as_ref().ok()));
        Ok(Self { copies, superblock, lock })
    }
}

impl InspectedDrive {
    fn open(path: &Path) -> Result<Self> {
        let DriveLook { copies, superblock, lock } = DriveLook::open(path)?;
        let name = path.display().to_string();
        let superblock = superblock.and_then(|stored| without_redundancy(stored, &name));
        Ok(Self { path: path.to_owned(), copies, superblock, _lock: lock })
    }

    fn disks(
        &self,
        superblock: &Superblock,
        reactor: &Reactor,
        memory: &Rc<OverlayMemory>,
    ) -> Result<DriveDisks> {
        let open = |path: &Path| -> Result<Rc<dyn Disk>> {
            let below = Rc::new(UringDisk::open_read_only(reactor, path)?);
            Ok(Rc::new(OverlayDisk::new(below, Rc::clone(memory)))) // INSPECT-1
        };
        if superblock.shape == Shape::OneDisk {
            return Ok(DriveDisks::One(open(&self.path)?));
        }
        let lane = |lane| open(&self.path.join(lane_file(lane)));
        Ok(DriveDisks::Directory {
            meta: open(&self.path.join(META_FILE))?,
            lanes: (0..superblock.lane_count()).map(lane).collect::<Result<_>>()?,
            slots: open(&self.path.join(SEGMENTS_FILE))?,
        })
    }
}

async fn read_copies(meta: &dyn Disk, agreed: Option<&Superblock>) -> Vec<SuperblockCopy> {
    let mut copies = Vec::new();
    for copy in 0..SUPERBLOCK_COPIES {
        let offset = copy * SUPERBLOCK_STRIDE;
        let read = if offset + SUPERBLOCK_BYTES as u64 > meta.size() {
            Err("the drive ends before it".to_owned())
        } else {
            meta.read(offset, SUPERBLOCK_BYTES).await.map_err(|error| error.to_string())
        };
        let found =
            read.and_then(|bytes| decode_superblock(&bytes).map_err(|fault| fault.to_string()));
        copies.push(SuperblockCopy {
            path: meta.path().to_owned(),
            copy,
            offset,
            agrees: found.as_ref().ok() == agreed && agreed.is_some(),
            content: found.map(|superblock| superblock.to_string()),
        });
    }
    copies
}

impl Drive {
    /// Both sides of a root, as they are.
    ///
    /// # Errors
    /// [`Error::NoLane`].
    pub async fn root_sides(&self, key: RootKey) -> Result<[RootSide; 2]> {
        self.inner.inspect_root(key).await
    }

    /// Where a segment begins; `None` when the pool has no such segment.
    #[must_use]
    pub fn segment_place(&self, number: SegmentNumber) -> Option<MediaPlace> {
        let (disk, within) = self.slot(number, 0, 0).ok()?;
        let start = self.slots_start(number);
        Some(MediaPlace { path: disk.path().to_owned(), offset: start + within })
    }

    /// Where the lane of a shard begins; `None` when the pool has no such lane.
    #[must_use]
    pub fn lane_place(&self, shard: ShardId) -> Option<MediaPlace> {
        if shard.0 >= self.lane_count() {
            return None;
        }
        let (disk, offset) = self.lane_start(shard);
        Some(MediaPlace { path: disk.path().to_owned(), offset })
    }
}
