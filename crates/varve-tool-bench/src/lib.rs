//! Data, accesses and loads of benchmarks, which follow from a seed; the targets they are put on, and what is measured.

mod access;
mod content;
mod data;
mod error;
mod expected;
mod fleet;
mod load;
mod mix;
mod pieces;
mod powers;
mod preset;
mod scatter;
mod targets;
mod zipf;

pub use access::{Access, AccessPattern, AccessSpec};
pub use content::Content;
pub use data::{DataSpec, StockPick};
pub use error::{Error, Result};
pub use expected::Expected;
pub use fleet::{CloneFleet, FleetSpec, FleetWrite};
pub use load::{Estimate, Job, JobPart, JobWatch, LoadSpec, Measured, Phase, Side};
pub use preset::{BlockWork, Preset, Step, Work};
pub use scatter::Scatter;
pub use targets::{NbdAddress, NbdUri, Target};
pub use zipf::Zipf;
