//! A new pool's tables on new drives.
//!
//! ```text
//!  nothing → marks on all drives → empty tables and roots → tables → superblocks, drive by drive, in place of marks
//! ```
//!
//! What a mark says, and when there is a pool, is as with other pools (MAKING-1, MAKING-2).

use varve_media::{
    Error, RedundantDriveSpec, RedundantSpec, RedundantSuperblock, Result, RootVersion,
    mark_new_drives,
};
use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::change::NewMember;
use crate::class::{Class, ClassId, MediumKinds, StripeShape};
use crate::format::{
    DriveRecord, DriveRoles, DriveState, DriveTable, FeatureWords, HeldUnits, JournalCopy,
    JournalCopyState, JournalRecord,
};
use crate::handles::{DRIVE_PATIENCE_NANOS, DriveHandle, RedundantDisks};
use crate::ids::{DriveNumber, Epoch, HistoryId};
use crate::plan::{Occupancy, choose_journal};
use crate::table_store::{EmptyRoots, StoredRoot, write_all};
use crate::view::LayoutView;

/// Epoch of a pool's first table.
const FIRST_EPOCH: Epoch = Epoch(1);

/// A drive of a new pool.
pub struct NewPoolDrive {
    /// What it is.
    pub member: NewMember,
    /// By [`superblock_of`], with its index among the drives as its number.
    pub superblock: RedundantSuperblock,
    /// Its disks, at their full size.
    pub disks: RedundantDisks,
}

/// What a pool is made with.
#[derive(Clone, Debug)]
pub struct MakingSpec {
    /// Figures that all drives share.
    pub figures: RedundantSpec,
    /// The class of its zones.
    pub shape: StripeShape,
    /// Drives that the class may use.
    pub kinds: MediumKinds,
    /// Slots of a zone.
    pub zone_segments: u32,
    /// Random.
    pub history: HistoryId,
}

/// The superblock that a drive gets under a number.
///
/// # Errors
/// [`Error::Spec`] when a figure is out of range, or the drive has no room for a unit.
pub fn superblock_of(
    figures: &RedundantSpec,
    number: DriveNumber,
    member: &NewMember,
) -> Result<RedundantSuperblock> {
    let spec = RedundantDriveSpec {
        number: number.get().into(),
        drive_id: member.id.0,
        is_directory: member.is_directory,
        bytes: member.bytes,
    };
    RedundantSuperblock::new(figures, &spec)
}

/// Makes a pool: its drives are numbered as they are listed. Durable on return; cut off, there is none, and it can be
/// made again. What is returned says where journals are, whose places must read as zeros or hold another pool's frames.
///
/// # Errors
/// [`Error::PoolExists`], [`Error::Spec`], [`Error::NoSpace`] when the journals have no room,
/// [`Error::TooFewDrives`] when the class needs more of them, or a disk's.
pub async fn make(
    reactor: &Reactor,
    drives: &[NewPoolDrive],
    spec: &MakingSpec,
) -> Result<LayoutView> {
    spec.figures.validate()?;
    let view = plan(reactor, drives, spec)?;
    let handles: Result<Vec<_>> = drives.iter().map(|drive| handle(reactor, drive)).collect();
    let handles = handles?;
    let metas: Vec<_> = handles.iter().map(DriveHandle::meta).collect();
    mark_new_drives(&metas, spec.figures.pool).await?;
    for handle in &handles {
        EmptyRoots { has_table: true }.write(handle).await?;
    }
    let handles: Vec<_> = handles.into_iter().map(std::rc::Rc::new).collect();
    let table = (StoredRoot::DriveTable, view.drives().encode());
    let journals = view.journals().map(|it| (StoredRoot::Journal(it.shard), it.encode()));
    for (which, bytes) in std::iter::once(table).chain(journals) {
        let failures = write_all(which, &handles, &(RootVersion(1), bytes)).await?;
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure.error);
        }
    }
    for handle in &handles {
        handle.superblock().write(handle.meta()).await?;
    }
    Ok(view)
}

fn handle(reactor: &Reactor, drive: &NewPoolDrive) -> Result<DriveHandle> {
    let NewPoolDrive { superblock, disks, .. } = drive;
    superblock.check_sizes(&*disks.meta, &*disks.space)?;
    let handle = DriveHandle::new(reactor, superblock.clone(), disks, DRIVE_PATIENCE_NANOS);
    handle.ok_or(Error::Spec { field: "drives", value: superblock.number.into() })
}

