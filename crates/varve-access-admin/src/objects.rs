//! What the API asks of the S3 gateway behind it: users, their keys, buckets.

use crate::backend::AdminFuture;
use crate::v1::{
    Bucket, ChangeBucket, ChangeUser, CreateBucket, CreateKey, CreateUser, NewKey, User,
};

/// The S3 gateway, as the admin API sees it. Changes are durable when their future resolves.
pub trait ObjectBackend: Send + Sync {
    /// Up to `limit` users behind `after`, by name.
    fn users(&self, after: Option<String>, limit: usize) -> AdminFuture<'_, Vec<User>>;

    /// One user. `NotFound`.
    fn user(&self, name: String) -> AdminFuture<'_, User>;

    /// Makes a user with an access key. `Exists` for either, `Invalid`.
    fn create_user(&self, spec: CreateUser) -> AdminFuture<'_, NewKey>;

    /// Changes policy and quotas of a user. `NotFound`, `Invalid`.
    fn change_user(&self, name: String, change: ChangeUser) -> AdminFuture<'_, User>;

    /// Deletes a user with its keys. `NotFound`; `Conflict` when it owns buckets, unless they may be left.
    fn delete_user(&self, name: String, leave_buckets: bool) -> AdminFuture<'_, ()>;

    /// Makes an access key. `NotFound` for the user, `Exists`, `Invalid`.
    fn create_key(&self, user: String, spec: CreateKey) -> AdminFuture<'_, NewKey>;

    /// Deletes an access key. `NotFound`.
    fn delete_key(&self, access_key: String) -> AdminFuture<'_, ()>;

    /// Up to `limit` buckets behind `after`, by name.
    fn buckets(&self, after: Option<String>, limit: usize) -> AdminFuture<'_, Vec<Bucket>>;

    /// One bucket. `NotFound`.
    fn bucket(&self, name: String) -> AdminFuture<'_, Bucket>;

    /// Makes a bucket. `Exists`, `Invalid` for the name, `NotFound` for the owner.
    fn create_bucket(&self, spec: CreateBucket) -> AdminFuture<'_, Bucket>;

    /// Changes quotas of a bucket, and whether its requests are logged. `NotFound`.
    fn change_bucket(&self, name: String, change: ChangeBucket) -> AdminFuture<'_, Bucket>;

    /// Deletes a bucket. `NotFound`; `Conflict` when something is in it.
    fn delete_bucket(&self, name: String) -> AdminFuture<'_, ()>;
}
