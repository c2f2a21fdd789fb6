//! Where other nodes come in.
//!
//! RELAY-LISTENER-1. A node is let in for one life of this one: its hello names this node's identity, and this one is
//!     who the table names for the cell, and serves it.
//! RELAY-LISTENER-2. It shows the key whose fingerprint the table has for the identity that it says.
//! RELAY-LISTENER-3. A link stays known until its connection is over, also when it was cut: what was begun from it may
//!     still be under way, and openings wait for it.
//! RELAY-LISTENER-4. A node that is out of the table has its links cut.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio_rustls::{TlsAcceptor, TlsStream};
use varve_access_block::OpenBarrier;
use varve_membership::NodeAddress;
use varve_types::{CellId, PoolId};

use crate::Error;
use crate::barrier::LinkBarrier;
use crate::deliver::{Delivery, IncomingLink};
use crate::export::converse;
use crate::front_ends::LocalFrontEnds;
use crate::key::NodeKey;
use crate::limits::LinkLimits;
use crate::link::{BEGIN_MAX, find_dead_peers, peer};
use crate::link_table::LinkTable;
use crate::metrics::RelayMetrics;
use crate::route::Router;
use crate::state::RelayState;
use crate::view::Views;
use crate::wire::{FrontEnd, HELLO_BYTES, Hello, HelloReply};

/// Handshakes at a time; others wait in the listen queue.
const HANDSHAKES_MAX: usize = 64;

/// Threads that move bytes of links, at most.
const THREADS_MAX: usize = 4;

/// Bytes on their way to or from a front-end that is no socket.
const PIPE_BYTES: usize = 256 << 10;

/// Pause after an accept that failed, and between two looks whether a connection is over.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const OVER_PAUSE: Duration = Duration::from_millis(5);

/// Where other nodes come in, and the threads behind it; `F` are the front-ends of a cell.
pub struct RelayListener<F> {
    state: Arc<RelayState<F>>,
    reach: NodeAddress,
    runtime: Option<Runtime>,
}

impl<F: LocalFrontEnds> RelayListener<F> {
    /// Listens at `address`, on threads of its own. Others are told to come to `reached`, where that names no machine.
    /// Blocks.
    ///
    /// # Errors
    /// [`Error::Listen`].
    pub fn open(
        pool: PoolId,
        cells: u16,
        key: NodeKey,
        address: SocketAddr,
        reached: IpAddr,
        views: Views,
        limits: LinkLimits,
    ) -> crate::Result<Self> {
        let failed =
            |error: &dyn std::fmt::Display| Error::Listen { address, reason: error.to_string() };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(cores.min(THREADS_MAX))
            .thread_name("links")
            .enable_all()
            .build()
            .map_err(|error| failed(&error))?;
        let listener =
            runtime.block_on(TcpListener::bind(address)).map_err(|error| failed(&error))?;
        let bound = listener.local_addr().map_err(|error| failed(&error))?;
        let ip = if bound.ip().is_unspecified() { reached } else { bound.ip() };
        let reach = NodeAddress::new(SocketAddr::new(ip, bound.port()), key.fingerprint());
        let acceptor = key.acceptor().map_err(|error| failed(&error))?;
        let state = Arc::new(RelayState {
            pool,
            cells,
            key,
            views,
            threads: runtime.handle().clone(),
            limits,
            links: Arc::default(),
            next: AtomicU64::new(1),
            fronts: Mutex::default(),
        });
        runtime.spawn(accept(Arc::clone(&state), listener, acceptor));
        runtime.spawn(cut_those_who_are_out(Arc::clone(&state.links), state.views.clone()));
        Ok(Self { state, reach, runtime: Some(runtime) })
    }

    /// How others reach this node.
    pub fn reach(&self) -> NodeAddress {
        self.reach
    }

    /// Lets others in to a cell from now on, and serves clients of it.
    pub fn serve(&self, cell: CellId, fronts: F) {
        self.state.fronts().insert(cell, fronts);
    }

