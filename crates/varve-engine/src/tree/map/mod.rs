//! The block map of a stream: a radix tree of pages of 512 slots.

mod diff;
mod fill;
mod page;
mod run;
mod status;
mod tree;
mod walk;

pub use diff::{DiffLimits, DiffRun};
pub use fill::{DetachedContent, Fill};
pub use page::{MAP_SLOTS, MapPage};
pub use status::{BlockMapping, StatusRun};
pub use tree::{MAP_HEIGHT_MAX, Map};
pub use walk::WalkItem;

pub(crate) use tree::{is_block_of_map, level_fits};
