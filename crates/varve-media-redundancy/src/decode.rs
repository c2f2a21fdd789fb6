//! Reads slots by their labels: which strips belong together, and what follows from any k of them. Called by segments
//! where a plain read is not enough, by the mover, and by scrub. Writes nothing.
//!
//! ```text
//!  strips of both sets ─▶ label fits its place? ─▶ sum right? ─▶ groups of one put each ─▶ any k of the best ─▶
//!                              contents └─ no: a defect ◀─────┘ no
//! ```
//!
//! DECODE-1. Strips of one decode have pool, slot, place, tenancy, generation and sums of one put.
//! DECODE-2. Each strip goes in by the index of its label, and by the place that the row says, which must be equal.
//! DECODE-3. Exactly k strips suffice, of whatever indexes.
//! DECODE-4. A strip whose sum is wrong is not decoded from; zeros are no strip.
//! DECODE-6. While more strips of a set than parity are on drives that cannot be read, nothing in it is empty.

use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use varve_media::planted::{Bug, planted};
use varve_media::{Error, Result, SegmentId};
use varve_stdx::{AlignedBuf, BufSlice, is_zero, payload_checksum};
use varve_types::{Generation, SegmentNumber};

use crate::budget::{DriveUse, RepairUrgency};
use crate::class::{LABEL_BYTES, STRIPS_MAX, StripGeometry, StripeShape};
use crate::exposure::is_readable;
use crate::format::{FormatFault, Row, StripForm, StripLabel, StripSet};
use crate::handles::{DriveHandle, DriveHandles};
use crate::ids::{DriveNumber, Epoch, ZoneIndex};
use crate::repair::{DeviceTurns, DriveFaults};
use crate::stripe::StripCodes;
use crate::view::{LayoutView, StripLocation, ZoneSlot};

mod columns;
mod group;

pub(crate) use columns::ColumnRequest;
use group::{GroupStrip, PutGroup, group_strips};

/// Ways to read a slot: plain, all strips, and each of them left out.
pub(crate) const ATTEMPTS_MAX: u32 = 18;
const _: () = assert!(ATTEMPTS_MAX as usize == 2 + STRIPS_MAX);

/// Why a strip does not count.
#[derive(Clone, Debug)]
pub enum StripFault {
    /// Its drive is not read any more, or not there.
    NoDrive,
    /// Its drive answered with an error, or not at all.
    Unreadable(String),
    /// Zeros are where its label should be: nothing was written.
    Blank,
    /// Its label is none.
    Label(FormatFault),
    /// Its label is of something else: names what tells it.
    Misfit(&'static str),
    /// It is of another put than the one that was asked for, or than those that most agree on.
    OtherPut,
    /// Its bytes are not those that its label speaks of.
    Checksum,
}

impl fmt::Display for StripFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDrive => f.write_str("its drive is not there, or not read"),
            Self::Unreadable(reason) => write!(f, "it cannot be read: {reason}"),
            Self::Blank => f.write_str("zeros are where its label should be"),
            Self::Label(fault) => write!(f, "its label is damaged: {fault}"),
            Self::Misfit(field) => write!(f, "its label is of something else, by {field}"),
            Self::OtherPut => f.write_str("it is of another write than the other strips"),
            Self::Checksum => f.write_str("its bytes do not match the checksum of its label"),
        }
    }
}

impl StripFault {
    /// Whether its drive is not read, so that nothing can be said of it.
    #[must_use]
    pub const fn is_absence(&self) -> bool {
        match self {
            Self::NoDrive => true,
            Self::Unreadable(_)
            | Self::Blank
            | Self::Label(_)
            | Self::Misfit(_)
            | Self::OtherPut
            | Self::Checksum => false,
        }
    }

    /// Whether its label is what is wrong with it.
    #[must_use]
    pub const fn is_label(&self) -> bool {
        match self {
            Self::Blank | Self::Label(_) | Self::Misfit(_) | Self::OtherPut => true,
            Self::NoDrive | Self::Unreadable(_) | Self::Checksum => false,
        }
    }

    /// Whether what was written is not what is read. What a put that was cut off left may be of another put, and a read
    /// that fails is counted where it does.
    pub(crate) const fn is_damage(&self) -> bool {
        match self {
            Self::Blank | Self::Label(_) | Self::Checksum => true,
            Self::NoDrive | Self::Unreadable(_) | Self::Misfit(_) | Self::OtherPut => false,
        }
    }

