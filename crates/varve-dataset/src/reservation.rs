//! Reservations: volumes of which every block can always be written, whatever others write. The shards keep the
//! promise; here it is made, moved and taken back with what happens to the volume.
//!
//! VOLUME-RESERVATION-1. A record says that space is reserved only while all shards promise it: they do so before the
//!     record is stored, and until after a record that says otherwise is.
//! VOLUME-RESERVATION-2. What shards promise to a stream that no record names with a reservation, or beyond a volume's
//!     size, is taken back at the next start.

use std::collections::{BTreeMap, BTreeSet};

use varve_dispatch::{ReservationChange, Route, StreamReservation};
use varve_types::StreamId;

use crate::catalog::{find, list, store};
use crate::name::DatasetName;
use crate::record::{VolumeInfo, VolumeRecord};
use crate::{Datasets, Error, Result};

impl Datasets {
    /// Reserves space for all of a volume, also while it is open, or no longer. Blocks that it holds already do not
    /// count: there has to be room for all of it beside them, which comes back as they are overwritten. While it is
    /// reserved, what is written is neither deduplicated nor compressed. Durable on return.
    ///
    /// # Errors
    /// `NotFound`; `NoSpace` when the pool cannot promise so much: then nothing is changed.
    pub async fn set_reservation(&self, name: &str, reserved: bool) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        self.run_detached(async move {
            let _held = datasets.hold(&name).await?;
            let before = datasets.record(&name).await?;
            datasets.check_move(&name, &before)?;
            let record = VolumeRecord { is_reserved: reserved, ..before.clone() };
            if reserved && !before.is_reserved {
                datasets.reserve(&record, false).await?; // VOLUME-RESERVATION-1
            }
            let stored = store(&datasets.dispatch, &name, &record).await;
            if stored.is_err() {
                datasets.release_if_unowned(&name, record.route.stream).await;
            }
            stored?;
            if !reserved {
                datasets.dispatch.release_reservation(record.route.stream).await?;
            }
            Ok(record.info(&name))
        })
        .await
    }

    async fn reserve(&self, record: &VolumeRecord, is_fresh: bool) -> Result<()> {
        let size_bytes = record.size_bytes;
        let change = ReservationChange { before_bytes: None, size_bytes, is_fresh };
        Ok(self.dispatch.reserve(record.route, change).await?)
    }

    /// Reserves space for a volume that is not there, and stores its record.
    pub(crate) async fn store_reserved(
        &self,
        name: &DatasetName,
        record: &VolumeRecord,
    ) -> Result<()> {
        self.reserve(record, true).await?; // VOLUME-RESERVATION-1
        let stored = store(&self.dispatch, name, record).await;
        if stored.is_err() {
            self.release_if_unowned(name, record.route.stream).await;
        }
        stored
    }

    /// Reserves space for a stream that is to take the place of a volume's.
    pub(crate) async fn reserve_for_fork(
        &self,
        record: &VolumeRecord,
        stream: StreamId,
    ) -> Result<()> {
        let route = Route { stream, ..record.route };
        self.reserve(&VolumeRecord { route, ..record.clone() }, true).await
    }

    /// Takes back what is promised to a stream, if it is sure that no record needs it (VOLUME-RESERVATION-1).
    pub(crate) async fn release_if_unowned(&self, name: &DatasetName, stream: StreamId) {
        let owned = |record: &VolumeRecord| record.is_reserved && record.route.stream == stream;
        let released = match find(&self.dispatch, name).await {
            Ok(record) if record.as_ref().is_some_and(owned) => return,
            Ok(_) => self.dispatch.release_reservation(stream).await.map_err(Error::from),
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            tracing::warn!(%error, "space stays reserved for nobody until the next start"); // VOLUME-RESERVATION-2
        }
    }

    /// Reserves what a volume with a reservation is about to grow by.
    pub(crate) async fn reserve_growth(
        &self,
        record: &VolumeRecord,
        size_bytes: u64,
    ) -> Result<()> {
        if !record.is_reserved || size_bytes <= record.size_bytes {
            return Ok(());
        }
        let before_bytes = Some(record.size_bytes);
        let change = ReservationChange { before_bytes, size_bytes, is_fresh: false };
        Ok(self.dispatch.reserve(record.route, change).await?)
    }

    /// Reserves no more than the size of a volume, if it has a reservation.
    pub(crate) async fn fit_reservation(&self, record: &VolumeRecord) {
        if !record.is_reserved {
            return;
        }
        let size_bytes = record.size_bytes;
        let before_bytes = Some(size_bytes);
        let change = ReservationChange { before_bytes, size_bytes, is_fresh: false };
        if let Err(error) = self.dispatch.reserve(record.route, change).await {
            tracing::warn!(%error, "more space stays reserved than a volume may need");
        }
    }

    /// Makes sure that volumes with reservations can be overwritten in full after a cut of them.
    pub(crate) async fn prepare_reserved<'a>(
        &self,
        volumes: impl Iterator<Item = &'a VolumeRecord>,
    ) -> Result<()> {
        let reserved = volumes.filter(|record| record.is_reserved);
        let sources: Vec<StreamId> = reserved.map(|record| record.route.stream).collect();
        if sources.is_empty() {
            return Ok(());
        }
        Ok(self.dispatch.prepare_cut(&sources).await?)
    }

    /// What is reserved for volumes, by their number, and what of it they do not hold yet.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve.
    pub async fn reservations(&self) -> Result<BTreeMap<u64, StreamReservation>> {
        let all = self.dispatch.reservations().await?;
        Ok(all.into_iter().map(|(stream, reservation)| (stream.get(), reservation)).collect())
    }

    /// Takes back what an earlier life had promised and no record says (VOLUME-RESERVATION-2); returns to how many
    /// streams.
    pub(crate) async fn settle_reservations(&self) -> Result<usize> {
        let promised = self.dispatch.reservations().await?;
        if promised.is_empty() {
            return Ok(0);
        }
        let volumes = list(&self.dispatch).await?;
        let mut owned = BTreeSet::new();
        for (_, record) in volumes.iter().filter(|(_, record)| record.is_reserved) {
            self.fit_reservation(record).await;
            owned.insert(record.route.stream);
        }
        let mut settled = 0;
        for stream in promised.into_keys().filter(|stream| !owned.contains(stream)) {
            self.dispatch.release_reservation(stream).await?;
            settled += 1;
        }
        Ok(settled)
    }
}

#[cfg(test)]
mod tests;
