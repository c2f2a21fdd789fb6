//! Settings of pools over several drives of this machine.

use varve_media_redundancy::{HEDGE_PERCENT, HistoryId, MediumKind, Protection};

/// How a pool keeps data over its drives, and how long it waits for them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedundancySettings {
    /// How a new pool keeps data; `None` for what suits the number of its drives.
    pub protect: Option<Protection>,
    /// For how long a drive may not answer before it has failed, in seconds.
    pub(crate) drive_patience_s: u32,
    /// For how long one copy of a journal may not answer before another takes its place, in ms.
    pub(crate) journal_patience_ms: u32,
    /// For how long a start waits for drives that are missing, in seconds.
    pub(crate) missing_wait_s: u32,
    /// Percent of what drives do that repair gets while clients use them.
    pub(crate) repair_percent: u32,
    /// Whether strips are moved so that drives are evenly full.
    pub(crate) rebalances: bool,
    /// Percent of reads that may be made twice, as the first one is late.
    pub(crate) hedge_percent: u32,
    /// Days between two scrubs that begin by themselves.
    pub(crate) scrub_days: u32,
    /// How often drives are asked for their condition, in seconds; 0 for never.
    pub(crate) condition_s: u32,
    /// Whether a drive leaves that warns of its end.
    pub(crate) leaves_on_warning: bool,
    /// Whether to go on from the drives that are there although others may know of something newer. Of one start, so
    /// only a flag.
    pub is_degraded: bool,
    /// Whether to serve what is there without writing to any drive; only a flag, too.
    pub is_read_only: bool,
    /// Which of two histories of the drives counts; only a flag, too.
    pub history: Option<HistoryId>,
    /// What the drives of a new pool are, where somebody says it; only a flag, too.
    pub drive_class: Option<MediumKind>,
}

impl Default for RedundancySettings {
    fn default() -> Self {
        Self {
            protect: None,
            drive_patience_s: 10,
            journal_patience_ms: 300,
            missing_wait_s: 30,
            repair_percent: 30,
            rebalances: true,
            hedge_percent: HEDGE_PERCENT.into(),
            scrub_days: 14,
            condition_s: 600,
            leaves_on_warning: false,
            is_degraded: false,
            is_read_only: false,
            history: None,
            drive_class: None,
        }
    }
}
