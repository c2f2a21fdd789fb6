//! Second copies of segments with metadata pages: written beside them, read when they are damaged, and what they are
//! repaired from.
//!
//! ```text
//!  a segment with pages is sealed ──▶ put in its place, and as it is in a free segment ──▶ the root names both
//!  a unit is damaged ──▶ read from the copy ──▶ reclaim moves what is live, the next checkpoint writes the rest anew
//! ```
//!
//! COPIES-1. A copy counts only for a reader whose checksum its bytes match: the one under which the unit is looked
//!     for. A root may name a copy that has been overwritten since.
//! COPIES-2. Copies take only what nobody needs: none is made while few segments are free, and none outlives a writer's
//!     need (`Space`). Nobody waits long for one, so that a drive that hangs holds up what lies on it alone; and one
//!     whose write fails closes nothing. Before a writer gets a copy at which nobody looked since the shard was opened,
//!     or a zone leaves with it, its original is read: those of damaged ones go last, and hold their zone.
//! COPIES-3. Nothing is repaired in place: what was read from a copy is moved as reclaim moves things, so that it has
//!     two copies elsewhere.
//! COPIES-4. Media that keep several copies themselves get none from here. What they had to read in another way is
//!     moved all the same, so that what is damaged is in use no longer.

mod state;

use std::rc::Rc;

use futures_util::future::{Either, select};
use varve_logstore::chain_reader::{
    decode_summary, read_summary, read_units, read_whole, summary_within, unit_bytes, unit_is_whole,
};
use varve_logstore::format::pointer::Location;
use varve_logstore::format::segment::{STRIP_HEADER_BYTES, StripHeader};
use varve_logstore::format::summary::{Codec, SummaryEntry, Unit};
use varve_logstore::planted::{Bug, planted};
use varve_logstore::space::SegmentState;
use varve_media::SegmentId;
use varve_reactor::{JoinHandle, Nanos};
use varve_stdx::BufSlice;
use varve_types::{Generation, SegmentNumber};

use crate::checkpoint::PUTS_MAX;
use crate::pool::Zone;
use crate::{Error, Result, Shard};

pub(crate) use state::CopyState;

/// Copies that a checkpoint makes, or compares, beside those of what it writes.
const COPIES_PER_CHECKPOINT: usize = 4;

/// Copies under way at once: what a drive that hangs keeps of memory.
const UNDER_WAY_MAX: usize = 2 * PUTS_MAX;

/// How long a checkpoint waits for a copy, so that its root can name it, or for a read of one: the next one can too.
const PATIENCE_NS: u64 = 1_000_000_000;

/// Why a segment is to be emptied that the media read in another way.
const READ_ELSEWHERE: &str = "some of it does not match its checksum where it is read first";

/// Units compared with their checksums before other tasks get a turn: some 50 µs of work.
const UNITS_PER_TURN: usize = 16;

/// A segment as it is stored, its header and its summary being whole.
pub(crate) struct StoredSegment {
    /// Empty where neither place can be read from end to end: units are fetched one by one then.
    pub(crate) bytes: BufSlice,
    pub(crate) entries: Vec<SummaryEntry>,
}

impl Shard {
    /// Bytes of a unit of metadata, from its segment or else from the segment's copy (COPIES-1).
    pub(crate) async fn stored_unit(
        &self,
        place: &Location,
    ) -> std::result::Result<BufSlice, varve_logstore::Error> {
        let error = match self.read_unit(place.segment, place).await {
            Ok(bytes) => return Ok(bytes),
            Err(error) => error,
        };
        let Some(copy) = self.copy_of(place.segment) else { return Err(error) }; // SPACE-COPIES-5
        let Ok(bytes) = self.read_unit(copy, place).await else { return Err(error) };
        self.note_damaged(place.segment, &error.to_string());
        Ok(bytes)
    }

