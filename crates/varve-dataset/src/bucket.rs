//! Owners of buckets' streams: a key a bucket on the first shard, `b` and the stream. What is in a bucket, and what is
//! said of it, stands in keys of the layer above, whose letters are kept here.
//!
//! BUCKET-1. A bucket's stream has an owner from before its first block is written until everything of it is gone but
//!     its blocks.
//! BUCKET-2. The owner without a name, which is never removed, is copied to the other shards: it is found while any of
//!     them can be read.

use futures_util::future::LocalBoxFuture;
use varve_dispatch::{Dispatch, OpenPool, Route, StreamPlacement};
use varve_stdx::{DecodeError, Reader, Writer};
use varve_types::{ShardId, StreamId};

use crate::catalog::{put, remove};
use crate::{Error, Result};

/// First byte of keys of owners.
pub(crate) const BUCKET_PREFIX: &[u8] = b"b";

/// First bytes of keys of what is in buckets.
const CONTENT_PREFIXES: &[u8] = b"oupxrh";

/// Where owners are.
const HOME: ShardId = ShardId(0);

/// Version of the value.
const VERSION: u16 = 1;

/// Bytes before the name.
const FIXED_LEN: usize = 8;

/// The owner of a bucket's stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketOwner {
    /// The bucket's stream, which is its identity.
    pub stream: StreamId,
    /// The bucket's name when it was made; none for what belongs to no bucket.
    pub name: String,
}

/// What a shard says of the owner of the stream that belongs to no bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NamelessOwner {
    /// It is this one.
    Known(BucketOwner),
    /// Some owner cannot be read: it may be that one.
    Unreadable,
    /// The shard has neither it nor a copy.
    Absent,
}

impl BucketOwner {
    fn key(stream: StreamId) -> Vec<u8> {
        [BUCKET_PREFIX, &stream.get().to_be_bytes()].concat()
    }

    pub(crate) fn value(&self) -> Vec<u8> {
        let mut value = vec![0; FIXED_LEN + self.name.len()];
        let mut out = Writer::new(&mut value);
        out.u16(VERSION);
        out.zeros(6);
        out.bytes(self.name.as_bytes());
        value
    }

    /// What a key behind its prefix and its value say.
    pub(crate) fn decode(stream: &[u8], value: &[u8]) -> Result<Self> {
        let bad =
            |cause| Error::BadRecord { name: format!("bucket {}", stream.escape_ascii()), cause };
        Self::decode_fields(stream, value).map_err(bad)
    }

    fn decode_fields(stream: &[u8], value: &[u8]) -> std::result::Result<Self, DecodeError> {
        let mut key = Reader::big_endian("key of a bucket's owner", stream);
        let stream = key.id("stream", StreamId::from_untrusted)?;
        key.end()?;
        let mut fields = Reader::new("record of a bucket's owner", value);
        fields.version(VERSION)?;
        fields.zeros(6)?;
        let name = fields.text("name", fields.rest().len())?.to_owned();
        Ok(Self { stream, name })
    }

    /// As places of streams are told; a bucket's blocks are where its keys are.
    pub(crate) fn route(&self) -> Route {
        Route { stream: self.stream, placement: StreamPlacement { seed: 0, generation: 0 } }
    }
}

/// Whether a key is of what is in a bucket.
#[must_use]
pub fn is_bucket_content(key: &[u8]) -> bool {
    key.len() > FIXED_LEN && key.first().is_some_and(|letter| CONTENT_PREFIXES.contains(letter))
}

/// Makes a stream for a bucket, and its owner. Durable on return.
///
/// # Errors
/// `Unavailable` when a shard does not serve.
pub async fn create_bucket_owner(dispatch: &Dispatch, name: &str) -> Result<BucketOwner> {
    let reserve = |pool: std::rc::Rc<OpenPool>| -> LocalBoxFuture<'static, _> {
        Box::pin(async move { pool.reserve_streams(1).await })
    };
    let stream = dispatch.at_root(reserve).await?;
    let owner = BucketOwner { stream, name: name.to_owned() };
    put(dispatch, HOME, BucketOwner::key(stream), owner.value()).await?; // BUCKET-1
    Ok(owner)
}

