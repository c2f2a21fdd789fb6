//! The S3 gateway: threads of its own, which reach the shards as the shards reach each other.
//!
//! G1: it ends, with all its requests answered or cut off, before the shards close.
//! G2: what was not asked for ends nothing: where the default address is taken, or the store cannot be opened, volumes are served without it.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use varve_access_admin::ListenAddress;
use varve_access_s3::{Clients, Gateway, MasterKey, Options, Tls};
use varve_dispatch::{Placement, PoolLinks};
use varve_object::{EngineOptions, EngineStore};
use varve_types::Reduction;

use crate::config::{S3Listen, Settings};
use crate::daemon::front::S3Socket;
use crate::daemon::links::S3Client;
use crate::daemon::objects::{GatewayAdmin, Objects};
use crate::failure::{Failure, Result};

/// File of the data directory with the key that secrets are sealed with.
const KEY_FILE: &str = "s3.key";
/// Bytes of dropped buffers kept for a thread that moves bodies.
const SPARE_BYTES: usize = 4 << 20;
/// File of the data directory that the first user's access key is handed over in: never standard output, which a service manager keeps.
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
    /// It could not be served (G2).
    Failed(Failure),
    /// It is served.
    On(Serving),
}

/// A gateway that serves.
pub(crate) struct Serving {
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
#[derive(Clone, Copy)]
enum Socket {
    /// To one of the gateway, there.
    Own(SocketAddr),
    /// To one of this node, which hands its clients, and those of others, on.
    OfNode(SocketAddr),
}

impl S3 {
    /// Serves as the settings say, on a pool that keeps objects.
    ///
    /// `node` is the socket that clients connect to where that is the node's.
    pub(crate) fn start(
        settings: &Settings,
        node: Option<&S3Socket>,
        links: Option<(PoolLinks, Placement)>,
    ) -> Result<Self> {
        let Some(links) = links else { return Ok(Self::Off) };
        match node {
            None => Self::chosen(&settings.s3.asked(), |address| {
                Serving::start(settings, Socket::Own(address), links)
            }),
            Some(S3Socket::Off) => Ok(Self::Off),
            Some(S3Socket::Failed(failure)) => Ok(Self::Failed(failure.clone())),
            Some(S3Socket::At(_, address)) => {
                Serving::start(settings, Socket::OfNode(*address), links).map(Self::On)
            }
        }
    }

    /// Looks whether a node that stands by could serve the objects of the pool once it is its turn: without the key that their users' secrets
    /// are sealed with it could not, and would end then.
    pub(crate) fn check_key(settings: &Settings) -> Result<()> {
        if settings.s3.asked() == S3Listen::Off || settings.data.join(KEY_FILE).exists() {
            return Ok(());
        }
        let what = format!("S3: {} has no {KEY_FILE}", settings.data.display());
        Err(Failure::misuse(what).hint("it belongs to the users of the pool's buckets: copy it from the data directory of the node that serves, or serve no S3 with --s3 none"))
    }

    /// Where clients go that the node has accepted, if it takes them.
    pub(crate) fn taker(&self) -> Option<mpsc::Sender<S3Client>> {
        match self {
            Self::On(serving) => serving.taker.clone(),
            Self::Off | Self::Failed(_) => None,
        }
    }

    /// G2.
    fn chosen(
        listen: &S3Listen,
        start: impl FnOnce(SocketAddr) -> Result<Serving>,
    ) -> Result<Self> {
        match listen {
            S3Listen::Off => Ok(Self::Off),
            S3Listen::At(ListenAddress::Tcp(address)) => start(*address).map(Self::On),
            S3Listen::At(address) => {
                Err(Failure::misuse(format!("S3 listener {address} is no TCP address")))
            }
            S3Listen::Default => Ok(start(S3Listen::DEFAULT).map_or_else(
                |failure| {
                    tracing::warn!(why = failure.what(), "S3 is not served");
                    Self::Failed(failure)
                },
                Self::On,
            )),
        }
    }

    /// What the admin API asks.
    pub(crate) fn objects(&self) -> Objects {
        match self {
            Self::Off => Objects::Off,
            Self::Failed(failure) => Objects::Failed {
                why: failure.what().to_owned(),
                hint: failure.advice().map(str::to_owned),
            },
            Self::On(serving) => Objects::On(serving.admin()),
        }
    }

