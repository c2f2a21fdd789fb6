//! Writes stripes: puts, what a stored segment lacks, and room for slots. Which drives fail meanwhile is in the table
//! before anything is answered (KEEPER-1).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use varve_media::planted::{Bug, planted};
use varve_media::{Error, Persist, Result, SegmentId};
use varve_reactor::Notify;
use varve_stdx::BufSlice;
use varve_types::SegmentNumber;

use super::LeftOutStrip;
use crate::change::Change;
use crate::class::LABEL_BYTES;
use crate::decode::SlotReader;
use crate::exposure::is_readable;
use crate::format::{DriveState, MoveReason, Row, StripForm, StripSet};
use crate::handles::{DriveHandle, DriveHandles};
use crate::ids::{DriveNumber, Epoch, ZoneIndex};
use crate::stripe::{StripCodes, Stripe};
use crate::tables::TablesHandle;
use crate::view::{LayoutView, StripLocation, ZoneSlot};
use crate::written_drive::{fail_drive, written_drive};

/// Rows of a zone that a put follows, one after the other, before it gives up.
const PUT_TRIES: u32 = 8;

/// Strips that were left out and nobody took note of; further ones are found from rows.
const LEFT_OUT_MAX: usize = 4096;

/// How one strip's write ended.
struct StripOutcome {
    location: StripLocation,
    result: Result<()>,
}

/// Writes of one thread.
pub(super) struct StripeWriter {
    handles: Rc<DriveHandles>,
    tables: Rc<TablesHandle>,
    codes: StripCodes,
    left_out: RefCell<Vec<LeftOutStrip>>,
    /// Zones for which other drives were asked for, in the epoch of the table.
    asked: RefCell<BTreeSet<ZoneIndex>>,
    asked_epoch: Cell<Epoch>,
    /// Puts under way by their number.
    puts: RefCell<BTreeMap<u64, ZoneIndex>>,
    next_put: Cell<u64>,
    put_ended: Notify,
}

/// A put under way.
struct PutGuard<'a> {
    writer: &'a StripeWriter,
    number: u64,
}

impl Drop for PutGuard<'_> {
    fn drop(&mut self) {
        self.writer.puts.borrow_mut().remove(&self.number);
        self.writer.put_ended.notify_all();
    }
}

impl StripeWriter {
    pub(super) fn new(
        handles: Rc<DriveHandles>,
        tables: Rc<TablesHandle>,
        codes: StripCodes,
    ) -> Self {
        Self {
            handles,
            tables,
            codes,
            left_out: RefCell::default(),
            asked: RefCell::default(),
            asked_epoch: Cell::default(),
            puts: RefCell::default(),
            next_put: Cell::new(0),
            put_ended: Notify::new(),
        }
    }

    pub(super) fn take_left_out(&self) -> Vec<LeftOutStrip> {
        self.left_out.take()
    }

    pub(super) async fn puts_before_now(&self, zone: ZoneIndex) {
        let before: Vec<u64> = {
            let puts = self.puts.borrow();
            puts.iter().filter(|(_, of)| **of == zone).map(|(number, _)| *number).collect()
        };
        loop {
            let ended = self.put_ended.notified();
            if !before.iter().any(|number| self.puts.borrow().contains_key(number)) {
                return;
            }
            ended.await;
        }
    }

