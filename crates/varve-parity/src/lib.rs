//! Erasure codes over GF(2⁸): k strips of data get m strips of parity, and any k of the k + m strips give all others.
//!
//! Bytes of parity are those of ISA-L for the same shape. What strips belong together, and whether their bytes are
//! right, callers know: this crate computes.

mod code;
mod error;
mod field;
mod isal;
mod kernel;
mod limits;
mod matrix;
mod plan;
mod product;
mod shape;

pub use code::ErasureCode;
pub use error::{Error, Result};
pub use isal::{IsaL, IsaLProduct};
pub use kernel::Kernel;
pub use limits::STRIPS_MAX;
pub use plan::RebuildPlan;
pub use product::Product;
pub use shape::{CodeKind, CodeShape};
