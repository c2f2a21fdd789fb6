//! Round trip, truncation and bit flips of stored pages, and payloads whose checksum is right but whose content is not.

use proptest::prelude::*;
use varve_logstore::format::chunk::ChunkEntry;
use varve_logstore::format::page::PageHeader;
use varve_logstore::format::summary::Codec;
use varve_media::SegmentId;
use varve_types::{BlockIndex, ChunkId, Generation, SegmentNumber, ShardId, StreamId};

use crate::tree::map::{MAP_SLOTS, MapPage};
use crate::tree::{
    BODY_BYTES, Fault, Location, MapSlot, PAGE_BYTES, Page, PageError, PagePtr, TREE_KEY_BYTES_MAX,
    TreeLayout, TreePage, decode_page, encode_page, pointer,
};

const TABLE: TreeLayout = TreeLayout::Fixed { key_len: 6, value_len: 23 };
const NAME: PagePtr = PagePtr::Chunk(ChunkId::new(77));
const PLACE: PagePtr = PagePtr::Location(Location {
    segment: SegmentId { number: SegmentNumber(4), generation: Generation::new(9) },
    offset_512: 8,
    stored_len: 900,
    checksum: 0xABCD,
});

/// What a parent would ask for, and the name the page is encoded under.
fn fault_of(page: &Page) -> (Fault, PagePtr) {
    let by_location = matches!(page, Page::Tree(page) if page.tree_layout() == TABLE);
    let (ptr, name) = if by_location { (PLACE, PagePtr::Null) } else { (NAME, NAME) };
    (Fault { ptr, shape: page.shape() }, name)
}

fn map_page(level: u8, slots: &[MapSlot]) -> Page {
    let first_block = BlockIndex(3 * 512_u64.pow(u32::from(level) + 1));
    let mut page = MapPage::filled(StreamId::new(5), level, first_block, MapSlot::HOLE);
    for (index, slot) in slots.iter().enumerate() {
        page.set(index, *slot);
    }
    Page::Map(page)
}

fn tree_page(layout: TreeLayout, level: u8, entries: &[(Vec<u8>, Vec<u8>)]) -> Page {
    let mut page = TreePage::new(layout, level);
    for (key, value) in entries {
        if page.fits(key.len(), value.len()) {
            page.push(key, value);
        }
    }
    Page::Tree(page)
}

/// Pieces of a map page: holes, zeros, runs, scattered ids, of several shards.
fn slots(level: u8) -> impl Strategy<Value = Vec<MapSlot>> {
    let piece = (0..5_u8, 1..120_u64, 1..1_u64 << 47, 0..3_u16, any::<u64>()).prop_map(
        move |(kind, len, base, shard, seed)| {
            let name = |id: u64| match level {
                0 => MapSlot::data(ShardId(shard), ChunkId::new(id)),
                _ => MapSlot::page(ShardId(shard), ChunkId::new(id)),
            };
            let scattered = |i: u64| i.wrapping_mul(seed | 1) >> (17 + seed % 40);
            (0..len)
                .map(|i| match kind {
                    0 => MapSlot::HOLE,
                    1 => MapSlot::ZERO,
                    2 => name(base + i),
                    _ => name(base + scattered(i)),
                })
                .collect::<Vec<_>>()
        },
    );
    prop::collection::vec(piece, 1..20).prop_map(|pieces| {
        let mut slots = pieces.concat();
        slots.truncate(MAP_SLOTS);
        slots.push(MapSlot::ZERO); // Never only holes.
        slots.truncate(MAP_SLOTS);
        slots[0] = MapSlot::ZERO;
        slots
    })
}

fn table_entries(level: u8) -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    prop::collection::btree_map(0..1_u64 << 47, any::<u8>(), 1..134).prop_map(move |entries| {
        let value =
            |fill| if level == 0 { vec![fill; 23] } else { pointer::encode(PLACE).to_vec() };
        entries
            .into_iter()
            .map(|(id, fill)| (id.to_be_bytes()[2..].to_vec(), value(fill)))
            .collect()
    })
}

fn key_entries(level: u8) -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let key = prop::collection::vec(any::<u8>(), 0..TREE_KEY_BYTES_MAX);
    let value = prop::collection::vec(any::<u8>(), 0..20);
    prop::collection::btree_map(key, value, 1..60).prop_map(move |entries| {
        let value = |value| if level == 0 { value } else { pointer::encode(NAME).to_vec() };
        entries.into_iter().map(|(key, old)| (key, value(old))).collect()
    })
}

