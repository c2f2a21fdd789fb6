//! Volumes as the admin API sees them.

use varve_access_admin as admin;
use varve_access_admin::v1::{ChangeVolume, CreateVolume, DeleteVolume, Reservation, Volume};
use varve_dataset::{Datasets, Error, MoveState, VolumeInfo, VolumeSpec};
use varve_types::ErrorKind;
use varve_types::limits::BLOCK_SIZE_DEFAULT;

use crate::moves::{shown_move, wanted_move};

pub(super) async fn list(datasets: &Datasets) -> admin::Result<Vec<Volume>> {
    let volumes = datasets.volumes().await.map_err(refused)?;
    let mut volumes: Vec<Volume> = volumes.into_iter().map(|info| volume(datasets, info)).collect();
    note_outstanding(datasets, &mut volumes).await?;
    Ok(volumes)
}

pub(super) async fn show(datasets: &Datasets, name: &str) -> admin::Result<Volume> {
    with_outstanding(datasets, datasets.volume(name).await).await
}

/// A volume with what is kept free for it.
async fn with_outstanding(
    datasets: &Datasets,
    info: varve_dataset::Result<VolumeInfo>,
) -> admin::Result<Volume> {
    let mut volume = volume(datasets, info.map_err(refused)?);
    note_outstanding(datasets, std::slice::from_mut(&mut volume)).await?;
    Ok(volume)
}

async fn note_outstanding(datasets: &Datasets, volumes: &mut [Volume]) -> admin::Result<()> {
    if volumes.iter().all(|volume| volume.reserved_bytes.is_none()) {
        return Ok(());
    }
    let reservations = datasets.reservations().await.map_err(refused)?;
    for volume in volumes.iter_mut().filter(|volume| volume.reserved_bytes.is_some()) {
        let reservation = reservations.get(&volume.id);
        volume.outstanding_bytes = reservation.map(|reservation| reservation.outstanding_bytes);
    }
    Ok(())
}

pub(super) async fn create(datasets: &Datasets, spec: CreateVolume) -> admin::Result<Volume> {
    let spec = VolumeSpec {
        name: spec.name,
        size_bytes: spec.size_bytes,
        block_size_bytes: spec.block_size_bytes.unwrap_or(BLOCK_SIZE_DEFAULT),
        dedup: spec.dedup,
        compression: spec.compression,
        quota_bytes: spec.quota_bytes.filter(|quota| *quota > 0),
        reserved: spec.reservation == Some(Reservation::Full),
        exclusive: spec.exclusive.unwrap_or(false),
        receiving: None,
        moves: None,
    };
    with_outstanding(datasets, datasets.create_volume(spec).await).await
}

/// Changes the size first: it alone may be refused for what it is.
pub(super) async fn change(
    datasets: &Datasets,
    name: &str,
    change: &ChangeVolume,
) -> admin::Result<Volume> {
    let ChangeVolume {
        size_bytes,
        dedup,
        compression,
        quota_bytes,
        reservation,
        exclusive,
        forget_origin,
        ..
    } = *change;
    let datasets = &datasets.expecting(change.expects.clone().map(wanted_move));
    let mut changed = None;
    if let Some(size_bytes) = size_bytes {
        changed = Some(datasets.resize_volume(name, size_bytes).await.map_err(refused)?);
    }
    if dedup.is_some() || compression.is_some() {
        let set = datasets.set_reduction(name, dedup, compression).await;
        changed = Some(set.map_err(refused)?);
    }
    if let Some(quota_bytes) = quota_bytes {
        let quota_bytes = Some(quota_bytes).filter(|quota| *quota > 0);
        changed = Some(datasets.set_quota(name, quota_bytes).await.map_err(refused)?);
    }
    if let Some(reservation) = reservation {
        let reserved = reservation == Reservation::Full;
        changed = Some(datasets.set_reservation(name, reserved).await.map_err(refused)?);
    }
    if let Some(exclusive) = exclusive {
        changed = Some(datasets.set_exclusive(name, exclusive).await.map_err(refused)?);
    }
    if forget_origin {
        changed = Some(datasets.flatten_volume(name).await.map_err(refused)?);
    }
    match changed {
        Some(info) => with_outstanding(datasets, Ok(info)).await,
        None => show(datasets, name).await,
    }
}

