//! Goal: whatever nodes do and whatever becomes of their messages, the table stays what it promises (TABLE-1, TABLE-2),
//! nobody is given up who was heard of, no two nodes are to serve a cell at a time, and once it is calm the cells are
//! served, spread evenly over the nodes that are there, and stay where they are. A pool of one cell is served by one
//! node, and the others stand by. Method: nodes in simulated time over a store that answers late, or never; killed,
//! paused, cut off, leaving, joining, by seeds. `MEMBERSHIP_SEEDS=FIRST..LAST` chooses seeds.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use varve_membership::{
    BEAT_NS, Fingerprint, JoinRequest, Member, MemberState, MemberTable, Node, NodeAddress, NodeId,
    SETTLED_BEATS, SILENCE_NS,
};
use varve_stdx::Rng;
use varve_types::{CellId, PoolId};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const POOL: PoolId = PoolId([7; 16]);

/// So many nodes take part in a run, and those as which they come back.
const NODES: usize = 12;

/// What happens next at a node.
#[derive(Clone)]
enum Event {
    /// It asks for the table.
    Ask,
    /// The store looks.
    Look,
    /// It has the answer.
    Answer(Option<MemberTable>),
    /// The store replaces, and answers if it is waited for.
    Replace(Box<MemberTable>, bool),
    /// It hears whether the store did; or nothing, for too long.
    Heard(Option<(bool, Box<MemberTable>)>),
    /// It has closed a cell.
    Closed(CellId),
}

struct Simulated {
    member: Member,
    room: u16,
    is_dead: bool,
    /// It does nothing until then.
    sleeps_until: u64,
    /// Its messages wait until then.
    cut_until: u64,
    leaves: bool,
    /// Cells that it has open, and those of them that it is closing.
    open: BTreeSet<CellId>,
    closing: BTreeSet<CellId>,
    /// When its beat was last stored.
    beat_at: u64,
    was_given_up: bool,
}

struct World {
    now: u64,
    sequence: u64,
    rng: Rng,
    slow_percent: u64,
    /// Of 30 replacements: of so many the answer does not come, and so many land after they are waited for.
    lost: u64,
    cells: u16,
    events: BTreeMap<(u64, u64), (usize, Event)>,
    table: Option<MemberTable>,
    nodes: Vec<Simulated>,
    /// How often a cell went to a node from another one, or from nobody.
    changes: usize,
}

