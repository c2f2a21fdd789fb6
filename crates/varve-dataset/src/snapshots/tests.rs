//! Snapshots over real shards: what they hold, what refuses to go, and what a crash between two steps leaves.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use futures_util::future::join;
use varve_dispatch::{BlockMapping, CutSource};
use varve_media::{DiskOperation, Fault, FaultPlan, FaultRule};
use varve_stdx::AlignedBuf;
use varve_types::limits::{REGION_BYTES, VOLUME_BYTES_MAX};
use varve_types::{ByteOffset, ErrorKind, ShardId, StreamId};

use crate::catalog::home_of;
use crate::intent::Intent;
use crate::name::{DatasetName, SnapshotName};
use crate::rig::{Life, Rig, VOLUME_BYTES, first_byte, flip_root, lane, volume_spec};
use crate::snapshots::{SnapshotRequest, record};
use crate::{Datasets, Error, ExtentSpec};

fn kind<T: std::fmt::Debug>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.expect_err("refused").kind()
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn listed(datasets: &Datasets, volume: Option<&str>) -> Vec<String> {
    let found = datasets.snapshots(volume, None, 100).await.unwrap();
    found.into_iter().map(|snapshot| snapshot.name).collect()
}

/// Names of volumes with different homes.
fn names_of_both_homes(datasets: &Datasets) -> [String; 2] {
    let home = |name: &str| home_of(datasets.dispatch(), &DatasetName::parse(name).unwrap());
    let mut names = (0..).map(|number| format!("g{number}"));
    let one = names.next().unwrap();
    let other = names.find(|name| home(name) != home(&one)).unwrap();
    [one, other]
}

#[test]
fn a_snapshot_keeps_what_it_was_taken_of() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        life.fill("v", 1).await;
        life.snapshot("v@one").await;
        life.fill("v", 2).await;
        datasets.resize_volume("v", 1 << 20).await.unwrap();
        assert_eq!(life.values("v@one").await, [1; 4]);
        let snapshot = datasets.open("v@one").await.unwrap();
        assert!(snapshot.is_snapshot());
        assert_eq!(kind(snapshot.trim(ByteOffset(0), 4096).await), ErrorKind::Denied);
        assert_eq!(kind(datasets.delete_snapshot("v@one").await), ErrorKind::Conflict, "open");
        drop(snapshot);
        datasets.delete_snapshot("v@one").await.unwrap();
        assert_eq!(kind(datasets.open("v@one").await.map(|_| ())), ErrorKind::NotFound);
        assert_eq!(kind(datasets.create_snapshots(&strings(&["w@a"])).await), ErrorKind::NotFound);
        for bad in [&[][..], &["v"], &["v@a", "v@b"]] {
            let refused = datasets.create_snapshots(&strings(bad)).await;
            assert_eq!(kind(refused), ErrorKind::Invalid, "{bad:?}");
        }
    });
}

#[test]
fn snapshots_are_listed_in_pages_and_survive_a_crash() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        for volume in ["v", "w", "vv"] {
            life.create(volume).await;
            for snapshot in ["b", "a", "c"] {
                life.snapshot(&format!("{volume}@{snapshot}")).await;
            }
        }
        let again = life.datasets().create_snapshots(&strings(&["v@b"])).await;
        assert_eq!(kind(again), ErrorKind::Exists);
    });
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        assert_eq!(listed(datasets, Some("v")).await, ["v@a", "v@b", "v@c"]);
        let (mut all, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = datasets.snapshots(None, after.as_deref(), 2).await.unwrap();
            assert!(page.len() <= 2);
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            all.extend(page.into_iter().map(|snapshot| snapshot.name));
        }
        let mut expected = all.clone();
        expected.sort();
        expected.dedup();
        assert_eq!((all.len(), &all), (9, &expected));
        assert_eq!(kind(datasets.snapshots(Some("x"), None, 9).await), ErrorKind::NotFound);
    });
}

