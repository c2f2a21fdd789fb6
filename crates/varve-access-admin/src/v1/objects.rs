//! What travels in requests and answers about users of S3 and their buckets. Fields are only ever added.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use varve_types::{Compression, Dedup};

use crate::v1::bucket_moves::ArrivingBucket;
use crate::v1::types::VolumeMove;
use crate::v1::{compression, dedup};

/// A user of S3.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Identity in policies and access control lists.
    pub name: String,
    /// Name for people.
    pub display_name: String,
    /// Mail address, by which access control lists may name it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// May do everything.
    pub admin: bool,
    /// What it may do beside what it owns, a JSON document; absent: it has what it owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Most bytes in its buckets together; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Most buckets; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_buckets: Option<u64>,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
    /// Its access keys, in order.
    pub access_keys: Vec<AccessKey>,
    /// Whether it may have more access keys, on a shard that is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keys_incomplete: bool,
}

/// The public half of an access key.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct AccessKey {
    /// What requests name.
    pub access_key: String,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
}

/// Users, in the order of their names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct UserPage {
    /// At most as many as were asked for.
    pub users: Vec<User>,
    /// Where the next page begins: pass it as `after`. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why there may be users that no page lists: a shard is damaged. Absent where all are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// A user to be made, with an access key.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// 1 to 128 letters, digits and `-_.@$+=`.
    pub name: String,
    /// Name for people; the name if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Mail address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    /// May do everything.
    #[serde(default)]
    pub admin: bool,
    /// What it may do, a JSON document of at most 20 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Most bytes in its buckets together, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Most buckets, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_buckets: Option<u64>,
    /// Public half of a key that was made elsewhere; absent: random. Goes with `secret_key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// Its secret, 8 to 128 printable ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
}

/// An access key to be made: a random one, or one that was made elsewhere.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// Public half, 1 to 128 letters, digits and `-_.@$+=`; absent: random. Goes with `secret_key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key: Option<String>,
    /// Secret, 8 to 128 printable ASCII characters; absent: random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key: Option<String>,
}

/// An access key that was made just now. The secret is told here and never again.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct NewKey {
    /// Name of its user.
    pub user: String,
    /// Public half.
    pub access_key: String,
    /// Secret.
    pub secret_key: String,
}

/// What is to change of a user. What is absent stays.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeUser {
    /// What it may do, a JSON document of at most 20 KiB; empty: it has what it owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Most bytes in its buckets together, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Most buckets, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_buckets: Option<u64>,
}

impl ChangeUser {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A bucket and what it holds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Bucket {
    /// Name of the bucket.
    pub name: String,
    /// Number of the bucket in its pool; never reused.
    pub id: u64,
    /// Name of the user it belongs to.
    pub owner: String,
    /// Whether overwritten and deleted objects stay as versions.
    pub versioning: BucketVersioning,
    /// Whether objects may be locked.
    pub object_lock: bool,
    /// Objects in it, older versions counted.
    pub objects: u64,
    /// Sum of their sizes in bytes, before reduction.
    pub object_bytes: u64,
    /// Whether `objects` and `object_bytes` are not known, and 0, as a shard that may hold some is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub usage_unknown: bool,
    /// Most bytes; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Most objects; absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_objects: Option<u64>,
    /// Whether requests are logged.
    #[serde(default)]
    pub access_log: bool,
    /// Whether blocks of objects written from now on are deduplicated: `"auto"` (where it pays), `true` or `false`.
    #[serde(default, with = "dedup::setting")]
    #[schema(value_type = dedup::DedupSetting)]
    pub dedup: Dedup,
    /// How blocks of objects written from now on are compressed: `off`, `lz4` or `zstd:LEVEL`.
    #[serde(default, with = "compression::text")]
    #[schema(value_type = String)]
    pub compression: Compression,
    /// When it was made, in milliseconds since 1970 UTC.
    pub created_unix_ms: u64,
    /// Where it is on its way between two pools. Absent when it does not move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<VolumeMove>,
}

/// Whether overwritten and deleted objects stay as versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BucketVersioning {
    /// They do not, and never did.
    Off,
    /// They do.
    Enabled,
    /// They did once; those from then stay.
    Suspended,
}

/// Buckets, in the order of their names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct BucketPage {
    /// At most as many as were asked for.
    pub buckets: Vec<Bucket>,
    /// Where the next page begins: pass it as `after`. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why there may be buckets that no page lists: a shard is damaged. Absent where all are listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// A bucket to be made.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateBucket {
    /// 3 to 63 lower-case letters, digits, dots and hyphens, as in host names.
    pub name: String,
    /// Name of the user it is to belong to; absent: `owner`, the user made at the first start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Overwritten and deleted objects stay as versions.
    #[serde(default)]
    pub versioning: bool,
    /// Objects may be locked, which needs versions too.
    #[serde(default)]
    pub object_lock: bool,
    /// Most bytes, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Most objects, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_objects: Option<u64>,
    /// Whether blocks of its objects are deduplicated: `"auto"` (where it pays), `true` or `false`; `"auto"` when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "dedup::wish")]
    #[schema(value_type = Option<dedup::DedupSetting>)]
    pub dedup: Option<Dedup>,
    /// How blocks of its objects are compressed: `off`, `lz4`, `zstd` or `zstd:LEVEL`, 1 to 19; `lz4` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "compression::wish")]
    #[schema(value_type = Option<String>)]
    pub compression: Option<Compression>,
    /// It is to arrive from another pool: who owns it and what it may do stands in its record then, and nothing else is
    /// given but the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arriving: Option<ArrivingBucket>,
}

/// What is to change of a bucket. What is absent stays.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeBucket {
    /// Most bytes, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// Most objects, 0 for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_objects: Option<u64>,
    /// Whether requests are logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<bool>,
    /// Whether blocks of objects written from now on are deduplicated: `"auto"` (where it pays), `true` or `false`.
    /// What is stored stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "dedup::wish")]
    #[schema(value_type = Option<dedup::DedupSetting>)]
    pub dedup: Option<Dedup>,
    /// How blocks of objects written from now on are compressed: `off`, `lz4`, `zstd` or `zstd:LEVEL`, 1 to 19. What is
    /// stored stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "compression::wish")]
    #[schema(value_type = Option<String>)]
    pub compression: Option<Compression>,
}

impl ChangeBucket {
    /// Whether it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
