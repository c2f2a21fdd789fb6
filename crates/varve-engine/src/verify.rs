//! Reads every segment in use and compares all of it with its checksums: what scrub and check find damage with.
//!
//! VERIFY-1. A segment is read whole, in the order of slots, and judged by its own summary: memory does not grow with
//!     the shard.
//! VERIFY-2. A unit is needed if the chunk table, the roots or the table's own pages place it there. Damage elsewhere
//!     harms nobody yet.
//! VERIFY-3. A segment whose summary is damaged, or does not account for what is live in it, is verified once more from
//!     the chunk table: nothing that is needed goes unverified.
//! VERIFY-4. A segment is judged in one step under the tree gate, which is given back before the next one: what its
//!     summary lists, the table places in it and the account of space counts there belong to one moment.
//! VERIFY-5. Segments, and units that are read one by one, are pinned while they are read: what is read is what was
//!     there. What left a segment before it is judged is not needed there. Of a segment that is empty by then, or gone,
//!     nothing is said, and one that holds something stays while it is judged.
//! VERIFY-6. What is needed from begin to end was compared: where it lay, or by reclaim before it moved it. What is
//!     written meanwhile is not read.
//! VERIFY-7. Places of the table's pages go with the checkpoint that wrote them: they are looked for again after
//!     another one. In between they leave the table for the list of its former pages, and none comes.
//! VERIFY-8. Nothing is pinned, and no read is under way, while the gate is waited for: whoever has it may wait for
//!     free segments, or for the media.

mod report;
mod slot;

use std::ops::ControlFlow;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use varve_logstore::chain_reader::{decode_summary, unit_bytes, unit_checksum};
use varve_logstore::format::pointer::Location;
use varve_logstore::format::segment::{STRIP_HEADER_BYTES, StripHeader};
use varve_logstore::format::summary::{SummaryEntry, Unit};
use varve_logstore::space::{SegmentState, unit_space};
use varve_media::SegmentId;
use varve_stdx::BufSlice;
use varve_types::SegmentNumber;

use crate::hash::HashSet;
use crate::pages::Pin;
use crate::walk::{GateUse, TableEntry, place_of};
use crate::{Result, Shard};

pub use report::{Damage, DamagedPart, VerifyEvent, VerifyReport};
pub use slot::verify_slot;

/// Segments read at once, and then judged: bounds memory to as many.
const SEGMENTS_AT_ONCE: usize = 4;

/// Units read at once when a segment is verified from the table.
const UNITS_AHEAD: usize = 32;

/// Units judged before other tasks get a turn: some 50 µs of work.
const UNITS_PER_TURN: usize = 16;

/// The verification under way.
struct Verification<'a> {
    observe: &'a mut dyn FnMut(VerifyEvent) -> ControlFlow<()>,
    report: VerifyReport,
    /// Places of the table's own pages, former ones included; `None` when the table cannot be walked.
    table_pages: Option<HashSet<Location>>,
    /// The checkpoint that wrote them (VERIFY-7); `None` before they were looked for.
    table_pages_of: Option<u64>,
    /// Segments to be verified from the table (VERIFY-3).
    again: HashSet<SegmentId>,
    /// Something is wrong with the segment at hand.
    is_damaged: bool,
}

/// What was read of a segment.
struct ReadSegment {
    id: SegmentId,
    header: std::result::Result<StripHeader, String>,
    /// Up to the summary's end; absent when the header or the media do not allow it.
    bytes: Option<std::result::Result<BufSlice, String>>,
}

impl ReadSegment {
    fn bytes_read(&self) -> u64 {
        match (&self.header, &self.bytes) {
            (Ok(header), Some(Ok(_))) => u64::from(header.used_bytes),
            _ => u64::from(STRIP_HEADER_BYTES),
        }
    }
}

/// A unit that the table or a root places somewhere, which is pinned (VERIFY-5).
struct NeededUnit<'a> {
    part: DamagedPart,
    place: Location,
    /// None where a shard contradicts itself.
    pin: Option<Pin<'a>>,
}

