//! The bounded page cache of a shard: name → page, O(1), one hash look-up a hit.
//!
//! Clean pages are evicted by a CLOCK with two bits of heat; changed pages and pages being written are pinned. The
//! look-up for which a page was loaded does not warm it: pages that are used once leave within one round, and those
//! that are used again stay longer.
//!
//! ```text
//!   insert ──▶ Clean ──make_dirty──▶ Dirty ──mark_writing──▶ Writing ──mark_clean──▶ Clean
//!                ▲  evict               ▲ create                │ make_dirty
//!                                       └───────────────────────┘
//! ```
//! PAGE-CACHE-1. A page is evicted only by `insert` and `mark_clean`, never inside a tree operation: frames found by
//!     one stay valid.
//! PAGE-CACHE-2. Whatever is pinned, at least [`PageCache::CLEAN_PAGES_MIN`] clean pages fit, so that retries make
//!     progress.

use std::cell::Cell;

use hashbrown::HashTable;

use super::ring::{Links, Ring};
use super::{Page, PagePtr, PageShape, pointer};

/// Index of a cached page; valid until it is removed or evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameId(pub(super) u32);

impl FrameId {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What may happen to a cached page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PageState {
    /// As stored; may be evicted; the first change renames it.
    Clean,
    /// Changed since the last checkpoint; pinned; changed in place.
    Dirty,
    /// In a segment that is not durable yet: pinned; the first change renames it.
    Writing,
}

/// Counters and amounts of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStats {
    /// Look-ups that found their page.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Pages evicted so far.
    pub evictions: u64,
    /// Bytes of all cached pages.
    pub resident_bytes: usize,
    /// Bytes of changed pages.
    pub dirty_bytes: usize,
    /// Bytes of pages being written.
    pub writing_bytes: usize,
}

/// Two whole cache lines, which are fetched together.
#[repr(align(128))]
pub(super) struct CacheFrame {
    name: PagePtr,
    page: Option<Page>,
    state: PageState,
    heat: Cell<u8>,
    pub(super) links: Links,
}

/// See the module.
pub struct PageCache {
    frames: Vec<CacheFrame>,
    vacant: Vec<FrameId>,
    index: HashTable<FrameId>,
    clean: Ring,
    dirty: Ring,
    writing: Ring,
    capacity_bytes: usize,
    hits: Cell<u64>,
    misses: Cell<u64>,
    evictions: u64,
}

const HEAT_MAX: u8 = 3;
/// Of a page that was loaded and not looked at yet.
const HEAT_LOADED: u8 = u8::MAX;

const _: () = assert!(HEAT_LOADED > HEAT_MAX, "no warm page looks as if it was just loaded");
/// Longest search for a cold page; bounds the cost of one insert to some microseconds.
const SWEEP_MAX: usize = 128;

impl PageCache {
    /// Memory a cached page is counted with: its bytes, its frame and its share of the index.
    pub const BYTES_PER_PAGE: usize = super::PAGE_BYTES + 160;
    /// Clean pages that always fit: several paths of the deepest tree.
    pub const CLEAN_PAGES_MIN: usize = 64;

    /// An empty cache that aims at `capacity_bytes`; pinned pages may exceed it.
    #[must_use]
    pub fn new(capacity_bytes: usize) -> Self {
        Self {
            frames: Vec::new(),
            vacant: Vec::new(),
            index: HashTable::new(),
            clean: Ring::default(),
            dirty: Ring::default(),
            writing: Ring::default(),
            capacity_bytes,
            hits: Cell::new(0),
            misses: Cell::new(0),
            evictions: 0,
        }
    }

    /// Changes the bound; takes effect at the next [`Self::insert`].
    pub fn resize(&mut self, capacity_bytes: usize) {
        self.capacity_bytes = capacity_bytes;
    }

