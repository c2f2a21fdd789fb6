//! Writes that wait for the room that a mark pass may make, and how much the shard wants one (MARK-10).

use futures_util::future::{Either, select};

use crate::{Result, Shard};

/// How long a write waits for the room that a mark pass may make, in ns.
const MARK_PATIENCE_NS: u64 = 60_000_000_000;

/// How much a shard wants a mark pass.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MarkWish {
    /// There is nothing to free that it knows of.
    None,
    /// There may be something: a dropped stream, a large trim, shared blocks that were overwritten, a pass that was
    /// begun and not ended.
    Wanted,
    /// Writes wait for the room.
    Urgent,
}

impl Shard {
    /// How much the shard wants a mark pass.
    #[must_use]
    pub fn mark_wish(&self) -> MarkWish {
        if self.mark.awaiting.get() > 0 {
            MarkWish::Urgent
        } else if self.mark.wanted.get() || self.mark.pass.borrow().is_some() {
            MarkWish::Wanted
        } else {
            MarkWish::None
        }
    }

    /// Lets writes go on, to be refused, that wait for the room of a mark pass: none will end soon.
    pub fn release_mark_waiters(&self) {
        self.mark.given_up.set(self.mark.given_up.get() + 1);
        self.mark.has_ended.notify_all();
    }

    /// Waits while a mark pass may make what is wanted fit (MARK-10); whether it did. Nobody may run passes: it does
    /// not wait for ever.
    pub(crate) async fn marked_room(&self, fits: impl Fn() -> bool) -> Result<bool> {
        let may_help = self.mark_wish() != MarkWish::None
            || self.reduce.dedup.borrow().kept_bytes() > 0
            || self.zone_moves.others_may_mark.get();
        if !may_help {
            return Ok(false);
        }
        let _awaiting = self.mark.await_pass();
        assert!(self.mark.ended.get() <= self.mark.passes.get(), "passes end after they begin");
        let begun_later = self.mark.passes.get() + 1;
        let given_up = self.mark.given_up.get();
        let mut patience = Box::pin(self.reactor.sleep(MARK_PATIENCE_NS));
        while self.mark.ended.get() < begun_later {
            let ended = Box::pin(self.mark.has_ended.notified());
            if let Either::Right(_) = select(ended, patience.as_mut()).await {
                break;
            }
            self.check_open()?;
            if fits() {
                return Ok(true);
            }
            if self.mark.given_up.get() != given_up {
                break;
            }
        }
        Ok(false)
    }
}
