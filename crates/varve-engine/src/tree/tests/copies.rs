//! Maps that share pages, each against a `BTreeMap` of its own.

use std::collections::BTreeMap;
use std::ops::Range;

use hashbrown::HashSet;
use varve_stdx::Rng;
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId};

use crate::tree::{
    ChunkNames, DiffLimits, DiffRun, Fault, Fill, Map, MapSlot, PageCache, SlotKind, WalkItem,
};

use super::store::Store;

const SHARD: ShardId = ShardId(1);
const MAPS_MAX: usize = 6;

type Model = BTreeMap<BlockIndex, MapSlot>;

struct Family {
    members: Vec<(Map, Model)>,
    cache: PageCache,
    names: ChunkNames,
    store: Store,
    rng: Rng,
    next_chunk: u64,
    next_stream: u64,
    blocks: u64,
}

impl Family {
    fn new(seed: u64, blocks: u64) -> Self {
        Self {
            members: vec![(Map::new(StreamId::new(1), SHARD), Model::new())],
            cache: PageCache::new(0),
            names: ChunkNames::new(ChunkId::new(1), ChunkId::MAX),
            store: Store::default(),
            rng: Rng::new(seed),
            next_chunk: 1 << 40,
            next_stream: 2,
            blocks,
        }
    }

    fn retry<T>(
        &mut self,
        member: usize,
        mut operation: impl FnMut(&mut Map, &mut PageCache, &mut ChunkNames) -> Result<T, Fault>,
    ) -> T {
        let Self { members, cache, names, store, .. } = self;
        let map = &mut members[member].0;
        store.retry(cache, |cache| operation(map, cache, names))
    }

    fn range(&mut self) -> Range<BlockIndex> {
        let first = BlockIndex(self.rng.below(self.blocks));
        let len = [1, 40, 512, 3000][self.rng.index(4)];
        first..first + 1 + self.rng.below(len)
    }

    fn step(&mut self) {
        let member = self.rng.index(self.members.len());
        match self.rng.below(16) {
            0..6 => {
                let range = self.range();
                self.write(member, range);
            }
            6..8 => self.fill(member),
            8 => {
                let range = self.range();
                self.retry(member, |map, cache, names| {
                    map.detach_range(cache, names, range.clone(), |_| {})
                });
                self.members[member].1.retain(|block, _| !range.contains(block));
            }
            9 | 10 => self.copy(member),
            11 => self.checkpoint(),
            12 => self.compare(member),
            _ => self.check(member),
        }
    }

    fn write(&mut self, member: usize, range: Range<BlockIndex>) {
        for block in range.start.until(range.end) {
            self.next_chunk += 1;
            let slot = MapSlot::data(SHARD, ChunkId::new(self.next_chunk));
            let old = self.retry(member, |map, cache, names| map.set(cache, names, block, slot));
            let before = self.members[member].1.insert(block, slot);
            assert_eq!(old, before.unwrap_or(MapSlot::HOLE));
        }
    }

    fn fill(&mut self, member: usize) {
        let range = self.range();
        let fill = if self.rng.chance(1, 3) { Fill::Zero } else { Fill::Hole };
        let mut next = range.start;
        while next < range.end {
            next = self.retry(member, |map, cache, names| {
                map.fill_range(cache, names, next..range.end, fill, 700, |_, _| {})
            });
        }
        let model = &mut self.members[member].1;
        model.retain(|block, _| !range.contains(block));
        if fill == Fill::Zero {
            let blocks = range.start.until(range.end);
            model.extend(blocks.map(|block| (block, MapSlot::ZERO)));
        }
    }

    /// Another member that begins as a copy, in the place of one that is forgotten when there are many.
    fn copy(&mut self, member: usize) {
        let stream = StreamId::new(self.next_stream);
        self.next_stream += 1;
        let ceiling = self.names.next();
        let copy =
            (self.members[member].0.copy_to(stream, ceiling), self.members[member].1.clone());
        if self.members.len() < MAPS_MAX {
            self.members.push(copy);
        } else {
            let gone = (member + 1 + self.rng.index(MAPS_MAX - 1)) % MAPS_MAX;
            self.members[gone] = copy;
        }
    }

    fn checkpoint(&mut self) {
        self.store.forget(self.names.take_dead());
        self.store.checkpoint(&mut self.cache);
        if self.rng.chance(2, 3) {
            Store::settle(&mut self.cache);
        }
        if self.rng.chance(1, 3) {
            Store::settle(&mut self.cache);
            self.cache = PageCache::new(0);
            for (map, _) in &mut self.members {
                let stream = StreamId::new(self.next_stream);
                let (root, height, ceiling) = (map.root(), map.height(), map.ceiling());
                *map = Map::open(stream, SHARD, root, height).unwrap().with_ceiling(ceiling);
            }
        }
    }

