//! Moves durable records from the lane into data segments, in the order of their write sequence numbers.
//!
//! DRAIN-1. Only durable records are drained, so nothing that a crash can undo ever kills a chunk.
//! DRAIN-2. Records stand in data segments in `wseq` order, and so do all versions of a block, those that bypassed the
//!     lane included; a record is left out only when a durable newer one covers it.
//! DRAIN-3. A frame is released with the data segment that was open when its last record was drained.
//! DRAIN-4. Draining never waits for lane space or buffer credits.
//! DRAIN-5. The gate is held for a frame as a whole: what bypasses the lane stands between frames, never within one.
//! DRAIN-6. A segment counts as durable once it and all earlier ones of the chain have been put, applied or not.
//! DRAIN-7. Durable frames linger in the lane, as newer ones may make what they hold needless, until `aggregation.rs`
//!     says that they are due (AGGREGATION-3), or somebody waits for the trees to show them.
//! DRAIN-8. When the lane lost a copy, all that it holds is drained, and sealed full or not: it has a copy less until
//!     then.

mod state;

use std::rc::Rc;

use futures_util::future::{Either, select};
use varve_logstore::format::record::{KeyPayload, RecordHeader, RecordKind, decode_cut};
use varve_logstore::format::segment::SegmentKind;
use varve_logstore::format::summary::{Fingerprint, SummaryEntry, Unit};
use varve_logstore::lane::{JournalFrame, JournalRecord};
use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::{BLOCK_ALIGN, SealSpec, SealedSegment, UNIT_ALIGN};
use varve_reactor::JoinHandle;
use varve_stdx::{FINGERPRINT_BATCH, checksum64, is_zero};
use varve_types::limits::ADDRESS_UNIT;
use varve_types::{BlockIndex, ChunkId, Compression, CutNumber, Dedup, StreamId, WriteSeq};

use crate::admission::Semaphore;
use crate::aggregation::{LINGER_NS, PartFilled, SegmentWaiters, WriteBack, seals};
use crate::apply::raw_unit;
use crate::config::BLOCK_BYTES;
use crate::peers::{DedupLookup, ForeignChunk};
use crate::sampling::{FingerprintScope, is_sample};
use crate::trees::stream_of_reservation;
use crate::{Result, Shard};

pub(crate) use state::{Drain, SealedData};

/// Address units of a block.
pub(crate) const BLOCK_UNITS: u64 = BLOCK_BYTES as u64 / ADDRESS_UNIT;

const _: () = assert!(BLOCK_UNITS * ADDRESS_UNIT == BLOCK_BYTES as u64);

/// The block that a record of whole blocks begins with.
pub(crate) const fn first_block(header: &RecordHeader) -> BlockIndex {
    BlockIndex(header.offset_512 / BLOCK_UNITS)
}

/// Data segments whose put is under way or whose entries are not in the map yet; bounds memory and recovery's full
/// verification.
const SEGMENTS_IN_FLIGHT_MAX: usize = 3;

const _: () = assert!(SEGMENTS_IN_FLIGHT_MAX >= 2, "one is put while another is applied");

/// Blocks of frames that are drained as one batch where they are deduplicated: hashes of many side by side take less
/// time each. So few are still in the cache when they are compressed.
const BATCH_BLOCKS_MAX: usize = 64;

const _: () =
    assert!(BATCH_BLOCKS_MAX.is_multiple_of(FINGERPRINT_BATCH), "hashes are taken side by side");

/// The same where other shards are asked: a message carries as many.
const ASKED_BLOCKS_MAX: usize = 512;

const _: () = assert!(BATCH_BLOCKS_MAX <= ASKED_BLOCKS_MAX, "a message is worth a larger batch");

/// Blocks drained before other tasks get a turn: some 50 µs of work.
const BLOCKS_PER_TURN: usize = 32;

const _: () = assert!(BLOCKS_PER_TURN >= 4, "a turn is a block at least, however it is compressed");

/// What is known of blocks; nothing of streams that are not deduplicated.
pub(crate) type KnownBlocks = Vec<Option<DedupLookup>>;

