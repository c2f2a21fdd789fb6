//! Deduplication: which stored chunk of the shard holds the bytes of a new block, and what keeps that chunk alive until
//! the block's reference to it is applied.
//!
//! ```text
//!  block drained ──fingerprint──▶ index ──grant──▶ reference in the open data segment
//!    ──put, apply──▶ map; chunk is `shared`
//! ```
//!
//! The index is small beside the data: it holds the blocks that were stored or met lately. One of 32 fingerprints is
//! also a **hook**, which names the segment of its block. Where hooks lead to a segment its summary is read, which
//! tells what else lies there, and its successor's when it is met itself: data that were written together are mostly
//! met together.
//!
//! Of streams that are deduplicated where it pays, a segment may have the fingerprints of a sample only
//! (`sampling.rs`). Those are hooks, all of them. Where they lead to such a segment, and the others were not learnt
//! lately, it is read as a whole and its blocks are fingerprinted.
//!
//! DEDUP-1. The index is advice: a chunk it names is used only while the chunk table holds it, or its own data segment
//!     is still to be applied. Ids are never reused, so a forgotten entry never names other bytes.
//! DEDUP-2. A grant counts from the moment the reference is drained until it is applied. A chunk with a grant does not
//!     die by being overwritten, in whatever order segments are applied; recovery counts the references of all segments
//!     before it replays the first.
//! DEDUP-3. An applied reference marks its chunk as shared. A shared chunk never dies by being overwritten: only mark
//!     frees it.
//! DEDUP-4. What a mark pass has decided to free, or waits to be folded (DEATHS-1), is granted no more; what is granted
//!     during a pass, or was before it, is marked.
//! DEDUP-5. A reference follows the data of its chunk in the chain, so it is never durable without them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::Hash;
use std::rc::Rc;

use roaring::{RoaringBitmap, RoaringTreemap};
use varve_logstore::chain_reader::{read_summary, read_whole, unit_bytes, unit_is_whole};
use varve_logstore::format::segment::{STRIP_HEADER_BYTES, StripHeader};
use varve_logstore::format::summary::{Fingerprint, SummaryEntry, Unit};
use varve_logstore::planted::{Bug, planted};
use varve_logstore::space::{SegmentState, SegmentUsage};
use varve_media::SegmentId;
use varve_reactor::Notify;
use varve_stdx::{BufSlice, FINGERPRINT_BATCH, FINGERPRINT_BYTES};
use varve_types::{ChunkId, Dedup as Setting, SegmentNumber, StreamId};

use crate::config::BLOCK_BYTES;
use crate::hash::{HashMap, HashSet};
use crate::{Result, Shard};

/// Memory of an entry of the index, in bytes: key, chunk, a byte of the table's, and what that leaves empty at worst.
const ENTRY_BYTES: usize = 57;

/// As much for a hook.
const HOOK_BYTES: usize = 39;

/// A fingerprint is a hook if it is a multiple of this.
const HOOK_INTERVAL: u32 = 32;

/// Hooks that lead to a segment before its summary is read: one may be chance.
const SIGNALS_MIN: u32 = 2;

const _: () = assert!(SIGNALS_MIN > 1, "one may be chance");

/// Damaged chunks that are remembered; beyond them, something else is wrong with the drive.
const DAMAGED_MAX: usize = 4096;

/// Segments without a fingerprint, one after the other, after which the newest are not looked through any further.
const BARREN_MAX: u32 = 32;

/// Pause between two of them, in ns: requests go first.
const WARM_PAUSE_NS: u64 = 500_000;

/// Segments whose summaries were read lately that are remembered: they are not read again, unless they are met much
/// later.
const READ_MAX: usize = 16;

/// Segments that were fingerprinted lately that are remembered.
const COMPLETED_MAX: usize = 1 << 16;

/// Batches of fingerprints taken before other tasks get a turn: some 50 µs of work, with what it takes to restore the
/// blocks.
const BATCHES_PER_TURN: usize = 2;

/// Segments with signals that are remembered.
const SIGNALS_MAX: usize = 256;

