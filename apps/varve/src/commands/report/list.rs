//! `varve report list`: the results of a folder.

use std::path::PathBuf;

use clap::Args;
use varve_bench::{ListedLoad, json, listed};
use varve_client::Result;

/// List the results of a folder with their figures, the oldest first
#[derive(Args, Debug)]
pub(crate) struct ReportList {
    /// Folder that holds results: folders of `varve bench run --save`, files of its --json
    #[arg(default_value = ".")]
    dir: PathBuf,

    /// Only results of this preset
    #[arg(long, value_name = "PRESET")]
    preset: Option<String>,

    /// Print JSON; fields are added over time, never renamed
    #[arg(long)]
    json: bool,

    /// Print a page that links to those of the results; its place is in the folder: DIR/index.html
    #[arg(long, conflicts_with = "json")]
    html: bool,
}

impl ReportList {
    pub(crate) fn run(self) -> Result<String> {
        let mut all = listed(&self.dir)?;
        if let Some(preset) = &self.preset {
            all.retain(|one| one.preset.as_ref() == Some(preset));
        }
        if self.json {
            return json(&serde_json::json!({ "results": all }));
        }
        Ok(if self.html { ListedLoad::html(&self.dir, &all) } else { ListedLoad::table(&all) })
    }
}
