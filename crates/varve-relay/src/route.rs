//! The way of a client to the node that serves a cell, from whichever node took it.
//!
//! RELAY-ROUTE-1. Nobody is sent to a node but by the table of nodes: who it names, by the key that it has of it.
//! RELAY-ROUTE-2. A way leads to one life of one node. Once the table names another one it leads nowhere.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::client::TlsStream;
use varve_membership::NodeId;
use varve_types::CellId;

use crate::carry::carry;
use crate::client::RelayedClient;
use crate::link::{FrameBuffer, connect, receive, senseless};
use crate::state::RelayState;
use crate::wire::{
    DATA_BYTES_MAX, ExportQuestion, ExportReply, FrontEnd, Hello, HelloReply, LinkFrame,
};

/// Between two attempts to find one.
pub const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Finds ways; `F` are the front-ends of a cell that this node serves.
pub struct Router<F> {
    state: Arc<RelayState<F>>,
    numbers: AtomicU64,
}

/// Where a cell is served.
pub enum CellRoute {
    /// By this node.
    Here,
    /// By another one, to which there is a link.
    There(Box<OwnerLink>),
}

/// A link to the node that serves a cell.
pub struct OwnerLink {
    to: NodeId,
    /// Which that node is to serve.
    cell: CellId,
    stream: TlsStream<TcpStream>,
}

/// Why there is none.
pub enum RouteError {
    /// Nobody serves the cell, or who does is not ready.
    NotYet(String),
    /// It is of no use to try again.
    Never(HelloReply),
}

impl RouteError {
    /// It is of use to try again.
    pub fn not_yet(why: &str) -> Self {
        Self::NotYet(why.to_owned())
    }
}

impl<F> Router<F> {
    pub(crate) fn new(state: Arc<RelayState<F>>) -> Self {
        Self { state, numbers: AtomicU64::new(1) }
    }

    /// The threads that carry.
    pub fn threads(&self) -> &Handle {
        &self.state.threads
    }

    /// Where clients of a cell go that this node serves; `None` when it does not serve it now. Nobody waits in `with`.
    pub fn here<T>(&self, cell: CellId, with: impl FnOnce(&F) -> T) -> Option<T> {
        self.state.here(cell, with)
    }

    /// How many cells the pool has.
    pub fn cells(&self) -> u16 {
        self.state.cells
    }

    /// A way to a cell for a client of `front_end`, by the table as it is now.
    pub async fn find(
        &self,
        front_end: FrontEnd,
        cell: CellId,
        client: Option<std::net::SocketAddr>,
    ) -> Result<CellRoute, RouteError> {
        let view = self.state.views.borrow().clone();
        let from = view
            .me
            .ok_or_else(|| RouteError::not_yet("this node has not joined the others yet"))?;
        if view.is_mine(cell) {
            let is_ready = self.here(cell, |_| ()).is_some();
            let not_ready = || RouteError::not_yet("this node has not opened the pool yet");
            return if is_ready { Ok(CellRoute::Here) } else { Err(not_ready()) };
        }
        let owner = view.owner(cell).and_then(|owner| view.node(owner)); // RELAY-ROUTE-1
        let owner = owner.ok_or_else(|| RouteError::not_yet("nobody is to serve the pool"))?;
        let reach = owner
            .reach
            .ok_or_else(|| RouteError::not_yet("a node of an earlier version serves it"))?;
        let hello = Hello {
            front_end: front_end.number(),
            pool: self.state.pool,
            cell,
            from,
            to: owner.id,
            table_version: view.version,
            connection: self.numbers.fetch_add(1, Ordering::Relaxed),
            client,
        };
        let connected = tokio::select! {
            connected = connect(&self.state.key, reach, &hello) => connected,
            () = self.leads_nowhere(owner.id, cell) => {
                return Err(RouteError::not_yet("another node is to serve the pool"));
            }
        };
        match connected {
            Ok((HelloReply::Accepted, stream)) => {
                Ok(CellRoute::There(Box::new(OwnerLink { to: owner.id, cell, stream })))
            }
            Ok((
                answer @ (HelloReply::OtherVersion { .. }
                | HelloReply::OtherPool
                | HelloReply::NoFrontEnd),
                _,
            )) => Err(RouteError::Never(answer)),
            Ok((answer, _)) => Err(RouteError::NotYet(answer.to_string())),
            Err(error) => Err(RouteError::NotYet(format!("connect to {}: {error}", reach.address))),
        }
    }

    /// Whether it leads to who serves (RELAY-ROUTE-2).
    pub fn leads(&self, line: &OwnerLink) -> bool {
        self.state.views.borrow().owner(line.cell) == Some(line.to)
    }

    /// Returns once ways to that node for that cell lead nowhere (RELAY-ROUTE-2).
    async fn leads_nowhere(&self, to: NodeId, cell: CellId) {
        let mut views = self.state.views.clone();
        // Without anybody who tells what the table says, nothing leads anywhere.
        let _ = views.wait_for(|view| view.owner(cell) != Some(to)).await;
    }

    /// Asks for exports; what comes is handed to `reply` until that says that it was the last one.
    pub async fn ask(
        &self,
        line: &mut OwnerLink,
        question: &ExportQuestion,
        reply: impl FnMut(ExportReply) -> bool,
    ) -> io::Result<()> {
        let (to, cell) = (line.to, line.cell);
        tokio::select! {
            asked = line.ask(question, reply) => asked,
            () = self.leads_nowhere(to, cell) => Err(io::Error::other("another node is to serve the pool")),
        }
    }

    /// Carries a client until either side ends it, or the way leads nowhere; `early` is what came of it before.
    pub async fn carry(&self, line: Box<OwnerLink>, client: &RelayedClient, early: &[u8]) {
        let OwnerLink { to, cell, stream } = *line;
        let ended = tokio::select! {
            ended = carry(client, early, stream) => ended,
            () = self.leads_nowhere(to, cell) => Err(io::Error::other("another node is to serve the pool")),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a carried connection broke");
        }
    }
}

impl OwnerLink {
    /// The cell that it leads to.
    pub fn cell(&self) -> CellId {
        self.cell
    }

    /// Says something about exports.
    pub async fn say(&mut self, question: &ExportQuestion) -> io::Result<()> {
        let message = question.encode().ok_or_else(|| senseless("a question is too long"))?;
        FrameBuffer::new().send_copy(&message, &mut self.stream).await
    }

    async fn ask(
        &mut self,
        question: &ExportQuestion,
        mut reply: impl FnMut(ExportReply) -> bool,
    ) -> io::Result<()> {
        self.say(question).await?;
        let mut buffer = vec![0; DATA_BYTES_MAX];
        loop {
            match receive(&mut self.stream, &mut buffer).await? {
                LinkFrame::Data(len) => {
                    let message = ExportReply::decode(&buffer[..len]);
                    if reply(message.map_err(io::Error::other)?) {
                        return Ok(());
                    }
                }
                LinkFrame::End => return Err(io::ErrorKind::UnexpectedEof.into()),
                LinkFrame::Ask(_) | LinkFrame::Told(_) => {
                    return Err(senseless("no client is served yet"));
                }
            }
        }
    }
}
