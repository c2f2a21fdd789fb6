//! Gives space back: moves what is live out of sparse segments, so that they can be written again.
//!
//! RECLAIM-1. Victims are durable, applied, and older than the last durable checkpoint.
//! RECLAIM-2. A move counts only if the chunk still lies at its full old place when the survivors' segment is durable:
//!     a chunk that died or moved meanwhile is left alone, so reclaim never overwrites a newer write.
//! RECLAIM-3. A victim is reused only after its survivors are durable and the table names them there.
//! RECLAIM-4. A unit that is whole neither in its segment nor in the segment's copy (`copies.rs`) is lost. It stays
//!     where it is and counts as live, so its segment is not reused, and reads and scrub go on reporting it. Segments
//!     with pages are emptied of the rest all the same, as the rest may have one whole place left; others stay as they
//!     are, as moving the rest would take room and give none back. Either is tried again after a pause, twice as long
//!     each time, as media may have failed only for a time. A chunk counts as lost as long as the page of the chunk
//!     table that tells where it lies cannot be read.
//! RECLAIM-5. Reclaim moves only while packing what may be moved gives a segment: a shard full of live data is not
//!     copied round and round.
//! RECLAIM-6. What is dead and not folded yet is not moved. The segment of the survivors says so, and it is folded when
//!     that is durable; without survivors the next checkpoint folds it, and the victim waits for that.

mod state;

use std::ops::Range;
use std::rc::Rc;

use futures_util::future::select;
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::pointer::PagePtr;
use varve_logstore::format::root::ChainHead;
use varve_logstore::format::segment::SegmentKind;
use varve_logstore::format::summary::{Fingerprint, SummaryEntry, Unit};
use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::{BLOCK_ALIGN, SealSpec, SealedSegment, UNIT_ALIGN};
use varve_logstore::space::{SegmentState, SegmentUsage, Space, unit_space};
use varve_media::SegmentId;
use varve_reactor::Nanos;
use varve_stdx::BufSlice;
use varve_types::{ChunkId, Generation, SegmentNumber, WriteSeq};

use crate::apply::{chunk_entry, raw_unit};
use crate::copies::StoredSegment;
use crate::damage_rests::REST_NS_MIN;
use crate::deaths::PurgeExtent;
use crate::pages::PLACES_AT_ONCE;
use crate::tree::{Fault, Page, PageShape, decode_page};
use crate::trees::{PAGE_ID_FIRST, table_layout};
use crate::{Error, Result, Shard};

pub(crate) use state::Reclaim;

/// Units moved before other tasks get a turn: some 50 µs of work.
const UNITS_PER_TURN: usize = 32;

const _: () = assert!(UNITS_PER_TURN <= PLACES_AT_ONCE, "places are loaded for turns to come");

/// Victims whose survivors may wait in one open segment.
const VICTIMS_OPEN_MAX: usize = 64;

/// As [`LIVE_PERCENT_MAX`], for segments with pages: those are small, so that their entries take more of a full
/// segment.
const PAGES_PERCENT_MAX: u64 = 90;

/// Segments that emptying some with pages has to give: their pages take a part-filled segment of survivors and of the
/// next checkpoint each, so that with fewer nothing might be gained.
const PAGES_GAIN: u64 = 3;

const _: () = assert!(PAGES_GAIN < VICTIMS_OPEN_MAX as u64, "so many may be emptied together");

/// Reclaim may miss new segments until they are one in so many, for a checkpoint costs something as well.
const NEW_PART: u64 = 4;

/// So few are never worth a checkpoint of their own.
const NEW_MIN: u64 = 16;

/// A segment with more of its payload live is not worth moving, whatever its age.
const LIVE_PERCENT_MAX: u64 = 97;

const _: () = assert!(PAGES_PERCENT_MAX < LIVE_PERCENT_MAX && LIVE_PERCENT_MAX < 100);

/// A segment that may be emptied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    live: u64,
    number: SegmentNumber,
    sealed_at: WriteSeq,
}

