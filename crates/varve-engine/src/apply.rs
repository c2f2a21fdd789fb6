//! Applies durable data segments to the trees, in chain order: the one place where maps change.
//!
//! APPLY-1. Segments are applied in the order of their chain, each after it and all before it are durable.
//! APPLY-2. Applying holds the tree gate, so a checkpoint sees whole segments only.
//! APPLY-3. Recovery applies through the same code, so both end in the same state.

mod state;

use std::ops::Range;
use std::rc::Rc;

use varve_logstore::chain_reader::{fold_checksum, read_units, unit_bytes};
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::record::{KeyPayload, RecordKind};
use varve_logstore::format::root::ChainHead;
use varve_logstore::format::summary::{Codec, SummaryEntry, Unit};
use varve_logstore::lane::{JournalFrame, JournalRecord};
use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::UNIT_ALIGN;
use varve_media::SegmentId;
use varve_stdx::BufSlice;
use varve_types::limits::VOLUME_BYTES_MAX;
use varve_types::{BlockIndex, ByteOffset, ChunkId, StreamId, WriteSeq};

use crate::admission::Semaphore;
use crate::config::BLOCK_BYTES;
use crate::deltas::BufferPolicy;
use crate::drain::SealedData;
use crate::pages::fault_of;
use crate::peers::ForeignChunk;
use crate::tree::{Fill, MAP_SLOTS, MapSlot};
use crate::trees::{Stop, Trees, stream_of_reservation};
use crate::{Error, Result, Shard};

pub(crate) use state::Apply;

/// Entries applied before other tasks get a turn: some 50 µs of work.
const ENTRIES_PER_TURN: usize = 64;

/// Map slots cleared by a trim before other tasks get a turn.
const SLOTS_PER_STEP: usize = 512;

const _: () = assert!(SLOTS_PER_STEP >= MAP_SLOTS, "a step gets past a page");

/// A trim of more blocks than this drops whole pages and leaves their chunks to mark.
const PRECISE_TRIM_BLOCKS: u64 = 1 << 18;

const _: () = assert!(PRECISE_TRIM_BLOCKS >= MAP_SLOTS as u64, "a longer one has whole pages");

/// A mark pass is wanted once so many stored bytes of shared chunks were overwritten, and one part in so many of what
/// is live, or of the room that is left.
const KEPT_BYTES_MIN: u64 = 64 << 20;
const KEPT_PART: u64 = 8;
const KEPT_PART_OF_ROOM: u64 = 2;

/// A durable segment to be applied.
pub(crate) struct Applicable<'a> {
    pub(crate) id: SegmentId,
    pub(crate) head: ChainHead,
    pub(crate) entries: &'a [SummaryEntry],
    /// Its bytes when they are still in memory.
    pub(crate) bytes: Option<&'a BufSlice>,
}

impl Shard {
    /// Applies sealed segments until the shard fails or is dropped.
    pub(crate) async fn run_apply(self: Rc<Self>) -> Result<()> {
        loop {
            let item = self.apply.dequeue().await;
            self.apply_sealed(item).await?;
            self.apply.free_place(); // It was kept until now: it bounds the segments in flight.
            self.admission.press();
            self.wake_checkpoint();
        }
    }

    async fn apply_sealed(&self, item: SealedData) -> Result<()> {
        let SealedData { sealed, put, frames, bypassed_bytes, lane } = item;
        put.await?; // APPLY-1
        let seq = sealed.link.seq;
        assert!(self.segment_is_durable(seq), "segment {seq} and all before it are durable"); // APPLY-1
        assert!(lane.frame_seq >= self.apply.lane().frame_seq, "the lane only goes on");
        let gate = self.apply.tree_gate.take(1).await; // APPLY-2
        let applicable = Applicable {
            id: sealed.id,
            head: sealed.link,
            entries: &sealed.entries,
            bytes: Some(&sealed.bytes),
        };
        let outcome = self.apply_segment(applicable).await;
        self.apply.forget_entries(sealed.entries.len());
        if outcome.is_ok() {
            self.apply.lane.set(lane);
            frames.iter().for_each(|frame| self.release_frame(frame)); // TRANSACTION-3
            self.admission.credits.data.give(bypassed_bytes);
        }
        drop(gate);
        self.drain.writer.borrow_mut().recycle(sealed.bytes);
        outcome
    }

