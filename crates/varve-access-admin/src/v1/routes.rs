//! The endpoints: decode, ask the backend within its time limit, encode.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use varve_types::{ByteCount, ErrorKind};

use crate::backend::{AdminBackend, AdminFuture};
use crate::error::{Error, Result};
use crate::metrics;
use crate::server::LimitsConfig;
use crate::v1::checks::CheckStatus;
use crate::v1::drives::{DriveList, Health};
use crate::v1::types::{
    ChangeVolume, CreateVolume, DeleteVolume, Pool, ShardState, ShardStatus, Space, Status, Volume,
    VolumeFamily, VolumeMove, VolumePage,
};
use crate::v1::{
    bucket_routes, bulk, client_routes, drive_routes, object_routes, openapi, snapshot_routes,
};

/// Things in a page when the request does not say.
pub const PAGE_DEFAULT: usize = 1000;

/// Most things in a page: an answer of about 4 MiB.
pub const PAGE_MAX: usize = 10_000;

/// Largest request with records of the gateway in bytes: that of a bucket has up to 1 MiB.
const RECORDS_BYTES_MAX: usize = 2 << 20;

/// Whether the process runs; needs no token.
pub const LIVE_PATH: &str = "/health/live";
/// Whether requests are served; needs no token.
const READY_PATH: &str = "/health/ready";

/// Whether an endpoint needs no token.
pub(crate) fn is_open(path: &str) -> bool {
    [LIVE_PATH, READY_PATH].contains(&path)
}

/// What every endpoint needs.
#[derive(Clone)]
pub(crate) struct Api {
    pub(super) backend: Arc<dyn AdminBackend>,
    limits: LimitsConfig,
    /// Places for requests with bodies of objects.
    pub(super) bulk: Arc<Semaphore>,
}

/// All endpoints over one backend. Listeners of one server share the places for requests with bodies.
pub(crate) fn router(
    backend: Arc<dyn AdminBackend>,
    limits: LimitsConfig,
    bulk: Arc<Semaphore>,
) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/pool", get(pool).patch(drive_routes::change_pool))
        .route("/v1/drives", get(drives).post(drive_routes::add))
        .route(
            "/v1/drives/{name}",
            get(drive_routes::show).patch(drive_routes::change).delete(drive_routes::remove),
        )
        .route("/v1/drives/{name}/locate", post(drive_routes::locate))
        .route("/v1/drives/{name}/drain", post(drive_routes::drain).delete(drive_routes::keep))
        .route("/v1/drives/{name}/replace", post(drive_routes::replace))
        .route("/v1/drives/{name}/grow", post(drive_routes::grow))
        .route("/v1/moves", get(drive_routes::moves))
        .route(
            "/v1/scrub",
            get(drive_routes::scrub)
                .post(drive_routes::start_scrub)
                .delete(drive_routes::stop_scrub),
        )
        .route("/v1/health", get(health))
        .route("/v1/space", get(space))
        .route("/v1/volumes", get(list_volumes).post(create_volume))
        .route("/v1/volumes/{name}", get(show_volume).patch(change_volume).delete(delete_volume))
        .route("/v1/volumes/{name}/space", get(volume_space))
        .route("/v1/volumes/{name}/clients", get(client_routes::list))
        .route("/v1/volumes/{name}/disconnect", post(client_routes::disconnect))
        .route("/v1/volumes/{name}/rollback", post(snapshot_routes::roll_back))
        .route("/v1/volumes/{name}/receive", post(snapshot_routes::begin_receive))
        .route("/v1/volumes/{name}/received", post(snapshot_routes::end_receive))
        .route("/v1/volumes/{name}/move", post(snapshot_routes::move_volume))
        .route("/v1/clones", post(snapshot_routes::clone))
        .route("/v1/snapshots", get(snapshot_routes::list).post(snapshot_routes::create))
        .route(
            "/v1/snapshots/{name}",
            get(snapshot_routes::show)
                .patch(snapshot_routes::change)
                .delete(snapshot_routes::delete),
        )
        .route("/v1/extents/{name}", get(snapshot_routes::extents))
        .merge(objects())
        .route("/v1/check", get(check).post(start_check).delete(stop_check))
        .route("/v1/openapi.json", get(describe))
        .route("/metrics", get(read_metrics))
        .route(LIVE_PATH, get(|| async { "live\n" }))
        .route(READY_PATH, get(ready))
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .with_state(Api { backend, limits, bulk })
}

