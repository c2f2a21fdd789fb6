//! Runs: what the bytes of a range hold, or whether they differ between two streams, whatever the length of the range.
//!
//! RUNS-1. What the owner of a region knows of it counts. Other shards answer for it as well, as they are asked for
//!     ranges of many regions: that shows only where all agree, which is passed in one step. So a range that holds
//!     nothing costs a few messages.
//! RUNS-2. A range is looked at in parts, each many times longer than the one before, until there are runs enough: who
//!     wants one run only does not make shards look at everything.
//! RUNS-3. What is known of the parts before a shard's failure is the answer. It fails once it begins where the failure
//!     is.

use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::try_join_all;
use varve_engine::{BlockStatus, DiffRun, Shard};
use varve_types::limits::REGION_BYTES;
use varve_types::{ByteRange, ShardId};

use crate::placement::{Placement, StreamPlacement};
use crate::route::{Route, ShardFuture, split};
use crate::{Dispatch, Result};

/// A part has so many times the regions of the part before (RUNS-2): eleven parts cover the largest volume.
const GROWTH: u64 = 8;

/// Most regions of all shards for which runs are asked for beside those wanted, as other shards' regions lie between a
/// shard's own.
const GAPS_MAX: u64 = 8192;

/// A shard is asked for so many times its share of the runs wanted: data lie unevenly. What has more of them ends the
/// answer early.
const UNEVENNESS: usize = 4;

/// Runs of bytes one after the other, each with its value.
type Runs<T> = Vec<(u64, T)>;

impl Dispatch {
    /// What bytes hold, in at most `max` runs; may stop before the end of the range. Costs what is stored, not the
    /// length.
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read.
    pub async fn block_status(
        &self,
        route: Route,
        range: ByteRange,
        max: usize,
    ) -> Result<Vec<BlockStatus>> {
        let stream = route.stream;
        let ask = move |shard: Rc<Shard>, part: ByteRange, max: usize| -> ShardFuture<_> {
            Box::pin(async move {
                let runs = shard.block_status(stream, part, max).await;
                runs.map(|runs| runs.iter().map(|run| (run.len, run.mapped)).collect::<Runs<_>>())
            })
        };
        let runs = self.owned_runs(route.placement, range, max, ask).await?;
        Ok(runs.into_iter().map(|(len, mapped)| BlockStatus { len, mapped }).collect())
    }

    /// Which bytes of a range may differ between two streams of the same placement, in at most `max` runs; may stop
    /// before the end of the range. Costs what differs, not what is there.
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read.
    ///
    /// # Panics
    /// When the streams lie in different places.
    pub async fn diff(
        &self,
        from: Route,
        to: Route,
        range: ByteRange,
        max: usize,
    ) -> Result<Vec<DiffRun>> {
        assert!(from.placement == to.placement, "streams of one family are placed alike");
        let placement = to.placement;
        let (from, to) = (from.stream, to.stream);
        let ask = move |shard: Rc<Shard>, part: ByteRange, max: usize| -> ShardFuture<_> {
            Box::pin(async move {
                let runs = shard.diff(from, to, part, max).await;
                runs.map(|runs| runs.iter().map(|run| (run.len, run.differs)).collect::<Runs<_>>())
            })
        };
        let runs = self.owned_runs(placement, range, max, ask).await?;
        Ok(runs.into_iter().map(|(len, differs)| DiffRun { len, differs }).collect())
    }

