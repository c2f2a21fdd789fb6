//! Data and accesses of benchmarks, tests and the simulator: all of it follows from a seed; no I/O, no clock.

mod access;
mod content;
mod data;
mod error;
mod expected;
mod fleet;
mod mix;
mod pieces;
mod powers;
mod scatter;
mod zipf;

pub use access::{Access, AccessPattern, AccessSpec};
pub use content::Content;
pub use data::{DataSpec, StockPick};
pub use error::{Error, Result};
pub use expected::Expected;
pub use fleet::{CloneFleet, FleetSpec, FleetWrite};
pub use scatter::Scatter;
pub use zipf::Zipf;
