//! Segments as stripes over drives (3.1 to 3.3).
//!
//! ```text
//!  put ──▶ target of the row ──▶ label + strip to each drive, at once ──▶ failed drives: table first ──▶ Ok
//!  get ──▶ the strip that has the range ──▶ else k others' columns ──▶ else strips by label and sum
//! ```
//!
//! STRIPE-1. A put writes all strips of `to`, or else of `from`.
//! STRIPE-2. Zones with strips left out are on the repair list: puts tell of them, and after an opening rows do, as
//!     strips are left out only where the table says that their drive failed.
//! STRIPE-3. A stripe is never changed in part: all strips of a put have one generation and one set of sums.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use varve_media::{
    Error, IoFuture, Result, SegmentGeometry, SegmentId, SegmentStore, ZoneContents,
};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::limits::MEDIA_ALIGN;
use varve_types::{Generation, SegmentNumber, ShardId};

use crate::class::LABEL_BYTES;
use crate::decode::{SlotContents, SlotReader};
use crate::format::{Row, RowState, StripForm, StripPlace, StripSet};
use crate::handles::DriveHandles;
use crate::ids::ZoneIndex;
use crate::mover::Mover;
use crate::repair::{RepairControl, RepairMedia};
use crate::stripe::StripCodes;
use crate::tables::TablesHandle;
use crate::view::{LayoutView, StripLocation, ZoneSlot};

mod moves;
mod pieces;
mod put;
mod suspects;

use moves::SlotMoves;
use pieces::{RangeRequest, aligned};
use put::StripeWriter;
use suspects::SuspectSegments;

/// A strip that a put left out, as its drive could not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOutStrip {
    /// The zone.
    pub zone: ZoneIndex,
    /// The place that lacks it.
    pub place: StripPlace,
}

/// Segments of one thread. Clones share them.
#[derive(Clone)]
pub struct StripedSegments {
    inner: Rc<SegmentsInner>,
    /// `None` in those of mover and scrub themselves, so that these do not hold each other.
    repair: Option<Rc<ShardRepair>>,
}

/// The repair of a shard's zones, from when the shard says what they hold until its media go.
struct ShardRepair {
    shard: ShardId,
    control: Arc<RepairControl>,
    mover: RefCell<Option<Mover>>,
}

struct SegmentsInner {
    reader: SlotReader,
    writer: StripeWriter,
    handles: Rc<DriveHandles>,
    tables: Rc<TablesHandle>,
    moves: SlotMoves,
    suspects: SuspectSegments,
    geometry: SegmentGeometry,
}

impl StripedSegments {
    /// Over the drives and tables of this thread.
    #[must_use]
    pub fn new(handles: Rc<DriveHandles>, tables: Rc<TablesHandle>) -> Self {
        let codes = StripCodes::default();
        let view = tables.view();
        let table = view.drives();
        let geometry = SegmentGeometry {
            segment_bytes: table.segment_bytes,
            // Zones of which not all slots have a number are none that a pool's root could name.
            segment_count: table.zones_max.saturating_mul(table.zone_segments),
        };
        let reader = SlotReader::new(Rc::clone(&handles), codes.clone());
        let writer = StripeWriter::new(Rc::clone(&handles), Rc::clone(&tables), codes);
        let moves = SlotMoves::default();
        let suspects = SuspectSegments::new(Rc::clone(&handles));
        let inner = SegmentsInner { reader, writer, handles, tables, moves, suspects, geometry };
        Self { inner: Rc::new(inner), repair: None }
    }

    /// The same for a shard, whose zones are moved and scrubbed once it has opened.
    pub(crate) fn of_shard(&self, shard: ShardId, control: &Arc<RepairControl>) -> Self {
        let (control, mover) = (Arc::clone(control), RefCell::default());
        let repair = ShardRepair { shard, control, mover };
        Self { inner: Rc::clone(&self.inner), repair: Some(Rc::new(repair)) }
    }

    /// Has repair leave time for clients on the drives of a slot: whichever of them it is read from.
    fn note_use(&self, number: SegmentNumber) {
        let Some(repair) = &self.repair else { return };
        let view = self.inner.tables.view();
        let Some(ZoneSlot { zone, .. }) = view.zone_of(number) else { return };
        let now = self.inner.handles.reactor().boot_time();
        for place in view.row(zone).sets().flat_map(|set| set.places.iter()) {
            repair.control.budget().client_uses(place.drive, now);
        }
    }

