//! Nanoseconds of tree operations with every page cached: `cargo run --release -p varve-engine --example tree_ops`.
//!
//! Each line is the median of five rounds over trees of the given size; look-ups and changes take random ids.

use std::time::Instant;

use varve_engine::tree::{
    BTree, ChunkNames, Fill, Map, MapSlot, MemoryNames, PageCache, TreeLayout, encode_page,
};
use varve_stdx::Rng;
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId};

const ROUNDS: usize = 5;
const TABLE: TreeLayout = TreeLayout::Fixed { key_len: 6, value_len: 23 };

fn main() {
    for entries in [100_000, 4_000_000] {
        println!("{entries} entries");
        table(entries);
        keys(entries.min(1_000_000));
        map(entries);
    }
}

/// Prints the median time of one of `count` operations.
fn measure(what: &str, count: u64, mut round: impl FnMut(u64)) {
    let mut times: Vec<u128> = (0..ROUNDS as u64)
        .map(|n| {
            let start = Instant::now();
            round(n);
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    println!("  {what:<28} {:>6} ns", times[ROUNDS / 2] / u128::from(count));
}

fn id_key(id: u64) -> [u8; 6] {
    *id.to_be_bytes().last_chunk().expect("six of eight bytes")
}

fn table(entries: u64) {
    let mut cache = PageCache::new(4 << 30);
    let mut names = MemoryNames::new();
    let mut tree = BTree::new(TABLE);
    let mut rng = Rng::new(1);
    let per_round = entries / ROUNDS as u64;
    measure("table append", per_round, |round| {
        for id in round * per_round..(round + 1) * per_round {
            tree.put(&mut cache, &mut names, &id_key(id), &[7; 23]).expect("cached");
        }
    });
    let operations = 200_000.min(per_round);
    measure("table get", operations, |_| {
        for _ in 0..operations {
            let key = id_key(rng.below(entries));
            assert!(tree.get(&cache, &key).expect("cached").is_some());
        }
    });
    measure("table replace", operations, |round| {
        let fill = u8::try_from(round).expect("few rounds");
        for _ in 0..operations {
            let key = id_key(rng.below(entries));
            tree.put(&mut cache, &mut names, &key, &[fill; 23]).expect("cached");
        }
    });
    let mut next = entries;
    measure("table delete and append", operations, |_| {
        for _ in 0..operations {
            let key = id_key(rng.below(entries));
            tree.delete(&mut cache, &mut names, &key).expect("cached");
            tree.put(&mut cache, &mut names, &id_key(next), &[7; 23]).expect("cached");
            next += 1;
        }
    });
}

fn keys(entries: u64) {
    let mut cache = PageCache::new(4 << 30);
    let mut names = ChunkNames::new(ChunkId::new(1), ChunkId::MAX);
    let mut tree = BTree::new(TreeLayout::Slotted);
    let mut rng = Rng::new(1);
    let key =
        |n: u64| format!("namespace/bucket/object-{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let keys: Vec<String> = (0..entries).map(key).collect();
    let per_round = keys.len() / ROUNDS;
    measure("keys put at random", per_round as u64, |round| {
        let start = usize::try_from(round).expect("few rounds") * per_round;
        for key in &keys[start..start + per_round] {
            tree.put(&mut cache, &mut names, key.as_bytes(), &[7; 40]).expect("cached");
        }
    });
    measure("keys get", 100_000, |_| {
        for _ in 0..100_000 {
            let key = keys[rng.index(per_round * ROUNDS)].as_bytes();
            assert!(tree.get(&cache, key).expect("cached").is_some());
        }
    });
}

fn map(blocks: u64) {
    let mut cache = PageCache::new(4 << 30);
    let mut names = ChunkNames::new(ChunkId::new(1 << 47), ChunkId::MAX);
    let mut map = Map::new(StreamId::new(1), ShardId(0));
    let mut rng = Rng::new(1);
    let mut next = 1;
    let mut fresh = move || {
        next += 1;
        MapSlot::data(ShardId(0), ChunkId::new(next))
    };
    let per_round = blocks / ROUNDS as u64;
    measure("map set in sequence", per_round, |round| {
        let (first, end) = (BlockIndex(round * per_round), BlockIndex((round + 1) * per_round));
        for block in first.until(end) {
            map.set(&mut cache, &mut names, block, fresh()).expect("cached");
        }
    });
    let operations = 200_000.min(per_round);
    measure("map set at random", operations, |_| {
        for _ in 0..operations {
            let block = BlockIndex(rng.below(blocks));
            map.set(&mut cache, &mut names, block, fresh()).expect("cached");
        }
    });
    measure("map lookup at random", operations, |_| {
        for _ in 0..operations {
            let block = BlockIndex(rng.below(blocks));
            assert_ne!(map.lookup(&cache, block).expect("cached"), MapSlot::HOLE);
        }
    });
    let mut run = vec![MapSlot::HOLE; 64];
    measure("map lookup of 64 in a run", operations, |_| {
        for _ in 0..operations {
            let block = BlockIndex(rng.below(blocks - 64));
            map.lookup_run(&cache, block, &mut run).expect("cached");
        }
    });
    let dirty = cache.dirty_names();
    let mut bytes = 0;
    measure("map page encode", dirty.len() as u64, |_| {
        bytes = 0;
        for name in &dirty {
            bytes += encode_page(cache.peek(*name).expect("dirty pages are pinned"), *name).len();
        }
    });
    println!("  map page bytes               {:>6}", bytes / dirty.len());
    let start = Instant::now();
    let mut dead = 0;
    let all = BlockIndex::ZERO..BlockIndex(blocks);
    let end = map
        .fill_range(&mut cache, &mut names, all, Fill::Hole, usize::MAX, |_, _| dead += 1)
        .expect("cached");
    assert_eq!((end, dead), (BlockIndex(blocks), blocks));
    let pages = blocks.div_ceil(512);
    println!(
        "  map clear, a page            {:>6} ns",
        start.elapsed().as_nanos() / u128::from(pages)
    );
}
