//! One load with several depths or rates, and the fastest run whose p99 stays within a bound.

use clap::Args;
use serde::{Deserialize, Serialize};
use varve_client::{Failure, Result};
use varve_tool_bench::LoadSpec;

use super::plan::{LoadTarget, RunPlan};
use super::report::BenchReport;
use super::setting::ShellSetting;

/// Most loads of a sweep.
const LOADS_MAX: usize = 100;

/// What differs from load to load, and what is looked for.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sweep")]
pub struct SweepArgs {
    /// The load with each of these depths, one after another: 1,2,4,8
    #[arg(long, value_delimiter = ',', value_name = "COUNTS", conflicts_with_all = ["depth", "preset", "fio_job"])]
    depths: Vec<u32>,

    /// The load with each of these rates, one after another: 1000,2000,4000
    #[arg(long, value_delimiter = ',', value_name = "OPS", conflicts_with_all = ["rate", "preset", "fio_job", "depths"])]
    rates: Vec<f64>,

    /// The load, or each of a preset, under each of these settings of the measured system, one after another:
    /// NAME=COMMAND, whose command of a shell makes the setting before the load; may be given more than once
    #[arg(long, value_parser = ShellSetting::read, value_name = "NAME=COMMAND", conflicts_with_all = ["clients", "client", "at"])]
    setting: Vec<ShellSetting>,

    /// Say which load has most operations a second of those whose p99 is no more than this: 500us, 2ms
    #[arg(long, value_parser = microseconds, value_name = "TIME")]
    p99_max: Option<u64>,
}

impl SweepArgs {
    /// A load as those that are swept, and all of them under each setting; the first one fills the target for all.
    pub fn loads(&self, plans: Vec<RunPlan>) -> Result<Vec<RunPlan>> {
        let swept = self.under_settings(self.depths_and_rates(plans));
        if swept.len() > LOADS_MAX {
            let what = format!("{} loads are more than {LOADS_MAX}", swept.len());
            return Err(Failure::misuse(what));
        }
        for plan in &swept {
            plan.load.check().map_err(|error| Failure::misuse(error.to_string()))?;
        }
        Ok(swept)
    }

    /// Loads of one setting stand together: each is made once.
    fn under_settings(&self, plans: Vec<RunPlan>) -> Vec<RunPlan> {
        if self.setting.is_empty() {
            return plans;
        }
        let makes_its_own = |plan: &RunPlan| matches!(plan.goal, LoadTarget::Volumes(_));
        let settings = self.setting.iter().enumerate();
        let under = settings.flat_map(|(at, setting)| {
            plans.iter().enumerate().map(move |(index, plan)| RunPlan {
                setting: Some(setting.clone()),
                is_set: index > 0,
                fill: plan.fill && (at == 0 || makes_its_own(plan)),
                ..plan.clone()
            })
        });
        under.collect()
    }

    fn depths_and_rates(&self, plans: Vec<RunPlan>) -> Vec<RunPlan> {
        let loads = |load: LoadSpec| -> Vec<LoadSpec> {
            let depths = self.depths.iter().map(|depth| LoadSpec { depth: *depth, ..load });
            let rates = self.rates.iter().map(|rate| LoadSpec { rate: Some(*rate), ..load });
            depths.chain(rates).collect()
        };
        if self.depths.is_empty() && self.rates.is_empty() {
            return plans;
        }
        let swept = plans.iter().flat_map(|plan| {
            let of =
                |(index, load)| RunPlan { load, fill: plan.fill && index == 0, ..plan.clone() };
            loads(plan.load).into_iter().enumerate().map(of)
        });
        swept.collect()
    }

    /// What is looked for.
    pub fn within(&self, runs: &[BenchReport]) -> Option<Within> {
        self.p99_max.map(|p99_us_max| Within::of(p99_us_max, runs))
    }
}

/// The fastest run whose p99 stays within a bound. Fields are added over time, never renamed.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Within {
    p99_us_max: u64,
    /// None when there is no such run.
    best: Option<Best>,
    /// Whether more load than that of the best one was tried, and was too much: else the bound may be reached later.
    is_bounded: bool,
}

#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
struct Best {
    load: String,
    operations_per_second: f64,
    bytes_per_second: f64,
    p99_us: f64,
}

impl Within {
    fn of(p99_us_max: u64, runs: &[BenchReport]) -> Self {
        let is_within = |run: &BenchReport| {
            run.invalid.is_empty() && run.both.latency_us.p99 <= p99_us_max as f64
        };
        let rate = |run: &BenchReport| run.both.operations_per_second;
        let best = runs
            .iter()
            .filter(|run| is_within(run))
            .max_by(|one, other| rate(one).total_cmp(&rate(other)));
        let is_bounded = runs.iter().any(|run| run.both.latency_us.p99 > p99_us_max as f64);
        let best = best.map(|run| Best {
            load: run.load.text(),
            operations_per_second: rate(run),
            bytes_per_second: run.both.bytes_per_second,
            p99_us: run.both.latency_us.p99,
        });
        Self { p99_us_max, best, is_bounded }
    }

    /// The same bound on other runs.
    pub(crate) fn again(&self, runs: &[BenchReport]) -> Self {
        Self::of(self.p99_us_max, runs)
    }

    /// A sentence.
    pub fn text(&self) -> String {
        let bound = format!("p99 of no more than {} µs", self.p99_us_max);
        let Some(best) = &self.best else {
            return format!("no load had a {bound}");
        };
        let more = if self.is_bounded {
            ""
        } else {
            "; no load had more, so that there may be a faster one"
        };
        format!(
            "most with a {bound}: {:.0} operations/s, p99 {:.0} µs, with {}{more}",
            best.operations_per_second, best.p99_us, best.load
        )
    }
}

/// Reads a time: `500us`, `2ms`, `1s`.
fn microseconds(text: &str) -> std::result::Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_us = match unit {
        "us" | "µs" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        _ => return Err(format!("invalid time `{text}`: write 500us, 2ms or 1s")),
    };
    let time_us = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_us));
    let time_us = time_us.filter(|time_us| (1..=3_600_000_000).contains(time_us));
    time_us.ok_or_else(|| format!("invalid time `{text}`: at most an hour"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_units() {
        assert_eq!(microseconds("500us"), Ok(500));
        assert_eq!(microseconds("2ms"), Ok(2000));
        for wrong in ["", "5", "0ms", "1m", "x", "99999999999s"] {
            assert!(microseconds(wrong).is_err(), "{wrong}");
        }
    }
}
