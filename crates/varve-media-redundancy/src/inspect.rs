//! A redundant pool as somebody finds it who only looks: which drives are there and which of them count, every copy of
//! every table and root, and all strips of a slot as they lie. Called by `varve check`, `varve dump` and
//! `varve salvage`.
//!
//! ```text
//!  RedundantInspection (locks) ──▶ SurveyedPool   what counts, and what is not there
//!          │ on a loop
//!          ├──▶ RedundantLook     the drives as they are
//!          └──▶ RedundantProbe    beside it, the pool under overlays: shards open and recover on it
//! ```
//!
//! REDUNDANT-LOOK-1. Nothing is written to drives: whoever needs to write gets overlays (INSPECT-1 of `varve-media`).
//!     So a pool is looked at with whatever drives are there, where an opening would refuse to go on.
//! REDUNDANT-LOOK-2. What is told of strips and copies is what drives hold, not what recovery makes of it.

use std::path::PathBuf;
use std::rc::Rc;

use futures_util::future::join_all;
use varve_media::planted::{Bug, planted};
use varve_media::{
    DriveParts, Error, HeldSegment, IoFuture, Media, MediaPlace, OverlayMemory,
    RedundantDriveInspection, RedundantSuperblock, Result, RootSide, SegmentId, SuperblockCopy,
};
use varve_reactor::Reactor;
use varve_stdx::BufSlice;
use varve_types::{PoolId, SegmentNumber, ShardId};

use crate::change::NewMember;
use crate::decode::{LabelReading, SlotContents, SlotReader, StripDefect};
use crate::exposure::RepairQueue;
use crate::format::{DriveRecord, DriveRoles, JournalCopy, JournalPlaceKind, StripSet};
use crate::handles::{DRIVE_PATIENCE_NANOS, DriveHandle, DriveHandles, RedundantDisks};
use crate::ids::{DriveNumber, HistoryId, ZoneIndex};
use crate::journal::JournalPatience;
use crate::keeper::{DriveOpener, Keeper};
use crate::opening::{Opening, TableAge};
use crate::pool::RedundantThread;
use crate::space::{DriveSpaces, SpaceFault};
use crate::stripe::{StripCodes, Stripe};
use crate::survey::{Candidate, FoundDrive, OpeningOptions, Survey, UnusableDrive};
use crate::table_store::StoredRoot;
use crate::view::{LayoutView, StripLocation, ZoneSlot};

/// The drives of a redundant pool, locked against being served.
pub struct RedundantInspection {
    drives: Vec<RedundantDriveInspection>,
    /// Places with nothing that can be read.
    failed: Vec<FailedPlace>,
    /// Paths of drives that have left a pool, and have been marked since.
    former: Vec<String>,
    pool: PoolId,
}

struct FailedPlace {
    path: String,
    error: Error,
}

/// What the drives say together.
#[derive(Clone)]
pub struct SurveyedPool {
    /// The tables that count, as they are stored.
    pub view: LayoutView,
    /// The same without the drives that are missing.
    pub present: LayoutView,
    /// Drives that the tables call live or leaving, and that are not there or cannot be read.
    pub missing: Vec<DriveNumber>,
    /// Paths of drives that are not read (OPEN-1).
    pub stale: Vec<String>,
    /// Places that could not be looked at, and why.
    pub errors: Vec<Error>,
    /// Drives that are there and cannot be used.
    pub unusable: Vec<UnusableDrive>,
    /// The table that it goes by, where a drive that is missing may know a newer one (OPEN-6).
    pub may_be_older: Option<TableAge>,
}

/// A side of a table or root on a drive.
#[derive(Clone, Debug)]
pub struct DriveSide {
    /// The drive.
    pub drive: DriveNumber,
    /// What it holds, and where.
    pub side: RootSide,
}

/// The drives as they are, on one thread (REDUNDANT-LOOK-2).
pub struct RedundantLook {
    view: LayoutView,
    handles: Rc<DriveHandles>,
    reader: SlotReader,
    codes: StripCodes,
}

