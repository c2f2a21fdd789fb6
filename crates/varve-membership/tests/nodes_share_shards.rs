//! Goal: whatever nodes do and whatever becomes of their messages, the table stays what it promises (T1–T4), nobody is given up who was heard of,
//! and once it is calm all shards are served by the nodes that are there, evenly. Method: nodes in simulated time over a store that answers late, or never;
//! killed, paused, cut off, leaving, joining, by seeds. `MEMBERSHIP_SEEDS=FIRST..LAST` chooses seeds.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use varve_membership::{
    BEAT_NS, Fingerprint, Member, Node, NodeId, SILENCE_NS, ShardEntry, Standing, Table,
};
use varve_stdx::Rng;
use varve_types::{PoolId, ShardId};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const POOL: PoolId = PoolId([7; 16]);

/// What a takeover from somebody who did not give back waits: as long as on RADOS.
const LEASE_NS: u64 = 3300 * MS;

/// Nodes that take part in a run at most.
const NODES: usize = 12;

/// What happens next at a node.
#[derive(Clone)]
enum Event {
    /// It asks for the table.
    Ask,
    /// The store looks.
    Look,
    /// It has the answer.
    Answer(Option<Table>),
    /// The store replaces.
    Replace(Box<Table>),
    /// It hears whether the store did; or nothing, for too long.
    Heard(Option<(bool, Box<Table>)>),
    /// The store raises the epoch of a shard.
    Claim(ShardId),
    /// Its shard is open, or another's claim came after its own.
    Opened(ShardId, u64),
    /// Its shard is drained, and the store takes its claim back.
    GiveBack(ShardId),
    /// It hears that.
    GivenBack(ShardId, bool),
}

#[derive(Clone, Copy, Default)]
struct Claim {
    epoch: u64,
    holder: Option<NodeId>,
}

struct Simulated {
    member: Member,
    closing: Vec<ShardId>,
    is_dead: bool,
    /// It does nothing until then.
    sleeps_until: u64,
    /// Its messages wait until then.
    cut_until: u64,
    leaves: bool,
    /// When its beat was last stored.
    beat_at: u64,
    removed_at: Option<u64>,
}

struct World {
    now: u64,
    sequence: u64,
    rng: Rng,
    slow_percent: u64,
    events: BTreeMap<(u64, u64), (usize, Event)>,
    table: Option<Table>,
    claims: Vec<Claim>,
    nodes: Vec<Simulated>,
    moves: usize,
}

