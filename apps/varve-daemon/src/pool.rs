//! An open pool: its shard threads, the NBD listeners in front of them, and the order in which both end.
//!
//! ```text
//! open:   ports -> shards recover side by side -> listeners
//! close:  listeners and connections, on all threads -> shards, on all threads -> right to write, on all threads
//!         -> threads
//! ```
//!
//! DAEMON-POOL-1: a shard closes only when no thread serves connections any more, as their requests go to any shard.
//! DAEMON-POOL-2: a shard is given back only when all have closed: one that closes may need a zone from the root, which
//!     goes with the first shard.

use std::convert::Infallible;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::mpsc;
use varve_access_admin::{AdminBackend, ListenAddress};
use varve_access_nbd::limits::DRAIN_TIMEOUT_MS;
use varve_access_nbd::{
    Address, ConnectionBalancer, ConnectionLimit, Listener, ServiceOptions, StdListener,
    WorkHandoff, deal_connections,
};
use varve_client::{Failure, Result};
use varve_dispatch::{Placement, PoolLinks};
use varve_reactor::port::PortSender;
use varve_types::{ByteCount, ShardId};

use crate::backend::{PoolBackend, PoolFacts};
use crate::condition::AskedDrives;
use crate::objects::Objects;
use crate::online_check::OnlineCheck;
use crate::shard_thread::{self, Alive, RunningThread, ShardThread, Start, ThreadEnd};
use crate::socket_access::SocketAccess;
use crate::stack::ShardStack;
use crate::threads::ShardThreads;
use crate::{condition, drive_changes, fill, health};

/// Pause between two looks at the connections that are ending, in nanoseconds.
const DRAIN_LOOK_NANOS: u64 = 5_000_000;

/// What to open and how to serve it.
pub(crate) struct PoolPlan<S: ShardStack> {
    pub(crate) source: S::Source,
    pub(crate) facts: PoolFacts,
    pub(crate) nbd: NbdPlan,
}

/// How NBD is served.
#[derive(Clone)]
pub(crate) struct NbdPlan {
    pub(crate) options: ServiceOptions,
    pub(crate) connections: ConnectionLimit,
    pub(crate) sockets: NbdSockets,
}

/// Where clients of NBD connect.
#[derive(Clone)]
pub(crate) enum NbdSockets {
    /// To sockets of the pool.
    Own {
        /// Where to listen.
        addresses: Vec<ListenAddress>,
        /// Who may connect to unix sockets.
        access: SocketAccess,
        /// Whether sockets that the process inherited stand in for the addresses.
        inherited_instead: bool,
    },
    /// To those of this node, at these addresses, which has them served here.
    OfNode(Vec<ListenAddress>),
}

/// A pool whose volumes are served.
pub(crate) struct ServedPool<S: ShardStack> {
    threads: Arc<ShardThreads<S>>,
    stacks: Vec<S::Door>,
    running: Vec<RunningThread>,
    ended: mpsc::Receiver<ThreadEnd>,
    facts: PoolFacts,
    nbd_addresses: Vec<ListenAddress>,
    nbd_connections: ConnectionLimit,
    connections: Vec<PortSender<WorkHandoff>>,
    serving_since: Instant,
}

/// Opens every shard, calls `opened`, and listens. Returns once clients can connect.
pub(crate) fn open<S: ShardStack>(
    plan: PoolPlan<S>,
    opened: impl FnOnce() -> Result<()>,
) -> Result<ServedPool<S>> {
    let PoolPlan { source, facts, nbd } = plan;
    let (ended_sender, ended) = mpsc::channel(2 * usize::from(facts.shards));
    let mut starting = Vec::new();
    for shard in (0..facts.shards).map(ShardId) {
        starting.push(shard_thread::start::<S>(Start {
            shard,
            source: source.clone(),
            nbd: nbd.options.clone(),
            alive: Alive { shard, ended: ended_sender.clone() },
        })?);
    }
    let (doors, running) = shard_thread::open(starting)?;
    let stacks = doors.iter().map(|doors| doors.stack.clone()).collect();
    let (calls, connections): (Vec<_>, Vec<_>) =
        doors.into_iter().map(|doors| (doors.calls, doors.connections)).unzip();
    let threads = Arc::new(ShardThreads::new(calls));
    let nbd_connections = nbd.connections.clone();
    let (limit, ports) = (nbd_connections.clone(), connections.clone());
    for (index, thread) in running.iter().enumerate() {
        let begun =
            threads.call(index, |thread| async move { thread.stack.begin(&thread.reactor).await });
        begun.blocking_recv().map_err(|_| shard_thread::died(thread.shard))??;
    }
    opened()?;
    let listening =
        threads.call(0, move |thread| async move { listen(&thread, nbd, limit, &ports) });
    let nbd_addresses = listening.blocking_recv().map_err(|_| shard_thread::died(ShardId(0)))??;
    let serving_since = Instant::now();
    Ok(ServedPool {
        threads,
        stacks,
        running,
        ended,
        facts,
        nbd_addresses,
        nbd_connections,
        connections,
        serving_since,
    })
}

