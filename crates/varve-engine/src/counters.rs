//! What a shard has done since it was opened, for status, metrics and benchmarks.

use std::cell::Cell;

use varve_logstore::lane::JournalStats;
use varve_logstore::segment_writer::SealedSegment;
use varve_logstore::space::SpaceStats;

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

    /// What was counted, and nothing of the shard's state.
    pub(crate) fn stats(&self) -> ShardStats {
        ShardStats {
            writes: self.writes.get(),
            write_bytes: self.write_bytes.get(),
            bypassed_bytes: self.bypassed_bytes.get(),
            foreign_blocks: self.foreign_blocks.get(),
            late_answers: self.late_answers.get(),
            deduplicated_blocks: self.deduplicated_blocks.get(),
            stored_blocks: self.stored_blocks.get(),
            stored_bytes: self.stored_bytes.get(),
            reads: self.reads.get(),
            read_bytes: self.read_bytes.get(),
            media_read_bytes: self.media_read_bytes.get(),
            page_reads: self.page_reads.get(),
            data_segments: self.data_segments.get(),
            data_segment_bytes: self.data_segment_bytes.get(),
            metadata_bytes: self.metadata_bytes.get(),
            reclaimed_bytes: self.reclaimed_bytes.get(),
            moved_bytes: self.moved_bytes.get(),
            reclaim_read_bytes: self.reclaim_read_bytes.get(),
            checkpoints: self.checkpoints.get(),
            folded_deaths: self.folded_deaths.get(),
            swept_pages: self.swept_pages.get(),
            folded_leaves: self.folded_leaves.get(),
            checksum_errors: self.checksum_errors.get(),
            ..ShardStats::default()
        }
    }
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
