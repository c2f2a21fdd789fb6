//! Volumes that leave and arrive, over real shards: what is refused, what outlives a crash, and that no write slips through.

use std::cell::Cell;
use std::rc::Rc;

use varve_stdx::AlignedBuf;
use varve_types::ErrorKind;

use super::{Move, MoveState};
use crate::open::{Gate, Opening};
use crate::rig::{Life, MIB, Rig};
use crate::{CatalogueEntry, CatalogueItem, Datasets, Error, ReceiveSpec, SnapshotIdentity};

fn kind<T>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.err().expect("refused").kind()
}

fn state(state: MoveState) -> Option<Move> {
    Some(Move { state, peer: "another pool".to_owned() })
}

fn leaving() -> Option<Move> {
    state(MoveState::Leaving)
}

fn block(value: u8) -> varve_stdx::BufSlice {
    AlignedBuf::from_slice(&[value; 4096]).freeze()
}

/// Everything that would change a volume, but deleting it.
async fn assert_unchangeable(datasets: &Datasets, name: &str) {
    let fenced = ErrorKind::Fenced;
    assert_eq!(kind(datasets.resize_volume(name, MIB).await), fenced);
    assert_eq!(kind(datasets.set_reduction(name, Some(true), None).await), fenced);
    assert_eq!(kind(datasets.set_quota(name, Some(MIB)).await), fenced);
    assert_eq!(kind(datasets.set_reservation(name, true).await), fenced);
    assert_eq!(kind(datasets.rollback(&format!("{name}@s")).await), fenced);
}

#[test]
fn a_volume_that_leaves_is_read_and_not_changed_also_after_a_crash() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        life.fill("v", 1).await;
        life.snapshot("v@s").await;
        let open = datasets.open("v").await.unwrap();
        let there = life.threads[1].open("v").await.unwrap();
        let left = datasets.move_volume("v", None, state(MoveState::Left)).await;
        assert_eq!(kind(left), ErrorKind::Invalid, "it has to be leaving first");
        let info = datasets.move_volume("v", None, leaving()).await.unwrap();
        assert_eq!(info.moves, leaving());
        for volume in [open, there] {
            assert_eq!(kind(volume.write(0, block(9)).await), ErrorKind::Fenced);
            assert_eq!(kind(volume.trim(0, 4096).await), ErrorKind::Fenced);
            assert_eq!(kind(volume.write_zeroes(0, 4096, false).await), ErrorKind::Fenced);
        }
        assert_unchangeable(datasets, "v").await;
        assert_eq!(life.values("v").await, [1; 4]);
        life.snapshot("v@last").await;
    });
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        let volume = datasets.open("v").await.unwrap();
        assert_eq!(kind(volume.write(0, block(9)).await), ErrorKind::Fenced, "it is durable");
        assert_unchangeable(datasets, "v").await;
        assert_eq!(life.values("v").await, [1; 4]);
        let other = Some(Move { state: MoveState::Leaving, peer: "somebody else".to_owned() });
        let refused = datasets.move_volume("v", other.clone(), None).await;
        assert_eq!(kind(refused), ErrorKind::Conflict, "another moves it");
        datasets.move_volume("v", leaving(), other.clone()).await.unwrap();
        datasets.move_volume("v", other, None).await.unwrap();
        volume.write(0, block(9)).await.unwrap();
    });
    rig.live(async |life: Life| {
        life.fill("v", 3).await;
        assert_eq!(life.values("v").await, [3; 4]);
        life.datasets().clone_volume("v", "copy").await.unwrap();
    });
}

#[test]
fn a_volume_that_left_is_not_even_read_but_its_snapshots_are() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        life.fill("v", 1).await;
        let volume = datasets.open("v").await.unwrap();
        datasets.move_volume("v", None, leaving()).await.unwrap();
        life.snapshot("v@last").await;
        datasets.clone_volume("v", "copy").await.unwrap();
        datasets.move_volume("v", leaving(), state(MoveState::Left)).await.unwrap();
        assert_eq!(kind(volume.read(0, 4096).await), ErrorKind::Fenced);
        assert_eq!(kind(volume.write(0, block(2)).await), ErrorKind::Fenced);
        assert_eq!(kind(datasets.open("v").await), ErrorKind::Fenced);
        let back = datasets.move_volume("v", state(MoveState::Left), None).await;
        assert_eq!(kind(back), ErrorKind::Invalid);
        assert_eq!(life.values("v@last").await, [1; 4]);
        life.fill("copy", 2).await;
        drop(volume);
        datasets.delete_volume("v", true).await.unwrap();
    });
}

