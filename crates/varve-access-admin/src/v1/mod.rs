//! Version 1 of the API: its types, its endpoints and their description.

mod checks;
mod compression;
mod object_endpoints;
mod object_routes;
mod objects;
mod openapi;
mod routes;
mod snapshot_routes;
mod snapshots;
mod types;

pub use checks::{CheckReport, CheckState, CheckStatus};
pub use objects::{
    AccessKey, Bucket, BucketPage, BucketVersioning, ChangeBucket, ChangeUser, CreateBucket,
    CreateKey, CreateUser, NewKey, User, UserPage,
};
pub use openapi::{Endpoint, document, endpoints};
pub(crate) use routes::router;
pub use routes::{PAGE_DEFAULT, PAGE_MAX};
pub use snapshots::{
    BeginReceive, ChangeSnapshot, CloneVolume, CreateSnapshots, EndReceive, Extent, ExtentPage,
    ExtentsWanted, RollBack, Snapshot, SnapshotPage,
};
pub use types::{
    CellStatus, ChangeVolume, CreateVolume, DeleteVolume, Drive, ErrorBody, Fill, FillLevel,
    JournalStatus, ListenerStatus, MemoryStatus, MoveState, MoveVolume, NodeStatus, Pool,
    Reservation, ServiceState, ShardState, ShardStatus, SnapshotSpace, Space, Status, Volume,
    VolumeFamily, VolumeMove, VolumePage, VolumeSpace,
};
