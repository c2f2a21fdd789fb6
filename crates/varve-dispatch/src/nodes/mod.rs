//! Several nodes and one pool: who opens which shard, and what requests between nodes look like and are judged by.
//!
//! ```text
//!  TableStore ──▶ Keeper ──opens, closes──▶ ShardHost ◀── Inbox ◀──frames── Pipe ◀── Router of another node
//!                                               ▲           └── Admission: begun, waits, refused
//!  client ──▶ Router ──served here──────────────┘
//!                └──by the table──▶ Pipe
//! ```
//!
//! No daemon uses it yet: RFC 0018 tells what is missing.

mod admission;
mod connections;
mod inbox;
mod keeper;
mod outgoing;
mod perform;
mod pipe;
mod router;
mod tls;
pub mod wire;

pub use admission::{Admission, NodeLink, REQUESTS_MAX, Refusal, Ticket, Turn};
pub use connections::{Connection, Connections};
pub use inbox::Inbox;
pub use keeper::{Claimed, Keeper, KeeperConfig, ShardSource};
pub use pipe::{Connector, Pipe, PipeBroken};
pub use router::{Router, RouterConfig};
pub use tls::NodeKey;
