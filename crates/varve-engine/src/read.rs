//! The way of a read: write buffer, map, chunk table, data cache, segment.
//!
//! READ-1. A buffered version is returned only once it is durable, so that what was read once is never absent later.
//! READ-2. A segment is pinned from the moment its place is looked up until its bytes are here.
//! READ-3. Bytes from media are compared with the table's checksum; a mismatch is an error unless the media can read
//!     the right ones in another way (DECODE-5), or the block moved meanwhile.
//! READ-4. What another shard holds is read there, in one message for each home; what does not answer is an error of
//!     these blocks. Nothing is pinned for as long as that takes.

use std::collections::BTreeMap;
use std::ops::Range;

use futures_util::future::{try_join, try_join_all};
use varve_logstore::chain_reader::{read_again, unit_checksum};
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::summary::Codec;
use varve_logstore::planted::{Bug, planted};
use varve_logstore::space::unit_extent;
use varve_stdx::{AlignedBuf, BufSlice, ReadPart};
use varve_types::limits::VOLUME_BYTES_MAX;
use varve_types::{BlockIndex, ByteOffset, ByteRange, ChunkId, ShardId, StreamId};

use crate::block_cache::SMALL_READ_BYTES;
use crate::buffer::BufferedContent;
use crate::config::BLOCK_BYTES;
use crate::pages::{Faults, Pin};
use crate::peers::ForeignChunk;
use crate::tree::{BlockMapping, StatusRun};
use crate::trees::{Stop, data_slot};
use crate::{Error, Result, Shard};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Chunks that lie side by side are read together up to that many bytes.
const READ_BYTES_MAX: u32 = 1 << 20;

const _: () =
    assert!(SMALL_READ_BYTES <= READ_BYTES_MAX as usize, "a small read is one of the media");

/// Chunks that are read together for another shard.
pub(crate) const CHUNKS_AT_ONCE: usize = 256;

const _: () = assert!(
    CHUNKS_AT_ONCE * BLOCK_BYTES <= READ_BYTES_MAX as usize,
    "raw ones may lie side by side"
);

/// A block moves while it is read only if reclaim finishes in that time; so often is no coincidence.
pub(crate) const ATTEMPTS_MAX: usize = 16;

/// Turns that one look at what a range holds takes: a second at most, in which some ten million blocks that are stored
/// are looked at, or some thousand pages read. What holds nothing costs next to none.
pub(crate) const STATUS_TURNS_MAX: usize = 4096;

/// Where the current version of a block is.
enum BlockSource {
    Ready(ReadPart),
    Stored { chunk: ChunkId, place: ChunkEntry },
    Foreign(ForeignChunk),
}

/// Chunks side by side in a segment, for blocks side by side.
struct ChunkRun<'a> {
    first: usize,
    chunks: Vec<(ChunkId, ChunkEntry)>,
    /// Stored bytes, with what alignment leaves free between them.
    bytes: u32,
    pin: Pin<'a>,
}

impl Shard {
    /// Reads `len` bytes at `offset`; any alignment. Parts come in order and add up to `len`.
    ///
    /// # Errors
    /// `Corrupt` when stored bytes do not match their checksum; never wrong bytes.
    pub async fn read(
        &self,
        stream: StreamId,
        offset: ByteOffset,
        len: usize,
    ) -> Result<Vec<ReadPart>> {
        self.check_open()?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let bytes = ByteRange::checked(offset.0, len as u64).ok_or(Error::TooLarge {
            what: "end of the request",
            value: u64::MAX,
            limit: VOLUME_BYTES_MAX,
        })?;
        let Range { start: first, end } = bytes.touched_blocks();
        let count = usize::try_from(end - first).expect("bounded by the request");
        let mut blocks: Vec<Option<ReadPart>> = vec![None; count];
        for attempt in 0.. {
            let missing = self.read_blocks(stream, first, &mut blocks).await?;
            let Some(error) = missing else { break };
            if attempt == ATTEMPTS_MAX {
                return Err(error);
            }
        }
        self.counters.add_read(len);
        let parts = cut(blocks, first, bytes);
        debug_assert_eq!(parts.iter().map(ReadPart::len).sum::<usize>(), len, "all of it is there");
        Ok(parts)
    }

