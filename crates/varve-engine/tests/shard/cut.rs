//! Copies hold what their sources held, whatever happens to either.

use futures_util::future::join;
use varve_engine::{CutId, CutPair, DiffRun};
use varve_types::{ByteRange, Dedup, Reduction, StreamId};

use crate::reduction::{BLOCK, Pool, random_blocks, shape, with_shape, with_shard};

const SOURCE: StreamId = StreamId::new(1);
const COPY: StreamId = StreamId::new(2);
const PLAIN: Reduction =
    Reduction { dedup: Dedup::Off, compression: varve_types::Compression::Off };

impl Pool {
    pub(crate) async fn cut(&self, source: StreamId, copy: StreamId) {
        let id = CutId(copy.get());
        self.shard.cut(id, &[CutPair { source, copy }]).await.expect("cut");
        self.shard.release_cut(id);
    }

    async fn diff(&self, from: StreamId, to: StreamId, blocks: u64) -> Vec<(u64, bool)> {
        let range = ByteRange { start: 0, end: blocks * BLOCK };
        let runs = self.shard.diff(from, to, range, 100).await.expect("diff");
        runs.iter().map(|DiffRun { len, differs }| (len / BLOCK, *differs)).collect()
    }
}

#[test]
fn a_copy_keeps_what_the_source_loses() {
    with_shard(PLAIN, async |pool: Pool| {
        let old = random_blocks(1, 64);
        let new = random_blocks(2, 64);
        pool.write(SOURCE, 0, &old).await;
        pool.cut(SOURCE, COPY).await;
        pool.write(SOURCE, 16, &new[..16 * 4096]).await;
        let range = ByteRange { start: 48 * BLOCK, end: 64 * BLOCK };
        pool.shard.trim(SOURCE, range).await.expect("trim");
        assert_eq!(pool.read(COPY, 0, 64).await, old, "before anything is applied");
        let pool = pool.reopened().await;
        assert_eq!(pool.read(COPY, 0, 64).await, old);
        assert_eq!(pool.read(SOURCE, 16, 16).await, new[..16 * 4096]);
        assert_eq!(
            pool.diff(COPY, SOURCE, 64).await,
            [(16, false), (16, true), (16, false), (16, true)]
        );
        // The source goes, and what only it held.
        pool.shard.drop_stream(SOURCE).await.expect("drop");
        pool.mark(&[COPY]).await;
        let pool = pool.reopened().await;
        assert_eq!(pool.read(COPY, 0, 64).await, old);
        assert_eq!(pool.data_bytes().await, 64 * (BLOCK + 64));
    });
}

#[test]
fn copies_of_copies_are_written_apart() {
    with_shard(PLAIN, async |pool: Pool| {
        let depth = 8;
        let first = random_blocks(1, 32);
        pool.write(SOURCE, 0, &first).await;
        for copy in 2..=depth {
            pool.cut(StreamId::new(copy - 1), StreamId::new(copy)).await;
            pool.write(StreamId::new(copy), copy, &random_blocks(copy, 1)).await;
        }
        let pool = pool.reopened().await;
        for copy in 1..=depth {
            let mut expected = first.clone();
            for of in 2..=copy {
                let at = usize::try_from(of * BLOCK).unwrap();
                expected[at..at + 4096].copy_from_slice(&random_blocks(of, 1));
            }
            assert_eq!(pool.read(StreamId::new(copy), 0, 32).await, expected, "copy {copy}");
        }
        assert_eq!(pool.data_bytes().await, (32 + depth - 1) * (BLOCK + 64));
    });
}

#[test]
fn many_copies_take_no_space_and_give_all_of_it_back() {
    let shape = crate::pool::Shape { checkpoint_entries: 50, ..shape(PLAIN) };
    with_shape(shape, async |pool: Pool| {
        pool.write(SOURCE, 0, &random_blocks(1, 100)).await;
        let mut owned = vec![SOURCE];
        for copy in 2..700 {
            pool.cut(SOURCE, StreamId::new(copy)).await;
            owned.push(StreamId::new(copy));
            pool.write(SOURCE, copy % 100, &random_blocks(copy, 1)).await;
        }
        let pool = pool.reopened().await;
        assert_eq!(pool.shard.streams().await.expect("streams").len(), owned.len());
        assert_eq!(pool.mark(&owned).await, 0, "everything is named");
        assert_eq!(pool.data_bytes().await, (100 + 698) * (BLOCK + 64));
        let mut rng = varve_stdx::Rng::new(3);
        while owned.len() > 1 {
            let gone = owned.swap_remove(1 + rng.index(owned.len() - 1));
            pool.shard.drop_stream(gone).await.expect("drop");
            if owned.len() % 100 == 1 {
                pool.mark(&owned).await;
            }
        }
        let pool = pool.reopened().await;
        pool.mark(&owned).await;
        assert_eq!(pool.data_bytes().await, 100 * (BLOCK + 64));
        let report = pool.shard.audit().await.expect("audit");
        assert_eq!(report.unreachable, 0);
    });
}

#[test]
fn answers_to_later_writes_wait_for_the_release() {
    with_shard(PLAIN, async |pool: Pool| {
        let id = CutId(7);
        let pairs = [CutPair { source: SOURCE, copy: COPY }];
        pool.shard.cut(id, &pairs).await.expect("cut");
        let answered = std::cell::Cell::new(false);
        let write = async {
            pool.write(SOURCE, 0, &random_blocks(1, 1)).await;
            answered.set(true);
        };
        let release = async {
            pool.reactor.sleep(1_000_000_000).await;
            assert!(!answered.get(), "the write is held back");
            pool.write(COPY, 5, &random_blocks(2, 1)).await;
            pool.shard.release_cut(id);
        };
        join(write, release).await;
        assert!(answered.get());
        assert_eq!(pool.read(COPY, 0, 1).await, vec![0; 4096]);
        assert_eq!(pool.read(COPY, 5, 1).await, random_blocks(2, 1));
        pool.shard.release_cut(CutId(99));
    });
}

#[test]
fn a_group_may_be_larger_than_what_the_lane_takes_at_once() {
    let shape = crate::pool::Shape { memory_bytes: 32 << 20, lane_bytes: 1 << 20, ..shape(PLAIN) };
    with_shape(shape, async |pool: Pool| {
        let pairs: Vec<CutPair> = (1..400)
            .map(|id| CutPair { source: StreamId::new(id), copy: StreamId::new(1000 + id) })
            .collect();
        pool.write(StreamId::new(7), 0, &random_blocks(1, 1)).await;
        let (one, other) = pairs.split_at(200);
        let (one, other) =
            join(pool.shard.cut(CutId(1), one), pool.shard.cut(CutId(2), other)).await;
        one.expect("cut");
        other.expect("cut");
        pool.shard.release_cut(CutId(1));
        pool.shard.release_cut(CutId(2));
        assert_eq!(pool.read(StreamId::new(1007), 0, 1).await, random_blocks(1, 1));
    });
}

#[test]
fn a_copy_may_be_read_while_it_is_cut() {
    with_shard(PLAIN, async |pool: Pool| {
        pool.write(SOURCE, 0, &random_blocks(1, 1)).await;
        let pairs = [CutPair { source: SOURCE, copy: COPY }];
        let (cut, read) = join(pool.shard.cut(CutId(1), &pairs), pool.read(COPY, 0, 1)).await;
        cut.expect("cut");
        assert_eq!(read, random_blocks(1, 1));
    });
}
