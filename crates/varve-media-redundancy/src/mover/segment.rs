//! One segment of a row that moves: read, shown to its owner, written where it lacks, and read back.

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;

use futures_util::future::join_all;
use varve_media::planted::{Bug, planted};
use varve_media::{Error, HeldSegment, Persist, Result, SegmentId};
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::ErrorKind;

use crate::budget::{DriveUse, RepairUrgency};
use crate::class::LABEL_BYTES;
use crate::decode::{ATTEMPTS_MAX, SlotContents, StripDefect, StripFault};
use crate::exposure::is_readable;
use crate::format::{StripForm, StripLabel, StripSet};
use crate::handles::DriveHandle;
use crate::ids::{DriveNumber, ZoneIndex};
use crate::repair::{RepairCounts, RepairThread};
use crate::stripe::Stripe;
use crate::view::{LayoutView, StripLocation};
use crate::written_drive::fail_drive;

/// Times that a strip is written until it reads back.
const WRITES_MAX: u32 = 2;

/// A row in the state in which its segments are being moved.
pub(crate) struct RowMove {
    pub(crate) zone: ZoneIndex,
    pub(crate) view: Arc<LayoutView>,
    pub(crate) from: StripSet,
    pub(crate) to: StripSet,
    /// Whether nothing but puts can have filled a place of `to` that `from` has not.
    pub(crate) is_fresh: bool,
    pub(crate) urgency: RepairUrgency,
    /// Whether strips were found wrong that no lost drive accounts for.
    pub(crate) has_loss: Cell<bool>,
}

impl RowMove {
    fn row_is_same(&self, view: &LayoutView) -> bool {
        let row = view.row(self.zone);
        row.source() == Some(&self.from) && row.target() == Some(&self.to)
    }

    /// Whether both sets have a strip at one place.
    fn stays(&self, location: &StripLocation) -> bool {
        let has =
            |set: &StripSet| set.places.get(usize::from(location.strip)) == Some(&location.place);
        self.from.form == StripForm::Striped && has(&self.from) && has(&self.to)
    }

    /// Where strips of a slot are to be written: those that both sets have stay, and drives that are not read get none.
    fn targets(&self, slot: u32) -> Vec<StripLocation> {
        let data = self.view.class_of(&self.to).shape.data();
        let is_meant = |it: &StripLocation| !planted(Bug::ParityNotRebuilt) || it.strip < data;
        let all = self.view.locate(&self.to, slot);
        all.filter(|it| !self.stays(it) && is_readable(self.view.drives(), it.place.drive))
            .filter(is_meant) // MOVER-2: strips of parity are strips as any.
            .collect()
    }
}

/// What a slot holds, whole by the word of its owner, and its strips in the set that it moves to.
struct WholeSegment {
    contents: SlotContents,
    stripe: Stripe,
}

/// What became of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentEnd {
    /// All of its strips are in `to`.
    Filled,
    /// Its slot has other contents, or none.
    Gone,
    /// It is not there, and its put has not ended: one that begins from now on goes to `to`.
    NotPut,
    /// Nothing that is right can be read. What can be read of it was moved as it is, where it can be.
    Unreadable,
    /// The same, and drives answered with errors that may have more of it: it is nowhere but where it was.
    Kept,
    /// The row is not as it was.
    RowChanged,
}

