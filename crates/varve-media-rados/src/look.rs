//! A pool as somebody finds it who only looks: no claim, no change.
//!
//! LOOK-1. What is read belongs together only while nobody serves the pool. Who looks asks for the holdings before and
//!     after: a claim that came between raised an epoch.
//! LOOK-2. Media to look with are lost from the start, so they start no change of segments (RADOS-SEGMENTS-3),
//!     and changes of lanes and roots demand an epoch that no object has. Who needs to write puts an overlay above.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use varve_media::{JournalStore, Media, MediaPlace, Result, RootKey};
use varve_reactor::Reactor;
use varve_register::{Entry, Name};
use varve_types::{CellId, SegmentNumber, ShardId};

use crate::claim::{EPOCH, HELD, PARTS_AT_ONCE, ShardClaim, number};
use crate::failure;
use crate::layout::ObjectNames;
use crate::objects::Objects;
use crate::pool::RadosPool;

/// Who has a shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardHolder {
    /// The shard.
    pub shard: ShardId,
    /// Rises with each claim.
    pub epoch: u64,
    /// Whether the last claim was not given back: its owner serves the pool, or came to an end in which it could not.
    pub is_held: bool,
}

/// The objects of a pool, as a listing found them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolListing {
    /// Objects in the data pool.
    pub data_objects: u64,
    /// Objects in the metadata pool.
    pub meta_objects: u64,
    /// Slots with a segment, in their order.
    pub segments: BTreeMap<ShardId, Vec<SegmentNumber>>,
    /// Paths of objects whose names begin as those of the pool do, and that no pool has.
    pub unknown: Vec<String>,
    /// Paths of objects that every pool has, and that are not there.
    pub missing: Vec<String>,
}

/// An entry as it was read: it may have gone meanwhile, or make no sense.
pub type EntryAsIs = varve_register::Result<Option<Entry>>;

impl RadosPool {
    /// Who has the shards, in their order (LOOK-1).
    ///
    /// # Errors
    /// What RADOS refuses; `Corrupt` for a root without these attributes.
    pub async fn holdings(&self) -> Result<Vec<ShardHolder>> {
        let holdings = (0..self.spec.lane_count).map(|shard| async move {
            let shard = ShardId(shard);
            let root = self.names.root(RootKey::Shard(shard));
            let epoch = number(&*self.meta, &root, EPOCH).await?;
            let is_held = number(&*self.meta, &root, HELD).await? != 0;
            Ok(ShardHolder { shard, epoch, is_held })
        });
        stream::iter(holdings).buffered(PARTS_AT_ONCE).try_collect().await
    }

    /// What a thread reads a shard with that claims nothing (LOOK-2); `journal` is its lane where that is not in RADOS.
    ///
    /// # Errors
    /// As [`Self::claim`] has them for lanes.
    pub fn look(
        &self,
        reactor: &Reactor,
        shard: ShardId,
        journal: Option<Rc<dyn JournalStore>>,
    ) -> Result<Media> {
        self.check_lane(shard, journal.as_deref())?;
        let claim = ShardClaim::of_nobody(reactor, &self.meta, &self.names, shard);
        Ok(self.media(&claim, journal))
    }

    /// The objects of the pool. Takes long for large pools.
    ///
    /// # Errors
    /// What RADOS refuses.
    pub async fn list(&self) -> Result<PoolListing> {
        let (in_data, in_meta) =
            (self.names_in(&*self.data).await?, self.names_in(&*self.meta).await?);
        let mut listing = PoolListing {
            data_objects: in_data.len() as u64,
            meta_objects: in_meta.len() as u64,
            ..PoolListing::default()
        };
        let is_slot = |(shard, slot): &(ShardId, SegmentNumber)| {
            shard.0 < self.spec.lane_count && slot.0 < self.spec.segment_count
        };
        let record = self.names.record();
        for name in &in_data {
            match self.names.slot(name).filter(is_slot) {
                Some((shard, slot)) => listing.segments.entry(shard).or_default().push(slot),
                None if *name == record => {}
                None => listing.unknown.push(path(&*self.data, name)),
            }
        }
        let mut unknown = in_meta.clone();
        for (name, is_required) in self.names.of_metadata(&self.spec) {
            if !unknown.remove(&name) && is_required {
                listing.missing.push(path(&*self.meta, &name));
            }
        }
        // One register for all cells, by the pool's identity.
        if self.spec.cell.cells > 1 && self.spec.cell.cell == CellId::FIRST {
            unknown.retain(|name| self.names.named(name).is_none());
        }
        listing.unknown.extend(unknown.iter().map(|name| path(&*self.meta, name)));
        Ok(listing)
    }

    /// All entries of the register of names, each as it is; none in a pool of one cell. Takes long for many.
    ///
    /// # Errors
    /// What RADOS refuses.
    pub async fn entries(&self) -> Result<Vec<(Name, EntryAsIs)>> {
        let Some(register) = self.register() else { return Ok(Vec::new()) };
        let names = ObjectNames::new(self.whole());
        let objects = self.meta.list().await;
        let objects =
            objects.map_err(|refusal| failure::of("list", &*self.meta, "", 0, 0, refusal))?;
        let entries = objects.iter().filter_map(|object| names.named(object)).map(|name| {
            let register = &register;
            async move {
                let entry = register.read(&name).await;
                (name, entry)
            }
        });
        Ok(stream::iter(entries).buffered(PARTS_AT_ONCE).collect().await)
    }

    async fn names_in(&self, objects: &dyn Objects) -> Result<BTreeSet<String>> {
        let names = objects.list().await;
        let names = names.map_err(|refusal| failure::of("list", objects, "", 0, 0, refusal))?;
        Ok(names.into_iter().filter(|name| self.names.is_ours(name)).collect())
    }

    /// Where a segment is, or would be.
    #[must_use]
    pub fn segment_place(&self, shard: ShardId, slot: SegmentNumber) -> MediaPlace {
        MediaPlace { path: path(&*self.data, &self.names.segment(shard, slot)), offset: 0 }
    }

    /// Where a root is.
    #[must_use]
    pub fn root_place(&self, key: RootKey) -> MediaPlace {
        MediaPlace { path: path(&*self.meta, &self.names.root(key)), offset: 0 }
    }
}

fn path(objects: &dyn Objects, object: &str) -> String {
    format!("rados:{}/{object}", objects.pool())
}
