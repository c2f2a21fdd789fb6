//! Seeds, and guards that are taken away.

use std::rc::Rc;

use varve_logstore::planted::{Bug, plant};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::Rng;

use crate::clients::{read_on, write_on};
use crate::pool::MS;
use crate::world::World;

const STEPS_MAX: u64 = 60_000_000;

/// Seeds in which a guard that is missing has to show.
const SEEDS_MAX: u64 = 400;

async fn lives(reactor: Reactor, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let world = World::new(&reactor, rng.split()).await;
    for _ in 0..2 + rng.below(2) {
        world.join().await;
    }
    for writer in 0..3 {
        reactor.spawn(write_on(Rc::clone(&world), writer, rng.split()));
    }
    reactor.spawn(read_on(Rc::clone(&world), rng.split()));
    reactor.sleep(3000 * MS).await;
    for _ in 0..3 + rng.below(6) {
        world.trouble(&mut rng).await;
        let pause = [200, 2000, 9000][rng.index(3)];
        reactor.sleep(rng.below(pause * MS)).await;
    }
    world.calm().await;
    world.is_over.set(true);
    reactor.sleep(10_000 * MS).await;
    world.clients.acknowledged()
}

fn run(seed: u64) {
    let mut sim = SimLoop::new(seed);
    let reactor = sim.handle();
    let done = sim.try_run_until(lives(reactor, seed), STEPS_MAX);
    let acknowledged =
        done.unwrap_or_else(|| panic!("seed {seed} takes more than {STEPS_MAX} steps"));
    assert!(acknowledged > 50, "seed {seed}: {acknowledged} writes were acknowledged");
}

#[test]
fn nothing_acknowledged_is_lost_whatever_becomes_of_nodes() {
    let seeds = std::env::var("NODES_SEEDS").unwrap_or_else(|_| "0..40".to_owned());
    let (first, last) = seeds.split_once("..").unwrap();
    for seed in first.parse().unwrap()..last.parse().unwrap() {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed}: NODES_SEEDS={seed}..{}", seed + 1);
            std::panic::resume_unwind(panic);
        }
    }
}

/// Runs seeds until one tells of the bug; that seed is clean without it.
fn found(bug: Bug) {
    let is_found = (0..SEEDS_MAX).any(|seed| {
        plant(Some(bug));
        let outcome = std::panic::catch_unwind(|| run(seed));
        plant(None);
        if outcome.is_err() {
            eprintln!("{bug:?} shows with seed {seed}");
            run(seed);
        }
        outcome.is_err()
    });
    assert!(is_found, "{bug:?} shows in no seed");
}

#[test]
fn a_late_epoch_shows() {
    found(Bug::LateEpochBegun); // F1
}

#[test]
fn an_older_link_shows() {
    found(Bug::OldLinkHeard); // F2
}

#[test]
fn a_link_welcomed_early_shows() {
    found(Bug::WelcomedEarly); // F2
}

#[test]
fn a_node_that_has_gone_and_is_heard_shows() {
    found(Bug::GoneNodeHeard); // F5
}
