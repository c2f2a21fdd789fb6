//! Compares the keys of a bucket on a shard with each other, with its account, and with the map of its stream. Nothing
//! here changes anything.
//!
//! It is for a shard on which nobody changes the bucket: what is under way shows as a difference. Sweeps may go on.

use std::ops::ControlFlow;

use hashbrown::{HashMap, HashSet};
use roaring::RoaringTreemap;
use varve_engine::{MapItem, Shard};
use varve_types::{ShardId, StreamId};

use super::keys::{self, BodyPlace};
use super::record::{
    BodyExtent, BucketCounts, ObjectRecord, StoredAttributes, StoredBody, damaged, decode_orphan,
    decode_reference,
};
use super::reference::{Reference, ReferenceTarget};
use crate::{BucketId, Result, UploadId};

/// Differences told by name; more are only counted.
const DIFFERENCES_MAX: usize = 32;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketAudit {
    /// Versions that are no delete markers.
    pub objects: u64,
    /// Their sizes.
    pub bytes: u64,
    /// All versions.
    pub versions: u64,
    /// Blocks of the stream that hold something.
    pub blocks: u64,
    /// Orphans.
    pub orphans: u64,
    /// How many things contradict each other.
    pub difference_count: u64,
    /// The first of them, in words.
    pub differences: Vec<String>,
    /// References that records name.
    pub references: Vec<Reference>,
    /// References that orphans name.
    pub orphaned_references: Vec<Reference>,
    /// References to what is here, with their takers.
    pub referenced: Vec<(ShardId, Reference)>,
}

/// Compares what the shelves of a bucket found of references: the key of each that a record names is at its home, and
/// each key is named by its taker. Returns the differences.
#[must_use]
pub fn compare_references(audits: &[(ShardId, BucketAudit)]) -> Vec<String> {
    let (mut named, mut known) = (HashSet::new(), HashSet::new());
    for (shard, audit) in audits {
        named.extend(audit.references.iter().map(|reference| (*shard, *reference)));
        known.extend(audit.orphaned_references.iter().map(|reference| (*shard, *reference)));
    }
    let kept: HashSet<_> = audits.iter().flat_map(|(_, audit)| &audit.referenced).collect();
    let dangling = named.iter().filter(|name| !kept.contains(*name));
    let dangling = dangling.map(|(taker, name)| format!("{name:?} of shard {taker} has no key"));
    let unknown = kept.iter().filter(|name| !named.contains(**name) && !known.contains(**name));
    let unknown = unknown.map(|(taker, name)| format!("shard {taker} knows nothing of {name:?}"));
    dangling.chain(unknown).collect()
}

/// The audit under way.
struct Audit {
    report: BucketAudit,
    counts: BucketCounts,
    /// Blocks that a record or an orphan names.
    named: RoaringTreemap,
    /// First blocks of what is named.
    extents: HashSet<u64>,
    /// Bytes that versions say the parts of an upload have; none for uploads and orphans, which do not say.
    parts_named: HashMap<UploadId, Option<u64>>,
    /// Bytes of the parts that there are.
    parts: HashMap<UploadId, u64>,
}

impl Audit {
    fn differs(&mut self, what: impl FnOnce() -> String) {
        self.report.difference_count += 1;
        if self.report.differences.len() < DIFFERENCES_MAX {
            self.report.differences.push(what());
        }
    }

    fn name_blocks(&mut self, first: u64, blocks: u64, who: &str) {
        let end = first + blocks;
        self.extents.insert(first);
        if end > self.counts.next_block {
            let next = self.counts.next_block;
            self.differs(|| format!("{who} names blocks {first} to {end}; the next one is {next}"));
        }
        if self.named.insert_range(first..end) != blocks {
            self.differs(|| format!("blocks {first} to {end} of {who} are named twice"));
        }
    }

    fn name_extent(&mut self, extent: &BodyExtent, who: &str) {
        self.name_blocks(extent.first, extent.blocks(), who);
    }

    fn name_record(&mut self, record: &ObjectRecord, who: &str) {
        match &record.body {
            StoredBody::Extent(extent) => self.name_extent(extent, who),
            StoredBody::Reference { reference, .. } => self.report.references.push(*reference),
            StoredBody::None | StoredBody::Inline(_) | StoredBody::Parts { .. } => {}
        }
        if let StoredAttributes::Extent(extent) = &record.attributes {
            self.name_extent(extent, who);
        }
    }

    fn name_parts(&mut self, upload: UploadId, bytes: Option<u64>, who: &str) {
        if self.parts_named.insert(upload, bytes).is_some() {
            self.differs(|| format!("the parts of {who} are named twice"));
        }
    }

    fn take_version(&mut self, key: &[u8], record: &ObjectRecord) {
        let who = key.escape_ascii().to_string();
        if keys::decode_version(key).is_none() {
            self.differs(|| format!("{who} is not a version's key"));
        }
        self.report.versions += 1;
        if !record.is_marker {
            self.report.objects += 1;
            self.report.bytes = self.report.bytes.saturating_add(record.size);
        }
        self.name_record(record, &who);
        if let StoredBody::Parts { upload, len } = record.body {
            self.name_parts(upload, Some(len), &who);
        }
    }

