//! The payload of B+tree pages: their entries and nothing between them.
//!
//! ```text
//!  fixed     key_len 1 | value_len 1 | count 2 | (key | value) × count
//!  columns   key_len 1 | value_len 1 | count 2 | bit map of the bytes of an entry
//!            | for each: 1 byte if its bit is set, else one × count
//!  slotted   count 2 | (key_len 2 | value_len 2 | key | value) × count
//! ```
//! Entries of the chunk table that stand together were written together: most of their bytes are equal, and stand once
//! in columns.

use varve_logstore::format::pointer::PagePtr;
use varve_stdx::Reader;

use crate::tree::{
    BODY_BYTES, TREE_ENTRY_BYTES_MAX, TREE_HEIGHT_MAX, TREE_KEY_BYTES_MAX, TreeLayout, TreePage,
    pointer,
};

use super::{PageError, TREE_COLUMNS, TREE_FIXED, TREE_SLOTTED};

/// Appends the payload; returns its encoding.
pub(super) fn encode(page: &TreePage, out: &mut Vec<u8>) -> u8 {
    if page.level() > 0 {
        let placed = (0..page.len()).all(|index| !pointer::is_memory(page.value(index)));
        assert!(placed, "a page that is in memory only is pointed to");
    }
    let count = u16::try_from(page.len()).expect("a page has fewer entries than bytes");
    if let TreeLayout::Fixed { key_len, .. } = page.tree_layout() {
        let value_len =
            u8::try_from(page.value(0).len()).expect("entries of a fixed layout are short");
        out.extend_from_slice(&[key_len, value_len]);
        out.extend_from_slice(&count.to_le_bytes());
        let (packed, start) = (page.packed().expect("the layout is fixed"), out.len());
        debug_assert_eq!(packed.len(), page.used_bytes(), "entries and nothing between them");
        put_columns(packed, usize::from(key_len) + usize::from(value_len), out);
        if out.len() - start < packed.len() {
            return TREE_COLUMNS;
        }
        out.truncate(start);
        out.extend_from_slice(packed);
        return TREE_FIXED;
    }
    out.extend_from_slice(&count.to_le_bytes());
    for index in 0..page.len() {
        let (key, value) = (page.key(index), page.value(index));
        for part in [key, value] {
            let len = u16::try_from(part.len()).expect("parts of a page are short");
            out.extend_from_slice(&len.to_le_bytes());
        }
        out.extend_from_slice(key);
        out.extend_from_slice(value);
    }
    TREE_SLOTTED
}

/// Appends packed entries byte by byte of an entry, and once what is equal in all of them.
fn put_columns(packed: &[u8], stride: usize, out: &mut Vec<u8>) {
    assert!(stride > 0 && packed.len().is_multiple_of(stride), "entries are whole");
    let map = out.len();
    out.resize(map + stride.div_ceil(8), 0);
    for (column, first) in packed[..stride].iter().enumerate() {
        let bytes = || packed[column..].iter().step_by(stride);
        if bytes().all(|byte| byte == first) {
            out[map + column / 8] |= 1 << (column % 8);
            out.push(*first);
        } else {
            out.extend(bytes());
        }
    }
}

/// Reads what [`put_columns`] left of `count` entries.
fn read_columns(
    reader: &mut Reader<'_>,
    count: usize,
    stride: usize,
) -> Result<Vec<u8>, PageError> {
    if count * stride > BODY_BYTES {
        return Err(PageError::Payload("lengths"));
    }
    let map = reader.bytes(stride.div_ceil(8))?;
    let is_equal =
        |column: usize| map.get(column / 8).is_some_and(|bits| bits >> (column % 8) & 1 == 1);
    if (stride..map.len() * 8).any(is_equal) {
        return Err(PageError::Payload("columns"));
    }
    let mut packed = vec![0; count * stride];
    for column in 0..stride {
        let bytes = reader.bytes(if is_equal(column) { 1 } else { count })?;
        let of_entries = packed.iter_mut().skip(column).step_by(stride);
        of_entries.zip(bytes.iter().cycle()).for_each(|(to, byte)| *to = *byte);
    }
    Ok(packed)
}

/// Reads a payload.
pub(super) fn decode(
    encoding: u8,
    layout: TreeLayout,
    level: u8,
    payload: &[u8],
) -> Result<TreePage, PageError> {
    if usize::from(level) >= TREE_HEIGHT_MAX {
        return Err(PageError::Payload("level"));
    }
    let page = match (encoding, layout) {
        (TREE_FIXED | TREE_COLUMNS, TreeLayout::Fixed { key_len, value_len }) => {
            let value_len = if level == 0 { usize::from(value_len) } else { PagePtr::LEN };
            let mut reader = Reader::new("payload of a tree page", payload);
            let lens = (reader.u8()?, usize::from(reader.u8()?));
            let count = usize::from(reader.u16()?);
            let stride = usize::from(key_len) + value_len;
            if lens != (key_len, value_len) {
                return Err(PageError::Payload("lengths"));
            }
            let page = if encoding == TREE_COLUMNS {
                let packed = read_columns(&mut reader, count, stride)?;
                TreePage::from_packed(layout, level, &packed).filter(|_| reader.rest().is_empty())
            } else {
                let packed = reader.rest();
                let is_whole = count * stride == packed.len();
                TreePage::from_packed(layout, level, packed).filter(|_| is_whole)
            };
            page.ok_or(PageError::Payload("lengths"))?
        }
        (TREE_SLOTTED, TreeLayout::Slotted) => decode_slotted(layout, level, payload)?,
        _ => return Err(PageError::Payload("encoding")),
    };
    check(&page)?;
    Ok(page)
}

fn decode_slotted(layout: TreeLayout, level: u8, payload: &[u8]) -> Result<TreePage, PageError> {
    let mut page = TreePage::new(layout, level);
    let mut reader = Reader::new("payload of a tree page", payload);
    for _ in 0..reader.u16()? {
        let (key_len, value_len) = (usize::from(reader.u16()?), usize::from(reader.u16()?));
        let (key, value) = (reader.bytes(key_len)?, reader.bytes(value_len)?);
        let too_large = key_len > TREE_KEY_BYTES_MAX
            || page.entry_bytes(key_len, value_len) > TREE_ENTRY_BYTES_MAX
            || !page.fits(key_len, value_len);
        if too_large {
            return Err(PageError::Payload("entry"));
        }
        page.push(key, value);
    }
    if !reader.rest().is_empty() {
        return Err(PageError::Payload("length"));
    }
    Ok(page)
}

/// What a tree relies on: entries, in order, and pointers above leaves.
fn check(page: &TreePage) -> Result<(), PageError> {
    if page.is_empty() {
        return Err(PageError::Payload("count of entries"));
    }
    // Above leaves nobody looks at the first key.
    let first = if page.level() == 0 { 1 } else { 2 };
    if (first..page.len()).any(|index| page.key(index - 1) >= page.key(index)) {
        return Err(PageError::Payload("order of keys"));
    }
    let by_location = matches!(page.tree_layout(), TreeLayout::Fixed { .. });
    let is_child = |value: &[u8]| {
        value.len() == PagePtr::LEN
            && match PagePtr::decode(value) {
                Ok(PagePtr::Location(_)) => by_location,
                Ok(PagePtr::Chunk(_)) => !by_location,
                _ => false,
            }
    };
    if page.level() > 0 && !(0..page.len()).all(|index| is_child(page.value(index))) {
        return Err(PageError::Payload("page pointer"));
    }
    Ok(())
}
