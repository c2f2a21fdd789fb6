//! Drives as those who write them need them: open on this thread, and out of the table once they fail. Called by
//! segments and journals.

use std::rc::Rc;

use varve_media::{Error, Result};
use varve_types::ErrorKind;

use crate::change::Change;
use crate::handles::{DriveHandle, DriveHandles};
use crate::ids::DriveNumber;
use crate::tables::TablesHandle;

/// How long a write waits for this thread to open a drive that is in the table, and how often it looks, in ns.
const OPEN_NANOS_MAX: u64 = 10_000_000_000;
const OPEN_AGAIN_NANOS: u64 = 5_000_000;

/// The handle of a drive; `None` where the table says that it is not read any more.
///
/// # Errors
/// `DriveFailed` when this thread does not open it in time: it is not written, and nobody may say that it was.
pub(crate) async fn written_drive(
    handles: &DriveHandles,
    tables: &TablesHandle,
    drive: DriveNumber,
) -> Result<Option<Rc<DriveHandle>>> {
    let reactor = handles.reactor();
    let began = reactor.now();
    loop {
        let state = tables.look(|view| view.drives().drive(drive).map(|record| record.state));
        if !state.is_some_and(|state| state.is_readable()) {
            return Ok(None);
        }
        if let Some(handle) = handles.get(drive) {
            return Ok(Some(handle));
        }
        if reactor.now().since(began) > OPEN_NANOS_MAX {
            let reason = "this thread could not open it".to_owned();
            return Err(Error::DriveFailed { drive: drive.get(), reason });
        }
        reactor.sleep(OPEN_AGAIN_NANOS).await;
    }
}

/// Has a drive fail that answered with `error`: returns once the table that says so is durable (KEEPER-1).
///
/// # Errors
/// `error` where it is not the drive's; the keeper's.
pub(crate) async fn fail_drive(
    tables: &TablesHandle,
    drive: DriveNumber,
    error: Error,
) -> Result<()> {
    match error.kind() {
        // The medium is full, this process lost the pool or must not write, or the place is one that it cannot write.
        ErrorKind::NoSpace | ErrorKind::Fenced | ErrorKind::Denied | ErrorKind::Unsupported => {
            return Err(error);
        }
        _ => {}
    }
    let reason = error.to_string();
    tables.change(Change::DriveFailed { drive, reason }).await?;
    Ok(())
}
