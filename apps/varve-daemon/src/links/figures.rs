//! What other nodes carry, by node.

use std::sync::Arc;

use varve_membership::Node;
use varve_types::CellId;

use super::link_table::LinkTable;
use super::view::{View, Views};

/// Looks at what is carried.
#[derive(Clone, Debug)]
pub(crate) struct RelayMetrics {
    pub(super) links: Arc<LinkTable>,
    pub(super) views: Views,
    /// By whose owner it is asked.
    pub(super) cell: CellId,
}

/// A node of the pool, and what it carries to this one.
#[derive(Clone, Debug)]
pub(crate) struct NodeTraffic {
    /// The node.
    pub(crate) node: Node,
    /// Whether it is to serve the cell.
    pub(crate) serves: bool,
    /// Connections that it carries now.
    pub(crate) connections_open: u64,
    /// Connections that it carries, or has carried.
    pub(crate) connections: u64,
    /// Bytes of clients that it carried.
    pub(crate) received_bytes: u64,
    /// Bytes for clients that it carried.
    pub(crate) sent_bytes: u64,
}

impl RelayMetrics {
    /// The nodes of the pool.
    pub(crate) fn nodes(&self) -> Vec<NodeTraffic> {
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
    pub(crate) fn standing_by(&self) -> Vec<String> {
        self.view().standing_by(self.cell)
    }

    /// What the table of nodes said last.
    fn view(&self) -> View {
        self.views.borrow().clone()
    }
}
