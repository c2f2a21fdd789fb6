//! One drive as files, for pools that put their parts where the superblock of a redundant drive says: found, locked,
//! made, and opened for a thread. Pools of the other format have `PoolFiles`.
//!
//! DRIVE-FILES-1. A drive is locked as long as its [`DriveFiles`] are there, as POOL-FILES-1 has it: a pool of either
//!     format that has it open elsewhere refuses this one.
//! DRIVE-FILES-2. Nothing is written to any drive of a pool that is to be made before all were looked at and locked.
//! DRIVE-FILES-3. A drive that is opened for reading only is locked against owners, and shared with other readers. Its
//!     files are opened for reading, and what is written to its disks stays in an overlay.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::blocking::{BlockingDisk, finish};
use crate::disk::{Disk, DiskOperation, Persist, Section};
use crate::fault::{Fault, FaultDisk, FaultPlan, FaultRule};
use crate::overlay::{OverlayDisk, OverlayMemory};
use crate::pool_files::{
    DriveKind, META_FILE, NewDrive, Owner, SEGMENTS_FILE, clear_places, kind_of, lane_file, lock,
    make_directory, make_file, sync_entries, touch,
};
use crate::private;
use crate::stats::{DiskStats, StatsDisk};
use crate::uring::{FileAccess, UringDisk, open_error, size_of_file};
use crate::{Error, Result};

/// Bytes that are written at once where places of journals get their zeros.
const ZEROS_BYTES: u64 = 1 << 20;

/// A drive that this process has locked (DRIVE-FILES-1).
pub struct DriveFiles {
    path: PathBuf,
    kind: DriveKind,
    access: FileAccess,
    lock: File,
}

/// Where the two parts of a drive end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveExtent {
    /// Bytes before the first unit: superblocks, tables and roots.
    pub meta_bytes: u64,
    /// Bytes of its units.
    pub space_bytes: u64,
}

/// The two parts of a drive as disks.
pub struct DriveParts {
    /// What has the bytes before the first unit, by offsets of the drive: all of a drive that is one disk.
    pub meta: Rc<dyn Disk>,
    /// Units; the first one is at offset 0, and those that the drive gets when it grows follow the others.
    pub space: Rc<dyn Disk>,
}

/// What lies between a thread and the disks that it opens.
#[derive(Clone, Default)]
pub struct DiskLayers {
    /// Where operations are counted.
    pub stats: Option<Rc<DiskStats>>,
    /// Slow media, for tests.
    pub delay: Option<DiskDelay>,
    /// Where what is written to drives stays that are opened for reading only (DRIVE-FILES-3). Without it their disks
    /// refuse writes.
    pub overlay: Option<Rc<OverlayMemory>>,
}

/// Operations that begin later than they are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskDelay {
    /// By how much, in ns.
    pub nanos: u64,
    /// How long after the disk was opened that begins, in ns.
    pub after_nanos: u64,
    /// Of the drive of this number only, where drives have numbers.
    pub drive: Option<u16>,
}

