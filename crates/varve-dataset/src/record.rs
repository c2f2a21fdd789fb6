//! What is stored of a volume: the value of its key on its name's home shard. Described in `docs/format.md`.
//!
//! ```text
//! 0         2       3          4             8        16           24       32          40             48       52
//! | version | state | placement | block bytes | stream | size bytes | seed   | created   | reduction    | flags  |
//! ```
//!
//! Behind it, as the flags say: the quota, the identity of what it is receiving, the length and name of what it was
//! cloned from, and where it is on its way between two pools (`volume_move.rs`).

use serde::{Serialize, Serializer};
use varve_dispatch::{Route, StreamPlacement};
use varve_stdx::{DecodeError, Reader, Writer};
use varve_types::limits::VOLUME_BYTES_MAX;
use varve_types::{Compression, Dedup, Reduction, SnapshotIdentity, StreamId};

use crate::name::DatasetName;
use crate::reduction;
use crate::volume_move::Move;
use crate::{Error, Result};

/// Version of the record.
const VERSION: u16 = 1;

/// State: a volume.
const VOLUME: u8 = 0;

/// Flag: the name of its origin is there.
const HAS_ORIGIN: u32 = 1;

/// Flag: the identity of the snapshot that it is receiving is there.
const IS_RECEIVING: u32 = 2;

/// Flag: a quota is there.
const HAS_QUOTA: u32 = 4;

/// Flag: space is reserved for all of it.
const IS_RESERVED: u32 = 8;

/// Flag: it is served to one connection at a time.
const IS_EXCLUSIVE: u32 = 32;

/// Flag: where it is on its way between two pools is there.
const MOVES: u32 = 64;

/// Flag of versions that stored that as a sentence.
const MOVES_AS_TEXT: u32 = 16;

/// What is wrong with such a record, which is not to be deleted as damaged ones are: it may be all that there is of the
/// volume (MOVING-7).
pub(crate) const EARLIER_MOVE: &str =
    "it moves, as an earlier version stored that: end the move with that version";

/// A volume as people and programs see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VolumeInfo {
    /// Name, without the default namespace.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Number of its stream; never reused in the pool.
    pub id: u64,
    /// Bytes that clients see.
    pub size_bytes: u64,
    /// Block size that clients are told to prefer, in bytes.
    pub block_size_bytes: u32,
    /// When it was made, in ms since 1970.
    pub created_unix_ms: u64,
    /// Whether blocks written from now on are deduplicated.
    #[serde(serialize_with = "as_text")]
    pub dedup: Dedup,
    /// How blocks written from now on are compressed.
    #[serde(serialize_with = "as_text")]
    pub compression: Compression,
    /// The most data that it may hold, in bytes.
    pub quota_bytes: Option<u64>,
    /// Bytes of it that can always be written, whatever others write.
    pub reserved_bytes: Option<u64>,
    /// Whether it is served to one connection of a client at a time.
    pub exclusive: bool,
    /// What it was cloned from, by the name of then; it need not be there any more.
    pub origin: Option<String>,
    /// The snapshot that it holds a part of, while it is being received.
    pub receiving: Option<SnapshotIdentity>,
    /// Where it is on its way between two pools.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_sentence")]
    pub moves: Option<Move>,
}

fn as_sentence<S: Serializer>(
    moves: &Option<Move>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(moves.as_ref().expect("it is left out otherwise"))
}

fn as_text<S: Serializer>(
    setting: &impl std::fmt::Display,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_str(setting)
}

/// A volume's stored record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct VolumeRecord {
    pub(crate) route: Route,
    pub(crate) size_bytes: u64,
    pub(crate) block_bytes: u32,
    pub(crate) created_unix_ms: u64,
    pub(crate) reduction: Reduction,
    pub(crate) quota_bytes: Option<u64>,
    /// Space is reserved for all of it.
    pub(crate) is_reserved: bool,
    /// It is served to one connection at a time.
    pub(crate) is_exclusive: bool,
    /// Name, as people write it, of what it was cloned from.
    pub(crate) origin: Option<String>,
    pub(crate) receiving: Option<SnapshotIdentity>,
    pub(crate) moves: Option<Move>,
}

