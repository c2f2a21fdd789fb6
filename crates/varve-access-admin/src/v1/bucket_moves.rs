//! Buckets on their way between two pools, as JSON. Bodies go beside it ([`bulk`](super::bulk)).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::encoded::Base64;
use crate::v1::types::VolumeMove;

/// A bucket that is to arrive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrivingBucket {
    /// Where it comes from, and the run that moves it; `arriving`.
    pub moves: VolumeMove,
    /// Its record at the source, as that tells it.
    pub record: Base64,
    /// Whether its bodies share no chunks with anything else.
    pub private_copy: bool,
}

/// A step of the move of a bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveBucket {
    /// Where the bucket has to be; absent when it should not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<VolumeMove>,
    /// Where it is then; absent when it does not move any more. Absent from `arriving` on too: it is `arrived` then,
    /// with `from_number`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<VolumeMove>,
    /// Number that the bucket has to have; not compared when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// From `arriving` to `arrived`: number of the bucket at its source, which it says from then on (`bucket`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_number: Option<u64>,
}

/// What a bucket is beside what is in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BucketSettings {
    /// Number of the bucket in its pool; never reused.
    pub number: u64,
    /// Whether its bodies share no chunks with anything else.
    pub private_copy: bool,
    /// Owner and settings, as they are stored.
    pub record: Base64,
    /// Uploads in parts that are under way, counted up to 1000.
    pub uploads: u64,
}

/// What the settings of an arriving bucket become.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplaceSettings {
    /// Where the bucket has to be.
    pub expects: VolumeMove,
    /// Owner and settings, as the source tells them.
    pub record: Base64,
}

/// A version of a key, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoredVersion {
    /// The key.
    pub key: String,
    /// Its place among the versions of the key: the highest is the newest.
    pub order: u64,
    /// The version without an id; at most one a key.
    pub null: bool,
    /// A delete marker: no body.
    pub marker: bool,
    /// Length of the object as its clients see it, in bytes.
    pub size: u64,
    /// When it was made, in milliseconds since 1970 UTC.
    pub modified_ms: u64,
    /// Everything else, as it is stored.
    pub attributes: Base64,
}

/// Versions in the order of their keys, those of a key from the newest on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct VersionPage {
    /// At most as many as were asked for, and fewer where they are long.
    pub versions: Vec<StoredVersion>,
    /// Something follows: ask with the last one's key and order.
    pub more: bool,
}

/// Which versions are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VersionsWanted {
    /// Only those of this key.
    pub key: Option<String>,
    /// Only those behind this key; with an order, its older versions too.
    pub after: Option<(String, Option<u64>)>,
    /// At most so many.
    pub limit: usize,
}

/// Parts of bodies that are asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadParts {
    /// At most 1000, of at most 8 MiB together.
    pub parts: Vec<PartWanted>,
}

/// A part of the body of a version, as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PartWanted {
    /// The key.
    pub key: String,
    /// The version's order.
    pub order: u64,
    /// First byte of the stored body.
    pub offset: u64,
    /// Most bytes; what is behind the end of the body is left out.
    pub bytes: u64,
}

/// What stands before the parts that were read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PartsRead {
    /// Each of those that were asked for, in their order.
    pub parts: Vec<PartRead>,
}

/// A part that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct PartRead {
    /// Length of the whole stored body in bytes.
    pub total_bytes: u64,
    /// Length of the part in bytes.
    pub bytes: u64,
    /// CRC-32C of the part.
    pub crc32c: u32,
}

/// Changes of an arriving bucket; what stands before the bodies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Receive {
    /// Where the bucket has to be.
    pub expects: VolumeMove,
    /// At most 1000; those of one key are carried out in their order.
    pub changes: Vec<ReceivedChange>,
}

/// A change of an arriving bucket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReceivedChange {
    /// This version goes, if it is there.
    Remove(VersionName),
    /// This version comes. It is newer than every version of its key that is there.
    Put(ReceivedVersion),
}

/// Names a version.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionName {
    /// The key.
    pub key: String,
    /// Its order.
    pub order: u64,
}

/// A version that comes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReceivedVersion {
    /// The version.
    pub version: StoredVersion,
    /// Its body; absent for a delete marker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<ReceivedBody>,
}

/// Where the body of a version that comes is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReceivedBody {
    /// Behind this head: at most 64 KiB.
    Inline {
        /// Its bytes.
        bytes: u64,
        /// CRC-32C of them.
        crc32c: u32,
    },
    /// It was staged before, and is used up.
    Staged {
        /// What staging said.
        id: u64,
    },
}

/// A piece of a long body of an arriving bucket; what stands before its bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Where the bucket has to be.
    pub expects: VolumeMove,
    /// Key of the version that the body is for.
    pub key: String,
    /// Length of the whole body in bytes.
    pub total_bytes: u64,
    /// Which body; absent for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Where the piece begins: what was received so far.
    pub offset: u64,
    /// Length of the piece in bytes, at most 8 MiB.
    pub bytes: u64,
    /// CRC-32C of the piece.
    pub crc32c: u32,
}

/// How far a body is staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct StagedPiece {
    /// What it is called from now on.
    pub id: u64,
    /// Bytes that were received so far; all of them: it can be received as the body of a version.
    pub received_bytes: u64,
}

/// What changed in a bucket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BucketChanges {
    /// What to ask with the next time.
    pub token: String,
    /// What changed since is not known: everything has to be compared. What changes from now on is noted.
    pub whole: bool,
    /// Keys that changed, each once.
    pub keys: Vec<String>,
    /// The record changed.
    pub settings_changed: bool,
}

/// How far the deletion of a bucket that left is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BucketDeletion {
    /// Versions that are left.
    pub left: u64,
    /// It is gone. Else it is to be asked for again.
    pub done: bool,
}

/// Users and access keys as they are stored.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UsersAndKeys {
    /// Equal where secrets are sealed with the same key, and tells nothing else of it.
    pub key_check: String,
    /// Users.
    pub users: Vec<StoredUser>,
    /// Access keys: all users come before the first of them.
    pub keys: Vec<StoredKey>,
    /// Where the next page begins: pass it as `after`. Absent on the last page, and of no meaning in a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A user as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoredUser {
    /// Its name.
    pub name: String,
    /// What is stored of it.
    pub record: Base64,
}

/// An access key as it is stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoredKey {
    /// Its public half.
    pub access_key: String,
    /// What is stored of it; the secret is sealed.
    pub record: Base64,
}

/// What came of adding users and keys.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AddedUsersAndKeys {
    /// Users that are new.
    pub added_users: Vec<String>,
    /// Access keys that are new.
    pub added_keys: Vec<String>,
    /// Users and access keys that were there, and differ: they stay as they were.
    pub kept: Vec<String>,
}
