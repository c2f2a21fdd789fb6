//! `varve node list`: the daemons of the pool, which one serves it, and what the others carry.

use clap::Args;
use varve_access_admin::v1;
use varve_client::table::{self, Align};
use varve_client::{Client, Failure, Result};
use varve_types::ByteCount;

use crate::cells;
use crate::cli::Format;

/// List the daemons of the pool, and the connections each forwards to the one that serves it
#[derive(Args, Debug)]
pub(crate) struct NodeList {
    #[command(flatten)]
    format: Format,
}

impl NodeList {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let status = client.get::<v1::Status>("/v1/status")?.value;
        let nodes = status.nodes.ok_or_else(|| {
            Failure::new("this pool has no nodes: its daemon serves it alone")
                .hint("several daemons may take clients for a pool on RADOS: set rados.join")
        })?;
        if self.format.json {
            let json = serde_json::to_value(nodes).expect("nodes are plain JSON");
            return Ok(format!("{json:#}\n"));
        }
        Ok(describe(&nodes, &status.cells) + &cells::without(&status.missing_cells))
    }
}

/// Lists them; for `varve status` too.
pub(crate) fn describe(nodes: &[v1::NodeStatus], cells: &[v1::CellStatus]) -> String {
    let mut header = vec![
        ("NODE", Align::Left),
        ("ADDRESS", Align::Left),
        ("SERVES", Align::Left),
        ("CONNECTIONS", Align::Right),
        ("RECEIVED", Align::Right),
        ("SENT", Align::Right),
    ];
    let row = |node: &v1::NodeStatus| {
        vec![
            node.place.clone(),
            node.address.clone().unwrap_or_else(|| "none".to_owned()),
            if node.serves { "yes" } else { "no" }.to_owned(),
            node.connections_open.to_string(),
            ByteCount(node.received_bytes).to_string(),
            ByteCount(node.sent_bytes).to_string(),
        ]
    };
    let mut rows: Vec<Vec<String>> = nodes.iter().map(row).collect();
    if !cells.is_empty() {
        header.insert(3, ("CELLS", Align::Left));
        for (row, node) in rows.iter_mut().zip(nodes) {
            let its = cells.iter().filter(|cell| cell.node.as_ref() == Some(&node.place));
            row.insert(3, cells::numbers(its.map(|cell| cell.cell)));
        }
    }
    table::columns(&header, &rows)
}
