//! The cells of the pool as the admin API reaches them, wherever they are served.

use std::io;
use std::sync::Arc;

use futures_util::future::join_all;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::{Duration, Instant, timeout};
use varve_access_admin::volume_path;
use varve_relay::wire::FrontEnd;
use varve_relay::{CellRoute, ClientStream, RETRY_PAUSE, RelayedClient, RouteError};
use varve_types::CellId;

use super::admin::{BoxedStream, PoolCells};
use super::{HOLD_MAX, Reception};
use crate::names::{NameAnswer, without_run};

/// How long a cell may take to say whether it has a volume.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// See the module.
pub(super) struct CellsOfAdmin(pub(super) Arc<Reception>);

impl CellsOfAdmin {
    /// A connection, if there is a way.
    async fn try_connect(&self, cell: CellId) -> Result<io::Result<BoxedStream>, RouteError> {
        let way = self.0.ways.find(FrontEnd::Admin, cell, None).await?;
        let place = match &way {
            CellRoute::Here => Some(self.0.place(FrontEnd::Admin, cell).await?),
            CellRoute::There(_) => None,
        };
        let (here, there) = match UnixStream::pair() {
            Ok((here, there)) => (here, ClientStream::Unix(there)),
            Err(error) => return Ok(Err(error)),
        };
        match (way, place) {
            (CellRoute::There(line), _) => {
                let reception = Arc::clone(&self.0);
                let carried = async move {
                    reception.ways.carry(line, &RelayedClient::new(there, None), &[]).await
                };
                tokio::spawn(carried);
            }
            (CellRoute::Here, Some(place)) => place.serve(there),
            (CellRoute::Here, None) => unreachable!("a way here has a place"),
        }
        Ok(Ok(Box::new(here)))
    }
}

impl CellsOfAdmin {
    /// Whether a cell has a volume.
    async fn has(&self, cell: CellId, volume: &str) -> io::Result<bool> {
        let stream = TokioIo::new(self.connect(cell).await?);
        let (mut sender, connection) = http1::handshake(stream).await.map_err(io::Error::other)?;
        tokio::spawn(connection); // It ends with the answer.
        let request = Request::get(volume_path(volume)).header(header::HOST, "localhost");
        let request = request.body(Empty::<Bytes>::new()).map_err(io::Error::other)?;
        let answer = sender.send_request(request).await.map_err(io::Error::other)?;
        match answer.status() {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            status => Err(io::Error::other(format!("it answers with {status}"))),
        }
    }
}

impl PoolCells for CellsOfAdmin {
    fn count(&self) -> u16 {
        self.0.ways.cells()
    }

    async fn connect(&self, cell: CellId) -> io::Result<BoxedStream> {
        let until = Instant::now() + HOLD_MAX;
        loop {
            match self.try_connect(cell).await {
                Ok(connected) => return connected,
                Err(RouteError::Never(answer)) => return Err(io::Error::other(answer.to_string())),
                Err(RouteError::NotYet(why)) if Instant::now() >= until => {
                    return Err(io::Error::other(why)); // FRONT-1
                }
                Err(RouteError::NotYet(_)) => tokio::time::sleep(RETRY_PAUSE).await,
            }
        }
    }

    async fn cell_of_volume(&self, name: &str) -> Result<Option<CellId>, String> {
        self.0.cell_of(name).await
    }
}

impl Reception {
    /// Asks all cells for a volume, side by side.
    async fn search(self: &Arc<Self>, volume: &str) -> Result<Option<CellId>, String> {
        let cells = CellsOfAdmin(Arc::clone(self));
        let ask = |cell: CellId| {
            let cells = &cells;
            async move { (cell, timeout(ANSWER_MAX, cells.has(cell, volume)).await) }
        };
        let mut silent = None;
        for (cell, has) in join_all((0..self.ways.cells()).map(CellId).map(ask)).await {
            match has.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(true) => return Ok(Some(cell)),
                Ok(false) => {}
                Err(error) => silent = Some(format!("cell {cell} is asked for it: {error}")),
            }
        }
        silent.map_or(Ok(None), Err)
    }

    /// The cell that has the volume of an export's name; `None` where there is none, or only one. Which one has it
    /// whose entry is damaged, they say themselves.
    pub(super) async fn cell_of(self: &Arc<Self>, export: &str) -> Result<Option<CellId>, String> {
        let Some(names) = &self.names else { return Ok(None) };
        match names.look(export).await {
            NameAnswer::Cell(cell) => Ok(Some(cell)),
            NameAnswer::Nobody => Ok(None),
            NameAnswer::Not(why) => Err(why),
            NameAnswer::Damaged => {
                tracing::warn!(
                    export,
                    "the entry of a name is damaged: all cells are asked for it"
                );
                let export = without_run(export);
                let volume = export.split_once('@').map_or(export, |(volume, _)| volume);
                self.search(volume).await
            }
        }
    }
}
