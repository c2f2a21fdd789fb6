//! Opens a shard: root, checkpoint, newer segments, lane; then a checkpoint of its own, and it serves.
//!
//! ```text
//!  root → raise the mount → usage → deaths → waiting updates → lane census → reclaimed chain → data chain → folds
//!    → lane frames → drain → checkpoint → serve
//! ```
//!
//! RECOVERY-1. The mount is raised durably before anything is written, so what an earlier open left half-written is
//!     never taken for this one's.
//! RECOVERY-2. Reclaimed segments are replayed before data segments: moves and deaths end in the same state in either
//!     order, and pages that moved are found.
//! RECOVERY-3. Lane records below the last applied number are skipped; all others are drained before the shard serves.
//!     The last applied one is drained again: the segment that ends with it may hold only its first blocks. Numbers of
//!     what bypassed the lane say nothing of its records.
//! RECOVERY-4. Ids, numbers and generations go on well above everything seen, as what was in flight at the crash was
//!     not.
//! RECOVERY-5. A shard recovers alone and asks no other shard anything.
//! RECOVERY-6. What was folded and reused since the checkpoint is folded again, as the log tells (DEATHS-6); other
//!     deaths wait on. So an opening looks at as few leaves of the table as were folded, however many deaths wait.
//! RECOVERY-7. The slots behind both chains are erased before the shard writes anything behind them (CHAIN-READER-4).
//! RECOVERY-8. Where replay sees more dead than another one might, nothing is reused before a root says what it saw.
//! RECOVERY-9. A lane without what has to be in it is not an empty lane: the shard does not open, unless it was told to
//!     accept the loss. Then the lane begins anew, as a lane of its first lap.

use std::cell::RefCell;
use std::rc::Rc;

use varve_logstore::chain_reader::{
    Chain, ChainLink, ReadVerdict, erase, read_chain, read_whole, unit_bytes, unit_is_whole,
};
use varve_logstore::format::Features;
use varve_logstore::format::deaths::decode as decode_deaths;
use varve_logstore::format::deltas::decode as decode_deltas;
use varve_logstore::format::frame::{Frame, LogPosition, chain_seed};
use varve_logstore::format::page::{PageHeader, PageKind};
use varve_logstore::format::pointer::{Location, PagePtr};
use varve_logstore::format::record::{GRANTED_MAX, PIECE_BYTES, RecordKind};
use varve_logstore::format::root::{ChainHead, ShardRoot, TreeRoot};
use varve_logstore::format::segment::SegmentKind;
use varve_logstore::format::summary::{SummaryEntry, Unit};
use varve_logstore::format::usage::UsageEntry;
use varve_logstore::lane::{Journal, JournalOwner, JournalRecord, LANE_BYTES_MIN};
use varve_logstore::lane_reader::{JournalReader, check_stop};
use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::{SegmentOwner, SegmentWriter};
use varve_logstore::space::Space;
use varve_media::{Media, RootKey, RootVersion};
use varve_reactor::Reactor;
use varve_stdx::{BufSlice, checksum64};
use varve_types::{BlockIndex, ChunkId, CutNumber, Generation, SegmentNumber, WriteSeq};

use crate::admission::Admission;
use crate::allocation::Allocation;
use crate::apply::{Applicable, Apply};
use crate::caches::Caches;
use crate::checkpoint::Checkpoint;
use crate::config::{BLOCK_BYTES, ShardConfig};
use crate::deaths::DeadChunks;
use crate::deltas::MapBuffer;
use crate::drain::Drain;
use crate::held::ShardContents;
use crate::lifecycle::Lifecycle;
use crate::mark::MarkState;
use crate::pages::PLACES_AT_ONCE;
use crate::peers::{Foreign, ForeignChunk, Peers};
use crate::pool::{Zone, ZoneSource};
use crate::reclaim::Reclaim;
use crate::reduce::Reduce;
use crate::reservations::Reservations;
use crate::tree::{BTree, ChunkNames, MemoryNames, PageCache, TreeLayout, is_block_of_map};
use crate::trees::{DataUsage, PAGE_ID_FIRST, Trees, table_layout};
use crate::zone_moves::ZoneMoves;
use crate::{Error, Result, Shard};

/// Fewer keys are read one by one: a segment takes longer, if it holds large bodies beside them.
const KEYS_OF_A_SEGMENT_MIN: usize = 8;

