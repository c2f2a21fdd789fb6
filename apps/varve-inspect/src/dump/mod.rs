//! What `varve dump` prints, one kind of structure a file.

pub mod lane;
mod output;
pub mod redundancy;
pub mod roots;
pub mod segments;
pub mod trees;

pub use output::Output;

/// Most memory for what recovery writes in place of the drives, as `varve check` has it by default.
pub const OVERLAY_BYTES_MAX: u64 = 1 << 30;
