//! The content of a stream on one shard: its account, its transactions, its orphans. One value a stream, shard and
//! opening of the shard, on the shard's thread.
//!
//! ```text
//!  few bytes   ──────────────────────────────▶ transaction: blocks, record, account
//!  many bytes  ──▶ orphan ──▶ blocks ─────────▶ transaction: record, account, no orphan any more
//!  overwritten, removed ──▶ transaction: record, blocks trimmed, account
//!                           or, while they are read or are many, an orphan ──▶ sweep
//! ```
//!
//! An **orphan** is a key that names blocks, or a series, that belong to nothing: not yet, or not any more. What it
//! names is freed unless a transaction takes the orphan away.
//!
//! CONTENT-1. Blocks belong to one record, or to an orphan, or hold nothing: in every durable state. Who writes blocks
//!     outside of the transaction that names them has put an orphan before, durably.
//! CONTENT-2. Blocks of a stream are given out once: the account that says from where on none was used goes with every
//!     transaction.
//! CONTENT-3. What is held is not freed: it becomes an orphan, and the sweep waits for the last holder.
//! CONTENT-4. The account follows the transactions in the order in which they are committed.
//! CONTENT-5. A shard that was reopened has another value: holds of the former one read, write and commit nothing any
//!     more. All orphans that an opening finds are swept.
//!
//! What is shared is in [`mod@crate::reference`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use varve_engine::planted::{Bug, planted};
use varve_engine::{BLOCK_BYTES, CommittedTransaction, Shard, Transaction, TransactionRoom};
use varve_reactor::Reactor;
use varve_types::{BlockIndex, Reduction, ShardId, StreamId};

use crate::account::ContentAccount;
use crate::content::{ContentExtent, ContentPlace, RecordContent, Reference};
use crate::hold::{HeldFor, Hold, ReleasedHolds};
use crate::locks::KeyLocks;
use crate::plan::TransactionPlan;
use crate::series::RecentSeries;
use crate::{Error, Result, keys, record};

/// Keys fetched at once.
pub(crate) const BATCH: usize = 256;

/// Blocks that are trimmed in the transaction that frees them: larger runs cost the shard milliseconds, and go to the
/// sweep.
pub const TRIMMED_AT_ONCE_MAX: u64 = 1 << 14;

/// Which contents a record of a series names.
pub type ReadRecord = fn(&[u8]) -> Result<RecordContent>;

/// What a [`ContentShard`] is of.
pub struct ContentOptions {
    /// The thread's.
    pub reactor: Reactor,
    /// The shard.
    pub shard: Rc<Shard>,
    /// The stream, whose blocks hold the bytes.
    pub stream: StreamId,
    /// The format of the layer above.
    pub read_record: ReadRecord,
}

/// The content of a stream on one shard. See the module.
pub struct ContentShard {
    pub(crate) shard: Rc<Shard>,
    pub(crate) reactor: Reactor,
    pub(crate) stream: StreamId,
    pub(crate) read_record: ReadRecord,
    reduction: Cell<Reduction>,
    account: Cell<ContentAccount>,
    /// Places to which a reference is added, or that are freed (CONTENT-REFERENCE-3).
    pub(crate) places: KeyLocks,
    /// How often a place is held.
    pub(crate) holds: RefCell<HashMap<ContentPlace, u32>>,
    /// Orphans that nobody is going to take, with their blocks.
    pub(crate) orphans: RefCell<BTreeMap<ContentPlace, u64>>,
    /// Orphans that references name (CONTENT-REFERENCE-3), with their blocks.
    pub(crate) waiting: RefCell<BTreeMap<ContentPlace, u64>>,
    /// Orphans whose references are being given back to other shards: a task for each of these.
    pub(crate) giving: RefCell<BTreeMap<ShardId, BTreeSet<Reference>>>,
    /// There is a reference to what is here, or was since it was opened.
    pub(crate) has_references: Cell<bool>,
    /// References that were added since it was opened.
    pub(crate) references_added: Cell<u64>,
    /// References that were given back before they were added, the latest last, with their takers
    /// (CONTENT-REFERENCE-5).
    pub(crate) gave_back_early: RefCell<VecDeque<(ShardId, Reference)>>,
    pub(crate) released: Arc<ReleasedHolds>,
    is_closed: Cell<bool>,
    pub(crate) series_read: RefCell<RecentSeries>,
}

