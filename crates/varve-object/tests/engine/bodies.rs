//! What is read stays whole while its object goes, and what is cut off leaves nothing.

use bytes::Bytes;
use futures_util::StreamExt;
use varve_object::{BucketOptions, ChangeKey, NewBody, ObjectStore, Select, UploadPart};

use crate::changes::{data, remove, replace};
use crate::rig::{Life, Rig, bytes_of};

const LANE: u64 = 16 << 20;
const MIB: usize = 1 << 20;

async fn staged(life: &Life, bucket: varve_object::BucketId, data: &Bytes) -> NewBody {
    let mut writer = life.store.stage(bucket, "key", data.len() as u64).await.expect("works");
    for piece in data.chunks(100_000) {
        writer.write(Bytes::copy_from_slice(piece)).await.expect("works");
    }
    NewBody::Staged(writer.finish().await.expect("works"))
}

#[test]
fn a_body_that_is_read_outlives_its_object() {
    Rig::new(LANE).live(async |life: Life| {
        let bucket = life.store.create_bucket("b", BucketOptions::default(), Bytes::new()).await;
        let bucket = bucket.expect("works").id;
        let old = data(5 * MIB, 1);
        let body = staged(&life, bucket, &old).await;
        life.store.change_key(bucket, "key", None, body, replace(old.len())).await.expect("works");
        let found =
            life.store.find(bucket, "key", Select::Newest).await.expect("works").expect("works");
        let mut pieces = found.body.read(0..found.body.len());
        let mut read = pieces.next().await.expect("works").expect("works").to_vec();
        let new = data(3 * MIB, 2);
        let body = staged(&life, bucket, &new).await;
        life.store.change_key(bucket, "key", None, body, replace(new.len())).await.expect("works");
        life.rest().await;
        while let Some(piece) = pieces.next().await {
            read.extend_from_slice(&piece.expect("works"));
        }
        assert!(read == old, "what was read is what was there");
        drop((pieces, found));
        life.rest().await;
        assert_eq!(
            life.left(bucket.0).await,
            ((new.len() / 4096) as u64, 1),
            "the old one is gone"
        );
        let found =
            life.store.find(bucket, "key", Select::Newest).await.expect("works").expect("works");
        assert!(bytes_of(&*found.body).await.expect("works") == new);
        life.store
            .change_key(bucket, "key", None, NewBody::Small(Bytes::new()), remove())
            .await
            .expect("works");
        assert!(bytes_of(&*found.body).await.expect("works") == new, "it is still held");
        drop(found);
        life.rest().await;
        assert_eq!(life.left(bucket.0).await, (0, 0));
    });
}

#[test]
fn what_is_not_in_a_body_cannot_be_read() {
    Rig::new(LANE).live(async |life: Life| {
        let bucket = life.store.create_bucket("b", BucketOptions::default(), Bytes::new()).await;
        let bucket = bucket.expect("works").id;
        let body = staged(&life, bucket, &data(MIB, 1)).await;
        life.store.change_key(bucket, "key", None, body, replace(MIB)).await.expect("works");
        let found = life.store.find(bucket, "key", Select::Newest).await.expect("works");
        let (body, len) = (found.expect("works").body, MIB as u64);
        for (start, end) in [(0, len + 1), (len + 1, len + 2), (2, 1)] {
            let read: Vec<_> = body.read(std::ops::Range { start, end }).collect().await;
            assert!(matches!(read[..], [Err(varve_object::Error::Corrupt { .. })]), "{read:?}");
        }
        assert_eq!(body.read(len..len).count().await, 0);
    });
}

#[test]
fn bodies_that_nobody_takes_are_freed() {
    let mut rig = Rig::new(LANE);
    let bucket = rig.live(async |life: Life| {
        let bucket = life.store.create_bucket("b", BucketOptions::default(), Bytes::new()).await;
        let bucket = bucket.expect("works").id;
        let dropped = staged(&life, bucket, &data(3 * MIB, 1)).await;
        assert_eq!(life.left(bucket.0).await, (3 * 256, 1), "it is there, and an orphan");
        drop(dropped);
        life.rest().await;
        assert_eq!(life.left(bucket.0).await, (0, 0), "dropped");
        let mut writer = life.store.stage(bucket, "key", 8 << 30).await.expect("works");
        writer.write(data(2 * MIB + 5, 1)).await.expect("works");
        drop(writer);
        life.rest().await;
        assert_eq!(life.left(bucket.0).await, (0, 0), "given up");
        let failing: ChangeKey =
            Box::new(|_| Err(varve_object::Error::Condition { condition: "none" }));
        let body = staged(&life, bucket, &data(MIB, 2)).await;
        assert!(life.store.change_key(bucket, "key", None, body, failing).await.is_err());
        life.rest().await;
        assert_eq!(life.left(bucket.0).await, (0, 0), "refused");
        // Two that a crash cuts off: one whole, one half.
        std::mem::forget(staged(&life, bucket, &data(3 * MIB, 4)).await);
        let mut writer = life.store.stage(bucket, "other", 9 << 20).await.expect("works");
        writer.write(data(4 * MIB, 5)).await.expect("works");
        std::mem::forget(writer);
        life.rest().await;
        bucket
    });
    rig.live(async move |life: Life| {
        life.rest().await;
        assert_eq!(life.left(bucket.0).await, (0, 0), "found by the next opening");
    });
}

#[test]
fn an_upload_of_many_parts_becomes_a_body_and_goes() {
    let mut rig = Rig::new(LANE);
    let (bucket, upload) = rig.live(async |life: Life| {
        let bucket = life.store.create_bucket("b", BucketOptions::default(), Bytes::new()).await;
        let bucket = bucket.expect("works").id;
        let upload = life.store.create_upload(bucket, "key", 0, Bytes::new()).await.expect("works");
        for number in 1..=600_u16 {
            let bytes = data(5000, u64::from(number));
            let part = UploadPart {
                number,
                generation: 0,
                size: 5000,
                modified_ms: 0,
                attributes: Bytes::new(),
            };
            let body = NewBody::Small(bytes);
            life.store.put_part(bucket, "key", upload.id, part, body).await.expect("works");
        }
        (bucket, upload.id)
    });
    rig.live(async move |life: Life| {
        let parts = life.store.list_parts(bucket, "key", upload, 0, 10_000).await.expect("works");
        let named = parts
            .iter()
            .filter(|part| part.number % 3 != 0)
            .map(|part| varve_object::PartRef { number: part.number, generation: part.generation });
        let body = NewBody::Parts { upload, parts: named.collect() };
        life.store.change_key(bucket, "key", None, body, replace(2_000_000)).await.expect("works");
    });
    rig.live(async move |life: Life| {
        life.rest().await;
        assert_eq!(life.left(bucket.0).await, (800, 401), "the parts that are named");
        let found =
            life.store.find(bucket, "key", Select::Newest).await.expect("works").expect("works");
        let expected: Vec<u8> =
            (1..=600).filter(|n| n % 3 != 0).flat_map(|n| data(5000, n)).collect();
        assert!(bytes_of(&*found.body).await.expect("works") == expected);
        drop(found);
        let body = NewBody::Small(Bytes::new());
        life.store.change_key(bucket, "key", None, body, remove()).await.expect("works");
    });
    rig.live(async move |life: Life| {
        life.rest().await;
        assert_eq!(life.left(bucket.0).await, (0, 0));
    });
}
