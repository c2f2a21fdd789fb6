//! Changes of a key's versions.

use bytes::Bytes;
use varve_dataset_content::{StoredContent, TallyChange, TransactionPlan};
use varve_engine::CommittedTransaction;

use super::record::{ObjectRecord, StoredAttributes};
use super::{BucketShard, IncomingBody, keys};
use crate::{
    ChangeKey, Error, KeyChange, KeyView, NewVersion, PartRef, Result, Select, UploadId, Version,
};

/// Body bytes that stand in the record itself.
const INLINE_BODY_MAX: usize = 256;

/// Attribute bytes that stand in the record itself: more of them would spread keys over too many pages.
const INLINE_ATTRIBUTES_MAX: usize = 1024;

/// Bytes of a key and its record that surely fit an entry of the key tree.
const ENTRY_BYTES_MAX: usize = 2000;

/// Bytes of the longest object key, escaped, that are let in: with what stands around it it is a key of the tree.
const KEY_BYTES_MAX: usize = 1280;

/// A version as it is stored, and its order.
#[derive(Clone)]
pub(super) struct StoredVersion {
    pub(super) order: u64,
    pub(super) record: ObjectRecord,
}

/// What a key holds, as far as a change looks at it.
struct Look {
    newest: Option<StoredVersion>,
    null: Option<StoredVersion>,
    named: Option<StoredVersion>,
}

impl Look {
    fn of_order(&self, order: u64) -> Option<&StoredVersion> {
        let all = [&self.newest, &self.null, &self.named];
        all.into_iter().flatten().find(|standing| standing.order == order)
    }

    /// The order of the version without an id, for the record of a newer version.
    fn link(&self) -> u64 {
        self.null.as_ref().map_or(0, |standing| standing.order)
    }
}

/// Upload whose parts become a body.
struct TakenParts {
    upload: UploadId,
    record: ObjectRecord,
    /// Bytes of the parts that are named.
    len: u64,
    /// Numbers of those that are not.
    unnamed: Vec<u16>,
}

impl ObjectRecord {
    /// What the account counts of a version, added or removed so many times.
    pub(super) fn tally(&self, by: i64) -> TallyChange {
        let items = if self.is_marker { 0 } else { by };
        TallyChange { items, bytes: i128::from(items) * i128::from(self.size), records: by }
    }
}

impl BucketShard {
    /// Changes a key as `change` decides, once nobody else does. Durable on return.
    ///
    /// # Errors
    /// What `change` yields; `NoUpload` and `NoPart` for parts that are not there; `NoSpace`, `NoBucket`,
    /// `Unavailable`, `Corrupt`.
    pub async fn change_key(
        &self,
        key: &str,
        named: Option<Select>,
        body: IncomingBody,
        change: ChangeKey,
    ) -> Result<KeyChange> {
        check_key(key)?;
        let (change, committed) = {
            let _lock = self.locks.lock(key).await; // SHELF-1
            self.content.check_open()?;
            let look = self.look(key, named).await?;
            let parts = match &body {
                IncomingBody::Parts { upload, parts } => {
                    Some(self.check_parts(key, *upload, parts).await?)
                }
                IncomingBody::Staged(staged) => {
                    self.content.check_written(staged)?;
                    None
                }
                IncomingBody::Small(_) => None,
            };
            let change = change(&self.view(&look).await?)?;
            let committed = self.apply(key, look, &change, body, parts).await?;
            (change, committed)
        };
        if let Some(committed) = committed {
            self.content.settle(committed).await?;
        }
        Ok(change)
    }

