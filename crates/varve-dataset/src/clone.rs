//! Volumes that begin with what a snapshot, or another volume, holds; and volumes that go back to it.
//!
//! CLONE-1. A clone is a stream of its own, cut from its origin: it shares blocks and pages until one of the two is
//!     written, and depends on nothing. Its origin is remembered by name only, and may be deleted.
//! CLONE-2. A rollback is a new stream, cut from the snapshot, that takes the old one's place in the volume's record.
//!     Records of the old stream that were journaled before and drained later belong to a stream that nobody owns.

use futures_util::FutureExt;
use futures_util::future::try_join;
use varve_dispatch::{CutSource, Route};
use varve_types::StreamId;

use crate::catalog::{find, store};
use crate::name::{DatasetName, SNAPSHOT_MARK, SnapshotName};
use crate::record::{VolumeInfo, VolumeRecord};
use crate::snapshot_record::SnapshotRecord;
use crate::{Datasets, Error, Result};

impl Datasets {
    /// Makes a volume that holds what a snapshot holds, or what a volume holds now. Durable on return; takes no space
    /// until one of the two is written. It is reduced as its origin was, and has neither quota nor reservation.
    ///
    /// # Errors
    /// `NotFound` for the source, `Exists` for the name.
    pub async fn clone_volume(&self, source: &str, name: &str) -> Result<VolumeInfo> {
        let name = DatasetName::create(name)?;
        let (snapshot, volume) = match source.contains(SNAPSHOT_MARK) {
            true => {
                let snapshot = SnapshotName::parse(source)?;
                let volume = snapshot.volume.clone();
                (Some(snapshot), volume)
            }
            false => (None, DatasetName::parse(source)?),
        };
        let home = name.clone();
        let work = |there: Self| {
            async move { there.clone_here(snapshot, volume, name).await }.boxed_local()
        };
        let begin_us = self.now_us();
        let made = self.at_home(&home, work).await?;
        self.shared.activity.clones_made.add(1);
        self.shared.activity.clone_us.add(self.now_us() - begin_us);
        Ok(made)
    }

    async fn clone_here(
        &self,
        snapshot: Option<SnapshotName>,
        volume: DatasetName,
        name: DatasetName,
    ) -> Result<VolumeInfo> {
        // No step needs what another finds.
        let looked_up = async {
            let held = self.hold_all([&volume, &name]).await?;
            let sight = self.see(&name).await?;
            let origin = async {
                match &snapshot {
                    Some(snapshot) => Ok(as_volume(&self.snapshot_record(snapshot).await?)),
                    None => self.whole(&volume).await,
                }
            };
            let (origin, there) = try_join(origin, find(&self.dispatch, &name)).await?;
            match there {
                Some(_) => Err(Error::Exists { name: name.display() }),
                None => Ok((held, sight, origin)),
            }
        };
        let (stream, (_held, sight, origin)) = try_join(self.ready_for_cuts(1), looked_up).await?;
        let origin_name = snapshot.map_or_else(|| volume.display(), |snapshot| snapshot.display());
        if origin.is_reserved {
            self.dispatch.prepare_cut(&[origin.route.stream]).await?;
        }
        self.enter(sight).await?;
        let record = VolumeRecord {
            created_unix_ms: self.dispatch.reactor().unix_time_ms(),
            quota_bytes: None,
            is_reserved: false,
            is_exclusive: false,
            origin: Some(origin_name),
            receiving: None,
            moves: None,
            ..origin
        };
        let made = self.fork(&name, record, stream).await;
        self.withdraw(&name, &made).await;
        Ok(made?.info(&name))
    }

    /// The record of a volume that has all that it is to have, and is in this pool (MOVING-2, MOVING-3).
    async fn whole(&self, name: &DatasetName) -> Result<VolumeRecord> {
        let record = self.record(name).await?;
        match &record.moves {
            Some(moves) if !moves.is_here() => {
                Err(Error::Moves { name: name.display(), moves: moves.clone() })
            }
            _ => Ok(record),
        }
    }

    /// Stores `record` with a new stream that holds what its own holds now; the record that was stored.
    async fn fork(
        &self,
        name: &DatasetName,
        record: VolumeRecord,
        stream: StreamId,
    ) -> Result<VolumeRecord> {
        let source = record.route;
        let record = VolumeRecord { route: Route { stream, ..source }, ..record };
        let _in_flight = self.shared.in_flight.register(vec![stream]); // IN-FLIGHT-1
        let stored = async {
            drop(self.dispatch.cut(&[CutSource { source, copy: stream }]).await?);
            store(&self.dispatch, name, &record).await
        };
        if let Err(error) = stored.await {
            self.want_mark(); // What was cut may belong to nobody.
            return Err(error);
        }
        Ok(record)
    }

    /// Makes a volume hold what its snapshot holds, and have its size; what was written since is lost, unless another
    /// snapshot has it. Snapshots stay as they are. The volume gets another id. Durable on return.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while the volume is open; `NoSpace` when space is reserved for it, and there is not so
    /// much once more.
    pub async fn rollback(&self, snapshot: &str) -> Result<VolumeInfo> {
        let (datasets, snapshot) = (self.clone(), snapshot.to_owned());
        self.run_detached(async move { datasets.rollback_held(&snapshot).await }).await
    }

    async fn rollback_held(&self, snapshot: &str) -> Result<VolumeInfo> {
        let snapshot = SnapshotName::parse(snapshot)?;
        let name = &snapshot.volume;
        let _held = self.hold(name).await?;
        let before = self.record(name).await?;
        self.check_move(name, &before)?;
        let source = self.snapshot_record(&snapshot).await?;
        self.check_closed(before.route.stream, || name.display())?;
        let record = VolumeRecord {
            created_unix_ms: before.created_unix_ms,
            reduction: before.reduction,
            quota_bytes: before.quota_bytes,
            is_reserved: before.is_reserved,
            is_exclusive: before.is_exclusive,
            origin: before.origin.clone(),
            moves: before.moves.clone(),
            ..as_volume(&source)
        };
        let stream = self.ready_for_cuts(1).await?;
        if record.is_reserved {
            self.reserve_for_fork(&record, stream).await?; // The promise to the old stream goes with it.
        }
        let forked = self.fork(name, record, stream).await; // CLONE-2: from here on the volume is what the snapshot is.
        if forked.is_err() {
            self.release_if_unowned(name, stream).await;
        }
        let record = forked?;
        self.shared.activity.rollbacks.add(1);
        self.dispatch.drop_stream(before.route.stream).await?;
        self.want_mark();
        Ok(record.info(name))
    }

    /// Lets a clone forget what it was cloned from. Changes nothing else: it depends on nothing (CLONE-1). Durable on
    /// return.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn flatten_volume(&self, name: &str) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        self.run_detached(async move {
            let _held = datasets.hold(&name).await?;
            let record = VolumeRecord { origin: None, ..datasets.record(&name).await? };
            datasets.check_move(&name, &record)?;
            store(&datasets.dispatch, &name, &record).await?;
            Ok(record.info(&name))
        })
        .await
    }
}

/// A volume with the stream of a snapshot.
fn as_volume(snapshot: &SnapshotRecord) -> VolumeRecord {
    VolumeRecord {
        route: snapshot.route,
        size_bytes: snapshot.size_bytes,
        block_bytes: snapshot.block_bytes,
        created_unix_ms: snapshot.created_unix_ms,
        reduction: snapshot.reduction,
        quota_bytes: None,
        is_reserved: false,
        is_exclusive: false,
        origin: None,
        receiving: None,
        moves: None,
    }
}
