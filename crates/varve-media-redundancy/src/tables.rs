//! The tables of a pool as its threads see them: the newest view, and a way to have it changed.
//!
//! ```text
//!  TablesHandle of a thread ──Change──▶ port ──▶ Keeper ──▶ drives
//!        ▲                                          │
//!        └────────── view, and a wake ◀── Tables ◀──┘
//! ```
//!
//! TABLES-1. A view is published once what it says is durable, and before the change that made it is answered.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_channel::oneshot;
use varve_media::{Error, Result, RootKey};
use varve_reactor::port::{self, PortReceiver, PortSender};
use varve_reactor::{Nanos, Notified, Notify, Reactor};

use crate::change::Change;
use crate::ids::Epoch;
use crate::view::LayoutView;

/// Changes that may be asked for at once, of all threads.
const REQUESTS_MAX: usize = 1024;

/// How long a change is tried to be asked for while others fill the queue, and how often.
const ASK_NANOS_MAX: u64 = Nanos::seconds(60);
const ASK_AGAIN_NANOS: u64 = Nanos::millis(1);

/// How often it is looked whether a root is free, and how long.
const CLAIM_AGAIN_NANOS: u64 = Nanos::micros(50);
const CLAIM_NANOS_MAX: u64 = Nanos::seconds(300);

/// A change on its way to the keeper.
pub(crate) struct TableRequest {
    pub(crate) change: Change,
    pub(crate) answer: oneshot::Sender<Result<Arc<LayoutView>>>,
}

struct SharedTables {
    /// Counts views; read before the lock is taken.
    version: AtomicU64,
    /// Guards the reference only: held to clone it or to put another one there.
    view: Mutex<Arc<LayoutView>>,
    /// Guards why nothing is written any more; held to look.
    failure: Mutex<Option<Error>>,
    /// Guards the list only. Those that wake threads.
    listeners: Mutex<Vec<PortSender<()>>>,
    /// Guards the set only. Roots that are being replaced or copied, by their key, on whichever thread.
    busy_roots: Mutex<BTreeSet<RootKey>>,
}

/// What the keeper hands out, and threads look at.
#[derive(Clone)]
pub(crate) struct TableBoard {
    shared: Arc<SharedTables>,
}

/// The tables of a pool, for all threads. With the last clone the keeper ends.
#[derive(Clone)]
pub struct Tables {
    board: TableBoard,
    requests: PortSender<TableRequest>,
}

impl Tables {
    /// Those that a keeper on the loop of `reactor` changes.
    pub(crate) fn new(reactor: &Reactor, view: LayoutView) -> (Self, PortReceiver<TableRequest>) {
        let (requests, receiver) = port::channel(reactor, REQUESTS_MAX);
        let shared = SharedTables {
            version: AtomicU64::new(0),
            view: Mutex::new(Arc::new(view)),
            failure: Mutex::default(),
            listeners: Mutex::default(),
            busy_roots: Mutex::default(),
        };
        let board = TableBoard { shared: Arc::new(shared) };
        (Self { board, requests }, receiver)
    }

    /// The newest view.
    #[must_use]
    pub fn view(&self) -> Arc<LayoutView> {
        Arc::clone(&lock(&self.board.shared.view))
    }

    /// Epoch of its drive table.
    #[must_use]
    pub fn epoch_hint(&self) -> Epoch {
        self.view().drives().epoch
    }

    /// Why nothing is written any more, where that is so.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.board.failure()
    }

    /// The tables for the thread of `reactor`. One of them is enough for a thread.
    #[must_use]
    pub fn on(&self, reactor: &Reactor) -> Rc<TablesHandle> {
        let (sender, receiver) = port::channel(reactor, 1);
        lock(&self.board.shared.listeners).push(sender);
        let changed = Rc::new(Notify::new());
        reactor.spawn(forward(receiver, Rc::clone(&changed)));
        let version = self.board.version();
        let view = RefCell::new(self.view());
        let (tables, reactor) = (self.clone(), reactor.clone());
        Rc::new(TablesHandle { tables, reactor, version: Cell::new(version), view, changed })
    }

    pub(crate) fn board(&self) -> &TableBoard {
        &self.board
    }

    /// As [`TablesHandle::change`], from a thread without a loop. It is asked for when this returns.
    ///
    /// # Errors
    /// The same; [`Error::TableChange`] while too many others wait.
    pub fn ask(
        &self,
        change: Change,
    ) -> impl Future<Output = Result<Arc<LayoutView>>> + Send + use<> {
        let (sender, answer) = oneshot::channel();
        let is_sent = self.requests.send(TableRequest { change, answer: sender }).is_ok();
        let is_closed = self.requests.is_closed();
        let board = self.board.clone();
        async move {
            if !is_sent && !is_closed {
                let reason = "too many changes wait".to_owned();
                return Err(Error::TableChange { reason });
            }
            match answer.await {
                Ok(answer) => answer,
                Err(oneshot::Canceled) => Err(board.failure().unwrap_or(Error::Fenced)),
            }
        }
    }
}

