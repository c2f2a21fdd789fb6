//! The pool's root: its shards, and which zones of segments each has. One thread owns it and others ask by message; or several processes replace it,
//! each at the version that it read.
//!
//! O1. A zone belongs to a shard only once the root that says so is durable, and to at most one shard.
//! O2. A pool exists once its root does; what was made before it is made again.
//! O3. Ids of streams are handed out of a range that the root has reserved: an id below the root's next one is never given again, handed
//!     out or not.
//! O4. A root that several owners replace lends zones and takes none back: so whatever a former owner of a shard does late leaves the shard a zone more,
//!     which its next opening finds.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::LocalBoxFuture;
use varve_logstore::format::pool::PoolRoot;
use varve_media::{Media, RootKey, RootStore, RootVersion};
use varve_types::{ErrorKind, PoolId, SegmentNumber, ShardId, StreamId};

use crate::admission::Credits;
use crate::allocation::{Zone, ZoneSource};
use crate::config::ShardConfig;
use crate::{Error, Result, Shard};

/// Segments of a zone at most, and how many zones a small pool should have at least.
const ZONE_SEGMENTS_MAX: u32 = 128;
const ZONES_WANTED: u32 = 32;

/// Segments of a zone at least: both chains of a shard begin in its first zone.
const ZONE_SEGMENTS_MIN: u32 = 4;

/// Ids of streams reserved at once: writing the root costs two durable writes, which one snapshot in so many then waits for.
const STREAMS_RESERVED: u64 = 1024;

/// So often somebody else replaces the root in between is no coincidence.
const ATTEMPTS_MAX: usize = 64;

/// What a new pool is made of.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its identity.
    pub pool: PoolId,
    /// Milliseconds since 1970.
    pub created_unix_ms: u64,
    /// Shards of the first placement generation.
    pub shard_count: u16,
}

/// The root of an open pool.
pub struct Pool {
    roots: Rc<dyn RootStore>,
    root: RefCell<PoolRoot>,
    /// `None` after a failed replacement: which root is on the media is not known then.
    version: Cell<Option<RootVersion>>,
    gate: Credits,
    /// Others may replace it at any time.
    is_shared: bool,
    segment_count: u32,
    unleased: Arc<AtomicU64>,
    /// Ids that are reserved and not handed out (O3).
    reserved: RefCell<Range<u64>>,
}

