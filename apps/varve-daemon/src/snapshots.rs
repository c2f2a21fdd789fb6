//! Snapshots, clones and what changed as the admin API sees them, over the datasets of a thread.

use varve_access_admin::v1::{
    BeginReceive, ChangeSnapshot, CloneVolume, CreateSnapshots, EndReceive, Extent, ExtentPage,
    ExtentsWanted, MoveVolume, RollBack, Snapshot, Volume, VolumeMove,
};
use varve_access_admin::{Error, Result};
use varve_dataset::{
    Datasets, ExtentSpec, FencedView, ReceiveSpec, SnapshotIdentity, SnapshotInfo,
};
use varve_types::ErrorKind;

use crate::engine_stack::{refused, volume};
use crate::moves::wanted_move;

pub(super) async fn create(datasets: Datasets, spec: CreateSnapshots) -> Result<Vec<Snapshot>> {
    let taken = datasets
        .expecting(spec.expects.map(wanted_move))
        .create_snapshots(&spec.names)
        .await
        .map_err(refused)?;
    Ok(taken.into_iter().map(snapshot).collect())
}

pub(super) async fn list(
    datasets: Datasets,
    volume: Option<String>,
    after: Option<String>,
    limit: usize,
) -> Result<Vec<Snapshot>> {
    let found = datasets.snapshots(volume.as_deref(), after.as_deref(), limit).await;
    Ok(found.map_err(refused)?.into_iter().map(snapshot).collect())
}

pub(super) async fn show(datasets: Datasets, name: String) -> Result<Snapshot> {
    datasets.snapshot(&name).await.map(snapshot).map_err(refused)
}

pub(super) async fn change(
    datasets: Datasets,
    name: String,
    change: ChangeSnapshot,
) -> Result<Snapshot> {
    let datasets = datasets.expecting(change.expects.map(wanted_move));
    let changed = datasets.protect_snapshot(&name, change.protected).await;
    changed.map(snapshot).map_err(refused)
}

pub(super) async fn delete(
    datasets: Datasets,
    name: String,
    expects: Option<VolumeMove>,
) -> Result<()> {
    datasets.expecting(expects.map(wanted_move)).delete_snapshot(&name).await.map_err(refused)
}

pub(super) async fn roll_back(datasets: Datasets, name: String, to: RollBack) -> Result<Volume> {
    let datasets = datasets.expecting(to.expects.map(wanted_move));
    let rolled = datasets.rollback(&format!("{name}@{}", to.snapshot)).await;
    rolled.map(|info| volume(&datasets, info)).map_err(refused)
}

pub(super) async fn clone(datasets: Datasets, spec: CloneVolume) -> Result<Volume> {
    let cloned = datasets.clone_volume(&spec.source, &spec.name).await;
    cloned.map(|info| volume(&datasets, info)).map_err(refused)
}

pub(super) async fn extents(
    datasets: Datasets,
    name: String,
    wanted: ExtentsWanted,
) -> Result<ExtentPage> {
    let ExtentsWanted { identity: name_identity, since, since_identity, expects, .. } = wanted;
    let spec = ExtentSpec {
        name,
        identity: name_identity.as_deref().map(identity).transpose()?,
        since,
        since_identity: since_identity.as_deref().map(identity).transpose()?,
        offset: wanted.offset,
        max: wanted.limit,
    };
    let found = datasets.expecting(expects.map(wanted_move)).extents(&spec).await;
    let page = found.map_err(refused)?;
    let extent = |range: varve_types::ByteRange| Extent { offset: range.start, len: range.len() };
    let extents = page.extents.into_iter().map(extent).collect();
    Ok(ExtentPage { size_bytes: page.size_bytes, extents, next: page.next })
}

pub(super) async fn begin_receive(
    datasets: Datasets,
    name: String,
    spec: BeginReceive,
) -> Result<Volume> {
    let datasets = datasets.expecting(spec.expects.map(wanted_move));
    let spec = ReceiveSpec {
        name,
        identity: identity(&spec.identity)?,
        from: spec.from.as_deref().map(identity).transpose()?,
        size_bytes: spec.size_bytes,
        block_size_bytes: spec.block_size_bytes,
    };
    let begun = datasets.begin_receive(spec).await;
    begun.map(|info| volume(&datasets, info)).map_err(refused)
}

pub(super) async fn end_receive(
    datasets: Datasets,
    name: String,
    spec: EndReceive,
) -> Result<Snapshot> {
    let datasets = datasets.expecting(spec.expects.map(wanted_move));
    let received = datasets.end_receive(&name, identity(&spec.identity)?, &spec.snapshot).await;
    received.map(snapshot).map_err(refused)
}

pub(super) async fn move_volume(
    datasets: Datasets,
    name: String,
    step: MoveVolume,
) -> Result<Volume> {
    let last = step.last.as_deref().map(identity).transpose()?;
    let (before, after) = (step.before.map(wanted_move), step.after.map(wanted_move));
    let moved = match (before, after, last, step.id) {
        (Some(before), None, Some(last), _) => datasets.arrive(&name, before, last).await,
        (None, Some(after), Some(newest), Some(id)) => {
            datasets.fence(&name, after, FencedView { id, newest }).await
        }
        (before, after, None, None) => datasets.move_volume(&name, before, after).await,
        _ => return Err(Error::Backend {
            kind: ErrorKind::Invalid,
            message:
                "a step has `last` and `id` where a volume is fenced, and `last` where it arrives"
                    .to_owned(),
            hint: None,
        }),
    };
    moved.map(|info| volume(&datasets, info)).map_err(refused)
}

fn identity(text: &str) -> Result<SnapshotIdentity> {
    text.parse().map_err(|message| Error::Backend {
        kind: ErrorKind::Invalid,
        message,
        hint: Some("GET /v1/snapshots shows the identity of each".to_owned()),
    })
}

fn snapshot(info: SnapshotInfo) -> Snapshot {
    Snapshot {
        name: info.name,
        volume: info.volume,
        id: info.id,
        identity: info.identity.to_string(),
        size_bytes: info.size_bytes,
        block_size_bytes: info.block_size_bytes,
        created_unix_ms: info.created_unix_ms,
        protected: info.protected,
    }
}
