//! The store on the engine does what the one in memory does, and still knows it after a crash; what goes leaves
//! nothing.
//!
//! Method: random calls to both, answers and listings compared; the loop is dropped between any two calls, and the
//! store opened anew.

use std::collections::BTreeMap;

use bytes::Bytes;
use varve_object::{
    Bucket, BucketId, BucketOptions, ChangeKey, ChangeRecord, Error, Item, KeyChange, KeyView,
    ListPage, ListQuery, Marker, MemoryStore, NewBody, ObjectStore, PartRef, RecordTable, Select,
    UploadId, UploadPart, Version,
};
use varve_stdx::Rng;

use crate::rig::{Life, Rig, bytes_of};

const NAMES: [&str; 2] = ["photos", "logs"];
const LENGTHS: [usize; 9] = [0, 1, 200, 256, 257, 4096, 9000, 65_536, 200_000];
const ATTRIBUTES: [usize; 5] = [0, 30, 700, 1500, 90_000];

/// Both stores, and what is called differently in them.
struct Pair {
    memory: MemoryStore,
    rng: Rng,
    order: u64,
    /// Uploads, by their numbers in memory: the number on the engine, bucket, key, and generations of parts in both.
    uploads: BTreeMap<u64, Uploading>,
}

struct Uploading {
    there: UploadId,
    bucket: &'static str,
    key: String,
    parts: BTreeMap<u16, [u64; 2]>,
}

