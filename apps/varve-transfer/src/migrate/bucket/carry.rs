//! Carries versions from the source to the target: a few threads, each with one batch of small bodies, or one piece of
//! a long one, at a time.
//!
//! Memory: a thread holds bodies of at most 2 MiB as they came, and the request that they go into; with the pages that
//! are compared and the batches that wait it is below 64 MiB, but for a key with very many versions, which are compared
//! as a whole.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use varve_access_admin::v1::StoredVersion;
use varve_client::{Failure, Progress, Result};
use varve_types::ErrorKind;

use super::batch::{CarriedBatch, PIECE_BYTES};
use super::listing::{Difference, difference, versions_of};
use crate::migrate::side::MigrationRun;

/// Threads that carry.
const CARRIERS: usize = 3;

/// What a version that waits takes beside its key, attributes and body, about.
const VERSION_BYTES: usize = 200;

/// Batches that wait for one of them.
const WAITING_MAX: usize = 2;

/// Most keys of a batch of which it is known what to do.
const KEYS_MAX: usize = 256;

/// Most keys of a batch that are to be looked at, which takes two requests each: few, so that all threads have some
/// behind the fence.
const LOOKED_AT_MAX: usize = 16;

/// How often a key is looked at whose versions change before they are read.
const LOOKS_MAX: u32 = 3;

/// How often the source is asked for changes while something is carried.
const ASK_EVERY: Duration = Duration::from_secs(20);

/// Most bytes of keys that are to be looked at again; if there are more, all are compared.
const RESTLESS_BYTES_MAX: usize = 32 << 20;

/// What one of them takes beside its bytes, about.
const KEY_BYTES: usize = 64;

/// What to carry.
pub(super) enum CarryWork {
    /// What was found out already.
    Difference(Difference),
    /// A key of which it is not known in what it differs.
    Key(String),
}

/// A bucket whose versions are carried.
pub(super) struct BucketCarrier<'a> {
    pub(super) run: &'a MigrationRun,
    pub(super) bucket: &'a str,
    pub(super) watch: &'a Progress,
    /// Who asks the source what changes meanwhile; absent behind the fence, where nothing changes any more.
    asking: Option<Mutex<SourcePoll>>,
    sent_bytes: AtomicU64,
    sent_keys: AtomicU64,
    /// One of the threads failed.
    failed: AtomicBool,
    /// Keys that changed again and again while they were read.
    restless: Mutex<BTreeSet<String>>,
}

/// What came of it.
#[derive(Default)]
pub(super) struct CarryOutcome {
    pub(super) bytes: u64,
    pub(super) keys: u64,
    /// Keys that are to be looked at again.
    pub(super) restless: BTreeSet<String>,
    /// What the source was last asked for changes with.
    pub(super) token: Option<String>,
    /// It lost count of them: all keys are to be compared again.
    pub(super) is_lost: bool,
}

/// The source notes changes for somebody who asks every 10 minutes, and so many of them: it is asked while much is
/// carried.
struct SourcePoll {
    token: String,
    last: Instant,
    is_lost: bool,
}

