//! What the table of nodes said last, for the threads that carry connections.

use tokio::sync::watch;
use varve_membership::{Node, NodeId};
use varve_types::CellId;

/// The table, and which of its nodes this one is.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// This node.
    pub me: Option<NodeId>,
    /// Version of the table.
    pub version: u64,
    /// Who is to serve each cell of the pool.
    pub owners: Vec<Option<NodeId>>,
    /// Who is there, in the order in which they joined.
    pub nodes: Vec<Node>,
}

/// Where it is seen.
pub type Views = watch::Receiver<View>;

impl View {
    /// A node that is there.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// Who is to serve a cell.
    pub fn owner(&self, cell: CellId) -> Option<NodeId> {
        *self.owners.get(usize::from(cell.0))?
    }

    /// Whether this node is to serve a cell.
    pub fn is_mine(&self, cell: CellId) -> bool {
        let owner = self.owner(cell);
        owner.is_some() && owner == self.me
    }

    /// Where nodes are that do not serve a cell, for people.
    pub fn standing_by(&self, cell: CellId) -> Vec<String> {
        let owner = self.owner(cell);
        let others = self.nodes.iter().filter(|node| Some(node.id) != owner);
        others.map(|node| node.place.clone()).collect()
    }
}