    /// Reads by labels, for the mover and scrub.
    #[must_use]
    pub fn reader(&self) -> &SlotReader {
        &self.inner.reader
    }

    /// Segments of which reads of this thread met something wrong.
    pub(crate) fn suspects(&self) -> &SuspectSegments {
        &self.inner.suspects
    }

    /// Takes the strips that puts of this thread left out since the last call: zones for the repair list (STRIPE-2).
    #[must_use]
    pub fn take_left_out(&self) -> Vec<LeftOutStrip> {
        self.inner.writer.take_left_out()
    }

    /// Says that a slot of a zone that moves is filled in the set that its row names as `to` now: the mover calls it
    /// once all its strips were read back.
    pub fn mark_filled(&self, id: SegmentId) {
        let view = self.inner.tables.view();
        let Some(ZoneSlot { zone, .. }) = view.zone_of(id.number) else { return };
        if let RowState::Moving { to, .. } = &view.row(zone).state {
            self.inner.note_set(id, to);
        }
    }

    /// Whether the slot is known to be filled in `to`, by a put or by [`Self::mark_filled`].
    #[must_use]
    pub fn is_known_filled(&self, id: SegmentId) -> bool {
        let view = self.inner.tables.view();
        let Some(ZoneSlot { zone, slot }) = view.zone_of(id.number) else { return false };
        match &view.row(zone).state {
            RowState::Moving { to, .. } => {
                self.inner.moves.is_filled(zone, slot, to, id.generation) == Some(true)
            }
            RowState::Empty | RowState::Still(_) => false,
        }
    }

    /// Takes room for all slots of a zone in a set.
    ///
    /// # Errors
    /// `NoSpace` of a medium; other ones fail their drives.
    pub(crate) async fn take_room(&self, view: &LayoutView, set: &StripSet) -> Result<()> {
        self.inner.writer.allocate_in(view, set, 0..view.drives().zone_segments).await
    }

    /// Returns once no put of this thread that began before the call is under way in `zone`. To be awaited between the
    /// row that names `to` and the last look at what is filled: such a put may have gone to `from` (MOVER-4).
    pub async fn puts_before_now(&self, zone: ZoneIndex) {
        self.inner.writer.puts_before_now(zone).await;
    }
}

impl SegmentsInner {
    fn check_range(&self, id: SegmentId, offset: u64, len: u64) -> Result<()> {
        let is_inside = offset.saturating_add(len) <= u64::from(self.geometry.segment_bytes);
        if id.number.0 < self.geometry.segment_count && is_inside {
            return Ok(());
        }
        Err(Error::OutOfRange { segment: id.number, offset, len })
    }

    /// Takes in that all strips of a slot are in `set`.
    fn note_set(&self, id: SegmentId, set: &StripSet) {
        let view = self.tables.view();
        let Some(ZoneSlot { zone, slot }) = view.zone_of(id.number) else { return };
        if let RowState::Moving { to, .. } = &view.row(zone).state {
            // A put that began before the row moved went to `from`.
            self.moves.mark(zone, slot, to, id.generation, to == set);
        }
        self.moves.forget_still(&view);
    }

    /// The set that has a slot: where its zone moves, `to` if it is filled there.
    async fn set_of<'v>(&self, view: &'v LayoutView, row: &'v Row, id: SegmentId) -> &'v StripSet {
        let (from, to) = match &row.state {
            RowState::Moving { from, to, .. } => (from, to),
            RowState::Still(set) => return set,
            RowState::Empty => unreachable!("callers look first"),
        };
        let ZoneSlot { zone, slot } = view.zone_of(id.number).expect("callers check the range");
        let is_filled = match self.moves.is_filled(zone, slot, to, id.generation) {
            Some(known) => known,
            None => {
                let is_filled = self.reader.is_filled(view, to, id).await;
                // The row may have gone elsewhere meanwhile, and a put may have ended.
                let is_current = match &self.tables.view().row(zone).state {
                    RowState::Moving { to: now, .. } => now == to,
                    RowState::Empty | RowState::Still(_) => false,
                };
                if is_current {
                    self.moves.mark_unknown(zone, slot, to, id.generation, is_filled);
                }
                let known = self.moves.is_filled(zone, slot, to, id.generation);
                known.unwrap_or(is_filled)
            }
        };
        if is_filled { to } else { from }
    }

