//! Volumes that leave and arrive, over real shards: what is refused, what outlives a crash, and that no write slips
//! through.

use std::cell::Cell;
use std::rc::Rc;

use varve_reactor::JoinHandle;
use varve_stdx::AlignedBuf;
use varve_types::{ByteOffset, Dedup, ErrorKind, MigrationRunId, PoolId};

use super::{FencedView, MoveTransition};
use crate::open::{AccessMode, ChangeGuard, InitialState};
use crate::rig::{Life, MIB, Rig};
use crate::volume_move::{Move, MoveLast, MoveRemark, MoveState};
use crate::{
    CatalogueEntry, CatalogueItem, Datasets, Error, ReceiveSpec, Result, SnapshotIdentity, Volume,
    VolumeInfo,
};

fn kind<T>(outcome: Result<T>) -> ErrorKind {
    outcome.err().expect("refused").kind()
}

fn state(state: MoveState) -> Option<Move> {
    Some(Move { state, ..arriving(0) })
}

fn leaving() -> Option<Move> {
    state(MoveState::Leaving)
}

fn block(value: u8) -> varve_stdx::BufSlice {
    AlignedBuf::from_slice(&[value; 4096]).freeze()
}

/// The snapshot behind the fence.
async fn last_snapshot(life: &Life) {
    let datasets = life.datasets().expecting(leaving());
    datasets.create_snapshots(&["v@last".to_owned()]).await.unwrap();
}

/// Everything that would change a volume, but deleting it.
async fn assert_unchangeable(datasets: &Datasets, name: &str) {
    let fenced = ErrorKind::Fenced;
    assert_eq!(kind(datasets.resize_volume(name, MIB).await), fenced);
    assert_eq!(kind(datasets.set_reduction(name, Some(Dedup::On), None).await), fenced);
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
            assert_eq!(kind(volume.write(ByteOffset(0), block(9)).await), ErrorKind::Fenced);
            assert_eq!(kind(volume.trim(ByteOffset(0), 4096).await), ErrorKind::Fenced);
            assert_eq!(
                kind(volume.write_zeroes(ByteOffset(0), 4096, false).await),
                ErrorKind::Fenced
            );
        }
        assert_unchangeable(datasets, "v").await;
        assert_eq!(life.values("v").await, [1; 4]);
        let mine = datasets.create_snapshots(&["v@mine".to_owned()]).await;
        assert_eq!(kind(mine), ErrorKind::Fenced, "nobody would send it");
        assert_eq!(kind(datasets.delete_snapshot("v@s").await), ErrorKind::Fenced);
        assert_eq!(kind(datasets.protect_snapshot("v@s", true).await), ErrorKind::Fenced);
        last_snapshot(&life).await;
    });
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        let volume = datasets.open("v").await.unwrap();
        assert_eq!(
            kind(volume.write(ByteOffset(0), block(9)).await),
            ErrorKind::Fenced,
            "it is durable"
        );
        assert_unchangeable(datasets, "v").await;
        assert_eq!(life.values("v").await, [1; 4]);
        let other = Some(Move { state: MoveState::Leaving, ..arriving(77) });
        let refused = datasets.move_volume("v", other.clone(), None).await;
        assert_eq!(kind(refused), ErrorKind::Conflict, "another moves it");
        datasets.move_volume("v", leaving(), other.clone()).await.unwrap();
        datasets.move_volume("v", other, None).await.unwrap();
        volume.write(ByteOffset(0), block(9)).await.unwrap();
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
        last_snapshot(&life).await;
        datasets.clone_volume("v", "copy").await.unwrap();
        datasets.move_volume("v", leaving(), state(MoveState::Left)).await.unwrap();
        assert_eq!(kind(volume.read(ByteOffset(0), 4096).await), ErrorKind::Fenced);
        assert_eq!(kind(volume.write(ByteOffset(0), block(2)).await), ErrorKind::Fenced);
        assert_eq!(kind(datasets.open("v").await), ErrorKind::Fenced);
        let back = datasets.move_volume("v", state(MoveState::Left), None).await;
        assert_eq!(kind(back), ErrorKind::Invalid);
        assert_eq!(life.values("v@last").await, [1; 4]);
        assert_eq!(kind(datasets.clone_volume("v", "late").await), ErrorKind::Fenced);
        datasets.clone_volume("v@last", "late").await.unwrap();
        life.fill("copy", 2).await;
        drop(volume);
        let other = datasets.expecting(leaving()).delete_volume("v", true).await;
        assert_eq!(kind(other), ErrorKind::Conflict, "it is not leaving any more");
        datasets.delete_snapshot("v@last").await.unwrap();
        let left = datasets.expecting(state(MoveState::Left));
        left.delete_volume("v", true).await.unwrap();
        assert_eq!(life.values("copy").await, [2; 4], "clones outlive what they came from");
        assert_eq!(life.values("late").await, [1; 4]);
        assert_eq!(datasets.volume("copy").await.unwrap().origin.as_deref(), Some("v"));
    });
}

