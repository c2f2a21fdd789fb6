//! Reservations: space that a shard promises to a stream, whatever others write. `docs/rfcs/0019-reservations.md` has
//! the arithmetic.
//!
//! ```text
//!  room found ──▶ promised, from here on stored as it is ──▶ key durable ──▶ applied ──▶ floor taken
//!    ──▶ key durable: it counts
//! ```
//!
//! RESERVATIONS-1. What is promised is what all blocks of the stream on this shard take, stored as they are, with the
//!     pages that name them. A block counts as held, and so is promised no more, while its chunk has an id from
//!     the **floor** of the stream on.
//! RESERVATIONS-2. While something is promised to a stream its blocks are neither compressed nor deduplicated, nor
//!     offered to others. So a chunk from the floor on takes what was promised for it, and goes when its block is
//!     overwritten.
//! RESERVATIONS-3. A cut raises the floor above all chunks there are, as the copy may hold them: from the moment the
//!     cut is admitted nothing counts as held. It is refused while so much could not be promised anew.
//! RESERVATIONS-4. Others are refused so early that what is promised and not held, the pages of a checkpoint and a
//!     write that overwrites always fit beside them. Their own writes under way count double, as each block may bring a
//!     page.
//! RESERVATIONS-5. Whoever was promised something waits for what is on its way to become free, where others are
//!     refused.
//! RESERVATIONS-6. What is held is never counted too high: after an opening it is counted from nothing, and others wait
//!     for the count before they are refused.
//! RESERVATIONS-7. The promise is a key of the shard: it is there before the first write is admitted after an opening,
//!     and before records of the lane are drained again.

mod state;

use std::ops::ControlFlow;
use std::rc::Rc;

use varve_logstore::format::reservation::ReservationRecord;
use varve_logstore::planted::{Bug, planted};
use varve_reactor::Nanos;
use varve_types::{BlockIndex, ChunkId, ErrorKind, StreamId};

use crate::allocation::with_pages;
use crate::bypass::BYPASS_BYTES_MAX;
use crate::mark::MarkWish;
use crate::reservations::state::{BLOCK_SPACE, Count, Promise};
use crate::reserves::Reserves;
use crate::tree::{MAP_SLOTS, Scan, WalkItem};
use crate::trees::{Stop, reservation_key, stream_of_reservation};
use crate::{Error, Result, Shard};

pub(crate) use state::Reservations;
pub use state::{Reservation, ReservationSize};

/// What is kept for writes to streams with promises that overwrite: what they overwrite is free only afterwards. Two of
/// the largest.
const OVERWRITE_SPACE: u64 = 2 * with_pages(BYPASS_BYTES_MAX as u64);

/// Pages or slots looked at before other tasks get a turn: some 50 µs of work.
const STEP: usize = 1024;

const _: () = assert!(STEP >= MAP_SLOTS, "a step gets past a page");

/// How long a write waits for promised space to become free, and others for a count, in ns.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Pause between looks, in ns.
const LOOK_PAUSE_NS: u64 = 1_000_000;

const _: () = assert!(LOOK_PAUSE_NS < PATIENCE_NS, "who waits looks again");

/// Since when a write waits.
#[derive(Default)]
pub(crate) struct Deadline(Option<Nanos>);

impl Shard {
    /// What is used or spoken for where something is promised, and what may be (RESERVATIONS-4).
    pub(crate) fn spoken_for(&self) -> (u64, u64) {
        let room = self.room();
        let dirty = room.dirty.max(self.reserves().dirty_limit as u64);
        let promised = self.reservations.outstanding_bytes(None);
        let promised = if planted(Bug::OthersTakePromised) { 0 } else { promised };
        let used = [room.live, 2 * room.under_way, dirty, promised, OVERWRITE_SPACE];
        (used.into_iter().fold(0, u64::saturating_add), room.usable)
    }

    /// Whether `bytes` more of a stream's data fit (ALLOCATION-2, RESERVATIONS-4).
    pub(crate) fn takes_from(&self, stream: StreamId, bytes: u64) -> bool {
        let room = self.room();
        if self.reservations.is_empty() {
            return room.takes(bytes);
        }
        if self.reservations.promises_to(stream) {
            let others = self.reservations.outstanding_bytes(Some(stream));
            return (room.committed + with_pages(bytes)).saturating_add(others) <= room.usable;
        }
        let (used, usable) = self.spoken_for();
        used.saturating_add(2 * bytes) <= usable
    }

