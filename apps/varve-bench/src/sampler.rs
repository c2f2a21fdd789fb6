//! Reads the machine's counters again and again, and tells what was used within a window.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use varve_access_admin::v1;
use varve_client::{Client, Failure, Result};
use varve_tool_bench::{CephCounters, Counters, MachineUsage, ServerCounters};

use super::background::Background;
use super::plan::RunPlan;

/// Time between two samples to begin with.
const INTERVAL: Duration = Duration::from_millis(250);

/// Most samples that are kept; then every other one is forgotten, and the time between two doubles.
const SAMPLES_MAX: usize = 4096;

/// Where a daemon's counters are.
const METRICS: &str = "/metrics";

type Samples = Vec<(Instant, Counters)>;

/// What was used from each moment to the next, with the time of the second since the window's beginning.
pub(super) type Timeline = Vec<(Duration, MachineUsage)>;

/// Samples from its start to its end; then it still tells what was.
pub(crate) struct Sampler {
    /// Processes that make the load.
    clients: Vec<u32>,
    samples: Arc<Mutex<Samples>>,
    thread: Option<Background<()>>,
}

impl Sampler {
    /// Begins to look at what `plan` names, and at the processes that make its load; nothing begins when the daemon or
    /// one of Ceph's does not answer.
    pub(crate) fn start(plan: &RunPlan, clients: Vec<u32>, client: &Client) -> Result<Self> {
        let server = plan.asks_server.then(|| Server::find(client.clone())).transpose()?;
        check_ceph(&plan.ceph)?;
        let processes = [plan.processes.as_slice(), &clients].concat();
        let ceph = plan.ceph.clone();
        let samples = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&samples);
        let thread = Background::start("sampler", move |end| {
            let mut interval = INTERVAL;
            loop {
                let mut counters = Counters::read(&processes);
                counters.server = server.as_ref().and_then(Server::ask);
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
        Ok(Self { clients, samples, thread: Some(thread) })
    }

    /// What was used within a window, by the samples that lie in it; `None` when these are fewer than two.
    pub(crate) fn within(&self, begin: Instant, end: Instant) -> Option<MachineUsage> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inside = samples.iter().filter(|(at, _)| (begin..=end).contains(at));
        let (first_at, first) = inside.next()?;
        let (last_at, last) = inside.next_back()?;
        let seconds = (*last_at - *first_at).as_secs_f64();
        Some(MachineUsage::between(first, last, seconds, &self.clients))
    }

    /// The same from each sample to the next.
    pub(crate) fn timeline(&self, begin: Instant, end: Instant) -> Timeline {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let inside: Vec<_> = samples.iter().filter(|(at, _)| (begin..=end).contains(at)).collect();
        let pairs = inside.windows(2).filter_map(|pair| {
            let [(first_at, first), (last_at, last)] = pair else { return None };
            let seconds = (*last_at - *first_at).as_secs_f64();
            Some((*last_at - begin, MachineUsage::between(first, last, seconds, &self.clients)))
        });
        pairs.collect()
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.end();
        }
    }
}

/// A daemon of Ceph as its socket is called: `ceph-osd.0`.
fn daemon_name(socket: &Path) -> String {
    let stem = socket.file_stem();
    stem.map_or_else(|| socket.display().to_string(), |stem| stem.to_string_lossy().into_owned())
}

/// A daemon that is asked for its counters.
struct Server {
    client: Client,
    pool_id: String,
}

impl Server {
    /// Sees that it can be asked.
    fn find(client: Client) -> Result<Self> {
        let metrics = client.text(METRICS)?;
        ServerCounters::read(&metrics).ok_or_else(|| {
            Failure::new("the daemon says nothing of its media: it is of an earlier version")
        })?;
        let pool_id = client.get::<v1::Status>("/v1/status")?.value.pool_id;
        Ok(Self { client, pool_id })
    }

    /// Its counters now; nothing when it does not answer, as its load may end it.
    fn ask(&self) -> Option<ServerCounters> {
        let counters = ServerCounters::read(&self.client.text(METRICS).ok()?)?;
        Some(counters.of_pool(&self.pool_id))
    }
}

/// That Ceph's daemons can be asked, before anything is measured.
fn check_ceph(sockets: &[PathBuf]) -> Result<()> {
    sockets.iter().try_for_each(|socket| {
        CephCounters::ask(socket).map(drop).map_err(|error| {
            Failure::new(format!("ask the daemon of Ceph at {}: {error}", socket.display()))
                .hint("name admin sockets, such as /var/run/ceph/ceph-osd.0.asok")
        })
    })
}
