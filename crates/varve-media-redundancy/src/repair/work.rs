//! Which row comes next, and what has to be asked of the keeper for it: a rank over the rows of a view, brought up to
//! each next view by the pages that differ.

use std::collections::BTreeSet;
use std::sync::Arc;

use varve_media::planted::{Bug, planted};

use crate::change::Change;
use crate::class::ClassId;
use crate::conversion::{is_as_new, is_on};
use crate::exposure::{Exposure, RepairQueue, RepairWork, ZoneHoldings, is_readable, parity_of};
use crate::format::{
    DriveState, DriveTable, LayoutPage, MoveReason, Row, RowState, StripForm, StripSet,
};
use crate::ids::{DriveNumber, ZoneIndex};
use crate::view::LayoutView;

use super::control::RepairControl;

/// Exposure of rows that lack nothing and move all the same.
pub(crate) const NOT_EXPOSED: Exposure = Exposure::Survives(u8::MAX);

/// A row to be worked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MoveWork {
    pub(crate) zone: ZoneIndex,
    pub(crate) why: MoveReason,
    /// What the zone can lose; moves for which nothing lacks have the most.
    pub(crate) exposure: Exposure,
    /// Whether each of its sets has lost too much.
    pub(crate) is_salvage: bool,
}

/// What to do with a row first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum MoveStep {
    /// The keeper has to change it.
    Ask(Box<Change>),
    /// It moves, and is filled.
    Fill,
    /// It is where it should be.
    Nothing,
}

/// The rows that need work.
pub(crate) struct WorkList {
    view: Arc<LayoutView>,
    queue: RepairQueue,
    moving: BTreeSet<ZoneIndex>,
    /// Rows that are not as those of new zones.
    unconverted: BTreeSet<ZoneIndex>,
    /// Zones of the queue whose contents were looked at.
    ranked: BTreeSet<ZoneIndex>,
}

impl WorkList {
    pub(crate) fn new(view: Arc<LayoutView>) -> Self {
        let queue = RepairQueue::of(&view);
        let mut list = Self {
            view: Arc::clone(&view),
            queue,
            moving: BTreeSet::new(),
            unconverted: BTreeSet::new(),
            ranked: BTreeSet::new(),
        };
        for (zone, row) in view.rows() {
            list.enter(zone, row);
        }
        list
    }

    pub(crate) fn view(&self) -> &Arc<LayoutView> {
        &self.view
    }

    pub(crate) fn queue(&self) -> &RepairQueue {
        &self.queue
    }

    pub(crate) fn queue_mut(&mut self) -> (&mut RepairQueue, &LayoutView) {
        (&mut self.queue, &*self.view)
    }

