//! The cells of a pool that this node serves, each by an engine of its own, opened and closed as the table of nodes
//! says.
//!
//! ```text
//!  Serve(cell) ──▶ a thread opens it, serves it ◀── Close(cell) ──▶ closes it ──▶ gave(cell)
//!                                              └── the daemon ends ──▶ closes it ──▶ leave(), with all of them closed
//! ```
//!
//! One that cannot be opened is tried again, while the others are served: what is wrong with it would be so at any
//! other node. One that cannot be served any more, as another node has taken it, or a thread panicked, ends the daemon
//! with all its cells: other nodes take them over.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use varve_access_admin::{Callers, ListenAddress};
use varve_client::{Failure, Result};
use varve_types::{ByteCount, CellId};

use crate::admin_runtime::{AdminRuntime, clean};
use crate::cell_front_ends::RelayListener;
use crate::config::Settings;
use crate::front::S3Socket;
use crate::home::PoolLocation;
use crate::node::{CellCommand, NodeHandle};
use crate::pool::NbdPlan;
use crate::pool_media::PoolMedia;
use crate::rados::RadosMedia;
use crate::served_cell::ServedCell;
use crate::signals::Signals;
use crate::{banner, notify};

/// What the cells of a node have in common.
#[derive(Clone)]
pub(super) struct CellPlan {
    pub(super) settings: Settings,
    pub(super) home: PoolLocation,
    /// The first cell.
    pub(super) first: Arc<RadosMedia>,
    pub(super) nbd: NbdPlan,
    pub(super) door: Arc<RelayListener>,
    /// Where callers of the admin API connect.
    pub(super) admin: Vec<ListenAddress>,
    /// As long as the node takes clients.
    pub(super) s3: Weak<S3Socket>,
}

/// Between two attempts to open a cell.
const OPEN_AGAIN: Duration = Duration::from_secs(10);

/// The end of a cell's thread.
struct CellEnd {
    cell: CellId,
    how: Result<()>,
}

/// Tells of it, also where the thread panics.
struct Tell {
    to: mpsc::UnboundedSender<CellEnd>,
    cell: CellId,
    how: Option<Result<()>>,
}

impl Tell {
    fn end(mut self, how: Result<()>) {
        self.how = Some(how);
    }
}

impl Drop for Tell {
    fn drop(&mut self) {
        let panicked = || Failure::new(format!("the thread of cell {} panicked", self.cell.0));
        let how = self.how.take().unwrap_or_else(|| Err(panicked()));
        let _ = self.to.send(CellEnd { cell: self.cell, how }); // The daemon may have ended.
    }
}

/// Cells by their threads.
struct CellThreads {
    plan: CellPlan,
    /// How to have them closed; `None` once that was asked for.
    closes: BTreeMap<CellId, Option<oneshot::Sender<()>>>,
    tell: mpsc::UnboundedSender<CellEnd>,
    ended: mpsc::UnboundedReceiver<CellEnd>,
}

/// Serves until a signal; returns once all cells that this node has are clean.
pub(super) fn serve(plan: CellPlan, runtime: &Runtime, mut seat: NodeHandle) -> Result<()> {
    let (tell, ended) = mpsc::unbounded_channel();
    let mut cells = CellThreads { plan, closes: BTreeMap::new(), tell, ended };
    runtime.block_on(async {
        let settings = cells.plan.settings.clone();
        let mut signals = Signals::install(settings.shutdown_limit())?;
        let front = seat.front();
        let summary = summary(&cells.plan.first);
        banner::print(&settings, &summary, &front.nbd_addresses(), &front.admin_addresses());
        notify::ready(&summary);
        tokio::select! {
            never = notify::beat() => match never {},
            () = signals.first() => {}
            served = cells.keep(&mut seat) => served?,
        }
        tracing::info!("ending: writing everything out");
        notify::stopping();
        seat.close();
        cells.close().await?;
        let left = tokio::task::spawn_blocking(move || seat.leave()).await; // NODE-1
        left.map_err(|error| Failure::new(format!("leave the pool's nodes: {error}")))?;
        clean(&settings);
        Ok(())
    })
}

