//! How a thread makes drives more evenly full, when there is nothing else to do: it has the keeper begin to move one of
//! its rows, which is then worked on as any other, after all others.

use varve_reactor::Nanos;
use varve_types::ErrorKind;

use super::RepairThread;
use crate::change::Change;
use crate::format::{MoveReason, RowState};
use crate::rebalance::StripMove;

/// How long a thread that has found nothing to move, or no room for it, does not look again: it costs a look at all
/// rows.
const LOOK_NANOS: u64 = Nanos::seconds(10);

/// The same where others were first.
const AGAIN_NANOS: u64 = Nanos::millis(100);

impl RepairThread {
    /// Begins to move a row from a fuller drive to an emptier one; returns whether one moves.
    pub(crate) async fn balance_some(&self) -> bool {
        let now = self.reactor.now();
        let is_wanted = !self.control.is_cancelled(MoveReason::Rebalance)
            && self.works.borrow().is_only_rebalanced();
        if !is_wanted || now < self.balance_at.get() {
            return false;
        }
        // A walk leaves out what moves, and health waits for it.
        let view = self.media.tables.view();
        let is_walked = view.drives().walked_epoch == view.drives().loss_epoch;
        if !is_walked || !self.control.with_scrub(|board| board.is_idle()) {
            return false;
        }
        if self.works.borrow().moving().any(|zone| self.held(zone).is_some()) {
            return false; // One at a time, and it waits for something.
        }
        let step = StripMove::next(&view, |zone| self.held(zone).is_some());
        let Some(StripMove { zone, from, to }) = step else {
            self.balance_at.set(now + LOOK_NANOS);
            return false;
        };
        let (why, avoid) = (MoveReason::Rebalance, vec![from]);
        let change = Change::Move { zone, why, class: None, avoid, prefer: Some(to) };
        match self.media.tables.change(change).await {
            Ok(view) => {
                if let RowState::Moving { to, .. } = &view.row(zone).state {
                    // Nothing but puts can be there: its places are new.
                    self.begin_fill(zone, to, true);
                }
                true
            }
            Err(error) => {
                let is_conflict = error.kind() == ErrorKind::Conflict;
                if !is_conflict && error.kind() != ErrorKind::NoSpace {
                    tracing::warn!(zone = zone.0, %error, "drives cannot be made more even now");
                }
                let pause = if is_conflict { AGAIN_NANOS } else { LOOK_NANOS };
                self.balance_at.set(self.reactor.now() + pause);
                false
            }
        }
    }
}
