//! How a drive joins, and how a drive gets tables and roots that it had not.
//!
//! JOINING-1. What a drive held before is set to version 0 before anything is copied to it, so that no version of
//!     another branch counts as newer.
//! JOINING-2. A drive counts for roots from the table on that says so, and no root is replaced between its copy and
//!     that table.
//! JOINING-3. The mark of a drive that joins names the drive (MAKING-4). One that named the pool would vouch for all
//!     of its other drives, which hold data.

use varve_media::planted::{Bug, planted};
use varve_media::{
    Error, RedundantSpec, RedundantSuperblock, Result, RootKey, RootVersion, mark_new_drives,
};
use varve_types::PoolId;

use super::membership::record_mut;
use super::{Keeper, refused};
use crate::change::NewMember;
use crate::drive_changes::{is_in_state, root_holders, set_state};
use crate::format::{DriveRecord, DriveRoles, DriveState, HeldUnits};
use crate::handles::DriveHandle;
use crate::ids::{DriveId, DriveNumber};
use crate::making::superblock_of;
use crate::table_store::{EmptyRoots, StoredRoot, census, root_keys, write_all};
use crate::tables::RootClaim;

/// Most drives with tables and roots.
const ROOT_DRIVES_MAX: usize = 8;

impl Keeper {
    pub(super) async fn join(&mut self, member: NewMember) -> Result<()> {
        let table = self.table();
        let number = DriveNumber::new(table.next_drive);
        let number = number.ok_or_else(|| refused("the pool has had all drives it can have"))?;
        if table.drives.iter().any(|record| record.id == member.id) {
            return Err(refused("the identity of the new drive is another one's"));
        }
        let superblock = superblock_of(&self.figures()?, number, &member)?;
        let disks = self.opener.open(&member, &superblock).await?;
        let handle =
            DriveHandle::new(&self.reactor, superblock.clone(), &disks, self.patience_nanos);
        let handle = handle.ok_or_else(|| refused("there is no further number for a drive"))?;
        self.prepare(&handle, &member).await?;
        let mut roles = member.roles;
        let holders = root_holders(self.table()).count();
        if holders >= ROOT_DRIVES_MAX {
            roles = roles.without(DriveRoles::ROOTS);
        }
        self.handles.insert(handle);
        let since_unix_ms = self.reactor.unix_time_ms();
        let joined = self.replace_drives(|table| {
            table.next_drive += 1;
            table.drives.push(DriveRecord {
                number,
                id: member.id,
                state: DriveState::Joining,
                roles,
                kind: member.kind,
                is_slow: false,
                removal: None,
                former: member.former,
                units: superblock.units,
                held: HeldUnits::NONE,
                since_epoch: table.epoch,
                since_unix_ms,
                name: member.name,
            });
        });
        if let Err(error) = joined.await {
            self.handles.remove(number);
            return Err(error);
        }
        self.finish_join(number).await
    }

    fn figures(&self) -> Result<RedundantSpec> {
        let drives = self.handles.all();
        let first = drives.first().ok_or_else(|| refused("the pool has no drive"))?;
        Ok(first.superblock().spec())
    }

    /// Makes a drive one of the pool that has nothing yet (JOINING-1). Cut off, it has a mark, or a superblock with an
    /// identity that no table knows.
    async fn prepare(&self, drive: &DriveHandle, member: &NewMember) -> Result<()> {
        let (meta, superblock) = (drive.meta(), drive.superblock());
        superblock.check_sizes(meta, &*drive.disks().space)?;
        let before = RedundantSuperblock::read(meta).await.ok().flatten();
        let is_own = before.filter(|it| it.pool == superblock.pool);
        let is_free = match is_own {
            None => false,
            Some(own) => self.may_be_overwritten(&own, member),
        };
        if !is_free {
            mark_new_drives(&[meta], PoolId(superblock.drive_id)).await?; // JOINING-3
        }
        EmptyRoots { has_table: true }.write(drive).await?;
        superblock.write(meta).await
    }

