//! Check of a pool that serves: every reference followed, and one mark pass whose frees are proved.
//!
//! DATASET-CHECK-1. What nothing names is no fault: deletions and overwrites leave it, and a mark pass gives it back.
//!     What a pass freed and is still there is a leak.

use std::collections::BTreeMap;
use std::sync::Arc;

use varve_dispatch::{CheckProgress, MarkProof, UncheckedNames};
use varve_types::{ErrorKind, StreamId};

use crate::catalog::{UnreadableRecord, names_of_streams};
use crate::{Datasets, Result};

/// Times a mark pass is begun: the one that runs by itself may void it.
const TRIES: usize = 5;

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OnlineReport {
    /// Volumes and snapshots whose maps were followed.
    pub datasets: u64,
    /// Blocks and pages that were looked up.
    pub references: u64,
    /// Names of what is not there: reads of these blocks fail.
    pub dangling: u64,
    /// Trees that could not be followed to their end.
    pub unreadable: u64,
    /// Records of volumes, snapshots and buckets that cannot be read.
    pub unreadable_records: u64,
    /// The first of both, in words.
    pub findings: Vec<String>,
    /// Chunks and pages that nothing named, and that the pass gave back (DATASET-CHECK-1).
    pub unnamed: u64,
    /// Stored bytes of those.
    pub unnamed_bytes: u64,
    /// Of those, what is still there (DATASET-CHECK-1).
    pub leaked: u64,
    /// What could not be looked up, for the shard that has it does not serve, and why, in words.
    pub not_checked: Vec<String>,
    /// Whether it was ended before everything was looked at.
    pub is_stopped: bool,
}

impl OnlineReport {
    /// Whether something is wrong.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.dangling + self.unreadable + self.unreadable_records + self.leaked > 0
    }
}

impl Datasets {
    /// Checks the pool while it serves. Costs a walk over all maps with a look-up for each block, and a mark pass. Ends
    /// early when `progress` says so.
    ///
    /// # Errors
    /// `Unavailable` when a shard does not serve, or was reopened meanwhile.
    pub async fn check_online(&self, progress: Arc<CheckProgress>) -> Result<OnlineReport> {
        let (names, records) = names_of_streams(&self.dispatch).await?;
        let streams = names.keys().copied().collect();
        let mut report = OnlineReport {
            datasets: names.len() as u64,
            unreadable_records: records.len() as u64,
            ..OnlineReport::default()
        };
        report.findings.extend(records.iter().map(|record| {
            let UnreadableRecord { name, error } = record;
            format!("record `{name}` cannot be read: {error}; `varve volume delete` removes it by this name")
        }));
        for found in self.dispatch.check_references(streams, &progress).await? {
            report.references += found.followed;
            report.dangling += found.dangling;
            report.unreadable += found.unreadable.len() as u64;
            for dangling in found.found {
                let whose = whose(&names, dangling.stream);
                let (block, chunk, home) = (dangling.block, dangling.chunk, dangling.home);
                let namer =
                    block.map_or_else(|| "a page".to_owned(), |block| format!("block {block}"));
                report.findings.push(format!(
                    "{whose}: {namer} names {chunk} of shard {home}, which is not there"
                ));
            }
            for unreadable in found.unreadable {
                let whose = whose(&names, unreadable.stream);
                report.findings.push(format!("{whose} cannot be followed: {}", unreadable.error));
            }
            for UncheckedNames { home, names, error } in found.unchecked {
                let what = format!("{names} blocks that name chunks of shard {home}: {error}");
                if error.kind() == ErrorKind::Corrupt {
                    report.unreadable += 1;
                    report.findings.push(what);
                } else {
                    report.not_checked.push(what);
                }
            }
        }
        report.is_stopped = progress.is_stopped();
        // Who cannot read a map does not know what it names, and a mark pass needs all shards.
        let is_whole = report.unreadable == 0 && report.not_checked.is_empty();
        if !report.is_stopped && is_whole {
            let summary = self.proved_mark().await?;
            report.unnamed = summary.freed;
            report.unnamed_bytes = summary.freed_bytes;
            report.leaked = summary.leaked;
        }
        Ok(report)
    }

    async fn proved_mark(&self) -> Result<crate::MarkSummary> {
        let mut tries = 1;
        loop {
            match self.mark_proving(MarkProof::Gone).await {
                Err(error) if tries < TRIES && error.kind() == ErrorKind::Conflict => {
                    tracing::debug!(%error, "the check's mark pass begins anew");
                    tries += 1;
                }
                outcome => return outcome,
            }
        }
    }
}

fn whose(names: &BTreeMap<StreamId, String>, stream: Option<StreamId>) -> String {
    match stream {
        Some(stream) => names.get(&stream).cloned().unwrap_or_else(|| format!("stream {stream}")),
        None => "the key tree".to_owned(),
    }
}