/// Which block of which write is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSource {
    pub(crate) stream: StreamId,
    pub(crate) block: BlockIndex,
    pub(crate) wseq: WriteSeq,
    pub(crate) cut: CutNumber,
    pub(crate) class: u8,
    pub(crate) bypassed: bool,
}

/// Batches of fingerprints taken before other tasks get a turn: some 50 µs of work.
const BATCHES_PER_TURN: usize = 5;

impl Shard {
    /// Drains until the lane fails or the shard is dropped.
    pub(crate) async fn run_drain(self: Rc<Self>) -> Result<()> {
        while let Some(frame) = self.next_due().await {
            assert!(frame.is_durable(), "only durable frames are drained"); // DRAIN-1
            let frames = self.batch_from(frame);
            self.drain.taken.set(frames.len());
            let records: Vec<Rc<JournalRecord>> =
                frames.iter().flat_map(|frame| frame.records().clone()).collect();
            let mut known = self.lookup_duplicates_of(&records).await.into_iter();
            for frame in frames {
                let _gate = self.drain.gate.take(1).await; // DRAIN-5
                self.drain_frame(&frame, &mut known).await?;
                assert!(self.drain.taken.get() > 0, "frames of the batch were counted");
                self.drain.taken.set(self.drain.taken.get() - 1);
                let is_wanted = self.drain.refused.get() || self.grants_wait();
                if is_wanted || self.has_waiters() {
                    self.admission.press(); // It may have looked while this frame was still in the lane.
                }
            }
            assert_eq!(self.drain.taken.get(), 0, "the batch is drained");
            assert!(known.next().is_none(), "what is known was asked for each block once");
        }
        Ok(())
    }

    /// A durable frame, and those behind it that are due now where its blocks are deduplicated: they are hashed side by
    /// side, and other shards are asked once for all.
    fn batch_from(&self, first: Rc<JournalFrame>) -> Vec<Rc<JournalFrame>> {
        let blocks = |frame: &JournalFrame| -> usize {
            frame.records().iter().map(|record| record.payload.len() / BLOCK_BYTES).sum()
        };
        let is_asked = |record: &Rc<JournalRecord>| {
            let header = &record.header;
            header.kind == RecordKind::Write
                && self.fingerprinted(header.stream) != FingerprintScope::None
        };
        let is_batch = first.records().iter().any(is_asked);
        let count_max =
            if self.foreign.peers().is_some() { ASKED_BLOCKS_MAX } else { BATCH_BLOCKS_MAX };
        let mut count = blocks(&first);
        let mut frames = vec![first];
        let mut end = frames[0].end().frame_seq;
        while is_batch
            && count < count_max
            && self.is_due(end)
            && let Some(next) = self.lane().take_durable()
        {
            count += blocks(&next);
            end = next.end().frame_seq;
            frames.push(next);
        }
        debug_assert!(frames.iter().all(|frame| frame.is_durable())); // DRAIN-1
        frames
    }

    /// The next durable frame once it is due (DRAIN-7); none once the lane failed.
    async fn next_due(&self) -> Option<Rc<JournalFrame>> {
        if !self.lane().durable().await {
            return None;
        }
        let end = self.reactor.sleep(LINGER_NS);
        let mut end = std::pin::pin!(end);
        while !self.is_due(self.drain.point.get().frame_seq) {
            let drain_requested = std::pin::pin!(self.drain.drain_requested.notified());
            if let Either::Right(_) = select(drain_requested, end.as_mut()).await {
                self.drain.drain_upto.set(self.lane().head().frame_seq);
            }
        }
        self.lane().take_durable()
    }

    /// Whether a frame, the next to be drained, shall linger no longer (DRAIN-7).
    fn is_due(&self, frame_seq: u64) -> bool {
        let closing = self.check_open().is_err();
        let write_back = WriteBack {
            drain_requested: frame_seq < self.drain.drain_upto.get(),
            half_taken: self.is_half_taken(),
            refused: self.drain.refused.get(),
            grants_wait: self.grants_wait(),
            closing,
            short_of_space: !closing && !self.has_room_to_linger(), // A closing shard's credits have no end.
        };
        write_back.is_due()
    }

