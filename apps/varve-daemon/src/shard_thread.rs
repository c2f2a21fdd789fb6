//! A shard thread: its loop, its stack, its NBD connections, and the calls that the control thread sends it.
//!
//! SHARD-THREAD-1: threads start in two steps, as each needs ways to all others before it opens its shard: all make
//! their ports, then all are given all of them.
//! SHARD-THREAD-2: a thread runs until every way to call it is gone. One that ends earlier has panicked, and the daemon
//!     ends with it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

use varve_access_nbd::{Service, ServiceOptions, WorkHandoff, serve_connections};
use varve_client::{Failure, Result};
use varve_reactor::port::{self, PortReceiver, PortSender};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_types::ShardId;

use crate::event_loop;
use crate::stack::{ShardStack, ThreadContext};

/// Calls that may wait for a thread: a few for each of the admin API's connections.
const CALLS_MAX: usize = 256;

/// Accepted connections that may wait for a thread: as many as the system's listen queue holds by default.
const CONNECTIONS_WAITING_MAX: usize = 128;

/// Work for a shard thread.
pub(crate) type Call<S> = Box<dyn FnOnce(Rc<ShardThread<S>>) -> LocalFuture + Send>;

/// A future that stays on its thread.
pub(crate) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// What calls find on their thread.
pub(crate) struct ShardThread<S: ShardStack> {
    pub(crate) reactor: Reactor,
    pub(crate) stack: S,
    pub(crate) nbd: Service<S::Exports>,
}

/// The ways to a thread.
pub(crate) struct Doors<S: ShardStack> {
    pub(crate) calls: PortSender<Call<S>>,
    pub(crate) connections: PortSender<WorkHandoff>,
    /// To the stack below.
    pub(crate) stack: S::Door,
}

/// A thread that has made its ports and waits for those of the others (SHARD-THREAD-1).
pub(crate) struct StartingThread<S: ShardStack> {
    pub(crate) doors: Doors<S>,
    shard: ShardId,
    peers: mpsc::Sender<Vec<S::Door>>,
    opened: mpsc::Receiver<Result<Option<Failure>>>,
    thread: thread::JoinHandle<()>,
}

/// A thread whose shard is open.
pub(crate) struct RunningThread {
    pub(crate) shard: ShardId,
    pub(crate) thread: thread::JoinHandle<()>,
}

/// What a thread needs to start.
pub(crate) struct Start<S: ShardStack> {
    pub(crate) shard: ShardId,
    pub(crate) source: S::Source,
    pub(crate) nbd: ServiceOptions,
    /// Dropped when the thread ends, however it ends (SHARD-THREAD-2).
    pub(crate) alive: Alive,
}

/// Why a shard is not served any more.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ThreadEnd {
    /// Its thread ended by itself.
    Died(ShardId),
    /// Another process has it.
    Lost(ShardId),
}

/// Tells when its thread has ended, or lost its shard.
pub(crate) struct Alive {
    pub(crate) shard: ShardId,
    pub(crate) ended: tokio::sync::mpsc::Sender<ThreadEnd>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        // There is room for every thread; a daemon that is gone need not be told.
        let _ = self.ended.try_send(ThreadEnd::Died(self.shard));
    }
}

/// What a thread reports back while it starts.
struct Reports<S: ShardStack> {
    doors: mpsc::Sender<io::Result<Doors<S>>>,
    /// With why the shard does not serve, when it is damaged or cannot be read.
    opened: mpsc::Sender<Result<Option<Failure>>>,
}

/// The first step (SHARD-THREAD-1).
pub(crate) fn start<S: ShardStack>(start: Start<S>) -> Result<StartingThread<S>> {
    let shard = start.shard;
    let failed =
        |error| event_loop::failure(&error).within(&format!("start the thread of shard {shard}"));
    let (doors_sender, doors) = mpsc::channel();
    let (opened_sender, opened) = mpsc::channel();
    let (peers, peers_receiver) = mpsc::channel();
    let reports = Reports { doors: doors_sender, opened: opened_sender };
    let thread = thread::Builder::new()
        .name(format!("shard-{shard}"))
        .spawn(move || run(start, reports, &peers_receiver))
        .map_err(failed)?;
    let doors = doors.recv().map_err(|_| died(shard))?.map_err(failed)?;
    Ok(StartingThread { doors, shard, peers, opened, thread })
}

