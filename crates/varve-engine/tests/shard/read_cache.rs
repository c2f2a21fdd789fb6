//! What reads leave in memory, and what they take from there.

use varve_types::{Compression, Dedup, Reduction, StreamId};

use crate::pool::{MIB, Shape};
use crate::reduction::{Pool, random_blocks, shape, with_shape, with_shard};

const ONE: StreamId = StreamId::new(1);

#[test]
fn small_reads_are_kept_and_large_ones_pass_by() {
    for compression in [Compression::Off, Compression::Lz4] {
        with_shard(Reduction { dedup: Dedup::Off, compression }, async |mut pool: Pool| {
            let mut data = random_blocks(1, 64);
            data[..20 * 4096].fill(b'y'); // Compressible, where that is wanted.
            pool.write(ONE, 0, &data).await;
            pool = pool.reopened().await;
            let read_from_disk = |pool: &Pool| pool.shard.stats().media_read_bytes;
            let before = read_from_disk(&pool);

            assert_eq!(pool.read(ONE, 0, 64).await, data);
            assert_eq!(pool.shard.stats().block_cache_bytes, 0, "a large read keeps nothing");
            let large = read_from_disk(&pool) - before;

            assert_eq!(pool.read(ONE, 18, 4).await, data[18 * 4096..22 * 4096]);
            assert_eq!(
                pool.shard.stats().block_cache_bytes,
                4 * (4096 + 96 + 128),
                "the blocks, not what they were read with"
            );
            let after = read_from_disk(&pool);
            assert_eq!(pool.read(ONE, 18, 4).await, data[18 * 4096..22 * 4096]);
            assert_eq!(pool.read(ONE, 21, 1).await, data[21 * 4096..22 * 4096]);
            assert_eq!(read_from_disk(&pool), after, "from memory");

            assert_eq!(pool.read(ONE, 0, 64).await, data);
            assert_eq!(read_from_disk(&pool) - after, large, "in one piece, as at first");
        });
    }
}

#[test]
fn a_large_cache_keeps_large_reads_and_writes_as_a_whole() {
    const BLOCKS: usize = 32;
    for compression in [Compression::Off, Compression::Lz4] {
        let reduction = Reduction { dedup: Dedup::Off, compression };
        let shape = Shape { memory_bytes: 2048 * MIB, ..shape(reduction) };
        with_shape(shape, async |mut pool: Pool| {
            let mut data = random_blocks(1, 3 * BLOCKS);
            data[..20 * 4096].fill(b'y');
            let read_from_disk = |pool: &Pool| pool.shard.stats().media_read_bytes;
            for (index, part) in data.chunks(BLOCKS * 4096).enumerate() {
                pool.write(ONE, (index * BLOCKS) as u64, part).await;
            }
            pool.shard.checkpoint().await.expect("checkpoint"); // Drained and applied.
            let before = read_from_disk(&pool);
            assert_eq!(pool.read(ONE, 0, BLOCKS).await, data[..BLOCKS * 4096]);
            assert_eq!(pool.read(ONE, 40, 3).await, data[40 * 4096..43 * 4096]);
            assert_eq!(read_from_disk(&pool), before, "what was written is in memory");

            pool = pool.reopened().await;
            assert_eq!(pool.read(ONE, 10, BLOCKS).await, data[10 * 4096..(10 + BLOCKS) * 4096]);
            let once = read_from_disk(&pool);
            assert!(once > 0);
            assert_eq!(pool.read(ONE, 10, BLOCKS).await, data[10 * 4096..(10 + BLOCKS) * 4096]);
            assert_eq!(pool.read(ONE, 12, 1).await, data[12 * 4096..13 * 4096]);
            assert_eq!(read_from_disk(&pool), once, "what was read is in memory");
            assert_eq!(pool.read(ONE, 0, 3 * BLOCKS).await, data, "in part from memory");

            let kept = pool.shard.stats().block_cache_bytes;
            let other = random_blocks(2, 3 * BLOCKS);
            pool.write(ONE, 0, &other).await;
            assert_eq!(pool.read(ONE, 0, 3 * BLOCKS).await, other, "nothing stale");
            pool.shard.checkpoint().await.expect("checkpoint");
            assert_eq!(pool.read(ONE, 0, 3 * BLOCKS).await, other);
            assert!(kept > 0);
        });
    }
}
