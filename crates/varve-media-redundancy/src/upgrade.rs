//! Makes a pool of an earlier format redundant in form, with the class `none`, while nobody serves it (2.7).
//!
//! ```text
//!  plan ─▶ tables, journals, rows, roots into free room of all drives ─▶ flush ─▶ superblocks, drive by drive
//!          nothing of the pool is written over: it opens as before        │        then only `resume` goes on
//! ```
//!
//! Units begin where the lanes of a drive that is one disk do, so journals stay where they are; of a directory they
//! are copied behind the slots. Slots stay where they are: a zone that somebody has gets a row of slots without labels.
//! Tables and roots come where nothing is: behind the end of a file, into the file of superblocks of a directory, and
//! on a device into zones that nobody has, which are withdrawn.
//!
//! UPGRADE-1. Before the first superblock is replaced nothing is written where something of the pool is.
//! UPGRADE-2. Superblocks are replaced only once tables, journals and roots are durable on all drives.
//! UPGRADE-3. What the drives that have new superblocks say is what the others get.

use std::ops::Range;
use std::rc::Rc;

use varve_media::planted::{Bug, planted};
use varve_media::{
    Disk, DriveExtent, DriveFiles, DriveKind, Error, Persist, PlainDrive, RedundantSpec,
    RedundantSuperblock, Result, RootKey, RootVersion, Section, UpgradedDrive,
};
use varve_reactor::Reactor;

use crate::class::{Class, ClassId, MediumKind, MediumKinds, StripeShape};
use crate::files::extent_of;
use crate::format::{
    DriveRecord, DriveRoles, DriveState, DriveTable, FeatureWords, HeldUnits, JournalCopy,
    JournalCopyState, JournalPlaceKind, JournalRecord, LayoutPage, Row, RowState, StripForm,
    StripPlace, StripSet,
};
use crate::handles::{DRIVE_PATIENCE_NANOS, DriveHandle, RedundantDisks};
use crate::ids::{DriveId, DriveNumber, Epoch, HistoryId, Tenancy, UNIT_BYTES, UnitNumber};
use crate::medium::MediumDescription;
use crate::space::DriveSpaces;
use crate::table_store::{EmptyRoots, StoredRoot, look, root_keys, write_all};
use crate::view::LayoutView;

/// Epoch of the first table.
const FIRST_EPOCH: Epoch = Epoch(1);

/// Drives that hold tables and roots.
const ROOT_DRIVES_MAX: usize = 8;

/// Bytes of a journal that are copied at once.
const COPY_BYTES: u64 = 1 << 20;

/// A drive of the pool.
pub struct UpgradeDrive {
    /// What it says of itself.
    pub plain: PlainDrive,
    /// Its identity; random, never used before.
    pub id: DriveId,
    /// What it is made of.
    pub kind: MediumKind,
    /// What it is called.
    pub name: String,
    /// Whether it can be made longer: files and directories can.
    pub can_grow: bool,
}

impl UpgradeDrive {
    /// The drive in these files, as the system describes it.
    #[must_use]
    pub fn new(files: &DriveFiles, plain: PlainDrive, id: DriveId) -> Self {
        let MediumDescription { kind, name } = MediumDescription::of(files.path());
        let can_grow = files.kind() != DriveKind::Device;
        Self { plain, id, kind, name, can_grow }
    }
}

/// The disks of a drive, as long as [`UpgradePlan::extents`] says.
pub struct UpgradeDisks {
    /// All of a drive that is one disk; of a directory the file of superblocks.
    pub meta: Rc<dyn Disk>,
    /// The slots of a directory.
    pub slots: Option<Rc<dyn Disk>>,
    /// The lanes of a directory.
    pub lanes: Vec<Rc<dyn Disk>>,
}

/// Zones of the pool, as its root says.
pub struct UpgradeZones {
    /// Slots of a zone.
    pub zone_segments: u32,
    /// Whether somebody has it, of each zone.
    pub leased: Vec<bool>,
}

