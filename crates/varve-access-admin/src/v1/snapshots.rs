//! What travels in requests and answers about snapshots, clones and what changed. Fields are only ever added.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::types::VolumeMove;

/// What a volume held at one moment. It takes space only for what was overwritten since.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Snapshot {
    /// `volume@snapshot`; also the name of its NBD export, which is read only.
    pub name: String,
    /// Name of the volume.
    pub volume: String,
    /// Number of the snapshot in its pool; never reused.
    pub id: u64,
    /// 32 hexadecimal digits, the same in every pool that has received it.
    pub identity: String,
    /// Size that clients see, in bytes.
    pub size_bytes: u64,
    /// Preferred block size, as advertised to clients, in bytes.
    pub block_size_bytes: u32,
    /// When it was taken, or received, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
    /// Whether it cannot be deleted.
    pub protected: bool,
}

/// Snapshots, in the order of namespace, volume and name, by bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotPage {
    /// At most as many as were asked for.
    pub snapshots: Vec<Snapshot>,
    /// Where the next page begins: pass it as `after`. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Cells of the pool that did not answer in time: what they hold is missing here. Nothing where all did, or there
    /// is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_cells: Vec<u16>,
}

/// Snapshots to be taken at one instant: all or none. In a pool of several cells, the volumes are of one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshots {
    /// 1 to 1024 names, `volume@snapshot` each, of as many volumes.
    pub names: Vec<String>,
    /// Where the volume has to be on its way between two pools; absent when it should not move. Refused otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<VolumeMove>,
}

/// What is to change of a snapshot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSnapshot {
    /// Whether it cannot be deleted from then on.
    pub protected: bool,
    /// Where the volume has to be on its way between two pools; absent when it should not move. Refused otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<VolumeMove>,
}

/// Where a volume goes back to. What was written since is lost unless another snapshot has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    /// Name of a snapshot of the volume, without the volume's.
    pub snapshot: String,
    /// Where the volume has to be on its way between two pools; absent when it should not move. Refused otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<VolumeMove>,
}

/// A volume to be made of what another holds. It depends on nothing: its source may be deleted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloneVolume {
    /// `volume@snapshot`, or a volume, of which what it holds now is taken.
    pub source: String,
    /// Name of the new volume.
    pub name: String,
}

/// A snapshot that a volume is to receive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginReceive {
    /// Identity of the snapshot, 32 hexadecimal digits.
    pub identity: String,
    /// Identity of the snapshot from which the changes count; absent when all of it is sent, which makes the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Size of the snapshot in bytes.
    pub size_bytes: u64,
    /// Preferred block size, as advertised to clients, in bytes.
    pub block_size_bytes: u32,
    /// Where the volume has to be on its way between two pools; absent when it should not move. One that is made is
    /// made there: with `arriving` its export for who sends it is `arriving:RUN:NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<VolumeMove>,
}

/// All of a snapshot was received.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndReceive {
    /// Its identity, 32 hexadecimal digits.
    pub identity: String,
    /// The name that it gets, without the volume's.
    pub snapshot: String,
    /// Where the volume has to be on its way between two pools; absent when it should not move. Refused otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<VolumeMove>,
}

/// Which parts are told of a volume or snapshot, and how many.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ExtentsWanted {
    /// Identity that the snapshot has to have.
    pub identity: Option<String>,
    /// Name alone of a snapshot of the same volume; then those are told that may differ from it.
    pub since: Option<String>,
    /// Identity that this one has to have.
    pub since_identity: Option<String>,
    /// Where the volume has to be on its way between two pools; `None` when it should be in use here.
    pub expects: Option<VolumeMove>,
    /// First byte.
    pub offset: u64,
    /// Most parts.
    pub limit: usize,
}

/// A part of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Parts of a volume or snapshot that hold data, or that may differ from an earlier snapshot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExtentPage {
    /// Size of the volume or snapshot, in bytes.
    pub size_bytes: u64,
    /// In order; there may be none, and yet a next page.
    pub extents: Vec<Extent>,
    /// Where the next page begins: pass it as `offset`. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}