/// Writes as fast as they are answered while the volume is told to leave. What was acknowledged is in the snapshot that is taken
/// afterwards, and nothing that is younger was acknowledged.
#[test]
fn no_write_is_acknowledged_that_the_last_snapshot_lacks() {
    for pause_us in [0, 7, 20, 51, 102, 233, 1404] {
        Rig::new().live(async move |life: Life| {
            let datasets = life.datasets().clone();
            life.create("v").await;
            let acknowledged = Rc::new([const { Cell::new(0u8) }; 8]);
            let reactor = datasets.dispatch().reactor().clone();
            let mut writers = Vec::new();
            for at in 0..8u8 {
                let thread = life.threads[usize::from(at) % 2].clone();
                let acknowledged = Rc::clone(&acknowledged);
                writers.push(reactor.spawn_join(async move {
                    let volume = thread.open("v").await.unwrap();
                    for value in (1..=u8::MAX).cycle() {
                        match volume.write(u64::from(at) * 32 * MIB, block(value)).await {
                            Ok(()) => acknowledged[usize::from(at)].set(value),
                            Err(error) => return error.kind(),
                        }
                    }
                    unreachable!("it writes for ever");
                }));
            }
            reactor.sleep(2_000_000 + pause_us * 1000).await;
            datasets.move_volume("v", None, leaving()).await.unwrap();
            life.snapshot("v@last").await;
            for writer in writers {
                assert_eq!(writer.await, ErrorKind::Fenced);
            }
            let last = datasets.open("v@last").await.unwrap();
            for (at, acknowledged) in (0..).zip(acknowledged.iter()) {
                let found = crate::rig::first_byte(&last, at * 32 * MIB).await;
                assert_eq!(found, acknowledged.get(), "writer {at}");
            }
        });
    }
}

#[test]
fn a_volume_that_arrives_is_for_who_fills_it() {
    let identity = SnapshotIdentity([5; 16]);
    let spec = move |from| ReceiveSpec {
        name: "v".to_owned(),
        identity,
        from,
        size_bytes: 256 * MIB,
        block_size_bytes: 4096,
        arriving_from: Some("another pool".to_owned()),
    };
    let mut rig = Rig::new();
    rig.live(async move |life: Life| {
        let datasets = life.datasets();
        let made = datasets.begin_receive(spec(None)).await.unwrap();
        assert_eq!((made.receiving, made.moves), (Some(identity), state(MoveState::Arriving)));
        assert_eq!(kind(datasets.open("v").await), ErrorKind::Fenced);
        let filling = datasets.open_arriving("v").await.unwrap();
        assert_eq!(kind(datasets.open_arriving("v").await), ErrorKind::Conflict, "one fills it");
        filling.write(0, block(7)).await.unwrap();
        let arrived = datasets.move_volume("v", state(MoveState::Arriving), None).await;
        assert_eq!(kind(arrived), ErrorKind::Conflict, "it is being filled");
        datasets.end_receive("v", identity, "s").await.unwrap();
    });
    rig.live(async move |life: Life| {
        let datasets = life.datasets();
        assert_eq!(kind(datasets.open("v").await), ErrorKind::Fenced, "it outlives a crash");
        datasets.open_arriving("v").await.unwrap().write(4096, block(8)).await.unwrap();
        let back = datasets.rollback("v@s").await.unwrap();
        assert_eq!(back.moves, state(MoveState::Arriving), "it still arrives");
        datasets.set_quota("v", Some(64 * MIB)).await.unwrap();
        datasets.move_volume("v", state(MoveState::Arriving), None).await.unwrap();
        assert_eq!(kind(datasets.open_arriving("v").await), ErrorKind::Conflict);
        assert_eq!(life.values("v").await, [7, 0, 0, 0]);
        life.fill("v", 1).await;
        let refused = datasets.begin_receive(spec(Some(identity))).await;
        assert_eq!(kind(refused), ErrorKind::Conflict, "it was changed");
    });
}

