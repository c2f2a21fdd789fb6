//! The pool's root: its shards, and which zones of segments each has. One thread owns it; others ask by message.
//!
//! POOL-1. A zone belongs to a shard only once the root that says so is durable, and to at most one shard. A shard
//!     gives one back only when nothing that its own root names lies in it (`zone_moves.rs`, ZONE-MOVES-1); the next
//!     shard gets it only once the root of the pool that takes it from the first one is durable.
//! POOL-2. A pool exists once its root does; what was made before it is made again.
//! POOL-3. Ids of streams are handed out of a range that the root has reserved: an id below the root's next one is
//!     never given again, handed out or not.
//! POOL-4. As many zones as a shard needs to take anything are left for it, however much others want: its standing
//!     minimum.
//! POOL-5. After a replacement that failed, the root is read again before anybody is told which zones it has: the
//!     replacement may have happened.
//! POOL-6. A zone that is withdrawn is lent to nobody before the root that gives it back is durable, and only a zone
//!     that nobody has, and that no shard's standing minimum needs, is withdrawn: so a withdrawn zone is empty, and
//!     stays so. Pools without redundancy have no such zones.
//! POOL-7. What the pool wants back it lends to nobody, but for standing minimums: a pool that is to have fewer zones
//!     gets there.

mod upgraded;
mod zones;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::LocalBoxFuture;
use varve_logstore::format::Features;
use varve_logstore::format::pool::{PoolRoot, ZoneOwner};
use varve_logstore::planted::{Bug, planted};
use varve_media::{Media, RootKey, RootStore, RootVersion};
use varve_types::{PoolId, SegmentNumber, ShardId, StreamId};

use crate::admission::Semaphore;
use crate::config::ShardConfig;
use crate::{Error, Result, Shard};

pub use upgraded::UpgradedRoot;
pub use zones::{Zone, ZoneCounts, ZoneSource};

use zones::ZoneShares;

/// Segments of a zone at most, and how many zones a small pool should have at least.
const ZONE_SEGMENTS_MAX: u32 = 128;
const ZONES_WANTED: u32 = 128;

/// Of a pool, one part in so many is each shard's from the beginning: with this it can always start, delete and trim,
/// however full the media get.
const FIRST_PART: u32 = 32;

/// Segments of a zone at least: both chains of a shard begin in its first zone.
const ZONE_SEGMENTS_MIN: u32 = 4;

const _: () = assert!(ZONE_SEGMENTS_MIN < ZONE_SEGMENTS_MAX);

/// Segments' worth of data that a shard takes with its standing minimum of zones, at least (POOL-4).
const STANDING_SEGMENTS: u64 = 8;

/// Memory of a shard for which the standing minimum is computed: with more, no shard of so few segments keeps more of
/// them back.
const STANDING_MEMORY_BYTES: u64 = 1 << 30;

/// Ids of streams reserved at once: writing the root costs two durable writes, which one snapshot in so many then waits
/// for.
const STREAMS_RESERVED: u64 = 1024;

const _: () = assert!(STREAMS_RESERVED > 1, "not every id costs a write");

/// What a new pool is made of.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its identity.
    pub pool: PoolId,
    /// Milliseconds since 1970.
    pub created_unix_ms: u64,
    /// Shards of the first placement generation.
    pub shard_count: u16,
    /// Zones that the media have room for, if they say so: those of a redundant pool, which may get more. `None`: all
    /// segments are in zones, as many as there are.
    pub zones: Option<ZoneLayout>,
}

/// How segments are divided into zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneLayout {
    /// Segments of a zone, 4 to 128.
    pub zone_segments: u32,
    /// Number of zones.
    pub zones: u32,
}

impl ZoneLayout {
    /// How so many segments are divided. Those behind the last whole zone stay unused.
    #[must_use]
    pub fn of_segments(segment_count: u32) -> Self {
        let zone_segments =
            (segment_count / ZONES_WANTED).clamp(ZONE_SEGMENTS_MIN, ZONE_SEGMENTS_MAX);
        Self { zone_segments, zones: segment_count / zone_segments }
    }

