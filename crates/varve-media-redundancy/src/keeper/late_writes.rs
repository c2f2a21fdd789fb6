//! Pages and journal records on several drives, of which one that is late does not hold up the others.
//!
//! LATE-WRITES-1. A page or record is answered once all drives that hold tables have it; or once `drops_max` + 1 drives
//!     that the table calls live or leaving have it, and the others are late. As many may be lost, and one that has it
//!     is left: an opening takes the newest, and brings it to all.
//! LATE-WRITES-2. What is late is written on, in order. Before it is on all drives, or they failed, no drive table
//!     follows, and nothing is copied to a drive: else those that have it could leave, or be dropped, one after the
//!     other.
//! LATE-WRITES-3. Each write that fails is told of once: to who waits for it, or as a late one. One that has ended
//!     before nobody waits any more is taken in, although nobody has looked at it yet.
//! LATE-WRITES-4. What waits behind a write that failed fails with it: a drive that does not answer holds up the next
//!     table for its patience once, however much is late on it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::{Either, select};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use varve_media::planted::{Bug, planted};
use varve_media::{Error, Result};
use varve_reactor::{Nanos, Notify, Reactor};

use crate::handles::DriveHandle;
use crate::ids::DriveNumber;
use crate::table_store::{DriveFailure, RootContents, StoredRoot, write_one};

/// How long the others are waited for once enough drives have what is written, in ns.
const LATE_NANOS: u64 = Nanos::millis(100);

/// Writes that may be late on a drive; with more of them it is waited for.
const LATE_MAX: u64 = 8;

/// A drive that a page or record goes to.
pub(super) struct TableHolder {
    pub(super) drive: Rc<DriveHandle>,
    /// Whether it is one of those that must have it before it is answered.
    pub(super) counts: bool,
    /// Whether it is known to be slow: it is not waited for.
    pub(super) is_slow: bool,
}

/// What is written.
pub(super) struct TableWrite {
    pub(super) which: StoredRoot,
    pub(super) holders: Vec<TableHolder>,
    pub(super) contents: RootContents,
    /// Drives that must have it.
    pub(super) needed: usize,
}

/// Writes of the keeper that may be late.
pub(super) struct LateWrites {
    state: Rc<LateState>,
}

struct LateState {
    reactor: Reactor,
    lanes: RefCell<BTreeMap<DriveNumber, WriteLane>>,
    /// Of writes that nobody waits for any more.
    failures: RefCell<Vec<DriveFailure>>,
    ended: Notify,
}

/// The writes to a drive, one after the other.
#[derive(Default)]
struct WriteLane {
    begun: u64,
    ended: u64,
    /// Of one that failed, until none waits any more (LATE-WRITES-4).
    failure: Option<Error>,
}

impl WriteLane {
    fn under_way(&self) -> u64 {
        self.begun - self.ended
    }
}

/// How a write to a drive ended.
struct WriteOutcome {
    drive: DriveNumber,
    counts: bool,
    result: Result<()>,
}

impl LateWrites {
    pub(super) fn new(reactor: &Reactor) -> Self {
        let state = LateState {
            reactor: reactor.clone(),
            lanes: RefCell::default(),
            failures: RefCell::default(),
            ended: Notify::new(),
        };
        Self { state: Rc::new(state) }
    }

