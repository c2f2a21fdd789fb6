//! This daemon as one of the nodes that can serve a pool on RADOS: it stands by until the table of nodes names it for a
//! cell, and keeps its beat while it serves.
//!
//! ```text
//!  join() ──stands by──▶ Serve(cell): the daemon opens the cell, serves it
//!                          ├─Close(cell)──▶ closes it ──gave(cell)──▶ the next node opens it
//!                          └─leave(), once it has closed all of them──▶ others open them
//! ```
//!
//! It takes clients all the time (`front`), and carries those of cells that others serve to them (`varve-relay`).
//!
//! NODE-1. A cell is opened only after the table named this node, with its beat in it, and the table lets go of it only
//!     after it was closed: so a clean end passes it on without a wait for leases. What keeps two nodes from writing it
//!     are the claims of its shards (RFC 0016), nothing else.
//! NODE-2. Beats have a thread of their own: neither the opening of a cell nor its load is taken for silence.
//! NODE-3. A node that stood by and was given up comes back as another one. One that had a cell ends with its daemon.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::select;
use tokio::sync::{mpsc, oneshot, watch};
use varve_client::{Failure, Result};
use varve_membership::{
    BEAT_NS, JoinRequest, Member, MemberState, Node, NodeAddress, NodeId, PLACE_BYTES_MAX,
    TableStore,
};
use varve_reactor::port::{PortReceiver, PortSender, channel};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_relay::{LinkLimits, NodeKey, View};
use varve_types::{CellId, ErrorKind, PoolId};

use crate::banner;
use crate::cell_front_ends::RelayListener;
use crate::config::Settings;
use crate::front::FrontEnds;
use crate::home::PoolLocation;
use crate::pool_media::PoolMedia;
use crate::rados::RadosMedia;
use crate::random::random_id;
use crate::s3::S3;

/// Pause before a table that another node has replaced is read again, in ns, at most.
const RETRY_NS_MAX: u64 = 20_000_000;

/// How long a node that ends tries to say so: others notice its silence in about that time.
const LEAVE_MAX: Duration = Duration::from_secs(10);

/// Words of the daemon that may wait: of each cell it gives one at a time.
const WORDS_WAITING_MAX: usize = CellId::COUNT_MAX as usize + 1;

/// Between two looks whether it has said so.
const LEAVE_PAUSE: Duration = Duration::from_millis(5);

/// A node that has joined.
pub(super) struct NodeHandle {
    words: PortSender<CellReport>,
    given_up: oneshot::Receiver<()>,
    news: mpsc::UnboundedReceiver<NodeEvent>,
    door: Arc<RelayListener>,
    joining: JoinRequest,
    /// News that came before there was a front.
    first: Option<NodeEvent>,
    /// Until this node ends.
    front: Option<FrontEnds>,
    thread: thread::JoinHandle<()>,
}

/// What the thread of the beats tells.
enum NodeEvent {
    /// Another node is to serve the first cell, there.
    StandsBy(String),
    /// What the daemon is to do.
    Do(CellCommand),
    /// It cannot take part.
    Failed(Failure),
}

/// What becomes of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CellCommand {
    /// This node is to open it, and to serve it.
    Serve(CellId),
    /// Another one is: it is to be closed, and then given.
    Close(CellId),
}

/// What the daemon tells.
enum CellReport {
    /// It has closed a cell.
    Gave(CellId),
    /// It has closed all of them, and ends.
    Leave,
}

/// Looks whether other machines can serve the pool, where the settings ask for nodes.
pub(super) fn check(settings: &Settings, home: &PoolLocation) -> Result<()> {
    if settings.rados.join && !home.is_reached_from_everywhere() {
        let what = "no other machine can serve this pool: it keeps data on drives of this one";
        return Err(Failure::misuse(what)
            .hint("leave out rados.join: it is for pools on RADOS with their journal there"));
    }
    Ok(())
}

