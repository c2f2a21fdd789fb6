//! A page in memory, what a tree expects of a page it asks for, and the request for an absent one.

use varve_types::BlockIndex;

use super::PagePtr;
use super::btree::{TreeLayout, TreePage};
use super::map::MapPage;

/// Size of a page's memory in bytes.
pub const PAGE_BYTES: usize = 4096;

/// A page of one of the trees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Page {
    /// Of a stream's block map.
    Map(MapPage),
    /// Of the key tree or the chunk table.
    Tree(TreePage),
}

/// What the asking tree knows of a page before it has seen it; checked when the page is decoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageShape {
    /// A map page of that level (0: leaf) that begins at that block.
    Map {
        /// Levels above the leaves.
        level: u8,
        /// First block it covers.
        first_block: BlockIndex,
    },
    /// A B+tree page.
    Tree {
        /// Layout of the tree.
        layout: TreeLayout,
        /// Levels above the leaves.
        level: u8,
    },
}

/// The page that an operation needs and the cache does not hold. Nothing was changed: load it and call again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// Its name.
    pub ptr: PagePtr,
    /// What it must turn out to be.
    pub shape: PageShape,
}

impl Page {
    /// What the page is, to compare with what was expected.
    #[must_use]
    pub fn shape(&self) -> PageShape {
        match self {
            Self::Map(page) => {
                PageShape::Map { level: page.level(), first_block: page.first_block() }
            }
            Self::Tree(page) => PageShape::Tree { layout: page.tree_layout(), level: page.level() },
        }
    }

    /// Whether nothing is in it; no tree keeps such a page (BT2, MAP-2).
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Map(page) => page.used() == 0,
            Self::Tree(page) => page.is_empty(),
        }
    }
}

const _: () = assert!(super::BODY_BYTES <= PAGE_BYTES, "entries fit a page");

pub(crate) fn zeroed_bytes() -> Box<[u8; PAGE_BYTES]> {
    let bytes = vec![0u8; PAGE_BYTES].into_boxed_slice();
    bytes.try_into().expect("the length is PAGE_BYTES")
}
