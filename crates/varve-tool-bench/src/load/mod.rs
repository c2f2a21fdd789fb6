//! Loads: what is done to a target, in which order and at what times, and what is measured.

mod job;
mod measured;
mod mixture;
mod operations;
mod pace;
mod spec;
mod statistics;
mod steady;

pub use job::{Job, JobPart, JobPhase, JobWatch};
pub use measured::{KindTotals, Measurement, OperationKind};
pub use mixture::{Mixture, MixturePart};
pub use pace::Pace;
pub use spec::LoadSpec;
pub use statistics::Estimate;
pub(crate) use statistics::student_t;
pub use steady::has_settled;