/// Every owner of a bucket's stream, in the order of streams. Those that cannot be read are left out and reported.
///
/// # Errors
/// `Unavailable`.
pub async fn bucket_owners(dispatch: &Dispatch) -> Result<Vec<BucketOwner>> {
    Ok(owners_on(dispatch, HOME).await?.0)
}

/// The owner of the stream that belongs to no bucket, as a shard has it, or a copy of it (BUCKET-2).
///
/// # Errors
/// `Unavailable` when the shard does not serve, `Corrupt` when its keys cannot be read.
pub async fn nameless_owner(dispatch: &Dispatch, shard: ShardId) -> Result<NamelessOwner> {
    let (owners, unreadable) = owners_on(dispatch, shard).await?;
    Ok(match owners.into_iter().find(|owner| owner.name.is_empty()) {
        Some(owner) => NamelessOwner::Known(owner),
        None if unreadable > 0 => NamelessOwner::Unreadable,
        None => NamelessOwner::Absent,
    })
}

/// Copies an owner to a shard (BUCKET-2). Durable on return.
///
/// # Errors
/// `Unavailable` when the shard does not serve.
pub async fn copy_bucket_owner(
    dispatch: &Dispatch,
    shard: ShardId,
    owner: &BucketOwner,
) -> Result<()> {
    put(dispatch, shard, BucketOwner::key(owner.stream), owner.value()).await
}

/// Owners on a shard, and how many others cannot be read.
async fn owners_on(dispatch: &Dispatch, shard: ShardId) -> Result<(Vec<BucketOwner>, usize)> {
    let found = dispatch.key_scan(shard, BUCKET_PREFIX.to_vec(), None, usize::MAX).await?;
    let (mut owners, mut unreadable) = (Vec::new(), 0);
    for (key, value) in &found {
        match BucketOwner::decode(&key[BUCKET_PREFIX.len()..], value) {
            Ok(owner) => owners.push(owner),
            Err(error) => {
                tracing::warn!(%error, "the owner of a bucket cannot be read");
                unreadable += 1;
            }
        }
    }
    Ok((owners, unreadable))
}

/// Takes the owner away and drops the stream; what it holds comes back with a mark pass. Durable on return.
///
/// # Errors
/// `Unavailable` when a shard does not serve: then it may or may not have happened.
pub async fn remove_bucket_owner(dispatch: &Dispatch, stream: StreamId) -> Result<()> {
    remove(dispatch, HOME, BucketOwner::key(stream)).await?;
    Ok(dispatch.drop_stream(stream).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_round_trip_and_others_are_refused() {
        let owner = BucketOwner { stream: StreamId::new(77), name: "photos".to_owned() };
        let (key, value) = (BucketOwner::key(owner.stream), owner.value());
        assert_eq!(BucketOwner::decode(&key[1..], &value).unwrap(), owner);
        for len in 0..FIXED_LEN {
            assert!(BucketOwner::decode(&key[1..], &value[..len]).is_err());
            let mut flipped = value.clone();
            flipped[len] ^= 8;
            assert!(BucketOwner::decode(&key[1..], &flipped).is_err());
        }
        let nobodys = BucketOwner::decode(&key[1..], &value[..FIXED_LEN]).unwrap();
        assert!(nobodys.name.is_empty(), "what belongs to no bucket has an owner without a name");
        assert!(BucketOwner::decode(&key, &value).is_err());
        assert!(BucketOwner::decode(&key[1..], &[value, vec![0xFF]].concat()).is_err());
        assert!(!is_bucket_content(&key));
        assert!(is_bucket_content(b"o12345678key"));
    }
}
