//! The drives of a redundant pool: media that outlive the machine, and the condition in which each of them is.
//!
//! SIM-DRIVES-1. A drive that was ever out of order counts as lost from then on, whatever the pool makes of it. While no
//!     more are lost than the class survives, nothing may show: every request succeeds, and everything acknowledged is
//!     there.
//! SIM-DRIVES-2. Once more are lost, errors are allowed, and nothing wrong is.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use varve_media::{
    Disk, RedundantDriveSpec, RedundantSpec, RedundantSuperblock, Section, SimLatency, SimMedium,
};
use varve_media_redundancy::{RedundantDisks, UNIT_BYTES};
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
    path: String,
    /// Superblocks, tables and roots, or the disk that holds everything.
    meta: SimMedium,
    /// Its units, where they are a file of their own.
    units_file: Option<SimMedium>,
    superblock: RedundantSuperblock,
    condition: Cell<DriveCondition>,
}

impl SimDrive {
    fn new(config: &WorldConfig, redundancy: &Redundancy, index: usize) -> Self {
        let spec = redundancy.spec(config);
        let units_bytes = u64::from(redundancy.drive_units[index]) * UNIT_BYTES;
        let number = u16::try_from(index).expect("at most six drives");
        let drive = |is_directory, bytes| RedundantDriveSpec {
            number,
            drive_id: drive_id(config.seed, index),
            is_directory,
            bytes,
        };
        let sound = "the figures of a world are sound";
        let directory = RedundantSuperblock::new(&spec, &drive(true, units_bytes)).expect(sound);
        let before_units = directory.space_offset;
        if config.one_disk {
            let bytes = before_units + units_bytes;
            return Self {
                path: format!("disk{index}"),
                meta: SimMedium::new(&format!("disk{index}"), bytes),
                units_file: None,
                superblock: RedundantSuperblock::new(&spec, &drive(false, bytes)).expect(sound),
                condition: Cell::new(DriveCondition::Well),
            };
        }
        Self {
            path: format!("drive{index}"),
            meta: SimMedium::new(&format!("drive{index}/meta"), before_units),
            units_file: Some(SimMedium::new(&format!("drive{index}/segments"), units_bytes)),
            superblock: directory,
            condition: Cell::new(DriveCondition::Well),
        }
    }

    /// What messages call it.
    pub(crate) fn path(&self) -> &str {
        &self.path
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

    /// Has it be in a condition from now on.
    pub(crate) fn set_condition(&self, condition: DriveCondition, now: Nanos) {
        self.condition.set(condition);
        let is_failing = condition == DriveCondition::Failing;
        for medium in self.media() {
            medium.heal_reads();
            if is_failing {
                medium.fail_reads(0..u64::MAX);
            }
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
        let space: Rc<dyn Disk> = match &self.units_file {
            Some(medium) => Rc::new(medium.open(reactor, latencies.units.clone())),
            None => {
                let (start, whole) = (self.superblock.space_offset, meta.size());
                Rc::new(Section::new(Rc::clone(&meta), start, whole - start)?)
            }
        };
        Ok(RedundantDisks { meta, space })
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
}

impl RedundantMedia {
    /// Empty drives.
    pub(crate) fn new(config: &WorldConfig, redundancy: &Redundancy) -> Self {
        let drives = 0..redundancy.drives();
        let drives = drives.map(|index| SimDrive::new(config, redundancy, index)).collect();
        Self { drives, lost: RefCell::default(), survives: redundancy.survives() }
    }

    /// The drives, by index.
    pub(crate) fn drives(&self) -> &[SimDrive] {
        &self.drives
    }

    /// Each medium once.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SimMedium> {
        self.drives.iter().flat_map(SimDrive::media)
    }

    /// The drive with an identity.
    pub(crate) fn drive_of(&self, id: [u8; 16]) -> Option<&SimDrive> {
        self.drives.iter().find(|drive| drive.superblock.drive_id == id)
    }

    /// Has a drive be lost from now on, in a way that [`SimDrive::set_condition`] brings.
    pub(crate) fn lose(&self, index: usize) {
        self.lost.borrow_mut().insert(index);
    }

    /// Whether a drive is lost.
    pub(crate) fn is_lost(&self, index: usize) -> bool {
        self.lost.borrow().contains(&index)
    }

    /// Whether none is lost.
    pub(crate) fn has_all(&self) -> bool {
        self.lost.borrow().is_empty()
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

/// Identity of a drive.
pub(crate) fn drive_id(seed: u64, index: usize) -> [u8; 16] {
    let mut id = [0; 16];
    Rng::new(seed ^ (0x4964 + index as u64)).fill(&mut id);
    id
}