    fn release_frame(&self, frame: &JournalFrame) {
        for record in frame.records().iter() {
            self.credits_of(record).give(charge(record.payload.len()));
        }
        self.lane().release(frame);
    }

    fn credits_of(&self, record: &JournalRecord) -> &Semaphore {
        match record.header.kind {
            RecordKind::Grant => &self.admission.credits.grants,
            _ if record.is_reserved => &self.admission.credits.records,
            _ => &self.admission.credits.data,
        }
    }

    /// Whether nobody but the holder of the tree gate, or recovery, changes the trees (APPLY-2, APPLY-3).
    pub(crate) fn trees_are_held(&self) -> bool {
        self.apply.is_gated() || self.admission.lane().is_none()
    }

    /// Applies one segment. The caller holds the tree gate, or is recovery (APPLY-3).
    pub(crate) async fn apply_segment(&self, segment: Applicable<'_>) -> Result<()> {
        assert!(self.trees_are_held(), "a checkpoint sees whole segments"); // APPLY-2
        assert_eq!(segment.head.seq, self.apply.chain().seq + 1, "segments are applied in order"); // APPLY-1
        // A cache that held all pages of the last segment most likely holds those of this one: looking for absent ones
        // costs as much as applying.
        let reads = self.counters.page_reads();
        let waiting = self.trees.borrow().waiting(segment.entries);
        if self.apply.wants_prefetch() {
            self.prefetch_entries(&segment, &waiting).await;
        }
        for (index, entry) in segment.entries.iter().enumerate() {
            self.apply_entry(&segment, entry, &waiting).await?;
            if index % ENTRIES_PER_TURN == ENTRIES_PER_TURN - 1 {
                self.reactor.yield_now().await;
            }
        }
        let reads = self.counters.page_reads() - reads;
        self.apply.prefetch_wanted.set(reads > 0);
        self.trees.borrow_mut().deltas.note_reads(reads);
        self.tell_peers(segment.entries);
        self.apply.chain.set(segment.head);
        self.checkpoint.add_entries(segment.entries.len());
        self.share_cache();
        self.space.borrow_mut().sealed(segment.id);
        self.settle_freed();
        Ok(())
    }

    /// Loads the pages that the entries need, many at once.
    async fn prefetch_entries(&self, segment: &Applicable<'_>, waiting: &BufferPolicy) {
        self.prefetch(|trees| {
            let mut place = |entry: &SummaryEntry| match entry {
                SummaryEntry::Data { stream, block, .. } => {
                    let block = BlockIndex(*block);
                    let may_wait = waiting.may(*stream, block);
                    trees.look_for_slot(*stream, block, may_wait).map(|()| None)
                }
                SummaryEntry::Reference { chunk, stream, block, .. } => {
                    let block = BlockIndex(*block);
                    let may_wait = waiting.may(*stream, block);
                    trees.look_for_slot(*stream, block, may_wait)?;
                    trees.chunk(*chunk)
                }
                SummaryEntry::ForeignReference { stream, block, .. } => {
                    trees.look_for_slot(*stream, BlockIndex(*block), false).map(|()| None)
                }
                SummaryEntry::Grant { first, .. } => trees.chunk(*first),
                SummaryEntry::KeyPut { unit, .. } | SummaryEntry::KeyDelete { unit, .. } => {
                    let bytes = segment.bytes.and_then(|bytes| unit_bytes(bytes, unit));
                    if let Some(Ok(payload)) = bytes.map(KeyPayload::decode) {
                        trees.keys.get(&trees.cache, payload.key)?;
                    }
                    Ok(None)
                }
                _ => Ok(None),
            };
            segment.entries.iter().filter_map(|entry| fault_of(place(entry))).collect()
        })
        .await
    }

