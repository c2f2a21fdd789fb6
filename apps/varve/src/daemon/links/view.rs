//! What the table of nodes said last, for the threads that carry connections.

use tokio::sync::watch;
use varve_membership::{Node, NodeId};

/// The table, and which of its nodes this one is.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// This node.
    pub(crate) me: Option<NodeId>,
    /// Version of the table.
    pub(crate) version: u64,
    /// Who is to serve the pool.
    pub(crate) owner: Option<NodeId>,
    /// Who is there, in the order in which they joined.
    pub(crate) nodes: Vec<Node>,
}

/// Where it is seen.
pub(crate) type Views = watch::Receiver<View>;

impl View {
    /// A node that is there.
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Whether this node is to serve the pool.
    pub(crate) fn is_mine(&self) -> bool {
        self.owner.is_some() && self.owner == self.me
    }

    /// Where other nodes stand by, for people.
    pub(crate) fn standing_by(&self) -> Vec<String> {
        let others = self.nodes.iter().filter(|node| Some(node.id) != self.owner);
        others.map(|node| node.place.clone()).collect()
    }
}
