//! What mover and scrub of one thread share: its media, the contents of its zones, the list of what is to be done, and
//! what it tells of itself.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use varve_media::{HeldSegment, SegmentId, ZoneContents};
use varve_reactor::{Nanos, Notify, Reactor};
use varve_stdx::BufSlice;
use varve_types::{Generation, SegmentNumber, ShardId};

use crate::budget::RepairUrgency;
use crate::decode::SlotReader;
use crate::exposure::ZoneHoldings;
use crate::format::{RowState, StripSet};
use crate::handles::DriveHandles;
use crate::health::ShardFacts;
use crate::ids::ZoneIndex;
use crate::pool::RedundantThread;
use crate::segments::StripedSegments;
use crate::stripe::StripCodes;
use crate::tables::TablesHandle;

mod balance;
mod board;
mod control;
mod drive_notes;
mod turns;
mod verified;
mod work;

pub use board::{DriveFaults, ScrubEnd, ScrubProgress, ScrubRequest};
pub(crate) use board::{ScrubBoard, ScrubClosing, ScrubCursor, ScrubFindings, ScrubPart};
pub(crate) use control::SuspectMark;
pub use control::{MoveProgress, MoveWait, RepairControl, RepairCounts};
pub(crate) use drive_notes::{DriveReads, FAILED_READS_MIN};
pub use drive_notes::{ERRORS_MAX, FailingDrive, RecentErrors};
pub(crate) use turns::DeviceTurns;
pub(crate) use work::{
    MoveStep, MoveWork, NOT_EXPOSED, WorkList, conversion_of, may_complete, next_step,
};

use verified::{UnverifiedSegments, VerifiedCounts};

/// How often a shard's segments are counted for health while nothing happens.
const FACTS_NANOS: u64 = Nanos::seconds(30);

/// How often they are where something changes.
const NEW_FACTS_NANOS: u64 = Nanos::seconds(1);

/// Zones that are looked at before other tasks run.
const ZONES_AT_ONCE: usize = 16;

/// What the mover of a thread works on.
#[derive(Clone)]
pub struct RepairMedia {
    /// The drives of the thread.
    pub handles: Rc<DriveHandles>,
    /// The tables of the thread.
    pub tables: Rc<TablesHandle>,
    /// The segments through which the thread's shard puts and reads.
    pub segments: StripedSegments,
}

impl RepairMedia {
    /// That of a thread.
    #[must_use]
    pub fn of(thread: &RedundantThread) -> Self {
        Self {
            handles: Rc::clone(thread.handles()),
            tables: Rc::clone(thread.tables()),
            segments: thread.segments().clone(),
        }
    }
}

/// Zones that nobody has: they hold nothing, and their rows are moved without contents.
pub struct UnownedZones {
    is_unowned: Box<dyn Fn(SegmentNumber, u32) -> bool>,
}

impl UnownedZones {
    /// `is_unowned` says whether nobody has any of so many slots from the first on. It must say no from before the
    /// moment at which the owner of a zone may put to it: what is put later goes to `to`, as the row moves by then.
    #[must_use]
    pub fn new(is_unowned: impl Fn(SegmentNumber, u32) -> bool + 'static) -> Self {
        Self { is_unowned: Box::new(is_unowned) }
    }
}

impl ZoneContents for UnownedZones {
    fn held(&self, first: SegmentNumber, count: u32) -> Option<Vec<HeldSegment>> {
        (self.is_unowned)(first, count).then(Vec::new)
    }

    fn pin(&self, _id: SegmentId) -> Option<Box<dyn std::any::Any>> {
        None
    }

    fn is_whole(&self, _id: SegmentId, _bytes: &BufSlice) -> bool {
        false
    }

    fn relocate(&self, _id: SegmentId, _reason: &str) {}
}

/// Rows that failed, and until when they rest.
#[derive(Clone, Copy)]
pub(crate) struct RowPause {
    pub(crate) until: Nanos,
    pub(crate) nanos: u64,
    /// Whether no drive had room.
    pub(crate) is_for_room: bool,
}

/// Slots that the mover has filled in `to` since the pool was opened.
pub(crate) struct RowFill {
    to: StripSet,
    /// Whether nothing but puts can have filled others, as `to` was not there before.
    is_fresh: bool,
    /// Whether drives gave room for all of its slots.
    has_room: bool,
    slots: BTreeMap<SegmentNumber, Generation>,
}

