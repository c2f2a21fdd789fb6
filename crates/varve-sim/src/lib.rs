//! The simulated world: the shipped storage stack under a simulated clock, simulated media and a random workload, with
//! power cut between any two steps, and checkers that know what may be read.

mod aside;
mod block;
mod branches;
mod census;
mod config;
mod content;
mod drives;
mod flood;
mod found_tables;
mod host;
mod kind;
mod life;
mod losses;
mod media;
mod model;
mod moves;
mod objects;
mod observed;
mod openings;
mod pages;
mod peers;
mod pool_media;
mod promises;
mod raw_tables;
mod redundancy;
mod redundant_pool;
mod redundant_world;
mod register;
mod rot;
mod run;
mod side_cuts;
mod workload;
mod world;

pub use config::{Faults, WorldConfig};
pub use kind::WorldKind;
pub use redundancy::{DriveFaults, Redundancy};
pub use run::{SeedOutcome, catch_panics, run_seed, run_world};