    async fn apply_entry(
        &self,
        segment: &Applicable<'_>,
        entry: &SummaryEntry,
        waiting: &BufferPolicy,
    ) -> Result<()> {
        self.note_applied(entry);
        match *entry {
            SummaryEntry::Data { chunk, stream, block, wseq, unit, .. } => {
                let (block, place) = (BlockIndex(block), chunk_entry(segment.id, &unit));
                let may_wait = waiting.may(stream, block);
                let set = |trees: &mut Trees, dead: &mut _| {
                    trees.add_chunk(&mut self.space.borrow_mut(), chunk, &place)?;
                    trees.set_slot(stream, block, chunk, may_wait, dead)
                };
                let dead = self.dying(set).await?;
                self.replaced(stream, block, wseq, Some(chunk), &dead);
                self.apply.chunk.set(self.apply.chunk().max(chunk));
            }
            SummaryEntry::Reference { chunk, stream, block, wseq, .. } => {
                let may_wait = waiting.may(stream, BlockIndex(block));
                let set = |trees: &mut Trees, dead: &mut _| {
                    trees.share_block(stream, BlockIndex(block), chunk, may_wait, dead)
                };
                let dead = self.dying(set).await?;
                self.reduce.dedup.borrow_mut().settle(chunk);
                self.replaced(stream, BlockIndex(block), wseq, None, &dead);
            }
            SummaryEntry::ForeignReference { home, chunk, stream, block, wseq, .. } => {
                let (block, name) = (BlockIndex(block), ForeignChunk { home, chunk });
                let dead =
                    self.dying(|trees, dead| trees.name_foreign(stream, block, name, dead)).await?;
                self.foreign.settle(name);
                self.replaced(stream, block, wseq, None, &dead);
            }
            SummaryEntry::Grant { first, count, .. } => self.apply_grant(first, count).await?,
            SummaryEntry::Trim { stream, block, block_count, wseq, .. }
            | SummaryEntry::Zero { stream, block, block_count, wseq, .. } => {
                let is_zero = matches!(entry, SummaryEntry::Zero { .. });
                let Range { start, end } = checked_blocks(block, block_count)?;
                self.clear_blocks(stream, start..end, is_zero).await?;
                self.admission.buffer.borrow_mut().remove_range(stream, start, end, wseq);
            }
            SummaryEntry::KeyPut { wseq, unit } | SummaryEntry::KeyDelete { wseq, unit } => {
                let is_put = matches!(entry, SummaryEntry::KeyPut { .. });
                self.apply_key(segment, &unit, wseq, is_put).await?;
            }
            SummaryEntry::StreamDrop { stream, wseq } => {
                self.with_pages(|trees| trees.drop_stream(stream)).await?;
                self.admission.buffer.borrow_mut().remove_stream(stream, wseq);
            }
            SummaryEntry::Cut { source, copy, chunk_ceiling, .. } => {
                self.apply_cut(source, copy, chunk_ceiling).await?;
            }
            SummaryEntry::FreedIds { first, count } => {
                let ids: Vec<_> = (first.get()..first.get() + count).map(ChunkId::new).collect();
                self.free_chunks(&ids).await?;
            }
            SummaryEntry::Move { .. }
            | SummaryEntry::Page { .. }
            | SummaryEntry::TablePage { .. }
            | SummaryEntry::UsageBlob { .. }
            | SummaryEntry::DeathBlob { .. }
            | SummaryEntry::DeltaBlob { .. }
            | SummaryEntry::Folded { .. } => {
                unreachable!("{entry:?} is never in a data segment")
            }
        }
        Ok(())
    }

    /// Makes a change; returns what dies by it.
    async fn dying(
        &self,
        mut change: impl FnMut(&mut Trees, &mut Vec<MapSlot>) -> std::result::Result<(), Stop>,
    ) -> Result<Vec<MapSlot>> {
        let mut dead = Vec::new();
        self.with_pages(|trees| change(trees, &mut dead)).await?;
        Ok(dead)
    }

    /// A block holds `new` now, if that is new, and no longer what is in `dead`: what it held before, and what others
    /// held for which updates waited.
    fn replaced(
        &self,
        stream: StreamId,
        block: BlockIndex,
        wseq: WriteSeq,
        new: Option<ChunkId>,
        dead: &[MapSlot],
    ) {
        // Exact: nothing waits where something is promised (DELTAS-6), so at most what the block held is dead.
        let old = dead.first().and_then(|slot| self.own(*slot));
        self.reservations.replaced(stream, block, new, old);
        self.overwritten(stream, dead);
        self.admission.buffer.borrow_mut().remove(stream, block, wseq);
    }