const _: () = assert!(PIECE_BYTES == BLOCK_BYTES, "a piece of a record is a block of the map");

/// How far ids go on above everything seen (RECOVERY-4): far more than can be in flight.
const ID_GAP: u64 = 1 << 20;

const _: () = assert!(PAGE_ID_FIRST / ID_GAP > 1 << 20, "ids are enough for a million openings"); // RECOVERY-4

/// What a shard is opened from.
pub struct ShardParts {
    /// The loop of its thread.
    pub reactor: Reactor,
    /// Its media.
    pub media: Media,
    /// Identity and memory.
    pub config: ShardConfig,
    /// Where it gets more zones.
    pub zones: Rc<dyn ZoneSource>,
    /// Zones it has.
    pub owned: Vec<Zone>,
    /// The other shards of the pool; none for a shard that is opened alone, which then finds no equal blocks elsewhere,
    /// and cannot read what others hold.
    pub peers: Option<Rc<dyn Peers>>,
}

impl Shard {
    /// Makes the first root of a shard in its first zone. Durable on return.
    ///
    /// # Errors
    /// `Exists` when the shard was opened before; `Invalid` when the zone is too small.
    pub async fn format(media: &Media, config: &ShardConfig, zone: Zone) -> Result<()> {
        if zone.count < 2 {
            return Err(Error::TooLarge {
                what: "segments needed",
                value: 2,
                limit: u64::from(zone.count),
            });
        }
        if media.journal.capacity() < LANE_BYTES_MIN {
            return Err(Error::TooLarge {
                what: "bytes of a lane needed",
                value: LANE_BYTES_MIN,
                limit: media.journal.capacity(),
            });
        }
        let chain =
            |slot| ChainHead { seq: 0, checksum: 0, next_slot: SegmentNumber(zone.first.0 + slot) };
        let empty = TreeRoot { page: PagePtr::Null, height: 0 };
        let root = ShardRoot {
            features: Features::default(),
            pool: config.pool,
            shard: config.shard,
            mount: 0,
            checkpoint_seq: 0,
            applied_wseq: WriteSeq::ZERO,
            next_wseq: WriteSeq::new(1),
            next_chunk: ChunkId::new(1),
            next_page: ChunkId::new(PAGE_ID_FIRST),
            next_generation: Generation::new(1),
            lane: LogPosition {
                position: 0,
                frame_seq: 1,
                chain: chain_seed(config.pool, config.shard, 0),
            },
            lane_mount: 0,
            data_chain: chain(0),
            reclaim_chain: chain(1),
            table: empty,
            keys: empty,
            usage: Vec::new(),
            deaths: Vec::new(),
            deltas: Vec::new(),
            delta_limit: 0,
            copies: Vec::new(),
            highest_cut: CutNumber(0),
            data_chunks: 0,
            data_bytes: 0,
        };
        let key = RootKey::Shard(config.shard);
        let (version, bytes) = media.roots.read(key).await.map_err(varve_logstore::Error::from)?;
        if version != RootVersion(0) && ShardRoot::decode(&bytes)?.mount != 0 {
            return Err(Error::PoolExists); // One that was never opened belongs to a pool that was never finished.
        }
        let made = media.roots.replace(key, version, root.encode()).await;
        made.map_err(varve_logstore::Error::from)?;
        Ok(())
    }

    /// Opens a shard through recovery and lets it serve (RECOVERY-5).
    ///
    /// # Errors
    /// `Corrupt` when something that was acknowledged cannot be read back: nothing is changed then but the mount.
    pub async fn open(parts: ShardParts) -> Result<Rc<Self>> {
        let (mut root, version) = read_root(&parts).await?;
        let replayed_to = root.lane_mount;
        root.mount = root.mount.checked_add(1).ok_or_else(|| Error::BadRoot {
            shard: parts.config.shard,
            reason: "its mount is the last there is".to_owned(),
        })?;
        let shard = Self::assemble(parts, &root, version)?;
        match shard.recover(&root, replayed_to).await {
            Ok(()) => {
                if !shard.is_read_only() {
                    shard.spawn_task("leftovers", Rc::clone(&shard).delete_leftovers());
                }
                shard.media.segments.set_contents(ShardContents::of(&shard)); // HELD-1
                Ok(shard)
            }
            Err(error) => {
                shard.fail("recovery", &error);
                shard.quiesced().await; // Whoever opens it next finds nothing of this attempt under way.
                Err(shard.lifecycle.failure().unwrap_or(error)) // A task of the shard may have been first.
            }
        }
    }