impl World {
    fn new(seed: u64, shards: usize) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            now: 1,
            sequence: 0,
            slow_percent: [0, 3, 20][rng.index(3)],
            rng,
            events: BTreeMap::new(),
            table: None,
            claims: vec![Claim::default(); shards],
            nodes: Vec::new(),
            moves: 0,
        }
    }

    fn add_node(&mut self) {
        let id = NodeId(u128::from(self.rng.next_u64()) << 32 | self.nodes.len() as u128);
        let node = Node { id, address: format!("{id}:1"), fingerprint: Fingerprint([1; 32]) };
        let member = Member::new(node, POOL, u16::try_from(self.claims.len()).unwrap()).unwrap();
        self.nodes.push(Simulated {
            member,
            closing: Vec::new(),
            is_dead: false,
            sleeps_until: 0,
            cut_until: 0,
            leaves: false,
            beat_at: 0,
            removed_at: None,
        });
        self.after(self.nodes.len() - 1, 0, Event::Ask);
    }

    fn after(&mut self, node: usize, delay: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((self.now + delay, self.sequence), (node, event));
    }

    fn latency(&mut self) -> u64 {
        let slow = self.rng.chance(self.slow_percent, 100);
        self.rng.below(if slow { 4000 } else { 8 } * MS)
    }

    fn run_until(&mut self, end: u64) {
        while let Some(((at, _), (node, event))) = self.events.pop_first() {
            if at > end {
                self.sequence += 1;
                self.events.insert((at, self.sequence), (node, event));
                break;
            }
            self.now = self.now.max(at);
            let at_store = matches!(
                event,
                Event::Look | Event::Replace(_) | Event::Claim(_) | Event::GiveBack(_)
            );
            let simulated = &self.nodes[node];
            let waits_until = if at_store { simulated.cut_until } else { simulated.sleeps_until };
            if simulated.is_dead && !at_store {
                continue;
            }
            if waits_until > self.now {
                let delay = waits_until - self.now;
                self.after(node, delay, event);
                continue;
            }
            if at_store {
                self.at_store(node, event);
            } else {
                self.at_node(node, event);
            }
        }
        self.now = end;
    }

    fn at_store(&mut self, node: usize, event: Event) {
        let latency = self.latency();
        match event {
            Event::Look => {
                let found = self.table.clone();
                self.after(node, latency, Event::Answer(found));
            }
            Event::Replace(table) => {
                let is_next = table.version == self.table.as_ref().map_or(0, |now| now.version) + 1;
                if is_next {
                    self.check_change(node, &table);
                    self.table = Some(Table::decode(&table.encode()).unwrap());
                    self.nodes[node].beat_at = self.now;
                }
                let is_lost = self.rng.chance(1, 30);
                let heard = (!is_lost).then_some((is_next, table));
                self.after(node, latency, Event::Heard(heard));
            }
            Event::Claim(shard) => {
                let claim = &mut self.claims[usize::from(shard.0)];
                let was_held = claim.holder.is_some();
                claim.epoch += 1;
                claim.holder = Some(self.nodes[node].member.id());
                let epoch = claim.epoch;
                let recovery = 300 * MS + if was_held { LEASE_NS } else { 0 };
                self.after(node, latency + recovery, Event::Opened(shard, epoch));
            }
            Event::GiveBack(shard) => {
                let id = self.nodes[node].member.id();
                let claim = &mut self.claims[usize::from(shard.0)];
                let is_mine = claim.holder == Some(id);
                if is_mine {
                    claim.holder = None;
                }
                self.after(node, latency, Event::GivenBack(shard, is_mine));
            }
            _ => unreachable!("an event of nodes"),
        }
    }

    fn at_node(&mut self, node: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Ask => {
                let leaves = self.nodes[node].leaves;
                let member = &mut self.nodes[node].member;
                if leaves {
                    member.leave();
                }
                if member.standing() == Standing::Left {
                    return;
                }
                let latency = self.latency();
                self.after(node, latency, Event::Look);
            }
            Event::Answer(found) => {
                let member = &mut self.nodes[node].member;
                member.saw(found, now).unwrap();
                self.obey(node);
                match self.nodes[node].member.proposal().unwrap() {
                    Some(table) => {
                        let latency = self.latency();
                        self.after(node, latency, Event::Replace(Box::new(table)));
                    }
                    None if self.nodes[node].member.standing() == Standing::GivenUp => {
                        self.nodes[node].is_dead = true;
                        if self.nodes.len() < NODES && !self.nodes[node].leaves {
                            self.add_node(); // The same daemon, as another node.
                        }
                    }
                    None => {}
                }
            }
            Event::Heard(heard) => {
                let accepted = heard.filter(|(is_next, _)| *is_next);
                let pause = if accepted.is_some() { BEAT_NS } else { self.rng.below(20 * MS) };
                if let Some((_, table)) = accepted {
                    self.nodes[node].member.accepted(*table);
                    self.obey(node);
                }
                self.after(node, pause, Event::Ask);
            }
            Event::Opened(shard, epoch) => {
                if self.claims[usize::from(shard.0)].epoch == epoch {
                    self.nodes[node].member.opened(shard, epoch);
                } else {
                    self.nodes[node].member.dropped(shard);
                }
                self.obey(node);
            }
            Event::GivenBack(shard, was_mine) => {
                self.nodes[node].closing.retain(|closing| *closing != shard);
                let member = &mut self.nodes[node].member;
                if was_mine { member.closed(shard) } else { member.dropped(shard) }
            }
            _ => unreachable!("an event of the store"),
        }
    }

    fn obey(&mut self, node: usize) {
        let id = self.nodes[node].member.id();
        for shard in (0..self.claims.len()).map(|shard| ShardId(u16::try_from(shard).unwrap())) {
            // A node learns that its claim is lost from the next append or question.
            let is_lost = self.claims[usize::from(shard.0)].holder != Some(id);
            let simulated = &mut self.nodes[node];
            if is_lost
                && !simulated.closing.contains(&shard)
                && simulated.member.serves(shard).is_some()
            {
                simulated.member.dropped(shard);
            }
        }
        let orders = self.nodes[node].member.orders();
        for shard in orders.abandon {
            if !self.nodes[node].closing.contains(&shard) {
                self.nodes[node].member.dropped(shard);
            }
        }
        for shard in orders.open {
            self.nodes[node].member.opening(shard);
            let latency = self.latency();
            self.after(node, latency, Event::Claim(shard));
        }
        for shard in orders.close {
            if !self.nodes[node].closing.contains(&shard) {
                self.nodes[node].closing.push(shard);
                let drain = self.rng.below(400 * MS);
                self.after(node, drain, Event::GiveBack(shard));
            }
        }
    }

    /// T1 to T4, and whether who was given up had been silent.
    fn check_change(&mut self, by: usize, after: &Table) {
        let by_id = self.nodes[by].member.id();
        let empty = Table::new(POOL, u16::try_from(self.claims.len()).unwrap());
        let before = self.table.clone().unwrap_or(empty);
        let gone = before.nodes.iter().filter(|entry| after.node(entry.node.id).is_none()).count();
        assert!(after.departures >= before.departures + gone as u64, "T5");
        for entry in &before.nodes {
            let id = entry.node.id;
            if after.node(id).is_none() && id != by_id {
                let gone = self.nodes.iter().position(|node| node.member.id() == id).unwrap();
                let silent_ns = self.now - self.nodes[gone].beat_at;
                assert!(silent_ns >= SILENCE_NS, "{id} was heard of {silent_ns} ns ago");
                self.nodes[gone].removed_at = Some(self.now);
            }
        }
        for (shard, (old, new)) in before.shards.iter().zip(&after.shards).enumerate() {
            assert!(new.epoch >= old.epoch, "T3: the epoch of shard {shard} falls");
            for node in [new.owner, new.next].into_iter().flatten() {
                assert!(after.node(node).is_some(), "T1: {node} is not there");
            }
            let may = |owner| owner == by_id || after.node(owner).is_none();
            if old.owner != new.owner {
                self.moves += 1;
                assert!(old.owner.is_none_or(may), "T2: shard {shard}: {old:?} {new:?} by {by_id}");
            }
            if old.owner == new.owner && !old.is_open && new.is_open {
                assert_eq!(new.owner, Some(by_id), "T2: who serves says so");
            }
        }
        let moving = |node: NodeId, side: fn(&ShardEntry) -> Option<NodeId>| {
            let moving = after.shards.iter().filter(|entry| entry.next.is_some());
            moving.filter(|entry| side(entry) == Some(node)).count()
        };
        for entry in after.nodes.iter().filter(|entry| !entry.is_leaving) {
            assert!(moving(entry.node.id, |entry| entry.owner) <= 1, "one at a time");
        }
    }

    /// Every shard is served by a node that is there and evenly so.
    fn check_calm(&self) {
        let table = self.table.as_ref().unwrap();
        let there: Vec<_> = self
            .nodes
            .iter()
            .filter(|node| !node.is_dead && !node.leaves)
            .map(|node| (node.member.id(), node.member.standing()))
            .collect();
        assert!(there.iter().all(|(_, standing)| *standing == Standing::Inside), "{there:?}");
        assert_eq!(table.nodes.len(), there.len(), "{table:?}");
        let mut loads = BTreeMap::new();
        for (shard, entry) in table.shards.iter().enumerate() {
            let owner = entry.owner.unwrap();
            assert!(there.iter().any(|(id, _)| *id == owner), "shard {shard} of {owner}");
            assert!(entry.is_open && entry.next.is_none(), "shard {shard}: {entry:?}");
            assert_eq!(self.claims[shard].holder, Some(owner), "shard {shard}");
            assert_eq!(self.claims[shard].epoch, entry.epoch, "shard {shard}");
            *loads.entry(owner).or_insert(0) += 1;
        }
        let least = there.iter().map(|(id, _)| loads.get(id).copied().unwrap_or(0)).min();
        let most = loads.values().copied().max();
        assert!(most.unwrap() - least.unwrap() <= 1, "T4: {loads:?}");
    }

    fn alive(&mut self) -> Option<usize> {
        let alive: Vec<_> = (0..self.nodes.len())
            .filter(|node| !self.nodes[*node].is_dead && !self.nodes[*node].leaves)
            .collect();
        (alive.len() > 1).then(|| alive[self.rng.index(alive.len())])
    }
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed ^ 0xA5A5);
    let mut world = World::new(seed, 1 + rng.index(9));
    for _ in 0..1 + rng.below(3) {
        world.add_node();
    }
    for _ in 0..rng.below(14) {
        let pause = [300, 3000, 12_000][rng.index(3)] * MS;
        let end = world.now + rng.below(pause);
        world.run_until(end);
        let Some(node) = world.alive() else {
            world.add_node();
            continue;
        };
        let longest = [2, 5, 20][rng.index(3)] * SECOND;
        let until = world.now + rng.below(longest);
        match rng.below(6) {
            0 => world.nodes[node].is_dead = true,
            1 => world.nodes[node].sleeps_until = until,
            2 => world.nodes[node].cut_until = until,
            3 => world.nodes[node].leaves = true,
            4 => {
                // The cluster stands still.
                world.nodes.iter_mut().for_each(|node| node.cut_until = until);
            }
            _ if world.nodes.len() < NODES => world.add_node(),
            _ => {}
        }
    }
    world.slow_percent = 0;
    let end = world.now + 120 * SECOND;
    world.run_until(end);
    world.check_calm();
}