    /// Whether nobody can say what is there.
    fn hides_contents(&self) -> bool {
        match self {
            Self::NoDrive | Self::Unreadable(_) => true,
            // A put that was cut off leaves labels torn, so these are no sign of anything that was acknowledged.
            Self::Blank | Self::Label(_) | Self::Misfit(_) | Self::OtherPut | Self::Checksum => {
                false
            }
        }
    }
}

/// What tells one put of a slot from another: all strips of one have it in common (DECODE-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutIdentity {
    /// Strips.
    pub shape: StripeShape,
    /// Which contents of the slot.
    pub generation: Generation,
    /// Bytes of the segment.
    pub used_bytes: u32,
    /// Payload checksum of each strip.
    pub strip_checksums: Box<[u64]>,
}

impl PutIdentity {
    /// The put that a label is of.
    #[must_use]
    pub fn of(label: &StripLabel) -> Self {
        Self {
            shape: label.shape,
            generation: label.generation,
            used_bytes: label.used_bytes,
            strip_checksums: label.strip_checksums.clone(),
        }
    }
}

/// A strip's label, or why it does not count.
#[derive(Clone, Debug)]
pub struct LabelReading {
    /// Where the strip is.
    pub location: StripLocation,
    /// The label; it fits its place, and its strip was not looked at.
    pub label: std::result::Result<StripLabel, StripFault>,
}

/// A strip, or why it does not count.
struct StripReading {
    location: StripLocation,
    strip: std::result::Result<(StripLabel, BufSlice), StripFault>,
}

/// What is wrong with a strip.
#[derive(Clone, Debug)]
pub struct StripDefect {
    /// Where it is.
    pub location: StripLocation,
    /// What.
    pub fault: StripFault,
}

impl StripDefect {
    /// What it is to its drive; nothing where the drive is not read.
    pub(crate) fn faults(&self) -> DriveFaults {
        let none = DriveFaults::none(self.location.place.drive);
        match self.fault {
            StripFault::NoDrive => none,
            StripFault::Unreadable(_) => DriveFaults { unreadable: 1, ..none },
            StripFault::Blank
            | StripFault::Label(_)
            | StripFault::Misfit(_)
            | StripFault::OtherPut
            | StripFault::Checksum => DriveFaults { strips: 1, ..none },
        }
    }
}

/// Contents of a slot, decoded.
#[derive(Clone, Debug)]
pub struct SlotContents {
    /// All `used_bytes` of them. Right by the checksums of strips; whether they are what the owner stored, it says.
    pub bytes: BufSlice,
    /// Of which put; `None` in a slot without labels.
    pub put: Option<PutIdentity>,
    /// The newest epoch that its labels name.
    pub epoch: Epoch,
    /// Strips that were looked at and do not count.
    pub defects: Vec<StripDefect>,
}

/// Which put of a slot counts, by its labels.
#[derive(Clone, Debug)]
pub(crate) struct CurrentPut {
    pub(crate) put: PutIdentity,
    /// Where its strips are, by index.
    pub(crate) locations: Vec<StripLocation>,
}

/// Strips that are those of certain contents.
#[derive(Default)]
pub(crate) struct PutMatch {
    /// The contents, where enough strips have them.
    pub(crate) contents: Option<BufSlice>,
    /// The strips.
    pub(crate) whole: Vec<StripLocation>,
}

/// Reads slots over the drives of this thread. Clones share them.
#[derive(Clone)]
pub struct SlotReader {
    handles: Rc<DriveHandles>,
    codes: StripCodes,
    /// How fast, where it is for repair.
    pace: Option<(Rc<DeviceTurns>, RepairUrgency)>,
}

impl SlotReader {
    /// Over `handles`.
    #[must_use]
    pub fn new(handles: Rc<DriveHandles>, codes: StripCodes) -> Self {
        Self { handles, codes, pace: None }
    }

    /// The same for repair, as fast as drives may be used for it.
    pub(crate) fn paced(&self, turns: &Rc<DeviceTurns>, urgency: RepairUrgency) -> Self {
        Self { pace: Some((Rc::clone(turns), urgency)), ..self.clone() }
    }

