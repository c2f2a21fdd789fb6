//! Volumes with reservations over real shards, which others fill.

use futures_util::future::{Either, join, select};
use varve_dispatch::{ReservationChange, Route, StreamPlacement};
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, Dedup, ErrorKind, StreamId};

use crate::rig::{Life, MIB, Rig, VOLUME_BYTES, volume_spec};
use crate::{Error, Result, Volume, VolumeInfo, VolumeSpec};

const BLOCK: u64 = 4096;
const PIECE: u64 = 64 << 10;
const RESERVED_BYTES: u64 = 12 * MIB;
const SECOND_NS: u64 = 1_000_000_000;

async fn create(life: &Life, name: &str, size_bytes: u64) -> Result<VolumeInfo> {
    let spec =
        VolumeSpec { size_bytes, dedup: Some(Dedup::On), reserved: true, ..volume_spec(name) };
    life.datasets().create_volume(spec).await
}

async fn write(volume: &Volume, offset: u64, len: u64, rng: &mut Rng) -> Result<()> {
    let mut data = AlignedBuf::zeroed(usize::try_from(len).unwrap());
    rng.fill(&mut data);
    volume.write(ByteOffset(offset), data.freeze()).await
}

/// Writes to every region of a volume until nothing more fits anywhere.
async fn fill(life: &Life, name: &str, seed: u64) {
    let volume = life.datasets().open(name).await.unwrap();
    let mut rng = Rng::new(seed);
    for len in [PIECE, BLOCK] {
        let mut refusals = 0;
        while refusals < 40 {
            let offset = rng.below(VOLUME_BYTES / PIECE) * PIECE;
            match write(&volume, offset, len, &mut rng).await {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NoSpace => refusals += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

async fn write_all(life: &Life, name: &str, seed: u64) {
    let volume = life.datasets().open(name).await.unwrap();
    let mut rng = Rng::new(seed);
    let mut at = 0;
    while at < volume.size_bytes() {
        let len = if rng.below(2) == 0 { BLOCK } else { PIECE * 4 }.min(volume.size_bytes() - at);
        write(&volume, at, len, &mut rng).await.unwrap();
        at += len;
    }
}

/// What is reserved for a volume, and what of it is not held.
async fn reserved(life: &Life, name: &str) -> (u64, u64) {
    let datasets = life.datasets();
    let dispatch = datasets.dispatch();
    for shard in dispatch.placement().shards() {
        let applied = dispatch
            .on_shard(shard, |shard| Box::pin(async move { shard.apply_acknowledged().await }));
        applied.await.unwrap();
    }
    let id = datasets.volume(name).await.unwrap().id;
    let all = datasets.reservations().await.unwrap();
    all.get(&id).map_or((0, 0), |it| (it.reserved_bytes, it.outstanding_bytes))
}

fn keep_marking(life: &Life) {
    let datasets = life.datasets().clone();
    let reactor = datasets.dispatch().reactor().clone();
    reactor.spawn(async move { datasets.keep_marking().await });
}

#[test]
fn others_fill_the_pool_and_the_volume_is_written_all_the_same() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        keep_marking(&life);
        create(&life, "r", RESERVED_BYTES).await.unwrap();
        life.create("other").await;
        fill(&life, "other", 1).await;
        assert_eq!(reserved(&life, "r").await, (RESERVED_BYTES, RESERVED_BYTES));
        write_all(&life, "r", 2).await;
        assert_eq!(reserved(&life, "r").await, (RESERVED_BYTES, 0));
        let refused = life.datasets().create_snapshots(&["r@s".to_owned()]).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoSpace);
        assert!(refused.to_string().contains("cannot reserve"), "{refused}");
        let refused = life.datasets().clone_volume("r", "copy").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NoSpace);
        write_all(&life, "r", 3).await;
    });
    rig.live(async |life: Life| {
        keep_marking(&life);
        fill(&life, "other", 4).await;
        write_all(&life, "r", 5).await;
        life.datasets().delete_volume("other", false).await.unwrap();
        life.snapshot("r@s").await; // Waits for the mark pass.
        assert_eq!(reserved(&life, "r").await, (RESERVED_BYTES, RESERVED_BYTES));
        life.create("other").await;
        fill(&life, "other", 6).await;
    });
    rig.live(async |life: Life| {
        keep_marking(&life);
        fill(&life, "other", 7).await;
        write_all(&life, "r", 8).await;
        assert_eq!(reserved(&life, "r").await, (RESERVED_BYTES, 0));
    });
}

#[test]
fn volumes_made_at_once_do_not_share_what_is_promised() {
    Rig::new().live(async |life: Life| {
        // One would fit: but not both, on one shard or on two, which may also keep each other from growing.
        let (a, b) = join(create(&life, "a", 60 * MIB), create(&life, "b", 60 * MIB)).await;
        let made: Vec<u64> = [&a, &b].into_iter().flatten().map(|made| made.id).collect();
        assert!(made.len() < 2, "{made:?}");
        for refused in [a, b].into_iter().filter_map(Result::err) {
            assert_eq!(refused.kind(), ErrorKind::NoSpace, "{refused}");
        }
        let all = life.datasets().reservations().await.unwrap();
        assert_eq!(
            all.keys().copied().collect::<Vec<_>>(),
            made,
            "nothing is left of a refused one"
        );
        assert_eq!(life.datasets().volumes().await.unwrap().len(), made.len());
    });
}