impl Shard {
    /// Keeps segments free until the shard fails or is dropped.
    pub(crate) async fn run_reclaim(self: Rc<Self>) -> Result<()> {
        loop {
            if self.is_read_only() && self.admission.lane().is_some() {
                return Ok(()); // Only recovery needs room.
            }
            if self.folds_are_asked() {
                self.fold_round(PurgeExtent::All).await?;
                continue;
            }
            if self.zone_moves.emptying_is_asked() {
                self.empty_asked().await?;
                self.zone_moves.note_emptied();
                continue;
            }
            if let Some(damaged) = self.next_repair() {
                self.reclaim_segment(damaged).await?;
                self.seal_survivors().await?;
                self.wake_checkpoint_now(); // It writes what reclaim does not move (COPIES-3).
                continue;
            }
            if self.repair_lacks_room()
                && !self.zone_moves.is_emptying()
                && self.lease_zone().await?
            {
                continue;
            }
            if !self.reclaim_is_due() {
                self.finish_reclaim().await?;
                self.wait_for_work().await;
                continue;
            }
            if self.has_dense_deaths() {
                let _gate = self.apply.tree_gate.take(1).await;
                self.fold_dense().await?;
                continue;
            }
            if self.deaths_mislead() {
                self.fold_round(PurgeExtent::Enough).await?;
                continue;
            }
            if let Some(victim) = self.pick_victim() {
                self.reclaim.is_starved.set(false);
                self.reclaim_segment(victim).await?;
                continue;
            }
            self.finish_reclaim().await?;
            if let Some(victim) = self.pick_victim() {
                self.reclaim_segment(victim).await?;
                continue;
            }
            if self.has_deaths() {
                self.fold_round(PurgeExtent::All).await?; // DEATHS-4
                continue;
            }
            if self.has_deltas() && self.is_short() {
                self.want_sweep();
                self.fold_round(PurgeExtent::All).await?; // DELTAS-7
                continue;
            }
            if !self.reclaim.is_starved.replace(true) {
                self.allocation.note_change(); // Data get more of the reserve now (ALLOCATION-3).
            }
            self.wake_checkpoint_for_space();
            self.wait_for_victims().await?;
        }
    }

    /// Waits until somebody asks for reclaim, or a repair may be tried again (RECLAIM-4).
    async fn wait_for_work(&self) {
        let wanted = Box::pin(self.reclaim.wanted.notified());
        match self.next_try() {
            None => wanted.await,
            Some(at) => {
                let pause = self.reactor.sleep(at.since(self.reactor.now()));
                select(wanted, Box::pin(pause)).await;
            }
        }
    }

    /// When the first of the segments that wait for repair has rested, or room for one is asked for again.
    fn next_try(&self) -> Option<Nanos> {
        let is_wanted = |number, generation| self.awaits_repair(number, generation);
        let now = self.reactor.now();
        let rested = self.reclaim.damaged.next_end(now, is_wanted);
        let asked = self.repair_lacks_room().then(|| now + REST_NS_MIN);
        rested.into_iter().chain(asked).min()
    }

    async fn wait_for_victims(&self) -> Result<()> {
        let wanted = Box::pin(self.reclaim.wanted.notified());
        if !self.has_damaged() {
            wanted.await;
        } else {
            // In place of those that cannot be emptied (RECLAIM-4), whatever the shard's share is.
            self.lease_zone().await?;
            select(wanted, Box::pin(self.reactor.sleep(REST_NS_MIN))).await;
        }
        Ok(())
    }

    /// Whether there are segments that could not be emptied; forgets those that are gone.
    fn has_damaged(&self) -> bool {
        let space = self.space.borrow();
        self.reclaim.damaged.keep_present(|number, generation| {
            space.get(number).is_some_and(|usage| usage.generation == generation)
        })
    }

    /// Whether data wait for segments.
    fn is_short(&self) -> bool {
        self.space.borrow().free_count() <= self.reserves().data
    }

    /// Whether reclaim, which leaves alone what is newer than the last checkpoint (RECLAIM-1), misses much: what was
    /// written last is often overwritten first, and what is left are segments of which more has to be moved.
    pub(crate) fn hides_candidates(&self) -> bool {
        let new = self.reclaim.uncovered_data(self.apply.chain().seq) + self.reclaim.uncovered();
        new >= NEW_MIN
            && new * NEW_PART >= self.space.borrow().stats().segments
            && self.reclaim_is_due()
    }

