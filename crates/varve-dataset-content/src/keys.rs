//! Keys of content in its shard's key tree: a letter, the stream, and what it is about.
//!
//! ```text
//!  p | stream 8 | series 8 | position                                   a member of a series
//!  x | stream 8 | tag 1 | first block or series 8                       an orphan
//!  x | stream 8 | tag 1 | number 8 | home 2 | tag 1 | first block or series 8   an orphan, of a reference
//!  r | stream 8 | tag 1 | first block or series 8 | taker 2 | number 8  a reference of a taker to what is here
//!  h | stream 8                                                         the account
//! ```
//!
//! Numbers are big-endian. Other letters are keys of the layer above, which [`head`] begins as these.

use std::ops::Range;

use varve_engine::key_behind;
use varve_types::{ShardId, StreamId};

use crate::content::{ContentPlace, Reference, ReferenceTarget, SeriesId};

/// First byte of keys of members.
pub const SERIES: u8 = b'p';
/// First byte of keys of accounts.
pub const ACCOUNT: u8 = b'h';

const ORPHAN: u8 = b'x';
const REFERENCE: u8 = b'r';

/// Letters of keys of content: those that name what others are before these.
const LETTERS: [u8; 4] = [ORPHAN, SERIES, REFERENCE, ACCOUNT];

/// Bytes before what a key is about.
pub const HEAD_BYTES: usize = 9;

const TAG_EXTENT: u8 = 1;
const TAG_SERIES: u8 = 2;
const TAG_REFERENCE: u8 = 3;

/// Bytes of a target: a tag and its number.
const TARGET_LEN: usize = 9;

/// The begin of a key: its letter and stream.
#[must_use]
pub fn head(letter: u8, stream: StreamId) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.push(letter);
    key.extend_from_slice(&stream.get().to_be_bytes());
    key
}

/// All keys that begin so.
///
/// # Panics
/// When the prefix is empty, or nothing can stand behind it.
#[must_use]
pub fn range_of(prefix: Vec<u8>) -> Range<Vec<u8>> {
    let end = key_behind(&prefix).expect("prefixes begin with a letter");
    prefix..end
}

/// A member of a series, which stands there in the order of positions.
#[must_use]
pub fn member(stream: StreamId, series: SeriesId, position: &[u8]) -> Vec<u8> {
    let mut out = head(SERIES, stream);
    out.extend_from_slice(&series.0.to_be_bytes());
    out.extend_from_slice(position);
    out
}

/// The members of a series.
#[must_use]
pub fn members(stream: StreamId, series: SeriesId) -> Range<Vec<u8>> {
    range_of(member(stream, series, &[]))
}

/// The series and position of a member.
#[must_use]
pub fn decode_member(key: &[u8]) -> Option<(SeriesId, &[u8])> {
    let (series, position) = key.get(HEAD_BYTES..)?.split_first_chunk()?;
    Some((SeriesId(u64::from_be_bytes(*series)), position))
}

/// An orphan.
pub(crate) fn orphan(stream: StreamId, place: ContentPlace) -> Vec<u8> {
    let mut out = head(ORPHAN, stream);
    match place {
        ContentPlace::Extent(first) => put_target(&mut out, ReferenceTarget::Extent(first)),
        ContentPlace::Series(series) => put_target(&mut out, ReferenceTarget::Series(series)),
        ContentPlace::Reference(Reference { number, home, target }) => {
            out.push(TAG_REFERENCE);
            out.extend_from_slice(&number.to_be_bytes());
            out.extend_from_slice(&home.0.to_be_bytes());
            put_target(&mut out, target);
        }
    }
    out
}

fn put_target(out: &mut Vec<u8>, target: ReferenceTarget) {
    let (tag, id) = match target {
        ReferenceTarget::Extent(first) => (TAG_EXTENT, first),
        ReferenceTarget::Series(series) => (TAG_SERIES, series.0),
    };
    out.push(tag);
    out.extend_from_slice(&id.to_be_bytes());
}

/// A target and what stands behind it.
fn target_of(bytes: &[u8]) -> Option<(ReferenceTarget, &[u8])> {
    let (target, rest) = bytes.split_at_checked(TARGET_LEN)?;
    let (tag, id) = target.split_first()?;
    let id = u64::from_be_bytes(id.try_into().ok()?);
    let target = match *tag {
        TAG_EXTENT => ReferenceTarget::Extent(id),
        TAG_SERIES => ReferenceTarget::Series(SeriesId(id)),
        _ => return None,
    };
    Some((target, rest))
}

/// A reference of a taker, on the shard of what it names.
pub(crate) fn reference(stream: StreamId, taker: ShardId, reference: &Reference) -> Vec<u8> {
    let mut out = references_to(stream, reference.target).start;
    out.extend_from_slice(&taker.0.to_be_bytes());
    out.extend_from_slice(&reference.number.to_be_bytes());
    out
}

