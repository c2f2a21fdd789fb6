//! Where other nodes come in.
//!
//! DOOR-1. A node is let in for one life of this one: its hello names this node's identity, and this one is who the
//!     table names for the cell, and serves it.
//! DOOR-2. It shows the key whose fingerprint the table has for the identity that it says.
//! DOOR-3. A link stays known until its connection is over, also when it was cut: what was begun from it may still be
//!     under way, and openings wait for it.
//! DOOR-4. A node that is out of the table has its links cut.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::{TlsAcceptor, TlsStream};
use varve_access_nbd::ConnectionBalancer;
use varve_client::Failure;
use varve_membership::NodeAddress;
use varve_relay::Error;
use varve_relay::wire::{FrontEnd, HELLO_BYTES, Hello, HelloReply};
use varve_types::{CellId, PoolId};

use super::deliver::{Delivery, IncomingLink};
use super::export::converse;
use super::figures::LinkMetrics;
use super::link::{BEGIN_MAX, find_dead_peers, peer};
use super::{NodeKey, Router, Views};

/// Bounds on what other nodes may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkLimits {
    /// Links at a time. Each may hold some 200 KiB of buffers.
    pub(crate) links_max: usize,
    /// Those of one node.
    pub(crate) of_node_max: usize,
    /// Time for the handshake and the hello, and for the answer.
    pub(crate) begin_max: Duration,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self { links_max: 2048, of_node_max: 1024, begin_max: BEGIN_MAX }
    }
}

/// Handshakes at a time; others wait in the listen queue.
const HANDSHAKES_MAX: usize = 64;

/// Threads that move bytes of links, at most.
const THREADS_MAX: usize = 4;

/// Bytes on their way to or from a front-end that is no socket.
const PIPE_BYTES: usize = 256 << 10;

/// Pause after an accept that failed, and between two looks whether a connection is over.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const OVER_PAUSE: Duration = Duration::from_millis(5);

/// A client of the S3 gateway, and its address if it came from a network.
pub(crate) type S3Client = (varve_access_s3::AcceptedClient, Option<SocketAddr>);
/// The same for the admin API.
pub(crate) type AdminClient = (Box<dyn varve_access_admin::AcceptedStream>, Option<SocketAddr>);

/// Where clients go, those of this node and those of others.
pub(crate) struct CellFrontEnds {
    /// The threads that serve NBD.
    pub(crate) nbd: ConnectionBalancer,
    /// The S3 gateway, where it is served.
    pub(crate) s3: Option<mpsc::Sender<S3Client>>,
    /// The admin API.
    pub(crate) admin: mpsc::Sender<AdminClient>,
}

/// This node's door, and the threads behind it.
pub(crate) struct RelayListener {
    lobby: Arc<RelayState>,
    reach: NodeAddress,
    runtime: Option<Runtime>,
}

/// What everybody at the door knows.
pub(super) struct RelayState {
    pub(super) pool: PoolId,
    /// How many the pool has.
    pub(super) cells: u16,
    pub(super) key: NodeKey,
    pub(super) views: Views,
    pub(super) threads: Handle,
    limits: LinkLimits,
    /// By a number that no other link of this node has (DOOR-3). The lock guards nothing else, and nobody waits while
    /// it is held.
    links: Mutex<BTreeMap<u64, Arc<IncomingLink>>>,
    next: AtomicU64,
    /// Of the cells that this node serves. The same holds for these.
    fronts: Mutex<BTreeMap<CellId, CellFrontEnds>>,
    figures: Mutex<LinkMetrics>,
}

impl RelayListener {
    /// Listens at `address`. Others are told to come to `reached`, where that names no machine.
    pub(crate) fn open(
        pool: PoolId,
        cells: u16,
        key: NodeKey,
        address: SocketAddr,
        reached: IpAddr,
        views: Views,
        limits: LinkLimits,
    ) -> varve_client::Result<Self> {
        let failed = |what: &dyn std::fmt::Display| {
            Failure::new(format!("listen for other nodes on {address}: {what}"))
                .hint("see whether another process holds the address, or choose another with rados.listen")
        };
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
        let lobby = Arc::new(RelayState {
            pool,
            cells,
            key,
            views,
            threads: runtime.handle().clone(),
            limits,
            links: Mutex::default(),
            next: AtomicU64::new(1),
            fronts: Mutex::default(),
            figures: Mutex::default(),
        });
        runtime.spawn(accept(Arc::clone(&lobby), listener, acceptor));
        runtime.spawn(cut_those_who_are_out(Arc::clone(&lobby)));
        Ok(Self { lobby, reach, runtime: Some(runtime) })
    }