    /// Waits a moment where waiting may help a write that finds no room: one to which space is promised
    /// (RESERVATIONS-5), or one that might find room once all is counted (RESERVATIONS-6). False when there is nothing
    /// to wait for, or it has taken too long.
    pub(crate) async fn wait_for_promised(
        &self,
        stream: StreamId,
        patience: &mut Deadline,
    ) -> Result<bool> {
        let is_promised = self.reservations.promises_to(stream);
        if !is_promised && !self.reservations.is_counting() {
            return Ok(false);
        }
        let now = self.reactor.now();
        if self.reservations.is_counting() {
            patience.0 = None; // Until all is counted more may be promised than is owed.
        }
        let began = *patience.0.get_or_insert(now);
        if now.0.saturating_sub(began.0) > PATIENCE_NS {
            if is_promised {
                tracing::error!(
                    shard = self.config.shard.0,
                    stream = stream.get(),
                    "promised space did not become free"
                );
            }
            return Ok(false);
        }
        // What is under way may do. Only then is it worth a checkpoint, and a mark pass, which costs a walk over all
        // maps.
        let is_quiet = self.admission.credits.data.taken() == 0;
        let may_mark =
            self.mark_wish() != MarkWish::None || self.reduce.dedup.borrow().kept_bytes() > 0;
        let _awaiting = (is_promised && is_quiet && may_mark).then(|| self.mark.await_pass());
        if is_quiet || self.dirty_bytes() > self.dirty_limit() / 2 {
            self.wake_checkpoint_for_space();
        }
        self.reactor.sleep(LOOK_PAUSE_NS).await;
        self.check_open()?;
        Ok(true)
    }

    /// Promises a stream space for all of its blocks on this shard, more or less than before if something is promised
    /// already; `is_fresh` says that it was never written. What a stream holds that was written before its first
    /// promise does not count (RESERVATIONS-1). Durable on return, and counts from then on.
    ///
    /// # Errors
    /// `NoSpace` when so much could not be promised: nothing is changed then. `Unavailable` when the shard closed: it
    /// may be promised.
    pub async fn reserve(
        &self,
        stream: StreamId,
        size: ReservationSize,
        is_fresh: bool,
    ) -> Result<()> {
        self.check_open()?;
        let before = self.reservations.promises.borrow().get(&stream).copied();
        let before = before.filter(|before| before.floor < ChunkId::MAX); // Else it was not finished.
        if before.is_some_and(|before| before.size == size) {
            return Ok(());
        }
        self.promise(stream, size, is_fresh).await?;
        self.store_promise(stream).await?;
        if before.is_some() {
            return Ok(());
        }
        // Its key is in the tree, and all that was admitted before it is drained: recovery knows of it whatever it
        // drains (RESERVATIONS-7).
        self.apply_acknowledged().await?;
        if is_fresh {
            return Ok(());
        }
        {
            let _gate = self.drain.gate.take(1).await;
            let floor = self.trees.borrow().next_chunk;
            self.reservations.change(stream, |promise| promise.floor = floor);
        }
        self.store_promise(stream).await
    }

    /// Notes a promise in the step in which there is room for it.
    async fn promise(&self, stream: StreamId, size: ReservationSize, is_fresh: bool) -> Result<()> {
        loop {
            let before = self.reservations.promises.borrow().get(&stream).copied();
            let floor = if is_fresh { ChunkId::ZERO } else { ChunkId::MAX };
            let fresh = Promise { size, floor, held: 0, count: Count::Done, cuts: 0 };
            let promise = before.map_or(fresh, |before| Promise { size, ..before });
            let outstanding = before.map_or(0, |before| before.outstanding());
            let needed = promise.outstanding().saturating_sub(outstanding);
            if needed == 0 || self.can_promise(needed) {
                self.reservations.promises.borrow_mut().insert(stream, promise);
                return Ok(());
            }
            self.make_room_to_promise(needed).await?;
        }
    }

    fn can_promise(&self, bytes: u64) -> bool {
        let (used, usable) = self.spoken_for();
        used.saturating_add(bytes) <= usable
    }

