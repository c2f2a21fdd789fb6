//! Sends a volume or bucket: while clients change it, until there is little, and the last of it behind the fence.

use std::time::{Duration, Instant};

use varve_access_admin::v1::MoveState;
use varve_client::{Failure, Progress, Result};
use varve_types::ErrorKind;

use super::give_back::{TargetState, after_lost_fence, call_off, give_back};
use super::kind::{DaemonView, Item};
use super::mark;
use super::report::{MoveReport, ms};
use super::side::is_given_up;

/// So much is sent while clients are refused, as it was sent within this long the last time.
pub(super) const SHORT: Duration = Duration::from_secs(1);

/// Most rounds before clients are refused.
pub(super) const ROUNDS_MAX: u32 = 16;

/// Rounds in a row that take about as long as the one before, until clients are refused: more of them would not become
/// shorter.
const EQUAL_ROUNDS_MAX: u32 = 2;

/// How often one is tried to be fenced that becomes another, or of which snapshots are taken, meanwhile.
const FENCES_MAX: u32 = 3;

/// How what there is of one is sent: in this volumes and buckets differ.
pub(super) trait Sender {
    /// Makes the target's part, which another run left, fit for what this one sends.
    fn adopt(&self) -> Result<()>;

    /// Sends what there is while clients change it, until there is little.
    fn rounds(&mut self, moved: &mut MoveReport) -> Result<()>;

    /// Takes the source's to leaving, if it is what was sent in rounds, once (MIGRATE-5).
    fn fence(&self) -> Result<()>;

    /// Behind the fence: refuses, if there is more to be sent than clients are to wait for.
    fn check_part(&self, here: Option<&DaemonView>) -> Result<()>;

    /// Behind the fence: sends the rest, and everything that is not data.
    fn last_round(&mut self, moved: &mut MoveReport) -> Result<()>;

    /// The target's last step, once (MIGRATE-5).
    fn arrive(&self) -> Result<()>;
}

/// One that is being sent.
pub(super) struct SentItem<'a> {
    pub(super) item: Item<'a>,
    pub(super) watch: &'a Progress,
    pub(super) sender: Box<dyn Sender + 'a>,
    pub(super) moved: &'a mut MoveReport,
}

impl SentItem<'_> {
    /// Sends what there is to send until clients use the target's; `here` is what that has of it.
    pub(super) fn send_all(&mut self, here: Option<&DaemonView>) -> Result<()> {
        let item = self.item;
        if item.kind.goes_on_behind_fences() {
            self.adopt_target(here)?;
        } else {
            if self.take_back()? == TargetState::Arrived {
                return Ok(());
            }
            self.adopt_target(item.here()?.as_ref())?;
        }
        let mut fenced = self.fence()?;
        for _ in 1..FENCES_MAX {
            if let FenceState::Changed(_) = fenced {
                fenced = self.fence()?;
            }
        }
        let began = match fenced {
            FenceState::Since(began) => began,
            FenceState::Arrived => return Ok(()),
            FenceState::Changed(failure) => return Err(failure),
            FenceState::Unknown(failure) => return after_lost_fence(item, failure),
        };
        if let Err(failure) = self.behind_the_fence() {
            give_back(item, failure)?;
        }
        self.moved.refused_ms = Some(ms(began.elapsed()));
        Ok(())
    }

    /// Gives the source's back whose fence an earlier run left, for much may be to be sent.
    fn take_back(&self) -> Result<TargetState> {
        match self.item.there()?.and_then(|there| there.moves) {
            Some(fence) if fence.state == MoveState::Leaving => {
                call_off(self.item, Some(&fence), &self.item.run.parked())
            }
            _ => Ok(TargetState::Safe),
        }
    }

    /// Makes the target's part this run's, or removes one that was given up.
    fn adopt_target(&self, here: Option<&DaemonView>) -> Result<()> {
        let item = self.item;
        let Some(moves) = here.and_then(|here| here.moves.as_ref()) else { return Ok(()) };
        if !is_given_up(moves) {
            item.run.source.check_peer(item, moves)?;
        }
        let arriving = item.run.arriving();
        match moves.state {
            MoveState::Left if is_given_up(moves) => item.delete_here(moves),
            MoveState::Arriving if *moves == arriving => Ok(()),
            MoveState::Arriving => {
                item.step_here(Some(moves), Some(arriving))?;
                self.sender.adopt()
            }
            _ => Err(Failure::new(format!("the target has another {item}"))),
        }
    }

    /// Sends what there is while clients change it, and makes them be refused. A fence that another run left is taken
    /// over where there is little to send behind it, and taken back where that is not known.
    fn fence(&mut self) -> Result<FenceState> {
        let item = self.item;
        let fence = item.there()?.and_then(|there| there.moves);
        match &fence {
            None => self.sender.rounds(self.moved)?,
            // Another command was faster.
            Some(_) if !item.kind.goes_on_behind_fences() => {
                if self.take_back()? == TargetState::Arrived {
                    return Ok(FenceState::Arrived);
                }
                self.adopt_target(item.here()?.as_ref())?;
                let what = format!("another command moves {item}");
                return Ok(FenceState::Changed(Failure::new(what)));
            }
            Some(fence) => item.run.target.check_peer(item, fence)?, // This very one is compared at the daemon.
        }
        let began = Instant::now();
        self.watch.say(format!("{}: the last difference", item.name));
        let fenced = match &fence {
            None => self.sender.fence(),
            Some(_) => item.step_there(fence.as_ref(), Some(item.run.leaving())),
        };
        match fenced {
            Ok(()) => Ok(FenceState::Since(began)),
            Err(failure) if failure.is(ErrorKind::Conflict) => {
                let moves = item.there()?.and_then(|there| there.moves);
                let is_free = fence.is_none() && moves.is_none();
                if is_free { Ok(FenceState::Changed(failure)) } else { Err(failure) }
            }
            Err(failure) => Ok(FenceState::Unknown(failure)),
        }
    }

    /// What there is to do while clients are refused.
    fn behind_the_fence(&mut self) -> Result<()> {
        let item = self.item;
        if self.adopt_again()? == TargetState::Arrived {
            return Ok(());
        }
        self.sender.last_round(self.moved)?;
        let fence = item.there()?.and_then(|there| there.moves);
        if fence != Some(item.run.leaving()) {
            return Err(Failure::new(format!("another command took {item} over")));
        }
        self.sender.arrive() // MIGRATE-2: nothing is done between these two.
    }

    /// Looks at the target again, for what was seen before the fence may have changed: the one who had the fence before
    /// may have ended the move, or another command may have its part.
    fn adopt_again(&self) -> Result<TargetState> {
        let item = self.item;
        let here = item.here()?;
        if mark::of_same(item)?.is_some() {
            return Ok(TargetState::Arrived);
        }
        match here.as_ref().and_then(DaemonView::state) {
            Some(MoveState::Arriving) => self.adopt_target(here.as_ref())?,
            _ if here.is_some() => {
                return Err(Failure::new(format!("the target has another {item}")));
            }
            _ => {}
        }
        self.sender.check_part(here.as_ref())?;
        Ok(TargetState::Safe)
    }
}

