//! `varve report page`: results as one page of HTML, or as Markdown.

use std::path::PathBuf;

use clap::Args;
use varve_bench::{NamedResult, page, write_pictures};
use varve_client::{Failure, Result};

/// Most results of a page: more lines than that nobody tells apart.
const RESULTS_MAX: usize = 6;

/// Create one self-contained page of up to six results; several are compared with the first one
#[derive(Args, Debug)]
pub(crate) struct ReportPage {
    /// Results: folders of `varve bench run --save`, or files of its --json
    #[arg(required = true, num_args = 1..=RESULTS_MAX)]
    results: Vec<PathBuf>,

    /// Write the pictures to this folder too, as SVG and PNG
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,

    /// Print Markdown, without pictures, instead of HTML
    #[arg(long)]
    markdown: bool,
}

impl ReportPage {
    pub(crate) fn run(self) -> Result<String> {
        let document = page(&NamedResult::read_all(&self.results)?)?;
        if let Some(dir) = &self.pictures {
            let failed = |error| Failure::new(format!("make {}: {error}", dir.display()));
            std::fs::create_dir_all(dir).map_err(failed)?;
            if !write_pictures(&document, dir)? {
                return Err(Failure::new(
                    "a PNG needs a font, and this machine has none: SVG is written",
                )
                .hint("install one, such as fonts-dejavu-core"));
            }
        }
        Ok(if self.markdown { document.markdown() } else { document.html_with_markdown() })
    }
}
