//! Listings of keys that are changed meanwhile.

use bytes::Bytes;
use futures_util::future::join3;
use varve_object::{
    BucketId, BucketOptions, ChangeKey, Item, KeyChange, ListQuery, NewBody, ObjectStore, Version,
};

use crate::rig::{Life, Rig};

const LANE: u64 = 16 << 20;
const ROUNDS: u64 = 60;

/// Adds a version whose attributes do not fit its record.
fn add() -> ChangeKey {
    Box::new(|view| {
        let version = Version {
            order: view.newest.as_ref().map_or(1, |newest| newest.order + 1),
            null: false,
            marker: false,
            size: 0,
            modified_ms: 0,
            attributes: vec![7; 3000].into(),
        };
        Ok(KeyChange { put: Some(version), ..KeyChange::default() })
    })
}

async fn put(life: &Life, bucket: BucketId) {
    let body = NewBody::Small(Bytes::new());
    life.store.change_key(bucket, "key", None, body, add()).await.expect("works");
}

/// The orders of all versions, as they are listed.
async fn listed(life: &Life, bucket: BucketId) -> Vec<u64> {
    let query = ListQuery { limit: 1000, versions: true, ..ListQuery::default() };
    let page = life.store.list(bucket, &query).await.expect("works");
    let order = |item: &Item| match item {
        Item::Version { version, .. } => version.order,
        Item::Group(_) => panic!("no groups"),
    };
    page.items.iter().map(order).collect()
}

#[test]
fn versions_stay_listed_while_others_join_them() {
    Rig::new(LANE).live(async |life: Life| {
        let bucket = life.store.create_bucket("b", BucketOptions::default(), Bytes::new()).await;
        let bucket = bucket.expect("works").id;
        put(&life, bucket).await;
        for round in 0..ROUNDS {
            let (one, another) = (put(&life, bucket), put(&life, bucket));
            let ((), orders, ()) = join3(one, listed(&life, bucket), another).await;
            let newest = orders[0];
            assert!(newest > 2 * round, "{newest} in round {round}");
            assert_eq!(orders, (1..=newest).rev().collect::<Vec<_>>(), "round {round}");
        }
    });
}
