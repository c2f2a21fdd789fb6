//! Pools on block devices, files and directories: made once, opened by one process, and used by each of its threads
//! through descriptors of its own.
//!
//! POOL-FILES-1. An open pool is locked: a second opening anywhere on the machine fails with `InUse`.
//! POOL-FILES-2. A lane in a file is written with zeros when it is made. A durable write of 4 KiB took 96 to 110 µs
//!     there, and 171 to 225 µs in space that was only allocated: the file system has no metadata to change (ext4 on a
//!     virtual disk).
//! POOL-FILES-3. Files are their owner's only (`private`): those of earlier versions are tightened when they are
//!     opened.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use varve_reactor::Reactor;
use varve_types::PoolId;
use varve_types::limits::MEDIA_ALIGN;

use crate::blocking::{BlockingDisk, finish};
use crate::contract::{SegmentGeometry, SegmentStore};
use crate::disk::{Disk, DiskOperation, Persist};
use crate::drive::{Drive, DriveOptions};
use crate::fault::{Fault, FaultDisk, FaultPlan, FaultRule};
use crate::format::{SUPERBLOCK_BYTES, Shape, Superblock};
use crate::in_place::{is_copied_on_write, overwrite_in_place};
use crate::making::{SuperblockArea, copies_within, is_of_making, look_at_all};
use crate::parts::DriveDisks;
use crate::private;
use crate::signature::name_of;
use crate::spec::DriveSpec;
use crate::stats::{DiskStats, StatsDisk};
use crate::superblock_copies::{heal_superblock, read_superblock};
use crate::uring::{UringDisk, open_error, write_zeros};
use crate::{Error, Result};

pub(crate) const META_FILE: &str = "meta";
pub(crate) const SEGMENTS_FILE: &str = "segments";
/// What names of files with lanes begin with.
const LANE_PREFIX: &str = "lane-";
/// What a new ext4 has.
const LOST_AND_FOUND: &str = "lost+found";

/// Where file systems, partition tables and volume managers leave their marks, in bytes from the start.
const SIGNATURE_BYTES: u64 = 1 << 20;

pub(crate) fn lane_file(lane: u16) -> String {
    format!("{LANE_PREFIX}{lane:04}")
}

/// What a drive is made on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveKind {
    /// A block device.
    Device,
    /// One regular file.
    File,
    /// A directory with a file for each purpose: the usual choice on a file system.
    Directory,
}

/// A drive to be made.
#[derive(Clone, Debug)]
pub struct NewDrive {
    /// Block device, file or directory. Files and directories are made; their parent must exist.
    pub path: PathBuf,
    /// What to make. `None`: what is there already, or else a directory.
    pub kind: Option<DriveKind>,
    /// Bytes for segments. `None`: all that a device or an existing file has; an error for what is made.
    pub capacity_bytes: Option<u64>,
    /// Whether to overwrite a pool or other data that is there, if nobody has it open.
    pub replace_pool: bool,
}

impl NewDrive {
    /// A directory with room for `capacity_bytes` of segments.
    #[must_use]
    pub fn directory(path: &Path, capacity_bytes: u64) -> Self {
        let kind = Some(DriveKind::Directory);
        let capacity_bytes = Some(capacity_bytes);
        Self { path: path.to_owned(), kind, capacity_bytes, replace_pool: false }
    }
}

/// A pool that this process has open. It may be shared between threads.
pub struct PoolFiles {
    drives: Vec<OpenDrive>,
    options: DriveOptions,
    /// By how much every operation begins later, in ns.
    delay_ns: u64,
}

struct OpenDrive {
    path: PathBuf,
    superblock: Superblock,
    /// Holds the lock (POOL-FILES-1).
    _lock: File,
}

