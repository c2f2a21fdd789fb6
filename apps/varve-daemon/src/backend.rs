//! The admin API's questions, put to the shard threads. Names are any thread's business; amounts are the sum over all.

use std::collections::BTreeMap;
use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use varve_access_admin::v1::{
    AddDrive, BeginReceive, ChangeDrive, ChangePool, ChangeSnapshot, ChangeVolume, CheckStatus,
    CloneVolume, CreateSnapshots, CreateVolume, DeleteVolume, DisconnectClients,
    DisconnectedClients, Drive, DriveGrowth, DriveLight, DriveList, DriveMoves, EndReceive,
    ExtentPage, ExtentsWanted, Fill, GrowDrive, Health, JournalStatus, ListenerStatus, LocateDrive,
    MemoryStatus, MoveVolume, Pool, PoolChange, RollBack, ScrubStatus, ServiceState, ShardState,
    Snapshot, Space, StartScrub, Status, Volume, VolumeClients, VolumeFamily, VolumeMove,
};
use varve_access_admin::{
    AdminBackend, AdminFuture, Error, ListenAddress, Metric, MetricKind, ObjectBackend, Result,
    Sample,
};
use varve_access_nbd::ConnectionLimit;
use varve_dataset::Datasets;
use varve_relay::RelayMetrics;
use varve_types::ErrorKind;

use crate::condition::{self, DriveConditions};
use crate::config::Thresholds;
use crate::drive_changes::{DriveRemoval, JoiningDrive};
use crate::fill::SpaceNow;
use crate::objects::Objects;
use crate::online_check::{self, OnlineCheck};
use crate::pool_size::{PoolSize, StoredData};
use crate::redundancy::{DriveRedundancy, RedundancySummary};
use crate::redundant_pool::RedundantPool;
use crate::room::{free_bytes, used_bytes};
use crate::shard_thread::ShardThread;
use crate::stack::{ShardMetric, ShardReport, ShardStack};
use crate::threads::ShardThreads;
use crate::{
    clients, drive_changes, drive_growth, figures, fill, health, holdings, node_status,
    process_metrics, protection_change, s3_figures, snapshots,
};

/// Time to read the catalogue for status and metrics, which do without where drives hang.
const COUNT_MAX: Duration = Duration::from_secs(1);

/// The thread that carries out changes of the catalogue.
const CATALOGUE_THREAD: usize = 0;

/// What stays the same while the pool is open.
#[derive(Clone, Debug)]
pub(crate) struct PoolFacts {
    pub(crate) id: String,
    pub(crate) created_unix_ms: u64,
    pub(crate) shards: u16,
    pub(crate) segment_size_bytes: u64,
    pub(crate) size: PoolSize,
    /// As the data directory remembers them.
    pub(crate) drives: Vec<Drive>,
    pub(crate) redundancy: DriveRedundancy,
    pub(crate) journal: JournalStatus,
    /// What drives say of themselves.
    pub(crate) conditions: DriveConditions,
    /// The pool's nodes, if this is one.
    pub(crate) nodes: Option<RelayMetrics>,
    pub(crate) memory_budget_bytes: u64,
    pub(crate) thresholds: Thresholds,
}

/// The daemon as the admin API sees it.
pub(crate) struct PoolBackend<S: ShardStack> {
    pub(crate) threads: Arc<ShardThreads<S>>,
    pub(crate) facts: PoolFacts,
    pub(crate) nbd_addresses: Vec<ListenAddress>,
    pub(crate) admin_addresses: Vec<ListenAddress>,
    pub(crate) nbd_connections: ConnectionLimit,
    pub(crate) serving_since: Instant,
    /// Volumes when they were last counted: counting waits for shards that do not serve, and a status must not.
    pub(crate) volumes_seen: AtomicU64,
    /// The last report of each shard; held for moments.
    pub(crate) reports_seen: Mutex<BTreeMap<usize, ShardReport>>,
    pub(crate) check: OnlineCheck,
    /// The S3 gateway, where it is served.
    pub(crate) objects: Objects,
}

