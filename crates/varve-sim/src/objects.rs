//! Random requests to a bucket on the shards, each entered in the model before it is sent and after it is answered.
//! Each shard has objects of its own; copies go from any to any.
//!
//! An object is known by the operation that put it: its attributes name it, and its body is what follows from it. So a
//! body of another object, or of none, shows.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use varve_engine::BLOCK_BYTES;
use varve_object::shelf::{
    BucketAudit, BucketShard, ContentPiece, GiveBack, HeldContent, IncomingBody, ShelfBody,
    ShelfFound, audit_bucket, compare_references,
};
use varve_object::{
    BucketId, ChangeKey, Error, KeyChange, ListQuery, PartRef, Select, UploadId, UploadPart,
    Version,
};
use varve_reactor::Reactor;
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ErrorKind, ShardId};

use crate::content::{Likeness, fill_blocks};
use crate::register::Register;
use crate::workload::SimClient;

/// Names of objects.
const KEYS: u64 = 12;

/// Bytes of bodies that are staged, at most.
const STAGED_BYTES_MAX: u64 = 300 << 10;

/// Bytes of a staged body that are written at once, at most.
const PIECE_BLOCKS_MAX: usize = 24;

/// First byte of the keys of what is to be swept.
const ORPHANS: u8 = b'x';

/// First byte of the keys of references, which go on as those of the orphans that they name.
const REFERENCES: u8 = b'r';

/// Pauses until sweeps have come to their end, in ns.
const REST_NANOS: u64 = 100_000_000;
const RESTS_MAX: u32 = 900;

/// An object that may be there: who put it, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PutRecord {
    operation: u64,
    len: u64,
}

/// What a bucket may hold.
pub(crate) type ObjectModel = RefCell<BTreeMap<String, Register<Option<PutRecord>>>>;

fn body_of(put: PutRecord) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(put.len).expect("bounded")];
    fill_blocks(&mut bytes, put.operation, 0, || Likeness::NONE);
    bytes
}

fn attributes_of(put: PutRecord) -> Bytes {
    // Some are too long for the record.
    let len = if put.operation.is_multiple_of(5) { 3000 } else { 16 };
    let mut bytes = vec![7; len];
    bytes[..8].copy_from_slice(&put.operation.to_le_bytes());
    bytes.into()
}

/// Puts an object in the place of the one that is there.
fn replacing(put: Option<PutRecord>) -> ChangeKey {
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
        Ok(KeyChange { remove: newest.map(|newest| newest.order), put, replace: None })
    })
}

/// Nothing of the bucket contradicts anything, on any shard. Nobody changes it meanwhile, but for sweeps: what gives
/// references back is looked at before what keeps them.
pub(crate) async fn audit_objects(clients: &[SimClient]) {
    let (mut takers, mut homes) = (Vec::new(), Vec::new());
    for client in clients.iter().filter(|client| !client.shard.has_failed()) {
        takers.extend(client.audit_shelf().await.map(|report| (client.id, report)));
    }
    if takers.len() < clients.len() {
        return;
    }
    for client in clients.iter().filter(|client| clients.len() > 1 && !client.shard.has_failed()) {
        homes.extend(client.audit_shelf().await);
    }
    if clients.len() > 1 && homes.len() < clients.len() {
        return;
    }
    for ((_, taker), home) in takers.iter_mut().zip(homes) {
        taker.content.referenced = home.content.referenced;
    }
    for difference in compare_references(&takers) {
        clients[0].world.violated(format!("references: {difference}"));
    }
}

/// Waits until nothing is left to be swept on any shard: what is swept after a mark pass waits for the next one.
pub(crate) async fn sweeps_ended(clients: &[SimClient], reactor: &Reactor) {
    let (mut ended, mut left) = (0, None);
    for _ in 0..RESTS_MAX {
        let mut waits = None;
        for client in clients {
            match client.waits_for_sweeps().await {
                Ok(orphan) => waits = waits.or(orphan.map(|orphan| (client.id, orphan))),
                Err(error) => return client.settle(Err(error), "look for what is to be swept"),
            }
        }
        // What one of them gave back while another was looked at shows in the next round.
        ended = if waits.is_some() { 0 } else { ended + 1 };
        left = waits;
        if ended >= clients.len() {
            return;
        }
        reactor.sleep(REST_NANOS).await;
    }
    clients[0].world.violated(format!("what is to be swept stays: {left:?}"));
}