    /// The shard as its last checkpoint has it, for reading only (ENGINE-SALVAGE-1). What was written
    /// later is missing, and so may be map updates that waited at the checkpoint: then the error says why.
    ///
    /// # Errors
    /// When its root cannot be read.
    pub async fn open_checkpoint(parts: ShardParts) -> Result<(Rc<Self>, Option<Error>)> {
        let (root, version) = read_root(&parts).await?;
        let shard = Self::assemble(parts, &root, version)?;
        shard.lifecycle.stay_at_checkpoint();
        let lost = shard.restore_deltas(&root).await.err();
        Ok((shard, lost))
    }

    async fn recover(self: &Rc<Self>, root: &ShardRoot, replayed_to: u64) -> Result<()> {
        assert!(self.admission.lane().is_none(), "a shard recovers before it serves");
        self.replace_root(root).await?; // RECOVERY-1
        self.restore_usage(root).await?;
        self.restore_deaths(root).await?;
        self.restore_deltas(root).await?;
        let owner = JournalOwner { mount: replayed_to, ..self.lane_owner() };
        let mut lane = JournalReader::new(Rc::clone(&self.media.journal), owner);
        let census = lane.census().await?;
        let reclaimed = self
            .read_links(SegmentKind::Reclaimed, root.reclaim_chain, census.reclaim_witness)
            .await?;
        let data = self.read_links(SegmentKind::Data, root.data_chain, census.data_witness).await?;
        tracing::trace!(seq = root.checkpoint_seq, ?census, data = ?data.links.last().map(|link| link.head), reclaimed = ?reclaimed.links.last().map(|link| link.head), "recovery");
        let start = data.links.last().map_or(root.lane, |link| link.header.lane);
        let mut is_lost = self.accept_loss(lane.check_start(start, &census))?;
        self.reserve_chains(root, &reclaimed.links, &data.links)?;
        let freed = self.replay_moves(&reclaimed.links).await?;
        self.count_granted_in_lane(&mut lane, &data.links, root.lane).await?;
        self.load_exact_streams().await?;
        self.replay_data(&data.links).await?;
        self.replay_folds(&reclaimed.links, freed).await?;
        self.end_replay_of_segments().await?;
        self.store_what_replay_saw().await?; // RECOVERY-8
        self.load_reservations().await?; // What is drained below is stored as it was promised.
        // Draining needs segments, which only reclaim and checkpoints may be able to free.
        self.spawn_task("growth", Rc::clone(self).run_growth());
        self.spawn_task("apply", Rc::clone(self).run_apply());
        self.spawn_task("checkpoint", Rc::clone(self).run_checkpoints());
        self.spawn_task("reclaim", Rc::clone(self).run_reclaim());
        lane.restore_end(self.drain.point.get()).await?;
        let mut stop = self.replay_lane(&mut lane).await?;
        is_lost |= self.accept_loss(check_stop(stop.frame_seq, &census))?;
        is_lost |= self.accept_loss(lane.check_end(stop).await)?;
        if is_lost {
            stop.position = 0; // RECOVERY-9
            self.media.journal.restart().await.map_err(varve_logstore::Error::from)?;
        }
        self.finish_replay(start, stop).await
    }

    fn assemble(parts: ShardParts, root: &ShardRoot, version: RootVersion) -> Result<Rc<Self>> {
        let ShardParts { reactor, media, config, zones, owned, peers } = parts;
        let (foreign, geometry) = (Rc::new(Foreign::new(peers)), media.segments.geometry());
        let (has_others, segment_bytes) = (foreign.peers().is_some(), geometry.segment_bytes);
        let writer = writers(&config, root, segment_bytes);
        let trees = RefCell::new(open_trees(&config, root, has_others)?);
        Ok(Rc::new_cyclic(|me| Self {
            me: me.clone(),
            reactor,
            lifecycle: Lifecycle::new(root.mount),
            admission: Admission::new(&media, &config, has_others, root.next_wseq),
            drain: Drain::new(writer(SegmentKind::Data, root.data_chain), root),
            apply: Apply::new(root),
            trees,
            caches: Caches::new(&config),
            space: RefCell::new(owned_space(segment_bytes, &owned, root)),
            zone_moves: ZoneMoves::new(owned.clone(), zones),
            allocation: Allocation::new(root.next_generation, owned),
            checkpoint: Checkpoint::new(
                writer(SegmentKind::Metadata, ChainHead::default()),
                root,
                version,
            ),
            reclaim: Reclaim::new(writer(SegmentKind::Reclaimed, root.reclaim_chain), root),
            reduce: Reduce::new(config.pool, foreign.index_bytes(config.dedup_index_bytes)),
            foreign,
            mark: MarkState::new(),
            reservations: Reservations::default(),
            counters: crate::counters::Counters::default(),
            media,
            config,
        }))
    }

