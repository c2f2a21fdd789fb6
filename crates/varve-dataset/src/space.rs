//! What is stored, and for whom: what each volume and snapshot holds and alone names, against the chunks that hold it.
//! The admin API's `GET /v1/space` calls it.
//!
//! DATASET-SPACE-1. Volumes are counted one after another and the shards' amounts are taken last, so on a pool that is
//!     written to the numbers are of moments close to each other, not of one.

use std::collections::BTreeMap;

use varve_dispatch::{BLOCK_BYTES, FamilyUsage, StreamReservation, StreamUsage};

use crate::bucket::bucket_owners;
use crate::catalog::{SCAN_MAX, list, list_snapshots};
use crate::name::{DatasetName, SnapshotName};
use crate::record::{VolumeInfo, VolumeRecord};
use crate::snapshot_record::{SnapshotInfo, SnapshotRecord};
use crate::{Datasets, Result};

/// What a volume or a snapshot holds, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldSpace {
    /// Its blocks that hold data; holes are not counted.
    pub logical_bytes: u64,
    /// What the chunks that these name take in segments, once for every block.
    pub referenced_bytes: u64,
    /// Chunks that no other volume or snapshot names, as long as blocks.
    pub unique_bytes: u64,
    /// What comes back when it alone goes: stored bytes of these chunks, and of pages that it alone has.
    pub freed_bytes: u64,
}

/// What a snapshot holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotSpace {
    /// The snapshot.
    pub snapshot: SnapshotInfo,
    /// What it holds.
    pub held: HeldSpace,
}

/// What a volume holds, and its snapshots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpace {
    /// The volume.
    pub volume: VolumeInfo,
    /// What it holds.
    pub held: HeldSpace,
    /// What is reserved for it.
    pub reservation: StreamReservation,
    /// Its snapshots, in the order of their names.
    pub snapshots: Vec<SnapshotSpace>,
    /// What comes back when all its snapshots go, in bytes.
    pub snapshots_freed_bytes: u64,
    /// What comes back when it goes with its snapshots, in bytes.
    pub whole_freed_bytes: u64,
}

/// What a bucket holds, its versions and uploads included; in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketSpace {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub held: HeldSpace,
    /// Chunks that hold its blocks, each once, as long as blocks. Blocks that were stored already on another shard
    /// count there.
    pub distinct_bytes: u64,
}

/// What is stored over all volumes and shards.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StoredSpace {
    /// Every volume, in the order of their names.
    pub volumes: Vec<VolumeSpace>,
    /// Every bucket, in the order of their names.
    pub buckets: Vec<BucketSpace>,
    /// Sum over the volumes, and bodies of objects in whole blocks.
    pub logical_bytes: u64,
    /// What the chunks take that volumes, snapshots and buckets name, each once, in bytes.
    pub referenced_bytes: u64,
    /// Chunks of data as long as blocks, those that wait for a mark pass included, in bytes.
    pub unique_bytes: u64,
    /// What these chunks take with their summary entries, in bytes.
    pub stored_bytes: u64,
    /// All other live bytes: pages, keys and what belongs to them.
    pub metadata_bytes: u64,
    /// Space that is reserved for volumes, whether they hold it or not, with what names their blocks, in bytes.
    pub reserved_bytes: u64,
    /// Of it, what they do not hold yet: others may not have it.
    pub outstanding_bytes: u64,
}

impl StoredSpace {
    /// All live bytes, as `used` of the pool counts them.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.stored_bytes + self.metadata_bytes
    }

    /// Stored bytes that nothing names any more; the next mark pass finds them.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.stored_bytes.saturating_sub(self.referenced_bytes)
    }
}

/// A volume and its snapshots.
struct Family {
    name: DatasetName,
    record: VolumeRecord,
    snapshots: Vec<(SnapshotName, SnapshotRecord)>,
}

impl Family {
    fn space(self, census: &FamilyUsage, reservation: StreamReservation) -> VolumeSpace {
        let mut streams = census.streams.iter().map(held);
        let held = streams.next().unwrap_or_default();
        let snapshots = self.snapshots.iter().zip(streams);
        VolumeSpace {
            volume: self.record.info(&self.name),
            held,
            reservation,
            snapshots: snapshots
                .map(|((name, record), held)| SnapshotSpace { snapshot: record.info(name), held })
                .collect(),
            snapshots_freed_bytes: census.behind_first.bytes(),
            whole_freed_bytes: census.whole.bytes(),
        }
    }
}