    async fn apply(
        &self,
        key: &str,
        look: Look,
        change: &KeyChange,
        body: IncomingBody,
        parts: Option<TakenParts>,
    ) -> Result<Option<CommittedTransaction>> {
        let mut plan = TransactionPlan::taking_space();
        if let Some(order) = change.remove {
            let gone = self.standing(key, &look, order).await?;
            let Some(gone) = gone else {
                return Err(Error::State { reason: "the version to be removed is gone" });
            };
            plan.free_record(&gone.record.content());
            plan.count(gone.record.tally(-1));
            if change.put.as_ref().is_none_or(|put| put.order != order) {
                plan.delete(keys::version(self.bucket, key, order));
            }
        }
        if let Some((order, attributes)) = &change.replace {
            let standing = self.standing(key, &look, *order).await?;
            let Some(StoredVersion { record, .. }) = standing else {
                return Err(Error::State { reason: "the version to be changed is gone" });
            };
            if let StoredAttributes::Extent(extent) = &record.attributes {
                plan.free_extent(extent);
            }
            let inline = record.body.len_in_record();
            let attributes = self.store_attributes(key, attributes, inline, &mut plan).await?;
            let record = ObjectRecord { attributes, ..record };
            plan.put(keys::version(self.bucket, key, *order), record.encode());
        }
        if let Some(new) = &change.put {
            let link = if Some(look.link()) == change.remove { 0 } else { look.link() };
            let parts = parts.as_ref();
            let record = self.new_record(key, new, link, body, parts, &mut plan).await?;
            plan.count(record.tally(1));
            plan.put(keys::version(self.bucket, key, new.order), record.encode());
            if let Some(taken) = parts {
                plan.free_record(&taken.record.content());
                // The record takes the place of the upload's, and its checksums are those that the parts hold: a full
                // shard has room for that, but not for attributes in blocks. What is refused for want of it leaves the
                // upload as it is.
                plan.set_takes_space(plan.has_writes());
                if plan.has_writes() {
                    self.content.check_room(&plan).await?;
                }
                self.drop_unnamed(taken).await?;
            }
        } else if change.replace.is_none() {
            if change.remove.is_none() {
                return Ok(None);
            }
            plan.set_takes_space(false);
        }
        Ok(Some(self.content.commit(plan).await?))
    }

    /// Removes the parts of an upload that are not named, before the upload becomes a body.
    async fn drop_unnamed(&self, taken: &TakenParts) -> Result<()> {
        for some in taken.unnamed.chunks(self.content.members_at_once()) {
            let mut plan = TransactionPlan::default();
            for number in some {
                let part = keys::part(self.bucket, taken.upload, *number);
                if let Some(value) = self.shard().key_get(&part).await? {
                    plan.free_record(&ObjectRecord::decode(&value)?.content());
                    plan.delete(part);
                }
            }
            drop(self.content.commit(plan).await?); // What follows is durable after it.
        }
        Ok(())
    }

    async fn new_record(
        &self,
        key: &str,
        new: &NewVersion,
        link: u64,
        body: IncomingBody,
        taken: Option<&TakenParts>,
        plan: &mut TransactionPlan,
    ) -> Result<ObjectRecord> {
        let body = match (body, taken) {
            (_, Some(TakenParts { upload, len, .. })) => {
                plan.delete(keys::upload(self.bucket, key, *upload));
                StoredContent::Series { series: upload.series(), len: *len }
            }
            (body, None) => self.store_body(body, plan).await?,
        };
        let inline = body.len_in_record();
        let attributes = self.store_attributes(key, &new.attributes, inline, plan).await?;
        let (is_null, is_marker) = (new.null, new.marker);
        let (size, modified_ms) = (new.size, new.modified_ms);
        Ok(ObjectRecord { is_null, is_marker, size, modified_ms, link, body, attributes })
    }

    /// Finds a place for a body: in the record, in blocks that the transaction writes, or in those that were written
    /// before.
    pub(super) async fn store_body(
        &self,
        body: IncomingBody,
        plan: &mut TransactionPlan,
    ) -> Result<StoredContent> {
        match body {
            IncomingBody::Small(bytes) if bytes.is_empty() => Ok(StoredContent::None),
            IncomingBody::Small(bytes) if bytes.len() <= INLINE_BODY_MAX => {
                Ok(StoredContent::Inline(bytes))
            }
            IncomingBody::Small(bytes) => {
                Ok(StoredContent::Extent(self.content.store_bytes(&bytes, plan).await?))
            }
            IncomingBody::Staged(body) => Ok(self.content.take_written(body, plan).await?),
            IncomingBody::Parts { .. } => {
                Err(Error::State { reason: "parts become the body of a version only" })
            }
        }
    }

    /// Finds a place for attributes, in the record or in blocks.
    pub(super) async fn store_attributes(
        &self,
        key: &str,
        attributes: &Bytes,
        inline_body_bytes: usize,
        plan: &mut TransactionPlan,
    ) -> Result<StoredAttributes> {
        let key_bytes = keys::version(self.bucket, key, 0).len();
        let entry_bytes =
            key_bytes + ObjectRecord::encoded_len(attributes.len() + inline_body_bytes);
        if attributes.len() <= INLINE_ATTRIBUTES_MAX && entry_bytes <= ENTRY_BYTES_MAX {
            return Ok(StoredAttributes::Inline(attributes.clone()));
        }
        Ok(StoredAttributes::Extent(self.content.store_bytes(attributes, plan).await?))
    }

