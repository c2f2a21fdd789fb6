//! Openings of redundant pools, compared with what had to become of them.

use std::rc::Rc;

use varve_media::{Error, Result};
use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::found_tables::{FoundTables, OpeningVerdict, OpeningWish};
use crate::redundancy::DriveFaults;
use crate::redundant_pool::RedundantPool;
use crate::world::World;

/// How often an opening is tried again to which something happened meanwhile: more often than things happen in a life.
const ATTEMPTS_MAX: u32 = 7;

/// Of how long a drive may not answer, how often that passes between two attempts: then nothing of the one before is
/// under way any more.
const PAUSE_PATIENCES: u64 = 3;

/// Opens the redundant pool by the drives that can be found, as this world's operator does: tries again what failed by
/// what happened meanwhile, says that it may go on with fewer where that is asked for, and chooses between histories.
///
/// # Errors
/// The opening's, where it was refused rightly or not: that it must not be refused, the caller judges.
pub(crate) async fn open_redundant(world: &Rc<World>, reactor: &Reactor) -> Result<RedundantPool> {
    let plain = OpeningWish::default();
    let mut error = match open_by(world, reactor, &plain).await {
        Ok(pool) => return Ok(pool),
        Err(error) => error,
    };
    let found = FoundTables::look(world, reactor.now(), &plain);
    for wish in world.wishes_after(&found) {
        match open_by(world, reactor, &wish).await {
            Ok(pool) => return Ok(pool),
            Err(refusal) => error = refusal,
        }
    }
    Err(error)
}

/// Opens it as `wish` says, again where something happened to drives meanwhile (SIM-OPENINGS-1).
async fn open_by(
    world: &Rc<World>,
    reactor: &Reactor,
    wish: &OpeningWish,
) -> Result<RedundantPool> {
    let mut attempts = 0;
    loop {
        let found = FoundTables::look(world, reactor.now(), wish);
        let outcome = RedundantPool::open(world, reactor, wish).await;
        let is_certain = found.is_certain(world.redundant());
        match &outcome {
            Ok(pool) => {
                if is_certain {
                    judge_success(world, &found);
                }
                pool.take_part(&found);
                return outcome;
            }
            Err(error) if is_certain => {
                world.judge_refusal(is_refused_rightly(world, &found, wish, error));
                return outcome;
            }
            Err(_) => {}
        }
        world.record("opening tried again", ShardId(0), &[u64::from(attempts)]);
        attempts += 1;
        if attempts == ATTEMPTS_MAX {
            // Things do not happen for ever: what is left is a write that is to fail, which no refused opening makes.
            if let (Err(error), OpeningVerdict::Refuses) = (&outcome, found.verdict) {
                world.judge_refusal(is_refused_rightly(world, &found, wish, error));
            }
            return outcome;
        }
        reactor.sleep(PAUSE_PATIENCES * world.redundancy().patience_nanos).await;
    }
}

/// An opening that must be refused must not succeed.
fn judge_success(world: &World, found: &FoundTables) {
    let is_wrong = match found.verdict {
        OpeningVerdict::Opens | OpeningVerdict::IsFree => false,
        OpeningVerdict::Refuses | OpeningVerdict::IsSplit => true,
    };
    if is_wrong {
        let tables = found.newest.iter().map(|table| format!("{}@{}", table.history, table.epoch));
        let tables = tables.collect::<Vec<_>>().join(", ");
        let verdict = found.verdict;
        world.violated(format!("the pool opened, which had to be refused ({verdict:?}): {tables}"));
    }
}

/// Whether an opening had to be refused, or could be, and with this error.
fn is_refused_rightly(
    world: &World,
    found: &FoundTables,
    wish: &OpeningWish,
    error: &Error,
) -> bool {
    world.record("opening refused", ShardId(0), &[]);
    let verdict = found.verdict;
    // SIM-DRIVES-1: where drives do not go on without each other, the operator's word is enough.
    let is_one_way = world.redundancy().faults != DriveFaults::Returning;
    let is_promised = wish.is_degraded && is_one_way && !world.lost_too_many();
    if verdict == OpeningVerdict::Opens || is_promised {
        world.violated(format!("opening as {wish:?}, which had to succeed ({verdict:?}): {error}"));
        return false;
    }
    match error {
        Error::TooFewDrives { .. } | Error::DegradedOpening { .. } => true,
        Error::HistorySplit { .. } => verdict == OpeningVerdict::IsSplit,
        // What cannot be looked at is reported as it is, and so is what each drive answers where none has a table.
        Error::Open { .. } => found.has_unknown,
        Error::NoPool { .. } | Error::Io { .. } | Error::Corrupt { .. } => found.newest.is_empty(),
        _ => false,
    }
}
