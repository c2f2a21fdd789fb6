//! Drives over simulated disks, one promise a module. Those over files and devices are programs of their own: a child
//! process that one of them starts holds the locks of all for a moment.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod drive_conforms;
mod drive_survives_power_cuts;
mod drive_tells_damage;
mod wrappers_conform;