fn held(census: &StreamUsage) -> HeldSpace {
    HeldSpace {
        logical_bytes: census.blocks * BLOCK_BYTES as u64,
        referenced_bytes: census.referenced_bytes,
        unique_bytes: census.unique.chunks * BLOCK_BYTES as u64,
        freed_bytes: census.unique.bytes(),
    }
}

impl Datasets {
    /// What is stored, by volume and snapshot and in sum. Costs two walks over all maps, whose shared parts are walked
    /// once or twice, and two look-ups for each block that is stored; what was just acknowledged may be missing
    /// (DATASET-SPACE-1).
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read, `Unavailable` when a shard does not serve.
    pub async fn space(&self) -> Result<StoredSpace> {
        let families = self.families().await?;
        let streams = families.iter().map(|family| {
            let snapshots = family.snapshots.iter().map(|(_, record)| record.route.stream);
            std::iter::once(family.record.route.stream).chain(snapshots).collect()
        });
        let buckets = bucket_owners(&self.dispatch).await?;
        let of_buckets = buckets.iter().map(|bucket| vec![bucket.stream]);
        let census = self.dispatch.census(streams.chain(of_buckets).collect()).await?;
        let in_buckets = census.families.iter().skip(families.len()).flat_map(|it| &it.streams);
        let mut buckets: Vec<BucketSpace> = buckets
            .into_iter()
            .zip(in_buckets)
            .map(|(bucket, census)| BucketSpace {
                name: bucket.name,
                held: held(census),
                distinct_bytes: census.chunks * BLOCK_BYTES as u64,
            })
            .collect();
        let in_buckets: u64 = buckets.iter().map(|bucket| bucket.held.logical_bytes).sum();
        buckets.retain(|bucket| !bucket.name.is_empty()); // What belongs to the gateway.
        buckets.sort_by(|a, b| a.name.cmp(&b.name));
        let reservations = self.dispatch.reservations().await?;
        let counted = families.into_iter().zip(&census.families);
        let volumes: Vec<VolumeSpace> = counted
            .map(|(family, census)| {
                let reservation = reservations.get(&family.record.route.stream);
                family.space(census, reservation.copied().unwrap_or_default())
            })
            .collect();
        let logical: u64 = volumes.iter().map(|volume| volume.held.logical_bytes).sum();
        let logical_bytes = logical + in_buckets;
        let referenced_bytes = census.named.data_bytes;
        let mut space = StoredSpace {
            volumes,
            buckets,
            logical_bytes,
            referenced_bytes,
            ..StoredSpace::default()
        };
        for shard in self.dispatch.stats().await? {
            space.unique_bytes += shard.data_chunks * BLOCK_BYTES as u64;
            space.stored_bytes += shard.data_bytes;
            space.reserved_bytes += shard.reserved_bytes;
            space.outstanding_bytes += shard.outstanding_bytes;
            space.metadata_bytes += shard.space.live_bytes.saturating_sub(shard.data_bytes);
        }
        Ok(space)
    }

    /// Every volume with its snapshots, in the order of their names.
    async fn families(&self) -> Result<Vec<Family>> {
        let mut snapshots: BTreeMap<String, Vec<(SnapshotName, SnapshotRecord)>> = BTreeMap::new();
        let mut after: Option<SnapshotName> = None;
        loop {
            let found = list_snapshots(&self.dispatch, None, after.as_ref(), SCAN_MAX).await?;
            let more = found.len() == SCAN_MAX;
            after = found.last().map(|(name, _)| name.clone());
            for (name, record) in found {
                snapshots.entry(name.volume.full()).or_default().push((name, record));
            }
            if !more {
                break;
            }
        }
        let volumes = list(&self.dispatch).await?.into_iter();
        let family = |(name, record): (DatasetName, VolumeRecord)| {
            let snapshots = snapshots.remove(&name.full()).unwrap_or_default();
            Family { name, record, snapshots }
        };
        Ok(volumes.map(family).collect())
    }
}

#[cfg(test)]
mod tests;
