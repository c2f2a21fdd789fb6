//! Moves durable records from the lane into data segments, in the order of their write sequence numbers.
//!
//! D1. Only durable records are drained, so nothing that a crash can undo ever kills a chunk.
//! D2. Records stand in data segments in `wseq` order, and so do all versions of a block, those that bypassed the lane included; a
//!     record is left out only when a durable newer one covers it.
//! D3. A frame is released with the data segment that was open when its last record was drained.
//! D4. Draining never waits for lane space or buffer credits.
//! D5. The gate is held for a frame as a whole: what bypasses the lane stands between frames, never within one.
//! D6. A segment counts as durable once it and all earlier ones of the chain have been put, applied or not.
//! D7. Durable frames linger in the lane, as newer ones may make what they hold needless: up to [`LINGER_NS`], and only while less than
//!     half of the credits is taken, there is space for all they stand for, and nobody waits for the trees to show them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::future::{Either, select};
use varve_logstore::format::frame::LanePoint;
use varve_logstore::format::record::{RecordHeader, RecordKind, decode_cut};
use varve_logstore::format::segment::SegmentKind;
use varve_logstore::format::summary::{Fingerprint, SummaryEntry, Unit};
use varve_logstore::lane::{Frame, Record};
use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::{BLOCK_ALIGN, SealSpec, Sealed, SegmentWriter, UNIT_ALIGN};
use varve_reactor::{JoinHandle, Notify};
use varve_stdx::checksum64;
use varve_types::limits::ADDRESS_UNIT;
use varve_types::{ChunkId, Compression, CutNumber, StreamId, WriteSeq};

use crate::admission::Credits;
use crate::apply::raw_unit;
use crate::config::BLOCK_BYTES;
use crate::{Result, Shard, fingerprint};

/// Address units of a block.
pub(crate) const BLOCK_UNITS: u64 = BLOCK_BYTES as u64 / ADDRESS_UNIT;

/// Data segments whose put is under way or whose entries are not in the map yet; bounds memory and recovery's full
/// verification.
const SEGMENTS_IN_FLIGHT_MAX: usize = 3;

/// How long durable frames linger in the lane at most.
const LINGER_NS: u64 = 1_000_000_000;

/// Blocks drained before other tasks get a turn: some 50 µs of work.
const BLOCKS_PER_TURN: usize = 32;

/// Fingerprints of blocks; none of streams that are not deduplicated.
pub(crate) type Fingerprints = Vec<Option<Fingerprint>>;

/// Which block of which write is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockSource {
    pub(crate) stream: StreamId,
    pub(crate) block: u64,
    pub(crate) wseq: WriteSeq,
    pub(crate) cut: CutNumber,
    pub(crate) class: u8,
    pub(crate) bypassed: bool,
}

/// Batches of fingerprints taken before other tasks get a turn: some 50 µs of work.
const BATCHES_PER_TURN: usize = 5;

/// A sealed data segment on its way to the map.
pub(crate) struct SealedData {
    pub(crate) sealed: Sealed,
    pub(crate) put: JoinHandle<Result<()>>,
    pub(crate) frames: Vec<Rc<Frame>>,
    /// Bytes that bypassed the lane, in credits.
    pub(crate) bypassed_bytes: u64,
    /// Where the lane continues once this segment is applied.
    pub(crate) lane: LanePoint,
}

/// Puts of data segments that are under way, or have ended while an earlier one is.
#[derive(Default)]
pub(crate) struct DataPuts {
    /// Whether each has ended, in the order of the chain from the witness on.
    ended: RefCell<VecDeque<bool>>,
    /// A put ended, or none will.
    pub(crate) changed: Notify,
}

/// The drain's own state.
pub(crate) struct Drain {
    pub(crate) writer: RefCell<SegmentWriter>,
    /// Frames whose last record lies in the open segment.
    pub(crate) frames: RefCell<Vec<Rc<Frame>>>,
    /// Bytes in the open segment that bypassed the lane.
    pub(crate) bypassed_bytes: Cell<u64>,
    /// Start of the first frame that is not wholly drained.
    pub(crate) point: Cell<LanePoint>,
    /// Mount whose frames stand at `point`.
    pub(crate) lane_mount: Cell<u64>,
    /// The open segment holds trims: what they free is free once it is applied.
    pub(crate) frees: Cell<bool>,
    /// Data were refused since it was opened.
    pub(crate) refused: Cell<bool>,
    /// Frames before this one do not linger.
    pub(crate) due_to: Cell<u64>,
    /// Frames may have become due.
    pub(crate) hurried: Notify,
    /// A frame was drained.
    pub(crate) advanced: Notify,
    pub(crate) puts: DataPuts,
    blocks_this_turn: Cell<usize>,
}

