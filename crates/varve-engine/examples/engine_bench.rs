//! The engine alone, on memory: random 4 KiB writes and reads of one shard on one thread, and what each step costs.
//!
//! ```text
//! cargo run --release -p varve-engine --example engine_bench -- \
//!     [seconds] [volume MiB] [--json] [--reduced ROW | --streams] [--dedup auto|on|off]
//! ```
//!
//! `--reduced` measures one of the rows of reduced writes alone, for a profile: 0, 1 or 2. `--streams` writes
//! generations of a backup and a fleet of clones, and counts the duplicates that are found. `--dedup` is how these are
//! deduplicated: `on` unless it is given.
//!
//! CPU is the engine's alone: what the memory disk copies stands beside it, and what a client does to make a request is
//! taken off, both as they were measured while the engine ran.
//!
//! Every write is durable as far as the memory disk goes when it is counted; draining, checkpoints and reclaim run
//! beside it.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use futures_util::future::LocalBoxFuture;
use rustix::time::{ClockId, clock_gettime};
use varve_engine::{OpenPool, PoolSpec, PoolZones, Shard, ShardConfig, ShardParts};
use varve_media::{Disk, Drive, DriveDisks, DriveOptions, DriveSpec, IoFuture, Persist};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_stdx::{AlignedBuf, BufSlice, Rng, checksum64};
use varve_types::{ByteOffset, Compression, Dedup, PoolId, Reduction, ShardId, StreamId};

/// As in the daemon.
#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BLOCK: usize = 4096;
const QUEUE_DEPTH: usize = 32;

/// Bytes of a large write, and how many are under way.
const LARGE: usize = 1 << 20;
const LARGE_AT_ONCE: usize = 8;

/// Blocks this far apart one after the other are all of a volume, in no order: no size has it as a factor.
const STRIDE: u64 = 1_000_003;

/// Blocks that writes draw from.
const POOL_BLOCKS: u64 = 2048;

/// Making a request takes no longer; what does was interrupted.
const CLIENT_MAX: Duration = Duration::from_micros(2);

/// What is written, and how it is reduced.
#[derive(Clone, Copy)]
struct Load {
    reduction: Reduction,
    /// Every block written differs from all others.
    is_unique: bool,
    /// Half of each block, in pieces of 64 bytes, is one byte.
    is_compressible: bool,
}

const PLAIN: Load = Load { reduction: Reduction::OFF, is_unique: true, is_compressible: false };

/// A flat disk in memory: an operation is one copy.
struct FlatDisk {
    bytes: RefCell<Vec<u8>>,
    /// CPU time of its copies, which no drive would take.
    copy_ns: Cell<f64>,
}

impl FlatDisk {
    fn count(&self, copy: impl FnOnce()) {
        let begin = cpu_ns();
        copy();
        self.copy_ns.set(self.copy_ns.get() + cpu_ns() - begin);
    }
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
        self.count(|| buf.copy_from_slice(&self.bytes.borrow()[at..at + len]));
        Box::pin(std::future::ready(Ok(buf)))
    }

    fn write(&self, offset: u64, bytes: BufSlice, _: Persist) -> IoFuture<'_, ()> {
        let at = usize::try_from(offset).expect("fits memory");
        self.count(|| self.bytes.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes));
        Box::pin(std::future::ready(Ok(())))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, _: u64, _: u64) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Operations a second as they passed, and the CPU time of one without the memory disk's: on a busy machine only that
/// means something.
#[derive(Clone, Copy)]
struct Rate {
    per_s: f64,
    cpu_ns: f64,
    /// CPU time of the memory disk for one.
    disk_ns: f64,
}

impl Rate {
    /// Something that is not an operation.
    fn alone(cpu_ns: f64) -> Self {
        Self { per_s: 0.0, cpu_ns, disk_ns: 0.0 }
    }
}

/// CPU time of this thread so far, in ns.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

struct Bench {
    reactor: Reactor,
    shard: Rc<Shard>,
    disk: Rc<FlatDisk>,
    blocks: u64,
    load: Load,
    /// Of [`POOL_BLOCKS`].
    data: BufSlice,
    written: Cell<u64>,
    /// Time that the client took to make requests.
    client_ns: Cell<f64>,
}

impl Bench {
    async fn open(reactor: Reactor, volume_mib: u64, load: Load) -> Self {
        Self::open_in(reactor, volume_mib * 5 / 4 + 640, volume_mib, load).await
    }

