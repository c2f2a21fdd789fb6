//! Snapshots as archives: written from a daemon to a file, and read from one into a daemon. `docs/archive.md` describes the bytes.
//!
//! Data travel over NBD; names, extents and what is complete over the admin API.

mod export;
mod import;
mod nbd;
mod source;
mod target;

pub(crate) use export::{ExportPlan, export};
pub(crate) use import::{ImportPlan, import};
