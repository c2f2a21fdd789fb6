//! Moves volumes and buckets from the pool of one daemon to that of another while clients use them, for
//! `varve pool migrate`.
//!
//! ```text
//!  source    ──snapshot──▶ differences, until there is little ──▶ leaving ──▶ last snapshot …
//!  target    arriving ──▶ the same snapshots ───────────────────────────────▶ the last one, compared …
//!
//!  source    … last snapshot ───────────────────────▶ left ──▶ deleted
//!  target    … the last one, compared ──▶ arrived ───────────▶ in use
//! ```
//!
//! MIGRATE-1. What there is to do is read from the two daemons and nothing else: whoever runs the command again goes
//!     on, whatever died.
//! MIGRATE-2. A volume or bucket is open to clients in one pool at a time. The source gives up its own (leaving, then
//!     left) before the target's is there, and takes it back only once the target's cannot get there. A run sees that
//!     the source's fence is its own behind everything else that it does before the target's last step, and does
//!     nothing in between.
//! MIGRATE-3. Every step between states, and whatever else changes a part at the target or what is behind the fence, is
//!     a comparison at the daemon that names who moves it, so two commands do not work against each other: one is
//!     refused.
//! MIGRATE-4. No volume arrives that was not read back and compared. Bodies of objects carry their checksums from the
//!     one daemon to the other, and the keys and versions of a bucket are compared.
//! MIGRATE-5. What was not answered may be carried out later. So no step is sent twice, and a state counts only when a
//!     daemon says it.

mod bucket;
mod copy;
mod difference;
mod give_back;
mod kind;
mod mark;
mod report;
mod sending;
mod side;
mod stage;
mod users;
mod volume;

use varve_access_admin::ListenAddress;
use varve_client::{Client, Failure, Progress, Result};

use self::bucket::Buckets;
use self::kind::{Item, MigrationKind};
pub use self::report::MigrationOutcome;
use self::report::MoveReport;
use self::side::{MigrationRun, MigrationSide};
use self::volume::Volumes;
use crate::nbd::listener;

/// What to move, and how.
pub struct MigratePlan {
    /// The daemon that has them.
    pub source: Client,
    /// The daemon that gets them.
    pub target: Client,
    /// Names of volumes; all volumes and buckets when there is neither one of these nor of those.
    pub volumes: Vec<String>,
    /// Names of buckets.
    pub buckets: Vec<String>,
    /// What was moved stays at the source, out of use.
    pub keep_source: bool,
    /// Uploads in parts that are under way are lost.
    pub drop_uploads: bool,
    /// Address of the source's NBD server, instead of the one that it names.
    pub source_nbd: Option<ListenAddress>,
    /// Address of the target's NBD server, instead of the one that it names.
    pub target_nbd: Option<ListenAddress>,
}

/// The volumes and buckets that are meant.
struct MigrationNames {
    volumes: Vec<String>,
    buckets: Vec<String>,
    notes: Vec<String>,
}

impl MigrationNames {
    /// No bucket can be moved.
    fn leave_buckets(&mut self, failure: &Failure) {
        self.buckets.clear();
        let hint = failure.advice().map_or_else(String::new, |hint| format!("; {hint}"));
        self.notes.push(format!("no bucket can be moved: {}{hint}", failure.what()));
    }
}

impl MigratePlan {
    fn is_all(&self) -> bool {
        self.volumes.is_empty() && self.buckets.is_empty()
    }

    fn run(&self) -> Result<MigrationRun> {
        let nbd = |client, named: &Option<ListenAddress>| match named {
            None if !self.volumes.is_empty() => listener(client).map(Some),
            // Who needs it is told why there is none.
            None if self.is_all() => Ok(listener(client).ok()),
            named => Ok(named.clone()),
        };
        let source = MigrationSide::open(&self.source, nbd(&self.source, &self.source_nbd)?)?;
        let target = MigrationSide::open(&self.target, nbd(&self.target, &self.target_nbd)?)?;
        if source.pool == target.pool {
            return Err(Failure::misuse(format!("both daemons serve pool {}", source.pool))
                .hint("name the daemon of another pool with --to"));
        }
        if let (Some(one), Some(other)) = (&source.nbd, &target.nbd)
            && one == other
        {
            return Err(Failure::misuse(format!("both daemons say NBD at {one}"))
                .hint("a relative path is that of a daemon: name both with --nbd and --to-nbd"));
        }
        Ok(MigrationRun::new(source, target))
    }

    fn kind(&self) -> Buckets {
        Buckets { drop_uploads: self.drop_uploads }
    }