    /// The drive's handle where its table says that it may be read, and this thread has it.
    pub(crate) fn readable(
        &self,
        view: &LayoutView,
        drive: DriveNumber,
    ) -> Option<Rc<DriveHandle>> {
        is_readable(view.drives(), drive).then(|| self.handles.get(drive)).flatten()
    }

    /// Reads the labels of a slot in one set of `view`, of all strips at once. None of a slot without labels.
    pub async fn read_labels(
        &self,
        view: &LayoutView,
        set: &StripSet,
        slot: SegmentNumber,
    ) -> Vec<LabelReading> {
        self.labels_at(view, slot, locations_in(view, set, slot)).await
    }

    async fn labels_at(
        &self,
        view: &LayoutView,
        slot: SegmentNumber,
        locations: Vec<StripLocation>,
    ) -> Vec<LabelReading> {
        let reads = locations.into_iter().map(move |location| async move {
            let bytes = self.read_at(view, &location, 0..LABEL_BYTES).await;
            let label = bytes.and_then(|bytes| check_label(view, slot, &location, &bytes));
            LabelReading { location, label }
        });
        join_all(reads).await
    }

    /// Whether each readable place of `set` has a strip of one put of `id`, by labels: none is missing but those on
    /// drives that are not read any more.
    pub async fn is_filled(&self, view: &LayoutView, set: &StripSet, id: SegmentId) -> bool {
        let readings = self.read_labels(view, set, id.number).await;
        let mut found: Option<PutIdentity> = None;
        let mut count = 0;
        for reading in readings {
            match reading.label {
                Err(StripFault::NoDrive) if is_given_up(view, &reading.location) => {}
                Err(_) => return false,
                Ok(label) => {
                    let put = PutIdentity::of(&label);
                    let is_same = found.as_ref().is_none_or(|found| *found == put);
                    if put.generation != id.generation || !is_same {
                        return false;
                    }
                    found = Some(put);
                    count += 1;
                }
            }
        }
        found.is_some_and(|put| count >= usize::from(put.shape.data()))
    }

    /// Reads contents of a slot by labels and sums, from strips of both sets of its row. With generation 0 those that
    /// count (3.2). `attempt` 0 reads no more strips than it needs; 1 reads all; each one from 2 on leaves out another
    /// one of those that are right. `None` when there is no such attempt, or nothing that was put in full.
    ///
    /// # Errors
    /// `TooFewDrives` when more strips than parity are on drives that cannot be read, so it may be there all the same.
    pub async fn read_contents(
        &self,
        view: &LayoutView,
        id: SegmentId,
        attempt: u32,
    ) -> Result<Option<SlotContents>> {
        let Some(ZoneSlot { zone, slot }) = view.zone_of(id.number) else { return Ok(None) };
        let row = view.row(zone);
        let mut readings = Vec::new();
        for wave in self.waves(view, row, id, attempt) {
            readings.extend(self.read_strips(view, id.number, wave).await);
            let found = group_strips(&readings).best(id.generation);
            let Some(group) = found.filter(|group| group.is_enough()) else { continue };
            let left_out = match attempt {
                0 | 1 => None,
                2.. if group.strips.len() <= needed(group.put.shape) => return Ok(None),
                _ => Some(attempt as usize - 2),
            };
            if left_out.is_some_and(|it| it >= group.strips.len()) {
                return Ok(None);
            }
            if let Some(bytes) = self.decode(view, &group, left_out) {
                // Of a row that moves, what is not filled yet is blank, or as an earlier move left it.
                if row.source().is_none() {
                    self.blame(&readings, &group);
                }
                let (put, epoch) = (group.put.clone(), group.epoch);
                let defects = defects_of(readings, &group);
                return Ok(Some(SlotContents { bytes, put: Some(put), epoch, defects }));
            }
        }
        let plain = row.sets().find(|set| matches!(set.form, StripForm::Slots { .. }));
        // Where nothing else can be there, all of it is the slot.
        let attempts = u32::from(row.source().is_none());
        if let Some(set) = plain.filter(|_| attempt <= attempts) {
            return self.read_plain(view, zone, set, slot).await.map(Some);
        }
        let set_hides = |set: &StripSet| self.hidden_error(view, zone, set, slot, &readings);
        row.sets().find_map(set_hides).map_or(Ok(None), Err)
    }

