//! A redundant pool made on devices, files and directories: what it will hold is said first, then its drives are
//! prepared, and its tables written.
//!
//! NEW-FILES-1. A pool that could not be served is not made: its zones suffice for all shards.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use varve_media::{
    DiskLayers, DriveFiles, DriveKind, DriveParts, Error, NewDrive, RedundantSpec,
    RedundantSuperblock, Result,
};
use varve_reactor::Reactor;
use varve_types::PoolId;

use crate::change::NewMember;
use crate::class::{MediumKind, MediumKinds, StripeShape, units_of};
use crate::files::extent_of;
use crate::format::{DriveRoles, JournalCopy, JournalPlaceKind};
use crate::handles::RedundantDisks;
use crate::ids::{DriveId, DriveNumber, HistoryId, UNIT_BYTES};
use crate::making::{MakingSpec, NewPoolDrive, make, superblock_of};
use crate::medium::MediumDescription;
use crate::sizes::{JournalSizes, PoolSizes, SizesRequest};
use crate::view::LayoutView;

/// Zones of a new pool at least, for each shard: its first one, and some to write to and to reclaim.
const ZONES_OF_SHARD: u32 = 4;

/// Bytes that a drive has in the computation of where its units begin.
const ANY_BYTES: u64 = 1 << 50;

/// A pool to be made.
#[derive(Clone, Debug)]
pub struct NewRedundantPool {
    /// Its identity; random, never used before.
    pub pool: PoolId,
    /// Wall clock of its making, in ms since 1970.
    pub created_unix_ms: u64,
    /// Journals: one for each shard that it can have.
    pub lane_count: u16,
    /// Bytes of each copy of a journal; a multiple of 4 KiB.
    pub lane_bytes: u64,
    /// Bytes of a segment's slot.
    pub segment_bytes: u32,
    /// How zones are kept.
    pub shape: StripeShape,
    /// Its drives.
    pub drives: Vec<NewRedundantDrive>,
    /// Random: the name of its history.
    pub history: HistoryId,
}

/// A drive of it.
#[derive(Clone, Debug)]
pub struct NewRedundantDrive {
    /// Where, and how large.
    pub place: NewDrive,
    /// Its identity; random, never used before.
    pub id: DriveId,
    /// What it is made of, where somebody says it; else what the system says.
    pub kind: Option<MediumKind>,
}

/// What a drive has, before it is touched.
struct DriveRoom {
    is_directory: bool,
    /// Bytes of units of a directory, or of one whose size was given; all bytes of another one.
    bytes: u64,
    /// Whether what lies before the units comes on top.
    is_beside: bool,
}

impl NewRedundantPool {
    /// What it will hold. Touches nothing.
    ///
    /// # Errors
    /// [`Error::Spec`], [`Error::TooSmall`] when it could not be served (NEW-FILES-1), or the system's.
    pub fn sizes(&self) -> Result<PoolSizes> {
        let rooms = self.drives.iter().map(|drive| DriveRoom::of(&drive.place));
        let rooms = rooms.collect::<Result<Vec<_>>>()?;
        Ok(self.laid_out(&rooms)?.sizes)
    }

    /// Makes it, on the loop of this thread, which is blocked while files are written. Takes as long as writing the
    /// places of journals does. Durable on return.
    ///
    /// # Errors
    /// [`Error::PoolExists`], [`Error::NotEmpty`], [`Error::InUse`], those of [`Self::sizes`], or the system's. What
    /// was made until then stays and can be overwritten.
    pub async fn create(&self, reactor: &Reactor) -> Result<PoolSizes> {
        self.sizes()?;
        let places: Vec<NewDrive> = self.drives.iter().map(|drive| drive.place.clone()).collect();
        let prepared = DriveFiles::prepare(&places)?;
        let rooms =
            prepared.iter().zip(&places).map(|(files, place)| DriveRoom::with(files, place));
        let layout = self.laid_out(&rooms.collect::<Result<Vec<_>>>()?)?;
        let mut drives = Vec::new();
        for (files, (member, superblock)) in prepared.iter().zip(layout.drives) {
            let extent = extent_of(&superblock);
            files.make(extent)?;
            let DriveParts { meta, space } =
                files.disks(reactor, extent, &DiskLayers::default())?;
            superblock.check_sizes(&*meta, &*space)?;
            drives.push(NewPoolDrive { member, superblock, disks: RedundantDisks { meta, space } });
        }
        let spec = MakingSpec {
            figures: layout.figures,
            shape: self.shape,
            kinds: MediumKinds::ALL,
            zone_segments: layout.sizes.zone_segments,
            history: self.history,
        };
        let view = make(reactor, &drives, &spec).await?;
        for (files, drive) in prepared.iter().zip(&drives) {
            let places = journal_places(&view, drive.superblock.number);
            files.write_zeros(extent_of(&drive.superblock), &places)?;
            files.sync_entries()?;
        }
        Ok(layout.sizes)
    }