/// What the pool becomes.
pub struct UpgradePlan {
    view: LayoutView,
    figures: RedundantSpec,
    superblocks: Vec<RedundantSuperblock>,
    withdrawn: Vec<u32>,
}

impl UpgradePlan {
    /// Lays out tables and roots. Touches nothing.
    ///
    /// # Errors
    /// [`Error::TableChange`] where sizes are no multiples of units, a zone lies on more than two drives, or a drive
    /// has no room for them.
    pub fn new(
        drives: &[UpgradeDrive],
        zones: &UpgradeZones,
        history: HistoryId,
        unix_ms: u64,
    ) -> Result<Self> {
        let first = drives.first().ok_or_else(|| refused("the pool has no drive"))?;
        let zone_count = u32::try_from(zones.leased.len()).unwrap_or(u32::MAX);
        let figures = first.plain.spec(zone_count);
        figures.validate()?;
        check_sizes(&figures)?;
        let slots = SlotMap::of(drives, zones);
        let (mut superblocks, mut records, mut withdrawn) = (Vec::new(), Vec::new(), Vec::new());
        for (index, drive) in drives.iter().enumerate() {
            let room = TableRoom::find(drive, &slots, index, &figures)?;
            withdrawn.extend(room.zones.clone());
            let superblock = drive.plain.upgraded(&UpgradedDrive {
                drive_id: drive.id.0,
                tables_offset: room.offset,
                units: room.units,
                layout_pages: figures.layout_pages,
                root_bytes_max: figures.root_bytes_max,
            })?;
            records.push(record_of(drive, &superblock, room.held, unix_ms)?);
            superblocks.push(superblock);
        }
        let table = first_table(&figures, zones, records, history);
        table.check().map_err(|fault| refused(&fault.to_string()))?;
        let pages = pages_of(&table, &slots)?;
        let journals = drives.iter().flat_map(|drive| journals_of(&drive.plain, &figures));
        let view = LayoutView::new(table, pages, journals.collect::<Result<Vec<_>>>()?);
        let view = view.map_err(|fault| refused(&fault.to_string()))?;
        let spaces = DriveSpaces::of(&view).map_err(|fault| refused(&fault.to_string()));
        if !planted(Bug::UpgradeOverData) {
            spaces?; // PLACE-1
        }
        Ok(Self { view, figures, superblocks, withdrawn })
    }

    /// Zones that nobody gets any more: tables and roots are where they were.
    #[must_use]
    pub fn withdrawn(&self) -> &[u32] {
        &self.withdrawn
    }

    /// Where the parts of each drive end then: files are to be made so long before.
    #[must_use]
    pub fn extents(&self) -> Vec<DriveExtent> {
        self.superblocks.iter().map(extent_of).collect()
    }

    /// Writes all of it: `drives` in their order, and the root of the pool with the zones withdrawn. Durable on return.
    /// Cut off before the first superblock is replaced the pool is as it was (UPGRADE-1).
    ///
    /// # Errors
    /// The disks'.
    pub async fn write(
        &self,
        reactor: &Reactor,
        drives: &[UpgradeDrive],
        disks: &[UpgradeDisks],
        pool_root: &[u8],
    ) -> Result<()> {
        let roots = self.roots(drives, disks, pool_root).await?;
        let mut handles = Vec::new();
        for ((superblock, drive), disks) in self.superblocks.iter().zip(drives).zip(disks) {
            let parts = disks.parts(superblock)?;
            copy_lanes(&drive.plain, disks, &*parts.space).await?;
            superblock.check_sizes(&*parts.meta, &*parts.space)?;
            let handle =
                DriveHandle::new(reactor, superblock.clone(), &parts, DRIVE_PATIENCE_NANOS);
            handles.push(Rc::new(handle.ok_or_else(|| out_of_range(superblock.number.into()))?));
        }
        if planted(Bug::UpgradeSuperblocksFirst) {
            replace_superblocks(&handles).await?;
        }
        for handle in &handles {
            EmptyRoots { has_table: true }.write(handle).await?;
        }
        let first = RootVersion(1);
        let table = (StoredRoot::DriveTable, first, self.view.drives().encode());
        let journals = self.view.journals();
        let journals = journals.map(|it| (StoredRoot::Journal(it.shard), first, it.encode()));
        let pages = self.view.pages().map(|it| (StoredRoot::Page(it.page), first, it.encode()));
        let all = std::iter::once(table).chain(journals).chain(pages).chain(roots);
        for (which, version, bytes) in all {
            let failures = write_all(which, &handles, &(version, bytes)).await?;
            if let Some(failure) = failures.into_iter().next() {
                return Err(failure.error);
            }
        }
        for handle in &handles {
            handle.flush().await?;
            handle.meta().flush().await?;
        }
        replace_superblocks(&handles).await // UPGRADE-2
    }