impl Drop for ContentShard {
    fn drop(&mut self) {
        self.released.close(); // The sweep ends.
    }
}

impl ContentShard {
    /// Opens content that is only read: nothing is freed, and the shard need not take changes.
    ///
    /// # Errors
    /// `Corrupt` when keys cannot be read, `Unavailable` when the shard closed.
    pub async fn open_to_read(options: ContentOptions) -> Result<Rc<Self>> {
        let ContentOptions { reactor, shard, stream, read_record } = options;
        let account = match shard.key_get(&keys::account(stream)).await? {
            None => ContentAccount::EMPTY,
            Some(bytes) => ContentAccount::decode(&bytes)?,
        };
        Ok(Rc::new(Self {
            shard,
            reactor,
            stream,
            read_record,
            reduction: Cell::default(),
            account: Cell::new(account),
            places: KeyLocks::default(),
            holds: RefCell::default(),
            orphans: RefCell::default(),
            waiting: RefCell::default(),
            giving: RefCell::default(),
            has_references: Cell::new(false),
            references_added: Cell::new(0),
            gave_back_early: RefCell::default(),
            released: Arc::default(),
            is_closed: Cell::new(false),
            series_read: RefCell::default(),
        }))
    }

    /// The shard it is on.
    #[must_use]
    pub fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    /// The stream it is of.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// What it holds.
    #[must_use]
    pub fn account(&self) -> ContentAccount {
        self.account.get()
    }

    /// How blocks that are written from now on are reduced.
    pub fn set_reduction(&self, reduction: Reduction) {
        self.reduction.set(reduction);
    }

    /// Tells the shard how blocks of the stream are reduced.
    pub(crate) fn apply_reduction(&self) {
        self.shard.set_reduction(self.stream, self.reduction.get());
    }

    /// Refuses changes from now on, or takes them again; the stream is about to be deleted.
    pub fn set_closed(&self, is_closed: bool) {
        self.is_closed.set(is_closed);
    }

    /// Refuses while it is closed.
    ///
    /// # Errors
    /// `Closed`.
    pub fn check_open(&self) -> Result<()> {
        match self.is_closed.get() {
            true => Err(Error::Closed { stream: self.stream }),
            false => Ok(()),
        }
    }

