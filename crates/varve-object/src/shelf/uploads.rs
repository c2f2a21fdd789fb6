//! Multipart uploads: an upload is a key, each part another; parts become a body where they are.

use bytes::Bytes;
use varve_dataset_content::{ContentPlace, StoredContent, TransactionPlan};

use super::change::check_key;
use super::record::ObjectRecord;
use super::{BucketShard, IncomingBody, keys};
use crate::{Error, Result, Upload, UploadId, UploadPart};

impl BucketShard {
    /// Begins an upload. Durable on return.
    ///
    /// # Errors
    /// `NoSpace`, `NoBucket`, `Unavailable`.
    pub async fn create_upload(
        &self,
        key: &str,
        started_ms: u64,
        attributes: Bytes,
    ) -> Result<Upload> {
        check_key(key)?;
        self.content.check_open()?;
        let id = UploadId(self.content.new_id());
        let mut plan = TransactionPlan::taking_space();
        let record = ObjectRecord {
            is_null: false,
            is_marker: false,
            size: 0,
            modified_ms: started_ms,
            link: 0,
            body: StoredContent::None,
            attributes: self.store_attributes(key, &attributes, 0, &mut plan).await?,
        };
        plan.put(keys::upload(self.bucket, key, id), record.encode());
        let committed = self.content.commit(plan).await?;
        self.content.settle(committed).await?;
        Ok(Upload { key: key.to_owned(), id, started_ms, attributes })
    }

    /// An upload under way.
    ///
    /// # Errors
    /// `NoUpload`, `Corrupt`, `Unavailable`.
    pub async fn upload(&self, key: &str, upload: UploadId) -> Result<Upload> {
        check_key(key)?;
        let _lock = self.locks.lock(key).await; // SHELF-1: nobody frees its attributes.
        let record = self.upload_record(key, upload).await?;
        self.load_upload(key, upload, &record).await
    }

    /// Writes a part, in place of the one of that number if there is one. Durable on return.
    ///
    /// # Errors
    /// `NoUpload`, `NoSpace`, `NoBucket`, `Unavailable`.
    pub async fn put_part(
        &self,
        key: &str,
        upload: UploadId,
        part: UploadPart,
        body: IncomingBody,
    ) -> Result<UploadPart> {
        check_key(key)?;
        let generation = self.content.new_id();
        let committed = {
            let _lock = self.locks.lock(key).await; // SHELF-1
            self.content.check_open()?;
            if let IncomingBody::Staged(staged) = &body {
                self.content.check_written(staged)?;
            }
            self.upload_record(key, upload).await?;
            let place = keys::part(self.bucket, upload, part.number);
            let mut plan = TransactionPlan::taking_space();
            if let Some(before) = self.shard().key_get(&place).await? {
                plan.free_record(&ObjectRecord::decode(&before)?.content());
            }
            let body = self.store_body(body, &mut plan).await?;
            let inline = body.len_in_record();
            let attributes =
                self.store_attributes(key, &part.attributes, inline, &mut plan).await?;
            let record = ObjectRecord {
                is_null: false,
                is_marker: false,
                size: part.size,
                modified_ms: part.modified_ms,
                link: generation,
                body,
                attributes,
            };
            plan.put(place, record.encode());
            self.content.commit(plan).await?
        };
        self.content.settle(committed).await?;
        Ok(UploadPart { generation, ..part })
    }

    /// Up to `limit` parts of an upload behind number `after`.
    ///
    /// # Errors
    /// `NoUpload`, `Corrupt`, `Unavailable`.
    pub async fn list_parts(
        &self,
        key: &str,
        upload: UploadId,
        after: u16,
        limit: usize,
    ) -> Result<Vec<UploadPart>> {
        check_key(key)?;
        let _lock = self.locks.lock(key).await; // SHELF-1: nobody frees their attributes.
        self.upload_record(key, upload).await?;
        let Some(first) = after.checked_add(1) else { return Ok(Vec::new()) };
        let end = keys::parts(self.bucket, upload).end;
        let mut from = keys::part(self.bucket, upload, first);
        let mut parts = Vec::new();
        while parts.len() < limit {
            let batch = (limit - parts.len()).min(super::BATCH);
            let found = self.shard().key_range(&from, Some(&end), batch).await?;
            let Some((last, _)) = found.last() else { break };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &found {
                let number = keys::decode_part(key).unwrap_or_default();
                let record = ObjectRecord::decode(value)?;
                parts.push(UploadPart {
                    number,
                    generation: record.link,
                    size: record.size,
                    modified_ms: record.modified_ms,
                    attributes: self.attributes(&record).await?,
                });
            }
        }
        Ok(parts)
    }

    /// Ends an upload; what its parts take comes back. Durable on return.
    ///
    /// # Errors
    /// `NoUpload`, `Unavailable`.
    pub async fn abort_upload(&self, key: &str, upload: UploadId) -> Result<()> {
        check_key(key)?;
        let committed = {
            let _lock = self.locks.lock(key).await; // SHELF-1
            let record = self.upload_record(key, upload).await?;
            let mut plan = TransactionPlan::default();
            plan.free_record(&record.content());
            plan.free_place(ContentPlace::Series(upload.series()));
            plan.delete(keys::upload(self.bucket, key, upload));
            self.content.commit(plan).await?
        };
        Ok(self.content.settle(committed).await?)
    }

    /// Up to `limit` uploads on this shelf whose keys begin with `prefix`, behind `after`, in the order of keys and
    /// ids.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn list_uploads(
        &self,
        prefix: &str,
        after: Option<(&str, Option<UploadId>)>,
        limit: usize,
    ) -> Result<Vec<Upload>> {
        let range = keys::uploads_from(self.bucket, prefix);
        let begin = match after {
            None => range.start.clone(),
            Some((key, None)) => keys::uploads_from(self.bucket, &format!("{key}\0")).start,
            Some((key, Some(id))) => [keys::upload(self.bucket, key, id).as_slice(), &[0]].concat(),
        };
        let mut from = begin.max(range.start);
        let mut uploads = Vec::new();
        while uploads.len() < limit && from < range.end {
            let batch = (limit - uploads.len()).min(super::BATCH);
            let found = self.shard().key_range(&from, Some(&range.end), batch).await?;
            let Some((last, _)) = found.last() else { break };
            from = [last.as_slice(), &[0]].concat();
            for (key, _) in &found {
                let (name, id) = keys::decode_upload(key)
                    .ok_or_else(|| super::record::damaged("the key of an upload"))?;
                if !name.starts_with(prefix) {
                    return Ok(uploads);
                }
                match self.upload(&name, id).await {
                    Ok(upload) => uploads.push(upload),
                    Err(Error::NoUpload { .. }) => {} // It has just ended.
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(uploads)
    }

    /// The record of an upload that is under way.
    pub(super) async fn upload_record(&self, key: &str, upload: UploadId) -> Result<ObjectRecord> {
        match self.shard().key_get(&keys::upload(self.bucket, key, upload)).await? {
            Some(value) => Ok(ObjectRecord::decode(&value)?),
            None => {
                Err(Error::NoUpload { key: key.to_owned(), upload: format!("{:016x}", upload.0) })
            }
        }
    }

    async fn load_upload(&self, key: &str, id: UploadId, record: &ObjectRecord) -> Result<Upload> {
        Ok(Upload {
            key: key.to_owned(),
            id,
            started_ms: record.modified_ms,
            attributes: self.attributes(record).await?,
        })
    }
}
