//! Looking at a shard's trees from outside, past damage: what check and dump show. Nothing here changes anything.
//!
//! INSPECTION-1. A damaged map page hides its own blocks only: the walk goes on behind them.

use std::ops::{ControlFlow, Range};

use varve_logstore::format::chunk::ChunkEntry;
use varve_types::{BlockIndex, ChunkId, ShardId, StreamId};

use crate::keys::KeyValue;
use crate::tree::{PagePtr, Scan, WalkItem};
use crate::trees::{Stop, stream_of_key, stream_of_reservation};
use crate::walk::{GateUse, STEP};
use crate::{Error, Result, Shard};

/// What a walk over a map comes across, in the order of blocks.
#[derive(Clone, Debug)]
pub enum MapItem {
    /// A stored page of the map itself; pages come before what they hold.
    Page {
        /// Its name.
        page: ChunkId,
        /// Levels above the leaves.
        level: u8,
    },
    /// A block with data.
    Data {
        /// Which block.
        block: BlockIndex,
        /// The shard that has the chunk.
        home: ShardId,
        /// What it holds.
        chunk: ChunkId,
    },
    /// Blocks whose page cannot be read.
    Unreadable {
        /// Which blocks.
        blocks: Range<BlockIndex>,
        /// The page.
        page: PagePtr,
        /// Why.
        error: Error,
    },
}

impl Shard {
    /// Walks the map of a stream from block `from` on and shows `visit` everything that is not a hole; stops when it
    /// breaks.
    ///
    /// # Errors
    /// When the stream's record cannot be read. Damaged pages of the map are shown to `visit` (INSPECTION-1).
    pub async fn walk_map(
        &self,
        stream: StreamId,
        from: BlockIndex,
        visit: &mut dyn FnMut(MapItem) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut walk = self.walk_stream(stream, from, GateUse::NoStep).with_waiting();
        loop {
            let step = walk.next(|_, _| false).await;
            let items: Vec<_> = match step.map(|step| step.map(|step| step.found.items)) {
                Ok(None) => return Ok(()),
                Ok(Some(items)) => items.into_iter().filter_map(to_map_item).collect(),
                Err(error) => {
                    let Some((page, blocks)) = walk.skip_damaged() else { return Err(error) };
                    vec![MapItem::Unreadable { blocks, page, error }] // INSPECTION-1
                }
            };
            for item in items {
                if visit(item).is_break() {
                    return Ok(());
                }
            }
        }
    }

    /// Blocks of a stream that hold data; what is acknowledged and not applied yet may be missing.
    ///
    /// # Errors
    /// `Corrupt` when its map cannot be read, `Unavailable` when the shard closed.
    pub async fn count_blocks(&self, stream: StreamId) -> Result<u64> {
        self.check_open()?;
        let (mut blocks, mut unreadable) = (0, None);
        let mut count = |item| {
            match item {
                MapItem::Data { .. } => blocks += 1,
                MapItem::Unreadable { error, .. } => unreadable = Some(error),
                _ => {}
            }
            if unreadable.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.walk_map(stream, BlockIndex::ZERO, &mut count).await?;
        unreadable.map_or(Ok(blocks), Err)
    }

    /// Where a chunk lies; `None` when there is no such chunk.
    ///
    /// # Errors
    /// `Corrupt` when the table cannot be read there.
    pub async fn chunk_place(&self, chunk: ChunkId) -> Result<Option<ChunkEntry>> {
        self.with_pages(|trees| trees.chunk(chunk)).await
    }

    /// Up to 1024 entries of the key tree as stored, the engine's own ones included, from key `from` on; and where to
    /// go on.
    ///
    /// # Errors
    /// `Corrupt` when the tree cannot be read there.
    pub async fn stored_keys(&self, from: &[u8]) -> Result<(Vec<KeyValue>, Option<Vec<u8>>)> {
        let mut entries = Vec::new();
        let scan = self
            .with_pages(|trees| {
                entries.clear();
                let visit = |key: &[u8], value: &[u8]| {
                    entries.push((key.to_vec(), value.to_vec()));
                    ControlFlow::Continue(())
                };
                trees.keys.scan(&trees.cache, from, STEP, visit).map_err(Stop::from)
            })
            .await?;
        assert!(entries.len() <= STEP, "a scan keeps to its bound");
        let next = match scan {
            Scan::Done => None,
            Scan::More(next) => Some(next),
        };
        Ok((entries, next))
    }

    /// The name of a stored key: a stream's record, or a key of the layers above.
    #[must_use]
    pub fn stored_key_name(key: &[u8]) -> StoredKey<'_> {
        if let Some(stream) = stream_of_key(key) {
            return StoredKey::Stream(stream);
        }
        if let Some(stream) = stream_of_reservation(key) {
            return StoredKey::Reservation(stream);
        }
        match crate::trees::key_of_user(key) {
            Some(rest) => StoredKey::User(rest),
            None => StoredKey::Unknown(key),
        }
    }
}

/// Whose a key of the key tree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredKey<'a> {
    /// The record of a stream.
    Stream(StreamId),
    /// What is promised to a stream.
    Reservation(StreamId),
    /// A key of the layers above.
    User(&'a [u8]),
    /// Nobody's whom this version knows.
    Unknown(&'a [u8]),
}

/// No page is known to a walk that shows all of them.
fn to_map_item(item: WalkItem) -> Option<MapItem> {
    match item {
        WalkItem::Data { block, slot } => {
            Some(MapItem::Data { block, home: slot.shard(), chunk: slot.id() })
        }
        WalkItem::Page { page, level } => Some(MapItem::Page { page, level }),
        WalkItem::Known { .. } => None,
    }
}
