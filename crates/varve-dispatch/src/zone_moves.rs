//! Rounds in which shards with zones to spare give some to those whose writes wait for one. The invariants stand in the
//! engine's `zone_moves.rs`.

use futures_util::future::{join_all, try_join_all};
use varve_engine::{ZoneState, plan_zone_moves};
use varve_types::ShardId;

use crate::{Dispatch, Result};

impl Dispatch {
    /// Whether a shard's writes waited for a zone since the last call. Always false but on the thread that owns the
    /// pool's root.
    #[must_use]
    pub fn zones_are_wanted(&self) -> bool {
        self.pool().is_some_and(|pool| pool.zone_counts().take_wanted())
    }

    /// Whether the pool is one that may have to get zones back. Always false but on the thread that owns its root.
    #[must_use]
    pub fn pool_may_shrink(&self) -> bool {
        self.pool().is_some_and(|pool| pool.can_shrink())
    }

    /// Whether shards have zones that the pool is to have no more. Always false but on the thread that owns its root.
    #[must_use]
    pub fn pool_shrinks(&self) -> bool {
        self.pool().is_some_and(|pool| pool.zone_counts().excess_zones() > 0)
    }

    /// Goes round the shards that serve once: those with zones to spare give what others wait for, what the pool is to
    /// have no more, and what they have beyond their share while they rest. Returns how many zones went back to the
    /// pool, durably.
    ///
    /// # Errors
    /// `Unavailable` when a thread is gone. A shard that does not serve, or fails meanwhile, gives and gets nothing.
    pub async fn move_zones(&self) -> Result<u64> {
        let states = self.placement().shards().map(|shard| self.begin_zone_round(shard));
        let states: Vec<ZoneState> = try_join_all(states).await?;
        let excess = self.pool().map_or(0, |pool| pool.zone_counts().excess_zones());
        let mut gives = plan_zone_moves(&states, excess);
        for (give, state) in gives.iter_mut().zip(&states) {
            *give = (*give).max(state.idle_zones);
        }
        let given = self.placement().shards().zip(gives).filter(|(_, zones)| *zones > 0);
        let given = given.map(|(shard, zones)| self.give_zones(shard, zones));
        let given = join_all(given).await.into_iter().sum();
        let may_mark = states.iter().any(|state| state.may_mark);
        let ends = self.placement().shards().map(|shard| self.end_zone_round(shard, may_mark));
        try_join_all(ends).await?;
        Ok(given)
    }

    async fn begin_zone_round(&self, shard: ShardId) -> Result<ZoneState> {
        self.at(shard, move |dispatch| {
            let serving = dispatch.host(shard).and_then(|host| host.now());
            let state = serving.map_or_else(ZoneState::default, |shard| shard.begin_zone_round());
            Box::pin(async move { state })
        })
        .await
    }

    async fn give_zones(&self, shard: ShardId, zones: u64) -> u64 {
        let gives = self
            .on_shard(shard, move |shard| Box::pin(async move { shard.give_zones(zones).await }));
        gives.await.unwrap_or_else(|error| {
            tracing::warn!(shard = shard.0, %error, "could not give zones to other shards");
            0
        })
    }

    async fn end_zone_round(&self, shard: ShardId, may_mark: bool) -> Result<()> {
        self.at(shard, move |dispatch| {
            if let Some(shard) = dispatch.host(shard).and_then(|host| host.now()) {
                shard.end_zone_round(may_mark);
            }
            Box::pin(async {})
        })
        .await
    }
}