/// What the tasks of a thread share.
pub(crate) struct RepairThread {
    pub(crate) reactor: Reactor,
    pub(crate) media: RepairMedia,
    pub(crate) shard: Option<ShardId>,
    pub(crate) contents: Rc<dyn ZoneContents>,
    pub(crate) control: Arc<RepairControl>,
    pub(crate) codes: StripCodes,
    pub(crate) works: RefCell<WorkList>,
    /// By zone; a while after its end a pause is forgotten.
    pub(crate) pauses: RefCell<BTreeMap<ZoneIndex, RowPause>>,
    /// How often room had been made when the rests for it were ended last.
    rooms_seen: Cell<u64>,
    fills: RefCell<BTreeMap<ZoneIndex, RowFill>>,
    /// When drives may be made more even again.
    balance_at: Cell<Nanos>,
    pub(crate) unverified: RefCell<UnverifiedSegments>,
    pub(crate) scrub: RefCell<Option<ScrubCursor>>,
    /// Whether segments were found damaged that no table tells of yet, and when one was told of last.
    pub(crate) owes_loss: Cell<bool>,
    pub(crate) loss_at: Cell<Option<Nanos>>,
    facts_at: Cell<Option<Nanos>>,
    /// Whether what was told is known to be old.
    has_new_facts: Cell<bool>,
    pub(crate) wake: Notify,
    /// Over once nobody needs the thread's mover any more.
    pub(crate) turns: Rc<DeviceTurns>,
    /// Whether its task has ended, and told when it does.
    pub(crate) is_done: Cell<bool>,
    pub(crate) done: Notify,
}