    async fn read_unit(
        &self,
        segment: SegmentId,
        place: &Location,
    ) -> std::result::Result<BufSlice, varve_logstore::Error> {
        let unit = Unit {
            offset_512: place.offset_512,
            stored_len: place.stored_len,
            logical_512: 0,
            codec: Codec::Raw,
            checksum: place.checksum,
        };
        let mut read = read_units(&self.media.segments, segment, &[unit]).await?;
        if read.is_damaged && segment == place.segment {
            self.note_elsewhere(segment);
        }
        Ok(read.bytes.pop().expect("one unit was asked for"))
    }

    /// Under which name the copy of a segment is read.
    pub(crate) fn copy_of(&self, id: SegmentId) -> Option<SegmentId> {
        let slot = self.space.borrow().copy_of(id.number).filter(|_| !planted(Bug::PageCopyUnread));
        assert_ne!(slot, Some(id.number), "a copy lies elsewhere"); // SPACE-COPIES-3
        slot.map(|number| SegmentId { number, ..id })
    }

    /// Whether the media keep several copies of a segment themselves (COPIES-4).
    pub(crate) fn media_keep_copies(&self, number: SegmentNumber) -> bool {
        self.media.segments.domain(number).is_none()
    }

    /// Has reclaim empty a segment that the media had to read in another way (COPIES-4).
    pub(crate) fn note_elsewhere(&self, id: SegmentId) {
        self.note_damaged(id, READ_ELSEWHERE);
    }

    /// Has reclaim empty a segment that is damaged and can be read all the same: from its copy, or as the media keep
    /// several (COPIES-3, COPIES-4).
    pub(crate) fn note_damaged(&self, id: SegmentId, reason: &str) {
        let has_copy = self.space.borrow_mut().need_copy(id.number);
        if has_copy || self.media_keep_copies(id.number) {
            self.relocate(id, reason);
        }
    }

    /// Has reclaim move what is live in a segment elsewhere (COPIES-3).
    pub(crate) fn relocate(&self, id: SegmentId, reason: &str) {
        if !self.config.mends_pages {
            return;
        }
        let known =
            self.checkpoint.metadata.copies.damaged.borrow_mut().insert(id.number, id.generation);
        if known != Some(id.generation) {
            tracing::warn!(
                shard = self.config.shard.0,
                segment = id.number.0,
                reason,
                "a segment is damaged: it is read from another copy, and written anew"
            );
            self.reclaim.request();
        }
    }

    /// Whether a segment is damaged, so that reclaim is to empty it.
    pub(crate) fn awaits_repair(&self, number: SegmentNumber, generation: Generation) -> bool {
        self.checkpoint.metadata.copies.damaged.borrow().get(&number) == Some(&generation)
    }

    /// A damaged segment that can be emptied now, if there is one; it is asked for once. Wakes a checkpoint when one
    /// has to be made before.
    pub(crate) fn next_repair(&self) -> Option<SegmentNumber> {
        let mut damaged = self.checkpoint.metadata.copies.damaged.borrow_mut();
        let space = self.space.borrow();
        damaged.retain(|number, generation| {
            space.get(*number).is_some_and(|usage| usage.generation == *generation)
        });
        let (mut next, mut lacks_room) = (None, false);
        for (number, generation) in &*damaged {
            let Some(usage) = space.get(*number) else { continue };
            if usage.state != SegmentState::Sealed || self.rests_damaged(*number, *generation) {
                continue;
            }
            if usage.is_new || self.reclaim.waiting.borrow().contains_key(number) {
                self.wake_checkpoint_now(); // It ends either.
                continue;
            }
            // Pages of the table become dirty, and others take a segment of survivors.
            let floor = self.reclaim_floor_with(usage.live_bytes as usize);
            // Not at the cost of other copies that are needed.
            if floor + 1 < space.unneeded_count() {
                next = Some(*number);
                break;
            }
            lacks_room = true;
        }
        self.checkpoint.metadata.copies.lacks_room.set(lacks_room && next.is_none());
        damaged.remove(&next?);
        next
    }

    /// Whether a damaged segment could not be emptied for want of free segments when that was looked at last. A shard
    /// that nobody writes to has few: it gets more for it.
    pub(crate) fn repair_lacks_room(&self) -> bool {
        self.checkpoint.metadata.copies.lacks_room.get()
    }

