//! What travels in requests and answers. Fields are only ever added; clients ignore what they do not know.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use varve_types::{Compression, Dedup, MigrationRunId, PoolId, SnapshotIdentity};

use crate::v1::drives::Drive;
use crate::v1::{compression, dedup};

/// What the daemon is doing now.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Whether requests are served.
    pub state: ServiceState,
    /// Identity of the pool.
    pub pool_id: String,
    /// Since the daemon began to serve, in milliseconds.
    pub uptime_ms: u64,
    /// Volumes in the pool; while a shard does not serve, as they were last counted.
    pub volumes: u64,
    /// Client connections open now, over all listeners.
    pub connections: u64,
    /// Where clients connect.
    pub listeners: Vec<ListenerStatus>,
    /// Memory against its budget.
    pub memory: MemoryStatus,
    /// How full the pool is.
    pub fill: Fill,
    /// Where the journal is. Daemons before this field do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<JournalStatus>,
    /// Where daemons stand by for the pool; nothing where this one did not join its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing_by: Option<Vec<String>>,
    /// The daemons that take clients for the pool, in the order in which they joined; nothing where this one did not
    /// join them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeStatus>>,
    /// The pool's shards, by number.
    pub shards: Vec<ShardStatus>,
    /// What someone has to look after beside shards that do not serve, in words: S3 that cannot be served, drives that
    /// fail, operations that hang.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
    /// The pool's cells that answered, where it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<CellStatus>,
    /// Cells of the pool that did not answer in time: what they hold is missing here. Nothing where all did, or there
    /// is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_cells: Vec<u16>,
}

/// One of the cells of a pool that has several.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CellStatus {
    /// Its number.
    pub cell: u16,
    /// Where the daemon that serves it runs, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How full it is: it may be full while others are not.
    pub fill: Fill,
}

/// One of the daemons of a pool. It serves the pool, or carries its clients' connections to the one that does.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Its identity, drawn when it started.
    pub id: String,
    /// Where it runs, for people.
    pub place: String,
    /// Where it listens for other nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether it is the one that serves the pool.
    pub serves: bool,
    /// Connections that it carries now.
    pub connections_open: u64,
    /// Connections that it carries, or has carried to this daemon.
    pub connections: u64,
    /// Bytes of clients that it carried.
    pub received_bytes: u64,
    /// Bytes for clients that it carried.
    pub sent_bytes: u64,
}

/// Where acknowledged writes are until segments hold them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct JournalStatus {
    /// `drives`, `rados:POOL` or `local:PATH`.
    pub place: String,
    /// What a write that was acknowledged from there survives.
    pub durability: String,
}

/// How full a pool is: what live blocks and pages take of its capacity, against the configured thresholds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Fill {
    /// What live blocks and pages take, in bytes.
    pub used_bytes: u64,
    /// What they may take, in bytes.
    pub capacity_bytes: u64,
    /// Which thresholds that exceeds.
    pub level: FillLevel,
    /// The threshold that is exceeded, in percent of the capacity; absent while none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<u32>,
    /// What it means and what to do; absent while no threshold is exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Fill {
    /// What is used, in whole percent of the capacity.
    #[must_use]
    pub fn used_percent(&self) -> u128 {
        u128::from(self.used_bytes) * 100 / u128::from(self.capacity_bytes.max(1))
    }
}

/// How full a pool is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FillLevel {
    /// Below all thresholds.
    Ok,
    /// Time to plan for more space.
    Filling,
    /// Time to make room.
    High,
    /// Writes are about to be refused.
    NearFull,
    /// Writes may be refused at any time.
    Full,
}

/// Whether requests are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// Every shard serves.
    Serving,
    /// At least one shard does not serve, and opens again by itself, or there are other troubles.
    Degraded,
}

/// Where a front-end listens.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ListenerStatus {
    /// `nbd`, `s3` or `admin`, this API.
    pub protocol: String,
    /// `unix:PATH` or `IP:PORT`.
    pub address: String,
}

