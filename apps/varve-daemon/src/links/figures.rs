//! What other nodes carry, by node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use varve_access_admin::v1::NodeStatus;
use varve_access_admin::{Metric, MetricKind, Sample};
use varve_membership::NodeId;
use varve_types::CellId;

use super::View;
use super::deliver::IncomingLink;
use super::door::RelayState;

/// Sums of links that have ended.
#[derive(Default)]
pub(super) struct LinkMetrics(BTreeMap<NodeId, Carries>);

/// What a node carries, and has carried.
#[derive(Clone, Copy, Default)]
struct Carries {
    open: u64,
    connections: u64,
    received_bytes: u64,
    sent_bytes: u64,
}

impl Carries {
    fn add(&mut self, link: &IncomingLink) {
        self.connections += 1;
        self.received_bytes += link.counts.received.load(Ordering::Relaxed);
        self.sent_bytes += link.counts.sent.load(Ordering::Relaxed);
    }
}

impl LinkMetrics {
    pub(super) fn ended(&mut self, link: &IncomingLink) {
        self.0.entry(link.node).or_default().add(link);
    }

    /// Forgets those of other nodes.
    pub(super) fn keep(&mut self, mut is_there: impl FnMut(NodeId) -> bool) {
        self.0.retain(|node, _| is_there(*node));
    }
}

/// Looks at what is carried.
#[derive(Clone, Debug)]
pub(crate) struct RelayMetrics {
    pub(super) lobby: Arc<RelayState>,
    /// By whose owner it is asked.
    pub(super) cell: CellId,
}

impl RelayMetrics {
    /// The nodes of the pool.
    pub(crate) fn nodes(&self) -> Vec<NodeStatus> {
        let view = self.view();
        let mut carries = self.lobby.figures().0.clone();
        for link in self.lobby.links().values() {
            let of_node = carries.entry(link.node).or_default();
            of_node.add(link);
            of_node.open += 1;
        }
        let status = |node: &varve_membership::Node| {
            let of_node = carries.get(&node.id).copied().unwrap_or_default();
            NodeStatus {
                id: node.id.to_string(),
                place: node.place.clone(),
                address: node.reach.map(|reach| reach.address.to_string()),
                serves: view.owner(self.cell) == Some(node.id),
                connections_open: of_node.open,
                connections: of_node.connections,
                received_bytes: of_node.received_bytes,
                sent_bytes: of_node.sent_bytes,
            }
        };
        view.nodes.iter().map(status).collect()
    }

    /// Figures of all nodes, with their places as labels.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        type Figure = fn(&NodeStatus) -> u64;
        let figures: [(&'static str, &'static str, MetricKind, Figure); 4] = [
            (
                "varve_node_connections_open",
                "Connections that a node carries to the one that serves the pool.",
                MetricKind::Gauge,
                |node| node.connections_open,
            ),
            (
                "varve_node_connections_total",
                "Connections that a node has carried since it joined.",
                MetricKind::Counter,
                |node| node.connections,
            ),
            (
                "varve_node_received_bytes_total",
                "Bytes of clients that a node has carried.",
                MetricKind::Counter,
                |node| node.received_bytes,
            ),
            (
                "varve_node_sent_bytes_total",
                "Bytes for clients that a node has carried.",
                MetricKind::Counter,
                |node| node.sent_bytes,
            ),
        ];
        let nodes = self.nodes();
        let others = nodes.iter().filter(|node| !node.serves).count();
        let others = u64::try_from(others).unwrap_or(u64::MAX);
        let help = "Daemons that stand by for the pool.";
        let mut metrics = vec![Metric::gauge("varve_pool_standing_by", help, others)];
        for (name, help, kind, figure) in figures {
            let mut metric = Metric::new(name, help, kind);
            metric.samples.extend(nodes.iter().map(|node| Sample {
                labels: vec![("node", node.place.clone())],
                value: figure(node),
            }));
            metrics.push(metric);
        }
        metrics
    }

    /// Where nodes are that do not serve the cell.
    pub(crate) fn standing_by(&self) -> Vec<String> {
        self.view().standing_by(self.cell)
    }

    /// What the table of nodes said last.
    fn view(&self) -> View {
        self.lobby.views.borrow().clone()
    }
}