    /// The roots that were ever written, as the first drive has them.
    async fn roots(
        &self,
        drives: &[UpgradeDrive],
        disks: &[UpgradeDisks],
        pool_root: &[u8],
    ) -> Result<Vec<(StoredRoot, RootVersion, Vec<u8>)>> {
        let mut roots = Vec::new();
        let Some((drive, disks)) = drives.first().zip(disks.first()) else { return Ok(roots) };
        for key in root_keys(self.figures.lane_count) {
            let root = drive.plain.root(key)?;
            let (version, bytes) = root.read(&*disks.meta, self.figures.pool).await?;
            if version == RootVersion(0) {
                continue;
            }
            let bytes = if key == RootKey::Pool { pool_root.to_vec() } else { bytes };
            roots.push((StoredRoot::Root(key), version, bytes));
        }
        Ok(roots)
    }
}

/// From the first one on only the upgraded pool is there.
async fn replace_superblocks(drives: &[Rc<DriveHandle>]) -> Result<()> {
    for drive in drives {
        drive.superblock().write(drive.meta()).await?;
    }
    Ok(())
}

/// Gives drives that have the superblock of the earlier format still that which the tables of an upgraded one say
/// (UPGRADE-3). Durable on return.
///
/// # Errors
/// [`Error::NoPool`] where the upgraded drive has no table, [`Error::DriveSet`] for a drive that the table does not
/// know, or the disks'.
pub async fn resume_upgrade(
    reactor: &Reactor,
    upgraded: &RedundantSuperblock,
    disks: &RedundantDisks,
    others: &[(PlainDrive, Rc<dyn Disk>)],
) -> Result<()> {
    let handle = DriveHandle::new(reactor, upgraded.clone(), disks, DRIVE_PATIENCE_NANOS);
    let handle = handle.ok_or_else(|| out_of_range(upgraded.number.into()))?;
    let sides = look(StoredRoot::DriveTable, &handle).await?;
    let tables = sides.into_iter().flatten();
    let mut tables = tables.filter_map(|(_, bytes)| DriveTable::decode(upgraded.pool, &bytes).ok());
    let table =
        tables.next().ok_or_else(|| Error::NoPool { path: disks.meta.path().to_owned() })?;
    let is_anew = planted(Bug::UpgradeAnew);
    for (plain, meta) in others {
        let record = table.drives.iter().find(|it| u16::from(it.number.get()) == plain.index());
        let Some(record) = record.filter(|_| plain.pool() == table.pool) else {
            let (index, count, pool) = (plain.index(), plain.count(), plain.pool());
            return Err(Error::DriveSet { path: meta.path().to_owned(), index, count, pool });
        };
        let superblock = plain.upgraded(&UpgradedDrive {
            drive_id: record.id.0,
            tables_offset: tables_offset(
                plain,
                if is_anew { HeldUnits::NONE } else { record.held },
            ),
            units: record.units,
            layout_pages: upgraded.layout_pages,
            root_bytes_max: upgraded.root_bytes_max,
        })?;
        superblock.write(&**meta).await?;
    }
    Ok(())
}