/// The endpoints of the S3 gateway.
fn objects() -> Router<Api> {
    use {bucket_routes as moving, object_routes as routes};
    Router::new()
        .route("/v1/users", get(routes::users).post(routes::create_user))
        .route(
            "/v1/users/{name}",
            get(routes::user).patch(routes::change_user).delete(routes::delete_user),
        )
        .route("/v1/users/{name}/keys", post(routes::create_key))
        .route("/v1/keys/{name}", delete(routes::delete_key))
        .route("/v1/buckets", get(routes::buckets).post(routes::create_bucket))
        .route(
            "/v1/buckets/{name}",
            get(routes::bucket).patch(routes::change_bucket).delete(moving::delete),
        )
        .route("/v1/buckets/{name}/move", post(moving::move_bucket))
        .route("/v1/buckets/{name}/settings", get(moving::settings).put(moving::replace_settings))
        .route("/v1/buckets/{name}/versions", get(moving::versions))
        .route("/v1/buckets/{name}/read", post(moving::read))
        .route("/v1/buckets/{name}/receive", post(moving::receive))
        .route("/v1/buckets/{name}/stage", post(moving::stage))
        .route("/v1/buckets/{name}/changes", get(moving::changes))
        .route("/v1/users-and-keys", get(moving::users_and_keys).post(moving::add_users_and_keys))
}

async fn status(State(api): State<Api>) -> Result<Json<Status>> {
    api.within_limit(api.backend.status()).await.map(Json)
}

async fn pool(State(api): State<Api>) -> Result<Json<Pool>> {
    api.within_limit(api.backend.pool()).await.map(Json)
}

async fn drives(State(api): State<Api>) -> Result<Json<DriveList>> {
    api.within_limit(api.backend.drives()).await.map(Json)
}

async fn health(State(api): State<Api>) -> Result<Json<Health>> {
    api.within_limit(api.backend.health()).await.map(Json)
}

async fn space(State(api): State<Api>) -> Result<Json<Space>> {
    api.counted(api.backend.space()).await.map(Json)
}

async fn volume_space(State(api): State<Api>, name: NamePath) -> Result<Json<VolumeFamily>> {
    let name = name_in(name)?;
    api.counted(api.backend.volume_space(name)).await.map(Json)
}

async fn check(State(api): State<Api>) -> Result<Json<CheckStatus>> {
    api.within_limit(api.backend.check()).await.map(Json)
}

async fn start_check(State(api): State<Api>) -> Result<(StatusCode, Json<CheckStatus>)> {
    let status = api.within_limit(api.backend.start_check()).await?;
    Ok((StatusCode::ACCEPTED, Json(status)))
}

async fn stop_check(State(api): State<Api>) -> Result<Json<CheckStatus>> {
    api.within_limit(api.backend.stop_check()).await.map(Json)
}

/// Query of a listing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PageQuery {
    pub(super) after: Option<String>,
    pub(super) limit: Option<usize>,
}

