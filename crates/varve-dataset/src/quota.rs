//! Quotas: how much data a volume may hold. What is held is counted in blocks with data, before reduction; snapshots do
//! not count.
//!
//! ```text
//!  write ──charge──▶ within the room ──▶ admitted
//!             └────▶ beyond it ──▶ changes only blocks that hold data ──▶ admitted
//!                                  └──▶ counted anew, if that was not just done ──▶ within the room, or refused
//! ```
//!
//! QUOTA-1. A write is refused before anything of it is stored. One that changes only blocks that hold data never is:
//!     it adds nothing.
//! QUOTA-2. Between two counts every write is charged in full, also where it changes what is there, and gives nothing
//!     back: so what is held never exceeds the quota, but for trims and writes of the same blocks at the same moment.
//! QUOTA-3. A count knows of every write that had ended when it began, and treats the others as not counted.
//!
//! A budget is shared by all threads: atomic numbers, no lock.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use futures_util::future::try_join_all;
use varve_dispatch::{BLOCK_BYTES, BlockMapping, BlockStatus, Dispatch, Route};
use varve_types::{ByteCount, ByteRange};

use crate::{Error, Result};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A count is worth repeating for a write that does not fit after this time, in ns: each one drains what is undrained.
const COUNT_PAUSE_NS: u64 = 1_000_000_000;

/// Pause between looks at whether another write's count has ended, in ns.
const LOOK_PAUSE_NS: u64 = 5_000_000;

/// Runs of blocks looked at in one go.
const RUNS_MAX: usize = 128;

/// Says that there is no quota.
const NONE: u64 = u64::MAX;

/// What is left of a quota.
#[derive(Debug)]
pub(crate) struct Budget {
    quota_bytes: AtomicU64,
    /// Bytes charged since the volume was opened, writes under way included.
    charged_bytes: AtomicI64,
    /// Of them those of writes that have ended.
    settled_bytes: AtomicI64,
    /// Charges may go up to here.
    limit_bytes: AtomicI64,
    is_counting: AtomicBool,
    /// When the last count ended; 0 when there is none that is of use.
    counted_ns: AtomicU64,
}

/// Bytes of a write under way.
pub(crate) struct Charge<'a> {
    budget: &'a Budget,
    bytes: i64,
}

impl Drop for Charge<'_> {
    fn drop(&mut self) {
        self.budget.settled_bytes.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

/// One task at a time counts.
struct CountGuard<'a>(&'a Budget);

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.is_counting.store(false, Ordering::Release);
    }
}

impl Budget {
    pub(crate) fn new(quota_bytes: Option<u64>) -> Self {
        Self {
            quota_bytes: AtomicU64::new(quota_bytes.unwrap_or(NONE)),
            charged_bytes: AtomicI64::new(0),
            settled_bytes: AtomicI64::new(0),
            limit_bytes: AtomicI64::new(i64::MIN),
            is_counting: AtomicBool::new(false),
            counted_ns: AtomicU64::new(0),
        }
    }

    /// What may be held, if there is a bound.
    pub(crate) fn quota_bytes(&self) -> Option<u64> {
        Some(self.quota_bytes.load(Ordering::Acquire)).filter(|quota| *quota != NONE)
    }

    /// Another quota; the next write has what is held counted.
    pub(crate) fn set(&self, quota_bytes: Option<u64>) {
        self.quota_bytes.store(quota_bytes.unwrap_or(NONE), Ordering::Release);
        self.limit_bytes.store(i64::MIN, Ordering::Release);
        self.counted_ns.store(0, Ordering::Release);
    }

    /// QUOTA-2
    fn charge(&self, bytes: u64) -> Option<Charge<'_>> {
        let bytes = i64::try_from(bytes).ok()?;
        let charged = self.charged_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        if charged <= self.limit_bytes.load(Ordering::Acquire) {
            return Some(Charge { budget: self, bytes });
        }
        self.charged_bytes.fetch_sub(bytes, Ordering::AcqRel);
        None
    }

    /// Admits a write to a volume, or refuses it for its quota.
    pub(crate) async fn admit(
        &self,
        dispatch: &Dispatch,
        route: Route,
        range: ByteRange,
        name: &str,
    ) -> Result<Option<Charge<'_>>> {
        let Some(quota_bytes) = self.quota_bytes() else { return Ok(None) };
        let blocks = whole_blocks(range);
        if let Some(charge) = self.charge(blocks.len()) {
            return Ok(Some(charge));
        }
        let added = added_bytes(dispatch, route, blocks).await?;
        if added == 0 {
            return Ok(None); // QUOTA-1
        }
        loop {
            if let Some(charge) = self.charge(added) {
                return Ok(Some(charge));
            }
            if self.is_fresh(dispatch) {
                let (name, quota) = (name.to_owned(), ByteCount(quota_bytes));
                return Err(Error::OverQuota { name, quota });
            }
            match self.begin_count() {
                Some(counting) => self.count(counting, dispatch, route).await?,
                None => dispatch.reactor().sleep(LOOK_PAUSE_NS).await,
            }
        }
    }

    fn is_fresh(&self, dispatch: &Dispatch) -> bool {
        let counted_ns = self.counted_ns.load(Ordering::Acquire);
        counted_ns > 0 && dispatch.reactor().now().0 < counted_ns + COUNT_PAUSE_NS
    }

    fn begin_count(&self) -> Option<CountGuard<'_>> {
        let began =
            self.is_counting.compare_exchange(false, true, Ordering::AcqRel, Ordering::Acquire);
        began.ok().map(|_| CountGuard(self))
    }

    /// Counts what the volume holds, and so how far charges may go.
    async fn count(
        &self,
        _counting: CountGuard<'_>,
        dispatch: &Dispatch,
        route: Route,
    ) -> Result<()> {
        let settled = self.settled_bytes.load(Ordering::Acquire); // QUOTA-3
        let quota_bytes = self.quota_bytes.load(Ordering::Acquire);
        let applied = dispatch.placement().shards_of(route.placement).map(|shard| {
            dispatch
                .on_shard(shard, |shard| Box::pin(async move { shard.apply_acknowledged().await }))
        });
        try_join_all(applied).await?;
        let held = dispatch.count_blocks(route.stream).await?.saturating_mul(BLOCK);
        let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let room = signed(quota_bytes).saturating_sub(signed(held));
        self.limit_bytes.store(settled.saturating_add(room), Ordering::Release);
        self.counted_ns.store(dispatch.reactor().now().0.max(1), Ordering::Release);
        Ok(())
    }
}

/// The blocks that a range touches.
fn whole_blocks(range: ByteRange) -> ByteRange {
    ByteRange { start: range.start / BLOCK * BLOCK, end: range.end.next_multiple_of(BLOCK) }
}

/// Bytes of blocks in a range that hold no data.
async fn added_bytes(dispatch: &Dispatch, route: Route, blocks: ByteRange) -> Result<u64> {
    let (mut at, mut added) = (blocks.start, 0);
    while at < blocks.end {
        let range = ByteRange { start: at, end: blocks.end };
        let runs = dispatch.block_status(route, range, RUNS_MAX).await?;
        assert!(!runs.is_empty(), "a look at blocks tells of one at least");
        for BlockStatus { len, mapped } in runs {
            at += len;
            match mapped {
                BlockMapping::Data => {}
                BlockMapping::Hole | BlockMapping::Zero => added += len,
            }
        }
    }
    Ok(added)
}

#[cfg(test)]
mod tests;
