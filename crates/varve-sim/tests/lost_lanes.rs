//! A journal lane that was lost, in whole or in half, or is an older copy of itself, is found when its shard opens, and
//! never taken for an empty one; and a shard that is told to accept the loss opens, and goes on to open without being
//! told.
//!
//! Method: takes a lane away after the last power cut of a world. Either the opening is refused because of it, or
//! nothing that was acknowledged is gone.

use varve_sim::{WorldConfig, catch_panics, run_world};

/// Worlds that lose a lane: in a third of them each, half of it, what it got since it was copied, and all of it.
const WORLDS: u64 = 36;

#[test]
fn a_lost_lane_is_never_taken_for_an_empty_one() {
    catch_panics();
    let mut found = 0;
    for world in 0..WORLDS {
        let outcome = run_world(WorldConfig::losing_lanes(world));
        assert_eq!(
            outcome.failure, None,
            "replay: cargo xtask sim --seed {world} -- --kind losing-lanes"
        );
        found += u64::from(outcome.lane_loss_found);
    }
    assert!(found >= WORLDS * 2 / 3, "{found} of {WORLDS} lost lanes were found");
}