    /// Puts or deletes the key that a unit holds.
    async fn apply_key(
        &self,
        segment: &Applicable<'_>,
        unit: &Unit,
        wseq: WriteSeq,
        is_put: bool,
    ) -> Result<()> {
        let bytes = self.unit_bytes(segment, unit).await?;
        let KeyPayload { key, value } = KeyPayload::decode(&bytes)?;
        if let Some(stream) = stream_of_reservation(key) {
            self.settle_stream(stream).await?;
            self.trees.borrow_mut().deltas.set_exact(stream, is_put); // DELTAS-6
        }
        self.with_pages(|trees| {
            let (cache, names) = (&mut trees.cache, &mut trees.names);
            if is_put {
                trees.keys.put(cache, names, key, value)?;
            } else {
                trees.keys.delete(cache, names, key)?;
            }
            Ok(())
        })
        .await?;
        self.admission.pending_keys.borrow_mut().applied(key, wseq);
        Ok(())
    }

    /// A record of the lane is applied, as far as its segment holds it (RECOVERY-3).
    fn note_applied(&self, entry: &SummaryEntry) {
        let wseq = if planted(Bug::BypassCountsForLane) { entry.wseq() } else { entry.lane_wseq() };
        let Some(wseq) = wseq else { return };
        let in_order = wseq >= self.apply.wseq() || planted(Bug::BypassCountsForLane);
        assert!(in_order, "records of the lane are applied in order");
        self.apply.wseq.set(self.apply.wseq().max(wseq));
    }

    async fn unit_bytes(&self, segment: &Applicable<'_>, unit: &Unit) -> Result<BufSlice> {
        if let Some(bytes) = segment.bytes {
            let start = unit.offset() as usize;
            return Ok(bytes.slice(start..start + unit.stored_len as usize));
        }
        let units = [*unit];
        let mut read = read_units(&self.media.segments, segment.id, &units).await?;
        if read.is_damaged {
            self.note_elsewhere(segment.id);
        }
        Ok(read.bytes.pop().expect("one unit was asked for"))
    }

    /// Makes blocks holes, or zeros that stay allocated; what they held dies, or waits for mark when there is much of
    /// it.
    async fn clear_blocks(
        &self,
        stream: StreamId,
        blocks: Range<BlockIndex>,
        zero: bool,
    ) -> Result<()> {
        let exists = self.with_pages(|trees| trees.open_stream(stream)).await?;
        if !exists && !zero {
            return Ok(());
        }
        let fill = if zero { Fill::Zero } else { Fill::Hole };
        let end = blocks.end;
        if end - blocks.start > PRECISE_TRIM_BLOCKS {
            let mut dead = Vec::new();
            self.with_pages(|trees| trees.detach_blocks(stream, blocks.clone(), &mut dead)).await?;
            self.reservations.forgotten(stream);
            self.overwritten(stream, &dead);
            self.mark.wanted.set(true);
            self.tell_names_gone();
        }
        let mut from = blocks.start;
        while from < end {
            let mut dead = Vec::new();
            let begin = from;
            from = self
                .with_pages(|trees| {
                    trees.fill_blocks(stream, from..end, fill, SLOTS_PER_STEP, &mut dead)
                })
                .await?;
            assert!(from > begin && from <= end, "a step goes on");
            let own = dead.iter().filter_map(|slot| self.own(*slot));
            self.reservations.cleared(stream, begin..from, own);
            self.overwritten(stream, &dead);
            self.reactor.yield_now().await;
        }
        Ok(())
    }

    async fn apply_cut(&self, source: StreamId, copy: StreamId, ceiling: ChunkId) -> Result<()> {
        assert!(self.trees_are_held(), "who reads the copy sees all of it"); // CUT-4
        if !planted(Bug::CutForgetsDeltas) {
            self.settle_stream(source).await?; // DELTAS-4
        }
        if self.with_pages(|trees| trees.cut(source, copy, ceiling)).await? {
            self.mark.note_copy(copy);
        }
        for stream in [source, copy] {
            let ceiling = self.trees.borrow().chunk_ceiling(stream);
            self.reservations.cut_applied(stream, ceiling);
        }
        self.admission.cuts.applied(copy);
        Ok(())
    }

