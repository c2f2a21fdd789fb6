//! What a shard promises, and what of it is held, apart from how it keeps its promises.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use varve_logstore::format::page::PageHeader;
use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::BLOCK_ALIGN;
use varve_logstore::space::unit_space;
use varve_reactor::Notify;
use varve_types::{BlockIndex, ChunkId, StreamId};

use crate::config::BLOCK_BYTES;
use crate::tree::PAGE_BYTES;

/// What an entry of the chunk table takes, in leaves that are a quarter full.
const TABLE_ENTRY_SPACE: u64 = 128;

/// What a block takes that is stored as it is.
pub(super) const BLOCK_SPACE: u64 = unit_space(BLOCK_ALIGN) as u64 + TABLE_ENTRY_SPACE;

const _: () = assert!(BLOCK_SPACE > BLOCK_BYTES as u64, "a block takes its entries besides"); // RESERVATIONS-1

/// What a page of a map takes, and its entry in the table.
#[expect(clippy::cast_possible_truncation, reason = "a page is a few KiB")]
const PAGE_SPACE: u64 =
    unit_space((PageHeader::LEN + PAGE_BYTES) as u32) as u64 + TABLE_ENTRY_SPACE;

const _: () = assert!(BLOCK_ALIGN as usize == BLOCK_BYTES);

/// How much a shard is to promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReservationSize {
    /// Blocks of the stream that belong to the shard: all of them.
    pub blocks: u64,
    /// Pages of its map that name them, at most.
    pub pages: u64,
}

impl ReservationSize {
    /// Bytes of segments that it stands for.
    #[must_use]
    pub const fn space(self) -> u64 {
        let blocks = self.blocks.saturating_mul(BLOCK_SPACE);
        blocks.saturating_add(self.pages.saturating_mul(PAGE_SPACE))
    }
}

/// What a shard promises to a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reservation {
    /// To whom.
    pub stream: StreamId,
    /// How much.
    pub size: ReservationSize,
    /// Blocks that count as held.
    pub held_blocks: u64,
    /// Space that others may not have, in bytes.
    pub outstanding_bytes: u64,
    /// What is held is known; before that it is taken for less.
    pub is_counted: bool,
}

/// How far the blocks that are held are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Count {
    /// All of them.
    Done,
    /// Those before this block.
    To(BlockIndex),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Promise {
    pub(super) size: ReservationSize,
    /// Chunks from it on are held (RESERVATIONS-1).
    pub(super) floor: ChunkId,
    pub(super) held: u64,
    pub(super) count: Count,
    /// Cuts of the stream that are admitted and not applied (RESERVATIONS-3).
    pub(super) cuts: u32,
}

impl Promise {
    pub(super) fn outstanding(&self) -> u64 {
        let left = self.size.blocks.saturating_sub(self.held);
        // Pages are promised always: a changed one is there twice.
        let outstanding = ReservationSize { blocks: left, ..self.size }.space();
        assert!(outstanding <= self.size.space(), "no more is kept than was promised"); // RESERVATIONS-1
        outstanding
    }

    /// Whether a change of a block is to be counted, as the block was.
    fn counts(&self, block: BlockIndex) -> bool {
        self.cuts == 0
            && match self.count {
                Count::Done => true,
                Count::To(next) => block < next,
            }
    }

    fn recount(&mut self) {
        (self.held, self.count) = (0, Count::To(BlockIndex::ZERO));
    }
}

/// What a shard promises.
#[derive(Default)]
pub(crate) struct Reservations {
    pub(super) promises: RefCell<BTreeMap<StreamId, Promise>>,
    pub(super) count_wanted: Notify,
}

impl Reservations {
    pub(crate) fn promises_to(&self, stream: StreamId) -> bool {
        self.promises.borrow().contains_key(&stream)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.promises.borrow().is_empty()
    }

    /// What is promised and not held, but for what is promised to one stream.
    pub(crate) fn outstanding_bytes(&self, except: Option<StreamId>) -> u64 {
        let promises = self.promises.borrow();
        let others = promises.iter().filter(|(stream, _)| Some(**stream) != except);
        let bytes =
            others.fold(0_u64, |sum, (_, promise)| sum.saturating_add(promise.outstanding()));
        debug_assert!(bytes <= self.reserved_bytes(), "no more is kept than was promised");
        bytes
    }

