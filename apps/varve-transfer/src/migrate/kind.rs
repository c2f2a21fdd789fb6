//! What is moved: volumes or buckets. What a move is, is the same for both (`stage.rs`, `sending.rs`, `give_back.rs`,
//! `mark.rs`); the calls in which they differ are here.

use varve_access_admin::v1::{MoveState, VolumeMove};
use varve_client::{Progress, Result};

use super::report::MoveReport;
use super::sending::Sender;
use super::side::{MigrationRun, MigrationSide};

/// One as a daemon tells it.
pub(super) struct DaemonView {
    pub(super) name: String,
    /// Absent when it does not move.
    pub(super) moves: Option<VolumeMove>,
    /// What the user should know of one that is to be moved.
    pub(super) notes: Vec<String>,
}

/// The words in which they differ.
pub(super) struct Words {
    pub(super) noun: &'static str,
    /// What is refused behind the fence.
    pub(super) refused: &'static str,
    /// What a mark is with that is not of what the source has.
    pub(super) not_same: &'static str,
    /// What one at the target has that is related to the source's (`MigrationKind::is_related`), and has no mark.
    pub(super) related: &'static str,
    /// What to do about a name that the source does not have.
    pub(super) names: &'static str,
    /// What to do about one at the target that was kept there.
    pub(super) delete_kept: &'static str,
    /// What to do about one of that name at the source that is not the one that arrived.
    pub(super) another_there: &'static str,
    /// What to do about one of that name at the target.
    pub(super) another_here: &'static str,
    /// What keeps one that left from being deleted.
    pub(super) in_the_way: &'static str,
    /// What to do with what left and is not at the target.
    pub(super) only_there: &'static str,
}

/// The calls in which they differ.
pub(super) trait MigrationKind {
    fn words(&self) -> &'static Words;

    fn all(&self, side: &MigrationSide) -> Result<Vec<DaemonView>>;

    fn look(&self, side: &MigrationSide, name: &str) -> Result<Option<DaemonView>>;

    /// Takes one a step further (MIGRATE-3), once (MIGRATE-5).
    fn step(
        &self,
        side: &MigrationSide,
        name: &str,
        before: Option<&VolumeMove>,
        after: Option<VolumeMove>,
    ) -> Result<()>;

    /// Deletes one that is at `expects` on its way, or some of what is in it; whether it is gone.
    fn delete(&self, side: &MigrationSide, name: &str, expects: &VolumeMove) -> Result<bool>;

    /// What the mark of the target's names when it is what the source's is (MIGRATE-MARK-2), which does not say so
    /// itself.
    fn last(&self, source: &MigrationSide, name: &str) -> Result<Option<String>>;

    /// Whether the target's, which has no mark, has something that can only be from the source's (GIVE-BACK-3).
    fn is_related(&self, run: &MigrationRun, name: &str) -> Result<bool>;

    /// Whether there is little to send behind a fence that another run left. If not, clients get the source's back
    /// until there is.
    fn goes_on_behind_fences(&self) -> bool;

    fn sender<'a>(&self, item: Item<'a>, watch: &'a Progress) -> Box<dyn Sender + 'a>;

    /// What moves left at one side but its state, in words.
    fn traces(&self, side: &MigrationSide, name: &str) -> Result<Option<String>>;

    /// Removes that; the state that it is in is the one that is compared.
    fn remove_traces(
        &self,
        side: &MigrationSide,
        name: &str,
        moves: Option<&VolumeMove>,
    ) -> Result<()>;

    /// How much there is to be sent.
    fn amount(&self, item: Item<'_>) -> Result<String>;

    /// What the user should know of one that is kept.
    fn kept(&self, item: Item<'_>) -> Result<String>;

    /// What to do should the target of a fenced one be gone for good.
    fn without_target(&self, name: &str) -> String;
}

/// One that is moved by a run.
#[derive(Clone, Copy)]
pub(super) struct Item<'a> {
    pub(super) run: &'a MigrationRun,
    pub(super) kind: &'a dyn MigrationKind,
    pub(super) name: &'a str,
}

impl std::fmt::Display for Item<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.words().noun, self.name)
    }
}

impl Item<'_> {
    pub(super) fn words(&self) -> &'static Words {
        self.kind.words()
    }

    /// What the source has.
    pub(super) fn there(&self) -> Result<Option<DaemonView>> {
        self.kind.look(&self.run.source, self.name)
    }

    /// What the target has.
    pub(super) fn here(&self) -> Result<Option<DaemonView>> {
        self.kind.look(&self.run.target, self.name)
    }

    pub(super) fn step_there(
        &self,
        before: Option<&VolumeMove>,
        after: Option<VolumeMove>,
    ) -> Result<()> {
        self.kind.step(&self.run.source, self.name, before, after)
    }

    pub(super) fn step_here(
        &self,
        before: Option<&VolumeMove>,
        after: Option<VolumeMove>,
    ) -> Result<()> {
        self.kind.step(&self.run.target, self.name, before, after)
    }

    /// Deletes what the target has of one that was given up.
    pub(super) fn delete_here(&self, expects: &VolumeMove) -> Result<()> {
        while !self.kind.delete(&self.run.target, self.name, expects)? {}
        Ok(())
    }

    pub(super) fn moved(&self) -> MoveReport {
        MoveReport { name: self.name.to_owned(), ..MoveReport::default() }
    }
}

impl DaemonView {
    pub(super) fn state(&self) -> Option<MoveState> {
        self.moves.as_ref().map(|moves| moves.state)
    }
}