impl<S: ShardStack> PoolBackend<S> {
    /// A report of every shard, by number. Of a shard whose thread does not answer it is the one before, with that as
    /// its trouble.
    async fn reports(&self) -> Result<Vec<ShardReport>> {
        let ask =
            |shard| self.threads.ask(shard, |thread| async move { Ok(thread.stack.report()) });
        // All are asked before the first answer is awaited.
        let asked: Vec<_> = (0..self.threads.count()).map(ask).collect();
        let mut reports = Vec::with_capacity(asked.len());
        let until = tokio::time::Instant::now() + health::HUNG;
        for (shard, answer) in asked.into_iter().enumerate() {
            let report = match tokio::time::timeout_at(until, answer).await {
                Ok(Ok(report)) => report,
                Ok(Err(_)) | Err(_) => health::stuck(shard, self.reports_seen().remove(&shard)),
            };
            self.reports_seen().insert(shard, report.clone());
            reports.push(report);
        }
        Ok(reports)
    }

    fn reports_seen(&self) -> MutexGuard<'_, BTreeMap<usize, ShardReport>> {
        self.reports_seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is stored, for whoever looks whether it fits fewer drives.
    async fn stored(&self) -> Result<StoredData> {
        Ok(self.facts.size.stored(&self.reports().await?))
    }

