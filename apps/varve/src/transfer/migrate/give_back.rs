//! Gives a volume back to the source's clients, once the target's cannot become one that clients use.
//!
//! ```text
//!  source    leaving, by this run ─────────────────────────────────────────▶ in use        order matters
//!  target                           arriving, by any run ──▶ by nobody, or given up
//! ```
//!
//! B1. The source's fence is this run's before the target is looked at. A run lets the target's volume be used only after it saw the fence
//!     to be its own, so whoever might still do so left its part at the target by then, where it is seen.
//! B2. The target's part is taken from whoever has it, or is not there, or has arrived; what is not known changes nothing.
//! B3. A volume at the target without a mark of this source (K1) that has no snapshot in common with the source's is somebody else's.

use std::thread::sleep;
use std::time::Duration;

use varve_access_admin::v1::{MoveState, VolumeMove};
use varve_types::ErrorKind;

use super::mark;
use super::sending::has_common;
use super::side::{Run, is_given_up};
use crate::failure::{Failure, Result};

/// Looks at the target until it is left alone: each time another command was faster.
const LOOKS_MAX: u32 = 20;

/// Whether a target can let clients use what it has of a volume.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Disarmed {
    /// It cannot.
    Safe,
    /// It has: the volume is there.
    Arrived,
}

/// Sees to it that the target's part of a volume does not become one that clients use: what there is of it is taken to `end`.
pub(super) fn disarm(run: &Run, name: &str, end: &VolumeMove) -> Result<Disarmed> {
    for _ in 0..LOOKS_MAX {
        let Some(here) = run.target.volume(name)? else { return Ok(Disarmed::Safe) };
        match here.moves {
            Some(moves) if is_given_up(&moves) => return Ok(Disarmed::Safe),
            Some(moves) if moves.state == MoveState::Arriving && run.source.is_peer_of(&moves) => {
                match run.target.step(name, Some(&moves), Some(end.clone())) {
                    Ok(()) => return Ok(Disarmed::Safe),
                    Err(failure)
                        if failure.is(ErrorKind::Conflict) || failure.is(ErrorKind::NotFound) => {}
                    Err(failure) => return Err(failure),
                }
            }
            _ if mark::of_same(run, name)?.is_some() => return Ok(Disarmed::Arrived),
            // The source may have been restored from before it left.
            Some(moves) if mark::is_from_source(run, &moves) => {
                return Err(Failure::new(format!(
                    "the target's volume {name} arrived from there with a snapshot that the source's does not have: was the source restored, or made anew? What is at the target may be newer"
                )));
            }
            _ if !has_common(run, name)? => return Ok(Disarmed::Safe), // B3
            _ => {
                return Err(Failure::new(format!(
                    "the target has a volume {name} that has snapshots of the source's, and did not arrive from there; delete it if nobody needs it"
                )));
            }
        }
        sleep(Duration::from_millis(50));
    }
    Err(Failure::new(format!("another command moves volume {name} at the target")))
}

/// What to do about a volume that refuses writes.
fn kept_fenced(name: &str, why: &Failure) -> String {
    format!(
        "volume {name} refuses writes at the source still, for it is not known whether the target's may be used ({}). When both daemons \
         answer, run the command again to go on, or with --cancel to give it up; should the target be gone for good, `varve volume clone \
         {name} NAME` at the source makes a volume that takes writes. Before that: ",
        why.what()
    )
}

/// Gives the volume back after a failure behind the fence of this run; no error when the target's turns out to be in use.
pub(super) fn give_back(run: &Run, name: &str, failure: Failure) -> Result<()> {
    match disarm(run, name, &run.parked()) {
        Ok(Disarmed::Arrived) => Ok(()),
        Ok(Disarmed::Safe) => match run.source.step(name, Some(&run.leaving()), None) {
            Ok(()) => Err(failure),
            Err(second) => Err(failure.prefixed(&format!(
                "volume {name} refuses writes at the source still, for it could not be given back ({}); run the command again to go on, or \
                 with --cancel. Before that: ",
                second.what()
            ))),
        },
        Err(second) => Err(failure.prefixed(&kept_fenced(name, &second))),
    }
}

/// What is left after a fence that was not answered: the volume is given back where the source has it.
pub(super) fn after_lost_fence(run: &Run, name: &str, failure: Failure) -> Result<()> {
    let hint = "`varve pool migrate --status` says whether it refuses writes; if so, run the command again to go on, or with --cancel";
    match run.source.volume(name) {
        Ok(Some(volume)) if volume.moves == Some(run.leaving()) => give_back(run, name, failure),
        Ok(_) => {
            let what = format!(
                "volume {name} takes writes at the source, unless what was not answered is carried out yet. Before that: "
            );
            Err(failure.prefixed(&what).hint(hint))
        }
        Err(second) => {
            let what = format!(
                "it is not known whether volume {name} refuses writes at the source ({}). Before that: ",
                second.what()
            );
            Err(failure.prefixed(&what).hint(hint))
        }
    }
}

/// Gives a move up, whoever began it, and makes the volume one that the source's clients use; the target's part is left to be deleted.
pub(super) fn call_off(run: &Run, name: &str, fence: Option<&VolumeMove>) -> Result<Disarmed> {
    if let Some(fence) = fence {
        run.target.check_peer(name, fence)?;
        run.source.step(name, Some(fence), Some(run.leaving()))?; // B1
    }
    let disarmed = match disarm(run, name, &run.given_up()) {
        Err(failure) if fence.is_some() => {
            let what = kept_fenced(name, &failure);
            return Err(failure.prefixed(&what));
        }
        disarmed => disarmed?,
    };
    if disarmed == Disarmed::Safe && fence.is_some() {
        run.source.step(name, Some(&run.leaving()), None)?;
    }
    Ok(disarmed)
}
