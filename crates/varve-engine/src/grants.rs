//! Chunks of this shard that others name: how they are granted, and read. The invariants stand in `peers.rs`.
//!
//! ```text
//!  asked ──in the table, alive──▶ counted ──record durable──▶ answered
//!              └── shared already ──▶ answered
//!  record drained ──applied──▶ shared, counted no more
//! ```

use std::collections::BTreeSet;

use futures_util::future::{Either, select, try_join_all};
use varve_logstore::format::record::{GRANTED_MAX, RecordKind, decode_grant, encode_grant};
use varve_logstore::format::summary::{Fingerprint, SummaryEntry};
use varve_logstore::lane::JournalRecord;
use varve_logstore::planted::{Bug, planted};
use varve_logstore::space::unit_space;
use varve_stdx::{AlignedBuf, BufSlice};
use varve_types::{ChunkId, StreamId};

use crate::admission::Permit;
use crate::apply::charge;
use crate::config::BLOCK_BYTES;
use crate::peers::ASK_NS_MAX;
use crate::read::CHUNKS_AT_ONCE;
use crate::reclaim::runs;
use crate::trees::{PAGE_ID_FIRST, Stop, Trees};
use crate::{Result, Shard};

/// How long who asks for grants waits for credits, in ns: a segment is put and applied meanwhile, and the answer is no
/// late one.
const CREDITS_NS_MAX: u64 = 50_000_000;

const _: () = assert!(CREDITS_NS_MAX < ASK_NS_MAX, "the answer is no late one"); // PEERS-10

/// What a round of grants has so far.
struct Round {
    /// For the record, if there is room for one.
    credits: Option<Permit>,
    /// Chunks that are not shared yet.
    unshared: BTreeSet<ChunkId>,
}

impl Shard {
    /// Lets another shard name chunks with these fingerprints; none for one that is not here, or not to be had at once.
    /// What is granted is durable on return (PEERS-2). Costs a frame of the lane when a chunk is granted for the first
    /// time.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed: nothing is granted then.
    pub async fn grant(&self, fingerprints: &[Fingerprint]) -> Result<Vec<Option<ChunkId>>> {
        self.check_open()?;
        let known: Vec<_> = fingerprints.iter().copied().map(Some).collect();
        self.follow_hooks(&known).await;
        self.check_open()?;
        let credits = self.take_grant_credits().await;
        self.check_open()?;
        let mut round = Round { credits, unshared: BTreeSet::new() };
        let granted: Vec<_> = fingerprints
            .iter()
            .map(|fingerprint| self.grant_one(*fingerprint, &mut round))
            .collect();
        let Round { credits, unshared } = round;
        if unshared.is_empty() {
            return Ok(granted);
        }
        let unshared: Vec<_> = unshared.into_iter().collect();
        assert!(unshared.len() <= GRANTED_MAX, "a record holds them");
        credits.expect("taken before what needs a record").keep();
        let payload = AlignedBuf::from_slice(&encode_grant(&unshared));
        let (_, frame) = self.append_payload(RecordKind::Grant, StreamId::ZERO, payload);
        if !planted(Bug::GrantBeforeDurable) {
            self.wait_frame(&frame).await?; // PEERS-2
        }
        Ok(granted)
    }

    /// Credits for a record of grants; none, and so no grant, when they do not come back in time: the drain may wait
    /// for the shard that asks (PEERS-10). Who comes after one that waited in vain does not wait until there are some
    /// again.
    async fn take_grant_credits(&self) -> Option<Permit> {
        let credits = &self.admission.credits.grants;
        let at_once = credits.try_take(charge(0));
        if credits.is_getting_scarce() {
            self.drain.grants_wait.set(true); // Credits come back when the segment is applied.
            self.drain.request();
            self.admission.press();
        }
        if at_once.is_some() || self.drain.grant_credit_timeout.get() {
            self.drain.grant_credit_timeout.set(at_once.is_none());
            return at_once;
        }
        let taken = Box::pin(credits.take(charge(0)));
        match select(taken, self.reactor.sleep(CREDITS_NS_MAX)).await {
            Either::Left((taken, _)) => Some(taken),
            Either::Right(_) => {
                self.drain.grant_credit_timeout.set(true);
                None
            }
        }
    }