    pub(crate) fn lane_owner(&self) -> JournalOwner {
        JournalOwner {
            pool: self.config.pool,
            shard: self.config.shard,
            mount: self.lifecycle.mount(),
        }
    }

    pub(crate) fn bad_root(&self, reason: String) -> Error {
        Error::BadRoot { shard: self.config.shard, reason }
    }

    async fn restore_usage(&self, root: &ShardRoot) -> Result<()> {
        for blob in &root.usage {
            let read = self.read_blob(blob, PageKind::Usage).await?;
            for bytes in read[PageHeader::LEN..].chunks(UsageEntry::LEN) {
                let entry = UsageEntry::decode(bytes)?;
                if !self.space.borrow_mut().restore(&entry) {
                    let number = entry.segment.number;
                    return Err(
                        self.bad_root(format!("segment {number} is used twice or not leased"))
                    );
                }
            }
        }
        for blob in &root.usage {
            if !self.space.borrow_mut().restore_blob(blob.segment, blob.stored_len) {
                let number = blob.segment.number;
                return Err(
                    self.bad_root(format!("segment {number} of a usage blob is not leased"))
                );
            }
        }
        Ok(())
    }

    async fn read_blob(&self, blob: &Location, kind: PageKind) -> Result<BufSlice> {
        let bytes = self.stored_unit(blob).await?;
        let (header, _) = PageHeader::decode(&bytes)?;
        if header.kind != kind {
            return Err(self.bad_root(format!("a {kind} blob is a page of another kind")));
        }
        Ok(bytes)
    }

    /// Puts the deaths back that wait since the checkpoint or longer.
    async fn restore_deaths(&self, root: &ShardRoot) -> Result<()> {
        for blob in &root.deaths {
            let read = self.read_blob(blob, PageKind::Deaths).await?;
            let mut wrong = None;
            decode_deaths(&read[PageHeader::LEN..], |chunk| {
                let is_new = self.trees.borrow_mut().deaths.restore(chunk);
                if !is_new || chunk >= root.next_chunk {
                    wrong = Some(chunk);
                }
            })?;
            if let Some(chunk) = wrong {
                return Err(self.bad_root(format!("{chunk} died twice, or was never there")));
            }
        }
        Ok(())
    }

    /// Puts the map updates back that wait since the checkpoint or longer.
    async fn restore_deltas(&self, root: &ShardRoot) -> Result<()> {
        for blob in &root.deltas {
            let read = self.read_blob(blob, PageKind::Deltas).await?;
            let mut wrong = None;
            decode_deltas(&read[PageHeader::LEN..], |delta| {
                let deltas = &mut self.trees.borrow_mut().deltas;
                let block = BlockIndex(delta.block);
                let is_new = deltas.set(delta.stream, block, delta.chunk).is_none();
                let is_data = delta.chunk > ChunkId::ZERO && delta.chunk < root.next_chunk;
                if !is_new || !is_data || !is_block_of_map(block) {
                    wrong = Some(delta);
                }
            })?;
            if let Some(delta) = wrong {
                return Err(self.bad_root(format!("{delta:?} waits twice, or was never there")));
            }
        }
        Ok(())
    }

    async fn read_links(&self, kind: SegmentKind, head: ChainHead, witness: u64) -> Result<Chain> {
        let owner = SegmentOwner {
            pool: self.config.pool,
            shard: self.config.shard,
            mount: self.lifecycle.mount(),
        };
        let chain = read_chain(&self.media.segments, &owner, kind, head, witness).await?;
        for link in chain.links.iter().filter(|link| link.is_damaged) {
            self.note_elsewhere(link.header.segment());
        }
        Ok(chain)
    }

