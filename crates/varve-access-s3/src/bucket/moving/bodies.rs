//! Versions as they are stored, out of a bucket and into one that arrives.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, TryStreamExt, stream};
use varve_object::{
    Attributes, BucketId, Error as StoreError, Item, KeyChange, KeyView, ListQuery, Marker, Move,
    NewBody, Select, Version,
};

use crate::answers::error::{Error, Result};
use crate::gateway::{Gateway, GatewayInner};

/// Keys changed at a time.
const KEYS_AT_ONCE: usize = 32;

/// Bodies read at a time.
const READS_AT_ONCE: usize = 8;

/// Most bytes of a page of versions, as JSON.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// Bytes of a version's numbers and names of fields in JSON, at most.
const FIELDS_BYTES: usize = 200;

/// Highest order that is taken: newer versions still find a higher one.
const ORDER_MAX: u64 = 1 << 62;

/// Longest attributes, in bytes.
const ATTRIBUTES_BYTES_MAX: usize = 128 << 10;

/// Which versions are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionQuery {
    /// Only those of this key.
    pub key: Option<String>,
    /// Only those behind this key; with an order, its older versions too.
    pub after: Option<(String, Option<u64>)>,
    /// At most so many.
    pub limit: usize,
}

/// A part of the stored body of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPart {
    /// The key.
    pub key: String,
    /// The version.
    pub order: u64,
    /// First byte.
    pub offset: u64,
    /// Most bytes.
    pub bytes: u64,
}

/// A change of a bucket that arrives.
#[derive(Debug)]
pub enum ArrivingChange {
    /// This version goes, if it is there.
    Remove {
        /// Its key.
        key: String,
        /// Its order.
        order: u64,
    },
    /// This version comes, newer than all that are there.
    Put {
        /// Its key.
        key: String,
        /// The version.
        version: Version,
        /// Its body.
        body: ReceivedBody,
    },
}

/// Where the body of a version that comes is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceivedBody {
    /// Here, up to 64 KiB; none for a delete marker.
    Bytes(Bytes),
    /// It was staged under this number.
    Staged(u64),
}

impl ArrivingChange {
    fn key(&self) -> &str {
        match self {
            Self::Remove { key, .. } | Self::Put { key, .. } => key,
        }
    }

    /// BUCKET-MOVING-2
    fn check(&self) -> Result<()> {
        let Self::Put { key, version, body } = self else { return Ok(()) };
        if version.order == 0 || version.order > ORDER_MAX {
            return Err(wrong(key, "no version has such an order"));
        }
        if version.attributes.len() > ATTRIBUTES_BYTES_MAX {
            return Err(wrong(key, "its attributes are too long"));
        }
        let attributes = Attributes::decode(&version.attributes)
            .map_err(|error| wrong(key, &error.to_string()))?;
        match body {
            ReceivedBody::Bytes(bytes) => check_len(key, version, &attributes, bytes.len() as u64),
            ReceivedBody::Staged(_) => Ok(()), // When it is taken.
        }
    }
}

fn wrong(key: &str, why: &str) -> Error {
    Error::Invalid { what: format!("version of `{key}`: {why}") }
}

/// Refuses a version that says more of its body than there is: who reads it goes by what it says. Encrypted bodies are
/// compared as they are read.
fn check_len(key: &str, version: &Version, attributes: &Attributes, len: u64) -> Result<()> {
    let of_parts = attributes.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.size));
    if !attributes.parts.is_empty() && of_parts != Some(version.size) {
        return Err(wrong(key, "its parts are not as long as it is"));
    }
    let is_len = match attributes.encryption {
        Some(_) => version.size <= len,
        None => version.size == len,
    };
    if !is_len || (version.marker && len > 0) {
        let why = format!("its body has {len} bytes, and not {}", version.size);
        return Err(wrong(key, &why));
    }
    Ok(())
}