impl PoolFiles {
    /// Makes a pool on new drives. Blocks; takes as long as writing the lanes does. Durable on return.
    ///
    /// # Errors
    /// [`Error::PoolExists`], [`Error::NotEmpty`], [`Error::InUse`], [`Error::Spec`], [`Error::TooSmall`], or the
    /// system's. What was made until then stays and can be overwritten.
    pub fn create(drives: &[NewDrive], spec: &DriveSpec) -> Result<()> {
        spec.validate()?;
        if drives.is_empty() {
            return Err(Error::Spec { field: "drives", value: 0 });
        }
        let mut locks = Vec::new();
        let mut places = Vec::new();
        for drive in drives {
            let kind = kind_of(drive)?;
            let lock_path = match kind {
                DriveKind::Directory => {
                    make_directory(drive)?;
                    drive.path.join(META_FILE)
                }
                DriveKind::Device | DriveKind::File => drive.path.clone(),
            };
            if kind != DriveKind::Device {
                touch(&lock_path)?;
            }
            locks.push(lock(&lock_path, kind == DriveKind::Device, Owner::Sole)?);
            places.push((kind, lock_path));
        }
        clear_places(drives, &places, spec.lane_count)?;
        let mut disks = Vec::new();
        for (index, (drive, (kind, _))) in drives.iter().zip(&places).enumerate() {
            let shape = match kind {
                DriveKind::Directory => Shape::Directory,
                DriveKind::Device | DriveKind::File => Shape::OneDisk,
            };
            let superblock = spec.superblock(index, drives.len(), shape);
            disks.push(make(drive, *kind, &superblock)?);
        }
        finish(Drive::format(&disks, spec))?;
        for drive in drives {
            sync_entries(&drive.path)?;
        }
        Ok(())
    }

    /// Looks whether a drive for so many lanes can be made without overwriting anything; changes nothing.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn check(drive: &NewDrive, lanes: u16) -> Result<()> {
        match kind_of(drive)? {
            kind if drive.path.exists() => {
                let meta = match kind {
                    DriveKind::Directory => drive.path.join(META_FILE),
                    DriveKind::Device | DriveKind::File => drive.path.clone(),
                };
                let found = if meta.exists() {
                    let disk = BlockingDisk::open(&meta)?;
                    finish(look_at_all(&[&disk]))?.pop().unwrap_or(SuperblockArea::Nothing)
                } else {
                    SuperblockArea::Nothing
                };
                check_place(drive, kind, lanes, found)
            }
            _ => Ok(()),
        }
    }

    /// Opens and locks a pool by all of its drives, in any order. Blocks for a few reads.
    ///
    /// # Errors
    /// [`Error::NoPool`], [`Error::InUse`], [`Error::Corrupt`], [`Error::DriveSet`], [`Error::Unsupported`] or the
    /// system's.
    pub fn open(paths: &[PathBuf], options: DriveOptions) -> Result<Self> {
        let mut drives = Vec::new();
        for path in paths {
            drives.push(OpenDrive::open(path)?);
        }
        let pool = Self { drives, options, delay_ns: 0 };
        pool.assemble(&mut |drive| drive.blocking_disks())?;
        Ok(pool)
    }

    /// Bytes of each lane.
    #[must_use]
    pub fn lane_bytes(&self) -> u64 {
        self.first().lane_bytes
    }

    /// The same pool, every operation of which begins later by `delay_ns`: slow media, for tests.
    #[must_use]
    pub fn delayed(self, delay_ns: u64) -> Self {
        Self { delay_ns, ..self }
    }

    /// Identity of the pool.
    #[must_use]
    pub fn pool(&self) -> PoolId {
        self.first().pool
    }

    /// Wall clock of the pool's making, in ms since 1970.
    #[must_use]
    pub fn created_unix_ms(&self) -> u64 {
        self.first().created_unix_ms
    }

    /// Lanes of the pool: shards it can have.
    #[must_use]
    pub fn lane_count(&self) -> u16 {
        self.first().lanes_of_pool
    }

    /// Sizes of its segment store.
    ///
    /// # Errors
    /// The system's.
    pub fn geometry(&self) -> Result<SegmentGeometry> {
        Ok(self.assemble(&mut |drive| drive.blocking_disks())?.geometry())
    }

    /// Opens the pool's files once more, for the loop of this thread.
    ///
    /// # Errors
    /// [`Error::Open`], or [`Error::TooSmall`] when a file has shrunk.
    ///
    /// # Panics
    /// In the simulator, which has no files.
    pub fn drive(&self, reactor: &Reactor) -> Result<Drive> {
        let stats = DiskStats::new();
        let plan = self.plan();
        let mut drive =
            self.assemble(&mut |drive| drive.uring_disks(reactor, &stats, plan.as_ref()))?;
        drive.stats = Some(stats);
        Ok(drive)
    }

    /// What slows operations down, if anything does.
    fn plan(&self) -> Option<Rc<FaultPlan>> {
        (self.delay_ns > 0).then(|| {
            let plan = FaultPlan::new();
            for operation in DiskOperation::ALL {
                plan.add(FaultRule::always(operation, Fault::Delay(self.delay_ns)));
            }
            plan
        })
    }

    fn first(&self) -> &Superblock {
        &self.drives.first().expect("a pool without drives does not open").superblock
    }

    fn assemble(&self, open: &mut dyn FnMut(&OpenDrive) -> Result<DriveDisks>) -> Result<Drive> {
        let mut found = Vec::new();
        for drive in &self.drives {
            found.push((drive.superblock.clone(), open(drive)?));
        }
        Drive::assemble(found, self.options.clone())
    }
}

