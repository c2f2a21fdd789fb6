//! Presets of `varve bench` as workloads to plan for: loads on blocks, whose shape follows from the preset.

use std::fmt::Write;

use varve_client::{Failure, Result};
use varve_tool_bench::{BlockWork, Preset, PresetWork};
use varve_tool_plan::catalogue::Catalogue;
use varve_tool_plan::{Amount, Bytes, Share, real};

use super::form::refused;

/// Blocks from this size on are planned for as streams.
const STREAM_BLOCK_BYTES: f64 = 65_536.0;

/// What options say of the shape.
#[derive(Clone, Copy)]
pub(super) struct ShapeOptions {
    pub(super) block: Option<Bytes>,
    pub(super) reads: Option<Share>,
}

/// Adds the preset called `name` to the workloads of a catalogue, unless that has one of this name or there is no such
/// preset.
pub(super) fn add_preset(catalogue: &mut Catalogue, name: &str, asked: ShapeOptions) -> Result<()> {
    if catalogue.workloads.contains_key(name) {
        return Ok(());
    }
    let Some(preset) = Preset::named(name) else { return Ok(()) };
    let loads = loads(&preset);
    if loads.is_empty() {
        let what = format!("the shape of the preset `{name}` is not known");
        return Err(Failure::misuse(what).hint("say it with --class, --block and --reads"));
    }
    let (block, reads) = shape(&loads, asked).ok_or_else(|| {
        let loads = loads.iter().map(|(block, reads)| format!("{block} with {reads} reads"));
        let loads: Vec<String> = loads.collect();
        Failure::misuse(format!("the preset `{name}` is several loads: {}", loads.join(", ")))
            .hint("say which one with --block and --reads")
    })?;
    catalogue.add("preset", &table(&preset, block, reads)).map_err(refused)
}

/// Block and share of reads of each load, each once; none where a load mixes sizes, or is none of blocks.
fn loads(preset: &Preset) -> Vec<(Bytes, Share)> {
    let PresetWork::Block(BlockWork { steps, .. }) = &preset.work else { return Vec::new() };
    if steps.iter().any(|step| step.mixture.is_some()) {
        return Vec::new();
    }
    let mut loads = Vec::new();
    for step in steps {
        let block = Bytes::of_base(real(step.block_bytes as u64));
        let load = (block, Share::of_base(f64::from(step.read_percent) / 100.0));
        if !loads.contains(&load) {
            loads.push(load);
        }
    }
    loads
}

/// Block and share of reads that all loads have, or those that are asked for.
fn shape(loads: &[(Bytes, Share)], asked: ShapeOptions) -> Option<(Bytes, Share)> {
    let block = common(loads.iter().map(|load| load.0)).or(asked.block)?;
    let of_block = loads.iter().filter(|load| load.0 == block).map(|load| load.1);
    let reads = common(of_block).or(asked.reads)?;
    Some((block, reads))
}

/// The value that all have.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// A table of the catalogue.
fn table(preset: &Preset, block: Bytes, reads: Share) -> String {
    let copies = preset.setting.split_once(" copies");
    let copies = copies.and_then(|(copies, _)| copies.parse::<u32>().ok());
    let fill = preset.setting.split_once(" % full").and_then(|(before, _)| {
        let (_, percent) = before.rsplit_once(' ')?;
        percent.parse::<u32>().ok()
    });
    let mut assumed = vec!["class"];
    assumed.extend(copies.is_none().then_some("protection"));
    assumed.extend(fill.is_none().then_some("fill"));
    let class = if block.base() < STREAM_BLOCK_BYTES { "iops" } else { "bandwidth" };
    // Forty volumes in a figure, fifty in the appendix: presets of both are told apart.
    let of_volumes = ["vdi-", "appb-"].iter().any(|begin| preset.id.starts_with(begin));
    let errata = if of_volumes { "[\"X19\"]" } else { "[]" };
    let mut table = String::from("[[workload]]\n");
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let mut field = |name: &str, value: String| {
        // Writing to text does not fail.
        let _written = writeln!(table, "{name} = {value}");
    };
    field("name", quoted(&preset.id));
    field("about", quoted(&preset.what));
    field("class", quoted(class));
    field("block", quoted(&format!("{:.0}B", block.base())));
    field("read_share", quoted(&format!("{}%", reads.base() * 100.0)));
    field("protection", quoted(&copies.unwrap_or(3).to_string()));
    field("fill", quoted(&format!("{}%", fill.unwrap_or(60))));
    field("source", quoted(&format!("varve bench, {}", preset.source)));
    let assumed: Vec<String> = assumed.into_iter().map(quoted).collect();
    field("assumed", format!("[{}]", assumed.join(", ")));
    field("errata", errata.to_owned());
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: ShapeOptions = ShapeOptions { block: None, reads: None };

    #[test]
    fn presets_of_blocks_are_workloads_or_several() {
        let mut known = 0;
        for preset in Preset::all() {
            let loads = loads(&preset);
            let mut catalogue = Catalogue::built_in();
            let had = catalogue.workloads.contains_key(&preset.id);
            let added = add_preset(&mut catalogue, &preset.id, NOTHING);
            let is_one = had || shape(&loads, NOTHING).is_some();
            assert_eq!(added.is_ok(), is_one, "{}", preset.id);
            assert_eq!(catalogue.workloads.contains_key(&preset.id), is_one, "{}", preset.id);
            known += usize::from(is_one && !had);
        }
        assert!(known >= 15, "{known}");
    }

    #[test]
    fn what_a_preset_leaves_open_is_asked_for() {
        let of = |name: &str, asked| {
            let mut catalogue = Catalogue::built_in();
            add_preset(&mut catalogue, name, asked).ok()?;
            let workload = catalogue.workloads.get(name)?;
            Some((workload.block, workload.read_share))
        };
        let block = |kib: f64| Some(Bytes::of_base(kib * 1024.0));
        let reads = |percent: f64| Some(Share::of_base(percent / 100.0));
        assert_eq!(of("appb-medium-10w", NOTHING), block(1024.0).zip(reads(90.0)));
        // One size, reads and writes.
        assert_eq!(of("win-2m-qd64", NOTHING), None);
        let asked = ShapeOptions { reads: reads(0.0), ..NOTHING };
        assert_eq!(of("win-2m-qd64", asked), block(2048.0).zip(reads(0.0)));
        // Of 16 KiB there are reads alone.
        assert_eq!(of("idf16", NOTHING), None);
        let asked = ShapeOptions { block: block(16.0), ..NOTHING };
        assert_eq!(of("idf16", asked), block(16.0).zip(reads(100.0)));
        assert_eq!(of("aggregate", NOTHING), None);
    }
}
