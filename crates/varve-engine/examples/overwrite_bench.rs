//! What random overwrites of a volume write to media, of which kind, and what they read: the engine alone, on media
//! that keep only what is not zero. So volumes may be larger than memory: a block takes 16 bytes of it.
//!
//! `cargo run --release -p varve-engine --example overwrite_bench -- [volume MiB] [page cache KiB] [percent of the
//! pool] [laps of the volume] [deaths KiB] [updates KiB] [blocks of a write that fills]`
//!
//! A volume and its caches divided by the same number behave alike: 64 GiB with 16 MiB of cached pages like 1 TiB with
//! 256 MiB. Without more arguments the sets of overwritten chunks and of map updates that wait take a quarter of the
//! page cache each; with 0 no updates wait. The volume is filled in no order, or in order with writes of several
//! blocks. The last rows tell what an opening costs after the process ended at once, and how much memory the process
//! had at most beside that of the disk and of the caches that were asked for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use varve_engine::{
    MemoryShares, OpenPool, PoolSpec, PoolZones, Shard, ShardConfig, ShardParts, ShardStats,
};
use varve_media::{Disk, Drive, DriveDisks, DriveOptions, DriveSpec, IoFuture, Persist};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_stdx::{AlignedBuf, BufSlice, Rng};
use varve_types::{ByteOffset, PoolId, Reduction, ShardId, StreamId};

#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BLOCK: usize = 4096;
const QUEUE_DEPTH: u64 = 32;
/// For what is not scaled: the write buffer above all.
const MEMORY_BYTES: u64 = 512 << 20;

/// Bytes of what is scaled.
#[derive(Clone, Copy)]
struct Caches {
    pages: usize,
    deaths: usize,
    updates: usize,
}

impl Caches {
    /// All that the shard may fill, beside what it takes whatever it holds: its share of the other caches is fixed.
    fn total(self) -> usize {
        let shares = MemoryShares::of(MEMORY_BYTES);
        let fixed = shares.block_cache_bytes + shares.dedup_index_bytes + shares.spare_bytes;
        let buffer = usize::try_from(shares.buffer_bytes).expect("fits memory");
        self.pages + self.deaths + self.updates + fixed + buffer
    }
}

const POOL: PoolId = PoolId([7; 16]);

/// Rows of a lap.
const ROWS: u64 = 4;

/// Blocks this far apart one after the other are all of a volume, in no order: no size has it as a factor.
const STRIDE: u64 = 1_000_003;

/// A page of the disk.
enum Page {
    /// All zeros but for its first eight bytes: as the blocks of this benchmark are.
    Word(u64),
    Whole(Box<[u8; BLOCK]>),
}

/// A disk that keeps what is not zero.
struct SparseDisk {
    pages: RefCell<Vec<Page>>,
    /// Pages that are kept whole.
    whole: Rc<Cell<usize>>,
}

impl SparseDisk {
    fn write_page(&self, page: u64, bytes: &[u8]) {
        let (first, rest) = bytes.split_first_chunk().expect("a page has eight bytes");
        let page = &mut self.pages.borrow_mut()[usize::try_from(page).expect("fits memory")];
        let was_whole = matches!(page, Page::Whole(_));
        let is_whole = rest.iter().any(|byte| *byte != 0);
        self.whole.set(self.whole.get() + usize::from(is_whole) - usize::from(was_whole));
        if !is_whole {
            *page = Page::Word(u64::from_le_bytes(*first));
        } else {
            *page = Page::Whole(Box::new(bytes.try_into().expect("a page")));
        }
    }

    fn read_page(&self, page: u64, out: &mut [u8]) {
        match &self.pages.borrow()[usize::try_from(page).expect("fits memory")] {
            Page::Word(first) => {
                out.fill(0);
                out[..8].copy_from_slice(&first.to_le_bytes());
            }
            Page::Whole(bytes) => out.copy_from_slice(&bytes[..]),
        }
    }

    /// Where an operation begins and ends, as pages of the disk.
    fn pages(offset: u64, len: usize) -> std::ops::Range<u64> {
        offset / BLOCK as u64..(offset + len as u64).div_ceil(BLOCK as u64)
    }
}

impl Disk for SparseDisk {
    fn path(&self) -> &str {
        "sparse memory"
    }

    fn size(&self) -> u64 {
        (self.pages.borrow().len() * BLOCK) as u64
    }