    /// What `ask` yields of the owners of a range, which it asks for a part of the range and so many runs.
    async fn owned_runs<T: Copy + PartialEq + Send + 'static>(
        &self,
        stream: StreamPlacement,
        range: ByteRange,
        max: usize,
        ask: impl Fn(Rc<Shard>, ByteRange, usize) -> ShardFuture<Runs<T>> + Copy + Send + 'static,
    ) -> Result<Runs<T>> {
        let mut merger = RunMerger { placement: self.placement(), stream, max, runs: Vec::new() };
        // A shard that has all of a stream stops by itself.
        let is_alone = self.placement().shards_of(stream).nth(1).is_none();
        let mut regions = if is_alone { u64::MAX } else { 1 };
        let mut at = range.start;
        while at < range.end && merger.runs.len() <= max {
            let until = (at / REGION_BYTES).saturating_add(regions).saturating_mul(REGION_BYTES);
            let part = ByteRange { start: at, end: range.end.min(until) };
            let owners = owners(self.placement(), stream, part);
            let most = runs_of_each(max, regions, owners.len());
            let found = owners.iter().map(|owner| async move {
                let found = self.on_shard(*owner, move |shard| ask(shard, part, most)).await;
                found.map(|runs| ShardRuns::new(*owner, part.start, runs))
            });
            let found = match try_join_all(found).await {
                Err(error) if merger.runs.is_empty() => return Err(error),
                Err(_) => break, // RUNS-3
                Ok(found) => found,
            };
            at = merger.append(part, found);
            if at < part.end {
                break;
            }
            regions = regions.saturating_mul(GROWTH); // RUNS-2
        }
        merger.runs.truncate(max);
        Ok(merger.runs)
    }
}

/// Runs that each of several shards is asked for, where `max` are wanted of a range of so many regions.
fn runs_of_each(max: usize, regions: u64, shards: usize) -> usize {
    if shards <= 1 {
        return max;
    }
    let gaps = usize::try_from(regions.min(GAPS_MAX)).unwrap_or(usize::MAX) / shards;
    let share = max.div_ceil(shards).saturating_mul(UNEVENNESS).min(max);
    share.saturating_add(2 * (gaps + 2))
}

/// The shards that have regions of a range.
fn owners(placement: &Placement, stream: StreamPlacement, range: ByteRange) -> BTreeSet<ShardId> {
    // Among twice as many regions as there are shards is a whole group, which has one on each.
    let regions = 2 * placement.shards_of(stream).count();
    let parts = split(range.start, range.end).take(regions);
    parts.map(|part| placement.shard_of(stream, part.start)).collect()
}

/// The runs of a part as one shard tells them, read from its beginning on.
struct ShardRuns<T> {
    shard: ShardId,
    rest: std::vec::IntoIter<(u64, T)>,
    /// The run that was read last.
    value: Option<T>,
    /// Where it ends.
    end: u64,
}

impl<T: Copy> ShardRuns<T> {
    fn new(shard: ShardId, start: u64, runs: Runs<T>) -> Self {
        Self { shard, rest: runs.into_iter(), value: None, end: start }
    }

    /// The run that holds the byte at `at`, which never goes back: where it ends, and its value. `None` behind the last
    /// one.
    fn run_at(&mut self, at: u64) -> Option<(u64, T)> {
        while self.end <= at {
            let (len, value) = self.rest.next()?;
            self.end += len;
            self.value = Some(value);
        }
        Some((self.end, self.value?))
    }
}

/// Merges runs of the owners of a range.
struct RunMerger<'a, T> {
    placement: &'a Placement,
    stream: StreamPlacement,
    /// Runs beyond the one after so many are of no use.
    max: usize,
    runs: Runs<T>,
}

