//! The process: from the lock of the data directory to a pool that is left clean.

use std::sync::Arc;

use tokio::runtime::Runtime;
use varve_access_admin::{Callers, ListenAddress};
use varve_access_nbd::limits::THREAD_BYTES_MIN;
use varve_access_nbd::{ServiceOptions, TlsConfig, TlsFiles, TlsMode};
use varve_client::{Failure, Result};
use varve_engine::MemoryShares;

use crate::admin_runtime::{AdminRuntime, clean};
use crate::cell_front_ends::RelayListener;
use crate::cells::CellPlan;
use crate::config::{S3Listen, Settings, TlsSettings};
use crate::front::{FrontEnds, FrontSockets, FrontTls};
use crate::home::PoolLocation;
use crate::lock::DataLock;
use crate::names::NameLookup;
use crate::node::NodeHandle;
use crate::pool::{NbdPlan, NbdSockets};
use crate::pool_media::PoolMedia;
use crate::served_cell::ServedCell;
use crate::signals::Signals;
use crate::socket_access::SocketAccess;
use crate::{
    banner, cells, descriptors, metrics_listener, node, notify, process_metrics, signals, token,
};

/// Serves until a signal; returns once the pool is clean.
pub fn run(settings: &Settings) -> Result<()> {
    process_metrics::begin();
    signals::outlive_hangups()?;
    notify::start()?;
    let _lock = DataLock::take(&settings.data)?;
    descriptors::raise();
    let home = PoolLocation::choose(settings)?;
    node::check(settings, &home)?;
    if !home.is_remembered() {
        check_ports(settings)?; // A pool that could not be served would be left behind.
    }
    let media = home.open(settings)?;
    let _until_end = media.clone(); // Threads of shards end before what all of them share.
    let pool = media.pool();
    let runtime = AdminRuntime::make()?;
    let token = token::load(settings)?;
    if let Some(address) = metrics_listener::start(settings)? {
        tracing::info!(%address, "metrics and health are served");
    }
    let (nbd, tls) =
        nbd_plan(settings, settings.shards_at_once(media.lane_count(), media.cells()))?;
    let bind = || FrontSockets::bind(settings, runtime.bind(settings)?, token.clone());
    if let PoolMedia::Rados(first) = &media
        && media.cells() > 1
    {
        let names = NameLookup::start(first)?;
        let receive = |door: &RelayListener| FrontEnds::start(door, bind()?, tls.clone(), names);
        let seat = node::take_seat(settings, first, receive)?;
        let plan = CellPlan {
            nbd: nbd.of_node(&seat),
            door: Arc::clone(seat.door()),
            admin: seat.front().admin_addresses(),
            s3: Arc::downgrade(seat.front().s3()),
            first: Arc::clone(first),
            settings: settings.clone(),
            home,
        };
        return cells::serve(plan, &runtime.0, seat);
    }
    let receive = |door: &RelayListener| FrontEnds::start(door, bind()?, tls.clone(), None);
    let seat = node::join(settings, &media, receive)?;
    let (nbd, listeners) = match &seat {
        Some(seat) => (nbd.of_node(seat), Vec::new()),
        // Callers of the API wait in its socket from here on: once NBD answers, so does the API.
        None => (nbd.with_tls(tls), runtime.bind(settings)?),
    };
    let door = seat.as_ref().map(|seat| &**seat.door());
    let mut signals = None;
    let cell = ServedCell::open(
        settings,
        &home,
        media,
        nbd,
        door,
        seat.as_ref().map(|seat| &**seat.front().s3()),
        || {
            // Whoever has been served may rely on an end in order.
            signals = Some(Signals::install(settings.shutdown_limit())?);
            Ok(())
        },
    )?;
    home.remember(settings, pool)?;
    let callers = Callers { listeners, accepted: None, token };
    let signals = signals.expect("installed before it listens");
    control(settings, runtime.0, signals, callers, cell, seat)
}

