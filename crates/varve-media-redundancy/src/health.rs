//! What is proven of a pool: a function of its tables, of counts that the owners of zones keep, and of nothing else.
//!
//! POOL-HEALTH-1. Ok is a count: all strips of every held segment, as many as the layout says there must be, were
//!     verified since the last loss, the last of them by a walk of the whole pool that began after it. Who cannot be
//!     asked is not ok.
//! POOL-HEALTH-2. What is worst decides the state, and each reason that is not ok stands there with what to do.
//! POOL-HEALTH-3. Shards are those of the pool root, so a record that was not read is no shard less. A copy of a
//!     journal counts where it has what a replay would read.
//! POOL-HEALTH-4. A drive of which reads fail one after the other counts as lost for as long as they do, whatever the
//!     tables call it.
//! POOL-HEALTH-5. From when a read meets something wrong until all strips of the segment were looked at, from when they
//!     were found damaged until what is live was written anew elsewhere, and then until a walk, a pool is not ok. What
//!     was found is in the drive table before it is let go of, as a loss: an opening knows of it.

use std::collections::BTreeSet;
use std::fmt;

use varve_media::planted::{Bug, planted};
use varve_types::ShardId;

use crate::exposure::{Exposure, RepairItem, RepairQueue, RepairWork, is_readable, parity_of};
use crate::format::{
    DriveRecord, DriveRoles, DriveState, JournalCopy, JournalCopyState, JournalRecord, MoveReason,
    Row, RowState,
};
use crate::ids::{DriveNumber, Epoch, ZoneIndex};
use crate::repair::FailingDrive;
use crate::view::LayoutView;

/// How a pool is. A later one outweighs those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HealthState {
    /// Everything is kept as promised, and that is proven.
    Ok,
    /// Full redundancy is not proven.
    Attention,
    /// The next lost drive may take data.
    AtRisk,
    /// It cannot be told: it may be worse than at risk.
    Unknown,
    /// Something cannot be read.
    Lost,
}

impl HealthState {
    /// What `varve health` exits with.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Attention => 1,
            Self::AtRisk => 2,
            Self::Lost => 3,
            Self::Unknown => 4,
        }
    }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Attention => "attention",
            Self::AtRisk => "at risk",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
        })
    }
}

/// What a shard says: how far its journal goes back, and what it counts of the segments that it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardFacts {
    /// Which shard.
    pub shard: ShardId,
    /// The first position of its journal that a replay would begin with.
    pub journal_tail: u64,
    /// The loss since which it counts.
    pub counted_since: Epoch,
    /// Segments that it holds.
    pub held: u64,
    /// Of those, the ones of which every strip was verified since.
    pub verified: u64,
    /// Of those held, the ones of which strips are damaged.
    pub damaged: u64,
    /// Of those, the ones that cannot be read.
    pub unreadable: u64,
}

/// What health is computed from.
#[derive(Clone, Copy, Debug)]
pub struct HealthFacts<'a> {
    /// The tables.
    pub view: &'a LayoutView,
    /// What is to be repaired, of the same view.
    pub queue: &'a RepairQueue,
    /// Shards that the pool root says there are, numbered from 0.
    pub shard_count: u16,
    /// What shards say; of one that does not answer there is nothing.
    pub shards: &'a [ShardFacts],
    /// Drives that have every root as it is now.
    pub root_drives: &'a [DriveNumber],
    /// Drives of which reads fail.
    pub failing: &'a [FailingDrive],
    /// Segments of which a read met something wrong, and that nobody has looked at yet.
    pub suspects: u64,
}

