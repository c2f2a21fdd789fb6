//! Where connections come from: sockets to listen on, and dealing what they accept to the threads.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use varve_access_block::{Exports, Peer, notice_dead_peers};
use varve_reactor::Reactor;
use varve_reactor::net::{Socket, TcpListener, UnixListener};
use varve_reactor::port::{PortReceiver, PortSender};
use varve_stdx::bind_private;
use varve_types::ErrorKind;

use crate::agree::{AgreedTerms, KnownExport};
use crate::carried::{RelayLife, RelayProgress};
use crate::connection_limit::{ConnectionLimit, Permit, TooMany};
use crate::error::{Error, Result};
use crate::handshake::OpenRequest;
use crate::refusal::refuse;
use crate::service::Service;
use crate::shutdown::Shutdown;
use crate::transport::PeerSocket;

/// Pause after an accept that failed, in nanoseconds: a lack of descriptors ends when connections do.
const ACCEPT_PAUSE_NANOS: u64 = 50_000_000;

/// Most connections at a time that are told why they are refused.
const REFUSALS_MAX: usize = 32;

/// How long that may take, in nanoseconds.
const REFUSAL_NANOS: u64 = 2_000_000_000;

/// How long an address may be taken by a server that was killed: its ring is taken down after it has ended.
const RELEASE_MAX: Duration = Duration::from_secs(6);
const RELEASE_PAUSE: Duration = Duration::from_millis(20);

