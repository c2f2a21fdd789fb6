//! The write buffer: every admitted block that the map does not show yet, newest version first.
//!
//! BUFFER-1. For each block the entry with the highest write sequence number is the newest; a large trim stands as a
//!     range.
//! BUFFER-2. An entry leaves when the map shows it, and only then; a newer version of the block stays.

use std::rc::Rc;

use hashbrown::hash_map::Entry;
use varve_logstore::lane::JournalFrame;
use varve_stdx::BufSlice;
use varve_types::{BlockIndex, StreamId, WriteSeq};

use crate::hash::HashMap;

/// Trims and zeroes of up to that many blocks are entered block by block.
pub(crate) const SMALL_RANGE_BLOCKS: u64 = 1024;

/// Blocks looked up one by one before all entries are looked through for the next one.
const PROBES_MAX: u64 = 64;

const _: () = assert!(PROBES_MAX <= SMALL_RANGE_BLOCKS);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct BlockKey {
    stream: StreamId,
    block: BlockIndex,
}

/// What a buffered block holds.
#[derive(Clone)]
pub(crate) enum BufferedContent {
    /// One block.
    Data(BufSlice),
    /// Nothing: trimmed.
    Hole,
    /// Zeros that stay allocated.
    Zero,
}

/// What makes a version durable.
#[derive(Clone)]
pub(crate) enum Carrier {
    /// A frame of the lane.
    Frame(Rc<JournalFrame>),
    /// A data segment, by its number in the chain, with all before it: the version bypassed the lane.
    Segment(u64),
}

/// A buffered version of a block.
#[derive(Clone)]
pub(crate) struct BufferedBlock {
    pub(crate) wseq: WriteSeq,
    pub(crate) carrier: Carrier,
    pub(crate) content: BufferedContent,
}

struct PendingRange {
    stream: StreamId,
    first: BlockIndex,
    end: BlockIndex,
    pending: BufferedBlock,
}

/// Admitted blocks that are not in the map yet.
#[derive(Default)]
pub(crate) struct WriteBuffer {
    blocks: HashMap<BlockKey, BufferedBlock>,
    ranges: Vec<PendingRange>,
}

impl WriteBuffer {
    /// Enters one version of a block; it is newer than all before (BUFFER-1).
    pub(crate) fn insert(&mut self, stream: StreamId, block: BlockIndex, pending: BufferedBlock) {
        let wseq = pending.wseq;
        if let Some(before) = self.blocks.insert(BlockKey { stream, block }, pending) {
            assert!(before.wseq < wseq, "versions are entered in order"); // BUFFER-1
        }
    }

    /// Enters a trim or zero of blocks `first .. end`.
    pub(crate) fn insert_range(
        &mut self,
        stream: StreamId,
        first: BlockIndex,
        end: BlockIndex,
        pending: BufferedBlock,
    ) {
        assert!(first < end, "a range holds a block");
        if end - first <= SMALL_RANGE_BLOCKS {
            for block in first.until(end) {
                self.insert(stream, block, pending.clone());
            }
        } else {
            // Hidden from now on, and draining may leave them out: nothing would remove them (BUFFER-2).
            self.blocks.retain(|key, _| key.stream != stream || !(first..end).contains(&key.block));
            let wseq = pending.wseq;
            debug_assert!(self.ranges.iter().all(|range| range.pending.wseq < wseq)); // BUFFER-1
            self.ranges.push(PendingRange { stream, first, end, pending });
        }
    }

    /// The newest buffered version of a block.
    pub(crate) fn newest(&self, stream: StreamId, block: BlockIndex) -> Option<&BufferedBlock> {
        let entry = self.blocks.get(&BlockKey { stream, block });
        if self.ranges.is_empty() {
            return entry;
        }
        let covering = |range: &&PendingRange| {
            range.stream == stream && (range.first..range.end).contains(&block)
        };
        let range = self.ranges.iter().filter(covering).map(|range| &range.pending);
        range.chain(entry).max_by_key(|pending| pending.wseq)
    }

