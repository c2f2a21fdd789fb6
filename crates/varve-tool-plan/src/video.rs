//! Video recorders in the cloud. F18, from Intel's guide, use case 5, table 12.

use crate::units::Amount;
use crate::units::{ByteRate, Bytes, Seconds};

/// Sizes of segments and how often each occurs, of 100. The source heads the column of sizes "bit rate" (erratum X21).
pub type SegmentMix = [(f64, f64); 4];

/// Segments that are read, in MB and %.
pub const READ_MB: SegmentMix = [(4.0, 80.0), (2.5, 10.0), (1.9, 5.0), (1.25, 5.0)];

/// Segments that are written, in MB and %.
pub const WRITTEN_MB: SegmentMix = [(4.0, 25.0), (2.5, 25.0), (1.9, 25.0), (1.25, 25.0)];

/// Mean size of a segment (formula F18): 3.6075 MB read, 2.4125 MB written.
#[must_use]
pub fn mean_segment(mix: SegmentMix) -> Bytes {
    let percent: f64 = mix.iter().map(|(_, percent)| percent).sum();
    let weighted: f64 = mix.iter().map(|(mb, percent)| mb * percent).sum();
    Bytes::of_base(weighted / percent * 1e6)
}

/// Rate of `streams` viewers or recordings, each of which moves a segment every `segment_time` (formula F18).
#[must_use]
pub fn rate(segment: Bytes, streams: f64, segment_time: Seconds) -> ByteRate {
    segment * streams / segment_time
}
