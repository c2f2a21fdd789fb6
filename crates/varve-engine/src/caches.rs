//! What a shard keeps in memory of what is on the media, beside the pages in its trees.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use varve_logstore::format::pointer::PagePtr;
use varve_reactor::Notify;

use crate::ShardConfig;
use crate::block_cache::BlockCache;
use crate::hash::HashMap;

/// What a shard keeps in memory of what is on the media.
pub(crate) struct Caches {
    /// Of the page cache, what it has now.
    pub(crate) page_bytes: Cell<usize>,
    /// Pages that are being loaded, with whom that wakes.
    pub(crate) loading: RefCell<HashMap<PagePtr, Rc<Notify>>>,
    pub(crate) blocks: RefCell<BlockCache>,
}

impl Caches {
    pub(crate) fn new(config: &ShardConfig) -> Self {
        Self {
            page_bytes: Cell::new(config.page_cache_bytes),
            loading: RefCell::default(),
            blocks: RefCell::new(BlockCache::new(config.block_cache_bytes)),
        }
    }
}
