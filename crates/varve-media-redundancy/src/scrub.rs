//! Reads everything that zones hold, and what stands in several copies beside it: labels against each other, sums of
//! strips, parity of one zone in 16, pages by the word of their owner. Called by the thread that has the zones, when it
//! has nothing to move.
//!
//! What is wrong is counted against its drive, its owner is asked to move what is live, and the pool has had a loss. A
//! whole walk without one is what proves redundancy after the last.
//!
//! SCRUB-1. Nothing is written where strips lie: the last good copy is never the one that is being changed.

use std::sync::Arc;

use varve_media::planted::{Bug, planted};
use varve_media::{HeldSegment, Persist, SegmentId};
use varve_types::ErrorKind;

use crate::budget::RepairUrgency;
use crate::change::Change;
use crate::decode::{ATTEMPTS_MAX, SlotContents, StripDefect};
use crate::format::{Row, RowState};
use crate::ids::{DriveNumber, ZoneIndex};
use crate::repair::{
    DriveFaults, RepairThread, ScrubBoard, ScrubClosing, ScrubCursor, ScrubFindings, ScrubPart,
};
use crate::stripe::Stripe;
use crate::view::LayoutView;

mod copies;
mod suspects;

use copies::CopiesCheck;

/// Zones of which one has its parity computed.
const PARITY_ZONES: u64 = 16;

/// How a segment was found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentFinding {
    /// All of its strips are right.
    Right,
    /// So many strips are wrong.
    Wrong(u64),
    /// It could not be looked at, or lacks strips of drives that failed.
    Gap,
    /// It is not there any more.
    Gone,
    /// It is not there yet.
    NotPut,
}

impl RepairThread {
    /// Scrubs a zone, where a scrub is under way; returns whether there was something to do.
    pub(crate) async fn scrub_some(&self) -> bool {
        let Some(shard) = self.shard else { return false };
        let view = self.media.tables.view();
        let (loss, unix_ms) = (view.drives().loss_epoch, self.reactor.unix_time_ms());
        let has_loss = view.drives().walked_epoch != loss;
        // What is moved comes before proof that nothing is lost, and what waits for room does not end.
        self.control.start_due_walk(has_loss && self.has_no_work(), unix_ms);
        let part = self.control.with_scrub(|board| board.part_of(shard, loss, unix_ms));
        let Some(part) = part else {
            self.scrub.replace(None);
            return false;
        };
        let cursor = self.scrub.take().filter(|cursor| cursor.part == part);
        let mut cursor = cursor.unwrap_or_else(|| {
            let mut zones: Vec<_> = view.rows().map(|(zone, _)| zone).collect();
            zones.reverse();
            ScrubCursor { part, zones, has_zones: false }
        });
        if let Some(zone) = self.next_zone(&mut cursor) {
            self.scrub_zone(&view, &cursor.part, zone).await;
            self.scrub.replace(Some(cursor));
            return true;
        }
        let knows = || view.rows().any(|(zone, _)| self.held(zone).is_some());
        if view.rows().next().is_some() && !(cursor.has_zones && knows()) {
            return false; // Its owner does not know yet what it holds, or not any more.
        }
        let closing = self.control.with_scrub(|board| board.end_part(cursor.part.number, shard));
        if let Some(closing) = closing {
            self.close_scrub(&view, closing).await;
        }
        self.renew_facts();
        true
    }

    /// The next zone that this thread has.
    fn next_zone(&self, cursor: &mut ScrubCursor) -> Option<ZoneIndex> {
        while let Some(zone) = cursor.zones.pop() {
            if self.held(zone).is_some() {
                cursor.has_zones = true;
                return Some(zone);
            }
        }
        None
    }

