//! What `varve bench` runs and prints: threads for jobs, and reports of what they measured (loads are `varve-tool-bench`'s).

mod arguments;
mod preset;
mod report;
mod run;

pub(crate) use arguments::{LoadArgs, milliseconds, target};
pub(crate) use preset::{block_work, known, load_of, shown};
pub(crate) use report::{Report, json};
pub(crate) use run::{Plan, run};
