//! Makes, finds, changes and deletes datasets. One value a thread, over what all threads share.
//!
//! DATASETS-1. A volume exists from the moment its key is durable until the moment its key's removal is; streams
//!     without a key are freed by mark.
//! DATASETS-2. What lies beyond the end of a volume reads as zeros when the volume grows over it, whatever was there
//!     before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::{LocalBoxFuture, try_join};
use varve_dispatch::{BLOCK_BYTES, Dispatch, HeldNames, Route, StreamPlacement};
use varve_register::Register;
use varve_stdx::DecodeError;
use varve_types::limits::VOLUME_BYTES_MAX;
use varve_types::{ByteCount, ByteRange, Compression, Dedup, Reduction, StreamId};

use crate::catalog::{RecordKind, find, hold, home_of, list, list_snapshots, remove_volume, store};
use crate::figures::Activity;
use crate::in_flight::StreamsInFlight;
use crate::name::{DatasetName, SNAPSHOT_MARK, unescaped};
use crate::open::{InitialState, OpenVolumes};
use crate::record::{EARLIER_MOVE, VolumeInfo, VolumeRecord};
use crate::settled::UnsettledRest;
use crate::volume::{Volume, VolumeSpec};
use crate::volume_move::{Move, MoveState};
use crate::{Error, Result};

/// Smallest volume, in bytes: one sector.
const SIZE_MIN: u64 = 512;

/// What the datasets of all threads share.
#[derive(Default)]
pub struct SharedDatasets {
    pub(crate) open: OpenVolumes,
    pub(crate) in_flight: StreamsInFlight,
    /// Mark passes asked for since the start.
    pub(crate) marks_wanted: AtomicU64,
    /// Whether a mark pass is under way.
    pub(crate) is_marking: AtomicBool,
    pub(crate) activity: Activity,
    pub(crate) unsettled: UnsettledRest,
}

/// The datasets, on one thread. Cheap to clone.
#[derive(Clone)]
pub struct Datasets {
    pub(crate) dispatch: Dispatch,
    pub(crate) shared: Arc<SharedDatasets>,
    pub(crate) register: Option<Register>,
    /// What who calls takes the move of the volumes to be that it changes (MOVING-4).
    pub(crate) expects: Option<Move>,
}

impl Datasets {
    /// The datasets of a pool, through this thread's dispatcher. Names of a pool of several cells are entered in its
    /// `register`; one of one cell has none.
    #[must_use]
    pub fn new(
        dispatch: Dispatch,
        shared: Arc<SharedDatasets>,
        register: Option<Register>,
    ) -> Self {
        Self { dispatch, shared, register, expects: None }
    }

    /// The same for who moves a volume: whatever is changed through it has to be at this point of its way, and is
    /// refused with `Conflict` otherwise. Without one, a volume that moves is refused to be changed.
    #[must_use]
    pub fn expecting(&self, moves: Option<Move>) -> Self {
        Self { expects: moves, ..self.clone() }
    }

