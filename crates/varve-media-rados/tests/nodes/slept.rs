//! A node sleeps before it claims a shard, is given up, and wakes: it has a write of a client that came back by another node and wrote again (K4).

use std::rc::Rc;

use varve_dispatch::nodes::Connection;
use varve_dispatch::nodes::wire::Outcome;
use varve_logstore::planted::{Bug, plant};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::Rng;
use varve_types::ShardId;

use crate::clients::{version_of, write_of};
use crate::pool::{MS, SHARDS};
use crate::world::{Process, World};

const STEPS_MAX: u64 = 20_000_000;

/// A shard that the table gives to a node which does not serve it yet.
fn due(node: &Process) -> Option<ShardId> {
    (0..SHARDS).map(ShardId).find(|shard| {
        let owner =
            node.keeper.table().and_then(|table| table.shard(*shard).and_then(|entry| entry.owner));
        owner == Some(node.id) && node.keeper.host(*shard).is_none()
    })
}

/// Writes a version of the first block of a shard; whether that was acknowledged.
async fn write(node: Rc<Process>, connection: Rc<Connection>, shard: ShardId, version: u64) -> bool {
    let block = usize::from(shard.0);
    let done = node.router.ask(&connection, shard, write_of(block, version)).await;
    matches!(done, Ok(Outcome::Done))
}

/// The version that is found in the end, when version 2 was acknowledged after version 1 had been given up.
async fn sleeps_before_its_claim(reactor: Reactor, seed: u64) -> u64 {
    let world = World::new(&reactor, Rng::new(seed)).await;
    let stays = world.join().await;
    while (0..SHARDS).any(|shard| stays.keeper.host(ShardId(shard)).is_none()) {
        reactor.sleep(100 * MS).await;
    }
    let sleeper = world.join().await;
    let old = Rc::new(sleeper.router.open().await.expect("nothing is under way"));
    let shard = loop {
        if let Some(shard) = due(&sleeper) {
            break shard;
        }
        reactor.sleep(MS).await;
    };
    sleeper.client.hold();
    world.network.hold(sleeper.id);
    // It goes on for as long as its client waits, and that one does.
    let first = write(Rc::clone(&sleeper), old, shard, 1);
    reactor.spawn(async move {
        let _whether_it_is_told = first.await;
    });
    while stays.keeper.host(shard).is_none() {
        reactor.sleep(100 * MS).await;
    }
    let new = Rc::new(stays.router.open().await.expect("the sleeper is out of the table"));
    assert!(write(Rc::clone(&stays), Rc::clone(&new), shard, 2).await);
    // The sleeper wakes, and has time: whoever has the shard is cut off from the cluster for a while.
    stays.client.hold();
    world.network.let_go(sleeper.id);
    sleeper.client.let_go();
    reactor.sleep(12_000 * MS).await;
    stays.client.let_go();
    reactor.sleep(20_000 * MS).await;
    let read = version_of(usize::from(shard.0), &stays.router, &new).await;
    read.expect("the shard is served again")
}

fn found(seed: u64) -> u64 {
    let mut sim = SimLoop::new(seed);
    let reactor = sim.handle();
    sim.try_run_until(sleeps_before_its_claim(reactor, seed), STEPS_MAX).expect("it comes to an end")
}

#[test]
fn a_node_that_slept_before_its_claim_serves_nobody() {
    for seed in 0..5 {
        assert_eq!(found(seed), 2, "seed {seed}");
    }
}

#[test]
fn a_claim_that_is_served_without_a_look_at_the_table_shows() {
    plant(Some(Bug::ClaimServedUnseen));
    let versions: Vec<u64> = (0..5).map(found).collect();
    plant(None);
    assert!(versions.contains(&1), "{versions:?}");
}
