//! Which of several drive tables counts: O1, as a pure function.
//!
//! OPEN-3. Histories that have split do not join: of two tables neither of whose histories is in the lineage of the
//!     other one's, nobody but the operator says which counts.

use varve_media::planted::{Bug, planted};
use varve_types::UnixMillis;

use crate::format::{DriveState, DriveTable};
use crate::ids::{DriveId, HistoryId};

/// The tables that a drive holds, on its two sides.
pub(crate) struct DriveTables {
    pub(crate) id: DriveId,
    pub(crate) path: String,
    pub(crate) tables: Vec<DriveTable>,
}

/// Why no table counts.
pub(crate) enum NoTable {
    /// No drive has one.
    None,
    /// Histories have split; what they are, as text.
    Split(String),
}

/// Whether a table is newer than another one, and of the same line.
pub(crate) fn follows(later: &DriveTable, earlier: &DriveTable) -> bool {
    if later.history == earlier.history {
        return later.epoch > earlier.epoch;
    }
    let mut lineage = later.lineage.iter();
    lineage.any(|it| it.history == earlier.history && it.ended >= earlier.epoch)
}

/// Whether a drive that holds a table may have one that counts instead: it is the same, an older one, or one that an
/// opening left that was cut off.
pub(crate) fn is_of_line(counts: &DriveTable, held: &DriveTable) -> bool {
    follows(counts, held) || (counts.history == held.history && counts.epoch == held.epoch)
}

/// The table that counts (RFC 0026, 3.6), of what all present drives hold.
pub(crate) fn newest(
    drives: &[DriveTables],
    history: Option<HistoryId>,
) -> Result<DriveTable, NoTable> {
    let all: Vec<&DriveTable> = drives.iter().flat_map(|drive| &drive.tables).collect();
    let is_last = |table: &&DriveTable| all.iter().all(|other| !follows(other, table));
    let mut last: Vec<&DriveTable> = Vec::new();
    for table in all.iter().copied().filter(is_last) {
        if !last.contains(&table) {
            last.push(table);
        }
    }
    let Some(first) = last.first() else { return Err(NoTable::None) };
    let is_split = last.iter().any(|table| table.history != first.history);
    match history {
        Some(history) if last.iter().any(|table| table.history == history) => {
            last.retain(|table| table.history == history);
        }
        Some(_) => return Err(NoTable::Split(describe(&last, drives))),
        None if is_split && planted(Bug::HistoriesJoin) => {
            let latest = last.iter().map(|table| table.epoch).max();
            last.retain(|table| Some(table.epoch) == latest);
        }
        None if is_split => return Err(NoTable::Split(describe(&last, drives))), // OPEN-3
        None => {}
    }
    Ok(of_one_epoch(&last, drives).clone())
}

/// Of tables of one history and epoch, which openings left that were cut off, the one that all present drives hold that
/// it calls live or leaving. If there is none, any: none was acknowledged. The same drives give the same one.
fn of_one_epoch<'a>(last: &[&'a DriveTable], drives: &[DriveTables]) -> &'a DriveTable {
    let is_whole = |table: &DriveTable| {
        let readable = table.drives.iter().filter(|record| record.state.is_readable());
        let mut present = readable.filter_map(|it| drives.iter().find(|drive| drive.id == it.id));
        present.all(|drive| drive.tables.contains(table))
    };
    let by_bytes = |table: &&DriveTable| (!is_whole(table), table.encode());
    last.iter().copied().min_by_key(by_bytes).expect("the caller has one")
}

/// Each history, with its epoch, date and drives.
fn describe(last: &[&DriveTable], drives: &[DriveTables]) -> String {
    let one = |table: &&DriveTable| {
        let holds = |drive: &&DriveTables| drive.tables.contains(table);
        let paths: Vec<_> = drives.iter().filter(holds).map(|drive| drive.path.as_str()).collect();
        let (history, epoch) = (table.history, table.epoch);
        let since = UnixMillis(since_unix_ms(table));
        format!("history {history} (epoch {epoch}, of {since}, {})", paths.join(", "))
    };
    last.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// When the state of a drive changed last, in ms since 1970.
pub(crate) fn since_unix_ms(table: &DriveTable) -> u64 {
    table.drives.iter().map(|record| record.since_unix_ms).max().unwrap_or(0)
}

/// Whether a drive in a state is read.
pub(crate) fn is_read(state: DriveState) -> bool {
    state.is_readable() || planted(Bug::StaleRead) // OPEN-1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::EarlierHistory;
    use crate::ids::Epoch;
    use crate::test_pool::{table, with_state};

    fn held(id: u8, tables: &[&DriveTable]) -> DriveTables {
        let tables = tables.iter().map(|table| (*table).clone()).collect();
        DriveTables { id: DriveId([id; 16]), path: id.to_string(), tables }
    }

    /// The same table at a later epoch.
    fn at(base: &DriveTable, epoch: u64) -> DriveTable {
        DriveTable { epoch: Epoch(epoch), ..base.clone() }
    }

    /// The first table of another history that began after `base`.
    fn fork(base: &DriveTable, history: u8) -> DriveTable {
        let mut next = at(base, base.epoch.0 + 1);
        next.lineage.insert(0, EarlierHistory { history: base.history, ended: base.epoch });
        next.history = HistoryId([history; 16]);
        next
    }

    fn chosen(drives: &[DriveTables]) -> Option<DriveTable> {
        newest(drives, None).ok()
    }

    #[test]
    fn the_higher_epoch_of_a_history_counts_whoever_has_it() {
        let old = table(&[64; 3]);
        let new = at(&old, 7);
        let drives = [held(0, &[&old]), held(1, &[&old, &new]), held(2, &[])];
        assert_eq!(chosen(&drives), Some(new));
        assert!(matches!(newest(&[held(0, &[])], None), Err(NoTable::None)));
    }

    #[test]
    fn a_history_counts_before_the_one_that_it_went_on_from() {
        let old = at(&table(&[64; 2]), 5);
        let new = fork(&old, 9);
        assert_eq!(chosen(&[held(0, &[&old]), held(1, &[&new])]), Some(new.clone()));
        let later = fork(&at(&new, 8), 10);
        assert_eq!(chosen(&[held(0, &[&old]), held(1, &[&later])]), Some(later));
    }

    #[test]
    fn histories_that_split_do_not_join() {
        let old = at(&table(&[64; 2]), 5);
        let (one, other) = (fork(&old, 9), fork(&old, 10));
        let drives = [held(0, &[&one]), held(1, &[&other])];
        assert!(matches!(newest(&drives, None), Err(NoTable::Split(_)))); // OPEN-3
        assert_eq!(newest(&drives, Some(other.history)).ok(), Some(other));
        assert!(matches!(newest(&drives, Some(old.history)), Err(NoTable::Split(_))));
        let went_on = at(&old, 6);
        let drives = [held(0, &[&one]), held(1, &[&went_on])];
        assert!(matches!(newest(&drives, None), Err(NoTable::Split(_))));
    }

    #[test]
    fn of_two_tables_of_an_epoch_the_one_counts_that_its_drives_hold() {
        let base = table(&[64; 4]);
        let number = |drive: u8| crate::ids::DriveNumber::new(drive).unwrap();
        let whole = with_state(&base, number(0), DriveState::Failed);
        let part = with_state(&base, number(3), DriveState::Failed);
        // The second one was cut off on drive 0, and the first one was acknowledged without it.
        let drives =
            [held(0, &[&part]), held(1, &[&whole]), held(2, &[&whole]), held(3, &[&whole])];
        assert_eq!(chosen(&drives), Some(whole));
    }
}
