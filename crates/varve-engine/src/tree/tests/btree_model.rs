//! The B+tree in both layouts against a `BTreeMap`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use hashbrown::HashSet;
use varve_stdx::Rng;
use varve_types::ChunkId;

use crate::tree::{
    BTree, ChunkNames, Fault, MemoryNames, PageCache, PageNames, PagePtr, Scan, TREE_KEY_BYTES_MAX,
    TreeLayout, Value,
};

use super::checker::Checker;
use super::store::Store;

const TABLE: TreeLayout = TreeLayout::Fixed { key_len: 6, value_len: 23 };

/// A key shape of the workload.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// Ids that mostly grow.
    Ids,
    /// Short random keys.
    Short,
    /// Keys up to the largest, with long common prefixes.
    Long,
}

struct World<N> {
    tree: BTree,
    layout: TreeLayout,
    cache: PageCache,
    names: N,
    take_dead: fn(&mut N) -> Vec<PagePtr>,
    store: Store,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    rng: Rng,
    next_id: u64,
}

fn table_world(seed: u64) -> World<MemoryNames> {
    world(TABLE, MemoryNames::new(), MemoryNames::take_dead, seed)
}

fn key_world(seed: u64) -> World<ChunkNames> {
    let names = ChunkNames::new(ChunkId::new(1), ChunkId::MAX);
    world(TreeLayout::Slotted, names, ChunkNames::take_dead, seed)
}

fn world<N: PageNames>(
    layout: TreeLayout,
    names: N,
    take_dead: fn(&mut N) -> Vec<PagePtr>,
    seed: u64,
) -> World<N> {
    World {
        tree: BTree::new(layout),
        layout,
        cache: PageCache::new(0),
        names,
        take_dead,
        store: Store::default(),
        model: BTreeMap::new(),
        rng: Rng::new(seed),
        next_id: 1,
    }
}

impl<N: PageNames> World<N> {
    fn key(&mut self, keys: Keys) -> Vec<u8> {
        match keys {
            Keys::Ids => {
                let id = if self.rng.below(4) == 0 {
                    self.rng.below(self.next_id)
                } else {
                    self.next_id += 1 + self.rng.below(3);
                    self.next_id
                };
                id.to_be_bytes()[2..].to_vec()
            }
            Keys::Short => {
                let len = usize::try_from(self.rng.below(4)).unwrap();
                (0..len).map(|_| b'a' + u8::try_from(self.rng.below(8)).unwrap()).collect()
            }
            Keys::Long => {
                let len = TREE_KEY_BYTES_MAX - usize::try_from(self.rng.below(300)).unwrap();
                let mut key = vec![b'x'; len];
                let tail = self.rng.below(400).to_be_bytes();
                key[len - 8..].copy_from_slice(&tail);
                key
            }
        }
    }

    fn value(&mut self, key_len: usize) -> Vec<u8> {
        let len = match self.layout {
            TreeLayout::Fixed { value_len, .. } => usize::from(value_len),
            TreeLayout::Slotted => {
                let most = if self.rng.below(4) == 0 { 2014 } else { 40 };
                let most = most.min(2014 - key_len);
                usize::try_from(self.rng.below(most as u64 + 1)).unwrap()
            }
        };
        let fill = self.rng.below(256).to_le_bytes()[0];
        vec![fill; len]
    }

    /// Runs an operation that may fault, and asserts that a fault changed nothing.
    fn retry<T>(
        &mut self,
        mut operation: impl FnMut(&mut BTree, &mut PageCache, &mut N) -> Result<T, Fault>,
    ) -> T {
        let Self { tree, cache, names, store, .. } = self;
        store.retry(cache, |cache| {
            let before = (tree.clone(), cache.dirty_names(), cache.writing_names());
            let outcome = operation(tree, cache, names);
            if outcome.is_err() {
                let after = (tree.clone(), cache.dirty_names(), cache.writing_names());
                assert!(before == after, "a fault changed the tree");
            }
            outcome
        })
    }

