//! `varve bench run`: puts a load on a target and prints what it measured.

use std::path::PathBuf;

use clap::Args;
use varve_tool_bench::{LoadSpec, Preset, Target};
use varve_types::ByteCount;

use crate::bench::{
    LoadArgs, Plan, Report, Saved, System, block_work, json, known, load_of, milliseconds,
    processes, run, shown, target,
};
use crate::cli::{Global, size};
use crate::failure::{Failure, Result};

/// Times of a load of the user's own, in ms.
const RAMP_MS: u64 = 2000;
const DURATION_MS: u64 = 10_000;

/// Put a load on a file, a device or an NBD export, and measure it
#[derive(Args, Debug)]
#[command(
    after_help = "Targets: PATH of a file or block device (O_DIRECT), nbd://HOST[:PORT]/EXPORT, nbd+unix:///EXPORT?socket=PATH,\n\
                  memory:SIZE, and null:SIZE, which answers at once and keeps nothing.\n\
                  Ctrl-C ends a run with what was measured until then."
)]
pub(crate) struct Run {
    /// Preset to run instead of a load of your own; `varve bench list` has them
    #[arg(conflicts_with_all = ["block", "reads", "pattern", "jobs", "depth", "rate"])]
    preset: Option<String>,

    /// What to measure
    #[arg(long, value_parser = target, value_name = "TARGET")]
    target: Target,

    /// Bytes of the target to use, from its beginning [default: the preset's, or all]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    size: Option<ByteCount>,

    /// Allow writes to a file, a device or an export: they destroy what it holds
    #[arg(long)]
    overwrite: bool,

    /// Write each block once before anything is measured
    #[arg(long)]
    fill: bool,

    /// Leave that out where a preset does it
    #[arg(long, conflicts_with = "fill", requires = "preset")]
    no_fill: bool,

    /// Time before each measurement, under load [default: the preset's, or 2s]
    #[arg(long, value_parser = milliseconds, value_name = "TIME")]
    ramp: Option<u64>,

    /// Time that is measured [default: the preset's, or 10s]
    #[arg(long, value_parser = milliseconds, value_name = "TIME")]
    duration: Option<u64>,

    /// Measurements one after another; from two on the mean has a 95 % interval
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "COUNT")]
    repeat: u32,

    /// Before the first measurement do the load until its rate is level, for up to this time
    #[arg(long, value_parser = milliseconds, value_name = "TIME")]
    settle: Option<u64>,

    /// Command of a shell that ends with 0 while the measured system is well; a run in which it does not is marked as invalid
    #[arg(long, value_name = "COMMAND")]
    healthy: Option<String>,

    /// Process to look at beside this one, by id or name, such as the server's; may be said again
    #[arg(long, value_parser = processes, value_name = "PROCESS")]
    process: Vec<Vec<u32>>,

    /// Ask the daemon of --data or --addr how long its drives take, and say whether they are what makes the latency
    #[arg(long)]
    server: bool,

    /// Make a folder of the results: report with histograms, facts of the machine, what it did meanwhile
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,

    /// Print JSON, with histograms; fields are added over time, never renamed
    #[arg(long)]
    json: bool,

    // Last, since its heading holds for all that follows.
    #[command(flatten)]
    load: LoadArgs,
}

impl Run {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        let load = self.load.spec()?;
        let preset = self.preset.as_deref().map(known).transpose()?;
        let plans = match &preset {
            None => vec![self.plan(load)],
            Some(preset) => self.plans(preset, &load)?,
        };
        plans.iter().try_for_each(|plan| self.check(plan))?;
        self.save.as_deref().map_or(Ok(()), Saved::check)?;
        let system = System::now();
        let outcomes = run(&plans, global)?;
        let runs: Vec<Report> =
            plans.iter().zip(&outcomes).map(|(plan, outcome)| Report::of(plan, outcome)).collect();
        let id = preset.as_ref().map(|preset| preset.id.clone());
        let saved = Saved { preset: id, system, runs };
        if let Some(dir) = &self.save {
            saved.write(dir, &outcomes)?;
        }
        if self.json {
            return json(&saved);
        }
        let texts: Vec<String> = saved.runs.iter().map(Report::text).collect();
        let head = preset.map(|preset| format!("{}\n", shown(&preset).1));
        Ok(head.unwrap_or_default() + &texts.join("\n"))
    }

    /// A load of the user's own.
    fn plan(&self, load: LoadSpec) -> Plan {
        Plan {
            load,
            target: self.target.clone(),
            size_bytes: self.size.map(|size| size.0),
            fill: self.fill,
            ramp_ms: self.ramp.unwrap_or(RAMP_MS),
            duration_ms: self.duration.unwrap_or(DURATION_MS),
            repeats: self.repeat,
            settle_ms: self.settle,
            healthy: self.healthy.clone(),
            processes: self.process.concat(),
            asks_server: self.server,
        }
    }

    /// The loads of a preset; the first one fills the target for all.
    fn plans(&self, preset: &Preset, common: &LoadSpec) -> Result<Vec<Plan>> {
        let work = block_work(preset.clone())?;
        let own = self.plan(*common);
        let plans = work.steps.iter().enumerate().map(|(index, step)| Plan {
            load: load_of(step, common),
            size_bytes: own.size_bytes.or(work.size_bytes),
            fill: index == 0 && (work.fill || own.fill) && !self.no_fill,
            ramp_ms: self.ramp.unwrap_or(work.ramp_s * 1000),
            duration_ms: self.duration.unwrap_or(work.duration_s * 1000),
            ..own.clone()
        });
        Ok(plans.collect())
    }

    fn check(&self, plan: &Plan) -> Result<()> {
        let writes = plan.fill || plan.load.read_percent < 100;
        if writes && plan.target.keeps_data() && !self.overwrite {
            let what = format!("this load writes, which destroys what {} holds", plan.target);
            return Err(Failure::misuse(what).hint("say --overwrite if nobody needs it"));
        }
        if plan.load.verify && !plan.target.can_verify() {
            return Err(Failure::misuse("a null target keeps nothing that could be verified"));
        }
        if plan.load.verify && !writes {
            let failure = Failure::misuse("nothing is written that could be verified");
            return Err(failure.hint("write with --fill, or with less than 100 % --reads"));
        }
        if plan.duration_ms == 0 {
            return Err(Failure::misuse("nothing is measured in no time"));
        }
        Ok(())
    }
}