/// Writes as fast as they are answered while the volume is asked to leave. What was acknowledged is in the snapshot
/// that is taken afterwards, and nothing that is younger was acknowledged.
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
                        match volume.write(ByteOffset(u64::from(at) * 32 * MIB), block(value)).await
                        {
                            Ok(()) => acknowledged[usize::from(at)].set(value),
                            Err(error) => return error.kind(),
                        }
                    }
                    unreachable!("it writes for ever");
                }));
            }
            reactor.sleep(2_000_000 + pause_us * 1000).await;
            datasets.move_volume("v", None, leaving()).await.unwrap();
            last_snapshot(&life).await;
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

/// What the run moves, on its way to here.
fn arriving(run: u8) -> Move {
    Move {
        state: MoveState::Arriving,
        pool: PoolId([7; 16]),
        address: "unix:/x".to_owned(),
        run: run_id(run),
        remark: None,
        last: None,
    }
}

fn run_id(run: u8) -> MigrationRunId {
    MigrationRunId([run; 16])
}

/// The same once it is here (MOVING-7).
fn arrived(run: u8, last: u8) -> Move {
    let last = Some(MoveLast::Snapshot(identity(last)));
    Move { state: MoveState::Arrived, last, ..arriving(run) }
}

fn identity(byte: u8) -> SnapshotIdentity {
    SnapshotIdentity([byte; 16])
}

/// Snapshot `to` of `v`, whole or as changes.
fn sent(to: u8, from: Option<u8>) -> ReceiveSpec {
    ReceiveSpec {
        name: "v".to_owned(),
        identity: identity(to),
        from: from.map(identity),
        size_bytes: 256 * MIB,
        block_size_bytes: 4096,
    }
}

/// The datasets, as a run uses them for what it moves to here.
fn run_of(life: &Life, run: u8) -> Datasets {
    life.datasets().expecting(Some(arriving(run)))
}

/// Receives a snapshot that has `value` in its first block.
async fn receive(life: &Life, run: u8, value: u8, from: Option<u8>) {
    let datasets = run_of(life, run);
    datasets.begin_receive(sent(value, from)).await.unwrap();
    datasets
        .open_arriving("v", run_id(run))
        .await
        .unwrap()
        .write(ByteOffset(0), block(value))
        .await
        .unwrap();
    datasets.end_receive("v", identity(value), &format!("s{value}")).await.unwrap();
}

