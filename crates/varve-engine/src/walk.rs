//! The walker over a shard's trees: maps of streams, key tree and chunk table, a step at a time. Whoever has to see all
//! of one walks it here: mark, audit, references, census, verify and inspection are loops over its steps.
//!
//! ```text
//!  next() ──▶ turn of other tasks ──▶ tree gate, if steps take it ──▶ pages loaded, items read ──▶ visitor
//!    ▲                                                                                                │
//!    └──────────────────────────────────── gate given back ◀──────────────────────────────────────────┘
//! ```
//!
//! WALK-1. What a step found was in the tree at one moment, and nothing is awaited from then until the visitor has it:
//!     what the visitor does before it awaits is in one step with the read.
//! WALK-2. Steps that take the tree gate have it from before the read until they are dropped, and none is held between
//!     two: a step borrows the walk, so the next one cannot begin before.
//! WALK-3. What is in a tree under one name from the first step to the last is found at least once, however the tree
//!     changes in between. What comes or goes meanwhile is found or not.
//! WALK-4. A step reads about [`STEP`] items, and each begins behind the one before: a walk ends, and other tasks get
//!     their turn.
//! WALK-5. Nothing below a page that the visitor knows is read. The page is found as [`WalkItem::Known`].
//! WALK-6. A step that fails found nothing, and the walk stays where it is: it can be tried again, or go on behind a
//!     damaged page of a map.
//! WALK-7. Walks change nothing but the cache of pages.
//! WALK-8. Data of a map are found in the order of their blocks, so that whoever stops at a block can walk on from it.

use std::marker::PhantomData;
use std::ops::{ControlFlow, Range};

use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::pointer::{Location, PagePtr};
use varve_types::{BlockIndex, ChunkId, StreamId};

use crate::admission::Permit;
use crate::pages::Faults;
use crate::tree::{BTree, Fault, MAP_SLOTS, Map, PageShape, Scan, WalkItem};
use crate::trees::{Stop, Trees};
use crate::{Result, Shard};

/// Slots, pages or entries that a step looks at before other tasks get a turn: some 50 µs of work (WALK-4).
pub(crate) const STEP: usize = 1024;

const _: () = assert!(STEP >= MAP_SLOTS, "a step gets past a page"); // WALK-4

/// Which steps of a walk take the tree gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum GateUse {
    /// Each of them (WALK-2).
    EachStep,
    /// None: the visitor holds it, or is content with a tree that changes between steps (WALK-3).
    NoStep,
}

/// A walk: over which tree, and where it goes on.
pub(crate) struct Walk<'a, C> {
    shard: &'a Shard,
    gate_use: GateUse,
    /// `None` at the end.
    cursor: Option<C>,
    is_begun: bool,
    /// The page at which the last step failed (WALK-6).
    fault: Option<Fault>,
}

/// What a step found. The gate, if it has it, is given back when it is dropped (WALK-2).
pub(crate) struct Step<'w, T> {
    pub(crate) found: T,
    _gate: Option<Permit>,
    _walk: PhantomData<&'w mut ()>,
}

/// Where a walk over the map of a stream goes on.
pub(crate) struct MapCursor {
    stream: StreamId,
    from: BlockIndex,
    /// Whether data that wait are shown in place of what the map has.
    has_waiting: bool,
}

/// Where a walk over the names of a tree's pages goes on.
pub(crate) struct PageCursor<N> {
    tree: fn(&Trees) -> &BTree,
    from: Vec<u8>,
    /// Which names are found: those of pages that were never stored have none on media.
    name: fn(PagePtr) -> Option<N>,
}

/// Where a walk over the entries of the chunk table goes on.
pub(crate) struct TableCursor {
    from: Vec<u8>,
}

/// A part of a stream's map.
pub(crate) struct MapPart {
    /// Pages, each before what is below it, and data.
    pub(crate) items: Vec<WalkItem>,
    /// The blocks that it covers.
    pub(crate) blocks: Range<BlockIndex>,
    /// Pages named below this id belong to copies of the map as well.
    pub(crate) page_ceiling: ChunkId,
    /// Chunks below this id may be held by copies as well (CUT-5).
    pub(crate) chunk_ceiling: ChunkId,
}

/// A chunk or page and its entry in the chunk table; an error where that is none.
pub(crate) type TableEntry = Result<(ChunkId, ChunkEntry)>;