impl Drain {
    pub(crate) fn new(writer: SegmentWriter, point: LanePoint, lane_mount: u64) -> Self {
        Self {
            writer: RefCell::new(writer),
            frames: RefCell::default(),
            bypassed_bytes: Cell::new(0),
            point: Cell::new(point),
            lane_mount: Cell::new(lane_mount),
            frees: Cell::new(false),
            refused: Cell::new(false),
            due_to: Cell::new(0),
            hurried: Notify::new(),
            advanced: Notify::new(),
            puts: DataPuts::default(),
            blocks_this_turn: Cell::new(0),
        }
    }
}

impl Shard {
    /// Drains until the lane fails or the shard is dropped.
    pub(crate) async fn run_drain(self: Rc<Self>) -> Result<()> {
        while let Some(frame) = self.next_due().await {
            assert!(frame.is_durable(), "only durable frames are drained"); // D1
            let records = frame.records().clone();
            let fingerprints = self.fingerprints_of(&records).await;
            let _gate = self.data_gate.take(1).await;
            self.drain_frame(&frame, fingerprints).await?;
            if self.has_waiters() || self.drain.refused.get() {
                self.pressure.notify_one(); // It may have looked while this frame was still in the lane.
            }
        }
        Ok(())
    }

    /// The next durable frame once it is due (D7); none once the lane failed.
    async fn next_due(&self) -> Option<Rc<Frame>> {
        if !self.lane().durable().await {
            return None;
        }
        let end = self.reactor.sleep(LINGER_NS);
        let mut end = std::pin::pin!(end);
        while !self.is_drain_due() {
            let hurried = std::pin::pin!(self.drain.hurried.notified());
            if let Either::Right(_) = select(hurried, end.as_mut()).await {
                self.drain.due_to.set(self.lane().head().frame_seq);
            }
        }
        self.lane().take_durable()
    }

    /// Whether the first frame shall linger no longer (D7).
    fn is_drain_due(&self) -> bool {
        self.drain.point.get().frame_seq < self.drain.due_to.get()
            || self.is_half_taken()
            || self.drain.refused.get()
            || self.check_open().is_err()
            || !self.has_room_to_linger()
    }

    /// Whether half of what bounds the lane is taken, or somebody waits for some of it.
    fn is_half_taken(&self) -> bool {
        let half = |credits: &Credits| credits.taken() >= credits.total() / 2;
        let lane = self.lane().stats();
        half(&self.data_credits)
            || half(&self.record_credits)
            || lane.used_bytes >= lane.capacity_bytes / 2
            || self.has_waiters()
    }

    /// Tells the drain if half of what bounds the lane is taken.
    pub(crate) fn hurry_drain(&self) {
        if self.is_half_taken() {
            self.drain.hurried.notify_one();
        }
    }

    async fn drain_frame(&self, frame: &Rc<Frame>, fingerprints: Fingerprints) -> Result<()> {
        let records = frame.records().clone();
        let mut fingerprints = fingerprints.into_iter();
        for record in &records {
            self.drain_record(record, &mut fingerprints).await?;
        }
        self.drain.frames.borrow_mut().push(Rc::clone(frame)); // D3
        self.drain.point.set(frame.end());
        self.drain.advanced.notify_all();
        let stats = self.lane().stats();
        if stats.used_bytes > stats.capacity_bytes / 2 && self.segments_in_flight() == 0 {
            self.seal_data().await?;
        }
        Ok(())
    }

    /// Seals a part-filled segment when writers wait for buffer credits that only it can give back, or were refused although it frees
    /// space.
    pub(crate) async fn run_pressure(self: Rc<Self>) -> Result<()> {
        loop {
            self.pressure.notified().await;
            let _gate = self.data_gate.take(1).await;
            self.relieve().await?;
        }
    }

