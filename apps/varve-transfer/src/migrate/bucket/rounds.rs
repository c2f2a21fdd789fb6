//! Sends a bucket: all keys that differ, then those that changed, again and again, until they are few, and the last
//! ones behind the fence.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use varve_access_admin::v1::{MoveState, ReplaceSettings};
use varve_client::{Failure, Progress, Result};

use super::carry::{BucketCarrier, CarryOutcome, CarryWork};
use super::listing::{KeyListing, compare};
use crate::migrate::kind::{DaemonView, Item};
use crate::migrate::report::MoveReport;
use crate::migrate::sending::{Next, Pace, ROUNDS_MAX, Sender, WRITTEN_AS_FAST};
use crate::migrate::side::{MigrationRun, MigrationSide};

/// So many keys are sent while clients are refused.
const FEW_KEYS: usize = 8;

/// So long clients may be refused for all keys to be compared, where the source does not know what changed.
const WHOLE_MAX: Duration = Duration::from_secs(2);

/// So are those that changed while a round took so long.
const SHORT: Duration = Duration::from_millis(100);

/// The rounds of a bucket.
pub(super) struct Rounds<'a> {
    item: Item<'a>,
    watch: &'a Progress,
    drop_uploads: bool,
    /// Numbers of the bucket at the source and of the target's part, once they are known.
    number: u64,
    part: u64,
    /// What the source tells changes from; empty before the first round.
    token: String,
    /// Keys that are to be looked at again.
    restless: BTreeSet<String>,
    /// The source lost count of changes: all keys are to be compared again.
    is_lost: bool,
    /// How long that took the last time.
    whole_took: Duration,
}

/// What a round was.
struct Round {
    /// All keys were compared.
    is_whole: bool,
    keys: usize,
}

impl Sender for Rounds<'_> {
    fn adopt(&self) -> Result<()> {
        Ok(())
    }

    fn rounds(&mut self, moved: &mut MoveReport) -> Result<()> {
        self.make_part()?;
        let Item { run, name, .. } = self.item;
        // MIGRATE-BUCKET-2: before any key is looked at.
        self.token = run.source.changes(name, None)?.token;
        self.restless.clear();
        self.is_lost = false;
        self.watch.say(format!("{name}: round 1"));
        let began = Instant::now();
        self.whole(false, moved)?;
        self.later_rounds(began.elapsed(), moved)?;
        self.check_uploads(run.source.settings(name)?.uploads)
    }

    fn fence(&self) -> Result<()> {
        let Item { run, name, .. } = self.item;
        run.source.fence_bucket(name, self.number, run.leaving())
    }

    fn check_part(&self, here: Option<&DaemonView>) -> Result<()> {
        let Item { run, name, .. } = self.item;
        let is_arriving = here.and_then(DaemonView::state) == Some(MoveState::Arriving);
        match is_arriving && run.target.bucket(name)?.is_some_and(|part| part.id == self.part) {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "the target does not have what was sent of {} any more: all of it is to be sent, and not while changes are refused",
                self.item
            ))
            .hint("run the command again")),
        }
    }

    fn last_round(&mut self, moved: &mut MoveReport) -> Result<()> {
        let Item { run, name, .. } = self.item;
        self.round(true, moved)?;
        let settings = run.source.settings(name)?;
        self.check_uploads(settings.uploads)?;
        if settings.uploads > 0 {
            let note = format!(
                "{} uploads in parts that were under way are lost: their clients begin anew",
                settings.uploads
            );
            moved.notes.push(note);
        }
        let new = ReplaceSettings { expects: run.arriving(), record: settings.record };
        run.target.replace_settings(name, &new)?;
        self.check_counts(moved)
    }

    fn arrive(&self) -> Result<()> {
        let Item { run, name, .. } = self.item;
        run.target.arrive_bucket(name, run.arriving(), self.number)
    }
}

impl<'a> Rounds<'a> {
    pub(super) fn new(item: Item<'a>, watch: &'a Progress, drop_uploads: bool) -> Self {
        let (token, restless) = (String::new(), BTreeSet::new());
        Self {
            item,
            watch,
            drop_uploads,
            number: 0,
            part: 0,
            token,
            restless,
            is_lost: false,
            whole_took: Duration::ZERO,
        }
    }

    /// Makes the target's part, if there is none that is like the source's.
    fn make_part(&mut self) -> Result<()> {
        let Item { run: MigrationRun { source, target, .. }, name, .. } = self.item;
        let there = source.settings(name)?;
        self.number = there.number;
        let arriving = self.item.run.arriving();
        if self.item.here()?.is_some() {
            let part = target.settings(name)?;
            if part.private_copy == there.private_copy {
                self.part = part.number;
                return Ok(());
            }
            // It was another bucket when that was made.
            let given_up = self.item.run.given_up();
            self.item.step_here(Some(&arriving), Some(given_up.clone()))?;
            self.item.delete_here(&given_up)?;
        }
        target.create_arriving(name, there, arriving)?;
        self.part = target.settings(name)?.number;
        Ok(())
    }

