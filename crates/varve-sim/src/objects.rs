//! Random requests to a bucket on one shard, each entered in the model before it is sent and after it is answered.
//!
//! An object is known by the operation that put it: its attributes name it, and its body is what follows from it. So a body of another
//! object, or of none, shows.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use varve_engine::BLOCK_BYTES;
use varve_object::shelf::{ArrivingBody, Shelf, ShelfBody, ShelfFound, audit_bucket};
use varve_object::{
    BucketId, Change, ChangeKey, Error, ListQuery, Part, PartRef, Select, UploadId, Version,
};
use varve_reactor::Reactor;
use varve_stdx::{AlignedBuf, Rng};
use varve_types::ErrorKind;

use crate::content::{Likeness, fill_blocks};
use crate::register::Register;
use crate::workload::Client;

/// Names of objects.
const KEYS: u64 = 12;

/// Bytes of bodies that are staged, at most.
const STAGED_BYTES_MAX: u64 = 300 << 10;

/// Bytes of a staged body that are written at once, at most.
const PIECE_BLOCKS_MAX: usize = 24;

/// First byte of the keys of what is to be swept.
const ORPHANS: u8 = b'x';

/// Pauses until sweeps have come to their end, in ns.
const REST_NANOS: u64 = 100_000_000;
const RESTS_MAX: u32 = 1000;

/// An object that may be there: who put it, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Put {
    operation: u64,
    len: u64,
}

/// What a bucket may hold.
pub(crate) type ObjectModel = RefCell<BTreeMap<String, Register<Option<Put>>>>;

fn body_of(put: Put) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(put.len).expect("bounded")];
    fill_blocks(&mut bytes, put.operation, 0, || Likeness::NONE);
    bytes
}

fn attributes_of(put: Put) -> Bytes {
    // Some are too long for the record.
    let len = if put.operation.is_multiple_of(5) { 3000 } else { 16 };
    let mut bytes = vec![7; len];
    bytes[..8].copy_from_slice(&put.operation.to_le_bytes());
    bytes.into()
}

/// Puts an object in the place of the one that is there.
fn replacing(put: Option<Put>) -> ChangeKey {
    Box::new(move |view| {
        let newest = view.newest.as_ref();
        let put = put.map(|put| Version {
            order: newest.map_or(1, |newest| newest.order + 1),
            null: true,
            marker: false,
            size: put.len,
            modified_ms: put.operation,
            attributes: attributes_of(put),
        });
        Ok(Change { remove: newest.map(|newest| newest.order), put, replace: None })
    })
}

impl Client {
    /// Opens the bucket of this client's shard.
    pub(crate) async fn open_shelf(&mut self, reactor: &Reactor) -> varve_object::Result<()> {
        let Some(bucket) = self.model().bucket.get() else { return Ok(()) };
        let (shard, reduction) = (Rc::clone(&self.shard), self.world.config.reduction);
        let shelf = Shelf::open(reactor.clone(), shard, BucketId(bucket.get()), reduction).await?;
        self.shelf = Some(shelf);
        Ok(())
    }

    fn shelf(&self) -> &Shelf {
        self.shelf.as_ref().expect("a world with objects has a bucket on every shard")
    }

    /// One request to the bucket.
    pub(crate) async fn object_request(&self, rng: &mut Rng) {
        let key = format!("object{}", rng.below(KEYS));
        match rng.below(100) {
            0..40 => self.put_small(rng, &key).await,
            40..52 => self.put_staged(rng, &key).await,
            52..56 => self.give_up_staged(rng).await,
            56..62 => self.put_parts(rng, &key).await,
            62..74 => self.change_object(&key, None, ArrivingBody::Small(Bytes::new())).await,
            74..78 => self.list_objects(rng).await,
            _ => self.get_object(rng, &key).await,
        }
    }

    fn with_object<T>(&self, key: &str, act: impl FnOnce(&mut Register<Option<Put>>) -> T) -> T {
        let mut objects = self.model().objects.borrow_mut();
        act(objects.entry(key.to_owned()).or_insert_with(|| Register::new(None)))
    }

