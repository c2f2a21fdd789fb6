//! `varve plan`: hardware for a demand, and the small questions that come up beside it. Needs no daemon.

use clap::{Args, Subcommand};
use varve_client::Result;

use crate::plan::{catalogue, provision, question, search};

/// Size a cluster for a workload, and show which resource limits it
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(
    after_help = "Amounts have units: 100TB (10^12 bytes), 4KiB (1024), 1250MB/s, 10Gbit/s, 200k, 5ms, 5y, 60%.\n\
                  Formulas, catalogues and the faults of the sources: docs/plan.md."
)]
pub(crate) struct PlanCommand {
    #[command(flatten)]
    search: search::Search,
    #[command(subcommand)]
    question: Option<PlanQuestion>,
}

/// Questions of their own.
#[derive(Subcommand, Debug)]
enum PlanQuestion {
    Pg(question::Pg),
    Journal(question::Journal),
    Endurance(question::Endurance),
    Provision(provision::Provision),
    Cost(question::Cost),
    Compare(question::Compare),
    Cluster(question::ClusterQuestion),
    Catalogue(catalogue::CatalogueList),
}

impl PlanCommand {
    pub(crate) fn run(self) -> Result<String> {
        match self.question {
            None => self.search.run(),
            Some(PlanQuestion::Pg(question)) => question.run(),
            Some(PlanQuestion::Journal(question)) => question.run(),
            Some(PlanQuestion::Endurance(question)) => question.run(),
            Some(PlanQuestion::Provision(question)) => question.run(),
            Some(PlanQuestion::Cost(question)) => question.run(),
            Some(PlanQuestion::Compare(question)) => question.run(),
            Some(PlanQuestion::Cluster(question)) => question.run(),
            Some(PlanQuestion::Catalogue(list)) => list.run(),
        }
    }
}
