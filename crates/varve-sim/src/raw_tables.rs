//! The tables of a redundant pool as they stand on raw media. Read with the decoders of stored bytes and nothing else
//! of what the pool is opened with, to judge that by it.

use varve_media::{SidedRoot, SimMedium, is_whole_side};
use varve_media_redundancy::format::{DriveState, DriveTable, JournalRecord, LayoutPage};
use varve_media_redundancy::{
    DriveNumber, HealthFacts, HealthReport, HistoryId, LayoutView, RepairQueue, ShardFacts,
};
use varve_types::{PoolId, ShardId};

use crate::drives::{DriveCondition, RedundantMedia, SimDrive};

/// Where version, length and contents stand in a side of a root.
const VERSION_AT: usize = 16;
const LENGTH_AT: usize = 40;
const CONTENTS_AT: usize = 64;

/// A version of a root, and what it holds.
struct RawRoot {
    version: u64,
    bytes: Vec<u8>,
}

/// One side of a root, where it is whole.
fn read_side(medium: &SimMedium, pool: PoolId, root: &SidedRoot, side: usize) -> Option<RawRoot> {
    let start = root.sides[side];
    let bytes = medium.visible(start..start + u64::from(root.slot_bytes));
    if !is_whole_side(pool, root.number.into(), &bytes) {
        return None;
    }
    let version = u64::from_le_bytes(bytes.get(VERSION_AT..VERSION_AT + 8)?.try_into().ok()?);
    let length = u32::from_le_bytes(bytes.get(LENGTH_AT..LENGTH_AT + 4)?.try_into().ok()?);
    let end = CONTENTS_AT + usize::try_from(length).ok()?;
    Some(RawRoot { version, bytes: bytes.get(CONTENTS_AT..end)?.to_vec() })
}

/// The newer side of a root on a drive.
fn read_root(drive: &SimDrive, pool: PoolId, root: &SidedRoot) -> Option<RawRoot> {
    let sides = (0..2).filter_map(|side| read_side(drive.meta(), pool, root, side));
    sides.max_by_key(|side| side.version)
}

/// Whether both sides of a root on a drive are whole and hold the same.
pub(crate) fn is_alike(drive: &SimDrive, pool: PoolId, root: &SidedRoot) -> bool {
    let sides = [0, 1].map(|side| read_side(drive.meta(), pool, root, side));
    match sides {
        [Some(a), Some(b)] => a.version == b.version && a.bytes == b.bytes,
        [None | Some(_), _] => false,
    }
}

/// The table that a drive holds; `None` where there is none yet, or none can be read.
pub(crate) fn table_on(drive: &SimDrive, pool: PoolId) -> Option<DriveTable> {
    let root = drive.superblock().drive_table();
    DriveTable::decode(pool, &read_root(drive, pool, &root)?.bytes).ok()
}

/// Whether `newer` follows `older`, or is of the same history and epoch.
pub(crate) fn follows(newer: &DriveTable, older: &DriveTable) -> bool {
    if newer.history == older.history {
        return newer.epoch >= older.epoch;
    }
    let earlier = newer.lineage.iter().find(|earlier| earlier.history == older.history);
    earlier.is_some_and(|earlier| earlier.ended >= older.epoch)
}

/// The drives that can be looked at, with their tables.
pub(crate) fn tables(media: &RedundantMedia, pool: PoolId) -> Vec<(usize, DriveTable)> {
    let readable = |drive: &SimDrive| match drive.condition() {
        DriveCondition::Well | DriveCondition::ReadOnly => true,
        DriveCondition::Failing
        | DriveCondition::Silent
        | DriveCondition::Absent
        | DriveCondition::Unopenable => false,
    };
    let drives = media.drives().iter().enumerate().filter(|(_, drive)| readable(drive));
    drives.filter_map(|(index, drive)| Some((index, table_on(drive, pool)?))).collect()
}

/// The tables of a pool, and the drives that are read by them.
pub(crate) struct RawLayout {
    /// The tables.
    pub view: LayoutView,
    /// Drives that the newest table reads and that are in order, by number.
    drives: Vec<(DriveNumber, usize)>,
}