    /// Which put of a slot counts, of all of both sets by their labels; `None` where there is none.
    pub(crate) async fn current_put(
        &self,
        view: &LayoutView,
        slot: SegmentNumber,
    ) -> Result<Option<CurrentPut>> {
        let Some(ZoneSlot { zone, slot: within }) = view.zone_of(slot) else { return Ok(None) };
        let row = view.row(zone);
        let locations = locations_of(view, row, slot);
        let labels = self.labels_at(view, slot, locations).await;
        let readings: Vec<StripReading> = labels.into_iter().map(StripReading::of_label).collect();
        let group = group_strips(&readings).best(Generation::ZERO);
        if let Some(group) = group.filter(|group| group.is_enough()) {
            let locations = group.strips.iter().map(|strip| strip.location).collect();
            return Ok(Some(CurrentPut { put: group.put, locations }));
        }
        let set_hides = |set: &StripSet| self.hidden_error(view, zone, set, within, &readings);
        row.sets().find_map(set_hides).map_or(Ok(None), Err)
    }

    /// Which strips of all sets of the slot's row are those of a put of `id` whose contents are `bytes`, or begin with
    /// them, and all of those contents. Without contents where no such put has enough strips: others of that generation
    /// are of a put that was cut off in an earlier life, and count no longer once the caller took `bytes` for right.
    pub(crate) async fn match_put(
        &self,
        view: &LayoutView,
        id: SegmentId,
        bytes: &BufSlice,
    ) -> Result<PutMatch> {
        let Some(ZoneSlot { zone, .. }) = view.zone_of(id.number) else {
            return Ok(PutMatch::default());
        };
        let locations = locations_of(view, view.row(zone), id.number);
        let readings = self.read_strips(view, id.number, locations).await;
        for group in group_strips(&readings).into_groups() {
            if group.put.generation != id.generation || !group.is_enough() {
                continue;
            }
            let Some(contents) = self.decode(view, &group, None) else { continue };
            let common = contents.len().min(bytes.len());
            if contents.get(..common) == bytes.get(..common) {
                let whole = group.locations().collect();
                return Ok(PutMatch { contents: Some(contents), whole });
            }
        }
        Ok(PutMatch::default())
    }

    /// Strips in the order in which they are read: those that most likely suffice, then the others.
    fn waves(
        &self,
        view: &LayoutView,
        row: &Row,
        id: SegmentId,
        attempt: u32,
    ) -> Vec<Vec<StripLocation>> {
        let all = locations_of(view, row, id.number);
        if attempt > 0 || id.generation == Generation::ZERO {
            return vec![all];
        }
        let set = row.source().or(row.target()).filter(|set| set.form == StripForm::Striped);
        let Some(set) = set else { return vec![all] };
        let mut first = locations_in(view, set, id.number);
        first.retain(|location| self.readable(view, location.place.drive).is_some());
        first.sort_by_key(|location| self.handles.is_avoided(view, location.place.drive));
        first.truncate(needed(view.class_of(set).shape));
        let rest = all.into_iter().filter(|location| !first.contains(location)).collect();
        vec![first, rest]
    }

    async fn read_strips(
        &self,
        view: &LayoutView,
        slot: SegmentNumber,
        locations: Vec<StripLocation>,
    ) -> Vec<StripReading> {
        let reads = locations.into_iter().map(move |location| async move {
            let strip = self.read_strip(view, slot, &location).await;
            StripReading { location, strip }
        });
        join_all(reads).await
    }

    /// A strip with its label, both checked.
    async fn read_strip(
        &self,
        view: &LayoutView,
        slot: SegmentNumber,
        location: &StripLocation,
    ) -> std::result::Result<(StripLabel, BufSlice), StripFault> {
        let len = LABEL_BYTES + location.geometry.strip_bytes();
        let bytes = self.read_at(view, location, 0..len).await?;
        let (label_bytes, label_len) = (bytes.slice(0..StripLabel::LEN), StripLabel::LEN);
        let label = check_label(view, slot, location, &label_bytes)?;
        let strip = bytes.slice(label_len..label_len + label.data_bytes as usize);
        let expected = label.strip_checksums.get(usize::from(location.strip)).copied();
        // DECODE-4
        let is_right = expected == Some(payload_checksum(&strip));
        if is_right || planted(Bug::ZeroedStripBelieved) {
            return Ok((label, strip));
        }
        Err(StripFault::Checksum)
    }