#[test]
fn no_id_is_given_twice_in_any_life() {
    let (mut rig, ids) = (Rig::new(), Rc::new(RefCell::new(BTreeSet::new())));
    for life in 0..3 {
        let ids = Rc::clone(&ids);
        rig.live(async move |open: Life| {
            let datasets = open.datasets();
            open.create(&format!("v{life}")).await;
            let mut made = vec![datasets.volume(&format!("v{life}")).await.unwrap().id];
            for count in [1023, 5, 2000, 1] {
                let begin = datasets.fresh_streams(count).await.unwrap().get();
                made.extend(begin..begin + count);
            }
            let others = datasets.fresh_streams(7);
            let (one, other) = join(open.threads[1].fresh_streams(600), others).await;
            made.extend([one.unwrap().get(), other.unwrap().get()]);
            for id in made {
                assert!(ids.borrow_mut().insert(id), "stream {id} of life {life} was there before");
            }
        });
    }
    assert_eq!(ids.borrow().len(), 3 * (1 + 1023 + 5 + 2000 + 1 + 2));
}

#[test]
fn protected_snapshots_and_volumes_with_snapshots_stay() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        life.snapshot("v@a").await;
        life.snapshot("v@b").await;
        assert!(datasets.protect_snapshot("v@a", true).await.unwrap().protected);
        assert_eq!(kind(datasets.delete_snapshot("v@a").await), ErrorKind::Conflict);
        assert_eq!(kind(datasets.delete_volume("v", false).await), ErrorKind::Conflict);
        assert_eq!(kind(datasets.delete_volume("v", true).await), ErrorKind::Conflict);
        assert_eq!(listed(datasets, Some("v")).await.len(), 2, "nothing is deleted in part");
        datasets.protect_snapshot("v@a", false).await.unwrap();
        datasets.delete_volume("v", true).await.unwrap();
        assert!(listed(datasets, None).await.is_empty());
        datasets.mark().await.unwrap();
        assert_eq!(life.streams().await, []);
    });
}

#[test]
fn clones_and_rollbacks_depend_on_nothing() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        life.fill("v", 1).await;
        life.snapshot("v@one").await;
        life.fill("v", 2).await;
        let clone = datasets.clone_volume("v@one", "c").await.unwrap();
        assert_eq!(clone.origin.as_deref(), Some("v@one"));
        datasets.clone_volume("v", "live").await.unwrap();
        assert_eq!(kind(datasets.clone_volume("v", "c").await), ErrorKind::Exists);
        life.fill("c", 3).await;
        life.snapshot("c@two").await;
        datasets.clone_volume("c@two", "cc").await.unwrap();

        let open = datasets.open("v").await.unwrap();
        assert_eq!(kind(datasets.rollback("v@one").await), ErrorKind::Conflict);
        drop(open);
        datasets.rollback("v@one").await.unwrap();
        assert_eq!(life.values("v").await, [1; 4]);
        life.fill("v", 4).await;
        assert_eq!(life.values("v@one").await, [1; 4]);

        datasets.delete_volume("v", true).await.unwrap();
        datasets.delete_volume("c", true).await.unwrap();
        datasets.mark().await.unwrap();
        assert_eq!(life.values("live").await, [2; 4]);
        assert_eq!(life.values("cc").await, [3; 4]);
        let figures = datasets.figures().await.unwrap();
        assert_eq!((figures.volumes, figures.clones, figures.snapshots), (2, 2, 0));
        assert_eq!((figures.snapshots_taken, figures.snapshots_deleted), (2, 2));
        assert_eq!((figures.clones_made, figures.rollbacks), (3, 1));
        assert_eq!(datasets.flatten_volume("cc").await.unwrap().origin, None);
        assert_eq!(life.streams().await.len(), 2);
    });
}

fn told(name: &str, since: Option<&str>, offset: u64, max: usize) -> ExtentSpec {
    let (name, since) = (name.to_owned(), since.map(str::to_owned));
    ExtentSpec { name, since, offset, max, ..ExtentSpec::default() }
}

