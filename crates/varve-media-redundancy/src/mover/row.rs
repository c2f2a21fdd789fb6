//! One row: what the keeper is asked for, its segments one after the other, and its end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use varve_media::planted::{Bug, planted};
use varve_media::{HeldSegment, Result};
use varve_reactor::Nanos;
use varve_types::{ErrorKind, Generation, SegmentNumber};

use super::segment::{RowMove, SegmentEnd};
use crate::budget::RepairUrgency;
use crate::change::Change;
use crate::format::{MoveReason, Row, RowState};
use crate::repair::{
    MoveProgress, MoveStep, MoveWait, MoveWork, NOT_EXPOSED, RepairCounts, RepairThread,
    conversion_of, may_complete, next_step,
};
use crate::view::LayoutView;

/// Segments of a row under way at once.
const SEGMENTS_AT_ONCE: usize = 4;

/// Looks at what a zone holds before its row is taken up anew: clients may put as fast as it is moved.
const ROUNDS_MAX: u32 = 64;

/// Changes of a row that the keeper is asked for at once.
const STEPS_MAX: u32 = 4;

/// What became of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RowEnd {
    /// It is where it should be.
    Done,
    /// It is to be looked at once more, or another one comes first.
    Again,
    /// It stays as it is for a while.
    Waits(MoveWait),
}

/// How far a row is, since it was taken up.
struct RowPass {
    began: Nanos,
    bytes_before: u64,
    /// Segments of which nothing right can be read.
    unreadable: BTreeMap<SegmentNumber, Generation>,
    /// How many of them have to stay where they are.
    kept: u64,
    /// Whether the table says that strips were found wrong.
    has_told_loss: bool,
    /// Segments that were not there, as their put had not ended and none was under way.
    not_put: BTreeMap<SegmentNumber, Generation>,
}

impl RowPass {
    fn new(began: Nanos) -> Self {
        let (unreadable, not_put) = (BTreeMap::new(), BTreeMap::new());
        Self { began, bytes_before: 0, unreadable, kept: 0, has_told_loss: false, not_put }
    }

    /// Whether nothing more can be done for a segment: it cannot be read, or is still to be put, which is to `to`.
    fn is_over(&self, held: &HeldSegment) -> bool {
        let is_in = |slots: &BTreeMap<SegmentNumber, Generation>| {
            slots.get(&held.id.number) == Some(&held.id.generation)
        };
        is_in(&self.unreadable) || !held.is_put && is_in(&self.not_put) // MOVER-4
    }
}

impl RepairThread {
    /// Works on a row until it is done, has to wait, or a more exposed one is there.
    ///
    /// # Errors
    /// Of drives and of the keeper; the row stays as it is.
    pub(crate) async fn work_on(&self, work: &MoveWork) -> Result<RowEnd> {
        let mut is_fresh = false;
        let stale = planted(Bug::PutMissedByMover).then(|| self.held(work.zone)).flatten();
        for _ in 0..STEPS_MAX {
            let view = self.media.tables.view();
            let was_moving = matches!(view.row(work.zone).state, RowState::Moving { .. });
            match next_step(&view, work, &self.control) {
                MoveStep::Nothing => {
                    self.control.end_move(work.zone);
                    return Ok(RowEnd::Done);
                }
                MoveStep::Fill => return self.fill_row(work, is_fresh, stale).await,
                MoveStep::Ask(change) => {
                    self.list(work);
                    let is_move = matches!(*change, Change::Move { .. });
                    match self.ask(&view, work, *change).await {
                        Err(error) if error.kind() == ErrorKind::NoSpace && was_moving => {
                            return self.fill_without_room(work).await;
                        }
                        Err(error) if error.kind() == ErrorKind::NoSpace => {
                            return Ok(RowEnd::Waits(MoveWait::Room));
                        }
                        // Somebody else replaced the row (KEEPER-3).
                        Err(error) if error.kind() == ErrorKind::Conflict => {
                            return Ok(RowEnd::Again);
                        }
                        Err(error) => return Err(error),
                        Ok(_) if is_move && was_moving => {
                            return self.fill_row(work, false, stale).await;
                        }
                        Ok(_) => is_fresh = is_move,
                    }
                }
            }
        }
        Ok(RowEnd::Again)
    }

