//! Listings of a shelf: one page at a time.

use super::record::{Record, StoredAttributes};
use super::{Shelf, keys};
use crate::{ListPage, ListQuery, Lister, Result, Step, Version};

impl Shelf {
    /// One page of the versions on this shelf, as if there were no other.
    ///
    /// # Errors
    /// `Corrupt`, `Unavailable`.
    pub async fn list(&self, query: &ListQuery) -> Result<ListPage> {
        let mut lister = Lister::new(query);
        let range = keys::versions_from(self.bucket, &lister.start());
        let mut from = range.start;
        // One more than the page holds tells whether something follows.
        let batch = (query.limit + 1).clamp(2, super::BATCH);
        'pages: while from < range.end {
            let found = self.shard.key_range(&from, Some(&range.end), batch).await?;
            let is_last = found.len() < batch;
            for (key, value) in found {
                if key < from {
                    continue; // Behind it, up to where it was to go on.
                }
                let (name, order) = keys::decode_version(&key)
                    .ok_or_else(|| super::record::damaged("the key of a version"))?;
                let Some(version) = self.listed(&name, order, Record::decode(&value)?).await?
                else {
                    continue; // It has just gone.
                };
                from = match lister.take(&name, &version) {
                    Step::Next => [key.as_slice(), &[0]].concat(),
                    Step::Seek(to) => keys::versions_from(self.bucket, &to).start,
                    Step::End => break 'pages,
                };
            }
            if is_last {
                break;
            }
        }
        Ok(lister.finish())
    }

    /// A version with its attributes, as it is by now if they have to be read.
    async fn listed(&self, key: &str, order: u64, record: Record) -> Result<Option<Version>> {
        if let StoredAttributes::Inline(attributes) = &record.attributes {
            return Ok(Some(record.version(order, attributes.clone())));
        }
        let _lock = self.locks.lock(key).await; // S3: nobody frees them.
        let Some(now) = self.version(key, order).await? else { return Ok(None) };
        let attributes = self.attributes(&now.record).await?;
        Ok(Some(now.record.version(order, attributes)))
    }
}