impl RawLayout {
    /// The newest tables on drives that are in order, of a history where it is told. `None` while they contradict
    /// each other: a change is under way, or was cut off.
    pub(crate) fn read(
        media: &RedundantMedia,
        pool: PoolId,
        shards: u16,
        history: Option<HistoryId>,
    ) -> Option<Self> {
        let mut tables = tables(media, pool);
        tables.retain(|(_, table)| history.is_none_or(|history| table.history == history));
        let (_, newest) = tables
            .iter()
            .find(|(_, table)| tables.iter().all(|(_, other)| follows(table, other)))?;
        let drives = readable_drives(media, newest);
        Self::under(media, pool, shards, newest.clone(), drives)
    }

    /// Rows and journal records as `drives`, by number and index, have them, under a drive table that counts. `None`
    /// where they contradict each other.
    pub(crate) fn under(
        media: &RedundantMedia,
        pool: PoolId,
        shards: u16,
        table: DriveTable,
        drives: Vec<(DriveNumber, usize)>,
    ) -> Option<Self> {
        let live = || drives.iter().filter_map(|(_, at)| media.drives().get(*at));
        let newest_of = |root_of: &dyn Fn(&SimDrive) -> Option<SidedRoot>| {
            let found = live().filter_map(|drive| read_root(drive, pool, &root_of(drive)?));
            found.max_by_key(|root| root.version)
        };
        let pages = table.zones_max / LayoutPage::ROWS;
        let mut found_pages = Vec::new();
        for page in 0..pages {
            let root = newest_of(&|drive| Some(drive.superblock().layout_page(page)))?;
            if root.version > 0 {
                found_pages.push(LayoutPage::decode(pool, page, &root.bytes).ok()?);
            }
        }
        let mut journals = Vec::new();
        for shard in (0..shards).map(ShardId) {
            let root = newest_of(&|drive| drive.superblock().journal_record(shard).ok())?;
            journals.push(JournalRecord::decode(pool, shard, &root.bytes).ok()?);
        }
        let view = LayoutView::new(table, found_pages, journals).ok()?;
        Some(Self { view, drives })
    }

    /// Tables that are known otherwise.
    #[cfg(test)]
    pub(crate) fn of(media: &RedundantMedia, view: LayoutView) -> Self {
        Self { drives: readable_drives(media, view.drives()), view }
    }

    /// What health says by the tables, and by what shards say.
    pub(crate) fn health(&self, media: &RedundantMedia, shards: &[ShardFacts]) -> HealthReport {
        let has_roots = |(number, _): &&(DriveNumber, usize)| self.drive(media, *number).is_some();
        let root_drives: Vec<_> =
            self.drives.iter().filter(has_roots).map(|(number, _)| *number).collect();
        let shard_count = self.view.journals().count();
        HealthReport::of(&HealthFacts {
            view: &self.view,
            queue: &RepairQueue::of(&self.view),
            shard_count: u16::try_from(shard_count).expect("a few"),
            shards,
            root_drives: &root_drives,
            failing: &[],
            suspects: 0,
        })
    }

    /// The drive that a number stands for, where it is read and in order.
    pub(crate) fn drive<'a>(
        &self,
        media: &'a RedundantMedia,
        number: DriveNumber,
    ) -> Option<&'a SimDrive> {
        let (_, at) = self.drives.iter().find(|(known, _)| *known == number)?;
        media.drives().get(*at)
    }

    /// The drive that a number stands for, in whatever order it is.
    pub(crate) fn any_drive<'a>(
        &self,
        media: &'a RedundantMedia,
        number: DriveNumber,
    ) -> Option<&'a SimDrive> {
        let id = self.view.drives().drive(number)?.id.0;
        media.drives().iter().find(|drive| drive.superblock().drive_id == id)
    }
}

/// Drives that a table reads and that are in order, by number.
fn readable_drives(media: &RedundantMedia, table: &DriveTable) -> Vec<(DriveNumber, usize)> {
    let readable = table.drives.iter().filter(|record| record.state.is_readable());
    let found = readable.filter_map(|record| {
        let is_it = |drive: &SimDrive| {
            let is_well = drive.condition() == DriveCondition::Well;
            drive.superblock().drive_id == record.id.0 && is_well
        };
        Some((record.number, media.drives().iter().position(is_it)?))
    });
    found.collect()
}

/// Whether a drive is read and written by a table.
pub(crate) fn is_member(state: DriveState) -> bool {
    match state {
        DriveState::Live | DriveState::Leaving => true,
        DriveState::Joining | DriveState::Failed | DriveState::Gone => false,
    }
}
