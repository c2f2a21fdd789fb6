//! Brings requests to the shard that owns their bytes: on this thread directly, on another by message.

mod census;
mod cut;
mod error;
mod extents;
mod gate;
mod host;
mod job;
mod peers;
mod placement;
mod reservation;
mod route;
mod runs;
mod zone_moves;
mod zones;

pub use cut::{CutSource, HeldCut};
pub use error::{Error, Result};
pub use extents::Extents;
pub use gate::HeldNames;
pub use host::{HostConfig, ShardHost};
pub use job::{Job, JobHandle, JobSender, PoolLinks, serve_jobs};
pub use placement::{Placement, StreamPlacement};
pub use reservation::{ReservationChange, StreamReservation};
pub use route::{Dispatch, MarkProof, Route, WeakDispatch};
pub use varve_engine::{
    BLOCK_BYTES, BlockMapping, BlockStatus, CheckProgress, DanglingName, DiffRun, FamilyUsage,
    MarkReport, MarkWish, OpenPool, ReadPart, References, ShardStats, SpaceUsage, StreamUsage,
    UncheckedNames, Unreadable,
};
pub use zones::PoolRoot;