    /// The chunk of this shard that a slot names.
    fn own(&self, slot: MapSlot) -> Option<ChunkId> {
        (slot.shard() == self.config.shard).then(|| slot.id())
    }

    /// What blocks of a stream no longer hold: a fold takes the chunks out of the table, but not those that copies may
    /// hold (CUT-5). Homes are told of foreign ones (PEERS-8).
    pub(crate) fn overwritten(&self, stream: StreamId, slots: &[MapSlot]) {
        let ceiling = self.trees.borrow().chunk_ceiling(stream);
        for slot in slots {
            if slot.shard() != self.config.shard {
                self.foreign.note_overwritten(slot.shard());
                continue;
            }
            let chunk = slot.id();
            if chunk < ceiling && !planted(Bug::CopiedChunkDies) {
                let bytes = self.trees.borrow().data.mean_bytes();
                self.note_kept(u64::from(bytes));
            } else {
                self.note_death(chunk);
            }
        }
    }

    /// A chunk is out of the table.
    pub(crate) fn forget(&self, chunk: ChunkId) {
        self.caches.blocks.borrow_mut().remove(chunk);
        self.reduce.dedup.borrow_mut().trust(chunk);
    }

    /// Something shared was overwritten: when that is much, or the shard is full, mark is to find what nobody names any
    /// more.
    pub(crate) fn note_kept(&self, bytes: u64) {
        let kept = self.reduce.dedup.borrow_mut().keep(bytes);
        let live = self.space.borrow().stats().live_bytes;
        let room = self.room_left();
        let much = KEPT_BYTES_MIN.max((live / KEPT_PART).min(room / KEPT_PART_OF_ROOM));
        if kept >= much || room == 0 {
            self.mark.wanted.set(true);
        }
    }

    /// Takes chunks that nobody names out of the table.
    async fn free_chunks(&self, chunks: &[ChunkId]) -> Result<()> {
        assert!(self.trees_are_held(), "no checkpoint is between table and accounts"); // TREES-1
        for chunk in chunks {
            self.with_pages(|trees| trees.kill(&mut self.space.borrow_mut(), *chunk)).await?;
            self.forget(*chunk);
        }
        Ok(())
    }
}

/// The blocks of a trim or zero, if they have numbers at all.
fn checked_blocks(first: u64, count: u64) -> Result<Range<BlockIndex>> {
    let end = BlockIndex(first).checked_add(count).ok_or(Error::TooLarge {
        what: "end of a trim or zero, in blocks",
        value: u64::MAX,
        limit: ByteOffset(VOLUME_BYTES_MAX).block().0,
    })?;
    Ok(BlockIndex(first)..end)
}

/// What a record of `payload_len` bytes costs in credits: its memory, and at least a block for its place in the lane.
pub(crate) fn charge(payload_len: usize) -> u64 {
    payload_len.max(BLOCK_BYTES) as u64
}

/// The table's entry for a unit.
pub(crate) fn chunk_entry(segment: SegmentId, unit: &Unit) -> ChunkEntry {
    let entry = ChunkEntry {
        segment,
        offset_512: unit.offset_512,
        stored_len: unit.stored_len,
        codec: unit.codec,
        shared: false,
        logical_512: unit.logical_512,
        checksum: unit.checksum,
    };
    debug_assert_eq!(entry.location(), unit.location(segment), "the table names where it lies");
    entry
}

/// A raw unit at `offset` of a segment.
pub(crate) fn raw_unit(offset: u32, len: u32, checksum: u64) -> Unit {
    assert!(offset.is_multiple_of(UNIT_ALIGN), "units begin at address units");
    assert!(len > 0, "a unit has bytes");
    let units = |bytes: u32| u16::try_from(bytes / 512).expect("inside a segment");
    let unit = Unit {
        offset_512: units(offset),
        stored_len: len,
        logical_512: units(len.next_multiple_of(512)),
        codec: Codec::Raw,
        checksum: fold_checksum(checksum),
    };
    assert_eq!(unit.offset(), offset, "it is read where it was put");
    unit
}
