//! Segments of slow media, with what was read of them kept on a disk of this machine.
//!
//! ```text
//!  get ──▶ all pages kept? ──yes──▶ disk, checksums right? ──yes──▶ answer
//!                          └──no──▶ medium ◀──────no────┘  └ behind the answer, the pages are kept in a line
//! ```
//!
//! SEGMENT-CACHE-1. It holds copies and begins empty. Nothing of it is believed after a restart, and so by no other
//!     owner: in the time of one, no id of a segment means two contents. Reads that do not know the contents of a slot
//!     pass by.
//! SEGMENT-CACHE-2. What is kept where is known in memory only, with a checksum a page: what differs or cannot be read
//!     is asked of the medium.
//! SEGMENT-CACHE-3. Keeping delays no read. So many bytes are being kept at a time; beyond that nothing is.
//! SEGMENT-CACHE-4. A line that somebody reads or writes is not given to another part of a segment.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use hashbrown::HashMap;
use varve_reactor::Reactor;
use varve_stdx::{AlignedBuf, BufSlice, checksum32};
use varve_types::limits::MEDIA_ALIGN;
use varve_types::{Generation, SegmentNumber};

use crate::contract::{IoFuture, SegmentGeometry, SegmentId, SegmentStore, ZoneContents};
use crate::disk::{Disk, Persist};

/// What is given to one part of a segment.
const LINE_BYTES: usize = 32 << 10;

/// What is kept or not.
const PAGE_BYTES: usize = MEDIA_ALIGN;

const PAGES: usize = LINE_BYTES / PAGE_BYTES;

/// Longer reads pass by: they are of whole segments, or in a row, which slow media do well.
const READ_BYTES_MAX: u32 = 256 << 10;

/// Bytes being kept at once (SEGMENT-CACHE-3).
const KEEPING_BYTES_MAX: usize = 4 << 20;

/// Lines that are looked at for one to give away.
const LOOKS_MAX: usize = 64;

/// A line of a segment: which slot, and which line of it.
type Place = (SegmentNumber, u32);

/// What a cache did.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CacheStats {
    /// Reads that it answered.
    pub hits: u64,
    /// Reads that the medium answered, long ones aside.
    pub misses: u64,
    /// Bytes that were kept.
    pub kept_bytes: u64,
    /// Reads and writes of its disk that failed, or gave other bytes than were kept.
    pub failures: u64,
}

/// See the module.
pub struct CachedSegments {
    inner: Rc<dyn SegmentStore>,
    reactor: Reactor,
    shelf: Rc<CacheDisk>,
}

/// The disk, and what is where on it.
struct CacheDisk {
    disk: Rc<dyn Disk>,
    lines: RefCell<Lines>,
    keeping_bytes: Cell<usize>,
    stats: Cell<CacheStats>,
}

struct Lines {
    all: Vec<CacheLine>,
    count_max: usize,
    of: HashMap<Place, u32>,
    /// Where the search for a line to give away goes on.
    hand: usize,
}

struct CacheLine {
    place: Option<Place>,
    generation: Generation,
    /// A bit for each page that is kept.
    has: u8,
    /// Checksums of those.
    sums: [u32; PAGES],
    /// Somebody read it since the hand passed.
    is_warm: bool,
    /// Who is at work in it (SEGMENT-CACHE-4).
    users: u32,
}

/// Pages of one line.
struct LinePages {
    line: usize,
    first: usize,
    sums: Vec<u32>,
    _user: LineUser,
}

/// Keeps a line from being given away (SEGMENT-CACHE-4).
struct LineUser {
    shelf: Rc<CacheDisk>,
    line: usize,
}

impl Drop for LineUser {
    fn drop(&mut self) {
        self.shelf.lines.borrow_mut().all[self.line].users -= 1;
    }
}

impl CachedSegments {
    /// `inner`, with what is read of it kept on `disk`, all of which is overwritten. Takes some 90 bytes of memory for
    /// each 32 KiB of it in use.
    #[must_use]
    pub fn new(inner: Rc<dyn SegmentStore>, reactor: &Reactor, disk: Rc<dyn Disk>) -> Self {
        let count_max = u32::try_from(disk.size() / LINE_BYTES as u64).unwrap_or(u32::MAX) as usize;
        let lines = Lines { all: Vec::new(), count_max, of: HashMap::new(), hand: 0 };
        let shelf = CacheDisk {
            disk,
            lines: RefCell::new(lines),
            keeping_bytes: Cell::new(0),
            stats: Cell::default(),
        };
        Self { inner, reactor: reactor.clone(), shelf: Rc::new(shelf) }
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.shelf.stats.get()
    }

