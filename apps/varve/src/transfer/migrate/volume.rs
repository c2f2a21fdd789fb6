//! Moves one volume: from whatever state both sides are in to the last.

use std::time::{Duration, Instant};

use hyper::Method;
use varve_access_admin::v1::{ChangeVolume, MoveState, Reservation, Snapshot, Volume, VolumeMove};
use varve_types::{ByteCount, ErrorKind};

use super::copy::Sent;
use super::report::{Moved, ms};
use super::side::{Run, Side, is_given_up, is_internal, own_name};
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
    let mut names: Vec<String> = under_way(run)?.into_iter().map(|moved| moved.name).collect();
    names.extend(run.source.volumes()?.into_iter().map(|volume| volume.name));
    names.sort_unstable();
    names.dedup();
    Ok(names)
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
            (Some(MoveState::Left), ..) => Stage::Left,
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

/// Whether the target's volume has the last snapshot that the migration took of the source's.
fn is_same(run: &Run, name: &str) -> Result<bool> {
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
    if let Stage::Send | Stage::Arrived = stage {
        let moves = run.source.volume(name)?.and_then(|volume| volume.moves);
        run.source.step(name, moves.as_ref(), Some(run.left()))?;
    }
    if let Stage::Send | Stage::Arrived | Stage::Left = stage {
        retire(run, name, keep_source, &mut moved)?;
    }
    for snapshot in run.target.snapshots(name)?.iter().filter(|snapshot| is_internal(snapshot)) {
        run.target.delete_snapshot(snapshot)?;
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
        match run.source.delete_volume(name) {
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
        self.adopt_target(target)?;
        // A fence that an earlier run left is taken over: there is little to send behind it.
        let fence = self.run.source.volume(self.name)?.and_then(|volume| volume.moves);
        if fence.is_none() {
            self.rounds()?;
        }
        let began = Instant::now();
        self.watch.say(format!("{}: the last difference", self.name));
        self.run.source.step(self.name, fence.as_ref(), Some(self.run.leaving()))?;
        let ready = self.last_round();
        if let Err(failure) = ready {
            return Err(self.give_back(failure));
        }
        self.arrive()?;
        self.moved.refused_ms = Some(ms(began.elapsed()));
        Ok(())
    }

    /// Makes the target's part this run's, or removes one that was given up.
    fn adopt_target(&self, target: Option<&Volume>) -> Result<()> {
        let Some(moves) = target.and_then(|target| target.moves.as_ref()) else { return Ok(()) };
        match moves.state {
            MoveState::Left => self.run.target.delete_volume(self.name),
            MoveState::Arriving | MoveState::Leaving => {
                let arriving = Some(self.run.arriving());
                self.run.target.step(self.name, Some(moves), arriving).map(drop)
            }
        }
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
        self.run.source.take_snapshot(self.name)?;
        self.send_missing()
    }

    fn send_missing(&mut self) -> Result<u64> {
        let mut sent_bytes = 0;
        loop {
            let all = self.run.source.snapshots(self.name)?;
            let here = self.run.target.snapshots(self.name)?;
            let has = |snapshot: &Snapshot| here.iter().any(|h| h.identity == snapshot.identity);
            let base = all.iter().rev().find(|snapshot| has(snapshot));
            let next = all.iter().find(|s| base.is_none_or(|base| s.id > base.id));
            let Some(snapshot) = next else { return Ok(sent_bytes) };
            self.watch.expect_bytes(self.data_bytes(snapshot, base)?);
            let sent = Sent { run: self.run, volume: self.name, snapshot, base };
            sent_bytes = sent.send(self.watch)?;
            self.moved.sent_bytes += sent_bytes;
            self.moved.rounds += 1;
        }
    }

    fn data_bytes(&self, snapshot: &Snapshot, base: Option<&Snapshot>) -> Result<u64> {
        let client = &self.run.source.client;
        let extents = Extents::new(client, &snapshot.name, base.map(own_name), 0);
        extents.map(|extent| Ok(extent?.len)).sum()
    }

    /// Deletes snapshots of the migration that nothing counts from any more.
    fn tidy(&self) -> Result<()> {
        let all = self.run.source.snapshots(self.name)?;
        let here = self.run.target.snapshots(self.name)?;
        let has = |snapshot: &Snapshot| here.iter().any(|h| h.identity == snapshot.identity);
        let Some(base) = all.iter().rev().find(|snapshot| has(snapshot)) else { return Ok(()) };
        for side in [&self.run.source, &self.run.target] {
            let old = side.snapshots(self.name)?.into_iter().filter(is_internal);
            for snapshot in old.filter(|snapshot| snapshot.identity != base.identity) {
                side.delete_snapshot(&snapshot)?;
            }
        }
        Ok(())
    }

    /// The difference that nothing is written behind, and everything that is not data.
    fn last_round(&mut self) -> Result<()> {
        self.round()?;
        let all = self.run.source.snapshots(self.name)?;
        for here in self.run.target.snapshots(self.name)? {
            let there = all.iter().find(|there| there.identity == here.identity);
            let protected = there.is_some_and(|there| there.protected);
            if here.protected != protected {
                self.run.target.protect(&here, protected)?;
            }
            if there.is_none() {
                self.run.target.delete_snapshot(&here)?;
            }
        }
        self.settings()
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
            ..ChangeVolume::default()
        };
        let path = volume_path(self.name);
        self.run.target.client.send::<Volume>(Method::PATCH, &path, &change).map(drop)
    }

    /// Makes the target's volume one that clients use.
    fn arrive(&self) -> Result<()> {
        let arriving = self.run.arriving();
        let step = super::side::soon(|| self.run.target.step(self.name, Some(&arriving), None));
        let Err(failure) = step else { return Ok(()) };
        // The answer may be all that is missing, so the source's is given back only when the target says that it did not happen.
        match self.run.target.volume(self.name) {
            Ok(Some(volume)) if volume.moves.is_none() => Ok(()),
            Ok(_) => Err(self.give_back(failure)),
            Err(_) => Err(failure.hint(format!(
                "it is not known whether {} is in use at the target, so the source refuses writes: run the command again when both daemons answer",
                self.name
            ))),
        }
    }

    /// Lets clients use the source's volume again (G2: this run has not let the target's be used, and no other can after this).
    fn give_back(&self, failure: Failure) -> Failure {
        match self.run.source.step(self.name, Some(&self.run.leaving()), None) {
            Ok(_) => failure,
            Err(second) => failure.prefixed(&format!(
                "volume {} refuses writes at the source still, for it could not be given back ({}); run the command again, or with --cancel. Before that: ",
                self.name,
                second.what()
            )),
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

/// Gives a move up.
pub(super) fn cancel(run: &Run, name: &str) -> Result<Moved> {
    let Found { stage, source, target } = survey(run, name)?;
    if !matches!(stage, Stage::Send) {
        return Err(Failure::new(format!("volume {name} is in use at the target already")).hint(
            "run the command without --cancel to finish; to have it back, migrate it the other way",
        ));
    }
    // First the target's, so that it cannot get there (G2).
    if let Some(moves) = target.as_ref().and_then(|target| target.moves.as_ref()) {
        if moves.state != MoveState::Left {
            run.target.step(name, Some(moves), Some(run.given_up()))?;
        }
        run.target.delete_volume(name)?;
    }
    if let Some(moves) = source.as_ref().and_then(|source| source.moves.as_ref()) {
        run.source.step(name, Some(moves), None)?;
    }
    for snapshot in run.source.snapshots(name)?.iter().filter(|snapshot| is_internal(snapshot)) {
        run.source.delete_snapshot(snapshot)?;
    }
    let what = "given up; it is in use at the source".to_owned();
    Ok(Moved { name: name.to_owned(), what, ..Moved::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rounds: &[(u64, u64)]) -> Vec<Next> {
        let mut pace = Pace::default();
        rounds.iter().map(|(mib, s)| pace.after(mib << 20, Duration::from_secs(*s))).collect()
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