    /// What is named, or what `all` finds of a kind.
    fn names(
        &self,
        run: &MigrationRun,
        all: impl Fn(&dyn MigrationKind) -> Result<Vec<String>>,
    ) -> Result<MigrationNames> {
        let (volumes, buckets) = (self.volumes.clone(), self.buckets.clone());
        let mut names = MigrationNames { volumes, buckets, notes: Vec::new() };
        if !self.is_all() {
            return Ok(names);
        }
        names.volumes = all(&Volumes)?;
        match (run.source.serves_s3()?, run.target.serves_s3()?) {
            (true, true) => names.buckets = all(&self.kind())?,
            (false, false) => {}
            (source, _) => {
                let who = if source { "target" } else { "source" };
                let note =
                    format!("buckets were left alone: the {who} does not serve S3 (`s3.listen`)");
                names.notes.push(note);
            }
        }
        Ok(names)
    }
}

/// Does something with each that is meant; volumes first.
fn each(
    plan: &MigratePlan,
    run: &MigrationRun,
    names: &MigrationNames,
    mut act: impl FnMut(Item<'_>) -> Result<Option<MoveReport>>,
) -> (MigrationOutcome, Result<()>) {
    let mut outcome =
        MigrationOutcome { notes: names.notes.clone(), ..MigrationOutcome::default() };
    let mut act_on =
        |kind: &dyn MigrationKind, names: &[String], done: &mut Vec<MoveReport>| -> Result<()> {
            for name in names {
                done.extend(act(Item { run, kind, name })?);
            }
            Ok(())
        };
    let ended = act_on(&Volumes, &names.volumes, &mut outcome.volumes)
        .and_then(|()| act_on(&plan.kind(), &names.buckets, &mut outcome.buckets));
    (outcome, ended)
}

/// Moves; what came of it, in order.
pub fn migrate(plan: &MigratePlan) -> Result<MigrationOutcome> {
    let run = plan.run()?;
    let mut names = plan.names(&run, |kind| stage::names(&run, kind))?;
    if !names.buckets.is_empty() {
        match users::obstacle(&run)? {
            None => names.notes.extend(users::take_along(&run)?),
            Some(failure) if plan.is_all() => names.leave_buckets(&failure),
            Some(failure) => return Err(failure),
        }
    }
    let watch = Progress::start();
    let (outcome, ended) =
        each(plan, &run, &names, |item| stage::migrate(item, plan.keep_source, &watch).map(Some));
    watch.end();
    match ended {
        Ok(()) => Ok(outcome),
        Err(failure) => Err(outcome.beside(failure, "moved")),
    }
}

/// What would be moved, and what stands against it.
pub fn plan(plan: &MigratePlan) -> Result<MigrationOutcome> {
    let run = plan.run()?;
    let mut names = plan.names(&run, |kind| stage::names(&run, kind))?;
    if !names.buckets.is_empty()
        && let Some(failure) = users::obstacle(&run)?
    {
        names.leave_buckets(&failure);
    }
    let (outcome, ended) = each(plan, &run, &names, |item| stage::planned(item).map(Some));
    ended.map(|()| outcome)
}

/// What is under way, or was left by a move that did not end.
pub fn status(plan: &MigratePlan) -> Result<MigrationOutcome> {
    let run = plan.run()?;
    let mut outcome = MigrationOutcome {
        volumes: stage::under_way(&run, &Volumes)?,
        ..MigrationOutcome::default()
    };
    match (run.source.serves_s3()?, run.target.serves_s3()?) {
        (true, true) => outcome.buckets = stage::under_way(&run, &plan.kind())?,
        (false, false) => {}
        (source, _) => {
            let who = if source { "target" } else { "source" };
            let note =
                format!("buckets were not looked at: the {who} does not serve S3 (`s3.listen`)");
            outcome.notes.push(note);
        }
    }
    Ok(outcome)
}

/// Gives up moves: the source's are used again, and the target's parts go.
pub fn cancel(plan: &MigratePlan) -> Result<MigrationOutcome> {
    let run = plan.run()?;
    let under_way = |kind: &dyn MigrationKind| -> Result<Vec<String>> {
        Ok(stage::under_way(&run, kind)?.into_iter().map(|moved| moved.name).collect())
    };
    let names = plan.names(&run, under_way)?;
    // One that is not to be cancelled keeps nobody else's fenced.
    let mut first = None;
    let (outcome, _) = each(plan, &run, &names, |item| match stage::cancel(item) {
        Ok(moved) => Ok(Some(moved)),
        Err(failure) => {
            first.get_or_insert(failure);
            Ok(None)
        }
    });
    match first {
        Some(failure) => Err(outcome.beside(failure, "given up")),
        None => Ok(outcome),
    }
}