    fn laid_out(&self, rooms: &[DriveRoom]) -> Result<PoolLayout> {
        let request = SizesRequest {
            shape: self.shape,
            segment_bytes: self.segment_bytes,
            journals: JournalSizes { lanes: self.lane_count, lane_bytes: self.lane_bytes },
        };
        let units = |bytes: u64| u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX);
        // Tables take a little of a drive that is one disk: with them there are fewer zones, not more.
        let most: Vec<u32> = rooms.iter().map(|room| units(room.bytes)).collect();
        let zones = PoolSizes::of(&most, &request).zones;
        let figures = RedundantSpec {
            created_unix_ms: self.created_unix_ms,
            lane_bytes: self.lane_bytes,
            segment_bytes: self.segment_bytes,
            ..RedundantSpec::new(self.pool, self.lane_count, zones)
        };
        let mut drives = Vec::new();
        for ((index, drive), room) in self.drives.iter().enumerate().zip(rooms) {
            let too_many = || Error::Spec { field: "drives", value: self.drives.len() as u64 };
            let number = u8::try_from(index).ok().and_then(DriveNumber::new);
            let number = number.ok_or_else(too_many)?;
            drives.push(new_drive(&figures, number, drive, room)?);
        }
        let units: Vec<u32> = drives.iter().map(|(_, superblock)| superblock.units).collect();
        let sizes = PoolSizes::of(&units, &request);
        let zones_min = ZONES_OF_SHARD.saturating_mul(self.lane_count.into());
        if sizes.zones < zones_min {
            return Err(self.too_small(&units, zones_min, &request)); // NEW-FILES-1
        }
        Ok(PoolLayout { figures, sizes, drives })
    }

    /// Names the smallest drive, which limits what all hold, and what it needs.
    fn too_small(&self, units: &[u32], zones: u32, request: &SizesRequest) -> Error {
        let bytes = |units: u32| u64::from(units) * UNIT_BYTES;
        let smallest = self.drives.iter().zip(units).min_by_key(|(_, units)| **units);
        let path = |drive: &NewRedundantDrive| drive.place.path.display().to_string();
        let need = bytes(PoolSizes::units_min(units.len(), zones, request));
        let (path, have) =
            smallest.map_or((String::new(), 0), |(drive, units)| (path(drive), bytes(*units)));
        Error::TooSmall { path, have, need }
    }
}

/// Where all of a pool will lie.
struct PoolLayout {
    figures: RedundantSpec,
    sizes: PoolSizes,
    drives: Vec<(NewMember, RedundantSuperblock)>,
}

impl DriveRoom {
    fn of(place: &NewDrive) -> Result<Self> {
        let found = fs::metadata(&place.path).ok().map(|it| it.file_type());
        let is_directory = match (place.kind, found) {
            (Some(kind), _) => kind == DriveKind::Directory,
            (None, Some(found)) => found.is_dir(),
            (None, None) => true,
        };
        if let Some(bytes) = place.capacity_bytes {
            return Ok(Self { is_directory, bytes, is_beside: !is_directory });
        }
        if is_directory {
            return Err(Error::Spec { field: "capacity_bytes", value: 0 });
        }
        let bytes = size_of(&place.path, found.is_some_and(|it| it.is_block_device()))?;
        Ok(Self { is_directory, bytes, is_beside: false })
    }

    fn with(files: &DriveFiles, place: &NewDrive) -> Result<Self> {
        let is_directory = files.kind() == DriveKind::Directory;
        match (place.capacity_bytes, files.size()?) {
            (Some(bytes), _) => Ok(Self { is_directory, bytes, is_beside: !is_directory }),
            (None, Some(bytes)) => Ok(Self { is_directory, bytes, is_beside: false }),
            (None, None) => Err(Error::Spec { field: "capacity_bytes", value: 0 }),
        }
    }
}