    /// Keeps what was read at `first`, a page's begin (SEGMENT-CACHE-3).
    fn keep(&self, id: SegmentId, first: usize, bytes: &BufSlice) {
        for (line, range) in parts(first, first + bytes.len()) {
            let len = range.len();
            if self.shelf.keeping_bytes.get() + len > KEEPING_BYTES_MAX {
                return;
            }
            let at = line * LINE_BYTES + range.start - first;
            let pages = range.start / PAGE_BYTES..range.end / PAGE_BYTES;
            let place = (id.number, line_number(line));
            let Some(user) = CacheDisk::claim(&self.shelf, place, id.generation, pages.clone())
            else {
                continue;
            };
            // A copy of its own, aligned for the disk, and no part of a reader's memory.
            let data = AlignedBuf::from_slice(&bytes[at..at + len]).freeze();
            let shelf = Rc::clone(&self.shelf);
            shelf.keeping_bytes.set(shelf.keeping_bytes.get() + len);
            self.reactor.spawn(async move {
                let offset = (user.line * LINE_BYTES + range.start) as u64;
                let written = shelf.disk.write(offset, data.clone(), Persist::Cached).await;
                shelf.keeping_bytes.set(shelf.keeping_bytes.get() - len);
                match written {
                    Ok(()) => shelf.kept(&user, place, id.generation, pages, &data),
                    Err(error) => {
                        tracing::debug!(%error, "not kept");
                        shelf.count(|stats| stats.failures += 1);
                    }
                }
            });
        }
    }
}

/// The lines of a range of a segment's bytes, and the part of each.
fn parts(first: usize, end: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    (first / LINE_BYTES..end.div_ceil(LINE_BYTES)).map(move |line| {
        let begin = line * LINE_BYTES;
        (line, first.max(begin) - begin..end.min(begin + LINE_BYTES) - begin)
    })
}

