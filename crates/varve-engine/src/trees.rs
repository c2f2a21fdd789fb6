//! The shard's trees and the operations on several of them at once: maps, chunk table and keys.
//!
//! TREES-1. A chunk is in the table exactly while it is live, or waits for a fold (`deaths.rs`) or for mark; the
//!     segment's live bytes follow the table.
//! TREES-2. An operation that faults may have done a part that is done again without effect when it is repeated.
//! TREES-3. Ids of pages are the upper half of all chunk ids, so that both halves of the table grow at their right
//!     edge.
//! TREES-4. What the table holds of data is counted by whatever changes the table, and stored with every checkpoint.

use varve_logstore::format::Features;
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::deltas::PAGE_BLOCKS;
use varve_logstore::format::stream::StreamRecord;
use varve_logstore::planted::{Bug, planted};
use varve_logstore::space::{Space, unit_space};
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId};

use crate::Error;
use crate::config::BLOCK_BYTES;
use crate::deaths::{DeadChunks, ReuseRule};
use crate::deltas::MapBuffer;
use crate::hash::HashMap;
use crate::peers::ForeignChunk;
use crate::tree::{
    BTree, ChunkNames, DetachedContent, Fault, Fill, MAP_SLOTS, Map, MapSlot, MemoryNames,
    PageCache, SlotKind, TreeLayout,
};

/// First id of map and key pages (TREES-3).
pub(crate) const PAGE_ID_FIRST: u64 = 1 << 47;

// Blocks of records of streams, of updates that wait, and of maps are the same.
const _: () =
    assert!(1 << StreamMap::BLOCK_SHIFT == BLOCK_BYTES && MAP_SLOTS as u64 == PAGE_BLOCKS);
const _: () = assert!(PAGE_ID_FIRST * 2 - 1 == ChunkId::MAX.get(), "both halves are as long"); // TREES-3

/// First byte of keys that the engine keeps for itself.
const STREAM_PREFIX: u8 = 0;
/// First byte of keys of the layers above.
const USER_PREFIX: u8 = 1;
/// First byte of keys of what is promised to streams.
const RESERVATION_PREFIX: u8 = 2;

// A scan of streams ends where the keys of the layers above begin.
const _: () = assert!(STREAM_PREFIX < USER_PREFIX && USER_PREFIX < RESERVATION_PREFIX);

/// Why a tree operation stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A page has to be loaded first.
    Fault(Fault),
    /// It cannot be done.
    Failed(Error),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What was folded.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct PurgeOutcome {
    /// Chunks that were dealt with.
    pub(crate) count: usize,
    /// Stored bytes of those that are shared, and stay until a mark pass finds that nobody names them.
    pub(crate) kept_bytes: u32,
}

/// Layout of the chunk table.
pub(crate) fn table_layout() -> TreeLayout {
    let fit = |len: usize| u8::try_from(len).expect("entries are short");
    TreeLayout::Fixed { key_len: fit(ChunkEntry::KEY_LEN), value_len: fit(ChunkEntry::LEN) }
}

/// A stream's map and what its record says.
pub(crate) struct StreamMap {
    pub(crate) map: Map,
    /// Chunks below this id may be held by copies as well (CUT-5).
    pub(crate) chunk_ceiling: ChunkId,
    /// The record as it is stored; none for one that is not.
    stored: Option<StreamRecord>,
}

impl StreamMap {
    /// Of a block's bytes, as a power of two.
    const BLOCK_SHIFT: u8 = 12;

    fn new(map: Map) -> Self {
        Self { map, chunk_ceiling: ChunkId::ZERO, stored: None }
    }

    fn record(&self) -> StreamRecord {
        StreamRecord {
            root: self.map.root(),
            height: self.map.height(),
            block_shift: Self::BLOCK_SHIFT,
            slot_width: StreamRecord::SLOT_WIDTH,
            page_ceiling: self.map.ceiling(),
            chunk_ceiling: self.chunk_ceiling,
        }
    }
}

/// All trees of a shard, over one page cache.
pub(crate) struct Trees {
    pub(crate) shard: ShardId,
    pub(crate) cache: PageCache,
    pub(crate) keys: BTree,
    pub(crate) table: BTree,
    pub(crate) streams: HashMap<StreamId, StreamMap>,
    pub(crate) names: ChunkNames,
    pub(crate) table_names: MemoryNames,
    pub(crate) next_chunk: ChunkId,
    pub(crate) data: DataUsage,
    /// Chunks of the table that were overwritten.
    pub(crate) deaths: DeadChunks,
    /// Whether maps may name chunks of other shards: the pool has some, or a root said so once. It stands in every root
    /// from the first checkpoint on, which comes before the first segment or record with such a name or with a grant.
    pub(crate) names_foreign: bool,
    /// Map updates that wait.
    pub(crate) deltas: MapBuffer,
}

