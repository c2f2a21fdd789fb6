//! How full the pool is: against the thresholds, in words, and in the log when that changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use varve_access_admin::v1::{Fill, FillLevel};
use varve_types::ByteCount;

use crate::config::Thresholds;
use crate::daemon::stack::ShardStack;
use crate::daemon::threads::Threads;

/// How often it is looked at: a drive that writes 1 GiB/s fills a percent of 1 TiB in twice the time.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// Percent by which it must fall below a threshold before that counts: the log does not tell of every wave.
const RETURN_PERCENT: u32 = 1;

/// The levels above `Ok`, in the order of their thresholds.
const LEVELS: [FillLevel; 4] =
    [FillLevel::Filling, FillLevel::High, FillLevel::NearFull, FillLevel::Full];

/// How many thresholds a level exceeds.
pub(super) fn rank(level: FillLevel) -> u64 {
    LEVELS.iter().filter(|exceeded| **exceeded <= level).count() as u64
}

/// How full a pool of that capacity is.
pub(super) fn fill(used_bytes: u64, capacity_bytes: u64, thresholds: Thresholds) -> Fill {
    let (level, threshold_percent) = exceeded(used_bytes, capacity_bytes, thresholds.ascending());
    let advice = advice(level).map(str::to_owned);
    Fill { used_bytes, capacity_bytes, level, threshold_percent, advice }
}

/// The highest level whose threshold is reached, and that threshold.
fn exceeded(
    used_bytes: u64,
    capacity_bytes: u64,
    thresholds: [u32; 4],
) -> (FillLevel, Option<u32>) {
    let percent = u128::from(used_bytes) * 100;
    let reached = |threshold: u32| percent >= u128::from(capacity_bytes) * u128::from(threshold);
    let found = LEVELS.into_iter().zip(thresholds).rev().find(|(_, percent)| reached(*percent));
    found.map_or((FillLevel::Ok, None), |(level, percent)| (level, Some(percent)))
}

/// What a level means, and what to do.
fn advice(level: FillLevel) -> Option<&'static str> {
    match level {
        FillLevel::Ok => None,
        FillLevel::Filling => Some(
            "plan for more space: `varve df` tells what fills it, and what deleting gives back",
        ),
        FillLevel::High => Some(
            "writes get slower, as reclaim moves more for each: delete snapshots and volumes that nobody needs, or trim; \
             `varve df` tells what that gives back",
        ),
        FillLevel::NearFull => Some(
            "writes are about to be refused with ENOSPC: delete snapshots or volumes, or trim, now; `varve df` tells what that gives \
             back",
        ),
        FillLevel::Full => Some(
            "writes may be refused with ENOSPC at any time: delete snapshots or volumes, or trim, now, which works on a full pool too; \
             `varve df` tells what that gives back",
        ),
    }
}

/// Logs when the level changes, for as long as the pool is served.
pub(super) async fn watch<S: ShardStack>(
    threads: Arc<Threads<S>>,
    capacity_bytes: u64,
    thresholds: Thresholds,
) -> Infallible {
    let mut told = FillLevel::Ok;
    loop {
        if let Some(used_bytes) = used_bytes(&threads).await {
            let now = told_next(told, used_bytes, capacity_bytes, thresholds);
            if now != told {
                tell(&fill(used_bytes, capacity_bytes, thresholds), now);
                told = now;
            }
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// What live blocks and pages of all shards take; `None` when a shard takes no calls now.
async fn used_bytes<S: ShardStack>(threads: &Threads<S>) -> Option<u64> {
    let mut used_bytes = 0;
    for shard in 0..threads.count() {
        let ask = |thread: std::rc::Rc<crate::daemon::shard_thread::ShardThread<S>>| async move {
            Ok(thread.stack.report().space_used_bytes)
        };
        used_bytes += threads.ask(shard, ask).await.ok()?;
    }
    Some(used_bytes)
}

/// The level that is told next: it rises at once, and falls when it has fallen a bit further.
fn told_next(
    told: FillLevel,
    used_bytes: u64,
    capacity_bytes: u64,
    thresholds: Thresholds,
) -> FillLevel {
    let thresholds = thresholds.ascending();
    let returned = thresholds.map(|percent| percent.saturating_sub(RETURN_PERCENT));
    let (now, _) = exceeded(used_bytes, capacity_bytes, thresholds);
    let (lasting, _) = exceeded(used_bytes, capacity_bytes, returned);
    now.max(lasting.min(told))
}

fn tell(fill: &Fill, level: FillLevel) {
    let percent = fill.used_percent();
    let used = ByteCount(fill.used_bytes);
    let capacity = ByteCount(fill.capacity_bytes);
    let advice = advice(level).unwrap_or_default();
    match level {
        FillLevel::Ok => tracing::info!(%used, %capacity, "pool has room again: {percent} % used"),
        FillLevel::Filling => {
            tracing::info!(%used, %capacity, "pool is {percent} % full: {advice}")
        }
        FillLevel::High | FillLevel::NearFull => {
            tracing::warn!(%used, %capacity, "pool is {percent} % full: {advice}");
        }
        FillLevel::Full => tracing::error!(%used, %capacity, "pool is {percent} % full: {advice}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(used: u64) -> FillLevel {
        fill(used, 1000, Thresholds::default()).level
    }

    #[test]
    fn levels_begin_at_their_thresholds() {
        use FillLevel::{Filling, Full, High, NearFull, Ok};
        for (used, expected) in [
            (0, Ok),
            (649, Ok),
            (650, Filling),
            (749, Filling),
            (750, High),
            (850, NearFull),
            (899, NearFull),
            (900, Full),
            (2000, Full),
        ] {
            assert_eq!(level(used), expected, "{used}");
        }
        let near = fill(850, 1000, Thresholds::default());
        assert_eq!(near.threshold_percent, Some(85));
        assert!(near.advice.is_some_and(|advice| advice.contains("varve df")));
        assert_eq!(fill(10, 1000, Thresholds::default()).advice, None);
        assert_eq!(fill(u64::MAX, u64::MAX, Thresholds::default()).level, Full);
    }

    #[test]
    fn what_is_told_rises_at_once_and_falls_late() {
        use FillLevel::{Filling, Full, High, Ok};
        let mut told = Ok;
        for (used, expected) in [
            (760, High),
            (749, High),
            (740, High),
            (739, Filling),
            (640, Filling),
            (639, Ok),
            (950, Full),
            (10, Ok),
        ] {
            told = told_next(told, used, 1000, Thresholds::default());
            assert_eq!(told, expected, "{used}");
        }
    }
}
