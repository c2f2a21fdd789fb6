//! One node's shards: opens and closes them as the table of nodes says, and keeps the node in the table.
//!
//! ```text
//!  every half second: read the table ──▶ Member ──▶ replace it; open, close or drop shards, each in a task of its own
//! ```
//!
//! K1. A shard is opened under a claim of its own, however often it is to be: nothing of an earlier claim is used again.
//! K2. A shard is passed on after its claim was given back, or dropped when another claim was found.
//! K3. A shard that the table takes away is dropped at once; its claim is lost already, or will be.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::future::{Either, LocalBoxFuture, select};
use varve_engine::ShardConfig;
use varve_media::Media;
use varve_membership::{BEAT_NS, Member, Orders, Standing, TableStore};
use varve_reactor::{Notify, Reactor};
use varve_types::ShardId;

use crate::host::{HostConfig, ShardHost};
use crate::zones::PoolRoot;
use crate::{Error, Result};

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
}

/// See the module.
pub struct Keeper {
    reactor: Reactor,
    store: Rc<dyn TableStore>,
    source: Rc<dyn ShardSource>,
    member: RefCell<Member>,
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
        self.member.borrow_mut().saw(found, self.reactor.boot_time().0)?;
        self.obey();
        let Some(table) = self.member.borrow_mut().proposal()? else { return Ok(true) };
        let is_replaced = self.store.replace(table.clone()).await?;
        if is_replaced {
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
            Ok(Served { host, epoch }) => {
                self.served.borrow_mut().insert(shard, Served { host: Rc::clone(&host), epoch });
                self.member.borrow_mut().opened(shard, epoch);
                let keeper = Rc::clone(&self);
                self.reactor.spawn(async move { keeper.watch(shard, host).await });
                self.obey();
            }
            Err(error) => {
                tracing::warn!(shard = shard.0, %error, "shard not opened");
                // The order comes again with the next look at the table, if it stands.
                self.member.borrow_mut().dropped(shard);
            }
        }
    }

    async fn try_open(&self, shard: ShardId) -> Result<Served> {
        let Claimed { media, epoch, root, shard } = self.source.claim(shard).await?; // K1
        let reactor = self.reactor.clone();
        let host = ShardHost::open(HostConfig { reactor, media, shard, root }).await?;
        Ok(Served { host, epoch })
    }

    /// Waits until another claim is found, or the shard is not served any more.
    async fn watch(self: Rc<Self>, shard: ShardId, host: Rc<ShardHost>) {
        host.lost().await;
        if self.closing.borrow().contains(&shard) {
            return; // Its closing tells.
        }
        let is_served =
            self.served.borrow().get(&shard).is_some_and(|served| Rc::ptr_eq(&served.host, &host));
        if is_served {
            self.served.borrow_mut().remove(&shard);
            self.member.borrow_mut().dropped(shard);
        }
    }

    async fn close(self: Rc<Self>, shard: ShardId) {
        let served = self.served.borrow_mut().remove(&shard);
        if let Some(Served { host, .. }) = served {
            let (closed, lost) = (Box::pin(host.close()), Box::pin(host.lost()));
            let outcome = match select(closed, lost).await {
                Either::Left((closed, _)) => closed,
                Either::Right(((), _)) => Err(Error::ShuttingDown),
            };
            match outcome {
                Ok(()) => self.member.borrow_mut().closed(shard), // K2
                Err(error) => {
                    // Whoever is next waits for the lease to end.
                    tracing::warn!(shard = shard.0, %error, "shard not given back");
                    self.member.borrow_mut().closed(shard);
                }
            }
        }
        self.closing.borrow_mut().remove(&shard);
    }
}
