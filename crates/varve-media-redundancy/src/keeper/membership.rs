//! Changes of the drive table that drives leave by, and of what the pool promises.
//!
//! SLOW-ROOTS-1. A drive gives up tables and roots for being slow only while more than `drops_max` others that are live
//!     have them. From that table on it is not read for them, until they are copied to it again (JOINING-1,
//!     JOINING-2).

use std::collections::BTreeSet;

use varve_media::{Error, Result};

use super::{Keeper, refused, unknown};
use crate::class::{Class, ClassId, MediumKinds, StripeShape};
use crate::drive_changes::{is_in_state, set_state};
use crate::format::{DriveRecord, DriveRoles, DriveState, DriveTable};
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
        let table = self.table();
        let record = table.drive(drive).ok_or_else(|| unknown(drive))?;
        if record.state == DriveState::Leaving {
            return Ok(());
        }
        if record.state != DriveState::Live {
            return Err(refused(&format!("drive {drive} is not live")));
        }
        let others = table.drives.iter();
        let others = others.filter(|it| it.state == DriveState::Live && it.number != drive).count();
        let needed = usize::from(table.drops_max) + 1;
        if others < needed {
            return Err(Error::TooFewDrives { zone: None, present: others, needed });
        }
        let unix_ms = self.reactor.unix_time_ms();
        self.replace_drives(|table| set_state(table, drive, DriveState::Leaving, unix_ms)).await
    }

    /// One that is gone already stays so.
    pub(super) async fn forget(&mut self, drive: DriveNumber) -> Result<()> {
        let record = self.table().drive(drive).ok_or_else(|| unknown(drive))?;
        let is_failed = match record.state {
            DriveState::Gone => return Ok(()),
            DriveState::Live | DriveState::Joining => {
                return Err(refused(&format!("drive {drive} is neither failed nor leaving")));
            }
            DriveState::Failed => true,
            DriveState::Leaving => false,
        };
        if let Some(holder) = self.holder_on(drive) {
            return Err(refused(&format!("drive {drive} is still needed by {holder}")));
        }
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
        .await
    }

    /// What a drive cannot go without.
    fn holder_on(&self, drive: DriveNumber) -> Option<String> {
        let mut rows = self.view.rows();
        let row = rows.find(|(_, row)| row.sets().any(|set| set.has_drive(drive)));
        if let Some((zone, _)) = row {
            return Some(format!("zone {zone}"));
        }
        let mut journals = self.view.journals();
        let journal = journals.find(|it| it.copies.iter().any(|copy| copy.drive == drive));
        if let Some(journal) = journal {
            return Some(format!("the journal of shard {}", journal.shard));
        }
        let table = self.table();
        let others = table.drives.iter().filter(|it| it.number != drive && has_roots(it)).count();
        let is_holder = is_in_state(table, drive, DriveState::Leaving);
        (is_holder && others <= usize::from(table.drops_max)).then(|| "tables and roots".to_owned())
    }

    /// The class of new zones; so many drives may be dropped from then on as the largest class that is in use survives.
    pub(super) async fn set_class(&mut self, shape: StripeShape, kinds: MediumKinds) -> Result<()> {
        let table = self.table();
        let known = table.classes.iter().find(|it| it.shape == shape && it.kinds == kinds);
        let known = known.copied();
        let drops_max = self.view.parity_of_rows().max(shape.parity());
        let present = table.drives.iter().filter(|it| it.state == DriveState::Live).count();
        let needed = shape.strips().max(usize::from(drops_max) + 1);
        if present < needed {
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
            let of_rows = self.view.rows().flat_map(|(_, row)| row.sets()).map(|set| set.class);
            let used: BTreeSet<u8> = of_rows.map(ClassId::get).collect();
            let new_zones = self.table().class;
            classes.retain(|it| it.id == new_zones || used.contains(&it.id.get()));
        }
        let id = id.filter(|_| classes.len() < DriveTable::CLASSES_MAX);
        let id = id.ok_or_else(|| refused("the pool has all the classes that it can have"))?;
        classes.push(Class { id, shape, kinds });
        Ok(id)
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
    let others = table.drives.iter().filter(|it| it.number != drive && has_roots(it)).count();
    others > usize::from(table.drops_max)
}

/// Whether a drive holds tables and roots, and will go on doing so.
pub(super) fn has_roots(record: &DriveRecord) -> bool {
    record.state == DriveState::Live && record.roles.has(DriveRoles::ROOTS)
}
