//! The endpoints that change the drives of a pool and how it keeps data over them, and show and end what follows from
//! that.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use serde::Deserialize;

use crate::error::Result;
use crate::v1::conditions::{DriveLight, LocateDrive};
use crate::v1::drives::Drive;
use crate::v1::moves::{
    AddDrive, ChangeDrive, DriveGrowth, DriveMoves, GrowDrive, ScrubStatus, StartScrub,
};
use crate::v1::protection::{ChangePool, PoolChange};
use crate::v1::routes::{Api, NamePath, name_in, query_in};

/// How a drive is removed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveQuery {
    #[serde(default)]
    failed: bool,
}

type Accepted = Result<(StatusCode, Json<DriveMoves>)>;

pub(super) async fn show(State(api): State<Api>, name: NamePath) -> Result<Json<Drive>> {
    let name = name_in(name)?;
    api.within_limit(api.backend.drive(name)).await.map(Json)
}

pub(super) async fn locate(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<DriveLight>> {
    let name = name_in(name)?;
    let light: LocateDrive = api.json_body(request).await?;
    let changed = api.within_limit(api.backend.locate_drive(name.clone(), light)).await?;
    tracing::info!(drive = name, on = changed.on, "the light of a drive was changed");
    Ok(Json(changed))
}

pub(super) async fn add(State(api): State<Api>, request: Request) -> Accepted {
    let drive: AddDrive = api.json_body(request).await?;
    let path = drive.path.clone();
    let moves = api.within_limit(api.backend.add_drive(drive)).await?;
    tracing::info!(path, "drive added");
    Ok((StatusCode::ACCEPTED, Json(moves)))
}

pub(super) async fn remove(
    State(api): State<Api>,
    name: NamePath,
    query: std::result::Result<Query<RemoveQuery>, QueryRejection>,
) -> Accepted {
    let (name, RemoveQuery { failed }) = (name_in(name)?, query_in(query)?);
    let moves = api.within_limit(api.backend.remove_drive(name.clone(), failed)).await?;
    tracing::info!(drive = name, "drive is to be removed");
    Ok((StatusCode::ACCEPTED, Json(moves)))
}

pub(super) async fn drain(State(api): State<Api>, name: NamePath) -> Accepted {
    let name = name_in(name)?;
    let moves = api.within_limit(api.backend.drain_drive(name.clone())).await?;
    tracing::info!(drive = name, "drive is to be drained");
    Ok((StatusCode::ACCEPTED, Json(moves)))
}

pub(super) async fn keep(State(api): State<Api>, name: NamePath) -> Accepted {
    let name = name_in(name)?;
    let moves = api.within_limit(api.backend.keep_drive(name.clone())).await?;
    tracing::info!(drive = name, "drive is to stay");
    Ok((StatusCode::ACCEPTED, Json(moves)))
}

pub(super) async fn replace(State(api): State<Api>, name: NamePath, request: Request) -> Accepted {
    let name = name_in(name)?;
    let new: AddDrive = api.json_body(request).await?;
    let path = new.path.clone();
    let moves = api.within_limit(api.backend.replace_drive(name.clone(), new)).await?;
    tracing::info!(drive = name, path, "drive is to be replaced");
    Ok((StatusCode::ACCEPTED, Json(moves)))
}

pub(super) async fn grow(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<DriveGrowth>> {
    let name = name_in(name)?;
    let size: GrowDrive = api.json_body(request).await?;
    let growth = api.within_limit(api.backend.grow_drive(name.clone(), size)).await?;
    let DriveGrowth { size_bytes, size_before_bytes, .. } = growth;
    tracing::info!(drive = name, size_bytes, size_before_bytes, "drive has grown");
    Ok(Json(growth))
}

pub(super) async fn change(State(api): State<Api>, name: NamePath, request: Request) -> Accepted {
    let name = name_in(name)?;
    let change: ChangeDrive = api.json_body(request).await?;
    let class = change.class.clone();
    let moves = api.within_limit(api.backend.change_drive(name.clone(), change)).await?;
    tracing::info!(drive = name, class, zones = moves.unconverted, "drive is of another class");
    Ok((StatusCode::ACCEPTED, Json(moves)))
}

pub(super) async fn change_pool(
    State(api): State<Api>,
    request: Request,
) -> Result<(StatusCode, Json<PoolChange>)> {
    let change: ChangePool = api.json_body(request).await?;
    let changed = api.within_limit(api.backend.change_pool(change)).await?;
    if changed.dry_run {
        return Ok((StatusCode::OK, Json(changed)));
    }
    tracing::info!(protect = changed.protect, zones = changed.unconverted, "pool is converted");
    Ok((StatusCode::ACCEPTED, Json(changed)))
}

pub(super) async fn moves(State(api): State<Api>) -> Result<Json<DriveMoves>> {
    api.within_limit(api.backend.drive_moves()).await.map(Json)
}

pub(super) async fn scrub(State(api): State<Api>) -> Result<Json<ScrubStatus>> {
    api.within_limit(api.backend.scrub()).await.map(Json)
}

pub(super) async fn start_scrub(
    State(api): State<Api>,
    request: Request,
) -> Result<(StatusCode, Json<ScrubStatus>)> {
    let what: StartScrub = api.json_body(request).await?;
    let status = api.within_limit(api.backend.start_scrub(what)).await?;
    Ok((StatusCode::ACCEPTED, Json(status)))
}

pub(super) async fn stop_scrub(State(api): State<Api>) -> Result<Json<ScrubStatus>> {
    api.within_limit(api.backend.stop_scrub()).await.map(Json)
}
