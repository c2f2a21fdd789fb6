//! The in-memory twin: everything in maps behind one lock. For tests of what stands above a store; nothing outlives it.
//!
//! The lock guards all of the state and is never held across a pause.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use varve_dataset::Move;

use crate::error::{Error, Result};
use crate::listing::{CursorStep, ListPage, ListQuery, Lister};
use crate::moving::{Changer, check_arriving, check_deletion, check_left};
use crate::store::{
    Body, BodyReader, BodyWriter, Bucket, BucketId, BucketOptions, BucketUsage, ChangeKey,
    ChangeRecord, FoundVersion, KeyChange, KeyView, MoveStep, NewBody, ObjectStore, PartRef,
    Patience, RecordTable, SMALL_BODY_MAX, Select, StagedBody, Upload, UploadId, UploadPart,
    Version, Watch,
};

/// Buckets, objects and records in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ids: u64,
    buckets: BTreeMap<String, Arc<Bucket>>,
    contents: BTreeMap<BucketId, Contents>,
    records: BTreeMap<(RecordTable, String), Bytes>,
    watches: u64,
    /// Names that are as those on a shard that could not be read.
    unread: Option<fn(&str) -> bool>,
    /// Whether lists of records fail.
    fails_lists: bool,
}

#[derive(Debug, Default)]
struct Contents {
    /// Versions of a key, the newest first.
    keys: BTreeMap<String, Vec<(Version, Rope)>>,
    uploads: BTreeMap<(String, UploadId), MemoryUpload>,
    watch: ListenerEntry,
}

/// Who is told what changes.
#[derive(Default)]
struct ListenerEntry(Option<Watch>);

impl std::fmt::Debug for ListenerEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ListenerEntry").field(&self.0.is_some()).finish()
    }
}

impl ListenerEntry {
    fn tell(&self, key: Option<&str>) {
        if let Some(watch) = &self.0 {
            watch(key);
        }
    }
}

#[derive(Debug)]
struct MemoryUpload {
    upload: Upload,
    parts: BTreeMap<u16, (UploadPart, Rope)>,
}

/// Bytes in pieces that may belong to several bodies.
#[derive(Debug, Clone, Default)]
struct Rope {
    pieces: Vec<Bytes>,
}

struct MemoryStaging {
    rope: Rope,
}

impl MemoryStore {
    /// From now on buckets and records whose names `is_unread` accepts are like those on a shard that could not be
    /// read.
    pub fn lose(&self, is_unread: fn(&str) -> bool) {
        self.state().unread = Some(is_unread);
    }

    /// From now on lists of records fail, as they do once a shard is damaged that was read when the store was opened.
    pub fn fail_lists(&self) {
        self.state().fails_lists = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn is_unread(&self, name: &str) -> bool {
        self.unread.is_some_and(|is_unread| is_unread(name))
    }

    fn check_read(&self, what: &str, name: &str) -> Result<()> {
        match self.is_unread(name) {
            true => Err(unread(format!("{what} `{name}`"))),
            false => Ok(()),
        }
    }

    fn check_record_read(&self, table: RecordTable, key: &str) -> Result<()> {
        let what = match table {
            RecordTable::User => "user",
            RecordTable::AccessKey => "access key",
            RecordTable::Gateway => "record",
        };
        self.check_read(what, key)
    }

    fn named(&self, name: &str) -> Result<&Arc<Bucket>> {
        self.check_read("bucket", name)?;
        self.buckets.get(name).ok_or_else(|| Error::NoBucket { name: name.to_owned() })
    }

    fn contents(&mut self, bucket: BucketId) -> Result<&mut Contents> {
        self.contents
            .get_mut(&bucket)
            .ok_or_else(|| Error::NoBucket { name: format!("#{}", bucket.0) })
    }

    /// What is in a bucket, for who changes it.
    fn changed(&mut self, bucket: BucketId, changer: Changer<'_>) -> Result<&mut Contents> {
        if let Some(known) = self.buckets.values().find(|known| known.id == bucket) {
            changer.check(&known.name, known.moves.as_ref())?;
        }
        self.contents(bucket)
    }

    fn make_bucket(
        &mut self,
        name: &str,
        options: BucketOptions,
        record: Bytes,
        moves: Option<Move>,
    ) -> Result<Arc<Bucket>> {
        self.check_read("bucket", name)?;
        if self.buckets.contains_key(name) {
            return Err(Error::BucketExists { name: name.to_owned() });
        }
        let id = BucketId(self.next_id());
        let name = name.to_owned();
        self.contents.insert(id, Contents::default());
        Ok(self.enter(Bucket {
            id,
            name,
            options,
            revision: 0,
            record,
            moves,
            shares_bodies: false,
        }))
    }

    /// The next revision of a bucket.
    fn enter(&mut self, bucket: Bucket) -> Arc<Bucket> {
        let bucket = Arc::new(Bucket { revision: bucket.revision + 1, ..bucket });
        self.buckets.insert(bucket.name.clone(), Arc::clone(&bucket));
        bucket
    }

    fn change_key(
        &mut self,
        bucket: BucketId,
        changer: Changer<'_>,
        key: &str,
        named: Option<Select>,
        body: NewBody,
        change: ChangeKey,
    ) -> Result<KeyChange> {
        let contents = self.changed(bucket, changer)?;
        let view = KeyView {
            newest: contents.version(key, Select::Newest),
            null: contents.version(key, Select::Null),
            named: named.and_then(|select| contents.version(key, select)),
        };
        let change = change(&view)?;
        contents.apply(key, &change, body)?;
        contents.watch.tell(Some(key));
        Ok(change)
    }
}

impl Contents {
    fn select(&self, key: &str, select: Select) -> Option<(usize, &(Version, Rope))> {
        let versions = self.keys.get(key)?;
        versions.iter().enumerate().find(|(index, (version, _))| match select {
            Select::Newest => *index == 0,
            Select::Null => version.null,
            Select::Order(order) => version.order == order,
        })
    }

