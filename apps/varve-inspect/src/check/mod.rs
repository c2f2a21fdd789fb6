//! The check of a pool that no daemon serves; and, in `online`, the one that a daemon makes of its own.
//!
//! ```text
//!  for each cell: superblocks → tables of redundant pools → roots → pool root
//!    → for each shard: recovery (over an overlay) → audit → catalogue → every segment → owners of damage
//!  then the register of names, where there are several cells
//! ```
//!
//! CHECK-1. Shards are checked one after the other, so memory does not grow with their number.
//! CHECK-2. Damage that redundancy hides, or that nothing needs, is a warning; everything else that is damaged is an
//!     error.

mod finding;
pub mod online;
mod pool;
mod redundancy;
mod register;
mod report;
mod shard;

pub use pool::Check;
pub use report::{CheckReport, counted};
