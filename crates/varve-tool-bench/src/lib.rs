//! Data, accesses and loads of benchmarks, which follow from a seed; the targets they are put on, and what is measured.

mod access;
mod cells;
mod compare;
mod content;
pub mod cosbench;
mod data;
mod error;
mod expected;
pub mod fio;
mod fleet;
mod ledger;
mod load;
mod mix;
mod parity;
mod pieces;
mod powers;
mod preset;
pub mod s3;
mod scatter;
mod score;
mod targets;
mod usage;
mod zipf;

pub use access::{Access, AccessPattern, AccessSpec};
pub use cells::HistogramCells;
pub use compare::{ComparedFigure, Comparison, Verdict};
pub use content::DataContent;
pub use data::{DataSpec, StockPick};
pub use error::{Error, Result};
pub use expected::ExpectedReduction;
pub use fleet::{CloneFleet, FleetSpec, FleetWrite};
pub use ledger::{HeldContent, Ledger};
pub use load::{
    Estimate, Job, JobPart, JobPhase, JobWatch, KindTotals, LoadSpec, Measurement, Mixture,
    MixturePart, OperationKind, Pace, has_settled,
};
pub use parity::{ParityRate, ParityReport, ParitySpec, RateSpread};
pub use preset::{BlockWork, Lives, Metric, Preset, PresetStep, PresetWork, Segments, VolumeWork};
pub use scatter::Scatter;
pub use score::{Point, Score, next_volumes};
pub use targets::{NbdAddress, NbdUri, Target};
pub use usage::{
    CephCounters, CephUsage, ClosedLoop, Counters, DiskUsage, FigureFinding, MachineUsage,
    NetUsage, ProcessUsage, ServedRates, ServerCounters, ServerUsage, UsagePart, WindowObservation,
    findings, processes_named,
};
pub use zipf::Zipf;
