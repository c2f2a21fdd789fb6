//! What a transaction changes is there as a whole, whenever the shard is cut off, and is found in order while some of
//! it waits for the trees.
//!
//! Method: clients that replace things at random, each a key, some blocks that it names and a counter that all things
//! share, on a memory disk in the simulated loop; dropping the loop is the crash. Then another loop opens the shard and
//! compares all three.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::pool::{MIB, Shape, disk_for, format, open_media};
use crate::reduction::{Pool, with_shape, with_shard};
use varve_engine::{BLOCK_BYTES, ReadPart, Shard, Transaction, TransactionRoom, key_behind};
use varve_reactor::SimLoop;
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{BlockIndex, ByteOffset, ErrorKind, Reduction, StreamId};

const STREAM: StreamId = StreamId::new(1);
const BLOCK: u64 = BLOCK_BYTES as u64;
const THINGS: u64 = 40;
const CLIENTS: u64 = 8;
const BLOCKS_MAX: u64 = 3;
const COUNTER: &[u8] = b"counter";

const SHAPE: Shape = Shape {
    segments: 160,
    segment_bytes: 64 << 10,
    lane_bytes: MIB,
    memory_bytes: 16 * MIB,
    checkpoint_entries: 500,
    write_blocks_max: 1,
    volume_percent: 0,
    reduction: Reduction::OFF,
    index_bytes: 1 << 20,
};

const ROOM: TransactionRoom =
    TransactionRoom { data_bytes: 3 * 4096, changes: 4, takes_space: true };

fn key(thing: u64) -> Vec<u8> {
    format!("thing{thing}").into_bytes()
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(*value.first_chunk().expect("8 bytes")))
}

fn blocks(fill: u64, count: u64) -> varve_stdx::BufSlice {
    let mut data = AlignedBuf::zeroed(usize::try_from(count * BLOCK).expect("few"));
    for word in data.chunks_mut(8) {
        word.copy_from_slice(&fill.to_le_bytes());
    }
    data.freeze()
}

/// The number that a block is full of; `None` when it is not.
async fn full_of(shard: &Shard, block: u64) -> Option<u64> {
    let parts = shard.read(STREAM, ByteOffset(block * BLOCK), BLOCK_BYTES).await.expect("read");
    match &parts[..] {
        [ReadPart::Zero(_)] => Some(0),
        [ReadPart::Data(data)] => {
            let first = u64::from_le_bytes(*data.first_chunk().expect("8 bytes"));
            data.chunks(8).all(|word| word == first.to_le_bytes()).then_some(first)
        }
        _ => None,
    }
}

/// Replaces a thing: its key, its blocks (the rest of them are trimmed), and the counter.
async fn replace(shard: &Shard, thing: u64, counter: &Cell<u64>, count: u64) {
    let admitted = shard.admit_transaction(ROOM).await.expect("room");
    let version = counter.get() + 1;
    counter.set(version);
    let first = BlockIndex(thing * BLOCKS_MAX);
    let mut transaction = Transaction::default();
    transaction.write(STREAM, first, blocks(version, count));
    if count < BLOCKS_MAX {
        transaction.trim(STREAM, first + count, first + BLOCKS_MAX);
    }
    let value = [version.to_le_bytes(), count.to_le_bytes()].concat();
    transaction.put(&key(thing), value);
    transaction.put(COUNTER, version.to_le_bytes().to_vec());
    let committed = shard.commit(admitted, transaction).expect("commit");
    shard.settle_transaction(committed).await.expect("durable");
}

/// Returns the counter.
async fn check(shard: &Shard, acknowledged: &[Cell<u64>]) -> u64 {
    let mut newest = 0;
    for thing in 0..THINGS {
        let value = shard.key_get(&key(thing)).await.expect("get");
        let count = value.as_ref().map_or(0, |value| number(Some(value[8..].to_vec())));
        let version = number(value);
        newest = newest.max(version);
        assert!(version >= acknowledged[usize::try_from(thing).expect("few")].get());
        for block in 0..BLOCKS_MAX {
            let expected = if block < count { version } else { 0 };
            let found = full_of(shard, thing * BLOCKS_MAX + block).await;
            assert_eq!(found, Some(expected), "block {block} of thing {thing} at {version}");
        }
    }
    let counter = number(shard.key_get(COUNTER).await.expect("get"));
    assert_eq!(counter, newest, "the counter is that of the newest transaction");
    let report = shard.audit().await.expect("audit");
    assert_eq!((report.differences, report.unreachable), (Vec::new(), 0));
    counter
}

#[test]
fn a_crash_leaves_all_of_a_transaction_or_nothing() {
    let disk = disk_for(SHAPE, 1);
    let media = SimLoop::new(1).run_until({
        let disk = disk.clone();
        async move {
            let (media, made) = format(&disk, SHAPE, 1).await;
            made.expect("format the pool");
            media
        }
    });
    let acknowledged: Rc<Vec<Cell<u64>>> = Rc::new((0..THINGS).map(|_| Cell::new(0)).collect());
    for life in 1..=12 {
        let mut sim = SimLoop::new(life);
        let reactor = sim.handle();
        let (media, acknowledged) = (media.clone(), Rc::clone(&acknowledged));
        sim.run_until(async move {
            let shard = open_media(&reactor, media, SHAPE).await.remove(0);
            let counter = Rc::new(Cell::new(check(&shard, &acknowledged).await));
            for client in 0..CLIENTS {
                let (shard, counter) = (Rc::clone(&shard), Rc::clone(&counter));
                let acknowledged = Rc::clone(&acknowledged);
                let mut rng = Rng::new(life * CLIENTS + client);
                reactor.spawn(async move {
                    loop {
                        let thing = rng.below(THINGS / CLIENTS) * CLIENTS + client;
                        let before = counter.get();
                        replace(&shard, thing, &counter, 1 + rng.below(BLOCKS_MAX)).await;
                        acknowledged[usize::try_from(thing).expect("few")].set(before + 1);
                    }
                });
            }
            while shard.stats().writes < 200 + 700 * life {
                reactor.sleep(1_000 + 37 * life).await;
            }
        });
    }
}