impl UpgradeDisks {
    /// The disks as the upgraded drive has them.
    fn parts(&self, superblock: &RedundantSuperblock) -> Result<RedundantDisks> {
        match &self.slots {
            None => RedundantDisks::one(&self.meta, superblock),
            Some(slots) => {
                let space = Section::new(Rc::clone(slots), 0, superblock.space_bytes())?;
                Ok(RedundantDisks { meta: Rc::clone(&self.meta), space: Rc::new(space) })
            }
        }
    }
}

/// Where the tables of an upgraded drive begin.
fn tables_offset(plain: &PlainDrive, held: HeldUnits) -> u64 {
    let begins = plain.space_offset();
    if plain.is_directory() {
        return begins.next_multiple_of(UNIT_BYTES);
    }
    begins + held.first.offset()
}

/// Lanes of a directory are files of their own: their frames come among the units.
async fn copy_lanes(plain: &PlainDrive, disks: &UpgradeDisks, space: &dyn Disk) -> Result<()> {
    for (number, lane) in (0u16..).zip(&disks.lanes) {
        let Range { start, end } = plain.lane_in_units(number);
        let mut done = 0;
        while start + done < end {
            let len = (end - start - done).min(COPY_BYTES);
            let bytes = lane.read(done, usize::try_from(len).expect("a MiB")).await?;
            space.write(start + done, bytes.freeze(), Persist::Cached).await?;
            done += len;
        }
    }
    Ok(())
}

/// Where each drive's slots are among those of the pool, and which zones somebody has.
struct SlotMap<'a> {
    drives: &'a [UpgradeDrive],
    first_slots: Vec<u64>,
    zones: &'a UpgradeZones,
}

impl<'a> SlotMap<'a> {
    fn of(drives: &'a [UpgradeDrive], zones: &'a UpgradeZones) -> Self {
        let mut next = 0;
        let first_slots = drives.iter().map(|drive| {
            let first = next;
            next += u64::from(drive.plain.segment_count());
            first
        });
        Self { drives, first_slots: first_slots.collect(), zones }
    }

    /// Slots of a drive in the pool.
    fn slots_of(&self, drive: usize) -> Range<u64> {
        let first = self.first_slots.get(drive).copied().unwrap_or_default();
        let count = self.drives.get(drive).map_or(0, |it| it.plain.segment_count());
        first..first + u64::from(count)
    }

    /// Slots of a zone.
    fn slots_of_zone(&self, zone: usize) -> Range<u64> {
        let count = u64::from(self.zones.zone_segments);
        zone as u64 * count..(zone as u64 + 1) * count
    }

    /// Where a slot lies, in bytes of its drive's units.
    fn offset(&self, drive: usize, slot: u64) -> u64 {
        let Some(plain) = self.drives.get(drive).map(|drive| &drive.plain) else { return 0 };
        let within = slot - self.slots_of(drive).start;
        plain.slots_in_units().start + within * u64::from(plain.segment_bytes())
    }

    /// The parts of a zone: the drive of each, its first slot, and how many it has.
    fn parts(&self, zone: usize) -> Vec<ZonePart> {
        let slots = self.slots_of_zone(zone);
        let part = |drive: usize| {
            let own = self.slots_of(drive);
            let (first, end) = (own.start.max(slots.start), own.end.min(slots.end));
            (first < end).then(|| ZonePart { drive, first, slots: end - first })
        };
        (0..self.drives.len()).filter_map(part).collect()
    }

    /// The row of a zone that somebody has.
    fn row(&self, zone: usize, class: ClassId) -> Result<Row> {
        let parts = self.parts(zone);
        let whole: u64 = parts.iter().map(|part| part.slots).sum();
        let [first, ..] = &*parts else { return Err(refused("a zone lies on no drive")) };
        if parts.len() > 2 || whole != u64::from(self.zones.zone_segments) {
            return Err(refused(&format!("zone {zone} lies on more than two drives")));
        }
        let tenancy = Tenancy::ZERO.next().expect("it is the first");
        let split = u16::try_from(first.slots).map_err(|_| refused("zones are too large"))?;
        let place = |part: &ZonePart| {
            let drive = number_of(part.drive)?;
            Ok(StripPlace { drive, tenancy, place: unit_at(self.offset(part.drive, part.first))? })
        };
        let places = parts.iter().map(place).collect::<Result<Box<[_]>>>()?;
        let set = StripSet { class, form: StripForm::Slots { split }, places };
        Ok(Row { tenancy, state: RowState::Still(set) })
    }
}

