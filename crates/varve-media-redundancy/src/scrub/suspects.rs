//! Looks at all strips of segments of which a read met something wrong: reads are answered from other strips, and who
//! asked does not know which one it was, nor whether it is still so.

use futures_util::future::select;
use varve_media::SegmentId;
use varve_media::planted::{Bug, planted};
use varve_reactor::Nanos;

use super::SegmentFinding;
use crate::change::Change;
use crate::format::RowState;
use crate::repair::{RepairThread, ScrubBoard};

/// Segments that are looked at before the tables tell of what was found.
const AT_ONCE: usize = 16;

/// How long a segment waits whose row moves, or for which the tables cannot be changed.
const AGAIN_NANOS: u64 = Nanos::seconds(1);

/// How long one told loss stands for what is found later, where nothing was walked since.
const LOSS_NANOS: u64 = Nanos::seconds(1);

impl RepairThread {
    /// Looks at suspects until nobody needs it any more (POOL-HEALTH-5).
    pub(crate) async fn examine(&self) {
        let suspects = self.media.segments.suspects();
        loop {
            let (noted, over) = (suspects.noted(), self.turns.ended());
            if self.is_over() {
                return;
            }
            let all = suspects.list();
            let is_still = |id: &SegmentId| !self.is_moving(*id);
            let some: Vec<_> = all.iter().copied().filter(is_still).take(AT_ONCE).collect();
            let mut known = Vec::new();
            for id in &some {
                let Some(is_wrong) = self.examine_segment(*id).await else { continue };
                self.owes_loss.set(self.owes_loss.get() || is_wrong);
                known.push(*id);
            }
            if self.owes_loss.get() {
                self.tell_loss().await;
            }
            if !self.owes_loss.get() {
                known.into_iter().for_each(|id| suspects.forget(id));
            }
            if all.is_empty() && !self.owes_loss.get() {
                select(noted, over).await;
            } else if some.is_empty() || self.owes_loss.get() {
                select(self.reactor.sleep(AGAIN_NANOS), over).await;
            }
        }
    }

    /// Whether strips of a segment are not where its row will have them, so that nothing can be said of them.
    fn is_moving(&self, id: SegmentId) -> bool {
        let view = self.media.tables.view();
        let row = view.zone_of(id.number).map(|at| view.row(at.zone));
        row.is_some_and(|row| matches!(row.state, RowState::Moving { .. }))
    }

    /// Whether strips of a segment are wrong that were not known to be; `None` when its row changed meanwhile.
    async fn examine_segment(&self, id: SegmentId) -> Option<bool> {
        let view = self.media.tables.view();
        let at = view.zone_of(id.number)?;
        let held = self.held(at.zone).unwrap_or_default();
        let held = held.iter().find(|held| held.id == id && held.is_put);
        let Some(held) = held.filter(|_| !self.unverified.borrow().is_damaged(id)) else {
            return Some(false); // What was read is not there any more, or is being written anew.
        };
        let finding = self.scrub_segment(&view, at.zone, held, false).await;
        let is_wrong = match finding {
            SegmentFinding::Wrong(_) => !planted(Bug::DamageUntold),
            SegmentFinding::Right
            | SegmentFinding::Gap
            | SegmentFinding::Gone
            | SegmentFinding::NotPut => false,
        };
        let is_same = *self.media.tables.view().row(at.zone) == *view.row(at.zone);
        (is_same || is_wrong).then_some(is_wrong)
    }

    /// Has the tables say, and any walk that is under way know, that something was found damaged.
    async fn tell_loss(&self) {
        self.control.with_scrub(ScrubBoard::spoil);
        let (view, now) = (self.media.tables.view(), self.reactor.now());
        let is_told = view.drives().walked_epoch != view.drives().loss_epoch;
        let is_recent = self.loss_at.get().is_some_and(|at| now.since(at) < LOSS_NANOS);
        if is_told && is_recent {
            self.owes_loss.set(false);
            return;
        }
        match self.media.tables.change(Change::Loss).await {
            Ok(_) => {
                self.loss_at.set(Some(self.reactor.now()));
                self.owes_loss.set(false);
            }
            Err(error) => tracing::warn!(%error, "that a strip is damaged cannot be stored"),
        }
    }
}
