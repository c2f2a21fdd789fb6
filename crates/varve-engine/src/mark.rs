//! Finds what nothing names any more, and frees it: three steps that a coordinator takes on all shards together.
//!
//! ```text
//!  begin on all shards → walk on all → sweep on all
//! ```
//!
//! MARK-1. Only ids below the ceilings of `begin` are swept; every chunk below them was in a map or dead by then.
//! MARK-2. What a live map or the key tree names from begin to the end of the walk is marked, under whatever order they
//!     change.
//! MARK-3. Frees are logged and durable before they are applied, and applied before the space is reused.
//! MARK-4. A page that was changed since the last checkpoint is left to the next one: recovery still reads it.
//! MARK-5. Streams that were dropped before the walk are gone from the trees before the sweep frees what they named.
//! MARK-6. A chunk with a grant, or granted during the pass, is marked; one that was found to be garbage is granted no
//!     more.
//! MARK-7. A pass that is not finished is forgotten; nothing of it is durable but its frees.
//! MARK-8. A stream that is cut off another one during the pass is walked as well: the other one may be gone before its
//!     own turn.
//! MARK-9. What many copies have in common is walked once: below a page of a map that did not change during its walk.
//! MARK-10. A write that finds no room waits for the pass that may make some, and is refused only after one that began
//!     later.
//! MARK-11. Names of chunks of other shards are collected beside the bitmap, and every sweep begins with those of all
//!     shards (PEERS-7).

mod room;
mod state;

use hashbrown::HashSet;
use roaring::RoaringTreemap;
use varve_logstore::format::pointer::PagePtr;
use varve_logstore::format::summary::SummaryEntry;
use varve_logstore::planted::{Bug, planted};
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId, WriteSeq};

use crate::mark::state::MarkPass;
use crate::peers::{ForeignChunk, ForeignNames};
use crate::reclaim::runs;
use crate::tree::{Map, WalkItem};
use crate::trees::PAGE_ID_FIRST;
use crate::walk::{GateUse, STEP, TableEntry};
use crate::{Error, Result, Shard};

pub use room::MarkWish;
pub use state::MarkTicket;
pub(crate) use state::{MarkState, MarkWaiter};

/// What a mark pass did on one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MarkReport {
    /// Chunks and pages that are named.
    pub marked: u64,
    /// Chunks and pages that were freed.
    pub freed: u64,
    /// Stored bytes of those.
    pub freed_bytes: u64,
    /// Streams without an owner that were dropped.
    pub dropped_streams: u64,
    /// Of what was freed, what is still there; only [`Shard::mark_sweep_proved`] looks.
    pub leaked: u64,
}

impl Shard {
    /// Begins a pass; one that was under way is forgotten (MARK-7). Map updates that wait are put into their pages
    /// first.
    ///
    /// # Errors
    /// `Unavailable` when the shard is closed.
    pub async fn mark_begin(&self) -> Result<MarkTicket> {
        self.check_open()?;
        self.sweep_waiting().await?; // What is in pages under what waits would be marked as if something named it.
        // No copy comes between the list of streams and the begin (MARK-8).
        let _gate = self.apply.tree_gate.take(1).await;
        let streams = self.streams().await?;
        let number = self.mark.passes.get() + 1;
        assert!(number > self.mark.ended.get(), "passes end after they begin");
        self.mark.passes.set(number);
        let ticket = MarkTicket { mount: self.lifecycle.mount(), number };
        let next_chunk = self.trees.borrow().next_chunk;
        assert!(self.apply.chunk() < next_chunk, "what is applied was given an id"); // MARK-1
        self.mark.pass.replace(Some(MarkPass {
            marked: self.reduce.dedup.borrow().granted().map(ChunkId::get).collect(), // MARK-6
            chunk_ceiling: self.apply.chunk().next(),                                 // MARK-1
            page_ceiling: self.trees.borrow().names.next(),
            streams,
            ticket,
            is_walked: false,
            kept_bytes: self.reduce.dedup.borrow().kept_bytes(),
            copies: Vec::new(),
            finished: RoaringTreemap::new(),
            foreign: ForeignNames::default(),
        }));
        self.mark.wanted.set(false);
        Ok(ticket)
    }

