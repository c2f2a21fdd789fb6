//! Snapshots as archives: written from a daemon to a file, and read from one into a daemon. `docs/archive.md` describes
//! the bytes. And images of Ceph's RBD, which become volumes, or are made of them.
//!
//! Data travel over NBD; names, extents and what is complete over the admin API.

mod export;
mod import;
pub mod migrate;
mod nbd;
mod rbd;
mod source;
mod target;

pub use export::{ExportPlan, export};
pub use import::{ImportPlan, import};
