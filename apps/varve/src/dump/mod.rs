//! What `varve dump` prints, one kind of structure a file.

pub(crate) mod lane;
mod output;
pub(crate) mod roots;
pub(crate) mod segments;
pub(crate) mod trees;

pub(crate) use output::Output;

/// Most memory for what recovery writes in place of the drives, as `varve check` has it by default.
pub(crate) const OVERLAY_BYTES_MAX: u64 = 1 << 30;
