//! Census: what each stream of a shard names, what it alone names, and what a volume with its snapshots alone names; so
//! what comes back when they go. Nothing here changes anything.
//!
//! ```text
//!  survey:  every stream once → what several streams, and several families, name
//!  tally:   every stream once more → what one alone names
//! ```
//!
//! CENSUS-1. A page that several streams share is visited three times at most in the survey and once a family in the
//!     tally: a census costs what pages and chunks there are, not what streams name.
//! CENSUS-2. What changes meanwhile is counted as it was or as it is.
//! CENSUS-3. A chunk that other shards name is nobody's own: all shards' names are collected first. Its home counts it
//!     once.

mod usage;

use std::collections::BTreeMap;

use roaring::RoaringTreemap;
use varve_logstore::space::unit_space;
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId};

use crate::hash::HashMap;
use crate::peers::{ForeignChunk, ForeignNames};
use crate::tree::{Map, WalkItem};
use crate::trees::{PAGE_ID_FIRST, Stop, Trees};
use crate::walk::{GateUse, MapCursor, STEP, Walk};
use crate::{Error, Result, Shard};

pub use usage::{FamilyUsage, SpaceUsage, StoredAmount, StreamUsage};

/// What blocks there are below a page, and what they name.
#[derive(Clone, Copy, Default)]
struct Total {
    blocks: u64,
    bytes: u64,
}

impl Total {
    fn add(&mut self, other: Self) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }
}

/// A page that a walk is inside.
struct Inside {
    page: u64,
    level: u8,
    /// Its total, when it was found in an earlier visit.
    known: Option<Total>,
    /// Of pages below it that the walk has left.
    total: Total,
    /// Chunks that it names itself.
    chunks: Vec<u64>,
    /// Chunks of other shards that it names.
    foreign: Vec<ForeignChunk>,
}

/// What a survey has found so far.
#[derive(Default)]
struct Survey {
    /// Named by any stream, by two of them, by streams of two families.
    seen: RoaringTreemap,
    shared: RoaringTreemap,
    widely: RoaringTreemap,
    /// Named first by this family, by this stream.
    of_family: RoaringTreemap,
    of_stream: RoaringTreemap,
    /// Named by this stream too, and first by another one.
    again: RoaringTreemap,
    totals: HashMap<u64, Total>,
}

impl Survey {
    /// Whether all below a page was found to be named as widely as this visit could tell (CENSUS-1).
    fn is_known(&self, page: u64) -> bool {
        self.widely.contains(page) || self.shared.contains(page) && self.of_family.contains(page)
    }

    /// Returns whether the stream had not named it before.
    fn note(&mut self, id: u64) -> bool {
        if self.seen.insert(id) {
            let is_first = self.of_family.insert(id) && self.of_stream.insert(id);
            assert!(is_first, "what a stream named was seen");
            true
        } else if self.of_stream.contains(id) {
            false
        } else {
            self.shared.insert(id);
            if !self.of_family.contains(id) {
                self.widely.insert(id);
            }
            self.again.insert(id)
        }
    }
}

/// What the streams of one family name, as far as they were tallied.
#[derive(Default)]
struct Tally {
    /// Pages that were walked.
    walked: RoaringTreemap,
    /// What several streams of the family name, and no other family.
    common: RoaringTreemap,
}

impl Shard {
    /// Counts what streams hold, which come in families: a volume's and its snapshots'. Costs two walks over all their
    /// pages, and two look-ups for each block of data; what is acknowledged and not applied yet may be missing. What
    /// other shards name counts as named by several families (CENSUS-3).
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read, `Unavailable` when the shard closed.
    pub async fn census(
        &self,
        families: &[Vec<StreamId>],
        named: &ForeignNames,
    ) -> Result<SpaceUsage> {
        self.check_open()?;
        self.fold_waiting().await?; // So that the shard's numbers tell as much.
        for stream in families.iter().flatten() {
            self.wait_cut(*stream).await?;
        }
        let (mut survey, mut census) = (Survey::default(), SpaceUsage::default());
        survey.widely = named.of(self.config.shard).cloned().unwrap_or_default(); // CENSUS-3
        for family in families {
            let mut counted = FamilyUsage::default();
            for stream in family {
                let (Total { blocks, bytes }, chunks) = self.survey(&mut survey, *stream).await?;
                let (referenced_bytes, unique) = (bytes, StoredAmount::default());
                counted.streams.push(StreamUsage { blocks, chunks, referenced_bytes, unique });
                survey.of_stream.clear();
                survey.again.clear();
            }
            survey.of_family.clear();
            census.families.push(counted);
        }
        assert_eq!(families.len(), census.families.len(), "each family was surveyed");
        let Survey { shared, widely, .. } = survey;
        for (family, counted) in families.iter().zip(&mut census.families) {
            self.tally_family(&shared, &widely, family, counted).await?;
            census.named.add(counted.whole);
        }
        census.named.add(self.holding(&widely).await?);
        Ok(census)
    }