    /// Whether media of so many segments have these zones.
    fn fits(&self, segment_count: u32) -> bool {
        (ZONE_SEGMENTS_MIN..=ZONE_SEGMENTS_MAX).contains(&self.zone_segments)
            && self.zones <= segment_count / self.zone_segments
    }
}

/// The root of an open pool.
pub struct OpenPool {
    roots: Rc<dyn RootStore>,
    root: RefCell<PoolRoot>,
    /// `None` after a failed replacement: which root is on the media is not known then.
    version: Cell<Option<RootVersion>>,
    gate: Semaphore,
    /// Zones for which the media have slots; those that the root does not have are withdrawn.
    zones_max: u32,
    counts: Arc<ZoneCounts>,
    /// Ids that are reserved and not handed out (POOL-3).
    reserved: RefCell<Range<u64>>,
}

impl OpenPool {
    /// Makes a pool, `media_of` each shard being given. Durable on return.
    ///
    /// # Errors
    /// `Exists` when there is one; `NoSpace` when there are too few segments for the shards.
    pub async fn format(media: &[Media], spec: &PoolSpec) -> Result<()> {
        assert_eq!(media.len(), usize::from(spec.shard_count), "one media a shard");
        let Some(first) = media.first() else {
            return Err(Error::TooLarge { what: "shards needed", value: 1, limit: 0 });
        };
        let (version, _) = read_root(&*first.roots).await?;
        if version != RootVersion(0) {
            return Err(Error::PoolExists);
        }
        let geometry = first.segments.geometry();
        let (segments, layout) = match spec.zones {
            None => (geometry.segment_count, ZoneLayout::of_segments(geometry.segment_count)),
            Some(zones) if zones.fits(geometry.segment_count) => {
                (zones.zones * zones.zone_segments, zones)
            }
            Some(_) => {
                let reason = "its zones are not those of the drives".to_owned();
                return Err(Error::BadPoolRoot { reason });
            }
        };
        let ZoneLayout { zone_segments, zones } = layout;
        let share = zones / u32::from(spec.shard_count) * zone_segments;
        let config = ShardConfig::with_memory(spec.pool, ShardId(0), 0);
        if config.usable_bytes(u64::from(share), geometry.segment_bytes) == 0 {
            return Err(Error::TooFewSegments { segments, shards: spec.shard_count });
        }
        let first_segments = (segments / FIRST_PART).clamp(zone_segments, ZONE_SEGMENTS_MAX);
        let each = (first_segments / zone_segments).min(zones / u32::from(spec.shard_count)).max(1);
        assert!(u32::from(spec.shard_count) * each <= zones, "each shard has zones of its own"); // POOL-1
        let mut zone_owners = vec![ZoneOwner::Free; zones as usize];
        for (index, media) in (0..spec.shard_count).zip(media) {
            let config = ShardConfig::with_memory(spec.pool, ShardId(index), 0);
            let segments = &media.segments;
            let own = u32::from(index) * each..(u32::from(index) + 1) * each;
            for zone in own.clone().map(|index| zone_at(index, zone_segments)) {
                let allocated = segments.allocate(zone.first, zone.count).await;
                allocated.map_err(varve_logstore::Error::from)?;
            }
            segments.settle().await.map_err(varve_logstore::Error::from)?;
            Shard::format(media, &config, zone_at(own.start, zone_segments)).await?;
            let own = own.start as usize..own.end as usize;
            zone_owners[own].fill(ZoneOwner::Shard(ShardId(index)));
        }
        let incompat = if spec.zones.is_some() { Features::WITHDRAWN_ZONES } else { 0 };
        let root = PoolRoot {
            features: Features { incompat, ..Features::default() },
            pool: spec.pool,
            created_unix_ms: spec.created_unix_ms,
            segment_bytes: geometry.segment_bytes,
            zone_segments,
            next_stream: StreamId::new(1),
            placements: vec![spec.shard_count],
            zone_owners,
        };
        let made = first.roots.replace(RootKey::Pool, RootVersion(0), root.encode()).await; // POOL-2
        made.map_err(varve_logstore::Error::from)?;
        Ok(())
    }

