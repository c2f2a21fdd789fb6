//! Volumes that move from one pool to another. Each side's record says so, and changes as one step of a comparison: who moves a volume says what
//! it takes its state to be, so that of two that try, one is refused.
//!
//! ```text
//!  at the source    none ──▶ leaving ──▶ left             at the target    (made) ──▶ arriving ──▶ none
//!                    ▲          │                                                        │
//!                    └──────────┘                                                        └──▶ left (given up)
//! ```
//!
//! M1. A volume that is leaving is not changed: what would change it is refused from before the answer of the step that says so, and no
//!     write is under way by then. So a snapshot that is taken afterwards has all that was ever acknowledged, and the state outlives crashes.
//! M2. A volume that is arriving is open to one client that says which run it receives it for, and to nobody else: a volume is served by
//!     one pool.
//! M3. A volume that left is neither read nor changed; its snapshots are there until they are deleted with it.
//! M4. Whatever changes a volume that is on its way says where it takes it to be, and is compared under the volume's hold. Only deleting all
//!     of it, and what does not touch data, is open to those who do not move it.
//! M5. A step of a volume that is arriving shuts out who has it open, and waits for what is under way: no run changes what another goes on
//!     with, also one that was asleep.
//! M6. A volume arrives with a snapshot that is named by its identity: its newest, which it equals, and nothing else is being received.

use std::fmt;

use varve_stdx::{Reader, Writer};
use varve_types::StreamId;

use crate::catalog::{all_snapshots, store};
use crate::identity::SnapshotIdentity;
use crate::name::DatasetName;
use crate::open::Gate;
use crate::record::{VolumeInfo, VolumeRecord};
use crate::volume::Volume;
use crate::{Datasets, Error, Result};

/// Longest name of the other side, in bytes.
pub const PEER_BYTES_MAX: usize = 512;

/// Pause between looks at whether writes are still under way, in ns.
const LOOK_PAUSE_NS: u64 = 1_000_000;

/// Looks until the step is given up: writes that wait for a drive do not keep names held for longer than 10 s.
const LOOKS_MAX: u32 = 10_000;

/// Where a volume is on its way between two pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveState {
    /// It comes from elsewhere and is not whole yet.
    Arriving,
    /// It goes elsewhere: it can be read.
    Leaving,
    /// It is elsewhere.
    Left,
}

/// That a volume moves, and the other side of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// How far it is.
    pub state: MoveState,
    /// Where it comes from or goes to, in words, and who moves it; the last word is the run that does.
    pub peer: String,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = &self.peer;
        match self.state {
            MoveState::Arriving => write!(f, "arrives from {peer}"),
            MoveState::Leaving => write!(f, "moves to {peer}"),
            MoveState::Left => write!(f, "moved to {peer}"),
        }
    }
}

impl Move {
    /// Bytes of its encoding.
    pub(crate) fn len(&self) -> usize {
        3 + self.peer.len()
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.u8(match self.state {
            MoveState::Arriving => 1,
            MoveState::Leaving => 2,
            MoveState::Left => 3,
        });
        out.u16(u16::try_from(self.peer.len()).expect("it was checked when it was given"));
        out.bytes(self.peer.as_bytes());
    }

    /// What was encoded, or what is wrong with it.
    pub(crate) fn decode(fields: &mut Reader<'_>) -> std::result::Result<Self, &'static str> {
        let short = |_| "it is too short";
        let state = match fields.u8().map_err(short)? {
            1 => MoveState::Arriving,
            2 => MoveState::Leaving,
            3 => MoveState::Left,
            _ => return Err("how far its move is, is unknown"),
        };
        let len = usize::from(fields.u16().map_err(short)?);
        if len > PEER_BYTES_MAX {
            return Err("the other side of its move is too long");
        }
        let peer = str::from_utf8(fields.bytes(len).map_err(short)?);
        let peer = peer.map_err(|_| "the other side of its move is no text")?.to_owned();
        Ok(Self { state, peer })
    }

    /// The run that moves it.
    fn run(&self) -> &str {
        self.peer.rsplit(' ').next().unwrap_or_default()
    }

    /// What clients of such a volume may do.
    pub(crate) fn gate(moves: Option<&Self>) -> Gate {
        match moves.map(|moves| moves.state) {
            None | Some(MoveState::Arriving) => Gate::Open,
            Some(MoveState::Leaving) => Gate::ReadOnly,
            Some(MoveState::Left) => Gate::Shut,
        }
    }
}

/// Whether a volume may go from one state to another.
fn is_step(before: Option<MoveState>, after: Option<MoveState>) -> bool {
    use MoveState::{Arriving, Leaving, Left};
    matches!(
        (before, after),
        (None, Some(Leaving))
            | (Some(Leaving), None | Some(Leaving | Left))
            | (Some(Arriving), Some(Arriving | Left))
    )
}

impl Datasets {
    /// Refuses to change a volume that is not where the caller takes it to be (M4).
    pub(crate) fn check_move(&self, name: &DatasetName, record: &VolumeRecord) -> Result<()> {
        match (&record.moves, &self.expects) {
            (moves, expects) if moves == expects => Ok(()),
            (Some(moves), None) => {
                Err(Error::Moves { name: name.display(), moves: moves.clone() }) // M1, M3
            }
            (moves, _) => Err(Error::MovesOtherwise { name: name.display(), moves: moves.clone() }),
        }
    }

