//! The simulated world: the shipped storage stack under a simulated clock, simulated media and a random workload, with
//! power cut between any two steps, and checkers that know what may be read.

mod block;
mod census;
mod config;
mod content;
mod drives;
mod flood;
mod host;
mod kind;
mod life;
mod media;
mod model;
mod objects;
mod observed;
mod pages;
mod peers;
mod pool_media;
mod promises;
mod raw_tables;
mod redundancy;
mod redundant_pool;
mod register;
mod run;
mod workload;
mod world;

pub use config::{Faults, WorldConfig};
pub use kind::WorldKind;
pub use redundancy::{DriveFaults, Redundancy};
pub use run::{SeedOutcome, catch_panics, run_seed, run_world};