    /// Lets nobody in to a cell any more. Links that there are stay until their connections end.
    pub fn close(&self, cell: CellId) {
        self.state.fronts().remove(&cell);
    }

    /// Whether the table says that this node is to serve a cell.
    pub fn is_mine(&self, cell: CellId) -> bool {
        self.state.views.borrow().is_mine(cell)
    }

    /// What openings of volumes pass.
    pub fn gate(&self) -> Arc<dyn OpenBarrier> {
        let (links, threads) = (Arc::clone(&self.state.links), self.state.threads.clone());
        Arc::new(LinkBarrier { links, threads })
    }

    /// What others carry, as the owner of a cell tells it, for as long as anybody asks.
    pub fn watcher(&self, cell: CellId) -> RelayMetrics {
        let (links, views) = (Arc::clone(&self.state.links), self.state.views.clone());
        RelayMetrics { links, views, cell }
    }

    #[cfg(test)]
    pub(crate) fn links(&self) -> &LinkTable {
        &self.state.links
    }

    /// The ways to who serves.
    pub fn ways(&self) -> Router<F> {
        Router::new(Arc::clone(&self.state))
    }
}

impl<F> Drop for RelayListener<F> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The caller may be a task of another runtime; nobody needs what is left.
            runtime.shutdown_background();
        }
    }
}

impl<F: LocalFrontEnds> RelayState<F> {
    /// Whether it may come in, as far as the table tells.
    fn check(&self, hello: &Hello, link: &TlsStream<TcpStream>) -> HelloReply {
        let view = self.views.borrow();
        let shown = peer(link);
        let known = view.node(hello.from).and_then(|node| node.reach);
        if hello.pool != self.pool {
            HelloReply::OtherPool
        } else if Some(hello.to) != view.me {
            HelloReply::OtherNode // RELAY-LISTENER-1
        } else if shown.is_none() || known.map(|reach| reach.fingerprint) != shown {
            HelloReply::NotANode // RELAY-LISTENER-2
        } else if !view.is_mine(hello.cell) {
            HelloReply::NotServing // RELAY-LISTENER-1
        } else {
            HelloReply::Accepted
        }
    }