/// The pool under overlays, on one thread, and beside it the drives as they are.
pub struct RedundantProbe {
    thread: RedundantThread,
    look: RedundantLook,
}

/// The strips of a segment, all of which were read.
pub struct SegmentStrips {
    /// What of the better set of its row does not count. Drives that are not there are no defects.
    pub defects: Vec<StripDefect>,
    /// Strips that have the sums which labels name, and are not what follows from the data.
    pub parity_wrong: Vec<StripLocation>,
}

/// The pool that most drives are of; the first one of those with as many.
#[must_use]
pub fn most_named(pools: &[PoolId]) -> Option<PoolId> {
    let count = |pool: &PoolId| pools.iter().filter(|other| *other == pool).count();
    pools.iter().rev().max_by_key(|pool| count(pool)).copied()
}

impl RedundantInspection {
    /// Opens and locks drives, in any order. What is not there, or cannot be read, is looked at by the tables of the
    /// others; of several pools it is the one that most of the drives are of. Blocks for a few reads.
    ///
    /// # Errors
    /// [`Error::InUse`]; [`Error::NoPool`] when no drive of a redundant pool is there.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let (mut drives, mut failed, mut former) = (Vec::new(), Vec::new(), Vec::new());
        for path in paths {
            let name = path.display().to_string();
            match RedundantDriveInspection::open(path) {
                Ok(drive) if drive.has_left() => former.push(name),
                Ok(drive) => drives.push(drive),
                Err(error @ Error::InUse { .. }) => return Err(error),
                Err(error) => failed.push(FailedPlace { path: name, error }),
            }
        }
        let found = drives.iter().filter_map(|drive| Some(drive.superblock().ok()?.pool));
        let pool = most_named(&found.collect::<Vec<_>>());
        let first = || paths.first().map_or_else(String::new, |path| path.display().to_string());
        let pool = pool.ok_or_else(|| Error::NoPool { path: first() })?;
        for drive in &drives {
            let path = drive.path().display().to_string();
            let error = match drive.superblock() {
                Ok(superblock) if superblock.pool == pool => continue,
                Ok(superblock) => Error::OtherPool { path: path.clone(), pool: superblock.pool },
                Err(error) => error,
            };
            failed.push(FailedPlace { path, error });
        }
        Ok(Self { drives, failed, former, pool })
    }

    /// Its identity.
    #[must_use]
    pub const fn pool(&self) -> PoolId {
        self.pool
    }

    /// What the superblocks of its drives say.
    pub fn superblocks(&self) -> impl Iterator<Item = RedundantSuperblock> + '_ {
        let all = self.drives.iter().filter_map(|drive| drive.superblock().ok());
        all.filter(|superblock| superblock.pool == self.pool)
    }

    /// Every copy of every drive's superblock.
    pub fn superblock_copies(&self) -> impl Iterator<Item = &SuperblockCopy> {
        self.drives.iter().flat_map(RedundantDriveInspection::superblock_copies)
    }

    /// What the drives say together.
    ///
    /// # Errors
    /// Those of [`Survey::take`].
    pub async fn survey(&self, reactor: &Reactor) -> Result<SurveyedPool> {
        let survey = self.take(reactor, None).await?;
        let view = survey.view().clone();
        let errors = survey.errors.clone();
        let Opening { view: present, mut stale, missing, unusable, may_be_older, .. } =
            survey.look()?;
        stale.extend(self.former.iter().cloned());
        Ok(SurveyedPool { view, present, missing, stale, errors, unusable, may_be_older })
    }

    /// The drives as they are, for the loop of this thread.
    ///
    /// # Errors
    /// Those of [`Survey::take`].
    pub async fn look(&self, reactor: &Reactor) -> Result<RedundantLook> {
        let survey = self.take(reactor, None).await?;
        let (view, handles) = (survey.view().clone(), Rc::clone(&survey.handles));
        let codes = StripCodes::default();
        let reader = SlotReader::new(Rc::clone(&handles), codes.clone());
        Ok(RedundantLook { view, handles, reader, codes })
    }

    /// Both sides of the drive table of every drive that is there, whether or not the tables know it.
    ///
    /// # Errors
    /// [`Error::Open`].
    pub async fn drive_tables(&self, reactor: &Reactor) -> Result<Vec<DriveSide>> {
        let mut sides = Vec::new();
        for drive in &self.drives {
            let Ok(superblock) = drive.superblock() else { continue };
            let DriveParts { meta, space } = drive.disks(reactor, None)?;
            let disks = RedundantDisks { meta, space };
            let handle = DriveHandle::new(reactor, superblock, &disks, DRIVE_PATIENCE_NANOS);
            let Some(handle) = handle else { continue };
            sides.extend(sides_of(StoredRoot::DriveTable, &handle).await);
        }
        Ok(sides)
    }

    /// The pool for the loop of this thread, over overlays that share `memory` (REDUNDANT-LOOK-1). What it runs ends
    /// with the loop.
    ///
    /// # Errors
    /// Those of [`Survey::take`] and [`Survey::look`].
    pub async fn probe(
        &self,
        reactor: &Reactor,
        memory: &Rc<OverlayMemory>,
    ) -> Result<RedundantProbe> {
        let look = self.look(reactor).await?;
        let memory = Some(memory).filter(|_| !planted(Bug::LookWrites));
        let opening = self.take(reactor, memory).await?.look()?;
        let keeper = Keeper::new(reactor, opening, Rc::new(NoJoins));
        let handles = Rc::clone(keeper.handles());
        let tables = keeper.tables().on(reactor);
        reactor.spawn(keeper.run());
        let thread = RedundantThread::new(handles, tables, JournalPatience::default());
        Ok(RedundantProbe { thread, look })
    }

    async fn take(&self, reactor: &Reactor, memory: Option<&Rc<OverlayMemory>>) -> Result<Survey> {
        let failed = self.failed.iter().map(|place| match &place.error {
            Error::NoPool { .. } => Candidate::Absent { path: place.path.clone() },
            error => Candidate::Failed { path: place.path.clone(), error: error.clone() },
        });
        let mut candidates: Vec<Candidate> = failed.collect();
        for drive in &self.drives {
            let path = drive.path().display().to_string();
            let superblock = drive.superblock();
            let Some(superblock) = superblock.ok().filter(|it| it.pool == self.pool) else {
                continue; // Among those that failed.
            };
            candidates.push(match drive.disks(reactor, memory) {
                Ok(DriveParts { meta, space }) => {
                    let disks = RedundantDisks { meta, space };
                    Candidate::Found(FoundDrive { path, superblock, disks })
                }
                Err(error) => Candidate::Failed { path, error },
            });
        }
        let options = OpeningOptions {
            degraded: true,
            history: None,
            new_history: HistoryId([0; 16]), // No table of a look is stored.
            pool: Some(self.pool),
            patience_nanos: DRIVE_PATIENCE_NANOS,
        };
        Survey::take(reactor, candidates, &options).await
    }
}

