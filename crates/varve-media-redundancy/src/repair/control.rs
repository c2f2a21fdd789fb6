//! What operators tell the movers and scrubs of a pool, and what these say of themselves: one for all threads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_reactor::Nanos;
use varve_types::ShardId;

use super::board::{DriveFaults, ScrubBoard, ScrubProgress, ScrubRequest, WalkNeed};
use super::drive_notes::{DriveNotes, DriveReads, FailingDrive, RecentErrors};
use crate::budget::RepairBudget;
use crate::format::MoveReason;
use crate::health::ShardFacts;
use crate::ids::{DriveNumber, ZoneIndex};

/// For what a row that moves waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MoveWait {
    /// The owner of the zone does not know its contents yet.
    Contents,
    /// No drive has room for what is to be moved.
    Room,
    /// Drives have, but what is below one of them has none left.
    HostRoom(String),
    /// A drive or the keeper failed, and it is tried again.
    Error(String),
    /// Segments cannot be read, and what is live in them has to leave before.
    Unreadable {
        /// How many.
        segments: u64,
    },
}

/// How far the move of a row is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveProgress {
    /// Of which zone.
    pub zone: ZoneIndex,
    /// Whose thread moves it; `None` where nobody owns the zone.
    pub shard: Option<ShardId>,
    /// For what reason.
    pub why: MoveReason,
    /// Bytes of segments that are where they should be.
    pub bytes_done: u64,
    /// Bytes of segments that somebody may still read.
    pub bytes_total: u64,
    /// Bytes of segments a second since it began or went on.
    pub bytes_per_s: u64,
    /// Since when, in ms since 1970.
    pub since_unix_ms: u64,
    /// What it waits for, if it does.
    pub waits_for: Option<MoveWait>,
}

/// What was done since the pool was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RepairCounts {
    /// Bytes that were read from drives to be moved.
    pub bytes_read: u64,
    /// Bytes that were read back where they were written to, or were there already.
    pub bytes_verified: u64,
    /// Bytes that were written to drives.
    pub bytes_written: u64,
    /// Rows that came to the end of a move.
    pub rows_moved: u64,
    /// Segments that were moved.
    pub segments_moved: u64,
    /// Of those, the ones of which nothing that is right could be read.
    pub segments_unreadable: u64,
    /// Strips whose write did not read back, or that were wrong where they lay.
    pub strips_bad: u64,
}

impl RepairCounts {
    fn add(&mut self, more: Self) {
        self.bytes_read += more.bytes_read;
        self.bytes_verified += more.bytes_verified;
        self.bytes_written += more.bytes_written;
        self.rows_moved += more.rows_moved;
        self.segments_moved += more.segments_moved;
        self.segments_unreadable += more.segments_unreadable;
        self.strips_bad += more.strips_bad;
    }
}

/// A pool's control of repair. Shared by all of its threads.
pub struct RepairControl {
    budget: RepairBudget,
    /// Written by movers once for some segments, and read by whoever lists them.
    state: Mutex<ControlState>,
}

#[derive(Default)]
struct ControlState {
    moves: BTreeMap<ZoneIndex, MoveProgress>,
    cancelled: Vec<MoveReason>,
    counts: RepairCounts,
    faults: BTreeMap<DriveNumber, DriveFaults>,
    /// Those of before the last walk that found nothing: what was wrong has been written anew since.
    mended: BTreeMap<DriveNumber, u64>,
    /// Segments of which a read met something wrong, and that nobody has looked at yet.
    suspects: u64,
    notes: DriveNotes,
    shards: BTreeMap<ShardId, ShardFacts>,
    scrub: ScrubBoard,
    /// How often room was made for rows that waited.
    rooms_made: u64,
}

/// Counts a segment as one to be looked at until it is dropped.
pub(crate) struct SuspectMark {
    control: Arc<RepairControl>,
}

impl SuspectMark {
    pub(crate) fn new(control: Arc<RepairControl>) -> Self {
        control.lock().suspects += 1;
        Self { control }
    }
}

impl Drop for SuspectMark {
    fn drop(&mut self) {
        self.control.lock().suspects -= 1;
    }
}

impl RepairControl {
    /// That of a pool whose root counts so many shards, with so many percent for repair while clients use drives.
    #[must_use]
    pub fn new(shard_count: u16, percent: u8) -> Self {
        let scrub = ScrubBoard::new(shard_count);
        let state = Mutex::new(ControlState { scrub, ..ControlState::default() });
        Self { budget: RepairBudget::new(percent), state }
    }