impl SimClient {
    /// Opens the bucket of this client's shard.
    pub(crate) async fn open_shelf(&mut self, reactor: &Reactor) -> varve_object::Result<()> {
        let Some(bucket) = self.model().bucket.get() else { return Ok(()) };
        let (shard, reduction) = (Rc::clone(&self.shard), self.world.config.reduction);
        let (network, taker) = (Rc::clone(&self.network), self.id);
        let give_back: GiveBack = Rc::new(move |reference| {
            let network = Rc::clone(&network);
            Box::pin(async move {
                let home = network.shelf(reference.home()).await?;
                home.content().give_back(taker, reference).await
            })
        });
        let bucket = BucketId(bucket.get());
        let shelf = BucketShard::open(reactor.clone(), shard, bucket, reduction, give_back).await?;
        self.network.open_shelf(self.id, &shelf);
        self.shelf = Some(shelf);
        Ok(())
    }

    /// A client of another shard.
    async fn on_shard(&self, id: ShardId) -> varve_object::Result<Self> {
        if id == self.id {
            return Ok(self.clone());
        }
        let shelf = self.network.shelf(id).await?;
        Ok(Self { shard: Rc::clone(shelf.shard()), id, shelf: Some(shelf), ..self.clone() })
    }

    fn shelf(&self) -> &BucketShard {
        self.shelf.as_ref().expect("a world with objects has a bucket on every shard")
    }

    /// One request to the bucket.
    pub(crate) async fn object_request(&self, rng: &mut Rng) {
        let key = format!("object{}", rng.below(KEYS));
        if self.world.config.shards > 1 && rng.chance(1, 2) {
            // What shards share is told by many copies of large bodies.
            return match rng.below(3) {
                0 => self.put_staged(rng, &key).await,
                _ => self.copy_object(rng, &key).await,
            };
        }
        match rng.below(100) {
            0..40 => self.put_small(rng, &key).await,
            40..52 => self.put_staged(rng, &key).await,
            52..56 => self.give_up_staged(rng).await,
            56..62 => self.put_parts(rng, &key).await,
            62..74 => self.change_object(&key, None, IncomingBody::Small(Bytes::new())).await,
            74..78 => self.list_objects(rng).await,
            78..84 => self.copy_object(rng, &key).await,
            _ => self.get_object(rng, &key).await,
        }
    }

    fn with_object<T>(
        &self,
        key: &str,
        act: impl FnOnce(&mut Register<Option<PutRecord>>) -> T,
    ) -> T {
        let mut objects = self.model().objects.borrow_mut();
        act(objects.entry(key.to_owned()).or_insert_with(|| Register::new(None)))
    }

    async fn put_small(&self, rng: &mut Rng, key: &str) {
        let len = match rng.below(5) {
            0 => rng.below(300),
            1 => rng.below(64 << 10),
            _ => rng.below(3 * BLOCK_BYTES as u64),
        };
        let put = PutRecord { operation: self.world.fresh_operation(), len };
        let body = IncomingBody::Small(body_of(put).into());
        self.change_object(key, Some(put), body).await;
    }

    async fn change_object(&self, key: &str, put: Option<PutRecord>, body: IncomingBody) {
        let operation = put.map_or_else(|| self.world.fresh_operation(), |put| put.operation);
        self.change_object_by(operation, key, put, body).await;
    }

    async fn change_object_by(
        &self,
        operation: u64,
        key: &str,
        put: Option<PutRecord>,
        body: IncomingBody,
    ) {
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
    async fn stage(&self, rng: &mut Rng, put: PutRecord) -> varve_object::Result<IncomingBody> {
        let spare = if rng.chance(2, 3) { 0 } else { 8 << 30 };
        let staging = self.shelf().content().stage(put.len + spare).await?;
        let bytes = body_of(put);
        let (mut writes, mut block) = (Vec::new(), 0);
        while block * BLOCK_BYTES < bytes.len() {
            let blocks = 1 + rng.index(PIECE_BLOCKS_MAX);
            let piece =
                &bytes[block * BLOCK_BYTES..bytes.len().min((block + blocks) * BLOCK_BYTES)];
            let mut data = AlignedBuf::zeroed(piece.len().next_multiple_of(BLOCK_BYTES));
            data[..piece.len()].copy_from_slice(piece);
            let (shelf, staging) = (self.shelf(), &staging);
            writes.push(async move {
                shelf.content().write_staged(staging, block as u64, data.freeze()).await
            });
            block += blocks;
        }
        futures_util::future::try_join_all(writes).await?;
        Ok(IncomingBody::Staged(staging.finish(put.len)))
    }

    async fn put_staged(&self, rng: &mut Rng, key: &str) {
        let put = PutRecord {
            operation: self.world.fresh_operation(),
            len: 1 + rng.below(STAGED_BYTES_MAX),
        };
        match self.stage(rng, put).await {
            Ok(body) => self.change_object(key, Some(put), body).await,
            Err(error) => self.settle_object(Err::<(), _>(error), "staging"),
        }
    }

    /// Stages a body that nobody takes.
    async fn give_up_staged(&self, rng: &mut Rng) {
        let put = PutRecord {
            operation: self.world.fresh_operation(),
            len: 1 + rng.below(STAGED_BYTES_MAX / 4),
        };
        let outcome = self.stage(rng, put).await.map(drop);
        self.settle_object(outcome, "staging");
    }

    /// Puts an object in parts, writes one of them twice, and leaves one out; now and then the upload is left as it is.
    async fn put_parts(&self, rng: &mut Rng, key: &str) {
        let put = PutRecord {
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
                self.change_object(key, Some(put), IncomingBody::Parts { upload, parts }).await;
            }
            Err(error) => self.settle_object(Err::<(), _>(error), "upload"),
        }
    }

