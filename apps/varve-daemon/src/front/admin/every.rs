//! What is asked of all cells, side by side.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use hyper::body::Bytes;
use hyper::{StatusCode, header};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use varve_access_admin::v1::{self, SnapshotPage, Status, VolumePage};
use varve_access_admin::{Error, Result};
use varve_types::CellId;

use super::page::{PageRequest, with_namespace};
use super::reply::{self, Reply};
use super::request::{CellRequest, Whole};
use super::{PoolCells, metrics, together, unavailable};

/// How long a cell may take before it is missing in an answer.
const CELL_MAX: Duration = Duration::from_secs(5);

/// How long it may count what it holds, once it is there: it says after 30 s that it is to be asked again.
const COUNT_MAX: Duration = Duration::from_secs(40);

/// What is put together of the answers of all cells.
pub(super) enum Sum {
    Status,
    Pool,
    Drives,
    Health,
    Space,
    Volumes(PageRequest),
    Snapshots(PageRequest),
    Check,
    Metrics,
}

/// The answers of those that gave one.
pub(super) struct GatheredAnswers<T> {
    pub(super) status: StatusCode,
    /// By the numbers of the cells; at least one.
    pub(super) cells: Vec<(CellId, T)>,
    /// The others, by number.
    pub(super) missing: Vec<u16>,
}

/// What comes of asking all.
enum AskOutcome {
    Gathered(GatheredAnswers<Bytes>),
    /// A cell refused, as each would, or is to be asked again.
    Told(Whole),
}

impl Sum {
    /// Asks all cells, and answers with what they say together (ADMIN-2). `Unavailable` if none of them does.
    pub(super) async fn ask<C: PoolCells>(&self, cells: &C, asked: &CellRequest) -> Result<Reply> {
        let path = match self {
            Self::Volumes(page) => page.share("/v1/volumes", cells.count()),
            Self::Snapshots(page) => page.share("/v1/snapshots", cells.count()),
            _ => asked.path.clone(),
        };
        let patience = if matches!(self, Self::Space) { COUNT_MAX } else { CELL_MAX };
        let gathered = match gather(cells, &asked.at(path), patience).await? {
            AskOutcome::Gathered(gathered) => gathered,
            AskOutcome::Told(answer) => return Ok(reply::passed_whole(answer)),
        };
        match self {
            Self::Status => gathered.merge(together::status),
            Self::Pool => gathered.merge(together::pool),
            Self::Drives => gathered.merge(together::drives),
            Self::Health => gathered.merge(together::health),
            Self::Space => gathered.merge(together::space),
            Self::Check => gathered.merge(together::check),
            Self::Volumes(page) => gathered.merge(|all| volumes(page, all)),
            Self::Snapshots(page) => gathered.merge(|all| snapshots(page, all)),
            Self::Metrics => {
                let text = |bytes: &Bytes| Some(String::from_utf8_lossy(bytes).into_owned());
                let GatheredAnswers { status, cells, missing } = gathered.parsed(text)?;
                let kind = "text/plain; version=0.0.4; charset=utf-8";
                Ok(reply::text(status, kind, metrics::join(&cells, &missing).into_bytes()))
            }
        }
    }

    /// What each cell that answers says of itself; at least one does.
    pub(super) async fn status_of_cells<C: PoolCells>(
        cells: &C,
        asked: &CellRequest,
    ) -> Result<Vec<(CellId, Status)>> {
        match gather(cells, &asked.get("/v1/status"), CELL_MAX).await? {
            AskOutcome::Gathered(gathered) => Ok(gathered.parsed(json)?.cells),
            AskOutcome::Told(answer) => {
                Err(none_answers(&format!("a cell says {}", answer.head.status)))
            }
        }
    }
}

/// Connections of one request to cells at a time.
const CELLS_AT_ONCE: usize = 32;

