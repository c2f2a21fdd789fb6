//! The map against a `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::Range;

use hashbrown::HashSet;
use varve_stdx::Rng;
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId};

use crate::tree::{
    BlockMapping, ChunkNames, DetachedContent, Fault, Fill, MAP_HEIGHT_MAX, Map, MapSlot,
    PageCache, PagePtr, SlotKind, StatusRun, WalkItem,
};

use super::checker::Checker;
use super::store::Store;

const STREAM: StreamId = StreamId::new(9);
const SHARD: ShardId = ShardId(7);

struct World {
    map: Map,
    cache: PageCache,
    names: ChunkNames,
    store: Store,
    model: BTreeMap<BlockIndex, MapSlot>,
    rng: Rng,
    next_chunk: u64,
    /// Blocks that operations begin at lie below these, so that some of them meet.
    spans: &'static [u64],
}

impl World {
    fn new(seed: u64, spans: &'static [u64]) -> Self {
        Self {
            map: Map::new(STREAM, SHARD),
            cache: PageCache::new(0),
            names: ChunkNames::new(ChunkId::new(1), ChunkId::MAX),
            store: Store::default(),
            model: BTreeMap::new(),
            rng: Rng::new(seed),
            next_chunk: 1 << 40,
            spans,
        }
    }

    fn block(&mut self) -> BlockIndex {
        let span = self.spans[self.rng.index(self.spans.len())];
        let block = BlockIndex(self.rng.below(span));
        match self.rng.below(3) {
            0 => block.group_start(512),
            1 => block.group_start(512 * 512),
            _ => block,
        }
    }

    fn len(&mut self) -> u64 {
        match self.rng.below(6) {
            0 => 1,
            1 | 2 => 1 + self.rng.below(100),
            3 => 512,
            4 => 1 + self.rng.below(3000),
            _ => 1 + self.rng.below(600_000),
        }
    }

    fn slot(&mut self) -> MapSlot {
        self.next_chunk += 1 + self.rng.below(2) * self.rng.below(1000);
        match self.rng.below(8) {
            0 => MapSlot::HOLE,
            1 => MapSlot::ZERO,
            n => {
                MapSlot::data(ShardId(u16::try_from(n / 5).unwrap()), ChunkId::new(self.next_chunk))
            }
        }
    }

    fn model_at(&self, block: BlockIndex) -> MapSlot {
        self.model.get(&block).copied().unwrap_or(MapSlot::HOLE)
    }

    fn model_set(&mut self, block: BlockIndex, slot: MapSlot) -> MapSlot {
        let old = if slot == MapSlot::HOLE {
            self.model.remove(&block)
        } else {
            self.model.insert(block, slot)
        };
        old.unwrap_or(MapSlot::HOLE)
    }

    /// Runs an operation that may fault, and asserts that a fault changed nothing.
    fn retry<T>(
        &mut self,
        mut operation: impl FnMut(&mut Map, &mut PageCache, &mut ChunkNames) -> Result<T, Fault>,
    ) -> T {
        let Self { map, cache, names, store, .. } = self;
        store.retry(cache, |cache| {
            let before = (map.clone(), cache.dirty_names(), cache.writing_names());
            let outcome = operation(map, cache, names);
            if outcome.is_err() {
                assert!(before == (map.clone(), cache.dirty_names(), cache.writing_names()));
            }
            outcome
        })
    }

    fn step(&mut self) {
        let block = self.block();
        match self.rng.below(20) {
            0..6 => {
                let slot = self.slot();
                let old = self.retry(|map, cache, names| map.set(cache, names, block, slot));
                assert_eq!(old, self.model_set(block, slot));
            }
            6..9 => self.set_run(block),
            9..12 => {
                let found = self.retry(|map, cache, _| map.lookup(cache, block));
                assert_eq!(found, self.model_at(block));
                let mut run = vec![MapSlot::ZERO; usize::try_from(self.len().min(3000)).unwrap()];
                self.retry(|map, cache, _| map.lookup_run(cache, block, &mut run));
                let run = block.until(BlockIndex::MAX).zip(&run);
                assert!(run.into_iter().all(|(block, slot)| *slot == self.model_at(block)));
            }
            12..16 => {
                let fill = if self.rng.below(4) == 0 { Fill::Zero } else { Fill::Hole };
                let len = if fill == Fill::Zero { self.len().min(5000) } else { self.len() };
                self.fill(block..block + len, fill);
            }
            16 => {
                let len = self.len();
                self.detach(block..block + len);
            }
            _ => self.status(block),
        }
    }