/// Whether something needs a unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// With the checksum under which it is looked for.
    Yes(u32),
    /// It was overwritten, and is still in the table.
    Dead,
    No,
    /// The table cannot be read there; taken for needed.
    Unknown,
}

impl Need {
    fn is_needed(self) -> bool {
        !matches!(self, Self::No | Self::Dead)
    }
}

impl Verification<'_> {
    fn tell(&mut self, event: VerifyEvent) {
        if (self.observe)(event).is_break() {
            self.report.is_stopped = true;
        }
    }

    fn damage(&mut self, damage: Damage) {
        self.is_damaged = true;
        self.tell(VerifyEvent::Damage(damage));
    }

    fn read(&mut self, bytes: u64) {
        self.report.bytes_read += bytes;
        self.tell(VerifyEvent::Read(bytes));
    }
}

impl Shard {
    /// Bytes of segments that [`Self::verify`] reads at most.
    #[must_use]
    pub fn verify_bytes_max(&self) -> u64 {
        let segment_bytes = u64::from(self.media.segments.geometry().segment_bytes);
        let copies = self.space.borrow().copies().len();
        (self.segments_to_verify().len() + copies) as u64 * segment_bytes
    }

    /// Whether nothing of the shard is, or is about to be, in a slot; also where the slot is not the shard's.
    #[must_use]
    pub fn is_segment_unused(&self, number: SegmentNumber) -> bool {
        self.space.borrow().is_unused(number)
    }

    /// The segments that hold something live, which [`Self::verify`] reads.
    #[must_use]
    pub fn segments_to_verify(&self) -> Vec<SegmentId> {
        let space = self.space.borrow();
        let mut ids: Vec<_> = space
            .iter()
            .filter(|(_, usage)| usage.state != SegmentState::Reserved && usage.live_bytes > 0)
            .map(|(number, usage)| SegmentId { number, generation: usage.generation })
            .collect();
        ids.sort_unstable_by_key(|id| id.number);
        debug_assert!(ids.is_sorted_by(|a, b| a.number < b.number), "each slot holds one");
        ids
    }

    /// Reads every segment that holds something live and compares headers, summaries and units with their checksums.
    /// `observe` is told of progress and damage, and may stop it. It takes the tree gate for one segment after the
    /// other (VERIFY-4), so that what is written, drained and reclaimed meanwhile goes on in between.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed. Damage is no error.
    pub async fn verify(
        &self,
        observe: &mut dyn FnMut(VerifyEvent) -> ControlFlow<()>,
    ) -> Result<VerifyReport> {
        self.check_open()?;
        let mut verification = Verification {
            observe,
            report: VerifyReport::default(),
            table_pages: None,
            table_pages_of: None,
            again: HashSet::default(),
            is_damaged: false,
        };
        let all = self.segments_to_verify(); // VERIFY-6
        for ids in all.chunks(SEGMENTS_AT_ONCE) {
            let reads = join_all(ids.iter().map(|id| self.read_segment(*id))).await; // VERIFY-8
            for segment in reads.into_iter().flatten() {
                self.check_open()?;
                verification.read(segment.bytes_read());
                verification.is_damaged = false;
                self.verify_segment(&segment, &mut verification).await;
                self.check_open()?; // It may have failed while the gate was waited for.
                self.verify_copy(segment.id, &mut verification).await;
                if verification.report.is_stopped {
                    return Ok(verification.report);
                }
                self.reactor.yield_now().await;
            }
        }
        self.verify_by_table(&mut verification).await;
        self.check_open()?;
        assert!(verification.report.needed_units <= verification.report.units);
        assert!(verification.again.is_empty(), "they were verified once more"); // VERIFY-3
        Ok(verification.report)
    }

