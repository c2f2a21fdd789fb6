//! A drive of a pool with redundancy whose file or device has become larger: the pool uses what it has now.
//!
//! DRIVE-GROWTH-1. A drive never gets smaller. Whatever is cut off, it has the size that it had, or the new one, and
//!     the same request has it grow.

use std::sync::Arc;

use varve_access_admin::v1::{DriveGrowth, GrowDrive};
use varve_access_admin::{AdminFuture, Result};
use varve_media_redundancy::format::{DriveRecord, DriveState};
use varve_media_redundancy::{Change, UNIT_BYTES};
use varve_types::{ByteCount, ErrorKind};

use crate::drive_changes::{blocking, bytes_of, change, find, refusal, to_the_end};
use crate::redundant_pool::RedundantPool;

/// Has the pool use what a drive has become larger by.
pub(crate) fn grow(
    pool: &Arc<RedundantPool>,
    name: String,
    size: GrowDrive,
) -> AdminFuture<'static, DriveGrowth> {
    let pool = Arc::clone(pool);
    to_the_end(async move {
        let record = find(&pool, &name)?;
        check(&record, &size)?;
        let (drive, usable_before_bytes) = (record.number, pool.files().sizes().usable_bytes);
        let asking = Arc::clone(&pool);
        let room = move || asking.files().room_of(drive, size.size_bytes);
        let units = blocking("growing", room).await?;
        check_room(&record, &size, u64::from(units) * UNIT_BYTES)?;
        let view = change(&pool, Change::Grow { drive, units }).await?;
        Ok(DriveGrowth {
            drive: drive.get(),
            size_bytes: view.drives().drive(drive).map_or(0, bytes_of),
            size_before_bytes: bytes_of(&record),
            usable_bytes: pool.files().sizes().usable_bytes,
            usable_before_bytes,
        })
    })
}

/// Before anything is made longer.
fn check(record: &DriveRecord, size: &GrowDrive) -> Result<()> {
    let (drive, has) = (record.number, bytes_of(record));
    if record.state != DriveState::Live {
        let what = format!("drive {drive} is not live, and cannot grow");
        let hint = "`varve drive list` shows in which state it is";
        return Err(refusal(ErrorKind::Conflict, &what, hint));
    }
    match size.size_bytes {
        // DRIVE-GROWTH-1
        Some(bytes) if bytes < has => {
            let (has, bytes) = (ByteCount(has), ByteCount(bytes));
            let what = format!("drive {drive} has {has}, and cannot be made smaller: {bytes}");
            let hint = "to use a smaller one, put it in its place: `varve drive replace`";
            Err(refusal(ErrorKind::Invalid, &what, hint))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether there is what is used, and what is asked for.
fn check_room(record: &DriveRecord, size: &GrowDrive, room: u64) -> Result<()> {
    let (drive, has) = (record.number, bytes_of(record));
    if room < has {
        let (has, room) = (ByteCount(has), ByteCount(room));
        let what = format!(
            "drive {drive} has become smaller: it has room for {room}, and {has} of it are used"
        );
        let hint =
            "give its file or device back the size that it had, before the daemon is restarted";
        return Err(refusal(ErrorKind::Conflict, &what, hint));
    }
    match size.size_bytes {
        // What is less than a unit is not used.
        Some(bytes) if room < bytes / UNIT_BYTES * UNIT_BYTES => {
            let (bytes, room) = (ByteCount(bytes), ByteCount(room));
            let what =
                format!("the device of drive {drive} has room for {room}, and not for {bytes}");
            let hint = "make the device larger first, or leave --size away to use all that it has";
            Err(refusal(ErrorKind::NoSpace, &what, hint))
        }
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use varve_access_admin::Error;
    use varve_media_redundancy::format::{DriveRoles, HeldUnits};
    use varve_media_redundancy::{DriveId, DriveNumber, Epoch, MediumKind};

    use super::*;

    fn record(units: u32) -> DriveRecord {
        DriveRecord {
            number: DriveNumber::new(2).unwrap(),
            id: DriveId([2; 16]),
            state: DriveState::Live,
            roles: DriveRoles::ALL,
            kind: MediumKind::Ssd,
            is_slow: false,
            removal: None,
            former: None,
            units,
            held: HeldUnits::NONE,
            since_epoch: Epoch(1),
            since_unix_ms: 0,
            name: String::new(),
        }
    }

    fn kind(result: Result<()>) -> Option<ErrorKind> {
        match result {
            Ok(()) => None,
            Err(Error::Backend { kind, hint: Some(_), .. }) => Some(kind),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_drive_gets_what_it_has_and_never_less() {
        let record = record(100);
        let size = |units: u64| GrowDrive { size_bytes: Some(units * UNIT_BYTES + 1) };
        assert_eq!(kind(check(&record, &size(99))), Some(ErrorKind::Invalid));
        assert_eq!(kind(check(&record, &size(100))), None);
        let leaving = DriveRecord { state: DriveState::Leaving, ..record.clone() };
        assert_eq!(kind(check(&leaving, &size(200))), Some(ErrorKind::Conflict));
        let all = GrowDrive::default();
        let room = |units: u64| units * UNIT_BYTES;
        assert_eq!(kind(check_room(&record, &all, room(99))), Some(ErrorKind::Conflict));
        assert_eq!(kind(check_room(&record, &all, room(100))), None);
        assert_eq!(kind(check_room(&record, &size(150), room(149))), Some(ErrorKind::NoSpace));
        assert_eq!(kind(check_room(&record, &size(150), room(150))), None);
    }
}