/// What the table holds of data, pages aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct DataUsage {
    /// Chunks.
    pub(crate) chunks: u64,
    /// Bytes of segments that they take.
    pub(crate) bytes: u64,
}

impl DataUsage {
    fn add(&mut self, chunk: ChunkId, stored_len: u32) {
        if chunk.get() < PAGE_ID_FIRST {
            self.chunks = self.chunks.saturating_add(1);
            self.bytes = self.bytes.saturating_add(u64::from(unit_space(stored_len)));
        }
    }

    /// What a chunk takes on average.
    pub(crate) fn mean_bytes(&self) -> u32 {
        u32::try_from(self.bytes / self.chunks.max(1)).unwrap_or(u32::MAX)
    }

    fn sub(&mut self, chunk: ChunkId, stored_len: u32) {
        if chunk.get() < PAGE_ID_FIRST {
            // A root that says less than there is: the audit tells.
            self.chunks = self.chunks.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(u64::from(unit_space(stored_len)));
        }
    }
}

impl Trees {
    pub(crate) fn fresh_chunk(&mut self) -> ChunkId {
        let chunk = self.next_chunk;
        assert!(chunk.get() < PAGE_ID_FIRST, "ids of data are the lower half"); // TREES-3
        self.next_chunk = chunk.next();
        chunk
    }

    /// Opens the stream's map if the stream exists.
    pub(crate) fn open_stream(&mut self, id: StreamId) -> Result<bool, Stop> {
        if self.streams.contains_key(&id) {
            return Ok(true);
        }
        let Some(value) = self.keys.get(&self.cache, &stream_key(id))? else { return Ok(false) };
        let record = StreamRecord::decode(value).map_err(|error| Stop::Failed(error.into()))?;
        let map = Map::open(id, self.shard, record.root, record.height).ok_or_else(|| {
            Stop::Failed(Error::PageCorrupt {
                page: format!("record of stream {id}"),
                reason: "root and height do not go together".to_owned(),
            })
        })?;
        let map = map.with_ceiling(record.page_ceiling);
        let chunk_ceiling = record.chunk_ceiling;
        self.streams.insert(id, StreamMap { map, chunk_ceiling, stored: Some(record) });
        Ok(true)
    }

    pub(crate) fn ensure_stream(&mut self, id: StreamId) -> Result<(), Stop> {
        if !self.open_stream(id)? {
            let map = Map::new(id, self.shard);
            self.streams.insert(id, StreamMap::new(map));
        }
        Ok(())
    }

    /// Lets `copy` hold what `source` holds, for whose blocks nothing waits (DELTAS-4), unless it did before (CUT-6);
    /// returns whether it is new. Costs O(1).
    pub(crate) fn cut(
        &mut self,
        source: StreamId,
        copy: StreamId,
        chunk_ceiling: ChunkId,
    ) -> Result<bool, Stop> {
        if self.open_stream(copy)? {
            return Ok(false);
        }
        let page_ceiling = self.names.next();
        let copied = if self.open_stream(source)? {
            let waits = self.deltas.first_in(source, BlockIndex::ALL).is_some();
            assert!(!waits || planted(Bug::CutForgetsDeltas), "what waits was put into the map"); // DELTAS-4
            let source = self.streams.get_mut(&source).expect("opened above");
            source.chunk_ceiling = source.chunk_ceiling.max(chunk_ceiling);
            let map = source.map.copy_to(copy, page_ceiling);
            assert_eq!(map.ceiling(), source.map.ceiling(), "neither changes what both have"); // CUT-5
            StreamMap { chunk_ceiling: source.chunk_ceiling, ..StreamMap::new(map) }
        } else {
            StreamMap::new(Map::new(copy, self.shard))
        };
        self.streams.insert(copy, copied);
        Ok(true)
    }

    /// Chunks of an open stream below this id may be held by others as well (CUT-5).
    pub(crate) fn chunk_ceiling(&self, stream: StreamId) -> ChunkId {
        self.streams.get(&stream).map_or(ChunkId::ZERO, |stream| stream.chunk_ceiling)
    }

