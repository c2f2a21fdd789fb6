//! A root with its two sides, replaced one after the other: roots of pools, and tables of redundant pools. Called by
//! `Drive` for its own roots, and by the crate of redundant pools.
//!
//! ROOTS-1. A side is written only while the other holds the newest contents intact: a torn write costs the new version
//!     only.
//! ROOTS-2. Contents are returned, and a replacement succeeds, only once both sides hold them: the decay of one side
//!     never brings an older version back.
//! ROOTS-3. Both sides carry a header from formatting on: if neither can be read, the root was damaged.
//! ROOTS-4. What is read is durable: a replacement that was cut off may have landed without being so.
//!
//! The caller keeps two replacements of one root apart.

use std::fmt;

use varve_types::PoolId;

use crate::contract::{RootKey, RootVersion};
use crate::disk::{Disk, Persist};
use crate::format::{
    DRIVE_TABLE_NUMBER, JOURNAL_RECORD_NUMBER, LAYOUT_PAGE_NUMBER, ROOT_HEADER_BYTES, RootFault,
    RootSlot, Superblock, decode_root, encode_root,
};
use crate::planted::{Bug, planted};
use crate::{Error, Result};

/// Version and contents of one side.
type RootContents = (RootVersion, Vec<u8>);

/// Version and contents of one side, or why it cannot be read.
type SideText = std::result::Result<(u64, Vec<u8>), String>;

/// One root, and where its sides lie on its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidedRoot {
    /// Its number, which both sides carry.
    pub number: u32,
    /// Position of each side in bytes; a multiple of 4 KiB.
    pub sides: [u64; 2],
    /// Bytes of a side; a multiple of 4 KiB.
    pub slot_bytes: u32,
}

impl SidedRoot {
    /// A root of the drive with this superblock.
    pub(crate) fn of_drive(superblock: &Superblock, root: u64) -> Self {
        Self {
            number: u32::try_from(root).expect("at most 4096 lanes"),
            sides: [superblock.root_offset(root, 0), superblock.root_offset(root, 1)],
            slot_bytes: u32::try_from(superblock.root_slot_bytes())
                .expect("at most 16 MiB + 4 KiB"),
        }
    }

    /// The newest contents, which both sides hold when this returns (ROOTS-2), durably (ROOTS-4); version 0 and no
    /// bytes when never written.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when neither side can be read (ROOTS-3), [`Error::Fenced`], or the disk's when it cannot be
    /// written.
    pub async fn read(&self, disk: &dyn Disk, pool: PoolId) -> Result<RootContents> {
        disk.flush().await?; // ROOTS-4
        let sides = self.read_sides(disk, pool).await?;
        let (newest, is_alike) = (sides.newest, sides.is_alike());
        let (version, bytes) = sides.into_newest();
        if !is_alike {
            self.write_side(disk, pool, 1 - newest, version, &bytes).await?; // ROOTS-2
        }
        Ok((version, bytes))
    }

    /// Both sides as they are; `None` for one that cannot be read. Nothing is written, and what is returned need not be
    /// durable.
    ///
    /// # Errors
    /// The disk's, when it failed to read a side and the other one is none either; [`Error::Fenced`].
    pub async fn look(&self, disk: &dyn Disk, pool: PoolId) -> Result<[Option<RootContents>; 2]> {
        let mut held = [None, None];
        let mut failure = None;
        for (side, held) in held.iter_mut().enumerate() {
            match self.read_side(disk, pool, side).await {
                Ok(contents) => *held = Some(contents),
                Err(SideFault::Disk(error @ Error::Fenced)) => return Err(error),
                Err(SideFault::Disk(error)) => failure = Some(error),
                Err(SideFault::Contents(_)) => {}
            }
        }
        match failure {
            Some(error) if held.iter().all(Option::is_none) => Err(error),
            _ => Ok(held),
        }
    }

    /// Replaces the contents: the older side first, or one that cannot be read, then the other (ROOTS-1). Both are
    /// durable on return. Whether `version` may follow what is there is for the caller to know. Costs a flush, two
    /// reads and two durable writes.
    ///
    /// # Errors
    /// [`Error::RootTooLong`], or the disk's: then one side or both may have been replaced.
    pub async fn write(
        &self,
        disk: &dyn Disk,
        pool: PoolId,
        version: RootVersion,
        bytes: &[u8],
    ) -> Result<()> {
        self.check_len(bytes)?;
        disk.flush().await?; // ROOTS-4: the side that is kept may be of a process that was killed.
        let newest = match self.read_sides(disk, pool).await {
            Ok(sides) => sides.newest,
            Err(Error::Corrupt { .. }) => 1, // Nothing is left to keep.
            Err(error) => return Err(error),
        };
        self.replace_sides(disk, pool, &RootUpdate { newest, version, bytes }).await
    }

    /// Makes it a root that was never written, whatever it was. Durable on return; cut off, either side may have what
    /// it had before.
    ///
    /// # Errors
    /// The disk's.
    pub async fn reset(&self, disk: &dyn Disk, pool: PoolId) -> Result<()> {
        for side in 0..2 {
            self.write_side(disk, pool, side, RootVersion(0), &[]).await?;
        }
        Ok(())
    }