    pub(crate) fn reserved_bytes(&self) -> u64 {
        let promises = self.promises.borrow();
        promises.values().fold(0, |sum, promise| sum.saturating_add(promise.size.space()))
    }

    pub(crate) fn remove(&self, stream: StreamId) {
        self.promises.borrow_mut().remove(&stream);
    }

    pub(super) fn change<T>(
        &self,
        stream: StreamId,
        change: impl FnOnce(&mut Promise) -> T,
    ) -> Option<T> {
        self.promises.borrow_mut().get_mut(&stream).map(change)
    }

    /// A block of a stream is applied that holds `new` now, and held `old`.
    pub(crate) fn replaced(
        &self,
        stream: StreamId,
        block: BlockIndex,
        new: Option<ChunkId>,
        old: Option<ChunkId>,
    ) {
        self.change(stream, |promise| {
            if promise.counts(block) {
                let is_held = |chunk: Option<ChunkId>| chunk.is_some_and(|it| it >= promise.floor);
                let (gained, lost) = (u64::from(is_held(new)), u64::from(is_held(old)));
                promise.held = (promise.held + gained).saturating_sub(lost);
            }
        });
    }

    /// Blocks of a range are applied as holes or zeros; they held `old`.
    pub(crate) fn cleared(
        &self,
        stream: StreamId,
        blocks: Range<BlockIndex>,
        old: impl Iterator<Item = ChunkId>,
    ) {
        assert!(blocks.start <= blocks.end, "a range does not end before it begins");
        self.change(stream, |promise| {
            let counted_to = match promise.count {
                Count::Done => BlockIndex::MAX,
                Count::To(next) => next,
            };
            if blocks.start >= counted_to || promise.cuts > 0 {
                return;
            }
            if blocks.end > counted_to {
                promise.recount(); // Which of them were counted is not told.
                self.count_wanted.notify_one();
                return;
            }
            let lost = old.filter(|chunk| *chunk >= promise.floor).count();
            promise.held = promise.held.saturating_sub(lost as u64);
        });
    }

    /// Blocks are holes without anybody having looked what they held.
    pub(crate) fn forgotten(&self, stream: StreamId) {
        self.change(stream, Promise::recount);
        self.count_wanted.notify_one();
    }

    /// A cut of a stream is admitted (RESERVATIONS-3).
    pub(crate) fn cut_begins(&self, source: StreamId) {
        if planted(Bug::HeldSurvivesCut) {
            return;
        }
        self.change(source, |promise| {
            promise.held = 0;
            promise.cuts += 1;
        });
    }

    /// A cut of or to a stream is applied, which raised the ceiling of its chunks that copies may hold
    /// (RESERVATIONS-3).
    pub(crate) fn cut_applied(&self, stream: StreamId, ceiling: ChunkId) {
        if planted(Bug::HeldSurvivesCut) {
            return;
        }
        self.change(stream, |promise| {
            promise.cuts = promise.cuts.saturating_sub(1); // One of those that recovery replays was never begun.
            promise.floor = promise.floor.max(ceiling);
            (promise.held, promise.count) = (0, Count::Done);
        });
    }

    /// A stream whose blocks are to be counted.
    pub(super) fn next_to_count(&self) -> Option<StreamId> {
        let promises = self.promises.borrow();
        let uncounted = |promise: &Promise| promise.count != Count::Done && promise.cuts == 0;
        promises.iter().find(|(_, promise)| uncounted(promise)).map(|(stream, _)| *stream)
    }

    pub(super) fn is_counting(&self) -> bool {
        self.promises.borrow().values().any(|promise| promise.count != Count::Done)
    }

    pub(super) fn states(&self) -> Vec<Reservation> {
        let promises = self.promises.borrow();
        let state = |(stream, promise): (&StreamId, &Promise)| Reservation {
            stream: *stream,
            size: promise.size,
            held_blocks: promise.held,
            outstanding_bytes: promise.outstanding(),
            is_counted: promise.count == Count::Done,
        };
        promises.iter().map(state).collect()
    }
}
