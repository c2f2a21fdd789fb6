//! Reads every segment in use and compares all of it with its checksums: what scrub and check find damage with.
//!
//! VERIFY-1. A segment is read whole, in the order of slots, and judged by its own summary: memory does not grow with
//!     the shard.
//! VERIFY-2. A unit is needed if the chunk table, the roots or the table's own pages place it there. Damage elsewhere
//!     harms nobody yet.
//! VERIFY-3. A segment whose summary is damaged, or does not account for what is live in it, is verified once more from
//!     the chunk table: nothing that is needed goes unverified.
//! VERIFY-4. The tree gate is held throughout. Whatever moved, died or were written to a slot that was left meanwhile
//!     would look like damage.

use std::ops::ControlFlow;

use futures_util::stream::{self, StreamExt};
use varve_logstore::chain_reader::{decode_summary, unit_bytes, unit_checksum, unit_is_whole};
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::pointer::{Location, PagePtr};
use varve_logstore::format::segment::{STRIP_HEADER_BYTES, StripHeader};
use varve_logstore::format::summary::{SummaryEntry, Unit};
use varve_logstore::space::{SegmentState, unit_space};
use varve_media::SegmentId;
use varve_stdx::BufSlice;
use varve_types::{ChunkId, SegmentNumber};

use crate::hash::HashSet;
use crate::tree::Scan;
use crate::trees::{PAGE_ID_FIRST, Stop};
use crate::{Error, Result, Shard};

/// Segments read ahead: bounds memory to as many, and keeps a drive busy while the one before is verified.
const SEGMENTS_AHEAD: usize = 4;

/// Units read at once when a segment is verified from the table.
const UNITS_AHEAD: usize = 32;

/// Table entries looked at before other tasks get a turn.
const STEP: usize = 1024;

/// Which part of a segment is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DamagedPart {
    /// The header: the segment cannot be reclaimed, or followed in its chain.
    Header,
    /// The summary: the segment cannot be reclaimed.
    Summary,
    /// A range that the media do not give back.
    Range,
    /// A chunk of data.
    Chunk(ChunkId),
    /// A page of a map or of the key tree.
    Page(ChunkId),
    /// A page of the chunk table.
    TablePage,
    /// What a checkpoint says of the use of segments.
    UsageBlob,
    /// What a checkpoint says of chunks that were overwritten.
    DeathBlob,
    /// What a checkpoint says of map updates that wait.
    DeltaBlob,
    /// A key's record, which the key tree holds by now.
    KeyRecord,
    /// The second copy of that segment, which has metadata pages.
    Copy(SegmentNumber),
}

/// Stored bytes that are not what was written.
#[derive(Clone, Debug)]
pub struct Damage {
    /// In which segment.
    pub segment: SegmentId,
    /// Byte offset in it.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
    /// What stands there.
    pub part: DamagedPart,
    /// Whether anything needs it (VERIFY-2).
    pub is_needed: bool,
    /// Whether something needs it that the segment's second copy holds: then nothing is lost, and it is written anew.
    pub is_copied: bool,
    /// What is wrong.
    pub reason: String,
}

/// What a verification tells as it goes.
#[derive(Debug)]
pub enum VerifyEvent {
    /// As many bytes were read and judged.
    Read(u64),
    /// Damage was found.
    Damage(Damage),
}

/// Sums of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Segments in use.
    pub segments: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Units compared with their checksums.
    pub units: u64,
    /// Of these, units that something needs.
    pub needed_units: u64,
    /// Stored bytes of those.
    pub needed_bytes: u64,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
}

