//! The subcommands, one file each. A file here has a test of its name under `tests/cli/` and a page under
//! `docs/operating/`.

pub(crate) mod bench;
pub(crate) mod bucket;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod df;
pub(crate) mod drive;
pub(crate) mod dump;
pub(crate) mod health;
pub(crate) mod man;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod pool;
pub(crate) mod report;
pub(crate) mod salvage;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod user;
pub(crate) mod volume;
pub(crate) mod wait;
