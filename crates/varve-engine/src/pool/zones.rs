//! Zones of segments, which the pool lends to shards, and where a shard gets them from.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::LocalBoxFuture;
use varve_types::{SegmentNumber, ShardId};

use crate::Result;

/// Segments side by side, lent to one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// First segment.
    pub first: SegmentNumber,
    /// Number of segments.
    pub count: u32,
}

impl Zone {
    /// Its segments.
    #[must_use]
    pub fn segments(self) -> Range<SegmentNumber> {
        self.first..SegmentNumber(self.first.0 + self.count)
    }
}

/// Where a shard gets zones from.
pub trait ZoneSource {
    /// Lends one more zone, durably, or `None` when all are lent.
    fn lease(&self) -> LocalBoxFuture<'_, Result<Option<Zone>>>;

    /// Takes a zone back, durably, in which nothing is that the shard's root names.
    fn give_back(&self, zone: Zone) -> LocalBoxFuture<'_, Result<()>>;

    /// Segments that could be lent to this shard now; may be out of date.
    fn lendable_segments(&self) -> u64;

    /// Segments in whole zones that a shard may have while others have fewer: beyond them it takes what its data need,
    /// no more.
    fn share_segments(&self) -> u64;

    /// What any thread may know of the pool's zones.
    fn counts(&self) -> &ZoneCounts;
}

/// What any thread may know of the pool's zones at any time. Shares change as the pool grows and shrinks.
#[derive(Debug)]
pub struct ZoneCounts {
    /// Segments that could be lent to each shard now.
    pub(super) lendable: Vec<AtomicU64>,
    /// A shard needs a zone, and none is left for it.
    is_wanted: AtomicBool,
    share_segments: AtomicU64,
    standing_segments: AtomicU64,
    /// Zones that are not withdrawn.
    zones: AtomicU64,
    /// Zones that shards are to give back, as the pool is to have fewer.
    excess_zones: AtomicU64,
    /// Segments of a zone.
    zone_segments: u64,
}

/// What belongs to each shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct ZoneShares {
    /// Segments, in whole zones, of a shard when all shards have the same.
    pub(super) share_segments: u64,
    /// Segments of a shard's standing minimum (POOL-4).
    pub(super) standing_segments: u64,
}

impl ZoneCounts {
    /// Of a pool with nothing that could be lent.
    pub(super) fn new(shards: u16, zone_segments: u64, shares: ZoneShares) -> Self {
        Self {
            lendable: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            is_wanted: AtomicBool::new(false),
            share_segments: AtomicU64::new(shares.share_segments),
            standing_segments: AtomicU64::new(shares.standing_segments),
            zones: AtomicU64::new(0),
            excess_zones: AtomicU64::new(0),
            zone_segments,
        }
    }

    pub(super) fn set_zones(&self, zones: u64) {
        self.zones.store(zones, Ordering::Relaxed);
    }

    pub(super) fn set_excess(&self, zones: u32) {
        self.excess_zones.store(zones.into(), Ordering::Relaxed);
    }

    pub(super) fn set_shares(&self, shares: ZoneShares) {
        self.share_segments.store(shares.share_segments, Ordering::Relaxed);
        self.standing_segments.store(shares.standing_segments, Ordering::Relaxed);
    }

    /// Segments that could be lent to a shard now.
    #[must_use]
    pub fn lendable_segments(&self, shard: ShardId) -> u64 {
        self.lendable
            .get(usize::from(shard.0))
            .map_or(0, |segments| segments.load(Ordering::Relaxed))
    }

    /// Segments, in whole zones, of a shard when all shards have the same.
    #[must_use]
    pub fn share_segments(&self) -> u64 {
        self.share_segments.load(Ordering::Relaxed)
    }

    /// Segments that are left for every shard (POOL-4).
    #[must_use]
    pub fn standing_segments(&self) -> u64 {
        self.standing_segments.load(Ordering::Relaxed)
    }

    /// Zones that shards have or can get: those that are not withdrawn.
    #[must_use]
    pub fn zones(&self) -> u64 {
        self.zones.load(Ordering::Relaxed)
    }

    /// Zones that shards are to give back, as the pool is to have fewer.
    #[must_use]
    pub fn excess_zones(&self) -> u64 {
        self.excess_zones.load(Ordering::Relaxed)
    }

    /// Segments of a zone.
    #[must_use]
    pub fn zone_segments(&self) -> u64 {
        self.zone_segments
    }

    /// Notes that a shard needs a zone that only others can give.
    pub fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Whether a shard needed a zone since the last call.
    #[must_use]
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }
}
