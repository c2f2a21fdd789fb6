//! Pages as units of a segment: a [`PageHeader`] and a payload that is packed by the kind of page.
//!
//! The decoder takes any bytes and yields a page of the expected name and shape whose invariants hold, or an error.

mod map;
mod tree;

use varve_logstore::format::page::{PageHeader, PageKind};
use varve_stdx::DecodeError;
use varve_types::{ChunkId, ErrorKind, StreamId};

use super::{Fault, Page, PagePtr, PageShape, TreeLayout};

/// Why bytes are not the expected page.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PageError {
    /// The unit itself is damaged.
    #[error(transparent)]
    Unit(#[from] varve_logstore::Error),
    /// A sound page, but not the one that was asked for.
    #[error("page has {field} {found} instead of {expected}")]
    Misplaced {
        /// What differs.
        field: &'static str,
        /// What it should be.
        expected: u64,
        /// What it is.
        found: u64,
    },
    /// The payload is not one that an encoder writes.
    #[error("page payload has bad {0}")]
    Payload(&'static str),
    /// The payload ends early.
    #[error(transparent)]
    Fields(#[from] DecodeError),
}

impl PageError {
    /// Stored bytes are not what was written.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unit(error) => error.kind(),
            Self::Misplaced { .. } | Self::Payload(_) | Self::Fields(_) => ErrorKind::Corrupt,
        }
    }
}

const MAP_PACKED: u8 = 1;
const MAP_RAW: u8 = 2;
const TREE_FIXED: u8 = 1;
const TREE_SLOTTED: u8 = 2;
const TREE_COLUMNS: u8 = 3;

// Beside the entries stand lengths and count.
const _: () = assert!(super::BODY_BYTES + PageHeader::LEN + 4 <= super::PAGE_BYTES);

/// Encodes a page as the exact bytes of a unit. `name` is the chunk id of a map or key page, and `Null` for a page of
/// the chunk table, which must point to placed pages only. Costs a pass over the page.
///
/// # Panics
/// When the name does not suit the page.
#[must_use]
pub fn encode_page(page: &Page, name: PagePtr) -> Vec<u8> {
    let mut unit = Vec::with_capacity(super::PAGE_BYTES + PageHeader::LEN);
    unit.resize(PageHeader::LEN, 0);
    let (encoding, slot_width, stream, position) = match page {
        Page::Map(page) => {
            let encoding = map::encode(page, &mut unit);
            (encoding, 8, page.stream(), page.first_block().0)
        }
        Page::Tree(page) => (tree::encode(page, &mut unit), 0, StreamId::ZERO, 0),
    };
    let kind = kind_of(page.shape());
    let name = match (kind, name) {
        (PageKind::Table, PagePtr::Null) => ChunkId::ZERO,
        (PageKind::Map | PageKind::Key, PagePtr::Chunk(id)) => id,
        _ => panic!("{name:?} is not a name of a {kind:?} page"),
    };
    let level = level_of(page.shape());
    let header = PageHeader { kind, encoding, level, slot_width, name, stream, position };
    header.encode(&mut unit);
    assert!(
        unit.len() <= super::PAGE_BYTES + PageHeader::LEN,
        "a page is stored as no more than it is"
    );
    unit
}

/// Decodes the exact bytes of a unit into the page that a tree asked for.
///
/// # Errors
/// What the bytes are instead.
pub fn decode_page(unit: &[u8], expected: Fault) -> Result<Page, PageError> {
    let (header, payload) = PageHeader::decode(unit)?;
    let name = match expected.ptr {
        PagePtr::Chunk(id) => id,
        _ => ChunkId::ZERO,
    };
    let shape = expected.shape;
    let (position, slot_width) = match shape {
        PageShape::Map { first_block, .. } => (first_block.0, 8),
        PageShape::Tree { .. } => (0, 0),
    };
    matches("name", name.get(), header.name.get())?;
    matches("kind", kind_of(shape) as u64, header.kind as u64)?;
    matches("level", u64::from(level_of(shape)), u64::from(header.level))?;
    matches("position", position, header.position)?;
    matches("slot width", slot_width, u64::from(header.slot_width))?;
    let page = match shape {
        PageShape::Map { level, first_block } => {
            Page::Map(map::decode(header.encoding, header.stream, level, first_block, payload)?)
        }
        PageShape::Tree { layout, level } => {
            matches("stream", 0, header.stream.get())?;
            Page::Tree(tree::decode(header.encoding, layout, level, payload)?)
        }
    };
    assert_eq!(page.shape(), shape);
    Ok(page)
}

fn matches(field: &'static str, expected: u64, found: u64) -> Result<(), PageError> {
    if expected == found { Ok(()) } else { Err(PageError::Misplaced { field, expected, found }) }
}

fn kind_of(shape: PageShape) -> PageKind {
    match shape {
        PageShape::Map { .. } => PageKind::Map,
        PageShape::Tree { layout: TreeLayout::Slotted, .. } => PageKind::Key,
        PageShape::Tree { layout: TreeLayout::Fixed { .. }, .. } => PageKind::Table,
    }
}

fn level_of(shape: PageShape) -> u8 {
    match shape {
        PageShape::Map { level, .. } | PageShape::Tree { level, .. } => level,
    }
}
