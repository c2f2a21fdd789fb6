//! Follows every reference of a shard while it serves: what check does without stopping anything. Nothing here changes
//! anything.
//!
//! REFERENCES-1. Each step holds the tree gate: maps, keys and chunk table belong together, and a name without an entry
//!     dangles.
//! REFERENCES-2. What is below a page that several maps have is looked at once.
//! REFERENCES-3. What other shards have is looked up there; they free nothing that is named, and ids never come back.
//! REFERENCES-4. A shard that does not tell what it has is left out from then on, and the rest goes on: what it holds
//!     is not checked. What the pool does not have holds nothing.

mod report;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use roaring::RoaringTreemap;
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId};

use crate::peers::ForeignChunk;
use crate::tree::{Map, MapSlot, PagePtr, PageState, WalkItem};
use crate::trees::{Stop, Trees};
use crate::walk::GateUse;
use crate::{Result, Shard};

pub use report::{CheckProgress, DanglingName, References, UncheckedNames, Unreadable};

/// A name, and where it stands.
struct NamePlace {
    block: Option<BlockIndex>,
    home: ShardId,
    id: ChunkId,
}

impl Shard {
    /// Follows what the maps of streams and the key tree name. Costs a look-up for each page and block; ends early when
    /// it is told to.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed. Damage is told in the result.
    pub async fn check_references(
        &self,
        streams: &[StreamId],
        progress: &CheckProgress,
    ) -> Result<References> {
        self.check_open()?;
        let (mut references, mut seen) = (References::default(), RoaringTreemap::new());
        for stream in streams.iter().copied() {
            let followed = self.follow_map(stream, &mut seen, &mut references, progress).await;
            references.note(Some(stream), followed)?;
        }
        let followed = self.follow_keys(&mut references, progress).await;
        references.note(None, followed)?;
        Ok(references)
    }

    async fn follow_map(
        &self,
        stream: StreamId,
        seen: &mut RoaringTreemap,
        references: &mut References,
        progress: &CheckProgress,
    ) -> Result<()> {
        let mut walk = self.walk_stream(stream, BlockIndex::ZERO, GateUse::EachStep).with_waiting(); // REFERENCES-1
        while !progress.is_stopped() {
            let is_known = |map: &Map, page: ChunkId| {
                page < map.ceiling() && seen.contains(page.get()) // REFERENCES-2
            };
            let Some(step) = walk.next(is_known).await? else { break };
            let mut names = Vec::new();
            for item in &step.found.items {
                match item {
                    WalkItem::Data { block, slot } => {
                        let (home, id) = (slot.shard(), slot.id());
                        names.push(NamePlace { block: Some(*block), home, id });
                    }
                    WalkItem::Page { page, .. } => {
                        if *page < step.found.page_ceiling {
                            seen.insert(page.get());
                        }
                        names.push(self.place_of_page(*page));
                    }
                    WalkItem::Known { .. } => {}
                }
            }
            let foreign = self.follow(Some(stream), &names, references, progress).await?;
            drop(step);
            self.follow_foreign(stream, &foreign, references).await?;
        }
        Ok(())
    }

    async fn follow_keys(
        &self,
        references: &mut References,
        progress: &CheckProgress,
    ) -> Result<()> {
        let mut walk = self.walk_key_pages(GateUse::EachStep); // REFERENCES-1
        while !progress.is_stopped() {
            let Some(step) = walk.next().await? else { break };
            let names: Vec<NamePlace> =
                step.found.iter().map(|page| self.place_of_page(*page)).collect();
            self.follow(None, &names, references, progress).await?;
        }
        Ok(())
    }

    fn place_of_page(&self, page: ChunkId) -> NamePlace {
        NamePlace { block: None, home: self.config.shard, id: page }
    }

    /// Looks up what other shards have, without the gate: they may take their time. A name that is still there then
    /// dangles (REFERENCES-3).
    async fn follow_foreign(
        &self,
        stream: StreamId,
        names: &[(BlockIndex, ForeignChunk)],
        references: &mut References,
    ) -> Result<()> {
        let mut homes: BTreeMap<ShardId, Vec<(BlockIndex, ChunkId)>> = BTreeMap::new();
        for (block, name) in names {
            homes.entry(name.home).or_default().push((*block, name.chunk));
        }
        for (home, names) in homes {
            if references.is_unchecked(home, names.len()) {
                continue;
            }
            let chunks = names.iter().map(|(_, chunk)| *chunk).collect();
            let stored = if self.foreign.may_have(home) {
                self.stored_at(home, chunks).await
            } else {
                Ok(vec![None; names.len()])
            };
            let stored = match stored {
                Ok(stored) => stored,
                Err(error) => {
                    let names = names.len() as u64;
                    references.unchecked.push(UncheckedNames { home, names, error }); // REFERENCES-4
                    continue;
                }
            };
            assert_eq!(stored.len(), names.len(), "an answer for each");
            let missing = names.into_iter().zip(stored).filter(|(_, stored)| stored.is_none());
            for ((block, chunk), _) in missing {
                let slot = self.with_pages(|trees| trees.lookup(stream, block)).await?;
                if slot == MapSlot::data(home, chunk) {
                    let (stream, block) = (Some(stream), Some(block));
                    references.found(DanglingName { stream, block, home, chunk });
                }
            }
        }
        Ok(())
    }

    /// Looks names up, under the gate that they were read under; returns those of other shards' chunks, with their
    /// blocks. Pages that were changed since the last checkpoint are in memory only.
    async fn follow(
        &self,
        stream: Option<StreamId>,
        names: &[NamePlace],
        references: &mut References,
        progress: &CheckProgress,
    ) -> Result<Vec<(BlockIndex, ForeignChunk)>> {
        assert!(self.apply.is_gated(), "names and entries belong together"); // REFERENCES-1
        let (mut next, mut missing, mut foreign) = (0, Vec::new(), Vec::new());
        let step = |trees: &mut Trees| -> std::result::Result<_, Stop> {
            while let Some(NamePlace { block, home, id }) = names.get(next) {
                if *home != self.config.shard {
                    let name = ForeignChunk { home: *home, chunk: *id };
                    foreign.extend(block.map(|block| (block, name)));
                    next += 1;
                    continue;
                }
                let state = trees.cache.state(PagePtr::Chunk(*id));
                let in_memory = matches!(state, Some(PageState::Dirty | PageState::Writing));
                if !in_memory && trees.chunk(*id)?.is_none() {
                    missing.push(DanglingName { stream, block: *block, home: *home, chunk: *id });
                }
                next += 1;
            }
            Ok(())
        };
        self.with_pages(step).await?;
        assert_eq!(next, names.len(), "each name was followed");
        progress.references.fetch_add(names.len() as u64, Ordering::Relaxed);
        references.followed += names.len() as u64;
        missing.into_iter().for_each(|dangling| references.found(dangling));
        Ok(foreign)
    }
}