    /// Writes to all holders at once, and returns those that failed (LATE-WRITES-1).
    ///
    /// # Errors
    /// [`Error::Fenced`].
    pub(super) async fn write(&self, write: TableWrite) -> Result<Vec<DriveFailure>> {
        let TableWrite { which, holders, contents, needed } = write;
        let needed = if planted(Bug::TableOnOneDrive) { 1 } else { needed };
        let (contents, is_left) = (Rc::new(contents), Rc::new(Cell::new(false)));
        let may_leave = holders.iter().all(|holder| self.is_short(holder.drive.number()));
        let mut open: Vec<(DriveNumber, bool)> =
            holders.iter().map(|holder| (holder.drive.number(), holder.is_slow)).collect();
        let writes = holders.into_iter().map(|holder| {
            let turn = self.state.begin(holder.drive.number());
            let (state, contents) = (Rc::clone(&self.state), Rc::clone(&contents));
            let is_left = Rc::clone(&is_left);
            self.state.reactor.spawn_join(async move {
                state.await_turn(holder.drive.number(), turn).await; // LATE-WRITES-2
                let result = match state.failure(holder.drive.number()) {
                    Some(error) => Err(error), // LATE-WRITES-4
                    None => write_one(which, &holder.drive, &contents).await,
                };
                let outcome =
                    WriteOutcome { drive: holder.drive.number(), counts: holder.counts, result };
                if is_left.get() {
                    state.note_late(&outcome);
                }
                state.end(&outcome);
                outcome
            })
        });
        let mut writes: FuturesUnordered<_> = writes.collect();
        let (mut failures, mut durable) = (Vec::new(), 0);
        loop {
            let is_enough = may_leave && durable >= needed;
            let next = if !is_enough {
                writes.next().await
            } else if open.iter().all(|(_, is_slow)| *is_slow) {
                break;
            } else {
                match select(writes.next(), self.state.reactor.sleep(LATE_NANOS)).await {
                    Either::Left((next, _)) => next,
                    Either::Right(((), _)) => break,
                }
            };
            let Some(WriteOutcome { drive, counts, result }) = next else { return Ok(failures) };
            open.retain(|(other, _)| *other != drive);
            durable += usize::from(counts && result.is_ok());
            failures.extend(failure_of(drive, result)?);
        }
        // LATE-WRITES-3
        while let Some(Some(WriteOutcome { drive, result, .. })) = writes.next().now_or_never() {
            open.retain(|(other, _)| *other != drive);
            failures.extend(failure_of(drive, result)?);
        }
        is_left.set(true);
        for (drive, _) in open {
            tracing::debug!(%drive, "a table is late on a drive");
        }
        Ok(failures)
    }

    /// Whether few enough writes to a drive are under way.
    fn is_short(&self, drive: DriveNumber) -> bool {
        self.state.lanes.borrow().get(&drive).is_none_or(|lane| lane.under_way() < LATE_MAX)
    }

    /// Returns when nothing is late any more: it is there, or failed (LATE-WRITES-2).
    pub(super) async fn settle(&self) {
        loop {
            let ended = self.state.ended.notified();
            let is_over = || {
                let lanes = self.state.lanes.borrow();
                lanes.values().all(|lane| lane.under_way() == 0)
            };
            if is_over() || planted(Bug::LateOvertaken) {
                return;
            }
            ended.await;
        }
    }