    /// Takes the slots of both chains, their successors' included, out of the free ones.
    fn reserve_chains(
        &self,
        root: &ShardRoot,
        reclaimed: &[ChainLink],
        data: &[ChainLink],
    ) -> Result<()> {
        for (head, links) in [(root.reclaim_chain, reclaimed), (root.data_chain, data)] {
            let slots =
                [head.next_slot].into_iter().chain(links.iter().map(|link| link.head.next_slot));
            for slot in slots {
                if !self.space.borrow_mut().reserve_exact(slot) {
                    return Err(
                        self.bad_root(format!("segment {slot} of a chain is in use or not leased"))
                    );
                }
            }
            for link in links {
                self.space.borrow_mut().opened(link.header.segment(), link.header.wseq_last);
                self.allocation.see_generation(link.header.generation);
            }
        }
        Ok(())
    }

    /// Applies the moves; returns what the segments call dead.
    async fn replay_moves(&self, links: &[ChainLink]) -> Result<Vec<ChunkId>> {
        assert_eq!(self.apply.segments(), 0, "data come later"); // RECOVERY-2
        let segment_bytes = self.media.segments.geometry().segment_bytes;
        let entries_max = SegmentWriter::entries_max(segment_bytes);
        let mut freed = Vec::new();
        for link in links {
            for entry in &link.entries {
                let is_known = match entry {
                    SummaryEntry::Move { .. } | SummaryEntry::Folded { .. } => true,
                    SummaryEntry::FreedIds { first, count } => {
                        let next = self.trees.borrow().next_chunk.get();
                        let end = first.get().saturating_add(*count);
                        end <= next && *count <= u64::from(entries_max)
                    }
                    _ => false,
                };
                if !is_known {
                    return Err(self.bad_root(format!("{entry:?} in a reclaimed segment")));
                }
            }
            let dead = self.apply_moves(link.header.segment(), link.head, &link.entries).await?; // RECOVERY-2
            freed.extend(dead);
        }
        self.reclaim.resume();
        Ok(freed)
    }

    async fn replay_data(&self, links: &[ChainLink]) -> Result<()> {
        assert_eq!(self.apply.segments(), 0, "nothing else is on its way to the trees"); // APPLY-1
        for entry in links.iter().flat_map(|link| &link.entries) {
            match *entry {
                SummaryEntry::Reference { chunk, .. } => {
                    self.reduce.dedup.borrow_mut().grant(chunk); // DEDUP-2
                }
                SummaryEntry::ForeignReference { home, chunk, .. } => {
                    self.foreign.hold(ForeignChunk { home, chunk });
                }
                SummaryEntry::Grant { first, count, .. } => {
                    self.count_granted(ids_from(first, count)?); // PEERS-3
                }
                _ => {}
            }
        }
        for link in links {
            for entry in &link.entries {
                self.see_entry(entry)?;
            }
            let id = link.header.segment();
            let bytes = self.key_bytes(link).await;
            let (head, entries, bytes) = (link.head, link.entries.as_slice(), bytes.as_ref());
            self.apply_segment(Applicable { id, head, entries, bytes }).await?;
            self.drain.point.set(link.header.lane);
            self.apply.continue_lane(link.header.lane);
        }
        self.drain.resume(self.apply.chain());
        Ok(())
    }

    /// The bytes of a segment that holds keys, these verified: read one by one they would take a read each.
    async fn key_bytes(&self, link: &ChainLink) -> Option<BufSlice> {
        let key_unit = |entry: &SummaryEntry| match entry {
            SummaryEntry::KeyPut { unit, .. } | SummaryEntry::KeyDelete { unit, .. } => Some(*unit),
            _ => None,
        };
        let units: Vec<Unit> = link.entries.iter().filter_map(key_unit).collect();
        if units.len() < KEYS_OF_A_SEGMENT_MIN {
            return None;
        }
        let (id, len) = (link.header.segment(), link.header.summary_offset);
        let are_whole = |bytes: &BufSlice| {
            let is_whole = |unit: &Unit| {
                unit_bytes(bytes, unit).is_some_and(|bytes| unit_is_whole(unit, bytes))
            };
            units.iter().all(is_whole)
        };
        // What is wrong elsewhere in the segment keeps no key from being read by itself.
        let read = read_whole(&self.media.segments, id, 0, len, are_whole).await.ok()?;
        if read.is_from_elsewhere() {
            self.note_elsewhere(id);
        }
        (read.verdict != ReadVerdict::Wrong).then_some(read.bytes)
    }