impl Pool {
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
        let zone_segments = zone_segments(geometry.segment_count);
        let zones = geometry.segment_count / zone_segments;
        let share = zones / u32::from(spec.shard_count) * zone_segments;
        let config = ShardConfig::with_memory(spec.pool, ShardId(0), 0);
        if config.usable_bytes(u64::from(share), geometry.segment_bytes) == 0 {
            let segments = geometry.segment_count;
            return Err(Error::TooFewSegments { segments, shards: spec.shard_count });
        }
        let mut zone_owners = vec![None; zones as usize];
        for (index, media) in (0..spec.shard_count).zip(media) {
            let zone = zone_at(u32::from(index), zone_segments);
            let config = ShardConfig::with_memory(spec.pool, ShardId(index), 0);
            // With this a shard can always start, delete and trim, however full the media get.
            let segments = &media.segments;
            segments.allocate(zone.first, zone.count).await.map_err(varve_logstore::Error::from)?;
            segments.settle().await.map_err(varve_logstore::Error::from)?;
            Shard::format(media, &config, zone).await?;
            zone_owners[usize::from(index)] = Some(ShardId(index));
        }
        let root = PoolRoot {
            features: varve_logstore::format::Features::default(),
            pool: spec.pool,
            created_unix_ms: spec.created_unix_ms,
            segment_bytes: geometry.segment_bytes,
            zone_segments,
            next_stream: StreamId::new(1),
            placements: vec![spec.shard_count],
            zone_owners,
        };
        let made = first.roots.replace(RootKey::Pool, RootVersion(0), root.encode()).await; // O2
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
        Ok(Rc::new(Self::read(media, false).await?))
    }

    /// Opens the root of a pool whose shards have owners that know nothing of each other, for one of them, which has its shard to itself already.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_shared(media: &Media) -> Result<Rc<Self>> {
        Ok(Rc::new(Self::read(media, true).await?))
    }

    async fn read(media: &Media, is_shared: bool) -> Result<Self> {
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
        let pool = Self {
            roots: Rc::clone(&media.roots),
            root: RefCell::new(root),
            version: Cell::new(Some(version)),
            gate: Credits::new(1),
            is_shared,
            segment_count: geometry.segment_count,
            unleased: Arc::new(AtomicU64::new(0)),
            reserved: RefCell::new(0..0),
        };
        pool.count_unleased();
        Ok(pool)
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

    /// Zones a shard has.
    #[must_use]
    pub fn zones_of(&self, shard: ShardId) -> Vec<Zone> {
        let root = self.root.borrow();
        let owned = (0u32..).zip(&root.zone_owners).filter(|(_, owner)| **owner == Some(shard));
        owned.map(|(index, _)| zone_at(index, root.zone_segments)).collect()
    }

    /// Segments in no shard's zones; other threads may look at it at any time.
    #[must_use]
    pub fn unleased(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.unleased)
    }

    /// Segments, in whole zones, of a shard when all shards have the same.
    #[must_use]
    pub fn share_segments(&self) -> u64 {
        let root = self.root.borrow();
        let zones = root.zone_owners.len() as u64 / u64::from(self.shard_count());
        zones * u64::from(root.zone_segments)
    }

    /// Segments of the media.
    #[must_use]
    pub fn segment_count(&self) -> u32 {
        self.segment_count
    }

    fn count_unleased(&self) {
        let root = self.root.borrow();
        let free = root.zone_owners.iter().filter(|owner| owner.is_none()).count() as u64;
        self.unleased.store(free * u64::from(root.zone_segments), Ordering::Relaxed);
    }

    /// Lends a shard one more zone. Durable on return (O1).
    ///
    /// # Errors
    /// When the root cannot be replaced.
    pub async fn lease(&self, shard: ShardId) -> Result<Option<Zone>> {
        let _gate = self.gate.take(1).await;
        self.change(|root| {
            let index = root.zone_owners.iter().position(Option::is_none)?;
            root.zone_owners[index] = Some(shard);
            let index = u32::try_from(index).expect("fewer zones than segments");
            Some(zone_at(index, root.zone_segments))
        })
        .await
    }

    /// Takes a wholly free zone back. Durable on return.
    ///
    /// # Errors
    /// When the root cannot be replaced.
    ///
    /// # Panics
    /// When the zone is not the shard's, and where several owners replace the root (O4).
    pub async fn give_back(&self, shard: ShardId, zone: Zone) -> Result<()> {
        assert!(!self.is_shared, "O4");
        let _gate = self.gate.take(1).await;
        let give_back = |root: &mut PoolRoot| {
            let index = (zone.first.0 / root.zone_segments) as usize;
            let owner = root.zone_owners.get_mut(index);
            let owner = owner.filter(|owner| **owner == Some(shard));
            *owner.expect("a shard gives back what it has") = None;
            Some(())
        };
        self.change(give_back).await.map(|_| ())
    }

    /// `count` ids of streams that nobody ever had, one after another; returns the first. They are never given again, also after a
    /// crash (O3). Writes the root once for some hundred calls.
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
        let reserve = |root: &mut PoolRoot| {
            let begin = root.next_stream.get();
            let end = begin + count.max(STREAMS_RESERVED);
            root.next_stream = StreamId::new(end);
            Some(begin..end)
        };
        let reserved = self.change(reserve).await?.expect("there are more ids");
        self.reserved.replace(reserved);
        Ok(self.take_reserved(count).expect("at least as many were reserved"))
    }

    fn take_reserved(&self, count: u64) -> Option<StreamId> {
        let mut reserved = self.reserved.borrow_mut();
        let first = reserved.start;
        if reserved.end - first < count {
            return None;
        }
        reserved.start += count;
        Some(StreamId::new(first))
    }

    /// Reads the root again if a replacement failed: it may have happened.
    async fn refresh(&self) -> Result<()> {
        if self.version.get().is_none() {
            let (version, bytes) = read_root(&*self.roots).await?;
            *self.root.borrow_mut() = PoolRoot::decode(&bytes)?;
            self.version.set(Some(version));
            self.count_unleased();
        }
        Ok(())
    }

    /// Makes of the root what `change` makes of it, unless that is nothing; again and again while others come between.
    async fn change<T>(&self, change: impl Fn(&mut PoolRoot) -> Option<T>) -> Result<Option<T>> {
        let mut attempts = 1;
        loop {
            self.refresh().await?;
            let mut root = self.root.borrow().clone();
            let Some(changed) = change(&mut root) else { return Ok(None) };
            match self.replace(root).await {
                Ok(()) => return Ok(Some(changed)),
                Err(error) if error.kind() == ErrorKind::Conflict && self.is_shared => {
                    attempts += 1;
                    if attempts > ATTEMPTS_MAX {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn replace(&self, root: PoolRoot) -> Result<()> {
        let expected = self.version.take().expect("the root was read again if need be");
        let replaced = self.roots.replace(RootKey::Pool, expected, root.encode()).await;
        self.version.set(Some(replaced.map_err(varve_logstore::Error::from)?));
        *self.root.borrow_mut() = root;
        self.count_unleased();
        Ok(())
    }
}

/// Zones for a shard on the thread that owns the pool's root.
pub struct PoolZones {
    pool: Rc<Pool>,
    shard: ShardId,
}

impl PoolZones {
    /// Zones of `pool` for `shard`.
    #[must_use]
    pub fn new(pool: Rc<Pool>, shard: ShardId) -> Self {
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

    fn unleased_segments(&self) -> u64 {
        self.pool.unleased.load(Ordering::Relaxed)
    }

    fn share_segments(&self) -> u64 {
        self.pool.share_segments()
    }
}

async fn read_root(roots: &dyn RootStore) -> Result<(RootVersion, Vec<u8>)> {
    Ok(roots.read(RootKey::Pool).await.map_err(varve_logstore::Error::from)?)
}

fn zone_segments(segment_count: u32) -> u32 {
    (segment_count / ZONES_WANTED).clamp(ZONE_SEGMENTS_MIN, ZONE_SEGMENTS_MAX)
}

fn zone_at(index: u32, zone_segments: u32) -> Zone {
    Zone { first: SegmentNumber(index * zone_segments), count: zone_segments }
}