/// A rotation between two pages: what is told then would be of another snapshot.
#[test]
fn what_is_told_is_of_the_snapshots_that_were_meant() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        life.snapshot("v@one").await;
        life.fill("v", 1).await;
        life.snapshot("v@two").await;
        let identity = async |name| Some(datasets.snapshot(name).await.unwrap().identity);
        let spec = ExtentSpec {
            identity: identity("v@two").await,
            since_identity: identity("v@one").await,
            ..told("v@two", Some("one"), 0, 2)
        };
        let page = datasets.extents(&spec).await.unwrap();
        assert_eq!(page.extents.len(), 2);
        let next = ExtentSpec { offset: page.next.unwrap(), ..spec };
        assert_eq!(datasets.extents(&next).await.unwrap().extents.len(), 2);
        let kind = async || datasets.extents(&next).await.unwrap_err().kind();
        datasets.delete_snapshot("v@one").await.unwrap();
        assert_eq!(kind().await, ErrorKind::NotFound);
        life.snapshot("v@one").await;
        assert_eq!(kind().await, ErrorKind::Conflict, "nothing differs from what has its name now");
        let next = ExtentSpec { since: None, ..next.clone() };
        assert_eq!(datasets.extents(&next).await.unwrap().extents.len(), 2);
        datasets.delete_snapshot("v@two").await.unwrap();
        life.snapshot("v@two").await;
        let refused = datasets.extents(&next).await.unwrap_err().kind();
        assert_eq!(refused, ErrorKind::Conflict);
    });
}

#[test]
fn what_changed_since_a_snapshot_is_told() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        life.fill("v", 1).await;
        life.snapshot("v@one").await;
        let page = datasets.extents(&told("v", Some("one"), 0, 10)).await.unwrap();
        assert_eq!((page.extents.len(), page.next), (0, None));
        datasets.open("v").await.unwrap().trim(ByteOffset(64 << 20), 8192).await.unwrap();
        life.snapshot("v@two").await;
        life.fill("v", 5).await;
        let page = datasets.extents(&told("v@two", Some("one"), 0, 10)).await.unwrap();
        let extents: Vec<(u64, u64)> = page.extents.iter().map(|e| (e.start, e.end)).collect();
        assert_eq!(extents, [(64 << 20, (64 << 20) + 4096)]);
        assert_eq!(datasets.extents(&told("v@two", None, 0, 10)).await.unwrap().extents.len(), 3);
        let page = datasets.extents(&told("v", Some("one"), 0, 3)).await.unwrap();
        assert_eq!(page.extents.len(), 3);
        let rest = datasets.extents(&told("v", Some("one"), page.next.unwrap(), 3)).await.unwrap();
        assert_eq!((rest.extents.len(), rest.next), (1, None));
    });
}

#[test]
fn a_group_over_two_homes_exists_as_a_whole() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        let names = names_of_both_homes(life.datasets());
        for name in &names {
            life.create(name).await;
            life.fill(name, 1).await;
        }
        let group: Vec<String> = names.iter().map(|name| format!("{name}@g")).collect();
        // Both threads at once, in either order of names: one of them is told that they exist.
        let reversed: Vec<String> = group.iter().rev().cloned().collect();
        let taken = futures_util::future::join(
            life.threads[0].create_snapshots(&group),
            life.threads[1].create_snapshots(&reversed),
        );
        let (one, other) = taken.await;
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
        assert_eq!(listed(life.datasets(), None).await, group);
        // One that is there already keeps all from being taken.
        let more: Vec<String> = vec![format!("{}@h", names[0]), group[1].clone()];
        assert_eq!(kind(life.datasets().create_snapshots(&more).await), ErrorKind::Exists);
        assert_eq!(listed(life.datasets(), None).await, group);
    });
    rig.live(async |life: Life| {
        for name in listed(life.datasets(), None).await {
            assert_eq!(life.values(&name).await, [1; 4]);
        }
    });
}

/// Cuts a group as `create_snapshots` does, and goes as far as storing the intent, or not even that.
async fn begin_group(life: &Life, is_intended: bool) -> Intent {
    let datasets = life.datasets();
    let names = names_of_both_homes(datasets);
    let mut wanted = Vec::new();
    for name in &names {
        life.create(name).await;
        life.fill(name, 1).await;
        let name = SnapshotName::parse(&format!("{name}@g")).unwrap();
        let volume = datasets.record(&name.volume).await.unwrap();
        wanted.push(SnapshotRequest { name, volume, identity: datasets.fresh_identity() });
    }
    let first = datasets.fresh_streams(2).await.unwrap();
    let parts: Vec<_> = (first.get()..)
        .zip(&wanted)
        .map(|(stream, wanted)| (wanted.name.clone(), record(stream, 0, wanted)))
        .collect();
    let sources: Vec<CutSource> = (first.get()..)
        .zip(&wanted)
        .map(|(copy, wanted)| CutSource { source: wanted.volume.route, copy: StreamId::new(copy) })
        .collect();
    let cut = datasets.dispatch().cut(&sources).await.unwrap();
    let home = home_of(datasets.dispatch(), &parts[0].0.volume);
    let intent = Intent { home, id: first };
    if is_intended {
        intent.write_parts(datasets.dispatch(), &parts).await.unwrap();
        intent.write_head(datasets.dispatch(), parts.len()).await.unwrap();
    }
    drop(cut); // Before that nothing is answered.
    for name in &names {
        life.fill(name, 2).await;
    }
    intent
}