    /// Fills in blocks that are not there yet. Returns why some are still missing: then their place changed meanwhile.
    async fn read_blocks(
        &self,
        stream: StreamId,
        first: BlockIndex,
        blocks: &mut [Option<ReadPart>],
    ) -> Result<Option<Error>> {
        let bytes = blocks.len() * BLOCK_BYTES;
        let is_small = bytes <= SMALL_READ_BYTES;
        let keep = bytes <= self.caches.blocks.borrow().read_bytes_max();
        let mut by_cache = keep;
        let mut runs: Vec<ChunkRun<'_>> = Vec::new();
        let mut foreign = Vec::new();
        for (index, slot) in blocks.iter_mut().enumerate() {
            if slot.is_some() {
                continue;
            }
            match self.find_block(stream, first + index as u64, by_cache).await? {
                BlockSource::Ready(ReadPart::Data(data))
                    if is_small && data.pinned_bytes() > 2 * SMALL_READ_BYTES =>
                {
                    // Who takes the answer slowly would keep all of a long buffer.
                    *slot = Some(ReadPart::Data(BufSlice::copy_from(&data)));
                }
                BlockSource::Ready(part) => *slot = Some(part),
                BlockSource::Foreign(name) => foreign.push((index, name)),
                BlockSource::Stored { chunk, place } => {
                    // What the cache holds does not cut what is left of a large read into small ones.
                    by_cache &= is_small;
                    if !extend(&mut runs, index, chunk, &place) {
                        // READ-2: nothing was awaited since the place was looked up.
                        let Some(pin) = self.pin(place.segment) else {
                            return Err(Error::ChunkMissing {
                                stream,
                                block: first + index as u64,
                                chunk,
                            });
                        };
                        let chunks = vec![(chunk, place)];
                        runs.push(ChunkRun { first: index, chunks, bytes: place.stored_len, pin });
                    }
                }
            }
        }
        if runs.is_empty() && foreign.is_empty() {
            return Ok(None);
        }
        let own = async {
            let mut wrong = None;
            let bytes = try_join_all(runs.iter().map(|run| self.read_run(run))).await?;
            for (run, bytes) in runs.into_iter().zip(bytes) {
                self.place_run(&run, &bytes, blocks, &mut wrong).await;
                if keep && wrong.is_none() {
                    self.keep_run(&run, blocks, is_small);
                }
                drop(run.pin); // READ-4
            }
            Ok(wrong)
        };
        let (mut wrong, read) = try_join(own, self.read_foreign(&foreign)).await?;
        for ((index, ForeignChunk { home, chunk }), data) in foreign.into_iter().zip(read) {
            blocks[index] = data.map(ReadPart::Data);
            if blocks[index].is_none() {
                let block = first + index as u64;
                wrong = wrong.or(Some(Error::ForeignMissing { stream, block, home, chunk }));
            }
        }
        debug_assert!(wrong.is_some() || blocks.iter().all(Option::is_some), "all are there");
        let Some(error) = wrong else { return Ok(None) };
        self.report_or_retry(stream, first, blocks, error).await
    }

    /// The chunk of another shard that a block holds, unless something newer is buffered.
    pub(crate) async fn foreign_name(
        &self,
        stream: StreamId,
        block: BlockIndex,
    ) -> Result<Option<ForeignChunk>> {
        let is_possible = self.trees.borrow().names_foreign;
        if !is_possible || self.admission.buffer.borrow().newest(stream, block).is_some() {
            return Ok(None);
        }
        self.wait_cut(stream).await?;
        let slot = self.with_pages(|trees| trees.lookup(stream, block)).await?;
        let foreign = data_slot(slot).filter(|slot| slot.shard() != self.config.shard);
        Ok(foreign.map(|slot| ForeignChunk { home: slot.shard(), chunk: slot.id() }))
    }

    /// Reads chunks of other shards, in one message to each of them; none for one that is gone.
    pub(crate) async fn read_foreign(
        &self,
        names: &[(usize, ForeignChunk)],
    ) -> Result<Vec<Option<BufSlice>>> {
        let mut homes: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (at, (_, name)) in names.iter().enumerate() {
            homes.entry(name.home).or_default().push(at);
        }
        let reads = homes.into_iter().map(|(home, places)| async move {
            let chunks: Vec<_> = places.iter().map(|at| names[*at].1.chunk).collect();
            let read = self.peers_of(home)?.read(home, chunks).await?;
            let is_block = |data: &BufSlice| data.len() == BLOCK_BYTES;
            if read.len() != places.len() || !read.iter().flatten().all(is_block) {
                let cause = "it answered something else than was asked".to_owned();
                return Err(Error::HomeDamaged { home, cause });
            }
            Ok((places, read))
        });
        let mut found = vec![None; names.len()];
        for (places, read) in try_join_all(reads).await? {
            for (at, data) in places.into_iter().zip(read) {
                found[at] = data;
            }
        }
        Ok(found)
    }

