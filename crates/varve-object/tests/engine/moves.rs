//! Buckets on their way between two pools: what is refused, from when on, and for how long; and what is told of changes
//! meanwhile.
//!
//! Method: all changes there are, at each state and after a crash; clients that change keys until they are refused,
//! beside the step that refuses them, by the seeds of the loop.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::FutureExt;
use varve_object::{
    BucketId, BucketOptions, ChangeKey, Error, Item, KeyChange, KeyView, ListQuery,
    MOVE_ADDRESS_BYTES_MAX, Move, MoveLast, MoveState, MoveStep, NewBody, ObjectStore, PartRef,
    Patience, Select, UploadId, UploadPart, Version, Watch,
};
use varve_stdx::Rng;
use varve_types::{MigrationRunId, PoolId};

use crate::rig::{Life, Rig};

const LANE: u64 = 16 << 20;

/// Clients of a key wait for each other: while many do, some are always under way for longer than a step takes.
const CLIENTS: usize = 24;

fn moves(state: MoveState, run: u8) -> Move {
    Move {
        state,
        pool: PoolId([7; 16]),
        address: "another pool".to_owned(),
        run: MigrationRunId([run; 16]),
        remark: None,
        last: None,
    }
}

fn leaving() -> Move {
    moves(MoveState::Leaving, 1)
}

fn arriving(run: u8) -> Move {
    moves(MoveState::Arriving, run)
}

fn step(before: Option<Move>, after: Option<Move>) -> MoveStep {
    MoveStep { before, after, bucket: None }
}

fn endless() -> Patience {
    futures_util::future::pending().boxed()
}

fn version(order: u64, null: bool, size: usize) -> Version {
    let size = size as u64;
    Version { order, null, marker: false, size, modified_ms: order, attributes: Bytes::new() }
}

/// Puts a version above all others.
fn put_next(size: usize) -> ChangeKey {
    Box::new(move |view: &KeyView| {
        let order = view.newest.as_ref().map_or(1, |newest| newest.order + 1);
        Ok(KeyChange { put: Some(version(order, false, size)), ..KeyChange::default() })
    })
}

fn small(len: usize) -> NewBody {
    NewBody::Small(vec![7; len].into())
}

async fn made(store: &dyn ObjectStore, name: &str) -> BucketId {
    let made = store.create_bucket(name, BucketOptions::default(), Bytes::from_static(b"it")).await;
    made.expect("works").id
}

async fn put(store: &dyn ObjectStore, bucket: BucketId, key: &str) -> Result<(), Error> {
    store.change_key(bucket, key, None, small(3000), put_next(3000)).await.map(drop)
}

/// Every change of a bucket that clients can ask for, and what came of it.
async fn all_changes(
    store: &dyn ObjectStore,
    (bucket, upload): (BucketId, UploadId),
) -> Vec<(&'static str, Option<Error>)> {
    let part =
        UploadPart { number: 2, generation: 0, size: 1, modified_ms: 0, attributes: Bytes::new() };
    let record = Box::new(|_: Option<&Bytes>| Ok(Some(Bytes::from_static(b"new"))));
    let none = Bytes::new;
    vec![
        ("put", put(store, bucket, "key").await.err()),
        ("stage", store.stage(bucket, "key", 1 << 20).await.err()),
        ("upload", store.create_upload(bucket, "key", 0, none()).await.err()),
        ("part", store.put_part(bucket, "key", upload, part, small(1)).await.err()),
        ("abort", store.abort_upload(bucket, "key", upload).await.err()),
        ("record", store.change_bucket("b", record).await.err()),
    ]
}

fn is_moves(error: &Error) -> bool {
    matches!(error, Error::Moves { .. })
}

async fn refuses_all(life: &Life, bucket: BucketId, upload: UploadId) {
    for (what, error) in all_changes(&life.store, (bucket, upload)).await {
        assert!(error.as_ref().is_some_and(is_moves), "{what}: {error:?}");
    }
    let error = life.store.delete_bucket("b").await.expect_err("it moves");
    assert!(is_moves(&error), "{error}");
}

/// Keys with the orders of their versions, the newest first.
async fn listed(store: &dyn ObjectStore, bucket: BucketId) -> BTreeMap<String, Vec<u64>> {
    listed_of(store, bucket, "").await
}