    /// Whether half of what bounds the lane is taken, or somebody waits for some of it.
    fn is_half_taken(&self) -> bool {
        let half = |credits: &Semaphore| credits.taken() >= credits.total() / 2;
        half(&self.admission.credits.data)
            || half(&self.admission.credits.records)
            || self.lane().is_half_taken()
            || self.has_waiters()
    }

    /// Tells the drain if half of what bounds the lane is taken.
    pub(crate) fn hurry_drain(&self) {
        if self.is_half_taken() {
            self.drain.request();
        }
    }

    async fn drain_frame(
        &self,
        frame: &Rc<JournalFrame>,
        known: &mut std::vec::IntoIter<Option<DedupLookup>>,
    ) -> Result<()> {
        assert!(self.drain.gate.taken() > 0, "nothing comes between records of a frame"); // DRAIN-5
        let records = frame.records().clone();
        for record in &records {
            self.drain_record(record, known).await?;
        }
        self.drain.frames.borrow_mut().push(Rc::clone(frame)); // DRAIN-3
        let begin = self.drain.point.get().frame_seq;
        assert!(begin < frame.end().frame_seq, "frames are drained in the order of the lane"); // DRAIN-2
        self.drain.point.set(frame.end());
        self.drain.advanced.notify_all();
        let lane_half_taken = self.lane().is_half_taken();
        self.seal_for(SegmentWaiters { lane_half_taken, ..SegmentWaiters::default() }).await
    }

    /// Seals the open segment though it is not full, if that gives those who wait what they wait for (AGGREGATION-4).
    /// The caller holds the data gate.
    async fn seal_for(&self, waiting: SegmentWaiters) -> Result<()> {
        assert!(self.drain.gate.taken() > 0, "who seals holds the gate"); // DRAIN-5
        let drain = &self.drain;
        let segment = PartFilled {
            gives_credits: !drain.frames.borrow().is_empty() || drain.bypassed_bytes.get() > 0,
            gives_space: drain.frees.get(),
            more_comes: drain.taken.get() > 0 || self.lane().has_undrained(),
            others_first: self.segments_in_flight() > 0,
        };
        if seals(segment, waiting) {
            self.seal_data().await?;
        }
        Ok(())
    }

    /// Seals a part-filled segment when writers wait for buffer credits that only it can give back, or were refused
    /// although it frees space.
    pub(crate) async fn run_pressure(self: Rc<Self>) -> Result<()> {
        loop {
            self.admission.pressed().await;
            let _gate = self.drain.gate.take(1).await;
            let waiting = SegmentWaiters {
                for_credits: self.has_waiters(),
                for_grants: self.grants_wait(),
                for_space: self.drain.refused.get(),
                // Drained frames ask in vain while other segments come first.
                lane_half_taken: self.lane().is_half_taken(),
            };
            self.seal_for(waiting).await?;
        }
    }

    /// Whether other shards' grants wait for credits that only the open segment gives back.
    fn grants_wait(&self) -> bool {
        let wait = self.drain.grants_wait.get() || self.admission.credits.grants.is_contended();
        wait && self.admission.credits.grants.is_getting_scarce()
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.admission.credits.data.is_contended() || self.admission.credits.records.is_contended()
    }

    /// What is known of the blocks of records, in order, those of writes that are fingerprinted.
    pub(crate) async fn lookup_duplicates_of(&self, records: &[Rc<JournalRecord>]) -> KnownBlocks {
        let writes = records.iter().filter(|record| record.header.kind == RecordKind::Write);
        let blocks: Vec<&[u8]> = writes
            .flat_map(|record| {
                let (stream, first) = (record.header.stream, first_block(&record.header));
                let blocks = record.payload.chunks_exact(BLOCK_BYTES).enumerate();
                let fingerprinted = self.fingerprinted(stream);
                blocks.map(move |(index, data)| {
                    let is_asked = fingerprinted.takes(|| record.piece_checksum(index));
                    let block = first + index as u64;
                    let is_left_out = !is_asked || self.is_superseded(&record.header, block);
                    if is_left_out { &[][..] } else { data } // Nothing is like nothing.
                })
            })
            .collect();
        self.lookup_duplicates(&blocks).await
    }

