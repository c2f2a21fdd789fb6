//! The S3 gateway: threads of its own, which reach the shards as the shards reach each other.
//!
//! G1: it ends, with all its requests answered or cut off, before the shards close.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use varve_access_admin::ListenAddress;
use varve_access_s3::{Gateway, MasterKey, NewKey, Opened, Options, Tls};
use varve_dispatch::{Placement, PoolLinks};
use varve_object::{EngineOptions, EngineStore};

use crate::config::Settings;
use crate::daemon::objects::GatewayAdmin;
use crate::failure::{Failure, Result};

/// File of the data directory with the key that secrets are sealed with.
const KEY_FILE: &str = "s3.key";
/// Time that requests under way have when the daemon ends.
const DRAIN: Duration = Duration::from_secs(10);
/// Threads of the gateway: it hashes what comes in, so it needs as many as there are cores, up to this.
const THREADS_MAX: usize = 16;

/// A gateway that serves.
pub(crate) struct S3 {
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    serving: Option<JoinHandle<()>>,
    gateway: Gateway,
    address: SocketAddr,
    tls: bool,
    first_key: Option<NewKey>,
}

impl S3 {
    /// Opens the store of objects and listens.
    pub(crate) fn start(
        settings: &Settings,
        address: &ListenAddress,
        links: (PoolLinks, Placement),
    ) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| Failure::new(format!("S3: {error}"));
        let ListenAddress::Tcp(address) = address else { return Err(failed(&"no TCP address")) };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("s3")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let tls = match (&settings.s3.certificate, &settings.s3.key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::load(certificate, key).map_err(|error| failed(&error))?)
            }
            _ => None,
        };
        let key = MasterKey::load(&settings.data.join(KEY_FILE)).map_err(|error| failed(&error))?;
        let (stop, stopped) = watch::channel(false);
        let encrypted = tls.is_some();
        let (address, opened, serving) = runtime.block_on(async {
            let listener = TcpListener::bind(address).await.map_err(|error| {
                failed(&format!("listen on {address}: {error}")).hint("see whether another process holds the address, or choose another with --s3")
            })?;
            let bound = listener.local_addr().map_err(|error| failed(&error))?;
            let store = EngineStore::open(links.0, links.1, EngineOptions::default()).await.map_err(|error| failed(&error))?;
            let opened = Gateway::open(Arc::new(store), key, Options::default()).await.map_err(|error| {
                failed(&error).hint("the file s3.key of the data directory must be the one that was there when the keys were made")
            })?;
            let (lifecycle, front) = (opened.gateway.clone(), opened.gateway.clone());
            tokio::spawn(async move { lifecycle.run_lifecycle().await });
            let serving = tokio::spawn(async move { front.serve(listener, tls, stopped).await });
            Ok::<_, Failure>((bound, opened, serving))
        })?;
        let Opened { gateway, first_key } = opened;
        Ok(Self {
            runtime: Some(runtime),
            stop,
            serving: Some(serving),
            gateway,
            address,
            tls: encrypted,
            first_key,
        })
    }

    /// What the admin API asks.
    pub(crate) fn admin(&self) -> GatewayAdmin {
        GatewayAdmin { gateway: self.gateway.clone(), address: self.address }
    }

    /// Tells where it is, and the first key, once.
    pub(crate) fn print(&self) {
        let scheme = if self.tls { "https" } else { "http" };
        let mut text = format!("\nS3:             {scheme}://{}\n", self.address);
        if let Some(NewKey { access_key, secret_key, user }) = &self.first_key {
            text.push_str(&format!(
                "key of `{user}`, shown only now:  {access_key}  {secret_key}\n"
            ));
        }
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    }
}

impl Drop for S3 {
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