    /// Keys that changed while the ones before were sent, until they are few.
    fn later_rounds(&mut self, first: Duration, moved: &mut MoveReport) -> Result<()> {
        let mut pace = Pace::of(SHORT);
        pace.after(false, first);
        let mut number = 2;
        loop {
            self.watch.say(format!("{}: round {number}", self.item.name));
            let began = Instant::now();
            let Round { is_whole, keys } = self.round(false, moved)?;
            let elapsed = began.elapsed();
            // What changes next is to be told, or all is compared behind the fence.
            let is_open = self.is_lost || (is_whole && elapsed > WHOLE_MAX);
            if number >= ROUNDS_MAX && is_open {
                return Err(self.changes_too_fast());
            }
            let keys = keys.max(self.restless.len());
            match pace.after(!is_whole && !self.is_lost && keys <= FEW_KEYS, elapsed) {
                Next::Round if number < ROUNDS_MAX => number += 1,
                Next::Last | Next::LastThoughLong if is_open => number += 1,
                Next::Last => return Ok(()),
                Next::Round | Next::LastThoughLong => {
                    if elapsed > Duration::from_secs(1) {
                        moved.notes.push(WRITTEN_AS_FAST.to_owned());
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Sends what changed since the last round.
    fn round(&mut self, is_fenced: bool, moved: &mut MoveReport) -> Result<Round> {
        let Item { run, name, .. } = self.item;
        let changes = run.source.changes(name, Some(&self.token))?;
        self.token = changes.token;
        if changes.whole || self.is_lost {
            (self.restless, self.is_lost) = (BTreeSet::new(), false);
            if is_fenced && self.whole_took > WHOLE_MAX {
                return Err(self.changes_too_fast());
            }
            self.whole(is_fenced, moved)?;
            return Ok(Round { is_whole: true, keys: 0 });
        }
        let mut keys = std::mem::take(&mut self.restless);
        keys.extend(changes.keys);
        let round = Round { is_whole: false, keys: keys.len() };
        let token = (!is_fenced).then(|| self.token.clone());
        let carrying = BucketCarrier::new(run, name, self.watch, token);
        let carried = carrying.carry(|filling| {
            keys.into_iter().try_for_each(|key| filling.add(CarryWork::Key(key)))
        })?;
        self.take(carried, moved);
        Ok(round)
    }

    /// Compares all keys and sends those that differ; how many.
    fn whole(&mut self, is_fenced: bool, moved: &mut MoveReport) -> Result<u64> {
        let Item { run, name, .. } = self.item;
        let began = Instant::now();
        let token = (!is_fenced).then(|| self.token.clone());
        let carrying = BucketCarrier::new(run, name, self.watch, token);
        let (there, here) =
            (KeyListing::new(&run.source, name), KeyListing::new(&run.target, name));
        let carried = carrying.carry(|filling| {
            compare(there, here, |found| match found {
                Some(found) => {
                    let sent = found.sent.iter().map(|version| version.size).sum();
                    self.watch.expect_bytes(sent);
                    filling.add(CarryWork::Difference(found))
                }
                None => filling.go_on(),
            })
        })?;
        let keys = carried.keys + carried.restless.len() as u64;
        self.take(carried, moved);
        self.whole_took = began.elapsed();
        Ok(keys)
    }

    fn take(&mut self, carried: CarryOutcome, moved: &mut MoveReport) {
        moved.sent_bytes += carried.bytes;
        moved.rounds += 1;
        self.restless.extend(carried.restless);
        self.is_lost |= carried.is_lost;
        if let Some(token) = carried.token {
            self.token = token;
        }
    }

    /// Why clients are not refused for as long as comparing all keys takes.
    fn changes_too_fast(&self) -> Failure {
        Failure::new(format!(
            "the source does not know any more what changed of {}: all keys are to be compared, and not while changes are refused",
            self.item
        ))
        .hint("run the command again; it may be changed faster than it can be compared, or its daemon was started again")
    }

    /// Uploads are lost that the user does not know of.
    fn check_uploads(&self, uploads: u64) -> Result<()> {
        match uploads > 0 && !self.drop_uploads {
            true => Err(Failure::new(format!(
                "{uploads} uploads in parts are under way in {}, which are not moved",
                self.item
            ))
            .hint("wait for their end, or end them by S3 (ListMultipartUploads shows them); with --drop-uploads they are lost")),
            false => Ok(()),
        }
    }

    /// Behind the fence both have as much; if not, everything is compared again.
    fn check_counts(&mut self, moved: &mut MoveReport) -> Result<()> {
        let item = self.item;
        let Item { run, name, .. } = item;
        let count = |side: &MigrationSide| -> Result<_> {
            let Some(bucket) = side.bucket(name)? else { return Ok(None) };
            if bucket.usage_unknown {
                let what = format!("a damaged shard may hold some of {item}");
                return Err(Failure::new(what).hint("`varve status` at both pools says which"));
            }
            Ok(Some((bucket.objects, bucket.object_bytes)))
        };
        if count(&run.source)? == count(&run.target)? {
            return Ok(());
        }
        if self.whole_took > WHOLE_MAX {
            return Err(Failure::new(format!(
                "the target does not have as much as the source of {}",
                self.item
            ))
            .hint("run the command again: it compares all keys"));
        }
        self.whole(true, moved)?;
        match self.whole(true, moved)? {
            0 => Ok(()),
            keys => Err(Failure::new(format!(
                "{keys} keys of {} differ between the two pools after they were sent",
                self.item
            ))
            .hint("--cancel the move and begin anew; the source is whole")),
        }
    }
}
