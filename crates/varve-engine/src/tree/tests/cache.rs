//! The cache keeps its bound, pins what is changed, and evicts what is cold.

use varve_types::{BlockIndex, ChunkId, StreamId};

use crate::tree::map::MapPage;
use crate::tree::{MapSlot, Page, PageCache, PagePtr, PageShape, PageState};

const SHAPE: PageShape = PageShape::Map { level: 0, first_block: BlockIndex::ZERO };

fn page() -> Page {
    Page::Map(MapPage::filled(StreamId::new(1), 0, BlockIndex::ZERO, MapSlot::ZERO))
}

fn name(id: u64) -> PagePtr {
    PagePtr::Chunk(ChunkId::new(id))
}

#[test]
fn the_bound_holds_and_hot_pages_stay() {
    let pages_max = 1000;
    let mut cache = PageCache::new(pages_max * PageCache::BYTES_PER_PAGE);
    for id in 1..=10_000 {
        cache.insert(name(id), page());
        assert!(cache.find(name(1 + id % 10), SHAPE).is_some() || id < 10);
        assert!(cache.stats().resident_bytes <= pages_max * PageCache::BYTES_PER_PAGE);
    }
    let stats = cache.stats();
    assert_eq!(stats.evictions, 9000);
    assert!(cache.contains(name(10_000)) && !cache.contains(name(500)));
}

#[test]
fn pages_that_were_born_in_the_cache_keep_the_bound_as_well() {
    let pages_max = 100;
    let mut cache = PageCache::new(pages_max * PageCache::BYTES_PER_PAGE);
    for checkpoint in 0..20 {
        for id in 1..=50 {
            cache.create(name(checkpoint * 50 + id), page());
        }
        for dirty in cache.dirty_names() {
            cache.mark_writing(dirty);
        }
        for writing in cache.writing_names() {
            cache.mark_clean(writing);
        }
        assert!(cache.stats().resident_bytes <= pages_max * PageCache::BYTES_PER_PAGE);
    }
}

#[test]
fn pinned_pages_are_not_evicted_and_leave_room_for_clean_ones() {
    let mut cache = PageCache::new(10 * PageCache::BYTES_PER_PAGE);
    for id in 1..=500 {
        cache.create(name(id), page());
    }
    for id in 501..=1000 {
        cache.insert(name(id), page());
        let newest = id.saturating_sub(PageCache::CLEAN_PAGES_MIN as u64 - 1).max(501);
        assert!((newest..=id).all(|id| cache.contains(name(id))), "PAGE-CACHE-2");
    }
    assert!((1..=500).all(|id| cache.state(name(id)) == Some(PageState::Dirty)));
    for dirty in cache.dirty_names() {
        cache.mark_writing(dirty);
    }
    cache.insert(name(1001), page());
    assert_eq!(cache.stats().writing_bytes, 500 * PageCache::BYTES_PER_PAGE);
    for writing in cache.writing_names() {
        cache.mark_clean(writing);
    }
    cache.insert(name(1002), page());
    assert_eq!(cache.stats().resident_bytes, 64 * PageCache::BYTES_PER_PAGE);
}

#[test]
fn a_page_of_another_shape_counts_as_absent() {
    let mut cache = PageCache::new(0);
    cache.insert(name(1), page());
    assert!(
        cache.find(name(1), PageShape::Map { level: 1, first_block: BlockIndex::ZERO }).is_none()
    );
    assert!(cache.find(name(1), SHAPE).is_some());
    assert_eq!((cache.stats().hits, cache.stats().misses), (1, 1));
}