    fn begin_put(&self, zone: ZoneIndex) -> PutGuard<'_> {
        let number = self.next_put.get();
        self.next_put.set(number + 1);
        self.puts.borrow_mut().insert(number, zone);
        PutGuard { writer: self, number }
    }

    /// Writes a slot, and says to which set. Durable on return on all strips but those of drives that the table says
    /// failed.
    pub(super) async fn put(&self, id: SegmentId, bytes: &BufSlice) -> Result<StripSet> {
        let zone = zone_slot(&self.tables.view(), id.number).zone;
        // Over all tries: who waits for it waits until it is nowhere else than it says (MOVER-4).
        let _put = self.begin_put(zone);
        self.place(zone).await?;
        self.leave_unfit(zone).await;
        for _ in 0..PUT_TRIES {
            let view = self.tables.view();
            let Some(set) = put_set(view.row(zone)).cloned() else {
                return Err(Error::NoSpace { path: format!("zone {zone}") });
            };
            match set.form {
                StripForm::Striped => self.put_striped(&view, &set, id, bytes).await?,
                StripForm::Slots { .. } => self.put_plain(&view, &set, id, bytes).await?,
            }
            // A row that moved on meanwhile may not have what was written.
            if self.tables.view().row(zone).sets().any(|now| *now == set) {
                return Ok(set);
            }
        }
        let reason = format!("zone {zone} moved on {PUT_TRIES} times while a segment was written");
        Err(Error::Corrupt { what: "row", path: "the tables of the pool".into(), reason })
    }

    async fn put_striped(
        &self,
        view: &LayoutView,
        set: &StripSet,
        id: SegmentId,
        bytes: &BufSlice,
    ) -> Result<()> {
        let slot = zone_slot(view, id.number).slot;
        let geometry = view.drives().geometry(view.class_of(set).shape);
        let stripe = Stripe::new(&self.codes, geometry, bytes); // STRIPE-3
        let mut locations: Vec<StripLocation> = view.locate(set, slot).collect();
        if planted(Bug::PutInPart) {
            let seems_there = self.seem_there(view, &stripe, &locations).await;
            locations.retain(|location| !seems_there.contains(&location.strip));
        }
        self.write_strips(view, set, id, &stripe, &locations).await
    }

    /// Writes the strips at `locations`, of which those of `set` that are not among them are there already.
    async fn write_strips(
        &self,
        view: &LayoutView,
        set: &StripSet,
        id: SegmentId,
        stripe: &Stripe,
        locations: &[StripLocation],
    ) -> Result<()> {
        let zone = zone_slot(view, id.number).zone;
        let mut writes = Vec::new();
        for location in locations {
            let Some(drive) = self.written(location.place.drive).await? else { continue };
            let parts = stripe.parts(view, id, location);
            drive.note_client();
            writes.push(async move {
                let result = drive.write(location.offset, parts, Persist::Durable).await;
                StripOutcome { location: *location, result }
            });
        }
        let outcomes = join_all(writes).await;
        self.fail_drives(&outcomes).await?;
        let now = self.tables.view();
        let lacking = set.places.iter().filter(|place| !is_readable(now.drives(), place.drive));
        let lacking: Vec<LeftOutStrip> =
            lacking.map(|place| LeftOutStrip { zone, place: *place }).collect();
        if !lacking.is_empty() || locations.len() < set.places.len() {
            self.handles.note_partial_stripe();
        }
        let (present, needed) = (set.places.len() - lacking.len(), view.class_of(set).shape.data());
        self.note_left_out(lacking);
        if present < usize::from(needed) {
            let needed = usize::from(needed);
            return Err(Error::TooFewDrives { zone: Some(zone.0), present, needed });
        }
        Ok(())
    }

    async fn put_plain(
        &self,
        view: &LayoutView,
        set: &StripSet,
        id: SegmentId,
        bytes: &BufSlice,
    ) -> Result<()> {
        let ZoneSlot { zone, slot } = zone_slot(view, id.number);
        let none = Error::TooFewDrives { zone: Some(zone.0), present: 0, needed: 1 };
        let Some(location) = view.locate(set, slot).next() else { return Err(none) };
        let Some(drive) = self.written(location.place.drive).await? else { return Err(none) };
        drive.note_client();
        let result = drive.write(location.offset, vec![bytes.clone()], Persist::Durable).await;
        let is_failed = result.is_err();
        self.fail_drives(&[StripOutcome { location, result }]).await?;
        if is_failed { Err(none) } else { Ok(()) }
    }

    /// Writes the strips that a segment lacks in the target of its row, which it returns. `None` where the segment
    /// cannot lack any.
    pub(super) async fn complete(
        &self,
        reader: &SlotReader,
        id: SegmentId,
        bytes: &BufSlice,
    ) -> Result<Option<StripSet>> {
        let zone = zone_slot(&self.tables.view(), id.number).zone;
        let _put = self.begin_put(zone);
        let view = self.tables.view();
        let set = view.row(zone).target().filter(|set| set.form == StripForm::Striped);
        let Some(set) = set else { return Ok(None) };
        let matched = reader.match_put(&view, id, bytes).await?;
        let contents = matched.contents.unwrap_or_else(|| bytes.clone());
        let is_segment =
            !contents.is_empty() && contents.len().is_multiple_of(LABEL_BYTES as usize);
        if !is_segment {
            let len = contents.len() as u64;
            return Err(Error::OutOfRange { segment: id.number, offset: 0, len });
        }
        let geometry = view.drives().geometry(view.class_of(set).shape);
        let stripe = Stripe::new(&self.codes, geometry, &contents);
        let slot = zone_slot(&view, id.number).slot;
        // SCRUB-1: what is whole is not touched, so the last good copy is never the one that is written.
        let lacking = view.locate(set, slot).filter(|location| !matched.whole.contains(location));
        let lacking: Vec<StripLocation> = lacking.collect();
        self.write_strips(&view, set, id, &stripe, &lacking).await?;
        Ok(Some(set.clone()))
    }

    /// Takes room for slots, on all drives that have strips of them.
    pub(super) async fn allocate(&self, slots: Range<u32>) -> Result<()> {
        let mut next = slots.start;
        while next < slots.end {
            let ZoneSlot { zone, slot } = zone_slot(&self.tables.view(), SegmentNumber(next));
            self.place(zone).await?;
            self.leave_unfit(zone).await;
            let view = self.tables.view();
            let count = (view.drives().zone_segments - slot).min(slots.end - next);
            let Some(set) = view.row(zone).target() else {
                return Err(Error::NoSpace { path: format!("zone {zone}") });
            };
            self.allocate_in(&view, set, slot..slot + count).await?;
            next += count;
        }
        Ok(())
    }

    /// Takes room for slots in a set.
    pub(super) async fn allocate_in(
        &self,
        view: &LayoutView,
        set: &StripSet,
        slots: Range<u32>,
    ) -> Result<()> {
        let mut takes = Vec::new();
        // Slots of an earlier format may lie on two drives.
        let split = match set.form {
            StripForm::Slots { split } => u32::from(split).clamp(slots.start, slots.end),
            StripForm::Striped => slots.end,
        };
        for slots in [slots.start..split, split..slots.end] {
            if slots.is_empty() {
                continue;
            }
            for location in view.locate(set, slots.start) {
                let geometry = location.geometry;
                let stride = if location.has_label {
                    geometry.slot_stride()
                } else {
                    geometry.segment_bytes.into()
                };
                let len = stride * slots.len() as u64;
                let Some(drive) = self.written(location.place.drive).await? else { continue };
                takes.push(async move {
                    let result = drive.allocate(location.offset, len).await;
                    StripOutcome { location, result }
                });
            }
        }
        let outcomes = join_all(takes).await;
        self.fail_drives(&outcomes).await
    }

    /// Makes durable what reads see now: a drive that cannot is not read any more.
    pub(super) async fn settle(&self) -> Result<()> {
        let view = self.tables.view();
        let readable = view.drives().drives.iter().filter(|drive| drive.state.is_readable());
        let drives = readable.filter_map(|drive| self.handles.get(drive.number));
        let flushes = drives.map(|drive| async move { (drive.number(), drive.flush().await) });
        for (drive, result) in join_all(flushes).await {
            if let Err(error) = result {
                fail_drive(&self.tables, drive, error).await?;
            }
        }
        Ok(())
    }

    /// Gives a zone a row, if it has none.
    async fn place(&self, zone: ZoneIndex) -> Result<()> {
        if self.tables.view().row(zone).target().is_none() {
            self.tables.change(Change::Place { zone }).await?;
        }
        Ok(())
    }

    /// Asks for other places where a strip would go to a drive that is slow or not live, once for each table. Where
    /// there is no room, the put goes on with what there is.
    async fn leave_unfit(&self, zone: ZoneIndex) {
        let view = self.tables.view();
        let Some(set) = view.row(zone).target() else { return };
        let table = view.drives();
        if self.asked_epoch.replace(table.epoch) != table.epoch {
            self.asked.borrow_mut().clear();
        }
        let (mut avoid, mut why) = (Vec::new(), MoveReason::SlowDrive);
        for place in &set.places {
            match table.drive(place.drive) {
                Some(drive) if drive.state == DriveState::Live && drive.is_slow => {
                    avoid.push(place.drive);
                }
                // What leaves is drained, and written until then.
                Some(drive) if drive.state.is_readable() => {}
                Some(_) | None => {
                    avoid.push(place.drive);
                    why = MoveReason::Rebuild;
                }
            }
        }
        if avoid.is_empty() || !self.asked.borrow_mut().insert(zone) {
            return;
        }
        let change = Change::Move { zone, why, class: None, avoid, prefer: None };
        if let Err(error) = self.tables.change(change).await {
            tracing::debug!(zone = zone.0, %error, "a zone stays on drives that are slow or failed");
        }
    }

    async fn written(&self, drive: DriveNumber) -> Result<Option<Rc<DriveHandle>>> {
        written_drive(&self.handles, &self.tables, drive).await
    }

    /// Has the drives fail whose writes did, before anything counts without them (KEEPER-1).
    async fn fail_drives(&self, outcomes: &[StripOutcome]) -> Result<()> {
        let mut refusal = None;
        for outcome in outcomes {
            if let Err(error) = &outcome.result {
                let drive = outcome.location.place.drive;
                if let Err(error) = fail_drive(&self.tables, drive, error.clone()).await {
                    refusal.get_or_insert(error);
                }
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// STRIPE-2
    fn note_left_out(&self, lacking: Vec<LeftOutStrip>) {
        if planted(Bug::DegradedForgotten) {
            return;
        }
        let mut left_out = self.left_out.borrow_mut();
        for strip in lacking {
            if left_out.len() < LEFT_OUT_MAX && !left_out.contains(&strip) {
                left_out.push(strip);
            }
        }
    }

    /// Only of a planted bug: strips whose place has the same bytes, of whatever put.
    async fn seem_there(
        &self,
        view: &LayoutView,
        stripe: &Stripe,
        locations: &[StripLocation],
    ) -> Vec<u8> {
        let mut there = Vec::new();
        for location in locations {
            let Some(drive) = self.handles.get(location.place.drive) else { continue };
            let Ok(bytes) = drive.read(location.offset, LABEL_BYTES as usize).await else {
                continue;
            };
            let Ok(label) = crate::format::StripLabel::decode(&bytes) else { continue };
            let at = usize::from(location.strip);
            let is_same = label.strip_checksums.get(at) == stripe.sums().get(at);
            if is_same && label.pool == view.drives().pool {
                there.push(location.strip);
            }
        }
        there
    }
}

/// Where a put goes (STRIPE-1).
fn put_set(row: &Row) -> Option<&StripSet> {
    if planted(Bug::PutToOldPlaces) {
        return row.source().or(row.target());
    }
    row.target()
}

fn zone_slot(view: &LayoutView, slot: SegmentNumber) -> ZoneSlot {
    view.zone_of(slot).expect("callers check that the slot is one of the store's")
}
