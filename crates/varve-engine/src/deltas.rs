//! Map updates that wait: blocks that hold other chunks than the pages of their maps say.
//!
//! Random overwrites of a volume whose map is much larger than the page cache would read and write a page of the map a block. So they
//! are only noted here, and a **sweep** puts those of one page into it together, when there are many. Checkpoints sweep, and save what
//! waits on. What is in a page under a waiting update is dead, and known only when the page is read.
//!
//! ```text
//!  block overwritten ──wait──▶ delta ──sweep of a checkpoint──▶ page of the map, and what was there dies
//!                                └────overwritten once more──▶ dies at once
//! ```
//!
//! W1. What a block holds is what waits for it, and else what its map says. Whatever changes a block in its map takes what waits for it
//!     away in the same step.
//! W2. Whether an update waits follows from the root and the log alone, never from what is cached: the **limit** is the root's, and what
//!     one segment has for one page says whether that is worth reading the page. So replay ends with the same deltas and the same deaths as
//!     the shard had (D6), though it begins with nothing cached.
//! W3. Only checkpoints sweep. What dies by that nobody acts upon before the root is durable: replay from the one before does not see it
//!     die (see [`crate::deaths::Deaths::note_swept`]).
//! W4. Only streams that were never cut have deltas: what copies have in common is in pages. A cut puts what waits into the map first.
//! W5. An update waits only for a page that its map has: then the page, or what waits for it, is there until the block is changed.
//! W6. Their memory is bounded: many of them make a checkpoint due, which sweeps, and beyond the limit none wait. What they hide counts as
//!     live; who is short of space has everything swept (D4).

use std::collections::BTreeMap;
use std::ops::Range;

use varve_logstore::format::deltas::Delta;
use varve_logstore::format::summary::SummaryEntry;
use varve_logstore::planted::{Bug, planted};
use varve_types::{ChunkId, StreamId};

use crate::hash::{HashMap, HashSet};
use crate::pages::fault_of;
use crate::tree::{MAP_SLOTS, MapSlot, Mapped, PageCache, StatusRun, WalkItem};
use crate::trees::{Stop, Trees, slot_chunk};
use crate::{Result, Shard};

/// Entries of a segment for one page of a map that are worth reading the page: then a part of it at least is overwritten in order. Replay
/// goes by it (W2).
const DIRECT: u32 = 16;

/// Memory of a delta, with its share of what a page of them takes.
const DELTA_BYTES: usize = 20;

/// Memory of a page's entry.
const PAGE_ENTRY_BYTES: usize = 64;

/// Bytes of a delta in a blob, about.
const STORED_BYTES: usize = 7;

/// One in so many chunks of data may hide a dead one.
const HIDING_PART: u64 = 16;

/// As many may wait in the smallest shard.
const LIMIT_MIN: u64 = 64;

/// Pages swept at once.
const SWEEP_PAGES: usize = PageCache::CLEAN_PAGES_MIN / 2;

/// So few pages say nothing.
const TELLING_PAGES: u64 = 16;

/// Bits of a packed delta that are its chunk's.
const CHUNK_BITS: u32 = 48;

/// A stream and the number of a page of its map.
pub(crate) type LeafId = (StreamId, u64);

/// The page of a map that a block belongs to.
pub(crate) const fn leaf_of(stream: StreamId, block: u64) -> LeafId {
    (stream, block / MAP_SLOTS as u64)
}

/// Updates that wait.
pub(crate) struct Deltas {
    /// Of each page, in the order of their blocks: slot and chunk.
    leaves: BTreeMap<LeafId, Vec<u64>>,
    count: u64,
    /// Places that the vectors have.
    places: usize,
    /// As many may wait (W2).
    limit: u64,
    /// Where sweeps go on.
    cursor: LeafId,
    bytes_max: usize,
    /// Pages that were swept so far.
    swept: u64,
    /// Somebody is short of space: the next checkpoint sweeps all.
    sweep_wanted: bool,
    /// Pages that applying read since the last root.
    reads: u64,
}