    fn step(&mut self, keys: Keys, delete_percent: u64) {
        let key = self.key(keys);
        match self.rng.below(100) {
            n if n < delete_percent && self.rng.below(30) == 0 => self.delete_many(keys, key),
            n if n < delete_percent => {
                let key = match self.model.range(key..).next() {
                    Some((key, _)) => key.clone(),
                    None => return,
                };
                let old = self.retry(|tree, cache, names| tree.delete(cache, names, &key));
                assert_eq!(old.map(|v| v.to_vec()), self.model.remove(&key));
            }
            n if n < 90 => {
                let value = self.value(key.len());
                let old = self.retry(|tree, cache, names| tree.put(cache, names, &key, &value));
                assert_eq!(old.map(|v| v.to_vec()), self.model.insert(key, value));
            }
            n if n < 95 => {
                let found =
                    self.retry(|tree, cache, _| tree.get(cache, &key).map(|v| v.map(Value::from)));
                assert_eq!(found.as_deref(), self.model.get(&key).map(Vec::as_slice));
            }
            _ => self.scan(key),
        }
    }

    /// Deletes some of the entries from a key on, and asks for keys that are not there.
    fn delete_many(&mut self, keys: Keys, from: Vec<u8>) {
        let (span, one_in) = (1 + self.rng.index(400), 1 + self.rng.below(20));
        let mut wanted: BTreeSet<Vec<u8>> = BTreeSet::new();
        for key in self.model.range(from..).map(|(key, _)| key).take(span) {
            if self.rng.below(one_in) == 0 {
                wanted.insert(key.clone());
            }
        }
        for _ in 0..self.rng.below(3) {
            wanted.insert(self.key(keys));
        }
        let kept_part = self.rng.below(4);
        let is_kept = |key: &[u8]| key.last().is_some_and(|last| u64::from(*last) % 4 < kept_part);
        let wanted: Vec<Vec<u8>> = wanted.into_iter().collect();
        let mut rest = &wanted[..];
        while !rest.is_empty() {
            let mut asked: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
            let count = self.retry(|tree, cache, names| {
                assert_eq!(asked, [], "nothing is asked before a fault");
                tree.delete_sorted(cache, names, rest, |key, value| {
                    asked.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                    !is_kept(key)
                })
            });
            assert!(count > 0 && asked.iter().map(|(key, _)| key).eq(&rest[..count]));
            for (key, value) in asked {
                assert_eq!(value.as_ref(), self.model.get(&key));
                if !is_kept(&key) {
                    self.model.remove(&key);
                }
            }
            rest = &rest[count..];
        }
    }

    fn scan(&mut self, from: Vec<u8>) {
        let max = 1 + usize::try_from(self.rng.below(300)).unwrap();
        let mut found = Vec::new();
        let mut next = from.clone();
        while found.len() < max {
            let end = self.retry(|tree, cache, _| {
                tree.scan(cache, &next, max - found.len(), |key, value| {
                    found.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                })
            });
            match end {
                Scan::Done => break,
                Scan::More(key) => next = key,
            }
        }
        let wanted = self.model.range(from..).take(max);
        assert!(found.iter().map(|(k, v)| (k, v)).eq(wanted));
        let first = self.retry(|tree, cache, _| tree.first(cache).map(|e| e.map(|e| e.0.to_vec())));
        let last = self.retry(|tree, cache, _| tree.last(cache).map(|e| e.map(|e| e.0.to_vec())));
        assert_eq!(first.as_ref(), self.model.keys().next());
        assert_eq!(last.as_ref(), self.model.keys().next_back());
    }

    fn forget_dead(&mut self) {
        self.store.forget((self.take_dead)(&mut self.names));
    }