/// What a shard knows of equal blocks.
pub(crate) struct Dedup {
    index: Generations<Fingerprint, ChunkId>,
    hooks: Generations<u64, SegmentNumber>,
    /// Hooks that led to segments lately.
    signals: HashMap<SegmentNumber, u32>,
    /// Segments whose summaries were read lately, and their successors in the chain.
    read: VecDeque<(SegmentNumber, SegmentNumber)>,
    /// Segments in which some blocks have no fingerprint because they were not in a sample.
    sampled: RoaringBitmap,
    /// Those of them whose blocks were fingerprinted since, and how often the index had forgotten a half by then.
    completed: HashMap<SegmentNumber, u64>,
    /// Segments whose summaries are being read: who meets one waits for it.
    reading: HashSet<SegmentNumber>,
    read_ended: Rc<Notify>,
    /// Drained references that are not applied yet, by chunk (DEDUP-2).
    grants: HashMap<ChunkId, u32>,
    /// What a mark pass is about to free (DEDUP-4).
    dying: RoaringTreemap,
    /// Stored bytes of shared chunks that were overwritten and that no mark pass has looked at.
    kept_bytes: u64,
    /// Chunks whose stored bytes are damaged: what equals them is stored anew.
    damaged: HashSet<ChunkId>,
}

impl Dedup {
    pub(crate) fn new(index_bytes: usize) -> Self {
        Self {
            index: Generations::new(index_bytes / 4 * 3 / ENTRY_BYTES),
            hooks: Generations::new(index_bytes / 4 / HOOK_BYTES),
            signals: HashMap::default(),
            read: VecDeque::new(),
            sampled: RoaringBitmap::new(),
            completed: HashMap::default(),
            reading: HashSet::default(),
            read_ended: Rc::new(Notify::new()),
            grants: HashMap::default(),
            dying: RoaringTreemap::new(),
            kept_bytes: 0,
            damaged: HashSet::default(),
        }
    }

    /// Counts a drained reference, or a grant to another shard (DEDUP-2).
    pub(crate) fn grant(&mut self, chunk: ChunkId) {
        *self.grants.entry(chunk).or_default() += 1;
    }

    /// A reference was applied.
    pub(crate) fn settle(&mut self, chunk: ChunkId) {
        if planted(Bug::GrantsForgottenInReplay) && !self.grants.contains_key(&chunk) {
            return;
        }
        let count = self.grants.get_mut(&chunk).expect("references are counted before applied");
        assert!(*count > 0, "what is counted is on its way"); // DEDUP-2
        *count -= 1;
        if *count == 0 {
            self.grants.remove(&chunk);
        }
    }

    /// Recovery is at its end: what it counted and did not apply was applied before.
    pub(crate) fn forget_grants(&mut self) {
        self.grants.clear();
    }

    /// Whether a drained reference to the chunk waits to be applied.
    pub(crate) fn is_granted(&self, chunk: ChunkId) -> bool {
        self.grants.contains_key(&chunk) && !planted(Bug::GrantNotCounted)
    }

    /// Grants no more of a chunk whose stored bytes are damaged, so that writing its bytes once more helps.
    pub(crate) fn invalidate(&mut self, chunk: ChunkId) {
        if self.damaged.len() < DAMAGED_MAX {
            self.damaged.insert(chunk);
        }
        assert!(self.damaged.len() <= DAMAGED_MAX, "few are remembered");
    }

    /// A chunk is gone, and with it what was wrong with it.
    pub(crate) fn trust(&mut self, chunk: ChunkId) {
        if !self.damaged.is_empty() {
            self.damaged.remove(&chunk);
        }
    }

    /// Counts what was overwritten and stays, for it is shared; returns all of it since the last mark pass began.
    pub(crate) fn keep(&mut self, bytes: u64) -> u64 {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        self.kept_bytes
    }

    /// Stored bytes of shared chunks that were overwritten, and may be named by nobody.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// A mark pass ended that began when so many bytes were kept.
    pub(crate) fn mark_ended(&mut self, kept_bytes: u64) {
        self.kept_bytes = self.kept_bytes.saturating_sub(kept_bytes);
    }

