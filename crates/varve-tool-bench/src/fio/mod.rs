//! fio: its job files as loads, and what it prints of a run.

mod command;
mod file;
mod harmless;
mod job;
mod output;

pub use command::{FioCommand, FioPlace};
pub use file::{FioFile, FioOption, FioSection};
pub use job::FioJob;
pub use output::{FioOutput, FioRun, FioSide};
