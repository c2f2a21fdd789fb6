//! Connections of clients to one node, and what is under way for them; by which a client that comes back by another node is not followed by itself.
//!
//! ```text
//!  open ──begin()──▶ under way ──ended or dropped──▶ …        close(): nothing more is begun, what is under way ends
//! ```
//!
//! D1. Nothing is begun of a connection that is closed.
//! D2. What has begun counts until it is sure that nothing of it lands any more, whether or not its client still waits.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use varve_reactor::Notify;

/// What is known of a connection.
#[derive(Default)]
struct State {
    under_way: usize,
    is_closed: bool,
}

/// Takes in what has arrived of clients, and learns of connections that were closed.
type TakesIn = Rc<dyn Fn()>;

/// The connections of one node. Numbers are never used again.
#[derive(Default)]
pub struct Connections {
    last: Cell<u64>,
    of: RefCell<BTreeMap<u64, State>>,
    takes_in: RefCell<Option<TakesIn>>,
    ended: Notify,
}

/// One connection. Dropping it closes it.
pub struct Connection {
    number: u64,
    all: Rc<Connections>,
    /// Told when it is closed.
    on_close: Box<dyn Fn(u64)>,
}

/// Something that was begun for a connection (D2).
pub(crate) struct UnderWay {
    connection: u64,
    all: Rc<Connections>,
}

impl Connections {
    /// Without any.
    #[must_use]
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    /// Called before it is asked what is left of closed connections.
    pub fn take_in_with(&self, takes_in: impl Fn() + 'static) {
        self.takes_in.replace(Some(Rc::new(takes_in)));
    }

    pub(crate) fn open(self: &Rc<Self>, on_close: impl Fn(u64) + 'static) -> Connection {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.of.borrow_mut().insert(number, State::default());
        Connection { number, all: Rc::clone(self), on_close: Box::new(on_close) }
    }

    fn close(&self, connection: u64) {
        if let Some(state) = self.of.borrow_mut().get_mut(&connection) {
            state.is_closed = true;
        }
        self.forget(connection);
    }

    /// Drops what is known of a connection that is closed and has nothing under way.
    fn forget(&self, connection: u64) {
        let mut of = self.of.borrow_mut();
        if of.get(&connection).is_some_and(|state| state.is_closed && state.under_way == 0) {
            of.remove(&connection);
            self.ended.notify_all();
        }
    }

    pub(crate) fn is_closed(&self, connection: u64) -> bool {
        self.of.borrow().get(&connection).is_none_or(|state| state.is_closed)
    }

    /// Waits until nothing is left of the connections that are closed by now.
    pub(crate) async fn closed_have_ended(&self) {
        let takes_in = self.takes_in.borrow().clone();
        if let Some(take_in) = takes_in {
            take_in();
        }
        let closed: Vec<u64> = {
            let of = self.of.borrow();
            of.iter().filter(|(_, state)| state.is_closed).map(|(number, _)| *number).collect()
        };
        loop {
            let ended = self.ended.notified();
            if !closed.iter().any(|number| self.of.borrow().contains_key(number)) {
                return;
            }
            ended.await;
        }
    }
}

impl Connection {
    /// Its number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Nothing of it is begun any more (D1).
    pub fn close(&self) {
        if !self.all.is_closed(self.number) {
            self.all.close(self.number);
            (self.on_close)(self.number);
        }
    }

    /// Something is to be begun for it; none when it is closed (D1).
    pub(crate) fn begin(&self) -> Option<UnderWay> {
        let mut of = self.all.of.borrow_mut();
        let state = of.get_mut(&self.number).filter(|state| !state.is_closed)?;
        state.under_way += 1;
        Some(UnderWay { connection: self.number, all: Rc::clone(&self.all) })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}

impl UnderWay {
    pub(crate) fn connection(&self) -> u64 {
        self.connection
    }

    /// Its connection was closed meanwhile.
    pub(crate) fn is_closed(&self) -> bool {
        self.all.is_closed(self.connection)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(state) = self.all.of.borrow_mut().get_mut(&self.connection) {
            state.under_way -= 1;
        }
        self.all.forget(self.connection);
    }
}

#[cfg(test)]
mod tests {
    use varve_reactor::SimLoop;

    use super::*;

    #[test]
    fn a_closed_connection_begins_nothing_and_is_waited_for() {
        let mut sim = SimLoop::new(1);
        let reactor = sim.handle();
        sim.run_until(async move {
            let all = Connections::new();
            let told = Rc::new(Cell::new(0));
            let tell = Rc::clone(&told);
            let connection = all.open(move |number| tell.set(number));
            let alive = all.open(|_| ());
            let of_alive = alive.begin().unwrap();
            let under_way = connection.begin().unwrap();
            connection.close();
            assert_eq!(told.get(), connection.number());
            assert!(connection.begin().is_none() && under_way.is_closed());
            let waiting = Rc::clone(&all);
            let mut waits = reactor.spawn_join(async move { waiting.closed_have_ended().await });
            reactor.sleep(1000).await;
            assert_eq!(waits.try_take(), None);
            drop(under_way);
            waits.await;
            assert!(!of_alive.is_closed());
        });
    }
}
