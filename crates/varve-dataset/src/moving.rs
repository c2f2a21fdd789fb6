//! Volumes that move from one pool to another. Each side's record says so, and changes as one step of a comparison: who
//! moves a volume says what it takes its state to be, so that of two that try, one is refused.
//!
//! ```text
//!  at the source    none ──▶ leaving ──▶ left             at the target    (made) ──▶ arriving ──▶ arrived ──▶ none
//!                    ▲          │                                                        │
//!                    └──────────┘                                                        └──▶ left (given up)
//! ```
//!
//! MOVING-1. A volume that is leaving is not changed: what would change it is refused from before the answer of the
//!     step that says so, and no write is under way by then. So a snapshot that is taken afterwards has all that was
//!     ever acknowledged, and the state outlives crashes.
//! MOVING-2. A volume that is arriving is open to one client that says which run it receives it for, and to nobody
//!     else: a volume is served by one pool.
//! MOVING-3. A volume that left is neither read nor changed; its snapshots are there until they are deleted with it.
//! MOVING-4. Whatever changes a volume that is on its way says where it takes it to be, and is compared under the
//!     volume's hold. Only deleting all of it, and what does not touch data, is open to those who do not move it.
//! MOVING-5. A step of a volume that is arriving shuts out who has it open, and waits for what is under way: no run
//!     changes what another goes on with, also one that was asleep.
//! MOVING-6. A volume arrives with a snapshot that is named by its identity: its newest, which it equals, and nothing
//!     else is being received.
//! MOVING-7. A volume that arrived is used as any other, and says where it came from and with which snapshot until its
//!     source has none any more, or is to keep it. Until then it is neither deleted nor moved on: what the source has
//!     is deleted on the strength of what it says.

use varve_dispatch::HeldNames;
use varve_types::{MigrationRunId, SnapshotIdentity};

use crate::catalog::{all_snapshots, store};
use crate::name::{DatasetName, SnapshotName};
use crate::open::AccessMode;
use crate::record::{VolumeInfo, VolumeRecord};
use crate::snapshot_record::SnapshotRecord;
use crate::volume::Volume;
use crate::volume_move::{Move, MoveLast, MoveState};
use crate::{Datasets, Error, Result};

/// First and longest pause between looks at whether writes are still under way, in ns: each is twice the one before.
const LOOK_PAUSE_NS: u64 = 500_000;
const LOOK_PAUSE_NS_MAX: u64 = 16_000_000;

/// How long writes that are under way are waited for, in ns.
const WAIT_NS_MAX: u64 = 10_000_000_000;

impl Move {
    /// Whether it arrives by a run that acts for it.
    fn arrives_by(&self, run: MigrationRunId) -> bool {
        self.state == MoveState::Arriving && self.remark.is_none() && self.run == run
    }

    /// What clients of such a volume may do.
    pub(crate) fn gate(moves: Option<&Self>) -> AccessMode {
        match moves.map(|moves| moves.state) {
            None | Some(MoveState::Arriving | MoveState::Arrived) => AccessMode::Open,
            Some(MoveState::Leaving) => AccessMode::ReadOnly,
            Some(MoveState::Left) => AccessMode::Shut,
        }
    }
}

/// Whether what moves may go from one state to another; to arrived it goes by another way, on which what came is
/// compared.
#[must_use]
pub fn is_step(before: Option<MoveState>, after: Option<MoveState>) -> bool {
    use MoveState::{Arrived, Arriving, Leaving, Left};
    matches!(
        (before, after),
        (None, Some(Leaving))
            | (Some(Leaving), None | Some(Leaving | Left))
            | (Some(Arriving), Some(Arriving | Left))
            | (Some(Left), Some(Left))
            | (Some(Arrived), None)
    )
}

/// What a volume is taken to be by who fences it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FencedView {
    /// Number of the volume.
    pub id: u64,
    /// Its newest snapshot.
    pub newest: SnapshotIdentity,
}

/// A step of a volume from one state to another.
struct MoveTransition {
    before: Option<Move>,
    after: Option<Move>,
    seen: Option<FencedView>,
}

impl MoveTransition {
    /// Whether those who have the volume open are shut out (MOVING-5).
    fn shuts_out(&self) -> bool {
        self.before.as_ref().is_some_and(|moves| moves.state == MoveState::Arriving)
    }