    async fn get(&self, id: SegmentId, offset: u32, len: u32) -> Result<BufSlice> {
        let view = self.tables.view();
        let ZoneSlot { zone, .. } = view.zone_of(id.number).expect("the range was checked");
        let row = view.row(zone);
        if row.state == RowState::Empty {
            return Ok(zeros(len));
        }
        let (id, locations) = if id.generation == Generation::ZERO {
            // Chains do not know the generation.
            let plain = row.sets().find(|set| set.form != StripForm::Striped);
            match (self.reader.current_put(&view, id.number).await?, plain) {
                (Some(current), _) => {
                    let generation = current.put.generation;
                    (SegmentId { generation, ..id }, current.locations)
                }
                (None, Some(set)) => (id, locations_of(&view, set, id.number)),
                (None, None) => return Ok(zeros(len)),
            }
        } else {
            let set = self.set_of(&view, row, id).await;
            (id, locations_of(&view, set, id.number))
        };
        if locations.iter().any(|location| !location.has_label) {
            return self.get_plain(&view, zone, &locations, offset, len).await;
        }
        let request = RangeRequest { id, locations: &locations, offset, len };
        match self.get_striped(&view, &request).await {
            Some(bytes) => Ok(bytes),
            // 3.3: whatever strips there are, of both sets.
            None => match self.reader.read_contents(&view, id, 0).await? {
                Some(contents) => {
                    self.suspect(row, id, &contents);
                    Ok(part_of(&contents.bytes, offset, len))
                }
                None => Ok(zeros(len)),
            },
        }
    }

    /// Has a segment looked at of which strips were met that do not count. Of a row that moves they need not.
    fn suspect(&self, row: &Row, id: SegmentId, contents: &SlotContents) {
        let is_wrong = contents.defects.iter().any(|defect| !defect.fault.is_absence());
        if let Some(put) = contents.put.as_ref().filter(|_| is_wrong && row.source().is_none()) {
            self.suspects.note(SegmentId { generation: put.generation, ..id });
        }
    }

    /// Of a slot without labels.
    async fn get_plain(
        &self,
        view: &LayoutView,
        zone: ZoneIndex,
        locations: &[StripLocation],
        offset: u32,
        len: u32,
    ) -> Result<BufSlice> {
        let location = locations.first();
        let drive = location.and_then(|it| self.reader.readable(view, it.place.drive));
        let Some((location, drive)) = location.zip(drive) else {
            return Err(Error::TooFewDrives { zone: Some(zone.0), present: 0, needed: 1 });
        };
        let range = aligned(offset, len);
        drive.note_client();
        let read = drive.read(location.offset + u64::from(range.start), range.len()).await?;
        Ok(part_of(&read.freeze(), offset - range.start, len))
    }

    /// 3.2: other columns first, then strips by label and sum, then other choices of those.
    async fn get_again(
        &self,
        id: SegmentId,
        offset: u32,
        len: u32,
        attempt: u32,
    ) -> Result<Option<BufSlice>> {
        let view = self.tables.view();
        let ZoneSlot { zone, slot } = view.zone_of(id.number).expect("the range was checked");
        let row = view.row(zone);
        if row.state == RowState::Empty || attempt == 0 {
            return Ok(None);
        }
        if attempt == 1 {
            self.suspects.note(id); // Its bytes were refused, or could not be read.
            let set = self.set_of(&view, row, id).await;
            // What this thread believes of the slot may be what was wrong.
            self.moves.forget(zone, slot);
            if set.form == StripForm::Striped && id.generation != Generation::ZERO {
                let locations = locations_of(&view, set, id.number);
                let request = RangeRequest { id, locations: &locations, offset, len };
                let decoded = self.decode_range(&view, &request).await;
                if decoded.is_some() {
                    return Ok(decoded);
                }
            }
        }
        // Attempt 1 must not end what attempt 2 could still read.
        let reading = attempt.saturating_sub(1).max(1);
        match self.reader.read_contents(&view, id, reading).await {
            Ok(Some(contents)) => {
                self.suspect(row, id, &contents);
                Ok(Some(part_of(&contents.bytes, offset, len)))
            }
            Ok(None) => self
                .get_plain_again(&view, row, id, attempt)
                .await
                .map(|contents| contents.map(|contents| part_of(&contents, offset, len))),
            Err(error) => Err(error),
        }
    }

