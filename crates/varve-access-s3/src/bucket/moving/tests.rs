//! Goal: a bucket comes whole from one pool to another while its clients change it, and clients of a bucket that is not
//! here are told to try again. Method: two gateways over stores in memory; requests of anybody to the front of one,
//! whose bucket lets everybody do everything.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use hyper::{Method, Request};
use s3s::Body;
use varve_object::{
    Attributes, Document, MemoryStore, ObjectStore, RecordTable, Select, User, Version,
};
use varve_types::{MigrationRunId, PoolId};

use super::*;
use crate::body::seal::MasterKey;
use crate::bucket::administration::NewBucket;
use crate::gateway::Options;
use crate::identity::stored_users::{AddedUsers, StoredUsers};
use crate::request::front::{Front, Rate};

const POLICY: &str = r#"{"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:*",
    "Resource": ["arn:aws:s3:::photos", "arn:aws:s3:::photos/*"]}]}"#;

/// The run that moves the bucket.
const RUN: MigrationRunId = MigrationRunId([1; 16]);

/// Longest attributes that are taken.
const ATTRIBUTES_LEN: usize = 128 << 10;

async fn gateway(key: u8) -> Gateway {
    let store = Arc::new(MemoryStore::default());
    let opened = Gateway::open(store, MasterKey::of([key; 32]), Options::default()).await;
    opened.unwrap().gateway
}

/// A pool with a bucket that anybody uses.
struct Pool {
    gateway: Gateway,
    front: Front,
}

impl Pool {
    async fn new() -> Self {
        let gateway = gateway(7).await;
        let named =
            NewBucket { name: "photos".to_owned(), versioning: true, ..NewBucket::default() };
        gateway.create_bucket(named).await.unwrap();
        let edit = |settings: &mut varve_object::Settings| {
            settings.documents.insert(Document::Policy, Bytes::from_static(POLICY.as_bytes()));
            Ok(())
        };
        gateway.inner.edit("photos", edit).await.unwrap();
        let front = Front::new(Arc::clone(&gateway.inner));
        Self { gateway, front }
    }

    /// Status and text of an answer.
    async fn ask(&self, method: Method, path: &str, body: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-length", body.len());
        let request = request.body(Body::from(Bytes::from(body.to_owned()))).unwrap();
        let response = self.front.answer(request, &Rate::new(0), Arc::default()).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn put(&self, key: &str, body: &str) {
        let (status, text) = self.ask(Method::PUT, &format!("/photos/{key}"), body).await;
        assert_eq!(status, 200, "{text}");
    }

    async fn step(&self, before: Option<Move>, after: Option<Move>) {
        let step = MoveStep { before, after, bucket: None };
        self.gateway.move_bucket("photos", step).await.unwrap();
    }
}

fn moves(state: MoveState) -> Move {
    Move {
        state,
        pool: PoolId([7; 16]),
        address: "a pool".to_owned(),
        run: RUN,
        remark: None,
        last: None,
    }
}

fn version(order: u64) -> Version {
    let attributes = Attributes::default().encode();
    Version { order, null: false, marker: false, size: 1, modified_ms: 5, attributes }
}

fn put(key: &str, order: u64, body: &'static [u8]) -> ArrivingChange {
    let version = Version { size: body.len() as u64, ..version(order) };
    let body = ReceivedBody::Bytes(Bytes::from_static(body));
    ArrivingChange::Put { key: key.to_owned(), version, body }
}

fn remove(key: &str, order: u64) -> ArrivingChange {
    ArrivingChange::Remove { key: key.to_owned(), order }
}

/// A gateway with a bucket that arrives by [`RUN`].
async fn arriving() -> Gateway {
    let target = gateway(8).await;
    let record = varve_object::Settings { owner: "owner".to_owned(), ..Default::default() };
    let new = ArrivingBucket {
        name: "photos".to_owned(),
        moves: moves(MoveState::Arriving),
        record: record.encode(),
        private_copy: false,
    };
    target.create_arriving(new).await.unwrap();
    target
}

async fn receive(target: &Gateway, changes: Vec<ArrivingChange>) -> Result<()> {
    target.receive("photos", moves(MoveState::Arriving), changes).await
}

async fn orders(of: &Gateway, key: &str) -> Vec<u64> {
    let query = VersionQuery { key: Some(key.to_owned()), after: None, limit: 1000 };
    let (versions, more) = of.versions("photos", query).await.unwrap();
    assert!(!more && versions.iter().all(|(other, _)| other == key));
    versions.into_iter().map(|(_, version)| version.order).collect()
}

fn piece(id: Option<u64>, offset: u64, bytes: &'static [u8]) -> NextPiece {
    let (expects, key) = (moves(MoveState::Arriving), "long".to_owned());
    NextPiece { expects, key, total_bytes: 10, id, offset, bytes: Bytes::from_static(bytes) }
}

fn conflict<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), varve_types::ErrorKind::Conflict, "{error}");
}