impl CacheDisk {
    fn count(&self, change: impl FnOnce(&mut CacheStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Where all of these pages are kept; `None` if one is not.
    fn find(shelf: &Rc<Self>, id: SegmentId, first: usize, end: usize) -> Option<Vec<LinePages>> {
        let mut found = Vec::new();
        for (number, range) in parts(first, end) {
            let lines = &mut *shelf.lines.borrow_mut();
            let line = *lines.of.get(&(id.number, line_number(number)))? as usize;
            let known = &mut lines.all[line];
            let pages = range.start / PAGE_BYTES..range.end / PAGE_BYTES;
            if known.generation != id.generation || !known.has_all(&pages) {
                return None;
            }
            let sums = known.sums[pages].to_vec();
            known.is_warm = true;
            known.users += 1;
            let user = LineUser { shelf: Rc::clone(shelf), line };
            found.push(LinePages { line, first: range.start, sums, _user: user });
        }
        Some(found)
    }

    /// A line for pages of a segment; `None` when they are kept already, or there is none to be had.
    fn claim(
        shelf: &Rc<Self>,
        place: Place,
        generation: Generation,
        pages: Range<usize>,
    ) -> Option<LineUser> {
        let lines = &mut *shelf.lines.borrow_mut();
        let line = match lines.of.get(&place) {
            Some(line) => *line as usize,
            None => {
                let line = lines.free()?;
                lines.give(line, place, generation);
                line
            }
        };
        let known = &lines.all[line];
        if known.generation != generation {
            if known.users > 0 {
                return None;
            }
            lines.give(line, place, generation);
        }
        let known = &mut lines.all[line];
        if known.has_all(&pages) {
            return None;
        }
        known.users += 1;
        Some(LineUser { shelf: Rc::clone(shelf), line })
    }

    /// The pages are on the disk, unless the line was taken from them meanwhile.
    fn kept(
        &self,
        user: &LineUser,
        place: Place,
        generation: Generation,
        pages: Range<usize>,
        data: &[u8],
    ) {
        self.count(|stats| stats.kept_bytes += data.len() as u64);
        let line = &mut self.lines.borrow_mut().all[user.line];
        if line.place == Some(place) && line.generation == generation {
            for (page, bytes) in pages.zip(data.chunks(PAGE_BYTES)) {
                line.sums[page] = checksum32(bytes);
                line.has |= 1 << page;
            }
        }
    }

    /// Reads the parts, in their order; `None` where one cannot be read, or is not what was kept (SEGMENT-CACHE-2).
    async fn read(&self, parts: Vec<LinePages>) -> Option<AlignedBuf> {
        let reads = parts.iter().map(|part| {
            let offset = part.line * LINE_BYTES + part.first;
            self.disk.read(offset as u64, part.sums.len() * PAGE_BYTES)
        });
        let reads = join_all(reads).await;
        let mut whole =
            AlignedBuf::zeroed(parts.iter().map(|part| part.sums.len() * PAGE_BYTES).sum());
        let mut at = 0;
        for (part, read) in parts.iter().zip(reads) {
            let bytes = read.ok()?;
            let is_same = bytes.chunks(PAGE_BYTES).map(checksum32).eq(part.sums.iter().copied());
            if !is_same {
                return None;
            }
            whole[at..at + bytes.len()].copy_from_slice(&bytes);
            at += bytes.len();
        }
        Some(whole)
    }

    /// Forgets what is kept of a slot.
    fn forget(&self, number: SegmentNumber, segment_bytes: usize) {
        let lines = &mut *self.lines.borrow_mut();
        for line in 0..segment_bytes.div_ceil(LINE_BYTES) {
            if let Some(line) = lines.of.remove(&(number, line_number(line))) {
                let line = &mut lines.all[line as usize];
                line.place = None;
                line.has = 0;
            }
        }
    }

    /// Forgets lines that are not what was kept.
    fn distrust(&self, damaged: &[usize]) {
        self.count(|stats| stats.failures += 1);
        let lines = &mut *self.lines.borrow_mut();
        for line in damaged {
            lines.all[*line].has = 0;
        }
    }
}

fn line_number(line: usize) -> u32 {
    u32::try_from(line).expect("segments are of less than 4 GiB")
}

impl Lines {
    /// A line that nobody is at work in, of those that were not read lately.
    fn free(&mut self) -> Option<usize> {
        if self.all.len() < self.count_max {
            let (place, generation, sums) = (None, Generation::ZERO, [0; PAGES]);
            self.all.push(CacheLine { place, generation, has: 0, sums, is_warm: false, users: 0 });
            return Some(self.all.len() - 1);
        }
        for _ in 0..LOOKS_MAX.min(2 * self.all.len()) {
            let at = self.hand;
            self.hand = (at + 1) % self.all.len();
            let line = &mut self.all[at];
            if line.users == 0 && !std::mem::take(&mut line.is_warm) {
                return Some(at);
            }
        }
        None
    }

    /// Gives a line that nobody is at work in to a part of a segment.
    fn give(&mut self, line: usize, place: Place, generation: Generation) {
        let known = &mut self.all[line];
        if let Some(old) = known.place.replace(place) {
            self.of.remove(&old);
        }
        known.generation = generation;
        known.has = 0;
        known.is_warm = false;
        self.of.insert(place, line_number(line));
    }
}

impl CacheLine {
    fn has_all(&self, pages: &Range<usize>) -> bool {
        pages.clone().all(|page| self.has & 1 << page != 0)
    }
}

impl SegmentStore for CachedSegments {
    fn geometry(&self) -> SegmentGeometry {
        self.inner.geometry()
    }

    fn allocate(&self, first: SegmentNumber, count: u32) -> IoFuture<'_, ()> {
        self.inner.allocate(first, count)
    }

    fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.shelf.forget(id.number, self.geometry().segment_bytes as usize);
        self.inner.put(id, bytes)
    }

    fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
        let segment_bytes = self.geometry().segment_bytes;
        let end = offset.checked_add(len).filter(|end| *end <= segment_bytes);
        let Some(end) = end.filter(|_| (1..=READ_BYTES_MAX).contains(&len)) else {
            return self.inner.get(id, offset, len);
        };
        if id.generation == Generation::ZERO {
            return self.inner.get(id, offset, len); // SEGMENT-CACHE-1
        }
        let (offset, end) = (offset as usize, end as usize);
        let first = offset / PAGE_BYTES * PAGE_BYTES;
        let pages_end = end.next_multiple_of(PAGE_BYTES);
        let wanted = offset - first..end - first;
        let medium = move || {
            let part = |at: usize| u32::try_from(at).expect("inside a segment");
            self.inner.get(id, part(first), part(pages_end - first))
        };
        let Some(parts) = CacheDisk::find(&self.shelf, id, first, pages_end) else {
            self.shelf.count(|stats| stats.misses += 1);
            let read = medium();
            return Box::pin(async move {
                let bytes = read.await?;
                self.keep(id, first, &bytes);
                Ok(bytes.slice(wanted))
            });
        };
        let lines: Vec<usize> = parts.iter().map(|part| part.line).collect();
        Box::pin(async move {
            if let Some(bytes) = self.shelf.read(parts).await {
                self.shelf.count(|stats| stats.hits += 1);
                return Ok(bytes.freeze().slice(wanted));
            }
            self.shelf.distrust(&lines);
            Ok(medium().await?.slice(wanted))
        })
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.inner.settle()
    }

    fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
        self.shelf.forget(id.number, self.geometry().segment_bytes as usize);
        self.inner.delete(id)
    }

    fn domain(&self, number: SegmentNumber) -> Option<u32> {
        self.inner.domain(number)
    }

    fn present(&self) -> IoFuture<'_, Vec<SegmentNumber>> {
        self.inner.present()
    }

    /// What is kept of the range is forgotten: it was read from there, and is not what the caller wants.
    fn get_again(
        &self,
        id: SegmentId,
        offset: u32,
        len: u32,
        attempt: u32,
    ) -> IoFuture<'_, Option<BufSlice>> {
        self.shelf.forget(id.number, self.geometry().segment_bytes as usize);
        self.inner.get_again(id, offset, len, attempt)
    }

    fn complete(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
        self.inner.complete(id, bytes)
    }

    fn set_contents(&self, contents: Rc<dyn ZoneContents>) {
        self.inner.set_contents(contents);
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use varve_reactor::SimLoop;
    use varve_stdx::Rng;

    use super::*;
    use crate::mem::MemDisk;

    const SEGMENT_BYTES: u32 = 1 << 20;
    const SECOND_NS: u64 = 1_000_000_000;

    /// A medium whose segments are in memory, and which counts what is read of it.
    #[derive(Default)]
    struct Slow {
        segments: RefCell<HashMap<SegmentNumber, BufSlice>>,
        reads: Cell<u64>,
    }

    impl SegmentStore for Slow {
        fn geometry(&self) -> SegmentGeometry {
            SegmentGeometry { segment_bytes: SEGMENT_BYTES, segment_count: 64 }
        }

        fn allocate(&self, _: SegmentNumber, _: u32) -> IoFuture<'_, ()> {
            Box::pin(ready(Ok(())))
        }

        fn put(&self, id: SegmentId, bytes: BufSlice) -> IoFuture<'_, ()> {
            self.segments.borrow_mut().insert(id.number, bytes);
            Box::pin(ready(Ok(())))
        }

        fn get(&self, id: SegmentId, offset: u32, len: u32) -> IoFuture<'_, BufSlice> {
            self.reads.set(self.reads.get() + 1);
            let (offset, len) = (offset as usize, len as usize);
            Box::pin(ready(Ok(self.segments.borrow()[&id.number].slice(offset..offset + len))))
        }

        fn settle(&self) -> IoFuture<'_, ()> {
            Box::pin(ready(Ok(())))
        }

        fn delete(&self, id: SegmentId) -> IoFuture<'_, ()> {
            self.segments.borrow_mut().remove(&id.number);
            Box::pin(ready(Ok(())))
        }
    }

    struct Rig {
        reactor: Reactor,
        slow: Rc<Slow>,
        disk: MemDisk,
        cached: CachedSegments,
        rng: Rng,
    }

    impl Rig {
        async fn put(&mut self, number: u32, generation: u64) -> (SegmentId, BufSlice) {
            let mut bytes = AlignedBuf::zeroed(SEGMENT_BYTES as usize);
            self.rng.fill(&mut bytes);
            let bytes = bytes.freeze();
            let id = SegmentId {
                number: SegmentNumber(number),
                generation: Generation::new(generation),
            };
            self.cached.put(id, bytes.clone()).await.unwrap();
            (id, bytes)
        }

        /// Reads and compares; how many reads of the medium that took. What is to be kept is.
        async fn get(&self, (id, bytes): &(SegmentId, BufSlice), offset: u32, len: u32) -> u64 {
            let before = self.slow.reads.get();
            let read = self.cached.get(*id, offset, len).await.unwrap();
            assert_eq!(read[..], bytes[offset as usize..(offset + len) as usize]);
            self.reactor.sleep(SECOND_NS).await;
            self.slow.reads.get() - before
        }
    }

    fn with<F: Future<Output = ()> + 'static>(
        disk_bytes: u64,
        test: impl FnOnce(Rig) -> F + 'static,
    ) {
        let mut event_loop = SimLoop::new(3);
        let reactor = event_loop.handle();
        event_loop.run_until(async move {
            let (slow, disk) = (Rc::new(Slow::default()), MemDisk::new("cache", disk_bytes));
            let inner = Rc::clone(&slow) as Rc<dyn SegmentStore>;
            let cached = CachedSegments::new(inner, &reactor, Rc::new(disk.clone()));
            test(Rig { reactor, slow, disk, cached, rng: Rng::new(7) }).await;
        });
    }

    #[test]
    fn what_was_read_is_kept() {
        with(1 << 20, |mut rig| async move {
            let segment = rig.put(1, 1).await;
            assert_eq!(rig.get(&segment, 5000, 3000).await, 1);
            assert_eq!(rig.get(&segment, 4096, 4096).await, 0, "pages around are read as well");
            assert_eq!(rig.get(&segment, 5000, 10).await, 0);
            assert_eq!(rig.get(&segment, 4000, 200).await, 1, "a page is not there");
            assert_eq!(rig.get(&segment, 30_000, 70_000).await, 1, "several lines");
            assert_eq!(rig.get(&segment, 40_000, 50_000).await, 0);
            assert_eq!(rig.get(&segment, 0, READ_BYTES_MAX + 1).await, 1, "long ones pass by");
            assert_eq!(rig.get(&segment, 0, READ_BYTES_MAX + 1).await, 1);
            let stats = rig.cached.stats();
            assert_eq!((stats.hits, stats.misses, stats.failures), (3, 3, 0));
            let unknown = (SegmentId { generation: Generation::ZERO, ..segment.0 }, segment.1);
            assert_eq!(rig.get(&unknown, 5000, 10).await, 1, "contents that nobody knows");
            assert_eq!(rig.get(&unknown, 5000, 10).await, 1);
        });
    }

    #[test]
    fn contents_that_are_gone_are_forgotten() {
        with(1 << 20, |mut rig| async move {
            let old = rig.put(1, 1).await;
            assert_eq!((rig.get(&old, 0, 4096).await, rig.get(&old, 0, 4096).await), (1, 0));
            let new = rig.put(1, 2).await;
            assert_eq!((rig.get(&new, 0, 4096).await, rig.get(&new, 0, 4096).await), (1, 0));
            rig.cached.delete(new.0).await.unwrap();
            let newest = rig.put(1, 3).await;
            // The line that was given back serves again.
            assert_eq!((rig.get(&newest, 0, 4096).await, rig.get(&newest, 0, 4096).await), (1, 0));
        });
    }

    #[test]
    fn a_damaged_copy_is_read_from_the_medium() {
        with(1 << 20, |mut rig| async move {
            let segment = rig.put(1, 1).await;
            assert_eq!(
                (rig.get(&segment, 0, 8192).await, rig.get(&segment, 0, 8192).await),
                (1, 0)
            );
            rig.disk.flip_bit(5000, 3);
            assert_eq!(rig.get(&segment, 0, 4096).await, 0);
            assert_eq!(rig.get(&segment, 0, 8192).await, 1);
            assert_eq!(rig.cached.stats().failures, 1);
            assert_eq!(
                (rig.get(&segment, 0, 8192).await, rig.get(&segment, 0, 8192).await),
                (1, 0)
            );
        });
    }

    #[test]
    fn reads_are_right_whatever_is_kept() {
        // Sixteen lines for a hundred and more.
        with(16 * LINE_BYTES as u64, |mut rig| async move {
            let mut segments = Vec::new();
            for number in 0..4 {
                segments.push(rig.put(number, 1).await);
            }
            for step in 0..4000u64 {
                let number = rig.rng.below(4);
                let index = usize::try_from(number).unwrap();
                if rig.rng.chance(1, 100) {
                    segments[index] = rig.put(u32::try_from(number).unwrap(), step + 2).await;
                }
                // Most are of a few places.
                let end =
                    if rig.rng.chance(3, 4) { 60_000 } else { u64::from(SEGMENT_BYTES) - 40_000 };
                let offset = u32::try_from(rig.rng.below(end)).unwrap();
                let len = u32::try_from(rig.rng.below(40_000) + 1).unwrap();
                let read = rig.cached.get(segments[index].0, offset, len).await.unwrap();
                let range = offset as usize..(offset + len) as usize;
                assert_eq!(read[..], segments[index].1[range], "step {step}");
                if rig.rng.chance(1, 2) {
                    rig.reactor.sleep(SECOND_NS).await;
                }
            }
            let stats = rig.cached.stats();
            assert!(stats.hits > 300 && stats.misses > 300, "{stats:?}");
            assert_eq!(stats.failures, 0);
            let lines = rig.cached.shelf.lines.borrow();
            assert_eq!((lines.all.len(), rig.cached.shelf.keeping_bytes.get()), (16, 0));
            assert!(lines.all.iter().all(|line| line.users == 0));
            assert!(
                lines
                    .of
                    .iter()
                    .all(|(place, line)| lines.all[*line as usize].place == Some(*place))
            );
        });
    }
}
