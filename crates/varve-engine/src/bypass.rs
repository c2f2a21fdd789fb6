//! Large writes past the lane: appended to the open data segment at once, and answered when it is durable with all
//! before it. Their bytes are written once instead of twice.
//!
//! ```text
//!  admitted ──gate──▶ in the open data segment ──seal, put──▶ durable with all before, answered ──apply──▶ in the map
//! ```
//!
//! BYPASS-1. A number is given, blocks appended and entered in the write buffer in one step without a pause, under the
//!     data gate.
//! BYPASS-2. Nothing overtakes the lane: while the lane holds a version of a block that is not in the map yet, or
//!     somebody is about to write one, a write of that block goes through the lane. So versions of a block stand in
//!     segments in the order of their numbers, and no lane record is replayed over a newer block.
//! BYPASS-3. Writes begin to bypass the lane when a segment's worth of large ones is under way, and go on as long as
//!     one that did waits for its segment. What they leave in a segment that does not fill up is sealed after a bounded
//!     time (AGGREGATION-2), or as soon as somebody waits for credits (AGGREGATION-4).
//! BYPASS-4. Credits are held until the segment is applied, as those of frames are.

mod state;

use std::rc::Rc;

use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::BLOCK_ALIGN;
use varve_stdx::{BufSlice, checksum64};
use varve_types::{BlockIndex, ByteOffset, ByteRange, ChunkId, CutNumber, StreamId};

use crate::aggregation::{WriteThrough, write_through};
use crate::buffer::{BufferedBlock, BufferedContent, Carrier};
use crate::config::BLOCK_BYTES;
use crate::drain::BlockSource;
use crate::peers::DedupLookup;
use crate::sampling::FingerprintScope;
use crate::{Result, Shard};

pub(crate) use state::Bypass;

/// Whole blocks of a write from which on it is large. Smaller ones are answered sooner by the lane, whose frames take
/// many of them, and what is overwritten while it is in the lane is never written again; at this size a frame's header
/// costs 2 % and the copy counts.
const LARGE_BYTES_MIN: u64 = 64 << 10;

/// Bytes of a write that are appended in one hold of the gate: stored raw they lie side by side, and are read back by
/// one media read.
pub(crate) const BYPASS_BYTES_MAX: usize = 1 << 20;

const _: () = assert!(BYPASS_BYTES_MAX.is_multiple_of(BLOCK_BYTES), "whole blocks");

const _: () =
    assert!(BYPASS_BYTES_MAX as u64 >= LARGE_BYTES_MIN, "a large write is appended at once");

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A large write under way, until it is dropped.
pub(crate) struct LargeWrite<'a> {
    bypass: &'a Bypass,
    bytes: u64,
}

impl Drop for LargeWrite<'_> {
    fn drop(&mut self) {
        let under_way = self.bypass.bytes_under_way.get();
        assert!(under_way >= self.bytes, "a write counts until it ends"); // BYPASS-3
        self.bypass.bytes_under_way.set(under_way - self.bytes);
    }
}

/// How far a write got past the lane.
pub(crate) struct BypassProgress {
    pub(crate) bytes: usize,
    /// The last segment that holds some of it.
    pub(crate) segment: Option<u64>,
}

/// What is known of blocks that are appended.
struct KnownRun<'a> {
    blocks: &'a [Option<DedupLookup>],
    /// Their checksums, where they were needed before; otherwise empty.
    checksums: &'a [u64],
}

