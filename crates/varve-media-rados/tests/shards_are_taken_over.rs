//! Goal: nodes that take a shard from each other, while others are slow, cut off, paused or killed, lose nothing that
//! was acknowledged, answer nothing that was not true, and bring nothing back. Method: whole shards over the cluster in
//! memory, in simulated time, by seeds; a model of every block. `TAKEOVER_SEEDS=FIRST..LAST` chooses seeds.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use varve_dispatch::{Dispatch, HostConfig, JobSender, Placement, PoolLinks, PoolRoot, ShardHost};
use varve_engine::{OpenPool, PoolSpec, ReadPart, ShardConfig};
use varve_media::Media;
use varve_media_rados::{
    CellOf, JournalPlace, MemoryClient, MemoryCluster, Objects, PoolKind, RadosPool, RadosSpec,
};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, PoolId, ShardId, StreamId};

const POOL: PoolId = PoolId([7; 16]);
const SHARD: ShardId = ShardId(0);
const STREAM: StreamId = StreamId::new(1);
const BLOCK: usize = 4096;
const MS: u64 = 1_000_000;

/// Each writer has blocks of its own, one write at a time, so that a block has one history.
const WRITERS: usize = 3;
const BLOCKS: usize = 192;

/// Version of what a node writes that was replaced and does not know it.
const OF_NOBODY: u64 = 1 << 40;

/// Enough for short lives and long ones.
const STEPS_MAX: u64 = 10_000_000;

/// What is known of a block.
#[derive(Clone, Default, Debug)]
struct Known {
    /// What a read must find, or something later.
    floor: u64,
    /// What was written and not acknowledged since.
    pending: Vec<u64>,
    /// Owners, and what each found when it took over.
    found: Vec<(u64, u64)>,
}

/// The blocks, and the node that owns them.
#[derive(Default)]
struct Model {
    blocks: Vec<Known>,
    next_version: u64,
    owner: u64,
}

/// A process with the shard.
struct Node {
    number: u64,
    client: MemoryClient,
    host: Rc<ShardHost>,
}

type Shared = Rc<RefCell<Model>>;

fn spec() -> RadosSpec {
    RadosSpec {
        pool: POOL,
        created_unix_ms: 5,
        segment_bytes: 256 << 10,
        segment_count: 200,
        lane_bytes: 9 << 20,
        lane_count: 1,
        root_bytes_max: 1 << 20,
        journal: JournalPlace::Rados,
        cell: CellOf::WHOLE,
    }
}

fn pools(client: &MemoryClient) -> (Rc<dyn Objects>, Rc<dyn Objects>) {
    (client.objects("data").unwrap(), client.objects("meta").unwrap())
}

async fn claim(reactor: &Reactor, client: &MemoryClient) -> Media {
    let (data, meta) = pools(client);
    RadosPool::open(data, meta, POOL).await.unwrap().claim(reactor, SHARD, None).await.unwrap().0
}

async fn make(reactor: &Reactor, cluster: &MemoryCluster) {
    let client = cluster.client();
    let (data, meta) = pools(&client);
    RadosPool::make(&data, &meta, &spec()).await.unwrap();
    let media = [claim(reactor, &client).await];
    let spec = PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: 1, zones: None };
    OpenPool::format(&media, &spec).await.unwrap();
    media[0].fence.release().await.unwrap();
}

/// Takes the shard over, from whoever has it.
async fn open(reactor: &Reactor, cluster: &MemoryCluster, number: u64) -> Node {
    let client = cluster.client();
    let media = claim(reactor, &client).await;
    let pool = OpenPool::open(&media).await.unwrap();
    let shard =
        ShardConfig { checkpoint_entries: 300, ..ShardConfig::with_memory(POOL, SHARD, 32 << 20) };
    let placement = Placement::new(pool.placements());
    let links = PoolLinks { threads: vec![JobSender::new(reactor).0] };
    let dispatch = Dispatch::new(reactor.clone(), placement, links, Some(Rc::clone(&pool)));
    let config = HostConfig { reactor: reactor.clone(), media, shard, root: PoolRoot::Here(pool) };
    Node { number, client, host: ShardHost::open(config, &dispatch).await.unwrap() }
}

/// Fills `bytes` with what a version of a block is.
fn fill(bytes: &mut [u8], version: u64, block: usize) {
    if version > 0 {
        Rng::new(version * 1009 + block as u64).fill(bytes);
        bytes[..8].copy_from_slice(&version.to_le_bytes());
    } else {
        bytes.fill(0);
    }
}

