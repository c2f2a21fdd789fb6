//! The S3 front-end: HTTP and the protocol, users and their rights, over any
//! [`ObjectStore`](varve_object::ObjectStore).
//!
//! ```text
//!   server     sockets, TLS, limits
//!     account  counts and logs each request when its answer has ended
//!     front    request ids, cross-origin answers, digests and shape of documents, complete errors
//!       website  visitors of buckets, as requests without a signature
//!       s3s    HTTP <-> typed operations, signatures, XML (the library; nothing of it shows outside this crate)
//!         access    may this caller do this?
//!         ops       the operations
//!           given, receive, cipher, sums, md5_queue    what a request says; bodies on their way
//!             varve-object                  rules, records, store
//! ```

mod access;
mod access_log;
mod account;
mod acl;
mod body_memory;
mod bucket_info;
mod bucket_name;
mod bucket_view;
mod buckets;
mod chain;
mod cipher;
mod clock;
mod connections;
mod cors;
mod digests;
mod error;
mod figures;
mod form;
mod frames;
mod front;
pub mod fuzz;
mod gateway;
mod given;
mod health;
mod hosts;
mod json;
mod lifecycle;
mod md5_queue;
mod misdirected;
mod moving;
mod operation;
mod ops;
mod owner;
mod policy;
mod query;
mod receive;
mod repair;
mod seal;
mod sealing;
mod server;
mod service;
mod signed;
mod stored_users;
mod sums;
mod users;
mod website;
mod wording;
mod xml;

pub use bucket_info::{BucketInfo, BucketQuota};
pub use buckets::{BucketChange, NewBucket};
pub use error::{Error, Result};
pub use figures::{GatewayFigures, LATENCY_BOUNDS_US, OperationFigures, STATUS_CLASSES};
pub use gateway::{Gateway, OpenedGateway, Options};
pub use moving::{
    ArrivingBucket, ArrivingChange, ChangeLog, NextPiece, ReceivedBody, StagedSoFar, StoredPart,
    StoredSettings, VersionQuery,
};
pub use seal::MasterKey;
pub use sealing::{KeyPlace, new_key, read_key, write_key};
pub use server::{AcceptedClient, Clients, Tls};
pub use stored_users::{AddedUsers, StoredUsers};
pub use users::{KeyInfo, NewKey, Users};
pub use varve_object::{
    BucketId, MOVE_ADDRESS_BYTES_MAX, Move, MoveLast, MoveRemark, MoveState, MoveStep, User,
    Version, Versioning,
};