    /// How others reach this node.
    pub(crate) fn reach(&self) -> NodeAddress {
        self.reach
    }

    /// Lets others in to a cell from now on, and serves clients of it.
    pub(crate) fn serve(&self, cell: CellId, fronts: CellFrontEnds) {
        self.lobby.fronts().insert(cell, fronts);
    }

    /// Lets nobody in to a cell any more. Links that there are stay until their connections end.
    pub(crate) fn close(&self, cell: CellId) {
        self.lobby.fronts().remove(&cell);
    }

    /// Whether the table says that this node is to serve a cell.
    pub(crate) fn is_mine(&self, cell: CellId) -> bool {
        self.lobby.views.borrow().is_mine(cell)
    }

    /// What openings of volumes pass.
    pub(crate) fn gate(&self) -> Arc<dyn varve_access_block::OpenBarrier> {
        Arc::clone(&self.lobby) as Arc<dyn varve_access_block::OpenBarrier>
    }

    /// What others carry, as the owner of a cell tells it, for as long as anybody asks.
    pub(crate) fn watcher(&self, cell: CellId) -> super::figures::RelayMetrics {
        super::figures::RelayMetrics { lobby: Arc::clone(&self.lobby), cell }
    }

    #[cfg(test)]
    pub(super) fn lobby(&self) -> &RelayState {
        &self.lobby
    }

    /// The ways to who serves.
    pub(crate) fn ways(&self) -> Router {
        Router::new(Arc::clone(&self.lobby))
    }
}

impl Drop for RelayListener {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The caller may be a task of another runtime; nobody needs what is left.
            runtime.shutdown_background();
        }
    }
}

