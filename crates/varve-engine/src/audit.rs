//! The online check: recounts from the trees what the shard believes of its space, and reports every difference.
//!
//! AUDIT-1. The tree gate is held from begin to end, as sums of all trees are compared: nothing is applied meanwhile.
//!     Requests go on being answered.
//! AUDIT-2. What is below a page that several maps have is the same in all of them, and counted once.

mod report;

use roaring::RoaringTreemap;
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::pointer::{Location, PagePtr};
use varve_logstore::space::{SegmentState, unit_extent, unit_space};
use varve_media::SegmentId;
use varve_types::{BlockIndex, ChunkId, StreamId};

use crate::hash::{HashMap, HashSet};
use crate::peers::{ForeignChunk, ForeignNames};
use crate::tree::{Map, PageState, WalkItem};
use crate::trees::PAGE_ID_FIRST;
use crate::walk::{GateUse, MapPart, place_of};
use crate::{Result, Shard};

pub use report::AuditReport;

/// The audit under way.
#[derive(Default)]
struct Audit {
    report: AuditReport,
    named: RoaringTreemap,
    /// Chunks of data that several blocks name although one of their streams says that no copy holds them: only shared
    /// ones may be.
    named_again: RoaringTreemap,
    /// Chunks of data that a stream names and no copy of it.
    own: RoaringTreemap,
    /// Chunks of data that pages name under updates that wait.
    hidden: RoaringTreemap,
    /// 512-byte units of segments that hold something.
    occupied: RoaringTreemap,
    live: HashMap<SegmentId, u64>,
}

impl Audit {
    fn differs(&mut self, what: impl FnOnce() -> String) {
        self.report.differs(what);
    }

    fn name(&mut self, id: ChunkId, what: impl FnOnce() -> String) {
        if !self.named.insert(id.get()) {
            self.differs(|| format!("{} is named twice", what()));
        }
    }

    /// A block names a chunk of data of the shard, which only its stream may name if it is the stream's own.
    fn name_data(&mut self, chunk: ChunkId, is_own: bool) {
        self.report.chunks += 1;
        let is_new = self.named.insert(chunk.get());
        if !is_new && (is_own || self.own.contains(chunk.get())) {
            self.named_again.insert(chunk.get());
        }
        if is_own {
            self.own.insert(chunk.get());
        }
    }

    /// Counts a chunk of data in the table.
    fn count(&mut self, chunk: ChunkId, entry: &ChunkEntry, is_dead: bool) {
        let report = &mut self.report;
        let (chunks, bytes) = if is_dead {
            (&mut report.dead_chunks, &mut report.dead_bytes)
        } else {
            (&mut report.data_chunks, &mut report.data_bytes)
        };
        if chunk.get() < PAGE_ID_FIRST {
            *chunks += 1;
            *bytes += u64::from(unit_space(entry.stored_len));
        }
    }

    /// Counts a stored unit.
    fn occupy(&mut self, place: &Location, what: impl FnOnce() -> String) {
        let bytes = u64::from(unit_space(place.stored_len));
        *self.live.entry(place.segment).or_default() += bytes;
        self.report.live_bytes += bytes;
        let first = u64::from(place.segment.number.0) << 16 | u64::from(place.offset_512);
        let units = u64::from(unit_extent(place.stored_len)) / 512;
        if self.occupied.insert_range(first..first + units) != units {
            self.differs(|| {
                let (segment, at) = (place.segment.number, place.offset());
                format!("{} in segment {segment} at {at} overlaps another unit", what())
            });
        }
    }
}

impl Shard {
    /// Recounts from maps, key tree and chunk table what is live, and compares it with the account of segments. Costs a
    /// read of every metadata page; nothing is applied meanwhile.
    ///
    /// # Errors
    /// `Corrupt` when a page cannot be read, `Unavailable` when the shard closed.
    pub async fn audit(&self) -> Result<AuditReport> {
        self.check_open()?;
        let _gate = self.apply.tree_gate.take(1).await; // AUDIT-1
        let mut audit = Audit::default();
        for stream in self.streams().await? {
            self.audit_map(stream, &mut audit).await?;
        }
        self.audit_keys(&mut audit).await?;
        self.audit_table(&mut audit).await?;
        self.audit_table_pages(&mut audit).await?;
        for blob in self.checkpoint.blobs.usage.borrow().iter() {
            audit.occupy(blob, || "a usage blob".to_owned());
        }
        for blob in self.checkpoint.blobs.deaths.borrow().iter() {
            audit.occupy(blob, || "a death blob".to_owned());
        }
        for blob in self.checkpoint.blobs.deltas.borrow().iter() {
            audit.occupy(blob, || "a delta blob".to_owned());
        }
        self.audit_space(&mut audit);
        Ok(audit.report)
    }

