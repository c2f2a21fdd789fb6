//! Compares the keys of a stream on a shard with each other, with its account, and with its map. Nothing here changes
//! anything.
//!
//! It is for a shard on which nobody changes the stream: what is under way shows as a difference. Sweeps may go on.

use std::ops::{ControlFlow, Range};

use hashbrown::{HashMap, HashSet};
use roaring::RoaringTreemap;
use varve_engine::{MapItem, Shard};
use varve_types::{BlockIndex, ShardId, StreamId};

use crate::account::ContentAccount;
use crate::content::{
    ContentExtent, ContentPlace, RecordContent, Reference, ReferenceTarget, SeriesId, StoredContent,
};
use crate::record::{decode_orphan, decode_reference};
use crate::shard::BATCH;
use crate::{Error, Result, keys};

/// Differences told by name; more are only counted.
const DIFFERENCES_MAX: usize = 32;

/// What an audit found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentReport {
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

/// Compares what the shards of a stream found of references: the key of each that a record names is at its home, and
/// each key is named by its taker. Returns the differences.
#[must_use]
pub fn compare_references(audits: &[(ShardId, &ContentReport)]) -> Vec<String> {
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

/// The audit under way: the layer above tells what its records name, then [`Self::finish`] compares it with the rest.
pub struct ContentAudit {
    stream: StreamId,
    report: ContentReport,
    account: ContentAccount,
    /// Blocks that a record or an orphan names.
    named: RoaringTreemap,
    /// First blocks of what is named.
    extents: HashSet<u64>,
    /// Bytes that records say their series have; none for those that do not say.
    series_named: HashMap<SeriesId, Option<u64>>,
    /// Bytes of the members that there are.
    series: HashMap<SeriesId, u64>,
}

impl ContentAudit {
    /// Begins to audit a stream on a shard. Takes memory for which blocks are named.
    ///
    /// # Errors
    /// `Corrupt` when the account cannot be read, `Unavailable` when the shard closed.
    pub async fn begin(shard: &Shard, stream: StreamId) -> Result<Self> {
        let account = match shard.key_get(&keys::account(stream)).await? {
            Some(value) => ContentAccount::decode(&value)?,
            None => ContentAccount::EMPTY,
        };
        Ok(Self {
            stream,
            report: ContentReport::default(),
            account,
            named: RoaringTreemap::new(),
            extents: HashSet::new(),
            series_named: HashMap::new(),
            series: HashMap::new(),
        })
    }

    /// What the account says.
    #[must_use]
    pub fn account(&self) -> ContentAccount {
        self.account
    }

    /// Adds a difference.
    pub fn differs(&mut self, what: impl FnOnce() -> String) {
        self.report.difference_count += 1;
        if self.report.differences.len() < DIFFERENCES_MAX {
            self.report.differences.push(what());
        }
    }

    fn name_blocks(&mut self, first: u64, blocks: u64, who: &str) {
        let end = first + blocks;
        self.extents.insert(first);
        if end > self.account.next_block() {
            let next = self.account.next_block();
            self.differs(|| format!("{who} names blocks {first} to {end}; the next one is {next}"));
        }
        if self.named.insert_range(first..end) != blocks {
            self.differs(|| format!("blocks {first} to {end} of {who} are named twice"));
        }
    }

    fn name_extent(&mut self, extent: &ContentExtent, who: &str) {
        self.name_blocks(extent.first(), extent.blocks(), who);
    }

    fn name_content(&mut self, record: &RecordContent, who: &str) {
        match &record.main {
            StoredContent::Extent(extent) => self.name_extent(extent, who),
            StoredContent::Reference { reference, .. } => self.report.references.push(*reference),
            StoredContent::None | StoredContent::Inline(_) | StoredContent::Series { .. } => {}
        }
        if let Some(extra) = &record.extra {
            self.name_extent(extra, who);
        }
    }

    /// A record that is no member of a series names this.
    pub fn take_record(&mut self, record: &RecordContent, who: &str) {
        self.name_content(record, who);
        if let StoredContent::Series { series, len } = record.main {
            self.name_series(series, Some(len), who);
        }
    }

    /// A member of a series names this.
    pub fn take_member(&mut self, series: SeriesId, record: &RecordContent, who: &str) {
        self.name_content(record, who);
        let bytes = self.series.entry(series).or_default();
        *bytes = bytes.saturating_add(record.main.len());
    }

    /// A series belongs to `who`, which may say how many bytes it has.
    pub fn name_series(&mut self, series: SeriesId, bytes: Option<u64>, who: &str) {
        if self.series_named.insert(series, bytes).is_some() {
            self.differs(|| format!("the parts of {who} are named twice"));
        }
    }

    fn take_orphan(&mut self, place: ContentPlace, blocks: u64) {
        self.report.orphans += 1;
        let who = format!("orphan {place:?}");
        match place {
            ContentPlace::Extent(first) => self.name_blocks(first, blocks, &who),
            ContentPlace::Series(series) => self.name_series(series, None, &who),
            ContentPlace::Reference(reference) => self.report.orphaned_references.push(reference),
        }
    }

    /// Takes the orphans: after the records that may name a series, and before the members. What is swept meanwhile is
    /// then not taken for members that nobody names.
    ///
    /// # Errors
    /// `Corrupt` when keys cannot be read, `Unavailable` when the shard closed.
    pub async fn take_orphans(&mut self, shard: &Shard) -> Result<()> {
        let Range { start: mut from, end } = keys::orphans(self.stream);
        loop {
            let found = shard.key_range(&from, Some(&end), BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &found {
                let place = keys::decode_orphan(key);
                let place = place.ok_or_else(|| Error::damaged("the key of an orphan"))?;
                self.take_orphan(place, decode_orphan(value)?);
            }
        }
    }

    async fn take_references(&mut self, shard: &Shard) -> Result<()> {
        let Range { start: mut from, end } = keys::references(self.stream);
        loop {
            let found = shard.key_range(&from, Some(&end), BATCH).await?;
            let Some((last, _)) = found.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &found {
                decode_reference(value)?;
                let found = keys::decode_reference(key, shard.id());
                let found = found.ok_or_else(|| Error::damaged("the key of a reference"))?;
                self.report.referenced.push(found);
            }
        }
    }

    /// What references name is there.
    fn check_referenced(&mut self) {
        for (taker, reference) in self.report.referenced.clone() {
            let is_there = match reference.target {
                ReferenceTarget::Extent(first) => self.extents.contains(&first),
                ReferenceTarget::Series(series) => self.series_named.contains_key(&series),
            };
            if !is_there {
                self.differs(|| format!("{reference:?} of shard {taker} names what is gone"));
            }
        }
    }

    /// Compares members with who names their series.
    fn check_series(&mut self) {
        let mut series: Vec<_> = std::mem::take(&mut self.series).into_iter().collect();
        series.sort_unstable();
        for (series, bytes) in series {
            match self.series_named.remove(&series) {
                None => self.differs(|| format!("the parts of series {} are nobody's", series.0)),
                Some(Some(said)) if said != bytes => self.differs(|| {
                    format!("series {} is a content of {said} bytes and has {bytes}", series.0)
                }),
                Some(_) => {}
            }
        }
        let mut missing: Vec<_> = std::mem::take(&mut self.series_named).into_iter().collect();
        missing.sort_unstable();
        for (series, bytes) in missing {
            if bytes.is_some_and(|bytes| bytes > 0) {
                self.differs(|| format!("the parts of series {}, a content, are gone", series.0));
            }
        }
    }

    async fn check_map(&mut self, shard: &Shard) -> Result<()> {
        let (stream, mut unreadable) = (self.stream, None);
        let mut visit = |item: MapItem| {
            match item {
                MapItem::Data { block, .. } => {
                    self.report.blocks += 1;
                    if !self.named.contains(block.0) {
                        self.differs(|| format!("block {block} holds something, and is nobody's"));
                    }
                }
                MapItem::Unreadable { error, .. } => unreadable = Some(error),
                MapItem::Page { .. } => {}
            }
            if unreadable.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        shard.apply_acknowledged().await?; // What keys do not name any more has left the map.
        shard.walk_map(stream, BlockIndex::ZERO, &mut visit).await?;
        unreadable.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Compares what was taken with references and the map of the stream. Costs a walk over these.
    ///
    /// # Errors
    /// `Corrupt` when keys or the map cannot be read, `Unavailable` when the shard closed.
    pub async fn finish(mut self, shard: &Shard) -> Result<ContentReport> {
        self.take_references(shard).await?;
        self.check_map(shard).await?;
        self.check_referenced();
        self.check_series();
        Ok(self.report)
    }
}
