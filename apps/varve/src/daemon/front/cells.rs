//! The cells of the pool as the admin API reaches them, wherever they are served.

use std::io;
use std::sync::Arc;

use tokio::net::UnixStream;
use tokio::time::Instant;
use varve_membership::link::FrontEnd;
use varve_types::CellId;

use super::admin::{BoxedStream, Cells};
use super::{HOLD_MAX, Reception};
use crate::daemon::links::{Client, ClientStream, NoWay, RETRY_PAUSE, Way};

/// See the module.
pub(super) struct CellsOfAdmin(pub(super) Arc<Reception>);

impl CellsOfAdmin {
    /// A connection, if there is a way.
    async fn try_connect(&self, cell: CellId) -> Result<io::Result<BoxedStream>, NoWay> {
        let way = self.0.ways.find(FrontEnd::Admin, cell, None).await?;
        let place = match &way {
            Way::Here => Some(self.0.place(FrontEnd::Admin, cell).await?),
            Way::There(_) => None,
        };
        let (here, there) = match UnixStream::pair() {
            Ok((here, there)) => (here, ClientStream::Unix(there)),
            Err(error) => return Ok(Err(error)),
        };
        match (way, place) {
            (Way::There(line), _) => {
                let reception = Arc::clone(&self.0);
                let carried =
                    async move { reception.ways.carry(line, &Client::new(there, None), &[]).await };
                tokio::spawn(carried);
            }
            (Way::Here, Some(place)) => place.serve(there),
            (Way::Here, None) => unreachable!("a way here has a place"),
        }
        Ok(Ok(Box::new(here)))
    }
}

impl Cells for CellsOfAdmin {
    fn count(&self) -> u16 {
        self.0.ways.cells()
    }

    async fn connect(&self, cell: CellId) -> io::Result<BoxedStream> {
        let until = Instant::now() + HOLD_MAX;
        loop {
            match self.try_connect(cell).await {
                Ok(connected) => return connected,
                Err(NoWay::Never(answer)) => return Err(io::Error::other(answer.to_string())),
                Err(NoWay::NotYet(why)) if Instant::now() >= until => {
                    return Err(io::Error::other(why)); // F1
                }
                Err(NoWay::NotYet(_)) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    async fn cell_of_volume(&self, name: &str) -> Result<Option<CellId>, String> {
        match &self.0.names {
            Some(names) => names.cell_of(name).await,
            None => Ok(None),
        }
    }
}