    /// Removes the keys of the layer above, which these ranges hold, and then its own; the blocks go with the stream.
    /// Nothing else is done with it any more.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed; it may be done again.
    pub async fn clear(&self, above: impl IntoIterator<Item = Range<Vec<u8>>>) -> Result<()> {
        let at_once = self.shard.transaction_changes_max();
        self.orphans.borrow_mut().clear();
        self.waiting.borrow_mut().clear();
        self.giving.borrow_mut().values_mut().for_each(BTreeSet::clear);
        for range in above.into_iter().chain(keys::all(self.stream)) {
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

    /// Addresses for `len` bytes (CONTENT-2).
    pub(crate) fn allocate(&self, len: u64) -> Result<ContentExtent> {
        let mut account = self.account.get();
        let blocks = len.div_ceil(BLOCK_BYTES as u64);
        let first = account.take_blocks(blocks).ok_or(Error::NoSpace)?;
        self.account.set(account);
        Ok(ContentExtent::new(first, len))
    }

    /// A number that was not given before on this shard, for a series or whatever the layer above numbers.
    #[must_use]
    pub fn new_id(&self) -> u64 {
        let mut account = self.account.get();
        let id = account.take_id();
        self.account.set(account);
        id
    }

    /// Waits until there is room for a plan, and gives it up again.
    ///
    /// # Errors
    /// `NoSpace`, `Unavailable`.
    pub async fn check_room(&self, plan: &TransactionPlan) -> Result<()> {
        drop(self.shard.admit_transaction(plan.room()).await?);
        Ok(())
    }

    /// Commits a plan as one transaction; what it says is visible on return, and durable once it is settled.
    ///
    /// # Errors
    /// `NoSpace`, `Closed`, `Corrupt`, `Unavailable`; nothing is changed then.
    pub async fn commit(&self, plan: TransactionPlan) -> Result<CommittedTransaction> {
        self.apply_reduction();
        let added = self.references_added.get();
        let referenced = self.referenced_of(&plan).await?;
        let admitted = self.shard.admit_transaction(plan.room()).await?;
        let none_added = self.references_added.get() == added;
        // From here on without a pause: CONTENT-3, CONTENT-4.
        self.check_open()?;
        self.settle_released();
        let TransactionPlan { writes, puts, deletes, frees, taken, tally, .. } = plan;
        let account = self.account.get().changed(tally);
        let account = account.ok_or_else(|| Error::damaged("the account of a stream"))?;
        let mut transaction = Transaction::default();
        let mut orphans = Vec::new();
        for (place, blocks) in &frees {
            match place {
                ContentPlace::Extent(first)
                    if none_added // CONTENT-REFERENCE-3
                        && !referenced.contains(place)
                        && self.is_freed_at_once(*place, *blocks) =>
                {
                    let end = BlockIndex(first + blocks);
                    transaction.trim(self.stream, BlockIndex(*first), end);
                }
                _ => {
                    let value = record::encode_orphan(*blocks);
                    transaction.put(&keys::orphan(self.stream, *place), value);
                    orphans.push((*place, *blocks));
                }
            }
        }
        for (extent, data) in writes {
            transaction.write(self.stream, BlockIndex(extent.first()), data);
        }
        deletes.iter().for_each(|key| transaction.delete(key));
        for (key, value) in puts {
            transaction.put(&key, value);
        }
        if !planted(Bug::BlocksGivenTwice) {
            transaction.put(&keys::account(self.stream), account.encode()); // CONTENT-2
        }
        let committed = self.shard.commit(admitted, transaction)?;
        self.account.set(account);
        taken.into_iter().for_each(|written| written.settle());
        if !orphans.is_empty() {
            self.orphans.borrow_mut().extend(orphans);
            self.released.wake();
        }
        Ok(committed)
    }

    /// Waits until a transaction is durable.
    ///
    /// # Errors
    /// `Unavailable`: whether it is, the next opening of the shard finds out.
    pub async fn settle(&self, committed: CommittedTransaction) -> Result<()> {
        Ok(self.shard.settle_transaction(committed).await?)
    }

    /// Of what a plan frees the places that references name.
    async fn referenced_of(&self, plan: &TransactionPlan) -> Result<HashSet<ContentPlace>> {
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

    fn is_freed_at_once(&self, place: ContentPlace, blocks: u64) -> bool {
        let is_held = self.holds.borrow().contains_key(&place) && !planted(Bug::HeldIsFreed);
        !is_held && blocks <= TRIMMED_AT_ONCE_MAX
    }

    /// Holds a place that a record names, for a reader (CONTENT-3). Nobody can change the record meanwhile.
    #[must_use]
    pub fn hold(&self, place: ContentPlace) -> Hold {
        *self.holds.borrow_mut().entry(place).or_default() += 1;
        Hold::new(&self.released, place, HeldFor::Reading)
    }

    /// Holds blocks that were staged: an orphan until somebody takes them.
    pub(crate) fn hold_staged(&self, first: u64, blocks: u64) -> Hold {
        Hold::new(&self.released, ContentPlace::Extent(first), HeldFor::Staged(blocks))
    }

    /// Holds a reference that was staged: an orphan until somebody takes it.
    pub(crate) fn hold_staged_place(&self, place: ContentPlace) -> Hold {
        Hold::new(&self.released, place, HeldFor::Staged(0))
    }

    /// Takes notice of holds that were dropped.
    pub(crate) fn settle_released(&self) {
        let mut holds = self.holds.borrow_mut();
        for (place, held_for) in self.released.take() {
            match held_for {
                HeldFor::Staged(blocks) => {
                    self.orphans.borrow_mut().insert(place, blocks);
                }
                HeldFor::Reading => {
                    let count = holds.get_mut(&place).expect("holds are counted");
                    *count -= 1;
                    if *count == 0 {
                        holds.remove(&place);
                    }
                }
            }
        }
    }

    /// Refuses holds of an opening before this one (CONTENT-5).
    pub(crate) fn check_known(&self, hold: &Hold) -> Result<()> {
        if hold.is_of(&self.released) {
            return Ok(());
        }
        Err(Error::Unavailable { what: "content whose shard was reopened".to_owned() })
    }
}