    fn checkpoint(&mut self) {
        self.forget_dead();
        match self.layout {
            TreeLayout::Slotted => self.store.checkpoint(&mut self.cache),
            TreeLayout::Fixed { .. } => {
                // Half the checkpoints are interrupted, and go on after some more changes.
                let pages_max = if self.rng.below(2) == 0 { 3 } else { usize::MAX };
                if !self.store.flush(&mut self.cache, &mut self.tree, pages_max) {
                    return;
                }
            }
        }
        assert_eq!(self.cache.stats().dirty_bytes, 0);
        match self.rng.below(3) {
            0 => {}
            1 => Store::settle(&mut self.cache),
            _ => {
                Store::settle(&mut self.cache);
                // A restart.
                self.cache = PageCache::new(0);
                let (root, height) = (self.tree.root(), self.tree.height());
                self.tree = BTree::open(self.layout, root, height).unwrap();
            }
        }
    }

    fn check(&mut self) -> usize {
        self.forget_dead();
        let mut checker = Checker::new(&self.cache, &self.store);
        let entries = checker.check_tree(&self.tree, self.layout);
        let sparse = checker.sparse;
        assert!(entries.iter().map(|(k, v)| (k, v)).eq(self.model.iter()));
        checker.finish();
        self.check_walk();
        sparse
    }

    /// The walk reports every page, whatever its step.
    fn check_walk(&mut self) {
        let mut reported = HashSet::new();
        let mut from = self.tree.lowest_key();
        let max_pages = 1 + usize::try_from(self.rng.below(20)).unwrap();
        loop {
            let end = self.retry(|tree, cache, _| {
                tree.walk_pages(cache, &from, max_pages, |ptr, level| {
                    reported.insert((ptr, level));
                })
            });
            match end {
                Scan::Done => break,
                Scan::More(key) => from = key,
            }
        }
        let reported: HashSet<PagePtr> = reported.into_iter().map(|(ptr, _)| ptr).collect();
        let mut checker = Checker::new(&self.cache, &self.store);
        checker.check_tree(&self.tree, self.layout);
        let there: HashSet<PagePtr> = checker.dirty.union(&checker.stored).copied().collect();
        assert_eq!(reported, there);
    }

    fn page_names(&self) -> HashSet<PagePtr> {
        let mut checker = Checker::new(&self.cache, &self.store);
        checker.check_tree(&self.tree, self.layout);
        checker.dirty.union(&checker.stored).copied().collect()
    }

    /// Walks while the tree changes: what keeps its name is reported (BT4).
    fn walk_under_changes(&mut self, keys: Keys) {
        let before = self.page_names();
        let mut reported = HashSet::new();
        let mut from = self.tree.lowest_key();
        loop {
            let end = self.retry(|tree, cache, _| {
                tree.walk_pages(cache, &from, 4, |ptr, _| {
                    reported.insert(ptr);
                })
            });
            match end {
                Scan::Done => break,
                Scan::More(key) => from = key,
            }
            let delete_percent = [10, 85][self.rng.index(2)];
            for _ in 0..self.rng.below(200) {
                self.step(keys, delete_percent);
            }
        }
        let after = self.page_names();
        for name in before.intersection(&after) {
            assert!(reported.contains(name), "{name:?} was there all the time");
        }
    }

    fn run(&mut self, keys: Keys, steps: u32) {
        for step in 0..steps {
            // Phases of growth and of shrinking.
            self.step(keys, if step / 1000 % 3 == 2 { 80 } else { 20 });
            if self.rng.below(150) == 0 {
                self.checkpoint();
            }
            if self.rng.below(500) == 0 {
                self.check();
            }
            if self.rng.below(1000) == 0 {
                self.walk_under_changes(keys);
            }
        }
        while let Some((key, _)) = self.model.pop_first() {
            assert!(self.retry(|tree, cache, names| tree.delete(cache, names, &key)).is_some());
        }
        self.check();
        assert_eq!(self.tree, BTree::new(self.layout));
    }
}