    fn check(&mut self, member: usize) {
        let first = BlockIndex(self.rng.below(self.blocks));
        let mut found = vec![MapSlot::ZERO; 2000];
        self.retry(member, |map, cache, _| map.lookup_run(cache, first, &mut found));
        let model = &self.members[member].1;
        for (block, slot) in first.until(BlockIndex::MAX).zip(found) {
            assert_eq!(slot, model.get(&block).copied().unwrap_or(MapSlot::HOLE), "block {block}");
        }
    }

    fn compare(&mut self, member: usize) {
        let other = self.rng.index(self.members.len());
        let first = BlockIndex(self.rng.below(self.blocks));
        let end = BlockIndex(self.blocks + 5000);
        let limits = DiffLimits { steps: 1 + self.rng.index(2000), runs: usize::MAX };
        let (mut runs, mut next) = (Vec::<DiffRun>::new(), first);
        let theirs = self.members[other].0.clone();
        while next < end {
            next = self.retry(member, |map, cache, _| {
                map.diff(&theirs, cache, next..end, limits, &mut runs)
            });
        }
        assert_eq!(runs.iter().map(|run| run.blocks).sum::<u64>(), end - first);
        assert!(runs.windows(2).all(|pair| pair[0].differs != pair[1].differs));
        let of = |member: usize, block: BlockIndex| {
            let slot = self.members[member].1.get(&block).copied();
            slot.filter(|slot| slot.kind() == SlotKind::Data)
        };
        let mut block = first;
        for run in runs {
            for at in block.until(block + run.blocks) {
                assert_eq!(of(member, at) != of(other, at), run.differs, "block {at}");
            }
            block += run.blocks;
        }
    }

    /// Walks all members, what they have in common once: nothing is missed.
    fn walk(&mut self) {
        let (mut pages, mut chunks, mut steps) = (HashSet::new(), HashSet::new(), 0);
        for member in 0..self.members.len() {
            let mut next = Some(BlockIndex::ZERO);
            while let Some(from) = next {
                let mut items = Vec::new();
                let known = pages.clone();
                let ceiling = self.members[member].0.ceiling();
                let is_known = |page: ChunkId| page < ceiling && known.contains(&page);
                next = self.retry(member, |map, cache, _| {
                    map.walk(cache, from, 900, is_known, |item| items.push(item))
                });
                steps += items.len();
                for item in items {
                    match item {
                        WalkItem::Page { page, .. } => {
                            assert!(pages.insert(page), "{page} twice")
                        }
                        WalkItem::Known { page, .. } => assert!(known.contains(&page)),
                        WalkItem::Data { slot, .. } => _ = chunks.insert(slot.id()),
                    }
                }
            }
        }
        let slots = self.members.iter().flat_map(|(_, model)| model.values());
        let data = slots.filter(|slot| slot.kind() == SlotKind::Data);
        let wanted: HashSet<ChunkId> = data.map(|slot| slot.id()).collect();
        assert_eq!(chunks, wanted);
        assert!(steps >= wanted.len());
    }

    fn run(mut self, steps: usize) {
        for step in 0..steps {
            self.step();
            if step % 200 == 199 {
                self.walk();
                (0..self.members.len()).for_each(|member| self.compare(member));
            }
        }
    }
}

#[test]
fn maps_that_share_pages_follow_their_models() {
    for seed in 0..3 {
        Family::new(seed, 2_000).run(400);
        Family::new(seed, 600_000).run(400);
    }
}

#[test]
fn what_copies_have_in_common_is_compared_in_one_step() {
    let mut family = Family::new(1, 1);
    let end = BlockIndex(20_000);
    family.write(0, BlockIndex::ZERO..end);
    family.copy(0);
    family.write(1, BlockIndex(7_000)..BlockIndex(7_001));
    family.checkpoint();
    Store::settle(&mut family.cache);
    family.cache = PageCache::new(0);
    let (map, copy) = (family.members[0].0.clone(), family.members[1].0.clone());
    let (mut runs, mut next) = (Vec::new(), BlockIndex::ZERO);
    let limits = DiffLimits { steps: 600, runs: 10 };
    while next < end {
        next = family
            .store
            .retry(&mut family.cache, |cache| map.diff(&copy, cache, next..end, limits, &mut runs));
    }
    let loaded = family.cache.stats().resident_bytes / PageCache::BYTES_PER_PAGE;
    assert_eq!(loaded, 4, "both roots and both leaves are looked at");
    let found: Vec<_> = runs.iter().map(|run| (run.blocks, run.differs)).collect();
    assert_eq!(found, [(7_000, false), (1, true), (12_999, false)]);
}
