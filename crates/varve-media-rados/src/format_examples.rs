//! The worked examples of what a pool on RADOS has in objects of its own, `docs/format-examples/rados.md`.

use varve_media::RootVersion;
use varve_stdx::ExamplesPage;
use varve_types::{CellId, PoolId};

use crate::layout::{decode_record, encode_record};
use crate::{CellOf, JournalPlace, RadosSpec, roots};

#[test]
fn the_page_shows_what_is_stored() {
    let root = roots::encode_root(17, b"bytes of the root");
    let decoded = roots::decode_root(&root);
    assert_eq!(decoded, Some((RootVersion(17), b"bytes of the root".to_vec())));
    let spec = RadosSpec {
        pool: PoolId([7; 16]),
        cell: CellOf { cell: CellId(1), cells: 4 },
        created_unix_ms: 1_790_000_000_000,
        segment_bytes: 4 << 20,
        segment_count: 100_000,
        lane_bytes: 256 << 20,
        lane_count: 8,
        root_bytes_max: 65_536,
        journal: JournalPlace::Rados,
    };
    let record = encode_record(&spec);
    assert_eq!(decode_record("varve.pool", &record).unwrap(), spec);
    ExamplesPage::new("rados", "pools on RADOS", "varve-media-rados")
        .example("Root on RADOS", &root)
        .example("Record of a pool on RADOS", &record)
        .compare();
}