#[test]
fn a_volume_that_arrives_is_for_who_fills_it() {
    let mut rig = Rig::new();
    rig.live(async move |life: Life| {
        let (datasets, one) = (life.datasets(), run_of(&life, 1));
        let made = one.begin_receive(sent(5, None)).await.unwrap();
        assert_eq!((made.receiving, made.moves), (Some(identity(5)), Some(arriving(1))));
        assert_eq!(kind(datasets.open("v").await), ErrorKind::Fenced);
        let filling = one.open_arriving("v", run_id(1)).await.unwrap();
        assert_eq!(
            kind(one.open_arriving("v", run_id(1)).await),
            ErrorKind::Conflict,
            "one fills it"
        );
        filling.write(ByteOffset(0), block(7)).await.unwrap();
        let arrived = datasets.arrive("v", arriving(1), identity(5)).await;
        assert_eq!(kind(arrived), ErrorKind::Conflict, "it is not whole");
        let lost = filling.write(ByteOffset(0), block(9)).await;
        assert_eq!(kind(lost), ErrorKind::Fenced, "who filled it was shut out");
        drop(filling);
        one.end_receive("v", identity(5), "s").await.unwrap();
    });
    rig.live(async move |life: Life| {
        let (datasets, one) = (life.datasets(), run_of(&life, 1));
        assert_eq!(kind(datasets.open("v").await), ErrorKind::Fenced, "it outlives a crash");
        one.open_arriving("v", run_id(1))
            .await
            .unwrap()
            .write(ByteOffset(4096), block(8))
            .await
            .unwrap();
        let back = one.rollback("v@s").await.unwrap();
        assert_eq!(back.moves, Some(arriving(1)), "it still arrives");
        one.set_quota("v", Some(64 * MIB)).await.unwrap();
        datasets.arrive("v", arriving(1), identity(5)).await.unwrap();
        assert_eq!(kind(one.open_arriving("v", run_id(1)).await), ErrorKind::Conflict);
        assert_eq!(life.values("v").await, [7, 0, 0, 0]);
        life.fill("v", 1).await;
        let refused = datasets.begin_receive(sent(6, Some(5))).await;
        assert_eq!(kind(refused), ErrorKind::Conflict, "it was changed");
    });
}

#[test]
fn a_volume_arrives_as_the_last_snapshot_and_nothing_else() {
    Rig::new().live(async |life: Life| {
        let (datasets, one) = (life.datasets(), run_of(&life, 1));
        let arrive = async |last| kind(datasets.arrive("v", arriving(1), identity(last)).await);
        receive(&life, 1, 5, None).await;
        receive(&life, 1, 6, Some(5)).await;
        assert_eq!(arrive(5).await, ErrorKind::Conflict, "that is not its newest");
        assert_eq!(arrive(7).await, ErrorKind::Conflict, "it never had that");
        let filling = one.open_arriving("v", run_id(1)).await.unwrap();
        filling.write(ByteOffset(8192), block(9)).await.unwrap();
        drop(filling);
        assert_eq!(arrive(6).await, ErrorKind::Conflict, "it was written since");
        one.rollback("v@s6").await.unwrap();
        one.begin_receive(sent(7, Some(6))).await.unwrap();
        assert_eq!(arrive(6).await, ErrorKind::Conflict, "more is being received");
        one.rollback("v@s6").await.unwrap();
        let bare = datasets.move_volume("v", Some(arriving(1)), None).await;
        assert_eq!(kind(bare), ErrorKind::Invalid, "the last step names a snapshot");
        let there = datasets.arrive("v", arriving(1), identity(6)).await.unwrap();
        assert_eq!(there.moves, Some(arrived(1, 6)));
        assert_eq!(life.values("v").await, [6, 0, 0, 0]);
        assert_eq!(arrive(6).await, ErrorKind::Conflict, "it does so once");
    });
}

/// A step that failed, and became durable later, left the gate as it was before.
#[test]
fn who_opens_a_volume_sets_its_gate_to_what_its_record_says() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        let volume = datasets.open("v").await.unwrap();
        let stream = varve_types::StreamId::new(volume.info().id);
        datasets.shared.open.set_gate(stream, AccessMode::ReadOnly);
        assert_eq!(kind(volume.write(ByteOffset(0), block(1)).await), ErrorKind::Fenced);
        drop(datasets.open("v").await.unwrap());
        volume.write(ByteOffset(0), block(1)).await.unwrap();
        datasets.move_volume("v", None, leaving()).await.unwrap();
        datasets.shared.open.set_gate(stream, AccessMode::Open);
        drop(datasets.open("v").await.unwrap());
        assert_eq!(kind(volume.write(ByteOffset(0), block(2)).await), ErrorKind::Fenced);
    });
}