fn pack(block: u64, chunk: ChunkId) -> u64 {
    (block % MAP_SLOTS as u64) << CHUNK_BITS | chunk.get()
}

fn unpack(leaf: u64, packed: u64) -> (u64, ChunkId) {
    let chunk = ChunkId::new(packed & ((1 << CHUNK_BITS) - 1));
    (leaf * MAP_SLOTS as u64 + (packed >> CHUNK_BITS), chunk)
}

fn all_of((stream, leaf): LeafId, of_leaf: &[u64]) -> impl Iterator<Item = Delta> {
    of_leaf.iter().map(move |packed| {
        let (block, chunk) = unpack(leaf, *packed);
        Delta { stream, block, chunk }
    })
}

/// Where a block's delta is in those of a page, or would be.
fn place_of(of_leaf: &[u64], block: u64) -> std::result::Result<usize, usize> {
    of_leaf.binary_search_by_key(&(block % MAP_SLOTS as u64), |packed| packed >> CHUNK_BITS)
}

impl Deltas {
    /// None; as many may wait as `limit` says, and a checkpoint is due when they take about `bytes_max`.
    pub(crate) fn new(bytes_max: usize, limit: u64) -> Self {
        let cursor = (StreamId::new(0), 0);
        let forgotten = (bytes_max / DELTA_BYTES) as u64;
        let limit = if planted(Bug::LimitForgotten) { forgotten } else { limit };
        Self {
            leaves: BTreeMap::new(),
            count: 0,
            places: 0,
            limit,
            cursor,
            bytes_max,
            swept: 0,
            sweep_wanted: false,
            reads: 0,
        }
    }

    /// What waits for a block.
    pub(crate) fn get(&self, stream: StreamId, block: u64) -> Option<ChunkId> {
        if self.count == 0 {
            return None;
        }
        let of_leaf = self.leaves.get(&leaf_of(stream, block))?;
        let place = place_of(of_leaf, block).ok()?;
        Some(unpack(0, of_leaf[place]).1)
    }

    /// Lets a chunk wait for a block; returns the one that did.
    pub(crate) fn set(&mut self, stream: StreamId, block: u64, chunk: ChunkId) -> Option<ChunkId> {
        let of_leaf = self.leaves.entry(leaf_of(stream, block)).or_default();
        match place_of(of_leaf, block) {
            Ok(place) => {
                let old = std::mem::replace(&mut of_leaf[place], pack(block, chunk));
                Some(unpack(0, old).1)
            }
            Err(place) => {
                let before = of_leaf.capacity();
                of_leaf.insert(place, pack(block, chunk));
                self.places += of_leaf.capacity() - before;
                self.count += 1;
                None
            }
        }
    }

    /// What waits for the page of a block.
    fn of_leaf(&self, leaf: LeafId) -> impl Iterator<Item = (u64, ChunkId)> {
        let of_leaf = self.leaves.get(&leaf).map_or(&[][..], Vec::as_slice);
        of_leaf.iter().map(move |packed| unpack(leaf.1, *packed))
    }

    /// Nothing waits for a page any more.
    fn remove_leaf(&mut self, leaf: LeafId) {
        if let Some(of_leaf) = self.leaves.remove(&leaf) {
            self.count -= of_leaf.len() as u64;
            self.places -= of_leaf.capacity();
            self.swept += 1;
        }
    }

    /// Nothing waits for blocks of a range any more; appends what did to `dead`.
    pub(crate) fn remove_range(
        &mut self,
        stream: StreamId,
        range: Range<u64>,
        dead: &mut Vec<ChunkId>,
    ) {
        if range.is_empty() {
            return;
        }
        let leaves = leaf_of(stream, range.start)..=leaf_of(stream, range.end - 1);
        let touched: Vec<LeafId> = self.leaves.range(leaves).map(|(leaf, _)| *leaf).collect();
        for leaf in touched {
            let of_leaf = self.leaves.get_mut(&leaf).expect("found above");
            let before = of_leaf.len();
            of_leaf.retain(|packed| {
                let (block, chunk) = unpack(leaf.1, *packed);
                let is_in = range.contains(&block);
                if is_in {
                    dead.push(chunk);
                }
                !is_in
            });
            self.count -= (before - of_leaf.len()) as u64;
            if of_leaf.is_empty() {
                self.remove_leaf(leaf);
            }
        }
    }