    /// One stream of a survey: what it names, and how many chunks of this shard that is.
    async fn survey(&self, survey: &mut Survey, stream: StreamId) -> Result<(Total, u64)> {
        let (mut path, mut total) = (Vec::new(), Total::default());
        let mut chunks_of_stream = 0;
        let mut walk = self.walk_names(stream);
        loop {
            let is_known = |_: &Map, page: ChunkId| survey.is_known(page.get());
            let Some(step) = walk.next(is_known).await? else { break };
            for item in &step.found.items {
                match item {
                    WalkItem::Page { page, level } | WalkItem::Known { page, level } => {
                        self.leave(survey, &mut path, *level, &mut total).await?;
                        let (page, level) = (page.get(), *level);
                        let known = survey.totals.get(&page).copied();
                        if item.page().is_some() {
                            survey.note(page);
                        }
                        let total = Total::default();
                        let (chunks, foreign) = (Vec::new(), Vec::new());
                        let above = path.last().map(|inside: &Inside| inside.level);
                        assert!(above.is_none_or(|above| above > level), "a page is below those");
                        path.push(Inside { page, level, known, total, chunks, foreign });
                    }
                    WalkItem::Data { slot, .. } if slot.shard() != self.config.shard => {
                        if let Some(inside) = path.last_mut().filter(|at| at.known.is_none()) {
                            let (home, chunk) = (slot.shard(), slot.id());
                            inside.foreign.push(ForeignChunk { home, chunk });
                        }
                    }
                    WalkItem::Data { slot, .. } => {
                        chunks_of_stream += u64::from(survey.note(slot.id().get()));
                        if let Some(inside) = path.last_mut().filter(|at| at.known.is_none()) {
                            inside.chunks.push(slot.id().get());
                        }
                    }
                }
            }
        }
        self.leave(survey, &mut path, u8::MAX, &mut total).await?;
        assert!(path.is_empty(), "the walk has left all pages"); // CENSUS-1
        Ok((total, chunks_of_stream))
    }

