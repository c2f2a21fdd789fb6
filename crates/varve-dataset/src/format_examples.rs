//! The worked examples of what is stored of volumes, snapshots and buckets' streams,
//! `docs/format-examples/datasets.md`.

use varve_dispatch::{Route, StreamPlacement};
use varve_stdx::{ExamplesPage, Reader, Writer};
use varve_types::{
    Compression, Dedup, MigrationRunId, PoolId, Reduction, SnapshotIdentity, StreamId,
};

use crate::BucketOwner;
use crate::intent::{decode_part, encode_part};
use crate::name::SnapshotName;
use crate::record::VolumeRecord;
use crate::snapshot_record::SnapshotRecord;
use crate::volume_move::{Move, MoveState};

const PLACEMENT: StreamPlacement = StreamPlacement { seed: 42, generation: 1 };

fn moves() -> Move {
    Move {
        state: MoveState::Leaving,
        pool: PoolId([7; 16]),
        address: "unix:/x".to_owned(),
        run: MigrationRunId([1; 16]),
        remark: None,
        last: None,
    }
}

fn volume() -> VolumeRecord {
    VolumeRecord {
        route: Route { stream: StreamId::new(11), placement: PLACEMENT },
        size_bytes: 20 << 30,
        block_bytes: 4096,
        created_unix_ms: 1_790_000_000_000,
        reduction: Reduction { dedup: Dedup::On, compression: Compression::Zstd(3) },
        quota_bytes: Some(10 << 30),
        is_reserved: false,
        is_exclusive: true,
        origin: Some("base@gold".to_owned()),
        receiving: None,
        moves: None,
    }
}

fn snapshot() -> SnapshotRecord {
    SnapshotRecord {
        route: Route { stream: StreamId::new(12), placement: PLACEMENT },
        size_bytes: 20 << 30,
        block_bytes: 4096,
        created_unix_ms: 1_790_000_100_000,
        identity: SnapshotIdentity([0xA5; 16]),
        reduction: Reduction { dedup: Dedup::On, compression: Compression::Zstd(3) },
        protected: true,
    }
}

#[test]
fn the_page_shows_what_is_stored() {
    let (volume, snapshot, moves) = (volume(), snapshot(), moves());
    let (volume_bytes, snapshot_bytes) = (volume.encode(), snapshot.encode());
    assert_eq!(VolumeRecord::decode("vm1", &volume_bytes).unwrap(), volume);
    assert_eq!(SnapshotRecord::decode("vm1@a", &snapshot_bytes).unwrap(), snapshot);
    let mut move_bytes = vec![0; moves.len()];
    moves.encode(&mut Writer::new(&mut move_bytes));
    assert_eq!(Move::decode(&mut Reader::new("move", &move_bytes)).unwrap(), moves);
    let part = (SnapshotName::parse("vm1@a").unwrap(), snapshot);
    let part_bytes = encode_part(&part);
    let key = [&b"i"[..], &12_u64.to_be_bytes(), &0_u32.to_be_bytes()].concat();
    assert_eq!(decode_part(&key, &part_bytes).unwrap().unwrap(), part);
    let owner = BucketOwner { stream: StreamId::new(13), name: "photos".to_owned() };
    let owner_bytes = owner.value();
    assert_eq!(BucketOwner::decode(&13_u64.to_be_bytes(), &owner_bytes).unwrap(), owner);
    ExamplesPage::new("datasets", "volumes and snapshots", "varve-dataset")
        .example("Volume record", &volume_bytes)
        .example("Move", &move_bytes)
        .example("Snapshot record", &snapshot_bytes)
        .example("Part of an intent", &part_bytes)
        .example("Owner of a bucket's stream", &owner_bytes)
        .compare();
}
