//! Moves one volume: from whatever state both sides are in to the last.

use std::time::{Duration, Instant};

use varve_access_admin::v1::{MoveState, Volume, VolumeMove};
use varve_types::{ByteCount, ErrorKind};

use super::give_back::{Disarmed, call_off};
use super::mark;
use super::report::{Moved, ms};
use super::sending::Sending;
use super::side::{Run, is_given_up, is_internal};
use crate::failure::{Failure, Result};
use crate::watch::Watch;

/// How long clients that have the source's volume open are waited for.
const CLIENTS_WAIT: Duration = Duration::from_secs(5);

/// Where a volume is, over both sides.
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

/// What both sides say of a volume.
struct Found {
    stage: Stage,
    source: Option<Volume>,
    target: Option<Volume>,
}

pub(super) fn state(volume: Option<&Volume>) -> Option<MoveState> {
    volume?.moves.as_ref().map(|moves| moves.state)
}

/// Volumes of the source that can be moved, and those that arrived from there and say so still.
pub(super) fn names(run: &Run) -> Result<Vec<String>> {
    let is_marked =
        |here: &Volume| here.moves.as_ref().is_some_and(|m| mark::is_from_source(run, m));
    let marked = run.target.volumes()?.into_iter().filter(is_marked).map(|here| here.name);
    let volumes = run.source.volumes()?.into_iter().map(|there| (there.name, there.moves));
    Ok(movable(marked.collect(), &volumes.collect::<Vec<_>>()))
}

/// The same. One that arrives at the source is not to stop the others: it can be moved once it is there. One that is kept was moved.
fn movable(marked: Vec<String>, volumes: &[(String, Option<VolumeMove>)]) -> Vec<String> {
    let is_kept = |moves: &Option<VolumeMove>| moves.as_ref().is_some_and(mark::is_kept);
    let mut names = marked;
    names.extend(volumes.iter().filter(|(_, moves)| !is_kept(moves)).map(|(name, _)| name.clone()));
    names.retain(|name| {
        let arrives = |moves: &VolumeMove| moves.state == MoveState::Arriving;
        !volumes.iter().any(|(n, moves)| n == name && moves.as_ref().is_some_and(arrives))
    });
    names.sort_unstable();
    names.dedup();
    names
}

/// What both sides say, or why the volume cannot be moved.
fn survey(run: &Run, name: &str) -> Result<Found> {
    let Run { source, target, .. } = run;
    let (there, here) = (source.volume(name)?, target.volume(name)?);
    let refuse = |what: String, hint: &str| Err(Failure::new(what).hint(hint));
    for (volume, side, peer) in [(&there, source, target), (&here, target, source)] {
        let moves = volume.as_ref().and_then(|volume| volume.moves.as_ref());
        if let Some(moves) = moves.filter(|moves| !peer.is_peer_of(moves) && !is_given_up(moves)) {
            return refuse(
                format!("volume {name} in pool {} moves otherwise: {}", side.pool, moves.peer),
                "that move is to end first: run it again with its own two daemons, or --cancel it there",
            );
        }
    }
    let stage = stage(run, name, &there, &here)?;
    Ok(Found { stage, source: there, target: here })
}

/// How far the volume is, from what both sides say.
fn stage(run: &Run, name: &str, there: &Option<Volume>, here: &Option<Volume>) -> Result<Stage> {
    use MoveState::{Arrived, Arriving, Leaving, Left};
    let refuse = |what: String, hint: &str| Err(Failure::new(what).hint(hint));
    let (is_same, moves) =
        (mark::of_same(run, name)?.is_some(), here.as_ref().map(|here| &here.moves));
    match (there, state(there.as_ref()), state(here.as_ref())) {
        (None, _, Some(Arrived)) => Ok(Stage::Leftovers), // K3. It is from the source, or would move otherwise.
        (None, ..) => refuse(
            format!("the source has no volume {name}"),
            "`varve volume list` shows the names in use",
        ),
        (_, Some(Left), _) if is_same => Ok(Stage::Left),
        (_, Some(Left), _) => Err(not_there(run, name)),
        (_, Some(Arriving | Arrived), _) => refuse(
            format!(
                "volume {name} came to the source, or is to, and the pool that it comes from has it still"
            ),
            "finish that move first, or --cancel it",
        ),
        (_, Some(Leaving), _) if is_same => Ok(Stage::Arrived),
        (_, _, Some(Left))
            if !moves.is_some_and(|moves| moves.as_ref().is_some_and(is_given_up)) =>
        {
            refuse(
                format!("the target keeps what volume {name} was before it left"),
                "delete that first: `varve volume delete --snapshots`",
            )
        }
        (_, _, Some(Leaving)) => refuse(
            format!("volume {name} is on its way from the target"),
            "finish that move first, or --cancel it",
        ),
        (_, None, Some(Arrived)) => refuse(
            format!(
                "the target's volume {name} arrived from the source, which has another one of that name in use by now"
            ),
            "clone the source's under another name and delete it; run the command again then, and the target's is what it is",
        ),
        (_, _, None | Some(Arrived)) if here.is_some() => refuse(
            format!("the target has another volume {name}"),
            "delete or clone one of the two: a volume keeps its name. If the source's refuses writes, --cancel gives it back",
        ),
        _ => Ok(Stage::Send),
    }
}

