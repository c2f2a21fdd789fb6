//! The strip census: reads raw media, and counts of each segment that shards hold how many of its strips are there and
//! right. It shares no code with the crate of redundant pools but the decoders of stored bytes, and where these say
//! that strips lie.
//!
//! STRIP-CENSUS-1. Of every held segment as many strips are right as its class has of data, while no more drives are
//!     lost than it survives.
//! STRIP-CENSUS-2. Strips on drives that the pool reads and that never were out of order are all right: redundancy is
//!     never less than the pool believes. While a row moves, that is what the set can lose that can lose less, each by
//!     its own class.
//! STRIP-CENSUS-3. Health never says that more may be lost than what was counted can lose, and never ok where a strip
//!     lacks.
//! STRIP-CENSUS-4. A strip of a put of this life that is on no drive is one that the put said to have left out.

use std::collections::BTreeMap;

use varve_logstore::format::record::payload_checksum;
use varve_media::SegmentId;
use varve_media_redundancy::format::StripLabel;
use varve_media_redundancy::{
    HealthReport, HealthState, LABEL_BYTES, LeftOutStrip, ShardFacts, StripLocation, StripeShape,
    ZoneIndex,
};
use varve_types::PoolId;

use crate::drives::{RedundantMedia, SimDrive};
use crate::raw_tables::{RawLayout, is_member};

/// What was counted of one segment.
#[derive(Clone, Debug)]
pub(crate) struct SegmentCount {
    /// Which.
    pub id: SegmentId,
    /// Its zone.
    pub zone: ZoneIndex,
    /// Strips of one put that are right, on drives that are in order.
    pub right: PutCount,
    /// The same, on drives too that are out of order while the pool does not know it yet.
    pub stored: PutCount,
    /// Places on drives that the pool reads and that are in order; while its row moves, of the set that can lose less.
    pub placed: PutCount,
}

impl SegmentCount {
    /// Whether it can be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.right.spare().is_some()
    }

    /// Whether every strip is right that lies on a drive which the pool reads (STRIP-CENSUS-2).
    pub(crate) fn is_as_placed(&self) -> bool {
        self.right.spare() >= self.placed.spare()
    }

    /// How many strips may be lost.
    pub(crate) fn survives(&self) -> Option<usize> {
        self.stored.spare()
    }
}

/// What is counted, and what threads said of it.
pub(crate) struct CensusSubjects<'a> {
    /// Segments that were put and that shards hold.
    pub held: &'a [SegmentId],
    /// Segments that were put in this life.
    pub stored: &'a [SegmentId],
    /// Strips that puts left out.
    pub left_out: &'a [LeftOutStrip],
    /// What threads count of their segments.
    pub shards: &'a [ShardFacts],
}

/// What was counted.
pub(crate) struct StripCensus {
    /// Each segment.
    pub segments: Vec<SegmentCount>,
    /// What health says at the same moment.
    health: HealthReport,
    /// The first strip that is on no drive and on no list of repairs.
    forgotten: Option<String>,
}

impl StripCensus {
    /// Counts the strips of segments. One whose zone has no row counts none.
    pub(crate) fn take(
        media: &RedundantMedia,
        layout: &RawLayout,
        pool: PoolId,
        subjects: &CensusSubjects<'_>,
    ) -> Self {
        let counter = StripCounter { media, layout, pool };
        let counted = subjects.held.iter().filter_map(|id| counter.count(*id));
        let mut stored = subjects.held.iter().filter(|id| subjects.stored.contains(id));
        let forgotten = stored.find_map(|id| counter.forgotten(*id, subjects.left_out));
        Self {
            segments: counted.collect(),
            health: layout.health(media, subjects.shards),
            forgotten,
        }
    }

    /// The first segment of which too few strips are right: with `is_complete`, of those that the pool must have, else
    /// of those that suffice to read it.
    pub(crate) fn fault(&self, is_complete: bool) -> Option<String> {
        let is_wrong = |count: &&SegmentCount| {
            // STRIP-CENSUS-1, STRIP-CENSUS-2
            !count.is_readable() || is_complete && !count.is_as_placed()
        };
        let forgotten = self.forgotten.clone();
        let wrong = self.segments.iter().find(is_wrong).map(|count| {
            let SegmentCount { id, zone, right, placed, .. } = count;
            let SegmentId { number, generation } = id;
            format!(
                "segment {number} generation {} of zone {zone} has {} strips of {} that are right, and {} \
                 places of {}",
                generation.get(),
                right.count(),
                right.shape,
                placed.count(),
                placed.shape
            )
        });
        wrong.or(forgotten)
    }

    /// What health says more than what was counted.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let health = &self.health;
        let least = self.segments.iter().map(SegmentCount::survives).min()?;
        // STRIP-CENSUS-3
        let promises_more = match (health.survives, least) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(promised), Some(least)) => usize::from(promised) > least,
        };
        let lacks = self.segments.iter().find(|count| !count.stored.is_whole());
        let is_blind = health.state() == HealthState::Ok && lacks.is_some();
        (promises_more || is_blind).then(|| {
            let (state, promised) = (health.state(), health.survives);
            format!("health is {state}, survives {promised:?}; counted {least:?}, lacks {lacks:?}")
        })
    }
}

/// Counts strips.
struct StripCounter<'a> {
    media: &'a RedundantMedia,
    layout: &'a RawLayout,
    pool: PoolId,
}

