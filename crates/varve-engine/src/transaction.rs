//! Changes of blocks and keys that happen together or not at all: what names data becomes durable with the data.
//!
//! ```text
//!  admit ──▶ commit: numbered, in one frame, visible, in one step ──▶ durable: the frame is
//! ```
//!
//! TRANSACTION-1. The records of a transaction stand side by side in one frame, which survives a crash as a whole or
//!     not at all.
//! TRANSACTION-2. They are numbered, appended and entered in buffer and pending keys in one step without a pause: who
//!     sees one of them sees all, and the value of a key may follow from what the transaction before it left.
//! TRANSACTION-3. Draining may put them into several segments. Until all of these are applied the frame stays in the
//!     lane, so a crash between two of them is mended by replay (RECOVERY-3).
//! TRANSACTION-4. What takes space is admitted as data are, keys included; what gives it back, or replaces what took
//!     it, has the reserve of trims.

use std::rc::Rc;

use varve_logstore::format::record::RecordKind;
use varve_logstore::lane::{FRAME_RECORDS_MAX, JournalFrame, JournalRecord};
use varve_logstore::planted::{Bug, planted};
use varve_stdx::BufSlice;
use varve_types::{BlockIndex, StreamId};

use crate::admission::Permit;
use crate::apply::charge;
use crate::config::BLOCK_BYTES;
use crate::tree::TREE_ENTRY_BYTES_MAX;
use crate::trees::user_key;
use crate::{Error, Result, Shard};

/// Changes of a transaction at most: it leaves room for others in its frame.
const TRANSACTION_CHANGES_MAX: usize = 128;

const _: () = assert!(TRANSACTION_CHANGES_MAX <= FRAME_RECORDS_MAX);

/// Bytes that the largest key takes in a frame with its value.
const KEY_BYTES_MAX: usize = 2048;

const _: () = assert!(TREE_ENTRY_BYTES_MAX <= KEY_BYTES_MAX, "no key takes more");

/// Bytes of data of a transaction at most, where the lane's frames are that long.
const DATA_BYTES_MAX: usize = 256 << 10;

const _: () = assert!(DATA_BYTES_MAX.is_multiple_of(BLOCK_BYTES), "whole blocks");

/// What a transaction takes at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TransactionRoom {
    /// Bytes of data, whole blocks.
    pub data_bytes: usize,
    /// Changes, each run of blocks being one.
    pub changes: usize,
    /// Whether it takes space: data and keys, as long as there is room for them. If not it is let in although the shard
    /// is full.
    pub takes_space: bool,
}

/// Credits and space for a transaction; dropping it gives them back.
#[must_use = "it holds credits"]
pub struct AdmittedTransaction {
    room: TransactionRoom,
    credits: Permit,
}

enum TransactionChange {
    Write { stream: StreamId, block: BlockIndex, data: BufSlice },
    Trim { stream: StreamId, first: BlockIndex, end: BlockIndex },
    Key { key: Vec<u8>, value: Option<Vec<u8>> },
}

/// What is to happen together.
#[derive(Default)]
pub struct Transaction {
    changes: Vec<TransactionChange>,
}

impl Transaction {
    /// Writes whole blocks, from `block` on.
    pub fn write(&mut self, stream: StreamId, block: BlockIndex, data: BufSlice) {
        assert!(!data.is_empty() && data.len().is_multiple_of(BLOCK_BYTES), "whole blocks");
        self.changes.push(TransactionChange::Write { stream, block, data });
    }

    /// Makes blocks `first .. end` holes.
    pub fn trim(&mut self, stream: StreamId, first: BlockIndex, end: BlockIndex) {
        assert!(first < end, "a range holds a block");
        self.changes.push(TransactionChange::Trim { stream, first, end });
    }

    /// Sets a key.
    pub fn put(&mut self, key: &[u8], value: Vec<u8>) {
        self.changes.push(TransactionChange::Key { key: user_key(key), value: Some(value) });
    }

    /// Removes a key, if it is there.
    pub fn delete(&mut self, key: &[u8]) {
        self.changes.push(TransactionChange::Key { key: user_key(key), value: None });
    }

    /// Whether nothing is to happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn data_bytes(&self) -> usize {
        let bytes = |change: &TransactionChange| match change {
            TransactionChange::Write { data, .. } => data.len(),
            TransactionChange::Trim { .. } | TransactionChange::Key { .. } => 0,
        };
        self.changes.iter().map(bytes).sum()
    }
}

/// A transaction that is visible, and durable sooner or later; or never, if the shard closes before.
#[must_use = "it may not be durable yet"]
pub struct CommittedTransaction {
    frame: Option<Rc<JournalFrame>>,
    streams: Vec<StreamId>,
}

impl Shard {
    /// Bytes of data that a transaction may write at most, together with some keys.
    #[must_use]
    pub fn transaction_bytes_max(&self) -> usize {
        let most = (self.lane().payload_max() / 2).min(DATA_BYTES_MAX);
        most / BLOCK_BYTES * BLOCK_BYTES
    }

