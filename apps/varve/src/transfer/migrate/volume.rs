//! Moves one volume: from whatever state both sides are in to the last.

use std::time::{Duration, Instant};

use hyper::Method;
use varve_access_admin::v1::{ChangeVolume, MoveState, Reservation, Snapshot, Volume, VolumeMove};
use varve_types::{ByteCount, ErrorKind};

use super::copy::Sent;
use super::give_back::{Disarmed, after_lost_fence, call_off, give_back};
use super::report::{Moved, ms};
use super::side::{Run, Side, is_given_up, is_internal};
use crate::client::volume_path;
use crate::extents::Extents;
use crate::failure::{Failure, Result};
use crate::watch::Watch;

/// A difference of at most so many bytes is sent while writers are refused.
const SMALL_BYTES: u64 = 8 << 20;

/// So is one when the last took at most so long.
const SHORT: Duration = Duration::from_secs(1);

/// Most differences that are sent before writers are refused.
const ROUNDS_MAX: u32 = 16;

/// Differences in a row that take about as long as the one before, until writers are refused: more of them would not become shorter.
const EQUAL_ROUNDS_MAX: u32 = 2;

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
    /// Nothing but snapshots of the migration are left, at the target.
    Leftovers,
}

/// What both sides say of a volume.
struct Found {
    stage: Stage,
    source: Option<Volume>,
    target: Option<Volume>,
}

fn state(volume: Option<&Volume>) -> Option<MoveState> {
    volume?.moves.as_ref().map(|moves| moves.state)
}

/// Volumes of the source that can be moved, and those of which something is under way.
pub(super) fn names(run: &Run) -> Result<Vec<String>> {
    let under_way = under_way(run)?.into_iter().map(|moved| moved.name).collect();
    let volumes = run.source.volumes()?;
    let of = |volume: &Volume| (volume.name.clone(), state(Some(volume)));
    Ok(movable(under_way, &volumes.iter().map(of).collect::<Vec<_>>()))
}