/// Before it is a snapshot, what was received is told to who moves it, and compared.
#[test]
fn what_a_part_holds_is_told_to_who_moves_it_alone() {
    Rig::new().live(async |life: Life| {
        receive(&life, 1, 5, None).await;
        let one = run_of(&life, 1);
        one.begin_receive(sent(6, Some(5))).await.unwrap();
        let filling = one.open_arriving("v", run_id(1)).await.unwrap();
        filling.write(ByteOffset(64 * MIB), block(6)).await.unwrap();
        let spec = crate::ExtentSpec {
            name: "v".to_owned(),
            since: Some("s5".to_owned()),
            since_identity: Some(identity(5)),
            max: 10,
            ..crate::ExtentSpec::default()
        };
        let page = one.extents(&spec).await.unwrap();
        let extents: Vec<(u64, u64)> = page.extents.iter().map(|e| (e.start, e.end)).collect();
        assert_eq!(extents, [(64 * MIB, 64 * MIB + 4096)]);
        assert_eq!(kind(life.datasets().extents(&spec).await), ErrorKind::Fenced);
        assert_eq!(kind(run_of(&life, 2).extents(&spec).await), ErrorKind::Conflict);
        let other = crate::ExtentSpec { since_identity: Some(identity(6)), ..spec };
        assert_eq!(kind(one.extents(&other).await), ErrorKind::Conflict);
        filling.write(ByteOffset(0), block(7)).await.unwrap();
    });
}

#[test]
fn a_volume_that_was_received_arrives_after_a_crash_too() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        receive(&life, 1, 5, None).await;
        receive(&life, 1, 6, Some(5)).await;
    });
    rig.live(async |life: Life| {
        life.datasets().arrive("v", arriving(1), identity(6)).await.unwrap();
    });
    rig.live(async |life: Life| assert_eq!(life.values("v").await, [6, 0, 0, 0]));
}

/// The first run goes to sleep at each of its steps, a second one takes the volume over, and the first wakes up.
#[test]
fn a_run_that_was_asleep_changes_nothing_of_what_another_took_over() {
    Rig::new().live(async |life: Life| {
        let (datasets, one, two) = (life.datasets(), run_of(&life, 1), run_of(&life, 2));
        let conflict = ErrorKind::Conflict;
        receive(&life, 1, 5, None).await;
        let asleep = one.open_arriving("v", run_id(1)).await.unwrap();
        datasets.move_volume("v", Some(arriving(1)), Some(arriving(2))).await.unwrap();
        assert_eq!(kind(asleep.write(ByteOffset(0), block(9)).await), ErrorKind::Fenced);
        assert_eq!(kind(asleep.trim(ByteOffset(0), 4096).await), ErrorKind::Fenced);
        assert_eq!(kind(asleep.read(ByteOffset(0), 4096).await), ErrorKind::Fenced);
        two.begin_receive(sent(6, Some(5))).await.unwrap();
        let filling = two.open_arriving("v", run_id(2)).await.unwrap();
        assert_eq!(
            kind(asleep.write(ByteOffset(0), block(9)).await),
            ErrorKind::Fenced,
            "it stays shut out"
        );
        drop(asleep);
        assert_eq!(kind(one.open_arriving("v", run_id(1)).await), conflict);
        assert_eq!(kind(two.open_arriving("v", run_id(2)).await), conflict, "it is open still");
        filling.write(ByteOffset(0), block(6)).await.unwrap();
        drop(filling);
        assert_eq!(kind(one.open_arriving("v", run_id(1)).await), conflict, "another run fills it");
        assert_eq!(kind(one.begin_receive(sent(6, Some(5))).await), conflict);
        assert_eq!(kind(one.end_receive("v", identity(6), "s6").await), conflict);
        assert_eq!(kind(one.rollback("v@s5").await), conflict);
        let to_end = async || {
            assert_eq!(kind(one.rollback("v@s5").await), conflict);
            assert_eq!(kind(one.begin_receive(sent(9, Some(6))).await), conflict);
            assert_eq!(kind(one.end_receive("v", identity(6), "s6").await), conflict);
            assert_eq!(kind(one.delete_volume("v", true).await), conflict);
            assert_eq!(kind(one.delete_snapshot("v@s5").await), conflict);
            assert_eq!(kind(one.protect_snapshot("v@s5", true).await), conflict);
            assert_eq!(kind(one.set_quota("v", Some(MIB)).await), conflict);
            assert_eq!(kind(one.resize_volume("v", MIB).await), conflict);
            assert_eq!(kind(datasets.arrive("v", arriving(1), identity(6)).await), conflict);
        };
        two.end_receive("v", identity(6), "s6").await.unwrap();
        to_end().await;
        datasets.arrive("v", arriving(2), identity(6)).await.unwrap();
        life.fill("v", 3).await;
        to_end().await;
        assert_eq!(kind(two.rollback("v@s5").await), conflict, "it is over for the second too");
        assert_eq!(kind(two.delete_volume("v", true).await), conflict);
        assert_eq!(life.values("v").await, [3; 4]);
    });
}

