//! Map updates that wait: blocks that hold other chunks than the pages of their maps say.
//!
//! Random overwrites of a volume whose map is much larger than the page cache would read and write a page of the map a
//! block. So they are only noted here, and a **sweep** puts those of one page into it together, when there are many.
//! Checkpoints sweep, and save what waits on. What is in a page under a waiting update is dead, and known only when the
//! page is read.
//!
//! ```text
//!  block overwritten ──wait──▶ delta ──sweep of a checkpoint──▶ page of the map, and what was there dies
//!                                └────overwritten once more──▶ dies at once
//! ```
//!
//! DELTAS-1. What a block holds is what waits for it, and else what its map says. Whatever changes a block in its map
//!     takes what waits for it away in the same step.
//! DELTAS-2. Whether an update waits follows from the root and the log alone, never from what is cached: the **limit**
//!     is the root's, and what one segment has for one page says whether that is worth reading the page. So replay ends
//!     with the same deltas and the same deaths as the shard had (DEATHS-6), though it begins with nothing cached.
//! DELTAS-3. Only checkpoints sweep. What dies by that nobody acts upon before the root is durable: replay from the one
//!     before does not see it die (see [`crate::deaths::DeadChunks::note_swept`]).
//! DELTAS-4. Only streams that were never cut have deltas: what copies have in common is in pages. A cut puts what
//!     waits into the map first.
//! DELTAS-5. An update waits only for a page that its map has: then the page, or what waits for it, is there until the
//!     block is changed.
//! DELTAS-6. Nothing waits for streams to which space is promised: of their blocks it must be known at once what was
//!     there ([`crate::reservations`], RESERVATIONS-1). The key of the promise says so from the segment on that has it,
//!     which puts what waits into the map.
//! DELTAS-7. Their memory is bounded: many of them make a checkpoint due, which sweeps, and beyond the limit none wait.
//!     What they hide counts as live; who is short of space has everything swept (DEATHS-4).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use varve_logstore::format::deltas::Delta;
use varve_logstore::format::summary::SummaryEntry;
use varve_logstore::planted::{Bug, planted};
use varve_types::{BlockIndex, ChunkId, StreamId};

use crate::hash::{HashMap, HashSet};
use crate::pages::fault_of;
use crate::tree::{BlockMapping, MAP_SLOTS, MapSlot, PAGE_BYTES, PageCache, StatusRun, WalkItem};
use crate::trees::{Stop, Trees, data_slot};
use crate::{Result, Shard};

/// Entries of a segment for one page of a map that are worth reading the page: then a part of it at least is
/// overwritten in order. Replay goes by it (DELTAS-2).
const DIRECT: u32 = 16;

const _: () = assert!(DIRECT as usize <= MAP_SLOTS, "a page has so many blocks");

/// Memory of a delta, with its share of what vectors leave empty.
pub(crate) const DELTA_BYTES: usize = 10;

/// Pages of a map whose deltas are kept in one vector: few enough that a place in the middle is made quickly.
const GROUP_PAGES: u64 = 32;

/// Memory of a group beside its deltas.
const GROUP_BYTES: usize = 64;

/// Blocks of a group.
const GROUP_BLOCKS: u64 = GROUP_PAGES * MAP_SLOTS as u64;

/// Bytes of a delta in a blob, about.
pub(crate) const STORED_BYTES: usize = 7;

/// One in so many chunks of data may hide a dead one.
pub(crate) const HIDING_PART: u64 = 16;

/// As many may wait in the smallest shard.
const LIMIT_MIN: u64 = 64;

/// Pages swept at once.
const SWEEP_PAGES: usize = PageCache::CLEAN_PAGES_MIN / 2;

const _: () = assert!(SWEEP_PAGES > 0, "a sweep goes on");

/// So few pages say nothing.
const TELLING_PAGES: u64 = 16;

/// Cuts and promises of one segment put so many into maps at most, and at most pages of this part of the cache. They
/// have more swept before.
const SETTLED_AT_ONCE_MAX: usize = 4096;
const SETTLED_PART: usize = 8;

/// Blocks after which a look at what runs of them hold ends where updates wait among them, so that other tasks get a
/// turn: the map is asked for what lies between two, and looks at as many each time.
const STATUS_BLOCKS: u64 = 1 << 14;