#[test]
fn shards_are_served_whatever_happens() {
    let seeds = std::env::var("MEMBERSHIP_SEEDS").unwrap_or_else(|_| "0..2000".to_owned());
    let (first, last) = seeds.split_once("..").unwrap();
    for seed in first.parse().unwrap()..last.parse().unwrap() {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed}: MEMBERSHIP_SEEDS={seed}..{}", seed + 1);
            std::panic::resume_unwind(panic);
        }
    }
}

/// Three nodes, the shards balanced between them.
fn calm(seed: u64, shards: usize, nodes: usize) -> World {
    let mut world = World::new(seed, shards);
    world.slow_percent = 0;
    for _ in 0..nodes {
        world.add_node();
    }
    world.run_until(30 * SECOND);
    world.check_calm();
    world
}

#[test]
fn shards_of_a_killed_node_are_served_within_8_s() {
    for seed in 0..50 {
        let mut world = calm(seed, 8, 3);
        let killed = world.rng.index(3);
        let id = world.nodes[killed].member.id();
        let others = world.moves;
        world.nodes[killed].is_dead = true;
        world.run_until(38 * SECOND);
        let table = world.table.as_ref().unwrap();
        assert!(table.node(id).is_none());
        assert!(
            table.shards.iter().all(|entry| entry.is_open && entry.owner != Some(id)),
            "seed {seed}: {table:?}"
        );
        assert!(world.moves - others <= 2 * 3, "only what the node had is moved");
        world.run_until(60 * SECOND);
        world.check_calm();
    }
}

