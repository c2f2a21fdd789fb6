//! Datasets: names and their semantics over streams. Volumes, their snapshots, and the streams of buckets so far.

#[cfg(test)]
mod across_shards;
mod archive;
mod bucket;
mod catalog;
mod check;
mod clone;
mod connections;
mod datasets;
mod error;
mod extents;
mod figures;
#[cfg(test)]
mod format_examples;
mod in_flight;
mod intent;
mod mark;
mod moving;
mod name;
mod open;
mod quota;
mod receive;
mod record;
mod reduction;
mod registered;
mod reservation;
#[cfg(test)]
mod rig;
mod settled;
mod snapshot_record;
mod snapshots;
mod space;
#[cfg(test)]
mod unreadable_records;
mod volume;
mod volume_move;
#[cfg(test)]
mod who_gives_up;
mod zones;

pub use archive::{ArchiveBase, ArchiveChain, ArchiveHeader, ArchiveRecord};
pub use bucket::{
    BucketOwner, NamelessOwner, bucket_owners, copy_bucket_owner, create_bucket_owner,
    is_bucket_content, nameless_owner, remove_bucket_owner,
};
pub use catalog::{CatalogueEntry, CatalogueItem, NAME_PREFIXES};
pub use check::OnlineReport;
pub use connections::AdmittedConnection;
pub use datasets::{Datasets, SharedDatasets};
pub use error::{Error, Result};
pub use extents::{ExtentPage, ExtentSpec};
pub use figures::DatasetFigures;
pub use intent::is_intent_head;
pub use mark::MarkSummary;
pub use moving::{FencedView, is_step};
pub use name::volume_of;
pub use receive::ReceiveSpec;
pub use record::VolumeInfo;
pub use settled::SettleReport;
pub use snapshot_record::SnapshotInfo;
pub use space::{BucketSpace, HeldSpace, SnapshotSpace, StoredSpace, VolumeSpace};
pub use varve_dispatch::{
    BlockMapping, BlockStatus, CheckProgress, DiffRun, ReadPart, StreamReservation,
};
pub use varve_types::SnapshotIdentity;
pub use volume::{Volume, VolumeSpec};
pub use volume_move::{MOVE_ADDRESS_BYTES_MAX, Move, MoveLast, MoveRemark, MoveState};