/// Refuses sizes that no volume, and no snapshot of one, has.
pub(crate) fn check_sizes(
    fields: &Reader<'_>,
    block_bytes: u32,
    size_bytes: u64,
) -> std::result::Result<(), DecodeError> {
    if !block_bytes.is_power_of_two() {
        return Err(fields.bad("block size", u64::from(block_bytes)));
    }
    if size_bytes > VOLUME_BYTES_MAX {
        return Err(fields.bad("size", size_bytes));
    }
    Ok(())
}

impl VolumeRecord {
    /// Bytes without what the flags add.
    pub(crate) const LEN: usize = 52;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let identity_len = self.receiving.map_or(0, |identity| identity.0.len());
        let quota_len = self.quota_bytes.map_or(0, |_| 8);
        let origin_len = self.origin.as_ref().map_or(0, |origin| 2 + origin.len());
        let moves_len = self.moves.as_ref().map_or(0, Move::len);
        let mut bytes = vec![0; Self::LEN + quota_len + identity_len + origin_len + moves_len];
        let mut out = Writer::new(&mut bytes);
        out.u16(VERSION);
        out.u8(VOLUME);
        out.u8(self.route.placement.generation);
        out.u32(self.block_bytes);
        out.u64(self.route.stream.get());
        out.u64(self.size_bytes);
        out.u64(self.route.placement.seed);
        out.u64(self.created_unix_ms);
        out.array(reduction::encode(self.reduction));
        let origin_flag = if self.origin.is_some() { HAS_ORIGIN } else { 0 };
        let receiving_flag = if self.receiving.is_some() { IS_RECEIVING } else { 0 };
        let quota_flag = if self.quota_bytes.is_some() { HAS_QUOTA } else { 0 };
        let reserved_flag = if self.is_reserved { IS_RESERVED } else { 0 };
        let moves_flag = if self.moves.is_some() { MOVES } else { 0 };
        let exclusive_flag = if self.is_exclusive { IS_EXCLUSIVE } else { 0 };
        let settings = quota_flag | reserved_flag | exclusive_flag;
        out.u32(origin_flag | receiving_flag | settings | moves_flag);
        if let Some(quota_bytes) = self.quota_bytes {
            out.u64(quota_bytes);
        }
        if let Some(identity) = self.receiving {
            out.array(identity.0);
        }
        if let Some(origin) = &self.origin {
            out.u16(u16::try_from(origin.len()).expect("names are a few hundred bytes"));
            out.bytes(origin.as_bytes());
        }
        if let Some(moves) = &self.moves {
            moves.encode(&mut out);
        }
        bytes
    }

    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let decoded = Self::decode_fields(Reader::new("record of a volume", bytes));
        decoded.map_err(|cause| Error::BadRecord { name: name.to_owned(), cause })
    }

    fn decode_fields(mut fields: Reader<'_>) -> std::result::Result<Self, DecodeError> {
        fields.version(VERSION)?;
        match fields.u8()? {
            VOLUME => {}
            kind => return Err(fields.unknown(kind)),
        }
        let generation = fields.u8()?;
        let block_bytes = fields.u32()?;
        let stream = fields.id("stream", StreamId::from_untrusted)?;
        let size_bytes = fields.u64()?;
        let seed = fields.u64()?;
        let created_unix_ms = fields.u64()?;
        let reduction = fields.id("reduction", reduction::decode_word)?;
        let flags = fields.u32()?;
        if flags & MOVES_AS_TEXT != 0 {
            return Err(fields.inconsistent(EARLIER_MOVE));
        }
        let known = HAS_ORIGIN | IS_RECEIVING | HAS_QUOTA | IS_RESERVED | IS_EXCLUSIVE | MOVES;
        if flags & !known != 0 {
            return Err(fields.bad("flags", u64::from(flags)));
        }
        let quota_bytes = match flags & HAS_QUOTA {
            0 => None,
            _ => Some(fields.u64()?),
        };
        let receiving = match flags & IS_RECEIVING {
            0 => None,
            _ => Some(SnapshotIdentity(fields.array()?)),
        };
        let origin = match flags & HAS_ORIGIN {
            0 => None,
            _ => {
                let len = usize::from(fields.u16()?);
                Some(fields.text("name of the origin", len)?.to_owned())
            }
        };
        let moves = match flags & MOVES {
            0 => None,
            _ => Some(Move::decode(&mut fields)?),
        };
        fields.end()?;
        check_sizes(&fields, block_bytes, size_bytes)?;
        let route = Route { stream, placement: StreamPlacement { seed, generation } };
        Ok(Self {
            route,
            size_bytes,
            block_bytes,
            created_unix_ms,
            reduction,
            quota_bytes,
            is_reserved: flags & IS_RESERVED != 0,
            is_exclusive: flags & IS_EXCLUSIVE != 0,
            origin,
            receiving,
            moves,
        })
    }

    pub(crate) fn reserved_bytes(&self) -> Option<u64> {
        self.is_reserved.then_some(self.size_bytes)
    }

    pub(crate) fn info(&self, name: &DatasetName) -> VolumeInfo {
        VolumeInfo {
            name: name.display(),
            namespace: name.namespace.clone(),
            id: self.route.stream.get(),
            size_bytes: self.size_bytes,
            block_size_bytes: self.block_bytes,
            created_unix_ms: self.created_unix_ms,
            dedup: self.reduction.dedup,
            compression: self.reduction.compression,
            quota_bytes: self.quota_bytes,
            reserved_bytes: self.reserved_bytes(),
            exclusive: self.is_exclusive,
            origin: self.origin.clone(),
            receiving: self.receiving,
            moves: self.moves.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use varve_types::{MigrationRunId, PoolId};

    use crate::volume_move::{MOVE_ADDRESS_BYTES_MAX, MoveLast, MoveRemark, MoveState};

    fn record() -> VolumeRecord {
        VolumeRecord {
            route: Route {
                stream: StreamId::new(77),
                placement: StreamPlacement { seed: u64::MAX - 3, generation: 2 },
            },
            size_bytes: 20 << 30,
            block_bytes: 4096,
            created_unix_ms: 1_700_000_000_000,
            reduction: Reduction { dedup: Dedup::On, compression: Compression::Zstd(19) },
            quota_bytes: None,
            is_reserved: false,
            is_exclusive: false,
            origin: None,
            receiving: None,
            moves: None,
        }
    }

    fn moves(state: MoveState) -> Move {
        let (pool, run) = (PoolId([7; 16]), MigrationRunId([9; 16]));
        Move { state, pool, address: "unix:/ü".to_owned(), run, remark: None, last: None }
    }

    #[test]
    fn records_round_trip_and_refuse_what_is_unknown() {
        let record = record();
        let bytes = record.encode();
        assert_eq!(bytes.len(), VolumeRecord::LEN);
        assert_eq!(VolumeRecord::decode("v", &bytes).unwrap(), record);
        for len in 0..bytes.len() {
            assert!(VolumeRecord::decode("v", &bytes[..len]).is_err());
        }
        for at in [0, 2, 40, 41, 42, 43, 47, 48, 51] {
            let mut bad = bytes.clone();
            bad[at] ^= 0x40;
            assert!(VolumeRecord::decode("v", &bad).is_err(), "byte {at}");
        }
        let mut silent = bytes;
        silent[40..48].fill(0); // As records were written that had no reduction.
        let expected = VolumeRecord { reduction: Reduction::default(), ..record };
        assert_eq!(VolumeRecord::decode("v", &silent).unwrap(), expected);
    }

    #[test]
    fn what_the_flags_add_round_trips() {
        let identity = SnapshotIdentity([9; 16]);
        for origin in [None, Some("lab/base@gold".to_owned())] {
            for (receiving, quota_bytes) in
                [(None, None), (Some(identity), None), (None, Some(77)), (Some(identity), Some(0))]
            {
                let origin = origin.clone();
                let is_reserved = quota_bytes.is_none() && receiving.is_some();
                let is_exclusive = quota_bytes.is_some();
                let moves = quota_bytes.map(|_| moves(MoveState::Leaving));
                let record = VolumeRecord {
                    origin,
                    receiving,
                    quota_bytes,
                    is_reserved,
                    is_exclusive,
                    moves,
                    ..record()
                };
                let bytes = record.encode();
                assert_eq!(VolumeRecord::decode("v", &bytes).unwrap(), record);
                for len in 0..bytes.len() {
                    assert!(VolumeRecord::decode("v", &bytes[..len]).is_err(), "{len}");
                }
                for flags in 1..8 {
                    let mut bad = bytes.clone();
                    bad[48] ^= flags;
                    assert!(VolumeRecord::decode("v", &bad).is_err(), "{flags} of {record:?}");
                }
                assert!(VolumeRecord::decode("v", &[&bytes[..], &[0]].concat()).is_err());
            }
        }
    }

    #[test]
    fn moves_round_trip_and_refuse_what_is_unknown() {
        use MoveRemark::{GivenUp, Kept, Parked};
        use MoveState::{Arrived, Arriving, Leaving, Left};
        let snapshot = Some(MoveLast::Snapshot(SnapshotIdentity([3; 16])));
        let bucket = Some(MoveLast::Bucket(0x0102));
        for (number, state) in (1..).zip([Arriving, Leaving, Left, Arrived]) {
            for remark in [None, Some(Parked), Some(GivenUp), Some(Kept)] {
                for last in [None, snapshot, bucket] {
                    for address in [String::new(), "x".repeat(MOVE_ADDRESS_BYTES_MAX)] {
                        let moves = Move { remark, last, address, ..moves(state) };
                        if !moves.is_valid() {
                            continue;
                        }
                        let record = VolumeRecord { moves: Some(moves), ..record() };
                        let bytes = record.encode();
                        assert_eq!((bytes[48], bytes[52]), (64, number));
                        assert_eq!(VolumeRecord::decode("v", &bytes).unwrap(), record);
                    }
                }
            }
        }
        let parked = Move { remark: Some(Parked), ..moves(Leaving) };
        let with = Move { last: snapshot, ..moves(Leaving) };
        let long = Move { address: "x".repeat(MOVE_ADDRESS_BYTES_MAX + 1), ..moves(Leaving) };
        assert!(!parked.is_valid() && !with.is_valid() && !long.is_valid()); // VOLUME-MOVE-1
    }

    #[test]
    fn damaged_moves_are_refused() {
        let last = Some(MoveLast::Bucket(0x0102));
        let moves = Some(Move { last, ..moves(MoveState::Left) });
        let bytes = VolumeRecord { moves, ..record() }.encode();
        let changes = [
            (52, 0), // state
            (52, 5),
            (52, 2), // which has no bucket
            (53, 1), // remark of one that arrives
            (53, 4),
            (54, 0), // no bucket, and a number
            (54, 3),
            (55, 1),  // reserved
            (96, 1),  // a number above 64 bits
            (104, 9), // length of the address
            (105, 3),
            (106, 1),    // reserved
            (114, b'u'), // text
            (48, 0),
        ];
        for (at, value) in changes {
            let mut bad = bytes.clone();
            assert_ne!(bad[at], value, "{at}");
            bad[at] = value;
            assert!(VolumeRecord::decode("v", &bad).is_err(), "{value} at {at}");
        }
        let mut sentence = bytes;
        sentence[48] = 16;
        let refused = VolumeRecord::decode("v", &sentence).unwrap_err().to_string();
        assert!(refused.contains("earlier version"), "{refused}");
    }
}