    /// Returns when a write failed that nobody waited for.
    pub(super) async fn failed(&self) {
        loop {
            let ended = self.state.ended.notified();
            if !self.state.failures.borrow().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Drives whose late writes failed since the last call.
    ///
    /// # Errors
    /// [`Error::Fenced`].
    pub(super) fn take_failures(&self) -> Result<Vec<DriveFailure>> {
        let failures = self.state.failures.take();
        let is_fenced = failures.iter().any(|failure| matches!(failure.error, Error::Fenced));
        if is_fenced { Err(Error::Fenced) } else { Ok(failures) }
    }
}

/// The failure of a write to a drive, if it is one.
///
/// # Errors
/// [`Error::Fenced`].
fn failure_of(drive: DriveNumber, result: Result<()>) -> Result<Option<DriveFailure>> {
    match result {
        Ok(()) => Ok(None),
        Err(Error::Fenced) => Err(Error::Fenced),
        Err(error) => Ok(Some(DriveFailure { drive, error })),
    }
}

impl LateState {
    fn begin(&self, drive: DriveNumber) -> u64 {
        let mut lanes = self.lanes.borrow_mut();
        let lane = lanes.entry(drive).or_default();
        lane.begun += 1;
        lane.begun
    }

    async fn await_turn(&self, drive: DriveNumber, turn: u64) {
        loop {
            let ended = self.ended.notified();
            if self.lanes.borrow().get(&drive).is_some_and(|lane| lane.ended + 1 == turn) {
                return;
            }
            ended.await;
        }
    }

    /// Why a write before this one failed.
    fn failure(&self, drive: DriveNumber) -> Option<Error> {
        self.lanes.borrow().get(&drive)?.failure.clone()
    }

    fn end(&self, outcome: &WriteOutcome) {
        let mut lanes = self.lanes.borrow_mut();
        let lane = lanes.entry(outcome.drive).or_default();
        lane.ended += 1;
        lane.failure = outcome.result.as_ref().err().cloned().filter(|_| lane.under_way() > 0);
        drop(lanes);
        self.ended.notify_all();
    }

    fn note_late(&self, outcome: &WriteOutcome) {
        if let Err(error) = &outcome.result {
            let failure = DriveFailure { drive: outcome.drive, error: error.clone() };
            self.failures.borrow_mut().push(failure);
        }
    }
}

#[cfg(test)]
mod tests {
    use varve_media::RootVersion;
    use varve_media::planted::plant;

    use super::*;
    use crate::table_store::look;
    use crate::test_drives::TestDrives;

    const PAGE: StoredRoot = StoredRoot::Page(3);
    const DELAY: u64 = Nanos::millis(500);

    struct Tables {
        drives: TestDrives,
        late: Rc<LateWrites>,
    }

    fn tables() -> Tables {
        let drives = TestDrives::new(3, 1, 1, 4);
        let late = Rc::new(LateWrites::new(&drives.sim.handle()));
        Tables { drives, late }
    }

    impl Tables {
        /// Writes a version to all drives; which failed, and how long it took.
        fn write(&mut self, version: u64, needed: usize) -> (Vec<DriveNumber>, u64) {
            let holders = self.drives.handles.all().into_iter();
            let holders =
                holders.map(|drive| TableHolder { drive, counts: true, is_slow: false }).collect();
            let contents = (RootVersion(version), vec![u8::try_from(version).unwrap(); 9]);
            let (late, write) =
                (Rc::clone(&self.late), TableWrite { which: PAGE, holders, contents, needed });
            let before = self.drives.sim.handle().now();
            let failures = self.drives.sim.run_until(async move { late.write(write).await });
            let failures = failures.unwrap().into_iter().map(|failure| failure.drive).collect();
            (failures, self.drives.sim.handle().now().since(before))
        }

        fn settle(&mut self) {
            let late = Rc::clone(&self.late);
            self.drives.sim.run_until(async move { late.settle().await });
        }

        /// Versions on both sides of a drive.
        fn versions(&mut self, drive: u8) -> Vec<u64> {
            let drive = self.drives.handles.get(DriveNumber::new(drive).unwrap()).unwrap();
            let sides = self.drives.sim.run_until(async move { look(PAGE, &drive).await });
            let sides = sides.unwrap().into_iter();
            sides.map(|side| side.map_or(0, |(version, _)| version.0)).collect()
        }
    }

    #[test]
    fn a_late_drive_holds_up_nobody_and_gets_everything_in_order() {
        let mut tables = tables();
        assert!(tables.write(1, 2).1 < LATE_NANOS);
        tables.drives.delay(DriveNumber::new(2).unwrap(), DELAY);
        for version in 2..5 {
            let (failed, took) = tables.write(version, 2);
            assert!(failed.is_empty() && took < DELAY, "LATE-WRITES-1: {took}");
        }
        for drive in [0, 1, 3] {
            assert_eq!(tables.versions(drive), [4, 4]);
        }
        tables.settle();
        assert_eq!(tables.versions(2), [4, 4], "LATE-WRITES-2");
    }

    #[test]
    fn a_late_drive_is_waited_for_where_too_few_others_have_it_or_too_much_is_late() {
        let mut tables = tables();
        tables.drives.delay(DriveNumber::new(2).unwrap(), DELAY);
        assert!(tables.write(1, 4).1 > DELAY);
        for version in 2..10 {
            assert!(tables.write(version, 3).1 < DELAY);
        }
        assert!(tables.write(10, 3).1 > DELAY);
        assert_eq!(tables.versions(2), [10, 10]);
    }

    /// LATE-WRITES-3.
    #[test]
    fn a_write_that_failed_before_anybody_looked_is_told_of() {
        let mut tables = tables();
        let slow = DriveNumber::new(2).unwrap();
        tables.drives.refuse_writes(slow);
        let holders = tables.drives.handles.all().into_iter();
        // The slow one ends first, and the others are enough by themselves.
        let mut holders: Vec<_> = holders
            .map(|drive| TableHolder { is_slow: drive.number() == slow, counts: true, drive })
            .collect();
        holders.sort_by_key(|holder| !holder.is_slow);
        let contents = (RootVersion(1), vec![1; 9]);
        let write = TableWrite { which: PAGE, holders, contents, needed: 3 };
        let late = Rc::clone(&tables.late);
        let failures = tables.drives.sim.run_until(async move { late.write(write).await });
        tables.settle();
        let mut failed = failures.unwrap();
        failed.extend(tables.late.take_failures().unwrap());
        let failed: Vec<_> = failed.into_iter().map(|failure| failure.drive).collect();
        assert_eq!(failed, [slow]);
    }

    #[test]
    fn table_on_one_drive() {
        let waits = || {
            let mut tables = tables();
            (1..4).for_each(|it| tables.drives.delay(DriveNumber::new(it).unwrap(), DELAY));
            tables.write(1, 2).1 > DELAY
        };
        assert!(waits(), "LATE-WRITES-1");
        plant(Some(Bug::TableOnOneDrive));
        let waits = waits();
        plant(None);
        assert!(!waits, "the bug shows");
    }

    #[test]
    fn late_overtaken() {
        let is_there = || {
            let mut tables = tables();
            tables.drives.delay(DriveNumber::new(2).unwrap(), DELAY);
            tables.write(1, 2);
            tables.settle();
            let lanes = tables.late.state.lanes.borrow();
            lanes.values().all(|lane| lane.under_way() == 0)
        };
        assert!(is_there(), "LATE-WRITES-2");
        plant(Some(Bug::LateOvertaken));
        let is_there = is_there();
        plant(None);
        assert!(!is_there, "the bug shows");
    }

    #[test]
    fn a_late_drive_that_never_answers_has_failed() {
        let mut tables = tables();
        tables.drives.hang(DriveNumber::new(1).unwrap());
        assert!(tables.write(1, 2).1 < DELAY);
        let late = Rc::clone(&tables.late);
        tables.drives.sim.run_until(async move { late.failed().await });
        let failures = tables.late.take_failures().unwrap();
        assert_eq!(failures.iter().map(|it| it.drive.get()).collect::<Vec<_>>(), [1]);
        assert!(tables.late.take_failures().unwrap().is_empty());
        tables.settle();
        // Where nobody else has it, it is waited for, and what failed is told.
        let (failed, _) = tables.write(2, 4);
        assert_eq!(failed.iter().map(|drive| drive.get()).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn what_waits_for_a_drive_that_never_answers_fails_with_the_first() {
        let mut tables = tables();
        tables.drives.hang(DriveNumber::new(1).unwrap());
        for version in 1..5 {
            assert!(tables.write(version, 2).1 < DELAY);
        }
        let before = tables.drives.sim.handle().now();
        tables.settle();
        let took = tables.drives.sim.handle().now().since(before);
        assert_eq!(tables.late.take_failures().unwrap().len(), 4, "LATE-WRITES-3");
        let (failed, patience) = tables.write(5, 4);
        assert_eq!(failed.len(), 1);
        assert!(took <= patience, "LATE-WRITES-4: {took} of {patience}");
    }
}
