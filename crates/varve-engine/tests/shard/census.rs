//! What streams, and families of them, hold and alone name: against a recount that knows nothing of shared pages.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use varve_engine::{FamilyUsage, ForeignNames, MapItem, SpaceUsage, StoredAmount, StreamUsage};
use varve_stdx::Rng;
use varve_types::{BlockIndex, ByteRange, ChunkId, Compression, Dedup, Reduction, StreamId};

use crate::pool::Shape;
use crate::reduction::{BLOCK, Pool, random_blocks, shape, with_shape, with_shard};

const REDUCED: Reduction = Reduction { dedup: Dedup::On, compression: Compression::Lz4 };

/// Blocks of a volume: several leaves of its map, below a page of their own.
const BLOCKS: u64 = 2000;

/// Bytes of a unit beside its stored ones, and what its place is a multiple of.
const ENTRY: u64 = 64;
const ALIGN: u64 = 512;

/// In place of the chunks of a stream that shares pages: a census leaves out those below them.
const SHARES_PAGES: u64 = u64::MAX;

/// A census without what a recount leaves out.
fn comparable(mut census: SpaceUsage, recount: &SpaceUsage) -> SpaceUsage {
    for (family, recounted) in census.families.iter_mut().zip(&recount.families) {
        for (stream, recounted) in family.streams.iter_mut().zip(&recounted.streams) {
            if recounted.chunks == SHARES_PAGES {
                stream.chunks = SHARES_PAGES;
            }
        }
    }
    census
}

/// What a stream names: chunks once for every block, and pages.
struct Named {
    chunks: Vec<ChunkId>,
    pages: BTreeSet<ChunkId>,
}

impl Pool {
    async fn named(&self, stream: StreamId) -> Named {
        let mut named = Named { chunks: Vec::new(), pages: BTreeSet::new() };
        let mut visit = |item| {
            match item {
                MapItem::Page { page, .. } => _ = named.pages.insert(page),
                MapItem::Data { chunk, .. } => named.chunks.push(chunk),
                MapItem::Unreadable { error, .. } => panic!("{error}"),
            }
            ControlFlow::Continue(())
        };
        self.shard.walk_map(stream, BlockIndex::ZERO, &mut visit).await.expect("walk");
        named
    }

    async fn bytes(&self, chunk: ChunkId) -> u64 {
        let place = self.shard.chunk_place(chunk).await.expect("table");
        place.map_or(0, |entry| u64::from(entry.stored_len).next_multiple_of(ALIGN) + ENTRY)
    }

    async fn holding(&self, named: &Named, is_wanted: impl Fn(ChunkId) -> bool) -> StoredAmount {
        let mut holding = StoredAmount::default();
        let chunks: BTreeSet<ChunkId> = named.chunks.iter().copied().collect();
        for chunk in chunks.into_iter().filter(|chunk| is_wanted(*chunk)) {
            holding.chunks += 1;
            holding.data_bytes += self.bytes(chunk).await;
        }
        for page in named.pages.iter().filter(|page| is_wanted(**page)) {
            let bytes = self.bytes(*page).await;
            holding.pages += u64::from(bytes > 0);
            holding.page_bytes += bytes;
        }
        holding
    }

    /// The census, counted one id after the other.
    async fn recount(&self, families: &[Vec<StreamId>]) -> SpaceUsage {
        let mut streams = BTreeMap::new();
        for stream in families.iter().flatten() {
            streams.insert(*stream, self.named(*stream).await);
        }
        let mut namers: BTreeMap<ChunkId, BTreeSet<StreamId>> = BTreeMap::new();
        for (stream, named) in &streams {
            for id in named.chunks.iter().chain(&named.pages) {
                namers.entry(*id).or_default().insert(*stream);
            }
        }
        let union = |of: &[StreamId]| Named {
            chunks: of.iter().flat_map(|stream| streams[stream].chunks.clone()).collect(),
            pages: of.iter().flat_map(|stream| streams[stream].pages.clone()).collect(),
        };
        let mut census = SpaceUsage::default();
        for family in families {
            let is_own = |id| namers[&id].iter().all(|stream| family.contains(stream));
            let is_behind = |id| is_own(id) && !namers[&id].contains(&family[0]);
            let whole = union(family);
            let mut counted = FamilyUsage {
                streams: Vec::new(),
                behind_first: self.holding(&whole, is_behind).await,
                whole: self.holding(&whole, is_own).await,
            };
            for stream in family {
                let named = &streams[stream];
                let mut referenced_bytes = 0;
                for chunk in &named.chunks {
                    referenced_bytes += self.bytes(*chunk).await;
                }
                let is_shared = |page: &ChunkId| namers[page].len() > 1;
                let distinct: BTreeSet<ChunkId> = named.chunks.iter().copied().collect();
                let chunks = match named.pages.iter().any(is_shared) {
                    true => SHARES_PAGES,
                    false => distinct.len() as u64,
                };
                counted.streams.push(StreamUsage {
                    blocks: named.chunks.len() as u64,
                    chunks,
                    referenced_bytes,
                    unique: self.holding(named, |id| namers[&id].len() == 1).await,
                });
            }
            census.families.push(counted);
        }
        let all: Vec<StreamId> = streams.keys().copied().collect();
        census.named = self.holding(&union(&all), |_| true).await;
        census
    }

