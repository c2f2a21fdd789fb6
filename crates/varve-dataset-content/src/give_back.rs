//! Gives references back to other shards: a task for each of these, so that a shard that does not answer
//! delays nothing else.

use std::rc::{Rc, Weak};

use futures_util::future::join_all;
use varve_engine::planted::{Bug, planted};
use varve_types::ShardId;

use crate::content::{ContentPlace, Reference};
use crate::plan::TransactionPlan;
use crate::shard::ContentShard;
use crate::sweep::{FAILED_PAUSE_NS, GiveBack};
use crate::{Error, Result, keys};

/// References that are given back to one shard at a time.
const AT_ONCE: usize = 16;

/// Gives back what there is for a shard, and ends.
async fn run(content: Weak<ContentShard>, home: ShardId, give_back: GiveBack) {
    while let Some(content) = content.upgrade() {
        let error = match content.give_some(home, &give_back).await {
            Ok(true) => continue,
            Ok(false) => return,
            Err(error) => error,
        };
        if content.shard.has_failed() {
            return; // Another opening goes on (CONTENT-5).
        }
        if matches!(error, Error::Gone { .. }) {
            // It is being cleared; if not, the next opening finds the orphans.
            content.giving.borrow_mut().remove(&home);
            return;
        }
        tracing::warn!(stream = content.stream.get(), %home, %error, "could not give back what copies shared");
        let reactor = content.reactor.clone();
        drop(content);
        reactor.sleep(FAILED_PAUSE_NS).await;
    }
}

impl ContentShard {
    /// Gives back, some time, a reference to what is on another shard; an orphan names it.
    pub(crate) fn give_away(self: &Rc<Self>, reference: Reference, give_back: &GiveBack) {
        self.orphans.borrow_mut().remove(&ContentPlace::Reference(reference));
        let home = reference.home;
        let mut giving = self.giving.borrow_mut();
        if !giving.contains_key(&home) {
            self.reactor.spawn(run(Rc::downgrade(self), home, Rc::clone(give_back)));
        }
        giving.entry(home).or_default().insert(reference);
    }

    /// Gives some back; false when there are none, and nobody is at it any more.
    async fn give_some(&self, home: ShardId, give_back: &GiveBack) -> Result<bool> {
        let at_once = AT_ONCE.min(self.shard.transaction_changes_max() - 1); // Beside the account.
        let some: Vec<Reference> = {
            let mut giving = self.giving.borrow_mut();
            match giving.get(&home).filter(|left| !left.is_empty()) {
                Some(left) => left.iter().take(at_once).copied().collect(),
                None => {
                    giving.remove(&home);
                    return Ok(false);
                }
            }
        };
        let given = some.iter().map(|reference| self.give_one(*reference, give_back));
        let given = join_all(given).await;
        let (mut plan, mut gone, mut failed) = (TransactionPlan::default(), Vec::new(), None);
        for (reference, given) in some.into_iter().zip(given) {
            match given {
                Ok(()) => {
                    plan.delete(keys::orphan(self.stream, ContentPlace::Reference(reference)));
                    gone.push(reference);
                }
                Err(error) => failed = Some(error),
            }
        }
        if !gone.is_empty() {
            // Nobody waits for it: what is undone is done again.
            drop(self.commit(plan).await?);
            if let Some(left) = self.giving.borrow_mut().get_mut(&home) {
                left.retain(|reference| !gone.contains(reference));
            }
        }
        failed.map_or(Ok(true), Err)
    }

    /// Gives one back, once the orphan that names it is durable (CONTENT-REFERENCE-2). Without an orphan there is no
    /// record either, and nothing was added.
    async fn give_one(&self, reference: Reference, give_back: &GiveBack) -> Result<()> {
        let orphan = keys::orphan(self.stream, ContentPlace::Reference(reference));
        let is_orphan =
            planted(Bug::GivenBackEarly) || self.shard.key_get(&orphan).await?.is_some();
        if is_orphan { give_back(reference).await } else { Ok(()) }
    }
}
