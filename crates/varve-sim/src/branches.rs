//! What must be on the drives of a pool that go apart and return: snapshots of the models, and for each drive the last
//! opening in which it took part.
//!
//! SIM-BRANCHES-1. An opening goes on from the last one in which a holder of the newest table took part: all that was
//!     acknowledged then is there, and nothing of those that the holders missed.
//! SIM-BRANCHES-2. A drive that failed in between has what was acknowledged until then, if any drive has a table that
//!     says so. While none has, nothing was acknowledged without it: it must have everything.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::model::{ShardModel, ShardSnapshot};

/// A moment in the life of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct BranchPoint {
    /// Counts openings.
    opening: u64,
    /// Whether it is the end of its life; if not, a drive failed then.
    is_end: bool,
}

/// What a drive took part in last.
#[derive(Clone, Copy, Debug)]
struct Part {
    opening: u64,
    /// Whether it failed in that life.
    has_failed: bool,
}

/// A drive that holds the newest table of an opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableHolder {
    /// Which, by index.
    pub index: usize,
    /// Whether another drive, there or not, has a later table that does not read it any more.
    pub is_dropped: bool,
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
            parts: RefCell::new(vec![Part { opening: 0, has_failed: false }; drives]),
            current: Cell::new(current),
            openings: Cell::new(0),
            is_open: Cell::new(false),
        }
    }

    /// The pool is open by `members`, from the table that `holders` had; returns whether that is not where the models
    /// are, which are set back then (SIM-BRANCHES-1).
    pub(crate) fn open(
        &self,
        holders: &[TableHolder],
        members: &[usize],
        models: &[ShardModel],
    ) -> bool {
        let mut parts = self.parts.borrow_mut();
        let points = holders.iter().filter_map(|holder| {
            let Part { opening, has_failed } = *parts.get(holder.index)?;
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
        for member in members {
            if let Some(part) = parts.get_mut(*member) {
                *part = Part { opening, has_failed: false };
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

    use varve_types::StreamId;

    use super::*;
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

    #[test]
    fn a_half_goes_on_from_where_it_was_left() {
        let models = [ShardModel::default()];
        let branches = Branches::new(2, &models);
        assert!(!branches.open(&[holder(0), holder(1)], &[0, 1], &models));
        add_stream(&models, 1);
        branches.end(&models);
        assert!(!branches.open(&[holder(0)], &[0], &models), "one of both goes on");
        add_stream(&models, 2);
        branches.end(&models);
        branches.end(&models);
        assert!(branches.open(&[holder(1)], &[1], &models), "the other one missed that");
        assert_eq!(streams(&models), [1]);
        add_stream(&models, 3);
        branches.end(&models);
        assert!(branches.open(&[holder(0)], &[0], &models));
        assert_eq!(streams(&models), [1, 2]);
        branches.end(&models);
        assert!(branches.open(&[holder(1)], &[1], &models));
        assert_eq!(streams(&models), [1, 3]);
    }

    #[test]
    fn a_drive_that_failed_has_what_was_acknowledged_until_then_or_all() {
        let models = [ShardModel::default()];
        let branches = Branches::new(2, &models);
        branches.open(&[holder(0)], &[0, 1], &models);
        add_stream(&models, 1);
        assert!(branches.fail(0, &models, 5));
        add_stream(&models, 2);
        branches.end(&models);
        assert!(!branches.fail(0, &models, 6), "no life has the pool open");
        assert!(branches.open(&[holder(0)], &[0], &models));
        assert_eq!(streams(&models), [1]);

        let branches = Branches::new(2, &models);
        branches.open(&[holder(0)], &[0, 1], &models);
        assert!(branches.fail(0, &models, 7));
        add_stream(&models, 3);
        branches.end(&models);
        let unknown = TableHolder { index: 0, is_dropped: false };
        assert!(!branches.open(&[unknown], &[0], &models), "nobody went on without it");
        assert_eq!(streams(&models), [1, 3]);
    }
}
