//! A client's request, read whole, and how it is put to a cell.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::http::response;
use hyper::{HeaderMap, Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use varve_access_admin::{Error, LimitsConfig, Result, v1};
use varve_types::CellId;

use super::{PoolCells, reply, unavailable};

/// Largest answer of a cell that is read whole, in bytes: clients take no larger ones.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// See the module.
pub(super) struct CellRequest {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    headers: HeaderMap,
    pub(super) body: Bytes,
    /// Of a long body.
    _place: Option<SemaphorePermit<'static>>,
}

/// Requests with long bodies at a time, for their memory; others wait.
static BULK: Semaphore = Semaphore::const_new(8);

/// A cell's answer with its whole body.
pub(super) struct Whole {
    pub(super) head: response::Parts,
    pub(super) body: Bytes,
}

/// Why there is no answer.
enum RequestFailure {
    /// Nothing was sent.
    Unreached(io::Error),
    /// It was sent, maybe.
    Broken(hyper::Error),
}

impl Whole {
    /// Reads the answer of a cell to its end. `Unavailable`.
    pub(super) async fn read(answer: Response<Incoming>, cell: CellId) -> Result<Self> {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(|error| {
            let message = format!("the answer of cell {cell} of the pool broke off: {error}");
            unavailable(message, "look whether this was carried out, and try again if not")
        })?;
        Ok(Self { head, body: body.to_bytes() })
    }
}

impl CellRequest {
    /// `Invalid` for a body that no request needs.
    pub(super) async fn read(request: Request<Incoming>) -> Result<Self> {
        let (mut head, body) = request.into_parts();
        let usual = LimitsConfig::default();
        let limit_bytes = v1::body_bytes_max(head.uri.path(), &usual);
        let is_bulk = head.method != Method::GET && limit_bytes > usual.body_bytes_max;
        let place = if is_bulk { Some(BULK.acquire().await) } else { None };
        let body = Limited::new(body, limit_bytes).collect().await;
        let body = body.map_err(|_| Error::Body { limit_bytes })?.to_bytes();
        reply::strip(&mut head.headers);
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.remove(header::EXPECT);
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        // Of a whole address without a path it is the query alone.
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let place = place.transpose().expect("the semaphore is never closed");
        Ok(Self { method: head.method, path, headers: head.headers, body, _place: place })
    }

    /// A question of the same client's.
    pub(super) fn get(&self, path: &str) -> Self {
        let (path, body) = (path.to_owned(), Bytes::new());
        Self { method: Method::GET, path, headers: self.headers.clone(), body, _place: None }
    }

    /// The same of another path, and with an answer that has its body.
    pub(super) fn at(&self, path: String) -> Self {
        let (headers, body) = (self.headers.clone(), self.body.clone());
        Self { method: self.verb(), path, headers, body, _place: None }
    }

    /// Its method, where it is all the same whether the client wants the body of the answer.
    pub(super) fn verb(&self) -> Method {
        if self.method == Method::HEAD { Method::GET } else { self.method.clone() }
    }

    /// Puts it to a cell (ADMIN-1). `Unavailable`.
    pub(super) async fn send<C: PoolCells>(
        &self,
        cells: &C,
        cell: CellId,
        connect_max: Duration,
    ) -> Result<Response<Incoming>> {
        let is_reading = self.verb() == Method::GET;
        let sent = match self.send_once(cells, cell, connect_max).await {
            Err(RequestFailure::Broken(error)) if is_reading => {
                tracing::debug!(%cell, %error, "a cell is asked again");
                self.send_once(cells, cell, connect_max).await
            }
            sent => sent,
        };
        sent.map_err(|failed| match failed {
            RequestFailure::Unreached(error) => unavailable(
                format!("cell {cell} of the pool is not served now: {error}"),
                "try again; `varve status` shows which cells answer, and the log of the nodes what they wait for",
            ),
            RequestFailure::Broken(error) if is_reading => unavailable(
                format!("the node that serves cell {cell} of the pool went away before it answered: {error}"),
                "try again",
            ),
            RequestFailure::Broken(error) => unavailable(
                format!("the node that serves cell {cell} of the pool went away before it answered, and may have carried this out: {error}"),
                "look whether it has, and try again if not",
            ),
        })
    }

    async fn send_once<C: PoolCells>(
        &self,
        cells: &C,
        cell: CellId,
        connect_max: Duration,
    ) -> std::result::Result<Response<Incoming>, RequestFailure> {
        let connected = timeout(connect_max, cells.connect(cell)).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = TokioIo::new(connected.map_err(RequestFailure::Unreached)?);
        let (mut sender, connection) =
            http1::handshake(stream).await.map_err(RequestFailure::Broken)?;
        // It ends with the answer's body, or with who waits for it.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%cell, %error, "a connection to a cell broke");
            }
        });
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.parse().expect("it was the path of a request");
        *request.headers_mut() = self.headers.clone();
        let host = header::HeaderValue::from_static("localhost");
        request.headers_mut().entry(header::HOST).or_insert(host);
        sender.send_request(request).await.map_err(RequestFailure::Broken)
    }
}
