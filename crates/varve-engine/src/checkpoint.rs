//! Checkpoints: the trees as they are after a whole number of data segments, durable, with a root that names them.
//!
//! ```text
//!  take the tree gate → sweeps → stream records → map and key pages → folds → dead pages → table pages → deaths
//!    → waiting updates → usage → puts durable, pages clean → root
//! ```
//!
//! CHECKPOINT-1. The tree gate is held throughout: nothing is applied meanwhile. Writes go on being acknowledged and
//!     drained.
//! CHECKPOINT-2. Everything a root names is durable before the root is.
//! CHECKPOINT-3. Segments that only the checkpoint before needs are reused only after the new root is durable.
//! CHECKPOINT-4. A page is clean, and so may be evicted and read again, as soon as the segment it was written to is
//!     durable.

mod state;

use std::cell::RefCell;
use std::rc::Rc;

use varve_logstore::chain_reader::unit_checksum;
use varve_logstore::format::deaths::encode as encode_deaths;
use varve_logstore::format::deltas::{Delta, encode as encode_deltas};
use varve_logstore::format::page::{PageHeader, PageKind};
use varve_logstore::format::pointer::{Location, PagePtr};
use varve_logstore::format::root::{ShardRoot, TreeRoot};
use varve_logstore::format::segment::SegmentKind;
use varve_logstore::format::summary::{SummaryEntry, Unit};
use varve_logstore::format::usage::UsageEntry;
use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::{SealSpec, SegmentWriter, UNIT_ALIGN};
use varve_media::{RootKey, SegmentId};
use varve_reactor::JoinHandle;
use varve_types::{BlockIndex, ChunkId, ErrorKind, StreamId, WriteSeq};

use crate::apply::{chunk_entry, raw_unit};
use crate::checkpoint::state::MetadataWrite;
use crate::pages::PLACES_AT_ONCE;
use crate::tree::{PageShape, encode_page};
use crate::{Error, Result, Shard};

pub(crate) use state::Checkpoint;

/// Pages encoded before other tasks get a turn: some 50 µs of work.
const PAGES_PER_TURN: usize = 32;

/// Pause before a put that found no room is tried again, in ns.
const MEDIA_FULL_PAUSE_NS: u64 = 100_000_000;

/// Puts of metadata segments under way at once.
pub(crate) const PUTS_MAX: usize = 4;

const _: () = assert!(PUTS_MAX > 1, "one is filled while others are put");

/// Payload of one usage blob at most.
const USAGE_BLOB_BYTES: usize = 1 << 20;

const _: () = assert!(USAGE_BLOB_BYTES > UsageEntry::LEN, "a blob holds an entry");

/// As much for death blobs: encoding one takes 0.5 ms.
const DEATH_BLOB_BYTES: usize = 128 << 10;

/// As much for delta blobs.
const DELTA_BLOB_BYTES: usize = 128 << 10;

const _: () = assert!(DEATH_BLOB_BYTES <= USAGE_BLOB_BYTES && DELTA_BLOB_BYTES <= USAGE_BLOB_BYTES);

/// Why placing table pages paused.
enum Pause {
    Full,
    Turn,
}

impl Shard {
    /// Makes a checkpoint whenever one is due.
    pub(crate) async fn run_checkpoints(self: Rc<Self>) -> Result<()> {
        loop {
            self.checkpoint.wanted.notified().await;
            if self.checkpoint.is_forced.take() || self.checkpoint_is_due() {
                self.checkpoint().await?;
            }
        }
    }

    fn checkpoint_is_due(&self) -> bool {
        self.checkpoint.new_entries() >= self.config.checkpoint_entries
            || self.dirty_bytes() > self.dirty_limit()
            || self.deaths_are_full()
            || self.deltas_are_many()
            || self.hides_candidates()
    }

    pub(crate) fn wake_checkpoint(&self) {
        if self.checkpoint_is_due() {
            self.checkpoint.wanted.notify_one();
        }
    }