    /// Where a zone moves out of slots without labels: those, once.
    async fn get_plain_again(
        &self,
        view: &LayoutView,
        row: &Row,
        id: SegmentId,
        attempt: u32,
    ) -> Result<Option<BufSlice>> {
        let is_leaving = row.source().is_some_and(|set| set.form != StripForm::Striped);
        if !is_leaving || attempt > 2 {
            return Ok(None);
        }
        let unknown = SegmentId { generation: Generation::ZERO, ..id };
        let contents = self.reader.read_contents(view, unknown, 0).await?;
        Ok(contents.filter(|contents| contents.put.is_none()).map(|contents| contents.bytes))
    }
}

impl SegmentStore for StripedSegments {
    fn geometry(&self) -> SegmentGeometry {
        self.inner.geometry
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        let last = SegmentNumber(first.0.saturating_add(count).saturating_sub(1));
        let id = SegmentId { number: last, generation: Generation::ZERO };
        let is_inside = self.inner.check_range(id, 0, 0);
        Box::pin(async move {
            is_inside?;
            if count == 0 {
                return Ok(());
            }
            self.inner.writer.allocate(first.0..first.0 + count).await
        })
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.note_use(id.number);
        let inner = Rc::clone(&self.inner);
        let is_inside = inner.check_range(id, 0, bytes.len() as u64);
        // MEDIA-4: it goes on when the future is dropped.
        Box::pin(self.inner.handles.reactor().spawn_join(async move {
            is_inside?;
            let set = inner.writer.put(id, &bytes).await?;
            inner.note_set(id, &set);
            Ok(())
        }))
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        self.note_use(id.number);
        let is_inside = self.inner.check_range(id, offset.into(), len.into());
        Box::pin(async move {
            is_inside?;
            self.inner.get(id, offset, len).await
        })
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(self.inner.writer.settle())
    }

    fn delete(&self, _id: SegmentId) -> IoFuture<'_, ()> {
        // Room stays taken: places are given back as a whole.
        Box::pin(std::future::ready(Ok(())))
    }

    fn domain(&self, number: SegmentNumber) -> Option<u32> {
        let view = self.inner.tables.view();
        let ZoneSlot { zone, slot } = view.zone_of(number)?;
        let set = view.row(zone).target()?;
        if view.class_of(set).shape.parity() > 0 {
            return None;
        }
        let location = view.locate(set, slot).next()?;
        Some(location.place.drive.get().into())
    }

    fn get_again(
        &self,
        id: SegmentId,
        offset: u32,
        len: u32,
        attempt: u32,
    ) -> IoFuture<'_, Option<BufSlice>> {
        let is_inside = self.inner.check_range(id, offset.into(), len.into());
        Box::pin(async move {
            is_inside?;
            self.inner.get_again(id, offset, len, attempt).await
        })
    }

    fn complete(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        let inner = Rc::clone(&self.inner);
        let is_inside = inner.check_range(id, 0, bytes.len() as u64);
        Box::pin(self.inner.handles.reactor().spawn_join(async move {
            is_inside?;
            if let Some(set) = inner.writer.complete(&inner.reader, id, &bytes).await? {
                inner.note_set(id, &set);
            }
            Ok(())
        }))
    }

    /// Starts the mover of the shard; one of an earlier opening ends.
    fn set_contents(&self, contents: Rc<dyn ZoneContents>) {
        let Some(repair) = &self.repair else { return };
        let media = RepairMedia {
            handles: Rc::clone(&self.inner.handles),
            tables: Rc::clone(&self.inner.tables),
            segments: Self { inner: Rc::clone(&self.inner), repair: None },
        };
        let mover = Mover::start(media, repair.shard, contents, Arc::clone(&repair.control));
        repair.mover.replace(Some(mover));
    }
}

fn locations_of(view: &LayoutView, set: &StripSet, slot: SegmentNumber) -> Vec<StripLocation> {
    let slot = view.zone_of(slot).expect("the range was checked").slot;
    view.locate(set, slot).collect()
}

/// `len` bytes at `offset`, as far as there are so many, and zeros behind.
fn part_of(bytes: &BufSlice, offset: u32, len: u32) -> BufSlice {
    let (from, len) = (offset as usize, len as usize);
    if from + len <= bytes.len() {
        return bytes.slice(from..from + len);
    }
    let mut part = AlignedBuf::zeroed(len);
    let there = bytes.get(from..).unwrap_or_default();
    part.iter_mut().zip(there).for_each(|(to, byte)| *to = *byte);
    part.freeze()
}

fn zeros(len: u32) -> BufSlice {
    AlignedBuf::zeroed(len as usize).freeze()
}

const _: () = assert!(LABEL_BYTES as usize == MEDIA_ALIGN);

#[cfg(test)]
mod tests;
