//! A backend that keeps its volumes in memory: what tests of the API and of its clients run against.

mod bucket_moves;
mod objects;
mod snapshots;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use varve_types::{ErrorKind, Reduction, limits};

use crate::backend::{AdminBackend, AdminFuture, no_redundancy};
use crate::error::{Error, Result};
use crate::metrics::{Metric, MetricKind, Sample};
use crate::objects::ObjectBackend;
use crate::v1::{
    AddDrive, BeginReceive, ChangeDrive, ChangePool, ChangeSnapshot, ChangeVolume, CheckReport,
    CheckState, CheckStatus, CloneVolume, CreateSnapshots, CreateVolume, DeleteVolume,
    DisconnectClients, DisconnectedClients, Drive, DriveCondition, DriveGrowth, DriveLight,
    DriveList, DriveMoves, DriveState, DriveWarning, EndReceive, ExtentPage, ExtentsWanted, Fill,
    FillLevel, GrowDrive, Health, HealthReason, HealthState, JournalStatus, ListenerStatus,
    LocateDrive, MemoryStatus, MoveVolume, NodeStatus, Pool, PoolChange, Reservation, RollBack,
    ScrubState, ScrubStatus, ServiceState, ShardState, ShardStatus, Snapshot, SnapshotSpace, Space,
    StartScrub, Status, Volume, VolumeClient, VolumeClients, VolumeFamily, VolumeMove, VolumeSpace,
};

/// A pool of nothing but names. The mutex guards the volumes and is never held across an await.
#[derive(Default)]
pub struct MemoryBackend {
    volumes: Mutex<BTreeMap<String, Volume>>,
    snapshots: Mutex<BTreeMap<String, Snapshot>>,
    check: Mutex<CheckStatus>,
    objects: objects::MemoryObjects,
    without_s3: bool,
    slow_counts: AtomicU32,
    used_bytes: Option<u64>,
    drives: Option<Vec<Drive>>,
}

/// When the pool and every volume in it came to be: 2026-01-01 00:00 UTC.
const CREATED_UNIX_MS: u64 = 1_767_225_600_000;

impl MemoryBackend {
    /// A backend that holds one volume that a client has open.
    ///
    /// # Panics
    /// Never: the mutex is not shared yet.
    #[must_use]
    pub fn with_open_volume(name: &str, size_bytes: u64) -> Self {
        let backend = Self::default();
        let spec = plain(name.to_owned(), size_bytes);
        let created = backend.create(&spec).is_ok();
        assert!(created, "the volume is the first one");
        if let Some(volume) = backend.lock().get_mut(name) {
            volume.openers = 1;
        }
        backend
    }

    /// A backend that holds `count` volumes of 1 GiB, named `v0000`, `v0001` and so on.
    #[must_use]
    pub fn with_volumes(count: usize) -> Self {
        let backend = Self::default();
        for number in 0..count {
            let spec = plain(format!("v{number:04}"), 1 << 30);
            let created = backend.create(&spec).is_ok();
            assert!(created, "names are counted up");
        }
        backend
    }

    /// A backend that serves no S3.
    #[must_use]
    pub fn without_s3() -> Self {
        Self { without_s3: true, ..Self::default() }
    }

    /// A backend whose first counts of what is stored take longer than anybody waits.
    #[must_use]
    pub fn with_slow_counts(slow_counts: u32) -> Self {
        Self { slow_counts: AtomicU32::new(slow_counts), ..Self::default() }
    }

    /// A backend of a pool that mirrors two drives, of which the second has failed.
    #[must_use]
    pub fn with_failed_drive() -> Self {
        let drive = |number: u8, state, read_errors| Drive {
            path: format!("/srv/drive-{number}"),
            size_bytes: Some(68 << 30),
            number: Some(number),
            id: Some(format!("{number:02x}").repeat(16)),
            name: Some(format!("drive-{number}")),
            kind: Some("ssd".to_owned()),
            state: Some(state),
            since_unix_ms: Some(CREATED_UNIX_MS),
            used_bytes: Some(34 << 30),
            read_errors,
            ..Drive::default()
        };
        let growable_bytes = Some(32 << 30);
        let worn =
            Drive { condition: Some(worn()), growable_bytes, ..drive(0, DriveState::Live, 0) };
        let failed = Drive { checksum_errors: 2, ..drive(1, DriveState::Failed, 3) };
        let drives = vec![worn, failed];
        Self { drives: Some(drives), ..Self::default() }
    }

