//! How long redundancy is reduced after the loss of a drive or a node, and whether it comes back by itself. The
//! estimate is ours.
//!
//! One model for both: every drive that may take a part of the lost data takes an equal share, as CRUSH places it.
//! Where no drive may, the data are rebuilt once a replacement is there; where nothing is left to rebuild from, they
//! are lost.

use serde::Serialize;

use crate::demand::FailureDomain;
use crate::protection::Protection;
use crate::rounding::real;
use crate::units::{Amount, ByteRate, Bytes, Seconds, Share};

/// How full the drives of the survivors may become. Beyond it a rebuild finds no room.
pub const FULL: f64 = 0.95;

/// Where lost data go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Onto all drives that are left and may hold them, at once.
    Spread,
    /// Onto the replacement, once it is there: no other drive may hold them, or has room.
    Replacement,
    /// Nowhere: too few copies or strips are left to rebuild from.
    Never,
}

/// A loss, and how it is made good.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Rebuild {
    /// Where lost data go.
    pub recovery: Recovery,
    /// How long it takes, from its start; none where it never ends or the rate of the drives is not known.
    pub seconds: Option<Seconds>,
    /// Drives that receive data.
    pub receivers: u64,
}

/// What rebuilds depend on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rebuilder {
    /// Nodes of the cluster.
    pub nodes: u64,
    /// Data drives of each.
    pub drives: u64,
    /// Capacity of a drive.
    pub capacity: Bytes,
    /// Part of it that holds data, all of which is rebuilt.
    pub filled: Share,
    /// Rate at which a drive writes, where it is known; half of it is left to clients.
    pub drive_writes: Option<ByteRate>,
    /// Part of a node's network that rebuilding may take.
    pub network: ByteRate,
    /// How data are protected.
    pub protection: Protection,
    /// Where copies or strips do not meet.
    pub failure_domain: FailureDomain,
}

impl Rebuilder {
    /// After the loss of one drive.
    #[must_use]
    pub fn of_drive(self) -> Rebuild {
        if self.protection.tolerates() == 0 {
            return self.never();
        }
        let width = u64::from(self.protection.width());
        let everywhere = self.nodes * self.drives - 1;
        let receivers = match self.failure_domain {
            FailureDomain::Drive => {
                if everywhere < width {
                    0
                } else {
                    everywhere
                }
            }
            // Each other node already holds a part of all that was lost: the drives beside the lost one are left.
            FailureDomain::Node if self.nodes <= width => {
                let on_a_node = width.div_ceil(self.nodes);
                if self.drives > on_a_node { self.drives - 1 } else { 0 }
            }
            FailureDomain::Node => everywhere,
        };
        let nodes = if receivers == everywhere { self.nodes } else { 1 };
        self.onto(self.capacity, (receivers, nodes), 1)
    }

    /// After the loss of one node with all its drives.
    #[must_use]
    pub fn of_node(self) -> Rebuild {
        let width = u64::from(self.protection.width());
        let on_a_node = match self.failure_domain {
            FailureDomain::Drive => width.min(self.drives),
            FailureDomain::Node => width.div_ceil(self.nodes),
        };
        if on_a_node > u64::from(self.protection.tolerates()) {
            return self.never();
        }
        let others = self.nodes - 1;
        let has_place = match self.failure_domain {
            FailureDomain::Drive => others * self.drives >= width,
            FailureDomain::Node => others >= width,
        };
        let has_room = self.filled.base() <= real(others) / real(self.nodes) * FULL;
        let receivers = if has_place && has_room { others * self.drives } else { 0 };
        self.onto(self.capacity * real(self.drives), (receivers, others), self.drives)
    }

    fn never(self) -> Rebuild {
        Rebuild { recovery: Recovery::Never, seconds: None, receivers: 0 }
    }

    /// Data of lost drives with this capacity onto so many drives of so many nodes; onto `replaced` drives of one where
    /// there are none.
    fn onto(self, capacity: Bytes, receivers: (u64, u64), replaced: u64) -> Rebuild {
        let (recovery, (receivers, nodes)) = match receivers {
            (0, _) => (Recovery::Replacement, (replaced, 1)),
            some => (Recovery::Spread, some),
        };
        let data = capacity * self.filled.base();
        let network = self.network * real(nodes) / self.protection.gathered_per_rebuilt();
        let time = |rate: ByteRate| data / network.min(rate * real(receivers) / 2.0);
        Rebuild { recovery, seconds: self.drive_writes.map(time), receivers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COPIES: Protection = Protection::Copies(3);
    const CODE: Protection = Protection::Erasure { data: 4, parity: 2 };

    fn cluster(nodes: u64, protection: Protection) -> Rebuilder {
        Rebuilder {
            nodes,
            drives: 6,
            capacity: Bytes::of_base(1e12),
            filled: Share::of_base(0.5),
            drive_writes: Some(ByteRate::of_base(1e9)),
            network: ByteRate::of_base(1e11),
            protection,
            failure_domain: FailureDomain::Node,
        }
    }

    fn seconds(rebuild: Rebuild) -> f64 {
        rebuild.seconds.expect("it ends").base()
    }

    #[test]
    fn a_drive_and_a_node_are_spread_over_what_is_left() {
        let ten = cluster(10, COPIES);
        let (drive, node) = (ten.of_drive(), ten.of_node());
        assert_eq!((drive.recovery, drive.receivers), (Recovery::Spread, 59));
        assert_eq!((node.recovery, node.receivers), (Recovery::Spread, 54));
        assert!((seconds(drive) - 0.5e12 / (59.0 * 0.5e9)).abs() < 1e-9);
        assert!((seconds(node) - 3e12 / (54.0 * 0.5e9)).abs() < 1e-9);
        // A node holds more than a drive, and there are fewer to take it.
        assert!(seconds(node) > seconds(drive));
        // Of a code four strips are read for each that is rebuilt.
        let slow = Rebuilder { network: ByteRate::of_base(1e9), ..cluster(10, CODE) };
        assert!((seconds(slow.of_node()) - 3e12 * 4.0 / 9e9).abs() < 1e-6);
    }

    #[test]
    fn as_many_nodes_as_parts_wait_for_the_replacement_of_a_node() {
        let six = cluster(6, CODE);
        let (drive, node) = (six.of_drive(), six.of_node());
        assert_eq!((drive.recovery, drive.receivers), (Recovery::Spread, 5));
        assert_eq!((node.recovery, node.receivers), (Recovery::Replacement, 6));
        let one_drive_each = Rebuilder { drives: 1, ..six };
        assert_eq!(one_drive_each.of_drive().recovery, Recovery::Replacement);
        // Enough nodes, and no room.
        let full = Rebuilder { filled: Share::of_base(0.9), ..cluster(10, CODE) };
        assert_eq!(full.of_node().recovery, Recovery::Replacement);
    }

    #[test]
    fn what_has_no_other_copy_is_never_rebuilt() {
        let one = cluster(10, Protection::Copies(1));
        assert_eq!(one.of_drive().recovery, Recovery::Never);
        assert_eq!((one.of_node().recovery, one.of_node().seconds), (Recovery::Never, None));
        // Two nodes hold three parts each of six, and two may be lost.
        assert_eq!(cluster(2, CODE).of_node().recovery, Recovery::Never);
        assert_eq!(cluster(2, CODE).of_drive().recovery, Recovery::Spread);
        let by_drive = Rebuilder { failure_domain: FailureDomain::Drive, ..cluster(10, COPIES) };
        assert_eq!(by_drive.of_node().recovery, Recovery::Never);
        assert_eq!(by_drive.of_drive().receivers, 59);
    }
}