    /// What a block of a stream holds; a hole when there is no such stream.
    pub(crate) fn lookup(&mut self, stream: StreamId, block: BlockIndex) -> Result<MapSlot, Stop> {
        if let Some(chunk) = self.deltas.get(stream, block)
            && !planted(Bug::DeltaOverlooked)
        {
            return Ok(MapSlot::data(self.shard, chunk)); // DELTAS-1
        }
        if !self.open_stream(stream)? {
            return Ok(MapSlot::HOLE);
        }
        Ok(self.streams[&stream].map.lookup(&self.cache, block)?)
    }

    /// Where a chunk lies; `None` when there is no such chunk.
    pub(crate) fn chunk(&self, chunk: ChunkId) -> Result<Option<ChunkEntry>, Stop> {
        match self.table.get(&self.cache, &ChunkEntry::key(chunk))? {
            None => Ok(None),
            Some(value) => {
                ChunkEntry::decode(value).map(Some).map_err(|error| Stop::Failed(error.into()))
            }
        }
    }

    /// Puts a chunk into the table (TREES-1).
    pub(crate) fn add_chunk(
        &mut self,
        space: &mut Space,
        chunk: ChunkId,
        entry: &ChunkEntry,
    ) -> Result<(), Stop> {
        let mut value = [0; ChunkEntry::LEN];
        entry.encode(&mut value);
        let key = ChunkEntry::key(chunk);
        let old = self.table.put(&mut self.cache, &mut self.table_names, &key, &value)?;
        match old {
            None => {
                space.add_live(entry.segment, entry.stored_len);
                self.data.add(chunk, entry.stored_len);
            }
            Some(old) => assert_eq!(*old, value, "ids are never reused"), // TREES-2
        }
        Ok(())
    }

    /// Moves a chunk if it still lies at `from`, segment, generation and offset (the full place); returns whether it
    /// did.
    pub(crate) fn move_chunk(
        &mut self,
        space: &mut Space,
        chunk: ChunkId,
        from: &ChunkEntry,
        to: &ChunkEntry,
    ) -> Result<bool, Stop> {
        assert_eq!(from.stored_len, to.stored_len, "a move changes the place alone");
        let now = self.chunk(chunk)?;
        let place = |entry: &ChunkEntry| (entry.segment, entry.offset_512);
        if now.as_ref().map(place) != Some(place(from)) && !planted(Bug::MoveUnchecked) {
            return Ok(false);
        }
        let shared = now.as_ref().is_some_and(|now| now.shared);
        let mut value = [0; ChunkEntry::LEN];
        ChunkEntry { shared, ..*to }.encode(&mut value);
        let key = ChunkEntry::key(chunk);
        self.table.put(&mut self.cache, &mut self.table_names, &key, &value)?;
        space.add_live(to.segment, to.stored_len);
        match now {
            Some(now) => space.sub_live(now.segment, now.stored_len),
            None => self.data.add(chunk, to.stored_len), // Planted.
        }
        Ok(true)
    }

    /// Takes a chunk out of the table (TREES-1); returns whether it was there.
    pub(crate) fn kill(&mut self, space: &mut Space, chunk: ChunkId) -> Result<bool, Stop> {
        let key = ChunkEntry::key(chunk);
        let Some(value) = self.table.delete(&mut self.cache, &mut self.table_names, &key)? else {
            return Ok(false);
        };
        let entry = ChunkEntry::decode(&value).map_err(|error| Stop::Failed(error.into()))?;
        self.deaths.remove(chunk); // DEATHS-2
        count_dead(space, &mut self.data, chunk, &entry);
        debug_assert!(!self.deaths.contains(chunk), "it leaves set and table at once"); // DEATHS-2
        Ok(true)
    }

