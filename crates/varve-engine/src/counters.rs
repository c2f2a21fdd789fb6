//! What a shard has done since it was opened, for status, metrics and benchmarks.

use std::cell::Cell;

use varve_logstore::lane::JournalStats;
use varve_logstore::segment_writer::SealedSegment;
use varve_logstore::space::SpaceStats;

use crate::config::BLOCK_BYTES;

/// Counters; each only grows.
#[derive(Default)]
pub(crate) struct Counters {
    writes: Cell<u64>,
    write_bytes: Cell<u64>,
    bypassed_bytes: Cell<u64>,
    foreign_blocks: Cell<u64>,
    late_answers: Cell<u64>,
    deduplicated_blocks: Cell<u64>,
    stored_blocks: Cell<u64>,
    stored_bytes: Cell<u64>,
    reads: Cell<u64>,
    read_bytes: Cell<u64>,
    media_read_bytes: Cell<u64>,
    page_reads: Cell<u64>,
    data_segments: Cell<u64>,
    data_segment_bytes: Cell<u64>,
    metadata_bytes: Cell<u64>,
    reclaimed_bytes: Cell<u64>,
    moved_bytes: Cell<u64>,
    reclaim_read_bytes: Cell<u64>,
    checkpoints: Cell<u64>,
    folded_deaths: Cell<u64>,
    swept_pages: Cell<u64>,
    folded_leaves: Cell<u64>,
    checksum_errors: Cell<u64>,
}

fn add(cell: &Cell<u64>, amount: u64) {
    cell.set(cell.get() + amount);
}

impl Counters {
    pub(crate) fn add_write(&self, bytes: u32) {
        add(&self.writes, 1);
        add(&self.write_bytes, u64::from(bytes));
    }

    pub(crate) fn add_bypassed(&self, bytes: usize) {
        add(&self.writes, 1);
        add(&self.write_bytes, bytes as u64);
        add(&self.bypassed_bytes, bytes as u64);
    }

    pub(crate) fn add_deduplicated(&self) {
        add(&self.deduplicated_blocks, 1);
    }

    pub(crate) fn add_foreign(&self) {
        add(&self.deduplicated_blocks, 1);
        add(&self.foreign_blocks, 1);
    }

    pub(crate) fn add_stored(&self, bytes: u32) {
        add(&self.stored_blocks, 1);
        add(&self.stored_bytes, u64::from(bytes));
    }

    pub(crate) fn add_read(&self, bytes: usize) {
        add(&self.reads, 1);
        add(&self.read_bytes, bytes as u64);
    }

    pub(crate) fn add_media_read(&self, bytes: u32) {
        add(&self.media_read_bytes, u64::from(bytes));
    }

    pub(crate) fn add_data_segment(&self, sealed: &SealedSegment) {
        add(&self.data_segments, 1);
        add(&self.data_segment_bytes, sealed.bytes.len() as u64);
    }

    pub(crate) fn add_metadata_segment(&self, sealed: &SealedSegment) {
        add(&self.metadata_bytes, sealed.bytes.len() as u64);
    }

    pub(crate) fn add_page_copy(&self, bytes: usize) {
        add(&self.metadata_bytes, bytes as u64);
    }

    pub(crate) fn add_reclaimed_segment(&self, sealed: &SealedSegment) {
        add(&self.reclaimed_bytes, sealed.bytes.len() as u64);
    }

    pub(crate) fn add_moved(&self, bytes: u32) {
        add(&self.moved_bytes, u64::from(bytes));
    }

    pub(crate) fn add_reclaim_read(&self, bytes: usize) {
        add(&self.reclaim_read_bytes, bytes as u64);
    }

    pub(crate) fn add_late_answer(&self) {
        add(&self.late_answers, 1);
    }

    pub(crate) fn add_page_read(&self) {
        add(&self.page_reads, 1);
    }

    pub(crate) fn page_reads(&self) -> u64 {
        self.page_reads.get()
    }

    pub(crate) fn writes(&self) -> u64 {
        self.writes.get()
    }

    pub(crate) fn add_checkpoint(&self) {
        add(&self.checkpoints, 1);
    }

    /// Counts a visit to a leaf of the table; returns how many there were.
    pub(crate) fn add_folded_leaf(&self, deaths: usize) -> u64 {
        add(&self.folded_leaves, 1);
        add(&self.folded_deaths, deaths as u64);
        self.folded_leaves.get()
    }

