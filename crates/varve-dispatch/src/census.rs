//! Looks at all shards at once: what streams, and families of them, hold and alone name; and whether what they name is
//! there.

use std::sync::Arc;

use futures_util::future::try_join_all;
use varve_engine::{CheckProgress, ForeignNames, References, SpaceUsage};
use varve_types::StreamId;

use crate::{Dispatch, Result};

impl Dispatch {
    /// Counts what the streams of families hold, over all shards, which count at the same time. Costs two walks over
    /// all their maps; what was just acknowledged may be missing.
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read, `Unavailable` when a shard does not serve.
    pub async fn census(&self, families: Vec<Vec<StreamId>>) -> Result<SpaceUsage> {
        let families = Arc::new(families);
        let names = self.placement().shards().map(|shard| {
            let families = Arc::clone(&families);
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.foreign_names(&families).await })
            })
        });
        let mut named = ForeignNames::default();
        try_join_all(names).await?.iter().for_each(|names| named.merge(names));
        let named = Arc::new(named);
        let counts = self.placement().shards().map(|shard| {
            let (families, named) = (Arc::clone(&families), Arc::clone(&named));
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.census(&families, &named).await })
            })
        });
        let mut sum = SpaceUsage::default();
        for census in try_join_all(counts).await? {
            sum.add(census);
        }
        Ok(sum)
    }

    /// Follows what the maps of streams and the key trees name, on all shards at the same time; what each found.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn check_references(
        &self,
        streams: Vec<StreamId>,
        progress: &Arc<CheckProgress>,
    ) -> Result<Vec<References>> {
        let streams = Arc::new(streams);
        let checks = self.placement().shards().map(|shard| {
            let (streams, progress) = (Arc::clone(&streams), Arc::clone(progress));
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.check_references(&streams, &progress).await })
            })
        });
        try_join_all(checks).await
    }
}