    /// How fast drives may be used.
    #[must_use]
    pub const fn budget(&self) -> &RepairBudget {
        &self.budget
    }

    /// Rows that move, or wait for it, by zone.
    #[must_use]
    pub fn moves(&self) -> Vec<MoveProgress> {
        self.lock().moves.values().cloned().collect()
    }

    /// Rows that must move and wait for room; those that only would make drives more evenly full are none.
    pub(crate) fn rows_without_room(&self) -> u32 {
        let state = self.lock();
        let moves = state.moves.values().filter(|it| it.why != MoveReason::Rebalance);
        let waiting = moves.filter(|it| it.waits_for == Some(MoveWait::Room)).count();
        u32::try_from(waiting).unwrap_or(u32::MAX)
    }

    /// Room was made: rows that waited for it wait no longer until they were tried anew (POOL-SIZER-3).
    pub(crate) fn note_room(&self) {
        let mut state = self.lock();
        state.rooms_made += 1;
        let waiting = state.moves.values_mut().filter(|it| it.waits_for == Some(MoveWait::Room));
        waiting.for_each(|it| it.waits_for = None);
    }

    /// How often room was made.
    pub(crate) fn rooms_made(&self) -> u64 {
        self.lock().rooms_made
    }

    /// Turns around all rows that move for a reason, and begins no others, until [`Self::resume`].
    ///
    /// A rebuild is not cancelled: there is nothing to go back to. Not remembered when the pool is closed, so what the
    /// reason comes from is to be taken back as well: a leaving drive, or the class of new zones.
    ///
    /// Returns whether moves for that reason can be cancelled.
    pub fn cancel(&self, why: MoveReason) -> bool {
        if why == MoveReason::Rebuild {
            return false;
        }
        let cancelled = &mut self.lock().cancelled;
        if !cancelled.contains(&why) {
            cancelled.push(why);
        }
        true
    }

    /// Ends [`Self::cancel`].
    pub fn resume(&self, why: MoveReason) {
        self.lock().cancelled.retain(|other| *other != why);
    }

    /// Whether moves for a reason are cancelled.
    #[must_use]
    pub fn is_cancelled(&self, why: MoveReason) -> bool {
        self.lock().cancelled.contains(&why)
    }

    /// What was done.
    #[must_use]
    pub fn counts(&self) -> RepairCounts {
        self.lock().counts
    }

    /// What was wrong on each drive.
    #[must_use]
    pub fn faults(&self) -> Vec<DriveFaults> {
        self.lock().faults.values().copied().collect()
    }