#[test]
fn who_does_not_move_a_volume_leaves_it_alone_but_may_delete_it() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        receive(&life, 1, 5, None).await;
        assert_unchangeable(datasets, "v").await;
        let fenced = ErrorKind::Fenced;
        assert_eq!(kind(datasets.begin_receive(sent(6, Some(5))).await), fenced);
        assert_eq!(kind(datasets.create_snapshots(&["v@mine".to_owned()]).await), fenced);
        assert_eq!(kind(datasets.delete_snapshot("v@s5").await), fenced);
        assert_eq!(kind(datasets.clone_volume("v", "part").await), fenced, "it is not whole");
        datasets.clone_volume("v@s5", "whole").await.unwrap();
        datasets.protect_snapshot("v@s5", true).await.unwrap();
        datasets.protect_snapshot("v@s5", false).await.unwrap();
        datasets.delete_volume("v", true).await.unwrap();
        assert_eq!(life.values("whole").await, [5, 0, 0, 0]);
    });
}

/// Its source still has it, and deletes that because this one says what it is.
#[test]
fn a_volume_that_arrived_is_used_and_stays_until_its_source_has_none() {
    let mut rig = Rig::new();
    let mark = Some(arrived(1, 6));
    let at_once = mark.clone();
    rig.live(async move |life: Life| {
        receive(&life, 1, 5, None).await;
        receive(&life, 1, 6, Some(5)).await;
        let there = life.datasets().arrive("v", arriving(1), identity(6)).await.unwrap();
        assert_eq!(there.moves, at_once);
    });
    rig.live(async move |life: Life| {
        let (datasets, conflict) = (life.datasets(), ErrorKind::Conflict);
        assert_eq!(datasets.volume("v").await.unwrap().moves, mark, "it outlives a crash");
        life.fill("v", 3).await;
        life.snapshot("v@mine").await;
        datasets.protect_snapshot("v@s5", true).await.unwrap();
        datasets.protect_snapshot("v@s5", false).await.unwrap();
        datasets.delete_snapshot("v@s5").await.unwrap();
        datasets.set_quota("v", Some(64 * MIB)).await.unwrap();
        datasets.clone_volume("v", "copy").await.unwrap();
        assert_eq!(datasets.volume("copy").await.unwrap().moves, None);
        assert_eq!(datasets.rollback("v@mine").await.unwrap().moves, mark);
        assert_eq!(kind(datasets.delete_volume("v", true).await), conflict);
        assert_eq!(kind(datasets.move_volume("v", None, leaving()).await), conflict);
        let other = datasets.expecting(Some(arrived(1, 5)));
        assert_eq!(kind(other.delete_snapshot("v@s6").await), conflict);
        assert_eq!(kind(other.delete_volume("v", true).await), conflict);
        let other = datasets.move_volume("v", Some(arrived(1, 5)), None).await;
        assert_eq!(kind(other), conflict);
        datasets.expecting(mark.clone()).delete_snapshot("v@s6").await.unwrap();
        assert_eq!(datasets.move_volume("v", mark, None).await.unwrap().moves, None);
        assert_eq!(life.values("v").await, [3; 4]);
        datasets.delete_volume("v", true).await.unwrap();
    });
}

/// Nobody acts for it until another run takes it over.
#[test]
fn a_volume_whose_run_has_ended_is_neither_filled_nor_arrives() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        receive(&life, 1, 5, None).await;
        let parked = Move { remark: Some(MoveRemark::Parked), ..arriving(1) };
        datasets.move_volume("v", Some(arriving(1)), Some(parked.clone())).await.unwrap();
        let arrived = datasets.arrive("v", parked.clone(), identity(5)).await;
        assert_eq!(kind(arrived), ErrorKind::Invalid);
        assert_eq!(kind(datasets.open_arriving("v", run_id(1)).await), ErrorKind::Conflict);
        datasets.move_volume("v", Some(parked), Some(arriving(2))).await.unwrap();
        datasets.arrive("v", arriving(2), identity(5)).await.unwrap();
    });
}