    /// Whether a drive with a superblock of this pool is one that began to join, or was given up and may be cleared.
    fn may_be_overwritten(&self, own: &RedundantSuperblock, member: &NewMember) -> bool {
        let mut records = self.table().drives.iter();
        let record = records.find(|record| record.id == DriveId(own.drive_id));
        match record.map(|record| record.state) {
            None => true,
            Some(DriveState::Failed | DriveState::Gone) => member.is_given_up,
            Some(DriveState::Live | DriveState::Joining | DriveState::Leaving) => false,
        }
    }

    /// Joins that an earlier life began.
    pub(super) async fn finish_joins(&mut self) -> Result<()> {
        let joining = self.table().drives.iter();
        let joining = joining.filter(|record| record.state == DriveState::Joining);
        let joining: Vec<_> = joining.map(|record| record.number).collect();
        for number in joining {
            let Some(drive) = self.handles.get(number) else { continue };
            let emptied = EmptyRoots { has_table: false }.write(&drive).await; // JOINING-1
            let finished = match emptied {
                Ok(()) => self.finish_join(number).await,
                Err(error) => self.fail_drive(number, &error.to_string()).await,
            };
            if let Err(error) = finished {
                tracing::error!(drive = %number, %error, "a drive could not join");
            }
        }
        Ok(())
    }

    /// Copies tables and roots, and has the drive live.
    async fn finish_join(&mut self, number: DriveNumber) -> Result<()> {
        let is_there = |keeper: &Self| is_in_state(keeper.table(), number, DriveState::Joining);
        let lost = || Error::DriveFailed {
            drive: number.get(),
            reason: "it failed while it joined".to_owned(),
        };
        let roles = self.table().drive(number).map(|record| record.roles);
        let _claims = match roles {
            Some(roles) if roles.has(DriveRoles::ROOTS) => self.copy_all(number).await?,
            Some(_) | None => Vec::new(),
        };
        if !is_there(self) {
            return Err(lost());
        }
        let unix_ms = self.reactor.unix_time_ms();
        self.replace_drives(|table| {
            if is_in_state(table, number, DriveState::Joining) {
                set_state(table, number, DriveState::Live, unix_ms);
            }
        })
        .await?;
        match is_in_state(self.table(), number, DriveState::Live) {
            true => Ok(()),
            false => Err(lost()),
        }
    }

    /// Copies pages, records and roots to a drive. Roots stay as they are while the claims are held (JOINING-2).
    async fn copy_all(&mut self, number: DriveNumber) -> Result<Vec<RootClaim>> {
        self.late.settle().await; // LATE-WRITES-2
        for (which, bytes) in self.stored_tables() {
            let Some(drive) = self.handles.get(number) else { return Ok(Vec::new()) };
            let version = self.versions.get(&which).copied().unwrap_or(0);
            let contents = (RootVersion(version), bytes);
            let failures = write_all(which, &[drive], &contents).await?;
            self.fail_drives(failures).await?;
        }
        let lanes = self.figures()?.lane_count;
        let mut claims = Vec::new();
        for key in root_keys(lanes) {
            claims.push(self.board.claim_root(&self.reactor, key).await?);
            if self.handles.get(number).is_none() {
                return Ok(Vec::new());
            }
            self.level_root(key, Some(number)).await?;
        }
        Ok(claims)
    }

    /// Pages and records as they are stored.
    fn stored_tables(&self) -> Vec<(StoredRoot, Vec<u8>)> {
        let is_stored = |which: &StoredRoot| self.versions.contains_key(which);
        let pages = self.view.pages().map(|page| (StoredRoot::Page(page.page), page.encode()));
        let journals = self.view.journals();
        let journals = journals.map(|it| (StoredRoot::Journal(it.shard), it.encode()));
        pages.chain(journals).filter(|(which, _)| is_stored(which)).collect()
    }