async fn list_volumes(
    State(api): State<Api>,
    query: std::result::Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<VolumePage>> {
    let query = query_in(query)?;
    let limit = checked_limit(query.limit)?;
    let mut volumes = api.within_limit(api.backend.volumes()).await?;
    // By the names that pages go by, whatever order the backend keeps.
    volumes.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    if let Some(after) = query.after {
        volumes.retain(|volume| volume.name > after);
    }
    let more = volumes.len() > limit;
    volumes.truncate(limit);
    let next = if more { volumes.last().map(|volume| volume.name.clone()) } else { None };
    Ok(Json(VolumePage { volumes, next, missing_cells: Vec::new() }))
}

async fn create_volume(
    State(api): State<Api>,
    request: Request,
) -> Result<(StatusCode, Json<Volume>)> {
    let spec: CreateVolume = api.json_body(request).await?;
    if let Some(beside) = &spec.beside {
        api.within_limit(api.backend.volume(beside.clone())).await?; // It is in this cell, or nowhere.
    }
    let volume = api.within_limit(api.backend.create_volume(spec)).await?;
    tracing::info!(volume = volume.name, size_bytes = volume.size_bytes, "volume created");
    Ok((StatusCode::CREATED, Json(volume)))
}

/// How many things a page is to have.
pub(super) fn checked_limit(limit: Option<usize>) -> Result<usize> {
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if limit == 0 || limit > PAGE_MAX {
        return Err(malformed("query", &format!("limit {limit} is not within 1 to {PAGE_MAX}")));
    }
    Ok(limit)
}

pub(super) type NamePath = std::result::Result<Path<String>, PathRejection>;

async fn show_volume(State(api): State<Api>, name: NamePath) -> Result<Json<Volume>> {
    let name = name_in(name)?;
    api.within_limit(api.backend.volume(name)).await.map(Json)
}

async fn change_volume(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Volume>> {
    let name = name_in(name)?;
    let change: ChangeVolume = api.json_body(request).await?;
    if change.is_empty() {
        return Err(Error::NoChange { name });
    }
    if let Some(size_bytes) = change.size_bytes
        && !change.allow_shrink
    {
        let current = api.within_limit(api.backend.volume(name.clone())).await?;
        let (from, to) = (ByteCount(current.size_bytes), ByteCount(size_bytes));
        if to < from {
            return Err(Error::Shrink { name, from, to });
        }
    }
    let volume = api.within_limit(api.backend.change_volume(name, change)).await?;
    tracing::info!(
        volume = volume.name,
        size_bytes = volume.size_bytes,
        dedup = %volume.dedup,
        compression = %volume.compression,
        quota_bytes = volume.quota_bytes,
        reserved_bytes = volume.reserved_bytes,
        exclusive = volume.exclusive,
        "volume changed"
    );
    Ok(Json(volume))
}

/// Query of a deletion.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DeleteQuery {
    #[serde(default)]
    snapshots: bool,
    expects: Option<String>,
}

/// Query that says where something is on its way between two pools.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpectsQuery {
    expects: Option<String>,
}

impl ExpectsQuery {
    pub(super) fn expects(self) -> Result<Option<VolumeMove>> {
        expected(self.expects)
    }
}

/// What a query takes a move to be: the JSON that bodies have as `expects`.
pub(super) fn expected(expects: Option<String>) -> Result<Option<VolumeMove>> {
    let parse = |text: String| {
        serde_json::from_str(&text).map_err(|error| {
            malformed("query", &format!("`expects` is not where it moves: {error}"))
        })
    };
    expects.map(parse).transpose()
}

async fn delete_volume(
    State(api): State<Api>,
    name: NamePath,
    query: std::result::Result<Query<DeleteQuery>, QueryRejection>,
) -> Result<StatusCode> {
    let name = name_in(name)?;
    let query = query_in(query)?;
    let DeleteQuery { snapshots, expects } = query;
    let how = DeleteVolume { snapshots, expects: expected(expects)? };
    api.within_limit(api.backend.delete_volume(name.clone(), how)).await?;
    tracing::info!(volume = name, "volume deleted");
    Ok(StatusCode::NO_CONTENT)
}

async fn describe() -> impl IntoResponse {
    Json(openapi::document())
}

/// Query of `/metrics`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MetricsQuery {
    #[serde(default)]
    old_names: bool,
}