    async fn relieve(&self) -> Result<()> {
        let idle = self.segments_in_flight() == 0 && !self.lane().has_undrained();
        let wanted = self.has_waiters() || self.drain.frees.get() && self.drain.refused.get();
        let gives_back =
            !self.drain.frames.borrow().is_empty() || self.drain.bypassed_bytes.get() > 0;
        if wanted && idle && gives_back {
            self.seal_data().await?;
        }
        Ok(())
    }

    pub(crate) fn has_waiters(&self) -> bool {
        self.data_credits.is_contended() || self.record_credits.is_contended()
    }

    /// Fingerprints of the blocks of records, in order, those of writes whose streams are deduplicated. What is known of equal blocks
    /// is at hand then.
    pub(crate) async fn fingerprints_of(&self, records: &[Rc<Record>]) -> Fingerprints {
        let writes = records.iter().filter(|record| record.header.kind == RecordKind::Write);
        let blocks: Vec<_> = writes
            .flat_map(|record| {
                let blocks = record.payload.chunks_exact(BLOCK_BYTES);
                blocks.map(|block| (record.header.stream, block))
            })
            .collect();
        self.fingerprint_blocks(&blocks).await
    }

    /// As [`Self::fingerprints_of`], of blocks of streams.
    pub(crate) async fn fingerprint_blocks(&self, blocks: &[(StreamId, &[u8])]) -> Fingerprints {
        let mut fingerprints = vec![None; blocks.len()];
        let is_wanted = |index: &usize| {
            let (stream, block) = blocks[*index];
            self.reduction(stream).dedup && !is_zero(block)
        };
        let wanted: Vec<usize> = (0..blocks.len()).filter(is_wanted).collect();
        for (index, group) in wanted.chunks(fingerprint::BATCH).enumerate() {
            let group_blocks: Vec<_> = group.iter().map(|index| blocks[*index].1).collect();
            let found = self.reduce.fingerprinter.fingerprints(&group_blocks);
            for (index, fingerprint) in group.iter().zip(found) {
                fingerprints[*index] = fingerprint;
            }
            if index % BATCHES_PER_TURN == BATCHES_PER_TURN - 1 {
                self.reactor.yield_now().await;
            }
        }
        if !wanted.is_empty() {
            self.follow_hooks(&fingerprints).await;
        }
        fingerprints
    }

    /// Appends one record to the data segments, with the next ones of `fingerprints`. The caller holds the data gate.
    pub(crate) async fn drain_record(
        &self,
        record: &Record,
        fingerprints: &mut std::vec::IntoIter<Option<Fingerprint>>,
    ) -> Result<()> {
        let header = &record.header;
        match header.kind {
            RecordKind::Write => self.drain_write(record, fingerprints).await,
            RecordKind::Trim | RecordKind::Zero => {
                self.drain.frees.set(true);
                let block = header.offset_512 / BLOCK_UNITS;
                let count = header.len_512 / BLOCK_UNITS;
                let (stream, wseq) = (header.stream, header.wseq);
                let (block_count, cut) = (count, header.cut);
                let entry = if header.kind == RecordKind::Trim {
                    SummaryEntry::Trim { stream, block, block_count, wseq, cut, bypassed: false }
                } else {
                    SummaryEntry::Zero { stream, block, block_count, wseq, cut }
                };
                self.push_data_entry(entry, wseq).await
            }
            RecordKind::KeyPut | RecordKind::KeyDelete => {
                let unit = self.push_data_unit(&record.payload, header.payload_checksum).await?;
                let wseq = header.wseq;
                let entry = if header.kind == RecordKind::KeyPut {
                    SummaryEntry::KeyPut { wseq, unit }
                } else {
                    SummaryEntry::KeyDelete { wseq, unit }
                };
                self.drain.writer.borrow_mut().push_entry(entry, wseq);
                Ok(())
            }
            RecordKind::StreamDrop => {
                let (stream, wseq) = (header.stream, header.wseq);
                self.push_data_entry(SummaryEntry::StreamDrop { stream, wseq }, wseq).await
            }
            RecordKind::Cut => self.drain_cut(record).await,
            RecordKind::Grant | RecordKind::LargeRef => Ok(header.kind.check_supported()?),
        }
    }