#[test]
fn mark_passes_that_meet_run_one_after_the_other() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        let passes = [datasets.mark(), datasets.mark(), datasets.mark()];
        for pass in futures_util::future::join_all(passes).await {
            pass.unwrap();
        }
    });
}

#[test]
fn a_crash_after_the_cut_leaves_nothing() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        begin_group(&life, false).await;
        assert_eq!(life.streams().await.len(), 4);
    });
    rig.live(async |life: Life| {
        assert_eq!(listed(life.datasets(), None).await, [""; 0]);
        life.datasets().mark().await.unwrap();
        assert_eq!(life.streams().await.len(), 2, "what was cut belongs to nobody");
        for name in names_of_both_homes(life.datasets()) {
            assert_eq!(life.values(&name).await, [2; 4]);
        }
    });
}

#[test]
fn a_crash_after_the_intent_is_completed() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        begin_group(&life, true).await;
        // A pass between intent and records keeps what the intent names.
        life.datasets().mark().await.unwrap();
        assert_eq!(life.streams().await.len(), 4);
    });
    rig.live(async |life: Life| {
        let group = names_of_both_homes(life.datasets()).map(|name| format!("{name}@g"));
        assert_eq!(listed(life.datasets(), None).await, group);
        life.datasets().mark().await.unwrap();
        for name in group {
            assert_eq!(life.values(&name).await, [1; 4]);
            life.datasets().delete_snapshot(&name).await.unwrap();
        }
    });
    rig.live(async |life: Life| {
        assert_eq!(listed(life.datasets(), None).await, [""; 0], "intents are settled once");
    });
}

#[test]
fn a_group_that_damage_stops_keeps_names_from_changing_until_it_is_complete() {
    let (mut rig, begun) = (Rig::new(), Rc::new(Cell::new(None)));
    let noted = Rc::clone(&begun);
    rig.live(async move |life: Life| noted.set(Some(begin_group(&life, true).await)));
    let (disk, intent): (_, Intent) = (rig.disk(), begun.get().unwrap());
    let other_home = ShardId(1 - intent.home.0);
    flip_root(&disk, other_home);
    rig.live_unsettled(async move |life: Life| {
        let datasets = life.datasets();
        let is_unsettled =
            |outcome: Result<(), Error>| matches!(outcome, Err(Error::Unsettled { .. }));
        let there = datasets.dispatch().on_shard(other_home, |_| Box::pin(async { Ok(()) }));
        let Err(varve_dispatch::Error::ShardClosed { is_damaged: true, .. }) = there.await else {
            panic!("{other_home} is damaged");
        };
        assert!(is_unsettled(datasets.settle_group(intent).await.map(drop)));
        let group = names_of_both_homes(datasets).map(|name| format!("{name}@g"));
        for name in &group {
            assert!(is_unsettled(datasets.delete_snapshot(name).await), "{name}");
        }
        assert!(is_unsettled(datasets.create_volume(volume_spec("other")).await.map(drop)));
        let said = life.threads[0].unsettled().expect("each thread tells why");
        assert!(said.starts_with("a group of snapshots is incomplete: shard"), "{said}");
        flip_root(&disk, other_home); // It is mended.
        datasets.dispatch().reactor().sleep(80_000_000_000).await; // It is looked at every minute.
        assert_eq!(listed(datasets, None).await, group);
        assert_eq!(datasets.unsettled(), None);
        for name in group {
            assert_eq!(life.values(&name).await, [1; 4]);
            datasets.delete_snapshot(&name).await.unwrap();
        }
        life.create("other").await;
    });
}