/// Bytes of a device or file that is not opened for writing.
fn size_of(path: &Path, is_device: bool) -> Result<u64> {
    use std::io::{Seek, SeekFrom};
    let failed = |error: std::io::Error| Error::Open {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    if !is_device {
        return Ok(fs::metadata(path).map_err(failed)?.len());
    }
    fs::File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).map_err(failed)
}

/// What a drive whose place was prepared becomes, and its superblock but for its number.
pub(crate) fn member_on(
    files: &DriveFiles,
    place: &NewDrive,
    id: DriveId,
    figures: &RedundantSpec,
) -> Result<(NewMember, RedundantSuperblock)> {
    let room = DriveRoom::with(files, place)?;
    let drive = NewRedundantDrive { place: place.clone(), id, kind: None };
    let number = DriveNumber::new(0).expect("the first number");
    new_drive(figures, number, &drive, &room)
}

fn new_drive(
    figures: &RedundantSpec,
    number: DriveNumber,
    drive: &NewRedundantDrive,
    room: &DriveRoom,
) -> Result<(NewMember, RedundantSuperblock)> {
    let MediumDescription { kind, name } = MediumDescription::of(&drive.place.path);
    let mut member = NewMember {
        path: drive.place.path.display().to_string(),
        id: drive.id,
        is_directory: room.is_directory,
        bytes: room.bytes,
        kind: drive.kind.unwrap_or(kind),
        roles: DriveRoles::ALL,
        former: None,
        name,
        is_given_up: false,
    };
    if room.is_beside {
        let probe = NewMember { bytes: ANY_BYTES, ..member.clone() };
        member.bytes += superblock_of(figures, number, &probe)?.space_offset;
    }
    let superblock = superblock_of(figures, number, &member)?;
    Ok((member, superblock))
}

/// Where the copies of journals on a drive lie among its units.
fn journal_places(view: &LayoutView, number: u16) -> Vec<Range<u64>> {
    let journals = view
        .journals()
        .flat_map(|journal| journal.copies.iter().map(|copy| (journal.lane_bytes, copy)));
    let of_drive = journals.filter(|(_, copy)| u16::from(copy.drive.get()) == number);
    let place = |(lane_bytes, copy): (u64, &JournalCopy)| match copy.place {
        JournalPlaceKind::Units(first) => {
            let bytes = u64::from(units_of(lane_bytes)) * UNIT_BYTES;
            Some(first.offset()..first.offset() + bytes)
        }
        JournalPlaceKind::Lane(_) => None,
    };
    of_drive.filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(drives: &[(&str, u64)], shape: (u8, u8)) -> NewRedundantPool {
        let drive = |(path, bytes): &(&str, u64)| NewRedundantDrive {
            place: NewDrive::directory(Path::new(path), *bytes),
            id: DriveId([1; 16]),
            kind: None,
        };
        NewRedundantPool {
            pool: PoolId([7; 16]),
            created_unix_ms: 0,
            lane_count: 1,
            lane_bytes: 16 << 20,
            segment_bytes: 2 << 20,
            shape: StripeShape::new(shape.0, shape.1).unwrap(),
            drives: drives.iter().map(drive).collect(),
            history: HistoryId([2; 16]),
        }
    }

    #[test]
    fn what_is_too_small_is_named_and_nothing_is_touched() {
        let paths = [("/nowhere/a", 512 << 20), ("/nowhere/b", 40 << 20)];
        let refused = pool(&paths, (1, 1)).sizes().unwrap_err();
        let Error::TooSmall { path, have, need } = refused else { panic!("{refused}") };
        assert_eq!((path.as_str(), have), ("/nowhere/b", 40 << 20));
        let enough = [("/nowhere/a", 512 << 20), ("/nowhere/b", need)];
        let sizes = pool(&enough, (1, 1)).sizes().unwrap();
        assert_eq!(sizes.zones, ZONES_OF_SHARD);
        assert!(!Path::new("/nowhere").exists());
    }

    #[test]
    fn a_directory_needs_a_size() {
        let mut without = pool(&[("/nowhere/a", 1 << 30), ("/nowhere/b", 1 << 30)], (1, 1));
        without.drives[0].place.capacity_bytes = None;
        let refused = without.sizes().unwrap_err();
        assert!(matches!(refused, Error::Spec { field: "capacity_bytes", .. }), "{refused}");
    }
}
