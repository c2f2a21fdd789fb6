//! Sends a volume: differences while writers write, until there is little, and the last one behind the fence.

use std::time::Instant;

use hyper::Method;
use varve_access_admin::v1::{ChangeVolume, Reservation, Snapshot, Volume};
use varve_access_admin::volume_path;
use varve_client::{Extents, Failure, Progress, Result};

use super::copy::SentSnapshot;
use super::kind::{DaemonView, Item};
use super::report::MoveReport;
use super::sending::{Next, Pace, ROUNDS_MAX, SHORT, Sender, WRITTEN_AS_FAST};
use super::side::{MigrationRun, is_internal};

/// A difference of at most so many bytes is sent while writers are refused.
const SMALL_BYTES: u64 = 8 << 20;

/// The differences of a volume.
pub(super) struct Differences<'a> {
    run: &'a MigrationRun,
    name: &'a str,
    watch: &'a Progress,
    /// What it is taken to be that is fenced: its number, and its newest snapshot.
    seen: Option<(u64, Snapshot)>,
    /// The snapshot behind the fence.
    last: Option<Snapshot>,
}

impl Sender for Differences<'_> {
    /// A run that ended behind the fence may have set bounds, and they are not for what is sent from now on.
    fn adopt(&self) -> Result<()> {
        self.change(ChangeVolume {
            quota_bytes: Some(0),
            reservation: Some(Reservation::None),
            ..ChangeVolume::default()
        })
    }

    fn rounds(&mut self, moved: &mut MoveReport) -> Result<()> {
        self.seen = Some(self.all_rounds(moved)?);
        self.reserve()
    }

    fn fence(&self) -> Result<()> {
        let (id, newest) = self.seen.as_ref().expect("it comes after rounds");
        self.run.source.fence(self.name, *id, newest, self.run.leaving())
    }

    fn check_part(&self, _: Option<&DaemonView>) -> Result<()> {
        match has_common(self.run, self.name)? {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "the target has no snapshot of volume {} any more: all of it is to be sent, and not while writes are refused",
                self.name
            ))
            .hint("run the command again")),
        }
    }

    /// The difference that nothing is written behind, and everything that is not data.
    fn last_round(&mut self, moved: &mut MoveReport) -> Result<()> {
        let (leaving, arriving) = (self.run.leaving(), self.run.arriving());
        self.last = Some(self.run.source.take_snapshot(self.name, Some(leaving))?);
        self.send_missing(moved)?;
        let all = self.run.source.snapshots(self.name)?;
        for here in self.run.target.snapshots(self.name)? {
            let there = all.iter().find(|there| there.identity == here.identity);
            let protected = there.is_some_and(|there| there.protected);
            if here.protected != protected {
                self.run.target.protect(&here, protected, Some(&arriving))?;
            }
        }
        self.settings()?;
        self.check_all_sent()
    }

    fn arrive(&self) -> Result<()> {
        let last = self.last.as_ref().expect("it comes after the last round");
        self.run.target.arrive(self.name, self.run.arriving(), last)
    }
}

