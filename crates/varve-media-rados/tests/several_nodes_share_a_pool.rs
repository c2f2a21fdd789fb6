//! Goal: several nodes share the shards of a pool, and whatever becomes of nodes, nothing that was acknowledged is lost, nothing old is answered, and once
//! it is calm every shard is served again. Method: whole shards, opened and closed by keepers as the table of nodes says, over the cluster in memory, in
//! simulated time, by seeds; nodes join, leave, are paused, cut off and killed; a model of every block. `NODES_SEEDS=FIRST..LAST` chooses seeds.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::{Either, LocalBoxFuture, select};
use varve_dispatch::nodes::{Claimed, Keeper, KeeperConfig, ShardSource};
use varve_dispatch::{Error, PoolRoot, ShardHost};
use varve_engine::{Pool, PoolSpec, ReadPart, ShardConfig};
use varve_media::Media;
use varve_media_rados::{
    JournalPlace, MemoryClient, MemoryCluster, Objects, PoolKind, RadosPool, RadosSpec,
};
use varve_membership::{Fingerprint, Member, Node, NodeId, Standing};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{PoolId, ShardId, StreamId};

const POOL: PoolId = PoolId([7; 16]);
const STREAM: StreamId = StreamId::new(1);
const BLOCK: usize = 4096;
const MS: u64 = 1_000_000;
const SHARDS: u16 = 4;
/// Of each shard; each has one writer.
const BLOCKS: usize = 48;
const STEPS_MAX: u64 = 30_000_000;

/// What is known of a block.
#[derive(Clone, Default, Debug)]
struct Known {
    /// What a read must find, or something later.
    floor: u64,
    /// The last that was written.
    last: u64,
}

struct Process {
    client: MemoryClient,
    keeper: Rc<Keeper>,
    /// It was killed: it does nothing that anybody hears of.
    is_gone: Cell<bool>,
    leaves: Cell<bool>,
}

struct World {
    reactor: Reactor,
    cluster: MemoryCluster,
    nodes: RefCell<Vec<Rc<Process>>>,
    blocks: RefCell<Vec<Known>>,
    is_over: Cell<bool>,
    acknowledged: Cell<u64>,
    rng: RefCell<Rng>,
}

fn spec() -> RadosSpec {
    RadosSpec {
        pool: POOL,
        created_unix_ms: 5,
        segment_bytes: 256 << 10,
        segment_count: 400,
        lane_bytes: 5 << 20,
        lane_count: SHARDS,
        root_bytes_max: 1 << 20,
        journal: JournalPlace::Rados,
    }
}

async fn open(client: &MemoryClient) -> RadosPool {
    let (data, meta) = (client.objects("data").unwrap(), client.objects("meta").unwrap());
    RadosPool::open(data, meta, POOL).await.unwrap()
}

async fn make(reactor: &Reactor, cluster: &MemoryCluster) {
    cluster.make_pool("data", PoolKind::Erasure { stripe_bytes: 16 << 10 });
    cluster.make_pool("meta", PoolKind::Replicated);
    let client = cluster.client();
    let (data, meta): (Rc<dyn Objects>, Rc<dyn Objects>) =
        (client.objects("data").unwrap(), client.objects("meta").unwrap());
    RadosPool::make(&data, &meta, &spec()).await.unwrap();
    let pool = open(&client).await;
    let mut media: Vec<Media> = Vec::new();
    for shard in (0..SHARDS).map(ShardId) {
        media.push(pool.claim(reactor, shard, None).await.unwrap().0);
    }
    let spec = PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: SHARDS };
    Pool::format(&media, &spec).await.unwrap();
    for media in media {
        media.fence.release().await.unwrap();
    }
}

struct Source {
    reactor: Reactor,
    client: MemoryClient,
}

impl ShardSource for Source {
    fn claim(&self, shard: ShardId) -> LocalBoxFuture<'static, Result<Claimed, Error>> {
        let (reactor, client) = (self.reactor.clone(), self.client.clone());
        Box::pin(async move {
            let failed = |reason: String| Error::ShardClosed { shard, reason };
            let claimed = open(&client).await.claim(&reactor, shard, None).await;
            let (media, claim) = claimed.map_err(|error| failed(error.to_string()))?;
            let pool =
                Pool::open_shared(&media).await.map_err(|error| failed(error.to_string()))?;
            let config = ShardConfig {
                checkpoint_entries: 300,
                ..ShardConfig::with_memory(POOL, shard, 24 << 20)
            };
            Ok(Claimed { media, epoch: claim.epoch(), root: PoolRoot::Here(pool), shard: config })
        })
    }
}

