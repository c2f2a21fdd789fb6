//! Links that other nodes made to this one: welcomes them, begins their requests when it is their turn, and answers.
//!
//! ```text
//!  hello ──of this pool, for this node, of a node of the table──▶ quiet ──▶ welcome ──▶ request … answer        goodbye: why it ends
//! ```
//!
//! I1. A link is of the node whose key it shows in the table.
//! I2. The judge's word and the beginning of a request are one step.
//! I3. A request that is not begun is answered all the same.
//! I4. Of a link so many bytes of requests wait or are under way; more are left to the socket.
//! I5. A cut is released with the link that it came by, if not before; a link ends when its node is not in the table any more.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::{Either, select};
use varve_engine::{CutId, Shard};
use varve_membership::NodeId;
use varve_types::{ErrorKind, PoolId, ShardId};

use super::pipe::Pipe;
use super::wire::{Farewell, Message, Operation, Outcome, VERSION};
use super::{Keeper, NodeLink, Refusal, Router, Ticket, Turn};
use crate::host::ShardHost;

/// How long a link that was made may say nothing, in ns.
const HELLO_NS_MAX: u64 = 10_000_000_000;

/// Bytes of requests of a link that are here at the same time, before another one is received: some of the largest (I4).
const BYTES_MAX: usize = 16 << 20;

/// See the module.
pub struct Inbox {
    pool: PoolId,
    keeper: Rc<Keeper>,
    router: Rc<Router>,
}

/// The cuts that a link holds (I5); none once it has ended.
type Cuts = Rc<RefCell<Option<BTreeSet<(ShardId, u64)>>>>;

impl Inbox {
    /// The inbox of the node whose requests that router sends.
    #[must_use]
    pub fn new(router: &Rc<Router>) -> Rc<Self> {
        let (pool, keeper) = (router.pool(), Rc::clone(router.keeper()));
        Rc::new(Self { pool, keeper, router: Rc::clone(router) })
    }

    /// Serves a link until it ends.
    pub async fn serve(self: Rc<Self>, pipe: Rc<dyn Pipe>) {
        let farewell = match self.welcome(&*pipe).await {
            Ok(link) => {
                let cuts: Cuts = Rc::new(RefCell::new(Some(BTreeSet::new())));
                let farewell = self.listen(link, &pipe, &cuts).await;
                self.release(cuts.take());
                farewell
            }
            Err(farewell) => farewell,
        };
        if let Some(farewell) = farewell {
            drop(pipe.send(Message::Goodbye(farewell)).await); // It ends in any case.
        }
        pipe.close();
    }

    /// The link, once it is welcomed; else what is to be said at its end.
    async fn welcome(&self, pipe: &dyn Pipe) -> Result<NodeLink, Option<Farewell>> {
        let patience = self.keeper.reactor().sleep(HELLO_NS_MAX);
        let hello = match select(pipe.receive(), patience).await {
            Either::Left((Ok(hello), _)) => hello,
            Either::Left((Err(_), _)) => return Err(None),
            Either::Right(_) => return Err(Some(Farewell::Rules)),
        };
        let Message::Hello { pool, from, to, link, versions } = hello else {
            return Err(Some(Farewell::Rules));
        };
        if pool != self.pool || to != self.keeper.id() {
            return Err(Some(Farewell::WrongNode));
        }
        if !(versions.0..=versions.1).contains(&VERSION) {
            return Err(Some(Farewell::NoVersion));
        }
        if !self.knows(from, pipe) {
            // It may have joined a moment ago. What the store refuses is the same to it.
            drop(self.keeper.read_table().await);
        }
        if !self.knows(from, pipe) {
            return Err(Some(Farewell::WrongNode));
        }
        let link = NodeLink { node: from, link };
        let known = self.keeper.with_admission(|judge| judge.hello(link));
        known.map_err(|_| Some(Farewell::OldLink))?;
        self.keeper.move_on(); // What waits of older links is refused now.
        loop {
            let moved = self.keeper.moved();
            if self.keeper.with_admission(|judge| judge.is_quiet(link)) {
                break;
            }
            moved.await;
        }
        let welcome = pipe.send(Message::Welcome { version: VERSION }).await;
        welcome.map(|()| link).map_err(|_| None)
    }

    /// I1.
    fn knows(&self, node: NodeId, pipe: &dyn Pipe) -> bool {
        let table = self.keeper.table();
        let entry = table.as_ref().and_then(|table| table.node(node));
        entry.is_some_and(|entry| entry.node.fingerprint == pipe.peer())
    }

    async fn until_fewer(&self, held_bytes: &Cell<usize>) {
        loop {
            let moved = self.keeper.moved();
            if held_bytes.get() <= BYTES_MAX {
                return; // I4
            }
            moved.await;
        }
    }

    async fn until_gone(&self, node: NodeId) {
        loop {
            let moved = self.keeper.moved();
            if self.keeper.table().is_some_and(|table| table.node(node).is_none()) {
                return;
            }
            moved.await;
        }
    }

    /// I5.
    fn release(&self, cuts: Option<BTreeSet<(ShardId, u64)>>) {
        for (shard, id) in cuts.into_iter().flatten() {
            if let Some(open) = self.keeper.host(shard).and_then(|(host, _)| host.now()) {
                open.release_cut(CutId(id)); // One that does not serve has forgotten it.
            }
        }
    }