    /// A backend of which so much of 64 GiB is used.
    #[must_use]
    pub fn with_used_bytes(used_bytes: u64) -> Self {
        Self { used_bytes: Some(used_bytes), ..Self::default() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Volume>> {
        self.volumes.lock().expect("no holder of the lock panics")
    }

    fn check_now(&self) -> std::sync::MutexGuard<'_, CheckStatus> {
        self.check.lock().expect("no holder of the lock panics")
    }

    /// A check that finds one block of a volume named `damaged` missing, cannot look up one of a volume named
    /// `unserved`, and nothing else.
    fn checked(&self) -> CheckStatus {
        let dangling = u64::from(self.lock().contains_key("damaged"));
        let finding = || "damaged: block 7 names 12, which is not there".to_owned();
        let unserved = u64::from(self.lock().contains_key("unserved"));
        let left_out = || "1 block that names chunks of shard 2: it does not answer".to_owned();
        let report = CheckReport {
            datasets: self.lock().len() as u64,
            references: 1000,
            dangling,
            unreadable: 0,
            leaked: 0,
            unnamed: 3,
            unnamed_bytes: 12 << 10,
            findings: (0..dangling).map(|_| finding()).collect(),
            not_checked: (0..unserved).map(|_| left_out()).collect(),
        };
        let (state, references) = (CheckState::Done, report.references);
        CheckStatus { state, references, report: Some(report), ..CheckStatus::default() }
    }

    fn create(&self, spec: &CreateVolume) -> Result<Volume> {
        let mut volumes = self.lock();
        let name = spec.name.clone();
        if volumes.contains_key(&name) {
            return Err(refusal(ErrorKind::Exists, format!("volume `{name}` already exists")));
        }
        if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || name.contains('/') {
            return Err(refusal(ErrorKind::Invalid, format!("`{name}` is not a volume name")));
        }
        let default = Reduction::default();
        let volume = Volume {
            id: volumes.len() as u64 + 1,
            name: name.clone(),
            namespace: "default".to_owned(),
            cell: None,
            size_bytes: spec.size_bytes,
            block_size_bytes: spec.block_size_bytes.unwrap_or(limits::BLOCK_SIZE_DEFAULT),
            created_unix_ms: CREATED_UNIX_MS,
            openers: 0,
            dedup: spec.dedup.unwrap_or(default.dedup),
            compression: spec.compression.unwrap_or(default.compression),
            quota_bytes: spec.quota_bytes.filter(|quota| *quota > 0),
            reserved_bytes: (spec.reservation == Some(Reservation::Full))
                .then_some(spec.size_bytes),
            outstanding_bytes: (spec.reservation == Some(Reservation::Full))
                .then_some(spec.size_bytes),
            exclusive: spec.exclusive.unwrap_or(false),
            origin: None,
            receiving: None,
            moves: None,
        };
        volumes.insert(name, volume.clone());
        Ok(volume)
    }

    fn change<T>(&self, name: &str, change: impl FnOnce(&mut Volume) -> T) -> Result<T> {
        match self.lock().get_mut(name) {
            Some(volume) => Ok(change(volume)),
            None => Err(not_found(name)),
        }
    }

    /// The same of a volume that has to be there on its way between two pools.
    fn change_moving<T>(
        &self,
        name: &str,
        expects: Option<&VolumeMove>,
        change: impl FnOnce(&mut Volume) -> T,
    ) -> Result<T> {
        self.change(name, |volume| match volume.moves.as_ref() == expects {
            true => Ok(change(volume)),
            false => {
                let kind = expects.map_or(ErrorKind::Fenced, |_| ErrorKind::Conflict);
                Err(refusal(kind, format!("volume `{name}` moves otherwise")))
            }
        })?
    }

    fn delete_as(&self, name: &str, how: &DeleteVolume) -> Result<()> {
        if how.expects.is_some() {
            self.change_moving(name, how.expects.as_ref(), |_| ())?;
        }
        self.check_snapshots(name, how.snapshots)?;
        self.delete(name)
    }

    fn delete(&self, name: &str) -> Result<()> {
        let openers = self.change(name, |volume| volume.openers)?;
        if openers > 0 {
            let message = format!("volume `{name}` is open by {openers} client");
            return Err(refusal(ErrorKind::Conflict, message));
        }
        self.lock().remove(name);
        Ok(())
    }

    fn pool_now(&self) -> Pool {
        let used_bytes = self.used_bytes.unwrap_or(3 << 30);
        Pool {
            id: "00000000-0000-0000-0000-000000000001".to_owned(),
            created_unix_ms: CREATED_UNIX_MS,
            shards: 2,
            segment_size_bytes: u64::from(limits::SEGMENT_BYTES_DEFAULT),
            size_bytes: 68 << 30,
            capacity_bytes: 64 << 30,
            used_bytes,
            free_bytes: (64 << 30) - used_bytes,
            drives: self.drives.clone().unwrap_or_else(|| vec![embedded_drive()]),
            protect: Some(if self.drives.is_some() { "mirror:2" } else { "none" }.to_owned()),
            survives: Some(0),
            data_class: None,
            journal_class: None,
            journal_class_met: None,
            unconverted_zones: None,
            usable_bytes: Some(68 << 30),
            raw_bytes: Some(if self.drives.is_some() { 136 << 30 } else { 68 << 30 }),
            missing_cells: Vec::new(),
        }
    }

    /// Zones lack strips where a drive has failed.
    /// An answer about drives that can be changed, where there are some.
    fn of_drives<T: Send + 'static>(&self, answer: T) -> AdminFuture<'_, T> {
        if self.drives.is_some() { ready(Ok(answer)) } else { no_redundancy() }
    }

    /// The same about one of them, by its number.
    fn of_drive<T: Send + 'static>(&self, name: &str, answer: T) -> AdminFuture<'_, T> {
        let is_it = |drive: &Drive| drive.number.is_some_and(|it| it.to_string() == name);
        match &self.drives {
            Some(drives) if !drives.iter().any(is_it) => ready(Err(Error::Backend {
                kind: ErrorKind::NotFound,
                message: format!("the pool has no drive {name}"),
                hint: Some("`varve drive list` shows its drives".to_owned()),
            })),
            Some(_) | None => self.of_drives(answer),
        }
    }

    fn health_now(&self) -> Health {
        let drives = self.pool_now().drives;
        let failed = drives.iter().filter(|drive| drive.state == Some(DriveState::Failed));
        let reason = |drive: &Drive| HealthReason {
            state: HealthState::AtRisk,
            message: format!("drive {} failed", drive.number.unwrap_or_default()),
            advice: "replace it".to_owned(),
        };
        Health::of(failed.map(reason).collect(), Some(0))
    }

    /// What a volume holds: half of its size, half of that is shared with others, and all compresses to three quarters.
    /// A snapshot holds an eighth of the volume that it does not hold any more.
    fn volume_space_of(&self, volume: &Volume) -> VolumeSpace {
        let snapshots = self.count_snapshots(&volume.name);
        let (logical_bytes, old_bytes) = (volume.size_bytes / 2, volume.size_bytes / 8 * 3 / 4);
        let freed_bytes = logical_bytes / 2 / 4 * 3;
        VolumeSpace {
            name: volume.name.clone(),
            namespace: volume.namespace.clone(),
            size_bytes: volume.size_bytes,
            logical_bytes,
            referenced_bytes: logical_bytes / 4 * 3,
            unique_bytes: logical_bytes / 2,
            freed_bytes,
            snapshots,
            snapshots_freed_bytes: snapshots * old_bytes,
            whole_freed_bytes: freed_bytes + snapshots * old_bytes,
            reserved_bytes: volume.reserved_bytes,
            outstanding_bytes: volume.outstanding_bytes,
        }
    }

    fn family_of(&self, name: &str) -> Result<VolumeFamily> {
        let volume = self.change(name, |volume| volume.clone())?;
        let snapshots = self.list_snapshots(Some(name), None, usize::MAX)?;
        let held = |snapshot: Snapshot| SnapshotSpace {
            name: snapshot.name,
            size_bytes: snapshot.size_bytes,
            logical_bytes: snapshot.size_bytes / 2,
            referenced_bytes: snapshot.size_bytes / 2 / 4 * 3,
            unique_bytes: snapshot.size_bytes / 8,
            freed_bytes: snapshot.size_bytes / 8 * 3 / 4,
        };
        let snapshots = snapshots.into_iter().map(held).collect();
        Ok(VolumeFamily { volume: self.volume_space_of(&volume), snapshots })
    }

    /// What all volumes hold, and their duplicates once.
    fn space_now(&self) -> Space {
        let Pool { size_bytes, capacity_bytes, used_bytes, free_bytes, .. } = self.pool_now();
        let all: Vec<Volume> = self.lock().values().cloned().collect();
        let volumes: Vec<VolumeSpace> =
            all.iter().map(|volume| self.volume_space_of(volume)).collect();
        let logical_bytes: u64 = volumes.iter().map(|volume| volume.logical_bytes).sum();
        let unique_bytes = logical_bytes / 2;
        let stored_bytes = unique_bytes / 4 * 3;
        let reserved_bytes = all.iter().filter_map(|volume| volume.reserved_bytes).sum();
        Space {
            size_bytes,
            capacity_bytes,
            used_bytes,
            free_bytes,
            logical_bytes,
            unique_bytes,
            stored_bytes,
            referenced_bytes: stored_bytes / 8 * 7,
            waiting_bytes: stored_bytes - stored_bytes / 8 * 7,
            metadata_bytes: used_bytes.saturating_sub(stored_bytes),
            reserved_bytes,
            outstanding_bytes: reserved_bytes,
            fill: self.fill_now(),
            volumes,
            buckets: self.objects.spaces(),
            cells: Vec::new(),
            missing_cells: Vec::new(),
        }
    }

    /// Some free space is left in it, unless more than three quarters were to be used.
    fn fill_now(&self) -> Fill {
        let Pool { capacity_bytes, used_bytes, .. } = self.pool_now();
        let is_high = used_bytes > capacity_bytes / 4 * 3;
        let level = if is_high { FillLevel::High } else { FillLevel::Ok };
        let threshold_percent = is_high.then_some(75);
        let advice = is_high.then(|| "make room".to_owned());
        Fill { used_bytes, capacity_bytes, level, threshold_percent, advice }
    }

    fn status_now(&self) -> Status {
        let shard = |shard| ShardStatus {
            shard,
            cell: None,
            state: ShardState::Serving,
            trouble: None,
            undrained_bytes: 12 << 20,
            lane_used_bytes: 16 << 20,
            lane_size_bytes: 256 << 20,
        };
        Status {
            version: "0.0.0".to_owned(),
            state: ServiceState::Serving,
            pool_id: self.pool_now().id,
            uptime_ms: 90_000,
            volumes: self.lock().len() as u64,
            connections: 1,
            listeners: vec![ListenerStatus {
                protocol: "nbd".to_owned(),
                address: "127.0.0.1:10809".to_owned(),
            }],
            fill: self.fill_now(),
            journal: Some(JournalStatus {
                place: "drives".to_owned(),
                durability: "as on a drive".to_owned(),
            }),
            standing_by: Some(vec!["b.example, process 7".to_owned()]),
            nodes: Some(vec![
                node("a.example, process 5", true),
                NodeStatus {
                    connections_open: 3,
                    connections: 40,
                    received_bytes: 5 << 30,
                    sent_bytes: 7 << 20,
                    ..node("b.example, process 7", false)
                },
            ]),
            memory: MemoryStatus {
                budget_bytes: 512 << 20,
                used_bytes: 100 << 20,
                resident_bytes: Some(160 << 20),
            },
            shards: vec![shard(0), shard(1)],
            troubles: Vec::new(),
            cells: Vec::new(),
            missing_cells: Vec::new(),
        }
    }
}

/// A node that carries nothing.
fn node(place: &str, serves: bool) -> NodeStatus {
    NodeStatus {
        id: if serves { "0a".repeat(16) } else { "0b".repeat(16) },
        place: place.to_owned(),
        address: Some(if serves { "10.0.0.1:40001" } else { "10.0.0.2:40001" }.to_owned()),
        serves,
        connections_open: 0,
        connections: 0,
        received_bytes: 0,
        sent_bytes: 0,
    }
}

/// A volume that asks for nothing but a size.
fn plain(name: String, size_bytes: u64) -> CreateVolume {
    CreateVolume {
        name,
        size_bytes,
        block_size_bytes: None,
        dedup: None,
        compression: None,
        quota_bytes: None,
        reservation: None,
        exclusive: None,
        beside: None,
    }
}

fn not_found(name: &str) -> Error {
    refusal(ErrorKind::NotFound, format!("no volume `{name}`"))
}

fn refusal(kind: ErrorKind, message: String) -> Error {
    Error::Backend { kind, message, hint: None }
}

/// A client for each opener.
fn clients_of(volume: &Volume) -> VolumeClients {
    let client = |id| VolumeClient {
        id,
        address: format!("10.0.0.7:{}", 40_000 + id),
        export: volume.name.clone(),
        read_only: false,
        connected_unix_ms: CREATED_UNIX_MS,
        requests: 2,
    };
    VolumeClients { clients: (1..=volume.openers).map(client).collect() }
}

/// What a drive says of itself whose rated life is nearly used.
fn worn() -> DriveCondition {
    let worn = DriveWarning {
        kind: "worn".to_owned(),
        is_critical: false,
        message: "93 % of its rated life are used".to_owned(),
        advice: "replace the drive soon".to_owned(),
    };
    DriveCondition {
        known: true,
        device: Some("/dev/nvme0n1".to_owned()),
        write_cache: Some("write through".to_owned()),
        asked_unix_ms: Some(CREATED_UNIX_MS),
        model: Some("Model".to_owned()),
        temperature_celsius: Some(41),
        wear_percent: Some(93),
        spare_percent: Some(97),
        spare_threshold_percent: Some(10),
        media_errors: Some(0),
        written_bytes: Some(7 << 50),
        endurance_years: Some(0.3),
        warnings: vec![worn],
        ..DriveCondition::default()
    }
}

/// What a pool is put on when nobody says.
fn embedded_drive() -> Drive {
    let path = "varve-data/drive".to_owned();
    Drive { path, size_bytes: Some(65 << 30), ..Drive::default() }
}

fn ready<'a, T: Send + 'a>(result: Result<T>) -> AdminFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

impl AdminBackend for MemoryBackend {
    fn status(&self) -> AdminFuture<'_, Status> {
        ready(Ok(self.status_now()))
    }

