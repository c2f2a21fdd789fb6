//! A network of messages between nodes, in simulated time: links are slow, stand still, or break while something is on its way that arrives all the same.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use varve_dispatch::nodes::wire::{self, Message};
use varve_dispatch::nodes::{Connector, Inbox, Pipe, PipeBroken};
use varve_membership::{Fingerprint, Node, NodeId};
use varve_reactor::{Notify, Reactor};

use crate::pool::MS;

/// What is on its way in one direction of a link, and what has arrived.
struct Lane {
    from: NodeId,
    to: NodeId,
    on_its_way: RefCell<VecDeque<Vec<u8>>>,
    arrived: RefCell<VecDeque<Vec<u8>>>,
    /// Whoever sends by it sends nothing more.
    has_ended: Cell<bool>,
    /// Whoever receives by it has been told so.
    is_over: Cell<bool>,
    moved: Notify,
}

/// One end of a link.
struct End {
    sends: Rc<Lane>,
    receives: Rc<Lane>,
    is_closed: Cell<bool>,
}

/// The network. Nodes that are held neither send nor receive: what they have sent stays on its way.
pub(crate) struct Network {
    reactor: Reactor,
    inboxes: RefCell<BTreeMap<NodeId, Rc<Inbox>>>,
    lanes: RefCell<Vec<Rc<Lane>>>,
    held: RefCell<BTreeSet<NodeId>>,
    dead: RefCell<BTreeSet<NodeId>>,
    moved: Notify,
}

/// Whose certificate it is.
pub(crate) fn fingerprint(id: NodeId) -> Fingerprint {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&id.0.to_le_bytes());
    Fingerprint(bytes)
}

impl Network {
    pub(crate) fn new(reactor: &Reactor) -> Rc<Self> {
        Rc::new(Self {
            reactor: reactor.clone(),
            inboxes: RefCell::default(),
            lanes: RefCell::default(),
            held: RefCell::default(),
            dead: RefCell::default(),
            moved: Notify::new(),
        })
    }

    /// From now on that node is reached.
    pub(crate) fn listen(&self, id: NodeId, inbox: Rc<Inbox>) {
        self.inboxes.borrow_mut().insert(id, inbox);
    }

    pub(crate) fn hold(&self, id: NodeId) {
        self.held.borrow_mut().insert(id);
    }

    pub(crate) fn let_go(&self, id: NodeId) {
        self.held.borrow_mut().remove(&id);
        self.moved.notify_all();
    }

    /// It sends and receives nothing more; what it has sent arrives.
    pub(crate) fn kill(&self, id: NodeId) {
        self.dead.borrow_mut().insert(id);
        self.inboxes.borrow_mut().remove(&id);
        self.break_links(id);
    }

    /// Links of a node break: it learns of it at once and hears nothing more of them; others get what it has sent, and then learn of it.
    pub(crate) fn break_links(&self, id: NodeId) {
        for lane in self.lanes.borrow().iter().filter(|lane| lane.from == id || lane.to == id) {
            lane.has_ended.set(true);
            lane.is_over.set(lane.to == id || lane.is_over.get());
            lane.moved.notify_all();
        }
    }

    fn stands_still(&self, lane: &Lane) -> bool {
        let held = self.held.borrow();
        held.contains(&lane.from) || held.contains(&lane.to)
    }

    /// Carries what is sent, in order.
    async fn carry(self: Rc<Self>, lane: Rc<Lane>) {
        loop {
            let (moved, let_go) = (lane.moved.notified(), self.moved.notified());
            if self.stands_still(&lane) {
                let_go.await;
                continue;
            }
            if lane.is_over.get() {
                lane.on_its_way.borrow_mut().clear();
            }
            let next = lane.on_its_way.borrow().front().cloned();
            let Some(frame) = next else {
                if lane.has_ended.get() {
                    lane.is_over.set(true);
                    lane.moved.notify_all();
                    return self.lanes.borrow_mut().retain(|other| !Rc::ptr_eq(other, &lane));
                }
                moved.await;
                continue;
            };
            self.reactor.sleep(self.reactor.random_u64() % MS).await;
            if self.stands_still(&lane) {
                continue;
            }
            let is_there = lane.on_its_way.borrow_mut().pop_front().is_some();
            if is_there && !self.dead.borrow().contains(&lane.to) {
                lane.arrived.borrow_mut().push_back(frame);
                lane.moved.notify_all();
            }
        }
    }

    fn lane(self: &Rc<Self>, from: NodeId, to: NodeId) -> Rc<Lane> {
        let lane = Rc::new(Lane {
            from,
            to,
            on_its_way: RefCell::default(),
            arrived: RefCell::default(),
            has_ended: Cell::new(false),
            is_over: Cell::new(false),
            moved: Notify::new(),
        });
        self.lanes.borrow_mut().push(Rc::clone(&lane));
        self.reactor.spawn(Rc::clone(self).carry(Rc::clone(&lane)));
        lane
    }

    fn link(self: &Rc<Self>, from: NodeId, to: NodeId) -> Result<Rc<dyn Pipe>, PipeBroken> {
        if self.dead.borrow().contains(&from) {
            return Err(PipeBroken("this node is dead".to_owned()));
        }
        let inbox = self.inboxes.borrow().get(&to).cloned();
        let inbox = inbox.ok_or_else(|| PipeBroken("nobody listens".to_owned()))?;
        let (there, back) = (self.lane(from, to), self.lane(to, from));
        let end = |sends: &Rc<Lane>, receives: &Rc<Lane>| {
            let (sends, receives) = (Rc::clone(sends), Rc::clone(receives));
            Rc::new(End { sends, receives, is_closed: Cell::new(false) })
        };
        self.reactor.spawn(inbox.serve(end(&back, &there)));
        Ok(end(&there, &back))
    }
}

impl Pipe for End {
    fn peer(&self) -> Fingerprint {
        fingerprint(self.receives.from)
    }

    fn send(&self, message: Message) -> LocalBoxFuture<'_, Result<(), PipeBroken>> {
        let sent = if self.sends.has_ended.get() {
            Err(PipeBroken("it was broken".to_owned()))
        } else {
            self.sends.on_its_way.borrow_mut().push_back(wire::encode(&message));
            self.sends.moved.notify_all();
            Ok(())
        };
        Box::pin(std::future::ready(sent))
    }

    fn receive(&self) -> LocalBoxFuture<'_, Result<Message, PipeBroken>> {
        Box::pin(async {
            loop {
                let moved = self.receives.moved.notified();
                if let Some(frame) = self.receives.arrived.borrow_mut().pop_front() {
                    return Ok(wire::decode(&frame).unwrap().unwrap().0);
                }
                if self.receives.is_over.get() || self.is_closed.get() {
                    return Err(PipeBroken("it has ended".to_owned()));
                }
                moved.await;
            }
        })
    }

    fn close(&self) {
        self.is_closed.set(true);
        for lane in [&self.sends, &self.receives] {
            lane.has_ended.set(true);
            lane.moved.notify_all();
        }
    }
}

/// Makes links of one node.
pub(crate) struct SimConnector {
    pub(crate) network: Rc<Network>,
    pub(crate) id: NodeId,
}

impl Connector for SimConnector {
    fn connect(&self, node: &Node) -> LocalBoxFuture<'static, Result<Rc<dyn Pipe>, PipeBroken>> {
        let (network, from, to) = (Rc::clone(&self.network), self.id, node.id);
        Box::pin(async move {
            network.reactor.sleep(network.reactor.random_u64() % MS).await;
            network.link(from, to)
        })
    }
}
