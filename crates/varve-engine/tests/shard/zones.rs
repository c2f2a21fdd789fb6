//! Space that one shard gave back is room for every other one: zones go from shard to shard, by way of the pool.
//!
//! Method: fills a pool until a write is refused, deletes, and fills it again, with somebody who goes round as the
//! dispatcher does.

use std::cell::Cell;
use std::rc::Rc;

use hashbrown::HashSet;
use varve_engine::{BLOCK_BYTES, Error, ForeignNames, OpenPool, Shard, ZoneState, plan_zone_moves};
use varve_media::MemDisk;
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, Reduction, ShardId, StreamId};

use crate::pool::{MIB, Shape, disk_for, format, open_media, try_open};

const SHAPE: Shape = Shape {
    segments: 0,
    segment_bytes: 64 << 10,
    lane_bytes: MIB,
    memory_bytes: 16 * MIB,
    checkpoint_entries: 2000,
    write_blocks_max: 1,
    volume_percent: 50,
    reduction: Reduction::OFF,
    index_bytes: 1 << 10,
};

const SEGMENTS_PER_SHARD: u64 = 400;
const PIECE_BYTES: usize = 64 << 10;
const PIECES_MAX: usize = 24;
const LOOK_NS: u64 = 50_000_000;

/// An open pool, and the streams that are there.
struct Fleet {
    shards: Vec<Rc<Shard>>,
    streams: Vec<(usize, StreamId, u64)>,
    next: Cell<u64>,
    rng: Rng,
}

fn shape(shards: u16) -> Shape {
    Shape { segments: SEGMENTS_PER_SHARD * u64::from(shards), ..SHAPE }
}

/// Goes round when somebody waits, as the dispatcher does.
fn keep_zones(reactor: &Reactor, shards: &[Rc<Shard>]) {
    let (timer, shards) = (reactor.clone(), shards.to_vec());
    reactor.spawn(async move {
        while shards.iter().all(|shard| !shard.has_failed()) {
            let states: Vec<ZoneState> =
                shards.iter().map(|shard| shard.begin_zone_round()).collect();
            for (shard, zones) in shards.iter().zip(plan_zone_moves(&states, 0)) {
                if zones > 0 && shard.give_zones(zones).await.is_err() {
                    return;
                }
            }
            let may_mark = states.iter().any(|state| state.may_mark);
            shards.iter().for_each(|shard| shard.end_zone_round(may_mark));
            timer.sleep(LOOK_NS).await;
        }
    });
}

impl Fleet {
    /// Writes a stream of a few pieces to a shard; the bytes that it took, and whether it was refused.
    async fn write_stream(&mut self, on: usize, pieces: usize) -> (u64, bool) {
        let stream = StreamId::new(self.next.get());
        self.next.set(self.next.get() + 1);
        let mut written = 0;
        let mut refused = false;
        for _ in 0..pieces {
            let mut data = AlignedBuf::zeroed(PIECE_BYTES);
            self.rng.fill(&mut data);
            match self.shards[on].write(stream, ByteOffset(written), data.freeze()).await {
                Ok(_) => written += PIECE_BYTES as u64,
                Err(Error::NoSpace { .. }) => {
                    refused = true;
                    break;
                }
                Err(error) => panic!("write: {error}"),
            }
        }
        self.streams.push((on, stream, written));
        (written, refused)
    }

    fn held(&self) -> u64 {
        self.streams.iter().map(|(_, _, bytes)| bytes).sum()
    }

    /// Fills shards that the generator picks, until one refuses; the bytes that the pool then holds.
    async fn fill(&mut self) -> u64 {
        loop {
            let on = self.rng.index(self.shards.len());
            let pieces = 1 + self.rng.index(PIECES_MAX);
            if self.write_stream(on, pieces).await.1 {
                return self.held();
            }
        }
    }

    async fn delete(&mut self, keep: usize) {
        while self.streams.len() > keep {
            let index = self.rng.index(self.streams.len());
            let (on, stream, _) = self.streams.swap_remove(index);
            self.shards[on].drop_stream(stream).await.expect("drop");
        }
    }

    async fn mark(&self) {
        let mut tickets = Vec::new();
        for shard in &self.shards {
            tickets.push(shard.mark_begin().await.expect("begin"));
        }
        let owned: HashSet<StreamId> = self.streams.iter().map(|(_, stream, _)| *stream).collect();
        let mut named = ForeignNames::default();
        for (shard, ticket) in self.shards.iter().zip(&tickets) {
            named.merge(&shard.mark_walk(*ticket, &owned).await.expect("walk").1);
        }
        for (shard, ticket) in self.shards.iter().zip(&tickets) {
            shard.mark_sweep(*ticket, &named).await.expect("sweep");
        }
    }
}

