//! What the API asks of the S3 gateway behind it: users, their keys, buckets.

use axum::body::Bytes;

use crate::backend::AdminFuture;
use crate::v1::{
    AddedUsersAndKeys, Bucket, BucketChanges, BucketDeletion, BucketSettings, ChangeBucket,
    ChangeUser, CreateBucket, CreateKey, CreateUser, MoveBucket, NewKey, ReadParts, Receive,
    ReplaceSettings, Stage, StagedPiece, User, UsersAndKeys, VersionPage, VersionsWanted,
    VolumeMove,
};

/// The S3 gateway, as the admin API sees it. Changes are durable when their future resolves.
pub trait ObjectBackend: Send + Sync {
    /// Why lists of users and buckets may lack some, if they may.
    fn incomplete(&self) -> Option<String>;

    /// Up to `limit` users behind `after`, by name, of those that can be read.
    fn users(&self, after: Option<String>, limit: usize) -> AdminFuture<'_, Vec<User>>;

    /// One user. `NotFound`.
    fn user(&self, name: String) -> AdminFuture<'_, User>;

    /// Creates a user with an access key. `Exists` for either, `Invalid`.
    fn create_user(&self, spec: CreateUser) -> AdminFuture<'_, NewKey>;

    /// Changes policy and quotas of a user. `NotFound`, `Invalid`.
    fn change_user(&self, name: String, change: ChangeUser) -> AdminFuture<'_, User>;

    /// Deletes a user with its keys. `NotFound`; `Conflict` when it owns buckets, unless they may be left.
    fn delete_user(&self, name: String, leave_buckets: bool) -> AdminFuture<'_, ()>;

    /// Makes an access key. `NotFound` for the user, `Exists`, `Invalid`.
    fn create_key(&self, user: String, spec: CreateKey) -> AdminFuture<'_, NewKey>;

    /// Deletes an access key. `NotFound`.
    fn delete_key(&self, access_key: String) -> AdminFuture<'_, ()>;

    /// Up to `limit` buckets behind `after`, by name, of those that can be read.
    fn buckets(&self, after: Option<String>, limit: usize) -> AdminFuture<'_, Vec<Bucket>>;

    /// One bucket. `NotFound`.
    fn bucket(&self, name: String) -> AdminFuture<'_, Bucket>;

    /// Makes a bucket. `Exists`, `Invalid` for the name, `NotFound` for the owner.
    fn create_bucket(&self, spec: CreateBucket) -> AdminFuture<'_, Bucket>;

    /// Changes quotas of a bucket, how its new objects are reduced, and whether its requests are logged. `NotFound`.
    fn change_bucket(&self, name: String, change: ChangeBucket) -> AdminFuture<'_, Bucket>;

    /// Deletes a bucket. `NotFound`; `Conflict` when something is in it.
    fn delete_bucket(&self, name: String) -> AdminFuture<'_, ()>;

    /// Takes a bucket a step further on its way between two pools. `NotFound`, `Invalid`; `Conflict` when it is
    /// elsewhere on its way, or is another one; `Unavailable` when changes of it do not end.
    fn move_bucket(&self, name: String, step: MoveBucket) -> AdminFuture<'_, Bucket>;

    /// What a bucket is beside what is in it. `NotFound`.
    fn bucket_settings(&self, name: String) -> AdminFuture<'_, BucketSettings>;

    /// Replaces the record of a bucket that arrives. `NotFound`, `Invalid`; `Conflict` when it is elsewhere.
    fn replace_settings(&self, name: String, new: ReplaceSettings) -> AdminFuture<'_, Bucket>;

    /// A page of versions, of at most 4 MiB of JSON. `NotFound`.
    fn versions(&self, name: String, wanted: VersionsWanted) -> AdminFuture<'_, VersionPage>;

    /// Parts of stored bodies, each with the length of the whole one. `NotFound` when a version is gone.
    fn read_parts(&self, name: String, wanted: ReadParts) -> AdminFuture<'_, Vec<(u64, Bytes)>>;

    /// Changes a bucket that arrives; `bodies` are those of the versions that come with theirs, in order. `NotFound`,
    /// `Invalid`; `Conflict` when the bucket is elsewhere on its way, a version is there already or not the newest, or
    /// no body was staged.
    fn receive(&self, name: String, receive: Receive, bodies: Vec<Bytes>) -> AdminFuture<'_, ()>;

    /// Takes a piece of a long body for a bucket that arrives. `NotFound`; `Conflict` when the bucket is elsewhere on
    /// its way, or the piece is not the next one; `Unavailable` when too many are under way.
    fn stage(&self, name: String, stage: Stage, piece: Bytes) -> AdminFuture<'_, StagedPiece>;

    /// What changed in a bucket since a token was given; notes what changes from then on. `NotFound`.
    fn changes(&self, name: String, since: Option<String>) -> AdminFuture<'_, BucketChanges>;

    /// Deletes some of a bucket that left, and the bucket with the last of it. `NotFound`; `Conflict` when it is
    /// elsewhere on its way.
    fn delete_left(&self, name: String, expects: VolumeMove) -> AdminFuture<'_, BucketDeletion>;

    /// A page of users and access keys as they are stored, of about 1 MiB.
    fn users_and_keys(&self, after: Option<String>) -> AdminFuture<'_, UsersAndKeys>;

    /// Adds those that are not there. `Conflict` when their secrets are sealed with another key, `Invalid`.
    fn add_users_and_keys(&self, all: UsersAndKeys) -> AdminFuture<'_, AddedUsersAndKeys>;
}