    /// Chunks with grants.
    pub(crate) fn granted(&self) -> impl Iterator<Item = ChunkId> {
        self.grants.keys().copied()
    }

    /// Grants no more of a chunk that is about to be freed (DEDUP-4).
    pub(crate) fn refuse(&mut self, chunk: ChunkId) {
        if !planted(Bug::DyingIsGranted) {
            self.dying.insert(chunk.get());
        }
    }

    /// What was about to be freed is out of the table.
    pub(crate) fn freed(&mut self, refused: &RoaringTreemap) {
        self.dying -= refused;
    }

    /// The chunk that holds the bytes with this fingerprint, as far as the index knows.
    pub(crate) fn find(&mut self, fingerprint: Fingerprint) -> Option<ChunkId> {
        let refused =
            |chunk: &ChunkId| self.dying.contains(chunk.get()) || self.damaged.contains(chunk);
        self.index.find(fingerprint).filter(|chunk| !refused(chunk))
    }

    /// A data segment was sealed; some of its blocks may not have been in a sample.
    pub(crate) fn note_sealed(&mut self, segment: SegmentNumber, samples_only: bool) {
        if samples_only {
            self.sampled.insert(segment.0);
        } else if !self.sampled.is_empty() {
            self.sampled.remove(segment.0);
        }
        self.completed.remove(&segment);
    }

    /// Whether fingerprints of blocks in this segment would have to be computed.
    fn is_incomplete(&self, segment: SegmentNumber) -> bool {
        let is_fresh = |forgotten: &u64| {
            assert!(*forgotten <= self.index.forgotten, "what was forgotten stays so");
            self.index.forgotten - forgotten < 2
        };
        self.sampled.contains(segment.0) && !self.completed.get(&segment).is_some_and(is_fresh)
    }

    /// All blocks of a segment are in the index.
    fn note_completed(&mut self, segment: SegmentNumber) {
        if self.completed.len() >= COMPLETED_MAX {
            self.completed.clear();
        }
        self.completed.insert(segment, self.index.forgotten);
        assert!(self.completed.len() <= COMPLETED_MAX, "few are remembered");
    }

    /// Learns what a chunk holds that was just stored to a segment. `is_hook` makes its fingerprint one (DEDUP-5).
    pub(crate) fn learn(
        &mut self,
        fingerprint: Fingerprint,
        chunk: ChunkId,
        segment: SegmentNumber,
        is_hook: bool,
    ) {
        debug_assert!(chunk > ChunkId::ZERO, "no data have id 0"); // DEDUP-1
        self.index.insert(fingerprint, chunk);
        let (hook, is_multiple) = hook_of(fingerprint);
        if is_hook || is_multiple {
            self.hooks.insert(hook, segment);
        }
    }

    /// Learns where a block is now that was moved.
    pub(crate) fn learn_place(&mut self, fingerprint: Fingerprint, segment: SegmentNumber) {
        let (hook, is_multiple) = hook_of(fingerprint);
        if is_multiple || self.hooks.contains(hook) {
            self.hooks.insert(hook, segment);
        }
    }

    /// Learns from a summary: what is there already is newer.
    fn learn_stored(&mut self, stored: &[StoredBlock], segment: SegmentNumber, wanted: bool) {
        for block in stored {
            if wanted || !self.index.is_full() {
                self.index.insert_absent(block.fingerprint, block.chunk);
            }
            let (hook, is_multiple) = hook_of(block.fingerprint);
            if (is_multiple || block.is_sample) && !self.hooks.is_full() {
                self.hooks.insert_absent(hook, segment);
            }
        }
    }