/// Listens on the calling thread and deals connections to all; where it listens.
fn listen<S: ShardStack>(
    thread: &ShardThread<S>,
    plan: NbdPlan,
    limit: ConnectionLimit,
    threads: &[PortSender<WorkHandoff>],
) -> Result<Vec<ListenAddress>> {
    let reactor = &thread.reactor;
    let open = match plan.sockets {
        NbdSockets::OfNode(addresses) => return Ok(addresses),
        NbdSockets::Own { addresses, access, inherited_instead } => {
            nbd_sockets(&addresses, access, inherited_instead)
        }
    };
    let listeners = open.and_then(|open| {
        open.into_iter()
            .map(|socket| Listener::from_std(reactor, socket))
            .collect::<varve_access_nbd::Result<Vec<_>>>()
    });
    let listeners = listeners.map_err(|error| unable_to_listen(&error))?;
    let mut addresses = Vec::new();
    for listener in listeners {
        addresses.push(admin_address(listener.address()));
        reactor.spawn(deal_connections(
            reactor.clone(),
            listener,
            limit.clone(),
            threads.to_vec(),
            thread.nbd.shutdown().clone(),
        ));
    }
    Ok(addresses)
}

/// Sockets at these addresses, or the inherited ones if there are some and those stand in for them.
pub(crate) fn nbd_sockets(
    addresses: &[ListenAddress],
    access: SocketAccess,
    inherited_instead: bool,
) -> varve_access_nbd::Result<Vec<StdListener>> {
    if inherited_instead {
        let inherited = StdListener::inherited()?;
        if !inherited.is_empty() {
            return Ok(inherited);
        }
    }
    let bind = |address: &ListenAddress| {
        let listener = StdListener::bind(&nbd_address(address))?;
        if let StdListener::Unix(_, path) = &listener {
            let failed =
                |source| varve_access_nbd::Error::Listen { address: address.to_string(), source };
            access.apply(path).map_err(failed)?;
        }
        Ok(listener)
    };
    addresses.iter().map(bind).collect()
}

/// What to do where a socket cannot be had.
pub(crate) fn unable_to_listen(error: &varve_access_nbd::Error) -> Failure {
    Failure::new(format!("NBD: {error}"))
        .hint("see whether another process holds the address, or choose another with --nbd")
}

fn nbd_address(address: &ListenAddress) -> Address {
    match address {
        ListenAddress::Unix(path) => Address::Unix(path.clone()),
        ListenAddress::Tcp(address) => Address::Tcp(*address),
    }
}

/// An address of NBD as settings have it.
pub(crate) fn admin_address(address: &Address) -> ListenAddress {
    match address {
        Address::Unix(path) => ListenAddress::Unix(path.clone()),
        Address::Tcp(address) => ListenAddress::Tcp(*address),
    }
}

impl<S: ShardStack> ServedPool<S> {
    /// What the admin API asks, which listens at `admin_addresses`.
    pub(crate) fn backend(
        &self,
        objects: Objects,
        admin_addresses: Vec<ListenAddress>,
    ) -> Arc<dyn AdminBackend> {
        Arc::new(PoolBackend {
            threads: Arc::clone(&self.threads),
            facts: self.facts.clone(),
            nbd_addresses: self.nbd_addresses.clone(),
            admin_addresses,
            nbd_connections: self.nbd_connections.clone(),
            serving_since: self.serving_since,
            volumes_seen: AtomicU64::new(0),
            reports_seen: Mutex::default(),
            check: OnlineCheck::default(),
            objects,
        })
    }

    /// Hands connections to the threads that serve NBD, within the limit that holds for all of them.
    pub(crate) fn nbd_dealer(&self) -> ConnectionBalancer {
        ConnectionBalancer::new(self.nbd_connections.clone(), self.connections.clone())
    }

    /// The way to the pool for objects. Blocks.
    pub(crate) fn object_links(&self) -> Result<Option<(PoolLinks, Placement)>> {
        let doors = self.stacks.clone();
        let links = self.threads.call(0, |thread| async move { thread.stack.object_links(doors) });
        links.blocking_recv().map_err(|_| shard_thread::died(ShardId(0)))
    }

