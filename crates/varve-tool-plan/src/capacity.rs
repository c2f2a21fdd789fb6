//! Capacity that may be planned for, and nodes for it. F1, F2, from Micron's comparison.

use crate::error::Result;
use crate::rounding::Need;
use crate::units::{Amount, Bytes, Share};

/// Capacity that may be planned for (formula F1): usable × fill × reduction.
#[must_use]
pub fn planned(usable: Bytes, fill: Share, reduction_ratio: f64) -> Bytes {
    usable * fill.base() * reduction_ratio
}

/// Nodes that hold `required` (formula F2, Micron).
///
/// # Errors
/// [`crate::Error::NoSupply`] when a node holds nothing.
pub fn nodes(required: Bytes, per_node: Bytes) -> Result<Need> {
    Need::of("capacity in TB", required.tb(), per_node.tb())
}

/// Fewest nodes of a cluster in which one node has at most `share` of it (formula F5, Intel). The source's own examples
/// have fewer (erratum X22).
///
/// # Errors
/// [`crate::Error::NoSupply`] when the share is 0.
pub fn nodes_for_share(share: Share) -> Result<Need> {
    Need::of("a node's share of the cluster", 1.0, share.base())
}