    /// Takes chunks that were overwritten, in the order of their ids, out of the table, but not those that other blocks
    /// may hold (DEDUP-3): as many as belong to the leaf of the first. Tells which ones are gone.
    pub(crate) fn fold_leaf(
        &mut self,
        space: &mut Space,
        ids: &[ChunkId],
        folding: ReuseRule,
        mut on_gone: impl FnMut(ChunkId),
    ) -> Result<PurgeOutcome, Stop> {
        let Self { cache, table, table_names, data, deaths, .. } = self;
        debug_assert!(ids.is_sorted(), "leaves are visited in order");
        let mut folded = PurgeOutcome::default();
        let mut damaged: Option<Error> = None;
        let fold = |_: &[u8], value: Option<&[u8]>| {
            let chunk = ids[folded.count];
            folded.count += 1;
            deaths.remove(chunk); // DEATHS-2
            match value.map(ChunkEntry::decode) {
                Some(Ok(entry)) if entry.shared => {
                    folded.kept_bytes += entry.stored_len;
                    return false;
                }
                Some(Err(error)) => {
                    damaged = Some(error.into());
                    return false;
                }
                Some(Ok(entry)) => {
                    match folding {
                        ReuseRule::Again => {}
                        ReuseRule::Range(number) => space.keep(entry.segment.number, number), // DEATHS-6
                        ReuseRule::Checkpoint => space.keep(entry.segment.number, u64::MAX),
                    }
                    count_dead(space, data, chunk, &entry);
                }
                None => {
                    let found = "not in the chunk table";
                    damaged = Some(Error::DeathContradicted { chunk, found }); // DEATHS-2
                    return false;
                }
            }
            on_gone(chunk);
            true
        };
        table.delete_sorted(cache, table_names, ids.iter().map(|id| ChunkEntry::key(*id)), fold)?;
        assert!(folded.count <= ids.len(), "no more than was asked for");
        assert!(folded.count > 0 || ids.is_empty(), "a visit deals with one at least");
        match damaged {
            Some(error) => Err(Stop::Failed(error)),
            None => Ok(folded),
        }
    }

    /// Makes a block hold a chunk that is stored already, and marks that as shared, unless the block is known to hold
    /// it. Appends what it held to `dead`, which the caller kills. The update waits if it may (DELTAS-2).
    pub(crate) fn share_block(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
        chunk: ChunkId,
        may_wait: bool,
        dead: &mut Vec<MapSlot>,
    ) -> Result<(), Stop> {
        self.ensure_stream(stream)?;
        let may_wait = may_wait && self.waits(stream, block)?;
        let is_known = self.deltas.get(stream, block).is_some() || !may_wait;
        if is_known && self.lookup(stream, block)? == MapSlot::data(self.shard, chunk) {
            return Ok(());
        }
        let Some(entry) = self.chunk(chunk)? else {
            return Err(Stop::Failed(Error::ChunkMissing { stream, block, chunk }));
        };
        if !planted(Bug::ReferenceNotShared) {
            self.share(chunk, &entry)?;
        }
        self.set_slot(stream, block, chunk, may_wait, dead)
    }

    fn share(&mut self, chunk: ChunkId, entry: &ChunkEntry) -> Result<(), Stop> {
        if !entry.shared {
            let mut value = [0; ChunkEntry::LEN];
            ChunkEntry { shared: true, ..*entry }.encode(&mut value);
            let key = ChunkEntry::key(chunk);
            self.table.put(&mut self.cache, &mut self.table_names, &key, &value)?;
        }
        Ok(())
    }

    /// Marks a chunk as shared, if it is in the table.
    pub(crate) fn share_chunk(&mut self, chunk: ChunkId) -> Result<(), Stop> {
        match self.chunk(chunk)? {
            Some(entry) => self.share(chunk, &entry),
            None => Ok(()),
        }
    }

    /// Makes a block hold a chunk of another shard, at once. Appends what dies to `dead`, unless it faults.
    pub(crate) fn name_foreign(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
        name: ForeignChunk,
        dead: &mut Vec<MapSlot>,
    ) -> Result<(), Stop> {
        assert!(name.home != self.shard, "its own chunks are shared");
        self.names_foreign = true;
        self.change_slot(stream, block, MapSlot::data(name.home, name.chunk), dead)
    }

    /// Makes blocks of a range holes or zeros, about `budget` of them; appends what they held to `dead`. Returns where
    /// to go on.
    pub(crate) fn fill_blocks(
        &mut self,
        stream: StreamId,
        range: std::ops::Range<BlockIndex>,
        fill: Fill,
        budget: usize,
        dead: &mut Vec<MapSlot>,
    ) -> Result<BlockIndex, Stop> {
        self.ensure_stream(stream)?;
        let map = &mut self.streams.get_mut(&stream).expect("opened above").map;
        let on_dead = |_: BlockIndex, slot: MapSlot| dead.extend(data_slot(slot));
        let (cache, names, first) = (&mut self.cache, &mut self.names, range.start);
        let end = range.end;
        let next = map.fill_range(cache, names, range, fill, budget, on_dead)?;
        assert!((first..=end).contains(&next), "a step stays in its range");
        if !planted(Bug::DeltaOutlivesTrim) {
            self.forget_waiting(stream, first..next, dead); // DELTAS-1
        }
        Ok(next)
    }

