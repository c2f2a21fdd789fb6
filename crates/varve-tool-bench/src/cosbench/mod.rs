//! COSBench's workloads: its XML, its selectors of numbers, and what a worker does next.

mod mission;
mod selector;
mod workload;

pub use mission::{Action, Mission, Together};
pub use selector::{Bucket, Chooser, Selector};
pub use workload::{Division, End, Operation, Verb, Work, WorkKind, Workload, Workstage};
