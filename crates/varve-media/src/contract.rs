//! The contracts between the log and whatever keeps its bytes.
//!
//! MEDIA-1. A future that returns `Ok` from [`SegmentStore::put`], [`JournalStore::append`] or
//!     [`RootStore::replace`] has made its effect durable: it survives power loss.
//! MEDIA-2. A put, append or replace that did not return may have happened in full, in part, or not at
//!     all, sector by sector in any order; a replace alone is atomic (old or new, never a mixture).
//! MEDIA-3. Nothing here retries: an `Err` is definite.
//! MEDIA-4. Dropping a future does not cancel what was submitted.

use std::fmt;
use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::rc::Rc;

use varve_stdx::BufSlice;
use varve_types::{Generation, SegmentNumber, ShardId};

use crate::Result;

/// An operation under way on this thread (MEDIA-4).
pub type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// Names the contents of a slot: slots are reused, ids are not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SegmentId {
    /// The slot.
    pub number: SegmentNumber,
    /// Which of its contents.
    pub generation: Generation,
}

/// Sizes of a segment store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentGeometry {
    /// Bytes of a slot: strip header and payload. A multiple of 4 KiB.
    pub segment_bytes: u32,
    /// Number of slots.
    pub segment_count: u32,
}

/// Segments: written once as a whole, read by ranges, deleted as a whole (MEDIA-3).
pub trait SegmentStore {
    /// Sizes. Constant while the store is open.
    fn geometry(&self) -> SegmentGeometry;

    /// Takes room for `count` slots from `first` on, so that writing them later takes none. Durable after the next
    /// [`Self::settle`].
    ///
    /// `NoSpace` when the medium has not enough for all of them; it may have taken some. Media that cannot promise room
    /// say yes.
    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()>;

    /// Writes the first `bytes.len()` bytes of a slot (a multiple of 4 KiB) in one go. Durable on return (MEDIA-1).
    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()>;

    /// Reads `len` bytes at `offset` of a slot; any alignment. What was never written reads as zeros or as anything.
    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice>;

    /// Makes durable what reads see now: a put that was cut off or failed may have landed without being durable.
    fn settle(&self) -> IoFuture<'_, ()>;

    /// Says that nobody needs the contents any more; the store may discard them, now or later or never. It is under way
    /// when this returns.
    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()>;

    /// What fails together with a slot: slots of other domains outlive it. Each domain is one range of slots. `None`
    /// where a second copy in another slot helps nobody, as the store keeps several itself, or nothing at all.
    fn domain(&self, _number: SegmentNumber) -> Option<u32> {
        None
    }

    /// Slots that take room by being there, whoever knows of them: what a crash left is found so. None where slots have
    /// their places.
    fn present(&self) -> IoFuture<'_, Vec<SegmentNumber>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}

/// One lane: a ring of bytes addressed by positions that only grow.
///
/// Position `p` lies at `p % capacity` of the ring. No append or read crosses a multiple of the capacity.
pub trait JournalStore {
    /// Bytes of the ring; a multiple of 4 KiB.
    fn capacity(&self) -> u64;

    /// Writes `bytes` at `position`, both multiples of 4 KiB. Several may be under way. Durable on return (MEDIA-1).
    fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()>;

    /// Appends that are worth having under way at once; more would wait for each other below.
    fn appends_at_once(&self) -> usize {
        usize::MAX
    }

    /// Reads `len` bytes at `position`, both multiples of 4 KiB; yields whatever lap is there.
    fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice>;

    /// Makes durable what reads see now: an append that was cut off or failed may have landed without being durable.
    fn settle(&self) -> IoFuture<'_, ()>;
}

/// Which root.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RootKey {
    /// The pool's: shards, placement generations, zones.
    Pool,
    /// One shard's: where its checkpoint is.
    Shard(ShardId),
}

impl fmt::Display for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pool => f.write_str("of the pool"),
            Self::Shard(id) => write!(f, "of shard {id}"),
        }
    }
}

/// Counts the replacements of a root; 0 is a root never written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RootVersion(pub u64);

/// Roots: small, replaced atomically by compare-and-swap.
pub trait RootStore {
    /// Most bytes of a root.
    fn bytes_max(&self) -> u32;

    /// The newest durable contents and their version; version 0 and no bytes when never written.
    ///
    /// A root that was written and cannot be read is an error, never an empty root.
    fn read(&self, key: RootKey) -> IoFuture<'_, (RootVersion, Vec<u8>)>;

    /// Replaces a root if it is still at `expected`; returns the new version. Durable and atomic (MEDIA-1, MEDIA-2).
    fn replace(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> IoFuture<'_, RootVersion>;
}

/// The right to write, and to answer for what is written.
pub trait Fence {
    /// Fails with `Fenced` once this process knows that it is no longer the only writer.
    fn check(&self) -> Result<()>;

    /// Whether nobody else can have written by now, as far as clocks of one machine tell; if not, [`Self::confirm`]
    /// asks.
    fn is_confirmed(&self) -> bool {
        true
    }

    /// Returns once nobody else can have written before the call; fails with `Fenced` when somebody may have.
    fn confirm(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(self.check()))
    }

    /// Returns once this process knows that it is no longer the only writer.
    fn lost(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(pending())
    }

    /// Gives the right back, with nothing under way: whoever takes it next need not wait for this process.
    fn release(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }
}

/// What one thread holds of a pool's media: its own handles, never shared with other threads.
#[derive(Clone)]
pub struct Media {
    /// Segments of the pool.
    pub segments: Rc<dyn SegmentStore>,
    /// The lane of the shard this thread opens.
    pub journal: Rc<dyn JournalStore>,
    /// Roots of the pool and its shards.
    pub roots: Rc<dyn RootStore>,
    /// The right to write.
    pub fence: Rc<dyn Fence>,
}
