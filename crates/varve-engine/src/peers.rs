//! Chunks of other shards, as the shard that names them sees it: who is asked for them, and what was granted until it
//! is in the map.
//!
//! ```text
//!  batch of blocks ──not in the own index──▶ owners ──at a home──▶ homes
//!        └──────────── granted ◀──────────────┴─────────────────────┘
//!                         └──▶ foreign reference in the open data segment ──apply──▶ map
//! ```
//!
//! The **home** of a chunk is the shard whose chunk table has it. To others it is **foreign**. The **owner** of a
//! fingerprint is the shard that the fingerprint picks; it remembers at which shard a block with it was stored last.
//!
//! PEERS-1. A home grants only what lies in a durable segment and in its table, and is neither dead, nor dying, nor
//!     damaged (`grants.rs`).
//! PEERS-2. When a grant is answered its chunk is shared, or a durable record of the home says that it is to be
//!     (`grants.rs`).
//! PEERS-3. Until that record is applied the chunk does not die by being overwritten, in recovery too (`grants.rs`).
//! PEERS-4. A foreign chunk is named in a segment only after the answer. What is granted and never named is left to
//!     mark.
//! PEERS-5. Ids are never reused, so a foreign name means these bytes or nothing.
//! PEERS-6. Every foreign name comes from a grant to its own batch: none is passed on from memory.
//! PEERS-7. A mark pass knows every foreign name: its walk waits for the asks that are under way, notes what was
//!     granted and is not applied, and then what the maps name. No shard sweeps before it knows the names that all
//!     others noted.
//! PEERS-8. Homes are told of foreign chunks that were overwritten, so that a pass comes as soon as if they had been
//!     their own; and of streams that were dropped, so that a write that finds no room there waits for the pass
//!     (MARK-10).
//! PEERS-9. Recovery asks nobody. What needs a home that does not serve is unavailable, and nothing else.
//! PEERS-10. Who is asked asks nobody, and waits for its own lane and segments only. Asking has a bound in time.

mod names;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::future::{Either, LocalBoxFuture, select};
use futures_util::stream::{FuturesUnordered, Stream, StreamExt};
use varve_logstore::format::summary::{Fingerprint, SummaryEntry};
use varve_reactor::Notify;
use varve_stdx::BufSlice;
use varve_types::{ChunkId, ShardId};

use crate::dedup::Generations;
use crate::hash::{HashMap, HashSet};
use crate::{Error, Result, Shard};

pub use names::{ForeignChunk, ForeignNames};

/// How long a batch waits for grants, in ns: as long as threads of a busy machine wait for their turns on the way there
/// and back.
pub(crate) const ASK_NS_MAX: u64 = 200_000_000;

/// How long nobody is asked at most after somebody did not answer in time, in ns, unless the answer comes: a shard that
/// reopens does not slow others down.
const REST_NS: u64 = 1_000_000_000;

const _: () = assert!(ASK_NS_MAX < REST_NS, "who is late is not asked at once"); // PEERS-10

/// Memory of an entry of the index of homes, in bytes: key, shard, a byte of the table's, and what that leaves empty at
/// worst.
const HOME_BYTES: usize = 39;

/// Blocks of a batch that a home has before it is asked for the others as well: one may be chance.
const SIGNALS_MIN: usize = 2;

/// Blocks that a neighbour is asked for in vain: as many as lie in a segment, whose hooks the first of them are for.
const VAIN_MAX: usize = 1024;

const _: () = assert!(VAIN_MAX > SIGNALS_MIN, "a neighbour has more than one chance");

/// What a shard says of a fingerprint that it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DedupReply {
    /// It has such a block, which may be named from now on.
    Granted(ChunkId),
    /// That shard had one.
    At(ShardId),
    /// Nothing.
    Unknown,
}

/// The other shards of a pool, as one of them reaches them.
pub trait Peers {
    /// Shards of the pool.
    fn count(&self) -> u16;

    /// Where a block was stored last, of a fingerprint that this shard owns.
    fn home(&self, fingerprint: Fingerprint) -> Option<ShardId>;

    /// Asks a shard for blocks with these fingerprints; an answer for each.
    fn ask(
        &self,
        shard: ShardId,
        fingerprints: Vec<Fingerprint>,
    ) -> LocalBoxFuture<'_, Result<Vec<DedupReply>>>;

    /// Tells an owner that blocks with these fingerprints are stored at the shard that says so. May be lost.
    fn tell_stored(&self, owner: ShardId, fingerprints: Vec<Fingerprint>);

