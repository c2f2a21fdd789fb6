//! The bytes of the log: types, encoders and decoders, no I/O. Described in `docs/format.md`.
//!
//! FORMAT-1. Fields are fixed-width and little-endian, written and read one by one.
//! FORMAT-2. A decoder turns any bytes into a value or an [`Error`](crate::Error); it never panics and never allocates
//!     more than its input.
//! FORMAT-3. Reserved bytes are written as zero and refused otherwise; unknown kinds are refused.
//! FORMAT-4. What is verified before a structure is encoded is verified again when it is decoded.
#![cfg_attr(not(test), deny(clippy::indexing_slicing))]

mod checks;
pub mod chunk;
pub mod deaths;
pub mod deltas;
mod features;
pub mod frame;
pub mod page;
pub mod pointer;
pub mod pool;
pub mod record;
pub mod reservation;
pub mod root;
pub mod segment;
pub mod stream;
pub mod summary;
#[cfg(test)]
mod tests;
mod text;
pub mod usage;

pub use features::Features;

/// Bytes of one address unit as a `u32`: offsets and padding in frames and segments count in it.
pub const UNIT_BYTES: u32 = 512;

const _: () = assert!(UNIT_BYTES as u64 == varve_types::limits::ADDRESS_UNIT);