    /// Whether the newest version of a block of `first .. end` is in the lane and not in the map yet.
    pub(crate) fn is_journaled(
        &self,
        stream: StreamId,
        first: BlockIndex,
        end: BlockIndex,
    ) -> bool {
        assert!(first <= end, "a range does not end before it begins");
        let in_lane = |block| {
            let entry = self.blocks.get(&BlockKey { stream, block });
            entry.is_some_and(|pending| matches!(pending.carrier, Carrier::Frame(_)))
        };
        let overlaps =
            |range: &PendingRange| range.stream == stream && range.first < end && first < range.end;
        self.ranges.iter().any(overlaps) || first.until(end).any(in_lane) // Ranges are always in the lane.
    }

    /// What is buffered for `block`, and up to which block before `end` the same holds.
    pub(crate) fn span(
        &self,
        stream: StreamId,
        block: BlockIndex,
        end: BlockIndex,
    ) -> (Option<&BufferedBlock>, BlockIndex) {
        assert!(block < end, "a span holds a block");
        let newest = self.newest(stream, block);
        let entry = self.blocks.get(&BlockKey { stream, block });
        if newest.is_some() && newest.map(|pending| pending.wseq) == entry.map(|entry| entry.wseq) {
            return (newest, block + 1);
        }
        let edges = self.ranges.iter().filter(|range| range.stream == stream);
        let edges = edges.flat_map(|range| [range.first, range.end]);
        let until = edges.filter(|edge| *edge > block).fold(end, BlockIndex::min);
        assert!(until > block && until <= end, "a span holds a block of the range");
        (newest, self.next_entry(stream, block + 1, until))
    }

    /// First block of `first .. end` with an entry of its own, or `end`.
    fn next_entry(&self, stream: StreamId, first: BlockIndex, end: BlockIndex) -> BlockIndex {
        assert!(first <= end, "a span holds a block");
        let near = end.min(first + PROBES_MAX);
        let probe =
            |block: &BlockIndex| self.blocks.contains_key(&BlockKey { stream, block: *block });
        if let Some(block) = first.until(near).find(probe) {
            return block;
        }
        let far = self.blocks.keys().filter(|key| key.stream == stream).map(|key| key.block);
        far.filter(|block| (near..end).contains(block)).fold(end, BlockIndex::min)
    }

    /// Removes a version that the map shows now (BUFFER-2).
    pub(crate) fn remove(&mut self, stream: StreamId, block: BlockIndex, wseq: WriteSeq) {
        let entry = self.blocks.get(&BlockKey { stream, block });
        debug_assert!(entry.is_none_or(|entry| entry.wseq >= wseq), "the newest version waits"); // BUFFER-1
        if let Entry::Occupied(entry) = self.blocks.entry(BlockKey { stream, block })
            && entry.get().wseq == wseq
        {
            entry.remove();
        }
    }

    /// Removes a trim or zero that the map shows now (BUFFER-2).
    pub(crate) fn remove_range(
        &mut self,
        stream: StreamId,
        first: BlockIndex,
        end: BlockIndex,
        wseq: WriteSeq,
    ) {
        assert!(first <= end, "a range does not end before it begins");
        if end - first <= SMALL_RANGE_BLOCKS {
            for block in first.until(end) {
                self.remove(stream, block, wseq);
            }
        } else {
            self.ranges.retain(|range| range.pending.wseq != wseq || range.stream != stream);
        }
    }

    /// Forgets everything of a stream that was dropped.
    pub(crate) fn remove_stream(&mut self, stream: StreamId, up_to: WriteSeq) {
        self.blocks.retain(|key, pending| key.stream != stream || pending.wseq > up_to);
        self.ranges.retain(|range| range.stream != stream || range.pending.wseq > up_to);
    }

    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }
}