    /// Reads chunks of this shard that another one names, part of a read of so many bytes; none for one that is not
    /// here.
    pub(crate) async fn read_some_chunks(
        &self,
        chunks: &[ChunkId],
        bytes: usize,
    ) -> Result<Vec<Option<BufSlice>>> {
        let is_small = bytes <= SMALL_READ_BYTES;
        let keep = bytes <= self.caches.blocks.borrow().read_bytes_max();
        let mut by_cache = keep;
        let mut blocks: Vec<Option<ReadPart>> = vec![None; chunks.len()];
        let mut gone = vec![false; chunks.len()];
        self.prefetch_places(chunks.iter().copied()).await;
        for attempt in 0.. {
            let mut runs: Vec<ChunkRun<'_>> = Vec::new();
            for (index, chunk) in chunks.iter().enumerate() {
                if blocks[index].is_some() || gone[index] {
                    continue;
                }
                let cached =
                    by_cache.then(|| self.caches.blocks.borrow_mut().get(*chunk)).flatten();
                if let Some(data) = cached {
                    blocks[index] = Some(ReadPart::Data(data));
                    continue;
                }
                by_cache &= is_small; // As of a read of one's own.
                match self.with_pages(|trees| trees.chunk(*chunk)).await? {
                    None => gone[index] = true,
                    Some(place) if extend(&mut runs, index, *chunk, &place) => {}
                    Some(place) => {
                        let Some(pin) = self.pin(place.segment) else { continue }; // READ-2
                        let chunks = vec![(*chunk, place)];
                        runs.push(ChunkRun { first: index, chunks, bytes: place.stored_len, pin });
                    }
                }
            }
            let bytes = try_join_all(runs.iter().map(|run| self.read_run(run))).await?;
            let mut wrong = None;
            for (run, bytes) in runs.into_iter().zip(bytes) {
                self.place_run(&run, &bytes, &mut blocks, &mut wrong).await;
                if keep && wrong.is_none() {
                    self.keep_run(&run, &blocks, is_small);
                }
            }
            if blocks.iter().zip(&gone).all(|(block, gone)| block.is_some() || *gone) {
                break;
            }
            self.report_or_retry_chunk(attempt, wrong).await?;
        }
        let data = |part: Option<ReadPart>| match part {
            Some(ReadPart::Data(data)) => Some(data),
            Some(ReadPart::Zero(_)) | None => None,
        };
        Ok(blocks.into_iter().map(data).collect())
    }

    /// As [`Self::report_or_retry`], of chunks that another shard reads.
    async fn report_or_retry_chunk(&self, attempt: usize, wrong: Option<Error>) -> Result<()> {
        if attempt == ATTEMPTS_MAX {
            let (home, cause) = (self.config.shard, "a chunk moves all the time".to_owned());
            return Err(wrong.unwrap_or(Error::HomeUnavailable { home, cause }));
        }
        let Some(error) = wrong else { return Ok(()) };
        let (Error::ChunkCorrupt { chunk, segment, offset, .. }
        | Error::ChunkUnreadable { chunk, segment, offset }) = error
        else {
            return Err(error);
        };
        let place = self.with_pages(|trees| trees.chunk(chunk)).await?;
        let is_there = place.is_some_and(|place| {
            let location = place.location();
            location.segment.number == segment && location.offset() == offset
        });
        if is_there {
            self.counters.add_checksum_error();
            self.reduce.dedup.borrow_mut().invalidate(chunk);
            tracing::error!(shard = self.config.shard.0, %error, "stored data is damaged");
            return Err(error);
        }
        Ok(())
    }

    async fn read_run(&self, run: &ChunkRun<'_>) -> Result<BufSlice> {
        let place = &run.chunks[0].1;
        let location = place.location();
        let read = self.media.segments.get(location.segment, location.offset(), run.bytes).await;
        self.counters.add_media_read(run.bytes);
        let error = match read {
            Ok(bytes) => return Ok(bytes),
            Err(error) => error,
        };
        if let Some(bytes) = self.read_run_again(run).await {
            return Ok(bytes);
        }
        run.chunks.iter().for_each(|(chunk, _)| self.reduce.dedup.borrow_mut().invalidate(*chunk));
        Err(varve_logstore::Error::from(error).into())
    }

