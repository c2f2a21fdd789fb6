//! Takes requests of this node's clients to whoever serves their shards: this node, or another by a link.
//!
//! ```text
//!  ask ──served here──▶ shard                    ended, and not done: look again ◀──┐
//!      ──by the table──▶ link ──request──▶ owner ──answer, end of the link, later epoch┘
//! ```
//!
//! R1. A request that was sent has ended when it was answered, when a newer link to the same owner was welcomed (F2), or when the table shows a
//!     later epoch of its shard (F1). Before that it is not sent again, and it counts as under way (D2).
//! R2. What may not happen twice before its answer is not sent again when it is not known whether it happened: its client is told so.
//! R3. Opening a connection is a barrier: every node of the table has answered that nothing is left of connections that were closed, or is out of
//!     it; and nothing is under way here for nodes that have gone (F5).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use futures_channel::oneshot;
use futures_util::future::{Either, join_all, select};
use varve_membership::{Node, NodeId};
use varve_types::{ErrorKind, PoolId, ShardId};

use super::connections::{Connection, Connections, UnderWay};
use super::outgoing::{Outgoing, PeerLink};
use super::pipe::{Connector, PipeBroken};
use super::wire::{Message, Operation, Outcome};
use super::Keeper;
use crate::host::ShardHost;
use crate::{Error, Result};

/// How long a client waits for its request, in ns: as for a shard that reopens.
const WAIT_NS_MAX: u64 = 20_000_000_000;

/// Pause before the table is read for an owner again, in ns, where nothing moved here meanwhile.
const LOOK_NS: u64 = 200_000_000;

/// What a router works with.
pub struct RouterConfig {
    /// Whose nodes these are.
    pub pool: PoolId,
    /// The node's part in the table, and its shards.
    pub keeper: Rc<Keeper>,
    /// What makes links.
    pub connector: Rc<dyn Connector>,
}

/// See the module.
pub struct Router {
    config: RouterConfig,
    connections: Rc<Connections>,
    peers: RefCell<BTreeMap<NodeId, Rc<PeerLink>>>,
}

impl Router {
    /// Without connections and links.
    #[must_use]
    pub fn new(config: RouterConfig) -> Rc<Self> {
        Rc::new(Self { config, connections: Connections::new(), peers: RefCell::default() })
    }

    /// Whose nodes these are.
    #[must_use]
    pub fn pool(&self) -> PoolId {
        self.config.pool
    }

    /// The node's part in the table.
    #[must_use]
    pub fn keeper(&self) -> &Rc<Keeper> {
        &self.config.keeper
    }

    /// The connections of this node's clients.
    #[must_use]
    pub fn connections(&self) -> &Rc<Connections> {
        &self.connections
    }

    /// A connection of a client, which nothing of its earlier ones follows (R3).
    ///
    /// # Errors
    /// `Unavailable` when a node does not answer for as long as requests wait.
    pub async fn open(self: &Rc<Self>) -> Result<Connection> {
        let patience = self.keeper().reactor().sleep(WAIT_NS_MAX);
        if let Either::Right(_) = select(Box::pin(self.pass_barrier()), patience).await {
            let reason = "a node does not say what it has under way for closed connections";
            return Err(Error::NotReached { reason: reason.to_owned() });
        }
        let router = Rc::downgrade(self);
        Ok(self.connections.open(move |connection| {
            if let Some(router) = router.upgrade() {
                router.peers.borrow().values().for_each(|peer| peer.tell_closed(connection)); // F4
            }
        }))
    }

    async fn pass_barrier(&self) {
        let table = loop {
            match self.keeper().read_table().await {
                Ok(table) => break table,
                Err(error) => tracing::warn!(%error, "the table of nodes was not read"),
            }
            self.keeper().reactor().sleep(LOOK_NS).await;
        };
        let others = table.nodes.iter().map(|entry| entry.node.id);
        let others = others.filter(|node| *node != self.keeper().id());
        join_all(others.map(|node| self.pass_node(node))).await;
        self.connections.closed_have_ended().await;
        loop {
            let moved = self.keeper().moved();
            if self.keeper().is_settled(0) {
                return;
            }
            moved.await;
        }
    }

    /// Until a node has answered, or is out of the table.
    async fn pass_node(&self, id: NodeId) {
        while let Some(node) = self.node(id) {
            let gone = Box::pin(self.until(|| self.node(id).is_none()));
            let asked = Box::pin(async {
                let link = self.link(&node).await?;
                let number = |request| Message::Barrier { request };
                let answer = link.send(number).await?;
                answer.outcome().await
            });
            match select(asked, gone).await {
                Either::Left((Ok(_), _)) | Either::Right(_) => return,
                Either::Left((Err(_), _)) => self.look().await,
            }
        }
    }

    /// What comes of an operation on a shard, for a client; at whoever serves it.
    ///
    /// # Errors
    /// `Closed` when the connection is; `Unavailable` when nobody was reached who serves the shard, or did not answer: it may have happened then.
    pub async fn ask(
        self: &Rc<Self>,
        connection: &Connection,
        shard: ShardId,
        operation: Operation,
    ) -> Result<Outcome> {
        let under_way = connection.begin().ok_or(Error::ConnectionClosed)?;
        let (sender, answer) = oneshot::channel();
        let router = Rc::clone(self);
        // It goes on until it has ended, however long its client waits (R1).
        self.keeper().reactor().spawn(async move {
            router.insist(&under_way, shard, &operation, sender).await;
        });
        let patience = self.keeper().reactor().sleep(WAIT_NS_MAX);
        match select(answer, patience).await {
            Either::Left((Ok(outcome), _)) => Ok(outcome),
            Either::Left((Err(_), _)) => Err(Error::ConnectionClosed),
            Either::Right(_) => {
                let reason = format!("no node that serves shard {shard} has answered");
                Err(Error::NotReached { reason })
            }
        }
    }

