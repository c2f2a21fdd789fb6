//! Watches the drives of a pool on one thread: tells the keeper of those that are slow, or quick again, and has those
//! leave that fail too often (3.11). Started with a thread's media.
//!
//! WATCH-1. It holds neither drives nor tables while it rests, and ends when nobody else has them.
//! WATCH-2. A drive leaves for its errors only while all others are live and have room for what it has: more than one
//!     at a time would take what survives the next loss.
//! WATCH-3. A drive of which no read is answered, its superblock's included, fails as one that cannot be written does;
//!     but only where everything can be read without it and all others like it, as no others are known to have damage,
//!     and these are no more than may be dropped. The keeper looks at that itself, as the last one. A drive that failed
//!     is not read again: what would be lost with it may come back with its cable.
//! WATCH-4. A read that failed is a loss: what lies there may be damaged (POOL-HEALTH-5).

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use futures_util::future::join_all;
use varve_media::planted::{Bug, planted};
use varve_reactor::Nanos;

use crate::change::Change;
use crate::class::LABEL_BYTES;
use crate::conversion::is_as_new;
use crate::drive_changes::root_holders;
use crate::exposure::{Exposure, RepairQueue, is_readable, lost_without};
use crate::format::{DriveRecord, DriveRoles, DriveState, JournalCopy, JournalRecord};
use crate::handles::DriveHandles;
use crate::health::boundaries_of;
use crate::ids::DriveNumber;
use crate::plan::zones_that_fit;
use crate::repair::{
    DriveReads, ERRORS_MAX, FAILED_READS_MIN, FailingDrive, RepairControl, ScrubBoard,
};
use crate::slow::{DriveSample, SlowJudge};
use crate::space::DriveSpaces;
use crate::tables::TablesHandle;
use crate::view::LayoutView;

/// Time between two looks.
const LOOK_NANOS: u64 = Nanos::seconds(1);

/// How long a drive must not have been slow before it counts as quick again.
const QUICK_NANOS: u64 = Nanos::seconds(600);

/// Reads in a row that fail, and for how long they do, before a drive is given up, in ns: what a bus that is reset
/// takes.
const FAILED_READS_MAX: u64 = 16;
const FAILED_NANOS: u64 = Nanos::seconds(5);

/// How long it is not looked again whether a drive may be given up: that is a look at all rows.
const GIVE_UP_AGAIN_NANOS: u64 = Nanos::seconds(10);

/// What the watch of a thread remembers.
struct DriveWatch {
    control: Arc<RepairControl>,
    judge: SlowJudge,
    /// What each drive had counted at the last look.
    seen: BTreeMap<DriveNumber, SeenCounts>,
    /// When it was looked last whether a drive may be given up.
    asked_at: Option<Nanos>,
}

/// What a drive had counted.
#[derive(Clone, Copy, Default)]
struct SeenCounts {
    /// Reads that failed, or were not answered in time.
    failed: u64,
    /// These, and bad sums.
    errors: u64,
    /// Reads of units that were answered.
    answered: u64,
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
        seen: BTreeMap::new(),
        asked_at: None,
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
            let view = tables.view();
            let mut changes = self.look(&handles, &view);
            changes.extend(self.look_for_unreadable(&handles, &tables).await);
            for change in changes {
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
        changes.extend(self.count_errors(handles, view));
        changes.extend(self.look_for_errors(view));
        changes
    }

    /// Takes in what the drives counted since the last look.
    fn count_errors(&mut self, handles: &DriveHandles, view: &LayoutView) -> Option<Change> {
        let now = handles.reactor().boot_time();
        self.control.note_time(now);
        let mut has_failed = false;
        for drive in handles.all() {
            let counts = drive.counts();
            let failed = counts.read_errors().saturating_add(counts.timeouts());
            let errors = counts.read_errors().saturating_add(counts.checksum_errors());
            let seen = SeenCounts { failed, errors, answered: counts.unit_reads() };
            let before = self.seen.insert(drive.number(), seen).unwrap_or_default();
            if errors > before.errors {
                self.control.note_errors(drive.number(), errors - before.errors);
            }
            has_failed |= failed > before.failed && is_readable(view.drives(), drive.number());
            let is_answered = seen.answered > before.answered;
            let failed_in_a_row = counts.failed_in_a_row();
            let reads = DriveReads { now, is_answered, failed_in_a_row };
            self.control.note_reads(drive.number(), reads);
            if failed_in_a_row >= FAILED_READS_MIN && is_readable(view.drives(), drive.number()) {
                drive.probe();
            }
        }
        if has_failed {
            self.control.with_scrub(ScrubBoard::spoil);
        }
        let is_told = view.drives().walked_epoch != view.drives().loss_epoch;
        (has_failed && !is_told).then_some(Change::Loss) // WATCH-4
    }

