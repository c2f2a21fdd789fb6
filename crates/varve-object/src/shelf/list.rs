//! Listings of a shelf: one page at a time.

use super::change::{self, StoredVersion};
use super::record::{ObjectRecord, StoredAttributes};
use super::{BucketShard, keys};
use crate::{CursorStep, ListPage, ListQuery, Lister, Result, Version};

impl BucketShard {
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
            let begin = from.clone();
            let (found, next) = self.shard().key_page(&from, Some(&range.end), batch).await?;
            for (key, value) in found {
                if key < from {
                    continue; // Behind it, up to where it was to go on.
                }
                let (name, order) = keys::decode_version(&key)
                    .ok_or_else(|| super::record::damaged("the key of a version"))?;
                let record = ObjectRecord::decode(&value)?;
                let version = match &record.attributes {
                    StoredAttributes::Inline(attributes) => {
                        record.version(order, attributes.clone())
                    }
                    StoredAttributes::Extent(_) => match self.version_from(&name, &from).await? {
                        Some(version) => version,
                        None => continue, // It has just gone.
                    },
                };
                from = match lister.take(&name, &version) {
                    CursorStep::Next => {
                        let taken = keys::version(self.bucket, &name, version.order);
                        [taken.as_slice(), &[0]].concat()
                    }
                    CursorStep::Seek(to) => keys::versions_from(self.bucket, &to).start,
                    CursorStep::End => break 'pages,
                };
                if query.versions && version.order > order {
                    continue 'pages; // The one that was met may still be there, behind it.
                }
            }
            let Some(next) = next else { break };
            // Where the page ends among the versions of a key, a newer one may come before that place and the older one
            // behind it go, and the key would be in neither page. Once for each key, so that one of many dead versions
            // is passed.
            let whole = keys::begin_of_versions(&next).filter(|whole| *whole > begin.as_slice());
            from = from.max(whole.map_or_else(|| next.clone(), <[u8]>::to_vec));
        }
        Ok(lister.finish())
    }

    /// The first version of a key that is not before `from`, as it is by now: another one may have come in the place of
    /// that which was met.
    async fn version_from(&self, key: &str, from: &[u8]) -> Result<Option<Version>> {
        let _lock = self.locks.lock(key).await; // SHELF-1: nobody frees its attributes.
        let versions = keys::versions(self.bucket, key);
        let from = from.max(versions.start.as_slice());
        let found = self.shard().key_range(from, Some(&versions.end), 1).await?;
        let Some((key, value)) = found.first() else { return Ok(None) };
        let StoredVersion { order, record } = change::decode(key, value)?;
        Ok(Some(record.version(order, self.attributes(&record).await?)))
    }
}
