//! What is written is read back, however it is reduced, and takes the space that it should.

use std::rc::Rc;

use crate::pool::{MIB, Shape, disk_for, format, open_media};
use hashbrown::HashSet;
use varve_engine::{BLOCK_BYTES, ReadPart, Shard};
use varve_media::Media;
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, ByteRange, Compression, Dedup, Reduction, StreamId};

const ONE: StreamId = StreamId::new(1);
const OTHER: StreamId = StreamId::new(2);
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;
const DEDUP: Reduction = Reduction { dedup: Dedup::On, compression: Compression::Off };
/// Bytes of a unit beside its stored ones: its entry.
const ENTRY: u64 = 64;

pub(crate) fn shape(reduction: Reduction) -> Shape {
    Shape {
        segments: 160,
        segment_bytes: 256 << 10,
        lane_bytes: 4 * MIB,
        memory_bytes: 64 * MIB,
        checkpoint_entries: 1_000_000,
        write_blocks_max: 1,
        volume_percent: 0,
        reduction,
        index_bytes: 1 << 20,
    }
}

/// Runs `test` on a shard of a new pool.
pub(crate) fn with_shard(reduction: Reduction, test: impl AsyncFnOnce(Pool) + 'static) {
    with_shape(shape(reduction), test);
}

pub(crate) fn with_shape(shape: Shape, test: impl AsyncFnOnce(Pool) + 'static) {
    let mut sim = SimLoop::new(11);
    let reactor = sim.handle();
    let disk = disk_for(shape, 1);
    let done = sim.try_run_until(
        async move {
            let (media, made) = format(&disk, shape, 1).await;
            made.expect("format the pool");
            let shard = open_media(&reactor, media.clone(), shape).await.remove(0);
            test(Pool { reactor, media, shape, shard }).await;
        },
        u64::MAX,
    );
    assert!(done.is_some(), "the test waits for ever");
}

pub(crate) struct Pool {
    pub(crate) reactor: Reactor,
    media: Vec<Media>,
    shape: Shape,
    pub(crate) shard: Rc<Shard>,
}

impl Pool {
    pub(crate) async fn write(&self, stream: StreamId, block: u64, data: &[u8]) {
        write(&self.shard, stream, block, data).await;
    }

    pub(crate) async fn read(&self, stream: StreamId, block: u64, blocks: usize) -> Vec<u8> {
        read(&self.shard, stream, block, blocks).await
    }

    /// Closes the shard and opens it again; what is cached is gone, and everything is applied.
    pub(crate) async fn reopened(mut self) -> Self {
        self.shard.close().await.expect("close");
        let media = self.media.clone();
        self.shard = open_media(&self.reactor, media, self.shape).await.remove(0);
        self
    }

    pub(crate) async fn mark(&self, owned: &[StreamId]) -> u64 {
        let owned: HashSet<StreamId> = owned.iter().copied().collect();
        let ticket = self.shard.mark_begin().await.expect("begin");
        let (_, named) = self.shard.mark_walk(ticket, &owned).await.expect("walk");
        self.shard.mark_sweep(ticket, &named).await.expect("sweep").freed
    }

    /// Live bytes of data: what is live beside pages. Nothing contradicts anything.
    pub(crate) async fn data_bytes(&self) -> u64 {
        let report = self.shard.audit().await.expect("audit");
        assert_eq!(report.differences, Vec::<String>::new());
        report.data_bytes
    }
}

pub(crate) async fn write(shard: &Shard, stream: StreamId, block: u64, data: &[u8]) {
    let data = AlignedBuf::from_slice(data).freeze();
    shard.write(stream, ByteOffset(block * BLOCK), data).await.expect("write");
}

pub(crate) async fn read(shard: &Shard, stream: StreamId, block: u64, blocks: usize) -> Vec<u8> {
    let parts = shard.read(stream, ByteOffset(block * BLOCK), blocks * BLOCK_BYTES).await;
    let mut all = Vec::new();
    for part in parts.expect("read") {
        match part {
            ReadPart::Zero(len) => all.resize(all.len() + len, 0),
            ReadPart::Data(data) => all.extend_from_slice(&data),
        }
    }
    all
}

pub(crate) fn random_blocks(seed: u64, blocks: usize) -> Vec<u8> {
    let mut bytes = vec![0; blocks * BLOCK_BYTES];
    Rng::new(seed).fill(&mut bytes);
    bytes
}

/// Blocks of which half is random.
fn half_random(seed: u64, blocks: usize) -> Vec<u8> {
    let mut bytes = random_blocks(seed, blocks);
    for (index, piece) in bytes.chunks_mut(256).enumerate() {
        if index % 2 == 0 {
            piece.fill(b'x');
        }
    }
    bytes
}