impl Shard {
    /// Walks over the map of a stream as it is in pages, from a block on.
    pub(crate) fn walk_stream(
        &self,
        stream: StreamId,
        from: BlockIndex,
        gate_use: GateUse,
    ) -> Walk<'_, MapCursor> {
        Walk::new(self, gate_use, MapCursor { stream, from, has_waiting: false })
    }

    /// Walks over the names of the key tree's pages; some are found several times.
    pub(crate) fn walk_key_pages(&self, gate_use: GateUse) -> Walk<'_, PageCursor<ChunkId>> {
        let from = self.trees.borrow().keys.lowest_key();
        let name = |name| match name {
            PagePtr::Chunk(page) => Some(page),
            PagePtr::Null | PagePtr::Location(_) | PagePtr::Memory(_) => None,
        };
        Walk::new(self, gate_use, PageCursor { tree: |trees| &trees.keys, from, name })
    }

    /// Walks over the places of the chunk table's pages; some are found several times.
    pub(crate) fn walk_table_pages(&self, gate_use: GateUse) -> Walk<'_, PageCursor<Location>> {
        let from = self.trees.borrow().table.lowest_key();
        Walk::new(self, gate_use, PageCursor { tree: |trees| &trees.table, from, name: place_of })
    }

    /// Walks over the entries of the chunk table, in the order of ids.
    pub(crate) fn walk_table(&self, gate_use: GateUse) -> Walk<'_, TableCursor> {
        let from = self.trees.borrow().table.lowest_key();
        Walk::new(self, gate_use, TableCursor { from })
    }
}

impl<'a, C> Walk<'a, C> {
    fn new(shard: &'a Shard, gate_use: GateUse, begin: C) -> Self {
        Self { shard, gate_use, cursor: Some(begin), is_begun: false, fault: None }
    }

    /// The next step, and where it leaves off, as `read` finds them behind the cursor; `None` ends the walk.
    async fn step<T>(
        &mut self,
        mut read: impl FnMut(&mut Trees, &C) -> std::result::Result<Option<(T, Option<C>)>, Stop>,
    ) -> Result<Option<Step<'_, T>>> {
        let Some(cursor) = &self.cursor else { return Ok(None) };
        if self.is_begun {
            self.shard.reactor.yield_now().await; // WALK-4
        }
        self.is_begun = true;
        self.fault = None;
        let gate = match self.gate_use {
            GateUse::EachStep => Some(self.shard.apply.tree_gate.take(1).await), // WALK-2
            GateUse::NoStep => None,
        };
        let mut faults = Faults::default();
        loop {
            let outcome = read(&mut self.shard.trees.borrow_mut(), cursor); // WALK-1
            match outcome {
                Ok(None) => {
                    self.cursor = None;
                    return Ok(None);
                }
                Ok(Some((found, next))) => {
                    self.cursor = next;
                    return Ok(Some(Step { found, _gate: gate, _walk: PhantomData }));
                }
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Fault(fault)) => {
                    // WALK-7
                    if let Err(error) = faults.load(self.shard, fault).await {
                        self.fault = Some(fault); // WALK-6
                        return Err(error);
                    }
                }
            }
        }
    }
}

impl Walk<'_, MapCursor> {
    /// The same walk, which finds updates that wait in place of what pages have.
    pub(crate) fn with_waiting(mut self) -> Self {
        assert!(!self.is_begun, "all steps find the same");
        self.cursor = self.cursor.take().map(|cursor| MapCursor { has_waiting: true, ..cursor });
        self
    }

    /// The next part of the map; `None` behind the last one, and where there is no such stream.
    pub(crate) async fn next(
        &mut self,
        is_known: impl Fn(&Map, ChunkId) -> bool,
    ) -> Result<Option<Step<'_, MapPart>>> {
        let read = |trees: &mut Trees, cursor: &MapCursor| -> std::result::Result<_, Stop> {
            let MapCursor { stream, from, has_waiting } = *cursor;
            if !trees.open_stream(stream)? {
                return Ok(None);
            }
            let map = &trees.streams[&stream].map;
            let mut items = Vec::new();
            let known = |page| is_known(map, page); // WALK-5
            let next = map.walk(&trees.cache, from, STEP, known, |item| items.push(item))?;
            assert!(next.is_none_or(|next| next > from), "a step goes on"); // WALK-4
            let blocks = from..next.unwrap_or(BlockIndex::MAX);
            if has_waiting {
                trees.overlay(stream, blocks.clone(), &mut items);
            }
            debug_assert!(items.iter().all(|item| is_inside(item, &blocks)), "{blocks:?}");
            debug_assert!(items.iter().filter_map(block_of).is_sorted_by(|a, b| a < b)); // WALK-8
            let page_ceiling = map.ceiling();
            let chunk_ceiling = trees.chunk_ceiling(stream);
            let part = MapPart { items, blocks, page_ceiling, chunk_ceiling };
            Ok(Some((part, next.map(|from| MapCursor { stream, from, has_waiting }))))
        };
        self.step(read).await
    }

    /// Goes on behind the page at which the last step failed (WALK-6); which page that is, and the blocks that it
    /// hides. `None` when it is no page of the map: then nothing that is behind can be found either.
    pub(crate) fn skip_damaged(&mut self) -> Option<(PagePtr, Range<BlockIndex>)> {
        let fault = self.fault.take()?;
        let blocks = blocks_of(fault)?;
        let cursor = self.cursor.as_mut()?;
        assert!(blocks.contains(&cursor.from), "the page hides what comes next");
        cursor.from = blocks.end;
        Some((fault.ptr, blocks))
    }
}

