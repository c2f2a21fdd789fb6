//! How the pool keeps data over its drives, and of which class each of these is, changed while it serves: what follows
//! is computed and checked before anything is done, then the tables are replaced, and movers convert what is stored.

use std::sync::Arc;

use varve_access_admin::v1::{ChangeDrive, ChangePool, DriveMoves, PoolChange};
use varve_access_admin::{AdminFuture, Error, Result};
use varve_media_redundancy::format::{DriveRecord, DriveState};
use varve_media_redundancy::{
    Change, Class, ClassOutlook, LayoutView, MediumKind, MediumKinds, PoolSizes, Protection,
    StripeShape, unconverted,
};
use varve_types::{ByteCount, ErrorKind};

use crate::drive_changes::{change, find, moves, of_class, parse_kind, refusal, to_the_end};
use crate::redundancy::shape_of;
use crate::redundant_pool::RedundantPool;

/// Has the pool keep data in another way, or says what would follow.
pub(crate) fn change_pool(
    pool: &Arc<RedundantPool>,
    what: ChangePool,
) -> AdminFuture<'static, PoolChange> {
    let pool = Arc::clone(pool);
    to_the_end(async move {
        let view = pool.files().view();
        let asked = class_for(&view, &what)?;
        let AskedClass { shape, kinds, journal_kinds } = asked;
        let outlook = ClassOutlook::of(&view, shape, kinds);
        if !is_of_journals_alone(&what) {
            check(&view, asked, &outlook)?;
        }
        if !what.dry_run {
            change(&pool, Change::JournalKinds { kinds: journal_kinds }).await?;
            if !is_of_journals_alone(&what) {
                change(&pool, Change::Class { shape, kinds }).await?;
            }
        }
        Ok(answer(&view, asked, &outlook, what.dry_run))
    })
}

/// Says what a drive is.
pub(crate) fn change_drive(
    pool: &Arc<RedundantPool>,
    name: String,
    what: ChangeDrive,
) -> AdminFuture<'static, DriveMoves> {
    let pool = Arc::clone(pool);
    to_the_end(async move {
        let record = find(&pool, &name)?;
        let kind = parse_kind(what.class.as_deref())?.ok_or_else(|| {
            let what = format!("nothing of drive {} is to change", record.number);
            refusal(ErrorKind::Invalid, &what, "give its class: nvme, ssd or hdd")
        })?;
        check_kind(&pool.files().view(), &record, kind)?;
        change(&pool, Change::Kind { drive: record.number, kind }).await?;
        Ok(moves(&pool))
    })
}

/// Refuses a class of a drive by which others are too few for data, or have no room for them.
fn check_kind(view: &LayoutView, record: &DriveRecord, kind: MediumKind) -> Result<()> {
    let table = view.drives();
    let (kinds, drive) = (table.zone_kinds(), record.number);
    if record.state != DriveState::Live || !kinds.has(record.kind) || kinds.has(kind) {
        return Ok(());
    }
    let (shape, journal_kinds) = (shape_of(table), table.journal_kinds);
    let outlook = ClassOutlook::with_kind(view, drive, kind);
    check(view, AskedClass { shape, kinds, journal_kinds }, &outlook).map_err(|error| match error {
        Error::Backend { kind: cause, message, .. } => {
            let what = format!("drive {drive} cannot be of class {}: {message}", kind.word());
            let hint = "add a drive first, or have data lie on drives of more classes: `varve pool set --data-class`";
            refusal(cause, &what, hint)
        }
        other => other,
    })
}

/// How new data are to be kept, and on which drives.
#[derive(Clone, Copy)]
struct AskedClass {
    shape: StripeShape,
    kinds: MediumKinds,
    journal_kinds: MediumKinds,
}

/// Whether data stay as they are kept.
fn is_of_journals_alone(what: &ChangePool) -> bool {
    what.protect.is_none() && what.data_class.is_none() && !what.cancel
}