    /// Lets reclaim look again at what is damaged: a checkpoint let it have more.
    pub(crate) fn wake_repairs(&self) {
        if !self.checkpoint.metadata.copies.damaged.borrow().is_empty() {
            self.reclaim.request();
        }
    }

    /// Header, summary and bytes of a segment, from its copy if the segment itself is damaged. Units are still to be
    /// compared. Where sectors of both cannot be read, most units are whole in one of them all the same.
    pub(crate) async fn read_segment_to_move(&self, id: SegmentId) -> Result<StoredSegment> {
        let error = match self.read_stored(id, id).await {
            Ok(segment) => return Ok(segment),
            Err(error) => error,
        };
        let copy = self.copy_of(id);
        if let Some(copy) = copy
            && let Ok(segment) = self.read_stored(id, copy).await
        {
            self.note_damaged(id, &error.to_string());
            return Ok(segment);
        }
        let at = copy.or_else(|| self.media_keep_copies(id.number).then_some(id));
        let Some(at) = at else { return Err(error) };
        let Ok(entries) = self.read_entries(id, at).await else { return Err(error) };
        self.note_damaged(id, &error.to_string());
        Ok(StoredSegment { bytes: BufSlice::copy_from(&[]), entries })
    }

    /// The summary of a segment, as its header tells, each from its place or else from the segment's copy: their
    /// checksums tell where they are whole.
    async fn read_entries(&self, id: SegmentId, copy: SegmentId) -> Result<Vec<SummaryEntry>> {
        let header = match self.read_header(id, id).await {
            Ok(header) => header,
            Err(_) => self.read_header(id, copy).await?,
        };
        if let Ok(summary) = read_summary(&self.media.segments, &header).await {
            return Ok(summary.entries);
        }
        let in_copy = StripHeader { slot: copy.number, ..header };
        Ok(read_summary(&self.media.segments, &in_copy).await?.entries)
    }

    /// The header of a segment, at its place or in its copy.
    async fn read_header(&self, id: SegmentId, at: SegmentId) -> Result<StripHeader> {
        let damaged = |reason: String| Error::SegmentDamaged { segment: id.number, reason };
        let segment_bytes = self.media.segments.geometry().segment_bytes;
        let judge = |bytes: &[u8]| -> Result<StripHeader> {
            let (header, _) =
                StripHeader::decode(bytes).map_err(|error| damaged(error.to_string()))?;
            if header.segment() != id || header.pool != self.config.pool {
                return Err(damaged("the header belongs elsewhere".to_owned()));
            }
            if header.used_bytes > segment_bytes {
                return Err(damaged("its lengths exceed the segment".to_owned()));
            }
            Ok(header)
        };
        let (segments, is_right) = (&self.media.segments, |bytes: &BufSlice| judge(bytes).is_ok());
        // A sector that cannot be read is damage too (RECLAIM-4): the shard goes on without this segment's space.
        let read = read_whole(segments, at, 0, STRIP_HEADER_BYTES, is_right).await;
        let read = read.map_err(|error| damaged(error.to_string()))?;
        if read.is_from_elsewhere() && at == id {
            self.note_elsewhere(id);
        }
        judge(&read.bytes)
    }

    /// Reads a segment at its place, or its copy.
    async fn read_stored(&self, id: SegmentId, at: SegmentId) -> Result<StoredSegment> {
        let damaged =
            |reason: &str| Error::SegmentDamaged { segment: id.number, reason: reason.to_owned() };
        let header = self.read_header(id, at).await?;
        let is_right = |bytes: &BufSlice| {
            summary_within(&header, bytes).is_some_and(|it| header.check_summary(it).is_ok())
        };
        let read = read_whole(&self.media.segments, at, 0, header.used_bytes, is_right).await;
        let read = read.map_err(|error| damaged(&error.to_string()))?;
        if read.is_from_elsewhere() && at == id {
            self.note_elsewhere(id);
        }
        let summary = summary_within(&header, &read.bytes)
            .ok_or_else(|| damaged("the summary lies outside"))?;
        let entries =
            decode_summary(&header, summary).map_err(|error| damaged(&error.to_string()))?;
        Ok(StoredSegment { bytes: read.bytes, entries })
    }