    /// What was wrong on each drive since the pool was opened, or since a walk that found nothing wrong.
    #[must_use]
    pub fn open_faults(&self) -> Vec<(DriveNumber, u64)> {
        let state = self.lock();
        let mended = |drive: &DriveNumber| state.mended.get(drive).copied().unwrap_or(0);
        let all = state.faults.iter().map(|(drive, it)| (*drive, it.total() - mended(drive)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// Segments of which a read met something wrong, and that nobody has looked at yet.
    #[must_use]
    pub fn suspects(&self) -> u64 {
        self.lock().suspects
    }

    /// What shards count of their segments, for [`HealthFacts`](crate::HealthFacts). One that did not say yet is not
    /// there. The tail of the journal is 0: who has the shard's journal knows it.
    #[must_use]
    pub fn shard_facts(&self) -> Vec<ShardFacts> {
        self.lock().shards.values().copied().collect()
    }

    /// Begins a scrub of all zones; another one that is under way ends.
    pub fn start_scrub(&self, request: ScrubRequest) {
        self.lock().scrub.start(request);
    }

    /// Has a scrub begin by itself so many days after the last one began, or after the pool was opened where none is
    /// known of.
    pub fn set_scrub_days(&self, days: u16) {
        self.lock().scrub.set_days(days);
    }

    /// Ends the scrub that is under way.
    pub fn stop_scrub(&self) {
        self.lock().scrub.stop();
    }

    /// How far the scrub is that is under way, or how the last one ended.
    #[must_use]
    pub fn scrub(&self) -> Option<ScrubProgress> {
        self.lock().scrub.progress()
    }

    /// Calls a closure with what threads share of scrubs.
    pub(crate) fn with_scrub<T>(&self, look: impl FnOnce(&mut ScrubBoard) -> T) -> T {
        look(&mut self.lock().scrub)
    }

    pub(crate) fn set_move(&self, progress: MoveProgress) {
        self.lock().moves.insert(progress.zone, progress);
    }

    pub(crate) fn end_move(&self, zone: ZoneIndex) {
        self.lock().moves.remove(&zone);
    }

    /// Forgets what is listed of a thread's moves and is none any more.
    pub(crate) fn retain_moves(
        &self,
        shard: Option<ShardId>,
        is_meant: impl Fn(ZoneIndex) -> bool,
    ) {
        let moves = &mut self.lock().moves;
        moves.retain(|zone, progress| progress.shard != shard || is_meant(*zone));
    }

    /// Has a move be listed as waiting, where it is listed.
    pub(crate) fn set_wait(&self, zone: ZoneIndex, wait: Option<MoveWait>) {
        if let Some(progress) = self.lock().moves.get_mut(&zone) {
            progress.waits_for = wait;
        }
    }

    pub(crate) fn count(&self, more: RepairCounts) {
        self.lock().counts.add(more);
    }

    pub(crate) fn count_faults(&self, more: DriveFaults) {
        let mut state = self.lock();
        let faults = state.faults.entry(more.drive);
        faults.or_insert_with(|| DriveFaults::none(more.drive)).add(more);
    }

    /// A walk found nothing wrong.
    pub(crate) fn note_mended(&self) {
        let mut state = self.lock();
        let totals = state.faults.iter().map(|(drive, faults)| (*drive, faults.total()));
        state.mended = totals.collect();
    }

    /// Counts a segment of a shard that was found damaged, until the shard counts anew.
    pub(crate) fn count_damage(&self, shard: ShardId) {
        if let Some(facts) = self.lock().shards.get_mut(&shard) {
            facts.damaged += 1;
        }
    }

    /// Begins a walk where one is due.
    pub(crate) fn start_due_walk(&self, has_loss: bool, unix_ms: u64) {
        let mut state = self.lock();
        let has_damage = state.suspects > 0 || state.shards.values().any(|it| it.damaged > 0);
        state.scrub.start_due(WalkNeed { has_loss, has_damage, unix_ms });
    }

    /// Takes note when the last scrub of everything began that is known of from an earlier opening.
    pub fn set_last_scrub(&self, unix_ms: u64) {
        self.lock().scrub.set_last(unix_ms);
    }

    /// Drives of which reads fail, one after the other, as of the last look.
    #[must_use]
    pub fn failing_drives(&self) -> Vec<FailingDrive> {
        self.lock().notes.failing()
    }

    pub(crate) fn note_reads(&self, drive: DriveNumber, reads: DriveReads) {
        self.lock().notes.note_reads(drive, reads);
    }

    /// How often reads of drives failed or were wrong within the last ten minutes; those that had none are not there.
    #[must_use]
    pub fn recent_errors(&self) -> Vec<RecentErrors> {
        self.lock().notes.recent_errors()
    }

    /// Forgets how often reads of a drive failed: who has it stay despite them is not overruled at once.
    pub fn forget_errors(&self, drive: DriveNumber) {
        self.lock().notes.forget_errors(drive);
    }

    pub(crate) fn note_time(&self, now: Nanos) {
        self.lock().notes.note_time(now);
    }

    pub(crate) fn note_errors(&self, drive: DriveNumber, errors: u64) {
        self.lock().notes.note_errors(drive, errors);
    }

    pub(crate) fn note_slow(&self, drive: DriveNumber, now: Nanos) {
        self.lock().notes.note_slow(drive, now);
    }

    /// How long nobody has noted that a drive is slow.
    pub(crate) fn quick_nanos(&self, drive: DriveNumber, now: Nanos) -> u64 {
        self.lock().notes.quick_nanos(drive, now)
    }

    pub(crate) fn set_facts(&self, facts: ShardFacts) {
        self.lock().shards.insert(facts.shard, facts);
    }

    /// Forgets what a shard said: it is not open any more.
    pub(crate) fn forget_shard(&self, shard: ShardId) {
        let mut state = self.lock();
        state.shards.remove(&shard);
        state.moves.retain(|_, progress| progress.shard != Some(shard));
        state.scrub.leave(shard);
    }

    fn lock(&self) -> MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