    async fn open_in(reactor: Reactor, pool_mib: u64, volume_mib: u64, load: Load) -> Self {
        let pool_bytes = usize::try_from(pool_mib << 20).expect("fits memory");
        let mut bytes = vec![1; pool_bytes];
        bytes.fill(0); // The system gives memory when it is touched: now, not while writes are timed.
        let flat = Rc::new(FlatDisk { bytes: RefCell::new(bytes), copy_ns: Cell::new(0.0) });
        let disk: Rc<dyn Disk> = Rc::clone(&flat) as Rc<dyn Disk>;
        let spec = DriveSpec::new(PoolId([7; 16]), 1);
        let disks = || vec![DriveDisks::One(Rc::clone(&disk))];
        Drive::format(&disks(), &spec).await.expect("format the drive");
        let drive =
            Drive::open(disks(), DriveOptions { discard: false }).await.expect("open the drive");
        let media = drive.media(ShardId(0)).expect("one lane");
        let pool_spec =
            PoolSpec { pool: spec.pool, created_unix_ms: 0, shard_count: 1, zones: None };
        OpenPool::format(std::slice::from_ref(&media), &pool_spec).await.expect("format the pool");
        let pool = OpenPool::open(&media).await.expect("open the pool");
        let mut config = ShardConfig::with_memory(spec.pool, ShardId(0), 512 << 20);
        config.block_cache_bytes = 32 << 20; // As by default: what is written is not kept.
        config.reduction = load.reduction;
        let parts = ShardParts {
            reactor: reactor.clone(),
            media,
            config,
            zones: Rc::new(PoolZones::new(Rc::clone(&pool), ShardId(0))),
            owned: pool.zones_of(ShardId(0)).await.expect("the root is read"),
            peers: None,
        };
        let shard = Shard::open(parts).await.expect("open the shard");
        let pool_bytes = usize::try_from(POOL_BLOCKS).expect("small") * BLOCK;
        let mut data = AlignedBuf::zeroed(pool_bytes);
        Rng::new(1).fill(&mut data);
        if load.is_compressible {
            data.chunks_mut(64).step_by(2).for_each(|piece| piece.fill(b'v'));
        }
        let (blocks, data) = ((volume_mib << 20) / BLOCK as u64, data.freeze());
        Self {
            reactor,
            shard,
            disk: flat,
            blocks,
            load,
            data,
            written: Cell::new(0),
            client_ns: Cell::new(0.0),
        }
    }

    /// Operations a second of `QUEUE_DEPTH` loops that run for `seconds`.
    async fn run(
        self: &Rc<Self>,
        seconds: f64,
        operation: fn(Rc<Self>, u64) -> LocalBoxFuture<'static, ()>,
    ) -> Rate {
        let count = Rc::new(Cell::new(0u64));
        let (begin, cpu, copied) = (Instant::now(), cpu_ns(), self.disk.copy_ns.get());
        let client = self.client_ns.get();
        let loops: Vec<_> = (0..QUEUE_DEPTH)
            .map(|index| {
                let (bench, count) = (Rc::clone(self), Rc::clone(&count));
                let mut rng = Rng::new(index as u64 + 99);
                self.reactor.spawn_join(async move {
                    while begin.elapsed().as_secs_f64() < seconds {
                        for _ in 0..64 {
                            let block = rng.below(bench.blocks);
                            operation(Rc::clone(&bench), block).await;
                        }
                        count.set(count.get() + 64);
                    }
                })
            })
            .collect();
        for one in loops {
            one.await;
        }
        let count = count.get() as f64;
        let disk_ns = (self.disk.copy_ns.get() - copied) / count;
        let client_ns = (self.client_ns.get() - client) / count;
        let cpu_ns = (cpu_ns() - cpu) / count - disk_ns - client_ns;
        Rate { per_s: count / begin.elapsed().as_secs_f64(), cpu_ns, disk_ns }
    }

    /// What a client hands in: a buffer of the request's own.
    fn next_data(&self) -> BufSlice {
        let begin = Instant::now();
        let mut data = AlignedBuf::scratch(BLOCK);
        let written = self.written.get() + 1;
        self.written.set(written);
        let from = usize::try_from(written % POOL_BLOCKS).expect("small") * BLOCK;
        data.copy_from_slice(&self.data[from..from + BLOCK]);
        if self.load.is_unique {
            data[..8].copy_from_slice(&written.to_le_bytes());
        }
        let data = data.freeze();
        let took = begin.elapsed().min(CLIENT_MAX).as_nanos() as f64;
        self.client_ns.set(self.client_ns.get() + took);
        data
    }
}

