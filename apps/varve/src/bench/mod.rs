//! What `varve bench` runs and prints: threads for jobs, and reports of what they measured (loads are `varve-tool-bench`'s).

mod arguments;
mod background;
mod chart;
mod compared;
mod figures;
mod health;
mod load;
mod objects;
mod page;
mod preset;
mod report;
mod run;
mod sampler;
mod saved;
mod scale;
mod system;

pub(crate) use arguments::{LoadArgs, milliseconds, processes, target};
pub(crate) use compared::{Compared, compare};
pub(crate) use objects::{S3Settings, run_workload};
pub(crate) use page::{Named, page};
pub(crate) use preset::{block_work, known, load_of, objects_work, shown};
pub(crate) use report::{Report, json};
pub(crate) use run::{Plan, run};
pub(crate) use saved::Saved;
pub(crate) use scale::{ScaleSpec, scale};
pub(crate) use system::System;
