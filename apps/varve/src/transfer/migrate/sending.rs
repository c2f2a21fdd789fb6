//! Sends a volume: differences while writers write, until there is little, and the last one behind the fence.

use std::time::{Duration, Instant};

use hyper::Method;
use varve_access_admin::v1::{ChangeVolume, MoveState, Reservation, Snapshot, Volume};
use varve_types::ErrorKind;

use super::copy::Sent;
use super::give_back::{Disarmed, after_lost_fence, give_back};
use super::mark;
use super::report::{Moved, ms};
use super::side::{Run, is_given_up, is_internal};
use super::volume::state;
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

/// A volume that is being sent.
pub(super) struct Sending<'a> {
    pub(super) run: &'a Run,
    pub(super) name: &'a str,
    pub(super) watch: &'a Watch,
    pub(super) moved: &'a mut Moved,
}

impl Sending<'_> {
    /// Sends what there is to send until clients use the target's; `target` is what that has of it.
    pub(super) fn send_all(&mut self, target: Option<&Volume>) -> Result<()> {
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

/// What a target's part goes back to before anything else is received: a part of a whole snapshot, with which there is none yet, stays.
fn undone_to<'a>(receiving: Option<&str>, all: &'a [Snapshot]) -> Option<&'a Snapshot> {
    receiving.and(all.last())
}

fn has(side: &[Snapshot], snapshot: &Snapshot) -> bool {
    side.iter().any(|other| other.identity == snapshot.identity)
}

/// Whether the two have a snapshot in common.
pub(super) fn has_common(run: &Run, name: &str) -> Result<bool> {
    Ok(common(&run.source.snapshots(name)?, &run.target.snapshots(name)?).is_some())
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