/// Puts a question to all cells, each of which has `patience` for the answer.
async fn gather<C: PoolCells>(
    cells: &C,
    question: &CellRequest,
    patience: Duration,
) -> Result<AskOutcome> {
    let ask = |cell: CellId| async move {
        let answer = async { Whole::read(question.send(cells, cell, CELL_MAX).await?, cell).await };
        let late = |_| Err(none_answers(&format!("cell {cell} takes too long")));
        (cell, timeout(patience, answer).await.unwrap_or_else(late))
    };
    let (mut answers, mut missing, mut why) = (Vec::new(), Vec::new(), String::new());
    let mut status = StatusCode::OK;
    let asked = stream::iter((0..cells.count()).map(CellId).map(ask)).buffered(CELLS_AT_ONCE);
    for (cell, answer) in asked.collect::<Vec<_>>().await {
        match answer {
            Ok(Whole { head, body }) if head.status.is_success() => {
                status = head.status;
                answers.push((cell, body));
            }
            Ok(answer) if is_for_client(&answer) => return Ok(AskOutcome::Told(answer)),
            failed => {
                why = match failed {
                    Ok(Whole { body, .. }) => String::from_utf8_lossy(&body).into_owned(),
                    Err(error) => error.to_string(),
                };
                tracing::warn!(%cell, why, "a cell is missing in an answer");
                missing.push(cell.0);
            }
        }
    }
    if answers.is_empty() {
        Err(none_answers(&why))
    } else {
        Ok(AskOutcome::Gathered(GatheredAnswers { status, cells: answers, missing }))
    }
}

/// Whether it says what is wrong with the request, or that it is to be made again.
fn is_for_client(answer: &Whole) -> bool {
    answer.head.status.is_client_error() || answer.head.headers.contains_key(header::RETRY_AFTER)
}

fn none_answers(why: &str) -> Error {
    unavailable(
        format!("no cell of the pool answers: {why}"),
        "try again; the log of the nodes says what they wait for",
    )
}

fn json<T: DeserializeOwned>(bytes: &Bytes) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

impl GatheredAnswers<Bytes> {
    /// Answers of which nothing can be made are missing.
    fn parsed<T>(self, parse: impl Fn(&Bytes) -> Option<T>) -> Result<GatheredAnswers<T>> {
        let Self { status, cells, mut missing } = self;
        let mut parsed = Vec::with_capacity(cells.len());
        for (cell, bytes) in cells {
            match parse(&bytes) {
                Some(answer) => parsed.push((cell, answer)),
                None => {
                    tracing::warn!(%cell, "the answer of a cell is not what this version expects");
                    missing.push(cell.0);
                }
            }
        }
        missing.sort_unstable();
        if parsed.is_empty() {
            return Err(none_answers("they say what this version does not know"));
        }
        Ok(GatheredAnswers { status, cells: parsed, missing })
    }

    fn merge<T: DeserializeOwned, U: Serialize>(
        self,
        together: impl FnOnce(GatheredAnswers<T>) -> U,
    ) -> Result<Reply> {
        let parsed = self.parsed(json)?;
        Ok(reply::json(parsed.status, &together(parsed)))
    }
}

fn volumes(page: &PageRequest, all: GatheredAnswers<VolumePage>) -> VolumePage {
    let share = |(cell, mut share): (CellId, VolumePage)| {
        share.volumes.iter_mut().for_each(|volume| volume.cell = Some(cell.0));
        (share.volumes, share.next)
    };
    let shares = all.cells.into_iter().map(share).collect();
    let (volumes, next) = page.join(shares, |volume: &v1::Volume| &volume.name, str::to_owned);
    VolumePage { volumes, next, missing_cells: all.missing }
}

fn snapshots(page: &PageRequest, all: GatheredAnswers<SnapshotPage>) -> SnapshotPage {
    let shares = all.cells.into_iter().map(|(_, share)| (share.snapshots, share.next)).collect();
    let (snapshots, next) =
        page.join(shares, |snapshot: &v1::Snapshot| &snapshot.name, with_namespace);
    SnapshotPage { snapshots, next, missing_cells: all.missing }
}
