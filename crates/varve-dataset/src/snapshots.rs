//! Snapshots: taken of one volume or of several at one instant, listed, protected, deleted.
//!
//! ```text
//!  names held, streams reserved → in flight → cut on all shards → answers of writes go on
//!    → record, or head of the intent → records
//! ```
//!
//! SNAPSHOTS-1. A snapshot exists from the moment its record, or the intent that lists it, is durable. What is cut
//!     before that belongs to nobody, and is dropped by mark.
//! SNAPSHOTS-2. A snapshot is a stream of its own: it needs neither its volume nor other snapshots, and nothing that
//!     happens to them changes it.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{join, try_join, try_join_all};
use futures_util::stream::{self, TryStreamExt};
use varve_dispatch::{CutSource, HeldNames, Route};
use varve_types::{SnapshotIdentity, StreamId};

use crate::catalog::{
    RecordKind, all_snapshots, find_snapshot, home_of, list_snapshots, remove_snapshot,
    remove_unreadable, store_snapshot,
};
use crate::intent::{Intent, Part};
use crate::name::{DatasetName, SnapshotName, unescaped};
use crate::open::{AccessMode, InitialState};
use crate::record::{VolumeInfo, VolumeRecord};
use crate::snapshot_record::{SnapshotInfo, SnapshotRecord};
use crate::volume::Volume;
use crate::volume_move::MoveState;
use crate::{Datasets, Error, Result};

/// Most snapshots of a group: their records fit a few frames of the journal.
const GROUP_MAX: usize = 1024;

/// Snapshots deleted at the same time when a volume goes with all of them.
const DELETES_AT_ONCE: usize = 64;

/// A snapshot that is to be taken.
pub(crate) struct SnapshotRequest {
    pub(crate) name: SnapshotName,
    pub(crate) volume: VolumeRecord,
    pub(crate) identity: SnapshotIdentity,
}

impl Datasets {
    /// Takes snapshots, `volume@snapshot` each, all at one instant: of two writes to any of the volumes, of which one
    /// was sent after the other was answered, no snapshot has the later one while another lacks the earlier. All exist
    /// or none does. Durable on return; writes meanwhile are answered a few milliseconds later.
    ///
    /// # Errors
    /// `NotFound`, `Exists`; `Invalid` for a name, for none, for more than 1024, and for two of one volume. After
    /// `Unavailable` they may exist, later perhaps: where a shard stays closed, they are stored when it serves again.
    /// `NoSpace` when a volume with a reservation could not be overwritten in full after it.
    pub async fn create_snapshots(&self, names: &[String]) -> Result<Vec<SnapshotInfo>> {
        let names = parse_group(names)?;
        let (begin_us, count) = (self.now_us(), names.len() as u64);
        let home = names[0].volume.clone();
        let work = |there: Self| async move { there.take_group(names).await }.boxed_local();
        let taken = self.at_home(&home, work).await?;
        self.shared.activity.snapshots_taken.add(count);
        self.shared.activity.snapshot_us.add(self.now_us() - begin_us);
        Ok(taken)
    }

    /// Takes snapshots; on the thread of the first one's home, for which its names are near.
    async fn take_group(&self, names: Vec<SnapshotName>) -> Result<Vec<SnapshotInfo>> {
        // No step needs what another finds.
        let reserved = self.ready_for_cuts(names.len() as u64);
        let looked_up = async {
            let held = self.hold_all(names.iter().map(|name| &name.volume)).await?;
            let wanted = names.iter().map(|name| self.plan_snapshot(name.clone()));
            Ok((held, try_join_all(wanted).await?))
        };
        let (first, (held, wanted)) = try_join(reserved, looked_up).await?;
        self.take(held, first, wanted).await
    }

    async fn plan_snapshot(&self, name: SnapshotName) -> Result<SnapshotRequest> {
        let there = find_snapshot(&self.dispatch, &name);
        let (volume, there) = try_join(self.record(&name.volume), there).await?;
        if there.is_some() {
            return Err(Error::SnapshotExists { name: name.display() });
        }
        self.check_move(&name.volume, &volume)?;
        Ok(SnapshotRequest { name, volume, identity: self.fresh_identity() })
    }

