//! Records as keys on the shard that a volume's name picks: `v` + namespace + `/` + name for a volume, `s` + the same +
//! `@` + snapshot for its snapshots, which so have their volume's home. `i` begins intents (see `intent.rs`), `b`
//! owners of buckets (`bucket.rs`).
//!
//! CATALOG-1. Changes of names with the same home run one after another: each holds its homes' gates
//!     (`Dispatch::hold_names`).
//! CATALOG-2. A record that cannot be read stops nobody who goes through all of them: it is left out and reported. Its
//!     stream is not known, so while there is one, every stream counts as owned.

use std::collections::{BTreeMap, BTreeSet};

use varve_dispatch::{Dispatch, HeldNames, Placement, Route};
use varve_types::{ShardId, StreamId};

use crate::bucket::{BUCKET_PREFIX, BucketOwner};
use crate::intent;
use crate::name::{DatasetName, SNAPSHOT_MARK, SnapshotName, escaped};
use crate::record::{VolumeInfo, VolumeRecord};
use crate::snapshot_record::{SnapshotInfo, SnapshotRecord};
use crate::{Error, Result};

/// First byte of keys of volume records.
const VOLUME_PREFIX: &[u8] = b"v";

/// First bytes of the keys of what has a name: buckets, snapshots, volumes.
pub const NAME_PREFIXES: [u8; 3] = *b"bsv";

/// First byte of keys of snapshot records.
const SNAPSHOT_PREFIX: &[u8] = b"s";

/// What a record is of, which its key's first byte says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordKind {
    Volume,
    Snapshot,
}

/// A record that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct UnreadableRecord {
    /// The name by which it can be deleted; escaped where what is stored is no name.
    pub(crate) name: String,
    pub(crate) error: Error,
}

impl UnreadableRecord {
    fn new(key: &[u8], error: Error) -> Self {
        let stored = key.get(1..).unwrap_or_default();
        let text = str::from_utf8(stored).unwrap_or_default();
        let parsed = match key.first().is_some_and(|first| SNAPSHOT_PREFIX.contains(first)) {
            true => SnapshotName::parse(text).map(|name| name.display()),
            false => DatasetName::parse(text).map(|name| name.display()),
        };
        let name = parsed.unwrap_or_else(|_| escaped(stored));
        tracing::debug!(name, %error, "a record cannot be read");
        Self { name, error }
    }
}

/// Records fetched at once from a shard.
pub(crate) const SCAN_MAX: usize = 1000;

/// What a key of the catalogue says, for who looks at a shard from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CatalogueItem {
    /// A volume.
    Volume(VolumeInfo),
    /// A snapshot.
    Snapshot(SnapshotInfo),
    /// A part of a group of snapshots that was being stored: this one.
    Intent(SnapshotInfo),
    /// A bucket, or what belongs to no bucket.
    Bucket(BucketOwner),
}

/// A record as it stands in the key tree of its home.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogueEntry {
    /// What it is.
    pub item: CatalogueItem,
    /// Its stream, and where its bytes are.
    pub route: Route,
    volume_name: String,
}

impl CatalogueEntry {
    /// Decodes a key and its value; `None` when the key is no record's.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::BadRecord`].
    #[must_use]
    pub fn decode(key: &[u8], value: &[u8]) -> Option<Result<Self>> {
        if let Some(full) = key.strip_prefix(VOLUME_PREFIX) {
            return Some(decode_volume(full, value).map(|(name, record)| Self {
                item: CatalogueItem::Volume(record.info(&name)),
                route: record.route,
                volume_name: name.full(),
            }));
        }
        let of = |(name, record): (SnapshotName, SnapshotRecord)| {
            (record.info(&name), record.route, name.volume.full())
        };
        if let Some(full) = key.strip_prefix(SNAPSHOT_PREFIX) {
            return Some(decode_snapshot(full, value).map(of).map(|(info, route, volume_name)| {
                Self { item: CatalogueItem::Snapshot(info), route, volume_name }
            }));
        }
        if let Some(stream) = key.strip_prefix(BUCKET_PREFIX) {
            return Some(BucketOwner::decode(stream, value).map(|owner| Self {
                route: owner.route(),
                item: CatalogueItem::Bucket(owner),
                volume_name: String::new(),
            }));
        }
        let part = intent::decode_part(key, value)?;
        Some(part.map(of).map(|(info, route, volume_name)| Self {
            item: CatalogueItem::Intent(info),
            route,
            volume_name,
        }))
    }