    fn version(&self, key: &str, select: Select) -> Option<Version> {
        self.select(key, select).map(|(_, (version, _))| version.clone())
    }

    fn uploading(&mut self, key: &str, upload: UploadId) -> Result<&mut MemoryUpload> {
        self.uploads.get_mut(&(key.to_owned(), upload)).ok_or_else(|| no_upload(key, upload))
    }

    fn body(&mut self, key: &str, body: NewBody) -> Result<Rope> {
        match body {
            NewBody::Parts { upload, parts } => {
                let rope = self.uploading(key, upload)?.joined(&parts)?;
                self.uploads.remove(&(key.to_owned(), upload));
                Ok(rope)
            }
            other => Ok(rope_of(other)),
        }
    }

    fn apply(&mut self, key: &str, change: &KeyChange, body: NewBody) -> Result<()> {
        let mut body = match &change.put {
            Some(_) => Some(self.body(key, body)?),
            None => None,
        };
        let versions = self.keys.entry(key.to_owned()).or_default();
        if let Some(order) = change.remove {
            let before = versions.len();
            versions.retain(|(version, _)| version.order != order);
            assert_eq!(versions.len() + 1, before, "a change removes a version that is there");
        }
        if let Some(new) = &change.put {
            assert!(versions.first().is_none_or(|(newest, _)| newest.order < new.order), "STORE-3");
            assert!(
                !new.null || versions.iter().all(|(version, _)| !version.null),
                "one version without an id"
            );
            versions.insert(0, (new.clone(), body.take().unwrap_or_default()));
        }
        if let Some((order, attributes)) = &change.replace {
            let found = versions.iter_mut().find(|(version, _)| version.order == *order);
            let (version, _) =
                found.expect("a change replaces attributes of a version that is there");
            version.attributes = attributes.clone();
        }
        if versions.is_empty() {
            self.keys.remove(key);
        }
        Ok(())
    }

    fn list(&self, query: &ListQuery) -> ListPage {
        let mut lister = Lister::new(query);
        let mut at = lister.start();
        'keys: while let Some((key, versions)) = self.keys.range(at..).next() {
            at = format!("{key}\0");
            for (version, _) in versions {
                match lister.take(key, version) {
                    CursorStep::Next => {}
                    CursorStep::Seek(to) => {
                        at = to;
                        continue 'keys;
                    }
                    CursorStep::End => break 'keys,
                }
            }
        }
        lister.finish()
    }
}

impl MemoryUpload {
    fn joined(&self, parts: &[PartRef]) -> Result<Rope> {
        let mut rope = Rope::default();
        for part in parts {
            let (_, body) = self
                .parts
                .get(&part.number)
                .filter(|(found, _)| found.generation == part.generation)
                .ok_or(Error::NoPart { number: part.number })?;
            rope.pieces.extend(body.pieces.iter().cloned());
        }
        Ok(rope)
    }
}