/// Memory against its budget, in bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct MemoryStatus {
    /// The configured bound on caches and buffers.
    pub budget_bytes: u64,
    /// What caches and buffers hold now.
    pub used_bytes: u64,
    /// Resident memory of the daemon's process, or processes, which holds more than caches and buffers. Daemons before
    /// this field do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
}

/// One shard of the pool.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ShardStatus {
    /// Number of the shard, in its cell.
    pub shard: u16,
    /// Its cell, where the pool has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u16>,
    /// Whether it serves.
    pub state: ShardState,
    /// Why it does not serve, or why it may refuse data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Bytes acknowledged from the journal that are not in segments yet.
    pub undrained_bytes: u64,
    /// Bytes of the journal lane that hold records still needed.
    pub lane_used_bytes: u64,
    /// Size of the journal lane in bytes.
    pub lane_size_bytes: u64,
}

/// Whether a shard serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShardState {
    /// Recovery is running, or waits for a medium; requests wait for it.
    Opening,
    /// Reads and writes are served.
    Serving,
    /// What it stored is damaged: requests for it fail at once, and other shards serve.
    Damaged,
}

/// The pool and its drives.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Identity, drawn when the pool was created.
    pub id: String,
    /// When the pool was created, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
    /// Shards of the pool.
    pub shards: u16,
    /// Size of a segment in bytes.
    pub segment_size_bytes: u64,
    /// Space for segments, in bytes.
    pub size_bytes: u64,
    /// Of it, what blocks and the pages that name them may take; the rest is what reclaim and checkpoints work with. In
    /// bytes.
    pub capacity_bytes: u64,
    /// What live blocks and pages take, in bytes.
    pub used_bytes: u64,
    /// What new ones may take, in bytes: as much as the fullest shard lets the pool take, and the file systems of the
    /// drives.
    pub free_bytes: u64,
    /// The pool's drives.
    pub drives: Vec<Drive>,
    /// How new data are kept over its drives: `none`, `mirror:N` or `ec:K+M`. Here and below: absent in a pool on
    /// RADOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protect: Option<String>,
    /// How many drives may be lost at once without loss of data, whichever they are; absent when data are lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survives: Option<u8>,
    /// Classes of the drives that new data lie on, as `ssd,nvme`; absent where these are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_class: Option<String>,
    /// Classes of the drives that copies of journals are to be on; absent where these are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_class: Option<String>,
    /// Whether enough of these drives are there for the copies of a journal: else they are on any. Absent where these
    /// are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_class_met: Option<bool>,
    /// Zones that are still kept in another way than `protect` says: they are being converted. Absent where
    /// there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconverted_zones: Option<u64>,
    /// What of the drives may hold segments, less what redundancy takes, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usable_bytes: Option<u64>,
    /// Space on all drives together, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_bytes: Option<u64>,
    /// Cells of the pool that did not answer in time: what they hold is missing here. Nothing where all did, or there
    /// is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_cells: Vec<u16>,
}

