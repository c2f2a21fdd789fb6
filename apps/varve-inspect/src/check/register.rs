//! The register of names against the catalogues of all cells: a volume can be reached only where the register says that
//! it is.

use std::collections::{BTreeMap, BTreeSet};

use varve_client::Result;
use varve_media_rados::EntryAsIs;
use varve_register::{Name, NameKind};
use varve_types::{CellId, ErrorKind};

use super::finding::{CheckFinding, Severity};
use super::report::CheckReport;

const KEEP: &str = "leave what is stored as it is and report this";
const EMPTY: &str = "nothing: who creates or deletes that name takes it over";
const NOT_FOUND: &str =
    "clients do not find it there: serve the pool, clone it under another name, and delete it";

/// What the catalogue of a cell says.
pub(super) struct NamesOfCell {
    pub(super) cell: Option<CellId>,
    /// The whole names of its volumes; `None` when there may be others.
    pub(super) volumes: Option<BTreeSet<String>>,
}

/// Compares the entries with what cells have.
pub(super) fn judge(
    entries: Result<Vec<(Name, EntryAsIs)>>,
    cells: &[NamesOfCell],
    report: &mut CheckReport,
) {
    if cells.iter().all(|names| names.cell.is_none()) {
        return; // A pool of one cell has no register.
    }
    let entries = match entries {
        Ok(entries) => entries,
        Err(failure) => return report.add(CheckFinding::error("names", failure.what(), KEEP)),
    };
    let (mut entered, mut empty) = (BTreeMap::new(), Vec::new());
    for (name, entry) in entries {
        match entry {
            Ok(Some(entry)) => {
                empty.extend(judge_entry(&name, entry.cell, cells));
                if name.sort == NameKind::Volume {
                    entered.insert(name.full, Some(entry.cell));
                }
            }
            Ok(None) => {}
            Err(error) => {
                let code =
                    if error.kind() == ErrorKind::Corrupt { "name_damaged" } else { "names" };
                report.add(CheckFinding::error(code, error.to_string(), KEEP));
                if name.sort == NameKind::Volume {
                    entered.insert(name.full, None); // It was told.
                }
            }
        }
    }
    for NamesOfCell { cell, volumes } in cells {
        for volume in volumes.iter().flatten() {
            if let Some(what) = misplaced(volume, *cell, entered.get(volume)) {
                report.add(in_cell(CheckFinding::error("name_elsewhere", what, NOT_FOUND), *cell));
            }
        }
    }
    empty.into_iter().for_each(|finding| report.add(finding)); // Behind what is worse: findings are bounded.
}

/// What is wrong with where the register says that a volume is.
fn misplaced(
    volume: &str,
    cell: Option<CellId>,
    entered: Option<&Option<CellId>>,
) -> Option<String> {
    match entered {
        Some(None) => None,
        Some(there) if *there == cell => None,
        Some(Some(there)) => {
            Some(format!("the register of names says that volume {volume} is in cell {}", there.0))
        }
        None => Some(format!("the register of names does not have volume {volume}")),
    }
}

/// An entry whose cell does not have the name, or that no cell has.
fn judge_entry(name: &Name, cell: CellId, cells: &[NamesOfCell]) -> Option<CheckFinding> {
    let note = |what| CheckFinding::new(Severity::Note, "name_empty", what, EMPTY);
    let Some(names) = cells.iter().find(|names| names.cell == Some(cell)) else {
        let what =
            format!("the register says that {name} is in cell {}, which there is not", cell.0);
        return Some(note(what));
    };
    let is_there = match (name.sort, &names.volumes) {
        (NameKind::Volume, Some(volumes)) => volumes.contains(&name.full),
        (NameKind::Volume, None) => true, // Nobody knows.
        (NameKind::Bucket, _) => false,   // Buckets have none.
    };
    let what = format!("the register keeps {name} for a cell that does not have it");
    (!is_there).then(|| in_cell(note(what), Some(cell)))
}

fn in_cell(finding: CheckFinding, cell: Option<CellId>) -> CheckFinding {
    CheckFinding { cell: cell.map(|cell| cell.0), ..finding }
}

#[cfg(test)]
mod tests {
    use varve_register::{Entry, Error, Stamp};
    use varve_types::PoolId;

    use super::*;

    fn name(full: &str) -> Name {
        Name { sort: NameKind::Volume, full: full.to_owned() }
    }

    fn entry(full: &str, cell: u16) -> (Name, EntryAsIs) {
        let entry = Entry { pool: PoolId([7; 16]), cell: CellId(cell), stamp: Stamp(1) };
        (name(full), Ok(Some(entry)))
    }

    fn cell(number: u16, volumes: Option<&[&str]>) -> NamesOfCell {
        let volumes = volumes.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        NamesOfCell { cell: Some(CellId(number)), volumes }
    }

    fn judged(
        entries: Vec<(Name, EntryAsIs)>,
        cells: &[NamesOfCell],
    ) -> Vec<(&'static str, Option<u16>)> {
        let mut report = CheckReport::default();
        judge(Ok(entries), cells, &mut report);
        report.findings.iter().map(|finding| (finding.code, finding.cell)).collect()
    }

    #[test]
    fn what_agrees_is_no_finding() {
        let cells = [cell(0, Some(&["default/a"])), cell(1, Some(&["default/b"]))];
        assert_eq!(judged(vec![entry("default/a", 0), entry("default/b", 1)], &cells), []);
        let whole =
            NamesOfCell { cell: None, volumes: Some(BTreeSet::from(["default/a".to_owned()])) };
        assert_eq!(judged(Vec::new(), &[whole]), [], "a pool of one cell has no register");
    }

    #[test]
    fn volumes_that_clients_do_not_find_are_errors() {
        let cells = [cell(0, Some(&["default/a", "default/c"])), cell(1, Some(&[]))];
        let found = judged(vec![entry("default/a", 1)], &cells);
        assert_eq!(
            found,
            [("name_elsewhere", Some(0)), ("name_elsewhere", Some(0)), ("name_empty", Some(1))]
        );
    }

    #[test]
    fn entries_without_a_volume_are_notes_where_all_volumes_are_known() {
        let cells = [cell(0, Some(&[])), cell(1, None)];
        let bucket = Name { sort: NameKind::Bucket, full: "pictures".to_owned() };
        let mut entries = vec![entry("default/a", 0), entry("default/b", 1), entry("default/c", 5)];
        entries.push((bucket, entry("", 0).1));
        let found = judged(entries, &cells);
        assert_eq!(found, [("name_empty", Some(0)), ("name_empty", None), ("name_empty", Some(0))]);
    }

    #[test]
    fn a_damaged_entry_is_one_error_whatever_cell_has_the_name() {
        let what = "entry of a name";
        let cause = varve_stdx::DecodeError::ReservedNotZero { what };
        let damaged = Error::Damaged { name: name("default/a"), cause };
        let found =
            judged(vec![(name("default/a"), Err(damaged))], &[cell(0, Some(&["default/a"]))]);
        assert_eq!(found, [("name_damaged", None)]);
    }
}