#[tokio::test]
async fn clients_of_a_bucket_that_leaves_read_it_and_are_told_to_change_it_later() {
    let pool = Pool::new().await;
    pool.put("key", "text").await;
    pool.step(None, Some(moves(MoveState::Leaving))).await;
    let (status, text) = pool.ask(Method::GET, "/photos/key", "").await;
    assert_eq!((status, text.as_str()), (200, "text"));
    assert_eq!(pool.ask(Method::GET, "/photos?versions", "").await.0, 200);
    let delete = "<Delete><Object><Key>key</Key></Object></Delete>";
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    for (method, path, body) in [
        (Method::PUT, "/photos/key", "new"),
        (Method::DELETE, "/photos/key", ""),
        (Method::PUT, "/photos/key?tagging", tags),
        (Method::PUT, "/photos?tagging", tags),
        (Method::POST, "/photos/key?uploads", ""),
        (Method::DELETE, "/photos", ""),
    ] {
        let (status, text) = pool.ask(method.clone(), path, body).await;
        assert_eq!(status, 503, "{method} {path}: {text}");
        assert!(text.contains("<Code>ServiceUnavailable</Code>"), "{text}");
        assert!(
            text.contains(
                "moves to pool 07070707-0707-0707-0707-070707070707 at a pool, by run 0101"
            ),
            "{text}"
        );
    }
    let (_, text) = pool.ask(Method::POST, "/photos?delete", delete).await;
    assert!(!text.contains("<Deleted>"), "{text}");
    pool.step(Some(moves(MoveState::Leaving)), None).await;
    pool.put("key", "new").await;
}

#[tokio::test]
async fn a_bucket_that_is_not_here_is_neither_read_nor_listed() {
    let pool = Pool::new().await;
    pool.put("key", "text").await;
    pool.step(None, Some(moves(MoveState::Leaving))).await;
    pool.step(Some(moves(MoveState::Leaving)), Some(moves(MoveState::Left))).await;
    for path in ["/photos/key", "/photos", "/photos?policy"] {
        let (status, text) = pool.ask(Method::GET, path, "").await;
        assert_eq!(status, 503, "{path}: {text}");
        assert!(
            text.contains(
                "moved to pool 07070707-0707-0707-0707-070707070707 at a pool, by run 0101"
            ),
            "{text}"
        );
    }
    let of_operator = pool.gateway.buckets("", 10).await.unwrap();
    assert_eq!(of_operator[0].moves, Some(moves(MoveState::Left)));
    let target = arriving().await;
    assert!(check_here(&target.inner.store.bucket("photos").await.unwrap()).is_err());
}