/// The same, of keys that begin so.
async fn listed_of(
    store: &dyn ObjectStore,
    bucket: BucketId,
    prefix: &str,
) -> BTreeMap<String, Vec<u64>> {
    let mut all: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let prefix = prefix.to_owned();
    let mut query = ListQuery { prefix, limit: 1000, versions: true, ..ListQuery::default() };
    loop {
        let page = store.list(bucket, &query).await.expect("works");
        for item in &page.items {
            if let Item::Version { key, version, .. } = item {
                all.entry(key.clone()).or_default().push(version.order);
            }
        }
        match page.items.last().filter(|_| page.more) {
            Some(last) => query.after = last.marker(),
            None => return all,
        }
    }
}

#[test]
fn a_bucket_that_leaves_is_not_changed_and_can_be_read_also_after_a_crash() {
    let mut rig = Rig::new(LANE);
    let (bucket, upload) = rig.live(async |life: Life| {
        let bucket = made(&life.store, "b").await;
        let upload = life.store.create_upload(bucket, "key", 0, Bytes::new()).await;
        let upload = upload.expect("works").id;
        put(&life.store, bucket, "key").await.expect("works");
        let fence = step(None, Some(leaving()));
        let moved = life.store.move_bucket("b", fence, endless()).await.expect("works");
        assert_eq!((moved.id, &moved.moves), (bucket, &Some(leaving())));
        refuses_all(&life, bucket, upload).await;
        (bucket, upload)
    });
    rig.live(async move |life: Life| {
        let known = life.store.bucket("b").await.expect("works");
        assert_eq!((&known.moves, &known.record[..]), (&Some(leaving()), &b"it"[..]));
        refuses_all(&life, bucket, upload).await;
        let found = life.store.find(bucket, "key", Select::Newest).await.expect("works");
        assert_eq!(found.expect("it is there").version.order, 1);
        let back = step(Some(leaving()), None);
        life.store.move_bucket("b", back, endless()).await.expect("works");
        for (what, error) in all_changes(&life.store, (bucket, upload)).await {
            assert_eq!(error, None, "{what}");
        }
        assert_eq!(&life.store.bucket("b").await.expect("works").record[..], b"new");
    });
}

#[test]
fn a_step_is_taken_from_where_the_bucket_is_and_only_if_there_is_such_a_step() {
    use MoveState::{Arrived, Arriving, Leaving, Left};
    Rig::new(LANE).live(async |life: Life| {
        let store = &life.store;
        let bucket = made(store, "b").await;
        let to = async |before: Option<MoveState>, after: Option<MoveState>| {
            let of = |state| moves(state, 1);
            store.move_bucket("b", step(before.map(of), after.map(of)), endless()).await.err()
        };
        for (before, after) in [
            (None, None),
            (None, Some(Left)),
            (None, Some(Arriving)),
            (None, Some(Arrived)),
            (Some(Leaving), Some(Arrived)),
            (Some(Arriving), None),
            (Some(Arriving), Some(Leaving)),
            (Some(Left), None),
            (Some(Left), Some(Leaving)),
            (Some(Arrived), Some(Left)),
        ] {
            let error = to(before, after).await;
            assert!(
                matches!(error, Some(Error::BadMove { .. })),
                "{before:?} {after:?}: {error:?}"
            );
        }
        for before in [Leaving, Left, Arriving] {
            let error = to(Some(before), Some(Left)).await;
            assert!(matches!(error, Some(Error::MovesOtherwise { moves: None, .. })), "{error:?}");
        }
        let long = Move { address: "x".repeat(MOVE_ADDRESS_BYTES_MAX + 1), ..leaving() };
        let error = store.move_bucket("b", step(None, Some(long.clone())), endless()).await;
        assert!(matches!(error, Err(Error::BadMove { .. })));
        let other =
            MoveStep { bucket: Some(BucketId(bucket.0 + 1)), ..step(None, Some(leaving())) };
        let error = store.move_bucket("b", other, endless()).await;
        assert!(matches!(error, Err(Error::OtherBucket { id, .. }) if id == bucket.0));
        assert_eq!(to(None, Some(Leaving)).await, None);
        let error = to(None, Some(Leaving)).await;
        assert!(matches!(error, Some(Error::MovesOtherwise { moves: Some(_), .. })), "{error:?}");
        assert_eq!(to(Some(Leaving), Some(Leaving)).await, None);
        assert_eq!(to(Some(Leaving), Some(Left)).await, None);
        assert_eq!(to(Some(Left), Some(Left)).await, None);
        for bad in [moves(Leaving, 1), Move { state: Arriving, ..long }] {
            let options = BucketOptions::default();
            let error = store.create_arriving("c", options, Bytes::new(), bad).await;
            assert!(matches!(error, Err(Error::BadMove { .. })));
        }
    });
}

