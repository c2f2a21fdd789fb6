//! A write that finds no room waits for the mark pass that may make some (MARK-10).

use std::cell::Cell;
use std::rc::Rc;

use hashbrown::HashSet;
use varve_engine::{BLOCK_BYTES, Error, MarkReport, MarkWish};
use varve_reactor::Nanos;
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, Compression, Dedup, Reduction, StreamId};

use crate::pool::Shape;
use crate::reduction::{BLOCK, Pool, shape, with_shape};

const ONE: StreamId = StreamId::new(1);
const OTHER: StreamId = StreamId::new(2);
const DEDUP: Reduction = Reduction { dedup: Dedup::On, compression: Compression::Off };
const LOOK_NS: u64 = 500_000_000;

fn unique(rng: &mut Rng) -> AlignedBuf {
    let mut data = AlignedBuf::zeroed(BLOCK_BYTES);
    rng.fill(&mut data);
    data
}

/// Writes a fifth of the drive, to both streams: stored once.
async fn share(pool: &Pool) -> u64 {
    let Shape { segments, segment_bytes, .. } = shape(DEDUP);
    let blocks = segments * u64::from(segment_bytes) / BLOCK / 5;
    let mut rng = Rng::new(1);
    for block in 0..blocks {
        let data = unique(&mut rng);
        pool.write(ONE, block, &data).await;
        pool.write(OTHER, block, &data).await;
    }
    pool.shard.apply_acknowledged().await.expect("apply");
    blocks
}

/// Overwrites blocks of both streams with what is nowhere else, and then what comes behind them, up to the first
/// refusal.
async fn overwrite(pool: &Pool, blocks: u64, behind: u64) -> Result<(), Error> {
    let mut rng = Rng::new(2);
    for block in 0..blocks + behind {
        for stream in [ONE, OTHER] {
            let data = unique(&mut rng).freeze();
            pool.shard.write(stream, ByteOffset(block * BLOCK), data).await?;
        }
    }
    Ok(())
}

async fn mark(pool: &Pool) -> MarkReport {
    let owned: HashSet<StreamId> = [ONE, OTHER].into();
    let ticket = pool.shard.mark_begin().await.expect("begin");
    let (_, named) = pool.shard.mark_walk(ticket, &owned).await.expect("walk");
    pool.shard.mark_sweep(ticket, &named).await.expect("sweep")
}

/// Runs a pass whenever a write waits for one; counts them, and what they freed.
fn keep_marking(pool: &Rc<Pool>) -> Rc<Cell<(u64, u64)>> {
    let done = Rc::new(Cell::new((0, 0)));
    let keeper = (Rc::clone(pool), Rc::clone(&done));
    pool.reactor.spawn(async move {
        let (pool, done) = keeper;
        loop {
            pool.reactor.sleep(LOOK_NS).await;
            if pool.shard.mark_wish() == MarkWish::Urgent {
                let (passes, freed) = done.get();
                done.set((passes + 1, freed + mark(&pool).await.freed));
            }
        }
    });
    done
}

#[test]
fn a_write_waits_for_the_room_that_a_pass_makes() {
    with_shape(shape(DEDUP), async |pool| {
        let pool = Rc::new(pool);
        let blocks = share(&pool).await;
        let done = keep_marking(&pool);
        // With the shared ones, that are in nobody's map any more, it would be more than the shard takes.
        overwrite(&pool, blocks, blocks / 2).await.expect("what nobody names any more makes room");
        let (passes, freed) = done.get();
        assert!(passes > 0 && freed >= blocks, "{passes} passes freed {freed} of {blocks}");
    });
}

#[test]
fn a_write_is_refused_after_a_pass_that_makes_no_room() {
    with_shape(shape(DEDUP), async |pool| {
        let pool = Rc::new(pool);
        let blocks = share(&pool).await;
        let done = keep_marking(&pool);
        let refused = overwrite(&pool, blocks, 100 * blocks).await;
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
        let (passes, _) = done.get();
        let begin = pool.reactor.now();
        let refused = overwrite(&pool, blocks, 100 * blocks).await;
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
        assert!(done.get().0 <= passes + 2, "a pass that frees nothing is not repeated");
        assert!(pool.reactor.now().0 - begin.0 < 10 * LOOK_NS, "nobody waits longer than that");
    });
}

#[test]
fn a_write_waits_a_minute_for_a_pass_that_nobody_runs() {
    with_shape(shape(DEDUP), async |pool| {
        let blocks = share(&pool).await;
        let Nanos(begin) = pool.reactor.now();
        let refused = overwrite(&pool, blocks, blocks).await;
        assert!(matches!(refused, Err(Error::NoSpace { .. })), "{refused:?}");
        let waited = pool.reactor.now().0 - begin;
        assert!((60_000_000_000..90_000_000_000).contains(&waited), "{waited} ns");
    });
}

#[test]
fn a_write_that_waits_for_a_pass_ends_with_its_shard() {
    with_shape(shape(DEDUP), async |pool| {
        let pool = Rc::new(pool);
        let blocks = share(&pool).await;
        let waiting = pool.reactor.spawn_join({
            let pool = Rc::clone(&pool);
            async move { overwrite(&pool, blocks, blocks).await }
        });
        for look in 0.. {
            assert!(look < 10_000, "no write waits for a pass");
            if pool.shard.mark_wish() == MarkWish::Urgent {
                break;
            }
            pool.reactor.sleep(LOOK_NS / 50).await;
        }
        let Nanos(begin) = pool.reactor.now();
        pool.shard.close().await.expect("close");
        let ended = waiting.await;
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
        assert!(pool.reactor.now().0 - begin < 10_000_000_000, "it did not wait for its minute");
    });
}
