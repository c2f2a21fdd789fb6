//! What was acknowledged, and to whom: the judge of openings. It shares nothing with the crate but types.

use std::collections::{BTreeMap, BTreeSet};

use varve_media_redundancy::format::{DriveState, DriveTable, Row, RowState};
use varve_media_redundancy::{DriveId, HistoryId, LayoutView, ZoneIndex};

type Id = [u8; 16];

/// What a change that was not answered may have done.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    /// A row that the keeper chooses.
    AnyRow { zone: u32 },
    /// This row.
    Row { zone: u32, row: Row },
    /// A root.
    Root { bytes: Vec<u8> },
    /// The drive table alone.
    Drives,
}

/// What was acknowledged in one history.
#[derive(Clone, Default)]
struct Line {
    epoch: u64,
    given_up: BTreeSet<Id>,
    removed: BTreeSet<Id>,
    rows: BTreeMap<u32, Row>,
    root: Option<(u64, Vec<u8>)>,
    pending: Option<Pending>,
}

/// The register.
#[derive(Default)]
pub(crate) struct Register {
    lines: BTreeMap<Id, Line>,
    /// Histories that openings were given, should they need one.
    drawn: BTreeSet<Id>,
    /// By drive, the newest table that was acknowledged with it.
    held: BTreeMap<Id, (Id, u64)>,
}

/// What an opening was given.
pub(crate) struct OpeningFacts<'a> {
    /// Identities of drives that were there.
    pub(crate) present: &'a [DriveId],
    /// Whether the operator chose a history.
    pub(crate) has_choice: bool,
}

impl Register {
    pub(crate) fn draw(&mut self, history: HistoryId) {
        self.drawn.insert(history.0);
    }

    /// A drive was cleared.
    pub(crate) fn forget(&mut self, drive: DriveId) {
        self.held.remove(&drive.0);
    }

    pub(crate) fn begin(&mut self, view: &LayoutView, pending: Pending) {
        if let Some(line) = self.lines.get_mut(&view.drives().history.0) {
            line.pending = Some(pending);
        }
    }

    /// What is in a view was acknowledged.
    pub(crate) fn acknowledge(&mut self, view: &LayoutView) {
        let table = view.drives();
        let line = self.lines.entry(table.history.0).or_default();
        line.epoch = table.epoch.0;
        line.given_up = given_up(table);
        line.removed = ids_to_go(table);
        line.rows = all_rows(view);
        line.pending = None;
        for drive in table.drives.iter().filter(|drive| is_read(drive.state)) {
            self.held.insert(drive.id.0, (table.history.0, table.epoch.0));
        }
    }

    pub(crate) fn acknowledge_root(&mut self, view: &LayoutView, version: u64, bytes: Vec<u8>) {
        if let Some(line) = self.lines.get_mut(&view.drives().history.0) {
            line.root = Some((version, bytes));
            line.pending = None;
        }
    }

    /// Compares what an opening found.
    pub(crate) fn check(&self, view: &LayoutView, facts: &OpeningFacts<'_>) -> Result<(), String> {
        let table = view.drives();
        if !facts.has_choice {
            self.check_present(table, facts.present)?;
        }
        let Some(line) = self.lines.get(&table.history.0) else {
            let is_drawn = self.drawn.contains(&table.history.0);
            return if is_drawn { Ok(()) } else { Err(format!("unknown {}", table.history)) };
        };
        if table.epoch.0 < line.epoch {
            return Err(format!("epoch {} after {} was acknowledged", table.epoch, line.epoch));
        }
        let alive = table.drives.iter().filter(|it| is_written(it.state));
        if let Some(drive) = alive.into_iter().find(|it| line.given_up.contains(&it.id.0)) {
            return Err(format!("drive {} was given up, and is there again", drive.number));
        }
        let removed = ids_to_go(table);
        let is_forgotten = line.removed.iter().any(|drive| !removed.contains(drive));
        if is_forgotten && !matches!(line.pending, Some(Pending::Drives)) {
            return Err("a drive was to go, and nobody knows that any more".to_owned());
        }
        let found = all_rows(view);
        let zones: BTreeSet<_> = found.keys().chain(line.rows.keys()).copied().collect();
        zones.into_iter().try_for_each(|zone| line.check_row(zone, found.get(&zone)))
    }

