//! Volumes as the admin API sees them.

use varve_access_admin as admin;
use varve_access_admin::v1::{ChangeVolume, CreateVolume, Volume};
use varve_dataset::{Datasets, Error, VolumeInfo, VolumeSpec};
use varve_types::ErrorKind;
use varve_types::limits::BLOCK_SIZE_DEFAULT;

pub(super) async fn list(datasets: &Datasets) -> admin::Result<Vec<Volume>> {
    let volumes = datasets.volumes().await.map_err(refused)?;
    Ok(volumes.into_iter().map(|info| volume(datasets, info)).collect())
}

pub(super) async fn show(datasets: &Datasets, name: &str) -> admin::Result<Volume> {
    datasets.volume(name).await.map(|info| volume(datasets, info)).map_err(refused)
}

pub(super) async fn create(datasets: &Datasets, spec: CreateVolume) -> admin::Result<Volume> {
    let spec = VolumeSpec {
        name: spec.name,
        size_bytes: spec.size_bytes,
        block_size_bytes: spec.block_size_bytes.unwrap_or(BLOCK_SIZE_DEFAULT),
        dedup: spec.dedup,
        compression: spec.compression,
        receiving: None,
    };
    datasets.create_volume(spec).await.map(|info| volume(datasets, info)).map_err(refused)
}

/// Changes the size first: it alone may be refused for what it is.
pub(super) async fn change(
    datasets: &Datasets,
    name: &str,
    change: &ChangeVolume,
) -> admin::Result<Volume> {
    let ChangeVolume { size_bytes, allow_shrink: _, dedup, compression } = *change;
    let mut changed = None;
    if let Some(size_bytes) = size_bytes {
        changed = Some(datasets.resize_volume(name, size_bytes).await.map_err(refused)?);
    }
    if dedup.is_some() || compression.is_some() {
        let set = datasets.set_reduction(name, dedup, compression).await;
        changed = Some(set.map_err(refused)?);
    }
    match changed {
        Some(info) => Ok(volume(datasets, info)),
        None => show(datasets, name).await,
    }
}

pub(super) async fn delete(datasets: &Datasets, name: &str) -> admin::Result<()> {
    datasets.delete_volume(name, false).await.map_err(refused)
}

fn volume(datasets: &Datasets, info: VolumeInfo) -> Volume {
    let openers = u64::try_from(datasets.openers(&info)).unwrap_or(u64::MAX);
    Volume {
        id: info.id,
        name: info.name,
        namespace: info.namespace,
        size_bytes: info.size_bytes,
        block_size_bytes: info.block_size_bytes,
        created_unix_ms: info.created_unix_ms,
        openers,
        dedup: info.dedup,
        compression: info.compression,
    }
}

/// The error with what its caller can do.
pub(super) fn refused(error: Error) -> admin::Error {
    let kind = error.kind();
    let hint = match (&error, kind) {
        (Error::NotFound { .. }, _) => Some("`varve volume list` shows the names in use"),
        (Error::Exists { .. }, _) => {
            Some("choose another name, or `varve volume resize` the one there is")
        }
        (Error::InUse { .. }, _) => Some("disconnect its clients first"),
        (Error::BadName { .. }, _) => {
            Some("letters, digits, `-`, `_` and `.`, beginning with a letter or digit")
        }
        (_, ErrorKind::Unavailable) => {
            Some("`varve status` shows what the shard waits for; then try again")
        }
        (_, ErrorKind::NoSpace) => Some("delete or trim a volume: that works on a full pool too"),
        _ => None,
    };
    admin::Error::Backend { kind, message: error.to_string(), hint: hint.map(str::to_owned) }
}