    async fn put_small(&self, rng: &mut Rng, key: &str) {
        let len = match rng.below(5) {
            0 => rng.below(300),
            1 => rng.below(64 << 10),
            _ => rng.below(3 * BLOCK_BYTES as u64),
        };
        let put = Put { operation: self.world.fresh_operation(), len };
        let body = ArrivingBody::Small(body_of(put).into());
        self.change_object(key, Some(put), body).await;
    }

    async fn change_object(&self, key: &str, put: Option<Put>, body: ArrivingBody) {
        let operation = put.map_or_else(|| self.world.fresh_operation(), |put| put.operation);
        let now = self.world.tick();
        self.with_object(key, |register| register.issue(operation, put, now));
        self.world.record("object", self.id, &[operation, u64::from(put.is_some())]);
        let outcome = self.shelf().change_key(key, None, body, replacing(put)).await;
        let now = self.world.tick();
        self.with_object(key, |register| match &outcome {
            Ok(_) => register.acknowledge(operation, now),
            Err(_) => register.give_up(operation, now),
        });
        self.world.record("answer", self.id, &[operation, u64::from(outcome.is_ok())]);
        self.settle_object(outcome, "change of an object");
    }

    /// Writes a body in pieces, several of them at a time.
    async fn stage(&self, rng: &mut Rng, put: Put) -> varve_object::Result<ArrivingBody> {
        let spare = if rng.chance(2, 3) { 0 } else { 8 << 30 };
        let staging = self.shelf().stage(put.len + spare).await?;
        let bytes = body_of(put);
        let (mut writes, mut block) = (Vec::new(), 0);
        while block * BLOCK_BYTES < bytes.len() {
            let blocks = 1 + rng.index(PIECE_BLOCKS_MAX);
            let piece =
                &bytes[block * BLOCK_BYTES..bytes.len().min((block + blocks) * BLOCK_BYTES)];
            let mut data = AlignedBuf::zeroed(piece.len().next_multiple_of(BLOCK_BYTES));
            data[..piece.len()].copy_from_slice(piece);
            let (shelf, staging) = (self.shelf(), &staging);
            writes.push(
                async move { shelf.write_staged(staging, block as u64, data.freeze()).await },
            );
            block += blocks;
        }
        futures_util::future::try_join_all(writes).await?;
        Ok(ArrivingBody::Staged(staging.finish(put.len)))
    }

    async fn put_staged(&self, rng: &mut Rng, key: &str) {
        let put =
            Put { operation: self.world.fresh_operation(), len: 1 + rng.below(STAGED_BYTES_MAX) };
        match self.stage(rng, put).await {
            Ok(body) => self.change_object(key, Some(put), body).await,
            Err(error) => self.settle_object(Err::<(), _>(error), "staging"),
        }
    }

    /// Stages a body that nobody takes.
    async fn give_up_staged(&self, rng: &mut Rng) {
        let put = Put {
            operation: self.world.fresh_operation(),
            len: 1 + rng.below(STAGED_BYTES_MAX / 4),
        };
        let outcome = self.stage(rng, put).await.map(drop);
        self.settle_object(outcome, "staging");
    }

    /// Puts an object in parts, writes one of them twice, and leaves one out; now and then the upload is left as it is.
    async fn put_parts(&self, rng: &mut Rng, key: &str) {
        let put = Put {
            operation: self.world.fresh_operation(),
            len: (1 + rng.below(4)) * 2 * BLOCK_BYTES as u64,
        };
        match self.upload_parts(rng, key, put).await {
            Ok((upload, _)) if rng.chance(1, 4) => {
                let outcome = self.shelf().abort_upload(key, upload).await;
                self.settle_object(outcome, "abort of an upload");
            }
            Ok(_) if rng.chance(1, 4) => self.world.answered(true),
            Ok((upload, parts)) => {
                self.change_object(key, Some(put), ArrivingBody::Parts { upload, parts }).await;
            }
            Err(error) => self.settle_object(Err::<(), _>(error), "upload"),
        }
    }