    async fn audit_map(&self, stream: StreamId, audit: &mut Audit) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied during an audit"); // AUDIT-1
        let mut walk = self.walk_stream(stream, BlockIndex::ZERO, GateUse::NoStep);
        loop {
            let is_known = |map: &Map, page: ChunkId| {
                page < map.ceiling() && audit.named.contains(page.get()) // AUDIT-2
            };
            let Some(mut step) = walk.next(is_known).await? else { return Ok(()) };
            let part = &mut step.found;
            self.audit_hidden(stream, part, audit);
            for item in &part.items {
                match item {
                    WalkItem::Data { slot, .. } if slot.shard() != self.config.shard => {
                        let name = ForeignChunk { home: slot.shard(), chunk: slot.id() };
                        audit.report.foreign.insert(name);
                    }
                    WalkItem::Data { slot, .. } => {
                        audit.name_data(slot.id(), slot.id() >= part.chunk_ceiling);
                    }
                    WalkItem::Page { page, .. } if self.is_stored(*page) => {
                        audit.report.pages += 1;
                        if *page < part.page_ceiling {
                            audit.named.insert(page.get());
                        } else {
                            audit.name(*page, || format!("map page {page} of stream {stream}"));
                        }
                    }
                    WalkItem::Page { .. } | WalkItem::Known { .. } => {}
                }
            }
        }
    }

    /// Lets items of a walk show what waits, and notes what is hidden under that: it is in the table, and nothing else
    /// says that it is dead.
    fn audit_hidden(&self, stream: StreamId, part: &mut MapPart, audit: &mut Audit) {
        assert!(self.apply.is_gated(), "nothing is applied during an audit"); // AUDIT-1
        let trees = self.trees.borrow();
        let names = |items: &[WalkItem]| {
            let (mut own, mut foreign) = (RoaringTreemap::new(), ForeignNames::default());
            for item in items {
                let WalkItem::Data { slot, .. } = item else { continue };
                if slot.shard() == self.config.shard {
                    own.insert(slot.id().get());
                } else {
                    foreign.insert(ForeignChunk { home: slot.shard(), chunk: slot.id() });
                }
            }
            (own, foreign)
        };
        let (own, foreign) = names(&part.items);
        trees.overlay(stream, part.blocks.clone(), &mut part.items);
        audit.hidden |= own - names(&part.items).0;
        audit.report.hidden.merge(&foreign); // With those that are shown: these count as named anyway.
    }

    /// Whether a page is on media under this name: it is not if it changed since the last checkpoint.
    fn is_stored(&self, page: ChunkId) -> bool {
        self.trees.borrow().cache.state(PagePtr::Chunk(page)) != Some(PageState::Dirty)
    }

    async fn audit_keys(&self, audit: &mut Audit) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied during an audit"); // AUDIT-1
        let mut walk = self.walk_key_pages(GateUse::NoStep);
        while let Some(step) = walk.next().await? {
            for page in &step.found {
                if self.is_stored(*page) && audit.named.insert(page.get()) {
                    audit.report.pages += 1;
                }
            }
        }
        Ok(())
    }

    async fn audit_table(&self, audit: &mut Audit) -> Result<()> {
        let waiting: RoaringTreemap = {
            let trees = self.trees.borrow();
            let ids = trees.names.dead_pages().iter().filter_map(|name| match name {
                PagePtr::Chunk(page) => Some(page.get()),
                _ => None,
            });
            ids.collect()
        };
        assert!(self.apply.is_gated(), "nothing is applied during an audit"); // AUDIT-1
        let mut found = RoaringTreemap::new();
        let mut walk = self.walk_table(GateUse::NoStep);
        while let Some(step) = walk.next().await? {
            for entry in step.found {
                let (chunk, entry) = entry?;
                found.insert(chunk.get());
                self.audit_entry(chunk, &entry, waiting.contains(chunk.get()), audit);
            }
        }
        audit.report.compare_usage(self.trees.borrow().data);
        for dead in self.trees.borrow().deaths.ids_from(0) {
            if !found.contains(dead.get()) {
                audit.differs(|| format!("chunk {dead} is dead and not in the chunk table"));
            }
        }
        for missing in (&audit.named | &audit.hidden) - &found {
            audit.differs(|| format!("chunk {missing} is named and not in the chunk table"));
        }
        Ok(())
    }

    /// Compares an entry of the table with what was found of the chunk or page, which may wait for the next checkpoint.
    fn audit_entry(&self, chunk: ChunkId, entry: &ChunkEntry, waits: bool, audit: &mut Audit) {
        assert!(self.apply.is_gated(), "nothing is applied during an audit"); // AUDIT-1
        if !entry.shared && audit.named_again.contains(chunk.get()) {
            audit.differs(|| format!("chunk {chunk} is named twice and not shared"));
        }
        audit.occupy(&entry.location(), || format!("chunk {chunk}"));
        let is_dead = self.is_dead(chunk, entry);
        audit.count(chunk, entry, is_dead);
        let is_hidden = audit.hidden.contains(chunk.get());
        if is_dead && is_hidden && !entry.shared {
            audit.differs(|| format!("chunk {chunk} is dead already and under an update"));
        }
        let is_named = audit.named.contains(chunk.get());
        if is_dead && is_named {
            audit.differs(|| format!("chunk {chunk} is dead and named"));
        }
        if entry.shared {
            audit.report.shared.insert(chunk.get());
        }
        if !is_dead && !is_named && !is_hidden && !waits {
            audit.report.unreachable += 1;
            if chunk.get() < PAGE_ID_FIRST {
                audit.report.unreachable_data.insert(chunk.get());
            }
        }
    }

    async fn audit_table_pages(&self, audit: &mut Audit) -> Result<()> {
        assert!(self.apply.is_gated(), "no checkpoint moves pages during an audit"); // AUDIT-1
        let pages: HashSet<Location> = self.walk_table_pages(GateUse::NoStep).collect().await?;
        for place in &pages {
            audit.report.table_pages += 1;
            audit.occupy(place, || "a page of the chunk table".to_owned());
        }
        for place in
            self.trees.borrow().table_names.dead_pages().iter().copied().filter_map(place_of)
        {
            audit.occupy(&place, || "a former page of the chunk table".to_owned());
        }
        Ok(())
    }

    fn audit_space(&self, audit: &mut Audit) {
        assert!(self.apply.is_gated(), "nothing is applied during an audit"); // AUDIT-1
        let space = self.space.borrow();
        let mut live = std::mem::take(&mut audit.live);
        let mut total = 0;
        let mut used: Vec<_> = space.iter().collect();
        used.sort_by_key(|(number, _)| *number);
        for (number, usage) in used {
            let id = SegmentId { number, generation: usage.generation };
            let counted = live.remove(&id).unwrap_or(0);
            total += counted;
            if counted != u64::from(usage.live_bytes) {
                let believed = usage.live_bytes;
                audit.differs(|| {
                    format!("segment {number}: {counted} bytes are live, {believed} were counted")
                });
            }
            if space.is_free(number) {
                audit.differs(|| format!("segment {number} is free and {:?}", usage.state));
            }
        }
        let mut strays: Vec<_> = live.into_iter().collect();
        strays.sort_by_key(|(id, _)| id.number);
        for (id, bytes) in strays {
            audit.differs(|| format!("{bytes} bytes are live in {id:?}, which is not in use"));
        }
        let believed = space.stats().live_bytes;
        if total != believed {
            audit.differs(|| format!("{total} bytes are live, {believed} were counted"));
        }
        let next = [
            ("data", self.drain.writer.borrow().slot()),
            ("reclaimed", self.reclaim.next_slot()),
            ("metadata", self.checkpoint.metadata.next_slot()),
        ];
        for (index, (kind, slot)) in next.iter().enumerate() {
            let reserved =
                space.get(*slot).is_some_and(|usage| usage.state == SegmentState::Reserved);
            if !reserved || next[..index].iter().any(|(_, other)| other == slot) {
                audit.differs(|| format!("the next {kind} segment {slot} is not reserved for it"));
            }
        }
    }
}
