//! This daemon as one of the nodes that can serve a pool on RADOS: it stands by until the table of nodes names it, and keeps its beat while it serves.
//!
//! ```text
//!  join() ──stands by──▶ owner: the daemon opens the pool, serves it, closes it ──leave()──▶ left: the next node opens it
//! ```
//!
//! It takes clients all the time (`front`), and while it stands by it carries them to the node that serves (`links`).
//!
//! N1. The pool is opened only after the table named this node, with its beat in it, and the table lets go of it only after the pool was closed: so a
//!     clean end passes it on without a wait for leases. What keeps two nodes from writing it are the claims of its shards (RFC 0016), nothing else.
//! N2. Beats have a thread of their own: neither the opening of the pool nor its load is taken for silence.
//! N3. A node that stood by and was given up comes back as another one. One that had the pool ends with its daemon.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use tokio::sync::{oneshot, watch};
use varve_media_rados::RadosPool;
use varve_membership::{
    BEAT_NS, Joining, Member, Node, NodeId, PLACE_BYTES_MAX, Reach, Standing, TableStore,
};
use varve_reactor::port::{PortReceiver, PortSender, channel};
use varve_reactor::{Loop, LoopConfig, Reactor};
use varve_types::{CellId, ErrorKind, PoolId};

use crate::config::Settings;
use crate::daemon::banner;
use crate::daemon::files::random_id;
use crate::daemon::front::Front;
use crate::daemon::home::Home;
use crate::daemon::links::{Door, LinkLimits, NodeKey, View};
use crate::daemon::pool_media::PoolMedia;
use crate::daemon::rados::RadosMedia;
use crate::daemon::s3::S3;
use crate::failure::{Failure, Result};

/// Pause before a table that another node has replaced is read again, in ns, at most.
const RETRY_NS_MAX: u64 = 20_000_000;

/// How long a node that ends tries to say so: others notice its silence in about that time.
const LEAVE_MAX: Duration = Duration::from_secs(10);

/// Between two looks whether it has said so.
const LEAVE_PAUSE: Duration = Duration::from_millis(5);

/// A node that is to serve the pool.
pub(super) struct NodeSeat {
    leave: PortSender<()>,
    given_up: oneshot::Receiver<()>,
    door: Door,
    /// Until this node ends.
    front: Option<Front>,
    thread: thread::JoinHandle<()>,
}

/// What the thread of the beats tells.
enum News {
    /// Another node is to serve the pool, there.
    StandsBy(String),
    /// This one is.
    Owner,
    /// It cannot take part.
    Failed(Failure),
}

/// Looks whether other machines can serve the pool, where the settings ask for nodes.
pub(super) fn check(settings: &Settings, home: &Home) -> Result<()> {
    if settings.rados_join && !home.is_reached_from_everywhere() {
        let what = "no other machine can serve this pool: it keeps data on drives of this one";
        return Err(Failure::misuse(what)
            .hint("leave out rados.join: it is for pools on RADOS with their journal there"));
    }
    Ok(())
}