    /// Prints where it is, and where the first key is; or why it is not served.
    pub(crate) fn print(&self) {
        let text = match self {
            Self::Off => return,
            Self::Failed(failure) => {
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

impl Serving {
    /// Listens and opens the store of objects.
    fn start(settings: &Settings, socket: Socket, links: (PoolLinks, Placement)) -> Result<Self> {
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
        let is_of_node = matches!(socket, Socket::OfNode(_));
        let (taker, accepted) = is_of_node.then(|| mpsc::channel(TAKEN_WAITING_MAX)).unzip();
        let encrypted = tls.is_some();
        let (address, opened, serving) = runtime.block_on(async {
            let (listener, bound) = match socket {
                Socket::OfNode(address) => (None, address),
                Socket::Own(address) => {
                    let bound = TcpListener::bind(address).await;
                    let bound = bound.and_then(|listener| Ok((listener.local_addr()?, listener)));
                    let (at, listener) = bound.map_err(|error| {
                        failed(&format!("listen on {address}: {error}"))
                            .hint("see whether another process holds the address, choose another with --s3, or none with --s3 none")
                    })?;
                    (Some(listener), at)
                }
            };
            let key = MasterKey::load(&settings.data.join(KEY_FILE)).map_err(|error| failed(&error))?;
            let options = Options {
                owner_key: Some(settings.data.join(OWNER_KEY_FILE)),
                access_log: Some(settings.data.join(ACCESS_LOG_DIR)),
                website_domain: settings.s3.website_domain.clone(),
                ..Options::default()
            };
            let objects = EngineOptions {
                reduction: Reduction::default(),
                bodies_bytes_max: settings.object_bodies_bytes(),
            };
            let store = EngineStore::open(links.0, links.1, objects).await.map_err(|error| failed(&error))?;
            let opened = Gateway::open(Arc::new(store), key, options).await.map_err(|error| {
                failed(&error).hint("the file s3.key of the data directory must be the one that was there when the keys were made")
            })?;
            let (lifecycle, front) = (opened.gateway.clone(), opened.gateway.clone());
            tokio::spawn(async move { lifecycle.run_lifecycle().await });
            let clients = Clients { listener, accepted };
            let serving = tokio::spawn(async move { front.serve(clients, tls, stopped).await });
            Ok::<_, Failure>((bound, opened, serving))
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

impl Drop for Serving {
    /// G1. Blocks, at most as long as requests may take to end.
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
    use super::*;

    #[test]
    fn a_node_that_is_to_serve_s3_needs_the_key_of_the_pool() {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = Settings { data: directory.path().to_owned(), ..Settings::default() };
        for listen in [S3Listen::Default, S3Listen::At("127.0.0.1:0".parse().unwrap())] {
            settings.s3.listen = listen;
            let failure = S3::check_key(&settings).err().unwrap();
            assert!(failure.what().contains("has no s3.key"), "{}", failure.what());
        }
        settings.s3.listen = S3Listen::Off;
        S3::check_key(&settings).unwrap();
        settings.s3.listen = S3Listen::Default;
        std::fs::write(directory.path().join(KEY_FILE), "").unwrap();
        S3::check_key(&settings).unwrap();
    }

    #[test]
    fn an_address_that_was_set_must_do_and_the_default_may_fail() {
        let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = held.local_addr().unwrap();
        let bind = |asked: SocketAddr| {
            let refused = std::net::TcpListener::bind(taken).unwrap_err();
            Err(Failure::new(format!("S3: listen on {asked}: {refused}")).hint("choose another"))
        };
        let at = S3Listen::At(ListenAddress::Tcp(taken));
        let failure = S3::chosen(&at, bind).err().unwrap();
        assert!(failure.what().contains(&format!("listen on {taken}: Address already in use")));
        let s3 = S3::chosen(&S3Listen::Default, bind).unwrap();
        let Objects::Failed { why, hint } = s3.objects() else { panic!("it is served") };
        assert!(why.starts_with("S3: listen on 127.0.0.1:9000: Address already in use"), "{why}");
        assert_eq!(hint.as_deref(), Some("choose another"));
        let off = S3::chosen(&S3Listen::Off, |_| panic!("nobody asked")).unwrap();
        assert!(matches!(off.objects(), Objects::Off));
        let socket = S3Listen::At("unix:s3.sock".parse().unwrap());
        assert!(S3::chosen(&socket, |_| panic!("no TCP address")).is_err());
    }
}
