//! Zones that go from one shard to another, by way of the pool: how a shard that is refused space gets some, and how
//! one gives back what it does not need.
//!
//! ```text
//!  owned ──leave──▶ withheld from writers ──all empty──▶ checkpoint ──durable──▶ pool told ──▶ nobody's
//!    ▲                      │                                                                   │
//!    └───────── stay ───────┘ a writer needs it, or it does not become empty                    │
//!                                                                     another shard's ◀──lease──┘
//! ```
//!
//! A coordinator (`varve-dispatch`) goes round when a shard wants a zone: it asks all shards what they can spare, has
//! some give zones, and tells those that wait that the round has ended.
//!
//! ZONE-MOVES-1. A zone is given back only after a checkpoint that began when all its segments were empty and withheld:
//!     neither the shard's root nor what recovery reads behind it (chains, their next slots, moves, what was
//!     overwritten) names anything in it.
//! ZONE-MOVES-2. Until then the zone may stay: a writer of this shard that finds no segment takes it back.
//! ZONE-MOVES-3. Between that checkpoint and the pool's root the zone is an empty one of this shard: a crash there
//!     leaves it with the shard. After the pool's root is durable it is nobody's. So it never has two owners, and is
//!     never lost.
//! ZONE-MOVES-4. A shard keeps its standing minimum, room for what it holds, and some to spare.
//! ZONE-MOVES-5. A write that finds no room waits for one round that begins after it, and, where garbage waits for mark
//!     on any shard, for a mark pass and one more round; then it is refused. All waits are bounded.
//! ZONE-MOVES-6. A lease or return whose outcome is unknown closes the shard: it opens again with the zones that the
//!     pool's root says (POOL-5).
//! ZONE-MOVES-7. Who waits for room takes only zones that help it, and none of its own goes back as idle meanwhile:
//!     else one that wants more than there is would take zones and give them back for ever.

mod state;

use std::cell::Cell;
use std::cmp::Reverse;

use futures_util::future::{Either, select};
use varve_logstore::format::segment::SegmentKind;
use varve_logstore::format::summary::SummaryEntry;
use varve_logstore::planted::{Bug, planted};
use varve_reactor::Nanos;
use varve_types::{ChunkId, ErrorKind, SegmentNumber, WriteSeq};

use crate::hash::HashMap;
use crate::mark::{MarkWaiter, MarkWish};
use crate::pool::Zone;
use crate::reserves::Reserves;
use crate::zone_moves::state::ZonePhase;
use crate::{Error, Result, Shard};

pub(crate) use state::ZoneMoves;

/// How long a write waits for a round, in ns: less than what block clients bear.
const ROUND_PATIENCE_NS: u64 = 20_000_000_000;

/// How long nobody asks again after a round that found nothing, in ns.
const ASK_PAUSE_NS: u64 = 1_000_000_000;

/// Zones that a shard asks for at once: one in so many of what it has, within bounds.
const ASKED_PART: u64 = 8;
const ASKED_MAX: u64 = 4;

/// How often what is about to leave is emptied before it is given up: pages leave with the second checkpoint.
const EMPTYING_ROUNDS: u32 = 3;

/// How long reclaim may take to empty a zone, and how long it is waited for without progress while it packs, in ns.
const EMPTYING_NS_MAX: u64 = 15_000_000_000;
const PACKING_NS_MAX: u64 = 5_000_000_000;
const PACKING_PAUSE_NS: u64 = 200_000_000;

/// How long copies in zones that may leave are looked at, in ns; the next round goes on.
const LOOKING_NS_MAX: u64 = 3_000_000_000;

// Who waits for a round outlasts what happens in it.
const _: () = assert!(PACKING_PAUSE_NS < PACKING_NS_MAX && PACKING_NS_MAX < EMPTYING_NS_MAX);
const _: () = assert!(LOOKING_NS_MAX < PACKING_NS_MAX);
const _: () = assert!(EMPTYING_NS_MAX < ROUND_PATIENCE_NS && ASK_PAUSE_NS < ROUND_PATIENCE_NS);