impl Rope {
    fn cut(&self, range: Range<u64>) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        let mut at = 0u64;
        for piece in &self.pieces {
            let end = at + piece.len() as u64;
            let (from, to) = (range.start.max(at), range.end.min(end));
            if from < to {
                let inside = |offset: u64| usize::try_from(offset - at).unwrap_or(usize::MAX);
                pieces.push(piece.slice(inside(from)..inside(to)));
            }
            at = end;
        }
        pieces
    }
}

impl Body for Rope {
    fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    fn read(&self, range: Range<u64>) -> BodyReader {
        stream::iter(self.cut(range)).map(Ok).boxed()
    }

    fn as_any(&self) -> &(dyn std::any::Any + Send + Sync) {
        self
    }
}

#[async_trait]
impl BodyWriter for MemoryStaging {
    async fn write(&mut self, data: Bytes) -> Result<()> {
        self.rope.pieces.push(data);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StagedBody> {
        Ok(staged(self.rope))
    }
}

fn staged(rope: Rope) -> StagedBody {
    StagedBody { len: rope.len(), handle: Box::new(rope) }
}

fn rope_of(body: NewBody) -> Rope {
    match body {
        NewBody::Small(bytes) => {
            assert!(bytes.len() <= SMALL_BODY_MAX);
            Rope { pieces: if bytes.is_empty() { Vec::new() } else { vec![bytes] } }
        }
        NewBody::Staged(staged) => *staged.handle.downcast::<Rope>().expect("staged here"),
        NewBody::Parts { .. } => unreachable!("parts are taken where their upload is"),
    }
}

/// Is not ready the first time.
async fn pause() {
    let mut is_over = false;
    let turn = std::future::poll_fn(|context| match std::mem::replace(&mut is_over, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    });
    turn.await;
}

fn unread(what: String) -> Error {
    Error::Unread { what, shards: "shard 1".to_owned() }
}

fn no_upload(key: &str, upload: UploadId) -> Error {
    Error::NoUpload { key: key.to_owned(), upload: format!("{:016x}", upload.0) }
}

#[async_trait]
impl ObjectStore for MemoryStore {
    fn check_all_read(&self) -> Result<()> {
        match self.state().unread {
            Some(_) => Err(unread("more users and buckets".to_owned())),
            None => Ok(()),
        }
    }

    fn check_record_read(&self, table: RecordTable, key: &str) -> Result<()> {
        self.state().check_record_read(table, key)
    }

    async fn create_bucket(
        &self,
        name: &str,
        options: BucketOptions,
        record: Bytes,
    ) -> Result<Arc<Bucket>> {
        self.state().make_bucket(name, options, record, None)
    }

    async fn create_arriving(
        &self,
        name: &str,
        options: BucketOptions,
        record: Bytes,
        moves: Move,
    ) -> Result<Arc<Bucket>> {
        check_arriving(name, &moves)?;
        self.state().make_bucket(name, options, record, Some(moves))
    }

    /// Nothing is under way: each change is one step under the lock.
    async fn move_bucket(&self, name: &str, step: MoveStep, _: Patience) -> Result<Arc<Bucket>> {
        step.check(name)?;
        let mut state = self.state();
        let old = Arc::clone(state.named(name)?);
        step.check_at(&old)?;
        Ok(state.enter(Bucket { moves: step.after, ..Bucket::clone(&old) }))
    }

    async fn replace_record(
        &self,
        name: &str,
        expects: &Move,
        record: Bytes,
    ) -> Result<Arc<Bucket>> {
        let mut state = self.state();
        let old = Arc::clone(state.named(name)?);
        Changer::Run(expects).check(name, old.moves.as_ref())?;
        Ok(state.enter(Bucket { record, ..Bucket::clone(&old) }))
    }

    async fn delete_left(&self, name: &str, expects: &Move, versions_max: usize) -> Result<u64> {
        check_left(name, expects)?;
        let mut state = self.state();
        let bucket = Arc::clone(state.named(name)?);
        if bucket.moves.as_ref() != Some(expects) {
            let (name, moves) = (name.to_owned(), bucket.moves.clone());
            return Err(Error::MovesOtherwise { name, moves });
        }
        let keys = &mut state.contents(bucket.id)?.keys;
        let gone: Vec<String> = keys.keys().take(versions_max).cloned().collect();
        gone.iter().for_each(|key| drop(keys.remove(key)));
        let left = keys.values().map(|versions| versions.len() as u64).sum();
        if left == 0 {
            state.contents.remove(&bucket.id);
            state.buckets.remove(name);
        }
        Ok(left)
    }

