//! Drives that join a pool in files while it is open: prepared by whoever asks for them, opened by the keeper when they
//! join, and by each thread when it sees them in the tables.
//!
//! JOINED-FILES-1. A drive that joins is locked from when it is prepared until it is gone, or the pool is closed.

use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::select;
use varve_media::{
    DiskDelay, DiskLayers, DriveFiles, Error, IoFuture, NewDrive, RedundantSpec,
    RedundantSuperblock, Result,
};
use varve_reactor::{Nanos, Reactor};

use crate::change::NewMember;
use crate::files::{LockedDrive, LockedDrives, extent_of, has_vanished, no_number, report_loss};
use crate::format::DriveState;
use crate::handles::{DriveHandle, DriveHandles, RedundantDisks};
use crate::ids::{DriveId, DriveNumber};
use crate::keeper::DriveOpener;
use crate::new_files::member_on;
use crate::tables::TablesHandle;
use crate::view::LayoutView;

/// How long a thread rests before it tries once more to open a drive.
const OPEN_AGAIN_NANOS: u64 = Nanos::seconds(1);

/// Drives that joined, or are to, with their locks (JOINED-FILES-1).
#[derive(Default)]
pub(crate) struct JoinedDrives {
    /// Guards the lists only; held while a drive's files are opened, never while anybody waits for a drive.
    lists: Mutex<JoinedLists>,
}

#[derive(Default)]
struct JoinedLists {
    prepared: Vec<DriveFiles>,
    joined: Vec<LockedDrive>,
}

impl JoinedDrives {
    /// Locks and makes a drive that is to join.
    pub(crate) fn prepare(
        &self,
        place: &NewDrive,
        id: DriveId,
        figures: &RedundantSpec,
        view: &LayoutView,
    ) -> Result<NewMember> {
        self.let_go(view);
        let prepared = DriveFiles::prepare(std::slice::from_ref(place))?;
        let path = place.path.display().to_string();
        let files = prepared.into_iter().next().ok_or(Error::NoPool { path })?;
        let (member, superblock) = member_on(&files, place, id, figures)?;
        files.make(extent_of(&superblock))?;
        files.sync_entries()?;
        self.lock().prepared.push(files);
        Ok(member)
    }

    /// Lets go of what was prepared, and of drives that are none any more.
    pub(crate) fn let_go(&self, view: &LayoutView) {
        let mut lists = self.lock();
        lists.prepared.clear();
        lists.joined.retain(|drive| {
            let record = number_of(drive).and_then(|number| view.drives().drive(number));
            record.is_some_and(|record| record.state != DriveState::Gone)
        });
    }

    pub(crate) fn path_of(&self, number: DriveNumber) -> Option<String> {
        let lists = self.lock();
        let drive = lists.joined.iter().find(|drive| number_of(drive) == Some(number));
        drive.map(|drive| drive.path.clone())
    }

    /// Takes a drive over that was prepared, under the number that it gets.
    fn enter(&self, member: &NewMember, superblock: &RedundantSuperblock) -> Result<()> {
        let mut lists = self.lock();
        let is_it = |files: &DriveFiles| files.path().display().to_string() == member.path;
        let at = lists.prepared.iter().position(is_it);
        let at = at.ok_or_else(|| Error::NoPool { path: member.path.clone() })?;
        let files = lists.prepared.swap_remove(at);
        let (superblock, path) = (superblock.clone(), member.path.clone());
        lists.joined.push(LockedDrive { files, superblock, path });
        Ok(())
    }

    /// Opens a drive that joined for a thread; `None` where there is none of that number.
    fn open(
        &self,
        number: DriveNumber,
        reactor: &Reactor,
        layers: &DiskLayers,
    ) -> Option<Result<(RedundantSuperblock, RedundantDisks)>> {
        let lists = self.lock();
        // A number that was given to a drive which did not join may be given again.
        let drive = lists.joined.iter().rfind(|drive| number_of(drive) == Some(number))?;
        let disks = drive.disks(reactor, layers);
        Some(disks.map(|disks| (drive.superblock.clone(), disks)))
    }

    fn lock(&self) -> MutexGuard<'_, JoinedLists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn number_of(drive: &LockedDrive) -> Option<DriveNumber> {
    DriveNumber::new(u8::try_from(drive.superblock.number).ok()?)
}

/// Opens drives that join, for the keeper.
pub(crate) struct FilesOpener {
    reactor: Reactor,
    joined: Arc<JoinedDrives>,
    layers: DiskLayers,
}

impl FilesOpener {
    pub(crate) fn new(
        reactor: &Reactor,
        joined: &Arc<JoinedDrives>,
        delay: Option<DiskDelay>,
    ) -> Self {
        let layers = DiskLayers { stats: None, delay };
        Self { reactor: reactor.clone(), joined: Arc::clone(joined), layers }
    }
}

impl DriveOpener for FilesOpener {
    fn open<'a>(
        &'a self,
        member: &'a NewMember,
        superblock: &'a RedundantSuperblock,
    ) -> IoFuture<'a, RedundantDisks> {
        Box::pin(async move {
            self.joined.enter(member, superblock)?;
            let number = DriveNumber::new(u8::try_from(superblock.number).unwrap_or(u8::MAX));
            let opened =
                number.and_then(|number| self.joined.open(number, &self.reactor, &self.layers));
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
    pub(crate) locked: Weak<LockedDrives>,
    pub(crate) joined: Weak<JoinedDrives>,
    /// Where each of the first ones lies.
    pub(crate) used: Vec<(DriveNumber, String)>,
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
                let used = self.used.iter().find(|(used, _)| *used == number);
                let path = used.map(|(_, path)| path.clone());
                let path = path.or_else(|| self.joined.upgrade()?.path_of(number));
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
        let reactor = self.handles.reactor();
        let path = self.used.iter().find(|(used, _)| *used == number).map(|(_, path)| path);
        let locked = self.locked.upgrade();
        if let Some(drive) = path.and_then(|path| locked.as_ref()?.at(path)) {
            let disks = drive.disks(reactor, &self.layers);
            return Some(disks.map(|disks| (drive.superblock.clone(), disks)));
        }
        self.joined.upgrade()?.open(number, reactor, &self.layers)
    }

    fn insert(&self, superblock: RedundantSuperblock, disks: &RedundantDisks) -> Result<()> {
        let (path, reactor) = (disks.meta.path().to_owned(), self.handles.reactor());
        let handle = DriveHandle::new(reactor, superblock, disks, self.patience_nanos);
        self.handles.insert(handle.ok_or_else(|| no_number(&path))?);
        Ok(())
    }
}