#[tokio::test]
async fn a_read_that_began_before_the_bucket_left_does_not_tell_of_less() {
    let pool = Pool::new().await;
    let inner = &pool.gateway.inner;
    for key in ["a", "b"] {
        pool.put(key, "text").await;
    }
    pool.step(None, Some(moves(MoveState::Leaving))).await;
    let view = inner.view("photos").await.unwrap();
    let query = || varve_object::ListQuery { limit: 10, ..Default::default() };
    let unavailable = async || {
        let found = crate::operations::found(inner, &view, "a", Select::Newest).await.map(drop);
        let page = crate::operations::list::page(inner, &view, query()).await.map(drop);
        let uploads =
            crate::operations::multipart::upload(inner, &view, "a", &"0".repeat(16)).await;
        for read in [found, page, uploads.map(drop)] {
            let error = read.expect_err("it is not here");
            assert_eq!(*error.code(), s3s::S3ErrorCode::ServiceUnavailable, "{error}");
        }
    };
    assert_eq!(crate::operations::list::page(inner, &view, query()).await.unwrap().items.len(), 2);
    let left = moves(MoveState::Left);
    pool.step(Some(moves(MoveState::Leaving)), Some(left.clone())).await;
    assert_eq!(inner.store.delete_left("photos", &left, 1).await.unwrap(), 1);
    unavailable().await;
    assert_eq!(inner.store.delete_left("photos", &left, 1).await.unwrap(), 0);
    unavailable().await;
    let named = NewBucket { name: "photos".to_owned(), ..NewBucket::default() };
    pool.gateway.create_bucket(named).await.unwrap();
    unavailable().await;
}

#[tokio::test]
async fn a_bucket_that_arrived_is_not_deleted_before_its_mark_is_gone() {
    let target = arriving().await;
    let before = moves(MoveState::Arriving);
    let info = target.arrive("photos", before.clone(), None, 42).await.unwrap();
    let arrived = info.moves.unwrap();
    assert_eq!(arrived.last, Some(MoveLast::Bucket(42)));
    conflict(target.delete_bucket("photos").await);
    conflict(target.arrive("photos", before, None, 42).await);
    let step = MoveStep { before: Some(arrived), after: None, bucket: None };
    target.move_bucket("photos", step).await.unwrap();
    target.delete_bucket("photos").await.unwrap();
}

#[tokio::test]
async fn what_comes_is_stored_in_order_and_nothing_is_replaced() {
    let target = arriving().await;
    let many = (1..=3).flat_map(|order| [put("a", order, b"x"), put("b", order, b"y")]).collect();
    receive(&target, many).await.unwrap();
    assert_eq!(orders(&target, "a").await, [3, 2, 1]);
    conflict(receive(&target, vec![put("a", 3, b"z")]).await);
    conflict(receive(&target, vec![put("a", 2, b"z")]).await);
    receive(&target, vec![remove("a", 9), remove("a", 3), remove("a", 2)]).await.unwrap();
    conflict(receive(&target, vec![put("b", 2, b"z")]).await);
    receive(&target, vec![put("a", 2, b"new")]).await.unwrap();
    assert_eq!((orders(&target, "a").await, orders(&target, "b").await.len()), (vec![2, 1], 3));
    let part = |order, offset, bytes| StoredPart { key: "a".to_owned(), order, offset, bytes };
    let read = target.read_parts("photos", vec![part(2, 1, 1), part(1, 0, 100)]).await.unwrap();
    assert_eq!(read, [(3, Bytes::from_static(b"e")), (1, Bytes::from_static(b"x"))]);
    let gone = target.read_parts("photos", vec![part(3, 0, 1)]).await.unwrap_err();
    assert_eq!(gone.kind(), varve_types::ErrorKind::NotFound);
    let beyond = target.read_parts("photos", vec![part(1, 2, 1)]).await.unwrap_err();
    assert_eq!(beyond.kind(), varve_types::ErrorKind::NotFound);
    let late = target.receive("photos", moves(MoveState::Leaving), vec![remove("a", 1)]).await;
    conflict(late);
}

#[tokio::test]
async fn two_versions_without_an_id_do_not_come() {
    let target = arriving().await;
    let null = |order| ArrivingChange::Put {
        key: "a".to_owned(),
        version: Version { null: true, size: 0, ..version(order) },
        body: ReceivedBody::Bytes(Bytes::new()),
    };
    receive(&target, vec![null(1)]).await.unwrap();
    conflict(receive(&target, vec![null(2)]).await);
}