impl OpenDrive {
    fn open(path: &Path) -> Result<Self> {
        let metadata = fs::metadata(path).map_err(|error| open_error(path, &error))?;
        let (first, device) = if metadata.is_dir() {
            (path.join(META_FILE), false)
        } else {
            (path.to_owned(), metadata.file_type().is_block_device())
        };
        let is_there = || first.try_exists().map_err(|error| open_error(&first, &error));
        if metadata.is_dir() && !is_there()? {
            return Err(Error::NoPool { path: path.display().to_string() });
        }
        let lock = lock(&first, device, Owner::Sole)?;
        let disk = BlockingDisk::open(&first)?;
        let superblock = finish(read_superblock(&disk))?;
        if let Some(missing) = missing_files(path, &superblock).into_iter().next() {
            return Err(missing);
        }
        finish(heal_superblock(&disk, &superblock));
        if !device && is_copied_on_write(&lock) {
            let path = path.display().to_string();
            tracing::warn!(
                path,
                "the file system copies on write: a full host stops the pool; move it to one made by this version"
            );
        }
        let drive = Self { path: path.to_owned(), superblock, _lock: lock };
        drive.files().iter().for_each(|file| private::tighten(file)); // POOL-FILES-3
        Ok(drive)
    }

    /// What it lies in.
    fn files(&self) -> Vec<PathBuf> {
        match self.superblock.shape {
            Shape::OneDisk => vec![self.path.clone()],
            Shape::Directory => {
                let names = file_names(&self.superblock);
                names.into_iter().map(|name| self.path.join(name)).collect()
            }
        }
    }

    fn disks(&self, open: &dyn Fn(&Path) -> Result<Rc<dyn Disk>>) -> Result<DriveDisks> {
        if self.superblock.shape == Shape::OneDisk {
            return Ok(DriveDisks::One(open(&self.path)?));
        }
        let lane = |lane| open(&self.path.join(lane_file(lane)));
        Ok(DriveDisks::Directory {
            meta: open(&self.path.join(META_FILE))?,
            lanes: (0..self.superblock.lane_count()).map(lane).collect::<Result<_>>()?,
            slots: open(&self.path.join(SEGMENTS_FILE))?,
        })
    }

    fn blocking_disks(&self) -> Result<DriveDisks> {
        self.disks(&|path| Ok(Rc::new(BlockingDisk::open(path)?)))
    }

    fn uring_disks(
        &self,
        reactor: &Reactor,
        stats: &Rc<DiskStats>,
        plan: Option<&Rc<FaultPlan>>,
    ) -> Result<DriveDisks> {
        self.disks(&|path| {
            let mut disk: Rc<dyn Disk> = Rc::new(UringDisk::open(reactor, path)?);
            if let Some(plan) = plan {
                disk = Rc::new(FaultDisk::new(disk, reactor, Rc::clone(plan)));
            }
            Ok(Rc::new(StatsDisk::new(disk, reactor, Rc::clone(stats))))
        })
    }
}