const _: () = assert!(STATUS_BLOCKS >= MAP_SLOTS as u64, "a turn gets past a page");

/// Bits of a packed delta that are its chunk's.
const CHUNK_BITS: u32 = 48;

const _: () = assert!(ChunkId::MAX.get() < 1 << CHUNK_BITS, "a packed delta holds any chunk");
const _: () = assert!(GROUP_BLOCKS <= 1 << (64 - CHUNK_BITS), "and any block of its group");

/// A stream and the number of a page of its map.
pub(crate) type LeafId = (StreamId, u64);

/// The page of a map that a block belongs to.
pub(crate) const fn leaf_of(stream: StreamId, block: BlockIndex) -> LeafId {
    (stream, block.0 / MAP_SLOTS as u64)
}

/// Updates that wait.
pub(crate) struct MapBuffer {
    /// By stream and number of the group; in the order of their blocks: block of the group and chunk.
    groups: BTreeMap<LeafId, Vec<u64>>,
    count: u64,
    /// Places that the vectors have.
    places: usize,
    /// As many may wait (DELTAS-2).
    limit: u64,
    /// Streams for which none do (DELTAS-6).
    exact: BTreeSet<StreamId>,
    /// None may wait while the shard is open: for which streams is not known.
    is_forbidden: bool,
    /// Replay saw more dead than the shard did, or than another replay might (DELTAS-2).
    replay_freed_more: bool,
    /// Where sweeps go on.
    cursor: LeafId,
    bytes_max: usize,
    /// How many sweeps and the like put into pages so far.
    settled: u64,
    /// Somebody is short of space: the next checkpoint sweeps all.
    sweep_wanted: bool,
    /// Pages that applying read since the last root.
    reads: u64,
}

/// Group of a block.
const fn group_of(stream: StreamId, block: BlockIndex) -> LeafId {
    (stream, block.0 / GROUP_BLOCKS)
}

/// Block of the group as the upper bits of packed deltas.
const fn place_of(block: BlockIndex) -> u64 {
    (block.0 % GROUP_BLOCKS) << CHUNK_BITS
}

fn unpack((stream, group): LeafId, packed: u64) -> Delta {
    let chunk = ChunkId::new(packed & ((1 << CHUNK_BITS) - 1));
    Delta { stream, block: group * GROUP_BLOCKS + (packed >> CHUNK_BITS), chunk }
}

/// Those of a group's deltas that belong to blocks of a range.
fn part(of_group: &[u64], group: u64, blocks: &Range<BlockIndex>) -> Range<usize> {
    let first = group * GROUP_BLOCKS;
    let index_of = |block: BlockIndex| match block.0.checked_sub(first) {
        None => 0,
        Some(in_group) if in_group >= GROUP_BLOCKS => of_group.len(),
        Some(_) => of_group.partition_point(|packed| *packed < place_of(block)),
    };
    let part = index_of(blocks.start)..index_of(blocks.end);
    debug_assert!(part.start <= part.end, "updates stand in the order of their blocks");
    part
}

/// Blocks of a page of a map.
const fn blocks_of((_, leaf): LeafId) -> Range<BlockIndex> {
    BlockIndex(leaf * MAP_SLOTS as u64)..BlockIndex((leaf + 1) * MAP_SLOTS as u64)
}

impl MapBuffer {
    /// None; as many may wait as `limit` says, and a checkpoint is due when they take about `bytes_max`.
    pub(crate) fn new(bytes_max: usize, limit: u64) -> Self {
        let cursor = (StreamId::new(0), 0);
        let forgotten = (bytes_max / DELTA_BYTES) as u64;
        let limit = if planted(Bug::LimitForgotten) { forgotten } else { limit };
        Self {
            groups: BTreeMap::new(),
            count: 0,
            places: 0,
            limit,
            exact: BTreeSet::new(),
            is_forbidden: false,
            replay_freed_more: false,
            cursor,
            bytes_max,
            settled: 0,
            sweep_wanted: false,
            reads: 0,
        }
    }

    /// What waits for a block.
    pub(crate) fn get(&self, stream: StreamId, block: BlockIndex) -> Option<ChunkId> {
        if self.count == 0 {
            return None;
        }
        let group = group_of(stream, block);
        let of_group = self.groups.get(&group)?;
        let index = of_group.partition_point(|packed| *packed < place_of(block));
        let found = unpack(group, *of_group.get(index)?);
        debug_assert!(found.block >= block.0, "no update before it is its own");
        (found.block == block.0).then_some(found.chunk)
    }

