//! One node's shards: opens and closes them as the table of nodes says, and keeps the node in the table.
//!
//! ```text
//!  every half second: read the table ──▶ Member ──▶ replace it; open, close or drop shards, each in a task of its own
//! ```
//!
//! K1. A shard is opened under a claim of its own, however often it is to be: nothing of an earlier claim is used again.
//! K2. A shard is passed on once its closing has ended. Where its claim could not be given back, the next owner waits for the lease.
//! K3. A shard that the table takes away is dropped at once; its claim is lost already, or will be.
//! K4. After a claim the table is read again, before any request is begun: every departure that a former owner knew of while it could write is known (F5).
//!     A node that is not in that table does not serve what it claimed, its own clients neither: others, who know that it has gone, may have answered
//!     later requests of theirs before it took the shard back.
//! K5. What ends of an earlier claim of a shard changes nothing of a later one.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_channel::oneshot;
use futures_util::future::{Either, LocalBoxFuture, select};
use varve_engine::ShardConfig;
use varve_engine::planted::{Bug, planted};
use varve_media::Media;
use varve_membership::{BEAT_NS, Member, NodeId, Orders, Standing, Table, TableStore};
use varve_reactor::{Notify, Reactor};
use varve_types::ShardId;

use crate::host::{HostConfig, ShardHost};
use crate::nodes::Admission;
use crate::zones::PoolRoot;
use crate::{Dispatch, Error, Result};

/// Pause before a table that others have replaced is read again, in ns, at most.
const RETRY_NS_MAX: u64 = 20_000_000;

/// A shard that was claimed.
pub struct Claimed {
    /// What its thread works with.
    pub media: Media,
    /// The epoch of the claim.
    pub epoch: u64,
    /// Its way to the pool's root.
    pub root: PoolRoot,
    /// What it is told.
    pub shard: ShardConfig,
}

/// Claims shards.
pub trait ShardSource {
    /// Takes a shard over from whoever has it.
    fn claim(&self, shard: ShardId) -> LocalBoxFuture<'static, Result<Claimed>>;
}

/// What a keeper works with.
pub struct KeeperConfig {
    /// The dispatcher of its thread, which knows of the shards that are served here.
    pub dispatch: Dispatch,
    /// Where the table lies.
    pub store: Rc<dyn TableStore>,
    /// What claims shards.
    pub source: Rc<dyn ShardSource>,
    /// The node, before it joined.
    pub member: Member,
}

struct Served {
    host: Rc<ShardHost>,
    epoch: u64,
    /// Ends the watch when it is dropped.
    _watch: oneshot::Sender<()>,
}

/// See the module.
pub struct Keeper {
    id: NodeId,
    reactor: Reactor,
    dispatch: Dispatch,
    store: Rc<dyn TableStore>,
    source: Rc<dyn ShardSource>,
    member: RefCell<Member>,
    admission: RefCell<Admission>,
    /// The last table that was seen, by whatever read.
    table: RefCell<Option<Rc<Table>>>,
    /// Another table was seen, a shard was opened or closed, or something of another node has ended.
    moved: Notify,
    served: RefCell<BTreeMap<ShardId, Served>>,
    closing: RefCell<BTreeSet<ShardId>>,
    changed: Notify,
    has_ended: Cell<bool>,
}

impl Keeper {
    /// Joins, and keeps the node in the table until it has left or was given up.
    #[must_use]
    pub fn start(config: KeeperConfig) -> Rc<Self> {
        let KeeperConfig { dispatch, store, source, member } = config;
        let reactor = dispatch.reactor().clone();
        let keeper = Rc::new(Self {
            id: member.id(),
            reactor: reactor.clone(),
            dispatch,
            store,
            source,
            member: RefCell::new(member),
            admission: RefCell::default(),
            table: RefCell::default(),
            moved: Notify::new(),
            served: RefCell::default(),
            closing: RefCell::default(),
            changed: Notify::new(),
            has_ended: Cell::new(false),
        });
        let running = Rc::clone(&keeper);
        reactor.spawn(async move { running.run().await });
        keeper
    }

