//! When the last scrub of everything began: a daemon that is restarted more often than scrubs are due would never begin
//! one.

use std::path::Path;

use serde::{Deserialize, Serialize};
use varve_client::Result;

use crate::remembered;

/// The file of the data directory that has it.
const FILE: &str = "scrub.json";

/// The last scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct LastScrub {
    pub(crate) since_unix_ms: u64,
}

impl LastScrub {
    /// The one that a data directory remembers. A file that is damaged is as good as none, and named in the log: what
    /// follows is one scrub more.
    pub(crate) fn of(data: &Path) -> Option<Self> {
        let found = remembered::load(&data.join(FILE), "remove it: a scrub is due then");
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, "nobody knows when the pool was scrubbed last");
            None
        })
    }

    /// Has it remembered.
    pub(crate) fn remember(&self, data: &Path) -> Result<()> {
        remembered::remember(&data.join(FILE), self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_knows_of_the_last_scrub() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(LastScrub::of(dir.path()), None);
        let last = LastScrub { since_unix_ms: 1_795_000_000_000 };
        last.remember(dir.path()).unwrap();
        assert_eq!(LastScrub::of(dir.path()), Some(last));
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert_eq!(LastScrub::of(dir.path()), None, "damaged");
    }
}
