//! Metadata pages are stored twice: a segment of them that is damaged, or whose copy is, costs nothing; and where both
//! are damaged, nothing else is read instead.
//!
//! Method: inverts bits in segments with pages after the last power cut of a world, wherever the copy that a root names
//! is whole, or the other way round. In a fourth of the worlds both are damaged.

use varve_sim::{WorldConfig, catch_panics, run_world};

const WORLDS: u64 = 60;

#[test]
fn a_damaged_segment_with_pages_costs_nothing() {
    catch_panics();
    let mut damaged = 0;
    for world in 0..WORLDS {
        let outcome = run_world(WorldConfig::losing_pages(world));
        assert_eq!(
            outcome.failure, None,
            "replay: cargo xtask sim --seed {world} -- --kind losing-pages"
        );
        damaged += outcome.damaged_copies;
    }
    assert!(damaged >= WORLDS, "only {damaged} pairs were damaged in {WORLDS} worlds");
}
