//! The part of a bucket that one shard holds: versions, uploads and parts as keys of the shard's key tree, bodies as
//! blocks of the bucket's stream. One value a bucket, shard and opening of the shard, on the shard's thread.
//!
//! ```text
//!  small body   ──────────────────────────────▶ transaction: blocks, key, account
//!  large body   ──▶ orphan ──▶ blocks ─────────▶ transaction: key, account, no orphan any more
//!  overwritten, removed ──▶ transaction: key, blocks trimmed, account
//!                           or, while they are read or are many, an orphan ──▶ sweep
//! ```
//!
//! An **orphan** is a key that names blocks, or parts, that belong to nothing: not yet, or not any more. What it names
//! is freed unless a transaction takes the orphan away.
//!
//! SHELF-1. Blocks belong to one record, or to an orphan, or hold nothing: in every durable state. Who writes blocks
//!     outside of the transaction that names them has put an orphan before, durably.
//! SHELF-2. Blocks of a stream are given out once: the account that says from where on none was used goes with every
//!     transaction.
//! SHELF-3. A key is changed by one task at a time, and what a reader is told of a version is held before somebody else
//!     can change the key.
//! SHELF-4. What is held is not freed: it becomes an orphan, and the sweep waits for the last holder.
//! SHELF-5. The account follows the transactions in the order in which they are committed.
//! SHELF-6. A shard that was reopened has another shelf: holds of the former one read, write and commit nothing any
//!     more. All orphans that an opening finds are swept.
//!
//! What copies share is in [`mod@reference`].

mod audit;
mod change;
mod drop;
mod find;
mod giving;
mod held;
mod keys;
mod list;
mod locks;
mod record;
mod reference;
mod staging;
mod sweep;
mod uploads;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use varve_engine::planted::{Bug, planted};
use varve_engine::{BLOCK_BYTES, CommittedTransaction, Shard, Transaction, TransactionRoom};
use varve_reactor::Reactor;
use varve_stdx::BufSlice;
use varve_types::{ErrorKind, Reduction, ShardId, StreamId};

pub use audit::{BucketAudit, audit_bucket, buckets_of, compare_references};
pub use find::{BodyPiece, ShelfBody, ShelfFound, StoredBodyRef};
pub use held::Hold;
pub(crate) use reference::DEPTH_MAX;
pub use reference::{Reference, SharedBytes, StagedReference};
pub use staging::{BodyStaging, WrittenBody};
pub use sweep::GiveBack;

use crate::{BucketId, BucketUsage, Error, Result};
use held::ReleasedHolds;
use keys::BodyPlace;
use locks::KeyLocks;
use record::{BodyExtent, BucketCounts};

/// Keys fetched at once.
const BATCH: usize = 256;

/// Blocks that are trimmed in the transaction that frees them: larger runs cost the shard milliseconds, and go to the
/// sweep.
const TRIMMED_AT_ONCE_MAX: u64 = 1 << 14;

/// A body, as it comes to a shelf.
pub enum IncomingBody {
    /// Its bytes.
    Small(bytes::Bytes),
    /// Blocks that were written before.
    Staged(WrittenBody),
    /// Parts of an upload of the key.
    Parts {
        /// The upload.
        upload: crate::UploadId,
        /// Its parts, in the order of their numbers.
        parts: Vec<crate::PartRef>,
    },
}

/// A bucket on one shard. See the module.
pub struct BucketShard {
    shard: Rc<Shard>,
    reactor: Reactor,
    bucket: BucketId,
    reduction: Cell<Reduction>,
    counts: Cell<BucketCounts>,
    locks: KeyLocks,
    /// Places to which a reference is added, or that are freed (SHELF-REFERENCE-3).
    places: KeyLocks,
    /// How often a place is held.
    holds: RefCell<HashMap<BodyPlace, u32>>,
    /// Orphans that nobody is going to take, with their blocks.
    orphans: RefCell<BTreeMap<BodyPlace, u64>>,
    /// Orphans that references name (SHELF-REFERENCE-3), with their blocks.
    waiting: RefCell<BTreeMap<BodyPlace, u64>>,
    /// Orphans whose references are being given back to other shards: a task for each of these.
    giving: RefCell<BTreeMap<ShardId, BTreeSet<Reference>>>,
    /// There is a reference to what is here, or was since it was opened.
    has_references: Cell<bool>,
    /// References that were added since it was opened.
    references_added: Cell<u64>,
    /// References that were given back before they were added, the latest last, with their takers (SHELF-REFERENCE-5).
    gave_back_early: RefCell<VecDeque<(ShardId, Reference)>>,
    released: Arc<ReleasedHolds>,
    is_closed: Cell<bool>,
    parts_read: RefCell<find::PartsRead>,
}