pub(super) async fn delete(
    datasets: &Datasets,
    name: &str,
    how: DeleteVolume,
) -> admin::Result<()> {
    let datasets = datasets.expecting(how.expects.map(wanted_move));
    datasets.delete_volume(name, how.snapshots).await.map_err(refused)
}

pub(crate) fn volume(datasets: &Datasets, info: VolumeInfo) -> Volume {
    let openers = u64::try_from(datasets.openers(&info)).unwrap_or(u64::MAX);
    Volume {
        id: info.id,
        name: info.name,
        namespace: info.namespace,
        cell: None,
        size_bytes: info.size_bytes,
        block_size_bytes: info.block_size_bytes,
        created_unix_ms: info.created_unix_ms,
        openers,
        dedup: info.dedup,
        compression: info.compression,
        quota_bytes: info.quota_bytes,
        reserved_bytes: info.reserved_bytes,
        exclusive: info.exclusive,
        outstanding_bytes: None,
        origin: info.origin,
        receiving: info.receiving.map(|identity| identity.to_string()),
        moves: info.moves.map(shown_move),
    }
}

/// The error with what its caller can do.
pub(crate) fn refused(error: Error) -> admin::Error {
    let kind = error.kind();
    let hint = match (&error, kind) {
        (Error::NotFound { .. }, _) => Some("`varve volume list` shows the names in use"),
        (Error::Exists { .. }, _) => {
            Some("choose another name, or `varve volume resize` the one there is")
        }
        (Error::NoSnapshot { .. }, _) => {
            Some("`varve volume snapshot list VOLUME` shows those there are")
        }
        (Error::SnapshotExists { .. }, _) => {
            Some("choose another name, or delete the one there is")
        }
        (Error::Unsettled { .. }, _) => Some(
            "`varve status` and `varve check --online` say which shard is damaged; volumes that are there can be read and written where their data are not",
        ),
        (Error::InUse { .. }, _) => Some("disconnect its clients first"),
        (Error::Protected { .. }, _) => {
            Some("`varve volume snapshot unprotect` lets it be deleted")
        }
        (Error::HasSnapshots { .. }, _) => {
            Some("delete them first, or with it: `varve volume delete --snapshots`")
        }
        (Error::ReadOnly { .. } | Error::Unrelated { .. }, _) => {
            Some("`varve volume clone` creates a volume from a snapshot")
        }
        (Error::NoBase { .. }, _) => {
            Some("import the snapshot that the changes count from first, or a full export")
        }
        (Error::ChangedSince { .. }, _) => Some(
            "`varve volume snapshot rollback` to that snapshot undoes the changes; then import again",
        ),
        (Error::Receiving { .. } | Error::NotReceiving { .. }, _) => Some(
            "finish that import, or roll the volume back to a snapshot, or delete it; `varve volume show` says what it receives",
        ),
        (Error::MovesOtherwise { moves: Some(moves), .. }, _)
            if moves.state == MoveState::Arrived =>
        {
            Some("its source has it still: finish the migration with `varve pool migrate`")
        }
        (
            Error::Moves { .. }
            | Error::Moving { .. }
            | Error::MovesOtherwise { .. }
            | Error::NotNewest { .. },
            _,
        ) => Some(
            "`varve pool migrate` finishes what it began when it is run again, and `varve pool migrate --cancel` gives it up",
        ),
        (Error::StillChanging { .. }, _) => {
            Some("`varve status` shows what the shards wait for; writes go on")
        }
        (Error::BadGroup { .. }, _) => Some("name each volume once, at most 1024 of them"),
        (Error::BadName { .. }, _) => {
            Some("a name has up to 247 bytes, or NAMESPACE/NAME has up to 255; `a-z A-Z 0-9 - _ .`")
        }
        (Error::OverQuota { .. }, _) => {
            Some("raise it with `varve volume set --quota`, or trim the volume")
        }
        (_, ErrorKind::Unavailable) => {
            Some("`varve status` shows what the shard waits for; then try again")
        }
        (_, ErrorKind::NoSpace) => Some(
            "delete or trim a volume, which works on a full pool too; where `varve status` calls the media full, make room on the file system of \
             the drive",
        ),
        _ => None,
    };
    admin::Error::Backend { kind, message: error.to_string(), hint: hint.map(str::to_owned) }
}