/// Takes a seat among the pool's nodes and waits until the pool is this one's, where the settings ask for it. Clients are taken by what `receive` makes, as soon as
/// this node is one: while others serve the pool, they are carried there. Blocks.
pub(super) fn join(
    settings: &Settings,
    media: &PoolMedia,
    receive: impl FnOnce(&Door) -> Result<Front>,
) -> Result<Option<NodeSeat>> {
    let rados = match media {
        PoolMedia::Rados(rados) if settings.rados_join => Arc::clone(rados),
        PoolMedia::Rados(_) | PoolMedia::Files(_) => return Ok(None),
    };
    let pool = media.pool();
    let (sender, news) = mpsc::channel();
    let (doors, door) = mpsc::channel();
    let (ended, given_up) = oneshot::channel();
    let (shows, views) = watch::channel(View::default());
    let key = NodeKey::make()?;
    let reached = match settings.rados_listen {
        Some(address) if !address.ip().is_unspecified() => address.ip(),
        _ => rados.own_address()?,
    };
    let listen = settings.rados_listen.unwrap_or_else(|| SocketAddr::new(reached, 0));
    let links = Door::open(pool, key, listen, reached, views, LinkLimits::default())?;
    let reach = links.reach();
    let thread = thread::Builder::new()
        .name("node".to_owned())
        .spawn(move || run(rados, (reach, shows), &sender, &doors, ended))
        .map_err(|error| Failure::new(format!("start the thread of the node: {error}")))?;
    let leave = door.recv().map_err(|_| died())??;
    let mut seat = NodeSeat { leave, given_up, door: links, front: None, thread };
    let mut receive = Some(receive);
    loop {
        let told = news.recv().map_err(|_| died())?;
        if matches!(told, News::StandsBy(_)) {
            S3::check_key(settings)?;
        }
        if let (News::StandsBy(_) | News::Owner, Some(receive)) = (&told, receive.take()) {
            seat.front = Some(receive(&seat.door)?);
        }
        match told {
            News::StandsBy(owner) => banner::print_standby(pool, &owner),
            News::Owner => return Ok(Some(seat)),
            News::Failed(failure) => return Err(failure),
        }
    }
}

impl NodeSeat {
    /// Where other nodes come in.
    pub(super) fn door(&self) -> &Door {
        &self.door
    }

    /// What takes this node's clients.
    pub(super) fn front(&self) -> &Front {
        self.front.as_ref().expect("it is there until this node ends")
    }

    /// Takes no clients any more, and none of other nodes. Those that are served stay until their connections end.
    pub(super) fn close(&mut self) {
        self.front = None;
        self.door.close();
    }

    /// Resolves when the pool is another node's.
    pub(super) async fn given_up(&mut self) -> Failure {
        if (&mut self.given_up).await.is_err() {
            return died();
        }
        Failure::new("other nodes have given this one up, and serve the pool")
            .hint("nothing acknowledged is lost. Start this daemon again, and it stands by")
    }