/// Why a pool is not ok.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HealthReason {
    /// Zones have lost more than their class survives.
    ZonesLost {
        /// The first one.
        first: ZoneIndex,
        /// How many.
        zones: u64,
    },
    /// Segments cannot be read.
    SegmentsUnreadable {
        /// Whose.
        shard: ShardId,
        /// How many.
        segments: u64,
    },
    /// No copy of a part of a journal can be read, or its record is not there.
    JournalLost {
        /// Whose.
        shard: ShardId,
    },
    /// A shard does not answer.
    ShardSilent {
        /// Which.
        shard: ShardId,
    },
    /// Zones have lost all that their class survives.
    ZonesExposed {
        /// How many.
        zones: u64,
    },
    /// A part of a journal has too few copies.
    JournalCopies {
        /// Whose.
        shard: ShardId,
        /// Those that can be read.
        copies: usize,
        /// Those that there must be.
        needed: usize,
    },
    /// Roots have too few copies to survive what the pool survives.
    RootsExposed {
        /// Drives that have all of them.
        copies: usize,
        /// Those that there must be.
        needed: usize,
    },
    /// A drive lacks some roots.
    RootsMissing {
        /// Which.
        drive: DriveNumber,
    },
    /// Zones lack strips.
    ZonesDegraded {
        /// How many.
        zones: u64,
    },
    /// Zones survive less than new ones do, as they were made when the pool promised less.
    Unconverted {
        /// How many.
        zones: u64,
    },
    /// A drive failed.
    DriveFailed {
        /// Which.
        drive: DriveNumber,
        /// Its name.
        name: String,
    },
    /// A drive leaves, and has strips.
    DriveLeaving {
        /// Which.
        drive: DriveNumber,
    },
    /// Rows move to replace what was lost.
    Rebuilding {
        /// How many.
        zones: u64,
    },
    /// No whole walk began since the last loss.
    NotWalked {
        /// The loss.
        loss: Epoch,
    },
    /// Segments were not verified since the last loss.
    NotVerified {
        /// Whose.
        shard: ShardId,
        /// How many.
        segments: u64,
    },
    /// A drive is slower than its peers.
    DriveSlow {
        /// Which.
        drive: DriveNumber,
    },
    /// Reads of a drive fail, one after the other.
    DriveUnreadable {
        /// Which.
        drive: DriveNumber,
        /// Its name.
        name: String,
        /// How many.
        reads: u64,
    },
    /// Segments have damaged strips, and are being written anew.
    SegmentsDamaged {
        /// Whose.
        shard: ShardId,
        /// How many.
        segments: u64,
    },
    /// Reads of segments met something wrong.
    SegmentsSuspect {
        /// How many.
        segments: u64,
    },
}

impl HealthReason {
    /// How the pool is for this reason alone.
    #[must_use]
    pub const fn state(&self) -> HealthState {
        match self {
            Self::ZonesLost { .. } | Self::SegmentsUnreadable { .. } | Self::JournalLost { .. } => {
                HealthState::Lost
            }
            Self::ShardSilent { .. } => HealthState::Unknown,
            Self::ZonesExposed { .. }
            | Self::JournalCopies { copies: ..=1, .. }
            | Self::RootsExposed { copies: ..=1, .. } => HealthState::AtRisk,
            Self::JournalCopies { .. }
            | Self::RootsExposed { .. }
            | Self::RootsMissing { .. }
            | Self::ZonesDegraded { .. }
            | Self::Unconverted { .. }
            | Self::DriveFailed { .. }
            | Self::DriveLeaving { .. }
            | Self::Rebuilding { .. }
            | Self::NotWalked { .. }
            | Self::NotVerified { .. }
            | Self::DriveSlow { .. }
            | Self::DriveUnreadable { .. }
            | Self::SegmentsDamaged { .. }
            | Self::SegmentsSuspect { .. } => HealthState::Attention,
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::ZonesLost { .. } | Self::JournalLost { .. } => {
                "connect the missing drives again; if they are gone, restore what is named from a backup"
            }
            Self::SegmentsUnreadable { .. } => {
                "run varve check to see which volumes and objects they belong to, and restore these from a backup"
            }
            Self::ShardSilent { .. } => {
                "look into the log for the reason why the shard is not open"
            }
            Self::ZonesExposed { .. } | Self::ZonesDegraded { .. } | Self::DriveFailed { .. } => {
                "replace the failed drive with varve drive replace; if there is room, repair goes on without it"
            }
            Self::JournalCopies { .. } | Self::RootsExposed { .. } => {
                "add a drive with varve drive add: no other drive can take the missing copy"
            }
            Self::RootsMissing { .. } | Self::Rebuilding { .. } | Self::DriveLeaving { .. } => {
                "wait; varve drive moves shows how far that is"
            }
            Self::Unconverted { .. } => {
                "wait for the conversion, which varve drive moves shows, or begin it with varve pool set --protect"
            }
            Self::NotWalked { .. } | Self::NotVerified { .. } => {
                "wait for the scrub that follows a repair by itself, or start one with varve drive scrub"
            }
            Self::DriveSlow { .. } => "check cables and temperature of the drive, or replace it",
            Self::DriveUnreadable { .. } => {
                "check the drive and its cables: it counts as lost until it can be read again; replace it with varve drive replace if it cannot"
            }
            Self::SegmentsDamaged { .. } => {
                "wait: what they hold is written anew elsewhere, and then everything is read"
            }
            Self::SegmentsSuspect { .. } => "wait: all copies of what was read are being compared",
        }
    }
}

