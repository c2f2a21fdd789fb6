//! Keys of a shelf in its shard's key tree: a letter, the bucket, and what it is about.
//!
//! ```text
//!  o | bucket 8 | key, escaped | 0 | order, inverted 8      a version; those of a key from the newest on
//!  u | bucket 8 | key, escaped | 0 | upload 8               an upload
//!  p | bucket 8 | upload 8 | number 2                       a part, of an upload or of a version that it became
//! ```
//!
//! Orphans, references and the account have keys of their own ([`varve_dataset_content::keys`]).
//!
//! Numbers are big-endian. In keys of objects 0 becomes 1 1 and 1 becomes 1 2, so that the order of keys is that of
//! their bytes, and every version of a key stands before the next key.

use std::ops::Range;

use varve_dataset_content::SeriesId;
use varve_dataset_content::keys::{
    HEAD_BYTES, SERIES, decode_account, decode_member, member, members, range_of,
};
use varve_types::StreamId;

use crate::{BucketId, UploadId};

pub(crate) const VERSION: u8 = b'o';
pub(crate) const UPLOAD: u8 = b'u';
pub(crate) const PART: u8 = SERIES;

/// Letters of keys that name what others are.
const LETTERS: [u8; 2] = [VERSION, UPLOAD];

impl UploadId {
    /// The series that its parts are.
    pub(crate) fn series(self) -> SeriesId {
        SeriesId(self.0)
    }
}

fn stream(bucket: BucketId) -> StreamId {
    StreamId::new(bucket.0)
}

fn head(letter: u8, bucket: BucketId) -> Vec<u8> {
    varve_dataset_content::keys::head(letter, stream(bucket))
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
    let name = place.get(HEAD_BYTES..)?.iter().position(|byte| *byte == 0)?;
    place.get(..HEAD_BYTES + name + 1)
}

/// The key and order of a version.
pub(crate) fn decode_version(key: &[u8]) -> Option<(String, u64)> {
    let (key, order) = unescape(key.get(HEAD_BYTES..)?)?;
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
    let (key, id) = unescape(key.get(HEAD_BYTES..)?)?;
    Some((key, UploadId(id)))
}

/// A part.
pub(crate) fn part(bucket: BucketId, upload: UploadId, number: u16) -> Vec<u8> {
    member(stream(bucket), upload.series(), &number.to_be_bytes())
}

/// The parts of an upload.
pub(crate) fn parts(bucket: BucketId, upload: UploadId) -> Range<Vec<u8>> {
    members(stream(bucket), upload.series())
}

/// All parts.
pub(crate) fn all_parts(bucket: BucketId) -> Range<Vec<u8>> {
    range_of(head(PART, bucket))
}

/// The number of a part.
pub(crate) fn decode_part(key: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(*key.last_chunk()?))
}

/// The upload of a part.
pub(crate) fn upload_of_part(key: &[u8]) -> Option<UploadId> {
    let (series, _) = decode_member(key).filter(|(_, position)| position.len() == 2)?;
    Some(UploadId(series.0))
}

/// The bucket of an account.
pub(crate) fn decode_counts(key: &[u8]) -> Option<BucketId> {
    Some(BucketId(decode_account(key)?.get()))
}

/// The records of a bucket that are no parts: those that name what others are.
pub(crate) fn records(bucket: BucketId) -> impl Iterator<Item = Range<Vec<u8>>> {
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
                prop_assert_eq!(&version(BUCKET, &key, order)[HEAD_BYTES..], &bytes[HEAD_BYTES..]);
            }
        }
    }

    #[test]
    fn uploads_and_parts_are_told_by_their_keys() {
        let key = part(BUCKET, UploadId(3), 500);
        assert_eq!(key, [b"p\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x03".as_slice(), &[1, 244]].concat());
        assert_eq!(decode_part(&key), Some(500));
        assert_eq!(upload_of_part(&key), Some(UploadId(3)));
        assert_eq!(upload_of_part(&key[1..]), None);
        assert!(parts(BUCKET, UploadId(3)).contains(&key));
        assert!(!parts(BUCKET, UploadId(4)).contains(&key));
        assert!(all_parts(BUCKET).contains(&key));
        assert!(!records(BUCKET).any(|range| range.contains(&key)));
        let key = upload(BUCKET, "a\0b", UploadId(5));
        assert_eq!(decode_upload(&key), Some(("a\0b".to_owned(), UploadId(5))));
        assert!(records(BUCKET).any(|range| range.contains(&key)));
        assert!(!records(BucketId(8)).any(|range| range.contains(&key)));
        assert_eq!(decode_counts(b"h\0\0\0\0\0\0\0\x07"), Some(BUCKET));
    }
}