    /// Lets a chunk wait for a block; returns the one that did.
    pub(crate) fn set(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
        chunk: ChunkId,
    ) -> Option<ChunkId> {
        debug_assert!(!self.exact.contains(&stream), "what is promised to is exact"); // DELTAS-6
        let group = group_of(stream, block);
        let of_group = self.groups.entry(group).or_default();
        let index = of_group.partition_point(|packed| *packed < place_of(block));
        let packed = place_of(block) | chunk.get();
        debug_assert_eq!(unpack(group, packed).block, block.0, "it is found as it was packed");
        if let Some(there) = of_group.get_mut(index)
            && unpack(group, *there).block == block.0
        {
            let old = std::mem::replace(there, packed);
            return Some(unpack(group, old).chunk);
        }
        let before = of_group.capacity();
        if of_group.len() == before {
            of_group.reserve_exact(before / 8 + 8); // Doubling would leave much empty.
        }
        of_group.insert(index, packed);
        self.places += of_group.capacity() - before;
        self.count += 1;
        assert!(self.places as u64 >= self.count, "each one has a place"); // DELTAS-7
        None
    }

    /// Nothing waits for blocks of a range any more; shows what did.
    pub(crate) fn take_range(
        &mut self,
        stream: StreamId,
        blocks: &Range<BlockIndex>,
        mut each: impl FnMut(Delta),
    ) {
        if self.count == 0 || blocks.is_empty() {
            return;
        }
        let last = BlockIndex(blocks.end.0 - 1);
        let groups = group_of(stream, blocks.start)..=group_of(stream, last);
        let touched: Vec<LeafId> = self.groups.range(groups).map(|(group, _)| *group).collect();
        for group in touched {
            let of_group = self.groups.get_mut(&group).expect("found above");
            let before = of_group.capacity();
            let part = part(of_group, group.1, blocks);
            self.count -= part.len() as u64;
            of_group.drain(part).for_each(|packed| each(unpack(group, packed)));
            if of_group.capacity() > of_group.len() / 2 * 3 + 16 {
                of_group.shrink_to(of_group.len() / 8 * 9 + 8);
            }
            self.places -= before - of_group.capacity();
            if of_group.is_empty() {
                self.places -= of_group.capacity();
                self.groups.remove(&group);
            }
        }
        assert_eq!(self.count == 0, self.groups.is_empty(), "no group is empty");
        assert!(self.places as u64 >= self.count, "each one has a place"); // DELTAS-7
    }

    /// Nothing waits for a page any more: it is in there.
    fn settled(&mut self, leaf: LeafId) {
        let before = self.count;
        self.take_range(leaf.0, &blocks_of(leaf), |_| {});
        assert!(self.count <= before, "nothing new waits"); // DELTAS-1
        self.settled += before - self.count;
    }

    /// Whether none wait for a stream from here on (DELTAS-6). What does is put into its map first.
    pub(crate) fn set_exact(&mut self, stream: StreamId, is_exact: bool) {
        if is_exact {
            assert!(self.first_in(stream, BlockIndex::ALL).is_none(), "it was put into the map");
            self.exact.insert(stream);
        } else {
            self.exact.remove(&stream);
        }
    }

    /// None wait from here on, as long as the shard is open: so replay sees more dead than the shard did, but may never
    /// see less.
    pub(crate) fn forbid(&mut self) {
        (self.limit, self.is_forbidden, self.replay_freed_more) = (0, true, true);
    }

    /// Whether nothing may be reused because of what replay saw die before a root says so (DEATHS-6).
    pub(crate) fn replay_freed_more(&self) -> bool {
        self.replay_freed_more
    }

    /// A root is durable that agrees with them.
    pub(crate) fn saved(&mut self) {
        self.replay_freed_more = false;
    }

    /// Nothing waits for a stream any more.
    pub(crate) fn remove_stream(&mut self, stream: StreamId) {
        self.take_range(stream, &BlockIndex::ALL, |_| {});
    }

