//! What volumes, snapshots and buckets hold, as the admin API tells it.

use varve_access_admin::v1;
use varve_dataset::{BucketSpace, SnapshotSpace, VolumeSpace};

/// A volume.
pub(super) fn of_volume(space: &VolumeSpace) -> v1::VolumeSpace {
    v1::VolumeSpace {
        name: space.volume.name.clone(),
        namespace: space.volume.namespace.clone(),
        size_bytes: space.volume.size_bytes,
        logical_bytes: space.held.logical_bytes,
        referenced_bytes: space.held.referenced_bytes,
        unique_bytes: space.held.unique_bytes,
        freed_bytes: space.held.freed_bytes,
        snapshots: space.snapshots.len() as u64,
        snapshots_freed_bytes: space.snapshots_freed_bytes,
        whole_freed_bytes: space.whole_freed_bytes,
        reserved_bytes: space.volume.reserved_bytes,
        outstanding_bytes: space.volume.reserved_bytes.map(|_| space.reservation.outstanding_bytes),
    }
}

/// A bucket.
pub(super) fn of_bucket(space: &BucketSpace) -> v1::BucketSpace {
    v1::BucketSpace {
        name: space.name.clone(),
        logical_bytes: space.held.logical_bytes,
        distinct_bytes: space.distinct_bytes,
        referenced_bytes: space.held.referenced_bytes,
        freed_bytes: space.held.freed_bytes,
    }
}

/// A volume and each of its snapshots.
pub(super) fn of_family(space: &VolumeSpace) -> v1::VolumeFamily {
    let snapshots = space.snapshots.iter().map(of_snapshot).collect();
    v1::VolumeFamily { volume: of_volume(space), snapshots }
}

fn of_snapshot(space: &SnapshotSpace) -> v1::SnapshotSpace {
    v1::SnapshotSpace {
        name: space.snapshot.name.clone(),
        size_bytes: space.snapshot.size_bytes,
        logical_bytes: space.held.logical_bytes,
        referenced_bytes: space.held.referenced_bytes,
        unique_bytes: space.held.unique_bytes,
        freed_bytes: space.held.freed_bytes,
    }
}
