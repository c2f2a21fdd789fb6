//! How a shard grows: by zones of the pool, as far as the media have room for their segments.
//!
//! Media may have more slots than room: a drive file is sparse, and others fill its file system too. A shard whose
//! media are full is a full shard: what it has it keeps, so that reclaim, checkpoints and recovery never depend on room
//! that somebody else may take.
//!
//! GROWTH-1. A free segment has room on the media, so writing it takes none. Only media that cannot promise room may
//!     break that, and then the put is tried again (`spawn_put`).
//! GROWTH-2. Room is durable before a segment is free.

mod state;

use varve_logstore::planted::{Bug, planted};
use varve_types::{ErrorKind, SegmentNumber};

use crate::pool::Zone;
use crate::{Result, Shard};

pub(crate) use state::Growth;

/// How long nobody asks full media again, in ns.
const ROOM_RETRY_NS: u64 = 1_000_000_000;

impl Shard {
    /// Whether the media had no room for a segment when they were asked last.
    pub(crate) fn lacks_room(&self) -> bool {
        self.allocation.growth.full.get()
    }

    /// Whether reclaim has to make segments: no more are to be had, or only at the cost of other shards.
    pub(crate) fn is_grown(&self) -> bool {
        let nothing_waits = self.allocation.growth.without_room.borrow().is_empty();
        let segments = self.space.borrow().stats().segments;
        let may_suffice = self.has_space() || self.may_hide_dead(); // DEATHS-4
        let share_suffices = segments >= self.zone_moves.source.share_segments() && may_suffice;
        self.lacks_room()
            || nothing_waits && (share_suffices || self.zone_moves.source.lendable_segments() == 0)
    }

    /// Gets one more zone, or as much of one as the media have room for; false when there is nothing.
    pub(crate) async fn lease_zone(&self) -> Result<bool> {
        if self.keep_leaving() {
            return Ok(true); // ZONE-MOVES-2
        }
        let segments = self.space.borrow().stats().segments;
        let _gate = self.allocation.growth.gate.take(1).await;
        if self.space.borrow().stats().segments > segments {
            return Ok(true); // Somebody else got one meanwhile: it may do for both.
        }
        if self.lacks_room() && self.reactor.now() < self.allocation.growth.ask_at.get() {
            return Ok(false);
        }
        let Some(shard) = self.me.upgrade() else { return Ok(false) };
        let under_way = self.begin_write()?;
        // A task of its own: begun, it goes on to its end whatever becomes of this one.
        let grown = self.reactor.spawn_join(async move {
            let grown = shard.grow().await;
            drop(under_way);
            grown
        });
        grown.await
    }

    async fn grow(&self) -> Result<bool> {
        let waiting = self.allocation.growth.without_room.borrow_mut().pop();
        let zone = match waiting {
            Some(zone) => zone,
            None if self.zone_moves.source.lendable_segments() == 0 => return Ok(false),
            None => match self.zone_moves.source.lease().await {
                Ok(Some(zone)) => {
                    debug_assert!(
                        !self.zone_moves.owned.borrow().contains(&zone),
                        "it had no owner"
                    ); // POOL-1
                    self.zone_moves.owned.borrow_mut().push(zone);
                    zone
                }
                Ok(None) => return Ok(false),
                Err(error) => return Err(self.fail_unsure("lease of a zone", error)),
            },
        };
        let asked = self.room_for(zone).await;
        let count = *asked.as_ref().unwrap_or(&0);
        assert!(count <= zone.count, "room is asked for no more than the zone"); // GROWTH-1
        self.space.borrow_mut().add(zone.first, count);
        self.set_aside(Zone {
            first: SegmentNumber(zone.first.0 + count),
            count: zone.count - count,
        });
        self.note_room(count < zone.count);
        self.allocation.note_change();
        Ok(asked? > 0)
    }

    /// How many segments of a zone, from its first on, have room now (GROWTH-2).
    async fn room_for(&self, zone: Zone) -> Result<u32> {
        assert!(zone.count > 0, "a zone has segments");
        let mut count = 0;
        if self.has_room(zone).await? {
            count = zone.count;
        } else {
            while count < zone.count && self.has_room(one(zone.first.0 + count)).await? {
                count += 1;
            }
        }
        if count > 0 {
            self.media.segments.settle().await.map_err(varve_logstore::Error::from)?;
        }
        Ok(count)
    }

    async fn has_room(&self, zone: Zone) -> Result<bool> {
        match self.media.segments.allocate(zone.first, zone.count).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(planted(Bug::FullMediaBelieved)),
            Err(error) => Err(varve_logstore::Error::from(error).into()),
        }
    }

    /// Whether some of a zone's segments are not free for want of room.
    pub(crate) fn lacks_room_in(&self, zone: Zone) -> bool {
        let segments = zone.segments();
        let without = self.allocation.growth.without_room.borrow();
        without.iter().any(|part| segments.contains(&part.first))
    }

    fn set_aside(&self, zone: Zone) {
        if zone.count > 0 {
            self.allocation.growth.without_room.borrow_mut().push(zone);
        }
    }

    fn note_room(&self, full: bool) {
        self.allocation.growth.ask_at.set(self.reactor.now() + ROOM_RETRY_NS);
        if self.allocation.growth.full.replace(full) == full {
            return;
        }
        let shard = self.config.shard.0;
        if full {
            self.allocation.growth.filled.notify_one();
            tracing::warn!(shard, "the media are full: no room for more segments");
        } else {
            tracing::warn!(shard, "the media have room again");
        }
    }

    /// Makes sure that what recovery left free has room (GROWTH-1): all has, unless files were copied as sparse ones.
    /// Called before anything is written.
    pub(crate) async fn check_room(&self) -> Result<()> {
        assert!(self.admission.lane().is_none(), "nothing is written before"); // GROWTH-1
        for zone in self.allocation.growth.without_room.take() {
            if self.has_room(zone).await? {
                continue;
            }
            for number in zone.first.0..zone.first.0 + zone.count {
                if !self.space.borrow_mut().remove_free(SegmentNumber(number), 1) {
                    continue;
                }
                if self.has_room(one(number)).await? {
                    self.space.borrow_mut().add(SegmentNumber(number), 1);
                } else {
                    self.set_aside(one(number));
                }
            }
        }
        self.note_room(!self.allocation.growth.without_room.borrow().is_empty());
        if planted(Bug::UnsettledBelieved) {
            return Ok(());
        }
        Ok(self.media.segments.settle().await.map_err(varve_logstore::Error::from)?) // GROWTH-2
    }

    /// Asks full media again until they have room, whether anybody needs it or not: it shows in the shard's state.
    pub(crate) async fn run_growth(self: std::rc::Rc<Self>) -> Result<()> {
        loop {
            self.allocation.growth.filled.notified().await;
            while self.lacks_room() {
                self.reactor.sleep(ROOM_RETRY_NS).await;
                self.lease_zone().await?;
            }
        }
    }
}

fn one(number: u32) -> Zone {
    Zone { first: SegmentNumber(number), count: 1 }
}
