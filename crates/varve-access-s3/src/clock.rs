//! The time of day, for everything in this crate.

use std::time::{SystemTime, UNIX_EPOCH};

use s3s::dto::Timestamp;
use time::OffsetDateTime;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// As the protocol has it, which tells seconds or milliseconds by place.
pub(crate) fn timestamp(ms: u64) -> Timestamp {
    let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    Timestamp::from(time.unwrap_or(OffsetDateTime::UNIX_EPOCH))
}

/// Milliseconds since 1970 of a time that is not before that.
pub(crate) fn ms_of(timestamp: &Timestamp) -> u64 {
    let time: OffsetDateTime = timestamp.clone().into();
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
}
