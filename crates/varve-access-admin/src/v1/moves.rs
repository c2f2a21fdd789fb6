//! What travels in requests and answers about changes of drives, what is moved for them, and scrubs. Fields are only
//! ever added.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A drive that is to become part of the pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddDrive {
    /// Block device, file or directory; a directory is made where nothing is.
    pub path: String,
    /// How much of it holds segments, in bytes. Without it all of a block device or of a file that is there; of others
    /// as much as the smallest drive of the pool has, or as the one that it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Its class, `nvme`, `ssd` or `hdd`, where the system does not know it, or is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// What is to change of a drive.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeDrive {
    /// Its class, `nvme`, `ssd` or `hdd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

/// How large a drive is to be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrowDrive {
    /// How much of it is to hold segments, in bytes: a file, and that of a directory, are made longer for it. Without
    /// it all that the file or device has now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// What became of a drive that was to grow.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DriveGrowth {
    /// Its number.
    pub drive: u8,
    /// How much of it holds segments, in bytes.
    pub size_bytes: u64,
    /// How much did before; as much where it had all of its file or device already.
    pub size_before_bytes: u64,
    /// What the pool has room for, in bytes.
    pub usable_bytes: u64,
    /// What it had room for before.
    pub usable_before_bytes: u64,
}

/// What is moved between drives.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DriveMoves {
    /// Zones that move or wait for it, by number. Those that no mover has looked at yet are not there.
    pub moves: Vec<ZoneMove>,
    /// Zones of which something is not where it is to be.
    pub zones: u64,
    /// Of those, the ones that are kept in another way than new ones.
    #[serde(default)]
    pub unconverted: u64,
    /// Drives that go once nothing is on them, by number.
    #[serde(default)]
    pub removing: Vec<u8>,
    /// Bytes read for it since the daemon started.
    pub bytes_read: u64,
    /// Bytes written for it since then.
    pub bytes_written: u64,
    /// Bytes read back since then where they were written.
    #[serde(default)]
    pub bytes_verified: u64,
    /// Zones whose move came to its end since then.
    pub zones_moved: u64,
}

/// A zone that is moved.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct ZoneMove {
    /// Which.
    pub zone: u32,
    /// Shard that has it; absent where none has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// `rebuild`, `drain`, `rebalance`, `conversion`, `slow_drive` or `catch_up`.
    pub why: String,
    /// Bytes that are where they are to be.
    pub bytes_done: u64,
    /// Bytes that it holds.
    pub bytes_total: u64,
    /// Bytes a second since it began or went on.
    pub bytes_per_s: u64,
    /// When that was, in milliseconds since 1970 UTC.
    pub since_unix_ms: u64,
    /// For what it waits, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
}

/// What is to be scrubbed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartScrub {
    /// Drives by number, path or the beginning of their identity; none for all.
    #[serde(default)]
    pub drives: Vec<String>,
    /// Whether parity is computed for everything, and not for a sixteenth.
    #[serde(default)]
    pub deep: bool,
}

/// The scrub that runs, or the last one since the start.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ScrubStatus {
    /// How far it is.
    pub state: ScrubState,
    /// Drives that it is of, by number; none for all.
    pub drives: Vec<u8>,
    /// Whether it computes parity for everything.
    pub deep: bool,
    /// When it began, in milliseconds since 1970 UTC; 0 where there was none.
    pub since_unix_ms: u64,
    /// Segments that were looked at.
    pub segments: u64,
    /// Bytes that these take on drives.
    pub bytes: u64,
    /// Strips that were wrong.
    pub strips_bad: u64,
    /// What was wrong on each drive since the daemon started.
    #[serde(default)]
    pub faults: Vec<DriveFaultCount>,
}

/// What was wrong on a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DriveFaultCount {
    /// Its number.
    pub drive: u8,
    /// Strips, tables and roots that were wrong or could not be read.
    pub faults: u64,
}

/// How far a scrub is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScrubState {
    /// There was none since the start.
    #[default]
    Idle,
    /// It is asked for, or runs.
    Running,
    /// All is right.
    Clean,
    /// Something was wrong.
    Faults,
    /// Something could not be looked at, as it moved or its shard did not serve.
    Incomplete,
    /// It was ended early.
    Stopped,
}

impl ScrubState {
    /// The word for it, as in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Running => "running",
            Self::Clean => "clean",
            Self::Faults => "faults",
            Self::Incomplete => "incomplete",
            Self::Stopped => "stopped",
        }
    }
}
