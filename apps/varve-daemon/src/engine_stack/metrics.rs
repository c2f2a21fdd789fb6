//! A shard's counters and gauges under the names that Prometheus reads.

use varve_access_admin::MetricKind::{self, Counter, Gauge};
use varve_dispatch::ShardStats;
use varve_media::{CacheStats, DiskOperation, DiskStats};
use varve_media_redundancy::DriveHandles;

use crate::stack::ShardMetric;

type Row = (&'static str, MetricKind, &'static str, fn(&ShardStats) -> u64);

/// Every metric of a shard: name, kind, meaning, value.
const ROWS: &[Row] = &[
    ("varve_engine_writes_total", Counter, "Write records admitted.", |s| s.writes),
    ("varve_engine_write_bytes_total", Counter, "Bytes of write records.", |s| s.write_bytes),
    ("varve_engine_reads_total", Counter, "Reads answered.", |s| s.reads),
    ("varve_engine_read_bytes_total", Counter, "Bytes of reads answered.", |s| s.read_bytes),
    ("varve_engine_media_read_bytes_total", Counter, "Bytes read from media for reads.", |s| {
        s.media_read_bytes
    }),
    ("varve_engine_page_reads_total", Counter, "Metadata pages read from media.", |s| s.page_reads),
    ("varve_engine_checksum_errors_total", Counter, "Reads that met damaged data.", |s| {
        s.checksum_errors
    }),
    ("varve_engine_checkpoints_total", Counter, "Checkpoints made.", |s| s.checkpoints),
    ("varve_engine_undrained_bytes", Gauge, "Bytes acknowledged but not in segments yet.", |s| {
        s.buffer_bytes
    }),
    ("varve_engine_undrained_limit_bytes", Gauge, "Bound on undrained bytes.", |s| {
        s.buffer_bytes_max
    }),
    ("varve_engine_page_cache_bytes", Gauge, "Bytes of cached metadata pages.", |s| {
        s.page_cache_bytes
    }),
    (
        "varve_engine_page_dirty_bytes",
        Gauge,
        "Bytes of cached metadata pages that changed since the last checkpoint.",
        |s| s.dirty_bytes,
    ),
    ("varve_engine_waiting_deaths", Gauge, "Overwritten chunks still in the chunk table.", |s| {
        s.waiting_deaths
    }),
    (
        "varve_engine_waiting_updates",
        Gauge,
        "Map updates that wait for others of their page.",
        |s| s.waiting_updates,
    ),
    ("varve_engine_block_cache_bytes", Gauge, "Bytes of cached data blocks.", |s| {
        s.block_cache_bytes
    }),
    ("varve_engine_block_cache_hits_total", Counter, "Blocks found in the data cache.", |s| {
        s.block_cache_hits
    }),
    (
        "varve_engine_block_cache_misses_total",
        Counter,
        "Blocks not found in the data cache.",
        |s| s.block_cache_misses,
    ),
    ("varve_logstore_lane_used_bytes", Gauge, "Bytes of the lane still needed.", |s| {
        s.lane.used_bytes
    }),
    ("varve_logstore_lane_size_bytes", Gauge, "Bytes of the lane.", |s| s.lane.capacity_bytes),
    ("varve_logstore_lane_written_bytes_total", Counter, "Bytes appended to the lane.", |s| {
        s.lane.written_bytes
    }),
    ("varve_engine_bypassed_bytes_total", Counter, "Bytes written past the lane.", |s| {
        s.bypassed_bytes
    }),
    (
        "varve_engine_deduplicated_blocks_total",
        Counter,
        "Blocks that were stored already when they were drained.",
        |s| s.deduplicated_blocks,
    ),
    (
        "varve_engine_foreign_blocks_total",
        Counter,
        "Blocks that another shard had stored already when they were drained.",
        |s| s.foreign_blocks,
    ),
    (
        "varve_engine_late_answers_total",
        Counter,
        "Times that blocks were stored once more, for other shards did not answer in time.",
        |s| s.late_answers,
    ),
    ("varve_engine_stored_blocks_total", Counter, "Blocks that were stored.", |s| s.stored_blocks),
    (
        "varve_engine_stored_bytes_total",
        Counter,
        "Bytes of the blocks that were stored, after compression.",
        |s| s.stored_bytes,
    ),
    ("varve_engine_data_chunks", Gauge, "Chunks of data in the chunk table.", |s| s.data_chunks),
    (
        "varve_engine_data_bytes",
        Gauge,
        "Stored bytes of the chunks in the chunk table, with their summary entries.",
        |s| s.data_bytes,
    ),
    ("varve_logstore_lane_frames_total", Counter, "Frames appended to the lane.", |s| {
        s.lane.frames
    }),
    (
        "varve_logstore_lane_records_total",
        Counter,
        "Records in the frames that were appended to the lane.",
        |s| s.lane.records,
    ),
    ("varve_logstore_data_segments_total", Counter, "Data segments written.", |s| s.data_segments),
    ("varve_logstore_data_bytes_total", Counter, "Bytes of data segments written.", |s| {
        s.data_segment_bytes
    }),
    ("varve_logstore_metadata_bytes_total", Counter, "Bytes of metadata segments written.", |s| {
        s.metadata_bytes
    }),
    (
        "varve_logstore_reclaimed_bytes_total",
        Counter,
        "Bytes of reclaimed segments written.",
        |s| s.reclaimed_bytes,
    ),
    ("varve_logstore_moved_bytes_total", Counter, "Bytes of live units that reclaim moved.", |s| {
        s.moved_bytes
    }),
    ("varve_logstore_reclaim_read_bytes_total", Counter, "Bytes that reclaim read.", |s| {
        s.reclaim_read_bytes
    }),
    ("varve_logstore_reclaimed_segments_total", Counter, "Segments that reclaim gave back.", |s| {
        s.reclaimed_segments
    }),
    (
        "varve_engine_uncopied_segments",
        Gauge,
        "Segments with metadata pages that have no second copy.",
        |s| s.uncopied_segments,
    ),
    ("varve_engine_media_full", Gauge, "Whether the media have no room for more segments.", |s| {
        u64::from(s.media_full)
    }),
    (
        "varve_engine_reserved_bytes",
        Gauge,
        "Space that is promised to volumes, held or not.",
        |s| s.reserved_bytes,
    ),
    (
        "varve_engine_outstanding_bytes",
        Gauge,
        "Space promised to volumes that is not held yet, and that others may not have.",
        |s| s.outstanding_bytes,
    ),
    ("varve_logstore_live_bytes", Gauge, "Stored bytes of live units.", |s| s.space.live_bytes),
    ("varve_logstore_used_bytes", Gauge, "Bytes of segments in use.", used_bytes),
];