    /// Counts the grants of records that are going to be drained (PEERS-3).
    async fn count_granted_in_lane(
        &self,
        lane: &mut JournalReader,
        data: &[ChainLink],
        root: LogPosition,
    ) -> Result<()> {
        if !self.trees.borrow().names_foreign {
            return Ok(()); // There are no others: nobody was granted anything.
        }
        let mut point = data.last().map_or(root, |link| link.header.lane);
        while let Some(read) = lane.frame_at(point).await? {
            for record in Frame::decode(&read.bytes)?.records() {
                let record = record?;
                if record.header.kind == RecordKind::Grant {
                    self.count_granted(self.granted_by(record.payload)?);
                }
            }
            point = read.end;
        }
        Ok(())
    }

    /// Folds again what was folded (RECOVERY-6): a slot that was reused has to turn out empty (SPACE-5). `freed` is
    /// what reclaim called dead.
    async fn replay_folds(&self, reclaimed: &[ChainLink], freed: Vec<ChunkId>) -> Result<()> {
        if !planted(Bug::DenseForgottenInReplay) {
            self.fold_dense().await?;
        }
        for entry in reclaimed.iter().flat_map(|link| &link.entries) {
            if let SummaryEntry::Folded { first, count } = entry
                && !planted(Bug::RangesForgottenInReplay)
            {
                self.fold_range(first.get()..first.get().saturating_add(*count)).await?;
            }
        }
        let freed = if planted(Bug::DeadForgottenInReplay) { Vec::new() } else { freed };
        for ids in freed.chunks(PLACES_AT_ONCE) {
            self.fold_freed(ids.to_vec()).await?;
            self.prefetch_places(ids.iter().copied()).await;
            for chunk in ids.iter().copied() {
                if self.with_pages(|trees| trees.chunk(chunk)).await?.is_some() {
                    let found = "live";
                    return Err(Error::DeathContradicted { chunk, found });
                }
            }
        }
        self.settle_freed();
        Ok(())
    }

    /// Makes a checkpoint where replay went by promises that cannot be read: the next one may be able to read them, and
    /// see less die (DELTAS-2).
    async fn store_what_replay_saw(&self) -> Result<()> {
        if !self.trees.borrow().deltas.replay_freed_more() {
            return Ok(());
        }
        let needed = self.segments_for(self.checkpoint_bytes());
        if self.space.borrow().free_count() < needed {
            return Err(self.bad_root(
                "promises cannot be read, nor is there room to go on without".to_owned(),
            ));
        }
        self.checkpoint().await
    }

    /// Learns ids from an entry, and refuses what is never in a data segment.
    fn see_entry(&self, entry: &SummaryEntry) -> Result<()> {
        match entry {
            SummaryEntry::Data { chunk, .. } => {
                let trees = &mut *self.trees.borrow_mut();
                if chunk.get() >= PAGE_ID_FIRST || *chunk == ChunkId::ZERO {
                    return Err(self.bad_root(format!("data have the id {chunk}, no id of data")));
                }
                trees.next_chunk = trees.next_chunk.max(chunk.next());
            }
            SummaryEntry::Cut { chunk_ceiling, .. } => {
                if chunk_ceiling.get() >= PAGE_ID_FIRST {
                    return Err(self.bad_root(format!("a cut at {chunk_ceiling}, no id of data")));
                }
                let trees = &mut *self.trees.borrow_mut();
                trees.next_chunk = trees.next_chunk.max(*chunk_ceiling);
            }
            SummaryEntry::ForeignReference { home, .. } if *home == self.config.shard => {
                return Err(self.bad_root("a chunk of this shard is called another's".to_owned()));
            }
            SummaryEntry::ForeignReference { home, .. } if !self.foreign.may_have(*home) => {
                return Err(self.bad_root(format!(
                    "a block names a chunk of shard {home}, which the pool does not have"
                )));
            }
            SummaryEntry::Reference { chunk, .. }
            | SummaryEntry::ForeignReference { chunk, .. }
                if chunk.get() >= PAGE_ID_FIRST || *chunk == ChunkId::ZERO =>
            {
                return Err(self.bad_root(format!("a block refers to {chunk}, no id of data")));
            }
            SummaryEntry::Move { .. }
            | SummaryEntry::Page { .. }
            | SummaryEntry::TablePage { .. }
            | SummaryEntry::UsageBlob { .. }
            | SummaryEntry::DeathBlob { .. }
            | SummaryEntry::DeltaBlob { .. }
            | SummaryEntry::Folded { .. } => {
                return Err(self.bad_root(format!("{entry:?} in a data segment")));
            }
            _ => {}
        }
        if let Some(wseq) = entry.wseq() {
            self.admission.see_wseq(wseq);
        }
        Ok(())
    }

