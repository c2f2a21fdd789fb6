//! The S3 gateway: threads of its own, which reach the shards as the shards reach each other.
//!
//! GATEWAY-1: it ends, with all its requests answered or cut off, before the shards close.
//! GATEWAY-2: whatever is wrong with it keeps no volume from being served: it is told in the log, at the start, and in
//!     the status.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use varve_access_s3::{Clients, Gateway, KeyPlace, Options, Tls};
use varve_client::{Failure, Result};
use varve_dispatch::{Placement, PoolLinks};
use varve_object::{EngineOptions, EngineStore, ObjectStore, Settings as BucketSettings};

use crate::cell_front_ends::S3Client;
use crate::config::{S3Listen, Settings};
use crate::descriptors;
use crate::front::S3Socket;
use crate::objects::{GatewayAdmin, Objects, UNREAD};

/// File of the data directory with the key that secrets are sealed with.
pub(super) const KEY_FILE: &str = "s3.key";
/// What to do where the key is lost.
const KEY_LOST: &str = "stop the daemon, bring the key back with `varve pool keys import FILE`, or give up all access keys and encrypted objects with `varve pool keys renew`";
/// Bytes of dropped buffers kept for a thread that moves bodies.
const SPARE_BYTES: usize = 4 << 20;
/// File of the data directory that the first user's access key is handed over in: never standard output, which a
/// service manager keeps.
const OWNER_KEY_FILE: &str = "owner.key";
/// Directory of the data directory with the access logs of buckets.
const ACCESS_LOG_DIR: &str = "s3-log";
/// Time that requests under way have when the daemon ends.
const DRAIN: Duration = Duration::from_secs(10);
/// Clients that the node has accepted, and that may wait to be served.
const TAKEN_WAITING_MAX: usize = 128;
/// Threads of the gateway: it hashes what comes in, so it needs as many as there are cores, up to this.
const THREADS_MAX: usize = 16;

/// S3 in this daemon.
pub(crate) enum S3 {
    /// Nobody wants it.
    Off,
    /// It could not be served (GATEWAY-2); what the default address is taken by is no trouble of the daemon.
    Failed { failure: Failure, is_trouble: bool },
    /// It is served.
    On(RunningGateway),
}

/// A gateway that serves.
pub(crate) struct RunningGateway {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    serving: Option<JoinHandle<()>>,
    gateway: Gateway,
    address: SocketAddr,
    tls: bool,
    /// Where the owner's key is, as long as nobody has removed it from there.
    owner_key: Option<PathBuf>,
    taker: Option<mpsc::Sender<S3Client>>,
}

/// Where clients connect.
struct GatewaySocket {
    address: SocketAddr,
    /// That of the gateway; none: it is the node's, which hands its clients, and those of others, on.
    own: Option<std::net::TcpListener>,
}

impl S3 {
    /// Serves as the settings say, on a pool that keeps objects.
    ///
    /// `node` is the socket that clients connect to where that is the node's.
    pub(crate) fn start(
        settings: &Settings,
        node: Option<&S3Socket>,
        links: Option<(PoolLinks, Placement)>,
    ) -> Self {
        let Some(links) = links else { return Self::Off };
        let bound;
        let socket = match node {
            Some(socket) => socket,
            None => {
                bound = S3Socket::bind(settings);
                &bound
            }
        };
        let started = match socket {
            S3Socket::Off => return Self::Off,
            S3Socket::Failed { failure, is_asked } => {
                return Self::Failed { failure: failure.clone(), is_trouble: *is_asked };
            }
            S3Socket::At(_, address) if node.is_some() => RunningGateway::start(
                settings,
                GatewaySocket { address: *address, own: None },
                links,
            ),
            S3Socket::At(listener, address) => listener
                .try_clone()
                .map_err(|error| Failure::new(format!("S3: {error}")))
                .and_then(|own| {
                    RunningGateway::start(
                        settings,
                        GatewaySocket { address: *address, own: Some(own) },
                        links,
                    )
                }),
        };
        match started {
            Ok(serving) => Self::On(serving),
            Err(failure) => {
                let advice = failure.advice();
                tracing::error!(why = failure.what(), advice, "S3 is not served");
                Self::Failed { failure, is_trouble: true }
            }
        }
    }