    /// The segment whose summary is worth reading, or waiting for, now that a block with this fingerprint comes: the
    /// one that several hooks led to, or the successor of one that was read and is being met.
    fn signal(&mut self, fingerprint: Fingerprint) -> Option<SegmentNumber> {
        assert!(self.signals.len() <= SIGNALS_MAX, "few are remembered");
        let (hook, is_multiple) = hook_of(fingerprint);
        if !is_multiple && self.sampled.is_empty() {
            return None;
        }
        let segment = self.hooks.find(hook)?;
        let wanted = if self.index.find(fingerprint).is_some() && !self.is_incomplete(segment) {
            let read = self.read.iter().find(|(read, _)| *read == segment);
            *read.map(|(_, successor)| successor).filter(|it| !self.reading.contains(*it))?
        } else if self.reading.contains(&segment) {
            return Some(segment);
        } else {
            if self.signals.len() >= SIGNALS_MAX {
                self.signals.clear();
            }
            let signals = self.signals.entry(segment).or_default();
            *signals += 1;
            if *signals < SIGNALS_MIN {
                return None;
            }
            self.signals.remove(&segment);
            segment
        };
        self.read.iter().all(|(read, _)| *read != wanted).then_some(wanted)
    }

    /// The summary of a segment was read because of a signal.
    fn note_read(&mut self, segment: SegmentNumber, successor: SegmentNumber) {
        debug_assert!(
            self.read.iter().all(|(read, _)| *read != segment),
            "what was read lately is not read again"
        );
        if self.read.len() >= READ_MAX {
            self.read.pop_front();
        }
        self.read.push_back((segment, successor));
        assert!(self.read.len() <= READ_MAX, "few are remembered");
    }

    /// Entries of the index.
    pub(crate) fn index_len(&self) -> usize {
        self.index.len()
    }
}

/// The part of a fingerprint by which its segment is remembered if it is a hook, and whether it is one in any case.
fn hook_of(fingerprint: Fingerprint) -> (u64, bool) {
    let number = u128::from_le_bytes(fingerprint.bytes());
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    let (low, high) = (number as u64, (number >> 64) as u64);
    (high, low.is_multiple_of(u64::from(HOOK_INTERVAL)))
}

/// A block of a stored segment whose fingerprint is known.
struct StoredBlock {
    fingerprint: Fingerprint,
    chunk: ChunkId,
    /// Whether it was fingerprinted because it is in the sample: then it is a hook in any case.
    is_sample: bool,
}

impl StoredBlock {
    /// Those of a summary, in their order. A summary does not say which of them are the sample, and the checksum of a
    /// compressed block is not that of its plain bytes: those beside a block that was left out are taken for it. While
    /// all blocks of a stream were fingerprinted none was left out, and were those hooks too, a few segments would take
    /// the place of all others.
    fn of_summary(entries: &[SummaryEntry]) -> Vec<Self> {
        let block = |entry: &SummaryEntry| match *entry {
            SummaryEntry::Data { chunk, fingerprint, .. }
            | SummaryEntry::Move { chunk, fingerprint, .. } => Some((fingerprint, chunk)),
            _ => None,
        };
        let blocks: Vec<_> = entries.iter().filter_map(block).collect();
        let is_left_out = |at: usize| blocks.get(at).is_some_and(|(known, _)| known.is_none());
        let known = |(at, (fingerprint, chunk)): (usize, &(Option<Fingerprint>, ChunkId))| {
            let is_sample = is_left_out(at.wrapping_sub(1)) || is_left_out(at + 1);
            Some(Self { fingerprint: (*fingerprint)?, chunk: *chunk, is_sample })
        };
        blocks.iter().enumerate().filter_map(known).collect()
    }
}

/// A summary that is being read, until it is dropped.
struct SummaryRead<'a> {
    dedup: &'a RefCell<Dedup>,
    number: SegmentNumber,
}

impl<'a> SummaryRead<'a> {
    fn begin(dedup: &'a RefCell<Dedup>, number: SegmentNumber) -> Self {
        let is_fresh = dedup.borrow_mut().reading.insert(number);
        assert!(is_fresh, "who meets it while it is read waits");
        Self { dedup, number }
    }
}

impl Drop for SummaryRead<'_> {
    fn drop(&mut self) {
        let mut dedup = self.dedup.borrow_mut();
        let was_read = dedup.reading.remove(&self.number);
        assert!(was_read, "a summary is read by one");
        dedup.read_ended.notify_all();
    }
}

