//! Figures of one cluster as if it had the nodes and protection of another. F3, F4, from Micron's comparison.

use crate::error::{Result, positive};
use crate::rounding::Need;
use crate::units::ByteRate;

/// Write rate of EC 4+2 ÷ that of three copies, by the source.
pub const WRITES_OF_EC_4_2: f64 = 1.27;

/// Read rate of EC 4+2 ÷ that of three copies, by the source. Its own table uses 1, in favour of the HDD cluster.
pub const READS_OF_EC_4_2: f64 = 0.85;

/// How rates of a cluster are turned into those of another size and protection.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Normalisation {
    /// Nodes that were measured.
    pub nodes_measured: f64,
    /// Nodes to compare with; rates are taken to grow linearly, latencies to stay.
    pub nodes_target: f64,
    /// What the other protection makes of the rate; 1 where it is the same.
    pub protection: f64,
}

impl Normalisation {
    /// The rate as it would be (formula F3): 3055 MB/s of 4 nodes are 4582.5 of 6.
    ///
    /// # Errors
    /// [`crate::Error::Range`] when no nodes were measured.
    pub fn rate(self, measured: ByteRate) -> Result<ByteRate> {
        let nodes = positive("the number of measured nodes", self.nodes_measured)?;
        Ok(measured * (self.nodes_target / nodes) * self.protection)
    }
}

/// Nodes that give `required` (formula F4). Rounded up; the source rounds 68.8 down and 15.8 up (erratum X01).
///
/// # Errors
/// [`crate::Error::NoSupply`] when a node gives nothing.
pub fn nodes_for_rate(required: ByteRate, per_node: ByteRate) -> Result<Need> {
    Need::of("MB/s", required.mb_per_second(), per_node.mb_per_second())
}
