//! Loads absent pages: runs a tree operation, fetches the page it asks for, and runs it again.

use std::rc::Rc;

use futures_util::stream::{self, TryStreamExt};
use varve_logstore::format::pointer::Location;
use varve_media::SegmentId;
use varve_reactor::Notify;
use varve_types::ChunkId;

use crate::hash::HashSet;
use crate::tree::{Fault, PageCache, PagePtr, decode_page};
use crate::trees::{Stop, Trees};
use crate::{Error, Result, Shard};

/// Pages fetched at once for one operation.
const LOADS_MAX: usize = 32;

const _: () = assert!(LOADS_MAX <= PageCache::CLEAN_PAGES_MIN, "what is loaded at once fits"); // PAGE-CACHE-2

/// Chunks whose places are looked up together: the fullest cache holds the pages of as many.
pub(crate) const PLACES_AT_ONCE: usize = PageCache::CLEAN_PAGES_MIN;

/// Times that pages are loaded together: more levels than a map and the table above it have.
const PREFETCH_ROUNDS_MAX: u32 = 8;

impl Shard {
    /// Runs `operation` until it needs no absent page.
    pub(crate) async fn with_pages<T>(
        &self,
        mut operation: impl FnMut(&mut Trees) -> std::result::Result<T, Stop>,
    ) -> Result<T> {
        let mut faults = Faults::default();
        loop {
            let outcome = operation(&mut self.trees.borrow_mut());
            match outcome {
                Ok(value) => return Ok(value),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Fault(fault)) => faults.load(self, fault).await?,
            }
        }
    }

    /// Loads several pages at once.
    pub(crate) async fn load_pages(&self, faults: Vec<Fault>) -> Result<()> {
        let loads = stream::iter(faults.into_iter().map(|fault| Ok(self.load_page(fault))));
        loads.try_buffer_unordered(LOADS_MAX).try_collect().await
    }

    /// Loads the pages that `missing` asks for, many at once, until it asks for none. What cannot be loaded is left to
    /// the operation that needs it, which reports it if it still does.
    pub(crate) async fn prefetch(&self, mut missing: impl FnMut(&mut Trees) -> HashSet<Fault>) {
        // Every round loads one level; a warm cache needs none.
        for _ in 0..PREFETCH_ROUNDS_MAX {
            let faults = missing(&mut self.trees.borrow_mut());
            if faults.is_empty() || self.load_pages(faults.into_iter().collect()).await.is_err() {
                break;
            }
        }
    }

    /// Loads the pages of the table that name `chunks`, many at once.
    pub(crate) async fn prefetch_places(&self, chunks: impl Iterator<Item = ChunkId> + Clone) {
        self.prefetch(|trees| {
            chunks.clone().filter_map(|chunk| fault_of(trees.chunk(chunk))).collect()
        })
        .await
    }

    /// Loads one page into the cache; joins a load of it that is under way.
    pub(crate) async fn load_page(&self, fault: Fault) -> Result<()> {
        loop {
            let under_way = self.caches.loading.borrow().get(&fault.ptr).cloned();
            let Some(done) = under_way else { break };
            done.notified().await;
            if self.trees.borrow().cache.contains(fault.ptr) {
                return Ok(());
            }
        }
        if self.trees.borrow().cache.contains(fault.ptr) {
            // Of another shape than expected, or loaded meanwhile.
            return self.check_shape(fault);
        }
        let done = Rc::new(Notify::new());
        let other = self.caches.loading.borrow_mut().insert(fault.ptr, Rc::clone(&done));
        assert!(other.is_none(), "one load of a page is under way");
        let _load = Load { shard: self, ptr: fault.ptr, done };
        self.fetch_page(fault).await
    }

    fn check_shape(&self, fault: Fault) -> Result<()> {
        let trees = self.trees.borrow();
        match trees.cache.peek(fault.ptr) {
            Some(page) if page.shape() != fault.shape => Err(Error::PageCorrupt {
                page: format!("{:?}", fault.ptr),
                reason: format!("is {:?}, not {:?}", page.shape(), fault.shape),
            }),
            _ => Ok(()),
        }
    }

    async fn fetch_page(&self, fault: Fault) -> Result<()> {
        let location = self.page_location(fault.ptr).await?;
        let number = location.segment.number;
        let damaged = |reason: String| Error::PageCorrupt {
            page: format!("{:?} in segment {number} at {}", fault.ptr, location.offset()),
            reason,
        };
        let Some(pin) = self.pin(location.segment) else {
            return Err(damaged("the segment holds something else".to_owned()));
        };
        let read = self.stored_unit(&location).await;
        drop(pin);
        let bytes = match read {
            Err(varve_logstore::Error::BadChecksum { .. }) => {
                return Err(damaged("checksum mismatch".to_owned()));
            }
            read => read?,
        };
        let page = decode_page(&bytes, fault).map_err(|error| damaged(error.to_string()))?;
        self.counters.add_page_read();
        let cache = &mut self.trees.borrow_mut().cache;
        cache.insert(fault.ptr, page);
        assert!(cache.contains(fault.ptr), "a page that was loaded is there"); // PAGE-CACHE-2
        Ok(())
    }

    async fn page_location(&self, ptr: PagePtr) -> Result<Location> {
        let chunk = match ptr {
            PagePtr::Location(location) => return Ok(location),
            PagePtr::Chunk(chunk) => chunk,
            PagePtr::Null | PagePtr::Memory(_) => unreachable!("{ptr:?} is never absent"),
        };
        loop {
            let outcome = self.trees.borrow().chunk(chunk);
            match outcome {
                Ok(Some(entry)) => return Ok(entry.location()),
                Ok(None) => {
                    return Err(Error::PageCorrupt {
                        page: format!("{ptr:?}"),
                        reason: "the chunk table does not know it".to_owned(),
                    });
                }
                Err(Stop::Failed(error)) => return Err(error),
                // Pages of the table are named by location, so this goes one level down at most.
                Err(Stop::Fault(fault)) => Box::pin(self.load_page(fault)).await?,
            }
        }
    }
}

