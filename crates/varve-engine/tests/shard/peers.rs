//! Shards that name chunks of each other, with messages as slow as a test wants them.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::pin::pin;
use std::rc::{Rc, Weak};

use futures_util::future::{Either, LocalBoxFuture, join_all, select};
use hashbrown::HashSet;
use varve_engine::{
    AuditReport, BLOCK_BYTES, CheckProgress, DedupReply, Error, Fingerprint, ForeignNames, Homes,
    MarkWish, OpenPool, Peers, Result, Shard, UncheckedNames,
};
use varve_logstore::format::Features;
use varve_logstore::format::root::ShardRoot;
use varve_media::{Media, RootKey};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::{
    ByteOffset, ByteRange, ChunkId, Compression, Dedup, Reduction, ShardId, StreamId,
};

use crate::pool::{Shape, disk_for, format, open_with_peers, try_open};
use crate::reduction::{BLOCK, random_blocks, read, shape, write};

const ONE: StreamId = StreamId::new(1);
const OTHER: StreamId = StreamId::new(2);

/// A millisecond, in ns.
const MS: u64 = 1_000_000;

/// What reaches both shards.
struct Network {
    reactor: Reactor,
    shards: RefCell<Vec<Weak<Shard>>>,
    homes: [Rc<Homes>; 2],
    /// How long an answer is on its way.
    answer_ns: Cell<u64>,
    /// How long a read is on its way.
    read_ns: Cell<u64>,
    /// Whether homes can be reached for reads and checks.
    serves: Cell<bool>,
    /// What was asked for, where nobody is to answer.
    unanswered: RefCell<Option<Vec<Fingerprint>>>,
}

impl Network {
    fn shard(&self, id: ShardId) -> Rc<Shard> {
        self.shards.borrow()[usize::from(id.0)].upgrade().expect("it is open")
    }

    fn home(&self, home: ShardId) -> Result<Rc<Shard>> {
        let cause = "the test says so".to_owned();
        self.serves.get().then(|| self.shard(home)).ok_or(Error::HomeUnavailable { home, cause })
    }
}

/// The other shard, for one of the two.
struct Other {
    network: Rc<Network>,
    me: ShardId,
}

impl Peers for Other {
    fn count(&self) -> u16 {
        2
    }

    fn home(&self, fingerprint: Fingerprint) -> Option<ShardId> {
        self.network.homes[usize::from(self.me.0)].find(fingerprint)
    }