impl fmt::Display for HealthReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZonesLost { first, zones } => {
                write!(
                    f,
                    "{zones} zones, zone {first} among them, lack more drives than they survive the loss of"
                )
            }
            Self::SegmentsUnreadable { shard, segments } => {
                write!(f, "{segments} segments of shard {shard} cannot be read")
            }
            Self::JournalLost { shard } => {
                write!(f, "a part of the journal of shard {shard} is on no drive that can be read")
            }
            Self::ShardSilent { shard } => write!(f, "shard {shard} does not answer"),
            Self::ZonesExposed { zones } => {
                write!(f, "{zones} zones do not survive the loss of another drive")
            }
            Self::JournalCopies { shard, copies, needed } => {
                write!(f, "the journal of shard {shard} has {copies} of {needed} copies")
            }
            Self::RootsExposed { copies, needed } => {
                write!(f, "roots are on {copies} drives, and should be on {needed}")
            }
            Self::RootsMissing { drive } => write!(f, "drive {drive} lacks copies of roots"),
            Self::ZonesDegraded { zones } => write!(f, "{zones} zones lack strips"),
            Self::Unconverted { zones } => {
                write!(f, "{zones} zones survive the loss of fewer drives than new ones")
            }
            Self::DriveFailed { drive, name } => write!(f, "drive {drive} ({name}) failed"),
            Self::DriveLeaving { drive } => write!(f, "drive {drive} leaves, and still has data"),
            Self::Rebuilding { zones } => write!(f, "{zones} zones are being rebuilt"),
            Self::NotWalked { loss } => {
                write!(
                    f,
                    "not everything was read since a drive was lost (epoch {loss} of the tables)"
                )
            }
            Self::NotVerified { shard, segments } => {
                write!(
                    f,
                    "{segments} segments of shard {shard} were not verified since the last loss"
                )
            }
            Self::DriveSlow { drive } => write!(f, "drive {drive} is much slower than the others"),
            Self::DriveUnreadable { drive, name, reads } => {
                write!(f, "drive {drive} ({name}) cannot be read: the last {reads} reads failed")
            }
            Self::SegmentsDamaged { shard, segments } => {
                write!(
                    f,
                    "{segments} segments of shard {shard} have damaged strips, and are being written anew"
                )
            }
            Self::SegmentsSuspect { segments } => {
                write!(f, "reads of {segments} segments met something wrong")
            }
        }
    }
}

/// What health says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthReport {
    /// The reasons, the worst first; none when all is well.
    pub reasons: Vec<HealthReason>,
    /// Drives that may be lost at once without loss of data, whichever they are; `None` when data are lost.
    pub survives: Option<u8>,
}

impl HealthReport {
    /// The report of a pool.
    #[must_use]
    pub fn of(facts: &HealthFacts<'_>) -> Self {
        let unreadable: Vec<_> = facts.failing.iter().map(|failing| failing.drive).collect();
        if unreadable.is_empty() || planted(Bug::FailingIsWell) {
            return Self::by(facts, facts);
        }
        // POOL-HEALTH-4
        let view = facts.view.without(&unreadable);
        let queue = RepairQueue::of(&view);
        Self::by(facts, &HealthFacts { view: &view, queue: &queue, ..*facts })
    }

    /// By the tables, and by what of it can be read.
    fn by(tables: &HealthFacts<'_>, readable: &HealthFacts<'_>) -> Self {
        let mut reasons = Vec::new();
        add_zones(readable, &mut reasons);
        add_unconverted(tables, &mut reasons);
        add_journals(readable, &mut reasons);
        add_roots(readable, &mut reasons);
        add_drives(tables, &mut reasons);
        add_counts(tables, &mut reasons);
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.state())); // POOL-HEALTH-2
        Self { reasons, survives: survives(readable) }
    }

    /// How the pool is (POOL-HEALTH-1).
    #[must_use]
    pub fn state(&self) -> HealthState {
        self.reasons.first().map_or(HealthState::Ok, HealthReason::state)
    }
}

/// Copies of journals and roots with which they survive what zones do.
fn copies_needed(view: &LayoutView) -> usize {
    usize::from(view.drives().drops_max) + 1
}

