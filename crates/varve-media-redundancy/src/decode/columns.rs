//! A part of one strip from the same part of k others (3.3), without a look at the rest of them.

use std::ops::Range;

use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream::FuturesUnordered;
use varve_media::SegmentId;
use varve_stdx::{AlignedBuf, BufSlice};

use super::group::{GroupStrip, PutGroup, group_strips};
use super::{SlotReader, StripReading, check_label, indexes_of};
use crate::class::{LABEL_BYTES, StripeShape};
use crate::view::{LayoutView, StripLocation};

/// Columns up to so many bytes are read beside the labels, of all strips: what is read in vain takes less time than a
/// second round.
const AT_ONCE_MAX: usize = 64 << 10;

/// What is to be computed of a slot.
pub(crate) struct ColumnRequest<'a> {
    pub(crate) id: SegmentId,
    /// Where strips of the slot are.
    pub(crate) locations: &'a [StripLocation],
    /// Index of the strip.
    pub(crate) wanted: u8,
    /// Bytes behind its label.
    pub(crate) columns: Range<u32>,
}

impl ColumnRequest<'_> {
    /// Columns that a strip has of those, by the put that its label names.
    fn part_of(&self, strip: u8, group: &PutGroup) -> Option<Range<u32>> {
        let len = self.locations.first()?.geometry.data_bytes(strip, group.put.used_bytes);
        Some(self.columns.start.min(len)..self.columns.end.min(len))
    }
}

impl SlotReader {
    /// Computes columns of a strip from those of k others whose labels name one put of the segment; of drives that are
    /// slow only where there are not enough others. What is behind the end of the strip is left out. `None` when there
    /// are not enough.
    pub(crate) async fn decode_columns(
        &self,
        view: &LayoutView,
        request: &ColumnRequest<'_>,
    ) -> Option<BufSlice> {
        let data = usize::from(request.locations.first()?.geometry.shape.data());
        let others = request.locations.iter().filter(|it| it.strip != request.wanted).copied();
        let all: Vec<StripLocation> = others.collect();
        let mut quick = all.clone();
        quick.retain(|location| !self.handles.is_avoided(view, location.place.drive));
        if quick.len() < all.len() && quick.len() >= data {
            let decoded = self.decode_columns_of(view, request, quick).await;
            if decoded.is_some() {
                return decoded;
            }
        }
        self.decode_columns_of(view, request, all).await
    }

    async fn decode_columns_of(
        &self,
        view: &LayoutView,
        request: &ColumnRequest<'_>,
        others: Vec<StripLocation>,
    ) -> Option<BufSlice> {
        if request.columns.len() <= AT_ONCE_MAX {
            self.decode_at_once(view, request, &others).await
        } else {
            self.decode_in_turn(view, request, others).await
        }
    }

    /// Reads labels and columns at once, and takes the first k that agree.
    async fn decode_at_once(
        &self,
        view: &LayoutView,
        request: &ColumnRequest<'_>,
        others: &[StripLocation],
    ) -> Option<BufSlice> {
        let (columns, reactor) = (request.columns.clone(), self.handles.reactor());
        let reads = others.iter().filter_map(|location| {
            let drive = self.readable(view, location.place.drive)?;
            let label_at = location.offset;
            let at = label_at + u64::from(LABEL_BYTES) + u64::from(columns.start);
            let len = columns.len();
            // HEDGE-2
            let read = reactor.spawn_join(async move {
                join(drive.read(label_at, LABEL_BYTES as usize), drive.read(at, len)).await
            });
            Some(async move { (*location, read.await) })
        });
        let mut reads: FuturesUnordered<_> = reads.collect();
        let mut readings = Vec::new();
        while let Some((location, (label, bytes))) = reads.next().await {
            let (Ok(label), Ok(bytes)) = (label, bytes) else { continue };
            let label = check_label(view, request.id.number, &location, &label);
            let strip = label.map(|label| (label, bytes.freeze()));
            readings.push(StripReading { location, strip });
            let group = group_strips(&readings).best(request.id.generation);
            let Some(mut group) = group.filter(PutGroup::is_enough) else { continue };
            let data = usize::from(group.put.shape.data());
            let mut sources = std::mem::take(&mut group.strips);
            sources.truncate(data);
            for source in &mut sources {
                let part = request.part_of(source.index, &group)?;
                source.bytes = source.bytes.slice(0..part.len());
            }
            let len = request.part_of(request.wanted, &group)?.len();
            return self.compute(group.put.shape, &sources, request.wanted, len);
        }
        None
    }

    /// Reads labels first, and then the columns of k strips.
    async fn decode_in_turn(
        &self,
        view: &LayoutView,
        request: &ColumnRequest<'_>,
        others: Vec<StripLocation>,
    ) -> Option<BufSlice> {
        let labels = self.labels_at(view, request.id.number, others).await;
        let readings: Vec<StripReading> = labels.into_iter().map(StripReading::of_label).collect();
        let mut group = group_strips(&readings).best(request.id.generation)?;
        let shape = group.put.shape;
        // Each round that fails has a strip less.
        while group.is_enough() {
            let chosen = group.strips.iter().take(usize::from(shape.data()));
            let parts = chosen.clone().map(|strip| request.part_of(strip.index, &group));
            let parts: Vec<Range<u32>> = parts.collect::<Option<_>>()?;
            let reads = chosen.zip(parts).map(|(strip, part)| {
                let shifted = LABEL_BYTES + part.start..LABEL_BYTES + part.end;
                async move { self.read_at(view, &strip.location, shifted).await.ok() }
            });
            let read = join_all(reads).await;
            match read.iter().position(Option::is_none) {
                Some(failed) => drop(group.strips.remove(failed)),
                None => {
                    let mut sources = group.strips.clone();
                    sources.truncate(read.len());
                    for (source, bytes) in sources.iter_mut().zip(read) {
                        source.bytes = bytes?;
                    }
                    let len = request.part_of(request.wanted, &group)?.len();
                    return self.compute(shape, &sources, request.wanted, len);
                }
            }
        }
        None
    }

    /// One strip from the same part of k others.
    fn compute(
        &self,
        shape: StripeShape,
        sources: &[GroupStrip],
        wanted: u8,
        len: usize,
    ) -> Option<BufSlice> {
        let Some(code) = self.codes.of(shape) else {
            return sources.first().map(|copy| copy.bytes.clone());
        };
        let plan = code.plan(&indexes_of(sources), &[usize::from(wanted)]).ok()?;
        let mut output = AlignedBuf::scratch(len);
        let bytes: Vec<&[u8]> = sources.iter().map(|source| &*source.bytes).collect();
        plan.rebuild(&bytes, &mut [&mut *output]);
        Some(output.freeze())
    }
}