/// The same; one that arrives at the source is not to stop the others: it can be moved once it is there.
fn movable(under_way: Vec<String>, volumes: &[(String, Option<MoveState>)]) -> Vec<String> {
    let mut names = under_way;
    names.extend(volumes.iter().map(|(name, _)| name.clone()));
    names.retain(|name| {
        let arrives = |(other, state): &(String, Option<MoveState>)| {
            other == name && *state == Some(MoveState::Arriving)
        };
        !volumes.iter().any(arrives)
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
    let stage = match (&there, &here) {
        (None, Some(here)) if here.moves.is_none() && has_leftovers(target, name)? => {
            Stage::Leftovers
        }
        (None, _) => {
            return refuse(
                format!("the source has no volume {name}"),
                "`varve volume list` shows the names in use",
            );
        }
        (Some(there), here) => match (state(Some(there)), state(here.as_ref()), here) {
            (Some(MoveState::Left), None, Some(_)) => Stage::Left,
            (Some(MoveState::Left), ..) => return Err(not_in_use(run, name)),
            (Some(MoveState::Arriving), ..) => {
                return refuse(
                    format!("volume {name} is not whole: it arrives from elsewhere"),
                    "finish that move first, or --cancel it",
                );
            }
            (Some(MoveState::Leaving), None, Some(_)) if is_same(run, name)? => Stage::Arrived,
            (_, Some(MoveState::Left), Some(Volume { moves: Some(moves), .. }))
                if !is_given_up(moves) =>
            {
                return refuse(
                    format!("the target keeps what volume {name} was before it left"),
                    "delete that first: `varve volume delete --snapshots`",
                );
            }
            (_, Some(MoveState::Leaving), _) => {
                return refuse(
                    format!("volume {name} is on its way from the target"),
                    "finish that move first, or --cancel it",
                );
            }
            (_, None, Some(_)) => {
                return refuse(
                    format!("the target has another volume {name}"),
                    "delete or clone one of the two: a volume keeps its name",
                );
            }
            _ => Stage::Send,
        },
    };
    Ok(Found { stage, source: there, target: here })
}

fn has_leftovers(side: &Side, name: &str) -> Result<bool> {
    Ok(side.snapshots(name)?.iter().any(is_internal))
}

/// What the source has left of a volume that left may be all that there is of it.
fn not_in_use(run: &Run, name: &str) -> Failure {
    let Run { source, target, .. } = run;
    Failure::new(format!(
        "volume {name} has left pool {}, and pool {} has none of that name in use: what the source keeps stays",
        source.pool, target.pool
    ))
    .hint("a clone of its last snapshot has what it was; `varve volume delete --snapshots` at the source deletes it")
}

/// Whether the target's volume has the last snapshot that the migration took of the source's.
pub(super) fn is_same(run: &Run, name: &str) -> Result<bool> {
    let last = run.source.snapshots(name)?.into_iter().rfind(is_internal);
    let all = run.target.snapshots(name)?;
    Ok(last.is_some_and(|last| all.iter().any(|here| here.identity == last.identity)))
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
    let fence = match stage {
        Stage::Send => Some(run.leaving()),
        _ => source.and_then(|source| source.moves),
    };
    if let Stage::Send | Stage::Arrived = stage {
        run.source.step(name, fence.as_ref(), Some(run.left())).map_err(|failure| {
            failure.prefixed(&format!(
                "volume {name} is in use at the target, and out of use at the source, where it is still; run the command again to finish. \
                 Before that: "
            ))
        })?;
    }
    if let Stage::Send | Stage::Arrived | Stage::Left = stage {
        retire(run, name, keep_source, &mut moved)?;
    }
    for snapshot in run.target.snapshots(name)?.iter().filter(|snapshot| is_internal(snapshot)) {
        run.target.delete_snapshot(snapshot, None)?;
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

/// Deletes the source's volume, or says that it stays.
fn retire(run: &Run, name: &str, keep_source: bool, moved: &mut Moved) -> Result<()> {
    let last = run.source.snapshots(name)?.into_iter().rfind(is_internal);
    if keep_source {
        let last = last.map_or_else(|| format!("{name}@…"), |last| last.name);
        moved.notes.push(format!(
            "the source keeps it out of use; {last} is what it was: clone that, or delete the volume with --snapshots"
        ));
        return Ok(());
    }
    let began = Instant::now();
    loop {
        // Both are read anew: what left is deleted where it left, and only if it is in use elsewhere.
        let left = match run.source.volume(name)?.map(|volume| volume.moves) {
            None => return Ok(()),
            Some(Some(moves)) if moves.state == MoveState::Left => moves,
            Some(_) => return Err(Failure::new(format!("volume {name} has not left the source"))),
        };
        if run.target.volume(name)?.is_none_or(|here| here.moves.is_some()) {
            return Err(not_in_use(run, name));
        }
        match run.source.delete_volume(name, &left) {
            Err(failure) if failure.is(ErrorKind::Conflict) => {
                if began.elapsed() > CLIENTS_WAIT {
                    moved.notes.push(format!(
                        "the source's stays, out of use, while clients are connected ({}): delete it when they left, or run the command again",
                        failure.what()
                    ));
                    return Ok(());
                }
            }
            deleted => return deleted,
        }
    }
}

/// What comes after a round.
#[derive(PartialEq, Eq, Debug)]
enum Next {
    Round,
    /// The last difference will be short.
    Last,
    /// It will not, and no further round would change that.
    LastThoughLong,
}

/// How rounds become shorter.
#[derive(Default)]
struct Pace {
    before: Option<Duration>,
    /// Rounds in a row that did not.
    equal_rounds: u32,
}

impl Pace {
    fn after(&mut self, sent_bytes: u64, elapsed: Duration) -> Next {
        let before = self.before.replace(elapsed);
        if sent_bytes <= SMALL_BYTES || (before.is_some() && elapsed <= SHORT) {
            return Next::Last;
        }
        let is_equal = before.is_some_and(|before| elapsed > before / 4 * 3);
        self.equal_rounds = if is_equal { self.equal_rounds + 1 } else { 0 };
        if self.equal_rounds < EQUAL_ROUNDS_MAX { Next::Round } else { Next::LastThoughLong }
    }
}

/// A volume that is being sent.
struct Sending<'a> {
    run: &'a Run,
    name: &'a str,
    watch: &'a Watch,
    moved: &'a mut Moved,
}

impl Sending<'_> {
    fn send_all(&mut self, target: Option<&Volume>) -> Result<()> {
        let Self { run, name, .. } = *self;
        self.adopt_target(target)?;
        // A fence that an earlier run left is taken over: there is little to send behind it.
        let fence = run.source.volume(name)?.and_then(|volume| volume.moves);
        match &fence {
            None => self.rounds()?,
            Some(fence) => run.target.check_peer(name, fence)?, // This very one is compared at the daemon.
        }
        let began = Instant::now();
        self.watch.say(format!("{name}: the last difference"));
        match run.source.step(name, fence.as_ref(), Some(run.leaving())) {
            Ok(()) => {}
            Err(failure) if failure.is_refusal() => return Err(failure),
            Err(failure) => return after_lost_fence(run, name, failure),
        }
        if let Err(failure) = self.behind_the_fence() {
            give_back(run, name, failure)?;
        }
        self.moved.refused_ms = Some(ms(began.elapsed()));
        Ok(())
    }

    /// Makes the target's part this run's, or removes one that was given up.
    fn adopt_target(&self, target: Option<&Volume>) -> Result<()> {
        let Some(moves) = target.and_then(|target| target.moves.as_ref()) else { return Ok(()) };
        if !is_given_up(moves) {
            self.run.source.check_peer(self.name, moves)?;
        }
        let arriving = self.run.arriving();
        match moves.state {
            MoveState::Left => self.run.target.delete_volume(self.name, moves),
            MoveState::Arriving if *moves == arriving => Ok(()),
            MoveState::Arriving | MoveState::Leaving => {
                self.run.target.step(self.name, Some(moves), Some(arriving))
            }
        }
    }

    /// What there is to do while writers are refused.
    fn behind_the_fence(&mut self) -> Result<()> {
        let Self { run, name, .. } = *self;
        if self.adopt_again()? == Disarmed::Arrived {
            return Ok(());
        }
        let last = self.last_round()?;
        let fence = run.source.volume(name)?.and_then(|volume| volume.moves);
        if fence != Some(run.leaving()) {
            return Err(Failure::new(format!("another command took volume {name} over")));
        }
        run.target.arrive(name, run.arriving(), &last) // G2: nothing is done between these two.
    }

    /// Looks at the target again, for what was seen before the fence may have changed: the one who had the fence before may have ended the
    /// move, or another command may have its part.
    fn adopt_again(&self) -> Result<Disarmed> {
        let Self { run, name, .. } = *self;
        let here = run.target.volume(name)?;
        match here.as_ref().map(|here| here.moves.as_ref()) {
            Some(None) if is_same(run, name)? => return Ok(Disarmed::Arrived),
            Some(None) => {
                return Err(Failure::new(format!("the target has another volume {name}")));
            }
            Some(Some(moves)) if moves.state == MoveState::Arriving => {
                self.adopt_target(here.as_ref())?;
            }
            _ => {}
        }
        let (all, here) = (run.source.snapshots(name)?, run.target.snapshots(name)?);
        if common(&all, &here).is_none() {
            return Err(Failure::new(format!(
                "the target has no snapshot of volume {name} any more: all of it is to be sent, and not while writes are refused"
            ))
            .hint("run the command again"));
        }
        Ok(Disarmed::Safe)
    }

    /// Differences, each of what was written while the one before was sent, until there is little.
    fn rounds(&mut self) -> Result<()> {
        let mut pace = Pace::default();
        for round in 1..=ROUNDS_MAX {
            self.watch.say(format!("{}: round {round}", self.name));
            let began = Instant::now();
            let sent_bytes = self.round()?;
            self.tidy()?;
            match pace.after(sent_bytes, began.elapsed()) {
                Next::Round => {}
                Next::Last => return Ok(()),
                Next::LastThoughLong => break,
            }
        }
        self.moved.notes.push(
            "it was written about as fast as it was sent, so writes were refused for a longer difference"
                .to_owned(),
        );
        Ok(())
    }

    /// Takes a snapshot and sends whatever the target lacks; how many bytes the last difference had.
    fn round(&mut self) -> Result<u64> {
        self.run.source.take_snapshot(self.name, None)?;
        self.send_missing()
    }

    /// Undoes what the target holds of a snapshot that is being received, if it has others: it may be a part of a difference, and to which it
    /// belongs is not known any more once that is deleted.
    fn undo_part(&self) -> Result<()> {
        let Run { target, .. } = self.run;
        let Some(here) = target.volume(self.name)? else { return Ok(()) };
        let all = target.snapshots(self.name)?;
        match undone_to(here.receiving.as_deref(), &all) {
            Some(newest) => target.roll_back(self.name, newest, self.run.arriving()),
            None => Ok(()),
        }
    }

    /// Deletes what the target received and the source does not have any more: its name may be another's by now.
    fn forget_deleted(&self) -> Result<()> {
        let all = self.run.source.snapshots(self.name)?;
        let is_there = |here: &Snapshot| all.iter().any(|there| there.identity == here.identity);
        let arriving = self.run.arriving();
        let here = self.run.target.snapshots(self.name)?;
        for snapshot in here.iter().filter(|here| !is_there(here)) {
            self.run.target.delete_snapshot(snapshot, Some(&arriving))?;
        }
        Ok(())
    }

    /// Sends whatever snapshots the target lacks; how many bytes the last one took.
    fn send_missing(&mut self) -> Result<u64> {
        self.undo_part()?; // C1: before that from which it counts is forgotten.
        self.forget_deleted()?;
        let mut sent_bytes = 0;
        loop {
            let all = self.run.source.snapshots(self.name)?;
            let here = self.run.target.snapshots(self.name)?;
            let base = common(&all, &here).map(|(base, _)| base);
            let Some(snapshot) = next_missing(&all, &here) else { return Ok(sent_bytes) };
            self.watch.expect_bytes(self.data_bytes(snapshot, base)?);
            let sent = Sent { run: self.run, volume: self.name, snapshot, base };
            sent_bytes = sent.send(self.watch)?;
            self.moved.sent_bytes += sent_bytes;
            self.moved.rounds += 1;
        }
    }

    fn data_bytes(&self, snapshot: &Snapshot, base: Option<&Snapshot>) -> Result<u64> {
        let client = &self.run.source.client;
        let extents = Extents::of(client, snapshot, base);
        extents.map(|extent| Ok(extent?.len)).sum()
    }

    /// Deletes snapshots of the migration that are older than the one from which the next difference counts. Younger ones may be what another
    /// command counts from.
    fn tidy(&self) -> Result<()> {
        let Run { source, target, .. } = self.run;
        let (all, here) = (source.snapshots(self.name)?, target.snapshots(self.name)?);
        let Some((base, base_here)) = common(&all, &here) else { return Ok(()) };
        for snapshot in old(&all, base) {
            source.delete_snapshot(snapshot, None)?;
        }
        let arriving = self.run.arriving();
        for snapshot in old(&here, base_here) {
            target.delete_snapshot(snapshot, Some(&arriving))?;
        }
        Ok(())
    }

    /// The difference that nothing is written behind, and everything that is not data; the snapshot that was sent last.
    fn last_round(&mut self) -> Result<Snapshot> {
        let (leaving, arriving) = (self.run.leaving(), self.run.arriving());
        let last = self.run.source.take_snapshot(self.name, Some(leaving))?;
        self.send_missing()?;
        let all = self.run.source.snapshots(self.name)?;
        for here in self.run.target.snapshots(self.name)? {
            let there = all.iter().find(|there| there.identity == here.identity);
            let protected = there.is_some_and(|there| there.protected);
            if here.protected != protected {
                self.run.target.protect(&here, protected, Some(&arriving))?;
            }
        }
        self.settings()?;
        self.check_all_sent()?;
        Ok(last)
    }

    /// Refuses to let the target's be used while it lacks a snapshot that would be deleted with the source's volume: behind the fence there
    /// are no more of them.
    fn check_all_sent(&self) -> Result<()> {
        let here = self.run.target.snapshots(self.name)?;
        match next_missing(&self.run.source.snapshots(self.name)?, &here) {
            None => Ok(()),
            Some(lacking) => Err(Failure::new(format!("the target lacks {}", lacking.name))
                .hint("run the command again")),
        }
    }

    fn settings(&self) -> Result<()> {
        let source = self.run.source.volume(self.name)?;
        let Some(source) = source else {
            return Err(Failure::new(format!("volume {} went away", self.name)));
        };
        let change = ChangeVolume {
            dedup: Some(source.dedup),
            compression: Some(source.compression),
            quota_bytes: Some(source.quota_bytes.unwrap_or(0)),
            reservation: Some(match source.reserved_bytes {
                Some(_) => Reservation::Full,
                None => Reservation::None,
            }),
            expects: Some(self.run.arriving()),
            ..ChangeVolume::default()
        };
        let path = volume_path(self.name);
        self.run.target.client.send::<Volume>(Method::PATCH, &path, &change).map(drop)
    }
}

/// What a target's part goes back to before anything else is received: a part of a whole snapshot, with which there is none yet, stays.
fn undone_to<'a>(receiving: Option<&str>, all: &'a [Snapshot]) -> Option<&'a Snapshot> {
    receiving.and(all.last())
}

