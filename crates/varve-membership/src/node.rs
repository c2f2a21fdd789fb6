//! What is known of a node.

use std::fmt;
use std::net::SocketAddr;

use crate::{Error, Result};

/// Longest place in bytes: a name of a machine has at most 253.
pub const PLACE_BYTES_MAX: usize = 255;

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

/// SHA-256 of a node's public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([a, b, c, d, ..]) = self;
        write!(f, "Fingerprint({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// How other nodes reach one, and know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeAddress {
    /// Where it listens for them.
    pub address: SocketAddr,
    /// Of the key that it shows there.
    pub fingerprint: Fingerprint,
}

impl NodeAddress {
    /// A node's reach. An address of the fourth version that is written as one of the sixth is the same; scopes are not
    /// kept.
    #[must_use]
    pub fn new(address: SocketAddr, fingerprint: Fingerprint) -> Self {
        Self { address: SocketAddr::new(address.ip().to_canonical(), address.port()), fingerprint }
    }
}

/// A node, as it introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its identity.
    pub id: NodeId,
    /// Where it runs, for people: nothing is reached, or believed, because of it.
    pub place: String,
    /// How others reach it; nothing of a node of an earlier version, which carries nothing and is carried nothing.
    pub reach: Option<NodeAddress>,
}

impl Node {
    /// Looks whether the table can keep it.
    ///
    /// # Errors
    /// [`Error::PlaceTooLong`].
    pub fn check(&self) -> Result<()> {
        let (len, limit) = (self.place.len(), PLACE_BYTES_MAX);
        if len > limit { Err(Error::PlaceTooLong { len, limit }) } else { Ok(()) }
    }
}