    fn reclaim_is_due(&self) -> bool {
        let free = self.space.borrow().free_count();
        self.is_grown() && free < self.reserves().free_target || free < self.zone_moves.aim.get()
    }

    /// Empties segments of zones that are about to leave, and lets the open segment lie elsewhere.
    async fn empty_asked(&self) -> Result<()> {
        for number in self.zone_moves.take_asked() {
            if !self.zone_moves.is_emptying() {
                break; // They stay.
            }
            let can_be_emptied = self.space.borrow().get(number).is_some_and(|usage| {
                let waits = self.reclaim.waiting.borrow().contains_key(&number);
                let rests = waits || self.rests_damaged(number, usage.generation);
                usage.state == SegmentState::Sealed && !usage.is_new && !rests
            });
            if can_be_emptied {
                self.reclaim_segment(number).await?;
            }
        }
        let slot = self.reclaim.next_slot();
        if self.reclaim.writer.borrow().is_empty() && self.space.borrow().is_leaving(slot) {
            // Its predecessor names the slot, so only a segment there ends that. This one tells nothing.
            let entry = SummaryEntry::Folded { first: ChunkId::new(1), count: 0 };
            self.reclaim.writer.borrow_mut().push_entry(entry, WriteSeq::ZERO);
        }
        self.seal_survivors().await
    }

    /// Lets the victims go that were emptied, with company or without.
    async fn seal_survivors(&self) -> Result<()> {
        if self.reclaim.writer.borrow().is_empty() {
            return self.finish_reclaim().await;
        }
        self.seal_reclaimed().await
    }

    /// The segment to empty next: a wholly dead one; else one of data, then one with pages, while the emptiest of
    /// either can be packed into fewer (RECLAIM-5).
    fn pick_victim(&self) -> Option<SegmentNumber> {
        let space = self.space.borrow();
        if let Some(number) = self.next_of_batch(&space) {
            return Some(number);
        }
        let (data, with_pages) = (self.emptiest(&space, false), self.emptiest(&space, true));
        let dead = data.iter().chain(&with_pages).find(|candidate| candidate.live == 0);
        if let Some(dead) = dead {
            return Some(dead.number);
        }
        // What pages leave behind is emptier than any data: a few checkpoints scatter it over as many segments.
        // Pages of the table become dirty when they are moved: as few as give something, or a part of what makes a
        // checkpoint due.
        let limit = self.dirty_limit();
        let dirty = self.dirty_bytes();
        let frees_some =
            !self.reclaim.waiting.borrow().is_empty() || !self.reclaim.emptied.borrow().is_empty();
        let checkpoint_first = dirty > limit && frees_some;
        let packable = self.packable(&with_pages, PAGES_GAIN, limit as u64 / 4);
        let live_of = |pages: &[Candidate]| pages.iter().map(|page| page.live).sum::<u64>();
        // The checkpoint that is to empty them has to have room for what is live in them, and survivors for a segment
        // before it.
        let dirtied = usize::try_from(live_of(&with_pages[..packable])).expect("of a few segments");
        let has_room = self.reclaim_floor_with(dirtied) < space.free_count();
        let pays = if checkpoint_first || !has_room { 0 } else { packable };
        let pages = &with_pages[..pays];
        let live = live_of(pages);
        let sparse = live * 2 <= pages.len() as u64 * self.segment_payload();
        if self.packable(&data, 1, u64::MAX) > 0 && !(pays > 0 && sparse) {
            return if self.is_short() { data.first() } else { self.worthiest(&data) }
                .map(|candidate| candidate.number);
        }
        self.reclaim.batch.borrow_mut().extend(pages.iter().map(|candidate| candidate.number));
        self.next_of_batch(&space)
    }

    fn next_of_batch(&self, space: &Space) -> Option<SegmentNumber> {
        let mut batch = self.reclaim.batch.borrow_mut();
        assert!(batch.len() <= VICTIMS_OPEN_MAX, "a batch is of few segments");
        std::iter::from_fn(|| batch.pop()).find(|number| {
            space.get(*number).is_some_and(|usage| self.may_be_victim(*number, usage))
        })
    }

