//! Records as keys on the shard that a volume's name picks: `v` + namespace + `/` + name for a volume, `s` + the same + `@` + snapshot for
//! its snapshots, which so have their volume's home. `i` begins intents (see `intent.rs`), `b` owners of buckets (`bucket.rs`).
//!
//! C1. Changes of names with the same home run one after another: each holds its homes' gates (`Dispatch::hold_names`).

use std::collections::{BTreeMap, BTreeSet};

use varve_dispatch::{Dispatch, HeldNames, Placement, Route};
use varve_types::{ShardId, StreamId};

use crate::Result;
use crate::bucket::{BUCKET_PREFIX, BucketOwner};
use crate::intent;
use crate::name::{DatasetName, SNAPSHOT_MARK, SnapshotName};
use crate::record::{VolumeInfo, VolumeRecord};
use crate::snapshot_record::{SnapshotInfo, SnapshotRecord};

/// First byte of keys of volume records.
const VOLUME_PREFIX: &[u8] = b"v";

/// First byte of keys of snapshot records.
const SNAPSHOT_PREFIX: &[u8] = b"s";

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
    /// [`Error::BadName`](crate::Error::BadName), [`Error::BadRecord`](crate::Error::BadRecord).
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
    let full = String::from_utf8_lossy(full);
    let record = VolumeRecord::decode(&full, value)?;
    Ok((DatasetName::parse(&full)?, record))
}

pub(crate) fn decode_snapshot(full: &[u8], value: &[u8]) -> Result<(SnapshotName, SnapshotRecord)> {
    let full = String::from_utf8_lossy(full);
    let record = SnapshotRecord::decode(&full, value)?;
    Ok((SnapshotName::parse(&full)?, record))
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

/// Keeps others from changing these volumes, their snapshots, and what has the same homes (C1).
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
        volumes.push(decode_volume(&key[VOLUME_PREFIX.len()..], value)?);
        Ok(())
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
        let found = dispatch.key_scan(shard, prefix.clone(), after.map(snapshot_key), max).await?;
        for (key, value) in found {
            snapshots.push(decode_snapshot(&key[SNAPSHOT_PREFIX.len()..], &value)?);
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
        Ok(())
    })
    .await?;
    Ok(count)
}

/// Visits keys and values of all shards that begin with `prefix`.
async fn visit_records(
    dispatch: &Dispatch,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    for shard in dispatch.placement().shards() {
        let mut after = None;
        loop {
            let found = dispatch.key_scan(shard, prefix.to_vec(), after, SCAN_MAX).await?;
            for (key, value) in &found {
                visit(key, value)?;
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

/// Every stream that a record names, in whatever state it is: call it after looking at the streams in flight (F1).
pub(crate) async fn owned_streams(dispatch: &Dispatch) -> Result<Vec<StreamId>> {
    // Intents first: what leaves them has become a record.
    let mut streams = intent::streams(dispatch).await?;
    streams.extend(names_of_streams(dispatch).await?.into_keys());
    Ok(streams)
}

/// The name of the volume, snapshot or bucket that each stream is.
pub(crate) async fn names_of_streams(dispatch: &Dispatch) -> Result<BTreeMap<StreamId, String>> {
    let mut names = BTreeMap::new();
    for prefix in [VOLUME_PREFIX, SNAPSHOT_PREFIX, BUCKET_PREFIX] {
        visit_records(dispatch, prefix, |key, value| {
            let entry = CatalogueEntry::decode(key, value);
            let entry = entry.expect("the prefix is a record's")?;
            names.insert(entry.route.stream, entry.name().to_owned());
            Ok(())
        })
        .await?;
    }
    Ok(names)
}