/// Where to listen: `unix:PATH` or `HOST:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port; 0 picks a free one.
    Tcp(SocketAddr),
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::Address { address: text.to_owned() };
        match text.strip_prefix("unix:") {
            Some("") => Err(bad()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => {
                let mut found = text.to_socket_addrs().map_err(|_| bad())?;
                found.next().map(Self::Tcp).ok_or_else(bad)
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// A listening socket that no thread accepts from yet.
#[derive(Debug)]
pub enum StdListener {
    /// A unix socket, and its path.
    Unix(std::os::unix::net::UnixListener, PathBuf),
    /// A unix socket whose file is somebody else's.
    Inherited(std::os::unix::net::UnixListener),
    /// A TCP socket.
    Tcp(std::net::TcpListener),
}

impl StdListener {
    /// Listens on `address`, as [`Listener::bind`] does.
    ///
    /// # Errors
    /// `Conflict` when somebody listens there, and the system's.
    pub fn bind(address: &Address) -> Result<Self> {
        let begin = Instant::now();
        loop {
            match Self::try_bind(address) {
                Err(error)
                    if is_passing(address, error.kind()) && begin.elapsed() < RELEASE_MAX =>
                {
                    std::thread::sleep(RELEASE_PAUSE);
                }
                bound => {
                    return bound
                        .map_err(|source| Error::Listen { address: address.to_string(), source });
                }
            }
        }
    }

    /// The sockets that a service manager, or a client that starts its server, handed to this process
    /// (`LISTEN_FDS`); none when there are none. Call it once, early.
    ///
    /// # Errors
    /// When a descriptor is not a listening stream socket.
    pub fn inherited() -> Result<Vec<Self>> {
        let mut environment = listenfd::ListenFd::from_env();
        let mut listeners = Vec::new();
        for index in 0..environment.len() {
            let failed =
                |source| Error::Listen { address: format!("inherited socket {index}"), source };
            match environment.take_unix_listener(index) {
                Ok(Some(socket)) => listeners.push(Self::Inherited(socket)),
                Ok(None) => {}
                Err(_) => {
                    if let Some(socket) = environment.take_tcp_listener(index).map_err(failed)? {
                        notice_dead_peers(&socket).map_err(failed)?;
                        listeners.push(Self::Tcp(socket));
                    }
                }
            }
        }
        Ok(listeners)
    }

    /// Where it listens; with the port that was picked. The path of a socket without one is empty.
    #[must_use]
    pub fn address(&self) -> Address {
        match self {
            Self::Unix(_, path) => Address::Unix(path.clone()),
            Self::Inherited(socket) => {
                let at = socket.local_addr().ok();
                let path = at.as_ref().and_then(|at| at.as_pathname()).unwrap_or(Path::new(""));
                Address::Unix(path.to_owned())
            }
            // A socket that listens has an address.
            Self::Tcp(socket) => {
                Address::Tcp(socket.local_addr().unwrap_or(SocketAddr::from(([0; 4], 0))))
            }
        }
    }

    fn try_bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(wanted) => {
                let socket = std::net::TcpListener::bind(wanted)?;
                notice_dead_peers(&socket)?;
                Ok(Self::Tcp(socket))
            }
            Address::Unix(path) => Ok(Self::Unix(bind_private(path)?, path.clone())),
        }
    }
}

/// Whether an address may be that of a server that was killed, of which only time tells.
fn is_passing(address: &Address, kind: io::ErrorKind) -> bool {
    match address {
        Address::Unix(_) => kind == io::ErrorKind::ResourceBusy,
        Address::Tcp(_) => kind == io::ErrorKind::AddrInUse,
    }
}

/// A listening socket on this thread.
pub struct Listener {
    socket: ListenerSocket,
    address: Address,
}

enum ListenerSocket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on `address`. The file of a unix socket that no process listens on any more is replaced. Blocks the
    /// thread, up to six seconds, while a TCP port is taken, or a socket by an unknown process: of a server that was
    /// killed the system closes sockets some time after it has ended.
    ///
    /// # Errors
    /// `Conflict` when somebody listens there, and the system's.
    pub fn bind(reactor: &Reactor, address: &Address) -> Result<Self> {
        Self::from_std(reactor, StdListener::bind(address)?)
    }

    /// Accepts on this thread from a socket that listens already. The file of a unix socket is removed when this is
    /// dropped.
    ///
    /// # Errors
    /// The system's.
    pub fn from_std(reactor: &Reactor, listener: StdListener) -> Result<Self> {
        let failed = |address: &dyn fmt::Display, source| Error::Listen {
            address: address.to_string(),
            source,
        };
        match listener {
            StdListener::Tcp(socket) => {
                let adopted = TcpListener::from_std(reactor, socket);
                adopted.map(Self::tcp).map_err(|source| failed(&"a TCP address", source))
            }
            StdListener::Inherited(socket) => {
                let failed = |source| failed(&"an inherited socket", source);
                let path = socket.local_addr().map_err(failed)?;
                let path = path.as_pathname().unwrap_or(Path::new("")).to_owned();
                let socket = UnixListener::from_std(reactor, socket).map_err(failed)?;
                Ok(Self { socket: ListenerSocket::Unix(socket), address: Address::Unix(path) })
            }
            StdListener::Unix(socket, path) => {
                let address = Address::Unix(path.clone());
                let socket = UnixListener::from_std(reactor, socket)
                    .map_err(|source| failed(&address, source))?
                    .removing(&path);
                Ok(Self { socket: ListenerSocket::Unix(socket), address })
            }
        }
    }

    fn tcp(socket: TcpListener) -> Self {
        let address = Address::Tcp(socket.local_addr());
        Self { socket: ListenerSocket::Tcp(socket), address }
    }

    /// Where it listens; with the port that was picked.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The next connection.
    ///
    /// # Errors
    /// The system's; accepting may go on after a while.
    pub async fn accept(&self) -> io::Result<Socket> {
        match &self.socket {
            ListenerSocket::Unix(socket) => socket.accept().await,
            ListenerSocket::Tcp(socket) => socket.accept().await,
        }
    }
}

/// Work on its way to the thread that will do it.
pub struct WorkHandoff(AcceptedWork);

enum AcceptedWork {
    /// A connection of which nothing has been read.
    Connection { fd: OwnedFd, permit: Permit, carried: Option<Arc<RelayProgress>> },
    /// One whose client has been agreed with elsewhere. It is over however this ends.
    Agreed { fd: OwnedFd, permit: Permit, agreed: Box<AgreedTerms>, life: RelayLife },
    /// One that is refused for this reason.
    Refused { fd: OwnedFd, why: TooMany, place: Permit },
    /// What are the names of all exports?
    List(Answer<Vec<String>>),
    /// What is there by this name?
    Look(OpenRequest, Answer<KnownExport>),
}

/// Told what was asked for; dropped when nobody answers.
pub type Answer<T> = Box<dyn FnOnce(std::result::Result<T, ErrorKind>) + Send>;

