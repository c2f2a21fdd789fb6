//! The drives of a redundant pool: media that outlive the machine, and the condition in which each of them is.
//!
//! SIM-DRIVES-1. A drive that was ever out of order counts as lost from then on, whatever the pool makes of it. While
//!     no more are lost than the class survives, nothing may show: every request succeeds, and everything acknowledged
//!     is there.
//! SIM-DRIVES-2. Once more are lost, errors are allowed, and nothing wrong is.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use varve_media::{Disk, RedundantSpec, RedundantSuperblock, SimLatency, SimMedium};
use varve_media_redundancy::format::DriveRoles;
use varve_media_redundancy::{
    DriveId, DriveNumber, MediumKind, NewMember, RedundantDisks, UNIT_BYTES, superblock_of,
};
use varve_reactor::{Nanos, Reactor};
use varve_stdx::Rng;

use crate::config::WorldConfig;
use crate::redundancy::Redundancy;

/// How long a silent drive does not answer: longer than any life.
const SILENCE_NANOS: u64 = 86_400 * 1_000_000_000;

/// In which order a drive is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DriveCondition {
    /// It works.
    Well,
    /// It answers everything with an error.
    Failing,
    /// It reads, and answers writes with an error.
    ReadOnly,
    /// It does not answer.
    Silent,
    /// It is not there.
    Absent,
    /// It is there, and cannot be looked at.
    Unopenable,
}

/// One drive.
pub(crate) struct SimDrive {
    /// Superblocks, tables and roots, or the disk that holds everything.
    meta: SimMedium,
    /// Its units, where they are a file of their own.
    units_file: Option<SimMedium>,
    member: NewMember,
    superblock: RedundantSuperblock,
    condition: Cell<DriveCondition>,
}

impl SimDrive {
    fn new(config: &WorldConfig, redundancy: &Redundancy, index: usize) -> Self {
        let units_bytes = u64::from(redundancy.drive_units[index]) * UNIT_BYTES;
        let directory = member(config, index, true, units_bytes);
        let superblock = superblock(config, redundancy, index, &directory);
        let before_units = superblock.space_offset;
        let condition = Cell::new(DriveCondition::Well);
        if config.one_disk {
            let bytes = before_units + units_bytes;
            let member = member(config, index, false, bytes);
            return Self {
                meta: SimMedium::new(&member.path, bytes),
                units_file: None,
                superblock: self::superblock(config, redundancy, index, &member),
                member,
                condition,
            };
        }
        let file = |name: &str, bytes| SimMedium::new(&format!("{}/{name}", directory.path), bytes);
        Self {
            meta: file("meta", before_units),
            units_file: Some(file("segments", units_bytes)),
            superblock,
            member: directory,
            condition,
        }
    }

    /// Another drive as this one is now, with what is under way to it.
    fn fork(&self) -> Self {
        Self {
            meta: self.meta.fork(),
            units_file: self.units_file.as_ref().map(SimMedium::fork),
            member: self.member.clone(),
            superblock: self.superblock.clone(),
            condition: self.condition.clone(),
        }
    }

    /// What messages call it.
    pub(crate) fn path(&self) -> &str {
        &self.member.path
    }

    /// What the pool is told of it when it is made.
    pub(crate) fn member(&self) -> &NewMember {
        &self.member
    }

    /// Where its parts lie, and who it is.
    pub(crate) fn superblock(&self) -> &RedundantSuperblock {
        &self.superblock
    }

    /// Each medium once.
    pub(crate) fn media(&self) -> impl Iterator<Item = &SimMedium> {
        std::iter::once(&self.meta).chain(&self.units_file)
    }

    /// What superblocks, tables and roots lie on.
    pub(crate) fn meta(&self) -> &SimMedium {
        &self.meta
    }

