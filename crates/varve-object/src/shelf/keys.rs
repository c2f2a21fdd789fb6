//! Keys of a shelf in its shard's key tree: a letter, the bucket, and what it is about.
//!
//! ```text
//!  o | bucket 8 | key, escaped | 0 | order, inverted 8      a version; those of a key from the newest on
//!  u | bucket 8 | key, escaped | 0 | upload 8               an upload
//!  p | bucket 8 | upload 8 | number 2                       a part, of an upload or of a version that it became
//!  x | bucket 8 | tag 1 | first block or upload 8           an orphan
//!  x | bucket 8 | tag 1 | number 8 | home 2 | tag 1 | first block or upload 8   an orphan, of a reference
//!  r | bucket 8 | tag 1 | first block or upload 8 | taker 2 | number 8          a reference of a taker to what is here
//!  h | bucket 8                                             what the shelf holds
//! ```
//!
//! Numbers are big-endian. In keys of objects 0 becomes 1 1 and 1 becomes 1 2, so that the order of keys is that of
//! their bytes, and every version of a key stands before the next key.

use std::ops::Range;

use varve_engine::key_behind;
use varve_types::ShardId;

use super::reference::{Reference, ReferenceTarget};
use crate::{BucketId, UploadId};

pub(crate) const VERSION: u8 = b'o';
pub(crate) const UPLOAD: u8 = b'u';
pub(crate) const PART: u8 = b'p';
pub(crate) const ORPHAN: u8 = b'x';
pub(crate) const REFERENCE: u8 = b'r';
pub(crate) const COUNTS: u8 = b'h';

/// Letters of keys of a bucket: those that name what others are before these.
const LETTERS: [u8; 6] = [VERSION, UPLOAD, ORPHAN, PART, REFERENCE, COUNTS];

/// Bytes before what a key is about.
const HEAD: usize = 9;

const TAG_EXTENT: u8 = 1;
const TAG_PARTS: u8 = 2;
const TAG_REFERENCE: u8 = 3;

/// Bytes of a target: a tag and its number.
const TARGET_LEN: usize = 9;

/// Where bytes are that belong together and are freed together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum BodyPlace {
    /// Blocks of the bucket's stream, by the first.
    Extent(u64),
    /// The parts of an upload.
    Parts(UploadId),
    /// What another place, maybe of another shelf, is named by.
    Reference(Reference),
}

fn head(letter: u8, bucket: BucketId) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.push(letter);
    key.extend_from_slice(&bucket.0.to_be_bytes());
    key
}

fn escape(key: &str, out: &mut Vec<u8>) {
    for byte in key.bytes() {
        match byte {
            0 => out.extend_from_slice(&[1, 1]),
            1 => out.extend_from_slice(&[1, 2]),
            byte => out.push(byte),
        }
    }
}

/// A key and the number behind it.
fn unescape(escaped: &[u8]) -> Option<(String, u64)> {
    let (key, number) = escaped.split_last_chunk::<8>()?;
    let (0, key) = key.split_last()? else { return None };
    let mut plain = Vec::with_capacity(key.len());
    let mut bytes = key.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            0 => return None,
            1 => bytes.next()?.checked_sub(1).filter(|byte| *byte <= 1)?,
            byte => *byte,
        });
    }
    Some((String::from_utf8(plain).ok()?, u64::from_be_bytes(*number)))
}

fn named(letter: u8, bucket: BucketId, key: &str) -> Vec<u8> {
    let mut out = head(letter, bucket);
    escape(key, &mut out);
    out
}

fn range_of(prefix: Vec<u8>) -> Range<Vec<u8>> {
    let end = key_behind(&prefix).expect("prefixes begin with a letter");
    prefix..end
}

/// A version of a key.
pub(crate) fn version(bucket: BucketId, key: &str, order: u64) -> Vec<u8> {
    let mut out = named(VERSION, bucket, key);
    out.push(0);
    out.extend_from_slice(&(u64::MAX - order).to_be_bytes());
    out
}

/// All versions of a key, from the newest on.
pub(crate) fn versions(bucket: BucketId, key: &str) -> Range<Vec<u8>> {
    let mut prefix = named(VERSION, bucket, key);
    prefix.push(0);
    range_of(prefix)
}

/// All versions of keys that are not less than `key`.
pub(crate) fn versions_from(bucket: BucketId, key: &str) -> Range<Vec<u8>> {
    named(VERSION, bucket, key)..range_of(head(VERSION, bucket)).end
}

