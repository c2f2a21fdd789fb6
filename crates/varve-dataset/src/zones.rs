//! Moves zones of segments between shards: soon when writes wait for one, and now and then from shards that rest.

use crate::Datasets;

/// Pause between looks at whether writes wait for zones, in ns. A look costs no message.
const LOOK_PAUSE_NS: u64 = 50_000_000;

/// So many looks after the last round there is one in any case: shards that rest give back what they have beyond their
/// share.
const LOOKS_PER_ROUND: u32 = 40;

/// The same while the pool gets zones back, as it is to have fewer.
const LOOKS_PER_RETURN: u32 = 10;

impl Datasets {
    /// Moves zones for as long as the pool is open. The thread that owns the pool's root does this.
    pub async fn keep_zones(&self) {
        let reactor = self.dispatch.reactor().clone();
        if self.dispatch.placement().shards().count() < 2 {
            if !self.dispatch.pool_may_shrink() {
                return; // Nobody else wants any.
            }
            while !self.dispatch.pool_shrinks() {
                reactor.sleep(LOOK_PAUSE_NS).await;
            }
        }
        let mut looks = LOOKS_PER_ROUND; // The first round tells the shards that somebody goes round.
        let mut looks_max = LOOKS_PER_ROUND;
        loop {
            if self.dispatch.zones_are_wanted() || looks >= looks_max {
                looks = 0;
                looks_max = LOOKS_PER_ROUND;
                // When the pool ends, this task ends with its thread.
                if let Ok(zones) = self.dispatch.move_zones().await
                    && zones > 0
                {
                    tracing::info!(zones, "zones went back to the pool");
                    if self.dispatch.pool_shrinks() {
                        looks_max = LOOKS_PER_RETURN;
                    }
                }
            }
            reactor.sleep(LOOK_PAUSE_NS).await;
            looks += 1;
        }
    }
}

#[cfg(test)]
mod tests;