    /// Makes more room for a promise of so much, or refuses it.
    async fn make_room_to_promise(&self, needed_bytes: u64) -> Result<()> {
        self.check_open()?;
        if self.may_hide_dead() {
            self.fold_deaths().await?; // DEATHS-4
            if self.can_promise(needed_bytes) {
                return Ok(());
            }
        }
        let mut patience = Deadline::default();
        while self.reservations.is_counting() && !self.can_promise(needed_bytes) {
            if !self.wait_for_promised(StreamId::ZERO, &mut patience).await? {
                break;
            }
        }
        // Zones are taken only where they help: other shards want them as well (ZONE-MOVES-7).
        let lease_helps = || {
            let (used, _) = self.spoken_for();
            used.saturating_add(needed_bytes) <= self.usable_once_grown()
        };
        let helped = lease_helps();
        if (helped && self.lease_zone().await?) || self.can_promise(needed_bytes) {
            return Ok(());
        }
        self.request_space();
        let fits = || self.can_promise(needed_bytes);
        if self.room_from_others(fits, lease_helps).await? {
            return Ok(());
        }
        let (used, usable) = self.spoken_for();
        let usable = if helped { usable } else { self.usable_once_grown() };
        Err(Error::CannotReserve { needed_bytes, free_bytes: usable.saturating_sub(used) })
    }

    /// What the shard could take if it had all zones that nobody has.
    fn usable_once_grown(&self) -> u64 {
        let segments = self.space.borrow().stats().segments;
        let grown = if self.lacks_room() {
            segments
        } else {
            segments + self.zone_moves.source.lendable_segments()
        };
        let segment_bytes = self.media.segments.geometry().segment_bytes;
        Reserves::new(&self.config, grown, segment_bytes).usable_bytes
    }

    async fn store_promise(&self, stream: StreamId) -> Result<()> {
        let promise = self.reservations.promises.borrow().get(&stream).copied();
        let Some(Promise { size, floor, .. }) = promise else { return Ok(()) };
        let ReservationSize { blocks, pages } = size;
        let mut value = [0; ReservationRecord::LEN];
        ReservationRecord { blocks, pages, floor }.encode(&mut value);
        self.change_stored_key(reservation_key(stream).to_vec(), Some(&value)).await
    }

    /// Promises a stream nothing any more. Durable on return.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed: it may still be promised.
    pub async fn release_reservation(&self, stream: StreamId) -> Result<()> {
        self.check_open()?;
        if !self.reservations.promises_to(stream) {
            return Ok(());
        }
        self.change_stored_key(reservation_key(stream).to_vec(), None).await?;
        self.reservations.remove(stream);
        Ok(())
    }

    /// What is promised, by stream.
    #[must_use]
    pub fn reservations(&self) -> Vec<Reservation> {
        self.reservations.states()
    }

    /// Makes room for what is to be promised anew once streams are cut (RESERVATIONS-3).
    ///
    /// # Errors
    /// `NoSpace` when there is none: a cut is refused then.
    pub async fn prepare_cut(&self, sources: &[StreamId]) -> Result<()> {
        while let Err(Error::CannotReserve { needed_bytes, .. }) =
            self.reservations_bear_cut(sources)
        {
            self.make_room_to_promise(needed_bytes).await?;
        }
        Ok(())
    }

    /// Refuses a cut after which what is promised to its sources could not be kept (RESERVATIONS-3).
    pub(crate) fn reservations_bear_cut(&self, sources: &[StreamId]) -> Result<()> {
        let held: Option<u64> = {
            let promises = self.reservations.promises.borrow();
            let held = sources.iter().filter_map(|source| promises.get(source)).map(|it| it.held);
            held.reduce(u64::saturating_add)
        };
        let Some(held) = held else { return Ok(()) };
        let needed_bytes = held.saturating_mul(BLOCK_SPACE);
        if self.can_promise(needed_bytes) {
            return Ok(());
        }
        let (used, usable) = self.spoken_for();
        Err(Error::CannotReserve { needed_bytes, free_bytes: usable.saturating_sub(used) })
    }

    /// Reads what is promised, of which nothing counts as held until it is counted (RESERVATIONS-6, RESERVATIONS-7).
    pub(crate) async fn load_reservations(&self) -> Result<()> {
        assert!(self.admission.lane().is_none(), "they are there before the first write"); // RESERVATIONS-7
        if planted(Bug::PromisesForgotten) {
            return Ok(());
        }
        let (records, damaged) = self.stored_promises().await?;
        if let Some(error) = damaged {
            // Data come first: what else the shard holds can be read.
            tracing::error!(shard = self.config.shard.0, %error, "reservations are lost");
        }
        let promise = |(stream, record)| {
            let ReservationRecord { blocks, pages, floor } = record;
            let size = ReservationSize { blocks, pages };
            (stream, Promise { size, floor, held: 0, count: Count::To(BlockIndex::ZERO), cuts: 0 })
        };
        *self.reservations.promises.borrow_mut() = records.into_iter().map(promise).collect();
        self.reservations.count_wanted.notify_one();
        Ok(())
    }