    /// Nothing waits for a stream any more.
    pub(crate) fn remove_stream(&mut self, stream: StreamId) {
        for leaf in self.leaves_of(stream, usize::MAX) {
            self.remove_leaf(leaf);
        }
    }

    /// The first pages of a stream for which something waits.
    fn leaves_of(&self, stream: StreamId, max: usize) -> Vec<LeafId> {
        let all = (stream, 0)..=(stream, u64::MAX);
        self.leaves.range(all).take(max).map(|(leaf, _)| *leaf).collect()
    }

    /// What waits for blocks of a range, in their order.
    pub(crate) fn in_range(
        &self,
        stream: StreamId,
        range: Range<u64>,
    ) -> impl Iterator<Item = (u64, ChunkId)> {
        let first = leaf_of(stream, range.start);
        let last = leaf_of(stream, range.end.saturating_sub(1)).max(first);
        let leaves = self.leaves.range(first..=last);
        let all = leaves.flat_map(|(leaf, of_leaf)| {
            of_leaf.iter().map(move |packed| unpack(leaf.1, *packed))
        });
        all.filter(move |(block, _)| range.contains(block))
    }

    /// Everything that waits, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Delta> {
        self.leaves.iter().flat_map(|(leaf, of_leaf)| all_of(*leaf, of_leaf))
    }

    /// As [`Self::iter`], from one of them on.
    pub(crate) fn iter_from(&self, first: Delta) -> impl Iterator<Item = Delta> {
        let leaves = self.leaves.range(first.page()..);
        let all = leaves.flat_map(|(leaf, of_leaf)| all_of(*leaf, of_leaf));
        all.skip_while(move |delta| delta.page() == first.page() && delta.block < first.block)
    }

    /// The next pages to sweep; all of them have their turn before one comes again.
    fn next_leaves(&self, max: usize) -> Vec<LeafId> {
        let behind = self.leaves.range(self.cursor..);
        let before = self.leaves.range(..self.cursor);
        behind.chain(before).take(max).map(|(leaf, _)| *leaf).collect()
    }

    /// How many wait.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// As many may wait.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Memory that they take, about.
    pub(crate) fn bytes(&self) -> usize {
        self.places * size_of::<u64>() + self.leaves.len() * PAGE_ENTRY_BYTES
    }

    /// The first block of a range for which something waits.
    pub(crate) fn first_in(&self, stream: StreamId, range: Range<u64>) -> Option<u64> {
        self.in_range(stream, range).next().map(|(block, _)| block)
    }

    /// Applying read so many pages.
    pub(crate) fn note_reads(&mut self, pages: u64) {
        self.reads += pages;
    }

    /// Whether somebody waits for all of them to be swept.
    pub(crate) fn sweep_is_wanted(&self) -> bool {
        self.sweep_wanted && self.count > 0
    }

    /// Bytes that saving them takes, about.
    pub(crate) fn stored_bytes(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX).saturating_mul(STORED_BYTES)
    }

    /// Whether so many wait that a checkpoint should sweep.
    fn are_many(&self) -> bool {
        self.count > self.limit / 8 * 7 || self.bytes() > self.bytes_max / 8 * 7
    }

    /// Whether a checkpoint leaves them as they are.
    fn are_few(&self) -> bool {
        self.count <= self.limit / 4 * 3 && self.bytes() <= self.bytes_max / 4 * 3
    }
}

/// Which entries of a segment wait, if any may.
pub(crate) struct Waiting {
    /// Pages for which the segment has much; none of all when nothing may wait.
    direct: Option<HashSet<LeafId>>,
}