#[tokio::test]
async fn what_this_version_cannot_read_does_not_come() {
    let target = arriving().await;
    let of = |order: u64, attributes: Bytes| ArrivingChange::Put {
        key: "a".to_owned(),
        version: Version { attributes, size: 0, ..version(order) },
        body: ReceivedBody::Bytes(Bytes::new()),
    };
    let good = Attributes::default().encode();
    let long = vec![0; ATTRIBUTES_LEN + 1].into();
    for (order, attributes) in
        [(0, good.clone()), (u64::MAX, good), (1, Bytes::from_static(b"no record")), (1, long)]
    {
        let error = receive(&target, vec![of(order, attributes)]).await.unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error}");
    }
    let expects = moves(MoveState::Arriving);
    for record in [&b"no record"[..], &[1; 3 << 20]] {
        let record = Bytes::copy_from_slice(record);
        let replaced = target.replace_settings("photos", &expects, record.clone()).await;
        assert!(matches!(replaced, Err(Error::Invalid { .. })), "{replaced:?}");
        let (name, moves) = ("other".to_owned(), moves(MoveState::Arriving));
        let new = ArrivingBucket { name, moves, record, private_copy: false };
        assert!(matches!(target.create_arriving(new).await, Err(Error::Invalid { .. })));
    }
}

#[tokio::test]
async fn a_long_body_comes_in_pieces_and_is_taken_once() {
    let target = arriving().await;
    let begun = target.stage("photos", piece(None, 0, b"hello")).await.unwrap();
    assert_eq!(begun.received_bytes, 5);
    let id = begun.id;
    let take = |id| ArrivingChange::Put {
        key: "long".to_owned(),
        version: Version { size: 10, ..version(4) },
        body: ReceivedBody::Staged(id),
    };
    conflict(receive(&target, vec![take(id)]).await); // It is not whole.
    conflict(target.stage("photos", piece(Some(id), 4, b"o")).await);
    conflict(target.stage("photos", piece(Some(id + 1), 5, b"there")).await);
    conflict(target.stage("photos", piece(None, 5, b"there")).await);
    let other = NextPiece { key: "other".to_owned(), ..piece(Some(id), 5, b"there") };
    conflict(target.stage("photos", other).await);
    let whole = target.stage("photos", piece(Some(id), 5, b"there")).await.unwrap();
    assert_eq!(whole, StagedSoFar { id, received_bytes: 10 });
    receive(&target, vec![take(id)]).await.unwrap();
    conflict(receive(&target, vec![take(id)]).await);
    let found = target
        .read_parts(
            "photos",
            vec![StoredPart { key: "long".to_owned(), order: 4, offset: 0, bytes: 99 }],
        )
        .await;
    assert_eq!(found.unwrap()[0].1, "hellothere");
}

#[tokio::test]
async fn versions_whose_bodies_have_another_length_do_not_come() {
    use varve_object::PartEntry;
    let target = arriving().await;
    let part = |size| PartEntry { number: 1, size, checksum: Vec::new() };
    let in_parts = |sizes: &[u64]| {
        let parts = sizes.iter().map(|size| part(*size)).collect();
        Attributes { parts, ..Attributes::default() }.encode()
    };
    let whole = Version { size: 5, ..version(1) };
    let marker = Version { marker: true, ..whole.clone() };
    let wrong = [
        Version { size: 4, ..whole.clone() },
        Version { size: 6, ..whole.clone() },
        Version { attributes: in_parts(&[4]), ..whole.clone() },
        Version { attributes: in_parts(&[u64::MAX, 6]), ..whole.clone() },
        marker,
    ];
    let invalid = async |version: &Version, body: ReceivedBody| {
        let (key, version) = ("long".to_owned(), version.clone());
        let refused = receive(&target, vec![ArrivingChange::Put { key, version, body }]).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    };
    for version in &wrong {
        invalid(version, ReceivedBody::Bytes(Bytes::from_static(b"hello"))).await;
        let piece = NextPiece { total_bytes: 5, ..piece(None, 0, b"hello") };
        let id = target.stage("photos", piece).await.unwrap().id;
        invalid(version, ReceivedBody::Staged(id)).await;
    }
    assert!(orders(&target, "long").await.is_empty());
    let version = Version { attributes: in_parts(&[2, 3]), ..whole };
    let body = ReceivedBody::Bytes(Bytes::from_static(b"hello"));
    receive(&target, vec![ArrivingChange::Put { key: "long".to_owned(), version, body }])
        .await
        .unwrap();
}

