//! Makes, finds, changes and deletes datasets. One value a thread, over what all threads share.
//!
//! S1. A volume exists from the moment its key is durable until the moment its key's removal is; streams without a key are freed by mark.
//! S2. What lies beyond the end of a volume reads as zeros when the volume grows over it, whatever was there before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::LocalBoxFuture;
use varve_dispatch::{Dispatch, Route, StreamPlacement};
use varve_types::limits::VOLUME_BYTES_MAX;
use varve_types::{ByteCount, ByteRange, Compression, Reduction, StreamId};

use crate::catalog::{find, home_of, list, volume_key};
use crate::name::DatasetName;
use crate::open::OpenVolumes;
use crate::record::{VolumeInfo, VolumeRecord};
use crate::volume::{Volume, VolumeSpec};
use crate::{Error, Result};

/// Smallest volume, in bytes: one sector.
const SIZE_MIN: u64 = 512;

/// What the datasets of all threads share.
#[derive(Default)]
pub struct Shared {
    pub(crate) open: OpenVolumes,
    /// Mark passes asked for since the start.
    pub(crate) marks_wanted: AtomicU64,
}

/// The datasets, on one thread. Cheap to clone.
#[derive(Clone)]
pub struct Datasets {
    pub(crate) dispatch: Dispatch,
    pub(crate) shared: Arc<Shared>,
}

impl Datasets {
    /// The datasets of a pool, through this thread's dispatcher.
    #[must_use]
    pub fn new(dispatch: Dispatch, shared: Arc<Shared>) -> Self {
        Self { dispatch, shared }
    }