    /// Whether a pool's root was ever made.
    ///
    /// # Errors
    /// When it was and cannot be read.
    pub async fn exists(media: &Media) -> Result<bool> {
        Ok(read_root(&*media.roots).await?.0 != RootVersion(0))
    }

    /// Opens the root of a pool.
    ///
    /// # Errors
    /// `Corrupt` when it does not fit the media.
    pub async fn open(media: &Media) -> Result<Rc<Self>> {
        let (version, bytes) = read_root(&*media.roots).await?;
        if version == RootVersion(0) {
            return Err(Error::NoPool);
        }
        let root = PoolRoot::decode(&bytes)?;
        let geometry = media.segments.geometry();
        let covered = root.zone_owners.len() as u64 * u64::from(root.zone_segments);
        if root.segment_bytes != geometry.segment_bytes
            || covered > u64::from(geometry.segment_count)
        {
            return Err(Error::BadPoolRoot {
                reason: "its segments are not those of the drives".to_owned(),
            });
        }
        let counts = Arc::new(counts_of(&root));
        let zones_max = geometry.segment_count / root.zone_segments;
        let pool = Self {
            roots: Rc::clone(&media.roots),
            root: RefCell::new(root),
            version: Cell::new(Some(version)),
            gate: Semaphore::new(1),
            zones_max,
            counts,
            reserved: RefCell::new(0..0),
        };
        pool.count_zones();
        Ok(Rc::new(pool))
    }

    /// Identity.
    #[must_use]
    pub fn id(&self) -> PoolId {
        self.root.borrow().pool
    }

    /// When it was made, in ms since 1970.
    #[must_use]
    pub fn created_unix_ms(&self) -> u64 {
        self.root.borrow().created_unix_ms
    }

    /// Shard counts of the placement generations, oldest first.
    #[must_use]
    pub fn placements(&self) -> Vec<u16> {
        self.root.borrow().placements.clone()
    }

    /// Shards of the pool.
    #[must_use]
    pub fn shard_count(&self) -> u16 {
        self.root.borrow().placements.iter().copied().max().unwrap_or(1)
    }

    /// Zones a shard has. Reads the root again where that is not certain (POOL-5).
    ///
    /// # Errors
    /// When the root has to be read and cannot be.
    pub async fn zones_of(&self, shard: ShardId) -> Result<Vec<Zone>> {
        let _gate = self.gate.take(1).await;
        self.refresh().await?;
        let root = self.root.borrow();
        let own = ZoneOwner::Shard(shard);
        let owned = (0u32..).zip(&root.zone_owners).filter(|(_, owner)| **owner == own);
        Ok(owned.map(|(index, _)| zone_at(index, root.zone_segments)).collect())
    }

    /// What other threads may look at, at any time.
    #[must_use]
    pub fn zone_counts(&self) -> Arc<ZoneCounts> {
        Arc::clone(&self.counts)
    }

    /// Zones that shards have or can get: those that are not withdrawn.
    #[must_use]
    pub fn zone_count(&self) -> u32 {
        zones_in_use(&self.root.borrow())
    }

    fn count_zones(&self) {
        let root = self.root.borrow();
        self.counts.set_shares(shares_of(&root));
        let in_use = zones_in_use(&root).into();
        assert!(self.spare_zones(&root, None) <= in_use, "what is withdrawn is not to spare"); // POOL-6
        self.counts.set_zones(in_use);
        for (shard, lendable) in (0..).map(ShardId).zip(&self.counts.lendable) {
            let zones = self.spare_zones(&root, Some(shard));
            assert!(zones <= root.zone_owners.len() as u64, "no more can be lent than there are"); // POOL-4
            lendable.store(zones * u64::from(root.zone_segments), Ordering::Relaxed);
        }
    }

