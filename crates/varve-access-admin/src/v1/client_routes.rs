//! The endpoints about clients of volumes: who has one open, and to disconnect them.

use axum::Json;
use axum::extract::{Request, State};

use crate::error::Result;
use crate::v1::clients::{DisconnectClients, DisconnectedClients, VolumeClients};
use crate::v1::routes::{Api, NamePath, name_in};

pub(super) async fn list(State(api): State<Api>, name: NamePath) -> Result<Json<VolumeClients>> {
    let name = name_in(name)?;
    api.within_limit(api.backend.clients(name)).await.map(Json)
}

pub(super) async fn disconnect(
    State(api): State<Api>,
    name: NamePath,
    request: Request,
) -> Result<Json<DisconnectedClients>> {
    let name = name_in(name)?;
    let which: DisconnectClients = api.json_body(request).await?;
    let client = which.client;
    let done = api.within_limit(api.backend.disconnect(name.clone(), which)).await?;
    tracing::info!(volume = name, client, clients = done.clients, "clients disconnected");
    Ok(Json(done))
}