    /// Both sides with their contents, where at least one can be read.
    pub(crate) async fn read_sides(&self, disk: &dyn Disk, pool: PoolId) -> Result<Sides> {
        let mut held = [None, None];
        let mut reasons = Vec::new();
        for (side, held) in held.iter_mut().enumerate() {
            match self.read_side(disk, pool, side).await {
                Ok(contents) => *held = Some(contents),
                Err(SideFault::Disk(error @ Error::Fenced)) => return Err(error),
                Err(SideFault::Disk(error)) => reasons.push(error.to_string()),
                Err(SideFault::Contents(fault)) => reasons.push(format!("side {side}: {fault}")),
            }
        }
        let reasons = reasons.join("; ");
        let Some(sides) = Sides::of(held) else {
            let reason = format!("root {}: {reasons}", self.name());
            return Err(Error::Corrupt { what: "root", path: disk.path().into(), reason }); // ROOTS-3
        };
        if !reasons.is_empty() {
            tracing::warn!(root = %self.name(), reasons, "one side of a root is unreadable");
        }
        Ok(sides)
    }

    /// Replaces both sides, the one with the newest contents last.
    pub(crate) async fn replace_sides(
        &self,
        disk: &dyn Disk,
        pool: PoolId,
        update: &RootUpdate<'_>,
    ) -> Result<()> {
        let RootUpdate { newest, version, bytes } = *update;
        self.write_side(disk, pool, 1 - newest, version, bytes).await?; // ROOTS-1
        if !planted(Bug::RootOnOneSide) {
            self.write_side(disk, pool, newest, version, bytes).await?; // ROOTS-2
        }
        Ok(())
    }

    /// Version and contents of both sides, or why one cannot be read; nothing is repaired.
    pub async fn inspect(&self, disk: &dyn Disk, pool: PoolId) -> [SideText; 2] {
        let look = async |side: usize| match self.read_side(disk, pool, side).await {
            Ok((version, bytes)) => Ok((version.0, bytes)),
            Err(SideFault::Disk(error)) => Err(error.to_string()),
            Err(SideFault::Contents(fault)) => Err(fault.to_string()),
        };
        [look(0).await, look(1).await]
    }

    async fn read_side(
        &self,
        disk: &dyn Disk,
        pool: PoolId,
        side: usize,
    ) -> std::result::Result<RootContents, SideFault> {
        let read = disk.read(self.sides[side], self.slot_bytes as usize).await;
        let bytes = read.map_err(SideFault::Disk)?;
        match decode_root(pool, self.number, &bytes) {
            Ok((version, payload)) => Ok((RootVersion(version), payload.to_vec())),
            Err(fault) => Err(SideFault::Contents(fault)),
        }
    }

    async fn write_side(
        &self,
        disk: &dyn Disk,
        pool: PoolId,
        side: usize,
        version: RootVersion,
        bytes: &[u8],
    ) -> Result<()> {
        self.check_len(bytes)?;
        let slot = RootSlot { pool, root: self.number, version: version.0 };
        disk.write(self.sides[side], encode_root(slot, bytes), Persist::Durable).await
    }

    fn check_len(&self, bytes: &[u8]) -> Result<()> {
        let (len, max) = (bytes.len() as u64, self.bytes_max());
        if len > max {
            return Err(Error::RootTooLong { key: self.name().to_string(), len, max });
        }
        Ok(())
    }

    fn name(&self) -> RootName {
        RootName(self.number)
    }

    /// Most bytes of its contents.
    #[must_use]
    pub fn bytes_max(&self) -> u64 {
        u64::from(self.slot_bytes).saturating_sub(ROOT_HEADER_BYTES as u64)
    }
}

/// What both sides hold, of which at least one can be read.
pub(crate) struct Sides {
    held: [Option<RootContents>; 2],
    /// The side with the newest contents.
    pub(crate) newest: usize,
}

impl Sides {
    /// `None` when neither can be read.
    fn of(held: [Option<RootContents>; 2]) -> Option<Self> {
        let version = |side: usize| held[side].as_ref().map(|(version, _)| *version);
        let best = version(0).max(version(1));
        let newest = usize::from(version(0) < best);
        best.map(|_| Self { held, newest })
    }

    /// The newest version.
    pub(crate) fn version(&self) -> RootVersion {
        self.held[self.newest].as_ref().map_or(RootVersion(0), |(version, _)| *version)
    }

    /// Whether both hold the same.
    fn is_alike(&self) -> bool {
        self.held[0] == self.held[1]
    }

    fn into_newest(mut self) -> RootContents {
        self.held[self.newest].take().expect("the newest side is readable")
    }
}

/// New contents of a root.
pub(crate) struct RootUpdate<'a> {
    /// The side with what counts so far.
    pub(crate) newest: usize,
    pub(crate) version: RootVersion,
    pub(crate) bytes: &'a [u8],
}

/// Why a side cannot be read.
enum SideFault {
    Disk(Error),
    Contents(RootFault),
}

/// What messages call a root, by its number.
#[derive(Clone, Copy)]
struct RootName(u32);

impl fmt::Display for RootName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "{}", RootKey::Pool),
            number @ LAYOUT_PAGE_NUMBER.. => {
                write!(f, "of layout page {}", number - LAYOUT_PAGE_NUMBER)
            }
            number @ JOURNAL_RECORD_NUMBER.. => {
                write!(f, "of the journal of shard {}", number - JOURNAL_RECORD_NUMBER)
            }
            DRIVE_TABLE_NUMBER.. => f.write_str("of the drive table"),
            shard => write!(f, "of shard {}", shard - 1),
        }
    }
}

#[cfg(test)]
mod tests;