    async fn upload_parts(
        &self,
        rng: &mut Rng,
        key: &str,
        put: Put,
    ) -> varve_object::Result<(UploadId, Vec<PartRef>)> {
        let upload = self.shelf().create_upload(key, 0, attributes_of(put)).await?.id;
        let (bytes, mut parts) = (body_of(put), Vec::new());
        for (number, piece) in (1..).zip(bytes.chunks(2 * BLOCK_BYTES)) {
            for _ in 0..1 + rng.below(2) {
                let part = Part {
                    number,
                    generation: 0,
                    size: piece.len() as u64,
                    modified_ms: 0,
                    attributes: Bytes::new(),
                };
                let body = ArrivingBody::Small(Bytes::copy_from_slice(piece));
                let part = self.shelf().put_part(key, upload, part, body).await?;
                parts.retain(|known: &PartRef| known.number != number);
                parts.push(PartRef { number, generation: part.generation });
            }
        }
        let surplus =
            Part { number: 99, generation: 0, size: 1, modified_ms: 0, attributes: Bytes::new() };
        let body = ArrivingBody::Small(vec![1; 5000].into());
        self.shelf().put_part(key, upload, surplus, body).await?;
        Ok((upload, parts))
    }

    /// Reads an object, a large one in pieces, and compares.
    pub(crate) async fn get_object(&self, rng: &mut Rng, key: &str) {
        let issued = self.world.tick();
        let found = match self.shelf().find(key, Select::Newest).await {
            Ok(found) => found,
            Err(error) => return self.settle_object(Err::<(), _>(error), "look-up of an object"),
        };
        self.world.answered(true);
        let Some(ShelfFound { version, body, .. }) = found else {
            return self.observe_object("find", key, None, issued);
        };
        let put = Put { operation: version.modified_ms, len: version.size };
        self.observe_object("find", key, Some(put), issued);
        if version.attributes != attributes_of(put) {
            self.world.violated(format!("shard {} {key} has attributes of another", self.id));
        }
        let bytes = match body {
            ShelfBody::Memory(pieces) => pieces.concat(),
            ShelfBody::Stored(body) => {
                let mut bytes = Vec::new();
                while (bytes.len() as u64) < body.len() {
                    let begin = bytes.len() as u64;
                    let end = body.len().min(begin + 1 + rng.below(100 << 10));
                    match self.shelf().read(&body, begin..end).await {
                        Ok(pieces) => bytes.extend(pieces.concat()),
                        Err(error) => return self.settle_object(Err::<(), _>(error), "read"),
                    }
                    self.world.answered(true);
                }
                bytes
            }
        };
        if bytes != body_of(put) {
            let expected = body_of(put);
            let at = bytes.iter().zip(&expected).position(|(a, b)| a != b);
            self.world.violated(format!(
                "shard {} {key}, {put:?}, has a body of {} bytes, wrong at {at:?}",
                self.id,
                bytes.len()
            ));
        }
    }

    fn observe_object(&self, how: &str, key: &str, found: Option<Put>, issued: u64) {
        let now = self.world.tick();
        let allowed = self
            .with_object(key, |register| register.observe(|known| *known == found, issued, now));
        if !allowed {
            let possible: Vec<_> = self
                .with_object(key, |register| register.possible_since(issued).copied().collect());
            self.world.violated(format!(
                "shard {} {how} {key}: {found:?} at {issued}..{now}, possible: {possible:?}",
                self.id
            ));
        }
    }

    /// Lists the bucket and compares.
    pub(crate) async fn list_objects(&self, rng: &mut Rng) {
        let issued = self.world.tick();
        let query = ListQuery {
            limit: if rng.chance(1, 2) { 100 } else { 1 + rng.index(5) },
            versions: rng.chance(1, 2),
            ..ListQuery::default()
        };
        let page = match self.shelf().list(&query).await {
            Ok(page) => page,
            Err(error) => return self.settle_object(Err::<(), _>(error), "listing"),
        };
        self.world.answered(true);
        let mut found = BTreeMap::new();
        for item in &page.items {
            let varve_object::Item::Version { key, version, .. } = item else { continue };
            let put = Put { operation: version.modified_ms, len: version.size };
            if found.insert(key.clone(), put).is_some() {
                self.world.violated(format!("shard {} {key} is listed twice", self.id));
            }
        }
        let last = found.keys().next_back().filter(|_| page.more).cloned();
        let known: Vec<String> = self.model().objects.borrow().keys().cloned().collect();
        for key in known {
            if last.as_ref().is_none_or(|last| key <= *last) {
                self.observe_object("list", &key, found.get(&key).copied(), issued);
            }
        }
    }