/// The version that a block has; nothing when the host refuses.
async fn read(host: &ShardHost, block: usize) -> Option<u64> {
    let shard = host.shard().await.ok()?;
    let mut bytes = Vec::new();
    for part in shard.read(STREAM, ByteOffset((block * BLOCK) as u64), BLOCK).await.ok()? {
        match part {
            ReadPart::Zero(len) => bytes.resize(bytes.len() + len, 0),
            ReadPart::Data(data) => bytes.extend_from_slice(&data),
        }
    }
    let version = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    let mut expected = [0; BLOCK];
    fill(&mut expected, version, block);
    assert!(bytes == expected, "block {block} is a mixture, or of another place");
    Some(version)
}

/// A new owner has all that was acknowledged, and what it finds stays.
async fn verify(node: &Node, model: &Shared) {
    model.borrow_mut().owner = node.number;
    for block in 0..WRITERS * BLOCKS {
        let version = read(&node.host, block).await.expect("a new owner reads");
        let mut model = model.borrow_mut();
        let known = &mut model.blocks[block];
        assert!(
            version == known.floor || known.pending.contains(&version),
            "node {} finds {version} in block {block}: {known:?}",
            node.number
        );
        *known = Known { floor: version, pending: Vec::new(), ..std::mem::take(known) };
        known.found.push((node.number, version));
    }
}

/// Writes a version of some blocks; nothing when the host refuses.
async fn write(host: &ShardHost, first: usize, count: usize, version: u64) -> Option<()> {
    let mut data = AlignedBuf::scratch(count * BLOCK);
    for (bytes, block) in data.chunks_exact_mut(BLOCK).zip(first..) {
        fill(bytes, version, block);
    }
    let shard = host.shard().await.ok()?;
    shard.write(STREAM, ByteOffset((first * BLOCK) as u64), data.freeze()).await.ok()
}

/// Writes to its blocks until the node refuses; of a hundred writes so many are large.
async fn write_on(
    node: Rc<Node>,
    model: Shared,
    (writer, large_percent): (usize, u64),
    mut rng: Rng,
    reactor: Reactor,
) {
    let pause_ms = [5, 50, 400][rng.index(3)];
    let mut next = 0;
    loop {
        reactor.sleep(rng.below(pause_ms * MS)).await;
        let is_large = rng.chance(large_percent, 100);
        // As large as a segment is, it passes the lane by even if it is alone.
        let smaller = if large_percent == 100 { 0 } else { rng.below(3) };
        let count = if is_large { 64 >> smaller } else { 1 + rng.index(3) };
        // Large ones in a row, so that they pass the lane by.
        let first = if is_large { next } else { rng.index(BLOCKS) };
        let first = first.min(BLOCKS - count);
        next = (first + count) % BLOCKS;
        let blocks = writer * BLOCKS + first..writer * BLOCKS + first + count;
        let version = {
            let model = &mut *model.borrow_mut();
            if model.owner == node.number {
                model.next_version += 1;
                for known in &mut model.blocks[blocks.clone()] {
                    known.pending.push(model.next_version);
                }
                model.next_version
            } else {
                OF_NOBODY // Of a node that was replaced, and does not know it.
            }
        };
        if write(&node.host, blocks.start, count, version).await.is_none() {
            return;
        }
        let model = &mut *model.borrow_mut();
        for (block, known) in blocks.clone().zip(&mut model.blocks[blocks]) {
            // An answer may be late: what counts is what whoever came next found.
            match known.found.iter().find(|(owner, _)| *owner > node.number) {
                None => {
                    known.floor = version;
                    known.pending.clear();
                }
                Some((owner, found)) => assert!(
                    *found == version,
                    "node {} acknowledges {version} of block {block}; node {owner} found {found}",
                    node.number
                ),
            }
        }
    }
}

/// Reads blocks until the node refuses: nothing older than what was acknowledged when the read began.
async fn read_on(node: Rc<Node>, model: Shared, mut rng: Rng, reactor: Reactor) {
    loop {
        reactor.sleep(rng.below(300 * MS)).await;
        let block = rng.index(WRITERS * BLOCKS);
        let floor = model.borrow().blocks[block].floor;
        let Some(version) = read(&node.host, block).await else { return };
        assert!(
            version >= floor,
            "node {} answers {version} of block {block}, {floor} was acknowledged before",
            node.number
        );
    }
}

/// A network that is slow, or gone for a while.
async fn delay(node: Rc<Node>, is_over: Rc<Cell<bool>>, mut rng: Rng, reactor: Reactor) {
    while !is_over.get() {
        reactor.sleep(rng.below(700 * MS)).await;
        if is_over.get() {
            return;
        }
        if rng.below(2) == 0 {
            node.client.hold()
        } else {
            node.client.hold_answers()
        }
        let long = rng.below(8) == 0;
        reactor.sleep(rng.below(if long { 6000 } else { 30 } * MS)).await;
        node.client.let_go_first(rng.index(4));
        reactor.sleep(rng.below(20 * MS)).await;
        if is_over.get() {
            return;
        }
        node.client.let_go();
    }
}

