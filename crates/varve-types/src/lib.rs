//! Words every crate shares: ids, amounts, limits and error kinds. No logic, no I/O.

mod amount;
mod error;
mod id;
mod identity;
pub mod limits;
mod reduction;
mod unix_time;

pub use amount::{BlockIndex, ByteCount, ByteOffset, ByteRange, parse_size};
pub use error::ErrorKind;
pub use id::{
    CellId, ChunkId, CutNumber, Generation, PoolId, SegmentNumber, ShardId, StreamId, WriteSeq,
};
pub use identity::{MigrationRunId, SnapshotIdentity};
pub use reduction::{Compression, Dedup, Reduction, UnknownCompression, UnknownDedup};
pub use unix_time::UnixMillis;