impl DriveFiles {
    /// Finds and locks the drive at a path. Writes nothing; of a directory without the first file of a drive it says
    /// [`Error::NoPool`].
    ///
    /// # Errors
    /// [`Error::NoPool`], [`Error::InUse`], or the system's.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_for(path, FileAccess::ReadWrite)
    }

    /// The same for reading only (DRIVE-FILES-3).
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_to_read(path: &Path) -> Result<Self> {
        Self::open_for(path, FileAccess::ReadOnly)
    }

    fn open_for(path: &Path, access: FileAccess) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| open_error(path, &error))?;
        let kind = match metadata.file_type() {
            it if it.is_dir() => DriveKind::Directory,
            it if it.is_block_device() => DriveKind::Device,
            it if it.is_file() => DriveKind::File,
            _ => return Err(Error::NoPool { path: path.display().to_string() }),
        };
        let first = first_file(path, kind);
        let is_there = first.try_exists().map_err(|error| open_error(&first, &error))?;
        if !is_there {
            return Err(Error::NoPool { path: path.display().to_string() });
        }
        let owner = match access {
            FileAccess::ReadWrite => Owner::Sole,
            FileAccess::ReadOnly => Owner::Reader,
        };
        let lock = lock(&first, kind == DriveKind::Device, owner)?;
        Ok(Self { path: path.to_owned(), kind, access, lock })
    }

    /// Finds, locks and clears the places of new drives: what may be overwritten is what [`crate::PoolFiles::create`]
    /// overwrites (DRIVE-FILES-2). Blocks for a few reads and writes of each.
    ///
    /// # Errors
    /// [`Error::PoolExists`], [`Error::NotEmpty`], [`Error::InUse`], or the system's.
    pub fn prepare(drives: &[NewDrive]) -> Result<Vec<Self>> {
        let (mut prepared, mut places) = (Vec::new(), Vec::new());
        for drive in drives {
            let kind = kind_of(drive)?;
            if kind == DriveKind::Directory {
                make_directory(drive)?;
            }
            let first = first_file(&drive.path, kind);
            if kind != DriveKind::Device {
                touch(&first)?;
            }
            let lock = lock(&first, kind == DriveKind::Device, Owner::Sole)?;
            let (path, access) = (drive.path.clone(), FileAccess::ReadWrite);
            prepared.push(Self { path, kind, access, lock });
            places.push((kind, first));
        }
        clear_places(drives, &places, 0)?;
        Ok(prepared)
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it lies on.
    #[must_use]
    pub const fn kind(&self) -> DriveKind {
        self.kind
    }

    /// Bytes that a device or an existing file has; `None` of a directory, which has those that it is given.
    ///
    /// # Errors
    /// The system's.
    pub fn size(&self) -> Result<Option<u64>> {
        match self.kind {
            DriveKind::Directory => Ok(None),
            DriveKind::Device | DriveKind::File => Ok(Some(BlockingDisk::open(&self.path)?.size())),
        }
    }

    /// Bytes that it has now for units, behind `meta_bytes` where it is one disk. Reads nothing from it.
    ///
    /// # Errors
    /// The system's.
    pub fn space_bytes(&self, meta_bytes: u64) -> Result<u64> {
        if self.kind != DriveKind::Directory {
            return Ok(size_of_file(&self.lock, &self.path)?.saturating_sub(meta_bytes));
        }
        let path = self.path.join(SEGMENTS_FILE);
        let found = fs::metadata(&path).map_err(|error| open_error(&path, &error))?;
        Ok(found.len())
    }

    /// The disk with the superblocks, for the loop of this thread.
    ///
    /// # Errors
    /// [`Error::Open`].
    ///
    /// # Panics
    /// In the simulator, which has no files.
    pub fn first_disk(&self, reactor: &Reactor) -> Result<Rc<dyn Disk>> {
        self.open_disk(reactor, &first_file(&self.path, self.kind), None)
    }

    /// The disk with the slots of a directory, for the loop of this thread.
    ///
    /// # Errors
    /// [`Error::Open`].
    ///
    /// # Panics
    /// In the simulator, which has no files.
    pub fn slots_disk(&self, reactor: &Reactor) -> Result<Rc<dyn Disk>> {
        Ok(Rc::new(UringDisk::open(reactor, &self.path.join(SEGMENTS_FILE))?))
    }

    /// The same with a lane that a directory of a pool without redundancy has.
    ///
    /// # Errors
    /// [`Error::Open`].
    ///
    /// # Panics
    /// In the simulator, which has no files.
    pub fn lane_disk(&self, reactor: &Reactor, lane: u16) -> Result<Rc<dyn Disk>> {
        Ok(Rc::new(UringDisk::open(reactor, &self.path.join(lane_file(lane)))?))
    }

    /// Makes the files of a drive that is there as long as its parts, where they are shorter. What comes is a hole. A
    /// device stays as it is.
    ///
    /// # Errors
    /// The system's.
    pub fn grow(&self, extent: DriveExtent) -> Result<()> {
        let DriveExtent { meta_bytes, space_bytes } = extent;
        let sizes = match self.kind {
            DriveKind::Device => return Ok(()),
            DriveKind::File => vec![(self.path.clone(), meta_bytes + space_bytes)],
            DriveKind::Directory => vec![
                (self.path.join(META_FILE), meta_bytes),
                (self.path.join(SEGMENTS_FILE), space_bytes),
            ],
        };
        for (path, bytes) in sizes {
            let grow = || {
                let file = File::options().write(true).open(&path)?;
                if file.metadata()?.len() < bytes {
                    file.set_len(bytes)?;
                }
                file.sync_all()
            };
            grow().map_err(|error| open_error(&path, &error))?;
        }
        Ok(())
    }

    /// Removes the lanes of a directory, whose pool has them elsewhere. One that stays takes room, and nothing else.
    pub fn remove_lanes(&self) {
        if self.kind != DriveKind::Directory {
            return;
        }
        let lanes = (0..ShardId::COUNT_MAX).map(|lane| self.path.join(lane_file(lane)));
        for path in lanes.take_while(|path| path.exists()) {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "a lane that is not used any more stays");
                return;
            }
        }
    }

    /// Makes its files their owner's only (POOL-FILES-3), but those that are only read.
    pub fn tighten(&self) {
        if self.access == FileAccess::ReadOnly {
            return;
        }
        self.files().iter().for_each(|file| private::tighten(file));
    }

    /// Makes the files of a new drive at their full size. What lies before the units is written, as it is written again
    /// and again (POOL-FILES-2); units of files are holes.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::FileTooLarge`], or the system's.
    pub fn make(&self, extent: DriveExtent) -> Result<()> {
        let DriveExtent { meta_bytes, space_bytes } = extent;
        self.tighten();
        match self.kind {
            DriveKind::Device => Ok(()),
            DriveKind::File => make_file(&self.path, meta_bytes + space_bytes, meta_bytes),
            DriveKind::Directory => {
                make_file(&self.path.join(META_FILE), meta_bytes, meta_bytes)?;
                make_file(&self.path.join(SEGMENTS_FILE), space_bytes, 0)
            }
        }
    }

    /// Writes zeros to places of a file, so that later writes there change no metadata of the file system
    /// (POOL-FILES-2). Durable on return. A device needs none.
    ///
    /// # Errors
    /// The system's.
    pub fn write_zeros(&self, extent: DriveExtent, places: &[Range<u64>]) -> Result<()> {
        if self.kind == DriveKind::Device {
            return Ok(());
        }
        let space = self.blocking_disks(extent)?.space;
        for place in places {
            let mut at = place.start;
            while at < place.end {
                let len = usize::try_from((place.end - at).min(ZEROS_BYTES)).expect("a MiB");
                let zeros = varve_stdx::AlignedBuf::zeroed(len).freeze();
                finish(space.write(at, zeros, Persist::Cached))?;
                at += len as u64;
            }
        }
        finish(space.flush())
    }

    /// Makes the names of its files durable, and its own.
    ///
    /// # Errors
    /// The system's.
    pub fn sync_entries(&self) -> Result<()> {
        sync_entries(&self.path)
    }

    /// Opens it for callers without a loop: every future of these disks is complete.
    ///
    /// # Errors
    /// [`Error::Open`], or [`Error::TooSmall`] when it has shrunk.
    pub fn blocking_disks(&self, extent: DriveExtent) -> Result<DriveParts> {
        self.parts(extent, &|path| Ok(Rc::new(BlockingDisk::open(path)?)))
    }

    /// Opens it once more, for the loop of this thread.
    ///
    /// # Errors
    /// [`Error::Open`], or [`Error::TooSmall`] when it has shrunk.
    ///
    /// # Panics
    /// In the simulator, which has no files.
    pub fn disks(
        &self,
        reactor: &Reactor,
        extent: DriveExtent,
        layers: &DiskLayers,
    ) -> Result<DriveParts> {
        self.parts(extent, &|path| {
            let mut disk = self.open_disk(reactor, path, layers.overlay.as_ref())?;
            if let Some(delay) = layers.delay {
                disk = Rc::new(FaultDisk::new(disk, reactor, delays(reactor, delay)));
            }
            Ok(match &layers.stats {
                Some(stats) => Rc::new(StatsDisk::new(disk, reactor, Rc::clone(stats))),
                None => disk,
            })
        })
    }

    /// A file as it may be used: with an overlay over one that is only read (DRIVE-FILES-3).
    fn open_disk(
        &self,
        reactor: &Reactor,
        path: &Path,
        overlay: Option<&Rc<OverlayMemory>>,
    ) -> Result<Rc<dyn Disk>> {
        if self.access == FileAccess::ReadWrite {
            return Ok(Rc::new(UringDisk::open(reactor, path)?));
        }
        let below: Rc<dyn Disk> = Rc::new(UringDisk::open_read_only(reactor, path)?);
        Ok(match overlay {
            Some(memory) => Rc::new(OverlayDisk::new(below, Rc::clone(memory))),
            None => below,
        })
    }

    fn parts(
        &self,
        extent: DriveExtent,
        open: &dyn Fn(&Path) -> Result<Rc<dyn Disk>>,
    ) -> Result<DriveParts> {
        let DriveExtent { meta_bytes, space_bytes } = extent;
        let section = |disk: &Rc<dyn Disk>, start, size| -> Result<Rc<dyn Disk>> {
            Ok(Rc::new(Section::to_the_end(Rc::clone(disk), start, size)?))
        };
        if self.kind != DriveKind::Directory {
            let disk = open(&self.path)?;
            let space = section(&disk, meta_bytes, space_bytes)?;
            return Ok(DriveParts { meta: disk, space });
        }
        for file in [META_FILE, SEGMENTS_FILE] {
            let is_there = self.path.join(file).try_exists();
            if is_there.is_ok_and(|is_there| !is_there) {
                let drive = self.path.display().to_string();
                return Err(Error::FileMissing { file: file.to_owned(), drive });
            }
        }
        let segments = open(&self.path.join(SEGMENTS_FILE))?;
        let space = section(&segments, 0, space_bytes)?;
        Ok(DriveParts { meta: open(&self.path.join(META_FILE))?, space })
    }

    /// What it lies in.
    fn files(&self) -> Vec<PathBuf> {
        match self.kind {
            DriveKind::Device | DriveKind::File => vec![self.path.clone()],
            DriveKind::Directory => {
                [META_FILE, SEGMENTS_FILE].map(|name| self.path.join(name)).into()
            }
        }
    }
}

/// The file or device that has the superblocks.
fn first_file(path: &Path, kind: DriveKind) -> PathBuf {
    match kind {
        DriveKind::Directory => path.join(META_FILE),
        DriveKind::Device | DriveKind::File => path.to_owned(),
    }
}

fn delays(reactor: &Reactor, delay: DiskDelay) -> Rc<FaultPlan> {
    let plan = FaultPlan::new();
    let (later, begins) = (Rc::clone(&plan), reactor.sleep(delay.after_nanos));
    reactor.spawn(async move {
        begins.await;
        for operation in DiskOperation::ALL {
            later.add(FaultRule::always(operation, Fault::Delay(delay.nanos)));
        }
    });
    plan
}