    async fn scrub_zone(&self, view: &Arc<LayoutView>, part: &ScrubPart, zone: ZoneIndex) {
        let row = view.row(zone);
        let drives = &part.request.drives;
        let is_meant = |drive: &DriveNumber| row.sets().any(|set| set.has_drive(*drive));
        if !drives.is_empty() && !drives.iter().any(is_meant) {
            return;
        }
        let held = self.held(zone);
        let is_still = matches!(row.state, RowState::Still(_));
        // What moves is looked at by the mover, and not all of it.
        let has_gaps = held.is_none() || !is_still;
        let mut findings = ScrubFindings { has_gaps, ..ScrubFindings::default() };
        let has_parity =
            part.request.is_deep || u64::from(zone.0) % PARITY_ZONES == part.number % PARITY_ZONES;
        for held in held.unwrap_or_default().iter().filter(|_| is_still) {
            if self.is_over() {
                findings.has_gaps = true;
                break;
            }
            findings.segments += 1;
            findings.bytes += strip_bytes(view, row);
            match self.scrub_segment(view, zone, held, has_parity).await {
                SegmentFinding::Right | SegmentFinding::NotPut => {
                    self.unverified.borrow_mut().verify(held.id);
                }
                SegmentFinding::Wrong(strips) => findings.strips_bad += strips,
                SegmentFinding::Gap => findings.has_gaps = true,
                SegmentFinding::Gone => {}
            }
        }
        // The counts of all that were verified before prove nothing of what decays.
        let is_loss = findings.strips_bad > 0;
        if is_loss && self.media.tables.change(Change::Loss).await.is_err() {
            findings.has_gaps = true;
        }
        self.control.with_scrub(|board| board.add(part.number, findings));
    }