#[test]
fn a_fence_is_for_what_was_seen() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        let taken = datasets.create_snapshots(&["v@one".to_owned()]).await.unwrap();
        let newest = taken[0].identity;
        let seen = FencedView { id: datasets.volume("v").await.unwrap().id, newest };
        let fence = async |seen| datasets.fence("v", leaving().unwrap(), seen).await;
        let volume = datasets.open("v").await.unwrap();
        for other in
            [FencedView { id: seen.id + 1, ..seen }, FencedView { newest: identity(1), ..seen }]
        {
            assert_eq!(kind(fence(other).await), ErrorKind::Conflict);
            volume.write(ByteOffset(0), block(1)).await.unwrap();
        }
        drop(volume);
        datasets.rollback("v@one").await.unwrap();
        assert_eq!(kind(fence(seen).await), ErrorKind::Conflict, "much may be to be sent");
        let seen = FencedView { id: datasets.volume("v").await.unwrap().id, newest };
        life.snapshot("v@two").await;
        assert_eq!(kind(fence(seen).await), ErrorKind::Conflict);
        datasets.delete_snapshot("v@two").await.unwrap();
        assert_eq!(fence(seen).await.unwrap().moves, leaving());
    });
}

/// Works while a fence of the volume `v` waits for a change under way. It is for the volume as it is with
/// the snapshot, where one is to be taken before.
fn while_a_fence_waits(
    snapshot: Option<&'static str>,
    work: impl AsyncFnOnce(Life, Volume, ChangeGuard<'_>, JoinHandle<Result<VolumeInfo>>) + 'static,
) {
    Rig::new().live(async move |life: Life| {
        let datasets = life.datasets().clone();
        let reactor = datasets.dispatch().reactor().clone();
        life.create("v").await;
        let taken = match snapshot {
            Some(name) => datasets.create_snapshots(&[name.to_owned()]).await.unwrap(),
            None => Vec::new(),
        };
        let volume = datasets.open("v").await.unwrap();
        let id = volume.info().id;
        let seen = taken.first().map(|taken| FencedView { id, newest: taken.identity });
        let open = datasets.shared.open.open(varve_types::StreamId::new(id), opening());
        let under_way = open.begin_change().ok().unwrap();
        let step = MoveTransition { before: None, after: leaving(), seen };
        let fence = reactor.spawn_join(async move { datasets.step("v", step).await });
        reactor.sleep(100_000_000).await;
        work(life, volume, under_way, fence).await;
    });
}

/// The names of a whole shard would be held. Who opens the volume meanwhile writes until the fence looks again.
#[test]
fn a_fence_that_waits_holds_nothing() {
    while_a_fence_waits(None, async |life, volume, under_way, fence| {
        life.snapshot("v@meanwhile").await;
        let late = life.datasets().open("v").await.unwrap();
        let written = late.write(ByteOffset(0), block(7)).await;
        assert_eq!(kind(written), ErrorKind::Fenced, "who opens it does not open its gate");
        drop(under_way);
        fence.await.unwrap();
        for volume in [volume, late] {
            assert_eq!(kind(volume.write(ByteOffset(0), block(9)).await), ErrorKind::Fenced);
        }
        last_snapshot(&life).await;
        assert_eq!(life.values("v@last").await, [0; 4]);
    });
}

/// It is another volume when the fence looks again.
#[test]
fn a_fence_that_waits_is_refused_for_what_changed_meanwhile() {
    while_a_fence_waits(Some("v@one"), async |life, volume, _under_way, fence| {
        assert_eq!(kind(volume.write(ByteOffset(0), block(1)).await), ErrorKind::Fenced);
        life.snapshot("v@two").await;
        assert_eq!(kind(fence.await), ErrorKind::Conflict);
        volume.write(ByteOffset(0), block(1)).await.unwrap();
    });
}

/// A group of snapshots was left incomplete when the fence looks again: names do not change, and the volume stays in
/// use.
#[test]
fn a_fence_that_waits_while_names_cannot_be_changed_leaves_the_volume_open() {
    while_a_fence_waits(None, async |life, volume, under_way, fence| {
        assert_eq!(kind(volume.write(ByteOffset(0), block(1)).await), ErrorKind::Fenced);
        life.datasets().shared.unsettled.leave("a test says so".to_owned());
        assert!(matches!(fence.await, Err(Error::Unsettled { .. })));
        drop(under_way);
        volume.write(ByteOffset(0), block(1)).await.unwrap();
        assert_eq!(life.datasets().volume("v").await.unwrap().moves, None);
    });
}

fn opening() -> InitialState {
    InitialState {
        size_bytes: 0,
        reduction: varve_types::Reduction::OFF,
        quota_bytes: None,
        is_exclusive: false,
        gate: AccessMode::Open,
    }
}

#[test]
fn a_volume_that_is_given_up_does_not_arrive() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        receive(&life, 1, 5, None).await;
        let left = state(MoveState::Left);
        datasets.move_volume("v", Some(arriving(1)), left.clone()).await.unwrap();
        let arrived = datasets.arrive("v", arriving(1), identity(5)).await;
        assert_eq!(kind(arrived), ErrorKind::Conflict);
        assert_eq!(kind(datasets.open_arriving("v", run_id(1)).await), ErrorKind::Conflict);
        let one = run_of(&life, 1);
        assert_eq!(kind(one.delete_volume("v", true).await), ErrorKind::Conflict);
        datasets.expecting(left).delete_volume("v", true).await.unwrap();
    });
}