/// Refuses TCP addresses that are taken, before a pool is made.
fn check_ports(settings: &Settings) -> Result<()> {
    let inherits = settings.nbd.listen.is_empty() && std::env::var_os("LISTEN_FDS").is_some();
    let nbd = if inherits { Vec::new() } else { settings.nbd_addresses() };
    let s3 = match settings.s3.effective_listen() {
        S3Listen::At(address) => Some(address),
        S3Listen::Default | S3Listen::Off => None, // The default may be taken.
    };
    let nbd = nbd.into_iter().map(|address| ("NBD", "--nbd", address));
    let s3 = s3.map(|address| ("S3", "--s3", address));
    let admin = settings.admin_listen.clone().map(|address| ("admin API", "--admin", address));
    for (what, flag, address) in nbd.chain(s3).chain(admin) {
        let ListenAddress::Tcp(address) = address else { continue };
        if let Err(error) = std::net::TcpListener::bind(address) {
            return Err(Failure::new(format!("{what}: listen on {address}: {error}")).hint(
                format!(
                    "see whether another process holds the address, or choose another with {flag}"
                ),
            ));
        }
    }
    Ok(())
}

/// How NBD is served, by sockets of the pool: addresses, and its share of memory; and its certificates.
fn nbd_plan(settings: &Settings, shards: u32) -> Result<(NbdPlan, FrontTls)> {
    let TlsSettings { certificate, key, client_ca, required } = settings.nbd.tls.clone();
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
    let request_bytes_max = shares.request_bytes.max(THREAD_BYTES_MIN);
    let plan = NbdPlan {
        options: ServiceOptions { request_bytes_max, ..ServiceOptions::default() },
        connections: descriptors::nbd_connections(settings),
        sockets: NbdSockets::Own {
            addresses: settings.nbd_addresses(),
            access: SocketAccess::of(settings)?,
            inherited_instead: settings.nbd.listen.is_empty(),
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
    fn of_node(self, seat: &NodeHandle) -> Self {
        let options = ServiceOptions { gate: Some(seat.door().gate()), ..self.options };
        let sockets = NbdSockets::OfNode(seat.front().nbd_addresses());
        Self { options, sockets, ..self }
    }
}

/// The control thread's work while the pool is served.
fn control(
    settings: &Settings,
    runtime: Runtime,
    mut signals: Signals,
    callers: Callers,
    mut cell: ServedCell,
    mut seat: Option<NodeHandle>,
) -> Result<()> {
    runtime.block_on(async {
        let admin = match &seat {
            Some(seat) => seat.front().admin_addresses(),
            None => callers.listeners.iter().map(|listener| listener.address().clone()).collect(),
        };
        banner::print(settings, &cell.pool.summary(), cell.pool.nbd_addresses(), &admin);
        cell.s3.print();
        notify::ready(&cell.pool.summary());
        tokio::select! {
            served = cell.serve(callers, admin, signals.first()) => served?,
            failure = given_up(seat.as_mut()) => return Err(failure),
            never = notify::beat() => match never {},
        }
        notify::stopping();
        tracing::info!("ending: writing everything out");
        let closing = tokio::task::spawn_blocking(move || {
            let door = seat.as_ref().map(|seat| Arc::clone(seat.door()));
            if let Some(seat) = &mut seat {
                seat.close();
            }
            cell.close(door.as_deref())?;
            if let Some(seat) = seat {
                seat.leave(); // NODE-1
            }
            Ok(())
        });
        closing.await.map_err(|error| Failure::new(format!("close the pool: {error}")))??;
        clean(settings);
        Ok(())
    })
}

/// Resolves when other nodes have given this one up, if it is one.
async fn given_up(seat: Option<&mut NodeHandle>) -> Failure {
    match seat {
        Some(seat) => seat.given_up().await,
        None => std::future::pending().await,
    }
}