/// All references to a place.
pub(crate) fn references_to(stream: StreamId, target: ReferenceTarget) -> Range<Vec<u8>> {
    let mut prefix = head(REFERENCE, stream);
    put_target(&mut prefix, target);
    range_of(prefix)
}

/// All references to what is here.
pub(crate) fn references(stream: StreamId) -> Range<Vec<u8>> {
    range_of(head(REFERENCE, stream))
}

/// The taker of a reference to what is on shard `home`, and the reference.
pub(crate) fn decode_reference(key: &[u8], home: ShardId) -> Option<(ShardId, Reference)> {
    let (target, rest) = target_of(key.get(HEAD_BYTES..)?)?;
    let (taker, number) = rest.split_first_chunk::<2>()?;
    let number = u64::from_be_bytes(number.try_into().ok()?);
    Some((ShardId(u16::from_be_bytes(*taker)), Reference { number, home, target }))
}

/// All orphans.
pub(crate) fn orphans(stream: StreamId) -> Range<Vec<u8>> {
    range_of(head(ORPHAN, stream))
}

/// Where the bytes of an orphan are.
pub(crate) fn decode_orphan(key: &[u8]) -> Option<ContentPlace> {
    let place = key.get(HEAD_BYTES..)?;
    let (target, is_reference) = match place.split_first()? {
        (&TAG_REFERENCE, rest) => (rest.get(10..)?, true),
        _ => (place, false),
    };
    let (target, rest) = target_of(target)?;
    if !rest.is_empty() {
        return None;
    }
    if !is_reference {
        return Some(target.place());
    }
    let (number, home) = (place.get(1..9)?, place.get(9..11)?);
    Some(ContentPlace::Reference(Reference {
        number: u64::from_be_bytes(number.try_into().ok()?),
        home: ShardId(u16::from_be_bytes(home.try_into().ok()?)),
        target,
    }))
}

/// The account.
pub(crate) fn account(stream: StreamId) -> Vec<u8> {
    head(ACCOUNT, stream)
}

/// The stream of an account.
#[must_use]
pub fn decode_account(key: &[u8]) -> Option<StreamId> {
    let (_, stream) = key.split_first()?;
    StreamId::from_untrusted(u64::from_be_bytes(stream.try_into().ok()?))
}

/// All keys of content of a stream.
pub(crate) fn all(stream: StreamId) -> impl Iterator<Item = Range<Vec<u8>>> {
    LETTERS.into_iter().map(move |letter| range_of(head(letter, stream)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: StreamId = StreamId::new(7);

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(0_u8..4, 0..40)) {
            if let Some(place) = decode_orphan(&bytes) {
                prop_assert_eq!(&orphan(STREAM, place)[HEAD_BYTES..], &bytes[HEAD_BYTES..]);
            }
            if let Some((taker, found)) = decode_reference(&bytes, ShardId(3)) {
                let key = reference(STREAM, taker, &found);
                prop_assert_eq!(&key[HEAD_BYTES..], &bytes[HEAD_BYTES..]);
            }
        }
    }

    #[test]
    fn places_and_members_are_told_by_their_keys() {
        let of = |target| Reference { number: 7, home: ShardId(3), target };
        let targets = [ReferenceTarget::Extent(9), ReferenceTarget::Series(SeriesId(8))];
        for target in targets {
            let key = reference(STREAM, ShardId(5), &of(target));
            assert_eq!(decode_reference(&key, ShardId(3)), Some((ShardId(5), of(target))));
            assert_eq!(decode_reference(&key[..key.len() - 1], ShardId(3)), None);
            assert!(references_to(STREAM, target).contains(&key));
            assert!(!references_to(STREAM, ReferenceTarget::Extent(8)).contains(&key));
            assert!(references(STREAM).contains(&key));
            assert!(all(STREAM).any(|range| range.contains(&key)));
        }
        for place in [
            ContentPlace::Extent(9),
            ContentPlace::Series(SeriesId(8)),
            ContentPlace::Reference(of(targets[0])),
            ContentPlace::Reference(of(targets[1])),
        ] {
            let key = orphan(STREAM, place);
            assert_eq!(decode_orphan(&key[..key.len() - 1]), None);
            assert_eq!(decode_orphan(&key), Some(place));
            assert!(orphans(STREAM).contains(&key));
        }
        let key = member(STREAM, SeriesId(3), &[1, 2]);
        assert_eq!(decode_member(&key), Some((SeriesId(3), &[1, 2][..])));
        assert_eq!(decode_member(&key[..16]), None);
        assert!(members(STREAM, SeriesId(3)).contains(&key));
        assert!(!members(STREAM, SeriesId(4)).contains(&key));
        assert_eq!(decode_account(&account(STREAM)), Some(STREAM));
        assert_eq!(decode_account(&[b'h', 255, 0, 0, 0, 0, 0, 0, 0]), None);
        assert!(!all(StreamId::new(8)).any(|range| range.contains(&key)));
    }
}
