//! What buckets are set to counts for the objects written from then on, on all shards. Method: equal bodies under keys
//! of both shards, and what the pool stores of them.

use bytes::Bytes;
use varve_object::{BucketId, BucketOptions, NewBody, ObjectStore, Select, Settings};
use varve_types::{Compression, Dedup};

use crate::changes::{data, replace};
use crate::rig::{Life, Rig, bytes_of};

const LANE: u64 = 16 << 20;
const LEN: usize = 2 << 20;
const BLOCKS: u64 = (LEN / 4096) as u64;

/// Blocks that differ, and compress to a fraction.
fn compressible(seed: u64) -> Bytes {
    let mut bytes = data(LEN, seed).to_vec();
    bytes.chunks_exact_mut(4096).for_each(|block| block[64..].fill(b'v'));
    bytes.into()
}

async fn put(life: &Life, bucket: BucketId, key: &str, data: &Bytes) {
    let mut writer = life.store.stage(bucket, key, data.len() as u64).await.expect("works");
    writer.write(data.clone()).await.expect("works");
    let body = NewBody::Staged(writer.finish().await.expect("works"));
    life.store.change_key(bucket, key, None, body, replace(data.len())).await.expect("works");
}

async fn bucket(life: &Life, name: &str, settings: Settings, private_copy: bool) -> BucketId {
    let options = BucketOptions { private_copy };
    life.store.create_bucket(name, options, settings.encode()).await.expect("works").id
}

fn deduplicated() -> Settings {
    Settings { dedup: Some(Dedup::On), compression: Some(Compression::Off), ..Settings::default() }
}

#[test]
fn equal_objects_are_stored_once_where_the_bucket_says_so() {
    let mut rig = Rig::new(LANE);
    rig.live(async |life: Life| {
        let data = data(LEN, 1);
        let once = bucket(&life, "once", deduplicated(), false).await;
        for at in 0..6 {
            put(&life, once, &format!("key-{at}"), &data).await;
        }
        let (chunks, _) = life.stored().await;
        assert!(chunks < BLOCKS + BLOCKS / 20, "{chunks} chunks for {BLOCKS} blocks");
        let off = Settings { dedup: Some(Dedup::Off), ..Settings::default() };
        let plain = bucket(&life, "plain", off, false).await;
        let apart = bucket(&life, "apart", deduplicated(), true).await;
        for (copies, bucket) in [(1, plain), (2, apart)] {
            put(&life, bucket, "key", &data).await;
            let (now, _) = life.stored().await;
            assert!(now >= chunks + copies * BLOCKS, "stored once more: {now} of {chunks}");
        }
        for at in 0..6 {
            let found = life.store.find(once, &format!("key-{at}"), Select::Newest).await;
            let found = found.expect("works").expect("is there");
            assert!(bytes_of(&*found.body).await.expect("works") == data);
        }
    });
    rig.live(async |life: Life| {
        let (data, once) = (data(LEN, 2), life.store.bucket("once").await.expect("works").id);
        put(&life, once, "first", &data).await;
        let before = life.stored().await.0;
        put(&life, once, "second", &data).await;
        let after = life.stored().await.0;
        assert!(after < before + BLOCKS / 20, "an opening reads the setting: {before}, {after}");
    });
}

#[test]
fn a_change_counts_for_what_is_written_after_it() {
    Rig::new(LANE).live(async |life: Life| {
        let off = Settings { compression: Some(Compression::Off), ..Settings::default() };
        let id = bucket(&life, "b", off, false).await;
        put(&life, id, "raw", &compressible(1)).await;
        let (_, raw) = life.stored().await;
        assert!(raw >= LEN as u64, "{raw}");
        let to = |compression| {
            let settings = Settings { compression: Some(compression), ..deduplicated() };
            let record = settings.encode();
            life.store.change_bucket("b", Box::new(move |_| Ok(Some(record))))
        };
        for (at, compression) in [(2, Compression::Lz4), (3, Compression::Zstd(3))] {
            to(compression).await.expect("works");
            let before = life.stored().await.1;
            put(&life, id, &format!("key-{at}"), &compressible(at)).await;
            let more = life.stored().await.1 - before;
            assert!(more < LEN as u64 / 2, "{compression}: {more}");
        }
        to(Compression::Off).await.expect("works");
        let before = life.stored().await.1;
        put(&life, id, "raw again", &compressible(9)).await;
        assert!(life.stored().await.1 >= before + LEN as u64);
    });
}