    /// Everything in segments is in the trees: from here on the shard writes, under new ids (RECOVERY-4).
    async fn end_replay_of_segments(&self) -> Result<()> {
        assert!(self.no_data_put(), "nothing is written behind what is not erased"); // RECOVERY-7
        assert!(self.checkpoint.metadata.is_empty(), "nothing is written under old ids"); // RECOVERY-4
        if let Some(id) = self.space.borrow_mut().finish_replay() {
            return Err(
                self.bad_root(format!("segment {} was reused while it was live", id.number))
            );
        }
        for chain in [self.reclaim.chain(), self.apply.chain()] {
            erase(&self.media.segments, chain.next_slot).await?; // RECOVERY-7
        }
        {
            let trees = &mut *self.trees.borrow_mut();
            trees.next_chunk = ChunkId::new(trees.next_chunk.get() + ID_GAP);
        }
        self.allocation.skip_generations(ID_GAP);
        self.check_room().await?;
        let slot = self.take_segment(SegmentKind::Metadata).await?;
        self.checkpoint.metadata.resume(ChainHead { next_slot: slot, ..ChainHead::default() });
        Ok(())
    }

    /// Drains the lane's records that no segment holds (RECOVERY-3). Returns where the lane ends.
    async fn replay_lane(&self, lane: &mut JournalReader) -> Result<LogPosition> {
        let mut point = self.drain.point.get();
        while let Some(read) = lane.frame_at(point).await? {
            let frame = Frame::decode(&read.bytes)?;
            for record in frame.records() {
                let record = record?;
                record.header.kind.check_supported()?;
                self.admission.see_wseq(record.header.wseq);
                let applied = self.apply.wseq();
                let skipped = record.header.wseq == applied && planted(Bug::PartialRecordSkipped);
                if record.header.wseq < applied || skipped {
                    continue; // RECOVERY-3
                }
                let start = record.payload_offset;
                let payload = read.bytes.slice(start..start + record.payload.len());
                let pieces = record.payload.len().div_ceil(PIECE_BYTES);
                let piece_checksums = if pieces > 1 {
                    payload.chunks(PIECE_BYTES).map(checksum64).collect()
                } else {
                    Vec::new()
                };
                let (header, is_reserved) = (record.header, false);
                let record =
                    Rc::new(JournalRecord { header, payload, piece_checksums, is_reserved });
                let known = self.lookup_duplicates_of(std::slice::from_ref(&record)).await;
                let _gate = self.drain.gate.take(1).await;
                self.drain_record(&record, &mut known.into_iter()).await?;
            }
            point = read.end;
            self.drain.point.set(point);
        }
        Ok(point)
    }

    /// Applies what was replayed from `start` to `stop`, makes a checkpoint and starts serving.
    async fn finish_replay(self: &Rc<Self>, start: LogPosition, stop: LogPosition) -> Result<()> {
        self.flush_data().await?;
        self.reduce.dedup.borrow_mut().forget_grants();
        self.load_reservations().await?;
        self.admission.skip_wseqs(ID_GAP); // RECOVERY-4
        let head = LogPosition {
            chain: chain_seed(self.config.pool, self.config.shard, self.lifecycle.mount()),
            ..stop
        };
        let head = self.begin_lane(start, head).await?;
        assert!(head.frame_seq >= stop.frame_seq, "the lane goes on behind what was replayed"); // LANE-5
        self.drain.point.set(head);
        self.drain.lane_mount.set(self.lifecycle.mount());
        let last_chunk = ChunkId::new(self.trees.borrow().next_chunk.get() - 1);
        assert!(last_chunk >= self.apply.chunk(), "ids only grow"); // RECOVERY-4
        self.apply.resume(head, last_chunk);
        self.checkpoint().await?;
        assert!(self.drain.writer.borrow().is_empty(), "the root covers all that was replayed"); // RECOVERY-3
        assert!(self.no_data_put(), "the root covers all that was replayed"); // RECOVERY-3
        let lane = Journal::new(
            self.reactor.clone(),
            Rc::clone(&self.media.journal),
            Rc::clone(&self.media.fence),
            self.lane_owner(),
            head,
        );
        let run = Rc::clone(&lane).run();
        self.admission.set_lane(lane);
        self.tell_witnesses();
        self.spawn_task("lane", async move {
            run.await;
            Ok(())
        });
        self.spawn_task("watch", Rc::clone(self).run_watch());
        self.spawn_task("drain", Rc::clone(self).run_drain());
        self.spawn_task("pressure", Rc::clone(self).run_pressure());
        self.spawn_task("bypass", Rc::clone(self).run_bypass());
        self.spawn_task("warm", Rc::clone(self).run_warm());
        self.spawn_task("reservations", Rc::clone(self).run_counts());
        Ok(())
    }
}

