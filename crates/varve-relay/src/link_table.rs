//! The links by which other nodes carry clients to this one, and sums of those that have ended.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_membership::NodeId;

use crate::deliver::IncomingLink;

/// See the module.
#[derive(Default)]
pub(crate) struct LinkTable {
    /// By a number that no other link of this node has (RELAY-LISTENER-3). The lock guards nothing else, and nobody
    /// waits while it is held.
    open: Mutex<BTreeMap<u64, Arc<IncomingLink>>>,
    /// The same holds for these.
    ended: Mutex<BTreeMap<NodeId, LinkSums>>,
}

/// What a node carries, and has carried.
#[derive(Clone, Copy, Default)]
pub(crate) struct LinkSums {
    pub(crate) open: u64,
    pub(crate) connections: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
}

impl LinkSums {
    fn add(&mut self, link: &IncomingLink) {
        self.connections += 1;
        self.received_bytes += link.counts.received.load(Ordering::Relaxed);
        self.sent_bytes += link.counts.sent.load(Ordering::Relaxed);
    }
}

impl LinkTable {
    /// Links that there are.
    pub(crate) fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<IncomingLink>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ended(&self) -> MutexGuard<'_, BTreeMap<NodeId, LinkSums>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a link, but for its counts.
    pub(crate) fn remove(&self, number: u64, link: &IncomingLink) {
        self.open().remove(&number);
        self.ended().entry(link.node).or_default().add(link);
    }

    /// Forgets the counts of nodes that are not there.
    pub(crate) fn keep(&self, mut is_there: impl FnMut(NodeId) -> bool) {
        self.ended().retain(|node, _| is_there(*node));
    }

    /// The sums of each node that carries, or has carried.
    pub(crate) fn sums(&self) -> BTreeMap<NodeId, LinkSums> {
        let mut sums = self.ended().clone();
        for link in self.open().values() {
            let of_node = sums.entry(link.node).or_default();
            of_node.add(link);
            of_node.open += 1;
        }
        sums
    }
}

impl fmt::Debug for LinkTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LinkTable({} links)", self.open().len())
    }
}