    /// Its name, as people write it.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.item {
            CatalogueItem::Volume(volume) => &volume.name,
            CatalogueItem::Snapshot(snapshot) | CatalogueItem::Intent(snapshot) => &snapshot.name,
            CatalogueItem::Bucket(owner) => &owner.name,
        }
    }

    /// The shard that keeps the record; an intent may be on any.
    #[must_use]
    pub fn home(&self, placement: &Placement) -> Option<ShardId> {
        match self.item {
            CatalogueItem::Volume(_) | CatalogueItem::Snapshot(_) => {
                Some(placement.home_of(self.volume_name.as_bytes()))
            }
            CatalogueItem::Intent(_) | CatalogueItem::Bucket(_) => None,
        }
    }
}

fn decode_volume(full: &[u8], value: &[u8]) -> Result<(DatasetName, VolumeRecord)> {
    let full = stored_text(full)?;
    let record = VolumeRecord::decode(full, value)?;
    Ok((DatasetName::parse(full)?, record))
}

pub(crate) fn decode_snapshot(full: &[u8], value: &[u8]) -> Result<(SnapshotName, SnapshotRecord)> {
    let full = stored_text(full)?;
    let record = SnapshotRecord::decode(full, value)?;
    Ok((SnapshotName::parse(full)?, record))
}

fn stored_text(full: &[u8]) -> Result<&str> {
    let reason = "what is stored is not text";
    str::from_utf8(full).map_err(|_| Error::BadName { name: escaped(full), reason })
}

fn volume_key(name: &DatasetName) -> Vec<u8> {
    [VOLUME_PREFIX, name.full().as_bytes()].concat()
}

fn snapshot_key(name: &SnapshotName) -> Vec<u8> {
    [SNAPSHOT_PREFIX, name.full().as_bytes()].concat()
}

pub(crate) fn home_of(dispatch: &Dispatch, name: &DatasetName) -> ShardId {
    dispatch.placement().home_of(name.full().as_bytes())
}

/// Keeps others from changing these volumes, their snapshots, and what has the same homes (CATALOG-1).
pub(crate) async fn hold<'a>(
    dispatch: &Dispatch,
    names: impl IntoIterator<Item = &'a DatasetName>,
) -> Result<HeldNames> {
    let homes: BTreeSet<ShardId> = names.into_iter().map(|name| home_of(dispatch, name)).collect();
    Ok(dispatch.hold_names(&homes).await?)
}

/// Stores a key. Durable on return.
pub(crate) async fn put(
    dispatch: &Dispatch,
    home: ShardId,
    key: Vec<u8>,
    value: Vec<u8>,
) -> Result<()> {
    let put = dispatch
        .on_shard(home, move |shard| Box::pin(async move { shard.key_put(&key, &value).await }));
    Ok(put.await?)
}

/// Removes a key. Durable on return.
pub(crate) async fn remove(dispatch: &Dispatch, home: ShardId, key: Vec<u8>) -> Result<()> {
    let removed =
        dispatch.on_shard(home, move |shard| Box::pin(async move { shard.key_delete(&key).await }));
    Ok(removed.await?)
}

/// The record of a volume, if there is one.
pub(crate) async fn find(dispatch: &Dispatch, name: &DatasetName) -> Result<Option<VolumeRecord>> {
    let home = home_of(dispatch, name);
    match dispatch.key_get(home, volume_key(name)).await? {
        None => Ok(None),
        Some(bytes) => VolumeRecord::decode(&name.full(), &bytes).map(Some),
    }
}