fn bytes(rng: &mut Rng, len: usize) -> Bytes {
    let mut bytes = vec![0; len];
    if rng.chance(4, 5) {
        rng.fill(&mut bytes);
    }
    bytes.into()
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> T {
    from[rng.index(from.len())]
}

fn key(rng: &mut Rng) -> String {
    match rng.below(20) {
        0 => "long".repeat(255) + "xyz",
        1 => format!("\0\u{1}{}", rng.below(2)),
        n => format!("{}/{}", ["a", "b", "ä"][rng.index(3)], n % 4),
    }
}

async fn write(store: &dyn ObjectStore, at: (BucketId, &str), data: &Bytes) -> NewBody {
    if data.len() <= 65_536 {
        return NewBody::Small(data.clone());
    }
    let spare = if data.len().is_multiple_of(2) { 0 } else { 8 << 30 };
    let mut writer = store.stage(at.0, at.1, data.len() as u64 + spare).await.expect("works");
    for piece in data.chunks(70_000) {
        writer.write(Bytes::copy_from_slice(piece)).await.expect("works");
    }
    NewBody::Staged(writer.finish().await.expect("works"))
}

impl Pair {
    async fn ids(&self, life: &Life, name: &str) -> Option<(BucketId, BucketId)> {
        let here = self.memory.bucket(name).await;
        let there = life.store.bucket(name).await;
        assert_eq!(here.as_ref().err(), there.as_ref().err());
        Some((here.ok()?.id, there.ok()?.id))
    }

    async fn step(&mut self, life: &Life) {
        let name = pick(&mut self.rng, &NAMES);
        let Some(ids) = self.ids(life, name).await else { return self.create(life, name).await };
        match self.rng.below(100) {
            0..40 => self.put(life, ids).await,
            40..55 => self.remove(life, ids).await,
            55..60 => self.replace(life, ids).await,
            60..66 => self.begin_upload(life, name, ids).await,
            66..84 => self.on_upload(life, name, ids).await,
            84..88 => self.list(life, ids).await,
            88..90 => self.delete_bucket(life, name).await,
            90..93 => self.change_bucket(life, name).await,
            _ => self.records(life).await,
        }
    }

    async fn create(&mut self, life: &Life, name: &str) {
        let options = BucketOptions { private_copy: self.rng.chance(1, 2) };
        let record = bytes(&mut self.rng, 100);
        let here = self.memory.create_bucket(name, options, record.clone()).await.expect("works");
        let there = life.store.create_bucket(name, options, record).await.expect("works");
        same_bucket(&here, &there);
        let again = life.store.create_bucket(name, options, Bytes::new()).await;
        assert_eq!(again, Err(Error::BucketExists { name: name.to_owned() }));
    }

    async fn change_bucket(&mut self, life: &Life, name: &str) {
        let len = pick(&mut self.rng, &[10, 2000, 600_000]);
        let record = bytes(&mut self.rng, len);
        let change = || -> ChangeRecord {
            let record = record.clone();
            Box::new(move |before| {
                assert!(before.is_some());
                Ok(Some(record))
            })
        };
        let here = self.memory.change_bucket(name, change()).await.expect("works");
        let there = life.store.change_bucket(name, change()).await.expect("works");
        same_bucket(&here, &there);
    }

    async fn delete_bucket(&mut self, life: &Life, name: &'static str) {
        let here = self.memory.delete_bucket(name).await;
        let there = life.store.delete_bucket(name).await;
        assert_eq!(here, there);
        if here.is_ok() {
            self.uploads.retain(|_, upload| upload.bucket != name);
        }
    }

    async fn records(&mut self, life: &Life) {
        let table = pick(&mut self.rng, &[RecordTable::User, RecordTable::AccessKey]);
        let name = format!("n{}", self.rng.below(5));
        let len = pick(&mut self.rng, &[5, 3000, 60_000]);
        let record = self.rng.chance(2, 3).then(|| bytes(&mut self.rng, len));
        let change = || -> ChangeRecord {
            let record = record.clone();
            Box::new(move |_| Ok(record))
        };
        let here = self.memory.change_record(table, &name, change()).await;
        assert_eq!(life.store.change_record(table, &name, change()).await, here);
        assert_eq!(life.store.record(table, &name).await, Ok(record));
        let after = format!("n{}", self.rng.below(3));
        let limit = 1 + self.rng.index(4);
        let here = self.memory.list_records(table, &after, limit).await;
        assert_eq!(life.store.list_records(table, &after, limit).await, here);
    }

    fn version(&mut self, marker: bool, null: bool, size: usize) -> Version {
        self.order += 1 + self.rng.below(3);
        let attributes = pick(&mut self.rng, &ATTRIBUTES);
        let attributes = bytes(&mut self.rng, attributes);
        let (order, size) = (self.order, size as u64);
        Version { order, null, marker, size, modified_ms: order, attributes }
    }

    /// Part of an object that there is, or all of it, copied for a key in both stores.
    async fn copied(
        &mut self,
        life: &Life,
        ids: (BucketId, BucketId),
        to: &str,
    ) -> Option<(NewBody, NewBody, usize)> {
        let from = key(&mut self.rng);
        let here = self.memory.find(ids.0, &from, Select::Newest).await.expect("works")?;
        let there = life.store.find(ids.1, &from, Select::Newest).await.expect("works")?;
        let len = here.body.len();
        if len == 0 {
            return None;
        }
        let (a, b) = (self.rng.below(len), self.rng.below(len));
        let range = match self.rng.chance(1, 2) {
            true => 0..len,
            false => a.min(b)..a.max(b) + 1,
        };
        let copy = self.memory.stage_copy(ids.0, to, &*here.body, range.clone()).await;
        let here = NewBody::Staged(copy.expect("works"));
        let copy = life.store.stage_copy(ids.1, to, &*there.body, range.clone()).await;
        let there = NewBody::Staged(copy.expect("works"));
        Some((here, there, usize::try_from(range.end - range.start).expect("works")))
    }

    /// A body for a key in both stores: fresh bytes or a copy.
    async fn bodies(
        &mut self,
        life: &Life,
        ids: (BucketId, BucketId),
        to: &str,
        len: usize,
    ) -> (NewBody, NewBody, usize) {
        if len > 0
            && self.rng.chance(1, 3)
            && let Some(copied) = self.copied(life, ids, to).await
        {
            if self.rng.chance(1, 10) {
                drop(copied); // Nobody takes it.
            } else {
                return copied;
            }
        }
        let data = bytes(&mut self.rng, len);
        let here = write(&self.memory, (ids.0, to), &data).await;
        (here, write(&life.store, (ids.1, to), &data).await, len)
    }

    async fn put(&mut self, life: &Life, ids: (BucketId, BucketId)) {
        let key = key(&mut self.rng);
        let marker = self.rng.chance(1, 8);
        let len = if marker { 0 } else { pick(&mut self.rng, &LENGTHS) };
        let (here_body, there_body, len) = self.bodies(life, ids, &key, len).await;
        let null = self.rng.chance(2, 3);
        let version = self.version(marker, null, len);
        let fails = self.rng.chance(1, 15);
        let change = || -> ChangeKey {
            let version = version.clone();
            Box::new(move |view| {
                if fails {
                    return Err(Error::Condition { condition: "planned" });
                }
                let remove = view.null.as_ref().filter(|_| null).map(|version| version.order);
                Ok(KeyChange { remove, put: Some(version), replace: None })
            })
        };
        let here = self.memory.change_key(ids.0, &key, None, here_body, change()).await;
        let there = life.store.change_key(ids.1, &key, None, there_body, change()).await;
        assert_eq!(here, there);
        self.compare_key(life, ids, &key).await;
    }

    /// Removes a version, or a version under whose order another one comes.
    async fn remove(&mut self, life: &Life, ids: (BucketId, BucketId)) {
        let key = key(&mut self.rng);
        let named = pick(&mut self.rng, &[Select::Newest, Select::Null]);
        let data = bytes(&mut self.rng, 5000);
        let again = self.rng.chance(1, 4).then(|| self.version(false, true, data.len()));
        let change = || -> ChangeKey {
            let again = again.clone();
            Box::new(move |view: &KeyView| {
                let Some(gone) = &view.named else { return Ok(KeyChange::default()) };
                let again = again.filter(|_| view.newest.as_ref() == Some(gone));
                let put =
                    again.map(|version| Version { order: gone.order, null: gone.null, ..version });
                Ok(KeyChange { remove: Some(gone.order), put, replace: None })
            })
        };
        let body = || NewBody::Small(data.clone());
        let here = self.memory.change_key(ids.0, &key, Some(named), body(), change()).await;
        let there = life.store.change_key(ids.1, &key, Some(named), body(), change()).await;
        assert_eq!(here, there);
        self.compare_key(life, ids, &key).await;
    }

    async fn replace(&mut self, life: &Life, ids: (BucketId, BucketId)) {
        let key = key(&mut self.rng);
        let named = pick(&mut self.rng, &[Select::Newest, Select::Null]);
        let len = pick(&mut self.rng, &ATTRIBUTES);
        let attributes = bytes(&mut self.rng, len);
        let change = || -> ChangeKey {
            let attributes = attributes.clone();
            Box::new(move |view: &KeyView| {
                let replace = view.named.as_ref().map(|version| (version.order, attributes));
                Ok(KeyChange { replace, ..KeyChange::default() })
            })
        };
        let body = || NewBody::Small(Bytes::new());
        let here = self.memory.change_key(ids.0, &key, Some(named), body(), change()).await;
        let there = life.store.change_key(ids.1, &key, Some(named), body(), change()).await;
        assert_eq!(here, there);
        self.compare_key(life, ids, &key).await;
    }

    async fn begin_upload(&mut self, life: &Life, bucket: &'static str, ids: (BucketId, BucketId)) {
        let key = key(&mut self.rng);
        let len = pick(&mut self.rng, &ATTRIBUTES);
        let attributes = bytes(&mut self.rng, len);
        let here =
            self.memory.create_upload(ids.0, &key, 5, attributes.clone()).await.expect("works");
        let there =
            life.store.create_upload(ids.1, &key, 5, attributes.clone()).await.expect("works");
        assert_eq!((&here.key, &here.attributes), (&there.key, &there.attributes));
        assert_eq!(life.store.upload(ids.1, &key, there.id).await.expect("works"), there);
        let upload = Uploading { there: there.id, bucket, key, parts: BTreeMap::new() };
        self.uploads.insert(here.id.0, upload);
    }

    async fn on_upload(&mut self, life: &Life, bucket: &str, ids: (BucketId, BucketId)) {
        let own: Vec<u64> = (self.uploads.iter())
            .filter(|(_, upload)| upload.bucket == bucket)
            .map(|(id, _)| *id)
            .collect();
        if own.is_empty() {
            return;
        }
        let id = pick(&mut self.rng, &own);
        match self.rng.below(10) {
            0 => self.abort(life, id, ids).await,
            1..3 => self.complete(life, id, ids).await,
            _ => self.put_part(life, id, ids).await,
        }
    }

    async fn put_part(&mut self, life: &Life, id: u64, ids: (BucketId, BucketId)) {
        let number = 1 + u16::try_from(self.rng.below(12)).expect("works");
        let len = pick(&mut self.rng, &LENGTHS);
        let to = self.uploads[&id].key.clone();
        let (here_body, there_body, len) = self.bodies(life, ids, &to, len).await;
        let attributes = pick(&mut self.rng, &[3, 2000]);
        let part = UploadPart {
            number,
            generation: 0,
            size: len as u64,
            modified_ms: 9,
            attributes: bytes(&mut self.rng, attributes),
        };
        let upload = self.uploads.get_mut(&id).expect("works");
        let id = UploadId(id);
        let here = self.memory.put_part(ids.0, &to, id, part.clone(), here_body).await;
        let there = life.store.put_part(ids.1, &to, upload.there, part, there_body).await;
        upload
            .parts
            .insert(number, [here.expect("works").generation, there.expect("works").generation]);
        let here = self.memory.list_parts(ids.0, &upload.key, id, 3, 5).await.expect("works");
        let there =
            life.store.list_parts(ids.1, &upload.key, upload.there, 3, 5).await.expect("works");
        let seen =
            |part: &UploadPart| (part.number, part.size, part.modified_ms, part.attributes.clone());
        assert!(here.iter().map(seen).eq(there.iter().map(seen)));
    }

    async fn abort(&mut self, life: &Life, id: u64, ids: (BucketId, BucketId)) {
        let upload = self.uploads.remove(&id).expect("works");
        self.memory.abort_upload(ids.0, &upload.key, UploadId(id)).await.expect("works");
        life.store.abort_upload(ids.1, &upload.key, upload.there).await.expect("works");
        let again = life.store.abort_upload(ids.1, &upload.key, upload.there).await;
        assert!(matches!(again, Err(Error::NoUpload { .. })));
    }

    async fn complete(&mut self, life: &Life, id: u64, ids: (BucketId, BucketId)) {
        let wrong = self.rng.chance(1, 5);
        let most = self.rng.index(14);
        let rng = &mut self.rng;
        let upload = &self.uploads[&id];
        let named: Vec<_> = upload.parts.iter().filter(|_| rng.chance(4, 5)).take(most).collect();
        let parts = |side: usize| -> Vec<PartRef> {
            let of = |(number, generations): &(&u16, &[u64; 2])| PartRef {
                number: **number,
                generation: generations[side] + u64::from(wrong),
            };
            named.iter().map(of).collect()
        };
        let (here_parts, there_parts) = (parts(0), parts(1));
        let (there_id, key) = (upload.there, upload.key.clone());
        let version = self.version(false, true, 77);
        let change = || -> ChangeKey {
            let version = version.clone();
            Box::new(move |view| {
                let remove = view.null.as_ref().map(|version| version.order);
                Ok(KeyChange { remove, put: Some(version), replace: None })
            })
        };
        let body = NewBody::Parts { upload: UploadId(id), parts: here_parts };
        let here = self.memory.change_key(ids.0, &key, None, body, change()).await;
        let body = NewBody::Parts { upload: there_id, parts: there_parts };
        let there = life.store.change_key(ids.1, &key, None, body, change()).await;
        assert_eq!(here, there);
        if here.is_ok() {
            self.uploads.remove(&id);
            let gone = life.store.upload(ids.1, &key, there_id).await;
            assert!(matches!(gone, Err(Error::NoUpload { .. })));
        }
        self.compare_key(life, ids, &key).await;
    }

    async fn compare_key(&mut self, life: &Life, ids: (BucketId, BucketId), key: &str) {
        let order = Select::Order(self.order.saturating_sub(self.rng.below(60)));
        for select in [Select::Newest, Select::Null, order] {
            let here = self.memory.find(ids.0, key, select).await.expect("works");
            let there = life.store.find(ids.1, key, select).await.expect("works");
            assert_eq!(here.is_some(), there.is_some(), "{key:?} {select:?}");
            let (Some(here), Some(there)) = (here, there) else { continue };
            assert_eq!((here.version, here.newest), (there.version, there.newest));
            let expected = bytes_of(&*here.body).await.expect("works");
            assert_eq!(there.body.len(), expected.len() as u64);
            assert!(bytes_of(&*there.body).await.expect("works") == expected, "bytes of {key:?}");
            if expected.len() > 2 {
                let (a, b) = (self.rng.index(expected.len()), self.rng.index(expected.len()));
                let (a, b) = (a.min(b), a.max(b));
                let mut pieces = there.body.read(a as u64..b as u64);
                let mut found = Vec::new();
                while let Some(piece) = futures_util::StreamExt::next(&mut pieces).await {
                    found.extend_from_slice(&piece.expect("works"));
                }
                assert!(found == expected[a..b], "{a}..{b} of {key:?}");
            }
        }
    }

    async fn list(&mut self, life: &Life, ids: (BucketId, BucketId)) {
        let mut query = ListQuery {
            prefix: pick(&mut self.rng, &["", "a", "b/", "lo"]).to_owned(),
            delimiter: pick(&mut self.rng, &["", "/"]).to_owned(),
            after: Marker::Start,
            limit: 1 + self.rng.index(40),
            versions: self.rng.chance(1, 2),
        };
        let mut all: [Vec<Item>; 2] = Default::default();
        let stores: [(&dyn ObjectStore, BucketId); 2] =
            [(&self.memory, ids.0), (&life.store, ids.1)];
        for ((store, id), all) in stores.into_iter().zip(&mut all) {
            query.after = Marker::Start;
            loop {
                let ListPage { items, more } = store.list(id, &query).await.expect("works");
                assert!(items.len() <= query.limit);
                if let Some(last) = items.last() {
                    query.after = last.marker();
                }
                all.extend(items);
                if !more {
                    break;
                }
            }
        }
        let [here, there] = all;
        assert_eq!(here, there);
        let usage = self.memory.usage(ids.0).await;
        assert_eq!(life.store.usage(ids.1).await, usage);
        let after = self.rng.chance(1, 2).then(|| key(&mut self.rng));
        let after = after.as_ref().map(|key| (key.as_str(), None));
        let prefix = pick(&mut self.rng, &["", "a", "long"]);
        let here = self.memory.list_uploads(ids.0, prefix, after, 3).await.expect("works");
        let there = life.store.list_uploads(ids.1, prefix, after, 3).await.expect("works");
        let known = here.iter().map(|upload| self.uploads[&upload.id.0].there.0);
        let mut known: Vec<_> = known.collect();
        let mut found: Vec<_> = there.iter().map(|upload| upload.id.0).collect();
        known.sort_unstable();
        found.sort_unstable();
        assert_eq!(known, found);
        assert!(
            here.iter()
                .map(|it| (&it.key, &it.attributes))
                .eq(there.iter().map(|it| (&it.key, &it.attributes)))
        );
    }

    async fn compare_all(&mut self, life: &Life) {
        let here = self.memory.list_buckets("", 10).await.expect("works");
        let there = life.store.list_buckets("", 10).await.expect("works");
        assert_eq!(here.len(), there.len());
        for (here, there) in here.iter().zip(&there) {
            same_bucket(here, there);
            let ids = (here.id, there.id);
            self.list(life, ids).await;
            for round in 0..20 {
                let key = if round == 0 { "long".repeat(255) + "xyz" } else { key(&mut self.rng) };
                self.compare_key(life, ids, &key).await;
            }
        }
    }

    /// Removes everything; then nothing is left but the gateway's own.
    async fn empty(&mut self, life: &Life) {
        for name in NAMES {
            let Some(ids) = self.ids(life, name).await else { continue };
            let all = ListQuery { limit: 1000, versions: true, ..ListQuery::default() };
            for item in life.store.list(ids.1, &all).await.expect("works").items {
                let Item::Version { key, version, .. } = item else { panic!("no groups") };
                let change: ChangeKey = Box::new(move |_| {
                    Ok(KeyChange { remove: Some(version.order), ..KeyChange::default() })
                });
                let body = NewBody::Small(Bytes::new());
                life.store.change_key(ids.1, &key, None, body, change).await.expect("works");
            }
            for upload in life.store.list_uploads(ids.1, "", None, 1000).await.expect("works") {
                life.store.abort_upload(ids.1, &upload.key, upload.id).await.expect("works");
            }
            life.rest().await;
            assert_eq!(life.left(ids.1.0).await, (0, 0), "blocks and keys of {name}");
            assert_eq!(
                life.store.usage(ids.1).await.expect("works"),
                varve_object::BucketUsage::default()
            );
            life.store.delete_bucket(name).await.expect("works");
            assert!(matches!(life.store.usage(ids.1).await, Err(Error::NoBucket { .. })));
        }
    }
}

fn same_bucket(here: &Bucket, there: &Bucket) {
    assert_eq!((&here.name, here.options), (&there.name, there.options));
    assert!(here.record == there.record, "record of {}", here.name);
}

fn follow(seed: u64, lane_bytes: u64, lives: u64, steps: u64) {
    let mut rig = Rig::new(lane_bytes);
    let mut pair = Some(Pair {
        memory: MemoryStore::default(),
        rng: Rng::new(seed),
        order: 0,
        uploads: BTreeMap::new(),
    });
    for _ in 0..lives {
        let mut inside = pair.take().expect("works");
        pair = Some(rig.live(async move |life: Life| {
            inside.compare_all(&life).await;
            for _ in 0..inside.rng.below(steps) {
                inside.step(&life).await;
            }
            inside
        }));
    }
    let mut inside = pair.take().expect("works");
    rig.live(async move |life: Life| {
        inside.compare_all(&life).await;
        inside.empty(&life).await;
    });
}

#[test]
fn it_follows_its_twin_across_crashes() {
    for seed in 0..4 {
        follow(seed, 16 << 20, 6, 300);
    }
}

#[test]
fn it_follows_its_twin_on_a_short_lane() {
    follow(9, 256 << 10, 8, 200);
}