    /// Whether nothing moves, lacks anything, or is not as new zones are.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.next().is_none() && self.moving.is_empty() && self.unconverted.is_empty()
    }

    /// Whether nothing of the pool comes before making drives more evenly full.
    pub(crate) fn is_only_rebalanced(&self) -> bool {
        let mut moving = self.moving.iter();
        self.queue.next().is_none()
            && self.unconverted.is_empty()
            && moving.all(|zone| self.is_rebalanced(*zone))
    }

    /// Zones whose rows move.
    pub(crate) fn moving(&self) -> impl Iterator<Item = ZoneIndex> + '_ {
        self.moving.iter().copied()
    }

    fn is_rebalanced(&self, zone: ZoneIndex) -> bool {
        match &self.view.row(zone).state {
            RowState::Moving { why, .. } => *why == MoveReason::Rebalance,
            RowState::Empty | RowState::Still(_) => false,
        }
    }

    /// Whether each row is as those of new zones, or on its way to that.
    pub(crate) fn is_converted(&self) -> bool {
        self.unconverted.is_empty()
    }

    /// Follows the tables. Costs the rows of pages that changed, and the zones of drives that did.
    pub(crate) fn follow(&mut self, next: Arc<LayoutView>) {
        if Arc::ptr_eq(&self.view, &next) {
            return;
        }
        let before = std::mem::replace(&mut self.view, Arc::clone(&next));
        let zones = changed_zones(&before, &next);
        for zone in zones {
            self.queue.row_changes(&next, zone, before.row(zone));
            self.ranked.remove(&zone);
            self.moving.remove(&zone);
            self.unconverted.remove(&zone);
            self.enter(zone, next.row(zone));
        }
        for drive in changed_drives(before.drives(), next.drives()) {
            self.queue.drive_changes(&next, drive);
        }
        if has_other_class(before.drives(), next.drives()) {
            let rows = next.rows().filter(|(_, row)| is_to_be_converted(next.drives(), row));
            self.unconverted = rows.map(|(zone, _)| zone).collect();
        }
    }

    /// Zones of the queue whose contents were not looked at yet.
    pub(crate) fn unranked(&self, count: usize) -> Vec<ZoneIndex> {
        let zones = self.queue.items().map(|item| item.zone);
        zones.filter(|zone| !self.ranked.contains(zone)).take(count).collect()
    }

    /// Takes in what a zone of the queue holds, as far as that is known.
    pub(crate) fn rank(&mut self, zone: ZoneIndex, holdings: Option<ZoneHoldings>) {
        self.ranked.insert(zone);
        if let Some(holdings) = holdings {
            self.queue.set_holdings(&self.view, zone, holdings);
        }
    }

    /// All that there is to do, in order: what lacks strips, what moves, what is to leave drives, what is to get
    /// another class, what moves for more even drives alone, and last what has lost too much for anything to be
    /// protected.
    pub(crate) fn works(&self) -> impl Iterator<Item = MoveWork> + '_ {
        let of_kind = |kind: RepairWork| {
            let items = self.queue.items().filter(move |item| item.work == kind);
            items.map(move |item| self.work(item.zone, item.exposure, kind))
        };
        let others = self.moving.iter().chain(&self.unconverted);
        // A zone that the queue has is there; those of the other lists lack nothing.
        let others = others.map(move |zone| self.work(*zone, NOT_EXPOSED, RepairWork::Drain));
        let moving = others.clone().filter(move |work| self.moving.contains(&work.zone));
        let (even, needed) = (moving.clone(), moving);
        let even = even.filter(move |work| self.is_rebalanced(work.zone));
        let moving = needed.filter(move |work| !self.is_rebalanced(work.zone));
        let converted = others.filter(move |work| !self.moving.contains(&work.zone));
        let lost: BTreeSet<_> = of_kind(RepairWork::Salvage).map(|work| work.zone).collect();
        let before = of_kind(RepairWork::Rebuild).chain(moving).chain(of_kind(RepairWork::Drain));
        let before = before.chain(converted).chain(even);
        let before = before.filter(move |work| !lost.contains(&work.zone));
        before.chain(of_kind(RepairWork::Salvage))
    }

    fn work(&self, zone: ZoneIndex, exposure: Exposure, kind: RepairWork) -> MoveWork {
        let (row, table) = (self.view.row(zone), self.view.drives());
        let why = match (&row.state, kind) {
            // One that lacks strips is to end whatever it began for.
            (
                RowState::Moving { why: MoveReason::Rebalance, .. },
                RepairWork::Rebuild | RepairWork::Salvage,
            ) => MoveReason::Rebuild,
            (RowState::Moving { why, .. }, _) => *why,
            (_, RepairWork::Rebuild | RepairWork::Salvage) => MoveReason::Rebuild,
            (_, RepairWork::Drain) if leaves_drive(table, row) => MoveReason::Drain,
            (_, RepairWork::Drain) => MoveReason::Conversion,
        };
        MoveWork { zone, why, exposure, is_salvage: kind == RepairWork::Salvage }
    }

    fn enter(&mut self, zone: ZoneIndex, row: &Row) {
        if matches!(row.state, RowState::Moving { .. }) {
            self.moving.insert(zone);
        }
        if is_to_be_converted(self.view.drives(), row) {
            self.unconverted.insert(zone);
        }
    }
}

