//! Connections of clients to an open volume, over all threads, and whether it takes one at a time.
//!
//! VOLUME-CONNECTIONS-1. A volume that is exclusive admits a connection only while it has no other one.
//! VOLUME-CONNECTIONS-2. A volume becomes exclusive only while it has one connection at most; that one keeps it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::open::OpenVolume;

/// See the module.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Changed under the lock.
    is_exclusive: AtomicBool,
    /// Clients by the order of their admission, as people know them. The lock guards nothing else, and nobody waits
    /// while it is held.
    peers: Mutex<BTreeMap<u64, String>>,
}

/// A connection that was admitted. The volume has it until this is dropped.
#[derive(Debug)]
pub struct AdmittedConnection {
    open: Arc<OpenVolume>,
    number: u64,
}

impl Drop for AdmittedConnection {
    fn drop(&mut self) {
        self.open.connections().peers().remove(&self.number);
    }
}

impl Connections {
    pub(crate) fn new(is_exclusive: bool) -> Self {
        Self { is_exclusive: AtomicBool::new(is_exclusive), peers: Mutex::default() }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        // A panic under the lock leaves the table whole: each change is one call.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_exclusive(&self) -> bool {
        self.is_exclusive.load(Ordering::Acquire)
    }

    /// The client that keeps others from being admitted, if one does.
    pub(crate) fn holder(&self) -> Option<String> {
        let peers = self.peers();
        peers.values().next().filter(|_| self.is_exclusive()).cloned()
    }

    /// Makes the volume exclusive, or no longer; what it was before, or how many connections forbid it.
    /// VOLUME-CONNECTIONS-2.
    pub(crate) fn set_exclusive(&self, is_exclusive: bool) -> Result<bool, usize> {
        let peers = self.peers();
        match peers.len() {
            0 | 1 => {}
            count if is_exclusive && !self.is_exclusive() => return Err(count),
            _ => {}
        }
        Ok(self.is_exclusive.swap(is_exclusive, Ordering::AcqRel))
    }
}

/// Admits a connection of this client, or tells which client has the volume. VOLUME-CONNECTIONS-1.
pub(crate) fn admit(open: &Arc<OpenVolume>, peer: &str) -> Result<AdmittedConnection, String> {
    let connections = open.connections();
    let mut peers = connections.peers();
    if connections.is_exclusive()
        && let Some(holder) = peers.values().next()
    {
        return Err(holder.clone());
    }
    let number = peers.last_key_value().map_or(0, |(last, _)| last + 1);
    peers.insert(number, peer.to_owned());
    Ok(AdmittedConnection { open: Arc::clone(open), number })
}

#[cfg(test)]
mod tests {
    use varve_types::{Reduction, StreamId};

    use super::*;
    use crate::open::{AccessMode, InitialState, OpenVolumes};

    #[test]
    fn an_exclusive_volume_has_one_connection_at_a_time() {
        let (volumes, stream) = (OpenVolumes::default(), StreamId::new(7));
        let opening = InitialState {
            size_bytes: 4096,
            reduction: Reduction::OFF,
            quota_bytes: None,
            is_exclusive: false,
            gate: AccessMode::Open,
        };
        let open = volumes.open(stream, opening);
        assert_eq!(volumes.set_exclusive(StreamId::new(8), true), Ok(false), "nobody has it open");
        let (one, two) = (admit(&open, "one").unwrap(), admit(&open, "two").unwrap());
        assert_eq!(volumes.set_exclusive(stream, true), Err(2), "VOLUME-CONNECTIONS-2");
        assert!(!open.connections().is_exclusive());
        drop(one);
        assert_eq!(volumes.set_exclusive(stream, true), Ok(false));
        assert_eq!(open.connections().holder().as_deref(), Some("two"));
        assert_eq!(admit(&open, "three").unwrap_err(), "two", "VOLUME-CONNECTIONS-1");
        drop(two);
        assert_eq!(open.connections().holder(), None);
        let three = admit(&open, "three").unwrap();
        assert_eq!(volumes.set_exclusive(stream, false), Ok(true));
        let four = admit(&open, "four").unwrap();
        assert_eq!(open.connections().holder(), None, "others are admitted");
        drop((three, four));
        assert!(open.connections().peers().is_empty());
    }
}
