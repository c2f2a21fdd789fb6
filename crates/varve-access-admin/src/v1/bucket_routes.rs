//! The endpoints by which buckets move between two pools. Requests with bodies of objects are few at a time
//! ([`Api::bulk_place`]).

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::{Error, Result};
use crate::v1::bucket_moves::{
    AddedUsersAndKeys, BucketChanges, BucketSettings, MoveBucket, PartRead, PartsRead, ReadParts,
    Receive, ReceivedBody, ReceivedChange, ReplaceSettings, Stage, StagedPiece, UsersAndKeys,
    VersionPage, VersionsWanted,
};
use crate::v1::bulk;
use crate::v1::objects::Bucket;
use crate::v1::routes::{
    Api, ExpectsQuery, NamePath, checked_limit, essence, malformed, name_in, query_in,
};
use crate::v1::types::VolumeMove;

/// Bytes with the right to hold them in memory.
struct HeldBytes {
    bytes: Bytes,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

pub(super) async fn move_bucket(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Bucket>> {
    let name = name_in(name)?;
    let step: MoveBucket = api.json_body(request).await?;
    let bucket = api.within_limit(api.backend.objects()?.move_bucket(name, step)).await?;
    let moves = bucket.moves.as_ref();
    let state = moves.map(|moves| format!("{:?}", moves.state));
    let other_side = moves.map(VolumeMove::other_side);
    tracing::info!(bucket = bucket.name, state, other_side, "bucket moves");
    Ok(Json(bucket))
}

pub(super) async fn settings(
    State(api): State<Api>,
    name: NamePath,
) -> Result<Json<BucketSettings>> {
    let name = name_in(name)?;
    api.within_limit(api.backend.objects()?.bucket_settings(name)).await.map(Json)
}

pub(super) async fn replace_settings(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Bucket>> {
    let name = name_in(name)?;
    let new: ReplaceSettings = api.record_body(request).await?;
    api.within_limit(api.backend.objects()?.replace_settings(name, new)).await.map(Json)
}

/// Query of a listing of versions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VersionsQuery {
    key: Option<String>,
    after_key: Option<String>,
    after_order: Option<u64>,
    limit: Option<usize>,
}

impl VersionsQuery {
    fn validate(self) -> Result<VersionsWanted> {
        let Self { key, after_key, after_order, limit } = self;
        let limit = checked_limit(limit)?;
        let after = match (&key, after_key, after_order) {
            (None, Some(after), order) => Some((after, order)),
            (Some(key), None, Some(order)) => Some((key.clone(), Some(order))),
            (_, None, None) => None,
            (Some(_), Some(_), _) => {
                return Err(malformed("query", "`key` has all versions of that key alone"));
            }
            (None, None, Some(_)) => {
                return Err(malformed("query", "`after_order` is an order of `after_key`"));
            }
        };
        Ok(VersionsWanted { key, after, limit })
    }
}

pub(super) async fn versions(
    State(api): State<Api>,
    name: NamePath,
    query: std::result::Result<Query<VersionsQuery>, QueryRejection>,
) -> Result<Json<VersionPage>> {
    let name = name_in(name)?;
    let query = query_in(query)?;
    let wanted = query.validate()?;
    api.within_limit(api.backend.objects()?.versions(name, wanted)).await.map(Json)
}

pub(super) async fn read(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Response> {
    let name = name_in(name)?;
    let place = api.bulk_place().await;
    let wanted: ReadParts = api.json_body_up_to(request, bulk::REQUEST_BYTES_MAX).await?;
    let sum = wanted.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.bytes));
    if sum.is_none_or(|sum| sum > bulk::BODIES_BYTES_MAX) || wanted.parts.len() > bulk::CHANGES_MAX
    {
        return Err(too_much("parts"));
    }
    let found = api.within_limit(api.backend.objects()?.read_parts(name, wanted)).await?;
    let parts = found.iter().map(|(total_bytes, bytes)| PartRead {
        total_bytes: *total_bytes,
        bytes: bytes.len() as u64,
        crc32c: bulk::crc32c(bytes),
    });
    let head = PartsRead { parts: parts.collect() };
    let bodies: Vec<&Bytes> = found.iter().map(|(_, bytes)| bytes).collect();
    let answer = bulk::with_bodies(&head, &bodies);
    let answer = Bytes::from_owner(HeldBytes { bytes: answer.into(), _place: place });
    let kind = HeaderValue::from_static(bulk::CONTENT_TYPE);
    Ok(([(header::CONTENT_TYPE, kind)], Body::from(answer)).into_response())
}

pub(super) async fn receive(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<StatusCode> {
    let name = name_in(name)?;
    let whole = api.bulk_body(request).await?;
    let wrong = |why: String| malformed("body", &why);
    let (receive, following): (Receive, Bytes) = bulk::split(&whole).map_err(wrong)?;
    if receive.changes.len() > bulk::CHANGES_MAX || following.len() as u64 > bulk::BODIES_BYTES_MAX
    {
        return Err(too_much("changes"));
    }
    let inline = receive.changes.iter().filter_map(|change| match change {
        ReceivedChange::Put(put) => match put.body {
            Some(ReceivedBody::Inline { bytes, crc32c }) => Some((bytes, crc32c)),
            Some(ReceivedBody::Staged { .. }) | None => None,
        },
        ReceivedChange::Remove(_) => None,
    });
    let bodies = bulk::pieces(&following, inline).map_err(wrong)?;
    check_bodies(&receive, &bodies)?;
    api.within_limit(api.backend.objects()?.receive(name, receive, bodies)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Objects have a body, delete markers have none, and none that comes with the changes is long.
fn check_bodies(receive: &Receive, bodies: &[Bytes]) -> Result<()> {
    if bodies.iter().any(|body| body.len() as u64 > bulk::INLINE_BYTES_MAX) {
        return Err(malformed("body", "a body of more than 64 KiB is staged first"));
    }
    let is_wrong = |change: &ReceivedChange| match change {
        ReceivedChange::Put(put) => put.version.marker == put.body.is_some(),
        ReceivedChange::Remove(_) => false,
    };
    if receive.changes.iter().any(is_wrong) {
        return Err(malformed("body", "objects have a body, and delete markers have none"));
    }
    Ok(())
}

pub(super) async fn stage(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<StagedPiece>> {
    let name = name_in(name)?;
    let whole = api.bulk_body(request).await?;
    let wrong = |why: String| malformed("body", &why);
    let (stage, following): (Stage, Bytes) = bulk::split(&whole).map_err(wrong)?;
    if stage.bytes > bulk::BODIES_BYTES_MAX {
        return Err(too_much("bytes"));
    }
    if stage.offset.checked_add(stage.bytes).is_none_or(|end| end > stage.total_bytes) {
        return Err(malformed("body", "the piece ends behind the whole body"));
    }
    let pieces = bulk::pieces(&following, [(stage.bytes, stage.crc32c)]).map_err(wrong)?;
    let piece = pieces.into_iter().next().unwrap_or_default();
    api.within_limit(api.backend.objects()?.stage(name, stage, piece)).await.map(Json)
}

/// Query of what changed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChangesQuery {
    since: Option<String>,
}

pub(super) async fn changes(
    State(api): State<Api>,
    name: NamePath,
    query: std::result::Result<Query<ChangesQuery>, QueryRejection>,
) -> Result<Json<BucketChanges>> {
    let name = name_in(name)?;
    let query = query_in(query)?;
    api.within_limit(api.backend.objects()?.changes(name, query.since)).await.map(Json)
}

pub(super) async fn delete(
    State(api): State<Api>,
    name: NamePath,
    query: std::result::Result<Query<ExpectsQuery>, QueryRejection>,
) -> Result<Response> {
    let name = name_in(name)?;
    let expects = query_in(query)?.expects()?;
    let objects = api.backend.objects()?;
    let Some(expects) = expects else {
        api.within_limit(objects.delete_bucket(name.clone())).await?;
        tracing::info!(bucket = name, "bucket deleted");
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let deletion = api.within_limit(objects.delete_left(name.clone(), expects)).await?;
    if deletion.done {
        tracing::info!(bucket = name, "bucket that left deleted");
    }
    Ok(Json(deletion).into_response())
}

/// Query of a page of users and keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UsersQuery {
    after: Option<String>,
}

pub(super) async fn users_and_keys(
    State(api): State<Api>,
    query: std::result::Result<Query<UsersQuery>, QueryRejection>,
) -> Result<Json<UsersAndKeys>> {
    let query = query_in(query)?;
    api.within_limit(api.backend.objects()?.users_and_keys(query.after)).await.map(Json)
}

pub(super) async fn add_users_and_keys(
    State(api): State<Api>,
    request: Request,
) -> Result<Json<AddedUsersAndKeys>> {
    let all: UsersAndKeys = api.record_body(request).await?;
    let added = api.within_limit(api.backend.objects()?.add_users_and_keys(all)).await?;
    let (users, keys, kept) = (added.added_users.len(), added.added_keys.len(), added.kept.len());
    tracing::info!(users, keys, kept, "users and access keys of another pool added");
    Ok(Json(added))
}

fn too_much(what: &str) -> Error {
    let (most, bytes) = (bulk::CHANGES_MAX, bulk::BODIES_BYTES_MAX);
    malformed("body", &format!("{what}: at most {most}, of {bytes} bytes together"))
}

impl Api {
    /// A place for a request with bodies: waits until there is memory for it.
    async fn bulk_place(&self) -> OwnedSemaphorePermit {
        let place = std::sync::Arc::clone(&self.bulk).acquire_owned().await;
        place.expect("the semaphore is never closed")
    }

    /// A request with bodies; whoever has a part of it keeps its place.
    async fn bulk_body(&self, request: Request) -> Result<Bytes> {
        if essence(request.headers()) != bulk::CONTENT_TYPE {
            return Err(Error::BulkType);
        }
        let place = self.bulk_place().await;
        let limit_bytes = bulk::REQUEST_BYTES_MAX;
        let bytes = axum::body::to_bytes(request.into_body(), limit_bytes).await;
        let bytes = bytes.map_err(|_| Error::Body { limit_bytes })?;
        Ok(Bytes::from_owner(HeldBytes { bytes, _place: place }))
    }
}
