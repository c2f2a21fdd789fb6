//! SIGTERM and SIGINT: the first ends the daemon in order, the second at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Failure, Result};

/// Both signals, caught from now on.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals. Before this they end the process, which a pool survives at any moment.
    pub(crate) fn install() -> Result<Self> {
        let catch =
            |kind| signal(kind).map_err(|error| Failure::new(format!("catch signals: {error}")));
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
        })
    }

    /// Waits for the first signal.
    pub(crate) async fn first(&mut self) {
        self.next().await;
    }

    /// Waits for the one after it.
    pub(crate) async fn second(&mut self) {
        self.next().await;
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