    fn ask(
        &self,
        shard: ShardId,
        fingerprints: Vec<Fingerprint>,
    ) -> LocalBoxFuture<'_, Result<Vec<DedupReply>>> {
        Box::pin(async move {
            if let Some(unanswered) = self.network.unanswered.borrow_mut().as_mut() {
                unanswered.extend_from_slice(&fingerprints);
                return Ok(Vec::new());
            }
            let homes = &self.network.homes[usize::from(shard.0)];
            let answers = homes.answer(Some(self.network.shard(shard)), &fingerprints).await;
            self.network.reactor.sleep(self.network.answer_ns.get()).await;
            Ok(answers)
        })
    }

    fn tell_stored(&self, owner: ShardId, fingerprints: Vec<Fingerprint>) {
        self.network.homes[usize::from(owner.0)].learn(self.me, &fingerprints);
    }

    fn tell_overwritten(&self, home: ShardId, count: u64) {
        self.network.shard(home).note_foreign_overwritten(count);
    }

    fn read(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<BufSlice>>>> {
        Box::pin(async move {
            self.network.reactor.sleep(self.network.read_ns.get()).await;
            self.network.home(home)?.read_chunks(&chunks).await
        })
    }

    fn stored_bytes(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<u32>>>> {
        Box::pin(async move { self.network.home(home)?.stored_bytes(&chunks).await })
    }
}

/// Others that do not answer, of so many shards.
struct Silent(u16);

impl Peers for Silent {
    fn count(&self) -> u16 {
        self.0
    }

    fn home(&self, _: Fingerprint) -> Option<ShardId> {
        None
    }

    fn ask(&self, _: ShardId, _: Vec<Fingerprint>) -> LocalBoxFuture<'_, Result<Vec<DedupReply>>> {
        Box::pin(pending())
    }

    fn tell_stored(&self, _: ShardId, _: Vec<Fingerprint>) {}

    fn tell_overwritten(&self, _: ShardId, _: u64) {}

    fn read(
        &self,
        _: ShardId,
        _: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<BufSlice>>>> {
        Box::pin(pending())
    }

    fn stored_bytes(
        &self,
        _: ShardId,
        _: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<u32>>>> {
        Box::pin(pending())
    }
}

/// Two shards of a pool.
struct Pair {
    network: Rc<Network>,
    shards: Vec<Rc<Shard>>,
    media: Vec<Media>,
    shape: Shape,
}

const DEDUP: Reduction = Reduction { dedup: Dedup::On, compression: Compression::Off };

/// Runs `test` on two shards of a new pool.
fn with_pair(test: impl AsyncFnOnce(Pair) + 'static) {
    with_pair_of(shape(DEDUP), test);
}

fn with_pair_of(shape: Shape, test: impl AsyncFnOnce(Pair) + 'static) {
    let mut sim = SimLoop::new(11);
    let reactor = sim.handle();
    let disk = disk_for(shape, 2);
    let done = sim.try_run_until(
        async move {
            let (media, made) = format(&disk, shape, 2).await;
            made.expect("format the pool");
            let homes = || Rc::new(Homes::new(shape.index_bytes));
            let network = Rc::new(Network {
                reactor: reactor.clone(),
                shards: RefCell::default(),
                homes: [homes(), homes()],
                answer_ns: Cell::new(0),
                read_ns: Cell::new(0),
                serves: Cell::new(true),
                unanswered: RefCell::default(),
            });
            let other = |me| -> Option<Rc<dyn Peers>> {
                Some(Rc::new(Other { network: Rc::clone(&network), me }))
            };
            let shards = open_with_peers(&reactor, media.clone(), shape, other).await;
            *network.shards.borrow_mut() = shards.iter().map(Rc::downgrade).collect();
            test(Pair { network, shards, media, shape }).await;
        },
        u64::MAX,
    );
    assert!(done.is_some(), "the test waits for ever");
}

impl Pair {
    /// Writes at a home, and waits until it grants what was written.
    async fn store(&self, stream: StreamId, block: u64, data: &[u8]) {
        write(&self.shards[0], stream, block, data).await;
        self.shards[0].apply_acknowledged().await.expect("apply");
    }

    /// A whole mark pass over both; how much it freed.
    async fn mark(&self) -> u64 {
        let mut tickets = Vec::new();
        for shard in &self.shards {
            tickets.push(shard.mark_begin().await.expect("begin"));
        }
        let owned: HashSet<StreamId> = [ONE, OTHER].into_iter().collect();
        let mut named = ForeignNames::default();
        for (shard, ticket) in self.shards.iter().zip(&tickets) {
            named.merge(&shard.mark_walk(*ticket, &owned).await.expect("walk").1);
        }
        let mut freed = 0;
        for (shard, ticket) in self.shards.iter().zip(&tickets) {
            freed += shard.mark_sweep(*ticket, &named).await.expect("sweep").freed;
        }
        freed
    }
}

/// Older versions refuse the root before there is anything in the log that they would take for torn.
#[test]
fn roots_of_shards_with_others_say_so_from_the_first_checkpoint_on() {
    let said = |shards: u16, with_peers: bool| {
        let mut sim = SimLoop::new(12);
        let reactor = sim.handle();
        let (shape, disk) = (shape(DEDUP), disk_for(shape(DEDUP), u64::from(shards)));
        sim.run_until(async move {
            let (media, made) = format(&disk, shape, shards).await;
            made.expect("format the pool");
            let peers = |_| -> Option<Rc<dyn Peers>> {
                with_peers.then(|| Rc::new(Silent(shards)) as Rc<dyn Peers>)
            };
            let opened = open_with_peers(&reactor, media.clone(), shape, peers).await;
            let key = RootKey::Shard(ShardId(0));
            let (_, root) = media[0].roots.read(key).await.expect("a root");
            drop(opened);
            ShardRoot::decode(&root).expect("a root").features.incompat
        })
    };
    assert_eq!(said(2, true), Features::FOREIGN_NAMES);
    assert_eq!(said(1, true), 0);
    assert_eq!(said(2, false), 0, "alone it names no others");
}

/// A log that names a shard that the pool does not have is damaged, or another pool's.
#[test]
fn recovery_refuses_names_of_shards_that_are_not_there() {
    with_pair(async |pair: Pair| {
        let data = random_blocks(1, 64);
        write(&pair.shards[1], ONE, 0, &data).await;
        pair.shards[1].apply_acknowledged().await.expect("apply");
        write(&pair.shards[0], OTHER, 0, &data).await;
        pair.shards[0].apply_acknowledged().await.expect("apply");
        assert_eq!(pair.shards[0].stats().foreign_blocks, 64);

        let Pair { network, mut shards, media, shape } = pair;
        let reactor = network.reactor.clone();
        shards.drain(..).for_each(drop);
        let pool = OpenPool::open(&media[0]).await.expect("open the pool");
        let open = |shards| {
            let (media, peers) = (media[0].clone(), Rc::new(Silent(shards)));
            try_open(&reactor, &pool, media, shape, ShardId(0), Some(peers), |_| {})
        };
        let error = open(1).await.err().expect("there is no shard 1");
        assert!(matches!(error, Error::BadRoot { .. }), "{error}");
        assert!(open(2).await.is_ok());
    });
}

/// REFERENCES-4: what one home holds is left out, and nothing else; what no shard can hold dangles.
#[test]
fn a_check_goes_on_without_a_home() {
    with_pair(async |pair: Pair| {
        const BLOCKS: u64 = 64;
        let data = random_blocks(1, 64);
        write(&pair.shards[1], ONE, 0, &data).await;
        pair.shards[1].apply_acknowledged().await.expect("apply");
        write(&pair.shards[0], ONE, 0, &data).await;
        write(&pair.shards[0], OTHER, 0, &random_blocks(2, 64)).await;
        pair.shards[0].apply_acknowledged().await.expect("apply");
        assert_eq!(pair.shards[0].stats().foreign_blocks, BLOCKS);
        let check = async |shard: &Shard| {
            let progress = CheckProgress::default();
            shard.check_references(&[ONE, OTHER], &progress).await.expect("check")
        };
        let whole = check(&pair.shards[0]).await;
        assert!(whole.dangling == 0 && whole.unchecked.is_empty(), "{whole:?}");
        pair.network.serves.set(false);
        let found = check(&pair.shards[0]).await;
        assert_eq!((found.followed, found.dangling), (whole.followed, 0), "{found:?}");
        let [UncheckedNames { home: ShardId(1), names: BLOCKS, .. }] = *found.unchecked else {
            panic!("{:?}", found.unchecked)
        };

        let audit = pair.shards[0].audit().await.expect("audit");
        for (shard_count, differences) in [(2, 0), (1, 1)] {
            let mut reports = [(ShardId(0), audit.clone())];
            AuditReport::compare(&mut reports, shard_count);
            assert_eq!(reports[0].1.difference_count, differences, "{:?}", reports[0].1);
        }

        // Names in maps are believed as they are: the log does not say them any more.
        pair.shards[0].close().await.expect("close");
        let pool = OpenPool::open(&pair.media[0]).await.expect("open the pool");
        let (reactor, media) = (pair.network.reactor.clone(), pair.media[0].clone());
        let alone = Some(Rc::new(Silent(1)) as Rc<dyn Peers>);
        let opened = try_open(&reactor, &pool, media, pair.shape, ShardId(0), alone, |_| {}).await;
        let found = check(&opened.expect("open")).await;
        assert_eq!((found.dangling, found.unchecked.len()), (BLOCKS, 0), "{found:?}");
    });
}

/// WRITE-4: writes of parts of blocks that a slow home holds leave credits to all others, and are right in the end.
#[test]
fn a_slow_home_holds_up_writes_of_its_own_blocks_only() {
    with_pair(async |pair: Pair| {
        const BLOCKS: usize = 1024;
        let data = random_blocks(1, BLOCKS);
        for (shard, stream) in pair.shards.iter().zip([ONE, OTHER]) {
            for (index, part) in data.chunks(64 * BLOCK_BYTES).enumerate() {
                write(shard, stream, index as u64 * 64, part).await;
            }
            shard.apply_acknowledged().await.expect("apply");
        }
        assert_eq!(pair.shards[1].stats().foreign_blocks, BLOCKS as u64);
        let reactor = &pair.network.reactor;
        pair.network.read_ns.set(10_000 * MS);
        let parts: Vec<_> = (0..BLOCKS as u64)
            .map(|block| {
                let shard = Rc::clone(&pair.shards[1]);
                reactor.spawn_join(async move {
                    let part = AlignedBuf::from_slice(&[7; 512]).freeze();
                    shard.write(OTHER, ByteOffset(block * BLOCK), part).await.expect("write");
                })
            })
            .collect();
        reactor.sleep(MS).await;
        let before = reactor.now();
        // Some of what they are merged over is overwritten meanwhile, once with what another block has.
        write(&pair.shards[1], OTHER, 5000, &random_blocks(2, 64)).await;
        write(&pair.shards[1], OTHER, 1, &random_blocks(3, 1)).await;
        write(&pair.shards[1], OTHER, 2, &data[..BLOCK_BYTES]).await;
        pair.shards[1].apply_acknowledged().await.expect("apply");
        assert!(reactor.now().0 - before.0 < 1_000 * MS, "nobody waits for the home");
        assert_eq!(pair.shards[1].stats().foreign_blocks, BLOCKS as u64 + 1);
        for part in parts {
            part.await;
        }
        pair.network.read_ns.set(0);
        let mut expected = data.clone();
        expected[BLOCK_BYTES..2 * BLOCK_BYTES].copy_from_slice(&random_blocks(3, 1));
        expected.copy_within(..BLOCK_BYTES, 2 * BLOCK_BYTES);
        expected.chunks_mut(BLOCK_BYTES).for_each(|block| block[..512].fill(7));
        assert!(read(&pair.shards[1], OTHER, 0, BLOCKS).await == expected);
    });
}

/// PEERS-7: the answer to a write past the lane is on its way while both shards are walked.
#[test]
fn a_mark_pass_waits_for_answers_that_are_on_their_way() {
    with_pair(async |pair: Pair| {
        const BLOCKS: usize = 64;
        let data = random_blocks(1, BLOCKS);
        // Shared, and named by nobody: only the answer that is on its way keeps it.
        pair.store(ONE, 0, &data).await;
        pair.store(ONE, 1000, &data).await;
        for block in [0, 1000] {
            let range = ByteRange { start: block * BLOCK, end: (block + BLOCKS as u64) * BLOCK };
            pair.shards[0].trim(ONE, range).await.expect("trim");
        }
        pair.shards[0].apply_acknowledged().await.expect("apply");
        assert_eq!(pair.shards[0].stats().data_chunks, BLOCKS as u64);

        pair.network.answer_ns.set(20 * MS);
        let (shard, copy) = (Rc::clone(&pair.shards[1]), data.clone());
        let reactor = &pair.network.reactor;
        let is_written = Rc::new(Cell::new(false));
        let answered = Rc::clone(&is_written);
        let written = reactor.spawn_join(async move {
            write(&shard, OTHER, 0, &copy).await;
            answered.set(true);
        });
        reactor.sleep(MS).await;
        assert!(!is_written.get(), "it waits for the answer");
        let before = reactor.now();
        assert_eq!(pair.mark().await, 0);
        assert!(reactor.now().0 - before.0 > 10 * MS, "the answer was waited for");
        written.await;
        pair.shards[1].apply_acknowledged().await.expect("apply");
        assert_eq!(pair.shards[1].stats().foreign_blocks, BLOCKS as u64);
        assert_eq!(read(&pair.shards[1], OTHER, 0, BLOCKS).await, data);
        assert_eq!(pair.mark().await, 0);
        assert_eq!(read(&pair.shards[1], OTHER, 0, BLOCKS).await, data);
        let range = ByteRange { start: 0, end: BLOCKS as u64 * BLOCK };
        pair.shards[1].trim(OTHER, range).await.expect("trim");
        assert_eq!(pair.mark().await, BLOCKS as u64, "nobody names them any more");
    });
}

/// An answer that comes too late is as good as none, and nobody is asked for a while.
#[test]
fn a_slow_shard_holds_up_a_write_once_a_second_at_most() {
    with_pair(async |pair: Pair| {
        pair.store(ONE, 0, &random_blocks(1, 64)).await;
        pair.network.answer_ns.set(10_000 * MS);
        let reactor = &pair.network.reactor;
        let before = reactor.now();
        for round in 0..8 {
            let data = random_blocks(1, 64);
            write(&pair.shards[1], OTHER, round * 64, &data).await;
            pair.shards[1].apply_acknowledged().await.expect("apply");
            assert_eq!(read(&pair.shards[1], OTHER, round * 64, 64).await, data);
        }
        let took_ms = (reactor.now().0 - before.0) / MS;
        assert!((200..300).contains(&took_ms), "{took_ms} ms");
        assert_eq!(pair.shards[1].stats().foreign_blocks, 0);
        assert_eq!(pair.shards[1].stats().data_chunks, 64);
    });
}

/// An answer that is late says that others are to be had again.
#[test]
fn a_late_answer_ends_the_rest() {
    with_pair(async |pair: Pair| {
        pair.store(ONE, 0, &random_blocks(1, 128)).await;
        pair.network.answer_ns.set(300 * MS);
        let data = random_blocks(1, 128);
        for (round, foreign_blocks) in [(0, 0), (1, 64)] {
            let part = &data[round * 64 * BLOCK_BYTES..][..64 * BLOCK_BYTES];
            write(&pair.shards[1], OTHER, round as u64 * 64, part).await;
            pair.shards[1].apply_acknowledged().await.expect("apply");
            assert_eq!(pair.shards[1].stats().foreign_blocks, foreign_blocks, "round {round}");
            pair.network.answer_ns.set(0);
            pair.network.reactor.sleep(150 * MS).await;
        }
    });
}

/// A home that nobody writes to grants far more than its lane has credits for.
#[test]
fn an_idle_home_goes_on_granting() {
    with_pair(async |pair: Pair| {
        const BLOCKS: usize = 300;
        let data = random_blocks(1, BLOCKS);
        pair.store(ONE, 0, &data).await;
        for (index, block) in data.chunks(BLOCK_BYTES).enumerate() {
            write(&pair.shards[1], OTHER, index as u64, block).await;
            pair.shards[1].apply_acknowledged().await.expect("apply");
        }
        assert_eq!(pair.shards[1].stats().foreign_blocks, BLOCKS as u64);
        assert_eq!(read(&pair.shards[1], OTHER, 0, BLOCKS).await, data);
    });
}

/// Those who ask for more than the lane has credits for wait until these come back, and the home's own records do not.
#[test]
fn grants_wait_for_credits_and_the_home_does_not() {
    with_pair(async |pair: Pair| {
        const BLOCKS: usize = 256;
        let data = random_blocks(1, BLOCKS);
        pair.store(ONE, 0, &data).await;
        *pair.network.unanswered.borrow_mut() = Some(Vec::new());
        write(&pair.shards[1], OTHER, 0, &data).await;
        pair.shards[1].apply_acknowledged().await.expect("apply");
        let asked = pair.network.unanswered.take().expect("they were noted");
        assert_eq!(asked.len(), BLOCKS);
        let home = &pair.shards[0];
        let grants = join_all(asked.chunks(1).map(|one| home.grant(one)));
        let own = home.trim(ONE, ByteRange { start: 0, end: BLOCK });
        let Either::Right((trimmed, grants)) = select(grants, pin!(own)).await else {
            panic!("the home's own record waited for all grants")
        };
        trimmed.expect("trim");
        for granted in grants.await {
            assert!(granted.expect("open").iter().all(Option::is_some));
        }
    });
}

/// A chunk that was overwritten under a grant is shared and may be named by nobody, as far as its home knows.
#[test]
fn what_is_overwritten_under_a_grant_is_counted() {
    with_pair(async |pair: Pair| {
        const BLOCKS: usize = 64;
        let data = random_blocks(1, BLOCKS);
        pair.store(ONE, 0, &data).await;
        // In the lane, where it lingers: a large write would be applied by now.
        for (block, data) in (0..).zip(random_blocks(2, BLOCKS).chunks(BLOCK_BYTES)) {
            write(&pair.shards[0], ONE, block, data).await;
        }
        write(&pair.shards[1], OTHER, 0, &data).await;
        pair.shards[1].apply_acknowledged().await.expect("apply");
        assert_eq!(pair.shards[1].stats().foreign_blocks, BLOCKS as u64);
        assert_eq!(pair.shards[0].stats().kept_bytes, 0);
        pair.shards[0].apply_acknowledged().await.expect("apply");
        let kept_bytes = pair.shards[0].stats().kept_bytes;
        assert!(kept_bytes >= (BLOCKS * BLOCK_BYTES) as u64, "{kept_bytes} bytes");
    });
}

/// MARK-10: what only a dropped stream of another shard named is room for a write that finds none.
#[test]
fn a_write_waits_for_the_room_that_a_stream_of_another_shard_had() {
    with_pair(async |pair: Pair| {
        const BLOCKS: usize = 512;
        for (seed, block) in [(1, 0), (2, BLOCKS as u64 / 2)] {
            let data = random_blocks(seed, BLOCKS / 2);
            pair.store(ONE, block, &data).await;
            write(&pair.shards[1], OTHER, block, &data).await;
            pair.shards[1].apply_acknowledged().await.expect("apply");
        }
        assert_eq!(pair.shards[1].stats().foreign_blocks, BLOCKS as u64);
        let range = ByteRange { start: 0, end: BLOCKS as u64 * BLOCK };
        pair.shards[0].trim(ONE, range).await.expect("trim");
        assert_eq!(pair.mark().await, 0, "the other shard names all of it");
        assert_eq!(pair.shards[0].mark_wish(), MarkWish::None);
        pair.shards[1].drop_stream(OTHER).await.expect("drop");

        let home = Rc::clone(&pair.shards[0]);
        let filled = pair.network.reactor.spawn_join(async move {
            for round in 0.. {
                let data = AlignedBuf::from_slice(&random_blocks(10 + round, 64)).freeze();
                if let Err(error) = home.write(ONE, ByteOffset(round * 64 * BLOCK), data).await {
                    return error;
                }
            }
            unreachable!("the drive has an end")
        });
        let keep_marking = async {
            let mut freed = 0;
            while freed == 0 {
                pair.network.reactor.sleep(100 * MS).await;
                if pair.shards[0].mark_wish() == MarkWish::Urgent {
                    freed = pair.mark().await;
                }
            }
            freed
        };
        let filled = match select(pin!(keep_marking), filled).await {
            Either::Left((freed, filled)) => {
                assert_eq!(freed, BLOCKS as u64);
                filled
            }
            Either::Right((error, _)) => panic!("refused before a pass: {error}"),
        };
        drop(filled);
    });
}

/// A batch that others are asked about is no end of the lane: its blocks fill the open segment soon.
#[test]
fn a_segment_is_not_sealed_early_while_others_are_asked() {
    with_pair(async |pair: Pair| {
        let (shard, reactor) = (&pair.shards[1], &pair.network.reactor);
        pair.network.answer_ns.set(100 * MS);
        write(shard, OTHER, 0, &random_blocks(1, 8)).await;
        reactor.sleep(1_050 * MS).await;
        assert_eq!(shard.stats().stored_blocks, 0, "the other shard is asked about them");
        let data = random_blocks(2, 600);
        let writes: Vec<_> = (1000..)
            .zip(data.chunks(BLOCK_BYTES))
            .map(|(block, data)| {
                let (shard, data) = (Rc::clone(shard), data.to_vec());
                reactor.spawn_join(async move { write(&shard, OTHER, block, &data).await })
            })
            .collect();
        reactor.sleep(100 * MS).await;
        let stats = shard.stats();
        assert_eq!(stats.stored_blocks, 8, "and now about all others that there are credits for");
        assert_eq!(stats.data_segments, 0, "these fill the segment soon");
        for write in writes {
            write.await;
        }
    });
}

/// Neither the home's index nor that of homes knows more than a part of the blocks: hooks lead to the rest.
#[test]
fn blocks_of_another_shard_are_found_beyond_the_index() {
    let small = Shape { index_bytes: 256 << 10, segment_bytes: 2 << 20, ..shape(DEDUP) };
    with_pair_of(small, async |pair: Pair| {
        const BLOCKS: usize = 12_000;
        let data = random_blocks(8, BLOCKS);
        for (shard, stream) in pair.shards.iter().zip([ONE, OTHER]) {
            for (index, part) in data.chunks(16 * BLOCK_BYTES).enumerate() {
                write(shard, stream, index as u64 * 16, part).await;
            }
            shard.apply_acknowledged().await.expect("apply");
        }
        let found = pair.shards[1].stats().foreign_blocks;
        assert!(found >= BLOCKS as u64 * 90 / 100, "{found} of {BLOCKS}, as within a shard");
        assert_eq!(read(&pair.shards[1], OTHER, 0, 256).await, data[..256 * BLOCK_BYTES]);
    });
}