    /// Marks what `owned` streams and the key tree name; streams that existed at the beginning and nobody owns are
    /// dropped. Tells also which chunks of other shards are named: all shards' sweeps need those of all.
    ///
    /// # Errors
    /// `Conflict` kinds never; `Unavailable` when no pass was begun or the shard closed.
    pub async fn mark_walk(
        &self,
        ticket: MarkTicket,
        owned: &HashSet<StreamId>,
    ) -> Result<(MarkReport, ForeignNames)> {
        let mut report = MarkReport::default();
        let streams = self.pass(ticket, |pass| std::mem::take(&mut pass.streams))?;
        for stream in streams {
            if owned.contains(&stream) {
                continue;
            }
            self.drop_stream(stream).await?;
            report.dropped_streams += 1;
        }
        // No map names what is about to be freed: dropped streams, those of clients too, are gone from the trees
        // (MARK-5).
        self.apply_acknowledged().await?;
        if !planted(Bug::MarkForgetsAsks) {
            self.foreign.wait_asks().await; // MARK-11. A grant from before the pass is noted now, or in a map.
        }
        let granted = self.foreign.granted();
        let granted = if planted(Bug::MarkForgetsGranted) { Vec::new() } else { granted };
        self.pass(ticket, |pass| granted.into_iter().for_each(|name| pass.foreign.insert(name)))?;
        let mut walk: Vec<StreamId> = owned.iter().copied().collect();
        walk.sort_unstable();
        for stream in walk {
            self.mark_stream(ticket, stream).await?;
        }
        self.mark_keys(ticket).await?;
        while let Some(copy) = self.next_copy(ticket)? {
            self.mark_stream(ticket, copy).await?; // MARK-8
        }
        report.marked = self.pass(ticket, |pass| pass.marked.len())?;
        let foreign = self.pass(ticket, |pass| std::mem::take(&mut pass.foreign))?;
        Ok((report, foreign))
    }

    /// A stream that was cut off another one during the pass; the walk ends in the same step that finds none.
    fn next_copy(&self, ticket: MarkTicket) -> Result<Option<StreamId>> {
        self.pass(ticket, |pass| {
            let copy = pass.copies.pop();
            pass.is_walked = copy.is_none();
            copy
        })
    }

    /// Acts on a pass, if it is still the one that was begun last (MARK-7).
    fn pass<T>(&self, ticket: MarkTicket, act: impl FnOnce(&mut MarkPass) -> T) -> Result<T> {
        let mut pass = self.mark.pass.borrow_mut();
        pass.as_mut().filter(|pass| pass.ticket == ticket).map(act).ok_or(Error::NoMarkPass)
    }

    /// MARK-2
    async fn mark_stream(&self, ticket: MarkTicket, stream: StreamId) -> Result<()> {
        let mut pages = RoaringTreemap::new();
        let begin = self.frozen_root(stream).await?;
        self.mark_waiting(ticket, stream).await?;
        let mut walk = self.walk_stream(stream, BlockIndex::ZERO, GateUse::NoStep); // WALK-3
        let is_known = |_: &Map, page: ChunkId| {
            let pass = self.mark.pass.borrow();
            pass.as_ref().is_some_and(|pass| pass.finished.contains(page.get()))
        };
        while let Some(step) = walk.next(is_known).await? {
            let (shard, items) = (self.config.shard, &step.found.items);
            self.pass(ticket, |pass| items.iter().for_each(|item| pass.mark(shard, item)))?;
            pages.extend(items.iter().filter_map(WalkItem::page).map(ChunkId::get));
        }
        // MARK-9. Under another root pages may have been walked that others have with other contents.
        if begin.is_some() && self.frozen_root(stream).await? == begin {
            self.pass(ticket, |pass| pass.finished |= pages)?;
        }
        Ok(())
    }