impl<T: Copy + PartialEq> RunMerger<'_, T> {
    /// Appends the runs of a part, as far as its owners got; returns where that ends.
    fn append(&mut self, part: ByteRange, mut owners: Vec<ShardRuns<T>>) -> u64 {
        let mut at = part.start;
        while at < part.end && self.runs.len() <= self.max {
            let Some((end, value)) = self.run_at(at, &mut owners) else { break };
            let end = end.min(part.end);
            match self.runs.last_mut() {
                Some((len, last)) if *last == value => *len += end - at,
                _ => self.runs.push((end - at, value)),
            }
            at = end;
        }
        at
    }

    /// What holds from `at` on, and how far that is sure (RUNS-1).
    fn run_at(&self, at: u64, owners: &mut [ShardRuns<T>]) -> Option<(u64, T)> {
        let (mut until, mut first, mut all_agree) = (u64::MAX, None, true);
        for shard in &mut *owners {
            let (end, value) = shard.run_at(at)?;
            until = until.min(end);
            all_agree &= *first.get_or_insert(value) == value;
        }
        if all_agree {
            return Some((until, first?));
        }
        let owner = self.placement.shard_of(self.stream, at);
        let (end, value) = owners.iter_mut().find(|runs| runs.shard == owner)?.run_at(at)?;
        Some((end.min((at / REGION_BYTES + 1) * REGION_BYTES), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARDS: u16 = 2;
    const STREAM: StreamPlacement = StreamPlacement { seed: 7, generation: 0 };

    /// The runs of two shards, merged, and where they end.
    fn merged(end: u64, max: usize, runs: [Runs<char>; 2]) -> (u64, Runs<char>) {
        let placement = Placement::new(vec![SHARDS]);
        let owners = (0..SHARDS).map(ShardId).zip(runs);
        let owners = owners.map(|(shard, runs)| ShardRuns::new(shard, 0, runs)).collect();
        let mut merger = RunMerger { placement: &placement, stream: STREAM, max, runs: Vec::new() };
        let until = merger.append(ByteRange { start: 0, end }, owners);
        (until, merger.runs)
    }

    /// Runs of the owner of the first region, and of the other shard.
    fn by(owner: Runs<char>, other: Runs<char>) -> [Runs<char>; 2] {
        let first = Placement::new(vec![SHARDS]).shard_of(STREAM, 0);
        if first == ShardId(0) { [owner, other] } else { [other, owner] }
    }

    #[test]
    fn what_all_agree_on_is_one_run_whatever_its_length() {
        let end = 1 << 56;
        let runs = [vec![(end, 'h')], vec![(end, 'h')]];
        assert_eq!(merged(end, 4, runs), (end, vec![(end, 'h')]));
    }

    #[test]
    fn the_owner_of_a_region_decides_where_they_differ() {
        let end = 2 * REGION_BYTES;
        let owner = vec![(4096, 'd'), (end - 4096, 'h')];
        let other = vec![(end, 'z')];
        let expected = vec![(4096, 'd'), (REGION_BYTES - 4096, 'h'), (REGION_BYTES, 'z')];
        assert_eq!(merged(end, 4, by(owner, other)), (end, expected));
        let written = |runs: &Runs<char>| runs.iter().map(|run| run.0).sum::<u64>();
        let (region, gap) = ((REGION_BYTES, 'd'), (REGION_BYTES, 'h'));
        let (until, runs) = merged(end, 4, by(vec![region, gap], vec![gap, region]));
        assert_eq!((until, written(&runs), runs), (end, end, vec![(end, 'd')]));
    }

    #[test]
    fn runs_end_where_a_shard_stopped_and_where_there_are_enough() {
        let end = 1 << 50;
        let runs = by(vec![(8192, 'd'), (end - 8192, 'h')], vec![(4096, 'h')]);
        assert_eq!(merged(end, 4, runs), (8192, vec![(8192, 'd')]), "the owner knows its region");
        let (until, runs) = merged(end, 4, by(vec![(end, 'z')], vec![(end, 'h')]));
        assert_eq!(runs.len(), 5, "regions by turns, not all of them");
        assert_eq!(runs.iter().map(|run| run.0).sum::<u64>(), until);
    }

    #[test]
    fn shards_are_asked_for_little_more_than_is_wanted_however_many_they_are() {
        assert_eq!(runs_of_each(8192, 1, 1), 8192);
        assert_eq!(runs_of_each(usize::MAX, u64::MAX, 1), usize::MAX);
        for shards in [2, 3, 8, 64, 1000] {
            for regions in [1, 8, 64, 1 << 20, u64::MAX] {
                let all = shards * runs_of_each(8192, regions, shards);
                let most = (UNEVENNESS + 2) * 8192 + 8 * shards;
                assert!(all <= most, "{shards} shards, {regions} regions: {all}");
            }
            assert!(runs_of_each(1, 1, shards) >= 1);
            assert!(runs_of_each(usize::MAX, u64::MAX, shards) > 1 << 20);
        }
    }

    #[test]
    fn owners_of_a_range_are_found_without_looking_at_all_regions() {
        let placement = Placement::new(vec![5]);
        let of = |start, end| owners(&placement, STREAM, ByteRange { start, end });
        assert_eq!(of(0, 1 << 56).len(), 5);
        assert_eq!(of(3 * REGION_BYTES, 12 * REGION_BYTES).len(), 5, "a whole group");
        let one = of(4096, REGION_BYTES);
        assert_eq!(one.into_iter().collect::<Vec<_>>(), [placement.shard_of(STREAM, 0)]);
    }
}