    /// Asks the keeper for a change. Where drives have no room for what a row lacks, they may have for the class that
    /// it is to get in any case.
    async fn ask(
        &self,
        view: &LayoutView,
        work: &MoveWork,
        change: Change,
    ) -> Result<Arc<LayoutView>> {
        let answer = self.media.tables.change(change).await;
        match (answer, conversion_of(view, work, &self.control)) {
            (Err(error), Some(conversion)) if error.kind() == ErrorKind::NoSpace => {
                self.media.tables.change(conversion).await
            }
            (answer, _) => answer,
        }
    }

    /// A drive of `to` is lost, and no other one has room: what survives as much as before may be moved all the same.
    async fn fill_without_room(&self, work: &MoveWork) -> Result<RowEnd> {
        let view = self.media.tables.view();
        match &view.row(work.zone).state {
            RowState::Moving { from, to, .. } if may_complete(&view, from, to) => {
                self.fill_row(work, false, None).await
            }
            RowState::Moving { .. } => Ok(RowEnd::Waits(MoveWait::Room)),
            RowState::Empty | RowState::Still(_) => Ok(RowEnd::Again),
        }
    }

    /// Fills `to` with all that the zone holds, then completes the row; with `stale` only what is in that.
    async fn fill_row(
        &self,
        work: &MoveWork,
        is_fresh: bool,
        stale: Option<Vec<HeldSegment>>,
    ) -> Result<RowEnd> {
        let view = self.media.tables.view();
        let row = view.row(work.zone).clone();
        let RowState::Moving { from, to, .. } = &row.state else { return Ok(RowEnd::Again) };
        let is_for_room = work.why == MoveReason::Rebalance && work.exposure == NOT_EXPOSED;
        // Nobody waits for drives to be more even.
        let urgency =
            if is_for_room { RepairUrgency::Scrub } else { RepairUrgency::of(work.exposure) };
        let (zone, from, to) = (work.zone, from.clone(), to.clone());
        let is_fresh = self.begin_fill(zone, &to, is_fresh);
        let has_loss = Cell::new(false);
        let job = RowMove { zone, view, from, to, is_fresh, urgency, has_loss };
        if self.must_take_room(zone) {
            match self.media.segments.take_room(&job.view, &job.to).await {
                Err(error) if error.kind() == ErrorKind::NoSpace => {
                    return Ok(RowEnd::Waits(MoveWait::HostRoom(error.to_string())));
                }
                taken => taken?,
            }
            self.note_room(zone);
        }
        let mut pass = RowPass::new(self.reactor.now());
        let mut open_before = Vec::new();
        for round in 0..ROUNDS_MAX {
            if stale.is_none() {
                // What was put before the row named `to` may be in `from` alone (MOVER-4).
                self.media.segments.puts_before_now(work.zone).await;
            }
            let Some(held) = stale.clone().or_else(|| self.held(work.zone)) else {
                return Ok(RowEnd::Waits(MoveWait::Contents));
            };
            let open = self.open_segments(&job, &held, &pass);
            if open.is_empty() || (stale.is_some() && round > 0) {
                return self.complete(work, &job, &row, &pass).await;
            }
            if open == open_before {
                return Ok(RowEnd::Waits(MoveWait::Contents)); // Its owner says two things of a slot.
            }
            if round == 0 {
                pass.bytes_before = filled_bytes(&held, &open);
            }
            for some in open.chunks(SEGMENTS_AT_ONCE) {
                self.report(work, &job, &pass);
                if self.is_preempted(work) {
                    return Ok(RowEnd::Again);
                }
                let moved = self.move_some(&job, some, &mut pass).await;
                if job.has_loss.get() && !pass.has_told_loss {
                    self.media.tables.change(Change::Loss).await?;
                    pass.has_told_loss = true;
                }
                if moved? {
                    return Ok(RowEnd::Again);
                }
            }
            open_before = open;
        }
        Ok(RowEnd::Again)
    }

    /// Moves some segments; returns whether the row is not as it was.
    async fn move_some(
        &self,
        job: &RowMove,
        some: &[HeldSegment],
        pass: &mut RowPass,
    ) -> Result<bool> {
        let moves = some.iter().map(|held| self.move_segment(job, held));
        let ends = join_all(moves).await;
        for (held, end) in some.iter().zip(ends) {
            match end? {
                SegmentEnd::Filled | SegmentEnd::Gone => {}
                SegmentEnd::NotPut => {
                    pass.not_put.insert(held.id.number, held.id.generation);
                }
                SegmentEnd::RowChanged => return Ok(true),
                end @ (SegmentEnd::Unreadable | SegmentEnd::Kept) => {
                    pass.kept += u64::from(end == SegmentEnd::Kept);
                    pass.unreadable.insert(held.id.number, held.id.generation);
                    let more = RepairCounts { segments_unreadable: 1, ..RepairCounts::default() };
                    self.control.count(more);
                }
            }
        }
        Ok(false)
    }

