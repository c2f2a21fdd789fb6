//! Volumes as the admin API sees them.

use varve_access_admin as admin;
use varve_access_admin::v1::{CreateVolume, Volume};
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
    };
    datasets.create_volume(spec).await.map(|info| volume(datasets, info)).map_err(refused)
}

pub(super) async fn resize(
    datasets: &Datasets,
    name: &str,
    size_bytes: u64,
) -> admin::Result<Volume> {
    let resized = datasets.resize_volume(name, size_bytes).await;
    resized.map(|info| volume(datasets, info)).map_err(refused)
}

pub(super) async fn delete(datasets: &Datasets, name: &str) -> admin::Result<()> {
    datasets.delete_volume(name).await.map_err(refused)
}

fn volume(datasets: &Datasets, info: VolumeInfo) -> Volume {
    let openers = u64::try_from(datasets.openers(&info)).unwrap_or(u64::MAX);
    let VolumeInfo { name, namespace, id, size_bytes, block_size_bytes, created_unix_ms } = info;
    Volume { id, name, namespace, size_bytes, block_size_bytes, created_unix_ms, openers }
}

/// The error with what its caller can do.
fn refused(error: Error) -> admin::Error {
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