impl Gateway {
    /// Versions in the order of keys, those of a key from the newest on, and whether more follow.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn versions(
        &self,
        name: &str,
        wanted: VersionQuery,
    ) -> Result<(Vec<(String, Version)>, bool)> {
        let bucket = self.inner.store.bucket(name).await?;
        let query = ListQuery {
            prefix: wanted.key.clone().unwrap_or_default(),
            after: match wanted.after {
                None => Marker::Start,
                Some((key, None)) => Marker::Key(key),
                Some((key, Some(order))) => Marker::Version(key, order),
            },
            limit: wanted.limit,
            versions: true,
            ..ListQuery::default()
        };
        let page = self.inner.store.list(bucket.id, &query).await?;
        let (mut versions, mut bytes) = (Vec::new(), 0);
        for item in page.items {
            let Item::Version { key, version, .. } = item else { continue };
            if wanted.key.as_ref().is_some_and(|wanted| *wanted != key) {
                return Ok((versions, false));
            }
            bytes += json_bytes(&key, &version);
            if bytes > PAGE_BYTES_MAX && !versions.is_empty() {
                return Ok((versions, true));
            }
            versions.push((key, version));
        }
        Ok((versions, page.more))
    }

    /// Parts of stored bodies, in the order in which they are asked for, each with the length of the whole one.
    ///
    /// # Errors
    /// `NoVersion` when one is gone, or ends before the offset; those of the store.
    pub async fn read_parts(
        &self,
        name: &str,
        parts: Vec<StoredPart>,
    ) -> Result<Vec<(u64, Bytes)>> {
        let bucket = self.inner.store.bucket(name).await?.id;
        let read = |part| async move { self.inner.read_part(bucket, &part).await };
        stream::iter(parts).map(read).buffered(READS_AT_ONCE).try_collect().await
    }

    /// Changes a bucket that arrives, as `expects` says. Each change is durable on return, and after an error each is
    /// either made or not.
    ///
    /// # Errors
    /// `Invalid`; `Conflict` for a version that is there or is not the newest, and a body that was not staged; those of
    /// the store.
    pub async fn receive(
        &self,
        name: &str,
        expects: Move,
        changes: Vec<ArrivingChange>,
    ) -> Result<()> {
        let bucket = self.inner.store.bucket(name).await?.id;
        changes.iter().try_for_each(ArrivingChange::check)?;
        let mut keys: Vec<Vec<ArrivingChange>> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for change in changes {
            let place = *places.entry(change.key().to_owned()).or_insert(keys.len());
            if place == keys.len() {
                keys.push(Vec::new());
            }
            keys[place].push(change);
        }
        let expects = &expects;
        let carry_out = |changes: Vec<ArrivingChange>| async move {
            for change in changes {
                self.inner.receive_one(bucket, expects, change).await?;
            }
            Ok(())
        };
        let done = stream::iter(keys).map(carry_out).buffer_unordered(KEYS_AT_ONCE);
        // All of them go on to their end, so that none is under way when this is answered.
        done.collect::<Vec<Result<()>>>().await.into_iter().collect()
    }
}

impl GatewayInner {
    async fn read_part(&self, bucket: BucketId, part: &StoredPart) -> Result<(u64, Bytes)> {
        let found = self.store.find(bucket, &part.key, Select::Order(part.order)).await?;
        let absent =
            || StoreError::NoVersion { key: part.key.clone(), version: part.order.to_string() };
        let body = found.ok_or_else(absent)?.body;
        let len = body.len();
        if part.offset > len {
            return Err(absent().into()); // It is another one, put anew since it was listed.
        }
        let end = part.offset.saturating_add(part.bytes).min(len);
        let mut bytes = BytesMut::new();
        let mut pieces = body.read(part.offset..end);
        while let Some(piece) = pieces.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok((len, bytes.freeze()))
    }

    async fn receive_one(
        &self,
        bucket: BucketId,
        expects: &Move,
        change: ArrivingChange,
    ) -> Result<()> {
        let (key, order, body, decide): (_, _, _, varve_object::ChangeKey) = match change {
            ArrivingChange::Remove { key, order } => {
                let remove = |view: &KeyView| {
                    let remove = view.named.as_ref().map(|version| version.order);
                    Ok(KeyChange { remove, ..KeyChange::default() })
                };
                (key, order, NewBody::Small(Bytes::new()), Box::new(remove))
            }
            ArrivingChange::Put { key, version, body } => {
                let body = match body {
                    ReceivedBody::Bytes(bytes) => NewBody::Small(bytes),
                    ReceivedBody::Staged(id) => {
                        let body = self.staged.take(id, bucket, expects, &key)?;
                        let attributes = Attributes::decode(&version.attributes)?;
                        check_len(&key, &version, &attributes, body.len)?;
                        NewBody::Staged(body)
                    }
                };
                let order = version.order;
                (key, order, body, Box::new(move |view: &KeyView| put(view, version)))
            }
        };
        let named = Some(Select::Order(order));
        self.store.change_arriving(bucket, expects, &key, named, body, decide).await?;
        Ok(())
    }
}

fn put(view: &KeyView, version: Version) -> varve_object::Result<KeyChange> {
    let refused = |reason| Err(StoreError::State { reason });
    if view.named.is_some() {
        return refused("a version of that order is there");
    }
    if view.newest.as_ref().is_some_and(|newest| newest.order > version.order) {
        return refused("a newer version is there");
    }
    if version.null && view.null.is_some() {
        return refused("a version without an id is there");
    }
    Ok(KeyChange { put: Some(version), ..KeyChange::default() })
}

/// Bytes of a version in a page, at most.
fn json_bytes(key: &str, version: &Version) -> usize {
    FIELDS_BYTES + escaped_bytes(key) + version.attributes.len().div_ceil(3) * 4
}

/// Bytes of a key in JSON.
pub(super) fn escaped_bytes(key: &str) -> usize {
    let of_byte = |byte: u8| match byte {
        0..=0x1f => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    };
    key.bytes().map(of_byte).sum()
}
