//! Openings of volumes for writing wait until nothing that other nodes carry can happen later that was sent before.
//!
//! ```text
//!  client    node A (carries)      node B (serves)        node C (carries)    client
//!    │── W1 ──▶ │ (waits)              │                      │ ◀── open v ─────│
//!    │          │ ◀───── Ask ──────────│ ◀────── open v ──────│
//!    │          │ ──── W1, Told ─────▶ │ W1 happens           │
//!    │          │                      │ ─── it is open ────▶ │ ── it is open ─▶│
//!    │          │                      │ ◀──────── W1, W2 ────│ ◀─── W1, W2 ────│
//! ```
//!
//! For each link on which the same volume is open for writing, all at the same time:
//!
//! 1. The carrying node is asked how far its client has come (`Ask`). It answers (`Told`) behind everything that the
//!    client had sent before, once it has looked at the client's socket (CARRY-1 to CARRY-3); where that is at its end,
//!    the link ends instead.
//! 2. A node that says nothing for [`TOLD_MAX`], while this one takes what it sends, has the link cut: what has not
//!    been read of it never will be.
//! 3. Of a link that has told, every request that was whole among the bytes before `Told` is waited for. Of one that
//!    has ended, or was cut, the connection is waited for until it is over, and so everything that was begun from it. A
//!    link that takes longer than [`SETTLE_MAX`] is cut, too.
//!
//! Links on which the volume is being opened now have told their clients nothing, so they have sent no writes: nobody
//! waits for them, and two openings do not wait for each other. A client that knows of an open connection is waited for
//! at the next one (CARRIED-2).

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Handle;
use varve_access_block::{OpenBarrier, PendingOpen};
use varve_access_nbd::RelayProgress;

use crate::deliver::IncomingLink;
#[cfg(doc)]
use crate::deliver::TOLD_MAX;
use crate::link_table::LinkTable;

/// Between two looks how far a connection is.
const LOOK_PAUSE: Duration = Duration::from_millis(2);

/// What openings of volumes pass.
#[derive(Debug)]
pub(crate) struct LinkBarrier {
    pub(crate) links: Arc<LinkTable>,
    pub(crate) threads: Handle,
}

impl OpenBarrier for LinkBarrier {
    fn pass(&self, opening: PendingOpen) {
        let PendingOpen { export, by, passes } = opening;
        let links = self.links.open();
        let others = links.iter().filter(|(number, _)| Some(**number) != by);
        let written: Vec<_> = others
            .filter_map(|(_, link)| {
                let carried = link.carried.get().filter(|carried| carried.writes_to(&export))?;
                Some((Arc::clone(link), Arc::clone(carried)))
            })
            .collect();
        drop(links);
        if written.is_empty() {
            let _ = passes.send(()); // Whoever opens may have gone.
            return;
        }
        self.threads.spawn(async move {
            join_all(written.iter().map(|(link, carried)| settle(link, carried))).await;
            let _ = passes.send(()); // As above.
        });
    }
}

/// How long a link may take to settle before it is cut: a client that takes no answers would hold up all others. Less
/// than a handshake may take.
const SETTLE_MAX: Duration = Duration::from_secs(6);

/// Waits until nothing that was sent before by this link can happen later.
async fn settle(link: &IncomingLink, carried: &RelayProgress) {
    let settled = async {
        let bytes = link.ask().await.unwrap_or(u64::MAX); // All there will ever be.
        let _hold = carried.hold();
        while !carried.has_settled(bytes) {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    };
    if tokio::time::timeout(SETTLE_MAX, settled).await.is_err() {
        tracing::warn!(node = %link.node, "a link is cut: its client takes no answers while others open the volume");
        link.cut();
        while !carried.is_over() {
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}