    /// No drive that is there knows a table that was acknowledged, and that what counts does not follow.
    fn check_present(&self, table: &DriveTable, present: &[DriveId]) -> Result<(), String> {
        for drive in present {
            let Some((history, epoch)) = self.held.get(&drive.0) else { continue };
            let is_own = *history == table.history.0 && *epoch <= table.epoch.0;
            let mut lineage = table.lineage.iter();
            if is_own || lineage.any(|it| it.history.0 == *history && it.ended.0 >= *epoch) {
                continue;
            }
            let (history, known) = (HistoryId(*history), epoch);
            return Err(format!(
                "drive {drive} has epoch {known} of {history}, which {} of {} does not follow",
                table.epoch, table.history
            ));
        }
        Ok(())
    }

    pub(crate) fn check_root(
        &self,
        view: &LayoutView,
        version: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let Some(line) = self.lines.get(&view.drives().history.0) else { return Ok(()) };
        let Some((known, contents)) = &line.root else { return Ok(()) };
        let is_known = version == *known && bytes == contents;
        let is_pending = version == *known + 1
            && matches!(&line.pending, Some(Pending::Root { bytes: pending }) if pending == bytes);
        if is_known || is_pending {
            return Ok(());
        }
        Err(format!("root is at version {version}, and {known} was acknowledged"))
    }

    /// The operator keeps one history: what the others acknowledged is given up.
    pub(crate) fn choose(&mut self, history: HistoryId) {
        let others = self.lines.keys().filter(|id| **id != history.0).copied();
        self.drawn.extend(others.collect::<Vec<_>>());
        self.lines.retain(|id, _| *id == history.0);
    }

    /// Histories that there may be.
    pub(crate) fn histories(&self) -> Vec<HistoryId> {
        let all: BTreeSet<_> = self.lines.keys().chain(&self.drawn).copied().collect();
        all.into_iter().map(HistoryId).collect()
    }
}

impl Line {
    fn check_row(&self, zone: u32, found: Option<&Row>) -> Result<(), String> {
        let known = self.rows.get(&zone);
        if known == found {
            return Ok(());
        }
        let before = known.map_or(0, |row| row.tenancy.get());
        let is_pending = match (&self.pending, found) {
            (Some(Pending::AnyRow { zone: pending }), Some(row)) => {
                *pending == zone && row.tenancy.get() == before + 1
            }
            (Some(Pending::Row { zone: pending, row: expected }), Some(row)) => {
                *pending == zone && expected == row
            }
            (_, _) => false,
        };
        if is_pending {
            return Ok(());
        }
        Err(format!("zone {zone} has {found:?}, and {known:?} was acknowledged"))
    }
}

fn all_rows(view: &LayoutView) -> BTreeMap<u32, Row> {
    let rows = view.rows().filter(|(_, row)| row.state != RowState::Empty);
    rows.map(|(ZoneIndex(zone), row)| (zone, row.clone())).collect()
}

fn is_read(state: DriveState) -> bool {
    matches!(state, DriveState::Live | DriveState::Leaving)
}

fn is_written(state: DriveState) -> bool {
    is_read(state) || state == DriveState::Joining
}

fn ids_to_go(table: &DriveTable) -> BTreeSet<Id> {
    let drives = table.drives.iter().filter(|drive| drive.removal.is_some());
    drives.map(|drive| drive.id.0).collect()
}

fn given_up(table: &DriveTable) -> BTreeSet<Id> {
    let drives = table.drives.iter().filter(|drive| !is_written(drive.state));
    drives.map(|drive| drive.id.0).collect()
}