    /// Tells a home that so many names of its chunks are gone (PEERS-8). May be lost.
    fn tell_overwritten(&self, home: ShardId, count: u64);

    /// Reads chunks at their home; none for one that is not there.
    fn read(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<BufSlice>>>>;

    /// Bytes of segments that chunks take at their home; none for one that is not there.
    fn stored_bytes(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> LocalBoxFuture<'_, Result<Vec<Option<u32>>>>;
}

/// The shard that remembers where blocks with a fingerprint are.
#[must_use]
pub fn owner_of(fingerprint: Fingerprint, shards: u16) -> ShardId {
    assert!(shards > 0, "a pool has shards");
    let [_, high] = halves(fingerprint);
    ShardId(u16::try_from(high % u64::from(shards)).expect("below a u16"))
}

/// The halves of a fingerprint, as numbers.
fn halves(fingerprint: Fingerprint) -> [u64; 2] {
    let value = u128::from_le_bytes(fingerprint.bytes());
    let half = |value: u128| u64::try_from(value & u128::from(u64::MAX)).expect("64 bits");
    [half(value), half(value >> 64)]
}

/// The index of homes of an owner: at which shards blocks were stored last. Advice, and bounded; it outlives a shard
/// that is reopened.
pub struct Homes(RefCell<Generations<u64, ShardId>>);

impl Homes {
    /// One that takes the part of an index's memory, in bytes, that is meant for it.
    #[must_use]
    pub fn new(dedup_index_bytes: usize) -> Self {
        Self(RefCell::new(Generations::new(dedup_index_bytes / 4 / HOME_BYTES)))
    }

    /// Where a block was stored last.
    #[must_use]
    pub fn find(&self, fingerprint: Fingerprint) -> Option<ShardId> {
        let [low, _] = halves(fingerprint);
        self.0.borrow_mut().find(low)
    }

    /// Blocks were stored at a shard.
    pub fn learn(&self, home: ShardId, fingerprints: &[Fingerprint]) {
        for fingerprint in fingerprints {
            let [low, _] = halves(*fingerprint);
            self.0.borrow_mut().insert(low, home);
        }
    }

    /// Answers for a shard, which may not be open, with this index of homes.
    pub async fn answer(
        &self,
        shard: Option<Rc<Shard>>,
        fingerprints: &[Fingerprint],
    ) -> Vec<DedupReply> {
        let granted = match shard {
            Some(shard) => shard.grant(fingerprints).await.unwrap_or_default(),
            None => Vec::new(),
        };
        assert!(granted.len() <= fingerprints.len(), "an answer for each");
        let answer = |(index, fingerprint): (usize, &Fingerprint)| {
            let granted: Option<ChunkId> = granted.get(index).copied().flatten();
            granted.map(DedupReply::Granted).unwrap_or_else(|| {
                self.find(*fingerprint).map_or(DedupReply::Unknown, DedupReply::At)
            })
        };
        fingerprints.iter().enumerate().map(answer).collect()
    }
}

/// What a shard knows of a block that is about to be stored.
#[derive(Clone)]
pub(crate) struct DedupLookup {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) foreign: Option<Rc<ForeignGrant>>,
}

/// A foreign chunk that may be named by the blocks of one batch (PEERS-6).
pub(crate) struct ForeignGrant {
    name: ForeignChunk,
    foreign: Rc<Foreign>,
    is_used: Cell<bool>,
}

impl Drop for ForeignGrant {
    fn drop(&mut self) {
        self.foreign.settle(self.name);
        if !self.is_used.get() {
            self.foreign.note_overwritten(self.name.home); // Nobody may name it now.
        }
    }
}

/// What a shard knows of chunks of others.
pub(crate) struct Foreign {
    peers: Option<Rc<dyn Peers>>,
    /// Shards of the pool; unknown to one that is opened alone.
    shards: Option<u16>,
    /// Asks under way, by number.
    asks: RefCell<BTreeSet<u64>>,
    next_ask: Cell<u64>,
    ask_ended: Notify,
    /// Nobody is asked for now.
    rests: Cell<bool>,
    /// What was granted and is not in the map yet, by how many hold it: a batch, or drained references (PEERS-7).
    granted: RefCell<HashMap<ForeignChunk, u32>>,
    /// Names that are gone and were not told yet (PEERS-8).
    overwritten: RefCell<BTreeMap<ShardId, u64>>,
    /// The home that granted most lately, and how many blocks were asked for in vain since.
    neighbour: Cell<Option<(ShardId, usize)>>,
}

/// An ask under way, until it is dropped.
struct Ask<'a> {
    foreign: &'a Foreign,
    number: u64,
}

