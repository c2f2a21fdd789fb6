//! The worked examples of a drive's own structures, `docs/format-examples/drives.md`.

use varve_stdx::ExamplesPage;
use varve_types::PoolId;

use super::superblock::RedundantDrive;
use super::{
    REDUNDANT, RootSlot, Shape, Superblock, decode_making, decode_root, decode_superblock,
    encode_making, encode_root, encode_superblock,
};

const POOL: PoolId = PoolId(*b"\x01\x23\x45\x67\x89\xab\xcd\xef\xfe\xdc\xba\x98\x76\x54\x32\x10");

fn superblock() -> Superblock {
    Superblock {
        compat: 0,
        ro_compat: 0,
        incompat: 0,
        revision: 3,
        pool: POOL,
        created_unix_ms: 1_790_000_000_000,
        drive_index: 1,
        drive_count: 2,
        lanes_of_pool: 8,
        lane_bytes: 256 << 20,
        segment_bytes: 4 << 20,
        segment_count: 1000,
        root_bytes_max: 65_536,
        shape: Shape::OneDisk,
        redundant: None,
    }
}

fn redundant_superblock() -> Superblock {
    Superblock {
        incompat: REDUNDANT,
        drive_index: 9,
        drive_count: 0,
        segment_count: 0,
        redundant: Some(RedundantDrive {
            drive_id: [0xD1; 16],
            tables_offset: 6 << 20,
            roots_offset: 4 << 20,
            space_offset: 16 << 20,
            units: 100_000,
            layout_pages: 1024,
        }),
        ..superblock()
    }
}

#[test]
fn the_page_shows_what_is_stored() {
    let (one, other) = (superblock(), redundant_superblock());
    let (one_bytes, other_bytes) = (encode_superblock(&one), encode_superblock(&other));
    assert_eq!(decode_superblock(&one_bytes), Ok(one));
    assert_eq!(decode_superblock(&other_bytes), Ok(other));
    let mark = encode_making(POOL);
    assert_eq!(decode_making(&mark), Some(POOL));
    let root = encode_root(RootSlot { pool: POOL, root: 4, version: 17 }, b"bytes of the root");
    assert_eq!(decode_root(POOL, 4, &root), Ok((17, &b"bytes of the root"[..])));
    ExamplesPage::new("drives", "drives", "varve-media")
        .example("Superblock", &one_bytes)
        .example("Superblock of a redundant drive", &other_bytes)
        .example("Mark of a pool that is being created", &mark)
        .example("Root slot", &root)
        .compare();
}
