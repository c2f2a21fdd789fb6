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
//! M2. A volume that is arriving is open to one client that says it receives it, and to nobody else: a volume is served by one pool.
//! M3. A volume that left is neither read nor changed; its snapshots are there until they are deleted with it.

use std::fmt;

use varve_stdx::{Reader, Writer};

use crate::catalog::store;
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
    /// Where it comes from or goes to, in words, and who moves it.
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
            | (Some(Arriving), None | Some(Arriving | Left))
    )
}

/// Refuses what a volume that goes elsewhere does not allow.
pub(crate) fn check_stays(name: &DatasetName, record: &VolumeRecord) -> Result<()> {
    match &record.moves {
        Some(moves) if moves.state != MoveState::Arriving => {
            Err(Error::Moves { name: name.display(), moves: moves.clone() })
        }
        _ => Ok(()),
    }
}

impl Datasets {
    /// Takes a volume from one state of a move to the next, if it is in the one that the caller says. Durable on return; M1 holds for a
    /// volume that is leaving from then on.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for a step that there is not; `Conflict` when it is in another state, or arrives and is open; `Unavailable`
    /// when writes do not end.
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
        let record = self.record(name).await?;
        if record.moves != before {
            return Err(Error::MovesOtherwise { name: name.display(), moves: record.moves });
        }
        let stream = record.route.stream;
        if before.is_none()
            && let Some(identity) = record.receiving
        {
            return Err(Error::Receiving { name: name.display(), identity: identity.to_string() });
        }
        if before.as_ref().is_some_and(|moves| moves.state == MoveState::Arriving) {
            self.check_closed(stream, || name.display())?; // M2: who received it has ended.
        }
        let closes = Move::gate(after.as_ref());
        if closes != Gate::Open {
            self.shared.open.set_gate(stream, closes);
            for look in 0.. {
                if self.shared.open.changes(stream) == 0 {
                    break; // M1
                }
                if look == LOOKS_MAX {
                    self.shared.open.set_gate(stream, Move::gate(before.as_ref()));
                    return Err(Error::StillChanging { name: name.display() });
                }
                self.dispatch.reactor().sleep(LOOK_PAUSE_NS).await;
            }
        }
        let record = VolumeRecord { moves: after, ..record };
        let stored = store(&self.dispatch, name, &record).await;
        let moves = if stored.is_ok() { &record.moves } else { &before };
        self.shared.open.set_gate(stream, Move::gate(moves.as_ref()));
        stored.map(|()| record.info(name))
    }

    /// Opens a volume that is arriving, to fill it: nobody else has it open (M2).
    ///
    /// # Errors
    /// `NotFound`; `Conflict` when it is open, or does not arrive.
    pub async fn open_arriving(&self, name: &str) -> Result<Volume> {
        let name = DatasetName::parse(name)?;
        let _held = self.hold(&name).await?;
        let record = self.record(&name).await?;
        match &record.moves {
            Some(moves) if moves.state == MoveState::Arriving => {}
            _ => return Err(Error::MovesOtherwise { name: name.display(), moves: record.moves }),
        }
        self.check_closed(record.route.stream, || name.display())?;
        Ok(self.opened(&name, &record))
    }
}

#[cfg(test)]
mod tests;