impl TableBoard {
    /// Hands out another view (TABLES-1).
    pub(crate) fn publish(&self, view: Arc<LayoutView>) {
        *lock(&self.shared.view) = view;
        self.shared.version.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// Says that nothing is written any more.
    pub(crate) fn fail(&self, error: Error) {
        lock(&self.shared.failure).get_or_insert(error);
        self.shared.version.fetch_add(1, Ordering::Release);
        self.wake();
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        lock(&self.shared.failure).clone()
    }

    /// Those whose loop ended are forgotten. A queue that is full wakes its thread anyway.
    fn wake(&self) {
        lock(&self.shared.listeners).retain(|listener| {
            let is_gone = listener.send(()).is_err() && listener.is_closed();
            !is_gone
        });
    }

    fn version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// Keeps a root from being replaced or copied elsewhere until dropped. It must not be held while the keeper is
    /// asked for something, as the keeper takes it too.
    pub(crate) async fn claim_root(&self, reactor: &Reactor, key: RootKey) -> Result<RootClaim> {
        let began = reactor.now();
        while !lock(&self.shared.busy_roots).insert(key) {
            if reactor.now().since(began) > CLAIM_NANOS_MAX {
                let reason = format!("root {key} is busy");
                return Err(Error::TableChange { reason });
            }
            reactor.sleep(CLAIM_AGAIN_NANOS).await;
        }
        Ok(RootClaim { shared: Arc::clone(&self.shared), key })
    }
}

/// Wakes the tasks of a thread until the pool is closed.
async fn forward(mut receiver: PortReceiver<()>, changed: Rc<Notify>) {
    let mut wakes = Vec::new();
    while receiver.recv_batch(&mut wakes).await > 0 {
        wakes.clear();
        changed.notify_all();
    }
    changed.notify_all();
}

/// Holds a root.
pub(crate) struct RootClaim {
    shared: Arc<SharedTables>,
    key: RootKey,
}

impl Drop for RootClaim {
    fn drop(&mut self) {
        lock(&self.shared.busy_roots).remove(&self.key);
    }
}

/// No lock is held over anything that could panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tables as one thread has them.
pub struct TablesHandle {
    tables: Tables,
    reactor: Reactor,
    /// That of the view at hand.
    version: Cell<u64>,
    view: RefCell<Arc<LayoutView>>,
    changed: Rc<Notify>,
}

impl TablesHandle {
    /// The newest view. Costs a look at a counter while nothing changed.
    #[must_use]
    pub fn view(&self) -> Arc<LayoutView> {
        self.refresh();
        Arc::clone(&self.view.borrow())
    }

    /// What `look` finds in the newest view, which it must not ask for itself. For what looks often: no count is
    /// written that threads share.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&LayoutView) -> T) -> T {
        self.refresh();
        look(&self.view.borrow())
    }

    fn refresh(&self) {
        let version = self.tables.board.version();
        if version != self.version.get() {
            self.version.set(version);
            *self.view.borrow_mut() = self.tables.view();
        }
    }

    /// What all threads share.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Waits for the next view, or for the pool's end.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Asks the keeper for a change, and returns the view that has it: it is durable, and published.
    ///
    /// # Errors
    /// The change's; that for which the pool writes nothing more; [`Error::Fenced`] when there is no keeper any more.
    pub async fn change(&self, change: Change) -> Result<Arc<LayoutView>> {
        let (sender, answer) = oneshot::channel();
        let mut request = TableRequest { change, answer: sender };
        let began = self.reactor.now();
        while let Err(refused) = self.tables.requests.send(request) {
            let is_late = self.reactor.now().since(began) > ASK_NANOS_MAX;
            if is_late || self.tables.requests.is_closed() {
                return Err(self.gone());
            }
            request = refused;
            self.reactor.sleep(ASK_AGAIN_NANOS).await;
        }
        match answer.await {
            Ok(answer) => answer,
            Err(oneshot::Canceled) => Err(self.gone()),
        }
    }

    /// The loop of the thread.
    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    fn gone(&self) -> Error {
        self.tables.failure().unwrap_or(Error::Fenced)
    }
}
