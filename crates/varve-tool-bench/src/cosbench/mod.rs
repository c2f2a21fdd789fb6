//! COSBench's workloads: its XML, its selectors of numbers, and what a worker does next.

mod deck;
mod mission;
mod selector;
mod tally;
mod workload;

pub use mission::{Action, SharedCursors, WorkerPlan};
pub use selector::{HistogramBucket, Selector};
pub use tally::{Tally, TallyLine, csv};
pub use workload::{
    Division, OperationSpec, Verb, WorkEnd, WorkKind, WorkSpec, Workload, Workstage,
};