impl World {
    fn new(seed: u64, cells: u16) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            now: 1,
            sequence: 0,
            slow_percent: [0, 3, 20][rng.index(3)],
            lost: 1,
            rng,
            cells,
            events: BTreeMap::new(),
            table: None,
            nodes: Vec::new(),
            changes: 0,
        }
    }

    fn add_node(&mut self) {
        self.add_node_with_room(u16::MAX);
    }

    fn add_node_with_room(&mut self, room: u16) {
        let id = NodeId(u128::from(self.rng.next_u64()) << 32 | self.nodes.len() as u128);
        let reach = Some(NodeAddress::new("127.0.0.1:1".parse().unwrap(), Fingerprint([1; 32])));
        let node = Node { id, place: format!("at {id}"), reach };
        let joining = JoinRequest { pool: POOL, cells: self.cells, room, balances: true };
        let member = Member::new(node, joining).unwrap();
        self.nodes.push(Simulated {
            member,
            room,
            is_dead: false,
            sleeps_until: 0,
            cut_until: 0,
            leaves: false,
            open: BTreeSet::new(),
            closing: BTreeSet::new(),
            beat_at: 0,
            was_given_up: false,
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

    fn run_for(&mut self, duration: u64) {
        let end = self.now + duration;
        while let Some(((at, _), (node, event))) = self.events.pop_first() {
            if at > end {
                self.sequence += 1;
                self.events.insert((at, self.sequence), (node, event));
                break;
            }
            self.now = self.now.max(at);
            let at_store = matches!(event, Event::Look | Event::Replace(..));
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
            Event::Replace(table, is_awaited) => {
                let is_next = table.version == self.table.as_ref().map_or(0, |now| now.version) + 1;
                if is_next {
                    self.check_change(node, &table);
                    self.table = Some(MemberTable::decode(&table.encode()).unwrap());
                    self.nodes[node].beat_at = self.now;
                    self.check_left(node);
                }
                let is_lost = self.rng.chance(self.lost, 30);
                let heard = (!is_lost).then_some((is_next, table));
                if is_awaited {
                    self.after(node, latency, Event::Heard(heard));
                }
            }
            _ => unreachable!("an event of nodes"),
        }
    }

    fn at_node(&mut self, node: usize, event: Event) {
        let now = self.now;
        match event {
            Event::Ask => {
                let simulated = &mut self.nodes[node];
                if simulated.leaves {
                    simulated.open.clear();
                    simulated.member.leave();
                }
                if simulated.member.standing() == MemberState::Left {
                    return;
                }
                let latency = self.latency();
                self.after(node, latency, Event::Look);
            }
            Event::Answer(found) => {
                let member = &mut self.nodes[node].member;
                member.observe(found, now).unwrap();
                if member.standing() == MemberState::Left {
                    return self.check_left(node);
                }
                if let Some(table) = member.proposal().unwrap() {
                    self.send(node, table);
                } else if member.standing() == MemberState::GivenUp {
                    self.nodes[node].is_dead = true;
                    if !self.nodes[node].leaves {
                        let room = self.nodes[node].room;
                        self.add_node_with_room(room); // The same daemon, as another node.
                    }
                }
            }
            Event::Heard(heard) => {
                let was_refused = heard.as_ref().is_some_and(|(is_next, _)| !is_next);
                let accepted = heard.filter(|(is_next, _)| *is_next);
                let pause = if accepted.is_some() { BEAT_NS } else { self.rng.below(20 * MS) };
                if let Some((_, table)) = accepted {
                    self.nodes[node].member.accepted(*table);
                    self.serve(node);
                } else if was_refused {
                    self.nodes[node].member.refused();
                }
                self.check_left(node);
                self.after(node, pause, Event::Ask);
            }
            Event::Closed(cell) => {
                let simulated = &mut self.nodes[node];
                simulated.closing.remove(&cell);
                if simulated.open.remove(&cell) {
                    simulated.member.release(cell);
                }
            }
            _ => unreachable!("an event of the store"),
        }
    }

    /// A replacement gets on its way; one that is not waited for may land at any time.
    fn send(&mut self, node: usize, table: MemberTable) {
        let is_awaited = !self.rng.chance(self.lost, 30);
        let mut latency = self.latency();
        if !is_awaited {
            let waited = self.latency();
            self.after(node, waited, Event::Heard(None));
            latency += self.rng.below(SECOND);
        }
        self.after(node, latency, Event::Replace(Box::new(table), is_awaited));
    }

    /// MEMBER-5: who has left is not in the table.
    fn check_left(&self, node: usize) {
        let Simulated { member, is_dead, .. } = &self.nodes[node];
        if member.standing() == MemberState::Left && !is_dead {
            let table = self.table.as_ref();
            let is_in = table.is_some_and(|table| table.node(member.id()).is_some());
            assert!(!is_in, "MEMBER-5: {} has left {table:?}", member.id());
        }
    }

    /// Opens and closes what the table says, with its beat in it.
    fn serve(&mut self, node: usize) {
        let Simulated { member, open, closing, .. } = &mut self.nodes[node];
        let is_taken = open.iter().any(|cell| member.serves().all(|own| own != *cell));
        assert!(!is_taken, "TABLE-2: {open:?} of {} are not its own", member.id());
        open.extend(member.serves());
        let closed: Vec<_> = member.moves().filter(|cell| closing.insert(*cell)).collect();
        for cell in closed {
            let takes = self.rng.below(1500 * MS);
            self.after(node, takes, Event::Closed(cell));
        }
    }

    /// TABLE-1 and TABLE-2, and whether who was given up had been silent.
    fn check_change(&mut self, by: usize, after: &MemberTable) {
        let by_id = self.nodes[by].member.id();
        let before = self.table.clone().unwrap_or_else(|| MemberTable::of_cells(POOL, self.cells));
        for entry in &before.nodes {
            let id = entry.node.id;
            if after.node(id).is_none() && id != by_id {
                let gone = self.position(id);
                let silent_ns = self.now - self.nodes[gone].beat_at;
                assert!(silent_ns >= SILENCE_NS, "{id} was heard of {silent_ns} ns ago");
                self.nodes[gone].was_given_up = true;
            }
        }
        let have_room =
            |after: &MemberTable| after.nodes.iter().any(|entry| room(after, entry) > 0);
        for (cell, entry) in after.numbered() {
            assert!(entry.owner.is_some() || !have_room(after), "TABLE-1: {after:?}");
            for named in [entry.owner, entry.next].into_iter().flatten() {
                assert!(after.node(named).is_some(), "TABLE-1: {after:?}");
            }
            let owner = before.owner(cell);
            if owner == entry.owner {
                continue;
            }
            self.changes += 1;
            if let Some(owner) = owner.filter(|owner| after.node(*owner).is_some()) {
                let has_it_open = self.nodes[self.position(owner)].open.contains(&cell);
                assert!(!has_it_open && owner == by_id, "TABLE-2: {before:?} {after:?} by {by_id}");
            }
        }
        let moves = after.cells.iter().filter(|cell| cell.next.is_some()).count();
        assert!(moves <= 1, "TABLE-4: {after:?}");
    }

    fn position(&self, id: NodeId) -> usize {
        self.nodes.iter().position(|node| node.member.id() == id).unwrap()
    }

    /// Who serves the first cell.
    fn owner(&self) -> Option<usize> {
        Some(self.position(self.table.as_ref()?.owner(CellId::FIRST)?))
    }

    /// The cells are served by nodes that are there, spread evenly, nothing moves, and all nodes know it.
    fn check_calm(&self) {
        let table = self.table.as_ref().unwrap();
        let mut there = 0;
        for node in self.nodes.iter().filter(|node| !node.is_dead && !node.leaves) {
            there += 1;
            let own: BTreeSet<CellId> = own(table, node.member.id()).collect();
            let stands = if own.is_empty() { MemberState::StandsBy } else { MemberState::Owner };
            assert_eq!(node.member.standing(), stands);
            assert_eq!(node.open, own, "{table:?}");
            for (cell, entry) in table.numbered() {
                assert_eq!(node.member.owner(cell).map(|owner| owner.id), entry.owner);
            }
        }
        assert_eq!(table.nodes.len(), there, "{table:?}");
        assert!(table.cells.iter().all(|cell| cell.next.is_none()), "{table:?}");
        let counts = table.nodes.iter().map(|entry| own(table, entry.node.id).count());
        let most = counts.max().unwrap_or(0);
        for entry in table.nodes.iter().filter(|entry| room(table, entry) > 0) {
            assert!(table.cells.iter().all(|cell| cell.owner.is_some()), "TABLE-1: {table:?}");
            assert!(own(table, entry.node.id).count() + 1 >= most, "TABLE-4: {table:?}");
        }
    }

    fn alive(&mut self) -> Option<usize> {
        let alive: Vec<_> = (0..self.nodes.len())
            .filter(|node| !self.nodes[*node].is_dead && !self.nodes[*node].leaves)
            .collect();
        (alive.len() > 1).then(|| alive[self.rng.index(alive.len())])
    }
}

/// Cells of a node.
fn own(table: &MemberTable, node: NodeId) -> impl Iterator<Item = CellId> {
    let own = table.numbered().filter(move |(_, cell)| cell.owner == Some(node));
    own.map(|(cell, _)| cell)
}

/// For how many more cells a node has room: it does not have those that are to be moved to it.
fn room(table: &MemberTable, entry: &varve_membership::NodeEntry) -> usize {
    let id = Some(entry.node.id);
    let taken = table.cells.iter().filter(|cell| cell.owner == id).count();
    usize::from(entry.room) - taken
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed ^ 0xA5A5);
    let mut world = World::new(seed, [1, 2, 5, 16][rng.index(4)]);
    let rooms = [[u16::MAX, u16::MAX, 2, 6], [1, 2, 3, 5]][rng.index(2)];
    for _ in 0..1 + rng.below(3) {
        world.add_node_with_room(rooms[rng.index(4)]);
    }
    for _ in 0..rng.below(14) {
        let pause = [300, 3000, 12_000][rng.index(3)] * MS;
        world.run_for(rng.below(pause));
        let Some(node) = world.alive() else {
            world.add_node_with_room(rooms[rng.index(4)]);
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
            _ if world.nodes.len() < NODES => world.add_node_with_room(rooms[rng.index(4)]),
            _ => {}
        }
    }
    world.slow_percent = 0;
    world.run_for(120 * SECOND);
    world.check_calm();
}

#[test]
fn the_pool_is_served_whatever_happens() {
    let seeds = std::env::var("MEMBERSHIP_SEEDS").unwrap_or_else(|_| "0..2000".to_owned());
    let (first, last) = seeds.split_once("..").unwrap();
    for seed in first.parse().unwrap()..last.parse().unwrap() {
        if let Err(panic) = std::panic::catch_unwind(|| run(seed)) {
            eprintln!("seed {seed}: MEMBERSHIP_SEEDS={seed}..{}", seed + 1);
            std::panic::resume_unwind(panic);
        }
    }
}

/// Nodes that know each other.
fn calm(seed: u64, nodes: usize, cells: u16) -> World {
    let mut world = World::new(seed, cells);
    world.slow_percent = 0;
    for _ in 0..nodes {
        world.add_node();
    }
    world.run_for(90 * SECOND);
    world.check_calm();
    world
}

#[test]
fn a_killed_owner_is_followed_within_4_s() {
    for seed in 0..50 {
        let mut world = calm(seed, 3, 1);
        let killed = world.owner().unwrap();
        world.nodes[killed].is_dead = true;
        world.run_for(4 * SECOND);
        let owner = world.owner().unwrap();
        assert!(!world.nodes[owner].is_dead, "seed {seed}: {:?}", world.table);
        world.run_for(SECOND);
        world.check_calm();
    }
}

#[test]
fn a_cluster_that_stands_still_gives_nobody_up() {
    for seed in 0..50 {
        let mut world = calm(seed, 3, 1);
        let (owner, until) = (world.owner(), world.now + 60 * SECOND);
        world.nodes.iter_mut().for_each(|node| node.cut_until = until);
        world.run_for(90 * SECOND);
        world.check_calm();
        assert!(world.nodes.iter().all(|node| !node.was_given_up), "seed {seed}");
        assert_eq!(world.owner(), owner, "seed {seed}");
    }
}

#[test]
fn who_leaves_passes_the_pool_on_at_once_and_the_last_one_leaves_an_empty_table() {
    for seed in 0..50 {
        let mut world = calm(seed, 3, 1);
        for left in 1..=3 {
            let leaving = world.owner().unwrap();
            world.nodes[leaving].leaves = true;
            world.run_for(SECOND);
            assert_ne!(world.owner(), Some(leaving), "seed {seed}");
            world.run_for(SECOND);
            assert_eq!(world.nodes[leaving].member.standing(), MemberState::Left, "seed {seed}");
            if left < 3 {
                world.check_calm();
            }
        }
        assert_eq!(world.table.as_ref().unwrap().nodes, []);
    }
}

#[test]
fn nodes_that_join_at_once_are_all_in_within_a_second_as_who_they_are() {
    for seed in 0..50 {
        let mut world = World::new(seed, 1);
        (world.slow_percent, world.lost) = (0, 0);
        for _ in 0..10 {
            world.add_node();
        }
        world.run_for(SECOND);
        world.check_calm();
        assert_eq!(world.nodes.len(), 10, "seed {seed}: one came as another node");
    }
}

#[test]
fn who_joins_gets_its_share_and_no_more_moves() {
    for seed in 0..50 {
        let nodes = 1 + usize::try_from(seed % 4).unwrap();
        let mut world = calm(seed, nodes, 16);
        let before = world.changes;
        world.add_node();
        world.run_for(SETTLED_BEATS / 2 * BEAT_NS);
        assert_eq!(world.changes, before, "seed {seed}: it has not settled yet");
        world.run_for(60 * SECOND);
        world.check_calm();
        assert_eq!(world.changes - before, 16 / (nodes + 1), "seed {seed}");
        world.run_for(600 * SECOND);
        assert_eq!(world.changes - before, 16 / (nodes + 1), "seed {seed}: it is calm");
    }
}

#[test]
fn who_comes_and_goes_moves_nothing() {
    for seed in 0..20 {
        let mut world = calm(seed, 2, 8);
        let before = world.changes;
        for _ in 0..5 {
            world.add_node();
            world.run_for(SETTLED_BEATS / 2 * BEAT_NS);
            world.nodes.last_mut().unwrap().is_dead = true;
            world.run_for(10 * SECOND);
            world.check_calm();
        }
        assert_eq!(world.changes, before, "seed {seed}");
    }
}

#[test]
fn cells_of_a_killed_node_are_spread_within_4_s_and_others_stay() {
    for seed in 0..50 {
        let mut world = calm(seed, 4, 16);
        let (killed, before) = (world.owner().unwrap(), world.changes);
        world.nodes[killed].is_dead = true;
        world.run_for(4 * SECOND);
        world.run_for(SECOND);
        world.check_calm();
        assert_eq!(world.changes - before, 4, "seed {seed}: what it had");
    }
}