impl RelayState {
    pub(super) fn links(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<IncomingLink>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fronts(&self) -> MutexGuard<'_, BTreeMap<CellId, CellFrontEnds>> {
        self.fronts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where clients of a cell go, while this node serves it.
    pub(super) fn here<T>(
        &self,
        cell: CellId,
        with: impl FnOnce(&CellFrontEnds) -> T,
    ) -> Option<T> {
        self.fronts().get(&cell).map(with)
    }

    pub(super) fn figures(&self) -> MutexGuard<'_, LinkMetrics> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may come in, as far as the table tells.
    fn check(&self, hello: &Hello, link: &TlsStream<TcpStream>) -> HelloReply {
        let view = self.views.borrow();
        let shown = peer(link);
        let known = view.node(hello.from).and_then(|node| node.reach);
        if hello.pool != self.pool {
            HelloReply::OtherPool
        } else if Some(hello.to) != view.me {
            HelloReply::OtherNode // DOOR-1
        } else if shown.is_none() || known.map(|reach| reach.fingerprint) != shown {
            HelloReply::NotANode // DOOR-2
        } else if !view.is_mine(hello.cell) {
            HelloReply::NotServing // DOOR-1
        } else {
            HelloReply::Accepted
        }
    }

    /// Gives it a place, and hands its connection to its front-end.
    fn admit(&self, hello: &Hello) -> Result<RelaySession, HelloReply> {
        let fronts = self.fronts();
        let Some(fronts) = fronts.get(&hello.cell) else { return Err(HelloReply::NotServing) };
        let front_end = hello.front_end.front_end().ok_or(HelloReply::NoFrontEnd)?;
        let mut links = self.links();
        let of_node = links.values().filter(|link| link.node == hello.from).count();
        if links.len() >= self.limits.links_max || of_node >= self.limits.of_node_max {
            return Err(HelloReply::TooMany);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let front = match front_end {
            FrontEnd::Export => FrontStream::Export,
            FrontEnd::S3 => {
                let s3 = fronts.s3.as_ref().ok_or(HelloReply::NoFrontEnd)?;
                FrontStream::Pipe(offer(s3, hello, varve_access_s3::AcceptedClient::Stream)?)
            }
            FrontEnd::Admin => {
                FrontStream::Pipe(offer(&fronts.admin, hello, |stream| Box::new(stream) as _)?)
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

fn offer<C>(
    front: &mpsc::Sender<(C, Option<SocketAddr>)>,
    hello: &Hello,
    client: impl FnOnce(DuplexStream) -> C,
) -> Result<DuplexStream, HelloReply> {
    let (here, there) = tokio::io::duplex(PIPE_BYTES);
    match front.try_send((client(there), hello.client)) {
        Ok(()) => Ok(here),
        Err(mpsc::error::TrySendError::Full(_)) => Err(HelloReply::TooMany),
        Err(mpsc::error::TrySendError::Closed(_)) => Err(HelloReply::NotServing),
    }
}

async fn accept(lobby: Arc<RelayState>, listener: TcpListener, acceptor: TlsAcceptor) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let place = Arc::clone(&handshakes).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((socket, address)) => {
                let (lobby, acceptor) = (Arc::clone(&lobby), acceptor.clone());
                tokio::spawn(async move {
                    let patience = lobby.limits.begin_max;
                    let begun = tokio::time::timeout(patience, begin(&lobby, socket, acceptor));
                    let begun = begun.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
                    drop(place);
                    if let Err(error) = stay(&lobby, begun).await {
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
async fn begin(
    lobby: &RelayState,
    socket: TcpStream,
    acceptor: TlsAcceptor,
) -> io::Result<(TlsStream<TcpStream>, Result<RelaySession, HelloReply>)> {
    find_dead_peers(&socket)?;
    let mut stream = TlsStream::from(acceptor.accept(socket).await?);
    let mut bytes = [0; HELLO_BYTES];
    stream.read_exact(&mut bytes).await?;
    let admitted = match Hello::decode(&bytes) {
        Ok(hello) => match lobby.check(&hello, &stream) {
            HelloReply::Accepted => lobby.admit(&hello),
            refused => Err(refused),
        },
        Err(Error::Format { known, .. }) => Err(HelloReply::OtherVersion { known }),
        Err(error) => return Err(io::Error::other(error)),
    };
    Ok((stream, admitted))
}

/// What becomes of whoever has said hello.
async fn stay(
    lobby: &RelayState,
    begun: io::Result<(TlsStream<TcpStream>, Result<RelaySession, HelloReply>)>,
) -> io::Result<()> {
    let (mut stream, admitted) = begun?;
    match admitted {
        Ok(guest) => guest.stay(lobby, stream).await,
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
    async fn stay(self, lobby: &RelayState, stream: TlsStream<TcpStream>) {
        let Self { number, link, delivery, front } = self;
        let ended = serve(lobby, number, &link, delivery, front, stream).await;
        if let Err(error) = ended {
            tracing::debug!(%error, node = %link.node, front_end = ?link.front_end, "a link broke");
        }
        forget(lobby, number, &link).await;
    }
}

async fn serve(
    lobby: &RelayState,
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
            let conversation = converse(lobby, link, number, &mut stream);
            match delivery.unless_cut(conversation).await? {
                Some(front) => delivery.run(stream, front).await,
                None => Ok(()),
            }
        }
    }
}

/// DOOR-3
async fn forget(lobby: &RelayState, number: u64, link: &IncomingLink) {
    while link.carried.get().is_some_and(|carried| !carried.is_over()) {
        tokio::time::sleep(OVER_PAUSE).await;
    }
    lobby.links().remove(&number);
    lobby.figures().ended(link);
}

/// DOOR-4
async fn cut_those_who_are_out(lobby: Arc<RelayState>) {
    let mut views = lobby.views.clone();
    while views.changed().await.is_ok() {
        let view = views.borrow_and_update().clone();
        for link in lobby.links().values().filter(|link| view.node(link.node).is_none()) {
            link.cut();
        }
        lobby.figures().keep(|node| view.node(node).is_some());
    }
}
