//! Moves one volume: from whatever state both sides are in to the last.

use std::time::{Duration, Instant};

use hyper::Method;
use varve_access_admin::v1::{ChangeVolume, MoveState, Reservation, Snapshot, Volume, VolumeMove};
use varve_types::{ByteCount, ErrorKind};

use super::copy::Sent;
use super::give_back::{Disarmed, after_lost_fence, call_off, give_back};
use super::mark;
use super::report::{Moved, ms};
use super::side::{Run, is_given_up, is_internal};
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

/// How often a volume is tried to be fenced of which snapshots are taken, or which is rolled back, meanwhile.
const FENCES_MAX: u32 = 3;

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

fn state(volume: Option<&Volume>) -> Option<MoveState> {
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
                "volume {name} has not arrived at the source to the end: the pool that it comes from has it still"
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

/// Whether the two have a snapshot in common.
pub(super) fn has_common(run: &Run, name: &str) -> Result<bool> {
    Ok(common(&run.source.snapshots(name)?, &run.target.snapshots(name)?).is_some())
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
        moves => {
            let left = mark::left(run, &mark, keep_source);
            run.source.step(name, moves.as_ref(), Some(left.clone()))?;
            Ok(Some(left))
        }
    }
}

/// Takes the source's volume out of use and deletes it, or says that it stays; whether the move is over.
fn retire(run: &Run, name: &str, keep_source: bool, moved: &mut Moved) -> Result<bool> {
    let last = run.source.snapshots(name)?.into_iter().rfind(is_internal);
    let left = leave(run, name, keep_source).map_err(|failure| {
        failure.prefixed(&format!(
            "volume {name} is in use at the target, and out of use at the source, where it is still; run the command again to finish. \
             Before that: "
        ))
    })?;
    let Some(left) = left else { return Ok(true) };
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

/// What a volume is taken to be that is fenced: its number, and its newest snapshot.
type Seen = (u64, Snapshot);

/// Whether writers are refused.
enum Fenced {
    Since(Instant),
    /// They are not: the volume is not what was sent of it any more.
    Changed(Failure),
    /// It is not known.
    Unknown(Failure),
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
        let mut fenced = self.fence()?;
        for _ in 1..FENCES_MAX {
            if let Fenced::Changed(_) = fenced {
                fenced = self.fence()?;
            }
        }
        let began = match fenced {
            Fenced::Since(began) => began,
            Fenced::Changed(failure) => return Err(failure),
            Fenced::Unknown(failure) => return after_lost_fence(run, name, failure),
        };
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
        let (arriving, target) = (self.run.arriving(), &self.run.target);
        match moves.state {
            MoveState::Left if is_given_up(moves) => target.delete_volume(self.name, moves),
            MoveState::Arriving if *moves == arriving => Ok(()),
            MoveState::Arriving => {
                target.step(self.name, Some(moves), Some(arriving))?;
                // A run that ended behind the fence may have set bounds, and they are not for what is sent from now on.
                self.change(ChangeVolume {
                    quota_bytes: Some(0),
                    reservation: Some(Reservation::None),
                    ..ChangeVolume::default()
                })
            }
            _ => Err(Failure::new(format!("the target has another volume {}", self.name))),
        }
    }

    /// Sends what there is while writers write, and makes them be refused. A fence that an earlier run left is taken over: there is little to
    /// send behind it.
    fn fence(&mut self) -> Result<Fenced> {
        let Self { run, name, .. } = *self;
        let fence = run.source.volume(name)?.and_then(|volume| volume.moves);
        let seen = match &fence {
            None => {
                let seen = self.rounds()?;
                self.reserve()?;
                Some(seen)
            }
            Some(fence) => {
                run.target.check_peer(name, fence)?; // This very one is compared at the daemon.
                None
            }
        };
        let began = Instant::now();
        self.watch.say(format!("{name}: the last difference"));
        let fenced = match &seen {
            Some(seen) => run.source.fence(name, seen, run.leaving()),
            None => run.source.step(name, fence.as_ref(), Some(run.leaving())),
        };
        match fenced {
            Ok(()) => Ok(Fenced::Since(began)),
            Err(failure) if failure.is(ErrorKind::Conflict) => {
                let moves = run.source.volume(name)?.and_then(|volume| volume.moves);
                let is_free = fence.is_none() && moves.is_none();
                if is_free { Ok(Fenced::Changed(failure)) } else { Err(failure) }
            }
            Err(failure) => Ok(Fenced::Unknown(failure)),
        }
    }

    /// Reserves at the target what is reserved at the source: writers are not refused for what there is no room for.
    fn reserve(&self) -> Result<()> {
        let source = self.run.source.volume(self.name)?;
        match source.and_then(|source| source.reserved_bytes) {
            Some(_) => self.change(ChangeVolume {
                reservation: Some(Reservation::Full),
                ..ChangeVolume::default()
            }),
            None => Ok(()),
        }
    }

    /// Changes the target's part.
    fn change(&self, change: ChangeVolume) -> Result<()> {
        let change = ChangeVolume { expects: Some(self.run.arriving()), ..change };
        let path = volume_path(self.name);
        self.run.target.client.send::<Volume>(Method::PATCH, &path, &change).map(drop)
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
        if mark::of_same(run, name)?.is_some() {
            return Ok(Disarmed::Arrived);
        }
        match state(here.as_ref()) {
            Some(MoveState::Arriving) => self.adopt_target(here.as_ref())?,
            _ if here.is_some() => {
                return Err(Failure::new(format!("the target has another volume {name}")));
            }
            _ => {}
        }
        if !has_common(run, name)? {
            return Err(Failure::new(format!(
                "the target has no snapshot of volume {name} any more: all of it is to be sent, and not while writes are refused"
            ))
            .hint("run the command again"));
        }
        Ok(Disarmed::Safe)
    }

    /// Differences, each of what was written while the one before was sent, until there is little.
    fn rounds(&mut self) -> Result<Seen> {
        let mut pace = Pace::default();
        let mut round = 1;
        loop {
            self.watch.say(format!("{}: round {round}", self.name));
            let began = Instant::now();
            let (sent_bytes, seen) = self.round()?;
            self.tidy()?;
            match pace.after(sent_bytes, began.elapsed()) {
                Next::Round if round < ROUNDS_MAX => round += 1,
                Next::Last => return Ok(seen),
                Next::Round | Next::LastThoughLong => {
                    self.moved.notes.push(
                        "it was written about as fast as it was sent, so writes were refused for a longer difference"
                            .to_owned(),
                    );
                    return Ok(seen);
                }
            }
        }
    }

    /// Takes a snapshot and sends whatever the target lacks; how many bytes the last difference had, and what the source's volume is of which
    /// the target has all but what is written from then on.
    fn round(&mut self) -> Result<(u64, Seen)> {
        let there = self.run.source.volume(self.name)?;
        let id = there.ok_or_else(|| self.went_away())?.id;
        self.run.source.take_snapshot(self.name, None)?;
        let (sent_bytes, newest) = self.send_missing()?;
        Ok((sent_bytes, (id, newest)))
    }

    fn went_away(&self) -> Failure {
        Failure::new(format!("volume {} went away", self.name))
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

    /// Sends whatever snapshots the target lacks; how many bytes the last one took, and the source's newest.
    fn send_missing(&mut self) -> Result<(u64, Snapshot)> {
        self.undo_part()?; // C1: before that from which it counts is forgotten.
        self.forget_deleted()?;
        let mut sent_bytes = 0;
        loop {
            let all = self.run.source.snapshots(self.name)?;
            let here = self.run.target.snapshots(self.name)?;
            let base = common(&all, &here).map(|(base, _)| base);
            let Some(snapshot) = next_missing(&all, &here) else {
                let newest = all.into_iter().next_back().ok_or_else(|| self.went_away())?;
                return Ok((sent_bytes, newest));
            };
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
        let source = self.run.source.volume(self.name)?.ok_or_else(|| self.went_away())?;
        let change = ChangeVolume {
            dedup: Some(source.dedup),
            compression: Some(source.compression),
            quota_bytes: Some(source.quota_bytes.unwrap_or(0)),
            reservation: Some(match source.reserved_bytes {
                Some(_) => Reservation::Full,
                None => Reservation::None,
            }),
            ..ChangeVolume::default()
        };
        self.change(change)
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
        MoveState::Arrived => "is in use, and arrived from",
    };
    format!("{word} {}", moves.peer)
}

/// Volumes of which something is under way, or left over, at either side.
pub(super) fn under_way(run: &Run) -> Result<Vec<Moved>> {
    let mut all: Vec<Moved> = Vec::new();
    for (side, what) in [(&run.source, "at the source"), (&run.target, "at the target")] {
        for volume in side.volumes()? {
            let internal = side.snapshots(&volume.name)?.iter().filter(|s| is_internal(s)).count();
            let moves = volume.moves.iter().filter(|moves| !mark::is_kept(moves));
            let mut said: Vec<String> = moves.map(told).collect();
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
