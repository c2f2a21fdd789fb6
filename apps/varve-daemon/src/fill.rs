//! How full the pool is: against the thresholds, in words, and in the log when that changes.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use varve_access_admin::v1::{Fill, FillLevel};
use varve_types::ByteCount;

use crate::config::Thresholds;
use crate::pool_size::PoolSize;
use crate::room::{free_bytes, used_bytes};
use crate::stack::ShardStack;
use crate::threads::ShardThreads;

/// How often it is looked at: a drive that writes 1 GiB/s fills a percent of 1 TiB in twice the time.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// Percent by which it must fall below a threshold before that counts: the log does not tell of every wave.
const RETURN_PERCENT: u32 = 1;

/// One part in so many of the capacity that is out of reach is told.
const OUT_OF_REACH_PART: u64 = 16;

/// What to do where space is left that the fullest shard cannot get.
const OUT_OF_REACH: &str = "a shard is nearly full, and cannot get the space that is left: the file system of a drive is full, or other \
    shards hold it; `varve status` names full media: make room there, or delete snapshots or volumes, or trim";

/// The levels above `Ok`, in the order of their thresholds.
const LEVELS: [FillLevel; 4] =
    [FillLevel::Filling, FillLevel::High, FillLevel::NearFull, FillLevel::Full];

/// How many thresholds a level exceeds.
pub(super) fn rank(level: FillLevel) -> u64 {
    LEVELS.iter().filter(|exceeded| **exceeded <= level).count() as u64
}

/// How much a pool holds, and takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpaceNow {
    pub(super) used_bytes: u64,
    pub(super) free_bytes: u64,
    pub(super) capacity_bytes: u64,
}

impl SpaceNow {
    /// What cannot be written any more: what is used, and what is out of reach.
    fn taken_bytes(self) -> u64 {
        self.capacity_bytes.saturating_sub(self.free_bytes).max(self.used_bytes)
    }

    /// Whether so much is out of reach that giving up data is not the only remedy.
    fn is_confined(self) -> bool {
        self.taken_bytes() - self.used_bytes > self.capacity_bytes / OUT_OF_REACH_PART
    }
}

/// How full a pool is.
pub(super) fn fill(space: SpaceNow, thresholds: Thresholds) -> Fill {
    let SpaceNow { used_bytes, capacity_bytes, .. } = space;
    let (level, threshold_percent) =
        exceeded(space.taken_bytes(), capacity_bytes, thresholds.ascending());
    let advice = advice_on(space, level).map(str::to_owned);
    Fill { used_bytes, capacity_bytes, level, threshold_percent, advice }
}

/// What to do about a level, whatever brought the pool there.
fn advice_on(space: SpaceNow, level: FillLevel) -> Option<&'static str> {
    if level >= FillLevel::High && space.is_confined() {
        return Some(OUT_OF_REACH);
    }
    advice(level)
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
            "plan for more space: `varve df` shows what fills it, and what deleting gives back",
        ),
        FillLevel::High => Some(
            "writes get slower, as reclaim moves more for each: delete snapshots and volumes that nobody needs, or trim; \
             `varve df` shows what that gives back",
        ),
        FillLevel::NearFull => Some(
            "writes are about to be refused with ENOSPC: delete snapshots or volumes, or trim, now; `varve df` shows what that gives \
             back",
        ),
        FillLevel::Full => Some(
            "writes may be refused with ENOSPC at any time: delete snapshots or volumes, or trim, now, which works on a full pool too; \
             `varve df` shows what that gives back",
        ),
    }
}

/// Logs when the level changes, for as long as the pool is served.
pub(super) async fn watch<S: ShardStack>(
    threads: Arc<ShardThreads<S>>,
    size: PoolSize,
    thresholds: Thresholds,
) -> Infallible {
    let mut told = FillLevel::Ok;
    loop {
        if let Some(space) = space_now(&threads, &size).await {
            let now = told_next(told, space.taken_bytes(), space.capacity_bytes, thresholds);
            if now != told {
                tell(space, now);
                told = now;
            }
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// What live blocks and pages of all shards take, and more may; `None` when a shard takes no calls now.
async fn space_now<S: ShardStack>(threads: &ShardThreads<S>, size: &PoolSize) -> Option<SpaceNow> {
    let mut reports = Vec::new();
    for shard in 0..threads.count() {
        let ask = |thread: std::rc::Rc<crate::shard_thread::ShardThread<S>>| async move {
            Ok(thread.stack.report())
        };
        reports.push(threads.ask(shard, ask).await.ok()?);
    }
    let (used_bytes, capacity_bytes) = (used_bytes(&reports), size.capacity_bytes(&reports));
    let free_bytes = free_bytes(capacity_bytes, used_bytes, &reports);
    Some(SpaceNow { used_bytes, free_bytes, capacity_bytes })
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

fn tell(space: SpaceNow, level: FillLevel) {
    let taken = u128::from(space.taken_bytes());
    let percent = taken * 100 / u128::from(space.capacity_bytes.max(1));
    let used = ByteCount(space.used_bytes);
    let capacity = ByteCount(space.capacity_bytes);
    let advice = advice_on(space, level).unwrap_or_default();
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

    fn at(used_bytes: u64, free_bytes: u64, capacity_bytes: u64) -> Fill {
        fill(SpaceNow { used_bytes, free_bytes, capacity_bytes }, Thresholds::default())
    }

    fn level(used: u64) -> FillLevel {
        at(used, 1000_u64.saturating_sub(used), 1000).level
    }

    #[test]
    fn what_is_out_of_reach_counts_as_taken() {
        let confined = at(370, 0, 1000);
        assert_eq!((confined.level, confined.used_bytes), (FillLevel::Full, 370));
        assert_eq!(confined.advice.as_deref(), Some(OUT_OF_REACH));
        assert_eq!(at(370, 500, 1000).level, FillLevel::Ok);
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
        let near = at(850, 150, 1000);
        assert_eq!(near.threshold_percent, Some(85));
        assert!(near.advice.is_some_and(|advice| advice.contains("varve df")));
        assert_eq!(at(10, 990, 1000).advice, None);
        assert_eq!(at(u64::MAX, 0, u64::MAX).level, Full);
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