    fn grant_one(&self, fingerprint: Fingerprint, round: &mut Round) -> Option<ChunkId> {
        let mut dedup = self.reduce.dedup.borrow_mut();
        let chunk = dedup.find(fingerprint)?;
        let trees = self.trees.borrow();
        let is_shared = match trees.chunk(chunk) {
            Ok(Some(entry)) => entry.shared,
            Ok(None) if planted(Bug::GrantOfUndurable) && chunk > self.apply.chunk() => false,
            Ok(None) | Err(_) => return None, // PEERS-1: what is in the table is durable.
        };
        if !is_shared {
            let is_dead = trees.deaths.contains(chunk) && !planted(Bug::DeadIsGranted);
            let has_room = round.credits.is_some() && round.unshared.len() < GRANTED_MAX;
            if is_dead || !has_room || round.unshared.contains(&chunk) {
                return None; // PEERS-1
            }
            dedup.grant(chunk); // PEERS-3
            round.unshared.insert(chunk);
        }
        if let Some(pass) = self.mark.pass.borrow_mut().as_mut() {
            pass.note_grant(chunk); // PEERS-7
        }
        Some(chunk)
    }

    /// Appends a grant to the data segments. The caller holds the data gate.
    pub(crate) async fn drain_grant(&self, record: &JournalRecord) -> Result<()> {
        assert!(self.drain.gate.taken() > 0, "who appends holds the gate"); // DRAIN-5
        let wseq = record.header.wseq;
        for (first, count) in runs(&self.granted_by(&record.payload)?) {
            self.push_data_entry(SummaryEntry::Grant { first, count, wseq }, wseq).await?;
        }
        Ok(())
    }

    /// The chunks that the payload of a grant names.
    pub(crate) fn granted_by(&self, payload: &[u8]) -> Result<Vec<ChunkId>> {
        let chunks = decode_grant(payload)?;
        match chunks.iter().find(|chunk| chunk.get() >= PAGE_ID_FIRST) {
            Some(page) => Err(self.bad_root(format!("{page} is granted, no id of data"))),
            None => Ok(chunks),
        }
    }

    /// Marks granted chunks as shared. What is gone by now was freed by mark: this is a record that is drained again.
    pub(crate) async fn apply_grant(&self, first: ChunkId, count: u64) -> Result<()> {
        assert!(self.trees_are_held(), "the table changes under its gate"); // APPLY-2
        for chunk in (first.get()..first.get() + count).map(ChunkId::new) {
            self.with_pages(|trees| trees.share_chunk(chunk)).await?;
            self.reduce.dedup.borrow_mut().settle(chunk); // PEERS-3
        }
        Ok(())
    }

    /// Counts chunks of an entry or record that recovery is going to apply (PEERS-3).
    pub(crate) fn count_granted(&self, chunks: impl IntoIterator<Item = ChunkId>) {
        assert!(self.admission.lane().is_none(), "recovery counts what it is going to apply"); // PEERS-3
        if planted(Bug::GrantsForgottenInReplay) {
            return;
        }
        let mut dedup = self.reduce.dedup.borrow_mut();
        chunks.into_iter().for_each(|chunk| dedup.grant(chunk));
    }

    /// Other shards named this one's chunks, and do not any more, so many times (PEERS-8).
    pub fn note_foreign_overwritten(&self, count: u64) {
        let mean = u64::from(self.trees.borrow().data.mean_bytes());
        self.note_kept(count.saturating_mul(mean));
    }

    /// Reads chunks of this shard for another one; none for one that is not here.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes do not match their checksum; never wrong bytes.
    pub async fn read_chunks(&self, chunks: &[ChunkId]) -> Result<Vec<Option<BufSlice>>> {
        self.check_open()?;
        let bytes = chunks.len() * BLOCK_BYTES;
        let reads = chunks.chunks(CHUNKS_AT_ONCE).map(|some| self.read_some_chunks(some, bytes));
        let read: Vec<_> = try_join_all(reads).await?.into_iter().flatten().collect();
        assert_eq!(read.len(), chunks.len(), "an answer for each");
        Ok(read)
    }

    /// Bytes of segments that chunks take; none for one that is not here.
    ///
    /// # Errors
    /// `Corrupt` when the table cannot be read there.
    pub async fn stored_bytes(&self, chunks: &[ChunkId]) -> Result<Vec<Option<u32>>> {
        self.prefetch_places(chunks.iter().copied()).await;
        let mut stored: Vec<Option<u32>> = Vec::with_capacity(chunks.len());
        let step = |trees: &mut Trees| -> std::result::Result<_, Stop> {
            while let Some(chunk) = chunks.get(stored.len()) {
                let entry = trees.chunk(*chunk)?;
                stored.push(entry.map(|entry| unit_space(entry.stored_len)));
            }
            Ok(())
        };
        self.with_pages(step).await?;
        assert_eq!(stored.len(), chunks.len(), "each chunk was looked up");
        Ok(stored)
    }
}
