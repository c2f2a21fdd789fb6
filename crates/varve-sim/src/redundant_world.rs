//! What a world on redundant drives has beside the others: the drives, what happens to them at the begin of each life,
//! and what the operator says when the pool does not open.

use std::cell::Cell;

use varve_media::SimLatency;
use varve_reactor::Nanos;
use varve_stdx::Rng;

use crate::branches::{Branches, PoolOpening};
use crate::config::WorldConfig;
use crate::drives::{DriveCondition, DriveLatencies, RedundantMedia};
use crate::found_tables::{FoundTables, OpeningVerdict, OpeningWish};
use crate::model::ShardModel;
use crate::redundancy::{DriveFaults, Redundancy};

/// Longest latency of a slow drive, as a part of how long a drive may not answer.
pub(crate) const SLOWEST_PART: u64 = 4;

/// A drive that answers late.
#[derive(Clone, Copy, Debug)]
struct SlowDrive {
    index: usize,
    /// By how much all its operations take longer.
    factor: u64,
}

/// What the operator does with a pool that does not open by itself.
#[derive(Clone, Copy, Default, Debug)]
struct Operator {
    /// Goes on with the drives that are there.
    goes_on: bool,
    /// Takes one of several histories.
    chooses: Option<usize>,
    /// Takes another one where that is not enough of a pool: one of an opening that was cut off may not be.
    tries_all: bool,
}

impl Operator {
    /// One who goes on.
    const fn going_on() -> Self {
        Self { goes_on: true, chooses: None, tries_all: false }
    }
}

/// The drives, and what happens to them.
pub(crate) struct RedundantWorld {
    redundancy: Redundancy,
    media: RedundantMedia,
    branches: Branches,
    slow: Cell<Option<SlowDrive>>,
    operator: Cell<Operator>,
    /// Segments whose strips were counted.
    counted: Cell<u64>,
    /// Rows that came to the end of a move.
    moved: Cell<u64>,
    /// Whether strips were damaged that nobody has written anew.
    is_rotten: Cell<bool>,
    /// Whether the last opening that was refused had to be, or could be.
    is_refused_rightly: Cell<bool>,
}

impl RedundantWorld {
    /// Empty drives.
    pub(crate) fn new(config: &WorldConfig, models: &[ShardModel]) -> Option<Self> {
        let redundancy = config.redundancy.clone()?;
        let media = RedundantMedia::new(config, &redundancy);
        Some(Self {
            branches: Branches::new(redundancy.drives(), models),
            redundancy,
            media,
            slow: Cell::new(None),
            operator: Cell::default(),
            counted: Cell::new(0),
            moved: Cell::new(0),
            is_rotten: Cell::new(false),
            is_refused_rightly: Cell::new(false),
        })
    }

    /// Another world as this one is now, with what is under way to its drives.
    pub(crate) fn fork(&self) -> Self {
        Self {
            redundancy: self.redundancy.clone(),
            media: self.media.fork(),
            branches: self.branches.clone(),
            slow: self.slow.clone(),
            operator: self.operator.clone(),
            counted: Cell::new(0),
            moved: Cell::new(0),
            is_rotten: self.is_rotten.clone(),
            is_refused_rightly: self.is_refused_rightly.clone(),
        }
    }

    /// The pool's figures.
    pub(crate) fn redundancy(&self) -> &Redundancy {
        &self.redundancy
    }

    /// The drives.
    pub(crate) fn media(&self) -> &RedundantMedia {
        &self.media
    }

