//! What is stored of a bucket: the attributes of the object `bucket/NAME` in the gateway's bucket.
//!
//! ```text
//! 0         2       3          8        16
//! | version | flags | reserved | bucket | move, if a flag says so | record
//! ```
//!
//! A move is encoded as that of a volume. Without one a record is what it was before buckets moved.

use bytes::Bytes;
use varve_dataset::Move;
use varve_stdx::{DecodeError, Reader, Writer};
use varve_types::StreamId;

use crate::{Bucket, BucketId, BucketOptions};

/// Version of the bytes.
const VERSION: u16 = 1;

const FLAG_PRIVATE: u8 = 1;
const FLAG_MOVES: u8 = 8;
/// Of versions that stored a move as a sentence.
const FLAG_MOVES_AS_TEXT: u8 = 2;
/// Versions that do not know it refuse the record, and so free nothing that copies name.
const FLAG_SHARES: u8 = 4;

/// Bytes before a move.
const FIXED_LEN: usize = 16;

/// What the record of a bucket holds beside its name and revision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketRecord {
    /// Its identity.
    pub id: BucketId,
    /// What was fixed when it was made.
    pub options: BucketOptions,
    /// Where it is on its way between two pools.
    pub moves: Option<Move>,
    /// Bodies in it share bytes, or did once.
    pub shares_bodies: bool,
    /// Owner and settings, as the layer above encodes them.
    pub record: Bytes,
}

impl BucketRecord {
    pub(super) fn of(bucket: Bucket) -> Self {
        let Bucket { id, options, moves, shares_bodies, record, .. } = bucket;
        Self { id, options, moves, shares_bodies, record }
    }

