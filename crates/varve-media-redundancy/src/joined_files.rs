//! Drives of a pool in files while it is open: those that it was opened with, and those that join, which are prepared
//! by whoever asks for them and opened by the keeper. Each thread opens them when it sees them in the tables.
//!
//! JOINED-FILES-1. A drive is locked until it is gone, or the pool is closed; one that joins since it was prepared.

use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::select;
use varve_media::{
    BlockDevices, DiskDelay, DiskLayers, DriveExtent, DriveFiles, Error, IoFuture, NewDrive,
    RedundantSpec, RedundantSuperblock, Result,
};
use varve_reactor::{Nanos, Reactor};

use crate::change::NewMember;
use crate::files::{LockedDrive, extent_of, has_vanished, no_number, no_pool, report_loss};
use crate::format::{DriveRecord, DriveState};
use crate::handles::{DriveHandle, DriveHandles, RedundantDisks};
use crate::ids::{DriveId, DriveNumber, UNIT_BYTES};
use crate::keeper::DriveOpener;
use crate::making::superblock_of;
use crate::new_files::member_on;
use crate::survey::FoundDrive;
use crate::tables::TablesHandle;
use crate::view::LayoutView;

/// How long a thread rests before it tries once more to open a drive.
const OPEN_AGAIN_NANOS: u64 = Nanos::seconds(1);

/// Drives of a pool, with their locks (JOINED-FILES-1).
pub(crate) struct PoolDrives {
    /// Guards the lists only; never held while anybody waits for a drive.
    lists: Mutex<DriveLists>,
}

struct DriveLists {
    /// Those that are to join.
    prepared: Vec<DriveFiles>,
    /// Those that the tables have, or had.
    used: Vec<Arc<LockedDrive>>,
    /// Those that were there when the pool was opened, and are not read.
    stale: Vec<LockedDrive>,
}

impl PoolDrives {
    /// All drives that are locked, of which a pool was opened with those that are `used`.
    pub(crate) fn new(locked: Vec<LockedDrive>, used: &[(DriveNumber, FoundDrive)]) -> Self {
        let is_used = |drive: &LockedDrive| used.iter().any(|(_, found)| found.path == drive.path);
        let (used, stale): (Vec<_>, Vec<_>) = locked.into_iter().partition(is_used);
        let used = used.into_iter().map(Arc::new).collect();
        Self { lists: Mutex::new(DriveLists { prepared: Vec::new(), used, stale }) }
    }

    /// Locks and makes a drive that is to join.
    pub(crate) fn prepare(
        &self,
        place: &NewDrive,
        id: DriveId,
        view: &LayoutView,
    ) -> Result<NewMember> {
        self.let_go_of_prepared(view);
        let figures = self.figures()?;
        let prepared = DriveFiles::prepare(std::slice::from_ref(place))?;
        let path = place.path.display().to_string();
        let files = prepared.into_iter().next().ok_or(Error::NoPool { path })?;
        let (member, superblock) = member_on(&files, place, id, &figures)?;
        files.make(extent_of(&superblock))?;
        files.sync_entries()?;
        self.lock().prepared.push(files);
        Ok(member)
    }

    /// Lets go of drives that were to join, and did not. Nobody may be about to join another one.
    pub(crate) fn let_go_of_prepared(&self, view: &LayoutView) {
        let mut lists = self.lock();
        lists.prepared.clear();
        lists.used.retain(|drive| record_of(drive, view).is_some());
    }

    /// Lets go of drives that have left the pool.
    pub(crate) fn let_go_of_gone(&self, view: &LayoutView) {
        let stays = |drive: &LockedDrive| {
            record_of(drive, view).is_none_or(|record| record.state != DriveState::Gone)
        };
        let mut lists = self.lock();
        lists.used.retain(|drive| stays(drive));
        lists.stale.retain(stays);
    }

    /// Units that a drive has room for now, in `bytes` at most, to which its file is made longer.
    pub(crate) fn room_of(&self, number: DriveNumber, bytes: Option<u64>) -> Result<u32> {
        let drive = self.find(number).ok_or_else(|| no_pool(&[]))?;
        let meta_bytes = drive.superblock.space_offset;
        if let Some(space_bytes) = bytes {
            drive.files.grow(DriveExtent { meta_bytes, space_bytes })?;
        }
        let there = drive.files.space_bytes(meta_bytes)?;
        let units = there.min(bytes.unwrap_or(u64::MAX)) / UNIT_BYTES;
        Ok(u32::try_from(units).unwrap_or(u32::MAX))
    }

    /// Bytes that a drive has now for units; `None` where the system does not say.
    pub(crate) fn bytes_of(&self, number: DriveNumber) -> Option<u64> {
        let drive = self.find(number)?;
        drive.files.space_bytes(drive.superblock.space_offset).ok()
    }

    pub(crate) fn path_of(&self, number: DriveNumber) -> Option<String> {
        self.find(number).map(|drive| drive.path.clone())
    }

    /// Sizes that all drives of the pool have in common.
    pub(crate) fn figures(&self) -> Result<RedundantSpec> {
        let lists = self.lock();
        let first = lists.used.first().ok_or_else(|| no_pool(&[]))?;
        Ok(first.superblock.spec())
    }

    /// Units that a drive which was prepared will have.
    pub(crate) fn units_of(&self, member: &NewMember) -> Result<u32> {
        let any = DriveNumber::new(0).expect("the first number");
        Ok(superblock_of(&self.figures()?, any, member)?.units)
    }

    /// A number that was given to a drive which did not join may be given again.
    fn find(&self, number: DriveNumber) -> Option<Arc<LockedDrive>> {
        let lists = self.lock();
        lists.used.iter().rfind(|drive| number_of(drive) == Some(number)).cloned()
    }

