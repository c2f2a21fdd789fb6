//! The lane of a shard on a drive of one machine, tied to the claims of the shard.
//!
//! The shard's root in RADOS names the claim that has the shard or had it last. The drive names two: the last one that
//! it knew of when a claim was begun with it, and that claim.
//!
//! LOCAL-LANE-1. A claim is on the drive before it is in RADOS: whatever was cut off, the drive names the claim that
//!     RADOS names. A drive that the last claim was not made with does not, such as an older copy or a new one: its
//!     lane lacks what was acknowledged since, and it is refused.
//! LOCAL-LANE-2. Of claims that copies of one drive make at once, one gets into RADOS; the other copies are refused
//!     from then on.

use std::rc::Rc;

use varve_media::{Error, JournalStore, Result, RootKey, RootStore, RootVersion};
use varve_types::ShardId;

const CLAIM_BYTES: usize = size_of::<u128>();

/// The lane of a shard on a drive, and the drive's own root of that shard.
#[derive(Clone)]
pub struct LocalLane {
    /// The lane.
    pub journal: Rc<dyn JournalStore>,
    /// Roots of the drive, not of the pool.
    pub roots: Rc<dyn RootStore>,
    /// Identity of the claim that is made with it: random, never used before, not 0.
    pub claim: u128,
}

impl LocalLane {
    /// Writes to the drive that its claim follows `last`, which RADOS names; 0 is no claim ever. Durable on return
    /// (LOCAL-LANE-1, LOCAL-LANE-2).
    pub(crate) async fn announce(&self, shard: ShardId, last: u128) -> Result<()> {
        let key = RootKey::Shard(shard);
        let (version, bytes) = self.roots.read(key).await?;
        let refused = |reason: &str| Error::Open {
            path: format!("the journal of shard {shard}"),
            reason: reason.to_owned(),
        };
        let known = if version == RootVersion::default() {
            [0, 0]
        } else {
            decode(&bytes).ok_or_else(|| refused("its drive keeps something else"))?
        };
        if !known.contains(&last) {
            return Err(refused(
                "this drive was not there when the shard was last served, so it lacks what was acknowledged then: give the drive that was",
            ));
        }
        let bytes = [last, self.claim].map(u128::to_le_bytes).concat();
        self.roots.replace(key, version, bytes).await.map(drop)
    }
}

fn decode(bytes: &[u8]) -> Option<[u128; 2]> {
    let (last, claim) = bytes.split_at_checked(CLAIM_BYTES)?;
    let number = |bytes: &[u8]| Some(u128::from_le_bytes(bytes.try_into().ok()?));
    Some([number(last)?, number(claim)?])
}
