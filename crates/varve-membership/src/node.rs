//! What is known of a node.

use std::fmt;

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

/// A node, as it introduces itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its identity.
    pub id: NodeId,
    /// Where it runs, for people: nothing is reached, or believed, because of it.
    pub place: String,
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
