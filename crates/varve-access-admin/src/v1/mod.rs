//! Version 1 of the API: its types, its endpoints and their description.

mod openapi;
mod routes;
mod types;

pub use openapi::{Endpoint, document, endpoints};
pub(crate) use routes::router;
pub use types::{
    CreateVolume, Drive, ErrorBody, ListenerStatus, MemoryStatus, Pool, ResizeVolume, ServiceState,
    ShardState, ShardStatus, Status, Volume, VolumePage,
};
