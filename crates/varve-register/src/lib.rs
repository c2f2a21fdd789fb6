//! The register of names: which cell of a pool has a volume or bucket. Pools of one cell have none.
//!
//! ```text
//!  NameStore (RADOS, memory) ──read──▶ Register::see ──▶ EntrySnapshot ── enter, before a name is made ──▶ NameStore
//!                                                                   └──── leave, after it was deleted ───▶
//! ```
//!
//! Any node reads it to find a name. Owners of cells change it, each the entries that say its cell, and what a cell's
//! catalogue says is the truth: an entry without its name is *empty*, and only keeps the name for that cell until it is
//! made there, or deleted.

mod entry;
mod error;
mod format;
mod register;
mod store;

pub use entry::{Entry, Name, NameKind, Stamp};
pub use error::{Error, Result};
pub use register::{EntrySnapshot, Register};
pub use store::{MemoryNames, NameFuture, NameStore};