    fn pool(&self) -> AdminFuture<'_, Pool> {
        ready(Ok(self.pool_now()))
    }

    fn drives(&self) -> AdminFuture<'_, DriveList> {
        ready(Ok(DriveList { drives: self.pool_now().drives, missing_cells: Vec::new() }))
    }

    fn health(&self) -> AdminFuture<'_, Health> {
        ready(Ok(self.health_now()))
    }

    fn locate_drive(&self, name: String, light: LocateDrive) -> AdminFuture<'_, DriveLight> {
        Box::pin(async move {
            let drive = self.drive(name).await?;
            Ok(DriveLight { device: drive.path, on: light.on, by: "the enclosure".to_owned() })
        })
    }

    fn add_drive(&self, _drive: AddDrive) -> AdminFuture<'_, DriveMoves> {
        self.of_drives(DriveMoves::default())
    }

    fn drain_drive(&self, drive: String) -> AdminFuture<'_, DriveMoves> {
        self.of_drive(&drive, DriveMoves::default())
    }

    fn keep_drive(&self, drive: String) -> AdminFuture<'_, DriveMoves> {
        self.of_drive(&drive, DriveMoves::default())
    }

    fn remove_drive(&self, drive: String, _is_failed: bool) -> AdminFuture<'_, DriveMoves> {
        self.of_drive(&drive, DriveMoves::default())
    }

    fn replace_drive(&self, old: String, _new: AddDrive) -> AdminFuture<'_, DriveMoves> {
        self.of_drive(&old, DriveMoves::default())
    }

    fn grow_drive(&self, drive: String, size: GrowDrive) -> AdminFuture<'_, DriveGrowth> {
        let number = drive.parse().unwrap_or_default();
        self.of_drive(
            &drive,
            DriveGrowth {
                drive: number,
                size_bytes: size.size_bytes.unwrap_or(100 << 30),
                size_before_bytes: 68 << 30,
                usable_bytes: 68 << 30,
                usable_before_bytes: 68 << 30,
            },
        )
    }

    fn change_drive(&self, drive: String, _change: ChangeDrive) -> AdminFuture<'_, DriveMoves> {
        self.of_drive(&drive, DriveMoves { zones: 3, unconverted: 3, ..DriveMoves::default() })
    }

    fn change_pool(&self, change: ChangePool) -> AdminFuture<'_, PoolChange> {
        let protect = match change.protect {
            Some(protect) if !change.cancel => protect,
            Some(_) | None => "mirror:2".to_owned(),
        };
        self.of_drives(PoolChange {
            protect,
            protect_before: "mirror:2".to_owned(),
            data_class: change.data_class.unwrap_or_else(|| "any".to_owned()),
            journal_class: change.journal_class.unwrap_or_else(|| "any".to_owned()),
            survives: 1,
            usable_bytes: 90 << 30,
            usable_before_bytes: 68 << 30,
            raw_bytes: 136 << 30,
            zones: 12,
            unconverted: 12,
            dry_run: change.dry_run,
        })
    }

    fn drive_moves(&self) -> AdminFuture<'_, DriveMoves> {
        self.of_drives(DriveMoves::default())
    }

    fn scrub(&self) -> AdminFuture<'_, ScrubStatus> {
        self.of_drives(ScrubStatus::default())
    }

    fn start_scrub(&self, what: StartScrub) -> AdminFuture<'_, ScrubStatus> {
        let (state, deep) = (ScrubState::Running, what.deep);
        self.of_drives(ScrubStatus { state, deep, ..ScrubStatus::default() })
    }

    fn stop_scrub(&self) -> AdminFuture<'_, ScrubStatus> {
        self.of_drives(ScrubStatus::default())
    }

    fn space(&self) -> AdminFuture<'_, Space> {
        let left = |slow: u32| slow.checked_sub(1);
        match self.slow_counts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) {
            Ok(_) => Box::pin(std::future::pending()),
            Err(_) => ready(Ok(self.space_now())),
        }
    }

    fn volume_space(&self, name: String) -> AdminFuture<'_, VolumeFamily> {
        ready(self.family_of(&name))
    }

    fn volumes(&self) -> AdminFuture<'_, Vec<Volume>> {
        ready(Ok(self.lock().values().cloned().collect()))
    }

    fn volume(&self, name: String) -> AdminFuture<'_, Volume> {
        ready(self.change(&name, |volume| volume.clone()))
    }

    fn create_volume(&self, spec: CreateVolume) -> AdminFuture<'_, Volume> {
        ready(self.create(&spec))
    }

    fn change_volume(&self, name: String, change: ChangeVolume) -> AdminFuture<'_, Volume> {
        let ChangeVolume {
            size_bytes,
            dedup,
            compression,
            quota_bytes,
            reservation,
            exclusive,
            forget_origin,
            expects,
            ..
        } = change;
        ready(self.change_moving(&name, expects.as_ref(), |volume| {
            volume.size_bytes = size_bytes.unwrap_or(volume.size_bytes);
            volume.dedup = dedup.unwrap_or(volume.dedup);
            volume.compression = compression.unwrap_or(volume.compression);
            volume.quota_bytes = quota_bytes.or(volume.quota_bytes).filter(|quota| *quota > 0);
            if let Some(reservation) = reservation {
                let reserved = (reservation == Reservation::Full).then_some(volume.size_bytes);
                (volume.reserved_bytes, volume.outstanding_bytes) = (reserved, reserved);
            }
            volume.exclusive = exclusive.unwrap_or(volume.exclusive);
            volume.origin = volume.origin.take().filter(|_| !forget_origin);
            volume.clone()
        }))
    }

    fn delete_volume(&self, name: String, how: DeleteVolume) -> AdminFuture<'_, ()> {
        ready(self.delete_as(&name, &how))
    }

    fn clients(&self, volume: String) -> AdminFuture<'_, VolumeClients> {
        ready(self.change(&volume, |found| clients_of(found)))
    }

    fn disconnect(
        &self,
        volume: String,
        which: DisconnectClients,
    ) -> AdminFuture<'_, DisconnectedClients> {
        let gone = self.change(&volume, |found| {
            let all = found.openers;
            let leaving = which.client.map_or(all, |id| u64::from((1..=all).contains(&id)));
            found.openers -= leaving;
            leaving
        });
        ready(gone.and_then(|clients| match (clients, which.client) {
            (0, Some(id)) => {
                Err(refusal(ErrorKind::NotFound, format!("volume `{volume}` has no client {id}")))
            }
            _ => Ok(DisconnectedClients { clients }),
        }))
    }

    fn create_snapshots(&self, spec: CreateSnapshots) -> AdminFuture<'_, Vec<Snapshot>> {
        ready(self.take_snapshots(&spec))
    }

    fn snapshots(
        &self,
        volume: Option<String>,
        after: Option<String>,
        limit: usize,
    ) -> AdminFuture<'_, Vec<Snapshot>> {
        ready(self.list_snapshots(volume.as_deref(), after.as_deref(), limit))
    }

    fn snapshot(&self, name: String) -> AdminFuture<'_, Snapshot> {
        ready(self.with_snapshot(&name, |snapshot| snapshot.clone()))
    }

    fn change_snapshot(&self, name: String, change: ChangeSnapshot) -> AdminFuture<'_, Snapshot> {
        ready(self.protect_now(&name, &change))
    }

    fn delete_snapshot(&self, name: String, expects: Option<VolumeMove>) -> AdminFuture<'_, ()> {
        ready(self.remove_snapshot(&name, expects.as_ref()))
    }

    fn roll_back(&self, volume: String, to: RollBack) -> AdminFuture<'_, Volume> {
        ready(self.roll_back_now(&volume, &to))
    }

    fn clone_volume(&self, spec: CloneVolume) -> AdminFuture<'_, Volume> {
        ready(self.clone_now(&spec))
    }

    fn extents(&self, name: String, wanted: ExtentsWanted) -> AdminFuture<'_, ExtentPage> {
        ready(self.extents_now(&name, &wanted))
    }

    fn begin_receive(&self, volume: String, spec: BeginReceive) -> AdminFuture<'_, Volume> {
        ready(self.begin_receive_now(volume, spec))
    }

    fn end_receive(&self, volume: String, spec: EndReceive) -> AdminFuture<'_, Snapshot> {
        ready(self.end_receive_now(&volume, spec))
    }

    fn move_volume(&self, name: String, step: MoveVolume) -> AdminFuture<'_, Volume> {
        ready(self.move_now(&name, step))
    }

    fn check(&self) -> AdminFuture<'_, CheckStatus> {
        ready(Ok(self.check_now().clone()))
    }

    fn start_check(&self) -> AdminFuture<'_, CheckStatus> {
        *self.check_now() = self.checked();
        ready(Ok(CheckStatus { state: CheckState::Running, ..CheckStatus::default() }))
    }

    fn stop_check(&self) -> AdminFuture<'_, CheckStatus> {
        ready(Ok(self.check_now().clone()))
    }

    fn objects(&self) -> Result<&dyn ObjectBackend> {
        if self.without_s3 { Err(Error::NoS3) } else { Ok(&self.objects) }
    }

    fn metrics(&self) -> AdminFuture<'_, Vec<Metric>> {
        let mut writes =
            Metric::new("varve_engine_writes_total", "Writes acknowledged.", MetricKind::Counter);
        for (shard, value) in [("0", 7), ("1", 9)] {
            writes.samples.push(Sample { labels: vec![("shard", shard.to_owned())], value });
        }
        ready(Ok(vec![writes]))
    }
}
