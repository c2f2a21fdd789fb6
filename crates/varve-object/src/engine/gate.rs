//! Lets changes of a bucket through, or not: by where it is on its way between two pools, and what is under way in it.
//!
//! ```text
//!  change ──begin──▶ counted ──▶ job of a shelf ──▶ watched, counted off ──▶ answer
//!  step   ──close──▶ nothing is let through ──▶ none is counted ──▶ record ──▶ set, open
//! ```
//!
//! OBJECT-GATE-1. What was let through is counted until its job has ended, whoever waits for it (OBJECT-ENGINE-3).
//! OBJECT-GATE-2. What is watched is told between the job's end and the answer.
//! OBJECT-GATE-3. Where the bucket is, is set by steps alone, which are taken one at a time, and only after the record
//!     says so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{Either, select};
use tokio::sync::Notify;
use varve_dataset::Move;

use crate::moving::Changer;
use crate::{Error, Patience, Result, Watch};

/// See the module.
pub(super) struct ChangeBarrier {
    /// Guards what is let through, for moments.
    now: Mutex<Now>,
    /// The last change that was let through has ended.
    ended: Notify,
    /// One step at a time (OBJECT-GATE-3), and no deletion beside it. Held while the record changes.
    pub(super) steps: Arc<tokio::sync::Mutex<()>>,
}

struct Now {
    moves: Option<Move>,
    is_closed: bool,
    changes: u64,
    watch: Option<Watch>,
}

/// What a change is of.
pub(super) enum ChangeScope {
    /// Versions of a key.
    Key(String),
    /// The bucket's record.
    Record,
    /// Nothing that is watched.
    Nothing,
}

/// A change that was let through; its job has it (OBJECT-GATE-1).
pub(super) struct AdmittedChange {
    gate: Arc<ChangeBarrier>,
    of: ChangeScope,
}

/// Keeps the gate closed.
pub(super) struct BarrierGuard<'a> {
    gate: &'a ChangeBarrier,
}

impl Drop for AdmittedChange {
    fn drop(&mut self) {
        let watch = self.gate.now().watch.clone();
        if let Some(watch) = watch {
            match &self.of {
                ChangeScope::Key(key) => watch(Some(key)), // OBJECT-GATE-2
                ChangeScope::Record => watch(None),
                ChangeScope::Nothing => {}
            }
        }
        let mut now = self.gate.now();
        now.changes -= 1;
        if now.changes == 0 {
            self.gate.ended.notify_waiters();
        }
    }
}

impl Drop for BarrierGuard<'_> {
    fn drop(&mut self) {
        self.gate.now().is_closed = false;
    }
}

impl ChangeBarrier {
    pub(super) fn new(moves: Option<Move>) -> Arc<Self> {
        let now = Now { moves, is_closed: false, changes: 0, watch: None };
        Arc::new(Self { now: Mutex::new(now), ended: Notify::new(), steps: Arc::default() })
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a change through, if the bucket's move allows it.
    pub(super) fn begin(
        self: &Arc<Self>,
        name: &str,
        changer: Changer<'_>,
        of: ChangeScope,
    ) -> Result<AdmittedChange> {
        let mut now = self.now();
        changer.check(name, now.moves.as_ref())?;
        if now.is_closed {
            return Err(Error::Unavailable {
                what: format!("bucket `{name}`, which begins to move,"),
            });
        }
        now.changes += 1;
        Ok(AdmittedChange { gate: Arc::clone(self), of })
    }

    pub(super) fn watch(&self, watch: Option<Watch>) {
        self.now().watch = watch;
    }

    pub(super) fn moves(&self) -> Option<Move> {
        self.now().moves.clone()
    }

    /// OBJECT-GATE-3
    pub(super) fn set(&self, moves: Option<Move>) {
        self.now().moves = moves;
    }

    /// Lets nothing through any more, and waits until what was has ended, or patience has. For who takes a step
    /// (OBJECT-GATE-3).
    pub(super) async fn close(
        &self,
        name: &str,
        patience: &mut Patience,
    ) -> Result<BarrierGuard<'_>> {
        self.now().is_closed = true;
        let closed = BarrierGuard { gate: self };
        loop {
            let ended = self.ended.notified();
            let mut ended = std::pin::pin!(ended);
            ended.as_mut().enable(); // Before it looks, so that no end is missed.
            if self.now().changes == 0 {
                return Ok(closed);
            }
            if let Either::Right(_) = select(ended, &mut *patience).await {
                return Err(Error::StillChanging { name: name.to_owned() });
            }
        }
    }
}
