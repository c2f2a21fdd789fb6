//! Notifications to the service manager (`sd_notify`): ready, stopping, and keep-alives of the watchdog.
//!
//! A message is one datagram to the socket that `NOTIFY_SOCKET` names. Without that variable nothing is sent.

use std::convert::Infallible;
use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use varve_client::{Failure, Result};

/// Pause between two beats of the control thread.
const BEAT_PAUSE: Duration = Duration::from_secs(1);

/// The daemon serves, or stands by.
pub(super) fn ready(status: &str) {
    send(&format!("READY=1\nSTATUS={status}"));
}

/// The daemon ends in order, which may take a while.
pub(super) fn stopping() {
    send("STOPPING=1\nSTATUS=writing everything out");
}

/// Sends keep-alives, two within the time after which the service manager kills the daemon; none unless it asks for
/// them. They have a thread of their own, as the control thread blocks while it opens the pool or stands by, and they
/// cease while the control thread is stuck.
pub(super) fn start() -> Result<()> {
    let Some(pause) = watchdog(env::var("WATCHDOG_USEC").ok().as_deref()) else { return Ok(()) };
    let keep_alive = move || loop {
        if is_alive(*last_beat(), pause) {
            send("WATCHDOG=1");
        }
        thread::sleep(pause);
    };
    let spawned = thread::Builder::new().name("watchdog".to_owned()).spawn(keep_alive);
    spawned.map(drop).map_err(|error| Failure::new(format!("start the watchdog: {error}")))
}

/// When the control thread last ran its tasks, while it serves.
static LAST_BEAT: Mutex<Option<Instant>> = Mutex::new(None);

fn last_beat() -> MutexGuard<'static, Option<Instant>> {
    LAST_BEAT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_alive(beat: Option<Instant>, pause: Duration) -> bool {
    beat.is_none_or(|beat| beat.elapsed() < pause + 2 * BEAT_PAUSE)
}

/// Shows, as long as it is polled, that the control thread runs its tasks.
pub(super) async fn beat() -> Infallible {
    struct BeatGuard;
    impl Drop for BeatGuard {
        fn drop(&mut self) {
            *last_beat() = None;
        }
    }
    let _beating = BeatGuard;
    loop {
        *last_beat() = Some(Instant::now());
        tokio::time::sleep(BEAT_PAUSE).await;
    }
}

fn watchdog(micros: Option<&str>) -> Option<Duration> {
    let micros: u64 = micros?.parse().ok().filter(|micros| *micros > 0)?;
    Some(Duration::from_micros(micros / 2).max(Duration::from_millis(10)))
}

fn send(message: &str) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else { return };
    let bytes = socket.as_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&socket),
    };
    let sent = address
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, socket = %socket.display(), "the service manager was not notified");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keep_alives_are_sent_at_half_the_watchdogs_time() {
        assert_eq!(watchdog(None), None);
        assert_eq!(watchdog(Some("0")), None);
        assert_eq!(watchdog(Some("x")), None);
        assert_eq!(watchdog(Some("30000000")), Some(Duration::from_secs(15)));
        assert!(is_alive(None, Duration::ZERO), "nothing is served yet");
        assert!(is_alive(Some(Instant::now()), Duration::from_secs(60)));
        let stuck = Instant::now().checked_sub(Duration::from_secs(9));
        assert!(!is_alive(stuck, Duration::from_secs(5)));
    }
}
