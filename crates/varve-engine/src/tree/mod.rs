//! Trees over a bounded page cache: the block maps (radix), the key tree and the chunk table (B+tree).
//!
//! Pure and synchronous. An operation that needs an absent page changes nothing and returns a [`Fault`]; the caller
//! loads the page, inserts it in the [`PageCache`] and calls again. Pages are copy-on-write between checkpoints: the
//! first change of a stored page gives it a fresh name from [`PageNames`], up to the root.

mod btree;
mod cache;
mod codec;
mod map;
mod names;
mod page;
mod pointer;
mod ring;
mod slot;
#[cfg(test)]
mod tests;

pub use btree::{
    BODY_BYTES, BTree, Entry, EntryTooLarge, Scan, TREE_ENTRY_BYTES_MAX, TREE_HEIGHT_MAX,
    TREE_KEY_BYTES_MAX, TreeLayout, TreePage, Value,
};
pub use cache::{CacheStats, PageCache, PageState};
pub use codec::{PageError, decode_page, encode_page};
pub(crate) use map::is_block_of_map;
pub use map::{
    BlockMapping, DetachedContent, DiffLimits, DiffRun, Fill, MAP_HEIGHT_MAX, MAP_SLOTS, Map,
    MapPage, StatusRun, WalkItem,
};
pub use names::{ChunkNames, MemoryNames, NAMES_PER_OPERATION_MAX, PageNames};
pub use page::{Fault, PAGE_BYTES, Page, PageShape};
pub use slot::{MapSlot, SlotKind};
pub use varve_logstore::format::pointer::{Location, PagePtr};
