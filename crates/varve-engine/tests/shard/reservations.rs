//! What is promised to a stream can be written, whatever others write, and what it holds is counted as it is.
//!
//! Method: shards on a memory disk in the simulated loop, which ends a run in which nothing can happen any more. A
//! crash is the end of the loop: the disk stays as it is, and another loop opens it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join;
use hashbrown::HashSet;
use varve_engine::{
    BLOCK_BYTES, CutId, CutPair, Error, MarkWish, Reservation, ReservationSize, Shard, ShardConfig,
};
use varve_media::{Drive, DriveDisks, DriveOptions, MemDisk};
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, ByteRange, Compression, Dedup, Reduction, ShardId, StreamId};

use crate::pool::{MIB, Shape, disk_for, format, open_configured};

const BLOCK: u64 = BLOCK_BYTES as u64;
const RESERVED: StreamId = StreamId::new(1);
const OTHER: StreamId = StreamId::new(2);
const COPY: StreamId = StreamId::new(3);
const SECOND: StreamId = StreamId::new(4);
const CLIENTS: u64 = 8;
const LOOK_NS: u64 = 200_000_000;

const SMALL: Shape = Shape {
    segments: 160,
    segment_bytes: 1 << 20,
    lane_bytes: 4 * MIB,
    memory_bytes: 16 * MIB,
    checkpoint_entries: 1_000,
    write_blocks_max: 1,
    volume_percent: 0,
    reduction: Reduction { dedup: Dedup::On, compression: Compression::Lz4 },
    index_bytes: 1 << 20,
};

/// Blocks of the stream to which something is promised: a fifth of the drive, or so.
fn blocks_of(shape: Shape) -> u64 {
    shape.segments * u64::from(shape.segment_bytes) / BLOCK / 5
}

fn size(blocks: u64) -> ReservationSize {
    ReservationSize { blocks, pages: blocks.div_ceil(512) + 2 }
}

/// One life of a pool: from an opening to a crash.
fn life(disk: &MemDisk, shape: Shape, seed: u64, test: impl AsyncFnOnce(Life) + 'static) {
    life_configured(disk, shape, seed, |_| {}, test);
}

/// The same, of a shard that is told something else.
fn life_configured(
    disk: &MemDisk,
    shape: Shape,
    seed: u64,
    change: impl Fn(&mut ShardConfig) + 'static,
    test: impl AsyncFnOnce(Life) + 'static,
) {
    let mut sim = SimLoop::new(seed);
    let reactor = sim.handle();
    let disk: Rc<dyn varve_media::Disk> = Rc::new(disk.clone());
    let done = sim.try_run_until(
        async move {
            let disks = vec![DriveDisks::One(disk)];
            let drive = Drive::open(disks, DriveOptions { discard: false }).await.expect("open");
            let media = vec![drive.media(ShardId(0)).expect("a lane")];
            let shard = open_configured(&reactor, media, shape, |_| None, change).await.remove(0);
            test(Life { reactor, shard, shape }).await;
        },
        u64::MAX,
    );
    assert!(done.is_some(), "the test waits for ever: {shape:?}");
}

fn new_disk(shape: Shape) -> MemDisk {
    let disk = disk_for(shape, 1);
    let to_format = disk.clone();
    SimLoop::new(1).run_until(async move {
        format(&to_format, shape, 1).await.1.expect("format the pool");
    });
    disk
}

#[derive(Clone)]
struct Life {
    reactor: Reactor,
    shard: Rc<Shard>,
    shape: Shape,
}

impl Life {
    fn state(&self) -> Reservation {
        let mut states = self.shard.reservations();
        states.retain(|state| state.stream == RESERVED);
        states.pop().expect("something is promised")
    }

    async fn write(
        &self,
        stream: StreamId,
        block: u64,
        blocks: u64,
        rng: &mut Rng,
    ) -> Result<(), Error> {
        let mut data = AlignedBuf::zeroed(usize::try_from(blocks * BLOCK).expect("small"));
        rng.fill(&mut data);
        self.shard.write(stream, ByteOffset(block * BLOCK), data.freeze()).await
    }