    /// Its bytes.
    ///
    /// # Panics
    /// When the other side of a move is longer than a record may say; whoever makes a move checks it.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let moves_len = self.moves.as_ref().map_or(0, Move::len);
        let mut out = vec![0; FIXED_LEN + moves_len + self.record.len()];
        let mut fields = Writer::new(&mut out);
        fields.u16(VERSION);
        let private = if self.options.private_copy { FLAG_PRIVATE } else { 0 };
        let moves = if self.moves.is_some() { FLAG_MOVES } else { 0 };
        let shares = if self.shares_bodies { FLAG_SHARES } else { 0 };
        fields.u8(private | moves | shares);
        fields.zeros(5);
        fields.u64(self.id.0);
        if let Some(moves) = &self.moves {
            moves.encode(&mut fields);
        }
        fields.bytes(&self.record);
        out.into()
    }

    /// What was encoded.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &Bytes) -> Result<Self, DecodeError> {
        let mut fields = Reader::new("record of a bucket", bytes);
        fields.version(VERSION)?;
        let flags = fields.u8()?;
        if flags & FLAG_MOVES_AS_TEXT != 0 {
            return Err(fields.inconsistent(
                "it moves, as an earlier version stored that: end the move with that version",
            ));
        }
        if flags & !(FLAG_PRIVATE | FLAG_MOVES | FLAG_SHARES) != 0 {
            return Err(fields.bad("flags", u64::from(flags)));
        }
        fields.zeros(5)?;
        let id = BucketId(fields.id("bucket", StreamId::from_untrusted)?.get());
        let options = BucketOptions { private_copy: flags & FLAG_PRIVATE != 0 };
        let moves = match flags & FLAG_MOVES {
            0 => None,
            _ => Some(Move::decode(&mut fields)?),
        };
        let at = FIXED_LEN + moves.as_ref().map_or(0, Move::len);
        let shares_bodies = flags & FLAG_SHARES != 0;
        Ok(Self { id, options, moves, shares_bodies, record: bytes.slice(at..) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use varve_dataset::{MoveLast, MoveRemark, MoveState};
    use varve_types::{MigrationRunId, PoolId, SnapshotIdentity};

    use super::*;

    fn a_move() -> impl Strategy<Value = Option<Move>> {
        let states = prop::sample::select(vec![
            MoveState::Arriving,
            MoveState::Leaving,
            MoveState::Left,
            MoveState::Arrived,
        ]);
        let last = prop_oneof![
            Just(None),
            any::<[u8; 16]>().prop_map(|id| Some(MoveLast::Snapshot(SnapshotIdentity(id)))),
            any::<u64>().prop_map(|number| Some(MoveLast::Bucket(number))),
        ];
        let ids = any::<([u8; 16], [u8; 16])>();
        let moves = (states, ids, "[a-zü ]{0,170}", last);
        let moves = moves.prop_map(|(state, (pool, run), address, last)| {
            let has_ended = matches!(state, MoveState::Left | MoveState::Arrived);
            let last = last.filter(|_| has_ended);
            let (pool, run) = (PoolId(pool), MigrationRunId(run));
            Move { state, pool, address, run, remark: None, last }
        });
        prop::option::of(moves)
    }

    fn stored() -> impl Strategy<Value = BucketRecord> {
        let record = prop::collection::vec(any::<u8>(), 0..200);
        let flags = any::<(bool, bool)>();
        (0..1_u64 << 48, flags, a_move(), record).prop_map(
            |(id, (private_copy, shares_bodies), moves, record)| BucketRecord {
                shares_bodies,
                id: BucketId(id),
                options: BucketOptions { private_copy },
                moves,
                record: record.into(),
            },
        )
    }

    /// Whatever decodes is encoded to the very bytes it came from, and nothing panics.
    fn same_or_refused(bytes: &Bytes) -> bool {
        BucketRecord::decode(bytes).map_or(true, |decoded| decoded.encode() == *bytes)
    }

    proptest! {
        #[test]
        fn records_come_back(stored in stored()) {
            let bytes = stored.encode();
            prop_assert_eq!(BucketRecord::decode(&bytes), Ok(stored));
        }

        #[test]
        fn damaged_records_are_refused_or_are_others(stored in stored(), bit: prop::sample::Index, cut: prop::sample::Index) {
            let bytes = stored.encode();
            let mut flipped = bytes.to_vec();
            let bit = bit.index(8 * flipped.len());
            flipped[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(same_or_refused(&flipped.into()));
            prop_assert!(same_or_refused(&bytes.slice(..cut.index(bytes.len()))));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(head in prop::collection::vec(0_u8..5, 0..40), rest in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert!(same_or_refused(&[head, rest].concat().into()));
        }
    }

    #[test]
    fn a_bucket_that_does_not_move_is_stored_as_ever() {
        for (private_copy, flags) in [(false, 0), (true, 1)] {
            let options = BucketOptions { private_copy };
            let record = Bytes::from_static(b"owner");
            let id = BucketId(0x0102);
            let shares_bodies = false;
            let stored = BucketRecord { id, options, moves: None, shares_bodies, record };
            let expected = [&[1, 0, flags, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0], &b"owner"[..]];
            assert_eq!(&stored.encode()[..], expected.concat());
        }
    }

    #[test]
    fn a_move_stands_before_the_record() {
        let moves = Some(Move {
            state: MoveState::Left,
            pool: PoolId([1; 16]),
            address: "p".to_owned(),
            run: MigrationRunId([2; 16]),
            remark: Some(MoveRemark::Kept),
            last: Some(MoveLast::Bucket(7)),
        });
        let (options, record) = (BucketOptions::default(), Bytes::from_static(b"r"));
        let id = BucketId(9);
        let bytes = BucketRecord { id, options, moves, shares_bodies: false, record }.encode();
        assert_eq!(&bytes[2..3], [8]);
        let number = [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let ids = [[1; 16], [2; 16], number].concat();
        let expected = [&[3, 3, 2, 0], &ids[..], &[1, 0, 0, 0], b"pr"].concat();
        assert_eq!(&bytes[16..], expected);
        let mut long = bytes.to_vec();
        long[68..70].copy_from_slice(&513_u16.to_le_bytes());
        long.resize(2000, b'x');
        assert!(BucketRecord::decode(&long.into()).is_err());
        for unknown_flags in [2, 16] {
            let mut unknown = bytes.to_vec();
            unknown[2] = unknown_flags;
            assert!(BucketRecord::decode(&unknown.into()).is_err());
        }
    }
}