impl Drop for Ask<'_> {
    fn drop(&mut self) {
        let was_under_way = self.foreign.asks.borrow_mut().remove(&self.number);
        assert!(was_under_way, "an ask ends once"); // PEERS-7
        self.foreign.ask_ended.notify_all();
    }
}

impl Foreign {
    pub(crate) fn new(peers: Option<Rc<dyn Peers>>) -> Self {
        let shards = peers.as_ref().map(|peers| peers.count());
        assert_ne!(shards, Some(0), "a pool has shards");
        Self {
            shards,
            peers: peers.filter(|peers| peers.count() > 1),
            asks: RefCell::default(),
            next_ask: Cell::new(0),
            ask_ended: Notify::new(),
            rests: Cell::new(false),
            granted: RefCell::default(),
            overwritten: RefCell::default(),
            neighbour: Cell::new(None),
        }
    }

    /// What is left of an index's memory, in bytes, beside the index of homes.
    pub(crate) fn index_bytes(&self, dedup_index_bytes: usize) -> usize {
        if self.peers.is_some() { dedup_index_bytes / 4 * 3 } else { dedup_index_bytes }
    }

    pub(crate) fn peers(&self) -> Option<&Rc<dyn Peers>> {
        self.peers.as_ref()
    }

    /// Whether the pool has a shard, as far as this one knows.
    pub(crate) fn may_have(&self, home: ShardId) -> bool {
        self.shards.is_none_or(|shards| home.0 < shards)
    }

    fn begin(&self) -> Ask<'_> {
        let number = self.next_ask.get();
        self.next_ask.set(number + 1);
        let is_fresh = self.asks.borrow_mut().insert(number);
        assert!(is_fresh, "asks have numbers of their own"); // PEERS-7
        Ask { foreign: self, number }
    }

    /// Waits until all asks have ended that are under way now: what they were granted is noted, or never used
    /// (PEERS-7).
    pub(crate) async fn wait_asks(&self) {
        let target = self.next_ask.get();
        let is_under_way = || self.asks.borrow().first().is_some_and(|first| *first < target);
        while is_under_way() {
            self.ask_ended.notified().await;
        }
    }

    /// One more holds a foreign chunk.
    pub(crate) fn hold(&self, name: ForeignChunk) {
        *self.granted.borrow_mut().entry(name).or_default() += 1;
    }

    /// One of those that hold a foreign chunk is done with it.
    pub(crate) fn settle(&self, name: ForeignChunk) {
        let mut granted = self.granted.borrow_mut();
        let count = granted.get_mut(&name).expect("held before it is settled");
        assert!(*count > 0, "who is counted holds it");
        *count -= 1;
        if *count == 0 {
            granted.remove(&name);
        }
    }

    /// What was granted and is not applied (PEERS-7).
    pub(crate) fn granted(&self) -> Vec<ForeignChunk> {
        let granted = self.granted.borrow();
        debug_assert!(granted.values().all(|holders| *holders > 0), "what is granted is held"); // PEERS-7
        granted.keys().copied().collect()
    }

    /// A name of a chunk of `home` is gone (PEERS-8).
    pub(crate) fn note_overwritten(&self, home: ShardId) {
        *self.overwritten.borrow_mut().entry(home).or_default() += 1;
    }

    /// Who granted most of a batch, and how many of its blocks nobody has.
    fn note_neighbour(&self, met: Option<ShardId>, missing: usize) {
        let now = match met {
            Some(home) => Some((home, 0)),
            None => self.neighbour.get().map(|(home, vain)| (home, vain + missing)),
        };
        self.neighbour.set(now.filter(|(_, vain)| *vain < VAIN_MAX));
    }

    /// Names a chunk in a segment: it is held until that is applied.
    pub(crate) fn name(&self, grant: &ForeignGrant) -> ForeignChunk {
        assert!(self.granted.borrow().contains_key(&grant.name), "a batch holds what it may name"); // PEERS-6
        grant.is_used.set(true);
        self.hold(grant.name);
        grant.name
    }
}

impl Shard {
    /// The way to a home (PEERS-9).
    pub(crate) fn peers_of(&self, home: ShardId) -> Result<&Rc<dyn Peers>> {
        assert_ne!(home, self.config.shard, "nobody is a peer of itself");
        let cause = || "this one was opened alone".to_owned();
        let peers = self.foreign.peers();
        peers.ok_or_else(|| Error::HomeUnavailable { home, cause: cause() })
    }

