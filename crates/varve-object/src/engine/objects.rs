//! The store's contract, each call a job for the shelf of its key.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use varve_types::ShardId;

use super::EngineStore;
use super::body::{EngineWriter, found, staged};
use super::buckets::{BucketEntry, last_key, replaced};
use super::caller::Address;
use super::gate::{AdmittedChange, ChangeScope};
use crate::moving::{Changer, check_arriving};
use crate::shelf::{IncomingBody, ShelfFound};
use crate::{
    Body, BodyWriter, Bucket, BucketId, BucketOptions, BucketUsage, ChangeKey, ChangeRecord, Error,
    FoundVersion, Item, KeyChange, ListPage, ListQuery, Marker, Move, MoveStep, NewBody,
    ObjectStore, Patience, RecordTable, Result, SMALL_BODY_MAX, Select, StagedBody, Upload,
    UploadId, UploadPart, Watch,
};

/// Entries of a table listed at once.
const PAGE: usize = 1000;

impl EngineStore {
    /// Where a key of a bucket is.
    fn address(&self, bucket: BucketId, key: &str) -> Result<Address> {
        Ok(self.address_in(&self.buckets.get(bucket)?.bucket, key))
    }

    fn address_in(&self, bucket: &Bucket, key: &str) -> Address {
        let shard = self.caller.home(bucket.id, key);
        Address { shard, bucket: bucket.id }
    }

    /// The same, of a key of a bucket that lets a change through (OBJECT-ENGINE-4).
    pub(super) fn changing(
        &self,
        bucket: BucketId,
        key: &str,
        changer: Changer<'_>,
        of: ChangeScope,
    ) -> Result<(Address, AdmittedChange)> {
        let BucketEntry { bucket, gate, .. } = self.buckets.get(bucket)?;
        let changing = gate.begin(&bucket.name, changer, of)?;
        Ok((self.address_in(&bucket, key), changing))
    }

    async fn change_key_by(
        &self,
        bucket: BucketId,
        changer: Changer<'_>,
        key: &str,
        named: Option<Select>,
        body: NewBody,
        change: ChangeKey,
    ) -> Result<KeyChange> {
        let body = arriving(body)?;
        let (at, changing) =
            self.changing(bucket, key, changer, ChangeScope::Key(key.to_owned()))?;
        let key = key.to_owned();
        let changed = self.caller.on_shelf(at, move |shelf| {
            Box::pin(async move {
                let changed = shelf.change_key(&key, named, body, change).await;
                drop(changing);
                changed
            })
        });
        changed.await
    }

    async fn stage_by(
        &self,
        bucket: BucketId,
        changer: Changer<'_>,
        key: &str,
        room: u64,
    ) -> Result<Box<dyn BodyWriter>> {
        let (at, changing) = self.changing(bucket, key, changer, ChangeScope::Nothing)?;
        let stage =
            move |shelf: std::rc::Rc<crate::shelf::BucketShard>| -> super::caller::ShelfFuture<_> {
                Box::pin(async move {
                    let staging = shelf.content().stage(room).await;
                    drop(changing);
                    Ok(staging?)
                })
            };
        let staging = self.caller.on_shelf(at, stage).await?;
        Ok(Box::new(EngineWriter::new(Arc::clone(&self.caller), at, staging)))
    }

    /// One page of all shelves of a bucket; `at` names the bucket.
    pub(super) async fn pages(&self, at: Address, query: &ListQuery) -> Result<ListPage> {
        self.pages_on(self.caller.shards().collect(), at.bucket, query).await
    }

    /// The same of these shards alone.
    pub(super) async fn pages_on(
        &self,
        shards: Vec<ShardId>,
        bucket: BucketId,
        query: &ListQuery,
    ) -> Result<ListPage> {
        let pages = shards.into_iter().map(|shard| {
            let query = query.clone();
            self.caller.on_shelf(Address { shard, bucket }, move |shelf| {
                Box::pin(async move { shelf.list(&query).await })
            })
        });
        Ok(ListPage::merge(try_join_all(pages).await?, query.limit))
    }

    /// A version of a key with its body.
    pub(super) async fn find_at(
        &self,
        at: Address,
        key: &str,
        select: Select,
    ) -> Result<Option<FoundVersion>> {
        let key = key.to_owned();
        let look = self
            .caller
            .on_shelf(at, move |shelf| Box::pin(async move { shelf.find(&key, select).await }));
        let found = look.await?.map(|ShelfFound { version, newest, body }| FoundVersion {
            version,
            newest,
            body: found(&self.caller, at, body),
        });
        Ok(found)
    }
}

fn arriving(body: NewBody) -> Result<IncomingBody> {
    Ok(match body {
        NewBody::Small(bytes) => {
            assert!(bytes.len() <= SMALL_BODY_MAX, "larger bodies are staged");
            IncomingBody::Small(bytes)
        }
        NewBody::Staged(body) => IncomingBody::Staged(staged(body)?),
        NewBody::Parts { upload, parts } => IncomingBody::Parts { upload, parts },
    })
}