#[test]
fn a_run_that_lost_the_bucket_changes_nothing() {
    let mut rig = Rig::new(LANE);
    rig.live(async |life: Life| {
        let store = &life.store;
        let options = BucketOptions { private_copy: true };
        let made = store.create_arriving("b", options, Bytes::new(), arriving(1)).await;
        let bucket = made.expect("works").id;
        let again = store.create_bucket("b", options, Bytes::new()).await;
        assert_eq!(again, Err(Error::BucketExists { name: "b".to_owned() }));
        assert!(put(store, bucket, "key").await.is_err_and(|error| is_moves(&error)));
        let by = async |run: u8, body: NewBody| {
            let expects = arriving(run);
            store.change_arriving(bucket, &expects, "key", None, body, put_next(9)).await.err()
        };
        assert_eq!(by(1, small(9)).await, None);
        let staged = async |run: u8| {
            let mut writer = store.stage_arriving(bucket, &arriving(run), "key", 1 << 20).await?;
            writer.write(vec![1; 1 << 20].into()).await?;
            writer.finish().await.map(NewBody::Staged)
        };
        let of_first = staged(1).await.expect("works");
        let over = step(Some(arriving(1)), Some(arriving(2)));
        store.move_bucket("b", over, endless()).await.expect("works");
        for body in [small(9), of_first] {
            let error = by(1, body).await;
            assert!(matches!(error, Some(Error::MovesOtherwise { .. })), "{error:?}");
        }
        assert!(matches!(staged(1).await, Err(Error::MovesOtherwise { .. })));
        let error = store.replace_record("b", &arriving(1), Bytes::new()).await;
        assert!(matches!(error, Err(Error::MovesOtherwise { .. })));
        assert_eq!(listed(store, bucket).await["key"], [1]);
        let of_second = staged(2).await.expect("works");
        assert_eq!(by(2, of_second).await, None);
        store.replace_record("b", &arriving(2), Bytes::from_static(b"two")).await.expect("works");
    });
    rig.live(async |life: Life| {
        let store = &life.store;
        let known = store.bucket("b").await.expect("works");
        assert_eq!((&known.moves, &known.record[..]), (&Some(arriving(2)), &b"two"[..]));
        assert_eq!(listed(store, known.id).await["key"], [2, 1]);
        let arrived =
            Some(Move { last: Some(MoveLast::Bucket(7)), ..moves(MoveState::Arrived, 2) });
        let last = step(Some(arriving(2)), arrived.clone());
        store.move_bucket("b", last, endless()).await.expect("works");
        let (id, late) = (known.id, arriving(2));
        let error = store.change_arriving(id, &late, "key", None, small(9), put_next(9)).await;
        assert!(matches!(error, Err(Error::MovesOtherwise { .. })));
        put(store, known.id, "key").await.expect("it is used as any other");
        let error = store.delete_bucket("b").await;
        assert!(matches!(error, Err(Error::Arrived { .. })), "{error:?}");
        store.move_bucket("b", step(arrived, None), endless()).await.expect("works");
        let error = store.delete_bucket("b").await;
        assert!(matches!(error, Err(Error::BucketNotEmpty { .. })), "{error:?}");
    });
}

/// Clients of one bucket, which change the same few keys, one after another, until they are refused. What was
/// acknowledged: the last order by key.
struct Clients {
    life: Life,
    bucket: BucketId,
    acknowledged: RefCell<BTreeMap<String, u64>>,
    under_way: Cell<usize>,
}

