//! Segments for writers, and room for new data: who gets the last ones, and when a shard is full.
//!
//! Z1. Checkpoints may take the last segment, reclaim leaves those to them, and data leave reclaim's too.
//! Z2. Data are admitted only while live bytes, undrained bytes and the reserves fit the shard's segments.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use varve_logstore::segment_writer::SegmentWriter;
use varve_types::{Generation, SegmentNumber};

use crate::{Error, Result, Shard};

/// Segments side by side, lent to one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Zone {
    /// First segment.
    pub first: SegmentNumber,
    /// Number of segments.
    pub count: u32,
}

/// Where a shard gets zones from.
pub trait ZoneSource {
    /// Lends one more zone, durably, or `None` when all are lent.
    fn lease(&self) -> LocalBoxFuture<'_, Result<Option<Zone>>>;

    /// Takes a wholly free zone back.
    fn give_back(&self, zone: Zone) -> LocalBoxFuture<'_, Result<()>>;

    /// Segments that could be lent now; may be out of date.
    fn unleased_segments(&self) -> u64;
}

/// Segments kept back from data writes for reclaim's output.
const RECLAIM_RESERVE: usize = 4;

impl Shard {
    /// Bytes of changed pages that make a checkpoint due: half the page cache, and no more than a small part of the shard.
    pub(crate) fn dirty_limit(&self) -> usize {
        let segment = self.media.segments.geometry().segment_bytes as usize;
        let segments = usize::try_from(self.space.borrow().stats().segments).unwrap_or(usize::MAX);
        (self.config.page_cache_bytes / 2).min((segments / 32).max(1) * segment)
    }

    /// Free segments that reclaim leaves to checkpoints (Z1).
    pub(crate) fn checkpoint_reserve(&self) -> usize {
        // What is dirty when a checkpoint becomes due, a quarter for the table pages it changes itself, and what the one segment
        // dirties that is applied before it gets the gate: five pages an entry at worst.
        let segment = self.media.segments.geometry().segment_bytes as usize;
        self.dirty_limit() * 5 / 4 / segment + 8
    }

    /// Free segments that data writes leave to reclaim and checkpoints (Z1).
    pub(crate) fn data_reserve(&self) -> usize {
        self.checkpoint_reserve() + RECLAIM_RESERVE
    }

    /// A free segment for a writer, once more than `reserve` are free.
    pub(crate) async fn take_segment(&self, reserve: usize) -> Result<SegmentNumber> {
        loop {
            self.check_running()?;
            self.reclaim_wanted.notify_one();
            {
                let mut space = self.space.borrow_mut();
                if space.free_count() > reserve
                    && let Some(number) = space.reserve()
                {
                    return Ok(number);
                }
            }
            if self.lease_zone().await? {
                continue;
            }
            if self.space.borrow().free_count() > reserve {
                continue;
            }
            self.wake_checkpoint_for_space();
            self.space_changed.notified().await;
        }
    }

    /// Gets one more zone; false when there is none.
    pub(crate) async fn lease_zone(&self) -> Result<bool> {
        let _gate = self.lease_gate.take(1).await;
        let (zones, under_way) = (Rc::clone(&self.zones), self.writes_under_way.begin());
        // A task of its own: begun, it goes on to its end whatever becomes of this one.
        let lease = self.reactor.spawn_join(async move {
            let leased = zones.lease().await;
            drop(under_way);
            leased
        });
        let Some(zone) = lease.await? else { return Ok(false) };
        self.space.borrow_mut().add(zone.first, zone.count);
        self.space_changed.notify_all();
        Ok(true)
    }

    /// Lets the media discard what was emptied, and makes it free.
    pub(crate) fn settle_freed(&self) {
        let freed = self.space.borrow_mut().take_freed();
        for id in freed {
            let Some(shard) = self.me.upgrade() else { return };
            let under_way = self.writes_under_way.begin();
            self.reactor.spawn(async move {
                if let Err(error) = shard.media.segments.delete(id).await {
                    tracing::warn!(segment = id.number.0, %error, "could not discard a segment");
                }
                drop(under_way);
                shard.space.borrow_mut().reusable(id.number);
                shard.space_changed.notify_all();
            });
        }
        self.space_changed.notify_all();
    }

    pub(crate) fn fresh_generation(&self) -> Generation {
        let generation = self.next_generation.get();
        self.next_generation.set(generation.next());
        generation
    }

    /// Bytes of blocks that a segment holds.
    pub(crate) fn segment_payload(&self) -> u64 {
        u64::from(SegmentWriter::block_bytes_max(self.media.segments.geometry().segment_bytes))
    }

    /// Refuses data for which there is no room (Z2); gets another zone first when one is to be had.
    pub(crate) async fn admit_space(&self, bytes: u64) -> Result<()> {
        loop {
            let (room, capacity, live) = self.room();
            if bytes <= room {
                return Ok(());
            }
            if self.zones.unleased_segments() == 0 || !self.lease_zone().await? {
                if self.room().0 >= bytes {
                    return Ok(());
                }
                self.mark_wanted_for_space();
                return Err(Error::NoSpace { live_bytes: live, capacity_bytes: capacity });
            }
        }
    }

    /// Bytes that can still be admitted; bytes of all segments; live bytes.
    fn room(&self) -> (u64, u64, u64) {
        let stats = self.space.borrow().stats();
        let segment = u64::from(self.media.segments.geometry().segment_bytes);
        let capacity = stats.segments * segment;
        // Reclaim needs some slack to find victims worth moving, whatever the size: 1/32.
        let reserved = self.data_reserve() as u64 + 4 + stats.segments / 32;
        // A segment's payload is less than the segment: header, summary, and alignment at its end.
        let payload = self.segment_payload();
        let usable = stats.segments.saturating_sub(reserved) * (payload - payload / 64);
        let committed = stats.live_bytes + self.data_credits.taken();
        (usable.saturating_sub(committed), capacity, stats.live_bytes)
    }
}