/// The second step (SHARD-THREAD-1), for all threads at once: their shards recover side by side. One that serves
/// suffices.
pub(crate) fn open<S: ShardStack>(
    starting: Vec<StartingThread<S>>,
) -> Result<(Vec<Doors<S>>, Vec<RunningThread>)> {
    let doors: Vec<_> = starting.iter().map(|thread| thread.doors.stack.clone()).collect();
    for thread in &starting {
        thread.peers.send(doors.clone()).map_err(|_| died(thread.shard))?;
    }
    let (mut doors, mut running, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
    for thread in starting {
        refusals.push(thread.opened.recv().map_err(|_| died(thread.shard))??);
        doors.push(thread.doors);
        running.push(RunningThread { shard: thread.shard, thread: thread.thread });
    }
    if refusals.iter().all(Option::is_some)
        && let Some(refusal) = refusals.into_iter().flatten().next()
    {
        return Err(refusal);
    }
    Ok((doors, running))
}

impl ThreadEnd {
    /// The message for the daemon's end.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::Died(shard) => died(shard),
            Self::Lost(shard) => {
                Failure::new(format!("another process has taken shard {shard} over"))
                    .hint("nothing acknowledged is lost; who has it serves it. Start this daemon again only to take it back, or, with rados.join, to stand by")
            }
        }
    }
}

/// The message for a thread that panicked; the panic itself is on standard error.
pub(crate) fn died(shard: ShardId) -> Failure {
    Failure::new(format!("the thread of shard {shard} panicked"))
        .hint("nothing acknowledged is lost; report the message above, then start again, which recovers the pool")
}

fn run<S: ShardStack>(start: Start<S>, reports: Reports<S>, peers: &mpsc::Receiver<Vec<S::Door>>) {
    let mut event_loop = match Loop::new(LoopConfig::default()) {
        Ok(event_loop) => event_loop,
        Err(error) => {
            // Whoever waits for the doors is told; nobody else is.
            let _ = reports.doors.send(Err(error));
            return;
        }
    };
    let reactor = event_loop.handle();
    let (calls, called) = port::channel(&reactor, CALLS_MAX);
    let (connections, dealt) = port::channel(&reactor, CONNECTIONS_WAITING_MAX);
    let (stack, inbox) = S::doors(&reactor);
    if reports.doors.send(Ok(Doors { calls, connections, stack })).is_err() {
        return;
    }
    // No peers: another thread could not start.
    let Ok(peers) = peers.recv() else { return };
    let Start { shard, source, nbd, alive } = start;
    let ended = alive.ended.clone();
    event_loop.run(async move {
        let seat = ThreadContext { reactor: reactor.clone(), shard, source, peers, inbox };
        let stack = match S::open(seat).await {
            Ok(stack) => stack,
            Err(failure) => {
                let _ = reports.opened.send(Err(failure));
                return;
            }
        };
        let nbd = Service::new(reactor.clone(), stack.exports(), nbd);
        reactor.spawn(serve_connections(nbd.clone(), dealt));
        let thread = Rc::new(ShardThread { reactor, stack, nbd });
        let watched = Rc::clone(&thread);
        thread.reactor.spawn(async move {
            watched.stack.lost().await;
            // The daemon ends for it, or ends already.
            let _ = ended.try_send(ThreadEnd::Lost(shard));
        });
        if reports.opened.send(Ok(thread.stack.refusal())).is_ok() {
            answer(thread, called).await;
        }
    });
}

/// Answers calls, many at a time, until nobody can call any more (SHARD-THREAD-2).
async fn answer<S: ShardStack>(thread: Rc<ShardThread<S>>, mut called: PortReceiver<Call<S>>) {
    let mut batch = Vec::new();
    while called.recv_batch(&mut batch).await > 0 {
        for call in batch.drain(..) {
            thread.reactor.spawn(call(Rc::clone(&thread)));
        }
    }
}
