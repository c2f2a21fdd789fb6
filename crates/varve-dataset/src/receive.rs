//! Volumes that receive a snapshot from elsewhere, in full or as changes since one they have.
//!
//! RECEIVE-1. While a volume holds a part of what it receives, its record says of which snapshot: the rest may follow
//!     at any time, also after a crash, and nothing else can be received in between.
//! RECEIVE-2. Changes are received only on what they count from: the volume has a snapshot with that identity, and
//!     equals it.
//! RECEIVE-3. What was received is a snapshot with the sender's identity, so that the next changes find it.

use varve_types::{ByteRange, SnapshotIdentity};

use crate::catalog::{all_snapshots, find, find_snapshot, store};
use crate::name::{DatasetName, SnapshotName};
use crate::record::{VolumeInfo, VolumeRecord};
use crate::snapshot_record::{SnapshotInfo, SnapshotRecord};
use crate::snapshots::SnapshotRequest;
use crate::volume::VolumeSpec;
use crate::volume_move::{Move, MoveState};
use crate::{Datasets, Error, Result};

/// Runs that a comparison looks at before it goes on: the first that differs ends it.
const RUNS_MAX: usize = 2;

/// What a volume is to receive.
#[derive(Clone, Debug)]
pub struct ReceiveSpec {
    /// Name of the volume.
    pub name: String,
    /// Identity of the snapshot.
    pub identity: SnapshotIdentity,
    /// Identity of the snapshot from which the changes count; `None` for a whole one.
    pub from: Option<SnapshotIdentity>,
    /// Size of the snapshot in bytes.
    pub size_bytes: u64,
    /// Block size that clients are told to prefer, in bytes.
    pub block_size_bytes: u32,
}

impl Datasets {
    /// Prepares a volume to receive a snapshot: makes it, or sees that it is what the changes count from; one that has
    /// a part of the same snapshot is left as it is. It is made arriving, out of sight until it is there, if that is
    /// what the caller expects ([`Self::expecting`]). Durable on return. What follows are writes to it, then
    /// [`Self::end_receive`] (RECEIVE-1).
    ///
    /// # Errors
    /// `Exists` when a whole snapshot is to be received and the volume is there; `NotFound` when the changes' beginning
    /// is not; `Conflict` when the volume was changed since, is open, receives something else, or moves otherwise than
    /// is expected.
    pub async fn begin_receive(&self, spec: ReceiveSpec) -> Result<VolumeInfo> {
        let name = DatasetName::parse(&spec.name)?;
        let held = self.hold(&name).await?; // Nobody opens it while it is compared.
        match (find(&self.dispatch, &name).await?, spec.from) {
            (Some(record), _) if record.receiving == Some(spec.identity) => {
                self.check_move(&name, &record)?;
                Ok(record.info(&name))
            }
            (Some(_), None) => Err(Error::Exists { name: name.display() }),
            (None, None) => {
                drop(held); // Who makes it meanwhile is found by who makes it here.
                self.create_volume(self.received(&name, spec)?).await
            }
            (_, Some(from)) => {
                let datasets = self.clone();
                let begun = async move {
                    let _held = held;
                    datasets.begin_changes(&name, from, &spec).await
                };
                self.run_detached(begun).await
            }
        }
    }

    /// The volume that is made for a whole snapshot.
    fn received(&self, name: &DatasetName, spec: ReceiveSpec) -> Result<VolumeSpec> {
        let is_good = |moves: &Move| moves.state == MoveState::Arriving && moves.is_valid();
        if self.expects.as_ref().is_some_and(|moves| !is_good(moves)) {
            return Err(Error::BadMove { name: name.display() });
        }
        let ReceiveSpec { name, identity, size_bytes, block_size_bytes, .. } = spec;
        Ok(VolumeSpec {
            name,
            size_bytes,
            block_size_bytes,
            dedup: None,
            compression: None,
            quota_bytes: None,
            reserved: false,
            exclusive: false,
            receiving: Some(identity),
            moves: self.expects.clone(),
        })
    }