    /// Bytes of a strip, counted from its label.
    pub(crate) async fn read_at(
        &self,
        view: &LayoutView,
        location: &StripLocation,
        range: Range<u32>,
    ) -> std::result::Result<BufSlice, StripFault> {
        let drive = self.readable(view, location.place.drive).ok_or(StripFault::NoDrive)?;
        if range.is_empty() {
            return Ok(BufSlice::copy_from(&[]));
        }
        let offset = location.offset + u64::from(range.start);
        match self.read_drive(&drive, offset, range.len()).await {
            Ok(bytes) => Ok(bytes),
            Err(error) => Err(StripFault::Unreadable(error.to_string())),
        }
    }

    async fn read_drive(&self, drive: &DriveHandle, offset: u64, len: usize) -> Result<BufSlice> {
        let read = async { drive.read(offset, len).await.map(AlignedBuf::freeze) };
        match &self.pace {
            Some((turns, urgency)) => {
                let used = DriveUse { drive: drive.number(), bytes: len as u64 };
                turns.run(*urgency, used, read).await
            }
            None => read.await,
        }
    }

    /// A slot without labels, as a whole.
    async fn read_plain(
        &self,
        view: &LayoutView,
        zone: ZoneIndex,
        set: &StripSet,
        slot: u32,
    ) -> Result<SlotContents> {
        let none = || Error::TooFewDrives { zone: Some(zone.0), present: 0, needed: 1 };
        let location = view.locate(set, slot).next().ok_or_else(none)?;
        let drive = self.readable(view, location.place.drive).ok_or_else(none)?;
        let len = location.geometry.segment_bytes as usize;
        let bytes = self.read_drive(&drive, location.offset, len).await?;
        let epoch = Epoch::default();
        Ok(SlotContents { bytes, put: None, epoch, defects: Vec::new() })
    }

    /// The error of a set of which more strips than parity cannot be read: what was put there may be there. `None`
    /// where nothing can be.
    fn hidden_error(
        &self,
        view: &LayoutView,
        zone: ZoneIndex,
        set: &StripSet,
        slot: u32,
        readings: &[StripReading],
    ) -> Option<Error> {
        let is_hidden = |location: &StripLocation| {
            let reading = readings.iter().find(|it| it.location == *location);
            let fault = reading.and_then(|reading| reading.strip.as_ref().err());
            fault.is_some_and(StripFault::hides_contents)
                || (!location.has_label && self.readable(view, location.place.drive).is_none())
        };
        let locations: Vec<StripLocation> = view.locate(set, slot).collect();
        let hidden = locations.iter().filter(|location| is_hidden(location)).count();
        let shape = view.class_of(set).shape;
        if hidden <= usize::from(shape.parity()) || planted(Bug::AbsentIsEmpty) {
            return None; // DECODE-6
        }
        let (present, needed) = (locations.len() - hidden, usize::from(shape.data()));
        Some(Error::TooFewDrives { zone: Some(zone.0), present, needed })
    }

    /// Contents from k strips of a put, without the one at `left_out`. `None` when what was computed is not what the
    /// labels say.
    fn decode(
        &self,
        view: &LayoutView,
        group: &PutGroup,
        left_out: Option<usize>,
    ) -> Option<BufSlice> {
        let put = &group.put;
        let count = usize::from(put.shape.data());
        let kept = group.strips.iter().enumerate().filter(|(at, _)| Some(*at) != left_out);
        let chosen: Vec<GroupStrip> = kept.map(|(_, strip)| strip.clone()).take(count).collect();
        if chosen.len() < count {
            return None; // DECODE-3
        }
        let Some(code) = self.codes.of(put.shape) else {
            return chosen.first().map(|copy| copy.bytes.clone());
        };
        let geometry: StripGeometry = view.drives().geometry(put.shape);
        let mut contents = AlignedBuf::scratch(put.used_bytes as usize);
        let (mut wanted, mut outputs) = (Vec::new(), Vec::new());
        for (index, part) in contents.chunks_mut(geometry.strip_bytes() as usize).enumerate() {
            match chosen.iter().find(|strip| usize::from(strip.index) == index) {
                Some(strip) => part.copy_from_slice(strip.bytes.get(..part.len())?),
                None => {
                    wanted.push(index);
                    outputs.push(part);
                }
            }
        }
        if wanted.is_empty() {
            return Some(contents.freeze());
        }
        let plan = code.plan(&indexes_of(&chosen), &wanted).ok()?;
        let sources: Vec<&[u8]> = chosen.iter().map(|strip| &*strip.bytes).collect();
        plan.rebuild(&sources, &mut outputs);
        // DECODE-2: what the labels say, strips that were computed must be.
        let are_right = wanted.iter().zip(&outputs).all(|(index, bytes)| {
            put.strip_checksums.get(*index).copied() == Some(payload_checksum(bytes))
        });
        are_right.then(|| contents.freeze())
    }

