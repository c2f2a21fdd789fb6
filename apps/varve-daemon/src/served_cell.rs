//! A cell that this daemon serves: the pool itself, unless that has several.

use std::time::Instant;

use tokio::sync::mpsc;
use varve_access_admin::{Accepted, Callers, LimitsConfig, ListenAddress, serve};
use varve_client::{Failure, Result};
use varve_types::CellId;

use crate::backend::PoolFacts;
use crate::cell_front_ends::{CellFrontEnds, RelayListener};
use crate::config::Settings;
use crate::engine_stack::{EngineSource, EngineStack};
use crate::files;
use crate::front::S3Socket;
use crate::home::PoolLocation;
use crate::pool::{self, NbdPlan, PoolPlan, ServedPool};
use crate::pool_media::PoolMedia;
use crate::s3::S3;

/// Callers of the admin API that the node has accepted, and that may wait to be served.
const TAKEN_WAITING_MAX: usize = 64;

/// See the module.
pub(super) struct ServedCell {
    pub(super) pool: ServedPool<EngineStack>,
    pub(super) s3: S3,
    cell: CellId,
    /// Callers of the admin API that the node has accepted.
    accepted: Option<Accepted>,
}

impl ServedCell {
    /// Opens it, and calls `opened` before it listens; clients of the node, if this is one, are let in then. Blocks.
    pub(super) fn open(
        settings: &Settings,
        home: &PoolLocation,
        media: PoolMedia,
        nbd: NbdPlan,
        door: Option<&RelayListener>,
        s3: Option<&S3Socket>,
        opened: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let (begin, cell) = (Instant::now(), media.cell());
        let source = EngineSource::new(settings, media);
        let facts = files::facts(settings, &source, home.drives(), home.journal())?;
        let facts = PoolFacts { nodes: door.map(|door| door.watcher(cell)), ..facts };
        let pool = pool::open(PoolPlan::<EngineStack> { facts, source, nbd }, opened)?;
        let open_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(open_ms, pool = pool.summary(), "pool open");
        let s3 = if cell == CellId::FIRST {
            S3::start(settings, s3, pool.object_links()?)
        } else {
            S3::Off
        };
        let mut accepted = None;
        if let Some(door) = door {
            let (admin, taken) = mpsc::channel(TAKEN_WAITING_MAX);
            accepted = Some(taken);
            door.serve(cell, CellFrontEnds { nbd: pool.nbd_dealer(), s3: s3.taker(), admin });
        }
        Ok(Self { pool, s3, cell, accepted })
    }

    /// Serves the admin API, which listens at `admin`, and watches the pool, until told to end.
    pub(super) async fn serve(
        &mut self,
        callers: Callers,
        admin: Vec<ListenAddress>,
        until: impl Future<Output = ()>,
    ) -> Result<()> {
        let (filling, health) = (self.pool.watch_fill(), self.pool.watch_health());
        let (conditions, drives) = (self.pool.watch_conditions(), self.pool.watch_drives());
        let backend = self.pool.backend(self.s3.objects(), admin);
        let limits = LimitsConfig::default();
        let callers = Callers { accepted: self.accepted.take(), ..callers };
        tokio::select! {
            () = serve(callers, backend, limits, until) => Ok(()),
            failure = self.pool.failed() => Err(failure),
            never = filling => match never {},
            never = health => match never {},
            never = conditions => match never {},
            never = drives => match never {},
        }
    }

    /// Lets nobody in any more, answers what is under way, and leaves a clean cell. Blocks.
    pub(super) fn close(self, door: Option<&RelayListener>) -> Result<()> {
        let Self { pool, s3, cell, accepted } = self;
        if let Some(door) = door {
            door.close(cell);
        }
        drop(accepted);
        // Its requests go to every shard, so it ends first.
        drop(s3);
        pool.close().map_err(|failure| Failure::new(format!("close the pool: {failure}")))
    }
}