impl World {
    async fn join(&self) {
        let client = self.cluster.client();
        let store = open(&client).await.nodes();
        let id = NodeId(u128::from(self.rng.borrow_mut().next_u64()));
        let node = Node { id, address: "node:1".to_owned(), fingerprint: Fingerprint([0; 32]) };
        let reactor = self.reactor.clone();
        let source = Rc::new(Source { reactor: reactor.clone(), client: client.clone() });
        let member = Member::new(node, POOL, SHARDS).unwrap();
        let keeper = Keeper::start(KeeperConfig { reactor, store, source, member });
        self.nodes.borrow_mut().push(Rc::new(Process {
            client,
            keeper,
            is_gone: Cell::new(false),
            leaves: Cell::new(false),
        }));
    }

    /// A node that is not known to be gone, at random.
    fn somebody(&self) -> Option<Rc<Process>> {
        let nodes = self.nodes.borrow();
        let there: Vec<_> =
            nodes.iter().filter(|node| !node.is_gone.get() && !node.leaves.get()).collect();
        let at = self.rng.borrow_mut().index(there.len().max(1));
        there.get(at).map(|node| Rc::clone(node))
    }

    /// The host of a shard, as a random node knows it.
    fn route(&self, shard: ShardId) -> Option<Rc<ShardHost>> {
        let owner = self
            .somebody()?
            .keeper
            .with_member(|member| member.shard(shard).and_then(|entry| entry.owner))?;
        let nodes = self.nodes.borrow();
        let owner =
            nodes.iter().find(|node| node.keeper.with_member(|member| member.id()) == owner)?;
        // Nobody hears of a killed one.
        owner.keeper.host(shard).filter(|_| !owner.is_gone.get()).map(|(host, _)| host)
    }

    /// Waits for an outcome as long as a client does.
    async fn patiently<T>(&self, work: impl Future<Output = Option<T>>) -> Option<T> {
        match select(Box::pin(work), Box::pin(self.reactor.sleep(9000 * MS))).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => None,
        }
    }
}

