//! What a check of references found, and how far it is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use varve_types::{BlockIndex, ChunkId, ErrorKind, ShardId, StreamId};

use crate::{Error, Result};

/// Findings that are told one by one; all are counted.
const FINDINGS_MAX: usize = 100;

/// How far a check is, and whether it is to end; shared by who checks and who watches.
#[derive(Debug, Default)]
pub struct CheckProgress {
    /// References followed.
    pub references: AtomicU64,
    /// Set to end the check early.
    pub stop: AtomicBool,
}

impl CheckProgress {
    /// Whether the check is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A name without an entry in the chunk table: what it named cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DanglingName {
    /// The stream whose map has it; `None` for the key tree.
    pub stream: Option<StreamId>,
    /// The block; `None` for a page.
    pub block: Option<BlockIndex>,
    /// The shard that should have it.
    pub home: ShardId,
    /// What is missing.
    pub chunk: ChunkId,
}

/// A tree that cannot be followed to its end.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// The stream whose map it is; `None` for the key tree.
    pub stream: Option<StreamId>,
    /// Why.
    pub error: Error,
}

/// Names of chunks of a shard that could not be looked up there (REFERENCES-4).
#[derive(Clone, Debug)]
pub struct UncheckedNames {
    /// The shard that should have them.
    pub home: ShardId,
    /// How many.
    pub names: u64,
    /// Why.
    pub error: Error,
}

/// What a shard's references are worth.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// Blocks and pages that were looked up.
    pub followed: u64,
    /// Names without an entry.
    pub dangling: u64,
    /// The first of them.
    pub found: Vec<DanglingName>,
    /// Trees that could not be followed to their end; the first of them.
    pub unreadable: Vec<Unreadable>,
    /// Homes that could not be asked, each once.
    pub unchecked: Vec<UncheckedNames>,
}

impl References {
    pub(super) fn found(&mut self, dangling: DanglingName) {
        self.dangling += 1;
        assert!((self.found.len() as u64) < self.dangling, "all are counted");
        if self.found.len() < FINDINGS_MAX {
            self.found.push(dangling);
        }
    }

    /// Whether a home did not answer before; its names count then (REFERENCES-4).
    pub(super) fn is_unchecked(&mut self, home: ShardId, names: usize) -> bool {
        let known = self.unchecked.iter_mut().find(|unchecked| unchecked.home == home);
        known.map(|unchecked| unchecked.names += names as u64).is_some()
    }

    /// Keeps damage as a finding; other errors end the check.
    pub(super) fn note(&mut self, stream: Option<StreamId>, followed: Result<()>) -> Result<()> {
        match followed {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                if self.unreadable.len() < FINDINGS_MAX {
                    self.unreadable.push(Unreadable { stream, error });
                }
                Ok(())
            }
            other => other,
        }
    }
}