/// How long the media may take to discard what became empty, in pauses, and such a pause in ns.
const DISCARD_PAUSES: u32 = 500;
const DISCARD_PAUSE_NS: u64 = 1_000_000;

const _: () = assert!(DISCARD_PAUSES as u64 * DISCARD_PAUSE_NS < PACKING_NS_MAX);

/// Free segments beside those that are kept back while zones leave.
const SPARE_FREE: usize = 4;

/// Of what a shard can hold, one part in so many stays to spare when it gives zones away.
const SPARE_PART: u64 = 32;

/// And so many segments.
const SPARE_SEGMENTS: u64 = 2;

/// What a shard says at the beginning of a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZoneState {
    /// Zones that its writes wait for.
    pub wanted_zones: u64,
    /// Zones that it can give.
    pub spare_zones: u64,
    /// Of these, zones beyond the shard's share that are empty, while nothing is written: better given back before
    /// anybody asks.
    pub idle_zones: u64,
    /// A mark pass may free something.
    pub may_mark: bool,
}

/// How many zones each shard is to give, so that what is wanted is met, and the pool gets back the `excess` zones that
/// it is to have no more; those with most to spare first. Pure.
#[must_use]
pub fn plan_zone_moves(states: &[ZoneState], excess: u64) -> Vec<u64> {
    let wanted: u64 = states.iter().map(|state| state.wanted_zones).sum();
    let mut wanted = wanted.saturating_add(excess);
    let mut gives = vec![0; states.len()];
    while wanted > 0 {
        let left = |index: usize| match states[index] {
            state if state.wanted_zones > 0 => 0,
            state => state.spare_zones - gives[index],
        };
        let most = (0..states.len()).max_by_key(|index| (left(*index), Reverse(*index)));
        let Some(most) = most.filter(|index| left(*index) > 0) else { break };
        assert!(gives[most] < states[most].spare_zones, "nobody gives more than it spares"); // ZONE-MOVES-4
        gives[most] += 1;
        wanted -= 1;
    }
    gives
}

/// Lets what is about to leave stay when its time ends before the pool is told (ZONE-MOVES-2).
struct LeavingZones<'a>(&'a Shard);

impl Drop for LeavingZones<'_> {
    fn drop(&mut self) {
        self.0.keep_leaving();
    }
}

/// Reclaim aims at more free segments until this is dropped.
struct FreeTargetGuard<'a>(&'a Cell<usize>);

impl Drop for FreeTargetGuard<'_> {
    fn drop(&mut self) {
        self.0.set(0);
    }
}

impl Shard {
    /// Begins a round of the coordinator; every one is followed by [`Self::end_zone_round`].
    pub fn begin_zone_round(&self) -> ZoneState {
        let moves = &self.zone_moves;
        assert!(moves.ended.get() <= moves.begun.get(), "rounds end after they begin");
        moves.begun.set(moves.begun.get() + 1);
        let awaits = moves.awaiting.get() > 0;
        moves.asked_round.set(awaits);
        let now = (self.counters.writes(), self.space.borrow().stats().live_bytes);
        let rests = moves.seen.replace(now) == now && moves.seen_empty.get() != now;
        let segments = self.space.borrow().stats().segments;
        let zone_segments = self.zone_moves.source.counts().zone_segments();
        let asked = (segments / zone_segments / ASKED_PART).clamp(1, ASKED_MAX);
        let spare_zones = self.spare_zones();
        let beyond =
            segments.saturating_sub(self.zone_moves.source.share_segments()) / zone_segments;
        let mut idle_zones = 0;
        if rests && beyond > 0 && !awaits {
            // ZONE-MOVES-7
            idle_zones = spare_zones.min(beyond).min(self.count_empty_zones());
            if idle_zones == 0 {
                moves.seen_empty.set(now); // Looking costs a walk over all segments.
            }
        }
        assert!(idle_zones <= spare_zones, "idle zones are spare ones"); // ZONE-MOVES-4
        ZoneState {
            wanted_zones: if awaits { asked } else { 0 },
            spare_zones,
            idle_zones,
            may_mark: self.mark_wish() != MarkWish::None
                || self.reduce.dedup.borrow().kept_bytes() > 0,
        }
    }