impl<N> Walk<'_, PageCursor<N>> {
    /// The names of the next pages, parents before children.
    pub(crate) async fn next(&mut self) -> Result<Option<Step<'_, Vec<N>>>> {
        self.step(|trees, cursor| {
            let PageCursor { tree, from, name } = cursor;
            let mut names = Vec::new();
            let visit = |page, _level| names.extend(name(page));
            let scan = (*tree)(trees).walk_pages(&trees.cache, from, STEP, visit)?;
            let next = next_key(from, scan);
            Ok(Some((names, next.map(|from| PageCursor { tree: *tree, from, name: *name }))))
        })
        .await
    }

    /// All names of pages that are left, each once.
    pub(crate) async fn collect<S: Default + Extend<N>>(mut self) -> Result<S> {
        let mut names = S::default();
        while let Some(step) = self.next().await? {
            names.extend(step.found);
        }
        Ok(names)
    }
}

impl Walk<'_, TableCursor> {
    /// The next entries.
    pub(crate) async fn next(&mut self) -> Result<Option<Step<'_, Vec<TableEntry>>>> {
        self.step(|trees, cursor| {
            let mut entries = Vec::new();
            let visit = |key: &[u8], value: &[u8]| {
                let chunk = ChunkEntry::chunk_of_key(key);
                let entry = chunk.and_then(|chunk| Ok((chunk, ChunkEntry::decode(value)?)));
                entries.push(entry.map_err(Into::into));
                ControlFlow::Continue(())
            };
            let scan = trees.table.scan(&trees.cache, &cursor.from, STEP, visit)?;
            assert!(entries.len() <= STEP, "a step keeps to its bound"); // WALK-4
            let next = next_key(&cursor.from, scan);
            Ok(Some((entries, next.map(|from| TableCursor { from }))))
        })
        .await
    }
}

/// The place of a page of the chunk table, if it has one.
pub(crate) fn place_of(name: PagePtr) -> Option<Location> {
    match name {
        PagePtr::Location(place) => Some(place),
        PagePtr::Null | PagePtr::Chunk(_) | PagePtr::Memory(_) => None,
    }
}

/// The key with which a walk that came from another one goes on.
fn next_key(from: &[u8], scan: Scan) -> Option<Vec<u8>> {
    match scan {
        Scan::Done => None,
        Scan::More(next) => {
            assert!(next.as_slice() > from, "a step goes on"); // WALK-4
            Some(next)
        }
    }
}

/// The block of data.
fn block_of(item: &WalkItem) -> Option<BlockIndex> {
    match item {
        WalkItem::Data { block, .. } => Some(*block),
        WalkItem::Page { .. } | WalkItem::Known { .. } => None,
    }
}

/// Whether an item belongs to a part of a map, as far as it tells.
fn is_inside(item: &WalkItem, blocks: &Range<BlockIndex>) -> bool {
    block_of(item).is_none_or(|block| blocks.contains(&block))
}

/// The blocks below a page of a map.
fn blocks_of(fault: Fault) -> Option<Range<BlockIndex>> {
    let PageShape::Map { level, first_block } = fault.shape else { return None };
    let slots = MAP_SLOTS as u64;
    let count = slots.saturating_pow(u32::from(level) + 1);
    Some(first_block..first_block.checked_add(count).unwrap_or(BlockIndex::MAX))
}