/// Of each kind of operation on media: its count, its time, and what they mean.
const MEDIA: [(DiskOperation, [(&str, &str); 2]); 4] = [
    (
        DiskOperation::Read,
        [
            ("varve_media_reads_total", "Reads from the drives."),
            ("varve_media_read_seconds_total", "Time of reads from the drives, added up."),
        ],
    ),
    (
        DiskOperation::WriteCached,
        [
            ("varve_media_writes_total", "Writes to the drives that a flush follows."),
            (
                "varve_media_write_seconds_total",
                "Time of writes to the drives that a flush follows, added up.",
            ),
        ],
    ),
    (
        DiskOperation::WriteDurable,
        [
            ("varve_media_durable_writes_total", "Writes to the drives that are durable."),
            (
                "varve_media_durable_write_seconds_total",
                "Time of durable writes to the drives, added up.",
            ),
        ],
    ),
    (
        DiskOperation::Flush,
        [
            ("varve_media_flushes_total", "Flushes of the drives."),
            ("varve_media_flush_seconds_total", "Time of flushes of the drives, added up."),
        ],
    ),
];

/// What the shard's thread asked of the drives, and how long that took.
pub(super) fn of_media(disks: &DiskStats) -> Vec<ShardMetric> {
    let metrics = MEDIA.into_iter().flat_map(|(operation, [(count, counts), (time, times)])| {
        let stats = disks.of(operation);
        let counter = |name, help, value| ShardMetric { name, help, kind: Counter, value };
        [counter(count, counts, stats.count), counter(time, times, stats.nanos / 1000)]
    });
    metrics.collect()
}

/// Reads that other strips than the one with the bytes answered, and writes of a part of the strips.
pub(super) fn of_redundancy(drives: &DriveHandles) -> Vec<ShardMetric> {
    let counter = |name, help, value| ShardMetric { name, help, kind: Counter, value };
    let reads = drives.read_counts();
    vec![
        counter(
            "varve_redundancy_partial_stripe_writes_total",
            "Writes of a part of a segment's strips, as drives had failed or a put was cut off. All others write whole stripes, and none reads before it writes.",
            drives.partial_stripes(),
        ),
        counter(
            "varve_redundancy_hedged_reads_total",
            "Reads that were made a second time from other drives, as a drive was late.",
            reads.hedged,
        ),
        counter(
            "varve_redundancy_degraded_reads_total",
            "Reads that were computed from other drives at once, as a drive failed, is slow or lacks a part.",
            reads.degraded,
        ),
    ]
}

/// What the shard's read cache did.
pub(super) fn of_cache(stats: &CacheStats) -> Vec<ShardMetric> {
    let counter = |name, help, value| ShardMetric { name, help, kind: Counter, value };
    vec![
        counter(
            "varve_read_cache_hits_total",
            "Reads that the local read cache answered.",
            stats.hits,
        ),
        counter(
            "varve_read_cache_misses_total",
            "Reads of at most 256 KiB that the local read cache did not have.",
            stats.misses,
        ),
        counter(
            "varve_read_cache_kept_bytes_total",
            "Bytes written to the local read cache.",
            stats.kept_bytes,
        ),
        counter(
            "varve_read_cache_failures_total",
            "Reads and writes of the file of the local read cache that failed, or gave other bytes than were kept.",
            stats.failures,
        ),
    ]
}

/// The shard's metrics.
pub(super) fn of(stats: &ShardStats) -> Vec<ShardMetric> {
    let metric = |(name, kind, help, value): &Row| ShardMetric {
        name,
        help,
        kind: *kind,
        value: value(stats),
    };
    ROWS.iter().map(metric).collect()
}

/// Bytes of the segments that the shard uses.
fn used_bytes(stats: &ShardStats) -> u64 {
    stats.space.segments.saturating_sub(stats.space.free) * stats.segment_bytes
}
