//! Goal: a shard that is damaged when the store is opened takes nothing else with it, and what it may have is neither
//! missing nor made again. Method: buckets and records whose homes are on both shards, and lives in which the root of
//! one of them, or all that it wrote, cannot be read.

use bytes::Bytes;
use varve_object::{
    BucketId, BucketOptions, Error, NewBody, ObjectStore, RecordTable, Result, Select,
};
use varve_types::{ErrorKind, ShardId};

use crate::changes::replace_with;
use crate::rig::{Life, Rig};

const LANE: u64 = 16 << 20;

/// Enough of them for both shards to have some.
const NAMES: usize = 16;

fn names() -> impl Iterator<Item = String> {
    (0..NAMES).map(|number| format!("name-{number}"))
}

fn is_unread<T>(result: &Result<T>) -> bool {
    matches!(result, Err(Error::Unread { .. }))
}

/// Buckets, an object in each under every name, and users of these names.
async fn fill(life: &Life) -> Vec<BucketId> {
    let mut ids = Vec::new();
    for name in names() {
        let made = life.store.create_bucket(&name, BucketOptions::default(), Bytes::new()).await;
        let id = made.expect("works").id;
        for key in names() {
            let body = NewBody::Small(Bytes::new());
            let change = replace_with(0, Bytes::from_static(b"attributes"));
            life.store.change_key(id, &key, None, body, change).await.expect("works");
        }
        put_user(life, &name).await.expect("works");
        ids.push(id);
    }
    ids
}

async fn put_user(life: &Life, name: &str) -> Result<Option<Bytes>> {
    let record = Bytes::from(name.to_owned());
    life.store.change_record(RecordTable::User, name, Box::new(move |_| Ok(Some(record)))).await
}

async fn check_buckets(life: &Life, ids: &[BucketId], damaged: ShardId) {
    let (mut served, mut refused) = (Vec::new(), 0);
    for (name, id) in names().zip(ids) {
        let found = life.store.bucket(&name).await;
        if is_unread(&found) {
            let made = life.store.create_bucket(&name, BucketOptions::default(), Bytes::new());
            assert!(is_unread(&made.await));
            assert!(is_unread(&life.store.delete_bucket(&name).await));
            assert!(is_unread(&life.store.stored_bucket(&name).await));
            refused += 1;
            continue;
        }
        assert_eq!(found.expect("works").id, *id);
        for key in names() {
            let object = life.store.find(*id, &key, Select::Newest).await;
            match life.home(*id, &key) == damaged {
                true => assert_eq!(object.expect_err("it is there").kind(), ErrorKind::Unavailable),
                false => assert!(object.expect("works").is_some()),
            }
        }
        let change = Box::new(|_: Option<&Bytes>| Ok(Some(Bytes::from_static(b"\x01"))));
        life.store.change_bucket(&name, change).await.expect("works");
        assert!(is_unread(&life.store.delete_bucket(&name).await), "it may hold more");
        served.push(name);
    }
    assert!(!served.is_empty() && refused > 0, "{served:?} and {refused} others");
    let mut listed: Vec<String> = Vec::new();
    for bucket in life.store.list_buckets("", NAMES).await.expect("works") {
        listed.push(bucket.name.clone());
    }
    served.sort_unstable();
    assert_eq!(listed, served);
}

