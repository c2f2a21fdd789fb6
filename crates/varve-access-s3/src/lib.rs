//! The S3 front-end: HTTP and the protocol, users and their rights, over any
//! [`ObjectStore`](varve_object::ObjectStore).
//!
//! ```text
//!   request     sockets, TLS, limits; counting and logging; request ids, what stands around the library
//!     compat    what the library takes and should not, its bodies and its answers corrected
//!       s3s     HTTP <-> typed operations, signatures, XML (the library; nothing of it shows outside this crate)
//!     identity  may this caller do this?
//!       operations                the operations
//!         request::given, body    what a request says; bytes on their way
//!           bucket                settings and documents of buckets
//!             varve-object        rules, records, store
//! ```

mod answers;
mod body;
mod bucket;
mod clock;
mod compat;
mod figures;
pub mod fuzz;
mod gateway;
mod identity;
mod json;
mod operations;
mod request;

pub use answers::error::{Error, Result};
pub use body::seal::MasterKey;
pub use body::sealing::{KeyPlace, new_key, read_key, write_key};
pub use bucket::administration::{BucketChange, NewBucket};
pub use bucket::info::{BucketInfo, BucketQuota};
pub use bucket::moving::{
    ArrivingBucket, ArrivingChange, ChangeLog, NextPiece, ReceivedBody, StagedSoFar, StoredPart,
    StoredSettings, VersionQuery,
};
pub use figures::{GatewayFigures, LATENCY_BOUNDS_US, OperationFigures, STATUS_CLASSES};
pub use gateway::{Gateway, OpenedGateway, Options};
pub use identity::stored_users::{AddedUsers, StoredUsers};
pub use identity::users::{KeyInfo, NewKey, Users};
pub use request::server::{AcceptedClient, Clients, Tls};
pub use varve_object::{
    BucketId, MOVE_ADDRESS_BYTES_MAX, Move, MoveLast, MoveRemark, MoveState, MoveStep, User,
    Version, Versioning,
};