    /// Lets the next node have the pool, which is closed (N1). Blocks, for [`LEAVE_MAX`] at most.
    pub(super) fn leave(self) {
        // One that was given up takes no message any more, and has left.
        let _ = self.leave.send(());
        let begin = Instant::now();
        while !self.thread.is_finished() {
            if begin.elapsed() > LEAVE_MAX {
                tracing::warn!(
                    "RADOS was not to be told that this node leaves: others wait until its silence is long enough"
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

/// The thread of the beats (N2).
fn run(
    rados: Arc<RadosMedia>,
    (reach, shows): (Reach, watch::Sender<View>),
    news: &mpsc::Sender<News>,
    doors: &mpsc::Sender<Result<PortSender<()>>>,
    given_up: oneshot::Sender<()>,
) {
    let mut event_loop = match Loop::new(LoopConfig::default()) {
        Ok(event_loop) => event_loop,
        Err(error) => {
            // Whoever waits for the door is told; nobody else is.
            let _ = doors.send(Err(Failure::new(format!("start the loop of the node: {error}"))));
            return;
        }
    };
    let reactor = event_loop.handle();
    let (leave, wants_to_leave) = channel(&reactor, 1);
    if doors.send(Ok(leave)).is_err() {
        return;
    }
    let news = news.clone();
    event_loop.run(async move {
        let opened = rados.pool().await.and_then(|pool| Beats::new(reactor, &pool, reach, shows));
        let beats = match opened {
            Ok(beats) => beats,
            Err(failure) => {
                let _ = news.send(News::Failed(failure));
                return;
            }
        };
        match beats.keep(wants_to_leave, &news).await {
            Ok(Standing::GivenUp) => drop(given_up.send(())), // The daemon ends for it, or ends already.
            Ok(_) => {}
            Err(failure) => drop(news.send(News::Failed(failure))),
        }
    });
}

/// A node's beats.
struct Beats {
    reactor: Reactor,
    pool: PoolId,
    store: Rc<dyn TableStore>,
    member: Member,
    /// How others reach this node.
    reach: Reach,
    /// Shows others what the table says.
    shows: watch::Sender<View>,
    /// It was logged that nodes of an earlier version are waited for.
    is_waiting: bool,
    /// The last attempt failed, and that was logged.
    is_failing: bool,
}

impl Beats {
    fn new(
        reactor: Reactor,
        pool: &RadosPool,
        reach: Reach,
        shows: watch::Sender<View>,
    ) -> Result<Self> {
        let (id, store) = (pool.spec().pool, pool.nodes());
        let member = newcomer(id, reach)?;
        let (is_waiting, is_failing) = (false, false);
        Ok(Self { reactor, pool: id, store, member, reach, shows, is_waiting, is_failing })
    }

    /// Shows what the table says now.
    fn show(&mut self) {
        if self.member.waits_for_earlier() && !std::mem::replace(&mut self.is_waiting, true) {
            tracing::warn!(
                "daemons of an earlier version have joined the pool: this one joins once they have ended"
            );
        }
        let standing = self.member.standing();
        let is_in = matches!(standing, Standing::StandsBy | Standing::Owner);
        let table = self.member.table();
        self.shows.send_replace(View {
            me: is_in.then(|| self.member.id()),
            version: table.map_or(0, |table| table.version),
            owner: table.and_then(|table| table.owner(CellId::FIRST)),
            nodes: table.map_or_else(Vec::new, |table| {
                table.nodes.iter().map(|entry| entry.node.clone()).collect()
            }),
        });
    }

    /// Beats until the node has left, or was given up while it had the pool; says which.
    async fn keep(
        mut self,
        mut wants_to_leave: PortReceiver<()>,
        news: &mpsc::Sender<News>,
    ) -> Result<Standing> {
        let mut told: Option<Option<NodeId>> = None;
        loop {
            let was_stored = self.try_beat(told == Some(Some(self.member.id()))).await?;
            self.show();
            let (id, standing) = (self.member.id(), self.member.standing());
            let owner = self.member.owner(CellId::FIRST).map(|owner| owner.id);
            match standing {
                Standing::Left => return Ok(standing),
                Standing::GivenUp if told == Some(Some(id)) => return Ok(standing),
                Standing::GivenUp => {
                    self.member = newcomer(self.pool, self.reach)?; // N3
                }
                Standing::Owner if !was_stored || told == Some(owner) => {} // N1
                Standing::StandsBy if told == Some(owner) => {}
                Standing::Owner => {
                    told = Some(owner);
                    let _ = news.send(News::Owner); // Who asked has gone with the daemon.
                }
                Standing::StandsBy => {
                    told = Some(owner);
                    let owner = self.member.owner(CellId::FIRST);
                    let place = owner.map(|owner| owner.place.clone());
                    let _ = news.send(News::StandsBy(place.unwrap_or_default()));
                }
                Standing::Outside => {}
            }
            let pause_ns = if was_stored || self.is_failing {
                BEAT_NS
            } else {
                self.reactor.random_u64() % RETRY_NS_MAX
            };
            let mut left = Vec::new();
            let leaving = Box::pin(wants_to_leave.recv_batch(&mut left));
            if let Either::Left(_) = select(leaving, self.reactor.sleep(pause_ns)).await {
                self.member.leave();
            }
        }
    }

    /// Reads the table and replaces it; says whether it did. What others may mend is tried again, also what is wrong with a table while this node serves.
    async fn try_beat(&mut self, is_serving: bool) -> Result<bool> {
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
                if is_senseless && !is_serving {
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
        self.member.saw(found, self.reactor.boot_time().0)?;
        let Some(table) = self.member.proposal()? else { return Ok(true) };
        let was_stored = self.store.replace(table.clone()).await?;
        if was_stored {
            self.member.accepted(table);
        }
        Ok(was_stored)
    }
}

/// A node that was never there before.
fn newcomer(pool: PoolId, reach: Reach) -> Result<Member> {
    let PoolId(id) = random_id()?;
    let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let mut place = format!("{}, process {}", machine.trim(), std::process::id());
    place.truncate(PLACE_BYTES_MAX);
    let node = Node { id: NodeId(u128::from_le_bytes(id)), place, reach: Some(reach) };
    Member::new(node, Joining::whole(pool)).map_err(|error| Failure::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use varve_membership::{Fingerprint, MemoryTable, Table};
    use varve_reactor::{JoinHandle, SimLoop};

    use super::*;
    use crate::daemon::links::Views;

    const POOL: PoolId = PoolId([7; 16]);
    const SECOND_NS: u64 = 1_000_000_000;

    struct Seat {
        leave: PortSender<()>,
        news: mpsc::Receiver<News>,
        views: Views,
        ended: JoinHandle<Result<Standing>>,
    }

    impl Seat {
        async fn take(reactor: &Reactor, store: &MemoryTable) -> Self {
            let (leave, wants_to_leave) = channel(reactor, 1);
            let (sender, news) = mpsc::channel();
            let (shows, views) = watch::channel(View::default());
            let fingerprint = Fingerprint([1; 32]);
            let reach = Reach::new("127.0.0.1:1".parse().unwrap(), fingerprint);
            let beats = Beats {
                reactor: reactor.clone(),
                pool: POOL,
                store: Rc::new(store.clone()),
                member: newcomer(POOL, reach).unwrap(),
                reach,
                shows,
                is_waiting: false,
                is_failing: false,
            };
            let ended =
                reactor.spawn_join(async move { beats.keep(wants_to_leave, &sender).await });
            reactor.sleep(SECOND_NS).await;
            Self { leave, news, views, ended }
        }

        fn was_told(&self) -> &'static str {
            match self.news.try_iter().last() {
                Some(News::StandsBy(_)) => "stands by",
                Some(News::Owner) => "owner",
                Some(News::Failed(_)) => "failed",
                None => "nothing",
            }
        }
    }

    /// Changes the table as other nodes may.
    async fn change(store: &MemoryTable, change: impl Fn(&mut Table)) {
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
            let one = Seat::take(&reactor, &store).await;
            let next = Seat::take(&reactor, &store).await;
            let last = Seat::take(&reactor, &store).await;
            assert_eq!((one.was_told(), next.was_told()), ("owner", "stands by"));
            assert_eq!(last.was_told(), "stands by");
            reactor.sleep(SECOND_NS).await;
            assert_eq!(one.views.borrow().standing_by().len(), 2);
            one.leave.send(()).unwrap();
            reactor.sleep(SECOND_NS).await;
            assert_eq!(one.ended.await.unwrap(), Standing::Left);
            assert_eq!((next.was_told(), last.was_told()), ("owner", "stands by"));
            assert_eq!(next.views.borrow().standing_by().len(), 1);
        });
    }

    #[test]
    fn who_is_given_up_comes_back_if_it_stood_by_and_ends_if_it_served() {
        let mut sim = SimLoop::new(2);
        let reactor = sim.handle();
        sim.run_until(async move {
            let store = MemoryTable::default();
            let one = Seat::take(&reactor, &store).await;
            let other = Seat::take(&reactor, &store).await;
            let first = store.read().await.unwrap().unwrap().nodes[1].node.id;
            change(&store, |table| table.nodes.truncate(1)).await;
            reactor.sleep(SECOND_NS).await;
            let again = store.read().await.unwrap().unwrap();
            assert!(again.nodes.len() == 2 && again.node(first).is_none(), "N3: {again:?}");
            assert_eq!(other.was_told(), "stands by");
            change(&store, |table| {
                table.nodes.remove(0);
                table.cells[0].owner = Some(table.nodes[0].node.id);
            })
            .await;
            reactor.sleep(SECOND_NS).await;
            assert_eq!(one.ended.await.unwrap(), Standing::GivenUp);
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
}