    /// Segments that are not in `to` yet, and may be readable.
    fn open_segments(
        &self,
        job: &RowMove,
        held: &[HeldSegment],
        pass: &RowPass,
    ) -> Vec<HeldSegment> {
        let is_open = |it: &&HeldSegment| {
            // Where the row was met moving, what the thread knows may be by labels alone, which may be there without
            // their strips (MOVER-3).
            let is_put = job.is_fresh && self.media.segments.is_known_filled(it.id);
            !pass.is_over(it) && !is_put && !self.is_filled(job.zone, it.id)
        };
        held.iter().filter(is_open).copied().collect()
    }

    /// Has `to` be all that there is of the row: only then are places of `from` free (MOVER-3).
    async fn complete(
        &self,
        work: &MoveWork,
        job: &RowMove,
        row: &Row,
        pass: &RowPass,
    ) -> Result<RowEnd> {
        let segments = pass.unreadable.len() as u64;
        // What is left of them in `from` is all that there is, where it was not moved as it is, or where drives that
        // are not read may still come back with it.
        let keeps_source = work.is_salvage || job.from.class != job.to.class || pass.kept > 0;
        if segments > 0 && keeps_source && !planted(Bug::ConversionDropsUnreadable) {
            return Ok(RowEnd::Waits(MoveWait::Unreadable { segments }));
        }
        let view = self.media.tables.view();
        if !may_complete(&view, &job.from, &job.to) {
            return Ok(RowEnd::Again);
        }
        let state = RowState::Still(job.to.clone());
        let new = Row { tenancy: row.tenancy, state };
        let (zone, expected) = (work.zone, row.clone());
        match self.media.tables.change(Change::Row { zone, expected, new }).await {
            Err(error) if error.kind() == ErrorKind::Conflict => return Ok(RowEnd::Again),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        self.control.count(RepairCounts { rows_moved: 1, ..RepairCounts::default() });
        self.control.end_move(zone);
        self.end_fill(zone);
        Ok(RowEnd::Done)
    }

    /// Whether the row is to go back (MOVER-5), or a zone that can lose less came up since.
    fn is_preempted(&self, work: &MoveWork) -> bool {
        let is_news = self.follow();
        let step = next_step(self.works.borrow().view(), work, &self.control);
        if matches!(&step, MoveStep::Ask(change) if matches!(**change, Change::Row { .. })) {
            return true;
        }
        if !is_news {
            return false;
        }
        self.next_work().is_some_and(|first| {
            let is_more_exposed = first.exposure < work.exposure || work.is_salvage;
            first.zone != work.zone && !first.is_salvage && is_more_exposed
        })
    }

    /// Lists a row as being worked on, before anything of it is known.
    pub(crate) fn list(&self, work: &MoveWork) {
        self.control.set_move(MoveProgress {
            zone: work.zone,
            shard: self.shard,
            why: work.why,
            bytes_done: 0,
            bytes_total: 0,
            bytes_per_s: 0,
            since_unix_ms: self.reactor.unix_time_ms(),
            waits_for: None,
        });
    }

    fn report(&self, work: &MoveWork, job: &RowMove, pass: &RowPass) {
        let Some(held) = self.held(job.zone) else { return };
        let open = self.open_segments(job, &held, pass);
        let bytes_total = held.iter().map(|it| u64::from(it.used_bytes)).sum();
        let bytes_done = filled_bytes(&held, &open);
        let nanos = self.reactor.now().since(pass.began).max(1);
        let moved = u128::from(bytes_done.saturating_sub(pass.bytes_before));
        let rate = moved * u128::from(Nanos::seconds(1)) / u128::from(nanos);
        self.control.set_move(MoveProgress {
            zone: job.zone,
            shard: self.shard,
            why: work.why,
            bytes_done,
            bytes_total,
            bytes_per_s: u64::try_from(rate).unwrap_or(u64::MAX),
            since_unix_ms: self.reactor.unix_time_ms() - nanos / 1_000_000,
            waits_for: None,
        });
    }
}

/// Bytes of what is held and not open.
fn filled_bytes(held: &[HeldSegment], open: &[HeldSegment]) -> u64 {
    let bytes = |some: &[HeldSegment]| some.iter().map(|it| u64::from(it.used_bytes)).sum::<u64>();
    bytes(held) - bytes(open)
}