#[test]
fn table_follows_the_model() {
    for seed in 0..4 {
        table_world(seed).run(Keys::Ids, 9000);
    }
}

#[test]
fn keys_follow_the_model() {
    for seed in 0..4 {
        key_world(seed).run(Keys::Short, 6000);
        key_world(seed).run(Keys::Long, 4000);
    }
}

#[test]
fn appended_ids_fill_their_pages() {
    let mut world = table_world(1);
    for id in 1..=100_000_u64 {
        let key = &id.to_be_bytes()[2..];
        world.retry(|tree, cache, names| tree.put(cache, names, key, &[7; 23]));
    }
    let mut checker = Checker::new(&world.cache, &world.store);
    assert_eq!(checker.check_tree(&world.tree, TABLE).len(), 100_000);
    let leaves = 100_000_usize.div_ceil(139);
    assert!(
        checker.dirty.len() <= leaves + leaves.div_ceil(134) + 2,
        "{} pages",
        checker.dirty.len()
    );
}

#[test]
fn ids_appended_in_two_places_fill_their_pages() {
    let mut world = table_world(1);
    for id in 1..=50_000_u64 {
        let page_id = (1 << 47) + id / 5;
        for id in [id, page_id] {
            let key = &id.to_be_bytes()[2..];
            world.retry(|tree, cache, names| tree.put(cache, names, key, &[7; 23]));
        }
    }
    let mut checker = Checker::new(&world.cache, &world.store);
    assert_eq!(checker.check_tree(&world.tree, TABLE).len(), 60_001);
    let leaves = 60_001_usize.div_ceil(139);
    assert!(checker.dirty.len() <= leaves + leaves / 25, "{} pages", checker.dirty.len());
}

#[test]
fn the_dead_of_a_leaf_leave_in_one_visit() {
    let mut world = table_world(4);
    let key = |id: u64| id.to_be_bytes()[2..].to_vec();
    for id in 1..=20_000 {
        world.retry(|tree, cache, names| tree.put(cache, names, &key(id), &[7; 23]));
        world.model.insert(key(id), vec![7; 23]);
    }
    assert!(world.store.flush(&mut world.cache, &mut world.tree, usize::MAX));
    Store::settle(&mut world.cache);
    let dead: Vec<_> = (1..=20_000).filter(|id| id % 3 == 0).map(key).collect();
    let (mut rest, mut visits) = (&dead[..], 0);
    while !rest.is_empty() {
        let count =
            world.retry(|tree, cache, names| tree.delete_sorted(cache, names, rest, |_, _| true));
        rest = &rest[count..];
        visits += 1;
    }
    assert_eq!(visits, 20_000_usize.div_ceil(139));
    dead.iter().for_each(|key| assert!(world.model.remove(key).is_some()));
    world.check();
}

/// The leaf after the cursor of a walk takes entries from the one before, and is then split below the cursor.
#[test]
fn a_walk_misses_no_page_that_moves_below_its_cursor() {
    let mut world = table_world(1);
    let key = |id: u64| id.to_be_bytes()[2..].to_vec();
    for id in 1..=1000 {
        world.retry(|tree, cache, names| tree.put(cache, names, &key(id * 10), &[7; 23]));
    }
    let before = world.page_names();
    let mut reported = HashSet::new();
    let from = world.tree.lowest_key();
    let first = world.tree.walk_pages(&world.cache, &from, 1, |ptr, _| {
        reported.insert(ptr);
    });
    assert_eq!(first, Ok(Scan::More(key(1400))));
    for id in 140..=250 {
        world.retry(|tree, cache, names| tree.delete(cache, names, &key(id * 10)));
    }
    for id in (1001..1390).filter(|id| id % 10 != 0) {
        world.retry(|tree, cache, names| tree.put(cache, names, &key(id), &[7; 23]));
    }
    let rest = world.tree.walk_pages(&world.cache, &key(1400), usize::MAX, |ptr, _| {
        reported.insert(ptr);
    });
    assert_eq!(rest, Ok(Scan::Done));
    let after = world.page_names();
    let missed = before.intersection(&after).filter(|name| !reported.contains(*name));
    assert_eq!(missed.count(), 0, "BT4");
}