    /// Looks for the places of the chunk table's pages, and of those that changed since the last checkpoint, which
    /// needs them, unless they are known (VERIFY-7). The caller holds the tree gate.
    async fn find_table_pages(&self, verification: &mut Verification<'_>) {
        assert!(self.apply.is_gated(), "no checkpoint comes in between"); // VERIFY-7
        let checkpoint = Some(self.checkpoint.seq());
        if verification.table_pages_of == checkpoint {
            return;
        }
        let found: Result<HashSet<Location>> =
            self.walk_table_pages(GateUse::NoStep).collect().await;
        assert_eq!(checkpoint, Some(self.checkpoint.seq()), "checkpoints take the gate"); // VERIFY-4
        let trees = self.trees.borrow();
        let former = trees.table_names.dead_pages().iter().copied().filter_map(place_of);
        verification.table_pages = found.ok().map(|mut pages| {
            pages.extend(former);
            pages
        });
        verification.table_pages_of = checkpoint;
    }

    /// Header and contents of a segment; `None` when its slot holds something else by now (VERIFY-1).
    async fn read_segment(&self, id: SegmentId) -> Option<ReadSegment> {
        let _pin = self.pin(id)?; // VERIFY-5
        let segments = &self.media.segments;
        let header = match segments.get(id, 0, STRIP_HEADER_BYTES).await {
            Ok(bytes) => self.judge_header(id, &bytes),
            Err(error) => Err(error.to_string()),
        };
        let mut bytes = None;
        if let Ok(header) = &header {
            let read = segments.get(id, 0, header.used_bytes).await;
            bytes = Some(read.map_err(|error| error.to_string()));
        }
        Some(ReadSegment { id, header, bytes })
    }

    fn judge_header(
        &self,
        id: SegmentId,
        bytes: &[u8],
    ) -> std::result::Result<StripHeader, String> {
        let (header, _) = StripHeader::decode(bytes).map_err(|error| error.to_string())?;
        let place = header.check_place(self.config.pool, id.number);
        place.map_err(|error| error.to_string())?;
        if header.segment() != id || header.shard != self.config.shard {
            let (found, shard) = (header.generation, header.shard);
            return Err(format!(
                "it is generation {found} of shard {shard}, not {} of shard {}",
                id.generation, self.config.shard
            ));
        }
        let end = header.summary_offset.checked_add(header.summary_bytes());
        let segment_bytes = self.media.segments.geometry().segment_bytes;
        if header.used_bytes > segment_bytes || end.is_none_or(|end| end > header.used_bytes) {
            return Err("its lengths exceed the segment".to_owned());
        }
        Ok(header)
    }

    async fn verify_segment(&self, segment: &ReadSegment, verification: &mut Verification<'_>) {
        let id = segment.id;
        let _gate = self.apply.tree_gate.take(1).await; // VERIFY-4
        // A checkpoint that failed meanwhile leaves a table and accounts that do not belong together.
        if self.check_open().is_err() || self.live_bytes_of(id) == 0 {
            return; // VERIFY-5
        }
        verification.report.segments += 1;
        let damage = |part, offset, len, is_needed, reason| Damage {
            segment: id,
            offset,
            len,
            part,
            is_needed,
            is_copied: false,
            reason,
        };
        let header = match &segment.header {
            Ok(header) => header,
            Err(reason) => {
                let part = DamagedPart::Header;
                let len = STRIP_HEADER_BYTES;
                let damage = damage(part, 0, len, true, reason.clone());
                self.tell_damage(damage, None, verification).await;
                verification.again.insert(id);
                return;
            }
        };
        let (start, len) = (header.summary_offset, header.summary_bytes());
        let bytes = match segment.bytes.as_ref().expect("read when the header is sound") {
            Ok(bytes) => bytes,
            Err(reason) => {
                // The units that are needed are read one by one; the rest harms nobody.
                let part = DamagedPart::Range;
                verification.damage(damage(part, 0, header.used_bytes, false, reason.clone()));
                if let Err(error) = self.media.segments.get(id, start, len.max(1)).await {
                    let part = DamagedPart::Summary;
                    let damage = damage(part, start, len, true, error.to_string());
                    self.tell_damage(damage, None, verification).await;
                }
                verification.again.insert(id);
                return;
            }
        };
        let summary = bytes.get(start as usize..(start + len) as usize).unwrap_or(&[]);
        let entries = match decode_summary(header, summary) {
            Ok(entries) => entries,
            Err(error) => {
                let part = DamagedPart::Summary;
                let damage = damage(part, start, len, true, error.to_string());
                self.tell_damage(damage, None, verification).await;
                verification.again.insert(id);
                return;
            }
        };
        self.verify_entries(id, &entries, bytes, verification).await;
    }

