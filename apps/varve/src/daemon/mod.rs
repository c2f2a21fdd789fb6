//! The daemon: takes the data directory, opens the pool, serves its admin API, and leaves it clean when told to end.
//!
//! It runs on the control thread; volumes are served by the pool's shard threads.

mod banner;
mod drives;
mod lock;
mod pool;
mod signals;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use varve_access_admin::{AdminBackend, LimitsConfig, ListenAddress, Listener, serve};

use crate::client::ADMIN_SOCKET;
use crate::config::Settings;
use crate::failure::{Failure, Result};

use self::drives::Drives;
use self::lock::DataLock;
use self::signals::Signals;

/// An open pool whose volumes are being served.
pub(crate) trait ServedPool: Send + Sized + 'static {
    /// What the admin API asks.
    fn backend(&self) -> Arc<dyn AdminBackend>;

    /// What people want to know first, such as `pool 6f… (2 shards, 64 GiB)`.
    fn summary(&self) -> String;

    /// Where NBD clients connect.
    fn nbd_addresses(&self) -> Vec<ListenAddress>;

    /// Answers what is under way, writes everything out and leaves a clean pool.
    fn close(self) -> Result<()>;
}

/// Serves until a signal; returns once the pool is clean.
pub(crate) fn run(settings: &Settings) -> Result<()> {
    let _lock = DataLock::take(&settings.data)?;
    let drives = Drives::choose(settings)?;
    let begin = Instant::now();
    let pool = pool::open(settings, &drives.entries)?;
    if !drives.remembered {
        drives.remember(&settings.data)?;
    }
    let open_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    tracing::info!(open_ms, pool = pool.summary(), "pool open");
    control(settings, pool)
}

/// The control thread's work while the pool is served.
fn control(settings: &Settings, pool: impl ServedPool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(format!("start the control thread: {error}")))?;
    runtime.block_on(async {
        let mut signals = Signals::install()?;
        let socket = settings.data.join(ADMIN_SOCKET);
        let listeners = admin_listeners(settings, &socket).await?;
        banner::print(settings, &pool, &listeners);
        let limits = LimitsConfig::default();
        serve(listeners, pool.backend(), limits, signals.first()).await;
        tracing::info!("ending: writing everything out");
        let closing = tokio::task::spawn_blocking(move || pool.close());
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