    /// What clients may still do while it is taken.
    fn gate(&self) -> AccessMode {
        if self.shuts_out() { AccessMode::Shut } else { Move::gate(self.after.as_ref()) }
    }
}

impl Datasets {
    /// Refuses to change a volume that is not where the caller takes it to be (MOVING-4).
    pub(crate) fn check_move(&self, name: &DatasetName, record: &VolumeRecord) -> Result<()> {
        match (&record.moves, &self.expects) {
            (moves, expects) if moves == expects => Ok(()),
            (Some(moves), None) if moves.state == MoveState::Arrived => Ok(()), // MOVING-7
            (Some(moves), None) => {
                Err(Error::Moves { name: name.display(), moves: moves.clone() }) // MOVING-1, MOVING-3
            }
            (moves, _) => Err(Error::MovesOtherwise { name: name.display(), moves: moves.clone() }),
        }
    }

    /// Takes a volume from one state of a move to the next, if it is in the one that the caller says. Durable on
    /// return; MOVING-1 holds for a volume that is leaving from then on.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a step that there is not, and for that to arrived, which is [`Self::arrive`];
    /// `Conflict` when it is in another state; `Unavailable` when writes do not end.
    pub async fn move_volume(
        &self,
        name: &str,
        before: Option<Move>,
        after: Option<Move>,
    ) -> Result<VolumeInfo> {
        self.step(name, MoveTransition { before, after, seen: None }).await
    }

    /// Takes a volume that does not move to leaving, if it is still what was seen of it: who moves it knows what is
    /// left to be sent then. Durable on return, and MOVING-1 holds.
    ///
    /// # Errors
    /// As [`Self::move_volume`]; `Conflict` also when it is another volume, or has a newer snapshot.
    pub async fn fence(&self, name: &str, after: Move, seen: FencedView) -> Result<VolumeInfo> {
        self.step(name, MoveTransition { before: None, after: Some(after), seen: Some(seen) }).await
    }