    /// Marks what waits for a stream, before its pages: what a sweep puts into a page meanwhile is found there. What is
    /// in pages under updates that began to wait during the pass is marked as well, and left to the next one.
    async fn mark_waiting(&self, ticket: MarkTicket, stream: StreamId) -> Result<()> {
        let mut from = BlockIndex::ZERO;
        while !planted(Bug::MarkForgetsDeltas) {
            let some: Vec<_> = {
                let trees = self.trees.borrow();
                trees.deltas.in_range(stream, from..BlockIndex::MAX).take(STEP).collect()
            };
            let Some((last, _)) = some.last() else { break };
            assert!(*last >= from, "updates come in the order of their blocks");
            from = *last + 1;
            self.pass(ticket, |pass| {
                pass.marked.extend(some.iter().map(|(_, chunk)| chunk.get()));
            })?;
            self.reactor.yield_now().await;
        }
        Ok(())
    }

    /// The root of a stream's map when the whole map belongs to a copy as well, so that any change gives it another
    /// one.
    async fn frozen_root(&self, stream: StreamId) -> Result<Option<PagePtr>> {
        self.with_pages(|trees| {
            let exists = trees.open_stream(stream)?;
            let map = exists.then(|| &trees.streams[&stream].map);
            Ok(map.filter(|map| map.is_frozen()).map(|map| map.root()))
        })
        .await
    }

    async fn mark_keys(&self, ticket: MarkTicket) -> Result<()> {
        let mut walk = self.walk_key_pages(GateUse::NoStep); // WALK-3
        while let Some(step) = walk.next().await? {
            self.pass(ticket, |pass| pass.marked.extend(step.found.iter().map(|page| page.get())))?;
        }
        Ok(())
    }

    /// Frees what is not marked, nor among the names of all shards' walks, and ends the pass. Durable on return, and
    /// the space is on its way back.
    ///
    /// # Errors
    /// `Unavailable` when no pass was begun or the shard closed.
    pub async fn mark_sweep(&self, ticket: MarkTicket, named: &ForeignNames) -> Result<MarkReport> {
        Ok(self.sweep(ticket, named).await?.0)
    }

    /// The same, and looks whether all that was freed is gone. Costs a look-up for each.
    ///
    /// # Errors
    /// As [`Self::mark_sweep`].
    pub async fn mark_sweep_proved(
        &self,
        ticket: MarkTicket,
        named: &ForeignNames,
    ) -> Result<MarkReport> {
        let (report, freed) = self.sweep(ticket, named).await?;
        let there = self.holding(&freed).await?;
        Ok(MarkReport { leaked: there.chunks + there.pages, ..report })
    }

    /// What was freed is out of the table on return.
    async fn sweep(
        &self,
        ticket: MarkTicket,
        named: &ForeignNames,
    ) -> Result<(MarkReport, RoaringTreemap)> {
        if let Some(chunks) = named.of(self.config.shard)
            && !planted(Bug::MarkForgetsForeign)
        {
            self.pass(ticket, |pass| pass.marked |= chunks)?; // MARK-11
        }
        let (is_walked, marked) = self.pass(ticket, |pass| (pass.is_walked, pass.marked.len()))?;
        if !is_walked {
            return Err(Error::NoMarkPass);
        }
        let mut refused = RoaringTreemap::new();
        let mut report = MarkReport { marked, ..MarkReport::default() };
        // Not during a checkpoint, which takes the dead pages off their list before they leave the table (MARK-4).
        let mut walk = self.walk_table(GateUse::EachStep);
        while let Some(step) = walk.next().await? {
            let garbage = self.garbage_among(ticket, &step.found)?;
            for (chunk, _) in &garbage {
                self.reduce.dedup.borrow_mut().refuse(*chunk); // MARK-6: in one step with the finding (WALK-1).
                refused.insert(chunk.get());
            }
            drop(step);
            report.freed += garbage.len() as u64;
            report.freed_bytes += garbage.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
            self.log_frees(&garbage).await?;
        }
        debug_assert_eq!(report.freed, refused.len(), "each id is freed once");
        self.flush_data().await?;
        self.end_pass(ticket, &refused, report.freed);
        Ok((report, refused))
    }

