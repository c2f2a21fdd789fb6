//! Several nodes and one pool: who opens which shard, and what requests between nodes look like and are judged by.
//!
//! ```text
//!  TableStore ──▶ Keeper ──opens, closes──▶ ShardHost          wire ──frames──▶ Admission ──begins──▶ ShardHost
//! ```
//!
//! No daemon uses it yet: RFC 0018 tells what is missing.

mod admission;
mod keeper;
pub mod wire;

pub use admission::{Admission, NodeLink, REQUESTS_MAX, Refusal, Ticket, Turn};
pub use keeper::{Claimed, Keeper, KeeperConfig, ShardSource};
