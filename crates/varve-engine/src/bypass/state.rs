//! What a shard knows of large writes, apart from what it does with them.

use std::cell::Cell;

use varve_reactor::Notify;

/// What a shard knows of large writes.
#[derive(Default)]
pub(crate) struct Bypass {
    /// Bytes of large writes under way, whichever way they go.
    pub(super) bytes_under_way: Cell<u64>,
    /// The last segment that holds something that bypassed the lane.
    pub(super) last_segment: Cell<u64>,
    /// Something was appended to the open segment.
    pub(super) appended: Notify,
}