#[test]
fn a_volume_that_is_given_up_does_not_arrive() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        let identity = SnapshotIdentity([5; 16]);
        let spec = ReceiveSpec {
            name: "v".to_owned(),
            identity,
            from: None,
            size_bytes: MIB,
            block_size_bytes: 4096,
            arriving_from: Some("another pool".to_owned()),
        };
        datasets.begin_receive(spec).await.unwrap();
        let (arriving, left) = (state(MoveState::Arriving), state(MoveState::Left));
        datasets.move_volume("v", arriving.clone(), left).await.unwrap();
        assert_eq!(kind(datasets.move_volume("v", arriving, None).await), ErrorKind::Conflict);
        assert_eq!(kind(datasets.open_arriving("v").await), ErrorKind::Conflict);
        datasets.delete_volume("v", true).await.unwrap();
    });
}

#[test]
fn steps_that_there_are_not_are_refused() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        let arriving = state(MoveState::Arriving);
        for (before, after) in [
            (None, None),
            (None, arriving.clone()),
            (leaving(), arriving),
            (state(MoveState::Left), leaving()),
        ] {
            let refused = datasets.move_volume("v", before.clone(), after.clone()).await;
            assert_eq!(kind(refused), ErrorKind::Invalid, "{before:?} to {after:?}");
        }
        let long = Some(Move { state: MoveState::Leaving, peer: "x".repeat(513) });
        assert_eq!(kind(datasets.move_volume("v", None, long).await), ErrorKind::Invalid);
        assert_eq!(kind(datasets.move_volume("w", None, leaving()).await), ErrorKind::NotFound);
    });
}

#[test]
fn the_fence_waits_for_writes_under_way_and_gives_up_on_those_that_do_not_end() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets().clone();
        let reactor = datasets.dispatch().reactor().clone();
        life.create("v").await;
        let volume = datasets.open("v").await.unwrap();
        let stream = varve_types::StreamId::new(volume.info().id);
        let opening = Opening {
            size_bytes: 0,
            reduction: varve_types::Reduction::OFF,
            quota_bytes: None,
            gate: Gate::Open,
        };
        let open = datasets.shared.open.open(stream, opening);
        for ends in [true, false] {
            let under_way = open.begin_change().ok().unwrap();
            let answered = Rc::new(Cell::new(false));
            let (other, seen) = (datasets.clone(), Rc::clone(&answered));
            let fence = reactor.spawn_join(async move {
                let outcome = other.move_volume("v", None, leaving()).await;
                seen.set(true);
                outcome
            });
            reactor.sleep(1_000_000_000).await;
            assert!(!answered.get(), "a write is under way");
            assert_eq!(kind(volume.write(0, block(1)).await), ErrorKind::Fenced, "no other begins");
            if ends {
                drop(under_way);
                fence.await.unwrap();
                datasets.move_volume("v", leaving(), None).await.unwrap();
            } else {
                assert_eq!(kind(fence.await), ErrorKind::Unavailable);
                assert_eq!(datasets.volume("v").await.unwrap().moves, None);
            }
            volume.write(0, block(2)).await.unwrap();
        }
    });
}

#[test]
fn the_bytes_of_a_record_of_a_volume_that_leaves_stay_readable() {
    let bytes = include_bytes!("../../../../fuzz/seeds/catalogue/leaving");
    let (key, value) = bytes[1..].split_at(usize::from(bytes[0]));
    let CatalogueItem::Volume(info) = CatalogueEntry::decode(key, value).unwrap().unwrap().item
    else {
        panic!("it is a volume")
    };
    let peer = "pool 7 at unix:/x, by run 1".to_owned();
    assert_eq!((info.name.as_str(), info.size_bytes), ("v", MIB));
    assert_eq!(info.moves, Some(Move { state: MoveState::Leaving, peer }));
}