    fn may_be_victim(&self, number: SegmentNumber, usage: &SegmentUsage) -> bool {
        let percent_max = if usage.has_pages { PAGES_PERCENT_MAX } else { LIVE_PERCENT_MAX };
        usage.state == SegmentState::Sealed
            && !usage.is_new // RECLAIM-1
            && u64::from(usage.live_bytes) * 100 <= self.segment_payload() * percent_max
            && !self.rests_damaged(number, usage.generation)
            && !self.reclaim.waiting.borrow().contains_key(&number)
    }

    /// Whether a segment could not be emptied a while ago (RECLAIM-4).
    pub(crate) fn rests_damaged(&self, number: SegmentNumber, generation: Generation) -> bool {
        self.reclaim.damaged.is_resting(SegmentId { number, generation }, self.reactor.now())
    }

    /// Leaves a segment alone for a while that cannot be emptied (RECLAIM-4).
    fn rest_damaged(&self, id: SegmentId, error: &Error) {
        tracing::error!(
            shard = self.config.shard.0,
            segment = id.number.0,
            %error,
            "segment kept, for what is lost in it"
        );
        self.reclaim.damaged.begin(id, self.reactor.now());
    }

    /// The emptiest segments, emptiest first.
    fn emptiest(&self, space: &Space, has_pages: bool) -> Vec<Candidate> {
        let fitting = space.iter().filter(|(number, usage)| {
            usage.has_pages == has_pages && self.may_be_victim(*number, usage)
        });
        let mut emptiest: Vec<Candidate> = fitting
            .map(|(number, usage)| Candidate {
                live: u64::from(usage.live_bytes),
                number,
                sealed_at: usage.sealed_at,
            })
            .collect();
        if emptiest.len() > VICTIMS_OPEN_MAX {
            emptiest.select_nth_unstable(VICTIMS_OPEN_MAX);
            emptiest.truncate(VICTIMS_OPEN_MAX);
        }
        emptiest.sort_unstable();
        emptiest
    }

    /// How many of the emptiest segments fit into `gain` fewer, at most as many as hold `live_max` bytes if that are
    /// enough; 0 when none do.
    fn packable(&self, emptiest: &[Candidate], gain: u64, live_max: u64) -> usize {
        debug_assert!(emptiest.is_sorted(), "the emptiest come first"); // RECLAIM-5
        // What units of different alignment leave free at worst.
        let packed = self.segment_payload() - u64::from(unit_space(BLOCK_ALIGN));
        let (mut sum, mut packable) = (0, 0);
        for (count, candidate) in (1..).zip(emptiest) {
            sum += candidate.live;
            if packable > 0 && sum > live_max {
                break;
            }
            if sum <= (count as u64).saturating_sub(gain) * packed {
                packable = count;
            }
        }
        assert!(packable <= emptiest.len(), "no more are packed than there are"); // RECLAIM-5
        packable
    }

