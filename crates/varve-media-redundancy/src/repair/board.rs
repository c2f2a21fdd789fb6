//! Scrubs of a pool as all of its threads see them: which one is under way, how far it is, and who has ended its part.
//!
//! SCRUB-BOARD-1. A walk is whole when every shard that the pool's root counts has ended its part of it, all drives
//!     were meant, nothing was left out and nothing was wrong. What is asked later does not change what it began with.

use std::collections::BTreeSet;

use varve_types::ShardId;

use crate::ids::{DriveNumber, Epoch, ZoneIndex};

/// What is to be scrubbed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScrubRequest {
    /// Zones with strips on these; all zones where none is named.
    pub drives: Vec<DriveNumber>,
    /// Whether parity is computed for every zone, instead of one in 16.
    pub is_deep: bool,
}

/// How a scrub ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScrubEnd {
    /// All that was asked for is right.
    Clean,
    /// Something was wrong.
    Faults,
    /// Something could not be looked at: it was moving, or nobody knew what it holds.
    Incomplete,
    /// It was told to end, or another one took its place.
    Stopped,
}

/// How far a scrub is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubProgress {
    /// Counts the scrubs since the pool was opened, from 1.
    pub number: u64,
    /// What was asked for.
    pub request: ScrubRequest,
    /// The last loss when it began.
    pub began_with: Epoch,
    /// When it began, in ms since 1970.
    pub since_unix_ms: u64,
    /// Segments that were looked at.
    pub segments: u64,
    /// Bytes that they take on drives.
    pub bytes: u64,
    /// Strips that were wrong.
    pub strips_bad: u64,
    /// How it ended; `None` while it is under way.
    pub end: Option<ScrubEnd>,
}

/// What was wrong on a drive since the pool was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveFaults {
    /// The drive.
    pub drive: DriveNumber,
    /// Strips whose label or sum is not what those of the others say.
    pub strips: u64,
    /// Strips that could not be read.
    pub unreadable: u64,
    /// Strips of parity that are not those of the data.
    pub parity: u64,
    /// Tables and roots of which no side could be read.
    pub tables: u64,
}

impl DriveFaults {
    /// No fault.
    #[must_use]
    pub const fn none(drive: DriveNumber) -> Self {
        Self { drive, strips: 0, unreadable: 0, parity: 0, tables: 0 }
    }

    /// All of them.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.strips + self.unreadable + self.parity + self.tables
    }

    pub(crate) fn add(&mut self, more: Self) {
        assert_eq!(self.drive, more.drive, "faults are counted by drive");
        self.strips += more.strips;
        self.unreadable += more.unreadable;
        self.parity += more.parity;
        self.tables += more.tables;
    }
}

/// What a thread found in a part of a scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ScrubFindings {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
    pub(crate) strips_bad: u64,
    /// Whether something could not be looked at.
    pub(crate) has_gaps: bool,
}

/// The part of a scrub that a shard's thread has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ScrubPart {
    pub(crate) number: u64,
    pub(crate) request: ScrubRequest,
}

/// How far a thread is in a scrub.
pub(crate) struct ScrubCursor {
    pub(crate) part: ScrubPart,
    /// Zones that had a row when it began, the next one last.
    pub(crate) zones: Vec<ZoneIndex>,
    pub(crate) has_zones: bool,
}

/// What is left to do when the last shard has ended its part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScrubClosing {
    pub(crate) number: u64,
    /// What the walk began with, where it is whole and clean so far (SCRUB-BOARD-1).
    pub(crate) walked: Option<Epoch>,
}

/// Days between two scrubs where nobody says otherwise.
const DAYS: u16 = 14;

const DAY_MS: u64 = 24 * 3600 * 1000;

/// How long after a walk that was not whole and clean the next one begins, in ms: what is wrong is to be moved before.
const WALK_AGAIN_MS: u64 = 10 * 60 * 1000;

/// The same where all that was wrong has been written anew.
const MENDED_MS: u64 = 10 * 1000;

/// Whether a walk is due, as who asks sees it.
#[derive(Clone, Copy)]
pub(crate) struct WalkNeed {
    /// Whether something was lost since the last one.
    pub(crate) has_loss: bool,
    /// Whether segments are damaged, and are being written anew.
    pub(crate) has_damage: bool,
    pub(crate) unix_ms: u64,
}

