//! The record of a shard's journal: which copies of it there are, and from which position to which each of them proves
//! something.
//!
//! A copy has every acknowledged frame from `since` on; a former one those before its `until`.

use varve_stdx::Writer;
use varve_types::limits::MEDIA_ALIGN;
use varve_types::{PoolId, ShardId};

use super::fault::{FormatFault, check, check_counter};
use super::fields::{FieldReader, seal};
use crate::class::STRIPS_MAX;
use crate::ids::{DriveNumber, UNIT_BYTES, UnitNumber};

const MAGIC: [u8; 8] = *b"VARVJRNL";
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 56;
const COPY_BYTES: usize = 32;
const CHECKSUM_BYTES: usize = 8;
const STATE_CURRENT: u8 = 1;
const STATE_FORMER: u8 = 2;

/// Largest ring in bytes: as many units as a drive can have.
const LANE_BYTES_MAX: u64 = u32::MAX as u64 * UNIT_BYTES;

/// Where on its drive a copy is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalPlaceKind {
    /// From this unit on.
    Units(UnitNumber),
    /// In a lane, by its number on a drive of an earlier format.
    Lane(u16),
}

/// Whether frames are still appended to a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JournalCopyState {
    /// Each append is durable on it before it is answered.
    Current,
    /// It has frames before this position.
    Former {
        /// The first position that it may lack.
        until: u64,
    },
}

/// One copy of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalCopy {
    /// The drive that has it.
    pub drive: DriveNumber,
    /// Where.
    pub place: JournalPlaceKind,
    /// The first position that it has.
    pub since: u64,
    /// Up to where.
    pub state: JournalCopyState,
}

impl JournalCopy {
    /// Whether it must have the acknowledged frame at `position`.
    #[must_use]
    pub const fn has(&self, position: u64) -> bool {
        let is_before_end = match self.state {
            JournalCopyState::Current => true,
            JournalCopyState::Former { until } => position < until,
        };
        self.since <= position && is_before_end
    }

    /// Whether it is a current one.
    #[must_use]
    pub const fn is_current(&self) -> bool {
        match self.state {
            JournalCopyState::Current => true,
            JournalCopyState::Former { .. } => false,
        }
    }

    fn write(&self, w: &mut Writer<'_>) {
        let (kind, place) = match self.place {
            JournalPlaceKind::Units(first) => (1, first.0),
            JournalPlaceKind::Lane(lane) => (2, u32::from(lane)),
        };
        let (state, until) = match self.state {
            JournalCopyState::Current => (STATE_CURRENT, 0),
            JournalCopyState::Former { until } => (STATE_FORMER, until),
        };
        w.u8(self.drive.get());
        w.u8(kind);
        w.u8(state);
        w.u8(0);
        w.u32(place);
        w.u64(self.since);
        w.u64(until);
        w.u64(0);
    }

    fn read(fields: &mut FieldReader<'_>) -> Result<Self, FormatFault> {
        let drive = fields.drive()?;
        let (kind, state) = (fields.u8()?, fields.u8()?);
        fields.zeros(1)?;
        let (place, since, until) = (fields.u32()?, fields.u64()?, fields.u64()?);
        fields.zeros(8)?;
        let bad = |field, value: u64| FormatFault::Field { field, value };
        let place = match kind {
            1 => JournalPlaceKind::Units(UnitNumber(place)),
            2 => {
                let lane = u16::try_from(place).map_err(|_| bad("lane", place.into()))?;
                JournalPlaceKind::Lane(lane)
            }
            _ => return Err(bad("kind", kind.into())),
        };
        let state = match (state, until) {
            (STATE_CURRENT, 0) => JournalCopyState::Current,
            (STATE_CURRENT, _) => return Err(bad("until", until)),
            (STATE_FORMER, _) => JournalCopyState::Former { until },
            _ => return Err(bad("state", state.into())),
        };
        Ok(Self { drive, place, since, state })
    }
}