#[test]
fn a_whole_snapshot_makes_a_volume_that_arrives_and_none_other() {
    Rig::new().live(async |life: Life| {
        for moves in [leaving(), Some(Move { address: "x".repeat(513), ..arriving(1) })] {
            let refused = life.datasets().expecting(moves).begin_receive(sent(5, None)).await;
            assert_eq!(kind(refused), ErrorKind::Invalid);
        }
        life.datasets().begin_receive(sent(5, None)).await.unwrap();
        let taken = run_of(&life, 1).begin_receive(sent(5, None)).await;
        assert_eq!(kind(taken), ErrorKind::Conflict, "it is an import's");
    });
}

#[test]
fn steps_that_there_are_not_are_refused() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        let comes = state(MoveState::Arriving);
        for (before, after) in [
            (None, None),
            (None, comes.clone()),
            (comes.clone(), None),
            (leaving(), comes.clone()),
            (state(MoveState::Left), leaving()),
            (None, Some(arrived(1, 5))),
            (Some(arrived(1, 5)), leaving()),
            (Some(arrived(1, 5)), state(MoveState::Left)),
            (comes, Some(arrived(1, 5))),
        ] {
            let refused = datasets.move_volume("v", before.clone(), after.clone()).await;
            assert_eq!(kind(refused), ErrorKind::Invalid, "{before:?} to {after:?}");
        }
        let long = Move { state: MoveState::Leaving, address: "x".repeat(513), ..arriving(1) };
        let kept =
            Move { state: MoveState::Leaving, remark: Some(MoveRemark::Kept), ..arriving(1) };
        for after in [long, kept] {
            let refused = datasets.move_volume("v", None, Some(after)).await;
            assert_eq!(kind(refused), ErrorKind::Invalid);
        }
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
        let open = datasets.shared.open.open(stream, opening());
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
            assert_eq!(
                kind(volume.write(ByteOffset(0), block(1)).await),
                ErrorKind::Fenced,
                "no other begins"
            );
            if ends {
                drop(under_way);
                fence.await.unwrap();
                datasets.move_volume("v", leaving(), None).await.unwrap();
            } else {
                assert_eq!(kind(fence.await), ErrorKind::Unavailable);
                assert_eq!(datasets.volume("v").await.unwrap().moves, None);
            }
            volume.write(ByteOffset(0), block(2)).await.unwrap();
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
    assert_eq!((info.name.as_str(), info.size_bytes), ("v", MIB));
    assert_eq!(info.moves, Some(Move { state: MoveState::Leaving, ..arriving(1) }));
}