impl Shard {
    /// Counts a write of these bytes as under way, if it is a large one.
    pub(crate) fn large_write(&self, range: ByteRange) -> Option<LargeWrite<'_>> {
        let (first, end) = (ByteOffset(range.start).next_block(), ByteOffset(range.end).block());
        let bytes = end.0.saturating_sub(first.0) * BLOCK;
        let bypass = &self.drain.bypass;
        (bytes >= LARGE_BYTES_MIN).then(|| {
            bypass.bytes_under_way.set(bypass.bytes_under_way.get() + bytes);
            LargeWrite { bypass, bytes }
        })
    }

    /// Whether large writes under way fill segments by themselves, or one more joins others that wait for theirs
    /// (BYPASS-3).
    pub(crate) fn large_writes_fill_segments(&self) -> bool {
        self.drain.bypass.bytes_under_way.get() >= self.segment_payload()
            || !self.segment_is_durable(self.drain.bypass.last_segment.get())
    }

    /// Appends whole blocks to data segments, up to the first that would overtake the lane (BYPASS-2).
    ///
    /// # Errors
    /// As [`Self::write`]; what was appended before may happen.
    pub(crate) async fn write_past_lane(
        &self,
        stream: StreamId,
        block: BlockIndex,
        data: &BufSlice,
    ) -> Result<BypassProgress> {
        assert!(data.len().is_multiple_of(BLOCK_BYTES), "whole blocks");
        assert!(data.len() <= BYPASS_BYTES_MAX, "what is longer is cut before");
        let mut credits = self.admit(stream, data.len()).await?;
        let fingerprinted = self.fingerprinted(stream);
        let checksums: Vec<u64> = if fingerprinted == FingerprintScope::Sample {
            data.chunks_exact(BLOCK_BYTES).map(checksum64).collect()
        } else {
            Vec::new()
        };
        let blocks: Vec<_> = data
            .chunks_exact(BLOCK_BYTES)
            .enumerate()
            .map(
                |(index, block)| {
                    if fingerprinted.takes(|| checksums[index]) { block } else { &[][..] }
                },
            )
            .collect();
        let known = self.lookup_duplicates(&blocks).await;
        let _gate = self.drain.gate.take(1).await;
        let mut passed = BypassProgress { bytes: 0, segment: None };
        let keeps_write = self.caches.blocks.borrow().keeps_write(data.len());
        let mut kept = Vec::new();
        while passed.bytes < data.len() {
            self.check_open()?;
            if self.fits_a_block() {
                let run_bytes = self.blocks_per_turn(stream) * BLOCK_BYTES;
                let end = data.len().min(passed.bytes + run_bytes);
                let run = data.slice(passed.bytes..end);
                let first = block + passed.bytes as u64 / BLOCK;
                if self.would_overtake(stream, first, first + run.len() as u64 / BLOCK) {
                    break;
                }
                passed.segment = Some(self.drain.writer.borrow().seq());
                let done = passed.bytes / BLOCK_BYTES;
                let known = KnownRun {
                    blocks: &known[done..],
                    checksums: checksums.get(done..).unwrap_or_default(),
                };
                let appended =
                    self.append_run(stream, first, &run, &known, keeps_write.then_some(&mut kept));
                credits.keep_part(appended as u64); // BYPASS-4
                passed.bytes += appended;
                self.reactor.yield_now().await;
            }
            if !self.fits_a_block()
                && let Err(error) = self.seal_data().await
            {
                self.fail("bypass", &error);
                return Err(error);
            }
        }
        self.caches.blocks.borrow_mut().insert_run(kept);
        Ok(passed)
    }

    /// Whether a block fits the open data segment, stored as it is.
    pub(crate) fn fits_a_block(&self) -> bool {
        self.drain.writer.borrow().fits(BLOCK_ALIGN)
    }

    fn would_overtake(&self, stream: StreamId, first: BlockIndex, end: BlockIndex) -> bool {
        let journaled = self.admission.buffer.borrow().is_journaled(stream, first, end);
        let is_cut = self.admission.cuts.is_in_lane(stream) && !planted(Bug::BypassOvertakesCut); // CUT-3
        is_cut
            || self.admission.claims.any(stream, first, end)
            || journaled && !planted(Bug::BypassOvertakesLane)
    }

    /// Appends as many blocks as fit the open segment (BYPASS-1); returns their bytes, and adds new chunks to `kept`.
    /// The caller holds the data gate.
    fn append_run(
        &self,
        stream: StreamId,
        first: BlockIndex,
        run: &BufSlice,
        known: &KnownRun<'_>,
        mut kept: Option<&mut Vec<(ChunkId, BufSlice)>>,
    ) -> usize {
        assert!(self.admission.credits.data.taken() > 0, "credits come before data"); // BYPASS-4
        assert!(self.drain.gate.taken() > 0, "who appends holds the gate"); // BYPASS-1
        assert!(run.len().is_multiple_of(BLOCK_BYTES), "whole blocks");
        let (seq, wseq) = (self.drain.writer.borrow().seq(), self.admission.fresh_wseq());
        let mut done = 0;
        while done < run.len() && self.fits_a_block() {
            let block = first + done as u64 / BLOCK;
            let data = run.slice(done..done + BLOCK_BYTES);
            let source =
                BlockSource { stream, block, wseq, cut: CutNumber(0), class: 0, bypassed: true };
            let index = done / BLOCK_BYTES;
            let checksum = known.checksums.get(index).copied();
            let checksum = checksum.unwrap_or_else(|| checksum64(&data));
            let chunk = self.store_block(&source, &data, checksum, known.blocks[index].as_ref());
            if let Some((kept, chunk)) = kept.as_mut().zip(chunk) {
                kept.push((chunk, data.clone()));
            }
            let pending = BufferedBlock {
                wseq,
                carrier: Carrier::Segment(seq),
                content: BufferedContent::Data(data),
            };
            self.admission.buffer.borrow_mut().insert(stream, block, pending);
            done += BLOCK_BYTES;
        }
        self.drain.bypassed_bytes.set(self.drain.bypassed_bytes.get() + done as u64);
        self.drain.bypass.last_segment.set(seq);
        self.counters.add_bypassed(done);
        self.drain.bypass.appended.notify_one();
        if self.has_waiters() {
            self.admission.press(); // It may have looked before this was in the segment.
        }
        assert!(done > 0, "the caller looked whether a block fits");
        done
    }

    /// Seals a part-filled segment that writes wait for when nothing is about to fill it (BYPASS-3).
    pub(crate) async fn run_bypass(self: Rc<Self>) -> Result<()> {
        loop {
            self.drain.bypass.appended.notified().await;
            loop {
                match write_through(self.drain.bypassed_bytes.get(), !self.no_data_put()) {
                    WriteThrough::Idle => break,
                    WriteThrough::AwaitPut => self.drain.puts.changed.notified().await,
                    WriteThrough::SealAfter { after_ns } => {
                        let seq = self.drain.writer.borrow().seq();
                        self.reactor.sleep(after_ns).await;
                        let _gate = self.drain.gate.take(1).await;
                        if self.drain.writer.borrow().seq() == seq {
                            self.seal_data().await?;
                        }
                    }
                }
            }
        }
    }
}