    /// What waits for blocks of a range, in their order.
    pub(crate) fn in_range(
        &self,
        stream: StreamId,
        blocks: Range<BlockIndex>,
    ) -> impl Iterator<Item = (BlockIndex, ChunkId)> {
        let first = group_of(stream, blocks.start);
        let last = BlockIndex(blocks.end.0.saturating_sub(1));
        let last = group_of(stream, last).max(first);
        self.groups.range(first..=last).flat_map(move |(group, of_group)| {
            let some = &of_group[part(of_group, group.1, &blocks)];
            some.iter()
                .map(|packed| unpack(*group, *packed))
                .map(|delta| (BlockIndex(delta.block), delta.chunk))
        })
    }

    /// Everything that waits, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Delta> {
        self.iter_from(StreamId::new(0), BlockIndex::ZERO)
    }

    /// As [`Self::iter`], from a block of a stream on.
    pub(crate) fn iter_from(
        &self,
        stream: StreamId,
        block: BlockIndex,
    ) -> impl Iterator<Item = Delta> + Clone {
        let first = group_of(stream, block);
        self.groups.range(first..).flat_map(move |(group, of_group)| {
            let from = if *group == first { block } else { BlockIndex::ZERO };
            let some = &of_group[part(of_group, group.1, &(from..BlockIndex::MAX))];
            some.iter().map(|packed| unpack(*group, *packed))
        })
    }

    /// Pages for which something waits, from one on.
    fn leaves_from(&self, first: LeafId) -> impl Iterator<Item = LeafId> {
        let mut last = None;
        let all = self.iter_from(first.0, blocks_of(first).start).map(|delta| delta.page());
        all.filter(move |leaf| last.replace(*leaf) != Some(*leaf))
    }

    /// The first pages of a stream for which something waits.
    fn leaves_of(&self, stream: StreamId, max: usize) -> Vec<LeafId> {
        self.leaves_from((stream, 0)).take_while(|leaf| leaf.0 == stream).take(max).collect()
    }

    /// The next pages to sweep; all of them have their turn before one comes again.
    fn next_leaves(&self, max: usize) -> Vec<LeafId> {
        let behind = self.leaves_from(self.cursor);
        let before = self.leaves_from((StreamId::new(0), 0));
        behind.chain(before.take_while(|leaf| *leaf < self.cursor)).take(max).collect()
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
        self.places * size_of::<u64>() + self.groups.len() * GROUP_BYTES
    }

    /// The first block of a range for which something waits.
    pub(crate) fn first_in(
        &self,
        stream: StreamId,
        range: Range<BlockIndex>,
    ) -> Option<BlockIndex> {
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
pub(crate) struct BufferPolicy {
    /// Pages for which the segment has much; none of all when nothing may wait.
    direct: Option<HashSet<LeafId>>,
}

impl BufferPolicy {
    /// Whether the entry for a block may wait (DELTAS-2).
    pub(crate) fn may(&self, stream: StreamId, block: BlockIndex) -> bool {
        self.direct.as_ref().is_some_and(|direct| !direct.contains(&leaf_of(stream, block)))
    }
}

impl Trees {
    /// What of a segment's entries waits (DELTAS-2).
    pub(crate) fn waiting(&self, entries: &[SummaryEntry]) -> BufferPolicy {
        if self.deltas.limit == 0 {
            return BufferPolicy { direct: None };
        }
        let mut counts: HashMap<LeafId, u32> = HashMap::default();
        for entry in entries {
            if let SummaryEntry::Data { stream, block, .. }
            | SummaryEntry::Reference { stream, block, .. } = entry
            {
                *counts.entry(leaf_of(*stream, BlockIndex(*block))).or_default() += 1;
            }
        }
        let direct = counts.into_iter().filter(|(_, count)| *count >= DIRECT);
        BufferPolicy { direct: Some(direct.map(|(leaf, _)| leaf).collect()) }
    }

    /// Whether an update that may wait does: the stream was never cut, nothing is promised to it, its map has the page,
    /// and not too many wait (DELTAS-4 to DELTAS-7).
    pub(crate) fn waits(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
    ) -> std::result::Result<bool, Stop> {
        if self.deltas.count >= self.deltas.limit || !self.open_stream(stream)? {
            return Ok(false);
        }
        let map = &self.streams[&stream].map;
        if map.ceiling() > ChunkId::ZERO || self.deltas.exact.contains(&stream) {
            return Ok(false);
        }
        Ok(map.has_leaf(&self.cache, block)?) // DELTAS-5
    }

    /// Puts what waits for a page into it; appends what was there to `dead`, unless it faults.
    pub(crate) fn flush_leaf(
        &mut self,
        leaf: LeafId,
        dead: &mut Vec<MapSlot>,
    ) -> std::result::Result<(), Stop> {
        let waiting: Vec<_> = self.deltas.in_range(leaf.0, blocks_of(leaf)).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        self.ensure_stream(leaf.0)?;
        let stream = self.streams.get_mut(&leaf.0).expect("opened above");
        for (block, chunk) in waiting {
            // Only the first one may fault: the path of all is the same.
            let slot = MapSlot::data(self.shard, chunk);
            let old = stream.map.set(&mut self.cache, &mut self.names, block, slot)?;
            dead.extend(data_slot(old).filter(|dead| *dead != slot));
        }
        self.deltas.settled(leaf); // DELTAS-1
        debug_assert!(
            self.deltas.first_in(leaf.0, blocks_of(leaf)).is_none(),
            "all of it is in the page"
        );
        Ok(())
    }

    /// Makes a block hold a chunk: at once, or as a delta if it `may_wait`. Appends what dies to `dead`, unless it
    /// faults.
    pub(crate) fn set_slot(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
        chunk: ChunkId,
        may_wait: bool,
        dead: &mut Vec<MapSlot>,
    ) -> std::result::Result<(), Stop> {
        if may_wait && self.waits(stream, block)? {
            let old = self.deltas.set(stream, block, chunk);
            debug_assert!(self.deltas.count <= self.deltas.limit, "beyond the limit none wait"); // DELTAS-7
            dead.extend(old.filter(|old| *old != chunk).map(|old| MapSlot::data(self.shard, old)));
            return Ok(());
        }
        self.change_slot(stream, block, MapSlot::data(self.shard, chunk), dead)
    }

    /// Makes a block hold something at once. Appends what dies to `dead`, unless it faults.
    pub(crate) fn change_slot(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
        slot: MapSlot,
        dead: &mut Vec<MapSlot>,
    ) -> std::result::Result<(), Stop> {
        self.ensure_stream(stream)?;
        if !planted(Bug::DeltaOutlivesChange) {
            self.flush_leaf(leaf_of(stream, block), dead)?; // DELTAS-1
            debug_assert!(self.deltas.get(stream, block).is_none(), "it is in the page");
        }
        let stream = self.streams.get_mut(&stream).expect("opened above");
        let old = stream.map.set(&mut self.cache, &mut self.names, block, slot)?;
        dead.extend(data_slot(old).filter(|dead| *dead != slot));
        Ok(())
    }

    /// Nothing waits for blocks of a range any more; appends what did to `dead`.
    pub(crate) fn forget_waiting(
        &mut self,
        stream: StreamId,
        blocks: Range<BlockIndex>,
        dead: &mut Vec<MapSlot>,
    ) {
        let shard = self.shard;
        let each = |delta: Delta| dead.push(MapSlot::data(shard, delta.chunk));
        self.deltas.take_range(stream, &blocks, each);
        debug_assert!(self.deltas.first_in(stream, blocks).is_none()); // DELTAS-1
    }

    /// Loads what [`Self::set_slot`] needs: faults as it does.
    pub(crate) fn look_for_slot(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
        may_wait: bool,
    ) -> std::result::Result<(), Stop> {
        if may_wait && self.waits(stream, block)? || !self.open_stream(stream)? {
            return Ok(());
        }
        self.streams[&stream].map.lookup(&self.cache, block)?;
        Ok(())
    }

    /// Shows what waits in place of what a map has, in what a walk came across in `range`. Data stay in the order of
    /// their blocks (WALK-8).
    pub(crate) fn overlay(
        &self,
        stream: StreamId,
        range: Range<BlockIndex>,
        items: &mut Vec<WalkItem>,
    ) {
        if self.deltas.is_empty() {
            return;
        }
        let mut waiting: HashMap<BlockIndex, ChunkId> =
            self.deltas.in_range(stream, range).collect();
        for item in items.iter_mut() {
            if let WalkItem::Data { block, slot } = item
                && let Some(chunk) = waiting.remove(block)
            {
                *slot = MapSlot::data(self.shard, chunk);
            }
        }
        if waiting.is_empty() {
            return;
        }
        // What waits for holes stands in its place among the others: who stops at an item goes on from there.
        let mut rest: Vec<_> = waiting.into_iter().collect();
        rest.sort_unstable();
        let mut rest = rest.into_iter().peekable();
        let data =
            |(block, chunk)| WalkItem::Data { block, slot: MapSlot::data(self.shard, chunk) };
        let mut all = Vec::with_capacity(items.len() + rest.len());
        for item in items.drain(..) {
            if let WalkItem::Data { block, .. } = item {
                while let Some(before) = rest.next_if(|(waiting, _)| *waiting < block) {
                    all.push(data(before));
                }
            }
            all.push(item);
        }
        all.extend(rest.map(data));
        *items = all;
    }
}

impl Trees {
    /// What runs of blocks from `block` on hold, up to `end` or a little less: those of the map, and data where
    /// something waits. As [`Map::status`](crate::tree::Map::status).
    pub(crate) fn status(
        &self,
        stream: StreamId,
        blocks: Range<BlockIndex>,
        max_runs: usize,
        runs: &mut Vec<StatusRun>,
    ) -> std::result::Result<BlockIndex, Stop> {
        let map = &self.streams[&stream].map;
        let (first, end) = (blocks.start, blocks.end);
        let mut block = first;
        for waiting in self.deltas.in_range(stream, blocks).take(MAP_SLOTS).map(|(block, _)| block)
        {
            assert!(block <= waiting, "updates come in the order of their blocks");
            if block < waiting {
                match map.status(&self.cache, block, waiting, max_runs, runs) {
                    Ok(next) if next == waiting => {}
                    Ok(next) => return Ok(next),
                    Err(fault) if block == first => return Err(fault.into()),
                    Err(_) => return Ok(block),
                }
            }
            if !StatusRun::add(runs, max_runs, BlockMapping::Data, 1) {
                return Ok(waiting);
            }
            block = waiting + 1;
            if block - first >= STATUS_BLOCKS {
                return Ok(block);
            }
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
        assert!(self.trees_are_held(), "maps change under the gate"); // APPLY-2
        loop {
            let leaves = self.trees.borrow().deltas.leaves_of(stream, SWEEP_PAGES);
            if leaves.is_empty() {
                return Ok(());
            }
            self.load_leaves(&leaves).await;
            for leaf in leaves {
                let mut dead = Vec::new();
                self.with_pages(|trees| trees.flush_leaf(leaf, &mut dead)).await?;
                self.overwritten(leaf.0, &dead);
            }
            self.reactor.yield_now().await;
        }
    }

    /// Has what waits for a stream swept before a cut of it or a promise to it is drained, if that is much, so that
    /// applying a segment does not change more pages than fit into the cache and the reserve of checkpoints. The caller
    /// holds the data gate: what is applied meanwhile is little. Returns how many are left, of which the segment hears
    /// once it has what asks for it.
    pub(crate) async fn sweep_for(&self, stream: StreamId) -> Result<usize> {
        assert!(self.drain.gate.taken() > 0, "little is applied meanwhile");
        let max = self.config.page_cache_bytes / PAGE_BYTES / SETTLED_PART;
        let max = max.clamp(1, SETTLED_AT_ONCE_MAX);
        let waiting = || {
            let trees = self.trees.borrow();
            trees.deltas.in_range(stream, BlockIndex::ALL).take(max + 1).count()
        };
        let settles = &self.drain.settles;
        if settles.get() > 0 && settles.get() + waiting() > max {
            self.seal_data().await?; // That of others comes with a segment of its own.
        }
        while waiting() > max {
            self.want_sweep();
            self.checkpoint().await?; // One page at least, and all of them while there is room.
        }
        Ok(waiting())
    }

    /// Sweeps what a checkpoint should (DELTAS-3), as far as the cache and free segments allow; at least some, so that
    /// rounds end. Decides whether updates wait until the next root. The caller is a checkpoint.
    pub(crate) async fn flush_map_buffer(&self) -> Result<()> {
        assert!(self.apply.is_gated(), "only a checkpoint sweeps"); // DELTAS-3
        let (all, left) = {
            let deltas = &mut self.trees.borrow_mut().deltas;
            let all = std::mem::take(&mut deltas.sweep_wanted) || deltas.limit == 0;
            let many = all || deltas.are_many();
            (all, if many { deltas.len() } else { 0 })
        };
        let (mut swept, mut reads) = (0, 0);
        let segment = self.media.segments.geometry().segment_bytes as usize;
        let at_once = (segment / PAGE_BYTES / 4).clamp(1, SWEEP_PAGES);
        // Once round at most.
        let end = self.trees.borrow().deltas.settled + left;
        while self.trees.borrow().deltas.settled < end {
            if swept > 0 && !self.has_room_to_fold() {
                // Pages of maps may be written early: nothing names them before the root does.
                self.write_pages().await?;
                self.finish_puts(0).await?;
                if !self.has_room_to_fold() {
                    break;
                }
            }
            let leaves = {
                let deltas = &self.trees.borrow().deltas;
                if deltas.is_empty() || !all && deltas.are_few() {
                    break;
                }
                deltas.next_leaves(if self.has_room_to_fold() { at_once } else { 1 })
            };
            assert!(!leaves.is_empty(), "a sweep goes on");
            reads += self.load_leaves(&leaves).await;
            swept += leaves.len() as u64;
            for leaf in leaves {
                let mut dead = Vec::new();
                self.with_pages(|trees| trees.flush_leaf(leaf, &mut dead)).await?;
                self.note_swept(&dead);
                self.trees.borrow_mut().deltas.cursor = (leaf.0, leaf.1 + 1);
            }
            self.reactor.yield_now().await;
        }
        self.counters.add_swept_pages(swept);
        self.decide_waiting(swept, reads);
        Ok(())
    }

    /// Loads pages for which something waits, many at once; returns how many were read.
    async fn load_leaves(&self, leaves: &[LeafId]) -> u64 {
        let before = self.counters.page_reads();
        self.prefetch(|trees| {
            let mut look = |leaf: &LeafId| {
                fault_of(trees.look_for_slot(leaf.0, blocks_of(*leaf).start, false))
            };
            leaves.iter().filter_map(&mut look).collect()
        })
        .await;
        self.counters.page_reads() - before
    }

    /// Notes what a sweep found dead (DELTAS-3); homes are told of foreign chunks (PEERS-8).
    fn note_swept(&self, slots: &[MapSlot]) {
        assert!(self.apply.is_gated(), "only a checkpoint sweeps"); // DELTAS-3
        let deaths = &mut self.trees.borrow_mut().deaths;
        let dedup = self.reduce.dedup.borrow();
        for slot in slots {
            if slot.shard() != self.config.shard {
                self.foreign.note_overwritten(slot.shard());
            } else if !dedup.is_granted(slot.id()) {
                deaths.note_swept(slot.id());
            }
        }
    }

    /// Whether updates wait from the coming root on, and how many (DELTAS-2): while maps do not fit into the cache, as
    /// reads of their pages tell.
    fn decide_waiting(&self, swept: u64, reads: u64) {
        assert!(self.apply.is_gated(), "a root is about to say so"); // DELTAS-2
        let entries = self.checkpoint.new_entries();
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
        deltas.limit = if wait && !deltas.is_forbidden { by_memory.min(by_chunks) } else { 0 };
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
        let settled = |shard: &Self| shard.trees.borrow().deltas.settled;
        let last = settled(self) + self.trees.borrow().deltas.len();
        while settled(self) < last && self.has_deltas() {
            self.fold_deaths().await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use varve_stdx::Rng;

    use super::*;

    type Model = BTreeMap<(u64, u64), u64>;

    fn all(deltas: impl Iterator<Item = Delta>) -> Vec<((u64, u64), u64)> {
        deltas.map(|delta| ((delta.stream.get(), delta.block), delta.chunk.get())).collect()
    }

    fn plain(model: &Model) -> Vec<((u64, u64), u64)> {
        model.iter().map(|(at, chunk)| (*at, *chunk)).collect()
    }

    /// A block of few or many pages, at the edges of groups often.
    fn any_block(rng: &mut Rng) -> u64 {
        match rng.below(3) {
            0 => rng.below(3000),
            1 => (1 + rng.below(4)) * GROUP_BLOCKS - 3 + rng.below(6),
            _ => rng.below(1 << 40),
        }
    }

    #[test]
    fn deltas_follow_a_plain_map() {
        let mut rng = Rng::new(11);
        let mut deltas = MapBuffer::new(1 << 20, 1 << 20);
        let mut model = Model::new();
        for step in 0..60_000_u64 {
            let (stream, block) = (1 + rng.below(3), any_block(&mut rng));
            let (id, at_block) = (StreamId::new(stream), BlockIndex(block));
            match rng.below(if step % 20_000 < 12_000 { 40 } else { 12 }) {
                0 => {
                    let range = block..block + rng.below(600);
                    let mut dead: Vec<ChunkId> = Vec::new();
                    let blocks = BlockIndex(range.start)..BlockIndex(range.end);
                    deltas.take_range(id, &blocks, |delta| dead.push(delta.chunk));
                    let in_range = |at: &(u64, u64)| at.0 == stream && range.contains(&at.1);
                    let gone: Vec<_> = model.extract_if(.., |at, _| in_range(at)).collect();
                    assert!(
                        dead.iter().map(|chunk| chunk.get()).eq(gone.iter().map(|(_, id)| *id))
                    );
                }
                1 => {
                    deltas.settled(leaf_of(id, at_block));
                    model.retain(|at, _| (at.0, at.1 / 512) != (stream, block / 512));
                }
                2 if rng.chance(1, 200) => {
                    deltas.remove_stream(id);
                    model.retain(|at, _| at.0 != stream);
                }
                3 => {
                    let known = model.range((stream, block)..).next();
                    if let Some(((stream, block), chunk)) = known {
                        let found = deltas.get(StreamId::new(*stream), BlockIndex(*block));
                        assert_eq!(found, Some(ChunkId::new(*chunk)));
                    }
                    let found = deltas.get(id, at_block).map(ChunkId::get);
                    assert_eq!(found, model.get(&(stream, block)).copied());
                }
                _ => {
                    let old = deltas.set(id, at_block, ChunkId::new(step + 1));
                    assert_eq!(old.map(ChunkId::get), model.insert((stream, block), step + 1));
                }
            }
            assert_eq!(deltas.len(), model.len() as u64);
            if step % 1000 == 0 {
                assert_eq!(all(deltas.iter()), plain(&model));
                let behind = model.range((stream, block)..).map(|(at, chunk)| (*at, *chunk));
                assert!(all(deltas.iter_from(id, at_block)).into_iter().eq(behind));
                let of_model = model.range((stream, block)..(stream, block + 5000));
                let of_model = of_model.map(|(at, chunk)| (BlockIndex(at.1), ChunkId::new(*chunk)));
                assert!(deltas.in_range(id, at_block..at_block + 5000).eq(of_model));
                let vectors: usize = deltas.groups.values().map(Vec::capacity).sum();
                assert_eq!(deltas.places, vectors);
                let bound = model.len() * 2 + deltas.groups.len() * 24;
                assert!(vectors <= bound, "{vectors} places for {} deltas", model.len());
            }
        }
        for stream in 1..=3 {
            deltas.remove_stream(StreamId::new(stream));
        }
        assert_eq!((deltas.len(), deltas.bytes()), (0, 0));
    }

    #[test]
    fn sweeps_go_round_the_pages() {
        let mut deltas = MapBuffer::new(1 << 20, 1 << 20);
        for leaf in 0..100 {
            for block in 0..3 {
                let chunk = ChunkId::new(1 + leaf * 3 + block);
                deltas.set(StreamId::new(1 + leaf % 2), BlockIndex(leaf * 512 + block), chunk);
            }
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            let next = deltas.next_leaves(40);
            let last = next[next.len() - 1];
            deltas.cursor = (last.0, last.1 + 1);
            seen.extend(next);
        }
        assert_eq!(seen.len(), 120);
        assert!(seen[..100].is_sorted());
        assert_eq!(seen[..20], seen[100..]);
    }

    #[test]
    fn many_are_swept_until_there_are_few() {
        let mut deltas = MapBuffer::new(1 << 20, 800);
        let mut count = 0;
        while !deltas.are_many() {
            deltas.set(StreamId::new(1), BlockIndex(count * 7), ChunkId::new(count + 1));
            count += 1;
        }
        assert_eq!(count, 701);
        while !deltas.are_few() {
            let leaf = deltas.next_leaves(1)[0];
            deltas.settled(leaf);
        }
        assert!((500..=600).contains(&deltas.len()), "{}", deltas.len());
    }
}
