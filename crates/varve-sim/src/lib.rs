//! The simulated world: the shipped storage stack under a simulated clock, simulated media and a random workload, with
//! power cut between any two steps, and checkers that know what may be read.

mod block;
mod config;
mod content;
mod flood;
mod host;
mod kind;
mod life;
mod media;
mod model;
mod objects;
mod pages;
mod peers;
mod promises;
mod register;
mod run;
mod workload;
mod world;

pub use config::{Faults, WorldConfig};
pub use kind::WorldKind;
pub use run::{SeedOutcome, catch_panics, run_seed, run_world};
