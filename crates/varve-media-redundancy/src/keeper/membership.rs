//! Changes of the drive table that drives leave by, and of what the pool promises.
//!
//! SLOW-ROOTS-1. A drive gives up tables and roots for being slow only while more than `drops_max` others that are live
//!     have them. From that table on it is not read for them, until they are copied to it again (JOINING-1,
//!     JOINING-2).

use std::collections::BTreeSet;

use varve_media::{Error, Result, mark_former_drive};

use super::{Keeper, refused, unknown};
use crate::class::{Class, ClassId, MediumKind, MediumKinds, StripeShape};
use crate::drive_changes::{is_in_state, root_holders, set_state};
use crate::format::{DriveRecord, DriveRemoval, DriveRoles, DriveState, DriveTable};
use crate::ids::{DriveNumber, Epoch};

impl Keeper {
    /// A slow drive gives up tables and roots while enough others have them, and gets them again once it is quick
    /// (SLOW-ROOTS-1).
    pub(super) async fn set_slow(&mut self, drive: DriveNumber, is_slow: bool) -> Result<()> {
        let record = self.table().drive(drive).ok_or_else(|| unknown(drive))?;
        if record.is_slow == is_slow {
            return Ok(());
        }
        self.replace_drives(|table| {
            let gives_up = is_slow && is_spare_holder(table, drive);
            let Some(record) = record_mut(table, drive) else { return };
            record.is_slow = is_slow;
            if gives_up {
                record.roles = record.roles.without(DriveRoles::ROOTS);
            }
        })
        .await?;
        if !is_slow && let Err(error) = self.return_roots(drive).await {
            // The others have them, and what lacks is one copy more.
            tracing::warn!(%drive, %error, "a drive does not get tables and roots again");
        }
        Ok(())
    }

    pub(super) async fn leave(&mut self, drive: DriveNumber) -> Result<()> {
        let record = self.table().drive(drive).ok_or_else(|| unknown(drive))?;
        if record.state == DriveState::Leaving {
            return Ok(());
        }
        self.check_leave(record)?;
        let unix_ms = self.reactor.unix_time_ms();
        self.replace_drives(|table| set_state(table, drive, DriveState::Leaving, unix_ms)).await
    }

    /// Whether a live drive may leave: so many others are live that a table may drop what the pool promises to survive,
    /// and that new zones find places. Who asked may have seen a table of before, in which no other drive leaves.
    fn check_leave(&self, record: &DriveRecord) -> Result<()> {
        if record.state != DriveState::Live {
            return Err(refused(&format!("drive {} is not live", record.number)));
        }
        let table = self.table();
        let others = || {
            let others = table.drives.iter().filter(|it| it.state == DriveState::Live);
            others.filter(|it| it.number != record.number)
        };
        let (present, needed) = (others().count(), usize::from(table.drops_max) + 1);
        if present < needed {
            return Err(Error::TooFewDrives { zone: None, present, needed });
        }
        let class = table.class_of(table.class).filter(|class| class.kinds.has(record.kind));
        let Some(class) = class else { return Ok(()) };
        let present = others().filter(|it| class.kinds.has(it.kind)).count();
        let needed = class.shape.strips();
        if present < needed {
            return Err(Error::TooFewDrives { zone: None, present, needed });
        }
        Ok(())
    }

    /// Has a drive go once nothing names it any more (KEEPER-4). Who is gone already stays so.
    pub(super) async fn remove(
        &mut self,
        drive: DriveNumber,
        successor: Option<DriveNumber>,
    ) -> Result<()> {
        let record = self.table().drive(drive).ok_or_else(|| unknown(drive))?;
        let removal = Some(DriveRemoval { successor: successor.or(record.successor()) });
        let is_live = match record.state {
            DriveState::Gone => return Ok(()),
            DriveState::Leaving | DriveState::Failed if record.removal == removal => return Ok(()),
            DriveState::Leaving | DriveState::Failed => false,
            DriveState::Live | DriveState::Joining => {
                self.check_leave(record)?;
                true
            }
        };
        let unix_ms = self.reactor.unix_time_ms();
        self.replace_drives(|table| {
            if is_live {
                set_state(table, drive, DriveState::Leaving, unix_ms);
            }
            if let Some(record) = record_mut(table, drive) {
                record.removal = removal;
            }
        })
        .await
    }

