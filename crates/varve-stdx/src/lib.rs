//! Building blocks that know nothing of storage: aligned buffers, checksums, byte cursors, histograms.

mod buffer;
mod checksum;

pub use buffer::{AlignedBuf, BufSlice};
pub use checksum::{checksum32, checksum64, checksum64_seeded};