impl Waiting {
    /// Whether the entry for a block may wait (W2).
    pub(crate) fn may(&self, stream: StreamId, block: u64) -> bool {
        self.direct.as_ref().is_some_and(|direct| !direct.contains(&leaf_of(stream, block)))
    }
}

impl Trees {
    /// What of a segment's entries waits (W2).
    pub(crate) fn waiting(&self, entries: &[SummaryEntry]) -> Waiting {
        if self.deltas.limit == 0 {
            return Waiting { direct: None };
        }
        let mut counts: HashMap<LeafId, u32> = HashMap::default();
        for entry in entries {
            if let SummaryEntry::Data { stream, block, .. }
            | SummaryEntry::Reference { stream, block, .. } = entry
            {
                *counts.entry(leaf_of(*stream, *block)).or_default() += 1;
            }
        }
        let direct = counts.into_iter().filter(|(_, count)| *count >= DIRECT);
        Waiting { direct: Some(direct.map(|(leaf, _)| leaf).collect()) }
    }

    /// Whether an update that may wait does: the stream was never cut, its map has the page, and not too many wait (W4, W5).
    pub(crate) fn waits(&mut self, stream: StreamId, block: u64) -> std::result::Result<bool, Stop> {
        if self.deltas.count >= self.deltas.limit || !self.open_stream(stream)? {
            return Ok(false);
        }
        let map = &self.streams[&stream].map;
        Ok(map.ceiling() == ChunkId::ZERO && map.has_leaf(&self.cache, block)?)
    }

    /// Puts what waits for a page into it; appends what was there to `dead`, unless it faults.
    pub(crate) fn settle_leaf(
        &mut self,
        leaf: LeafId,
        dead: &mut Vec<ChunkId>,
    ) -> std::result::Result<(), Stop> {
        let waiting: Vec<_> = self.deltas.of_leaf(leaf).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        self.ensure_stream(leaf.0)?;
        let stream = self.streams.get_mut(&leaf.0).expect("opened above");
        for (block, chunk) in waiting {
            // Only the first one may fault: the path of all is the same.
            let slot = MapSlot::data(self.shard, chunk);
            let old = stream.map.set(&mut self.cache, &mut self.names, block, slot)?;
            dead.extend(slot_chunk(old).filter(|dead| *dead != chunk));
        }
        self.deltas.remove_leaf(leaf); // W1
        Ok(())
    }

    /// Makes a block hold a chunk: at once, or as a delta if it `may_wait`. Appends what dies to `dead`, unless it faults.
    pub(crate) fn set_slot(
        &mut self,
        stream: StreamId,
        block: u64,
        chunk: ChunkId,
        may_wait: bool,
        dead: &mut Vec<ChunkId>,
    ) -> std::result::Result<(), Stop> {
        if may_wait && self.waits(stream, block)? {
            let old = self.deltas.set(stream, block, chunk);
            dead.extend(old.filter(|old| *old != chunk));
            return Ok(());
        }
        self.ensure_stream(stream)?;
        if !planted(Bug::DeltaOutlivesChange) {
            self.settle_leaf(leaf_of(stream, block), dead)?; // W1
        }
        let slot = MapSlot::data(self.shard, chunk);
        let stream = self.streams.get_mut(&stream).expect("opened above");
        let old = stream.map.set(&mut self.cache, &mut self.names, block, slot)?;
        dead.extend(slot_chunk(old).filter(|dead| *dead != chunk));
        Ok(())
    }

    /// Loads what [`Self::set_slot`] needs: faults as it does.
    pub(crate) fn look_for_slot(
        &mut self,
        stream: StreamId,
        block: u64,
        may_wait: bool,
    ) -> std::result::Result<(), Stop> {
        if may_wait && self.waits(stream, block)? || !self.open_stream(stream)? {
            return Ok(());
        }
        self.streams[&stream].map.lookup(&self.cache, block)?;
        Ok(())
    }

