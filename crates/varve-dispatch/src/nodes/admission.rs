//! What an owner of shards makes of requests from other nodes: each is begun, or refused for a reason. Late ones, and those sent twice, are refused.
//!
//! ```text
//!  hello ──nothing begun for older links──▶ welcome      request ──received()──▶ waiting ──begin()──▶ under way ──ended()──▶
//! ```
//!
//! F1. A request is begun only while its shard is served here under the epoch that it names.
//! F2. Only the newest link of a node is listened to, and it is welcomed after what was begun for older ones has ended. So what is sent again after a link
//!     broke comes after what was sent before, or instead of it.
//! F3. Numbers of requests and of connections rise within a link.
//! F4. A request is begun only while its connection is open on its link; closing it leaves what has begun.
//! F5. A bar closes what a node has open to a stream, on all its links, and it opens nothing before it knows of the bar. What it had begun ends before
//!     the bar is answered.

use std::collections::{BTreeMap, BTreeSet};

use varve_membership::NodeId;
use varve_types::{ShardId, StreamId};

/// Requests of a link at most that have come and have not ended: some connections' worth.
pub const REQUESTS_MAX: usize = 1024;

/// Connections that a link may have open: all that a node may serve.
pub const CONNECTIONS_MAX: usize = 4096;

/// One link of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeLink {
    /// Whose.
    pub node: NodeId,
    /// Its number: rises with each link of the node.
    pub link: u64,
}

/// A request, as far as it is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The link by which it came.
    pub link: NodeLink,
    /// Its number.
    pub request: u64,
    /// The connection that it is for; 0 is the node's own.
    pub connection: u64,
    /// The stream that it is about.
    pub stream: StreamId,
    /// Where it is to happen.
    pub shard: ShardId,
    /// Under which epoch.
    pub epoch: u64,
}

/// Why something was refused. Nothing of it was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its node has a newer link (F2).
    OldLink,
    /// The link breaks a rule, or a limit, and is to be ended (F3).
    Rules,
    /// Its connection is not open (F4, F5).
    NoConnection,
    /// Its node does not know yet that it was barred, so often (F5).
    Barred {
        /// So often.
        bars: u64,
    },
    /// Its shard is not served under its epoch (F1).
    NotServed {
        /// But under this; none if it is not served.
        serves: Option<u64>,
    },
}

/// What is known of a node.
#[derive(Default)]
struct Peer {
    /// Its newest link.
    link: u64,
    /// The last request of that link.
    request: u64,
    /// The last connection of that link.
    connection: u64,
    /// Connections that are open on that link, with their streams.
    open: BTreeMap<u64, StreamId>,
    /// Requests of that link that wait to begin.
    waiting: BTreeSet<u64>,
    /// What was begun, of all links.
    begun: BTreeMap<(u64, u64), StreamId>,
    /// How often the node was barred from a stream.
    bars: u64,
}

impl Peer {
    /// Whether a ticket may begin, but for its epoch.
    fn check(&self, ticket: &Ticket) -> Result<(), Refusal> {
        if ticket.link.link != self.link {
            return Err(Refusal::OldLink); // F2
        }
        let is_own = ticket.connection == 0;
        if !is_own && self.open.get(&ticket.connection) != Some(&ticket.stream) {
            return Err(Refusal::NoConnection); // F4, F5
        }
        Ok(())
    }

    fn begun_now(&self) -> usize {
        self.begun.keys().filter(|(link, _)| *link == self.link).count()
    }
}

/// The judge of one node's requests from others.
#[derive(Default)]
pub struct Admission {
    peers: BTreeMap<NodeId, Peer>,
}

impl Admission {
    /// Nobody has a link yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A node makes a link: its older ones are not listened to any more, and nothing of theirs is open. Returns how often it was barred. The link is welcomed
    /// once [`Self::is_quiet`].
    ///
    /// # Errors
    /// [`Refusal::OldLink`] when a newer one is there.
    pub fn hello(&mut self, link: NodeLink) -> Result<u64, Refusal> {
        let peer = self.peers.entry(link.node).or_default();
        if link.link <= peer.link {
            return Err(Refusal::OldLink);
        }
        *peer = Peer {
            link: link.link,
            begun: std::mem::take(&mut peer.begun),
            bars: peer.bars,
            ..Peer::default()
        };
        Ok(peer.bars)
    }

