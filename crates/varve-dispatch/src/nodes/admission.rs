//! What an owner of shards makes of requests from other nodes: each is begun, waits, or is refused for a reason. What is late is refused.
//!
//! ```text
//!  hello ──nothing begun for older links──▶ welcome      request ──received()──▶ waiting ──begin()──▶ under way ──ended()──▶
//! ```
//!
//! F1. A request is begun only while its shard is served here under the epoch that it names.
//! F2. Only the newest link of a node is listened to, and it is welcomed after what was begun for older ones has ended. So what is sent again after a link
//!     broke comes after what was sent before, or instead of it.
//! F3. Numbers of requests rise within a link.
//! F4. Nothing is begun of a connection that was closed.
//! F5. Only nodes of the table are listened to, as it was last seen here. A request waits until the table was seen with all departures that its sender knew
//!     of, and what was begun for those that went has ended. So who knows that a node has gone is not followed by anything of that node.
//! F6. A table older than one that was seen changes nothing: what is known of a node's links would be forgotten with a node that only joined later.

use std::collections::{BTreeMap, BTreeSet};

use varve_engine::planted::{Bug, planted};
use varve_membership::{NodeId, Table};
use varve_types::ShardId;

/// Requests of a link at most that have come and have not ended: some connections' worth.
pub const REQUESTS_MAX: usize = 1024;

/// One link of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct NodeLink {
    /// Whose.
    pub node: NodeId,
    /// Its number: rises with each link of the node; from 1.
    pub link: u64,
}

/// A request, as far as it is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    /// The link by which it came.
    pub link: NodeLink,
    /// Its number; from 1.
    pub request: u64,
    /// The connection that it is for; 0 is the node's own.
    pub connection: u64,
    /// Where it is to happen.
    pub shard: ShardId,
    /// Under which epoch.
    pub epoch: u64,
    /// The departures that its sender knows of.
    pub departures: u64,
}

/// Why something was refused. Nothing of it was begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Its node has a newer link (F2), or is not in the table (F5).
    NoLink,
    /// The link breaks a rule, or a limit, and is to be ended (F3).
    Rules,
    /// Its connection was closed (F4).
    NoConnection,
    /// Its shard is not served under its epoch (F1).
    NotServed {
        /// But under this; none if it is not served.
        serves: Option<u64>,
    },
}

/// What becomes of a request that is to begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It has begun.
    Now,
    /// The table is to be read first: the sender knows of later departures.
    ReadTable,
    /// What was begun for nodes that have gone is to end first.
    Wait,
}

/// What is known of a node.
#[derive(Default)]
struct Peer {
    /// Its newest link.
    link: u64,
    /// The last request of that link.
    request: u64,
    /// Requests of that link that wait to begin, with their connections.
    waiting: BTreeMap<u64, u64>,
    /// What was begun, by link and request.
    begun: BTreeSet<(u64, u64)>,
}

/// The judge of one node's requests from others.
#[derive(Default)]
pub struct Admission {
    /// Of the table that was seen last.
    version: u64,
    departures: u64,
    nodes: BTreeSet<NodeId>,
    /// Those of the table that had a link, and those that have gone while something of theirs was under way.
    peers: BTreeMap<NodeId, Peer>,
}

impl Admission {
    /// Nobody is in the table yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The table was read. An older one than before changes nothing.
    pub fn saw(&mut self, table: &Table) {
        if table.version < self.version && !planted(Bug::OlderTableBelieved) {
            return; // F6
        }
        self.version = table.version;
        self.departures = self.departures.max(table.departures);
        self.nodes = table.nodes.iter().map(|entry| entry.node.id).collect();
        for (node, peer) in &mut self.peers {
            if !self.nodes.contains(node) && !planted(Bug::GoneNodeHeard) {
                peer.waiting.clear(); // F5
            }
        }
        self.forget();
    }

    /// Drops what is known of nodes that have gone, once nothing of theirs is under way: they get no link any more.
    fn forget(&mut self) {
        self.peers.retain(|node, peer| {
            self.nodes.contains(node) || !peer.begun.is_empty() || planted(Bug::GoneNodeHeard)
        });
    }

    /// Whether nothing is under way for nodes that have gone, of all of so many departures (F5). Who owns shards itself asks for its own requests too.
    #[must_use]
    pub fn is_settled(&self, departures: u64) -> bool {
        self.departures >= departures && !self.gone_have_begun()
    }