/// The record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JournalRecord {
    /// Which pool it is of.
    pub pool: PoolId,
    /// Whose journal.
    pub shard: ShardId,
    /// Raised with each change of the copies.
    pub journal_epoch: u64,
    /// Bytes of the ring.
    pub lane_bytes: u64,
    /// The copies.
    pub copies: Vec<JournalCopy>,
}

impl JournalRecord {
    /// Most copies, former ones included.
    pub const COPIES_MAX: usize = STRIPS_MAX;
    /// Bytes without copies.
    pub const LEN_MIN: usize = HEADER_BYTES + CHECKSUM_BYTES;
    /// Most bytes.
    pub const LEN_MAX: usize = Self::LEN_MIN + Self::COPIES_MAX * COPY_BYTES;

    /// Copies to which frames are appended.
    pub fn current(&self) -> impl Iterator<Item = &JournalCopy> {
        self.copies.iter().filter(|copy| copy.is_current())
    }

    /// The bytes that are stored.
    ///
    /// # Panics
    /// When it is not sound.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.check().expect("a journal record is sound when it is stored");
        let mut bytes = vec![0; Self::LEN_MIN + self.copies.len() * COPY_BYTES];
        let len = u32::try_from(bytes.len()).expect("at most 576");
        seal(&mut bytes, MAGIC, VERSION, |w| {
            w.u16(self.shard.0);
            w.u32(len);
            w.array(self.pool.0);
            w.u64(self.journal_epoch);
            w.u64(self.lane_bytes);
            w.u8(u8::try_from(self.copies.len()).expect("checked"));
            w.zeros(7);
            self.copies.iter().for_each(|copy| copy.write(w));
        });
        bytes
    }

    /// The record of a shard of `pool` that bytes hold.
    ///
    /// # Errors
    /// [`FormatFault`].
    pub fn decode(pool: PoolId, shard: ShardId, bytes: &[u8]) -> Result<Self, FormatFault> {
        let mut fields = FieldReader::open(bytes, MAGIC, VERSION)?;
        if fields.u16()? != shard.0 {
            return Err(FormatFault::Misplaced { owner: "shard" });
        }
        fields.length(bytes.len())?;
        fields.pool(pool)?;
        let (journal_epoch, lane_bytes) = (fields.u64()?, fields.u64()?);
        let copy_count = fields.u8()?;
        fields.zeros(7)?;
        let copies = (0..copy_count).map(|_| JournalCopy::read(&mut fields));
        let copies = copies.collect::<Result<_, _>>()?;
        fields.end()?;
        let record = Self { pool, shard, journal_epoch, lane_bytes, copies };
        record.check()?;
        Ok(record)
    }

    /// Relations between the fields.
    pub(crate) fn check(&self) -> Result<(), FormatFault> {
        let is_aligned = |bytes: u64| bytes.is_multiple_of(MEDIA_ALIGN as u64);
        check("shard", self.shard.0, self.shard.0 < ShardId::COUNT_MAX)?;
        check_counter("journal_epoch", self.journal_epoch)?;
        let is_ring = self.lane_bytes > 0 && self.lane_bytes <= LANE_BYTES_MAX;
        check("lane_bytes", self.lane_bytes, is_ring && is_aligned(self.lane_bytes))?;
        let counted = self.copies.len();
        check("copy_count", counted as u64, counted <= Self::COPIES_MAX)?;
        check("copy_count", counted as u64, self.current().next().is_some())?;
        for (index, copy) in self.copies.iter().enumerate() {
            check("since", copy.since, is_aligned(copy.since))?;
            check_counter("since", copy.since)?;
            if let JournalCopyState::Former { until } = copy.state {
                check("until", until, until >= copy.since && is_aligned(until))?;
                check_counter("until", until)?;
            }
            // PLACE-2: a former copy may be where a current one is, in another place.
            let is_alone = |other: &JournalCopy| {
                let is_apart = !(copy.is_current() && other.is_current());
                other.drive != copy.drive || (is_apart && other.place != copy.place)
            };
            let is_distinct = self.copies.iter().take(index).all(is_alone);
            check("drive", copy.drive.get(), is_distinct)?;
        }
        Ok(())
    }
}