    async fn look(&self, key: &str, named: Option<Select>) -> Result<Look> {
        let newest = self.newest(key).await?;
        let null = match &newest {
            None => None,
            Some(standing) => self.null_below(key, standing).await?,
        };
        let look = Look { newest, null, named: None };
        let named = match named {
            None => None,
            Some(Select::Newest) => look.newest.clone(),
            Some(Select::Null) => look.null.clone(),
            Some(Select::Order(order)) => self.standing(key, &look, order).await?,
        };
        Ok(Look { named, ..look })
    }

    /// The newest version of a key.
    pub(super) async fn newest(&self, key: &str) -> Result<Option<StoredVersion>> {
        let range = keys::versions(self.bucket, key);
        let found = self.shard().key_range(&range.start, Some(&range.end), 1).await?;
        found.first().map(|(key, value)| decode(key, value)).transpose()
    }

    /// The version without an id, given the newest one: that, or the one that it is linked to.
    pub(super) async fn null_below(
        &self,
        key: &str,
        newest: &StoredVersion,
    ) -> Result<Option<StoredVersion>> {
        if newest.record.is_null {
            return Ok(Some(newest.clone()));
        }
        let link = newest.record.link;
        if link == 0 {
            return Ok(None);
        }
        let found = self.version(key, link).await?;
        Ok(found.filter(|standing| standing.record.is_null))
    }

    /// A version by its order.
    pub(super) async fn version(&self, key: &str, order: u64) -> Result<Option<StoredVersion>> {
        let value = self.shard().key_get(&keys::version(self.bucket, key, order)).await?;
        let standing =
            |value: Vec<u8>| Ok(StoredVersion { order, record: ObjectRecord::decode(&value)? });
        value.map(standing).transpose()
    }

    async fn standing(&self, key: &str, look: &Look, order: u64) -> Result<Option<StoredVersion>> {
        match look.of_order(order) {
            Some(standing) => Ok(Some(standing.clone())),
            None => self.version(key, order).await,
        }
    }

    async fn view(&self, look: &Look) -> Result<KeyView> {
        Ok(KeyView {
            newest: self.seen(look.newest.as_ref()).await?,
            null: self.seen(look.null.as_ref()).await?,
            named: self.seen(look.named.as_ref()).await?,
        })
    }

    async fn seen(&self, standing: Option<&StoredVersion>) -> Result<Option<Version>> {
        let Some(StoredVersion { order, record }) = standing else { return Ok(None) };
        let attributes = self.attributes(record).await?;
        Ok(Some(record.version(*order, attributes)))
    }

    /// Looks whether an upload has the parts that are named.
    async fn check_parts(
        &self,
        key: &str,
        upload: UploadId,
        parts: &[PartRef],
    ) -> Result<TakenParts> {
        let record = self.upload_record(key, upload).await?;
        if !parts.is_sorted_by(|a, b| a.number < b.number) {
            return Err(Error::State { reason: "parts are named in the order of their numbers" });
        }
        let (mut wanted, mut len, mut unnamed) = (parts.iter().peekable(), 0_u64, Vec::new());
        let range = keys::parts(self.bucket, upload);
        let mut from = range.start;
        loop {
            let found = self.shard().key_range(&from, Some(&range.end), super::BATCH).await?;
            let Some((last, _)) = found.last() else { break };
            from = [last.as_slice(), &[0]].concat();
            for (part, value) in &found {
                let number = keys::decode_part(part).unwrap_or_default();
                let record = ObjectRecord::decode(value)?;
                match wanted.next_if(|part| part.number <= number) {
                    None => unnamed.push(number),
                    Some(part) if *part == PartRef { number, generation: record.link } => {
                        len = len.saturating_add(record.body.len());
                    }
                    Some(part) => return Err(Error::NoPart { number: part.number }),
                }
            }
        }
        match wanted.next() {
            Some(part) => Err(Error::NoPart { number: part.number }),
            None => Ok(TakenParts { upload, record, len, unnamed }),
        }
    }
}

pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<StoredVersion> {
    let (_, order) =
        keys::decode_version(key).ok_or_else(|| super::record::damaged("the key of a version"))?;
    Ok(StoredVersion { order, record: ObjectRecord::decode(value)? })
}

/// Refuses keys that do not fit the key tree.
pub(super) fn check_key(key: &str) -> Result<()> {
    let escaped = key.len() + key.bytes().filter(|byte| *byte <= 1).count();
    if key.is_empty() || escaped > KEY_BYTES_MAX {
        return Err(Error::State { reason: "a key has 1 to 1,024 bytes" });
    }
    Ok(())
}
