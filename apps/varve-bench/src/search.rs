//! The search for the largest number of volumes that are all fast enough: a load with a rate, again and again with
//! other numbers of jobs.

use varve_client::Result;
use varve_tool_bench::{LoadSpec, Point, next_volumes};

use super::clients;
use super::outcome::RunOutcome;
use super::plan::{LoadTarget, RunPlan};
use super::report::BenchReport;

/// A search under way.
#[derive(Default)]
pub(super) struct Search {
    tried: Vec<Point>,
}

impl Search {
    /// The load that follows `plan`; none when the number is known, or when no number is looked for.
    pub(super) fn next(&mut self, plan: &RunPlan, outcome: &RunOutcome) -> Result<Option<RunPlan>> {
        let Some(p99_ms) = plan.search_p99_ms.filter(|_| !outcome.is_interrupted) else {
            return Ok(None);
        };
        let report = BenchReport::of(plan, outcome);
        let jobs = if plan.in_step {
            clients::next_jobs(&report)?
        } else {
            self.tried.push(report.point());
            next_volumes(&self.tried, p99_ms, 1)
        };
        let next = jobs.map(|jobs| with_jobs(plan, jobs));
        Ok(next.filter(|plan| is_room(plan, outcome.size_bytes)))
    }
}

/// The same load with another number of jobs, each at its own rate, on what is ready for it.
fn with_jobs(plan: &RunPlan, jobs: u32) -> RunPlan {
    let rate_of_job = plan.load.rate.map(|rate| rate / f64::from(plan.load.jobs));
    let rate = rate_of_job.map(|rate| rate * f64::from(jobs));
    // Volumes are made anew for each load.
    let fill = plan.fill && matches!(plan.goal, LoadTarget::Volumes(_));
    let load = LoadSpec { jobs, rate, ..plan.load };
    RunPlan { load, fill, is_set: true, at_unix_ms: None, ..plan.clone() }
}

/// Whether each job has blocks of its own.
fn is_room(plan: &RunPlan, size_bytes: u64) -> bool {
    matches!(plan.goal, LoadTarget::Volumes(_)) || plan.load.blocks_a_job(size_bytes).is_ok()
}