    /// As [`Self::lookup_duplicates_of`], of blocks; those that are not fingerprinted are empty.
    pub(crate) async fn lookup_duplicates(&self, blocks: &[&[u8]]) -> KnownBlocks {
        let mut fingerprints = vec![None; blocks.len()];
        let wanted: Vec<usize> =
            (0..blocks.len()).filter(|index| !is_zero(blocks[*index])).collect();
        for (index, group) in wanted.chunks(FINGERPRINT_BATCH).enumerate() {
            let group_blocks: Vec<_> = group.iter().map(|index| blocks[*index]).collect();
            let found = self.reduce.fingerprinter.fingerprints(&group_blocks);
            for (index, fingerprint) in group.iter().zip(found) {
                fingerprints[*index] = Fingerprint::new(fingerprint);
            }
            if index % BATCHES_PER_TURN == BATCHES_PER_TURN - 1 {
                self.reactor.yield_now().await;
            }
        }
        if !wanted.is_empty() {
            self.follow_hooks(&fingerprints).await;
        }
        let known = self.know(fingerprints).await;
        assert_eq!(known.len(), blocks.len(), "each block was looked up");
        known
    }

    /// Appends one record to the data segments, with what is `known` next. The caller holds the data gate (DRAIN-4).
    pub(crate) async fn drain_record(
        &self,
        record: &JournalRecord,
        known: &mut std::vec::IntoIter<Option<DedupLookup>>,
    ) -> Result<()> {
        assert!(self.drain.gate.taken() > 0, "who drains holds the gate"); // DRAIN-5
        let header = &record.header;
        match header.kind {
            RecordKind::Write => self.drain_write(record, known).await,
            RecordKind::Trim | RecordKind::Zero => {
                let BlockIndex(block) = first_block(header);
                let block_count = header.len_512 / BLOCK_UNITS;
                let (stream, wseq, cut) = (header.stream, header.wseq, header.cut);
                let entry = if header.kind == RecordKind::Trim {
                    SummaryEntry::Trim { stream, block, block_count, wseq, cut, bypassed: false }
                } else {
                    SummaryEntry::Zero { stream, block, block_count, wseq, cut }
                };
                self.push_data_entry(entry, wseq).await?;
                self.drain.frees.set(true); // Of the segment that is open now.
                Ok(())
            }
            RecordKind::KeyPut | RecordKind::KeyDelete => {
                let mut settles = 0;
                if let Ok(KeyPayload { key, .. }) = KeyPayload::decode(&record.payload)
                    && let Some(stream) = stream_of_reservation(key)
                {
                    settles = self.sweep_for(stream).await?; // Applying it puts into the map what is left (DELTAS-6).
                }
                let unit = self.push_data_unit(&record.payload, header.payload_checksum).await?;
                let wseq = header.wseq;
                let entry = if header.kind == RecordKind::KeyPut {
                    SummaryEntry::KeyPut { wseq, unit }
                } else {
                    SummaryEntry::KeyDelete { wseq, unit }
                };
                self.drain.writer.borrow_mut().push_entry(entry, wseq);
                self.drain.add_settles(settles);
                Ok(())
            }
            RecordKind::StreamDrop => {
                let (stream, wseq) = (header.stream, header.wseq);
                self.push_data_entry(SummaryEntry::StreamDrop { stream, wseq }, wseq).await
            }
            RecordKind::Cut => self.drain_cut(record).await,
            RecordKind::Grant => self.drain_grant(record).await,
            RecordKind::LargeRef => Ok(header.kind.check_supported()?),
        }
    }

    async fn drain_cut(&self, record: &JournalRecord) -> Result<()> {
        let copy = decode_cut(&record.payload)?;
        let RecordHeader { stream: source, wseq, .. } = record.header;
        let settles = self.sweep_for(source).await?;
        // The gate is held: nobody takes one until the entry stands.
        let chunk_ceiling = self.trees.borrow().next_chunk;
        let entry = SummaryEntry::Cut { source, copy, wseq, chunk_ceiling };
        self.push_data_entry(entry, wseq).await?;
        self.drain.add_settles(settles);
        self.admission.cuts.drained(copy);
        Ok(())
    }

