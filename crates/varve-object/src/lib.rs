//! Buckets and objects: what a store of them promises ([`ObjectStore`]), and the rules of versions, conditions and
//! locks, which stand above every store and are written once.
//!
//! ```text
//!   access-s3
//!       |
//!    rules, attributes, settings      pure: what a change does to a key, what the records say
//!       |
//!    ObjectStore                      bodies, versions of keys, uploads, buckets, records: atomic and durable,
//!       |                             without opinions
//!    memory | engine
//! ```

mod acl;
mod attributes;
mod engine;
mod error;
mod fields;
mod listing;
#[cfg(feature = "memory")]
mod memory;
mod moving;
pub mod rules;
mod settings;
pub mod shelf;
mod store;
mod user;

pub use acl::{Acl, Grant, Grantee, Permission};
pub use attributes::{
    Attributes, Checksum, ChecksumKind, Encryption, KeyHolder, PartEntry, Retention,
};
pub use engine::{BucketRecord, EngineOptions, EngineStore, oldest_request};
pub use error::{Error, Result};
pub use listing::{CursorStep, Item, ListPage, ListQuery, Lister, Marker};
#[cfg(feature = "memory")]
pub use memory::MemoryStore;
pub use settings::{Document, Settings, Versioning};
pub use store::{
    Body, BodyReader, BodyWriter, Bucket, BucketId, BucketOptions, BucketUsage, ChangeKey,
    ChangeRecord, FoundVersion, KeyChange, KeyView, MoveStep, NewBody, NewVersion, ObjectStore,
    PartRef, Patience, RecordTable, SMALL_BODY_MAX, Select, StagedBody, Upload, UploadId,
    UploadPart, Version, Watch,
};
pub use user::{AccessKey, User};
pub use varve_dataset::{MOVE_ADDRESS_BYTES_MAX, Move, MoveLast, MoveRemark, MoveState};