    /// Zones that nobody has, but for those that are left for others than one shard (POOL-4).
    fn spare_zones(&self, root: &PoolRoot, shard: Option<ShardId>) -> u64 {
        let standing = self.counts.standing_segments() / u64::from(root.zone_segments);
        let mut owned = vec![0_u64; self.counts.lendable.len()];
        let mut free = 0_u64;
        for owner in &root.zone_owners {
            match owner {
                ZoneOwner::Shard(owner) => {
                    if let Some(zones) = owned.get_mut(usize::from(owner.0)) {
                        *zones += 1;
                    }
                }
                ZoneOwner::Free => free += 1,
                ZoneOwner::Withdrawn => {} // POOL-6
            }
        }
        let lacks = |owned: u64| standing.saturating_sub(owned);
        let own = shard.and_then(|shard| owned.get(usize::from(shard.0))).map(|own| lacks(*own));
        let others = (0..).map(ShardId).zip(owned).filter(|(other, _)| Some(*other) != shard);
        let kept: u64 = others.map(|(_, zones)| lacks(zones)).sum();
        let spare = free.saturating_sub(kept);
        match own {
            None => spare,
            Some(own) => spare.saturating_sub(self.counts.excess_zones()).max(spare.min(own)), // POOL-7
        }
    }

    /// Has shards give back so many zones, from round to round, until another number is given (POOL-7). For a pool that
    /// has more than [`Self::resize`] could withdraw.
    pub fn ask_back(&self, zones: u32) {
        self.counts.set_excess(zones);
        self.count_zones();
    }

    /// Whether a zone is withdrawn, durably, and so empty until a later call of [`Self::resize`] gives it back
    /// (POOL-6).
    #[must_use]
    pub fn is_withdrawn(&self, zone: u32) -> bool {
        let root = self.root.borrow();
        let owner = root.zone_owners.get(zone as usize);
        // While a root is being replaced, or that failed, it is not known whose a zone is (POOL-5).
        let is_known = self.version.get().is_some() && root.has_withdrawn_zones();
        is_known && owner.is_none_or(|owner| *owner == ZoneOwner::Withdrawn)
    }

    /// Whether the pool has zones for which its media have no room, or may have.
    #[must_use]
    pub fn can_shrink(&self) -> bool {
        self.root.borrow().has_withdrawn_zones()
    }

    /// Makes a redundant pool have `zones` zones that are not withdrawn, as near as can be: it withdraws the last ones
    /// that nobody has, but for those of standing minimums, or gives back the first ones that were withdrawn. Returns
    /// how many there are then, durably. A pool without redundancy stays as it is.
    ///
    /// # Errors
    /// When the root cannot be replaced: it may have happened all the same (POOL-5).
    pub async fn resize(&self, zones: u32) -> Result<u32> {
        let _gate = self.gate.take(1).await;
        self.refresh().await?;
        let mut root = self.root.borrow().clone();
        let before = zones_in_use(&root);
        if !root.has_withdrawn_zones() || before == zones {
            return Ok(before);
        }
        if zones < before {
            let spare = u32::try_from(self.spare_zones(&root, None)).unwrap_or(u32::MAX);
            withdraw_last(&mut root.zone_owners, spare.min(before - zones)); // POOL-6
        } else {
            root.zone_owners.resize(self.zones_max as usize, ZoneOwner::Withdrawn);
            let withdrawn =
                root.zone_owners.iter_mut().filter(|owner| **owner == ZoneOwner::Withdrawn);
            let wanted = withdrawn.take((zones - before) as usize);
            wanted.for_each(|owner| *owner = ZoneOwner::Free);
        }
        while root.zone_owners.last() == Some(&ZoneOwner::Withdrawn) {
            root.zone_owners.pop();
        }
        let after = zones_in_use(&root);
        if after != before {
            self.replace(root).await?;
        }
        Ok(after)
    }

