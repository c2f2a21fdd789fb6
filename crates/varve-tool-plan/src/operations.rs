//! Operations a second: what writes cost, how many nodes they take, whom they serve. F11, F12, F13, F15.

use crate::error::{Error, Result, positive};
use crate::rounding::{Need, round_down};
use crate::units::{Amount, OpRate, Seconds};

/// Operations a second that a virtual machine is planned with (CERN, by Intel's guide, use case 1).
pub const PER_MACHINE: f64 = 100.0;

/// Write efficiency that was measured on the all-flash cluster of IDF16; the source quotes 0.6 (erratum X14).
pub const EFFICIENCY_MEASURED: f64 = 0.533;

/// Write efficiency that the source quotes.
pub const EFFICIENCY_QUOTED: f64 = 0.6;

/// What a write becomes on the way to the drives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WriteCost {
    /// Drive operations for each write: copies, or k + m.
    pub copies: f64,
    /// 2 where each write goes to a journal and then to its place, else 1.
    pub journal_factor: f64,
}

impl WriteCost {
    /// Drive operations for each write of a client.
    #[must_use]
    pub fn operations(self) -> f64 {
        self.copies * self.journal_factor
    }

    /// Write operations from read operations (formula F11, IDF16): reads ÷ (copies × journal) × efficiency.
    #[must_use]
    pub fn estimate(self, reads: OpRate, efficiency: f64) -> OpRate {
        reads / self.operations() * efficiency
    }

    /// Efficiency from both measured (formula F11): writes × copies × journal ÷ reads.
    #[must_use]
    pub fn efficiency(self, reads: OpRate, writes: OpRate) -> f64 {
        writes * self.operations() / reads
    }
}

/// Operations that are asked for, or that a node gives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Operations {
    /// Reads a second.
    pub reads: OpRate,
    /// Writes a second: of clients where asked for, of drives where given.
    pub writes: OpRate,
}

/// Nodes for a mix (formula F12): each kind takes its part of a node's time.
///
/// # Errors
/// [`Error::NoSupply`] when a kind is asked for that a node does not give.
pub fn nodes(demand: Operations, cost: WriteCost, node: Operations) -> Result<Need> {
    let reads = Need::of("reads a second", demand.reads.base(), node.reads.base())?;
    let on_drives = demand.writes * cost.operations();
    let writes = Need::of("writes a second", on_drives.base(), node.writes.base())?;
    Need::of("a node's time", reads.exact + writes.exact, 1.0)
}

/// Virtual machines that `rate` serves (formula F13): whole ones.
///
/// # Errors
/// [`Error::Range`] when a machine takes nothing.
pub fn machines(rate: OpRate, per_machine: OpRate) -> Result<u64> {
    let per_machine = positive("operations a second of a machine", per_machine.base())?;
    let value = rate.base() / per_machine;
    round_down(value).ok_or(Error::Range {
        what: "the number of machines",
        value,
        allowed: "0 to 2⁵³",
    })
}

/// Operations in flight (formula F15, Little's law): rate × latency.
#[must_use]
pub fn in_flight(rate: OpRate, latency: Seconds) -> f64 {
    rate * latency
}

/// How far a run's figures are from Little's law: in flight by rate and latency ÷ in flight as configured. A run beyond
/// 1 ± 0.2 measured something else than it says.
///
/// # Errors
/// [`Error::Range`] when nothing was to be in flight.
pub fn little_deviation(rate: OpRate, latency: Seconds, configured: f64) -> Result<f64> {
    Ok(in_flight(rate, latency) / positive("operations in flight", configured)?)
}