/// Numbers of all shards: those of the pool root, and any others that have a journal record (POOL-HEALTH-3).
fn shards(facts: &HealthFacts<'_>) -> BTreeSet<ShardId> {
    let recorded = facts.view.journals().map(|journal| journal.shard);
    let counted = if planted(Bug::ShardForgotten) { 0 } else { facts.shard_count };
    (0..counted).map(ShardId).chain(recorded).collect()
}

/// Drives that can be read and have a copy, of the part of a shard's journal that the fewest have (POOL-HEALTH-3).
fn journal_copies(facts: &HealthFacts<'_>, shard: ShardId) -> usize {
    let Some(journal) = facts.view.journals().find(|journal| journal.shard == shard) else {
        return 0;
    };
    let said = facts.shards.iter().find(|facts| facts.shard == shard);
    // Who does not say where its journal begins has at most what the copies have between them.
    let least = journal.copies.iter().map(|copy| copy.since).min().unwrap_or_default();
    let tail = said.map_or(least, |facts| facts.journal_tail);
    let boundaries = journal.copies.iter().flat_map(boundaries_of).filter(|it| *it > tail);
    let copies = std::iter::once(tail).chain(boundaries).map(|it| copies_at(facts, journal, it));
    copies.min().unwrap_or_default()
}

/// Positions from which on a copy has, or lacks, what is appended.
pub(crate) fn boundaries_of(copy: &JournalCopy) -> impl Iterator<Item = u64> + use<> {
    let until = match copy.state {
        JournalCopyState::Current => None,
        JournalCopyState::Former { until } => Some(until),
    };
    std::iter::once(copy.since).chain(until)
}

/// Drives that can be read and have a journal's position.
fn copies_at(facts: &HealthFacts<'_>, journal: &JournalRecord, position: u64) -> usize {
    let table = facts.view.drives();
    let counted = journal.copies.iter().filter(|copy| copy.has(position));
    let drives: BTreeSet<_> = counted.map(|copy| copy.drive).collect();
    let counts = |drive| is_readable(table, drive) || planted(Bug::CountedFromTable);
    drives.into_iter().filter(|drive| counts(*drive)).count()
}

fn root_drives<'a>(facts: &HealthFacts<'a>) -> impl Iterator<Item = &'a DriveRecord> {
    let drives = facts.view.drives().drives.iter();
    drives.filter(|it| it.roles.has(DriveRoles::ROOTS) && it.state == DriveState::Live)
}

fn add_zones(facts: &HealthFacts<'_>, reasons: &mut Vec<HealthReason>) {
    let count = |is_meant: &dyn Fn(&&RepairItem) -> bool| {
        facts.queue.items().filter(is_meant).count() as u64
    };
    // What was put while a row moved, or before, may be in the lost set alone.
    let mut lost = facts.queue.items().filter(|item| item.has_lost_set);
    if let Some(first) = lost.next() {
        reasons.push(HealthReason::ZonesLost { first: first.zone, zones: 1 + lost.count() as u64 });
    }
    let is_degraded = |item: &&RepairItem| item.work == RepairWork::Rebuild && !item.has_lost_set;
    let is_exposed =
        |item: &&RepairItem| is_degraded(item) && item.exposure == Exposure::Survives(0);
    let exposed = count(&is_exposed);
    if exposed > 0 {
        reasons.push(HealthReason::ZonesExposed { zones: exposed });
    }
    let degraded = count(&|item| is_degraded(item) && !is_exposed(item));
    if degraded > 0 {
        reasons.push(HealthReason::ZonesDegraded { zones: degraded });
    }
    let is_rebuild = |state: &RowState| match state {
        RowState::Moving { why, .. } => *why == MoveReason::Rebuild,
        RowState::Empty | RowState::Still(_) => false,
    };
    let zones = facts.view.rows().filter(|(_, row)| is_rebuild(&row.state)).count() as u64;
    if zones > 0 {
        reasons.push(HealthReason::Rebuilding { zones });
    }
}

/// Rows with less parity than zones get now. While a row is converted, a part of its segments has it still.
fn add_unconverted(facts: &HealthFacts<'_>, reasons: &mut Vec<HealthReason>) {
    let (view, table) = (facts.view, facts.view.drives());
    let promised = table.class_of(table.class).map_or(0, |class| class.shape.parity());
    let has_less = |row: &Row| row.sets().any(|set| parity_of(view, set) < promised);
    let zones = view.rows().filter(|(_, row)| has_less(row)).count() as u64;
    if zones > 0 {
        reasons.push(HealthReason::Unconverted { zones });
    }
}