    /// What units lie on, and where unit 0 begins there.
    pub(crate) fn units(&self) -> DriveUnits<'_> {
        match &self.units_file {
            Some(medium) => DriveUnits { medium, start: 0 },
            None => DriveUnits { medium: &self.meta, start: self.superblock.space_offset },
        }
    }

    /// In which order it is.
    pub(crate) fn condition(&self) -> DriveCondition {
        self.condition.get()
    }

    /// Whether it fails or stops for a while, although it counts as one that works.
    pub(crate) fn is_disturbed(&self, now: Nanos) -> bool {
        let is_well = self.condition() == DriveCondition::Well;
        is_well && self.media().any(|medium| medium.is_disturbed(now))
    }

    /// Has it be in a condition from now on.
    fn set_condition(&self, condition: DriveCondition, now: Nanos) {
        self.condition.set(condition);
        let is_failing = condition == DriveCondition::Failing;
        for medium in self.media() {
            medium.heal_reads();
            if is_failing {
                medium.fail_reads(0..u64::MAX);
            }
            medium.fail_next_write(false);
            medium.refuse_writes(false);
            medium.fail_writes(is_failing || condition == DriveCondition::ReadOnly);
            let silence = if condition == DriveCondition::Silent { SILENCE_NANOS } else { 0 };
            medium.stick(if silence > 0 { now + silence } else { Nanos(0) });
        }
    }

    /// Its disks, for one life.
    pub(crate) fn disks(
        &self,
        reactor: &Reactor,
        latencies: &DriveLatencies,
    ) -> varve_media::Result<RedundantDisks> {
        let meta: Rc<dyn Disk> = Rc::new(self.meta.open(reactor, latencies.meta.clone()));
        match &self.units_file {
            Some(medium) => {
                let space = Rc::new(medium.open(reactor, latencies.units.clone()));
                Ok(RedundantDisks { meta, space })
            }
            None => RedundantDisks::one(&meta, &self.superblock),
        }
    }
}

/// The units of a drive.
#[derive(Clone, Copy)]
pub(crate) struct DriveUnits<'a> {
    /// What they lie on.
    pub medium: &'a SimMedium,
    /// Where unit 0 begins there.
    pub start: u64,
}

/// How long operations of a drive take.
#[derive(Clone)]
pub(crate) struct DriveLatencies {
    /// On tables and roots, or on the disk that holds everything.
    pub meta: SimLatency,
    /// On units that are a file of their own.
    pub units: SimLatency,
}

/// All drives of the pool.
pub(crate) struct RedundantMedia {
    drives: Vec<SimDrive>,
    /// Drives that were ever out of order (SIM-DRIVES-1).
    lost: RefCell<BTreeSet<usize>>,
    survives: usize,
    /// How often a drive changed its condition.
    changes: Cell<u64>,
}

impl RedundantMedia {
    /// Empty drives.
    pub(crate) fn new(config: &WorldConfig, redundancy: &Redundancy) -> Self {
        let drives = 0..redundancy.drives();
        let drives = drives.map(|index| SimDrive::new(config, redundancy, index)).collect();
        Self {
            drives,
            lost: RefCell::default(),
            survives: redundancy.survives(),
            changes: Cell::new(0),
        }
    }

    /// Other drives as these are now, with what is under way to them.
    pub(crate) fn fork(&self) -> Self {
        Self {
            drives: self.drives.iter().map(SimDrive::fork).collect(),
            lost: self.lost.clone(),
            survives: self.survives,
            changes: self.changes.clone(),
        }
    }

    /// The drives, by index.
    pub(crate) fn drives(&self) -> &[SimDrive] {
        &self.drives
    }