    /// The one whose move gives most for its cost: emptiness times age over what is copied.
    fn worthiest<'c>(&self, candidates: &'c [Candidate]) -> Option<&'c Candidate> {
        debug_assert!(candidates.len() <= VICTIMS_OPEN_MAX);
        let (now, payload) = (self.admission.next_wseq().get(), self.segment_payload());
        let score = |candidate: &Candidate| {
            let age = now.saturating_sub(candidate.sealed_at.get()) + 1;
            let dead = payload.saturating_sub(candidate.live);
            u128::from(dead) * u128::from(age) * 1024 / u128::from(payload + candidate.live)
        };
        candidates.iter().max_by_key(|candidate| score(candidate))
    }

    async fn reclaim_segment(&self, number: SegmentNumber) -> Result<()> {
        assert!(self.reclaim.dead.borrow().is_empty(), "one victim is emptied at a time"); // RECLAIM-6
        let generation = {
            let mut space = self.space.borrow_mut();
            space.victim(number);
            space.get(number).expect("victims are in use").generation
        };
        let id = SegmentId { number, generation };
        tracing::trace!(?id, "victim");
        let moved = self.move_survivors(id).await;
        if moved.is_ok() {
            self.log_dead().await?;
        }
        self.reclaim.dead.take();
        match moved {
            Ok(_) if self.space.borrow().get(number).is_some_and(|usage| usage.live_bytes == 0) => {
                self.leave_victims(&[number]); // RECLAIM-3: nothing was alive in it.
            }
            Ok(None) => self.reclaim.emptied.borrow_mut().push(number),
            Ok(Some(lost)) => {
                self.rest_damaged(id, &lost);
                self.reclaim.emptied.borrow_mut().push(number);
                // What was moved may have one whole place left, until this is durable and a root names it.
                self.seal_survivors().await?;
                self.wake_checkpoint_now();
            }
            Err(error @ (Error::ChunkCorrupt { .. } | Error::SegmentDamaged { .. })) => {
                self.rest_damaged(id, &error);
                self.reclaim.emptied.borrow_mut().push(number);
            }
            Err(error) => return Err(error),
        }
        if self.reclaim.emptied.borrow().len() >= VICTIMS_OPEN_MAX
            || self.reclaim.writer.borrow().is_empty()
        {
            self.finish_reclaim().await?;
        }
        Ok(())
    }

    /// Copies live units of a segment to the open reclaimed segment. Returns why one was left behind, if any was
    /// (RECLAIM-4).
    async fn move_survivors(&self, id: SegmentId) -> Result<Option<Error>> {
        let goes_on = self.space.borrow().get(id.number).is_some_and(|usage| usage.has_pages);
        let mut lost = None;
        let StoredSegment { bytes, entries } = self.read_segment_to_move(id).await?;
        self.counters.add_reclaim_read(bytes.len());
        for (index, entry) in entries.iter().enumerate() {
            self.prefetch_moved(&entries[index..], index).await;
            let moved = match entry {
                SummaryEntry::Data { chunk, unit, fingerprint, .. }
                | SummaryEntry::Move { chunk, unit, fingerprint, .. } => {
                    self.move_chunk(id, *chunk, unit, *fingerprint, &bytes).await
                }
                SummaryEntry::Page { chunk, unit } => {
                    self.move_chunk(id, *chunk, unit, None, &bytes).await
                }
                SummaryEntry::TablePage { level, unit } => {
                    self.touch_table_page(id, *level, unit, &bytes).await
                }
                // Blobs are written anew by every checkpoint; keys and facts live in the trees.
                SummaryEntry::UsageBlob { .. }
                | SummaryEntry::DeathBlob { .. }
                | SummaryEntry::DeltaBlob { .. }
                | SummaryEntry::KeyPut { .. }
                | SummaryEntry::KeyDelete { .. }
                | SummaryEntry::Reference { .. }
                | SummaryEntry::ForeignReference { .. }
                | SummaryEntry::Grant { .. }
                | SummaryEntry::Trim { .. }
                | SummaryEntry::Zero { .. }
                | SummaryEntry::StreamDrop { .. }
                | SummaryEntry::Cut { .. }
                | SummaryEntry::FreedIds { .. }
                | SummaryEntry::Folded { .. } => Ok(()),
            };
            match moved {
                Err(error @ Error::SegmentDamaged { .. }) if goes_on => lost = lost.or(Some(error)),
                moved => moved?,
            }
            if index % UNITS_PER_TURN == UNITS_PER_TURN - 1 {
                self.reactor.yield_now().await;
            }
        }
        Ok(lost)
    }

    /// Where a group begins at `index`: loads the places of the chunks in it.
    async fn prefetch_moved(&self, rest: &[SummaryEntry], index: usize) {
        if index.is_multiple_of(PLACES_AT_ONCE) && self.apply.wants_prefetch() {
            let group = rest.iter().take(PLACES_AT_ONCE);
            self.prefetch_places(group.filter_map(moved_chunk)).await;
        }
    }

    async fn move_chunk(
        &self,
        from: SegmentId,
        chunk: ChunkId,
        unit: &Unit,
        fingerprint: Option<Fingerprint>,
        segment: &BufSlice,
    ) -> Result<()> {
        let place = self.with_pages(|trees| trees.chunk(chunk)).await;
        let place = place.map_err(|error| as_lost(from, error))?;
        let here =
            |place: &ChunkEntry| place.segment == from && place.offset_512 == unit.offset_512;
        let Some(place) = place.filter(here) else { return Ok(()) };
        if !place.shared && self.trees.borrow().deaths.contains_for_sure(chunk) {
            self.reclaim.dead.borrow_mut().push(chunk); // RECLAIM-6, DEATHS-1
            return Ok(());
        }
        let bytes = self.whole_unit(from, segment, unit).await;
        let is_same = place.checksum == unit.checksum && place.stored_len == unit.stored_len;
        let Some(bytes) = bytes.filter(|_| is_same) else {
            self.reduce.dedup.borrow_mut().invalidate(chunk);
            return Err(Error::SegmentDamaged {
                segment: from.number,
                reason: format!("chunk {chunk} at {} does not match its checksum", unit.offset()),
            });
        };
        let align =
            if unit.stored_len.is_multiple_of(BLOCK_ALIGN) { BLOCK_ALIGN } else { UNIT_ALIGN };
        if !self.reclaim.writer.borrow().fits(unit.stored_len) {
            self.seal_reclaimed().await?;
        }
        let mut writer = self.reclaim.writer.borrow_mut();
        assert_ne!(writer.slot(), from.number, "survivors lie elsewhere"); // RECLAIM-3
        let offset = writer.push_unit(&bytes, align);
        let moved = Unit {
            codec: place.codec,
            logical_512: place.logical_512,
            ..raw_unit(offset, unit.stored_len, u64::from(unit.checksum))
        };
        let age =
            self.space.borrow().get(from.number).map_or(WriteSeq::ZERO, |usage| usage.sealed_at);
        let from_offset_512 = unit.offset_512;
        let entry = SummaryEntry::Move { chunk, from, from_offset_512, unit: moved, fingerprint };
        writer.push_entry(entry, age);
        if let Some(fingerprint) = fingerprint {
            self.reduce.dedup.borrow_mut().learn_place(fingerprint, writer.slot());
        }
        self.counters.add_moved(unit.stored_len);
        Ok(())
    }

    /// A page of the chunk table moves by being changed: the next checkpoint writes it elsewhere.
    async fn touch_table_page(
        &self,
        id: SegmentId,
        level: u8,
        unit: &Unit,
        segment: &BufSlice,
    ) -> Result<()> {
        let ptr = PagePtr::Location(unit.location(id));
        let fault = Fault { ptr, shape: PageShape::Tree { layout: table_layout(), level } };
        let bytes = self.whole_unit(id, segment, unit).await;
        let Some(page) = bytes.and_then(|bytes| decode_page(&bytes, fault).ok()) else {
            return Err(Error::SegmentDamaged {
                segment: id.number,
                reason: format!("table page at {} does not match its checksum", unit.offset()),
            });
        };
        let key = table_key(&page, level);
        let _gate = self.apply.tree_gate.take(1).await;
        self.with_pages(|trees| {
            let (cache, names) = (&mut trees.cache, &mut trees.table_names);
            match trees.table.touch_page(cache, names, &key, level, ptr) {
                Err(needed) if needed == fault => {
                    cache.insert(ptr, page.clone());
                    trees.table.touch_page(cache, names, &key, level, ptr)?;
                }
                outcome => {
                    outcome?;
                }
            }
            Ok(())
        })
        .await
        .map_err(|error| as_lost(id, error))
    }

    /// Seals the open reclaimed segment, and lets the victims it emptied go; a single victim waits for company, as
    /// sealing would take as many segments as it gives.
    pub(crate) async fn finish_reclaim(&self) -> Result<()> {
        if self.reclaim.writer.borrow().is_empty() {
            let emptied = self.reclaim.emptied.take();
            if !emptied.is_empty() {
                self.leave_victims(&emptied); // Wakes those who wait for segments, who in turn ask for reclaim.
            }
            return Ok(());
        }
        if self.reclaim.emptied.borrow().len() < 2 {
            return Ok(());
        }
        self.seal_reclaimed().await
    }

    /// Says in the open segment which ranges were folded (DEATHS-6). Without survivors it may stay open for long: the
    /// next checkpoint tells as well.
    pub(crate) async fn tell_ranges(&self, ranges: Vec<Range<u64>>) -> Result<()> {
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            if !self.reclaim.writer.borrow().fits(0) {
                self.seal_reclaimed().await?;
            }
            let (first, count) = (ChunkId::new(range.start), range.end - range.start);
            let entry = SummaryEntry::Folded { first, count };
            self.reclaim.writer.borrow_mut().push_entry(entry, WriteSeq::ZERO);
        }
        let folded = self.reclaim.purge_rounds.ranges.get();
        assert!(self.reclaim.told.get() <= folded, "what is told was folded"); // DEATHS-6
        self.reclaim.told.set(folded);
        Ok(())
    }

    /// Says in the open segment what was dead in a victim (RECLAIM-6).
    async fn log_dead(&self) -> Result<()> {
        let mut dead = self.reclaim.dead.take();
        if self.reclaim.writer.borrow().is_empty() {
            self.reclaim.left.borrow_mut().append(&mut dead);
        }
        dead.sort_unstable();
        for (first, count) in runs(&dead) {
            if !self.reclaim.writer.borrow().fits(0) {
                self.seal_reclaimed().await?;
            }
            let entry = SummaryEntry::FreedIds { first, count };
            self.reclaim.writer.borrow_mut().push_entry(entry, WriteSeq::ZERO);
        }
        Ok(())
    }

    fn leave_victims(&self, victims: &[SegmentNumber]) {
        let mut space = self.space.borrow_mut();
        for number in victims {
            space.victim_done(*number); // RECLAIM-3
            match space.get(*number) {
                // Pages of the table and usage blobs leave with the next checkpoint.
                Some(usage) if usage.live_bytes > 0 => {
                    self.reclaim.waiting.borrow_mut().insert(*number, usage.generation);
                }
                _ => self.reclaim.count_freed(1),
            }
        }
        drop(space);
        self.settle_freed();
    }

    /// Ends the wait of victims for a checkpoint: it is durable. What is live in one still is lost (RECLAIM-4).
    pub(crate) fn leave_waiting(&self) {
        let waiting = self.reclaim.waiting.take();
        let space = self.space.borrow();
        let freed = waiting.iter().filter(|(number, generation)| {
            let usage = space.get(**number).filter(|usage| usage.generation == **generation);
            usage.is_none_or(|usage| usage.live_bytes == 0)
        });
        self.reclaim.count_freed(freed.count() as u64);
    }

    async fn seal_reclaimed(&self) -> Result<()> {
        assert!(!self.reclaim.writer.borrow().is_empty(), "an empty segment is never sealed");
        let next_slot = self.take_segment(SegmentKind::Reclaimed).await?;
        let spec = SealSpec {
            generation: self.allocation.fresh_generation(),
            next_slot,
            lane: self.apply.lane(),
            lane_mount: self.drain.lane_mount.get(),
            witness: self.reclaim.witness(),
        };
        let sealed = self.reclaim.writer.borrow_mut().seal(spec);
        self.space.borrow_mut().opened(sealed.id, sealed.wseq_last);
        tracing::trace!(id = ?sealed.id, link = ?sealed.link, entries = sealed.entries.len(), "reclaimed segment sealed");
        self.counters.add_reclaimed_segment(&sealed);
        let emptied = self.reclaim.emptied.take();
        let told = self.reclaim.told.get();
        let copy = if has_pages(&sealed.entries) {
            self.begin_copy(sealed.id, &sealed.bytes)
        } else {
            None
        };
        let put = self.spawn_put(sealed.id, sealed.bytes.clone());
        if !planted(Bug::VictimBeforeSurvivors) {
            put.await?; // RECLAIM-3
        }
        assert!(sealed.link.seq > self.reclaim.witness(), "the chain only grows");
        self.reclaim.witness.set(sealed.link.seq);
        self.tell_witnesses();
        {
            let _gate = self.apply.tree_gate.take(1).await;
            let dead = self.apply_moves(sealed.id, sealed.link, &sealed.entries).await?;
            self.fold_freed(dead).await?;
        }
        self.space.borrow_mut().confirm_folds(told);
        self.leave_victims(&emptied);
        if let Some(copy) = copy {
            self.wait_copy(copy).await;
        }
        let SealedSegment { bytes, .. } = sealed;
        self.reclaim.writer.borrow_mut().recycle(bytes);
        Ok(())
    }

    /// Lets the table name survivors at their new place (RECLAIM-2). Returns what the segment calls dead: the caller
    /// folds it (RECLAIM-6), and holds the tree gate, or is recovery.
    pub(crate) async fn apply_moves(
        &self,
        id: SegmentId,
        head: ChainHead,
        entries: &[SummaryEntry],
    ) -> Result<Vec<ChunkId>> {
        assert!(self.trees_are_held(), "the table changes under its gate"); // RECLAIM-2
        assert_eq!(
            head.seq,
            self.reclaim.chain().seq + 1,
            "reclaimed segments are applied in order"
        );
        let mut dead = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            self.prefetch_moved(&entries[index..], index).await;
            let (chunk, from, from_offset_512, unit) = match entry {
                SummaryEntry::Move { chunk, from, from_offset_512, unit, .. } => {
                    (chunk, from, from_offset_512, unit)
                }
                SummaryEntry::FreedIds { first, count } => {
                    dead.extend((first.get()..first.get() + count).map(ChunkId::new));
                    continue;
                }
                SummaryEntry::Folded { .. } => continue, // It is.
                _ => unreachable!("{entry:?} is never in a reclaimed segment"),
            };
            let to = chunk_entry(id, unit);
            let from = ChunkEntry { segment: *from, offset_512: *from_offset_512, ..to };
            self.with_pages(|trees| {
                let moved = trees.move_chunk(&mut self.space.borrow_mut(), *chunk, &from, &to)?;
                if moved && chunk.get() >= PAGE_ID_FIRST {
                    self.space.borrow_mut().note_pages(id.number);
                }
                Ok(())
            })
            .await?;
            if index % UNITS_PER_TURN == UNITS_PER_TURN - 1 {
                self.reactor.yield_now().await;
            }
        }
        self.reclaim.chain.set(head);
        self.space.borrow_mut().sealed(id);
        Ok(dead)
    }
}