impl Shard {
    /// Reads the summaries that hooks among `fingerprints` lead to, and what the table says of chunks that are known by
    /// then, before blocks with these fingerprints are looked up.
    pub(crate) async fn follow_hooks(&self, fingerprints: &[Option<Fingerprint>]) {
        for fingerprint in fingerprints.iter().flatten() {
            let segment = self.reduce.dedup.borrow_mut().signal(*fingerprint);
            let Some(number) = segment else { continue };
            if self.wait_read(number).await {
                continue;
            }
            let sealed = |usage: &&SegmentUsage| usage.state == SegmentState::Sealed;
            let usage =
                self.space.borrow().get(number).filter(sealed).map(|usage| usage.generation);
            if let Some(generation) = usage {
                let _reading = SummaryRead::begin(&self.reduce.dedup, number);
                self.learn_segment(SegmentId { number, generation }, true).await;
            }
        }
        let known = |fingerprint| self.reduce.dedup.borrow_mut().find(fingerprint);
        let chunks: Vec<_> = fingerprints.iter().flatten().copied().filter_map(known).collect();
        self.prefetch_places(chunks.iter().copied()).await;
    }

    /// Waits for a segment's summary if it is being read; false if it is not.
    async fn wait_read(&self, number: SegmentNumber) -> bool {
        let is_reading = || self.reduce.dedup.borrow().reading.contains(&number);
        if !is_reading() {
            return false;
        }
        let ended = Rc::clone(&self.reduce.dedup.borrow().read_ended);
        while is_reading() {
            ended.notified().await;
        }
        true
    }

    /// Learns what the newest segments hold, after an opening; nobody waits for it.
    pub(crate) async fn run_warm(self: Rc<Self>) -> Result<()> {
        let mut segments: Vec<_> = {
            let space = self.space.borrow();
            let sealed = space
                .iter()
                .filter(|(_, usage)| usage.state == SegmentState::Sealed && !usage.has_pages);
            let id = |(number, usage): (SegmentNumber, &SegmentUsage)| {
                (usage.sealed_at, SegmentId { number, generation: usage.generation })
            };
            sealed.map(id).collect()
        };
        segments.sort_unstable_by_key(|(age, id)| std::cmp::Reverse((*age, id.number)));
        let mut barren = 0;
        for (_, id) in segments {
            let is_full = {
                let dedup = self.reduce.dedup.borrow();
                dedup.index.is_full() && dedup.hooks.is_full()
            };
            if is_full || barren == BARREN_MAX {
                break;
            }
            barren = if self.learn_segment(id, false).await { 0 } else { barren + 1 };
            assert!(barren <= BARREN_MAX, "it gives up in time");
            self.reactor.sleep(WARM_PAUSE_NS).await;
        }
        Ok(())
    }

    /// Learns the fingerprints in a segment's summary; false when there are none. What cannot be read is left to those
    /// who need it.
    async fn learn_segment(&self, id: SegmentId, wanted: bool) -> bool {
        let Some(_pin) = self.pin(id) else { return false };
        let segments = &self.media.segments;
        let own_header = |bytes: &[u8]| {
            let (header, _) = StripHeader::decode(bytes).ok()?;
            let is_own = header.pool == self.config.pool && header.shard == self.config.shard;
            (header.segment() == id && is_own).then_some(header)
        };
        let is_right = |bytes: &BufSlice| own_header(bytes).is_some();
        let Ok(read) = read_whole(segments, id, 0, STRIP_HEADER_BYTES, is_right).await else {
            return false;
        };
        let header = own_header(&read.bytes).filter(|header| header.summary_entries > 0);
        let Some(header) = header else { return false };
        let Ok(summary) = read_summary(segments, &header).await else { return false };
        if read.is_from_elsewhere() || summary.is_damaged {
            self.note_elsewhere(id);
        }
        let entries = summary.entries;
        let mut stored = StoredBlock::of_summary(&entries);
        let unsampled = self.unsampled(&entries);
        let samples_only = !unsampled.is_empty();
        for block in &mut stored {
            block.is_sample &= samples_only;
        }
        self.reduce.dedup.borrow_mut().learn_stored(&stored, id.number, wanted);
        if !wanted {
            self.reduce.dedup.borrow_mut().note_sealed(id.number, samples_only);
            self.tell_owners(stored.iter().map(|block| block.fingerprint));
            return !stored.is_empty();
        }
        self.reduce.dedup.borrow_mut().note_read(id.number, header.next_slot);
        if samples_only && self.reduce.dedup.borrow().is_incomplete(id.number) {
            self.learn_unsampled(id, header.summary_offset, &unsampled).await;
        }
        true
    }

