//! Where a volume is on its way between two pools, as its record and errors say it.

use std::fmt;

use varve_stdx::{Reader, Writer};

/// Longest name of the other side, in bytes.
pub const PEER_BYTES_MAX: usize = 512;

/// Where a volume is on its way between two pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveState {
    /// It comes from elsewhere and is not whole yet.
    Arriving,
    /// It goes elsewhere: it can be read.
    Leaving,
    /// It is elsewhere.
    Left,
    /// It came from elsewhere, where it is still, out of use (MOVING-7).
    Arrived,
}

/// That a volume moves, and the other side of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// How far it is.
    pub state: MoveState,
    /// Where it comes from or goes to, in words, and who moves it; the last word is the run that does, until it
    /// arrived.
    pub peer: String,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = &self.peer;
        match self.state {
            MoveState::Arriving => write!(f, "arrives from {peer}"),
            MoveState::Leaving => write!(f, "moves to {peer}"),
            MoveState::Left => write!(f, "moved to {peer}"),
            MoveState::Arrived => write!(f, "arrived from {peer}"),
        }
    }
}

impl Move {
    /// Bytes of its encoding.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no encoding is empty")]
    pub fn len(&self) -> usize {
        3 + self.peer.len()
    }

    /// Writes its encoding.
    ///
    /// # Panics
    /// When the other side's name is longer than [`PEER_BYTES_MAX`]: whoever is given one checks it.
    pub fn encode(&self, out: &mut Writer<'_>) {
        out.u8(match self.state {
            MoveState::Arriving => 1,
            MoveState::Leaving => 2,
            MoveState::Left => 3,
            MoveState::Arrived => 4,
        });
        out.u16(u16::try_from(self.peer.len()).expect("it was checked when it was given"));
        out.bytes(self.peer.as_bytes());
    }

    /// What was encoded.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(fields: &mut Reader<'_>) -> std::result::Result<Self, &'static str> {
        let short = |_| "it is too short";
        let state = match fields.u8().map_err(short)? {
            1 => MoveState::Arriving,
            2 => MoveState::Leaving,
            3 => MoveState::Left,
            4 => MoveState::Arrived,
            _ => return Err("how far its move is, is unknown"),
        };
        let len = usize::from(fields.u16().map_err(short)?);
        if len > PEER_BYTES_MAX {
            return Err("the other side of its move is too long");
        }
        let peer = str::from_utf8(fields.bytes(len).map_err(short)?);
        let peer = peer.map_err(|_| "the other side of its move is not text")?.to_owned();
        Ok(Self { state, peer })
    }

    /// Whether clients can open such a volume: it is whole, and here.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(self.state, MoveState::Leaving | MoveState::Arrived) // MOVING-2, MOVING-3
    }
}