    /// Current counters.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        assert_eq!(self.in_rings(), self.index.len(), "each page has one state");
        CacheStats {
            hits: self.hits.get(),
            misses: self.misses.get(),
            evictions: self.evictions,
            resident_bytes: self.index.len() * Self::BYTES_PER_PAGE,
            dirty_bytes: self.dirty.len() * Self::BYTES_PER_PAGE,
            writing_bytes: self.writing.len() * Self::BYTES_PER_PAGE,
        }
    }

    /// Whether `name` is cached. Counts neither as hit nor as use.
    #[must_use]
    pub fn contains(&self, name: PagePtr) -> bool {
        self.position(name).is_some()
    }

    /// The page of that name, if cached. Counts neither as hit nor as use.
    #[must_use]
    pub fn peek(&self, name: PagePtr) -> Option<&Page> {
        self.position(name).map(|frame| self.page(frame))
    }

    /// State of a cached page.
    #[must_use]
    pub fn state(&self, name: PagePtr) -> Option<PageState> {
        self.position(name).map(|frame| self.frames[frame.index()].state)
    }

    /// Adds a page that was loaded; does nothing if it is there already. Evicts what exceeds the bound (PAGE-CACHE-1).
    pub fn insert(&mut self, name: PagePtr, page: Page) {
        assert!(!matches!(name, PagePtr::Null | PagePtr::Memory(_)), "{name:?} cannot be loaded");
        if self.contains(name) {
            return;
        }
        self.make_room();
        let frame = self.add(name, page, PageState::Clean);
        self.frames[frame.index()].heat.set(HEAT_LOADED);
    }

    /// Names of all changed pages, in order of their first change.
    #[must_use]
    pub fn dirty_names(&self) -> Vec<PagePtr> {
        self.names_of(&self.dirty)
    }

    /// Names of all pages being written.
    #[cfg(test)]
    #[must_use]
    pub fn writing_names(&self) -> Vec<PagePtr> {
        self.names_of(&self.writing)
    }

    /// A changed page was encoded for a checkpoint. All changed pages of a tree go together, before its next change:
    /// a parent that is not dirty has no dirty child.
    ///
    /// # Panics
    /// When `name` is not a dirty page.
    pub fn mark_writing(&mut self, name: PagePtr) {
        let frame = self.position(name).expect("dirty pages are pinned");
        assert_eq!(self.frames[frame.index()].state, PageState::Dirty);
        self.set_state(frame, PageState::Writing);
    }

    /// A page being written is durable. Does nothing if it has been changed (and so renamed) or dropped meanwhile.
    /// Evicts what exceeds the bound: pages that are born in the cache are evicted even if none is ever loaded.
    ///
    /// # Panics
    /// When the page is dirty.
    pub fn mark_clean(&mut self, name: PagePtr) {
        assert!(!matches!(name, PagePtr::Null | PagePtr::Memory(_)), "{name:?} is not stored"); // CHECKPOINT-4
        let Some(frame) = self.position(name) else { return };
        assert_ne!(
            self.frames[frame.index()].state,
            PageState::Dirty,
            "{name:?} was not marked as writing"
        );
        self.set_state(frame, PageState::Clean);
        self.make_room();
    }

    /// Finds a page for a tree that expects `shape`; a page of another shape counts as absent, so that loading it
    /// reports the corruption.
    #[inline]
    pub(crate) fn find(&self, name: PagePtr, shape: PageShape) -> Option<FrameId> {
        let Some(frame) = self.find_resident(name, shape) else {
            self.misses.set(self.misses.get() + 1);
            return None;
        };
        let heat = &self.frames[frame.index()].heat;
        match heat.get() {
            HEAT_LOADED => heat.set(0),
            warm if warm < HEAT_MAX => heat.set(warm + 1),
            _ => {}
        }
        self.hits.set(self.hits.get() + 1);
        Some(frame)
    }

    /// As [`Self::find`], but counts neither as hit nor miss nor use.
    #[inline]
    pub(crate) fn find_resident(&self, name: PagePtr, shape: PageShape) -> Option<FrameId> {
        self.position(name).filter(|frame| self.page(*frame).shape() == shape)
    }

    #[inline]
    pub(crate) fn page(&self, frame: FrameId) -> &Page {
        self.frames[frame.index()].page.as_ref().expect("frame ids name occupied frames")
    }

    #[inline]
    pub(crate) fn page_mut(&mut self, frame: FrameId) -> &mut Page {
        let frame = &mut self.frames[frame.index()];
        assert_eq!(frame.state, PageState::Dirty, "only dirty pages are changed");
        frame.page.as_mut().expect("frame ids name occupied frames")
    }

    #[inline]
    pub(crate) fn is_dirty(&self, frame: FrameId) -> bool {
        self.frames[frame.index()].state == PageState::Dirty
    }

    /// Adds a page that was just born.
    pub(crate) fn create(&mut self, name: PagePtr, page: Page) -> FrameId {
        assert!(!self.contains(name), "{name:?} is not fresh");
        self.add(name, page, PageState::Dirty)
    }

    /// Gives a page that is not dirty its new name before its first change; returns the old one.
    pub(crate) fn make_dirty(&mut self, frame: FrameId, name: PagePtr) -> PagePtr {
        assert!(!self.is_dirty(frame));
        let old = self.rename(frame, name);
        self.set_state(frame, PageState::Dirty);
        debug_assert!(!self.contains(old), "nobody finds it under its old name");
        old
    }

    /// The name of a cached page.
    #[inline]
    pub(crate) fn name(&self, frame: FrameId) -> PagePtr {
        self.frames[frame.index()].name
    }

    /// Gives a page that others hold as well its new name before its first change. They find it under the old one: from
    /// media when it is clean, else in a frame of its own, which is written in its turn.
    pub(crate) fn make_own(&mut self, frame: FrameId, name: PagePtr) {
        let state = self.frames[frame.index()].state;
        if state == PageState::Clean {
            self.make_dirty(frame, name);
            return;
        }
        let theirs = self.page(frame).clone();
        let old = self.rename(frame, name);
        self.set_state(frame, PageState::Dirty);
        self.add(old, theirs, state);
        debug_assert_eq!(self.state(old), Some(state), "others find theirs as it was"); // MAP-4
    }

    /// Gives a dirty page another name; returns the old one, which was never stored.
    pub(crate) fn rename_dirty(&mut self, frame: FrameId, name: PagePtr) -> PagePtr {
        assert!(self.is_dirty(frame));
        self.rename(frame, name)
    }

    /// A dirty page got its place on media.
    pub(crate) fn place(&mut self, frame: FrameId, name: PagePtr) {
        assert!(self.is_dirty(frame) && matches!(name, PagePtr::Location(_)));
        self.rename(frame, name);
        self.set_state(frame, PageState::Writing);
    }

    /// Takes a page out, whatever its state.
    pub(crate) fn remove(&mut self, frame: FrameId) -> (PagePtr, Page) {
        let name = self.frames[frame.index()].name;
        self.unindex(name, frame);
        self.ring_of(frame).unlink(frame);
        self.vacant.push(frame);
        let page = self.frames[frame.index()].page.take();
        debug_assert!(!self.contains(name), "{name:?} names one page");
        (name, page.expect("frame ids name occupied frames"))
    }

    #[inline]
    fn position(&self, name: PagePtr) -> Option<FrameId> {
        self.index
            .find(pointer::hash64(name), |frame| self.frames[frame.index()].name == name)
            .copied()
    }

    /// Pages of all states.
    fn in_rings(&self) -> usize {
        self.clean.len() + self.dirty.len() + self.writing.len()
    }

    fn names_of(&self, ring: &Ring) -> Vec<PagePtr> {
        let frames = ring.iter(&self.frames);
        let names: Vec<_> = frames.map(|frame| self.frames[frame.index()].name).collect();
        debug_assert_eq!(names.len(), ring.len(), "a ring counts its frames");
        names
    }

    fn add(&mut self, name: PagePtr, page: Page, state: PageState) -> FrameId {
        let has_place = !matches!(name, PagePtr::Null | PagePtr::Memory(_));
        assert!(
            has_place || state == PageState::Dirty,
            "only changed pages have no place: {name:?}"
        );
        let new = CacheFrame {
            name,
            page: Some(page),
            state,
            heat: Cell::new(0),
            links: Links::default(),
        };
        let frame = if let Some(frame) = self.vacant.pop() {
            self.frames[frame.index()] = new;
            frame
        } else {
            let index = u32::try_from(self.frames.len()).expect("fewer than 2^32 pages fit memory");
            self.frames.push(new);
            FrameId(index)
        };
        self.index_name(name, frame);
        self.ring_of(frame).push(frame);
        assert_eq!(self.index.len() + self.vacant.len(), self.frames.len(), "no frame is lost");
        frame
    }

    fn index_name(&mut self, name: PagePtr, frame: FrameId) {
        debug_assert!(self.position(name).is_none(), "{name:?} names one page");
        let frames = &self.frames;
        self.index.insert_unique(pointer::hash64(name), frame, |other| {
            pointer::hash64(frames[other.index()].name)
        });
    }

    fn unindex(&mut self, name: PagePtr, frame: FrameId) {
        let entry = self.index.find_entry(pointer::hash64(name), |other| *other == frame);
        entry.expect("cached pages are indexed").remove();
    }

    fn rename(&mut self, frame: FrameId, name: PagePtr) -> PagePtr {
        debug_assert!(self.frames[frame.index()].page.is_some(), "frame ids name occupied frames");
        assert!(!self.contains(name), "{name:?} is taken");
        let old = std::mem::replace(&mut self.frames[frame.index()].name, name);
        self.unindex(old, frame);
        self.index_name(name, frame);
        old
    }

    fn set_state(&mut self, frame: FrameId, state: PageState) {
        self.ring_of(frame).unlink(frame);
        self.frames[frame.index()].state = state;
        self.ring_of(frame).push(frame);
    }

    fn ring_of(&mut self, frame: FrameId) -> RingMut<'_> {
        let ring = match self.frames[frame.index()].state {
            PageState::Clean => &mut self.clean,
            PageState::Dirty => &mut self.dirty,
            PageState::Writing => &mut self.writing,
        };
        RingMut { ring, frames: &mut self.frames }
    }

    fn make_room(&mut self) {
        assert_eq!(self.in_rings(), self.index.len(), "each page has one state");
        let pinned = self.dirty.len() + self.writing.len();
        let pages_max = (self.capacity_bytes / Self::BYTES_PER_PAGE).saturating_sub(pinned);
        let clean_max = pages_max.max(Self::CLEAN_PAGES_MIN); // PAGE-CACHE-2
        while self.clean.len() >= clean_max {
            self.evict();
        }
    }

    fn evict(&mut self) {
        for _ in 0..SWEEP_MAX {
            let oldest = self.clean.first().expect("there is more than the minimum of clean pages");
            let heat = &self.frames[oldest.index()].heat;
            if matches!(heat.get(), 0 | HEAT_LOADED) {
                break;
            }
            assert!(heat.get() <= HEAT_MAX, "a page that was looked at has bounded heat");
            heat.set(heat.get() - 1);
            let mut ring = self.ring_of(oldest);
            ring.unlink(oldest);
            ring.push(oldest);
        }
        let oldest = self.clean.first().expect("there is more than the minimum of clean pages");
        assert_eq!(self.frames[oldest.index()].state, PageState::Clean, "others are pinned"); // PAGE-CACHE-1
        self.remove(oldest);
        self.evictions += 1;
    }
}

/// A ring together with the frames its links live in.
struct RingMut<'a> {
    ring: &'a mut Ring,
    frames: &'a mut [CacheFrame],
}

impl RingMut<'_> {
    fn push(&mut self, frame: FrameId) {
        self.ring.push(self.frames, frame);
    }

    fn unlink(&mut self, frame: FrameId) {
        self.ring.unlink(self.frames, frame);
    }
}

const _: () = assert!(size_of::<CacheFrame>() == 128);