    async fn drain_write(
        &self,
        record: &JournalRecord,
        known: &mut std::vec::IntoIter<Option<DedupLookup>>,
    ) -> Result<()> {
        let header = &record.header;
        let first = first_block(header);
        assert_eq!(record.payload.len() % BLOCK_BYTES, 0, "records hold whole blocks");
        let keeps_write = self.caches.blocks.borrow().keeps_write(record.payload.len());
        let mut kept = Vec::new();
        for (index, data) in record.payload.chunks_exact(BLOCK_BYTES).enumerate() {
            let block = first + index as u64;
            let known = known.next().expect("one a block of a write");
            // Asked anew for each block: a cut may have come since the last one.
            if self.is_superseded(header, block) {
                continue; // DRAIN-2
            }
            if !self.fits_a_block() {
                self.seal_data().await?;
            }
            let source = BlockSource {
                stream: header.stream,
                block,
                wseq: header.wseq,
                cut: header.cut,
                class: header.class,
                bypassed: false,
            };
            let piece_checksum = record.piece_checksum(index);
            let chunk = self.store_block(&source, data, piece_checksum, known.as_ref());
            if let Some(chunk) = chunk.filter(|_| keeps_write) {
                let start = index * BLOCK_BYTES;
                kept.push((chunk, record.payload.slice(start..start + BLOCK_BYTES)));
            }
            self.take_turn(header.stream).await;
        }
        self.caches.blocks.borrow_mut().insert_run(kept);
        Ok(())
    }

    /// Whether a durable newer record covers a block of a record, with no cut between them.
    fn is_superseded(&self, header: &RecordHeader, block: BlockIndex) -> bool {
        let cut = self.admission.cuts.oldest_in_lane(header.stream);
        let cut = cut.filter(|_| !planted(Bug::CutOverlooked));
        let newer = |pending: &crate::buffer::BufferedBlock| {
            let covers = pending.wseq > header.wseq && cut.is_none_or(|cut| pending.wseq < cut); // CUT-2
            covers && self.is_durable(&pending.carrier)
        };
        self.admission.buffer.borrow().newest(header.stream, block).is_some_and(newer)
    }

    /// Appends a block to the open data segment, as little of it as has to be stored. The caller made sure that it fits
    /// as it is. Returns its chunk if it is a new one.
    pub(crate) fn store_block(
        &self,
        source: &BlockSource,
        data: &[u8],
        checksum: u64,
        known: Option<&DedupLookup>,
    ) -> Option<ChunkId> {
        assert_eq!(data.len(), BLOCK_BYTES, "blocks are stored one by one");
        assert!(self.drain.gate.taken() > 0, "who appends holds the gate"); // DRAIN-5
        assert!(self.fits_a_block(), "the caller looked whether it fits");
        let BlockSource { stream, block: BlockIndex(block), wseq, cut, class, bypassed } = *source;
        let push = |entry| self.drain.writer.borrow_mut().push_entry(entry, wseq);
        // Asked for once more: what is known may be older than the promise.
        let known = known.filter(|_| !self.reservations.promises_to(stream));
        if is_zero(data) {
            push(SummaryEntry::Trim { stream, block, block_count: 1, wseq, cut, bypassed });
            return None;
        }
        let fingerprint = known.map(|known| known.fingerprint);
        if let Some(chunk) = fingerprint.and_then(|known| self.take_grant(known)) {
            self.note_looked_up(stream, true);
            self.counters.add_deduplicated();
            push(SummaryEntry::Reference { chunk, stream, block, wseq, cut, class, bypassed });
            return None;
        }
        if let Some(grant) = known.and_then(|known| known.foreign.as_ref()) {
            let ForeignChunk { home, chunk } = self.foreign.name(grant); // PEERS-4
            self.note_looked_up(stream, true);
            self.counters.add_foreign();
            push(SummaryEntry::ForeignReference {
                home,
                chunk,
                stream,
                block,
                wseq,
                class,
                bypassed,
            });
            return None;
        }
        let unit = self.push_block(stream, data, checksum);
        let chunk = self.trees.borrow_mut().fresh_chunk();
        self.note_stored(stream, chunk, fingerprint, checksum);
        push(SummaryEntry::Data {
            chunk,
            stream,
            block,
            wseq,
            cut,
            class,
            bypassed,
            unit,
            fingerprint,
        });
        Some(chunk)
    }

