//! Small pools on a memory disk.

use std::rc::Rc;

use varve_engine::{Error, OpenPool, Peers, PoolSpec, PoolZones, Shard, ShardConfig, ShardParts};
use varve_media::{Disk, Drive, DriveDisks, DriveOptions, DriveSpec, Media, MemDisk};
use varve_reactor::Reactor;
use varve_types::{PoolId, Reduction, ShardId};

/// Bytes of a MiB.
pub(crate) const MIB: u64 = 1 << 20;

/// One shape of a small pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Segments of the drive.
    pub(crate) segments: u64,
    /// Bytes of one.
    pub(crate) segment_bytes: u32,
    /// Bytes of a lane.
    pub(crate) lane_bytes: u64,
    /// Memory of a shard.
    pub(crate) memory_bytes: u64,
    /// Replay bound.
    pub(crate) checkpoint_entries: u64,
    /// Blocks of a write at most.
    pub(crate) write_blocks_max: u64,
    /// Bytes that are written at random, of a hundred of the drive's.
    pub(crate) volume_percent: u64,
    /// How blocks are reduced.
    pub(crate) reduction: Reduction,
    /// Bytes of the index of stored blocks.
    pub(crate) index_bytes: usize,
}

/// A pool of 24 MiB with little room beside a volume of half of it: reclaim and checkpoints are always at work.
pub(crate) const CROWDED: Shape = Shape {
    segments: 96,
    segment_bytes: 256 << 10,
    lane_bytes: MIB,
    memory_bytes: 16 * MIB,
    checkpoint_entries: 400,
    write_blocks_max: 1,
    volume_percent: 50,
    reduction: Reduction::OFF,
    index_bytes: 1 << 10,
};

/// Identity of the pool.
pub(crate) const POOL: PoolId = PoolId([7; 16]);

/// Formats the disk and, if it is large enough for the shards, a pool on it.
pub(crate) async fn format(
    disk: &MemDisk,
    shape: Shape,
    shards: u16,
) -> (Vec<Media>, Result<(), Error>) {
    format_on(&(Rc::new(disk.clone()) as Rc<dyn Disk>), shape, shards).await
}

/// As [`format`], on any disk.
pub(crate) async fn format_on(
    disk: &Rc<dyn Disk>,
    shape: Shape,
    shards: u16,
) -> (Vec<Media>, Result<(), Error>) {
    let media = media_on(disk, shape, shards).await;
    let spec = PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: shards, zones: None };
    let made = OpenPool::format(&media, &spec).await;
    (media, made)
}

/// Formats the disk alone.
pub(crate) async fn media_on(disk: &Rc<dyn Disk>, shape: Shape, shards: u16) -> Vec<Media> {
    let spec = DriveSpec {
        segment_bytes: shape.segment_bytes,
        lane_bytes: shape.lane_bytes,
        ..DriveSpec::new(POOL, shards)
    };
    let disks = || vec![DriveDisks::One(Rc::clone(disk))];
    Drive::format(&disks(), &spec).await.expect("format the drive");
    let drive =
        Drive::open(disks(), DriveOptions { discard: false }).await.expect("open the drive");
    (0..shards).map(|shard| drive.media(ShardId(shard)).expect("a lane each")).collect()
}

/// Makes a pool and opens its shards.
pub(crate) async fn open(
    reactor: &Reactor,
    disk: &MemDisk,
    shape: Shape,
    shards: u16,
) -> Vec<Rc<Shard>> {
    let (media, made) = format(disk, shape, shards).await;
    made.expect("format the pool");
    open_media(reactor, media, shape).await
}

/// Opens the shards of a pool, through recovery.
pub(crate) async fn open_media(
    reactor: &Reactor,
    media: Vec<Media>,
    shape: Shape,
) -> Vec<Rc<Shard>> {
    open_with_peers(reactor, media, shape, |_| None).await
}

/// As [`open_media`], of shards that know others.
pub(crate) async fn open_with_peers(
    reactor: &Reactor,
    media: Vec<Media>,
    shape: Shape,
    peers: impl Fn(ShardId) -> Option<Rc<dyn Peers>>,
) -> Vec<Rc<Shard>> {
    open_configured(reactor, media, shape, peers, |_| {}).await
}

/// The same, with shards that are told something else.
pub(crate) async fn open_configured(
    reactor: &Reactor,
    media: Vec<Media>,
    shape: Shape,
    peers: impl Fn(ShardId) -> Option<Rc<dyn Peers>>,
    change: impl Fn(&mut ShardConfig),
) -> Vec<Rc<Shard>> {
    let pool = OpenPool::open(&media[0]).await.expect("open the pool");
    let mut opened = Vec::new();
    for (shard, media) in (0..).map(ShardId).zip(media) {
        let shard = try_open(reactor, &pool, media, shape, shard, peers(shard), &change).await;
        opened.push(shard.expect("open the shard"));
    }
    opened
}

/// Opens one shard of a pool.
pub(crate) async fn try_open(
    reactor: &Reactor,
    pool: &Rc<OpenPool>,
    media: Media,
    shape: Shape,
    shard: ShardId,
    peers: Option<Rc<dyn Peers>>,
    change: impl Fn(&mut ShardConfig),
) -> Result<Rc<Shard>, Error> {
    let mut config = ShardConfig::with_memory(POOL, shard, shape.memory_bytes);
    config.checkpoint_entries = shape.checkpoint_entries;
    config.reduction = shape.reduction;
    config.dedup_index_bytes = shape.index_bytes;
    change(&mut config);
    Shard::open(ShardParts {
        reactor: reactor.clone(),
        media,
        config,
        zones: Rc::new(PoolZones::new(Rc::clone(pool), shard)),
        owned: pool.zones_of(shard).await?,
        peers,
    })
    .await
}

/// A memory disk for a pool.
pub(crate) fn disk_for(shape: Shape, shards: u64) -> MemDisk {
    let segments = shape.segments * u64::from(shape.segment_bytes);
    MemDisk::new("memory", segments + shards * shape.lane_bytes + 8 * MIB)
}
