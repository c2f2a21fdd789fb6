//! One B+tree for the key tree and the chunk table.

mod delete;
mod fixed;
mod flush;
mod page;
mod put;
mod scan;
mod slotted;
mod tree;
mod value;
mod walk;

pub use page::{BODY_BYTES, TreeLayout, TreePage};
pub use scan::{Entry, Scan};
pub use tree::{BTree, EntryTooLarge, TREE_ENTRY_BYTES_MAX, TREE_HEIGHT_MAX, TREE_KEY_BYTES_MAX};
pub use value::Value;