impl SurveyedPool {
    /// Zones by what they can still lose, without the drives that are missing.
    #[must_use]
    pub fn exposures(&self) -> RepairQueue {
        RepairQueue::of(&self.present)
    }

    /// Places that overlap, or are not there.
    ///
    /// # Errors
    /// The first of them.
    pub fn check_places(&self) -> std::result::Result<(), SpaceFault> {
        DriveSpaces::of(&self.view).map(drop)
    }

    /// Slots of zones that have places.
    pub fn slots(&self) -> impl Iterator<Item = SegmentNumber> + '_ {
        let each = self.view.drives().zone_segments;
        let zones = self.view.rows().map(move |(ZoneIndex(zone), _)| zone * each);
        zones.flat_map(move |first| (first..first + each).map(SegmentNumber))
    }
}

impl RedundantLook {
    /// The tables that count, as they are stored.
    #[must_use]
    pub const fn view(&self) -> &LayoutView {
        &self.view
    }

    /// Both sides of a table or root on each drive that is read and must have it.
    pub async fn sides(&self, which: StoredRoot) -> Vec<DriveSide> {
        let handles = self.handles.all();
        let holders = handles.iter().filter(|drive| {
            let record = self.view.drives().drive(drive.number());
            record.is_some_and(|record| has_copy(which, record))
        });
        let sides = join_all(holders.map(|drive| sides_of(which, drive))).await;
        sides.into_iter().flatten().collect()
    }

