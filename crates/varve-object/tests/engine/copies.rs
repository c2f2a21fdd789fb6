//! Copies within a bucket share bytes with what they were copied from, on whatever shards both are, for as long as one
//! of them is there.

use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use varve_object::{
    Body, BucketId, BucketOptions, NewBody, ObjectStore, PartRef, Select, UploadPart,
};

use futures_util::future::{Either, select};
use varve_types::ShardId;

use crate::changes::{data, remove, replace};
use crate::rig::{Life, Rig, bytes_of};

const LANE: u64 = 16 << 20;
const MIB: usize = 1 << 20;
const LEN: usize = 3 * MIB + 5000;
const BLOCKS: u64 = LEN.div_ceil(4096) as u64;

struct Copying {
    life: Life,
    bucket: BucketId,
}

impl Copying {
    async fn begin(life: Life) -> Self {
        let made = life.store.create_bucket("b", BucketOptions::default(), Bytes::new()).await;
        Self { bucket: made.expect("works").id, life }
    }

    async fn again(life: Life) -> Self {
        Self { bucket: life.store.bucket("b").await.expect("works").id, life }
    }

    async fn staging(&self, key: &str, data: &Bytes) -> NewBody {
        let staged = self.life.store.stage(self.bucket, key, data.len() as u64).await;
        let mut writer = staged.expect("works");
        writer.write(data.clone()).await.expect("works");
        NewBody::Staged(writer.finish().await.expect("works"))
    }

    async fn write(&self, key: &str, data: &Bytes) {
        let body = self.staging(key, data).await;
        self.take(key, body, data.len()).await;
    }

    async fn take(&self, key: &str, body: NewBody, len: usize) {
        let changed = self.life.store.change_key(self.bucket, key, None, body, replace(len)).await;
        changed.expect("works");
    }

    async fn body(&self, key: &str) -> Arc<dyn Body> {
        let found = self.life.store.find(self.bucket, key, Select::Newest).await;
        found.expect("works").expect("is there").body
    }

    async fn staged(&self, from: &str, range: std::ops::Range<usize>, to: &str) -> NewBody {
        let source = self.body(from).await;
        let range = range.start as u64..range.end as u64;
        let copy = self.life.store.stage_copy(self.bucket, to, &*source, range).await;
        NewBody::Staged(copy.expect("works"))
    }

    async fn copy(&self, from: &str, to: &str, len: usize) {
        let body = self.staged(from, 0..len, to).await;
        self.take(to, body, len).await;
    }

    /// An object of ranges of others.
    async fn compose(&self, key: &str, ranges: &[(&str, std::ops::Range<usize>)]) {
        let store = &self.life.store;
        let upload = store.create_upload(self.bucket, key, 0, Bytes::new()).await;
        let upload = upload.expect("works").id;
        let (mut parts, mut total) = (Vec::new(), 0);
        for (number, (from, range)) in (1..).zip(ranges) {
            let body = self.staged(from, range.clone(), key).await;
            let part = UploadPart {
                number,
                generation: 0,
                size: range.len() as u64,
                modified_ms: 0,
                attributes: Bytes::new(),
            };
            total += range.len();
            let part = store.put_part(self.bucket, key, upload, part, body).await.expect("works");
            parts.push(PartRef { number, generation: part.generation });
        }
        self.take(key, NewBody::Parts { upload, parts }, total).await;
    }

    async fn remove(&self, key: &str) {
        let body = NewBody::Small(Bytes::new());
        self.life.store.change_key(self.bucket, key, None, body, remove()).await.expect("works");
    }

    #[track_caller]
    fn is(&self, key: &str, expected: Bytes) -> impl Future<Output = ()> {
        let key = key.to_owned();
        async move {
            let body = self.body(&key).await;
            assert_eq!(body.len(), expected.len() as u64, "{key}");
            assert!(bytes_of(&*body).await.expect("works") == expected, "bytes of {key}");
        }
    }

    /// A name whose shard is that one.
    fn on(&self, shard: u16) -> String {
        let home = |name: &String| self.life.home(self.bucket, name) == ShardId(shard);
        (0..).map(|at| format!("name-{at}")).find(home).expect("some are on each shard")
    }

    async fn blocks_on(&self, shard: u16) -> u64 {
        self.life.blocks_on(ShardId(shard), self.bucket.0).await
    }

    async fn left(&self) -> (u64, usize) {
        self.life.rest().await;
        self.life.left(self.bucket.0).await
    }
}