/// Files in the directory of a drive.
fn file_names(superblock: &Superblock) -> Vec<String> {
    let lanes = (0..superblock.lane_count()).map(lane_file);
    lanes.chain([META_FILE, SEGMENTS_FILE].map(str::to_owned)).collect()
}

/// An error for each file that the drive at `path` lacks. What cannot be looked at is left to its opening.
pub(crate) fn missing_files(path: &Path, superblock: &Superblock) -> Vec<Error> {
    if superblock.shape == Shape::OneDisk {
        return Vec::new();
    }
    let names = file_names(superblock).into_iter();
    let missing = names.filter(|name| path.join(name).try_exists().is_ok_and(|there| !there));
    missing.map(|file| Error::FileMissing { file, drive: path.display().to_string() }).collect()
}

pub(crate) fn kind_of(drive: &NewDrive) -> Result<DriveKind> {
    let found = match fs::metadata(&drive.path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(open_error(&drive.path, &error)),
        Ok(metadata) if metadata.is_dir() => Some(DriveKind::Directory),
        Ok(metadata) if metadata.file_type().is_block_device() => Some(DriveKind::Device),
        Ok(_) => Some(DriveKind::File),
    };
    match (drive.kind, found) {
        (None | Some(DriveKind::Directory), None) if is_below_dev(&drive.path) => {
            let reason = "there is no such device, and directories are not made under /dev";
            Err(Error::Open { path: drive.path.display().to_string(), reason: reason.to_owned() })
        }
        (None, None) => Ok(DriveKind::Directory),
        (Some(wanted), Some(found)) if wanted != found => Err(Error::Open {
            path: drive.path.display().to_string(),
            reason: format!("it is a {found:?}, not a {wanted:?}").to_lowercase(),
        }),
        (Some(DriveKind::Device), None) => {
            Err(open_error(&drive.path, &io::ErrorKind::NotFound.into()))
        }
        (Some(kind), _) | (None, Some(kind)) => Ok(kind),
    }
}

/// Whether a path is where the system has its devices: what is made there lies in memory.
fn is_below_dev(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

/// Makes the directory of a new drive, or refuses one with files of others before any file is made in it.
pub(crate) fn make_directory(drive: &NewDrive) -> Result<()> {
    let path = &drive.path;
    private::create_directory(path).map_err(|error| open_error(path, &error))?;
    if drive.replace_pool { Ok(()) } else { check_directory(path) }
}

pub(crate) fn touch(path: &Path) -> Result<()> {
    let opened = private::create_options().append(true).open(path);
    opened.map(drop).map_err(|error| open_error(path, &error))
}

/// Who may hold a drive beside the one who locks it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// Nobody.
    Sole,
    /// Others who only read.
    Reader,
}

/// Locks a file or device until the returned handle is closed (POOL-FILES-1).
pub(crate) fn lock(path: &Path, device: bool, owner: Owner) -> Result<File> {
    let in_use = || Error::InUse { path: path.display().to_string() };
    let mut options = OpenOptions::new();
    options.read(true).write(owner == Owner::Sole);
    if device && owner == Owner::Sole {
        // Refused while the device is mounted or part of an array.
        options.custom_flags(libc::O_EXCL);
    }
    let file = options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => in_use(),
        _ => open_error(path, &error),
    })?;
    // As flock(2) does, so that other tools see the lock.
    let locked = match owner {
        Owner::Sole => file.try_lock(),
        Owner::Reader => file.try_lock_shared(),
    };
    match locked {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(in_use()),
        Err(TryLockError::Error(error)) => Err(open_error(path, &error)),
    }
}

