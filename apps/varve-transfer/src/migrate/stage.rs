//! Moves one volume or bucket: from whatever state both sides are in to the last.

use std::thread::sleep;
use std::time::{Duration, Instant};

use varve_access_admin::v1::{MoveState, VolumeMove};
use varve_client::{Failure, Progress, Result};
use varve_types::ErrorKind;

use super::give_back::{TargetState, call_off};
use super::kind::{DaemonView, Item, MigrationKind};
use super::mark;
use super::report::{MoveReport, ms};
use super::sending::SentItem;
use super::side::{MigrationRun, is_given_up};

/// How long clients that have the source's volume open are waited for.
const CLIENTS_WAIT: Duration = Duration::from_secs(5);

/// Between two attempts to delete it.
const CLIENTS_PAUSE: Duration = Duration::from_millis(100);

/// Where one is, over both sides.
enum Stage {
    /// It is to be sent, or the rest of it is.
    Send,
    /// The target has it, and the source has not given it up.
    Arrived,
    /// The source gave it up.
    Left,
    /// The source has it no more. The target says still that it arrived.
    Leftovers,
}

/// What both sides say of one.
struct BothSides {
    stage: Stage,
    there: Option<DaemonView>,
    here: Option<DaemonView>,
}

/// Those of the source that can be moved, and those that arrived from there and say so still.
pub(super) fn names(run: &MigrationRun, kind: &dyn MigrationKind) -> Result<Vec<String>> {
    let is_marked =
        |here: &DaemonView| here.moves.as_ref().is_some_and(|m| mark::is_from_source(run, m));
    let marked = kind.all(&run.target)?.into_iter().filter(is_marked).map(|here| here.name);
    Ok(movable(marked.collect(), &kind.all(&run.source)?))
}

/// The same. One that arrives at the source is not to stop the others: it can be moved once it is there. One that is
/// kept was moved.
fn movable(marked: Vec<String>, there: &[DaemonView]) -> Vec<String> {
    let is_kept = |seen: &&DaemonView| seen.moves.as_ref().is_some_and(mark::is_kept);
    let mut names = marked;
    names.extend(there.iter().filter(|seen| !is_kept(seen)).map(|seen| seen.name.clone()));
    names.retain(|name| {
        !there.iter().any(|seen| seen.name == *name && seen.state() == Some(MoveState::Arriving))
    });
    names.sort_unstable();
    names.dedup();
    names
}

/// What both sides say, or why it cannot be moved.
fn survey(item: Item<'_>) -> Result<BothSides> {
    let MigrationRun { source, target, .. } = item.run;
    let (there, here) = (item.there()?, item.here()?);
    for (seen, side, peer) in [(&there, source, target), (&here, target, source)] {
        let moves = seen.as_ref().and_then(|seen| seen.moves.as_ref());
        if let Some(moves) = moves.filter(|moves| !peer.is_peer_of(moves) && !is_given_up(moves)) {
            return Err(Failure::new(format!(
                "{item} in pool {} moves otherwise: {}",
                side.pool,
                moves.other_side()
            ))
            .hint("that move is to end first: run it again with its own two daemons, or --cancel it there"));
        }
    }
    let stage = stage(item, there.as_ref(), here.as_ref())?;
    Ok(BothSides { stage, there, here })
}

/// How far it is, from what both sides say (MIGRATE-1).
fn stage(item: Item<'_>, there: Option<&DaemonView>, here: Option<&DaemonView>) -> Result<Stage> {
    use MoveState::{Arrived, Arriving, Leaving, Left};
    let words = item.words();
    let refuse = |what: String, hint: &str| Err(Failure::new(what).hint(hint));
    let is_same = mark::of_same(item)?.is_some();
    let is_part = here.and_then(|here| here.moves.as_ref()).is_some_and(is_given_up);
    match (there, there.and_then(DaemonView::state), here.and_then(DaemonView::state)) {
        // MIGRATE-MARK-3. It is from the source, or would move otherwise.
        (None, _, Some(Arrived)) => Ok(Stage::Leftovers),
        (None, ..) => refuse(format!("the source has no {item}"), words.names),
        (_, Some(Left), _) if is_same => Ok(Stage::Left),
        (_, Some(Left), _) => Err(not_there(item)),
        (_, Some(Arriving | Arrived), _) => refuse(
            format!(
                "{item} came to the source, or is to, and the pool that it comes from has it still"
            ),
            "finish that move first, or --cancel it",
        ),
        (_, Some(Leaving), _) if is_same => Ok(Stage::Arrived),
        (_, _, Some(Left)) if !is_part => {
            refuse(format!("the target keeps what {item} was before it left"), words.delete_kept)
        }
        (_, _, Some(Leaving)) => refuse(
            format!("{item} is on its way from the target"),
            "finish that move first, or --cancel it",
        ),
        (_, None, Some(Arrived)) => refuse(
            format!(
                "the target's {item} arrived from the source, which has another one of that name in use by now"
            ),
            words.another_there,
        ),
        (_, _, None | Some(Arrived)) if here.is_some() => {
            refuse(format!("the target has another {item}"), words.another_here)
        }
        _ => Ok(Stage::Send),
    }
}

