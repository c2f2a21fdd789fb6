//! What travels in requests and answers about checks of a serving pool. Fields are only ever added.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The check of the serving pool: the one that runs, or the last one since the start.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CheckStatus {
    /// How far it is.
    pub state: CheckState,
    /// Blocks and pages that were looked up so far.
    pub references: u64,
    /// What it found, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<CheckReport>,
    /// Why it could not be ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Cells of the pool that did not answer in time: what they found is missing here. Nothing where all did, or there
    /// is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_cells: Vec<u16>,
}

/// How far a check is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    /// There was none since the start.
    #[default]
    Idle,
    /// It runs.
    Running,
    /// Everything was looked at.
    Done,
    /// It was ended early.
    Stopped,
    /// It could not be ended: a shard failed or was reopened.
    Failed,
}

/// What a check of a serving pool found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct CheckReport {
    /// Volumes and snapshots whose maps were followed.
    pub datasets: u64,
    /// Blocks and pages that were looked up.
    pub references: u64,
    /// Names of what is not there: reads of these blocks fail.
    pub dangling: u64,
    /// Maps and key trees that could not be followed to their end.
    pub unreadable: u64,
    /// Chunks and pages that were given back, and are still there.
    pub leaked: u64,
    /// Chunks and pages that nothing named, as deletions and overwrites leave them; they were given back.
    pub unnamed: u64,
    /// Bytes of those.
    pub unnamed_bytes: u64,
    /// The first of what is wrong, in words.
    pub findings: Vec<String>,
    /// What could not be looked up, for the shard that has it did not serve, and why, in words.
    #[serde(default)]
    pub not_checked: Vec<String>,
}

impl CheckReport {
    /// How much is wrong.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.dangling + self.unreadable + self.leaked
    }
}
