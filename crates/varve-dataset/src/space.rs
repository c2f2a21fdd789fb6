//! What is stored, and for whom: blocks of data by volume against the chunks that hold them. The admin API's `GET /v1/space` calls it.
//!
//! P1. Volumes are counted one after another and the shards' amounts are taken last, so on a pool that is written to the numbers are of
//!     moments close to each other, not of one.

use futures_util::stream::{self, StreamExt, TryStreamExt};
use varve_dispatch::{BLOCK_BYTES, Dispatch};

use crate::catalog::list;
use crate::name::DatasetName;
use crate::record::{VolumeInfo, VolumeRecord};
use crate::{Datasets, Result};

/// Volumes whose maps are walked at the same time: hides reads of absent pages and leaves shards to their clients.
const VOLUMES_AT_ONCE: usize = 8;

const _: () = assert!(VOLUMES_AT_ONCE > 0);

/// What a volume holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeSpace {
    /// The volume.
    pub volume: VolumeInfo,
    /// Its blocks that hold data, in bytes; holes are not counted.
    pub logical_bytes: u64,
}

/// What is stored over all volumes and shards.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Space {
    /// Every volume, in the order of their names.
    pub volumes: Vec<VolumeSpace>,
    /// Sum over the volumes.
    pub logical_bytes: u64,
    /// Chunks of data as long as blocks, those that wait for a mark pass included, in bytes.
    pub unique_bytes: u64,
    /// What these chunks take with their summary entries, in bytes.
    pub stored_bytes: u64,
    /// All other live bytes: pages, keys and what belongs to them.
    pub metadata_bytes: u64,
}

impl Space {
    /// All live bytes, as `used` of the pool counts them.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.stored_bytes + self.metadata_bytes
    }
}

impl Datasets {
    /// What is stored, by volume and in sum. Costs a walk over every map; what was just acknowledged may be missing (P1).
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read, `Unavailable` when a shard does not serve.
    pub async fn space(&self) -> Result<Space> {
        let counts = list(&self.dispatch)
            .await?
            .into_iter()
            .map(|(name, record)| count(self.dispatch.clone(), name, record));
        let volumes: Vec<VolumeSpace> =
            stream::iter(counts).buffered(VOLUMES_AT_ONCE).try_collect().await?;
        let logical_bytes = volumes.iter().map(|volume| volume.logical_bytes).sum();
        let mut space = Space { volumes, logical_bytes, ..Space::default() };
        for shard in self.dispatch.stats().await? {
            space.unique_bytes += shard.data_chunks * BLOCK_BYTES as u64;
            space.stored_bytes += shard.data_bytes;
            space.metadata_bytes += shard.space.live_bytes.saturating_sub(shard.data_bytes);
        }
        Ok(space)
    }
}

async fn count(dispatch: Dispatch, name: DatasetName, record: VolumeRecord) -> Result<VolumeSpace> {
    let blocks = dispatch.count_blocks(record.route.stream).await?;
    Ok(VolumeSpace { volume: record.info(&name), logical_bytes: blocks * BLOCK_BYTES as u64 })
}