/// Whether clients are refused.
enum FenceState {
    Since(Instant),
    /// They have been, and the target's is in use.
    Arrived,
    /// They are not: it is not what was sent of it any more.
    Changed(Failure),
    /// It is not known.
    Unknown(Failure),
}

/// What comes after a round.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Next {
    Round,
    /// The last difference will be short.
    Last,
    /// It will not, and no further round would change that.
    LastThoughLong,
}

/// How rounds become shorter.
pub(super) struct Pace {
    /// The last difference is short when the one before took so long.
    short: Duration,
    before: Option<Duration>,
    /// Rounds in a row that did not.
    equal_rounds: u32,
}

impl Pace {
    pub(super) fn of(short: Duration) -> Self {
        Self { short, before: None, equal_rounds: 0 }
    }

    /// What comes after a round that sent little, or not, and took so long.
    pub(super) fn after(&mut self, is_little: bool, elapsed: Duration) -> Next {
        let before = self.before.replace(elapsed);
        if is_little || (before.is_some() && elapsed <= self.short) {
            return Next::Last;
        }
        let is_equal = before.is_some_and(|before| elapsed > before / 4 * 3);
        self.equal_rounds = if is_equal { self.equal_rounds + 1 } else { 0 };
        if self.equal_rounds < EQUAL_ROUNDS_MAX { Next::Round } else { Next::LastThoughLong }
    }
}

/// What is said when no round would have been short.
pub(super) const WRITTEN_AS_FAST: &str =
    "it was written about as fast as it was sent, so writes were refused for a longer difference";

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rounds: &[(bool, u64)]) -> Vec<Next> {
        let mut pace = Pace::of(SHORT);
        rounds.iter().map(|(little, s)| pace.after(*little, Duration::from_secs(*s))).collect()
    }

    #[test]
    fn rounds_go_on_while_they_become_shorter() {
        use Next::{Last, LastThoughLong, Round};
        let much =
            |seconds: &[u64]| after(&seconds.iter().map(|s| (false, *s)).collect::<Vec<_>>());
        assert_eq!(after(&[(true, 100)]), [Last], "little is sent at once");
        assert_eq!(much(&[1, 1]), [Round, Last], "the first one tells of no writes");
        assert_eq!(
            after(&[(false, 100), (false, 50), (false, 12), (true, 2)]),
            [Round, Round, Round, Last]
        );
        assert_eq!(much(&[100, 90, 40, 39]), [Round, Round, Round, Round]);
        assert_eq!(much(&[100, 90, 99]), [Round, Round, LastThoughLong]);
    }
}
