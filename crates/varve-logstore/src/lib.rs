//! The log of a shard: journal lane, segments, space and roots, and how they are read back after a crash.

pub mod chain_reader;
mod error;
pub mod format;
pub mod lane;
pub mod lane_reader;
pub mod segment_writer;
pub mod space;

pub use error::{Error, Result};
pub use varve_media::planted;