    /// Chunks that have no fingerprint because they were not in a sample, and their stored bytes. A shard that was
    /// opened may not know yet that a stream is deduplicated: then it is one of which the segment has a sample. What is
    /// promised is offered to nobody (RESERVATIONS-2).
    fn unsampled(&self, entries: &[SummaryEntry]) -> Vec<(ChunkId, Unit)> {
        let sampled: HashSet<StreamId> = entries
            .iter()
            .filter_map(|entry| match entry {
                SummaryEntry::Data { stream, fingerprint: Some(_), .. } => Some(*stream),
                _ => None,
            })
            .collect();
        let is_deduplicated = |stream| {
            let is_set = self.reduction(stream).dedup != Setting::Off;
            (is_set || sampled.contains(&stream)) && !self.reservations.promises_to(stream)
        };
        let unsampled = entries.iter().filter_map(|entry| match *entry {
            SummaryEntry::Data { chunk, stream, unit, fingerprint: None, .. } => {
                is_deduplicated(stream).then_some((chunk, unit))
            }
            _ => None,
        });
        unsampled.collect()
    }

    /// Fingerprints blocks of a segment, and learns them. What is damaged is left to those who read it.
    async fn learn_unsampled(&self, id: SegmentId, data_bytes: u32, units: &[(ChunkId, Unit)]) {
        let _one = self.reduce.learn_gate.take(1).await;
        let read = read_whole(&self.media.segments, id, 0, data_bytes, |_| true).await;
        let Ok(segment) = read.map(|read| read.bytes) else { return };
        for (index, group) in units.chunks(FINGERPRINT_BATCH).enumerate() {
            let mut blocks = Vec::with_capacity(group.len());
            for (chunk, unit) in group {
                let bytes = unit_bytes(&segment, unit).filter(|it| unit_is_whole(unit, it));
                let mut block = vec![0; BLOCK_BYTES];
                let restores = |bytes: &[u8]| {
                    self.reduce.reducer.borrow_mut().restore(unit.codec, bytes, &mut block)
                };
                if bytes.is_some_and(restores) {
                    blocks.push((*chunk, block));
                }
            }
            let plain: Vec<&[u8]> = blocks.iter().map(|(_, block)| &block[..]).collect();
            let fingerprints = self.reduce.fingerprinter.fingerprints(&plain);
            let known = |fingerprint: [u8; FINGERPRINT_BYTES]| Fingerprint::new(fingerprint);
            let stored: Vec<_> = blocks
                .iter()
                .zip(fingerprints)
                .filter_map(|((chunk, _), fingerprint)| {
                    let (fingerprint, chunk) = (known(fingerprint)?, *chunk);
                    Some(StoredBlock { fingerprint, chunk, is_sample: false })
                })
                .collect();
            self.reduce.dedup.borrow_mut().learn_stored(&stored, id.number, true);
            self.tell_owners(stored.iter().map(|block| block.fingerprint));
            if index % BATCHES_PER_TURN == BATCHES_PER_TURN - 1 {
                self.reactor.yield_now().await;
            }
        }
        self.reduce.dedup.borrow_mut().note_completed(id.number);
    }