    /// A drive that cannot be read fails, where it may (WATCH-3).
    async fn look_for_unreadable(
        &mut self,
        handles: &DriveHandles,
        tables: &TablesHandle,
    ) -> Option<Change> {
        let view = tables.view();
        let mut failing = self.control.failing_drives();
        failing.retain(|it| is_readable(view.drives(), it.drive));
        let is_due = |it: &&FailingDrive| it.reads >= FAILED_READS_MAX && it.nanos >= FAILED_NANOS;
        let FailingDrive { drive, reads, .. } = *failing.iter().find(is_due)?;
        let now = handles.reactor().now();
        if self.asked_at.is_some_and(|at| now.since(at) < GIVE_UP_AGAIN_NANOS) {
            return None;
        }
        self.asked_at = Some(now);
        let silent = silent_drives(handles, &view).await;
        if !silent.contains(&drive) {
            return None; // Parts of it can be read.
        }
        let view = tables.view(); // Others may have failed since.
        let mut without: Vec<_> = failing.iter().map(|it| it.drive).collect();
        without.extend(silent);
        without.sort_unstable();
        without.dedup();
        let is_whole = !has_damage_beside(&self.control, &view, &without);
        if !is_whole || !may_go_without(&view, &without) {
            tracing::warn!(%drive, reads, "a drive cannot be read, and what it has would be lost with it");
            return None;
        }
        let reason = format!("it cannot be read: the last {reads} reads failed");
        Some(Change::GiveUp { drive, unreadable: without, reason })
    }

    /// A drive that fails too often leaves, where it may (WATCH-2).
    fn look_for_errors(&self, view: &LayoutView) -> Option<Change> {
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

/// Whether the tables may drop so many drives, and everything can be read without them that can be read now (WATCH-3).
pub(crate) fn may_go_without(view: &LayoutView, drives: &[DriveNumber]) -> bool {
    if planted(Bug::UnreadableGivenUp) {
        return true;
    }
    let drives = drives.iter().copied().filter(|drive| is_readable(view.drives(), *drive));
    let drives: Vec<DriveNumber> = drives.collect();
    let without = view.without(&drives);
    let table = without.drives();
    let lost = |view: &LayoutView| {
        let queue = RepairQueue::of(view);
        let lost = queue.exposed().find(|zones| zones.exposure == Exposure::Lost);
        lost.map_or(0, |zones| zones.zones)
    };
    let has_roots = root_holders(table).next().is_some();
    let has_journals = || view.journals().all(|journal| keeps_journal(view, &without, journal));
    let has_zones = || lost_without(view, &drives).is_none() && lost(&without) == lost(view);
    drives.len() <= usize::from(table.drops_max) && has_roots && has_journals() && has_zones()
}

/// Whether each position of a journal that has a copy in a view has one in another view too. Tables do not say where a
/// replay begins, so all positions count.
fn keeps_journal(view: &LayoutView, without: &LayoutView, journal: &JournalRecord) -> bool {
    let has = |view: &LayoutView, position: u64| {
        let mut copies = journal.copies.iter().filter(|copy| copy.has(position));
        copies.any(|copy| is_readable(view.drives(), copy.drive))
    };
    let is_current = |copy: &JournalCopy| is_readable(without.drives(), copy.drive);
    let mut positions = journal.copies.iter().flat_map(boundaries_of);
    positions.all(|it| has(without, it) || !has(view, it)) && journal.current().any(is_current)
}

/// Whether other drives than these are known to have something damaged, or may have: then strips that the tables count
/// on do not count.
fn has_damage_beside(control: &RepairControl, view: &LayoutView, drives: &[DriveNumber]) -> bool {
    let is_beside = |(drive, _): &(DriveNumber, u64)| {
        is_readable(view.drives(), *drive) && !drives.contains(drive)
    };
    control.suspects() > 0
        || control.open_faults().iter().any(is_beside)
        || control.shard_facts().iter().any(|shard| shard.unreadable > 0)
}

/// Drives of which not even the superblock can be read: what they are to be written would fail too.
async fn silent_drives(handles: &DriveHandles, view: &LayoutView) -> Vec<DriveNumber> {
    let mut all = handles.all();
    all.retain(|drive| is_readable(view.drives(), drive.number()));
    let looks = all.iter().map(|drive| drive.meta().read(0, LABEL_BYTES as usize));
    let found = join_all(looks).await;
    let silent = all.iter().zip(found).filter(|(_, found)| found.is_err());
    silent.map(|(drive, _)| drive.number()).collect()
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
    if rows.any(|set| !is_as_new(table, set)) {
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