fn add_journals(facts: &HealthFacts<'_>, reasons: &mut Vec<HealthReason>) {
    let needed = copies_needed(facts.view);
    for shard in shards(facts) {
        match journal_copies(facts, shard) {
            0 => reasons.push(HealthReason::JournalLost { shard }),
            copies if copies < needed => {
                reasons.push(HealthReason::JournalCopies { shard, copies, needed });
            }
            _ => {}
        }
    }
}

fn add_roots(facts: &HealthFacts<'_>, reasons: &mut Vec<HealthReason>) {
    let (mut copies, needed) = (0, copies_needed(facts.view));
    for drive in root_drives(facts).map(|drive| drive.number) {
        if facts.root_drives.contains(&drive) {
            copies += 1;
        } else {
            reasons.push(HealthReason::RootsMissing { drive });
        }
    }
    if copies < needed {
        reasons.push(HealthReason::RootsExposed { copies, needed });
    }
}

fn add_drives(facts: &HealthFacts<'_>, reasons: &mut Vec<HealthReason>) {
    let view = facts.view;
    let has_strips = |drive| view.rows().any(|(_, row)| row.sets().any(|set| set.has_drive(drive)));
    for DriveRecord { number, state, name, is_slow, .. } in &view.drives().drives {
        let drive = *number;
        match state {
            DriveState::Failed if has_strips(drive) => {
                reasons.push(HealthReason::DriveFailed { drive, name: name.clone() });
            }
            DriveState::Leaving if has_strips(drive) => {
                reasons.push(HealthReason::DriveLeaving { drive });
            }
            DriveState::Live if *is_slow => reasons.push(HealthReason::DriveSlow { drive }),
            DriveState::Live
            | DriveState::Joining
            | DriveState::Leaving
            | DriveState::Failed
            | DriveState::Gone => {}
        }
        let failing = facts.failing.iter().find(|it| it.drive == drive && state.is_readable());
        if let Some(FailingDrive { reads, .. }) = failing {
            let (name, reads) = (name.clone(), *reads);
            reasons.push(HealthReason::DriveUnreadable { drive, name, reads });
        }
    }
}

/// POOL-HEALTH-1: what was verified, against what is held.
fn add_counts(facts: &HealthFacts<'_>, reasons: &mut Vec<HealthReason>) {
    let table = facts.view.drives();
    let loss = table.loss_epoch;
    if table.walked_epoch != loss && !planted(Bug::OkWithoutWalk) {
        reasons.push(HealthReason::NotWalked { loss });
    }
    if facts.suspects > 0 {
        reasons.push(HealthReason::SegmentsSuspect { segments: facts.suspects });
    }
    for shard in shards(facts) {
        let Some(counts) = facts.shards.iter().find(|facts| facts.shard == shard) else {
            reasons.push(HealthReason::ShardSilent { shard });
            continue;
        };
        // What was verified before the last loss proves nothing after it.
        let verified = if counts.counted_since == loss { counts.verified } else { 0 };
        if verified != counts.held {
            let segments = counts.held.saturating_sub(verified).max(1);
            reasons.push(HealthReason::NotVerified { shard, segments });
        }
        if counts.damaged > 0 {
            let segments = counts.damaged;
            reasons.push(HealthReason::SegmentsDamaged { shard, segments });
        }
        if counts.unreadable > 0 {
            let segments = counts.unreadable;
            reasons.push(HealthReason::SegmentsUnreadable { shard, segments });
        }
    }
}

fn survives(facts: &HealthFacts<'_>) -> Option<u8> {
    if facts.shards.iter().any(|shard| shard.damaged > 0 || shard.unreadable > 0) {
        return None; // Less than their zones: how much less, nobody counted.
    }
    let zones = facts.queue.exposed().next().map(|zones| zones.exposure);
    let journals = shards(facts).into_iter().map(|shard| journal_copies(facts, shard)).min();
    let roots = root_drives(facts).filter(|it| facts.root_drives.contains(&it.number)).count();
    let zones = match zones {
        Some(Exposure::Lost) => return None,
        Some(Exposure::Survives(left)) => left,
        None => u8::MAX,
    };
    // The table may drop so many at once, and is on all drives.
    let most = facts.view.drives().drops_max.min(zones);
    [journals.unwrap_or(usize::MAX), roots].into_iter().try_fold(most, |least, copies| {
        Some(least.min(u8::try_from(copies.checked_sub(1)?).unwrap_or(u8::MAX)))
    })
}

#[cfg(test)]
mod tests;