/// How many nodes took over.
async fn lives(reactor: Reactor, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let cluster = MemoryCluster::new();
    cluster.make_pool("data", PoolKind::Erasure { stripe_bytes: 16 << 10 });
    cluster.make_pool("meta", PoolKind::Replicated);
    make(&reactor, &cluster).await;
    let model = Shared::default();
    model.borrow_mut().blocks = vec![Known::default(); WRITERS * BLOCKS];
    let mut paused: Vec<Rc<Node>> = Vec::new();
    let nodes = 3 + rng.below(4);
    for number in 1..=nodes {
        let node = Rc::new(open(&reactor, &cluster, number).await);
        verify(&node, &model).await;
        let is_over = Rc::new(Cell::new(false));
        // Large writes alone leave the lane empty, a few small ones leave the chains where they are.
        let large_percent = [0, 25, 100][rng.index(3)];
        for writer in 0..WRITERS {
            if rng.below(4) > 0 {
                reactor.spawn(write_on(
                    Rc::clone(&node),
                    Rc::clone(&model),
                    (writer, large_percent),
                    rng.split(),
                    reactor.clone(),
                ));
            }
        }
        reactor.spawn(read_on(Rc::clone(&node), Rc::clone(&model), rng.split(), reactor.clone()));
        if rng.below(2) == 0 {
            reactor.spawn(delay(
                Rc::clone(&node),
                Rc::clone(&is_over),
                rng.split(),
                reactor.clone(),
            ));
        }
        let longest_ms = [50, 500, 3000][rng.index(3)];
        reactor.sleep(rng.below(longest_ms * MS)).await;
        // What earlier nodes had under way lands now, all or the first of it.
        for earlier in &paused {
            match rng.below(3) {
                0 => earlier.client.let_go_first(rng.index(6)),
                1 => earlier.client.let_go(),
                _ => {}
            }
        }
        reactor.sleep(rng.below(500 * MS)).await;
        is_over.set(true);
        match rng.below(4) {
            0 => {
                node.client.let_go();
                let _it_may_have_failed = node.host.close().await;
                let _so_may_this = node.host.give_back().await;
            }
            1 => {}                  // It goes on, and is replaced while it does.
            _ => node.client.hold(), // Killed or paused: what it has under way may land later.
        }
        paused.push(node);
    }
    let last = open(&reactor, &cluster, u64::MAX).await;
    verify(&last, &model).await;
    for earlier in &paused {
        earlier.client.let_go();
    }
    reactor.sleep(5000 * MS).await;
    verify(&last, &model).await;
    nodes
}

/// The takeovers of a seed.
fn run(seed: u64) -> u64 {
    let mut sim = SimLoop::new(seed);
    let reactor = sim.handle();
    let done = sim.try_run_until(lives(reactor, seed), STEPS_MAX);
    done.unwrap_or_else(|| {
        panic!("seed {seed} waits for ever, or takes more than {STEPS_MAX} steps")
    })
}

/// What a former owner put where its successor's chain goes on is not believed, however late it lands.
#[test]
fn a_late_segment_is_no_link_of_the_successors_chain() {
    let mut sim = SimLoop::new(1);
    let reactor = sim.handle();
    let late_and_small = async move {
        let cluster = MemoryCluster::new();
        cluster.make_pool("data", PoolKind::Erasure { stripe_bytes: 16 << 10 });
        cluster.make_pool("meta", PoolKind::Replicated);
        make(&reactor, &cluster).await;
        let first = open(&reactor, &cluster, 1).await;
        write(&first.host, 0, 64, 1).await.unwrap();
        reactor.sleep(2000 * MS).await;
        first.client.hold();
        let late = Rc::clone(&first.host);
        reactor.spawn(async move {
            assert!(
                write(&late, 64, 64, 2).await.is_none(),
                "acknowledged by whom it was taken from"
            );
        });
        let second = open(&reactor, &cluster, 2).await;
        write(&second.host, 300, 1, 3).await.unwrap();
        first.client.let_go();
        reactor.sleep(10 * MS).await;
        second.client.hold();
        let third = open(&reactor, &cluster, 3).await;
        (read(&third.host, 64).await.unwrap(), read(&third.host, 300).await.unwrap())
    };
    assert_eq!(sim.try_run_until(late_and_small, STEPS_MAX), Some((0, 3)));
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_comes_back() {
    let seeds = std::env::var("TAKEOVER_SEEDS").unwrap_or_else(|_| "0..60".to_owned());
    let (first, last) = seeds.split_once("..").unwrap();
    let mut takeovers = 0;
    for seed in first.parse().unwrap()..last.parse().unwrap() {
        takeovers += std::panic::catch_unwind(|| run(seed)).unwrap_or_else(|panic| {
            eprintln!("seed {seed}: TAKEOVER_SEEDS={seed}..{}", seed + 1);
            std::panic::resume_unwind(panic);
        });
    }
    eprintln!("{takeovers} takeovers");
}
