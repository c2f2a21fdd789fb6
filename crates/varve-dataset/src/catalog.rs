//! Volume records as keys: `v` + namespace + `/` + name, on the shard that is the name's home.
//!
//! C1. Changes of names with the same home run one after another, on the home's thread.

use varve_dispatch::{Dispatch, Placement, Route};
use varve_types::ShardId;

use crate::Result;
use crate::name::DatasetName;
use crate::record::{VolumeInfo, VolumeRecord};

/// First byte of keys of volume records.
const VOLUME_PREFIX: &[u8] = b"v";

/// Records fetched at once from a shard.
const SCAN_MAX: usize = 1000;

/// A volume's record as it stands in the key tree of its home: for who looks at a shard from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CatalogueEntry {
    /// The volume.
    pub volume: VolumeInfo,
    /// Its stream, and where its bytes are.
    pub route: Route,
    full_name: String,
}

impl CatalogueEntry {
    /// Decodes a key and its value; `None` when the key is no volume's.
    ///
    /// # Errors
    /// [`Error::BadName`](crate::Error::BadName), [`Error::BadRecord`](crate::Error::BadRecord).
    #[must_use]
    pub fn decode(key: &[u8], value: &[u8]) -> Option<Result<Self>> {
        let full = key.strip_prefix(VOLUME_PREFIX)?;
        let full = String::from_utf8_lossy(full).into_owned();
        let decode = || {
            let name = DatasetName::parse(&full)?;
            let record = VolumeRecord::decode(&full, value)?;
            Ok(Self { volume: record.info(&name), route: record.route, full_name: name.full() })
        };
        Some(decode())
    }

    /// The shard that keeps the record.
    #[must_use]
    pub fn home(&self, placement: &Placement) -> ShardId {
        placement.home_of(self.full_name.as_bytes())
    }
}

pub(crate) fn volume_key(name: &DatasetName) -> Vec<u8> {
    [VOLUME_PREFIX, name.full().as_bytes()].concat()
}

pub(crate) fn home_of(dispatch: &Dispatch, name: &DatasetName) -> ShardId {
    dispatch.placement().home_of(name.full().as_bytes())
}

/// The record of a volume, if there is one.
pub(crate) async fn find(dispatch: &Dispatch, name: &DatasetName) -> Result<Option<VolumeRecord>> {
    let home = home_of(dispatch, name);
    match dispatch.key_get(home, volume_key(name)).await? {
        None => Ok(None),
        Some(bytes) => VolumeRecord::decode(&name.full(), &bytes).map(Some),
    }
}

/// Every volume, in the order of their names.
pub(crate) async fn list(dispatch: &Dispatch) -> Result<Vec<(DatasetName, VolumeRecord)>> {
    let mut volumes = Vec::new();
    for shard in dispatch.placement().shards() {
        let mut after = None;
        loop {
            let found =
                dispatch.key_scan(shard, VOLUME_PREFIX.to_vec(), after.clone(), SCAN_MAX).await?;
            let more = found.len() == SCAN_MAX;
            after = found.last().map(|(key, _)| key.clone());
            for (key, value) in found {
                let full = String::from_utf8_lossy(&key[VOLUME_PREFIX.len()..]).into_owned();
                let record = VolumeRecord::decode(&full, &value)?;
                volumes.push((DatasetName::parse(&full)?, record));
            }
            if !more {
                break;
            }
        }
    }
    volumes.sort_by_key(|(name, _)| name.full());
    Ok(volumes)
}
