//! How the pool keeps data over its drives, changed while it serves: what follows is computed and checked before
//! anything is done, then the class of new zones is replaced, and movers convert what is stored.

use std::sync::Arc;

use varve_access_admin::v1::{ChangePool, PoolChange};
use varve_access_admin::{AdminFuture, Result};
use varve_media_redundancy::{
    Change, ClassOutlook, LayoutView, MediumKinds, PoolSizes, Protection, StripeShape, unconverted,
};
use varve_types::{ByteCount, ErrorKind};

use crate::drive_changes::{change, refusal, to_the_end};
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
        let shape = shape_for(&view, &what)?;
        let outlook = ClassOutlook::of(&view, shape);
        check(&view, shape, &outlook)?;
        if !what.dry_run {
            let kinds = MediumKinds::ALL;
            change(&pool, Change::Class { shape, kinds }).await?;
        }
        Ok(answer(&view, shape, &outlook, what.dry_run))
    })
}

/// The shape that is asked for.
fn shape_for(view: &LayoutView, what: &ChangePool) -> Result<StripeShape> {
    match (&what.protect, what.cancel) {
        (Some(text), false) => {
            let protection = text.parse::<Protection>().map_err(|fault| {
                refusal(ErrorKind::Invalid, &fault, "give none, or one as mirror:2 or ec:4+2")
            })?;
            Ok(protection.shape())
        }
        (None, true) => {
            let most = unconverted(view).into_iter().next();
            most.map(|(shape, _)| shape).ok_or_else(|| {
                let what = "nothing is being converted that could be cancelled";
                refusal(ErrorKind::Conflict, what, "`varve pool show` says how data are kept")
            })
        }
        (Some(_), true) | (None, false) => {
            let what = "either `protect` or `cancel` is to be given";
            Err(refusal(ErrorKind::Invalid, what, "give --protect CLASS, or --cancel"))
        }
    }
}

/// Refuses a class that drives are too few for, or have no room for.
fn check(view: &LayoutView, shape: StripeShape, outlook: &ClassOutlook) -> Result<()> {
    let (drives, needed) = (outlook.drives, shape.strips());
    if drives < needed {
        let what = format!("{shape} needs {needed} drives, and {drives} are live");
        return Err(refusal(ErrorKind::Conflict, &what, "add drives first: `varve drive add`"));
    }
    if outlook.lacking_bytes > 0 {
        let held = u64::from(outlook.zones) * zone_bytes(view);
        let (held, usable) = (ByteCount(held), ByteCount(outlook.sizes.usable_bytes));
        let lacking = ByteCount(outlook.lacking_bytes);
        let what = format!(
            "{shape} on these drives holds {usable}, and zones that are in use take {held}: {lacking} lack"
        );
        let hint = "add drives first: `varve drive add`, or choose a class that takes less";
        return Err(refusal(ErrorKind::NoSpace, &what, hint));
    }
    if !outlook.has_room_to_begin {
        let what = format!(
            "no drive has room to begin: a zone keeps its places until it is {shape} elsewhere"
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
    shape: StripeShape,
    outlook: &ClassOutlook,
    dry_run: bool,
) -> PoolChange {
    PoolChange {
        protect: shape.to_string(),
        protect_before: shape_of(view.drives()).to_string(),
        survives: shape.parity(),
        usable_bytes: outlook.sizes.usable_bytes,
        usable_before_bytes: PoolSizes::of_view(view).usable_bytes,
        raw_bytes: outlook.sizes.raw_bytes,
        zones: outlook.zones.into(),
        unconverted: outlook.unconverted.into(),
        dry_run,
    }
}
