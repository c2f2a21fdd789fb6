//! A shard's journal on several drives (3.4, 3.5).
//!
//! ```text
//!  append ─▶ all current copies, at once ─▶ all durable ────────────────────────────────────▶ Ok
//!               │ error: table first ───────────▶ counts with the others ─▶ substitute ─▶ exposed
//!               └ silence: record first ────────▶ written to the substitute ─▶ exposed
//! ```
//!
//! JOURNAL-COPIES-1. An append is durable on all current copies when it is answered, those that became current
//!     meanwhile and have its position included.
//! JOURNAL-COPIES-2. A copy proves nothing before its `since` nor behind its `until`.
//! JOURNAL-COPIES-4. A former copy keeps its place while a write to it may land.
//! JOURNAL-COPIES-5. A former copy stays until no replay begins before its end.

use std::pin::Pin;
use std::rc::Rc;

use futures_util::future::join_all;
use varve_media::planted::{Bug, planted};
use varve_media::{Error, IoFuture, JournalStore, Persist, Result};
use varve_stdx::BufSlice;
use varve_types::ShardId;

use crate::format::{JournalCopy, JournalCopyState};
use crate::handles::DriveHandles;
use crate::tables::TablesHandle;

mod append;
mod copies;

use append::JournalWriter;
use copies::{JournalCopies, copy_place};

/// How long a journal waits.
#[derive(Clone, Copy, Debug)]
pub struct JournalPatience {
    /// For the last copy, where others have answered, in ns, before another one takes its place.
    pub substitute_nanos: u64,
    /// By how much a copy is late, in ns.
    pub late_nanos: u64,
}

impl Default for JournalPatience {
    fn default() -> Self {
        Self { substitute_nanos: 300_000_000, late_nanos: 100_000_000 }
    }
}

/// The journal of one shard. Clones share it.
#[derive(Clone)]
pub struct MirroredJournal {
    inner: Rc<JournalInner>,
}

struct JournalInner {
    copies: JournalCopies,
    writer: JournalWriter,
    capacity: u64,
}

impl MirroredJournal {
    /// The journal of `shard`, whose record the tables have.
    ///
    /// # Errors
    /// `NoLane` when they have none.
    pub fn new(
        handles: Rc<DriveHandles>,
        tables: Rc<TablesHandle>,
        shard: ShardId,
        patience: JournalPatience,
    ) -> Result<Self> {
        let copies = JournalCopies::new(handles, tables, shard)?;
        let capacity = copies.lane_bytes();
        copies.known(); // Numbers them.
        let writer = JournalWriter::new(copies.clone(), patience);
        Ok(Self { inner: Rc::new(JournalInner { copies, writer, capacity }) })
    }
}

impl JournalInner {
    /// Offset in the ring.
    fn offset(&self, position: u64, len: u64) -> u64 {
        let offset = position % self.capacity;
        assert!(len <= self.capacity - offset, "{len} bytes at {position} cross the lane's end");
        offset
    }

    async fn read_copy(&self, copy: JournalCopy, offset: u64, len: u32) -> Result<BufSlice> {
        let drive = self.copies.readable(copy.drive)?;
        let read = drive.read(copy_place(&copy)? + offset, len as usize).await?;
        Ok(read.freeze())
    }
}

impl JournalStore for MirroredJournal {
    fn capacity(&self) -> u64 {
        self.inner.capacity
    }

    fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.inner.offset(position, bytes.len() as u64);
        self.inner.writer.append(position, bytes)
    }

    /// Of the first copy that answers, current ones first.
    fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice> {
        let offset = self.inner.offset(position, len.into());
        Box::pin(async move {
            let mut last = None;
            for copy in self.inner.copies.in_order() {
                match self.inner.read_copy(copy, offset, len).await {
                    Ok(bytes) => return Ok(bytes),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.unwrap_or_else(|| self.inner.copies.none()))
        })
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(self.inner.copies.settle())
    }

    fn copies(&self) -> usize {
        self.inner.copies.known().len()
    }

    fn copy_since(&self, copy: usize) -> u64 {
        if planted(Bug::CopySinceIgnored) {
            return 0;
        }
        // JOURNAL-COPIES-2. A copy that is not known proves nothing at all.
        self.inner.copies.known().get(copy).map_or(u64::MAX, |copy| copy.since)
    }

    fn copy_until(&self, copy: usize) -> u64 {
        // JOURNAL-COPIES-2. The same.
        self.inner.copies.known().get(copy).map_or(0, |copy| match copy.state {
            JournalCopyState::Current => u64::MAX,
            JournalCopyState::Former { until } => until,
        })
    }

    fn read_copy(&self, position: u64, len: u32, copy: usize) -> IoFuture<'_, BufSlice> {
        let offset = self.inner.offset(position, len.into());
        Box::pin(async move {
            let known = self.inner.copies.known();
            let copy = known.get(copy).ok_or_else(|| self.inner.copies.none())?;
            self.inner.read_copy(*copy, offset, len).await
        })
    }

    /// A former copy, and one whose drive is not read any more, need none: nothing is asked of them.
    fn restore(&self, position: u64, bytes: BufSlice, copy: usize) -> IoFuture<'_, ()> {
        let offset = self.inner.offset(position, bytes.len() as u64);
        let copies = self.inner.copies.clone();
        // MEDIA-4: it goes on when the future is dropped.
        Box::pin(self.inner.copies.reactor().spawn_join(async move {
            let Some(copy) = copies.known().get(copy).copied() else { return Err(copies.none()) };
            if !copies
                .current()
                .iter()
                .any(|current| current.place == copy.place && current.drive == copy.drive)
            {
                return Ok(());
            }
            let Ok(drive) = copies.readable(copy.drive) else { return Ok(()) };
            let at = copy_place(&copy)? + offset;
            match drive.write(at, vec![bytes], Persist::Durable).await {
                Ok(()) => Ok(()),
                Err(error) => copies.fail(copy.drive, error).await,
            }
        }))
    }

    fn restart(&self) -> IoFuture<'_, ()> {
        Box::pin(self.inner.copies.restart())
    }

    fn note_tail(&self, tail: u64, head: u64) {
        self.inner.writer.note_tail(tail, head);
    }

    fn exposed(&self) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(self.inner.writer.exposed())
    }
}

/// Flushes the drives of copies; those that cannot are no copies any more.
async fn flush_all(copies: &JournalCopies) -> Result<()> {
    let drives = copies.in_order().into_iter().map(|copy| copies.readable(copy.drive));
    let drives: Vec<_> = drives.collect::<Result<_>>()?;
    let flushes =
        drives.into_iter().map(|drive| async move { (drive.number(), drive.flush().await) });
    for (drive, result) in join_all(flushes).await {
        if let Err(error) = result {
            copies.fail(drive, error).await?;
        }
    }
    if copies.current().is_empty() { Err(copies.none()) } else { Ok(()) }
}

/// The error of a journal of which nothing can be read.
fn no_copy() -> Error {
    Error::TooFewDrives { zone: None, present: 0, needed: 1 }
}

#[cfg(test)]
mod tests;
