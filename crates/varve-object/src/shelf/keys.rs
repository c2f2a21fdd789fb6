//! Keys of a shelf in its shard's key tree: a letter, the bucket, and what it is about.
//!
//! ```text
//!  o | bucket 8 | key, escaped | 0 | order, inverted 8      a version; those of a key from the newest on
//!  u | bucket 8 | key, escaped | 0 | upload 8               an upload
//!  p | bucket 8 | upload 8 | number 2                       a part, of an upload or of a version that it became
//!  x | bucket 8 | tag 1 | first block or upload 8           an orphan
//!  h | bucket 8                                             what the shelf holds
//! ```
//!
//! Numbers are big-endian. In keys of objects 0 becomes 1 1 and 1 becomes 1 2, so that the order of keys is that of their bytes, and every
//! version of a key stands before the next key.

use std::ops::Range;

use varve_engine::key_behind;

use crate::{BucketId, UploadId};

pub(crate) const VERSION: u8 = b'o';
pub(crate) const UPLOAD: u8 = b'u';
pub(crate) const PART: u8 = b'p';
pub(crate) const ORPHAN: u8 = b'x';
pub(crate) const COUNTS: u8 = b'h';

/// Letters of keys of a bucket: those that name what others are before these.
const LETTERS: [u8; 5] = [VERSION, UPLOAD, ORPHAN, PART, COUNTS];

/// Bytes before what a key is about.
const HEAD: usize = 9;

const TAG_EXTENT: u8 = 1;
const TAG_PARTS: u8 = 2;

/// Where bytes are that belong together and are freed together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    /// Blocks of the bucket's stream, by the first.
    Extent(u64),
    /// The parts of an upload.
    Parts(UploadId),
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
pub(crate) fn orphan(bucket: BucketId, place: Place) -> Vec<u8> {
    let mut out = head(ORPHAN, bucket);
    let (tag, id) = match place {
        Place::Extent(first) => (TAG_EXTENT, first),
        Place::Parts(upload) => (TAG_PARTS, upload.0),
    };
    out.push(tag);
    out.extend_from_slice(&id.to_be_bytes());
    out
}

/// All orphans.
pub(crate) fn orphans(bucket: BucketId) -> Range<Vec<u8>> {
    range_of(head(ORPHAN, bucket))
}

/// Where the bytes of an orphan are.
pub(crate) fn decode_orphan(key: &[u8]) -> Option<Place> {
    let (tag, id) = key.get(HEAD..)?.split_first()?;
    let id = u64::from_be_bytes(id.try_into().ok()?);
    match *tag {
        TAG_EXTENT => Some(Place::Extent(id)),
        TAG_PARTS => Some(Place::Parts(UploadId(id))),
        _ => None,
    }
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
        for place in [Place::Extent(9), Place::Parts(UploadId(8))] {
            let key = orphan(BUCKET, place);
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