#[tokio::test]
async fn staged_bodies_are_few_and_end_with_the_run() {
    let target = arriving().await;
    let mut begun = Vec::new();
    for _ in 0..64 {
        begun.push(target.stage("photos", piece(None, 0, b"hello")).await.unwrap().id);
    }
    target.stage("photos", piece(Some(begun[0]), 5, b"t")).await.unwrap();
    target.stage("photos", piece(None, 0, b"hello")).await.unwrap();
    conflict(target.stage("photos", piece(Some(begun[1]), 5, b"there")).await);
    target.stage("photos", piece(Some(begun[0]), 6, b"here")).await.unwrap();
    for id in &begun[2..] {
        target.stage("photos", piece(Some(*id), 5, b"there")).await.unwrap();
    }
    let other = Move { run: MigrationRunId([2; 16]), ..moves(MoveState::Arriving) };
    let step = MoveStep {
        before: Some(moves(MoveState::Arriving)),
        after: Some(other.clone()),
        bucket: None,
    };
    target.move_bucket("photos", step).await.unwrap();
    conflict(target.stage("photos", piece(None, 0, b"hello")).await);
    let of_other = NextPiece { expects: other, ..piece(None, 0, b"hello") };
    target.stage("photos", of_other).await.unwrap();
}

#[tokio::test]
async fn a_body_that_begins_while_its_bucket_takes_a_step_is_dropped() {
    let target = arriving().await;
    let inner = &target.inner;
    let bucket = inner.store.bucket("photos").await.unwrap().id;
    let begun = piece(None, 0, b"");
    let slot = inner.staged.begin(&*inner.store, bucket, &begun).await.unwrap();
    let (before, after) = (moves(MoveState::Arriving), moves(MoveState::Left));
    let step = MoveStep { before: Some(before), after: Some(after), bucket: None };
    target.move_bucket("photos", step).await.unwrap();
    conflict(inner.staged.enter_for(&*inner.store, "photos", slot).await);
    assert_eq!(inner.staged.len(), 0);
}