    /// Reads all strips of a segment, which is pinned meanwhile.
    async fn scrub_segment(
        &self,
        view: &Arc<LayoutView>,
        zone: ZoneIndex,
        held: &HeldSegment,
        has_parity: bool,
    ) -> SegmentFinding {
        let Some(_pin) = self.contents.pin(held.id) else { return SegmentFinding::Gone };
        let reader = self.reader(RepairUrgency::Scrub);
        let mut contents = reader.read_contents(view, held.id, 1).await;
        if matches!(contents, Ok(None)) {
            // It may be that its put was under way.
            self.media.segments.puts_before_now(zone).await;
            contents = reader.read_contents(view, held.id, 1).await;
        }
        if *self.media.tables.view().row(zone) != *view.row(zone) {
            return SegmentFinding::Gap; // Puts go elsewhere by now.
        }
        match contents {
            Ok(Some(contents)) => self.judge(view, held, &contents, has_parity).await,
            // What is put from now on is put to all strips by the tables of now.
            Ok(None) if !self.is_put(zone, held.id) => SegmentFinding::NotPut,
            Ok(None) => self.note_unreadable(held.id, 1),
            Err(_) if !self.is_put(zone, held.id) => SegmentFinding::Gap,
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                self.note_unreadable(held.id, 0);
                SegmentFinding::Gap
            }
            Err(_) => SegmentFinding::Gap,
        }
    }

    /// What is wrong with the strips of a segment that can be decoded.
    async fn judge(
        &self,
        view: &LayoutView,
        held: &HeldSegment,
        contents: &SlotContents,
        has_parity: bool,
    ) -> SegmentFinding {
        let (mut wrong, mut lacks) = (0, false);
        for defect in &contents.defects {
            let faults = defect.faults();
            lacks |= defect.fault.is_absence();
            wrong += faults.total();
            self.control.count_faults(faults);
            if faults.strips > 0 && !defect.fault.is_damage() {
                self.control.note_errors(faults.drive, 1); // The reader counts damage.
            }
        }
        if has_parity {
            wrong += self.count_parity(view, held.id, contents);
        }
        let must_be_whole = held.has_pages || contents.put.is_none();
        if must_be_whole && !self.contents.is_whole(held.id, &contents.bytes) {
            let other = self.has_whole_attempt(view, held.id).await;
            return if other {
                self.note_wrong(held.id, wrong.max(1))
            } else {
                self.note_unreadable(held.id, 1)
            };
        }
        if planted(Bug::RepairedInPlace) {
            self.repair_in_place(view, held.id, contents).await;
        }
        match (wrong, lacks) {
            (0, false) => SegmentFinding::Right,
            (0, true) => SegmentFinding::Gap,
            _ => self.note_wrong(held.id, wrong),
        }
    }

    /// Counts strips whose bytes are not those that follow from the data, although their labels say so.
    fn count_parity(&self, view: &LayoutView, id: SegmentId, contents: &SlotContents) -> u64 {
        let (Some(put), Some(at)) = (&contents.put, view.zone_of(id.number)) else { return 0 };
        let geometry = view.drives().geometry(put.shape);
        let stripe = Stripe::new(&self.codes, geometry, &contents.bytes);
        let Some(set) = view.row(at.zone).target() else { return 0 };
        let mut wrong = 0;
        for location in view.locate(set, at.slot) {
            let index = usize::from(location.strip);
            if stripe.sums().get(index) != put.strip_checksums.get(index) {
                let faults = DriveFaults { parity: 1, ..DriveFaults::none(location.place.drive) };
                self.control.count_faults(faults);
                self.control.note_errors(faults.drive, 1);
                wrong += 1;
            }
        }
        wrong
    }

    /// Whether the owner takes what some of the strips give.
    async fn has_whole_attempt(&self, view: &LayoutView, id: SegmentId) -> bool {
        let reader = self.reader(RepairUrgency::Scrub);
        for attempt in 2..ATTEMPTS_MAX {
            match reader.read_contents(view, id, attempt).await {
                Ok(Some(contents)) if self.contents.is_whole(id, &contents.bytes) => return true,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return false,
            }
        }
        false
    }

    fn note_wrong(&self, id: SegmentId, strips: u64) -> SegmentFinding {
        self.contents.relocate(id, "strips of it are wrong");
        self.distrust(id);
        SegmentFinding::Wrong(strips)
    }

    fn note_unreadable(&self, id: SegmentId, strips: u64) -> SegmentFinding {
        self.contents.relocate(id, "nothing right of it can be read");
        self.distrust(id);
        self.unverified.borrow_mut().lose(id);
        SegmentFinding::Wrong(strips)
    }

    /// What must not be done (SCRUB-1).
    async fn repair_in_place(&self, view: &LayoutView, id: SegmentId, contents: &SlotContents) {
        let Some(put) = &contents.put else { return };
        let stripe = Stripe::new(&self.codes, view.drives().geometry(put.shape), &contents.bytes);
        for StripDefect { location, .. } in &contents.defects {
            let Some(drive) = self.media.handles.get(location.place.drive) else { continue };
            let parts = stripe.parts(view, id, location);
            let written = drive.write(location.offset, parts, Persist::Durable).await;
            if let Err(error) = written {
                tracing::debug!(%error, "a strip cannot be written where it lies");
            }
        }
    }

    /// Looks at what stands in several copies beside strips; then the walk counts, if it was whole and all was right.
    async fn close_scrub(&self, view: &LayoutView, closing: ScrubClosing) {
        let CopiesCheck { faults, has_gaps } = copies::check_copies(self, view).await;
        let strips_bad = faults.iter().map(DriveFaults::total).sum();
        for faults in faults {
            self.control.count_faults(faults);
        }
        let findings = ScrubFindings { strips_bad, has_gaps, ..ScrubFindings::default() };
        self.control.with_scrub(|board| board.add(closing.number, findings));
        let is_clean = strips_bad == 0;
        if !is_clean {
            self.control.with_scrub(ScrubBoard::note_lasting_faults);
        }
        // What reads met while copies were looked at counts too (POOL-HEALTH-5).
        let is_whole = self.control.with_scrub(|board| board.is_whole(closing.number));
        let walked = closing.walked.filter(|_| is_clean && is_whole);
        let change = match walked {
            Some(began_with) => Some(Change::Walked { began_with }),
            None => (!is_clean).then_some(Change::Loss),
        };
        if let Some(change) = change {
            match self.media.tables.change(change).await {
                Ok(_) if walked.is_some() => self.control.note_mended(),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the end of a walk cannot be stored"),
            }
        }
        self.control.with_scrub(|board| board.close(closing.number));
    }
}

/// Bytes of a segment's strips and labels on all drives.
fn strip_bytes(view: &LayoutView, row: &Row) -> u64 {
    let bytes = row.target().map(|set| {
        let geometry = view.drives().geometry(view.class_of(set).shape);
        geometry.slot_stride() * set.places.len() as u64
    });
    bytes.unwrap_or_default()
}