impl StripCounter<'_> {
    /// `None` of a slot behind the last zone. In a zone without a row nothing counts.
    fn count(&self, id: SegmentId) -> Option<SegmentCount> {
        let view = &self.layout.view;
        let at = view.zone_of(id.number)?;
        let row = view.row(at.zone);
        let set = row.source().or(row.target());
        let class = set.map_or(view.drives().class, |set| set.class);
        let nothing = PutCount::of(view.drives().class_of(class)?.shape);
        let (mut right, mut stored) = (PutCounts::default(), PutCounts::default());
        // While a row moves, a segment is in one set or the other, or partly in each.
        let mut placed: Option<PutCount> = None;
        for set in row.sets() {
            let mut places = PutCount::of(view.drives().class_of(set.class)?.shape);
            for location in view.locate(set, at.slot) {
                let number = location.place.drive;
                let Some(drive) = self.layout.any_drive(self.media, number) else { continue };
                let is_well = self.layout.drive(self.media, number).is_some();
                // What was put before a place took that of a lost one is not there yet.
                if is_well && !row.is_replaced(&location.place) {
                    places.strips.add(location.strip);
                }
                let is_read = view.drives().drive(number).is_some_and(|it| is_member(it.state));
                let label = self.label_on(drive, id, &location).filter(|_| is_read);
                let Some(label) = label else { continue };
                stored.add(&label);
                if is_well {
                    right.add(&label);
                }
            }
            placed = placed.into_iter().chain([places]).min_by_key(PutCount::spare);
        }
        let best = |counts: &PutCounts| counts.best().unwrap_or(nothing);
        let (right, stored) = (best(&right), best(&stored));
        let placed = placed.unwrap_or(nothing);
        Some(SegmentCount { id, zone: at.zone, right, stored, placed })
    }

    /// A strip of a segment of this life that is nowhere, and that no put said to have left out (STRIP-CENSUS-4).
    fn forgotten(&self, id: SegmentId, left_out: &[LeftOutStrip]) -> Option<String> {
        let view = &self.layout.view;
        let at = view.zone_of(id.number)?;
        let row = view.row(at.zone);
        let set = row.target().filter(|_| row.source().is_none())?;
        let is_forgotten = |location: &StripLocation| {
            let is_listed =
                left_out.iter().any(|it| it.zone == at.zone && it.place == location.place);
            let drive = self.layout.any_drive(self.media, location.place.drive);
            let is_there = drive.is_some_and(|drive| self.label_on(drive, id, location).is_some());
            !is_listed && !is_there
        };
        let location = view.locate(set, at.slot).find(is_forgotten)?;
        let (zone, strip, drive) = (at.zone, location.strip, location.place.drive);
        let slot = id.number;
        Some(format!(
            "strip {strip} of segment {slot} in zone {zone} is not on drive {drive}, and on no list"
        ))
    }

    /// The label of a strip that is right: it belongs where it is, and its bytes are those that it speaks of.
    fn label_on(
        &self,
        drive: &SimDrive,
        id: SegmentId,
        location: &StripLocation,
    ) -> Option<StripLabel> {
        let units = drive.units();
        let start = units.start + location.offset;
        let behind = start + u64::from(LABEL_BYTES);
        let label = StripLabel::decode(&units.medium.visible(start..behind)).ok()?;
        let geometry = &location.geometry;
        let is_its = label.pool == self.pool
            && label.slot == id.number
            && label.generation == id.generation
            && label.shape == geometry.shape
            && label.strip == location.strip
            && label.place == location.place.place
            && label.tenancy == location.place.tenancy
            && (label.drive == location.place.drive || Some(label.drive) == location.former)
            && label.data_bytes == geometry.data_bytes(location.strip, label.used_bytes);
        if !is_its {
            return None;
        }
        let sum = label.strip_checksums.get(usize::from(label.strip)).copied()?;
        let bytes = units.medium.visible(behind..behind + u64::from(label.data_bytes));
        // A strip behind the end of its segment has no bytes, and 0 for a sum.
        let is_right = if bytes.is_empty() { sum == 0 } else { payload_checksum(&bytes) == sum };
        is_right.then_some(label)
    }
}

/// Strips by what all strips of one put have in common. While a row moves, some are in one set only.
#[derive(Default)]
struct PutCounts(BTreeMap<Vec<u64>, PutCount>);

/// Strips of one put, or places for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutCount {
    shape: StripeShape,
    strips: StripIndexes,
}

impl PutCount {
    fn of(shape: StripeShape) -> Self {
        Self { shape, strips: StripIndexes::default() }
    }

    fn count(&self) -> usize {
        self.strips.count()
    }

    /// How many can be lost; `None` where too few are there.
    fn spare(&self) -> Option<usize> {
        self.count().checked_sub(self.shape.data().into())
    }

    fn is_whole(&self) -> bool {
        self.count() >= self.shape.strips()
    }
}

impl PutCounts {
    fn add(&mut self, label: &StripLabel) {
        let put = self.0.entry(label.strip_checksums.to_vec());
        put.or_insert_with(|| PutCount::of(label.shape)).strips.add(label.strip);
    }

    /// The put that can lose most strips.
    fn best(&self) -> Option<PutCount> {
        self.0.values().copied().max_by_key(|put| (put.spare(), put.count()))
    }
}

/// A set of indexes of strips.
#[derive(Clone, Copy, Default, Debug)]
struct StripIndexes(u16);

impl StripIndexes {
    fn add(&mut self, strip: u8) {
        self.0 |= 1 << strip;
    }

    fn count(&self) -> usize {
        self.0.count_ones() as usize
    }
}

#[cfg(test)]
pub(crate) mod tests;