/// What is stored, by volume and in sum. On a pool that is written to, the amounts are of moments close to each other;
/// what was acknowledged and is not in segments yet may be missing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Space {
    /// Space for segments, in bytes.
    pub size_bytes: u64,
    /// Of it, what blocks and the pages that name them may take; the rest is what reclaim and checkpoints work with. In
    /// bytes.
    pub capacity_bytes: u64,
    /// What live blocks and pages take: the sum of `stored_bytes` and `metadata_bytes`.
    pub used_bytes: u64,
    /// What new ones may take, in bytes: as much as the fullest shard lets the pool take, and the file systems of the
    /// drives.
    pub free_bytes: u64,
    /// Blocks that hold data, over all volumes, in bytes.
    pub logical_bytes: u64,
    /// What is stored of volumes and snapshots, before compression: blocks that several of them hold, or one several
    /// times, count once. What nothing holds any more is part of it until a pass in the background has found that. As
    /// snapshots hold blocks that volumes do not any more, it may exceed `logical_bytes`.
    pub unique_bytes: u64,
    /// What this takes in segments: compressed where that paid, their entries in summaries included, in bytes.
    pub stored_bytes: u64,
    /// Of it, what volumes and snapshots hold.
    pub referenced_bytes: u64,
    /// Of it, what nothing holds any more: `stored_bytes` less `referenced_bytes`. It comes back by itself.
    pub waiting_bytes: u64,
    /// What the pages that name them and all else that is live take, in bytes.
    pub metadata_bytes: u64,
    /// Space that is reserved for volumes, whether they hold it or not, with what names their blocks, in bytes.
    pub reserved_bytes: u64,
    /// Of it, what they do not hold yet: it is part of `free_bytes`, and others may not have it.
    pub outstanding_bytes: u64,
    /// How full that is.
    pub fill: Fill,
    /// The volumes, in the order of their names.
    pub volumes: Vec<VolumeSpace>,
    /// The buckets, in the order of their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<BucketSpace>,
    /// The pool's cells that answered, where it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<CellStatus>,
    /// Cells of the pool that did not answer in time: what they hold is missing here. Nothing where all did, or there
    /// is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_cells: Vec<u16>,
}

/// What a bucket holds, its versions and uploads included.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BucketSpace {
    /// Name of the bucket.
    pub name: String,
    /// Blocks of its bodies that hold data, in bytes. Bodies of up to 256 bytes stand in their records, which are
    /// metadata.
    pub logical_bytes: u64,
    /// The chunks that hold these blocks, before compression, equal ones once; in bytes. A block that was stored
    /// already on another shard counts there, with whoever stored it.
    pub distinct_bytes: u64,
    /// What these blocks take in segments, each counted in full, whoever else holds it too.
    pub referenced_bytes: u64,
    /// What comes back in segments when the bucket goes, the pages that name its blocks included.
    pub freed_bytes: u64,
}

/// What a volume holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeSpace {
    /// Name, unique in its namespace.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Size that clients see, in bytes.
    pub size_bytes: u64,
    /// Its blocks that hold data, in bytes.
    pub logical_bytes: u64,
    /// What these blocks take in segments, each counted in full, whoever else holds it too.
    pub referenced_bytes: u64,
    /// Of its blocks what no snapshot and no other volume holds, before compression, equal ones once; in bytes.
    pub unique_bytes: u64,
    /// What comes back in segments when it goes and its snapshots stay, the pages that name its blocks included.
    pub freed_bytes: u64,
    /// How many snapshots it has.
    pub snapshots: u64,
    /// What comes back when all its snapshots go and it stays.
    pub snapshots_freed_bytes: u64,
    /// What comes back when it goes with all its snapshots.
    pub whole_freed_bytes: u64,
    /// Bytes of it that can always be written, whatever others write. Absent without a reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// Of these the ones for which space is kept free now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding_bytes: Option<u64>,
}

/// What a snapshot holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SnapshotSpace {
    /// `volume@snapshot`.
    pub name: String,
    /// Size that clients see, in bytes.
    pub size_bytes: u64,
    /// Its blocks that hold data, in bytes.
    pub logical_bytes: u64,
    /// What these blocks take in segments, each counted in full, whoever else holds it too.
    pub referenced_bytes: u64,
    /// Of its blocks what no other snapshot and no volume holds, before compression, equal ones once; in bytes.
    pub unique_bytes: u64,
    /// What comes back in segments when this snapshot alone goes, the pages that name its blocks included. Two
    /// neighbours may hold blocks that no others hold: these come back with the second of them only, so amounts of
    /// snapshots do not add up.
    pub freed_bytes: u64,
}

/// What a volume and each of its snapshots hold.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeFamily {
    /// The volume.
    pub volume: VolumeSpace,
    /// Its snapshots, in the order of their names.
    pub snapshots: Vec<SnapshotSpace>,
}