    /// Makes blocks of a range holes without looking at what whole pages of them held: that waits for mark.
    pub(crate) fn detach_blocks(
        &mut self,
        stream: StreamId,
        range: std::ops::Range<BlockIndex>,
        dead: &mut Vec<MapSlot>,
    ) -> Result<(), Stop> {
        self.ensure_stream(stream)?;
        let map = &mut self.streams.get_mut(&stream).expect("opened above").map;
        let on_dropped = |dropped| {
            if let DetachedContent::Data(_, slot) = dropped {
                dead.extend(data_slot(slot));
            }
        };
        map.detach_range(&mut self.cache, &mut self.names, range.clone(), on_dropped)?;
        self.deltas.take_range(stream, &range, |_| {}); // DELTAS-1. Their chunks wait for mark as well.
        debug_assert!(self.deltas.first_in(stream, range).is_none()); // DELTAS-1
        Ok(())
    }

    /// What a version must know that reads what the trees hold now.
    pub(crate) fn features(&self) -> Features {
        let incompat = if self.names_foreign { Features::FOREIGN_NAMES } else { 0 };
        Features { incompat, ..Features::default() }
    }

    /// Writes the record of every stream that changed into the key tree.
    pub(crate) fn store_streams(&mut self) -> Result<(), Stop> {
        for (id, stream) in &mut self.streams {
            let record = stream.record();
            if stream.stored == Some(record) {
                continue;
            }
            let mut value = [0; StreamRecord::LEN];
            record.encode(&mut value);
            self.keys.put(&mut self.cache, &mut self.names, &stream_key(*id), &value)?;
            stream.stored = Some(record);
        }
        Ok(())
    }

    /// Forgets a stream; its chunks and pages wait for mark.
    pub(crate) fn drop_stream(&mut self, id: StreamId) -> Result<(), Stop> {
        self.keys.delete(&mut self.cache, &mut self.names, &stream_key(id))?;
        self.streams.remove(&id);
        self.deltas.remove_stream(id);
        debug_assert!(self.deltas.first_in(id, BlockIndex::ALL).is_none()); // DELTAS-1
        Ok(())
    }
}

/// Takes a chunk that left the table out of the accounts (TREES-1, TREES-4).
fn count_dead(space: &mut Space, data: &mut DataUsage, chunk: ChunkId, entry: &ChunkEntry) {
    space.sub_live(entry.segment, entry.stored_len);
    data.sub(chunk, entry.stored_len);
}

/// The slot, if it names a chunk of data.
pub(crate) fn data_slot(slot: MapSlot) -> Option<MapSlot> {
    (slot.kind() == SlotKind::Data).then_some(slot)
}

/// Key of a stream's record.
pub(crate) fn stream_key(id: StreamId) -> [u8; 9] {
    let mut key = [STREAM_PREFIX; 9];
    key[1..].copy_from_slice(&id.get().to_be_bytes());
    key
}

/// The stream whose record has this key, if it is such a key.
pub(crate) fn stream_of_key(key: &[u8]) -> Option<StreamId> {
    let (&STREAM_PREFIX, id) = key.split_first()? else { return None };
    StreamId::from_untrusted(u64::from_be_bytes(id.try_into().ok()?))
}

/// Key of what is promised to a stream.
pub(crate) fn reservation_key(id: StreamId) -> [u8; 9] {
    let mut key = stream_key(id);
    key[0] = RESERVATION_PREFIX;
    key
}

/// The stream to which the value of this key promises something, if it is such a key.
pub(crate) fn stream_of_reservation(key: &[u8]) -> Option<StreamId> {
    let (&RESERVATION_PREFIX, id) = key.split_first()? else { return None };
    StreamId::from_untrusted(u64::from_be_bytes(id.try_into().ok()?))
}

/// The tree's key for a key of the layers above.
pub(crate) fn user_key(key: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(key.len() + 1);
    whole.push(USER_PREFIX);
    whole.extend_from_slice(key);
    debug_assert_eq!(key_of_user(&whole), Some(key), "it is found as it was named");
    whole
}

/// The key of the layers above that a tree key stands for.
pub(crate) fn key_of_user(key: &[u8]) -> Option<&[u8]> {
    let (&USER_PREFIX, rest) = key.split_first()? else { return None };
    Some(rest)
}
