//! The condition of drives: what they say of themselves, by `smartctl`, and the system of their devices.
//!
//! ```text
//!  control thread ── paths of drives ──▶ thread "conditions" ── smartctl, one drive after another
//!        ▲                                     │
//!        └── API, health, metrics ◀── table ◀──┘
//! ```
//!
//! CONDITION-1. A drive that has not answered is not known, and says why; it is never taken for well.
//! CONDITION-2. Whatever may hang is done by threads that nobody waits for: neither the data path nor the end of the
//!     daemon. A program that does not end is killed, and not started again for the drive before it has ended.
//! CONDITION-3. What is shown belongs to the last look; a look that is overdue makes the drive one that is not known.

mod endurance;
mod intel;
mod light;
mod program;
mod smart;
mod smartctl;
mod table;
mod warnings;
mod watch;

pub(crate) use light::change as change_light;
pub(crate) use table::{DriveConditions, metrics, reasons};
pub(crate) use watch::{AskedDrives, watch};

/// One of the public outputs that tests read, by its name in `fixtures`.
#[cfg(test)]
macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/condition/fixtures/",
            $name,
            ".json"
        ))
    };
}
#[cfg(test)]
use fixture;