/// Slots of a zone that are on one drive.
struct ZonePart {
    drive: usize,
    first: u64,
    slots: u64,
}

/// Where tables and roots of a drive come.
struct TableRoom {
    /// In bytes of the drive.
    offset: u64,
    /// Units of the drive, these included.
    units: u32,
    held: HeldUnits,
    /// Zones that were there.
    zones: Range<u32>,
}

impl TableRoom {
    /// UPGRADE-1
    fn find(
        drive: &UpgradeDrive,
        slots: &SlotMap<'_>,
        index: usize,
        figures: &RedundantSpec,
    ) -> Result<Self> {
        let plain = &drive.plain;
        let need = plain.tables_bytes(figures).next_multiple_of(UNIT_BYTES);
        let end = plain.units_end();
        if plain.is_directory() {
            let units = unit_at(end.next_multiple_of(UNIT_BYTES))?.0;
            let offset = tables_offset(plain, HeldUnits::NONE);
            return Ok(Self { offset, units, held: HeldUnits::NONE, zones: 0..0 });
        }
        let (start, units_end, zones) = if drive.can_grow {
            let start = end.next_multiple_of(UNIT_BYTES);
            (start, start + need, 0..0)
        } else {
            let zones = free_zones(slots, index, need).ok_or_else(|| {
                let mib = need.div_ceil(1 << 20);
                refused(&format!("drive {index} has no {mib} MiB in zones that nobody has"))
            })?;
            let first = slots.slots_of_zone(zones.start as usize).start;
            (slots.offset(index, first), end - end % UNIT_BYTES, zones)
        };
        let (first, count) = (unit_at(start)?, unit_at(need)?.0);
        let held = HeldUnits { first, count };
        let offset = plain.space_offset() + start;
        Ok(Self { offset, units: unit_at(units_end)?.0, held, zones })
    }
}

/// The last zones of a drive, one behind the other, that nobody has and that take so many bytes.
fn free_zones(slots: &SlotMap<'_>, drive: usize, need: u64) -> Option<Range<u32>> {
    let own = slots.slots_of(drive);
    let plain = &slots.drives.get(drive)?.plain;
    let zone_bytes = u64::from(slots.zones.zone_segments) * u64::from(plain.segment_bytes());
    let count = usize::try_from(need.div_ceil(zone_bytes)).ok()?;
    let is_free = |zone: usize| {
        let of_zone = slots.slots_of_zone(zone);
        let is_leased = slots.zones.leased.get(zone).copied().unwrap_or(true);
        (!is_leased || planted(Bug::UpgradeOverData))
            && own.start <= of_zone.start
            && of_zone.end <= own.end
    };
    let last = slots.zones.leased.len().checked_sub(count)?;
    let first = (0..=last).rev().find(|first| (*first..first + count).all(is_free))?;
    Some(u32::try_from(first).ok()?..u32::try_from(first + count).ok()?)
}

/// Refuses sizes that units do not divide.
fn check_sizes(figures: &RedundantSpec) -> Result<()> {
    let sizes = [("segments", u64::from(figures.segment_bytes)), ("journals", figures.lane_bytes)];
    match sizes.iter().find(|(_, bytes)| !bytes.is_multiple_of(UNIT_BYTES)) {
        None => Ok(()),
        Some((what, bytes)) => Err(refused(&format!(
            "its {what} have {bytes} bytes, which is not a multiple of 64 KiB"
        ))),
    }
}