/// Looks at all places before anything is written to one, and takes away what superblocks there are where a pool may be
/// made: that for which marks elsewhere vouch before these.
pub(crate) fn clear_places(
    drives: &[NewDrive],
    places: &[(DriveKind, PathBuf)],
    lanes: u16,
) -> Result<()> {
    let new = drives.iter().zip(places).filter(|(drive, _)| !drive.replace_pool);
    let new: Vec<_> = new.collect();
    let disks = new.iter().map(|(_, (_, path))| BlockingDisk::open(path));
    let disks = disks.collect::<Result<Vec<_>>>()?;
    let metas: Vec<&dyn Disk> = disks.iter().map(|disk| disk as &dyn Disk).collect();
    let found = finish(look_at_all(&metas))?;
    for ((drive, (kind, _)), found) in new.iter().zip(&found) {
        check_place(drive, *kind, lanes, *found)?;
    }
    for (drive, (_, path)) in drives.iter().zip(places) {
        if drive.replace_pool {
            clear_place(path)?;
        }
    }
    for last in [false, true] {
        for ((_, (_, path)), found) in new.iter().zip(&found) {
            if (*found == SuperblockArea::Marked) == last {
                clear_place(path)?;
            }
        }
    }
    Ok(())
}

/// Refuses a place where something else is: a pool's files may be there, as far as nothing was written to them, or what
/// was left of a pool whose making was cut off.
fn check_place(drive: &NewDrive, kind: DriveKind, lanes: u16, found: SuperblockArea) -> Result<()> {
    if kind != DriveKind::Directory {
        return match found {
            SuperblockArea::Nothing => check_empty(&drive.path),
            _ => check_unfinished(&drive.path),
        };
    }
    let is_former = found == SuperblockArea::Former;
    if is_former {
        check_unfinished(&drive.path.join(META_FILE))?;
    }
    let meta = (found == SuperblockArea::Nothing).then(|| META_FILE.to_owned());
    // What a drive that has left holds nobody needs.
    let segments = (!is_former).then(|| SEGMENTS_FILE.to_owned());
    // What holds a pool is found to before anything else is found in its files.
    let names = meta.into_iter().chain(segments).chain((0..lanes).map(lane_file));
    for file in names.map(|name| drive.path.join(name)).filter(|path| path.exists()) {
        check_empty(&file)?;
    }
    Ok(())
}

/// Refuses a directory with anything but the files of a drive, and what a new file system has.
fn check_directory(path: &Path) -> Result<()> {
    let failed = |error| open_error(path, &error);
    for entry in fs::read_dir(path).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let is_own = [META_FILE, SEGMENTS_FILE, LOST_AND_FOUND].contains(&&*name)
            || name.starts_with(LANE_PREFIX);
        if !is_own {
            return Err(Error::NotEmpty { path: path.display().to_string(), found: None });
        }
    }
    Ok(())
}

/// Refuses a file or device with a pool, or with something else where such things begin.
fn check_empty(path: &Path) -> Result<()> {
    let disk = BlockingDisk::open(path)?;
    if !matches!(finish(read_superblock(&disk)), Err(Error::NoPool { .. })) {
        return Err(Error::PoolExists { path: path.display().to_string() });
    }
    // What a file has behind its last whole block counts as well.
    let begin = read_begin(path)?;
    if begin.iter().any(|byte| *byte != 0) {
        return Err(not_empty(path, &begin));
    }
    Ok(())
}

/// Refuses a file or device where the making of a pool was cut off and which somebody has used since: marks are left
/// where other software writes nothing at first.
fn check_unfinished(path: &Path) -> Result<()> {
    let begin = read_begin(path)?;
    let rest = begin.get(SUPERBLOCK_BYTES..).unwrap_or_default();
    if name_of(&begin).is_some() || rest.iter().any(|byte| *byte != 0) {
        return Err(not_empty(path, &begin));
    }
    let disk = BlockingDisk::open(path)?;
    for offset in copies_within(&disk) {
        if !finish(is_of_making(&disk, offset))? {
            return Err(not_empty(path, &begin));
        }
    }
    Ok(())
}

fn read_begin(path: &Path) -> Result<Vec<u8>> {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SIGNATURE_BYTES).read_to_end(&mut begin));
    read.map_err(|error| open_error(path, &error))?;
    Ok(begin)
}

