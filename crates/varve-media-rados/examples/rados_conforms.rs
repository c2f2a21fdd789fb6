//! Runs the conformance suite of media, and a takeover, on a real cluster:
//! `rados_conforms CEPH_CONF USER DATA_POOL META_POOL`.
//!
//! Makes a pool of Varve with an identity of its own; prints what it did, and how long appends and puts took.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::print_stdout, reason = "tells what was measured")]

use std::time::{Instant, SystemTime};

use varve_media::{Media, RootKey, RootVersion, SegmentId, conformance};
use varve_media_rados::{CellOf, Cluster, ClusterOptions, JournalPlace, RadosPool, RadosSpec};
use varve_membership::MemberTable;
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_stdx::{Rng, checksum64};
use varve_types::{ErrorKind, Generation, PoolId, SegmentNumber, ShardId};

const SHARD: ShardId = ShardId(1);

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [config, user, data, meta] = <[String; 4]>::try_from(arguments).expect("four arguments");
    let options = ClusterOptions { config, user };
    let mut event_loop = Loop::new(LoopConfig::default()).unwrap();
    let reactor = event_loop.handle();
    event_loop.run(async move { run(&reactor, &options, &data, &meta).await });
    println!("conforms");
}

async fn run(reactor: &Reactor, options: &ClusterOptions, data: &str, meta: &str) {
    let cluster = Cluster::connect(options).unwrap();
    let (data, meta) = (cluster.objects(data).unwrap(), cluster.objects(meta).unwrap());
    let segment_bytes = RadosSpec::segment_bytes_for(data.alignment(), 4 << 20).unwrap();
    println!("stripe {} B, segments {segment_bytes} B", data.alignment());
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&checksum64(&now.as_nanos().to_le_bytes()).to_le_bytes());
    let spec = RadosSpec {
        pool: PoolId(identity),
        created_unix_ms: 0,
        segment_bytes,
        segment_count: 1024,
        lane_bytes: 16 << 20,
        lane_count: 2,
        root_bytes_max: 256 << 10,
        journal: JournalPlace::Rados,
        cell: CellOf::WHOLE,
    };
    RadosPool::make(&data, &meta, &spec).await.unwrap();
    assert!(RadosPool::find(&*meta).await.unwrap().contains(&spec.pool.to_string()));
    let pool = RadosPool::open(data, meta, spec.pool).await.unwrap();
    let (media, claim) = pool.claim(reactor, SHARD, None).await.unwrap();
    println!("claimed with epoch {}", claim.epoch());
    conformance::all(&media, RootKey::Shard(SHARD)).await;
    nodes(&pool).await;
    measure(&media, segment_bytes).await;
    takeover(reactor, &pool, &media, options).await;
}

/// The table of nodes is made once, and replaced at its version only.
async fn nodes(pool: &RadosPool) {
    let (store, id) = (pool.nodes(), pool.spec().pool);
    assert_eq!(store.read().await, Ok(None));
    let table = |version| MemberTable { version, ..MemberTable::new(id) };
    assert_eq!(store.replace(table(2)).await, Ok(false), "there is none to replace");
    for version in 1..=3 {
        let begin = Instant::now();
        assert_eq!(store.replace(table(version)).await, Ok(true));
        println!("table of nodes {version} after {:?}", begin.elapsed());
        assert_eq!(store.replace(table(version)).await, Ok(false), "it was replaced already");
        assert_eq!(store.read().await, Ok(Some(table(version))));
    }
}

/// One after another: what a lone client waits for.
async fn measure(media: &Media, segment_bytes: u32) {
    let mut rng = Rng::new(1);
    let (frame, segment) = (
        conformance::noise(&mut rng, 64 << 10),
        conformance::noise(&mut rng, segment_bytes as usize),
    );
    let mut appends: Vec<_> = Vec::new();
    for at in 0..50 {
        let begin = Instant::now();
        media.journal.append(at * frame.len() as u64, frame.clone()).await.unwrap();
        appends.push(begin.elapsed());
    }
    let mut puts = Vec::new();
    for generation in 1..20 {
        let id = SegmentId { number: SegmentNumber(9), generation: Generation::new(generation) };
        let begin = Instant::now();
        media.segments.put(id, segment.clone()).await.unwrap();
        puts.push(begin.elapsed());
        let read = media.segments.get(id, 8192, 4096).await.unwrap();
        assert_eq!(*read, segment[8192..12288]);
        media.segments.delete(id).await.unwrap();
    }
    appends.sort();
    puts.sort();
    println!("append of 64 KiB p50 {:?}, put of {segment_bytes} B p50 {:?}", appends[25], puts[9]);
}

/// Another process takes the shard; the first one is refused from then on.
async fn takeover(reactor: &Reactor, pool: &RadosPool, before: &Media, options: &ClusterOptions) {
    let (data, meta) = pool.objects();
    let other = Cluster::connect(options).unwrap();
    let objects = |name: &str| other.objects(name).unwrap();
    let other_pool = RadosPool::open(objects(data.pool()), objects(meta.pool()), pool.spec().pool);
    let (after, claim) = other_pool.await.unwrap().claim(reactor, SHARD, None).await.unwrap();
    println!("taken over with epoch {}", claim.epoch());
    let frame = conformance::noise(&mut Rng::new(2), 4096);
    let refused = before.journal.append(0, frame.clone()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Fenced);
    let key = RootKey::Shard(SHARD);
    let (version, bytes) = after.roots.read(key).await.unwrap();
    assert!(version > RootVersion(0));
    let refused = before.roots.replace(key, version, vec![1]).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Fenced);
    assert_eq!(after.roots.read(key).await.unwrap(), (version, bytes));
    after.journal.append(0, frame).await.unwrap();
}
