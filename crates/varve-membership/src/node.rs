//! What is known of a node.

use std::fmt;

use crate::{Error, Result};

/// Longest address in bytes: a name of a machine has at most 253, and a port comes behind it.
pub const ADDRESS_BYTES_MAX: usize = 255;

/// One life of a daemon: random, drawn when it starts, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u128);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeId({self})")
    }
}

/// SHA-256 of the public key by which others know a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(pub [u8; 32]);

/// A node, as it introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its identity.
    pub id: NodeId,
    /// Where others reach it: `HOST:PORT`.
    pub address: String,
    /// Who answers there.
    pub fingerprint: Fingerprint,
}

impl Node {
    /// Looks whether the table can keep it.
    ///
    /// # Errors
    /// [`Error::AddressTooLong`].
    pub fn check(&self) -> Result<()> {
        let (len, limit) = (self.address.len(), ADDRESS_BYTES_MAX);
        if len > limit { Err(Error::AddressTooLong { len, limit }) } else { Ok(()) }
    }
}
