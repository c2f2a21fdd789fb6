//! Chunks that were overwritten wait to be taken out of the chunk table together: whenever the shard is cut off, none
//! of them comes back or is missing, and what waits is neither lost nor given to others.
//!
//! Method: clients that overwrite blocks of their own at random, on a memory disk in the simulated loop; dropping the
//! loop is the crash. Then the shard is opened by another loop, audited, and every block read and compared with what
//! was acknowledged.

use std::cell::RefCell;
use std::rc::Rc;

use crate::pool::{MIB, Shape, disk_for, format, open_media};
use crate::versions::{index, read, write};
use varve_engine::{BLOCK_BYTES, ForeignNames, Shard};
use varve_media::Media;
use varve_reactor::{Reactor, SimLoop};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, Compression, Dedup, Reduction, StreamId};

const STREAM: StreamId = StreamId::new(1);
const BLOCK: u64 = BLOCK_BYTES as u64;
const CLIENTS: u64 = 8;
const BLOCKS: u64 = 6000;

const SHAPE: Shape = Shape {
    segments: 160,
    segment_bytes: 256 << 10,
    lane_bytes: 4 * MIB,
    memory_bytes: 16 * MIB,
    checkpoint_entries: 4_000,
    write_blocks_max: 1,
    volume_percent: 0,
    reduction: Reduction::OFF,
    index_bytes: 1 << 20,
};

/// Versions of each block: what was begun and what was acknowledged.
#[derive(Clone, Copy, Default)]
struct Versions {
    begun: u64,
    acknowledged: u64,
}

type Model = Rc<RefCell<Vec<Versions>>>;

async fn check(shard: &Shard, model: &Model) {
    let report = shard.audit().await.expect("audit");
    assert_eq!(report.differences, Vec::<String>::new());
    assert_eq!(report.unreachable, 0, "what was overwritten is gone");
    assert_eq!(report.data_chunks, report.chunks);
    assert_eq!(shard.stats().waiting_deaths, report.dead_chunks);
    for block in 0..BLOCKS {
        let Versions { begun, acknowledged } = model.borrow()[index(block)];
        let found = read(shard, STREAM, block).await;
        assert!((acknowledged..=begun).contains(&found), "block {block}: version {found}");
        // From here on nothing older may be read.
        model.borrow_mut()[index(block)].acknowledged = found;
    }
}

/// Overwrites at random until the loop is dropped.
fn spawn_clients(reactor: &Reactor, shard: &Rc<Shard>, model: &Model, seed: u64) {
    for client in 0..CLIENTS {
        let (shard, model) = (Rc::clone(shard), Rc::clone(model));
        let mut rng = Rng::new(seed * CLIENTS + client);
        reactor.spawn(async move {
            loop {
                let block = rng.below(BLOCKS / CLIENTS) * CLIENTS + client;
                let index = index(block);
                let version = model.borrow()[index].begun + 1;
                model.borrow_mut()[index].begun = version;
                write(&shard, STREAM, block, version).await;
                model.borrow_mut()[index].acknowledged = version;
            }
        });
    }
}

async fn reopen(reactor: &Reactor, media: Vec<Media>) -> Rc<Shard> {
    open_media(reactor, media, SHAPE).await.remove(0)
}

#[test]
fn a_crash_neither_loses_deaths_nor_makes_any() {
    let disk = disk_for(SHAPE, 1);
    let media = SimLoop::new(1).run_until({
        let disk = disk.clone();
        async move {
            let (media, made) = format(&disk, SHAPE, 1).await;
            made.expect("format the pool");
            media
        }
    });
    let model: Model = Rc::new(RefCell::new(vec![Versions::default(); index(BLOCKS)]));
    let (mut waiting_max, mut restored_max) = (0, 0);
    for life in 1..=8 {
        let mut sim = SimLoop::new(life);
        let reactor = sim.handle();
        let (media, model) = (media.clone(), Rc::clone(&model));
        let (restored, waiting) = sim.run_until(async move {
            let shard = reopen(&reactor, media).await;
            let restored = shard.stats().waiting_deaths;
            check(&shard, &model).await;
            spawn_clients(&reactor, &shard, &model, life);
            let mut waiting = 0;
            while shard.stats().writes < 3_000 + 2_700 * life {
                reactor.sleep(100_000).await;
                waiting = waiting.max(shard.stats().waiting_deaths);
            }
            (restored, waiting)
        });
        waiting_max = waiting_max.max(waiting);
        restored_max = restored_max.max(restored);
    }
    assert!(waiting_max > 300, "only {waiting_max} deaths waited at a time");
    assert!(restored_max > 200, "only {restored_max} deaths waited through an opening");
}

#[test]
fn what_waits_to_be_folded_is_shared_only_if_it_is_shared_already() {
    let dedup = Reduction { dedup: Dedup::On, compression: Compression::Off };
    let shape = Shape { reduction: dedup, checkpoint_entries: 1_000_000, ..SHAPE };
    let mut sim = SimLoop::new(5);
    let reactor = sim.handle();
    sim.run_until(async move {
        let (media, made) = format(&disk_for(shape, 1), shape, 1).await;
        made.expect("format the pool");
        let shard = open_media(&reactor, media, shape).await.remove(0);
        let put = async |block: u64, fill: u8| {
            let data = AlignedBuf::from_slice(&[fill; BLOCK_BYTES]).freeze();
            shard.write(STREAM, ByteOffset(block * BLOCK), data).await.expect("write");
            shard.apply_acknowledged().await.expect("apply");
            (shard.stats().deduplicated_blocks, shard.stats().waiting_deaths)
        };
        assert_eq!(put(0, b'a').await, (0, 0));
        assert_eq!(put(0, b'b').await, (0, 1), "it waits");
        assert_eq!(put(1, b'a').await, (0, 1), "the dead are not shared");
        assert_eq!(put(2, b'a').await, (1, 1));
        assert_eq!(put(1, b'c').await, (1, 2), "what is shared waits as well");
        assert_eq!(put(3, b'a').await, (2, 2), "and is shared further");
        shard.checkpoint().await.expect("checkpoint");
        assert_eq!(shard.stats().waiting_deaths, 2, "they outlive a checkpoint");
        let report = shard.audit().await.expect("audit");
        assert_eq!(report.differences, Vec::<String>::new());
        assert_eq!((report.chunks, report.data_chunks, report.dead_chunks), (4, 3, 1));
        shard.census(&[vec![STREAM]], &ForeignNames::default()).await.expect("census");
        assert_eq!(shard.stats().waiting_deaths, 0, "a census folds");
        let report = shard.audit().await.expect("audit");
        assert_eq!((report.chunks, report.data_chunks, report.dead_chunks), (4, 3, 0));
    });
}
