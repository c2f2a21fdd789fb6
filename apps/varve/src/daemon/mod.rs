//! The daemon: takes the data directory, opens the pool, serves its admin API, and leaves it clean when told to end.
//!
//! It runs on the control thread; volumes are served by the pool's shard threads.

mod backend;
mod banner;
pub(crate) mod drives;
mod engine_stack;
mod figures;
mod files;
mod fill;
mod holdings;
mod home;
mod in_process;
mod lock;
mod node;
mod objects;
mod online_check;
mod pool;
mod pool_media;
mod rados;
mod rados_cache;
mod rados_look;
mod rados_pools;
mod remembered;
mod s3;
mod s3_figures;
mod shard_thread;
mod signals;
mod snapshots;
mod stack;
mod threads;

use std::path::{Path, PathBuf};
use std::time::Instant;

use tokio::runtime::Runtime;
use varve_access_admin::{LimitsConfig, ListenAddress, Listener, serve};
use varve_access_nbd::limits::{CONNECTION_BYTES_MAX, CONNECTIONS_DEFAULT};
use varve_access_nbd::{ServiceOptions, TlsConfig, TlsFiles, TlsMode};
use varve_engine::MemoryShares;

use crate::client::ADMIN_SOCKET;
use crate::config::{Settings, TlsSettings};
use crate::failure::{Failure, Result};

pub(crate) use self::in_process::InProcess;
pub(crate) use self::rados::{RadosHome, RadosMedia};
pub(crate) use self::rados_look::{LookedRados, RadosLook};
pub(crate) use self::rados_pools::{
    NewRadosPool, attach as attach_rados_pool, create as create_rados_pool,
};

use self::backend::PoolFacts;
use self::engine_stack::{EngineSource, EngineStack};
use self::home::Home;
use self::lock::DataLock;
use self::node::NodeSeat;
use self::pool::{NbdPlan, Plan, Pool};
use self::s3::S3;
use self::signals::Signals;
use self::stack::ShardStack;

/// Serves until a signal; returns once the pool is clean.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    let _lock = DataLock::take(&settings.data)?;
    let begin = Instant::now();
    let home = Home::choose(settings)?;
    node::check(settings, &home)?;
    let media = home.open(settings)?;
    let nbd = nbd_plan(settings, media.lane_count())?;
    let source = EngineSource::new(settings, media);
    let facts = files::facts(settings, &source, home.drives(), home.journal())?;
    let seat = node::join(settings, &source.media)?;
    let facts = PoolFacts { standing_by: seat.as_ref().map(NodeSeat::standing_by), ..facts };
    let plan = Plan::<EngineStack> { facts, source, nbd };
    // Callers of the API wait in its socket from here on: once NBD answers, so does the API.
    let front = AdminFront::bind(settings)?;
    let pool = pool::open(plan)?;
    home.remember(settings)?;
    let open_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(open_ms, pool = pool.summary(), "pool open");
    let s3 = S3::start(settings, pool.object_links()?)?;
    control(settings, front, pool, s3, seat)
}

/// The admin API's sockets, and the runtime of the thread that will serve them.
struct AdminFront {
    runtime: Runtime,
    socket: PathBuf,
    listeners: Vec<Listener>,
}

impl AdminFront {
    fn bind(settings: &Settings) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::new(format!("start the control thread: {error}")))?;
        let socket = settings.data.join(ADMIN_SOCKET);
        let listeners = runtime.block_on(admin_listeners(settings, &socket))?;
        Ok(Self { runtime, socket, listeners })
    }
}

/// How NBD is served: certificates, addresses, and its share of memory.
fn nbd_plan(settings: &Settings, shards: u16) -> Result<NbdPlan> {
    let TlsSettings { certificate, key, client_ca, required } = settings.tls.clone();
    let tls = match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let files = TlsFiles { certificate, key, client_authorities: client_ca };
            let loaded = TlsConfig::load(&files);
            Some(loaded.map_err(|error| {
                Failure::new(error.to_string())
                    .hint("nbd.tls names PEM files that this user can read")
            })?)
        }
        _ => None,
    };
    let tls_mode = match (&tls, required) {
        (None, _) => TlsMode::Off,
        (Some(_), false) => TlsMode::Allow,
        (Some(_), true) => TlsMode::Require,
    };
    let shares = MemoryShares::of(settings.shard_memory(shards));
    let request_bytes_max = shares.request_bytes.max(CONNECTION_BYTES_MAX);
    Ok(NbdPlan {
        options: ServiceOptions { tls_mode, tls, request_bytes_max },
        connections_max: CONNECTIONS_DEFAULT,
        addresses: settings.nbd_addresses(),
        inherited_instead: settings.nbd_listen.is_empty(),
    })
}

/// The control thread's work while the pool is served.
fn control<S: ShardStack>(
    settings: &Settings,
    front: AdminFront,
    mut pool: Pool<S>,
    s3: S3,
    mut seat: Option<NodeSeat>,
) -> Result<()> {
    let AdminFront { runtime, socket, listeners } = front;
    runtime.block_on(async {
        let mut signals = Signals::install()?;
        banner::print(settings, &pool.summary(), pool.nbd_addresses(), &listeners);
        s3.print();
        let watching = pool.watch_fill();
        let backend = pool.backend(s3.objects());
        let api = serve(listeners, backend, LimitsConfig::default(), signals.first());
        tokio::select! {
            () = api => {}
            failure = pool.failed() => return Err(failure),
            failure = given_up(seat.as_mut()) => return Err(failure),
            never = watching => match never {},
        }
        tracing::info!("ending: writing everything out");
        let closing = tokio::task::spawn_blocking(move || {
            // Its requests go to every shard, so it ends first.
            drop(s3);
            pool.close()?;
            if let Some(seat) = seat {
                seat.leave(); // N1 of `node.rs`
            }
            Ok(())
        });
        tokio::select! {
            closed = closing => closed.map_err(|error| Failure::new(format!("close the pool: {error}")))??,
            () = signals.second() => return Err(Failure::new("ended by a second signal before everything was written out")
                .hint("nothing that was acknowledged is lost; the next start replays the journal")),
        }
        // What is left behind would answer nobody.
        let _ = std::fs::remove_file(&socket);
        tracing::info!("pool clean");
        Ok(())
    })
}

/// Resolves when other nodes have given this one up, if it is one.
async fn given_up(seat: Option<&mut NodeSeat>) -> Failure {
    match seat {
        Some(seat) => seat.given_up().await,
        None => std::future::pending().await,
    }
}

async fn admin_listeners(settings: &Settings, socket: &Path) -> Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    let unix = ListenAddress::Unix(socket.to_owned());
    for address in std::iter::once(&unix).chain(&settings.admin_listen) {
        let listener = Listener::bind(address).await.map_err(|error| {
            let failure = Failure::new(format!("admin API: {error}"));
            match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
        listeners.push(listener);
    }
    Ok(listeners)
}