impl Clients {
    async fn run(self: Rc<Self>, mut rng: Rng) {
        loop {
            let key = format!("key {}", rng.below(3));
            let change: ChangeKey = if rng.chance(1, 4) {
                Box::new(|view| {
                    let replace = view.newest.as_ref();
                    let replace = replace.map(|newest| (newest.order, Bytes::from_static(b"t")));
                    Ok(KeyChange { replace, ..KeyChange::default() })
                })
            } else {
                put_next(3000)
            };
            let changed =
                self.life.store.change_key(self.bucket, &key, None, small(3000), change).await;
            match changed {
                Ok(KeyChange { put: Some(put), .. }) => {
                    let mut acknowledged = self.acknowledged.borrow_mut();
                    let last = acknowledged.entry(key).or_default();
                    *last = put.order.max(*last);
                }
                Ok(_) => {}
                Err(Error::Moves { .. } | Error::Unavailable { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.under_way.set(self.under_way.get() - 1);
    }
}

#[test]
fn none_is_under_way_once_it_leaves_and_all_that_was_acknowledged_is_there() {
    for seed in 0..6 {
        let mut rig = Rig::new(LANE);
        let (bucket, fenced) = rig.live(async move |life: Life| {
            let mut rng = Rng::new(seed);
            let bucket = made(&life.store, "b").await;
            let clients = Rc::new(Clients {
                life,
                bucket,
                acknowledged: RefCell::default(),
                under_way: Cell::new(CLIENTS),
            });
            let reactor = clients.life.reactor.clone();
            for number in 0..CLIENTS {
                let client = Rc::clone(&clients).run(Rng::new(seed * 100 + number as u64));
                reactor.spawn(client);
            }
            reactor.sleep(1_000_000 * (1 + rng.below(40))).await;
            let fence = step(None, Some(leaving()));
            clients.life.store.move_bucket("b", fence, endless()).await.expect("works");
            let fenced = listed(&clients.life.store, bucket).await;
            reactor.sleep(1_000_000_000).await;
            assert_eq!(clients.under_way.get(), 0, "all were refused");
            let later = listed(&clients.life.store, bucket).await;
            assert!(later == fenced, "seed {seed}: it changed after the answer");
            for (key, order) in clients.acknowledged.borrow().iter() {
                assert!(fenced[key].contains(order), "seed {seed}: {order} of {key}");
            }
            assert!(!fenced.is_empty(), "seed {seed}: nothing was written");
            (bucket, fenced)
        });
        rig.live(async move |life: Life| {
            let later = listed(&life.store, bucket).await;
            assert!(later == fenced, "seed {seed}: a crash changed it");
        });
    }
}

#[test]
fn a_step_that_does_not_wait_for_changes_is_not_taken() {
    Rig::new(LANE).live(async |life: Life| {
        let bucket = made(&life.store, "b").await;
        let (acknowledged, under_way) = (RefCell::default(), Cell::new(CLIENTS));
        let clients = Rc::new(Clients { life, bucket, acknowledged, under_way });
        let (reactor, store) = (clients.life.reactor.clone(), &clients.life.store);
        for number in 0..CLIENTS {
            reactor.spawn(Rc::clone(&clients).run(Rng::new(number as u64)));
        }
        reactor.sleep(2_000_000).await;
        let at_once = futures_util::future::ready(()).boxed();
        let fence = step(None, Some(leaving()));
        let error = store.move_bucket("b", fence.clone(), at_once).await;
        assert!(matches!(error, Err(Error::StillChanging { .. })), "{error:?}");
        assert_eq!(store.bucket("b").await.expect("works").moves, None);
        let before = listed(store, bucket).await;
        reactor.sleep(50_000_000).await;
        assert_eq!(clients.under_way.get(), CLIENTS, "nobody was refused");
        assert!(listed(store, bucket).await != before, "changes go on");
        store.move_bucket("b", fence, endless()).await.expect("they end");
    });
}

#[test]
fn a_bucket_that_left_goes_in_steps_and_leaves_nothing() {
    let mut rig = Rig::new(LANE);
    let left = moves(MoveState::Left, 1);
    let (bucket, expects) = rig.live(async move |life: Life| {
        let store = &life.store;
        let bucket = made(store, "b").await;
        for number in 0..300_usize {
            let len = [0, 100, 5000, 60_000][number % 4];
            let key = format!("k{}", number / 2);
            let changed = store.change_key(bucket, &key, None, small(len), put_next(len));
            changed.await.expect("works");
        }
        let upload = store.create_upload(bucket, "parts", 0, Bytes::new()).await.expect("works");
        let part = UploadPart {
            number: 1,
            generation: 0,
            size: 9000,
            modified_ms: 0,
            attributes: Bytes::new(),
        };
        let put = store.put_part(bucket, "parts", upload.id, part, small(9000)).await;
        let parts = vec![PartRef { number: 1, generation: put.expect("works").generation }];
        let body = NewBody::Parts { upload: upload.id, parts };
        store.change_key(bucket, "parts", None, body, put_next(9000)).await.expect("works");
        store.create_upload(bucket, "never", 0, Bytes::new()).await.expect("works");
        store.move_bucket("b", step(None, Some(leaving())), endless()).await.expect("works");
        let error = store.delete_left("b", &leaving(), 10).await;
        assert!(matches!(error, Err(Error::BadMove { .. })), "{error:?}");
        let gone = step(Some(leaving()), Some(left.clone()));
        store.move_bucket("b", gone, endless()).await.expect("works");
        let error = store.delete_left("b", &moves(MoveState::Left, 2), 10).await;
        assert!(matches!(error, Err(Error::MovesOtherwise { .. })), "{error:?}");
        let after_one = store.delete_left("b", &left, 1).await.expect("works");
        assert!((1..301).contains(&after_one), "{after_one} are left");
        let there: usize = listed(store, bucket).await.values().map(Vec::len).sum();
        assert_eq!(there as u64, after_one);
        life.rest().await;
        let (blocks, _) = life.left(bucket.0).await; // Looks whether each belongs to something.
        assert!(blocks > 0);
        (bucket, left)
    });
    rig.live(async move |life: Life| {
        let store = &life.store;
        assert_eq!(store.bucket("b").await.expect("works").moves.as_ref(), Some(&expects));
        let mut before = u64::MAX;
        loop {
            let left = store.delete_left("b", &expects, 1).await.expect("works");
            assert!(left < before, "each step deletes something");
            before = left;
            if left == 0 {
                break;
            }
        }
        assert!(matches!(store.bucket("b").await, Err(Error::NoBucket { .. })));
        life.rest().await;
        assert_eq!(life.left(bucket.0).await, (0, 0));
        let again = made(store, "b").await;
        assert!(again > bucket, "numbers are not used again");
    });
}

/// What was told since it was asked for last.
#[derive(Default)]
struct Told(Mutex<BTreeSet<String>>);

impl Told {
    fn watch(self: &Arc<Self>) -> Watch {
        let told = Arc::clone(self);
        Arc::new(move |key| {
            let key = key.unwrap_or("the record").to_owned();
            told.0.lock().expect("works").insert(key);
        })
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.0.lock().expect("works"))
    }
}

#[test]
fn whoever_copies_what_is_told_has_everything_in_the_end() {
    for seed in 0..4 {
        Rig::new(LANE).live(async move |life: Life| {
            let bucket = made(&life.store, "b").await;
            put(&life.store, bucket, "before").await.expect("works");
            let under_way = Cell::new(CLIENTS);
            let acknowledged = RefCell::default();
            let clients = Rc::new(Clients { life, bucket, acknowledged, under_way });
            let reactor = clients.life.reactor.clone();
            for number in 0..CLIENTS {
                let client = Rc::clone(&clients).run(Rng::new(seed * 100 + number as u64));
                reactor.spawn(client);
            }
            reactor.sleep(3_000_000).await;
            let store = &clients.life.store;
            let told = Arc::new(Told::default());
            store.watch(bucket, Some(told.watch())).await.expect("works");
            let mut copy = listed(store, bucket).await;
            let mut rng = Rng::new(seed);
            for round in 0..20 {
                if round == 19 {
                    let fence = step(None, Some(leaving()));
                    store.move_bucket("b", fence, endless()).await.expect("works");
                }
                for key in told.take() {
                    copy.extend(listed_of(store, bucket, &key).await);
                }
                reactor.sleep(1_000_000 * rng.below(3)).await;
            }
            let there = listed(store, bucket).await;
            assert!(copy == there, "seed {seed}: the copy is not what is there");
            assert!(copy.len() > 3, "seed {seed}: nothing was written");
        });
    }
}

#[test]
fn a_change_of_the_record_is_told() {
    Rig::new(LANE).live(async |life: Life| {
        let bucket = made(&life.store, "b").await;
        let told = Arc::new(Told::default());
        life.store.watch(bucket, Some(told.watch())).await.expect("works");
        let record = Box::new(|_: Option<&Bytes>| Ok(Some(Bytes::from_static(b"new"))));
        life.store.change_bucket("b", record).await.expect("works");
        assert_eq!(told.take(), BTreeSet::from(["the record".to_owned()]));
        let stored = life.store.stored_bucket("b").await.expect("works");
        assert_eq!(&stored.record[..], b"new");
        life.store.watch(bucket, None).await.expect("works");
        put(&life.store, bucket, "key").await.expect("works");
        assert_eq!(told.take(), BTreeSet::new());
    });
}