#[test]
fn missing_names_each_absent_page_once() {
    let mut world = table_world(2);
    let keys: Vec<[u8; 6]> =
        (1..=50_000_u64).map(|id| *id.to_be_bytes().last_chunk().unwrap()).collect();
    for key in &keys {
        world.retry(|tree, cache, names| tree.put(cache, names, key, &[7; 23]));
    }
    assert!(world.store.flush(&mut world.cache, &mut world.tree, usize::MAX));
    world.cache = PageCache::new(64 << 20);
    let mut rounds = Vec::new();
    loop {
        let wanted = keys.iter().step_by(100).map(<[u8; 6]>::as_slice);
        let missing = world.tree.missing(&world.cache, wanted);
        if missing.is_empty() {
            break;
        }
        rounds.push(missing.len());
        for fault in missing {
            world.cache.insert(fault.ptr, world.store.load(fault));
        }
    }
    assert_eq!(rounds, [1, 3, 359], "levels are loaded one after the other");
    for key in keys.iter().step_by(100) {
        assert_eq!(world.tree.get(&world.cache, key), Ok(Some(&[7; 23][..])));
    }
}

#[test]
fn a_touched_page_is_written_elsewhere() {
    let mut world = table_world(3);
    for id in 1..=40_000_u64 {
        let key = &id.to_be_bytes()[2..];
        world.retry(|tree, cache, names| tree.put(cache, names, key, &[7; 23]));
        world.model.insert(key.to_vec(), vec![7; 23]);
    }
    assert!(world.store.flush(&mut world.cache, &mut world.tree, usize::MAX));
    Store::settle(&mut world.cache);
    let mut pages = Vec::new();
    let from = world.tree.lowest_key();
    let end = world.retry(|tree, cache, _| {
        tree.walk_pages(cache, &from, usize::MAX, |ptr, level| pages.push((ptr, level)))
    });
    assert_eq!(end, Scan::Done);
    world.cache = PageCache::new(0);
    let key = 20_000_u64.to_be_bytes();
    let mut touched = 0;
    for (ptr, level) in pages {
        let hit =
            world.retry(|tree, cache, names| tree.touch_page(cache, names, &key[2..], level, ptr));
        let again =
            world.retry(|tree, cache, names| tree.touch_page(cache, names, &key[2..], level, ptr));
        assert!(!again, "the page has moved");
        touched += u32::from(hit);
    }
    // Touching the root first moves it alone; then its child, then the leaf.
    assert_eq!(touched, u32::from(world.tree.height()));
    assert_eq!(world.cache.dirty_names().len(), usize::from(world.tree.height()));
    world.checkpoint();
    world.check();
}

#[test]
fn entries_over_half_a_page_are_refused() {
    let tree = BTree::new(TreeLayout::Slotted);
    assert!(tree.check_entry(&[0; TREE_KEY_BYTES_MAX], &[]).is_ok());
    assert!(tree.check_entry(&[0; TREE_KEY_BYTES_MAX + 1], &[]).is_err());
    assert!(tree.check_entry(b"k", &[0; 2013]).is_ok());
    assert!(tree.check_entry(b"k", &[0; 2014]).is_err());
    assert!(BTree::new(TABLE).check_entry(b"short", &[0; 23]).is_err());
}

#[test]
fn a_root_that_does_not_suit_its_height_is_refused() {
    assert!(BTree::open(TABLE, PagePtr::Null, 1).is_none());
    assert!(BTree::open(TABLE, PagePtr::Memory(1), 0).is_none());
    assert!(BTree::open(TABLE, PagePtr::Memory(1), 33).is_none());
}