/// The state.
#[derive(Debug, Default)]
pub(crate) struct ScrubBoard {
    shard_count: u16,
    /// Between two scrubs; 0 for [`DAYS`].
    days: u16,
    /// When the last scrub of an earlier opening began, or when this one did.
    before_unix_ms: Option<u64>,
    started: u64,
    asked: Option<ScrubRequest>,
    run: Option<ScrubProgress>,
    has_gaps: bool,
    /// Whether the run found something wrong that nobody writes anew.
    has_lasting_faults: bool,
    /// Since when segments are damaged.
    damaged_since_ms: Option<u64>,
    /// Shards that have ended their part of the run.
    ended: BTreeSet<ShardId>,
}

impl ScrubBoard {
    pub(crate) fn new(shard_count: u16) -> Self {
        Self { shard_count, ..Self::default() }
    }

    pub(crate) fn start(&mut self, request: ScrubRequest) {
        self.stop();
        self.asked = Some(request);
    }

    pub(crate) fn stop(&mut self) {
        self.asked = None;
        if let Some(run) = &mut self.run {
            run.end.get_or_insert(ScrubEnd::Stopped);
        }
    }

    /// The run that is under way, or the last one; where another one is asked for, that one, which has not begun.
    pub(crate) fn progress(&self) -> Option<ScrubProgress> {
        let Some(request) = self.asked.clone() else { return self.run.clone() };
        Some(ScrubProgress {
            number: self.started + 1,
            request,
            began_with: Epoch(0),
            since_unix_ms: 0,
            segments: 0,
            bytes: 0,
            strips_bad: 0,
            end: None,
        })
    }