    async fn insist(
        &self,
        under_way: &UnderWay,
        shard: ShardId,
        operation: &Operation,
        client: oneshot::Sender<Outcome>,
    ) {
        while !client.is_canceled() && !under_way.is_closed() {
            let outcome = match self.keeper().host(shard) {
                Some((host, _)) => self.here(&host, operation).await,
                None => self.there(under_way, shard, operation).await,
            };
            if let Some(outcome) = outcome {
                drop(client.send(outcome)); // It may have gone.
                return;
            }
            self.look().await;
        }
    }

    /// At this node. None when it is not done, and does not land any more: the shard is another's.
    async fn here(&self, host: &ShardHost, operation: &Operation) -> Option<Outcome> {
        let shard = host.shard().await.ok()?;
        final_outcome(operation, operation.run(&shard).await)
    }

    /// At another node. None when it is not done, and has ended (R1).
    async fn there(
        &self,
        under_way: &UnderWay,
        shard: ShardId,
        operation: &Operation,
    ) -> Option<Outcome> {
        let (node, _) = self.owner(shard)?;
        let link = self.link(&node).await.ok()?;
        link.has_room().await;
        // One step from here to the sending.
        let (owner, epoch) = self.owner(shard)?;
        if owner.id != node.id || under_way.is_closed() {
            return None;
        }
        let departures = self.keeper().table()?.departures;
        let connection = under_way.connection();
        let message = |request| Message::Request {
            request,
            connection,
            epoch,
            departures,
            shard,
            operation: operation.clone(),
        };
        let answer = link.send_now(message).ok()?;
        let later = Box::pin(self.until(|| self.epoch(shard) > epoch));
        match select(Box::pin(answer.outcome()), later).await {
            Either::Left((Ok(outcome), _)) => final_outcome(operation, outcome),
            Either::Left((Err(_), later)) => {
                let newer = Box::pin(self.newer_link(&node, link.number()));
                let _either = select(newer, later).await;
                again(operation)
            }
            Either::Right(_) => again(operation),
        }
    }

    /// Until a link to a node was welcomed after that one.
    async fn newer_link(&self, node: &Node, number: u64) {
        while !self.link(node).await.is_ok_and(|link| link.number() > number) {
            self.look().await;
        }
    }

    /// Whoever serves a shard, by the table, and the epoch.
    fn owner(&self, shard: ShardId) -> Option<(Node, u64)> {
        let table = self.keeper().table()?;
        let entry = table.shard(shard).filter(|entry| entry.is_open)?;
        let owner = entry.owner.filter(|owner| *owner != self.keeper().id())?;
        Some((table.node(owner)?.node.clone(), entry.epoch))
    }

    fn epoch(&self, shard: ShardId) -> u64 {
        let table = self.keeper().table();
        table.and_then(|table| table.shard(shard).map(|entry| entry.epoch)).unwrap_or(0)
    }

    fn node(&self, id: NodeId) -> Option<Node> {
        Some(self.keeper().table()?.node(id)?.node.clone())
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let moved = self.keeper().moved();
            if is_so() {
                return;
            }
            moved.await;
        }
    }

    /// Reads the table again, after a pause.
    async fn look(&self) {
        self.keeper().reactor().sleep(LOOK_NS).await;
        if let Err(error) = self.keeper().read_table().await {
            tracing::debug!(%error, "the table of nodes was not read");
        }
    }

    /// The link to a node: the one there is, or a newer one, once it is welcomed.
    async fn link(&self, node: &Node) -> std::result::Result<Rc<Outgoing>, PipeBroken> {
        let peer = Rc::clone(self.peers.borrow_mut().entry(node.id).or_default());
        loop {
            let changed = peer.changed();
            if let Some(link) = peer.link() {
                return Ok(link);
            }
            let Some(making) = peer.begin_making() else {
                changed.await;
                continue;
            };
            let hello = |link| Message::Hello {
                pool: self.config.pool,
                from: self.keeper().id(),
                to: node.id,
                link,
                versions: (super::wire::VERSION, super::wire::VERSION),
            };
            let reactor = self.keeper().reactor();
            return making.make(reactor, &*self.config.connector, node, hello).await;
        }
    }
}

/// An outcome that the client is told; none when the request was not begun, or failed because the shard is another's.
fn final_outcome(operation: &Operation, outcome: Outcome) -> Option<Outcome> {
    match outcome {
        Outcome::NotBegun { .. } | Outcome::NoConnection => None,
        Outcome::Failed { kind: ErrorKind::Fenced | ErrorKind::Closed, .. } => again(operation),
        outcome => Some(outcome),
    }
}

/// What is known of a request that has ended, and may have happened: none if it is to be sent again (R2).
fn again(operation: &Operation) -> Option<Outcome> {
    let text = "its node did not answer: it may have happened".to_owned();
    (!operation.may_repeat()).then_some(Outcome::Failed { kind: ErrorKind::Unavailable, text })
}
