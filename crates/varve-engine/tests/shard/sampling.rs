//! Automatic deduplication finds nearly what is found when every block is fingerprinted, although of a first copy it
//! fingerprints a sample only. The same streams are written with `auto` and `on`, and what was found is compared.

use crate::pool::Shape;
use crate::reduction::{BLOCK, Pool, random_blocks, shape, with_shape};
use varve_engine::BLOCK_BYTES;
use varve_stdx::Rng;
use varve_types::{Compression, Dedup, Reduction, StreamId};

/// So much of what `on` finds has to be found.
const FOUND_PERCENT_MIN: u64 = 90;

const fn reduction(dedup: Dedup, compression: Compression) -> Reduction {
    Reduction { dedup, compression }
}

/// Segments as pools have them. The index knows all blocks.
fn large(reduction: Reduction) -> Shape {
    Shape {
        segments: 120,
        segment_bytes: 2 << 20,
        memory_bytes: 256 << 20,
        index_bytes: 8 << 20,
        ..shape(reduction)
    }
}

/// What was found of some streams.
#[derive(Clone, Copy, Default, Debug)]
struct Found {
    found: u64,
    stored: u64,
}

async fn found(pool: &Pool) -> Found {
    pool.shard.apply_acknowledged().await.expect("apply");
    let stats = pool.shard.stats();
    Found { found: stats.deduplicated_blocks, stored: stats.stored_blocks }
}

/// Runs `write` with `on` and with `auto`, and checks what each found of `duplicates`. As in a daemon, a shard learns
/// how a stream is reduced when it is written.
fn compare(
    compression: Compression,
    duplicates: u64,
    write: impl AsyncFn(Pool, Reduction) -> Found + Copy + 'static,
) {
    compare_in(&large(Reduction::OFF), compression, duplicates, write);
}

/// The same with this shape.
fn compare_in(
    shape: &Shape,
    compression: Compression,
    duplicates: u64,
    write: impl AsyncFn(Pool, Reduction) -> Found + Copy + 'static,
) {
    for dedup in [Dedup::On, Dedup::Auto] {
        let reduction = reduction(dedup, compression);
        with_shape(*shape, async move |pool: Pool| {
            let Found { found, stored } = write(pool, reduction).await;
            let percent = found * 100 / duplicates;
            assert!(
                percent >= FOUND_PERCENT_MIN,
                "{dedup}: {found} of {duplicates}, {stored} stored"
            );
            assert!(found <= duplicates, "{dedup}: {found} of {duplicates}");
        });
    }
}

/// Generation `generation` of a backup: one run of 16 blocks of 20 differs from the one before.
fn backup(generation: u64, blocks: usize) -> Vec<u8> {
    let mut data = random_blocks(1, blocks);
    for later in 1..=generation {
        let mut rng = Rng::new(later);
        for run in data.chunks_mut(16 * BLOCK_BYTES) {
            if rng.below(20) == 0 {
                rng.fill(run);
            }
        }
    }
    data
}

/// Blocks of both that are equal and at the same place.
fn equal_blocks(one: &[u8], other: &[u8]) -> u64 {
    let pairs = one.chunks(BLOCK_BYTES).zip(other.chunks(BLOCK_BYTES));
    pairs.filter(|(one, other)| one == other).count() as u64
}

async fn write_all(
    pool: &Pool,
    (stream, reduction): (u64, Reduction),
    data: &[u8],
    write_blocks: usize,
) {
    pool.shard.set_reduction(StreamId::new(stream), reduction);
    for (index, part) in data.chunks(write_blocks * BLOCK_BYTES).enumerate() {
        pool.write(StreamId::new(stream), (index * write_blocks) as u64, part).await;
    }
}

const BACKUP_BLOCKS: usize = 10_000;

#[test]
fn later_generations_of_a_backup_are_found() {
    let generations = [0, 1, 2].map(|generation| backup(generation, BACKUP_BLOCKS));
    let [first, second, third] = &generations;
    let duplicates = equal_blocks(first, second) + equal_blocks(second, third);
    for write_blocks in [16, 256] {
        compare(Compression::Off, duplicates, async move |pool: Pool, reduction| {
            for generation in 0..3 {
                let data = backup(generation, BACKUP_BLOCKS);
                write_all(&pool, (1 + generation, reduction), &data, write_blocks).await;
            }
            let end = found(&pool).await;
            let data = backup(2, BACKUP_BLOCKS);
            assert_eq!(
                pool.read(StreamId::new(3), 5000, 256).await,
                data[5000 * BLOCK_BYTES..][..256 * BLOCK_BYTES]
            );
            end
        });
    }
}

#[test]
fn what_was_stored_before_a_restart_is_found() {
    let duplicates = equal_blocks(&backup(0, BACKUP_BLOCKS), &backup(1, BACKUP_BLOCKS));
    compare(Compression::Off, duplicates, async |mut pool: Pool, reduction| {
        write_all(&pool, (1, reduction), &backup(0, BACKUP_BLOCKS), 64).await;
        pool = pool.reopened().await;
        pool.reactor.sleep(2_000_000_000).await; // What the newest segments hold is learnt meanwhile.
        write_all(&pool, (2, reduction), &backup(1, BACKUP_BLOCKS), 64).await;
        found(&pool).await
    });
}

