//! Presets as people and programs see them, and as plans of runs.

use std::sync::Arc;

use serde_json::{Value, json};
use varve_client::table::labelled;
use varve_client::{Failure, Result};
use varve_tool_bench::cosbench::{self as objects, WorkKind, Workload};
use varve_tool_bench::{
    BlockWork, DataSpec, Lives, LoadSpec, Preset, PresetStep, PresetWork, Segments, VolumeWork,
};
use varve_types::ByteCount;

use super::bucket::BenchBucket;
use super::crowd::ObjectsPlan;
use super::load::{load_text, pattern};

/// RAM that a server may have: reads of objects that are fewer bytes may come from it.
const RAM_BYTES: u64 = 64 << 30;

/// The preset of that name.
pub fn known(id: &str) -> Result<Preset> {
    Preset::named(id).ok_or_else(|| {
        Failure::misuse(format!("no preset `{id}`")).hint("`varve bench list` shows what there is")
    })
}

/// Refuses a preset that needs what is not there yet, and says what: whatever else is said beside it would change
/// nothing.
pub fn can_run(preset: &Preset) -> Result<()> {
    match preset.work {
        PresetWork::Needs { what, .. } => Err(needs(&preset.id, what)),
        PresetWork::Block(_) | PresetWork::Objects { .. } | PresetWork::Lives(_) => Ok(()),
    }
}

/// What a preset does on a block target.
pub fn block_work(preset: Preset) -> Result<BlockWork> {
    match preset.work {
        PresetWork::Block(work) => Ok(work),
        PresetWork::Objects { .. } => {
            let what = format!("`{}` needs an S3 server", preset.id);
            let hint = "say --target s3://BUCKET, or run `varve bench cosbench";
            Err(Failure::misuse(what).hint(format!("{hint} {}`", preset.id)))
        }
        PresetWork::Lives(_) => Err(makes_volumes(&preset.id)),
        PresetWork::Needs { what, .. } => Err(needs(&preset.id, what)),
    }
}

/// What a preset does with whole volumes of a daemon, if that is what it does.
pub fn lives_work(preset: &Preset) -> Option<Lives> {
    match preset.work {
        PresetWork::Lives(lives) => Some(lives),
        PresetWork::Block(_) | PresetWork::Objects { .. } | PresetWork::Needs { .. } => None,
    }
}

fn makes_volumes(id: &str) -> Failure {
    Failure::misuse(format!("`{id}` makes volumes of its own"))
        .hint(format!("run `varve bench run {id}` without --target, beside a daemon"))
}

/// What workers of a preset read streams of, where they are readers.
pub fn segments(preset: &Preset) -> Option<Segments> {
    match preset.work {
        PresetWork::Objects { segments, .. } => segments,
        PresetWork::Block(_) | PresetWork::Lives(_) | PresetWork::Needs { .. } => None,
    }
}

/// COSBench's XML of a preset; none of one that is no workload of objects.
pub fn objects_work(preset: Preset) -> Result<String> {
    match preset.work {
        PresetWork::Objects { xml, .. } => Ok(xml),
        PresetWork::Block(_) => {
            let what = format!("`{}` needs a block target", preset.id);
            Err(Failure::misuse(what).hint(format!("run `varve bench run {}`", preset.id)))
        }
        PresetWork::Lives(_) => Err(makes_volumes(&preset.id)),
        PresetWork::Needs { what, .. } => Err(needs(&preset.id, what)),
    }
}

/// The loads of a workload on a bucket: each work of it that is a load, and before them what it prepares. `size_bytes`
/// makes it smaller; `may_hold` says whether the bucket may hold objects already.
pub fn objects_plans(
    mut workload: Workload,
    size_bytes: Option<u64>,
    bucket: Arc<BenchBucket>,
    may_hold: bool,
) -> Vec<ObjectsPlan> {
    size_bytes.into_iter().for_each(|size_bytes| workload.shrink(size_bytes));
    let (count, bytes) = workload.prepared();
    let works = |kind| {
        let works = workload.stages.iter().flat_map(|stage| &stage.works);
        works.filter(move |work| work.kind == kind).map(|work| Arc::new(work.clone()))
    };
    let prepares: Vec<Arc<objects::WorkSpec>> = works(WorkKind::Prepare).collect();
    let plans = works(WorkKind::Normal).map(|main| ObjectsPlan {
        bucket: Arc::clone(&bucket),
        may_hold,
        prepares: prepares.clone(),
        prepared: (count, bytes),
        main,
        segments: None,
    });
    plans.collect()
}

fn needs(id: &str, what: &str) -> Failure {
    Failure::misuse(format!("`{id}` cannot be run yet: it needs {what}"))
        .hint(format!("`varve bench show {id}` has its parameters"))
}

/// The load of a step: `common` says what presets leave open, such as data and seed.
pub fn load_of(work: &BlockWork, step: &PresetStep, common: &LoadSpec) -> LoadSpec {
    let own = common.data.compression_ratio;
    let compression_ratio = work.compression_ratio.filter(|_| own <= 1.0).unwrap_or(own);
    let load = LoadSpec {
        block_bytes: step.block_bytes,
        read_percent: step.read_percent,
        pattern: step.pattern,
        jobs: step.jobs,
        depth: step.depth,
        rate: step.rate,
        data: DataSpec { compression_ratio, ..common.data },
        ..*common
    };
    step.mixture.map_or(load, |mixture| load.mixed(mixture))
}