    fn gone_have_begun(&self) -> bool {
        if planted(Bug::GoneNodesForgotten) {
            return false;
        }
        self.peers.iter().any(|(node, peer)| !self.nodes.contains(node) && !peer.begun.is_empty())
    }

    /// A node makes a link: its older ones are not listened to any more. The link is welcomed once [`Self::is_quiet`].
    ///
    /// # Errors
    /// [`Refusal::NoLink`] when a newer one is there, or the node is not in the table: it may not have been read for a while.
    pub fn hello(&mut self, link: NodeLink) -> Result<(), Refusal> {
        if !self.nodes.contains(&link.node) && !planted(Bug::GoneNodeHeard) {
            return Err(Refusal::NoLink); // F5
        }
        let peer = self.peers.entry(link.node).or_default();
        if link.link <= peer.link {
            return Err(Refusal::NoLink); // F2
        }
        let begun = std::mem::take(&mut peer.begun);
        let waiting = std::mem::take(&mut peer.waiting);
        *peer = Peer { link: link.link, begun, ..Peer::default() };
        if planted(Bug::OldLinkHeard) {
            peer.waiting = waiting;
        }
        Ok(())
    }

    /// Whether nothing is under way that older links of a node began (F2).
    #[must_use]
    pub fn is_quiet(&self, link: NodeLink) -> bool {
        let begun = self.peers.get(&link.node).map(|peer| &peer.begun);
        begun.is_none_or(|begun| begun.iter().all(|(of, _)| *of >= link.link))
            || planted(Bug::WelcomedEarly)
    }

    /// A client's connection has ended (F4): what of it waits is refused when it is to begin.
    ///
    /// # Errors
    /// [`Refusal::NoLink`].
    pub fn closed(&mut self, link: NodeLink, connection: u64) -> Result<(), Refusal> {
        let keeps = planted(Bug::ClosedConnectionBegun);
        self.peer(link)?.waiting.retain(|_, of| *of != connection || keeps); // F4
        Ok(())
    }

    fn peer(&mut self, link: NodeLink) -> Result<&mut Peer, Refusal> {
        if !self.nodes.contains(&link.node) && !planted(Bug::GoneNodeHeard) {
            return Err(Refusal::NoLink); // F5
        }
        let is_newest = |peer: &&mut Peer| peer.link == link.link || planted(Bug::OldLinkHeard);
        let peer = self.peers.get_mut(&link.node).filter(is_newest);
        peer.ok_or(Refusal::NoLink) // F2
    }

    /// A request has come. It may have to wait for its shard, or for memory; then [`Self::begin`] follows.
    ///
    /// # Errors
    /// Why it is not begun.
    pub fn received(&mut self, ticket: &Ticket) -> Result<(), Refusal> {
        let peer = self.peer(ticket.link)?;
        // What older links began has ended: this one was welcomed.
        let under_way = peer.waiting.len() + peer.begun.len();
        let is_late = ticket.request <= peer.request && !planted(Bug::RequestBegunTwice);
        if is_late && !planted(Bug::OldLinkHeard) || under_way >= REQUESTS_MAX {
            return Err(Refusal::Rules); // F3
        }
        peer.request = ticket.request;
        peer.waiting.insert(ticket.request, ticket.connection);
        Ok(())
    }

    /// A request that was received is to begin now, in one step with this, on a shard that is served with that epoch. [`Self::ended`] follows
    /// [`Turn::Now`]; after another turn it is asked again.
    ///
    /// # Errors
    /// Why it is not begun. What was true when it was received may have changed.
    pub fn begin(&mut self, ticket: &Ticket, serves: Option<u64>) -> Result<Turn, Refusal> {
        let (is_behind, must_wait) = (ticket.departures > self.departures, self.gone_have_begun());
        let peer = self.peer(ticket.link)?;
        if !peer.waiting.contains_key(&ticket.request) {
            return Err(Refusal::NoConnection); // F4
        }
        if is_behind && !planted(Bug::DeparturesNotAwaited) {
            return Ok(Turn::ReadTable); // F5
        }
        if must_wait {
            return Ok(Turn::Wait); // F5
        }
        peer.waiting.remove(&ticket.request);
        let is_meant = serves == Some(ticket.epoch);
        if !is_meant && !(planted(Bug::LateEpochBegun) && serves.is_some()) {
            return Err(Refusal::NotServed { serves }); // F1
        }
        peer.begun.insert((ticket.link.link, ticket.request));
        Ok(Turn::Now)
    }

    /// A request that was received is not begun: there is an answer to it already.
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
        self.forget();
    }
}

#[cfg(test)]
mod tests;