    async fn verify_entries(
        &self,
        id: SegmentId,
        entries: &[SummaryEntry],
        bytes: &BufSlice,
        verification: &mut Verification<'_>,
    ) {
        assert!(self.apply.is_gated(), "summary, table and account belong together"); // VERIFY-4
        let mut live_bytes = 0;
        let mut any_unknown = false;
        if entries.iter().any(|entry| matches!(entry, SummaryEntry::TablePage { .. })) {
            self.find_table_pages(verification).await;
        }
        let units = entries.iter().filter_map(|entry| Some((entry, entry.unit()?)));
        for (index, (entry, unit)) in units.enumerate() {
            if index % UNITS_PER_TURN == UNITS_PER_TURN - 1 {
                self.reactor.yield_now().await;
            }
            let need = self.need_of(id, entry, unit, verification).await;
            verification.report.units += 1;
            any_unknown |= need == Need::Unknown;
            if need.is_needed() {
                verification.report.needed_units += 1;
                verification.report.needed_bytes += u64::from(unit.stored_len);
            }
            if need != Need::No {
                live_bytes += u64::from(unit_space(unit.stored_len));
            }
            let Some(reason) = unit_fault(bytes, unit, need) else { continue };
            let mut place = unit.location(id);
            if let Need::Yes(wanted) = need {
                place.checksum = wanted;
            }
            let damage = Damage {
                segment: id,
                offset: unit.offset(),
                len: unit.stored_len,
                part: DamagedPart::of_entry(entry),
                is_needed: need.is_needed(),
                is_copied: false,
                reason,
            };
            self.tell_damage(damage, Some(place), verification).await;
        }
        let counted = self.live_bytes_of(id);
        if live_bytes != u64::from(counted) {
            if !any_unknown {
                let reason = format!("it lists {live_bytes} live bytes, and {counted} are counted");
                let part = DamagedPart::Summary;
                let (segment, offset, len) = (id, 0, 0);
                let (is_needed, is_copied) = (true, false);
                let damage = Damage { segment, offset, len, part, is_needed, is_copied, reason };
                verification.damage(damage);
            }
            verification.again.insert(id); // VERIFY-3
        }
    }

    /// Bytes that are counted as live in a segment; 0 when its slot holds something else by now.
    fn live_bytes_of(&self, id: SegmentId) -> u32 {
        let space = self.space.borrow();
        let usage = space.get(id.number).filter(|usage| usage.generation == id.generation);
        usage.map_or(0, |usage| usage.live_bytes)
    }

    async fn need_of(
        &self,
        id: SegmentId,
        entry: &SummaryEntry,
        unit: &Unit,
        verification: &Verification<'_>,
    ) -> Need {
        assert!(self.apply.is_gated(), "summary and table belong together"); // VERIFY-4
        match entry {
            SummaryEntry::Data { chunk, .. }
            | SummaryEntry::Move { chunk, .. }
            | SummaryEntry::Page { chunk, .. } => {
                match self.with_pages(|trees| trees.chunk(*chunk)).await {
                    Ok(Some(place))
                        if place.segment == id && place.offset_512 == unit.offset_512 =>
                    {
                        if self.is_dead(*chunk, &place) {
                            Need::Dead
                        } else {
                            Need::Yes(place.checksum)
                        }
                    }
                    Ok(_) => Need::No,
                    Err(_) => Need::Unknown,
                }
            }
            SummaryEntry::TablePage { .. } => match &verification.table_pages {
                Some(pages) if pages.contains(&unit.location(id)) => Need::Yes(unit.checksum),
                Some(_) => Need::No,
                None => Need::Unknown,
            },
            SummaryEntry::UsageBlob { unit } => {
                let blobs = self.checkpoint.blobs.usage.borrow();
                if blobs.contains(&unit.location(id)) { Need::Yes(unit.checksum) } else { Need::No }
            }
            SummaryEntry::DeathBlob { unit } => {
                let blobs = self.checkpoint.blobs.deaths.borrow();
                if blobs.contains(&unit.location(id)) { Need::Yes(unit.checksum) } else { Need::No }
            }
            SummaryEntry::DeltaBlob { unit } => {
                let blobs = self.checkpoint.blobs.deltas.borrow();
                if blobs.contains(&unit.location(id)) { Need::Yes(unit.checksum) } else { Need::No }
            }
            SummaryEntry::KeyPut { .. }
            | SummaryEntry::KeyDelete { .. }
            | SummaryEntry::Reference { .. }
            | SummaryEntry::ForeignReference { .. }
            | SummaryEntry::Grant { .. }
            | SummaryEntry::Trim { .. }
            | SummaryEntry::Zero { .. }
            | SummaryEntry::StreamDrop { .. }
            | SummaryEntry::Cut { .. }
            | SummaryEntry::FreedIds { .. }
            | SummaryEntry::Folded { .. } => Need::No,
        }
    }

