//! How many connections may be open, in sum and from one address.
//!
//! CONNECTION-LIMIT-1. Every connection that is served holds a [`Permit`] until it is closed, so there are never more
//!     than the limits.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_access_block::Peer;

/// Bounds the connections of all threads. Clones share the count.
#[derive(Clone, Debug)]
pub struct ConnectionLimit {
    max: usize,
    per_address_max: usize,
    /// The lock guards nothing else, and nobody waits while it is held.
    open: Arc<Mutex<Open>>,
}

#[derive(Default, Debug)]
struct Open {
    total: usize,
    by_address: BTreeMap<IpAddr, usize>,
}

/// Why a connection is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TooMany {
    /// So many are open in sum.
    Open(usize),
    /// So many are open from its address.
    FromAddress(usize),
}

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(max) => write!(f, "{max} connections are open (nbd.connections_max)"),
            Self::FromAddress(max) => {
                write!(
                    f,
                    "{max} connections from this address are open (nbd.connections_per_address)"
                )
            }
        }
    }
}

impl ConnectionLimit {
    /// At most `max` connections.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self { max, per_address_max: max, open: Arc::default() }
    }

    /// And at most so many from one address of a network.
    #[must_use]
    pub fn per_address(self, per_address_max: usize) -> Self {
        Self { per_address_max, ..self }
    }

    /// Connections open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.lock().total
    }

    /// The right to be open, for a connection of this peer.
    ///
    /// # Errors
    /// When a limit is reached.
    pub(crate) fn permit(&self, peer: &Peer) -> Result<Permit, TooMany> {
        let mut open = self.lock();
        if open.total >= self.max {
            return Err(TooMany::Open(self.max));
        }
        let address = peer.ip();
        if let Some(address) = address {
            let from_address = open.by_address.entry(address).or_default();
            if *from_address >= self.per_address_max {
                return Err(TooMany::FromAddress(self.per_address_max));
            }
            *from_address += 1;
        }
        open.total += 1;
        drop(open);
        Ok(Permit { limit: self.clone(), address })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Counts are changed together, so a panic elsewhere does no harm here.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to be open (CONNECTION-LIMIT-1).
#[derive(Debug)]
pub struct Permit {
    limit: ConnectionLimit,
    address: Option<IpAddr>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut open = self.limit.lock();
        open.total -= 1;
        if let Some(address) = self.address
            && let Some(count) = open.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                open.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_permits_return() {
        let limit = ConnectionLimit::new(1);
        let permit = limit.permit(&Peer::Unknown);
        assert!(permit.is_ok());
        assert_eq!(limit.permit(&Peer::Unknown).err(), Some(TooMany::Open(1)));
        drop(permit);
        assert!(limit.permit(&Peer::Unknown).is_ok());
    }

    #[test]
    fn one_address_does_not_take_all() {
        let limit = ConnectionLimit::new(4).per_address(2);
        let peer = |text: &str| Peer::Tcp(text.parse().unwrap());
        let (one, other) = (peer("10.0.0.7:1"), peer("10.0.0.8:1"));
        let held = [limit.permit(&one), limit.permit(&one)];
        assert_eq!(limit.permit(&one).err(), Some(TooMany::FromAddress(2)));
        assert!(limit.permit(&other).is_ok());
        drop(held);
        assert!(limit.permit(&one).is_ok());
        assert_eq!(limit.open(), 0);
        assert!(limit.lock().by_address.is_empty());
    }
}
