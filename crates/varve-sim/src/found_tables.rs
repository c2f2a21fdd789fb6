//! The tables on the drives of a redundant pool that are there before an opening, and what the opening has to come to
//! by them: judged with raw media, before the pool is opened.
//!
//! SIM-OPENINGS-1. An opening succeeds where the rules O1 to O3 of RFC 0026 let it, and is refused everywhere else.
//!     Only what happens to drives while it goes on excuses another outcome, and then it is tried again.

use varve_media_redundancy::format::{DriveState, DriveTable, JournalCopy, StripSet};
use varve_media_redundancy::{DriveId, DriveNumber, Epoch, HistoryId};
use varve_reactor::Nanos;

use crate::branches::TableHolder;
use crate::drives::{DriveCondition, RedundantMedia, SimDrive};
use crate::raw_tables::{RawLayout, follows, is_member, table_on};
use crate::world::World;

/// What the operator says to an opening.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct OpeningWish {
    /// To go on although something newer may exist.
    pub is_degraded: bool,
    /// Which of several histories counts.
    pub history: Option<HistoryId>,
}

/// What has to become of an opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpeningVerdict {
    /// Nothing newer can be, or the operator says that it may, and what is there suffices.
    Opens,
    /// Something newer may exist, more is missing than may be dropped, or a drive may not be looked at.
    Refuses,
    /// Drives went two ways, of which the operator has chosen none.
    IsSplit,
    /// Either is right.
    IsFree,
}

/// The drives that are there before an opening.
pub(crate) struct FoundTables {
    /// What has to become of it.
    pub verdict: OpeningVerdict,
    /// Whether a drive is there that this process may not look at.
    pub has_unknown: bool,
    /// Tables that no other one follows: one for each history, but for those that openings left that were cut off.
    pub newest: Vec<DriveTable>,
    /// Drives with a table that reads them.
    readers: Vec<FoundReader>,
    /// How often drives had changed their condition then.
    changes: u64,
    /// Whether a drive was about to fail or to stop.
    is_disturbed: bool,
}

/// A drive whose own table reads it.
struct FoundReader {
    holder: TableHolder,
    history: HistoryId,
    epoch: Epoch,
}

impl FoundTables {
    /// Looks at them.
    pub(crate) fn look(world: &World, now: Nanos, wish: &OpeningWish) -> Self {
        let (media, pool) = (world.redundant(), world.config.pool());
        let drives = || media.drives().iter();
        let is_well = |drive: &SimDrive| drive.condition() == DriveCondition::Well;
        let indexed = drives().enumerate().filter(|(_, drive)| is_well(drive));
        let found = indexed.filter_map(|(index, drive)| Some((index, table_on(drive, pool)?)));
        let found: Vec<_> = found.collect();
        let newest = newest_of(&found);
        let all: Vec<_> = drives().filter_map(|drive| table_on(drive, pool)).collect();
        let read = found.iter().filter_map(|(index, table)| reader(world, *index, table, &all));
        let readers = read.collect();
        // OPEN-5: what answers with errors, or not at all, is as good as absent. Nothing is read before a flush.
        let is_unknown = |drive: &SimDrive| drive.condition() == DriveCondition::Unopenable;
        let has_unknown = drives().any(is_unknown);
        let judge = OpeningJudge { world, wish, found: &found, has_unknown };
        Self {
            verdict: judge.verdict(&newest),
            has_unknown,
            newest,
            readers,
            changes: media.changes(),
            is_disturbed: drives().any(|drive| drive.is_disturbed(now)),
        }
    }

    /// Drives that hold, and are read by, the newest table from which an opening went on: `opened` is what that made of
    /// it.
    pub(crate) fn holders(&self, opened: &DriveTable) -> Vec<TableHolder> {
        let earlier = opened.lineage.first().map(|earlier| earlier.history);
        let of = |history| self.newest.iter().find(|table| Some(table.history) == history);
        let Some(base) = of(Some(opened.history)).or_else(|| of(earlier)) else {
            return Vec::new();
        };
        let has_base = |it: &&FoundReader| it.history == base.history && it.epoch == base.epoch;
        self.readers.iter().filter(has_base).map(|it| it.holder).collect()
    }

    /// Whether nothing has happened to drives since, nor was about to, so that the verdict holds.
    pub(crate) fn is_certain(&self, media: &RedundantMedia) -> bool {
        !self.is_disturbed && media.changes() == self.changes
    }

    /// The histories that an operator can choose between, beginning with number `at`.
    pub(crate) fn histories(&self, at: usize) -> Vec<HistoryId> {
        let mut all: Vec<_> = self.newest.iter().map(|table| table.history).collect();
        all.dedup();
        if !all.is_empty() {
            let first = at % all.len();
            all.rotate_left(first);
        }
        all
    }
}

fn newest_of(found: &[(usize, DriveTable)]) -> Vec<DriveTable> {
    let is_newest = |table: &DriveTable| {
        let mut others = found.iter().map(|(_, other)| other);
        others.all(|other| follows(table, other) || !follows(other, table))
    };
    let mut newest: Vec<DriveTable> = Vec::new();
    for (_, table) in found.iter().filter(|(_, table)| is_newest(table)) {
        if !newest.contains(table) {
            newest.push(table.clone());
        }
    }
    newest.sort_by_key(|table| table.history.0);
    newest
}