    /// Takes a volume from one state of a move to the next, if it is in the one that the caller says. Durable on return; M1 holds for a
    /// volume that is leaving from then on.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a step that there is not, and for that to its last state, which is [`Self::arrive`]; `Conflict` when it is
    /// in another state; `Unavailable` when writes do not end.
    pub async fn move_volume(
        &self,
        name: &str,
        before: Option<Move>,
        after: Option<Move>,
    ) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        let state = |moves: &Option<Move>| moves.as_ref().map(|moves| moves.state);
        let is_long = after.as_ref().is_some_and(|moves| moves.peer.len() > PEER_BYTES_MAX);
        if !is_step(state(&before), state(&after)) || is_long {
            return Err(Error::BadMove { name: name.display() });
        }
        self.to_the_end(async move { datasets.move_held(&name, before, after).await }).await
    }

    async fn move_held(
        &self,
        name: &DatasetName,
        before: Option<Move>,
        after: Option<Move>,
    ) -> Result<VolumeInfo> {
        let _held = self.hold(name).await?;
        let record = self.record_at(name, before.as_ref()).await?;
        let stream = record.route.stream;
        if before.is_none()
            && let Some(identity) = record.receiving
        {
            return Err(Error::Receiving { name: name.display(), identity: identity.to_string() });
        }
        if before.as_ref().is_some_and(|moves| moves.state == MoveState::Arriving) {
            self.shut_out(name, stream).await?;
        }
        let closes = Move::gate(after.as_ref());
        if closes != Gate::Open {
            self.close_gate(name, stream, closes, Move::gate(before.as_ref())).await?;
        }
        let record = VolumeRecord { moves: after, ..record };
        let stored = store(&self.dispatch, name, &record).await;
        // After an error the record may say either; only what was answered counts for who moves it (M1).
        let moves = if stored.is_ok() { &record.moves } else { &before };
        self.shared.open.set_gate(stream, Move::gate(moves.as_ref()));
        stored.map(|()| record.info(name))
    }

    /// Takes a volume that arrives to its last state, in which clients use it, if it is at `before` and has received all up to the snapshot
    /// `last`, and nothing since (M6). Durable on return.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` when it does not arrive at `before`; `Conflict` when it is elsewhere on its way, receives something, or is not
    /// what its newest snapshot is; `Unavailable` when writes do not end.
    pub async fn arrive(
        &self,
        name: &str,
        before: Move,
        last: SnapshotIdentity,
    ) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        if before.state != MoveState::Arriving {
            return Err(Error::BadMove { name: name.display() });
        }
        self.to_the_end(async move { datasets.arrive_held(&name, &before, last).await }).await
    }

    async fn arrive_held(
        &self,
        name: &DatasetName,
        before: &Move,
        last: SnapshotIdentity,
    ) -> Result<VolumeInfo> {
        let _held = self.hold(name).await?;
        let record = self.record_at(name, Some(before)).await?;
        self.shut_out(name, record.route.stream).await?; // M5: what is compared now does not change any more.
        if let Some(identity) = record.receiving {
            return Err(Error::Receiving { name: name.display(), identity: identity.to_string() });
        }
        let all = all_snapshots(&self.dispatch, name).await?;
        let newest = all.into_iter().max_by_key(|(_, snapshot)| snapshot.route.stream);
        let Some((newest_name, newest)) = newest.filter(|(_, newest)| newest.identity == last)
        else {
            return Err(Error::NotNewest { name: name.display(), identity: last.to_string() });
        };
        if !self.equals(&record, &newest).await? {
            let snapshot = newest_name.display();
            return Err(Error::ChangedSince { name: name.display(), snapshot });
        }
        let record = VolumeRecord { moves: None, ..record };
        store(&self.dispatch, name, &record).await?;
        Ok(record.info(name))
    }

    /// The record of a volume that has to be at this point of its way.
    async fn record_at(&self, name: &DatasetName, moves: Option<&Move>) -> Result<VolumeRecord> {
        let record = self.record(name).await?;
        if record.moves.as_ref() == moves {
            return Ok(record);
        }
        Err(Error::MovesOtherwise { name: name.display(), moves: record.moves })
    }

    /// Closes the gate of a volume and waits until what was let through before has ended; opens it again as it was when that takes too long.
    async fn close_gate(
        &self,
        name: &DatasetName,
        stream: StreamId,
        gate: Gate,
        before: Gate,
    ) -> Result<()> {
        self.shared.open.set_gate(stream, gate);
        for _ in 0..LOOKS_MAX {
            if self.shared.open.changes(stream) == 0 {
                return Ok(()); // M1
            }
            self.dispatch.reactor().sleep(LOOK_PAUSE_NS).await;
        }
        self.shared.open.set_gate(stream, before);
        Err(Error::StillChanging { name: name.display() })
    }

    /// Shuts out who has a volume open that arrives (M5).
    async fn shut_out(&self, name: &DatasetName, stream: StreamId) -> Result<()> {
        self.close_gate(name, stream, Gate::Shut, Gate::Open).await?;
        self.shared.open.shut_out(stream);
        Ok(())
    }

    /// Opens a volume that is arriving, to fill it for the run that moves it: nobody else has it open (M2).
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is open, or does not arrive, or another run moves it.
    pub async fn open_arriving(&self, name: &str, run: &str) -> Result<Volume> {
        let name = DatasetName::parse(name)?;
        let _held = self.hold(&name).await?;
        let record = self.record(&name).await?;
        match &record.moves {
            Some(moves) if moves.state == MoveState::Arriving && moves.run() == run => {}
            _ => return Err(Error::MovesOtherwise { name: name.display(), moves: record.moves }),
        }
        self.check_closed(record.route.stream, || name.display())?;
        Ok(self.opened(&name, &record))
    }
}

#[cfg(test)]
mod tests;