impl RepairThread {
    /// Moves what a slot holds.
    ///
    /// # Errors
    /// Of drives that are written; sources that fail are left out.
    pub(crate) async fn move_segment(
        &self,
        job: &RowMove,
        held: &HeldSegment,
    ) -> Result<SegmentEnd> {
        let id = held.id;
        let Some(_pin) = self.contents.pin(id) else { return Ok(SegmentEnd::Gone) };
        if !job.row_is_same(&self.media.tables.view()) {
            return Ok(SegmentEnd::RowChanged);
        }
        // What is being put is not to be written over, nor taken for missing.
        self.media.segments.puts_before_now(job.zone).await;
        if job.is_fresh && self.media.segments.is_known_filled(id) {
            self.note_filled(job.zone, id);
            return Ok(SegmentEnd::Filled);
        }
        let Some(WholeSegment { contents, stripe }) = self.read_whole(job, id).await? else {
            if !self.is_put(job.zone, id) {
                return Ok(SegmentEnd::NotPut); // MOVER-4
            }
            return self.move_as_it_is(job, id).await;
        };
        self.note_defects(job, id, &contents);
        let Some(at) = job.view.zone_of(id.number) else { return Ok(SegmentEnd::Gone) };
        let targets = job.targets(at.slot);
        let writes = targets.iter().map(|target| self.write_strip(job, id, &stripe, target));
        // All of them end before an error is told: what is under way would be written after the pin is gone.
        let ends = join_all(writes).await;
        if !job.row_is_same(&self.media.tables.view()) {
            return Ok(SegmentEnd::RowChanged);
        }
        ends.into_iter().collect::<Result<()>>()?;
        self.media.segments.mark_filled(id);
        self.note_filled(job.zone, id);
        if targets.len() == stripe.shape().strips() {
            self.unverified.borrow_mut().verify(id);
        }
        let counts = RepairCounts { segments_moved: 1, ..RepairCounts::default() };
        self.control.count(counts);
        Ok(SegmentEnd::Filled)
    }

    /// Takes in what is wrong with strips that stay where they are: the move does not write them.
    fn note_defects(&self, job: &RowMove, id: SegmentId, contents: &SlotContents) {
        let is_wrong = |defect: &&StripDefect| {
            job.stays(&defect.location) && !matches!(defect.fault, StripFault::NoDrive)
        };
        let wrong: Vec<_> = contents.defects.iter().filter(is_wrong).collect();
        if wrong.is_empty() {
            return;
        }
        for defect in wrong {
            let drive = defect.location.place.drive;
            tracing::warn!(segment = id.number.0, %drive, fault = ?defect.fault, "a strip is wrong");
            self.control.count(RepairCounts { strips_bad: 1, ..RepairCounts::default() });
            self.control.count_faults(defect.faults());
        }
        self.contents.relocate(id, "strips of it are wrong");
        self.distrust(id);
        job.has_loss.set(true);
    }

    /// Pins a slot where the row is as it was taken up, and this thread still serves.
    fn pin_of_row(&self, job: &RowMove, id: SegmentId) -> Option<Box<dyn Any>> {
        let may_write = !self.is_over() && job.row_is_same(&self.media.tables.view());
        may_write.then(|| self.contents.pin(id)).flatten()
    }

    /// Contents of a slot that are whole by the word of its owner (MOVER-1).
    async fn read_whole(&self, job: &RowMove, id: SegmentId) -> Result<Option<WholeSegment>> {
        let reader = self.reader(job.urgency);
        for attempt in 0..ATTEMPTS_MAX {
            let contents = match reader.read_contents(&job.view, id, attempt).await {
                Ok(Some(contents)) => contents,
                // The first attempt reads no more than it must.
                Ok(None) if attempt == 0 => continue,
                Ok(None) => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Unavailable => return Ok(None),
                Err(error) => return Err(error),
            };
            let bytes_read = contents.bytes.len() as u64;
            self.control.count(RepairCounts { bytes_read, ..RepairCounts::default() });
            // Each of these passes over all of it: clients of the thread are served in between.
            self.reactor.yield_now().await;
            let is_whole = self.contents.is_whole(id, &contents.bytes);
            if !is_whole && !planted(Bug::MovedUnverified) {
                continue;
            }
            self.reactor.yield_now().await;
            let geometry = job.view.drives().geometry(job.view.class_of(&job.to).shape);
            let stripe = Stripe::new(&self.codes, geometry, &contents.bytes);
            self.reactor.yield_now().await;
            if has_sums(&stripe, &contents) || planted(Bug::MovedUnverified) {
                return Ok(Some(WholeSegment { contents, stripe }));
            }
        }
        Ok(None)
    }