/// Ids that follow each other, as many as a grant has at most.
fn ids_from(first: ChunkId, count: u64) -> Result<impl Iterator<Item = ChunkId>> {
    let (end, limit) = (first.get().saturating_add(count), GRANTED_MAX as u64);
    if count > limit || end > PAGE_ID_FIRST || first == ChunkId::ZERO {
        return Err(Error::TooLarge { what: "chunks of a grant", value: count, limit });
    }
    Ok((first.get()..end).map(ChunkId::new))
}

/// The segments of a shard's zones, all free, and where copies lie.
fn owned_space(segment_bytes: u32, owned: &[Zone], root: &ShardRoot) -> Space {
    let mut space = Space::new(segment_bytes);
    for zone in owned {
        space.add(zone.first, zone.count);
    }
    space.restore_copies(&root.copies);
    space
}

/// The trees as the checkpoint left them.
fn open_trees(config: &ShardConfig, root: &ShardRoot, has_others: bool) -> Result<Trees> {
    let bad = |reason: &str| Error::BadRoot { shard: config.shard, reason: reason.to_owned() };
    let table = BTree::open(table_layout(), root.table.page, root.table.height)
        .ok_or_else(|| bad("root and height of the chunk table do not go together"))?;
    let keys = BTree::open(TreeLayout::Slotted, root.keys.page, root.keys.height)
        .ok_or_else(|| bad("root and height of the key tree do not go together"))?;
    if root.next_page.get() < PAGE_ID_FIRST || root.next_chunk.get() >= PAGE_ID_FIRST {
        return Err(bad("ids of pages and data are mixed up"));
    }
    Ok(Trees {
        shard: config.shard,
        cache: PageCache::new(config.page_cache_bytes),
        keys,
        table,
        streams: crate::hash::HashMap::default(),
        names: ChunkNames::new(above(root.next_page), ChunkId::MAX),
        table_names: MemoryNames::new(),
        next_chunk: root.next_chunk,
        data: DataUsage { chunks: root.data_chunks, bytes: root.data_bytes },
        deaths: DeadChunks::new(config.deaths_bytes),
        deltas: MapBuffer::new(config.deltas_bytes, root.delta_limit),
        names_foreign: has_others || root.features.incompat & Features::FOREIGN_NAMES != 0,
    })
}

/// Makes the writers of a shard's segments, by kind and chain.
fn writers(
    config: &ShardConfig,
    root: &ShardRoot,
    segment_bytes: u32,
) -> impl Fn(SegmentKind, ChainHead) -> SegmentWriter + use<> {
    let owner = SegmentOwner { pool: config.pool, shard: config.shard, mount: root.mount };
    move |kind, chain| SegmentWriter::new(owner, kind, segment_bytes, chain)
}

fn above(id: ChunkId) -> ChunkId {
    ChunkId::new(id.get() + ID_GAP)
}

async fn read_root(parts: &ShardParts) -> Result<(ShardRoot, RootVersion)> {
    let key = RootKey::Shard(parts.config.shard);
    let read = parts.media.roots.read(key).await.map_err(varve_logstore::Error::from)?;
    let (version, bytes) = read;
    let bad =
        |reason: &str| Error::BadRoot { shard: parts.config.shard, reason: reason.to_owned() };
    if version == RootVersion(0) {
        return Err(bad("it was never made"));
    }
    let root = ShardRoot::decode(&bytes)?;
    if root.pool != parts.config.pool || root.shard != parts.config.shard {
        return Err(bad("its root belongs to another pool or shard"));
    }
    Ok((root, version))
}