/// Makes batches of what there is to carry.
pub(super) struct BatchBuilder<'a> {
    batches: SyncSender<Vec<CarryWork>>,
    batch: Vec<CarryWork>,
    batch_bytes: u64,
    carrying: &'a BucketCarrier<'a>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> BucketCarrier<'a> {
    pub(super) fn new(
        run: &'a MigrationRun,
        bucket: &'a str,
        watch: &'a Progress,
        token: Option<String>,
    ) -> Self {
        let asking = |token| Mutex::new(SourcePoll { token, last: Instant::now(), is_lost: false });
        Self {
            run,
            bucket,
            watch,
            asking: token.map(asking),
            sent_bytes: AtomicU64::new(0),
            sent_keys: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            restless: Mutex::default(),
        }
    }

    /// Carries all that `fill` hands over.
    pub(super) fn carry(
        self,
        fill: impl FnOnce(&mut BatchBuilder<'_>) -> Result<()>,
    ) -> Result<CarryOutcome> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let receiver = Mutex::new(receiver);
        let this = &self;
        thread::scope(|scope| {
            let receiver = &receiver;
            let carriers: Vec<_> =
                (0..CARRIERS).map(|_| scope.spawn(move || this.carrier(receiver))).collect();
            let mut filling =
                BatchBuilder { batches: sender, batch: Vec::new(), batch_bytes: 0, carrying: this };
            let filled = fill(&mut filling).and_then(|()| filling.flush());
            if filled.is_err() {
                this.failed.store(true, Ordering::Relaxed);
            }
            drop(filling);
            // What a thread says is why the others, and filling, ended.
            let mut ended = Ok(());
            for carrier in carriers {
                let carried = carrier.join().expect("a carrier does not panic");
                ended = ended.and(carried);
            }
            ended.and(filled)
        })?;
        let asking =
            self.asking.map(|asking| asking.into_inner().unwrap_or_else(PoisonError::into_inner));
        Ok(CarryOutcome {
            bytes: self.sent_bytes.into_inner(),
            keys: self.sent_keys.into_inner(),
            restless: self.restless.into_inner().unwrap_or_else(PoisonError::into_inner),
            is_lost: asking.as_ref().is_some_and(|asking| asking.is_lost),
            token: asking.map(|asking| asking.token),
        })
    }

    /// Takes over what changed since the source was asked, now and then.
    fn ask(&self) -> Result<()> {
        let Some(Ok(mut asking)) = self.asking.as_ref().map(Mutex::try_lock) else { return Ok(()) };
        if asking.last.elapsed() < ASK_EVERY {
            return Ok(());
        }
        let changes = self.run.source.changes(self.bucket, Some(&asking.token))?;
        let mut restless = locked(&self.restless);
        restless.extend(changes.keys);
        let bytes: usize = restless.iter().map(|key| key.len() + KEY_BYTES).sum();
        asking.is_lost |= changes.whole || bytes > RESTLESS_BYTES_MAX;
        if asking.is_lost {
            restless.clear();
        }
        (asking.token, asking.last) = (changes.token, Instant::now());
        Ok(())
    }

    /// Takes batches until there are no more, or something failed anywhere: the others are taken away then, and
    /// dropped.
    fn carrier(&self, batches: &Mutex<Receiver<Vec<CarryWork>>>) -> Result<()> {
        let mut ended = Ok(());
        loop {
            let next = locked(batches).recv();
            let Ok(batch) = next else { return ended };
            if ended.is_ok() && !self.failed.load(Ordering::Relaxed) {
                ended = self.stopped().and_then(|()| self.carry_batch(batch));
                if ended.is_err() {
                    self.failed.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Refuses to go on when the user wants to end. Called before each request that takes long, so it also asks for
    /// changes now and then.
    pub(super) fn stopped(&self) -> Result<()> {
        self.ask()?;
        match self.watch.is_stopped() {
            false => Ok(()),
            true => Err(Failure::new(format!("interrupted while bucket {} was sent", self.bucket))
                .hint("the same command goes on where it ended; --cancel gives it up")),
        }
    }

    /// What was carried, for progress and the report.
    pub(super) fn did(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.watch.did_bytes(bytes);
    }

    fn carry_batch(&self, works: Vec<CarryWork>) -> Result<()> {
        let mut differences = Vec::with_capacity(works.len());
        for work in works {
            match work {
                CarryWork::Difference(difference) => differences.push(difference),
                CarryWork::Key(key) => differences.extend(self.look(key)?),
            }
        }
        let keys: Vec<String> = differences.iter().map(|one| one.key.clone()).collect();
        let mut batch = CarriedBatch::new(self);
        let sent = differences.into_iter().try_for_each(|one| batch.add(one));
        match sent.and_then(|()| batch.send()) {
            Err(failure) if failure.is(ErrorKind::NotFound) => {
                keys.into_iter().try_for_each(|key| self.carry_again(key))?;
            }
            sent => {
                sent?;
                self.sent_keys.fetch_add(keys.len() as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// In what a key differs now.
    fn look(&self, key: String) -> Result<Option<Difference>> {
        let there = versions_of(&self.run.source, self.bucket, &key)?;
        let here = versions_of(&self.run.target, self.bucket, &key)?;
        Ok(difference(key, there, &here))
    }

    /// Carries a key of which a version was gone when it was read.
    fn carry_again(&self, key: String) -> Result<()> {
        for look in 1..=LOOKS_MAX {
            let Some(found) = self.look(key.clone())? else { return Ok(()) };
            let mut batch = CarriedBatch::new(self);
            match batch.add(found).and_then(|()| batch.send()) {
                Err(failure) if failure.is(ErrorKind::NotFound) => {
                    if self.asking.is_none() && look == LOOKS_MAX {
                        return Err(failure);
                    }
                }
                sent => {
                    self.sent_keys.fetch_add(1, Ordering::Relaxed);
                    return sent;
                }
            }
        }
        locked(&self.restless).insert(key);
        Ok(())
    }
}

/// What a version that waits takes with its body, about.
fn in_memory(version: &StoredVersion) -> u64 {
    version.size + (version.key.len() + version.attributes.0.len() + VERSION_BYTES) as u64
}

impl BatchBuilder<'_> {
    /// Hands something over; waits while there is enough to do.
    pub(super) fn add(&mut self, work: CarryWork) -> Result<()> {
        let keys_max = match &work {
            CarryWork::Difference(found) => {
                self.batch_bytes += found.sent.iter().map(in_memory).sum::<u64>();
                KEYS_MAX
            }
            CarryWork::Key(_) => LOOKED_AT_MAX,
        };
        self.batch.push(work);
        if self.batch.len() >= keys_max || self.batch_bytes >= PIECE_BYTES {
            return self.flush();
        }
        Ok(())
    }

    /// Ends early when that is wished for, or something failed.
    pub(super) fn go_on(&self) -> Result<()> {
        match self.carrying.failed.load(Ordering::Relaxed) {
            true => Err(Failure::new("another thread failed")), // Its error is shown.
            false => self.carrying.stopped(),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.go_on()?;
        self.batch_bytes = 0;
        let batch = std::mem::take(&mut self.batch);
        self.batches.send(batch).expect("carriers take what there is until there is no sender");
        Ok(())
    }
}
