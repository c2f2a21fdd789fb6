//! Pages of maps, key trees and chunk tables, as the trees ask for them: what decodes is a page that encodes to one
//! that is equal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use varve_engine::tree::{
    Fault, Location, PagePtr, PageShape, TreeLayout, decode_page, encode_page,
};
use varve_fuzz::with_header_checksum;
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::page::{PageHeader, PageKind};
use varve_media::SegmentId;
use varve_stdx::checksum64;
use varve_types::{BlockIndex, Generation, SegmentNumber};

/// The page that a tree would have asked for to get this one, and its name when it is encoded.
fn fault_of(header: &PageHeader) -> Option<(Fault, PagePtr)> {
    let level = header.level;
    let chunk = PagePtr::Chunk(header.name);
    match header.kind {
        PageKind::Map => {
            let shape = PageShape::Map { level, first_block: BlockIndex(header.position) };
            Some((Fault { ptr: chunk, shape }, chunk))
        }
        PageKind::Key => {
            let shape = PageShape::Tree { layout: TreeLayout::Slotted, level };
            Some((Fault { ptr: chunk, shape }, chunk))
        }
        PageKind::Table => {
            let fit = |len: usize| u8::try_from(len).expect("entries are short");
            let (key_len, value_len) = (fit(ChunkEntry::KEY_LEN), fit(ChunkEntry::LEN));
            let layout = TreeLayout::Fixed { key_len, value_len };
            let segment = SegmentId { number: SegmentNumber(1), generation: Generation::new(1) };
            let place = Location { segment, offset_512: 8, stored_len: 512, checksum: 1 };
            let shape = PageShape::Tree { layout, level };
            Some((Fault { ptr: PagePtr::Location(place), shape }, PagePtr::Null))
        }
        PageKind::Usage | PageKind::Deaths | PageKind::Deltas => None,
    }
}

fn look(unit: &[u8]) {
    let Ok((header, _)) = PageHeader::decode(unit) else { return };
    let Some((fault, name)) = fault_of(&header) else { return };
    if let Ok(page) = decode_page(unit, fault) {
        assert_eq!(page.shape(), fault.shape);
        let again = encode_page(&page, name);
        assert_eq!(decode_page(&again, fault).expect("what was encoded decodes"), page);
    }
}

fuzz_target!(|bytes: &[u8]| {
    with_header_checksum(bytes, PageHeader::LEN, bytes.len(), checksum64, look);
});