    /// Takes a grant of the chunk that holds the bytes with this fingerprint. `None` when there is none that is alive,
    /// or when that is not known without reading: then the bytes are stored once more.
    pub(crate) fn take_grant(&self, fingerprint: Fingerprint) -> Option<ChunkId> {
        let mut dedup = self.reduce.dedup.borrow_mut();
        let chunk = dedup.find(fingerprint)?;
        let trees = self.trees.borrow();
        let is_applied = chunk <= self.apply.chunk();
        let is_alive = if is_applied {
            let is_dead = trees.deaths.contains(chunk) && !planted(Bug::DeadIsGranted);
            // DEATHS-1: nobody holds it but for those that made it shared.
            trees.chunk(chunk).is_ok_and(|entry| entry.is_some_and(|it| it.shared || !is_dead))
        } else {
            chunk < trees.next_chunk
        };
        if !is_alive {
            return None; // DEDUP-1
        }
        dedup.grant(chunk);
        debug_assert!(dedup.is_granted(chunk) || planted(Bug::GrantNotCounted)); // DEDUP-2
        if let Some(pass) = self.mark.pass.borrow_mut().as_mut() {
            pass.note_grant(chunk); // DEDUP-4
        }
        Some(chunk)
    }
}

/// Bytes by key in bounded memory: what was not looked up while half as many others were learnt is forgotten.
pub(crate) struct Generations<K, V> {
    recent: HashMap<K, V>,
    older: HashMap<K, V>,
    half_max: usize,
    /// How often the older half was forgotten.
    forgotten: u64,
}

impl<K: Copy + Eq + Hash, V: Copy> Generations<K, V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            recent: HashMap::default(),
            older: HashMap::default(),
            half_max: (entries_max / 2).max(1),
            forgotten: 0,
        }
    }

    pub(crate) fn find(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.recent.get(&key) {
            return Some(*value);
        }
        let value = self.older.remove(&key)?;
        self.insert(key, value);
        Some(value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.recent.insert(key, value);
        assert!(self.recent.len() <= self.half_max, "a half is full at most");
        if self.recent.len() >= self.half_max {
            self.older = std::mem::take(&mut self.recent);
            self.forgotten += 1;
        }
    }

    fn contains(&self, key: K) -> bool {
        self.recent.contains_key(&key) || self.older.contains_key(&key)
    }

    fn insert_absent(&mut self, key: K, value: V) {
        if !self.contains(key) {
            self.insert(key, value);
        }
    }

    fn len(&self) -> usize {
        assert!(self.recent.len() < self.half_max, "a full half becomes the older one");
        assert!(self.older.len() <= self.half_max, "a half is full at most");
        self.recent.len() + self.older.len()
    }

    /// Whether one more would make it forget.
    fn is_full(&self) -> bool {
        self.recent.len() + 1 >= self.half_max && !self.older.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: SegmentNumber = SegmentNumber(3);

    fn fingerprint(n: u64) -> Fingerprint {
        Fingerprint::new((u128::from(n) + 1).to_le_bytes()).unwrap()
    }

    #[test]
    fn the_index_forgets_what_is_not_used_and_stays_within_its_bound() {
        let mut dedup = Dedup::new(134 * ENTRY_BYTES);
        for n in 0..10_000 {
            dedup.learn(fingerprint(n), ChunkId::new(n + 1), SEGMENT, false);
            assert_eq!(dedup.find(fingerprint(0)), Some(ChunkId::new(1)), "used all the time");
            assert!(dedup.index_len() <= 100);
        }
        assert_eq!(dedup.find(fingerprint(9_999)), Some(ChunkId::new(10_000)));
        assert_eq!(dedup.find(fingerprint(5_000)), None);
    }

    #[test]
    fn grants_are_counted_and_the_dying_are_refused() {
        let mut dedup = Dedup::new(1 << 20);
        let chunk = ChunkId::new(7);
        dedup.learn(fingerprint(1), chunk, SEGMENT, false);
        dedup.grant(chunk);
        dedup.grant(chunk);
        dedup.settle(chunk);
        assert!(dedup.is_granted(chunk));
        dedup.settle(chunk);
        assert!(!dedup.is_granted(chunk));
        dedup.refuse(chunk);
        assert_eq!(dedup.find(fingerprint(1)), None);
        dedup.freed(&RoaringTreemap::from([chunk.get()]));
        assert_eq!(dedup.find(fingerprint(1)), Some(chunk));
    }
}