/// Takes a seat among the pool's nodes and waits until the pool is this one's, where the settings ask for it. Clients
/// are taken by what `receive` makes, as soon as this node is one: while others serve the pool, they are carried there.
/// Blocks.
pub(super) fn join(
    settings: &Settings,
    media: &PoolMedia,
    receive: impl FnOnce(&RelayListener) -> Result<FrontEnds>,
) -> Result<Option<NodeHandle>> {
    let rados = match media {
        PoolMedia::Rados(rados) if settings.rados.join => rados,
        PoolMedia::Rados(_) | PoolMedia::Files(_) | PoolMedia::Redundant(_) => return Ok(None),
    };
    let mut seat = take_seat(settings, rados, receive)?;
    while seat.order()? != CellCommand::Serve(CellId::FIRST) {} // It has no other one.
    Ok(Some(seat))
}

/// Takes a seat among the pool's nodes. Clients are taken by what `receive` makes, from the first news on. Blocks.
pub(super) fn take_seat(
    settings: &Settings,
    rados: &Arc<RadosMedia>,
    receive: impl FnOnce(&RelayListener) -> Result<FrontEnds>,
) -> Result<NodeHandle> {
    let rados = Arc::clone(rados);
    let (sender, news) = mpsc::unbounded_channel();
    let (words, told) = std_mpsc::channel();
    let (ended, given_up) = oneshot::channel();
    let (shows, views) = watch::channel(View::default());
    let key = NodeKey::make().map_err(|error| Failure::new(error.to_string()))?;
    let reached = match settings.rados.listen {
        Some(address) if !address.ip().is_unspecified() => address.ip(),
        _ => rados.own_address()?,
    };
    let listen = settings.rados.listen.unwrap_or_else(|| SocketAddr::new(reached, 0));
    let cells = rados.spec().cell.cells;
    let joining = JoinRequest {
        pool: rados.whole(),
        cells,
        room: settings.rados_cells_max(cells),
        balances: settings.rados.balance,
    };
    let door = RelayListener::open(
        joining.pool,
        cells,
        key,
        listen,
        reached,
        views,
        LinkLimits::default(),
    )
    .map_err(|error| {
        Failure::new(error.to_string()).hint(
            "see whether another process holds the address, or choose another with rados.listen",
        )
    })?;
    let me = Me { joining, reach: door.reach(), shows };
    let thread = thread::Builder::new()
        .name("node".to_owned())
        .spawn(move || run(&rados, me, &sender, &words, ended))
        .map_err(|error| Failure::new(format!("start the thread of the node: {error}")))?;
    let words = told.recv().map_err(|_| died())??;
    let door = Arc::new(door);
    let mut seat =
        NodeHandle { words, given_up, news, door, joining, first: None, front: None, thread };
    let first = seat.news.blocking_recv().ok_or_else(died)?;
    let stands_by = match &first {
        NodeEvent::StandsBy(_) => true,
        NodeEvent::Do(_) => false,
        NodeEvent::Failed(_) => return seat.handle(first).map(|_| seat),
    };
    if stands_by {
        S3::check_key(settings)?;
    }
    seat.front = Some(receive(&seat.door)?);
    seat.first = Some(first);
    Ok(seat)
}

impl NodeHandle {
    /// What is to become of a cell; tells people, too, where the pool is served meanwhile, if it has one cell only.
    /// Blocks.
    fn order(&mut self) -> Result<CellCommand> {
        loop {
            let news = match self.first.take() {
                Some(first) => first,
                None => self.news.blocking_recv().ok_or_else(died)?,
            };
            if let Some(order) = self.handle(news)? {
                return Ok(order);
            }
        }
    }

    /// The same, without blocking anybody; an error once other nodes have given this one up.
    pub(super) async fn next_order(&mut self) -> Result<CellCommand> {
        loop {
            let news = match self.first.take() {
                Some(first) => first,
                None => tokio::select! {
                    biased;
                    failure = Self::gave_up(&mut self.given_up) => return Err(failure),
                    news = self.news.recv() => news.ok_or_else(died)?,
                },
            };
            if let Some(order) = self.handle(news)? {
                return Ok(order);
            }
        }
    }

    fn handle(&self, news: NodeEvent) -> Result<Option<CellCommand>> {
        match news {
            NodeEvent::StandsBy(owner) => {
                if self.joining.cells == 1 {
                    banner::print_standby(self.joining.pool, &owner);
                }
                Ok(None)
            }
            NodeEvent::Do(order) => Ok(Some(order)),
            NodeEvent::Failed(failure) => Err(failure),
        }
    }

