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
mod front;
mod holdings;
mod home;
mod in_process;
mod links;
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

use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use varve_access_admin::{Accepted, LimitsConfig, ListenAddress, Listener, serve};
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
use self::front::{Front, FrontSockets, FrontTls};
use self::home::Home;
use self::links::Fronts;
use self::lock::DataLock;
use self::node::NodeSeat;
use self::pool::{NbdPlan, NbdSockets, Plan, Pool};
use self::s3::S3;
use self::signals::Signals;
use self::stack::ShardStack;

/// Callers of the admin API that the node has accepted, and that may wait to be served.
const TAKEN_WAITING_MAX: usize = 64;

/// Serves until a signal; returns once the pool is clean.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    let _lock = DataLock::take(&settings.data)?;
    let begin = Instant::now();
    let home = Home::choose(settings)?;
    node::check(settings, &home)?;
    let media = home.open(settings)?;
    let runtime = AdminRuntime::make()?;
    let (nbd, tls) = nbd_plan(settings, media.lane_count())?;
    let source = EngineSource::new(settings, media);
    let facts = files::facts(settings, &source, home.drives(), home.journal())?;
    let bind = || FrontSockets::bind(settings, runtime.bind(settings)?);
    let seat =
        node::join(settings, &source.media, |door| Front::start(door, bind()?, tls.clone()))?;
    let (nbd, listeners) = match &seat {
        Some(seat) => (nbd.of_node(seat), Vec::new()),
        // Callers of the API wait in its socket from here on: once NBD answers, so does the API.
        None => (nbd.with_tls(tls), runtime.bind(settings)?),
    };
    let facts = PoolFacts { nodes: seat.as_ref().map(|seat| seat.door().watcher()), ..facts };
    let plan = Plan::<EngineStack> { facts, source, nbd };
    let pool = pool::open(plan)?;
    home.remember(settings)?;
    let open_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(open_ms, pool = pool.summary(), "pool open");
    let s3_socket = seat.as_ref().map(|seat| seat.front().s3());
    let s3 = S3::start(settings, s3_socket, pool.object_links()?)?;
    let mut accepted = None;
    if let Some(seat) = &seat {
        let (admin, taken) = mpsc::channel(TAKEN_WAITING_MAX);
        accepted = Some(taken);
        seat.door().serve(Fronts { nbd: pool.nbd_dealer(), s3: s3.taker(), admin });
    }
    control(settings, AdminFront { runtime: runtime.0, listeners, accepted }, pool, s3, seat)
}

/// The runtime of the control thread.
struct AdminRuntime(Runtime);

impl AdminRuntime {
    fn make() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let failed = |error| Failure::new(format!("start the control thread: {error}"));
        runtime.map(Self).map_err(failed)
    }

    /// The admin API's sockets.
    fn bind(&self, settings: &Settings) -> Result<Vec<Listener>> {
        self.0.block_on(admin_listeners(settings))
    }
}

/// The admin API's sockets, and the runtime of the thread that will serve them.
struct AdminFront {
    runtime: Runtime,
    /// None where they are the node's.
    listeners: Vec<Listener>,
    /// Callers that the node has accepted.
    accepted: Option<Accepted>,
}

/// How NBD is served, by sockets of the pool: addresses, and its share of memory; and its certificates.
fn nbd_plan(settings: &Settings, shards: u16) -> Result<(NbdPlan, FrontTls)> {
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
    let plan = NbdPlan {
        options: ServiceOptions { request_bytes_max, ..ServiceOptions::default() },
        connections_max: CONNECTIONS_DEFAULT,
        sockets: NbdSockets::Own {
            addresses: settings.nbd_addresses(),
            inherited_instead: settings.nbd_listen.is_empty(),
        },
    };
    Ok((plan, FrontTls { mode: tls_mode, config: tls }))
}

impl NbdPlan {
    /// The threads are the end of TLS.
    fn with_tls(self, FrontTls { mode, config }: FrontTls) -> Self {
        let options = ServiceOptions { tls_mode: mode, tls: config, ..self.options };
        Self { options, ..self }
    }

    /// The node has the sockets, and is the end of TLS; what it hands on passes its gate.
    fn of_node(self, seat: &NodeSeat) -> Self {
        let options = ServiceOptions { gate: Some(seat.door().gate()), ..self.options };
        let sockets = NbdSockets::OfNode(seat.front().nbd_addresses());
        Self { options, sockets, ..self }
    }
}

/// The control thread's work while the pool is served.
fn control<S: ShardStack>(
    settings: &Settings,
    front: AdminFront,
    mut pool: Pool<S>,
    s3: S3,
    mut seat: Option<NodeSeat>,
) -> Result<()> {
    let AdminFront { runtime, listeners, accepted } = front;
    runtime.block_on(async {
        let mut signals = Signals::install()?;
        let admin = match &seat {
            Some(seat) => seat.front().admin_addresses(),
            None => listeners.iter().map(|listener| listener.address().clone()).collect(),
        };
        banner::print(settings, &pool.summary(), pool.nbd_addresses(), &admin);
        s3.print();
        let watching = pool.watch_fill();
        let backend = pool.backend(s3.objects());
        let api = serve(listeners, accepted, backend, LimitsConfig::default(), signals.first());
        tokio::select! {
            () = api => {}
            failure = pool.failed() => return Err(failure),
            failure = given_up(seat.as_mut()) => return Err(failure),
            never = watching => match never {},
        }
        tracing::info!("ending: writing everything out");
        let closing = tokio::task::spawn_blocking(move || {
            if let Some(seat) = &mut seat {
                seat.close();
            }
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
        let _ = std::fs::remove_file(settings.data.join(ADMIN_SOCKET));
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

async fn admin_listeners(settings: &Settings) -> Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    let unix = ListenAddress::Unix(settings.data.join(ADMIN_SOCKET));
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
