//! The disks of one drive, and which part of the drive lies where on them.

use std::rc::Rc;

use crate::disk::{Disk, Section};
use crate::format::{Shape, Superblock};
use crate::planted::{Bug, planted};
use crate::{Error, Result};

/// The disks that make up one drive.
#[derive(Clone)]
pub enum DriveDisks {
    /// Everything on one disk: a block device or a file.
    One(Rc<dyn Disk>),
    /// A disk for each purpose: the files of a directory.
    Directory {
        /// Superblocks and roots.
        meta: Rc<dyn Disk>,
        /// Lanes, in order.
        lanes: Vec<Rc<dyn Disk>>,
        /// Segment slots.
        slots: Rc<dyn Disk>,
    },
}

impl DriveDisks {
    /// Everything on `disk`.
    pub fn one(disk: impl Disk + 'static) -> Self {
        Self::One(Rc::new(disk))
    }

    pub(crate) fn shape(&self) -> Shape {
        match self {
            Self::One(_) => Shape::OneDisk,
            Self::Directory { .. } => Shape::Directory,
        }
    }

    pub(crate) fn meta(&self) -> &dyn Disk {
        match self {
            Self::One(disk) => &**disk,
            Self::Directory { meta, .. } => &**meta,
        }
    }

    /// Slots that fit beside what `superblock` describes.
    pub(crate) fn slots_that_fit(&self, superblock: &Superblock) -> Result<u32> {
        let (disk, start) = match self {
            Self::One(disk) => (disk, superblock.slots_offset()),
            Self::Directory { slots, .. } => (slots, 0),
        };
        let count = disk.size().saturating_sub(start) / u64::from(superblock.segment_bytes);
        if count == 0 {
            let need = start + u64::from(superblock.segment_bytes);
            return Err(Error::TooSmall { path: disk.path().into(), have: disk.size(), need });
        }
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    pub(crate) fn split(self, superblock: &Superblock) -> Result<Parts> {
        let lane_count = usize::from(superblock.lane_count());
        let slots_bytes = u64::from(superblock.segment_count) * u64::from(superblock.segment_bytes);
        match self {
            Self::One(disk) => {
                let section = |start, size| -> Result<Rc<dyn Disk>> {
                    Ok(Rc::new(Section::new(Rc::clone(&disk), start, size)?))
                };
                let lane = |lane| section(superblock.lane_offset(lane), superblock.lane_bytes);
                let slots_start = if planted(Bug::SlotsOverLanes) {
                    superblock.lane_offset(0)
                } else {
                    superblock.slots_offset()
                };
                Ok(Parts {
                    meta: section(0, superblock.meta_bytes())?,
                    lanes: (0..superblock.lane_count()).map(lane).collect::<Result<_>>()?,
                    slots: section(slots_start, slots_bytes)?,
                })
            }
            Self::Directory { meta, lanes, slots } => {
                need(&*meta, superblock.meta_bytes())?;
                need(&*slots, slots_bytes)?;
                for lane in &lanes {
                    need(&**lane, superblock.lane_bytes)?;
                }
                if lanes.len() != lane_count {
                    return Err(Error::Corrupt {
                        what: "directory",
                        path: meta.path().into(),
                        reason: format!("{} lane files, expected {lane_count}", lanes.len()),
                    });
                }
                Ok(Parts { meta, lanes, slots })
            }
        }
    }
}

fn need(disk: &dyn Disk, bytes: u64) -> Result<()> {
    if disk.size() >= bytes {
        return Ok(());
    }
    Err(Error::TooSmall { path: disk.path().into(), have: disk.size(), need: bytes })
}

pub(crate) struct Parts {
    pub(crate) meta: Rc<dyn Disk>,
    pub(crate) lanes: Vec<Rc<dyn Disk>>,
    pub(crate) slots: Rc<dyn Disk>,
}
