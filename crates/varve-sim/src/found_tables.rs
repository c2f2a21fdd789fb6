//! The tables on the drives of a redundant pool that are there before an opening, and what the opening has to come to
//! by them: judged with raw media, before the pool is opened.

use varve_media_redundancy::format::DriveTable;
use varve_media_redundancy::{Epoch, HistoryId};
use varve_types::PoolId;

use crate::branches::TableHolder;
use crate::drives::{DriveCondition, RedundantMedia, SimDrive};
use crate::raw_tables::{follows, is_member, table_on, tables};

/// What the operator says to an opening.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct OpeningWish {
    /// To go on although something newer may exist.
    pub is_degraded: bool,
    /// Which of several histories counts.
    pub history: Option<HistoryId>,
}

/// What has to become of an opening to which nothing special is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpeningVerdict {
    /// All that the newest table knows of are there.
    Opens,
    /// Something newer may exist, more is missing than may be dropped, or a drive could not be looked at.
    Refuses,
    /// Drives went two ways.
    IsSplit,
    /// Either is right.
    IsFree,
}

/// The drives that are there before an opening.
pub(crate) struct FoundTables {
    /// What has to become of it.
    pub verdict: OpeningVerdict,
    /// Tables that no other one follows, one for each history.
    pub newest: Vec<DriveTable>,
    /// Drives with a table that reads them.
    readers: Vec<FoundReader>,
    /// How often drives had changed their condition then.
    changes: u64,
}

/// A drive whose own table reads it.
struct FoundReader {
    holder: TableHolder,
    history: HistoryId,
    epoch: Epoch,
}

impl FoundTables {
    /// Looks at them.
    pub(crate) fn look(media: &RedundantMedia, pool: PoolId) -> Self {
        let changes = media.changes();
        let found = tables(media, pool);
        let is_newest = |table: &DriveTable| {
            let mut others = found.iter().map(|(_, other)| other);
            others.all(|other| follows(table, other) || !follows(other, table))
        };
        let mut newest: Vec<DriveTable> = Vec::new();
        for (_, table) in found.iter().filter(|(_, table)| is_newest(table)) {
            if newest.iter().all(|known| known.history != table.history) {
                newest.push(table.clone());
            }
        }
        let readers = found.iter().filter_map(|(index, table)| {
            let id = media.drives().get(*index)?.superblock().drive_id;
            let mut records = table.drives.iter();
            let is_read = records.any(|it| it.id.0 == id && is_member(it.state));
            let DriveTable { history, epoch, .. } = *table;
            let is_dropped = is_dropped_elsewhere(media, pool, id, table);
            let holder = TableHolder { index: *index, is_dropped };
            is_read.then_some(FoundReader { holder, history, epoch })
        });
        let readers = readers.collect();
        let verdict = judge(media, &found, &newest);
        Self { verdict, newest, readers, changes }
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

    /// Whether no drive has changed its condition since.
    pub(crate) fn is_current(&self, media: &RedundantMedia) -> bool {
        media.changes() == self.changes
    }
}

/// Whether any drive, there or not, has a later table than a drive's that does not read that drive any more.
fn is_dropped_elsewhere(
    media: &RedundantMedia,
    pool: PoolId,
    id: [u8; 16],
    own: &DriveTable,
) -> bool {
    media.drives().iter().filter_map(|drive| table_on(drive, pool)).any(|other| {
        let reads = other.drives.iter().any(|it| it.id.0 == id && is_member(it.state));
        !reads && follows(&other, own)
    })
}

fn is_same(a: &DriveTable, b: &DriveTable) -> bool {
    a.history == b.history && a.epoch == b.epoch
}

fn judge(
    media: &RedundantMedia,
    found: &[(usize, DriveTable)],
    newest: &[DriveTable],
) -> OpeningVerdict {
    let table = match newest {
        [] => return OpeningVerdict::IsFree,
        [table] => table,
        [_, _, ..] => return OpeningVerdict::IsSplit, // OPEN-3
    };
    if found.iter().any(|(_, other)| is_same(other, table) && other != table) {
        return OpeningVerdict::IsFree; // Neither was acknowledged.
    }
    let members: Vec<_> = table.drives.iter().filter(|it| is_member(it.state)).collect();
    let at = |id: [u8; 16]| media.drives().iter().position(|it| it.superblock().drive_id == id);
    let indexes: Vec<_> = members.iter().filter_map(|record| at(record.id.0)).collect();
    let is_there = |index: &&usize| found.iter().any(|(found, _)| found == *index);
    let present = indexes.iter().filter(is_there).count();
    let missing = members.len() - present;
    let drops_max = usize::from(table.drops_max);
    let conditions =
        || indexes.iter().filter_map(|at| media.drives().get(*at)).map(SimDrive::condition);
    let is_unknown = |condition: DriveCondition| match condition {
        DriveCondition::Failing | DriveCondition::Silent | DriveCondition::Unopenable => true,
        DriveCondition::Well | DriveCondition::ReadOnly | DriveCondition::Absent => false,
    };
    if missing == 0 {
        let all_well = conditions().all(|condition| condition == DriveCondition::Well);
        return if all_well { OpeningVerdict::Opens } else { OpeningVerdict::IsFree };
    }
    // OPEN-2, KEEPER-2, OPEN-5
    if present <= drops_max || missing > drops_max || conditions().any(is_unknown) {
        return OpeningVerdict::Refuses;
    }
    OpeningVerdict::IsFree
}

/// Which of several histories an operator chooses.
pub(crate) fn choose_history(found: &FoundTables, at: usize) -> Option<HistoryId> {
    let at = at.checked_rem(found.newest.len())?;
    found.newest.get(at).map(|table| table.history)
}