    async fn drain_cut(&self, record: &Record) -> Result<()> {
        let copy = decode_cut(&record.payload)?;
        let RecordHeader { stream: source, wseq, .. } = record.header;
        self.sweep_before_cut(source).await?;
        let chunk_ceiling = self.trees.borrow().next_chunk; // The gate is held: nobody takes one until the entry stands.
        let entry = SummaryEntry::Cut { source, copy, wseq, chunk_ceiling };
        self.push_data_entry(entry, wseq).await?;
        self.cuts.drained(copy);
        Ok(())
    }

    async fn drain_write(
        &self,
        record: &Record,
        fingerprints: &mut std::vec::IntoIter<Option<Fingerprint>>,
    ) -> Result<()> {
        let header = &record.header;
        let first = header.offset_512 / BLOCK_UNITS;
        assert_eq!(record.payload.len() % BLOCK_BYTES, 0, "records hold whole blocks");
        let keeps_write = self.blocks.borrow().keeps_write(record.payload.len());
        let mut kept = Vec::new();
        for (index, data) in record.payload.chunks_exact(BLOCK_BYTES).enumerate() {
            let block = first + index as u64;
            let fingerprint = fingerprints.next().expect("one a block of a write");
            // Asked anew for each block: a cut may have come since the last one.
            let cut = self.cuts.oldest_in_lane(header.stream);
            let cut = cut.filter(|_| !planted(Bug::CutOverlooked));
            let newer = |pending: &crate::buffer::Pending| {
                let covers = pending.wseq > header.wseq && cut.is_none_or(|cut| pending.wseq < cut); // N2
                covers && self.is_durable(&pending.carrier)
            };
            if self.buffer.borrow().newest(header.stream, block).is_some_and(newer) {
                continue; // D2
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
            let chunk = self.store_block(&source, data, record.piece_checksum(index), fingerprint);
            if let Some(chunk) = chunk.filter(|_| keeps_write) {
                let start = index * BLOCK_BYTES;
                kept.push((chunk, record.payload.slice(start..start + BLOCK_BYTES)));
            }
            self.take_turn(header.stream).await;
        }
        self.blocks.borrow_mut().insert_run(kept);
        Ok(())
    }

    /// Appends a block to the open data segment, as little of it as has to be stored. The caller made sure that it fits as it is.
    /// Returns its chunk if it is a new one.
    pub(crate) fn store_block(
        &self,
        source: &BlockSource,
        data: &[u8],
        checksum: u64,
        fingerprint: Option<Fingerprint>,
    ) -> Option<ChunkId> {
        let BlockSource { stream, block, wseq, cut, class, bypassed } = *source;
        let push = |entry| self.drain.writer.borrow_mut().push_entry(entry, wseq);
        if is_zero(data) {
            push(SummaryEntry::Trim { stream, block, block_count: 1, wseq, cut, bypassed });
            return None;
        }
        let mut reducer = self.reduce.reducer.borrow_mut();
        if let Some(chunk) = fingerprint.and_then(|known| self.take_grant(known)) {
            self.counters.add_deduplicated();
            push(SummaryEntry::Reference { chunk, stream, block, wseq, cut, class, bypassed });
            return None;
        }
        let unit = match reducer.compress(stream, data, self.reduction(stream).compression) {
            None => {
                let offset = self.drain.writer.borrow_mut().push_unit(data, BLOCK_ALIGN);
                raw_unit(offset, BLOCK_ALIGN, checksum)
            }
            Some((codec, stored)) => {
                let offset = self.drain.writer.borrow_mut().push_unit(stored, UNIT_ALIGN);
                let len = u32::try_from(stored.len()).expect("shorter than a block");
                let unit = raw_unit(offset, len, checksum64(stored));
                let logical_512 = u16::try_from(BLOCK_UNITS).expect("a block is small");
                Unit { codec, logical_512, ..unit }
            }
        };
        self.counters.add_stored(unit.stored_len);
        let chunk = self.trees.borrow_mut().fresh_chunk();
        if let Some(fingerprint) = fingerprint {
            let segment = self.drain.writer.borrow().slot();
            self.dedup.borrow_mut().learn(fingerprint, chunk, segment);
        }
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
        if !self.drain.writer.borrow().fits(0) || self.is_enough_for_stuck() {
            self.seal_data().await?;
        }
        self.drain.writer.borrow_mut().push_entry(entry, wseq);
        Ok(())
    }

    pub(crate) fn segments_in_flight(&self) -> usize {
        self.apply_queue.borrow().len()
    }

    /// Seals the open data segment, if it holds anything, and starts its put. The caller holds the data gate.
    pub(crate) async fn seal_data(&self) -> Result<()> {
        if self.drain.writer.borrow().is_empty() {
            return Ok(());
        }
        while self.segments_in_flight() >= SEGMENTS_IN_FLIGHT_MAX {
            self.check_running()?; // Nothing is applied any more once the shard failed.
            self.applied.notified().await;
        }
        let next_slot = self.take_segment(SegmentKind::Data).await?;
        let generation = self.fresh_generation();
        let lane = self.drain.point.get();
        let sealed = self.drain.writer.borrow_mut().seal(SealSpec {
            generation,
            next_slot,
            lane,
            lane_mount: self.drain.lane_mount.get(),
            witness: self.data_witness.get(),
        });
        self.space.borrow_mut().opened(sealed.id, sealed.wseq_last);
        tracing::trace!(id = ?sealed.id, link = ?sealed.link, entries = sealed.entries.len(), "data segment sealed");
        self.counters.add_data_segment(&sealed);
        self.drain.frees.set(false);
        self.drain.refused.set(false);
        let frames = std::mem::take(&mut *self.drain.frames.borrow_mut());
        let bypassed_bytes = self.drain.bypassed_bytes.take();
        let put = self.spawn_data_put(&sealed);
        self.entries_in_flight.set(self.entries_in_flight.get() + sealed.entries.len());
        let sealed = SealedData { sealed, put, frames, bypassed_bytes, lane };
        self.apply_queue.borrow_mut().push_back(Some(sealed));
        self.appliable.notify_one();
        Ok(())
    }

    /// Starts the put of a data segment. Its end, and not its turn to be applied, makes it durable for those who wait (D6).
    fn spawn_data_put(&self, sealed: &Sealed) -> JoinHandle<Result<()>> {
        let put = self.spawn_put(sealed.id, sealed.bytes.clone());
        self.drain.puts.ended.borrow_mut().push_back(false);
        let (me, seq) = (self.me.clone(), sealed.link.seq);
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
        let mut ended = self.drain.puts.ended.borrow_mut();
        let mut witness = self.data_witness.get();
        let index = usize::try_from(seq - witness - 1).expect("bounded by the segments in flight");
        ended[index] = true;
        while ended.pop_front_if(|ended| *ended).is_some() {
            witness += 1;
        }
        drop(ended);
        self.data_witness.set(witness);
        self.tell_witnesses();
        self.drain.puts.changed.notify_all();
    }

    /// Whether no put of a data segment is under way.
    pub(crate) fn no_data_put(&self) -> bool {
        self.drain.puts.ended.borrow().is_empty()
    }

    /// Waits until a data segment and all before it are durable (D6).
    ///
    /// # Errors
    /// `NoSpace` while the media have no room for it: it may be durable later. `Unavailable` when the shard closed.
    pub(crate) async fn wait_segment(&self, seq: u64) -> Result<()> {
        while !self.segment_is_durable(seq) {
            self.check_running()?;
            if self.media_full.get() {
                return Err(self.no_space());
            }
            self.drain.puts.changed.notified().await;
        }
        Ok(())
    }

    /// Whether a data segment and all before it are durable (D6).
    pub(crate) fn segment_is_durable(&self, seq: u64) -> bool {
        let later = seq.saturating_sub(self.data_witness.get());
        if later > 0 && planted(Bug::BypassAckedOutOfOrder) {
            let index = usize::try_from(later - 1).expect("bounded by the segments in flight");
            return self.drain.puts.ended.borrow().get(index) == Some(&true);
        }
        later == 0
    }
}

/// Whether all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<64>();
    rest.iter().all(|byte| *byte == 0)
        && words.iter().all(|word| word.iter().fold(0, |all, byte| all | byte) == 0)
}

#[cfg(test)]
mod tests {
    use super::is_zero;

    #[test]
    fn one_bit_anywhere_is_not_zero() {
        let mut bytes = vec![0; 4096 + 7];
        assert!(is_zero(&bytes));
        for at in [0, 63, 64, 4095, 4096, 4102] {
            bytes[at] = 1;
            assert!(!is_zero(&bytes));
            bytes[at] = 0;
        }
    }
}