    /// Ends a round: who waits looks again, and goes on without, or for a mark pass if one may free something on any
    /// shard.
    pub fn end_zone_round(&self, any_may_mark: bool) {
        let moves = &self.zone_moves;
        assert!(moves.ended.get() <= moves.begun.get(), "rounds end after they begin");
        moves.ended.set(moves.begun.get());
        moves.others_may_mark.set(any_may_mark);
        if self.zone_moves.source.lendable_segments() > 0 {
            moves.ask_at.set(Nanos(0));
        } else if moves.asked_round.get() {
            // A round for which nobody asked says nothing of what others can give to those who ask.
            moves.ask_at.set(self.reactor.now() + ASK_PAUSE_NS);
        }
        moves.changed.notify_all();
    }

    /// Gets room from other shards, where a coordinator is there to ask them: zones that they spare, or what a mark
    /// pass frees (ZONE-MOVES-5). `lease_helps` says whether a zone that nobody has would (ZONE-MOVES-7). True when it
    /// is worth looking again.
    pub(crate) async fn room_from_others(
        &self,
        fits: impl Fn() -> bool,
        lease_helps: impl Fn() -> bool,
    ) -> Result<bool> {
        if self.zones_from_others(&fits, &lease_helps).await? {
            return Ok(true);
        }
        let others_may_mark = self.zone_moves.others_may_mark.get();
        if self.marked_room(&fits).await? {
            return Ok(true);
        }
        if !others_may_mark {
            return Ok(false);
        }
        self.zone_moves.ask_at.set(Nanos(0));
        self.zones_from_others(&fits, &lease_helps).await
    }

    async fn zones_from_others(
        &self,
        fits: &impl Fn() -> bool,
        lease_helps: &impl Fn() -> bool,
    ) -> Result<bool> {
        let moves = &self.zone_moves;
        let is_attended = moves.begun.get() > 0;
        if !is_attended || self.lacks_room() || self.reactor.now() < moves.ask_at.get() {
            return Ok(false);
        }
        let _awaiting = MarkWaiter::new(&moves.awaiting);
        let target = moves.begun.get() + 1;
        let mut patience = Box::pin(self.reactor.sleep(ROUND_PATIENCE_NS));
        while moves.ended.get() < target {
            self.zone_moves.source.counts().want();
            let changed = Box::pin(moves.changed.notified());
            let out_of_patience =
                matches!(select(changed, patience.as_mut()).await, Either::Right(_));
            self.check_open()?;
            if fits() {
                return Ok(true);
            }
            let is_lent = self.zone_moves.source.lendable_segments() > 0;
            if is_lent && lease_helps() && self.lease_zone().await? {
                return Ok(true);
            }
            if out_of_patience {
                break;
            }
        }
        Ok(fits())
    }

    /// Bytes that are spoken for: what is held, on its way, and promised.
    fn kept_bytes_now(&self) -> u64 {
        let committed = self.room().committed;
        if self.reservations.is_empty() {
            return committed;
        }
        committed.max(self.spoken_for().0)
    }

