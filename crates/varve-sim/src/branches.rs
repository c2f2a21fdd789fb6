//! What must be on the drives of a pool that go apart and return: snapshots of the models, and for each drive the last
//! opening in which it took part.
//!
//! SIM-BRANCHES-1. An opening goes on from the last one in which a holder of the newest table took part: all that was
//!     acknowledged then is there, and nothing of those that the holders missed.
//! SIM-BRANCHES-2. A drive that failed in between has what was acknowledged until then, if any drive has a table that
//!     says so. While none has, nothing was acknowledged without it: it must have everything. Whether one says so goes
//!     by the table of the opening in which the drive took part: its own may be of a history that it began later.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use varve_media_redundancy::DriveId;
use varve_media_redundancy::format::DriveTable;

use crate::model::{ShardModel, ShardSnapshot};
use crate::raw_tables::{follows, is_member};

/// A moment in the life of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct BranchPoint {
    /// Counts openings.
    opening: u64,
    /// Whether it is the end of its life; if not, a drive failed then.
    is_end: bool,
}

/// What a drive took part in last.
#[derive(Clone)]
struct Part {
    opening: u64,
    /// The table by which it did; none in the making.
    table: Option<Rc<DriveTable>>,
    /// Whether it failed in that life.
    has_failed: bool,
}

/// A drive that holds the newest table of an opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableHolder {
    /// Which, by index.
    pub index: usize,
    /// Whether any drive, there or not, has a table that followed the one by which this one took part last, and that
    /// does not read it any more (SIM-BRANCHES-2).
    pub is_dropped: bool,
}

/// What an opening made.
pub(crate) struct PoolOpening<'a> {
    /// Its last table.
    pub table: &'a DriveTable,
    /// Drives that had the table from which it went on.
    pub holders: &'a [TableHolder],
    /// Drives that take part from now on.
    pub members: &'a [usize],
}

/// The openings of a world. Clones share the snapshots that there are.
#[derive(Clone)]
pub(crate) struct Branches {
    snapshots: RefCell<BTreeMap<BranchPoint, Rc<[ShardSnapshot]>>>,
    parts: RefCell<Vec<Part>>,
    /// What the models are, while no life has the pool open.
    current: Cell<BranchPoint>,
    openings: Cell<u64>,
    /// Whether the life that goes on has opened the pool.
    is_open: Cell<bool>,
}

impl Branches {
    /// A new pool: the first opening is its making.
    pub(crate) fn new(drives: usize, models: &[ShardModel]) -> Self {
        let current = BranchPoint { opening: 0, is_end: true };
        Self {
            snapshots: RefCell::new(BTreeMap::from([(current, snapshot(models))])),
            parts: RefCell::new(vec![Part { opening: 0, table: None, has_failed: false }; drives]),
            current: Cell::new(current),
            openings: Cell::new(0),
            is_open: Cell::new(false),
        }
    }

    /// Whether one of `tables` followed the one by which a drive took part last, and does not read it any more
    /// (SIM-BRANCHES-2).
    pub(crate) fn is_dropped(&self, drive: usize, id: DriveId, tables: &[DriveTable]) -> bool {
        let parts = self.parts.borrow();
        let Some(own) = parts.get(drive).and_then(|part| part.table.as_deref()) else {
            return false;
        };
        let reads = |table: &DriveTable| {
            table.drives.iter().any(|record| record.id == id && is_member(record.state))
        };
        tables.iter().any(|table| !reads(table) && follows(table, own))
    }

    /// The pool is open; returns whether that is not from where the models are, which are set back then
    /// (SIM-BRANCHES-1).
    pub(crate) fn open(&self, opened: &PoolOpening<'_>, models: &[ShardModel]) -> bool {
        let mut parts = self.parts.borrow_mut();
        let points = opened.holders.iter().filter_map(|holder| {
            let Part { opening, has_failed, .. } = *parts.get(holder.index)?;
            // SIM-BRANCHES-2
            Some(BranchPoint { opening, is_end: !(has_failed && holder.is_dropped) })
        });
        let from = points.max().unwrap_or_else(|| self.current.get());
        let is_elsewhere = from != self.current.get();
        let mut snapshots = self.snapshots.borrow_mut();
        if let (true, Some(snapshot)) = (is_elsewhere, snapshots.get(&from)) {
            models.iter().zip(&**snapshot).for_each(|(model, snapshot)| model.restore(snapshot));
        }
        let opening = self.openings.get() + 1;
        self.openings.set(opening);
        let table = Rc::new(opened.table.clone());
        for member in opened.members {
            if let Some(part) = parts.get_mut(*member) {
                *part = Part { opening, table: Some(Rc::clone(&table)), has_failed: false };
            }
        }
        let end = BranchPoint { opening, is_end: true };
        snapshots.insert(end, snapshot(models));
        self.current.set(end);
        self.is_open.set(true);
        is_elsewhere
    }

    /// A drive fails now, the first one of this life. False when it is none that takes part.
    pub(crate) fn fail(&self, drive: usize, models: &[ShardModel], now: u64) -> bool {
        let opening = self.openings.get();
        let mut parts = self.parts.borrow_mut();
        let Some(part) = parts.get_mut(drive).filter(|part| part.opening == opening) else {
            return false;
        };
        if !self.is_open.get() {
            return false;
        }
        part.has_failed = true;
        // What is under way lands on it, or does not.
        let then = models.iter().map(|model| model.after_cut(now)).collect();
        self.snapshots.borrow_mut().insert(BranchPoint { opening, is_end: false }, then);
        true
    }