/// Where the versions begin of the key that a place among keys of versions belongs to; none if it belongs to none.
pub(crate) fn begin_of_versions(place: &[u8]) -> Option<&[u8]> {
    let name = place.get(HEAD..)?.iter().position(|byte| *byte == 0)?;
    place.get(..HEAD + name + 1)
}

/// The key and order of a version.
pub(crate) fn decode_version(key: &[u8]) -> Option<(String, u64)> {
    let (key, order) = unescape(key.get(HEAD..)?)?;
    Some((key, u64::MAX - order))
}

/// An upload.
pub(crate) fn upload(bucket: BucketId, key: &str, upload: UploadId) -> Vec<u8> {
    let mut out = named(UPLOAD, bucket, key);
    out.push(0);
    out.extend_from_slice(&upload.0.to_be_bytes());
    out
}

/// All uploads of keys that are not less than `key`.
pub(crate) fn uploads_from(bucket: BucketId, key: &str) -> Range<Vec<u8>> {
    named(UPLOAD, bucket, key)..range_of(head(UPLOAD, bucket)).end
}

/// The key and id of an upload.
pub(crate) fn decode_upload(key: &[u8]) -> Option<(String, UploadId)> {
    let (key, id) = unescape(key.get(HEAD..)?)?;
    Some((key, UploadId(id)))
}

/// A part.
pub(crate) fn part(bucket: BucketId, upload: UploadId, number: u16) -> Vec<u8> {
    let mut out = head(PART, bucket);
    out.extend_from_slice(&upload.0.to_be_bytes());
    out.extend_from_slice(&number.to_be_bytes());
    out
}

/// The parts of an upload.
pub(crate) fn parts(bucket: BucketId, upload: UploadId) -> Range<Vec<u8>> {
    let mut prefix = head(PART, bucket);
    prefix.extend_from_slice(&upload.0.to_be_bytes());
    range_of(prefix)
}

/// The number of a part.
pub(crate) fn decode_part(key: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*key.last_chunk()?))
}

/// The upload of a part.
pub(crate) fn upload_of_part(key: &[u8]) -> Option<UploadId> {
    let (upload, _) = key.get(HEAD..).filter(|rest| rest.len() == 10)?.split_first_chunk()?;
    Some(UploadId(u64::from_be_bytes(*upload)))
}

