//! The contracts between the log and whatever keeps its bytes.
//!
//! MEDIA-1. A future that returns `Ok` from [`SegmentStore::put`], [`JournalStore::append`] or
//!     [`RootStore::replace`] has made its effect durable: it survives power loss.
//! MEDIA-2. A put, append or replace that did not return may have happened in full, in part, or not at
//!     all, sector by sector in any order; a replace alone is atomic (old or new, never a mixture).
//! MEDIA-3. Nothing here retries: an `Err` is definite.
//! MEDIA-4. Dropping a future does not cancel what was submitted.

use std::any::Any;
use std::fmt;
use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::rc::Rc;

use varve_stdx::BufSlice;
use varve_types::{Generation, SegmentNumber, ShardId};

use crate::{Error, Result};

/// An operation under way on this thread (MEDIA-4).
pub type IoFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + 'a>>;

/// The answer to what is not begun.
pub(crate) fn refused<'a, T: 'a>(error: Error) -> IoFuture<'a, T> {
    Box::pin(ready(Err(error)))
}

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

    /// Reads once more what the caller's checksum refused, in another way; `attempt` counts from 1. `None` when there
    /// is no further way: where contents are kept once, there never is.
    fn get_again(
        &self,
        _id: SegmentId,
        _offset: u32,
        _len: u32,
        _attempt: u32,
    ) -> IoFuture<'_, Option<BufSlice>> {
        Box::pin(ready(Ok(None)))
    }

    /// Writes what a stored segment lacks of its redundancy. `bytes` are its contents, verified by the caller. What is
    /// whole is not touched. Durable on return (MEDIA-1).
    fn complete(&self, _id: SegmentId, _bytes: BufSlice) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Hands over what the owner of zones knows of them; called once, when its shard has opened. Media that move no
    /// contents by themselves need not know.
    fn set_contents(&self, _contents: Rc<dyn ZoneContents>) {}
}

/// What the owner of a zone knows of it: implemented above the media, on the thread that leases the zone, for media
/// that move contents from drive to drive.
pub trait ZoneContents {
    /// Contents of the slots `first .. first + count` that somebody may still read: of a checkpoint, of recovery or of
    /// a client. `None` while that is not known.
    fn held(&self, first: SegmentNumber, count: u32) -> Option<Vec<HeldSegment>>;

    /// Keeps a slot from being written until what is returned is dropped; `None` when it has other contents by now.
    fn pin(&self, id: SegmentId) -> Option<Box<dyn Any>>;

    /// Whether bytes are those of the segment, as the caller wrote them: its header names pool, slot and generation,
    /// and every unit has its checksum. Costs a pass over the bytes.
    fn is_whole(&self, id: SegmentId, bytes: &BufSlice) -> bool;

    /// Asks for what is live in a segment to be moved to another slot, as this one is damaged.
    fn relocate(&self, id: SegmentId, reason: &str);
}

/// Contents that [`ZoneContents`] knows of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldSegment {
    /// Slot and generation.
    pub id: SegmentId,
    /// Bytes of it that were put.
    pub used_bytes: u32,
    /// Whether its put has ended. Before that nothing of it need be there, and any of it may be.
    pub is_put: bool,
    /// Whether it has pages: metadata, without which much else cannot be read.
    pub has_pages: bool,
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

    /// Places that hold frames, at least 1. [`Self::read`] is [`Self::read_copy`] of the first that answers.
    fn copies(&self) -> usize {
        1
    }

    /// Position from which on a copy was written: it proves nothing before.
    fn copy_since(&self, _copy: usize) -> u64 {
        0
    }

    /// Position up to which a copy was written: it proves nothing from there on, and what stands there may be old. The
    /// largest number for one that appends go to.
    fn copy_until(&self, _copy: usize) -> u64 {
        u64::MAX
    }

    /// As [`Self::read`], of one copy.
    fn read_copy(&self, position: u64, len: u32, _copy: usize) -> IoFuture<'_, BufSlice> {
        self.read(position, len)
    }

    /// Writes a frame to a copy that another copy has. Durable on return (MEDIA-1).
    fn restore(&self, position: u64, bytes: BufSlice, _copy: usize) -> IoFuture<'_, ()> {
        self.append(position, bytes)
    }

    /// Has the journal begin anew at position 0, as what was in it is lost: then all copies that appends go to have
    /// what is appended from there on. Durable on return (MEDIA-1). Nothing may be under way.
    fn restart(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Hears that no replay begins before `tail`, and that the next frame goes behind `head`: when the journal has
    /// opened, and whenever the tail moves. What lies before the tail is needed no more.
    fn note_tail(&self, _tail: u64, _head: u64) {}

    /// Returns when a copy was lost, so that the journal's records should be in segments soon.
    fn exposed(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(pending())
    }
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