    /// Lets nothing wait for streams to which something was promised when the root was stored: replay must not see less
    /// than the shard did (DELTAS-2, DELTAS-6).
    pub(crate) async fn load_exact_streams(&self) -> Result<()> {
        assert!(self.admission.lane().is_none(), "replay goes by what the root says"); // DELTAS-2
        let (records, damaged) = self.stored_promises().await?;
        let forbid = || self.trees.borrow_mut().deltas.forbid();
        if damaged.is_some() {
            forbid(); // Then all is exact, and replay sees more than the shard did.
        }
        for (stream, _) in records {
            if self.trees.borrow().deltas.first_in(stream, BlockIndex::ALL).is_some() {
                forbid(); // The shard never left that.
                self.settle_stream(stream).await?;
            }
            self.trees.borrow_mut().deltas.set_exact(stream, true);
        }
        Ok(())
    }

    /// What the key tree says of promises, and what is wrong with it.
    async fn stored_promises(&self) -> Result<(Vec<(StreamId, ReservationRecord)>, Option<Error>)> {
        let mut records = Vec::new();
        let mut from = reservation_key(StreamId::ZERO).to_vec();
        let mut damaged = None;
        loop {
            let scan = self
                .with_pages(|trees| {
                    let visit = |key: &[u8], value: &[u8]| {
                        let Some(stream) = stream_of_reservation(key) else {
                            return ControlFlow::Break(());
                        };
                        match ReservationRecord::decode(value) {
                            Ok(record) => records.push((stream, record)),
                            Err(error) => damaged = Some(Error::from(error)),
                        }
                        ControlFlow::Continue(())
                    };
                    Ok(trees.keys.scan(&trees.cache, &from, STEP, visit)?)
                })
                .await;
            match scan {
                Ok(Scan::More(next)) if stream_of_reservation(&next).is_some() => {
                    assert!(next > from, "a scan goes on");
                    from = next;
                }
                Ok(_) => break,
                // What media cannot read, or read wrongly.
                Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Internal) => {
                    damaged = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok((records, damaged))
    }

    /// Counts what is held wherever that is not known.
    pub(crate) async fn run_counts(self: Rc<Self>) -> Result<()> {
        loop {
            while let Some(stream) = self.reservations.next_to_count() {
                if let Err(error) = self.count_some(stream).await {
                    self.check_running()?;
                    // What cannot be read does not count as held: others are refused earlier, that is all.
                    tracing::warn!(stream = stream.get(), %error, "cannot count what is held");
                    self.reservations.change(stream, |promise| promise.count = Count::Done);
                }
                self.reactor.yield_now().await;
            }
            self.reservations.count_wanted.notified().await;
        }
    }

    /// Counts the next blocks of a stream, in one step with the look at them.
    async fn count_some(&self, stream: StreamId) -> Result<()> {
        self.with_pages(|trees| -> std::result::Result<(), Stop> {
            let exists = trees.open_stream(stream)?;
            let ceiling = trees.chunk_ceiling(stream);
            let mut promises = self.reservations.promises.borrow_mut();
            let Some(promise) = promises.get_mut(&stream) else { return Ok(()) };
            let Count::To(from) = promise.count else { return Ok(()) };
            promise.floor = promise.floor.max(ceiling); // RESERVATIONS-3
            let (floor, me, mut found) = (promise.floor, self.config.shard, 0);
            let mut count = |item| match item {
                WalkItem::Data { slot, .. } if slot.shard() == me && slot.id() >= floor => {
                    found += 1
                }
                WalkItem::Data { .. } | WalkItem::Page { .. } | WalkItem::Known { .. } => {}
            };
            let next = match trees.streams.get(&stream).filter(|_| exists) {
                Some(it) => it.map.walk(&trees.cache, from, STEP, |_| false, &mut count)?,
                None => None,
            };
            assert!(next.is_none_or(|next| next > from), "a count goes on"); // RESERVATIONS-6
            promise.held += found;
            promise.count = next.map_or(Count::Done, Count::To);
            Ok(())
        })
        .await
    }
}
