//! Where a volume or bucket is on its way between two pools, as its record stores it.
//!
//! ```text
//! 0       1        2           3          4      20    36     52               54         56
//! | state | remark | last kind | reserved | pool | run | last | address length | reserved | address
//! ```
//!
//! VOLUME-MOVE-1. What is stored can be taken: a remark stands beside the state that it belongs to only, and what it
//!     came or went with beside `left` and `arrived`. Whoever is given a move checks it ([`Move::is_valid`]), and the
//!     decoder refuses others.

use std::fmt;

use varve_stdx::{DecodeError, Reader, Writer};
use varve_types::{MigrationRunId, PoolId, SnapshotIdentity};

/// Longest address of the other side's daemon, in bytes.
pub const MOVE_ADDRESS_BYTES_MAX: usize = 512;

/// Bytes of its encoding before the address.
const FIXED_LEN: usize = 56;

/// How far a volume or bucket is on its way between two pools.
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

/// What else is to be known of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveRemark {
    /// Of one that arrives: the run ended before it was done, and nobody acts for it until another run takes it over.
    Parked,
    /// Of one that left: the move was given up, and what is here is to be deleted.
    GivenUp,
    /// Of one that left: it is to be kept.
    Kept,
}

/// What arrived or left was at its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MoveLast {
    /// The volume's last snapshot.
    Snapshot(SnapshotIdentity),
    /// Number of the bucket in its pool.
    Bucket(u64),
}

/// That a volume or bucket moves, and the other side of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// How far it is.
    pub state: MoveState,
    /// The pool that it comes from or goes to.
    pub pool: PoolId,
    /// Where that pool's daemon was for the run; at most [`MOVE_ADDRESS_BYTES_MAX`].
    pub address: String,
    /// The run that moves it, or did.
    pub run: MigrationRunId,
    /// What else is to be known.
    pub remark: Option<MoveRemark>,
    /// Of one that left or arrived: what it was at its source.
    pub last: Option<MoveLast>,
}

impl fmt::Display for MoveLast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot(identity) => write!(f, "snapshot {identity}"),
            Self::Bucket(number) => write!(f, "bucket {number}"),
        }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, pool, address, run, remark, last } = self;
        f.write_str(match (state, remark) {
            (_, Some(MoveRemark::GivenUp)) => "was given up, and came from",
            (MoveState::Arriving, _) => "arrives from",
            (MoveState::Leaving, _) => "moves to",
            (MoveState::Left, _) => "moved to",
            (MoveState::Arrived, _) => "arrived from",
        })?;
        write!(f, " pool {pool} at {address}, by run {run}")?;
        if let Some(last) = last {
            write!(f, ", with {last}")?;
        }
        f.write_str(match remark {
            Some(MoveRemark::Kept) => ", kept",
            Some(MoveRemark::Parked) => ", which has ended",
            Some(MoveRemark::GivenUp) | None => "",
        })
    }
}

impl Move {
    /// Whether such a move can be stored (VOLUME-MOVE-1).
    #[must_use]
    pub fn is_valid(&self) -> bool {
        let is_placed = match self.remark {
            None => true,
            Some(MoveRemark::Parked) => self.state == MoveState::Arriving,
            Some(MoveRemark::GivenUp | MoveRemark::Kept) => self.state == MoveState::Left,
        };
        let has_ended = matches!(self.state, MoveState::Left | MoveState::Arrived);
        is_placed
            && (self.last.is_none() || has_ended)
            && self.address.len() <= MOVE_ADDRESS_BYTES_MAX
    }

    /// Bytes of its encoding.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no encoding is empty")]
    pub fn len(&self) -> usize {
        FIXED_LEN + self.address.len()
    }

    /// Writes its encoding.
    ///
    /// # Panics
    /// When it is not valid: whoever is given one checks it (VOLUME-MOVE-1).
    pub fn encode(&self, out: &mut Writer<'_>) {
        assert!(self.is_valid(), "a move is checked when it is given: {self:?}");
        out.u8(match self.state {
            MoveState::Arriving => 1,
            MoveState::Leaving => 2,
            MoveState::Left => 3,
            MoveState::Arrived => 4,
        });
        out.u8(match self.remark {
            None => 0,
            Some(MoveRemark::Parked) => 1,
            Some(MoveRemark::GivenUp) => 2,
            Some(MoveRemark::Kept) => 3,
        });
        let (kind, last) = match self.last {
            None => (0, [0; 16]),
            Some(MoveLast::Snapshot(identity)) => (1, identity.0),
            Some(MoveLast::Bucket(number)) => (2, u128::from(number).to_le_bytes()),
        };
        out.u8(kind);
        out.zeros(1);
        out.array(self.pool.0);
        out.array(self.run.0);
        out.array(last);
        out.u16(u16::try_from(self.address.len()).expect("it was checked above"));
        out.zeros(2);
        out.bytes(self.address.as_bytes());
    }

    /// What was encoded.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(fields: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let state = match fields.u8()? {
            1 => MoveState::Arriving,
            2 => MoveState::Leaving,
            3 => MoveState::Left,
            4 => MoveState::Arrived,
            state => return Err(fields.bad("state of the move", u64::from(state))),
        };
        let remark = match fields.u8()? {
            0 => None,
            1 => Some(MoveRemark::Parked),
            2 => Some(MoveRemark::GivenUp),
            3 => Some(MoveRemark::Kept),
            remark => return Err(fields.bad("remark of the move", u64::from(remark))),
        };
        let last_kind = fields.u8()?;
        fields.zeros(1)?;
        let pool = PoolId(fields.array()?);
        let run = MigrationRunId(fields.array()?);
        let last = decode_last(fields, last_kind)?;
        let address_len = usize::from(fields.u16()?);
        fields.zeros(2)?;
        if address_len > MOVE_ADDRESS_BYTES_MAX {
            return Err(fields.bad("length of the address of the move", address_len as u64));
        }
        let address = fields.text("address of the move", address_len)?.to_owned();
        let decoded = Self { state, pool, address, run, remark, last };
        match decoded.is_valid() {
            true => Ok(decoded),
            false => Err(fields.inconsistent("fields of the move contradict each other")), // VOLUME-MOVE-1
        }
    }

    /// Whether clients can open such a volume: it is whole, and here.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(self.state, MoveState::Leaving | MoveState::Arrived) // MOVING-2, MOVING-3
    }
}

fn decode_last(
    fields: &mut Reader<'_>,
    kind: u8,
) -> std::result::Result<Option<MoveLast>, DecodeError> {
    match kind {
        0 => fields.zeros(16).map(|()| None),
        1 => Ok(Some(MoveLast::Snapshot(SnapshotIdentity(fields.array()?)))),
        2 => {
            let number = fields.u64()?;
            fields.zeros(8)?;
            Ok(Some(MoveLast::Bucket(number)))
        }
        kind => Err(fields.bad("kind of what moved", u64::from(kind))),
    }
}