    /// Lends a shard one more zone. Durable on return (POOL-1).
    ///
    /// # Errors
    /// When the root cannot be replaced: the shard may have the zone all the same (POOL-5).
    pub async fn lease(&self, shard: ShardId) -> Result<Option<Zone>> {
        let _gate = self.gate.take(1).await;
        self.refresh().await?;
        let mut root = self.root.borrow().clone();
        // The first: what was given back before what the media may have no room for.
        let free = root.zone_owners.iter().position(|owner| *owner == ZoneOwner::Free); // POOL-6
        let Some(index) = free.filter(|_| self.spare_zones(&root, Some(shard)) > 0) else {
            return Ok(None);
        };
        root.zone_owners[index] = ZoneOwner::Shard(shard);
        let zone =
            zone_at(u32::try_from(index).expect("fewer zones than segments"), root.zone_segments);
        if planted(Bug::ZoneLentUndurable) {
            *self.root.borrow_mut() = root;
            self.count_zones();
            return Ok(Some(zone));
        }
        self.replace(root).await?;
        Ok(Some(zone))
    }

    /// Takes a zone back in which nothing is that the shard's root names. Durable on return.
    ///
    /// # Errors
    /// When the root cannot be replaced: the shard may have lost the zone all the same (POOL-5).
    pub async fn give_back(&self, shard: ShardId, zone: Zone) -> Result<()> {
        let _gate = self.gate.take(1).await;
        self.refresh().await?;
        let mut root = self.root.borrow().clone();
        let index = (zone.first.0 / root.zone_segments) as usize;
        assert_eq!(
            root.zone_owners.get(index),
            Some(&ZoneOwner::Shard(shard)),
            "a shard gives back what it has"
        );
        assert_eq!(
            zone,
            zone_at(zone.first.0 / root.zone_segments, root.zone_segments),
            "a whole zone"
        );
        root.zone_owners[index] = ZoneOwner::Free;
        self.replace(root).await
    }

    /// Whether nobody has a zone of these slots, nor will by a change that has begun: whoever gets it learns of that
    /// later than this call. No of what is not one zone.
    #[must_use]
    pub fn is_unowned(&self, first: SegmentNumber, count: u32) -> bool {
        let root = self.root.borrow();
        let is_zone = count == root.zone_segments && first.0.is_multiple_of(root.zone_segments);
        let owner = root.zone_owners.get((first.0 / root.zone_segments) as usize);
        // While a root is being replaced, or that failed, it is not known whose a zone is (POOL-5).
        is_zone && self.version.get().is_some() && owner == Some(&ZoneOwner::Free)
    }

    /// `count` ids of streams that nobody ever had, one after another; returns the first. They are never given again,
    /// also after a crash (POOL-3). Writes the root once for some hundred calls.
    ///
    /// # Errors
    /// When the root cannot be replaced.
    pub async fn reserve_streams(&self, count: u64) -> Result<StreamId> {
        if let Some(first) = self.take_reserved(count) {
            return Ok(first);
        }
        let _gate = self.gate.take(1).await;
        if let Some(first) = self.take_reserved(count) {
            return Ok(first); // Who held the gate before has reserved more.
        }
        self.refresh().await?;
        let mut root = self.root.borrow().clone();
        let begin = root.next_stream.get();
        let end = begin + count.max(STREAMS_RESERVED);
        root.next_stream = StreamId::new(end);
        self.replace(root).await?;
        self.reserved.replace(begin..end);
        Ok(self.take_reserved(count).expect("at least as many were reserved"))
    }

    fn take_reserved(&self, count: u64) -> Option<StreamId> {
        let mut reserved = self.reserved.borrow_mut();
        let first = reserved.start;
        assert!(first <= reserved.end, "ids are reserved before they are given"); // POOL-3
        if reserved.end - first < count {
            return None;
        }
        reserved.start += count;
        assert!(reserved.start <= reserved.end, "no more are given than are reserved"); // POOL-3
        Some(StreamId::new(first))
    }

    /// Reads the root again if a replacement failed: it may have happened.
    async fn refresh(&self) -> Result<()> {
        if self.version.get().is_none() {
            let (version, bytes) = read_root(&*self.roots).await?;
            *self.root.borrow_mut() = PoolRoot::decode(&bytes)?;
            self.version.set(Some(version));
            self.count_zones();
        }
        assert!(self.version.get().is_some(), "it is known which root there is"); // POOL-5
        Ok(())
    }

