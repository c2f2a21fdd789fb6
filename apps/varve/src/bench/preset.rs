//! Presets as people and programs see them, and as plans of runs.

use serde_json::{Value, json};
use varve_tool_bench::{BlockWork, LoadSpec, Preset, Step, Work};
use varve_types::ByteCount;

use super::report::{load_text, pattern};
use crate::failure::{Failure, Result};
use crate::table::labelled;

/// The preset of that name.
pub(crate) fn known(id: &str) -> Result<Preset> {
    Preset::named(id).ok_or_else(|| {
        Failure::misuse(format!("there is no preset `{id}`"))
            .hint("`varve bench list` shows what there is")
    })
}

/// What a preset does on a block target.
pub(crate) fn block_work(preset: Preset) -> Result<BlockWork> {
    match preset.work {
        Work::Block(work) => Ok(work),
        Work::Needs { what, .. } => {
            let what = format!("`{}` cannot be run yet: it needs {what}", preset.id);
            Err(Failure::new(what)
                .hint(format!("`varve bench show {}` has its parameters", preset.id)))
        }
    }
}

/// The load of a step: `common` says what presets leave open, such as data and seed.
pub(crate) fn load_of(step: &Step, common: &LoadSpec) -> LoadSpec {
    LoadSpec {
        block_bytes: step.block_bytes,
        read_percent: step.read_percent,
        pattern: step.pattern,
        jobs: step.jobs,
        depth: step.depth,
        rate: step.rate,
        ..*common
    }
}

/// For programs, and for people.
pub(crate) fn shown(preset: &Preset) -> (Value, String) {
    let mut pairs = vec![
        ("preset", preset.id.clone()),
        ("what", preset.what.clone()),
        ("source", preset.source.to_owned()),
        ("setting", preset.setting.to_owned()),
        ("assumed", preset.assumed.join("; ")),
        ("reference", preset.reference.to_owned()),
    ];
    let work = match &preset.work {
        Work::Block(work) => {
            let size = work.size_bytes.map(|bytes| format!("{} ({bytes} bytes)", ByteCount(bytes)));
            pairs.push(("size", size.unwrap_or_else(|| "the whole target".to_owned())));
            let fill = if work.fill { ", each block written once before" } else { "" };
            pairs.push(("time", format!("{} s after {} s{fill}", work.duration_s, work.ramp_s)));
            for step in &work.steps {
                let load = load_of(step, &LoadSpec::default());
                pairs.push((
                    "load",
                    format!("{} (source: {})", load_text(&load), step.block_in_source),
                ));
            }
            json!({
                "size_bytes": work.size_bytes,
                "fill": work.fill,
                "ramp_ms": work.ramp_s * 1000,
                "duration_ms": work.duration_s * 1000,
                "steps": work.steps.iter().map(step_value).collect::<Vec<_>>(),
            })
        }
        Work::Needs { what, parameters } => {
            pairs.push(("parameters", (*parameters).to_owned()));
            pairs.push(("not yet", (*what).to_owned()));
            json!({ "needs": what, "parameters": parameters })
        }
    };
    pairs.retain(|(_, text)| !text.is_empty());
    let value = json!({
        "id": preset.id,
        "what": preset.what,
        "source": preset.source,
        "setting": preset.setting,
        "assumed": preset.assumed,
        "reference": preset.reference,
        "work": work,
    });
    (value, labelled(&pairs))
}

fn step_value(step: &Step) -> Value {
    json!({
        "block_bytes": step.block_bytes,
        "block_in_source": step.block_in_source,
        "read_percent": step.read_percent,
        "pattern": pattern(step.pattern),
        "jobs": step.jobs,
        "depth": step.depth,
        "rate_per_second": step.rate,
    })
}
