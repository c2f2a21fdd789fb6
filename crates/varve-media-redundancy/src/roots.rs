//! Roots of the pool and of its shards, in a copy on each drive that has the role. One of these serves a thread.
//!
//! ROOT-COPIES-1. The newest version on live drives counts, and all of them have it before it is used.

use std::rc::Rc;

use varve_media::planted::{Bug, planted};
use varve_media::{Error, IoFuture, Result, RootKey, RootStore, RootVersion};

use crate::change::Change;
use crate::format::{DriveRecord, DriveRoles};
use crate::handles::{DriveHandle, DriveHandles};
use crate::table_store::{DriveFailure, RootContents, StoredRoot, census, write_all};
use crate::tables::{RootClaim, TablesHandle};

/// The roots.
pub struct MirroredRoots {
    drives: Rc<DriveHandles>,
    tables: Rc<TablesHandle>,
    bytes_max: u32,
}

/// The drives that hold roots, as far as this thread has them.
struct RootDrives {
    drives: Vec<Rc<DriveHandle>>,
    /// Whether others do too.
    lacks_some: bool,
}

impl MirroredRoots {
    /// Those of a pool, on the thread that has these drives.
    #[must_use]
    pub fn new(drives: Rc<DriveHandles>, tables: Rc<TablesHandle>) -> Self {
        let first = drives.all().first().map_or(0, |drive| drive.superblock().root_bytes_max);
        Self { drives, tables, bytes_max: first }
    }

    /// Those that the table calls live or leaving, at this moment.
    fn holders(&self) -> RootDrives {
        let view = self.tables.view();
        let is_holder =
            |it: &&DriveRecord| it.state.is_readable() && it.roles.has(DriveRoles::ROOTS);
        let (mut drives, mut lacks_some) = (Vec::new(), false);
        for record in view.drives().drives.iter().filter(is_holder) {
            match self.drives.get(record.number) {
                Some(drive) => drives.push(drive),
                None => lacks_some = true,
            }
        }
        if planted(Bug::RootFromFirstDrive) {
            drives.truncate(1);
        }
        RootDrives { drives, lacks_some }
    }

    /// Drops drives that failed: durable on all others when this returns (KEEPER-1). Whether one was dropped: for
    /// reading only none is, as what else it has may be nowhere else (FILES-4). What was acknowledged, the others have.
    async fn fail(&self, failures: Vec<DriveFailure>) -> Result<bool> {
        let mut is_dropped = false;
        for DriveFailure { drive, error } in failures {
            let reason = error.to_string();
            match self.tables.change(Change::DriveFailed { drive, reason }).await {
                Ok(_) => is_dropped = true,
                Err(Error::ReadOnly) => {
                    tracing::warn!(%drive, %error, "a drive has no root that can be read: others are asked");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(is_dropped)
    }

    async fn read_root(&self, key: RootKey) -> Result<RootContents> {
        loop {
            let claim = self.claim(key).await?;
            let holders = self.holders();
            let failures = self.flush(&holders.drives).await?;
            if !failures.is_empty() {
                drop(claim);
                if !self.fail(failures).await? {
                    return Err(Error::ReadOnly); // Overlays are flushed whatever is below.
                }
                continue;
            }
            let found = census(StoredRoot::Root(key), &holders.drives).await?;
            let behind = found.laggards.iter();
            let behind: Vec<_> = behind.filter_map(|drive| self.drives.get(*drive)).collect();
            let Some(contents) = found.newest else {
                drop(claim);
                if !self.fail(found.failures).await? {
                    return Err(unreadable(key));
                }
                continue;
            };
            let mut failures = found.failures;
            failures.extend(write_all(StoredRoot::Root(key), &behind, &contents).await?);
            drop(claim);
            if self.fail(failures).await? {
                continue; // Each time a drive is dropped, of which there are only so many.
            }
            if holders.lacks_some {
                self.tables.change(Change::CopyRoot { key }).await?;
            }
            return Ok(contents); // ROOT-COPIES-1
        }
    }

    /// What a write that was cut off left may be read without being durable.
    async fn flush(&self, drives: &[Rc<DriveHandle>]) -> Result<Vec<DriveFailure>> {
        let mut failures = Vec::new();
        for drive in drives {
            match drive.meta().flush().await {
                Ok(()) => {}
                Err(Error::Fenced) => return Err(Error::Fenced),
                Err(error) => failures.push(DriveFailure { drive: drive.number(), error }),
            }
        }
        Ok(failures)
    }

    async fn replace_root(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> Result<RootVersion> {
        let (len, max) = (bytes.len() as u64, u64::from(self.bytes_max()));
        if len > max {
            return Err(Error::RootTooLong { key: key.to_string(), len, max });
        }
        if let Some(error) = self.tables.tables().failure() {
            return Err(error);
        }
        let which = StoredRoot::Root(key);
        let claim = self.claim(key).await?;
        let holders = self.holders();
        let found = census(which, &holders.drives).await?;
        let version = found.newest.ok_or_else(|| unreadable(key))?.0;
        if version != expected {
            let (key, expected, found) = (key.to_string(), expected.0, version.0);
            return Err(Error::RootConflict { key, expected, found });
        }
        let next = RootVersion(version.0 + 1);
        let is_read =
            |drive: &&Rc<DriveHandle>| found.failures.iter().all(|it| it.drive != drive.number());
        let drives: Vec<_> = holders.drives.iter().filter(is_read).cloned().collect();
        let mut failures = write_all(which, &drives, &(next, bytes)).await?;
        let is_anywhere = failures.len() < drives.len();
        failures.extend(found.failures);
        drop(claim);
        self.fail(failures).await?;
        if holders.lacks_some {
            self.tables.change(Change::CopyRoot { key }).await?;
        }
        if !is_anywhere {
            return Err(unreadable(key));
        }
        Ok(next)
    }

    async fn claim(&self, key: RootKey) -> Result<RootClaim> {
        self.tables.tables().board().claim_root(self.tables.reactor(), key).await
    }
}

fn unreadable(key: RootKey) -> Error {
    let reason = format!("root {key} can be read on no drive");
    Error::Corrupt { what: "root", path: "the drives of the pool".to_owned(), reason }
}

impl RootStore for MirroredRoots {
    fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    fn read(&self, key: RootKey) -> IoFuture<'_, (RootVersion, Vec<u8>)> {
        Box::pin(self.read_root(key))
    }

    fn replace(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> IoFuture<'_, RootVersion> {
        Box::pin(self.replace_root(key, expected, bytes))
    }
}