    /// Zones that the shard can do without (ZONE-MOVES-4), whether they are empty now or have to be emptied.
    pub(crate) fn spare_zones(&self) -> u64 {
        if self.lacks_room() || self.allocation.is_media_full() {
            return 0; // What it has the media may have no second time.
        }
        let counts = self.zone_moves.source.counts();
        let (zone_segments, standing) = (counts.zone_segments(), counts.standing_segments());
        let segment_bytes = self.media.segments.geometry().segment_bytes;
        let segments = self.space.borrow().stats().segments;
        let held = self.kept_bytes_now();
        let keeps_enough = |zones: u64| {
            let Some(left) = segments.checked_sub(zones * zone_segments) else { return false };
            let usable = Reserves::new(&self.config, left, segment_bytes).usable_bytes;
            let spare = usable / SPARE_PART + SPARE_SEGMENTS * u64::from(segment_bytes);
            left >= standing && held + spare <= usable
        };
        let (mut low, mut high) = (0, self.zone_moves.owned.borrow().len() as u64);
        while low < high {
            let middle = (low + high).div_ceil(2);
            if keeps_enough(middle) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        debug_assert!(low == 0 || keeps_enough(low), "what is left is enough"); // ZONE-MOVES-4
        low
    }

    /// The shard's zones that could leave, in the order of [`Self::roomy_zones`]: none with a copy of metadata that may
    /// have to be read.
    fn leavable_zones(&self) -> Vec<(u64, Zone)> {
        let mut zones = self.roomy_zones();
        zones.retain(|(_, zone)| self.has_no_needed_copy(*zone));
        zones
    }

    /// The shard's zones for which the media have room, the best one to leave first: with least that is live, and then
    /// the last of the pool's, as writers take the first free segments.
    fn roomy_zones(&self) -> Vec<(u64, Zone)> {
        let zone_segments = self.zone_moves.source.counts().zone_segments();
        let mut live: HashMap<u64, u64> = HashMap::default();
        for (number, usage) in self.space.borrow().iter() {
            *live.entry(u64::from(number.0) / zone_segments).or_default() +=
                u64::from(usage.live_bytes);
        }
        let live_of = |zone: &Zone| {
            live.get(&(u64::from(zone.first.0) / zone_segments)).copied().unwrap_or(0)
        };
        let owned = self.zone_moves.owned.borrow();
        let roomy = owned.iter().filter(|zone| !self.lacks_room_in(**zone));
        let mut zones: Vec<(u64, Zone)> = roomy.map(|zone| (live_of(zone), *zone)).collect();
        zones.sort_unstable_by_key(|(live, zone)| (*live, Reverse(zone.first)));
        zones
    }

    /// Zones that hold nothing, and no copy that is known to be needed: of others [`Self::give`] finds out.
    fn count_empty_zones(&self) -> u64 {
        let space = self.space.borrow();
        let is_empty = |zone: &Zone| !space.needs_copy_in(zone.segments());
        let zones = self.roomy_zones();
        zones.iter().filter(|(live, zone)| *live == 0 && is_empty(zone)).count() as u64
    }

    /// Bytes that more data may take: in the segments the shard has, once it has all that could be lent to it, and what
    /// it could give others.
    pub(crate) fn figures_of_room(&self) -> (u64, u64, u64) {
        let stats = self.space.borrow().stats();
        let segment_bytes = self.media.segments.geometry().segment_bytes;
        let room_in = |segments| {
            let usable = Reserves::new(&self.config, segments, segment_bytes).usable_bytes;
            usable.saturating_sub(stats.live_bytes)
        };
        let room = if self.allocation.is_media_full() { 0 } else { room_in(stats.segments) };
        if self.lacks_room() || self.allocation.is_media_full() {
            return (room, room, 0);
        }
        let spare = self.spare_zones() * self.zone_moves.source.counts().zone_segments();
        let reach = room_in(stats.segments + self.zone_moves.source.lendable_segments());
        (room, reach, spare * u64::from(segment_bytes))
    }

    /// Gives up to so many zones back to the pool; returns how many. They are empty then, and durably the pool's. Moves
    /// what is live in one zone at most.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed: then the zones are either still the shard's or the pool's.
    pub async fn give_zones(&self, wanted: u64) -> Result<u64> {
        self.check_open()?;
        let Some(shard) = self.me.upgrade() else { return Ok(0) };
        // A task of its own: a checkpoint that was begun goes on to its end whatever becomes of this one.
        self.reactor.spawn_join(async move { shard.give(wanted).await }).await
    }

    async fn give(&self, wanted: u64) -> Result<u64> {
        let Some(_gate) = self.zone_moves.gate.try_take(1) else { return Ok(0) };
        if self.may_hide_dead() {
            self.fold_deaths().await?; // DEATHS-4
        }
        if !planted(Bug::ZoneGivenEarly) {
            self.checkpoint().await?; // What it empties is free.
        }
        self.wait_discards().await;
        self.look_before_zones_go(wanted).await;
        let mut zones = self.choose_zones(wanted).await?;
        assert!(zones.len() as u64 <= wanted, "no more leave than were asked for");
        zones.retain(|zone| self.has_no_needed_copy(*zone)); // While data were packed, reads met damage.
        // Space may have been promised while data were packed (ZONE-MOVES-4).
        if zones.is_empty() || self.spare_zones() < zones.len() as u64 {
            self.zone_moves.seen_empty.set(self.zone_moves.seen.get());
            return Ok(0);
        }
        self.zone_moves.phase.set(ZonePhase::Emptying);
        let leaving = LeavingZones(self);
        for zone in &zones {
            self.space.borrow_mut().leave(zone.first, zone.count);
        }
        let left = self.empty(&zones).await?;
        if left.is_empty() || !self.zone_moves.is_emptying() {
            return Ok(0);
        }
        self.zone_moves.phase.set(ZonePhase::Giving);
        let under_way = self.begin_write()?;
        let given = self.hand_over(left).await;
        drop(under_way);
        drop(leaving);
        given
    }

    /// Reads the originals of copies that nobody read since the start, in so many of the zones that leave best, as far
    /// as there is time: without that, a zone with such a copy stays (COPIES-2).
    async fn look_before_zones_go(&self, wanted: u64) {
        let end = self.reactor.now() + LOOKING_NS_MAX;
        let mut can_leave = 0;
        for (_, zone) in self.roomy_zones() {
            if can_leave == wanted || self.reactor.now() >= end {
                break;
            }
            self.look_before_zone_goes(zone, end).await;
            can_leave += u64::from(self.has_no_needed_copy(zone));
        }
    }

    /// Zones that are to leave: empty ones, or else one whose live data fit into other free segments.
    async fn choose_zones(&self, wanted: u64) -> Result<Vec<Zone>> {
        let wanted = usize::try_from(wanted.min(self.spare_zones())).unwrap_or(usize::MAX);
        let zones = self.leavable_zones();
        let mut empty = Vec::new();
        let mut free = self.space.borrow().free_count();
        let segments = self.space.borrow().stats().segments;
        let segment_bytes = self.media.segments.geometry().segment_bytes;
        for zone in zones.iter().filter(|(live, _)| *live == 0).map(|(_, zone)| *zone).take(wanted)
        {
            // Whoever takes a segment meanwhile finds one beside what is kept for others (ALLOCATION-1): else the zones
            // would stay.
            free -= self.free_in(zone);
            let left = segments - (empty.len() as u64 + 1) * u64::from(zone.count);
            if free <= Reserves::new(&self.config, left, segment_bytes).data + SPARE_FREE {
                break;
            }
            empty.push(zone);
        }
        if !empty.is_empty() || wanted == 0 {
            return Ok(empty);
        }
        let Some((live, zone)) = zones.first().copied() else { return Ok(empty) };
        let outside = |shard: &Self| shard.space.borrow().free_count() - shard.free_in(zone);
        let moved = usize::try_from(live / self.segment_payload()).unwrap_or(usize::MAX) + 2;
        let needed = self.reserves().free_target + moved;
        if outside(self) < needed {
            self.pack(needed + zone.count as usize).await?;
        }
        Ok(if outside(self) < needed { Vec::new() } else { vec![zone] })
    }

    fn free_in(&self, zone: Zone) -> usize {
        let space = self.space.borrow();
        let segments = zone.first.0..zone.first.0 + zone.count;
        let free = segments.filter(|number| space.is_free(SegmentNumber(*number))).count();
        assert!(free <= space.free_count(), "free segments of a zone are the shard's");
        free
    }

    /// Has reclaim pack data until so many segments are free, or it gets no further.
    async fn pack(&self, free: usize) -> Result<()> {
        let moves = &self.zone_moves;
        assert_eq!(moves.aim.get(), 0, "one packs at a time");
        moves.aim.set(free);
        let _aiming = FreeTargetGuard(&moves.aim);
        let end = self.reactor.now() + PACKING_NS_MAX;
        loop {
            let freed = self.reclaim.freed_segments.get();
            self.reclaim.request();
            self.reactor.sleep(PACKING_PAUSE_NS).await;
            let is_done = self.space.borrow().free_count() >= free;
            let waits = !self.reclaim.waiting.borrow().is_empty(); // The next checkpoint frees some.
            let rests = self.reclaim.freed_segments.get() == freed && !waits;
            if is_done || rests || self.reactor.now() >= end || self.check_open().is_err() {
                return self.check_open();
            }
        }
    }

    /// Empties zones; returns those of which nothing is named any more by what is durable (ZONE-MOVES-1).
    async fn empty(&self, zones: &[Zone]) -> Result<Vec<Zone>> {
        for _ in 0..EMPTYING_ROUNDS {
            if self.left(zones).len() == zones.len() {
                break;
            }
            self.move_open_segments().await?;
            self.checkpoint().await?; // What is new is not any more, and what only it kept is free.
            self.wait_discards().await;
            if self.left(zones).len() == zones.len() {
                break;
            }
            self.move_live(zones).await?;
            self.checkpoint().await?; // Pages leave with it.
            self.wait_discards().await;
            if !self.zone_moves.is_emptying() {
                return Ok(Vec::new());
            }
        }
        let left = self.left(zones);
        if !left.is_empty() && !planted(Bug::ZoneGivenEarly) {
            self.checkpoint().await?; // ZONE-MOVES-1
        }
        Ok(left)
    }

    fn left(&self, zones: &[Zone]) -> Vec<Zone> {
        let space = self.space.borrow();
        zones.iter().copied().filter(|zone| space.has_left(zone.first, zone.count)).collect()
    }

    /// Lets the open segments of data and of pages lie elsewhere than in what is about to leave.
    async fn move_open_segments(&self) -> Result<()> {
        {
            let _gate = self.drain.gate.take(1).await;
            let slot = self.drain.writer.borrow().slot();
            if self.space.borrow().is_leaving(slot) {
                if self.drain.writer.borrow().is_empty() {
                    // Its predecessor names the slot, so only a segment there ends that. This one frees nothing.
                    let entry = SummaryEntry::FreedIds { first: ChunkId::new(1), count: 0 };
                    self.drain.writer.borrow_mut().push_entry(entry, WriteSeq::ZERO);
                }
                self.seal_data().await?;
            }
        }
        self.flush_data().await?;
        let _gate = self.apply.tree_gate.take(1).await; // No checkpoint is under way.
        let slot = self.checkpoint.metadata.next_slot();
        if self.space.borrow().is_leaving(slot) && self.checkpoint.metadata.is_empty() {
            let next = self.take_segment(SegmentKind::Metadata).await?;
            self.checkpoint.metadata.go_on_in(next);
            self.space.borrow_mut().release_reserved(slot);
        }
        Ok(())
    }

    /// Has reclaim move what is live, and waits for that.
    async fn move_live(&self, zones: &[Zone]) -> Result<()> {
        let moves = &self.zone_moves;
        {
            let space = self.space.borrow();
            let segments = zones.iter().flat_map(|zone| zone.first.0..zone.first.0 + zone.count);
            let used = segments.map(SegmentNumber).filter(|number| space.get(*number).is_some());
            moves.asked.borrow_mut().extend(used);
        }
        moves.emptying.set(moves.emptying.get() + 1);
        let target = moves.emptying.get();
        assert!(moves.emptied.get() < target, "rounds end after they begin");
        self.reclaim.request();
        let mut patience = Box::pin(self.reactor.sleep(EMPTYING_NS_MAX));
        while moves.emptied.get() < target {
            self.check_open()?; // A shard that closes gives nothing.
            let changed = Box::pin(moves.changed.notified());
            if let Either::Right(_) = select(changed, patience.as_mut()).await {
                moves.asked.borrow_mut().clear();
                self.keep_leaving();
                return Ok(());
            }
        }
        self.check_open()
    }

    /// Waits while the media discard what became empty, within bounds.
    async fn wait_discards(&self) {
        for _ in 0..DISCARD_PAUSES {
            if !self.space.borrow().is_discarding() {
                return;
            }
            self.reactor.sleep(DISCARD_PAUSE_NS).await;
        }
    }

    /// Tells the pool that zones are not the shard's any more (ZONE-MOVES-3).
    async fn hand_over(&self, zones: Vec<Zone>) -> Result<u64> {
        assert_eq!(self.zone_moves.phase.get(), ZonePhase::Giving, "they do not stay any more"); // ZONE-MOVES-2
        let mut given = 0;
        for zone in zones {
            if let Err(error) = self.zone_moves.source.give_back(zone).await {
                return Err(self.fail_unsure("return of a zone", error));
            }
            self.space.borrow_mut().part(zone.first, zone.count);
            debug_assert!(self.zone_moves.owned.borrow().contains(&zone), "a zone leaves once"); // ZONE-MOVES-3
            self.zone_moves.owned.borrow_mut().retain(|owned| *owned != zone);
            given += 1;
        }
        tracing::debug!(shard = self.config.shard.0, zones = given, "gave zones back to the pool");
        assert_eq!(self.zone_moves.phase.get(), ZonePhase::Giving, "nobody took the rest back"); // ZONE-MOVES-2
        self.zone_moves.phase.set(ZonePhase::Emptying);
        self.keep_leaving(); // The rest of them.
        self.allocation.note_change(); // Who waits may lease what was given.
        Ok(given)
    }

    /// Lets what was about to leave stay, unless the pool is being told; returns whether that gave segments
    /// (ZONE-MOVES-2).
    pub(crate) fn keep_leaving(&self) -> bool {
        let phase = &self.zone_moves.phase;
        if phase.get() != ZonePhase::Emptying {
            return false;
        }
        phase.set(ZonePhase::Idle);
        let stays = self.space.borrow_mut().stay();
        if stays {
            self.allocation.note_change();
        }
        stays
    }

    /// Closes the shard as it does not know which zones it has (ZONE-MOVES-6); on its way out nobody needs to.
    pub(crate) fn fail_unsure(&self, doing: &str, error: Error) -> Error {
        if error.kind() != ErrorKind::Closed {
            self.fail(doing, &error);
        }
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(wanted_zones: u64, spare_zones: u64) -> ZoneState {
        ZoneState { wanted_zones, spare_zones, ..ZoneState::default() }
    }

    #[test]
    fn those_with_most_to_spare_give() {
        let states = [state(3, 0), state(0, 5), state(0, 4), state(0, 0)];
        assert_eq!(plan_zone_moves(&states, 0), [0, 2, 1, 0]);
        assert_eq!(plan_zone_moves(&states, 2), [0, 3, 2, 0], "the pool gets two back");
    }

    #[test]
    fn who_wants_gives_nothing_and_no_one_more_than_it_spares() {
        let states = [state(9, 7), state(0, 1), state(0, 2)];
        assert_eq!(plan_zone_moves(&states, 0), [0, 1, 2]);
        assert_eq!(plan_zone_moves(&[], 9), [0; 0]);
    }
}