    /// The life has ended, and power was cut: this is how it left the models.
    pub(crate) fn end(&self, models: &[ShardModel]) {
        if self.is_open.take() {
            self.snapshots.borrow_mut().insert(self.current.get(), snapshot(models));
        }
    }
}

fn snapshot(models: &[ShardModel]) -> Rc<[ShardSnapshot]> {
    models.iter().map(ShardModel::snapshot).collect()
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::slice;

    use varve_media_redundancy::HistoryId;
    use varve_media_redundancy::format::{DriveState, EarlierHistory};
    use varve_types::StreamId;

    use super::*;
    use crate::census::tests::drive_table;
    use crate::model::{ModelStream, StreamModel};

    fn add_stream(models: &[ShardModel], id: u64) {
        models[0].streams.borrow_mut().push(Rc::new(ModelStream {
            id: StreamId::new(id),
            model: RefCell::new(StreamModel::new(0)),
            dropped: Cell::new(false),
            is_promised: Cell::new(false),
            promise_changes: Cell::new(false),
        }));
    }

    fn streams(models: &[ShardModel]) -> Vec<u64> {
        models[0].streams.borrow().iter().map(|stream| stream.id.get()).collect()
    }

    fn holder(index: usize) -> TableHolder {
        TableHolder { index, is_dropped: true }
    }

    /// A pool whose openings all come to the same table.
    struct TestPool {
        branches: Branches,
        models: [ShardModel; 1],
        table: DriveTable,
    }

    impl TestPool {
        fn new() -> Self {
            let models = [ShardModel::default()];
            Self { branches: Branches::new(2, &models), models, table: drive_table() }
        }

        fn open(&self, holders: &[TableHolder], members: &[usize]) -> bool {
            let opened = PoolOpening { table: &self.table, holders, members };
            self.branches.open(&opened, &self.models)
        }

        fn end(&self) {
            self.branches.end(&self.models);
        }

        fn fail(&self, drive: usize, now: u64) -> bool {
            self.branches.fail(drive, &self.models, now)
        }
    }

    /// What an opening makes of a table that goes on with one drive of it alone, as a new history.
    fn fork(base: &DriveTable, history: u8, drive: usize) -> DriveTable {
        let mut table = base.clone();
        table.epoch.0 += 1;
        table.lineage.insert(0, EarlierHistory { history: base.history, ended: base.epoch });
        table.history = HistoryId([history; 16]);
        drop_others(&mut table, drive);
        table
    }

    fn drop_others(table: &mut DriveTable, drive: usize) {
        let others = table.drives.iter_mut().enumerate().filter(|(index, _)| *index != drive);
        others.for_each(|(_, record)| record.state = DriveState::Failed);
    }

    #[test]
    fn a_half_goes_on_from_where_it_was_left() {
        let pool = TestPool::new();
        assert!(!pool.open(&[holder(0), holder(1)], &[0, 1]));
        add_stream(&pool.models, 1);
        pool.end();
        assert!(!pool.open(&[holder(0)], &[0]), "one of both goes on");
        add_stream(&pool.models, 2);
        pool.end();
        pool.end();
        assert!(pool.open(&[holder(1)], &[1]), "the other one missed that");
        assert_eq!(streams(&pool.models), [1]);
        add_stream(&pool.models, 3);
        pool.end();
        assert!(pool.open(&[holder(0)], &[0]));
        assert_eq!(streams(&pool.models), [1, 2]);
        pool.end();
        assert!(pool.open(&[holder(1)], &[1]));
        assert_eq!(streams(&pool.models), [1, 3]);
    }

    #[test]
    fn a_drive_that_failed_has_what_was_acknowledged_until_then_or_all() {
        let pool = TestPool::new();
        pool.open(&[holder(0)], &[0, 1]);
        add_stream(&pool.models, 1);
        assert!(pool.fail(0, 5));
        add_stream(&pool.models, 2);
        pool.end();
        assert!(!pool.fail(0, 6), "no life has the pool open");
        assert!(pool.open(&[holder(0)], &[0]));
        assert_eq!(streams(&pool.models), [1]);

        let pool = TestPool::new();
        pool.open(&[holder(0)], &[0, 1]);
        assert!(pool.fail(0, 7));
        add_stream(&pool.models, 3);
        pool.end();
        let unknown = TableHolder { index: 0, is_dropped: false };
        assert!(!pool.open(&[unknown], &[0]), "nobody went on without it");
        assert_eq!(streams(&pool.models), [3]);
    }

    #[test]
    fn a_drive_was_dropped_whatever_history_it_began_since() {
        let pool = TestPool::new();
        let (base, id) = (&pool.table, pool.table.drives[0].id);
        let mut others = base.clone();
        drop_others(&mut others, 1);
        others.epoch.0 += 2;
        let is_dropped = |tables: &[DriveTable]| pool.branches.is_dropped(0, id, tables);
        assert!(!is_dropped(slice::from_ref(&others)), "it has taken part in nothing");
        pool.open(&[holder(0), holder(1)], &[0, 1]);
        assert!(!is_dropped(&[base.clone(), fork(base, 9, 0)]));
        assert!(is_dropped(slice::from_ref(&others)));
        assert!(is_dropped(&[fork(base, 9, 0), others]), "the operator had it go on alone");
        assert!(is_dropped(&[fork(base, 9, 0), fork(base, 10, 1)]));
        let mut before = base.clone();
        before.history = HistoryId([8; 16]);
        assert!(!is_dropped(&[fork(&before, 9, 1)]), "that went apart before");
    }
}
