//! The clients of one thread: who is connected, to what, since when; and how one is asked to leave.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{Either, select};
use varve_access_block::Peer;

use crate::connection::ConnectionEnd;
use crate::shutdown::Shutdown;

/// A connection that is open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdClient {
    /// Its number, which no other connection of this process has.
    pub id: u64,
    /// Who is at the other end.
    pub peer: Peer,
    /// The export it has open; `None` while it shakes hands.
    pub export: Option<String>,
    /// Whether it can only read.
    pub read_only: bool,
    /// For how long it has been connected, in milliseconds.
    pub connected_ms: u64,
    /// Its requests that have arrived and are not answered.
    pub requests: usize,
}

/// What its thread knows of a connection.
pub(crate) struct ClientState {
    id: u64,
    peer: Peer,
    since_ns: u64,
    export: RefCell<Option<(String, bool)>>,
    requests: Cell<usize>,
    leave: Shutdown,
}

impl ClientState {
    pub(crate) fn new(peer: Peer, now_ns: u64) -> Rc<Self> {
        static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
        let id = CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1;
        let (export, requests, leave) = (RefCell::default(), Cell::new(0), Shutdown::new());
        Rc::new(Self { id, peer, since_ns: now_ns, export, requests, leave })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn describe(&self, now_ns: u64) -> NbdClient {
        let export = self.export.borrow();
        NbdClient {
            id: self.id,
            peer: self.peer,
            export: export.as_ref().map(|(name, _)| name.clone()),
            read_only: export.as_ref().is_some_and(|(_, read_only)| *read_only),
            connected_ms: now_ns.saturating_sub(self.since_ns) / 1_000_000,
            requests: self.requests.get(),
        }
    }

    pub(crate) fn opened(&self, export: &str, read_only: bool) {
        *self.export.borrow_mut() = Some((export.to_owned(), read_only));
    }

    pub(crate) fn has_requests(&self, requests: usize) {
        self.requests.set(requests);
    }

    /// Has it end: what is under way is answered, and nothing more is read.
    pub(crate) fn leave(&self) {
        self.leave.begin();
    }

    /// Returns when the connection is to end, and why.
    pub(crate) async fn must_leave(&self, service: &Shutdown) -> ConnectionEnd {
        match select(pin!(service.wait()), pin!(self.leave.wait())).await {
            Either::Left(_) => ConnectionEnd::Shutdown,
            Either::Right(_) => ConnectionEnd::ToldToLeave,
        }
    }
}