    /// Calls a closure with the pool, where its drives can be changed.
    fn with_drives<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Arc<RedundantPool>) -> AdminFuture<'static, T>,
    ) -> AdminFuture<'static, T> {
        match self.facts.redundancy.pool() {
            Ok(pool) => work(pool),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    /// Asks the datasets of the catalogue's thread.
    fn ask_datasets<T, F>(
        &self,
        work: impl FnOnce(Datasets) -> F + Send + 'static,
    ) -> AdminFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        self.threads.ask(CATALOGUE_THREAD, |thread| async move {
            match thread.stack.datasets() {
                Some(datasets) => work(datasets).await,
                None => Err(Error::Backend {
                    kind: ErrorKind::Unsupported,
                    message: "this pool has no snapshots".to_owned(),
                    hint: None,
                }),
            }
        })
    }

    async fn status_now(&self) -> Result<Status> {
        let reports = self.reports().await?;
        let serving = all_serve(&reports);
        if serving {
            // A drive that hangs or fails must not keep the status from saying so.
            if let Ok(Ok(volumes)) = tokio::time::timeout(COUNT_MAX, self.volumes()).await {
                let volumes = u64::try_from(volumes.len()).unwrap_or(u64::MAX);
                self.volumes_seen.store(volumes, Ordering::Relaxed);
            }
        }
        let space_used_bytes = used_bytes(&reports);
        let used_bytes = reports.iter().map(|report| report.memory_used_bytes).sum();
        let connections = u64::try_from(self.nbd_connections.open()).unwrap_or(u64::MAX);
        let listener = |protocol: &str, address: String| ListenerStatus {
            protocol: protocol.to_owned(),
            address,
        };
        let s3_connections =
            self.objects.gateway().map_or(0, |s3| s3.gateway.figures().connections);
        let nbd = self.nbd_addresses.iter().map(|address| listener("nbd", address.to_string()));
        let admin =
            self.admin_addresses.iter().map(|address| listener("admin", address.to_string()));
        let s3 =
            self.objects.gateway().into_iter().map(|s3| listener("s3", s3.address.to_string()));
        let mut troubles = self.facts.redundancy.troubles(&reports);
        let of_drives = condition::reasons(&self.drives_by(&reports));
        troubles.extend(of_drives.into_iter().map(|reason| reason.message));
        let of_strips = self.facts.redundancy.wrong_strips();
        troubles.extend(of_strips.chain(health::damaged(&reports)).map(|reason| reason.message));
        troubles.extend(self.objects.trouble());
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: if serving && troubles.is_empty() {
                ServiceState::Serving
            } else {
                ServiceState::Degraded
            },
            pool_id: self.facts.id.clone(),
            uptime_ms: u64::try_from(self.serving_since.elapsed().as_millis()).unwrap_or(u64::MAX),
            volumes: self.volumes_seen.load(Ordering::Relaxed),
            connections: connections.saturating_add(s3_connections),
            listeners: nbd.chain(s3).chain(admin).collect(),
            fill: self.fill(space_used_bytes, &reports),
            journal: Some(self.facts.redundancy.journal(&self.facts.journal)),
            standing_by: self.facts.nodes.as_ref().map(RelayMetrics::standing_by),
            nodes: self.facts.nodes.as_ref().map(|relay| node_status::statuses(relay.nodes())),
            memory: MemoryStatus {
                budget_bytes: self.facts.memory_budget_bytes,
                used_bytes,
                resident_bytes: process_metrics::resident_bytes(),
            },
            shards: reports.into_iter().map(|report| report.status).collect(),
            troubles,
            cells: Vec::new(),
            missing_cells: Vec::new(),
        })
    }

    fn fill(&self, used_bytes: u64, reports: &[ShardReport]) -> Fill {
        let capacity_bytes = self.facts.size.capacity_bytes(reports);
        let free_bytes = free_bytes(capacity_bytes, used_bytes, reports);
        let space = SpaceNow { used_bytes, free_bytes, capacity_bytes };
        fill::fill(space, self.facts.thresholds)
    }

    async fn pool_now(&self) -> Result<Pool> {
        let reports = self.reports().await?;
        let used_bytes = used_bytes(&reports);
        let facts = self.facts.clone();
        let size_bytes = facts.size.size_bytes(&reports);
        let capacity_bytes = facts.size.capacity_bytes(&reports);
        let redundancy = facts.redundancy.summary(size_bytes, &reports);
        let RedundancySummary { protect, survives, data_class, usable_bytes, raw_bytes, .. } =
            redundancy;
        Ok(Pool {
            id: facts.id,
            created_unix_ms: facts.created_unix_ms,
            shards: facts.shards,
            segment_size_bytes: facts.segment_size_bytes,
            size_bytes,
            capacity_bytes,
            used_bytes,
            free_bytes: free_bytes(capacity_bytes, used_bytes, &reports),
            drives: self.drives_by(&reports),
            protect,
            survives,
            data_class,
            journal_class: redundancy.journal_class,
            journal_class_met: redundancy.journal_class_met,
            unconverted_zones: redundancy.unconverted_zones,
            usable_bytes,
            raw_bytes,
            missing_cells: Vec::new(),
        })
    }

    async fn space_now(&self) -> Result<Space> {
        let asked =
            self.threads.ask(CATALOGUE_THREAD, |thread| async move { thread.stack.space().await });
        let space: varve_dataset::StoredSpace = asked.await?;
        let (used_bytes, waiting_bytes) = (space.used_bytes(), space.waiting_bytes());
        let reports = self.reports().await?;
        let capacity_bytes = self.facts.size.capacity_bytes(&reports);
        Ok(Space {
            size_bytes: self.facts.size.size_bytes(&reports),
            capacity_bytes,
            used_bytes,
            free_bytes: free_bytes(capacity_bytes, used_bytes, &reports),
            logical_bytes: space.logical_bytes,
            unique_bytes: space.unique_bytes,
            stored_bytes: space.stored_bytes,
            referenced_bytes: space.referenced_bytes,
            waiting_bytes,
            metadata_bytes: space.metadata_bytes,
            reserved_bytes: space.reserved_bytes,
            outstanding_bytes: space.outstanding_bytes,
            fill: self.fill(used_bytes, &reports),
            volumes: space.volumes.iter().map(holdings::of_volume).collect(),
            buckets: space.buckets.iter().map(holdings::of_bucket).collect(),
            cells: Vec::new(),
            missing_cells: Vec::new(),
        })
    }

    async fn volume_space_now(&self, name: String) -> Result<VolumeFamily> {
        self.threads
            .ask(CATALOGUE_THREAD, |thread| async move {
                let id = thread.stack.volume(&name).await?.id; // An absent one costs nothing.
                let space = thread.stack.space().await?;
                let found = space.volumes.iter().find(|held| held.volume.id == id);
                found.map(holdings::of_family).ok_or_else(|| Error::Backend {
                    kind: ErrorKind::Unavailable,
                    message: format!("volume `{name}` changed while it was counted"),
                    hint: Some("ask again".to_owned()),
                })
            })
            .await
    }

    async fn drives_now(&self) -> Result<DriveList> {
        let drives = self.drives_by(&self.reports().await?);
        Ok(DriveList { drives, missing_cells: Vec::new() })
    }

    /// The drives with what failed on them and what they say of themselves.
    fn drives_by(&self, reports: &[ShardReport]) -> Vec<Drive> {
        let facts = &self.facts;
        facts.conditions.with(facts.redundancy.drives(&facts.drives, reports))
    }

    async fn health_now(&self) -> Result<Health> {
        let reports = self.reports().await?;
        Ok(self.facts.redundancy.health(&reports, &self.drives_by(&reports)))
    }

    async fn metrics_now(&self) -> Result<Vec<Metric>> {
        let reports = self.reports().await?;
        let used_bytes = used_bytes(&reports);
        let capacity_bytes = self.facts.size.capacity_bytes(&reports);
        let connections = u64::try_from(self.nbd_connections.open()).unwrap_or(u64::MAX);
        let mut metrics = vec![
            Metric::gauge(
                "varve_pool_capacity_bytes",
                "Space for blocks and the pages that name them.",
                capacity_bytes,
            ),
            Metric::gauge(
                "varve_pool_used_bytes",
                "Space that live blocks and pages take.",
                used_bytes,
            ),
            Metric::gauge(
                "varve_pool_fill_level",
                "How many thresholds of space are exceeded, 0 to 4.",
                fill::rank(self.fill(used_bytes, &reports).level),
            ),
            Metric::gauge(
                "varve_pool_free_bytes",
                "Space that new blocks may take: as much as the fullest shard lets the pool take.",
                free_bytes(capacity_bytes, used_bytes, &reports),
            ),
            self.threshold_metric(capacity_bytes),
            Metric::gauge("varve_nbd_connections_open", "NBD connections open now.", connections),
        ];
        metrics
            .extend(self.facts.nodes.iter().flat_map(|relay| node_status::metrics(&relay.nodes())));
        // They would wait for a shard that does not serve, whose own metrics say so.
        if all_serve(&reports) {
            let figures = self.ask_datasets(|datasets| async move { figures::of(&datasets).await });
            match tokio::time::timeout(COUNT_MAX, figures).await {
                Ok(Ok(figures)) => metrics.extend(figures),
                Ok(Err(error)) => tracing::debug!(%error, "no metrics of datasets"),
                Err(_) => tracing::debug!("no metrics of datasets: the drives hang"),
            }
        }
        let gateway = self.objects.gateway();
        metrics.extend(gateway.into_iter().flat_map(|s3| s3_figures::of(&s3.gateway.figures())));
        metrics.extend(by_name(&reports));
        metrics.extend(self.daemon_metrics(&reports));
        let drives = self.drives_by(&reports);
        metrics.extend(health::metrics(&drives, &reports));
        metrics.extend(self.facts.redundancy.metrics(&reports, &drives));
        metrics.extend(condition::metrics(&drives));
        Ok(metrics)
    }

    /// The process, its memory against the budget, and which shards serve.
    fn daemon_metrics(&self, reports: &[ShardReport]) -> Vec<Metric> {
        let used_bytes = reports.iter().map(|report| report.memory_used_bytes).sum();
        let budget_bytes = self.facts.memory_budget_bytes;
        let help = "Whether the shard serves requests: 1, or 0 while requests to it wait.";
        let mut serving = Metric::new("varve_engine_shard_serving", help, MetricKind::Gauge);
        for report in reports {
            let value = u64::from(report.status.state == ShardState::Serving);
            let labels = vec![("shard", report.status.shard.to_string())];
            serving.samples.push(Sample { labels, value });
        }
        let mut metrics = process_metrics::now();
        metrics.extend([
            Metric::gauge(
                "varve_daemon_memory_used_bytes",
                "Memory in use by the caches and buffers of all shards.",
                used_bytes,
            ),
            Metric::gauge(
                "varve_daemon_memory_budget_bytes",
                "Limit of the memory of all caches and buffers, the setting memory.budget.",
                budget_bytes,
            ),
            serving,
        ]);
        metrics
    }

    fn threshold_metric(&self, capacity_bytes: u64) -> Metric {
        let help = "Used bytes from which on the pool is as full as the label says.";
        let mut metric = Metric::new("varve_pool_threshold_bytes", help, MetricKind::Gauge);
        let levels = ["filling", "high", "near_full", "full"];
        for (level, percent) in levels.into_iter().zip(self.facts.thresholds.ascending()) {
            let labels = vec![("level", level.to_owned())];
            let value = capacity_bytes / 100 * u64::from(percent);
            metric.samples.push(Sample { labels, value });
        }
        metric
    }
}

