//! Space that all shards of a stream promise to it together: each what its own blocks of the stream take.
//!
//! DISPATCH-RESERVATION-1. A reservation is made on every shard or, when one refuses, on none: the others go back to
//!     what they promised before.

use std::collections::BTreeMap;

use futures_util::future::{join_all, try_join_all};
use varve_engine::{BLOCK_BYTES, Reservation, ReservationSize};
use varve_types::limits::REGION_BYTES;
use varve_types::{ShardId, StreamId};

use crate::placement::{Placement, StreamPlacement};
use crate::route::{Route, all_ended};
use crate::{Dispatch, Result};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Blocks that a leaf of a map names, and children of a page above.
const SLOTS: u64 = 512;

const _: () = assert!(REGION_BYTES.is_multiple_of(SLOTS * BLOCK));

/// A reservation that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct ReservationChange {
    /// Bytes of the stream from its beginning on for which space is promised already.
    pub before_bytes: Option<u64>,
    /// Those for which it is to be.
    pub size_bytes: u64,
    /// The stream was never written.
    pub is_fresh: bool,
}

/// What is promised to a stream over all shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamReservation {
    /// Blocks of it, in bytes.
    pub reserved_bytes: u64,
    /// Of these what does not count as held, in bytes: so much can be written, whatever others write.
    pub outstanding_bytes: u64,
}

/// What a shard is to promise to a stream of so many bytes.
fn size_on(
    placement: &Placement,
    stream: StreamPlacement,
    size_bytes: u64,
    shard: ShardId,
) -> ReservationSize {
    let shards = placement.shards_of(stream).count() as u64;
    let (regions, rest) = (size_bytes / REGION_BYTES, size_bytes % REGION_BYTES);
    let groups = regions / shards; // Each has one region on each shard.
    let mut whole = groups;
    for region in groups * shards..regions {
        whole += u64::from(placement.shard_of(stream, region * REGION_BYTES) == shard);
    }
    let is_last = rest > 0 && placement.shard_of(stream, regions * REGION_BYTES) == shard;
    let rest = if is_last { rest.div_ceil(BLOCK) } else { 0 };
    let blocks = whole * (REGION_BYTES / BLOCK) + rest;
    let mut pages = whole * (REGION_BYTES / BLOCK / SLOTS) + rest.div_ceil(SLOTS);
    // Pages above the leaves are shared by neighbours that other shards have.
    let mut level = size_bytes.div_ceil(BLOCK).div_ceil(SLOTS);
    while level > 1 {
        level = level.div_ceil(SLOTS);
        pages += level;
    }
    ReservationSize { blocks, pages }
}

impl Dispatch {
    /// Promises a stream space for what its first bytes take, on all its shards (DISPATCH-RESERVATION-1). Durable on
    /// return.
    ///
    /// # Errors
    /// `NoSpace` when a shard cannot promise so much, `Unavailable` when one does not serve.
    pub async fn reserve(&self, route: Route, change: ReservationChange) -> Result<()> {
        let ReservationChange { before_bytes, size_bytes, is_fresh } = change;
        let shards: Vec<ShardId> = self.placement().shards_of(route.placement).collect();
        let all = |size_bytes: u64| {
            shards.iter().map(move |shard| self.reserve_on(*shard, route, size_bytes, is_fresh))
        };
        let outcome: Result<Vec<()>> = join_all(all(size_bytes)).await.into_iter().collect();
        if outcome.is_err() {
            let undone: Result<Vec<()>> = match before_bytes {
                Some(before_bytes) => join_all(all(before_bytes)).await.into_iter().collect(),
                None => self.release_reservation(route.stream).await.map(|()| Vec::new()),
            };
            if let Err(error) = undone {
                // More is promised than anybody wants: others are refused earlier until the next start.
                tracing::warn!(%error, "a reservation that was refused could not be undone");
            }
        }
        outcome.map(drop)
    }

    async fn reserve_on(
        &self,
        shard: ShardId,
        route: Route,
        size_bytes: u64,
        is_fresh: bool,
    ) -> Result<()> {
        let size = size_on(self.placement(), route.placement, size_bytes, shard);
        self.on_shard(shard, move |shard| {
            Box::pin(async move { shard.reserve(route.stream, size, is_fresh).await })
        })
        .await
    }

    /// Promises a stream nothing any more, on any shard. Durable on return.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn release_reservation(&self, stream: StreamId) -> Result<()> {
        let releases = self.placement().shards().map(|shard| {
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.release_reservation(stream).await })
            })
        });
        all_ended(releases).await
    }

    /// Makes room for what has to be promised anew once streams are cut. To be done before a cut of streams with
    /// reservations.
    ///
    /// # Errors
    /// `NoSpace` when a shard could not keep its promises after the cut.
    pub async fn prepare_cut(&self, sources: &[StreamId]) -> Result<()> {
        let prepared = self.placement().shards().map(|shard| {
            let sources = sources.to_vec();
            self.on_shard(shard, move |shard| {
                Box::pin(async move { shard.prepare_cut(&sources).await })
            })
        });
        try_join_all(prepared).await.map(drop)
    }

    /// What is promised, by stream.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn reservations(&self) -> Result<BTreeMap<StreamId, StreamReservation>> {
        let asked = self.placement().shards().map(|shard| {
            self.on_shard(shard, |shard| Box::pin(async move { Ok(shard.reservations()) }))
        });
        let mut all: BTreeMap<StreamId, StreamReservation> = BTreeMap::new();
        for Reservation { stream, size, held_blocks, .. } in
            try_join_all(asked).await?.into_iter().flatten()
        {
            let sum = all.entry(stream).or_default();
            let bytes = |blocks: u64| blocks.saturating_mul(BLOCK);
            let outstanding = bytes(size.blocks.saturating_sub(held_blocks));
            sum.reserved_bytes = sum.reserved_bytes.saturating_add(bytes(size.blocks));
            sum.outstanding_bytes = sum.outstanding_bytes.saturating_add(outstanding);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_promise_the_whole_stream_together() {
        for shards in [1, 2, 3, 7] {
            let placement = Placement::new(vec![shards]);
            for seed in 0..20 {
                let stream = StreamPlacement { seed, generation: 0 };
                for size in
                    [512, BLOCK, 5 * BLOCK + 512, REGION_BYTES, 37 * REGION_BYTES + 99 * BLOCK]
                {
                    let mut counted = BTreeMap::new();
                    for block in (0..size.div_ceil(BLOCK)).step_by(33) {
                        let shard = placement.shard_of(stream, block * BLOCK);
                        *counted.entry(shard).or_insert(0) += 33_u64;
                    }
                    let mut blocks = 0;
                    for shard in placement.shards_of(stream) {
                        let on = size_on(&placement, stream, size, shard);
                        let about = counted.get(&shard).copied().unwrap_or(0);
                        let regions = size.div_ceil(REGION_BYTES);
                        assert!(on.blocks.abs_diff(about) <= 33 * (regions + 1), "{on:?} {about}");
                        assert!(on.pages >= on.blocks.div_ceil(SLOTS));
                        blocks += on.blocks;
                    }
                    assert_eq!(blocks, size.div_ceil(BLOCK));
                }
            }
        }
    }
}