    /// Where other nodes come in.
    pub(super) fn door(&self) -> &Arc<RelayListener> {
        &self.door
    }

    /// A cell was closed: the next node may open it.
    pub(super) fn release(&self, cell: CellId) {
        let _ = self.words.send(CellReport::Gave(cell)); // One that was given up needs no words.
    }

    /// What takes this node's clients.
    pub(super) fn front(&self) -> &FrontEnds {
        self.front.as_ref().expect("it is there until this node ends")
    }

    /// Takes no clients any more. Those that are served stay until their connections end.
    pub(super) fn close(&mut self) {
        self.front = None;
    }

    /// Resolves when the pool is another node's.
    pub(super) async fn given_up(&mut self) -> Failure {
        Self::gave_up(&mut self.given_up).await
    }

    async fn gave_up(given_up: &mut oneshot::Receiver<()>) -> Failure {
        if given_up.await.is_err() {
            return died();
        }
        Failure::new("other nodes have given this one up, and serve the pool")
            .hint("nothing acknowledged is lost. Start this daemon again, and it stands by")
    }

    /// Lets other nodes have the cells, which are closed (NODE-1). Blocks, for [`LEAVE_MAX`] at most.
    pub(super) fn leave(self) {
        // One that was given up takes no message any more, and has left.
        let _ = self.words.send(CellReport::Leave);
        let begin = Instant::now();
        while !self.thread.is_finished() {
            if begin.elapsed() > LEAVE_MAX {
                tracing::warn!(
                    "could not record in RADOS that this node leaves: others wait until it has been silent long enough"
                );
                return;
            }
            thread::sleep(LEAVE_PAUSE);
        }
        if self.thread.join().is_err() {
            tracing::warn!(
                "the thread of the node panicked: others wait until its silence is long enough"
            );
        }
    }
}

fn died() -> Failure {
    Failure::new("the thread of the node panicked")
        .hint("nothing acknowledged is lost; report the message above, then start again")
}

/// This node among the others.
struct Me {
    joining: JoinRequest,
    /// How others reach it.
    reach: NodeAddress,
    /// Shows others what the table says.
    shows: watch::Sender<View>,
}

/// The thread of the beats (NODE-2).
fn run(
    rados: &Arc<RadosMedia>,
    me: Me,
    news: &mpsc::UnboundedSender<NodeEvent>,
    words: &std_mpsc::Sender<Result<PortSender<CellReport>>>,
    given_up: oneshot::Sender<()>,
) {
    let mut event_loop = match Loop::new(LoopConfig::default()) {
        Ok(event_loop) => event_loop,
        Err(error) => {
            // Whoever waits for the way to it is told; nobody else is.
            let _ = words.send(Err(Failure::new(format!("start the loop of the node: {error}"))));
            return;
        }
    };
    let reactor = event_loop.handle();
    let (sender, said) = channel(&reactor, WORDS_WAITING_MAX);
    if words.send(Ok(sender)).is_err() {
        return;
    }
    let (news, rados) = (news.clone(), Arc::clone(rados));
    event_loop.run(async move {
        let opened = rados.pool().await.and_then(|pool| Heartbeat::new(reactor, pool.nodes(), me));
        let beats = match opened {
            Ok(beats) => beats,
            Err(failure) => {
                let _ = news.send(NodeEvent::Failed(failure));
                return;
            }
        };
        match beats.keep(said, &news).await {
            Ok(MemberState::GivenUp) => drop(given_up.send(())), // The daemon ends for it, or ends already.
            Ok(_) => {}
            Err(failure) => drop(news.send(NodeEvent::Failed(failure))),
        }
    });
}

/// A node's beats.
struct Heartbeat {
    reactor: Reactor,
    store: Rc<dyn TableStore>,
    member: Member,
    me: Me,
    /// Cells that the daemon was told to serve, and has not given; and those of them that it was told to close.
    serving: BTreeSet<CellId>,
    closing: BTreeSet<CellId>,
    /// Who was to serve the first cell when that was told last.
    owner_told: Option<Option<NodeId>>,
    /// It was logged that nodes of an earlier version are waited for.
    is_waiting: bool,
    /// The last attempt failed, and that was logged.
    is_failing: bool,
}

