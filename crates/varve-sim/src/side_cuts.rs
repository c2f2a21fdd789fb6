//! When copies of a machine are cut beside its lives: see `aside.rs`.

use std::cell::{Cell, RefCell};

use varve_stdx::Rng;

use crate::config::WorldConfig;

/// When copies of a machine are cut.
pub(crate) struct SideCuts {
    /// Steps between two of them, about.
    steps: u64,
    /// Steps until the next one.
    left: Cell<u64>,
    rng: RefCell<Rng>,
}

impl SideCuts {
    /// Where drives are redundant, and if it is done at all.
    pub(crate) fn new(config: &WorldConfig) -> Option<Self> {
        let steps = config.side_cut_steps;
        config.redundancy.as_ref().filter(|_| steps > 0)?;
        let mut rng = Rng::new(config.seed ^ 0x4173_6964); // SIM-ASIDE-1
        let left = Cell::new(rng.below(2 * steps));
        Some(Self { steps, left, rng: RefCell::new(rng) })
    }

    /// Counts a step; a generator for the copy that is to be cut after it.
    pub(crate) fn is_due(&self) -> Option<Rng> {
        if let Some(left) = self.left.get().checked_sub(1) {
            self.left.set(left);
            return None;
        }
        let mut rng = self.rng.borrow_mut();
        self.left.set(rng.below(2 * self.steps));
        Some(rng.split())
    }
}
