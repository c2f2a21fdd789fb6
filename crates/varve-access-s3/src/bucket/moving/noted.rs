//! Which keys of a bucket change while it is copied, noted in memory for who copies it.
//!
//! NOTED-1. A change is noted once it can be seen, and before its client is answered: whoever is told of a key and then
//!     reads it sees the change.
//! NOTED-2. A token names a noting, which is lost with the daemon, and how far it was told. What a token names is told
//!     again until a later one is asked with: an answer that was lost is no loss.
//! NOTED-3. What is not known is said to be so: everything is to be compared then.
//! NOTED-4. The noting that the table has for a bucket is the one that its store tells: both are replaced in one turn.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use varve_object::{BucketId, ObjectStore};
use varve_stdx::hex;

use crate::answers::error::Result;
use crate::body::seal::random;

/// Most keys noted, and most bytes of them as JSON: an answer has all.
const KEYS_MAX: usize = 100_000;
const KEYS_BYTES_MAX: usize = 12 << 20;

/// Most bytes of memory that the keys of all notings take: the one that would take more ends.
const ALL_BYTES_MAX: usize = 32 << 20;

/// What a key takes in the tables of a noting, beside itself.
const ENTRY_BYTES: usize = 128;

/// How long it goes on when nobody asks.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// Most buckets at a time; of more, the one that was asked for longest ago is noted no longer.
const BUCKETS_MAX: usize = 64;

/// What changed in a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeLog {
    /// What to ask with the next time.
    pub token: String,
    /// What changed before is not known.
    pub whole: bool,
    /// Keys that changed, each once.
    pub keys: Vec<String>,
    /// The record changed.
    pub settings_changed: bool,
}

/// Notings by bucket.
#[derive(Default)]
pub(crate) struct ChangeTracker {
    /// Guards the table, for moments.
    all: Mutex<HashMap<BucketId, Arc<Notes>>>,
    /// Who makes the table and what stores tell differ for a moment holds it (NOTED-4).
    turn: tokio::sync::Mutex<()>,
    /// Bytes that the keys of all notings take.
    bytes: Arc<AtomicUsize>,
}