    async fn upload_parts(
        &self,
        rng: &mut Rng,
        key: &str,
        put: PutRecord,
    ) -> varve_object::Result<(UploadId, Vec<PartRef>)> {
        let upload = self.shelf().create_upload(key, 0, attributes_of(put)).await?.id;
        let (bytes, mut parts) = (body_of(put), Vec::new());
        for (number, piece) in (1..).zip(bytes.chunks(2 * BLOCK_BYTES)) {
            for _ in 0..1 + rng.below(2) {
                let part = UploadPart {
                    number,
                    generation: 0,
                    size: piece.len() as u64,
                    modified_ms: 0,
                    attributes: Bytes::new(),
                };
                let body = IncomingBody::Small(Bytes::copy_from_slice(piece));
                let part = self.shelf().put_part(key, upload, part, body).await?;
                parts.retain(|known: &PartRef| known.number != number);
                parts.push(PartRef { number, generation: part.generation });
            }
        }
        let surplus = UploadPart {
            number: 99,
            generation: 0,
            size: 1,
            modified_ms: 0,
            attributes: Bytes::new(),
        };
        let body = IncomingBody::Small(vec![1; 5000].into());
        self.shelf().put_part(key, upload, surplus, body).await?;
        Ok((upload, parts))
    }

    /// Copies an object in whole to another key of any shard, or to the part of an upload; now and then nobody takes
    /// the copy.
    async fn copy_object(&self, rng: &mut Rng, key: &str) {
        let found = match self.shelf().find(key, Select::Newest).await {
            Ok(found) => found,
            Err(error) => return self.settle_object(Err::<(), _>(error), "look-up of an object"),
        };
        self.world.answered(true);
        let Some(ShelfFound { version, body: ShelfBody::Stored(body), .. }) = found else { return };
        let put = PutRecord { operation: version.modified_ms, len: version.size };
        let (to, operation) = (format!("object{}", rng.below(KEYS)), self.world.fresh_operation());
        let taker = match self.world.config.shards {
            1 => self.id,
            shards => ShardId(u16::try_from(rng.below(u64::from(shards))).expect("a few")),
        };
        let taker = match self.on_shard(taker).await {
            Ok(taker) => taker,
            Err(error) => return self.settle_object(Err::<(), _>(error), "way to a shard"),
        };
        match self.share(&taker, &body).await {
            Ok(None) => self.world.violated("copies lie too deep in each other".to_owned()),
            Ok(Some(_)) if rng.chance(1, 8) => self.world.answered(true),
            Ok(Some(copy)) if rng.chance(1, 3) => match taker.upload_copy(&to, put, copy).await {
                Ok(body) => taker.change_object_by(operation, &to, Some(put), body).await,
                Err(error) => self.settle_object(Err::<(), _>(error), "upload of a copy"),
            },
            Ok(Some(copy)) => taker.change_object_by(operation, &to, Some(put), copy).await,
            Err(error) => self.settle_object(Err::<(), _>(error), "copy of a body"),
        }
    }

    async fn share(
        &self,
        taker: &Self,
        body: &HeldContent,
    ) -> varve_object::Result<Option<IncomingBody>> {
        let bytes = self.shelf().content().locate(body, 0..body.len()).await?;
        let bytes = bytes.ok_or(Error::State { reason: "a large body can be shared" })?;
        let staged = Arc::new(taker.shelf().content().stage_reference(&bytes).await?);
        let home = self.on_shard(bytes.home()).await?;
        let depth = home.shelf().content().refer(taker.id, &staged, &bytes, body).await?;
        Ok(depth.map(|depth| IncomingBody::Staged(staged.finish(&bytes, depth))))
    }