/// What one transaction of a shelf changes.
#[derive(Default)]
struct TransactionPlan {
    writes: Vec<(BodyExtent, BufSlice)>,
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    deletes: Vec<Vec<u8>>,
    /// What is freed, and its blocks; parts have none of their own.
    frees: Vec<(BodyPlace, u64)>,
    objects: i64,
    bytes: i128,
    versions: i64,
    takes_space: bool,
}

impl TransactionPlan {
    fn room(&self) -> TransactionRoom {
        let changes = self.writes.len() + self.puts.len() + self.deletes.len() + self.frees.len();
        TransactionRoom {
            data_bytes: self.writes.iter().map(|(_, data)| data.len()).sum(),
            changes: changes + 1,
            takes_space: self.takes_space,
        }
    }

    fn counted(&self, before: BucketCounts) -> Result<BucketCounts> {
        let sum = || {
            Some(BucketCounts {
                objects: before.objects.checked_add_signed(self.objects)?,
                versions: before.versions.checked_add_signed(self.versions)?,
                bytes: u64::try_from(i128::from(before.bytes) + self.bytes).ok()?,
                ..before
            })
        };
        sum().ok_or_else(|| record::damaged("the account of a bucket"))
    }
}

impl Drop for BucketShard {
    fn drop(&mut self) {
        self.released.close(); // The sweep ends.
    }
}

impl BucketShard {
    /// Opens a bucket on a shard. What orphans name is freed from now on; `give_back` gives references back to other
    /// shelves of the bucket.
    ///
    /// # Errors
    /// `Corrupt` when keys cannot be read, `Unavailable` when the shard closed.
    pub async fn open(
        reactor: Reactor,
        shard: Rc<Shard>,
        bucket: BucketId,
        reduction: Reduction,
        give_back: GiveBack,
    ) -> Result<Rc<Self>> {
        let shelf = Self::open_to_read(reactor, shard, bucket).await?;
        shelf.set_reduction(reduction);
        shelf.find_orphans().await?; // SHELF-6
        shelf.find_references().await?;
        shelf.reactor.spawn(sweep::run(Rc::downgrade(&shelf), give_back));
        Ok(shelf)
    }

