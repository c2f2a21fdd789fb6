//! Bounds that matter outside one file, each with its unit and reason.

/// Alignment of every transfer to media, in bytes: the largest logical block of common drives.
pub const MEDIA_ALIGN: usize = 4096;

/// Granularity of addresses in records and summaries, in bytes: the smallest sector.
pub const ADDRESS_UNIT: u64 = 512;

/// Default block of a stream, in bytes: what file systems and drives use.
pub const BLOCK_SIZE_DEFAULT: u32 = 4096;

/// Bytes of a stream that stay on one shard: large enough for sequential streams, small enough to spread a volume.
pub const REGION_BYTES: u64 = 64 << 20;

/// Default size of a segment slot, strip header included, in bytes.
pub const SEGMENT_BYTES_DEFAULT: u32 = 2 << 20;

/// Largest segment slot in bytes: offsets in it are 16-bit counts of [`ADDRESS_UNIT`].
pub const SEGMENT_BYTES_MAX: u32 = 32 << 20;

/// Largest volume in bytes: a radix map of five levels of 512 slots of 4 KiB blocks holds more.
pub const VOLUME_BYTES_MAX: u64 = 1 << 56;

/// Longest dataset name in bytes; names become keys, which fit a quarter of a 4 KiB page.
pub const NAME_BYTES_MAX: usize = 255;

/// Largest single read or write that a front-end passes down, in bytes: NBD's advertised maximum.
pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

const _: () = assert!((MEDIA_ALIGN as u64).is_multiple_of(ADDRESS_UNIT));
const _: () = assert!((BLOCK_SIZE_DEFAULT as usize).is_multiple_of(MEDIA_ALIGN));
const _: () = assert!(REGION_BYTES.is_multiple_of(BLOCK_SIZE_DEFAULT as u64));
const _: () = assert!((SEGMENT_BYTES_MAX as u64) / ADDRESS_UNIT <= 1 << 16);
const _: () = assert!(SEGMENT_BYTES_DEFAULT <= SEGMENT_BYTES_MAX);
