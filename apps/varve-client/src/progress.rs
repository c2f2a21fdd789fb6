//! Progress on standard error, and the wish to end early.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

/// How often the progress line moves by itself.
const TICK: Duration = Duration::from_millis(200);

/// Shown while nobody has said yet how much there is to do.
const BEGINNING: &str = "{spinner} {msg}";

/// Of so many bytes.
const COUNTED: &str =
    "{spinner} {msg}  {bytes} of {total_bytes}  {binary_bytes_per_sec}  {eta} left";

/// Of bytes without a known end.
const UNCOUNTED: &str = "{spinner} {msg}  {bytes}  {binary_bytes_per_sec}";

/// Exit code of a command that was told twice to end: that of the signal.
const INTERRUPTED: i32 = 130;

/// Shared by the threads of a command.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Shows progress where standard error is a terminal, and catches Ctrl-C from now on.
    pub fn start() -> Self {
        Self::of(BEGINNING)
    }

    /// The same for work of which nobody knows how much there is.
    pub fn open_ended() -> Self {
        Self::of("{spinner} {msg}  {elapsed}")
    }

    fn of(template: &str) -> Self {
        let bar = ProgressBar::new(0).with_style(style(template));
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

    /// Shows what is being done.
    pub fn say(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// There are so many bytes to do, beside those that were said before.
    pub fn expect_bytes(&self, bytes: u64) {
        if self.bar.length() == Some(0) && bytes > 0 {
            self.bar.set_style(style(COUNTED));
        }
        self.bar.inc_length(bytes);
    }

    /// Bytes will be done, and nobody knows how many.
    pub fn expect_unknown_bytes(&self) {
        self.bar.set_style(style(UNCOUNTED));
    }

    /// So many bytes more are done.
    pub fn did_bytes(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Whether somebody wishes the command to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes the line away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is right")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_are_right() {
        let watch = Progress { bar: ProgressBar::hidden(), stop: Arc::default() };
        watch.bar.set_style(style(BEGINNING));
        watch.bar.set_length(0);
        watch.expect_bytes(4096);
        watch.expect_bytes(4096);
        assert_eq!(watch.bar.length(), Some(8192));
        watch.expect_unknown_bytes();
    }
}