fn record_of(
    drive: &UpgradeDrive,
    superblock: &RedundantSuperblock,
    held: HeldUnits,
    unix_ms: u64,
) -> Result<DriveRecord> {
    let index = usize::from(drive.plain.index());
    let roles = if index < ROOT_DRIVES_MAX {
        DriveRoles::ALL
    } else {
        DriveRoles::ALL.without(DriveRoles::ROOTS)
    };
    Ok(DriveRecord {
        number: number_of(index)?,
        id: drive.id,
        state: DriveState::Live,
        roles,
        kind: drive.kind,
        is_slow: false,
        removal: None,
        former: None,
        units: superblock.units,
        held,
        since_epoch: FIRST_EPOCH,
        since_unix_ms: unix_ms,
        name: drive.name.clone(),
    })
}

fn first_table(
    figures: &RedundantSpec,
    zones: &UpgradeZones,
    drives: Vec<DriveRecord>,
    history: HistoryId,
) -> DriveTable {
    let class = ClassId::new(1).expect("1 is a number");
    DriveTable {
        features: FeatureWords::default(),
        pool: figures.pool,
        epoch: FIRST_EPOCH,
        history,
        lineage: Vec::new(),
        classes: vec![Class { id: class, shape: StripeShape::NONE, kinds: MediumKinds::ALL }],
        class,
        next_drive: u8::try_from(drives.len()).unwrap_or(u8::MAX),
        drives,
        drops_max: 0,
        segment_bytes: figures.segment_bytes,
        zone_segments: zones.zone_segments,
        zones_max: figures.zones_max(),
        loss_epoch: Epoch(0),
        walked_epoch: Epoch(0),
        settled_epoch: FIRST_EPOCH,
        journal_kinds: MediumKinds::ALL,
    }
}

/// Pages with the rows of zones that somebody has.
fn pages_of(table: &DriveTable, slots: &SlotMap<'_>) -> Result<Vec<LayoutPage>> {
    let mut pages: Vec<LayoutPage> = Vec::new();
    for (zone, _) in slots.zones.leased.iter().enumerate().filter(|(_, leased)| **leased) {
        let index = u32::try_from(zone).map_err(|_| refused("there are too many zones"))?;
        let number = index / LayoutPage::ROWS;
        if pages.last().is_none_or(|page| page.page != number) {
            pages.push(LayoutPage::empty(table.pool, number));
        }
        let page = pages.last_mut().expect("it was added");
        let row = page.rows.get_mut((index % LayoutPage::ROWS) as usize).expect("one of 14");
        *row = slots.row(zone, table.class)?;
    }
    Ok(pages)
}

/// The journals of a drive: where their lanes are, or come.
fn journals_of(
    plain: &PlainDrive,
    figures: &RedundantSpec,
) -> impl Iterator<Item = Result<JournalRecord>> {
    let (pool, lane_bytes) = (figures.pool, figures.lane_bytes);
    let index = usize::from(plain.index());
    let lanes: Vec<_> = (0u16..).zip(plain.shards()).collect();
    let starts = lanes.iter().map(|(lane, _)| plain.lane_in_units(*lane).start);
    let starts: Vec<u64> = starts.collect();
    lanes.into_iter().zip(starts).map(move |((_, shard), start)| {
        let copy = JournalCopy {
            drive: number_of(index)?,
            place: JournalPlaceKind::Units(unit_at(start)?),
            since: 0,
            state: JournalCopyState::Current,
        };
        Ok(JournalRecord { pool, shard, journal_epoch: 1, lane_bytes, copies: vec![copy] })
    })
}

fn number_of(index: usize) -> Result<DriveNumber> {
    let number = u8::try_from(index).ok().and_then(DriveNumber::new);
    number.ok_or_else(|| out_of_range(index as u64))
}

/// The unit that begins at a place, of whole ones.
fn unit_at(bytes: u64) -> Result<UnitNumber> {
    assert!(bytes.is_multiple_of(UNIT_BYTES), "sizes were checked");
    let unit = u32::try_from(bytes / UNIT_BYTES);
    unit.map(UnitNumber).map_err(|_| Error::Spec { field: "units", value: bytes / UNIT_BYTES })
}

fn out_of_range(value: u64) -> Error {
    Error::Spec { field: "drives", value }
}

fn refused(reason: &str) -> Error {
    Error::TableChange { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests;