    /// Writes a strip, durably, and reads it back (MOVER-3).
    async fn write_strip(
        &self,
        job: &RowMove,
        id: SegmentId,
        stripe: &Stripe,
        target: &StripLocation,
    ) -> Result<()> {
        let drive = self.drive(target.place.drive)?;
        let label = stripe.label(&job.view, id, target);
        let strip = stripe.strip(target.strip);
        let may_be_there = !job.is_fresh || has_label(&drive, target, &label).await;
        if may_be_there && self.reads_back(job, &drive, target, &label, strip).await {
            return Ok(()); // It was written before the pool was opened, by a put, or the row turned.
        }
        if planted(Bug::FreedBeforeReadBack) {
            let parts = stripe.parts(&job.view, id, target);
            return drive.write(target.offset, parts, Persist::Cached).await;
        }
        for _ in 0..WRITES_MAX {
            let parts = stripe.parts(&job.view, id, target);
            self.write_parts(job, id, &drive, target.offset, parts).await?;
            if self.reads_back(job, &drive, target, &label, strip).await {
                return Ok(());
            }
            drive.counts().note_checksum_error();
            self.control.count(RepairCounts { strips_bad: 1, ..RepairCounts::default() });
        }
        // What does not hold what it acknowledged must not be relied on.
        let reason = "what was written to it reads back otherwise".to_owned();
        let failure = Error::DriveFailed { drive: drive.number().get(), reason };
        fail_drive(&self.media.tables, drive.number(), failure.clone()).await?;
        Err(failure)
    }

