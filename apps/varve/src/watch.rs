//! Progress on standard error, and the wish to end early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

/// How often the progress line moves by itself.
const TICK: Duration = Duration::from_millis(200);

/// Exit code of a command that was told twice to end: that of the signal.
const INTERRUPTED: i32 = 130;

/// Shared by the threads of a command.
#[derive(Clone)]
pub(crate) struct Watch {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Watch {
    /// Shows progress where standard error is a terminal, and catches Ctrl-C from now on.
    pub(crate) fn start() -> Self {
        Self::of("{spinner} {msg}  {bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta} left")
    }

    /// The same for work of which nobody knows how much there is.
    pub(crate) fn open_ended() -> Self {
        Self::of("{spinner} {msg}  {elapsed}")
    }

    fn of(style: &str) -> Self {
        let style = ProgressStyle::with_template(style).expect("the template is right");
        let bar = ProgressBar::new(0).with_style(style);
        bar.enable_steady_tick(TICK);
        let stop = Arc::new(AtomicBool::new(false));
        let caught = Arc::clone(&stop);
        let (catches, catching) = mpsc::channel();
        // It ends with the process. Without it Ctrl-C ends the process at once, which harms nothing either.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let Ok(mut interrupts) = signal(SignalKind::interrupt()) else { return };
                let _nobody_waits = catches.send(());
                interrupts.recv().await;
                caught.store(true, Ordering::Relaxed);
                // A command that waits for somebody else does not look.
                interrupts.recv().await;
                std::process::exit(INTERRUPTED);
            });
        });
        let _cannot_be_caught = catching.recv();
        Self { bar, stop }
    }

    pub(crate) fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    pub(crate) fn expect_bytes(&self, bytes: u64) {
        self.bar.inc_length(bytes);
    }

    pub(crate) fn did_bytes(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