#[test]
fn more_than_there_is_is_refused_while_zones_go_round() {
    Rig::new().live(async |life: Life| {
        let reactor = life.datasets().dispatch().reactor().clone();
        let zones = life.datasets().clone();
        reactor.spawn(async move { zones.keep_zones().await });
        keep_marking(&life);
        reactor.sleep(SECOND_NS).await; // The shards know that somebody goes round.
        let began = reactor.now();
        let mut patience = Box::pin(reactor.sleep(60 * SECOND_NS));
        for _ in 0..3 {
            let huge = Box::pin(create(&life, "huge", 1 << 40));
            let Either::Left((refused, _)) = select(huge, patience.as_mut()).await else {
                panic!("no answer within a minute");
            };
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoSpace);
        }
        assert!(reactor.now().0 - began.0 < 15 * SECOND_NS, "{:?} since {began:?}", reactor.now());
        assert!(life.datasets().reservations().await.unwrap().is_empty());
    });
}

#[test]
fn the_promise_goes_where_the_volume_goes() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        keep_marking(&life);
        let datasets = life.datasets();
        create(&life, "r", 8 * MIB).await.unwrap();
        write_all(&life, "r", 1).await;
        life.snapshot("r@s").await;
        datasets.resize_volume("r", 9 * MIB).await.unwrap();
        assert!(matches!(create(&life, "r", MIB).await, Err(Error::Exists { .. })));
        assert_eq!(datasets.reservations().await.unwrap().len(), 1, "one is made, not two");
        assert_eq!(reserved(&life, "r").await.0, 9 * MIB);
        let grown = datasets.resize_volume("r", 1 << 40).await.unwrap_err();
        assert_eq!(grown.kind(), ErrorKind::NoSpace);
        let volume = datasets.volume("r").await.unwrap();
        assert_eq!((volume.size_bytes, volume.reserved_bytes), (9 * MIB, Some(9 * MIB)));
        assert_eq!(reserved(&life, "r").await.0, 9 * MIB);
        datasets.resize_volume("r", 6 * MIB).await.unwrap();
        assert_eq!(reserved(&life, "r").await.0, 6 * MIB);

        let copy = datasets.clone_volume("r@s", "copy").await.unwrap();
        assert_eq!(copy.reserved_bytes, None);
        assert_eq!(reserved(&life, "copy").await, (0, 0));

        write_all(&life, "r", 2).await;
        let rolled = datasets.rollback("r@s").await.unwrap();
        assert_eq!(rolled.reserved_bytes, Some(8 * MIB));
        assert_eq!(reserved(&life, "r").await, (8 * MIB, 8 * MIB));
        assert_eq!(datasets.reservations().await.unwrap().len(), 1, "the old stream has none");
        write_all(&life, "r", 3).await;
        assert_eq!(reserved(&life, "r").await, (8 * MIB, 0));
    });
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        assert_eq!(datasets.volume("r").await.unwrap().reserved_bytes, Some(8 * MIB));
        datasets.set_reservation("r", false).await.unwrap();
        assert_eq!(datasets.volume("r").await.unwrap().reserved_bytes, None);
        assert!(datasets.reservations().await.unwrap().is_empty());
        datasets.set_reservation("r", true).await.unwrap();
        assert_eq!(reserved(&life, "r").await, (8 * MIB, 8 * MIB), "what was there does not count");
        assert_eq!(datasets.figures().await.unwrap().reserved_bytes, 8 * MIB);
        let space = datasets.space().await.unwrap();
        assert!(space.reserved_bytes > 8 * MIB && space.outstanding_bytes == space.reserved_bytes);
        datasets.delete_volume("r", true).await.unwrap();
        assert!(datasets.reservations().await.unwrap().is_empty(), "it went with the volume");
    });
    rig.live(async |life: Life| assert!(life.datasets().reservations().await.unwrap().is_empty()));
}

#[test]
fn a_start_takes_back_what_no_record_names() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        create(&life, "r", 4 * MIB).await.unwrap();
        let id = life.datasets().volume("r").await.unwrap().id;
        let dispatch = life.datasets().dispatch();
        let placement = StreamPlacement { seed: 1, generation: 0 };
        let stray = Route { stream: StreamId::new(id + 500), placement };
        let change =
            |size_bytes| ReservationChange { before_bytes: None, size_bytes, is_fresh: true };
        dispatch.reserve(stray, change(4 * MIB)).await.unwrap();
        assert_eq!(life.datasets().reservations().await.unwrap().len(), 2);
    });
    rig.live(async |life: Life| {
        let all = life.datasets().reservations().await.unwrap();
        let id = life.datasets().volume("r").await.unwrap().id;
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), [id]);
    });
}