    fn fresh_identity(&self) -> SnapshotIdentity {
        let reactor = self.dispatch.reactor();
        let (high, low) = (reactor.random_u64(), reactor.random_u64());
        SnapshotIdentity((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }

    /// Takes snapshots of volumes whose names are held, and which do not have them yet; their streams are `first` and
    /// those behind it.
    pub(crate) async fn take(
        &self,
        held: HeldNames,
        first: StreamId,
        wanted: Vec<SnapshotRequest>,
    ) -> Result<Vec<SnapshotInfo>> {
        self.prepare_reserved(wanted.iter().map(|wanted| &wanted.volume)).await?;
        let created_unix_ms = self.dispatch.reactor().unix_time_ms();
        let parts: Vec<Part> = (first.get()..)
            .zip(&wanted)
            .map(|(stream, wanted)| (wanted.name.clone(), record(stream, created_unix_ms, wanted)))
            .collect();
        let sources: Vec<CutSource> = parts
            .iter()
            .zip(&wanted)
            .map(|((_, record), wanted)| CutSource {
                source: wanted.volume.route,
                copy: record.route.stream,
            })
            .collect();
        let infos = parts.iter().map(|(name, record)| record.info(name)).collect();
        let datasets = self.clone();
        let taken = self.run_detached(async move {
            let taken = datasets.cut_and_store(held, first, sources, parts).await;
            if taken.is_err() {
                datasets.want_mark(); // What was cut may belong to nobody (SNAPSHOTS-1).
            }
            taken
        });
        taken.await.map(|()| infos)
    }

    async fn cut_and_store(
        &self,
        _held: HeldNames,
        first: StreamId,
        sources: Vec<CutSource>,
        parts: Vec<Part>,
    ) -> Result<()> {
        let streams = sources.iter().map(|source| source.copy).collect();
        let _in_flight = self.shared.in_flight.register(streams);
        if let [(name, record)] = parts.as_slice() {
            drop(self.dispatch.cut(&sources).await?); // All shards have cut: answers may go on.
            return store_snapshot(&self.dispatch, name, record).await;
        }
        let home = home_of(&self.dispatch, &parts[0].0.volume);
        let intent = Intent { home, id: first };
        let written = async {
            // Parts are of no use before the head is there (INTENT-1), so they need not wait for the cut; the head
            // must.
            let cut = async { self.dispatch.cut(&sources).await.map(drop) };
            let (cut, stored) = join(cut, intent.write_parts(&self.dispatch, &parts)).await;
            cut?;
            stored?;
            intent.write_head(&self.dispatch, parts.len()).await
        };
        // Whether it exists after an error is found out below.
        let written = written.await;
        let exists = self.settle_group(intent).await?;
        if exists { Ok(()) } else { written }
    }

    /// Up to `max` snapshots behind `after`, of one volume or of all, in the order of namespace, volume and name, by
    /// bytes.
    ///
    /// # Errors
    /// `NotFound` when there is no such volume, `Unavailable` when a shard does not serve.
    pub async fn snapshots(
        &self,
        volume: Option<&str>,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<SnapshotInfo>> {
        let volume = volume.map(DatasetName::parse).transpose()?;
        let after = after.map(SnapshotName::parse).transpose()?;
        if let Some(volume) = &volume {
            self.record(volume).await?;
        }
        let found = list_snapshots(&self.dispatch, volume.as_ref(), after.as_ref(), max).await?;
        Ok(found.iter().map(|(name, record)| record.info(name)).collect())
    }

    /// One snapshot, by `volume@snapshot`.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn snapshot(&self, name: &str) -> Result<SnapshotInfo> {
        let name = SnapshotName::parse(name)?;
        Ok(self.snapshot_record(&name).await?.info(&name))
    }

    pub(crate) async fn snapshot_record(&self, name: &SnapshotName) -> Result<SnapshotRecord> {
        let found = find_snapshot(&self.dispatch, name).await?;
        found.ok_or_else(|| Error::NoSnapshot { name: name.display() })
    }

    /// Protects a snapshot from being deleted, or no longer. Durable on return.
    ///
    /// # Errors
    /// `NotFound`; `Fenced` while its volume leaves for another pool.
    pub async fn protect_snapshot(&self, name: &str, protected: bool) -> Result<SnapshotInfo> {
        let (datasets, name) = (self.clone(), SnapshotName::parse(name)?);
        self.run_detached(async move {
            let _held = datasets.hold(&name.volume).await?;
            let volume = datasets.record(&name.volume).await?;
            let leaves =
                volume.moves.as_ref().is_some_and(|moves| moves.state == MoveState::Leaving);
            if datasets.expects.is_some() || leaves {
                datasets.check_move(&name.volume, &volume)?; // The target would not be told.
            }
            let record = SnapshotRecord { protected, ..datasets.snapshot_record(&name).await? };
            store_snapshot(&datasets.dispatch, &name, &record).await?;
            Ok(record.info(&name))
        })
        .await
    }

    /// Deletes a snapshot; its volume, other snapshots and clones stay as they are (SNAPSHOTS-2). Durable on return;
    /// space that nothing else holds comes back with the mark pass that follows.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while it is protected or open.
    pub async fn delete_snapshot(&self, name: &str) -> Result<()> {
        if let Some(stored) = unescaped(name) {
            return self.delete_unreadable(RecordKind::Snapshot, stored).await;
        }
        let (datasets, name) = (self.clone(), SnapshotName::parse(name)?);
        self.run_detached(async move {
            let _held = datasets.hold(&name.volume).await?;
            let record = match datasets.snapshot_record(&name).await {
                Err(error @ Error::BadRecord { .. }) => {
                    let snapshot = name.display();
                    tracing::warn!(%error, snapshot, "an unreadable record is deleted");
                    remove_snapshot(&datasets.dispatch, &name).await?;
                    datasets.want_mark(); // It finds the stream, which had no other name.
                    return Ok(());
                }
                record => record?,
            };
            datasets.check_move_of_snapshot(&name).await?;
            datasets.check_deletable(&name, &record)?;
            datasets.remove(&name, &record).await
        })
        .await
    }

    /// Deletes a record that cannot be read, by what is stored as its name.
    pub(crate) async fn delete_unreadable(&self, kind: RecordKind, stored: Vec<u8>) -> Result<()> {
        let datasets = self.clone();
        self.run_detached(async move {
            datasets.shared.unsettled.check()?;
            remove_unreadable(&datasets.dispatch, kind, &stored).await?;
            datasets.want_mark();
            Ok(())
        })
        .await
    }

    /// Snapshots of a volume that is on its way are deleted by who moves it; those of one that left by anybody.
    async fn check_move_of_snapshot(&self, name: &SnapshotName) -> Result<()> {
        let volume = self.record(&name.volume).await?;
        let has_left = volume.moves.as_ref().is_some_and(|moves| moves.state == MoveState::Left);
        if has_left && self.expects.is_none() {
            return Ok(());
        }
        self.check_move(&name.volume, &volume)
    }

    fn check_deletable(&self, name: &SnapshotName, record: &SnapshotRecord) -> Result<()> {
        if record.protected {
            return Err(Error::Protected { name: name.display() });
        }
        self.check_closed(record.route.stream, || name.display())
    }

    async fn remove(&self, name: &SnapshotName, record: &SnapshotRecord) -> Result<()> {
        remove_snapshot(&self.dispatch, name).await?;
        self.shared.activity.snapshots_deleted.add(1);
        // From here on it does not exist; the rest is found by mark if it is cut short.
        self.dispatch.drop_stream(record.route.stream).await?;
        self.want_mark();
        Ok(())
    }

    /// Deletes every snapshot of a volume whose names are held, if all may be.
    pub(crate) async fn delete_all_snapshots(&self, volume: &DatasetName) -> Result<()> {
        let all = all_snapshots(&self.dispatch, volume).await?;
        for (name, record) in &all {
            self.check_deletable(name, record)?;
        }
        let deletes = all.iter().map(|(name, record)| Ok(self.remove(name, record)));
        stream::iter(deletes).try_for_each_concurrent(DELETES_AT_ONCE, |delete| delete).await
    }

    /// Opens a snapshot on this thread, to be read. It cannot be deleted while it is open.
    pub(crate) async fn open_snapshot(&self, name: &str) -> Result<Volume> {
        self.open_identified(name, None).await
    }

    /// The same, if it is the one with this identity.
    pub(crate) async fn open_identified(
        &self,
        name: &str,
        identity: Option<SnapshotIdentity>,
    ) -> Result<Volume> {
        let name = SnapshotName::parse(name)?;
        let _held = self.hold_open(&name.volume).await?;
        let record = self.snapshot_record(&name).await?;
        if let Some(identity) = identity.filter(|identity| *identity != record.identity) {
            return Err(Error::OtherSnapshot {
                name: name.display(),
                identity: identity.to_string(),
            });
        }
        let SnapshotRecord { route, size_bytes, reduction, .. } = record;
        let gate = AccessMode::Open; // It is read-only for what it is.
        let opening =
            InitialState { size_bytes, reduction, quota_bytes: None, is_exclusive: false, gate };
        let open = self.shared.open.open(route.stream, opening);
        let info = VolumeInfo {
            name: name.display(),
            namespace: name.volume.namespace.clone(),
            id: route.stream.get(),
            size_bytes,
            block_size_bytes: record.block_bytes,
            created_unix_ms: record.created_unix_ms,
            dedup: reduction.dedup,
            compression: reduction.compression,
            quota_bytes: None,
            reserved_bytes: None,
            exclusive: false,
            origin: None,
            receiving: None,
            moves: None,
        };
        let (dispatch, shared) = (self.dispatch.clone(), Arc::clone(&self.shared));
        Ok(Volume::new(dispatch, shared, info, route, open))
    }
}

fn record(stream: u64, created_unix_ms: u64, wanted: &SnapshotRequest) -> SnapshotRecord {
    let volume = &wanted.volume;
    SnapshotRecord {
        route: Route { stream: StreamId::new(stream), placement: volume.route.placement },
        size_bytes: volume.size_bytes,
        block_bytes: volume.block_bytes,
        created_unix_ms,
        identity: wanted.identity,
        reduction: volume.reduction,
        protected: false,
    }
}

fn parse_group(names: &[String]) -> Result<Vec<SnapshotName>> {
    if names.is_empty() || names.len() > GROUP_MAX {
        return Err(Error::BadGroup { reason: "there must be 1 to 1024 of them" });
    }
    let names: Vec<SnapshotName> =
        names.iter().map(|name| SnapshotName::parse(name)).collect::<Result<_>>()?;
    let volumes: BTreeSet<&DatasetName> = names.iter().map(|name| &name.volume).collect();
    if volumes.len() < names.len() {
        return Err(Error::BadGroup { reason: "two are of one volume" });
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