fn not_empty(path: &Path, begin: &[u8]) -> Error {
    Error::NotEmpty { path: path.display().to_string(), found: name_of(begin) }
}

/// Removes a pool's superblocks.
fn clear_place(path: &Path) -> Result<()> {
    let disk = BlockingDisk::open(path)?;
    for offset in copies_within(&disk) {
        let zeros = varve_stdx::AlignedBuf::zeroed(SUPERBLOCK_BYTES).freeze();
        finish(disk.write(offset, zeros, Persist::Durable))?;
    }
    Ok(())
}

/// Makes the files of a drive, full size and with written lanes (POOL-FILES-2).
fn make(drive: &NewDrive, kind: DriveKind, superblock: &Superblock) -> Result<DriveDisks> {
    let path = &drive.path;
    let segment_bytes = u64::from(superblock.segment_bytes);
    let capacity = drive.capacity_bytes.map(|bytes| bytes / segment_bytes * segment_bytes);
    if capacity == Some(0) {
        let value = drive.capacity_bytes.unwrap_or(0);
        return Err(Error::Spec { field: "capacity_bytes", value });
    }
    let open = |path: &Path| -> Result<Rc<dyn Disk>> { Ok(Rc::new(BlockingDisk::open(path)?)) };
    match kind {
        DriveKind::Device => {
            let disk = BlockingDisk::open(path)?;
            let Some(capacity) = capacity else { return Ok(DriveDisks::one(disk)) };
            let bytes = superblock.slots_offset() + capacity;
            Ok(DriveDisks::one(crate::disk::Section::new(Rc::new(disk), 0, bytes)?))
        }
        DriveKind::File => {
            let start = superblock.slots_offset();
            let bytes = match capacity {
                Some(capacity) => start + capacity,
                None => BlockingDisk::open(path)?.size(),
            };
            make_file(path, bytes, start.min(bytes))?;
            Ok(DriveDisks::One(open(path)?))
        }
        DriveKind::Directory => {
            let Some(capacity) = capacity else {
                return Err(Error::Spec { field: "capacity_bytes", value: 0 });
            };
            let (meta, slots) = (path.join(META_FILE), path.join(SEGMENTS_FILE));
            make_file(&meta, superblock.meta_bytes(), superblock.meta_bytes())?;
            make_file(&slots, capacity, 0)?;
            let mut lanes = Vec::new();
            for lane in 0..superblock.lane_count() {
                let lane = path.join(lane_file(lane));
                make_file(&lane, superblock.lane_bytes, superblock.lane_bytes)?;
                lanes.push(open(&lane)?);
            }
            Ok(DriveDisks::Directory { meta: open(&meta)?, lanes, slots: open(&slots)? })
        }
    }
}

/// A file of `bytes` bytes, of which the first `written` are written zeros and the rest is a hole.
pub(crate) fn make_file(path: &Path, bytes: u64, written: u64) -> Result<()> {
    assert!(bytes.is_multiple_of(MEDIA_ALIGN as u64), "sizes of files are aligned");
    let opened = private::create_options().read(true).write(true).open(path);
    let file = opened.map_err(|error| open_error(path, &error))?;
    overwrite_in_place(&file, path)?; // IN-PLACE-1
    let fill = || {
        if file.metadata()?.len() > bytes {
            file.set_len(0)?;
        }
        file.set_len(bytes)?;
        write_zeros(&file, written)
    };
    fill().map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSPC) => Error::NoSpace { path: path.display().to_string() },
        Some(libc::EFBIG) => {
            Error::FileTooLarge { path: path.display().to_string(), size_bytes: bytes }
        }
        _ => open_error(path, &error),
    })
}

/// Makes the names of a drive's files durable, and the drive's own.
pub(crate) fn sync_entries(path: &Path) -> Result<()> {
    let absolute = std::path::absolute(path).map_err(|error| open_error(path, &error))?;
    let own = path.is_dir().then_some(path);
    for directory in own.into_iter().chain(absolute.parent()) {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| open_error(directory, &error))?;
    }
    Ok(())
}
