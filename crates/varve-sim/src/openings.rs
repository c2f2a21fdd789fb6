//! Openings of redundant pools, compared with what had to become of them.

use std::rc::Rc;

use varve_media::{Error, Result};
use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::found_tables::{FoundTables, OpeningVerdict, OpeningWish};
use crate::redundancy::DriveFaults;
use crate::redundant_pool::RedundantPool;
use crate::world::World;

/// Opens the redundant pool by the drives that can be found, as this world's operator does: says that it may go on with
/// fewer where that is asked for, and chooses between histories.
///
/// # Errors
/// The opening's, where it was refused rightly or not: that it must not be refused, the caller judges.
pub(crate) async fn open_redundant(world: &Rc<World>, reactor: &Reactor) -> Result<RedundantPool> {
    let media = world.redundant();
    let found = FoundTables::look(media, world.config.pool());
    let plain = OpeningWish::default();
    let error = match RedundantPool::open(world, reactor, &plain).await {
        Ok(pool) => {
            judge_success(world, &found, &plain);
            pool.take_part(&found);
            return Ok(pool);
        }
        Err(error) => error,
    };
    world.record("opening refused", ShardId(0), &[]);
    if found.verdict == OpeningVerdict::Opens && found.is_current(media) {
        world.violated(format!("opening by all drives: {error}"));
    }
    let Some(wish) = world.wish_after(&found) else {
        world.judge_refusal(may_refuse(world, &found, &error));
        return Err(error);
    };
    let found = FoundTables::look(media, world.config.pool());
    match RedundantPool::open(world, reactor, &wish).await {
        Ok(pool) => {
            judge_success(world, &found, &wish);
            pool.take_part(&found);
            Ok(pool)
        }
        Err(error) => {
            // With no more lost than the class survives, the operator's word is enough.
            let is_right = match world.redundancy().faults {
                DriveFaults::Returning => may_refuse(world, &found, &error),
                DriveFaults::None
                | DriveFaults::Losing
                | DriveFaults::Rotting
                | DriveFaults::Slow
                | DriveFaults::Moving => !found.is_current(media),
            };
            world.judge_refusal(is_right);
            Err(error)
        }
    }
}

/// An opening that must be refused must not succeed.
fn judge_success(world: &World, found: &FoundTables, wish: &OpeningWish) {
    let is_wrong = match found.verdict {
        OpeningVerdict::Opens | OpeningVerdict::IsFree => false,
        OpeningVerdict::Refuses => !wish.is_degraded,
        OpeningVerdict::IsSplit => wish.history.is_none(),
    };
    if is_wrong && found.is_current(world.redundant()) {
        let tables = found.newest.iter().map(|table| format!("{}@{}", table.history, table.epoch));
        let tables = tables.collect::<Vec<_>>().join(", ");
        let verdict = found.verdict;
        world.violated(format!("the pool opened, which had to be refused ({verdict:?}): {tables}"));
    }
}

/// Whether an opening may be refused with this error, by what drives were there.
fn may_refuse(world: &World, found: &FoundTables, error: &Error) -> bool {
    if !found.is_current(world.redundant()) {
        return true;
    }
    let is_named = match error {
        Error::TooFewDrives { .. }
        | Error::DegradedOpening { .. }
        | Error::HistorySplit { .. }
        | Error::Stale { .. }
        | Error::ReadOnly => true,
        // What cannot be looked at is told as it is.
        _ => false,
    };
    match found.verdict {
        OpeningVerdict::Opens => false,
        OpeningVerdict::Refuses => true,
        OpeningVerdict::IsSplit | OpeningVerdict::IsFree => is_named,
    }
}
