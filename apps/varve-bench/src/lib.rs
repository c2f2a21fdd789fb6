//! The runner of benchmarks: what `varve bench` and `varve report` run and print. Threads for jobs, and reports of what
//! they measured; loads are `varve-tool-bench`'s.

mod apart;
mod arguments;
mod background;
mod ballast;
mod bucket;
mod chart;
mod clients;
mod compared;
mod crowd;
mod daemon;
mod ec;
mod engine;
mod figures;
mod fio;
mod health;
mod layers;
mod listing;
mod load;
mod objects;
mod outcome;
mod page;
mod picture;
mod plan;
mod preset;
mod rados;
mod rados_terms;
mod report;
mod result_name;
mod run;
mod s3;
mod sampler;
mod saved;
mod scale;
mod search;
mod setting;
mod shell;
mod sweep;
mod system;
mod timeline;
mod volumes;

pub use arguments::{
    CephArgs, DataArgs, LoadArgs, ObjectsArgs, TargetArg, aim, milliseconds, processes,
};
pub use bucket::{BenchBucket, BucketName};
pub use clients::{ClientPart, run_clients};
pub use compared::{LoadComparison, compare};
pub use crowd::ObjectsPlan;
pub use ec::EcReport;
pub use engine::EngineGoal;
pub use figures::{Latency, RepeatFigures};
pub use fio::{FioGoal, run_job_file};
pub use listing::{ListedLoad, listed};
pub use load::{Load, ObjectsLoad};
pub use objects::run_workload;
pub use outcome::RunOutcome;
pub use page::{NamedResult, page};
pub use picture::write_pictures;
pub use plan::{LoadTarget, RunPlan};
pub use preset::{
    block_work, can_run, describe, known, lives_work, load_of, objects_plans, objects_work,
    segments,
};
pub use rados::RadosGoal;
pub use report::{BenchReport, json};
pub use result_name::result_name;
pub use run::{run, size_of};
pub use s3::{S3Server, S3Settings};
pub use saved::{Host, REPORT, SavedResult, write_folder};
pub use scale::{ScaleReport, ScaleSpec, scale};
pub use setting::ShellSetting;
pub use sweep::{SweepArgs, Within};
pub use system::System;
pub use timeline::Timelines;
pub use volumes::VolumesGoal;
