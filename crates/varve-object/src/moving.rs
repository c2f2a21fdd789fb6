//! What a bucket's move allows: one place for the store and its twin.

use varve_dataset::{Move, MoveState, is_step};

use crate::{Bucket, Error, MoveStep, Result};

/// Who changes a bucket.
#[derive(Clone, Copy)]
pub(crate) enum Changer<'a> {
    /// Clients, and what works for them.
    Client,
    /// The run that it arrives by, which takes it to be there.
    Run(&'a Move),
}

impl Changer<'_> {
    /// Refuses changes of a bucket that is not here, or does not arrive by this run (STORE-7).
    pub(crate) fn check(self, name: &str, moves: Option<&Move>) -> Result<()> {
        let name = name.to_owned();
        match (self, moves) {
            (Self::Client, Some(moves)) if moves.state != MoveState::Arrived => {
                Err(Error::Moves { name, moves: moves.clone() })
            }
            (Self::Client, _) => Ok(()),
            (Self::Run(expects), Some(moves))
                if moves == expects && moves.state == MoveState::Arriving =>
            {
                Ok(())
            }
            (Self::Run(_), moves) => Err(Error::MovesOtherwise { name, moves: moves.cloned() }),
        }
    }
}

/// Refuses to delete a bucket that moves.
pub(crate) fn check_deletion(name: &str, moves: Option<&Move>) -> Result<()> {
    Changer::Client.check(name, moves)?;
    match moves.cloned() {
        Some(moves) => Err(Error::Arrived { name: name.to_owned(), moves }),
        None => Ok(()),
    }
}

/// Refuses to make a bucket that does not arrive.
pub(crate) fn check_arriving(name: &str, moves: &Move) -> Result<()> {
    if moves.state == MoveState::Arriving && moves.is_valid() {
        return Ok(());
    }
    Err(Error::BadMove { name: name.to_owned() })
}

/// Refuses to delete with everything in it what did not leave.
pub(crate) fn check_left(name: &str, expects: &Move) -> Result<()> {
    if expects.state == MoveState::Left {
        return Ok(());
    }
    Err(Error::BadMove { name: name.to_owned() })
}

impl MoveStep {
    /// Refuses steps that there are not.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        let state = |moves: &Option<Move>| moves.as_ref().map(|moves| moves.state);
        let (before, after) = (state(&self.before), state(&self.after));
        let arrives = (before, after) == (Some(MoveState::Arriving), Some(MoveState::Arrived));
        let is_valid = self.after.as_ref().is_none_or(Move::is_valid);
        if (is_step(before, after) || arrives) && is_valid {
            return Ok(());
        }
        Err(Error::BadMove { name: name.to_owned() })
    }

    /// Refuses the step of a bucket that is not where it begins.
    pub(crate) fn check_at(&self, bucket: &Bucket) -> Result<()> {
        let name = bucket.name.clone();
        if self.bucket.is_some_and(|expected| expected != bucket.id) {
            return Err(Error::OtherBucket { name, id: bucket.id.0 });
        }
        if bucket.moves != self.before {
            return Err(Error::MovesOtherwise { name, moves: bucket.moves.clone() });
        }
        Ok(())
    }

    /// Whether changes that were let through before have to end first (STORE-7).
    pub(crate) fn waits(&self) -> bool {
        match &self.before {
            None => true,
            Some(before) => before.state == MoveState::Arriving,
        }
    }
}