    /// Bytes of a body that is held, on whatever shards they are.
    async fn read_body(
        &self,
        body: &HeldContent,
        range: Range<u64>,
    ) -> varve_object::Result<Vec<u8>> {
        let mut pieces: VecDeque<_> = self.shelf().content().read(body, range).await?.into();
        let mut bytes = Vec::new();
        while let Some(piece) = pieces.pop_front() {
            match piece {
                ContentPiece::Here(piece) => bytes.extend_from_slice(&piece),
                ContentPiece::Elsewhere { taker, reference, range } => {
                    let home = self.on_shard(reference.home()).await?;
                    let found = home.shelf().content().read_shared(taker, reference, range).await?;
                    found.into_iter().rev().for_each(|piece| pieces.push_front(piece));
                }
            }
        }
        self.shelf().content().check_held(body)?;
        Ok(bytes)
    }

    /// An upload whose only part is a copy.
    async fn upload_copy(
        &self,
        key: &str,
        put: PutRecord,
        copy: IncomingBody,
    ) -> varve_object::Result<IncomingBody> {
        let upload = self.shelf().create_upload(key, 0, attributes_of(put)).await?.id;
        let part = UploadPart {
            number: 1,
            generation: 0,
            size: put.len,
            modified_ms: 0,
            attributes: Bytes::new(),
        };
        let part = self.shelf().put_part(key, upload, part, copy).await?;
        let parts = vec![PartRef { number: 1, generation: part.generation }];
        Ok(IncomingBody::Parts { upload, parts })
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
        let put = PutRecord { operation: version.modified_ms, len: version.size };
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
                    match self.read_body(&body, begin..end).await {
                        Ok(read) => bytes.extend(read),
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

    fn observe_object(&self, how: &str, key: &str, found: Option<PutRecord>, issued: u64) {
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
            let put = PutRecord { operation: version.modified_ms, len: version.size };
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

    /// Nothing of the bucket on this shard contradicts anything. Nobody changes it meanwhile, but for the sweep.
    async fn audit_shelf(&self) -> Option<BucketAudit> {
        let bucket = self.model().bucket.get()?;
        match audit_bucket(&self.shard, BucketId(bucket.get())).await {
            Ok(report) if report.content.difference_count > 0 => {
                self.world.violated(format!("shard {} bucket audit: {report:?}", self.id));
            }
            Ok(report) => {
                self.world.answered(true);
                return Some(report);
            }
            Err(error) => self.settle_object(Err::<(), _>(error), "audit of a bucket"),
        }
        None
    }

    /// The key of an orphan that no reference names, if there is one.
    async fn waits_for_sweeps(&self) -> varve_engine::Result<Option<Vec<u8>>> {
        let Some(bucket) = self.model().bucket.get() else { return Ok(None) };
        let bucket = bucket.get();
        let orphans = [&[ORPHANS][..], &bucket.to_be_bytes()].concat();
        for (mut key, _) in self.shard.key_scan(&orphans, None, usize::MAX).await? {
            key[0] = REFERENCES;
            if self.shard.key_scan(&key, None, 1).await?.is_empty() {
                key[0] = ORPHANS;
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Removes every object and upload.
    pub(crate) async fn empty_bucket(&self) {
        if self.shelf.is_none() {
            return;
        }
        let keys: Vec<String> = self.model().objects.borrow().keys().cloned().collect();
        for key in keys {
            self.change_object(&key, None, IncomingBody::Small(Bytes::new())).await;
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
    }

    /// Nothing is left but an account of nothing once the bucket was emptied on all shards.
    pub(crate) async fn check_emptied(&self, reactor: &Reactor) {
        let Some(bucket) = self.model().bucket.get() else { return };
        let mut left = (u64::MAX, usize::MAX);
        for _ in 0..RESTS_MAX {
            reactor.sleep(REST_NANOS).await;
            self.world.answered(true);
            match self.left_of(bucket.get()).await {
                Ok((0, 0)) => {
                    let versions = self.shelf().versions();
                    if versions > 0 || self.shelf().usage() != varve_object::BucketUsage::default()
                    {
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
        for letter in b"oupxr" {
            let prefix = [&[*letter][..], &bucket.to_be_bytes()].concat();
            keys += self.shard.key_scan(&prefix, None, usize::MAX).await?.len();
        }
        Ok((self.shard.count_blocks(varve_types::StreamId::new(bucket)).await?, keys))
    }
}
