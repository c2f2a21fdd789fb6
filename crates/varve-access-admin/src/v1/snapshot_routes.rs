//! The endpoints of snapshots, clones and what changed.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use serde::Deserialize;

use crate::error::Result;
use crate::v1::routes::{Api, ExpectsQuery, NamePath, checked_limit, expected, name_in, query_in};
use crate::v1::snapshots::{
    BeginReceive, ChangeSnapshot, CloneVolume, CreateSnapshots, EndReceive, ExtentPage,
    ExtentsWanted, RollBack, Snapshot, SnapshotPage,
};
use crate::v1::types::{MoveVolume, Volume, VolumeMove};

/// Query of a listing of snapshots.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotQuery {
    volume: Option<String>,
    after: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(
    State(api): State<Api>,
    query: std::result::Result<Query<SnapshotQuery>, QueryRejection>,
) -> Result<Json<SnapshotPage>> {
    let query = query_in(query)?;
    let limit = checked_limit(query.limit)?;
    // One more tells whether there is a next page.
    let found = api.backend.snapshots(query.volume, query.after, limit + 1);
    let mut snapshots = api.within_limit(found).await?;
    let more = snapshots.len() > limit;
    snapshots.truncate(limit);
    let next = if more { snapshots.last().map(|snapshot| snapshot.name.clone()) } else { None };
    Ok(Json(SnapshotPage { snapshots, next, missing_cells: Vec::new() }))
}

pub(super) async fn create(
    State(api): State<Api>,
    request: Request,
) -> Result<(StatusCode, Json<SnapshotPage>)> {
    let spec: CreateSnapshots = api.json_body(request).await?;
    let snapshots = api.within_limit(api.backend.create_snapshots(spec)).await?;
    let (count, first) = (snapshots.len(), snapshots.first().map(|first| first.name.as_str()));
    tracing::info!(count, first, "snapshots taken");
    Ok((
        StatusCode::CREATED,
        Json(SnapshotPage { snapshots, next: None, missing_cells: Vec::new() }),
    ))
}

pub(super) async fn show(State(api): State<Api>, name: NamePath) -> Result<Json<Snapshot>> {
    let name = name_in(name)?;
    api.within_limit(api.backend.snapshot(name)).await.map(Json)
}

pub(super) async fn change(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Snapshot>> {
    let name = name_in(name)?;
    let change: ChangeSnapshot = api.json_body(request).await?;
    let snapshot = api.within_limit(api.backend.change_snapshot(name, change)).await?;
    tracing::info!(snapshot = snapshot.name, protected = snapshot.protected, "snapshot changed");
    Ok(Json(snapshot))
}

pub(super) async fn delete(
    State(api): State<Api>,
    name: NamePath,
    query: std::result::Result<Query<ExpectsQuery>, QueryRejection>,
) -> Result<StatusCode> {
    let name = name_in(name)?;
    let expects = query_in(query)?.expects()?;
    api.within_limit(api.backend.delete_snapshot(name.clone(), expects)).await?;
    tracing::info!(snapshot = name, "snapshot deleted");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn roll_back(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Volume>> {
    let name = name_in(name)?;
    let to: RollBack = api.json_body(request).await?;
    let snapshot = to.snapshot.clone();
    let volume = api.within_limit(api.backend.roll_back(name, to)).await?;
    tracing::info!(volume = volume.name, snapshot, "volume rolled back");
    Ok(Json(volume))
}

pub(super) async fn clone(
    State(api): State<Api>,
    request: Request,
) -> Result<(StatusCode, Json<Volume>)> {
    let spec: CloneVolume = api.json_body(request).await?;
    let volume = api.within_limit(api.backend.clone_volume(spec)).await?;
    tracing::info!(volume = volume.name, origin = volume.origin, "volume cloned");
    Ok((StatusCode::CREATED, Json(volume)))
}

/// Query of a listing of extents.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExtentQuery {
    identity: Option<String>,
    since: Option<String>,
    since_identity: Option<String>,
    expects: Option<String>,
    offset: Option<u64>,
    limit: Option<usize>,
}

pub(super) async fn extents(
    State(api): State<Api>,
    name: NamePath,
    query: std::result::Result<Query<ExtentQuery>, QueryRejection>,
) -> Result<Json<ExtentPage>> {
    let name = name_in(name)?;
    let query = query_in(query)?;
    let limit = checked_limit(query.limit)?;
    let wanted = ExtentsWanted {
        identity: query.identity,
        since: query.since,
        since_identity: query.since_identity,
        expects: expected(query.expects)?,
        offset: query.offset.unwrap_or(0),
        limit,
    };
    api.within_limit(api.backend.extents(name, wanted)).await.map(Json)
}

pub(super) async fn begin_receive(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Volume>> {
    let name = name_in(name)?;
    let spec: BeginReceive = api.json_body(request).await?;
    let volume = api.within_limit(api.backend.begin_receive(name, spec)).await?;
    tracing::info!(volume = volume.name, snapshot = volume.receiving, "volume receives");
    Ok(Json(volume))
}

pub(super) async fn end_receive(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Snapshot>> {
    let name = name_in(name)?;
    let spec: EndReceive = api.json_body(request).await?;
    let snapshot = api.within_limit(api.backend.end_receive(name, spec)).await?;
    tracing::info!(snapshot = snapshot.name, identity = snapshot.identity, "snapshot received");
    Ok(Json(snapshot))
}

pub(super) async fn move_volume(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<Volume>> {
    let name = name_in(name)?;
    let step: MoveVolume = api.json_body(request).await?;
    let volume = api.within_limit(api.backend.move_volume(name, step)).await?;
    let state = volume.moves.as_ref().map(|moves| moves.state);
    let other_side = volume.moves.as_ref().map(VolumeMove::other_side);
    tracing::info!(volume = volume.name, ?state, other_side, "volume moves");
    Ok(Json(volume))
}
