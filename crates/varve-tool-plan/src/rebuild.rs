//! How long redundancy is short of one part. The estimate is ours: data lost ÷ the slower of network share and half the drives' rate.

use crate::units::{ByteRate, Bytes, Seconds};

/// What a rebuild has to do, and with what.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rebuild {
    /// Data to be made again.
    pub data: Bytes,
    /// Rate at which the drives that receive them write; half of it is left to clients.
    pub drives: ByteRate,
    /// Part of the network that rebuilding may take.
    pub network: ByteRate,
}

impl Rebuild {
    /// How long it takes; infinite where there is nothing to rebuild to.
    #[must_use]
    pub fn time(self) -> Seconds {
        self.data / self.network.min(self.drives / 2.0)
    }
}