    /// What is known of blocks: their fingerprints, and of those that the shard itself does not know, what other shards
    /// grant.
    pub(crate) async fn know(
        &self,
        fingerprints: Vec<Option<Fingerprint>>,
    ) -> Vec<Option<DedupLookup>> {
        let granted = self.ask_peers(&fingerprints).await;
        let known = |fingerprint: Fingerprint| {
            let foreign = granted.get(&fingerprint).cloned();
            DedupLookup { fingerprint, foreign }
        };
        fingerprints.into_iter().map(|fingerprint| fingerprint.map(known)).collect()
    }

    async fn ask_peers(
        &self,
        fingerprints: &[Option<Fingerprint>],
    ) -> HashMap<Fingerprint, Rc<ForeignGrant>> {
        let is_open = self.admission.lane().is_some(); // PEERS-9
        if self.foreign.peers().is_none() || !is_open || self.foreign.rests.get() {
            return HashMap::default();
        }
        let unknown: HashSet<Fingerprint> = {
            let mut dedup = self.reduce.dedup.borrow_mut();
            let all = fingerprints.iter().flatten().copied();
            all.filter(|fingerprint| dedup.find(*fingerprint).is_none()).collect()
        };
        if unknown.is_empty() {
            return HashMap::default();
        }
        let found = Rc::new(RefCell::new(Vec::new()));
        let ask = self.foreign.begin();
        let foreign = Rc::clone(&self.foreign);
        let asking = find(foreign, self.config.shard, unknown, Rc::clone(&found));
        let patience = self.reactor.sleep(ASK_NS_MAX);
        if let Either::Right((_, late)) = select(Box::pin(asking), patience).await {
            self.rest(late); // PEERS-10
        }
        let grant = |(fingerprint, name): (Fingerprint, ForeignChunk)| {
            assert_ne!(name.home, self.config.shard, "its own are found in its own index");
            self.foreign.hold(name);
            let foreign = Rc::clone(&self.foreign);
            (fingerprint, Rc::new(ForeignGrant { name, foreign, is_used: Cell::new(false) }))
        };
        let granted = found.take().into_iter().map(grant).collect();
        drop(ask); // PEERS-7: in one step with noting what was granted.
        granted
    }

    /// Asks nobody until an answer that is late has come, or a while is over.
    fn rest(&self, late: impl Future<Output = ()> + Unpin + 'static) {
        let (foreign, reactor) = (Rc::clone(&self.foreign), self.reactor.clone());
        self.counters.add_late_answer();
        foreign.rests.set(true);
        self.reactor.spawn(async move {
            select(late, reactor.sleep(REST_NS)).await;
            foreign.rests.set(false);
        });
    }

    /// A segment was applied: owners learn what it stored, and homes which of their chunks were overwritten (PEERS-8).
    /// Not in recovery (PEERS-9).
    pub(crate) fn tell_peers(&self, entries: &[SummaryEntry]) {
        let Some(peers) = self.foreign.peers() else { return };
        if self.admission.lane().is_none() {
            return;
        }
        let stored = entries.iter().filter_map(|entry| match entry {
            SummaryEntry::Data { fingerprint, .. } => *fingerprint,
            _ => None,
        });
        self.tell_owners(stored);
        for (home, count) in self.foreign.overwritten.take() {
            assert_ne!(home, self.config.shard, "it counts its own by itself"); // PEERS-8
            peers.tell_overwritten(home, count);
        }
    }

    /// Names of chunks of any home may be gone, and nobody counts how many: a write that finds no room there waits for
    /// a pass (MARK-10). Not in recovery (PEERS-9), where a home that opens looks for what nobody names anyhow.
    pub(crate) fn tell_names_gone(&self) {
        let Some(peers) = self.foreign.peers() else { return };
        if self.admission.lane().is_none() {
            return;
        }
        let homes = (0..peers.count()).map(ShardId).filter(|home| *home != self.config.shard);
        homes.for_each(|home| peers.tell_overwritten(home, 1));
    }

    /// Tells owners that blocks with these fingerprints are stored here.
    pub(crate) fn tell_owners(&self, stored: impl Iterator<Item = Fingerprint>) {
        let Some(peers) = self.foreign.peers() else { return };
        let mut by_owner: BTreeMap<ShardId, Vec<Fingerprint>> = BTreeMap::new();
        for fingerprint in stored {
            let owner = owner_of(fingerprint, peers.count());
            if owner != self.config.shard {
                by_owner.entry(owner).or_default().push(fingerprint); // It finds its own in its own index.
            }
        }
        for (owner, fingerprints) in by_owner {
            peers.tell_stored(owner, fingerprints);
        }
    }
}

