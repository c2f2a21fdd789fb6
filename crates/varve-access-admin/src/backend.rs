//! What the API asks of the daemon behind it. Calls come from the control thread; the daemon passes them to its shards.

use std::future::Future;
use std::pin::Pin;

use varve_types::ErrorKind;

use crate::error::{Error, Result};
use crate::metrics::Metric;
use crate::objects::ObjectBackend;
use crate::v1::{
    AddDrive, BeginReceive, ChangeDrive, ChangePool, ChangeSnapshot, ChangeVolume, CheckStatus,
    CloneVolume, CreateSnapshots, CreateVolume, DeleteVolume, DisconnectClients,
    DisconnectedClients, Drive, DriveGrowth, DriveLight, DriveList, DriveMoves, DriveNameFault,
    EndReceive, ExtentPage, ExtentsWanted, GrowDrive, Health, LocateDrive, MoveVolume, Pool,
    PoolChange, RollBack, ScrubStatus, Snapshot, Space, StartScrub, Status, Volume, VolumeClients,
    VolumeFamily, VolumeMove, find_drive,
};

/// An answer that arrives later, possibly from another thread.
pub type AdminFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What to do where drives of a pool cannot be changed.
pub const NO_REDUNDANCY_HINT: &str = "`varve pool upgrade` lets a pool on drives have it; `varve pool migrate` moves what it holds to one that has";

/// The answer of a pool whose drives cannot be changed.
pub(crate) fn no_redundancy<'a, T: Send + 'a>() -> AdminFuture<'a, T> {
    let error = Error::Backend {
        kind: ErrorKind::Unsupported,
        message: "this pool has no redundancy over drives".to_owned(),
        hint: Some(NO_REDUNDANCY_HINT.to_owned()),
    };
    Box::pin(std::future::ready(Err(error)))
}

