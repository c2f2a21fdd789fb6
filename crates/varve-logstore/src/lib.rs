//! The log: what a shard appends to its lane and its segments, and how both are read back.

mod error;
pub mod format;

pub use error::{Error, Result};