/// For programs, and for people.
pub fn describe(preset: &Preset) -> (Value, String) {
    let mut pairs = vec![
        ("preset", preset.id.clone()),
        ("what", preset.what.clone()),
        ("source", preset.source.to_owned()),
        ("setting", preset.setting.to_owned()),
        ("assumed", preset.assumed.join("; ")),
        ("reference", preset.reference.to_owned()),
        ("score", preset.metric.to_string()),
    ];
    let work = match &preset.work {
        PresetWork::Block(work) => block_shown(work, &mut pairs),
        PresetWork::Objects { xml, .. } => objects_shown(xml, &mut pairs),
        PresetWork::Lives(lives) => {
            let Lives { volumes, at_once, size_bytes, io_bytes, block_bytes, depth } = *lives;
            let size = ByteCount(size_bytes);
            pairs.push(("volumes", format!("{volumes} of {size}, {at_once} at a time")));
            let (io, block) = (ByteCount(io_bytes), ByteCount(block_bytes as u64));
            pairs.push(("load", format!("{io} of each, {block} × {depth} under way")));
            json!({
                "volumes": volumes, "at_once": at_once, "size_bytes": size_bytes, "io_bytes": io_bytes,
                "block_bytes": block_bytes, "depth": depth,
            })
        }
        PresetWork::Needs { what, parameters } => {
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
        "score": preset.metric.to_string(),
        "work": work,
    });
    let text = labelled(&pairs);
    match &preset.work {
        PresetWork::Objects { xml, .. } => (value, format!("{text}\n{xml}")),
        PresetWork::Block(_) | PresetWork::Lives(_) | PresetWork::Needs { .. } => (value, text),
    }
}

/// What a preset does on a block target.
fn block_shown(work: &BlockWork, pairs: &mut Vec<(&str, String)>) -> Value {
    let size = work.size_bytes.map(|bytes| format!("{} ({bytes} bytes)", ByteCount(bytes)));
    pairs.push(("size", size.unwrap_or_else(|| "the whole target".to_owned())));
    let fill = if work.fill { ", each block written once before" } else { "" };
    pairs.push(("time", format!("{} s after {} s{fill}", work.duration_s, work.ramp_s)));
    if work.clients > 1 {
        let text = "on a file, a device or an export; else 1, or what --clients says";
        pairs.push(("clients", format!("{}, as in the source, {text}", work.clients)));
    }
    for step in &work.steps {
        let load = load_of(work, step, &LoadSpec::default());
        pairs.push((
            "load",
            format!(
                "{} (source: {}){}",
                load_text(&load),
                step.block_in_source,
                step.volumes.map(|work| volumes_text(&work)).unwrap_or_default()
            ),
        ));
    }
    json!({
        "size_bytes": work.size_bytes,
        "fill": work.fill,
        "clients": work.clients,
        "ramp_ms": work.ramp_s * 1000,
        "duration_ms": work.duration_s * 1000,
        "steps": work.steps.iter().map(step_value).collect::<Vec<_>>(),
    })
}

/// What a preset does on an S3 server.
fn objects_shown(xml: &str, pairs: &mut Vec<(&str, String)>) -> Value {
    let (objects, bytes) = Workload::read(xml).map_or((0, 0), |workload| workload.prepared());
    let size = format!("{} ({bytes} bytes) in {objects} objects", ByteCount(bytes));
    pairs.push(("size", size));
    let warning = cached(bytes);
    pairs.extend(warning.iter().map(|text| ("warning", text.clone())));
    json!({ "xml": xml, "size_bytes": bytes, "warning": warning })
}

/// That reads of so few bytes say nothing of drives.
fn cached(size_bytes: u64) -> Option<String> {
    let size = ByteCount(size_bytes);
    let text = || {
        format!(
            "{size} fit in RAM of a server: reads may never see a drive; drop caches, or write more of your own"
        )
    };
    (size_bytes < RAM_BYTES).then(text)
}

fn volumes_text(work: &VolumeWork) -> String {
    let clones =
        work.own_percent.map(|percent| format!("; on {percent} % of clones of one volume"));
    let every = |every_s| format!("; a snapshot of each volume every {every_s} s");
    let cloned = work.clone_one_in.map(|one_in| format!(", a clone for {one_in} volumes"));
    let parts = [clones, work.snapshot_every_s.map(every), cloned];
    parts.into_iter().flatten().collect()
}

fn step_value(step: &PresetStep) -> Value {
    let sorts = step.mixture.iter().flat_map(|mixture| mixture.parts().to_vec()).map(|part| {
        json!({
            "percent": part.percent,
            "kind": if part.is_read { "read" } else { "write" },
            "block_bytes": part.bytes,
            "pattern": pattern(part.pattern),
            "durable": part.durable,
            "compression_ratio": part.compression_ratio,
        })
    });
    json!({
        "block_bytes": step.block_bytes,
        "block_in_source": step.block_in_source,
        "read_percent": step.read_percent,
        "pattern": pattern(step.pattern),
        "jobs": step.jobs,
        "depth": step.depth,
        "rate_per_second": step.rate,
        "mixture": sorts.collect::<Vec<_>>(),
        "volumes": step.volumes.map(|work| json!({
            "own_percent": work.own_percent,
            "snapshot_every_s": work.snapshot_every_s,
            "clone_one_in": work.clone_one_in,
        })),
    })
}
