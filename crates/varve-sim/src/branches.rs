//! What must be on the drives of a pool that go apart and return: a snapshot of the models for each opening, and for each
//! drive the last one that it took part in.
//!
//! SIM-BRANCHES-1. An opening goes on from the last one in which a holder of the newest table took part: all that was
//!     acknowledged then is there, and nothing of those that the holders missed.

use std::cell::{Cell, RefCell};

use crate::model::{ShardModel, ShardSnapshot};

/// The openings of a world.
pub(crate) struct Branches {
    /// Of each opening, how its life left the models.
    snapshots: RefCell<Vec<Vec<ShardSnapshot>>>,
    /// The last opening in which each drive took part.
    last_of_drive: RefCell<Vec<usize>>,
    /// The opening whose models these are.
    current: Cell<usize>,
    /// Whether the life that goes on has opened the pool.
    is_open: Cell<bool>,
}

impl Branches {
    /// A new pool: the first opening is its making.
    pub(crate) fn new(drives: usize, models: &[ShardModel]) -> Self {
        Self {
            snapshots: RefCell::new(vec![models.iter().map(ShardModel::snapshot).collect()]),
            last_of_drive: RefCell::new(vec![0; drives]),
            current: Cell::new(0),
            is_open: Cell::new(false),
        }
    }

    /// The pool is open by `members`, from the table that `holders` had; returns whether that is not where the models
    /// are, which are set back then (SIM-BRANCHES-1).
    pub(crate) fn open(&self, holders: &[usize], members: &[usize], models: &[ShardModel]) -> bool {
        let mut last = self.last_of_drive.borrow_mut();
        let from = holders.iter().filter_map(|drive| last.get(*drive)).max().copied();
        let from = from.unwrap_or_else(|| self.current.get());
        let is_elsewhere = from != self.current.get();
        let mut snapshots = self.snapshots.borrow_mut();
        if let (true, Some(snapshot)) = (is_elsewhere, snapshots.get(from)) {
            models.iter().zip(snapshot).for_each(|(model, snapshot)| model.restore(snapshot));
        }
        let now = snapshots.len();
        snapshots.push(models.iter().map(ShardModel::snapshot).collect());
        for drive in members {
            if let Some(last) = last.get_mut(*drive) {
                *last = now;
            }
        }
        self.current.set(now);
        self.is_open.set(true);
        is_elsewhere
    }

    /// The life has ended, and power was cut: this is how it left the models.
    pub(crate) fn end(&self, models: &[ShardModel]) {
        if !self.is_open.take() {
            return;
        }
        let now = models.iter().map(ShardModel::snapshot).collect();
        if let Some(snapshot) = self.snapshots.borrow_mut().last_mut() {
            *snapshot = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use varve_types::StreamId;

    use super::*;
    use crate::model::{ModelStream, StreamModel};

    fn add_stream(model: &ShardModel, id: u64) {
        model.streams.borrow_mut().push(Rc::new(ModelStream {
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

    #[test]
    fn a_half_goes_on_from_where_it_was_left() {
        let models = [ShardModel::default()];
        let branches = Branches::new(2, &models);
        assert!(!branches.open(&[0, 1], &[0, 1], &models));
        add_stream(&models[0], 1);
        branches.end(&models);
        assert!(!branches.open(&[0], &[0], &models), "one of both goes on");
        add_stream(&models[0], 2);
        branches.end(&models);
        branches.end(&models);
        assert!(branches.open(&[1], &[1], &models), "the other one missed that");
        assert_eq!(streams(&models), [1]);
        add_stream(&models[0], 3);
        branches.end(&models);
        assert!(branches.open(&[0], &[0], &models));
        assert_eq!(streams(&models), [1, 2]);
        branches.end(&models);
        assert!(branches.open(&[1], &[1], &models));
        assert_eq!(streams(&models), [1, 3]);
    }
}