    async fn replace(&self, root: PoolRoot) -> Result<()> {
        let expected = self.version.take().expect("the root was read again if need be");
        let replaced = self.roots.replace(RootKey::Pool, expected, root.encode()).await;
        self.version.set(Some(replaced.map_err(varve_logstore::Error::from)?));
        *self.root.borrow_mut() = root;
        self.count_zones();
        Ok(())
    }
}

/// Zones for a shard on the thread that owns the pool's root.
pub struct PoolZones {
    pool: Rc<OpenPool>,
    shard: ShardId,
}

impl PoolZones {
    /// Zones of `pool` for `shard`.
    #[must_use]
    pub fn new(pool: Rc<OpenPool>, shard: ShardId) -> Self {
        Self { pool, shard }
    }
}

impl ZoneSource for PoolZones {
    fn lease(&self) -> LocalBoxFuture<'_, Result<Option<Zone>>> {
        Box::pin(self.pool.lease(self.shard))
    }

    fn give_back(&self, zone: Zone) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(self.pool.give_back(self.shard, zone))
    }

    fn lendable_segments(&self) -> u64 {
        self.pool.counts.lendable_segments(self.shard)
    }

    fn share_segments(&self) -> u64 {
        self.pool.counts.share_segments()
    }

    fn counts(&self) -> &ZoneCounts {
        &self.pool.counts
    }
}

async fn read_root(roots: &dyn RootStore) -> Result<(RootVersion, Vec<u8>)> {
    Ok(roots.read(RootKey::Pool).await.map_err(varve_logstore::Error::from)?)
}

fn zones_in_use(root: &PoolRoot) -> u32 {
    let zones = root.zone_owners.iter().filter(|owner| **owner != ZoneOwner::Withdrawn).count();
    u32::try_from(zones).expect("fewer zones than segments")
}

/// Withdraws so many of the free zones, the last ones.
fn withdraw_last(owners: &mut [ZoneOwner], count: u32) {
    let may_go = |owner: &ZoneOwner| match owner {
        ZoneOwner::Free => !planted(Bug::ZoneInUseWithdrawn),
        ZoneOwner::Shard(_) => planted(Bug::ZoneInUseWithdrawn),
        ZoneOwner::Withdrawn => false,
    };
    let free = owners.iter_mut().rev().filter(|owner| may_go(owner));
    free.take(count as usize).for_each(|owner| *owner = ZoneOwner::Withdrawn);
}

fn counts_of(root: &PoolRoot) -> ZoneCounts {
    let shards = root.placements.iter().copied().max().unwrap_or(1);
    ZoneCounts::new(shards, u64::from(root.zone_segments), shares_of(root))
}

/// A shard's share of the zones that are not withdrawn, and its standing minimum (POOL-4).
fn shares_of(root: &PoolRoot) -> ZoneShares {
    let shards = root.placements.iter().copied().max().unwrap_or(1);
    let zone_segments = u64::from(root.zone_segments);
    let share = u64::from(zones_in_use(root)) / u64::from(shards);
    let config = ShardConfig::with_memory(root.pool, ShardId(0), STANDING_MEMORY_BYTES);
    let wanted = STANDING_SEGMENTS * u64::from(root.segment_bytes);
    let takes_some =
        |zones: &u64| config.usable_bytes(zones * zone_segments, root.segment_bytes) >= wanted;
    let standing = (1..share).find(takes_some).unwrap_or(share.max(1));
    assert!(standing <= share.max(1), "every shard can have as much"); // POOL-4
    assert!(standing > 0, "no shard gives all away"); // POOL-4
    ZoneShares {
        share_segments: share * zone_segments,
        standing_segments: standing * zone_segments,
    }
}

fn zone_at(index: u32, zone_segments: u32) -> Zone {
    assert!(zone_segments > 0, "a zone has segments");
    Zone { first: SegmentNumber(index * zone_segments), count: zone_segments }
}