fn names() -> Vec<String> {
    (0..8).map(|at| format!("copy-{at}")).collect() // Some are on each shard.
}

#[test]
fn copies_share_bytes_until_the_last_of_them_goes() {
    Rig::new(LANE).live(async |life: Life| {
        let copying = Copying::begin(life).await;
        let data = data(LEN, 1);
        copying.write("source", &data).await;
        let mut from = "source".to_owned();
        for to in names() {
            copying.copy(&from, &to, LEN).await;
            from = to; // Copies of copies.
        }
        assert_eq!(copying.left().await.0, BLOCKS, "no block more");
        copying.remove("source").await;
        copying.write("copy-3", &Bytes::from_static(b"other")).await;
        assert_eq!(copying.left().await.0, BLOCKS + 1);
        for name in names().iter().filter(|name| *name != "copy-3") {
            copying.is(name, data.clone()).await;
            copying.remove(name).await;
        }
        assert_eq!(copying.left().await.0, 1, "the bytes go with the last of them");
        copying.remove("copy-3").await;
        assert_eq!(copying.left().await, (0, 0));
    });
}

#[test]
fn copies_outlive_crashes_and_their_source() {
    let mut rig = Rig::new(LANE);
    rig.live(async |life: Life| {
        let copying = Copying::begin(life).await;
        copying.write("source", &data(LEN, 1)).await;
        for to in names() {
            copying.copy("source", &to, LEN).await;
        }
        copying.remove("source").await;
    });
    rig.live(async |life: Life| {
        let copying = Copying::again(life).await;
        assert_eq!(copying.left().await.0, BLOCKS);
        for name in names() {
            copying.is(&name, data(LEN, 1)).await;
            copying.remove(&name).await;
        }
    });
    rig.live(async |life: Life| {
        assert_eq!(Copying::again(life).await.left().await, (0, 0));
    });
}

#[test]
fn copies_that_nobody_takes_are_given_back_also_after_a_crash() {
    let mut rig = Rig::new(LANE);
    rig.live(async |life: Life| {
        let copying = Copying::begin(life).await;
        copying.write("source", &data(LEN, 1)).await;
        let (_, keys) = copying.left().await;
        for to in names() {
            drop(copying.staged("source", 0..LEN, &to).await);
        }
        assert_eq!(copying.left().await, (BLOCKS, keys));
        for to in names() {
            std::mem::forget(copying.staged("source", 0..LEN, &to).await); // As if cut off.
        }
        assert!(copying.left().await.1 > keys);
    });
    rig.live(async |life: Life| {
        let copying = Copying::again(life).await;
        assert_eq!(copying.left().await, (BLOCKS, 1));
        copying.remove("source").await;
        assert_eq!(copying.left().await, (0, 0));
    });
}

#[test]
fn parts_share_bytes_with_ranges_of_objects() {
    Rig::new(LANE).live(async |life: Life| {
        let copying = Copying::begin(life).await;
        let (one, two) = (data(LEN, 1), data(LEN, 2));
        copying.write("one", &one).await;
        copying.write("two", &two).await;
        let ranges = [("one", 1234..2 * MIB), ("two", MIB..LEN), ("one", 0..2 * MIB)];
        copying.compose("both", &ranges).await;
        let all = [&one[1234..2 * MIB], &two[MIB..], &one[..2 * MIB]].concat();
        copying.is("both", all.clone().into()).await;
        assert_eq!(copying.left().await.0, 2 * BLOCKS);
        // All parts, and one of them.
        let within = 0..2 * MIB - 1234;
        copying.compose("again", &[("both", 0..all.len()), ("both", within.clone())]).await;
        copying.copy("again", "copy", all.len() + within.len()).await;
        for gone in ["one", "two", "both", "again"] {
            copying.remove(gone).await;
        }
        assert_eq!(copying.left().await.0, 2 * BLOCKS);
        let expected = [&all, &all[within]].concat();
        copying.is("copy", expected.into()).await;
        copying.remove("copy").await;
        assert_eq!(copying.left().await, (0, 0));
    });
}

#[test]
fn what_would_lie_too_deep_is_copied_byte_by_byte() {
    Rig::new(LANE).live(async |life: Life| {
        let copying = Copying::begin(life).await;
        let mut expected = data(MIB, 1);
        copying.write("at-0", &expected).await;
        let rounds = 20;
        for at in 0..rounds {
            let (from, to) = (format!("at-{at}"), format!("at-{}", at + 1));
            // Each lies over the border of the parts of the one before.
            let ranges = [(from.as_str(), 0..expected.len()), (&from, 0..1000)];
            copying.compose(&to, &ranges).await;
            expected = [&expected[..], &expected[..1000]].concat().into();
            copying.remove(&from).await;
            copying.is(&to, expected.clone()).await;
        }
        assert!(copying.left().await.0 < 3 * MIB as u64 / 4096);
        copying.remove(&format!("at-{rounds}")).await;
        assert_eq!(copying.left().await, (0, 0));
    });
}

