//! A census over all shards: what streams, and families of them, hold and alone name.

use std::sync::Arc;

use futures_util::future::try_join_all;
use varve_engine::Census;
use varve_types::StreamId;

use crate::{Dispatch, Result};

impl Dispatch {
    /// Counts what the streams of families hold, over all shards, which count at the same time. Costs two walks over all their maps; what
    /// was just acknowledged may be missing.
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read, `Unavailable` when a shard does not serve.
    pub async fn census(&self, families: Vec<Vec<StreamId>>) -> Result<Census> {
        let families = Arc::new(families);
        let counts = self.placement().shards().map(|shard| {
            let families = Arc::clone(&families);
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.census(&families).await })
            })
        });
        let mut sum = Census::default();
        for census in try_join_all(counts).await? {
            sum.add(census);
        }
        Ok(sum)
    }
}