    fn set_run(&mut self, first: BlockIndex) {
        let len = self.len().min(2000);
        let mut slots = Vec::new();
        match self.rng.below(3) {
            0 => slots.extend((0..len).map(|_| MapSlot::HOLE)),
            1 => slots.extend((0..len).map(|_| self.slot())),
            _ => {
                let base = self.next_chunk + 1;
                slots.extend((base..base + len).map(|id| MapSlot::data(SHARD, ChunkId::new(id))));
                self.next_chunk += len;
            }
        }
        let mut olds = Vec::new();
        self.retry(|map, cache, names| {
            map.set_run(cache, names, first, &slots, |block, old| olds.push((block, old)))
        });
        let mut wanted = Vec::new();
        for (block, slot) in first.until(BlockIndex::MAX).zip(slots) {
            let old = self.model_set(block, slot);
            if old != slot {
                wanted.push((block, old));
            }
        }
        assert_eq!(olds, wanted);
    }

    fn fill(&mut self, range: Range<BlockIndex>, fill: Fill) {
        let mut dead = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let budget = 1 + self.rng.index(2000);
            next = self.retry(|map, cache, names| {
                map.fill_range(cache, names, next..range.end, fill, budget, |b, s| {
                    dead.push((b, s))
                })
            });
        }
        assert_eq!(dead, self.model_clear(range.clone()));
        if fill == Fill::Zero {
            let blocks = range.start.until(range.end);
            self.model.extend(blocks.map(|block| (block, MapSlot::ZERO)));
        }
    }

    /// Makes holes in the model; returns the data that was there.
    fn model_clear(&mut self, range: Range<BlockIndex>) -> Vec<(BlockIndex, MapSlot)> {
        let gone: Vec<_> = self.model.range(range).map(|(b, s)| (*b, *s)).collect();
        for (block, _) in &gone {
            self.model.remove(block);
        }
        gone.into_iter().filter(|(_, slot)| slot.kind() == SlotKind::Data).collect()
    }

    /// Detaches a range, and clears the detached subtrees as maps of their own.
    fn detach(&mut self, range: Range<BlockIndex>) {
        let mut dropped = Vec::new();
        self.retry(|map, cache, names| {
            map.detach_range(cache, names, range.clone(), |d| dropped.push(d))
        });
        let mut dead = Vec::new();
        for piece in dropped {
            match piece {
                DetachedContent::Data(block, slot) => dead.push((block, slot)),
                DetachedContent::Subtree(subtree) => {
                    let (first, end) = (subtree.first_block(), subtree.end_block());
                    let whole = std::mem::replace(&mut self.map, subtree);
                    let mut next = first;
                    while next < end {
                        next = self.retry(|map, cache, names| {
                            map.fill_range(cache, names, next..end, Fill::Hole, 700, |b, s| {
                                dead.push((b, s))
                            })
                        });
                    }
                    assert!(self.map.is_empty());
                    self.map = whole;
                }
            }
        }
        assert_eq!(dead, self.model_clear(range));
    }

    fn status(&mut self, first: BlockIndex) {
        let end = first + self.len();
        let max_runs = 1 + self.rng.index(50);
        let mut runs = Vec::new();
        let mut next = first;
        while next < end {
            let before = next;
            next = self.retry(|map, cache, _| map.status(cache, next, end, max_runs, &mut runs));
            if next == before {
                break;
            }
        }
        assert!(runs.len() <= max_runs && (next == end || runs.len() == max_runs));
        assert!(runs.windows(2).all(|pair| pair[0].mapped != pair[1].mapped));
        let mut block = first;
        for StatusRun { blocks, mapped } in runs {
            let held = self.model.range(block..block + blocks);
            match mapped {
                BlockMapping::Hole => assert_eq!(held.count(), 0),
                BlockMapping::Zero => {
                    assert!(held.map(|h| *h.1).eq((0..blocks).map(|_| MapSlot::ZERO)))
                }
                BlockMapping::Data => {
                    assert_eq!(
                        held.filter(|h| h.1.kind() == SlotKind::Data).count() as u64,
                        blocks
                    );
                }
            }
            block += blocks;
        }
        assert_eq!(block, next);
    }

    fn checkpoint(&mut self) {
        self.store.forget(self.names.take_dead());
        self.store.checkpoint(&mut self.cache);
        if self.rng.below(3) > 0 {
            Store::settle(&mut self.cache);
        }
        if self.rng.below(3) == 0 {
            // A restart.
            Store::settle(&mut self.cache);
            self.cache = PageCache::new(0);
            self.map = Map::open(STREAM, SHARD, self.map.root(), self.map.height()).unwrap();
        }
    }

    fn check(&mut self) {
        self.store.forget(self.names.take_dead());
        let mut checker = Checker::new(&self.cache, &self.store);
        let blocks = checker.check_map(&self.map);
        assert!(blocks.iter().copied().eq(self.model.iter().map(|(block, slot)| (*block, *slot))));
        let mut there: HashSet<PagePtr> = checker.dirty.union(&checker.stored).copied().collect();
        checker.finish();
        let mut data = Vec::new();
        let mut next = Some(BlockIndex::ZERO);
        while let Some(from) = next {
            let budget = 1 + self.rng.index(3000);
            let mut items = Vec::new();
            next = self.retry(|map, cache, _| {
                map.walk(cache, from, budget, |_| false, |item| items.push(item))
            });
            for item in items {
                match item {
                    WalkItem::Page { page, .. } => {
                        assert!(there.remove(&PagePtr::Chunk(page)), "{page} came twice")
                    }
                    WalkItem::Known { .. } => panic!("no page is known"),
                    WalkItem::Data { block, slot } => data.push((block, slot)),
                }
            }
        }
        assert!(there.is_empty(), "pages not walked: {there:?}");
        let wanted = self.model.iter().filter(|(_, slot)| slot.kind() == SlotKind::Data);
        assert!(data.iter().copied().eq(wanted.map(|(block, slot)| (*block, *slot))));
    }

    /// Walks while the map changes: what keeps its name, or its chunk, is reported.
    fn walk_under_changes(&mut self) {
        let names = |world: &Self| {
            let mut checker = Checker::new(&world.cache, &world.store);
            checker.check_map(&world.map);
            let names: HashSet<PagePtr> = checker.dirty.union(&checker.stored).copied().collect();
            names
        };
        let (before, model) = (names(self), self.model.clone());
        let mut items = HashSet::new();
        let mut next = Some(BlockIndex::ZERO);
        while let Some(from) = next {
            let found = &mut Vec::new();
            next = self.retry(|map, cache, _| {
                map.walk(cache, from, 600, |_| false, |item| found.push(item))
            });
            items.extend(found.iter().map(|item| match *item {
                WalkItem::Page { page, .. } | WalkItem::Known { page, .. } => {
                    (PagePtr::Chunk(page), None)
                }
                WalkItem::Data { block, slot } => (PagePtr::Chunk(slot.id()), Some(block)),
            }));
            self.step();
        }
        for name in before.intersection(&names(self)) {
            assert!(items.contains(&(*name, None)), "{name:?} was there all the time");
        }
        for (block, slot) in model {
            if slot.kind() == SlotKind::Data && self.model_at(block) == slot {
                assert!(items.contains(&(PagePtr::Chunk(slot.id()), Some(block))), "block {block}");
            }
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
            if self.rng.below(40) == 0 {
                self.checkpoint();
            }
            if self.rng.below(100) == 0 {
                self.check();
            }
            if self.rng.below(200) == 0 {
                self.walk_under_changes();
            }
        }
        let end = self.map.end_block();
        self.fill(BlockIndex::ZERO..end, Fill::Hole);
        self.check();
        assert!(self.map.is_empty() && self.store.pages.is_empty());
    }
}