    /// Counts what is wrong against the drives that have it: of a row that is still, where all strips have been
    /// written. What is blank where a move brought the place in may be of a slot that nothing used then.
    fn blame(&self, readings: &[StripReading], group: &PutGroup) {
        for reading in readings.iter().filter(|reading| !group.has(&reading.location)) {
            let tenancy = reading.location.place.tenancy;
            let came_later = group.locations().any(|other| other.place.tenancy < tenancy);
            if let Err(fault) = &reading.strip
                && fault.is_damage()
                && !(came_later && matches!(fault, StripFault::Blank))
                && let Some(drive) = self.handles.get(reading.location.place.drive)
            {
                drive.counts().note_checksum_error();
            }
        }
    }
}

impl StripReading {
    /// A label alone: its strip counts as empty.
    fn of_label(reading: LabelReading) -> Self {
        let strip = reading.label.map(|label| (label, BufSlice::copy_from(&[])));
        Self { location: reading.location, strip }
    }
}

/// Strips that suffice to decode (DECODE-3).
fn needed(shape: StripeShape) -> usize {
    let more = usize::from(planted(Bug::NeedsOneMore) && shape.parity() > 0);
    usize::from(shape.data()) + more
}

/// By what index each strip is decoded: that of its label, which is that of its place (DECODE-2).
fn indexes_of(strips: &[GroupStrip]) -> Vec<usize> {
    if planted(Bug::IndexTwice) {
        return (0..strips.len()).collect();
    }
    strips.iter().map(|strip| usize::from(strip.index)).collect()
}

/// Whether the table says that a strip is not read any more, whatever is there.
fn is_given_up(view: &LayoutView, location: &StripLocation) -> bool {
    !is_readable(view.drives(), location.place.drive)
}

/// Strips of a slot that have labels, in one set.
fn locations_in(view: &LayoutView, set: &StripSet, slot: SegmentNumber) -> Vec<StripLocation> {
    let Some(ZoneSlot { slot, .. }) = view.zone_of(slot) else { return Vec::new() };
    view.locate(set, slot).filter(|location| location.has_label).collect()
}

/// The same of all sets of a row, each place once.
fn locations_of(view: &LayoutView, row: &Row, slot: SegmentNumber) -> Vec<StripLocation> {
    let mut all: Vec<StripLocation> = Vec::new();
    for location in row.sets().flat_map(|set| locations_in(view, set, slot)) {
        if !all.contains(&location) {
            all.push(location);
        }
    }
    all
}

/// The label that bytes hold, if it belongs where they are (DECODE-1).
fn check_label(
    view: &LayoutView,
    slot: SegmentNumber,
    location: &StripLocation,
    bytes: &[u8],
) -> std::result::Result<StripLabel, StripFault> {
    if is_zero(bytes) {
        return Err(StripFault::Blank); // DECODE-4
    }
    let label = StripLabel::decode(bytes).map_err(StripFault::Label)?;
    match location.misfit(view.drives().pool, slot, &label) {
        None => Ok(label),
        Some(field) => Err(StripFault::Misfit(field)),
    }
}

/// What does not belong to the put that was decoded.
fn defects_of(readings: Vec<StripReading>, group: &PutGroup) -> Vec<StripDefect> {
    let others = readings.into_iter().filter(|reading| !group.has(&reading.location));
    let defect = |reading: StripReading| {
        let fault = reading.strip.err().unwrap_or(StripFault::OtherPut);
        StripDefect { location: reading.location, fault }
    };
    others.map(defect).collect()
}

#[cfg(test)]
mod tests;