impl CellThreads {
    /// Opens and closes cells as they are ordered, until one fails, or the node is given up.
    async fn keep(&mut self, seat: &mut NodeHandle) -> Result<()> {
        loop {
            tokio::select! {
                order = seat.next_order() => match order? {
                    CellCommand::Serve(cell) => self.open(cell)?,
                    CellCommand::Close(cell) => self.ask_to_close(cell),
                },
                Some(CellEnd { cell, how }) = self.ended.recv() => {
                    how?;
                    self.closes.remove(&cell);
                    seat.release(cell);
                }
            }
        }
    }

    fn open(&mut self, cell: CellId) -> Result<()> {
        let (close, until) = oneshot::channel();
        let tell = Tell { to: self.tell.clone(), cell, how: None };
        let plan = self.plan.clone();
        thread::Builder::new()
            .name(format!("cell {}", cell.0))
            .spawn(move || tell.end(serve_cell(plan, cell, until)))
            .map_err(|error| Failure::new(format!("start the thread of a cell: {error}")))?;
        self.closes.insert(cell, Some(close));
        Ok(())
    }

    fn ask_to_close(&mut self, cell: CellId) {
        if let Some(close) = self.closes.get_mut(&cell).and_then(Option::take) {
            tracing::info!(cell = cell.0, "a cell moves to another node");
            let _ = close.send(()); // It may have ended by itself.
        }
    }

    /// Closes all of them.
    async fn close(&mut self) -> Result<()> {
        for close in self.closes.values_mut().filter_map(Option::take) {
            let _ = close.send(()); // As above.
        }
        while !self.closes.is_empty() {
            let CellEnd { cell, how } = self.ended.recv().await.expect("this has a sender");
            how?;
            self.closes.remove(&cell);
        }
        Ok(())
    }
}

/// A cell's thread.
fn serve_cell(plan: CellPlan, cell: CellId, until: oneshot::Receiver<()>) -> Result<()> {
    let of_cell = |failure: Failure| failure.within(&format!("cell {} of the pool", cell.0));
    let runtime = AdminRuntime::make()?.0;
    let told = async move {
        let _ = until.await; // A daemon that has gone wants it, too.
    };
    let mut told = std::pin::pin!(told);
    let mut served = loop {
        let why = match plan.open(cell).map_err(of_cell) {
            Ok(served) => break served,
            // What this node's settings want cannot be.
            Err(failure) if failure.exit_code() == 2 => return Err(failure),
            Err(failure) => failure,
        };
        tracing::error!(what = why.what(), advice = why.advice(), "a cell is not served");
        let pause = async { tokio::time::timeout(OPEN_AGAIN, told.as_mut()).await };
        if runtime.block_on(pause).is_ok() {
            return Ok(()); // It was never open.
        }
    };
    served.s3.print();
    // What comes from networks has shown its token to the node that it came to.
    let admin = plan.admin.clone();
    runtime.block_on(served.serve(Callers::default(), admin, told)).map_err(of_cell)?;
    served.close(Some(&plan.door)).map_err(of_cell)
}

impl CellPlan {
    fn open(&self, cell: CellId) -> Result<ServedCell> {
        // Else the daemon is about to hear that it has been given up.
        if !self.door.is_mine(cell) {
            return Err(Failure::new("another node is to serve it"));
        }
        let Self { settings, home, first, nbd, door, s3, admin: _ } = self;
        let media = match cell {
            CellId::FIRST => Arc::clone(first),
            _ => Arc::new(first.cell(cell)?),
        };
        let s3 = s3.upgrade().unwrap_or_else(|| Arc::new(S3Socket::Off)); // The daemon ends.
        let (media, nbd) = (PoolMedia::Rados(media), nbd.clone());
        ServedCell::open(settings, home, media, nbd, Some(door), Some(&s3), || Ok(()))
    }
}

/// What people want to know first.
fn summary(first: &RadosMedia) -> String {
    let spec = first.spec();
    let (cells, shards) = (spec.cell.cells, spec.lane_count);
    let bytes = u64::from(cells) * u64::from(spec.segment_bytes) * u64::from(spec.segment_count);
    let plural = if shards == 1 { "" } else { "s" };
    let (pool, size) = (first.whole(), ByteCount(bytes));
    format!("its part of pool {pool} ({cells} cells of {shards} shard{plural}, {size})")
}
