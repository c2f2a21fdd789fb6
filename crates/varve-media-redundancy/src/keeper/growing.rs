//! How a drive takes a larger size while it serves, once its file or device is longer.
//!
//! ```text
//!  its last block is read ─▶ superblock ─▶ drive table ─▶ places of the new units can be chosen
//! ```
//!
//! GROWING-1. A superblock has as many units as the drive table says, or more: all of its copies are durable before
//!     that table is written. Two that have them from a try that was cut off are not enough, as the next try writes
//!     over one of them. Cut off anywhere, the drive opens with the units of the table that counts, and can be grown
//!     again.
//! GROWING-2. What a drive gets is there: the last block of it was read before anything says so.

use varve_media::planted::{Bug, planted};
use varve_media::{Error, RedundantSuperblock, Result};

use super::membership::record_mut;
use super::{Keeper, refused, unknown};
use crate::class::LABEL_BYTES;
use crate::drive_changes::is_in_state;
use crate::format::DriveState;
use crate::handles::DriveHandle;
use crate::ids::{DriveNumber, UNIT_BYTES};

impl Keeper {
    /// Has a live drive have so many units; one that has as many, or more, stays as it is.
    pub(super) async fn grow(&mut self, number: DriveNumber, units: u32) -> Result<()> {
        let record = self.table().drive(number).ok_or_else(|| unknown(number))?;
        let not_live = || refused(&format!("drive {number} is not live"));
        if record.state != DriveState::Live {
            return Err(not_live());
        }
        if units <= record.units {
            return Ok(());
        }
        let id = record.id.0;
        let drive = self.handles.get(number).ok_or_else(not_live)?;
        let last = u64::from(units) * UNIT_BYTES - u64::from(LABEL_BYTES);
        drive.read(last, LABEL_BYTES as usize).await?; // GROWING-2
        let superblock = RedundantSuperblock::read(drive.meta()).await?;
        let superblock = superblock.filter(|it| it.drive_id == id && it.pool == self.table().pool);
        let superblock = superblock.ok_or_else(|| {
            refused(&format!("the superblock of drive {number} is another one's"))
        })?;
        let is_late = planted(Bug::GrownInTableFirst);
        if !is_late {
            self.write_superblock(&drive, &superblock.grown(units)).await?; // GROWING-1
        }
        self.replace_drives(|table| {
            if let Some(record) = record_mut(table, number) {
                record.units = units;
            }
        })
        .await?;
        if is_late {
            self.write_superblock(&drive, &superblock.grown(units)).await?;
        }
        if !is_in_state(self.table(), number, DriveState::Live) {
            return Err(lost(number));
        }
        Ok(())
    }

    /// Some copies may have been written where that fails: the drive is not written any more then.
    async fn write_superblock(
        &mut self,
        drive: &DriveHandle,
        superblock: &RedundantSuperblock,
    ) -> Result<()> {
        let Err(error) = superblock.write(drive.meta()).await else { return Ok(()) };
        self.fail_drive(drive.number(), &error.to_string()).await?;
        Err(lost(drive.number()))
    }
}

fn lost(drive: DriveNumber) -> Error {
    Error::DriveFailed { drive: drive.get(), reason: "it failed while it grew".to_owned() }
}