    async fn step(&self, name: &str, step: MoveTransition) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        let state = |moves: &Option<Move>| moves.as_ref().map(|moves| moves.state);
        let is_valid = step.after.as_ref().is_none_or(Move::is_valid); // VOLUME-MOVE-1
        if !is_step(state(&step.before), state(&step.after)) || !is_valid {
            return Err(Error::BadMove { name: name.display() });
        }
        self.run_detached(async move { datasets.step_held(&name, step).await }).await
    }

    async fn step_held(&self, name: &DatasetName, step: MoveTransition) -> Result<VolumeInfo> {
        let (_held, record) = self.closed(name, &step).await?;
        let stream = record.route.stream;
        if step.shuts_out() {
            self.shared.open.shut_out(stream); // MOVING-5
        }
        let MoveTransition { before, after, .. } = step;
        let record = VolumeRecord { moves: after, ..record };
        let stored = store(&self.dispatch, name, &record).await;
        // After an error the record may say either; only what was answered counts for who moves it (MOVING-1).
        let moves = if stored.is_ok() { &record.moves } else { &before };
        self.shared.open.set_gate(stream, Move::gate(moves.as_ref()));
        stored.map(|()| record.info(name))
    }

    /// Takes a volume that arrives to where clients use it, if it is at `before` and has received all up to the
    /// snapshot `last`, and nothing since (MOVING-6). It says so from then on (MOVING-7). Durable on return.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` when `before` is not that of a volume that arrives by a run that acts for it; `Conflict`
    /// when it is elsewhere on its way, receives something, or is not what its newest snapshot is; `Unavailable` when
    /// writes do not end.
    pub async fn arrive(
        &self,
        name: &str,
        before: Move,
        last: SnapshotIdentity,
    ) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        if before.state != MoveState::Arriving || before.remark.is_some() || !before.is_valid() {
            return Err(Error::BadMove { name: name.display() });
        }
        let with = Some(MoveLast::Snapshot(last));
        let after = Some(Move { state: MoveState::Arrived, last: with, ..before.clone() });
        let step = MoveTransition { before: Some(before), after, seen: None };
        self.run_detached(async move { datasets.arrive_held(&name, step, last).await }).await
    }

    async fn arrive_held(
        &self,
        name: &DatasetName,
        step: MoveTransition,
        last: SnapshotIdentity,
    ) -> Result<VolumeInfo> {
        let (_held, record) = self.closed(name, &step).await?;
        self.shared.open.shut_out(record.route.stream); // MOVING-5: what is compared now does not change any more.
        if let Some(identity) = record.receiving {
            return Err(Error::Receiving { name: name.display(), identity: identity.to_string() });
        }
        let (newest_name, newest) = self.newest(name, last).await?;
        if !self.equals(&record, &newest).await? {
            let snapshot = newest_name.display();
            return Err(Error::ChangedSince { name: name.display(), snapshot });
        }
        let record = VolumeRecord { moves: step.after, ..record };
        store(&self.dispatch, name, &record).await?;
        Ok(record.info(name))
    }

    /// The newest snapshot of a volume, which has to be this one.
    async fn newest(
        &self,
        name: &DatasetName,
        identity: SnapshotIdentity,
    ) -> Result<(SnapshotName, SnapshotRecord)> {
        let all = all_snapshots(&self.dispatch, name).await?;
        let newest = all.into_iter().max_by_key(|(_, snapshot)| snapshot.route.stream);
        newest.filter(|(_, newest)| newest.identity == identity).ok_or_else(|| Error::NotNewest {
            name: name.display(),
            identity: identity.to_string(),
        })
    }

    /// Whether a volume is where a step begins, and what it was seen to be.
    async fn check_step(
        &self,
        name: &DatasetName,
        record: &VolumeRecord,
        step: &MoveTransition,
    ) -> Result<()> {
        if record.moves != step.before {
            return Err(Error::MovesOtherwise {
                name: name.display(),
                moves: record.moves.clone(),
            });
        }
        if let (None, Some(identity)) = (&step.before, record.receiving) {
            return Err(Error::Receiving { name: name.display(), identity: identity.to_string() });
        }
        let Some(seen) = &step.seen else { return Ok(()) };
        if record.route.stream.get() != seen.id {
            return Err(Error::OtherVolume { name: name.display(), id: seen.id });
        }
        self.newest(name, seen.newest).await.map(drop)
    }

    /// Closes the gate of a volume that is where a step begins, also for who opens it later, and waits until what was
    /// let through before has ended. Its name is held then, and not while it is waited for. When that takes too long,
    /// or the volume is elsewhere by then, the gate is what its record says; when that cannot be read, it stays closed
    /// until somebody opens the volume.
    async fn closed(
        &self,
        name: &DatasetName,
        step: &MoveTransition,
    ) -> Result<(HeldNames, VolumeRecord)> {
        let (mut waited_ns, mut pause_ns) = (0, LOOK_PAUSE_NS);
        let mut closers = Vec::new(); // One for each volume that had the name meanwhile.
        loop {
            let held = self.hold_open(name).await?;
            let record = self.record(name).await?;
            let (open, stream) = (&self.shared.open, record.route.stream);
            let checked = match self.shared.unsettled.check() {
                Ok(()) => self.check_step(name, &record, step).await,
                unsettled => unsettled, // After a wait the gate is closed, and has to be opened again.
            };
            if checked.is_ok() {
                if step.gate() == AccessMode::Open {
                    return Ok((held, record));
                }
                closers.push(open.closer(stream, step.gate()));
                if open.changes(stream) == 0 {
                    return Ok((held, record)); // MOVING-1
                }
                if waited_ns < WAIT_NS_MAX {
                    drop(held);
                    self.dispatch.reactor().sleep(pause_ns).await;
                    waited_ns += pause_ns;
                    pause_ns = (2 * pause_ns).min(LOOK_PAUSE_NS_MAX);
                    continue;
                }
            }
            closers.clear(); // Before the name is let go of: who opens the volume next finds nobody waiting.
            open.set_gate(stream, Move::gate(record.moves.as_ref()));
            return Err(checked.err().unwrap_or(Error::StillChanging { name: name.display() }));
        }
    }

    /// Opens a volume that is arriving, to fill it for the run that moves it: nobody else has it open (MOVING-2).
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is open, or does not arrive, or another run moves it.
    pub async fn open_arriving(&self, name: &str, run: MigrationRunId) -> Result<Volume> {
        let name = DatasetName::parse(name)?;
        let _held = self.hold_open(&name).await?;
        let record = self.record(&name).await?;
        match &record.moves {
            Some(moves) if moves.arrives_by(run) => {}
            _ => return Err(Error::MovesOtherwise { name: name.display(), moves: record.moves }),
        }
        self.check_closed(record.route.stream, || name.display())?;
        Ok(self.opened(&name, &record))
    }
}

#[cfg(test)]
mod tests;