    /// Shows what waits in place of what a map has, in what a walk came across from `range.start` to its end.
    pub(crate) fn overlay(
        &self,
        stream: StreamId,
        range: Range<u64>,
        items: &mut Vec<WalkItem>,
    ) {
        if self.deltas.is_empty() {
            return;
        }
        let mut waiting: HashMap<u64, ChunkId> = self.deltas.in_range(stream, range).collect();
        for item in items.iter_mut() {
            if let WalkItem::Data { block, slot } = item
                && let Some(chunk) = waiting.remove(block)
            {
                *slot = MapSlot::data(self.shard, chunk);
            }
        }
        let mut rest: Vec<_> = waiting.into_iter().collect();
        rest.sort_unstable();
        let item = |(block, chunk)| WalkItem::Data { block, slot: MapSlot::data(self.shard, chunk) };
        items.extend(rest.into_iter().map(item));
    }
}

impl Trees {
    /// What runs of blocks from `block` on hold, up to `end` or a little less: those of the map, and data where something waits. As
    /// [`Map::status`](crate::tree::Map::status).
    pub(crate) fn status(
        &self,
        stream: StreamId,
        blocks: Range<u64>,
        max_runs: usize,
        runs: &mut Vec<StatusRun>,
    ) -> std::result::Result<u64, Stop> {
        let map = &self.streams[&stream].map;
        let (first, end) = (blocks.start, blocks.end);
        let mut block = first;
        for waiting in self.deltas.in_range(stream, blocks).take(MAP_SLOTS).map(|(block, _)| block) {
            if block < waiting {
                match map.status(&self.cache, block, waiting, max_runs, runs) {
                    Ok(next) if next == waiting => {}
                    Ok(next) => return Ok(next),
                    Err(fault) if block == first => return Err(fault.into()),
                    Err(_) => return Ok(block),
                }
            }
            if !StatusRun::add(runs, max_runs, Mapped::Data, 1) {
                return Ok(waiting);
            }
            block = waiting + 1;
        }
        if block > first && self.deltas.first_in(stream, block..end).is_some() {
            return Ok(block); // The rest another time.
        }
        match map.status(&self.cache, block, end, max_runs, runs) {
            Err(fault) if block == first => Err(fault.into()),
            Err(_) => Ok(block),
            Ok(next) => Ok(next),
        }
    }
}

impl Shard {
    /// Puts what waits for a stream into its map. The caller holds the tree gate, or is recovery.
    pub(crate) async fn settle_stream(&self, stream: StreamId) -> Result<()> {
        loop {
            let leaves = self.trees.borrow().deltas.leaves_of(stream, SWEEP_PAGES);
            if leaves.is_empty() {
                return Ok(());
            }
            self.load_leaves(&leaves).await;
            for leaf in leaves {
                let mut dead = Vec::new();
                self.with_pages(|trees| trees.settle_leaf(leaf, &mut dead)).await?;
                self.overwritten(leaf.0, &dead);
            }
            self.reactor.yield_now().await;
        }
    }

    /// Sweeps what a checkpoint should (W3), as far as the cache and free segments allow; at least some, so that rounds end. Decides
    /// whether updates wait until the next root. The caller is a checkpoint.
    pub(crate) async fn sweep_deltas(&self) -> Result<()> {
        let (all, mut left) = {
            let deltas = &mut self.trees.borrow_mut().deltas;
            let all = std::mem::take(&mut deltas.sweep_wanted) || deltas.limit == 0;
            let many = all || deltas.are_many();
            (all, if many { deltas.leaves.len() } else { 0 })
        };
        let (mut swept, mut reads) = (0, 0);
        while left > 0 {
            let leaves = {
                let deltas = &self.trees.borrow().deltas;
                if deltas.is_empty() || !all && deltas.are_few() {
                    break;
                }
                deltas.next_leaves(SWEEP_PAGES.min(left))
            };
            if swept > 0 && !self.has_room_to_fold() {
                // Pages of maps may be written early: nothing names them before the root does.
                self.write_pages().await?;
                self.finish_puts(0).await?;
                if !self.has_room_to_fold() {
                    break;
                }
            }
            left -= leaves.len();
            reads += self.load_leaves(&leaves).await;
            swept += leaves.len() as u64;
            for leaf in leaves {
                let mut dead = Vec::new();
                self.with_pages(|trees| trees.settle_leaf(leaf, &mut dead)).await?;
                self.note_swept(&dead);
                self.trees.borrow_mut().deltas.cursor = (leaf.0, leaf.1 + 1);
            }
            self.reactor.yield_now().await;
        }
        self.counters.swept_pages.set(self.counters.swept_pages.get() + swept);
        self.decide_waiting(swept, reads);
        Ok(())
    }