    /// Others have their turn before every second answer.
    async fn watch(&self, bucket: BucketId, watch: Option<Watch>) -> Result<()> {
        let pauses = {
            let mut state = self.state();
            state.contents(bucket)?.watch = ListenerEntry(watch);
            state.watches += 1;
            state.watches % 2 == 1
        };
        if pauses {
            pause().await;
        }
        Ok(())
    }

    async fn stored_bucket(&self, name: &str) -> Result<Arc<Bucket>> {
        self.bucket(name).await
    }

    async fn bucket(&self, name: &str) -> Result<Arc<Bucket>> {
        self.state().named(name).cloned()
    }

    async fn change_bucket(&self, name: &str, change: ChangeRecord) -> Result<Arc<Bucket>> {
        let mut state = self.state();
        let old = Arc::clone(state.named(name)?);
        Changer::Client.check(name, old.moves.as_ref())?;
        let record =
            change(Some(&old.record))?.ok_or(Error::State { reason: "a bucket has a record" })?;
        let new = state.enter(Bucket { record, ..Bucket::clone(&old) });
        state.contents(new.id)?.watch.tell(None);
        Ok(new)
    }

    async fn delete_bucket(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        let bucket = state.named(name)?;
        check_deletion(name, bucket.moves.as_ref())?;
        let id = bucket.id;
        if !state.contents(id)?.keys.is_empty() {
            return Err(Error::BucketNotEmpty { name: name.to_owned() });
        }
        state.contents.remove(&id);
        state.buckets.remove(name);
        Ok(())
    }

    async fn list_buckets(&self, after: &str, limit: usize) -> Result<Vec<Arc<Bucket>>> {
        let state = self.state();
        Ok(state
            .buckets
            .range(format!("{after}\0")..)
            .filter(|(name, _)| !state.is_unread(name))
            .take(limit)
            .map(|(_, bucket)| Arc::clone(bucket))
            .collect())
    }

    async fn usage(&self, bucket: BucketId) -> Result<BucketUsage> {
        let mut state = self.state();
        let versions = state
            .contents(bucket)?
            .keys
            .values()
            .flatten()
            .map(|(version, _)| version)
            .filter(|version| !version.marker);
        Ok(versions.fold(BucketUsage::default(), |sum, version| BucketUsage {
            objects: sum.objects + 1,
            bytes: sum.bytes + version.size,
        }))
    }

    async fn find(
        &self,
        bucket: BucketId,
        key: &str,
        select: Select,
    ) -> Result<Option<FoundVersion>> {
        let mut state = self.state();
        let found = state.contents(bucket)?.select(key, select);
        Ok(found.map(|(index, (version, body))| FoundVersion {
            version: version.clone(),
            newest: index == 0,
            body: Arc::new(body.clone()),
        }))
    }

    async fn change_key(
        &self,
        bucket: BucketId,
        key: &str,
        named: Option<Select>,
        body: NewBody,
        change: ChangeKey,
    ) -> Result<KeyChange> {
        self.state().change_key(bucket, Changer::Client, key, named, body, change)
    }

    async fn change_arriving(
        &self,
        bucket: BucketId,
        expects: &Move,
        key: &str,
        named: Option<Select>,
        body: NewBody,
        change: ChangeKey,
    ) -> Result<KeyChange> {
        self.state().change_key(bucket, Changer::Run(expects), key, named, body, change)
    }

    async fn list(&self, bucket: BucketId, query: &ListQuery) -> Result<ListPage> {
        Ok(self.state().contents(bucket)?.list(query))
    }

    async fn stage(&self, bucket: BucketId, _key: &str, _room: u64) -> Result<Box<dyn BodyWriter>> {
        self.state().changed(bucket, Changer::Client)?;
        Ok(Box::new(MemoryStaging { rope: Rope::default() }))
    }

    async fn stage_arriving(
        &self,
        bucket: BucketId,
        expects: &Move,
        _key: &str,
        _room: u64,
    ) -> Result<Box<dyn BodyWriter>> {
        self.state().changed(bucket, Changer::Run(expects))?;
        Ok(Box::new(MemoryStaging { rope: Rope::default() }))
    }