    /// A unit of a segment that reclaim read, or of its copy; `None` when it is whole nowhere.
    pub(crate) async fn whole_unit(
        &self,
        id: SegmentId,
        segment: &BufSlice,
        unit: &Unit,
    ) -> Option<BufSlice> {
        if unit_bytes(segment, unit).is_some_and(|bytes| unit_is_whole(unit, bytes)) {
            let start = unit.offset() as usize;
            return Some(segment.slice(start..start + unit.stored_len as usize));
        }
        if self.copy_of(id).is_none() && !self.media_keep_copies(id.number) {
            return None;
        }
        let bytes = self.stored_unit(&unit.location(id)).await.ok()?;
        debug_assert!(unit_is_whole(unit, &bytes), "a copy counts for whom its checksum matches"); // COPIES-1
        self.counters.add_reclaim_read(bytes.len());
        Some(bytes)
    }

    /// Starts writing a copy of a segment beside the segment itself, if there is room for one (COPIES-2).
    pub(crate) fn begin_copy(&self, id: SegmentId, bytes: &BufSlice) -> Option<JoinHandle<()>> {
        if !self.has_room_for_copy() {
            return None;
        }
        let under_way = self.lifecycle.writes.begin()?;
        let (segments, bytes) = (Rc::clone(&self.media.segments), bytes.clone());
        let domain_of = |number| segments.domain(number);
        let slot = self.space.borrow_mut().reserve_copy(id, domain_of)?;
        assert_ne!(slot, id.number, "a copy lies elsewhere"); // SPACE-COPIES-3
        assert!(self.space.borrow().copies_under_way() <= UNDER_WAY_MAX, "few are under way"); // COPIES-2
        self.counters.add_page_copy(bytes.len());
        let me = self.me.clone();
        Some(self.reactor.spawn_join(async move {
            let put = segments.put(SegmentId { number: slot, ..id }, bytes).await;
            drop(under_way);
            if let Err(error) = &put {
                tracing::warn!(segment = id.number.0, in_segment = slot.0, %error, "no copy of a segment with metadata");
            }
            let Some(shard) = me.upgrade() else { return };
            shard.space.borrow_mut().copied(id, slot, put.is_ok());
            shard.allocation.note_change();
        }))
    }

    /// Whether a copy may be written now. Until it is, others have a segment less; a shard that may grow gets others in
    /// time.
    fn has_room_for_copy(&self) -> bool {
        let kept = if self.is_grown() { self.reserves().data } else { self.reclaim_floor() };
        let space = self.space.borrow();
        self.config.mends_pages
            && !self.allocation.is_media_full()
            && space.free_count() > kept + PUTS_MAX
            && space.copies_under_way() < UNDER_WAY_MAX
    }

    /// Waits for a copy, but not for long (COPIES-2).
    pub(crate) async fn wait_copy(&self, copy: JoinHandle<()>) {
        select(Box::pin(copy), Box::pin(self.reactor.sleep(PATIENCE_NS))).await;
    }

    /// Gives some segments a copy that have none, and looks at some copies that the shard found when it was opened.
    pub(crate) async fn copy_more(&self) -> Result<()> {
        if !self.config.mends_pages || self.media.segments.domain(SegmentNumber(0)).is_none() {
            return Ok(()); // Or the media keep copies of their own.
        }
        let copies = &self.checkpoint.metadata.copies;
        let next = self.space.borrow().to_copy(copies.from.get(), COPIES_PER_CHECKPOINT);
        let last = next.last().filter(|_| next.len() == COPIES_PER_CHECKPOINT);
        assert!(next.len() <= COPIES_PER_CHECKPOINT, "others do not wait long"); // COPIES-2
        copies.from.set(last.map_or(SegmentNumber(0), |id| SegmentNumber(id.number.0 + 1)));
        for id in next {
            if self.space.borrow().copy_of(id.number).is_none()
                && !self.space.borrow().has_empty()
                && !self.is_grown()
                && !self.zone_moves.is_emptying()
            {
                self.lease_zone().await?;
            }
            self.copy_again(id).await;
        }
        Ok(())
    }

