//! Some seeds are clean, seeds that once failed stay clean, and a seed always gives the same run.
//!
//! Method: runs them; `regressions.txt` keeps the seeds that found a bug, each with what it found.

use varve_sim::{catch_panics, run_seed};

/// Seeds run by this test; the simulator's binary runs as many as wanted.
const SEEDS: u64 = 24;

#[test]
fn the_first_seeds_are_clean() {
    catch_panics();
    let mut bypassed = 0;
    for seed in 0..SEEDS {
        let outcome = run_seed(seed);
        assert_eq!(outcome.failure, None, "replay: cargo xtask sim --seed {seed}");
        assert!(outcome.cuts > 0 && outcome.steps > 0);
        bypassed += u64::from(outcome.bypassed_bytes > 0);
    }
    assert!(bypassed >= SEEDS / 2, "writes bypassed the lane in {bypassed} of {SEEDS} seeds");
}

#[test]
fn seeds_that_found_a_bug_are_clean() {
    catch_panics();
    let lines = include_str!("regressions.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (seed, what) = line.split_once(' ').expect("a seed and what it found");
        let outcome = run_seed(seed.parse().expect("a seed is a number"));
        assert_eq!(outcome.failure, None, "seed {seed}, which once found: {what}");
    }
}

#[test]
fn a_seed_always_gives_the_same_run() {
    catch_panics();
    for seed in 0..8 {
        assert_eq!(run_seed(seed), run_seed(seed));
    }
    assert_ne!(run_seed(0).trace, run_seed(1).trace);
}