    /// Each medium once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SimMedium> {
        self.drives.iter().flat_map(SimDrive::media)
    }

    /// Has a drive be in a condition from now on.
    pub(crate) fn set_condition(&self, index: usize, condition: DriveCondition, now: Nanos) {
        self.changes.set(self.changes.get() + 1);
        if let Some(drive) = self.drives.get(index) {
            drive.set_condition(condition, now);
        }
    }

    /// Has the medium of a drive be long enough for so many units.
    pub(crate) fn grow(&self, index: usize, units: u32) {
        let DriveUnits { medium, start } = self.drives[index].units();
        medium.grow(start + u64::from(units) * UNIT_BYTES);
    }

    /// Has nothing land on a drive of what begins from now on, until its condition is set anew.
    pub(crate) fn refuse_writes(&self, index: usize) {
        self.drives[index].media().for_each(|medium| medium.refuse_writes(true));
    }

    /// Has the next write to a part of a drive fail.
    pub(crate) fn fail_next_write(&self, index: usize, rng: &mut Rng) {
        self.changes.set(self.changes.get() + 1);
        let media: Vec<_> = self.drives[index].media().collect();
        media[rng.index(media.len())].fail_next_write(true);
    }

    /// Has a drive not answer for a while.
    pub(crate) fn stop(&self, index: usize, until: Nanos) {
        self.changes.set(self.changes.get() + 1);
        self.drives[index].media().for_each(|medium| medium.stick(until));
    }

    /// How often a drive changed its condition.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// Counts a drive as lost from now on (SIM-DRIVES-1).
    pub(crate) fn lose(&self, index: usize) {
        self.lost.borrow_mut().insert(index);
    }

    /// Counts these drives as lost, and no others.
    pub(crate) fn set_lost(&self, lost: impl IntoIterator<Item = usize>) {
        *self.lost.borrow_mut() = lost.into_iter().collect();
    }

    /// Whether a drive is lost.
    pub(crate) fn is_lost(&self, index: usize) -> bool {
        self.lost.borrow().contains(&index)
    }

    /// Whether a drive cannot be found, lost or unplugged for this start.
    pub(crate) fn is_absent(&self, index: usize) -> bool {
        self.drives.get(index).is_some_and(|it| it.condition() == DriveCondition::Absent)
    }

    /// Whether no drive is there that was there all the time.
    pub(crate) fn are_all_lost(&self) -> bool {
        self.lost.borrow().len() == self.drives.len()
    }

    /// Whether a single drive is there that was there all the time.
    pub(crate) fn is_last_sound(&self) -> bool {
        self.lost.borrow().len() + 1 == self.drives.len()
    }

    /// How many more drives may be lost while nothing shows.
    pub(crate) fn spare(&self) -> usize {
        self.survives.saturating_sub(self.lost.borrow().len())
    }

    /// Whether more drives are lost than the class survives (SIM-DRIVES-2).
    pub(crate) fn lost_too_many(&self) -> bool {
        self.lost.borrow().len() > self.survives
    }

    /// One of the drives that are not lost.
    pub(crate) fn draw_sound(&self, rng: &mut Rng) -> Option<usize> {
        let sound: Vec<_> = (0..self.drives.len()).filter(|index| !self.is_lost(*index)).collect();
        if sound.is_empty() { None } else { Some(sound[rng.index(sound.len())]) }
    }

    /// Ends failures of drives that are in order.
    pub(crate) fn heal(&self) {
        let sound = self.drives.iter().filter(|it| it.condition() == DriveCondition::Well);
        sound.for_each(|drive| drive.set_condition(DriveCondition::Well, Nanos(0)));
    }
}

impl Redundancy {
    /// What the pool is made of.
    pub(crate) fn spec(&self, config: &WorldConfig) -> RedundantSpec {
        RedundantSpec {
            lane_bytes: config.lane_bytes,
            segment_bytes: config.segment_bytes,
            layout_pages: self.layout_pages,
            root_bytes_max: Self::ROOT_BYTES_MAX,
            ..RedundantSpec::new(config.pool(), config.shards, self.zones)
        }
    }
}

/// What the pool is told of a drive with so many bytes.
fn member(config: &WorldConfig, index: usize, is_directory: bool, bytes: u64) -> NewMember {
    let path = if is_directory { format!("drive{index}") } else { format!("disk{index}") };
    let mut id = [0; 16];
    Rng::new(config.seed ^ (0x4964 + index as u64)).fill(&mut id);
    NewMember {
        name: path.clone(),
        path,
        id: DriveId(id),
        is_directory,
        bytes,
        kind: if index.is_multiple_of(2) { MediumKind::Nvme } else { MediumKind::Hdd },
        roles: DriveRoles::ALL,
        former: None,
        is_given_up: false,
    }
}

fn superblock(
    config: &WorldConfig,
    redundancy: &Redundancy,
    index: usize,
    member: &NewMember,
) -> RedundantSuperblock {
    let number = u8::try_from(index).ok().and_then(DriveNumber::new).expect("at most six drives");
    superblock_of(&redundancy.spec(config), number, member).expect("figures of a world are sound")
}