    /// Opens a bucket whose objects are only listed and read: nothing is freed, and the shard need not take changes.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_to_read(
        reactor: Reactor,
        shard: Rc<Shard>,
        bucket: BucketId,
    ) -> Result<Rc<Self>> {
        let counts = match shard.key_get(&keys::counts(bucket)).await? {
            None => BucketCounts::EMPTY,
            Some(bytes) => BucketCounts::decode(&bytes)?,
        };
        Ok(Rc::new(Self {
            shard,
            reactor,
            bucket,
            reduction: Cell::default(),
            counts: Cell::new(counts),
            locks: KeyLocks::default(),
            holds: RefCell::default(),
            orphans: RefCell::default(),
            places: KeyLocks::default(),
            waiting: RefCell::default(),
            giving: RefCell::default(),
            has_references: Cell::new(false),
            references_added: Cell::new(0),
            gave_back_early: RefCell::default(),
            released: Arc::default(),
            is_closed: Cell::new(false),
            parts_read: RefCell::default(),
        }))
    }

    /// The shard it stands on.
    #[must_use]
    pub fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    /// What it holds.
    #[must_use]
    pub fn usage(&self) -> BucketUsage {
        let counts = self.counts.get();
        BucketUsage { objects: counts.objects, bytes: counts.bytes }
    }

    /// Versions and delete markers on it.
    #[must_use]
    pub fn versions(&self) -> u64 {
        self.counts.get().versions
    }

    /// How blocks that are written from now on are reduced.
    pub fn set_reduction(&self, reduction: Reduction) {
        self.reduction.set(reduction);
    }

    /// Refuses changes from now on, or takes them again; the bucket is about to be deleted.
    pub fn set_closed(&self, is_closed: bool) {
        self.is_closed.set(is_closed);
    }

    fn check_open(&self) -> Result<()> {
        if self.is_closed.get() {
            let what = format!("bucket #{}, which is being deleted", self.bucket.0);
            return Err(Error::Unavailable { what });
        }
        Ok(())
    }

    /// Removes every key of the bucket; its blocks go with its stream. Nothing else is done with it any more.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed; it may be done again.
    pub async fn clear(&self) -> Result<()> {
        let at_once = self.shard.transaction_changes_max();
        self.orphans.borrow_mut().clear();
        self.waiting.borrow_mut().clear();
        self.giving.borrow_mut().values_mut().for_each(BTreeSet::clear);
        for range in keys::all(self.bucket) {
            loop {
                let found = self.shard.key_range(&range.start, Some(&range.end), at_once).await?;
                if found.is_empty() {
                    break;
                }
                let room = TransactionRoom { data_bytes: 0, changes: at_once, takes_space: false };
                let mut transaction = Transaction::default();
                found.iter().for_each(|(key, _)| transaction.delete(key));
                let admitted = self.shard.admit_transaction(room).await?;
                let committed = self.shard.commit(admitted, transaction)?;
                self.shard.settle_transaction(committed).await?;
            }
        }
        Ok(())
    }

    fn stream(&self) -> StreamId {
        StreamId::new(self.bucket.0)
    }

    /// Addresses for `len` bytes (SHELF-2).
    fn allocate(&self, len: u64) -> Result<BodyExtent> {
        let mut counts = self.counts.get();
        let blocks = len.div_ceil(BLOCK_BYTES as u64);
        let first = counts.take_blocks(blocks).ok_or(Error::NoSpace)?;
        self.counts.set(counts);
        Ok(BodyExtent { first, len })
    }

    fn fresh_id(&self) -> u64 {
        let mut counts = self.counts.get();
        let id = counts.take_id();
        self.counts.set(counts);
        id
    }

    /// Commits a plan as one transaction; what it says is visible on return, and durable once it is settled.
    async fn carry_out(&self, plan: TransactionPlan) -> Result<CommittedTransaction> {
        self.shard.set_reduction(self.stream(), self.reduction.get());
        let added = self.references_added.get();
        let referenced = self.referenced_of(&plan).await?;
        let admitted = self.shard.admit_transaction(plan.room()).await?;
        let none_added = self.references_added.get() == added;
        // From here on without a pause: SHELF-4, SHELF-5.
        self.check_open()?;
        self.settle_released();
        let counts = plan.counted(self.counts.get())?;
        let mut transaction = Transaction::default();
        let mut orphans = Vec::new();
        for (place, blocks) in &plan.frees {
            match place {
                BodyPlace::Extent(first)
                    if none_added // SHELF-REFERENCE-3
                        && !referenced.contains(place)
                        && self.is_freed_at_once(*place, *blocks) =>
                {
                    transaction.trim(self.stream(), *first, first + blocks);
                }
                _ => {
                    let value = record::encode_orphan(*blocks);
                    transaction.put(&keys::orphan(self.bucket, *place), value);
                    orphans.push((*place, *blocks));
                }
            }
        }
        for (extent, data) in plan.writes {
            transaction.write(self.stream(), extent.first, data);
        }
        plan.deletes.iter().for_each(|key| transaction.delete(key));
        for (key, value) in plan.puts {
            transaction.put(&key, value);
        }
        if !planted(Bug::BlocksGivenTwice) {
            transaction.put(&keys::counts(self.bucket), counts.encode()); // SHELF-2
        }
        let committed = self.shard.commit(admitted, transaction)?;
        self.counts.set(counts);
        if !orphans.is_empty() {
            self.orphans.borrow_mut().extend(orphans);
            self.released.wake();
        }
        Ok(committed)
    }

    /// Of what a plan frees the places that references name.
    async fn referenced_of(&self, plan: &TransactionPlan) -> Result<HashSet<BodyPlace>> {
        let mut found = HashSet::new();
        for (place, _) in &plan.frees {
            if let Some(target) = place.target()
                && self.is_referenced(target).await?
            {
                found.insert(*place);
            }
        }
        Ok(found)
    }

    fn is_freed_at_once(&self, place: BodyPlace, blocks: u64) -> bool {
        let is_held = self.holds.borrow().contains_key(&place) && !planted(Bug::HeldIsFreed);
        !is_held && blocks <= TRIMMED_AT_ONCE_MAX
    }
}

impl From<varve_engine::Error> for Error {
    fn from(error: varve_engine::Error) -> Self {
        if let varve_engine::Error::Log(log) = &error
            && log.is_read_failure()
        {
            return Self::Unavailable { what: error.to_string() };
        }
        match error.kind() {
            ErrorKind::NoSpace => Self::NoSpace,
            ErrorKind::Corrupt => Self::Corrupt { what: error.to_string() },
            ErrorKind::Unavailable | ErrorKind::Closed | ErrorKind::Fenced => {
                Self::Unavailable { what: error.to_string() }
            }
            ErrorKind::NotFound
            | ErrorKind::Exists
            | ErrorKind::Invalid
            | ErrorKind::Unsupported
            | ErrorKind::Denied
            | ErrorKind::Conflict
            | ErrorKind::Internal => Self::Internal { what: error.to_string() },
        }
    }
}
