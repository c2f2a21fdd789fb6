//! Sizing of storage clusters: the formulas, each with its source, over amounts that carry their unit. Pure functions:
//! no I/O, no clock.
//!
//! Formulas are numbered F1 to F19, faults of the sources X01 to X28 ([`errata`]); `docs/plan.md` lists both. Called by
//! `varve plan`.
//!
//! UNITS-1. An amount never meets another of a different unit, except where a product of units has a meaning.
//! UNITS-2. Counts are rounded up once, at the end, and the fraction is kept beside them ([`Need`]).
//!
//! Bits and bytes do not add up, whatever the prefix:
//!
//! ```compile_fail,E0308
//! use varve_tool_plan::{Amount, BitRate, ByteRate};
//! let _ = ByteRate::of_base(1.0) + BitRate::of_base(8.0);
//! ```
//!
//! A size is no rate, and only some products have a meaning:
//!
//! ```
//! use varve_tool_plan::{ByteRate, Bytes, OpRate, parse};
//! let rate: ByteRate = parse::<OpRate>("500k")? * parse::<Bytes>("8KiB")?;
//! assert_eq!(rate, parse("4096 MB/s")?);
//! # Ok::<(), varve_tool_plan::Error>(())
//! ```
//!
//! ```compile_fail,E0277
//! use varve_tool_plan::{Amount, ByteRate, Bytes};
//! let _ = ByteRate::of_base(1.0) * Bytes::of_base(8.0);
//! ```

pub mod cache;
pub mod capacity;
pub mod catalogue;
mod compare;
pub mod cost;
mod demand;
pub mod endurance;
pub mod energy;
pub mod errata;
mod error;
pub mod journal;
mod layout;
pub mod network;
pub mod normalisation;
pub mod operations;
pub mod placement_groups;
mod protection;
pub mod provision;
pub mod rebuild;
pub mod report;
mod risks;
mod rounding;
pub mod scaling;
mod search;
mod standing;
mod supply;
mod units;
pub mod video;

pub use compare::{Comparison, FigurePair, Parity};
pub use cost::CostBasis;
pub use demand::{Demand, DemandPolicy, FailureDomain};
pub use error::{Error, Result};
pub use layout::{
    Journals, Layout, LayoutReach, NetworkBound, Power, Price, Rebuilds, Term, Traffic,
};
pub use protection::Protection;
pub use rounding::{Need, real};
pub use search::{Best, Choice, DemandPlan, GivenCluster, Rank, RejectedNode, money};
pub use standing::{Assessment, Limit, MeasurementFinding};
pub use supply::Supply;
pub use units::{
    Amount, BitRate, ByteRate, Bytes, EnergyPerByte, Joules, Money, OpRate, Seconds, Share, Watts,
    parse, short, times,
};