fn contents(version: u64, block: usize) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if version > 0 {
        Rng::new(version * 1009 + block as u64).fill(&mut bytes);
        bytes[..8].copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

async fn read(host: &ShardHost, block: usize) -> Option<u64> {
    let shard = host.shard().await.ok()?;
    let mut bytes = Vec::new();
    for part in shard.read(STREAM, (block * BLOCK) as u64, BLOCK).await.ok()? {
        match part {
            ReadPart::Zero(len) => bytes.resize(bytes.len() + len, 0),
            ReadPart::Data(data) => bytes.extend_from_slice(&data),
        }
    }
    let version = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    assert!(bytes == contents(version, block), "block {block} is a mixture, or of another place");
    Some(version)
}

async fn write(host: Rc<ShardHost>, block: usize, version: u64) -> Option<()> {
    let shard = host.shard().await.ok()?;
    let data = AlignedBuf::from_slice(&contents(version, block)).freeze();
    shard.write(STREAM, (block * BLOCK) as u64, data).await.ok()
}

/// Writes to a shard's blocks, each write through whoever has the shard; a client of that node that gives up after a while.
async fn write_on(world: Rc<World>, shard: ShardId, mut rng: Rng) {
    let mut version = 0;
    while !world.is_over.get() {
        world.reactor.sleep(rng.below(60 * MS)).await;
        let Some(host) = world.route(shard) else { continue };
        let block = usize::from(shard.0) * BLOCKS + rng.index(BLOCKS);
        version += 1;
        world.blocks.borrow_mut()[block].last = version;
        if world.patiently(write(host, block, version)).await.is_some() {
            world.blocks.borrow_mut()[block].floor = version;
            world.acknowledged.set(world.acknowledged.get() + 1);
        }
    }
}

/// Reads through whoever has the shard: nothing older than what was acknowledged when the read began.
async fn read_on(world: Rc<World>, mut rng: Rng) {
    while !world.is_over.get() {
        world.reactor.sleep(rng.below(100 * MS)).await;
        let block = rng.index(usize::from(SHARDS) * BLOCKS);
        let shard = ShardId(u16::try_from(block / BLOCKS).unwrap());
        let Some(host) = world.route(shard) else { continue };
        let floor = world.blocks.borrow()[block].floor;
        if let Some(version) = world.patiently(read(&host, block)).await {
            check(&world, block, floor, version);
        }
    }
}

fn check(world: &World, block: usize, floor: u64, version: u64) {
    let last = world.blocks.borrow()[block].last;
    assert!(
        (floor..=last).contains(&version),
        "block {block} has {version}; {floor} was acknowledged, {last} is the last one"
    );
}

/// Something that happens to a node.
async fn trouble(world: &World, rng: &mut Rng) {
    let Some(node) = world.somebody() else { return world.join().await };
    let longest = [400, 4000, 12_000][rng.index(3)] * MS;
    let long = rng.below(longest);
    match rng.below(6) {
        0 => {
            node.client.hold(); // Killed: what it has under way may land later.
            node.is_gone.set(true);
            world.reactor.sleep(long).await;
            node.client.let_go_first(rng.index(6));
        }
        1 => {
            node.client.hold(); // Paused, or cut off from the cluster.
            world.reactor.sleep(long).await;
            node.client.let_go();
        }
        2 => {
            node.client.hold_answers();
            world.reactor.sleep(long).await;
            node.client.let_go();
        }
        3 => {
            node.leaves.set(true);
            let keeper = Rc::clone(&node.keeper);
            world.reactor.spawn(async move { keeper.leave().await });
        }
        _ if world.nodes.borrow().len() < 9 => world.join().await,
        _ => {}
    }
}

/// Every shard is served by a node that is there, and evenly; and has everything.
async fn calm(world: &World) {
    let nodes: Vec<_> = world.nodes.borrow().clone();
    for node in &nodes {
        node.client.let_go();
    }
    world.join().await; // Perhaps nobody is left.
    world.reactor.sleep(40_000 * MS).await;
    for node in nodes.iter().filter(|node| node.leaves.get()) {
        let standing = node.keeper.standing();
        assert!(matches!(standing, Standing::Left | Standing::GivenUp), "{standing:?}");
    }
    let there: Vec<_> = world.nodes.borrow().clone();
    let mut loads = Vec::new();
    for node in there.iter().filter(|node| node.keeper.standing() == Standing::Inside) {
        loads.push((0..SHARDS).filter(|shard| node.keeper.host(ShardId(*shard)).is_some()).count());
    }
    let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
    assert!(most - least <= 1 && loads.iter().sum::<usize>() == usize::from(SHARDS), "{loads:?}");
    for block in 0..usize::from(SHARDS) * BLOCKS {
        let shard = ShardId(u16::try_from(block / BLOCKS).unwrap());
        let mut hosts = there.iter().filter_map(|node| node.keeper.host(shard));
        let (host, _) = hosts.next().expect("the shard is served");
        let version = read(&host, block).await.expect("a shard that is served is read");
        let floor = world.blocks.borrow()[block].floor;
        check(world, block, floor, version);
    }
}

async fn lives(reactor: Reactor, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let cluster = MemoryCluster::new();
    make(&reactor, &cluster).await;
    let world = Rc::new(World {
        reactor: reactor.clone(),
        cluster,
        nodes: RefCell::default(),
        blocks: RefCell::new(vec![Known::default(); usize::from(SHARDS) * BLOCKS]),
        is_over: Cell::new(false),
        acknowledged: Cell::new(0),
        rng: RefCell::new(rng.split()),
    });
    for _ in 0..2 + rng.below(2) {
        world.join().await;
    }
    for shard in (0..SHARDS).map(ShardId) {
        reactor.spawn(write_on(Rc::clone(&world), shard, rng.split()));
    }
    for _ in 0..2 {
        reactor.spawn(read_on(Rc::clone(&world), rng.split()));
    }
    reactor.sleep(3000 * MS).await;
    for _ in 0..2 + rng.below(5) {
        trouble(&world, &mut rng).await;
        let pause = [200, 2000, 9000][rng.index(3)];
        reactor.sleep(rng.below(pause * MS)).await;
    }
    calm(&world).await;
    world.is_over.set(true);
    reactor.sleep(10_000 * MS).await;
    let nodes: Vec<_> = world.nodes.borrow().clone();
    let last = nodes.last().unwrap();
    assert_eq!(last.keeper.standing(), Standing::Inside);
    world.acknowledged.get()
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