    /// The node's identity.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The loop of its thread.
    #[must_use]
    pub fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    /// The dispatcher of its thread.
    #[must_use]
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// Where the node stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        self.member.borrow().standing()
    }

    /// The shard, if this node serves it, and the epoch of its claim.
    #[must_use]
    pub fn host(&self, shard: ShardId) -> Option<(Rc<ShardHost>, u64)> {
        let served = self.served.borrow();
        served.get(&shard).map(|served| (Rc::clone(&served.host), served.epoch))
    }

    /// What the node knows of the table.
    #[must_use]
    pub fn with_member<T>(&self, look: impl FnOnce(&Member) -> T) -> T {
        look(&self.member.borrow())
    }

    /// The judge of requests from other nodes, which knows of the table what this node does.
    pub fn with_admission<T>(&self, ask: impl FnOnce(&mut Admission) -> T) -> T {
        ask(&mut self.admission.borrow_mut())
    }

    /// What was asked of the judge lets others go on.
    pub(crate) fn move_on(&self) {
        self.moved.notify_all();
    }

    /// Whether nothing is under way here for nodes that have gone, of all of so many departures (F5).
    #[must_use]
    pub fn is_settled(&self, departures: u64) -> bool {
        self.admission.borrow().is_settled(departures)
    }

    /// The last table that was seen.
    #[must_use]
    pub fn table(&self) -> Option<Rc<Table>> {
        self.table.borrow().clone()
    }

    /// Waits until something that requests wait for may have changed, from this call on.
    pub fn moved(&self) -> varve_reactor::Notified<'_> {
        self.moved.notified()
    }

    /// Reads the table, as it is while this runs; for requests from nodes that know of more ([`Turn::ReadTable`](crate::nodes::Turn)), and for who
    /// looks for an owner. The node's own part in it goes on with what its beat reads.
    ///
    /// # Errors
    /// What the store refuses; `WentBack` when there is no table any more, or an older one.
    pub async fn read_table(&self) -> varve_membership::Result<Rc<Table>> {
        let known = self.table().map_or(0, |table| table.version);
        match self.store.read().await? {
            Some(table) if table.version >= known => {
                let table = Rc::new(table);
                self.see(&table);
                Ok(table)
            }
            found => {
                let found = found.map_or(0, |table| table.version);
                Err(varve_membership::Error::WentBack { known, found })
            }
        }
    }

    /// Takes in a table. Of reads that run at the same time the older may return last.
    fn see(&self, table: &Rc<Table>) {
        let known = self.table().map_or(0, |table| table.version);
        if table.version > known {
            self.table.replace(Some(Rc::clone(table)));
        }
        self.admission.borrow_mut().saw(table);
        self.moved.notify_all();
    }

    /// Passes all shards on and takes the node out. Returns once that is done, or the node was given up.
    pub async fn leave(&self) {
        self.member.borrow_mut().leave();
        loop {
            let changed = self.changed.notified();
            if self.has_ended.get() {
                return;
            }
            changed.await;
        }
    }

    async fn run(self: Rc<Self>) {
        loop {
            let pause_ns = match self.beat().await {
                Ok(true) => BEAT_NS,
                Ok(false) => self.reactor.random_u64() % RETRY_NS_MAX,
                Err(error) => {
                    tracing::warn!(%error, "the table of nodes was not replaced");
                    BEAT_NS
                }
            };
            self.obey();
            if matches!(self.standing(), Standing::Left | Standing::GivenUp) {
                if self.standing() == Standing::GivenUp {
                    tracing::error!("other nodes have given this one up");
                }
                self.has_ended.set(true);
                self.changed.notify_all();
                return;
            }
            self.reactor.sleep(pause_ns).await;
        }
    }

    /// Reads the table and replaces it; says whether it was replaced.
    async fn beat(self: &Rc<Self>) -> varve_membership::Result<bool> {
        let found = self.store.read().await?;
        if let Some(table) = &found {
            self.see(&Rc::new(table.clone()));
        }
        self.member.borrow_mut().saw(found, self.reactor.boot_time().0)?;
        self.obey();
        let Some(table) = self.member.borrow_mut().proposal()? else { return Ok(true) };
        let is_replaced = self.store.replace(table.clone()).await?;
        if is_replaced {
            self.see(&Rc::new(table.clone()));
            self.member.borrow_mut().accepted(table);
        }
        Ok(is_replaced)
    }

    fn obey(self: &Rc<Self>) {
        let Orders { open, close, abandon } = self.member.borrow().orders();
        for shard in abandon {
            self.stop_serving(shard); // K3
            self.member.borrow_mut().dropped(shard);
        }
        for shard in open {
            self.member.borrow_mut().opening(shard);
            let keeper = Rc::clone(self);
            self.reactor.spawn(async move { keeper.open(shard).await });
        }
        for shard in close {
            if self.closing.borrow_mut().insert(shard) {
                let keeper = Rc::clone(self);
                self.reactor.spawn(async move { keeper.close(shard).await });
            }
        }
    }

    fn serve(self: &Rc<Self>, shard: ShardId, host: &Rc<ShardHost>, epoch: u64) {
        let (watch, is_dropped) = oneshot::channel();
        let served = Served { host: Rc::clone(host), epoch, _watch: watch };
        self.stop_serving(shard);
        self.served.borrow_mut().insert(shard, served);
        self.dispatch.add_host(shard, Rc::clone(host));
        self.member.borrow_mut().opened(shard, epoch);
        let (keeper, host) = (Rc::clone(self), Rc::clone(host));
        self.reactor.spawn(async move {
            if let Either::Left(_) = select(Box::pin(host.lost()), is_dropped).await {
                keeper.lost(shard, epoch);
            }
        });
        self.moved.notify_all();
    }

    fn stop_serving(&self, shard: ShardId) -> Option<Served> {
        let served = self.served.borrow_mut().remove(&shard);
        if served.is_some() {
            self.dispatch.remove_host(shard);
            self.moved.notify_all();
        }
        served
    }

    async fn open(self: Rc<Self>, shard: ShardId) {
        match self.try_open(shard).await {
            Ok((host, epoch)) => {
                self.serve(shard, &host, epoch);
                self.obey();
            }
            Err(error) => {
                tracing::warn!(shard = shard.0, %error, "shard not opened");
                // The order comes again with the next look at the table, if it stands.
                self.member.borrow_mut().dropped(shard);
            }
        }
    }

    async fn try_open(&self, shard: ShardId) -> Result<(Rc<ShardHost>, u64)> {
        let Claimed { media, epoch, root, shard: config } = self.source.claim(shard).await?; // K1
        let reactor = self.reactor.clone();
        let config = HostConfig { reactor, media, shard: config, root };
        let host = ShardHost::open(config, &self.dispatch).await?;
        while let Err(error) = self.look_after_claim(shard).await {
            if let Ungranted::Gone = error {
                return self.give_back(shard, &host).await;
            }
            self.reactor.sleep(BEAT_NS).await;
        }
        Ok((host, epoch))
    }

    /// Whether the table, read after a claim, still has this node (K4).
    async fn look_after_claim(&self, shard: ShardId) -> std::result::Result<(), Ungranted> {
        if planted(Bug::ClaimServedUnseen) {
            return Ok(());
        }
        match self.read_table().await {
            Ok(table) if table.node(self.id).is_some() => Ok(()),
            Ok(_) => Err(Ungranted::Gone),
            Err(error) => {
                tracing::warn!(shard = shard.0, %error, "the table of nodes was not read after a claim");
                Err(Ungranted::Unknown)
            }
        }
    }

    /// Closes what was claimed and is not to be served: whoever has it by the table need not wait for the lease.
    async fn give_back<T>(&self, shard: ShardId, host: &ShardHost) -> Result<T> {
        let (closed, lost) = (Box::pin(host.close()), Box::pin(host.lost()));
        if let Either::Left((Err(error), _)) = select(closed, lost).await {
            tracing::warn!(shard = shard.0, %error, "shard not given back");
        }
        let reason = "this node is not in the table of nodes any more".to_owned();
        Err(Error::ShardClosed { shard, reason })
    }

    /// Another claim of a shard was found.
    fn lost(&self, shard: ShardId, epoch: u64) {
        let is_it = self.host(shard).is_some_and(|(_, now)| now == epoch);
        if is_it {
            self.stop_serving(shard);
            self.member.borrow_mut().dropped(shard);
        }
    }

    async fn close(self: Rc<Self>, shard: ShardId) {
        if let Some(Served { host, epoch, .. }) = self.stop_serving(shard) {
            let (closed, lost) = (Box::pin(host.close()), Box::pin(host.lost()));
            let given_back = match select(closed, lost).await {
                Either::Left((closed, _)) => closed.map_err(|error| error.to_string()),
                Either::Right(_) => Err("another process has taken it over".to_owned()),
            };
            if let Err(error) = given_back {
                tracing::warn!(shard = shard.0, %error, "shard not given back");
            }
            let mut member = self.member.borrow_mut();
            if member.serves(shard) == Some(epoch) {
                member.closed(shard); // K2, K5
            }
        }
        self.closing.borrow_mut().remove(&shard);
    }
}

/// Why a claimed shard is not served.
enum Ungranted {
    /// This node has gone from the table.
    Gone,
    /// The table was not read.
    Unknown,
}