fn all_serve(reports: &[ShardReport]) -> bool {
    reports.iter().all(|report| report.status.state == ShardState::Serving)
}

/// The shards' metrics, one a name with a sample a shard.
fn by_name(reports: &[ShardReport]) -> Vec<Metric> {
    let mut merged: BTreeMap<&'static str, Metric> = BTreeMap::new();
    for report in reports {
        let shard = report.status.shard.to_string();
        for ShardMetric { name, help, kind, value } in &report.metrics {
            let metric = merged.entry(name).or_insert_with(|| Metric::new(name, help, *kind));
            metric.samples.push(Sample { labels: vec![("shard", shard.clone())], value: *value });
        }
    }
    merged.into_values().collect()
}

impl<S: ShardStack> AdminBackend for PoolBackend<S> {
    fn status(&self) -> AdminFuture<'_, Status> {
        Box::pin(self.status_now())
    }

    fn pool(&self) -> AdminFuture<'_, Pool> {
        Box::pin(self.pool_now())
    }

    fn drives(&self) -> AdminFuture<'_, DriveList> {
        Box::pin(self.drives_now())
    }

    fn health(&self) -> AdminFuture<'_, Health> {
        Box::pin(self.health_now())
    }

    fn locate_drive(&self, name: String, light: LocateDrive) -> AdminFuture<'_, DriveLight> {
        Box::pin(async move {
            let drive = self.drive(name).await?;
            condition::change_light(drive.path, light.on).await
        })
    }

    fn add_drive(&self, new: AddDrive) -> AdminFuture<'_, DriveMoves> {
        Box::pin(async move {
            // Shards may wait for one more drive where another one has failed.
            let pool = self.facts.redundancy.pool();
            let has_failed = pool.is_ok_and(|pool| drive_changes::has_failed_drives(pool));
            let stored = if has_failed { None } else { Some(self.stored().await?) };
            let joining = JoiningDrive { new, stored };
            self.with_drives(|pool| drive_changes::add(pool, joining)).await
        })
    }

    fn drain_drive(&self, drive: String) -> AdminFuture<'_, DriveMoves> {
        Box::pin(async move {
            let stored = Some(self.stored().await?);
            self.with_drives(|pool| drive_changes::drain(pool, drive, stored)).await
        })
    }

    fn keep_drive(&self, drive: String) -> AdminFuture<'_, DriveMoves> {
        self.with_drives(|pool| drive_changes::keep(pool, drive))
    }

    fn remove_drive(&self, name: String, is_failed: bool) -> AdminFuture<'_, DriveMoves> {
        Box::pin(async move {
            // One that failed has nothing to be moved, and shards may wait for it.
            let stored = if is_failed { None } else { Some(self.stored().await?) };
            let removal = DriveRemoval { name, is_failed, stored };
            self.with_drives(|pool| drive_changes::remove(pool, removal)).await
        })
    }

    fn replace_drive(&self, old: String, new: AddDrive) -> AdminFuture<'_, DriveMoves> {
        Box::pin(async move {
            // Shards may wait for what takes the place of one that failed.
            let pool = self.facts.redundancy.pool();
            let is_failed = pool.is_ok_and(|pool| drive_changes::has_failed(pool, &old));
            let stored = if is_failed { None } else { Some(self.stored().await?) };
            let joining = JoiningDrive { new, stored };
            self.with_drives(|pool| drive_changes::replace(pool, old, joining)).await
        })
    }

    fn grow_drive(&self, drive: String, size: GrowDrive) -> AdminFuture<'_, DriveGrowth> {
        self.with_drives(|pool| drive_growth::grow(pool, drive, size))
    }

    fn change_drive(&self, drive: String, change: ChangeDrive) -> AdminFuture<'_, DriveMoves> {
        self.with_drives(|pool| protection_change::change_drive(pool, drive, change))
    }

    fn change_pool(&self, change: ChangePool) -> AdminFuture<'_, PoolChange> {
        self.with_drives(|pool| protection_change::change_pool(pool, change))
    }

    fn drive_moves(&self) -> AdminFuture<'_, DriveMoves> {
        self.with_drives(|pool| Box::pin(ready(Ok(drive_changes::moves(pool)))))
    }

    fn scrub(&self) -> AdminFuture<'_, ScrubStatus> {
        self.with_drives(|pool| Box::pin(ready(Ok(drive_changes::scrub(pool)))))
    }

    fn start_scrub(&self, what: StartScrub) -> AdminFuture<'_, ScrubStatus> {
        if self.facts.redundancy.is_read_only() {
            return Box::pin(ready(Err(Error::Backend {
                kind: ErrorKind::Denied,
                message: "the pool is open for reading only".to_owned(),
                hint: Some("`varve check --online` reads what is stored".to_owned()),
            })));
        }
        self.with_drives(|pool| Box::pin(ready(drive_changes::start_scrub(pool, &what))))
    }

    fn stop_scrub(&self) -> AdminFuture<'_, ScrubStatus> {
        self.with_drives(|pool| Box::pin(ready(Ok(drive_changes::stop_scrub(pool)))))
    }

    fn space(&self) -> AdminFuture<'_, Space> {
        Box::pin(self.space_now())
    }

    fn volume_space(&self, name: String) -> AdminFuture<'_, VolumeFamily> {
        Box::pin(self.volume_space_now(name))
    }

    fn volumes(&self) -> AdminFuture<'_, Vec<Volume>> {
        self.threads.ask(CATALOGUE_THREAD, |thread| async move { thread.stack.volumes().await })
    }

    fn volume(&self, name: String) -> AdminFuture<'_, Volume> {
        self.threads.ask(CATALOGUE_THREAD, |thread| async move { thread.stack.volume(&name).await })
    }

    fn create_volume(&self, spec: CreateVolume) -> AdminFuture<'_, Volume> {
        self.threads
            .ask(CATALOGUE_THREAD, |thread| async move { thread.stack.create_volume(spec).await })
    }

    fn change_volume(&self, name: String, change: ChangeVolume) -> AdminFuture<'_, Volume> {
        self.threads.ask(CATALOGUE_THREAD, move |thread| async move {
            thread.stack.change_volume(&name, change).await
        })
    }

    fn delete_volume(&self, name: String, how: DeleteVolume) -> AdminFuture<'_, ()> {
        Box::pin(async move {
            clients::refuse_open(&self.threads, &name).await?;
            let delete = move |thread: Rc<ShardThread<S>>| async move {
                thread.stack.delete_volume(&name, how).await
            };
            self.threads.ask(CATALOGUE_THREAD, delete).await
        })
    }

    fn clients(&self, volume: String) -> AdminFuture<'_, VolumeClients> {
        Box::pin(async move {
            self.volume(volume.clone()).await?;
            clients::list(&self.threads, &volume).await
        })
    }

    fn disconnect(
        &self,
        volume: String,
        which: DisconnectClients,
    ) -> AdminFuture<'_, DisconnectedClients> {
        Box::pin(async move {
            self.volume(volume.clone()).await?;
            clients::disconnect(&self.threads, &volume, &which).await
        })
    }

    fn create_snapshots(&self, spec: CreateSnapshots) -> AdminFuture<'_, Vec<Snapshot>> {
        self.ask_datasets(|datasets| snapshots::create(datasets, spec))
    }

    fn snapshots(
        &self,
        volume: Option<String>,
        after: Option<String>,
        limit: usize,
    ) -> AdminFuture<'_, Vec<Snapshot>> {
        self.ask_datasets(move |datasets| snapshots::list(datasets, volume, after, limit))
    }

    fn snapshot(&self, name: String) -> AdminFuture<'_, Snapshot> {
        self.ask_datasets(|datasets| snapshots::show(datasets, name))
    }

    fn change_snapshot(&self, name: String, change: ChangeSnapshot) -> AdminFuture<'_, Snapshot> {
        self.ask_datasets(|datasets| snapshots::change(datasets, name, change))
    }

    fn delete_snapshot(&self, name: String, expects: Option<VolumeMove>) -> AdminFuture<'_, ()> {
        Box::pin(async move {
            clients::refuse_open(&self.threads, &name).await?;
            self.ask_datasets(|datasets| snapshots::delete(datasets, name, expects)).await
        })
    }

    fn roll_back(&self, volume: String, to: RollBack) -> AdminFuture<'_, Volume> {
        Box::pin(async move {
            clients::refuse_open(&self.threads, &volume).await?;
            self.ask_datasets(|datasets| snapshots::roll_back(datasets, volume, to)).await
        })
    }

    fn clone_volume(&self, spec: CloneVolume) -> AdminFuture<'_, Volume> {
        self.ask_datasets(|datasets| snapshots::clone(datasets, spec))
    }

    fn extents(&self, name: String, wanted: ExtentsWanted) -> AdminFuture<'_, ExtentPage> {
        self.ask_datasets(move |datasets| snapshots::extents(datasets, name, wanted))
    }

    fn begin_receive(&self, volume: String, spec: BeginReceive) -> AdminFuture<'_, Volume> {
        self.ask_datasets(|datasets| snapshots::begin_receive(datasets, volume, spec))
    }

    fn end_receive(&self, volume: String, spec: EndReceive) -> AdminFuture<'_, Snapshot> {
        self.ask_datasets(|datasets| snapshots::end_receive(datasets, volume, spec))
    }

    fn move_volume(&self, name: String, step: MoveVolume) -> AdminFuture<'_, Volume> {
        self.ask_datasets(|datasets| snapshots::move_volume(datasets, name, step))
    }

    fn check(&self) -> AdminFuture<'_, CheckStatus> {
        Box::pin(std::future::ready(Ok(self.check.status())))
    }

    fn start_check(&self) -> AdminFuture<'_, CheckStatus> {
        if let Some(progress) = self.check.begin() {
            let outcome = self.ask_datasets(|datasets| online_check::run(datasets, progress));
            tokio::spawn(self.check.clone().follow(outcome));
        }
        self.check()
    }

    fn stop_check(&self) -> AdminFuture<'_, CheckStatus> {
        self.check.stop();
        self.check()
    }

    fn objects(&self) -> Result<&dyn ObjectBackend> {
        self.objects.backend()
    }

    fn metrics(&self) -> AdminFuture<'_, Vec<Metric>> {
        Box::pin(self.metrics_now())
    }
}
