//! What network links can carry. F14, from Intel's guide, IDF16 and the Windows tests.

use crate::rounding::real;
use crate::units::Amount;
use crate::units::{BitRate, ByteRate, Bytes, OpRate, Share};

/// The links of some nodes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Links {
    /// Nodes.
    pub nodes: u64,
    /// Ports of each.
    pub ports: u64,
    /// Speed of a port.
    pub speed: BitRate,
}

impl Links {
    /// The most they carry in one direction (formula F14): nodes × ports × Gbit/s × 125 MB/s.
    #[must_use]
    pub fn ceiling(self) -> ByteRate {
        self.speed.bytes() * real(self.nodes) * real(self.ports)
    }

    /// Objects a second at most (formula F14).
    #[must_use]
    pub fn objects(self, size: Bytes) -> OpRate {
        self.ceiling() / size
    }

    /// What part of the ceiling `rate` is (erratum X13: told for each link, not judged by eye).
    #[must_use]
    pub fn used(self, rate: ByteRate) -> Share {
        Share::of_base(rate / self.ceiling())
    }
}
