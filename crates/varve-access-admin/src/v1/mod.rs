//! Version 1 of the API: its types, its endpoints and their description.

mod bucket_moves;
mod bucket_routes;
pub mod bulk;
mod checks;
mod client_routes;
mod clients;
mod compression;
mod conditions;
mod dedup;
mod drive_routes;
mod drives;
mod encoded;
mod moves;
mod object_endpoints;
mod object_routes;
mod objects;
mod openapi;
mod protection;
mod routes;
mod snapshot_routes;
mod snapshots;
mod types;

pub use bucket_moves::{
    AddedUsersAndKeys, ArrivingBucket, BucketChanges, BucketDeletion, BucketSettings, MoveBucket,
    PartRead, PartWanted, PartsRead, ReadParts, Receive, ReceivedBody, ReceivedChange,
    ReceivedVersion, ReplaceSettings, Stage, StagedPiece, StoredKey, StoredUser, StoredVersion,
    UsersAndKeys, VersionName, VersionPage, VersionsWanted,
};
pub use checks::{CheckReport, CheckState, CheckStatus};
pub use clients::{DisconnectClients, DisconnectedClients, VolumeClient, VolumeClients};
pub use conditions::{DriveCondition, DriveLight, DriveWarning, LocateDrive};
pub use drives::{
    Drive, DriveList, DriveNameFault, DriveState, Health, HealthReason, HealthState, find_drive,
};
pub use encoded::Base64;
pub use moves::{
    AddDrive, ChangeDrive, DriveFaultCount, DriveGrowth, DriveMoves, GrowDrive, ScrubState,
    ScrubStatus, StartScrub, ZoneMove,
};
pub use objects::{
    AccessKey, Bucket, BucketPage, BucketVersioning, ChangeBucket, ChangeUser, CreateBucket,
    CreateKey, CreateUser, NewKey, User, UserPage,
};
pub use openapi::{Endpoint, document, endpoints};
pub use protection::{ChangePool, PoolChange};
pub use routes::{LIVE_PATH, PAGE_DEFAULT, PAGE_MAX, body_bytes_max};
pub(crate) use routes::{is_open, router};
pub use snapshots::{
    BeginReceive, ChangeSnapshot, CloneVolume, CreateSnapshots, EndReceive, Extent, ExtentPage,
    ExtentsWanted, RollBack, Snapshot, SnapshotPage,
};
pub use types::{
    BucketSpace, CellStatus, ChangeVolume, CreateVolume, DeleteVolume, ErrorBody, Fill, FillLevel,
    JournalStatus, ListenerStatus, MemoryStatus, MoveRemark, MoveState, MoveVolume, NodeStatus,
    Pool, Reservation, ServiceState, ShardState, ShardStatus, SnapshotSpace, Space, Status, Volume,
    VolumeFamily, VolumeMove, VolumePage, VolumeSpace,
};