    /// Whether none is under way nor asked for.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_none() && self.run.as_ref().is_none_or(|run| run.end.is_some())
    }

    pub(crate) fn set_days(&mut self, days: u16) {
        self.days = days;
    }

    /// Goes by a scrub of an earlier opening.
    pub(crate) fn set_last(&mut self, unix_ms: u64) {
        self.before_unix_ms = Some(unix_ms);
    }

    /// Begins a walk where one is due: since a loss nothing was walked, or the last scrub is long ago. What is damaged
    /// is to be written anew before, where that does not take too long: it would only be found once more.
    pub(crate) fn start_due(&mut self, need: WalkNeed) {
        let WalkNeed { has_loss, has_damage, unix_ms } = need;
        let before = *self.before_unix_ms.get_or_insert(unix_ms);
        if !self.is_idle() {
            return;
        }
        let days = if self.days == 0 { DAYS } else { self.days };
        let last = self.run.as_ref().map(|run| run.since_unix_ms);
        let age_ms = unix_ms.saturating_sub(last.unwrap_or(before));
        let is_old = age_ms >= u64::from(days) * DAY_MS;
        let damaged_since_ms = self.damaged_since_ms.filter(|_| has_damage);
        let since = has_damage.then(|| damaged_since_ms.unwrap_or(unix_ms));
        self.damaged_since_ms = since;
        let is_mended = since.is_none_or(|since| unix_ms.saturating_sub(since) >= WALK_AGAIN_MS);
        let was_clean = self.run.as_ref().is_none_or(|run| match run.end {
            Some(ScrubEnd::Clean) => true,
            Some(ScrubEnd::Faults) => {
                !self.has_lasting_faults && !has_damage && age_ms >= MENDED_MS
            }
            Some(ScrubEnd::Incomplete | ScrubEnd::Stopped) | None => false,
        });
        let may_walk = is_mended && (was_clean || age_ms >= WALK_AGAIN_MS);
        if is_old || (has_loss && may_walk) {
            self.asked = Some(ScrubRequest::default());
        }
    }

    /// The part of a shard that is still to be done. Begins what was asked for, with the loss of the view at hand.
    pub(crate) fn part_of(
        &mut self,
        shard: ShardId,
        loss: Epoch,
        unix_ms: u64,
    ) -> Option<ScrubPart> {
        if let Some(request) = self.asked.take() {
            self.started += 1;
            self.ended.clear();
            self.has_gaps = false;
            self.has_lasting_faults = false;
            self.run = Some(ScrubProgress {
                number: self.started,
                request,
                began_with: loss,
                since_unix_ms: unix_ms,
                segments: 0,
                bytes: 0,
                strips_bad: 0,
                end: None,
            });
        }
        let run = self.run.as_ref().filter(|run| run.end.is_none())?;
        let is_open = !self.ended.contains(&shard);
        is_open.then(|| ScrubPart { number: run.number, request: run.request.clone() })
    }

    /// Adds what was found in a part of a run; nothing where another one is under way.
    pub(crate) fn add(&mut self, number: u64, findings: ScrubFindings) {
        let Some(run) = self.run.as_mut().filter(|run| run.number == number) else { return };
        run.segments += findings.segments;
        run.bytes += findings.bytes;
        run.strips_bad += findings.strips_bad;
        self.has_gaps |= findings.has_gaps;
    }

    /// Ends the part of a shard. Who ends the last one has to close the run.
    pub(crate) fn end_part(&mut self, number: u64, shard: ShardId) -> Option<ScrubClosing> {
        let run = self.run.as_ref().filter(|run| run.number == number && run.end.is_none())?;
        self.ended.insert(shard);
        if !(0..self.shard_count).map(ShardId).all(|shard| self.ended.contains(&shard)) {
            return None;
        }
        let is_whole = run.request.drives.is_empty() && !self.has_gaps; // SCRUB-BOARD-1
        let walked = (is_whole && run.strips_bad == 0).then_some(run.began_with);
        Some(ScrubClosing { number, walked })
    }

    /// Something was found wrong meanwhile: whatever the run has seen, it is no walk.
    pub(crate) fn spoil(&mut self) {
        self.has_gaps = true;
    }

    /// Whether a run is still whole.
    pub(crate) fn is_whole(&self, number: u64) -> bool {
        self.run.as_ref().is_some_and(|run| run.number == number) && !self.has_gaps
    }

    /// What the run found wrong is not written anew.
    pub(crate) fn note_lasting_faults(&mut self) {
        self.has_lasting_faults = true;
    }

    /// Ends a run, and says how it did.
    pub(crate) fn close(&mut self, number: u64) -> Option<ScrubEnd> {
        let has_gaps = self.has_gaps;
        let run = self.run.as_mut().filter(|run| run.number == number)?;
        let end = match (run.strips_bad, has_gaps) {
            (0, false) => ScrubEnd::Clean,
            (0, true) => ScrubEnd::Incomplete,
            _ => ScrubEnd::Faults,
        };
        Some(*run.end.get_or_insert(end))
    }

    /// A shard is closed: what it has not looked at is left out.
    pub(crate) fn leave(&mut self, shard: ShardId) {
        if !self.ended.contains(&shard) && !self.is_idle() {
            self.has_gaps = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> ScrubBoard {
        let mut board = ScrubBoard::new(2);
        board.start(ScrubRequest::default());
        board
    }

    fn need(has_loss: bool, unix_ms: u64) -> WalkNeed {
        WalkNeed { has_loss, has_damage: false, unix_ms }
    }

    #[test]
    fn a_walk_waits_for_what_is_damaged_and_not_for_ever() {
        let mut board = ScrubBoard::new(1);
        let damaged = |unix_ms| WalkNeed { has_damage: true, ..need(true, unix_ms) };
        board.start_due(damaged(5));
        board.start_due(damaged(4 + WALK_AGAIN_MS));
        assert!(board.is_idle(), "it would be found once more");
        board.start_due(need(true, 4 + WALK_AGAIN_MS));
        assert!(!board.is_idle(), "it was written anew");
        let mut board = ScrubBoard::new(1);
        board.start_due(damaged(5));
        board.start_due(damaged(5 + WALK_AGAIN_MS));
        assert!(!board.is_idle(), "what cannot be written anew holds up no walk");
    }

    #[test]
    fn what_is_found_wrong_while_a_walk_is_under_way_is_not_walked() {
        let mut board = board();
        let number = board.part_of(ShardId(0), Epoch(7), 0).unwrap().number;
        board.spoil();
        assert_eq!(board.end_part(number, ShardId(0)), None);
        assert_eq!(board.end_part(number, ShardId(1)).unwrap().walked, None);
    }

    #[test]
    fn a_walk_is_whole_when_all_shards_ended_theirs() {
        let mut board = board();
        let part = board.part_of(ShardId(0), Epoch(7), 0).unwrap();
        assert_eq!(board.end_part(part.number, ShardId(0)), None);
        assert_eq!(board.part_of(ShardId(0), Epoch(9), 0), None, "it has ended its part");
        let part = board.part_of(ShardId(1), Epoch(9), 0).unwrap();
        let closing = board.end_part(part.number, ShardId(1)).unwrap();
        assert_eq!(closing.walked, Some(Epoch(7)), "the loss that it began with");
        assert_eq!(board.close(part.number), Some(ScrubEnd::Clean));
        assert!(board.is_idle());
    }

    #[test]
    fn what_was_left_out_or_wrong_is_no_walk() {
        let gap = ScrubFindings { has_gaps: true, ..ScrubFindings::default() };
        let bad = ScrubFindings { strips_bad: 1, ..ScrubFindings::default() };
        for (findings, end) in [(gap, ScrubEnd::Incomplete), (bad, ScrubEnd::Faults)] {
            let mut board = board();
            let number = board.part_of(ShardId(0), Epoch(7), 0).unwrap().number;
            board.add(number, findings);
            assert_eq!(board.end_part(number, ShardId(0)), None);
            assert_eq!(board.end_part(number, ShardId(1)).unwrap().walked, None);
            assert_eq!(board.close(number), Some(end));
        }
        let mut board = ScrubBoard::new(1);
        let drives = vec![DriveNumber::new(0).unwrap()];
        board.start(ScrubRequest { drives, is_deep: true });
        let number = board.part_of(ShardId(0), Epoch(7), 0).unwrap().number;
        assert_eq!(board.end_part(number, ShardId(0)).unwrap().walked, None, "of one drive");
    }

    #[test]
    fn a_shard_that_closes_leaves_a_gap_and_a_stopped_scrub_ends() {
        let mut board = board();
        let number = board.part_of(ShardId(0), Epoch(7), 0).unwrap().number;
        board.leave(ShardId(1));
        assert_eq!(board.end_part(number, ShardId(0)), None);
        assert_eq!(board.end_part(number, ShardId(1)).unwrap().walked, None);
        board.start(ScrubRequest::default());
        let next = board.part_of(ShardId(0), Epoch(8), 0).unwrap().number;
        assert_eq!(board.end_part(number, ShardId(0)), None, "of the run before");
        board.stop();
        assert_eq!(board.part_of(ShardId(0), Epoch(8), 0), None, "it was told to end");
        assert_eq!(board.end_part(next, ShardId(0)), None);
        assert_eq!(board.close(next), Some(ScrubEnd::Stopped));
    }

    #[test]
    fn a_scrub_of_an_earlier_opening_counts() {
        let mut board = ScrubBoard::new(1);
        board.set_last(DAY_MS);
        board.start_due(need(false, 14 * DAY_MS));
        assert!(board.is_idle(), "it was 13 days ago");
        board.start_due(need(false, 15 * DAY_MS));
        assert!(!board.is_idle());
        board.part_of(ShardId(0), Epoch(7), 15 * DAY_MS).unwrap();
        board.stop();
        board.start_due(need(false, 16 * DAY_MS));
        assert!(board.is_idle(), "one has begun since");
    }

    #[test]
    fn a_walk_follows_a_loss_and_a_scrub_comes_every_two_weeks() {
        let mut board = ScrubBoard::new(1);
        board.start_due(need(false, 1));
        assert_eq!(board.part_of(ShardId(0), Epoch(7), 1), None, "nothing was lost");
        board.start_due(need(true, 2));
        let bad = ScrubFindings { strips_bad: 1, ..ScrubFindings::default() };
        let number = board.part_of(ShardId(0), Epoch(7), 2).unwrap().number;
        board.start_due(need(true, 3));
        board.add(number, bad);
        board.end_part(number, ShardId(0)).unwrap();
        board.close(number);
        board.start_due(need(true, 3));
        assert!(board.is_idle(), "what is wrong is moved first");
        let damaged = |unix_ms| WalkNeed { has_damage: true, ..need(true, unix_ms) };
        board.start_due(damaged(3));
        board.start_due(damaged(1 + WALK_AGAIN_MS));
        assert!(board.is_idle(), "what cannot be moved is not looked for all the time");
        board.start_due(need(true, 2 + MENDED_MS));
        assert!(!board.is_idle());
        board.stop();
        board.start_due(need(true, 2 + WALK_AGAIN_MS));
        let number = board.part_of(ShardId(0), Epoch(8), 2 + WALK_AGAIN_MS).unwrap().number;
        board.end_part(number, ShardId(0)).unwrap();
        board.close(number);
        board.start_due(need(false, 3 + WALK_AGAIN_MS));
        assert!(board.is_idle());
        board.start_due(need(false, 2 + WALK_AGAIN_MS + 14 * DAY_MS));
        assert!(!board.is_idle());
    }
}