    /// Asks for a checkpoint when it would free segments, let reclaim look at newer ones, or fold what somebody waits
    /// for.
    pub(crate) fn wake_checkpoint_for_space(&self) {
        let stats = self.space.borrow().stats();
        let emptied_by_it = !self.reclaim.waiting.borrow().is_empty();
        let newer = self.checkpoint.new_entries() > 0 || self.reclaim.uncovered() > 0;
        // A checkpoint itself leaves as many to the next one as its usage blob takes: those alone would never end.
        let usage_bytes = stats.segments * UsageEntry::LEN as u64;
        let left_by_last =
            usage_bytes / u64::from(self.media.segments.geometry().segment_bytes) + 1;
        let is_dirty = self.dirty_bytes() > 0; // What is dirty keeps segments from reclaim.
        if stats.held > left_by_last || emptied_by_it || newer || is_dirty || self.folds_are_asked()
        {
            self.wake_checkpoint_now();
        }
    }

    /// Asks for a checkpoint, due or not.
    pub(crate) fn wake_checkpoint_now(&self) {
        self.checkpoint.force();
    }

    /// Writes a checkpoint now. Durable on return.
    ///
    /// # Errors
    /// When media fail: the shard then closes.
    pub async fn checkpoint(&self) -> Result<()> {
        let outcome = self.try_checkpoint().await;
        if let Err(error) = &outcome {
            self.fail("checkpoint", error);
        }
        outcome
    }

    async fn try_checkpoint(&self) -> Result<()> {
        self.check_running()?;
        self.copy_more().await?; // Before others wait: those segments are durable.
        let _gate = self.apply.tree_gate.take(1).await; // CHECKPOINT-1
        let mut covered = self.space.borrow().begin_checkpoint();
        self.flush_map_buffer().await?;
        self.with_pages(crate::trees::Trees::store_streams).await?;
        self.write_pages().await?;
        self.finish_puts(0).await?; // What was written may make room for pages of the table (CHECKPOINT-4).
        let folds = self.fold_at_checkpoint().await?;
        self.free_superseded_pages().await?;
        self.write_table().await?;
        self.write_deaths().await?; // DEATHS-3
        self.write_deltas().await?;
        self.write_usage().await?;
        self.seal_metadata().await?;
        if !planted(Bug::RootBeforePuts) {
            self.finish_puts(0).await?; // CHECKPOINT-2
        }
        covered.extend(self.checkpoint.metadata.written.take().iter().map(|id| id.number));
        self.write_root().await?;
        tracing::trace!(seq = self.checkpoint.seq.get(), data = ?self.apply.chain(), reclaimed = ?self.reclaim.chain(), "checkpoint");
        self.checkpoint.forget_entries();
        self.reclaim.note_checkpoint(self.apply.chain().seq);
        self.space.borrow_mut().checkpointed(&covered); // CHECKPOINT-3
        self.leave_waiting();
        {
            let trees = &mut *self.trees.borrow_mut();
            trees.deaths.saved();
            trees.deltas.saved();
        }
        self.settle_freed();
        self.note_purged(folds);
        self.count_uncopied();
        self.wake_repairs();
        self.counters.add_checkpoint();
        self.share_cache();
        Ok(())
    }