fn write(bench: Rc<Bench>, block: u64) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        let offset = block * BLOCK as u64;
        bench
            .shard
            .write(StreamId::new(1), ByteOffset(offset), bench.next_data())
            .await
            .expect("write");
    })
}

fn read(bench: Rc<Bench>, block: u64) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        let parts =
            bench.shard.read(StreamId::new(1), ByteOffset(block * BLOCK as u64), BLOCK).await;
        assert_eq!(parts.expect("read").len(), 1);
    })
}

/// A small working set that stays in the data cache.
fn read_cached(bench: Rc<Bench>, block: u64) -> LocalBoxFuture<'static, ()> {
    read(bench, block % 4096)
}

/// Large writes over a volume whose blocks were written in no order, and over one that was written in order, without
/// reclaim.
async fn large_writes(reactor: &Reactor, volume_mib: u64) -> [Rate; 2] {
    let pool_mib = volume_mib * 7 / 2 + 640;
    let bench = Rc::new(Bench::open_in(reactor.clone(), pool_mib, volume_mib, PLAIN).await);
    let next = Rc::new(Cell::new(0));
    let loops: Vec<_> = (0..QUEUE_DEPTH)
        .map(|_| {
            let (bench, next) = (Rc::clone(&bench), Rc::clone(&next));
            reactor.spawn_join(async move {
                while next.get() < bench.blocks {
                    let index = next.replace(next.get() + 1);
                    write(Rc::clone(&bench), index * STRIDE % bench.blocks).await;
                }
            })
        })
        .collect();
    for one in loops {
        one.await;
    }
    [write_through(&bench).await, write_through(&bench).await]
}

/// Writes the whole volume once in large writes, applies them and makes a checkpoint.
async fn write_through(bench: &Rc<Bench>) -> Rate {
    bench.shard.apply_acknowledged().await.expect("apply");
    bench.shard.checkpoint().await.expect("checkpoint");
    let large_writes = bench.blocks / (LARGE / BLOCK) as u64;
    let next = Rc::new(Cell::new(0));
    let (begin, cpu, copied) = (Instant::now(), cpu_ns(), bench.disk.copy_ns.get());
    let loops: Vec<_> = (0..LARGE_AT_ONCE)
        .map(|_| {
            let (bench, next) = (Rc::clone(bench), Rc::clone(&next));
            bench.reactor.clone().spawn_join(async move {
                while next.get() < large_writes {
                    let index = next.replace(next.get() + 1);
                    let mut data = AlignedBuf::scratch(LARGE);
                    data.copy_from_slice(&bench.data[..LARGE]);
                    data[..8].copy_from_slice(&index.to_le_bytes());
                    let (stream, offset) = (StreamId::new(1), index * LARGE as u64);
                    bench
                        .shard
                        .write(stream, ByteOffset(offset), data.freeze())
                        .await
                        .expect("write");
                }
            })
        })
        .collect();
    for one in loops {
        one.await;
    }
    bench.shard.apply_acknowledged().await.expect("apply");
    bench.shard.checkpoint().await.expect("checkpoint");
    let count = large_writes as f64;
    let disk_ns = (bench.disk.copy_ns.get() - copied) / count;
    let cpu_ns = (cpu_ns() - cpu) / count - disk_ns;
    Rate { per_s: count / begin.elapsed().as_secs_f64(), cpu_ns, disk_ns }
}

/// Writes of blocks that are reduced, in steady state: name, per second, CPU ns and budget.
async fn reduced_writes(
    reactor: &Reactor,
    seconds: f64,
    volume_mib: u64,
    only: Option<usize>,
    dedup: Dedup,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let loads = [
        ("reduced write, unique random bytes", true, false, "4500"),
        ("reduced write, unique 2:1", true, true, "8000"),
        ("reduced write, duplicates", false, false, "3500"),
    ];
    for (index, (name, is_unique, is_compressible, budget)) in loads.into_iter().enumerate() {
        if only.is_some_and(|only| only != index) {
            continue;
        }
        let reduction = Reduction { dedup, compression: Compression::Lz4 };
        let load = Load { reduction, is_unique, is_compressible };
        let bench = Rc::new(Bench::open(reactor.clone(), volume_mib, load).await);
        bench.run(seconds / 2.0, write).await;
        let rate = bench.run(seconds, write).await;
        rows.push((name, rate, budget));
    }
    rows
}

