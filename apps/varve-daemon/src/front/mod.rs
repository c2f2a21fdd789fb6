//! Clients of a node: the sockets of all front-ends, whichever node serves.
//!
//! ```text
//!  client ──▶ sockets ──▶ nbd: TLS, handshake ──▶ this node serves: a thread gets socket, TLS and what was agreed on
//!                    └──▶ whole: S3, admin API ─▶ another one does: `varve-relay` carries it
//!                          `admin` stands before the admin APIs of several cells
//! ```
//!
//! A client of NBD goes to the cell of its volume (`names`), of S3 to the first one, which has all buckets; a caller of
//! the admin API to the first one, unless it is asked of several (`admin`).
//!
//! FRONT-1. A client that no node takes within [`HOLD_MAX`] is let go of, and so is one whose node serves no more: once
//!     it is served nothing is sent twice (LINKS-1).
//! FRONT-2. Who serves has a client by itself: nothing of the front is on its way then.
//! FRONT-3. Nobody is told of an export but by who serves it.

mod admin;
mod cells;
mod nbd;
mod sockets;
mod whole;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use varve_access_admin::{ListenAddress, Token};
use varve_access_nbd::{TlsConfig, TlsMode};
use varve_client::{Failure, Result};
use varve_relay::wire::FrontEnd;
use varve_relay::{ClientStream, Router};
use varve_types::CellId;

use self::admin::Guard;
#[cfg(any(test, feature = "memory"))]
pub use self::admin::memory_cells::{CellConduct, MemoryCells};
use self::cells::CellsOfAdmin;
use self::sockets::{ClientListener, accepted_stream};
pub(crate) use self::sockets::{FrontSockets, S3Socket};
use super::cell_front_ends::{CellFrontEnds, RelayListener};
use super::names::NameLookup;

/// Clients of one socket at a time that are not served by this node; others wait in its listen queue. So those of one
/// front-end leave room to the others.
const fn clients_max(front_end: FrontEnd) -> usize {
    match front_end {
        FrontEnd::Export => 256,
        FrontEnd::S3 => 640,
        FrontEnd::Admin => 64,
    }
}

/// Clients of NBD that are carried; only those that have not agreed yet count at their socket.
const CARRIED_MAX: usize = 1024;

/// How long a client waits for a node that serves: longer than it takes another one to take the pool over.
const HOLD_MAX: Duration = Duration::from_secs(20);

/// Pause after an accept that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How connections of NBD use TLS.
#[derive(Clone)]
pub(crate) struct FrontTls {
    pub(crate) mode: TlsMode,
    pub(crate) config: Option<TlsConfig>,
}

/// See the module.
pub(crate) struct FrontEnds {
    sockets: FrontSockets,
    /// Accept from them until this is dropped.
    _accepting: JoinSet<()>,
}

/// What clients share.
struct Reception {
    ways: Router<CellFrontEnds>,
    tls: FrontTls,
    /// Which cell has a volume; `None` in a pool of one cell.
    names: Option<NameLookup>,
    /// Places for clients of NBD that are carried.
    carried: Semaphore,
    /// What callers of the admin API by TCP show.
    token: Option<Arc<Token>>,
}

impl FrontEnds {
    /// Takes clients from these sockets, until it is dropped.
    pub(crate) fn start(
        door: &RelayListener,
        sockets: FrontSockets,
        tls: FrontTls,
        names: Option<NameLookup>,
    ) -> Result<Self> {
        let carried = Semaphore::new(CARRIED_MAX);
        let token = sockets.token.clone();
        let reception = Arc::new(Reception { ways: door.ways(), tls, names, carried, token });
        let threads = reception.ways.threads().clone();
        let entered = threads.enter();
        let listeners = sockets.listeners();
        let listeners =
            listeners.map_err(|error| Failure::new(format!("accept clients: {error}")))?;
        drop(entered);
        let mut accepting = JoinSet::new();
        for (front_end, listener) in listeners {
            let places = Arc::new(Semaphore::new(clients_max(front_end)));
            let reception = Arc::clone(&reception);
            accepting.spawn_on(reception.accept(front_end, listener, places), &threads);
        }
        Ok(Self { sockets, _accepting: accepting })
    }

    /// Where clients of NBD connect.
    pub(crate) fn nbd_addresses(&self) -> Vec<ListenAddress> {
        self.sockets.nbd_addresses()
    }

    /// Where those of S3 do.
    pub(crate) fn s3(&self) -> &Arc<S3Socket> {
        &self.sockets.s3
    }

    /// Where those of the admin API do.
    pub(crate) fn admin_addresses(&self) -> Vec<ListenAddress> {
        self.sockets.admin.iter().map(|listener| listener.address().clone()).collect()
    }
}

impl Reception {
    async fn accept(
        self: Arc<Self>,
        front_end: FrontEnd,
        listener: ClientListener,
        places: Arc<Semaphore>,
    ) {
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let place = place.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok(client) => {
                    let reception = Arc::clone(&self);
                    tokio::spawn(async move {
                        reception.receive(front_end, client, place).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn receive(
        self: Arc<Self>,
        front_end: FrontEnd,
        client: ClientStream,
        place: OwnedSemaphorePermit,
    ) {
        match front_end {
            FrontEnd::Export => self.receive_nbd(client, place).await,
            FrontEnd::Admin if self.names.is_some() => {
                let guard = client.address().map(|_| Guard { token: self.token.clone() });
                admin::route(Arc::new(CellsOfAdmin(self)), accepted_stream(client), guard).await;
            }
            FrontEnd::S3 | FrontEnd::Admin => {
                self.receive_whole(front_end, CellId::FIRST, client).await;
            }
        }
    }
}