    /// The bytes of a run whose read failed, each of its chunks read in another way; `None` when one has none.
    async fn read_run_again(&self, run: &ChunkRun<'_>) -> Option<BufSlice> {
        let run_start = run.chunks[0].1.location().offset();
        let mut bytes = AlignedBuf::zeroed(run.bytes as usize);
        for (_, place) in &run.chunks {
            let start = (place.location().offset() - run_start) as usize;
            let data = self.read_chunk_again(place).await?;
            bytes.get_mut(start..start + data.len())?.copy_from_slice(&data);
        }
        Some(bytes.freeze())
    }

    /// The stored bytes of a chunk, read in another way than at first (DECODE-5).
    async fn read_chunk_again(&self, place: &ChunkEntry) -> Option<BufSlice> {
        let location = place.location();
        let (id, offset, len) = (location.segment, location.offset(), place.stored_len);
        let is_right = |bytes: &BufSlice| {
            bytes.len() == len as usize && unit_checksum(bytes) == place.checksum
        };
        let bytes = read_again(&self.media.segments, id, offset, len, is_right).await?;
        self.counters.add_media_read(len);
        self.note_elsewhere(id);
        Some(bytes)
    }

    async fn place_run(
        &self,
        run: &ChunkRun<'_>,
        bytes: &BufSlice,
        blocks: &mut [Option<ReadPart>],
        wrong: &mut Option<Error>,
    ) {
        assert!(run.first + run.chunks.len() <= blocks.len(), "a run is for blocks of the read");
        let run_start = run.chunks[0].1.location().offset();
        for (index, (chunk, place)) in run.chunks.iter().enumerate() {
            let start = (place.location().offset() - run_start) as usize;
            let mut data = bytes.slice(start..start + place.stored_len as usize);
            let found = unit_checksum(&data);
            if found != place.checksum && !planted(Bug::ReadUnchecked) {
                let Some(right) = self.read_chunk_again(place).await else {
                    *wrong = Some(Error::ChunkCorrupt {
                        chunk: *chunk,
                        segment: place.segment.number,
                        offset: place.location().offset(),
                        expected: place.checksum,
                        found,
                    }); // READ-3
                    continue;
                };
                data = right;
            }
            let data = match self.restored(*chunk, place, data) {
                Ok(data) => data,
                Err(error) => {
                    *wrong = Some(error);
                    continue;
                }
            };
            blocks[run.first + index] = Some(ReadPart::Data(data));
        }
    }

    /// Keeps what was read: of a small read each block by itself, so that each stays as long as it is used.
    fn keep_run(&self, run: &ChunkRun<'_>, blocks: &[Option<ReadPart>], is_small: bool) {
        assert!(run.first < blocks.len(), "a run is for blocks of the read");
        let mut cache = self.caches.blocks.borrow_mut();
        let data = blocks[run.first..].iter().map_while(|part| match part {
            Some(ReadPart::Data(data)) => Some(data),
            Some(ReadPart::Zero(_)) | None => None,
        });
        let chunks = run.chunks.iter().map(|(chunk, _)| *chunk).zip(data);
        if is_small {
            for (chunk, data) in chunks {
                let own = data.pinned_bytes() == BLOCK_BYTES;
                cache.insert(chunk, if own { data.clone() } else { BufSlice::copy_from(data) });
            }
        } else {
            cache.insert_run(chunks.map(|(chunk, data)| (chunk, data.clone())).collect());
        }
    }

    /// The block that stored bytes stand for.
    pub(crate) fn restored(
        &self,
        chunk: ChunkId,
        place: &ChunkEntry,
        data: BufSlice,
    ) -> Result<BufSlice> {
        if place.codec == Codec::Raw && data.len() == BLOCK_BYTES {
            return Ok(data);
        }
        let mut block = AlignedBuf::scratch(BLOCK_BYTES);
        block.set_len(BLOCK_BYTES);
        if self.reduce.reducer.borrow_mut().restore(place.codec, &data, &mut block) {
            return Ok(block.freeze());
        }
        let (segment, offset) = (place.segment.number, place.location().offset());
        Err(Error::ChunkUnreadable { chunk, segment, offset })
    }