/// Generations of a backup, and how many of a hundred runs of a generation differ from the one before.
const GENERATIONS: u64 = 4;
const CHANGED_PERCENT: u64 = 5;

/// Blocks of a run, as files have them, and of a write of a backup.
const RUN_BLOCKS: u64 = 16;
const BACKUP_WRITE_BLOCKS: u64 = 64;

/// Clones of a fleet, and how many of a hundred runs all of them write alike, each in an order of its own.
const CLONES: u64 = 16;
const COMMON_PERCENT: u64 = 50;

/// Writes blocks of a stream by the numbers of their contents; half of each block is random.
async fn write_contents(bench: &Bench, stream: u64, block: u64, contents: &[u64]) {
    let mut data = AlignedBuf::scratch(contents.len() * BLOCK);
    data.set_len(contents.len() * BLOCK);
    for (out, content) in data.chunks_mut(BLOCK).zip(contents) {
        Rng::new(*content).fill(out);
        out.chunks_mut(64).step_by(2).for_each(|piece| piece.fill(b'v'));
    }
    let (stream, offset) = (StreamId::new(stream), block * BLOCK as u64);
    bench.shard.write(stream, ByteOffset(offset), data.freeze()).await.expect("write");
}

/// The content of a block of a generation: that of the last one that changed its run.
fn backup_content(generation: u64, block: u64) -> u64 {
    let run = block / RUN_BLOCKS;
    let is_changed = |later: &u64| Rng::new(later << 40 | run).below(100) < CHANGED_PERCENT;
    (1..=generation).rev().find(is_changed).unwrap_or(0) << 40 | block
}

async fn backup(bench: &Bench) -> HashSet<u64> {
    let mut distinct = HashSet::new();
    for generation in 0..GENERATIONS {
        for write in 0..bench.blocks.div_ceil(BACKUP_WRITE_BLOCKS) {
            let block = write * BACKUP_WRITE_BLOCKS;
            let blocks = block..block + BACKUP_WRITE_BLOCKS;
            let contents: Vec<u64> =
                blocks.map(|block| backup_content(generation, block)).collect();
            write_contents(bench, 1 + generation, block, &contents).await;
            distinct.extend(contents);
        }
    }
    distinct
}

async fn fleet(bench: &Bench) -> HashSet<u64> {
    let mut distinct = HashSet::new();
    let runs = bench.blocks / RUN_BLOCKS / 4;
    for turn in 0..runs {
        for clone in 1..=CLONES {
            // A prime that is no factor of the number of runs, and another beginning for each clone: an order of its
            // own.
            let run = (turn * STRIDE + clone * 7_919) % runs;
            let is_common = Rng::new(run).below(100) < COMMON_PERCENT;
            let writer = if is_common { 0 } else { clone };
            let contents: Vec<u64> =
                (0..RUN_BLOCKS).map(|block| writer << 40 | (run * RUN_BLOCKS + block)).collect();
            write_contents(bench, clone, run * RUN_BLOCKS, &contents).await;
            distinct.extend(contents);
        }
    }
    distinct
}

/// What is found of the duplicates of streams, as JSON.
async fn streams(reactor: &Reactor, volume_mib: u64, dedup: Dedup) -> String {
    let reduction = Reduction { dedup, compression: Compression::Lz4 };
    let load = Load { reduction, is_unique: true, is_compressible: true };
    let mut found = Vec::new();
    for name in ["backup", "fleet"] {
        let pool_mib = volume_mib * 6 + 640;
        let bench = Bench::open_in(reactor.clone(), pool_mib, volume_mib, load).await;
        let distinct = match name {
            "backup" => backup(&bench).await,
            _ => fleet(&bench).await,
        };
        bench.shard.apply_acknowledged().await.expect("apply");
        let stats = bench.shard.stats();
        let written = stats.deduplicated_blocks + stats.stored_blocks;
        let duplicates = written - distinct.len() as u64;
        found.push(format!(
            "{{\"stream\":\"{name}\",\"duplicates\":{duplicates},\"found\":{},\"read_bytes\":{}}}",
            stats.deduplicated_blocks, stats.media_read_bytes
        ));
    }
    format!("[{}]", found.join(","))
}

/// What is printed of a step.
type Row = (&'static str, Rate, &'static str);

