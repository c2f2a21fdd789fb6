//! Signals: the first SIGTERM or SIGINT ends the daemon in order, within a limit, the second at once; SIGHUP ends
//! nothing.
//!
//! SIGNALS-1. They have a thread of their own, so that the second one, or the limit, ends the daemon whatever the other
//!     threads wait for, such as a drive that hangs.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use varve_client::{Failure, Result};

/// Signals this soon after the first count as one with it: service managers and `timeout` send several at once.
const SAME_REQUEST: Duration = Duration::from_millis(500);

/// The signals, caught from now on.
pub(crate) struct Signals {
    first: watch::Receiver<bool>,
}

impl Signals {
    /// Catches the signals, and ends the process so long after the first one at the latest. Before this they end the
    /// process, which a pool survives at any moment.
    pub(crate) fn install(limit: Duration) -> Result<Self> {
        let failed = |error| Failure::new(format!("catch signals: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let entered = runtime.enter();
        let caught = StopSignals {
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            limit,
        };
        drop(entered);
        let (sender, first) = watch::channel(false);
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || runtime.block_on(caught.wait(&sender)))
            .map_err(failed)?;
        Ok(Self { first })
    }

    /// Waits for the first signal.
    pub(crate) async fn first(&mut self) {
        // The thread lives as long as the process.
        let _ = self.first.wait_for(|came| *came).await;
    }
}

struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// How long an end in order may take.
    limit: Duration,
}

impl StopSignals {
    async fn wait(mut self, sender: &watch::Sender<bool>) {
        self.next().await;
        let first = Instant::now();
        let _ = sender.send(true);
        let limit = self.limit;
        let another = async {
            loop {
                self.next().await;
                if first.elapsed() >= SAME_REQUEST {
                    return;
                }
            }
        };
        // SIGNALS-1
        match tokio::time::timeout(limit, another).await {
            Ok(()) => end_at_once("ended by a second signal before everything was written out"),
            Err(_) => end_at_once(&format!(
                "not everything was written out within {} s, shutdown.limit_s: a drive may hang",
                limit.as_secs()
            )),
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits neither for requests under way nor for threads that hang.
fn end_at_once(why: &str) -> ! {
    let failure = Failure::new(why)
        .hint("nothing that was acknowledged is lost; the next start replays the journal");
    let _ = writeln!(std::io::stderr(), "{failure}");
    varve_stdx::end_process(failure.exit_code())
}

/// Catches SIGHUP for the life of the process: neither a terminal that closes nor a request to reload settings may end
/// it.
pub(crate) fn outlive_hangups() -> Result<()> {
    let failed = |error| Failure::new(format!("catch SIGHUP: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let entered = runtime.enter();
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    drop(entered);
    let wait = async move {
        while hangup.recv().await.is_some() {
            tracing::warn!(
                "SIGHUP is ignored: certificates and settings are read only at the start; restart the daemon to apply changes"
            );
        }
    };
    let spawned =
        thread::Builder::new().name("hangups".to_owned()).spawn(move || runtime.block_on(wait));
    spawned.map(drop).map_err(failed)
}
