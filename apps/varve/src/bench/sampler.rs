//! Reads the machine's counters again and again, and tells what was used within a window.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use varve_tool_bench::{CephCounters, Counters, ServerCounters, Usage};

use super::background::Background;
use crate::client::Client;
use crate::failure::{Failure, Result};

/// Time between two samples to begin with.
const INTERVAL: Duration = Duration::from_millis(250);

/// Most samples that are kept; then every other one is forgotten, and the time between two doubles.
const SAMPLES_MAX: usize = 4096;

/// Where a daemon's counters are.
const METRICS: &str = "/metrics";

type Samples = Vec<(Instant, Counters)>;

/// Samples from its start to its end.
pub(crate) struct Sampler {
    samples: Arc<Mutex<Samples>>,
    thread: Background<()>,
}

impl Sampler {
    /// Begins; `processes` are looked at one by one, and `server` and Ceph's daemons at these sockets are asked for their counters.
    pub(crate) fn start(
        processes: Vec<u32>,
        server: Option<Client>,
        ceph: Vec<PathBuf>,
    ) -> Result<Self> {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&samples);
        let thread = Background::start("sampler", move |end| {
            let mut interval = INTERVAL;
            loop {
                let mut counters = Counters::read(&processes);
                counters.server = server.as_ref().and_then(asked);
                for socket in &ceph {
                    let name = daemon_name(socket);
                    // One that does not answer has nothing to say of this moment.
                    let told = CephCounters::ask(socket).ok();
                    counters.ceph.extend(told.map(|told| (name, told)));
                }
                let sample = (Instant::now(), counters);
                let mut samples = shared.lock().unwrap_or_else(PoisonError::into_inner);
                samples.push(sample);
                if samples.len() == SAMPLES_MAX {
                    let mut is_kept = false;
                    samples.retain(|_| {
                        is_kept = !is_kept;
                        is_kept
                    });
                    interval *= 2;
                }
                drop(samples);
                if end.comes_within(interval) {
                    return;
                }
            }
        })?;
        Ok(Self { samples, thread })
    }

    /// What was used within a window, by the samples that lie in it; `None` when these are fewer than two.
    pub(crate) fn within(&self, begin: Instant, end: Instant) -> Option<Usage> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inside = samples.iter().filter(|(at, _)| (begin..=end).contains(at));
        let (first_at, first) = inside.next()?;
        let (last_at, last) = inside.next_back()?;
        Some(Usage::between(first, last, (*last_at - *first_at).as_secs_f64()))
    }

    /// The same from each sample to the next, with the time of the second since the window's beginning.
    pub(crate) fn timeline(&self, begin: Instant, end: Instant) -> Vec<(Duration, Usage)> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let inside: Vec<_> = samples.iter().filter(|(at, _)| (begin..=end).contains(at)).collect();
        let pairs = inside.windows(2).filter_map(|pair| {
            let [(first_at, first), (last_at, last)] = pair else { return None };
            let seconds = (*last_at - *first_at).as_secs_f64();
            Some((*last_at - begin, Usage::between(first, last, seconds)))
        });
        pairs.collect()
    }

    /// Ends it.
    pub(crate) fn end(self) {
        self.thread.end();
    }
}

/// A daemon of Ceph as its socket is called: `ceph-osd.0`.
fn daemon_name(socket: &Path) -> String {
    let stem = socket.file_stem();
    stem.map_or_else(|| socket.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// The server's counters now; nothing when it does not answer, as its load may end it.
fn asked(server: &Client) -> Option<ServerCounters> {
    ServerCounters::read(&server.text(METRICS).ok()?)
}

/// That Ceph's daemons can be asked, before anything is measured.
pub(crate) fn check_ceph(sockets: &[PathBuf]) -> Result<()> {
    sockets.iter().try_for_each(|socket| {
        CephCounters::ask(socket).map(drop).map_err(|error| {
            Failure::new(format!("ask the daemon of Ceph at {}: {error}", socket.display()))
                .hint("name admin sockets, such as /var/run/ceph/ceph-osd.0.asok")
        })
    })
}

/// That the server can be asked, before anything is measured.
pub(crate) fn check_server(server: &Client) -> Result<()> {
    let metrics = server.text(METRICS)?;
    ServerCounters::read(&metrics).map(drop).ok_or_else(|| {
        Failure::new("the daemon says nothing of its media: it is of an earlier version")
    })
}