    /// Copies a block into the open data segment, compressed where that saves enough (AGGREGATION-5).
    fn push_block(&self, stream: StreamId, data: &[u8], checksum: u64) -> Unit {
        let mut reducer = self.reduce.reducer.borrow_mut();
        let unit = match reducer.compress(stream, data, self.reduction(stream).compression) {
            None => {
                let offset = self.drain.writer.borrow_mut().push_unit(data, BLOCK_ALIGN);
                raw_unit(offset, BLOCK_ALIGN, checksum)
            }
            Some((codec, stored)) => {
                assert!(stored.len() < data.len(), "it saves something"); // REDUCE-1
                let offset = self.drain.writer.borrow_mut().push_unit(stored, UNIT_ALIGN);
                let len = u32::try_from(stored.len()).expect("shorter than a block");
                let unit = raw_unit(offset, len, checksum64(stored));
                let logical_512 = u16::try_from(BLOCK_UNITS).expect("a block is small");
                Unit { codec, logical_512, ..unit }
            }
        };
        self.counters.add_stored(unit.stored_len);
        unit
    }

    /// Learns what a chunk in the open data segment holds.
    fn note_stored(
        &self,
        stream: StreamId,
        chunk: ChunkId,
        fingerprint: Option<Fingerprint>,
        checksum: u64,
    ) {
        let is_auto = self.reduction(stream).dedup == Dedup::Auto;
        let Some(fingerprint) = fingerprint else {
            if is_auto {
                self.drain.samples_only.set(true);
            }
            return;
        };
        self.note_looked_up(stream, false);
        let segment = self.drain.writer.borrow().slot();
        let is_hook = is_auto && is_sample(checksum);
        self.reduce.dedup.borrow_mut().learn(fingerprint, chunk, segment, is_hook);
    }

    /// Blocks of a stream that are some 50 µs of work, or one that is more.
    pub(crate) fn blocks_per_turn(&self, stream: StreamId) -> usize {
        match self.reduction(stream).compression {
            Compression::Off => BLOCKS_PER_TURN,
            Compression::Lz4 => BLOCKS_PER_TURN / 4,
            Compression::Zstd(level) => {
                if level < 4 {
                    2
                } else {
                    1
                }
            }
        }
    }

    /// Lets other tasks go on after some 50 µs of work on blocks of a stream.
    async fn take_turn(&self, stream: StreamId) {
        assert!(self.drain.blocks_this_turn.get() < BLOCKS_PER_TURN, "a turn ends in time");
        let weight = BLOCKS_PER_TURN / self.blocks_per_turn(stream);
        let blocks = self.drain.blocks_this_turn.get() + weight;
        if blocks < BLOCKS_PER_TURN {
            self.drain.blocks_this_turn.set(blocks);
            return;
        }
        self.drain.blocks_this_turn.set(0);
        self.reactor.yield_now().await;
    }

    /// Copies a unit into the open data segment, sealing it first when it is full.
    async fn push_data_unit(&self, bytes: &[u8], checksum: u64) -> Result<Unit> {
        let len = u32::try_from(bytes.len()).expect("units are smaller than segments");
        if !self.drain.writer.borrow().fits(len) {
            self.seal_data().await?;
        }
        let offset = self.drain.writer.borrow_mut().push_unit(bytes, UNIT_ALIGN);
        Ok(raw_unit(offset, len, checksum))
    }

    /// Adds an entry without a unit to the open data segment. The caller holds the data gate.
    pub(crate) async fn push_data_entry(
        &self,
        entry: SummaryEntry,
        wseq: varve_types::WriteSeq,
    ) -> Result<()> {
        assert!(self.drain.gate.taken() > 0, "who appends holds the gate"); // DRAIN-5
        if !self.drain.writer.borrow().fits(0) || self.is_enough_while_starved() {
            self.seal_data().await?;
        }
        self.drain.writer.borrow_mut().push_entry(entry, wseq);
        Ok(())
    }