/// The tables of the new pool.
fn plan(reactor: &Reactor, drives: &[NewPoolDrive], spec: &MakingSpec) -> Result<LayoutView> {
    let (present, strips) = (drives.len(), spec.shape.strips());
    if present < strips {
        return Err(Error::TooFewDrives { zone: None, present, needed: strips });
    }
    let table = first_table(reactor, drives, spec)?;
    let copies = usize::from(table.drops_max) + 1;
    let too_many = |fault: &dyn std::fmt::Display| Error::TableChange { reason: fault.to_string() };
    let mut view = LayoutView::new(table, [], []).map_err(|fault| too_many(&fault))?;
    for shard in (0..spec.figures.lane_count).map(ShardId) {
        let occupancy = Occupancy::of(&view).map_err(|fault| too_many(&fault))?;
        let record = journal(&view, &occupancy, spec, shard)?;
        if record.copies.len() < copies {
            return Err(Error::NoSpace { path: "the drives of the new pool".to_owned() });
        }
        view = view.with_journal(record).map_err(|fault| too_many(&fault))?;
    }
    Ok(view)
}

/// A record with as many copies as drives may be dropped, and one more; fewer where they have no room.
fn journal(
    view: &LayoutView,
    occupancy: &Occupancy,
    spec: &MakingSpec,
    shard: ShardId,
) -> Result<JournalRecord> {
    let RedundantSpec { pool, lane_bytes, .. } = spec.figures;
    let mut record =
        JournalRecord { pool, shard, journal_epoch: 1, lane_bytes, copies: Vec::new() };
    for _ in 0..=view.drives().drops_max {
        let Some(place) = choose_journal(view, occupancy, &record, &[]) else { break };
        record.copies.push(JournalCopy {
            drive: place.drive,
            place: place.place,
            since: 0,
            state: JournalCopyState::Current,
        });
    }
    record.check().map_err(|_| Error::NoSpace { path: "the drives of the new pool".to_owned() })?;
    Ok(record)
}

fn first_table(
    reactor: &Reactor,
    drives: &[NewPoolDrive],
    spec: &MakingSpec,
) -> Result<DriveTable> {
    let class_id = ClassId::new(1).expect("1 is a number");
    let class = Class { id: class_id, shape: spec.shape, kinds: spec.kinds };
    let records = (0u8..).zip(drives).map(|(number, drive)| record(reactor, number, drive));
    let table = DriveTable {
        features: FeatureWords::default(),
        pool: spec.figures.pool,
        epoch: FIRST_EPOCH,
        history: spec.history,
        lineage: Vec::new(),
        classes: vec![class],
        class: class_id,
        drives: records.collect::<Result<_>>()?,
        drops_max: spec.shape.parity(),
        next_drive: u8::try_from(drives.len())
            .map_err(|_| Error::Spec { field: "drives", value: drives.len() as u64 })?,
        segment_bytes: spec.figures.segment_bytes,
        zone_segments: spec.zone_segments,
        zones_max: spec.figures.zones_max(),
        loss_epoch: Epoch(0),
        walked_epoch: Epoch(0),
        // There is no pool before it is on all drives.
        settled_epoch: FIRST_EPOCH,
        journal_kinds: MediumKinds::ALL,
    };
    table.check().map_err(|fault| Error::TableChange { reason: fault.to_string() })?;
    Ok(table)
}

fn record(reactor: &Reactor, number: u8, drive: &NewPoolDrive) -> Result<DriveRecord> {
    let NewPoolDrive { member, superblock, .. } = drive;
    let out_of_range = Error::Spec { field: "drives", value: superblock.number.into() };
    let number = DriveNumber::new(number).ok_or(out_of_range.clone())?;
    if superblock.number != u16::from(number.get()) || superblock.drive_id != member.id.0 {
        return Err(out_of_range);
    }
    Ok(DriveRecord {
        number,
        id: member.id,
        state: DriveState::Live,
        roles: roles_of(number, member.roles),
        kind: member.kind,
        is_slow: false,
        removal: None,
        former: None,
        units: superblock.units,
        held: HeldUnits::NONE,
        since_epoch: FIRST_EPOCH,
        since_unix_ms: reactor.unix_time_ms(),
        name: member.name.clone(),
    })
}

/// The first eight drives have tables and roots.
fn roles_of(number: DriveNumber, roles: DriveRoles) -> DriveRoles {
    if number.get() < 8 { roles } else { roles.without(DriveRoles::ROOTS) }
}