/// A thin-provisioned array of blocks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Number of the volume in its pool; never reused.
    pub id: u64,
    /// Name, unique in its namespace; also the name of its NBD export.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// The cell that it lies in, where the pool has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u16>,
    /// Size that clients see, in bytes.
    pub size_bytes: u64,
    /// Preferred block size, as advertised to clients, in bytes.
    pub block_size_bytes: u32,
    /// When it was created, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
    /// Clients that have it open now.
    pub openers: u64,
    /// Whether blocks written from now on are deduplicated: `"auto"` (where it pays), `true` or `false`.
    #[serde(with = "dedup::setting")]
    #[schema(value_type = dedup::DedupSetting)]
    pub dedup: Dedup,
    /// How blocks written from now on are compressed: `off`, `lz4` or `zstd:LEVEL`.
    #[serde(with = "compression::text")]
    #[schema(value_type = String)]
    pub compression: Compression,
    /// The most data that it may hold, in bytes of blocks that hold any; snapshots do not count. Absent without a
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Bytes of it that can always be written, whatever others write: all of them, or absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<u64>,
    /// Of these the ones for which space is kept free now; it holds the others already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outstanding_bytes: Option<u64>,
    /// Whether it is served to one NBD connection at a time.
    #[serde(default)]
    pub exclusive: bool,
    /// What it was cloned from, by the name of then. It depends on it no more, and it may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Identity of the snapshot that it has received a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiving: Option<String>,
    /// Where it is on its way between two pools. Absent when it does not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<VolumeMove>,
}

/// Where a volume or bucket is on its way between two pools.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeMove {
    /// How far it is.
    pub state: MoveState,
    /// Identity of the pool that it comes from or goes to.
    #[schema(value_type = String)]
    pub pool: PoolId,
    /// Where that pool's daemon was for the run; at most 512 bytes.
    pub address: String,
    /// The run that moves it, or did: 32 hexadecimal digits.
    #[schema(value_type = String)]
    pub run: MigrationRunId,
    /// What else is to be known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<MoveRemark>,
    /// Of a volume that left or arrived: identity of its last snapshot at its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub snapshot: Option<SnapshotIdentity>,
    /// Of a bucket that left or arrived: its number at its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bucket: Option<u64>,
}

impl VolumeMove {
    /// The other side, and the run, in words.
    #[must_use]
    pub fn other_side(&self) -> String {
        let Self { pool, address, run, remark, snapshot, bucket, .. } = self;
        let with_snapshot = snapshot.map(|identity| format!(", with snapshot {identity}"));
        let with_bucket = bucket.map(|number| format!(", with bucket {number}"));
        let remark = match remark {
            None => "",
            Some(MoveRemark::Parked) => ", which has ended",
            Some(MoveRemark::GivenUp) => ", given up",
            Some(MoveRemark::Kept) => ", kept",
        };
        let last = with_snapshot.or(with_bucket).unwrap_or_default();
        format!("pool {pool} at {address}, by run {run}{last}{remark}")
    }
}

/// What else is to be known of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MoveRemark {
    /// Of one that arrives: its run ended before it was done, and nobody acts for it until another run takes it over.
    Parked,
    /// Of one that left: the move was given up, and what is here is to be deleted.
    GivenUp,
    /// Of one that left: it is to be kept.
    Kept,
}

/// How far the move of a volume is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MoveState {
    /// It comes from elsewhere and is not whole yet: clients cannot open it.
    Arriving,
    /// It goes elsewhere: it can be read and not changed.
    Leaving,
    /// It is elsewhere: it can be neither read nor changed, and deleted.
    Left,
    /// It came from elsewhere, where it is still, out of use: it is used as any other, and not deleted.
    Arrived,
}

/// A step of a move: from `leaving` to absent, for example, or the other way round.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveVolume {
    /// Where the volume has to be; absent when it should not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<VolumeMove>,
    /// Where it is then; absent when it does not move any more. Absent from `arriving` on too: it is `arrived` then,
    /// with `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<VolumeMove>,
    /// Identity of its newest snapshot. From `arriving` on that which it received last, and which it has to equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Number that the volume has to have, for the step to `leaving`, with `last`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
}