    /// Changes that a transaction may make at most, whatever data it writes: as many as keys fit beside them; 8 in the
    /// shortest lanes.
    #[must_use]
    pub fn transaction_changes_max(&self) -> usize {
        assert!(
            self.transaction_bytes_max() <= self.lane().payload_max(),
            "a frame holds the data"
        ); // TRANSACTION-1
        let keys_bytes = self.lane().payload_max() - self.transaction_bytes_max();
        (keys_bytes / KEY_BYTES_MAX).min(TRANSACTION_CHANGES_MAX)
    }

    /// Takes credits and space for a transaction.
    ///
    /// # Errors
    /// `NoSpace` when it takes space and there is none, `Invalid` when it is too large, `Unavailable` when the shard
    /// closed.
    pub async fn admit_transaction(&self, room: TransactionRoom) -> Result<AdmittedTransaction> {
        self.check_open()?;
        let most = self.transaction_bytes_max();
        check_at_most("bytes of data of a transaction", room.data_bytes, most)?;
        check_at_most("changes of a transaction", room.changes, self.transaction_changes_max())?;
        let bytes = room.data_bytes as u64 + room.changes as u64 * charge(0);
        let credits = if room.takes_space {
            self.admit_credits(StreamId::ZERO, bytes, room.data_bytes as u64 + charge(0)).await?
        } else {
            self.admit_records(bytes).await?
        };
        Ok(AdmittedTransaction { room, credits })
    }

    /// Numbers the changes and makes them visible, in this step (TRANSACTION-2). They are durable when
    /// [`Self::settle_transaction`] says so.
    ///
    /// # Errors
    /// `Invalid` when a key does not fit the key tree, `Unavailable` when the shard closed; nothing has happened then.
    ///
    /// # Panics
    /// When it is more than was admitted, or writes blocks that somebody is merging parts of.
    pub fn commit(
        &self,
        admitted: AdmittedTransaction,
        transaction: Transaction,
    ) -> Result<CommittedTransaction> {
        let AdmittedTransaction { room, mut credits } = admitted;
        assert!(transaction.changes.len() <= room.changes, "no more changes than were admitted");
        assert!(transaction.data_bytes() <= room.data_bytes, "no more data than were admitted");
        assert!(room.takes_space || room.data_bytes == 0, "data take space"); // TRANSACTION-4
        self.check_open()?;
        for change in &transaction.changes {
            if let TransactionChange::Key { key, value } = change {
                self.check_key(key, value.as_deref())?;
            }
        }
        if transaction.is_empty() {
            return Ok(CommittedTransaction { frame: None, streams: Vec::new() });
        }
        let records: Vec<Rc<JournalRecord>> =
            transaction.changes.iter().map(|change| self.change_record(change, &room)).collect();
        debug_assert!(records.is_sorted_by(|a, b| a.header.wseq < b.header.wseq)); // TRANSACTION-2
        let frame = if planted(Bug::TransactionTorn) {
            let frames = records.iter().map(|record| self.lane().append(Rc::clone(record)));
            frames.last().expect("a transaction holds a change")
        } else {
            self.lane().append_together(&records) // TRANSACTION-1
        };
        let mut streams = Vec::new();
        for (change, record) in transaction.changes.iter().zip(&records) {
            credits.keep_part(charge(record.payload.len()));
            match change {
                TransactionChange::Write { stream, .. } => {
                    self.enter_blocks(record, &frame);
                    streams.push(*stream);
                }
                TransactionChange::Trim { stream, .. } => {
                    self.enter_cleared(record, &frame);
                    streams.push(*stream);
                }
                TransactionChange::Key { key, value } => {
                    let (key, wseq) = (key.clone(), record.header.wseq);
                    self.admission.pending_keys.borrow_mut().insert(
                        key,
                        wseq,
                        &frame,
                        value.as_deref(),
                    );
                }
            }
        }
        Ok(CommittedTransaction { frame: Some(frame), streams })
    }

    fn change_record(
        &self,
        change: &TransactionChange,
        room: &TransactionRoom,
    ) -> Rc<JournalRecord> {
        let is_reserved = !room.takes_space;
        match change {
            TransactionChange::Write { stream, block, data } => {
                let end = *block + (data.len() / BLOCK_BYTES) as u64;
                assert!(
                    !self.admission.claims.any(*stream, *block, end),
                    "whole blocks of a stream of its own"
                );
                self.write_record(*stream, *block, data.clone())
            }
            TransactionChange::Trim { stream, first, end } => {
                let record = self.clear_record(*stream, *first, *end, RecordKind::Trim);
                Rc::new(JournalRecord { is_reserved, ..record })
            }
            TransactionChange::Key { key, value } => {
                let record = self.key_record(key, value.as_deref());
                Rc::new(JournalRecord { is_reserved, ..record })
            }
        }
    }

    /// Waits until a transaction is durable.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed before: then it has happened as a whole or not at all.
    pub async fn settle_transaction(&self, committed: CommittedTransaction) -> Result<()> {
        let Some(frame) = committed.frame else { return Ok(()) };
        self.wait_frame(&frame).await?;
        for stream in committed.streams {
            self.admission.cuts.wait_released(stream).await;
        }
        Ok(())
    }
}

fn check_at_most(what: &'static str, value: usize, limit: usize) -> Result<()> {
    if value <= limit {
        return Ok(());
    }
    Err(Error::TooLarge { what, value: value as u64, limit: limit as u64 })
}
