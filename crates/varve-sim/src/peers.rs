//! The way from one simulated shard to the others: messages that are slow, and sometimes lost.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use futures_util::future::LocalBoxFuture;
use varve_engine::{DedupReply, Error, Fingerprint, Homes, Peers, Result, Shard};
use varve_object::shelf::BucketShard;
use varve_reactor::Reactor;
use varve_stdx::{BufSlice, Rng};
use varve_types::{ChunkId, ShardId};

use crate::world::World;

/// One message in so many is lost, where messages are lost.
const LOST_ONE_IN: u64 = 16;

/// Times that a read looks for a home that does not serve.
const LOOKS_MAX: u32 = 50;

/// The shards of a machine, as messages reach them.
pub(crate) struct Network {
    reactor: Reactor,
    shards: RefCell<Vec<Weak<Shard>>>,
    shelves: RefCell<Vec<Weak<BucketShard>>>,
    homes: Vec<Rc<Homes>>,
    rng: RefCell<Rng>,
    delay_nanos: u64,
    loses: bool,
}

impl Network {
    pub(crate) fn new(reactor: &Reactor, world: &World) -> Rc<Self> {
        let config = &world.config;
        let rng = Rng::new(config.seed ^ 0x7065_6572 ^ world.acknowledged.get() << 32);
        let homes = || Rc::new(Homes::new(config.dedup_index_bytes));
        Rc::new(Self {
            reactor: reactor.clone(),
            shards: RefCell::new((0..config.shards).map(|_| Weak::new()).collect()),
            shelves: RefCell::new((0..config.shards).map(|_| Weak::new()).collect()),
            homes: (0..config.shards).map(|_| homes()).collect(),
            rng: RefCell::new(rng),
            delay_nanos: config.message_nanos,
            loses: config.loses_messages,
        })
    }

    /// A shard is open.
    pub(crate) fn open(&self, id: ShardId, shard: &Rc<Shard>) {
        self.shards.borrow_mut()[usize::from(id.0)] = Rc::downgrade(shard);
    }

    /// The bucket is open on a shard.
    pub(crate) fn open_shelf(&self, id: ShardId, shelf: &Rc<BucketShard>) {
        self.shelves.borrow_mut()[usize::from(id.0)] = Rc::downgrade(shelf);
    }

    /// The bucket on a shard, once a message gets there and the shard serves.
    pub(crate) async fn shelf(&self, id: ShardId) -> varve_object::Result<Rc<BucketShard>> {
        for _ in 0..LOOKS_MAX {
            let nanos = self.rng.borrow_mut().below(self.delay_nanos);
            self.reactor.sleep(nanos).await;
            let shelf = self.shelves.borrow()[usize::from(id.0)].upgrade();
            if let Some(shelf) = shelf.filter(|shelf| !shelf.shard().has_failed()) {
                return Ok(shelf);
            }
        }
        Err(varve_object::Error::Unavailable { what: format!("the bucket on shard {id}") })
    }

    fn now(&self, id: ShardId) -> Option<Rc<Shard>> {
        let shard = self.shards.borrow()[usize::from(id.0)].upgrade();
        shard.filter(|shard| !shard.has_failed())
    }

    /// Waits as long as a message takes; false when it is lost.
    async fn send(&self) -> bool {
        let (nanos, lost) = {
            let mut rng = self.rng.borrow_mut();
            (rng.below(self.delay_nanos), self.loses && rng.chance(1, LOST_ONE_IN))
        };
        self.reactor.sleep(nanos).await;
        !lost
    }

    /// A home, once it serves.
    async fn home(&self, home: ShardId) -> Result<Rc<Shard>> {
        for _ in 0..LOOKS_MAX {
            if let Some(shard) = self.now(home) {
                return Ok(shard);
            }
            self.reactor.sleep(self.delay_nanos).await;
        }
        Err(Error::HomeUnavailable { home, cause: "it does not open".to_owned() })
    }
}

/// The others, for one of the shards.
pub(crate) struct SimPeers {
    pub(crate) network: Rc<Network>,
    pub(crate) shard: ShardId,
}

fn away(home: ShardId, error: Error) -> Error {
    let cause = error.to_string();
    match error.kind() {
        varve_types::ErrorKind::Corrupt => Error::HomeDamaged { home, cause },
        _ => Error::HomeUnavailable { home, cause },
    }
}

impl Peers for SimPeers {
    fn count(&self) -> u16 {
        u16::try_from(self.network.homes.len()).expect("a few")
    }

    fn home(&self, fingerprint: Fingerprint) -> Option<ShardId> {
        self.network.homes[usize::from(self.shard.0)].find(fingerprint)
    }

    fn ask(
        &self,
        shard: ShardId,
        fingerprints: Vec<Fingerprint>,
    ) -> LocalBoxFuture<'_, Result<Vec<DedupReply>>> {
        let network = Rc::clone(&self.network);
        // As on another thread: it is answered whether or not anybody still waits.
        let answer = self.network.reactor.spawn_join(async move {
            if !network.send().await {
                return std::future::pending().await;
            }
            let homes = Rc::clone(&network.homes[usize::from(shard.0)]);
            let answers = homes.answer(network.now(shard), &fingerprints).await;
            if !network.send().await {
                return std::future::pending().await;
            }
            answers
        });
        Box::pin(async move { Ok(answer.await) })
    }

    fn tell_stored(&self, owner: ShardId, fingerprints: Vec<Fingerprint>) {
        let (network, home) = (Rc::clone(&self.network), self.shard);
        self.network.reactor.spawn(async move {
            if network.send().await {
                network.homes[usize::from(owner.0)].learn(home, &fingerprints);
            }
        });
    }

    fn tell_overwritten(&self, home: ShardId, count: u64) {
        let network = Rc::clone(&self.network);
        self.network.reactor.spawn(async move {
            if network.send().await
                && let Some(shard) = network.now(home)
            {
                shard.note_foreign_overwritten(count);
            }
        });
    }

    fn read(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<BufSlice>>>> {
        Box::pin(async move {
            self.network.send().await;
            let shard = self.network.home(home).await?;
            shard.read_chunks(&chunks).await.map_err(|error| away(home, error))
        })
    }

    fn stored_bytes(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<u32>>>> {
        Box::pin(async move {
            self.network.send().await;
            let shard = self.network.home(home).await?;
            shard.stored_bytes(&chunks).await.map_err(|error| away(home, error))
        })
    }
}
