//! The check of a serving shard bites: a chunk that dies while a copy names it is found, and nothing is found where
//! none does.

use std::rc::Rc;

use varve_engine::{
    BLOCK_BYTES, CheckProgress, CutId, CutPair, OpenPool, PoolSpec, PoolZones, References, Shard,
    ShardConfig, ShardParts,
};
use varve_logstore::planted::{Bug, plant};
use varve_media::{Disk, Drive, DriveDisks, DriveOptions, DriveSpec, MemDisk};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{BlockIndex, ByteOffset, PoolId, ShardId, StreamId};

const MIB: u64 = 1 << 20;
const POOL: PoolId = PoolId([7; 16]);
const SEGMENT_BYTES: u32 = 256 << 10;
const LANE_BYTES: u64 = 4 * MIB;
const SOURCE: StreamId = StreamId::new(1);
const COPY: StreamId = StreamId::new(2);

/// A shard of a new pool in memory.
async fn shard(reactor: &Reactor) -> Rc<Shard> {
    let disk = MemDisk::new("memory", 100 * u64::from(SEGMENT_BYTES) + LANE_BYTES + 8 * MIB);
    let disks = || vec![DriveDisks::One(Rc::new(disk.clone()) as Rc<dyn Disk>)];
    let spec = DriveSpec {
        segment_bytes: SEGMENT_BYTES,
        lane_bytes: LANE_BYTES,
        ..DriveSpec::new(POOL, 1)
    };
    Drive::format(&disks(), &spec).await.expect("format the drive");
    let drive = Drive::open(disks(), DriveOptions { discard: false }).await.expect("open it");
    let media = drive.media(ShardId(0)).expect("a lane");
    let spec = PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: 1, zones: None };
    OpenPool::format(std::slice::from_ref(&media), &spec).await.expect("format the pool");
    let pool = OpenPool::open(&media).await.expect("open the pool");
    let parts = ShardParts {
        reactor: reactor.clone(),
        media,
        config: ShardConfig::with_memory(POOL, ShardId(0), 64 * MIB),
        owned: pool.zones_of(ShardId(0)).await.expect("the root is read"),
        peers: None,
        zones: Rc::new(PoolZones::new(pool, ShardId(0))),
    };
    Shard::open(parts).await.expect("open the shard")
}

async fn write(shard: &Shard, seed: u64) {
    let mut bytes = vec![0; 64 * BLOCK_BYTES];
    Rng::new(seed).fill(&mut bytes);
    shard
        .write(SOURCE, ByteOffset(0), AlignedBuf::from_slice(&bytes).freeze())
        .await
        .expect("write");
    shard.apply_acknowledged().await.expect("apply");
}

/// Overwrites what a copy holds, and checks.
fn checked(bug: Option<Bug>) -> References {
    let mut sim = SimLoop::new(5);
    let reactor = sim.handle();
    let done = sim.try_run_until(
        async move {
            let shard = shard(&reactor).await;
            write(&shard, 1).await;
            let (id, pair) = (CutId(COPY.get()), CutPair { source: SOURCE, copy: COPY });
            shard.cut(id, &[pair]).await.expect("cut");
            shard.release_cut(id);
            shard.apply_acknowledged().await.expect("apply");
            plant(bug);
            write(&shard, 2).await;
            shard.checkpoint().await.expect("checkpoint");
            plant(None);
            let progress = CheckProgress::default();
            let streams = [SOURCE, COPY];
            shard.check_references(&streams, &progress).await.expect("check")
        },
        u64::MAX,
    );
    done.expect("the test waits for nothing for ever")
}

#[test]
fn what_dies_under_a_copy_is_found() {
    let sound = checked(None);
    assert_eq!((sound.dangling, sound.unreadable.len()), (0, 0), "{:?}", sound.found);
    assert!(sound.followed >= 128, "both streams were followed: {}", sound.followed);
    let damaged = checked(Some(Bug::CopiedChunkDies));
    assert_eq!(damaged.dangling, 64, "{:?}", damaged.found);
    let found = damaged.found.iter().map(|dangling| (dangling.stream, dangling.block));
    assert!(found.eq((0..64).map(|block| (Some(COPY), Some(BlockIndex(block))))));
}