#[test]
fn small_maps_follow_the_model() {
    for seed in 0..4 {
        World::new(seed, &[700, 5000]).run(1500);
    }
}

#[test]
fn large_maps_follow_the_model() {
    for seed in 0..4 {
        World::new(seed, &[700, 300_000, 1 << 28, 1 << 44]).run(1500);
    }
}

#[test]
fn zeroing_a_huge_range_takes_few_pages() {
    let mut world = World::new(1, &[1]);
    let end = BlockIndex((1 << 44) + 3);
    let mut next = BlockIndex(1);
    while next < end {
        next = world.retry(|map, cache, names| {
            map.fill_range(cache, names, next..end, Fill::Zero, 1 << 20, |_, _| panic!("no data"))
        });
    }
    assert!(world.cache.dirty_names().len() <= 2 * usize::from(MAP_HEIGHT_MAX));
    for (block, wanted) in
        [(0, MapSlot::HOLE), (1, MapSlot::ZERO), (end.0 - 1, MapSlot::ZERO), (end.0, MapSlot::HOLE)]
    {
        assert_eq!(world.map.lookup(&world.cache, BlockIndex(block)), Ok(wanted));
    }
    let mut runs = Vec::new();
    let status = world.map.status(&world.cache, BlockIndex::ZERO, end + 5, 9, &mut runs);
    assert_eq!(status, Ok(end + 5));
    let wanted =
        [(1, BlockMapping::Hole), (end.0 - 1, BlockMapping::Zero), (5, BlockMapping::Hole)];
    assert!(runs.iter().map(|run| (run.blocks, run.mapped)).eq(wanted));
}

#[test]
fn missing_names_each_absent_page_once() {
    let mut world = World::new(1, &[1]);
    let slot = MapSlot::data(SHARD, ChunkId::new(1));
    for block in BlockIndex::ZERO.until(BlockIndex(5000)) {
        world.map.set(&mut world.cache, &mut world.names, block, slot).unwrap();
    }
    world.store.checkpoint(&mut world.cache);
    world.cache = PageCache::new(0);
    for wanted in [1, 10, 0] {
        let missing = world.map.missing(&world.cache, BlockIndex::ZERO.until(BlockIndex(6000)));
        assert_eq!(missing.len(), wanted);
        for fault in missing {
            world.cache.insert(fault.ptr, world.store.load(fault));
        }
    }
}