#[test]
fn a_copy_that_is_read_outlives_its_removal() {
    Rig::new(LANE).live(async |life: Life| {
        let copying = Copying::begin(life).await;
        copying.write("source", &data(LEN, 1)).await;
        for to in names() {
            copying.copy("source", &to, LEN).await;
            let body = copying.body(&to).await;
            copying.remove(&to).await;
            copying.life.rest().await;
            assert!(bytes_of(&*body).await.expect("works") == data(LEN, 1));
            if to == "copy-7" {
                copying.remove("source").await;
                copying.life.rest().await;
                assert!(bytes_of(&*body).await.expect("works") == data(LEN, 1));
            }
        }
        assert_eq!(copying.left().await, (0, 0));
    });
}

#[test]
fn what_is_copied_pins_no_more_than_twice_its_length() {
    Rig::new(LANE).live(async |life: Life| {
        let copying = Copying::begin(life).await;
        let data = data(LEN, 1);
        copying.write("source", &data).await;
        let tenth = LEN / 10;
        let ranges = [("source", 0..tenth), ("source", 0..LEN / 2 + 1), ("source", tenth..LEN)];
        copying.compose("both", &ranges).await;
        let blocks = tenth.div_ceil(4096) as u64;
        assert_eq!(copying.left().await.0, BLOCKS + blocks, "a tenth is copied, halves are not");
        // Most of a part that shares bytes, and most of an object with such parts.
        let half = LEN / 2 + 1;
        copying.compose("again", &[("both", tenth + 5..tenth + half), ("both", tenth..LEN)]).await;
        let copied = [half - 5, LEN - tenth].map(|len| len.div_ceil(4096) as u64);
        let all = BLOCKS + blocks + copied[0] + copied[1];
        assert_eq!(copying.left().await.0, all, "shared bytes are shared again in whole only");
        for name in ["source", "both"] {
            copying.remove(name).await;
        }
        assert_eq!(copying.left().await.0, copied[0] + copied[1]);
        copying.remove("again").await;
        assert_eq!(copying.left().await, (0, 0));
    });
}

/// Two shards have two journals: the removal of a copy on one is undone by a crash while what the other did meanwhile
/// is not.
#[test]
fn a_copy_whose_removal_is_undone_keeps_its_bytes() {
    let mut rig = Rig::new(LANE);
    rig.live(async |life: Life| {
        let copying = Copying::begin(life).await;
        let (taker, source) = (copying.on(0), copying.on(1));
        copying.write(&source, &data(LEN, 1)).await;
        copying.copy(&source, &taker, LEN).await;
        copying.remove(&source).await;
        assert_eq!(copying.left().await.0, BLOCKS);
        copying.life.stall(ShardId(0));
        let (removal, rest) = (pin!(copying.remove(&taker)), pin!(copying.life.rest()));
        let Either::Right(_) = select(removal, rest).await else {
            panic!("the removal is durable on a disk that stalls")
        };
    });
    rig.live(async |life: Life| {
        let copying = Copying::again(life).await;
        let taker = copying.on(0);
        assert_eq!(copying.left().await.0, BLOCKS);
        copying.is(&taker, data(LEN, 1)).await;
        copying.remove(&taker).await;
        assert_eq!(copying.left().await, (0, 0));
    });
}

/// A shard that answers nothing keeps what was shared with it, and nothing else.
#[test]
fn what_waits_for_one_shard_does_not_delay_what_another_frees() {
    Rig::new(LANE).live(async |life: Life| {
        let copying = Copying::begin(life).await;
        let (here, there) = (copying.on(0), copying.on(1));
        copying.write(&there, &data(LEN, 1)).await;
        copying.copy(&there, &here, LEN).await;
        let before = copying.blocks_on(0).await;
        copying.life.stall(ShardId(1));
        copying.remove(&here).await; // Its reference cannot be given back now.
        copying.life.rest().await;
        for round in 0..3 {
            drop(copying.staging(&here, &data(LEN, 2 + round)).await);
            copying.life.rest().await;
            assert_eq!(copying.blocks_on(0).await, before, "what was staged is freed");
        }
    });
}
