//! What other nodes carry, by node.

use std::sync::Arc;

use varve_membership::Node;
use varve_types::CellId;

use crate::link_table::LinkTable;
use crate::view::{View, Views};

/// Looks at what is carried.
#[derive(Clone, Debug)]
pub struct RelayMetrics {
    pub(crate) links: Arc<LinkTable>,
    pub(crate) views: Views,
    /// By whose owner it is asked.
    pub(crate) cell: CellId,
}

/// A node of the pool, and what it carries to this one.
#[derive(Clone, Debug)]
pub struct NodeTraffic {
    /// The node.
    pub node: Node,
    /// Whether it is to serve the cell.
    pub serves: bool,
    /// Connections that it carries now.
    pub connections_open: u64,
    /// Connections that it carries, or has carried.
    pub connections: u64,
    /// Bytes of clients that it carried.
    pub received_bytes: u64,
    /// Bytes for clients that it carried.
    pub sent_bytes: u64,
}

impl RelayMetrics {
    /// The nodes of the pool.
    pub fn nodes(&self) -> Vec<NodeTraffic> {
        let view = self.view();
        let sums = self.links.sums();
        let owner = view.owner(self.cell);
        let traffic = |node: Node| {
            let of_node = sums.get(&node.id).copied().unwrap_or_default();
            NodeTraffic {
                serves: owner == Some(node.id),
                node,
                connections_open: of_node.open,
                connections: of_node.connections,
                received_bytes: of_node.received_bytes,
                sent_bytes: of_node.sent_bytes,
            }
        };
        view.nodes.into_iter().map(traffic).collect()
    }

    /// Where nodes are that do not serve the cell.
    pub fn standing_by(&self) -> Vec<String> {
        self.view().standing_by(self.cell)
    }

    /// What the table of nodes said last.
    fn view(&self) -> View {
        self.views.borrow().clone()
    }
}