fn per_call_ns(mut call: impl FnMut()) -> f64 {
    let rounds = 100_000;
    let begin = cpu_ns();
    for _ in 0..rounds {
        call();
    }
    (cpu_ns() - begin) / f64::from(rounds)
}

fn main() {
    let numbers: Vec<f64> = std::env::args().skip(1).map_while(|arg| arg.parse().ok()).collect();
    let json = std::env::args().any(|arg| arg == "--json");
    let seconds = numbers.first().copied().unwrap_or(5.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size in MiB")]
    let volume_mib = numbers.get(1).copied().unwrap_or(1024.0) as u64;
    let mut args = std::env::args().skip_while(|arg| arg != "--reduced");
    let only = args.nth(1).and_then(|row| row.parse().ok());
    let mut args = std::env::args().skip_while(|arg| arg != "--dedup");
    let dedup = args.nth(1).map_or(Dedup::On, |word| word.parse().expect("auto, on or off"));
    let mut reactor_loop = Loop::new(LoopConfig::default()).expect("io_uring");
    let reactor = reactor_loop.handle();
    if std::env::args().any(|arg| arg == "--streams") {
        let found = reactor_loop.run(async move { streams(&reactor, volume_mib, dedup).await });
        println!("{found}");
        return;
    }
    let rows = reactor_loop.run(async move {
        if only.is_some() {
            return reduced_writes(&reactor, seconds, volume_mib, only, dedup).await;
        }
        let bench = Rc::new(Bench::open(reactor.clone(), volume_mib, PLAIN).await);
        let fill = bench.run(seconds, write).await;
        let writes = bench.run(seconds, write).await;
        let before = bench.shard.stats();
        let reads = bench.run(seconds / 2.0, read).await;
        bench.run(0.2, read_cached).await;
        let cached = bench.run(seconds / 2.0, read_cached).await;
        let mut buf = AlignedBuf::zeroed(BLOCK);
        let data = bench.data.slice(0..BLOCK);
        let copy = per_call_ns(|| {
            buf.copy_from_slice(&data);
            std::hint::black_box(&buf);
        });
        let checksum = per_call_ns(|| {
            std::hint::black_box(checksum64(std::hint::black_box(&data)));
        });
        let written = before.lane.written_bytes
            + before.data_segment_bytes
            + before.metadata_bytes
            + before.reclaimed_bytes;
        let amplification = written as f64 / before.write_bytes as f64;
        drop(bench);
        let [after_random, after_sequential] = large_writes(&reactor, volume_mib).await;
        let mut rows = vec![
            ("random write, first pass", fill, "4000 (250,000/s)"),
            ("random overwrite", writes, "4000 (250,000/s)"),
            ("random read, from segments", reads, "3600"),
            ("random read, from cache", cached, "2500 (400,000/s)"),
            ("1 MiB writes over random ones", after_random, "600000"),
            ("1 MiB writes over such", after_sequential, "600000"),
            ("of a write: copy of 4 KiB", Rate::alone(copy), "100"),
            ("of a write: checksum of 4 KiB", Rate::alone(checksum), "113"),
            ("bytes to media per byte, x1000", Rate::alone(amplification * 1000.0), "2300"),
        ];
        rows.extend(reduced_writes(&reactor, seconds, volume_mib, None, dedup).await);
        rows
    });
    print(rows, json);
}

fn print(rows: Vec<Row>, json: bool) {
    if json {
        let fields: Vec<String> = rows
            .iter()
            .map(|(name, Rate { per_s, cpu_ns, disk_ns }, _)| {
                format!(
                    "{{\"step\":\"{name}\",\"per_s\":{per_s:.0},\"ns\":{cpu_ns:.0},\"disk_ns\":{disk_ns:.0}}}"
                )
            })
            .collect();
        println!("[{}]", fields.join(","));
        return;
    }
    println!(
        "{:<36} {:>10} {:>7} {:>8}  budget ns",
        "step (one core, memory media, QD32)", "per second", "CPU ns", "disk ns"
    );
    let shown = |number: f64| if number > 0.0 { format!("{number:.0}") } else { String::new() };
    for (name, Rate { per_s, cpu_ns, disk_ns }, budget) in rows {
        let (per_s, disk_ns) = (shown(per_s), shown(disk_ns));
        println!("{name:<36} {per_s:>10} {cpu_ns:>7.0} {disk_ns:>8}  {budget}");
    }
}
