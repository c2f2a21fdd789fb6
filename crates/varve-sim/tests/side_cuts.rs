//! Copies of a machine that are cut beside its lives are opened and judged, and change nothing of these lives.
//!
//! Method: runs the same worlds with and without such cuts, and worlds with such cuts that found a bug.

use varve_sim::{SeedOutcome, WorldConfig, WorldKind, catch_panics, run_world};

/// A few copies in each world.
const STEPS: u64 = 10_000;

#[test]
fn cuts_of_copies_change_no_life() {
    catch_panics();
    let kinds = [
        WorldKind::LosingDrives,
        WorldKind::ReturningDrives,
        WorldKind::RottingStrips,
        WorldKind::MovingRows,
    ];
    for kind in kinds {
        let plain = kind.world(1001);
        let aside = run_world(WorldConfig { side_cut_steps: STEPS, ..plain.clone() });
        assert_eq!(aside.failure, None, "{kind}");
        assert!(aside.side_cuts > 0, "{kind}");
        // SIM-ASIDE-1
        assert_eq!(SeedOutcome { side_cuts: 0, ..aside }, run_world(plain), "{kind}");
    }
}

#[test]
fn worlds_that_found_a_bug_are_clean() {
    catch_panics();
    // A drive that failed and was dropped was judged as if nobody had gone on without it: the operator had gone on with
    // it alone, by an opening that was cut off when its history was written.
    let world = WorldConfig { side_cut_steps: 400, ..WorldKind::ReturningDrives.world(2000) };
    assert_eq!(run_world(world).failure, None);
}
