//! Moves volumes from the pool of one daemon to that of another while clients use them, for `varve pool migrate`.
//!
//! ```text
//!  source    ──snapshot──▶ differences, until there is little ──▶ leaving ──▶ last snapshot ──▶            ──▶ left ──▶ deleted
//!  target    arriving ──▶ the same snapshots ─────────────────────────────▶ the last one, compared ──▶ arrived ─────────▶ in use
//! ```
//!
//! G1. What there is to do is read from the two daemons and nothing else: whoever runs the command again goes on, whatever died.
//! G2. A volume is open to clients in one pool at a time. The source gives up its own (leaving, then left) before the target's is there, and
//!     takes it back only once the target's cannot get there. A run sees that the source's fence is its own behind everything else that it
//!     does before the target's last step, and does nothing in between.
//! G3. Every step between states, and whatever else changes a part at the target or what is behind the fence, is a comparison at the daemon
//!     that names who moves the volume, so two commands do not work against each other: one is refused.
//! G4. Nothing arrives that was not read back and compared.
//! G5. What was not answered may be carried out later. So no step is sent twice, and a state counts only when a daemon says it.

mod copy;
mod give_back;
mod mark;
mod report;
mod sending;
mod side;
mod volume;

use varve_access_admin::ListenAddress;

pub(crate) use self::report::Outcome;
use self::side::{Run, Side};
use crate::client::Client;
use crate::failure::{Failure, Result};
use crate::watch::Watch;

/// What to move, and how.
pub(crate) struct MigratePlan {
    pub(crate) source: Client,
    pub(crate) target: Client,
    /// Names; all volumes when there is none.
    pub(crate) volumes: Vec<String>,
    /// What was moved stays at the source, out of use.
    pub(crate) keep_source: bool,
    pub(crate) source_nbd: Option<ListenAddress>,
    pub(crate) target_nbd: Option<ListenAddress>,
}

impl MigratePlan {
    fn run(&self) -> Result<Run> {
        let source = Side::open(&self.source, self.source_nbd.as_ref())?;
        let target = Side::open(&self.target, self.target_nbd.as_ref())?;
        if source.pool == target.pool {
            return Err(Failure::misuse(format!("both daemons serve pool {}", source.pool))
                .hint("name the daemon of another pool with --to"));
        }
        if source.nbd == target.nbd {
            return Err(Failure::misuse(format!("both daemons say NBD at {}", source.nbd))
                .hint("a relative path is that of a daemon: name both with --nbd and --to-nbd"));
        }
        Ok(Run::new(source, target))
    }

    fn names(&self, run: &Run) -> Result<Vec<String>> {
        if self.volumes.is_empty() { volume::names(run) } else { Ok(self.volumes.clone()) }
    }
}

/// Moves; what came of it, in order.
pub(crate) fn migrate(plan: &MigratePlan) -> Result<Outcome> {
    let run = plan.run()?;
    let names = plan.names(&run)?;
    let watch = Watch::start();
    let mut outcome = Outcome::default();
    for name in &names {
        let moved = volume::migrate(&run, name, plan.keep_source, &watch);
        match moved {
            Ok(moved) => outcome.volumes.push(moved),
            Err(failure) => {
                watch.end();
                return Err(failure.with_done("moved", &outcome));
            }
        }
    }
    watch.end();
    Ok(outcome)
}

/// What would be moved, and what stands against it.
pub(crate) fn plan(plan: &MigratePlan) -> Result<Outcome> {
    let run = plan.run()?;
    let volumes = plan.names(&run)?;
    let volumes = volumes.iter().map(|name| volume::planned(&run, name));
    Ok(Outcome { volumes: volumes.collect::<Result<_>>()? })
}

/// What is under way, or was left by a move that did not end.
pub(crate) fn status(plan: &MigratePlan) -> Result<Outcome> {
    let run = plan.run()?;
    Ok(Outcome { volumes: volume::under_way(&run)? })
}

/// Gives up moves: the source's volumes are used again, and the target's parts go.
pub(crate) fn cancel(plan: &MigratePlan) -> Result<Outcome> {
    let run = plan.run()?;
    let names = match plan.volumes.is_empty() {
        true => volume::under_way(&run)?.into_iter().map(|moved| moved.name).collect(),
        false => plan.volumes.clone(),
    };
    // One that is not to be cancelled keeps nobody else's fenced.
    let (mut outcome, mut first) = (Outcome::default(), None);
    for name in &names {
        match volume::cancel(&run, name) {
            Ok(moved) => outcome.volumes.push(moved),
            Err(failure) => first = first.or(Some(failure)),
        }
    }
    match first {
        Some(failure) => Err(failure.with_done("given up", &outcome)),
        None => Ok(outcome),
    }
}
