//! The endpoints of the S3 gateway. What they log names no secrets.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::v1::objects::{
    Bucket, BucketPage, ChangeBucket, ChangeUser, CreateBucket, CreateKey, CreateUser, NewKey,
    User, UserPage,
};
use crate::v1::routes::{Api, NamePath, PageQuery, checked_limit, malformed, name_in, query_in};

type PageQueryResult = std::result::Result<Query<PageQuery>, QueryRejection>;

pub(super) async fn users(
    State(api): State<Api>,
    query: PageQueryResult,
) -> Result<Json<UserPage>> {
    let query = query_in(query)?;
    let limit = checked_limit(query.limit)?;
    // One more tells whether there is a next page.
    let objects = api.backend.objects()?;
    let mut users = api.within_limit(objects.users(query.after, limit + 1)).await?;
    let more = users.len() > limit;
    users.truncate(limit);
    let next = if more { users.last().map(|user| user.name.clone()) } else { None };
    Ok(Json(UserPage { users, next, incomplete: objects.incomplete() }))
}

pub(super) async fn user(State(api): State<Api>, name: NamePath) -> Result<Json<User>> {
    let name = name_in(name)?;
    api.within_limit(api.backend.objects()?.user(name)).await.map(Json)
}

pub(super) async fn create_user(
    State(api): State<Api>,
    request: Request,
) -> Result<(StatusCode, Json<NewKey>)> {
    let spec: CreateUser = api.json_body(request).await?;
    check_pair(&spec.access_key, &spec.secret_key)?;
    let admin = spec.admin;
    let made = api.within_limit(api.backend.objects()?.create_user(spec)).await?;
    tracing::info!(user = made.user, admin, access_key = made.access_key, "user created");
    Ok((StatusCode::CREATED, Json(made)))
}

pub(super) async fn change_user(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<User>> {
    let name = name_in(name)?;
    let change: ChangeUser = api.json_body(request).await?;
    if change.is_empty() {
        return Err(Error::NothingToChange { what: "user", name });
    }
    let user = api.within_limit(api.backend.objects()?.change_user(name, change)).await?;
    tracing::info!(
        user = user.name,
        policy = user.policy.is_some(),
        quota_bytes = user.quota_bytes,
        quota_buckets = user.quota_buckets,
        "user changed"
    );
    Ok(Json(user))
}

/// Query of a deletion.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteQuery {
    #[serde(default)]
    leave_buckets: bool,
}

pub(super) async fn delete_user(
    State(api): State<Api>,
    name: NamePath,
    query: std::result::Result<Query<DeleteQuery>, QueryRejection>,
) -> Result<StatusCode> {
    let name = name_in(name)?;
    let query = query_in(query)?;
    let deleted = api.backend.objects()?.delete_user(name.clone(), query.leave_buckets);
    api.within_limit(deleted).await?;
    tracing::info!(user = name, "user deleted");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn create_key(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<(StatusCode, Json<NewKey>)> {
    let name = name_in(name)?;
    let spec: CreateKey = api.json_body(request).await?;
    check_pair(&spec.access_key, &spec.secret_key)?;
    let made = api.within_limit(api.backend.objects()?.create_key(name, spec)).await?;
    tracing::info!(user = made.user, access_key = made.access_key, "access key created");
    Ok((StatusCode::CREATED, Json(made)))
}

/// A key made elsewhere has both halves.
fn check_pair(access_key: &Option<String>, secret_key: &Option<String>) -> Result<()> {
    if access_key.is_some() == secret_key.is_some() {
        return Ok(());
    }
    Err(malformed("body", "access_key and secret_key go together"))
}

pub(super) async fn delete_key(State(api): State<Api>, name: NamePath) -> Result<StatusCode> {
    let name = name_in(name)?;
    api.within_limit(api.backend.objects()?.delete_key(name.clone())).await?;
    tracing::info!(access_key = name, "access key deleted");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn buckets(
    State(api): State<Api>,
    query: PageQueryResult,
) -> Result<Json<BucketPage>> {
    let query = query_in(query)?;
    let limit = checked_limit(query.limit)?;
    let objects = api.backend.objects()?;
    let mut buckets = api.within_limit(objects.buckets(query.after, limit + 1)).await?;
    let more = buckets.len() > limit;
    buckets.truncate(limit);
    let next = if more { buckets.last().map(|bucket| bucket.name.clone()) } else { None };
    Ok(Json(BucketPage { buckets, next, incomplete: objects.incomplete() }))
}

pub(super) async fn bucket(State(api): State<Api>, name: NamePath) -> Result<Json<Bucket>> {
    let name = name_in(name)?;
    api.within_limit(api.backend.objects()?.bucket(name)).await.map(Json)
}

pub(super) async fn create_bucket(
    State(api): State<Api>,
    request: Request,
) -> Result<(StatusCode, Json<Bucket>)> {
    let spec: CreateBucket = api.record_body(request).await?;
    check_arriving(&spec)?;
    let bucket = api.within_limit(api.backend.objects()?.create_bucket(spec)).await?;
    tracing::info!(bucket = bucket.name, owner = bucket.owner, "bucket created");
    Ok((StatusCode::CREATED, Json(bucket)))
}

pub(super) async fn change_bucket(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Bucket>> {
    let name = name_in(name)?;
    let change: ChangeBucket = api.json_body(request).await?;
    if change.is_empty() {
        return Err(Error::NothingToChange { what: "bucket", name });
    }
    let bucket = api.within_limit(api.backend.objects()?.change_bucket(name, change)).await?;
    tracing::info!(
        bucket = bucket.name,
        quota_bytes = bucket.quota_bytes,
        quota_objects = bucket.quota_objects,
        access_log = bucket.access_log,
        dedup = %bucket.dedup,
        compression = %bucket.compression,
        "bucket changed"
    );
    Ok(Json(bucket))
}

/// Of a bucket that arrives its record says everything.
fn check_arriving(spec: &CreateBucket) -> Result<()> {
    let CreateBucket { name, arriving, .. } = spec.clone();
    let alone = CreateBucket { name, arriving, ..CreateBucket::default() };
    if spec.arriving.is_some() && alone != *spec {
        return Err(malformed("body", "a bucket that arrives has its settings in its record"));
    }
    Ok(())
}