    /// Loads pages for which something waits, many at once; returns how many were read.
    async fn load_leaves(&self, leaves: &[LeafId]) -> u64 {
        let before = self.counters.page_reads.get();
        self.prefetch(|trees| {
            let mut look = |leaf: &LeafId| {
                let block = leaf.1 * MAP_SLOTS as u64;
                fault_of(trees.look_for_slot(leaf.0, block, false))
            };
            leaves.iter().filter_map(&mut look).collect()
        })
        .await;
        self.counters.page_reads.get() - before
    }

    /// Notes what a sweep found dead (W3).
    fn note_swept(&self, chunks: &[ChunkId]) {
        let deaths = &mut self.trees.borrow_mut().deaths;
        let dedup = self.dedup.borrow();
        for chunk in chunks.iter().filter(|chunk| !dedup.is_granted(**chunk)) {
            deaths.note_swept(*chunk);
        }
    }

    /// Whether updates wait from the coming root on, and how many (W2): while maps do not fit into the cache, as reads of their pages tell.
    fn decide_waiting(&self, swept: u64, reads: u64) {
        let entries = self.entries_since_checkpoint.get();
        let trees = &mut *self.trees.borrow_mut();
        let (deltas, chunks) = (&mut trees.deltas, trees.data.chunks);
        let from = self.config.deltas_from_per_mille;
        let reads_of_apply = std::mem::take(&mut deltas.reads);
        let wait = if deltas.limit > 0 {
            swept < TELLING_PAGES || reads.saturating_mul(1000) >= swept.saturating_mul(from)
        } else {
            reads_of_apply.saturating_mul(1000) >= entries.saturating_mul(from)
                && (entries > TELLING_PAGES || from == 0)
        };
        let by_memory = (self.config.deltas_bytes / DELTA_BYTES) as u64;
        let by_chunks = (chunks / HIDING_PART).max(LIMIT_MIN);
        deltas.limit = if wait { by_memory.min(by_chunks) } else { 0 };
    }

    /// Whether updates wait, under which dead chunks may be.
    pub(crate) fn has_deltas(&self) -> bool {
        !self.trees.borrow().deltas.is_empty()
    }

    /// The next checkpoint sweeps all that waits.
    pub(crate) fn want_sweep(&self) {
        self.trees.borrow_mut().deltas.sweep_wanted = true;
    }

    /// Whether somebody waits for a sweep.
    pub(crate) fn sweep_is_wanted(&self) -> bool {
        self.trees.borrow().deltas.sweep_is_wanted()
    }

    /// Whether so many updates wait that a checkpoint should sweep.
    pub(crate) fn deltas_are_many(&self) -> bool {
        let trees = self.trees.borrow();
        trees.deltas.limit > 0 && trees.deltas.are_many()
    }

    /// Has everything swept that waits now.
    pub(crate) async fn sweep_waiting(&self) -> Result<()> {
        let swept = |shard: &Self| shard.trees.borrow().deltas.swept;
        let last = swept(self) + self.trees.borrow().deltas.leaves.len() as u64;
        while swept(self) < last && self.has_deltas() {
            self.fold_deaths().await?;
        }
        Ok(())
    }
}
