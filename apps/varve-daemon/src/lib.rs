//! The daemon: takes the data directory, opens the pool, serves its admin API, and leaves it clean when told to end.
//!
//! It runs on the control thread; volumes are served by the pool's shard threads.

mod admin_runtime;
mod backend;
mod banner;
mod cell_front_ends;
mod cells;
mod clients;
pub mod config;
mod descriptors;
mod drive_changes;
mod drive_search;
pub mod drives;
mod engine_stack;
pub mod event_loop;
mod figures;
mod file_mark;
mod files;
mod fill;
mod front;
mod health;
mod holdings;
mod home;
mod in_process;
mod local_pools;
mod lock;
pub mod logging;
mod metrics_listener;
mod moves;
mod names;
mod node;
mod node_status;
mod notify;
mod objects;
mod online_check;
mod pool;
mod pool_media;
mod process;
mod process_metrics;
mod rados;
mod rados_cache;
mod rados_look;
mod rados_pools;
mod redundancy;
mod redundant_pool;
mod remembered;
mod room;
mod s3;
mod s3_figures;
pub mod sealing_key;
mod served_cell;
mod shard_thread;
mod signals;
mod snapshots;
mod socket_access;
mod stack;
mod threads;
mod token;

#[cfg(any(test, feature = "memory"))]
pub use front::{CellConduct, MemoryCells};
pub use in_process::{InProcess, VolumeRoute};
pub use local_pools::{NewLocalPool, PlannedPool, create as create_local_pool};
pub use process::run;
pub use rados::{RadosLocation, RadosMedia};
pub use rados_look::{ProbedRados, RadosProbe};
pub use rados_pools::{NewRadosPool, attach as attach_rados_pool, create as create_rados_pool};