    fn settle_object<T>(&self, outcome: Result<T, Error>, what: &str) {
        self.world.answered(outcome.is_ok());
        let Err(error) = outcome else { return };
        let excused = match error.kind() {
            ErrorKind::NoSpace => true,
            ErrorKind::Unavailable => self.world.stopping.get() || self.world.faulty.get(),
            _ => self.world.faulty.get(),
        };
        if !excused {
            self.world.violated(format!("shard {}: {what}: {error}", self.id));
        }
    }

    /// Compares every object.
    pub(crate) async fn check_objects(&self, rng: &mut Rng) {
        if self.shelf.is_none() {
            return;
        }
        let keys: Vec<String> = self.model().objects.borrow().keys().cloned().collect();
        for key in keys {
            self.get_object(rng, &key).await;
        }
        self.list_objects(rng).await;
    }

    /// Nothing of the bucket contradicts anything. Nobody changes it meanwhile, but for the sweep.
    pub(crate) async fn audit_objects(&self) {
        let Some(bucket) = self.model().bucket.get() else { return };
        match audit_bucket(&self.shard, BucketId(bucket.get())).await {
            Ok(report) if report.difference_count > 0 => {
                self.world.violated(format!("shard {} bucket audit: {report:?}", self.id));
            }
            Ok(_) => self.world.answered(true),
            Err(error) => self.settle_object(Err::<(), _>(error), "audit of a bucket"),
        }
    }

    /// Waits until nothing is left to be swept: what is swept after a mark pass waits for the next one.
    pub(crate) async fn sweeps_ended(&self, reactor: &Reactor) {
        let Some(bucket) = self.model().bucket.get() else { return };
        let orphans = [&[ORPHANS][..], &bucket.get().to_be_bytes()].concat();
        for _ in 0..RESTS_MAX {
            match self.shard.key_scan(&orphans, None, 1).await {
                Ok(found) if found.is_empty() => return,
                Ok(_) => reactor.sleep(REST_NANOS).await,
                Err(error) => return self.settle(Err(error), "look for what is to be swept"),
            }
        }
        self.world.violated(format!("shard {}: what is to be swept stays", self.id));
    }

    /// Removes every object and upload: then nothing is left but an account of nothing.
    pub(crate) async fn empty_bucket(&self, reactor: &Reactor) {
        let Some(bucket) = self.model().bucket.get() else { return };
        let keys: Vec<String> = self.model().objects.borrow().keys().cloned().collect();
        for key in keys {
            self.change_object(&key, None, ArrivingBody::Small(Bytes::new())).await;
        }
        match self.shelf().list_uploads("", None, usize::MAX).await {
            Ok(uploads) => {
                for upload in uploads {
                    let outcome = self.shelf().abort_upload(&upload.key, upload.id).await;
                    self.settle_object(outcome, "abort of an upload");
                }
            }
            Err(error) => self.settle_object(Err::<(), _>(error), "listing of uploads"),
        }
        let mut left = (u64::MAX, usize::MAX);
        for _ in 0..RESTS_MAX {
            reactor.sleep(REST_NANOS).await;
            self.world.answered(true);
            match self.left_of(bucket.get()).await {
                Ok((0, 0)) => {
                    let versions = self.shelf().versions();
                    if versions > 0 || self.shelf().usage() != varve_object::Usage::default() {
                        let what = format!("shard {}: an empty bucket with {versions}", self.id);
                        self.world.violated(what);
                    }
                    return;
                }
                Ok(some) if some == left => break,
                Ok(some) => left = some,
                Err(error) => return self.settle(Err(error), "look at an empty bucket"),
            }
        }
        let (blocks, keys) = left;
        self.world.violated(format!(
            "shard {}: an empty bucket keeps {blocks} blocks and {keys} keys",
            self.id
        ));
    }

    async fn left_of(&self, bucket: u64) -> varve_engine::Result<(u64, usize)> {
        self.shard.apply_acknowledged().await?;
        let mut keys = 0;
        for letter in b"oupx" {
            let prefix = [&[*letter][..], &bucket.to_be_bytes()].concat();
            keys += self.shard.key_scan(&prefix, None, usize::MAX).await?.len();
        }
        Ok((self.shard.count_blocks(varve_types::StreamId::new(bucket)).await?, keys))
    }
}