    fn read(&self, offset: u64, len: usize) -> IoFuture<'_, AlignedBuf> {
        let pages = Self::pages(offset, len);
        let mut whole = vec![0; usize::try_from(pages.end - pages.start).expect("few") * BLOCK];
        for (page, out) in pages.zip(whole.chunks_exact_mut(BLOCK)) {
            self.read_page(page, out);
        }
        let start = usize::try_from(offset % BLOCK as u64).expect("in a page");
        Box::pin(std::future::ready(Ok(AlignedBuf::from_slice(&whole[start..start + len]))))
    }

    fn write(&self, offset: u64, bytes: BufSlice, _: Persist) -> IoFuture<'_, ()> {
        let pages = Self::pages(offset, bytes.len());
        let mut at = usize::try_from(offset % BLOCK as u64).expect("in a page");
        let mut from = 0;
        for page in pages {
            let len = (BLOCK - at).min(bytes.len() - from);
            if len == BLOCK {
                self.write_page(page, &bytes[from..from + BLOCK]);
            } else {
                let mut whole = [0; BLOCK];
                self.read_page(page, &mut whole);
                whole[at..at + len].copy_from_slice(&bytes[from..from + len]);
                self.write_page(page, &whole);
            }
            (from, at) = (from + len, 0);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, _: u64, _: u64) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

async fn open(reactor: &Reactor, disk: &Rc<dyn Disk>, caches: Caches) -> Rc<Shard> {
    let disks = vec![DriveDisks::One(Rc::clone(disk))];
    let drive = Drive::open(disks, DriveOptions { discard: false }).await.expect("open the drive");
    let media = drive.media(ShardId(0)).expect("one lane");
    let pool = OpenPool::open(&media).await.expect("open the pool");
    let mut config = ShardConfig::with_memory(POOL, ShardId(0), MEMORY_BYTES);
    config.page_cache_bytes = caches.pages + caches.deaths + caches.updates;
    config.deaths_bytes = caches.deaths;
    config.deltas_bytes = caches.updates;
    config.reduction = Reduction::OFF;
    let parts = ShardParts {
        reactor: reactor.clone(),
        media,
        config,
        zones: Rc::new(PoolZones::new(Rc::clone(&pool), ShardId(0))),
        owned: pool.zones_of(ShardId(0)).await.expect("the root is read"),
        peers: None,
    };
    Shard::open(parts).await.expect("open the shard")
}

async fn format(disk: &Rc<dyn Disk>) {
    let disks = vec![DriveDisks::One(Rc::clone(disk))];
    Drive::format(&disks, &DriveSpec::new(POOL, 1)).await.expect("format the drive");
    let drive = Drive::open(disks, DriveOptions { discard: false }).await.expect("open the drive");
    let media = drive.media(ShardId(0)).expect("one lane");
    let spec = PoolSpec { pool: POOL, created_unix_ms: 0, shard_count: 1, zones: None };
    OpenPool::format(&[media], &spec).await.expect("format the pool");
}

/// Writes `count` times `blocks` blocks, from `block_of` each number on.
async fn write(
    reactor: &Reactor,
    shard: &Rc<Shard>,
    (count, blocks): (u64, usize),
    block_of: impl Fn(u64) -> u64 + Clone + 'static,
) {
    let next = Rc::new(Cell::new(0));
    let loops: Vec<_> = (0..QUEUE_DEPTH)
        .map(|_| {
            let (shard, next, block_of) = (Rc::clone(shard), Rc::clone(&next), block_of.clone());
            reactor.spawn_join(async move {
                while next.get() < count {
                    let number = next.replace(next.get() + 1);
                    let mut data = AlignedBuf::zeroed(blocks * BLOCK);
                    for block in data.chunks_exact_mut(BLOCK) {
                        block[..8].copy_from_slice(&(number + 1).to_le_bytes());
                    }
                    let offset = block_of(number) * BLOCK as u64;
                    shard
                        .write(StreamId::new(1), ByteOffset(offset), data.freeze())
                        .await
                        .expect("write");
                }
            })
        })
        .collect();
    for one in loops {
        one.await;
    }
}

fn print_row(name: &str, before: &ShardStats, after: &ShardStats, seconds: f64) {
    let per = |of: fn(&ShardStats) -> u64, by: fn(&ShardStats) -> u64| {
        let by = (by(after) - by(before)).max(1);
        (of(after) - of(before)) as f64 / by as f64
    };
    let per_byte = |of| per(of, |stats| stats.write_bytes);
    let (lane, data) =
        (per_byte(|stats| stats.lane.written_bytes), per_byte(|stats| stats.data_segment_bytes));
    let (moved, metadata) =
        (per_byte(|stats| stats.reclaimed_bytes), per_byte(|stats| stats.metadata_bytes));
    let writes = (after.writes - before.writes) as f64;
    println!(
        "{name:<12} {:>8.0} {lane:>6.2} {data:>6.2} {moved:>6.2} {metadata:>8.3} {:>6.2} {:>10.3} {:>9.1} {:>9} {:>9} {:>6.1} {:>9} {:>11} {:>8}",
        writes / seconds / 1000.0,
        lane + data + moved + metadata,
        per(|stats| stats.page_reads, |stats| stats.writes),
        per(|stats| stats.folded_deaths, |stats| stats.folded_leaves),
        after.waiting_deaths,
        after.waiting_updates,
        per(|stats| stats.writes, |stats| stats.swept_pages),
        (after.updates_bytes + after.deaths_bytes) >> 20,
        after.checkpoints - before.checkpoints,
        after.space.free,
    );
}