async fn check_sizes(life: &Life, ids: &[BucketId]) {
    for (name, id) in names().zip(ids) {
        let Err(error) = life.store.usage(*id).await else { panic!("{name} may hold more") };
        if life.store.bucket(&name).await.is_ok() {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
    }
}

async fn check_users(life: &Life) {
    let mut read = Vec::new();
    for name in names() {
        let found = life.store.record(RecordTable::User, &name).await;
        assert_eq!(
            is_unread(&found),
            life.store.check_record_read(RecordTable::User, &name).is_err()
        );
        if is_unread(&found) {
            assert!(is_unread(&put_user(life, &name).await));
        } else {
            assert_eq!(found.expect("works"), Some(Bytes::from(name.clone())));
            put_user(life, &name).await.expect("works");
            read.push(name);
        }
    }
    assert!(!read.is_empty() && read.len() < NAMES, "{read:?}");
    read.sort_unstable();
    let listed = life.store.list_records(RecordTable::User, "", NAMES).await.expect("works");
    assert_eq!(listed.into_iter().map(|(name, _)| name).collect::<Vec<_>>(), read);
}

#[test]
fn what_a_damaged_shard_may_have_is_neither_missing_nor_made_again() {
    for damaged in [0, 1].map(ShardId) {
        let mut rig = Rig::new(LANE);
        let ids = rig.live(async |life: Life| fill(&life).await);
        rig.flip_root(damaged);
        let known = ids.clone();
        rig.live(async move |life: Life| {
            assert!(is_unread(&life.store.check_all_read()));
            check_buckets(&life, &known, damaged).await;
            check_users(&life).await;
        });
        rig.flip_root(damaged);
        rig.live(async move |life: Life| {
            life.store.check_all_read().expect("all is whole");
            for (name, id) in names().zip(ids) {
                assert_eq!(life.store.bucket(&name).await.expect("works").id, id);
                for key in names() {
                    let object = life.store.find(id, &key, Select::Newest).await;
                    assert!(object.expect("works").is_some(), "{key} of {name}");
                }
                let user = life.store.record(RecordTable::User, &name).await.expect("works");
                assert_eq!(user, Some(Bytes::from(name)));
            }
        });
    }
}

#[test]
fn what_a_shard_has_that_opens_and_fails_to_be_read_is_unread_and_the_rest_is_served() {
    for failing in [0, 1].map(ShardId) {
        let mut rig = Rig::new(LANE);
        let ids = rig.live(async |life: Life| {
            let ids = fill(&life).await;
            life.close().await;
            ids
        });
        rig.live_unreadable(failing, async move |life: Life| {
            assert!(is_unread(&life.store.check_all_read()));
            check_buckets(&life, &ids, failing).await;
            check_sizes(&life, &ids).await;
            check_users(&life).await;
        });
        rig.live(async |life: Life| life.store.check_all_read().expect("all is whole"));
    }
}

#[test]
fn buckets_are_made_beside_a_damaged_shard_only_where_their_names_are_known_to_be_free() {
    let mut rig = Rig::new(LANE);
    rig.live(async |_: Life| ());
    rig.flip_root(ShardId(1));
    let made = rig.live(async |life: Life| {
        let mut made = Vec::new();
        for name in names() {
            match life.store.create_bucket(&name, BucketOptions::default(), Bytes::new()).await {
                Ok(bucket) => made.push((name, bucket.id)),
                Err(error) => assert!(matches!(error, Error::Unread { .. }), "{error}"),
            }
        }
        made
    });
    assert!(!made.is_empty() && made.len() < NAMES, "{made:?}");
    rig.flip_root(ShardId(1));
    rig.live(async move |life: Life| {
        for (name, id) in made {
            assert_eq!(life.store.bucket(&name).await.expect("works").id, id);
            life.store.delete_bucket(&name).await.expect("works");
        }
    });
}

#[test]
fn a_store_is_not_set_up_anew_while_a_shard_is_damaged() {
    for damaged in [0, 1].map(ShardId) {
        let mut rig = Rig::new(LANE);
        rig.flip_root(damaged);
        let refused = rig.refusal();
        assert!(matches!(refused, Error::Unread { .. }), "{refused}");
        rig.flip_root(damaged);
        rig.live(async |life: Life| life.store.check_all_read().expect("all is whole"));
    }
}

#[test]
fn a_store_is_not_set_up_anew_where_the_record_that_tells_of_it_cannot_be_read() {
    let mut rig = Rig::new(LANE);
    let ids = rig.live(async |life: Life| fill(&life).await);
    for spoilt in [0, 1].map(ShardId) {
        rig.live(async move |life: Life| life.spoil_owners(spoilt).await);
        let known = ids.clone();
        rig.live(async move |life: Life| {
            life.store.check_all_read().expect("the copy on the other shard tells");
            for (name, id) in names().zip(known) {
                assert_eq!(life.store.bucket(&name).await.expect("works").id, id);
            }
        });
    }
    rig.live(async |life: Life| {
        for shard in [0, 1].map(ShardId) {
            life.spoil_owners(shard).await;
        }
    });
    let refused = rig.refusal();
    assert!(matches!(refused, Error::Unread { .. }), "{refused}");
}