impl RepairThread {
    pub(crate) fn new(
        media: RepairMedia,
        shard: Option<ShardId>,
        contents: Rc<dyn ZoneContents>,
        control: Arc<RepairControl>,
    ) -> Self {
        let works = RefCell::new(WorkList::new(media.tables.view()));
        let reactor = media.handles.reactor().clone();
        let turns = DeviceTurns::new(&reactor, &control);
        Self {
            reactor,
            media,
            shard,
            contents,
            control,
            codes: StripCodes::default(),
            works,
            pauses: RefCell::default(),
            rooms_seen: Cell::new(0),
            fills: RefCell::default(),
            balance_at: Cell::new(Nanos(0)),
            unverified: RefCell::default(),
            scrub: RefCell::default(),
            owes_loss: Cell::new(false),
            loss_at: Cell::new(None),
            facts_at: Cell::new(None),
            has_new_facts: Cell::new(false),
            wake: Notify::new(),
            turns: Rc::new(turns),
            is_done: Cell::new(false),
            done: Notify::new(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.turns.are_over() || self.media.tables.tables().failure().is_some()
    }

    /// Contents of a zone that somebody may still read; `None` where this thread does not have the zone, or not yet.
    pub(crate) fn held(&self, zone: ZoneIndex) -> Option<Vec<HeldSegment>> {
        let count = self.media.tables.view().drives().zone_segments;
        let first = zone.0.checked_mul(count)?;
        self.contents.held(SegmentNumber(first), count)
    }

    /// Whether the put of contents has ended. What is not held any more needs no put.
    pub(crate) fn is_put(&self, zone: ZoneIndex, id: SegmentId) -> bool {
        let held = self.held(zone).unwrap_or_default();
        held.iter().any(|it| it.id == id && it.is_put)
    }

    /// What a zone holds, for its place in the queue.
    pub(crate) fn holdings(&self, zone: ZoneIndex) -> Option<ZoneHoldings> {
        let held = self.held(zone)?;
        let has_pages = held.iter().any(|it| it.has_pages);
        let held_bytes = held.iter().map(|it| u64::from(it.used_bytes)).sum();
        Some(ZoneHoldings { has_pages, held_bytes })
    }

    /// Begins to fill `to`, or goes on where that is what was being filled; returns whether it is fresh.
    pub(crate) fn begin_fill(&self, zone: ZoneIndex, to: &StripSet, is_fresh: bool) -> bool {
        let mut fills = self.fills.borrow_mut();
        let new = || RowFill { to: to.clone(), is_fresh, has_room: false, slots: BTreeMap::new() };
        let fill = fills.entry(zone).or_insert_with(new);
        if fill.to != *to {
            *fill = new();
        }
        fill.is_fresh
    }

    /// Whether room is to be taken before a row is filled: zones that nobody has are not.
    pub(crate) fn must_take_room(&self, zone: ZoneIndex) -> bool {
        let has_room = self.fills.borrow().get(&zone).is_some_and(|fill| fill.has_room);
        self.shard.is_some() && !has_room
    }

    pub(crate) fn note_room(&self, zone: ZoneIndex) {
        if let Some(fill) = self.fills.borrow_mut().get_mut(&zone) {
            fill.has_room = true;
        }
    }

    pub(crate) fn note_filled(&self, zone: ZoneIndex, id: SegmentId) {
        if let Some(fill) = self.fills.borrow_mut().get_mut(&zone) {
            fill.slots.insert(id.number, id.generation);
        }
    }

    pub(crate) fn is_filled(&self, zone: ZoneIndex, id: SegmentId) -> bool {
        let fills = self.fills.borrow();
        let fill = fills.get(&zone);
        fill.is_some_and(|fill| fill.slots.get(&id.number) == Some(&id.generation))
    }

    pub(crate) fn end_fill(&self, zone: ZoneIndex) {
        self.fills.borrow_mut().remove(&zone);
    }

    /// Reads slots as fast as drives may be used for it.
    pub(crate) fn reader(&self, urgency: RepairUrgency) -> SlotReader {
        self.media.segments.reader().paced(&self.turns, urgency)
    }

    /// Brings the list of works up to the tables and to what puts left out; returns whether something changed.
    pub(crate) fn follow(&self) -> bool {
        let view = self.media.tables.view();
        let left_out = self.media.segments.take_left_out();
        let mut works = self.works.borrow_mut();
        let is_same = Arc::ptr_eq(works.view(), &view);
        if works.view().drives().epoch != view.drives().epoch {
            self.pauses.borrow_mut().clear(); // There may be room now, or other drives to read.
            self.balance_at.set(Nanos(0));
        }
        let rooms_made = self.control.rooms_made();
        if self.rooms_seen.replace(rooms_made) != rooms_made {
            self.pauses.borrow_mut().retain(|_, pause| !pause.is_for_room); // POOL-SIZER-3
        }
        works.follow(view);
        let (queue, view) = works.queue_mut();
        for strip in &left_out {
            queue.leave_out(view, strip.zone, strip.place);
        }
        if !is_same {
            let pauses = self.pauses.borrow();
            let is_meant = |zone| {
                let is_moving = matches!(view.row(zone).state, RowState::Moving { .. });
                is_moving || pauses.contains_key(&zone)
            };
            self.control.retain_moves(self.shard, is_meant);
        }
        !is_same || !left_out.is_empty()
    }

    /// Whether the pool has nothing to repair: a walk may begin.
    pub(crate) fn has_no_work(&self) -> bool {
        self.works.borrow().is_empty()
    }

    /// Begins to count verified segments anew after each loss. What is held when it is seen was put before, or may
    /// have been.
    pub(crate) async fn count_losses(&self) {
        let view = self.media.tables.view();
        let (loss, walked) = (view.drives().loss_epoch, view.drives().walked_epoch);
        if self.shard.is_none() || !self.unverified.borrow().is_before(loss) {
            return;
        }
        let is_first = self.unverified.borrow().since().is_none();
        if is_first && walked == loss {
            self.unverified.borrow_mut().begin(loss, []); // POOL-HEALTH-1
            return;
        }
        let (mut all, mut has_zones) = (Vec::new(), view.rows().next().is_none());
        for (looked_at, zone) in view.rows().map(|(zone, _)| zone).enumerate() {
            if let Some(held) = self.held(zone) {
                all.extend(held);
                has_zones = true;
            }
            if looked_at % ZONES_AT_ONCE == 0 {
                self.reactor.yield_now().await;
            }
        }
        if !has_zones {
            return; // Its owner does not know yet what it holds: it is not nothing.
        }
        self.unverified.borrow_mut().begin(loss, all);
        self.facts_at.set(None);
    }

    /// Counts what the shard holds and what of it is verified, now and then.
    pub(crate) async fn tell_facts(&self) {
        let Some(shard) = self.shard else { return };
        let now = self.reactor.now();
        let rest = if self.has_new_facts.get() { NEW_FACTS_NANOS } else { FACTS_NANOS };
        if self.facts_at.get().is_some_and(|at| now.since(at) < rest) {
            return;
        }
        self.has_new_facts.set(false);
        let Some(since) = self.unverified.borrow().since() else { return };
        let view = self.media.tables.view();
        let mut sum = VerifiedCounts::default();
        let mut has_zones = false;
        for (looked_at, zone) in view.rows().map(|(zone, _)| zone).enumerate() {
            if let Some(held) = self.held(zone) {
                let counts = self.unverified.borrow().count(&held);
                sum.held += counts.held;
                sum.verified += counts.verified;
                sum.damaged += counts.damaged;
                sum.unreadable += counts.unreadable;
                has_zones = true;
            }
            if looked_at % ZONES_AT_ONCE == 0 {
                self.reactor.yield_now().await;
            }
        }
        if !has_zones || self.unverified.borrow().is_before(since) {
            return; // Its owner does not know yet what it holds, or there was another loss.
        }
        let VerifiedCounts { held, verified, damaged, unreadable } = sum;
        let (journal_tail, counted_since) = (0, since);
        self.control.set_facts(ShardFacts {
            shard,
            journal_tail,
            counted_since,
            held,
            verified,
            damaged,
            unreadable,
        });
        self.facts_at.set(Some(now));
    }

    /// Takes in that strips of a segment are wrong; health says so at once (POOL-HEALTH-5).
    pub(crate) fn distrust(&self, id: SegmentId) {
        let is_new = self.unverified.borrow_mut().distrust(id);
        if let Some(shard) = self.shard.filter(|_| is_new) {
            self.control.count_damage(shard);
        }
        self.renew_facts();
    }

    /// Has what is counted be told soon.
    pub(crate) fn renew_facts(&self) {
        self.has_new_facts.set(true);
    }
}
