//! A cluster in memory that enforces the rules of RADOS: for fast tests, and for schedules that no real cluster can be
//! made to run.
//!
//! Operations take effect when they are called. Those of a client that is held take effect when it is let go, in their
//! order: so lands what a paused process, or a slow network, still has under way. Or they take effect, and their
//! answers come when it is let go.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::objects::{ObjectChange, Objects, RadosFuture, Refusal, Write};

/// How a pool keeps its objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolKind {
    /// In copies. Objects may be changed anywhere.
    Replicated,
    /// In stripes with parity. Objects are written whole.
    Erasure {
        /// Data bytes of a stripe.
        stripe_bytes: u64,
    },
}

#[derive(Default)]
struct Object {
    bytes: Vec<u8>,
    attributes: BTreeMap<&'static str, Vec<u8>>,
}

struct MemoryPool {
    kind: PoolKind,
    objects: BTreeMap<String, Object>,
}

#[derive(Default)]
struct State {
    pools: RefCell<BTreeMap<String, MemoryPool>>,
    shut_out: RefCell<BTreeSet<u64>>,
    clients: Cell<u64>,
}

/// A cluster. Clones share it.
#[derive(Clone, Default)]
pub struct MemoryCluster {
    state: Rc<State>,
}

type Job = Box<dyn FnOnce()>;

/// A process that uses a cluster. Clones are the same one.
#[derive(Clone)]
pub struct MemoryClient {
    state: Rc<State>,
    id: u64,
    held: Rc<RefCell<Option<VecDeque<Job>>>>,
    /// Of what is held, the answers only.
    answers_only: Rc<Cell<bool>>,
}

impl MemoryCluster {
    /// A cluster without pools.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a pool of RADOS.
    pub fn make_pool(&self, name: &str, kind: PoolKind) {
        let pool = MemoryPool { kind, objects: BTreeMap::new() };
        self.state.pools.borrow_mut().insert(name.to_owned(), pool);
    }

    /// A new client.
    #[must_use]
    pub fn client(&self) -> MemoryClient {
        let id = self.state.clients.get() + 1;
        self.state.clients.set(id);
        MemoryClient {
            state: Rc::clone(&self.state),
            id,
            held: Rc::default(),
            answers_only: Rc::default(),
        }
    }

    /// Refuses everything of a client from now on: what Ceph calls a blocklist.
    pub fn shut_out(&self, client: &MemoryClient) {
        self.state.shut_out.borrow_mut().insert(client.id);
    }

    /// Names of the objects of a pool, with their lengths in bytes.
    #[must_use]
    pub fn objects(&self, pool: &str) -> BTreeMap<String, usize> {
        let pools = self.state.pools.borrow();
        let objects = pools.get(pool).into_iter().flat_map(|pool| &pool.objects);
        objects.map(|(name, object)| (name.clone(), object.bytes.len())).collect()
    }

    /// Changes bytes of an object behind everybody's back.
    pub fn damage(&self, pool: &str, object: &str, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut pools = self.state.pools.borrow_mut();
        let object = pools.get_mut(pool).and_then(|pool| pool.objects.get_mut(object));
        damage(&mut object.expect("the object is there").bytes);
    }
}

impl MemoryClient {
    /// The objects of a pool.
    ///
    /// # Errors
    /// `NOT_FOUND` when there is no such pool.
    pub fn objects(&self, pool: &str) -> Result<Rc<dyn Objects>, Refusal> {
        let pools = self.state.pools.borrow();
        let kind = pools.get(pool).ok_or(Refusal::NOT_FOUND)?.kind;
        Ok(Rc::new(MemoryObjects { client: self.clone(), pool: pool.to_owned(), kind }))
    }

    /// Holds back what is called from now on.
    pub fn hold(&self) {
        self.answers_only.set(false);
        self.held.borrow_mut().get_or_insert_default();
    }

    /// Holds back the answers to what is called from now on.
    pub fn hold_answers(&self) {
        self.answers_only.set(true);
        self.held.borrow_mut().get_or_insert_default();
    }

    /// Lets go the first of what is held back, and goes on holding.
    pub fn let_go_first(&self, count: usize) {
        for _ in 0..count {
            // Taken out first: what it wakes may call operations.
            let job = self.held.borrow_mut().as_mut().and_then(VecDeque::pop_front);
            let Some(job) = job else { return };
            job();
        }
    }

    /// Lets go what was held back.
    pub fn let_go(&self) {
        let jobs = self.held.borrow_mut().take();
        jobs.into_iter().flatten().for_each(|job| job());
    }
}

struct MemoryObjects {
    client: MemoryClient,
    pool: String,
    kind: PoolKind,
}

