//! Where the tests keep encoded pages, and the retry loop around an operation.

use hashbrown::HashMap;
use varve_media::SegmentId;
use varve_stdx::checksum32;
use varve_types::{Generation, SegmentNumber};

use crate::tree::{BTree, Fault, Location, Page, PageCache, PagePtr, decode_page, encode_page};

/// Encoded pages by name.
#[derive(Default)]
pub(super) struct Store {
    pub(super) pages: HashMap<PagePtr, Vec<u8>>,
    next_place: u64,
}

impl Store {
    pub(super) fn load(&self, fault: Fault) -> Page {
        let unit = self.pages.get(&fault.ptr).unwrap_or_else(|| panic!("{fault:?} is not stored"));
        decode_page(unit, fault).unwrap()
    }

    /// Calls `operation` until it faults no more.
    pub(super) fn retry<T>(
        &self,
        cache: &mut PageCache,
        mut operation: impl FnMut(&mut PageCache) -> Result<T, Fault>,
    ) -> T {
        for _ in 0..1000 {
            match operation(cache) {
                Ok(value) => return value,
                Err(fault) => {
                    assert!(!cache.contains(fault.ptr));
                    cache.insert(fault.ptr, self.load(fault));
                }
            }
        }
        panic!("an operation makes no progress");
    }

    /// Stores the dirty pages that are named by chunk ids; they are being written afterwards.
    pub(super) fn checkpoint(&mut self, cache: &mut PageCache) {
        for name in cache.dirty_names() {
            if let PagePtr::Chunk(_) = name {
                self.pages.insert(name, encode_page(cache.peek(name).unwrap(), name));
                cache.mark_writing(name);
            }
        }
    }

    /// Stores the dirty pages of a tree that is named by locations; gives up before the page after `pages_max`.
    pub(super) fn flush(
        &mut self,
        cache: &mut PageCache,
        tree: &mut BTree,
        pages_max: usize,
    ) -> bool {
        let mut placed = 0;
        tree.flush(cache, |page| {
            if placed == pages_max {
                return Err(());
            }
            placed += 1;
            let unit = encode_page(page, PagePtr::Null);
            self.next_place += 1;
            let location = Location {
                segment: SegmentId {
                    number: SegmentNumber(1),
                    generation: Generation::new(self.next_place),
                },
                offset_512: 3,
                stored_len: u32::try_from(unit.len()).unwrap(),
                checksum: checksum32(&unit),
            };
            self.pages.insert(PagePtr::Location(location), unit);
            Ok(location)
        })
        .is_ok()
    }

    /// What is being written has become durable.
    pub(super) fn settle(cache: &mut PageCache) {
        for name in cache.writing_names() {
            cache.mark_clean(name);
        }
        assert_eq!(cache.stats().writing_bytes, 0);
    }

    pub(super) fn forget(&mut self, dead: Vec<PagePtr>) {
        for name in dead {
            assert!(self.pages.remove(&name).is_some(), "{name:?} died twice or was never stored");
        }
    }
}