/// What to do with a row of `view` for a work (MOVER-5: each state of a row has an answer here).
pub(crate) fn next_step(view: &LayoutView, work: &MoveWork, control: &RepairControl) -> MoveStep {
    let (row, table) = (view.row(work.zone), view.drives());
    let ask = |class: Option<ClassId>, why: MoveReason, avoid: Vec<DriveNumber>| {
        let prefer = avoid.iter().find_map(|drive| table.drive(*drive)?.successor());
        let change = Change::Move { zone: work.zone, why, class, avoid, prefer };
        MoveStep::Ask(Box::new(change))
    };
    match &row.state {
        RowState::Empty => MoveStep::Nothing,
        RowState::Still(set) => {
            let (avoid, lacks) = (drives_to_leave(table, set), !drives_lost(table, set).is_empty());
            let may_leave = lacks || !control.is_cancelled(MoveReason::Drain);
            if !avoid.is_empty() && may_leave {
                return ask(None, work.why, avoid);
            }
            if !is_as_new(table, set) && !control.is_cancelled(MoveReason::Conversion) {
                if let Some(new) = with_class(table, row, set) {
                    let (zone, expected) = (work.zone, row.clone());
                    return MoveStep::Ask(Box::new(Change::Row { zone, expected, new }));
                }
                return ask(Some(table.class), MoveReason::Conversion, Vec::new());
            }
            MoveStep::Nothing
        }
        RowState::Moving { from, to, why } => {
            if is_to_be_turned(table, row, control.is_cancelled(*why)) {
                let state = RowState::Moving { from: to.clone(), to: from.clone(), why: *why };
                let new = Row { tenancy: row.tenancy, state };
                let expected = row.clone();
                return MoveStep::Ask(Box::new(Change::Row { zone: work.zone, expected, new }));
            }
            if planted(Bug::CancelLeavesBoth) && is_turned(row) {
                return MoveStep::Nothing;
            }
            // A drive that failed meanwhile gets none of what moves; one that only leaves is left by the next move.
            let lost = drives_lost(table, to);
            if lost.is_empty() { MoveStep::Fill } else { ask(Some(to.class), *why, lost) }
        }
    }
}

/// The conversion of a row that lacks strips: what comes after its rebuild, and goes on where that finds no room.
pub(crate) fn conversion_of(
    view: &LayoutView,
    work: &MoveWork,
    control: &RepairControl,
) -> Option<Change> {
    let table = view.drives();
    let RowState::Still(set) = &view.row(work.zone).state else { return None };
    let is_other = set.class != table.class && !control.is_cancelled(MoveReason::Conversion);
    if !is_other || drives_lost(table, set).is_empty() {
        return None;
    }
    let (zone, why) = (work.zone, MoveReason::Rebuild);
    let avoid = drives_to_leave(table, set);
    Some(Change::Move { zone, why, class: Some(table.class), avoid, prefer: None })
}

/// The row with the class of new zones, where its strips are and lie as that has them already.
fn with_class(table: &DriveTable, row: &Row, set: &StripSet) -> Option<Row> {
    let (before, after) = (table.class_of(set.class)?, table.class_of(table.class)?);
    let is_same = before.shape == after.shape && set.form == StripForm::Striped;
    let set = StripSet { class: after.id, ..set.clone() };
    let all_fit = is_on(table, &set, after.kinds);
    (is_same && all_fit).then_some(Row { tenancy: row.tenancy, state: RowState::Still(set) })
}

/// Whether a move is to go back to where it came from (MOVER-5): it was cancelled, the class of new zones was turned
/// back, or no drive has to be left any more; and nothing lacks where it came from. Each move is turned once: what was
/// turned comes from the newer places.
fn is_to_be_turned(table: &DriveTable, row: &Row, is_cancelled: bool) -> bool {
    let RowState::Moving { from, to, why } = &row.state else { return false };
    // MOVER-7: of what was put before a place of `to` was lost and replaced, `to` lacks a strip, and of `from` nothing
    // would say so.
    let is_replaced = to.places.iter().any(|place| row.is_replaced(place));
    let may_turn = from.form == StripForm::Striped && drives_lost(table, from).is_empty();
    if is_turned(row) || is_replaced || !may_turn {
        return false;
    }
    let is_over = match why {
        MoveReason::Rebuild | MoveReason::CatchUp => false,
        MoveReason::Drain => drives_to_leave(table, from).is_empty(),
        MoveReason::Conversion => from.class == table.class && to.class != table.class,
        MoveReason::Rebalance | MoveReason::SlowDrive => false,
    };
    let may_go_back = !matches!(why, MoveReason::Rebuild | MoveReason::CatchUp);
    (is_cancelled && may_go_back) || is_over
}

