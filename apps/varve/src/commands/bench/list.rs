//! `varve bench list`: the presets there are.

use clap::Args;
use varve_bench::json;
use varve_client::Result;
use varve_client::table::{Align, columns};
use varve_tool_bench::{Preset, PresetWork};

/// List the presets: workloads of published papers
#[derive(Args, Debug)]
pub(crate) struct BenchList {
    /// Print JSON; fields are added over time, never renamed
    #[arg(long)]
    json: bool,
}

impl BenchList {
    pub(crate) fn run(self) -> Result<String> {
        let presets = Preset::all();
        if self.json {
            let rows = presets.iter().map(|preset| {
                let needs = match preset.work {
                    PresetWork::Needs { what, .. } => Some(what),
                    PresetWork::Block(_) | PresetWork::Objects { .. } | PresetWork::Lives(_) => {
                        None
                    }
                };
                serde_json::json!({
                    "id": preset.id, "what": preset.what, "source": preset.source, "needs": needs,
                })
            });
            return json(&serde_json::json!({ "presets": rows.collect::<Vec<_>>() }));
        }
        let header = ["PRESET", "WHAT", "SOURCE", "NEEDS"].map(|title| (title, Align::Left));
        let rows: Vec<Vec<String>> = presets
            .into_iter()
            .map(|preset| {
                let needs = match preset.work {
                    PresetWork::Needs { what, .. } => format!("not yet: {what}"),
                    PresetWork::Block(work) => work.needs.to_owned(),
                    PresetWork::Lives(_) => "a daemon of Varve".to_owned(),
                    PresetWork::Objects { .. } => "an S3 server".to_owned(),
                };
                vec![preset.id, preset.what, preset.source.to_owned(), needs]
            })
            .collect();
        Ok(columns(&header, &rows))
    }
}
