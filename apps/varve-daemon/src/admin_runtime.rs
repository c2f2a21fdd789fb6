//! The control thread's runtime, and the sockets of the admin API that it serves.

use tokio::runtime::Runtime;
use varve_access_admin::{ADMIN_SOCKET, ListenAddress, Listener};
use varve_access_block::notice_dead_peers;
use varve_client::{Failure, Result};

use crate::config::Settings;

/// The runtime of the control thread.
pub(crate) struct AdminRuntime(pub(crate) Runtime);

impl AdminRuntime {
    pub(crate) fn make() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let failed = |error| Failure::new(format!("start the control thread: {error}"));
        runtime.map(Self).map_err(failed)
    }

    /// The admin API's sockets.
    pub(crate) fn bind(&self, settings: &Settings) -> Result<Vec<Listener>> {
        self.0.block_on(admin_listeners(settings))
    }
}

async fn admin_listeners(settings: &Settings) -> Result<Vec<Listener>> {
    let mut listeners = Vec::new();
    let unix = settings.data.join(ADMIN_SOCKET);
    let _ = std::fs::remove_file(&unix); // Who holds the lock of the data directory is alone there.
    let unix = ListenAddress::Unix(unix);
    for address in std::iter::once(&unix).chain(&settings.admin_listen) {
        let listener = Listener::bind(address).await.map_err(|error| {
            let failure = Failure::new(format!("admin API: {error}"));
            match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
        if let ListenAddress::Tcp(_) = listener.address() {
            let failed = |error| Failure::new(format!("admin API: {error}"));
            notice_dead_peers(listener.as_fd()).map_err(failed)?;
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Nothing is served any more.
pub(crate) fn clean(settings: &Settings) {
    // What is left behind would answer nobody.
    let _ = std::fs::remove_file(settings.data.join(ADMIN_SOCKET));
    tracing::info!("pool clean");
}