async fn overwrite(
    reactor: Reactor,
    disk: Rc<dyn Disk>,
    blocks: u64,
    caches: Caches,
    laps: u64,
    fill_blocks: usize,
) {
    format(&disk).await;
    let shard = open(&reactor, &disk, caches).await;
    println!(
        "{:<12} {:>8} {:>6} {:>6} {:>6} {:>8} {:>6} {:>10} {:>9} {:>9} {:>9} {:>6} {:>9} {:>11} {:>8}",
        "bytes / byte",
        "1000/s",
        "lane",
        "data",
        "moved",
        "metadata",
        "all",
        "reads/write",
        "dead/leaf",
        "waiting",
        "updates",
        "/page",
        "MiB",
        "checkpoints",
        "free"
    );
    let (before, begin) = (shard.stats(), Instant::now());
    if fill_blocks == 1 {
        write(&reactor, &shard, (blocks, 1), move |number| number * STRIDE % blocks).await;
    } else {
        let each = fill_blocks as u64;
        write(&reactor, &shard, (blocks / each, fill_blocks), move |number| number * each).await;
    }
    print_row("fill", &before, &shard.stats(), begin.elapsed().as_secs_f64());
    for row in 0..laps * ROWS {
        let (before, begin) = (shard.stats(), Instant::now());
        let rng = Rc::new(RefCell::new(Rng::new(row)));
        write(&reactor, &shard, (blocks / ROWS, 1), move |_| rng.borrow_mut().below(blocks)).await;
        let name = format!("lap {:.2}", (row + 1) as f64 / ROWS as f64);
        print_row(&name, &before, &shard.stats(), begin.elapsed().as_secs_f64());
    }
}

fn main() {
    let number = |index| std::env::args().nth(index).map(|arg| arg.parse().expect("a number"));
    let volume_mib: u64 = number(1).unwrap_or(4096);
    let kib = |index, default| {
        let kib = number(index).map(|kib| usize::try_from(kib << 10).expect("fits memory"));
        kib.unwrap_or(default)
    };
    let pages = kib(2, 64 << 20);
    let caches = Caches { pages, deaths: kib(5, pages / 4), updates: kib(6, pages / 4) };
    let percent: u64 = number(3).unwrap_or(80);
    let laps = number(4).unwrap_or(3);
    let blocks = (volume_mib << 20) / BLOCK as u64;
    let disk_pages =
        usize::try_from(blocks * 100 / percent).expect("fits memory") + (260 << 20) / BLOCK;
    let zeros = || std::iter::repeat_with(|| Page::Word(0)).take(disk_pages).collect();
    let fill_blocks = number(7).map_or(1, |blocks| usize::try_from(blocks).expect("few"));
    let whole = Rc::new(Cell::new(0));
    let disk: Rc<dyn Disk> =
        Rc::new(SparseDisk { pages: RefCell::new(zeros()), whole: Rc::clone(&whole) });
    {
        let mut reactor_loop = Loop::new(LoopConfig::default()).expect("io_uring");
        let reactor = reactor_loop.handle();
        reactor_loop.run(overwrite(reactor, Rc::clone(&disk), blocks, caches, laps, fill_blocks));
    }
    let mut reactor_loop = Loop::new(LoopConfig::default()).expect("io_uring");
    let reactor = reactor_loop.handle();
    reactor_loop.run(async move {
        let begin = Instant::now();
        let shard = open(&reactor, &disk, caches).await;
        let (seconds, stats) = (begin.elapsed().as_secs_f64(), shard.stats());
        println!(
            "opened in {seconds:.2} s: {} pages read, {} deaths folded, {} and {} updates wait",
            stats.page_reads, stats.folded_deaths, stats.waiting_deaths, stats.waiting_updates
        );
    });
    let disk_bytes = disk_pages * size_of::<Page>() + whole.get() * BLOCK;
    let beside = resident_bytes_max().saturating_sub(disk_bytes + caches.total());
    println!(
        "{} MiB at most, of them {} MiB of the disk and {} MiB of caches: {} MiB beside those",
        resident_bytes_max() >> 20,
        disk_bytes >> 20,
        caches.total() >> 20,
        beside >> 20,
    );
}

/// Memory that the process had at most.
fn resident_bytes_max() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("in the status");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}