    fn take_upload(&mut self, key: &[u8], record: &ObjectRecord) {
        let who = key.escape_ascii().to_string();
        self.name_record(record, &who);
        match keys::decode_upload(key) {
            Some((_, upload)) => self.name_parts(upload, None, &who),
            None => self.differs(|| format!("{who} is not an upload's key")),
        }
    }

    fn take_part(&mut self, key: &[u8], record: &ObjectRecord) {
        let who = key.escape_ascii().to_string();
        self.name_record(record, &who);
        match keys::upload_of_part(key) {
            Some(upload) => {
                let bytes = self.parts.entry(upload).or_default();
                *bytes = bytes.saturating_add(record.body.len());
            }
            None => self.differs(|| format!("{who} is not a part's key")),
        }
    }

    fn take_orphan(&mut self, place: BodyPlace, blocks: u64) {
        self.report.orphans += 1;
        let who = format!("orphan {place:?}");
        match place {
            BodyPlace::Extent(first) => self.name_blocks(first, blocks, &who),
            BodyPlace::Parts(upload) => self.name_parts(upload, None, &who),
            BodyPlace::Reference(reference) => self.report.orphaned_references.push(reference),
        }
    }

    /// What references name is there.
    fn check_referenced(&mut self) {
        for (taker, reference) in self.report.referenced.clone() {
            let is_there = match reference.target {
                ReferenceTarget::Extent(first) => self.extents.contains(&first),
                ReferenceTarget::Parts(upload) => self.parts_named.contains_key(&upload),
            };
            if !is_there {
                self.differs(|| format!("{reference:?} of shard {taker} names what is gone"));
            }
        }
    }

    /// Compares parts with who names them, and sums with the account.
    fn finish(mut self) -> BucketAudit {
        self.check_referenced();
        let mut parts: Vec<_> = std::mem::take(&mut self.parts).into_iter().collect();
        parts.sort_unstable();
        for (upload, bytes) in parts {
            match self.parts_named.remove(&upload) {
                None => self.differs(|| format!("the parts of upload {} are nobody's", upload.0)),
                Some(Some(said)) if said != bytes => self.differs(|| {
                    format!("upload {} became a body of {said} bytes and has {bytes}", upload.0)
                }),
                Some(_) => {}
            }
        }
        let mut missing: Vec<_> = std::mem::take(&mut self.parts_named).into_iter().collect();
        missing.sort_unstable();
        for (upload, bytes) in missing {
            if bytes.is_some_and(|bytes| bytes > 0) {
                self.differs(|| format!("the parts of upload {}, a body, are gone", upload.0));
            }
        }
        let (found, said) = (
            (self.report.objects, self.report.bytes, self.report.versions),
            (self.counts.objects, self.counts.bytes, self.counts.versions),
        );
        if found != said {
            self.differs(|| format!("objects, bytes and versions are {found:?}, not {said:?}"));
        }
        self.report
    }
}

/// Buckets that have keys on a shard.
///
/// # Errors
/// `Corrupt`, `Unavailable`.
pub async fn buckets_of(shard: &Shard) -> Result<Vec<BucketId>> {
    let accounts = shard.key_scan(&[keys::COUNTS], None, usize::MAX).await?;
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
    let counts = match shard.key_get(&keys::counts(bucket)).await? {
        Some(value) => BucketCounts::decode(&value)?,
        None => BucketCounts::EMPTY,
    };
    let mut audit = Audit {
        report: BucketAudit::default(),
        counts,
        named: RoaringTreemap::new(),
        extents: HashSet::new(),
        parts_named: HashMap::new(),
        parts: HashMap::new(),
    };
    for range in keys::all(bucket) {
        let mut from = range.start;
        loop {
            let found = shard.key_range(&from, Some(&range.end), super::BATCH).await?;
            let Some((last, _)) = found.last() else { break };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &found {
                match key[0] {
                    keys::VERSION => audit.take_version(key, &ObjectRecord::decode(value)?),
                    keys::UPLOAD => audit.take_upload(key, &ObjectRecord::decode(value)?),
                    keys::PART => audit.take_part(key, &ObjectRecord::decode(value)?),
                    keys::ORPHAN => {
                        let place = keys::decode_orphan(key);
                        let place = place.ok_or_else(|| damaged("the key of an orphan"))?;
                        audit.take_orphan(place, decode_orphan(value)?);
                    }
                    keys::REFERENCE => {
                        decode_reference(value)?;
                        let found = keys::decode_reference(key, shard.id());
                        let found = found.ok_or_else(|| damaged("the key of a reference"))?;
                        audit.report.referenced.push(found);
                    }
                    _ => {}
                }
            }
        }
    }
    let mut unreadable = None;
    let mut visit = |item: MapItem| {
        match item {
            MapItem::Data { block, .. } => {
                audit.report.blocks += 1;
                if !audit.named.contains(block) {
                    audit.differs(|| format!("block {block} holds something, and is nobody's"));
                }
            }
            MapItem::Unreadable { error, .. } => unreadable = Some(error),
            MapItem::Page { .. } => {}
        }
        if unreadable.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    shard.apply_acknowledged().await?; // What keys do not name any more has left the map.
    shard.walk_map(StreamId::new(bucket.0), 0, &mut visit).await?;
    match unreadable {
        Some(error) => Err(error.into()),
        None => Ok(audit.finish()),
    }
}
