//! What a run gave: windows that were measured, and what is to be said of them.

use varve_tool_bench::{MachineUsage, Measurement};

use super::health::Health;
use super::sampler::Timeline;

/// What a run gave.
pub struct RunOutcome {
    /// Bytes of the target that were used.
    pub size_bytes: u64,
    pub(crate) repeats: Vec<Repeat>,
    pub(crate) settling: Settlement,
    /// Whether the system was well, where somebody knows.
    pub(crate) health: Option<Health>,
    /// Blocks or objects that were read back and found right.
    pub(crate) verified: Option<u64>,
    /// The first of the failures that were few enough to go on.
    pub(crate) complaint: Option<String>,
    /// What else is to be said of it.
    pub(crate) notes: Vec<(String, String)>,
    /// Whether somebody ended it early.
    pub(crate) is_interrupted: bool,
}

/// A window that was measured.
pub(crate) struct Repeat {
    /// What all jobs measured together.
    pub(crate) measured: Measurement,
    /// When the window began, in ms since 1970.
    pub(crate) began_unix_ms: u64,
    /// What the machine did in the window, and from moment to moment; nothing of a window that is too short to tell.
    pub(crate) usage: Option<MachineUsage>,
    pub(crate) timeline: Timeline,
}

/// Whether the rate had settled before the first window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settlement {
    NotAsked,
    After { ms: u64 },
    Never { ms: u64 },
}