fn with_fleet(shards: u16, test: impl AsyncFnOnce(Fleet) + 'static) {
    let mut sim = SimLoop::new(5);
    let reactor = sim.handle();
    sim.run_until(async move {
        let disk = disk_for(shape(shards), u64::from(shards));
        let (media, made) = format(&disk, shape(shards), shards).await;
        made.expect("format the pool");
        let opened = open_media(&reactor, media, shape(shards)).await;
        keep_zones(&reactor, &opened);
        let rng = Rng::new(9);
        test(Fleet { shards: opened, streams: Vec::new(), next: Cell::new(1), rng }).await;
    });
}

fn cycles(shards: u16, keep_of_ten: usize) {
    with_fleet(shards, async move |mut fleet| {
        let first = fleet.fill().await;
        let mut taken = vec![100];
        for _ in 1..20 {
            fleet.delete(fleet.streams.len() * keep_of_ten / 10).await;
            fleet.mark().await;
            taken.push(fleet.fill().await * 100 / first);
        }
        println!("{shards} shards, {first} bytes: {taken:?}");
        assert!(taken.iter().all(|percent| *percent >= 95), "{taken:?}");
    });
}

#[test]
fn one_shard_takes_as_much_in_every_round() {
    cycles(1, 0);
    cycles(1, 5);
}

#[test]
fn two_shards_take_as_much_in_every_round() {
    cycles(2, 0);
    cycles(2, 5);
}

#[test]
fn four_shards_take_as_much_in_every_round() {
    cycles(4, 0);
    cycles(4, 5);
}

/// What one shard took alone, and gave back, another one takes, without being opened again.
#[test]
fn space_goes_from_a_shard_that_had_it_all_to_another() {
    with_fleet(2, async |mut fleet| {
        for on in [0, 1, 0] {
            let mut taken = 0;
            loop {
                let (bytes, refused) = fleet.write_stream(on, PIECES_MAX).await;
                taken += bytes;
                if refused {
                    break;
                }
            }
            let whole = 2 * SEGMENTS_PER_SHARD * u64::from(SHAPE.segment_bytes);
            assert!(taken * 100 > whole * 70, "shard {on} took {taken} of {whole}");
            fleet.delete(0).await;
            fleet.mark().await;
        }
    });
}

/// The zones of all shards and those that nobody has are the pool's, each once, whatever was moved; also after an
/// opening.
#[test]
fn zones_are_neither_lost_nor_doubled() {
    let mut sim = SimLoop::new(6);
    let reactor = sim.handle();
    sim.run_until(async move {
        let disk: MemDisk = disk_for(shape(2), 2);
        let (media, made) = format(&disk, shape(2), 2).await;
        made.expect("format the pool");
        let pool = OpenPool::open(&media[0]).await.expect("open the pool");
        let mut shards = Vec::new();
        for (id, media) in (0..).map(ShardId).zip(media.clone()) {
            let shard = try_open(&reactor, &pool, media, shape(2), id, None, |_| {}).await;
            shards.push(shard.expect("open"));
        }
        let counts = pool.zone_counts();
        let mut fleet = Fleet { shards, streams: Vec::new(), next: Cell::new(1), rng: Rng::new(3) };
        let (wrote, _) = fleet.write_stream(0, 150).await;
        assert!(wrote > 0);
        fleet.delete(0).await;
        fleet.mark().await;
        let before = fleet.shards[0].stats().space.segments;
        let spare = fleet.shards[0].begin_zone_round().spare_zones;
        let given = fleet.shards[0].give_zones(spare).await.expect("give");
        assert!(given > 0 && given <= spare, "{given} of {spare}");
        let after = fleet.shards[0].stats().space.segments;
        assert_eq!(before - after, given * counts.zone_segments());
        assert!(after >= counts.standing_segments());
        for shard in &fleet.shards {
            shard.close().await.expect("close");
        }
        let again = OpenPool::open(&media[0]).await.expect("open again");
        let zones = again.zones_of(ShardId(0)).await.expect("zones");
        let segments: u64 = zones.iter().map(|zone| u64::from(zone.count)).sum();
        assert_eq!(segments, after, "what the shard gave back is not its own any more");
        let mut buf = AlignedBuf::zeroed(BLOCK_BYTES);
        fleet.rng.fill(&mut buf);
        let shard =
            try_open(&reactor, &again, media[0].clone(), shape(2), ShardId(0), None, |_| {});
        shard
            .await
            .expect("open")
            .write(StreamId::new(999), ByteOffset(0), buf.freeze())
            .await
            .expect("write");
    });
}
