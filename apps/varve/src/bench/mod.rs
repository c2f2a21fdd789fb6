//! What `varve bench` runs and prints: threads for jobs, and reports of what they measured (loads are
//! `varve-tool-bench`'s).

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

pub(crate) use arguments::{
    CephArgs, DataArgs, LoadArgs, ObjectsArgs, TargetArg, aim, milliseconds, processes,
};
pub(crate) use bucket::BenchBucket;
pub(crate) use clients::{ClientPart, run_clients};
pub(crate) use compared::{LoadComparison, compare};
pub(crate) use crowd::ObjectsPlan;
pub(crate) use engine::EngineGoal;
pub(crate) use fio::{FioGoal, run_job_file};
pub(crate) use listing::{ListedLoad, listed};
pub(crate) use objects::run_workload;
pub(crate) use page::{NamedResult, html, page};
pub(crate) use picture::write_pictures;
pub(crate) use plan::{LoadTarget, RunPlan};
pub(crate) use preset::{
    block_work, can_run, describe, known, lives_work, load_of, objects_plans, objects_work,
    segments,
};
pub(crate) use rados::RadosGoal;
pub(crate) use report::{BenchReport, json};
pub(crate) use result_name::result_name;
pub(crate) use run::{run, size_of};
pub(crate) use s3::S3Settings;
pub(crate) use saved::{REPORT, SavedResult, write_folder};
pub(crate) use scale::{ScaleSpec, scale};
pub(crate) use sweep::SweepArgs;
pub(crate) use system::System;
pub(crate) use timeline::Timelines;
pub(crate) use volumes::VolumesGoal;