    /// Rows that came to the end of a move, in all lives that ended.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.get()
    }

    pub(crate) fn note_moved(&self, rows: u64) {
        self.moved.set(self.moved.get() + rows);
    }

    /// Segments whose strips were counted, in all lives.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.get()
    }

    /// Adds to that.
    pub(crate) fn count(&self, segments: usize) {
        self.counted.set(self.counted.get() + segments as u64);
    }

    /// Whether strips were damaged that nobody has written anew.
    pub(crate) fn is_rotten(&self) -> bool {
        self.is_rotten.get()
    }

    /// Enters that strips were damaged.
    pub(crate) fn set_rotten(&self) {
        self.is_rotten.set(true);
    }

    /// Whether the last opening that was refused had to be, or could be.
    pub(crate) fn is_refused_rightly(&self) -> bool {
        self.is_refused_rightly.get()
    }

    /// Enters that.
    pub(crate) fn judge_refusal(&self, is_right: bool) {
        self.is_refused_rightly.set(is_right);
    }

    /// Decides in which order drives are when the machine starts. In the last life all drives that are not lost are
    /// there.
    pub(crate) fn begin_life(&self, rng: &mut Rng, is_last: bool) {
        self.operator.set(Operator::default());
        self.is_refused_rightly.set(false);
        match self.redundancy.faults {
            DriveFaults::None | DriveFaults::Rotting => {}
            DriveFaults::Losing | DriveFaults::Full => self.begin_with_losses(rng, is_last),
            DriveFaults::Returning => self.begin_with_returns(rng, is_last),
            DriveFaults::Moving => {
                self.set_lost_conditions(rng);
                self.operator.set(Operator::going_on());
            }
            DriveFaults::Slow => {
                let index = rng.index(self.redundancy.drives());
                let factor = [1, 10, 100, 1000][rng.index(4)];
                self.slow.set(Some(SlowDrive { index, factor }));
                self.set_lost_conditions(rng);
                if is_last || rng.chance(1, 2) {
                    self.operator.set(Operator::going_on());
                }
            }
        }
    }

    /// The life has ended, and power was cut.
    pub(crate) fn end_life(&self, models: &[ShardModel]) {
        if self.redundancy.faults == DriveFaults::Returning {
            self.branches.end(models);
        }
    }

    /// Drives that were lost are back, or not there, or still out of order.
    fn set_lost_conditions(&self, rng: &mut Rng) {
        for index in 0..self.redundancy.drives() {
            let condition = if self.media.is_lost(index) {
                let back = DriveCondition::Well;
                [back, back, back, LOST_AT_START[rng.index(LOST_AT_START.len())]][rng.index(4)]
            } else {
                DriveCondition::Well
            };
            self.media.set_condition(index, condition, Nanos(0));
        }
    }

    fn begin_with_losses(&self, rng: &mut Rng, is_last: bool) {
        self.set_lost_conditions(rng);
        if !is_last {
            if rng.chance(1, 8) && self.unplug(rng) {
                return;
            }
            let is_one_more =
                if self.media.spare() > 0 { rng.chance(1, 5) } else { rng.chance(1, 60) };
            if let Some(index) = self.media.draw_sound(rng).filter(|_| is_one_more) {
                self.media.lose(index);
                let condition = LOST_AT_START[rng.index(LOST_AT_START.len())];
                self.media.set_condition(index, condition, Nanos(0));
            }
        }
        // Where all are lost, those that are there may be of long ago: whoever goes on with them loses the rest.
        if !self.media.are_all_lost() {
            self.operator.set(Operator::going_on());
        }
    }

    /// Takes away more drives than may be dropped, for one start: the pool must not open, and goes on as if nothing had
    /// been once they are back. False where there are too few to leave one.
    fn unplug(&self, rng: &mut Rng) -> bool {
        let mut sound: Vec<_> = (0..self.redundancy.drives()).collect();
        sound.retain(|index| !self.media.is_lost(*index));
        let least = self.redundancy.survives() + 1;
        if sound.len() <= least {
            return false;
        }
        let count = least + rng.index(sound.len() - least);
        for _ in 0..count {
            let index = sound.swap_remove(rng.index(sound.len()));
            self.media.set_condition(index, DriveCondition::Absent, Nanos(0));
        }
        true
    }

    fn begin_with_returns(&self, rng: &mut Rng, is_last: bool) {
        self.media.set_lost([]); // Those of the branch that goes on are known once it is open.
        let are_all = is_last || rng.chance(1, 2);
        let drives = self.redundancy.drives();
        let stays = rng.index(drives);
        for index in 0..drives {
            let is_there = are_all || index == stays || rng.chance(1, 2);
            let condition = if is_there { DriveCondition::Well } else { DriveCondition::Absent };
            self.media.set_condition(index, condition, Nanos(0));
        }
        let goes_on = is_last || rng.chance(1, 2);
        let chooses = (is_last || rng.chance(1, 2)).then(|| rng.index(16));
        self.operator.set(Operator { goes_on, chooses, tries_all: is_last });
    }

    /// What the operator says after an opening was refused, one after the other until it opens.
    pub(crate) fn wishes_after(&self, found: &FoundTables) -> Vec<OpeningWish> {
        let Operator { goes_on: is_degraded, chooses, tries_all } = self.operator.get();
        let histories = match (found.verdict, chooses) {
            (OpeningVerdict::IsSplit, Some(at)) => found.histories(at),
            _ => Vec::new(),
        };
        if histories.is_empty() {
            let wish = OpeningWish { is_degraded, history: None };
            return if is_degraded { vec![wish] } else { Vec::new() };
        }
        let tried = if tries_all { histories.len() } else { 1 };
        let wish = |history| OpeningWish { is_degraded, history: Some(history) };
        histories.into_iter().take(tried).map(wish).collect()
    }

    /// What drives took part in.
    pub(crate) fn branches(&self) -> &Branches {
        &self.branches
    }

    /// The pool is open.
    pub(crate) fn enter_opening(&self, opened: &PoolOpening<'_>, models: &[ShardModel]) {
        if self.redundancy.faults != DriveFaults::Returning {
            return;
        }
        self.branches.open(opened, models);
        let drives = 0..self.redundancy.drives();
        self.media.set_lost(drives.filter(|index| !opened.members.contains(index)));
    }

    /// A drive fails now, of which the others must not lose anything. False when it cannot be told what it has then.
    pub(crate) fn lose_member(&self, index: usize, models: &[ShardModel], now: u64) -> bool {
        let is_member = self.branches.fail(index, models, now);
        if is_member {
            self.media.lose(index);
        }
        is_member
    }

    /// How long operations of a drive take in this life.
    pub(crate) fn latencies(&self, config: &WorldConfig, index: Option<usize>) -> DriveLatencies {
        let usual = &config.latency;
        let writes = &usual.write_nanos;
        let slow_slots = writes.start..writes.end * config.slow_slots;
        let units = SimLatency { write_nanos: slow_slots, ..usual.clone() };
        let slow = self.slow.get().filter(|slow| Some(slow.index) == index);
        let factor = slow.map_or(1, |slow| slow.factor);
        let nanos_max = self.redundancy.patience_nanos / SLOWEST_PART;
        let slower = |latency: &SimLatency| {
            let range = |range: &std::ops::Range<u64>| {
                let end = (range.end * factor).min(nanos_max).max(range.end);
                (range.start * factor).min(end - 1)..end
            };
            SimLatency {
                read_nanos: range(&latency.read_nanos),
                write_nanos: range(&latency.write_nanos),
                flush_nanos: range(&latency.flush_nanos),
            }
        };
        DriveLatencies { meta: slower(usual), units: slower(&units) }
    }
}

/// In which order a lost drive can be at a start.
const LOST_AT_START: [DriveCondition; 6] = [
    DriveCondition::Absent,
    DriveCondition::Absent,
    DriveCondition::Failing,
    DriveCondition::ReadOnly,
    DriveCondition::Silent,
    DriveCondition::Unopenable,
];