    /// After a mark pass, and with everything in segments.
    async fn marked(self, owned: &[StreamId]) -> Self {
        let pool = self.reopened().await;
        pool.mark(owned).await;
        pool.reopened().await
    }

    /// Writes, trims and cuts at random; the families that came of it.
    async fn grow(&self, rng: &mut Rng) -> Vec<Vec<StreamId>> {
        let mut families = vec![vec![StreamId::new(1)], vec![StreamId::new(2)]];
        let mut next = 3;
        for _ in 0..40 {
            let family = rng.index(families.len());
            let volume = families[family][0];
            for _ in 0..rng.below(4) {
                // Few seeds, so that blocks are written again elsewhere.
                let (at, count) = (rng.below(BLOCKS - 64), 1 + rng.index(63));
                self.write(volume, at, &random_blocks(rng.below(6), count)).await;
            }
            if rng.below(4) == 0 {
                let start = rng.below(BLOCKS) * BLOCK;
                let range = ByteRange { start, end: start + 20 * BLOCK };
                self.shard.trim(volume, range).await.expect("trim");
            }
            let of = rng.index(families[family].len());
            let (source, copy) = (families[family][of], StreamId::new(next));
            match rng.below(4) {
                0 | 1 => {
                    self.cut(volume, copy).await;
                    families[family].push(copy);
                    next += 1;
                }
                2 if families.len() < 5 => {
                    self.cut(source, copy).await;
                    families.push(vec![copy]);
                    next += 1;
                }
                _ => {}
            }
        }
        families
    }
}

#[test]
fn a_census_is_what_a_recount_finds() {
    for seed in 0..6 {
        with_shard(REDUCED, async move |pool: Pool| {
            let mut rng = Rng::new(seed);
            let families = pool.grow(&mut rng).await;
            pool.shard.apply_acknowledged().await.expect("apply");
            let census =
                pool.shard.census(&families, &ForeignNames::default()).await.expect("census");
            let recount = pool.recount(&families).await;
            let census = comparable(census, &recount);
            assert_eq!(census, recount, "seed {seed}, before a checkpoint");
            let pool = pool.reopened().await;
            let census =
                pool.shard.census(&families, &ForeignNames::default()).await.expect("census");
            let recount = pool.recount(&families).await;
            let census = comparable(census, &recount);
            assert_eq!(census, recount, "seed {seed}");
            assert!(census.named.page_bytes > 0 && census.named.chunks > 0);
        });
    }
}

#[test]
fn what_a_census_says_is_what_deletions_free() {
    let shape = Shape { segments: 400, ..shape(REDUCED) };
    with_shape(shape, async |mut pool: Pool| {
        let families = pool.grow(&mut Rng::new(9)).await;
        let mut all: Vec<StreamId> = families.iter().flatten().copied().collect();
        pool = pool.marked(&all).await;
        for family in families.iter().filter(|family| family.len() > 1) {
            let census =
                pool.shard.census(&families, &ForeignNames::default()).await.expect("census");
            let at = families.iter().position(|other| other == family).unwrap();
            let (before, snapshot) = (pool.data_bytes().await, family[1]);
            assert_eq!(before, census.named.data_bytes, "mark left nothing else");
            pool.shard.drop_stream(snapshot).await.expect("drop");
            all.retain(|stream| *stream != snapshot);
            pool = pool.marked(&all).await;
            let freed = before - pool.data_bytes().await;
            assert_eq!(freed, census.families[at].streams[1].unique.data_bytes);
        }
        let census = pool.shard.census(&families, &ForeignNames::default()).await.expect("census");
        let before = pool.data_bytes().await;
        all.retain(|stream| !families[0].contains(stream));
        for stream in &families[0] {
            pool.shard.drop_stream(*stream).await.expect("drop");
        }
        pool = pool.marked(&all).await;
        let freed = before - pool.data_bytes().await;
        assert_eq!(freed, census.families[0].whole.data_bytes);
    });
}

/// Pages whose totals are known count with the page that they are below, also where a step of the walk goes on behind
/// that one.
#[test]
fn what_copies_share_counts_where_it_is() {
    with_shard(REDUCED, async move |pool: Pool| {
        let [volume, one, same, two, three] = [1, 2, 3, 4, 5].map(StreamId::new);
        let (near, far) = (600, 512 * 512); // Below another leaf, below another page above leaves.
        pool.write(volume, 0, &random_blocks(1, 10)).await;
        for (seed, copies) in [(2, &[one, same][..]), (4, &[two]), (6, &[three])] {
            if seed < 6 {
                pool.write(volume, near, &random_blocks(seed, 1)).await;
            }
            pool.write(volume, far, &random_blocks(seed + 1, 1)).await;
            for copy in copies {
                pool.cut(volume, *copy).await;
            }
        }
        pool.shard.apply_acknowledged().await.expect("apply");
        let families = [vec![one, same, two, three, volume]];
        let census = pool.shard.census(&families, &ForeignNames::default()).await.expect("census");
        let recount = pool.recount(&families).await;
        assert_eq!(comparable(census, &recount), recount);
    });
}
