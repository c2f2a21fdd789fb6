//! The admin API of a pool of several cells: a request goes to the cell that it is about, or to all, whose answers are
//! put together.
//!
//! ```text
//!  client ──▶ request: read whole ──▶ target ──▶ one cell: by the register ─────────────────▶ its answer, as it comes
//!                                           └──▶ all cells, side by side: every ──▶ together, page, metrics
//! ```
//!
//! ADMIN-1. A request is sent to a cell once. If the cell goes away before it has answered, reading is tried once more,
//!     and anything else is answered with what to do.
//! ADMIN-2. A cell that does not answer is named in the answer, as missing; none is left out silently.
//! ADMIN-3. "Not there" counts if the register says so, or still names that cell: else the other cell is asked, once.

mod every;
#[cfg(any(test, feature = "memory"))]
pub(crate) mod memory_cells;
mod metrics;
mod page;
mod reply;
mod request;
mod target;
#[cfg(test)]
mod tests;
mod together;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use varve_access_admin::v1::LIVE_PATH;
use varve_access_admin::{Error, LimitsConfig, Token, check_caller};
use varve_types::CellId;

use self::reply::Reply;
use self::request::CellRequest;
use self::target::CellTarget;

/// How long an answer may take: who serves a cell may be missing for 20 s, and then needs up to 30 s. It is within the
/// time of a connection.
const ANSWER_MAX: Duration = Duration::from_secs(55);

/// How long a connection to a cell may take, where the client can wait for it: longer than a cell without a node is
/// waited for.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// A connection to a cell.
pub(crate) type BoxedStream = Box<dyn varve_access_admin::AcceptedStream>;

/// The cells of a pool, whichever nodes serve them.
pub(crate) trait PoolCells: Send + Sync + 'static {
    /// How many there are.
    fn count(&self) -> u16;

    /// A connection to the admin API of a cell, HTTP/1.1 for one request. While nobody serves the cell, it takes up to
    /// 20 s.
    fn connect(&self, cell: CellId) -> impl Future<Output = io::Result<BoxedStream>> + Send;

    /// The cell that the register names for a volume, as it is now; `None` if it has no entry, or can have none.
    fn cell_of_volume(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<CellId>, String>> + Send;
}

/// What a caller from a network has to show.
#[derive(Clone)]
pub(crate) struct Guard {
    /// None: it cannot be shown.
    pub(crate) token: Option<Arc<Token>>,
}

/// Serves the one request of a client's connection, behind the guard if it comes from a network.
pub(crate) async fn route<C: PoolCells>(
    cells: Arc<C>,
    client: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    guard: Option<Guard>,
) {
    let limits = LimitsConfig::default();
    let service = service_fn(move |request| {
        let (cells, guard) = (Arc::clone(&cells), guard.clone());
        async move { Ok::<_, Infallible>(answer(&*cells, request, guard.as_ref()).await) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.header_timeout_ms));
    let served = http.serve_connection(TokioIo::new(client), service);
    match timeout(Duration::from_millis(limits.connection_timeout_ms), served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "admin connection ended"),
        Err(_) => tracing::debug!("admin connection exceeded its deadline"),
    }
}

async fn answer<C: PoolCells>(
    cells: &C,
    request: Request<Incoming>,
    guard: Option<&Guard>,
) -> Reply {
    let answered = async {
        if let Some(Guard { token }) = guard {
            check_caller(request.uri().path(), request.headers(), token.as_deref())?;
        }
        // Whatever becomes of the cells, this process runs.
        if request.uri().path() == LIVE_PATH {
            return Ok(reply::text(
                StatusCode::OK,
                "text/plain; charset=utf-8",
                b"live\n".to_vec(),
            ));
        }
        let asked = CellRequest::read(request).await?;
        match CellTarget::of(&asked) {
            CellTarget::First => {
                asked.send(cells, CellId::FIRST, CONNECT_MAX).await.map(reply::passed)
            }
            CellTarget::One { place, is_volume } => place.ask(cells, &asked, is_volume).await,
            CellTarget::All(sum) => sum.ask(cells, &asked).await,
        }
    };
    let limit_ms = ANSWER_MAX.as_secs() * 1000;
    let answered = timeout(ANSWER_MAX, answered).await;
    match answered.unwrap_or(Err(Error::Timeout { limit_ms })) {
        Ok(reply) => reply,
        Err(error) => reply::refusal(&error),
    }
}

/// A refusal with which to try again.
fn unavailable(message: String, hint: &str) -> Error {
    Error::Backend {
        kind: varve_types::ErrorKind::Unavailable,
        message,
        hint: Some(hint.to_owned()),
    }
}