#[test]
fn a_cluster_that_stands_still_gives_nobody_up() {
    for seed in 0..50 {
        let mut world = calm(seed, 8, 3);
        let until = world.now + 60 * SECOND;
        world.nodes.iter_mut().for_each(|node| node.cut_until = until);
        world.run_until(120 * SECOND);
        world.check_calm();
        assert!(world.nodes.iter().all(|node| node.removed_at.is_none()), "seed {seed}");
    }
}

#[test]
fn who_leaves_passes_everything_on_and_the_last_one_gives_it_back() {
    for seed in 0..50 {
        let mut world = calm(seed, 8, 3);
        for node in 0..3 {
            world.nodes[node].leaves = true;
            let end = world.now + 20 * SECOND;
            world.run_until(end);
            assert_eq!(world.nodes[node].member.standing(), Standing::Left, "seed {seed}");
            if node < 2 {
                world.check_calm();
            }
        }
        assert!(world.claims.iter().all(|claim| claim.holder.is_none()), "seed {seed}");
        let table = world.table.as_ref().unwrap();
        assert!(table.nodes.is_empty() && table.shards.iter().all(|entry| entry.owner.is_none()));
    }
}

#[test]
fn a_node_that_joins_gets_its_share_and_no_more_moves() {
    for seed in 0..50 {
        let mut world = calm(seed, 9, 2);
        let before = world.moves;
        world.add_node();
        world.run_until(60 * SECOND);
        world.check_calm();
        assert_eq!(world.moves - before, 3, "seed {seed}");
    }
}
