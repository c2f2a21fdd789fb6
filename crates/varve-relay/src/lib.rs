//! Links between nodes of a pool: each carries one connection of a client from the node that took it to the one that
//! serves its cell.

mod error;
pub mod wire;

pub use error::{Error, Result};