    /// RECEIVE-2
    async fn begin_changes(
        &self,
        name: &DatasetName,
        from: SnapshotIdentity,
        spec: &ReceiveSpec,
    ) -> Result<VolumeInfo> {
        let record = self.record(name).await?;
        self.check_move(name, &record)?;
        if let Some(other) = record.receiving {
            return Err(Error::Receiving { name: name.display(), identity: other.to_string() });
        }
        self.check_closed(record.route.stream, || name.display())?;
        let (base_name, base) = self.with_identity(name, from).await?;
        if !self.equals(&record, &base).await? {
            let snapshot = base_name.display();
            return Err(Error::ChangedSince { name: name.display(), snapshot });
        }
        let record = match record.size_bytes == spec.size_bytes {
            true => record,
            false => self.resize(name, record, spec.size_bytes).await?,
        };
        let record = VolumeRecord { receiving: Some(spec.identity), ..record };
        store(&self.dispatch, name, &record).await?;
        Ok(record.info(name))
    }

    /// The snapshot of a volume with this identity.
    async fn with_identity(
        &self,
        name: &DatasetName,
        identity: SnapshotIdentity,
    ) -> Result<(SnapshotName, SnapshotRecord)> {
        let all = all_snapshots(&self.dispatch, name).await?;
        let found = all.into_iter().find(|(_, record)| record.identity == identity);
        found.ok_or_else(|| Error::NoBase { name: name.display(), identity: identity.to_string() })
    }

    /// Whether a volume holds what its snapshot holds. Costs what differs.
    pub(crate) async fn equals(
        &self,
        record: &VolumeRecord,
        snapshot: &SnapshotRecord,
    ) -> Result<bool> {
        if record.size_bytes != snapshot.size_bytes
            || record.route.placement != snapshot.route.placement
        {
            return Ok(false);
        }
        let mut at = 0;
        while at < record.size_bytes {
            let range = ByteRange { start: at, end: record.size_bytes };
            let runs = self.dispatch.diff(snapshot.route, record.route, range, RUNS_MAX).await?;
            if runs.iter().any(|run| run.differs) {
                return Ok(false);
            }
            at += runs.iter().map(|run| run.len).sum::<u64>();
        }
        Ok(true)
    }

    /// Ends what [`Self::begin_receive`] began: all that was to be received was written, and becomes the volume's
    /// snapshot `snapshot`. Durable on return. May be repeated.
    ///
    /// # Errors
    /// `NotFound`; `Exists` when another snapshot has the name; `Conflict` when the volume does not receive that.
    pub async fn end_receive(
        &self,
        name: &str,
        identity: SnapshotIdentity,
        snapshot: &str,
    ) -> Result<SnapshotInfo> {
        let (datasets, volume) = (self.clone(), DatasetName::parse(name)?);
        let name = SnapshotName::of(&volume, snapshot)?;
        self.run_detached(async move { datasets.end_held(&volume, identity, &name).await }).await
    }

    async fn end_held(
        &self,
        volume: &DatasetName,
        identity: SnapshotIdentity,
        name: &SnapshotName,
    ) -> Result<SnapshotInfo> {
        let held = self.hold(volume).await?;
        let record = self.record(volume).await?;
        self.check_move(volume, &record)?;
        let there = find_snapshot(&self.dispatch, name).await?;
        let done = there.filter(|there| there.identity == identity);
        if done.is_none() && record.receiving != Some(identity) {
            let (name, identity) = (volume.display(), identity.to_string());
            return Err(Error::NotReceiving { name, identity });
        }
        if done.is_none() && there.is_some() {
            return Err(Error::SnapshotExists { name: name.display() });
        }
        let held = match done {
            Some(_) => held,
            None => {
                let wanted = SnapshotRequest { name: name.clone(), volume: record, identity };
                let first = self.ready_for_cuts(1).await?;
                self.take(held, first, vec![wanted]).await?; // RECEIVE-3
                self.hold(volume).await?
            }
        };
        self.forget_received(volume, identity).await?;
        drop(held);
        Ok(self.snapshot_record(name).await?.info(name))
    }

    async fn forget_received(&self, name: &DatasetName, identity: SnapshotIdentity) -> Result<()> {
        let record = self.record(name).await?;
        self.check_move(name, &record)?; // It was not held for a moment.
        if record.receiving != Some(identity) {
            return Ok(());
        }
        store(&self.dispatch, name, &VolumeRecord { receiving: None, ..record }).await
    }
}