fn table_prefix(table: RecordTable) -> &'static str {
    match table {
        RecordTable::User => "user/",
        RecordTable::AccessKey => "access-key/",
        RecordTable::Gateway => "gateway/",
    }
}

#[async_trait]
impl ObjectStore for EngineStore {
    fn check_all_read(&self) -> Result<()> {
        self.unread.check_none(|| "more users and buckets".to_owned())
    }

    fn check_record_read(&self, table: RecordTable, key: &str) -> Result<()> {
        self.check_read(&format!("{}{key}", table_prefix(table)), || match table {
            RecordTable::User => format!("user `{key}`"),
            RecordTable::AccessKey => format!("access key `{key}`"),
            RecordTable::Gateway => format!("`{key}` of the S3 gateway"),
        })
    }

    async fn create_bucket(
        &self,
        name: &str,
        options: BucketOptions,
        record: Bytes,
    ) -> Result<Arc<Bucket>> {
        self.make_bucket(name, options, record, None).await
    }

    async fn create_arriving(
        &self,
        name: &str,
        options: BucketOptions,
        record: Bytes,
        moves: Move,
    ) -> Result<Arc<Bucket>> {
        check_arriving(name, &moves)?;
        self.make_bucket(name, options, record, Some(moves)).await
    }

    async fn move_bucket(
        &self,
        name: &str,
        step: MoveStep,
        patience: Patience,
    ) -> Result<Arc<Bucket>> {
        self.step(name, step, patience).await
    }

    async fn replace_record(
        &self,
        name: &str,
        expects: &Move,
        record: Bytes,
    ) -> Result<Arc<Bucket>> {
        let replace = Box::new(move |_: Option<&Bytes>| Ok(Some(record)));
        self.change_record_of(name, Changer::Run(expects), replace).await
    }

    async fn delete_left(&self, name: &str, expects: &Move, versions_max: usize) -> Result<u64> {
        self.drop_left(name, expects, versions_max).await
    }

    async fn watch(&self, bucket: BucketId, watch: Option<Watch>) -> Result<()> {
        self.buckets.get(bucket)?.gate.watch(watch);
        Ok(())
    }

    async fn stored_bucket(&self, name: &str) -> Result<Arc<Bucket>> {
        self.stored_and_held(name).await
    }

    async fn bucket(&self, name: &str) -> Result<Arc<Bucket>> {
        self.named(name)
    }

    async fn change_bucket(&self, name: &str, change: ChangeRecord) -> Result<Arc<Bucket>> {
        self.change_record_of(name, Changer::Client, change).await
    }

    async fn delete_bucket(&self, name: &str) -> Result<()> {
        self.remove_bucket(name).await
    }

    async fn list_buckets(&self, after: &str, limit: usize) -> Result<Vec<Arc<Bucket>>> {
        Ok(self.buckets.after(after, limit))
    }

    async fn usage(&self, bucket: BucketId) -> Result<BucketUsage> {
        self.buckets.get(bucket)?;
        let of_each = self.on_all(bucket, |shelf| Box::pin(std::future::ready(Ok(shelf.usage()))));
        Ok(of_each.await?.into_iter().fold(BucketUsage::default(), |sum, one| BucketUsage {
            objects: sum.objects + one.objects,
            bytes: sum.bytes + one.bytes,
        }))
    }

    async fn find(
        &self,
        bucket: BucketId,
        key: &str,
        select: Select,
    ) -> Result<Option<FoundVersion>> {
        self.find_at(self.address(bucket, key)?, key, select).await
    }

    async fn change_key(
        &self,
        bucket: BucketId,
        key: &str,
        named: Option<Select>,
        body: NewBody,
        change: ChangeKey,
    ) -> Result<KeyChange> {
        self.change_key_by(bucket, Changer::Client, key, named, body, change).await
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
        self.change_key_by(bucket, Changer::Run(expects), key, named, body, change).await
    }

    async fn list(&self, bucket: BucketId, query: &ListQuery) -> Result<ListPage> {
        self.pages(self.address(bucket, "")?, query).await
    }

    async fn stage(&self, bucket: BucketId, key: &str, room: u64) -> Result<Box<dyn BodyWriter>> {
        self.stage_by(bucket, Changer::Client, key, room).await
    }

    async fn stage_arriving(
        &self,
        bucket: BucketId,
        expects: &Move,
        key: &str,
        room: u64,
    ) -> Result<Box<dyn BodyWriter>> {
        self.stage_by(bucket, Changer::Run(expects), key, room).await
    }

    async fn stage_copy(
        &self,
        bucket: BucketId,
        key: &str,
        source: &dyn Body,
        range: Range<u64>,
    ) -> Result<StagedBody> {
        if let Some(shared) = self.share(bucket, key, source, &range).await? {
            return Ok(shared);
        }
        let mut writer = self.stage(bucket, key, range.end - range.start).await?;
        let mut pieces = source.read(range);
        while let Some(piece) = pieces.next().await {
            writer.write(piece?).await?;
        }
        writer.finish().await
    }