/// The verification under way.
struct Verification<'a> {
    observe: &'a mut dyn FnMut(VerifyEvent) -> ControlFlow<()>,
    report: VerifyReport,
    /// Places of the table's own pages, former ones included; `None` when the table cannot be walked.
    table_pages: Option<HashSet<Location>>,
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
        ids
    }

    /// Reads every segment that holds something live and compares headers, summaries and units with their checksums.
    /// `observe` is told of progress and damage, and may stop it. It holds the tree gate (VERIFY-4), so writes wait
    /// once their credits are used up.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed. Damage is no error.
    pub async fn verify(
        &self,
        observe: &mut dyn FnMut(VerifyEvent) -> ControlFlow<()>,
    ) -> Result<VerifyReport> {
        self.check_open()?;
        let _gate = self.apply.tree_gate.take(1).await; // VERIFY-4
        let mut verification = Verification {
            observe,
            report: VerifyReport::default(),
            table_pages: self.table_pages().await.ok(),
            again: HashSet::default(),
            is_damaged: false,
        };
        let reads = stream::iter(self.segments_to_verify())
            .map(|id| self.read_segment(id))
            .buffered(SEGMENTS_AHEAD);
        let mut reads = std::pin::pin!(reads);
        while let Some(read) = reads.next().await {
            self.check_open()?;
            if let Some(segment) = read {
                verification.is_damaged = false;
                self.verify_segment(&segment, &mut verification).await;
                self.verify_copy(segment.id, &mut verification).await;
            }
            if verification.report.is_stopped {
                return Ok(verification.report);
            }
            self.reactor.yield_now().await;
        }
        self.verify_by_table(&mut verification).await;
        Ok(verification.report)
    }

    /// Places of the chunk table's pages, and of those that changed since: the last checkpoint needs them.
    async fn table_pages(&self) -> Result<HashSet<Location>> {
        let place = |name: &PagePtr| match name {
            PagePtr::Location(place) => Some(*place),
            _ => None,
        };
        let mut found: HashSet<Location> =
            self.trees.borrow().table_names.dead_pages().iter().filter_map(place).collect();
        let mut from = self.trees.borrow().table.lowest_key();
        loop {
            let scan = self
                .with_pages(|trees| {
                    let visit = |name, _level| found.extend(place(&name));
                    Ok(trees.table.walk_pages(&trees.cache, &from, STEP, visit)?)
                })
                .await?;
            match scan {
                Scan::Done => return Ok(found),
                Scan::More(next) => from = next,
            }
            self.reactor.yield_now().await;
        }
    }

    /// Header and contents of a segment; `None` when its slot holds something else by now (VERIFY-1).
    async fn read_segment(&self, id: SegmentId) -> Option<ReadSegment> {
        let _pin = self.pin(id)?;
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
        verification.report.segments += 1;
        let header_read = u64::from(STRIP_HEADER_BYTES);
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
                verification.read(header_read);
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
                verification.read(header_read);
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
        verification.read(u64::from(header.used_bytes));
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
        let mut live_bytes = 0;
        let mut any_unknown = false;
        for entry in entries {
            let Some(unit) = entry.unit() else { continue };
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
            let found = unit_bytes(bytes, unit).map(unit_checksum);
            let reason = match (found, need) {
                (None, _) => "it lies outside the segment".to_owned(),
                (Some(found), _) if found != unit.checksum => {
                    format!(
                        "checksum mismatch: stored {:#010x}, computed {found:#010x}",
                        unit.checksum
                    )
                }
                (Some(found), Need::Yes(wanted)) if found != wanted => {
                    format!(
                        "the chunk table wants checksum {wanted:#010x}, the summary {found:#010x}"
                    )
                }
                _ => continue,
            };
            let mut place = unit.location(id);
            if let Need::Yes(wanted) = need {
                place.checksum = wanted;
            }
            let damage = Damage {
                segment: id,
                offset: unit.offset(),
                len: unit.stored_len,
                part: part_of(entry),
                is_needed: need.is_needed(),
                is_copied: false,
                reason,
            };
            self.tell_damage(damage, Some(place), verification).await;
        }
        let counted = self.space.borrow().get(id.number).map_or(0, |usage| usage.live_bytes);
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

    async fn need_of(
        &self,
        id: SegmentId,
        entry: &SummaryEntry,
        unit: &Unit,
        verification: &Verification<'_>,
    ) -> Need {
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
        let mut from = self.trees.borrow().table.lowest_key();
        loop {
            let mut units = Vec::new();
            let scan = self
                .with_pages(|trees| {
                    units.clear();
                    let visit = |key: &[u8], value: &[u8]| {
                        let entry = ChunkEntry::chunk_of_key(key)
                            .and_then(|chunk| Ok((chunk, ChunkEntry::decode(value)?)));
                        if let Ok((chunk, entry)) = entry
                            && again.contains(&entry.segment)
                            && (entry.shared || !trees.deaths.contains(chunk))
                        {
                            units.push((part_of_chunk(chunk), entry.location()));
                        }
                        ControlFlow::Continue(())
                    };
                    trees.table.scan(&trees.cache, &from, STEP, visit).map_err(Stop::from)
                })
                .await;
            self.verify_units(units, verification).await;
            match scan {
                // A table that cannot be read is reported by whoever walks it: it is damage of its own pages.
                Ok(Scan::Done) | Err(_) => break,
                Ok(Scan::More(next)) => from = next,
            }
            if verification.report.is_stopped {
                return;
            }
        }
        let pages = verification.table_pages.iter().flatten();
        let pages = pages.map(|place| (DamagedPart::TablePage, *place));
        let blobs = self.checkpoint.blobs.usage.borrow().clone();
        let blobs = blobs.into_iter().map(|place| (DamagedPart::UsageBlob, place));
        let deaths = self.checkpoint.blobs.deaths.borrow().clone();
        let deaths = deaths.into_iter().map(|place| (DamagedPart::DeathBlob, place));
        let deltas = self.checkpoint.blobs.deltas.borrow().clone();
        let deltas = deltas.into_iter().map(|place| (DamagedPart::DeltaBlob, place));
        let blobs = blobs.chain(deaths).chain(deltas);
        let mut units: Vec<_> =
            pages.chain(blobs).filter(|(_, place)| again.contains(&place.segment)).collect();
        units.sort_unstable_by_key(|(_, place)| (place.segment.number, place.offset_512));
        self.verify_units(units, verification).await;
    }

    async fn verify_units(
        &self,
        units: Vec<(DamagedPart, Location)>,
        verification: &mut Verification<'_>,
    ) {
        let reads = stream::iter(units).map(|(part, place)| async move {
            let segments = &self.media.segments;
            let bytes = segments.get(place.segment, place.offset(), place.stored_len).await;
            (part, place, bytes)
        });
        let mut reads = std::pin::pin!(reads.buffered(UNITS_AHEAD));
        while let Some((part, place, bytes)) = reads.next().await {
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

    /// Tells of damage. What is needed and is whole in the segment's copy is not lost: `unit`, or header and summary.
    async fn tell_damage(
        &self,
        mut damage: Damage,
        unit: Option<Location>,
        verification: &mut Verification<'_>,
    ) {
        let id = damage.segment;
        if damage.is_needed && self.copy_of(id).is_some() {
            damage.is_copied = match unit {
                Some(place) => self.stored_unit(&place).await.is_ok(),
                None => self.read_segment_to_move(id).await.is_ok(),
            };
            damage.is_needed = !damage.is_copied;
        }
        if damage.is_copied {
            self.note_damaged(id, &damage.reason);
        }
        verification.damage(damage);
    }

    /// Verifies the copy of a segment. The next checkpoints replace one that is damaged while its original is whole.
    async fn verify_copy(&self, id: SegmentId, verification: &mut Verification<'_>) {
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

fn part_of_chunk(chunk: ChunkId) -> DamagedPart {
    if chunk.get() >= PAGE_ID_FIRST { DamagedPart::Page(chunk) } else { DamagedPart::Chunk(chunk) }
}

fn part_of(entry: &SummaryEntry) -> DamagedPart {
    match entry {
        SummaryEntry::Data { chunk, .. }
        | SummaryEntry::Move { chunk, .. }
        | SummaryEntry::Page { chunk, .. } => part_of_chunk(*chunk),
        SummaryEntry::TablePage { .. } => DamagedPart::TablePage,
        SummaryEntry::UsageBlob { .. } => DamagedPart::UsageBlob,
        SummaryEntry::DeathBlob { .. } => DamagedPart::DeathBlob,
        SummaryEntry::DeltaBlob { .. } => DamagedPart::DeltaBlob,
        SummaryEntry::KeyPut { .. } | SummaryEntry::KeyDelete { .. } => DamagedPart::KeyRecord,
        SummaryEntry::Reference { .. }
        | SummaryEntry::ForeignReference { .. }
        | SummaryEntry::Grant { .. }
        | SummaryEntry::Trim { .. }
        | SummaryEntry::Zero { .. }
        | SummaryEntry::StreamDrop { .. }
        | SummaryEntry::Cut { .. }
        | SummaryEntry::FreedIds { .. }
        | SummaryEntry::Folded { .. } => DamagedPart::Summary,
    }
}

/// Verifies a segment without knowing what of it is needed, for a shard that cannot be opened. Damage counts as needed.
///
/// Free slots may hold anything: what does not carry the shard's own sound header is passed by.
///
/// # Errors
/// When the media fail to give the header back.
pub async fn verify_slot(
    media: &varve_media::Media,
    config: &crate::ShardConfig,
    number: SegmentNumber,
) -> Result<Vec<Damage>> {
    let unknown = SegmentId { number, generation: varve_types::Generation::ZERO };
    let read = media.segments.get(unknown, 0, STRIP_HEADER_BYTES).await;
    let bytes = read.map_err(varve_logstore::Error::from).map_err(Error::from)?;
    let Ok((header, _)) = StripHeader::decode(&bytes) else { return Ok(Vec::new()) };
    let segment_bytes = media.segments.geometry().segment_bytes;
    let ours = header.check_place(config.pool, number).is_ok() && header.shard == config.shard;
    if !ours || header.used_bytes > segment_bytes {
        return Ok(Vec::new());
    }
    let segment = header.segment();
    let damage = |part, offset, len, reason| Damage {
        segment,
        offset,
        len,
        part,
        is_needed: true,
        is_copied: false,
        reason,
    };
    let bytes = match media.segments.get(segment, 0, header.used_bytes).await {
        Ok(bytes) => bytes,
        Err(error) => {
            let part = DamagedPart::Range;
            return Ok(vec![damage(part, 0, header.used_bytes, error.to_string())]);
        }
    };
    let (start, len) = (header.summary_offset, header.summary_bytes());
    let end = u64::from(start) + u64::from(len);
    let end = usize::try_from(end).expect("a sum of two u32 fits");
    let summary = bytes.get(start as usize..end).unwrap_or(&[]);
    let entries = match decode_summary(&header, summary) {
        Ok(entries) => entries,
        Err(error) => {
            return Ok(vec![damage(DamagedPart::Summary, start, len, error.to_string())]);
        }
    };
    let units = entries.iter().filter_map(|entry| Some((entry, entry.unit()?)));
    let broken = units.filter(|(_, unit)| {
        !unit_bytes(&bytes, unit).is_some_and(|found| unit_is_whole(unit, found))
    });
    let found = broken.map(|(entry, unit)| {
        damage(part_of(entry), unit.offset(), unit.stored_len, "checksum mismatch".to_owned())
    });
    Ok(found.collect())
}
