//! Gives a volume or bucket back to the source's clients, once the target's cannot become one that clients use.
//!
//! ```text
//!  source    leaving, by this run ─────────────────────────────────────────▶ in use        order matters
//!  target                           arriving, by any run ──▶ by nobody, or given up
//! ```
//!
//! GIVE-BACK-1. The source's fence is this run's before the target is looked at. A run lets the target's volume be used
//!     only after it saw the fence to be its own, so whoever might still do so left its part at the target by then,
//!     where it is seen.
//! GIVE-BACK-2. The target's part is taken from whoever has it, or is not there, or has arrived; what is not known
//!     changes nothing.
//! GIVE-BACK-3. One at the target without a mark of this source (MIGRATE-MARK-1) that has no snapshot in common with
//!     the source's is somebody else's.

use std::thread::sleep;
use std::time::Duration;

use varve_access_admin::v1::{MoveState, VolumeMove};
use varve_client::{Failure, Result};
use varve_types::ErrorKind;

use super::kind::Item;
use super::mark;
use super::side::is_given_up;

/// Looks at the target until it is left alone: each time another command was faster.
const LOOKS_MAX: u32 = 20;

/// Whether a target can let clients use what it has.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum TargetState {
    /// It cannot.
    Safe,
    /// It has: it is there.
    Arrived,
}

/// Sees to it that the target's part does not become one that clients use: what there is of it is taken to `end`
/// (GIVE-BACK-2).
fn disarm(item: Item<'_>, end: &VolumeMove) -> Result<TargetState> {
    let Item { run, kind, name } = item;
    for _ in 0..LOOKS_MAX {
        let Some(here) = item.here()? else { return Ok(TargetState::Safe) };
        match here.moves {
            Some(moves) if is_given_up(&moves) => return Ok(TargetState::Safe),
            Some(moves) if moves.state == MoveState::Arriving && run.source.is_peer_of(&moves) => {
                match item.step_here(Some(&moves), Some(end.clone())) {
                    Ok(()) => return Ok(TargetState::Safe),
                    Err(failure)
                        if failure.is(ErrorKind::Conflict) || failure.is(ErrorKind::NotFound) => {}
                    Err(failure) => return Err(failure),
                }
            }
            _ if mark::of_same(item)?.is_some() => return Ok(TargetState::Arrived),
            // The source may have been restored from before it left.
            Some(moves) if mark::is_from_source(run, &moves) => {
                return Err(Failure::new(format!(
                    "the target's {item} arrived from there with {}: was the source restored, or made anew? What is at the target may be newer",
                    item.words().not_same
                )));
            }
            _ if !kind.is_related(run, name)? => return Ok(TargetState::Safe), // GIVE-BACK-3
            _ => {
                return Err(Failure::new(format!(
                    "the target has a {item} {}, and did not arrive from there; delete it if nobody needs it",
                    item.words().related
                )));
            }
        }
        sleep(Duration::from_millis(50));
    }
    Err(Failure::new(format!("another command moves {item} at the target")))
}

/// What to do about one that refuses changes.
fn kept_fenced(item: Item<'_>, why: &Failure) -> String {
    format!(
        "{item} refuses {} at the source still, for it is not known whether the target's may be used ({}). When both daemons \
         answer, run the command again to go on, or with --cancel to give it up; should the target be gone for good, {}. Before that: ",
        item.words().refused,
        why.what(),
        item.kind.without_target(item.name)
    )
}

/// Gives it back after a failure behind the fence of this run; no error when the target's turns out to be in use.
pub(super) fn give_back(item: Item<'_>, failure: Failure) -> Result<()> {
    let Item { run, .. } = item;
    match disarm(item, &run.parked()) {
        Ok(TargetState::Arrived) => Ok(()),
        Ok(TargetState::Safe) => match item.step_there(Some(&run.leaving()), None) {
            Ok(()) => Err(failure),
            Err(second) => Err(failure.prefixed(&format!(
                "{item} refuses {} at the source still, for it could not be given back ({}); run the command again to go on, or \
                 with --cancel. Before that: ",
                item.words().refused,
                second.what()
            ))),
        },
        Err(second) => Err(failure.prefixed(&kept_fenced(item, &second))),
    }
}

/// What is left after a fence that was not answered: it is given back where the source has it.
pub(super) fn after_lost_fence(item: Item<'_>, failure: Failure) -> Result<()> {
    let refused = item.words().refused;
    let hint = format!(
        "`varve pool migrate --status` says whether it refuses {refused}; if so, run the command again to go on, or with --cancel"
    );
    match item.there() {
        Ok(Some(there)) if there.moves == Some(item.run.leaving()) => give_back(item, failure),
        Ok(_) => {
            let what = format!(
                "{item} takes {refused} at the source, unless what was not answered is carried out yet. Before that: "
            );
            Err(failure.prefixed(&what).hint(hint))
        }
        Err(second) => {
            let what = format!(
                "it is not known whether {item} refuses {refused} at the source ({}). Before that: ",
                second.what()
            );
            Err(failure.prefixed(&what).hint(hint))
        }
    }
}

/// Takes a move's fence away, whoever began it: the source's is one that clients use, and the target's part is at
/// `end`.
pub(super) fn call_off(
    item: Item<'_>,
    fence: Option<&VolumeMove>,
    end: &VolumeMove,
) -> Result<TargetState> {
    let run = item.run;
    if let Some(fence) = fence {
        run.target.check_peer(item, fence)?;
        item.step_there(Some(fence), Some(run.leaving()))?; // GIVE-BACK-1
    }
    let disarmed = match disarm(item, end) {
        Err(failure) if fence.is_some() => {
            let what = kept_fenced(item, &failure);
            return Err(failure.prefixed(&what));
        }
        disarmed => disarmed?,
    };
    if disarmed == TargetState::Safe && fence.is_some() {
        item.step_there(Some(&run.leaving()), None)?;
    }
    Ok(disarmed)
}