    /// Takes a drive over that was prepared, under the number that it gets.
    fn enter(&self, member: &NewMember, superblock: &RedundantSuperblock) -> Result<()> {
        let mut lists = self.lock();
        let is_it = |files: &DriveFiles| files.path().display().to_string() == member.path;
        let at = lists.prepared.iter().position(is_it);
        let at = at.ok_or_else(|| Error::NoPool { path: member.path.clone() })?;
        let files = lists.prepared.swap_remove(at);
        let (superblock, path) = (superblock.clone(), member.path.clone());
        lists.used.push(Arc::new(LockedDrive { files, superblock, path }));
        Ok(())
    }

    /// Opens a drive for a thread; `None` where there is none of that number.
    fn open(
        &self,
        number: DriveNumber,
        reactor: &Reactor,
        layers: &DiskLayers,
    ) -> Option<Result<(RedundantSuperblock, RedundantDisks)>> {
        let drive = self.find(number)?;
        let disks = drive.disks(reactor, layers);
        Some(disks.map(|disks| (drive.superblock.clone(), disks)))
    }

    fn lock(&self) -> MutexGuard<'_, DriveLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn record_of<'a>(drive: &LockedDrive, view: &'a LayoutView) -> Option<&'a DriveRecord> {
    let id = DriveId(drive.superblock.drive_id);
    view.drives().drives.iter().find(|record| record.id == id)
}

fn number_of(drive: &LockedDrive) -> Option<DriveNumber> {
    DriveNumber::new(u8::try_from(drive.superblock.number).ok()?)
}

/// Opens drives that join, for the keeper.
pub(crate) struct FilesOpener {
    reactor: Reactor,
    drives: Arc<PoolDrives>,
    layers: DiskLayers,
}

impl FilesOpener {
    pub(crate) fn new(
        reactor: &Reactor,
        drives: &Arc<PoolDrives>,
        delay: Option<DiskDelay>,
    ) -> Self {
        let layers = DiskLayers { stats: None, delay, overlay: None };
        Self { reactor: reactor.clone(), drives: Arc::clone(drives), layers }
    }
}

impl DriveOpener for FilesOpener {
    fn open<'a>(
        &'a self,
        member: &'a NewMember,
        superblock: &'a RedundantSuperblock,
    ) -> IoFuture<'a, RedundantDisks> {
        Box::pin(async move {
            self.drives.enter(member, superblock)?;
            let number = DriveNumber::new(u8::try_from(superblock.number).unwrap_or(u8::MAX));
            let opened =
                number.and_then(|number| self.drives.open(number, &self.reactor, &self.layers));
            let (_, disks) = opened.ok_or_else(|| no_number(&member.path))??;
            Ok(disks)
        })
    }
}

/// The drives that one thread opens: those that were there when the pool was opened, and those that join.
pub(crate) struct ThreadDrives {
    pub(crate) handles: Rc<DriveHandles>,
    pub(crate) tables: Rc<TablesHandle>,
    /// With their locks, which this does not keep.
    pub(crate) drives: Weak<PoolDrives>,
    pub(crate) layers: DiskLayers,
    pub(crate) patience_nanos: u64,
}

impl ThreadDrives {
    /// Opens drives as they come into the tables, as long as the thread's loop runs.
    pub(crate) async fn follow(self) {
        loop {
            let changed = self.tables.changed();
            match self.open_lacking() {
                Ok(()) => changed.await,
                Err(error) => {
                    tracing::warn!(%error, "a thread cannot open a drive that joined: it tries again");
                    let pause = self.handles.reactor().sleep(OPEN_AGAIN_NANOS);
                    select(changed, pause).await;
                }
            }
        }
    }

    /// Opens the drives that are written and that the thread lacks, and closes those that are gone.
    pub(crate) fn open_lacking(&self) -> Result<()> {
        let view = self.tables.view();
        for record in &view.drives().drives {
            let number = record.number;
            match record.state {
                DriveState::Gone => self.handles.remove(number),
                DriveState::Failed => {}
                DriveState::Live | DriveState::Joining | DriveState::Leaving => {
                    if self.handles.get(number).is_none() {
                        self.open_one(number)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Opens a drive. One that has vanished fails, and is no error of the thread.
    fn open_one(&self, number: DriveNumber) -> Result<()> {
        match self.open(number) {
            None => Ok(()),
            Some(Ok((superblock, disks))) => self.insert(superblock, &disks),
            Some(Err(error)) => {
                let path = self.drives.upgrade().and_then(|drives| drives.path_of(number));
                if !path.is_some_and(|path| has_vanished(&path, &error)) {
                    return Err(error);
                }
                tracing::error!(drive = %number, %error, "a drive has vanished");
                let loss = report_loss(Rc::clone(&self.tables), number, error);
                self.handles.reactor().spawn(loss);
                Ok(())
            }
        }
    }

    /// `None` of a drive that is nowhere: the tables hear of it from whoever writes it.
    fn open(&self, number: DriveNumber) -> Option<Result<(RedundantSuperblock, RedundantDisks)>> {
        self.drives.upgrade()?.open(number, self.handles.reactor(), &self.layers)
    }

    fn insert(&self, superblock: RedundantSuperblock, disks: &RedundantDisks) -> Result<()> {
        let (path, reactor) = (disks.meta.path().to_owned(), self.handles.reactor());
        let device = BlockDevices::of_this_machine().below(Path::new(&path)).ok();
        let handle = DriveHandle::new(reactor, superblock, disks, self.patience_nanos);
        let handle = handle.ok_or_else(|| no_number(&path))?;
        self.handles.insert(handle.on_device(device.map(|it| it.name)));
        Ok(())
    }
}