impl Heartbeat {
    fn new(reactor: Reactor, store: Rc<dyn TableStore>, me: Me) -> Result<Self> {
        Ok(Self {
            reactor,
            store,
            member: newcomer(&me)?,
            me,
            serving: BTreeSet::new(),
            closing: BTreeSet::new(),
            owner_told: None,
            is_waiting: false,
            is_failing: false,
        })
    }

    /// Shows what the table says now.
    fn show(&mut self) {
        if self.member.waits_for_earlier() && !std::mem::replace(&mut self.is_waiting, true) {
            tracing::warn!(
                "daemons of an earlier version have joined the pool: this one joins once they have ended"
            );
        }
        let standing = self.member.standing();
        let is_in = matches!(standing, MemberState::StandsBy | MemberState::Owner);
        let table = self.member.table();
        self.me.shows.send_replace(View {
            me: is_in.then(|| self.member.id()),
            version: table.map_or(0, |table| table.version),
            owners: table
                .map_or_else(Vec::new, |table| table.cells.iter().map(|cell| cell.owner).collect()),
            nodes: table.map_or_else(Vec::new, |table| {
                table.nodes.iter().map(|entry| entry.node.clone()).collect()
            }),
        });
    }

    /// Beats until the node has left, or was given up while it had a cell; says which.
    async fn keep(
        mut self,
        mut words: PortReceiver<CellReport>,
        news: &mpsc::UnboundedSender<NodeEvent>,
    ) -> Result<MemberState> {
        loop {
            let was_stored = self.try_beat().await?;
            self.show();
            match self.member.standing() {
                MemberState::Left => return Ok(MemberState::Left),
                MemberState::GivenUp if !self.serving.is_empty() => {
                    return Ok(MemberState::GivenUp);
                }
                MemberState::GivenUp => {
                    self.member = newcomer(&self.me)?; // NODE-3
                    self.owner_told = None;
                }
                MemberState::StandsBy | MemberState::Owner if was_stored => self.tell(news), // NODE-1
                MemberState::StandsBy | MemberState::Owner | MemberState::Outside => {}
            }
            let pause_ns = if was_stored || self.is_failing {
                BEAT_NS
            } else {
                self.reactor.random_u64() % RETRY_NS_MAX
            };
            let mut said = Vec::new();
            let saying = Box::pin(words.recv_batch(&mut said));
            drop(select(saying, self.reactor.sleep(pause_ns)).await);
            for word in said {
                match word {
                    CellReport::Leave => self.member.leave(),
                    CellReport::Gave(cell) => {
                        self.member.release(cell);
                        self.serving.remove(&cell);
                        self.closing.remove(&cell);
                    }
                }
            }
        }
    }

    /// Tells the daemon what is to become of cells, and who serves the first one. Nobody listens any more once the
    /// daemon ends.
    fn tell(&mut self, news: &mpsc::UnboundedSender<NodeEvent>) {
        let owner = self.member.owner(CellId::FIRST);
        if self.owner_told != Some(owner.map(|owner| owner.id)) {
            self.owner_told = Some(owner.map(|owner| owner.id));
            if owner.is_none_or(|owner| owner.id != self.member.id()) {
                let place = owner.map(|owner| owner.place.clone());
                let _ = news.send(NodeEvent::StandsBy(place.unwrap_or_default()));
            }
        }
        for cell in self.member.serves() {
            if self.serving.insert(cell) {
                let _ = news.send(NodeEvent::Do(CellCommand::Serve(cell)));
            }
        }
        for cell in self.member.moves() {
            if self.serving.contains(&cell) && self.closing.insert(cell) {
                let _ = news.send(NodeEvent::Do(CellCommand::Close(cell)));
            }
        }
    }