impl<'a> Differences<'a> {
    pub(super) fn new(item: Item<'a>, watch: &'a Progress) -> Self {
        Self { run: item.run, name: item.name, watch, seen: None, last: None }
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

    /// Differences, each of what was written while the one before was sent, until there is little.
    fn all_rounds(&mut self, moved: &mut MoveReport) -> Result<(u64, Snapshot)> {
        let mut pace = Pace::of(SHORT);
        let mut round = 1;
        loop {
            self.watch.say(format!("{}: round {round}", self.name));
            let began = Instant::now();
            let (sent_bytes, seen) = self.round(moved)?;
            self.tidy()?;
            match pace.after(sent_bytes <= SMALL_BYTES, began.elapsed()) {
                Next::Round if round < ROUNDS_MAX => round += 1,
                Next::Last => return Ok(seen),
                Next::Round | Next::LastThoughLong => {
                    moved.notes.push(WRITTEN_AS_FAST.to_owned());
                    return Ok(seen);
                }
            }
        }
    }

    /// Takes a snapshot and sends whatever the target lacks; how many bytes the last difference had, and what the
    /// source's volume is of which the target has all but what is written from then on.
    fn round(&mut self, moved: &mut MoveReport) -> Result<(u64, (u64, Snapshot))> {
        let there = self.run.source.volume(self.name)?;
        let id = there.ok_or_else(|| self.went_away())?.id;
        self.run.source.take_snapshot(self.name, None)?;
        let (sent_bytes, newest) = self.send_missing(moved)?;
        Ok((sent_bytes, (id, newest)))
    }

    fn went_away(&self) -> Failure {
        Failure::new(format!("volume {} went away", self.name))
    }

    /// Undoes what the target holds of a snapshot that is being received, if it has others: it may be a part of a
    /// difference, and to which it belongs is not known any more once that is deleted.
    fn undo_part(&self) -> Result<()> {
        let MigrationRun { target, .. } = self.run;
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
    fn send_missing(&mut self, moved: &mut MoveReport) -> Result<(u64, Snapshot)> {
        self.undo_part()?; // MIGRATE-COPY-1: before that from which it counts is forgotten.
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
            let sent = SentSnapshot { run: self.run, volume: self.name, snapshot, base };
            sent_bytes = sent.send(self.watch)?;
            moved.sent_bytes += sent_bytes;
            moved.rounds += 1;
        }
    }

    fn data_bytes(&self, snapshot: &Snapshot, base: Option<&Snapshot>) -> Result<u64> {
        let client = &self.run.source.client;
        let extents = Extents::of(client, snapshot, base);
        extents.map(|extent| Ok(extent?.len)).sum()
    }

    /// Deletes snapshots of the migration that are older than the one from which the next difference counts. Younger
    /// ones may be what another command counts from.
    fn tidy(&self) -> Result<()> {
        let MigrationRun { source, target, .. } = self.run;
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

    /// Refuses to let the target's be used while it lacks a snapshot that would be deleted with the source's volume:
    /// behind the fence there are no more of them.
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
        let target = self.run.target.volume(self.name)?;
        let is_exclusive = target.is_some_and(|target| target.exclusive);
        let change = ChangeVolume {
            dedup: Some(source.dedup),
            compression: Some(source.compression),
            quota_bytes: Some(source.quota_bytes.unwrap_or(0)),
            reservation: Some(match source.reserved_bytes {
                Some(_) => Reservation::Full,
                None => Reservation::None,
            }),
            // Versions before exclusive volumes know no such field.
            exclusive: (source.exclusive != is_exclusive).then_some(source.exclusive),
            ..ChangeVolume::default()
        };
        self.change(change)
    }
}

/// What a target's part goes back to before anything else is received: a part of a whole snapshot, with which there is
/// none yet, stays.
fn undone_to<'a>(receiving: Option<&str>, all: &'a [Snapshot]) -> Option<&'a Snapshot> {
    receiving.and(all.last())
}

fn has(side: &[Snapshot], snapshot: &Snapshot) -> bool {
    side.iter().any(|other| other.identity == snapshot.identity)
}

/// Whether the two have a snapshot in common.
pub(super) fn has_common(run: &MigrationRun, name: &str) -> Result<bool> {
    Ok(common(&run.source.snapshots(name)?, &run.target.snapshots(name)?).is_some())
}

/// The snapshot that the target received last of those that the source has, as each has it: what its part is now.
fn common<'a>(all: &'a [Snapshot], here: &'a [Snapshot]) -> Option<(&'a Snapshot, &'a Snapshot)> {
    here.iter().rev().find_map(|here| {
        all.iter().find(|there| there.identity == here.identity).map(|there| (there, here))
    })
}

/// The oldest snapshot that the target lacks. It may be older than others that it has: a snapshot gets its number
/// before it is there. The one behind the fence is the youngest, so it is sent last.
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
}
