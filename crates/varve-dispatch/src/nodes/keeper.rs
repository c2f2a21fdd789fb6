//! One node's shards: opens and closes them as the table of nodes says, and keeps the node in the table.
//!
//! ```text
//!  every half second: read the table ──▶ Member ──▶ replace it; open, close or drop shards, each in a task of its own
//! ```
//!
//! K1. A shard is opened under a claim of its own, however often it is to be: nothing of an earlier claim is used again.
//! K2. A shard is passed on once its closing has ended. Where its claim could not be given back, the next owner waits for the lease.
//! K3. A shard that the table takes away is dropped at once; its claim is lost already, or will be.
//! K4. After a claim the table is read again, before requests of others are begun: every departure that a former owner knew of while it could write is known (F5).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_channel::oneshot;
use futures_util::future::{Either, LocalBoxFuture, select};
use varve_engine::ShardConfig;
use varve_media::Media;
use varve_membership::{BEAT_NS, Member, Orders, Standing, TableStore};
use varve_reactor::{Notify, Reactor};
use varve_types::ShardId;

use crate::Result;
use crate::host::{HostConfig, ShardHost};
use crate::nodes::Admission;
use crate::zones::PoolRoot;

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
    /// The loop of its thread.
    pub reactor: Reactor,
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
    reactor: Reactor,
    store: Rc<dyn TableStore>,
    source: Rc<dyn ShardSource>,
    member: RefCell<Member>,
    admission: RefCell<Admission>,
    served: RefCell<BTreeMap<ShardId, Served>>,
    closing: RefCell<BTreeSet<ShardId>>,
    changed: Notify,
    has_ended: Cell<bool>,
}

impl Keeper {
    /// Joins, and keeps the node in the table until it has left or was given up.
    #[must_use]
    pub fn start(config: KeeperConfig) -> Rc<Self> {
        let KeeperConfig { reactor, store, source, member } = config;
        let keeper = Rc::new(Self {
            reactor: reactor.clone(),
            store,
            source,
            member: RefCell::new(member),
            admission: RefCell::default(),
            served: RefCell::default(),
            closing: RefCell::default(),
            changed: Notify::new(),
            has_ended: Cell::new(false),
        });
        let running = Rc::clone(&keeper);
        reactor.spawn(async move { running.run().await });
        keeper
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

    /// Reads the table for its departures alone, as a request from a node that knows of more asks for it ([`Turn::ReadTable`](crate::nodes::Turn)).
    ///
    /// # Errors
    /// What the store refuses.
    pub async fn read_departures(&self) -> varve_membership::Result<()> {
        // The member takes in what its own beat reads, in order.
        if let Some(table) = self.store.read().await? {
            self.admission.borrow_mut().saw(&table);
        }
        Ok(())
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
            self.admission.borrow_mut().saw(table);
        }
        self.member.borrow_mut().saw(found, self.reactor.boot_time().0)?;
        self.obey();
        let Some(table) = self.member.borrow_mut().proposal()? else { return Ok(true) };
        let is_replaced = self.store.replace(table.clone()).await?;
        if is_replaced {
            self.admission.borrow_mut().saw(&table);
            self.member.borrow_mut().accepted(table);
        }
        Ok(is_replaced)
    }

    fn obey(self: &Rc<Self>) {
        let Orders { open, close, abandon } = self.member.borrow().orders();
        for shard in abandon {
            self.served.borrow_mut().remove(&shard); // K3
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

    async fn open(self: Rc<Self>, shard: ShardId) {
        match self.try_open(shard).await {
            Ok((host, epoch)) => {
                let (watch, is_dropped) = oneshot::channel();
                let served = Served { host: Rc::clone(&host), epoch, _watch: watch };
                self.served.borrow_mut().insert(shard, served);
                self.member.borrow_mut().opened(shard, epoch);
                let keeper = Rc::clone(&self);
                self.reactor.spawn(async move {
                    if let Either::Left(_) = select(Box::pin(host.lost()), is_dropped).await {
                        keeper.lost(shard, epoch);
                    }
                });
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
        let Claimed { media, epoch, root, shard } = self.source.claim(shard).await?; // K1
        let reactor = self.reactor.clone();
        let host = ShardHost::open(HostConfig { reactor, media, shard, root }).await?;
        while let Err(error) = self.read_departures().await {
            tracing::warn!(%error, "the table of nodes was not read"); // K4
            self.reactor.sleep(BEAT_NS).await;
        }
        Ok((host, epoch))
    }

    /// Another claim of a shard was found.
    fn lost(&self, shard: ShardId, epoch: u64) {
        let is_it = self.host(shard).is_some_and(|(_, now)| now == epoch);
        if is_it {
            self.served.borrow_mut().remove(&shard);
            self.member.borrow_mut().dropped(shard);
        }
    }

    async fn close(self: Rc<Self>, shard: ShardId) {
        let served = self.served.borrow_mut().remove(&shard);
        if let Some(Served { host, .. }) = served {
            let (closed, lost) = (Box::pin(host.close()), Box::pin(host.lost()));
            let given_back = match select(closed, lost).await {
                Either::Left((closed, _)) => closed.map_err(|error| error.to_string()),
                Either::Right(_) => Err("another process has taken it over".to_owned()),
            };
            if let Err(error) = given_back {
                tracing::warn!(shard = shard.0, %error, "shard not given back");
            }
            self.member.borrow_mut().closed(shard); // K2
        }
        self.closing.borrow_mut().remove(&shard);
    }
}