#[tokio::test]
async fn bodies_that_are_too_long_do_not_begin() {
    let target = arriving().await;
    let longest = 10_000 * ((5 << 30) + (5 << 30) / 4096 + 8);
    let of = |total_bytes| NextPiece { total_bytes, ..piece(None, 0, b"hello") };
    target.stage("photos", of(longest)).await.unwrap();
    for total_bytes in [longest + 1, u64::MAX] {
        let refused = target.stage("photos", of(total_bytes)).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn pages_of_versions_have_all_of_them_and_end_early_where_they_are_long() {
    let target = arriving().await;
    let attributes = Attributes {
        metadata: vec![("long".to_owned(), "x".repeat(100_000))],
        ..Attributes::default()
    };
    let long = |order| Version { attributes: attributes.encode(), size: 0, ..version(order) };
    let mut all = Vec::new();
    for key in 0..10 {
        for order in 1..=5 {
            let (key, version) = (format!("k{key}"), long(order));
            all.push((key.clone(), order));
            let body = ReceivedBody::Bytes(Bytes::new());
            receive(&target, vec![ArrivingChange::Put { key, version, body }]).await.unwrap();
        }
    }
    all.sort_by_key(|(key, order)| (key.clone(), u64::MAX - order));
    for limit in [1, 7, 1000] {
        let (mut after, mut found, mut pages) = (None, Vec::new(), 0);
        loop {
            let query = VersionQuery { key: None, after, limit };
            let (versions, more) = target.versions("photos", query).await.unwrap();
            pages += 1;
            let bytes: usize = versions.iter().map(|(_, v)| v.attributes.len() * 4 / 3).sum();
            assert!(bytes <= 4 << 20 && versions.len() <= limit);
            found.extend(versions.into_iter().map(|(key, version)| (key, version.order)));
            after = found.last().map(|(key, order)| (key.clone(), Some(*order)));
            if !more {
                break;
            }
        }
        assert_eq!(found, all);
        assert!(pages > 1, "the page of {limit} ended early");
    }
}

#[tokio::test]
async fn changes_are_told_until_they_are_known_to_be_heard() {
    let pool = Pool::new().await;
    let ask = async |since: Option<&str>| pool.gateway.changes("photos", since).await.unwrap();
    pool.put("before", "x").await;
    let begun = ask(None).await;
    assert!(!begun.whole && begun.keys.is_empty());
    pool.put("a", "1").await;
    pool.put("b", "1").await;
    pool.put("a", "2").await;
    let told = ask(Some(&begun.token)).await;
    assert_eq!(told.keys, ["b", "a"]);
    assert_eq!(ask(Some(&begun.token)).await, told, "an answer that was lost is told again");
    pool.put("c", "1").await;
    let tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    assert_eq!(pool.ask(Method::PUT, "/photos?tagging", tags).await.0 / 100, 2);
    let next = ask(Some(&told.token)).await;
    assert_eq!((next.keys.as_slice(), next.settings_changed), (&["c".to_owned()][..], true));
    let none = ask(Some(&next.token)).await;
    assert!(none.keys.is_empty() && !none.settings_changed && !none.whole);
    for unknown in ["", "x", "x-1", &format!("{}9", none.token)] {
        assert!(ask(Some(unknown)).await.whole, "{unknown}");
    }
    assert!(ask(Some(&none.token)).await.whole, "another noting has begun");
}

#[tokio::test]
async fn whoever_began_to_note_is_told_of_what_changes_or_that_it_is_not_known() {
    let pool = Pool::new().await;
    let inner = &pool.gateway.inner;
    let bucket = inner.store.bucket("photos").await.unwrap().id;
    for round in 0..12 {
        if let Some(notes) = inner.noting.of(bucket) {
            notes.end(); // Who tidies takes it out.
        }
        let one = async |number: usize| {
            if number == round % 3 {
                tidy(inner).await;
                return None;
            }
            Some(pool.gateway.changes("photos", None).await.unwrap().token)
        };
        let tokens = futures_util::future::join_all((0..3).map(one)).await;
        let same = Box::new(|record: Option<&Bytes>| Ok(record.cloned()));
        inner.store.change_bucket("photos", same).await.unwrap();
        let notes = inner.noting.of(bucket).expect("one was begun");
        let known: Vec<_> =
            tokens.iter().flatten().filter_map(|token| notes.since(token)).collect();
        assert_eq!(known.len(), 1, "round {round}: that of the last one");
        assert!(known[0].settings_changed, "round {round}: nobody was told");
    }
}

#[tokio::test]
async fn too_many_changes_are_no_longer_known() {
    let pool = Pool::new().await;
    let begun = pool.gateway.changes("photos", None).await.unwrap();
    let bucket = pool.gateway.inner.store.bucket("photos").await.unwrap().id;
    let notes = pool.gateway.inner.noting.of(bucket).unwrap();
    let note = |number: usize| notes.note(Some(&format!("key {number}")));
    (0..100_000).for_each(note);
    let told = pool.gateway.changes("photos", Some(&begun.token)).await.unwrap();
    assert_eq!((told.whole, told.keys.len()), (false, 100_000));
    note(100_000);
    let over = pool.gateway.changes("photos", Some(&begun.token)).await.unwrap();
    assert!(over.whole && over.keys.is_empty());
    pool.put("a", "1").await;
    let next = pool.gateway.changes("photos", Some(&over.token)).await.unwrap();
    assert_eq!(next.keys, ["a"], "what changes from then on is noted");
}

#[tokio::test]
async fn what_is_noted_of_all_buckets_has_its_bounds() {
    let pool = Pool::new().await;
    let names = ["photos", "films", "papers"];
    let begin = async |name: &str| pool.gateway.changes(name, None).await.unwrap().token;
    let notes_of = async |name: &str| {
        let bucket = pool.gateway.inner.store.bucket(name).await.unwrap().id;
        pool.gateway.inner.noting.of(bucket).unwrap()
    };
    let fill = async |name: &str| {
        let notes = notes_of(name).await;
        let key = |number: usize| format!("{number:01000}");
        (0..11_000).for_each(|number| notes.note(Some(&key(number))));
    };
    let mut tokens = Vec::new();
    for name in names {
        if name != "photos" {
            let new = NewBucket { name: name.to_owned(), ..NewBucket::default() };
            pool.gateway.create_bucket(new).await.unwrap();
        }
        tokens.push(begin(name).await);
        fill(name).await;
    }
    let told = async |name: &str, token: &str| {
        notes_of(name).await.since(token).map(|told| (told.keys.len(), told.token))
    };
    let (first, heard) = told(names[0], &tokens[0]).await.unwrap();
    assert_eq!((first, told(names[1], &tokens[1]).await.unwrap().0), (11_000, 11_000));
    assert_eq!(told(names[2], &tokens[2]).await, None, "there was no room for it");
    assert_eq!(told(names[0], &heard).await.unwrap().0, 0, "what was heard takes no room");
    let again = begin(names[2]).await;
    fill(names[2]).await;
    assert_eq!(told(names[2], &again).await.unwrap().0, 11_000);
    let again = begin(names[0]).await;
    fill(names[0]).await;
    assert_eq!(told(names[0], &again).await, None);
    begin(names[1]).await; // The noting before is dropped, with what it takes.
    let again = begin(names[0]).await;
    fill(names[0]).await;
    assert_eq!(told(names[0], &again).await.unwrap().0, 11_000);
}

#[tokio::test]
async fn a_bucket_comes_whole_while_its_clients_change_it() {
    let pool = Pool::new().await;
    for number in 0..20 {
        pool.put(&format!("k{}", number % 7), &"x".repeat(number * 1000)).await;
    }
    let target = arriving().await;
    let source = &pool.gateway;
    let mut changes = source.changes("photos", None).await.unwrap();
    let mut keys: Vec<String> = (0..7).map(|number| format!("k{number}")).collect();
    for round in 0..4 {
        if round == 3 {
            pool.step(None, Some(moves(MoveState::Leaving))).await;
            changes = source.changes("photos", Some(&changes.token)).await.unwrap();
            keys.clone_from(&changes.keys);
        }
        for key in std::mem::take(&mut keys) {
            copy(source, &target, &key).await;
        }
        if round < 3 {
            pool.put(&format!("k{round}"), "later").await;
            assert_eq!(pool.ask(Method::DELETE, "/photos/k5", "").await.0, 204);
        }
        if round < 2 {
            changes = source.changes("photos", Some(&changes.token)).await.unwrap();
            keys.clone_from(&changes.keys);
        }
    }
    let all = async |of: &Gateway| -> BTreeMap<(String, u64), (Bytes, Bytes)> {
        let query = VersionQuery { key: None, after: None, limit: 1000 };
        let mut found = BTreeMap::new();
        for (key, version) in of.versions("photos", query).await.unwrap().0 {
            let bucket = of.inner.store.bucket("photos").await.unwrap().id;
            let select = Select::Order(version.order);
            let body = of.inner.store.find(bucket, &key, select).await.unwrap().unwrap().body;
            let part =
                StoredPart { key: key.clone(), order: version.order, offset: 0, bytes: body.len() };
            let bytes = of.read_parts("photos", vec![part]).await.unwrap().remove(0).1;
            found.insert((key, version.order), (version.attributes, bytes));
        }
        found
    };
    let (there, here) = (all(source).await, all(&target).await);
    assert!(there == here && here.len() > 20);
}

/// Makes a key at the target what it is at the source.
async fn copy(source: &Gateway, target: &Gateway, key: &str) {
    for order in orders(target, key).await {
        receive(target, vec![remove(key, order)]).await.unwrap();
    }
    let query = VersionQuery { key: Some(key.to_owned()), after: None, limit: 1000 };
    for (key, version) in source.versions("photos", query).await.unwrap().0.into_iter().rev() {
        let part = StoredPart { key: key.clone(), order: version.order, offset: 0, bytes: 1 << 20 };
        let body = source.read_parts("photos", vec![part]).await.unwrap().remove(0).1;
        let body = ReceivedBody::Bytes(body);
        receive(target, vec![ArrivingChange::Put { key, version, body }]).await.unwrap();
    }
}

#[tokio::test]
async fn users_and_keys_come_where_secrets_are_sealed_with_the_same_key() {
    let (source, target, other) = (gateway(7).await, gateway(7).await, gateway(9).await);
    let ann = User { id: "ann".to_owned(), ..User::default() };
    let key = source.users().create_with_key(ann, None).await.unwrap();
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let page = source.users_and_keys(after.as_deref()).await.unwrap();
        after.clone_from(&page.next);
        pages.push(page);
        if after.is_none() {
            break;
        }
    }
    let refused = other.add_users_and_keys(&source.key_check(), pages[0].clone()).await;
    conflict(refused);
    let refused = other.add_users_and_keys(&other.key_check(), pages[1].clone()).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "a secret that it cannot open");
    let mut added = AddedUsers::default();
    for page in pages.clone() {
        let more = target.add_users_and_keys(&source.key_check(), page).await.unwrap();
        added.users.extend(more.users);
        added.keys.extend(more.keys);
        added.kept.extend(more.kept);
    }
    assert_eq!((added.users, added.keys.len()), (vec!["ann".to_owned()], 2));
    let (user, secret) = target.users().by_key(&key.access_key).unwrap();
    assert_eq!((user.user.id.as_str(), &*secret), ("ann", key.secret_key.as_str()));
    let again = target.add_users_and_keys(&source.key_check(), pages[1].clone()).await.unwrap();
    assert_eq!(again, AddedUsers::default(), "they are there, and the same");
    let change = |user: &mut User| user.quota_bytes = 5;
    target.users().change("ann", change).await.unwrap();
    let again = target.add_users_and_keys(&source.key_check(), pages[0].clone()).await.unwrap();
    assert!(again.kept.contains(&"ann".to_owned()) && again.users.is_empty());
    assert_eq!(target.users().get("ann").unwrap().quota_bytes, 5);
    assert!(source.users_and_keys(Some("elsewhere")).await.is_err());
}

#[tokio::test]
async fn users_that_are_there_find_room_where_there_is_none_for_new_ones() {
    let store = Arc::new(MemoryStore::default());
    let user = |id: String| {
        let record = User { id: id.clone(), ..User::default() }.encode();
        (id, record)
    };
    for number in 0..crate::identity::users::USERS_MAX {
        let (id, record) = user(format!("user-{number}"));
        let put = Box::new(move |_: Option<&Bytes>| Ok(Some(record)));
        store.change_record(RecordTable::User, &id, put).await.unwrap();
    }
    let opened = Gateway::open(store, MasterKey::of([7; 32]), Options::default()).await;
    let target = opened.unwrap().gateway;
    let add = async |id: &str| {
        let all = StoredUsers { users: vec![user(id.to_owned())], ..StoredUsers::default() };
        target.add_users_and_keys(&target.key_check(), all).await
    };
    assert_eq!(add("user-5").await.unwrap(), AddedUsers::default());
    assert!(matches!(add("ann").await, Err(Error::Invalid { .. })));
}