/// What the source has left of a volume that left may be all that there is of it.
fn not_there(run: &Run, name: &str) -> Failure {
    let Run { source, target, .. } = run;
    Failure::new(format!(
        "volume {name} has left pool {}, and pool {} has none that says that it arrived from there: what the source keeps stays",
        source.pool, target.pool
    ))
    .hint("a clone of its last snapshot has what it was; `varve volume delete --snapshots` at the source deletes it")
}

/// Moves a volume, or goes on with it.
pub(super) fn migrate(run: &Run, name: &str, keep_source: bool, watch: &Watch) -> Result<Moved> {
    let begin = Instant::now();
    let Found { stage, source, target } = survey(run, name)?;
    let mut moved = Moved { name: name.to_owned(), ..Moved::default() };
    let origin = source.as_ref().and_then(|source| source.origin.as_ref());
    moved.notes.extend(origin.map(|origin| {
        format!("it is a clone of {origin}: at the target it shares nothing with that")
    }));
    if let Stage::Send = stage {
        Sending { run, name, watch, moved: &mut moved }.send_all(target.as_ref())?;
    }
    let is_over = match stage {
        Stage::Leftovers => true,
        _ => retire(run, name, keep_source, &mut moved)?,
    };
    if is_over {
        mark::remove(run, name)?;
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

/// Takes the source's volume, which arrived, out of use (K2), as one that is kept or not; how it says so. `None` when there is none any more.
fn leave(run: &Run, name: &str, keep_source: bool) -> Result<Option<VolumeMove>> {
    let Some(mark) = mark::of_same(run, name)? else { return Err(not_there(run, name)) };
    let Some(there) = run.source.volume(name)? else { return Ok(None) };
    match there.moves {
        Some(left) if left.state == MoveState::Left && (mark::is_kept(&left) || !keep_source) => {
            Ok(Some(left))
        }
        // It is not what the mark was looked at for any more.
        None => Err(not_there(run, name)),
        Some(moves)
            if !matches!(moves.state, MoveState::Leaving | MoveState::Left)
                || !run.target.is_peer_of(&moves) =>
        {
            Err(not_there(run, name))
        }
        Some(moves) => {
            let left = mark::left(run, &mark, keep_source);
            run.source.step(name, Some(&moves), Some(left.clone())).map_err(|failure| {
                failure.prefixed(&format!(
                    "volume {name} is in use at the target, and out of use at the source, where it is still; run the command again to finish. \
                     Before that: "
                ))
            })?;
            Ok(Some(left))
        }
    }
}

/// Takes the source's volume out of use and deletes it, or says that it stays; whether the move is over.
fn retire(run: &Run, name: &str, keep_source: bool, moved: &mut Moved) -> Result<bool> {
    let last = run.source.snapshots(name)?.into_iter().rfind(is_internal);
    let Some(left) = leave(run, name, keep_source)? else { return Ok(true) };
    if mark::is_kept(&left) {
        let last = last.map_or_else(|| format!("{name}@…"), |last| last.name);
        moved.notes.push(format!(
            "the source keeps it out of use; {last} is what it was: clone that, or delete the volume with --snapshots"
        ));
        return Ok(true);
    }
    let began = Instant::now();
    loop {
        if run.source.volume(name)?.is_none() {
            return Ok(true);
        }
        if mark::of_same(run, name)?.is_none() {
            return Err(not_there(run, name)); // K2
        }
        match run.source.delete_volume(name, &left) {
            Err(failure) if failure.is(ErrorKind::Conflict) => {
                if began.elapsed() > CLIENTS_WAIT {
                    moved.notes.push(format!(
                        "the source's stays, out of use, while clients are connected ({}), and the target's cannot be deleted or moved on \
                         before it goes: run the command again when they left",
                        failure.what()
                    ));
                    return Ok(false);
                }
            }
            deleted => return deleted.map(|()| true),
        }
    }
}

/// What a migration would do with a volume.
pub(super) fn planned(run: &Run, name: &str) -> Result<Moved> {
    let mut moved = Moved { name: name.to_owned(), ..Moved::default() };
    let found = match survey(run, name) {
        Ok(found) => found,
        Err(failure) => {
            moved.what = format!("cannot be moved: {}", failure.what());
            return Ok(moved);
        }
    };
    moved.what = match (&found.stage, &found.source) {
        (Stage::Send, Some(source)) => {
            let snapshots = run.source.snapshots(name)?.iter().filter(|s| !is_internal(s)).count();
            let goes_on = if found.target.is_some() { "goes on: " } else { "" };
            format!("{goes_on}{}, with {snapshots} snapshots", ByteCount(source.size_bytes))
        }
        _ => "has arrived; what is left of the move is to be done".to_owned(),
    };
    let origin = found.source.and_then(|source| source.origin);
    moved.notes.extend(origin.map(|origin| {
        format!("it is a clone of {origin}: at the target it shares nothing with that")
    }));
    Ok(moved)
}

fn told(moves: &VolumeMove) -> String {
    let word = match moves.state {
        MoveState::Arriving => "arrives from",
        MoveState::Leaving => "refuses writes, on its way to",
        MoveState::Left => "left for",
        MoveState::Arrived => "is in use, and arrived from",
    };
    format!("{word} {}", moves.peer)
}

/// Volumes of which something is under way, or left over, at either side.
pub(super) fn under_way(run: &Run) -> Result<Vec<Moved>> {
    let mut all: Vec<Moved> = Vec::new();
    for (side, what) in [(&run.source, "at the source"), (&run.target, "at the target")] {
        let is_kept = |volume: &Volume| volume.moves.as_ref().is_some_and(mark::is_kept);
        for volume in side.volumes()?.into_iter().filter(|volume| !is_kept(volume)) {
            let internal = side.snapshots(&volume.name)?.iter().filter(|s| is_internal(s)).count();
            let mut said: Vec<String> = volume.moves.iter().map(told).collect();
            if internal > 0 {
                said.push(format!("has {internal} snapshots of a migration"));
            }
            if said.is_empty() {
                continue;
            }
            let said = format!("{what}: {}", said.join(", "));
            match all.iter_mut().find(|moved| moved.name == volume.name) {
                Some(moved) => moved.notes.push(said),
                None => all.push(Moved {
                    name: volume.name,
                    what: "under way".to_owned(),
                    notes: vec![said],
                    ..Moved::default()
                }),
            }
        }
    }
    Ok(all)
}

/// Whether the target has a part of a volume that the source does not have any more.
fn is_orphan(run: &Run, name: &str) -> Result<bool> {
    let moves = run.target.volume(name)?.and_then(|here| here.moves);
    let is_part = moves.is_some_and(|moves| {
        let arrives = moves.state == MoveState::Arriving && run.source.is_peer_of(&moves);
        arrives || is_given_up(&moves)
    });
    Ok(is_part && run.source.volume(name)?.is_none())
}

/// Gives a move up.
pub(super) fn cancel(run: &Run, name: &str) -> Result<Moved> {
    let in_use = || {
        Failure::new(format!("volume {name} is in use at the target already")).hint(
            "run the command without --cancel to finish; to have it back, migrate it the other way",
        )
    };
    let fence = run.source.volume(name)?.and_then(|source| source.moves);
    let is_fence =
        |moves: &VolumeMove| moves.state == MoveState::Leaving && run.target.is_peer_of(moves);
    // What the target has of a fenced one, or under its name, is looked at behind the fence.
    if !fence.as_ref().is_some_and(is_fence)
        && !is_orphan(run, name)?
        && !matches!(survey(run, name)?.stage, Stage::Send)
    {
        return Err(in_use());
    }
    if call_off(run, name, fence.as_ref())? == Disarmed::Arrived {
        return Err(in_use());
    }
    if let Some(moves) = run.target.volume(name)?.and_then(|here| here.moves)
        && is_given_up(&moves)
    {
        run.target.delete_volume(name, &moves)?;
    }
    for snapshot in run.source.snapshots(name)?.iter().filter(|snapshot| is_internal(snapshot)) {
        run.source.delete_snapshot(snapshot, None)?;
    }
    let what = match run.source.volume(name)? {
        Some(_) => "given up; it is in use at the source".to_owned(),
        None => "given up; the source does not have it".to_owned(),
    };
    Ok(Moved { name: name.to_owned(), what, ..Moved::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_at_the_source_or_is_kept_does_not_stop_the_others() {
        let moves = |state, peer: &str| Some(VolumeMove { state, peer: peer.to_owned() });
        let volumes = [
            ("b", None),
            ("a", moves(MoveState::Leaving, "x")),
            ("c", moves(MoveState::Arriving, "x")),
            ("e", moves(MoveState::Left, "x")),
            ("f", moves(MoveState::Left, "x, kept")),
            ("g", moves(MoveState::Left, "x, kept")),
        ];
        let volumes = volumes.map(|(name, moves)| (name.to_owned(), moves));
        let marked = ["a", "c", "d", "g"].map(str::to_owned).to_vec();
        assert_eq!(movable(marked, &volumes), ["a", "b", "d", "e", "g"]);
    }
}