    /// Whether nothing is under way that older links of a node began (F2).
    #[must_use]
    pub fn is_quiet(&self, link: NodeLink) -> bool {
        let begun = self.peers.get(&link.node).map(|peer| &peer.begun);
        begun.is_none_or(|begun| begun.keys().all(|(of, _)| *of >= link.link))
    }

    /// A client has a connection to a stream.
    ///
    /// # Errors
    /// [`Refusal::Barred`], and when the link is not listened to.
    pub fn opened(
        &mut self,
        link: NodeLink,
        connection: u64,
        stream: StreamId,
        bars: u64,
    ) -> Result<(), Refusal> {
        let peer = self.peer(link)?;
        if connection <= peer.connection || peer.open.len() >= CONNECTIONS_MAX {
            return Err(Refusal::Rules); // F3
        }
        if bars != peer.bars {
            return Err(Refusal::Barred { bars: peer.bars }); // F5
        }
        peer.connection = connection;
        peer.open.insert(connection, stream);
        Ok(())
    }

    /// A client's connection has ended: nothing of it is begun any more (F4).
    ///
    /// # Errors
    /// [`Refusal::OldLink`].
    pub fn closed(&mut self, link: NodeLink, connection: u64) -> Result<(), Refusal> {
        self.peer(link)?.open.remove(&connection);
        Ok(())
    }

    fn peer(&mut self, link: NodeLink) -> Result<&mut Peer, Refusal> {
        let peer = self.peers.get_mut(&link.node).filter(|peer| peer.link == link.link);
        peer.ok_or(Refusal::OldLink) // F2
    }

    /// A request has come. It may have to wait for its shard or for memory; then [`Self::begin`] or [`Self::refused`] follows.
    ///
    /// # Errors
    /// Why it is not begun.
    pub fn received(&mut self, ticket: &Ticket) -> Result<(), Refusal> {
        let peer = self.peer(ticket.link)?;
        let under_way = peer.waiting.len() + peer.begun_now();
        if ticket.request <= peer.request || under_way >= REQUESTS_MAX {
            return Err(Refusal::Rules); // F3
        }
        peer.request = ticket.request;
        peer.check(ticket)?;
        peer.waiting.insert(ticket.request);
        Ok(())
    }

    /// A request that was received is to begin now, in one step with this, on a shard that is served with that epoch; [`Self::ended`] follows.
    ///
    /// # Errors
    /// Why it is not begun. What was true when it was received may have changed.
    pub fn begin(&mut self, ticket: &Ticket, serves: Option<u64>) -> Result<(), Refusal> {
        let peer = self.peer(ticket.link)?;
        if !peer.waiting.remove(&ticket.request) {
            return Err(Refusal::Rules);
        }
        peer.check(ticket)?;
        if serves != Some(ticket.epoch) {
            return Err(Refusal::NotServed { serves }); // F1
        }
        peer.begun.insert((ticket.link.link, ticket.request), ticket.stream);
        Ok(())
    }

    /// A request that was received is refused for another reason.
    pub fn refused(&mut self, ticket: &Ticket) {
        if let Ok(peer) = self.peer(ticket.link) {
            peer.waiting.remove(&ticket.request);
        }
    }

    /// What was begun has ended, however.
    pub fn ended(&mut self, ticket: &Ticket) {
        if let Some(peer) = self.peers.get_mut(&ticket.link.node) {
            peer.begun.remove(&(ticket.link.link, ticket.request));
        }
    }

    /// Bars a node from a stream; returns how often it was barred, with this time. It holds once [`Self::has_begun`] is false.
    pub fn bar(&mut self, node: NodeId, stream: StreamId) -> u64 {
        let peer = self.peers.entry(node).or_default();
        peer.open.retain(|_, of| *of != stream);
        peer.bars += 1;
        peer.bars
    }

    /// Whether something of a stream is under way for a node.
    #[must_use]
    pub fn has_begun(&self, node: NodeId, stream: StreamId) -> bool {
        self.peers.get(&node).is_some_and(|peer| peer.begun.values().any(|of| *of == stream))
    }

    /// A node is out of the table for good: it gets no link any more, so nothing need be known of it. Does nothing while something of it is under way;
    /// says whether it is forgotten.
    pub fn forget(&mut self, node: NodeId) -> bool {
        let is_idle = self.peers.get(&node).is_none_or(|peer| peer.begun.is_empty());
        if is_idle {
            self.peers.remove(&node);
        }
        is_idle
    }
}