impl WorkHandoff {
    /// The connection, and the permit to keep as long as it is open; `None` if it is anything but a connection of which
    /// nothing has been read.
    #[must_use]
    pub fn into_parts(self) -> Option<(OwnedFd, Permit)> {
        match self.0 {
            AcceptedWork::Connection { fd, permit, .. } => Some((fd, permit)),
            AcceptedWork::Agreed { .. }
            | AcceptedWork::Refused { .. }
            | AcceptedWork::List(_)
            | AcceptedWork::Look(..) => None,
        }
    }
}

/// Deals connections to threads in turn, within the limit, and questions too.
pub struct ConnectionBalancer {
    limit: ConnectionLimit,
    /// Connections that are told why they are refused; the others are closed at once.
    refusals: ConnectionLimit,
    threads: Vec<PortSender<WorkHandoff>>,
    turn: AtomicUsize,
    /// Questions have a turn of their own: each connection begins with some, and all would be one thread's.
    question_turn: AtomicUsize,
}

impl ConnectionBalancer {
    /// Deals to these threads.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn new(limit: ConnectionLimit, threads: Vec<PortSender<WorkHandoff>>) -> Self {
        assert!(!threads.is_empty(), "connections need a thread to go to");
        let refusals = ConnectionLimit::new(REFUSALS_MAX);
        let (turn, question_turn) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { limit, refusals, threads, turn, question_turn }
    }

    /// Hands a connected stream socket in blocking mode, which another node may carry, to the next thread; false when
    /// it was closed instead, as too many are open or the thread takes no more.
    #[must_use]
    pub fn deal(&self, fd: OwnedFd, carried: Option<Arc<RelayProgress>>) -> bool {
        match self.permit(&fd) {
            Ok(permit) => self.send(AcceptedWork::Connection { fd, permit, carried }),
            Err(why) => {
                if let Ok(place) = self.refusals.permit(&Peer::Unknown) {
                    self.send(AcceptedWork::Refused { fd, why, place });
                }
                false
            }
        }
    }

    /// The same for one whose client has been agreed with.
    #[must_use]
    pub fn begin(
        &self,
        fd: OwnedFd,
        agreed: AgreedTerms,
        carried: Option<Arc<RelayProgress>>,
    ) -> bool {
        let (agreed, life) = (Box::new(agreed), RelayLife(carried));
        let permit = self.permit(&fd);
        permit.is_ok_and(|permit| self.send(AcceptedWork::Agreed { fd, permit, agreed, life }))
    }

    /// Asks for the names of all exports.
    pub fn list(&self, answer: Answer<Vec<String>>) {
        self.ask(AcceptedWork::List(answer));
    }

    /// Asks for an export, and opens none.
    pub fn look(&self, request: OpenRequest, answer: Answer<KnownExport>) {
        self.ask(AcceptedWork::Look(request, answer));
    }

    fn permit(&self, fd: &OwnedFd) -> std::result::Result<Permit, TooMany> {
        let peer = Peer::of(fd);
        let permit = self.limit.permit(&peer);
        permit.inspect_err(|why| tracing::warn!(%peer, %why, "connection refused"))
    }

    fn send(&self, work: AcceptedWork) -> bool {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        let is_taken = self.threads[turn].send(WorkHandoff(work)).is_ok();
        if !is_taken {
            tracing::warn!("connection refused: its thread takes no more");
        }
        is_taken
    }

    fn ask(&self, work: AcceptedWork) {
        let turn = self.question_turn.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        // Whoever asks sees that the answer was dropped.
        let _ = self.threads[turn].send(WorkHandoff(work));
    }
}

/// Accepts until `shutdown` begins, and deals the connections to `threads` in turn. Connections beyond the limit, and
/// those of a thread whose port is full, are closed at once.
pub async fn deal_connections(
    reactor: Reactor,
    listener: Listener,
    limit: ConnectionLimit,
    threads: Vec<PortSender<WorkHandoff>>,
    shutdown: Shutdown,
) {
    let dealer = ConnectionBalancer::new(limit, threads);
    loop {
        let accepted = {
            let accept = pin!(listener.accept());
            match select(accept, pin!(shutdown.wait())).await {
                Either::Left((accepted, _)) => accepted.and_then(Socket::into_fd),
                Either::Right(_) => return,
            }
        };
        match accepted {
            Err(error) => {
                tracing::warn!(%error, address = %listener.address(), "accept failed");
                reactor.sleep(ACCEPT_PAUSE_NANOS).await;
            }
            Ok(fd) => {
                let _said_why_not = dealer.deal(fd, None);
            }
        }
    }
}