/// What a noting takes of the memory for all of them.
struct Share {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl Share {
    /// Takes so much, and returns what all take then.
    fn set(&mut self, bytes: usize) -> usize {
        let more = bytes.wrapping_sub(std::mem::replace(&mut self.bytes, bytes));
        self.all.fetch_add(more, Ordering::Relaxed).wrapping_add(more)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A noting.
pub(super) struct Notes {
    id: String,
    /// Guards what is noted, for moments.
    now: Mutex<ChangeCount>,
}

struct ChangeCount {
    /// How many changes were noted.
    count: u64,
    /// By key, the last change of it.
    keys: HashMap<Arc<str>, u64>,
    /// The same, by the change.
    changes: BTreeMap<u64, Arc<str>>,
    bytes: usize,
    share: Share,
    /// The last change of the record; 0: none.
    settings: u64,
    asked: Instant,
    /// Too much was noted, or nobody asked.
    is_over: bool,
}

impl Notes {
    fn new(all: &Arc<AtomicUsize>) -> Arc<Self> {
        let now = ChangeCount {
            count: 0,
            keys: HashMap::new(),
            changes: BTreeMap::new(),
            bytes: 0,
            share: Share { all: Arc::clone(all), bytes: 0 },
            settings: 0,
            asked: Instant::now(),
            is_over: false,
        };
        Arc::new(Self { id: hex(&random::<16>()), now: Mutex::new(now) })
    }

    fn now(&self) -> MutexGuard<'_, ChangeCount> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells it of a change.
    pub(super) fn note(&self, key: Option<&str>) {
        self.now().note(key);
    }

    #[cfg(test)]
    pub(super) fn end(&self) {
        self.now().end();
    }

    fn token(&self, count: u64) -> String {
        format!("{}-{count}", self.id)
    }

    /// What changed since this token of it; none if it is another's, or that is not known (NOTED-3).
    pub(super) fn since(&self, token: &str) -> Option<ChangeLog> {
        let (id, told) = token.split_once('-')?;
        let told: u64 = told.parse().ok()?;
        let mut now = self.now();
        if id != self.id || told > now.count || now.is_over {
            return None;
        }
        now.forget(told); // NOTED-2
        now.asked = Instant::now();
        Some(ChangeLog {
            token: self.token(now.count),
            whole: false,
            keys: now.changes.values().map(|key| key.to_string()).collect(),
            settings_changed: now.settings > told,
        })
    }
}

impl ChangeCount {
    fn note(&mut self, key: Option<&str>) {
        if self.is_over || self.asked.elapsed() > IDLE_MAX {
            return self.end();
        }
        self.count += 1;
        let Some(key) = key else {
            self.settings = self.count;
            return;
        };
        let key: Arc<str> = key.into();
        match self.keys.insert(Arc::clone(&key), self.count) {
            Some(before) => drop(self.changes.remove(&before)),
            None => self.bytes += json_bytes(&key),
        }
        self.changes.insert(self.count, key);
        let is_full = self.keys.len() > KEYS_MAX || self.bytes > KEYS_BYTES_MAX;
        if self.take_share() > ALL_BYTES_MAX || is_full {
            self.end();
        }
    }

    fn take_share(&mut self) -> usize {
        self.share.set(self.bytes + self.keys.len() * ENTRY_BYTES)
    }

    /// Forgets changes up to this one.
    fn forget(&mut self, told: u64) {
        while let Some(first) = self.changes.first_entry().filter(|first| *first.key() <= told) {
            let key = first.remove();
            self.bytes -= json_bytes(&key);
            self.keys.remove(&key);
        }
        self.take_share();
    }

    fn end(&mut self) {
        self.is_over = true;
        self.keys = HashMap::new();
        self.changes = BTreeMap::new();
        self.bytes = 0;
        self.take_share();
    }
}

/// Bytes of a key in an answer, at most.
fn json_bytes(key: &str) -> usize {
    3 + super::bodies::escaped_bytes(key)
}

impl ChangeTracker {
    fn all(&self) -> MutexGuard<'_, HashMap<BucketId, Arc<Notes>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn of(&self, bucket: BucketId) -> Option<Arc<Notes>> {
        self.all().get(&bucket).cloned()
    }

    /// Enters a noting; returns the bucket whose noting ends, where there are too many.
    fn enter(&self, bucket: BucketId, notes: Arc<Notes>) -> Option<BucketId> {
        let mut all = self.all();
        let oldest = match all.len() >= BUCKETS_MAX && !all.contains_key(&bucket) {
            true => all.iter().min_by_key(|(_, notes)| notes.now().asked).map(|(id, _)| *id),
            false => None,
        };
        if let Some(notes) = oldest.and_then(|oldest| all.remove(&oldest)) {
            notes.now().end();
        }
        all.insert(bucket, notes);
        oldest
    }

    /// Ends those that nobody asks for.
    pub(super) async fn end_idle(&self, store: &dyn ObjectStore) {
        let _turn = self.turn.lock().await; // NOTED-4
        let mut ended = Vec::new();
        self.all().retain(|bucket, notes| {
            let mut now = notes.now();
            let is_kept = !now.is_over && now.asked.elapsed() <= IDLE_MAX;
            if !is_kept {
                now.end();
                ended.push(*bucket);
            }
            is_kept
        });
        for bucket in ended {
            drop(store.watch(bucket, None).await); // It may be gone.
        }
    }

    /// What changed in a bucket since a token was given. Notes what changes from then on.
    pub(super) async fn changes(
        &self,
        store: &dyn ObjectStore,
        name: &str,
        since: Option<&str>,
    ) -> Result<ChangeLog> {
        let bucket = store.bucket(name).await?.id;
        let known = since.and_then(|token| self.of(bucket)?.since(token));
        if let Some(known) = known {
            return Ok(known);
        }
        let _turn = self.turn.lock().await; // NOTED-4
        let notes = Notes::new(&self.bytes);
        let watching = Arc::clone(&notes);
        let watch = Arc::new(move |key: Option<&str>| watching.note(key)); // NOTED-1
        store.watch(bucket, Some(watch)).await?;
        let token = notes.token(0);
        if let Some(ended) = self.enter(bucket, notes) {
            drop(store.watch(ended, None).await); // It may be gone.
        }
        let whole = since.is_some(); // NOTED-3
        Ok(ChangeLog { token, whole, keys: Vec::new(), settings_changed: false })
    }
}