/// Unique blocks, and among each 1300 of them 40 that repeat earlier ones: streams change between samples and all
/// blocks.
fn mixed() -> Vec<u8> {
    let mut data = random_blocks(5, 2 * BACKUP_BLOCKS);
    for end in (1300..2 * BACKUP_BLOCKS).step_by(1300) {
        let part = (end - 1300) * BLOCK_BYTES..(end - 1260) * BLOCK_BYTES;
        data.copy_within(part, (end - 40) * BLOCK_BYTES);
    }
    data
}

#[test]
fn an_index_that_is_smaller_than_the_data_leads_to_all_of_them_after_a_restart() {
    let shape = Shape { index_bytes: 256 << 10, ..large(Reduction::OFF) };
    let duplicates = 2 * BACKUP_BLOCKS as u64;
    compare_in(&shape, Compression::Off, duplicates, async |mut pool: Pool, reduction| {
        write_all(&pool, (1, reduction), &mixed(), 64).await;
        pool.shard.apply_acknowledged().await.expect("apply");
        pool = pool.reopened().await;
        pool.reactor.sleep(2_000_000_000).await;
        write_all(&pool, (2, reduction), &mixed(), 64).await;
        found(&pool).await
    });
}

#[test]
fn compressed_blocks_are_found() {
    let text = |generation| {
        let mut data = backup(generation, BACKUP_BLOCKS);
        data.chunks_mut(256).step_by(2).for_each(|piece| piece.fill(b'x'));
        data
    };
    let duplicates = equal_blocks(&text(0), &text(1));
    for compression in [Compression::Lz4, Compression::Zstd(1)] {
        compare(compression, duplicates, async move |pool: Pool, reduction| {
            write_all(&pool, (1, reduction), &text(0), 64).await;
            write_all(&pool, (2, reduction), &text(1), 64).await;
            found(&pool).await
        });
    }
}

/// Runs of 8 blocks that each of a fleet of clones writes, in an order of its own, half of them with the same data.
const RUNS: usize = 500;
const RUN_BLOCKS: usize = 8;
const CLONES: u64 = 8;

#[test]
fn what_clones_write_alike_is_found() {
    let common = (RUNS / 2 * RUN_BLOCKS) as u64;
    compare(Compression::Off, common * (CLONES - 1), async |pool: Pool, reduction| {
        let orders: Vec<Vec<usize>> = (0..CLONES)
            .map(|clone| {
                let mut rng = Rng::new(clone);
                let mut order: Vec<usize> = (0..RUNS).collect();
                (1..RUNS).for_each(|index| order.swap(index, rng.index(index + 1)));
                order
            })
            .collect();
        for turn in 0..RUNS {
            for (clone, order) in (1..).zip(&orders) {
                let run = order[turn];
                let writer = if run % 2 == 0 { 0 } else { clone };
                let data = random_blocks(writer << 32 | run as u64, RUN_BLOCKS);
                pool.shard.set_reduction(StreamId::new(clone), reduction);
                pool.write(StreamId::new(clone), (run * RUN_BLOCKS) as u64, &data).await;
            }
        }
        found(&pool).await
    });
}

#[test]
fn few_unique_blocks_are_fingerprinted() {
    const BLOCKS: usize = 20_000;
    let auto = reduction(Dedup::Auto, Compression::Off);
    with_shape(large(auto), async move |pool: Pool| {
        write_all(&pool, (1, auto), &random_blocks(7, BLOCKS), 64).await;
        assert_eq!(found(&pool).await.stored, BLOCKS as u64);
        let known = pool.shard.stats().dedup_index_entries;
        assert!((1024..1024 + BLOCKS as u64 / 20).contains(&known), "{known} of {BLOCKS}");
    });
}

#[test]
fn what_is_not_to_be_shared_is_not_found_beside_what_is() {
    const BLOCKS: usize = 6000;
    let auto = reduction(Dedup::Auto, Compression::Off);
    with_shape(large(auto), async move |pool: Pool| {
        let (apart, shared) = (StreamId::new(1), StreamId::new(2));
        pool.shard.set_reduction(apart, Reduction::OFF);
        let (private, common) = (random_blocks(8, BLOCKS), random_blocks(9, BLOCKS));
        for index in (0..BLOCKS).step_by(8) {
            let part = index * BLOCK_BYTES..(index + 8) * BLOCK_BYTES;
            pool.write(apart, index as u64, &private[part.clone()]).await;
            pool.write(shared, index as u64, &common[part]).await;
        }
        write_all(&pool, (3, auto), &common, 8).await;
        let before = found(&pool).await;
        assert!(before.found > BLOCKS as u64 * 9 / 10, "{before:?}");
        write_all(&pool, (4, auto), &private, 8).await;
        assert_eq!(found(&pool).await.found, before.found, "nothing of the other stream");
        assert!(pool.data_bytes().await >= 3 * BLOCKS as u64 * BLOCK);
    });
}