/// Serves what is dealt to this thread until all dealers are gone.
pub async fn serve_connections<X: Exports + 'static>(
    service: Service<X>,
    mut dealt: PortReceiver<WorkHandoff>,
) {
    let mut batch = Vec::new();
    while dealt.recv_batch(&mut batch).await > 0 {
        for WorkHandoff(work) in batch.drain(..) {
            service.reactor().spawn(work.done_by(service.clone()));
        }
    }
}

impl AcceptedWork {
    async fn done_by<X: Exports>(self, service: Service<X>) {
        match self {
            Self::Connection { fd, permit, carried } => {
                if let Some(socket) = adopt(&service, fd) {
                    service.serve_carried(socket, carried).await;
                }
                drop(permit);
            }
            Self::Agreed { fd, permit, agreed, life } => {
                if let Some(socket) = adopt(&service, fd) {
                    service.serve_alive(socket, *agreed, life).await;
                }
                drop(permit);
            }
            Self::Refused { fd, why, place } => {
                if let Some(socket) = adopt(&service, fd) {
                    let deadline = pin!(service.reactor().sleep(REFUSAL_NANOS));
                    select(pin!(refuse(socket, &why.to_string())), deadline).await;
                }
                drop(place);
            }
            Self::List(answer) => answer(service.list().await),
            Self::Look(request, answer) => answer(service.look(&request).await),
        }
    }
}

fn adopt<X: Exports>(service: &Service<X>, fd: OwnedFd) -> Option<PeerSocket> {
    let peer = Peer::of(&fd);
    let socket = Socket::from_fd(service.reactor(), fd)
        .inspect_err(|error| tracing::warn!(%error, "connection lost on its way to its thread"));
    Some(PeerSocket { socket: socket.ok()?, peer })
}

#[cfg(test)]
mod tests {
    use varve_reactor::{Loop, LoopConfig};

    use super::*;

    #[test]
    fn addresses_round_trip_and_bad_ones_are_named() {
        for text in ["unix:/run/varve.sock", "127.0.0.1:10809", "[::1]:10809"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["unix:", "", "127.0.0.1", "/run/varve.sock"] {
            assert!(text.parse::<Address>().unwrap_err().to_string().contains("neither"), "{text}");
        }
    }

    #[test]
    fn an_address_where_a_process_listens_is_refused_with_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let address = Address::Unix(dir.path().join("nbd.sock"));
        let event_loop = Loop::new(LoopConfig::default()).unwrap();
        let bound = Listener::bind(&event_loop.handle(), &address).unwrap();
        let Err(refused) = Listener::bind(&event_loop.handle(), &address) else {
            panic!("two listen on {address}");
        };
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        let listens = format!("listen on {address}: process {} listens there", std::process::id());
        assert_eq!(refused.to_string(), listens);
        drop(bound);
    }

    #[test]
    fn what_may_pass_is_waited_for_and_a_process_that_listens_is_not() {
        let (tcp, unix) = ("127.0.0.1:1".parse().unwrap(), "unix:/run/s".parse().unwrap());
        let kinds = [io::ErrorKind::AddrInUse, io::ErrorKind::ResourceBusy];
        assert_eq!(kinds.map(|kind| is_passing(&tcp, kind)), [true, false]);
        assert_eq!(kinds.map(|kind| is_passing(&unix, kind)), [false, true]);
    }

    #[test]
    fn only_a_socket_that_nobody_listens_on_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let stale = dir.path().join("stale");
        drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
        let (file, target) = (dir.path().join("file"), dir.path().join("target"));
        std::fs::write(&file, "precious").unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&stale, &link).unwrap();
        std::fs::create_dir(&target).unwrap();
        for path in [&file, &target, &link] {
            let refused = StdListener::bind(&Address::Unix(path.clone())).unwrap_err();
            assert!(refused.to_string().contains("not a socket"), "{refused}");
            assert!(path.symlink_metadata().is_ok());
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
        StdListener::bind(&Address::Unix(stale)).unwrap();
    }
}