/// The page that a look-up needs and the cache does not hold.
pub(crate) fn fault_of<T>(outcome: std::result::Result<T, Stop>) -> Option<Fault> {
    match outcome {
        Err(Stop::Fault(fault)) => Some(fault),
        Ok(_) | Err(Stop::Failed(_)) => None,
    }
}

/// Page faults of one operation. A page that cannot be found may have been changed, and so renamed, since the operation
/// asked for it: only if it asks for the same page again is something wrong.
#[derive(Default)]
pub(crate) struct Faults {
    missing: Option<PagePtr>,
}

impl Faults {
    /// Loads the page that the operation asks for.
    pub(crate) async fn load(&mut self, shard: &Shard, fault: Fault) -> Result<()> {
        match shard.load_page(fault).await {
            Err(Error::PageCorrupt { .. }) if self.missing != Some(fault.ptr) => {
                self.missing = Some(fault.ptr);
                Ok(())
            }
            outcome => outcome,
        }
    }
}

/// A page load under way; its end, however it comes, wakes those who wait for the page.
struct Load<'a> {
    shard: &'a Shard,
    ptr: PagePtr,
    done: Rc<Notify>,
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let load = self.shard.caches.loading.borrow_mut().remove(&self.ptr);
        assert!(load.is_some_and(|done| Rc::ptr_eq(&done, &self.done)), "it was under way");
        self.done.notify_all();
    }
}

/// Keeps a segment from being reused while it is read.
pub(crate) struct Pin<'a> {
    /// None of one that reuses nothing.
    shard: Option<&'a Shard>,
    id: SegmentId,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        if let Some(shard) = self.shard {
            shard.space.borrow_mut().unpin(self.id.number);
            shard.settle_freed();
        }
    }
}

impl Shard {
    /// Pins a segment's contents; `None` when they are not there.
    pub(crate) fn pin(&self, id: SegmentId) -> Option<Pin<'_>> {
        if self.lifecycle.is_at_checkpoint() {
            return Some(Pin { shard: None, id }); // It knows of no segment (ENGINE-SALVAGE-1).
        }
        let pinned = self.space.borrow_mut().pin(id);
        pinned.then(|| Pin { shard: Some(self), id }) // Made only then: dropping one unpins.
    }
}