    pub(crate) fn segments_in_flight(&self) -> usize {
        self.apply.segments()
    }

    /// Seals the open data segment, if it holds anything, and starts its put. The caller holds the data gate.
    pub(crate) async fn seal_data(&self) -> Result<()> {
        assert!(self.drain.gate.taken() > 0, "who seals holds the gate"); // DRAIN-5
        if self.drain.writer.borrow().is_empty() {
            return Ok(());
        }
        while self.segments_in_flight() >= SEGMENTS_IN_FLIGHT_MAX {
            self.check_running()?; // Nothing is applied any more once the shard failed.
            self.apply.advanced.notified().await;
        }
        let next_slot = self.take_segment(SegmentKind::Data).await?;
        let generation = self.allocation.fresh_generation();
        let lane = self.drain.point.get();
        let sealed = self.drain.writer.borrow_mut().seal(SealSpec {
            generation,
            next_slot,
            lane,
            lane_mount: self.drain.lane_mount.get(),
            witness: self.drain.puts.witness(),
        });
        self.space.borrow_mut().opened(sealed.id, sealed.wseq_last);
        tracing::trace!(id = ?sealed.id, link = ?sealed.link, entries = sealed.entries.len(), "data segment sealed");
        self.counters.add_data_segment(&sealed);
        self.reduce
            .dedup
            .borrow_mut()
            .note_sealed(sealed.id.number, self.drain.samples_only.take());
        self.drain.frees.set(false);
        self.drain.refused.set(false);
        self.drain.grants_wait.set(false);
        self.drain.settles.set(0);
        let frames = std::mem::take(&mut *self.drain.frames.borrow_mut());
        let bypassed_bytes = self.drain.bypassed_bytes.take();
        debug_assert!(frames.iter().all(|frame| frame.end().frame_seq <= lane.frame_seq)); // DRAIN-3
        let put = self.spawn_data_put(&sealed);
        assert!(self.segments_in_flight() < SEGMENTS_IN_FLIGHT_MAX, "the gate keeps others out");
        self.apply.enqueue(SealedData { sealed, put, frames, bypassed_bytes, lane });
        Ok(())
    }

    /// Starts the put of a data segment. Its end, and not its turn to be applied, makes it durable for those who wait
    /// (DRAIN-6).
    fn spawn_data_put(&self, sealed: &SealedSegment) -> JoinHandle<Result<()>> {
        let put = self.spawn_put(sealed.id, sealed.bytes.clone());
        let (me, seq) = (self.me.clone(), sealed.link.seq);
        self.drain.puts.begin(seq);
        self.reactor.spawn_join(async move {
            let outcome = put.await;
            if let Some(shard) = me.upgrade() {
                match &outcome {
                    Ok(()) => shard.data_put_ended(seq),
                    Err(error) => shard.fail("put of a data segment", error),
                }
            }
            outcome
        })
    }

    fn data_put_ended(&self, seq: u64) {
        self.drain.puts.end(seq);
        self.tell_witnesses();
        self.drain.puts.changed.notify_all();
    }

    /// Whether no put of a data segment is under way.
    pub(crate) fn no_data_put(&self) -> bool {
        self.drain.puts.are_none()
    }

    /// Waits until a data segment and all before it are durable (DRAIN-6).
    ///
    /// # Errors
    /// `NoSpace` while the media have no room for it: it may be durable later. `Unavailable` when the shard closed.
    pub(crate) async fn wait_segment(&self, seq: u64) -> Result<()> {
        while !self.segment_is_durable(seq) {
            self.check_running()?;
            if self.allocation.is_media_full() {
                return Err(self.no_space());
            }
            self.drain.puts.changed.notified().await;
        }
        Ok(())
    }

    /// Whether a data segment and all before it are durable (DRAIN-6).
    pub(crate) fn segment_is_durable(&self, seq: u64) -> bool {
        let puts = &self.drain.puts;
        puts.is_durable(seq) || planted(Bug::BypassAckedOutOfOrder) && puts.has_ended(seq)
    }
}