    /// Verifies what the table places in segments whose summary did not tell (VERIFY-3).
    async fn verify_by_table(&self, verification: &mut Verification<'_>) {
        if verification.again.is_empty() {
            return;
        }
        let again = std::mem::take(&mut verification.again);
        let mut walk = self.walk_table(GateUse::EachStep);
        // A table that cannot be read is reported by whoever walks it: it is damage of its own pages.
        while let Ok(Some(step)) = walk.next().await {
            let units = self.needed_among(&step.found, &again);
            drop(step);
            self.verify_units(units, verification).await;
            if verification.report.is_stopped {
                return;
            }
        }
        let gate = self.apply.tree_gate.take(1).await; // VERIFY-4
        if self.check_open().is_err() {
            return;
        }
        self.find_table_pages(verification).await;
        let units = self.metadata_in(&again, verification);
        drop(gate);
        self.verify_units(units, verification).await;
    }

    /// Units in some segments that entries of the table place there and nothing has overwritten.
    fn needed_among(
        &self,
        entries: &[TableEntry],
        segments: &HashSet<SegmentId>,
    ) -> Vec<NeededUnit<'_>> {
        assert!(self.apply.is_gated(), "what is found is pinned where it lies"); // VERIFY-5
        let entries = entries.iter().flatten();
        let entries = entries.filter(|(_, entry)| segments.contains(&entry.segment));
        let entries = entries.filter(|(chunk, entry)| !self.is_dead(*chunk, entry));
        entries
            .map(|(chunk, entry)| self.needed_unit(DamagedPart::of_chunk(*chunk), entry.location()))
            .collect()
    }

    /// Units in some segments that roots, or the table's own pages, place there.
    fn metadata_in(
        &self,
        segments: &HashSet<SegmentId>,
        verification: &Verification<'_>,
    ) -> Vec<NeededUnit<'_>> {
        assert!(self.apply.is_gated(), "pages and blobs of one checkpoint"); // VERIFY-4
        let pages = verification.table_pages.iter().flatten();
        let mut places: Vec<_> = pages.map(|place| (DamagedPart::TablePage, *place)).collect();
        let blobs = &self.checkpoint.blobs;
        for (part, blobs) in [
            (DamagedPart::UsageBlob, &blobs.usage),
            (DamagedPart::DeathBlob, &blobs.deaths),
            (DamagedPart::DeltaBlob, &blobs.deltas),
        ] {
            places.extend(blobs.borrow().iter().map(|place| (part, *place)));
        }
        places.retain(|(_, place)| segments.contains(&place.segment));
        places.sort_unstable_by_key(|(_, place)| (place.segment.number, place.offset_512));
        places.into_iter().map(|(part, place)| self.needed_unit(part, place)).collect()
    }

    fn needed_unit(&self, part: DamagedPart, place: Location) -> NeededUnit<'_> {
        NeededUnit { part, place, pin: self.pin(place.segment) } // VERIFY-5
    }

    async fn verify_units(&self, units: Vec<NeededUnit<'_>>, verification: &mut Verification<'_>) {
        let reads = stream::iter(units).map(|NeededUnit { part, place, pin }| async move {
            let segments = &self.media.segments;
            let bytes = segments.get(place.segment, place.offset(), place.stored_len).await;
            (part, place, pin, bytes)
        });
        let mut reads = std::pin::pin!(reads.buffered(UNITS_AHEAD));
        while let Some((part, place, _pin, bytes)) = reads.next().await {
            verification.report.units += 1;
            verification.report.needed_units += 1;
            verification.report.needed_bytes += u64::from(place.stored_len);
            verification.read(u64::from(place.stored_len));
            let reason = match bytes {
                Ok(bytes) if unit_checksum(&bytes) == place.checksum => continue,
                Ok(bytes) => format!(
                    "checksum mismatch: stored {:#010x}, computed {:#010x}",
                    place.checksum,
                    unit_checksum(&bytes)
                ),
                Err(error) => error.to_string(),
            };
            let damage = Damage {
                segment: place.segment,
                offset: place.offset(),
                len: place.stored_len,
                part,
                is_needed: true,
                is_copied: false,
                reason,
            };
            self.tell_damage(damage, Some(place), verification).await;
        }
    }

    /// Tells of damage. What is needed and is whole in the segment's copy, or when the media read it in another way, is
    /// not lost: `unit`, or header and summary.
    async fn tell_damage(
        &self,
        mut damage: Damage,
        unit: Option<Location>,
        verification: &mut Verification<'_>,
    ) {
        let id = damage.segment;
        let may_be_elsewhere = self.copy_of(id).is_some() || self.media_keep_copies(id.number);
        if damage.is_needed && may_be_elsewhere {
            damage.is_copied = match unit {
                Some(place) => self.stored_unit(&place).await.is_ok(),
                None => self.read_segment_to_move(id).await.is_ok(),
            };
            damage.is_needed = !damage.is_copied;
        }
        if damage.is_copied {
            self.note_damaged(id, &damage.reason);
        }
        assert!(!(damage.is_needed && damage.is_copied), "what is copied is not lost"); // VERIFY-2
        verification.damage(damage);
    }

    /// Verifies the copy of a segment. The next checkpoints replace one that is damaged while its original is whole.
    async fn verify_copy(&self, id: SegmentId, verification: &mut Verification<'_>) {
        let Some(_pin) = self.pin(id) else { return };
        if self.live_bytes_of(id) == 0 {
            return; // VERIFY-5: the last root may still need what is whole in either.
        }
        let Some(copy) = self.copy_of(id) else { return };
        let is_damaged = verification.is_damaged;
        let found = self.read_whole(id, copy).await;
        if self.copy_of(id) != Some(copy) {
            return; // A writer needed its segment.
        }
        let Some(bytes) = found else {
            verification.damage(Damage {
                segment: copy,
                offset: 0,
                len: self.media.segments.geometry().segment_bytes,
                part: DamagedPart::Copy(id.number),
                is_needed: false,
                is_copied: false,
                reason: "it does not match its checksums".to_owned(),
            });
            if !is_damaged {
                self.space.borrow_mut().drop_copy(id.number);
            }
            return;
        };
        verification.read(bytes.len() as u64);
        self.space.borrow_mut().copy_is_whole(id.number);
    }
}

/// What is wrong with a unit in the bytes of its segment, and with its checksum in the chunk table.
fn unit_fault(bytes: &BufSlice, unit: &Unit, need: Need) -> Option<String> {
    let Some(found) = unit_bytes(bytes, unit).map(unit_checksum) else {
        return Some("it lies outside the segment".to_owned());
    };
    if found != unit.checksum {
        let stored = unit.checksum;
        return Some(format!("checksum mismatch: stored {stored:#010x}, computed {found:#010x}"));
    }
    match need {
        Need::Yes(wanted) if found != wanted => Some(format!(
            "the chunk table wants checksum {wanted:#010x}, the summary {found:#010x}"
        )),
        _ => None,
    }
}