    /// Map and key pages: their names are final, so they are written in any order.
    pub(crate) async fn write_pages(&self) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied meanwhile"); // CHECKPOINT-1
        let names = self.trees.borrow().cache.dirty_names();
        let mut in_turn = 0;
        for name in names {
            let PagePtr::Chunk(chunk) = name else { continue };
            let bytes = {
                let trees = self.trees.borrow();
                let page = trees.cache.peek(name).expect("dirty pages are pinned");
                assert!(!page.is_empty(), "{name:?} would not be read again"); // BT2, MAP-2
                encode_page(page, name)
            };
            let (id, unit) =
                self.push_metadata(&bytes, |unit| SummaryEntry::Page { chunk, unit }).await?;
            let place = chunk_entry(id, &unit);
            self.with_pages(|trees| trees.add_chunk(&mut self.space.borrow_mut(), chunk, &place))
                .await?;
            self.trees.borrow_mut().cache.mark_writing(name);
            self.checkpoint.metadata.open_pages.borrow_mut().push(name);
            in_turn += 1;
            if in_turn % PAGES_PER_TURN == 0 {
                self.reactor.yield_now().await;
            }
        }
        let is_table = |name: &PagePtr| !matches!(name, PagePtr::Chunk(_));
        debug_assert!(self.trees.borrow().cache.dirty_names().iter().all(is_table)); // CHECKPOINT-1
        Ok(())
    }

    /// Pages that changed since the last checkpoint under their old names.
    async fn free_superseded_pages(&self) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied meanwhile"); // CHECKPOINT-1
        let dead = self.trees.borrow_mut().names.take_dead();
        let chunk_of = |name: &PagePtr| match name {
            PagePtr::Chunk(chunk) => *chunk,
            _ => unreachable!("map and key pages are chunks"),
        };
        for group in dead.chunks(PLACES_AT_ONCE) {
            self.prefetch_places(group.iter().map(chunk_of)).await;
            for chunk in group.iter().map(chunk_of) {
                self.with_pages(|trees| trees.kill(&mut self.space.borrow_mut(), chunk)).await?;
            }
        }
        Ok(())
    }

    async fn write_table(&self) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied meanwhile"); // CHECKPOINT-1
        loop {
            match self.place_table_pages() {
                Ok(()) => break,
                Err(Pause::Full) => self.seal_metadata().await?,
                Err(Pause::Turn) => self.reactor.yield_now().await,
            }
            self.open_metadata();
        }
        debug_assert_eq!(self.dirty_bytes(), 0, "every changed page has its place"); // CHECKPOINT-2
        let dead = self.trees.borrow_mut().table_names.take_dead();
        let mut space = self.space.borrow_mut();
        for name in dead {
            let PagePtr::Location(place) = name else {
                unreachable!("stored table pages have places")
            };
            space.sub_live(place.segment, place.stored_len);
        }
        Ok(())
    }

    fn place_table_pages(&self) -> std::result::Result<(), Pause> {
        let id = self.open_metadata();
        let mut placed = 0;
        let trees = &mut *self.trees.borrow_mut();
        trees.table.flush(&mut trees.cache, |page| {
            if placed == PAGES_PER_TURN {
                return Err(Pause::Turn);
            }
            assert!(!page.is_empty(), "a page of the table would not be read again"); // BT2
            let bytes = encode_page(page, PagePtr::Null);
            let mut writer = self.checkpoint.metadata.writer.borrow_mut();
            let len = u32::try_from(bytes.len()).expect("pages are small");
            if !writer.fits(len) {
                return Err(Pause::Full);
            }
            let level = match page.shape() {
                PageShape::Tree { level, .. } | PageShape::Map { level, .. } => level,
            };
            assert_eq!(writer.slot(), id.number, "units are named where they are placed");
            let offset = writer.push_unit(&bytes, UNIT_ALIGN);
            let unit = metadata_unit(offset, &bytes);
            writer.push_entry(SummaryEntry::TablePage { level, unit }, WriteSeq::ZERO);
            self.count_metadata(id, len);
            placed += 1;
            self.checkpoint
                .metadata
                .open_pages
                .borrow_mut()
                .push(PagePtr::Location(unit.location(id)));
            Ok(unit.location(id))
        })
    }

    fn count_metadata(&self, id: SegmentId, bytes: u32) {
        let mut space = self.space.borrow_mut();
        space.add_live(id, bytes);
        space.note_pages(id.number);
    }

    async fn write_deaths(&self) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied meanwhile"); // CHECKPOINT-1
        self.drop_blobs(&self.checkpoint.blobs.deaths);
        let (mut blobs, mut from) = (Vec::new(), Some(ChunkId::ZERO));
        while let Some(first) = from.filter(|_| !planted(Bug::DeathsUnsaved)) {
            let mut bytes = vec![0; PageHeader::LEN];
            from = {
                let deaths = &self.trees.borrow().deaths;
                let mut ids = deaths.ids_from(first.get()).peekable();
                encode_deaths(&mut ids, &mut bytes, self.blob_room().min(DEATH_BLOB_BYTES));
                ids.peek().copied()
            };
            if bytes.len() == PageHeader::LEN {
                break;
            }
            assert!(from.is_none_or(|next| next > first), "a blob takes one at least");
            let entry = |unit| SummaryEntry::DeathBlob { unit };
            blobs.push(self.store_blob(PageKind::Deaths, bytes, entry).await?);
        }
        self.checkpoint.blobs.deaths.replace(blobs);
        Ok(())
    }

    async fn write_deltas(&self) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied meanwhile"); // CHECKPOINT-1
        self.drop_blobs(&self.checkpoint.blobs.deltas);
        let (mut blobs, mut from) = (Vec::new(), self.trees.borrow().deltas.iter().next());
        while let Some(first) = from.filter(|_| !planted(Bug::DeltasUnsaved)) {
            let mut bytes = vec![0; PageHeader::LEN];
            from = {
                let deltas = &self.trees.borrow().deltas;
                let mut rest = deltas.iter_from(first.stream, BlockIndex(first.block)).peekable();
                encode_deltas(&mut rest, &mut bytes, self.blob_room().min(DELTA_BLOB_BYTES));
                rest.peek().copied()
            };
            let place = |delta: Delta| (delta.stream, delta.block);
            assert!(
                from.is_none_or(|next| place(next) > place(first)),
                "a blob takes one at least"
            );
            let entry = |unit| SummaryEntry::DeltaBlob { unit };
            blobs.push(self.store_blob(PageKind::Deltas, bytes, entry).await?);
        }
        self.checkpoint.blobs.deltas.replace(blobs);
        Ok(())
    }

    /// Stores a blob whose payload stands behind room for its header.
    async fn store_blob(
        &self,
        kind: PageKind,
        mut bytes: Vec<u8>,
        entry: impl Fn(Unit) -> SummaryEntry,
    ) -> Result<Location> {
        assert!(bytes.len() > PageHeader::LEN, "a blob holds something");
        assert!(bytes.len() - PageHeader::LEN <= self.blob_room(), "a blob fits a segment");
        blob_header(kind).encode(&mut bytes);
        let (id, unit) = self.push_metadata(&bytes, entry).await?;
        self.count_metadata(id, unit.stored_len);
        self.reactor.yield_now().await;
        Ok(unit.location(id))
    }

    async fn write_usage(&self) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied meanwhile"); // CHECKPOINT-1
        self.drop_blobs(&self.checkpoint.blobs.usage);
        self.open_metadata();
        let entries = self.space.borrow().to_entries();
        let per_blob = self.blob_room().min(USAGE_BLOB_BYTES) / UsageEntry::LEN;
        assert!(per_blob > 0, "a segment holds an entry");
        let mut blobs = Vec::new();
        for entries in entries.chunks(per_blob) {
            let bytes = encode_usage(entries);
            let (id, unit) =
                self.push_metadata(&bytes, |unit| SummaryEntry::UsageBlob { unit }).await?;
            blobs.push(unit.location(id));
        }
        for blob in &blobs {
            self.count_metadata(blob.segment, blob.stored_len);
        }
        self.checkpoint.blobs.usage.replace(blobs);
        Ok(())
    }

    fn drop_blobs(&self, blobs: &RefCell<Vec<Location>>) {
        for old in blobs.take() {
            self.space.borrow_mut().sub_live(old.segment, old.stored_len);
        }
    }

    /// Payload of a blob at most.
    fn blob_room(&self) -> usize {
        let segment = self.media.segments.geometry().segment_bytes;
        SegmentWriter::unit_bytes_max(segment) as usize - PageHeader::LEN
    }

    /// Gives the open metadata segment its generation, so that what is put in can be named.
    fn open_metadata(&self) -> SegmentId {
        if let Some(id) = self.checkpoint.metadata.open.get() {
            return id;
        }
        assert!(self.checkpoint.metadata.is_empty(), "what is in a segment was named with it");
        let number = self.checkpoint.metadata.writer.borrow().slot();
        let id = SegmentId { number, generation: self.allocation.fresh_generation() };
        self.space.borrow_mut().opened(id, self.admission.last_wseq());
        self.checkpoint.metadata.open.set(Some(id));
        id
    }

    async fn push_metadata(
        &self,
        bytes: &[u8],
        entry: impl Fn(Unit) -> SummaryEntry,
    ) -> Result<(SegmentId, Unit)> {
        let len = u32::try_from(bytes.len()).expect("units are smaller than segments");
        if !self.checkpoint.metadata.writer.borrow().fits(len) {
            self.seal_metadata().await?;
        }
        let id = self.open_metadata();
        let mut writer = self.checkpoint.metadata.writer.borrow_mut();
        assert_eq!(writer.slot(), id.number, "units are named where they are placed");
        let offset = writer.push_unit(bytes, UNIT_ALIGN);
        let unit = metadata_unit(offset, bytes);
        writer.push_entry(entry(unit), WriteSeq::ZERO);
        drop(writer);
        if matches!(entry(unit), SummaryEntry::Page { .. }) {
            self.space.borrow_mut().note_pages(id.number);
        }
        Ok((id, unit))
    }

    async fn seal_metadata(&self) -> Result<()> {
        if self.checkpoint.metadata.writer.borrow().is_empty() {
            return Ok(());
        }
        self.finish_puts(PUTS_MAX - 1).await?;
        let next_slot = self.take_segment(SegmentKind::Metadata).await?;
        let id =
            self.checkpoint.metadata.open.take().expect("a segment that holds something is open");
        let sealed = self.checkpoint.metadata.writer.borrow_mut().seal(SealSpec {
            generation: id.generation,
            next_slot,
            lane: self.apply.lane(),
            lane_mount: self.drain.lane_mount.get(),
            witness: 0,
        });
        assert_eq!(sealed.id, id, "the segment is put where its units were placed");
        tracing::trace!(id = ?sealed.id, entries = sealed.entries.len(), "metadata segment sealed");
        self.counters.add_metadata_segment(&sealed);
        let copy = self.begin_copy(sealed.id, &sealed.bytes);
        let durable = self.spawn_put(sealed.id, sealed.bytes);
        let pages = self.checkpoint.metadata.open_pages.take();
        assert!(
            self.checkpoint.metadata.puts.borrow().len() < PUTS_MAX,
            "one checkpoint writes at a time"
        );
        self.checkpoint.metadata.puts.borrow_mut().push(MetadataWrite { id, durable, copy, pages });
        Ok(())
    }

    /// Waits until at most `left` puts of metadata segments are under way.
    pub(crate) async fn finish_puts(&self, left: usize) -> Result<()> {
        loop {
            let next = {
                let mut puts = self.checkpoint.metadata.puts.borrow_mut();
                if puts.len() <= left {
                    return Ok(());
                }
                puts.remove(0)
            };
            let MetadataWrite { id, durable, copy, pages } = next;
            durable.await?;
            if let Some(copy) = copy {
                self.wait_copy(copy).await; // The root is to name it.
            }
            self.space.borrow_mut().sealed(id);
            // They may be read from there: the cache has room again before the checkpoint's own work needs more of it.
            pages.iter().for_each(|name| self.trees.borrow_mut().cache.mark_clean(*name));
            self.checkpoint.metadata.written.borrow_mut().push(id);
        }
    }

    async fn write_root(&self) -> Result<()> {
        assert!(self.apply.is_gated(), "nothing is applied meanwhile"); // CHECKPOINT-1
        let is_early = planted(Bug::RootBeforePuts);
        assert!(self.checkpoint.metadata.puts.borrow().is_empty() || is_early); // CHECKPOINT-2
        assert!(self.checkpoint.metadata.is_empty(), "what it names is on its way at least"); // CHECKPOINT-2
        let (applied, drained) = (self.apply.lane(), self.drain.point.get());
        assert!(applied.frame_seq <= drained.frame_seq, "what is applied was drained"); // APPLY-1
        assert!(self.apply.chain().seq <= self.drain.puts.witness(), "what is applied is durable"); // APPLY-1
        assert!(self.reclaim.chain().seq <= self.reclaim.witness(), "what is moved is durable"); // RECLAIM-3
        let mut root = {
            let trees = self.trees.borrow();
            let tree = |page, height| TreeRoot { page, height };
            ShardRoot {
                features: trees.features(),
                pool: self.config.pool,
                shard: self.config.shard,
                mount: self.lifecycle.mount(),
                checkpoint_seq: self.checkpoint.seq.get() + 1,
                applied_wseq: self.apply.wseq(),
                next_wseq: self.admission.next_wseq(),
                next_chunk: trees.next_chunk,
                next_page: trees.names.next(),
                next_generation: self.allocation.next_generation(),
                lane: self.apply.lane(),
                lane_mount: self.drain.lane_mount.get(),
                data_chain: self.apply.chain(),
                reclaim_chain: self.reclaim.chain(),
                table: tree(trees.table.root(), trees.table.height()),
                keys: tree(trees.keys.root(), trees.keys.height()),
                usage: self.checkpoint.blobs.usage.borrow().clone(),
                deaths: self.checkpoint.blobs.deaths.borrow().clone(),
                deltas: self.checkpoint.blobs.deltas.borrow().clone(),
                delta_limit: trees.deltas.limit(),
                copies: Vec::new(),
                highest_cut: varve_types::CutNumber(0),
                data_chunks: trees.data.chunks,
                data_bytes: trees.data.bytes,
            }
        };
        root.name_copies(self.space.borrow().copies(), self.media.roots.bytes_max());
        self.replace_root(&root).await?;
        self.checkpoint.seq.set(root.checkpoint_seq);
        Ok(())
    }

    /// Replaces the shard's root. Durable on return.
    pub(crate) async fn replace_root(&self, root: &ShardRoot) -> Result<()> {
        self.media.fence.check().map_err(varve_logstore::Error::from)?;
        let key = RootKey::Shard(self.config.shard);
        let expected = self.checkpoint.root_version.get();
        let (roots, bytes) = (Rc::clone(&self.media.roots), root.encode());
        let under_way = self.begin_write()?;
        // A task of its own: begun, it goes on to its end whatever becomes of this one.
        let replaced = self.reactor.spawn_join(async move {
            let replaced = roots.replace(key, expected, bytes).await;
            drop(under_way);
            replaced
        });
        self.checkpoint.root_version.set(replaced.await.map_err(varve_logstore::Error::from)?);
        Ok(())
    }

    /// Starts writing a segment. Media without room are no failure: the put is tried again, and data are refused
    /// meanwhile.
    pub(crate) fn spawn_put(
        &self,
        id: SegmentId,
        bytes: varve_stdx::BufSlice,
    ) -> JoinHandle<Result<()>> {
        let segment_bytes = self.media.segments.geometry().segment_bytes as usize;
        assert!(bytes.len() <= segment_bytes, "a put stays in its segment");
        let segments = Rc::clone(&self.media.segments);
        let under_way = self.begin_write();
        let (me, reactor) = (self.me.clone(), self.reactor.clone());
        self.reactor.spawn_join(async move {
            let under_way = under_way?;
            let put = loop {
                let put = segments.put(id, bytes.clone()).await;
                let full = matches!(&put, Err(error) if error.kind() == ErrorKind::NoSpace);
                let Some(shard) = me.upgrade() else { break put };
                if full && planted(Bug::NoSpaceIsWritten) {
                    break Ok(());
                }
                shard.set_media_full(full);
                if !full || shard.has_failed() {
                    break put;
                }
                drop(shard);
                reactor.sleep(MEDIA_FULL_PAUSE_NS).await;
            };
            drop(under_way);
            put.map_err(|error| Error::from(varve_logstore::Error::from(error)))
        })
    }
}

fn metadata_unit(offset: u32, bytes: &[u8]) -> Unit {
    let len = u32::try_from(bytes.len()).expect("units are smaller than segments");
    raw_unit(offset, len, u64::from(unit_checksum(bytes)))
}

fn encode_usage(entries: &[UsageEntry]) -> Vec<u8> {
    debug_assert!(entries.is_sorted_by_key(|entry| entry.segment.number), "each stands once");
    let mut bytes = vec![0; PageHeader::LEN + entries.len() * UsageEntry::LEN];
    for (entry, out) in
        entries.iter().zip(bytes[PageHeader::LEN..].chunks_exact_mut(UsageEntry::LEN))
    {
        entry.encode(out);
    }
    blob_header(PageKind::Usage).encode(&mut bytes);
    bytes
}

fn blob_header(kind: PageKind) -> PageHeader {
    PageHeader {
        kind,
        encoding: 0,
        level: 0,
        slot_width: 0,
        name: ChunkId::ZERO,
        stream: StreamId::ZERO,
        position: 0,
    }
}