/// An orphan.
pub(crate) fn orphan(bucket: BucketId, place: BodyPlace) -> Vec<u8> {
    let mut out = head(ORPHAN, bucket);
    match place {
        BodyPlace::Extent(first) => put_target(&mut out, ReferenceTarget::Extent(first)),
        BodyPlace::Parts(upload) => put_target(&mut out, ReferenceTarget::Parts(upload)),
        BodyPlace::Reference(Reference { number, home, target }) => {
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
        ReferenceTarget::Parts(upload) => (TAG_PARTS, upload.0),
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
        TAG_PARTS => ReferenceTarget::Parts(UploadId(id)),
        _ => return None,
    };
    Some((target, rest))
}

/// A reference of a taker, on the shelf of what it names.
pub(crate) fn reference(bucket: BucketId, taker: ShardId, reference: &Reference) -> Vec<u8> {
    let mut out = references_to(bucket, reference.target).start;
    out.extend_from_slice(&taker.0.to_be_bytes());
    out.extend_from_slice(&reference.number.to_be_bytes());
    out
}

/// All references to a place.
pub(crate) fn references_to(bucket: BucketId, target: ReferenceTarget) -> Range<Vec<u8>> {
    let mut prefix = head(REFERENCE, bucket);
    put_target(&mut prefix, target);
    range_of(prefix)
}

/// All references to what is here.
pub(crate) fn references(bucket: BucketId) -> Range<Vec<u8>> {
    range_of(head(REFERENCE, bucket))
}

/// The taker of a reference to what is on shelf `home`, and the reference.
pub(crate) fn decode_reference(key: &[u8], home: ShardId) -> Option<(ShardId, Reference)> {
    let (target, rest) = target_of(key.get(HEAD..)?)?;
    let (taker, number) = rest.split_first_chunk::<2>()?;
    let number = u64::from_be_bytes(number.try_into().ok()?);
    Some((ShardId(u16::from_be_bytes(*taker)), Reference { number, home, target }))
}

/// All orphans.
pub(crate) fn orphans(bucket: BucketId) -> Range<Vec<u8>> {
    range_of(head(ORPHAN, bucket))
}

/// Where the bytes of an orphan are.
pub(crate) fn decode_orphan(key: &[u8]) -> Option<BodyPlace> {
    let place = key.get(HEAD..)?;
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
    Some(BodyPlace::Reference(Reference {
        number: u64::from_be_bytes(number.try_into().ok()?),
        home: ShardId(u16::from_be_bytes(home.try_into().ok()?)),
        target,
    }))
}

/// What a shelf holds.
pub(crate) fn counts(bucket: BucketId) -> Vec<u8> {
    head(COUNTS, bucket)
}

/// The bucket of an account.
pub(crate) fn decode_counts(key: &[u8]) -> Option<BucketId> {
    let (_, bucket) = key.split_first()?;
    Some(BucketId(u64::from_be_bytes(bucket.try_into().ok()?)))
}

/// Everything of a bucket.
pub(crate) fn all(bucket: BucketId) -> impl Iterator<Item = Range<Vec<u8>>> {
    LETTERS.into_iter().map(move |letter| range_of(head(letter, bucket)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUCKET: BucketId = BucketId(7);

    proptest! {
        #[test]
        fn versions_stand_in_the_order_of_keys_and_from_the_newest_on(a in "[\0\u{1}\u{2}aé]{0,4}", b in "[\0\u{1}\u{2}aé]{0,4}", old: u64, new: u64) {
            let (first, second) = (version(BUCKET, &a, old), version(BUCKET, &b, new));
            prop_assert_eq!(first.cmp(&second), a.cmp(&b).then(new.cmp(&old)));
            prop_assert_eq!(decode_version(&first), Some((a.clone(), old)));
            prop_assert_eq!(versions(BUCKET, &a).contains(&second), a == b);
            prop_assert_eq!(versions_from(BUCKET, &a).contains(&second), a <= b);
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(0_u8..4, 0..40)) {
            if let Some((key, order)) = decode_version(&bytes) {
                prop_assert_eq!(&version(BUCKET, &key, order)[HEAD..], &bytes[HEAD..]);
            }
            if let Some(place) = decode_orphan(&bytes) {
                prop_assert_eq!(&orphan(BUCKET, place)[HEAD..], &bytes[HEAD..]);
            }
        }
    }

    #[test]
    fn places_and_parts_are_told_by_their_keys() {
        let of = |target| Reference { number: 7, home: ShardId(3), target };
        let targets = [ReferenceTarget::Extent(9), ReferenceTarget::Parts(UploadId(8))];
        for target in targets {
            let key = reference(BUCKET, ShardId(5), &of(target));
            assert_eq!(decode_reference(&key, ShardId(3)), Some((ShardId(5), of(target))));
            assert_eq!(decode_reference(&key[..key.len() - 1], ShardId(3)), None);
            assert!(references_to(BUCKET, target).contains(&key));
            assert!(!references_to(BUCKET, ReferenceTarget::Extent(8)).contains(&key));
            assert!(references(BUCKET).contains(&key));
            assert!(all(BUCKET).any(|range| range.contains(&key)));
        }
        for place in [
            BodyPlace::Extent(9),
            BodyPlace::Parts(UploadId(8)),
            BodyPlace::Reference(of(targets[0])),
            BodyPlace::Reference(of(targets[1])),
        ] {
            let key = orphan(BUCKET, place);
            assert_eq!(decode_orphan(&key[..key.len() - 1]), None);
            assert_eq!(decode_orphan(&key), Some(place));
            assert!(orphans(BUCKET).contains(&key));
        }
        let key = part(BUCKET, UploadId(3), 500);
        assert_eq!(decode_part(&key), Some(500));
        assert_eq!(upload_of_part(&key), Some(UploadId(3)));
        assert_eq!(upload_of_part(&key[1..]), None);
        assert_eq!(decode_counts(&counts(BUCKET)), Some(BUCKET));
        assert!(parts(BUCKET, UploadId(3)).contains(&key));
        assert!(!parts(BUCKET, UploadId(4)).contains(&key));
        let key = upload(BUCKET, "a\0b", UploadId(5));
        assert_eq!(decode_upload(&key), Some(("a\0b".to_owned(), UploadId(5))));
        assert!(all(BUCKET).any(|range| range.contains(&key)));
        assert!(!all(BucketId(8)).any(|range| range.contains(&key)));
    }
}