/// What the source has left of one that left may be all that there is of it.
fn not_there(item: Item<'_>) -> Failure {
    let MigrationRun { source, target, .. } = item.run;
    Failure::new(format!(
        "{item} has left pool {}, and pool {} has none that says that it arrived from there: what the source keeps stays",
        source.pool, target.pool
    ))
    .hint(item.words().only_there)
}

/// Moves one, or goes on with it.
pub(super) fn migrate(item: Item<'_>, keep_source: bool, watch: &Progress) -> Result<MoveReport> {
    let begin = Instant::now();
    let BothSides { stage, there, here } = survey(item)?;
    let mut moved = item.moved();
    moved.notes.extend(there.into_iter().flat_map(|there| there.notes));
    if let Stage::Send = stage {
        let sender = item.kind.sender(item, watch);
        SentItem { item, watch, sender, moved: &mut moved }.send_all(here.as_ref())?;
    }
    let is_over = match stage {
        Stage::Leftovers => true,
        _ => retire(item, keep_source, &mut moved)?,
    };
    if is_over {
        mark::remove(item)?;
    }
    moved.what = match stage {
        Stage::Send => "moved".to_owned(),
        Stage::Arrived | Stage::Left | Stage::Leftovers => {
            "had arrived already, what was left of the move is done".to_owned()
        }
    };
    moved.elapsed_ms = ms(begin.elapsed());
    Ok(moved)
}

/// Takes the source's, which arrived, out of use (MIGRATE-MARK-2), as one that is kept or not; how it says so. `None`
/// when there is none any more.
fn leave(item: Item<'_>, keep_source: bool) -> Result<Option<VolumeMove>> {
    let Some(mark) = mark::of_same(item)? else { return Err(not_there(item)) };
    let Some(there) = item.there()? else { return Ok(None) };
    match there.moves {
        Some(left) if left.state == MoveState::Left && (mark::is_kept(&left) || !keep_source) => {
            Ok(Some(left))
        }
        // It is not what the mark was looked at for any more.
        None => Err(not_there(item)),
        Some(moves)
            if !matches!(moves.state, MoveState::Leaving | MoveState::Left)
                || !item.run.target.is_peer_of(&moves) =>
        {
            Err(not_there(item))
        }
        Some(moves) => {
            let left = mark::left(item, &mark, keep_source);
            item.step_there(Some(&moves), Some(left.clone())).map_err(|failure| {
                failure.prefixed(&format!(
                    "{item} is in use at the target, and out of use at the source, where it is still; run the command again to finish. \
                     Before that: "
                ))
            })?;
            Ok(Some(left))
        }
    }
}

/// Takes the source's out of use and deletes it, or says that it stays; whether the move is over.
fn retire(item: Item<'_>, keep_source: bool, moved: &mut MoveReport) -> Result<bool> {
    let kept = item.kind.kept(item)?;
    let Some(left) = leave(item, keep_source)? else { return Ok(true) };
    if mark::is_kept(&left) {
        moved.notes.push(format!("the source keeps it out of use; {kept}"));
        return Ok(true);
    }
    let mut since = Instant::now();
    loop {
        if item.there()?.is_none() {
            return Ok(true);
        }
        if mark::of_same(item)?.is_none() {
            return Err(not_there(item)); // MIGRATE-MARK-2
        }
        match item.kind.delete(&item.run.source, item.name, &left) {
            Err(failure) if failure.is(ErrorKind::Conflict) => {
                if since.elapsed() > CLIENTS_WAIT {
                    moved.notes.push(format!(
                        "the source's stays, out of use, while {} ({}), and the target's cannot be deleted or moved on before it goes: run the \
                         command again then",
                        item.words().in_the_way,
                        failure.what()
                    ));
                    return Ok(false);
                }
                sleep(CLIENTS_PAUSE);
            }
            Ok(false) => since = Instant::now(),
            deleted => return deleted,
        }
    }
}

/// What a migration would do with one.
pub(super) fn planned(item: Item<'_>) -> Result<MoveReport> {
    let mut moved = item.moved();
    let found = match survey(item) {
        Ok(found) => found,
        Err(failure) => {
            moved.what = format!("cannot be moved: {}", failure.what());
            return Ok(moved);
        }
    };
    moved.what = match (&found.stage, &found.there) {
        (Stage::Send, Some(_)) => {
            let goes_on = if found.here.is_some() { "goes on: " } else { "" };
            format!("{goes_on}{}", item.kind.amount(item)?)
        }
        _ => "has arrived; what is left of the move is to be done".to_owned(),
    };
    moved.notes.extend(found.there.into_iter().flat_map(|there| there.notes));
    Ok(moved)
}

