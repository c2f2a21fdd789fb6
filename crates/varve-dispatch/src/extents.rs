//! Extents: what of a range is stored, or differs between two streams, whatever the length of the range.
//!
//! EXTENTS-1. Each shard is asked for the whole range at once: it knows of its own regions only, and what it has of
//!     others reads as zeros. So what one of them stores, or has differently, is all there is, and regions that hold
//!     nothing cost nothing.

use futures_util::future::try_join_all;
use varve_engine::{BlockMapping, Shard};
use varve_types::{ByteRange, StreamId};

use crate::{Dispatch, Result, Route};

/// Extents of a range as far as it was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extents {
    /// In order, none touching the next.
    pub extents: Vec<ByteRange>,
    /// Where to go on; the end of the range when done.
    pub until: u64,
}

/// Runs of bytes one after the other, each with whether it is an extent.
type Runs = Vec<(u64, bool)>;

impl Dispatch {
    /// Which bytes of a range are stored; with `from`, which may differ from that stream, of the same placement. Stops
    /// after about `max` extents, or a second. Costs what is stored, or differs.
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read.
    ///
    /// # Panics
    /// When the streams lie in different places.
    pub async fn extents(
        &self,
        route: Route,
        from: Option<Route>,
        range: ByteRange,
        max: usize,
    ) -> Result<Extents> {
        if let Some(from) = from {
            assert!(from.placement == route.placement, "streams of one family are placed alike");
        }
        let (stream, from) = (route.stream, from.map(|from| from.stream));
        let ask = |shard| {
            self.on_shard(shard, move |shard| {
                Box::pin(async move { runs_of(&shard, stream, from, range, 2 * max).await })
            })
        };
        let found = try_join_all(self.placement().shards().map(ask)).await?; // EXTENTS-1
        Ok(merged(range, &found))
    }
}

async fn runs_of(
    shard: &Shard,
    stream: StreamId,
    from: Option<StreamId>,
    range: ByteRange,
    max: usize,
) -> varve_engine::Result<Runs> {
    Ok(match from {
        None => {
            let runs = shard.block_status(stream, range, max).await?;
            runs.iter().map(|run| (run.len, run.mapped == BlockMapping::Data)).collect()
        }
        Some(from) => {
            let runs = shard.diff(from, stream, range, max).await?;
            runs.iter().map(|run| (run.len, run.differs)).collect()
        }
    })
}

/// What any of the shards has, as far as all of them got.
fn merged(range: ByteRange, found: &[Runs]) -> Extents {
    let reach = |runs: &Runs| range.start + runs.iter().map(|(len, _)| len).sum::<u64>();
    let until = found.iter().map(reach).min().unwrap_or(range.end);
    let mut all: Vec<ByteRange> = Vec::new();
    for runs in found {
        let mut at = range.start;
        for (len, is_extent) in runs {
            let (start, end) = (at, (at + len).min(until));
            at += len;
            if *is_extent && start < end {
                all.push(ByteRange { start, end });
            }
        }
    }
    all.sort_unstable_by_key(|extent| extent.start);
    let mut extents: Vec<ByteRange> = Vec::with_capacity(all.len());
    for extent in all {
        match extents.last_mut() {
            Some(last) if last.end >= extent.start => last.end = last.end.max(extent.end),
            _ => extents.push(extent),
        }
    }
    Extents { extents, until }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange { start, end }
    }

    #[test]
    fn what_any_shard_has_is_an_extent_as_far_as_all_of_them_got() {
        let one = vec![(10, false), (10, true), (20, false), (60, true)];
        let other = vec![(20, false), (10, true), (40, false)];
        let found = merged(range(100, 200), &[one.clone(), other]);
        assert_eq!(found.until, 170);
        assert_eq!(found.extents, [range(110, 130), range(140, 170)]);
        let alone = merged(range(100, 200), &[one]);
        assert_eq!((alone.until, alone.extents.len()), (200, 2));
        let nothing = merged(range(0, 1 << 50), &[vec![(1 << 50, false)], vec![(1 << 50, false)]]);
        assert_eq!(nothing, Extents { extents: Vec::new(), until: 1 << 50 });
    }
}