async fn read_metrics(
    State(api): State<Api>,
    query: std::result::Result<Query<MetricsQuery>, QueryRejection>,
) -> Result<Response> {
    let MetricsQuery { old_names } = query_in(query)?;
    let metrics = api.within_limit(api.backend.metrics()).await?;
    let headers = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((headers, metrics::render(&metrics, old_names)).into_response())
}

/// Succeeds if all shards serve requests, whatever else needs attention.
async fn ready(State(api): State<Api>) -> Result<&'static str> {
    let status = api.within_limit(api.backend.status()).await?;
    match status.shards.iter().find(|shard| shard.state != ShardState::Serving) {
        None => Ok("ready\n"),
        Some(ShardStatus { shard, .. }) => Err(Error::Backend {
            kind: ErrorKind::Unavailable,
            message: format!("shard {shard} does not serve requests"),
            hint: None,
        }),
    }
}

async fn no_route(uri: Uri) -> Error {
    Error::Route { path: uri.path().to_owned() }
}

async fn no_method(method: Method, uri: Uri) -> Error {
    Error::Method { method: method.to_string(), path: uri.path().to_owned() }
}

impl Api {
    pub(super) async fn within_limit<T>(&self, answer: AdminFuture<'_, T>) -> Result<T> {
        let limit_ms = self.limits.request_timeout_ms;
        match tokio::time::timeout(Duration::from_millis(limit_ms), answer).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout { limit_ms }),
        }
    }

    /// Like [`Self::within_limit`], of what the backend goes on with when it takes longer.
    async fn counted<T>(&self, answer: AdminFuture<'_, T>) -> Result<T> {
        self.within_limit(answer).await.map_err(|error| match error {
            Error::Timeout { limit_ms } => Error::Counting { limit_ms },
            other => other,
        })
    }

    pub(super) async fn json_body<T: DeserializeOwned>(&self, request: Request<Body>) -> Result<T> {
        self.json_body_up_to(request, self.limits.body_bytes_max).await
    }

    /// A body with records of the gateway, which are longer than what others ask for.
    pub(super) async fn record_body<T: DeserializeOwned>(
        &self,
        request: Request<Body>,
    ) -> Result<T> {
        self.json_body_up_to(request, RECORDS_BYTES_MAX).await
    }

    pub(super) async fn json_body_up_to<T: DeserializeOwned>(
        &self,
        request: Request<Body>,
        limit_bytes: usize,
    ) -> Result<T> {
        if essence(request.headers()) != "application/json" {
            return Err(Error::ContentType);
        }
        let body = axum::body::to_bytes(request.into_body(), limit_bytes)
            .await
            .map_err(|_| Error::Body { limit_bytes })?;
        serde_json::from_slice(&body).map_err(|e| malformed("body", &e.to_string()))
    }
}

/// Type of a request's body, without its parameters.
pub(super) fn essence(headers: &HeaderMap) -> &str {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    content_type.split(';').next().map(str::trim).unwrap_or_default()
}

/// Largest body of a request in bytes, by its path.
#[must_use]
pub fn body_bytes_max(path: &str, limits: &LimitsConfig) -> usize {
    let mut segments = path.split('/').skip(2);
    match (segments.next(), segments.next(), segments.next()) {
        (Some("buckets"), Some(_), Some("read" | "receive" | "stage")) => bulk::REQUEST_BYTES_MAX,
        (Some("buckets"), Some(_), Some("settings")) => RECORDS_BYTES_MAX,
        (Some("buckets" | "users-and-keys"), None, _) => RECORDS_BYTES_MAX,
        _ => limits.body_bytes_max,
    }
}

pub(super) fn name_in(path: NamePath) -> Result<String> {
    path.map(|Path(name)| name).map_err(|e| malformed("path", &e.body_text()))
}

pub(super) fn query_in<T>(query: std::result::Result<Query<T>, QueryRejection>) -> Result<T> {
    query.map(|Query(query)| query).map_err(|e| malformed("query", &e.body_text()))
}

pub(super) fn malformed(part: &'static str, reason: &str) -> Error {
    Error::Malformed { part, reason: reason.to_owned() }
}