#[test]
fn ranges_of_keys_show_what_waits_and_what_is_stored() {
    let shape = Shape { checkpoint_entries: 50, ..crate::reduction::shape(Reduction::OFF) };
    with_shape(shape, async |pool: Pool| {
        let mut model = BTreeMap::new();
        let mut rng = Rng::new(3);
        let fresh = |rng: &mut Rng| {
            let len = 1 + rng.index(3);
            (0..len).map(|_| [0, b'a', b'b', 255][rng.index(4)]).collect::<Vec<u8>>()
        };
        for step in 0_u32..600 {
            let key = fresh(&mut rng);
            if rng.chance(2, 3) {
                pool.shard.key_put(&key, &step.to_le_bytes()).await.expect("put");
                model.insert(key, step.to_le_bytes().to_vec());
            } else {
                pool.shard.key_delete(&key).await.expect("delete");
                model.remove(&key);
            }
            if step % 37 == 0 {
                pool.shard.apply_acknowledged().await.expect("apply");
            }
            let (from, end) = (fresh(&mut rng), fresh(&mut rng));
            let end = rng.chance(3, 4).then_some(end);
            let max = 1 + rng.index(20);
            let found = pool.shard.key_range(&from, end.as_deref(), max).await.expect("range");
            let inside = model
                .range(from.clone()..)
                .take_while(|(key, _)| end.as_ref().is_none_or(|end| *key < end));
            let expected: Vec<_> =
                inside.take(max).map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(found, expected, "from {from:?} to {end:?}, {max} at most");
            let scanned = pool.shard.key_scan(&from, None, usize::MAX).await.expect("scan");
            let behind = key_behind(&from);
            let inside = model
                .range(from.clone()..)
                .filter(|(key, _)| behind.as_ref().is_none_or(|end| *key < end));
            assert!(scanned.iter().map(|(key, value)| (key, value)).eq(inside), "prefix {from:?}");
        }
    });
}

#[test]
fn a_full_shard_takes_what_gives_space_back() {
    let shape = Shape { segments: 40, memory_bytes: 4 * MIB, ..SHAPE };
    with_shape(shape, async |pool: Pool| {
        let counter = Cell::new(0);
        let mut put = 0;
        let refused = loop {
            match pool.shard.admit_transaction(ROOM).await {
                Ok(admitted) => drop(admitted),
                Err(error) => break error,
            }
            replace(&pool.shard, put, &counter, BLOCKS_MAX).await;
            put += 1;
        };
        assert_eq!(refused.kind(), ErrorKind::NoSpace);
        assert!(put > 50, "{put}");
        for thing in 0..put {
            let room = TransactionRoom { data_bytes: 0, changes: 2, takes_space: false };
            let admitted = pool.shard.admit_transaction(room).await.expect("room");
            let mut transaction = Transaction::default();
            let first = BlockIndex(thing * BLOCKS_MAX);
            transaction.trim(STREAM, first, first + BLOCKS_MAX);
            transaction.delete(&key(thing));
            let committed = pool.shard.commit(admitted, transaction).expect("commit");
            pool.shard.settle_transaction(committed).await.expect("durable");
        }
        pool.shard.apply_acknowledged().await.expect("apply");
        assert_eq!(pool.shard.count_blocks(STREAM).await.expect("count"), 0);
        assert_eq!(pool.shard.stats().buffer_bytes, 0, "all credits are back");
        for thing in 0..put / 2 {
            replace(&pool.shard, thing, &counter, BLOCKS_MAX).await;
        }
    });
}

#[test]
fn what_is_too_large_is_refused_and_changes_nothing() {
    with_shard(Reduction::OFF, async |pool: Pool| {
        let most = pool.shard.transaction_bytes_max();
        let refused = |room| {
            let shard = Rc::clone(&pool.shard);
            async move { shard.admit_transaction(room).await.err().map(|error| error.kind()) }
        };
        let whole = TransactionRoom { data_bytes: most, changes: 4, takes_space: true };
        assert_eq!(refused(whole).await, None);
        let large = TransactionRoom { data_bytes: most + 1, ..whole };
        assert_eq!(refused(large).await, Some(ErrorKind::Invalid));
        assert_eq!(
            refused(TransactionRoom { changes: 1 << 20, ..whole }).await,
            Some(ErrorKind::Invalid)
        );
        let admitted = pool.shard.admit_transaction(whole).await.expect("room");
        let mut transaction = Transaction::default();
        transaction.put(b"small", vec![1]);
        transaction.put(b"large", vec![1; 5000]);
        let outcome = pool.shard.commit(admitted, transaction);
        assert_eq!(outcome.err().map(|error| error.kind()), Some(ErrorKind::Invalid));
        assert_eq!(pool.shard.key_get(b"small").await.expect("get"), None);
        assert_eq!(pool.shard.stats().buffer_bytes, 0, "credits are back");
        let admitted = pool.shard.admit_transaction(whole).await.expect("room");
        let committed = pool.shard.commit(admitted, Transaction::default()).expect("commit");
        pool.shard.settle_transaction(committed).await.expect("nothing to wait for");
    });
}
