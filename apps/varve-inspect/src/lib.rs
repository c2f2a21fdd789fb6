//! Pools that no daemon serves: what `varve check`, `varve dump` and `varve salvage` do. Nothing is written to what a
//! pool lies on (OFFLINE-1).

pub mod check;
pub mod dump;
mod offline;
pub mod salvage;

pub use offline::{OfflinePlace, OfflinePool, PoolSource, ProbedPool, RedundantPlace};