fn describe_move(refused: &str, moves: &VolumeMove) -> String {
    let other_side = moves.other_side();
    match moves.state {
        MoveState::Arriving => format!("arrives from {other_side}"),
        MoveState::Leaving => format!("refuses {refused}, on its way to {other_side}"),
        MoveState::Left if is_given_up(moves) => format!("came from {other_side}"),
        MoveState::Left => format!("left for {other_side}"),
        MoveState::Arrived => format!("is in use, and arrived from {other_side}"),
    }
}

/// Those of which something is under way, or left over, at either side.
pub(super) fn under_way(run: &MigrationRun, kind: &dyn MigrationKind) -> Result<Vec<MoveReport>> {
    let mut all: Vec<MoveReport> = Vec::new();
    for (side, what) in [(&run.source, "at the source"), (&run.target, "at the target")] {
        let is_kept = |seen: &DaemonView| seen.moves.as_ref().is_some_and(mark::is_kept);
        for DaemonView { name, moves, .. } in
            kind.all(side)?.into_iter().filter(|seen| !is_kept(seen))
        {
            let mut said: Vec<String> =
                moves.iter().map(|moves| describe_move(kind.words().refused, moves)).collect();
            said.extend(kind.traces(side, &name)?);
            if said.is_empty() {
                continue;
            }
            let said = format!("{what}: {}", said.join(", "));
            match all.iter_mut().find(|moved| moved.name == name) {
                Some(moved) => moved.notes.push(said),
                None => {
                    let notes = vec![said];
                    all.push(MoveReport {
                        name,
                        what: "under way".to_owned(),
                        notes,
                        ..MoveReport::default()
                    });
                }
            }
        }
    }
    Ok(all)
}

/// Whether the target has a part of one that the source does not have any more.
fn is_orphan(item: Item<'_>) -> Result<bool> {
    let moves = item.here()?.and_then(|here| here.moves);
    let is_part = moves.is_some_and(|moves| {
        let arrives = moves.state == MoveState::Arriving && item.run.source.is_peer_of(&moves);
        arrives || is_given_up(&moves)
    });
    Ok(is_part && item.there()?.is_none())
}

/// Gives a move up.
pub(super) fn cancel(item: Item<'_>) -> Result<MoveReport> {
    let run = item.run;
    let in_use = || {
        Failure::new(format!("{item} is in use at the target already")).hint(
            "run the command without --cancel to finish; to have it back, migrate it the other way",
        )
    };
    let fence = item.there()?.and_then(|there| there.moves);
    let is_fence =
        |moves: &VolumeMove| moves.state == MoveState::Leaving && run.target.is_peer_of(moves);
    // What the target has of a fenced one, or under its name, is looked at behind the fence.
    if !fence.as_ref().is_some_and(is_fence)
        && !is_orphan(item)?
        && !matches!(survey(item)?.stage, Stage::Send)
    {
        return Err(in_use());
    }
    if call_off(item, fence.as_ref(), &run.given_up())? == TargetState::Arrived {
        return Err(in_use());
    }
    if let Some(moves) = item.here()?.and_then(|here| here.moves)
        && is_given_up(&moves)
    {
        item.delete_here(&moves)?;
    }
    item.kind.remove_traces(&run.source, item.name, None)?;
    let what = match item.there()? {
        Some(_) => "given up; it is in use at the source".to_owned(),
        None => "given up; the source does not have it".to_owned(),
    };
    Ok(MoveReport { what, ..item.moved() })
}

#[cfg(test)]
mod tests {
    use varve_access_admin::v1::MoveRemark;
    use varve_types::{MigrationRunId, PoolId};

    use super::*;

    #[test]
    fn what_arrives_at_the_source_or_is_kept_does_not_stop_the_others() {
        let moves = |state, remark| {
            let (pool, run) = (PoolId([1; 16]), MigrationRunId([2; 16]));
            let address = "x".to_owned();
            Some(VolumeMove { state, pool, address, run, remark, snapshot: None, bucket: None })
        };
        let there = [
            ("b", None),
            ("a", moves(MoveState::Leaving, None)),
            ("c", moves(MoveState::Arriving, None)),
            ("e", moves(MoveState::Left, None)),
            ("f", moves(MoveState::Left, Some(MoveRemark::Kept))),
            ("g", moves(MoveState::Left, Some(MoveRemark::Kept))),
        ];
        let there = there.map(|(name, moves)| DaemonView {
            name: name.to_owned(),
            moves,
            notes: Vec::new(),
        });
        let marked = ["a", "c", "d", "g"].map(str::to_owned).to_vec();
        assert_eq!(movable(marked, &there), ["a", "b", "d", "e", "g"]);
    }
}