    /// The dispatcher below.
    #[must_use]
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// Runs `work` on the thread of the name's home, after whatever else changes names there.
    async fn at_home<T: Send + 'static>(
        &self,
        name: &DatasetName,
        work: impl FnOnce(Self, DatasetName) -> LocalBoxFuture<'static, Result<T>> + Send + 'static,
    ) -> Result<T> {
        let home = home_of(&self.dispatch, name);
        let (name, shared) = (name.clone(), Arc::clone(&self.shared));
        self.dispatch
            .at(home, move |dispatch| {
                let datasets = Self::new(dispatch.clone(), shared);
                let gate = dispatch.name_gate();
                Box::pin(async move {
                    let _gate = gate.enter().await;
                    work(datasets, name).await
                })
            })
            .await?
    }

    /// Makes a volume. Durable on return; takes no space until it is written.
    ///
    /// # Errors
    /// `Exists`, `Invalid`.
    pub async fn create_volume(&self, spec: VolumeSpec) -> Result<VolumeInfo> {
        let name = DatasetName::parse(&spec.name)?;
        check_size(spec.size_bytes)?;
        let block_bytes = spec.block_size_bytes;
        if !block_bytes.is_power_of_two() || !(512..=65536).contains(&block_bytes) {
            return Err(Error::BadBlockSize { block_size: ByteCount(u64::from(block_bytes)) });
        }
        let stream = self.fresh_stream().await?;
        let placement = StreamPlacement {
            seed: self.dispatch.reactor().random_u64(),
            generation: self.dispatch.placement().newest(),
        };
        let record = VolumeRecord {
            route: Route { stream, placement },
            size_bytes: spec.size_bytes,
            block_bytes,
            created_unix_ms: self.dispatch.reactor().unix_time_ms(),
            reduction: changed(Reduction::default(), spec.dedup, spec.compression),
        };
        self.at_home(&name, move |datasets, name| {
            Box::pin(async move {
                if find(&datasets.dispatch, &name).await?.is_some() {
                    return Err(Error::Exists { name: name.display() });
                }
                datasets.store(&name, &record).await?; // S1
                Ok(record.info(&name))
            })
        })
        .await
    }

    async fn fresh_stream(&self) -> Result<StreamId> {
        let reserve = |pool: std::rc::Rc<varve_dispatch::Pool>| -> LocalBoxFuture<'static, _> {
            Box::pin(async move { pool.reserve_streams(1).await })
        };
        Ok(self.dispatch.at_root(reserve).await?)
    }

    async fn store(&self, name: &DatasetName, record: &VolumeRecord) -> Result<()> {
        let (home, key, value) = (home_of(&self.dispatch, name), volume_key(name), record.encode());
        let put = self.dispatch.on_shard(home, move |shard| {
            Box::pin(async move { shard.key_put(&key, &value).await })
        });
        Ok(put.await?)
    }

    /// Every volume, in the order of their names.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn volumes(&self) -> Result<Vec<VolumeInfo>> {
        Ok(list(&self.dispatch).await?.iter().map(|(name, record)| record.info(name)).collect())
    }

    /// One volume.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn volume(&self, name: &str) -> Result<VolumeInfo> {
        let name = DatasetName::parse(name)?;
        let record = find(&self.dispatch, &name).await?;
        record.map(|record| record.info(&name)).ok_or_else(|| not_found(&name))
    }

    /// Changes a volume's size, also while it is open. What a shrink cuts off is gone for good. Durable on return.
    ///
    /// # Errors
    /// `NotFound`, `Invalid`.
    pub async fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<VolumeInfo> {
        let name = DatasetName::parse(name)?;
        check_size(size_bytes)?;
        self.at_home(&name, move |datasets, name| {
            Box::pin(async move { datasets.resize_at_home(&name, size_bytes).await })
        })
        .await
    }

    async fn resize_at_home(&self, name: &DatasetName, size_bytes: u64) -> Result<VolumeInfo> {
        let record = find(&self.dispatch, name).await?.ok_or_else(|| not_found(name))?;
        let stream = record.route.stream;
        if size_bytes < record.size_bytes {
            self.shared.open.resize(stream, size_bytes); // Nothing new is admitted beyond the end from here on.
        }
        let (low, high) = (size_bytes.min(record.size_bytes), size_bytes.max(record.size_bytes));
        let resized = VolumeRecord { size_bytes, ..record };
        let change = async {
            if low < high {
                // A shrink gives the space back; a growth clears what a write that a shrink overtook may have left (S2).
                self.dispatch.trim(record.route, ByteRange { start: low, end: high }).await?;
            }
            self.store(name, &resized).await
        };
        let outcome = change.await;
        let size_now = if outcome.is_ok() { size_bytes } else { record.size_bytes };
        self.shared.open.resize(stream, size_now);
        outcome.map(|()| resized.info(name))
    }

    /// Changes how a volume's blocks are reduced, also while it is open; `None` leaves a part as it is. Counts for what is written from
    /// then on: what is stored stays as it is. Durable on return.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn set_reduction(
        &self,
        name: &str,
        dedup: Option<bool>,
        compression: Option<Compression>,
    ) -> Result<VolumeInfo> {
        let name = DatasetName::parse(name)?;
        self.at_home(&name, move |datasets, name| {
            Box::pin(async move {
                let found = find(&datasets.dispatch, &name).await?;
                let record = found.ok_or_else(|| not_found(&name))?;
                let reduction = changed(record.reduction, dedup, compression);
                let record = VolumeRecord { reduction, ..record };
                datasets.store(&name, &record).await?;
                datasets.shared.open.set_reduction(record.route.stream, reduction);
                Ok(record.info(&name))
            })
        })
        .await
    }

    /// Deletes a volume and what it holds. Durable on return; its space comes back with the mark pass that follows.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while it is open.
    pub async fn delete_volume(&self, name: &str) -> Result<()> {
        let name = DatasetName::parse(name)?;
        self.at_home(&name, |datasets, name| {
            Box::pin(async move { datasets.delete_at_home(&name).await })
        })
        .await
    }

    async fn delete_at_home(&self, name: &DatasetName) -> Result<()> {
        let record = find(&self.dispatch, name).await?.ok_or_else(|| not_found(name))?;
        let openers = self.shared.open.openers(record.route.stream);
        if openers > 0 {
            return Err(Error::InUse { name: name.display(), openers });
        }
        let (home, key) = (home_of(&self.dispatch, name), volume_key(name));
        let removed = self
            .dispatch
            .on_shard(home, move |shard| Box::pin(async move { shard.key_delete(&key).await }));
        removed.await?; // S1: from here on the volume does not exist; the rest is found by mark if it is cut short.
        self.dispatch.drop_stream(record.route.stream).await?;
        self.shared.marks_wanted.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Opens a volume on this thread. It cannot be deleted while it is open.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn open_volume(&self, name: &str) -> Result<Volume> {
        let name = DatasetName::parse(name)?;
        let opened = self.at_home(&name, |datasets, name| {
            Box::pin(async move {
                let record =
                    find(&datasets.dispatch, &name).await?.ok_or_else(|| not_found(&name))?;
                let VolumeRecord { route, size_bytes, reduction, .. } = record;
                let open = datasets.shared.open.open(route.stream, size_bytes, reduction);
                Ok((record, open))
            })
        });
        let (record, open) = opened.await?;
        let (dispatch, shared) = (self.dispatch.clone(), Arc::clone(&self.shared));
        Ok(Volume::new(dispatch, shared, record.info(&name), record, open))
    }

    /// How often a volume is open.
    #[must_use]
    pub fn openers(&self, volume: &VolumeInfo) -> usize {
        self.shared.open.openers(StreamId::new(volume.id))
    }
}

fn not_found(name: &DatasetName) -> Error {
    Error::NotFound { name: name.display() }
}

fn changed(
    reduction: Reduction,
    dedup: Option<bool>,
    compression: Option<Compression>,
) -> Reduction {
    Reduction {
        dedup: dedup.unwrap_or(reduction.dedup),
        compression: compression.unwrap_or(reduction.compression),
    }
}

fn check_size(size_bytes: u64) -> Result<()> {
    if (SIZE_MIN..=VOLUME_BYTES_MAX).contains(&size_bytes) && size_bytes.is_multiple_of(512) {
        return Ok(());
    }
    Err(Error::BadSize {
        size: ByteCount(size_bytes),
        min: ByteCount(SIZE_MIN),
        max: ByteCount(VOLUME_BYTES_MAX),
    })
}
