//! The checkers bite: each bug that is planted in the journal, the checkpoint, recovery, reclaim or the mark pass fails a seed within
//! a bounded number of them, and the same seed is clean without it.
//!
//! Method: plants one bug at a time on this thread and runs seeds until one fails; prints the seed and its failure.

use varve_logstore::planted::{Bug, plant};
use varve_sim::{Faults, Outcome, WorldConfig, catch_panics, run_world};

/// Seeds in which each bug has to show.
const SEEDS_MAX: u64 = 300;

fn run(seed: u64) -> Outcome {
    run_world(WorldConfig { faults: Faults::None, ..WorldConfig::from_seed(seed) })
}

#[track_caller]
fn found(bug: Bug) {
    catch_panics();
    plant(Some(bug));
    let failure = (0..SEEDS_MAX).map(run).find(|run| run.failure.is_some());
    plant(None);
    let Some(outcome) = failure else { panic!("{bug:?} was not found in {SEEDS_MAX} seeds") };
    println!("{bug:?}: seed {} fails: {}", outcome.seed, outcome.failure.unwrap_or_default());
    let clean = run(outcome.seed);
    assert_eq!(clean.failure, None, "seed {} is clean without the bug", outcome.seed);
}

macro_rules! planted {
    ($($name:ident: $bug:ident;)*) => {
        $(#[test]
        fn $name() {
            found(Bug::$bug);
        })*

        #[test]
        fn every_bug_has_a_test() {
            assert_eq!(Bug::ALL, [$(Bug::$bug),*]);
        }
    };
}

planted! {
    journal_acknowledges_before_durable: AckBeforeDurable;
    journal_replays_an_unchecked_chain: ChainUnchecked;
    a_read_returns_what_is_not_durable: ReadBeforeDurable;
    a_trim_is_not_durable: TrimBeforeDurable;
    bypass_overtakes_the_lane: BypassOvertakesLane;
    bypass_is_acknowledged_out_of_order: BypassAckedOutOfOrder;
    bypass_counts_for_the_lane: BypassCountsForLane;
    recovery_skips_the_rest_of_a_partial_record: PartialRecordSkipped;
    recovery_believes_unverified_segments: SegmentUnverified;
    recovery_believes_what_is_only_in_a_cache: UnsettledBelieved;
    checkpoint_writes_its_root_too_early: RootBeforePuts;
    checkpoint_reuses_pages_the_root_before_needs: PagesReusedEarly;
    segments_newer_than_the_checkpoint_are_reused: NewReusedEarly;
    reclaim_frees_a_victim_before_its_survivors_are_durable: VictimBeforeSurvivors;
    mark_forgets_pages: MarkForgetsPages;
}