    async fn write_parts(
        &self,
        job: &RowMove,
        id: SegmentId,
        drive: &DriveHandle,
        offset: u64,
        parts: Vec<BufSlice>,
    ) -> Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        let write = async {
            // MOVER-6: the pin of before may be of a shard that has ended meanwhile.
            let Some(_pin) = self.pin_of_row(job, id) else { return Err(Error::Fenced) };
            Ok(drive.write(offset, parts, Persist::Durable).await)
        };
        let used = DriveUse { drive: drive.number(), bytes };
        if let Err(error) = self.turns.run(job.urgency, used, write).await? {
            let (tables, number) = (&self.media.tables, drive.number());
            let reason = error.to_string();
            fail_drive(tables, number, error).await?;
            return Err(Error::DriveFailed { drive: number.get(), reason });
        }
        self.control.count(RepairCounts { bytes_written: bytes, ..RepairCounts::default() });
        Ok(())
    }

    /// Whether a label and a strip are where they should be. Of the label the epoch does not count: it says when it was
    /// written.
    async fn reads_back(
        &self,
        job: &RowMove,
        drive: &DriveHandle,
        target: &StripLocation,
        label: &StripLabel,
        strip: &BufSlice,
    ) -> bool {
        let len = LABEL_BYTES as usize + strip.len();
        let used = DriveUse { drive: drive.number(), bytes: len as u64 };
        let read = async { drive.read(target.offset, len).await };
        let Ok(bytes) = self.turns.run(job.urgency, used, read).await else { return false };
        let bytes_verified = len as u64;
        self.control.count(RepairCounts { bytes_verified, ..RepairCounts::default() });
        let Some((head, data)) = bytes.split_at_checked(LABEL_BYTES as usize) else { return false };
        is_label(head, label) && data == &**strip
    }

    /// Moves what can be read of a segment that is not whole, strip by strip as it is, where both sets have one class.
    async fn move_as_it_is(&self, job: &RowMove, id: SegmentId) -> Result<SegmentEnd> {
        self.contents.relocate(id, "its strips cannot be read, or are not what was stored");
        let is_new = self.unverified.borrow_mut().lose(id);
        job.has_loss.set(job.has_loss.get() || is_new);
        self.renew_facts();
        let is_alike = job.from.form == StripForm::Striped && job.from.class == job.to.class;
        let Some(at) = job.view.zone_of(id.number).filter(|_| is_alike) else {
            return Ok(SegmentEnd::Unreadable);
        };
        let sources: Vec<_> = job.view.locate(&job.from, at.slot).collect();
        let mut has_errors = false;
        for target in job.targets(at.slot) {
            let source = sources.iter().find(|source| source.strip == target.strip);
            let Some(source) = source else { continue };
            let (label, data) = match self.read_as_it_is(job, id, source).await {
                Ok(Some(strip)) => strip,
                Ok(None) => continue,
                Err(error) => {
                    tracing::warn!(segment = id.number.0, %error, "a strip cannot be read now");
                    has_errors = true;
                    continue;
                }
            };
            let label = StripLabel {
                drive: target.place.drive,
                place: target.place.place,
                tenancy: target.place.tenancy,
                epoch: job.view.drives().epoch,
                ..label
            };
            let mut head = AlignedBuf::zeroed(StripLabel::LEN);
            label.encode(&mut head);
            let mut parts = vec![head.freeze()];
            parts.extend((!data.is_empty()).then_some(data));
            let drive = self.drive(target.place.drive)?;
            self.write_parts(job, id, &drive, target.offset, parts).await?;
        }
        Ok(if has_errors { SegmentEnd::Kept } else { SegmentEnd::Unreadable })
    }

    /// A strip with a label of the segment, whether or not its bytes are right.
    ///
    /// # Errors
    /// The drive's: it may be there all the same.
    async fn read_as_it_is(
        &self,
        job: &RowMove,
        id: SegmentId,
        source: &StripLocation,
    ) -> Result<Option<(StripLabel, BufSlice)>> {
        if !is_readable(job.view.drives(), source.place.drive) {
            return Ok(None);
        }
        let drive = self.drive(source.place.drive)?;
        let head = drive.read(source.offset, StripLabel::LEN).await?;
        let Ok(label) = StripLabel::decode(&head) else { return Ok(None) };
        let pool = job.view.drives().pool;
        let is_own = source.misfit(pool, id.number, &label).is_none();
        if !is_own || label.generation != id.generation {
            return Ok(None);
        }
        if label.data_bytes == 0 {
            return Ok(Some((label, BufSlice::copy_from(&[]))));
        }
        let at = source.offset + u64::from(LABEL_BYTES);
        let data = drive.read(at, label.data_bytes as usize).await?;
        Ok(Some((label, data.freeze())))
    }

    fn drive(&self, number: DriveNumber) -> Result<std::rc::Rc<DriveHandle>> {
        self.media.handles.get(number).ok_or_else(|| Error::DriveFailed {
            drive: number.get(),
            reason: "this thread has not opened it".to_owned(),
        })
    }
}

/// Whether the strips that follow from contents are those that their labels tell of: some of them stay where they are,
/// and are to fit those that are written.
fn has_sums(stripe: &Stripe, contents: &SlotContents) -> bool {
    let put = contents.put.as_ref().filter(|put| put.shape == stripe.shape());
    put.is_none_or(|put| stripe.sums() == &*put.strip_checksums)
}

/// Whether a place has a label, whatever its strip is.
async fn has_label(drive: &DriveHandle, target: &StripLocation, label: &StripLabel) -> bool {
    let Ok(head) = drive.read(target.offset, StripLabel::LEN).await else { return false };
    is_label(&head, label)
}

/// Whether bytes are a label. Its epoch does not count: it says when it was written.
fn is_label(bytes: &[u8], label: &StripLabel) -> bool {
    StripLabel::decode(bytes)
        .is_ok_and(|found| StripLabel { epoch: label.epoch, ..found } == *label)
}