/// What is asked for; what is not said stays as it is.
fn class_for(view: &LayoutView, what: &ChangePool) -> Result<AskedClass> {
    let table = view.drives();
    let (shape, kinds, journal_kinds) = (shape_of(table), table.zone_kinds(), table.journal_kinds);
    let named = [&what.data_class, &what.journal_class];
    match (&what.protect, named, what.cancel) {
        (None, [None, None], true) => {
            let mut others = unconverted(view).into_iter();
            // Those of this class are where it has none, as a drive is of another class now.
            let most = others.find(|(class, _)| class.id != table.class);
            most.map(|(Class { shape, kinds, .. }, _)| AskedClass { shape, kinds, journal_kinds })
                .ok_or_else(|| {
                    let what = "nothing is being converted that could be cancelled";
                    refusal(ErrorKind::Conflict, what, "`varve pool show` says how data are kept")
                })
        }
        (_, _, true) | (None, [None, None], false) => {
            let what = "`cancel` is to be given alone, or what is to change";
            let hint = "give --protect, --data-class or --journal-class, or --cancel";
            Err(refusal(ErrorKind::Invalid, what, hint))
        }
        (protect, named, false) => {
            let protection = protect.as_ref().map(|text| text.parse::<Protection>()).transpose();
            let protection = protection.map_err(|fault| {
                refusal(ErrorKind::Invalid, &fault, "give none, or one as mirror:2 or ec:4+2")
            })?;
            let [data, journals] = named.map(|text| parse_kinds(text.as_deref()));
            let (kinds, journal_kinds) =
                (data?.unwrap_or(kinds), journals?.unwrap_or(journal_kinds));
            let shape = protection.map_or(shape, Protection::shape);
            Ok(AskedClass { shape, kinds, journal_kinds })
        }
    }
}

fn parse_kinds(text: Option<&str>) -> Result<Option<MediumKinds>> {
    text.map(str::parse::<MediumKinds>).transpose().map_err(|fault| {
        refusal(ErrorKind::Invalid, &fault, "`varve drive list` shows the classes of drives")
    })
}

/// Refuses a class that drives are too few for, or have no room for.
fn check(view: &LayoutView, asked: AskedClass, outlook: &ClassOutlook) -> Result<()> {
    let AskedClass { shape, kinds, .. } = asked;
    let (drives, needed, of_class) = (outlook.drives, shape.strips(), of_class(kinds));
    if drives < needed {
        let what = format!("{shape} needs {needed} drives{of_class}, and {drives} are live");
        return Err(refusal(ErrorKind::Conflict, &what, "add drives first: `varve drive add`"));
    }
    if outlook.lacking_bytes > 0 {
        let held = u64::from(outlook.zones) * zone_bytes(view);
        let (held, usable) = (ByteCount(held), ByteCount(outlook.sizes.usable_bytes));
        let lacking = ByteCount(outlook.lacking_bytes);
        let what = format!(
            "{shape} on these drives{of_class} holds {usable}, and zones that are in use take {held}: {lacking} lack"
        );
        let hint = "add drives first: `varve drive add`, or choose a class that takes less";
        return Err(refusal(ErrorKind::NoSpace, &what, hint));
    }
    if !outlook.has_room_to_begin {
        let what = format!(
            "no drive{of_class} has room to begin: a zone keeps its places until it is {shape} elsewhere"
        );
        return Err(refusal(ErrorKind::NoSpace, &what, "add a drive first: `varve drive add`"));
    }
    Ok(())
}

fn zone_bytes(view: &LayoutView) -> u64 {
    let table = view.drives();
    u64::from(table.zone_segments) * u64::from(table.segment_bytes)
}

fn answer(
    view: &LayoutView,
    asked: AskedClass,
    outlook: &ClassOutlook,
    dry_run: bool,
) -> PoolChange {
    let AskedClass { shape, kinds, journal_kinds } = asked;
    PoolChange {
        protect: shape.to_string(),
        protect_before: shape_of(view.drives()).to_string(),
        data_class: kinds.to_string(),
        journal_class: journal_kinds.to_string(),
        survives: shape.parity(),
        usable_bytes: outlook.sizes.usable_bytes,
        usable_before_bytes: PoolSizes::of_view(view).usable_bytes,
        raw_bytes: outlook.sizes.raw_bytes,
        zones: outlook.zones.into(),
        unconverted: outlook.unconverted.into(),
        dry_run,
    }
}