    async fn create_upload(
        &self,
        bucket: BucketId,
        key: &str,
        started_ms: u64,
        attributes: Bytes,
    ) -> Result<Upload> {
        let (at, changing) = self.changing(bucket, key, Changer::Client, ChangeScope::Nothing)?;
        let key = key.to_owned();
        let created = self.caller.on_shelf(at, move |shelf| {
            Box::pin(async move {
                let created = shelf.create_upload(&key, started_ms, attributes).await;
                drop(changing);
                created
            })
        });
        created.await
    }

    async fn upload(&self, bucket: BucketId, key: &str, upload: UploadId) -> Result<Upload> {
        let (at, key) = (self.address(bucket, key)?, key.to_owned());
        let found = self
            .caller
            .on_shelf(at, move |shelf| Box::pin(async move { shelf.upload(&key, upload).await }));
        found.await
    }

    async fn put_part(
        &self,
        bucket: BucketId,
        key: &str,
        upload: UploadId,
        part: UploadPart,
        body: NewBody,
    ) -> Result<UploadPart> {
        let (at, changing) = self.changing(bucket, key, Changer::Client, ChangeScope::Nothing)?;
        let (body, key) = (arriving(body)?, key.to_owned());
        let put = self.caller.on_shelf(at, move |shelf| {
            Box::pin(async move {
                let put = shelf.put_part(&key, upload, part, body).await;
                drop(changing);
                put
            })
        });
        put.await
    }

    async fn list_parts(
        &self,
        bucket: BucketId,
        key: &str,
        upload: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<Vec<UploadPart>> {
        let (at, key) = (self.address(bucket, key)?, key.to_owned());
        let parts = self.caller.on_shelf(at, move |shelf| {
            Box::pin(async move { shelf.list_parts(&key, upload, after, limit).await })
        });
        parts.await
    }

    async fn abort_upload(&self, bucket: BucketId, key: &str, upload: UploadId) -> Result<()> {
        let (at, changing) = self.changing(bucket, key, Changer::Client, ChangeScope::Nothing)?;
        let key = key.to_owned();
        let aborted = self.caller.on_shelf(at, move |shelf| {
            Box::pin(async move {
                let aborted = shelf.abort_upload(&key, upload).await;
                drop(changing);
                aborted
            })
        });
        aborted.await
    }

    async fn list_uploads(
        &self,
        bucket: BucketId,
        prefix: &str,
        after: Option<(&str, Option<UploadId>)>,
        limit: usize,
    ) -> Result<Vec<Upload>> {
        self.buckets.get(bucket)?;
        let (prefix, after) = (prefix.to_owned(), after.map(|(key, id)| (key.to_owned(), id)));
        let of_each = self.on_all(bucket, move |shelf| {
            let (prefix, after) = (prefix.clone(), after.clone());
            Box::pin(async move {
                let after = after.as_ref().map(|(key, id)| (key.as_str(), *id));
                shelf.list_uploads(&prefix, after, limit).await
            })
        });
        let mut uploads: Vec<Upload> = of_each.await?.into_iter().flatten().collect();
        uploads.sort_by(|a, b| (&a.key, a.id).cmp(&(&b.key, b.id)));
        uploads.truncate(limit);
        Ok(uploads)
    }

    async fn record(&self, table: RecordTable, key: &str) -> Result<Option<Bytes>> {
        self.check_record_read(table, key)?;
        let key = format!("{}{key}", table_prefix(table));
        Ok(self.own(&key).await?.map(|version| version.attributes))
    }

    async fn change_record(
        &self,
        table: RecordTable,
        key: &str,
        change: ChangeRecord,
    ) -> Result<Option<Bytes>> {
        self.check_record_read(table, key)?;
        let decide: ChangeKey = Box::new(move |view| {
            let before = view.newest.as_ref().map(|version| &version.attributes);
            Ok(replaced(view, change(before)?))
        });
        let changed = self.change_own(format!("{}{key}", table_prefix(table)), decide).await?;
        Ok(changed.put.map(|version| version.attributes))
    }

    async fn list_records(
        &self,
        table: RecordTable,
        after: &str,
        limit: usize,
    ) -> Result<Vec<(String, Bytes)>> {
        let prefix = table_prefix(table);
        let mut query = ListQuery {
            prefix: prefix.to_owned(),
            after: Marker::Key(format!("{prefix}{after}")),
            ..ListQuery::default()
        };
        let mut records = Vec::new();
        while records.len() < limit {
            query.limit = (limit - records.len()).min(PAGE);
            let page = self.pages_on(self.read_shards(), self.gateway, &query).await?;
            let Some(last) = page.items.last() else { break };
            query.after = Marker::Key(last_key(last));
            let is_last = !page.more;
            records.extend(page.items.into_iter().filter_map(|item| match item {
                Item::Version { key, version, .. } => {
                    Some((key.strip_prefix(prefix)?.to_owned(), version.attributes))
                }
                Item::Group(_) => None,
            }));
            if is_last {
                break;
            }
        }
        Ok(records)
    }
}

impl From<varve_dispatch::Error> for Error {
    fn from(error: varve_dispatch::Error) -> Self {
        Self::Unavailable { what: error.to_string() }
    }
}