/// Asks owners and the neighbour, then the homes that they named; adds what is granted to `found` as it comes.
async fn find(
    foreign: Rc<Foreign>,
    me: ShardId,
    unknown: HashSet<Fingerprint>,
    found: Rc<RefCell<Vec<(Fingerprint, ForeignChunk)>>>,
) {
    let Some(peers) = foreign.peers() else { return };
    let neighbour = foreign.neighbour.get().map(|(home, _)| home);
    let likely = |fingerprint: Fingerprint| {
        let owner = owner_of(fingerprint, peers.count());
        let home = if owner == me { peers.home(fingerprint) } else { Some(owner) };
        let home = home.filter(|home| *home != me);
        [home, neighbour.filter(|neighbour| home != Some(*neighbour))]
    };
    let mut missing: HashMap<Fingerprint, [Option<ShardId>; 2]> =
        unknown.into_iter().map(|fingerprint| (fingerprint, likely(fingerprint))).collect();
    let mut asks: BTreeMap<ShardId, Vec<Fingerprint>> = BTreeMap::new();
    for (fingerprint, shards) in &missing {
        for shard in shards.iter().flatten() {
            asks.entry(*shard).or_default().push(*fingerprint);
        }
    }
    assert!(!asks.contains_key(&me), "nobody is a peer of itself");
    let mut granted: BTreeMap<ShardId, usize> = BTreeMap::new();
    let mut note = |fingerprint, home, chunk| {
        found.borrow_mut().push((fingerprint, ForeignChunk { home, chunk }));
        *granted.entry(home).or_default() += 1;
    };
    let mut named = HashMap::default();
    let mut signals: BTreeMap<ShardId, usize> = BTreeMap::new();
    let mut answers = ask_all(&**peers, asks);
    while let Some((asked, answers)) = answers.next().await {
        for (fingerprint, answer) in answers {
            let home = match answer {
                DedupReply::Granted(chunk) => {
                    note(fingerprint, asked, chunk);
                    missing.remove(&fingerprint);
                    asked
                }
                DedupReply::At(home) if home != me => {
                    named.insert(fingerprint, home);
                    home
                }
                DedupReply::At(_) | DedupReply::Unknown => continue,
            };
            *signals.entry(home).or_default() += 1;
        }
    }
    // What was written together is mostly met together: the home knows more of its own than owners do.
    let met = most(&signals);
    let mut again: BTreeMap<ShardId, Vec<Fingerprint>> = BTreeMap::new();
    for (fingerprint, asked) in &missing {
        let home = named.get(fingerprint).copied().or(met);
        if let Some(home) = home.filter(|home| !asked.contains(&Some(*home))) {
            again.entry(home).or_default().push(*fingerprint);
        }
    }
    assert!(!again.contains_key(&me), "nobody is a peer of itself");
    let mut answers = ask_all(&**peers, again);
    while let Some((asked, answers)) = answers.next().await {
        for (fingerprint, answer) in answers {
            if let DedupReply::Granted(chunk) = answer {
                note(fingerprint, asked, chunk);
            }
        }
    }
    foreign.note_neighbour(most(&granted), missing.len());
}

/// The shard that was met most, unless that may be chance.
fn most(met: &BTreeMap<ShardId, usize>) -> Option<ShardId> {
    let (home, count) = met.iter().max_by_key(|(_, count)| **count)?;
    (*count >= SIGNALS_MIN).then_some(*home)
}

/// Asks several shards at the same time, and yields what each of them answers as it comes: a slow one holds up none of
/// the others. Who does not answer knows nothing.
fn ask_all(
    peers: &dyn Peers,
    asks: BTreeMap<ShardId, Vec<Fingerprint>>,
) -> impl Stream<Item = (ShardId, Vec<(Fingerprint, DedupReply)>)> + Unpin {
    let asks = asks.into_iter().filter(|(_, fingerprints)| !fingerprints.is_empty());
    let asks = asks.map(move |(shard, fingerprints)| async move {
        let answers = peers.ask(shard, fingerprints.clone()).await.unwrap_or_default();
        (shard, fingerprints.into_iter().zip(answers).collect())
    });
    asks.collect::<FuturesUnordered<_>>()
}
