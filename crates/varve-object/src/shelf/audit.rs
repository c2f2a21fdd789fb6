//! Compares the keys of a bucket on a shard with each other, with its account, and with the map of its stream. Nothing
//! here changes anything.
//!
//! It is for a shard on which nobody changes the bucket: what is under way shows as a difference. Sweeps may go on.

use std::ops::Range;

use varve_dataset_content::{ContentAudit, ContentReport, keys::ACCOUNT};
use varve_engine::Shard;
use varve_types::{ShardId, StreamId};

use super::keys;
use super::record::{ObjectRecord, damaged};
use crate::{BucketId, Result};

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketAudit {
    /// Versions that are no delete markers.
    pub objects: u64,
    /// Their sizes.
    pub bytes: u64,
    /// All versions.
    pub versions: u64,
    /// Their bodies, and all that contradicts something.
    pub content: ContentReport,
}

/// Compares what the shelves of a bucket found of references; returns the differences.
#[must_use]
pub fn compare_references(audits: &[(ShardId, BucketAudit)]) -> Vec<String> {
    let contents: Vec<_> = audits.iter().map(|(shard, audit)| (*shard, &audit.content)).collect();
    varve_dataset_content::compare_references(&contents)
}

/// The audit under way.
struct Audit<'a> {
    shard: &'a Shard,
    content: ContentAudit,
    report: BucketAudit,
}

impl Audit<'_> {
    fn take_version(&mut self, key: &[u8], record: &ObjectRecord) {
        let who = key.escape_ascii().to_string();
        if keys::decode_version(key).is_none() {
            self.content.differs(|| format!("{who} is not a version's key"));
        }
        self.report.versions += 1;
        if !record.is_marker {
            self.report.objects += 1;
            self.report.bytes = self.report.bytes.saturating_add(record.size);
        }
        self.content.take_record(&record.content(), &who);
    }

    fn take_upload(&mut self, key: &[u8], record: &ObjectRecord) {
        let who = key.escape_ascii().to_string();
        self.content.take_record(&record.content(), &who);
        match keys::decode_upload(key) {
            Some((_, upload)) => self.content.name_series(upload.series(), None, &who),
            None => self.content.differs(|| format!("{who} is not an upload's key")),
        }
    }

    fn take_part(&mut self, key: &[u8], record: &ObjectRecord) {
        let who = key.escape_ascii().to_string();
        match keys::upload_of_part(key) {
            Some(upload) => self.content.take_member(upload.series(), &record.content(), &who),
            None => self.content.differs(|| format!("{who} is not a part's key")),
        }
    }

    async fn take_range(&mut self, range: Range<Vec<u8>>) -> Result<()> {
        let Range { start: mut from, end } = range;
        loop {
            let found = self.shard.key_range(&from, Some(&end), super::BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &found {
                let record = ObjectRecord::decode(value)?;
                match key.first() {
                    Some(&keys::VERSION) => self.take_version(key, &record),
                    Some(&keys::UPLOAD) => self.take_upload(key, &record),
                    _ => self.take_part(key, &record),
                }
            }
        }
    }

    /// Compares sums with the account, and bodies with the rest.
    async fn finish(mut self) -> Result<BucketAudit> {
        let (report, account) = (&self.report, self.content.account());
        let found = (report.objects, report.bytes, report.versions);
        let said = (account.items(), account.bytes(), account.records());
        if found != said {
            let what = || format!("objects, bytes and versions are {found:?}, not {said:?}");
            self.content.differs(what);
        }
        let content = self.content.finish(self.shard).await?;
        Ok(BucketAudit { content, ..self.report })
    }
}

/// Buckets that have keys on a shard.
///
/// # Errors
/// `Corrupt`, `Unavailable`.
pub async fn buckets_of(shard: &Shard) -> Result<Vec<BucketId>> {
    let accounts = shard.key_scan(&[ACCOUNT], None, usize::MAX).await?;
    let bucket = |(key, _): &(Vec<u8>, Vec<u8>)| {
        keys::decode_counts(key).ok_or_else(|| damaged("the key of an account"))
    };
    accounts.iter().map(bucket).collect()
}

/// Audits a bucket on a shard. Costs a walk over its keys and its map; takes memory for which blocks are named.
///
/// # Errors
/// `Corrupt` when keys or the map cannot be read, `Unavailable` when the shard closed.
pub async fn audit_bucket(shard: &Shard, bucket: BucketId) -> Result<BucketAudit> {
    let content = ContentAudit::begin(shard, StreamId::new(bucket.0)).await?;
    let mut audit = Audit { shard, content, report: BucketAudit::default() };
    for range in keys::records(bucket) {
        audit.take_range(range).await?;
    }
    audit.content.take_orphans(shard).await?;
    audit.take_range(keys::all_parts(bucket)).await?;
    audit.finish().await
}