    /// Reads what a writer would take the copy of, where nobody did yet (COPIES-2). Returns whether that is known now.
    pub(crate) async fn look_before_writer_takes_copy(&self) -> bool {
        let next = self.space.borrow().to_look_at();
        let Some(id) = next else { return false };
        self.look_before_copy_goes(id).await
    }

    /// Reads the originals of the copies in a zone that is to leave, where nobody did yet, until `end` (COPIES-2).
    pub(crate) async fn look_before_zone_goes(&self, zone: Zone, end: Nanos) {
        let unseen = self.space.borrow().to_look_at_in(zone.segments());
        for id in unseen {
            if self.reactor.now() >= end || !self.look_before_copy_goes(id).await {
                break;
            }
        }
    }

    /// Whether no copy lies in a zone that may have to be read (COPIES-2).
    pub(crate) fn has_no_needed_copy(&self, zone: Zone) -> bool {
        let space = self.space.borrow();
        !space.needs_copy_in(zone.segments()) && space.to_look_at_in(zone.segments()).is_empty()
    }

    /// Reads an original: its copy goes if it is whole, and is kept if not. Returns whether that is known now.
    async fn look_before_copy_goes(&self, id: SegmentId) -> bool {
        let Some(_pin) = self.pin(id) else { return false };
        let Some(original) = self.read_in_time(id, id).await else { return false };
        if original.is_some() {
            self.space.borrow_mut().drop_copy(id.number);
        } else {
            self.note_damaged(id, "it cannot be read as a whole");
        }
        true
    }

    /// Counts what has one copy only, at the end of a checkpoint.
    pub(crate) fn count_uncopied(&self) {
        if self.media.segments.domain(SegmentNumber(0)).is_some() {
            self.checkpoint.metadata.copies.lacking.set(self.space.borrow().uncopied());
        }
    }

    async fn copy_again(&self, id: SegmentId) {
        let copy = self.copy_of(id);
        let has_room = || self.has_room_for_copy() && self.space.borrow().has_empty();
        if copy.is_none() && !has_room() {
            return;
        }
        let Some(_pin) = self.pin(id) else { return };
        let Some(original) = self.read_in_time(id, id).await else { return };
        if let Some(copy) = copy {
            let Some(found) = self.read_in_time(id, copy).await else { return };
            if self.copy_of(id) != Some(copy) {
                return; // It went meanwhile.
            }
            match (&original, found) {
                (None, None) => {} // Units that are whole in it may still be needed.
                (Some(_), None) => self.space.borrow_mut().drop_copy(id.number),
                (None, Some(_)) => self.note_damaged(id, "it does not match its checksums"),
                (Some(_), Some(_)) => self.space.borrow_mut().copy_is_whole(id.number),
            }
        }
        if let Some(bytes) = original
            && let Some(put) = self.begin_copy(id, &bytes)
        {
            self.wait_copy(put).await;
        }
    }

    /// As [`Self::read_whole`]; `None` where that takes too long: then nothing is known of it (COPIES-2).
    async fn read_in_time(&self, id: SegmentId, at: SegmentId) -> Option<Option<BufSlice>> {
        let read = Box::pin(self.read_whole(id, at));
        match select(read, Box::pin(self.reactor.sleep(PATIENCE_NS))).await {
            Either::Left((read, _)) => Some(read),
            Either::Right(_) => None,
        }
    }

    /// A segment, read at its place or from its copy, if all of it matches its checksums.
    pub(crate) async fn read_whole(&self, id: SegmentId, at: SegmentId) -> Option<BufSlice> {
        let StoredSegment { bytes, entries } = self.read_stored(id, at).await.ok()?;
        for (index, unit) in entries.iter().filter_map(SummaryEntry::unit).enumerate() {
            if !unit_bytes(&bytes, unit).is_some_and(|found| unit_is_whole(unit, found)) {
                return None;
            }
            if index % UNITS_PER_TURN == UNITS_PER_TURN - 1 {
                self.reactor.yield_now().await;
            }
        }
        Some(bytes)
    }
}
