//! What reads leave in memory, and what they take from there.

use varve_types::{Compression, Reduction, StreamId};

use crate::reduction::{Pool, random_blocks, with_shard};

const ONE: StreamId = StreamId::new(1);

#[test]
fn small_reads_are_kept_and_large_ones_pass_by() {
    for compression in [Compression::Off, Compression::Lz4] {
        with_shard(Reduction { dedup: false, compression }, async |mut pool: Pool| {
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
                4 * 4096,
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