    /// Brings a root to all drives that are to have it, and to one more.
    pub(super) async fn copy_root(&mut self, key: RootKey) -> Result<()> {
        if self.is_read_only {
            return Ok(()); // What it copied, threads would not see.
        }
        let _claim = self.board.claim_root(&self.reactor, key).await?;
        self.level_root(key, None).await
    }

    /// The root is claimed.
    async fn level_root(&mut self, key: RootKey, further: Option<DriveNumber>) -> Result<()> {
        let which = StoredRoot::Root(key);
        let joining =
            |keeper: &Self, drive| is_in_state(keeper.table(), drive, DriveState::Joining);
        let (new, mut holders): (Vec<_>, Vec<_>) =
            self.root_drives().into_iter().partition(|drive| joining(self, drive.number()));
        holders.retain(|drive| Some(drive.number()) != further);
        let found = census(which, &holders).await?;
        let newest = found.newest;
        self.fail_drives(found.failures).await?;
        let Some(contents) = newest else {
            let path = "the drives of the pool".to_owned();
            let reason = format!("root {key} can be read on none of them");
            return Err(Error::Corrupt { what: "root", path, reason });
        };
        let mut behind: Vec<_> = found.laggards;
        behind.extend(new.iter().map(|drive| drive.number()));
        behind.extend(further.filter(|it| !new.iter().any(|drive| drive.number() == *it)));
        let behind = behind.into_iter().filter_map(|drive| self.handles.get(drive));
        let behind: Vec<_> = behind.collect();
        let failures = write_all(which, &behind, &contents).await?;
        self.fail_drives(failures).await
    }

    /// Where fewer drives have tables and roots than may be dropped, and one more, another live one gets them.
    pub(super) async fn grant_roots(&mut self) -> Result<()> {
        while let Some(number) = self.next_holder() {
            self.give_roots(number).await?;
        }
        Ok(())
    }

    /// Gives a drive that is quick again what it gave up (SLOW-ROOTS-1), if not as many others have it as can.
    pub(super) async fn return_roots(&mut self, number: DriveNumber) -> Result<()> {
        let holders = root_holders(self.table()).count();
        let gave_up = |record: &DriveRecord| {
            record.state == DriveState::Live
                && record.roles == DriveRoles::ALL.without(DriveRoles::ROOTS)
        };
        if holders < ROOT_DRIVES_MAX && self.table().drive(number).is_some_and(gave_up) {
            return self.give_roots(number).await;
        }
        Ok(())
    }

    /// Copies tables and roots to a drive that is read, and has it hold them from then on.
    async fn give_roots(&mut self, number: DriveNumber) -> Result<()> {
        let Some(drive) = self.handles.get(number) else { return Ok(()) };
        let mut claims = Vec::new();
        if !planted(Bug::RootsNotCopied) {
            match (EmptyRoots { has_table: false }).write(&drive).await {
                Ok(()) => claims = self.copy_all(number).await?, // JOINING-1, JOINING-2
                Err(error) => self.fail_drive(number, &error.to_string()).await?,
            }
        }
        if self.table().drive(number).is_some_and(|record| record.state.is_readable()) {
            self.replace_drives(|table| {
                if let Some(record) = record_mut(table, number) {
                    record.roles = record.roles.with(DriveRoles::ROOTS);
                }
            })
            .await?;
        }
        drop(claims);
        Ok(())
    }

    /// Slow ones come after others, and those that leave last: they may be all that is left.
    fn next_holder(&self) -> Option<DriveNumber> {
        if root_holders(self.table()).count() > usize::from(self.table().drops_max) {
            return None;
        }
        let may_have = |it: &&DriveRecord| {
            let is_there = it.state.is_readable() && self.handles.get(it.number).is_some();
            is_there && !it.roles.has(DriveRoles::ROOTS)
        };
        let others = self.table().drives.iter().filter(may_have);
        let rank = |it: &&DriveRecord| (it.state == DriveState::Leaving, it.is_slow, it.number);
        others.min_by_key(rank).map(|record| record.number)
    }
}