    /// A checksum mismatch is final when the block still lies where it was read.
    async fn report_or_retry(
        &self,
        stream: StreamId,
        first: BlockIndex,
        blocks: &[Option<ReadPart>],
        error: Error,
    ) -> Result<Option<Error>> {
        let (Error::ChunkCorrupt { chunk: damaged, segment, offset, .. }
        | Error::ChunkUnreadable { chunk: damaged, segment, offset }) = error
        else {
            return Ok(Some(error));
        };
        for (index, block) in blocks.iter().enumerate() {
            if block.is_some() {
                continue;
            }
            if let BlockSource::Stored { chunk, place } =
                self.find_block(stream, first + index as u64, false).await?
            {
                let location = place.location();
                if chunk == damaged
                    && location.segment.number == segment
                    && location.offset() == offset
                {
                    self.counters.add_checksum_error();
                    self.reduce.dedup.borrow_mut().invalidate(chunk);
                    tracing::error!(shard = self.config.shard.0, %error, "stored data is damaged");
                    return Err(error);
                }
            }
        }
        Ok(Some(error))
    }

    async fn find_block(
        &self,
        stream: StreamId,
        block: BlockIndex,
        by_cache: bool,
    ) -> Result<BlockSource> {
        let mut faults = Faults::default();
        loop {
            let pending = self.admission.buffer.borrow().newest(stream, block).cloned();
            if let Some(pending) = pending {
                if !self.is_durable(&pending.carrier) && !planted(Bug::ReadBeforeDurable) {
                    // READ-1. Newer versions may have come meanwhile: this one was current while the read was under
                    // way, and is no less durable. Waiting for each newer one as well would have no bound.
                    self.wait_durable(&pending.carrier).await?;
                }
                return Ok(BlockSource::Ready(match pending.content {
                    BufferedContent::Hole | BufferedContent::Zero => ReadPart::Zero(BLOCK_BYTES),
                    BufferedContent::Data(data) => ReadPart::Data(data),
                }));
            }
            if self.admission.cuts.is_pending(stream) && !planted(Bug::CopyReadEarly) {
                self.wait_cut(stream).await?;
                continue;
            }
            let looked_up = {
                let trees = &mut *self.trees.borrow_mut();
                match trees.lookup(stream, block) {
                    Ok(slot) => match data_slot(slot) {
                        None => Ok(BlockSource::Ready(ReadPart::Zero(BLOCK_BYTES))),
                        Some(slot) if slot.shard() != self.config.shard => {
                            let (home, chunk) = (slot.shard(), slot.id());
                            Ok(BlockSource::Foreign(ForeignChunk { home, chunk }))
                        }
                        Some(slot) => {
                            let chunk = slot.id();
                            match by_cache.then(|| self.caches.blocks.borrow_mut().get(chunk)) {
                                Some(Some(data)) => Ok(BlockSource::Ready(ReadPart::Data(data))),
                                Some(None) | None => match trees.chunk(chunk) {
                                    Ok(Some(place)) => Ok(BlockSource::Stored { chunk, place }),
                                    Ok(None) => {
                                        return Err(Error::ChunkMissing { stream, block, chunk });
                                    }
                                    Err(stop) => Err(stop),
                                },
                            }
                        }
                    },
                    Err(stop) => Err(stop),
                }
            };
            match looked_up {
                Ok(found) => return Ok(found),
                Err(Stop::Failed(error)) => return Err(error),
                // The block may have changed while the page was fetched: begin again.
                Err(Stop::Fault(fault)) => faults.load(self, fault).await?,
            }
        }
    }

    /// What the bytes of a range hold, in runs, at most `max` of them; may stop before the end of the range. Costs what
    /// is stored in it, not its length. What other shards store of the stream is a hole or zeros here.
    ///
    /// # Errors
    /// `Corrupt` when the map cannot be read.
    pub async fn block_status(
        &self,
        stream: StreamId,
        range: ByteRange,
        max: usize,
    ) -> Result<Vec<BlockStatus>> {
        self.check_open()?;
        let Range { start: first, end } = range.touched_blocks();
        let mut runs: Vec<StatusRun> = Vec::new();
        let (mut block, mut turns) = (first, 0);
        while block < end && runs.len() <= max && turns < STATUS_TURNS_MAX {
            let (buffered, until) = {
                let buffer = self.admission.buffer.borrow();
                let (pending, until) = buffer.span(stream, block, end);
                (pending.map(|pending| mapped(&pending.content)), until)
            };
            if let Some(mapped) = buffered {
                push_run(&mut runs, until - block, mapped);
                block = until;
                continue;
            }
            self.wait_cut(stream).await?;
            // What is buffered from now on is younger than the request: it need not be seen.
            while block < until && runs.len() <= max && turns < STATUS_TURNS_MAX {
                turns += 1;
                block = self
                    .with_pages(|trees| {
                        if !trees.open_stream(stream)? {
                            push_run(&mut runs, until - block, BlockMapping::Hole);
                            return Ok(until);
                        }
                        trees.status(stream, block..until, max + 1, &mut runs)
                    })
                    .await?;
                self.reactor.yield_now().await;
            }
        }
        assert!(block <= end, "a look stays in its range");
        debug_assert!(
            runs.windows(2).all(|pair| pair[0].mapped != pair[1].mapped),
            "runs are whole"
        );
        runs.truncate(max);
        let runs = runs.into_iter().map(|run| (run.blocks, run.mapped));
        Ok(bytes_of_runs(range, runs).map(|(len, mapped)| BlockStatus { len, mapped }).collect())
    }
}