/// Why something in a segment cannot be moved: as if it were lost where a page of the table that tells of it cannot be
/// read (RECLAIM-4). Only changes of such a page have to close the shard.
fn as_lost(segment: SegmentId, error: Error) -> Error {
    if !error.is_page_unreadable() {
        return error;
    }
    let reason = format!("the chunk table cannot tell what is live in it: {error}");
    Error::SegmentDamaged { segment: segment.number, reason }
}

/// Whether metadata pages are among what was moved.
fn has_pages(entries: &[SummaryEntry]) -> bool {
    entries.iter().filter_map(moved_chunk).any(|chunk| chunk.get() >= PAGE_ID_FIRST)
}

/// The chunk that an entry places in its segment.
fn moved_chunk(entry: &SummaryEntry) -> Option<ChunkId> {
    match entry {
        SummaryEntry::Data { chunk, .. }
        | SummaryEntry::Move { chunk, .. }
        | SummaryEntry::Page { chunk, .. } => Some(*chunk),
        _ => None,
    }
}

/// Ids that follow each other: the first of them and how many. `ids` ascend.
pub(crate) fn runs(ids: &[ChunkId]) -> impl Iterator<Item = (ChunkId, u64)> {
    let runs = ids.chunk_by(|id, next| id.next() == *next);
    runs.map(|run| (run[0], run.len() as u64))
}

/// A key that belongs to a page of the chunk table.
fn table_key(page: &Page, level: u8) -> Vec<u8> {
    let Page::Tree(page) = page else { unreachable!("decoded as a page of the table") };
    assert!(!page.is_empty(), "no page is empty"); // BT2
    // Above leaves the first bound stands for minus infinity; any later one is inside the page.
    let index = usize::from(level > 0 && page.len() > 1);
    page.key(index).to_vec()
}