    /// Says in the log when the pool gets fuller, or has room again; as long as it is served.
    pub(crate) fn watch_fill(&self) -> impl Future<Output = Infallible> + use<S> {
        let PoolFacts { size, thresholds, .. } = &self.facts;
        fill::watch(Arc::clone(&self.threads), size.clone(), *thresholds)
    }

    /// Says in the log what hangs, as long as the pool is served.
    pub(crate) fn watch_health(&self) -> impl Future<Output = Infallible> + use<S> {
        health::watch(Arc::clone(&self.threads))
    }

    /// Asks the drives for their condition, as long as the pool is served.
    pub(crate) fn watch_conditions(&self) -> impl Future<Output = Infallible> + use<S> {
        condition::watch(AskedDrives {
            conditions: self.facts.conditions.clone(),
            redundancy: self.facts.redundancy.clone(),
            remembered: self.facts.drives.clone(),
        })
    }

    /// Forgets drives that leave the pool, as long as it is served.
    pub(crate) fn watch_drives(&self) -> impl Future<Output = Infallible> + use<S> {
        drive_changes::watch(self.facts.redundancy.clone())
    }

    /// What people want to know first, such as `pool 6f… (2 shards, 64 GiB)`.
    pub(crate) fn summary(&self) -> String {
        let PoolFacts { id, shards, size, .. } = &self.facts;
        let plural = if *shards == 1 { "" } else { "s" };
        format!("pool {id} ({shards} shard{plural}, {})", ByteCount(size.size_bytes(&[])))
    }

    /// Where NBD clients connect.
    pub(crate) fn nbd_addresses(&self) -> &[ListenAddress] {
        &self.nbd_addresses
    }

    /// Resolves when the pool cannot be served any more: a shard thread ended by itself, or another process has a
    /// shard.
    pub(crate) async fn failed(&mut self) -> Failure {
        match self.ended.recv().await {
            Some(ending) => ending.failure(),
            // The pool holds no sender; the last one was a thread's.
            None => Failure::new("every shard thread ended"),
        }
    }

    /// Answers what is under way, writes everything out and leaves a clean pool. Blocks.
    pub(crate) fn close(self) -> Result<()> {
        let count = self.threads.count();
        let ending: Vec<_> = (0..count)
            .map(|shard| {
                self.threads.call(shard, |thread| async move { end_connections(&thread).await })
            })
            .collect();
        for (answer, running) in ending.into_iter().zip(&self.running) {
            answer.blocking_recv().map_err(|_| shard_thread::died(running.shard))?;
        }
        let closed = self.on_each(|thread| async move { thread.stack.close().await }); // DAEMON-POOL-1
        // DAEMON-POOL-2. Those that closed are given back also when another did not.
        let given_back = self.on_each(|thread| async move { thread.stack.give_back().await });
        closed.into_iter().chain(given_back).collect::<Result<()>>()?;
        // The threads end with the last way to call them; a request of the admin API that was cut off may hold one yet.
        if Arc::into_inner(self.threads).is_some() {
            for RunningThread { shard, thread } in self.running {
                thread.join().map_err(|_| shard_thread::died(shard))?;
            }
        }
        Ok(())
    }

    /// Runs `work` on all threads at once, and waits for all. Blocks.
    fn on_each<F: Future<Output = Result<()>> + 'static>(
        &self,
        work: impl Fn(Rc<ShardThread<S>>) -> F + Copy + Send + 'static,
    ) -> Vec<Result<()>> {
        let answers: Vec<_> =
            (0..self.threads.count()).map(|shard| self.threads.call(shard, work)).collect();
        let ended = answers.into_iter().zip(&self.running).map(|(answer, running)| {
            answer.blocking_recv().map_err(|_| shard_thread::died(running.shard))?
        });
        ended.collect()
    }
}

/// Answers what is under way and closes the thread's connections.
async fn end_connections<S: ShardStack>(thread: &ShardThread<S>) {
    thread.nbd.shutdown().begin();
    let looks = 2 * DRAIN_TIMEOUT_MS * 1_000_000 / DRAIN_LOOK_NANOS;
    for _ in 0..looks {
        if thread.nbd.connections() == 0 {
            return;
        }
        thread.reactor.sleep(DRAIN_LOOK_NANOS).await;
    }
    tracing::warn!(connections = thread.nbd.connections(), "NBD connections cut off at shutdown");
}

#[cfg(test)]
mod tests;