#[test]
fn compressed_blocks_take_less_and_are_read_back() {
    for compression in [Compression::Lz4, Compression::Zstd(3)] {
        let reduction = Reduction { dedup: Dedup::Off, compression };
        with_shard(reduction, async move |mut pool: Pool| {
            let (half, random) = (half_random(1, 700), random_blocks(2, 100));
            for (index, block) in half.chunks(BLOCK_BYTES).enumerate() {
                pool.write(ONE, index as u64, block).await;
            }
            assert_eq!(pool.read(ONE, 0, 700).await, half, "before it is drained");
            // A large write may overtake what lingers in the lane, and be what the next blocks are judged by.
            pool.shard.apply_acknowledged().await.expect("applied");
            pool.write(ONE, 700, &random).await;
            for round in 0..2 {
                pool = pool.reopened().await;
                assert_eq!(pool.read(ONE, 0, 700).await, half, "{compression} {round}");
                assert_eq!(pool.read(ONE, 699, 2).await[BLOCK_BYTES..], random[..BLOCK_BYTES]);
                assert_eq!(pool.read(ONE, 700, 100).await, random);
                assert_eq!(pool.read(ONE, 350, 1).await, half[350 * BLOCK_BYTES..][..BLOCK_BYTES]);
            }
            let bytes = pool.data_bytes().await;
            let most = 700 * (2560 + ENTRY) + 100 * (BLOCK + ENTRY);
            assert!(bytes <= most && bytes > most * 3 / 4, "{compression}: {bytes} of {most}");
        });
    }
}

#[test]
fn equal_blocks_are_stored_once_and_live_as_long_as_one_of_them() {
    with_shard(DEDUP, async |mut pool: Pool| {
        let data = random_blocks(3, 200);
        pool.write(ONE, 0, &data).await;
        pool.write(OTHER, 1000, &data).await;
        pool.write(ONE, 5000, &data[..BLOCK_BYTES]).await;
        pool = pool.reopened().await;
        assert_eq!(pool.data_bytes().await, 200 * (BLOCK + ENTRY));
        pool.write(ONE, 0, &random_blocks(4, 200)).await;
        pool = pool.reopened().await;
        assert_eq!(pool.data_bytes().await, 400 * (BLOCK + ENTRY), "shared blocks stay");
        assert_eq!(pool.read(OTHER, 1000, 200).await, data);
        assert_eq!(pool.mark(&[ONE, OTHER]).await, 0);
        let range = ByteRange { start: 1000 * BLOCK, end: 1200 * BLOCK };
        pool.shard.trim(OTHER, range).await.expect("trim");
        assert_eq!(pool.mark(&[ONE, OTHER]).await, 199, "all but the one at block 5000");
        pool = pool.reopened().await;
        assert_eq!(pool.data_bytes().await, 201 * (BLOCK + ENTRY));
        assert_eq!(pool.read(ONE, 5000, 1).await, data[..BLOCK_BYTES]);
    });
}

#[test]
fn a_block_rewritten_with_what_it_holds_is_not_shared() {
    with_shard(DEDUP, async |mut pool: Pool| {
        let data = random_blocks(5, 50);
        for _ in 0..3 {
            pool.write(ONE, 0, &data).await;
            pool.shard.apply_acknowledged().await.expect("apply");
        }
        pool.write(ONE, 0, &random_blocks(6, 50)).await;
        pool = pool.reopened().await;
        assert_eq!(pool.data_bytes().await, 50 * (BLOCK + ENTRY), "the old ones died at once");
    });
}

#[test]
fn a_policy_can_be_changed_while_data_are_written() {
    with_shard(Reduction::OFF, async |mut pool: Pool| {
        let data = half_random(7, 64);
        pool.write(ONE, 0, &data).await;
        pool.shard.apply_acknowledged().await.expect("apply");
        pool.shard
            .set_reduction(ONE, Reduction { dedup: Dedup::On, compression: Compression::Lz4 });
        pool.write(ONE, 100, &data).await;
        pool.write(ONE, 200, &data).await;
        pool.shard.apply_acknowledged().await.expect("apply");
        pool.shard.set_reduction(ONE, Reduction::OFF);
        pool.write(ONE, 300, &data).await;
        pool = pool.reopened().await;
        let raw = 64 * (BLOCK + ENTRY);
        let bytes = pool.data_bytes().await;
        assert!(bytes > 2 * raw && bytes < 2 * raw + raw * 3 / 4, "{bytes} for {raw} twice");
        for block in [0, 100, 200, 300] {
            assert_eq!(pool.read(ONE, block, 64).await, data, "at {block}");
        }
    });
}

#[test]
fn equal_blocks_are_found_beyond_the_index_and_after_a_restart() {
    // The index knows a third of the blocks at most.
    let small =
        Shape { index_bytes: 256 << 10, segment_bytes: 2 << 20, segments: 80, ..shape(DEDUP) };
    with_shape(small, async |mut pool: Pool| {
        const BLOCKS: usize = 12_000;
        let data = random_blocks(8, BLOCKS);
        let write_all = async |pool: &Pool, stream: StreamId| {
            for (index, part) in data.chunks(16 * BLOCK_BYTES).enumerate() {
                pool.write(stream, index as u64 * 16, part).await;
            }
        };
        write_all(&pool, ONE).await;
        write_all(&pool, OTHER).await;
        pool.shard.apply_acknowledged().await.expect("apply");
        let blocks = async |pool: &Pool| pool.data_bytes().await / (BLOCK + ENTRY);
        let first = blocks(&pool).await;
        assert!(first <= BLOCKS as u64 * 110 / 100, "{first} of {BLOCKS} blocks are stored");
        pool = pool.reopened().await;
        pool.reactor.sleep(2_000_000_000).await; // What the newest segments hold is learnt meanwhile.
        write_all(&pool, StreamId::new(3)).await;
        pool = pool.reopened().await;
        let second = blocks(&pool).await;
        assert!(second <= first + BLOCKS as u64 / 10, "{first} blocks, {second} after a restart");
        assert_eq!(pool.read(StreamId::new(3), 0, 256).await, data[..256 * BLOCK_BYTES]);
    });
}