    /// The labels of all strips of a slot in one set of its row.
    pub async fn labels(&self, set: &StripSet, slot: SegmentNumber) -> Vec<LabelReading> {
        self.reader.read_labels(&self.view, set, slot).await
    }

    /// What strips of a slot give that count, of all that can be read; with generation 0 of any put.
    ///
    /// # Errors
    /// `TooFewDrives`.
    pub async fn contents(&self, id: SegmentId) -> Result<Option<SlotContents>> {
        self.reader.read_contents(&self.view, id, 1).await
    }

    /// Compares all strips of a held segment, and computes its parity. `None` where it cannot be read, or is not there:
    /// its owner says what that means.
    pub async fn check_segment(&self, held: &HeldSegment) -> Option<SegmentStrips> {
        let contents = self.contents(held.id).await.ok().flatten()?;
        Some(self.judge(held.id.number, &contents))
    }

    /// What is wrong with the strips of a slot that gave `contents`.
    #[must_use]
    pub fn judge(&self, number: SegmentNumber, contents: &SlotContents) -> SegmentStrips {
        let none = SegmentStrips { defects: Vec::new(), parity_wrong: Vec::new() };
        let at = self.view.zone_of(number).zip(contents.put.as_ref());
        let Some((ZoneSlot { zone, slot }, put)) = at else { return none };
        let geometry = self.view.drives().geometry(put.shape);
        let stripe = Stripe::new(&self.codes, geometry, &contents.bytes);
        let is_wrong = |location: &StripLocation| {
            let at = usize::from(location.strip);
            stripe.sums().get(at) != put.strip_checksums.get(at)
        };
        let sets = self.view.row(zone).sets().map(|set| {
            let locations: Vec<_> = self.view.locate(set, slot).collect();
            let is_here = |it: &&StripDefect| locations.contains(&it.location);
            let here = contents.defects.iter().filter(is_here);
            let counts = |it: &&StripDefect| !it.fault.is_absence() && !planted(Bug::LookMends);
            let defects: Vec<_> = here.filter(counts).cloned().collect();
            // A set of another shape has none of this put's strips.
            let is_alike = self.view.class_of(set).shape == put.shape;
            let parity = locations.iter().filter(|it| is_alike && is_wrong(it)).copied();
            SegmentStrips { defects, parity_wrong: parity.collect() }
        });
        // While a row moves, a segment is in one set or in the other.
        sets.min_by_key(|strips| strips.defects.len()).unwrap_or(none)
    }

    /// Reads of a copy of a journal, at an offset of its ring.
    ///
    /// # Errors
    /// The drive's; [`Error::DriveFailed`] of one that is not read.
    pub async fn read_journal(&self, copy: &JournalCopy, at: u64, len: usize) -> Result<BufSlice> {
        let drive = self.handles.get(copy.drive);
        let JournalPlaceKind::Units(first) = copy.place else {
            return Err(absent(copy.drive));
        };
        let drive = drive.ok_or_else(|| absent(copy.drive))?;
        Ok(drive.read(first.offset() + at, len).await?.freeze())
    }

    /// Whether a drive is there and read.
    #[must_use]
    pub fn has_drive(&self, drive: DriveNumber) -> bool {
        self.reader.readable(&self.view, drive).is_some()
    }