pub(crate) async fn store(
    dispatch: &Dispatch,
    name: &DatasetName,
    record: &VolumeRecord,
) -> Result<()> {
    put(dispatch, home_of(dispatch, name), volume_key(name), record.encode()).await
}

pub(crate) async fn remove_volume(dispatch: &Dispatch, name: &DatasetName) -> Result<()> {
    remove(dispatch, home_of(dispatch, name), volume_key(name)).await
}

/// The record of a snapshot, if there is one.
pub(crate) async fn find_snapshot(
    dispatch: &Dispatch,
    name: &SnapshotName,
) -> Result<Option<SnapshotRecord>> {
    let home = home_of(dispatch, &name.volume);
    match dispatch.key_get(home, snapshot_key(name)).await? {
        None => Ok(None),
        Some(bytes) => SnapshotRecord::decode(&name.full(), &bytes).map(Some),
    }
}

pub(crate) async fn store_snapshot(
    dispatch: &Dispatch,
    name: &SnapshotName,
    record: &SnapshotRecord,
) -> Result<()> {
    let home = home_of(dispatch, &name.volume);
    put(dispatch, home, snapshot_key(name), record.encode().to_vec()).await
}

pub(crate) async fn remove_snapshot(dispatch: &Dispatch, name: &SnapshotName) -> Result<()> {
    remove(dispatch, home_of(dispatch, &name.volume), snapshot_key(name)).await
}

/// Every volume, in the order of their names.
pub(crate) async fn list(dispatch: &Dispatch) -> Result<Vec<(DatasetName, VolumeRecord)>> {
    let mut volumes = Vec::new();
    visit_records(dispatch, VOLUME_PREFIX, |key, value| {
        match decode_volume(&key[VOLUME_PREFIX.len()..], value) {
            Ok(volume) => volumes.push(volume),
            Err(error) => drop(UnreadableRecord::new(key, error)), // CATALOG-2
        }
    })
    .await?;
    volumes.sort_by_key(|(name, _)| name.full());
    Ok(volumes)
}

/// Up to `max` snapshots behind `after`, of one volume or of all, in the order of their whole names.
pub(crate) async fn list_snapshots(
    dispatch: &Dispatch,
    volume: Option<&DatasetName>,
    after: Option<&SnapshotName>,
    max: usize,
) -> Result<Vec<(SnapshotName, SnapshotRecord)>> {
    let (shards, prefix) = match volume {
        Some(volume) => {
            let full = format!("{}{SNAPSHOT_MARK}", volume.full());
            let prefix = [SNAPSHOT_PREFIX, full.as_bytes()].concat();
            (vec![home_of(dispatch, volume)], prefix)
        }
        None => (dispatch.placement().shards().collect(), SNAPSHOT_PREFIX.to_vec()),
    };
    let mut snapshots = Vec::new();
    for shard in shards {
        let (mut after, mut left) = (after.map(snapshot_key), max);
        while left > 0 {
            let found = dispatch.key_scan(shard, prefix.clone(), after.take(), left).await?;
            let is_end = found.len() < left;
            for (key, value) in found {
                match decode_snapshot(&key[SNAPSHOT_PREFIX.len()..], &value) {
                    Ok(snapshot) => {
                        snapshots.push(snapshot);
                        left -= 1;
                    }
                    Err(error) => drop(UnreadableRecord::new(&key, error)), // CATALOG-2: the next one in its place
                }
                after = Some(key);
            }
            if is_end {
                break;
            }
        }
    }
    snapshots.sort_by_key(|(name, _)| name.full());
    snapshots.truncate(max);
    Ok(snapshots)
}

/// How many snapshots there are, of all volumes.
pub(crate) async fn count_snapshots(dispatch: &Dispatch) -> Result<u64> {
    let mut count = 0;
    visit_records(dispatch, SNAPSHOT_PREFIX, |_, _| {
        count += 1;
    })
    .await?;
    Ok(count)
}