    /// Runs `work` to its end, whether or not somebody waits for it: names stay held, and streams in flight registered,
    /// until what was sent to other threads has happened. Every change of a record runs so: one that lands after its
    /// name was let go could bring back what was deleted meanwhile.
    pub(crate) async fn run_detached<T: 'static>(
        &self,
        work: impl Future<Output = T> + 'static,
    ) -> T {
        self.dispatch.reactor().spawn_join(work).await
    }

    /// The dispatcher below.
    #[must_use]
    pub fn dispatch(&self) -> &Dispatch {
        &self.dispatch
    }

    /// Keeps others from changing this volume and its snapshots while the value lives. Every change of a name begins so
    /// (SETTLED-1).
    pub(crate) async fn hold(&self, name: &DatasetName) -> Result<HeldNames> {
        self.hold_all([name]).await
    }

    /// The same for who opens it, and changes no name.
    pub(crate) async fn hold_open(&self, name: &DatasetName) -> Result<HeldNames> {
        hold(&self.dispatch, [name]).await
    }

    /// As [`Self::hold`], of several.
    pub(crate) async fn hold_all<'a>(
        &self,
        names: impl IntoIterator<Item = &'a DatasetName>,
    ) -> Result<HeldNames> {
        let held = hold(&self.dispatch, names).await?;
        self.shared.unsettled.check()?; // Whoever held them before may have left something.
        Ok(held)
    }

    /// The record of a volume that must be there.
    pub(crate) async fn record(&self, name: &DatasetName) -> Result<VolumeRecord> {
        find(&self.dispatch, name).await?.ok_or_else(|| Error::NotFound { name: name.display() })
    }

    /// Refuses while somebody has the stream open.
    pub(crate) fn check_closed(
        &self,
        stream: StreamId,
        name: impl FnOnce() -> String,
    ) -> Result<()> {
        match self.shared.open.openers(stream) {
            0 => Ok(()),
            openers => Err(Error::InUse { name: name(), openers }),
        }
    }

    /// Asks for a mark pass: something was dropped, or may be without an owner.
    pub(crate) fn want_mark(&self) {
        self.shared.marks_wanted.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes a volume. Durable on return; takes no space until it is written, unless that is reserved.
    ///
    /// # Errors
    /// `Exists`, `Invalid`; `NoSpace` when the space cannot be reserved.
    pub async fn create_volume(&self, spec: VolumeSpec) -> Result<VolumeInfo> {
        let name = DatasetName::create(&spec.name)?;
        check_size(spec.size_bytes)?;
        let block_bytes = spec.block_size_bytes;
        if !block_bytes.is_power_of_two() || !(512..=65536).contains(&block_bytes) {
            return Err(Error::BadBlockSize { block_size: ByteCount(u64::from(block_bytes)) });
        }
        let stream = self.fresh_streams(1).await?;
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
            quota_bytes: spec.quota_bytes.map(checked_quota).transpose()?,
            is_reserved: spec.reserved,
            is_exclusive: spec.exclusive,
            origin: None,
            receiving: spec.receiving,
            moves: spec.moves,
        };
        let datasets = self.clone();
        let made = async move {
            let _held = datasets.hold(&name).await?;
            let sight = datasets.see(&name).await?;
            if find(&datasets.dispatch, &name).await?.is_some() {
                return Err(Error::Exists { name: name.display() });
            }
            datasets.enter(sight).await?;
            let made = match record.is_reserved {
                true => datasets.store_reserved(&name, &record).await,
                false => store(&datasets.dispatch, &name, &record).await, // DATASETS-1
            };
            datasets.withdraw(&name, &made).await;
            made.map(|()| record.info(&name))
        };
        self.run_detached(made).await
    }

    /// Ids of streams that nobody ever had; the first of them.
    pub(crate) async fn fresh_streams(&self, count: u64) -> Result<StreamId> {
        let reserve =
            move |pool: std::rc::Rc<varve_dispatch::OpenPool>| -> LocalBoxFuture<'static, _> {
                Box::pin(async move { pool.reserve_streams(count).await })
            };
        Ok(self.dispatch.at_root(reserve).await?)
    }

    /// The same for copies that are to be cut soon, once all shards serve.
    pub(crate) async fn ready_for_cuts(&self, count: u64) -> Result<StreamId> {
        let serving = async { Ok(self.dispatch.wait_serving().await?) };
        Ok(try_join(self.fresh_streams(count), serving).await?.0)
    }

    /// Runs `work` on the thread of the shard that keeps a name, to its end: there the name's records and gate are at
    /// hand. In a pool of several cells it runs here, where the register is, whose answers take longer than messages
    /// between threads.
    pub(crate) async fn at_home<T: Send + 'static>(
        &self,
        name: &DatasetName,
        work: impl FnOnce(Self) -> LocalBoxFuture<'static, Result<T>> + Send + 'static,
    ) -> Result<T> {
        if self.register.is_some() {
            return self.run_detached(work(self.clone())).await;
        }
        let (home, shared) = (home_of(&self.dispatch, name), Arc::clone(&self.shared));
        let expects = self.expects.clone();
        let there = move |there: &Dispatch| -> LocalBoxFuture<'static, _> {
            let datasets = Self { dispatch: there.clone(), shared, register: None, expects };
            Box::pin(async move { datasets.run_detached(work(datasets.clone())).await })
        };
        self.dispatch.at(home, there).await?
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
        Ok(self.record(&name).await?.info(&name))
    }

    /// Changes a volume's size, also while it is open. What a shrink cuts off is gone for good. Durable on return.
    ///
    /// # Errors
    /// `NotFound`, `Invalid`.
    pub async fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        check_size(size_bytes)?;
        self.run_detached(async move {
            let _held = datasets.hold(&name).await?;
            let record = datasets.record(&name).await?;
            datasets.check_move(&name, &record)?;
            Ok(datasets.resize(&name, record, size_bytes).await?.info(&name))
        })
        .await
    }

    /// Changes the size of a volume whose names are held, to the end; its record then.
    pub(crate) async fn resize(
        &self,
        name: &DatasetName,
        record: VolumeRecord,
        size_bytes: u64,
    ) -> Result<VolumeRecord> {
        check_size(size_bytes)?;
        let stream = record.route.stream;
        if size_bytes < record.size_bytes {
            self.shared.open.resize(stream, size_bytes); // Nothing new is admitted beyond the end from here on.
        }
        let (low, high) = (size_bytes.min(record.size_bytes), size_bytes.max(record.size_bytes));
        let resized = VolumeRecord { size_bytes, ..record.clone() };
        let change = async {
            self.reserve_growth(&record, size_bytes).await?;
            let between = ByteRange { start: low, end: high };
            if size_bytes < record.size_bytes {
                self.dispatch.trim(record.route, between).await?; // Gives the space back.
            } else {
                // Clears what a shrink left of a block, and a write that it overtook (DATASETS-2).
                self.dispatch.write_zeroes(record.route, between, false).await?;
            }
            store(&self.dispatch, name, &resized).await
        };
        let outcome = change.await;
        if outcome.is_ok() {
            self.fit_reservation(&resized).await;
        }
        let size_now = if outcome.is_ok() { size_bytes } else { record.size_bytes };
        self.shared.open.resize(stream, size_now);
        outcome.map(|()| resized)
    }

    /// Changes how a volume's blocks are reduced, also while it is open; `None` leaves a part as it is. Counts for what
    /// is written from then on: what is stored stays as it is. Durable on return.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn set_reduction(
        &self,
        name: &str,
        dedup: Option<Dedup>,
        compression: Option<Compression>,
    ) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        self.run_detached(async move {
            let _held = datasets.hold(&name).await?;
            let record = datasets.record(&name).await?;
            datasets.check_move(&name, &record)?;
            let reduction = changed(record.reduction, dedup, compression);
            let record = VolumeRecord { reduction, ..record };
            store(&datasets.dispatch, &name, &record).await?;
            datasets.shared.open.set_reduction(record.route.stream, reduction);
            Ok(record.info(&name))
        })
        .await
    }

    /// Bounds how much data a volume may hold, in bytes, also while it is open; `None` takes the bound away. What it
    /// holds already stays, and may be changed. Durable on return.
    ///
    /// # Errors
    /// `NotFound`, `Invalid`.
    pub async fn set_quota(&self, name: &str, quota_bytes: Option<u64>) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        let quota_bytes = quota_bytes.map(checked_quota).transpose()?;
        self.run_detached(async move {
            let _held = datasets.hold(&name).await?;
            let record = VolumeRecord { quota_bytes, ..datasets.record(&name).await? };
            datasets.check_move(&name, &record)?;
            store(&datasets.dispatch, &name, &record).await?;
            datasets.shared.open.set_quota(record.route.stream, quota_bytes);
            Ok(record.info(&name))
        })
        .await
    }

    /// Has a volume served to one connection of a client at a time, or no longer, also while it is open. Durable on
    /// return.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while it has several connections.
    pub async fn set_exclusive(&self, name: &str, exclusive: bool) -> Result<VolumeInfo> {
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        self.run_detached(async move {
            let _held = datasets.hold(&name).await?;
            let record = VolumeRecord { is_exclusive: exclusive, ..datasets.record(&name).await? };
            datasets.check_move(&name, &record)?;
            let (open, stream) = (&datasets.shared.open, record.route.stream);
            let before = open
                .set_exclusive(stream, exclusive)
                .map_err(|openers| Error::InUse { name: name.display(), openers })?;
            let stored = store(&datasets.dispatch, &name, &record).await;
            if stored.is_err() {
                // Where connections that came meanwhile forbid it, it stays as it is until it is opened again.
                let _ = open.set_exclusive(stream, before);
            }
            stored?;
            Ok(record.info(&name))
        })
        .await
    }

    /// Deletes a volume and what it holds, and with `snapshots` its snapshots too, these first. Durable on return; its
    /// space comes back with the mark pass that follows. After an error some snapshots may be gone. A record that
    /// cannot be read is deleted too, by its name or, where that is none, by the escaped name that a check reports.
    ///
    /// # Errors
    /// `NotFound`; `Conflict` while it, or a snapshot of it, is open, when a snapshot is protected, when there are
    /// snapshots that are not to be deleted, and while the pool from which it arrived has it still.
    pub async fn delete_volume(&self, name: &str, snapshots: bool) -> Result<()> {
        if let Some(stored) = unescaped(name) {
            return self.delete_unreadable(RecordKind::Volume, stored).await;
        }
        let (datasets, name) = (self.clone(), DatasetName::parse(name)?);
        self.run_detached(async move { datasets.delete_held(&name, snapshots).await }).await
    }

    async fn delete_held(&self, name: &DatasetName, snapshots: bool) -> Result<()> {
        let _held = self.hold(name).await?;
        let sight = self.see(name).await?;
        let record = match find(&self.dispatch, name).await {
            Ok(Some(record)) => record,
            Ok(None) => {
                self.leave(sight).await;
                return Err(Error::NotFound { name: name.display() });
            }
            Err(
                error @ Error::BadRecord {
                    cause: DecodeError::Inconsistent { reason: EARLIER_MOVE, .. },
                    ..
                },
            ) => return Err(error), // MOVING-7
            Err(error @ Error::BadRecord { .. }) => {
                tracing::warn!(%error, volume = name.display(), "an unreadable record is deleted");
                remove_volume(&self.dispatch, name).await?;
                self.leave(sight).await;
                self.want_mark(); // It finds the stream, which had no other name.
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let has_arrived =
            record.moves.as_ref().is_some_and(|moves| moves.state == MoveState::Arrived);
        if (self.expects.is_some() || has_arrived) && self.expects != record.moves {
            // MOVING-4, MOVING-7. Who does not move it may delete it wherever it is otherwise.
            return Err(Error::MovesOtherwise { name: name.display(), moves: record.moves });
        }
        self.check_closed(record.route.stream, || name.display())?;
        if snapshots {
            self.delete_all_snapshots(name).await?;
        } else if !list_snapshots(&self.dispatch, Some(name), None, 1).await?.is_empty() {
            return Err(Error::HasSnapshots { name: name.display() });
        }
        remove_volume(&self.dispatch, name).await?;
        self.leave(sight).await;
        // DATASETS-1: from here on the volume does not exist; the rest is found by mark if it is cut short.
        self.dispatch.drop_stream(record.route.stream).await?;
        self.want_mark();
        Ok(())
    }

    /// Opens a volume, or a snapshot by `volume@snapshot`, on this thread. It cannot be deleted while it is open.
    ///
    /// # Errors
    /// `NotFound`; `Fenced` when it arrives from another pool, or left for one.
    pub async fn open(&self, name: &str) -> Result<Volume> {
        if name.contains(SNAPSHOT_MARK) {
            return self.open_snapshot(name).await;
        }
        let name = DatasetName::parse(name)?;
        let _held = self.hold_open(&name).await?;
        let record = self.record(&name).await?;
        match &record.moves {
            Some(moves) if !moves.is_here() => {
                Err(Error::Moves { name: name.display(), moves: moves.clone() }) // MOVING-2, MOVING-3
            }
            _ => Ok(self.opened(&name, &record)),
        }
    }

    /// An open volume of a record that was read under the hold of its name. What its gate is follows from that also for
    /// those who have it open: after a step that failed and became durable later it may be another.
    pub(crate) fn opened(&self, name: &DatasetName, record: &VolumeRecord) -> Volume {
        let VolumeRecord { route, size_bytes, reduction, quota_bytes, is_exclusive, .. } = *record;
        let gate = Move::gate(record.moves.as_ref());
        let opening = InitialState { size_bytes, reduction, quota_bytes, is_exclusive, gate };
        let open = self.shared.open.open(route.stream, opening);
        let (dispatch, shared) = (self.dispatch.clone(), Arc::clone(&self.shared));
        Volume::new(dispatch, shared, record.info(name), route, open)
    }

    /// How often a volume is open.
    #[must_use]
    pub fn openers(&self, volume: &VolumeInfo) -> usize {
        self.shared.open.openers(StreamId::new(volume.id))
    }
}

fn changed(
    reduction: Reduction,
    dedup: Option<Dedup>,
    compression: Option<Compression>,
) -> Reduction {
    Reduction {
        dedup: dedup.unwrap_or(reduction.dedup),
        compression: compression.unwrap_or(reduction.compression),
    }
}

fn checked_quota(quota_bytes: u64) -> Result<u64> {
    if (BLOCK_BYTES as u64..=VOLUME_BYTES_MAX).contains(&quota_bytes) {
        return Ok(quota_bytes);
    }
    Err(Error::BadQuota { quota: ByteCount(quota_bytes), max: ByteCount(VOLUME_BYTES_MAX) })
}

pub(crate) fn check_size(size_bytes: u64) -> Result<()> {
    if (SIZE_MIN..=VOLUME_BYTES_MAX).contains(&size_bytes) && size_bytes.is_multiple_of(512) {
        return Ok(());
    }
    Err(Error::BadSize {
        size: ByteCount(size_bytes),
        min: ByteCount(SIZE_MIN),
        max: ByteCount(VOLUME_BYTES_MAX),
    })
}