#[test]
fn a_shard_that_cannot_be_read_at_first_keeps_names_from_changing_and_no_other_from_serving() {
    let (mut rig, plan) = (Rig::new(), FaultPlan::new());
    rig.live(async |life: Life| {
        begin_group(&life, true).await;
    });
    let reads = FaultRule::always(DiskOperation::Read, Fault::Fail);
    plan.add(FaultRule { range: lane(ShardId(1)), ..reads });
    rig.live_failing(Rc::clone(&plan), async move |life: Life| {
        let datasets = life.datasets();
        let there = |id| datasets.dispatch().on_shard(id, |_| Box::pin(async { Ok(()) }));
        there(ShardId(0)).await.unwrap();
        let host = life.threads[1].dispatch().host(ShardId(1)).unwrap();
        assert!(!host.is_out(), "requests wait for it");
        assert_eq!(there(ShardId(1)).await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(host.is_out() && host.damage().is_none());
        assert_eq!(kind(datasets.settle().await), ErrorKind::Unavailable);
        let refused = datasets.create_volume(volume_spec("other")).await;
        assert!(matches!(refused, Err(Error::Unsettled { .. })), "{refused:?}");
        plan.clear();
        datasets.dispatch().reactor().sleep(10_000_000_000).await;
        assert!(!host.is_out(), "it serves");
        datasets.settle().await.unwrap();
        let group = names_of_both_homes(datasets).map(|name| format!("{name}@g"));
        assert_eq!(listed(datasets, None).await, group);
        for name in group {
            assert_eq!(life.values(&name).await, [1; 4]);
        }
        life.create("other").await;
    });
}

/// A journal that is lost, on a drive that at first fails to read it, under an operator who accepts the loss.
#[test]
fn a_loss_that_is_accepted_stays_so_until_the_shard_has_served() {
    let (mut rig, plan) = (Rig::new(), FaultPlan::new());
    rig.live(async |life: Life| life.create("v").await);
    rig.lose_lane(ShardId(1));
    let reads = FaultRule::always(DiskOperation::Read, Fault::Fail);
    plan.add(FaultRule { range: lane(ShardId(1)), ..reads });
    rig.live_failing(Rc::clone(&plan), async move |life: Life| {
        let dispatch = life.datasets().dispatch();
        let host = life.threads[1].dispatch().host(ShardId(1)).unwrap();
        assert!(host.failure().unwrap().is_read_failure());
        plan.clear();
        dispatch.reactor().sleep(10_000_000_000).await;
        dispatch.on_shard(ShardId(1), |_| Box::pin(async { Ok(()) })).await.unwrap();
    });
}

#[test]
fn shards_are_given_back_when_nothing_of_them_is_under_way() {
    let mut rig = Rig::new();
    flip_root(&rig.disk(), ShardId(1));
    rig.live_unsettled(async |life: Life| {
        let host = |shard: u16| {
            let thread = &life.threads[usize::from(shard)];
            thread.dispatch().host(ShardId(shard)).unwrap()
        };
        assert!(host(0).damage().is_none() && host(1).damage().is_some());
        let given_back = || [0, 1].map(|shard| life.fences[shard].is_released.get());
        host(0).give_back().await.unwrap();
        assert_eq!(given_back(), [false; 2], "it serves");
        for shard in [0, 1] {
            host(shard).close().await.unwrap();
        }
        assert_eq!(given_back(), [false; 2], "another may need the root");
        for shard in [0, 1] {
            host(shard).give_back().await.unwrap();
        }
        assert_eq!(given_back(), [true; 2]);
    });
}

#[test]
fn who_waits_for_names_is_told_what_was_left_of_them_meanwhile() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        let held = datasets.hold(&DatasetName::parse("v").unwrap()).await.unwrap();
        let leave = async {
            datasets.dispatch().reactor().sleep(1_000_000_000).await;
            datasets.shared.unsettled.leave("a test says so".to_owned());
            drop(held);
        };
        let (refused, ()) = join(datasets.create_volume(volume_spec("v")), leave).await;
        assert!(matches!(refused, Err(Error::Unsettled { .. })), "{refused:?}");
        datasets.settle().await.unwrap();
        life.create("v").await;
    });
}