/// The daemon, as the admin API sees it. Changes are durable when their future resolves.
pub trait AdminBackend: Send + Sync + 'static {
    /// What the daemon is doing now.
    fn status(&self) -> AdminFuture<'_, Status>;

    /// The pool and its drives.
    fn pool(&self) -> AdminFuture<'_, Pool>;

    /// The pool's drives and their states.
    fn drives(&self) -> AdminFuture<'_, DriveList>;

    /// One of them, by its number, its path or the beginning of its identity. `NotFound`, and `Invalid` where several
    /// identities begin so.
    fn drive(&self, name: String) -> AdminFuture<'_, Drive> {
        Box::pin(async move {
            let list = self.drives().await?;
            find_drive(&list.drives, &name).cloned().map_err(|fault| Error::Backend {
                kind: match fault {
                    DriveNameFault::Unknown => ErrorKind::NotFound,
                    DriveNameFault::Several => ErrorKind::Invalid,
                },
                message: fault.message(&name),
                hint: Some(fault.advice().to_owned()),
            })
        })
    }

    /// Changes the light at the bay of a drive. `Unsupported` where it has none that this machine knows of.
    fn locate_drive(&self, name: String, light: LocateDrive) -> AdminFuture<'_, DriveLight>;

    /// Has a drive become part of the pool. `Exists` where a pool is on it, `NoSpace`, `Unsupported` where the pool
    /// has no redundancy over drives, as of those below; `Unavailable` while another drive is added.
    fn add_drive(&self, drive: AddDrive) -> AdminFuture<'_, DriveMoves> {
        let _ = drive;
        no_redundancy()
    }

    /// Has all of a drive moved elsewhere. It stays a drive of the pool. `NotFound`; `Conflict` where the others are
    /// too few.
    fn drain_drive(&self, drive: String) -> AdminFuture<'_, DriveMoves> {
        let _ = drive;
        no_redundancy()
    }

    /// Has a drive stay that leaves: a drain, removal or replacement is cancelled. `NotFound`; `Conflict` where it does
    /// not leave.
    fn keep_drive(&self, drive: String) -> AdminFuture<'_, DriveMoves> {
        let _ = drive;
        no_redundancy()
    }

    /// As [`Self::drain_drive`], and has it go from the pool then; of a failed one only if asked to. `NotFound`,
    /// `Conflict`.
    fn remove_drive(&self, drive: String, is_failed: bool) -> AdminFuture<'_, DriveMoves> {
        let _ = (drive, is_failed);
        no_redundancy()
    }

    /// Has a new drive take the place of another one, which goes then. `NotFound`, and as [`Self::add_drive`].
    fn replace_drive(&self, old: String, new: AddDrive) -> AdminFuture<'_, DriveMoves> {
        let _ = (old, new);
        no_redundancy()
    }

    /// Has the pool use what a drive has become larger by. `NotFound`; `Conflict` where it is not live, or is smaller
    /// than what is used; `Invalid` for less than it has, `NoSpace` for more than its device has.
    fn grow_drive(&self, drive: String, size: GrowDrive) -> AdminFuture<'_, DriveGrowth> {
        let _ = (drive, size);
        no_redundancy()
    }

    /// Says what a drive is; data and journals that are to be on drives of some classes follow. `NotFound`; `Invalid`
    /// for a class that there is not; `Conflict` where too few drives are left of a class that data lie on, `NoSpace`
    /// where those have no room.
    fn change_drive(&self, drive: String, change: ChangeDrive) -> AdminFuture<'_, DriveMoves> {
        let _ = (drive, change);
        no_redundancy()
    }

    /// Has the pool keep data in another way over its drives, and what is stored be converted, or says what would
    /// follow. `Invalid` for a way that there is not; `Conflict` where drives are too few, or nothing is converted that
    /// could be cancelled; `NoSpace` where what is stored would find no room.
    fn change_pool(&self, change: ChangePool) -> AdminFuture<'_, PoolChange> {
        let _ = change;
        no_redundancy()
    }

    /// What is moved between drives.
    fn drive_moves(&self) -> AdminFuture<'_, DriveMoves> {
        no_redundancy()
    }

    /// How far the scrub is, or how the last one ended.
    fn scrub(&self) -> AdminFuture<'_, ScrubStatus> {
        no_redundancy()
    }

    /// Begins a scrub; one that runs ends. `NotFound` for a drive that there is not.
    fn start_scrub(&self, what: StartScrub) -> AdminFuture<'_, ScrubStatus> {
        let _ = what;
        no_redundancy()
    }

    /// Ends the scrub that runs, if one does.
    fn stop_scrub(&self) -> AdminFuture<'_, ScrubStatus> {
        no_redundancy()
    }

    /// How safe what the pool holds is. Costs a look at the rows of all zones.
    fn health(&self) -> AdminFuture<'_, Health>;

    /// What is stored, by volume and in sum. Costs walks over the maps of all volumes and snapshots.
    fn space(&self) -> AdminFuture<'_, Space>;

    /// What a volume and each of its snapshots hold. `NotFound`; costs the same.
    fn volume_space(&self, name: String) -> AdminFuture<'_, VolumeFamily>;

    /// Every volume.
    fn volumes(&self) -> AdminFuture<'_, Vec<Volume>>;

    /// One volume. `NotFound` when no volume has the name.
    fn volume(&self, name: String) -> AdminFuture<'_, Volume>;

    /// Makes a volume. `Exists` when the name is taken, `Invalid` for a name or size that no volume may have.
    fn create_volume(&self, spec: CreateVolume) -> AdminFuture<'_, Volume>;

    /// Changes size, reduction, quota, reservation and exclusive access of a volume, also while clients have it open.
    /// `NotFound`, `Invalid`; `Conflict` when it is to be exclusive and has several connections.
    fn change_volume(&self, name: String, change: ChangeVolume) -> AdminFuture<'_, Volume>;

    /// Deletes a volume and what it holds, with its snapshots if asked to. `NotFound`; `Conflict` while a client has it
    /// open, and for its snapshots.
    fn delete_volume(&self, name: String, how: DeleteVolume) -> AdminFuture<'_, ()>;

    /// The connections that have a volume, or a snapshot of it, open. `NotFound`.
    fn clients(&self, volume: String) -> AdminFuture<'_, VolumeClients>;

    /// Ends connections to a volume or its snapshots: what is under way is answered. `NotFound`, also when it has no
    /// client of that number.
    fn disconnect(
        &self,
        volume: String,
        which: DisconnectClients,
    ) -> AdminFuture<'_, DisconnectedClients>;

    /// Takes snapshots at one instant, all or none. `NotFound`, `Exists`, `Invalid`.
    fn create_snapshots(&self, spec: CreateSnapshots) -> AdminFuture<'_, Vec<Snapshot>>;

    /// Up to `limit` snapshots behind `after`, of one volume or of all, in order. `NotFound` when there is no such
    /// volume.
    fn snapshots(
        &self,
        volume: Option<String>,
        after: Option<String>,
        limit: usize,
    ) -> AdminFuture<'_, Vec<Snapshot>>;

    /// One snapshot. `NotFound`.
    fn snapshot(&self, name: String) -> AdminFuture<'_, Snapshot>;

    /// Protects a snapshot, or no longer. `NotFound`.
    fn change_snapshot(&self, name: String, change: ChangeSnapshot) -> AdminFuture<'_, Snapshot>;

    /// Deletes a snapshot. `NotFound`; `Conflict` while it is protected or open.
    fn delete_snapshot(&self, name: String, expects: Option<VolumeMove>) -> AdminFuture<'_, ()>;

    /// Makes a volume hold what its snapshot holds. `NotFound`; `Conflict` while a client has it open.
    fn roll_back(&self, volume: String, to: RollBack) -> AdminFuture<'_, Volume>;

    /// Makes a volume of what a snapshot or volume holds. `NotFound`, `Exists`, `Invalid`.
    fn clone_volume(&self, spec: CloneVolume) -> AdminFuture<'_, Volume>;

    /// Parts of a volume or snapshot. `NotFound`, `Invalid`; `Conflict` when a snapshot has another identity than it
    /// has to, or the volume moves otherwise.
    fn extents(&self, name: String, wanted: ExtentsWanted) -> AdminFuture<'_, ExtentPage>;

    /// Prepares a volume to receive a snapshot. `Exists`, `NotFound`; `Conflict` when it is not what the changes count
    /// from.
    fn begin_receive(&self, volume: String, spec: BeginReceive) -> AdminFuture<'_, Volume>;

    /// Makes a snapshot of what was received. `NotFound`, `Exists`; `Conflict` when it does not receive that.
    fn end_receive(&self, volume: String, spec: EndReceive) -> AdminFuture<'_, Snapshot>;

    /// Takes a volume a step further on its way between two pools. `NotFound`, `Invalid`; `Conflict` when it is
    /// elsewhere on its way, or open while it arrives; `Unavailable` when writes to it do not end.
    fn move_volume(&self, name: String, step: MoveVolume) -> AdminFuture<'_, Volume>;

    /// The check that runs, or the last one.
    fn check(&self) -> AdminFuture<'_, CheckStatus>;

    /// Begins a check of the serving pool, unless one runs.
    fn start_check(&self) -> AdminFuture<'_, CheckStatus>;

    /// Ends the check that runs, if one does, as soon as it looks.
    fn stop_check(&self) -> AdminFuture<'_, CheckStatus>;

    /// The S3 gateway. `Unsupported` when S3 is not served.
    fn objects(&self) -> Result<&dyn ObjectBackend>;

    /// Counters and gauges of every layer below the API.
    fn metrics(&self) -> AdminFuture<'_, Vec<Metric>>;
}
