//! Power cuts beside the lives of a machine: a copy of it is cut while the machine itself goes on, and what is left is
//! opened and judged. So a life of many thousands of steps is worth many cuts.
//!
//! SIM-ASIDE-1. Nothing of it reaches the machine that goes on: the media, models and generators of a copy are its own,
//!     so a seed has the same lives with and without such cuts.
//! SIM-ASIDE-2. A copy is cut as the machine itself would be at that step: of what is under way to its media any part
//!     is kept, and what was not answered has happened or not.

use std::rc::Rc;

use varve_stdx::Rng;

use crate::life::LifePlan;
use crate::run::{SeedOutcome, decay, has_lost_for_good, let_rot, run_life};
use crate::side_cuts::SideCuts;
use crate::world::World;

/// Steps after which a copy is cut again, at most: mostly before it has opened, now and then at work.
const STEPS_MAX: [u64; 4] = [300, 1000, 1000, 4000];

/// Counts a step of the machine. Where it is time, cuts the power of a copy, perhaps again while that opens, and judges
/// what is left; what was wrong, if anything was.
pub(crate) fn cut_aside(
    world: &World,
    cuts: &SideCuts,
    outcome: &mut SeedOutcome,
) -> Option<String> {
    let mut rng = cuts.is_due()?;
    let copy = world.fork(&mut rng); // SIM-ASIDE-2
    copy.cut(&mut rng);
    if let Some(redundant) = copy.on_redundant() {
        redundant.end_life(&copy.models);
    }
    let mut aside = SeedOutcome::new(world.config.seed);
    live_on(&copy, &mut rng, &mut aside);
    // One comes before its first life; the one that ends its last life does not count, as nothing is opened after it.
    outcome.side_cuts += aside.cuts;
    aside.failure
}

/// The lives of a copy.
fn live_on(copy: &Rc<World>, rng: &mut Rng, outcome: &mut SeedOutcome) {
    decay(copy, rng);
    while rng.chance(2, 3) && !has_lost_for_good(copy) {
        let steps_max = STEPS_MAX[rng.index(STEPS_MAX.len())];
        let steps = rng.below(steps_max);
        if !run_life(copy, rng, LifePlan::Work, steps, outcome) {
            return;
        }
        decay(copy, rng);
    }
    let mut rot_rng = rng.split();
    if !let_rot(copy, rng, &mut rot_rng, None, outcome) {
        return;
    }
    let is_lost = has_lost_for_good(copy);
    let plan = if is_lost { LifePlan::Damaged } else { LifePlan::Verify };
    run_life(copy, rng, plan, u64::MAX, outcome);
}