/// Whether a row goes back: the places that came in last are those that it leaves.
fn is_turned(row: &Row) -> bool {
    let newest = |set: &StripSet| set.places.iter().map(|place| place.tenancy).max();
    match &row.state {
        RowState::Moving { from, to, .. } => newest(from) > newest(to),
        RowState::Empty | RowState::Still(_) => false,
    }
}

/// Whether a row may be completed: `to` lacks nothing, or no more than `from` does, where no other drive has room.
pub(crate) fn may_complete(view: &LayoutView, from: &StripSet, to: &StripSet) -> bool {
    let left = |set: &StripSet| {
        let lost = drives_lost(view.drives(), set).len();
        usize::from(parity_of(view, set)).checked_sub(lost)
    };
    let is_whole = drives_lost(view.drives(), to).is_empty();
    is_whole || (left(to).is_some() && left(to) >= left(from))
}

/// Drives of a set whose strips do not count any more.
pub(crate) fn drives_lost(table: &DriveTable, set: &StripSet) -> Vec<DriveNumber> {
    let drives = set.places.iter().map(|place| place.drive);
    drives.filter(|drive| !is_readable(table, *drive)).collect()
}

/// Those, and drives that leave.
fn drives_to_leave(table: &DriveTable, set: &StripSet) -> Vec<DriveNumber> {
    let stays = |drive: DriveNumber| {
        table.drive(drive).is_some_and(|record| match record.state {
            DriveState::Live => true,
            DriveState::Joining | DriveState::Leaving | DriveState::Failed | DriveState::Gone => {
                false
            }
        })
    };
    let drives = set.places.iter().map(|place| place.drive);
    drives.filter(|drive| !stays(*drive)).collect()
}

fn leaves_drive(table: &DriveTable, row: &Row) -> bool {
    row.target().is_some_and(|set| !drives_to_leave(table, set).is_empty())
}

fn is_to_be_converted(table: &DriveTable, row: &Row) -> bool {
    row.target().is_some_and(|set| !is_as_new(table, set))
}

/// Whether new zones get another class, or drives are of other kinds.
fn has_other_class(before: &DriveTable, next: &DriveTable) -> bool {
    let kind_of = |number: DriveNumber| next.drive(number).map(|drive| drive.kind);
    let mut drives = before.drives.iter();
    before.class != next.class
        || drives.any(|it| kind_of(it.number).is_some_and(|kind| kind != it.kind))
}

fn changed_drives(before: &DriveTable, next: &DriveTable) -> Vec<DriveNumber> {
    let state_of = |number: DriveNumber| before.drive(number).map(|drive| drive.state);
    let changed = next.drives.iter().filter(|drive| state_of(drive.number) != Some(drive.state));
    let gone = before.drives.iter().filter(|drive| next.drive(drive.number).is_none());
    changed.chain(gone).map(|drive| drive.number).collect()
}

/// Zones whose rows differ. Pages that two views share are one in memory.
fn changed_zones(before: &LayoutView, next: &LayoutView) -> Vec<ZoneIndex> {
    let mut known = before.pages().peekable();
    let mut zones = Vec::new();
    for page in next.pages() {
        while known.next_if(|known| known.page < page.page).is_some() {}
        let same = known.next_if(|known| known.page == page.page);
        if same.is_some_and(|same| std::ptr::eq(same, page)) {
            continue;
        }
        let all = (0..LayoutPage::ROWS).map(|row| ZoneIndex(page.first_zone().0 + row));
        zones.extend(all.filter(|zone| before.row(*zone) != next.row(*zone)));
    }
    zones
}

#[cfg(test)]
mod tests;