#[test]
fn parts_of_an_intent_without_its_head_are_cleared() {
    let mut rig = Rig::new();
    rig.live(async |life: Life| {
        let intent = begin_group(&life, true).await;
        let head = [&b"i"[..], &intent.id.get().to_be_bytes(), &[0xFF; 4]].concat();
        crate::catalog::remove(life.datasets().dispatch(), intent.home, head).await.unwrap();
    });
    rig.live(async |life: Life| {
        let datasets = life.datasets();
        assert_eq!(listed(datasets, None).await, [""; 0]);
        assert_eq!(crate::intent::streams(datasets.dispatch()).await.unwrap(), (vec![], 0));
        datasets.mark().await.unwrap();
        assert_eq!(life.streams().await.len(), 2);
    });
}

#[test]
fn streams_in_flight_are_kept_by_a_pass() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        life.fill("v", 1).await;
        let source = datasets.record(&DatasetName::parse("v").unwrap()).await.unwrap().route;
        let copy = datasets.fresh_streams(1).await.unwrap();
        let in_flight = datasets.shared.in_flight.register(vec![copy]);
        drop(datasets.dispatch().cut(&[CutSource { source, copy }]).await.unwrap());
        datasets.mark().await.unwrap();
        assert!(life.streams().await.contains(&copy.get()));
        drop(in_flight);
        datasets.mark().await.unwrap();
        assert!(!life.streams().await.contains(&copy.get()));
    });
}

#[test]
fn what_was_received_is_a_snapshot_that_changes_count_from() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        let identity = |byte| crate::SnapshotIdentity([byte; 16]);
        let spec = |identity, from| crate::ReceiveSpec {
            name: "t".to_owned(),
            identity,
            from,
            size_bytes: crate::rig::VOLUME_BYTES,
            block_size_bytes: 4096,
        };
        let changes = || spec(identity(2), Some(identity(1)));
        assert_eq!(kind(datasets.begin_receive(changes()).await), ErrorKind::NotFound);
        datasets.begin_receive(spec(identity(1), None)).await.unwrap();
        life.fill("t", 1).await;
        let resumed = datasets.begin_receive(spec(identity(1), None)).await.unwrap();
        assert_eq!(resumed.receiving, Some(identity(1)));
        assert_eq!(kind(datasets.begin_receive(changes()).await), ErrorKind::Conflict);
        assert_eq!(kind(datasets.end_receive("t", identity(3), "a").await), ErrorKind::Conflict);
        let first = datasets.end_receive("t", identity(1), "a").await.unwrap();
        assert_eq!((first.identity, first.name.as_str()), (identity(1), "t@a"));
        datasets.end_receive("t", identity(1), "a").await.unwrap();
        assert_eq!(datasets.volume("t").await.unwrap().receiving, None);
        assert_eq!(kind(datasets.begin_receive(spec(identity(1), None)).await), ErrorKind::Exists);

        life.fill("t", 7).await;
        assert_eq!(kind(datasets.begin_receive(changes()).await), ErrorKind::Conflict, "changed");
        datasets.rollback("t@a").await.unwrap();
        datasets.begin_receive(changes()).await.unwrap();
        life.fill("t", 2).await;
        datasets.end_receive("t", identity(2), "b").await.unwrap();
        assert_eq!(life.values("t@a").await, [1; 4]);
        assert_eq!(life.values("t@b").await, [2; 4]);
    });
}

/// What is in a huge volume, and what changed in it, takes a page or two to tell: what holds nothing costs nothing.
#[test]
fn extents_of_a_huge_volume_take_few_pages() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("v").await;
        let size = 1 << 50;
        datasets.resize_volume("v", size).await.unwrap();
        let pages = async |since: Option<&str>| {
            let (mut extents, mut offset) = (Vec::new(), Some(0));
            for _ in 0..4 {
                let Some(at) = offset else { return extents };
                let page = datasets.extents(&told("v", since, at, 10)).await.unwrap();
                extents.extend(page.extents.iter().map(|it| (it.start, it.end)));
                offset = page.next;
            }
            panic!("more than four pages, up to {offset:?}: {extents:?}");
        };
        life.snapshot("v@one").await;
        assert_eq!(pages(None).await, []);
        assert_eq!(pages(Some("one")).await, []);
        let volume = datasets.open("v").await.unwrap();
        let data = AlignedBuf::from_slice(&[7; 8192]).freeze();
        for offset in [0, (1 << 40) + 4096, size - 8192] {
            volume.write(ByteOffset(offset), data.clone()).await.unwrap();
        }
        drop(volume);
        let written = [(0, 8192), ((1 << 40) + 4096, (1 << 40) + 12288), (size - 8192, size)];
        assert_eq!(pages(None).await, written);
        assert_eq!(pages(Some("one")).await, written);
        life.snapshot("v@two").await;
        assert_eq!(pages(Some("two")).await, []);
        assert_eq!(pages(None).await, written);
    });
}

