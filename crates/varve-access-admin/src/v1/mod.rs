//! Version 1 of the API: its types, its endpoints and their description.

mod checks;
mod compression;
mod openapi;
mod routes;
mod snapshot_routes;
mod snapshots;
mod types;

pub use checks::{CheckReport, CheckState, CheckStatus};
pub use openapi::{Endpoint, document, endpoints};
pub(crate) use routes::router;
pub use snapshots::{
    BeginReceive, ChangeSnapshot, CloneVolume, CreateSnapshots, EndReceive, Extent, ExtentPage,
    RollBack, Snapshot, SnapshotPage,
};
pub use types::{
    ChangeVolume, CreateVolume, Drive, ErrorBody, Fill, FillLevel, ListenerStatus, MemoryStatus,
    Pool, ServiceState, ShardState, ShardStatus, SnapshotSpace, Space, Status, Volume,
    VolumeFamily, VolumePage, VolumeSpace,
};