    /// Has a drive that leaves be live again (KEEPER-5).
    pub(super) async fn stay(&mut self, drive: DriveNumber) -> Result<()> {
        let record = self.table().drive(drive).ok_or_else(|| unknown(drive))?;
        match record.state {
            DriveState::Live => return Ok(()),
            DriveState::Leaving => {}
            DriveState::Joining | DriveState::Failed | DriveState::Gone => {
                return Err(refused(&format!("drive {drive} does not leave")));
            }
        }
        let unix_ms = self.reactor.unix_time_ms();
        self.replace_drives(|table| {
            set_state(table, drive, DriveState::Live, unix_ms);
            let first = table.drives.iter().map(|it| it.since_epoch).min();
            if let Some(record) = record_mut(table, drive) {
                record.removal = None;
                // Who stays has not joined in place of one that failed meanwhile.
                record.since_epoch = first.unwrap_or(record.since_epoch);
            }
        })
        .await?;
        let record = self.table().drive(drive).filter(|it| it.state == DriveState::Live);
        let Some(record) = record else {
            let reason = "it failed while it was to stay".to_owned();
            return Err(Error::DriveFailed { drive: drive.get(), reason });
        };
        if record.is_slow { Ok(()) } else { self.return_roots(drive).await }
    }

    /// Has drives go that are to, and that nothing names any more (KEEPER-4).
    pub(super) async fn forget_removed(&mut self) -> Result<()> {
        while let Some(drive) = self.next_to_go() {
            self.forget(drive).await?;
        }
        Ok(())
    }

    /// A drive that may go. Rows are looked through only once no units of it are taken.
    fn next_to_go(&self) -> Option<DriveNumber> {
        let spaces = self.occupancy.as_ref()?.spaces();
        let is_removed = |it: &&DriveRecord| it.removal.is_some() && it.state != DriveState::Gone;
        let is_empty = |it: &&DriveRecord| {
            let free = spaces.drive(it.number);
            free.is_some_and(|free| free.total() == free.units().saturating_sub(it.held.count))
        };
        let empty = self.table().drives.iter().filter(is_removed).filter(is_empty);
        empty.map(|record| record.number).find(|drive| !self.is_needed(*drive))
    }

    /// A drive that leaves, or failed, is gone. One that can be written says so itself from then on.
    async fn forget(&mut self, drive: DriveNumber) -> Result<()> {
        let handle = self.handles.get(drive);
        let is_failed = is_in_state(self.table(), drive, DriveState::Failed);
        let unix_ms = self.reactor.unix_time_ms();
        self.replace_drives(|table| {
            let since = table.drive(drive).map(|record| record.since_epoch);
            set_state(table, drive, DriveState::Gone, unix_ms);
            // It was dropped when it failed, and is not once more.
            if let Some((record, since)) = record_mut(table, drive).zip(since)
                && is_failed
            {
                record.since_epoch = since;
            }
        })
        .await?;
        tracing::info!(%drive, "a drive has left the pool");
        let is_gone = is_in_state(self.table(), drive, DriveState::Gone);
        if let Some(handle) = handle.filter(|_| is_gone && !is_failed) {
            let marked = mark_former_drive(handle.meta(), self.table().pool).await;
            if let Err(error) = marked {
                tracing::warn!(%drive, %error, "a drive that left has to be cleared before other use");
            }
        }
        Ok(())
    }

    /// Whether something names a drive, or is on too few others.
    fn is_needed(&self, drive: DriveNumber) -> bool {
        let mut rows = self.view.rows().flat_map(|(_, row)| row.sets());
        let mut copies = self.view.journals().flat_map(|journal| &journal.copies);
        if rows.any(|set| set.has_drive(drive)) || copies.any(|copy| copy.drive == drive) {
            return true;
        }
        let is_holder = is_in_state(self.table(), drive, DriveState::Leaving);
        is_holder && !is_spare_holder(self.table(), drive)
    }

    /// The class of new zones; so many drives may be dropped from then on as the largest class that is in use survives.
    pub(super) async fn set_class(&mut self, shape: StripeShape, kinds: MediumKinds) -> Result<()> {
        let table = self.table();
        let known = table.classes.iter().find(|it| it.shape == shape && it.kinds == kinds);
        let known = known.copied();
        let drops_max = self.view.parity_of_rows().max(shape.parity());
        let live = || table.drives.iter().filter(|it| it.state == DriveState::Live);
        let usable = live().filter(|it| kinds.has(it.kind)).count();
        let checks = [(usable, shape.strips()), (live().count(), usize::from(drops_max) + 1)];
        if let Some((present, needed)) = checks.into_iter().find(|(has, needs)| has < needs) {
            return Err(Error::TooFewDrives { zone: None, present, needed });
        }
        if known.is_some_and(|class| class.id == table.class) && table.drops_max == drops_max {
            return Ok(());
        }
        let mut classes = table.classes.clone();
        let class = match known {
            Some(class) => class.id,
            None => self.add_class(&mut classes, shape, kinds)?,
        };
        self.replace_drives(|table| {
            (table.classes, table.class, table.drops_max) = (classes, class, drops_max);
        })
        .await
    }