    pub(crate) fn add_swept_pages(&self, count: u64) {
        add(&self.swept_pages, count);
    }

    pub(crate) fn add_checksum_error(&self) {
        add(&self.checksum_errors, 1);
    }

    /// What was counted, and what the shard holds. Without `..`: a field that is added has to be filled.
    pub(crate) fn stats(&self, gauges: StateGauges) -> ShardStats {
        assert!(self.foreign_blocks.get() <= self.deduplicated_blocks.get(), "these are a part");
        assert!(self.bypassed_bytes.get() <= self.write_bytes.get(), "these are a part");
        let plain_bytes = self.stored_blocks.get().saturating_mul(BLOCK_BYTES as u64);
        assert!(self.stored_bytes.get() <= plain_bytes, "no block is stored as more than it is"); // REDUCE-1
        let (leaves, deaths) = (self.folded_leaves.get(), self.folded_deaths.get());
        assert!(leaves <= deaths, "a visit to a leaf deals with one at least");
        ShardStats {
            writes: self.writes.get(),
            write_bytes: self.write_bytes.get(),
            bypassed_bytes: self.bypassed_bytes.get(),
            deduplicated_blocks: self.deduplicated_blocks.get(),
            foreign_blocks: self.foreign_blocks.get(),
            late_answers: self.late_answers.get(),
            kept_bytes: gauges.kept_bytes,
            stored_blocks: self.stored_blocks.get(),
            stored_bytes: self.stored_bytes.get(),
            data_chunks: gauges.data_chunks,
            data_bytes: gauges.data_bytes,
            dedup_index_entries: gauges.dedup_index_entries,
            reads: self.reads.get(),
            read_bytes: self.read_bytes.get(),
            media_read_bytes: self.media_read_bytes.get(),
            page_reads: self.page_reads.get(),
            data_segments: self.data_segments.get(),
            data_segment_bytes: self.data_segment_bytes.get(),
            metadata_bytes: self.metadata_bytes.get(),
            uncopied_segments: gauges.uncopied_segments,
            reclaimed_bytes: self.reclaimed_bytes.get(),
            moved_bytes: self.moved_bytes.get(),
            reclaim_read_bytes: self.reclaim_read_bytes.get(),
            reclaimed_segments: gauges.reclaimed_segments,
            checkpoints: self.checkpoints.get(),
            folded_deaths: self.folded_deaths.get(),
            folded_leaves: self.folded_leaves.get(),
            checksum_errors: self.checksum_errors.get(),
            lane: gauges.lane,
            space: gauges.space,
            segment_bytes: gauges.segment_bytes,
            buffer_bytes: gauges.buffer_bytes,
            buffer_bytes_max: gauges.buffer_bytes_max,
            buffered_blocks: gauges.buffered_blocks,
            page_cache_bytes: gauges.page_cache_bytes,
            dirty_bytes: gauges.dirty_bytes,
            waiting_deaths: gauges.waiting_deaths,
            deaths_bytes: gauges.deaths_bytes,
            waiting_updates: gauges.waiting_updates,
            updates_bytes: gauges.updates_bytes,
            swept_pages: self.swept_pages.get(),
            block_cache_bytes: gauges.block_cache_bytes,
            block_cache_hits: gauges.block_cache_hits,
            block_cache_misses: gauges.block_cache_misses,
            room_bytes: gauges.room_bytes,
            reach_bytes: gauges.reach_bytes,
            spare_bytes: gauges.spare_bytes,
            media_full: gauges.media_full,
            reserved_bytes: gauges.reserved_bytes,
            outstanding_bytes: gauges.outstanding_bytes,
        }
    }
}

/// What a shard holds at one moment, for the fields of [`ShardStats`] of the same names: what is not counted.
pub(crate) struct StateGauges {
    pub kept_bytes: u64,
    pub data_chunks: u64,
    pub data_bytes: u64,
    pub dedup_index_entries: u64,
    pub uncopied_segments: u64,
    pub reclaimed_segments: u64,
    pub lane: JournalStats,
    pub space: SpaceStats,
    pub segment_bytes: u64,
    pub buffer_bytes: u64,
    pub buffer_bytes_max: u64,
    pub buffered_blocks: u64,
    pub page_cache_bytes: u64,
    pub dirty_bytes: u64,
    pub waiting_deaths: u64,
    pub deaths_bytes: u64,
    pub waiting_updates: u64,
    pub updates_bytes: u64,
    pub block_cache_bytes: u64,
    pub block_cache_hits: u64,
    pub block_cache_misses: u64,
    pub room_bytes: u64,
    pub reach_bytes: u64,
    pub spare_bytes: u64,
    pub media_full: bool,
    pub reserved_bytes: u64,
    pub outstanding_bytes: u64,
}