/// How a volume is deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeleteVolume {
    /// Its snapshots go too.
    pub snapshots: bool,
    /// Where it has to be on its way between two pools; `None` when that does not matter.
    pub expects: Option<VolumeMove>,
}

/// How much of a volume can always be written, whatever others write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reservation {
    /// All of it.
    Full,
    /// Nothing of it.
    None,
}

/// Volumes in the order of their names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumePage {
    /// At most as many as were asked for.
    pub volumes: Vec<Volume>,
    /// Where the next page begins: pass it as `after`. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Cells of the pool that did not answer in time: what they hold is missing here. Nothing where all did, or there
    /// is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_cells: Vec<u16>,
}

/// A volume to be made.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateVolume {
    /// Name, unique in the namespace.
    pub name: String,
    /// Size in bytes.
    pub size_bytes: u64,
    /// Preferred block size, as advertised to clients, in bytes; 4096 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size_bytes: Option<u32>,
    /// Whether its blocks are deduplicated: `"auto"` (where it pays), `true` or `false`; `"auto"` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "dedup::wish")]
    #[schema(value_type = Option<dedup::DedupSetting>)]
    pub dedup: Option<Dedup>,
    /// How its blocks are compressed: `off`, `lz4`, `zstd` or `zstd:LEVEL`, 1 to 19; `lz4` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "compression::wish")]
    #[schema(value_type = Option<String>)]
    pub compression: Option<Compression>,
    /// The most data that it may hold, in bytes, 4096 at least; there is no bound when it is absent or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Whether space is reserved for it; it is not when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// Whether it is served to one NBD connection at a time; it is not when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    /// A volume in whose cell it is made; when absent, it is the cell with the fewest used bytes. What a pool of one
    /// cell has lies together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
}

/// What is to change of a volume, at least one thing; the rest stays as it is. The size comes first and stays when the
/// rest fails.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeVolume {
    /// New size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Allows a smaller size, which drops what lies beyond it.
    #[serde(default)]
    pub allow_shrink: bool,
    /// Whether blocks written from now on are deduplicated: `"auto"` (where it pays), `true` or `false`. What is stored
    /// stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "dedup::wish")]
    #[schema(value_type = Option<dedup::DedupSetting>)]
    pub dedup: Option<Dedup>,
    /// How blocks written from now on are compressed: `off`, `lz4`, `zstd` or `zstd:LEVEL`, 1 to 19. What is stored
    /// stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "compression::wish")]
    #[schema(value_type = Option<String>)]
    pub compression: Option<Compression>,
    /// The most data that it may hold, in bytes, 4096 at least; 0 takes the bound away. What it holds stays, also where
    /// that is more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Whether space is reserved for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<Reservation>,
    /// Whether it is served to one NBD connection at a time. Refused while it has several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<bool>,
    /// Forgets what the volume was cloned from.
    #[serde(default)]
    pub forget_origin: bool,
    /// Where the volume has to be on its way between two pools; absent when it should not move. Refused otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expects: Option<VolumeMove>,
}

impl ChangeVolume {
    /// Whether it asks for no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Self {
            size_bytes,
            allow_shrink: _,
            dedup,
            compression,
            quota_bytes,
            reservation,
            exclusive,
            forget_origin,
            expects: _,
        } = self;
        let keeps_reduction = dedup.is_none() && compression.is_none();
        let keeps_bounds = quota_bytes.is_none() && reservation.is_none();
        let keeps_rest = exclusive.is_none() && !forget_origin;
        size_bytes.is_none() && keeps_reduction && keeps_bounds && keeps_rest
    }
}

/// Why a request failed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Coarse cause, such as `not_found`; programs act on it.
    pub kind: String,
    /// What, which and where, for people.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
