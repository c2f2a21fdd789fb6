//! The nodes of the pool, and what they carry, as the admin API and its metrics tell of them.

use varve_access_admin::v1::NodeStatus;
use varve_access_admin::{Metric, MetricKind, Sample};
use varve_relay::NodeTraffic;

/// For the status.
pub(crate) fn statuses(nodes: Vec<NodeTraffic>) -> Vec<NodeStatus> {
    let status = |traffic: NodeTraffic| NodeStatus {
        id: traffic.node.id.to_string(),
        place: traffic.node.place,
        address: traffic.node.reach.map(|reach| reach.address.to_string()),
        serves: traffic.serves,
        connections_open: traffic.connections_open,
        connections: traffic.connections,
        received_bytes: traffic.received_bytes,
        sent_bytes: traffic.sent_bytes,
    };
    nodes.into_iter().map(status).collect()
}

/// Figures of all nodes, with their places as labels.
pub(crate) fn metrics(nodes: &[NodeTraffic]) -> Vec<Metric> {
    type Figure = fn(&NodeTraffic) -> u64;
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
    let others = nodes.iter().filter(|node| !node.serves).count();
    let others = u64::try_from(others).unwrap_or(u64::MAX);
    let help = "Daemons that stand by for the pool.";
    let mut metrics = vec![Metric::gauge("varve_pool_standing_by", help, others)];
    for (name, help, kind, figure) in figures {
        let mut metric = Metric::new(name, help, kind);
        metric.samples.extend(nodes.iter().map(|node| Sample {
            labels: vec![("node", node.node.place.clone())],
            value: figure(node),
        }));
        metrics.push(metric);
    }
    metrics
}

#[cfg(test)]
mod tests {
    use varve_membership::{Node, NodeId};

    use super::*;

    #[test]
    fn nodes_are_counted_by_their_places_and_only_totals_are_counters() {
        let traffic = |id, place: &str, serves| NodeTraffic {
            node: Node { id: NodeId(id), place: place.to_owned(), reach: None },
            serves,
            connections_open: 1,
            connections: 2,
            received_bytes: 3,
            sent_bytes: 4,
        };
        let metrics = metrics(&[traffic(1, "a", true), traffic(2, "b", false)]);
        for metric in &metrics {
            let is_counter = matches!(metric.kind, MetricKind::Counter);
            assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
        }
        let values = |metric: &Metric| -> Vec<u64> {
            metric.samples.iter().map(|sample| sample.value).collect()
        };
        let values: Vec<_> = metrics.iter().map(values).collect();
        assert_eq!(values, [vec![1], vec![1, 1], vec![2, 2], vec![3, 3], vec![4, 4]]);
        assert_eq!(metrics[1].samples[1].labels, [("node", "b".to_owned())]);
    }
}