    /// A drive is of another kind: movers and journals see that by the table.
    pub(super) async fn set_kind(&mut self, drive: DriveNumber, kind: MediumKind) -> Result<()> {
        let record = self.table().drive(drive).ok_or_else(|| unknown(drive))?;
        if record.state == DriveState::Gone {
            return Err(refused(&format!("drive {drive} has left")));
        }
        if record.kind == kind {
            return Ok(());
        }
        self.check_kind(record, kind)?;
        self.replace_drives(|table| {
            if let Some(record) = record_mut(table, drive) {
                record.kind = kind;
            }
        })
        .await
    }

    /// Whether each class that is in use has drives enough without one that becomes of another kind, and that it may
    /// not have strips on any more.
    fn check_kind(&self, record: &DriveRecord, kind: MediumKind) -> Result<()> {
        let (table, used) = (self.table(), self.classes_of_rows());
        let is_live = |it: &&DriveRecord| it.state == DriveState::Live;
        let loses = |class: &&Class| {
            let is_used = class.id == table.class || used.contains(&class.id);
            is_used && class.kinds.has(record.kind) && !class.kinds.has(kind)
        };
        if !is_live(&record) {
            return Ok(());
        }
        for class in table.classes.iter().filter(loses) {
            let others =
                table.drives.iter().filter(is_live).filter(|it| it.number != record.number);
            let present = others.filter(|it| class.kinds.has(it.kind)).count();
            let needed = class.shape.strips();
            if present < needed {
                return Err(Error::TooFewDrives { zone: None, present, needed });
            }
        }
        Ok(())
    }

    fn classes_of_rows(&self) -> BTreeSet<ClassId> {
        self.view.rows().flat_map(|(_, row)| row.sets()).map(|set| set.class).collect()
    }

    /// Adds a class under a number of its own. Where there are as many as there can be, those that nobody has go.
    fn add_class(
        &self,
        classes: &mut Vec<Class>,
        shape: StripeShape,
        kinds: MediumKinds,
    ) -> Result<ClassId> {
        let is_free = |id: &ClassId| classes.iter().all(|class| class.id != *id);
        let id = (1..=u8::MAX).filter_map(ClassId::new).find(is_free);
        if classes.len() == DriveTable::CLASSES_MAX {
            let (used, new_zones) = (self.classes_of_rows(), self.table().class);
            classes.retain(|it| it.id == new_zones || used.contains(&it.id));
        }
        let id = id.filter(|_| classes.len() < DriveTable::CLASSES_MAX);
        let id = id.ok_or_else(|| refused("the pool has all the classes that it can have"))?;
        classes.push(Class { id, shape, kinds });
        Ok(id)
    }

    /// Journals hear of it by the table, and have their copies be elsewhere.
    pub(super) async fn set_journal_kinds(&mut self, kinds: MediumKinds) -> Result<()> {
        if self.table().journal_kinds == kinds {
            return Ok(());
        }
        self.replace_drives(|table| table.journal_kinds = kinds).await
    }

    /// Fewer drives may be dropped, where no class that is in use survives as many.
    pub(super) async fn lower_drops(&mut self) -> Result<()> {
        let table = self.table();
        let of_new = table.class_of(table.class).map_or(0, |class| class.shape.parity());
        let drops_max = self.view.parity_of_rows().max(of_new);
        if drops_max >= table.drops_max {
            return Ok(());
        }
        self.replace_drives(|table| table.drops_max = drops_max).await
    }

    pub(super) async fn note_walk(&mut self, began_with: Epoch) -> Result<()> {
        let found = self.table().loss_epoch;
        if found != began_with {
            let key = "of what was lost".to_owned();
            return Err(Error::RootConflict { key, expected: began_with.0, found: found.0 });
        }
        if self.table().walked_epoch == began_with {
            return Ok(());
        }
        self.replace_drives(|table| table.walked_epoch = began_with).await
    }
}

pub(super) fn record_mut(table: &mut DriveTable, drive: DriveNumber) -> Option<&mut DriveRecord> {
    table.drives.iter_mut().find(|record| record.number == drive)
}

/// Whether enough others hold tables and roots for a drive to go without (SLOW-ROOTS-1).
fn is_spare_holder(table: &DriveTable, drive: DriveNumber) -> bool {
    let others = root_holders(table).filter(|it| it.number != drive);
    others.count() > usize::from(table.drops_max)
}