fn has(side: &[Snapshot], snapshot: &Snapshot) -> bool {
    side.iter().any(|other| other.identity == snapshot.identity)
}

/// The snapshot that the target received last of those that the source has, as each has it: what its part is now.
fn common<'a>(all: &'a [Snapshot], here: &'a [Snapshot]) -> Option<(&'a Snapshot, &'a Snapshot)> {
    here.iter().rev().find_map(|here| {
        all.iter().find(|there| there.identity == here.identity).map(|there| (there, here))
    })
}

/// The oldest snapshot that the target lacks. It may be older than others that it has: a snapshot gets its number before it is there. The one
/// behind the fence is the youngest, so it is sent last.
fn next_missing<'a>(all: &'a [Snapshot], here: &[Snapshot]) -> Option<&'a Snapshot> {
    all.iter().find(|there| !has(here, there))
}

/// Snapshots of a migration that are older than `base`, of the same side.
fn old<'a>(all: &'a [Snapshot], base: &Snapshot) -> impl Iterator<Item = &'a Snapshot> {
    let base = base.id;
    all.iter().filter(move |snapshot| snapshot.id < base && is_internal(snapshot))
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
    };
    format!("{word} {}", moves.peer)
}

/// Volumes of which something is under way, or left over, at either side.
pub(super) fn under_way(run: &Run) -> Result<Vec<Moved>> {
    let mut all: Vec<Moved> = Vec::new();
    for (side, what) in [(&run.source, "at the source"), (&run.target, "at the target")] {
        for volume in side.volumes()? {
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
    let source = match is_orphan(run, name)? {
        true => None,
        false => {
            let Found { stage, source, .. } = survey(run, name)?;
            if !matches!(stage, Stage::Send) {
                return Err(in_use());
            }
            source
        }
    };
    let fence = source.and_then(|source| source.moves);
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

    fn after(rounds: &[(u64, u64)]) -> Vec<Next> {
        let mut pace = Pace::default();
        rounds.iter().map(|(mib, s)| pace.after(mib << 20, Duration::from_secs(*s))).collect()
    }

    fn snapshot(id: u64, name: &str, identity: u8) -> Snapshot {
        Snapshot {
            name: format!("v@{name}"),
            volume: "v".to_owned(),
            id,
            identity: format!("{identity:032x}"),
            size_bytes: 4096,
            block_size_bytes: 4096,
            created_unix_ms: 0,
            protected: false,
        }
    }

    /// Another command took the youngest, which the target does not have yet, and will count from it.
    #[test]
    fn only_what_is_older_than_the_base_is_tidied() {
        let internal = |number: u64| format!("migrate-{number:013}");
        let all = [
            snapshot(1, "mine", 1),
            snapshot(2, &internal(2), 2),
            snapshot(5, &internal(1), 3),
            snapshot(9, &internal(3), 4),
        ];
        let here = [snapshot(40, &internal(2), 2), snapshot(41, &internal(1), 3)];
        let (base, base_here) = common(&all, &here).unwrap();
        assert_eq!((base.id, base_here.id), (5, 41));
        let ids = |side, base| old(side, base).map(|old| old.id).collect::<Vec<_>>();
        assert_eq!((ids(&all, base), ids(&here, base_here)), (vec![2], vec![40]));
        assert_eq!(common(&all, &[snapshot(7, "mine", 7)]), None, "a name is no identity");
    }

    /// It had its number before the migration took its own, and was there after that was sent.
    #[test]
    fn a_snapshot_that_appears_late_goes_over_too_and_the_last_one_last() {
        let internal = |number: u64| format!("migrate-{number:013}");
        let (sent, last) = (snapshot(5, &internal(1), 1), snapshot(9, &internal(2), 2));
        let late = snapshot(4, "late", 3);
        let mut here = vec![snapshot(40, &internal(1), 1)];
        let all = [late.clone(), sent.clone(), last.clone()];
        assert_eq!(next_missing(&all, &here), Some(&late));
        assert_eq!(common(&all, &here).unwrap().0, &sent);
        here.push(snapshot(41, "late", 3));
        assert_eq!(common(&all, &here).unwrap().0, &late, "that is what the part is now");
        assert_eq!(next_missing(&all, &here), Some(&last));
        here.push(snapshot(42, &internal(2), 2));
        assert_eq!(next_missing(&all, &here), None);
        assert_eq!(common(&all, &here).unwrap().0, &last);
    }

    #[test]
    fn what_arrives_at_the_source_does_not_stop_the_others() {
        let volumes =
            [("b", None), ("a", Some(MoveState::Leaving)), ("c", Some(MoveState::Arriving))]
                .map(|(name, state)| (name.to_owned(), state));
        let under_way = ["a", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(movable(under_way, &volumes), ["a", "b", "d"]);
    }

    /// Its base may be deleted right then: what is left would look like a part of a whole snapshot.
    #[test]
    fn a_part_of_a_difference_is_undone_and_one_of_a_whole_snapshot_is_not() {
        let all = [snapshot(4, "a", 1), snapshot(7, "b", 2)];
        let to = |receiving, all| undone_to(receiving, all).map(|to| to.id);
        assert_eq!(to(Some("u2"), &all), Some(7));
        assert_eq!(to(Some("u2"), &[]), None, "it is gone on with");
        assert_eq!(to(None, &all), None);
    }

    #[test]
    fn rounds_go_on_while_they_become_shorter() {
        use Next::{Last, LastThoughLong, Round};
        assert_eq!(after(&[(8, 100)]), [Last], "little is sent at once");
        assert_eq!(after(&[(900, 1), (90, 1)]), [Round, Last], "the first one tells of no writes");
        assert_eq!(after(&[(900, 100), (400, 50), (100, 12), (7, 2)]), [Round, Round, Round, Last]);
        assert_eq!(
            after(&[(900, 100), (90, 90), (90, 40), (90, 39)]),
            [Round, Round, Round, Round]
        );
        let equal = [(900, 100), (900, 90), (900, 99)];
        assert_eq!(after(&equal), [Round, Round, LastThoughLong]);
    }
}
