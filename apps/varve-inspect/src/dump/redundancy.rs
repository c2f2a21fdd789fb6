//! What a redundant pool has beside that of others: drive tables, layout, strips.

use std::rc::Rc;

use varve_client::{Failure, Result};
use varve_daemon::event_loop;
use varve_media::SegmentId;
use varve_media_redundancy::format::{DriveTable, RowState, StripSet};
use varve_media_redundancy::{
    LabelReading, PutIdentity, RedundantLook, SegmentStrips, StoredRoot, SurveyedPool, ZoneSlot,
};
use varve_types::{Generation, SegmentNumber};

use crate::offline::{ProbedPool, RedundantPlace};

use super::output::Output;

/// Why a strip is no parity.
const WRONG_PARITY: &str = "it is not what follows from the data";

/// Both sides of the drive table on every drive, also on those that do not count.
pub fn drives(place: &RedundantPlace, mut out: Output) -> Result<Output> {
    let mut event_loop = event_loop::start()?;
    let (reactor, inspection) = (event_loop.handle(), Rc::clone(&place.inspection));
    let sides = event_loop.run(async move { inspection.drive_tables(&reactor).await });
    let sides = sides.map_err(|error| Failure::new(error.to_string()))?;
    for it in sides {
        let (drive, side) = (it.drive, &it.side);
        let what = format!(
            "side {} of the drive table of drive {drive} in {} at {}",
            side.side, side.path, side.offset
        );
        match &side.content {
            Err(fault) => out.unreadable(what, fault),
            Ok((0, _)) => out.line(format_args!("{what}: never written")),
            Ok((version, bytes)) => {
                out.line(format_args!("{what}, version {version}"));
                match DriveTable::decode(place.inspection.pool(), bytes) {
                    Ok(table) => out.line(table),
                    Err(fault) => out.unreadable(what, fault),
                }
            }
        }
    }
    match &place.surveyed {
        Ok(surveyed) => summary(surveyed, &mut out),
        Err(error) => out.unreadable("the tables that count", error),
    }
    Ok(out)
}

fn summary(surveyed: &SurveyedPool, out: &mut Output) {
    let table = surveyed.view.drives();
    out.line(format_args!("what counts: epoch {} of history {}", table.epoch, table.history));
    for drive in &surveyed.missing {
        out.line(format_args!("missing: drive {drive}"));
    }
    for path in &surveyed.stale {
        out.line(format_args!("not read: {path}"));
    }
}

/// Journal records and layout pages that count, and where a drive has no such copy.
pub async fn layout(looked: ProbedPool, mut out: Output) -> Result<Output> {
    let look = drives_of(&looked)?;
    let view = look.view();
    for journal in view.journals() {
        out.line(journal);
        show_copies(look, StoredRoot::Journal(journal.shard), &mut out).await;
    }
    for page in view.pages() {
        out.line(page);
        show_copies(look, StoredRoot::Page(page.page), &mut out).await;
    }
    Ok(out)
}

/// Copies of a table that cannot be read, or are older.
async fn show_copies(look: &RedundantLook, which: StoredRoot, out: &mut Output) {
    let sides = look.sides(which).await;
    let versions = sides.iter().filter_map(|it| it.side.content.as_ref().ok());
    let newest = versions.map(|(version, _)| *version).max().unwrap_or(0);
    for it in &sides {
        let side = &it.side;
        let what = format!("  side {} in {} at {}", side.side, side.path, side.offset);
        match &side.content {
            Err(fault) => out.unreadable(what, fault),
            Ok((version, _)) if *version < newest => {
                out.line(format_args!("{what}: version {version}, not {newest}"));
            }
            Ok(_) => {}
        }
    }
}

/// All strips of a slot: where they are, their labels, and whether they are right.
pub async fn strip(looked: ProbedPool, number: u32, mut out: Output) -> Result<Output> {
    let look = drives_of(&looked)?;
    let number = SegmentNumber(number);
    let Some(ZoneSlot { zone, slot }) = look.view().zone_of(number) else {
        return Err(Failure::misuse(format!("the pool has no segment {number}"))
            .hint("`varve dump layout` shows its zones"));
    };
    let row = look.view().row(zone);
    out.line(format_args!("slot {number} is slot {slot} of zone {zone}: {row}"));
    let sets = match &row.state {
        RowState::Empty => Vec::new(),
        RowState::Still(set) => vec![("strips", set)],
        RowState::Moving { from, to, .. } => vec![("moved from", from), ("moved to", to)],
    };
    for (name, set) in sets {
        out.line(format_args!("{name}: {set}"));
        show_set(look, set, number, &mut out).await;
    }
    let id = SegmentId { number, generation: Generation::ZERO };
    match look.contents(id).await {
        Ok(None) => out.line("no segment can be put together from them"),
        Err(error) => out.unreadable("the segment", error),
        Ok(Some(contents)) => {
            let put = contents.put.as_ref().map(describe).unwrap_or_default();
            out.line(format_args!("what counts: {} B{put}", contents.bytes.len()));
            let SegmentStrips { defects, parity_wrong } = look.judge(number, &contents);
            let faults = defects.iter().map(|it| (&it.location, it.fault.to_string()));
            let parity = parity_wrong.iter().map(|it| (it, WRONG_PARITY.to_owned()));
            for (location, why) in faults.chain(parity) {
                let (strip, drive) = (location.strip, location.place.drive);
                out.unreadable(format_args!("strip {strip} on drive {drive}"), why);
            }
        }
    }
    Ok(out)
}

fn describe(put: &PutIdentity) -> String {
    format!(" of {}, generation {}", put.shape, put.generation)
}

async fn show_set(look: &RedundantLook, set: &StripSet, number: SegmentNumber, out: &mut Output) {
    for LabelReading { location, label } in look.labels(set, number).await {
        let (strip, drive) = (location.strip, location.place.drive);
        let what = match look.place(drive, location.offset) {
            Some(place) => {
                format!("strip {strip} on drive {drive} in {} at {}", place.path, place.offset)
            }
            None => format!("strip {strip} on drive {drive}"),
        };
        match label {
            Ok(label) => {
                out.line(what);
                out.line(label);
            }
            // A slot that was never written is no damage.
            Err(fault) => out.line(format_args!("{what}: {fault}")),
        }
    }
}

fn drives_of(looked: &ProbedPool) -> Result<&RedundantLook> {
    match looked {
        ProbedPool::Redundant(probe) => Ok(probe.drives()),
        ProbedPool::Drives(_) | ProbedPool::Rados(_) => {
            Err(Failure::misuse("the pool has no redundancy over drives")
                .hint("`varve dump segment` shows what it has in a slot"))
        }
    }
}