    /// Gives it a place, and hands its connection to its front-end.
    fn admit(&self, hello: &Hello) -> Result<RelaySession, HelloReply> {
        let fronts = self.fronts();
        let Some(fronts) = fronts.get(&hello.cell) else { return Err(HelloReply::NotServing) };
        let front_end = hello.front_end.front_end().ok_or(HelloReply::NoFrontEnd)?;
        let mut links = self.links.open();
        let of_node = links.values().filter(|link| link.node == hello.from).count();
        if links.len() >= self.limits.links_max || of_node >= self.limits.of_node_max {
            return Err(HelloReply::TooMany);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let front = match front_end {
            FrontEnd::Export => FrontStream::Export,
            FrontEnd::S3 => {
                let (here, there) = tokio::io::duplex(PIPE_BYTES);
                fronts.offer_s3(there, hello.client)?;
                FrontStream::Pipe(here)
            }
            FrontEnd::Admin => {
                let (here, there) = tokio::io::duplex(PIPE_BYTES);
                fronts.offer_admin(there, hello.client)?;
                FrontStream::Pipe(here)
            }
        };
        let (link, delivery) = IncomingLink::new(hello.from, front_end, hello.cell);
        links.insert(number, Arc::clone(&link));
        Ok(RelaySession { number, link, delivery, front })
    }
}

/// This side's end of a front-end's connection.
enum FrontStream {
    /// There is one once who carries says for which export.
    Export,
    Pipe(DuplexStream),
}

async fn accept<F: LocalFrontEnds>(
    state: Arc<RelayState<F>>,
    listener: TcpListener,
    acceptor: TlsAcceptor,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let place = Arc::clone(&handshakes).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((socket, address)) => {
                let (state, acceptor) = (Arc::clone(&state), acceptor.clone());
                tokio::spawn(async move {
                    let patience = state.limits.begin_max;
                    let begun = tokio::time::timeout(patience, begin(&state, socket, acceptor));
                    let begun = begun.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                    drop(place);
                    if let Err(error) = stay(&state, begun).await {
                        tracing::debug!(%error, %address, "no link");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accept of a link failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A link that was let in.
struct RelaySession {
    number: u64,
    link: Arc<IncomingLink>,
    delivery: Delivery,
    front: FrontStream,
}

/// Handshake and hello; the link, and what is answered if that is not `Accepted`.
async fn begin<F: LocalFrontEnds>(
    state: &RelayState<F>,
    socket: TcpStream,
    acceptor: TlsAcceptor,
) -> io::Result<(TlsStream<TcpStream>, Result<RelaySession, HelloReply>)> {
    find_dead_peers(&socket)?;
    let mut stream = TlsStream::from(acceptor.accept(socket).await?);
    let mut bytes = [0; HELLO_BYTES];
    stream.read_exact(&mut bytes).await?;
    let admitted = match Hello::decode(&bytes) {
        Ok(hello) => match state.check(&hello, &stream) {
            HelloReply::Accepted => state.admit(&hello),
            refused => Err(refused),
        },
        Err(Error::Format { known, .. }) => Err(HelloReply::OtherVersion { known }),
        Err(error) => return Err(io::Error::other(error)),
    };
    Ok((stream, admitted))
}

/// What becomes of whoever has said hello.
async fn stay<F: LocalFrontEnds>(
    state: &RelayState<F>,
    begun: io::Result<(TlsStream<TcpStream>, Result<RelaySession, HelloReply>)>,
) -> io::Result<()> {
    let (mut stream, admitted) = begun?;
    match admitted {
        Ok(guest) => guest.stay(state, stream).await,
        Err(refused) => {
            answer(&mut stream, refused).await?;
            return Err(io::Error::other(refused.to_string()));
        }
    }
    Ok(())
}

async fn answer(stream: &mut TlsStream<TcpStream>, answer: HelloReply) -> io::Result<()> {
    let sent = async {
        stream.write_all(&answer.encode()).await?;
        stream.flush().await
    };
    tokio::time::timeout(BEGIN_MAX, sent)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

impl RelaySession {
    async fn stay<F: LocalFrontEnds>(self, state: &RelayState<F>, stream: TlsStream<TcpStream>) {
        let Self { number, link, delivery, front } = self;
        let ended = serve(state, number, &link, delivery, front, stream).await;
        if let Err(error) = ended {
            tracing::debug!(%error, node = %link.node, front_end = ?link.front_end, "a link broke");
        }
        forget(&state.links, number, &link).await;
    }
}

async fn serve<F: LocalFrontEnds>(
    state: &RelayState<F>,
    number: u64,
    link: &IncomingLink,
    mut delivery: Delivery,
    front: FrontStream,
    mut stream: TlsStream<TcpStream>,
) -> io::Result<()> {
    answer(&mut stream, HelloReply::Accepted).await?;
    match front {
        FrontStream::Pipe(front) => delivery.run(stream, front).await,
        FrontStream::Export => {
            let conversation = converse(state, link, number, &mut stream);
            match delivery.unless_cut(conversation).await? {
                Some(front) => delivery.run(stream, front).await,
                None => Ok(()),
            }
        }
    }
}

/// RELAY-LISTENER-3
async fn forget(links: &LinkTable, number: u64, link: &IncomingLink) {
    while link.carried.get().is_some_and(|carried| !carried.is_over()) {
        tokio::time::sleep(OVER_PAUSE).await;
    }
    links.remove(number, link);
}

/// RELAY-LISTENER-4
async fn cut_those_who_are_out(links: Arc<LinkTable>, mut views: Views) {
    while views.changed().await.is_ok() {
        let view = views.borrow_and_update().clone();
        for link in links.open().values().filter(|link| view.node(link.node).is_none()) {
            link.cut();
        }
        links.keep(|node| view.node(node).is_some());
    }
}
