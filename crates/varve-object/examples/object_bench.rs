//! A bucket on one shard, on memory: puts, overwrites and reads of small objects on one thread, and what each costs.
//!
//! `cargo run --release -p varve-object --example object_bench -- [objects] [bytes of each]`
//!
//! Every put is durable as far as the memory disk goes when it is counted; draining, checkpoints and reclaim run beside
//! it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use varve_engine::{OpenPool, PoolSpec, PoolZones, Shard, ShardConfig, ShardParts};
use varve_media::{Disk, Drive, DriveDisks, DriveOptions, DriveSpec, IoFuture, Persist};
use varve_object::shelf::{BucketShard, GiveBack, IncomingBody};
use varve_object::{BucketId, ChangeKey, KeyChange, Select, Version};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_stdx::{AlignedBuf, BufSlice, Rng};
use varve_types::{PoolId, Reduction, ShardId};

const TASKS: u64 = 32;
const POOL_MIB: usize = 4096;
/// Objects are put in no order: no number of them has it as a factor.
const STRIDE: u64 = 1_000_003;

/// A flat disk in memory: an operation is one copy.
struct FlatDisk {
    bytes: RefCell<Vec<u8>>,
}

impl Disk for FlatDisk {
    fn path(&self) -> &str {
        "memory"
    }

    fn size(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        let at = usize::try_from(offset).expect("fits memory");
        let mut buf = AlignedBuf::scratch(len);
        buf.copy_from_slice(&self.bytes.borrow()[at..at + len]);
        Box::pin(std::future::ready(Ok(buf)))
    }

    fn write(&self, offset: u64, bytes: BufSlice, _: Persist) -> IoFuture<'_, ()> {
        let at = usize::try_from(offset).expect("fits memory");
        self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
        Box::pin(std::future::ready(Ok(())))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, _: u64, _: u64) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// CPU time of this thread so far, in ns.
fn cpu_ns() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("procfs");
    stat.split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .expect("schedstat begins with the CPU time")
}

async fn open(reactor: &Reactor) -> Rc<BucketShard> {
    let disk: Rc<dyn Disk> = Rc::new(FlatDisk { bytes: RefCell::new(vec![0; POOL_MIB << 20]) });
    let spec = DriveSpec::new(PoolId([7; 16]), 1);
    let disks = || vec![DriveDisks::One(Rc::clone(&disk))];
    Drive::format(&disks(), &spec).await.expect("format the drive");
    let drive =
        Drive::open(disks(), DriveOptions { discard: false }).await.expect("open the drive");
    let media = drive.media(ShardId(0)).expect("one lane");
    let pool_spec = PoolSpec { pool: spec.pool, created_unix_ms: 0, shard_count: 1, zones: None };
    OpenPool::format(std::slice::from_ref(&media), &pool_spec).await.expect("format the pool");
    let pool = OpenPool::open(&media).await.expect("open the pool");
    let parts = ShardParts {
        reactor: reactor.clone(),
        media,
        config: ShardConfig::with_memory(spec.pool, ShardId(0), 512 << 20),
        zones: Rc::new(PoolZones::new(Rc::clone(&pool), ShardId(0))),
        owned: pool.zones_of(ShardId(0)).await.expect("the root is read"),
        peers: None,
    };
    let shard = Shard::open(parts).await.expect("open the shard");
    // There is one shelf.
    let give_back: GiveBack = Rc::new(|_| Box::pin(std::future::ready(Ok(()))));
    let opened =
        BucketShard::open(reactor.clone(), shard, BucketId(1), Reduction::OFF, give_back).await;
    opened.expect("open the shelf")
}

fn key(index: u64, objects: u64) -> String {
    format!("folder{}/object{:09}", index % 10, index * STRIDE % objects)
}

fn put(len: usize) -> ChangeKey {
    Box::new(move |view| {
        let newest = view.newest.as_ref().map(|version| version.order);
        let version = Version {
            order: newest.map_or(1, |order| order + 1),
            null: true,
            marker: false,
            size: len as u64,
            modified_ms: 1_700_000_000_000,
            attributes: Bytes::from_static(&[7; 150]),
        };
        Ok(KeyChange { remove: newest, put: Some(version), replace: None })
    })
}

/// Runs `work` on objects `0 .. count` by several tasks at a time.
async fn each<F: Future<Output = ()> + 'static>(
    reactor: &Reactor,
    name: &str,
    count: u64,
    shelf: &Rc<BucketShard>,
    work: impl Fn(u64) -> F + Clone + 'static,
) {
    let (begin, cpu) = (Instant::now(), cpu_ns());
    let before = shelf.shard().stats();
    let next = Rc::new(Cell::new(0));
    let tasks = (0..TASKS).map(|_| {
        let (next, work) = (Rc::clone(&next), work.clone());
        reactor.spawn_join(async move {
            while next.get() < count {
                let index = next.get();
                next.set(index + 1);
                work(index).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await;
    }
    let (cpu, wall) = (cpu_ns() - cpu, begin.elapsed().as_secs_f64());
    let after = shelf.shard().stats();
    let lane = after.lane.written_bytes - before.lane.written_bytes;
    let segments = after.data_segment_bytes - before.data_segment_bytes;
    let metadata = after.metadata_bytes - before.metadata_bytes;
    let each = |bytes: u64| bytes / count;
    println!(
        "{name:10} {:8.0} /s  {:6.0} ns CPU each;  bytes each: lane {}, segments {}, metadata {}",
        count as f64 / wall,
        cpu / count as f64,
        each(lane),
        each(segments),
        each(metadata),
    );
}

async fn run(reactor: Reactor, objects: u64, len: usize) {
    let shelf = open(&reactor).await;
    let mut body = vec![0; len];
    Rng::new(1).fill(&mut body);
    let body = Bytes::from(body);
    let write = {
        let shelf = Rc::clone(&shelf);
        move |index| {
            let (shelf, body) = (Rc::clone(&shelf), IncomingBody::Small(body.clone()));
            async move {
                let key = key(index, objects);
                shelf.change_key(&key, None, body, put(len)).await.expect("put");
            }
        }
    };
    each(&reactor, "put", objects, &shelf, write.clone()).await;
    each(&reactor, "overwrite", objects, &shelf, write).await;
    let read = {
        let shelf = Rc::clone(&shelf);
        move |index| {
            let shelf = Rc::clone(&shelf);
            async move {
                let key = key(index * 7, objects);
                assert!(shelf.find(&key, Select::Newest).await.expect("find").is_some());
            }
        }
    };
    each(&reactor, "get", objects, &shelf, read).await;
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let objects = arguments.next().unwrap_or(200_000);
    let len = arguments.next().and_then(|len| usize::try_from(len).ok()).unwrap_or(4096);
    let mut event_loop = Loop::new(LoopConfig::default()).expect("a loop");
    let reactor = event_loop.handle();
    event_loop.run(async move { run(reactor, objects, len).await });
}