/// A shard's state in numbers. Amounts are bytes unless their name says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShardStats {
    /// Write records admitted.
    pub writes: u64,
    /// Bytes of them, whole blocks.
    pub write_bytes: u64,
    /// Of these, bytes that bypassed the lane.
    pub bypassed_bytes: u64,
    /// Blocks that were stored already when they were drained.
    pub deduplicated_blocks: u64,
    /// Of these, blocks that another shard has.
    pub foreign_blocks: u64,
    /// Times that other shards were not waited for any longer.
    pub late_answers: u64,
    /// Bytes of shared chunks that lost a name and that no mark pass has looked at since.
    pub kept_bytes: u64,
    /// Blocks that were stored.
    pub stored_blocks: u64,
    /// Bytes of them as stored.
    pub stored_bytes: u64,
    /// Chunks of data in the chunk table, those that wait for mark included.
    pub data_chunks: u64,
    /// Bytes of segments that these take, their entries in summaries included.
    pub data_bytes: u64,
    /// Blocks that the index of stored blocks knows.
    pub dedup_index_entries: u64,
    /// Reads answered.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Bytes read from media for reads.
    pub media_read_bytes: u64,
    /// Metadata pages read from media.
    pub page_reads: u64,
    /// Data segments written.
    pub data_segments: u64,
    /// Bytes of data segments written.
    pub data_segment_bytes: u64,
    /// Bytes of metadata segments written, second copies included.
    pub metadata_bytes: u64,
    /// Segments with metadata pages that had no second copy at the last checkpoint.
    pub uncopied_segments: u64,
    /// Bytes of reclaimed segments written.
    pub reclaimed_bytes: u64,
    /// Bytes of live units moved by reclaim.
    pub moved_bytes: u64,
    /// Bytes read by reclaim.
    pub reclaim_read_bytes: u64,
    /// Segments that reclaim gave back.
    pub reclaimed_segments: u64,
    /// Checkpoints made.
    pub checkpoints: u64,
    /// Overwritten chunks that were taken out of the chunk table.
    pub folded_deaths: u64,
    /// Visits to leaves of the table that this took.
    pub folded_leaves: u64,
    /// Reads of damaged data.
    pub checksum_errors: u64,
    /// The journal lane.
    pub lane: JournalStats,
    /// Segments and live bytes.
    pub space: SpaceStats,
    /// Bytes of one segment slot.
    pub segment_bytes: u64,
    /// Undrained bytes, in credits.
    pub buffer_bytes: u64,
    /// Most of them.
    pub buffer_bytes_max: u64,
    /// Blocks in the write buffer.
    pub buffered_blocks: u64,
    /// Bytes of cached metadata pages.
    pub page_cache_bytes: u64,
    /// Of these, changed since the last checkpoint.
    pub dirty_bytes: u64,
    /// Chunks of data that were overwritten and are still in the chunk table.
    pub waiting_deaths: u64,
    /// Bytes of the set of those.
    pub deaths_bytes: u64,
    /// Map updates that wait.
    pub waiting_updates: u64,
    /// Bytes of those.
    pub updates_bytes: u64,
    /// Pages of maps for which some were put in together.
    pub swept_pages: u64,
    /// Bytes of cached data.
    pub block_cache_bytes: u64,
    /// Hits in the data cache.
    pub block_cache_hits: u64,
    /// Misses in the data cache.
    pub block_cache_misses: u64,
    /// Bytes that more data may take in the segments the shard has.
    pub room_bytes: u64,
    /// As much once the shard has all segments that could be lent to it.
    pub reach_bytes: u64,
    /// Bytes of segments that the shard could give to others.
    pub spare_bytes: u64,
    /// The media have no room for more segments, though they have slots.
    pub media_full: bool,
    /// Space that is promised to streams, whether they hold it or not.
    pub reserved_bytes: u64,
    /// Of it, what they do not hold yet: others may not have it.
    pub outstanding_bytes: u64,
}