#[test]
fn a_shard_that_fails_takes_nothing_from_what_is_known_before_it() {
    Rig::new().live(async |life: Life| {
        life.create("v").await;
        life.fill("v", 1).await;
        let volume = life.datasets().open("v").await.unwrap();
        life.fences[1].take();
        life.datasets().dispatch().reactor().sleep(1_000_000_000).await;
        let mut served = 0;
        for at in (0..VOLUME_BYTES).step_by(64 << 20) {
            let alone = volume.block_status(ByteOffset(at), REGION_BYTES, 100).await;
            let whole = volume.block_status(ByteOffset(at), VOLUME_BYTES - at, 100).await;
            assert_eq!(whole.is_ok(), alone.is_ok(), "from {at} on: {whole:?}");
            if let Ok(runs) = whole {
                served += 1;
                assert!(runs.iter().map(|run| run.len).sum::<u64>() >= REGION_BYTES);
            }
        }
        assert_eq!(served, 2, "each shard has two regions");
    });
}

/// The whole of a volume of the largest size is looked at, zeroed and trimmed by one request each, whatever of it holds
/// something.
#[test]
fn one_request_covers_the_largest_volume() {
    Rig::new().live(async |life: Life| {
        life.create("v").await;
        let size = VOLUME_BYTES_MAX;
        life.datasets().resize_volume("v", size).await.unwrap();
        life.snapshot("v@one").await;
        let volume = life.datasets().open("v").await.unwrap();
        let before = life.datasets().open("v@one").await.unwrap();
        let status = async |max| -> Vec<(u64, BlockMapping)> {
            let runs = volume.block_status(ByteOffset(0), size, max).await.unwrap();
            runs.into_iter().map(|run| (run.len, run.mapped)).collect()
        };
        let changes = async || -> Vec<(u64, bool)> {
            let runs = volume.diff(&before, ByteOffset(0), size, 100).await.unwrap();
            runs.into_iter().map(|run| (run.len, run.differs)).collect()
        };
        assert_eq!(status(100).await, [(size, BlockMapping::Hole)]);
        assert_eq!(changes().await, [(size, false)]);
        let data = AlignedBuf::from_slice(&[7; 8192]).freeze();
        let at = (1 << 50) + 4096;
        volume.write(ByteOffset(at), data.clone()).await.unwrap();
        volume.write(ByteOffset(size - 8192), data).await.unwrap();
        let rest = size - at - 2 * 8192;
        let (hole, written) = (BlockMapping::Hole, BlockMapping::Data);
        assert_eq!(status(100).await, [(at, hole), (8192, written), (rest, hole), (8192, written)]);
        assert_eq!(status(1).await, [(at, hole)]);
        assert_eq!(changes().await, [(at, false), (8192, true), (rest, false), (8192, true)]);
        // Zeros that stay allocated, but for one region: only the shard that has it knows of the trim.
        volume.write_zeroes(ByteOffset(0), size, true).await.unwrap();
        assert_eq!(status(100).await, [(size, BlockMapping::Zero)]);
        let region = REGION_BYTES;
        volume.trim(ByteOffset(5 * region), region).await.unwrap();
        let (zero, behind) = (BlockMapping::Zero, size - 6 * region);
        assert_eq!(status(100).await, [(5 * region, zero), (region, hole), (behind, zero)]);
        volume.trim(ByteOffset(0), size).await.unwrap();
        assert_eq!(status(100).await, [(size, hole)]);
        assert_eq!(first_byte(&volume, at).await, 0);
    });
}
