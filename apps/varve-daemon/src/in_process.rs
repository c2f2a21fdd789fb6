//! A pool that this process opens for itself, without front-ends: callers on other threads reach its volumes with no
//! protocol between.
//!
//! IN-PROCESS-1. It has the lock of the data directory, as a daemon has: neither runs beside the other.
//! IN-PROCESS-2. It is closed when no caller has a request under way.

use std::sync::Arc;

use varve_access_nbd::limits::THREAD_BYTES_MIN;
use varve_access_nbd::{ConnectionLimit, ServiceOptions, TlsMode};
use varve_client::{Failure, Result};
use varve_dataset::{Datasets, SharedDatasets};
use varve_dispatch::{Dispatch, Placement, PoolLinks};
use varve_reactor::Reactor;

use crate::config::Settings;
use crate::engine_stack::{EngineSource, EngineStack};
use crate::files;
use crate::home::PoolLocation;
use crate::lock::DataLock;
use crate::pool::{self, NbdPlan, NbdSockets, PoolPlan, ServedPool};
use crate::socket_access::SocketAccess;

/// See the module.
pub struct InProcess {
    pool: ServedPool<EngineStack>,
    way: VolumeRoute,
    _lock: DataLock, // IN-PROCESS-1
}

/// The way to the volumes, for any thread.
#[derive(Clone)]
pub struct VolumeRoute {
    links: PoolLinks,
    placement: Placement,
    shared: Arc<SharedDatasets>,
}

impl VolumeRoute {
    /// The volumes, for the thread of `reactor`.
    pub fn datasets(&self, reactor: &Reactor) -> Datasets {
        let Self { links, placement, shared } = self.clone();
        // A pool that is not on RADOS alone has one cell.
        Datasets::new(Dispatch::new(reactor.clone(), placement, links, None), shared, None)
    }
}

impl InProcess {
    /// Opens the pool that the data directory remembers, through recovery; none is made. Blocks.
    pub fn open(settings: &Settings) -> Result<Self> {
        let nothing = || {
            let what = format!("data directory {} holds no pool", settings.data.display());
            Failure::misuse(what)
                .hint("name that of a daemon, which is ended meanwhile, with --data")
        };
        if !settings.data.exists() {
            return Err(nothing());
        }
        let lock = DataLock::take(&settings.data)?;
        let home = PoolLocation::choose(settings)?;
        if !home.is_remembered() {
            return Err(nothing());
        }
        if home.is_reached_from_everywhere() {
            let what =
                "the pool lies on RADOS alone: opening it here takes it from whoever serves it";
            return Err(Failure::misuse(what).hint("measure through the daemon that serves it"));
        }
        let source = EngineSource::new(settings, home.open(settings)?);
        let shared = Arc::clone(&source.shared);
        let facts = files::facts(settings, &source, home.drives(), home.journal())?;
        let request_bytes_max = THREAD_BYTES_MIN;
        let options =
            ServiceOptions { tls_mode: TlsMode::Off, tls: None, request_bytes_max, gate: None };
        // Nobody can connect where nothing listens.
        let addresses = Vec::new();
        let nbd = NbdPlan {
            options,
            connections: ConnectionLimit::new(1),
            sockets: NbdSockets::Own {
                addresses,
                access: SocketAccess::PRIVATE,
                inherited_instead: false,
            },
        };
        let pool = pool::open(PoolPlan::<EngineStack> { source, facts, nbd }, || Ok(()))?;
        let links = pool.object_links()?;
        let (links, placement) = links.expect("the shipped stack has a way to the pool");
        Ok(Self { pool, way: VolumeRoute { links, placement, shared }, _lock: lock })
    }

    /// The way to its volumes. A thread lets go of what it opened before `close` (IN-PROCESS-2).
    pub fn way(&self) -> VolumeRoute {
        self.way.clone()
    }

    /// Writes everything out and leaves a clean pool. Blocks.
    pub fn close(self) -> Result<()> {
        let Self { pool, way, _lock: lock } = self;
        drop(way);
        let closed = pool.close();
        drop(lock);
        closed
    }
}