    /// Reads the table and replaces it; says whether it did. What others may mend is tried again, also what is wrong
    /// with a table while this node serves.
    async fn try_beat(&mut self) -> Result<bool> {
        match self.beat().await {
            Ok(was_stored) => {
                self.is_failing = false;
                Ok(was_stored)
            }
            Err(error) => {
                let is_senseless = matches!(
                    error.kind(),
                    ErrorKind::Corrupt | ErrorKind::Unsupported | ErrorKind::Conflict
                );
                if is_senseless && self.serving.is_empty() {
                    return Err(Failure::new(format!("join the pool's nodes: {error}"))
                        .hint("once no node serves the pool, its object that ends in .nodes may be removed from the metadata pool: it holds no data"));
                }
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "no beat: other nodes may take over");
                }
                Ok(false)
            }
        }
    }

    async fn beat(&mut self) -> varve_membership::Result<bool> {
        let found = self.store.read().await?;
        self.member.observe(found, self.reactor.boot_time().0)?;
        let Some(table) = self.member.proposal()? else { return Ok(true) };
        let was_stored = self.store.replace(table.clone()).await?;
        if was_stored {
            self.member.accepted(table);
        } else {
            self.member.refused();
        }
        Ok(was_stored)
    }
}

/// A node that was never there before.
fn newcomer(me: &Me) -> Result<Member> {
    let PoolId(id) = random_id()?;
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut place = format!("{}, process {}", machine.trim(), std::process::id());
    place.truncate(PLACE_BYTES_MAX);
    let node = Node { id: NodeId(u128::from_le_bytes(id)), place, reach: Some(me.reach) };
    Member::new(node, me.joining).map_err(|error| Failure::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use varve_membership::{Fingerprint, MemberTable, MemoryTable};
    use varve_reactor::{JoinHandle, SimLoop};
    use varve_relay::Views;

    use super::*;

    const POOL: PoolId = PoolId([7; 16]);
    const SECOND_NS: u64 = 1_000_000_000;

    struct Seat {
        words: PortSender<CellReport>,
        news: mpsc::UnboundedReceiver<NodeEvent>,
        views: Views,
        ended: JoinHandle<Result<MemberState>>,
    }

    impl Seat {
        async fn take(reactor: &Reactor, store: &MemoryTable) -> Self {
            Self::join(reactor, store, JoinRequest::whole(POOL)).await
        }

        async fn join(reactor: &Reactor, store: &MemoryTable, joining: JoinRequest) -> Self {
            let (words, said) = channel(reactor, WORDS_WAITING_MAX);
            let (sender, news) = mpsc::unbounded_channel();
            let (shows, views) = watch::channel(View::default());
            let fingerprint = Fingerprint([1; 32]);
            let reach = NodeAddress::new("127.0.0.1:1".parse().unwrap(), fingerprint);
            let me = Me { joining, reach, shows };
            let beats = Heartbeat::new(reactor.clone(), Rc::new(store.clone()), me).unwrap();
            let ended = reactor.spawn_join(async move { beats.keep(said, &sender).await });
            reactor.sleep(SECOND_NS).await;
            Self { words, news, views, ended }
        }

        /// Orders since the last look.
        fn orders(&mut self) -> Vec<CellCommand> {
            let news = std::iter::from_fn(|| self.news.try_recv().ok());
            let order = |news| if let NodeEvent::Do(order) = news { Some(order) } else { None };
            news.filter_map(order).collect()
        }

        fn was_told(&mut self) -> &'static str {
            match std::iter::from_fn(|| self.news.try_recv().ok()).last() {
                Some(NodeEvent::StandsBy(_)) => "stands by",
                Some(NodeEvent::Do(order)) => {
                    assert_eq!(order, CellCommand::Serve(CellId::FIRST));
                    "owner"
                }
                Some(NodeEvent::Failed(_)) => "failed",
                None => "nothing",
            }
        }
    }

    /// Changes the table as other nodes may.
    async fn change(store: &MemoryTable, change: impl Fn(&mut MemberTable)) {
        let mut table = store.read().await.unwrap().unwrap();
        table.version += 1;
        change(&mut table);
        assert!(store.replace(table).await.unwrap());
    }

    #[test]
    fn the_pool_goes_from_one_to_the_next() {
        let mut sim = SimLoop::new(1);
        let reactor = sim.handle();
        sim.run_until(async move {
            let store = MemoryTable::default();
            let mut one = Seat::take(&reactor, &store).await;
            let mut next = Seat::take(&reactor, &store).await;
            let mut last = Seat::take(&reactor, &store).await;
            assert_eq!((one.was_told(), next.was_told()), ("owner", "stands by"));
            assert_eq!(last.was_told(), "stands by");
            reactor.sleep(SECOND_NS).await;
            assert_eq!(one.views.borrow().standing_by(CellId::FIRST).len(), 2);
            one.words.send(CellReport::Leave).ok().unwrap();
            reactor.sleep(SECOND_NS).await;
            assert_eq!(one.ended.await.unwrap(), MemberState::Left);
            assert_eq!((next.was_told(), last.was_told()), ("owner", "stands by"));
            assert_eq!(next.views.borrow().standing_by(CellId::FIRST).len(), 1);
        });
    }

    #[test]
    fn who_is_given_up_comes_back_if_it_stood_by_and_ends_if_it_served() {
        let mut sim = SimLoop::new(2);
        let reactor = sim.handle();
        sim.run_until(async move {
            let store = MemoryTable::default();
            let one = Seat::take(&reactor, &store).await;
            let mut other = Seat::take(&reactor, &store).await;
            let first = store.read().await.unwrap().unwrap().nodes[1].node.id;
            change(&store, |table| table.nodes.truncate(1)).await;
            reactor.sleep(SECOND_NS).await;
            let again = store.read().await.unwrap().unwrap();
            assert!(again.nodes.len() == 2 && again.node(first).is_none(), "NODE-3: {again:?}");
            assert_eq!(other.was_told(), "stands by");
            change(&store, |table| {
                table.nodes.remove(0);
                table.cells[0].owner = Some(table.nodes[0].node.id);
            })
            .await;
            reactor.sleep(SECOND_NS).await;
            assert_eq!(one.ended.await.unwrap(), MemberState::GivenUp);
            assert_eq!(other.was_told(), "owner");
        });
    }

    #[test]
    fn a_table_that_makes_no_sense_ends_who_joins_and_not_who_serves() {
        let mut sim = SimLoop::new(3);
        let reactor = sim.handle();
        sim.run_until(async move {
            let store = MemoryTable::default();
            let mut one = Seat::take(&reactor, &store).await;
            assert_eq!(one.was_told(), "owner");
            change(&store, |table| table.pool = PoolId([8; 16])).await;
            let other = Seat::take(&reactor, &store).await;
            assert!(other.ended.await.is_err());
            assert!(one.ended.try_take().is_none(), "it serves");
        });
    }

    #[test]
    fn cells_are_served_closed_and_given_one_by_one() {
        let mut sim = SimLoop::new(4);
        let reactor = sim.handle();
        sim.run_until(async move {
            let store = MemoryTable::default();
            let joining = JoinRequest { pool: POOL, cells: 3, room: 3, balances: true };
            let mut one = Seat::join(&reactor, &store, joining).await;
            let served = (0..3).map(|cell| CellCommand::Serve(CellId(cell))).collect::<Vec<_>>();
            assert_eq!(one.orders(), served);
            let mut two = Seat::join(&reactor, &store, joining).await;
            reactor.sleep(15 * SECOND_NS).await;
            assert_eq!(one.orders(), [CellCommand::Close(CellId(2))]);
            assert_eq!(two.orders(), [], "it is served yet");
            one.words.send(CellReport::Gave(CellId(2))).ok().unwrap();
            reactor.sleep(2 * SECOND_NS).await;
            assert_eq!(two.orders(), [CellCommand::Serve(CellId(2))]);
            assert_eq!(one.orders(), [], "two and one are near enough");
            one.words.send(CellReport::Leave).ok().unwrap();
            reactor.sleep(2 * SECOND_NS).await;
            assert_eq!(
                two.orders(),
                [CellCommand::Serve(CellId(0)), CellCommand::Serve(CellId(1))]
            );
            assert_eq!(one.ended.await.unwrap(), MemberState::Left);
        });
    }
}
