//! The root of a pool that becomes redundant: what its upgrade needs to know of it, and what it becomes.

use varve_logstore::format::Features;
use varve_logstore::format::pool::{PoolRoot, ZoneOwner};

use crate::{Error, Result};

/// A pool's root before and after its upgrade.
#[derive(Clone, Debug)]
pub struct UpgradedRoot {
    root: PoolRoot,
}

impl UpgradedRoot {
    /// The root with these bytes.
    ///
    /// # Errors
    /// `Corrupt` when they are none.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(Self { root: PoolRoot::decode(bytes)? })
    }

    /// Segments of a zone.
    #[must_use]
    pub fn zone_segments(&self) -> u32 {
        self.root.zone_segments
    }

    /// Whether a shard has it, of each zone.
    #[must_use]
    pub fn leased(&self) -> Vec<bool> {
        self.root.zone_owners.iter().map(|owner| owner.shard().is_some()).collect()
    }

    /// The root as it is stored then: zones may be withdrawn (POOL-6), and these are.
    ///
    /// # Errors
    /// `BadPoolRoot` when somebody has one of them.
    pub fn encode(mut self, withdrawn: &[u32]) -> Result<Vec<u8>> {
        self.root.features.incompat |= Features::WITHDRAWN_ZONES;
        for zone in withdrawn {
            match self.root.zone_owners.get_mut(*zone as usize) {
                Some(owner @ (ZoneOwner::Free | ZoneOwner::Withdrawn)) => {
                    *owner = ZoneOwner::Withdrawn;
                }
                Some(ZoneOwner::Shard(_)) | None => {
                    let reason = format!("zone {zone} is not free");
                    return Err(Error::BadPoolRoot { reason });
                }
            }
        }
        while self.root.zone_owners.last() == Some(&ZoneOwner::Withdrawn) {
            self.root.zone_owners.pop();
        }
        Ok(self.root.encode())
    }
}

#[cfg(test)]
mod tests {
    use varve_types::{PoolId, ShardId, StreamId};

    use super::*;

    #[test]
    fn zones_that_somebody_has_are_not_withdrawn() {
        let shard = ZoneOwner::Shard(ShardId(0));
        let root = PoolRoot {
            features: Features::default(),
            pool: PoolId([1; 16]),
            created_unix_ms: 7,
            segment_bytes: 1 << 20,
            zone_segments: 8,
            next_stream: StreamId::new(5),
            placements: vec![1],
            zone_owners: vec![shard, ZoneOwner::Free, shard, ZoneOwner::Free, ZoneOwner::Free],
        };
        let before = UpgradedRoot::decode(&root.encode()).unwrap();
        assert_eq!(before.leased(), [true, false, true, false, false]);
        assert!(before.clone().encode(&[2]).is_err() && before.clone().encode(&[9]).is_err());
        let after = PoolRoot::decode(&before.encode(&[1, 4]).unwrap()).unwrap();
        let owners = [shard, ZoneOwner::Withdrawn, shard, ZoneOwner::Free];
        assert_eq!(after.zone_owners, owners, "what is withdrawn at the end is not stored");
        assert!(after.has_withdrawn_zones());
    }
}