/// A drive with a table that reads it. `all` are the tables of all drives, there or not.
fn reader(
    world: &World,
    index: usize,
    table: &DriveTable,
    all: &[DriveTable],
) -> Option<FoundReader> {
    let id = DriveId(world.redundant().drives().get(index)?.superblock().drive_id);
    let is_read = table.drives.iter().any(|it| it.id == id && is_member(it.state));
    let DriveTable { history, epoch, .. } = *table;
    let is_dropped = world.on_redundant()?.branches().is_dropped(index, id, all);
    let holder = TableHolder { index, is_dropped };
    is_read.then_some(FoundReader { holder, history, epoch })
}

/// Judges an opening before it begins.
struct OpeningJudge<'a> {
    world: &'a World,
    wish: &'a OpeningWish,
    /// The tables of drives that work, by index.
    found: &'a [(usize, DriveTable)],
    has_unknown: bool,
}

/// The drives that a table reads.
struct TableMembers {
    /// Those that can be used, by number and index.
    present: Vec<(DriveNumber, usize)>,
    missing: Vec<DriveNumber>,
}

impl OpeningJudge<'_> {
    fn verdict(&self, newest: &[DriveTable]) -> OpeningVerdict {
        let first = newest.first().map(|table| table.history);
        let is_split = newest.iter().any(|table| Some(table.history) != first);
        if is_split && self.wish.history.is_none() {
            return OpeningVerdict::IsSplit; // OPEN-3
        }
        let counts = |table: &&DriveTable| self.wish.history.is_none_or(|it| it == table.history);
        // Of one epoch there are several if openings were cut off; which counts is the opening's to say.
        let mut verdicts = newest.iter().filter(counts).map(|table| self.verdict_by(table));
        let Some(first) = verdicts.next() else { return OpeningVerdict::Refuses };
        if verdicts.all(|other| other == first) { first } else { OpeningVerdict::IsFree }
    }

    /// What the rules say where `table` counts.
    fn verdict_by(&self, table: &DriveTable) -> OpeningVerdict {
        let members = self.members(table);
        if members.missing.is_empty() {
            return OpeningVerdict::Opens;
        }
        let is_degraded = self.wish.is_degraded;
        // OPEN-5, KEEPER-2, and what would be lost with drives that are missing
        let is_closed = self.has_unknown && !is_degraded
            || members.present.is_empty()
            || drops_too_many(table, &members)
            || self.loses_what_is_there(table, &members);
        let is_sure = members.present.len() > usize::from(table.drops_max); // OPEN-2
        match !is_closed && (is_sure || is_degraded) {
            true => OpeningVerdict::Opens,
            false => OpeningVerdict::Refuses,
        }
    }

    /// Drives that the table reads are present if they work and did not go on apart.
    fn members(&self, table: &DriveTable) -> TableMembers {
        let drives = self.world.redundant().drives();
        let index_of = |id: [u8; 16]| {
            let mut usable = self.found.iter().filter(|(_, held)| follows(table, held));
            usable.find(|(index, _)| drives[*index].superblock().drive_id == id)
        };
        let mut members = TableMembers { present: Vec::new(), missing: Vec::new() };
        for record in table.drives.iter().filter(|record| is_member(record.state)) {
            match index_of(record.id.0) {
                Some((index, _)) => members.present.push((record.number, *index)),
                None => members.missing.push(record.number),
            }
        }
        members
    }

    /// Whether a zone or a journal would be lost with what is missing that is not lost yet.
    fn loses_what_is_there(&self, table: &DriveTable, members: &TableMembers) -> bool {
        let (media, config) = (self.world.redundant(), &self.world.config);
        let (pool, shards, present) = (config.pool(), config.shards, members.present.clone());
        let layout = RawLayout::under(media, pool, shards, table.clone(), present);
        let Some(RawLayout { view, .. }) = layout else { return false };
        let is_missing = |drive: &DriveNumber| members.missing.contains(drive);
        let is_read =
            |drive: &DriveNumber| table.drive(*drive).is_some_and(|record| is_member(record.state));
        let loses = |set: &StripSet| {
            let spare = usize::from(view.class_of(set).shape.parity());
            let drives = || set.places.iter().map(|place| place.drive);
            let lost = drives().filter(|drive| !is_read(drive)).count();
            lost <= spare && lost + drives().filter(is_missing).count() > spare
        };
        let has_last = |copies: &[&JournalCopy]| {
            !copies.is_empty() && copies.iter().all(|copy| is_missing(&copy.drive))
        };
        let last_copies = view.journals().any(|journal| {
            let copies: Vec<_> = journal.current().filter(|copy| is_read(&copy.drive)).collect();
            has_last(&copies)
        });
        last_copies || view.rows().any(|(_, row)| row.sets().any(loses))
    }
}

/// Whether the first table of an opening would drop more drives than one that follows a table which is durable
/// everywhere may (KEEPER-2).
fn drops_too_many(table: &DriveTable, members: &TableMembers) -> bool {
    let is_unsettled = |state: DriveState| match state {
        DriveState::Failed | DriveState::Gone => true,
        DriveState::Live | DriveState::Joining | DriveState::Leaving => false,
    };
    let dropped = table
        .drives
        .iter()
        .filter(|record| is_unsettled(record.state) && record.since_epoch > table.settled_epoch);
    dropped.count() + members.missing.len() > usize::from(table.drops_max)
}