    /// Chunks and pages of the table that nothing names and nothing else frees, with their stored bytes.
    fn garbage_among(
        &self,
        ticket: MarkTicket,
        entries: &[TableEntry],
    ) -> Result<Vec<(ChunkId, u32)>> {
        assert!(self.apply.is_gated(), "no checkpoint takes dead pages off their list"); // MARK-4
        let trees = self.trees.borrow();
        let pass = self.mark.pass.borrow();
        let pass = pass.as_ref().filter(|pass| pass.ticket == ticket).ok_or(Error::NoMarkPass)?; // MARK-7
        let dead: crate::hash::HashSet<PagePtr> =
            trees.names.dead_pages().iter().copied().collect();
        let mut garbage = Vec::new();
        for entry in entries {
            let (chunk, entry) = entry.as_ref().map_err(Error::clone)?;
            let is_folded = !entry.shared && trees.deaths.contains(*chunk);
            let waits = is_folded || dead.contains(&PagePtr::Chunk(*chunk)); // MARK-4
            if !waits && pass.is_garbage(*chunk) {
                garbage.push((*chunk, entry.stored_len));
            }
        }
        debug_assert!(garbage.is_sorted(), "the table is in the order of ids");
        Ok(garbage)
    }

    /// What a pass found is in durable segments.
    fn end_pass(&self, ticket: MarkTicket, refused: &RoaringTreemap, freed: u64) {
        self.reduce.dedup.borrow_mut().freed(refused);
        if let Some(pass) = self.mark.pass.borrow_mut().take_if(|pass| pass.ticket == ticket) {
            assert!(pass.is_walked, "what is freed was looked for in all trees"); // MARK-2
            assert!(self.mark.ended.get() < ticket.number, "a pass ends once");
            self.reduce.dedup.borrow_mut().mark_ended(pass.kept_bytes);
            self.mark.ended.set(ticket.number);
            self.mark.has_ended.notify_all();
        }
        if freed > 0 {
            self.reclaim.request();
        }
    }

    /// Logs ids to be freed, as ranges (MARK-3); draining applies them.
    async fn log_frees(&self, garbage: &[(ChunkId, u32)]) -> Result<()> {
        let ids: Vec<_> = garbage.iter().map(|(chunk, _)| *chunk).collect();
        for (first, count) in runs(&ids) {
            let _gate = self.drain.gate.take(1).await;
            let entry = SummaryEntry::FreedIds { first, count };
            self.push_data_entry(entry, WriteSeq::ZERO).await?;
        }
        Ok(())
    }
}

impl MarkPass {
    /// A reference to a chunk was drained (MARK-6).
    pub(crate) fn note_grant(&mut self, chunk: ChunkId) {
        if !planted(Bug::MarkForgetsGrants) {
            self.marked.insert(chunk.get());
        }
    }

    fn mark(&mut self, shard: ShardId, item: &WalkItem) {
        match item {
            WalkItem::Page { .. } if planted(Bug::MarkForgetsPages) => {}
            WalkItem::Page { page, .. } => {
                self.marked.insert(page.get());
            }
            WalkItem::Data { slot, .. } if slot.shard() != shard => {
                self.foreign.insert(ForeignChunk { home: slot.shard(), chunk: slot.id() });
            }
            WalkItem::Data { slot, .. } => {
                self.marked.insert(slot.id().get());
            }
            WalkItem::Known { page, .. } => {
                debug_assert!(self.finished.contains(page.get()), "what is below was marked"); // MARK-9
            }
        }
    }

    fn is_garbage(&self, chunk: ChunkId) -> bool {
        assert!(self.is_walked, "what is not marked yet is no garbage"); // MARK-2
        let is_page = chunk.get() >= PAGE_ID_FIRST;
        let ceiling = if is_page { self.page_ceiling } else { self.chunk_ceiling };
        chunk < ceiling && !self.marked.contains(chunk.get()) // MARK-1
    }
}