/// Runs of blocks, from the one on in which a range of bytes begins, as runs of the bytes of the range.
pub(crate) fn bytes_of_runs<T>(
    range: ByteRange,
    runs: impl Iterator<Item = (u64, T)>,
) -> impl Iterator<Item = (u64, T)> {
    let mut at = ByteOffset(range.start).block().offset().0;
    runs.filter_map(move |(blocks, what)| {
        let run_end = at + blocks * BLOCK;
        let (start, stop) = (at.max(range.start), run_end.min(range.end));
        at = run_end;
        (start < stop).then(|| (stop - start, what))
    })
}

fn mapped(content: &BufferedContent) -> BlockMapping {
    match content {
        BufferedContent::Data(_) => BlockMapping::Data,
        BufferedContent::Hole => BlockMapping::Hole,
        BufferedContent::Zero => BlockMapping::Zero,
    }
}

/// What a run of bytes holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockStatus {
    /// Length in bytes.
    pub len: u64,
    /// What it holds.
    pub mapped: BlockMapping,
}

fn push_run(runs: &mut Vec<StatusRun>, blocks: u64, mapped: BlockMapping) {
    assert!(blocks > 0, "a run holds a block");
    match runs.last_mut() {
        Some(last) if last.mapped == mapped => last.blocks += blocks,
        _ => runs.push(StatusRun { blocks, mapped }),
    }
}

/// Adds a chunk to the last run if it lies right behind it, for the next block.
fn extend(runs: &mut [ChunkRun<'_>], index: usize, chunk: ChunkId, place: &ChunkEntry) -> bool {
    let Some(run) = runs.last_mut() else { return false };
    let (_, before) = &run.chunks[run.chunks.len() - 1];
    let adjacent = run.first + run.chunks.len() == index
        && before.segment == place.segment
        && before.location().offset() + unit_extent(before.stored_len) == place.location().offset();
    if !adjacent {
        return false;
    }
    let start = run.chunks[0].1.location().offset();
    let bytes = place.location().offset() + place.stored_len - start;
    let adjacent = bytes <= READ_BYTES_MAX;
    if adjacent {
        assert!(bytes >= run.bytes, "a run grows at its end");
        run.chunks.push((chunk, *place));
        run.bytes = bytes;
    }
    adjacent
}

/// Cuts whole blocks to the bytes asked for, and joins neighbouring zeros and neighbouring slices of one read.
fn cut(blocks: Vec<Option<ReadPart>>, first: BlockIndex, bytes: ByteRange) -> Vec<ReadPart> {
    let mut parts: Vec<ReadPart> = Vec::with_capacity(blocks.len());
    for (index, block) in blocks.into_iter().enumerate() {
        let block = block.expect("every block was found");
        let start = (first + index as u64).offset().0;
        let skip = usize::try_from(bytes.start.saturating_sub(start)).expect("inside a block");
        let stop = usize::try_from((bytes.end - start).min(BLOCK)).expect("inside a block");
        assert!(skip < stop, "each block has a part of the read");
        let part = block.trimmed(skip, stop - skip);
        match (parts.last_mut(), &part) {
            (Some(ReadPart::Zero(before)), ReadPart::Zero(len)) => *before += len,
            (Some(ReadPart::Data(before)), ReadPart::Data(data)) => match before.joined(data) {
                Some(joined) => *before = joined,
                None => parts.push(part),
            },
            _ => parts.push(part),
        }
    }
    parts
}
