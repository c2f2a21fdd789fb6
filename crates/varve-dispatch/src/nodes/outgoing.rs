//! Links that this node made to another: one after the other, each with a higher number; requests that wait for their answers.
//!
//! ```text
//!  begin_making ──connect──▶ hello ──▶ welcome ──▶ link ──broken──▶ (begin_making …)
//! ```
//!
//! O1. A link is used once it was welcomed; what was sent by older ones has ended then (F2).
//! O2. Requests go out in the order of their numbers.
//! O3. So many requests wait for answers that the other end does not end the link for their number.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use futures_channel::oneshot;
use varve_membership::Node;
use varve_reactor::{Notified, Notify, Reactor};

use super::REQUESTS_MAX;
use super::pipe::{Connector, Pipe, PipeBroken};
use super::wire::{Message, Outcome};

/// Half of what the other end takes (O3): answers that it has sent count there no more, and may be on their way here.
const PENDING_MAX: usize = REQUESTS_MAX / 2;

/// The links to one node.
#[derive(Default)]
pub(super) struct PeerLink {
    number: Cell<u64>,
    is_making: Cell<bool>,
    link: RefCell<Option<Rc<Outgoing>>>,
    changed: Notify,
}

/// A link to another node.
pub(super) struct Outgoing {
    number: u64,
    pipe: Rc<dyn Pipe>,
    request: Cell<u64>,
    is_broken: Cell<bool>,
    pending: RefCell<BTreeMap<u64, oneshot::Sender<Outcome>>>,
    queue: RefCell<VecDeque<Message>>,
    /// Something was queued, was answered, or the link broke.
    moved: Notify,
}

/// An answer that will come, or the end of its link.
pub(super) struct Awaited {
    link: Rc<Outgoing>,
    request: u64,
    answer: oneshot::Receiver<Outcome>,
}

/// The right to make the next link to a node.
pub(super) struct Making<'a> {
    peer: &'a PeerLink,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.peer.is_making.set(false);
        self.peer.changed.notify_all();
    }
}

impl PeerLink {
    /// The link there is.
    pub(super) fn link(&self) -> Option<Rc<Outgoing>> {
        self.link.borrow().clone().filter(|link| !link.is_broken.get())
    }

    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Nothing while another task makes one.
    pub(super) fn begin_making(&self) -> Option<Making<'_>> {
        (!self.is_making.replace(true)).then(|| Making { peer: self })
    }

    /// A connection was closed.
    pub(super) fn tell_closed(&self, connection: u64) {
        if let Some(link) = self.link() {
            link.queue(Message::Closed { connection });
        }
    }
}

impl Making<'_> {
    /// Makes a link, and returns it once it is welcomed (O1).
    pub(super) async fn make(
        self,
        reactor: &Reactor,
        connector: &dyn Connector,
        node: &Node,
        hello: impl FnOnce(u64) -> Message,
    ) -> Result<Rc<Outgoing>, PipeBroken> {
        let number = self.peer.number.get() + 1;
        self.peer.number.set(number);
        let pipe = connector.connect(node).await?;
        pipe.send(hello(number)).await?;
        match pipe.receive().await? {
            Message::Welcome { .. } => {}
            Message::Goodbye(why) => return Err(PipeBroken(format!("{why:?}"))),
            other => return Err(PipeBroken(format!("no welcome, but {other:?}"))),
        }
        let link = Rc::new(Outgoing {
            number,
            pipe,
            request: Cell::new(0),
            is_broken: Cell::new(false),
            pending: RefCell::default(),
            queue: RefCell::default(),
            moved: Notify::new(),
        });
        self.peer.link.replace(Some(Rc::clone(&link)));
        reactor.spawn(Rc::clone(&link).write());
        reactor.spawn(Rc::clone(&link).listen());
        Ok(link)
    }
}

impl Outgoing {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Waits until one more request may wait for its answer (O3), or the link broke.
    pub(super) async fn has_room(&self) {
        loop {
            let moved = self.moved.notified();
            if self.pending.borrow().len() < PENDING_MAX || self.is_broken.get() {
                return;
            }
            moved.await;
        }
    }

    /// Sends a message with the next number, once there is room.
    pub(super) async fn send(
        self: &Rc<Self>,
        message: impl FnOnce(u64) -> Message,
    ) -> Result<Awaited, PipeBroken> {
        self.has_room().await;
        self.send_now(message)
    }

    /// Sends a message with the next number.
    pub(super) fn send_now(
        self: &Rc<Self>,
        message: impl FnOnce(u64) -> Message,
    ) -> Result<Awaited, PipeBroken> {
        if self.is_broken.get() {
            return Err(broken());
        }
        let request = self.request.get() + 1;
        self.request.set(request);
        let (sender, answer) = oneshot::channel();
        self.pending.borrow_mut().insert(request, sender);
        self.queue(message(request)); // O2
        Ok(Awaited { link: Rc::clone(self), request, answer })
    }

    fn queue(&self, message: Message) {
        self.queue.borrow_mut().push_back(message);
        self.moved.notify_all();
    }

    async fn write(self: Rc<Self>) {
        loop {
            let moved = self.moved.notified();
            let next = self.queue.borrow_mut().pop_front();
            if self.is_broken.get() {
                return;
            }
            let Some(message) = next else {
                moved.await;
                continue;
            };
            if self.pipe.send(message).await.is_err() {
                return self.end();
            }
        }
    }

    async fn listen(self: Rc<Self>) {
        // Anything but an answer ends it.
        while let Ok(Message::Answer { request, outcome }) = self.pipe.receive().await {
            let waits = self.pending.borrow_mut().remove(&request);
            if let Some(waits) = waits {
                drop(waits.send(outcome)); // Who asked may wait no more.
            }
            self.moved.notify_all();
        }
        self.end();
    }

    fn end(&self) {
        self.is_broken.set(true);
        self.pending.borrow_mut().clear();
        self.queue.borrow_mut().clear();
        self.moved.notify_all();
        self.pipe.close();
    }
}

impl Awaited {
    /// What came of it.
    pub(super) async fn outcome(mut self) -> Result<Outcome, PipeBroken> {
        (&mut self.answer).await.map_err(|_| broken())
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if self.link.pending.borrow_mut().remove(&self.request).is_some() {
            self.link.moved.notify_all();
        }
    }
}

fn broken() -> PipeBroken {
    PipeBroken("it has ended".to_owned())
}