    /// What a stream names, updates that wait included (CENSUS-2).
    fn walk_names(&self, stream: StreamId) -> Walk<'_, MapCursor> {
        self.walk_stream(stream, BlockIndex::ZERO, GateUse::NoStep).with_waiting()
    }

    /// Leaves the pages up to a level that the walk is inside: each adds its total to the page above, the last one to
    /// `whole`.
    async fn leave(
        &self,
        survey: &mut Survey,
        path: &mut Vec<Inside>,
        level: u8,
        whole: &mut Total,
    ) -> Result<()> {
        while let Some(left) = path.pop_if(|inside| inside.level <= level) {
            let total = match left.known {
                Some(known) => known,
                None => {
                    let mut total = left.total;
                    total.blocks += (left.chunks.len() + left.foreign.len()) as u64;
                    let elsewhere = self.stored_elsewhere(&left.foreign).await?;
                    total.bytes += elsewhere.into_iter().flatten().map(u64::from).sum::<u64>();
                    // Once for every block: a chunk may be there several times.
                    total.bytes += self.look_up(&left.chunks).await?.data_bytes;
                    survey.totals.insert(left.page, total);
                    total
                }
            };
            path.last_mut().map_or(&mut *whole, |above| &mut above.total).add(total);
        }
        Ok(())
    }

    /// What the streams of a family alone name.
    async fn tally_family(
        &self,
        shared: &RoaringTreemap,
        widely: &RoaringTreemap,
        family: &[StreamId],
        counted: &mut FamilyUsage,
    ) -> Result<()> {
        assert_eq!(family.len(), counted.streams.len(), "each stream was surveyed");
        let (mut tally, mut of_first) = (Tally::default(), None);
        for (stream, counted_stream) in family.iter().zip(&mut counted.streams) {
            let unique = self.tally(shared, widely, *stream, &mut tally).await?;
            counted_stream.unique = self.holding(&unique).await?;
            counted.whole.add(counted_stream.unique);
            match of_first {
                None => of_first = Some(tally.common.clone()),
                Some(_) => counted.behind_first.add(counted_stream.unique),
            }
        }
        counted.whole.add(self.holding(&tally.common).await?);
        tally.common -= of_first.unwrap_or_default();
        counted.behind_first.add(self.holding(&tally.common).await?);
        Ok(())
    }

    /// What one stream alone names; what others of its family name as well goes to the tally.
    async fn tally(
        &self,
        shared: &RoaringTreemap,
        widely: &RoaringTreemap,
        stream: StreamId,
        tally: &mut Tally,
    ) -> Result<RoaringTreemap> {
        let mut unique = RoaringTreemap::new();
        let mut walk = self.walk_names(stream);
        loop {
            let is_known = |_: &Map, page: ChunkId| {
                widely.contains(page.get()) || tally.walked.contains(page.get())
            };
            let Some(step) = walk.next(is_known).await? else { return Ok(unique) };
            for item in &step.found.items {
                let id = match item {
                    WalkItem::Data { slot, .. } if slot.shard() != self.config.shard => None, // CENSUS-3
                    WalkItem::Data { slot, .. } => Some(slot.id().get()),
                    WalkItem::Page { page, .. } => Some(page.get()),
                    WalkItem::Known { .. } => None,
                };
                let Some(id) = id.filter(|id| !widely.contains(*id)) else { continue };
                if id >= PAGE_ID_FIRST {
                    tally.walked.insert(id);
                }
                let named = if shared.contains(id) { &mut tally.common } else { &mut unique };
                named.insert(id);
            }
        }
    }

    /// Chunks of other shards that streams name. Costs a walk over their maps, whose shared pages are visited once.
    ///
    /// # Errors
    /// As [`Self::census`].
    pub async fn foreign_names(&self, families: &[Vec<StreamId>]) -> Result<ForeignNames> {
        self.check_open()?;
        let mut names = ForeignNames::default();
        if !self.trees.borrow().names_foreign {
            return Ok(names);
        }
        let (mut seen, mut pages) = (RoaringTreemap::new(), Vec::new());
        for stream in families.iter().flatten() {
            let mut walk = self.walk_names(*stream);
            let is_known = |_: &Map, page: ChunkId| seen.contains(page.get());
            while let Some(step) = walk.next(is_known).await? {
                for item in &step.found.items {
                    match item {
                        WalkItem::Page { page, .. } | WalkItem::Known { page, .. } => {
                            pages.push(page.get());
                        }
                        WalkItem::Data { slot, .. } if slot.shard() != self.config.shard => {
                            names.insert(ForeignChunk { home: slot.shard(), chunk: slot.id() });
                        }
                        WalkItem::Data { .. } => {}
                    }
                }
            }
            seen.extend(pages.drain(..)); // A page that a walk is inside of is not left out of the rest of it.
        }
        Ok(names)
    }

    /// What chunks of other shards take there, each; none for one that is gone.
    pub(crate) async fn stored_elsewhere(
        &self,
        names: &[ForeignChunk],
    ) -> Result<Vec<Option<u32>>> {
        let mut homes: BTreeMap<ShardId, Vec<usize>> = BTreeMap::new();
        for (at, name) in names.iter().enumerate() {
            homes.entry(name.home).or_default().push(at);
        }
        let mut found = vec![None; names.len()];
        debug_assert_eq!(homes.values().map(Vec::len).sum::<usize>(), names.len());
        for (home, places) in homes {
            let chunks = places.iter().map(|at| names[*at].chunk).collect();
            for (at, stored) in places.into_iter().zip(self.stored_at(home, chunks).await?) {
                found[at] = stored;
            }
        }
        Ok(found)
    }

    /// What chunks of another shard take there, each; none for one that is gone.
    pub(crate) async fn stored_at(
        &self,
        home: ShardId,
        chunks: Vec<ChunkId>,
    ) -> Result<Vec<Option<u32>>> {
        let count = chunks.len();
        let stored = self.peers_of(home)?.stored_bytes(home, chunks).await?;
        if stored.len() != count {
            let cause = "it answered something else than was asked".to_owned();
            return Err(Error::HomeDamaged { home, cause });
        }
        Ok(stored)
    }

    /// What chunks and pages take, each once.
    pub(crate) async fn holding(&self, ids: &RoaringTreemap) -> Result<StoredAmount> {
        let (mut holding, mut ids) = (StoredAmount::default(), ids.iter());
        loop {
            let some: Vec<u64> = ids.by_ref().take(STEP).collect();
            if some.is_empty() {
                return Ok(holding);
            }
            holding.add(self.look_up(&some).await?);
            self.reactor.yield_now().await;
        }
    }

    /// What chunks and pages take, once for each time they are there. Pages that no checkpoint has written yet take
    /// nothing.
    async fn look_up(&self, ids: &[u64]) -> Result<StoredAmount> {
        let (mut holding, mut next) = (StoredAmount::default(), 0);
        let step = |trees: &mut Trees| -> std::result::Result<_, Stop> {
            while let Some(id) = ids.get(next).copied() {
                if let Some(entry) = trees.chunk(ChunkId::new(id))? {
                    let bytes = u64::from(unit_space(entry.stored_len));
                    if id < PAGE_ID_FIRST {
                        holding.chunks += 1;
                        holding.data_bytes += bytes;
                    } else {
                        holding.pages += 1;
                        holding.page_bytes += bytes;
                    }
                }
                next += 1;
            }
            Ok(())
        };
        self.with_pages(step).await?;
        assert_eq!(next, ids.len(), "each id was looked up");
        Ok(holding)
    }
}
