//! `varve report page`: results as one page of HTML, or as Markdown.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::bench::{Named, Saved, page, write_pictures};
use crate::failure::{Failure, Result};

/// Most results of a page: more lines than that nobody tells apart.
const RESULTS_MAX: usize = 6;

/// Make one page of up to six results, which needs no other file; several are compared with the first one
#[derive(Args, Debug)]
pub(crate) struct Page {
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

impl Page {
    pub(crate) fn run(self) -> Result<String> {
        let results = self
            .results
            .iter()
            .map(|path| Ok(Named { name: name(path), saved: Saved::read(path)? }));
        let document = page(&results.collect::<Result<Vec<_>>>()?)?;
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
        Ok(if self.markdown { document.markdown() } else { document.html() })
    }
}

/// The last part of a path, without `.json`.
pub(crate) fn name(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let last = whole.file_stem().or_else(|| whole.file_name());
    last.map_or_else(|| path.display().to_string(), |last| last.to_string_lossy().into_owned())
}