    async fn stage_copy(
        &self,
        bucket: BucketId,
        _key: &str,
        source: &dyn Body,
        range: Range<u64>,
    ) -> Result<StagedBody> {
        self.state().contents(bucket)?;
        let rope = source.as_any().downcast_ref::<Rope>().expect("a body of this store");
        assert!(range.end <= rope.len());
        Ok(staged(Rope { pieces: rope.cut(range) }))
    }

    async fn create_upload(
        &self,
        bucket: BucketId,
        key: &str,
        started_ms: u64,
        attributes: Bytes,
    ) -> Result<Upload> {
        let mut state = self.state();
        let id = UploadId(state.next_id());
        let upload = Upload { key: key.to_owned(), id, started_ms, attributes };
        let uploading = MemoryUpload { upload: upload.clone(), parts: BTreeMap::new() };
        state.changed(bucket, Changer::Client)?.uploads.insert((key.to_owned(), id), uploading);
        Ok(upload)
    }

    async fn upload(&self, bucket: BucketId, key: &str, upload: UploadId) -> Result<Upload> {
        Ok(self.state().contents(bucket)?.uploading(key, upload)?.upload.clone())
    }

    async fn put_part(
        &self,
        bucket: BucketId,
        key: &str,
        upload: UploadId,
        part: UploadPart,
        body: NewBody,
    ) -> Result<UploadPart> {
        let mut state = self.state();
        let generation = state.next_id();
        let uploading = state.changed(bucket, Changer::Client)?.uploading(key, upload)?;
        let part = UploadPart { generation, ..part };
        uploading.parts.insert(part.number, (part.clone(), rope_of(body)));
        Ok(part)
    }

    async fn list_parts(
        &self,
        bucket: BucketId,
        key: &str,
        upload: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<Vec<UploadPart>> {
        let mut state = self.state();
        let parts = &state.contents(bucket)?.uploading(key, upload)?.parts;
        let Some(from) = after.checked_add(1) else { return Ok(Vec::new()) };
        Ok(parts.range(from..).take(limit).map(|(_, (part, _))| part.clone()).collect())
    }

    async fn abort_upload(&self, bucket: BucketId, key: &str, upload: UploadId) -> Result<()> {
        let mut state = self.state();
        let gone =
            state.changed(bucket, Changer::Client)?.uploads.remove(&(key.to_owned(), upload));
        gone.map(drop).ok_or_else(|| no_upload(key, upload))
    }

    async fn list_uploads(
        &self,
        bucket: BucketId,
        prefix: &str,
        after: Option<(&str, Option<UploadId>)>,
        limit: usize,
    ) -> Result<Vec<Upload>> {
        let mut state = self.state();
        let behind = |(key, id): &(String, UploadId)| match after {
            None => true,
            Some((after, None)) => key.as_str() > after,
            Some((after, Some(last))) => (key.as_str(), *id) > (after, last),
        };
        let uploads = state.contents(bucket)?.uploads.range((prefix.to_owned(), UploadId(0))..);
        let matching = uploads
            .take_while(|((key, _), _)| key.starts_with(prefix))
            .filter(|(place, _)| behind(place));
        Ok(matching.take(limit).map(|(_, uploading)| uploading.upload.clone()).collect())
    }

    async fn record(&self, table: RecordTable, key: &str) -> Result<Option<Bytes>> {
        let state = self.state();
        state.check_record_read(table, key)?;
        Ok(state.records.get(&(table, key.to_owned())).cloned())
    }

    async fn change_record(
        &self,
        table: RecordTable,
        key: &str,
        change: ChangeRecord,
    ) -> Result<Option<Bytes>> {
        let mut state = self.state();
        state.check_record_read(table, key)?;
        let place = (table, key.to_owned());
        let new = change(state.records.get(&place))?;
        match &new {
            Some(record) => state.records.insert(place, record.clone()),
            None => state.records.remove(&place),
        };
        Ok(new)
    }

    async fn list_records(
        &self,
        table: RecordTable,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Bytes)>> {
        let state = self.state();
        if state.fails_lists {
            return Err(Error::Unavailable { what: "shard 1".to_owned() });
        }
        let records = state
            .records
            .range((table, format!("{after}\0"))..)
            .take_while(|((found, _), _)| *found == table)
            .filter(|((_, key), _)| !state.is_unread(key));
        Ok(records.take(limit).map(|((_, key), record)| (key.clone(), record.clone())).collect())
    }
}