impl MemoryObjects {
    /// Does it now, or when the client is let go.
    fn begin<T: 'static>(
        &self,
        work: impl FnOnce(&mut MemoryPool) -> Result<T, Refusal> + 'static,
    ) -> RadosFuture<T> {
        let answer = Rc::new(RefCell::new(ReplySlot { result: None, waker: None }));
        let (state, id, pool) = (Rc::clone(&self.client.state), self.client.id, self.pool.clone());
        let told = Rc::clone(&answer);
        let job = move || {
            if state.shut_out.borrow().contains(&id) {
                return Err(Refusal::SHUT_OUT);
            }
            match state.pools.borrow_mut().get_mut(&pool) {
                Some(pool) => work(pool),
                None => Err(Refusal::NOT_FOUND),
            }
        };
        let tell = move |result| {
            let mut answer = told.borrow_mut();
            answer.result = Some(result);
            answer.waker.take().into_iter().for_each(Waker::wake);
        };
        match &mut *self.client.held.borrow_mut() {
            Some(held) if self.client.answers_only.get() => {
                let result = job();
                held.push_back(Box::new(move || tell(result)));
            }
            Some(held) => held.push_back(Box::new(move || tell(job()))),
            None => tell(job()),
        }
        Box::pin(ReplyFuture { answer })
    }
}

struct ReplySlot<T> {
    result: Option<Result<T, Refusal>>,
    waker: Option<Waker>,
}

struct ReplyFuture<T> {
    answer: Rc<RefCell<ReplySlot<T>>>,
}

impl<T> Future for ReplyFuture<T> {
    type Output = Result<T, Refusal>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = self.answer.borrow_mut();
        match answer.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Objects for MemoryObjects {
    fn pool(&self) -> &str {
        &self.pool
    }

    fn alignment(&self) -> u64 {
        match self.kind {
            PoolKind::Replicated => 1,
            PoolKind::Erasure { stripe_bytes } => stripe_bytes,
        }
    }

    fn change(&self, object: &str, change: ObjectChange) -> RadosFuture<()> {
        let object = object.to_owned();
        self.begin(move |pool| pool.change(&object, change))
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> RadosFuture<Vec<u8>> {
        let object = object.to_owned();
        self.begin(move |pool| {
            let bytes = &pool.objects.get(&object).ok_or(Refusal::NOT_FOUND)?.bytes;
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
            Ok(bytes[start..start.saturating_add(len).min(bytes.len())].to_vec())
        })
    }

    fn attribute(&self, object: &str, name: &str) -> RadosFuture<Option<Vec<u8>>> {
        let (object, name) = (object.to_owned(), name.to_owned());
        self.begin(move |pool| {
            let object = pool.objects.get(&object).ok_or(Refusal::NOT_FOUND)?;
            Ok(object.attributes.get(name.as_str()).cloned())
        })
    }

    fn list(&self) -> RadosFuture<Vec<String>> {
        self.begin(|pool| Ok(pool.objects.keys().cloned().collect()))
    }
}

impl MemoryPool {
    fn change(&mut self, name: &str, change: ObjectChange) -> Result<(), Refusal> {
        let ObjectChange { expects, at_most, creates, write, sets } = change;
        let before = self.objects.get(name);
        for (attribute, value) in &expects {
            let object = before.ok_or(Refusal::NOT_FOUND)?;
            if object.attributes.get(attribute) != Some(value) {
                return Err(Refusal::UNEXPECTED);
            }
        }
        if let Some((attribute, bound)) = &at_most
            && before.ok_or(Refusal::NOT_FOUND)?.attributes.get(attribute) > Some(bound)
        {
            return Err(Refusal::UNEXPECTED);
        }
        if creates && before.is_some() {
            return Err(Refusal::EXISTS);
        }
        match write {
            Some(Write::Remove) => {
                return self.objects.remove(name).map(drop).ok_or(Refusal::NOT_FOUND);
            }
            Some(Write::At(..)) if self.kind != PoolKind::Replicated => {
                return Err(Refusal::UNSUPPORTED);
            }
            Some(Write::At(offset, bytes)) => {
                let start = usize::try_from(offset).map_err(|_| Refusal::INVALID)?;
                let end = start.checked_add(bytes.len()).ok_or(Refusal::INVALID)?;
                let object = self.objects.entry(name.to_owned()).or_default();
                object.bytes.resize(object.bytes.len().max(end), 0);
                object.bytes[start..end].copy_from_slice(&bytes);
            }
            Some(Write::Whole(bytes)) => {
                self.objects.entry(name.to_owned()).or_default().bytes = bytes.to_vec();
            }
            None => {}
        }
        let object = self.objects.entry(name.to_owned()).or_default();
        object.attributes.extend(sets);
        Ok(())
    }
}