    /// Looks whether a node that stands by could serve the objects of the pool once it is its turn: without the key
    /// that their users' secrets are sealed with it could not.
    pub(crate) fn check_key(settings: &Settings) -> Result<()> {
        let is_wanted = settings.s3.effective_listen() != S3Listen::Off;
        if !is_wanted || settings.s3.key_in_pool || settings.data.join(KEY_FILE).exists() {
            return Ok(());
        }
        let what = format!("S3: {} has no {KEY_FILE}", settings.data.display());
        Err(Failure::misuse(what).hint("it belongs to the users of the pool's buckets: copy it from the data directory of the node that serves, or serve no S3 with --s3 none"))
    }

    /// Where clients go that the node has accepted, if it takes them.
    pub(crate) fn taker(&self) -> Option<mpsc::Sender<S3Client>> {
        match self {
            Self::On(serving) => serving.taker.clone(),
            Self::Off | Self::Failed { .. } => None,
        }
    }

    /// What the admin API asks.
    pub(crate) fn objects(&self) -> Objects {
        match self {
            Self::Off => Objects::Off,
            Self::Failed { failure, is_trouble } => Objects::Failed {
                why: failure.what().to_owned(),
                hint: failure.advice().map(str::to_owned),
                is_trouble: *is_trouble,
            },
            Self::On(serving) => Objects::On(serving.admin()),
        }
    }

    /// Prints where it is, and where the first key is; or why it is not served.
    pub(crate) fn print(&self) {
        let text = match self {
            Self::Off => return,
            Self::Failed { failure, .. } => {
                let advice = failure.advice().map(|advice| format!("\n                {advice}"));
                format!(
                    "\nS3:             not served: {}{}\n",
                    failure.what(),
                    advice.unwrap_or_default()
                )
            }
            Self::On(serving) => serving.banner(),
        };
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
}

/// How the gateway serves, by the settings.
fn gateway_options(settings: &Settings) -> Options {
    Options {
        owner_key: Some(settings.data.join(OWNER_KEY_FILE)),
        connections_max: descriptors::s3_connections(settings),
        access_log: Some(settings.data.join(ACCESS_LOG_DIR)),
        website_domain: settings.s3.website_domain.clone(),
        domains: settings.s3.domains.clone(),
        signature_v2: settings.s3.signature_v2,
        connections_per_address: usize::from(settings.s3.connections_per_address),
        body_memory: settings.object_intake_bytes(),
        is_read_only: settings.redundancy.is_read_only,
        ..Options::default()
    }
}

/// Where the sealing key is kept.
pub(super) fn key_place(settings: &Settings) -> KeyPlace {
    KeyPlace { file: settings.data.join(KEY_FILE), in_pool: settings.s3.key_in_pool }
}

/// The objects of a pool.
async fn open_store(
    settings: &Settings,
    links: (PoolLinks, Placement),
) -> Result<Arc<dyn ObjectStore>> {
    let options = EngineOptions {
        reduction: BucketSettings::reduction_in,
        bodies_bytes_max: settings.object_bodies_bytes(),
        is_read_only: settings.redundancy.is_read_only,
    };
    let store = EngineStore::open(links.0, links.1, options).await.map_err(|error| {
        let failure = Failure::new(format!("S3: {error}"));
        match error {
            varve_object::Error::Unread { .. } => failure.hint(UNREAD),
            _ => failure,
        }
    })?;
    Ok(Arc::new(store))
}

impl RunningGateway {
    /// Opens the store of objects.
    fn start(
        settings: &Settings,
        socket: GatewaySocket,
        links: (PoolLinks, Placement),
    ) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("S3: {error}"));
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("s3")
            .on_thread_start(|| varve_stdx::limit_spare_memory(SPARE_BYTES))
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let tls = match (&settings.s3.certificate, &settings.s3.key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::load(certificate, key).map_err(|error| failed(&error))?)
            }
            _ => None,
        };
        let (stop, stopped) = watch::channel(false);
        let (taker, accepted) =
            socket.own.is_none().then(|| mpsc::channel(TAKEN_WAITING_MAX)).unzip();
        let encrypted = tls.is_some();
        let GatewaySocket { address, own } = socket;
        let (opened, serving) = runtime.block_on(async {
            let listener =
                own.map(|own| own.set_nonblocking(true).and_then(|()| TcpListener::from_std(own)));
            let listener = listener.transpose().map_err(|error| failed(&error))?;
            let options = gateway_options(settings);
            let store = open_store(settings, links).await?;
            let place = key_place(settings);
            let key = place.load(&*store).await.map_err(|error| match error {
                varve_access_s3::Error::KeyLost { .. } => failed(&error).hint(KEY_LOST),
                varve_access_s3::Error::KeyUnread { .. } => failed(&error).hint(UNREAD),
                _ => failed(&error),
            })?;
            let opened =
                Gateway::open(store, key, options).await.map_err(|error| failed(&error))?;
            let (lifecycle, front) = (opened.gateway.clone(), opened.gateway.clone());
            if !settings.redundancy.is_read_only {
                tokio::spawn(async move { lifecycle.run_lifecycle().await });
            }
            let clients = Clients { listener, accepted };
            let serving = tokio::spawn(async move { front.serve(clients, tls, stopped).await });
            Ok::<_, Failure>((opened, serving))
        })?;
        let gateway = opened.gateway;
        let owner_key = settings.data.join(OWNER_KEY_FILE);
        let owner_key = Some(owner_key).filter(|path| path.exists());
        Ok(Self {
            runtime: Some(runtime),
            stop,
            serving: Some(serving),
            gateway,
            address,
            tls: encrypted,
            owner_key,
            taker,
        })
    }

    fn admin(&self) -> GatewayAdmin {
        GatewayAdmin { gateway: self.gateway.clone(), address: self.address }
    }

    fn banner(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let mut text = format!("\nS3:             {scheme}://{}\n", self.address);
        if let Some(path) = &self.owner_key {
            text.push_str(&format!("key of `owner`: {}\n", path.display()));
        }
        text
    }
}

