//! Watches the drives of a pool on one thread: tells the keeper of those that are slow, or quick again, and has those
//! leave that fail too often (3.11). Started with a thread's media.
//!
//! WATCH-1. It holds neither drives nor tables while it rests, and ends when nobody else has them.
//! WATCH-2. A drive leaves for its errors only while all others are live and have room for what it has: more than one
//!     at a time would take what survives the next loss.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use varve_reactor::Nanos;

use crate::change::Change;
use crate::format::{DriveRecord, DriveRoles, DriveState};
use crate::handles::DriveHandles;
use crate::ids::DriveNumber;
use crate::plan::zones_that_fit;
use crate::repair::{ERRORS_MAX, RepairControl};
use crate::slow::{DriveSample, SlowJudge};
use crate::space::DriveSpaces;
use crate::tables::TablesHandle;
use crate::view::LayoutView;

/// Time between two looks.
const LOOK_NANOS: u64 = Nanos::seconds(1);

/// How long a drive must not have been slow before it counts as quick again.
const QUICK_NANOS: u64 = Nanos::seconds(600);

/// What the watch of a thread remembers.
struct DriveWatch {
    control: Arc<RepairControl>,
    judge: SlowJudge,
    /// Failed reads and bad sums of each drive at the last look.
    errors: BTreeMap<DriveNumber, u64>,
}

/// Starts the watch of a thread.
pub(crate) fn start(
    handles: &Rc<DriveHandles>,
    tables: &Rc<TablesHandle>,
    control: &Arc<RepairControl>,
) {
    let reactor = handles.reactor().clone();
    let (handles, tables) = (Rc::downgrade(handles), Rc::downgrade(tables));
    let watch = DriveWatch {
        control: Arc::clone(control),
        judge: SlowJudge::default(),
        errors: BTreeMap::new(),
    };
    reactor.spawn(watch.run(handles, tables));
}

impl DriveWatch {
    async fn run(mut self, handles: Weak<DriveHandles>, tables: Weak<TablesHandle>) {
        loop {
            let Some(reactor) = handles.upgrade().map(|it| it.reactor().clone()) else { return };
            reactor.sleep(LOOK_NANOS).await; // WATCH-1
            let (Some(handles), Some(tables)) = (handles.upgrade(), tables.upgrade()) else {
                return;
            };
            if tables.tables().failure().is_some() {
                return;
            }
            for change in self.look(&handles, &tables.view()) {
                if let Err(error) = tables.change(change).await {
                    tracing::warn!(%error, "the tables do not say how a drive does");
                }
            }
        }
    }

    /// What is to be changed by what the drives did since the last look.
    fn look(&mut self, handles: &DriveHandles, view: &LayoutView) -> Vec<Change> {
        let now = handles.reactor().now();
        let samples = samples_of(handles, view);
        let mut changes = Vec::new();
        for slow in self.judge.look(&samples, now) {
            self.control.note_slow(slow.drive, handles.reactor().boot_time());
            let is_known = samples.iter().any(|it| it.drive == slow.drive && it.is_slow);
            if slow.is_certain && !is_known {
                let p50 = latency_ms(handles, slow.drive);
                tracing::warn!(drive = %slow.drive, median_ms = p50, "a drive is much slower than the others");
                changes.push(Change::DriveSlow { drive: slow.drive, slow: true });
            }
        }
        for sample in samples.iter().filter(|sample| sample.is_slow) {
            let quick = self.control.quick_nanos(sample.drive, handles.reactor().boot_time());
            if quick >= QUICK_NANOS {
                tracing::info!(drive = %sample.drive, "a drive is as quick as the others again");
                changes.push(Change::DriveSlow { drive: sample.drive, slow: false });
            }
        }
        changes.extend(self.look_for_errors(handles, view));
        changes
    }

    /// A drive that fails too often leaves, where it may (WATCH-2).
    fn look_for_errors(&mut self, handles: &DriveHandles, view: &LayoutView) -> Option<Change> {
        self.control.note_time(handles.reactor().boot_time());
        for drive in handles.all() {
            let counts = drive.counts();
            let errors = counts.read_errors().saturating_add(counts.checksum_errors());
            let before = self.errors.insert(drive.number(), errors).unwrap_or(0);
            if errors > before {
                self.control.note_errors(drive.number(), errors - before);
            }
        }
        let failing = self.control.recent_errors();
        let failing = failing.into_iter().filter(|it| it.errors >= ERRORS_MAX);
        let drive = failing.map(|it| it.drive).find(|drive| may_leave(view, *drive))?;
        tracing::warn!(%drive, "a drive leaves: {ERRORS_MAX} reads failed or were wrong within 10 minutes");
        Some(Change::Leave { drive })
    }
}

fn samples_of(handles: &DriveHandles, view: &LayoutView) -> Vec<DriveSample> {
    let readable = view.drives().drives.iter().filter(|record| record.state.is_readable());
    let samples = readable.filter_map(|record| {
        let handle = handles.get(record.number)?;
        let (drive, kind, is_slow) = (record.number, record.kind, record.is_slow);
        Some(DriveSample { drive, kind, is_slow, window: handle.counts().take_window() })
    });
    samples.collect()
}

fn latency_ms(handles: &DriveHandles, drive: DriveNumber) -> u64 {
    let counts = handles.get(drive);
    let read = counts.as_ref().and_then(|it| it.counts().read_latency_nanos(500));
    let write = counts.as_ref().and_then(|it| it.counts().write_latency_nanos(500));
    read.max(write).unwrap_or(0) / Nanos::millis(1)
}

/// Whether a drive may go by itself (WATCH-2).
fn may_leave(view: &LayoutView, drive: DriveNumber) -> bool {
    let table = view.drives();
    let others = || table.drives.iter().filter(|record| record.number != drive);
    let is_there = |record: &DriveRecord| match record.state {
        DriveState::Live | DriveState::Gone => true,
        DriveState::Joining | DriveState::Leaving | DriveState::Failed => false,
    };
    let is_live = table.drive(drive).is_some_and(|record| record.state == DriveState::Live);
    if !is_live || !others().all(is_there) {
        return false;
    }
    let Some(class) = table.class_of(table.class) else { return false };
    let Ok(spaces) = DriveSpaces::of(view) else { return false };
    let mut rows = view.rows().flat_map(|(_, row)| row.sets());
    if rows.any(|set| set.class != class.id) {
        return false; // How much they need elsewhere is not known.
    }
    let place_units = table.geometry(class.shape).place_units();
    let on = |number: DriveNumber| {
        let sets = view.rows().flat_map(|(_, row)| row.sets());
        u32::try_from(sets.filter(|set| set.has_drive(number)).count()).unwrap_or(u32::MAX)
    };
    let usable = others().filter(|record| {
        record.state == DriveState::Live
            && record.roles.has(DriveRoles::SEGMENTS)
            && class.kinds.has(record.kind)
    });
    // What each of them has and could still take.
    let rooms = usable.map(|record| {
        let free = spaces.drive(record.number).map_or(0, |free| free.places(place_units));
        on(record.number).saturating_add(free)
    });
    let rooms: Vec<u32> = rooms.collect();
    let zones = view.rows().count();
    let fits = zones_that_fit(&rooms, class.shape.strips());
    rooms.len() >= class.shape.strips() && usize::try_from(fits).is_ok_and(|fits| fits >= zones)
}

#[cfg(test)]
mod tests;