    /// Others write at random far and wide, then side by side, until they were refused so often that nothing more fits.
    async fn fill(&self, seed: u64) -> u64 {
        let written = Rc::new(Cell::new(0));
        for (blocks, refusals_max) in [(1, 50_u32), (64, 4), (1, 50)] {
            let clients = (0..CLIENTS).map(|client| {
                let (life, written) = (self.clone(), Rc::clone(&written));
                let mut rng = Rng::new(seed * CLIENTS + client);
                self.reactor.spawn_join(async move {
                    let wide = 8 * blocks_of(life.shape);
                    let mut refusals = 0;
                    while refusals < refusals_max {
                        let first = rng.below(wide);
                        match life.write(OTHER, first, blocks, &mut rng).await {
                            Ok(()) => written.set(written.get() + blocks),
                            Err(Error::NoSpace { .. }) => refusals += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            });
            for client in clients.collect::<Vec<_>>() {
                client.await;
            }
        }
        written.get()
    }

    /// Writes every block of the stream once, in pieces of all sizes, with what nothing makes smaller.
    async fn write_all(&self, seed: u64) {
        let mut pieces = Vec::new();
        let (mut rng, blocks) = (Rng::new(seed), blocks_of(self.shape));
        let mut at = 0;
        while at < blocks {
            let len = [1, 1, 1, 3, 16, 64, 300][usize::try_from(rng.below(7)).expect("small")];
            let len = len.min(blocks - at);
            pieces.push((at, len));
            at += len;
        }
        for index in (1..pieces.len()).rev() {
            pieces.swap(index, usize::try_from(rng.below(index as u64 + 1)).expect("small"));
        }
        let pieces = Rc::new(std::cell::RefCell::new(pieces));
        let clients = (0..CLIENTS).map(|client| {
            let (life, pieces) = (self.clone(), Rc::clone(&pieces));
            let mut rng = Rng::new(seed * CLIENTS + client);
            self.reactor.spawn_join(async move {
                loop {
                    let Some((first, len)) = pieces.borrow_mut().pop() else { break };
                    let written = life.write(RESERVED, first, len, &mut rng).await;
                    let state = life.state();
                    let stats = life.shard.stats();
                    written.unwrap_or_else(|error| panic!("{error}: {state:?} {stats:?}"));
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await;
        }
    }

    async fn settled(&self) -> Reservation {
        self.shard.apply_acknowledged().await.expect("apply");
        while !self.state().is_counted {
            self.reactor.sleep(1_000_000).await;
        }
        self.state()
    }

    async fn cut(&self, copy: StreamId) -> Result<(), Error> {
        let id = CutId(copy.get());
        let cut = self.shard.cut(id, &[CutPair { source: RESERVED, copy }]).await;
        self.shard.release_cut(id);
        cut
    }

    /// Runs a mark pass whenever one is wanted.
    fn keep_marking(&self, owned: &[StreamId]) {
        let (life, owned) = (self.clone(), owned.iter().copied().collect::<HashSet<_>>());
        self.reactor.spawn(async move {
            loop {
                life.reactor.sleep(LOOK_NS).await;
                if life.shard.mark_wish() != MarkWish::None {
                    let ticket = life.shard.mark_begin().await.expect("begin");
                    let (_, named) = life.shard.mark_walk(ticket, &owned).await.expect("walk");
                    life.shard.mark_sweep(ticket, &named).await.expect("sweep");
                }
            }
        });
    }
}

fn shapes() -> Vec<Shape> {
    vec![
        SMALL,
        Shape { segment_bytes: 256 << 10, segments: 640, ..SMALL },
        Shape { checkpoint_entries: 1_000_000, memory_bytes: 64 * MIB, ..SMALL },
        Shape { segments: 80, segment_bytes: 2 << 20, ..SMALL },
    ]
}

#[test]
fn what_is_promised_can_be_written_into_a_full_shard() {
    for shape in shapes() {
        let (disk, blocks) = (new_disk(shape), blocks_of(shape));
        life(&disk, shape, 1, async move |life| {
            life.shard.reserve(RESERVED, size(blocks), true).await.expect("there is room");
            let others = life.fill(1).await;
            assert!(others > blocks / 2, "others get the rest: {others}");
            assert_eq!(life.state().held_blocks, 0);
            for round in 0..3 {
                life.write_all(round).await; // What it holds is overwritten from the second time on.
                assert_eq!(life.settled().await.held_blocks, blocks);
            }
        });
        life(&disk, shape, 2, async move |life| {
            life.fill(2).await; // Nobody has the space after a crash either.
            life.write_all(10).await;
            assert_eq!(life.settled().await.held_blocks, blocks);
            for start in (0..blocks).step_by(1000) {
                let range = ByteRange { start: start * BLOCK, end: (start + 700) * BLOCK };
                life.shard.trim(RESERVED, range).await.expect("trim");
            }
            life.fill(3).await; // What it gave back stays its own.
            life.write_all(11).await;
        });
    }
}

#[test]
fn a_cut_is_refused_unless_everything_can_be_written_once_more() {
    for shape in shapes() {
        let (disk, blocks) = (new_disk(shape), blocks_of(shape));
        life(&disk, shape, 1, async move |life| {
            life.keep_marking(&[RESERVED, OTHER, COPY]);
            life.shard.reserve(RESERVED, size(blocks), true).await.expect("there is room");
            life.write_all(1).await;
            life.fill(1).await;
            let prepared = life.shard.prepare_cut(&[RESERVED]).await;
            assert!(matches!(prepared, Err(Error::CannotReserve { .. })), "{prepared:?}");
            let cut = life.cut(COPY).await;
            assert!(matches!(cut, Err(Error::CannotReserve { .. })), "{cut:?}");
            assert_eq!(life.settled().await.held_blocks, blocks, "it was not cut");
            life.write_all(2).await;
            life.shard.drop_stream(OTHER).await.expect("others go");
            life.shard.prepare_cut(&[RESERVED]).await.expect("a mark pass makes room");
            life.cut(COPY).await.expect("there is room");
            assert_eq!(life.state().held_blocks, 0, "the copy may hold all of it");
            life.fill(2).await;
            assert_eq!(life.settled().await.held_blocks, 0);
            life.write_all(3).await;
            assert_eq!(life.settled().await.held_blocks, blocks);
        });
        life(&disk, shape, 2, async move |life| {
            assert_eq!(life.settled().await.held_blocks, blocks);
            life.fill(3).await;
            life.write_all(4).await;
        });
        // A crash between the cut and the writes that it makes room for.
        life(&disk, shape, 3, async move |life| {
            life.keep_marking(&[RESERVED, COPY]);
            life.shard.drop_stream(OTHER).await.expect("others go");
            life.shard.drop_stream(COPY).await.expect("so does the copy");
            life.shard.prepare_cut(&[RESERVED]).await.expect("a mark pass makes room");
            life.cut(SECOND).await.expect("there is room");
        });
        life(&disk, shape, 4, async move |life| {
            life.fill(4).await;
            assert_eq!(life.settled().await.held_blocks, 0);
            life.write_all(5).await;
        });
    }
}

#[test]
fn promises_made_at_once_do_not_share_space() {
    let disk = new_disk(SMALL);
    life(&disk, SMALL, 1, async |life| {
        let most = SMALL.segments * u64::from(SMALL.segment_bytes) / BLOCK;
        let huge = life.shard.reserve(RESERVED, size(most), true).await;
        assert!(matches!(huge, Err(Error::CannotReserve { .. })), "{huge:?}");
        let half = size(most * 2 / 5);
        let (one, other) =
            join(life.shard.reserve(RESERVED, half, true), life.shard.reserve(SECOND, half, true))
                .await;
        assert_eq!(u32::from(one.is_ok()) + u32::from(other.is_ok()), 1, "{one:?} {other:?}");
        for stream in [RESERVED, SECOND] {
            life.shard.release_reservation(stream).await.expect("release");
        }
        assert_eq!(life.shard.reservations(), []);
        life.shard.reserve(SECOND, half, true).await.expect("all is free again");
    });
    life(&disk, SMALL, 2, async |life| {
        let states = life.shard.reservations();
        assert_eq!(states.iter().map(|state| state.stream).collect::<Vec<_>>(), [SECOND]);
        life.shard.drop_stream(SECOND).await.expect("drop");
        assert_eq!(life.shard.reservations(), [], "a promise goes with its stream");
    });
    life(&disk, SMALL, 3, async |life| assert_eq!(life.shard.reservations(), []));
}

#[test]
fn what_was_written_before_a_promise_does_not_count() {
    let (disk, blocks) = (new_disk(SMALL), blocks_of(SMALL) / 2);
    life(&disk, SMALL, 1, async move |life| {
        let mut rng = Rng::new(1);
        let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
        rng.fill(&mut block);
        let block = block.freeze();
        for at in 0..blocks {
            let stream = if at % 2 == 0 { RESERVED } else { OTHER };
            life.shard
                .write(stream, ByteOffset(at * BLOCK), block.clone())
                .await
                .expect("there is room");
        }
        life.shard.reserve(RESERVED, size(blocks), false).await.expect("there is room");
        assert_eq!(life.settled().await.held_blocks, 0);
        // Equal to what is there, and yet stored on its own.
        life.shard.write(RESERVED, ByteOffset(0), block.clone()).await.expect("write");
        life.shard.write(RESERVED, ByteOffset(9 * BLOCK), block.clone()).await.expect("write");
        assert_eq!(life.settled().await.held_blocks, 2);
    });
    life(&disk, SMALL, 2, async move |life| assert_eq!(life.settled().await.held_blocks, 2));
}

/// Random changes against a set of the blocks that are to count, over lives that end in the middle.
#[test]
fn what_is_held_is_counted_as_it_is() {
    for seed in 1..=6 {
        let shape = Shape { checkpoint_entries: 100, ..SMALL };
        let disk = new_disk(shape);
        let mut model = BTreeSet::new();
        for number in 0..4 {
            let (found, kept) = (Rc::new(Cell::new(None)), model.clone());
            let tell = Rc::clone(&found);
            life(&disk, shape, seed * 10 + number, async move |life| {
                let model = change_at_random(&life, seed * 10 + number, kept).await;
                tell.set(Some(model));
            });
            model = found.take().expect("the life ended");
        }
    }
}

async fn change_at_random(life: &Life, seed: u64, mut model: BTreeSet<u64>) -> BTreeSet<u64> {
    const BLOCKS: u64 = 4000;
    let mut rng = Rng::new(seed);
    if life.shard.reservations().is_empty() {
        life.shard.reserve(RESERVED, size(BLOCKS), true).await.expect("there is room");
    }
    for step in 0..60 {
        let first = rng.below(BLOCKS);
        let most = [1, 8, 300][usize::try_from(rng.below(3)).expect("small")];
        let len = (1 + rng.below(most)).min(BLOCKS - first);
        let range = ByteRange { start: first * BLOCK, end: (first + len) * BLOCK };
        match rng.below(12) {
            0..6 => {
                life.write(RESERVED, first, len, &mut rng).await.expect("write");
                model.extend(first..first + len);
            }
            6 => {
                let zeros = AlignedBuf::zeroed(usize::try_from(len * BLOCK).expect("small"));
                life.shard
                    .write(RESERVED, ByteOffset(first * BLOCK), zeros.freeze())
                    .await
                    .expect("write");
                model.retain(|block| !(first..first + len).contains(block));
            }
            7 => {
                life.shard.trim(RESERVED, range).await.expect("trim");
                model.retain(|block| !(first..first + len).contains(block));
            }
            8 => {
                life.shard.write_zeroes(RESERVED, range, true).await.expect("zero");
                model.retain(|block| !(first..first + len).contains(block));
            }
            9 if step % 7 == 0 => {
                // So much that nobody looks what it was.
                let range = ByteRange { start: 0, end: (1 << 19) * BLOCK };
                life.shard.trim(RESERVED, range).await.expect("trim");
                model.clear();
            }
            10 if step % 5 == 0 => {
                // Copies that nobody owns fill the shard: then a cut changes nothing.
                match life.cut(StreamId::new(1000 + seed * 100 + step)).await {
                    Ok(()) => model.clear(),
                    Err(error) => assert!(matches!(error, Error::CannotReserve { .. }), "{error}"),
                }
            }
            11 => life.shard.checkpoint().await.expect("checkpoint"),
            _ => {
                let held = life.settled().await.held_blocks;
                assert_eq!(held, model.len() as u64, "seed {seed} step {step}");
            }
        }
        let state = life.state();
        assert!(state.held_blocks <= BLOCKS, "{state:?}");
    }
    model
}

/// Updates of other maps wait; what the promised blocks held is known at once, with a page cache that holds next to
/// nothing.
#[test]
fn nothing_waits_for_what_is_promised() {
    const BLOCKS: u64 = 12 * 512;
    let shape = Shape { segment_bytes: 256 << 10, segments: 640, ..SMALL };
    let waiting = |config: &mut ShardConfig| {
        (config.page_cache_bytes, config.deltas_from_per_mille) = (0, 0);
    };
    let disk = new_disk(shape);
    let mut held = BTreeSet::new();
    for number in 0..3 {
        let found = Rc::new(Cell::new(None));
        let (tell, mut model) = (Rc::clone(&found), held);
        life_configured(&disk, shape, number, waiting, async move |life| {
            let mut rng = Rng::new(number);
            if number == 0 {
                for first in (0..BLOCKS).step_by(64) {
                    life.write(RESERVED, first, 64, &mut rng).await.expect("write");
                    life.write(OTHER, first, 64, &mut rng).await.expect("write");
                }
                life.shard.apply_acknowledged().await.expect("apply");
                life.shard.checkpoint().await.expect("checkpoint");
                for _ in 0..500 {
                    life.write(RESERVED, rng.below(BLOCKS), 1, &mut rng).await.expect("write");
                }
                life.shard.apply_acknowledged().await.expect("apply");
                assert!(life.shard.stats().waiting_updates > 300, "nothing is promised yet");
                life.shard.reserve(RESERVED, size(BLOCKS), false).await.expect("there is room");
                assert!(life.shard.stats().waiting_updates < 100, "they are in the map");
            }
            assert_eq!(life.settled().await.held_blocks, model.len() as u64, "life {number}");
            let mut waited_max = 0;
            for step in 0..4000 {
                let block = rng.below(BLOCKS);
                life.write(RESERVED, block, 1, &mut rng).await.expect("write");
                model.insert(block);
                life.write(OTHER, rng.below(BLOCKS), 1, &mut rng).await.expect("write");
                if step % 1000 == 999 {
                    let held = life.settled().await.held_blocks;
                    assert_eq!(held, model.len() as u64, "life {number} step {step}");
                    waited_max = waited_max.max(life.shard.stats().waiting_updates);
                }
            }
            assert!(waited_max > 100, "others' wait, unless one looks behind a sweep");
            let report = life.shard.audit().await.expect("audit");
            assert_eq!(report.differences, Vec::<String>::new());
            tell.set(Some(model));
        });
        held = found.take().expect("the life ended");
    }
    life_configured(&disk, shape, 9, waiting, async move |life| {
        life.shard.release_reservation(RESERVED).await.expect("release");
        life.shard.apply_acknowledged().await.expect("apply");
        let before = life.shard.stats();
        let mut rng = Rng::new(9);
        for _ in 0..200 {
            life.write(RESERVED, rng.below(BLOCKS), 1, &mut rng).await.expect("write");
        }
        life.shard.apply_acknowledged().await.expect("apply");
        let after = life.shard.stats();
        assert!(after.waiting_updates > before.waiting_updates, "they wait as any");
    });
}