    /// Takes in what a link brings; what is to be said at its end.
    async fn listen(
        self: &Rc<Self>,
        link: NodeLink,
        pipe: &Rc<dyn Pipe>,
        cuts: &Cuts,
    ) -> Option<Farewell> {
        let mut gone = Box::pin(self.until_gone(link.node));
        let held_bytes = Rc::new(Cell::new(0));
        loop {
            self.until_fewer(&held_bytes).await;
            let received = match select(pipe.receive(), &mut gone).await {
                Either::Left((received, _)) => received,
                Either::Right(_) => return Some(Farewell::WrongNode),
            };
            match received {
                Ok(Message::Request { request, connection, epoch, departures, shard, operation }) => {
                    let ticket = Ticket { link, request, connection, shard, epoch, departures };
                    match self.keeper.with_admission(|judge| judge.received(&ticket)) {
                        Ok(()) => {}
                        Err(Refusal::Rules) => return Some(Farewell::Rules),
                        Err(_) => return Some(Farewell::OldLink),
                    }
                    let (inbox, pipe) = (Rc::clone(self), Rc::clone(pipe));
                    let (cuts, held_bytes) = (Rc::clone(cuts), Rc::clone(&held_bytes));
                    held_bytes.set(held_bytes.get() + operation.data_len());
                    self.keeper.reactor().spawn(async move {
                        let outcome = inbox.outcome(&ticket, &operation).await;
                        held_bytes.set(held_bytes.get() - operation.data_len());
                        inbox.keeper.move_on();
                        inbox.note_cut(shard, &operation, &cuts);
                        // Who asked by a link that broke asks again by another.
                        drop(pipe.send(Message::Answer { request, outcome }).await);
                    });
                }
                Ok(Message::Closed { connection }) => {
                    let told = self.keeper.with_admission(|judge| judge.closed(link, connection));
                    if told.is_err() {
                        return Some(Farewell::OldLink);
                    }
                    self.keeper.move_on();
                }
                Ok(Message::Barrier { request }) => {
                    let (router, pipe) = (Rc::clone(&self.router), Rc::clone(pipe));
                    self.keeper.reactor().spawn(async move {
                        router.connections().closed_have_ended().await;
                        let outcome = Outcome::Done;
                        drop(pipe.send(Message::Answer { request, outcome }).await);
                    });
                }
                Ok(Message::Goodbye(_)) | Err(_) => return None,
                Ok(Message::Hello { .. } | Message::Welcome { .. } | Message::Answer { .. }) => {
                    return Some(Farewell::Rules);
                }
            }
        }
    }

    /// A cut that may have been made is the link's, or is released when that has ended already.
    fn note_cut(&self, shard: ShardId, operation: &Operation, cuts: &Cuts) {
        let mut cuts = cuts.borrow_mut();
        match (operation, cuts.as_mut()) {
            (Operation::Cut { id, .. }, Some(held)) => _ = held.insert((shard, *id)),
            (Operation::Cut { id, .. }, None) => self.release(Some([(shard, *id)].into())),
            (Operation::ReleaseCut { id }, Some(held)) => _ = held.remove(&(shard, *id)),
            _ => {}
        }
    }

    /// What comes of a request that was received: begun when it is its turn, or refused.
    async fn outcome(&self, ticket: &Ticket, operation: &Operation) -> Outcome {
        let mut has_read = false;
        loop {
            let moved = self.keeper.moved();
            let open = self.open_shard(ticket).await;
            // I2: nothing else runs from here until the request has begun.
            let serves = open.as_ref().and_then(|(host, _)| self.serves(ticket, host));
            match self.keeper.with_admission(|judge| judge.begin(ticket, serves)) {
                Ok(Turn::Now) => {
                    let (_, shard) = open.expect("an epoch is served by a shard");
                    let outcome = operation.run(&shard).await;
                    self.keeper.with_admission(|judge| judge.ended(ticket));
                    self.keeper.move_on();
                    return outcome;
                }
                Ok(Turn::Wait) => moved.await,
                Ok(Turn::ReadTable) => {
                    if has_read || self.keeper.read_table().await.is_err() {
                        self.keeper.with_admission(|judge| judge.refused(ticket));
                        return Outcome::NotBegun { serves }; // I3
                    }
                    has_read = true;
                }
                Err(Refusal::NotServed { serves }) => return Outcome::NotBegun { serves },
                Err(Refusal::NoConnection) => return Outcome::NoConnection,
                Err(Refusal::NoLink | Refusal::Rules) => {
                    let text = "the link is over".to_owned();
                    return Outcome::Failed { kind: ErrorKind::Closed, text };
                }
            }
        }
    }

    /// The shard, once it serves, if it is this node's.
    async fn open_shard(&self, ticket: &Ticket) -> Option<(Rc<ShardHost>, Rc<Shard>)> {
        let (host, _) = self.keeper.host(ticket.shard)?;
        let shard = host.shard().await.ok()?;
        Some((host, shard))
    }

    /// The epoch with which that host is served now.
    fn serves(&self, ticket: &Ticket, host: &Rc<ShardHost>) -> Option<u64> {
        let (now, epoch) = self.keeper.host(ticket.shard)?;
        Rc::ptr_eq(&now, host).then_some(epoch)
    }
}
