//! Clients of S3 and the admin API: the front-end of who serves has the whole connection, with its TLS.

use tokio::sync::mpsc::OwnedPermit;
use tokio::time::Instant;
use varve_relay::wire::{FrontEnd, HelloReply};
use varve_relay::{CellRoute, ClientStream, RETRY_PAUSE, RelayedClient, RouteError};
use varve_types::CellId;

use super::sockets::accepted_stream;
use super::{HOLD_MAX, Reception};
use crate::cell_front_ends::{AdminClient, S3Client};

/// What a client of the admin API is told that no node takes.
const NOBODY_SERVES: &str = "{\"kind\":\"unavailable\",\"message\":\"no node serves the pool now\",\"hint\":\"try again; the log of the nodes says what they wait for\"}";

impl Reception {
    pub(super) async fn receive_whole(
        &self,
        front_end: FrontEnd,
        cell: CellId,
        client: ClientStream,
    ) {
        let until = Instant::now() + HOLD_MAX;
        // Nothing is read of a client before it is served, so it may be tried anew, at whoever serves next.
        loop {
            let why = match self.ways.find(front_end, cell, client.address()).await {
                Ok(CellRoute::There(line)) => {
                    return self.ways.carry(line, &RelayedClient::new(client, None), &[]).await;
                }
                Ok(CellRoute::Here) => match self.place(front_end, cell).await {
                    Ok(place) => return place.serve(client),
                    Err(why) => why,
                },
                Err(why) => why,
            };
            match why {
                RouteError::Never(answer) => {
                    tracing::warn!(
                        ?front_end,
                        "a client is not carried: the node that serves the pool says that {answer}"
                    );
                    return;
                }
                RouteError::NotYet(why) if Instant::now() >= until => {
                    tracing::warn!(why, "a client was let go of: no node takes it"); // FRONT-1
                    if front_end == FrontEnd::Admin {
                        say_that_nobody_serves(&client).await;
                    }
                    return;
                }
                RouteError::NotYet(_) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    /// A place at the front-end of this node.
    pub(super) async fn place(
        &self,
        front_end: FrontEnd,
        cell: CellId,
    ) -> Result<ClientPlace, RouteError> {
        let closed = || RouteError::not_yet("this node serves no more");
        if front_end == FrontEnd::S3 {
            let s3 = self.ways.here(cell, |fronts| fronts.s3.clone()).ok_or_else(closed)?;
            let s3 = s3.ok_or(RouteError::Never(HelloReply::NoFrontEnd))?;
            s3.reserve_owned().await.map(ClientPlace::S3).map_err(|_| closed())
        } else {
            let admin = self.ways.here(cell, |fronts| fronts.admin.clone());
            let admin = admin.ok_or_else(closed)?;
            admin.reserve_owned().await.map(ClientPlace::Admin).map_err(|_| closed())
        }
    }
}

/// Where a client of this node goes.
pub(super) enum ClientPlace {
    S3(OwnedPermit<S3Client>),
    Admin(OwnedPermit<AdminClient>),
}

impl ClientPlace {
    /// FRONT-2
    pub(super) fn serve(self, client: ClientStream) {
        let address = client.address();
        match self {
            Self::Admin(place) => drop(place.send((accepted_stream(client), address))),
            Self::S3(place) => match client {
                ClientStream::Tcp(stream, _) => match stream.into_std() {
                    Ok(stream) => {
                        drop(place.send((varve_access_s3::AcceptedClient::Socket(stream), address)))
                    }
                    Err(error) => tracing::debug!(%error, "an S3 client was lost on its way"),
                },
                ClientStream::Unix(_) => tracing::warn!("S3 is served by TCP only"),
            },
        }
    }
}

async fn say_that_nobody_serves(client: &ClientStream) {
    let len = NOBODY_SERVES.len();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n"
    );
    // It may have gone.
    let _ = client.write_all((head + NOBODY_SERVES).as_bytes()).await;
}