fn page() -> impl Strategy<Value = Page> {
    (0..3_u8).prop_flat_map(|level| {
        prop_oneof![
            slots(level).prop_map(move |slots| map_page(level, &slots)),
            table_entries(level).prop_map(move |entries| tree_page(TABLE, level, &entries)),
            key_entries(level).prop_map(move |e| tree_page(TreeLayout::Slotted, level, &e)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn pages_round_trip(page in page()) {
        let (fault, name) = fault_of(&page);
        let unit = encode_page(&page, name);
        prop_assert!(unit.len() <= PAGE_BYTES + PageHeader::LEN);
        prop_assert_eq!(decode_page(&unit, fault).unwrap(), page);
    }

    #[test]
    fn cut_or_flipped_pages_are_refused(page in page(), cut in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let (fault, name) = fault_of(&page);
        let mut unit = encode_page(&page, name);
        let at = cut.index(unit.len());
        prop_assert!(decode_page(&unit[..at], fault).is_err());
        unit[at] ^= 1 << bit;
        prop_assert!(decode_page(&unit, fault).is_err());
    }

    /// A payload that was damaged before the checksum was taken decodes to a page that encodes again, or to an error.
    #[test]
    fn any_payload_is_decoded_or_refused(
        page in page(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (fault, name) = fault_of(&page);
        let mut unit = encode_page(&page, name);
        let (header, _) = PageHeader::decode(&unit).unwrap();
        let payload = unit.len() - PageHeader::LEN;
        for (at, byte) in changes {
            unit[PageHeader::LEN + at.index(payload)] = byte;
        }
        if let Some(cut) = cut {
            unit.truncate(PageHeader::LEN + cut.index(payload));
        }
        header.encode(&mut unit);
        if let Ok(page) = decode_page(&unit, fault) {
            let again = encode_page(&page, name);
            prop_assert_eq!(decode_page(&again, fault).unwrap(), page);
        }
    }

    #[test]
    fn noise_is_decoded_or_refused(
        payload in prop::collection::vec(any::<u8>(), 0..400),
        encoding in 0..4_u8,
        page in page(),
    ) {
        let (fault, name) = fault_of(&page);
        let unit = encode_page(&page, name);
        let (mut header, _) = PageHeader::decode(&unit).unwrap();
        header.encoding = encoding;
        let mut unit = vec![0; PageHeader::LEN];
        unit.extend(payload);
        header.encode(&mut unit);
        if let Ok(page) = decode_page(&unit, fault) {
            prop_assert_eq!(page.shape(), fault.shape);
        }
    }
}

#[test]
fn a_page_of_another_name_shape_or_place_is_refused() {
    let page = map_page(1, &[MapSlot::ZERO]);
    let (fault, name) = fault_of(&page);
    let unit = encode_page(&page, name);
    let other_name = Fault { ptr: PagePtr::Chunk(ChunkId::new(78)), ..fault };
    let other_level = Fault { shape: map_page(0, &[MapSlot::ZERO]).shape(), ..fault };
    let other_kind = Fault { shape: tree_page(TreeLayout::Slotted, 1, &[]).shape(), ..fault };
    for fault in [other_name, other_level, other_kind] {
        assert!(matches!(decode_page(&unit, fault), Err(PageError::Misplaced { .. })), "{fault:?}");
    }
    let table = tree_page(TABLE, 0, &[(vec![0; 6], vec![0; 23])]);
    let (fault, name) = fault_of(&table);
    let wider = TreeLayout::Fixed { key_len: 6, value_len: 24 };
    let fault = Fault { shape: tree_page(wider, 0, &[]).shape(), ..fault };
    assert!(matches!(decode_page(&encode_page(&table, name), fault), Err(PageError::Payload(_))));
}

#[test]
fn wrong_contents_are_refused() {
    let entry = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    let small = |layout, level, entries: &[_]| tree_page(layout, level, entries);
    let chunk = pointer::encode(NAME);
    let place = pointer::encode(PLACE);
    let pages = [
        ("no slot", map_page(0, &[])),
        ("data above leaves", map_page(1, &[MapSlot::data(ShardId(0), ChunkId::new(1))])),
        ("a page in a leaf", map_page(0, &[MapSlot::page(ShardId(0), ChunkId::new(1))])),
        ("no entry", small(TreeLayout::Slotted, 0, &[])),
        ("keys out of order", small(TreeLayout::Slotted, 0, &[entry(b"b", b""), entry(b"a", b"")])),
        ("a key twice", small(TABLE, 0, &[entry(&[1; 6], &[0; 23]), entry(&[1; 6], &[0; 23])])),
        ("an entry over half a page", small(TreeLayout::Slotted, 0, &[entry(b"", &[0; 2100])])),
        ("no pointer", small(TreeLayout::Slotted, 1, &[entry(b"", &[9; 24])])),
        ("a null pointer", small(TreeLayout::Slotted, 1, &[entry(b"", &[0; 24])])),
        ("a location in the key tree", small(TreeLayout::Slotted, 1, &[entry(b"", &place)])),
        ("a chunk in the table", small(TABLE, 1, &[entry(&[0; 6], &chunk)])),
    ];
    for (what, page) in pages {
        let (fault, name) = fault_of(&page);
        let outcome = decode_page(&encode_page(&page, name), fault);
        assert!(matches!(outcome, Err(PageError::Payload(_))), "{what}: {outcome:?}");
    }
}

/// Found by fuzzing `tree_page`.
#[test]
fn a_run_at_the_end_of_all_numbers_is_refused() {
    let slots: Vec<MapSlot> =
        (1..513).map(|id| MapSlot::data(ShardId(0), ChunkId::new(id))).collect();
    let page = map_page(0, &slots);
    let (fault, name) = fault_of(&page);
    let mut unit = encode_page(&page, name);
    let (header, run) = PageHeader::decode(&unit).unwrap();
    assert_eq!(run.len(), 11, "a piece, a count and the first slot");
    unit[PageHeader::LEN + 1..PageHeader::LEN + 3].copy_from_slice(&1_u16.to_le_bytes());
    unit[PageHeader::LEN + 3..].fill(0xFF);
    header.encode(&mut unit);
    assert!(matches!(decode_page(&unit, fault), Err(PageError::Payload(_))));
}

#[test]
#[should_panic(expected = "in memory only")]
fn a_pointer_to_memory_is_not_stored() {
    let child = pointer::encode(PagePtr::Memory(5)).to_vec();
    let page = tree_page(TABLE, 1, &[(vec![0; 6], child)]);
    let _ = encode_page(&page, PagePtr::Null);
}

#[test]
fn sequential_maps_and_short_trees_are_small() {
    let data = |id| MapSlot::data(ShardId(3), ChunkId::new(id));
    let bytes = |page: &Page| encode_page(page, fault_of(page).1).len() - PageHeader::LEN;
    let sequential: Vec<MapSlot> = (1000..1512).map(data).collect();
    assert_eq!(bytes(&map_page(0, &sequential)), 11);
    // Ids of one day's writes in any order: three bytes each.
    let scattered: Vec<MapSlot> = (0..512_u64).map(|i| data(5 + i * 7919 % 9_999_991)).collect();
    assert_eq!(bytes(&map_page(0, &scattered)), 12 + 3 * 512);
    // Every slot of another shard than the one before: as words.
    let mixed: Vec<MapSlot> =
        (0..512_u16).map(|i| MapSlot::data(ShardId(i), ChunkId::new(1))).collect();
    assert_eq!(bytes(&map_page(0, &mixed)), 4096);
    let table = tree_page(TABLE, 0, &[(vec![1; 6], vec![2; 23])]);
    assert_eq!(bytes(&table), 4 + 29);
    const { assert!(BODY_BYTES + 4 + PageHeader::LEN <= PAGE_BYTES) };
}

/// What was written to two segments: ids, offsets and checksums differ in two, two and four bytes, and slots and
/// generations in one each.
#[test]
fn leaves_of_the_table_are_stored_as_columns() {
    let entry = |index: u16| {
        let segment = u32::from(index % 2);
        let place = ChunkEntry {
            segment: SegmentId {
                number: SegmentNumber(70_000 + segment),
                generation: Generation::new(900_000 + u64::from(segment)),
            },
            offset_512: 8 * index,
            stored_len: 4096,
            codec: Codec::Raw,
            shared: false,
            logical_512: 8,
            checksum: u32::from(index).wrapping_mul(0x9E37_79B9),
        };
        let mut value = vec![0; ChunkEntry::LEN];
        place.encode(&mut value);
        (ChunkEntry::key(ChunkId::new(1_000_000 + 3 * u64::from(index))).to_vec(), value)
    };
    let entries: Vec<_> = (0..130).map(entry).collect();
    let page = tree_page(TABLE, 0, &entries);
    let (fault, name) = fault_of(&page);
    let unit = encode_page(&page, name);
    let equal = 29 - (2 + 2 + 4 + 1 + 1);
    assert_eq!(unit.len() - PageHeader::LEN, 4 + 4 + equal + 130 * (29 - equal));
    assert_eq!(decode_page(&unit, fault).unwrap(), page);
    // A bit of a byte that no entry has.
    let (header, _) = PageHeader::decode(&unit).unwrap();
    let mut wrong = unit;
    wrong[PageHeader::LEN + 4 + 3] |= 0x80;
    header.encode(&mut wrong);
    assert!(matches!(decode_page(&wrong, fault), Err(PageError::Payload("columns"))));
}