impl Drop for RunningGateway {
    /// GATEWAY-1. Blocks, at most as long as requests may take to end.
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        let (Some(runtime), Some(serving)) = (self.runtime.take(), self.serving.take()) else {
            return;
        };
        // On a thread of its own, as the caller may be a task of another runtime.
        let ending = std::thread::spawn(move || {
            let ended = runtime.block_on(async { tokio::time::timeout(DRAIN, serving).await });
            if ended.is_err() {
                tracing::warn!("S3 requests cut off at shutdown");
            }
            runtime.shutdown_timeout(DRAIN);
        });
        if ending.join().is_err() {
            tracing::error!("the S3 gateway panicked at its end");
        }
    }
}

#[cfg(test)]
mod tests {
    use varve_access_admin::ListenAddress;

    use super::*;

    #[test]
    fn a_node_that_is_to_serve_s3_needs_the_key_of_the_pool() {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings { data: directory.path().to_owned(), ..Settings::default() };
        settings.s3.key_in_pool = false;
        for listen in [S3Listen::Default, S3Listen::At("127.0.0.1:0".parse().unwrap())] {
            settings.s3.listen = listen;
            let failure = S3::check_key(&settings).err().unwrap();
            assert!(failure.what().contains("has no s3.key"), "{}", failure.what());
        }
        settings.s3.listen = S3Listen::Off;
        S3::check_key(&settings).unwrap();
        settings.s3.listen = S3Listen::Default;
        settings.s3.key_in_pool = true;
        S3::check_key(&settings).unwrap();
        settings.s3.key_in_pool = false;
        std::fs::write(directory.path().join(KEY_FILE), "").unwrap();
        S3::check_key(&settings).unwrap();
    }

    #[test]
    fn a_taken_address_is_trouble_only_where_it_was_asked_for() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = held.local_addr().unwrap();
        let mut settings = Settings::default();
        settings.s3.listen = S3Listen::At(ListenAddress::Tcp(taken));
        let S3Socket::Failed { failure, is_asked: true } = S3Socket::bind(&settings) else {
            panic!("the address is taken")
        };
        assert!(failure.what().contains(&format!("listen on {taken}: Address already in use")));
        settings.s3.listen = S3Listen::Off;
        assert!(matches!(S3Socket::bind(&settings), S3Socket::Off));
    }
}
