//! Content: the bytes of whatever has a record under a key of a shard, and the transactions that change both together.
//! Objects keep their bodies and attributes so; inodes of files can do the same. Names, versions and the protocol are
//! matters of the layer above, whose records are bytes here.
//!
//! ```text
//!  layer above: keys and records of its own
//!       |  puts, deletes, frees, writes           |  stages bytes             |  reads what it holds
//!  TransactionPlan ──▶ ContentShard::commit    ContentStaging ──▶ WrittenContent    HeldContent ──▶ ContentPiece
//!       |                     |                        |
//!       |              one transaction           an orphan first            sweep: frees what orphans name
//!       ▼                     ▼                        ▼                            ▼
//!  one ContentShard a stream, shard and opening of the shard, on the shard's thread
//! ```
//!
//! It offers:
//! - [`StoredContent`]: where bytes are. In the record itself, in a [`ContentExtent`] of blocks, in a *series*, or
//!   shared by a [`Reference`]. A record encodes it at places of its own choice ([`ContentHead`]).
//! - A **series** ([`SeriesId`]) is a list of records under keys of their own ([`keys::member`]), the contents of which
//!   are one content, and are freed as one: the parts of an upload, or the extents of a file.
//! - [`TransactionPlan`] and [`ContentShard::commit`]: records change, blocks are written and freed, and the
//!   [`ContentAccount`] follows, all or nothing.
//! - [`ContentShard::stage`]: bytes that are written before a record names them. Given up or cut off by a crash, their
//!   space comes back.
//! - Orphans: what is removed while it is read, is large, or is shared, is freed by a sweep that goes on after a crash.
//!   So a file that was unlinked while it was open stays readable for as long as its [`Hold`] lives.
//! - [`KeyLocks`]: one task at a time changes a key.
//! - [`ContentAudit`]: whether records, orphans, references, account and map contradict each other.
//!
//! The layer above tells one thing: which contents a record of a series names ([`ReadRecord`]).

mod account;
mod audit;
mod content;
mod error;
#[cfg(test)]
mod format_examples;
mod give_back;
mod hold;
pub mod keys;
mod locks;
mod plan;
mod read;
mod record;
mod reference;
mod series;
mod shard;
mod staging;
mod sweep;
mod written;

pub use account::{ContentAccount, TallyChange};
pub use audit::{ContentAudit, ContentReport, compare_references};
pub use content::{
    ContentExtent, ContentHead, ContentPlace, DEPTH_MAX, RecordContent, Reference, ReferenceTarget,
    SeriesId, StoredContent,
};
pub use error::{Error, Result};
pub use hold::{HeldContent, Hold};
pub use locks::{KeyLock, KeyLocks};
pub use plan::TransactionPlan;
pub use read::ContentPiece;
pub use shard::{ContentOptions, ContentShard, ReadRecord, TRIMMED_AT_ONCE_MAX};
pub use sweep::GiveBack;
pub use written::{ContentStaging, SharedBytes, StagedReference, WrittenContent};
