//! A backlog of small writes of any kind fills whole segments, and what bypasses the lane does not wait for company for
//! long.

use std::rc::Rc;

use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, Compression, Dedup, Reduction, StreamId};

use crate::pool::{MIB, Shape};
use crate::reduction::{BLOCK, random_blocks, with_shape};

const ONE: StreamId = StreamId::new(1);
const SEGMENT_BYTES: u64 = 2 << 20;

fn shape(compression: Compression) -> Shape {
    Shape {
        segments: 160,
        segment_bytes: 2 << 20,
        lane_bytes: 64 * MIB,
        memory_bytes: 256 * MIB,
        checkpoint_entries: 1_000_000,
        write_blocks_max: 1,
        volume_percent: 0,
        reduction: Reduction { dedup: Dedup::Off, compression },
        index_bytes: 1 << 20,
    }
}

/// A block of which so many eighths are not random.
fn block(rng: &mut Rng, seed: u64, eighths: usize) -> Vec<u8> {
    let mut bytes = random_blocks(seed, 1);
    let from = rng.index(bytes.len() / 2);
    let end = bytes.len().min(from + eighths * 512);
    bytes[from..end].fill(b'v');
    bytes
}

/// Writes blocks that become units of all sizes, in no order, and looks how full the segments are.
fn fills_segments(compression: Compression, small_percent: u64) {
    with_shape(shape(compression), async move |pool| {
        let mut rng = Rng::new(3);
        let before = pool.shard.stats();
        for index in 0..12_000_u64 {
            let eighths = if rng.chance(small_percent, 100) { 1 + rng.index(4) } else { 0 };
            let data = block(&mut rng, index, eighths);
            pool.write(ONE, index * 7919 % 12_000, &data).await;
        }
        // What is left waits for more; what was sealed was sealed for those who wrote.
        let stats = pool.shard.stats();
        let segments = stats.data_segments - before.data_segments;
        let bytes = stats.data_segment_bytes - before.data_segment_bytes;
        assert!(segments >= 4, "a backlog: {segments} segments");
        let fill = bytes as f64 / (segments * SEGMENT_BYTES) as f64;
        assert!(fill >= 0.98, "{fill:.4} of {segments} segments are used");
    });
}

#[test]
fn a_backlog_of_raw_blocks_fills_segments() {
    fills_segments(Compression::Off, 0);
}

#[test]
fn a_backlog_of_large_and_small_units_fills_segments() {
    fills_segments(Compression::Lz4, 50);
    fills_segments(Compression::Lz4, 97);
}

#[test]
fn one_that_bypassed_the_lane_is_answered_though_nobody_comes_after_it() {
    with_shape(shape(Compression::Off), async move |pool| {
        // A segment's worth at once begins to bypass; the last of them stands alone in its segment.
        let begin = pool.reactor.now();
        let writes: Vec<_> = (0..3_u64)
            .map(|index| {
                let (shard, data) = (Rc::clone(&pool.shard), random_blocks(index, 256));
                pool.reactor.spawn_join(async move {
                    let data = AlignedBuf::from_slice(&data).freeze();
                    shard.write(ONE, ByteOffset(index * 256 * BLOCK), data).await.expect("write");
                })
            })
            .collect();
        for write in writes {
            write.await;
        }
        let stats = pool.shard.stats();
        assert!(stats.bypassed_bytes > 0, "some of it bypassed the lane");
        let bytes = stats.data_segment_bytes;
        assert!(bytes < stats.data_segments * SEGMENT_BYTES, "one segment is not full");
        let waited_ns = pool.reactor.now().0 - begin.0;
        assert!(waited_ns < 100_000_000, "answered after {waited_ns} ns, before write-back is due");
    });
}