/// Visits keys and values of all shards that begin with `prefix`.
async fn visit_records(
    dispatch: &Dispatch,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]),
) -> Result<()> {
    for shard in dispatch.placement().shards() {
        let mut after = None;
        loop {
            let found = dispatch.key_scan(shard, prefix.to_vec(), after, SCAN_MAX).await?;
            for (key, value) in &found {
                visit(key, value);
            }
            if found.len() < SCAN_MAX {
                break;
            }
            after = found.into_iter().next_back().map(|(key, _)| key);
        }
    }
    Ok(())
}

/// Every snapshot of a volume, in the order of their names.
pub(crate) async fn all_snapshots(
    dispatch: &Dispatch,
    volume: &DatasetName,
) -> Result<Vec<(SnapshotName, SnapshotRecord)>> {
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|(name, _): &(SnapshotName, _)| name.clone());
        let found = list_snapshots(dispatch, Some(volume), after.as_ref(), SCAN_MAX).await?;
        let more = found.len() == SCAN_MAX;
        all.extend(found);
        if !more {
            return Ok(all);
        }
    }
}

/// Every stream that a record names, in whatever state it is: call it after looking at the streams in flight
/// (IN-FLIGHT-1).
pub(crate) async fn owned_streams(dispatch: &Dispatch) -> Result<Vec<StreamId>> {
    // Intents first: what leaves them has become a record.
    let (mut streams, unreadable_parts) = intent::streams(dispatch).await?;
    let (names, unreadable) = names_of_streams(dispatch).await?;
    streams.extend(names.into_keys());
    for record in &unreadable {
        tracing::warn!(
            name = record.name,
            error = %record.error,
            "a record cannot be read: streams without an owner are kept; `varve volume delete` removes it by this name"
        );
    }
    if unreadable_parts > 0 || !unreadable.is_empty() {
        streams.extend(all_streams(dispatch).await?); // CATALOG-2
    }
    Ok(streams)
}

/// Every stream that a shard has, with an owner or without.
async fn all_streams(dispatch: &Dispatch) -> Result<Vec<StreamId>> {
    let mut streams = Vec::new();
    for shard in dispatch.placement().shards() {
        let there =
            dispatch.on_shard(shard, |shard| Box::pin(async move { shard.streams().await }));
        streams.extend(there.await?);
    }
    Ok(streams)
}

/// The name of the volume, snapshot or bucket that each stream is; and records that cannot be read.
pub(crate) async fn names_of_streams(
    dispatch: &Dispatch,
) -> Result<(BTreeMap<StreamId, String>, Vec<UnreadableRecord>)> {
    let (mut names, mut unreadable) = (BTreeMap::new(), Vec::new());
    for prefix in [VOLUME_PREFIX, SNAPSHOT_PREFIX, BUCKET_PREFIX] {
        visit_records(dispatch, prefix, |key, value| {
            match CatalogueEntry::decode(key, value).expect("the prefix is a record's") {
                Ok(entry) => drop(names.insert(entry.route.stream, entry.name().to_owned())),
                Err(error) => unreadable.push(UnreadableRecord::new(key, error)),
            }
        })
        .await?;
    }
    Ok((names, unreadable))
}

/// Removes the record whose stored name is these bytes, if it cannot be read. Durable on return; its stream, if it had
/// one, is found by mark.
pub(crate) async fn remove_unreadable(
    dispatch: &Dispatch,
    kind: RecordKind,
    stored: &[u8],
) -> Result<()> {
    let prefix = match kind {
        RecordKind::Volume => VOLUME_PREFIX,
        RecordKind::Snapshot => SNAPSHOT_PREFIX,
    };
    let key = [prefix, stored].concat();
    let not_found = match kind {
        RecordKind::Volume => Error::NotFound { name: escaped(stored) },
        RecordKind::Snapshot => Error::NoSnapshot { name: escaped(stored) },
    };
    for shard in dispatch.placement().shards() {
        let Some(value) = dispatch.key_get(shard, key.clone()).await? else { continue };
        if let Some(Err(error)) = CatalogueEntry::decode(&key, &value) {
            tracing::warn!(name = escaped(stored), %error, "an unreadable record is deleted");
            return remove(dispatch, shard, key).await;
        }
    }
    Err(not_found)
}
