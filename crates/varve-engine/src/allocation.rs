//! Segments for writers, and room for new data: who gets the last ones, and when a shard is full.
//!
//! Z1. Checkpoints may take the last segment, reclaim leaves those that one may need now, and data leave what one may ever need and
//!     reclaim's too.
//! Z2. Data are admitted only while live bytes, undrained bytes and the reserves fit the shard's segments.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use varve_logstore::format::segment::SegmentKind;
use varve_logstore::segment_writer::{BLOCK_ALIGN, SegmentWriter};
use varve_types::{Generation, SegmentNumber};

use crate::tree::PAGE_BYTES;
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

/// Pages that applying one entry changes at worst: the paths to the block and to two chunks.
const PAGES_PER_ENTRY: usize = 5;

/// Segments that are open or hold little whatever reclaim does: one of each kind to write, and as many of the last checkpoints.
const OPEN_SEGMENTS: u64 = 8;

/// Segments kept back from data writes for reclaim's output.
const RECLAIM_RESERVE: usize = 4;

impl Shard {
    /// Bytes of changed pages that make a checkpoint due: half the page cache, and no more than a small part of the shard.
    pub(crate) fn dirty_limit(&self) -> usize {
        let segment = self.media.segments.geometry().segment_bytes as usize;
        let segments = usize::try_from(self.space.borrow().stats().segments).unwrap_or(usize::MAX);
        (self.config.page_cache_bytes / 2).min((segments / 32).max(1) * segment)
    }

    /// Free segments that a checkpoint may need at worst (Z1).
    pub(crate) fn checkpoint_reserve(&self) -> usize {
        // What is dirty when a checkpoint becomes due, a quarter for the table pages it changes itself, and what the one segment
        // dirties that is applied before it gets the gate: five pages an entry at worst.
        let segment = self.media.segments.geometry().segment_bytes as usize;
        self.dirty_limit() * 5 / 4 / segment + 8
    }

    /// Free segments that reclaim leaves to the next checkpoint (Z1): what is dirty now and what waits to be applied. It goes on
    /// below what data writes leave, as nobody else can free anything then.
    pub(crate) fn reclaim_floor(&self) -> usize {
        let segment = self.media.segments.geometry().segment_bytes as usize;
        let dirty = self.trees.borrow().cache.stats().dirty_bytes;
        let waiting = self.entries_in_flight.get() * PAGES_PER_ENTRY * PAGE_BYTES;
        (dirty + waiting) * 5 / 4 / segment + 3
    }

    /// Free segments that data writes leave to reclaim and checkpoints (Z1).
    pub(crate) fn data_reserve(&self) -> usize {
        self.checkpoint_reserve() + RECLAIM_RESERVE
    }

    /// Free segments that a writer leaves to others.
    fn reserve_of(&self, writer: SegmentKind) -> usize {
        match writer {
            SegmentKind::Metadata => 0,
            SegmentKind::Reclaimed => self.reclaim_floor(),
            SegmentKind::Data => self.data_reserve(),
        }
    }

    /// A free segment for a writer, once more are free than it leaves to others (Z1).
    pub(crate) async fn take_segment(&self, writer: SegmentKind) -> Result<SegmentNumber> {
        loop {
            self.check_running()?;
            self.reclaim_wanted.notify_one();
            let reserve = self.reserve_of(writer);
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
            tracing::trace!(?id, "segment emptied");
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

    /// Refuses `bytes` more of data if there is no room for them (Z2); gets another zone first when one is to be had.
    pub(crate) async fn admit_space(&self, bytes: u64) -> Result<()> {
        loop {
            let room = self.room();
            if self.media_full.get() {
                return Err(self.no_space());
            }
            if room.committed + with_pages(bytes) <= room.usable {
                return Ok(());
            }
            if self.zones.unleased_segments() == 0 || !self.lease_zone().await? {
                let room = self.room();
                if room.committed + with_pages(bytes) <= room.usable {
                    return Ok(());
                }
                self.mark_wanted_for_space();
                return Err(self.no_space());
            }
        }
    }

    /// The error of a shard that has no room.
    pub(crate) fn no_space(&self) -> Error {
        let room = self.room();
        Error::NoSpace { live_bytes: room.live, capacity_bytes: room.capacity }
    }

    fn room(&self) -> Room {
        let stats = self.space.borrow().stats();
        let segment = u64::from(self.media.segments.geometry().segment_bytes);
        // Packed as well as can be, the shard keeps reclaim's target free, the open segments, and some that hold little.
        let slack = self.data_reserve() as u64 + 4 + stats.segments / 32;
        let slack = slack.max(self.free_target() as u64) + OPEN_SEGMENTS;
        // A segment's payload is less than the segment: header, summary, and what alignment leaves free.
        let payload = self.segment_payload() - u64::from(BLOCK_ALIGN);
        let dirty = self.trees.borrow().cache.stats().dirty_bytes as u64;
        Room {
            capacity: stats.segments * segment,
            usable: stats.segments.saturating_sub(slack) * (payload - payload / 64),
            live: stats.live_bytes,
            committed: stats.live_bytes + with_pages(self.data_credits.taken()) + dirty,
        }
    }
}

/// What a shard holds and may hold, in bytes.
struct Room {
    capacity: u64,
    usable: u64,
    live: u64,
    committed: u64,
}

/// Data with the pages that name them: a block on its own in its part of a stream takes some of its own.
const fn with_pages(bytes: u64) -> u64 {
    bytes + bytes / 4
}