    /// File or device of a drive's units, and the position of one of their bytes in it.
    #[must_use]
    pub fn place(&self, drive: DriveNumber, offset: u64) -> Option<MediaPlace> {
        let drive = self.handles.get(drive)?;
        let superblock = drive.superblock();
        let begins = if superblock.is_directory { 0 } else { superblock.space_offset };
        let path = drive.disks().space.path().to_owned();
        Some(MediaPlace { path, offset: begins + offset })
    }

    /// Where the first strip of a segment is that can be read; `None` where the pool has no such segment.
    #[must_use]
    pub fn segment_place(&self, number: SegmentNumber) -> Option<MediaPlace> {
        let ZoneSlot { zone, slot } = self.view.zone_of(number)?;
        let set = self.view.row(zone).target()?;
        self.view.locate(set, slot).find_map(|it| self.place(it.place.drive, it.offset))
    }
}

impl RedundantProbe {
    /// What a shard is read with.
    ///
    /// # Errors
    /// [`Error::NoLane`].
    pub fn media(&self, shard: ShardId) -> Result<Media> {
        self.thread.media(shard)
    }

    /// The drives as they are (REDUNDANT-LOOK-2).
    #[must_use]
    pub const fn drives(&self) -> &RedundantLook {
        &self.look
    }
}

/// Whether a drive of a record has a copy of something.
fn has_copy(which: StoredRoot, record: &DriveRecord) -> bool {
    let is_everywhere = which == StoredRoot::DriveTable;
    record.state.is_readable() && (is_everywhere || record.roles.has(DriveRoles::ROOTS))
}

/// Both sides on one drive; none of what the drive has no room for.
async fn sides_of(which: StoredRoot, drive: &DriveHandle) -> Vec<DriveSide> {
    let Ok(root) = which.on(drive) else { return Vec::new() };
    let contents = root.inspect(drive.meta(), drive.superblock().pool).await;
    let path = drive.meta().path();
    let sides = (0_u8..).zip(root.sides).zip(contents);
    let side = |((side, offset), content)| DriveSide {
        drive: drive.number(),
        side: RootSide { path: path.to_owned(), side, offset, content },
    };
    sides.map(side).collect()
}

fn absent(drive: DriveNumber) -> Error {
    Error::DriveFailed { drive: drive.get(), reason: "it is not read".to_owned() }
}

/// A look makes no drives.
struct NoJoins;

impl DriveOpener for NoJoins {
    fn open<'a>(
        &'a self,
        _: &'a NewMember,
        _: &'a RedundantSuperblock,
    ) -> IoFuture<'a, RedundantDisks> {
        Box::pin(std::future::ready(Err(Error::ReadOnly)))
    }
}

#[cfg(test)]
mod tests {
    use varve_media::planted::plant;

    use super::*;
    use crate::test_drives::{TestDrives, id, noise};

    /// What is told of a strip that was flipped, and what of whole ones.
    fn defects_of_a_flipped_strip() -> usize {
        let mut drives = TestDrives::new(1, 2, 1, 4);
        drives.put(id(0, 5), &noise(5, 256 << 10)).unwrap();
        let strip = drives.strips(0)[1];
        drives.medium_of(&strip).flip_bit(strip.offset + 5000, 1);
        let (view, codes) = (LayoutView::clone(&drives.tables.view()), StripCodes::default());
        let (handles, reader) = (Rc::clone(&drives.handles), drives.segments.reader().clone());
        let look = RedundantLook { view, handles, reader, codes };
        let found = drives.sim.run_until(async move {
            let contents = look.contents(id(0, 5)).await.unwrap().unwrap();
            look.judge(SegmentNumber(0), &contents)
        });
        found.defects.len()
    }

    #[test]
    fn look_mends() {
        assert_eq!(defects_of_a_flipped_strip(), 1, "REDUNDANT-LOOK-2");
        plant(Some(Bug::LookMends));
        let defects = defects_of_a_flipped_strip();
        plant(None);
        assert_eq!(defects, 0, "the bug shows");
    }
}
